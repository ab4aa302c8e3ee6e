/* retrieval/search/rerank_engine.c - an engine whose best hits are put in the order of a
 * reranker, which reads query and text together; the scores are the reranker's. */
#include <searchr1/search.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/search_engine.h"

#include <stdlib.h>

struct rerank_engine {
    sr1_search *engine;
    sr1_reranker *reranker;
    int32_t depth;
};

/* A hit in its new place. */
struct ranked_hit {
    double score;
    int32_t hit; /* of the engine */
};

static void rerank_destroy(void *self)
{
    struct rerank_engine *r = self;

    sr1_search_free(r->engine);
    sr1_reranker_free(r->reranker);
    sr1__free(r);
}

static int compare_ranked_hits(const void *a, const void *b)
{
    const struct ranked_hit *x = a;
    const struct ranked_hit *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->hit < y->hit ? -1 : 1;
}

static sr1_status get_found_hit(const sr1_search_results *found, size_t query, int32_t k,
                                sr1_search_hit *hit)
{
    hit->struct_size = sizeof(*hit);
    return sr1_search_results_hit(found, query, k, hit);
}

static sr1_status score_hits(struct rerank_engine *r, const char *query,
                             const sr1_search_results *found, size_t at, size_t n,
                             struct ranked_hit *places)
{
    const char **texts = sr1__calloc(n, sizeof(*texts));
    double *scores = sr1__calloc(n, sizeof(*scores));
    sr1_status status = texts && scores ? SR1_OK : sr1__fail_nomem("reranked hits");

    for (size_t k = 0; status == SR1_OK && k < n; k++) {
        sr1_search_hit hit;

        status = get_found_hit(found, at, (int32_t)k, &hit);
        texts[k] = hit.contents;
    }
    if (status == SR1_OK)
        status = sr1_reranker_score(r->reranker, query, texts, n, scores);
    for (size_t k = 0; status == SR1_OK && k < n; k++)
        places[k] = (struct ranked_hit){scores[k], (int32_t)k};
    sr1__free((void *)texts);
    sr1__free(scores);
    return status;
}

static sr1_status emit_ranked_hits(const sr1_search_results *found, size_t at,
                                   const struct ranked_hit *places, size_t n,
                                   sr1_search_sink *sink)
{
    for (size_t i = 0; i < n && i < (size_t)sink->top_k; i++)
        SR1__TRY(
            sr1__search_copy_hit(sink, at, found, at, places[i].hit, places[i].score));
    return SR1_OK;
}

/* A reranker that fails on a query fails that query. */
static sr1_status reorder_hits(struct rerank_engine *r, const char *query,
                               const sr1_search_results *found, size_t at,
                               sr1_search_sink *sink)
{
    size_t n = (size_t)sr1_search_results_hit_count(found, at);
    struct ranked_hit *places;
    sr1_status status;

    if (n == 0)
        return sr1__search_pass_on(sink, at, found, at);
    places = sr1__calloc(n, sizeof(*places));
    if (places == NULL)
        return sr1__fail_nomem("reranked hits");
    status = score_hits(r, query, found, at, n, places);
    if (status == SR1_OK) {
        qsort(places, n, sizeof(*places), compare_ranked_hits);
        status = emit_ranked_hits(found, at, places, n, sink);
    } else if (!sr1__search_is_fatal(status)) {
        status = sr1_search_sink_status(sink, at, SR1_ACTION_ERROR, sr1_last_error());
    }
    sr1__free(places);
    return status;
}

static sr1_status rerank_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct rerank_engine *r = self;
    sr1_search_results *found = NULL;
    sr1_status status = sr1_search_run(r->engine, queries, n,
                                       top_k > r->depth ? top_k : r->depth, &found);

    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = reorder_hits(r, queries[i], found, i, sink);
    sr1_search_results_free(found);
    return status;
}

static void rerank_count(const void *self, sr1_search_counters *counters)
{
    sr1__search_count_inner(((const struct rerank_engine *)self)->engine, counters);
}

static const sr1_rerank_options defaults = {sizeof(defaults), 50, 0};

void sr1_rerank_options_init(sr1_rerank_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status new_rerank_engine(sr1_search **out, struct rerank_engine *r)
{
    sr1_search_ops ops = {sizeof(ops), "rerank", rerank_search, rerank_destroy,
                          SR1_SEARCH_CONCURRENT};

    ops.flags |= sr1__search_wait_flags(r->engine);
    SR1__TRY(sr1__search_new_builtin(out, &ops, r));
    sr1__search_set_count(*out, rerank_count);
    return SR1_OK;
}

sr1_status sr1_search_open_rerank(sr1_search **out, sr1_search *engine,
                                  sr1_reranker *reranker,
                                  const sr1_rerank_options *options)
{
    sr1_rerank_options o = defaults;
    struct rerank_engine *r;
    sr1_status status;

    if (out == NULL || engine == NULL || reranker == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "rerank: out, an engine and a reranker are needed");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_rerank_options, depth),
                              "rerank options"));
    if (o.depth < 1 || o.depth > SR1_SEARCH_TOP_K_MAX)
        return sr1__fail(SR1_E_INVALID, "rerank: depth %d is not in 1..%d", (int)o.depth,
                         SR1_SEARCH_TOP_K_MAX);
    r = sr1__calloc(1, sizeof(*r));
    if (r == NULL)
        return sr1__fail_nomem("rerank");
    r->engine = sr1_search_retain(engine);
    r->reranker = sr1_reranker_retain(reranker);
    r->depth = o.depth;
    status = new_rerank_engine(out, r);
    if (status != SR1_OK)
        rerank_destroy(r);
    return status;
}
