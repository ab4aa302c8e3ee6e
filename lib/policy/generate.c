/* policy/generate.c - trajectories for queries, by the model's engines or by a server's.
 */
#include "policy/local_engine.h"
#include "policy/multi_turn.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/trajectory/row_text.h"

#include <searchr1/ext/engines.h>

#include <inttypes.h>
#include <string.h>

sr1_status sr1__rollout_make_decoders(sr1_rollout *r)
{
    struct sr1__decoder *d;

    if (!r->model)
        return sr1__fail(SR1_E_STATE, "rollout: it has no model of its own");
    for (int32_t i = 0; i < r->n_engines; i++)
        SR1__TRY(sr1__local_engine_decoder(&r->engines[i], &d));
    return SR1_OK;
}

static void drop_trajectories(struct sr1__generation *g)
{
    for (size_t i = 0; i < g->n_queries * (size_t)g->group_size; i++) {
        sr1_trajectory_free(g->out[i]);
        g->out[i] = NULL;
    }
}

/* Nothing of the last try is left, but the caller's room for its trajectories. */
static void forget_try(void *generation)
{
    struct sr1__generation *g = generation;

    drop_trajectories(g);
    if (g->options->dropped)
        g->options->dropped(g->options->user);
    memset(g->entropy, 0, g->n_entropies * sizeof(*g->entropy));
    g->finished = g->begun = 0;
    g->stats = (struct sr1__rollout_stats){0};
}

/* What an engine could not generate, a server's outage, is no failure of the policy: only
 * if nothing at all was generated does the call fail. */
static sr1_status report_outage(const struct sr1__generation *g)
{
    int64_t failed = g->stats.remote.failed;

    if (failed == 0)
        return SR1_OK;
    if ((size_t)failed == g->begun)
        return sr1__error_raise(&g->outage);
    sr1__log(SR1_LOG_WARN, "%" PRId64 " of %zu trajectories are dropped: %.500s", failed,
             g->begun, g->outage.text);
    return SR1_OK;
}

/* All trajectories into out, which holds total of them. */
static sr1_status generate_trajectories(struct sr1__generation *g, sr1_trajectory **out,
                                        size_t total)
{
    sr1_status st;

    g->n_entropies = total + (size_t)g->set.n_engines;
    g->out = sr1__calloc(total + 1, sizeof(sr1_trajectory *));
    g->entropy = sr1__calloc(g->n_entropies, sizeof(*g->entropy));
    if (g->out && g->entropy)
        st = sr1__engine_set_run(&g->set);
    else
        st = sr1__fail_nomem("trajectories");
    if (st == SR1_OK)
        st = report_outage(g);
    for (size_t i = 0; g->entropy && i < g->n_entropies; i++)
        g->stats.entropy += g->entropy[i];
    if (st == SR1_OK && total)
        memcpy(out, g->out, total * sizeof(*out));
    else if (g->out)
        drop_trajectories(g);
    sr1__free(g->out);
    sr1__free(g->entropy);
    return st;
}

#define QUERY_MOST 4096 /* a larger struct_size was never set */

/* Query i of an array with elements of `size` bytes. */
static sr1_status check_query(const sr1_query *queries, size_t i, size_t size)
{
    const sr1_query *q = (const void *)((const char *)queries + i * size);

    if (q->struct_size != size)
        return sr1__fail(SR1_E_INVALID,
                         "query %zu: its struct_size is %zu, the first query's %zu", i,
                         q->struct_size, size);
    if (!q->text && q->text_len)
        return sr1__fail(SR1_E_INVALID, "query %zu has no text", i);
    return sr1__context(sr1__query_check(queries, i), "query %zu", i);
}

sr1_status sr1__queries_check(const sr1_query *queries, size_t n)
{
    size_t size = n ? queries->struct_size : 0;

    if (n && (size < SR1__STRUCT_END(sr1_query, text_len) || size > QUERY_MOST ||
              size % _Alignof(sr1_query)))
        return sr1__fail(SR1_E_INVALID, "query: struct_size is not set");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_query(queries, i, size));
    return SR1_OK;
}

static const sr1_rollout_options rollout_options_defaults = {.group_size = 1};

void sr1_rollout_options_init(sr1_rollout_options *options)
{
    sr1__struct_init(options, &rollout_options_defaults,
                     sizeof(rollout_options_defaults));
}

static sr1_status read_rollout_options(sr1_rollout_options *o,
                                       const sr1_rollout_options *given)
{
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_rollout_options, group_size),
                              "rollout options"));
    if (o->group_size < 1)
        return sr1__fail(SR1_E_INVALID, "rollout: group_size is %d; at least 1",
                         o->group_size);
    if (o->max_tokens < 0)
        return sr1__fail(SR1_E_INVALID, "rollout: max_tokens is negative");
    if (o->top_p == 0.0)
        o->top_p = 1.0;
    return sr1__context(
        sr1__sampling_check(&(struct sr1__sampling){o->temperature, o->top_k, o->top_p}),
        "rollout");
}

static struct sr1__sampling choose_sampling(const sr1_rollout *r,
                                            const sr1_rollout_options *o)
{
    if (o->greedy)
        return (struct sr1__sampling){.temperature = 0.0, .top_k = 0, .top_p = 1.0};
    if (o->temperature > 0)
        return (struct sr1__sampling){o->temperature, o->top_k, o->top_p};
    return r->sampling;
}

static void free_row_texts(struct sr1__generation *g)
{
    for (size_t i = 0; g->row_texts && i < g->n_queries; i++)
        sr1__row_text_free(g->row_texts[i]);
    sr1__free(g->row_texts);
    g->row_texts = NULL;
}

/* The rows of the queries, each once for all its trajectories. */
static sr1_status make_row_texts(struct sr1__generation *g)
{
    g->row_texts = sr1__calloc(g->n_queries + 1, sizeof(*g->row_texts));
    if (!g->row_texts)
        return sr1__fail_nomem("rows");
    for (size_t i = 0; i < g->n_queries; i++) {
        sr1_query q = sr1__query_at(g->queries, i);

        SR1__TRY(sr1__context(sr1__row_text_new(&g->row_texts[i], q.row, q.row_len),
                              "query %zu", i));
    }
    return SR1_OK;
}

static void add_server_counts(struct sr1__remote_stats *sum,
                              const struct sr1__remote_stats *s)
{
    for (int64_t i = 0; i < s->n_servers; i++) {
        sum->servers[i].requests += s->servers[i].requests;
        sum->servers[i].failures += s->servers[i].failures;
    }
    if (s->n_servers > 0 && (sum->n_servers == 0 || s->live < sum->live))
        sum->live = s->live;
    if (s->n_servers > sum->n_servers)
        sum->n_servers = s->n_servers;
}

void sr1__remote_stats_add(struct sr1__remote_stats *sum,
                           const struct sr1__remote_stats *s)
{
    sum->answers += s->answers;
    for (size_t i = 0; i < sizeof(s->sources) / sizeof(s->sources[0]); i++)
        sum->sources[i] += s->sources[i];
    sum->drifted += s->drifted;
    sum->prompts_differ += s->prompts_differ;
    sum->dropped_tokens += s->dropped_tokens;
    sum->server_tokens += s->server_tokens;
    sum->failed += s->failed;
    add_server_counts(sum, s);
}

void sr1__rollout_count(sr1_rollout *r, const struct sr1__rollout_stats *stats)
{
    r->stats = *stats;
    sr1__remote_stats_add(&r->remote_total, &stats->remote);
}

/* What generates: engines of one kind, whose weights have this version. */
struct generators {
    struct sr1__engine *engines;
    int32_t n;
    int64_t version;
};

static sr1_status generate_by(sr1_rollout *r, const struct generators *by,
                              const sr1_query *queries, size_t n,
                              const sr1_rollout_options *o, sr1_trajectory **out,
                              struct sr1__rollout_stats *stats)
{
    struct sr1__generation g = {.rollout = r,
                                .queries = queries,
                                .n_queries = n,
                                .options = o,
                                .weights_version = by->version};
    sr1_status st;

    g.env = o->no_search ? r->no_search_env : r->env;
    g.group_size = o->group_size;
    g.sampling = choose_sampling(r, o);
    g.max_tokens = o->max_tokens ? o->max_tokens : r->limits.max_tokens;
    g.seed = o->seed;
    g.set = (struct sr1__engine_set){.engines = by->engines,
                                     .n_engines = by->n,
                                     .pool = r->pool,
                                     .n_slots = by->engines->n_slots,
                                     .least_slots = 1,
                                     .name = "a rollout",
                                     .run = sr1__multi_turn_run,
                                     .forget = forget_try,
                                     .arg = &g};
    g.searches.engine = r->search;
    pthread_mutex_init(&g.lock, NULL);
    st = make_row_texts(&g);
    if (st == SR1_OK)
        st = generate_trajectories(&g, out, n * (size_t)o->group_size);
    free_row_texts(&g);
    pthread_mutex_destroy(&g.lock);
    g.stats.engine_queries = g.searches.queries;
    g.stats.engine_calls = g.searches.calls;
    *stats = g.stats;
    return st;
}

static sr1_status generate_exclusively(sr1_rollout *r, const sr1_query *queries, size_t n,
                                       const sr1_rollout_options *o, sr1_trajectory **out)
{
    const struct generators local = {r->engines, r->n_engines, r->weights_version};
    const struct generators remote = {&r->server, 1, atomic_load(&r->server_version)};
    int by_server = r->server.ops && !r->local;
    struct sr1__rollout_stats stats;
    sr1_status st;

    if (!by_server)
        SR1__TRY(sr1__rollout_make_decoders(r));
    st = generate_by(r, by_server ? &remote : &local, queries, n, o, out, &stats);
    sr1__rollout_count(r, &stats);
    return st;
}

sr1_status sr1__rollout_generate_beside(sr1_rollout *r, struct sr1__engine *engine,
                                        int64_t version, const sr1_query *queries,
                                        size_t n, const sr1_rollout_options *options,
                                        sr1_trajectory **out,
                                        struct sr1__rollout_stats *stats)
{
    const struct generators by = {engine, 1, version};
    sr1_rollout_options o = rollout_options_defaults;

    SR1__TRY(read_rollout_options(&o, options));
    SR1__TRY(sr1__queries_check(queries, n));
    return generate_by(r, &by, queries, n, &o, out, stats);
}

/* Warnings about settings, once. */
static void log_warnings(sr1_rollout *r)
{
    const char *warnings[] = {r->no_engine, r->odd_pair};

    for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]) && !r->warned; i++)
        if (warnings[i])
            sr1__log(SR1_LOG_WARN, "%s", warnings[i]);
    r->warned = 1;
}

sr1_status sr1_rollout_generate(sr1_rollout *r, const sr1_query *queries, size_t n,
                                const sr1_rollout_options *options, sr1_trajectory **out)
{
    sr1_rollout_options o = rollout_options_defaults;
    int32_t threads;
    sr1_status st;

    SR1__REQUIRE(r && (!n || (queries && out)), "rollout: rollout, queries and out");
    SR1__TRY(read_rollout_options(&o, options));
    SR1__TRY(sr1__queries_check(queries, n));
    if (!o.no_search)
        SR1__TRY(sr1__rollout_check_env(r));
    if (atomic_exchange(&r->working, 1))
        return sr1__fail(SR1_E_STATE, "rollout: it works already; a callback of its own "
                                      "cannot ask it for more");
    sr1__life_hold(&r->life);
    log_warnings(r);
    threads = sr1__torch_threads_swap(r->threads);
    st = generate_exclusively(r, queries, n, &o, out);
    (void)sr1__torch_threads_swap(threads);
    atomic_store(&r->working, 0);
    sr1_rollout_free(r);
    return st;
}
