/* searchr1/search.h - search engines: ask a batch of queries, read the hits.
 *
 * An engine is a sr1_search handle. Built-in ones are opened here (mock, BM25); any other
 * is a table of functions given to sr1_search_new. All are used through sr1_search_run,
 * which asks each distinct query once, answers repeated ones from a cache where one is
 * set, and spreads a batch over threads for engines that allow it.
 *
 *     sr1_search *engine = NULL;
 *     sr1_search_results *found = NULL;
 *     const char *queries[] = {"Where is the Eiffel Tower?"};
 *     sr1_search_hit hit = {sizeof(hit)};
 *
 *     if (sr1_bm25_build("corpus.jsonl", "corpus.idx", NULL, NULL, NULL) == SR1_OK &&
 *         sr1_search_open_bm25(&engine, "corpus.idx", NULL) == SR1_OK &&
 *         sr1_search_run(engine, queries, 1, 3, &found) == SR1_OK)
 *         for (int32_t k = 0; sr1_search_results_hit(found, 0, k, &hit) == SR1_OK; k++)
 *             printf("%.4f %s\n", hit.score, hit.id);
 *     sr1_search_results_free(found);
 *     sr1_search_free(engine);
 *
 * Ownership: an engine is counted: sr1_search_retain takes a reference,
 *            sr1_search_free gives one back. Results are independent of the engine.
 * Errors:    a status other than SR1_OK leaves outputs as they were. A query that finds
 *            nothing or fails alone is no error of the call: sr1_search_results_status.
 * Threads:   sr1_search_run, _retain, _free and _counters_get may be called from several
 *            threads at a time on one engine; the sr1_search_set_ functions before it is
 *            shared. Results are read-only and may be read from several threads. */
#ifndef SEARCHR1_SEARCH_H
#define SEARCHR1_SEARCH_H

#include <searchr1/base.h>
#include <searchr1/embed.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_search sr1_search;
typedef struct sr1_search_sink sr1_search_sink;
typedef struct sr1_search_results sr1_search_results;

/* How one query ended. */
enum {
    SR1_SEARCH_OK = 0,      /* at least one hit */
    SR1_SEARCH_EMPTY = 1,   /* the engine answered: nothing found */
    SR1_SEARCH_TIMEOUT = 2, /* no answer in time */
    SR1_SEARCH_ERROR = 3    /* the engine or the way to it failed; nothing is known */
};

/* Most hits one query can ask for. */
#define SR1_SEARCH_TOP_K_MAX 10000

/* ---- engines of your own ---- */

/* Flags of sr1_search_ops. */
enum {
    /* search may run in several threads at a time; without it the library makes one call
     * at a time */
    SR1_SEARCH_CONCURRENT = 1,
    /* with CONCURRENT: queries do not depend on each other, so a batch may be cut into
     * pieces that run on the library's threads */
    SR1_SEARCH_THREADS = 2,
    /* an answer takes long but little work here (a network): rollouts go on with the rows
     * that need no answer meanwhile. With CONCURRENT several calls are under way at a
     * time, with THREADS each with a share of the queries. A call that passes the
     * configuration's search_deadline is given up and its queries end SR1_SEARCH_TIMEOUT
     */
    SR1_SEARCH_WAITS = 4
};

typedef struct sr1_search_ops {
    size_t struct_size; /* sizeof(sr1_search_ops) */
    const char *name;   /* for messages; copied */
    /* Answer queries[0..n) with at most top_k hits each, best first, through the sink.
     * The queries are UTF-8, distinct and not blank; they and the sink are borrowed for
     * the call. A query left without a hit and status is SR1_SEARCH_EMPTY. Anything but
     * SR1_OK fails the whole batch; explain with sr1_set_error. May be called from any
     * thread. */
    sr1_status (*search)(void *self, const char *const *queries, size_t n, int32_t top_k,
                         sr1_search_sink *sink);
    /* May be NULL; called once, when the last reference goes. */
    void (*destroy)(void *self);
    int32_t flags; /* SR1_SEARCH_CONCURRENT, _THREADS, _WAITS together, or 0 */
} sr1_search_ops;

/* Wrap an engine of the caller. ops is copied; self is owned by the new engine from
 * success on (ops->destroy frees it). Returns SR1_E_INVALID for an incomplete table.
 * Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_new(sr1_search **out, const sr1_search_ops *ops,
                                  void *self);

/* From inside ops->search: the next hit of a query (index into that call's queries). id
 * and contents are copied; bytes that are not UTF-8 become U+FFFD. Hits beyond top_k are
 * dropped. Returns SR1_E_INVALID for an index out of range, a NULL string, or a score
 * that is not finite; SR1_E_LIMIT for more than 64 MiB of text for one query. Since 0.1.
 */
SR1_API sr1_status sr1_search_sink_hit(sr1_search_sink *sink, size_t query,
                                       const char *id, const char *contents,
                                       double score);

/* From inside ops->search: keep a JSON object (copied) with the query's latest hit, as
 * sr1_search_hit's row; that of a hit beyond top_k is dropped with it. Returns
 * SR1_E_STATE when the query has no hit yet. Since 0.1. */
SR1_API sr1_status sr1_search_sink_row(sr1_search_sink *sink, size_t query,
                                       const char *row);

/* From inside ops->search: set how a query ended, with a message (copied; may be NULL).
 * TIMEOUT and ERROR drop the hits it had. Since 0.1. */
SR1_API sr1_status sr1_search_sink_status(sr1_search_sink *sink, size_t query,
                                          int32_t status, const char *message);

/* ---- using an engine ---- */

/* Take one more reference; returns engine. NULL is fine. Since 0.1. */
SR1_API sr1_search *sr1_search_retain(sr1_search *engine);

/* Give one reference back. NULL is fine. Since 0.1. */
SR1_API void sr1_search_free(sr1_search *engine);

/* The engine's name. Borrowed until the engine is freed. Since 0.1. */
SR1_API const char *sr1_search_name(const sr1_search *engine);

/* Keep answers (found or empty, never failed ones) in at most max_bytes of memory, the
 * least recently used leaving first; 0, as at the start, keeps none. Forgets what is
 * kept. Since 0.1. */
SR1_API sr1_status sr1_search_set_cache(sr1_search *engine, uint64_t max_bytes);

/* Spread batches over this many threads, the caller's included (0: one a processor; 1, as
 * at the start: none). No effect on engines without SR1_SEARCH_THREADS. Since 0.1. */
SR1_API sr1_status sr1_search_set_threads(sr1_search *engine, int32_t threads);

/* Ask n queries (UTF-8, NUL-terminated; n may be 0) for top_k hits each (1 to
 * SR1_SEARCH_TOP_K_MAX). A query that is NULL, blank or not UTF-8 is not sent: it ends
 * SR1_SEARCH_EMPTY with the message "No information found". A failing engine makes the
 * whole call fail with an error that names it (SR1_E_CALLBACK for engines from
 * sr1_search_new). Caller frees *out with sr1_search_results_free. Since 0.1. */
SR1_API sr1_status sr1_search_run(sr1_search *engine, const char *const *queries,
                                  size_t n, int32_t top_k, sr1_search_results **out);

/* ---- results ---- */

/* Strings are borrowed until the results are freed. */
typedef struct sr1_search_hit {
    size_t struct_size;   /* set by the caller */
    const char *id;       /* of the document */
    const char *contents; /* its text; a Search-R1 corpus has "Title", newline, text */
    const char *row; /* the document's JSON object where the engine has one, else NULL */
    double score;    /* higher is better; comparable within one engine only */
} sr1_search_hit;

/* Number of queries asked. Since 0.1. */
SR1_API size_t sr1_search_results_count(const sr1_search_results *results);

/* SR1_SEARCH_OK, _EMPTY, _TIMEOUT or _ERROR; SR1_SEARCH_ERROR for a query out of range.
 * Since 0.1. */
SR1_API int32_t sr1_search_results_status(const sr1_search_results *results,
                                          size_t query);

/* "" for SR1_SEARCH_OK; "No information found for: QUERY" (or what the engine said) for
 * _EMPTY; the cause for the others. Never NULL. Borrowed until the results are freed.
 * Since 0.1. */
SR1_API const char *sr1_search_results_message(const sr1_search_results *results,
                                               size_t query);

/* Hits of a query; 0 for a query out of range. Since 0.1. */
SR1_API int32_t sr1_search_results_hit_count(const sr1_search_results *results,
                                             size_t query);

/* Fill *hit (struct_size set) with hit k of a query, best first. Returns SR1_E_NOT_FOUND
 * when there is no such hit. Since 0.1. */
SR1_API sr1_status sr1_search_results_hit(const sr1_search_results *results, size_t query,
                                          int32_t k, sr1_search_hit *hit);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_search_results_free(sr1_search_results *results);

/* Counts since the engine was opened. */
typedef struct sr1_search_counters {
    size_t struct_size; /* set by the caller */
    int64_t queries;    /* asked of sr1_search_run */
    int64_t blank;      /* of these: not sent, blank or not UTF-8 */
    int64_t duplicates; /* of these: repeated within one batch */
    int64_t cache_hits; /* of these: answered from the cache */
    int64_t sent;       /* of these: sent to the engine */
    int64_t failed;     /* of the sent: TIMEOUT, ERROR, or in a batch that failed */
    int64_t requests;   /* HTTP requests made, retries among them */
    int64_t retries;    /* of these: made again after a failure */
    int64_t rate_waits; /* of these: had to wait for the rate limit */
    int64_t refused;    /* requests not made: the service had failed too often in a row */
    int64_t disk_hits;  /* queries answered from a disk cache */
    int64_t disk_stale; /* of these: with an answer past its time, the search failed */
    int64_t fallbacks;  /* queries a chain passed on to its next engine, or a hybrid
                           answered without one of its engines */
} sr1_search_counters;

/* Fill *out (struct_size set). Since 0.1. */
SR1_API sr1_status sr1_search_counters_get(const sr1_search *engine,
                                           sr1_search_counters *out);

/* ---- the mock engine ---- */

/* An engine over n (keyword, information) pairs, for tests: the information of the first
 * pair whose keyword occurs in the query, compared without case, is the one hit (its id
 * is the keyword, its score 1). Strings are copied. Returns SR1_E_INVALID for an empty
 * keyword. Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_mock(sr1_search **out, const char *const *keywords,
                                        const char *const *information, size_t n);

/* The same from a JSON file {"keyword": "information", ...}, pairs in the order of the
 * file. Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_mock_file(sr1_search **out, const char *path);

/* ---- BM25 ---- */

/* score = sum over the query's distinct terms of
 *     qtf * ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * len /
 * avglen)) with Lucene's one-byte document lengths. Documents of equal score are in
 * corpus order. */

typedef struct sr1_bm25_build_options {
    size_t struct_size;   /* set by sr1_bm25_build_options_init */
    const char *analyzer; /* "english" (as Lucene's EnglishAnalyzer; the default), "plain"
                             (words of any language, case folded) or "cjk" (as plain, but
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
} sr1_bm25_build_options;

/* Set the fields above to their defaults. Fields that later versions append are set by
 * the caller, with struct_size. Since 0.1. */
SR1_API void sr1_bm25_build_options_init(sr1_bm25_build_options *options);

/* Called now and then during a build: bytes of the corpus read, of all, and documents so
 * far. The last call has done == total. A value other than 0 stops the build. */
typedef int32_t (*sr1_bm25_progress_fn)(void *user, uint64_t done, uint64_t total,
                                        uint64_t documents);

/* Index a Search-R1 corpus: one JSON object a line, {"id": string or integer, "contents":
 * string, ...}; further members are kept in the stored row. Blank lines are skipped; ids
 * are not checked for repetition. The index is one file, replaced whole at the end: after
 * any failure (SR1_E_CANCELLED when progress stopped it) an old one stands as it was.
 * options and progress may be NULL. Since 0.1. */
SR1_API sr1_status sr1_bm25_build(const char *corpus_path, const char *index_path,
                                  const sr1_bm25_build_options *options,
                                  sr1_bm25_progress_fn progress, void *user);

typedef struct sr1_bm25_options {
    size_t struct_size; /* set by sr1_bm25_options_init */
    double k1;          /* >= 0; default 0.9 */
    double b;           /* 0 to 1; default 0.4 */
} sr1_bm25_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_bm25_options_init(sr1_bm25_options *options);

/* Open an index. The file is mapped, not read: many processes can share it, and it may be
 * replaced while open. Returns SR1_E_CORRUPT for no index or one that was cut,
 * SR1_E_UNSUPPORTED for one of another format version. Damage further in is found when a
 * search comes upon it (SR1_E_CORRUPT), or by sr1_bm25_verify. options may be NULL.
 * Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_bm25(sr1_search **out, const char *path,
                                        const sr1_bm25_options *options);

/* Read a whole index once and compare its checksums: SR1_OK, or SR1_E_CORRUPT with the
 * section that any changed byte is in. Since 0.1. */
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

/* Fill *out (struct_size set). Returns SR1_E_INVALID when engine is not a BM25 engine.
 * Since 0.1. */
SR1_API sr1_status sr1_bm25_info_get(const sr1_search *engine, sr1_bm25_info *out);

/* ---- engines behind HTTP ---- */

/* For remote and web engines alike. Requests wait for their turn (concurrency, rate),
 * are tried again after failures that may pass (no connection, no answer in time, HTTP
 * 408, 425, 429, 500, 502, 503, 504), after a wait that doubles from retry_first_s to
 * retry_max_s, or as long as a server's Retry-After asks for. After breaker_failures
 * failures in a row the service is left alone for breaker_rest_s, then tried with one
 * request. Certificates are verified; redirects are refused; proxies of the environment
 * are not used.
 *
 * A query whose request fails in the end is SR1_SEARCH_TIMEOUT or SR1_SEARCH_ERROR with
 * the cause as its message, never SR1_SEARCH_EMPTY. */
typedef struct sr1_search_http_options {
    size_t struct_size;       /* set by sr1_search_http_options_init */
    double timeout_s;         /* of one attempt; default 30 */
    double connect_timeout_s; /* default 5 */
    int32_t retries;          /* after the first attempt; default 3 */
    double retry_first_s;     /* default 0.5 */
    double retry_max_s;       /* default 20 */
    double retry_after_max_s; /* longer Retry-After: no retry; default 60 */
    int32_t concurrency;      /* requests under way at once; default 16 */
    double rate_limit;        /* attempts a second, evenly spaced; default 0: no limit */
    int32_t breaker_failures; /* default 10; 0: no breaker */
    double breaker_rest_s;    /* default 10 */
    uint64_t max_body_bytes;  /* of one answer; default 64 MiB */
    const char *key_env;      /* the environment variable with the key; NULL, the default:
                                 the provider's own (web), no key (remote) */
    const char *ca_file;      /* PEM file of certificates to trust in place of the
                                 system's; NULL, the default: the system's */
    uint64_t seed;            /* of the jitter of waits; default 0 */
    int32_t probe;            /* remote: 1, the default: ask once at opening */
    const char *url;          /* web: the address to ask in place of the provider's own;
                                 needed for searxng ("http://localhost:8888/search") */
    const char *engine_id;    /* web: Google's "cx", needed for google */
} sr1_search_http_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_search_http_options_init(sr1_search_http_options *options);

/* An engine over a server of Search-R1's protocol: POST url {"queries": [...], "topk": k,
 * "return_scores": true}; a batch is one request. All answers known of such servers are
 * read: documents with and without scores, as objects or as texts (docs/search.md). A
 * key is sent as "Authorization: Bearer". options may be NULL. Returns what the probe met
 * (SR1_E_NETWORK, SR1_E_TIMEOUT, SR1_E_PARSE), SR1_E_INVALID for what is no http or https
 * URL, SR1_E_CONFIG for a key_env that is not set. url is copied. Caller frees with
 * sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_remote(sr1_search **out, const char *url,
                                          const sr1_search_http_options *options);

/* An engine over a web search service: "serper", "serpapi", "brave", "google" (Custom
 * Search), "searxng" or "tavily". A query is one request. A hit's id is its URL, its
 * contents "title" in quotes, newline, what the service shows of the page; an answer box
 * comes first. The key is read from options->key_env, by default SERPER_API_KEY,
 * SERPAPI_API_KEY, BRAVE_API_KEY, GOOGLE_API_KEY, TAVILY_API_KEY; it appears in no
 * message. options may be NULL. Returns SR1_E_NOT_FOUND for another provider,
 * SR1_E_CONFIG for a key, url or engine_id that is missing. Nothing is sent at opening.
 * Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_web(sr1_search **out, const char *provider,
                                       const sr1_search_http_options *options);

/* Name of web provider i, NULL past the last. Static. Since 0.1. */
SR1_API const char *sr1_search_web_provider(size_t i);

/* ---- engines over other engines ---- */

/* Ask engines[0]; the queries that end TIMEOUT or ERROR there are asked of engines[1],
 * and so on; a query keeps what the last of them said. An answer without hits is an
 * answer. The engines (n >= 1) are retained. Caller frees with sr1_search_free.
 * Since 0.1. */
SR1_API sr1_status sr1_search_open_chain(sr1_search **out, sr1_search *const *engines,
                                         size_t n);

typedef struct sr1_disk_cache_options {
    size_t struct_size; /* set by sr1_disk_cache_options_init */
    double ttl_s;       /* answers younger than this are given without asking; default
                           86400 (a day) */
    uint64_t max_bytes; /* of the file; the oldest answers leave; default 1 GiB */
    const char *scope;  /* answers are shared by engines of equal name and scope; NULL,
                           the default: "" */
    int32_t use_stale;  /* 1, the default: an older answer is given when the engine
                           fails */
} sr1_disk_cache_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_disk_cache_options_init(sr1_disk_cache_options *options);

/* Put a cache in front of an engine (retained): answers, found or empty, never failures,
 * are kept in a file in this folder (made where it is missing). Several processes may
 * share a folder. A damaged entry counts as missing. options may be NULL. Caller frees
 * with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_disk_cache(sr1_search **out, sr1_search *engine,
                                              const char *folder,
                                              const sr1_disk_cache_options *options);

typedef struct sr1_hybrid_options {
    size_t struct_size; /* set by sr1_hybrid_options_init */
    double rrf_k;       /* >= 0; the larger, the less the first ranks count; default 60 */
    int32_t depth;      /* hits taken of each engine, or top_k where that is more; default
                           100 */
    int32_t reserved;   /* not read */
} sr1_hybrid_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_hybrid_options_init(sr1_hybrid_options *options);

/* Several engines (1 to 16, retained) as one, by reciprocal-rank fusion (Cormack, Clarke,
 * Buettcher 2009):
 *
 *     score(d) = sum over the engines i that found d of  weights[i] / (rrf_k + rank_i(d))
 *
 * Ranks begin at 1. Documents are the same when their ids are; contents and row are those
 * of the first engine that found one. Equal scores: as met, engine by engine. weights[n]
 * (above 0; copied) may be NULL: all 1. Engines with SR1_SEARCH_WAITS are asked side by
 * side, the others meanwhile one after another. A query that fails in one engine is
 * answered from the others (counted in fallbacks, logged); it fails where no engine found
 * anything and one failed, for then nothing is known. Caller frees with sr1_search_free.
 * Since 0.1. */
SR1_API sr1_status sr1_search_open_hybrid(sr1_search **out, sr1_search *const *engines,
                                          const double *weights, size_t n,
                                          const sr1_hybrid_options *options);

typedef struct sr1_rerank_options {
    size_t struct_size; /* set by sr1_rerank_options_init */
    int32_t depth;      /* hits taken of the engine, or top_k where that is more; default
                           50 */
    int32_t reserved;   /* not read */
} sr1_rerank_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_rerank_options_init(sr1_rerank_options *options);

/* Put the best hits of an engine in the order of a reranker (both retained), which reads
 * query and contents together; the scores are the reranker's. Equal scores stay in the
 * engine's order. A query that the reranker fails on ends SR1_SEARCH_ERROR. Caller frees
 * with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_rerank(sr1_search **out, sr1_search *engine,
                                          sr1_reranker *reranker,
                                          const sr1_rerank_options *options);

/* ---- dense vectors ---- */

/* A dense index holds a vector for each document. A search embeds its queries and takes
 * the inner product with every vector: the top_k are exact, those of equal score in the
 * order of the corpus. */

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
} sr1_dense_build_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_dense_build_options_init(sr1_dense_build_options *options);

/* Called after each batch: bytes of the corpus read, of all, documents so far, and how
 * many of them had their vectors from a build that was stopped. The last call has done ==
 * total. A value other than 0 stops the build. */
typedef int32_t (*sr1_dense_progress_fn)(void *user, uint64_t done, uint64_t total,
                                         uint64_t documents, uint64_t resumed);

/* Embed a Search-R1 corpus (as sr1_bm25_build reads it), contents by contents, as
 * SR1_EMBED_DOCUMENT. The index is one file, replaced whole at the end. Vectors that are
 * done wait in INDEX.part: after a failure, a kill or SR1_E_CANCELLED the same call goes
 * on after the last whole batch; with another corpus, embedder name, dim, dtype or
 * text_format it begins anew. Memory: a batch of texts (at most 8 MiB and one row) and of
 * vectors, and some 2 MiB. Disk: the vectors once besides the index. SR1_E_STATE: another
 * process builds this index. options and progress may be NULL. Since 0.1. */
SR1_API sr1_status sr1_dense_build(const char *corpus_path, const char *index_path,
                                   sr1_embedder *embedder,
                                   const sr1_dense_build_options *options,
                                   sr1_dense_progress_fn progress, void *user);

/* The same from vectors that were made elsewhere: a file of n rows of dim little-endian
 * fp32 numbers and nothing else, in the order of the corpus (Search-R1's emb_*.memmap).
 * Returns SR1_E_PARSE when its size does not fit the corpus, SR1_E_NUMERIC for a number
 * that is not finite. It is not resumed. Since 0.1. */
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

/* embedder may be NULL: then dim says how long vectors are. options may be NULL. Since
 * 0.1. */
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
} sr1_dense_options;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_dense_options_init(sr1_dense_options *options);

/* Open an index. The file is mapped, not read: many processes can share it, and it may be
 * replaced while open; a search goes through all its vectors, so they should fit in
 * memory (sr1_dense_info_read). With a device all vectors are copied there, once; the
 * file stays mapped. embedder is retained; a batch of queries is one call of it. Returns
 * SR1_E_INVALID when its vectors have another length or the device's name is none,
 * SR1_E_CORRUPT for no index or one that was cut, SR1_E_UNSUPPORTED for one of another
 * format version, SR1_E_DEVICE for a device that is not there, SR1_E_DEVICE_NOMEM where
 * the index needs more of its memory than is free. Damage further in is found when a
 * search comes upon it or vectors go to a device (SR1_E_CORRUPT), or by
 * sr1_dense_verify. options may be NULL. Threads: any may search; on a device they take
 * turns. Caller frees with sr1_search_free. Since 0.1. */
SR1_API sr1_status sr1_search_open_dense(sr1_search **out, const char *path,
                                         sr1_embedder *embedder,
                                         const sr1_dense_options *options);

/* As sr1_bm25_verify. Since 0.1. */
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

/* Fill *out (struct_size set). Returns SR1_E_INVALID when engine is not a dense engine.
 * Since 0.1. */
SR1_API sr1_status sr1_dense_info_get(const sr1_search *engine, sr1_dense_info *out);

/* The same of a file, without loading it: its first and last bytes alone are read.
 * Since 0.1. */
SR1_API sr1_status sr1_dense_info_read(const char *path, sr1_dense_info *out);

/* The name of the embedder that an index was made with: what to open for its queries. ""
 * when it is not known. Caller frees with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_dense_embedder_name(const char *path, char **out);

#ifdef __cplusplus
}
#endif
#endif
