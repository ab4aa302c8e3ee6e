/* signal/reward/ground_truths.c - the ground truths of one question, and the best score
 * among them. */
#include "signal/reward/ground_truths.h"

#include "base/text.h"
#include "base/utf8.h"
#include "text/tokenizer/nfc.h"

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

sr1_status sr1__ground_truths_of(const sr1_trajectory *t, size_t i,
                                 struct sr1__ground_truths *out)
{
    *out = (struct sr1__ground_truths){t, NULL, sr1_trajectory_ground_truth_count(t)};
    return sr1__require_ground_truths(t, i);
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

sr1_status sr1__compose_text(struct sr1__str *text, struct sr1__buf *b)
{
    if (text->n == 0 || !sr1__utf8_valid(text->s, text->n) ||
        sr1__nfc_quick(text->s, text->n))
        return SR1_OK;
    sr1__buf_clear(b);
    SR1__TRY(sr1__nfc(text->s, text->n, b));
    *text = (struct sr1__str){sr1__buf_cstr(b), b->len};
    return SR1_OK;
}

sr1_status sr1__settle_answer(struct sr1__str *text, struct sr1__buf *b)
{
    size_t begin = 0;

    sr1__strip(text->s, &begin, &text->n);
    text->s += begin;
    return sr1__compose_text(text, b);
}

/* Texts of the caller's are compared as they are, as the published functions do. */
static sr1_status score_ground_truth(sr1__score_fn score, struct sr1__str answer,
                                     const struct sr1__ground_truths *t, size_t i,
                                     const void *arg, double *out)
{
    struct sr1__str truth = sr1__ground_truth_at(t, i);
    struct sr1__buf b;
    sr1_status status = SR1_OK;

    sr1__buf_init(&b, 0);
    if (t->trajectory != NULL)
        status = sr1__settle_answer(&truth, &b);
    if (status == SR1_OK)
        status = score(answer, truth, arg, out);
    sr1__buf_free(&b);
    return status;
}

static sr1_status score_ground_truths(sr1__score_fn score, struct sr1__str answer,
                                      const struct sr1__ground_truths *t, const void *arg,
                                      double *out)
{
    double best = 0;
    size_t i;

    for (i = 0; i < t->n; i++) {
        double one;

        SR1__TRY(score_ground_truth(score, answer, t, i, arg, &one));
        if (i == 0 || one > best)
            best = one;
    }
    *out = best;
    return SR1_OK;
}

sr1_status sr1__best_score(sr1__score_fn score, struct sr1__str answer,
                           const struct sr1__ground_truths *t, const void *arg,
                           double *out)
{
    struct sr1__buf b;
    sr1_status status = SR1_OK;

    sr1__buf_init(&b, 0);
    if (t->trajectory != NULL)
        status = sr1__settle_answer(&answer, &b);
    if (status == SR1_OK)
        status = score_ground_truths(score, answer, t, arg, out);
    sr1__buf_free(&b);
    return status;
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
