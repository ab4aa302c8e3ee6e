/* signal/kl/kl_vocabulary.c - the exact divergence over a vocabulary, and its derivative
 * by the logits. */
#include "base/error.h"

#include <searchr1/ext/kl.h>

#include <math.h>

/* One place: *kl, or SR1_E_NUMERIC. */
static sr1_status compute_exact_kl(const double *p, const double *q, size_t vocab,
                                   size_t at, double *kl)
{
    double sum = 0;
    size_t v;

    for (v = 0; v < vocab; v++) {
        if (isnan(p[v]) || isnan(q[v]) || p[v] == INFINITY || q[v] == INFINITY)
            return sr1__fail(SR1_E_NUMERIC, "KL: log-prob %zu of place %zu is not finite",
                             v, at);
        if (p[v] == -INFINITY)
            continue;
        if (q[v] == -INFINITY)
            return sr1__fail(SR1_E_NUMERIC,
                             "KL: reference gives token %zu of place %zu no probability",
                             v, at);
        sum += exp(p[v]) * (p[v] - q[v]);
    }
    *kl = sum;
    return SR1_OK;
}

static void compute_exact_kl_gradient(const double *p, const double *q, size_t vocab,
                                      double kl, double *out)
{
    size_t v;

    for (v = 0; v < vocab; v++)
        out[v] = p[v] == -INFINITY ? 0 : exp(p[v]) * (p[v] - q[v] - kl);
}

sr1_status sr1_kl_full(const double *log_probs, const double *ref_log_probs, size_t n,
                       size_t vocab, double *kl, double *logit_gradient)
{
    double value;
    size_t i;

    if (n > 0 && (log_probs == NULL || ref_log_probs == NULL || kl == NULL || vocab == 0))
        return sr1__fail(SR1_E_INVALID, "KL: an array is NULL or vocab is 0");
    if (vocab > 0 && n > SIZE_MAX / vocab)
        return sr1__fail(SR1_E_INVALID, "KL: n * vocab is too large");
    for (i = 0; i < n; i++)
        SR1__TRY(compute_exact_kl(log_probs + i * vocab, ref_log_probs + i * vocab, vocab,
                                  i, &value));
    for (i = 0; i < n; i++) {
        const double *p = log_probs + i * vocab, *q = ref_log_probs + i * vocab;

        SR1__TRY(compute_exact_kl(p, q, vocab, i, &kl[i]));
        if (logit_gradient != NULL)
            compute_exact_kl_gradient(p, q, vocab, kl[i], logit_gradient + i * vocab);
    }
    return SR1_OK;
}
