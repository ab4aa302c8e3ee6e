/* base/executor.c - see executor.h.
 *
 * Threads need no table: each one that ends leaves its handle to the next, which joins
 * it, and sr1__executor_free joins the last. */
#include "base/executor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <math.h>

enum task_state { TASK_QUEUED, TASK_RUNNING, TASK_ENDED };

struct sr1__executor {
    const char *name;
    size_t max_threads;
    size_t max_lost;
    pthread_mutex_t lock;   /* over all that follows */
    pthread_cond_t work;    /* a task is queued, or quit */
    pthread_cond_t changed; /* a task or a thread has ended, or a thread is idle */
    struct sr1__task *first;
    struct sr1__task **end;
    size_t n_queued;
    size_t n_threads; /* lost ones too */
    size_t n_idle;
    size_t n_lost;
    size_t n_joined; /* tasks that callers of sr1__executor_join run */
    pthread_t ended; /* the thread that ended last */
    int has_ended;   /* it is to be joined */
    int quit;        /* threads end when nothing is queued */
    int orphaned;    /* the last lost thread frees the executor */
};

static void destroy_executor(struct sr1__executor *x)
{
    pthread_cond_destroy(&x->changed);
    pthread_cond_destroy(&x->work);
    pthread_mutex_destroy(&x->lock);
    sr1__free(x);
}

/* ---- threads; all with the lock held ---- */

static struct sr1__task *pop_task(struct sr1__executor *x)
{
    struct sr1__task *t = x->first;

    x->first = t->next;
    if (x->first == NULL)
        x->end = &x->first;
    x->n_queued--;
    t->state = TASK_RUNNING;
    return t;
}

/* An abandoned task is freed, and with it maybe the executor; neither it nor what is
 * posted is touched after its call: it may have lain on a stack. */
static void run_next_task(struct sr1__executor *x)
{
    struct sr1__task *t = pop_task(x);
    const struct sr1__task begun = *t;
    uint64_t before = sr1_set_call_mark(begun.mark);
    int lost = 0;

    t->lost = &lost;
    pthread_mutex_unlock(&x->lock);
    begun.run(begun.arg);
    sr1_set_call_mark(before);
    pthread_mutex_lock(&x->lock);
    if (lost && !begun.posted) {
        pthread_mutex_unlock(&x->lock);
        begun.free(begun.arg);
        pthread_mutex_lock(&x->lock);
    } else if (!begun.posted) {
        t->state = TASK_ENDED;
    }
    x->n_lost -= (size_t)lost;
    pthread_cond_broadcast(&x->changed);
}

/* A thread that was lost may find its place taken. */
static int is_surplus_thread(const struct sr1__executor *x)
{
    return x->n_threads - x->n_lost > x->max_threads;
}

/* Leaves without the lock. */
static void end_executor_thread(struct sr1__executor *x)
{
    pthread_t before = x->ended;
    int joins = x->has_ended && !x->orphaned;
    int last;

    x->n_idle--;
    last = --x->n_threads == 0 && x->orphaned;
    if (x->orphaned) {
        pthread_detach(pthread_self());
    } else {
        x->ended = pthread_self();
        x->has_ended = 1;
        pthread_cond_broadcast(&x->changed);
    }
    pthread_mutex_unlock(&x->lock);
    if (joins)
        pthread_join(before, NULL);
    if (last)
        destroy_executor(x);
}

static void *run_executor_thread(void *arg)
{
    struct sr1__executor *x = arg;

    pthread_mutex_lock(&x->lock);
    while (!is_surplus_thread(x) && !(x->quit && x->first == NULL)) {
        if (x->first == NULL) {
            pthread_cond_wait(&x->work, &x->lock);
            continue;
        }
        x->n_idle--;
        run_next_task(x);
        x->n_idle++;
    }
    end_executor_thread(x);
    return NULL;
}

static int may_start_thread(const struct sr1__executor *x)
{
    return x->n_threads - x->n_lost < x->max_threads && x->n_lost <= x->max_lost;
}

/* A thread counts as idle from its start. 0: the system refuses one. */
static int start_missing_threads(struct sr1__executor *x)
{
    pthread_t thread; /* it leaves its own handle when it ends */

    while (x->n_idle < x->n_queued && may_start_thread(x)) {
        if (sr1__thread_start(&thread, run_executor_thread, x) != 0)
            return 0;
        x->n_threads++;
        x->n_idle++;
    }
    return 1;
}

/* ---- tasks ---- */

/* With the lock held. */
static void lose_thread(struct sr1__executor *x, struct sr1__task *t)
{
    *t->lost = 1;
    x->n_lost++;
    (void)start_missing_threads(x);
}

/* Take a task out of the queue. */
static void unlink_task(struct sr1__executor *x, const struct sr1__task *t)
{
    struct sr1__task **at = &x->first;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (*at == NULL)
        x->end = at;
    x->n_queued--;
}

static sr1_status queue_task(struct sr1__executor *x, struct sr1__task *t, int posted)
{
    int refused;

    t->next = NULL;
    t->state = TASK_QUEUED;
    t->posted = posted;
    t->mark = sr1_call_mark();
    pthread_mutex_lock(&x->lock);
    *x->end = t;
    x->end = &t->next;
    x->n_queued++;
    refused = !start_missing_threads(x) && x->n_threads == x->n_lost;
    if (refused)
        unlink_task(x, t);
    pthread_cond_signal(&x->work);
    pthread_mutex_unlock(&x->lock);
    return refused ? sr1__fail(SR1_E_LIMIT, "%s: the system refused a thread", x->name)
                   : SR1_OK;
}

sr1_status sr1__executor_post(struct sr1__executor *x, struct sr1__task *t)
{
    return queue_task(x, t, 1);
}

void sr1__executor_abandon(struct sr1__executor *x, struct sr1__task *t)
{
    pthread_mutex_lock(&x->lock);
    lose_thread(x, t);
    pthread_mutex_unlock(&x->lock);
}

sr1_status sr1__executor_submit(struct sr1__executor *x, struct sr1__task *t)
{
    return queue_task(x, t, 0);
}

/* Wait for a change; 0 when it is too late. With the lock held. */
static int wait_for_executor(struct sr1__executor *x, double until)
{
    struct timespec at;

    if (sr1__now() >= until)
        return 0;
    if (until == INFINITY) {
        pthread_cond_wait(&x->changed, &x->lock);
    } else {
        at = sr1__clock_time(until);
        pthread_cond_timedwait(&x->changed, &x->lock, &at);
    }
    return 1;
}

int sr1__executor_wait(struct sr1__executor *x, struct sr1__task *t, double until)
{
    enum task_state state;

    pthread_mutex_lock(&x->lock);
    while (t->state != TASK_ENDED && wait_for_executor(x, until))
        ;
    state = (enum task_state)t->state;
    if (state == TASK_QUEUED)
        unlink_task(x, t);
    if (state == TASK_RUNNING)
        lose_thread(x, t);
    pthread_mutex_unlock(&x->lock);
    if (state == TASK_QUEUED)
        t->free(t->arg);
    return state == TASK_ENDED;
}

void sr1__executor_join(struct sr1__executor *x, struct sr1__task *t)
{
    pthread_mutex_lock(&x->lock);
    while (t->state != TASK_ENDED) {
        if (x->first == NULL) {
            (void)wait_for_executor(x, INFINITY);
            continue;
        }
        x->n_joined++;
        run_next_task(x);
        x->n_joined--;
    }
    pthread_mutex_unlock(&x->lock);
}

size_t sr1__executor_threads(struct sr1__executor *x)
{
    size_t n;

    pthread_mutex_lock(&x->lock);
    n = x->n_threads - x->n_lost;
    pthread_mutex_unlock(&x->lock);
    return n;
}

size_t sr1__executor_lost(struct sr1__executor *x)
{
    size_t n;

    pthread_mutex_lock(&x->lock);
    n = x->n_lost;
    pthread_mutex_unlock(&x->lock);
    return n;
}

/* ---- all tasks ---- */

void sr1__executor_clear(struct sr1__executor *x)
{
    struct sr1__task **at = &x->first;

    pthread_mutex_lock(&x->lock);
    while (*at != NULL) {
        if ((*at)->posted) {
            *at = (*at)->next;
            x->n_queued--;
        } else {
            at = &(*at)->next;
        }
    }
    x->end = at;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static int is_at_rest(const struct sr1__executor *x)
{
    return x->n_queued == 0 && x->n_joined == 0 && x->n_idle == x->n_threads - x->n_lost;
}

int sr1__executor_drain(struct sr1__executor *x, double until)
{
    int rests;

    pthread_mutex_lock(&x->lock);
    while (!is_at_rest(x) && wait_for_executor(x, until))
        ;
    rests = is_at_rest(x);
    pthread_mutex_unlock(&x->lock);
    return rests;
}

/* ---- an executor ---- */

sr1_status sr1__executor_new(struct sr1__executor **out, const char *name, size_t threads,
                             size_t max_lost)
{
    struct sr1__executor *x;

    SR1__CALLOC(x, 1, name);
    x->name = name;
    x->max_threads = threads;
    x->max_lost = max_lost;
    x->end = &x->first;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->work, NULL);
    sr1__cond_init(&x->changed);
    *out = x;
    return SR1_OK;
}

void sr1__executor_free(struct sr1__executor *x)
{
    int joins, orphaned;
    pthread_t last;

    if (x == NULL)
        return;
    pthread_mutex_lock(&x->lock);
    x->quit = 1;
    pthread_cond_broadcast(&x->work);
    while (x->n_threads > x->n_lost)
        (void)wait_for_executor(x, INFINITY);
    joins = x->has_ended;
    last = x->ended;
    orphaned = x->orphaned = x->n_lost > 0;
    pthread_mutex_unlock(&x->lock);
    if (joins)
        pthread_join(last, NULL);
    if (!orphaned)
        destroy_executor(x);
}
