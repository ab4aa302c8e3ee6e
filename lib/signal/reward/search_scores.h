/* signal/reward/search_scores.h - the rewards about searching itself; see
 * searchr1/reward.h. self is a const struct sr1__reward_context *. */
#ifndef SR1__REWARD_SEARCH_SCORES_H
#define SR1__REWARD_SEARCH_SCORES_H

#include "signal/reward/ground_truths.h"
#include "signal/reward/reward_context.h"

/* Share of the row's gold ids, of the column `field`, that are hits of t's actions, in
 * *out; NaN where the row is not known or has no gold id. Errors as
 * sr1__gold_ids_read. */
sr1_status sr1__trajectory_recall(const sr1_trajectory *t, const char *field,
                                  double *out);

/* Does a result that was inserted into t, by the tags of p, hold a ground truth? In *out,
 * 1 or 0. */
sr1_status sr1__answer_was_retrieved(const struct sr1__protocol *p,
                                     const sr1_trajectory *t,
                                     const struct sr1__ground_truths *truths, int *out);

/* sr1_reward_ops.score_states */
sr1_status sr1__score_retrieval_recall(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out, int32_t *states);
/* sr1_reward_ops.score */
sr1_status sr1__score_answer_retrieved(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out);
sr1_status sr1__score_search_cost(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out);

#endif
