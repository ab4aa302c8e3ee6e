/* reward/truths.h - the gold answers of one question, and the best score among them. */
#ifndef SR1__REWARD_TRUTHS_H
#define SR1__REWARD_TRUTHS_H

#include "base/error.h"

#include <searchr1/trajectory.h>

/* From a trajectory, or from NUL-terminated texts when trajectory is NULL. Borrowed. */
struct sr1__truths {
    const sr1_trajectory *trajectory;
    const char *const *texts;
    size_t n;
};

/* A piece of text, not NUL-terminated, borrowed. */
struct sr1__text {
    const char *s;
    size_t n;
};

struct sr1__text sr1__truth(const struct sr1__truths *t, size_t i);

/* SR1_E_INVALID when answer or out is NULL, or there is no gold answer, or one is NULL.
 */
sr1_status sr1__check_arguments(const char *answer, size_t len,
                                const struct sr1__truths *t, const double *out);

/* How well an answer fits one gold answer. */
typedef sr1_status (*sr1__score_fn)(struct sr1__text answer, struct sr1__text truth,
                                    const void *arg, double *out);

/* The largest score over all gold answers, of which there is at least one. */
sr1_status sr1__best_score(sr1__score_fn score, struct sr1__text answer,
                           const struct sr1__truths *t, const void *arg, double *out);

#endif
