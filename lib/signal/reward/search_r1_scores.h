/* signal/reward/search_r1_scores.h - the scorers of Search-R1's published code; see
 * searchr1/reward.h. self is a const struct sr1__reward_context *. */
#ifndef SR1__REWARD_SEARCH_R1_SCORES_H
#define SR1__REWARD_SEARCH_R1_SCORES_H

#include "signal/reward/reward_context.h"

sr1_status sr1__score_search_r1_em(void *self, const sr1_trajectory *const *t, size_t n,
                                   double *out);
sr1_status sr1__score_search_r1_sub_em(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out);
sr1_status sr1__score_search_r1_format(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out);

#endif
