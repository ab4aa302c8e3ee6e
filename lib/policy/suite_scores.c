/* policy/suite_scores.c - see suite_scores.h. A share p of n questions has Wilson's score
 * interval (Wilson 1927)
 *
 *     (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
 *
 * and any other mean the percentiles 2.5 and 97.5 of the means of bootstrap resamples of
 * its questions (Efron 1979). Resamples of questions that all have one value say nothing:
 * a mean of values from 0 to 1, which vary less than a share of the same size, then has
 * Wilson's interval as well. */
#include "policy/suite_scores.h"

#include "base/mem.h"
#include "base/rng.h"

#include <searchr1/ext/critique.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESAMPLES 1000
#define SEED 1979
#define Z 1.959963984540054 /* 97.5 % of the normal distribution lie below */

/* What a figure is computed with. */
struct figure {
    const char *name;
    double (*of_row)(const struct figure *f, const struct sr1__suite_row *r);
    int32_t is_share;   /* each question is right or not: where there is one answer, or
                           always */
    int32_t is_bounded; /* from 0 to 1 */
    int32_t samples, k;
};

enum { NEVER, OF_ONE_ANSWER, ALWAYS };

static double row_exact_match(const struct figure *f, const struct sr1__suite_row *r)
{
    return (double)r->right / f->samples;
}

static double row_f1(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->f1;
}

static double row_majority(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->majority;
}

static double row_pass(const struct figure *f, const struct sr1__suite_row *r)
{
    double p = 0.0;

    (void)sr1_pass_at_k(f->samples, r->right, f->k, &p);
    return p;
}

static double row_searches(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->searches;
}

static double row_tokens(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->tokens;
}

static double row_hit_rate(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->hit_rate;
}

static double row_recall(const struct figure *f, const struct sr1__suite_row *r)
{
    (void)f;
    return r->recall;
}

static const struct figure figures[] = {
    {"exact_match", row_exact_match, OF_ONE_ANSWER, 1, 0, 0},
    {"f1", row_f1, NEVER, 1, 0, 0},
    {"majority", row_majority, ALWAYS, 1, 0, 0},
    {"pass", row_pass, OF_ONE_ANSWER, 1, 0, 0},
    {"searches", row_searches, NEVER, 0, 0, 0},
    {"tokens", row_tokens, NEVER, 0, 0, 0},
    {"retrieval/hit_rate", row_hit_rate, OF_ONE_ANSWER, 1, 0, 0},
    {"retrieval/recall", row_recall, NEVER, 1, 0, 0},
};

static sr1_status find_figure(const char *name, int32_t samples, int32_t k,
                              struct figure *out)
{
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (strcmp(figures[i].name, name) != 0)
            continue;
        *out = figures[i];
        out->samples = samples;
        out->k = k;
        if (strcmp(name, "pass") == 0 && (k < 1 || k > samples))
            return sr1__fail(SR1_E_INVALID, "pass@%d of %d answers", (int)k,
                             (int)samples);
        return SR1_OK;
    }
    return sr1__fail(SR1_E_NOT_FOUND, "a suite has no figure '%.64s'", name);
}

int64_t sr1__suite_set_known(const struct sr1__suite_set *set)
{
    int64_t n = 0;

    for (int64_t i = 0; i < set->n; i++)
        n += set->rows[i].known;
    return n;
}

/* The figure of every question that is known, and of which the figure is. */
static double *list_row_values(const struct figure *f, const struct sr1__suite_set *set,
                               int64_t *count)
{
    double *v = sr1__calloc((size_t)set->n + 1, sizeof(*v));

    *count = 0;
    for (int64_t i = 0; v && i < set->n; i++) {
        double value = set->rows[i].known ? f->of_row(f, &set->rows[i]) : NAN;

        if (!isnan(value))
            v[(*count)++] = value;
    }
    return v;
}

static double average_values(const double *v, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

/* Add the mean of each resample of v[n], divided by the number of sets, to means. */
static void add_resamples(const double *v, int64_t n, uint64_t stream, size_t n_sets,
                          double *means)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, SEED, stream);
    for (size_t b = 0; b < RESAMPLES; b++) {
        double sum = 0.0;

        for (int64_t i = 0; i < n; i++)
            sum += v[sr1__rng_below(&rng, (uint64_t)n)];
        means[b] += sum / (double)n / (double)n_sets;
    }
}

static int compare_means(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Between neighbours, as numpy's default. */
static double find_percentile(const double *sorted, double share)
{
    double at = share * (RESAMPLES - 1);
    size_t i = (size_t)at;
    double rest = at - (double)i;

    return i + 1 < RESAMPLES ? sorted[i] + rest * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* In place of Wilson's, unless the resamples say nothing where that would hold. */
static void bootstrap_interval(const struct figure *f, double means[RESAMPLES],
                               struct sr1__suite_value *out)
{
    qsort(means, RESAMPLES, sizeof(*means), compare_means);
    if (f->is_bounded && means[0] == means[RESAMPLES - 1])
        return;
    out->low = find_percentile(means, 0.025);
    out->high = find_percentile(means, 0.975);
}

/* Add the ends of a set's interval, divided by the number of sets, to those of *out. */
static void add_wilson_interval(double p, int64_t questions, size_t n_sets,
                                struct sr1__suite_value *out)
{
    double n = (double)questions, z2 = Z * Z / n;
    double middle = (p + z2 / 2) / (1 + z2);
    double half = Z * sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2);

    out->low += (p > 0 ? middle - half : 0.0) / (double)n_sets;
    out->high += (p < 1 ? middle + half : 1.0) / (double)n_sets;
}

/* One set's part of the figure, and of its resamples (NULL: none are wanted). */
static sr1_status add_set_mean(const struct figure *f, const struct sr1__suite_set *set,
                               uint64_t stream, size_t n_sets, double *means,
                               struct sr1__suite_value *out)
{
    int64_t n = 0;
    double *v = list_row_values(f, set, &n);
    double mean;

    SR1__CHECK_ALLOC(v, "figures of a suite");
    mean = n ? average_values(v, n) : NAN;
    out->value += mean / (double)n_sets;
    add_wilson_interval(mean, n, n_sets, out);
    if (n > 0 && means)
        add_resamples(v, n, stream, n_sets, means);
    sr1__free(v);
    return SR1_OK;
}

static int is_share_of_rows(const struct figure *f, size_t n_sets)
{
    return n_sets == 1 &&
           (f->is_share == ALWAYS || (f->is_share == OF_ONE_ANSWER && f->samples == 1));
}

sr1_status sr1__suite_figure(const struct sr1__suite_set *sets, size_t n_sets,
                             int32_t samples, const char *name, int32_t k,
                             struct sr1__suite_value *out)
{
    struct sr1__suite_value found = {0.0, 0.0, 0.0};
    struct figure f;
    double *means = NULL;
    sr1_status st = SR1_OK;

    SR1__TRY(find_figure(name, samples, k, &f));
    if (!is_share_of_rows(&f, n_sets))
        SR1__CALLOC(means, RESAMPLES, "resamples of a suite");
    for (size_t i = 0; i < n_sets && st == SR1_OK; i++)
        st = add_set_mean(&f, &sets[i], i, n_sets, means, &found);
    if (st == SR1_OK && (!isfinite(found.value) || n_sets == 0))
        found.low = found.high = NAN;
    else if (st == SR1_OK && means)
        bootstrap_interval(&f, means, &found);
    sr1__free(means);
    if (st == SR1_OK)
        *out = found;
    return st;
}
