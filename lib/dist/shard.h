/* dist/shard.h - the numbers of several tensors, counted through, of which each rank owns
 * a part.
 *
 * Tensors stand together in units (a decoder's layers), and a rank owns a range of each
 * unit. Ranges are as equal as their bounds allow, over all units together: in a tensor a
 * bound is a multiple of `chunk` from its beginning, or its end.
 *
 * Ranks may form several groups of equal size, each of which has all parts (HSDP): rank r
 * of the world is number r % ranks of group r / ranks. The owners of one part divide it
 * into pieces while something is added up, so that every rank of the world has its own
 * piece of a sum. With one group a piece is a part. */
#ifndef SR1__DIST_SHARD_H
#define SR1__DIST_SHARD_H

#include "dist/dist.h"
#include "tensor/ops/scope.h"

#define SR1__SHARD_ROUND ((int64_t)1 << 20) /* numbers a rank that travel at once */

/* Processes in their roles. NULL stands for one process alone. Borrowed. */
struct sr1__mesh {
    struct sr1__dist *world;
    struct sr1__dist *group;  /* whose ranks have a part each */
    struct sr1__dist *owners; /* of one part, one of each group */
};

/* What there is to own. */
struct sr1__shard_layout {
    const int64_t *sizes; /* [n] numbers of each tensor */
    size_t n;
    const size_t *ends; /* [n_units]: unit u ends before tensor ends[u]. NULL: one unit */
    size_t n_units;
    int64_t chunk;
};

struct sr1__shards {
    int32_t rank, ranks;   /* in a group */
    int32_t group, groups; /* of them */
    size_t n;              /* tensors */
    int64_t *starts;       /* [n + 1]: how many numbers come before each */
    size_t n_units, *ends; /* [n_units] */
    int64_t *bounds;       /* [n_units][ranks + 1]: of unit u rank r owns the numbers from
                              bounds[u][r] up to bounds[u][r + 1] */
};

/* The first tensor of unit u. */
static inline size_t sr1__shards_first(const struct sr1__shards *s, size_t u)
{
    return u ? s->ends[u - 1] : 0;
}

sr1_status sr1__shards_new(struct sr1__shards **out, const struct sr1__mesh *m,
                           const struct sr1__shard_layout *l);
void sr1__shards_free(struct sr1__shards *s); /* NULL is fine */

/* How many numbers of tensor i a rank of the group owns, and the first of them. */
int64_t sr1__shards_of(const struct sr1__shards *s, int32_t rank, size_t i,
                       int64_t *from);
/* The same of this rank. */
int64_t sr1__shards_own(const struct sr1__shards *s, size_t i, int64_t *from);
/* Numbers of unit u in this rank's part, and in its piece of that. */
int64_t sr1__shards_part(const struct sr1__shards *s, size_t u);
int64_t sr1__shards_piece(const struct sr1__shards *s, size_t u);

/* Memory of exchanges, used again by the next: fresh pages for each would take longer
 * than to send them. Zeroed at first; the caller frees it after the last. */
struct sr1__exchange_room {
    sr1_tensor *sent, *got;
};
void sr1__exchange_room_free(struct sr1__exchange_room *r);

struct sr1__shard_transfer; /* an exchange under way */

/* What all ranks of the world have of numbers [at, at + n) of this rank's piece:
 * got [world, n], row r of rank r, on sr1__dist_device; where sr1__dist_reduces [1, n],
 * their sum, as dtype adds. s owns it. */
typedef void (*sr1__scattered_fn)(sr1_scope *s, void *user, int64_t at, sr1_tensor *got);

/* The tensors [n] of unit u, whole, of any type, NULL: zeros; each rank sees by `fn` what
 * all have of its piece. They travel as dtype. st is the status with which this rank
 * comes; where it is not SR1_OK its tensors are not looked at, and all ranks return that
 * of sr1__dist_agree. A rank that fails after its last exchange fails alone: the caller
 * agrees on what is returned, or goes on to the next exchange with it. */
sr1_status sr1__shards_scatter(const struct sr1__mesh *m, const struct sr1__shards *s,
                               size_t u, sr1_status st, sr1_tensor *const *tensors,
                               int32_t dtype, struct sr1__exchange_room *room,
                               sr1__scattered_fn fn, void *user);

/* The same of a unit that has numbers, under way when the call returns; *out is set only
 * with SR1_OK, which all ranks get together. The tensors are not needed any more, the
 * room is. At the end fn sees all at once: not where this rank's st is a failure, which
 * it returns. */
sr1_status sr1__shards_scatter_begin(struct sr1__shard_transfer **out,
                                     const struct sr1__mesh *m,
                                     const struct sr1__shards *s, size_t u, sr1_status st,
                                     sr1_tensor *const *tensors, int32_t dtype,
                                     struct sr1__exchange_room *room);
sr1_status sr1__shards_scatter_end(struct sr1__shard_transfer *t, sr1_status st,
                                   sr1__scattered_fn fn, void *user);

/* The pieces of unit u's part, flat, from all its owners into the part [sr1__shards_part]
 * of each. */
sr1_status sr1__shards_join(const struct sr1__mesh *m, const struct sr1__shards *s,
                            size_t u, sr1_status st, sr1_tensor *part, sr1_tensor *piece);

/* The tensors [n] of unit u, whole, from all ranks of the group: each gives what it owns
 * of them, from `part`, flat, or where that is NULL from the tensors themselves. dtype
 * and st as above. */
sr1_status sr1__shards_gather(const struct sr1__mesh *m, const struct sr1__shards *s,
                              size_t u, sr1_status st, sr1_tensor *const *tensors,
                              sr1_tensor *part, int32_t dtype,
                              struct sr1__exchange_room *room);

/* The same in memory of its own, which is under way when the call returns; *out is set
 * only with SR1_OK, which all ranks of the group get together. `tensors` and `part` stay
 * as they are until the end, where the first are filled: not where this rank's st is a
 * failure, which it returns. */
sr1_status sr1__shards_gather_begin(struct sr1__shard_transfer **out,
                                    const struct sr1__mesh *m,
                                    const struct sr1__shards *s, size_t u, sr1_status st,
                                    sr1_tensor *const *tensors, sr1_tensor *part,
                                    int32_t dtype);
sr1_status sr1__shards_gather_end(struct sr1__shard_transfer *t, sr1_status st);

/* What this rank owns of unit u's tensors into the flat part. */
sr1_status sr1__shards_take(const struct sr1__shards *s, size_t u,
                            sr1_tensor *const *tensors, sr1_tensor *part);

#endif
