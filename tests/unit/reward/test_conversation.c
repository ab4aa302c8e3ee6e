/* The rewards of multi-turn GRPO equal to plain Python's on the conversations of
 * tests/golden, whole and turn by turn. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "environment/env/protocol.h"
#include "environment/trajectory/builder.h"

#include <searchr1/env.h>
#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/ext/reward_set.h>

#include "../../support/torture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TURNS 16
#define MAX_TRUTHS 8

static const char *const names[] = {"tool_execution", "answer_in_results",
                                    "answer_present", "mt_exact_match",
                                    "mt_format",      "xml"};
#define N_NAMES 6
static const char all_names[] =
    "tool_execution,answer_in_results,answer_present,mt_exact_match,mt_format,xml";

/* ---- a conversation as a trajectory ---- */

static sr1_status add_back(struct sr1__trajectory_builder *b, const char *body,
                           int tagged, int32_t turn)
{
    static const char border[] = "<|im_end|>\n<|im_start|>user\n";
    static const int32_t ids[2] = {5, 6};
    struct sr1__buf text;
    size_t begin;
    sr1_status status;

    sr1__buf_init(&text, 0);
    sr1__buf_fmt(&text, "%s%s", border, tagged ? "<result>\n" : "");
    begin = text.len;
    sr1__buf_str(&text, body);
    sr1__buf_fmt(&text, "%s<|im_end|>\n", tagged ? "\n</result>" : "");
    status = sr1__buf_status(&text, "block");
    if (status == SR1_OK)
        status = sr1__trajectory_builder_environment(b, ids, 2, turn, text.data, text.len,
                                                     begin, strlen(body));
    sr1__buf_free(&text);
    return status;
}

static sr1_status add_turn(struct sr1__trajectory_builder *b, const json_t *turn,
                           int32_t k)
{
    const char *said = json_string_value(json_array_get(turn, 0));
    const char *back = json_string_value(json_array_get(turn, 1));
    int tagged = (int)json_integer_value(json_array_get(turn, 2));
    int how = (int)json_integer_value(json_array_get(turn, 3));

    SR1__TRY(sr1__trajectory_builder_policy(b, 7, -1, k, said, strlen(said)));
    if (back == NULL)
        return SR1_OK;
    SR1__TRY(sr1__trajectory_builder_action(b, k, "{}", 2, how, 0, NULL));
    return add_back(b, back, tagged, k);
}

static sr1_status build(const json_t *j, sr1_trajectory **out)
{
    static const int32_t prompt[1] = {1};
    const json_t *turns = json_object_get(j, "turns"), *turn;
    const json_t *truths = json_object_get(j, "truths"), *truth;
    const char *list[MAX_TRUTHS];
    struct sr1__trajectory_context c = {1, 1, 0, 0, NULL, list, NULL, 0};
    struct sr1__trajectory_builder *b = NULL;
    sr1_status status;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)truths, i, truth)
    {
        assert_true(i < MAX_TRUTHS);
        list[c.n_ground_truths++] = json_string_value(truth);
    }
    SR1__TRY(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0));
    status = sr1__trajectory_builder_context(b, &c);
    if (status == SR1_OK)
        status = sr1__trajectory_builder_prompt(b, prompt, 1);
    json_array_foreach((json_t *)(uintptr_t)turns, i, turn) if (status == SR1_OK) status =
        add_turn(b, turn, (int32_t)i);
    if (status != SR1_OK) {
        sr1__trajectory_builder_free(b);
        return status;
    }
    return sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, "", 0, out);
}

/* ---- the vectors ---- */

static sr1_reward_set *open_set(const char *list)
{
    sr1_reward_options o = {sizeof o, list, NULL, "mt-grpo", NULL};
    sr1_reward_set *set = NULL;

    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    return set;
}

static double number(const json_t *j, const char *key)
{
    assert_true(json_is_number(json_object_get(j, key)));
    return json_number_value(json_object_get(j, key));
}

/* whole, in proportion to share among the shares of all n turns. */
static double portion(double whole, const json_t *shares, size_t k)
{
    size_t n = json_array_size(shares), i;
    double sum = 0;

    for (i = 0; i < n; i++)
        sum += json_number_value(json_array_get(shares, i));
    return sum > 0 ? whole * json_number_value(json_array_get(shares, k)) / sum
                   : whole / (double)n;
}

static void check_turns(sr1_reward_set *set, const sr1_trajectory *t, const json_t *j,
                        size_t line)
{
    const json_t *execution = json_object_get(j, "execution_turns");
    const json_t *results = json_object_get(j, "results_turns");
    int64_t begin[2] = {0, sr1_trajectory_turn_count(t)};
    double parts[MAX_TURNS][N_NAMES], totals[MAX_TURNS];
    size_t n = (size_t)begin[1], k, i;

    assert_int_equal(n, json_array_size(json_object_get(j, "turns")));
    assert_true(n <= MAX_TURNS);
    assert_int_equal(sr1_reward_set_score_turns(set, &t, 1, begin, &parts[0][0], totals),
                     SR1_OK);
    for (k = 0; k < n; k++) {
        double e = json_number_value(json_array_get(execution, k));
        double r = json_number_value(json_array_get(results, k));
        double want = portion(number(j, names[0]), execution, k) +
                      portion(number(j, names[1]), results, k);

        if (parts[k][0] != e || parts[k][1] != r || fabs(totals[k] - want) > 1e-15)
            fail_msg("line %zu, turn %zu: %g %g %g, not %g %g", line, k, parts[k][0],
                     parts[k][1], totals[k], e, r);
        for (i = 2; i < N_NAMES; i++)
            assert_true(parts[k][i] == 0);
    }
}

static void check_line(sr1_reward_set *set, const json_t *j, size_t line)
{
    sr1_trajectory *t = NULL;
    double parts[N_NAMES];
    int32_t turn = 99;
    size_t i;

    assert_int_equal(build(j, &t), SR1_OK);
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, parts, NULL),
        SR1_OK);
    for (i = 0; i < N_NAMES; i++)
        if (parts[i] != number(j, names[i]))
            fail_msg("line %zu: %s is %.17g, not %.17g", line, names[i], parts[i],
                     number(j, names[i]));
    check_turns(set, t, j, line);
    assert_int_equal(sr1_protocol_result_turn("mt-grpo", t, &turn), SR1_OK);
    assert_int_equal(turn, (int)number(j, "result_turn"));
    sr1_trajectory_free(t);
}

static struct sr1__buf read_vectors(void)
{
    struct sr1__buf text;
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/golden/conversations.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    return text;
}

static void rewards_equal_python(void **state)
{
    sr1_reward_set *set = open_set(all_names);
    struct sr1__buf text = read_vectors();
    char *line, *end;
    size_t n = 0;

    (void)state;
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *j = NULL;

        assert_int_equal(sr1__json_parse(&j, line, (size_t)(end - line), "line"), SR1_OK);
        check_line(set, j, ++n);
        json_decref(j);
    }
    assert_true(n > 600);
    sr1__buf_free(&text);
    sr1_reward_set_free(set);
}

/* ---- sets ---- */

/* The first vector, a good conversation of two turns. */
static sr1_trajectory *good(void)
{
    struct sr1__buf text = read_vectors();
    sr1_trajectory *t = NULL;
    json_t *j = NULL;

    assert_int_equal(sr1__json_parse(&j, text.data,
                                     (size_t)(strchr(text.data, '\n') - text.data), "x"),
                     SR1_OK);
    assert_int_equal(build(j, &t), SR1_OK);
    json_decref(j);
    sr1__buf_free(&text);
    return t;
}

static void a_good_conversation_gets_the_most(void **state)
{
    sr1_reward_set *set = open_set(all_names);
    sr1_trajectory *t = good();
    double total = 0;

    (void)state;
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, NULL, &total),
        SR1_OK);
    /* turn rewards 0.2 + 0.5; outcome 0.5 + 1 + 0.2 + 0.2: the published maxima */
    assert_true(total > 0.7 + 1.9 - 1e-12 && total < 0.7 + 1.9 + 1e-12);
    sr1_trajectory_free(t);
    sr1_reward_set_free(set);
}

static sr1_status twice_the_turn(void *self, const sr1_trajectory *t, double *out)
{
    int32_t k;

    for (k = 0; k < sr1_trajectory_turn_count(t); k++)
        out[k] = *(const double *)self * k;
    return SR1_OK;
}

static sr1_status three(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    (void)self;
    (void)t;
    while (n-- > 0)
        out[n] = 3;
    return SR1_OK;
}

/* Messages with several calls, and what stands between the outer tags of their results.
 */
#define CALL "<tool_call>{}</tool_call>"
#define BETWEEN "\n</tool_response>\n<tool_response>\n"
static const struct calls_case {
    const char *said, *results;
    int32_t status[3], attempts, successes;
} calls_cases[] = {
    {CALL CALL CALL, "a" BETWEEN "Error: no" BETWEEN "b", {0}, 3, 2},
    {CALL CALL, "Error: no" BETWEEN "Error: no", {0}, 2, 0},
    {CALL CALL CALL, "" BETWEEN "a" BETWEEN "b", {SR1_ACTION_TIMEOUT}, 2, 2},
    {CALL CALL, "a" BETWEEN "", {0, SR1_ACTION_ERROR}, 1, 1},
    {CALL CALL, "a" BETWEEN "b" BETWEEN "c", {0}, 2, 2}, /* one has the words in it */
    {CALL, "a", {0}, 1, 1},
    {"No call.", "Error: there is no call", {0}, 0, 0},
};

static sr1_status build_calls(const struct calls_case *c, sr1_trajectory **out)
{
    static const int32_t id[1] = {5};
    struct sr1__trajectory_builder *b = NULL;
    char text[4096];
    int k = 0;

    SR1__TRY(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0));
    SR1__TRY(sr1__trajectory_builder_prompt(b, id, 1));
    SR1__TRY(sr1__trajectory_builder_policy(b, 7, -1, 0, c->said, strlen(c->said)));
    for (const char *at = c->said; (at = strstr(at, "{}")); at += 2)
        SR1__TRY(sr1__trajectory_builder_action(b, 0, "{}", 2, k < 3 ? c->status[k++] : 0,
                                                0, NULL));
    snprintf(text, sizeof text, "<tool_response>\n%s\n</tool_response>", c->results);
    SR1__TRY(sr1__trajectory_builder_environment(b, id, 1, 0, text, strlen(text), 16,
                                                 strlen(c->results)));
    return sr1__trajectory_builder_finish(b, SR1_STOP_EOS, "", 0, out);
}

/* Each call counts by its own result. */
static void calls_of_one_message_count_each(void **state)
{
    sr1_reward_options o = {sizeof o, "tool_execution", NULL, "hermes", NULL};
    int64_t begin[2] = {0, 1};
    sr1_reward_set *set = NULL;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    for (size_t i = 0; i < sizeof calls_cases / sizeof *calls_cases; i++) {
        const struct calls_case *c = &calls_cases[i];
        double whole = 9, share = 9, n = c->attempts ? c->attempts : 1;
        sr1_trajectory *t = NULL;
        const sr1_trajectory *one;

        assert_int_equal(build_calls(c, &t), SR1_OK);
        one = t;
        assert_int_equal(sr1_reward_set_score(set, &one, 1, &whole, NULL), SR1_OK);
        assert_int_equal(sr1_reward_set_score_turns(set, &one, 1, begin, &share, NULL),
                         SR1_OK);
        if (fabs(whole - 0.2 * c->successes / n) > 1e-12 || share != c->successes)
            fail_msg("case %zu: %g, %g", i, whole, share);
        sr1_trajectory_free(t);
    }
    sr1_reward_set_free(set);
}

/* What a file holds: more calls, and results, than a message of ours can make. */
static void more_calls_than_there_may_be_are_counted(void **state)
{
    enum { CALLS = 33 };
    static char said[CALLS * sizeof CALL], results[CALLS * sizeof BETWEEN + CALLS + 1];
    struct calls_case c = {said, results, {0}, CALLS, CALLS};
    sr1_reward_options o = {sizeof o, "tool_execution", NULL, "hermes", NULL};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t = NULL;
    double whole = 9;

    (void)state;
    for (int i = 0; i < CALLS; i++) {
        strcat(said, CALL);
        strcat(results, i == 0 ? "a" : BETWEEN "a");
    }
    assert_int_equal(build_calls(&c, &t), SR1_OK);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, &whole, NULL),
        SR1_OK);
    assert_true(fabs(whole - 0.2) < 1e-12);
    sr1_trajectory_free(t);
    sr1_reward_set_free(set);
}

static void rewards_have_levels(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "mine",
                          .score = three,
                          .level = SR1_REWARD_TURN,
                          .score_turns = twice_the_turn};
    sr1_reward_set *set = open_set("format,tool_execution,xml");
    const sr1_trajectory *t = good();
    int64_t begin[3] = {0, 2, 4}, wrong[2] = {0, 3};
    const sr1_trajectory *two[2] = {t, t};
    double parts[4][4], totals[4], two_value = 2;

    (void)state;
    assert_int_equal(sr1_reward_set_add(set, &ops, &two_value, 10), SR1_OK);
    assert_int_equal(sr1_reward_set_level(set, 0), SR1_REWARD_OUTCOME);
    assert_int_equal(sr1_reward_set_level(set, 1), SR1_REWARD_TURN);
    assert_int_equal(sr1_reward_set_level(set, 2), SR1_REWARD_OUTCOME);
    assert_int_equal(sr1_reward_set_level(set, 3), SR1_REWARD_TURN);
    assert_int_equal(sr1_reward_set_level(set, 4), -1);
    assert_int_equal(sr1_reward_set_score_turns(set, two, 2, begin, &parts[0][0], totals),
                     SR1_OK);
    assert_true(totals[0] == 0.2 && totals[1] == 30 && totals[2] == 0.2 &&
                totals[3] == 30);
    assert_true(parts[1][3] == 2 && parts[3][3] == 2 && parts[2][1] == 1);
    two_value = 0; /* no turn did anything for it: evenly */
    assert_int_equal(sr1_reward_set_score_turns(set, two, 2, begin, NULL, totals),
                     SR1_OK);
    assert_true(totals[0] == 0.2 + 15 && totals[1] == 15);
    assert_int_equal(sr1_reward_set_score_turns(set, two, 1, wrong, NULL, totals),
                     SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "trajectory 0 has 2 turns"));
    assert_int_equal(sr1_reward_set_score_turns(set, two, 1, NULL, NULL, totals),
                     SR1_E_INVALID);
    ops.name = "odd";
    ops.level = 7;
    assert_int_equal(sr1_reward_set_add(set, &ops, NULL, 1), SR1_E_INVALID);
    two_value = -1;
    assert_int_equal(sr1_reward_set_score_turns(set, two, 1, begin, NULL, totals),
                     SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "'mine' of turn"));
    sr1_trajectory_free((sr1_trajectory *)(uintptr_t)t);
    sr1_reward_set_free(set);
}

static sr1_status score_all(void *arg)
{
    sr1_reward_options o = {sizeof o, all_names, NULL, "mt-grpo", NULL};
    const sr1_trajectory *t = arg;
    int64_t begin[2] = {0, 2};
    sr1_reward_set *set = NULL;
    double total, turns[2];
    sr1_status status = sr1_reward_set_new(&set, &o);

    if (status == SR1_OK)
        status = sr1_reward_set_score(set, &t, 1, NULL, &total);
    if (status == SR1_OK)
        status = sr1_reward_set_score_turns(set, &t, 1, begin, NULL, turns);
    sr1_reward_set_free(set);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    sr1_trajectory *t = good();

    (void)state;
    assert_true(torture(score_all, t) > 20);
    sr1_trajectory_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewards_equal_python),
        cmocka_unit_test(a_good_conversation_gets_the_most),
        cmocka_unit_test(calls_of_one_message_count_each),
        cmocka_unit_test(more_calls_than_there_may_be_are_counted),
        cmocka_unit_test(rewards_have_levels),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
