/* signal/reward/repetition.h - the reward repetition_penalty; see searchr1/reward.h. self
 * is a const struct sr1__reward_context *. */
#ifndef SR1__REWARD_REPETITION_H
#define SR1__REWARD_REPETITION_H

#include "signal/reward/reward_context.h"

sr1_status sr1__score_repetition(void *self, const sr1_trajectory *const *t, size_t n,
                                 double *out);

#endif
