/* rollout/asker.c - a queue of actions and the threads that carry them out.
 *
 * The environment is called without the lock. A call owns copies of its texts and its
 * observations, so that a row whose call was given up can go on while the call still
 * runs. */
#include "rollout/asker_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#define MAX_LOST 64 /* threads given up; then actions fail at once */

/* ---- calls ---- */

static void call_free(struct sr1__ask_call *c)
{
    for (size_t i = 0; c->actions && i < c->n; i++)
        sr1__free((char *)(uintptr_t)c->actions[i].text);
    sr1__free(c->asks);
    sr1__free(c->actions);
    sr1__free(c->observations);
    sr1__free(c);
}

static struct sr1__ask_call *call_new(size_t n)
{
    struct sr1__ask_call *c = sr1__calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->asks = sr1__calloc(n, sizeof(struct sr1__ask *));
    c->actions = sr1__calloc(n, sizeof(*c->actions));
    c->observations = sr1__calloc(n, sizeof(*c->observations));
    if (c->asks && c->actions && c->observations)
        return c;
    call_free(c);
    return NULL;
}

void sr1__asker_push(struct sr1__asker *a, struct sr1__ask *k)
{
    k->next = NULL;
    if (a->first)
        a->last->next = k;
    else
        a->first = k;
    a->last = k;
    a->n_queued++;
}

static struct sr1__ask *pop(struct sr1__asker *a)
{
    struct sr1__ask *k = a->first;

    a->first = k->next;
    a->n_queued--;
    return k;
}

void sr1__ask_drop_text(struct sr1__ask *k)
{
    sr1__free((char *)(uintptr_t)k->action.text);
    k->action.text = NULL;
}

/* This thread's share of the queue; NULL without memory. */
static struct sr1__ask_call *begin_call(struct sr1__asker *a, struct sr1__ask_worker *w)
{
    size_t takers = a->separate ? (size_t)a->n_idle : 1;
    size_t share = a->single ? 1 : (a->n_queued + takers - 1) / takers;
    struct sr1__ask_call *c = call_new(share);

    if (!c)
        return NULL;
    for (; c->n < share; c->n++) {
        struct sr1__ask *k = pop(a);

        k->state = SR1__ASK_RUNNING;
        c->asks[c->n] = k;
        c->actions[c->n] = k->action;
        k->action.text = NULL;
    }
    c->worker = w;
    c->began = sr1__now();
    c->next = a->calls;
    a->calls = c;
    return c;
}

static void unlink_call(struct sr1__asker *a, const struct sr1__ask_call *c)
{
    struct sr1__ask_call **at = &a->calls;

    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
}

/* Takes o. */
static void deliver(struct sr1__ask *k, struct sr1__observation *o)
{
    if (!k) { /* nobody wants it any more */
        sr1__observation_free(o);
        return;
    }
    k->observation = *o;
    k->state = SR1__ASK_ANSWERED;
    pthread_cond_signal(&k->box->answered);
}

/* The environment failed: so do all boxes that asked. */
static void fail_asks(struct sr1__ask *const *asks, size_t n, sr1_status status)
{
    for (size_t i = 0; i < n; i++) {
        struct sr1__observation none;

        if (asks[i] && asks[i]->box->error.code == SR1_OK)
            sr1__error_save(&asks[i]->box->error, status);
        sr1__observation_init(&none);
        deliver(asks[i], &none);
    }
}

/* Called with the lock held. */
static void end_call(struct sr1__asker *a, struct sr1__ask_call *c, sr1_status status)
{
    if (c->lost) {
        for (size_t i = 0; i < c->n; i++)
            sr1__observation_free(&c->observations[i]);
        a->n_lost--;
        return;
    }
    unlink_call(a, c);
    if (status != SR1_OK) {
        fail_asks(c->asks, c->n, status);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        deliver(c->asks[i], &c->observations[i]);
}

/* The call and its thread go on by themselves; nothing is expected of them. */
static void lose(struct sr1__asker *a, struct sr1__ask_call *c)
{
    unlink_call(a, c);
    c->lost = 1;
    pthread_detach(c->worker->thread);
    c->worker->live = 0;
    a->n_live--;
    a->n_lost++;
}

/* ---- threads ---- */

static void asker_release(struct sr1__asker *a)
{
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    sr1_env_free(a->env);
    sr1__free(a->workers);
    sr1__free(a);
}

/* Carry out one share. Returns 0 when this thread was given up meanwhile. Called and left
 * with the lock held. */
static int carry_out(struct sr1__asker *a, struct sr1__ask_worker *w)
{
    struct sr1__ask_call *c = begin_call(a, w);
    sr1_status status;
    int lost;

    if (!c) {
        struct sr1__ask *k = pop(a);

        sr1__ask_drop_text(k);
        fail_asks(&k, 1, sr1__fail_nomem("actions"));
        return 1;
    }
    a->n_idle--;
    pthread_mutex_unlock(&a->lock);
    status = sr1__env_act(a->env, c->actions, c->n, c->observations);
    pthread_mutex_lock(&a->lock);
    end_call(a, c, status);
    lost = c->lost;
    a->n_idle += !lost;
    call_free(c);
    return !lost;
}

/* A lost thread leaves its worker to its successor. */
static void *thread_main(void *arg)
{
    struct sr1__ask_worker *w = arg;
    struct sr1__asker *a = w->asker;
    int ours = 1, last;

    pthread_mutex_lock(&a->lock);
    while (ours && !(a->quit && !a->first)) {
        if (a->first)
            ours = carry_out(a, w);
        else
            pthread_cond_wait(&a->wake, &a->lock);
    }
    last = a->orphaned && a->n_lost == 0;
    pthread_mutex_unlock(&a->lock);
    if (last)
        asker_release(a);
    return NULL;
}

/* Called with the lock held. */
static sr1_status start(struct sr1__asker *a, struct sr1__ask_worker *w)
{
    w->asker = a;
    if (pthread_create(&w->thread, NULL, thread_main, w) != 0)
        return sr1__fail(SR1_E_LIMIT, "the system refused a thread for searches; lower "
                                      "search_concurrency");
    w->live = 1;
    a->n_live++;
    a->n_idle++;
    return SR1_OK;
}

static sr1_status start_all(struct sr1__asker *a, int32_t threads)
{
    sr1_status st = SR1_OK;

    a->workers = sr1__calloc((size_t)threads, sizeof(*a->workers));
    if (!a->workers)
        return sr1__fail_nomem("threads for searches");
    a->n_workers = threads;
    pthread_mutex_lock(&a->lock);
    for (int32_t i = 0; i < threads && st == SR1_OK; i++)
        st = start(a, &a->workers[i]);
    pthread_mutex_unlock(&a->lock);
    return st;
}

sr1_status sr1__asker_new(struct sr1__asker **out, sr1_env *env, int32_t threads,
                          double deadline)
{
    struct sr1__asker *a = sr1__calloc(1, sizeof(*a));
    sr1_status st;

    if (!a)
        return sr1__fail_nomem("threads for searches");
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    a->env = sr1__env_retain(env);
    a->separate = (sr1__env_flags(env) & SR1_ENV_SEPARATE) != 0;
    a->single = a->separate && (sr1__env_flags(env) & SR1_ENV_SINGLE) != 0;
    a->deadline = deadline;
    st = start_all(a, threads);
    if (st != SR1_OK) {
        struct sr1__error e;

        sr1__error_save(&e, st);
        sr1__asker_free(a);
        return sr1__error_raise(&e);
    }
    *out = a;
    return SR1_OK;
}

void sr1__asker_free(struct sr1__asker *a)
{
    int gone;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = 1;
    while (a->calls) /* no box is left to want their answers */
        lose(a, a->calls);
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
        asker_release(a);
}

/* ---- giving up ---- */

static void time_out(struct sr1__asker *a, struct sr1__ask *k)
{
    struct sr1__observation o;

    (void)sr1__env_no_answer(a->env, SR1_SEARCH_TIMEOUT, &o);
    deliver(k, &o);
}

/* Its rows go on, its thread gets a successor. */
static void give_up(struct sr1__asker *a, struct sr1__ask_call *c)
{
    for (size_t i = 0; i < c->n; i++)
        time_out(a, c->asks[i]);
    lose(a, c);
    if (a->n_lost < MAX_LOST)
        (void)start(a, c->worker);
}

void sr1__asker_give_up_late(struct sr1__asker *a)
{
    double late = sr1__now() - a->deadline;
    struct sr1__ask_call *next;

    for (struct sr1__ask_call *c = a->calls; c && a->deadline > 0; c = next) {
        next = c->next;
        if (c->began <= late)
            give_up(a, c);
    }
    while (a->n_live == 0 && a->first) { /* no thread is left that could try */
        struct sr1__ask *k = pop(a);

        sr1__ask_drop_text(k);
        time_out(a, k);
    }
}
