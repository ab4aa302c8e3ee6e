/* The thread pool: every index once, the lowest failure, sleeping workers. */
#include "../../support/torture.h"

#include "base/clock.h"
#include "base/pool.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define N 10000

struct work {
    atomic_int seen[N];
    size_t fail_from;
    atomic_int active;
    atomic_int most_active;
    struct sr1__pool *pool, *other;
};

static void rest(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static sr1_status touch(void *arg, size_t i)
{
    struct work *w = arg;

    atomic_fetch_add(&w->seen[i], 1);
    if (i >= w->fail_from)
        return sr1__fail(SR1_E_INVALID, "index %zu", i);
    return SR1_OK;
}

static void every_index_runs_once(void **state)
{
    static struct work w;
    struct sr1__pool *p;

    (void)state;
    w.fail_from = SIZE_MAX;
    for (int32_t threads = 0; threads <= 5; threads++) {
        assert_int_equal(sr1__pool_new(&p, threads), SR1_OK);
        assert_true(threads ? sr1__pool_threads(p) == threads
                            : sr1__pool_threads(p) >= 1);
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < N; i++)
                w.seen[i] = 0;
            assert_int_equal(sr1__pool_run(p, round == 0 ? 0 : N, touch, &w), SR1_OK);
            for (size_t i = 0; i < N; i++)
                assert_int_equal(w.seen[i], round == 0 ? 0 : 1);
        }
        sr1__pool_free(p);
    }
    for (size_t i = 0; i < N; i++)
        w.seen[i] = 0;
    assert_int_equal(sr1__pool_run(NULL, N, touch, &w), SR1_OK);
    assert_int_equal(w.seen[N - 1], 1);
    sr1__pool_free(NULL);
}

static void the_lowest_failure_is_reported(void **state)
{
    static struct work w;
    struct sr1__pool *p;

    (void)state;
    assert_int_equal(sr1__pool_new(&p, 4), SR1_OK);
    for (size_t from = 0; from < 200; from++) {
        char expected[32];

        w.fail_from = from;
        sr1_set_error(SR1_E_IO, "");
        assert_int_equal(sr1__pool_run(p, N, touch, &w), SR1_E_INVALID);
        snprintf(expected, sizeof expected, "index %zu", from);
        assert_string_equal(sr1_last_error(), expected);
    }
    assert_int_equal(w.seen[N - 1], 0); /* nothing begins after a failure */
    w.fail_from = SIZE_MAX;
    assert_int_equal(sr1__pool_run(p, N, touch, &w), SR1_OK);
    sr1__pool_free(p);
}

static sr1_status wait_for_others(void *arg, size_t i)
{
    struct work *w = arg;
    int now = atomic_fetch_add(&w->active, 1) + 1;
    int most = atomic_load(&w->most_active);

    (void)i;
    while (now > most && !atomic_compare_exchange_weak(&w->most_active, &most, now))
        continue;
    rest(20);
    atomic_fetch_sub(&w->active, 1);
    return SR1_OK;
}

static void threads_work_side_by_side(void **state)
{
    static struct work w;
    struct sr1__pool *p;

    (void)state;
    assert_int_equal(sr1__pool_new(&p, 4), SR1_OK);
    assert_int_equal(sr1__pool_run(p, 16, wait_for_others, &w), SR1_OK);
    assert_in_range(w.most_active, 2, 4);
    sr1__pool_free(p);
}

static _Thread_local int begun;

static void begin_thread(void *count)
{
    begun = 1;
    atomic_fetch_add((atomic_int *)count, 1);
}

static sr1_status check_begun(void *caller, size_t i)
{
    (void)i;
    rest(1);
    return begun || pthread_equal(*(pthread_t *)caller, pthread_self()) ? SR1_OK
                                                                        : SR1_E_STATE;
}

static void threads_begin_before_they_work(void **state)
{
    pthread_t caller = pthread_self();
    atomic_int count = 0;
    struct sr1__pool *p;

    (void)state;
    assert_int_equal(sr1__pool_new_begun(&p, 4, begin_thread, &count), SR1_OK);
    assert_int_equal(sr1__pool_run(p, 40, check_begun, &caller), SR1_OK);
    sr1__pool_free(p);
    assert_int_equal(count, 3);
    assert_int_equal(begun, 0);
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sr1_status long_rest(void *arg, size_t i)
{
    (void)arg;
    if (i == 0)
        rest(300);
    return SR1_OK;
}

/* Four workers with nothing to do, and a caller that waits for one sleeper. */
static void waiters_sleep(void **state)
{
    struct sr1__pool *p;
    double before, wall;

    (void)state;
    assert_int_equal(sr1__pool_new(&p, 5), SR1_OK);
    before = cpu_seconds();
    wall = sr1__now();
    assert_int_equal(sr1__pool_run(p, 2, long_rest, NULL), SR1_OK);
    assert_true(sr1__now() - wall >= 0.29);
    assert_true(cpu_seconds() - before < 0.1);
    sr1__pool_free(p);
}

static sr1_status inner(void *arg, size_t i)
{
    struct work *w = arg;

    atomic_fetch_add(&w->seen[i], 1);
    return SR1_OK;
}

static sr1_status outer(void *arg, size_t i)
{
    struct work *w = arg;

    (void)i;
    return sr1__pool_run(w->pool, 10, inner, w);
}

static void a_loop_in_a_loop_runs_inline(void **state)
{
    static struct work w;

    (void)state;
    assert_int_equal(sr1__pool_new(&w.pool, 3), SR1_OK);
    assert_int_equal(sr1__pool_run(w.pool, 50, outer, &w), SR1_OK);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(w.seen[i], 50);
    sr1__pool_free(w.pool);
}

static sr1_status between(void *arg, size_t i)
{
    struct work *w = arg;

    (void)i;
    return sr1__pool_run(w->other, 10, outer, w);
}

/* The innermost loops run on threads of both pools. */
static void so_it_does_through_another_pool(void **state)
{
    static struct work w;

    (void)state;
    assert_int_equal(sr1__pool_new(&w.pool, 3), SR1_OK);
    assert_int_equal(sr1__pool_new(&w.other, 3), SR1_OK);
    assert_int_equal(sr1__pool_run(w.pool, 50, between, &w), SR1_OK);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(w.seen[i], 500);
    sr1__pool_free(w.other);
    sr1__pool_free(w.pool);
}

static void *second_caller(void *arg)
{
    struct work *w = arg;

    for (int i = 0; i < 50; i++)
        assert_int_equal(sr1__pool_run(w->pool, 100, touch, w), SR1_OK);
    return NULL;
}

static void two_callers_take_turns(void **state)
{
    static struct work w;
    pthread_t thread;

    (void)state;
    w.fail_from = SIZE_MAX;
    assert_int_equal(sr1__pool_new(&w.pool, 3), SR1_OK);
    assert_int_equal(pthread_create(&thread, NULL, second_caller, &w), 0);
    second_caller(&w);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(w.seen[i], 100);
    sr1__pool_free(w.pool);
}

static void *read_mask(void *arg)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void threads_take_no_signals_of_the_program(void **state)
{
    sigset_t before, inside, after;
    pthread_t thread;

    (void)state;
    (void)read_mask(&before);
    assert_int_equal(sr1__thread_start(&thread, read_mask, &inside), 0);
    (void)read_mask(&after);
    pthread_join(thread, NULL);
    assert_int_equal(sigismember(&inside, SIGTERM), 1);
    assert_int_equal(sigismember(&inside, SIGPIPE), 1);
    assert_int_equal(sigismember(&inside, SIGBUS), 0);
    for (int s = 1; s < NSIG; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

static sr1_status make(void *arg)
{
    struct sr1__pool *p = NULL;
    sr1_status status = sr1__pool_new(&p, 2);

    (void)arg;
    sr1__pool_free(p);
    return status;
}

static sr1_status compare_marks(void *arg, size_t i)
{
    const uint64_t *mark = arg;

    if (i < 4)
        rest(1); /* the other threads take part */
    return sr1_call_mark() == *mark ? SR1_OK : SR1_E_STATE;
}

static void threads_have_the_mark_of_their_caller(void **state)
{
    struct sr1__pool *p;

    (void)state;
    assert_int_equal(sr1__pool_new(&p, 4), SR1_OK);
    for (uint64_t mark = 1; mark < 50; mark++) {
        sr1_set_call_mark(mark);
        assert_int_equal(sr1__pool_run(p, 50, compare_marks, &mark), SR1_OK);
        assert_int_equal(sr1_call_mark(), mark);
    }
    sr1_set_call_mark(0);
    sr1__pool_free(p);
}

static void bad_counts_and_memory(void **state)
{
    struct sr1__pool *p = NULL;

    (void)state;
    assert_int_equal(sr1__pool_new(&p, -1), SR1_E_INVALID);
    assert_int_equal(sr1__pool_new(&p, 100000), SR1_E_INVALID);
    assert_null(p);
    torture(make, NULL);
    assert_true(sr1__rss_bytes() > 0);
    assert_true(sr1__peak_rss_bytes() >= sr1__rss_bytes() / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(the_lowest_failure_is_reported),
        cmocka_unit_test(threads_work_side_by_side),
        cmocka_unit_test(threads_begin_before_they_work),
        cmocka_unit_test(waiters_sleep),
        cmocka_unit_test(a_loop_in_a_loop_runs_inline),
        cmocka_unit_test(so_it_does_through_another_pool),
        cmocka_unit_test(threads_take_no_signals_of_the_program),
        cmocka_unit_test(two_callers_take_turns),
        cmocka_unit_test(threads_have_the_mark_of_their_caller),
        cmocka_unit_test(bad_counts_and_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
