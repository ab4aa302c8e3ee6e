/* signal/loss/rejection.c - which tokens are trained on by how far the policy before the
 * update is from the one that sampled them (verl's rollout_rs). Of a token, with d = old
 * - rollout log-prob within +-20:
 *
 *     k1 = -d      k2 = d^2 / 2      k3 = exp(d) - d - 1
 *
 * token_*: each by its own; seq_sum_*, seq_mean_*, seq_max_*: all tokens of a sequence by
 * the sum, the mean or the largest of them. k1, the log of a ratio rollout / old (of a
 * sum: of the product, of a mean: of the geometric mean), is kept from log(lower) to
 * log(upper); the others, which are never negative, up to upper. */
#include "signal/loss/loss.h"

#include "base/num.h"
#include "base/struct.h"

#include <math.h>
#include <string.h>

#define LOG_RATIO_MAX 20.0

/* ---- criteria ---- */

/* Of the tokens of a sequence. */
struct measures {
    double sum, max;
    size_t n;
};

struct sr1__criterion_row {
    const char *name;
    double (*measure)(double d);
    double (*reduce)(const struct measures *m); /* NULL: by token */
    int of_ratios;                              /* bounds are of a ratio, on both sides */
};

static double measure_k1(double d)
{
    return 0.0 - d; /* not -0 of 0 */
}

static double measure_k2(double d)
{
    return 0.5 * d * d;
}

static double measure_k3(double d)
{
    return expm1(d) - d;
}

static double take_sum(const struct measures *m)
{
    return m->sum;
}

static double take_mean(const struct measures *m)
{
    return m->n ? m->sum / (double)m->n : 0.0;
}

static double take_max(const struct measures *m)
{
    return m->n ? m->max : 0.0;
}

static const struct sr1__criterion_row rows[] = {
    {"token_k1", measure_k1, NULL, 1},         {"token_k2", measure_k2, NULL, 0},
    {"token_k3", measure_k3, NULL, 0},         {"seq_sum_k1", measure_k1, take_sum, 1},
    {"seq_sum_k2", measure_k2, take_sum, 0},   {"seq_sum_k3", measure_k3, take_sum, 0},
    {"seq_mean_k1", measure_k1, take_mean, 1}, {"seq_mean_k2", measure_k2, take_mean, 0},
    {"seq_mean_k3", measure_k3, take_mean, 0}, {"seq_max_k2", measure_k2, take_max, 0},
    {"seq_max_k3", measure_k3, take_max, 0},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(N_ROWS == SR1__CRITERIA, "room for each criterion once");

const char *sr1_loss_rejection_name(size_t i)
{
    return i < N_ROWS ? rows[i].name : NULL;
}

const char *sr1__criterion_name(const struct sr1__criterion *k)
{
    return k->row->name;
}

int sr1__criterion_by_token(const struct sr1__criterion *k)
{
    return !k->row->reduce;
}

/* ---- their texts ---- */

/* An item of a text with commas, without the spaces around it. */
struct item {
    const char *text;
    size_t len;
};

/* The next of *list, from the text before it on; 0: there is none. */
static int take_item(const char **list, struct item *out)
{
    const char *at = *list;

    if (!at || !*at)
        return 0;
    at += strspn(at, " \t");
    out->text = at;
    out->len = strcspn(at, ",");
    *list = at + out->len + (at[out->len] == ',');
    while (out->len > 0 && strchr(" \t", at[out->len - 1]))
        out->len--;
    return 1;
}

static sr1_status add_criterion(struct sr1__rejection *r, const struct item *name)
{
    const struct sr1__criterion_row *row = NULL;
    char text[64];

    for (size_t i = 0; i < N_ROWS && !row; i++)
        if (strlen(rows[i].name) == name->len &&
            memcmp(rows[i].name, name->text, name->len) == 0)
            row = &rows[i];
    if (!row) {
        size_t len = name->len < sizeof(text) ? name->len : sizeof(text) - 1;

        memcpy(text, name->text, len);
        text[len] = '\0';
        return sr1__fail_unknown("rollout_rs", text, sr1_loss_rejection_name);
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->criteria[i].row == row)
            return sr1__fail(SR1_E_INVALID,
                             "rollout_rs: %s is there twice; leave one out", row->name);
    r->criteria[r->n++].row = row;
    return SR1_OK;
}

static sr1_status refuse_threshold(const struct sr1__criterion *k, const struct item *t,
                                   const char *want)
{
    return sr1__fail(SR1_E_INVALID, "rollout_rs_threshold of %s is '%.*s', and not %s",
                     k->row->name, (int)(t->len < 64 ? t->len : 64), t->text, want);
}

/* lower_upper, or upper alone, which stands for 1/upper too. */
static sr1_status read_ratio_bounds(struct sr1__criterion *k, const struct item *t)
{
    const char *bar = memchr(t->text, '_', t->len);
    size_t first = bar ? (size_t)(bar - t->text) : t->len;
    double low, high;
    int ok = sr1__parse_real(t->text, first, &low);

    if (bar)
        ok = ok && sr1__parse_real(bar + 1, t->len - first - 1, &high);
    else if (ok)
        high = low, low = 1.0 / high;
    if (!ok || !(low > 0.0) || !(high > 0.0) || !isfinite(low) || low > high)
        return refuse_threshold(k, t,
                                "lower_upper, as 0.5_2, with 0 < lower <= upper, or one "
                                "number u of 1 or more for 1/u_u");
    k->low = log(low);
    k->high = log(high);
    return SR1_OK;
}

static sr1_status read_threshold(struct sr1__criterion *k, const struct item *t)
{
    if (k->row->of_ratios)
        return read_ratio_bounds(k, t);
    if (!sr1__parse_real(t->text, t->len, &k->high) || !(k->high > 0.0))
        return refuse_threshold(k, t, "one number above 0");
    k->low = 0.0;
    return SR1_OK;
}

/* One for each criterion, or one for all. */
static sr1_status read_thresholds(struct sr1__rejection *r, const char *thresholds)
{
    const char *list = thresholds;
    struct item t[SR1__CRITERIA + 1];
    size_t n = 0;

    while (n <= SR1__CRITERIA && take_item(&list, &t[n]))
        n++;
    if (n == 0)
        return sr1__fail(SR1_E_INVALID,
                         "rollout_rs needs rollout_rs_threshold; set lower_upper, as "
                         "0.5_2, for criteria of k1, and one number for the others");
    if (n != 1 && n != r->n)
        return sr1__fail(SR1_E_INVALID,
                         "rollout_rs has %zu criteria, and rollout_rs_threshold another "
                         "number of thresholds; give one for each, or one for all",
                         r->n);
    for (size_t i = 0; i < r->n; i++)
        SR1__TRY(read_threshold(&r->criteria[i], &t[n == 1 ? 0 : i]));
    return SR1_OK;
}

sr1_status sr1__rejection_parse(struct sr1__rejection *out, const char *criteria,
                                const char *thresholds)
{
    struct sr1__rejection r = {0};
    const char *list = criteria;
    struct item name;

    while (take_item(&list, &name))
        SR1__TRY(add_criterion(&r, &name));
    if (r.n == 0)
        return sr1__fail(SR1_E_INVALID, "rollout_rs names no criterion");
    SR1__TRY(read_thresholds(&r, thresholds));
    *out = r;
    return SR1_OK;
}

/* ---- figures ---- */

/* Of the values so far, by Welford's recurrence. */
struct criterion_spread {
    double mean, square; /* sum of squared deviations */
    double max, min;
    size_t n, high, low; /* values, and those beyond the bounds */
};

static void add_to_spread(struct criterion_spread *s, const struct sr1__criterion *k,
                          double v)
{
    double d = v - s->mean;

    s->n++;
    s->mean += d / (double)s->n;
    s->square += d * (v - s->mean);
    s->max = s->n == 1 ? v : fmax(s->max, v);
    s->min = s->n == 1 ? v : fmin(s->min, v);
    s->high += v > k->high;
    s->low += k->row->of_ratios && v < k->low;
}

/* What one criterion makes of a batch. */
struct verdict {
    struct criterion_spread tokens, held, sequences; /* held: tokens' within the bounds */
    size_t dropped, sequences_dropped;
};

static double divide_counts(size_t part, size_t n)
{
    return n ? (double)part / (double)n : 0.0;
}

static void describe_verdict(const struct sr1__criterion *k, const struct verdict *v,
                             sr1_rejection_report *r)
{
    const struct criterion_spread *s = &v->sequences,
                                  *own = k->row->reduce ? s : &v->tokens;

    r->mean = v->tokens.mean;
    r->max = own->max;
    r->min = own->min;
    r->fraction_high = divide_counts(own->high, own->n);
    r->fraction_low = divide_counts(own->low, own->n);
    r->std = v->held.n ? sqrt(v->held.square / (double)v->held.n) : 0.0;
    r->seq_mean = s->mean;
    r->seq_std = s->n > 1 ? sqrt(s->square / (double)(s->n - 1)) : 0.0;
    r->seq_max = s->max;
    r->seq_min = s->min;
    r->seq_max_deviation = fmax(fabs(s->max), fabs(s->min));
    r->seq_fraction_high = divide_counts(s->high, s->n);
    r->seq_fraction_low = divide_counts(s->low, s->n);
}

/* ---- a batch ---- */

static int passes_criterion(const struct sr1__criterion *k, double v)
{
    return v <= k->high && (!k->row->of_ratios || v >= k->low);
}

static double measure_token(const struct sr1__criterion *k, const sr1_loss_batch *b,
                            size_t i)
{
    double d = (double)b->old_log_probs[i] - b->rollout_log_probs[i];

    return k->row->measure(fmin(fmax(d, -LOG_RATIO_MAX), LOG_RATIO_MAX));
}

/* The tokens [begin, end) of a sequence, where there are any. */
static void judge_sequence(const struct sr1__criterion *k, const sr1_loss_batch *b,
                           size_t begin, size_t end, uint8_t *keep, struct verdict *v)
{
    struct measures m = {.n = end - begin};
    size_t dropped = 0;
    double whole;

    for (size_t i = begin; i < end; i++) {
        double x = measure_token(k, b, i);

        m.sum += x;
        m.max = i == begin ? x : fmax(m.max, x);
    }
    whole = k->row->reduce ? k->row->reduce(&m) : take_mean(&m);
    for (size_t i = begin; i < end; i++) {
        double x = k->row->reduce ? whole : measure_token(k, b, i);

        add_to_spread(&v->tokens, k, x);
        add_to_spread(&v->held, k, fmin(fmax(x, k->low), k->high));
        dropped += !passes_criterion(k, x);
        keep[i] &= (uint8_t)passes_criterion(k, x);
    }
    add_to_spread(&v->sequences, k, whole);
    v->dropped += dropped;
    v->sequences_dropped += dropped > 0;
}

void sr1__reject_by(const struct sr1__criterion *k, const sr1_loss_batch *b,
                    uint8_t *keep, sr1_rejection_report *report)
{
    struct verdict v = {0};

    for (size_t s = 0; s < b->n_seqs; s++)
        if (b->seq_begin[s + 1] > b->seq_begin[s])
            judge_sequence(k, b, (size_t)b->seq_begin[s], (size_t)b->seq_begin[s + 1],
                           keep, &v);
    describe_verdict(k, &v, report);
    report->masked_fraction = divide_counts(v.dropped, v.tokens.n);
    report->seq_masked_fraction = divide_counts(v.sequences_dropped, v.sequences.n);
}

void sr1__rejection_count(const sr1_loss_batch *b, const uint8_t *keep,
                          sr1_rejection_report *report)
{
    size_t tokens = 0, sequences = 0;

    for (size_t s = 0; s < b->n_seqs; s++) {
        size_t before = tokens;

        for (int64_t i = b->seq_begin[s]; i < b->seq_begin[s + 1]; i++)
            tokens += !keep[i];
        sequences += tokens > before;
    }
    report->masked_fraction = divide_counts(tokens, b->n);
    report->seq_masked_fraction = divide_counts(sequences, b->n_seqs);
}

static sr1_status read_rejection_batch(const sr1_loss_batch *given, sr1_loss_batch *b)
{
    SR1__REQUIRE(given, "loss: batch");
    SR1__TRY(sr1__struct_take(b, sizeof(*b), given,
                              SR1__STRUCT_END(sr1_loss_batch, new_log_probs),
                              "loss batch"));
    if (b->n > 0)
        SR1__REQUIRE(b->old_log_probs && b->rollout_log_probs && b->seq_begin,
                     "loss: old_log_probs, rollout_log_probs and seq_begin");
    if (b->seq_begin)
        SR1__TRY(sr1__loss_check_sequences(b));
    else
        b->n_seqs = 0;
    SR1__TRY(sr1__loss_check_finite("old_log_probs", b->old_log_probs, b->n));
    return sr1__loss_check_finite("rollout_log_probs", b->rollout_log_probs, b->n);
}

sr1_status sr1_loss_reject(const sr1_loss_batch *batch, const char *criteria,
                           const char *thresholds, uint8_t *keep,
                           sr1_rejection_report *report)
{
    sr1_loss_batch b = {0};
    sr1_rejection_report first = {0}, other = {0};
    struct sr1__rejection r = {0};

    SR1__TRY(sr1__rejection_parse(&r, criteria, thresholds));
    SR1__TRY(read_rejection_batch(batch, &b));
    SR1__REQUIRE(keep || b.n == 0, "loss: room for the tokens that are kept");
    if (report)
        SR1__TRY(sr1__struct_check(report, "rejection report"));
    if (b.n > 0)
        memset(keep, 1, b.n);
    for (size_t i = 0; i < r.n; i++)
        sr1__reject_by(&r.criteria[i], &b, keep, i == 0 ? &first : &other);
    sr1__rejection_count(&b, keep, &first);
    first.struct_size = sizeof(first);
    return report ? sr1__struct_give(report, &first, sizeof(first), "rejection report")
                  : SR1_OK;
}
