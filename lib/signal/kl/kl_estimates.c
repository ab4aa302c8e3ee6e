/* signal/kl/kl_estimates.c - the kinds of estimates (Schulman 2020, "Approximating KL
 * divergence"; names of verl), d = new - ref.
 *
 * k3 grows by exp(-d) until d = -20 and linearly beyond, with the slope at that point:
 * value and slope are continuous and finite in float, and the slope always draws the
 * policy back to its reference. For positive d no bound is needed: exp(-d) is below 1. */
#include "signal/kl/kl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXPONENT_MAX 20.0
#define VALUE_MAX 10.0    /* of low_var_kl */
#define SERIES_BELOW 0.05 /* where d^10 / 10! is below one part in 2^53 of d^2 / 2 */

static struct sr1__kl_term estimate_k1(double d)
{
    return (struct sr1__kl_term){d, 1.0};
}

static struct sr1__kl_term estimate_absolute(double d)
{
    return (struct sr1__kl_term){fabs(d), d > 0.0 ? 1.0 : d < 0.0 ? -1.0 : 0.0};
}

static struct sr1__kl_term estimate_k2(double d)
{
    return (struct sr1__kl_term){d * d / 2.0, d};
}

/* exp(x) - 1 - x; near 0 the three terms cancel, so the power series is summed. */
static double exp_beyond_line(double x)
{
    double sum = 1.0;

    if (fabs(x) >= SERIES_BELOW)
        return expm1(x) - x;
    for (int k = 11; k > 2; k--) /* 1 + x/3 (1 + x/4 (1 + ...)) */
        sum = 1.0 + x / k * sum;
    return x * x / 2.0 * sum;
}

struct sr1__kl_term sr1__kl_k3(double d)
{
    double x = fmin(-d, EXPONENT_MAX), slope = expm1(x);

    return (struct sr1__kl_term){exp_beyond_line(x) + slope * (-d - x), -slope};
}

static struct sr1__kl_term estimate_low_var_kl(double d)
{
    struct sr1__kl_term t = sr1__kl_k3(d);

    return t.value > VALUE_MAX ? (struct sr1__kl_term){VALUE_MAX, 0.0} : t;
}

static const struct {
    const char *name;
    sr1__kl_fn estimate;
    int slopes_at_0; /* on either side of 0, however near */
} kinds[] = {
    {"k1", estimate_k1, 1},
    {"kl", estimate_k1, 1},
    {"abs", estimate_absolute, 1},
    {"k2", estimate_k2, 0},
    {"mse", estimate_k2, 0},
    {"k3", sr1__kl_k3, 0},
    {"low_var_kl", estimate_low_var_kl, 0},
};

#define N_KINDS (sizeof kinds / sizeof kinds[0])

const char *sr1__kl_name(size_t i)
{
    return i < N_KINDS ? kinds[i].name : NULL;
}

static sr1_status fail_unknown_kl_kind(const char *name)
{
    sr1_status status = sr1__fail_unknown("kl_kind", name ? name : "NULL", sr1__kl_name);

    return sr1__fail(status, "%s, each also with '+'", sr1_last_error());
}

sr1_status sr1__kl_find(const char *name, struct sr1__kl *out)
{
    size_t n = name ? strlen(name) : 0;

    out->straight = n > 0 && name[n - 1] == '+';
    n -= (size_t)out->straight;
    for (size_t i = 0; name && i < N_KINDS; i++) {
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, name, n) == 0) {
            out->estimate = kinds[i].estimate;
            out->slopes_at_0 = kinds[i].slopes_at_0 && !out->straight;
            return SR1_OK;
        }
    }
    return fail_unknown_kl_kind(name);
}

struct sr1__kl_term sr1__kl_estimate(const struct sr1__kl *kl, double ref, double now)
{
    double d = now - ref;
    struct sr1__kl_term t = kl->estimate(d);

    if (kl->straight)
        t.slope = d;
    return t;
}
