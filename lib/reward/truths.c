/* reward/truths.c - the gold answers of one question, and the best score among them. */
#include "reward/truths.h"

#include <string.h>

struct sr1__text sr1__truth(const struct sr1__truths *t, size_t i)
{
    struct sr1__text text = {NULL, 0};

    if (t->trajectory != NULL) {
        text.s = sr1_trajectory_ground_truth(t->trajectory, i, &text.n);
    } else {
        text.s = t->texts[i];
        text.n = strlen(text.s);
    }
    return text;
}

sr1_status sr1__check_arguments(const char *answer, size_t len,
                                const struct sr1__truths *t, const double *out)
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

sr1_status sr1__best_score(sr1__score_fn score, struct sr1__text answer,
                           const struct sr1__truths *t, const void *arg, double *out)
{
    double best = 0;
    size_t i;

    for (i = 0; i < t->n; i++) {
        double one;

        SR1__TRY(score(answer, sr1__truth(t, i), arg, &one));
        if (i == 0 || one > best)
            best = one;
    }
    *out = best;
    return SR1_OK;
}
