/* search/engine.h - what built-in engines and tests need beyond searchr1/search.h. */
#ifndef SR1__SEARCH_ENGINE_H
#define SR1__SEARCH_ENGINE_H

#include <searchr1/search.h>

#include "base/error.h"

/* sr1_search_new for an engine of the library: its statuses are passed on as they are. */
sr1_status sr1__search_new_builtin(sr1_search **out, const sr1_search_ops *ops,
                                   void *self);

/* What its ops say: SR1_SEARCH_CONCURRENT, ... */
int32_t sr1__search_flags(const sr1_search *engine);
/* SR1_SEARCH_WAITS and _THREADS if it has them: what an engine over this one has to say
 * of itself. */
int32_t sr1__search_waits(const sr1_search *engine);

/* What the engine adds to sr1_search_counters_get. Before the engine is shared. */
typedef void sr1__search_count_fn(const void *self, sr1_search_counters *counters);
void sr1__search_set_count(sr1_search *engine, sr1__search_count_fn *count);

/* Add to *counters what an engine inside another has counted beyond queries. */
void sr1__search_count_inner(const sr1_search *inner, sr1_search_counters *counters);

/* Is it no engine's failure, so that another attempt or engine would not help? */
int sr1__search_is_fatal(sr1_status status);

/* sr1_search_run in which an engine that fails as a whole fails each query, with its
 * error as message. Still returned are failures that are fatal: no memory, wrong
 * arguments, stopped on request. */
sr1_status sr1__search_run_each(sr1_search *engine, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_results **out);

/* Is it SR1_SEARCH_TIMEOUT or _ERROR: is nothing known of what was asked? */
static inline int32_t sr1__search_is_failure(int32_t status)
{
    return status == SR1_SEARCH_TIMEOUT || status == SR1_SEARCH_ERROR;
}
/* Did the query end so? */
int32_t sr1__search_failed(const sr1_search_results *results, size_t query);

/* Give the sink's query i what query j of these results has: hits, status, message. */
sr1_status sr1__search_pass_on(sr1_search_sink *sink, size_t i,
                               const sr1_search_results *results, size_t j);

/* self when the engine was made with this search function, else NULL. */
void *sr1__search_self(const sr1_search *engine,
                       sr1_status (*search)(void *, const char *const *, size_t, int32_t,
                                            sr1_search_sink *));

#endif
