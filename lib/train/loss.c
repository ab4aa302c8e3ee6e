/* train/loss.c - policy losses and their gradients over plain buffers (searchr1/loss.h).
 */
#include "train/loss.h"

#include "base/error.h"
#include "base/struct.h"

#include <math.h>
#include <string.h>

#define EXPONENT_MAX 20.0

/* exp with its argument clamped; *live is 0 where the clamp holds (gradient 0). */
static double bounded_exp(double x, int *live)
{
    *live = x > -EXPONENT_MAX && x < EXPONENT_MAX;
    if (x > EXPONENT_MAX)
        x = EXPONENT_MAX;
    if (x < -EXPONENT_MAX)
        x = -EXPONENT_MAX;
    return exp(x);
}

struct term {
    double value;
    double slope; /* d value / d new log-prob */
};

/* -min(r A, clip(r) A); *clipped tells which branch won. */
static struct term clipped_policy(double r, int live, double a, const sr1_loss_options *o,
                                  int *clipped)
{
    double low = 1.0 - o->clip_low;
    double high = 1.0 + o->clip_high;
    double bounded = r < low ? low : r > high ? high : r;
    struct term t;

    *clipped = bounded * a < r * a;
    t.value = *clipped ? -bounded * a : -r * a;
    t.slope = *clipped || !live ? 0.0 : -r * a;
    return t;
}

/* k3 = exp(d) - d - 1, d = ref - new; never negative. */
static struct term kl_k3(double ref, double now)
{
    int live;
    double d = ref - now;
    double e = bounded_exp(d, &live);
    struct term t;

    t.value = live ? expm1(d) - d : e - d - 1.0;
    t.slope = live ? -expm1(d) : 1.0;
    return t;
}

static sr1_status read_batch(const sr1_loss_batch *given, sr1_loss_batch *b)
{
    if (!given)
        return sr1__fail(SR1_E_INVALID, "loss: batch is required");
    return sr1__struct_take(b, sizeof(*b), given,
                            SR1__STRUCT_END(sr1_loss_batch, new_log_probs),
                            "loss batch");
}

static sr1_status read_options(const sr1_loss_options *given, sr1_loss_options *o)
{
    if (!given)
        return sr1__fail(SR1_E_INVALID, "loss: options are required");
    return sr1__struct_take(o, sizeof(*o), given,
                            SR1__STRUCT_END(sr1_loss_options, clip_high),
                            "loss options");
}

static sr1_status check(const sr1_loss_batch *b, const sr1_loss_options *o)
{
    if (b->n && (!b->new_log_probs || !b->old_log_probs || !b->advantages))
        return sr1__fail(
            SR1_E_INVALID,
            "loss: new_log_probs, old_log_probs and advantages are required");
    if (o->beta != 0.0 && b->n && !b->ref_log_probs)
        return sr1__fail(SR1_E_INVALID, "loss: beta is not 0 but ref_log_probs is NULL");
    for (size_t i = 0; i < b->n; i++) {
        double sum = (double)b->new_log_probs[i] + b->old_log_probs[i] +
                     b->advantages[i] + (o->beta != 0.0 ? b->ref_log_probs[i] : 0.0f);

        if (!isfinite(sum))
            return sr1__fail(SR1_E_NUMERIC,
                             "loss: token %zu of %zu is not finite (new %g, old %g, "
                             "advantage %g)",
                             i, b->n, (double)b->new_log_probs[i],
                             (double)b->old_log_probs[i], (double)b->advantages[i]);
    }
    return SR1_OK;
}

static sr1_status check_report(const sr1_loss_report *report)
{
    return report ? sr1__struct_check(report, "loss report") : SR1_OK;
}

static sr1_status give_report(sr1_loss_report *out, const sr1_loss_report *sum)
{
    return out ? sr1__struct_give(out, sum, sizeof(*sum), "loss report") : SR1_OK;
}

sr1_status sr1_loss_grpo(const sr1_loss_batch *batch, const sr1_loss_options *options,
                         float *gradient, sr1_loss_report *report)
{
    sr1_loss_report sum = {.struct_size = sizeof(sum)};
    sr1_loss_batch given = {0}, *b = &given;
    sr1_loss_options chosen = {0}, *o = &chosen;

    SR1__TRY(read_batch(batch, b));
    SR1__TRY(read_options(options, o));
    SR1__TRY(check(b, o));
    SR1__TRY(check_report(report));
    for (size_t i = 0; i < b->n; i++) {
        double w = b->weights ? b->weights[i] : 1.0 / (double)b->n;
        double d = (double)b->new_log_probs[i] - b->old_log_probs[i];
        int live, clipped;
        double r = bounded_exp(d, &live);
        struct term pg = clipped_policy(r, live, b->advantages[i], o, &clipped);
        struct term kl = {0.0, 0.0};

        if (b->ref_log_probs)
            kl = kl_k3(b->ref_log_probs[i], b->new_log_probs[i]);
        if (gradient)
            gradient[i] = (float)(w * (pg.slope + o->beta * kl.slope));
        sum.loss += w * (pg.value + o->beta * kl.value);
        sum.policy_loss += w * pg.value;
        sum.kl += w * kl.value;
        sum.clip_fraction += clipped ? w : 0.0;
        sum.approx_kl -= w * d;
        sum.ratio_max = fmax(sum.ratio_max, r);
        sum.log_ratio_max = fmax(sum.log_ratio_max, fabs(d));
    }
    return give_report(report, &sum);
}

sr1_status sr1_loss_nll(const sr1_loss_batch *batch, const sr1_loss_options *options,
                        float *gradient, sr1_loss_report *report)
{
    sr1_loss_report sum = {.struct_size = sizeof(sum)};
    sr1_loss_batch given = {0}, *b = &given;

    (void)options;
    SR1__TRY(read_batch(batch, b));
    if (b->n && !b->new_log_probs)
        return sr1__fail(SR1_E_INVALID, "loss: new_log_probs is required");
    SR1__TRY(check_report(report));
    for (size_t i = 0; i < b->n; i++)
        if (!isfinite(b->new_log_probs[i]))
            return sr1__fail(SR1_E_NUMERIC, "loss: token %zu of %zu is not finite", i,
                             b->n);
    for (size_t i = 0; i < b->n; i++) {
        double w = b->weights ? b->weights[i] : 1.0 / (double)b->n;

        if (gradient)
            gradient[i] = (float)-w;
        sum.loss -= w * b->new_log_probs[i];
    }
    sum.policy_loss = sum.loss;
    give_report(report, &sum);
    return SR1_OK;
}

static const struct {
    const char *name;
    sr1__loss_fn fn;
} losses[] = {
    {"grpo", sr1_loss_grpo},
    {"nll", sr1_loss_nll},
};

sr1__loss_fn sr1__loss_find(const char *name)
{
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (strcmp(losses[i].name, name) == 0)
            return losses[i].fn;
    return NULL;
}

void sr1__loss_report_add(sr1_loss_report *total, const sr1_loss_report *part)
{
    total->loss += part->loss;
    total->policy_loss += part->policy_loss;
    total->kl += part->kl;
    total->clip_fraction += part->clip_fraction;
    total->approx_kl += part->approx_kl;
    total->ratio_max = fmax(total->ratio_max, part->ratio_max);
    total->log_ratio_max = fmax(total->log_ratio_max, part->log_ratio_max);
}
