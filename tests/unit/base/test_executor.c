/* The executor: threads on demand, deadlines, abandoned calls, draining, refused threads.
 * Tasks wait at gates, so that nothing depends on how fast anything is. */
#include "../../support/torture.h"

#include "base/clock.h"
#include "base/executor.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define OK(call) assert_int_equal((call), SR1_OK)
#define FAR (sr1__now() + 120)
#define MAX_TASKS 64

/* ---- threads that the system refuses ---- */

static atomic_int refuse_from; /* the n-th start and all later ones; 0: none */
static atomic_int starts;

#ifndef __SANITIZE_ADDRESS__ /* it has a pthread_create of its own */
#ifndef __SANITIZE_THREAD__
#define CAN_REFUSE 1

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*fn)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int from = atomic_load(&refuse_from);

    if (from > 0 && atomic_fetch_add(&starts, 1) + 1 >= from)
        return EAGAIN;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, how, fn, arg);
}

#endif
#endif

/* ---- tasks ---- */

struct job {
    struct sr1__task task;
    struct bench *bench;
    pthread_t thread;
    sigset_t blocked;
    uint64_t mark;
    int waits; /* at the gate */
    int runs;  /* under the bench's lock, as the rest */
    int ended;
    int freed;
    struct sr1__executor *frees; /* with the task; NULL: nothing */
};

struct bench {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int open; /* the gate is */
    int n_running, most_running, n_ended, n_freed;
    struct job jobs[MAX_TASKS];
};

static void set_gate(struct bench *b, int open)
{
    pthread_mutex_lock(&b->lock);
    b->open = open;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void await(struct bench *b, const int *what, int value)
{
    pthread_mutex_lock(&b->lock);
    while (*what != value)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void run_job(void *arg)
{
    struct job *j = arg;
    struct bench *b = j->bench;

    pthread_mutex_lock(&b->lock);
    j->thread = pthread_self();
    pthread_sigmask(SIG_SETMASK, NULL, &j->blocked);
    j->mark = sr1_call_mark();
    j->runs++;
    b->n_running++;
    if (b->n_running > b->most_running)
        b->most_running = b->n_running;
    pthread_cond_broadcast(&b->changed);
    while (j->waits && !b->open)
        pthread_cond_wait(&b->changed, &b->lock);
    b->n_running--;
    b->n_ended++;
    j->ended = 1;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void free_job(void *arg)
{
    struct job *j = arg;

    sr1__executor_free(j->frees);
    pthread_mutex_lock(&j->bench->lock);
    j->freed++;
    j->bench->n_freed++;
    pthread_cond_broadcast(&j->bench->changed);
    pthread_mutex_unlock(&j->bench->lock);
}

static void bench_init(struct bench *b, int waits)
{
    memset(b, 0, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    for (int i = 0; i < MAX_TASKS; i++) {
        b->jobs[i].task = (struct sr1__task){run_job, free_job, &b->jobs[i]};
        b->jobs[i].bench = b;
        b->jobs[i].waits = waits;
    }
}

static void wait_until_freed(int64_t live)
{
    for (double until = FAR; sr1__mem_live() > live && sr1__now() < until;)
        usleep(1000);
    assert_int_equal(sr1__mem_live(), live);
}

/* ---- tests ---- */

static void threads_start_on_demand_up_to_the_bound(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 3, 0));
    for (int i = 0; i < 3; i++) {
        OK(sr1__executor_submit(x, &b.jobs[i].task));
        await(&b, &b.n_running, i + 1); /* none waits for another */
    }
    for (int i = 3; i < 10; i++)
        OK(sr1__executor_submit(x, &b.jobs[i].task));
    set_gate(&b, 1);
    for (int i = 0; i < 10; i++)
        assert_true(sr1__executor_wait(x, &b.jobs[i].task, INFINITY));
    assert_int_equal(b.most_running, 3);
    for (int i = 0; i < 10; i++)
        assert_true(b.jobs[i].runs == 1 && b.jobs[i].freed == 0);
    sr1__executor_free(x);
}

/* One task holds the only thread at the gate; all others run on the caller's. */
static void who_joins_runs_what_is_queued(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    b.jobs[0].waits = 1;
    OK(sr1__executor_new(&x, "test", 1, 0));
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    for (int i = 1; i < 5; i++)
        OK(sr1__executor_submit(x, &b.jobs[i].task));
    sr1__executor_join(x, &b.jobs[4].task);
    for (int i = 1; i < 5; i++)
        assert_true(b.jobs[i].ended && pthread_equal(b.jobs[i].thread, pthread_self()));
    set_gate(&b, 1);
    sr1__executor_join(x, &b.jobs[0].task);
    assert_true(b.jobs[0].ended);
    sr1__executor_free(x);
    OK(sr1__executor_new(&x, "test", 0, 0)); /* without any thread */
    OK(sr1__executor_submit(x, &b.jobs[5].task));
    sr1__executor_join(x, &b.jobs[5].task);
    assert_true(b.jobs[5].ended && sr1__executor_drain(x, 0));
    sr1__executor_free(x);
}

static void an_idle_thread_is_used_again(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    OK(sr1__executor_new(&x, "test", 8, 0));
    for (int i = 0; i < 20; i++) {
        OK(sr1__executor_submit(x, &b.jobs[i].task));
        assert_true(sr1__executor_wait(x, &b.jobs[i].task, FAR));
        assert_true(pthread_equal(b.jobs[i].thread, b.jobs[0].thread));
    }
    sr1__executor_free(x);
}

static void threads_take_no_signals_of_the_program(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    OK(sr1__executor_new(&x, "test", 1, 0));
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    assert_true(sr1__executor_wait(x, &b.jobs[0].task, FAR));
    assert_true(sigismember(&b.jobs[0].blocked, SIGINT));
    assert_true(sigismember(&b.jobs[0].blocked, SIGTERM));
    assert_true(sigismember(&b.jobs[0].blocked, SIGCHLD));
    assert_false(sigismember(&b.jobs[0].blocked, SIGSEGV));
    sr1__executor_free(x);
}

/* A thread that is lost is replaced, comes back when its call returns, and leaves if its
 * place is taken. */
/* One thread runs the first two, one after another; who joins runs the third. */
static void a_task_has_the_mark_of_who_posted_it(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    OK(sr1__executor_new(&x, "test", 1, 0));
    for (uint64_t mark = 1; mark <= 2; mark++) {
        assert_int_equal(sr1_set_call_mark(mark), mark - 1);
        OK(sr1__executor_submit(x, &b.jobs[mark].task));
        assert_int_equal(sr1__executor_wait(x, &b.jobs[mark].task, INFINITY), 1);
        assert_int_equal(b.jobs[mark].mark, mark);
    }
    b.jobs[0].waits = 1;
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    sr1_set_call_mark(3);
    OK(sr1__executor_submit(x, &b.jobs[3].task));
    sr1_set_call_mark(4);
    sr1__executor_join(x, &b.jobs[3].task);
    assert_int_equal(b.jobs[3].mark, 3);
    assert_int_equal(sr1_set_call_mark(0), 4);
    set_gate(&b, 1);
    assert_int_equal(sr1__executor_wait(x, &b.jobs[0].task, INFINITY), 1);
    sr1__executor_free(x);
}

static void a_late_call_is_abandoned(void **state)
{
    int64_t live = sr1__mem_live();
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 1, 1));
    for (int i = 0; i < 2; i++) {
        OK(sr1__executor_submit(x, &b.jobs[i].task));
        await(&b, &b.n_running, i + 1);
        assert_false(sr1__executor_wait(x, &b.jobs[i].task, 0));
        memset(&b.jobs[i].task, 0xff,
               sizeof b.jobs[i].task); /* as of a stack that went */
    }
    assert_int_equal(sr1__executor_lost(x), 2);
    OK(sr1__executor_submit(x, &b.jobs[2].task)); /* 2 are more than 1: no thread more */
    OK(sr1__executor_submit(x, &b.jobs[3].task));
    assert_false(sr1__executor_wait(x, &b.jobs[3].task, 0));
    assert_int_equal(b.jobs[3].freed, 1); /* at once: it had not begun */
    assert_int_equal(b.jobs[3].runs, 0);
    assert_true(b.jobs[0].freed == 0 && b.jobs[1].freed == 0);
    set_gate(&b, 1);
    assert_true(sr1__executor_wait(x, &b.jobs[2].task, FAR));
    await(&b, &b.n_freed, 3);
    assert_true(b.jobs[0].freed == 1 && b.jobs[1].freed == 1 && b.jobs[2].freed == 0);
    assert_true(sr1__executor_drain(x, FAR));
    sr1__executor_free(x);
    wait_until_freed(live); /* a lost thread may be behind free_job, not at its end */
}

static void without_lost_ones_allowed_a_call_waits_for_the_late_one(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 1, 0));
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    assert_false(sr1__executor_wait(x, &b.jobs[0].task, 0));
    OK(sr1__executor_submit(x, &b.jobs[1].task));
    set_gate(&b, 1);
    assert_true(sr1__executor_wait(x, &b.jobs[1].task, FAR));
    assert_true(pthread_equal(b.jobs[0].thread, b.jobs[1].thread));
    assert_int_equal(b.most_running, 1);
    sr1__executor_free(x);
}

static void the_last_lost_thread_frees_the_executor(void **state)
{
    int64_t live = sr1__mem_live();
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 4, 4));
    for (int i = 0; i < 3; i++)
        OK(sr1__executor_submit(x, &b.jobs[i].task));
    await(&b, &b.n_running, 3);
    assert_false(sr1__executor_wait(x, &b.jobs[0].task, 0));
    assert_false(sr1__executor_wait(x, &b.jobs[2].task, 0));
    pthread_mutex_lock(&b.lock);
    b.jobs[1].waits = 0;
    pthread_cond_broadcast(&b.changed);
    pthread_mutex_unlock(&b.lock);
    assert_true(sr1__executor_wait(x, &b.jobs[1].task, FAR));
    sr1__executor_free(x); /* does not wait for the lost ones */
    assert_int_equal(b.n_freed, 0);
    assert_true(sr1__mem_live() > live);
    set_gate(&b, 1);
    await(&b, &b.n_freed, 2);
    wait_until_freed(live);
}

static void an_abandoned_task_may_free_the_executor(void **state)
{
    int64_t live = sr1__mem_live();
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&b.jobs[0].frees, "test", 2, 1));
    OK(sr1__executor_submit(b.jobs[0].frees, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    assert_false(sr1__executor_wait(b.jobs[0].frees, &b.jobs[0].task, 0));
    set_gate(&b, 1);
    await(&b, &b.n_freed, 1);
    wait_until_freed(live);
}

static void posted_tasks_run_before_the_executor_goes(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    OK(sr1__executor_new(&x, "test", 2, 0));
    for (int i = 0; i < MAX_TASKS; i++)
        OK(sr1__executor_post(x, &b.jobs[i].task));
    sr1__executor_free(x);
    assert_int_equal(b.n_ended, MAX_TASKS);
    assert_int_equal(b.n_freed, 0);
}

struct again {
    struct sr1__task task;
    struct sr1__executor *x;
    int left;
};

/* Its last run frees it: the executor no longer knows it. */
static void run_again(void *arg)
{
    struct again *a = arg;

    if (--a->left == 0)
        sr1__free(a);
    else
        OK(sr1__executor_post(a->x, &a->task));
}

static void a_posted_task_belongs_to_its_run(void **state)
{
    struct again *a = sr1__calloc(1, sizeof *a);
    int64_t live = sr1__mem_live();
    struct sr1__executor *x;

    (void)state;
    OK(sr1__executor_new(&x, "test", 4, 0));
    *a = (struct again){{.run = run_again, .arg = a}, x, 1000};
    OK(sr1__executor_post(x, &a->task));
    sr1__executor_free(x);
    assert_int_equal(sr1__mem_live(), live - 1);
}

/* The call of a posted task is given up; the task is posted again meanwhile. */
static void the_call_of_a_posted_task_can_be_abandoned(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    b.jobs[1].waits = 0;
    OK(sr1__executor_new(&x, "test", 1, 2));
    OK(sr1__executor_post(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    OK(sr1__executor_post(x, &b.jobs[1].task)); /* there is no second thread */
    assert_int_equal(sr1__executor_threads(x), 1);
    sr1__executor_abandon(x, &b.jobs[0].task);
    await(&b, &b.n_ended, 1); /* in place of the lost one */
    assert_true(b.jobs[1].ended && !b.jobs[0].ended);
    assert_int_equal(sr1__executor_lost(x), 1);
    OK(sr1__executor_post(x, &b.jobs[0].task));
    await(&b, &b.n_running, 2);
    set_gate(&b, 1);
    assert_true(sr1__executor_drain(x, FAR));
    await(&b, &b.n_ended, 3);
    assert_int_equal(b.jobs[0].runs, 2);
    for (double until = FAR; sr1__executor_lost(x) > 0 && sr1__now() < until;)
        usleep(1000);
    assert_int_equal(sr1__executor_lost(x), 0);
    sr1__executor_free(x);
    assert_int_equal(b.n_freed, 0);
}

static void what_is_queued_can_be_forgotten(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 1, 0));
    OK(sr1__executor_post(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    OK(sr1__executor_post(x, &b.jobs[1].task));
    OK(sr1__executor_submit(x, &b.jobs[2].task)); /* one that is waited for stays */
    OK(sr1__executor_post(x, &b.jobs[3].task));
    sr1__executor_clear(x);
    assert_false(sr1__executor_drain(x, 0));
    OK(sr1__executor_post(x, &b.jobs[4].task)); /* the queue still has its end */
    set_gate(&b, 1);
    assert_true(sr1__executor_wait(x, &b.jobs[2].task, FAR));
    assert_true(sr1__executor_drain(x, FAR));
    assert_true(b.jobs[0].runs == 1 && b.jobs[2].runs == 1 && b.jobs[4].runs == 1);
    assert_true(b.jobs[1].runs == 0 && b.jobs[3].runs == 0);
    sr1__executor_free(x);
    sr1__executor_free(NULL);
}

#ifdef CAN_REFUSE

/* Without any thread a task is refused and not queued; with one it waits for that. */
static void a_refused_thread_is_an_error_only_where_there_is_none(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    for (int from = 1; from <= 4; from++) {
        bench_init(&b, 1);
        atomic_store(&starts, 0);
        atomic_store(&refuse_from, from);
        OK(sr1__executor_new(&x, "test", 3, 0));
        for (int i = 0; i < 5; i++) {
            sr1_status status = sr1__executor_submit(x, &b.jobs[i].task);

            assert_int_equal(status, from == 1 ? SR1_E_LIMIT : SR1_OK);
            if (from == 1)
                assert_string_equal(sr1_last_error(),
                                    "test: the system refused a thread");
        }
        if (from > 1)
            await(&b, &b.n_running, from - 1);
        set_gate(&b, 1);
        for (int i = 0; i < 5 && from > 1; i++)
            assert_true(sr1__executor_wait(x, &b.jobs[i].task, FAR));
        assert_true(sr1__executor_drain(x, 0));
        assert_int_equal(b.most_running, from - 1);
        assert_int_equal(b.n_ended, from > 1 ? 5 : 0);
        atomic_store(&refuse_from, 0);
        OK(sr1__executor_submit(x, &b.jobs[5].task)); /* it starts what it lacks */
        assert_true(sr1__executor_wait(x, &b.jobs[5].task, FAR));
        sr1__executor_free(x);
    }
}

/* A lost thread that cannot be replaced serves what is queued when it comes back. */
static void a_lost_thread_need_not_be_replaced(void **state)
{
    struct sr1__executor *x;
    struct bench b;

    (void)state;
    bench_init(&b, 1);
    OK(sr1__executor_new(&x, "test", 1, 1));
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    await(&b, &b.n_running, 1);
    OK(sr1__executor_submit(x, &b.jobs[1].task));
    atomic_store(&starts, 0);
    atomic_store(&refuse_from, 1);
    assert_false(sr1__executor_wait(x, &b.jobs[0].task, 0));
    assert_int_equal(sr1__executor_submit(x, &b.jobs[2].task), SR1_E_LIMIT);
    set_gate(&b, 1);
    assert_true(sr1__executor_wait(x, &b.jobs[1].task, FAR));
    assert_int_equal(b.jobs[2].runs, 0);
    atomic_store(&refuse_from, 0);
    sr1__executor_free(x);
}

#endif

static sr1_status use_executor(void *arg)
{
    struct bench b;
    struct sr1__executor *x;

    (void)arg;
    SR1__TRY(sr1__executor_new(&x, "test", 2, 0));
    bench_init(&b, 0);
    OK(sr1__executor_submit(x, &b.jobs[0].task));
    assert_true(sr1__executor_wait(x, &b.jobs[0].task, FAR));
    OK(sr1__executor_post(x, &b.jobs[1].task));
    sr1__executor_free(x);
    assert_int_equal(b.n_ended, 2);
    return SR1_OK;
}

/* Only the executor itself is allocated: a task fails for want of threads alone. */
static void a_task_needs_no_memory(void **state)
{
    (void)state;
    assert_int_equal(torture(use_executor, NULL), 1);
}

/* Many threads submit, wait for no time at all, and abandon. */
static void *abandon_many(void *arg)
{
    struct sr1__executor *x = arg;

    for (int round = 0; round < 300; round++) {
        struct again *a = sr1__calloc(1, sizeof *a);

        *a = (struct again){{.run = run_again, .arg = a}, x, 1};
        OK(sr1__executor_post(x, &a->task));
    }
    return NULL;
}

static void count_job(void *arg)
{
    (void)arg;
}

struct small {
    struct sr1__task task;
    int n;
};

static void *submit_many(void *arg)
{
    struct sr1__executor *x = arg;

    for (int round = 0; round < 300; round++) {
        struct small *s = sr1__calloc(1, sizeof *s);

        s->task = (struct sr1__task){count_job, sr1__free, s};
        OK(sr1__executor_submit(x, &s->task));
        if (sr1__executor_wait(x, &s->task, round % 2 ? 0 : FAR))
            sr1__free(s);
    }
    return NULL;
}

static void many_owners_at_once(void **state)
{
    int64_t live = sr1__mem_live();
    struct sr1__executor *x;
    pthread_t threads[4];

    (void)state;
    OK(sr1__executor_new(&x, "test", 3, 1));
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i % 2 ? submit_many : abandon_many, x), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    sr1__executor_free(x);
    wait_until_freed(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_start_on_demand_up_to_the_bound),
        cmocka_unit_test(who_joins_runs_what_is_queued),
        cmocka_unit_test(an_idle_thread_is_used_again),
        cmocka_unit_test(threads_take_no_signals_of_the_program),
        cmocka_unit_test(a_task_has_the_mark_of_who_posted_it),
        cmocka_unit_test(a_late_call_is_abandoned),
        cmocka_unit_test(without_lost_ones_allowed_a_call_waits_for_the_late_one),
        cmocka_unit_test(the_last_lost_thread_frees_the_executor),
        cmocka_unit_test(an_abandoned_task_may_free_the_executor),
        cmocka_unit_test(posted_tasks_run_before_the_executor_goes),
        cmocka_unit_test(a_posted_task_belongs_to_its_run),
        cmocka_unit_test(the_call_of_a_posted_task_can_be_abandoned),
        cmocka_unit_test(what_is_queued_can_be_forgotten),
#ifdef CAN_REFUSE
        cmocka_unit_test(a_refused_thread_is_an_error_only_where_there_is_none),
        cmocka_unit_test(a_lost_thread_need_not_be_replaced),
#endif
        cmocka_unit_test(a_task_needs_no_memory),
        cmocka_unit_test(many_owners_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
