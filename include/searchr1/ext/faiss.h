/* searchr1/ext/faiss.h - FAISS indexes as search engines, read and built.
 *
 * FAISS comes as a library of its own, libsearchr1_faiss.so, loaded when it is first
 * asked for: where it is missing these functions return SR1_E_UNSUPPORTED, and the text
 * says what to install. FAISS's reader trusts its files, so a file is walked through
 * before FAISS gets it; kinds of index that are not known here are refused.
 *
 *     sr1_search *engine = NULL;
 *
 *     sr1_search_open_faiss(&engine, "e5_Flat.index", "wiki-18.jsonl", embedder, NULL);
 *
 * Ownership: as in searchr1/search.h.
 * Errors:    outputs, files among them, are as they were on failure.
 * Threads:   any, at a time.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_FAISS_H
#define SEARCHR1_EXT_FAISS_H

#include <searchr1/ext/embed.h>
#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_faiss_options {
    size_t struct_size; /* set by sr1_faiss_options_init */
    int32_t nprobe;     /* IVF: lists visited; 0, the default: as the file says */
    int32_t ef_search;  /* HNSW: candidates kept, at most 2^20; 0, the default: as the
                           file says */
} sr1_faiss_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_faiss_options_init(sr1_faiss_options *options);

/* Open an engine over an index file of faiss.write_index, the Python package's included:
 * Flat, IVF (Flat, PQ, SQ), HNSW (Flat, PQ, SQ), PQ or SQ, with or without IDMap, OPQ,
 * PCA and other linear transforms; metric inner product or L2. The whole index is read
 * into memory.
 *
 * embedder (retained) embeds the queries; its dim must be the index's. Vector i belongs
 * to row i of documents: a BM25 or dense index of this library, or the corpus itself as
 * JSON lines (the places of its rows are kept in documents.offsets beside it, which is
 * written when it is missing or does not fit). With an IDMap the ids are row numbers. The
 * score is the inner product, or minus the squared distance. options may be NULL.
 *
 * SR1_E_UNSUPPORTED: the bridge libsearchr1_faiss.so is missing (the text says what to
 * install), or the index is of another kind. SR1_E_CORRUPT: the file is damaged.
 * SR1_E_INVALID: dim or the number of documents differ. Caller frees with
 * sr1_search_free. */
SR1_API sr1_status sr1_search_open_faiss(sr1_search **out, const char *index_path,
                                         const char *documents, sr1_embedder *embedder,
                                         const sr1_faiss_options *options);

typedef struct sr1_faiss_build_options {
    size_t struct_size; /* set by sr1_faiss_build_options_init */
    int32_t dim;        /* of raw vectors, which needs it; 0, the default: the index's */
    int32_t threads;    /* 0, the default: one a processor */
    const char *metric; /* "inner_product" (NULL; the default) or "l2" */
    uint64_t train_sample; /* vectors that are trained on, evenly spaced; default 262144;
                              0: all */
    int32_t force;         /* 1: replace also a file that is no FAISS index. Since 0.1 */
    int32_t reserved;      /* not read */
} sr1_faiss_build_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_faiss_build_options_init(sr1_faiss_build_options *options);

/* Called now and then during a build: vectors added, and of all. A value other than 0
 * stops the build. */
typedef int32_t (*sr1_faiss_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Build an index of the vectors in a file: a dense index of this library, or raw
 * little-endian fp32 [n, dim] (Search-R1's emb_*.memmap). factory is FAISS's description:
 * "Flat", "IVF256,Flat", "HNSW32", "PQ16", "SQ8", "IVF1024,PQ16", ...; kinds that
 * sr1_search_open_faiss cannot open, and transforms, are refused. The index grows in
 * memory. The file is replaced whole at the end, so after a failure (SR1_E_CANCELLED:
 * progress stopped the build) the old one is unchanged. SR1_E_INVALID, before anything is
 * read: a file that is there is no FAISS index (sr1_index_kind). options may be NULL for
 * a dense index; progress may be NULL. */
SR1_API sr1_status sr1_faiss_build(const char *vectors, const char *faiss_path,
                                   const char *factory,
                                   const sr1_faiss_build_options *options,
                                   sr1_faiss_progress_fn progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
