/* signal/kl/kl_mean.c - the k3 estimate of KL(new || old) (Schulman 2020), mean over
 * tokens. */
#include "signal/kl/kl.h"

#include <searchr1/ext/kl.h>

#include <math.h>

/* Log-probs in either width: exactly one of f32 and f64 is set. */
struct log_probs {
    const double *f64;
    const float *f32;
};

static double read_log_prob_at(const struct log_probs *v, size_t i)
{
    return v->f64 != NULL ? v->f64[i] : (double)v->f32[i];
}

static sr1_status mean_k3(const struct log_probs *old, const struct log_probs *new_,
                          size_t n, double *mean)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        double a = read_log_prob_at(old, i), b = read_log_prob_at(new_, i);

        if (!isfinite(a) || !isfinite(b))
            return sr1__fail(SR1_E_NUMERIC, "%s log-prob of token %zu is not finite (%g)",
                             isfinite(a) ? "new" : "old", i, isfinite(a) ? b : a);
        sum += sr1__kl_k3(b - a).value /
               (double)n; /* divided first: the sum cannot overflow */
    }
    *mean = sum;
    return SR1_OK;
}

sr1_status sr1_kl_k3(const double *old_log_probs, const double *new_log_probs, size_t n,
                     double *mean)
{
    struct log_probs old = {old_log_probs, NULL}, new_ = {new_log_probs, NULL};

    if (mean == NULL || (n > 0 && (old_log_probs == NULL || new_log_probs == NULL)))
        return sr1__fail(SR1_E_INVALID, "k3: an array or mean is NULL");
    return mean_k3(&old, &new_, n, mean);
}

sr1_status sr1_kl_k3_f32(const float *old_log_probs, const float *new_log_probs, size_t n,
                         double *mean)
{
    struct log_probs old = {NULL, old_log_probs}, new_ = {NULL, new_log_probs};

    if (mean == NULL || (n > 0 && (old_log_probs == NULL || new_log_probs == NULL)))
        return sr1__fail(SR1_E_INVALID, "k3: an array or mean is NULL");
    return mean_k3(&old, &new_, n, mean);
}
