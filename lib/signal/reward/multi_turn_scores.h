/* signal/reward/multi_turn_scores.h - the rewards of multi-turn GRPO; see
 * searchr1/reward.h. self is a const struct sr1__reward_context *. */
#ifndef SR1__REWARD_MULTI_TURN_SCORES_H
#define SR1__REWARD_MULTI_TURN_SCORES_H

#include "signal/reward/reward_context.h"

sr1_status sr1__score_tool_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out);
sr1_status sr1__score_answer_in_results(void *self, const sr1_trajectory *const *t,
                                        size_t n, double *out);
sr1_status sr1__score_answer_present(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out);
sr1_status sr1__score_mt_exact_match(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out);
sr1_status sr1__score_mt_format(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out);
sr1_status sr1__score_xml(void *self, const sr1_trajectory *const *t, size_t n,
                          double *out);

/* Turn by turn. */
sr1_status sr1__turns_tool_execution(void *self, const sr1_trajectory *t, double *out);
sr1_status sr1__turns_answer_in_results(void *self, const sr1_trajectory *t, double *out);

#endif
