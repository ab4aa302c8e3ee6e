/* signal/reward/ground_truths.h - the ground truths of one question, and the best score
 * among them. */
#ifndef SR1__REWARD_GROUND_TRUTHS_H
#define SR1__REWARD_GROUND_TRUTHS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#include <searchr1/trajectory.h>

/* From a trajectory, or from NUL-terminated texts when trajectory is NULL. Borrowed. */
struct sr1__ground_truths {
    const sr1_trajectory *trajectory;
    const char *const *texts;
    size_t n;
};

struct sr1__str sr1__ground_truth_at(const struct sr1__ground_truths *t, size_t i);

/* SR1_E_INVALID names trajectory i and its question if it has no gold answer. */
sr1_status sr1__require_ground_truths(const sr1_trajectory *t, size_t i);

/* All of trajectory i; the same error. */
sr1_status sr1__ground_truths_of(const sr1_trajectory *t, size_t i,
                                 struct sr1__ground_truths *out);

/* SR1_E_INVALID when answer or out is NULL, or there is no gold answer, or one is NULL.
 */
sr1_status sr1__check_score_arguments(const char *answer, size_t len,
                                      const struct sr1__ground_truths *t,
                                      const double *out);

/* How well an answer fits one gold answer. */
typedef sr1_status (*sr1__score_fn)(struct sr1__str answer, struct sr1__str truth,
                                    const void *arg, double *out);

/* Make *text one of Unicode's normal form C, itself or in *b: files of some systems have
 * "o" and a mark where a tokenizer lets the policy write one letter. Bytes that are not
 * UTF-8 stay. */
sr1_status sr1__compose_text(struct sr1__str *text, struct sr1__buf *b);
/* The same without white space around it, as a cell may have. */
sr1_status sr1__settle_answer(struct sr1__str *text, struct sr1__buf *b);

/* The largest score over all gold answers, of which there is at least one; settled, where
 * they are of a trajectory. */
sr1_status sr1__best_score(sr1__score_fn score, struct sr1__str answer,
                           const struct sr1__ground_truths *t, const void *arg,
                           double *out);

/* The harmonic mean of common / n_answer and common / n_truth; 0 without any in common.
 */
double sr1__f_measure(size_t common, size_t n_answer, size_t n_truth);

#endif
