/* train/learner_states.h - the optimizer's tensors of a learner in a checkpoint.
 *
 * One process writes model.safetensors; ranks that have a part each write
 * part-0000R-of-0000N.safetensors, all at once. A tensor that is whole on a rank lies
 * there under its name ("NAME.exp_avg"), one that is cut as "NAME.exp_avg[BEGIN:END]":
 * its numbers from BEGIN up to END, row-major, in one dimension. Either form is read by
 * any number of ranks. */
#ifndef SR1__TRAIN_LEARNER_STATES_H
#define SR1__TRAIN_LEARNER_STATES_H

#include "train/learner.h"

/* What this rank has of them. */
sr1_status sr1__learner_save_states(const struct sr1__learner *l, const char *folder);
sr1_status sr1__learner_load_states(struct sr1__learner *l, const char *folder);

#endif
