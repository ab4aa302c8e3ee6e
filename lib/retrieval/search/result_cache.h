/* retrieval/search/result_cache.h - answers by query and top_k, the least recently used
 * leaving first. */
#ifndef SR1__SEARCH_RESULT_CACHE_H
#define SR1__SEARCH_RESULT_CACHE_H

#include "retrieval/search/query_result.h"

struct sr1__search_cache;

/* Safe to use from several threads. */
sr1_status sr1__search_cache_new(struct sr1__search_cache **out, uint64_t max_bytes);
void sr1__search_cache_free(struct sr1__search_cache *c);

/* A new reference, or NULL. c may be NULL. */
struct sr1__query_result *sr1__search_cache_get(struct sr1__search_cache *c,
                                                const char *query, int32_t top_k);

/* Keep a reference to a. Does nothing when it does not fit, memory is short, or c is
 * NULL: a cache is a help, not a promise. */
void sr1__search_cache_put(struct sr1__search_cache *c, const char *query, int32_t top_k,
                           struct sr1__query_result *a);

#endif
