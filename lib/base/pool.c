/* base/pool.c - worker threads that sleep on a condition until they get a loop to run.
 *
 * Indices are handed out in rising order and none after a failure, so every index below a
 * failed one has run: the error reported does not depend on the number of threads. */
#include "base/pool.h"

#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <unistd.h>

#define MAX_THREADS 1024

struct within;

struct sr1__pool {
    pthread_mutex_t run_lock; /* one loop at a time */
    pthread_mutex_t lock;     /* guards everything below */
    pthread_cond_t wake;      /* a loop has begun, or quit */
    pthread_cond_t done;      /* running fell to 0 */
    pthread_t *threads;       /* [n_threads - 1] */
    int32_t n_threads;        /* the caller included */
    int quit;
    void (*begin)(void *arg); /* of each thread, or NULL */
    void *begin_arg;

    sr1__pool_fn fn; /* the loop under way */
    void *arg;
    size_t n;
    const struct within *outer; /* the loops its caller is in */
    uint64_t mark;              /* sr1_call_mark of its caller */
    size_t next;
    size_t running;
    size_t error_index;
    struct sr1__error error;
};

/* The loops this thread is in, the innermost first; they lie on the stacks of the threads
 * that take part. */
struct within {
    const struct sr1__pool *pool;
    const struct within *outer;
};

static _Thread_local const struct within *inside;

static sr1_status run_inline(size_t n, sr1__pool_fn fn, void *arg)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(fn(arg, i));
    return SR1_OK;
}

/* Called and left with the lock held. */
static void record_failure(struct sr1__pool *p, size_t i, sr1_status status)
{
    if (status == SR1_OK)
        return;
    p->next = p->n;
    if (p->error.code == SR1_OK || i < p->error_index) {
        sr1__error_save(&p->error, status);
        p->error_index = i;
    }
}

/* Called and left with the lock held. */
static void run_pool_indices(struct sr1__pool *p)
{
    const struct within *before = inside;
    const struct within here = {p, p->outer};
    uint64_t mark = sr1_set_call_mark(p->mark);

    inside = &here;
    while (p->next < p->n) {
        size_t i = p->next++;
        sr1_status status;

        p->running++;
        pthread_mutex_unlock(&p->lock);
        status = p->fn(p->arg, i);
        pthread_mutex_lock(&p->lock);
        p->running--;
        record_failure(p, i, status);
    }
    if (p->running == 0)
        pthread_cond_broadcast(&p->done);
    inside = before;
    sr1_set_call_mark(mark);
}

static void *run_pool_thread(void *arg)
{
    struct sr1__pool *p = arg;

    if (p->begin)
        p->begin(p->begin_arg);
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        if (p->next < p->n)
            run_pool_indices(p);
        else
            pthread_cond_wait(&p->wake, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Is this thread at work for a loop of p, or for one that such a loop waits for? */
static int is_inside(const struct sr1__pool *p)
{
    const struct within *w = inside;

    while (w && w->pool != p)
        w = w->outer;
    return w != NULL;
}

sr1_status sr1__pool_run(struct sr1__pool *p, size_t n, sr1__pool_fn fn, void *arg)
{
    sr1_status status;

    if (!p || p->n_threads == 1 || n <= 1 || is_inside(p))
        return run_inline(n, fn, arg);
    pthread_mutex_lock(&p->run_lock);
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    p->outer = inside;
    p->mark = sr1_call_mark();
    p->next = 0;
    p->error.code = SR1_OK;
    pthread_cond_broadcast(&p->wake);
    run_pool_indices(p);
    while (p->running > 0)
        pthread_cond_wait(&p->done, &p->lock);
    p->n = p->next = 0;
    status = sr1__error_raise(&p->error);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->run_lock);
    return status;
}

static int32_t count_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
}

/* Stop and join the first `started` workers. */
static void join_pool_threads(struct sr1__pool *p, int32_t started)
{
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int32_t i = 0; i < started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->run_lock);
    sr1__free(p->threads);
    sr1__free(p);
}

sr1_status sr1__pool_new_begun(struct sr1__pool **out, int32_t n_threads,
                               void (*begin)(void *arg), void *arg)
{
    struct sr1__pool *p;

    if (n_threads < 0 || n_threads > MAX_THREADS)
        return sr1__fail(SR1_E_INVALID, "threads: %d is not in 0..%d", (int)n_threads,
                         MAX_THREADS);
    SR1__CALLOC(p, 1, "thread pool");
    p->n_threads = n_threads ? n_threads : count_processors();
    p->begin = begin;
    p->begin_arg = arg;
    p->threads = sr1__calloc((size_t)p->n_threads, sizeof *p->threads);
    if (!p->threads) {
        sr1__free(p);
        return sr1__fail_nomem("thread pool");
    }
    pthread_mutex_init(&p->run_lock, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int32_t i = 0; i < p->n_threads - 1; i++) {
        if (sr1__thread_start(&p->threads[i], run_pool_thread, p) != 0) {
            join_pool_threads(p, i);
            return sr1__fail(
                SR1_E_LIMIT,
                "thread pool: the system refused thread %d of %d; set fewer threads",
                (int)i + 1, (int)(n_threads ? n_threads : count_processors()));
        }
    }
    *out = p;
    return SR1_OK;
}

sr1_status sr1__pool_new(struct sr1__pool **out, int32_t n_threads)
{
    return sr1__pool_new_begun(out, n_threads, NULL, NULL);
}

void sr1__pool_free(struct sr1__pool *p)
{
    if (p)
        join_pool_threads(p, p->n_threads - 1);
}

int32_t sr1__pool_threads(const struct sr1__pool *p)
{
    return p ? p->n_threads : 1;
}
