/* policy/server_engine.c - requests to servers side by side, each on a thread of an
 * executor that waits for its answer. None waits for another. */
#include "policy/server_engine.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define MOST_SLOTS 4096

/* ---- the gate ---- */

/* Engines over the same servers together ask no more at once than one alone may, and
 * generations that began first are served first. */
struct sr1__request_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t running, most;
    struct sr1__server_engine *oldest;
};

static struct sr1__request_gate *make_gate(void)
{
    struct sr1__request_gate *g = sr1__calloc(1, sizeof(*g));

    if (g) {
        pthread_mutex_init(&g->lock, NULL);
        sr1__cond_init(&g->changed);
    }
    return g;
}

static void free_gate(struct sr1__request_gate *g)
{
    if (!g)
        return;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    sr1__free(g);
}

static void join_gate(struct sr1__server_engine *e)
{
    struct sr1__server_engine **end = &e->gate->oldest;

    pthread_mutex_lock(&e->gate->lock);
    while (*end)
        end = &(*end)->younger;
    *end = e;
    pthread_mutex_unlock(&e->gate->lock);
}

static void leave_gate(struct sr1__server_engine *e)
{
    struct sr1__server_engine **at = &e->gate->oldest;

    pthread_mutex_lock(&e->gate->lock);
    while (*at && *at != e)
        at = &(*at)->younger;
    if (*at)
        *at = e->younger;
    pthread_mutex_unlock(&e->gate->lock);
}

/* With the gate's lock held. */
static int must_wait(const struct sr1__server_engine *e)
{
    const struct sr1__server_engine *older = e->gate->oldest;

    if (e->gate->running >= e->gate->most)
        return 1;
    while (older != e && older->waiting == 0)
        older = older->younger;
    return older != e;
}

/* 0: the generation ends. */
static int enter_gate(struct sr1__server_engine *e)
{
    struct sr1__request_gate *g = e->gate;
    int enters;

    pthread_mutex_lock(&g->lock);
    e->waiting++;
    while (!e->ending && must_wait(e))
        pthread_cond_wait(&g->changed, &g->lock);
    e->waiting--;
    enters = !e->ending;
    g->running += enters;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return enters;
}

static void pass_gate(struct sr1__request_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->running--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void set_ending(struct sr1__server_engine *e, int32_t ending)
{
    pthread_mutex_lock(&e->gate->lock);
    e->ending = ending;
    pthread_cond_broadcast(&e->gate->changed);
    pthread_mutex_unlock(&e->gate->lock);
}

/* ---- requests ---- */

/* Ask for one sequence; a task of the executor. */
static void run_request(void *arg)
{
    struct sr1__server_sequence *s = arg;
    struct sr1__server_engine *e = s->engine;

    if (enter_gate(e)) {
        sr1__server_sequence_ask(s);
        pass_gate(e->gate);
    }
    pthread_mutex_lock(&e->lock);
    s->answered = 1;
    e->n_asked--;
    e->n_answered++;
    pthread_cond_signal(&e->answered);
    pthread_mutex_unlock(&e->lock);
}

static int32_t count_asked(struct sr1__server_engine *e)
{
    int32_t n;

    pthread_mutex_lock(&e->lock);
    n = e->n_asked;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* A request that was on its way as the others were cancelled is cancelled as well. All
 * requests to the servers are, those of generations beside this one too: where all of its
 * own are answered, it only waits until their threads are back. An engine that shares the
 * servers waits for its own, unless whoever cancels its generation cancels them
 * (background_rollout.c). */
static void cancel_server_requests(struct sr1__server_engine *e)
{
    double until = e->shares || count_asked(e) == 0 ? INFINITY : 0;

    sr1__executor_clear(e->executor);
    set_ending(e, 1);
    while (!sr1__executor_drain(e->executor, until)) {
        sr1__server_pool_cancel(e->servers);
        until = sr1__now() + SR1__ENGINE_PATIENCE;
    }
}

/* ---- a generation ---- */

static sr1_status begin_server_engine(void *self, const struct sr1__engine_task *task)
{
    struct sr1__server_engine *e = self;
    size_t n = (size_t)task->n_slots;

    e->task = task;
    e->n_asked = e->n_answered = 0;
    e->woken = 0;
    set_ending(e, 0);
    memset(e->counts, 0, sizeof(e->counts));
    SR1__CALLOC(e->slots, n, "remote generation");
    for (size_t i = 0; i < n; i++)
        e->slots[i].engine = e;
    return sr1__executor_new(&e->executor, "remote generation", n, 0);
}

static sr1_status open_server_slot(void *self, int32_t slot, const sr1_query *query)
{
    struct sr1__server_engine *e = self;

    return sr1__server_sequence_open(&e->slots[slot], query);
}

/* The sequence's question, queued. With the lock held. */
static sr1_status queue_input(struct sr1__server_engine *e,
                              const struct sr1__engine_input *in)
{
    struct sr1__server_sequence *s = &e->slots[in->slot];

    SR1__TRY(sr1__ids_append(&s->ids, in->ids + in->n_held, in->n_ids - in->n_held));
    s->max_tokens = in->max_tokens;
    s->seed = (int64_t)(sr1__rng_u64(in->rng) % INT32_MAX) + 1;
    s->task = (struct sr1__task){.run = run_request, .arg = s};
    SR1__TRY(sr1__executor_post(e->executor, &s->task));
    e->n_asked++;
    return SR1_OK;
}

/* Until something is answered, or the caller is to be asked. */
static void wait_for_answers(struct sr1__server_engine *e)
{
    struct timespec t = sr1__clock_time(sr1__now() + SR1__ENGINE_PATIENCE);
    int late = 0;

    while (!late && !e->woken && e->n_answered == 0 && e->n_asked > 0)
        late = pthread_cond_timedwait(&e->answered, &e->lock, &t) != 0;
    e->woken = 0;
}

/* The first error of an answer ends the generation. */
static sr1_status take_server_answers(struct sr1__server_engine *e,
                                      struct sr1__engine_output *out, size_t *n_out)
{
    *n_out = 0;
    for (int32_t i = 0; i < e->task->n_slots && e->n_answered > 0; i++) {
        struct sr1__server_sequence *s = &e->slots[i];

        if (!s->answered)
            continue;
        s->answered = 0;
        e->n_answered--;
        if (!s->failed)
            SR1__TRY(sr1__error_raise(&s->error));
        out[*n_out].slot = i;
        sr1__server_sequence_output(s, &out[(*n_out)++]);
    }
    return SR1_OK;
}

static sr1_status step_server_engine(void *self, const struct sr1__engine_input *in,
                                     size_t n, struct sr1__engine_output *out,
                                     size_t *n_out)
{
    struct sr1__server_engine *e = self;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&e->lock);
    for (size_t k = 0; k < n && st == SR1_OK; k++)
        st = queue_input(e, &in[k]);
    if (st == SR1_OK) {
        wait_for_answers(e);
        st = take_server_answers(e, out, n_out);
    }
    pthread_mutex_unlock(&e->lock);
    return st;
}

static void wake_server_engine(void *self)
{
    struct sr1__server_engine *e = self;

    pthread_mutex_lock(&e->lock);
    e->woken = 1;
    pthread_cond_signal(&e->answered);
    pthread_mutex_unlock(&e->lock);
}

static sr1_status accept_server_output(void *self, size_t n, int open,
                                       struct sr1__engine_output *o)
{
    struct sr1__server_engine *e = self;

    return sr1__server_sequence_accept(&e->slots[o->slot], n, open, o);
}

static sr1_status begin_server_turn(void *self, int32_t slot,
                                    const struct sr1__observation *o)
{
    struct sr1__server_engine *e = self;

    return sr1__server_sequence_next_turn(&e->slots[slot], o);
}

static void close_server_slot(void *self, int32_t slot)
{
    struct sr1__server_engine *e = self;

    sr1__server_sequence_clear(&e->slots[slot]);
}

/* What this generation asked of each server. */
static void count_server_requests(struct sr1__server_engine *e)
{
    struct sr1__remote_stats *stats = &e->task->stats->remote;

    pthread_mutex_lock(e->task->lock);
    stats->n_servers = (int64_t)sr1__server_pool_size(e->servers);
    stats->live = (int64_t)sr1__server_pool_live(e->servers);
    for (size_t i = 0; i < (size_t)stats->n_servers; i++) {
        stats->servers[i].requests += e->counts[i].requests;
        stats->servers[i].failures += e->counts[i].failures;
    }
    pthread_mutex_unlock(e->task->lock);
}

static void end_server_engine(void *self)
{
    struct sr1__server_engine *e = self;

    if (e->executor)
        cancel_server_requests(e);
    sr1__executor_free(e->executor);
    count_server_requests(e);
    for (int32_t i = 0; e->slots && i < e->task->n_slots; i++)
        sr1__server_sequence_clear(&e->slots[i]);
    sr1__free(e->slots);
    e->slots = NULL;
    e->executor = NULL;
}

/* ---- the engine ---- */

static void destroy_server_engine(void *self)
{
    struct sr1__server_engine *e = self;

    if (e->gate)
        leave_gate(e);
    if (!e->shares) {
        sr1__server_pool_free(e->servers);
        free_gate(e->gate);
    }
    pthread_cond_destroy(&e->answered);
    pthread_mutex_destroy(&e->lock);
    sr1__free(e);
}

static const struct sr1__generation_ops server_ops = {
    .name = "remote",
    .begin = begin_server_engine,
    .open = open_server_slot,
    .step = step_server_engine,
    .accept = accept_server_output,
    .next_turn = begin_server_turn,
    .close = close_server_slot,
    .wake = wake_server_engine,
    .end = end_server_engine,
    .destroy = destroy_server_engine,
};

static int32_t uses_chat_endpoint(const struct sr1__server_engine *e, const sr1_config *c)
{
    if (sr1__config_is(c, "openai_endpoint", "auto"))
        return sr1__server_pool_dialect(e->servers) != SR1_OPENAI_DIALECT_VLLM;
    return sr1__config_is(c, "openai_endpoint", "chat");
}

/* Of all servers; each slot may take a thread. */
static int32_t count_slots(const struct sr1__server_engine *e, const sr1_config *c)
{
    int64_t n = sr1__config_int(c, "openai_concurrency") *
                (int64_t)sr1__server_pool_size(e->servers);

    return (int32_t)(n < MOST_SLOTS ? n : MOST_SLOTS);
}

static struct sr1__server_engine *make_engine(const sr1_rollout *r)
{
    struct sr1__server_engine *e = sr1__calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->rollout = r;
    pthread_mutex_init(&e->lock, NULL);
    sr1__cond_init(&e->answered);
    return e;
}

sr1_status sr1__server_engine_new(struct sr1__engine *out, const sr1_rollout *r,
                                  const sr1_config *c, int64_t *context)
{
    struct sr1__server_engine *e = make_engine(r);
    sr1_status st;

    SR1__CHECK_ALLOC(e, "remote generation");
    e->gate = make_gate();
    st = e->gate ? sr1__server_pool_open(&e->servers, c)
                 : sr1__fail_nomem("remote generation");
    if (st != SR1_OK) {
        destroy_server_engine(e);
        return st;
    }
    join_gate(e);
    e->chat = uses_chat_endpoint(e, c);
    *context = sr1__server_pool_context(e->servers);
    *out = (struct sr1__engine){.ops = &server_ops,
                                .self = e,
                                .n_slots = count_slots(e, c),
                                .model = sr1__server_pool_model(e->servers)};
    e->gate->most = out->n_slots;
    return SR1_OK;
}

sr1_status sr1__server_engine_share(struct sr1__engine *out, const struct sr1__engine *of)
{
    const struct sr1__server_engine *from = of->self;
    struct sr1__server_engine *e = make_engine(from->rollout);

    SR1__CHECK_ALLOC(e, "remote generation");
    e->servers = from->servers;
    e->gate = from->gate;
    e->shares = 1;
    join_gate(e);
    e->chat = from->chat;
    e->exact = from->exact;
    *out = *of;
    out->self = e;
    return SR1_OK;
}

struct sr1__server_pool *sr1__server_engine_pool(const struct sr1__engine *engine)
{
    const struct sr1__server_engine *e = engine->self;

    return e->servers;
}

sr1_status sr1__server_engine_require_exact(struct sr1__engine *engine,
                                            const sr1_config *c)
{
    struct sr1__server_engine *e = engine->self;

    if (e->chat)
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
    e->exact = 1;
    return SR1_OK;
}
