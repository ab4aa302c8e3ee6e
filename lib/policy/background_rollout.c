/* policy/background_rollout.c - a generation by the servers on a thread of its own. The
 * caller's callbacks are not called from there: it asks how far the generation is. */
#include "policy/background_rollout.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "policy/rollout_internal.h"
#include "policy/server_engine.h"

#include <string.h>

struct sr1__background_rollout {
    sr1_rollout *rollout;      /* a reference of its own */
    struct sr1__engine engine; /* over the rollout's servers */
    int64_t version;           /* of the servers' weights */
    const sr1_query *queries;  /* [n] borrowed */
    size_t n;
    sr1_rollout_options options;
    sr1_trajectory **t; /* [total] */
    size_t total;
    struct sr1__rollout_stats stats;
    double seconds;
    struct sr1__error error; /* its code is the generation's */
    atomic_int cancelled;
    atomic_llong done; /* trajectories */
    uint64_t mark;     /* sr1_call_mark of its caller */
    pthread_t thread;
    int32_t started;
    pthread_mutex_t lock; /* over `over` */
    pthread_cond_t ended;
    int32_t over; /* the thread touches nothing more */
};

static sr1_status count_done(void *user, int64_t done, int64_t total, int64_t tokens)
{
    struct sr1__background_rollout *b = user;

    (void)total;
    (void)tokens;
    atomic_store(&b->done, done);
    return atomic_load(&b->cancelled)
               ? sr1__fail(SR1_E_CANCELLED, "the rollout was stopped")
               : SR1_OK;
}

static void *run_background_rollout(void *arg)
{
    struct sr1__background_rollout *b = arg;
    double began = sr1__now();
    sr1_status st;

    sr1_set_call_mark(b->mark);
    st = sr1__rollout_generate_beside(b->rollout, &b->engine, b->version, b->queries,
                                      b->n, &b->options, b->t, &b->stats);
    if (st != SR1_OK)
        sr1__error_save(&b->error, st);
    b->seconds = sr1__now() - began;
    pthread_mutex_lock(&b->lock);
    b->over = 1;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static sr1_status start_thread(struct sr1__background_rollout *b)
{
    b->t = sr1__calloc(b->total + 1, sizeof(sr1_trajectory *));
    SR1__CHECK_ALLOC(b->t, "trajectories");
    SR1__TRY(sr1__server_engine_share(&b->engine, &b->rollout->server));
    if (sr1__thread_start(&b->thread, run_background_rollout, b) != 0)
        return sr1__fail(SR1_E_LIMIT, "the system has no thread for a rollout");
    b->started = 1;
    return SR1_OK;
}

sr1_status sr1__background_rollout_begin(struct sr1__background_rollout **out,
                                         sr1_rollout *r, const sr1_query *queries,
                                         size_t n, const sr1_rollout_options *o)
{
    struct sr1__background_rollout *b;
    sr1_status st;

    SR1__CALLOC(b, 1, "rollout");
    sr1__life_hold(&r->life);
    atomic_fetch_add(&r->beside, 1);
    pthread_mutex_init(&b->lock, NULL);
    sr1__cond_init(&b->ended);
    b->rollout = r;
    b->mark = sr1_call_mark();
    b->version = atomic_load(&r->server_version);
    b->queries = queries;
    b->n = n;
    b->total = n * (size_t)o->group_size;
    b->options = (sr1_rollout_options){.struct_size = sizeof(b->options),
                                       .group_size = o->group_size,
                                       .seed = o->seed,
                                       .user = b,
                                       .progress = count_done};
    st = start_thread(b);
    if (st == SR1_OK)
        *out = b;
    else
        sr1__background_rollout_free(b);
    return st;
}

int sr1__background_rollout_wait(struct sr1__background_rollout *b, double until,
                                 int64_t *done)
{
    struct timespec t = sr1__clock_time(until);
    int late = 0, over;

    pthread_mutex_lock(&b->lock);
    while (!b->over && !late)
        late = pthread_cond_timedwait(&b->ended, &b->lock, &t) != 0;
    over = b->over;
    pthread_mutex_unlock(&b->lock);
    if (done)
        *done = atomic_load(&b->done);
    return over;
}

sr1_status sr1__background_rollout_take(struct sr1__background_rollout *b,
                                        sr1_trajectory **out, double *seconds)
{
    SR1__TRY(sr1__error_raise(&b->error));
    sr1__rollout_count(b->rollout, &b->stats);
    memcpy(out, b->t, b->total * sizeof(*out));
    memset(b->t, 0, b->total * sizeof(*out));
    *seconds = b->seconds;
    return SR1_OK;
}

int sr1__background_rollout_has_failed(const struct sr1__background_rollout *b)
{
    return b->error.code != SR1_OK;
}

void sr1__background_rollout_cancel(struct sr1__background_rollout *b)
{
    atomic_store(&b->cancelled, 1);
}

void sr1__background_rollout_free(struct sr1__background_rollout *b)
{
    if (!b)
        return;
    sr1__background_rollout_cancel(b);
    while (b->started &&
           !sr1__background_rollout_wait(b, sr1__now() + SR1__ENGINE_PATIENCE, NULL))
        sr1__server_pool_cancel(sr1__rollout_servers(b->rollout));
    if (b->started)
        pthread_join(b->thread, NULL);
    for (size_t i = 0; b->t && i < b->total; i++)
        sr1_trajectory_free(b->t[i]);
    sr1__free(b->t);
    sr1__engine_free(&b->engine);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    atomic_fetch_sub(&b->rollout->beside, 1);
    sr1_rollout_free(b->rollout);
    sr1__free(b);
}
