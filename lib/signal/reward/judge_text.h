/* signal/reward/judge_text.h - what a judge is asked, and the score in its reply. */
#ifndef SR1__REWARD_JUDGE_TEXT_H
#define SR1__REWARD_JUDGE_TEXT_H

#include "base/buf.h"

#include <searchr1/ext/judge.h>

/* The rubric of a judge that has none of its own. */
extern const char sr1__judge_prompt[];

/* SR1_E_CONFIG unless a rubric has {{answer}} and no name that is not known. */
sr1_status sr1__judge_prompt_check(const char *prompt);
/* Append a rubric with the item's texts in their places. What stands in these texts is
 * not looked at again. */
void sr1__judge_prompt_write(struct sr1__buf *b, const char *prompt,
                             const sr1_judge_item *item);

/* The number behind the last "Score:" of a reply, in any case, with marks such as ** and
 * "/10" around it; NaN where there is none, where it is written in another way ("0,5",
 * "1e-3", "50%") and where the best score beside it is not max_score. */
double sr1__judge_reply_score(const char *reply, size_t n, double max_score);

/* Of scores[n], n > 0, by SR1_JUDGE_*. Sorts them. */
double sr1__judge_vote(double *scores, size_t n, int32_t vote);

#endif
