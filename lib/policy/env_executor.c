/* policy/env_executor.c - a queue of actions and the threads that carry them out.
 *
 * The environment is called without the lock. A call owns copies of its texts and its
 * observations, so that a row whose call was given up can go on while the call still
 * runs. */
#include "policy/env_executor_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <math.h>

#define MAX_LOST 64 /* threads given up; then actions fail at once */

/* ---- calls ---- */

static void env_call_free(struct sr1__env_call *c)
{
    for (size_t i = 0; c->actions && i < c->n; i++)
        sr1__free((char *)(uintptr_t)c->actions[i].text);
    sr1__free(c->requests);
    sr1__free(c->actions);
    sr1__free(c->observations);
    sr1__free(c);
}

static struct sr1__env_call *env_call_new(size_t n)
{
    struct sr1__env_call *c = sr1__calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->requests = sr1__calloc(n, sizeof(struct sr1__env_request *));
    c->actions = sr1__calloc(n, sizeof(*c->actions));
    c->observations = sr1__calloc(n, sizeof(*c->observations));
    if (c->requests && c->actions && c->observations)
        return c;
    env_call_free(c);
    return NULL;
}

void sr1__env_executor_enqueue(struct sr1__env_executor *a, struct sr1__env_request *k)
{
    k->next = NULL;
    if (a->first)
        a->last->next = k;
    else
        a->first = k;
    if (a->n_queued == 0)
        a->since = sr1__now();
    a->last = k;
    a->n_queued++;
}

static struct sr1__env_request *pop_request(struct sr1__env_executor *a)
{
    struct sr1__env_request *k = a->first;

    a->first = k->next;
    a->n_queued--;
    return k;
}

void sr1__env_request_free_text(struct sr1__env_request *k)
{
    sr1__free((char *)(uintptr_t)k->action.text);
    k->action.text = NULL;
}

static void add_request_to_call(struct sr1__env_call *c, struct sr1__env_request *k)
{
    k->state = SR1__REQUEST_RUNNING;
    c->requests[c->n] = k;
    c->actions[c->n++] = k->action;
    k->action.text = NULL;
}

static int can_join_batch(const struct sr1__env_executor *a,
                          const struct sr1__env_request *k)
{
    return sr1__env_can_batch(a->env, k->action.text, k->action.len);
}

/* Add every queued request that the environment can batch; the first request is one of
 * them. */
static void add_joined_requests(struct sr1__env_executor *a, struct sr1__env_call *c)
{
    struct sr1__env_request *k = a->first;

    a->first = NULL;
    a->n_queued = 0;
    while (k) {
        struct sr1__env_request *next = k->next;

        if (can_join_batch(a, k))
            add_request_to_call(c, k);
        else
            sr1__env_executor_enqueue(a, k);
        k = next;
    }
}

/* This thread's share of the queue; NULL without memory. */
static struct sr1__env_call *begin_env_call(struct sr1__env_executor *a,
                                            struct sr1__env_worker *w)
{
    size_t takers = a->separate ? (size_t)a->n_idle : 1;
    size_t share = a->single ? 1 : (a->n_queued + takers - 1) / takers;
    int joined = a->single && can_join_batch(a, a->first);
    struct sr1__env_call *c = env_call_new(joined ? a->n_queued : share);

    if (!c)
        return NULL;
    if (joined)
        add_joined_requests(a, c);
    while (!joined && c->n < share)
        add_request_to_call(c, pop_request(a));
    c->tally.engine = c->requests[0]->completions->tally
                          ? c->requests[0]->completions->tally->engine
                          : NULL;
    c->worker = w;
    c->next = a->calls;
    a->calls = c;
    return c;
}

static void unlink_env_call(struct sr1__env_executor *a, const struct sr1__env_call *c)
{
    struct sr1__env_call **at = &a->calls;

    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
}

/* Takes o. */
static void complete_request(struct sr1__env_request *k, struct sr1__observation *o)
{
    if (!k) { /* nobody wants it any more */
        sr1__observation_free(o);
        return;
    }
    k->observation = *o;
    k->state = SR1__REQUEST_DONE;
    pthread_cond_signal(&k->completions->answered);
    if (k->completions->on_answer)
        k->completions->on_answer(k->completions->on_answer_arg);
}

/* The environment failed: so do all engines that asked. */
static void fail_requests(struct sr1__env_request *const *requests, size_t n,
                          sr1_status status)
{
    for (size_t i = 0; i < n; i++) {
        struct sr1__observation none;

        if (requests[i] && requests[i]->completions->error.code == SR1_OK)
            sr1__error_save(&requests[i]->completions->error, status);
        sr1__observation_init(&none);
        complete_request(requests[i], &none);
    }
}

static struct sr1__search_tally *find_tally(const struct sr1__env_call *c, size_t i)
{
    return c->requests[i] ? c->requests[i]->completions->tally : NULL;
}

/* Each generation that takes part has its share of the queries, and the calls. */
static void count_searches(const struct sr1__env_call *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct sr1__search_tally *tally = find_tally(c, i);
        int64_t own = 0;
        int first = 1;

        for (size_t k = 0; k < c->n; k++) {
            own += find_tally(c, k) == tally;
            first &= k >= i || find_tally(c, k) != tally;
        }
        if (!tally || !first)
            continue;
        tally->queries += c->tally.queries * own / (int64_t)c->n;
        tally->calls += c->tally.calls;
    }
}

/* Called with the lock held. */
static void end_env_call(struct sr1__env_executor *a, struct sr1__env_call *c,
                         sr1_status status)
{
    if (c->lost) {
        for (size_t i = 0; i < c->n; i++)
            sr1__observation_free(&c->observations[i]);
        a->n_lost--;
        return;
    }
    unlink_env_call(a, c);
    count_searches(c);
    if (status != SR1_OK) {
        fail_requests(c->requests, c->n, status);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        complete_request(c->requests[i], &c->observations[i]);
}

/* Detach the worker thread of an abandoned call; its observations will be discarded. */
static void abandon_worker(struct sr1__env_executor *a, struct sr1__env_call *c)
{
    unlink_env_call(a, c);
    c->lost = 1;
    pthread_detach(c->worker->thread);
    c->worker->live = 0;
    a->n_live--;
    a->n_lost++;
}

/* ---- threads ---- */

static void executor_release(struct sr1__env_executor *a)
{
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    sr1_env_free(a->env);
    sr1__free(a->workers);
    sr1__free(a);
}

static sr1_status call_env_rows(struct sr1__env_executor *a, struct sr1__env_call *c)
{
    struct sr1__search_tally *before = sr1__search_count_into(&c->tally);
    sr1_status status;

    if (a->env_lock)
        pthread_mutex_lock(a->env_lock);
    status = sr1__env_act_rows(a->env, c->actions, c->n, c->observations);
    (void)sr1__search_count_into(before);
    if (a->env_lock)
        pthread_mutex_unlock(a->env_lock);
    return status;
}

/* Carry out one share. Returns 0 when this thread was given up meanwhile. Called and left
 * with the lock held. */
static int run_env_call(struct sr1__env_executor *a, struct sr1__env_worker *w)
{
    struct sr1__env_call *c = begin_env_call(a, w);
    sr1_status status;
    int lost;

    if (!c) {
        struct sr1__env_request *k = pop_request(a);

        sr1__env_request_free_text(k);
        fail_requests(&k, 1, sr1__fail_nomem("actions"));
        return 1;
    }
    a->n_idle--;
    pthread_mutex_unlock(&a->lock);
    status = call_env_rows(a, c);
    pthread_mutex_lock(&a->lock);
    end_env_call(a, c, status);
    lost = c->lost;
    a->n_idle += !lost;
    env_call_free(c);
    return !lost;
}

void sr1__env_executor_notify(struct sr1__env_executor *a)
{
    pthread_cond_broadcast(&a->wake);
}

/* Has what is queued gathered for long enough? */
static int is_batch_due(const struct sr1__env_executor *a)
{
    return a->quit || a->n_stuck >= a->n_engines || sr1__now() >= a->since + a->wait;
}

/* Until something is queued, or what is queued may be due. */
static void wait_for_requests(struct sr1__env_executor *a)
{
    struct timespec t = sr1__clock_time(a->since + a->wait);

    if (a->first)
        pthread_cond_timedwait(&a->wake, &a->lock, &t);
    else
        pthread_cond_wait(&a->wake, &a->lock);
}

/* A lost thread leaves its worker to its successor. */
static void *env_worker_main(void *arg)
{
    struct sr1__env_worker *w = arg;
    struct sr1__env_executor *a = w->executor;
    int ours = 1, last;

    pthread_mutex_lock(&a->lock);
    while (ours && !(a->quit && !a->first)) {
        if (a->first && is_batch_due(a))
            ours = run_env_call(a, w);
        else
            wait_for_requests(a);
    }
    last = a->orphaned && a->n_lost == 0;
    pthread_mutex_unlock(&a->lock);
    if (last)
        executor_release(a);
    return NULL;
}

/* 0: the system refused the thread. Called with the lock held. */
static int start_env_worker(struct sr1__env_executor *a, struct sr1__env_worker *w)
{
    w->executor = a;
    if (sr1__thread_start(&w->thread, env_worker_main, w) != 0)
        return 0;
    w->live = 1;
    a->n_live++;
    a->n_idle++;
    return 1;
}

/* Start every worker without a thread, as long as not too many threads are lost. Called
 * with the lock held. */
static void start_missing(struct sr1__env_executor *a)
{
    for (int32_t i = 0; i < a->n_workers && a->n_lost < MAX_LOST; i++)
        if (!a->workers[i].live && !start_env_worker(a, &a->workers[i]))
            return; /* the next look tries again */
}

static sr1_status start_env_workers(struct sr1__env_executor *a, int32_t threads)
{
    sr1_status st = SR1_OK;

    a->workers = sr1__calloc((size_t)threads, sizeof(*a->workers));
    if (!a->workers)
        return sr1__fail_nomem("threads for searches");
    a->n_workers = threads;
    pthread_mutex_lock(&a->lock);
    for (int32_t i = 0; i < threads && st == SR1_OK; i++)
        if (!start_env_worker(a, &a->workers[i]))
            st = sr1__fail(SR1_E_LIMIT, "the system refused a thread for searches; lower "
                                        "search_concurrency");
    pthread_mutex_unlock(&a->lock);
    return st;
}

sr1_status sr1__env_executor_new(struct sr1__env_executor **out, sr1_env *env,
                                 const struct sr1__env_executor_options *o)
{
    struct sr1__env_executor *a = sr1__calloc(1, sizeof(*a));
    int32_t flags = o->env_lock ? 0 : sr1__env_flags(env);
    sr1_status st;

    if (!a)
        return sr1__fail_nomem("threads for searches");
    pthread_mutex_init(&a->lock, NULL);
    sr1__cond_init(&a->wake);
    a->env = sr1__env_retain(env);
    a->separate = (flags & SR1_ENV_SEPARATE) != 0;
    a->single = a->separate && (flags & SR1_ENV_SINGLE) != 0;
    a->deadline = o->deadline;
    a->wait = o->wait;
    a->env_lock = o->env_lock;
    st = start_env_workers(a, o->threads);
    if (st != SR1_OK) {
        struct sr1__error e;

        sr1__error_save(&e, st);
        sr1__env_executor_free(a);
        return sr1__error_raise(&e);
    }
    *out = a;
    return SR1_OK;
}

void sr1__env_executor_free(struct sr1__env_executor *a)
{
    int gone;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = 1;
    while (a->calls && !a->env_lock) /* no engine is left to want their answers */
        abandon_worker(a, a->calls);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    for (int32_t i = 0; i < a->n_workers; i++)
        if (a->workers[i].live)
            pthread_join(a->workers[i].thread, NULL);
    pthread_mutex_lock(&a->lock);
    a->orphaned = 1;
    gone = a->n_lost == 0;
    pthread_mutex_unlock(&a->lock);
    if (gone)
        executor_release(a);
}

/* ---- giving up ---- */

static void time_out_request(struct sr1__env_executor *a, struct sr1__env_request *k)
{
    struct sr1__observation o;

    (void)sr1__env_failed_observation(a->env, SR1_ACTION_TIMEOUT,
                                      "no answer within search_deadline", &o);
    complete_request(k, &o);
}

/* Sequences that asked too long ago go on without an answer. Returns how many did. */
static size_t time_out_requests(struct sr1__env_executor *a, struct sr1__env_call *c,
                                double late)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (!c->requests[i] || c->requests[i]->asked > late)
            continue;
        time_out_request(a, c->requests[i]);
        c->requests[i] = NULL;
        n++;
    }
    return n;
}

static int is_wanted(const struct sr1__env_call *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->requests[i])
            return 1;
    return 0;
}

static void time_out_queued(struct sr1__env_executor *a, double late)
{
    struct sr1__env_request *k = a->first, *next;

    a->first = NULL;
    a->n_queued = 0;
    for (; k; k = next) {
        next = k->next;
        if (k->asked > late && a->n_live > 0) {
            sr1__env_executor_enqueue(a, k);
            continue;
        }
        sr1__env_request_free_text(k);
        time_out_request(a, k);
    }
}

/* Time out what was asked before the deadline's time, and abandon calls that nobody waits
 * for any more. With no thread left that could try, all that is queued is late. */
void sr1__env_executor_abandon_late(struct sr1__env_executor *a)
{
    double late = a->deadline > 0 ? sr1__now() - a->deadline : -HUGE_VAL;
    struct sr1__env_call *next;

    for (struct sr1__env_call *c = a->calls; c; c = next) {
        next = c->next;
        if (time_out_requests(a, c, late) > 0 && !is_wanted(c))
            abandon_worker(a, c);
    }
    start_missing(a); /* lost threads may have come back since */
    if (a->n_live == 0 || (a->first && a->first->asked <= late))
        time_out_queued(a, late);
}
