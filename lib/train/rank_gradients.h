/* train/rank_gradients.h - gradients of all ranks, and what follows from them: whole sums
 * on every rank, or a part of sums, optimizer states and updates on each (ZeRO). */
#ifndef SR1__TRAIN_RANK_GRADIENTS_H
#define SR1__TRAIN_RANK_GRADIENTS_H

#include "train/learner.h"

/* The first replica's gradients of all ranks into that of each. */
sr1_status sr1__sum_gradients(struct sr1__learner *l);

/* An optimizer step of a learner with shards: each rank adds up and updates its part, and
 * all get the weights. Of *how all but the squares is set. */
sr1_status sr1__sharded_step(struct sr1__learner *l, struct sr1__optim_step *how,
                             struct sr1__optim_report *done);

#endif
