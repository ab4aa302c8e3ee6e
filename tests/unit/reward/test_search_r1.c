/* Search-R1's published texts, cuts, parse and scorers, byte for byte those of plain
 * Python (tests/golden/make_search_r1_vectors.py). */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/data/question.h"
#include "environment/env/env.h"
#include "environment/trajectory/builder.h"

#include <searchr1/env.h>
#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>

#include "../../support/torture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRUTHS 8
#define PROTOCOL "search-r1-compat"

/* ---- the vectors ---- */

/* Call fn on each row of that kind; their number. */
static size_t each(const char *kind, void (*fn)(const json_t *row))
{
    char path[4096];
    struct sr1__buf b;
    const char *at;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/tests/golden/search_r1.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, (size_t)1 << 22, &b), SR1_OK);
    for (at = sr1__buf_cstr(&b); *at; at += strcspn(at, "\n") + 1) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, at, strcspn(at, "\n"), "vector"), SR1_OK);
        if (strcmp(json_string_value(json_object_get(row, "kind")), kind) == 0) {
            fn(row);
            n++;
        }
        json_decref(row);
    }
    sr1__buf_free(&b);
    return n;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));

    assert_non_null(s);
    return s;
}

/* ---- texts ---- */

static void check_prompt(const json_t *row)
{
    const char *question = text_of(row, "question");
    struct sr1__prompt_template *t = NULL;
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__question_template(&t, SR1__QUESTION_SEARCH_R1), SR1_OK);
    assert_int_equal(sr1__question_render(t, question, strlen(question), &b, NULL),
                     SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), text_of(row, "text"));
    sr1__buf_free(&b);
    sr1__prompt_template_free(t);
}

static void prompts_equal_python(void **state)
{
    (void)state;
    assert_int_equal(each("prompt", check_prompt), 9);
}

static void questions_are_found_again(void **state)
{
    static const char *const pairs[][2] = {
        {"Answer the given question. Do it. Question: who?\n", "who?"},
        {"\nAnswer the given question. So. Question: what does \"Question: two\" ask? \n",
         "what does \"Question: two\" ask?"},
        {"who is it?", "who is it?"},
        {"Do it. Question: who?\n", "Do it. Question: who?\n"},
        {"Who said \"Question: everything\"?", "Who said \"Question: everything\"?"},
        {"Answer the given question. Who?", "Answer the given question. Who?"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char *found = sr1__question_within(pairs[i][0]);

        assert_string_equal(found, pairs[i][1]);
        sr1__free(found);
    }
}

/* Finds the contents of the row, whatever it is asked. */
static sr1_status find_contents(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    const json_t *list = self;
    size_t i, k;

    (void)queries;
    (void)top_k;
    for (i = 0; i < n; i++)
        for (k = 0; k < json_array_size(list); k++) {
            sr1_status status = sr1_search_sink_hit(
                sink, i, "id", json_string_value(json_array_get(list, k)), 1);

            if (status != SR1_OK)
                return status;
        }
    return SR1_OK;
}

static void check_observation(const json_t *row)
{
    sr1_search_ops ops = {sizeof ops, "test", find_contents, NULL, 0};
    sr1_env_options o = {sizeof o, PROTOCOL, NULL, 0};
    sr1_search *search = NULL;
    sr1_env *env = NULL;
    char *text = NULL;
    size_t len;

    assert_int_equal(sr1_search_new(&search, &ops, json_object_get(row, "contents")),
                     SR1_OK);
    assert_int_equal(sr1_env_open(&env, "search", search, &o), SR1_OK);
    assert_int_equal(sr1_env_answer(env, "q", 1, &text, &len), SR1_OK);
    assert_string_equal(text, text_of(row, "text"));
    sr1_free(text);
    sr1_env_free(env);
    sr1_search_free(search);
}

static void check_notice(const json_t *row)
{
    sr1_env_options o = {sizeof o, PROTOCOL, NULL, 0};
    struct sr1__observation n;
    struct sr1__buf all;
    sr1_env *env = NULL;

    assert_int_equal(sr1_env_open(&env, "none", NULL, &o), SR1_OK);
    assert_int_equal(sr1__env_notice(env, &n), SR1_OK);
    sr1__buf_init(&all, 0);
    sr1__buf_str(&all, sr1__buf_cstr(&n.head));
    sr1__buf_str(&all, sr1__buf_cstr(&n.body));
    sr1__buf_str(&all, sr1__buf_cstr(&n.tail));
    assert_string_equal(sr1__buf_cstr(&all), text_of(row, "text"));
    sr1__buf_free(&all);
    sr1__observation_free(&n);
    sr1_env_free(env);
}

static void observations_equal_python(void **state)
{
    (void)state;
    assert_int_equal(each("observation", check_observation), 8);
    assert_int_equal(each("notice", check_notice), 1);
}

/* ---- turns ---- */

static int32_t event_of(const char *name)
{
    if (strcmp(name, "search") == 0)
        return SR1_EVENT_ACTION;
    return strcmp(name, "answer") == 0 ? SR1_EVENT_ANSWER : SR1_EVENT_NONE;
}

static void check_turn(const json_t *row)
{
    const struct sr1__protocol *p = sr1__protocol_find(PROTOCOL);
    const json_t *action = json_object_get(row, "action");
    const char *text = text_of(row, "text");
    const char *content = json_string_value(json_array_get(action, 1));
    size_t kept = (size_t)json_integer_value(json_object_get(row, "kept"));
    size_t begin = 0, n = 0;
    int32_t event;

    assert_int_equal(sr1__search_r1_truncate(p, text, strlen(text)), kept);
    assert_int_equal(sr1_protocol_parse(PROTOCOL, text, strlen(text), &event, &begin, &n),
                     SR1_OK);
    assert_int_equal(event, event_of(json_string_value(json_array_get(action, 0))));
    assert_int_equal(n, strlen(content));
    assert_memory_equal(text + begin, content, n);
}

static void turns_equal_python(void **state)
{
    (void)state;
    assert_true(each("turn", check_turn) > 300);
}

/* Generation ends at the first tag that settles the turn; what would come behind it is
 * never sampled. So of a turn cut at that place both say the same. */
static void check_stream(const json_t *row)
{
    const char *text = text_of(row, "text");
    struct sr1__scanner s;
    size_t used = 0, begin = 0, n = 0, k;
    int32_t event = SR1__EVENT_NONE, whole;

    sr1__scanner_init(&s, sr1__protocol_find(PROTOCOL), 0);
    for (k = 0; k < strlen(text) && event == SR1__EVENT_NONE; k++) {
        assert_int_equal(sr1__scanner_feed(&s, text + k, 1, &used, &event), SR1_OK);
        assert_int_equal(used, 1);
    }
    if (event == SR1__EVENT_VOID)
        assert_memory_equal(text + k - 9, "</search>", 9);
    assert_int_equal(sr1_protocol_parse(PROTOCOL, text, k, &whole, &begin, &n), SR1_OK);
    assert_int_equal(whole, event == SR1__EVENT_VOID ? SR1__EVENT_NONE : event);
    if (whole != SR1_EVENT_NONE) {
        size_t len;
        const char *found = sr1__scanner_text(&s, &len);

        assert_int_equal(len, n);
        assert_memory_equal(found, text + begin, n);
    }
    sr1__scanner_free(&s);
}

static void streams_equal_whole_turns(void **state)
{
    (void)state;
    assert_true(each("turn", check_stream) > 300);
}

/* ---- scores ---- */

static sr1_status build(const char *question, const char *text, const json_t *truths,
                        sr1_trajectory **out)
{
    static const int32_t prompt[1] = {1};
    const char *list[MAX_TRUTHS];
    struct sr1__trajectory_context c = {1, 1, 0, 0, NULL, list, NULL, 0};
    struct sr1__trajectory_builder *b = NULL;
    sr1_status status;
    size_t i;

    for (i = 0; i < json_array_size(truths); i++)
        list[c.n_ground_truths++] = json_string_value(json_array_get(truths, i));
    SR1__TRY(sr1__trajectory_builder_new(&b, question, strlen(question), NULL, 0));
    status = sr1__trajectory_builder_context(b, &c);
    if (status == SR1_OK)
        status = sr1__trajectory_builder_prompt(b, prompt, 1);
    if (status == SR1_OK)
        status = sr1__trajectory_builder_policy(b, 7, -1, 0, text, strlen(text));
    if (status != SR1_OK) {
        sr1__trajectory_builder_free(b);
        return status;
    }
    return sr1__trajectory_builder_finish(b, SR1_STOP_EOS, "", 0, out);
}

static sr1_reward_set *open_set(const json_t *scales)
{
    sr1_reward_scales s = {sizeof s};
    sr1_reward_options o = {sizeof o, "search_r1_em,search_r1_sub_em,search_r1_format",
                            NULL, PROTOCOL, &s};
    sr1_reward_set *set = NULL;

    sr1_reward_scales_init(&s);
    assert_true(s.structure_format_score == 0.2 && s.final_format_score == 0.1 &&
                s.retrieval_score == 0);
    s.structure_format_score = json_number_value(json_array_get(scales, 0));
    s.final_format_score = json_number_value(json_array_get(scales, 1));
    s.retrieval_score = json_number_value(json_array_get(scales, 2));
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    return set;
}

static void check_score(const json_t *row)
{
    static const char *const keys[3] = {"em", "sub", "format"};
    sr1_reward_set *set = open_set(json_object_get(row, "scales"));
    sr1_trajectory *t = NULL;
    double parts[3];
    int k;

    assert_int_equal(build(text_of(row, "question"), text_of(row, "text"),
                           json_object_get(row, "truths"), &t),
                     SR1_OK);
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, parts, NULL),
        SR1_OK);
    for (k = 0; k < 3; k++) {
        double expected = json_number_value(json_object_get(row, keys[k]));

        if (fabs(parts[k] - expected) > 1e-12)
            fail_msg("%s of '%s': %g, not %g", keys[k], text_of(row, "text"), parts[k],
                     expected);
    }
    sr1_trajectory_free(t);
    sr1_reward_set_free(set);
}

static void scores_equal_python(void **state)
{
    (void)state;
    assert_true(each("score", check_score) > 400);
}

/* A rollout that says nothing has answered "Beijing". */
static sr1_status score_silence(void *arg)
{
    sr1_reward_options o = {sizeof o, "search_r1_em,search_r1_format", NULL, PROTOCOL,
                            NULL};
    const sr1_trajectory *t = arg;
    sr1_reward_set *set = NULL;
    double parts[2] = {0, 0};
    sr1_status status = sr1_reward_set_new(&set, &o);

    if (status == SR1_OK)
        status = sr1_reward_set_score(set, &t, 1, parts, NULL);
    if (status == SR1_OK)
        assert_true(parts[0] == 1 && parts[1] == 0.8);
    sr1_reward_set_free(set);
    return status;
}

static void silence_is_the_prompts_example(void **state)
{
    json_t *truths = json_pack("[s]", "beijing");
    sr1_trajectory *t = NULL;

    (void)state;
    assert_int_equal(build("capital of China", "", truths, &t), SR1_OK);
    assert_int_equal(score_silence(t), SR1_OK);
    assert_true(torture(score_silence, t) > 10);
    sr1_trajectory_free(t);
    json_decref(truths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_equal_python),
        cmocka_unit_test(questions_are_found_again),
        cmocka_unit_test(observations_equal_python),
        cmocka_unit_test(turns_equal_python),
        cmocka_unit_test(streams_equal_whole_turns),
        cmocka_unit_test(scores_equal_python),
        cmocka_unit_test(silence_is_the_prompts_example),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
