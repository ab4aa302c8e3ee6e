/* signal/advantage/thinking_confidence.c - the policy's confidence in an action, from the
 * entropies or log-probs at its tokens (RLVCR): the document's entropy, or a form of the
 * published code. */
#include "base/error.h"

#include <searchr1/ext/thinking.h>

#include <math.h>
#include <string.h>

#define PROBABILITY_MIN 1e-6 /* of the published code */

/* What was seen of the tokens that count. */
struct seen {
    double mean, least;
};

static double negate_mean(const struct seen *s)
{
    return -s->mean;
}

static double take_mean(const struct seen *s)
{
    return s->mean;
}

static double clip_mean_probability(const struct seen *s)
{
    return fmin(fmax(exp(s->mean), PROBABILITY_MIN), 1.0);
}

static double take_least_probability(const struct seen *s)
{
    return exp(s->least);
}

static const struct confidence {
    const char *name;
    int of_entropies; /* not of log-probs */
    double (*compute)(const struct seen *s);
} kinds[] = {
    {"entropy", 1, negate_mean},
    {"mean", 0, take_mean},
    {"mean_prob", 0, clip_mean_probability},
    {"min", 0, take_least_probability},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const char *confidence_name(size_t i)
{
    return i < N_KINDS ? kinds[i].name : NULL;
}

static sr1_status find_confidence(const char *kind, const struct confidence **out)
{
    for (size_t k = 0; kind != NULL && k < N_KINDS; k++) {
        if (strcmp(kind, kinds[k].name) == 0) {
            *out = &kinds[k];
            return SR1_OK;
        }
    }
    return sr1__fail_unknown("confidence", kind != NULL ? kind : "NULL", confidence_name);
}

sr1_status sr1_thinking_confidence(const char *kind, const float *log_probs,
                                   const float *entropies, const uint8_t *include,
                                   size_t n, double *out)
{
    const struct confidence *c = NULL;
    const float *v;
    struct seen s = {0};
    size_t i, used = 0;

    SR1__TRY(find_confidence(kind, &c));
    v = c->of_entropies ? entropies : log_probs;
    if (out == NULL || (n > 0 && v == NULL))
        return sr1__fail(SR1_E_INVALID, "confidence %s: its array or out is NULL", kind);
    for (i = 0; i < n; i++) {
        if (include != NULL && !include[i])
            continue;
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "confidence: token %zu is not finite (%g)", i,
                             (double)v[i]);
        s.mean += (double)v[i];
        s.least = used == 0 || (double)v[i] < s.least ? (double)v[i] : s.least;
        used++;
    }
    s.mean /= used > 0 ? (double)used : 1.0;
    *out = used > 0 ? c->compute(&s) : NAN;
    return SR1_OK;
}
