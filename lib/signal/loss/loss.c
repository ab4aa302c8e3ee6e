/* signal/loss/loss.c - the table of losses, and one of them over a batch:
 *
 *     sum_t w_t [ m_t f(r_t, A_t) + beta kl_t - coef H_t ]
 *
 * f: the row's form; m: importance weights and masks (importance_weights.c). The gradient
 * by the new log-prob of a token is w_t times the slopes; where a sequence has one ratio
 * for all its tokens, the slopes are added up over it and each token gets its share. */
#include "signal/loss/loss.h"

#include "base/mem.h"
#include "base/struct.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the table ---- */

#define OLD SR1_LOSS_NEEDS_OLD
#define ADVANTAGES SR1_LOSS_NEEDS_ADVANTAGES
#define SEQUENCES SR1_LOSS_NEEDS_SEQUENCES
#define LOSS(name, needs, ratio, form, aggregation, options, formula, source, ...)       \
    {#name,                                                                              \
     formula,                                                                            \
     source,                                                                             \
     options,                                                                            \
     aggregation,                                                                        \
     (needs),                                                                            \
     SR1__RATIO_##ratio,                                                                 \
     sr1__form_##form,                                                                   \
     {.struct_size = sizeof(sr1_loss_options), __VA_ARGS__},                             \
     {0},                                                                                \
     NULL},

static const struct sr1__loss_row losses[] = {
#include "signal/loss/losses.def"
};

#define N_LOSSES (sizeof(losses) / sizeof(losses[0]))

/* Built-in ones first. NULL past the last. */
static const struct sr1__loss_row *get_loss(size_t i)
{
    return i < N_LOSSES ? &losses[i] : sr1__registered_loss(i - N_LOSSES);
}

const struct sr1__loss_row *sr1__loss_find(const char *name)
{
    const struct sr1__loss_row *row;

    for (size_t i = 0; (row = get_loss(i)); i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

const char *sr1_loss_kl_name(size_t i)
{
    return sr1__kl_name(i);
}

const char *sr1_loss_name(size_t i)
{
    const struct sr1__loss_row *row = get_loss(i);

    return row ? row->name : NULL;
}

sr1_status sr1_loss_describe(size_t i, sr1_loss_info *out)
{
    const struct sr1__loss_row *row = get_loss(i);
    sr1_loss_info info = {.struct_size = sizeof(info)};

    if (!row)
        return sr1__fail(SR1_E_INVALID, "loss %zu is past the last", i);
    info.name = row->name;
    info.formula = row->formula;
    info.source = row->source;
    info.options = row->options;
    info.aggregation = row->aggregation;
    info.needs = row->needs;
    return sr1__struct_give(out, &info, sizeof(info), "loss info");
}

sr1_status sr1__loss_named(const char *name, const struct sr1__loss_row **out)
{
    if (!name)
        return sr1__fail(SR1_E_INVALID, "loss: the name is NULL");
    *out = sr1__loss_find(name);
    return *out ? SR1_OK : sr1__fail_unknown("loss", name, sr1_loss_name);
}

sr1_status sr1_loss_options_init(sr1_loss_options *options, const char *loss)
{
    const struct sr1__loss_row *row = NULL;

    if (!options)
        return sr1__fail(SR1_E_INVALID, "loss options: NULL");
    SR1__TRY(sr1__loss_named(loss, &row));
    sr1__struct_init(options, &row->defaults, sizeof(row->defaults));
    return SR1_OK;
}

/* ---- ratios ---- */

static double token_log_ratio(const sr1_loss_batch *b, size_t i)
{
    return (double)b->new_log_probs[i] - b->old_log_probs[i];
}

/* d of a token of a geometric mean. *bound: what holds it. */
static double clip_log_ratio(const struct sr1__loss_call *c, size_t i, int *bound)
{
    double d = token_log_ratio(&c->b, i), a = c->b.advantages[i];

    *bound = a > 0.0 && d > c->o.clip_high   ? SR1_LOSS_BOUND_HIGH
             : a < 0.0 && d < -c->o.clip_low ? SR1_LOSS_BOUND_LOW
                                             : SR1_LOSS_BOUND_NONE;
    if (*bound != SR1_LOSS_BOUND_NONE)
        return a > 0.0 ? c->o.clip_high : -c->o.clip_low;
    return a == 0.0 ? 0.0 : d;
}

/* What token i adds to the d of its sequence. */
static double own_log_ratio(const struct sr1__loss_call *c, size_t i)
{
    int bound;

    return c->row->ratio == SR1__RATIO_SEQUENCE_CLIPPED ? clip_log_ratio(c, i, &bound)
                                                        : token_log_ratio(&c->b, i);
}

/* Does the d of its sequence move with token i? */
static int moves_sequence(const struct sr1__loss_call *c, size_t i)
{
    int bound = SR1_LOSS_BOUND_NONE;

    if (c->row->ratio != SR1__RATIO_SEQUENCE_CLIPPED)
        return 1;
    (void)clip_log_ratio(c, i, &bound);
    return bound == SR1_LOSS_BOUND_NONE && c->b.advantages[i] != 0.0f;
}

/* Do the tokens of a sequence share the slope of all? */
static int shares_slope(const struct sr1__loss_row *row)
{
    return row->ratio == SR1__RATIO_SEQUENCE || row->ratio == SR1__RATIO_SEQUENCE_CLIPPED;
}

/* d of every token of a sequence: the mean or the sum of their own. */
static void share_log_ratio(struct sr1__loss_call *c, size_t begin, size_t end)
{
    double sum = 0.0;

    for (size_t i = begin; i < end; i++)
        sum += own_log_ratio(c, i);
    if (c->row->ratio != SR1__RATIO_SEQUENCE_SUM && end > begin)
        sum /= (double)(end - begin);
    for (size_t i = begin; i < end; i++)
        c->log_ratios[i] = sum;
}

static void fill_log_ratios(struct sr1__loss_call *c)
{
    const sr1_loss_batch *b = &c->b;

    if (c->row->ratio == SR1__RATIO_TOKEN)
        for (size_t i = 0; i < b->n; i++)
            c->log_ratios[i] = token_log_ratio(b, i);
    else
        for (size_t s = 0; s < b->n_seqs; s++)
            share_log_ratio(c, (size_t)b->seq_begin[s], (size_t)b->seq_begin[s + 1]);
}

/* ---- tokens ---- */

/* The KL term, zeros without a reference. */
static struct sr1__kl_term kl_of(const struct sr1__loss_call *c, size_t i)
{
    struct sr1__kl_term t = {0.0, 0.0};
    double r;
    int live;

    if (!c->b.ref_log_probs)
        return t;
    t = sr1__kl_estimate(&c->kl, c->b.ref_log_probs[i], c->b.new_log_probs[i]);
    if (c->o.kl_weighted) { /* (r k)' = r (k + k') */
        r = sr1__bounded_exp(token_log_ratio(&c->b, i), &live);
        t.slope = r * (t.slope + (live ? t.value : 0.0));
        t.value *= r;
    }
    return t;
}

static void count_clipping(struct sr1__loss_call *c, size_t i, double w,
                           const struct sr1__loss_token *t, int bound)
{
    double d = token_log_ratio(&c->b, i);
    sr1_loss_report *s = &c->sum;

    s->clip_fraction +=
        bound == SR1_LOSS_BOUND_LOW || bound == SR1_LOSS_BOUND_HIGH ? w : 0.0;
    s->clip_low_fraction += bound == SR1_LOSS_BOUND_LOW ? w : 0.0;
    s->clip_high_fraction += bound == SR1_LOSS_BOUND_HIGH ? w : 0.0;
    s->dual_clip_fraction += bound == SR1_LOSS_BOUND_DUAL ? w : 0.0;
    s->approx_kl -= w * d;
    s->ratio_mean += w * t->ratio;
    s->ratio_max = fmax(s->ratio_max, t->ratio);
    s->log_ratio_max = fmax(s->log_ratio_max, fabs(d));
}

/* The policy's term of token i, times its importance weight. */
static struct sr1__loss_term compute_policy_term(const struct sr1__loss_call *c, size_t i,
                                                 const struct sr1__loss_token *t)
{
    struct sr1__loss_term pg;

    if (c->row->form)
        pg = c->row->form(t, &c->o);
    else
        pg = (struct sr1__loss_term){c->terms.values[i], c->terms.slopes[i],
                                     c->terms.bounds[i]};
    if (c->row->ratio == SR1__RATIO_SEQUENCE_CLIPPED)
        (void)clip_log_ratio(c, i, &pg.bound);
    pg.value *= c->factors[i];
    pg.slope *= c->factors[i];
    return pg;
}

/* Add token i to the sums and set its gradient. With a sequence ratio gradient[i] holds
 * only the KL term, and *shared accumulates the policy term that the sequence's tokens
 * share equally. */
static void add_loss_token(struct sr1__loss_call *c, size_t i, double *shared)
{
    const sr1_loss_options *o = &c->o;
    double w = sr1__loss_weight(&c->b, i);
    struct sr1__loss_token t = {.log_ratio = c->log_ratios[i],
                                .advantage = c->b.advantages[i],
                                .now = c->b.new_log_probs[i],
                                .chosen = c->b.chosen && c->b.chosen[i]};
    struct sr1__kl_term kl = kl_of(c, i);
    struct sr1__loss_term pg;
    double entropy =
        c->b.entropies && !sr1__loss_entropy_is_low(c, i) ? c->b.entropies[i] : 0.0;

    t.ratio = sr1__bounded_exp(t.log_ratio, &t.live);
    pg = compute_policy_term(c, i, &t);
    if (shares_slope(c->row)) {
        c->gradient[i] = w * (o->beta * kl.slope);
        *shared += w * pg.slope;
    } else {
        c->gradient[i] = w * (pg.slope + o->beta * kl.slope);
    }
    c->sum.loss += w * (pg.value + o->beta * kl.value - o->entropy_coef * entropy);
    c->sum.policy_loss += w * pg.value;
    c->sum.kl += w * kl.value;
    c->sum.entropy += w * entropy;
    count_clipping(c, i, w, &t, pg.bound);
}

static void add_tokens(struct sr1__loss_call *c)
{
    double unused = 0.0;

    for (size_t i = 0; i < c->b.n; i++)
        add_loss_token(c, i, &unused);
}

static void add_sequences(struct sr1__loss_call *c)
{
    for (size_t s = 0; s < c->b.n_seqs; s++) {
        size_t begin = (size_t)c->b.seq_begin[s], end = (size_t)c->b.seq_begin[s + 1];
        double shared = 0.0;

        for (size_t i = begin; i < end; i++)
            add_loss_token(c, i, &shared);
        for (size_t i = begin; i < end; i++)
            c->gradient[i] += moves_sequence(c, i) ? shared / (double)(end - begin) : 0.0;
    }
}

/* A loss that reads new_log_probs only. */
static void add_imitation(struct sr1__loss_call *c)
{
    for (size_t i = 0; i < c->b.n; i++) {
        double w = sr1__loss_weight(&c->b, i);
        struct sr1__loss_token t = {.now = c->b.new_log_probs[i]};
        struct sr1__loss_term term = c->row->form(&t, &c->o);

        c->gradient[i] = w * term.slope;
        c->sum.loss += w * term.value;
        c->sum.policy_loss += w * term.value;
    }
}

static void sum_loss(struct sr1__loss_call *c)
{
    if (c->row->needs == 0) {
        add_imitation(c);
        return;
    }
    fill_log_ratios(c);
    sr1__loss_apply_correction(c);
    if (shares_slope(c->row))
        add_sequences(c);
    else
        add_tokens(c);
}

/* ---- one loss ---- */

static sr1_status check_gradient(const struct sr1__loss_call *c)
{
    for (size_t i = 0; i < c->b.n; i++)
        if (!(fabs(c->gradient[i]) <= FLT_MAX)) /* NaN too */
            return sr1__fail(
                SR1_E_NUMERIC,
                "loss: token %zu of %zu: its gradient %g does not fit a float", i, c->b.n,
                c->gradient[i]);
    return SR1_OK;
}

static void copy_loss_gradient(const struct sr1__loss_call *c, float *gradient,
                               float *entropy_gradient)
{
    double coef = c->row->needs ? c->o.entropy_coef : 0.0;

    for (size_t i = 0; gradient && i < c->b.n; i++)
        gradient[i] = (float)c->gradient[i];
    for (size_t i = 0; entropy_gradient && i < c->b.n; i++)
        entropy_gradient[i] = sr1__loss_entropy_is_low(c, i)
                                  ? 0.0f
                                  : (float)(-sr1__loss_weight(&c->b, i) * coef);
}

static sr1_status evaluate_policy_loss(struct sr1__loss_call *c)
{
    c->log_ratios = sr1__calloc(c->b.n + 1, 3 * sizeof(double));
    if (!c->log_ratios)
        return sr1__fail_nomem("loss");
    c->factors = c->log_ratios + c->b.n;
    c->gradient = c->factors + c->b.n;
    if (!c->row->form)
        SR1__TRY(sr1__loss_terms_make(c));
    sum_loss(c);
    for (size_t i = 0; i < c->b.n; i++)
        c->sum.weight += sr1__loss_weight(&c->b, i);
    c->sum.tokens = (int64_t)c->b.n;
    return check_gradient(c);
}

sr1_status sr1__loss_run(const struct sr1__loss_row *row, const sr1_loss_batch *batch,
                         const sr1_loss_options *options, float *gradient,
                         float *entropy_gradient, sr1_loss_report *report)
{
    struct sr1__loss_call c = {.row = row};
    sr1_status st;

    SR1__TRY(sr1__loss_read(&c, batch, options));
    if (report)
        SR1__TRY(sr1__struct_check(report, "loss report"));
    st = evaluate_policy_loss(&c);
    if (st == SR1_OK) {
        copy_loss_gradient(&c, gradient, entropy_gradient);
        if (report)
            st = sr1__struct_give(report, &c.sum, sizeof(c.sum), "loss report");
    }
    sr1__loss_terms_free(&c);
    sr1__free(c.log_ratios);
    return st;
}

sr1_status sr1_loss_compute(const char *name, const sr1_loss_batch *batch,
                            const sr1_loss_options *options, float *gradient,
                            float *entropy_gradient, sr1_loss_report *report)
{
    const struct sr1__loss_row *row = NULL;

    SR1__TRY(sr1__loss_named(name, &row));
    return sr1__loss_run(row, batch, options, gradient, entropy_gradient, report);
}

sr1_status sr1_loss_grpo(const sr1_loss_batch *batch, const sr1_loss_options *options,
                         float *gradient, sr1_loss_report *report)
{
    if (!options)
        return sr1__fail(SR1_E_INVALID, "loss: options are required");
    return sr1_loss_compute("grpo", batch, options, gradient, NULL, report);
}

sr1_status sr1_loss_nll(const sr1_loss_batch *batch, const sr1_loss_options *options,
                        float *gradient, sr1_loss_report *report)
{
    if (options)
        SR1__TRY(sr1__struct_check(options, "loss options"));
    return sr1_loss_compute("nll", batch, NULL, gradient, NULL, report);
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
    total->clip_low_fraction += part->clip_low_fraction;
    total->clip_high_fraction += part->clip_high_fraction;
    total->dual_clip_fraction += part->dual_clip_fraction;
    total->ratio_mean += part->ratio_mean;
    total->entropy += part->entropy;
    total->importance_mean += part->importance_mean;
    total->importance_square += part->importance_square;
    total->importance_max = fmax(total->importance_max, part->importance_max);
    total->importance_cut += part->importance_cut;
    total->off_policy_cut += part->off_policy_cut;
    total->weight += part->weight;
    total->tokens += part->tokens;
}

void sr1__loss_report_scale(sr1_loss_report *r, double v)
{
    double *const sums[] = {&r->loss,
                            &r->policy_loss,
                            &r->kl,
                            &r->clip_fraction,
                            &r->approx_kl,
                            &r->clip_low_fraction,
                            &r->clip_high_fraction,
                            &r->dual_clip_fraction,
                            &r->ratio_mean,
                            &r->entropy,
                            &r->importance_mean,
                            &r->importance_square,
                            &r->importance_cut,
                            &r->off_policy_cut,
                            &r->weight};

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
        *sums[i] *= v;
}
