/* policy/env_executor.c - a queue of actions, and tasks of an executor that carry them
 * out.
 *
 * The environment is called without the lock. A call owns copies of its texts and its
 * observations, so that a row whose call was given up can go on while the call still
 * runs. */
#include "policy/env_executor_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>

#define MAX_LOST 63 /* threads given up; beyond that actions fail at once */

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

/* What a call of the environment raises belongs to the one whose mark it has. */
static int has_mark(const struct sr1__env_call *c, const struct sr1__env_request *k)
{
    return k->completions->mark == c->mark;
}

/* Add every queued request of the call's mark that the environment can batch; the first
 * request is one of them. */
static void add_joined_requests(struct sr1__env_executor *a, struct sr1__env_call *c)
{
    struct sr1__env_request *k = a->first;

    a->first = NULL;
    a->n_queued = 0;
    while (k) {
        struct sr1__env_request *next = k->next;

        if (has_mark(c, k) && can_join_batch(a, k))
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
    size_t takers = a->separate ? (size_t)(a->n_workers - a->n_calling) : 1;
    size_t share = a->single ? 1 : (a->n_queued + takers - 1) / takers;
    int joined = a->single && can_join_batch(a, a->first);
    struct sr1__env_call *c = env_call_new(joined ? a->n_queued : share);

    if (!c)
        return NULL;
    c->mark = a->first->completions->mark;
    if (joined)
        add_joined_requests(a, c);
    while (!joined && c->n < share && a->first && has_mark(c, a->first))
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

        if (requests[i])
            sr1__error_keep_first(&requests[i]->completions->error, status);
        sr1__observation_init(&none);
        complete_request(requests[i], &none);
    }
}

static struct sr1__search_tally *find_tally(const struct sr1__env_call *c, size_t i)
{
    return c->requests[i] ? c->requests[i]->completions->tally : NULL;
}

static int is_first_of_tally(const struct sr1__env_call *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (find_tally(c, k) == find_tally(c, i))
            return 0;
    return 1;
}

/* Each generation that takes part has its share of the queries, and the calls. */
static void count_searches(const struct sr1__env_call *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct sr1__search_tally *tally = find_tally(c, i);
        int64_t own = 0;

        if (!tally || !is_first_of_tally(c, i))
            continue;
        for (size_t k = i; k < c->n; k++)
            own += find_tally(c, k) == tally;
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

/* Another thread may take the place of the call's; its observations will be discarded. */
static void abandon_call(struct sr1__env_executor *a, struct sr1__env_call *c)
{
    unlink_env_call(a, c);
    c->lost = 1;
    sr1__executor_abandon(a->threads, &c->worker->task);
    c->worker->active = 0;
    a->n_active--;
    a->n_calling--;
    a->n_lost++;
}

/* ---- workers ---- */

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
    uint64_t mark = sr1_set_call_mark(c->mark);
    sr1_status status;

    if (a->env_lock)
        pthread_mutex_lock(a->env_lock);
    status = sr1__env_act_rows(a->env, c->actions, c->n, c->observations);
    (void)sr1_set_call_mark(mark);
    (void)sr1__search_count_into(before);
    if (a->env_lock)
        pthread_mutex_unlock(a->env_lock);
    return status;
}

/* Carry out one share. Returns 0 when the call was given up meanwhile, and the worker is
 * another thread's. Called and left with the lock held. */
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
    a->n_calling++;
    pthread_mutex_unlock(&a->lock);
    status = call_env_rows(a, c);
    pthread_mutex_lock(&a->lock);
    end_env_call(a, c, status);
    lost = c->lost;
    a->n_calling -= !lost;
    env_call_free(c);
    return !lost;
}

/* Has what is queued gathered for long enough? */
static int is_batch_due(const struct sr1__env_executor *a)
{
    return a->quit || a->n_stuck >= a->n_engines || sr1__now() >= a->since + a->wait;
}

/* Until what is queued may be due. */
static void wait_until_due(struct sr1__env_executor *a)
{
    struct timespec t = sr1__clock_time(a->since + a->wait);

    pthread_cond_timedwait(&a->wake, &a->lock, &t);
}

/* A lost call leaves its worker to a successor. */
static void run_env_worker(void *arg)
{
    struct sr1__env_worker *w = arg;
    struct sr1__env_executor *a = w->executor;
    int ours = 1, last;

    pthread_mutex_lock(&a->lock);
    while (ours && a->first) {
        if (is_batch_due(a))
            ours = run_env_call(a, w);
        else
            wait_until_due(a);
    }
    if (ours) {
        w->active = 0;
        a->n_active--;
    }
    last = a->orphaned && a->n_lost == 0;
    pthread_mutex_unlock(&a->lock);
    if (last)
        executor_release(a);
}

/* Fail all that is queued. */
static void fail_queued(struct sr1__env_executor *a, sr1_status status)
{
    while (a->first) {
        struct sr1__env_request *k = pop_request(a);

        sr1__env_request_free_text(k);
        fail_requests(&k, 1, status);
    }
}

/* Each queued request, or all of them, could go to a worker that is in no call. */
static int wants_worker(const struct sr1__env_executor *a)
{
    size_t takers = (size_t)(a->n_active - a->n_calling);

    return a->n_active < a->n_workers && takers < (a->separate ? a->n_queued : 1) &&
           a->first;
}

/* Called with the lock held, as the next. */
static sr1_status post_workers(struct sr1__env_executor *a)
{
    for (int32_t i = 0; i < a->n_workers && wants_worker(a); i++) {
        struct sr1__env_worker *w = &a->workers[i];

        if (w->active)
            continue;
        w->task = (struct sr1__task){.run = run_env_worker, .arg = w};
        SR1__TRY(sr1__executor_post(a->threads, &w->task));
        w->active = 1;
        a->n_active++;
    }
    return SR1_OK;
}

void sr1__env_executor_notify(struct sr1__env_executor *a)
{
    sr1_status st = post_workers(a);

    if (st != SR1_OK)
        fail_queued(a, sr1__context(st, "lower search_concurrency"));
    pthread_cond_broadcast(&a->wake);
}

static sr1_status make_env_workers(struct sr1__env_executor *a, int32_t threads)
{
    SR1__CALLOC(a->workers, (size_t)threads, "threads for searches");
    a->n_workers = threads;
    for (int32_t i = 0; i < threads; i++)
        a->workers[i].executor = a;
    return sr1__executor_new(&a->threads, "searches", (size_t)threads, MAX_LOST);
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
    st = make_env_workers(a, o->threads);
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
        abandon_call(a, a->calls);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    sr1__executor_free(a->threads);
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
        if (k->asked > late && sr1__executor_threads(a->threads) > 0) {
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
            abandon_call(a, c);
    }
    if (a->first) /* lost threads may have come back since */
        sr1__env_executor_notify(a);
    if (a->first && (a->first->asked <= late || sr1__executor_threads(a->threads) == 0))
        time_out_queued(a, late);
}
