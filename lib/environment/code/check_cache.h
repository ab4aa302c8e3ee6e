/* environment/code/check_cache.h - outcomes of checks by key, cached in memory or on
 * disk. */
#ifndef SR1__CODE_CHECK_CACHE_H
#define SR1__CODE_CHECK_CACHE_H

#include "base/buf.h"

struct sr1__check_cache;

/* folder NULL: in memory, of at most so many entries (0: nothing is kept). Any number of
 * threads. */
sr1_status sr1__check_cache_new(struct sr1__check_cache **out, const char *folder,
                                int64_t entries);
void sr1__check_cache_free(struct sr1__check_cache *r); /* NULL is fine */

/* Append the value of a key to *value: 1, or 0 if there is none. */
int sr1__check_cache_get(struct sr1__check_cache *r, const struct sr1__buf *key,
                         struct sr1__buf *value);
/* Keep a value. Does nothing where it cannot: a cache is a help, not a promise. */
void sr1__check_cache_put(struct sr1__check_cache *r, const struct sr1__buf *key,
                          const struct sr1__buf *value);

#endif
