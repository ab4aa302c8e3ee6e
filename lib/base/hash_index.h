/* base/hash_index.h - finds elements of the caller's array by a hash of theirs. The array
 * and the comparison of elements are the caller's:
 *
 *     struct sr1__hash_probe p = {hash};
 *
 *     while (sr1__hash_index_next(&x, &p))
 *         if (strcmp(items[p.item].id, id) == 0)
 *             return &items[p.item];
 *
 * Elements cannot be taken out again. */
#ifndef SR1__BASE_HASH_INDEX_H
#define SR1__BASE_HASH_INDEX_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
struct sr1__hash_index {
    struct sr1__hash_slot *slots; /* open addressing */
    size_t n_slots;               /* a power of two, or 0 */
    size_t n;
};

struct sr1__hash_probe {
    uint64_t hash;
    size_t tried; /* slots; 0 at first */
    size_t item;  /* found */
};

/* Step to the next element with the probe's hash; 0: there is none. */
int sr1__hash_index_next(const struct sr1__hash_index *x, struct sr1__hash_probe *p);

/* Room for one more: the next sr1__hash_index_add cannot fail for want of memory. */
sr1_status sr1__hash_index_reserve(struct sr1__hash_index *x);

/* Add element `item`, which is below 2^32 - 1, also where others have its hash. */
sr1_status sr1__hash_index_add(struct sr1__hash_index *x, uint64_t hash, size_t item);

void sr1__hash_index_free(struct sr1__hash_index *x); /* leaves it empty, reusable */

#endif
