/* advantage/kl_tokens.c - the divergence of two policies token by token (Schulman 2020,
 * "Approximating KL divergence"; names and clamps of verl), its derivative, the exact one
 * over a vocabulary, and KL in the reward. */
#include "advantage/kl.h"

#include <searchr1/advantage.h>

#include <math.h>
#include <string.h>

/* One estimate and its derivative by the new log-prob, d = new - ref. */
struct estimate {
    double kl;
    double slope;
};

static struct estimate k1(double d)
{
    return (struct estimate){d, 1};
}

static struct estimate absolute(double d)
{
    return (struct estimate){fabs(d), d > 0 ? 1 : d < 0 ? -1 : 0};
}

static struct estimate k2(double d)
{
    return (struct estimate){d * d / 2, d};
}

/* Below -700 the value stays what it is there: exp overflows. */
static struct estimate k3(double d)
{
    double e = -d > SR1__K3_LARGEST ? SR1__K3_LARGEST : -d;

    return (struct estimate){sr1__k3(-d), -d > e ? 0 : -expm1(e)};
}

static struct estimate low_var(double d)
{
    double e = fmin(fmax(-d, -20), 20), kl = sr1__k3(e); /* above 10 at either bound */

    return (struct estimate){fmin(kl, 10), kl <= 10 ? -expm1(e) : 0};
}

static const struct kind {
    const char *name;
    struct estimate (*estimate)(double d);
} kinds[] = {
    {"k1", k1}, {"kl", k1}, {"abs", absolute}, {"k2", k2},
    {"mse", k2}, {"k3", k3}, {"low_var_kl", low_var},
};

#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* name, perhaps with a '+' behind it. */
static sr1_status find_kind(const char *name, const struct kind **out, int *straight)
{
    size_t len = name != NULL ? strlen(name) : 0, i;

    *straight = len > 0 && name[len - 1] == '+';
    len -= (size_t)*straight;
    for (i = 0; name != NULL && i < N_KINDS; i++) {
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, name, len) == 0) {
            *out = &kinds[i];
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_NOT_FOUND,
                     "KL kind '%.64s' is not known; known: k1, kl, abs, k2, mse, k3, "
                     "low_var_kl, each also with '+'",
                     name != NULL ? name : "NULL");
}

static sr1_status check_pair(double new_, double ref, size_t i, const char *what)
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
    const struct kind *k = NULL;
    int straight;
    size_t i;

    SR1__TRY(find_kind(kind, &k, &straight));
    if (n > 0 && (new_log_probs == NULL || ref_log_probs == NULL))
        return sr1__fail(SR1_E_INVALID, "KL: an array of log-probs is NULL");
    for (i = 0; i < n; i++)
        SR1__TRY(check_pair(new_log_probs[i], ref_log_probs[i], i, "new"));
    for (i = 0; i < n; i++) {
        double d = new_log_probs[i] - ref_log_probs[i];
        struct estimate e = k->estimate(d);

        if (kl != NULL)
            kl[i] = e.kl;
        if (derivative != NULL)
            derivative[i] = straight ? d : e.slope;
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
        SR1__TRY(
            check_pair((double)old_log_probs[i], (double)ref_log_probs[i], i, "old"));
    return SR1_OK;
}

sr1_status sr1_kl_penalty(const char *kind, double beta, const float *old_log_probs,
                          const float *ref_log_probs, size_t n, double *token_rewards,
                          double *mean)
{
    const struct kind *k = NULL;
    double sum = 0;
    int straight;
    size_t i;

    SR1__TRY(find_kind(kind, &k, &straight));
    SR1__TRY(check_penalty(beta, old_log_probs, ref_log_probs, n, token_rewards));
    for (i = 0; i < n; i++) {
        double d = (double)old_log_probs[i] - (double)ref_log_probs[i];
        double kl = k->estimate(d).kl;

        token_rewards[i] -= beta * kl;
        sum += kl / (double)n;
    }
    if (mean != NULL)
        *mean = sum;
    return SR1_OK;
}

/* ---- over a vocabulary ---- */

/* One place: *kl, or SR1_E_NUMERIC. */
static sr1_status full(const double *p, const double *q, size_t vocab, size_t at,
                       double *kl)
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

static void slope(const double *p, const double *q, size_t vocab, double kl, double *out)
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
        SR1__TRY(full(log_probs + i * vocab, ref_log_probs + i * vocab, vocab, i,
                      &value));
    for (i = 0; i < n; i++) {
        const double *p = log_probs + i * vocab, *q = ref_log_probs + i * vocab;

        SR1__TRY(full(p, q, vocab, i, &kl[i]));
        if (logit_gradient != NULL)
            slope(p, q, vocab, kl[i], logit_gradient + i * vocab);
    }
    return SR1_OK;
}
