/* code/results.h - what came of checks, kept by key in memory or on disk. */
#ifndef SR1__CODE_RESULTS_H
#define SR1__CODE_RESULTS_H

#include "base/buf.h"

struct sr1__results;

/* folder NULL: in memory, of at most so many entries (0: nothing is kept). Any number of
 * threads. */
sr1_status sr1__results_new(struct sr1__results **out, const char *folder,
                            int64_t entries);
void sr1__results_free(struct sr1__results *r); /* NULL is fine */

/* Append what is kept under a key to *value: 1, or 0 when there is nothing. */
int sr1__results_get(struct sr1__results *r, const struct sr1__buf *key,
                     struct sr1__buf *value);
/* Keep a value. Does nothing where it cannot: a cache is a help, not a promise. */
void sr1__results_put(struct sr1__results *r, const struct sr1__buf *key,
                      const struct sr1__buf *value);

#endif
