/* signal/reward/answer_figures.h - several answers to one question as one (verl:
 * process_validation_metrics):
 *
 *     mean@N, std@N   of the N answers' values
 *     best            the greatest of them
 *     majority        the value of the answer that most gave, of several the first
 *     best@k/mean     expectation of the greatest of k answers, drawn from the N with
 *                     replacement; best@k/std: its standard deviation
 *     worst@k, maj@k  likewise of the least, and of the answer that most of the k gave,
 *                     of several the first drawn
 *
 * k is 2, 4, 8, ... below N, and N; of one answer there is mean@1 alone. verl estimates
 * the last three by 1,000 random draws; here they are sums over all draws. An answer
 * without a text gives no vote; where none has one, each counts alike. */
#ifndef SR1__REWARD_ANSWER_FIGURES_H
#define SR1__REWARD_ANSWER_FIGURES_H

#include "base/error.h"
#include "base/str.h"

#include <stddef.h>

#define SR1__ANSWERS_MAX 128
#define SR1__DRAW_SIZES_MAX 7
#define SR1__ANSWER_FIGURES_MAX (4 + 6 * SR1__DRAW_SIZES_MAX)
#define SR1__ANSWER_FIGURE_NAME 24

/* For each size of a draw, how likely the value of each answer is that of its majority.
 */
struct sr1__answer_votes {
    int32_t n, n_sizes;
    int32_t majority; /* -1: no answer has a text */
    int32_t sizes[SR1__DRAW_SIZES_MAX];
    double chosen[SR1__DRAW_SIZES_MAX][SR1__ANSWERS_MAX];
};

/* The text by which answers are compared as exact match compares them; caller frees with
 * sr1_free. */
sr1_status sr1__normalise_vote(struct sr1__str answer, char **out);
/* Which of the answers most gave, the first of several; -1: none was given. texts[n] are
 * normalised, "" where there is none. */
int32_t sr1__find_majority(char *const *texts, int32_t n);

/* Count the votes of n answers, at most SR1__ANSWERS_MAX. */
sr1_status sr1__answer_votes_count(struct sr1__answer_votes *v, char *const *texts,
                                   int32_t n);
/* The figures of these answers with values[n], in the order of their names. */
void sr1__answer_figures(const struct sr1__answer_votes *v, const double *values,
                         double out[SR1__ANSWER_FIGURES_MAX]);

/* How many figures n answers have, and the name of one of them. */
size_t sr1__answer_figure_count(int32_t n);
void sr1__answer_figure_name(int32_t n, size_t i, char out[SR1__ANSWER_FIGURE_NAME]);

#endif
