/* searchr1/ext/eval_figures.h - what several answers to each question of an evaluation
 * (sr1_eval_options.samples = N) are worth together. A figure is a mean over questions;
 * its names and what they mean are verl's (process_validation_metrics), but for "best"
 * and "majority":
 *
 *     mean@N, std@N   mean and standard deviation of a question's N answers
 *     best            the greatest of the N: with exact_match pass@N
 *     majority        the score of the answer that most of the N gave (normalised as
 *                     sr1_reward_normalize does; of several the first given). Where a
 *                     reward reads worked solutions (gsm8k, math_reward, math_dapo) an
 *                     answer is what it compares of one
 *     best@k/mean     expectation of the greatest of k answers, drawn from the N with
 *                     replacement, and best@k/std its standard deviation
 *     worst@k/mean    likewise of the least, and worst@k/std
 *     maj@k/mean      likewise of the score of the answer that most of the k gave, and
 *                     maj@k/std
 *
 * for k of 2, 4, 8, ... below N, and N. With one answer there is mean@1 alone. verl
 * estimates those of k by 1,000 random draws; here they are exact. best@N/mean is below
 * "best", since N draws with replacement miss some of the N answers.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_EVAL_FIGURES_H
#define SEARCHR1_EXT_EVAL_FIGURES_H

#include <searchr1/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1_EVAL_MAX_SAMPLES 128

/* Return the name of figure i, NULL past the last. Borrowed from the evaluation. */
SR1_API const char *sr1_evaluation_figure_name(const sr1_evaluation *evaluation,
                                               size_t i);

/* A figure of entry index (as of sr1_evaluation_scores) of a score, "exact_match" or
 * "reward". NaN where no question was scored. SR1_E_INVALID: index is out of range.
 * SR1_E_NOT_FOUND: there is no such score or figure. */
SR1_API sr1_status sr1_evaluation_figure(const sr1_evaluation *evaluation, size_t index,
                                         const char *score, const char *figure,
                                         double *out);

#ifdef __cplusplus
}
#endif
#endif
