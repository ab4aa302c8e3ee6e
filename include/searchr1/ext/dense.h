/* searchr1/ext/dense.h - dense indexes: one vector for each document.
 *
 * A search embeds its queries and takes the inner product with every vector: the top_k
 * are exact; documents of equal score are in corpus order.
 *
 * Ownership: free an engine with sr1_search_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   an engine as searchr1/search.h says; the other functions share no state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_DENSE_H
#define SEARCHR1_EXT_DENSE_H

#include <searchr1/ext/embed.h>
#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_dense_build_options {
    size_t struct_size; /* set by sr1_dense_build_options_init */
    /* How vectors are kept: "fp32" (NULL; the default), "fp16", or "int8": v = q * scale
     * with scale = max |v| / 127 of the row and q = round(v / scale). */
    const char *dtype;
    const char *text_format; /* as sr1_bm25_build_options */
    int32_t zstd_level;      /* of stored rows, 1 to 19; default 3 */
    int32_t batch; /* texts of one call of the embedder, 1 to 65536; default 256 */
    /* sr1_dense_import: the embedder that the vectors are from, kept for those who open
     * the index; NULL: "" */
    const char *embedder_name;
    int32_t force;    /* 1: replace also a file that is no dense index. Since 0.1 */
    int32_t reserved; /* not read */
} sr1_dense_build_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_dense_build_options_init(sr1_dense_build_options *options);

/* Called after each batch: bytes of the corpus read, of all, documents so far, and how
 * many of them had their vectors from a build that was stopped. The last call has done ==
 * total. A value other than 0 stops the build. */
typedef int32_t (*sr1_dense_progress_fn)(void *user, uint64_t done, uint64_t total,
                                         uint64_t documents, uint64_t resumed);

/* Embed a Search-R1 corpus (see sr1_bm25_build) as SR1_EMBED_DOCUMENT and index the
 * vectors. The index is one file, replaced whole at the end. Finished vectors wait in
 * INDEX.part: after a failure, a kill or SR1_E_CANCELLED the same call continues after
 * the last whole batch; with another corpus, embedder (its name, dim and, of one from
 * sr1_embedder_open, its weights and how documents are embedded), dtype or text_format it
 * starts anew. Memory: a batch of texts (at most 8 MiB and one row) with its vectors, and
 * some 2 MiB. Disk: the vectors once more beside the index. options and progress may be
 * NULL. SR1_E_STATE: another process builds this index. SR1_E_INVALID, before anything is
 * embedded: a file that is there is no dense index (sr1_index_kind). */
SR1_API sr1_status sr1_dense_build(const char *corpus_path, const char *index_path,
                                   sr1_embedder *embedder,
                                   const sr1_dense_build_options *options,
                                   sr1_dense_progress_fn progress, void *user);

/* Index vectors that were made elsewhere: a file of n rows of dim little-endian fp32
 * numbers and nothing else, in the order of the corpus (Search-R1's emb_*.memmap). The
 * call cannot be resumed. options and progress may be NULL. SR1_E_PARSE: the file's size
 * does not fit the corpus. SR1_E_NUMERIC: a number is not finite. SR1_E_INVALID: as in
 * sr1_dense_build. */
SR1_API sr1_status sr1_dense_import(const char *corpus_path, const char *vectors_path,
                                    int32_t dim, const char *index_path,
                                    const sr1_dense_build_options *options,
                                    sr1_dense_progress_fn progress, void *user);

/* What a build will take: guessed from the first rows of the corpus. */
typedef struct sr1_dense_estimate {
    size_t struct_size;    /* set by the caller */
    uint64_t documents;    /* about */
    uint64_t index_bytes;  /* about: the file */
    uint64_t search_bytes; /* about: memory that a search goes through */
    uint64_t build_bytes;  /* at most: memory of the build, the embedder's aside */
    double embed_seconds;  /* about; 0 without an embedder. Up to 32 texts are embedded to
                              tell */
} sr1_dense_estimate;

/* Estimate the size, memory and time of a build from the first rows of the corpus, into
 * *out (struct_size set). embedder may be NULL; then dim is the length of the vectors.
 * options may be NULL. */
SR1_API sr1_status sr1_dense_estimate_get(const char *corpus_path, sr1_embedder *embedder,
                                          int32_t dim,
                                          const sr1_dense_build_options *options,
                                          sr1_dense_estimate *out);

typedef struct sr1_dense_options {
    size_t struct_size; /* set by sr1_dense_options_init */
    int32_t threads;    /* that go through the vectors, the caller's included; 0, the
                           default: one a processor. Results do not depend on it */
    /* Where vectors are searched: "cpu" (NULL; the default), "cuda", "cuda:1", ..., or
     * "auto", CUDA where it can be used and has room, else the CPU. Results do not depend
     * on it: the device names candidates, the CPU scores them and makes sure that they
     * are enough. */
    const char *device;
    int32_t other_weights; /* 1: the embedder may be of other weights than the one that
                              made the index, for two that were trained to go together.
                              Since 0.1 */
} sr1_dense_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_dense_options_init(sr1_dense_options *options);

/* Open an index. embedder (retained) embeds the queries, a batch per call. The file is
 * mapped, not read: processes can share it, and it may be replaced while it is open.
 * Every search goes through all vectors, so they should fit in memory
 * (sr1_dense_info_read); with a device all vectors are copied there once. options may be
 * NULL. Any thread may search; on a device the threads take turns.
 *
 * An index that was built by an embedder from sr1_embedder_open knows how: one with other
 * weights or another prefix of queries is told by the log.
 *
 * SR1_E_INVALID: the embedder's vectors have another length or are pooled or normalised
 * otherwise, or the device's name is unknown. SR1_E_CORRUPT: the file is no index, or was
 * cut. SR1_E_UNSUPPORTED: it has another format version. SR1_E_DEVICE: the device does
 * not exist. SR1_E_DEVICE_NOMEM: the device has too little free memory. Other damage is
 * found when a search comes upon it or vectors go to a device (SR1_E_CORRUPT), or by
 * sr1_dense_verify. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_dense(sr1_search **out, const char *path,
                                         sr1_embedder *embedder,
                                         const sr1_dense_options *options);

/* Read a whole index and compare its checksums. SR1_E_CORRUPT names the section that
 * contains a changed byte. */
SR1_API sr1_status sr1_dense_verify(const char *path);

typedef struct sr1_dense_info {
    size_t struct_size; /* set by the caller */
    uint64_t documents;
    uint64_t file_bytes;      /* the index file */
    uint64_t search_bytes;    /* of it: vectors, all read by every search */
    uint64_t documents_bytes; /* of it: stored rows, compressed; read for hits only */
    uint64_t contents_bytes;  /* text that was embedded */
    const char *dtype;        /* static */
    const char *embedder;     /* name of the one the vectors are from; borrowed until the
                                 engine is freed; NULL from sr1_dense_info_read */
    int32_t dim;
    const char *device;      /* that searches: "cpu", "cuda:0", ...; static; NULL from
                                sr1_dense_info_read */
    uint64_t device_bytes;   /* at most: memory that a device needs for it */
    uint64_t device_queries; /* searched on a device so far */
    uint64_t device_rescans; /* of them, those that the CPU had to search again: more
                                vectors were nearly alike than were looked at twice */
} sr1_dense_info;

/* Fill *out (struct_size set) with the figures of an index. SR1_E_INVALID: the engine is
 * not a dense engine. */
SR1_API sr1_status sr1_dense_info_get(const sr1_search *engine, sr1_dense_info *out);

/* Fill *out (struct_size set) with the figures of an index file; only its first and last
 * bytes are read. */
SR1_API sr1_status sr1_dense_info_read(const char *path, sr1_dense_info *out);

/* Get the name of the embedder that an index was made with, which is the one to open for
 * its queries; "" when it is unknown. Caller frees *out with sr1_free. */
SR1_API sr1_status sr1_dense_embedder_name(const char *path, char **out);

#ifdef __cplusplus
}
#endif
#endif
