/* base/team.h - threads for loops of microseconds, many in a row.
 *
 * A waiting thread looks for work for some microseconds before it sleeps, and less when
 * that was in vain. The caller waits only for iterations that others have begun: a thread
 * that the system does not let run costs nothing but its help. For loops that are longer,
 * or may fail, see base/pool.h. */
#ifndef SR1__BASE_TEAM_H
#define SR1__BASE_TEAM_H

#include "base/error.h"

struct sr1__team;

/* n_threads counts the calling thread; 0: processors online. */
sr1_status sr1__team_new(struct sr1__team **out, int32_t n_threads);
void sr1__team_free(struct sr1__team *t); /* NULL is fine */
int32_t sr1__team_threads(const struct sr1__team *t);

/* Call fn(arg, i, thread) for i in [0, n), n < 2^32 - 1, in any order; thread, from 0 to
 * threads - 1, is for scratch of its own. Returns when all have returned. One caller at a
 * time, and not from within fn. t NULL: inline. */
typedef void (*sr1__team_fn)(void *arg, size_t i, int32_t thread);
void sr1__team_run(struct sr1__team *t, size_t n, sr1__team_fn fn, void *arg);

#endif
