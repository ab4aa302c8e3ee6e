/* train/learner.h - weights that are being trained: the policy's, the critic's. Workers
 * have a replica each, which shares the weights and owns its gradients. */
#ifndef SR1__TRAIN_LEARNER_H
#define SR1__TRAIN_LEARNER_H

#include "dist/shard.h"
#include "tensor/model/model.h"
#include "tensor/ops/optimizer.h"
#include "train/schedule.h"

/* Dynamic loss scale of fp16; 1 and inert for other types. */
struct sr1__loss_scale {
    double value;
    int64_t good_steps; /* since it last changed */
    int32_t active;
};

struct sr1__part_sums; /* part_sums.h */
struct sr1__unit_pass; /* unit_pass.h */

struct sr1__learner {
    const char *name;     /* "policy", "critic"; static */
    sr1_model **replicas; /* [n]; the first is the model. Borrowed */
    int32_t n;
    struct sr1__mesh mesh; /* whose ranks learn together; borrowed */
    int32_t sharded;       /* each rank of a group has a part of the optimizer's states */
    int32_t sums_by_rank;  /* each rank adds up its micro-batches before all do */
    int32_t reshards;      /* and weights are in parts during an update (ZeRO-3) */
    int32_t prefetches;    /* of which the next unit's are gathered while one computes */
    struct sr1__shards *shards;  /* of params; NULL: all of them are here */
    struct sr1__part_sums *sums; /* of their gradients; NULL likewise */
    struct sr1__unit_pass *pass; /* by which they come, a micro-batch at a time; NULL:
                                    once a step */
    struct sr1__optimizer *optimizer;
    struct sr1__loss_scale scale;
    struct sr1__schedule schedule;
    double max_grad_norm;
};

/* Fill *l, of which what stands before shards, schedule and max_grad_norm are set:
 * the weights record gradients, the optimizer starts. loss_scale is for fp16. */
sr1_status sr1__learner_open(struct sr1__learner *l, const struct sr1__adamw *how,
                             double loss_scale);
void sr1__learner_close(struct sr1__learner *l); /* a zeroed one is fine */

void sr1__learner_clear_grad(struct sr1__learner *l);

/* Add up the gradients of the replicas in their order, then of the ranks in theirs, and
 * take one optimizer step at the rate of this step, *rate. A gradient that is not finite:
 * done->skipped, nothing changed. */
sr1_status sr1__learner_step(struct sr1__learner *l, int64_t step, double *rate,
                             struct sr1__optim_report *done);

/* n models for n threads: `first`, which is taken over, and its replicas. */
sr1_status sr1__replicas_new(sr1_model ***out, sr1_model *first, int32_t n);
void sr1__replicas_free(sr1_model **replicas, int32_t n); /* NULL is fine */

#endif
