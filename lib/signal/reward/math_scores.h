/* signal/reward/math_scores.h - mathematical answers, compared as verl's scorers do.
 *
 * Pure functions over UTF-8, from which signal/reward/reward.c makes rewards;
 * searchr1/reward.h describes them. */
#ifndef SR1__REWARD_MATH_SCORES_H
#define SR1__REWARD_MATH_SCORES_H

#include "base/buf.h"
#include "signal/reward/ground_truths.h"

/* Append what a whole solution is compared by, as it is compared; nothing where it has no
 * answer. */
typedef sr1_status (*sr1__extract_fn)(struct sr1__str solution, struct sr1__buf *out);
sr1_status sr1__extract_gsm8k(struct sr1__str solution, struct sr1__buf *out);
sr1_status sr1__extract_math_reward(struct sr1__str solution, struct sr1__buf *out);
sr1_status sr1__extract_math_dapo(struct sr1__str solution, struct sr1__buf *out);

/* Of a whole solution; arg is not used. 1, else 0; of math_dapo 1, else -1. */
sr1_status sr1__match_gsm8k(struct sr1__str solution, struct sr1__str truth,
                            const void *arg, double *out);
sr1_status sr1__match_math_reward(struct sr1__str solution, struct sr1__str truth,
                                  const void *arg, double *out);
sr1_status sr1__match_math_dapo(struct sr1__str solution, struct sr1__str truth,
                                const void *arg, double *out);

#endif
