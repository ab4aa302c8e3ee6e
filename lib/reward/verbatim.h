/* reward/verbatim.h - the scorers of Search-R1's published code; see searchr1/reward.h.
 * self is a const struct sr1__reward_context *. */
#ifndef SR1__REWARD_VERBATIM_H
#define SR1__REWARD_VERBATIM_H

#include "reward/context.h"

sr1_status sr1__score_verbatim_em(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out);
sr1_status sr1__score_verbatim_sub(void *self, const sr1_trajectory *const *t, size_t n,
                                   double *out);
sr1_status sr1__score_verbatim_format(void *self, const sr1_trajectory *const *t,
                                      size_t n, double *out);

#endif
