/* signal/loss/value_loss.c - the critic's clipped squared error, half of it:
 *
 *     w max((v - R)^2, (u - R)^2) / 2,  u = clip(v, v_old - c, v_old + c)
 *
 * Its slope is w (v - R), or 0 where u is further from R than v, because u is then
 * constant. */
#include "signal/loss/loss.h"

#include "base/mem.h"
#include "base/struct.h"

#include <float.h>
#include <math.h>

#define CLIP_RANGE 0.5

static sr1_status check_value_batch(const sr1_value_batch *b, const sr1_value_options *o)
{
    if (!isfinite(o->clip_range) || o->clip_range < 0.0)
        return sr1__fail(SR1_E_INVALID, "value loss: clip_range must be 0 or more");
    if (b->n && (!b->values || !b->returns))
        return sr1__fail(SR1_E_INVALID, "value loss: values and returns are required");
    if (b->n && o->clip_range > 0.0 && !b->old_values)
        return sr1__fail(SR1_E_INVALID,
                         "value loss: clip_range is not 0 but old_values is NULL");
    SR1__TRY(sr1__loss_check_finite("values", b->values, b->n));
    SR1__TRY(sr1__loss_check_finite("returns", b->returns, b->n));
    SR1__TRY(sr1__loss_check_finite("old_values", b->old_values, b->n));
    return sr1__loss_check_finite("weights", b->weights, b->n);
}

static const sr1_value_options value_options_defaults = {.clip_range = CLIP_RANGE};

void sr1_value_options_init(sr1_value_options *options)
{
    sr1__struct_init(options, &value_options_defaults, sizeof(value_options_defaults));
}

static sr1_status read_value_call(const sr1_value_batch *batch,
                                  const sr1_value_options *options, sr1_value_batch *b,
                                  sr1_value_options *o)
{
    if (!batch)
        return sr1__fail(SR1_E_INVALID, "value loss: batch is required");
    SR1__TRY(sr1__struct_take(b, sizeof(*b), batch,
                              SR1__STRUCT_END(sr1_value_batch, returns), "value batch"));
    *o = value_options_defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), options,
                              SR1__STRUCT_END(sr1_value_options, clip_range),
                              "value options"));
    return check_value_batch(b, o);
}

static double weight_of(const sr1_value_batch *b, size_t i)
{
    return b->weights ? b->weights[i] : 1.0 / (double)b->n;
}

/* Does the clip hold token i's loss? Then u - R is *error. */
static int clip_value_error(const sr1_value_batch *b, const sr1_value_options *o,
                            size_t i, double *error)
{
    double v = b->values[i], u = v, old;

    if (o->clip_range == 0.0)
        return 0;
    old = b->old_values[i];
    if (u < old - o->clip_range)
        u = old - o->clip_range;
    if (u > old + o->clip_range)
        u = old + o->clip_range;
    if (fabs(u - b->returns[i]) <= fabs(*error))
        return 0;
    *error = u - b->returns[i];
    return 1;
}

static void add_value_token(const sr1_value_batch *b, const sr1_value_options *o,
                            size_t i, double *gradient, sr1_value_report *sum)
{
    double w = weight_of(b, i), returns = b->returns[i];
    double error = b->values[i] - returns, taken = error;
    int held = clip_value_error(b, o, i, &taken);

    *gradient = held ? 0.0 : w * error;
    sum->loss += w * taken * taken / 2.0;
    sum->clip_fraction += held ? w : 0.0;
    sum->value += w * b->values[i];
    sum->returns += w * returns;
    sum->returns_square += w * returns * returns;
    sum->error -= w * error;
    sum->error_square += w * error * error;
    sum->weight += w;
    sum->tokens++;
}

static sr1_status evaluate_value_loss(const sr1_value_batch *b,
                                      const sr1_value_options *o, double *gradient,
                                      sr1_value_report *sum)
{
    for (size_t i = 0; i < b->n; i++) {
        add_value_token(b, o, i, &gradient[i], sum);
        if (!(fabs(gradient[i]) <= FLT_MAX)) /* NaN too */
            return sr1__fail(SR1_E_NUMERIC,
                             "value loss: token %zu of %zu: its gradient %g does not fit "
                             "a float",
                             i, b->n, gradient[i]);
    }
    return SR1_OK;
}

sr1_status sr1_value_loss(const sr1_value_batch *batch, const sr1_value_options *options,
                          float *gradient, sr1_value_report *report)
{
    sr1_value_report sum = {.struct_size = sizeof(sum)};
    sr1_value_batch b = {0};
    sr1_value_options o = {0};
    double *made;
    sr1_status st;

    SR1__TRY(read_value_call(batch, options, &b, &o));
    if (report)
        SR1__TRY(sr1__struct_check(report, "value report"));
    made = sr1__calloc(b.n + 1, sizeof(double));
    SR1__CHECK_ALLOC(made, "value loss");
    st = evaluate_value_loss(&b, &o, made, &sum);
    for (size_t i = 0; st == SR1_OK && gradient && i < b.n; i++)
        gradient[i] = (float)made[i];
    sr1__free(made);
    return st == SR1_OK && report
               ? sr1__struct_give(report, &sum, sizeof(sum), "value report")
               : st;
}

void sr1__value_report_add(sr1_value_report *total, const sr1_value_report *part)
{
    total->loss += part->loss;
    total->clip_fraction += part->clip_fraction;
    total->value += part->value;
    total->returns += part->returns;
    total->returns_square += part->returns_square;
    total->error += part->error;
    total->error_square += part->error_square;
    total->weight += part->weight;
    total->tokens += part->tokens;
}

void sr1__value_report_scale(sr1_value_report *r, double v)
{
    double *const sums[] = {&r->loss,         &r->clip_fraction,  &r->value,
                            &r->returns,      &r->returns_square, &r->error,
                            &r->error_square, &r->weight};

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
        *sums[i] *= v;
}

/* Of a variable from its weighted sums. */
static double weighted_variance(double sum, double squares, double weight)
{
    double mean = sum / weight;

    return squares / weight - mean * mean;
}

double sr1__explained_variance(double error, double returns, double square)
{
    return returns > 1e-12 * square ? 1.0 - error / returns : 0.0;
}

sr1_status sr1_value_explained_variance(const sr1_value_report *report, double *out)
{
    sr1_value_report r = {0};

    if (!report || !out)
        return sr1__fail(SR1_E_INVALID,
                         "explained variance: report and out are required");
    SR1__TRY(sr1__struct_take(&r, sizeof(r), report,
                              SR1__STRUCT_END(sr1_value_report, weight), "value report"));
    *out = r.weight > 0.0 ? sr1__explained_variance(
                                weighted_variance(r.error, r.error_square, r.weight),
                                weighted_variance(r.returns, r.returns_square, r.weight),
                                r.returns_square / r.weight)
                          : 0.0;
    return SR1_OK;
}
