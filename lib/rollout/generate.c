/* rollout/generate.c - trajectories for queries, by the model's lanes or by a server. */
#include "rollout/remote.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"

#include <string.h>

sr1_status sr1__rollout_make_decoders(sr1_rollout *r)
{
    if (!r->model)
        return sr1__fail(SR1_E_STATE, "rollout: it has no model of its own");
    for (int32_t i = 0; i < r->n_lanes; i++)
        if (!r->decoders[i])
            SR1__TRY(sr1__decoder_new(&r->decoders[i], r->replicas[i],
                                      sr1__rollout_decoder_rows(r),
                                      r->limits.max_context));
    return SR1_OK;
}

static sr1_status run_lane(void *arg, size_t lane)
{
    return sr1__lane_run(arg, (int32_t)lane);
}

static int is_memory(sr1_status st)
{
    return st == SR1_E_NOMEM || st == SR1_E_DEVICE_NOMEM;
}

static void drop_made(struct sr1__generation *g, size_t total)
{
    for (size_t i = 0; i < total; i++) {
        sr1_trajectory_free(g->out[i]);
        g->out[i] = NULL;
    }
}

/* All lanes to the end. When memory runs out, again with half the rows at once: what a
 * trajectory says does not depend on how many are made beside it. */
static sr1_status run_lanes(struct sr1__generation *g, size_t total)
{
    struct sr1_rollout *r = g->rollout;
    sr1_status st;

    g->rows = sr1__rollout_lane_rows(r);
    for (;;) {
        memset(g->entropy, 0, (size_t)r->n_lanes * sizeof(*g->entropy));
        st = sr1__pool_run(r->pool, (size_t)r->n_lanes, run_lane, g);
        for (int32_t i = 0; i < r->n_lanes; i++) /* room for the update that follows */
            sr1__decoder_reset(r->decoders[i]);
        if (st == SR1_OK || !is_memory(st) || g->rows == 1)
            break;
        g->rows /= 2;
        sr1__log(SR1_LOG_WARN, "out of memory in a rollout; trying %d rows at once",
                 (int)(g->rows * r->n_lanes));
        drop_made(g, total);
        g->finished = 0;
        g->stats = (struct sr1__rollout_stats){0};
    }
    if (st != SR1_OK)
        drop_made(g, total);
    return st;
}

static sr1_status generate_remote(struct sr1__generation *g, size_t total)
{
    sr1_status st = sr1__remote_run(g, total);

    if (st != SR1_OK)
        drop_made(g, total);
    return st;
}

/* All trajectories into out, which holds total of them. */
static sr1_status generate(struct sr1__generation *g, int remote, sr1_trajectory **out,
                           size_t total)
{
    size_t parts = remote ? total : (size_t)g->rollout->n_lanes;
    sr1_status st;

    g->out = sr1__calloc(total + 1, sizeof(sr1_trajectory *));
    g->entropy = sr1__calloc(parts + 1, sizeof(*g->entropy));
    if (g->out && g->entropy)
        st = remote ? generate_remote(g, total) : run_lanes(g, total);
    else
        st = sr1__fail_nomem("trajectories");
    for (size_t i = 0; g->entropy && i < parts; i++)
        g->stats.entropy += g->entropy[i];
    if (st == SR1_OK && total)
        memcpy(out, g->out, total * sizeof(*out));
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

static sr1_status check_queries(const sr1_query *queries, size_t n)
{
    size_t size = n ? queries->struct_size : 0;

    if (n && (size < SR1__STRUCT_END(sr1_query, text_len) || size > QUERY_MOST ||
              size % _Alignof(sr1_query)))
        return sr1__fail(SR1_E_INVALID, "query: struct_size is not set");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_query(queries, i, size));
    return SR1_OK;
}

static sr1_status read_options(sr1_rollout_options *o, const sr1_rollout_options *given)
{
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_rollout_options, group_size),
                              "rollout options"));
    if (o->group_size < 1)
        return sr1__fail(SR1_E_INVALID, "rollout: group_size is %d; at least 1",
                         o->group_size);
    if (o->max_tokens < 0)
        return sr1__fail(SR1_E_INVALID, "rollout: max_tokens is negative");
    return SR1_OK;
}

static struct sr1__sampling greedy(void)
{
    return (struct sr1__sampling){.temperature = 0.0, .top_k = 0, .top_p = 1.0};
}

sr1_status sr1_rollout_generate(sr1_rollout *r, const sr1_query *queries, size_t n,
                                const sr1_rollout_options *options, sr1_trajectory **out)
{
    sr1_rollout_options o = {0};
    struct sr1__generation g = {
        .rollout = r, .queries = queries, .n_queries = n, .options = &o};
    int remote;
    sr1_status st;

    if (!r || !options || (n && (!queries || !out)))
        return sr1__fail(SR1_E_INVALID, "rollout, queries, options and out are required");
    SR1__TRY(read_options(&o, options));
    SR1__TRY(check_queries(queries, n));
    remote = r->remote && !r->local;
    if (!remote)
        SR1__TRY(sr1__rollout_make_decoders(r));
    g.env = o.no_search ? r->deaf_env : r->env;
    g.group_size = o.group_size;
    g.sampling = o.greedy ? greedy() : r->sampling;
    g.max_tokens = o.max_tokens ? o.max_tokens : r->limits.max_tokens;
    g.seed = o.seed;
    g.weights_version = remote ? r->server_version : r->weights_version;
    pthread_mutex_init(&g.lock, NULL);
    st = generate(&g, remote, out, n * (size_t)o.group_size);
    pthread_mutex_destroy(&g.lock);
    r->stats = g.stats;
    return st;
}
