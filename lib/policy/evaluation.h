/* policy/evaluation.h - the scores of an evaluation, over all questions and by data
 * source: sums while it runs, then means. */
#ifndef SR1__POLICY_EVALUATION_H
#define SR1__POLICY_EVALUATION_H

#include "base/error.h"
#include "signal/reward/answer_figures.h"

#include <searchr1/rollout.h>
#include <searchr1/ext/eval_figures.h>

/* The scores whose answers to one question are also looked at together. */
enum { SR1__FIGURES_EXACT_MATCH, SR1__FIGURES_REWARD, SR1__FIGURED_SCORES };

/* What the answers to one question are worth: means, and figures of them together. */
struct sr1__question_scores {
    sr1_eval_scores mean;
    double figures[SR1__FIGURED_SCORES][SR1__ANSWER_FIGURES_MAX];
    int excluded; /* an answer could not be scored */
};

sr1_status sr1__evaluation_new(sr1_evaluation **out, int32_t samples);
/* Add the scores of one answer to a question's means over n. */
void sr1__question_scores_add(struct sr1__question_scores *q, const sr1_eval_scores *one,
                              int32_t n);
/* Add a question to those of its source and of all. */
sr1_status sr1__evaluation_add(sr1_evaluation *e, const char *source,
                               const struct sr1__question_scores *q);
/* Was any question added? */
int sr1__evaluation_has_rows(const sr1_evaluation *e);
/* Sums become means, and sources are sorted. */
void sr1__evaluation_average(sr1_evaluation *e);

#endif
