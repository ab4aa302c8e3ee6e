/* searchr1/faiss.h - FAISS indexes as search engines, read and built.
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
 * Threads:   any, at a time. */
#ifndef SEARCHR1_FAISS_H
#define SEARCHR1_FAISS_H

#include <searchr1/embed.h>
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

/* Set the fields above to their defaults. Fields that later versions append are set by
 * the caller, with struct_size. Since 0.1. */
SR1_API void sr1_faiss_options_init(sr1_faiss_options *options);

/* An engine over an index file of faiss.write_index (of the Python package too): Flat,
 * IVF (Flat, PQ, SQ), HNSW (Flat, PQ, SQ), PQ, SQ, with or without IDMap, OPQ, PCA and
 * other linear transforms; metric inner product or L2. Queries are embedded by the
 * embedder (retained), whose length the index must have. The document of vector i is row
 * i of documents: a BM25 or dense index of ours, or the corpus itself (JSON lines; where
 * its rows begin is kept in documents.offsets beside it, which is written when it is
 * missing or does not fit). With an IDMap the ids are the rows. Scores: the inner
 * product, or minus the squared distance.
 *
 * The whole index is read into memory. SR1_E_UNSUPPORTED: FAISS's bridge,
 * libsearchr1_faiss.so, is not there (the text says what to install), or the index is of
 * another kind; SR1_E_CORRUPT for a damaged file; SR1_E_INVALID where dimensions or the
 * number of documents differ. options may be NULL. Caller frees with sr1_search_free.
 * Since 0.1. */
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
} sr1_faiss_build_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_faiss_build_options_init(sr1_faiss_build_options *options);

/* Called now and then during a build: vectors added, and of all. A value other than 0
 * stops the build. */
typedef int32_t (*sr1_faiss_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Build an index of the vectors in a file (a dense index of ours, or raw fp32,
 * little-endian, [n, dim]: Search-R1's emb_*.memmap) by FAISS's description: "Flat",
 * "IVF256,Flat", "HNSW32", "PQ16", "SQ8", "IVF1024,PQ16", ... Other kinds than those that
 * can be opened are refused, and so are transforms. The index grows in memory; the file
 * is replaced whole at the end: after any failure (SR1_E_CANCELLED when progress stopped
 * it) an old one stands as it was. options may be NULL for a dense index, progress in any
 * case. Since 0.1. */
SR1_API sr1_status sr1_faiss_build(const char *vectors, const char *faiss_path,
                                   const char *factory,
                                   const sr1_faiss_build_options *options,
                                   sr1_faiss_progress_fn progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
