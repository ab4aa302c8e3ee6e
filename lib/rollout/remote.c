/* rollout/remote.c - trajectories side by side, each on a thread that asks the server for
 * a turn, lets the environment answer, and goes on. None waits for another.
 *
 * What the server fails to answer, after the client's retries, is no failure of the
 * policy: the trajectory stops with SR1_STOP_ERROR and is left out. */
#include "rollout/remote.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "rollout/asker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* ---- the handle ---- */

static int32_t is_chat(const struct sr1__remote *m, const sr1_config *c)
{
    if (sr1__config_is(c, "openai_endpoint", "auto"))
        return sr1_openai_dialect(m->client) != SR1_OPENAI_DIALECT_VLLM;
    return sr1__config_is(c, "openai_endpoint", "chat");
}

sr1_status sr1__remote_new(struct sr1__remote **out, const sr1_config *c)
{
    struct sr1__remote *m = sr1__calloc(1, sizeof(*m));
    sr1_status st;

    if (!m)
        return sr1__fail_nomem("remote generation");
    st = sr1_openai_open(&m->client, c);
    if (st == SR1_OK)
        m->chat = is_chat(m, c);
    if (st == SR1_OK)
        st = sr1__pool_new(&m->pool, (int32_t)sr1__config_int(c, "openai_concurrency"));
    if (st != SR1_OK) {
        sr1__remote_free(m);
        return st;
    }
    *out = m;
    return SR1_OK;
}

void sr1__remote_free(struct sr1__remote *m)
{
    if (!m)
        return;
    sr1__pool_free(m->pool);
    sr1_openai_free(m->client);
    sr1__free(m);
}

sr1_status sr1__remote_train(struct sr1__remote *m, const sr1_config *c)
{
    if (m->chat)
        return sr1__fail(SR1_E_CONFIG,
                         "training needs the token ids and log-probs of what was "
                         "generated, which messages do not give; set openai_endpoint to "
                         "completions, with a server of vLLM's dialect");
    if (sr1__config_is(c, "openai_log_probs", "raw") &&
        sr1__config_real(c, "temperature") != 1.0)
        return sr1__fail(SR1_E_CONFIG,
                         "the server's log-probs are raw, of temperature 1; set "
                         "temperature to 1, or start the server so that it processes "
                         "them and set openai_log_probs to processed");
    m->exact = 1;
    return SR1_OK;
}

void sr1__remote_describe(const struct sr1__remote *m, sr1_remote_report *out)
{
    const struct sr1__remote_stats *s = &m->total;

    out->answers = s->answers;
    out->exact = s->sources[SR1__REMOTE_IDS];
    out->spelled = s->sources[SR1__REMOTE_SPELLED];
    out->encoded = s->sources[SR1__REMOTE_ENCODED];
    out->drifted = s->drifted;
    out->prompts_differ = s->prompts_differ;
    out->dropped_tokens = s->dropped_tokens;
    out->server_tokens = s->server_tokens;
    out->failed = s->failed;
}

/* ---- one trajectory ---- */

struct run {
    struct sr1__generation *g;
    struct sr1__remote *remote;
    atomic_int stopped;       /* error is set: the others end as soon as they can */
    struct sr1__error error;  /* that ends the call; under g->lock */
    struct sr1__error outage; /* why the first trajectory was left out; under g->lock */
    size_t begun;             /* trajectories that asked; under g->lock */
    pthread_mutex_t over_lock;
    pthread_cond_t is_over;
    int over; /* no trajectory is left */
};

static sr1_status report(const struct run *u)
{
    struct sr1__generation *g = u->g;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&g->lock);
    if (g->options->progress)
        st = g->options->progress(g->options->user, (int64_t)g->finished,
                                  (int64_t)(g->n_queries * (size_t)g->group_size),
                                  g->stats.policy_tokens);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static sr1_status finish(struct run *u, struct sr1__talk *k)
{
    struct sr1__generation *g = u->g;
    const sr1_rollout_options *o = g->options;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__row_finish(&k->row, &g->out[k->row.index]));
    pthread_mutex_lock(&g->lock);
    g->finished++;
    if (o->finished)
        st = o->finished(o->user, k->row.index, g->out[k->row.index]);
    pthread_mutex_unlock(&g->lock);
    return st == SR1_OK ? report(u) : st;
}

static sr1_status stopped(const struct run *u)
{
    return atomic_load(&u->stopped)
               ? sr1__fail(SR1_E_CANCELLED, "the rollout was stopped")
               : SR1_OK;
}

#define PATIENCE 0.2 /* seconds until the caller is asked again whether to go on */

/* An environment that lets one wait is asked through the asker, which knows deadlines. */
static sr1_status wait_for_answer(const struct run *u, struct sr1__talk *k,
                                  const struct sr1__action *a, struct sr1__observation *o)
{
    const int32_t row = 0;
    struct sr1__box *box = NULL;
    struct sr1__reply reply;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__box_new(&box, k->g->rollout->asker, 1));
    st = sr1__box_ask(box, &row, a, 1);
    while (st == SR1_OK && n == 0) {
        st = stopped(u);
        if (st == SR1_OK)
            st = sr1__box_collect(box, PATIENCE, &reply, &n);
    }
    if (st == SR1_OK)
        *o = reply.observation;
    sr1__box_free(box);
    return st;
}

static sr1_status answer(const struct run *u, struct sr1__talk *k,
                         struct sr1__observation *o)
{
    struct sr1__generation *g = k->g;
    struct sr1__action a = sr1__row_action(&k->row);
    sr1_status st;

    if (g->env == g->rollout->env && g->rollout->asker)
        return wait_for_answer(u, k, &a, o);
    pthread_mutex_lock(&g->rollout->env_lock);
    st = sr1__env_act(g->env, &a, 1, o);
    pthread_mutex_unlock(&g->rollout->env_lock);
    return st;
}

static sr1_status act(const struct run *u, struct sr1__talk *k, enum sr1__row_want *want)
{
    struct sr1__observation o;
    sr1_status st;

    SR1__TRY(answer(u, k, &o));
    st = sr1__row_observe(&k->row, &o, want);
    if (st == SR1_OK && *want != SR1__ROW_DONE)
        st = sr1__talk_turn(k, &o);
    sr1__observation_free(&o);
    return st;
}

static void leave_out(struct run *u, struct sr1__talk *k)
{
    struct sr1__generation *g = u->g;

    pthread_mutex_lock(&g->lock);
    if (g->stats.remote.failed++ == 0)
        u->outage = k->error;
    pthread_mutex_unlock(&g->lock);
    k->row.stop = SR1_STOP_ERROR;
}

/* Tokens the row took since it had so many. */
static void count_tokens(struct run *u, const struct sr1__talk *k, int64_t before)
{
    pthread_mutex_lock(&u->g->lock);
    u->g->stats.policy_tokens += k->row.tokens - before;
    pthread_mutex_unlock(&u->g->lock);
}

static sr1_status converse(struct run *u, struct sr1__talk *k)
{
    enum sr1__row_want want = SR1__ROW_TOKEN;

    SR1__TRY(sr1__talk_begin(k));
    while (want != SR1__ROW_DONE && !k->failed) {
        int64_t before = k->row.tokens;

        SR1__TRY(stopped(u));
        SR1__TRY(sr1__talk_ask(k, &want));
        count_tokens(u, k, before);
        SR1__TRY(report(u));
        if (want == SR1__ROW_ACTION)
            SR1__TRY(act(u, k, &want));
    }
    if (k->failed)
        leave_out(u, k);
    return SR1_OK;
}

static sr1_status make_one(struct run *u, struct sr1__talk *k, size_t query,
                           int32_t sample)
{
    struct sr1__generation *g = u->g;
    sr1_query q = sr1__query_at(g->queries, query);
    int32_t *prompt = NULL;
    size_t n = 0;
    sr1_status st = SR1_OK;

    if (!sr1__query_is_empty(&q))
        st = sr1__context(sr1__rollout_prompt(g->rollout, &q, &prompt, &n), "query %zu",
                          query);
    if (st == SR1_OK)
        st = sr1__row_begin(&k->row, g, query, sample, prompt, n);
    sr1_free(prompt);
    SR1__TRY(st);
    if (n == 0) {
        k->row.stop = SR1_STOP_EMPTY_QUERY;
        return finish(u, k);
    }
    pthread_mutex_lock(&g->lock);
    u->begun++;
    pthread_mutex_unlock(&g->lock);
    SR1__TRY(converse(u, k));
    return finish(u, k);
}

/* The first failure is the call's; what the others ask is stopped. */
static void stop(struct run *u, sr1_status st)
{
    pthread_mutex_lock(&u->g->lock);
    if (!atomic_load(&u->stopped))
        sr1__error_save(&u->error, st);
    atomic_store(&u->stopped, 1);
    pthread_mutex_unlock(&u->g->lock);
    sr1_openai_cancel(u->remote->client);
}

static sr1_status run_one(void *arg, size_t i)
{
    struct run *u = arg;
    size_t group = (size_t)u->g->group_size;
    struct sr1__talk k = {.g = u->g, .remote = u->remote};
    sr1_status st;

    sr1__buf_init(&k.said, 0);
    st = make_one(u, &k, i / group, (int32_t)(i % group));
    if (st != SR1_OK)
        stop(u, st);
    sr1__talk_free(&k);
    return st;
}

/* ---- watching ---- */

/* A request that was on its way as the others were stopped is stopped as well. */
static void look_after(struct run *u)
{
    sr1_status st = SR1_OK;

    if (atomic_load(&u->stopped))
        sr1_openai_cancel(u->remote->client);
    else
        st = report(u);
    if (st != SR1_OK)
        stop(u, st);
}

/* While all wait for the server nobody else asks the caller whether to go on. */
static void *watch(void *arg)
{
    struct run *u = arg;

    pthread_mutex_lock(&u->over_lock);
    while (!u->over) {
        struct timespec t = sr1__clock_time(sr1__now() + PATIENCE);

        pthread_cond_timedwait(&u->is_over, &u->over_lock, &t);
        if (u->over)
            break;
        pthread_mutex_unlock(&u->over_lock);
        look_after(u);
        pthread_mutex_lock(&u->over_lock);
    }
    pthread_mutex_unlock(&u->over_lock);
    return NULL;
}

static sr1_status run_watched(struct run *u, size_t total)
{
    pthread_t watcher;
    sr1_status st;

    if (pthread_create(&watcher, NULL, watch, u) != 0)
        return sr1__fail(SR1_E_LIMIT, "remote generation: the system refused a thread");
    st = sr1__pool_run(u->remote->pool, total, run_one, u);
    pthread_mutex_lock(&u->over_lock);
    u->over = 1;
    pthread_cond_signal(&u->is_over);
    pthread_mutex_unlock(&u->over_lock);
    pthread_join(watcher, NULL);
    return st;
}

/* ---- all of them ---- */

static void add_up(struct sr1__remote_stats *sum, const struct sr1__remote_stats *s)
{
    sum->answers += s->answers;
    for (size_t i = 0; i < sizeof(s->sources) / sizeof(s->sources[0]); i++)
        sum->sources[i] += s->sources[i];
    sum->drifted += s->drifted;
    sum->prompts_differ += s->prompts_differ;
    sum->dropped_tokens += s->dropped_tokens;
    sum->server_tokens += s->server_tokens;
    sum->failed += s->failed;
}

static sr1_status judge_outage(const struct run *u)
{
    int64_t failed = u->g->stats.remote.failed;

    if (failed == 0)
        return SR1_OK;
    if ((size_t)failed == u->begun)
        return sr1__error_raise(&u->outage);
    sr1__log(SR1_LOG_WARN, "%" PRId64 " of %zu trajectories are left out: %.500s", failed,
             u->begun, u->outage.text);
    return SR1_OK;
}

sr1_status sr1__remote_run(struct sr1__generation *g, size_t total)
{
    struct run u = {.g = g, .remote = g->rollout->remote};
    sr1_status st;

    pthread_mutex_init(&u.over_lock, NULL);
    sr1__cond_init(&u.is_over);
    st = run_watched(&u, total);
    pthread_cond_destroy(&u.is_over);
    pthread_mutex_destroy(&u.over_lock);
    if (atomic_load(&u.stopped))
        st = sr1__error_raise(&u.error);
    if (st == SR1_OK)
        st = judge_outage(&u);
    add_up(&u.remote->total, &g->stats.remote);
    return st;
}
