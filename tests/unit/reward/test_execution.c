/* Rewards by running code: what of a trajectory is run, judgements, outages of the
 * sandbox, and work that begins before scoring. */
#include "base/clock.h"
#include "base/mem.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory.h"

#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/sandbox.h>

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                         \
    do {                                                                                 \
        if ((call) != SR1_OK)                                                            \
            fail_msg("%s", sr1_last_error());                                            \
    } while (0)

#define GOOD "```python\ndef add(a, b):\n    return a + b\n```"
#define BAD "```python\ndef add(a, b):\n    return abs(a) + b\n```"
#define RIGHT "Analysis: fine.\n\nOverall judgment: Incorrect"
#define UNTRUE "Analysis: fine.\n\nOverall judgment: Correct"

static const char rows[] =
    "{\"id\": \"p\", \"problem\": \"Add.\", \"solution\": \"def add(a, b): return a - "
    "b\", "
    "\"tests\": [\"assert add(1, 2) == 3\", \"assert add(-1, 2) == 1\"]}\n"
    "{\"id\": \"q\", \"problem\": \"Add.\", \"solution\": \"def add(a, b): return a + "
    "b\", "
    "\"tests\": [\"assert add(1, 2) == 3\"]}\n"
    "{\"id\": \"none\", \"problem\": \"Add.\", \"tests\": [\"assert add(1, 2) == 3\"]}";

static sr1_problems *problems;

static sr1_sandbox *open_box(void)
{
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;

    sr1_sandbox_options_init(&o);
    if (sr1_sandbox_open(&box, &o) != SR1_OK) {
        o.isolation = "none";
        OK(sr1_sandbox_open(&box, &o));
    }
    return box;
}

/* A service that is not there. */
static sr1_sandbox *open_nothing(void)
{
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;

    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    o.url = "http://127.0.0.1:9";
    o.retries = 1;
    o.retry_first_s = 0.01;
    OK(sr1_sandbox_open(&box, &o));
    return box;
}

static sr1_reward_set *make_for(const char *protocol, sr1_sandbox *box, const char *names,
                                int32_t all, int32_t judgement_required,
                                sr1_checker **checker)
{
    sr1_checker_options co = {
        .struct_size = sizeof(co), .all_or_nothing = all, .judge = "any"};
    sr1_reward_options o = {
        .struct_size = sizeof(o), .rewards = names, .protocol = protocol};
    sr1_reward_set *set = NULL;

    o.problems = problems;
    o.judgement_required = judgement_required;
    OK(sr1_checker_new(&o.checker, box, &co));
    OK(sr1_reward_set_new(&set, &o));
    if (checker != NULL)
        *checker = sr1_checker_retain(o.checker);
    sr1_checker_free(o.checker);
    sr1_sandbox_free(box);
    return set;
}

static sr1_reward_set *make(sr1_sandbox *box, const char *names, int32_t all,
                            int32_t judgement_required, sr1_checker **checker)
{
    return make_for("ctrl", box, names, all, judgement_required, checker);
}

/* The policy says this of the problem; the environment inserts that (NULL: nothing); the
 * final answer is this one. */
static sr1_trajectory *trajectory(const char *problem, const char *said,
                                  const char *inserted, const char *answer)
{
    struct sr1__trajectory_builder *b = NULL;
    const int32_t ids[] = {7, 8, 9};
    sr1_trajectory *t = NULL;

    OK(sr1__trajectory_builder_new(&b, "add", 3, problem, 0));
    OK(sr1__trajectory_builder_prompt(b, ids, 2));
    OK(sr1__trajectory_builder_policy(b, 5, -0.5f, 0, said, strlen(said)));
    if (inserted != NULL)
        OK(sr1__trajectory_builder_environment(b, ids, 3, 0, inserted, strlen(inserted),
                                               0, strlen(inserted)));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, answer, strlen(answer), &t));
    return t;
}

static double score(sr1_reward_set *set, sr1_trajectory *t)
{
    const sr1_trajectory *const one[] = {t};
    double total = 99;

    OK(sr1_reward_set_score(set, one, 1, NULL, &total));
    sr1_trajectory_free(t);
    return total;
}

static void what_was_inserted_is_run_before_what_was_said(void **state)
{
    sr1_reward_set *set = make(open_box(), "execution", 0, 0, NULL);

    (void)state;
    assert_true(score(set, trajectory("p", "hm", GOOD, "")) == 1);
    assert_true(score(set, trajectory("p", GOOD, BAD, "")) == 0.5);
    assert_true(score(set, trajectory("p", BAD, GOOD, BAD)) == 1);
    assert_true(score(set, trajectory("p", BAD, NULL, GOOD)) == 1);
    assert_true(score(set, trajectory("p", BAD, NULL, "")) == 0.5);
    assert_true(score(set, trajectory("p", "no code", NULL, "")) == 0);
    sr1_reward_set_free(set);
}

/* Only a revision takes the place of what the policy answers: a passage or a tool's
 * result does not, whatever it holds. */
static void what_a_tool_returned_is_never_run(void **state)
{
    static const char *const protocols[] = {"search-r1", "hermes", "mt-grpo", "chat"};

    (void)state;
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        sr1_reward_set *set = make_for(protocols[i], open_box(), "execution", 0, 0, NULL);

        assert_true(score(set, trajectory("p", "hm", "a passage", GOOD)) == 1);
        assert_true(score(set, trajectory("p", GOOD, BAD, "")) == 1);
        assert_true(score(set, trajectory("p", BAD, GOOD, "")) == 0.5);
        sr1_reward_set_free(set);
    }
}

static void all_or_nothing_is_all_or_nothing(void **state)
{
    sr1_reward_set *set = make(open_box(), "execution", 1, 0, NULL);

    (void)state;
    assert_true(score(set, trajectory("p", "hm", GOOD, "")) == 1);
    assert_true(score(set, trajectory("p", "hm", BAD, "")) == 0);
    sr1_reward_set_free(set);
}

static void without_a_judgement_nothing_is_run(void **state)
{
    sr1_checker_stats s = {.struct_size = sizeof(s)};
    sr1_checker *k = NULL;
    sr1_reward_set *set = make(open_box(), "execution", 1, 1, &k);

    (void)state;
    assert_true(score(set, trajectory("p", "It is wrong.", GOOD, "")) == 0);
    assert_true(score(set, trajectory("p", RIGHT, NULL, "")) == 0);
    OK(sr1_checker_stats_get(k, &s));
    assert_int_equal(s.checks, 0);
    assert_true(score(set, trajectory("p", RIGHT, GOOD, "")) == 1);
    assert_true(score(set, trajectory("p", UNTRUE, GOOD, "")) == 1);
    sr1_reward_set_free(set);
    sr1_checker_free(k);
}

static void a_judgement_is_held_against_the_tests(void **state)
{
    sr1_reward_set *set = make(open_box(), "judgement", 1, 0, NULL);

    (void)state;
    assert_true(score(set, trajectory("p", RIGHT, GOOD, "")) == 1);
    assert_true(score(set, trajectory("p", UNTRUE, GOOD, "")) == 0);
    assert_true(score(set, trajectory("q", RIGHT, GOOD, "")) == 0);
    assert_true(score(set, trajectory("q", UNTRUE, GOOD, "")) == 1);
    assert_true(score(set, trajectory("q", "so", GOOD, "")) == 0);
    sr1_reward_set_free(set);
}

static void what_cannot_be_had_is_an_error_by_name(void **state)
{
    sr1_reward_set *set = make(open_box(), "execution,judgement", 1, 0, NULL);
    sr1_trajectory *t = trajectory("other", RIGHT, GOOD, "");
    const sr1_trajectory *one[] = {t};
    sr1_reward_options o = {.struct_size = sizeof(o), .rewards = "execution"};
    double total = 9;

    (void)state;
    assert_int_equal(sr1_reward_set_score(set, one, 1, NULL, &total), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "'other'"));
    sr1_trajectory_free(t);
    one[0] = t = trajectory("none", RIGHT, GOOD, "");
    assert_int_equal(sr1_reward_set_score(set, one, 1, NULL, &total), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "solution"));
    sr1_trajectory_free(t);
    assert_true(total == 9);
    sr1_reward_set_free(set);
    set = NULL;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "code_problems"));
    assert_null(set);
}

/* The policy acted, and what came back found no room: what it said is no answer. */
static void a_critique_without_its_revision_is_worth_0(void **state)
{
    sr1_reward_set *set = make(open_box(), "execution", 1, 0, NULL);
    struct sr1__trajectory_builder *b = NULL;
    const int32_t ids[] = {7, 8};
    sr1_trajectory *t = NULL;

    (void)state;
    OK(sr1__trajectory_builder_new(&b, "add", 3, "p", 0));
    OK(sr1__trajectory_builder_prompt(b, ids, 2));
    OK(sr1__trajectory_builder_policy(b, 5, -0.5f, 0, GOOD, strlen(GOOD)));
    OK(sr1__trajectory_builder_action(b, 0, GOOD, strlen(GOOD), SR1_ACTION_OK, 0, NULL));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_CONTEXT_LIMIT, "", 0, &t));
    assert_true(score(set, t) == 0);
    sr1_reward_set_free(set);
}

/* A problem whose solution is longer than any program may be: nothing passes there. */
static void a_solution_that_is_too_long_is_incorrect(void **state)
{
    static char row[(1 << 20) + 300];
    sr1_problems *usual = problems;
    sr1_reward_set *set;
    int n = snprintf(row, sizeof(row),
                     "{\"id\": \"long\", \"problem\": \"Add.\", "
                     "\"tests\": [\"pass\"], \"solution\": \"");

    (void)state;
    memset(row + n, ' ', (1 << 20) + 1);
    strcpy(row + n + (1 << 20) + 1, "\"}");
    OK(sr1_problems_parse(&problems, row, strlen(row), "row", NULL));
    set = make(open_box(), "judgement", 1, 0, NULL);
    assert_true(score(set, trajectory("long", RIGHT, NULL, "")) == 1);
    assert_true(score(set, trajectory("long", UNTRUE, NULL, "")) == 0);
    assert_true(score(set, trajectory("long", "so", NULL, "")) == 0);
    sr1_reward_set_free(set);
    sr1_problems_free(problems);
    problems = usual;
}

#ifndef __SANITIZE_ADDRESS__ /* it has a pthread_create of its own */

static int refuse_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*fn)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (refuse_threads)
        return EAGAIN;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, how, fn, arg);
}

/* What this process failed at says nothing of the program. */
static void want_of_threads_is_not_worth_0(void **state)
{
    sr1_reward_set *set = make(open_box(), "execution", 1, 0, NULL);
    sr1_trajectory *t = trajectory("p", "so", GOOD, "");
    const sr1_trajectory *const one[] = {t};
    double total = 99;

    (void)state;
    refuse_threads = 1;
    assert_int_equal(sr1_reward_set_score(set, one, 1, NULL, &total), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "thread"));
    refuse_threads = 0;
    assert_true(total == 99);
    sr1_trajectory_free(t);
    sr1_reward_set_free(set);
}

#endif

static void an_outage_is_not_worth_0(void **state)
{
    sr1_reward_set *set = make(open_nothing(), "execution", 1, 1, NULL);
    sr1_trajectory *t[2] = {trajectory("p", RIGHT, GOOD, ""),
                            trajectory("p", "so", GOOD, "")};
    double parts[2], totals[2];

    (void)state;
    OK(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, parts, totals));
    assert_true(isnan(parts[0]) && isnan(totals[0]));
    assert_true(parts[1] == 0 && totals[1] == 0);
    OK(sr1_reward_set_apply(set, t, 2));
    assert_int_equal(sr1_trajectory_stop_reason(t[0]), SR1_STOP_UNSCORED);
    assert_string_equal(sr1_stop_reason_name(SR1_STOP_UNSCORED), "unscored");
    assert_true(sr1__trajectory_excluded(t[0]));
    assert_false(sr1_trajectory_has_reward(t[0]));
    assert_true(sr1_trajectory_has_reward(t[1]));
    assert_int_equal(sr1_trajectory_stop_reason(t[1]), SR1_STOP_EOS);
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
    sr1_reward_set_free(set);
}

static void programs_run_before_they_are_asked_for(void **state)
{
    static const char slow[] = "```python\nimport time\ntime.sleep(1)\n"
                               "def add(a, b): return a + b\n```";
    sr1_checker *k = NULL;
    sr1_reward_set *set = make(open_box(), "execution", 1, 0, &k);
    sr1_trajectory *t = trajectory("p", "hm", slow, "");
    sr1_trajectory *lost = trajectory("p", "hm", GOOD, "");
    sr1_checker_stats s = {.struct_size = sizeof(s)};
    double until = sr1__now() + 60;

    (void)state;
    assert_true(sr1_reward_set_begins(set));
    OK(sr1_reward_set_begin(set, t));
    OK(sr1_reward_set_begin(set, t)); /* once is enough */
    OK(sr1_reward_set_begin(set, lost));
    sr1_trajectory_free(lost); /* what was begun keeps it */
    do {
        OK(sr1_checker_stats_get(k, &s));
    } while (s.checks < 2 && sr1__now() < until);
    assert_int_equal(s.checks, 2);
    OK(sr1_reward_set_apply(set, &t, 1));
    OK(sr1_checker_stats_get(k, &s));
    assert_int_equal(s.checks, 2);
    assert_true(sr1_trajectory_reward(t) == 1);
    sr1_trajectory_free(t);
    sr1_reward_set_free(set);
    sr1_checker_free(k);
}

/* ---- rewards of the caller ---- */

struct own {
    int begun, forgotten;
};

static sr1_status own_begin(void *self, sr1_trajectory *t)
{
    (void)t;
    ((struct own *)self)->begun++;
    return SR1_OK;
}

static void own_forget(void *self)
{
    ((struct own *)self)->forgotten++;
}

static sr1_status own_score(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = strcmp(sr1_trajectory_query_id(t[i]), "p") == 0 ? NAN : 2;
    return SR1_OK;
}

static void rewards_of_the_caller_may_be_unknown_too(void **state)
{
    struct own own = {0, 0};
    sr1_reward_options o = {.struct_size = sizeof(o), .rewards = ""};
    sr1_reward_ops ops = {.struct_size = sizeof(ops),
                          .name = "own",
                          .score = own_score,
                          .begin = own_begin,
                          .forget = own_forget};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t[2] = {trajectory("p", "x", NULL, ""),
                            trajectory("q", "x", NULL, "")};

    (void)state;
    OK(sr1_reward_set_new(&set, &o));
    assert_false(sr1_reward_set_begins(set));
    OK(sr1_reward_set_add(set, &ops, &own, 1));
    assert_true(sr1_reward_set_begins(set));
    assert_int_equal(sr1_reward_set_apply(set, t, 2),
                     SR1_E_NUMERIC); /* unless it says so */
    sr1_reward_set_free(set);
    set = NULL;
    ops.may_be_unknown = 1;
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add(set, &ops, &own, 1));
    OK(sr1_reward_set_begin(set, t[0]));
    assert_int_equal(own.begun, 1);
    own.forgotten = 0;
    OK(sr1_reward_set_apply(set, t, 2));
    assert_int_equal(own.forgotten, 1);
    assert_true(sr1__trajectory_excluded(t[0]));
    assert_true(sr1_trajectory_reward(t[1]) == 2);
    sr1_reward_set_free(set);
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
}

/* With weight 0 a reward is measured only: its trajectory counts without it, and the
 * record says that it is not known. */
static void a_measured_reward_that_is_unknown_costs_nothing(void **state)
{
    struct own own = {0, 0};
    sr1_reward_options o = {.struct_size = sizeof(o), .rewards = ""};
    sr1_reward_ops ops = {.struct_size = sizeof(ops),
                          .name = "own",
                          .score = own_score,
                          .may_be_unknown = 1};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t = trajectory("p", "x", NULL, ""), *again = NULL;
    char *json = NULL;
    double value = 0, weight = 1;
    size_t n;

    (void)state;
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add(set, &ops, &own, 0));
    OK(sr1_reward_set_apply(set, &t, 1));
    sr1_reward_set_free(set);
    assert_false(sr1__trajectory_excluded(t));
    assert_true(sr1_trajectory_has_reward(t));
    assert_true(sr1_trajectory_reward(t) == 0);
    OK(sr1_trajectory_reward_component(t, 0, NULL, &value, &weight));
    assert_true(isnan(value) && weight == 0);
    OK(sr1_trajectory_to_json(t, &json, &n));
    OK(sr1_trajectory_from_json(&again, json, n));
    OK(sr1_trajectory_reward_component(again, 0, NULL, &value, &weight));
    assert_true(isnan(value) && weight == 0);
    sr1_free(json);
    sr1_trajectory_free(again);
    sr1_trajectory_free(t);
}

static int open_problems(void **state)
{
    (void)state;
    return sr1_problems_parse(&problems, rows, strlen(rows), "rows", NULL) == SR1_OK ? 0
                                                                                     : -1;
}

static int close_problems(void **state)
{
    (void)state;
    sr1_problems_free(problems);
    return sr1__mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_inserted_is_run_before_what_was_said),
        cmocka_unit_test(what_a_tool_returned_is_never_run),
        cmocka_unit_test(all_or_nothing_is_all_or_nothing),
        cmocka_unit_test(without_a_judgement_nothing_is_run),
        cmocka_unit_test(a_judgement_is_held_against_the_tests),
        cmocka_unit_test(what_cannot_be_had_is_an_error_by_name),
        cmocka_unit_test(a_critique_without_its_revision_is_worth_0),
        cmocka_unit_test(a_solution_that_is_too_long_is_incorrect),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(want_of_threads_is_not_worth_0),
#endif
        cmocka_unit_test(an_outage_is_not_worth_0),
        cmocka_unit_test(programs_run_before_they_are_asked_for),
        cmocka_unit_test(rewards_of_the_caller_may_be_unknown_too),
        cmocka_unit_test(a_measured_reward_that_is_unknown_costs_nothing),
    };

    return cmocka_run_group_tests(tests, open_problems, close_problems);
}
