/* signal/reward/ground_truths.c - the ground truths of one question, and the best score
 * among them. */
#include "signal/reward/ground_truths.h"

#include "base/utf8.h"

#include <string.h>

struct sr1__str sr1__ground_truth_at(const struct sr1__ground_truths *t, size_t i)
{
    struct sr1__str text = {NULL, 0};

    if (t->trajectory != NULL) {
        text.s = sr1_trajectory_ground_truth(t->trajectory, i, &text.n);
    } else {
        text.s = t->texts[i];
        text.n = strlen(text.s);
    }
    return text;
}

sr1_status sr1__require_ground_truths(const sr1_trajectory *t, size_t i)
{
    size_t n;
    const char *question;

    if (sr1_trajectory_ground_truth_count(t) > 0)
        return SR1_OK;
    question = sr1_trajectory_query(t, &n);
    return sr1__fail(
        SR1_E_INVALID,
        "trajectory %zu, of the question '%.*s', has no gold answer to be "
        "compared with; leave such rows out, name the field that has it with "
        "answer_field, or choose rewards that need none",
        i, (int)(n > 80 ? sr1__utf8_complete(question, 80) : n), question);
}

sr1_status sr1__check_score_arguments(const char *answer, size_t len,
                                      const struct sr1__ground_truths *t,
                                      const double *out)
{
    size_t i;

    if ((answer == NULL && len > 0) || out == NULL)
        return sr1__fail(SR1_E_INVALID, "reward: answer or out is NULL");
    if (t->n == 0 || (t->trajectory == NULL && t->texts == NULL))
        return sr1__fail(SR1_E_INVALID, "reward: no gold answer to compare with");
    for (i = 0; t->trajectory == NULL && i < t->n; i++)
        if (t->texts[i] == NULL)
            return sr1__fail(SR1_E_INVALID, "reward: gold answer %zu is NULL", i);
    return SR1_OK;
}

sr1_status sr1__best_score(sr1__score_fn score, struct sr1__str answer,
                           const struct sr1__ground_truths *t, const void *arg,
                           double *out)
{
    double best = 0;
    size_t i;

    for (i = 0; i < t->n; i++) {
        double one;

        SR1__TRY(score(answer, sr1__ground_truth_at(t, i), arg, &one));
        if (i == 0 || one > best)
            best = one;
    }
    *out = best;
    return SR1_OK;
}

double sr1__f_measure(size_t common, size_t n_answer, size_t n_truth)
{
    double precision, recall;

    if (common == 0)
        return 0;
    precision = (double)common / (double)n_answer;
    recall = (double)common / (double)n_truth;
    return 2 * precision * recall / (precision + recall);
}
