/* signal/reward/turn_rewards.h - rewards of level turn, split over the turns of a
 * trajectory that is scored already. */
#ifndef SR1__REWARD_TURN_REWARDS_H
#define SR1__REWARD_TURN_REWARDS_H

#include <searchr1/reward.h>

/* Add to totals[turns] what sr1_reward_set_score_turns gives for t, trajectory i of the
 * caller's, from the parts that sr1_reward_set_apply has set: no reward is scored again.
 */
sr1_status sr1__reward_split_turns(sr1_reward_set *set, const sr1_trajectory *t, size_t i,
                                   double *totals);

#endif
