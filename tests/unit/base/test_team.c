/* The team: every index once, loop after loop, awake or asleep, beside busy threads. */
#include "../../support/torture.h"

#include "base/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define N 500
#define THREADS 5

struct loop {
    atomic_int seen[N];
    atomic_int busy[THREADS]; /* is this thread's number in use? */
    atomic_int wrong;
    int32_t threads;
};

static void visit(void *arg, size_t i, int32_t thread)
{
    struct loop *l = arg;

    if (thread < 0 || thread >= l->threads || atomic_exchange(&l->busy[thread], 1))
        atomic_fetch_add(&l->wrong, 1);
    atomic_fetch_add(&l->seen[i], 1);
    atomic_store(&l->busy[thread], 0);
}

static void run_loops(struct sr1__team *t, int n_loops)
{
    static struct loop l;

    l.threads = sr1__team_threads(t);
    for (int k = 0; k < n_loops; k++) {
        size_t n = (size_t)(k * 37) % (N + 1);

        for (size_t i = 0; i < N; i++)
            atomic_store(&l.seen[i], 0);
        sr1__team_run(t, n, visit, &l);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(atomic_load(&l.seen[i]), i < n);
        assert_int_equal(atomic_load(&l.wrong), 0);
    }
}

static void every_index_runs_once(void **state)
{
    (void)state;
    run_loops(NULL, 20);
    for (int32_t threads = 1; threads <= THREADS; threads++) {
        struct sr1__team *t = NULL;

        assert_int_equal(sr1__team_new(&t, threads), SR1_OK);
        assert_int_equal(sr1__team_threads(t), threads);
        run_loops(t, 500);
        sr1__team_free(t);
    }
}

/* Members that have gone to sleep are woken. */
static void sleepers_take_part(void **state)
{
    struct sr1__team *t = NULL;
    const struct timespec nap = {0, 3000000};

    (void)state;
    assert_int_equal(sr1__team_new(&t, 3), SR1_OK);
    for (int i = 0; i < 20; i++) {
        nanosleep(&nap, NULL);
        run_loops(t, 3);
    }
    sr1__team_free(t);
}

struct held_loop {
    atomic_int holder; /* the thread that is held, + 1; 0: none yet */
    atomic_int others; /* iterations that other threads have done */
    int n;
};

/* The first member to come stays until all other iterations are done. */
static void hold_one(void *arg, size_t i, int32_t thread)
{
    struct held_loop *l = arg;
    int none = 0;

    (void)i;
    if (thread > 0 && atomic_compare_exchange_strong(&l->holder, &none, thread + 1)) {
        while (atomic_load(&l->others) < l->n - 1)
            sched_yield();
        return;
    }
    if (thread == 0) /* leave it a turn */
        sched_yield();
    atomic_fetch_add(&l->others, 1);
}

/* A member that is held up, as by the system, holds up its own iteration only: this would
 * not end otherwise. */
static void nobody_waits_for_a_turn(void **state)
{
    struct sr1__team *t = NULL;
    int held = 0;

    (void)state;
    assert_int_equal(sr1__team_new(&t, 3), SR1_OK);
    for (int k = 0; k < 200; k++) {
        struct held_loop l = {.n = 100};

        sr1__team_run(t, 100, hold_one, &l);
        held += atomic_load(&l.holder) > 0;
        assert_int_equal(atomic_load(&l.others), atomic_load(&l.holder) ? 99 : 100);
    }
    assert_true(held > 0);
    sr1__team_free(t);
}

static sr1_status make_team(void *arg)
{
    struct sr1__team *t = NULL;
    sr1_status st = sr1__team_new(&t, 3);

    (void)arg;
    sr1__team_free(t);
    return st;
}

static void refusals(void **state)
{
    struct sr1__team *t = NULL;

    (void)state;
    assert_int_equal(torture(make_team, NULL), 2);
    assert_int_equal(sr1__team_new(&t, -1), SR1_E_INVALID);
    assert_int_equal(sr1__team_new(&t, 100000), SR1_E_INVALID);
    assert_null(t);
    sr1__team_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(sleepers_take_part),
        cmocka_unit_test(nobody_waits_for_a_turn),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
