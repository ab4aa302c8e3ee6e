/* searchr1/ext/engines.h - built-in search engines, opened one by one with all their
 * options: services behind HTTP, and engines made of other engines. sr1_search_open opens
 * the same ones by a configuration.
 *
 * Ownership: free an engine with sr1_search_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   an engine as searchr1/search.h says; the other functions share no state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_ENGINES_H
#define SEARCHR1_EXT_ENGINES_H

#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ext/embed.h */
typedef struct sr1_embedder sr1_embedder;
typedef struct sr1_reranker sr1_reranker;

/* Which kind of index is a file, by its first bytes? "BM25", "dense", "FAISS", or NULL:
 * none, or it cannot be read. The functions that build an index replace nothing else than
 * an empty file and an index of their own kind. */
SR1_API const char *sr1_index_kind(const char *path);

/* Open an engine over n pairs (keyword, information), for tests: the first pair whose
 * keyword occurs in the query, in any case, is the only hit; its id is the keyword, its
 * contents the information, its score 1. The strings are copied. SR1_E_INVALID: a keyword
 * is empty. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_mock(sr1_search **out, const char *const *keywords,
                                        const char *const *information, size_t n);

/* Open an engine as sr1_search_open_mock over a JSON file {"keyword": "information",
 * ...}, with the pairs in the order of the file. SR1_E_NOT_FOUND, SR1_E_IO: the file
 * cannot be read. SR1_E_PARSE: it is not an object of texts. Caller frees with
 * sr1_search_free. */
SR1_API sr1_status sr1_search_open_mock_file(sr1_search **out, const char *path);

/* ---- engines behind HTTP ---- */

/* For all engines behind HTTP alike. Requests wait for their turn (concurrency, rate),
 * are tried again after failures that may pass (no connection, no answer in time, HTTP
 * 408, 425, 429, 500, 502, 503, 504), after a wait that doubles from retry_first_s to
 * retry_max_s, or as long as a server's Retry-After asks for. After breaker_failures
 * failures in a row the service is left alone for breaker_rest_s, then tried with one
 * request. Certificates are verified; redirects are refused; proxies of the environment
 * are not used.
 *
 * A query whose request fails in the end is SR1_ACTION_TIMEOUT or SR1_ACTION_ERROR with
 * the cause as its message, never SR1_ACTION_EMPTY. */
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
                                 the provider's own (web), no key (others) */
    const char *ca_file;      /* PEM file of certificates to trust in place of the
                                 system's; NULL, the default: the system's */
    uint64_t seed;            /* of the jitter of waits; default 0 */
    int32_t probe;            /* 1, the default: ask once at opening; not web */
    const char *url;          /* web: the address to ask in place of the provider's own;
                                 needed for searxng ("http://localhost:8888/search") */
    const char *engine_id;    /* web: Google's "cx", needed for google */
    const char *fields;   /* opensearch, qdrant: the fields of a document that make its
                             text, with commas between; NULL, the default: "contents" */
    const char *vector;   /* qdrant: name of the vector; NULL, the default: the
                             collection has one without a name */
    const char *id_field; /* qdrant: the field of a payload that holds the document's
                             id; NULL, the default: the point's id */
} sr1_search_http_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_search_http_options_init(sr1_search_http_options *options);

/* Open an engine over a server of Search-R1's protocol: POST url {"queries": [...],
 * "topk": k, "return_scores": true}; a batch is one request. All known forms of answers
 * are read: documents with and without scores, as objects or as texts (docs/search.md).
 * A key is sent as "Authorization: Bearer". url is copied; options may be NULL.
 * SR1_E_NETWORK, SR1_E_TIMEOUT or SR1_E_PARSE: the probe failed. SR1_E_INVALID: url is
 * no http or https URL. SR1_E_CONFIG: key_env is not set. Caller frees with
 * sr1_search_free. */
SR1_API sr1_status sr1_search_open_remote(sr1_search **out, const char *url,
                                          const sr1_search_http_options *options);

/* Open an engine over an index of OpenSearch or Elasticsearch at url
 * ("http://127.0.0.1:9200/INDEX"): words are matched in options->fields, of one field by
 * a query "match", of several by "multi_match", where "title^2" has twice the weight. A
 * batch is one request, POST INDEX/_msearch; searches that the server puts off, by one of
 * the codes of retries above, are asked again with the retries of a request. A search of
 * which the server failed a part is a failure. The id of a hit is its "_id", its contents
 * are its fields with a line between, its row is "_source". A key with a colon is
 * user:password and sent as "Authorization: Basic", any other as "Authorization: ApiKey".
 * Opening asks whether documents with these fields exist. url is copied; options may be
 * NULL. SR1_E_NETWORK, SR1_E_TIMEOUT or SR1_E_PARSE: no answer to that. SR1_E_CONFIG:
 * there are none; key_env is not set, or refused. SR1_E_INVALID: url is no http or https
 * URL of an index, or fields has no names. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_opensearch(sr1_search **out, const char *url,
                                              const sr1_search_http_options *options);

/* Open an engine over a collection of Qdrant at url
 * ("http://127.0.0.1:6333/collections/NAME"): the embedder (retained) makes the vectors
 * of a batch, one request, POST NAME/points/query/batch, asks for the points nearest to
 * them. The contents of a hit are options->fields of its payload with a line between. A
 * key is sent as "api-key". Where the collection measures a distance (Euclid, Manhattan)
 * a score is that below 0. Opening reads the collection, and compares the size of its
 * vectors with the embedder's. url is copied; options may be NULL. SR1_E_NETWORK,
 * SR1_E_TIMEOUT or SR1_E_PARSE: no answer to that. SR1_E_CONFIG: the collection is empty,
 * its vectors are of another size or name; key_env is not set, or refused. SR1_E_INVALID:
 * url is no http or https URL of a collection, fields has no names, or embedder is NULL.
 * Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_qdrant(sr1_search **out, const char *url,
                                          sr1_embedder *embedder,
                                          const sr1_search_http_options *options);

/* Open an engine over a web search service: "serper", "serpapi", "brave", "google"
 * (Custom Search), "searxng" or "tavily". A query is one request. The id of a hit is its
 * URL; its contents are its title in quotes, a newline, and the service's snippet; an
 * answer box comes first. The key is read from options->key_env, by default
 * SERPER_API_KEY, SERPAPI_API_KEY, BRAVE_API_KEY, GOOGLE_API_KEY or TAVILY_API_KEY, and
 * appears in no message. options may be NULL. Opening sends nothing. SR1_E_NOT_FOUND: the
 * provider is unknown. SR1_E_CONFIG: a key, url or engine_id is missing. Caller frees
 * with sr1_search_free. */
SR1_API sr1_status sr1_search_open_web(sr1_search **out, const char *provider,
                                       const sr1_search_http_options *options);

/* Return the name of web provider i, NULL past the last. Static. */
SR1_API const char *sr1_search_web_provider(size_t i);

/* ---- engines over other engines ---- */

/* Open an engine that tries several engines (n >= 1, retained) in order: queries that end
 * as SR1_ACTION_TIMEOUT or SR1_ACTION_ERROR in engines[0] go to engines[1], and so on. A
 * query keeps the result of the last engine that it went to. An empty result is a result.
 * Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_chain(sr1_search **out, sr1_search *const *engines,
                                         size_t n);

typedef struct sr1_disk_cache_options {
    size_t struct_size; /* set by sr1_disk_cache_options_init */
    double ttl_s;       /* answers younger than this are given without asking; default
                           86400 (a day) */
    uint64_t max_bytes; /* of the file; the oldest answers leave; default 1 GiB */
    const char *scope;  /* answers are shared by engines of equal name and scope; NULL,
                           the default, and "": what the engine searches, its index,
                           address or sr1_search_ops.identity */
    int32_t use_stale;  /* 1, the default: an older answer is given when the engine
                           fails */
} sr1_disk_cache_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_disk_cache_options_init(sr1_disk_cache_options *options);

/* Put a cache in front of an engine (retained): results, found or empty but never failed
 * ones, are kept in a file in this folder, which is made if it is missing. Processes may
 * share a folder. A damaged entry counts as missing. options may be NULL. SR1_E_INVALID:
 * without a scope nothing tells the engine from others of its name: one of the caller's
 * without identity, one over such a one, over an embedder of the caller's, or a reranking
 * one. Caller frees with sr1_search_free. */
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

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_hybrid_options_init(sr1_hybrid_options *options);

/* Open an engine that combines n engines (1 to 16, retained) by reciprocal-rank fusion
 * (Cormack, Clarke, Buettcher 2009):
 *
 *     score(d) = sum over the engines i that found d of  weights[i] / (rrf_k + rank_i(d))
 *
 * Ranks begin at 1. Documents are the same when their ids are; contents and row are those
 * of the first engine that found one. Documents of equal score stay in the order in which
 * they were found, engine by engine. weights [n] (copied, above 0) may be NULL: all 1;
 * options may be NULL. Engines with SR1_SEARCH_WAITS search at the same time, the others
 * one after another. A query that fails in one engine gets the hits of the others
 * (counted in fallbacks, and logged); it fails only when no engine found anything and one
 * failed. SR1_E_INVALID: n is out of range, an engine is NULL, or a weight or an option
 * is out of range. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_hybrid(sr1_search **out, sr1_search *const *engines,
                                          const double *weights, size_t n,
                                          const sr1_hybrid_options *options);

typedef struct sr1_rerank_options {
    size_t struct_size; /* set by sr1_rerank_options_init */
    int32_t depth;      /* hits taken of the engine, or top_k where that is more; default
                           50 */
    int32_t reserved;   /* not read */
} sr1_rerank_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_rerank_options_init(sr1_rerank_options *options);

/* Put the best hits of an engine in the order of a reranker (both retained), which reads
 * query and contents together and gives the scores. Hits of equal score stay in the
 * engine's order. A query that the reranker fails on ends as SR1_ACTION_ERROR. options
 * may be NULL. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_open_rerank(sr1_search **out, sr1_search *engine,
                                          sr1_reranker *reranker,
                                          const sr1_rerank_options *options);

/* ---- rows and counts ---- */

/* From inside ops->search: attach a JSON object (copied) to the query's latest hit, as
 * row of sr1_search_hit. The object of a hit beyond top_k is dropped with the hit.
 * SR1_E_STATE: the query has no hit yet. SR1_E_INVALID: the index is out of range, or row
 * is NULL. */
SR1_API sr1_status sr1_search_sink_row(sr1_search_sink *sink, size_t query,
                                       const char *row);

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
    int64_t calls;      /* of the engine: batches that had something to send */
} sr1_search_counters;

/* Fill *out (struct_size set) with the counts of the engine. */
SR1_API sr1_status sr1_search_counters_get(const sr1_search *engine,
                                           sr1_search_counters *out);

#ifdef __cplusplus
}
#endif
#endif
