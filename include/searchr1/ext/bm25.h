/* searchr1/ext/bm25.h - BM25 indexes: build, verify and search them.
 *
 *     score = sum over the query's distinct terms of
 *         qtf * ln(1 + (N - df + 0.5) / (df + 0.5))
 *             * tf / (tf + k1 * (1 - b + b * len / avglen))
 *
 * as Lucene computes BM25, with its one-byte document lengths. Documents of equal score
 * are in corpus order.
 *
 * Ownership: free an engine with sr1_search_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   an engine as searchr1/search.h says; the other functions share no state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_BM25_H
#define SEARCHR1_EXT_BM25_H

#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_bm25_build_options {
    size_t struct_size;   /* set by sr1_bm25_build_options_init */
    const char *analyzer; /* "english" (as Lucene's EnglishAnalyzer; the default), "plain"
                             (words between spaces, case folded) or "cjk" (as plain, but
                             pairs of characters of Chinese, Japanese and Korean) */
    int32_t zstd_level;   /* 1 to 19, for the stored documents; default 3 */
    int32_t reserved;     /* not read */
    /* Postings gather in at most this many bytes, then wait in temporary files beside the
     * index; 0: the default, 512 MiB; from 1 MiB to 3 GiB. Each thread takes some 16 MiB
     * besides. */
    uint64_t memory_bytes;
    /* What contents are: "plain" (NULL; the default), "html", "markdown", or "auto": HTML
     * where it looks like that. Markup is cut off before indexing, and the stored row has
     * the text that is left. */
    const char *text_format;
    int32_t threads; /* 1 to 1024, the caller's included; 0, the default: one a
                        processor. The index has the same bytes whatever their number */
    int32_t force;   /* 1: replace also a file that is no BM25 index. Since 0.1 */
} sr1_bm25_build_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_bm25_build_options_init(sr1_bm25_build_options *options);

/* Called now and then during a build: bytes of the corpus read, of all, and documents so
 * far. The last call has done == total. A value other than 0 stops the build. */
typedef int32_t (*sr1_bm25_progress_fn)(void *user, uint64_t done, uint64_t total,
                                        uint64_t documents);

/* Index a Search-R1 corpus: one JSON object a line, {"id": string or integer, "contents":
 * string, ...}. Other members are kept in the stored row, blank lines are skipped, and
 * ids that occur twice are counted in a warning (sr1_log_set). The index is one file,
 * which is replaced whole at the end, so after a failure (SR1_E_CANCELLED: progress
 * stopped the build) the old one is unchanged. SR1_E_INVALID, before anything is read: a
 * file that is there is no BM25 index (sr1_index_kind). options and progress may be NULL.
 */
SR1_API sr1_status sr1_bm25_build(const char *corpus_path, const char *index_path,
                                  const sr1_bm25_build_options *options,
                                  sr1_bm25_progress_fn progress, void *user);

typedef struct sr1_bm25_options {
    size_t struct_size; /* set by sr1_bm25_options_init */
    double k1;          /* >= 0; default 0.9 */
    double b;           /* 0 to 1; default 0.4 */
} sr1_bm25_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_bm25_options_init(sr1_bm25_options *options);

/* Open an index. The file is mapped, not read: processes can share it, and it may be
 * replaced while it is open. options may be NULL. SR1_E_CORRUPT: the file is no index, or
 * was cut. SR1_E_UNSUPPORTED: it has another format version. Other damage is found when a
 * search comes upon it (SR1_E_CORRUPT), or by sr1_bm25_verify. Caller frees with
 * sr1_search_free. */
SR1_API sr1_status sr1_search_open_bm25(sr1_search **out, const char *path,
                                        const sr1_bm25_options *options);

/* Read a whole index and compare its checksums. SR1_E_CORRUPT names the section that
 * contains a changed byte. */
SR1_API sr1_status sr1_bm25_verify(const char *path);

typedef struct sr1_bm25_info {
    size_t struct_size; /* set by the caller */
    uint64_t documents;
    uint64_t terms;           /* distinct */
    uint64_t total_terms;     /* tokens in all documents */
    uint64_t postings;        /* (term, document) pairs */
    uint64_t file_bytes;      /* the index file */
    uint64_t search_bytes;    /* of it: postings, dictionary, lengths */
    uint64_t documents_bytes; /* of it: stored rows, compressed */
    uint64_t contents_bytes;  /* text that was indexed */
    const char *analyzer;     /* borrowed until the engine is freed */
    double k1;
    double b;
} sr1_bm25_info;

/* Fill *out (struct_size set) with the figures of an index. SR1_E_INVALID: the engine is
 * not a BM25 engine. */
SR1_API sr1_status sr1_bm25_info_get(const sr1_search *engine, sr1_bm25_info *out);

#ifdef __cplusplus
}
#endif
#endif
