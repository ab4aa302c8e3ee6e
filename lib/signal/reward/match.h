/* signal/reward/match.h - Search-R1's comparisons after normalisation; see
 * searchr1/reward.h. */
#ifndef SR1__REWARD_MATCH_H
#define SR1__REWARD_MATCH_H

#include "base/buf.h"
#include "signal/reward/ground_truths.h"

/* sr1__score_fn; arg is not used. */
sr1_status sr1__score_exact(struct sr1__str answer, struct sr1__str truth,
                            const void *arg, double *out);
sr1_status sr1__score_sub(struct sr1__str answer, struct sr1__str truth, const void *arg,
                          double *out);
sr1_status sr1__score_f1(struct sr1__str answer, struct sr1__str truth, const void *arg,
                         double *out);

/* Whether text contains a gold answer, as sr1__score_sub compares them, in *out. The text
 * is normalised once for all of them. A gold answer of which normalisation leaves nothing
 * ("The") stands in no text here. */
sr1_status sr1__holds_answer(struct sr1__str text, const struct sr1__ground_truths *t,
                             int *out);

#endif
