/* retrieval/search/chain.c - engines in order: what fails at one is asked of the next,
 * query by query. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"
#include "retrieval/search/search_engine.h"

#include <stdatomic.h>
#include <stdio.h>

struct chain {
    sr1_search **engines;
    size_t n;
    atomic_int *out; /* [n] whether it fails */
    atomic_llong fallbacks;
};

/* The queries still to be answered: left[n], and which of the sink's they are. */
struct rest {
    const char **left;
    size_t *at;
    size_t n;
};

static void chain_destroy(void *self)
{
    struct chain *c = self;

    for (size_t i = 0; c->engines != NULL && i < c->n; i++)
        sr1_search_free(c->engines[i]);
    sr1__free(c->engines);
    sr1__free(c->out);
    sr1__free(c);
}

static void tell_chain_outage(struct chain *c, size_t e, const sr1_search_results *found)
{
    char next[128];

    snprintf(next, sizeof(next), "'%.80s' is asked", sr1_search_name(c->engines[e + 1]));
    sr1__search_tell_outage(&c->out[e], c->engines[e], found, next);
}

/* Give the sink what this engine answered; what failed is left, unless it is the last. */
static sr1_status query_one_engine(struct chain *c, size_t e, struct rest *r,
                                   int32_t top_k, sr1_search_sink *sink)
{
    sr1_search_results *found = NULL;
    size_t n = r->n;
    sr1_status status = sr1__search_run_each(c->engines[e], r->left, n, top_k, &found);

    r->n = 0;
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        if (e + 1 == c->n || !sr1__search_failed(found, i)) {
            status = sr1__search_pass_on(sink, r->at[i], found, i);
            continue;
        }
        r->left[r->n] = r->left[i];
        r->at[r->n++] = r->at[i];
    }
    if (status == SR1_OK && e + 1 < c->n)
        tell_chain_outage(c, e, found);
    atomic_fetch_add(&c->fallbacks, (long long)r->n);
    sr1_search_results_free(found);
    return status;
}

static sr1_status chain_search(void *self, const char *const *queries, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    struct chain *c = self;
    struct rest r = {sr1__calloc(n + 1, sizeof(*r.left)),
                     sr1__calloc(n + 1, sizeof(*r.at)), n};
    sr1_status status = SR1_OK;

    if (r.left == NULL || r.at == NULL)
        status = sr1__fail_nomem("search chain");
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        r.left[i] = queries[i];
        r.at[i] = i;
    }
    for (size_t e = 0; status == SR1_OK && e < c->n && r.n > 0; e++)
        status = query_one_engine(c, e, &r, top_k, sink);
    sr1__free((void *)r.left);
    sr1__free(r.at);
    return status;
}

static void chain_count(const void *self, sr1_search_counters *counters)
{
    const struct chain *c = self;

    for (size_t i = 0; i < c->n; i++)
        sr1__search_count_inner(c->engines[i], counters);
    counters->fallbacks += atomic_load(&c->fallbacks);
}

static sr1_status new_chain_engine(sr1_search **out, struct chain *c)
{
    sr1_search_ops ops = {sizeof(ops), "chain", chain_search, chain_destroy,
                          SR1_SEARCH_CONCURRENT};

    ops.flags |=
        sr1__search_wait_flags(c->engines[0]); /* batches are made for the first */
    for (size_t i = 1; i < c->n; i++)
        ops.flags |= sr1__search_wait_flags(c->engines[i]) & SR1_SEARCH_WAITS;
    SR1__TRY(sr1__search_new_builtin(out, &ops, c));
    sr1__search_set_count(*out, chain_count);
    sr1__search_set_origin(*out, sr1__search_origin_of(c->engines, c->n, 0));
    return SR1_OK;
}

static sr1_status set_up_chain(struct chain *c, sr1_search *const *engines, size_t n)
{
    c->engines = sr1__calloc(n, sizeof(sr1_search *));
    c->out = sr1__calloc(n, sizeof(*c->out));
    if (c->engines == NULL || c->out == NULL)
        return sr1__fail_nomem("search chain");
    c->n = n;
    for (size_t i = 0; i < n; i++)
        if (engines[i] == NULL)
            return sr1__fail(SR1_E_INVALID, "search chain: engine %zu is NULL", i);
    for (size_t i = 0; i < n; i++)
        c->engines[i] = sr1_search_retain(engines[i]);
    return SR1_OK;
}

sr1_status sr1_search_open_chain(sr1_search **out, sr1_search *const *engines, size_t n)
{
    struct chain *c;
    sr1_status status;

    if (out == NULL || engines == NULL || n == 0 || n > SIZE_MAX / sizeof(*engines))
        return sr1__fail(SR1_E_INVALID,
                         "search chain: out and at least one engine are needed");
    c = sr1__calloc(1, sizeof(*c));
    if (c == NULL)
        return sr1__fail_nomem("search chain");
    status = set_up_chain(c, engines, n);
    if (status == SR1_OK)
        status = new_chain_engine(out, c);
    if (status != SR1_OK)
        chain_destroy(c);
    return status;
}
