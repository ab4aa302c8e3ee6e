/* train/memo.h - what weights said of each policy token in the first pass of an update,
 * kept by trajectory, so that another cut into micro-batches finds it too. */
#ifndef SR1__TRAIN_MEMO_H
#define SR1__TRAIN_MEMO_H

#include "trajectory/batch.h"

struct sr1__memo;

sr1_status sr1__memo_new(struct sr1__memo **out, size_t n_trajectories);
void sr1__memo_free(struct sr1__memo *m); /* NULL is fine */

/* Keep numbers [M] of a micro-batch. Threads may do so at a time, each for micro-batches
 * of its own. */
sr1_status sr1__memo_keep(struct sr1__memo *m, const struct sr1__microbatch *mb,
                          const float *numbers);
/* What was kept of them. SR1_E_INTERNAL: it was not. */
sr1_status sr1__memo_recall(const struct sr1__memo *m, const struct sr1__microbatch *mb,
                            float *numbers);

#endif
