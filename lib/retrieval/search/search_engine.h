/* retrieval/search/search_engine.h - what built-in engines and tests need beyond
 * searchr1/search.h. */
#ifndef SR1__SEARCH_SEARCH_ENGINE_H
#define SR1__SEARCH_SEARCH_ENGINE_H

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/error.h"

#include <stdatomic.h>

/* sr1_search_new for an engine of the library: its statuses are passed on as they are. */
sr1_status sr1__search_new_builtin(sr1_search **out, const sr1_search_ops *ops,
                                   void *self);

/* What threads ask of one engine. */
struct sr1__search_tally {
    const sr1_search *engine;
    int64_t queries, calls;
};
/* Count into *tally what this thread asks of its engine, until another is set; NULL:
 * none. Returns the one before. */
struct sr1__search_tally *sr1__search_count_into(struct sr1__search_tally *tally);

/* What its ops say: SR1_SEARCH_CONCURRENT, ... */
int32_t sr1__search_flags(const sr1_search *engine);
/* SR1_SEARCH_WAITS and _THREADS if it has them: what an engine over this one has to say
 * of itself. */
int32_t sr1__search_wait_flags(const sr1_search *engine);

/* What the engine adds to sr1_search_counters_get. Before the engine is shared. */
typedef void sr1__search_count_fn(const void *self, sr1_search_counters *counters);
void sr1__search_set_count(sr1_search *engine, sr1__search_count_fn *count);

/* What tells an engine from others of its name: its index, its address, the identity of
 * its ops. 0, the default: nothing does. Before the engine is shared. */
void sr1__search_set_origin(sr1_search *engine, uint64_t origin);
uint64_t sr1__search_origin(const sr1_search *engine);
/* That of an engine over others, with a hash of its options; 0 if one of them has none.
 */
uint64_t sr1__search_origin_of(sr1_search *const *engines, size_t n, uint64_t options);

/* A batch that failed is asked one by one; 1 for the first one of this engine. */
int sr1__search_note_split(sr1_search *engine);

/* Add to *counters what an engine inside another has counted beyond queries. */
void sr1__search_count_inner(const sr1_search *inner, sr1_search_counters *counters);

/* 1 for a status that another engine or attempt would give too: no memory, invalid
 * arguments, cancelled, configuration. */
int sr1__search_is_fatal(sr1_status status);

/* Log when an engine's outage begins and when it ends, not each batch that fails. *out:
 * whether the engine fails, 0 at first; meanwhile: what is done until it answers. */
void sr1__search_tell_outage(atomic_int *out, const sr1_search *engine,
                             const sr1_search_results *found, const char *meanwhile);

/* sr1_search_run in which an engine that fails as a whole fails each query, with its
 * error as message. Still returned are failures that are fatal: no memory, wrong
 * arguments, stopped on request. */
sr1_status sr1__search_run_each(sr1_search *engine, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_results **out);

/* The same where every query is of a row of its own: a batch that fails as a whole is
 * asked once more query by query (not after a time-out or a failure of the network, which
 * are nobody's query), until the engine fails three of them one after another. */
sr1_status sr1__search_run_rows(sr1_search *engine, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_results **out);

/* Is it SR1_ACTION_TIMEOUT or _ERROR: is nothing known of what was asked? */
static inline int32_t sr1__search_is_failure(int32_t status)
{
    return status == SR1_ACTION_TIMEOUT || status == SR1_ACTION_ERROR;
}
/* Did the query end so? */
int32_t sr1__search_failed(const sr1_search_results *results, size_t query);

/* Has hit k no id of its own? What stands there is "", or its rank, which says nothing of
 * other results. */
int32_t sr1__search_hit_unnamed(const sr1_search_results *results, size_t query,
                                int32_t k);
/* Give the sink's query i hit k of query j of these results, with this score. */
sr1_status sr1__search_copy_hit(sr1_search_sink *sink, size_t i,
                                const sr1_search_results *results, size_t j, int32_t k,
                                double score);
/* Give the sink's query i what query j of these results has: hits, status, message. */
sr1_status sr1__search_pass_on(sr1_search_sink *sink, size_t i,
                               const sr1_search_results *results, size_t j);

/* self when the engine was made with this search function, else NULL. */
void *sr1__search_self(const sr1_search *engine,
                       sr1_status (*search)(void *, const char *const *, size_t, int32_t,
                                            sr1_search_sink *));

#endif
