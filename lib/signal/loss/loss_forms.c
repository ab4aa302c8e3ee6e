/* signal/loss/loss_forms.c - the loss of one token and its slope, as a function of the
 * ratio r = exp(d) and the advantage A. The row in losses.def defines d and the log-prob
 * that the slope is taken by; factors inside sg() have no gradient. */
#include "signal/loss/loss.h"

#include <math.h>

#define EXPONENT_MAX 20.0

double sr1__bounded_exp(double x, int *live)
{
    *live = x > -EXPONENT_MAX && x < EXPONENT_MAX;
    if (x > EXPONENT_MAX)
        x = EXPONENT_MAX;
    if (x < -EXPONENT_MAX)
        x = -EXPONENT_MAX;
    return exp(x);
}

static double clip_to_range(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* -min(min(r, cap) A, clip(r) A); where A < 0 at most dual_clip |A|. */
struct sr1__loss_term sr1__form_clip(const struct sr1__loss_token *t,
                                     const sr1_loss_options *o)
{
    double a = t->advantage;
    double clip = clip_to_range(t->ratio, 1.0 - o->clip_low, 1.0 + o->clip_high);
    int capped = o->ratio_cap > 0.0 && t->ratio > o->ratio_cap;
    double r = capped ? o->ratio_cap : t->ratio;
    int clipped = clip * a < r * a;
    struct sr1__loss_term out = {clipped ? -clip * a : -r * a, 0.0, SR1_LOSS_BOUND_NONE};

    if (clipped)
        out.bound = a < 0.0 ? SR1_LOSS_BOUND_LOW : SR1_LOSS_BOUND_HIGH;
    else if (capped)
        out.bound = SR1_LOSS_BOUND_DUAL;
    else if (t->live)
        out.slope = -r * a;
    if (o->dual_clip > 0.0 && a < 0.0 && out.value > -o->dual_clip * a)
        out = (struct sr1__loss_term){-o->dual_clip * a, 0.0, SR1_LOSS_BOUND_DUAL};
    return out;
}

/* -sg(clip(r)) A log p */
struct sr1__loss_term sr1__form_bounded_weight(const struct sr1__loss_token *t,
                                               const sr1_loss_options *o)
{
    double low = 1.0 - o->clip_low, high = 1.0 + o->clip_high;
    double gain = clip_to_range(t->ratio, low, high) * t->advantage;

    return (struct sr1__loss_term){-gain * t->now, -gain,
                                   t->ratio < low    ? SR1_LOSS_BOUND_LOW
                                   : t->ratio > high ? SR1_LOSS_BOUND_HIGH
                                                     : SR1_LOSS_BOUND_NONE};
}

/* -(4 / tau) s A, s = sigmoid(tau (r - 1)); its slope by d is -4 s (1 - s) r A. */
struct sr1__loss_term sr1__form_soft_gate(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o)
{
    double a = t->advantage;
    double tau = a > 0.0 ? o->tau_positive : o->tau_negative;
    double x = tau * (t->ratio - 1.0);
    double e = exp(-fabs(x)); /* cannot overflow; s (1 - s) is even in x */
    double s = x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
    double slope = -4.0 * e / ((1.0 + e) * (1.0 + e)) * t->ratio * a;

    return (struct sr1__loss_term){-4.0 / tau * s * a, t->live ? slope : 0.0,
                                   SR1_LOSS_BOUND_NONE};
}

/* -sg(phi) A log p, phi = exp(lambda + k log w - lambda w); phi(1) = 1. */
struct sr1__loss_term sr1__form_gamma_weight(const struct sr1__loss_token *t,
                                             const sr1_loss_options *o)
{
    int below = t->advantage < 0.0;
    double k = below ? o->k_negative : o->k_positive;
    double lambda = below ? o->lambda_negative : o->lambda_positive;
    double log_w = clip_to_range(t->log_ratio, -EXPONENT_MAX, EXPONENT_MAX);
    double gain = exp(lambda + k * log_w - lambda * t->ratio) * t->advantage;

    return (struct sr1__loss_term){-gain * t->now, -gain, SR1_LOSS_BOUND_NONE};
}

/* -r A */
struct sr1__loss_term sr1__form_gain(const struct sr1__loss_token *t,
                                     const sr1_loss_options *o)
{
    double gain = t->ratio * t->advantage;

    (void)o;
    return (struct sr1__loss_term){-gain, t->live ? -gain : 0.0, SR1_LOSS_BOUND_NONE};
}

/* That of clip; 0 for a token that was chosen. */
struct sr1__loss_term sr1__form_clip_cov(const struct sr1__loss_token *t,
                                         const sr1_loss_options *o)
{
    const sr1_loss_options clip = {.clip_low = o->clip_low, .clip_high = o->clip_high};

    if (t->chosen)
        return (struct sr1__loss_term){0.0, 0.0, SR1_LOSS_BOUND_DUAL};
    return sr1__form_clip(t, &clip);
}

/* -r A, and coef |d| for a token that was chosen. */
struct sr1__loss_term sr1__form_kl_cov(const struct sr1__loss_token *t,
                                       const sr1_loss_options *o)
{
    struct sr1__loss_term out = sr1__form_gain(t, o);
    double d = t->log_ratio, coef = t->chosen ? o->ppo_kl_coef : 0.0;

    out.value += coef * fabs(d);
    out.slope += coef * ((d > 0.0) - (d < 0.0));
    return out;
}

/* -sg(min(r, cap)) A log p; 0 of a token that moved too far the way A pulls it. */
static struct sr1__loss_term hold_divergence(const struct sr1__loss_token *t,
                                             const sr1_loss_options *o, int is_far)
{
    int capped = o->ratio_cap > 0.0 && t->ratio > o->ratio_cap;
    double gain = (capped ? o->ratio_cap : t->ratio) * t->advantage;

    if (is_far)
        return (struct sr1__loss_term){
            0.0, 0.0, t->advantage > 0.0 ? SR1_LOSS_BOUND_HIGH : SR1_LOSS_BOUND_LOW};
    return (struct sr1__loss_term){-gain * t->now, -gain,
                                   capped ? SR1_LOSS_BOUND_DUAL : SR1_LOSS_BOUND_NONE};
}

/* Of the token against all others: p - q. */
struct sr1__loss_term sr1__form_total_variation(const struct sr1__loss_token *t,
                                                const sr1_loss_options *o)
{
    double moved = exp(t->now) - exp(t->now - t->log_ratio);
    int is_far = t->advantage > 0.0 ? moved > o->clip_high : moved < -o->clip_low;

    return hold_divergence(t, o, is_far);
}

#define KL_EPS 1e-8 /* verl's, in the logs of the others' probabilities */

/* KL(q || p) of the token against all others. A probability that rounding took above 1 is
 * 1. */
struct sr1__loss_term sr1__form_binary_kl(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o)
{
    double p = fmin(exp(t->now), 1.0), q = fmin(exp(t->now - t->log_ratio), 1.0);
    double kl =
        q * -t->log_ratio + (1.0 - q) * log((1.0 - q + KL_EPS) / (1.0 - p + KL_EPS));
    int is_far =
        t->advantage > 0.0 ? kl > o->clip_high && p > q : kl > o->clip_low && p < q;

    return hold_divergence(t, o, is_far);
}

/* -A log p + beta d^2 / 2 */
struct sr1__loss_term sr1__form_squared_ratio(const struct sr1__loss_token *t,
                                              const sr1_loss_options *o)
{
    double d = t->log_ratio;

    return (struct sr1__loss_term){-t->advantage * t->now + 0.5 * o->dro_beta * d * d,
                                   -t->advantage + o->dro_beta * d, SR1_LOSS_BOUND_NONE};
}

struct sr1__loss_term sr1__form_log_prob(const struct sr1__loss_token *t,
                                         const sr1_loss_options *o)
{
    (void)o;
    return (struct sr1__loss_term){-t->advantage * t->now, -t->advantage,
                                   SR1_LOSS_BOUND_NONE};
}

struct sr1__loss_term sr1__form_imitation(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o)
{
    (void)o;
    return (struct sr1__loss_term){-t->now, -1.0, SR1_LOSS_BOUND_NONE};
}
