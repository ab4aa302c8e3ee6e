/* Programs of the user's as reward, environment and search engine, and their outages. */
#include "support/torture.h"
#include "support/files.h"

#include "environment/env/env.h"
#include "environment/trajectory/builder.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char program[512];

#define OK(call) assert_ok((call), #call)

static void assert_ok(sr1_status st, const char *what)
{
    if (st != SR1_OK)
        fail_msg("%s: %s", what, sr1_last_error());
}

static int make(void **state)
{
    snprintf(program, sizeof program, "%s/tests/support/program.py", getenv("SR1_SRC"));
    return scratch_make(state);
}

/* ---- rewards ---- */

static sr1_trajectory *answered(const char *query, const char *answer)
{
    static const char *const truths[] = {"Paris"};
    struct sr1__trajectory_context c = {
        .temperature = 1, .top_p = 1, .ground_truths = truths, .n_ground_truths = 1};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;

    OK(sr1__trajectory_builder_new(&b, query, strlen(query), "q", 0));
    OK(sr1__trajectory_builder_context(b, &c));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, answer, strlen(answer), &t));
    return t;
}

/* Scores of one trajectory, weighted: the total is NaN where the program gave none. */
static double score(sr1_reward_set *set, const char *query, const char *answer)
{
    sr1_trajectory *t = answered(query, answer);
    double total = 0;

    OK(sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, NULL, &total));
    sr1_trajectory_free(t);
    return total;
}

static sr1_reward_set *open_rewards(double timeout_s)
{
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_external_options x = {.struct_size = sizeof x, .timeout_s = timeout_s};
    sr1_reward_set *set = NULL;

    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, program, "length", 2, &x));
    return set;
}

static void a_program_scores(void **state)
{
    sr1_reward_set *set = open_rewards(60);

    (void)state;
    assert_string_equal(sr1_reward_set_name(set, 0), "length");
    assert_true(score(set, "Where?", "Rome") == 8);
    assert_true(score(set, "Where?", "Paris!") == 212);
    assert_true(score(set, "bad \xff bytes", "") == 0);
    sr1_reward_set_free(set);
}

static void an_outage_is_no_score(void **state)
{
    static const char *const ways[] = {"unknown", "please die", "please err",
                                       "please miscount"};
    sr1_reward_set *set = open_rewards(60);

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_true(isnan(score(set, ways[i], "Rome")));
        assert_true(score(set, "Where?", "Rome") == 8); /* it goes on */
    }
    sr1_reward_set_free(set);
    set = open_rewards(0.2);
    assert_true(isnan(score(set, "please sleep", "Rome")));
    sr1_reward_set_free(set);
}

/* ---- search ---- */

static void a_program_searches(void **state)
{
    static const char *const queries[] = {"tower", "nothing", "fail"};
    static const int32_t status[] = {SR1_ACTION_OK, SR1_ACTION_EMPTY, SR1_ACTION_ERROR};
    sr1_search_hit hit = {.struct_size = sizeof hit};
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;

    (void)state;
    OK(sr1_search_open_external(&engine, program, NULL));
    OK(sr1_search_run(engine, queries, 3, 2, &found));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sr1_search_results_status(found, i), status[i]);
    assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
    OK(sr1_search_results_hit(found, 0, 1, &hit));
    assert_string_equal(hit.id, "d1");
    assert_string_equal(hit.contents, "tower\nfact 1");
    sr1_search_results_free(found);
    found = NULL;
    assert_int_not_equal(
        sr1_search_run(engine, (const char *const[]){"please die"}, 1, 2, &found),
        SR1_OK);
    assert_non_null(strstr(sr1_last_error(), "it said last: as you wish"));
    OK(sr1_search_run(engine, queries, 1, 2, &found)); /* started anew */
    sr1_search_results_free(found);
    sr1_search_free(engine);
}

/* ---- environments ---- */

static sr1_env_reply step(sr1_env *env, int64_t episode, const char *action,
                          const char *want)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    char *text = NULL;
    size_t n;

    OK(sr1_env_step(env, episode, action, strlen(action), &reply, &text, &n));
    if (want)
        assert_string_equal(text, want);
    sr1_free(text);
    return reply;
}

#define BLOCK(text) "\n\n<information>" text "</information>\n\n"

static void a_program_is_an_environment(void **state)
{
    sr1_env *env = NULL;
    sr1_env_reply reply;
    int64_t a, b;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1_env_begin(env, "q1", "Where?", 6, 7, &a));
    OK(sr1_env_begin(env, "q2", "When?", 5, 8, &b));
    reply = step(env, a, "look", BLOCK("LOOK"));
    assert_int_equal(reply.status, SR1_ACTION_OK);
    (void)step(env, b, "count", BLOCK("2 begun, When?"));
    reply = step(env, a, "win", NULL);
    assert_true(reply.done && reply.success && reply.reward == 0.5);
    sr1_env_finish(env, a);
    (void)step(env, b, "count", BLOCK("1 begun, When?"));
    reply = step(env, b, "fail", NULL);
    assert_int_equal(reply.status, SR1_ACTION_ERROR);
    sr1_env_finish(env, b);
    sr1_env_free(env);
}

/* examples/programs/guess.py: whatever the number is, one of nine guesses is right. */
static void the_example_is_an_environment(void **state)
{
    char path[512];
    sr1_env *env = NULL;
    int64_t episode;
    int right = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/examples/programs/guess.py", getenv("SR1_SRC"));
    OK(sr1_env_open_external(&env, path, NULL, NULL));
    OK(sr1_env_begin(env, "q", "Guess.", 6, 7, &episode));
    (void)step(env, episode, "one", BLOCK("Error: guess a number from 1 to 9."));
    for (int k = 1; k <= 9; k++) {
        char guess[2] = {(char)('0' + k), '\0'};
        sr1_env_reply reply = step(env, episode, guess, NULL);

        right += reply.success && reply.done && reply.reward == 1;
    }
    assert_int_equal(right, 1);
    assert_int_equal(step(env, 0, "1", NULL).status, SR1_ACTION_ERROR);
    sr1_env_finish(env, episode);
    sr1_env_free(env);
}

static void the_examples_score_and_search(void **state)
{
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_reward_set *set = NULL;
    sr1_search *engine = NULL;
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof hit};
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s/examples/programs/brevity.py", getenv("SR1_SRC"));
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, path, "brevity", 1, NULL));
    assert_true(score(set, "Where?", "Paris") == 0.5);
    sr1_reward_set_free(set);
    snprintf(path, sizeof path, "%s/examples/programs/engine.py", getenv("SR1_SRC"));
    setenv("DOCUMENTS",
           scratch_file("facts.txt", "a tower in Paris\nsomething else\n", 0), 1);
    OK(sr1_search_open_external(&engine, path, NULL));
    OK(sr1_search_run(engine, (const char *const[]){"the tower"}, 1, 3, &found));
    assert_int_equal(sr1_search_results_hit_count(found, 0), 1);
    OK(sr1_search_results_hit(found, 0, 0, &hit));
    assert_string_equal(hit.contents, "a tower in Paris");
    sr1_search_results_free(found);
    sr1_search_free(engine);
}

/* In a rollout the actions of a call that failed are outages. */
static void an_outage_is_no_observation(void **state)
{
    struct sr1__action a = {0, "please die", 10, 0, 0};
    struct sr1__observation o;
    sr1_env *env = NULL;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1__env_act_rows(env, &a, 1, &o));
    assert_int_equal(o.status, SR1_ACTION_ERROR);
    assert_non_null(strstr(o.failure, "it said last: as you wish"));
    sr1__observation_free(&o);
    (void)step(env, 0, "look", BLOCK("LOOK"));
    sr1_env_free(env);
}

static void files_that_are_no_program_are_named(void **state)
{
    sr1_search *engine = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_external(&engine, scratch_path("none"), NULL),
                     SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "No such file"));
    assert_int_equal(
        sr1_search_open_external(&engine, scratch_file("text.sh", "exit 0", 0), NULL),
        SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "make it executable"));
    assert_null(engine);
}

/* After three failures in a row a program is left alone. */
static void a_broken_program_rests(void **state)
{
    const char *path = scratch_file("broken.py", "import sys; sys.exit('broken')\n", 0);
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;

    (void)state;
    OK(sr1_search_open_external(&engine, path, NULL));
    for (int i = 0; i < 6; i++) {
        assert_int_not_equal(
            sr1_search_run(engine, (const char *const[]){"a"}, 1, 1, &found), SR1_OK);
        assert_non_null(strstr(sr1_last_error(), "it said last: broken"));
    }
    sr1_search_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_scores),
        cmocka_unit_test(an_outage_is_no_score),
        cmocka_unit_test(a_program_searches),
        cmocka_unit_test(a_program_is_an_environment),
        cmocka_unit_test(the_example_is_an_environment),
        cmocka_unit_test(the_examples_score_and_search),
        cmocka_unit_test(an_outage_is_no_observation),
        cmocka_unit_test(files_that_are_no_program_are_named),
        cmocka_unit_test(a_broken_program_rests),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
