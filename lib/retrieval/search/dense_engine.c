/* retrieval/search/dense_engine.c - the dense engine: embed a batch of queries, go
 * through all vectors, here or on a device, fetch rows. */
#include "retrieval/search/dense_index.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "config/added_choices.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/dense_device.h"
#include "retrieval/search/embed.h"
#include "retrieval/search/encoding.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

#define DOC_CACHE_BYTES ((uint64_t)64 << 20)
#define HITS_MOST ((size_t)1 << 20) /* held at a time; more queries go in turn */

struct dense {
    struct sr1__dense_index *ix;
    sr1_embedder *embedder;
    struct sr1__doc_cache *docs;
    struct sr1__pool *pool;
    struct sr1__dense_device *device; /* NULL: vectors are searched here */
};

/* One call. */
struct dense_call {
    struct dense *engine;
    struct sr1__row_reader *rows;
    float *vectors;              /* [n, dim] */
    struct sr1__dense_hit *hits; /* [at most HITS_MOST, or top_k] */
};

static sr1_status emit_dense_hit(struct dense_call *c, const struct sr1__dense_hit *hit,
                                 size_t query, sr1_search_sink *sink)
{
    struct sr1__doc *d = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_fetch(c->rows, c->engine->docs, hit->doc, &d));
    status = sr1__sink_doc(sink, query, d, (double)hit->score);
    sr1__doc_release(d);
    return status;
}

/* The answers of queries [first, first + n). */
static sr1_status answer_dense_queries(struct dense_call *c, size_t first, size_t n,
                                       int32_t top_k, sr1_search_sink *sink)
{
    struct dense *e = c->engine;
    size_t dim = sr1__dense_meta(e->ix)->dim;
    int32_t found = 0;

    if (e->device != NULL)
        SR1__TRY(sr1__dense_device_scan(e->device, e->pool, c->vectors + first * dim, n,
                                        top_k, c->hits, &found));
    else
        SR1__TRY(sr1__dense_scan(e->ix, e->pool, c->vectors + first * dim, n, top_k,
                                 c->hits, &found));
    for (size_t i = 0; i < n; i++)
        for (int32_t k = 0; k < found; k++)
            SR1__TRY(emit_dense_hit(c, &c->hits[i * (size_t)top_k + (size_t)k], first + i,
                                    sink));
    return SR1_OK;
}

static sr1_status call_run(struct dense_call *c, const char *const *queries, size_t n,
                           int32_t top_k, sr1_search_sink *sink)
{
    struct dense *e = c->engine;
    size_t most = HITS_MOST / (size_t)top_k;

    most = n < most ? n : most;
    c->vectors = sr1__calloc(n, sr1__dense_meta(e->ix)->dim * sizeof(*c->vectors));
    c->hits = sr1__calloc(most, (size_t)top_k * sizeof(*c->hits));
    SR1__CHECK_ALLOC(c->vectors && c->hits, "search");
    SR1__TRY(sr1__row_reader_new(&c->rows, sr1__dense_rows(e->ix)));
    SR1__TRY(sr1_embedder_embed(e->embedder, queries, n, SR1_EMBED_QUERY, c->vectors));
    for (size_t i = 0; i < n; i += most)
        SR1__TRY(answer_dense_queries(c, i, n - i < most ? n - i : most, top_k, sink));
    return SR1_OK;
}

static sr1_status dense_search(void *self, const char *const *queries, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    struct dense_call c = {.engine = self};
    sr1_status status =
        sr1__dense_check_changed(c.engine->ix, call_run(&c, queries, n, top_k, sink));

    sr1__row_reader_free(c.rows);
    sr1__free(c.vectors);
    sr1__free(c.hits);
    return status;
}

static void dense_destroy(void *self)
{
    struct dense *e = self;

    sr1__dense_device_close(e->device);
    sr1__pool_free(e->pool);
    sr1__doc_cache_free(e->docs);
    sr1_embedder_free(e->embedder);
    sr1__dense_close(e->ix);
    sr1__free(e);
}

/* Threads share the scan of a call, not its queries: the embedder sees a whole batch. */
static const sr1_search_ops dense_ops = {sizeof(sr1_search_ops), "dense", dense_search,
                                         dense_destroy, SR1_SEARCH_CONCURRENT};

/* ---- opening ---- */

static const sr1_dense_options defaults = {.struct_size = sizeof(defaults)};

void sr1_dense_options_init(sr1_dense_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static int is_device_name(const char *name)
{
    return strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0 ||
           strncmp(name, "cuda", 4) == 0 ||
           sr1__added_choice_find("device", name) != NULL;
}

static sr1_status read_dense_options(const sr1_dense_options *options,
                                     sr1_dense_options *o)
{
    *o = defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), options,
                              SR1__STRUCT_END(sr1_dense_options, threads),
                              "dense options"));
    if (o->device == NULL)
        o->device = "cpu";
    if (!is_device_name(o->device))
        return sr1__fail(SR1_E_INVALID,
                         "dense search: device '%.32s' is not one of auto, cpu, cuda, "
                         "cuda:N",
                         o->device);
    return SR1_OK;
}

static sr1_status check_embedder(const struct sr1__dense_meta *m,
                                 const sr1_embedder *embedder, int other_weights)
{
    const char *name = sr1_embedder_name(embedder);
    const char *own = sr1__embedder_encoding(embedder);

    if ((size_t)sr1_embedder_dim(embedder) != m->dim)
        return sr1__fail(SR1_E_INVALID,
                         "the index has vectors of %zu numbers, embedder '%.200s' makes "
                         "%d%s%.200s%s",
                         m->dim, name, (int)sr1_embedder_dim(embedder),
                         *m->embedder ? "; it was made with '" : "", m->embedder,
                         *m->embedder ? "'" : "");
    if (*m->encoding == '\0' && *own == '\0' && *m->embedder != '\0' &&
        strcmp(m->embedder, name) != 0)
        sr1__log(SR1_LOG_WARN,
                 "the index was made with embedder '%.200s', its queries are embedded by "
                 "'%.200s'",
                 m->embedder, name);
    return sr1__encoding_check(m->encoding, own, name, other_weights);
}

/* "auto" is content with this processor where no device can be had. */
static sr1_status open_device(struct dense *e, const char *device)
{
    const struct sr1__scorer_ops *ops = sr1__scorer_offered();
    int automatic = strcmp(device, "auto") == 0;
    sr1_status status;

    if (strcmp(device, "cpu") == 0 || (automatic && ops == NULL))
        return SR1_OK;
    if (ops == NULL)
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "dense search: this program has no libtorch, which device '%.32s' "
            "is reached by; use device cpu",
            device);
    status = sr1__dense_device_open(&e->device, e->ix, e->pool, ops, device, NULL);
    if (automatic && (status == SR1_E_DEVICE || status == SR1_E_DEVICE_NOMEM)) {
        sr1__log(SR1_LOG_INFO, "dense search stays on the CPU: %s", sr1_last_error());
        return SR1_OK;
    }
    return sr1__context(status, "dense search");
}

static sr1_status fill_dense_engine(struct dense *e, sr1_embedder *embedder,
                                    const sr1_dense_options *o)
{
    SR1__TRY(check_embedder(sr1__dense_meta(e->ix), embedder, o->other_weights));
    SR1__TRY(sr1__pool_new(&e->pool, o->threads));
    SR1__TRY(sr1__doc_cache_new(&e->docs, DOC_CACHE_BYTES));
    e->embedder = sr1_embedder_retain(embedder);
    return open_device(e, o->device);
}

sr1_status sr1__search_open_dense_index(sr1_search **out, struct sr1__dense_index *ix,
                                        sr1_embedder *embedder,
                                        const sr1_dense_options *options)
{
    struct dense *e = sr1__calloc(1, sizeof(*e));
    sr1_dense_options o;
    sr1_status status;

    if (e == NULL) {
        sr1__dense_close(ix);
        return sr1__fail_nomem("dense engine");
    }
    e->ix = ix;
    status = read_dense_options(options, &o);
    if (status == SR1_OK)
        status = fill_dense_engine(e, embedder, &o);
    if (status == SR1_OK)
        status = sr1__search_new_builtin(out, &dense_ops, e);
    if (status != SR1_OK)
        dense_destroy(e);
    return status;
}

sr1_status sr1_search_open_dense(sr1_search **out, const char *path,
                                 sr1_embedder *embedder, const sr1_dense_options *options)
{
    struct sr1__dense_index *ix = NULL;
    sr1_dense_options o;
    uint64_t origin = 0;

    if (out == NULL || path == NULL || embedder == NULL)
        return sr1__fail(SR1_E_INVALID, "dense: out, path and embedder are required");
    SR1__TRY(read_dense_options(options, &o));
    SR1__TRY(sr1__file_end_hash(path, UINT64_MAX, &origin));
    SR1__TRY(sr1__dense_open(&ix, path));
    SR1__TRY(
        sr1__context(sr1__search_open_dense_index(out, ix, embedder, &o), "%s", path));
    sr1__search_set_origin(*out, sr1__embedder_origin(embedder, origin));
    return SR1_OK;
}

sr1_status sr1_dense_info_get(const sr1_search *engine, sr1_dense_info *out)
{
    struct dense *e = sr1__search_self(engine, dense_search);
    sr1_dense_info info = {sizeof(info)};

    if (e == NULL)
        return sr1__fail(SR1_E_INVALID, "dense info: this engine is not a dense engine");
    sr1__dense_info_fill(sr1__dense_meta(e->ix), &info);
    info.device = "cpu";
    if (e->device != NULL) {
        info.device = sr1__dense_device_name(e->device);
        sr1__dense_device_counts(e->device, &info.device_queries, &info.device_rescans);
    }
    return sr1__struct_give(out, &info, sizeof(info), "dense info");
}
