/* retrieval/server/batcher.c - a queue of jobs and the threads that empty it.
 *
 * A worker takes its share of the waiting tasks, at least one: while the engine is busy
 * requests gather, so batches grow with the load, and without load no request waits. */
#include "retrieval/server/batcher.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "retrieval/server/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Answers of all requests under way, in units of the largest one. */
#define ANSWERS_MAX 4

/* Queries begin .. begin + n of a job. */
struct sr1__server_task {
    struct sr1__server_task *next; /* in one call of the engine */
    struct sr1__server_job *job;
    size_t begin;
    size_t n;
    struct sr1__buf text;   /* the lists of hits, with commas between */
    struct sr1__buf scores; /* the lists of scores, where they lie apart */
};

struct batch_worker {
    struct sr1__batcher *batcher;
    pthread_t thread;
    const char **queries; /* [o.batch] of one call */
};

struct sr1__batcher {
    struct sr1__batcher_options o;
    pthread_mutex_t lock; /* guards everything below, and the failures of jobs */
    pthread_cond_t wake;
    struct sr1__server_job *first;
    struct sr1__server_job **last;
    size_t waiting; /* queries of the tasks in the queue; a rerank job counts 1 */
    int closed;
    atomic_size_t bytes;          /* of answers that are not out yet */
    struct batch_worker *workers; /* [o.threads] */
    int32_t started;
};

/* ---- jobs ---- */

static void fail_job(struct sr1__batcher *b, struct sr1__server_job *job, int status,
                     const char *text)
{
    pthread_mutex_lock(&b->lock);
    if (job->status == SR1__HTTP_OK) {
        job->status = status;
        snprintf(job->failure, sizeof(job->failure), "%s", text);
    }
    pthread_mutex_unlock(&b->lock);
}

/* As this thread's error says. */
static void fail_with(struct sr1__batcher *b, struct sr1__server_job *job,
                      sr1_status status)
{
    int http = status == SR1_E_TIMEOUT ? SR1__HTTP_TIMEOUT
               : status == SR1_E_LIMIT ? SR1__HTTP_INVALID
                                       : SR1__HTTP_UNAVAILABLE;

    fail_job(b, job, http, sr1_last_error());
}

/* Do scores come in lists of their own? */
static int lies_apart(const struct sr1__server_job *job)
{
    return job->scores && job->dialect->apart != NULL;
}

/* The answer is task 0's text with that of the others behind it. */
static void join_texts(struct sr1__server_job *job)
{
    sr1__buf_free(&job->answer);
    job->answer = job->tasks[0].text;
    sr1__buf_init(&job->tasks[0].text, 0);
    for (size_t i = 1; i < job->n_tasks; i++) {
        struct sr1__buf *text = &job->tasks[i].text;

        sr1__buf_char(&job->answer, ',');
        sr1__buf_add(&job->answer, text->data, text->len);
        sr1__buf_free(text);
    }
    for (size_t i = 0; lies_apart(job) && i < job->n_tasks; i++) {
        struct sr1__buf *scores = &job->tasks[i].scores;

        sr1__buf_str(&job->answer, i == 0 ? job->dialect->apart : ",");
        sr1__buf_add(&job->answer, scores->data, scores->len);
        sr1__buf_free(scores);
    }
    sr1__buf_str(&job->answer, job->dialect->end);
    sr1__buf_str(&job->answer, lies_apart(job) ? "]" : "");
}

/* Count one finished task; the last one assembles the answer and calls done. */
static void task_done(struct sr1__batcher *b, struct sr1__server_job *job)
{
    if (atomic_fetch_sub(&job->left, 1) != 1)
        return;
    if (job->run == NULL && job->status == SR1__HTTP_OK) {
        sr1_status status;

        join_texts(job);
        status = sr1__buf_status(&job->answer, "the answer");
        if (status != SR1_OK)
            fail_with(b, job, status);
    }
    if (job->run == NULL && job->status != SR1__HTTP_OK) {
        sr1__buf_clear(&job->answer);
        sr1__wire_detail(&job->answer, job->failure);
    }
    job->done(job);
}

/* ---- one call of the engine ---- */

/* The list of one query; a failure of the query is one of the call. */
static sr1_status write_hit_list(struct sr1__batcher *b, struct sr1__server_task *t,
                                 const sr1_search_results *found, size_t query)
{
    size_t before = t->text.len + t->scores.len;
    size_t n;
    size_t all;

    switch (sr1_search_results_status(found, query)) {
    case SR1_ACTION_TIMEOUT:
        return sr1__fail(SR1_E_TIMEOUT, "%s", sr1_search_results_message(found, query));
    case SR1_ACTION_ERROR:
        return sr1__fail(SR1_E_NETWORK, "%s", sr1_search_results_message(found, query));
    default:
        break;
    }
    SR1__TRY(
        sr1__wire_hits(&t->text, found, query, t->job->scores && !lies_apart(t->job)));
    if (lies_apart(t->job))
        sr1__wire_scores(&t->scores, found, query);
    SR1__TRY(sr1__buf_status(&t->text, "the answer"));
    SR1__TRY(sr1__buf_status(&t->scores, "the answer"));
    n = t->text.len + t->scores.len - before;
    all = n + atomic_fetch_add(&t->job->bytes, n);
    if (n + atomic_fetch_add(&b->bytes, n) > ANSWERS_MAX * b->o.max_answer)
        return sr1__fail(SR1_E_STATE, "too many large answers at a time");
    if (all > b->o.max_answer)
        return sr1__fail(SR1_E_LIMIT,
                         "the answer is longer than %zu bytes: ask for less at a time",
                         b->o.max_answer);
    return SR1_OK;
}

/* The lists of a task whose queries are found[at ...]. */
static void write_task(struct sr1__batcher *b, struct sr1__server_task *t,
                       const sr1_search_results *found, size_t at)
{
    sr1_status status = SR1_OK;

    if (t->begin == 0) {
        sr1__buf_str(&t->text, lies_apart(t->job) ? "[" : "");
        sr1__buf_str(&t->text, t->job->dialect->begin);
    }
    for (size_t i = 0; i < t->n && status == SR1_OK; i++) {
        sr1__buf_str(&t->text, i > 0 ? "," : "");
        sr1__buf_str(&t->scores, i > 0 ? "," : "");
        status = write_hit_list(b, t, found, at + i);
    }
    if (status == SR1_OK)
        return;
    sr1__buf_free(&t->text);
    sr1__buf_free(&t->scores);
    fail_with(b, t->job, status);
}

/* Ask for the queries of a chain of tasks, all with one top_k. */
static sr1_status run_search_tasks(struct sr1__batcher *b, struct sr1__server_task *chain,
                                   size_t n, const char **queries)
{
    sr1_search_results *found = NULL;
    size_t at = 0;

    for (struct sr1__server_task *t = chain; t != NULL; t = t->next) {
        memcpy(queries + at, t->job->queries + t->begin, t->n * sizeof(*queries));
        at += t->n;
    }
    sr1__server_metrics_batch(b->o.metrics, n);
    SR1__TRY(sr1_search_run(b->o.engine, queries, n, chain->job->top_k, &found));
    at = 0;
    for (struct sr1__server_task *t = chain; t != NULL; t = t->next) {
        write_task(b, t, found, at);
        at += t->n;
    }
    sr1_search_results_free(found);
    return SR1_OK;
}

/* After a failed call each task is searched again alone, so that one bad request fails
 * alone; after a time-out or network failure all tasks fail. */
static void run_search_chain(struct sr1__batcher *b, struct sr1__server_task *chain,
                             size_t n, const char **queries)
{
    sr1_status status = run_search_tasks(b, chain, n, queries);
    int again = chain->next != NULL && status != SR1_E_TIMEOUT && status != SR1_E_NETWORK;
    struct sr1__server_task *next;

    if (status == SR1_OK)
        return;
    for (struct sr1__server_task *t = chain; t != NULL; t = next) {
        next = t->next;
        t->next = NULL;
        if (again)
            status = run_search_tasks(b, t, t->n, queries);
        if (status != SR1_OK)
            fail_with(b, t->job, status);
        t->next = next;
    }
}

static void run_chain(struct sr1__batcher *b, struct sr1__server_task *chain, size_t n,
                      const char **queries)
{
    struct sr1__server_job *job = chain->job;

    if (job->run != NULL)
        job->status = job->run(job);
    else
        run_search_chain(b, chain, n, queries);
    while (chain != NULL) {
        struct sr1__server_task *next = chain->next; /* the job may free chain */

        task_done(b, chain->job);
        chain = next;
    }
}

/* ---- the queue ---- */

/* Called with the lock held: let more queries come for a while, once there is one. */
static void wait_window(struct sr1__batcher *b)
{
    struct timespec until;
    int64_t ns;

    if (b->o.window_us == 0 || b->closed || b->first == NULL ||
        b->waiting >= (size_t)b->o.batch)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + (int64_t)b->o.window_us * 1000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    while (!b->closed && b->first != NULL && b->waiting < (size_t)b->o.batch &&
           pthread_cond_timedwait(&b->wake, &b->lock, &until) == 0)
        ;
}

/* These three are called with the lock held. */

static void push_job(struct sr1__batcher *b, struct sr1__server_job *job)
{
    job->next = NULL;
    *b->last = job;
    b->last = &job->next;
}

/* The next task of the first job, which goes to the end if it has more. */
static struct sr1__server_task *pop_task(struct sr1__batcher *b)
{
    struct sr1__server_job *job = b->first;
    struct sr1__server_task *t = &job->tasks[job->taken++];

    b->first = job->next;
    if (b->first == NULL)
        b->last = &b->first;
    if (job->taken < job->n_tasks)
        push_job(b, job);
    b->waiting -= t->n;
    return t;
}

/* A worker's share of the queue, as a chain of *n queries; there is a job. */
static struct sr1__server_task *take_task_chain(struct sr1__batcher *b, size_t *n)
{
    size_t share = (b->waiting + (size_t)b->o.threads - 1) / (size_t)b->o.threads;
    size_t most = share < (size_t)b->o.batch ? share : (size_t)b->o.batch;
    const struct sr1__server_job *job = b->first;
    struct sr1__server_task *chain = pop_task(b);
    struct sr1__server_task *end = chain;

    *n = chain->n;
    while (job->run == NULL && b->first != NULL && b->first->run == NULL &&
           b->first->top_k == job->top_k &&
           *n + b->first->tasks[b->first->taken].n <= most) {
        end->next = pop_task(b);
        end = end->next;
        *n += end->n;
    }
    atomic_store(&b->o.metrics->waiting, (long long)b->waiting);
    return chain;
}

/* The batcher that this thread works for; others work for it by its mark. */
static _Thread_local const struct sr1__batcher *here;

/* Of its calls of the engine: no user's mark has the highest bit (searchr1/base.h). */
static uint64_t make_mark(const struct sr1__batcher *b)
{
    return UINT64_C(1) << 63 | (uint64_t)(uintptr_t)b;
}

int sr1__batcher_is_here(const struct sr1__batcher *b)
{
    return b != NULL && (here == b || sr1_call_mark() == make_mark(b));
}

static void *run_batch_worker(void *arg)
{
    struct batch_worker *w = arg;
    struct sr1__batcher *b = w->batcher;

    here = b;
    (void)sr1_set_call_mark(make_mark(b));
    pthread_mutex_lock(&b->lock);
    for (;;) {
        struct sr1__server_task *chain;
        size_t n;

        while (b->first == NULL && !b->closed)
            pthread_cond_wait(&b->wake, &b->lock);
        wait_window(b);
        if (b->first == NULL && b->closed)
            break;
        if (b->first == NULL)
            continue;
        chain = take_task_chain(b, &n);
        if (b->first != NULL)
            pthread_cond_signal(&b->wake);
        pthread_mutex_unlock(&b->lock);
        run_chain(b, chain, n, w->queries);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static sr1_status split_job(struct sr1__batcher *b, struct sr1__server_job *job)
{
    size_t batch = (size_t)b->o.batch;

    job->n_tasks = job->run != NULL ? 1 : (job->n + batch - 1) / batch;
    job->tasks = sr1__calloc(job->n_tasks, sizeof(*job->tasks));
    if (job->tasks == NULL)
        return sr1__fail_nomem("request");
    for (size_t i = 0; i < job->n_tasks; i++) {
        struct sr1__server_task *t = &job->tasks[i];

        t->job = job;
        t->begin = i * batch;
        t->n = job->n - t->begin < batch ? job->n - t->begin : batch;
        t->n = job->run != NULL ? 1 : t->n;
        sr1__buf_init(&t->text, 0);
        sr1__buf_init(&t->scores, 0);
    }
    job->taken = 0;
    job->status = SR1__HTTP_OK;
    atomic_init(&job->left, job->n_tasks);
    atomic_init(&job->bytes, 0);
    job->all_bytes = &b->bytes;
    return SR1_OK;
}

sr1_status sr1__batcher_submit(struct sr1__batcher *b, struct sr1__server_job *job)
{
    sr1_status status = split_job(b, job);

    if (status != SR1_OK)
        return status;
    pthread_mutex_lock(&b->lock);
    if (b->closed) {
        status = sr1__fail(SR1_E_STATE, "the server is stopping");
    } else {
        push_job(b, job);
        b->waiting += job->run != NULL ? 1 : job->n;
        atomic_store(&b->o.metrics->waiting, (long long)b->waiting);
        pthread_cond_signal(&b->wake);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}

void sr1__server_job_free(struct sr1__server_job *job)
{
    for (size_t i = 0; job->tasks != NULL && i < job->n_tasks; i++) {
        sr1__buf_free(&job->tasks[i].text);
        sr1__buf_free(&job->tasks[i].scores);
    }
    if (job->all_bytes != NULL)
        atomic_fetch_sub(job->all_bytes, atomic_load(&job->bytes));
    job->all_bytes = NULL;
    sr1__free(job->tasks);
    job->tasks = NULL;
}

/* ---- opening and closing ---- */

static sr1_status start_batch_worker(struct sr1__batcher *b, struct batch_worker *w)
{
    w->batcher = b;
    w->queries = sr1__calloc((size_t)b->o.batch, sizeof(*w->queries));
    if (w->queries == NULL)
        return sr1__fail_nomem("server threads");
    if (sr1__thread_start(&w->thread, run_batch_worker, w) != 0) {
        sr1__free((void *)w->queries);
        return sr1__fail(SR1_E_LIMIT,
                         "server: the system refused a thread; set fewer threads");
    }
    return SR1_OK;
}

sr1_status sr1__batcher_open(struct sr1__batcher **out,
                             const struct sr1__batcher_options *options)
{
    struct sr1__batcher *b = sr1__calloc(1, sizeof(*b));

    if (b == NULL)
        return sr1__fail_nomem("server");
    b->o = *options;
    b->last = &b->first;
    sr1__cond_init(&b->wake);
    pthread_mutex_init(&b->lock, NULL);
    b->workers = sr1__calloc((size_t)b->o.threads, sizeof(*b->workers));
    if (b->workers == NULL) {
        sr1__batcher_free(b);
        return sr1__fail_nomem("server threads");
    }
    for (; b->started < b->o.threads; b->started++) {
        sr1_status status = start_batch_worker(b, &b->workers[b->started]);

        if (status != SR1_OK) {
            sr1__batcher_free(b);
            return status;
        }
    }
    *out = b;
    return SR1_OK;
}

void sr1__batcher_close(struct sr1__batcher *b)
{
    pthread_mutex_lock(&b->lock);
    b->closed = 1;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    for (; b->started > 0; b->started--) {
        struct batch_worker *w = &b->workers[b->started - 1];

        pthread_join(w->thread, NULL);
        sr1__free((void *)w->queries);
    }
}

void sr1__batcher_free(struct sr1__batcher *b)
{
    if (b == NULL)
        return;
    sr1__batcher_close(b);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    sr1__free(b->workers);
    sr1__free(b);
}
