/* dist/dist.h - the processes of one job: they meet, and then exchange.
 *
 * NULL is a job of one process, for which every call does nothing and succeeds, so that
 * callers have one path. Otherwise all ranks make the same calls in the same order. Each
 * call begins with a meeting, which carries the name of the place and the sizes: a rank
 * that is late is waited for up to the limit and then named; ranks at different places,
 * or with different sizes, get an error instead of each other's bytes. Only then a
 * collective of torch's c10d runs (tensor/torch/comm.h).
 *
 * Errors: SR1_E_TIMEOUT when the limit passed, with the missing ranks; SR1_E_NETWORK when
 * a rank or the store is gone; SR1_E_CANCELLED when the stop flag was set. After any of
 * them the job's connection is over: later calls return the same error. One thread at a
 * time. */
#ifndef SR1__DIST_DIST_H
#define SR1__DIST_DIST_H

#include "dist/launch.h"
#include "tensor/torch/shim.h"

#include <stdatomic.h>

struct sr1__dist;

struct sr1__dist_options {
    const char *backend; /* "gloo", or "nccl" for tensors on a GPU and gloo beside it */
    sr1__device device;  /* of this process, for nccl */
    int32_t reduces;     /* sums are the backend's own: nccl only */
    double limit;        /* seconds that a rank is waited for */
    double patience;     /* the same where it may take longer: sr1__dist_await */
    int32_t debug;       /* c10d compares the ranks' collectives before each */
    const atomic_int *stop; /* not 0: waiting ends with SR1_E_CANCELLED; NULL: never */
};

/* Meet the other processes at l->master_addr. *out is NULL for a world of one. */
sr1_status sr1__dist_open(struct sr1__dist **out, const struct sr1__launch *l,
                          const struct sr1__dist_options *o);
void sr1__dist_free(struct sr1__dist *d);

/* Part of a job as a job of its own: all ranks call it at once and say of which of its
 * groups they are, which have `size` ranks each, and what number they have there. name
 * is of the kind of group. Free it before d. Its errors name ranks of d's. */
struct sr1__dist_group {
    const char *name;
    int32_t group, rank, size;
    int32_t first, stride; /* rank r of the group is rank first + r stride of d */
};
sr1_status sr1__dist_split(struct sr1__dist **out, struct sr1__dist *d,
                           const struct sr1__dist_group *g);

int32_t sr1__dist_rank(const struct sr1__dist *d);
int32_t sr1__dist_size(const struct sr1__dist *d);
/* Where tensors have to be that are exchanged: the CPU, or with nccl this rank's GPU. */
sr1__device sr1__dist_device(const struct sr1__dist *d);
/* Are sums the backend's own (sr1__dist_scatter_begin)? Otherwise they are added here,
 * in the order of ranks. */
int32_t sr1__dist_reduces(const struct sr1__dist *d);

/* Wait until all ranks are at this place. */
sr1_status sr1__dist_meet(struct sr1__dist *d, const char *place);

/* The status of all: SR1_OK if every rank's is, else that of one rank for all of them,
 * with its text and its number before it. A failure that smaller micro-batches may avoid
 * (SR1_E_NOMEM, SR1_E_DEVICE_NOMEM) yields to any other, a higher rank to a lower. */
sr1_status sr1__dist_agree(struct sr1__dist *d, const char *place, sr1_status st);
/* The same after work of unequal length, with the job's patience: rollouts, rewards, what
 * one rank writes. */
sr1_status sr1__dist_await(struct sr1__dist *d, const char *place, sr1_status st);

/* bytes[n] of rank `root` into those of all. */
sr1_status sr1__dist_broadcast(struct sr1__dist *d, const char *place, int32_t root,
                               void *bytes, size_t n);

/* What every rank gave, in the order of ranks. */
struct sr1__gathered {
    sr1_tensor *all;  /* [size, most] */
    size_t most;      /* the largest */
    int64_t *sizes;   /* [size] */
    const void *self; /* of a job of one: the caller's own bytes */
};
/* Only where every rank's st is SR1_OK: it is agreed on as by sr1__dist_agree, in the
 * same meeting. Free with sr1__gathered_free. */
sr1_status sr1__dist_gather(struct sr1__dist *d, const char *place, sr1_status st,
                            const void *bytes, size_t n, struct sr1__gathered *out);
const void *sr1__gathered_of(const struct sr1__gathered *g, int32_t rank, size_t *n);
void sr1__gathered_free(struct sr1__gathered *g); /* a zeroed one is fine */

/* SR1_E_STATE names the ranks whose value is not rank 0's: "%s differs on rank 2". */
sr1_status sr1__dist_same(struct sr1__dist *d, const char *what, uint64_t value);

/* data [n], fp32: the sum of all ranks', added in the order of ranks, so that its bits do
 * not depend on the network; where sr1__dist_reduces, in an order of the backend's. st as
 * below. */
sr1_status sr1__dist_sum(struct sr1__dist *d, const char *place, sr1_status st,
                         sr1_tensor *data);

/* Tensors on sr1__dist_device; st is the status with which this rank comes, and where it
 * is not SR1_OK its tensors may be NULL: then all ranks return that of sr1__dist_agree.
 *
 * own [n] of rank r into part r of the all [size n] of every rank. */
sr1_status sr1__dist_all_gather(struct sr1__dist *d, const char *place, sr1_status st,
                                sr1_tensor *all, sr1_tensor *own);

/* The same, which is under way when the call returns: the ranks have met, and *out is to
 * be finished. The work holds its tensors, which nobody may touch meanwhile; other calls
 * may come in between. */
struct sr1__work;
sr1_status sr1__dist_all_gather_begin(struct sr1__work **out, struct sr1__dist *d,
                                      const char *place, sr1_status st, sr1_tensor *all,
                                      sr1_tensor *own);
/* Part r of every rank's from [size n] goes to rank r: part q of to [size n] came from
 * rank q; where sr1__dist_reduces, to [n] is their sum, added in an order of the
 * backend's: its bits may depend on the network, and on how many ranks there are. */
sr1_status sr1__dist_scatter_begin(struct sr1__work **out, struct sr1__dist *d,
                                   const char *place, sr1_status st, sr1_tensor *to,
                                   sr1_tensor *from);
/* Wait for one of them and free it. */
sr1_status sr1__dist_finish(struct sr1__dist *d, struct sr1__work *w, const char *place);

#endif
