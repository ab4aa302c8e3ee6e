/* signal/advantage/thinking_confidence.c - the policy's confidence in an action, from the
 * entropies or log-probs at its tokens (RLVCR): the document's entropy, or a form of the
 * published code. */
#include "base/error.h"

#include <searchr1/ext/thinking.h>

#include <math.h>
#include <string.h>

enum { ENTROPY, MEAN, LEAST, N_KINDS };

static const char *const kinds[N_KINDS] = {"entropy", "mean", "min"};

static const char *confidence_name(size_t i)
{
    return i < N_KINDS ? kinds[i] : NULL;
}

static sr1_status find_confidence_kind(const char *kind, int *out)
{
    for (int k = 0; kind != NULL && k < N_KINDS; k++) {
        if (strcmp(kind, kinds[k]) == 0) {
            *out = k;
            return SR1_OK;
        }
    }
    return sr1__fail_unknown("confidence", kind != NULL ? kind : "NULL", confidence_name);
}

sr1_status sr1_thinking_confidence(const char *kind, const float *log_probs,
                                   const float *entropies, const uint8_t *include,
                                   size_t n, double *out)
{
    const float *v;
    double sum = 0, least = 0;
    size_t i, used = 0;
    int k = 0;

    SR1__TRY(find_confidence_kind(kind, &k));
    v = k == ENTROPY ? entropies : log_probs;
    if (out == NULL || (n > 0 && v == NULL))
        return sr1__fail(SR1_E_INVALID, "confidence %s: its array or out is NULL", kind);
    for (i = 0; i < n; i++) {
        if (include != NULL && !include[i])
            continue;
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "confidence: token %zu is not finite (%g)", i,
                             (double)v[i]);
        sum += (double)v[i];
        least = used == 0 || (double)v[i] < least ? (double)v[i] : least;
        used++;
    }
    if (used == 0)
        *out = NAN;
    else if (k == LEAST)
        *out = exp(least);
    else
        *out = (k == ENTROPY ? -sum : sum) / (double)used;
    return SR1_OK;
}
