/* signal/reward/seed_rewards.h - the seed's two rewards; see searchr1/reward.h. */
#ifndef SR1__REWARD_SEED_REWARDS_H
#define SR1__REWARD_SEED_REWARDS_H

#include "signal/reward/ground_truths.h"

#include <searchr1/reward.h>
#include <searchr1/ext/seed_rewards.h>

/* *given checked and copied over the defaults; given may be NULL. no_content_text stays
 * borrowed. */
sr1_status sr1__scales_read(sr1_reward_scales *out, const sr1_reward_scales *given);

/* sr1__score_fn; arg: a const sr1_reward_scales *. */
sr1_status sr1__score_answer(struct sr1__str answer, struct sr1__str truth,
                             const void *arg, double *out);

#endif
