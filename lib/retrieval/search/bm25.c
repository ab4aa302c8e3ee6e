/* retrieval/search/bm25.c - the BM25 engine: analyse each query as the corpus was, rank,
 * fetch rows. */
#include "retrieval/search/bm25.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/analyze.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/doc_cache.h"
#include "retrieval/search/query_terms.h"
#include "retrieval/search/search_engine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DOC_CACHE_BYTES ((uint64_t)64 << 20)

struct bm25_query;

struct bm25 {
    struct sr1__index *ix;
    const struct sr1__analyzer *analyzer;
    double k1;
    double b;
    struct sr1__bm25_norm norm;
    struct sr1__doc_cache *docs;
    atomic_ullong scored;
    atomic_ullong listed;
    pthread_mutex_t lock;
    struct bm25_query *idle; /* working memory of calls that have ended */
};

/* Working memory of one call. */
struct bm25_query {
    struct bm25_query *next; /* in the engine's idle list */
    struct bm25 *engine;
    struct sr1__query_terms *terms;
    struct sr1__bm25_ranker *ranker;
    struct sr1__row_reader *rows;
    struct sr1__bm25_work work;
};

/* The best documents for a query; *docs is borrowed until the memory's next query. */
static sr1_status rank_bm25_query(struct bm25_query *q, const char *text, int32_t top_k,
                                  const struct sr1__bm25_doc **docs, int32_t *found)
{
    const struct sr1__bm25_query_term *terms = NULL;
    size_t n = 0;

    SR1__TRY(sr1__query_terms_find(q->terms, text, &terms, &n));
    return sr1__bm25_rank(q->ranker, terms, n, top_k, docs, found, &q->work);
}

static sr1_status emit_bm25_doc(struct bm25_query *q, const struct sr1__bm25_doc *doc,
                                size_t index, sr1_search_sink *sink)
{
    struct sr1__doc *d = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_fetch(q->rows, q->engine->docs, doc->doc, &d));
    status = sr1__sink_doc(sink, index, d, (double)doc->score / SR1__BM25_UNIT);
    sr1__doc_release(d);
    return status;
}

static sr1_status answer_bm25_query(struct bm25_query *q, const char *text, size_t index,
                                    int32_t top_k, sr1_search_sink *sink)
{
    const struct sr1__bm25_doc *docs = NULL;
    int32_t found = 0;

    SR1__TRY(rank_bm25_query(q, text, top_k, &docs, &found));
    for (int32_t k = 0; k < found; k++)
        SR1__TRY(emit_bm25_doc(q, &docs[k], index, sink));
    return SR1_OK;
}

static void query_free(struct bm25_query *q)
{
    sr1__query_terms_free(q->terms);
    sr1__bm25_ranker_free(q->ranker);
    sr1__row_reader_free(q->rows);
    sr1__free(q);
}

static sr1_status query_new(struct bm25_query **out, struct bm25 *e)
{
    struct bm25_query *q = sr1__calloc(1, sizeof(*q));
    sr1_status status;

    if (q == NULL)
        return sr1__fail_nomem("query");
    q->engine = e;
    status = sr1__query_terms_new(&q->terms, e->ix, e->analyzer);
    if (status == SR1_OK)
        status = sr1__bm25_ranker_new(&q->ranker, e->ix, &e->norm);
    if (status == SR1_OK)
        status = sr1__row_reader_new(&q->rows, sr1__index_rows(e->ix));
    if (status != SR1_OK) {
        query_free(q);
        return status;
    }
    *out = q;
    return SR1_OK;
}

/* Take an idle working memory, or allocate one. There are never more than the largest
 * number of concurrent calls. */
static sr1_status query_take(struct bm25_query **out, struct bm25 *e)
{
    struct bm25_query *q;

    pthread_mutex_lock(&e->lock);
    q = e->idle;
    if (q != NULL)
        e->idle = q->next;
    pthread_mutex_unlock(&e->lock);
    if (q == NULL)
        return query_new(out, e);
    *out = q;
    return SR1_OK;
}

static void query_give(struct bm25_query *q)
{
    struct bm25 *e = q->engine;

    atomic_fetch_add(&e->scored, q->work.scored);
    atomic_fetch_add(&e->listed, q->work.listed);
    memset(&q->work, 0, sizeof(q->work));
    pthread_mutex_lock(&e->lock);
    q->next = e->idle;
    e->idle = q;
    pthread_mutex_unlock(&e->lock);
}

static sr1_status bm25_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    struct bm25 *e = self;
    struct bm25_query *q = NULL;
    sr1_status status;

    SR1__TRY(query_take(&q, e));
    status = SR1_OK;
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = answer_bm25_query(q, queries[i], i, top_k, sink);
    query_give(q);
    return sr1__index_check_changed(e->ix, status);
}

sr1_status sr1__bm25_numbers(const sr1_search *engine, const char *text, int32_t top_k,
                             uint32_t *docs, double *scores, int32_t *found)
{
    struct bm25 *e = sr1__search_self(engine, bm25_search);
    const struct sr1__bm25_doc *best = NULL;
    struct bm25_query *q = NULL;
    sr1_status status;

    if (e == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25: this engine is not a BM25 engine");
    SR1__TRY(query_take(&q, e));
    status = rank_bm25_query(q, text, top_k, &best, found);
    for (int32_t k = 0; status == SR1_OK && k < *found; k++) {
        docs[k] = best[k].doc;
        scores[k] = (double)best[k].score / SR1__BM25_UNIT;
    }
    query_give(q);
    return sr1__index_check_changed(e->ix, status);
}

static void bm25_destroy(void *self)
{
    struct bm25 *e = self;

    while (e->idle != NULL) {
        struct bm25_query *q = e->idle;

        e->idle = q->next;
        query_free(q);
    }
    pthread_mutex_destroy(&e->lock);
    sr1__doc_cache_free(e->docs);
    sr1__index_close(e->ix);
    sr1__free(e);
}

static const sr1_search_ops bm25_ops = {sizeof(sr1_search_ops), "bm25", bm25_search,
                                        bm25_destroy,
                                        SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS};

static const sr1_bm25_options defaults = {sizeof(defaults), 0.9, 0.4};

void sr1_bm25_options_init(sr1_bm25_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_bm25_options(const sr1_bm25_options *options, sr1_bm25_options *o)
{
    *o = defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), options,
                              SR1__STRUCT_END(sr1_bm25_options, k1), "bm25 options"));
    if (!(o->k1 >= 0 && isfinite(o->k1)) || !(o->b >= 0 && o->b <= 1))
        return sr1__fail(SR1_E_INVALID,
                         "bm25: k1 %g, b %g: k1 is at least 0, b from 0 to 1", o->k1,
                         o->b);
    return SR1_OK;
}

/* Takes ix over, in any case. */
static sr1_status make_bm25_engine(sr1_search **out, struct sr1__index *ix,
                                   const sr1_bm25_options *o)
{
    const struct sr1__index_meta *meta = sr1__index_meta(ix);
    struct bm25 *e = sr1__calloc(1, sizeof(*e));
    sr1_status status;

    if (e == NULL) {
        sr1__index_close(ix);
        return sr1__fail_nomem("bm25 engine");
    }
    pthread_mutex_init(&e->lock, NULL);
    e->ix = ix;
    e->k1 = o->k1;
    e->b = o->b;
    e->analyzer = sr1__analyzer_find(meta->analyzer, NULL);
    if (e->analyzer == NULL) {
        status = sr1__fail(SR1_E_UNSUPPORTED,
                           "index made with analyzer '%.31s', which this "
                           "library does not have",
                           meta->analyzer);
    } else {
        sr1__bm25_norm_init(&e->norm, meta, e->k1, e->b);
        status = sr1__doc_cache_new(&e->docs, DOC_CACHE_BYTES);
    }
    if (status == SR1_OK)
        status = sr1__search_new_builtin(out, &bm25_ops, e);
    if (status != SR1_OK)
        bm25_destroy(e);
    return status;
}

sr1_status sr1_search_open_bm25(sr1_search **out, const char *path,
                                const sr1_bm25_options *options)
{
    struct sr1__index *ix = NULL;
    sr1_bm25_options o;
    uint64_t origin = 0;

    if (out == NULL || path == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25: an argument is NULL");
    SR1__TRY(read_bm25_options(options, &o));
    SR1__TRY(sr1__file_end_hash(path, UINT64_MAX, &origin));
    SR1__TRY(sr1__index_open(&ix, path));
    SR1__TRY(sr1__context(make_bm25_engine(out, ix, &o), "%s", path));
    origin = sr1__hash64(&o.k1, sizeof(o.k1), origin);
    sr1__search_set_origin(*out, sr1__hash64(&o.b, sizeof(o.b), origin));
    return SR1_OK;
}

sr1_status sr1_bm25_verify(const char *path)
{
    struct sr1__index *ix = NULL;
    sr1_status status;

    if (path == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 verify: the path is NULL");
    SR1__TRY(sr1__index_open(&ix, path));
    status = sr1__context(sr1__index_verify(ix), "%s", path);
    sr1__index_close(ix);
    return status;
}

sr1_status sr1__search_open_bm25_memory(sr1_search **out, const void *bytes, size_t n,
                                        const sr1_bm25_options *options)
{
    struct sr1__index *ix = NULL;
    sr1_bm25_options o;

    SR1__TRY(read_bm25_options(options, &o));
    SR1__TRY(sr1__index_open_memory(&ix, bytes, n));
    return make_bm25_engine(out, ix, &o);
}

sr1_status sr1__bm25_stats(const sr1_search *engine, struct sr1__bm25_work *out)
{
    struct bm25 *e = sr1__search_self(engine, bm25_search);

    if (e == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25: this engine is not a BM25 engine");
    out->scored = atomic_load(&e->scored);
    out->listed = atomic_load(&e->listed);
    return SR1_OK;
}

sr1_status sr1_bm25_info_get(const sr1_search *engine, sr1_bm25_info *out)
{
    struct bm25 *e = sr1__search_self(engine, bm25_search);
    const struct sr1__index_meta *meta;
    sr1_bm25_info info = {sizeof(info)};

    if (e == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 info: this engine is not a BM25 engine");
    meta = sr1__index_meta(e->ix);
    info.documents = meta->documents;
    info.terms = meta->terms;
    info.total_terms = meta->total_terms;
    info.postings = meta->postings;
    info.file_bytes = meta->file_bytes;
    info.search_bytes = meta->search_bytes;
    info.documents_bytes = meta->documents_bytes;
    info.contents_bytes = meta->contents_bytes;
    info.analyzer = meta->analyzer;
    info.k1 = e->k1;
    info.b = e->b;
    return sr1__struct_give(out, &info, sizeof(info), "bm25 info");
}
