/* policy/query_copies.h - numbers the questions that a step asks more than once: uses of
 * a row (key train_weights), rows of one id, a caller's. Each is a group of its own, with
 * random streams of its own (sr1_query.copy). */
#ifndef SR1__POLICY_QUERY_COPIES_H
#define SR1__POLICY_QUERY_COPIES_H

#include "base/hash_index.h"

#include <searchr1/rollout.h>

/* The questions of a step so far; zeroed it has none. */
struct sr1__query_copies {
    struct sr1__hash_index index;
    struct sr1__asked_query *asked; /* [n] */
    size_t n, cap;
};

/* Count queries[n] in, whose struct_size is that of this library, and set the copy of
 * each. */
sr1_status sr1__query_copies_number(struct sr1__query_copies *c, sr1_query *queries,
                                    size_t n);
void sr1__query_copies_free(struct sr1__query_copies *c); /* leaves it empty */

#endif
