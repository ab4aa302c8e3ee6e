/* environment/trajectory/trajectory_store.h - an ordered collection of trajectories that
 * keeps at most a stated number of bytes in memory; those beyond lie encoded in one
 * unlinked file, so nothing is left behind however the process ends. One thread at a
 * time. */
#ifndef SR1__TRAJECTORY_TRAJECTORY_STORE_H
#define SR1__TRAJECTORY_TRAJECTORY_STORE_H

#include "base/error.h"

#include <searchr1/trajectory.h>

struct sr1__trajectory_store;

/* max_bytes 0: everything goes to disk. folder (must exist, copied) holds the spill file,
 * which is made when first needed. NULL: memory is not bounded. */
sr1_status sr1__trajectory_store_new(struct sr1__trajectory_store **out,
                                     int64_t max_bytes, const char *folder);
void sr1__trajectory_store_free(struct sr1__trajectory_store *s); /* NULL is fine */

/* Append t as it is now; the store takes its own reference or writes it to disk. */
sr1_status sr1__trajectory_store_add(struct sr1__trajectory_store *s, sr1_trajectory *t);

/* Number i as a new reference; free with sr1_trajectory_free. A spilled one is read back,
 * equal bit for bit, into an object of its own. */
sr1_status sr1__trajectory_store_get(struct sr1__trajectory_store *s, size_t i,
                                     sr1_trajectory **out);

size_t sr1__trajectory_store_count(const struct sr1__trajectory_store *s);
size_t sr1__trajectory_store_spilled(const struct sr1__trajectory_store *s);
int64_t
sr1__trajectory_store_memory(const struct sr1__trajectory_store *s); /* bytes held */

/* The numbers of trajectory i that batching needs without reading it: tokens before the
 * last policy token, and policy tokens. */
void sr1__trajectory_store_lengths(const struct sr1__trajectory_store *s, size_t i,
                                   size_t *packed, size_t *policy);

/* sr1_trajectory_prompt_count of number i, likewise. */
size_t sr1__trajectory_store_prompt(const struct sr1__trajectory_store *s, size_t i);

/* sr1__trajectory_has_zero_advantage of number i, likewise. */
int32_t sr1__trajectory_store_zero_advantage(const struct sr1__trajectory_store *s,
                                             size_t i);

/* sr1_trajectory_group_key of number i, likewise. */
uint64_t sr1__trajectory_store_group(const struct sr1__trajectory_store *s, size_t i);

#endif
