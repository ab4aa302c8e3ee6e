/* policy/share_rollout.h - what the ranks of a job (lib/dist) do together with a policy:
 * each takes its share of the questions, and all get all trajectories and rewards. d NULL
 * is one process. All ranks make the same calls. */
#ifndef SR1__POLICY_SHARE_ROLLOUT_H
#define SR1__POLICY_SHARE_ROLLOUT_H

#include "dist/dist.h"

#include <searchr1/reward.h>
#include <searchr1/rollout.h>

/* Which rank asks question q of a call, and scores what comes of it: q mod N, as it is
 * worker q mod N's in one process. */
static inline int32_t sr1__rank_of_question(const struct sr1__dist *d, size_t q)
{
    return (int32_t)(q % (size_t)sr1__dist_size(d));
}

/* sr1_rollout_generate by all ranks: the rollout's statistics are those of all. */
sr1_status sr1__generate_shared(struct sr1__dist *d, sr1_rollout *rollout,
                                const sr1_query *queries, size_t n,
                                const sr1_rollout_options *o, sr1_trajectory **out);

/* The same, and every rank scores what it generated (sr1_reward_set_apply) before the
 * exchange. */
sr1_status sr1__generate_scored(struct sr1__dist *d, sr1_rollout *rollout,
                                sr1_reward_set *rewards, const sr1_query *queries,
                                size_t n, const sr1_rollout_options *o,
                                sr1_trajectory **out);

/* Rewards of t[n], one of each question, which every rank has; NaN where it is excluded
 * or its reward could not be had. */
sr1_status sr1__score_shared(struct sr1__dist *d, sr1_reward_set *rewards,
                             sr1_trajectory *const *t, size_t n, double *totals);

#endif
