/* dist/shard.h - the numbers of several tensors, counted through, of which each rank owns
 * a range.
 *
 * Ranges are as equal as their bounds allow: in a tensor a bound is a multiple of `chunk`
 * from its beginning, or its end. */
#ifndef SR1__DIST_SHARD_H
#define SR1__DIST_SHARD_H

#include "dist/dist.h"

struct sr1__shards {
    int32_t rank, ranks;
    size_t n;        /* tensors */
    int64_t *starts; /* [n + 1]: how many numbers come before each */
    int64_t *bounds; /* [ranks + 1]: rank r owns [bounds[r], bounds[r + 1]) */
};

/* Of n tensors with so many numbers, for the ranks of d. */
sr1_status sr1__shards_new(struct sr1__shards **out, const struct sr1__dist *d,
                           const int64_t *sizes, size_t n, int64_t chunk);
void sr1__shards_free(struct sr1__shards *s); /* NULL is fine */

/* How many numbers of tensor i this rank owns, and the first of them. */
int64_t sr1__shards_own(const struct sr1__shards *s, size_t i, int64_t *from);

/* tensors[i] of all ranks, whole, of any type (NULL: zeros), are added in the order of
 * ranks, in fp32; each rank gets the part that it owns: sums[i], flat, fp32 (NULL: it is
 * not wanted). The bits do not depend on the network, nor on who owns what. */
sr1_status sr1__shards_sum(struct sr1__dist *d, const struct sr1__shards *s,
                           sr1_tensor *const *tensors, sr1_tensor *const *sums);

/* What each rank has in its own part of tensors[i], whole ones, into those of all; dtype
 * is that of the exchange. */
sr1_status sr1__shards_gather(struct sr1__dist *d, const struct sr1__shards *s,
                              sr1_tensor *const *tensors, int32_t dtype);

#endif
