/* signal/kl/kl_tokens.c - the divergence of two policies token by token and its
 * derivative, and KL in the reward. */
#include "signal/kl/kl.h"

#include <searchr1/ext/kl.h>

#include <math.h>

static sr1_status check_log_prob_pair(double new_, double ref, size_t i, const char *what)
{
    if (isfinite(new_) && isfinite(ref))
        return SR1_OK;
    return sr1__fail(SR1_E_NUMERIC, "%s log-prob of token %zu is not finite (%g)",
                     isfinite(new_) ? "reference" : what, i, isfinite(new_) ? ref : new_);
}

sr1_status sr1_kl_tokens(const char *kind, const double *new_log_probs,
                         const double *ref_log_probs, size_t n, double *kl,
                         double *derivative)
{
    struct sr1__kl k;
    size_t i;

    SR1__TRY(sr1__kl_find(kind, &k));
    if (n > 0 && (new_log_probs == NULL || ref_log_probs == NULL))
        return sr1__fail(SR1_E_INVALID, "KL: an array of log-probs is NULL");
    for (i = 0; i < n; i++)
        SR1__TRY(check_log_prob_pair(new_log_probs[i], ref_log_probs[i], i, "new"));
    for (i = 0; i < n; i++) {
        struct sr1__kl_term t = sr1__kl_estimate(&k, ref_log_probs[i], new_log_probs[i]);

        if (kl != NULL)
            kl[i] = t.value;
        if (derivative != NULL)
            derivative[i] = t.slope;
    }
    return SR1_OK;
}

static sr1_status check_penalty(double beta, const float *old_log_probs,
                                const float *ref_log_probs, size_t n,
                                const double *token_rewards)
{
    size_t i;

    if (!isfinite(beta) || beta < 0)
        return sr1__fail(SR1_E_INVALID, "KL penalty: beta must be at least 0, got %g",
                         beta);
    if (n > 0 &&
        (old_log_probs == NULL || ref_log_probs == NULL || token_rewards == NULL))
        return sr1__fail(SR1_E_INVALID, "KL penalty: an array is NULL");
    for (i = 0; i < n; i++)
        SR1__TRY(check_log_prob_pair((double)old_log_probs[i], (double)ref_log_probs[i],
                                     i, "old"));
    return SR1_OK;
}

sr1_status sr1_kl_penalty(const char *kind, double beta, const float *old_log_probs,
                          const float *ref_log_probs, size_t n, double *token_rewards,
                          double *mean)
{
    struct sr1__kl k;
    double sum = 0;
    size_t i;

    SR1__TRY(sr1__kl_find(kind, &k));
    SR1__TRY(check_penalty(beta, old_log_probs, ref_log_probs, n, token_rewards));
    for (i = 0; i < n; i++) {
        double kl = sr1__kl_estimate(&k, ref_log_probs[i], old_log_probs[i]).value;

        token_rewards[i] -= beta * kl;
        sum += kl / (double)n;
    }
    if (mean != NULL)
        *mean = sum;
    return SR1_OK;
}
