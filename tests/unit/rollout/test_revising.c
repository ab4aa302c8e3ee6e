/* Critiques in rollouts: a whole message is the action, its revision comes as a block
 * that is not trained on, rows wait for it in batches, and the reviser stands still. */
#include "support/tiny.h"

#include "policy/env_executor_internal.h"
#include "policy/rollout_internal.h"
#include "policy/local_generator.h"

#include <searchr1/ext/critique.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static int make(void **state)
{
    static const struct tiny_rule critic[] = {
        {"", " well"}, {" well", " so"}, {" so", "<|im_end|>"}};
    static const struct tiny_rule endless[] = {{"", " well"}, {" well", " well"}};
    static const struct tiny_rule wordy[] = {
        {"", " well"}, {" well", " well"}, {" well", "<|im_end|>"}};
    static const struct tiny_rule proxy[] = {
        {"", " Rome"}, {" Rome", " Paris"}, {" Paris", "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("critic", critic, 3, 30);
    tiny_model("endless", endless, 2, 30);
    tiny_model("proxy", proxy, 3, 30);
    tiny_model("wordy", wordy, 3, 12);
    (void)scratch_file(
        "problems.jsonl",
        "{\"id\": \"p0\", \"problem\": \"Where?\", \"solution\": \"x = 1\", "
        "\"tests\": [\"assert x\"]}\n"
        "{\"id\": \"p1\", \"problem\": \"When?\", \"solution\": \"x = 0\", "
        "\"tests\": [\"assert x\"]}\n",
        0);
    return 0;
}

static sr1_query question(const char *id)
{
    sr1_query q = tiny_query("Is x = 1 right?");

    q.id = id;
    return q;
}

/* A configuration of critiques; more pairs up to NULL. */
static sr1_config *critiques(const char *model, const char *proxy, const char *more)
{
    sr1_config *c = tiny_config(model, "environment=critique", "protocol=ctrl",
                                "prompt_template=", "proxy_max_tokens=8", more, NULL);

    OK(sr1_config_set(c, "code_problems", scratch_path("problems.jsonl")));
    OK(sr1_config_set(c, "proxy_model", *proxy ? scratch_path(proxy) : ""));
    return c;
}

/* The text between the policy's last word and the end. */
static void check(const sr1_trajectory *t, const char *said, const char *revision)
{
    sr1_text_segment s = {.struct_size = sizeof s};
    const char *text = sr1_trajectory_generated_text(t, NULL);
    char body[256];

    OK(sr1_trajectory_segment(t, 0, &s));
    assert_int_equal(s.source, SR1_SOURCE_POLICY);
    assert_int_equal(s.text_len, strlen(said));
    assert_memory_equal(text + s.text_begin, said, s.text_len);
    OK(sr1_trajectory_segment(t, 1, &s));
    assert_int_equal(s.source, SR1_SOURCE_ENVIRONMENT);
    snprintf(body, sizeof body, "%.*s", (int)s.body_len, text + s.body_begin);
    assert_string_equal(body, revision);
    assert_int_not_equal(sr1_trajectory_segment(t, 2, &s), SR1_OK);
}

static void a_message_is_a_critique_and_its_answer_the_revision(void **state)
{
    static const char *const lanes[] = {"workers=1", "workers=2"};

    (void)state;
    for (size_t w = 0; w < 2; w++) {
        sr1_rollout *r = tiny_rollout(critiques("critic", "proxy", lanes[w]), NULL);
        sr1_query q[2] = {question("p0"), question("p1")};
        sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 3, .seed = 5};
        sr1_trajectory *t[6];

        OK(sr1_rollout_generate(r, q, 2, &o, t));
        for (size_t i = 0; i < 6; i++) {
            check(t[i], " well so", "Rome Paris");
            assert_int_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_EOS);
            assert_int_equal(sr1_trajectory_policy_count(t[i]),
                             3); /* its end among them */
            assert_int_equal(sr1_trajectory_search_count(t[i]), 1);
        }
        tiny_free_all(t, 6);
        sr1_rollout_free(r);
    }
}

/* A critique that is cut short is revised too, as published, and told apart. */
static void a_critique_without_end_is_cut_and_revised(void **state)
{
    sr1_rollout *r = tiny_rollout(critiques("endless", "proxy", "max_tokens=4"), NULL);
    sr1_query q = question("p0");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 2, .seed = 5};
    sr1_trajectory *t[2];

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    check(t[0], " well well well well", "Rome Paris");
    assert_int_equal(sr1_trajectory_stop_reason(t[0]), SR1_STOP_TOKEN_LIMIT);
    tiny_free_all(t, 2);
    sr1_rollout_free(r);
}

/* A program in part would be judged for what is missing: max_observation_tokens is for
 * searches, and where the context ends before the revision does, nothing goes in. */
static void a_revision_goes_in_whole_or_not_at_all(void **state)
{
    static char text[512];
    sr1_rollout *r =
        tiny_rollout(critiques("critic", "proxy", "max_observation_tokens=1"), NULL);
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .seed = 5};
    sr1_query q = question("p0");
    int whole = 0, none = 0;
    sr1_trajectory *t;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    check(t, " well so", "Rome Paris");
    sr1_trajectory_free(t);
    memset(text, 'x', sizeof text);
    q.text = text; /* longer and longer, in a context of 512 */
    for (q.text_len = 380; none < 5; q.text_len++) {
        sr1_text_segment s = {.struct_size = sizeof s};

        OK(sr1_rollout_generate(r, &q, 1, &o, &t));
        if (sr1_trajectory_segment(t, 1, &s) == SR1_OK) {
            check(t, " well so", "Rome Paris");
            assert_int_equal(none, 0);
            whole++;
        } else {
            assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_CONTEXT_LIMIT);
            assert_int_equal(sr1_trajectory_search_count(t), 1);
            none++;
        }
        sr1_trajectory_free(t);
    }
    assert_true(whole > 0);
    sr1_rollout_free(r);
}

static void an_unknown_problem_is_named(void **state)
{
    sr1_rollout *r = tiny_rollout(critiques("critic", "proxy", NULL), NULL);
    sr1_query q = question("p7");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 2};
    sr1_trajectory *t[2];

    (void)state;
    REFUSED(sr1_rollout_generate(r, &q, 1, &o, t), SR1_E_NOT_FOUND,
            "'p7' is none of the");
    sr1_rollout_free(r);
}

/* ---- batches ---- */

enum { QUERIES = 8 };

struct slow {
    sr1_rollout *rollout;
    int first, asked;
    atomic_int calls, at_once;
};

/* Rows that wait for the next call. */
static size_t queued(const struct slow *s)
{
    struct sr1__env_executor *a = s->rollout->executor;
    size_t n;

    pthread_mutex_lock(&a->lock);
    n = a->n_queued;
    pthread_mutex_unlock(&a->lock);
    return n;
}

/* The first call lasts until all other rows have written their critiques and wait. */
static sr1_status slow_write(void *self, const sr1_conversation *const *c, size_t n,
                             sr1_generator_sink *sink)
{
    struct slow *s = self;

    (void)c;
    assert_int_equal(atomic_fetch_add(&s->at_once, 1), 0);
    s->asked += (int)n;
    if (atomic_fetch_add(&s->calls, 1) == 0) {
        s->first = (int)n;
        for (int i = 0; i < 60000 && queued(s) + n < QUERIES; i++)
            usleep(1000);
    }
    atomic_fetch_sub(&s->at_once, 1);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_generator_sink_text(sink, i, "x = 2", 5));
    return SR1_OK;
}

/* After each token: the first critique that ends is taken before others end too. */
static sr1_status pause_for_first(void *user, int64_t done, int64_t total, int64_t tokens)
{
    struct slow *s = user;

    (void)done, (void)total, (void)tokens;
    while (atomic_load(&s->calls) == 0 && queued(s) > 0)
        usleep(1000);
    return SR1_OK;
}

static void rows_that_wait_are_revised_as_one_batch(void **state)
{
    sr1_generator_ops ops = {
        .struct_size = sizeof ops, .name = "slow", .write = slow_write};
    sr1_rollout *r = tiny_rollout(
        tiny_config("wordy", "environment=none", "protocol=ctrl", "max_tokens=40", NULL),
        NULL);
    struct slow s = {.rollout = r};
    sr1_query q = question("p0");
    sr1_rollout_options o = {.struct_size = sizeof o,
                             .group_size = QUERIES,
                             .seed = 5,
                             .progress = pause_for_first,
                             .user = &s};
    const char *path = scratch_path("problems.jsonl");
    sr1_problems *problems = NULL;
    sr1_generator *w = NULL;
    sr1_env *env = NULL;
    sr1_trajectory *t[QUERIES];

    (void)state;
    OK(sr1_problems_load(&problems, &path, 1, NULL));
    OK(sr1_generator_new(&w, &ops, &s));
    OK(sr1_critique_env_open(&env, problems, w, NULL, NULL));
    OK(sr1_rollout_set_env(r, env));
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    assert_in_range(s.first, 1, QUERIES - 1); /* some wrote on while others waited */
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.asked, QUERIES);
    tiny_free_all(t, QUERIES);
    sr1_env_free(env);
    sr1_generator_free(w);
    sr1_problems_free(problems);
    sr1_rollout_free(r);
}

/* ---- the reviser stands still ---- */

static void revise_once(sr1_generator *w, char **text)
{
    static const char *const roles[] = {"user", "assistant", "user"};
    static const char *const contents[] = {"Where?", "x = 1", "well so"};
    static const size_t sizes[] = {6, 5, 7};
    sr1_conversation c = {.struct_size = sizeof c,
                          .roles = roles,
                          .contents = contents,
                          .sizes = sizes,
                          .n = 3};

    OK(sr1_generator_generate(w, &c, 1, text, NULL));
    assert_non_null(*text);
}

/* With no proxy named the reviser is the policy as it was loaded: overwriting the live
 * weights, as updates do, changes nothing in it. */
static void the_reviser_is_never_the_live_policy(void **state)
{
    sr1_rollout *r = tiny_rollout(critiques("proxy", "", NULL), NULL);
    sr1_model *live = sr1_rollout_model(r);
    static const struct tiny_rule other[] = {{"", " nothing"},
                                             {" nothing", "<|im_end|>"}};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_query q = question("p0");
    sr1_trajectory *t;
    char *before, *after;

    (void)state;
    revise_once(r->reviser, &before);
    assert_string_equal(before, " Rome Paris");
    tiny_teach(live, sr1_rollout_tokenizer(r), other, 2, 30);
    revise_once(r->reviser, &after);
    assert_string_equal(before, after);
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    check(t, " nothing", "Rome Paris");
    sr1_trajectory_free(t);
    sr1_free(before);
    sr1_free(after);
    sr1_rollout_free(r);
}

/* ---- a model as a writer ---- */

static void a_model_writes(void **state)
{
    static const char *const role[] = {"user", "assistant"};
    static char text_long[4000];
    const char *contents[] = {"Where?", text_long};
    size_t sizes[] = {6, sizeof text_long};
    sr1_conversation c[3] = {{.struct_size = sizeof *c,
                              .roles = role,
                              .contents = contents,
                              .sizes = sizes,
                              .n = 1},
                             {.struct_size = sizeof *c,
                              .roles = role,
                              .contents = contents + 1,
                              .sizes = sizes + 1,
                              .n = 1},
                             {.struct_size = sizeof *c,
                              .roles = role,
                              .contents = contents,
                              .sizes = sizes,
                              .n = 2}};
    sr1_config *config = tiny_config("critic", NULL);
    sr1_generator_options o = {.struct_size = sizeof o, .max_tokens = 2};
    sr1_generator *w = NULL;
    char *said[2];
    size_t lens[2];

    (void)state;
    memset(text_long, 'x', sizeof text_long);
    OK(sr1_generator_open_model(&w, scratch_path("proxy"), config, &o));
    OK(sr1_generator_generate(w, c, 2, said, lens));
    assert_string_equal(said[0], " Rome Paris");
    assert_null(said[1]); /* longer than the model reads */
    sr1_free(said[0]);
    REFUSED(sr1_generator_generate(w, c + 2, 1, said, NULL), SR1_E_INVALID,
            "must be the user's");
    sr1_generator_free(w);
    REFUSED(sr1_generator_open_model(&w, scratch_path("nowhere"), config, NULL),
            SR1_E_NOT_FOUND, "nowhere");
    sr1_config_free(config);
}

static sr1_status pass_all(void *user, const sr1_problem *p, const char *answer,
                           size_t len, int32_t *verdict, double *pass_rate)
{
    (void)user, (void)p, (void)answer, (void)len;
    *verdict = SR1_RUN_PASSED;
    *pass_rate = 1.0;
    return SR1_OK;
}

/* It is neither right nor wrong: a node that is not there, and counted. */
static void an_answer_without_room_is_missing(void **state)
{
    static char rows[5000];
    sr1_config *config = tiny_config("proxy", NULL);
    sr1_generator_options o = {.struct_size = sizeof o, .max_tokens = 2};
    sr1_revision_tree_options f;
    sr1_revision_tree_scores s = {.struct_size = sizeof s};
    static const int32_t widths[] = {1, 1};
    sr1_revision_trees *trees = NULL;
    const char *path;
    int64_t missing = 0;

    (void)state;
    snprintf(rows, sizeof rows,
             "{\"id\": \"long\", \"problem\": \"%04000d\", \"tests\": [\"pass\"]}\n"
             "{\"id\": \"short\", \"problem\": \"Where?\", \"tests\": [\"pass\"]}\n",
             0);
    path = scratch_file("room.jsonl", rows, 0);
    sr1_revision_tree_options_init(&f);
    f.run = pass_all;
    OK(sr1_problems_load(&f.problems, &path, 1, NULL));
    OK(sr1_generator_open_model(&f.solver, scratch_path("proxy"), config, &o));
    OK(sr1_revision_trees_open(&trees, &f));
    OK(sr1_revision_trees_expand(trees, widths, 2, &missing));
    assert_int_equal(missing, 1);
    OK(sr1_revision_trees_scores(trees, 0, &s));
    assert_int_equal(s.problems, 1);
    assert_int_equal(s.nodes, 1);
    sr1_revision_trees_free(trees);
    sr1_generator_free(f.solver);
    sr1_problems_free(f.problems);
    sr1_config_free(config);
}

/* What a reviser asks of the limits does not outlast its environment. */
static void another_environment_gets_the_configured_limits(void **state)
{
    sr1_config *c = critiques("critic", "proxy", "search_deadline=7");
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "ctrl"};
    sr1_env *env = NULL;
    sr1_rollout *r;

    (void)state;
    OK(sr1_config_set(c, "search_failure", "continue"));
    r = tiny_rollout(c, NULL);
    assert_false(r->limits.go_on);
    assert_true(r->limits.ask_deadline == 0.0);
    OK(sr1_env_open(&env, "none", NULL, &o));
    OK(sr1_rollout_set_env(r, env));
    assert_true(r->limits.go_on);
    assert_true(r->limits.ask_deadline == 7.0);
    sr1_env_free(env);
    sr1_rollout_free(r);
}

/* ---- nothing revises: the message is the answer ---- */

static void answer_in_chat(const char *max_tokens, int32_t stop, const char *answer)
{
    sr1_rollout *r =
        tiny_rollout(tiny_config("proxy", "environment=none", "protocol=chat",
                                 "rewards=format,answer", max_tokens, NULL),
                     NULL);
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = 1, .greedy = 1, .seed = 5};
    sr1_query q = question("p0");
    sr1_trajectory *t = NULL;

    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    assert_string_equal(sr1_trajectory_final_answer(t, NULL), answer);
    assert_int_equal(sr1_trajectory_stop_reason(t), stop);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

static void a_message_is_the_answer(void **state)
{
    (void)state;
    answer_in_chat("max_tokens=9", SR1_STOP_ANSWER, "Rome Paris");
    answer_in_chat("max_tokens=1", SR1_STOP_TOKEN_LIMIT, "Rome");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_a_critique_and_its_answer_the_revision),
        cmocka_unit_test(a_critique_without_end_is_cut_and_revised),
        cmocka_unit_test(a_revision_goes_in_whole_or_not_at_all),
        cmocka_unit_test(an_unknown_problem_is_named),
        cmocka_unit_test(another_environment_gets_the_configured_limits),
        cmocka_unit_test(rows_that_wait_are_revised_as_one_batch),
        cmocka_unit_test(the_reviser_is_never_the_live_policy),
        cmocka_unit_test(a_model_writes),
        cmocka_unit_test(an_answer_without_room_is_missing),
        cmocka_unit_test(a_message_is_the_answer),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
