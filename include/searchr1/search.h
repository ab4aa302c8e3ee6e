/* searchr1/search.h - search engines: ask a batch of queries, read the hits.
 *
 * An engine is a sr1_search handle. sr1_search_open opens the one that a configuration
 * names; searchr1/ext/engines.h, bm25.h and dense.h open built-in engines one by one and
 * build their indexes; sr1_search_new makes an engine of the caller's functions. All are
 * used through sr1_search_run, which asks each distinct query once, answers repeated ones
 * from a cache where one is set, and spreads a batch over threads for engines that allow
 * it.
 *
 *     sr1_search *engine = NULL;
 *     sr1_search_results *found = NULL;
 *     const char *queries[] = {"Where is the Eiffel Tower?"};
 *     sr1_search_hit hit = {sizeof(hit)};
 *
 *     if (sr1_config_set(config, "search_engine", "bm25") == SR1_OK &&
 *         sr1_config_set(config, "search_index", "corpus.bm25") == SR1_OK &&
 *         sr1_search_open(&engine, config) == SR1_OK &&
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

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_search sr1_search;
typedef struct sr1_search_sink sr1_search_sink;
typedef struct sr1_search_results sr1_search_results;
typedef struct sr1_config sr1_config; /* searchr1/config.h */

/* How one query ended. */
enum {
    SR1_ACTION_OK = 0,      /* at least one hit */
    SR1_ACTION_EMPTY = 1,   /* the engine answered: nothing found */
    SR1_ACTION_TIMEOUT = 2, /* no answer in time */
    SR1_ACTION_ERROR = 3    /* the engine or the way to it failed; nothing is known */
};

/* Most hits one query can ask for. */
#define SR1_SEARCH_TOP_K_MAX 10000

/* ---- built-in engines ---- */

/* Open the search engine that a configuration names (keys search_engine, search_index,
 * mock_knowledge, ...). Caller frees with sr1_search_free. SR1_E_CONFIG: the engine is
 * "none", or a key that it needs is not set. */
SR1_API sr1_status sr1_search_open(sr1_search **out, const sr1_config *config);

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
     * configuration's search_deadline is given up and its queries end SR1_ACTION_TIMEOUT
     */
    SR1_SEARCH_WAITS = 4
};

typedef struct sr1_search_ops {
    size_t struct_size; /* sizeof(sr1_search_ops) */
    const char *name;   /* for messages; copied */
    /* Answer queries[0..n) with at most top_k hits each, best first, through the sink.
     * The queries are UTF-8, distinct and not blank; they and the sink are borrowed for
     * the call. A query left without a hit and status is SR1_ACTION_EMPTY. Anything but
     * SR1_OK fails the whole batch; explain with sr1_set_error. In a rollout the queries
     * are then asked one by one, and those that fail are treated as the key
     * search_failure says; SR1_E_TIMEOUT counts as a time-out; SR1_E_CANCELLED,
     * SR1_E_CONFIG and SR1_E_NOMEM end the rollout. May be called from any thread. */
    sr1_status (*search)(void *self, const char *const *queries, size_t n, int32_t top_k,
                         sr1_search_sink *sink);
    /* May be NULL; called once, when the last reference goes. */
    void (*destroy)(void *self);
    int32_t flags; /* SR1_SEARCH_CONCURRENT, _THREADS, _WAITS together, or 0 */
    /* What its answers depend on, in any words: a collection, a version. Disk caches tell
     * engines of one name apart by it (sr1_search_open_disk_cache); NULL: not known.
     * Copied */
    const char *identity;
} sr1_search_ops;

/* Make an engine of the caller's functions. ops is copied; on success the engine owns
 * self and calls ops->destroy with it at the end. SR1_E_INVALID: ops lacks a required
 * member. Caller frees with sr1_search_free. */
SR1_API sr1_status sr1_search_new(sr1_search **out, const sr1_search_ops *ops,
                                  void *self);

/* From inside ops->search: add the next hit of a query, an index into that call's
 * queries. id and contents are copied; bytes that are not UTF-8 become U+FFFD; id ""
 * means that the document has none. Hits beyond top_k are dropped. SR1_E_INVALID: the
 * index is out of range, a string is NULL, or the score is not finite. SR1_E_LIMIT: the
 * query has more than 64 MiB of text. */
SR1_API sr1_status sr1_search_sink_hit(sr1_search_sink *sink, size_t query,
                                       const char *id, const char *contents,
                                       double score);

/* From inside ops->search: set how a query ended, SR1_ACTION_*, with a message (copied;
 * may be NULL). SR1_ACTION_TIMEOUT and SR1_ACTION_ERROR drop the hits of the query.
 * SR1_E_INVALID: the index is out of range, or the status is unknown. */
SR1_API sr1_status sr1_search_sink_status(sr1_search_sink *sink, size_t query,
                                          int32_t status, const char *message);

/* ---- using an engine ---- */

/* Take one more reference. Returns engine; NULL for NULL. */
SR1_API sr1_search *sr1_search_retain(sr1_search *engine);

/* Drop one reference; the last one frees the engine. NULL is fine. */
SR1_API void sr1_search_free(sr1_search *engine);

/* Return the engine's name. Borrowed until the engine is freed. */
SR1_API const char *sr1_search_name(const sr1_search *engine);

/* Cache results, found or empty but never failed ones, in at most max_bytes of memory;
 * the least recently used leave first. 0, the initial state, caches nothing. Each call
 * empties the cache. */
SR1_API sr1_status sr1_search_set_cache(sr1_search *engine, uint64_t max_bytes);

/* Spread batches over this many threads, the caller's included: 0 means one a processor;
 * 1, the initial state, none. Engines without SR1_SEARCH_THREADS ignore it. Not while
 * another thread searches with the engine. SR1_E_INVALID: threads is out of range. */
SR1_API sr1_status sr1_search_set_threads(sr1_search *engine, int32_t threads);

/* Search for n queries (UTF-8, NUL-terminated; n may be 0), top_k hits each, 1 to
 * SR1_SEARCH_TOP_K_MAX. A query that is NULL, blank or not UTF-8 is not sent; it ends as
 * SR1_ACTION_EMPTY with the message "No information found". When the engine itself fails,
 * the call fails with an error that names the engine; a failure of an engine from
 * sr1_search_new is SR1_E_CALLBACK, unless the engine returned SR1_E_TIMEOUT,
 * SR1_E_CANCELLED, SR1_E_CONFIG or SR1_E_NOMEM. SR1_E_CONFIG: a service refuses its key.
 * Caller frees *out with sr1_search_results_free. */
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

/* Return the number of queries. */
SR1_API size_t sr1_search_results_count(const sr1_search_results *results);

/* Return how a query ended, SR1_ACTION_*; SR1_ACTION_ERROR for a query out of range. */
SR1_API int32_t sr1_search_results_status(const sr1_search_results *results,
                                          size_t query);

/* Return the message of a query: "" for SR1_ACTION_OK; for SR1_ACTION_EMPTY "No
 * information found for: QUERY" or the engine's own words; for the others the cause.
 * Never NULL. Borrowed until the results are freed. */
SR1_API const char *sr1_search_results_message(const sr1_search_results *results,
                                               size_t query);

/* Return the number of hits of a query; 0 for a query out of range. */
SR1_API int32_t sr1_search_results_hit_count(const sr1_search_results *results,
                                             size_t query);

/* Fill *hit (struct_size set) with hit k of a query, best first. SR1_E_NOT_FOUND: there
 * is no such hit. */
SR1_API sr1_status sr1_search_results_hit(const sr1_search_results *results, size_t query,
                                          int32_t k, sr1_search_hit *hit);

/* Free results. NULL is fine. */
SR1_API void sr1_search_results_free(sr1_search_results *results);

#ifdef __cplusplus
}
#endif
#endif
