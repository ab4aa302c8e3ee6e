/* base/pool.h - a fixed pool of threads for loops whose iterations are independent. */
#ifndef SR1__BASE_POOL_H
#define SR1__BASE_POOL_H

#include "base/error.h"

struct sr1__pool;

/* n_threads counts the calling thread; 1 makes every call run inline; 0: processors
 * online. */
sr1_status sr1__pool_new(struct sr1__pool **out, int32_t n_threads);
/* The same; each thread but the caller's calls begin(arg) before anything else. arg is
 * borrowed until the pool is freed. */
sr1_status sr1__pool_new_begun(struct sr1__pool **out, int32_t n_threads,
                               void (*begin)(void *arg), void *arg);
void sr1__pool_free(struct sr1__pool *p);
int32_t sr1__pool_threads(const struct sr1__pool *p);

/* Call fn(arg, i) for i in [0, n), in any order, on all threads; the caller takes part.
 * Returns when all have run or, after a failure, when those begun have ended; the status
 * is that of the failed call with the lowest i among those that ran. Waiting threads
 * sleep. p NULL: inline; so runs a loop within a loop of the same pool, also where loops
 * of other pools lie between them. */
typedef sr1_status (*sr1__pool_fn)(void *arg, size_t i);
sr1_status sr1__pool_run(struct sr1__pool *p, size_t n, sr1__pool_fn fn, void *arg);

#endif
