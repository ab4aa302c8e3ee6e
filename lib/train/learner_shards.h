/* train/learner_shards.h - who owns which numbers of what a learner trains, and of its
 * weights: by units of the decoder, but an adapter's tensors all in one. */
#ifndef SR1__TRAIN_LEARNER_SHARDS_H
#define SR1__TRAIN_LEARNER_SHARDS_H

#include "train/learner.h"

sr1_status sr1__param_shards(const struct sr1__learner *l, struct sr1__shards **out);
sr1_status sr1__leaf_shards(const struct sr1__learner *l, struct sr1__shards **out);

#endif
