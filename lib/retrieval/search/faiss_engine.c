/* retrieval/search/faiss_engine.c - the engine over a FAISS index: embed the queries, let
 * FAISS find the numbers of the nearest vectors, give the documents of those rows. */
#include <searchr1/ext/faiss.h>

#include "base/file.h"
#include "base/map_watch.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/document_store.h"
#include "retrieval/search/embed.h"
#include "retrieval/search/search_engine.h"
#include "retrieval/search/faiss_bridge.h"
#include "retrieval/search/faiss_file.h"

#include <inttypes.h>
#include <math.h>
#include <sys/mman.h>

#define EF_SEARCH_MAX (1 << 20)
#define FOUND_MAX ((size_t)1 << 20) /* distances asked for in one call */

struct faiss {
    const struct sr1__faiss_table *table;
    sr1__faiss_index *index;
    struct sr1__faiss_meta meta;
    struct sr1__document_store *documents;
    sr1_embedder *embedder;
};

/* Room for the queries of one call. */
struct nearest_vectors {
    float *vectors;   /* [n, dim] */
    float *distances; /* [piece, k] */
    int64_t *ids;     /* [piece, k] */
    size_t piece;     /* queries of one call of FAISS */
};

static void faiss_destroy(void *self)
{
    struct faiss *f = self;

    if (f->index != NULL)
        f->table->release(f->index);
    sr1__document_store_close(f->documents);
    sr1_embedder_free(f->embedder);
    sr1__free(f);
}

/* ---- searching ---- */

static void found_free(struct nearest_vectors *a)
{
    sr1__free(a->vectors);
    sr1__free(a->distances);
    sr1__free(a->ids);
}

static sr1_status found_init(struct nearest_vectors *a, size_t n, size_t dim, size_t k)
{
    a->piece = FOUND_MAX / k < n ? FOUND_MAX / k : n;
    a->vectors = sr1__calloc(n, dim * sizeof(*a->vectors));
    a->distances = sr1__calloc(a->piece, k * sizeof(*a->distances));
    a->ids = sr1__calloc(a->piece, k * sizeof(*a->ids));
    return a->vectors && a->distances && a->ids ? SR1_OK
                                                : sr1__fail_nomem("nearest vectors");
}

static sr1_status emit_faiss_hit(struct faiss *f, sr1_search_sink *sink, size_t query,
                                 int64_t id, float distance)
{
    struct sr1__doc *d = NULL;
    sr1_status status;

    if (id == -1)
        return SR1_OK; /* FAISS found fewer */
    if (id < 0 || !isfinite(distance))
        return sr1__fail(SR1_E_CORRUPT,
                         "FAISS index is damaged: it gives id %" PRId64 ", distance %g",
                         id, (double)distance);
    SR1__TRY(sr1__document_store_get(f->documents, (uint64_t)id, &d));
    status = sr1__sink_doc(sink, query, d,
                           f->meta.metric == 0 ? (double)distance : -(double)distance);
    sr1__doc_release(d);
    return status;
}

/* Queries [begin, begin + n), n <= a->piece. */
static sr1_status search_piece(struct faiss *f, struct nearest_vectors *a, size_t begin,
                               size_t n, size_t k, sr1_search_sink *sink)
{
    struct sr1__faiss_error error = {""};
    sr1_status status =
        f->table->search(f->index, a->vectors + begin * (size_t)f->meta.dim, (int64_t)n,
                         (int64_t)k, a->distances, a->ids, &error);

    SR1__TRY(sr1__faiss_status(status, &error, "search"));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            SR1__TRY(emit_faiss_hit(f, sink, begin + i, a->ids[i * k + j],
                                    a->distances[i * k + j]));
    return SR1_OK;
}

static sr1_status search_all(struct faiss *f, struct nearest_vectors *a,
                             const char *const *queries, size_t n, size_t k,
                             sr1_search_sink *sink)
{
    SR1__TRY(sr1_embedder_embed(f->embedder, queries, n, SR1_EMBED_QUERY, a->vectors));
    for (size_t i = 0; i < n; i += a->piece)
        SR1__TRY(search_piece(f, a, i, n - i < a->piece ? n - i : a->piece, k, sink));
    return SR1_OK;
}

static sr1_status faiss_search(void *self, const char *const *queries, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    struct faiss *f = self;
    struct nearest_vectors a = {0};
    size_t k = top_k < f->meta.vectors ? (size_t)top_k : (size_t)f->meta.vectors;
    sr1_status status = found_init(&a, n, (size_t)f->meta.dim, k);

    if (status == SR1_OK)
        status = search_all(f, &a, queries, n, k, sink);
    found_free(&a);
    return status;
}

/* FAISS spreads a batch over threads by itself, hence no SR1_SEARCH_THREADS. */
static const sr1_search_ops faiss_ops = {sizeof(sr1_search_ops), "faiss", faiss_search,
                                         faiss_destroy, SR1_SEARCH_CONCURRENT};

/* ---- opening ---- */

static const sr1_faiss_options defaults = {sizeof(defaults), 0, 0};

void sr1_faiss_options_init(sr1_faiss_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_faiss_options(const sr1_faiss_options *options,
                                     sr1_faiss_options *o)
{
    *o = defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), options,
                              SR1__STRUCT_END(sr1_faiss_options, nprobe),
                              "faiss options"));
    if (o->nprobe < 0 || o->ef_search < 0 || o->ef_search > EF_SEARCH_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "faiss: nprobe %d, ef_search %d: not below 0, "
                         "ef_search at most %d",
                         (int)o->nprobe, (int)o->ef_search, EF_SEARCH_MAX);
    return SR1_OK;
}

static sr1_status check_fit(const struct faiss *f, const sr1_faiss_options *o)
{
    uint64_t documents = sr1__document_store_count(f->documents);

    if (f->meta.dim != sr1_embedder_dim(f->embedder))
        return sr1__fail(SR1_E_INVALID,
                         "the index has vectors of %d numbers, the embedder '%s' of %d; "
                         "open the embedder that made the index",
                         (int)f->meta.dim, sr1_embedder_name(f->embedder),
                         (int)sr1_embedder_dim(f->embedder));
    if (f->meta.vectors < 1 || (uint64_t)f->meta.vectors != documents)
        return sr1__fail(SR1_E_INVALID,
                         "the index has %" PRId64 " vectors, but there are %" PRIu64
                         " documents; use the corpus that was embedded",
                         f->meta.vectors, documents);
    if ((o->nprobe > 0 && !f->meta.has_ivf) || (o->ef_search > 0 && !f->meta.has_hnsw))
        return sr1__fail(SR1_E_INVALID, "%s is set, but the index is not %s",
                         f->meta.has_ivf || o->nprobe == 0 ? "ef_search" : "nprobe",
                         f->meta.has_ivf || o->nprobe == 0 ? "HNSW" : "IVF");
    return SR1_OK;
}

static sr1_status read_index(struct faiss *f, const struct sr1__map *m,
                             const sr1_faiss_options *o)
{
    struct sr1__faiss_error error = {""};
    sr1_status status;

    (void)madvise((void *)(uintptr_t)m->data, m->size, MADV_SEQUENTIAL);
    SR1__TRY(sr1__faiss_check(m->data, m->size, &f->meta));
    SR1__TRY(check_fit(f, o));
    status = f->table->read(&f->index, m->data, m->size, &error);
    if (status == SR1_OK)
        status = f->table->tune(f->index, o->nprobe, o->ef_search, &error);
    return sr1__faiss_status(status, &error, "read");
}

static sr1_status set_up_faiss(struct faiss *f, const char *index_path,
                               const char *documents, const sr1_faiss_options *o)
{
    struct sr1__map m = {NULL, 0};
    sr1_status status;

    SR1__TRY(sr1__faiss_bridge(&f->table));
    SR1__TRY(sr1__map_open_watched(&m, index_path, 0));
    status = sr1__document_store_open(&f->documents, documents);
    if (status == SR1_OK)
        status = sr1__context(sr1__map_blame(&m, read_index(f, &m, o)), "%s", index_path);
    sr1__map_close(&m);
    return status;
}

/* What the answers depend on, beside the embedder. */
static sr1_status hash_faiss_files(const char *index_path, const char *documents,
                                   const sr1_faiss_options *o, uint64_t *out)
{
    const int32_t tuned[] = {o->nprobe, o->ef_search};
    uint64_t files[2];

    SR1__TRY(sr1__file_end_hash(index_path, UINT64_MAX, &files[0]));
    SR1__TRY(sr1__file_end_hash(documents, UINT64_MAX, &files[1]));
    *out = sr1__hash64(files, sizeof(files), sr1__hash64(tuned, sizeof(tuned), 0));
    return SR1_OK;
}

sr1_status sr1_search_open_faiss(sr1_search **out, const char *index_path,
                                 const char *documents, sr1_embedder *embedder,
                                 const sr1_faiss_options *options)
{
    sr1_faiss_options o;
    uint64_t origin = 0;
    struct faiss *f;
    sr1_status status;

    if (out == NULL || index_path == NULL || documents == NULL || embedder == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "faiss: out, index, documents and embedder are needed");
    SR1__TRY(read_faiss_options(options, &o));
    SR1__CALLOC(f, 1, "faiss engine");
    f->embedder = sr1_embedder_retain(embedder);
    status = set_up_faiss(f, index_path, documents, &o);
    if (status == SR1_OK)
        status = hash_faiss_files(index_path, documents, &o, &origin);
    if (status == SR1_OK)
        status = sr1__search_new_builtin(out, &faiss_ops, f);
    if (status != SR1_OK) {
        faiss_destroy(f);
        return status;
    }
    sr1__search_set_origin(*out, sr1__embedder_origin(embedder, origin));
    return SR1_OK;
}
