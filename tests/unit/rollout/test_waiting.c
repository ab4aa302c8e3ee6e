/* Environments that let one wait: only the rows that asked wait, a call that hangs is
 * given up, and nothing is lost or leaked on the way. */
#include "support/tiny.h"

#include "policy/env_executor.h"
#include "policy/rollout_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Thinks of its query for a while, each trajectory for another while. */
static const struct tiny_rule wanderer[] = {
    {"", "<search>"},        {"<search>", " so"},
    {" so", " well"},        {" so", " tower"},
    {" well", " so"},        {" well", " tower"},
    {" tower", "</search>"}, {"</information>", "<answer>"},
    {"<answer>", " Paris"},  {" Paris", "</answer>"}};

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    tiny_model("wanderer", wanderer, sizeof wanderer / sizeof *wanderer, 16);
    return 0;
}

/* ---- an engine whose first call lasts until the gate is opened ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int open;
    int calls;
    int destroyed;
};

static void gate_init(struct gate *g)
{
    *g = (struct gate){.open = 0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->moved, NULL);
}

static void gate_set(struct gate *g, int *what)
{
    pthread_mutex_lock(&g->lock);
    *what = 1;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

static sr1_status gated_search(void *self, const char *const *queries, size_t n,
                               int32_t k, sr1_search_sink *sink)
{
    struct gate *g = self;

    (void)queries, (void)k;
    pthread_mutex_lock(&g->lock);
    if (g->calls++ == 0)
        while (!g->open)
            pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_hit(sink, i, "tower", "The tower stands in Paris.", 1));
    return SR1_OK;
}

static void gate_destroyed(void *self)
{
    struct gate *g = self;

    gate_set(g, &g->destroyed);
}

static void wait_at(struct gate *g, const int *what)
{
    pthread_mutex_lock(&g->lock);
    while (!*what)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static sr1_search *gated_engine(struct gate *g, int32_t flags)
{
    sr1_search_ops ops = {.struct_size = sizeof ops,
                          .name = "gated",
                          .search = gated_search,
                          .destroy = gate_destroyed,
                          .flags = flags};
    sr1_search *e = NULL;

    OK(sr1_search_new(&e, &ops, g));
    return e;
}

#define SLOW (SR1_SEARCH_WAITS | SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS)

enum { N = 8 };

/* Opens the gate when all trajectories but one are done. */
static sr1_status open_at_last(void *user, int64_t done, int64_t total, int64_t tokens)
{
    struct gate *g = user;

    (void)tokens;
    if (done == total - 1)
        gate_set(g, &g->open);
    return SR1_OK;
}

static int32_t search_status(const sr1_trajectory *t)
{
    sr1_action_event event = {sizeof event};

    OK(sr1_trajectory_search(t, 0, &event));
    return event.status;
}

static void a_slow_search_delays_its_own_row_only(void **state)
{
    static const char *const lanes[] = {"workers=1", "workers=2"};
    sr1_query q = tiny_query("Where?");

    (void)state;
    for (size_t w = 0; w < 2; w++) {
        struct gate g;
        sr1_rollout_options o = {.struct_size = sizeof o,
                                 .group_size = N,
                                 .seed = 5,
                                 .progress = open_at_last,
                                 .user = &g};
        sr1_trajectory *slow[N], *quick[N];
        struct sr1__rollout_stats stats;
        sr1_rollout *r;

        gate_init(&g);
        r = tiny_rollout(tiny_config("searcher", lanes[w], "search_concurrency=16", NULL),
                         gated_engine(&g, SLOW));
        /* would hang here if the others waited for the slow one */
        OK(sr1_rollout_generate(r, &q, 1, &o, slow));
        sr1__rollout_stats(r, &stats);
        assert_int_equal(stats.searches, N);
        assert_int_equal(stats.failed_searches, 0);
        sr1_rollout_free(r);
        assert_true(g.destroyed);

        o.progress = NULL;
        r = tiny_rollout(tiny_config("searcher", lanes[w], NULL), tiny_engine());
        OK(sr1_rollout_generate(r, &q, 1, &o, quick));
        sr1_rollout_free(r);
        for (size_t i = 0; i < N; i++) {
            size_t n;

            assert_int_equal(search_status(slow[i]), SR1_ACTION_OK);
            assert_string_equal(sr1_trajectory_generated_text(slow[i], &n),
                                sr1_trajectory_generated_text(quick[i], &n));
        }
        tiny_free_all(slow, N);
        tiny_free_all(quick, N);
    }
}

static void a_search_that_hangs_is_given_up(void **state)
{
    static const int32_t flags[] = {SLOW, SR1_SEARCH_WAITS,
                                    SR1_SEARCH_WAITS | SR1_SEARCH_CONCURRENT};
    static const char *const deadlines[] = {
        "search_deadline=5", /* the others of SLOW are to be answered within it */
        "search_deadline=0.2", "search_deadline=0.2"};
    sr1_query q = tiny_query("Where?");

    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct gate g;
        sr1_rollout_options o = {.struct_size = sizeof o, .group_size = N, .seed = 5};
        struct sr1__rollout_stats stats;
        sr1_trajectory *t[N];
        sr1_rollout *r;
        int lost = 0;

        gate_init(&g);
        r = tiny_rollout(tiny_config("searcher", deadlines[f], NULL),
                         gated_engine(&g, flags[f]));
        OK(sr1_rollout_generate(r, &q, 1, &o, t));
        sr1__rollout_stats(r, &stats);
        for (size_t i = 0; i < N; i++) {
            int late = search_status(t[i]) == SR1_ACTION_TIMEOUT;

            assert_int_equal(sr1_trajectory_stop_reason(t[i]),
                             late ? SR1_STOP_SEARCH_FAILED : SR1_STOP_ANSWER);
            lost += late;
        }
        assert_true(lost >= 1);
        assert_int_equal(stats.failed_searches, lost);
        /* all that wait go to an engine whose queries do not stand alone as one call */
        assert_int_equal(lost, flags[f] == SLOW ? 1 : N);
        tiny_free_all(t, N);
        sr1_rollout_free(r); /* while the call still hangs */
        assert_false(g.destroyed);
        gate_set(&g, &g.open);
        wait_at(&g, &g.destroyed);
    }
}

/* The one thread hangs: what waits in the queue is as late as what hangs. */
static void the_time_in_the_queue_counts(void **state)
{
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = N, .seed = 5};
    sr1_trajectory *t[N];
    sr1_rollout *r;
    struct gate g;

    (void)state;
    gate_init(&g);
    r = tiny_rollout(
        tiny_config("searcher", "search_deadline=0.2", "search_concurrency=1", NULL),
        gated_engine(&g, SLOW));
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(search_status(t[i]), SR1_ACTION_TIMEOUT);
    assert_int_equal(g.calls, 1);
    tiny_free_all(t, N);
    sr1_rollout_free(r);
    gate_set(&g, &g.open);
    wait_at(&g, &g.destroyed);
}

static sr1_status give_up(void *user, int64_t done, int64_t total, int64_t tokens)
{
    int *asked = user;

    (void)done, (void)total, (void)tokens;
    return ++*asked > 5 ? sr1_set_error(SR1_E_CANCELLED, "enough") : SR1_OK;
}

static void a_rollout_that_only_waits_can_be_stopped(void **state)
{
    struct gate g;
    int asked = 0;
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = 1, .progress = give_up, .user = &asked};
    sr1_trajectory *t = NULL;
    sr1_rollout *r;

    (void)state;
    gate_init(&g);
    r = tiny_rollout(tiny_config("searcher", "search_deadline=0", NULL),
                     gated_engine(&g, SLOW));
    assert_int_equal(sr1_rollout_generate(r, &q, 1, &o, &t), SR1_E_CANCELLED);
    assert_null(t);
    sr1_rollout_free(r); /* does not wait either */
    assert_false(g.destroyed);
    gate_set(&g, &g.open);
    wait_at(&g, &g.destroyed);
}

/* ---- searches that gather ---- */

enum { MANY = 64 };

/* How many searches a call of the engine has, in a batch of MANY. */
struct gathering {
    atomic_int calls;
    atomic_int most;
};

static sr1_status gathering_search(void *self, const char *const *queries, size_t n,
                                   int32_t k, sr1_search_sink *sink)
{
    struct gathering *g = self;

    (void)queries, (void)k;
    g->calls++;
    g->most = (int)n > g->most ? (int)n : g->most;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_hit(sink, i, "tower", "The tower stands in Paris.", 1));
    return SR1_OK;
}

static struct sr1__rollout_stats gather(const char *steps, int32_t flags,
                                        sr1_trajectory **out)
{
    struct gathering g = {0};
    sr1_search_ops ops = {.struct_size = sizeof ops,
                          .name = "gathering",
                          .search = gathering_search,
                          .flags = flags};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = MANY, .seed = 3};
    sr1_query q = tiny_query("Where?");
    struct sr1__rollout_stats stats;
    sr1_search *e = NULL;
    sr1_rollout *r;

    OK(sr1_search_new(&e, &ops, &g));
    r = tiny_rollout(tiny_config("wanderer", "max_rows=64", "max_tokens=60", steps, NULL),
                     e);
    OK(sr1_rollout_generate(r, &q, 1, &o, out));
    sr1__rollout_stats(r, &stats);
    assert_int_equal(stats.searches, MANY);
    assert_int_equal(stats.engine_queries, MANY);
    assert_int_equal(stats.engine_calls, g.calls);
    sr1_rollout_free(r);
    return stats;
}

static void same_trajectories(sr1_trajectory *const *a, sr1_trajectory *const *b)
{
    for (size_t i = 0; i < MANY; i++) {
        size_t n = sr1_trajectory_token_count(a[i]);
        size_t m = sr1_trajectory_policy_count(a[i]);

        assert_int_equal(n, sr1_trajectory_token_count(b[i]));
        assert_memory_equal(sr1_trajectory_ids(a[i]), sr1_trajectory_ids(b[i]),
                            n * sizeof(int32_t));
        for (size_t k = 0; k < m; k++)
            tiny_near((double)sr1_trajectory_policy_log_probs(a[i])[k],
                      (double)sr1_trajectory_policy_log_probs(b[i])[k], 1e-4);
    }
}

static void searches_gather_and_nothing_else_changes(void **state)
{
    sr1_trajectory *alone[MANY], *some[MANY], *all[MANY];
    struct sr1__rollout_stats a, b, c;

    (void)state;
    a = gather("search_batch_steps=0", 0, alone);
    b = gather("search_batch_steps=2", 0, some);
    c = gather("search_batch_steps=1000", 0, all);
    assert_true(a.engine_calls > b.engine_calls);
    assert_true(b.engine_calls > 1);
    assert_int_equal(c.engine_calls, 1);               /* when no row could go on */
    assert_true(b.decode_steps <= a.decode_steps + 2); /* nobody waits for longer */
    same_trajectories(alone, some);
    same_trajectories(alone, all);
    tiny_free_all(alone, MANY);
    tiny_free_all(some, MANY);
    tiny_free_all(all, MANY);
}

static void those_of_an_engine_that_waits_gather_too(void **state)
{
    sr1_trajectory *alone[MANY], *all[MANY];
    struct sr1__rollout_stats stats;

    (void)state;
    (void)gather("search_batch_steps=0", 0, alone);
    stats = gather("search_batch_wait_s=60", SR1_SEARCH_WAITS, all);
    assert_int_equal(stats.engine_calls, 1); /* well before those 60 s */
    same_trajectories(alone, all);
    tiny_free_all(alone, MANY);
    tiny_free_all(all, MANY);
}

/* ---- the executor by itself ---- */

struct echo {
    atomic_int calls;
    atomic_int fails; /* with this status */
};

static sr1_status echo_act(void *self, const sr1_env_action *const *actions, size_t n,
                           sr1_env_sink *sink)
{
    struct echo *e = self;

    e->calls++;
    if (e->fails)
        return sr1_set_error(e->fails, "the room is empty");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_env_sink_text(sink, i, actions[i]->text, actions[i]->len));
    return SR1_OK;
}

static sr1_env *echo_env(struct echo *e)
{
    sr1_env_ops ops = {.struct_size = sizeof ops,
                       .name = "echo",
                       .act = echo_act,
                       .flags = SR1_ENV_WAITS | SR1_ENV_CONCURRENT | SR1_ENV_SEPARATE};
    sr1_env *env = NULL;

    OK(sr1_env_new(&env, &ops, e, NULL));
    return env;
}

enum { ROWS = 50, ROUNDS = 40 };

static void every_row_gets_its_own_answer(void **state)
{
    struct echo e = {0};
    sr1_env *env = echo_env(&e);
    struct sr1__env_executor *a = NULL;
    struct sr1__env_completions *b = NULL;

    (void)state;
    OK(sr1__env_executor_new(&a, env, &(struct sr1__env_executor_options){.threads = 4}));
    sr1_env_free(env);
    OK(sr1__env_completions_new(&b, a, ROWS));
    for (int round = 0; round < ROUNDS; round++) {
        struct sr1__action actions[ROWS];
        struct sr1__env_completion replies[ROWS];
        char texts[ROWS][32];
        int32_t rows[ROWS];
        size_t got = 0, n;

        for (int i = 0; i < ROWS; i++) {
            snprintf(texts[i], sizeof texts[i], "row %d round %d", i, round);
            actions[i] = (struct sr1__action){(size_t)i, texts[i], strlen(texts[i]), 0};
            rows[i] = i;
        }
        OK(sr1__env_completions_submit(b, rows, actions, ROWS));
        while (got < ROWS) {
            OK(sr1__env_completions_collect(b, 5.0, replies, &n));
            assert_true(n > 0);
            for (size_t i = 0; i < n; i++) {
                assert_non_null(strstr(sr1__buf_cstr(&replies[i].observation.body),
                                       texts[replies[i].row]));
                sr1__observation_free(&replies[i].observation);
            }
            got += n;
        }
        assert_int_equal(sr1__env_completions_pending(b), 0);
    }
    sr1__env_completions_free(b);
    sr1__env_executor_free(a);
    assert_true(e.calls <= ROWS * ROUNDS);
}

static void an_environment_that_fails_fails_its_rows(void **state)
{
    static const struct {
        sr1_status fails;
        int32_t status;
    } cases[] = {{SR1_E_IO, SR1_ACTION_ERROR}, {SR1_E_TIMEOUT, SR1_ACTION_TIMEOUT}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct echo e = {.fails = cases[i].fails};
        sr1_env *env = echo_env(&e);
        struct sr1__env_executor *a = NULL;
        struct sr1__env_completions *b = NULL;
        struct sr1__action action = {0, "a", 1, 0, 0};
        struct sr1__env_completion reply;
        size_t n;

        OK(sr1__env_executor_new(&a, env,
                                 &(struct sr1__env_executor_options){.threads = 2}));
        sr1_env_free(env);
        OK(sr1__env_completions_new(&b, a, 1));
        OK(sr1__env_completions_submit(b, (const int32_t[]){0}, &action, 1));
        OK(sr1__env_completions_collect(b, 5.0, &reply, &n));
        assert_int_equal(n, 1);
        assert_int_equal(reply.observation.status, cases[i].status);
        assert_int_equal(reply.observation.body.len, 0);
        sr1__observation_free(&reply.observation);
        sr1__env_completions_free(b);
        sr1__env_executor_free(a);
    }
}

static void only_what_no_row_would_escape_fails_the_lane(void **state)
{
    struct echo e = {.fails = SR1_E_CANCELLED};
    sr1_env *env = echo_env(&e);
    struct sr1__env_executor *a = NULL;
    struct sr1__env_completions *b = NULL;
    struct sr1__action actions[2] = {{0, "a", 1, 0}, {1, "b", 1, 0}};
    struct sr1__env_completion replies[2];
    size_t n;

    (void)state;
    OK(sr1__env_executor_new(&a, env, &(struct sr1__env_executor_options){.threads = 2}));
    sr1_env_free(env);
    OK(sr1__env_completions_new(&b, a, 2));
    OK(sr1__env_completions_submit(b, (const int32_t[]){0, 1}, actions, 2));
    REFUSED(sr1__env_completions_collect(b, 5.0, replies, &n), SR1_E_CANCELLED,
            "the room is empty");
    assert_int_equal(n, 0);
    sr1__env_completions_free(b); /* the other's failure may still be under way */
    while (e.calls < 2)
        usleep(1000);
    sr1__env_executor_free(a);
}

/* ---- an outage ---- */

enum { THREADS = 64 }; /* as many as may be lost at a time */

static sr1_status gated_act(void *self, const sr1_env_action *const *actions, size_t n,
                            sr1_env_sink *sink)
{
    struct gate *g = self;

    wait_at(g, &g->open);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_env_sink_text(sink, i, actions[i]->text, actions[i]->len));
    return SR1_OK;
}

/* Ask for all rows; how many were answered. */
static int ask_all(struct sr1__env_completions *b)
{
    struct sr1__action actions[THREADS];
    struct sr1__env_completion replies[THREADS];
    int32_t rows[THREADS];
    int answered = 0;
    size_t n;

    for (int i = 0; i < THREADS; i++) {
        actions[i] = (struct sr1__action){(size_t)i, "a", 1, 0, 0};
        rows[i] = i;
    }
    OK(sr1__env_completions_submit(b, rows, actions, THREADS));
    while (sr1__env_completions_pending(b) > 0) {
        OK(sr1__env_completions_collect(b, 5.0, replies, &n));
        for (size_t i = 0; i < n; i++) {
            answered += replies[i].observation.status == SR1_ACTION_OK;
            sr1__observation_free(&replies[i].observation);
        }
    }
    return answered;
}

/* Every thread hangs, and so do their successors; then the calls return. */
static void after_an_outage_searches_are_answered_again(void **state)
{
    struct gate g;
    sr1_env_ops ops = {.struct_size = sizeof ops,
                       .name = "gated",
                       .act = gated_act,
                       .destroy = gate_destroyed,
                       .flags = SR1_ENV_WAITS | SR1_ENV_CONCURRENT | SR1_ENV_SEPARATE};
    struct sr1__env_executor *a = NULL;
    struct sr1__env_completions *b = NULL;
    sr1_env *env = NULL;
    int answered = 0;

    (void)state;
    gate_init(&g);
    OK(sr1_env_new(&env, &ops, &g, NULL));
    OK(sr1__env_executor_new(
        &a, env,
        &(struct sr1__env_executor_options){.threads = THREADS, .deadline = 0.5}));
    sr1_env_free(env);
    OK(sr1__env_completions_new(&b, a, THREADS));
    assert_int_equal(ask_all(b), 0);
    assert_int_equal(ask_all(b), 0);
    gate_set(&g, &g.open);
    for (int i = 0; i < 1000 && answered < THREADS; i++) {
        usleep(10000);
        answered = ask_all(b);
    }
    assert_int_equal(answered, THREADS);
    sr1__env_completions_free(b);
    sr1__env_executor_free(a);
    wait_at(&g, &g.destroyed);
}

/* ---- counts ---- */

static void ask_queries(struct sr1__env_completions *b, size_t n)
{
    static const char *const queries[] = {"tower", "river", "rain"};
    struct sr1__env_completion replies[3];
    struct sr1__action actions[3];
    int32_t rows[3];
    size_t got = 0, k;

    for (size_t i = 0; i < n; i++) {
        actions[i] = (struct sr1__action){i, queries[i], strlen(queries[i]), 0};
        rows[i] = (int32_t)i;
    }
    OK(sr1__env_completions_submit(b, rows, actions, n));
    while (got < n) {
        OK(sr1__env_completions_collect(b, 5.0, replies, &k));
        got += k;
        while (k > 0)
            sr1__observation_free(&replies[--k].observation);
    }
}

/* Of generations that overlap each counts its own searches, not those of others that ask
 * the engine meanwhile. */
static void each_generation_counts_its_own_searches(void **state)
{
    const char *const other[] = {"moon", "sun"};
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sr1__env_executor *a = NULL;
    struct sr1__env_completions *one = NULL, *two = NULL;
    struct sr1__search_tally of_one = {0}, of_two = {0};
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;
    sr1_env *env = NULL;

    (void)state;
    OK(sr1_search_open_mock(&engine, NULL, NULL, 0));
    OK(sr1_env_open(&env, "search", engine, NULL));
    OK(sr1__env_executor_new(
        &a, env, &(struct sr1__env_executor_options){.threads = 1, .env_lock = &lock}));
    of_one.engine = of_two.engine = engine;
    OK(sr1__env_completions_new(&one, a, 3));
    OK(sr1__env_completions_new(&two, a, 3));
    sr1__env_completions_count(one, &of_one);
    sr1__env_completions_count(two, &of_two);
    ask_queries(one, 3);
    OK(sr1_search_run(engine, other, 2, 1, &found));
    sr1_search_results_free(found);
    ask_queries(two, 1);
    ask_queries(one, 2);
    assert_int_equal(of_one.queries, 5);
    assert_int_equal(of_two.queries, 1);
    assert_true(of_one.calls >= 2 && of_one.calls <= 5);
    assert_int_equal(of_two.calls, 1);
    sr1__env_completions_free(one);
    sr1__env_completions_free(two);
    sr1__env_executor_free(a);
    sr1_env_free(env);
    sr1_search_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_generation_counts_its_own_searches),
        cmocka_unit_test(a_slow_search_delays_its_own_row_only),
        cmocka_unit_test(a_search_that_hangs_is_given_up),
        cmocka_unit_test(the_time_in_the_queue_counts),
        cmocka_unit_test(a_rollout_that_only_waits_can_be_stopped),
        cmocka_unit_test(searches_gather_and_nothing_else_changes),
        cmocka_unit_test(those_of_an_engine_that_waits_gather_too),
        cmocka_unit_test(every_row_gets_its_own_answer),
        cmocka_unit_test(an_environment_that_fails_fails_its_rows),
        cmocka_unit_test(only_what_no_row_would_escape_fails_the_lane),
        cmocka_unit_test(after_an_outage_searches_are_answered_again),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("waiting", tests, make, scratch_remove);
}
