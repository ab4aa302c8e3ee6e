/* signal/reward/answer_figures.c - see answer_figures.h. Of N values v_1 <= ... <= v_N
 * the greatest of k, drawn with replacement, is v_i with probability
 *
 *     (i / N)^k - ((i - 1) / N)^k
 *
 * The majority of a draw: let p_g be the share of the N answers that say g. Answer g has
 * most of k votes with
 *
 *     k! sum_c p_g^c / c!  sum_t 1 / (1 + t)  [x^(k - c) y^t]
 *         prod_{h != g} (sum_{i < c} (p_h x)^i / i! + y (p_h x)^c / c!)
 *
 * where t others have c votes as well: which of them was drawn first is open, as the
 * order of a draw is. Its value is then that of one of its answers, each alike. */
#include "signal/reward/answer_figures.h"

#include "base/mem.h"
#include "signal/reward/ground_truths.h"

#include <searchr1/ext/text_metrics.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const whole_figures[] = {"mean@%d", "std@%d", "best", "majority"};
static const char *const drawn_figures[] = {"best@%d/mean",  "best@%d/std",
                                            "worst@%d/mean", "worst@%d/std",
                                            "maj@%d/mean",   "maj@%d/std"};

#define N_WHOLE (sizeof(whole_figures) / sizeof(whole_figures[0]))
#define N_DRAWN (sizeof(drawn_figures) / sizeof(drawn_figures[0]))

/* ---- names ---- */

static int32_t list_draw_sizes(int32_t n, int32_t sizes[SR1__DRAW_SIZES_MAX])
{
    int32_t count = 0;

    if (n < 2)
        return 0;
    for (int32_t k = 2; k < n; k *= 2)
        sizes[count++] = k;
    sizes[count++] = n;
    return count;
}

size_t sr1__answer_figure_count(int32_t n)
{
    int32_t sizes[SR1__DRAW_SIZES_MAX];

    return n < 2 ? 1 : N_WHOLE + N_DRAWN * (size_t)list_draw_sizes(n, sizes);
}

void sr1__answer_figure_name(int32_t n, size_t i, char out[SR1__ANSWER_FIGURE_NAME])
{
    int32_t sizes[SR1__DRAW_SIZES_MAX];

    (void)list_draw_sizes(n, sizes);
    if (i < N_WHOLE)
        snprintf(out, SR1__ANSWER_FIGURE_NAME, whole_figures[i], (int)n);
    else
        snprintf(out, SR1__ANSWER_FIGURE_NAME, drawn_figures[(i - N_WHOLE) % N_DRAWN],
                 (int)sizes[(i - N_WHOLE) / N_DRAWN]);
}

/* ---- votes ---- */

sr1_status sr1__normalise_vote(struct sr1__str answer, char **out)
{
    struct sr1__buf b;
    size_t size;
    sr1_status st;

    sr1__buf_init(&b, 0);
    st = sr1__settle_answer(&answer, &b);
    if (st == SR1_OK)
        st = sr1_reward_normalize(answer.s, answer.n, out, &size);
    sr1__buf_free(&b);
    return st;
}

int32_t sr1__find_majority(char *const *texts, int32_t n)
{
    int32_t best = -1, most = 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t count = 0;

        for (int32_t k = 0; *texts[i] && k < n; k++)
            count += strcmp(texts[i], texts[k]) == 0;
        if (count > most) {
            most = count;
            best = i;
        }
    }
    return best;
}

/* The answers by what they say. */
struct vote_groups {
    int32_t n, n_groups, silent;
    int32_t of[SR1__ANSWERS_MAX]; /* -1: it says nothing */
    int32_t size[SR1__ANSWERS_MAX];
};

static int32_t find_vote_group(const struct vote_groups *g, char *const *texts, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (g->of[k] >= 0 && strcmp(texts[k], texts[i]) == 0)
            return g->of[k];
    return -1;
}

static void group_votes(struct vote_groups *g, char *const *texts, int32_t n)
{
    *g = (struct vote_groups){.n = n};
    for (int32_t i = 0; i < n; i++) {
        g->of[i] = *texts[i] ? find_vote_group(g, texts, i) : -1;
        if (!*texts[i]) {
            g->silent++;
            continue;
        }
        if (g->of[i] < 0)
            g->of[i] = g->n_groups++;
        g->size[g->of[i]]++;
    }
}

/* ---- the majority of a draw ---- */

/* Multiply the polynomial sums[ties + 1][draws + 1] (in y and x) by the factor of a group
 * with this share, of which at most `most` are drawn. */
static void multiply_group(double *sums, int32_t draws, int32_t ties, double share,
                           int32_t most)
{
    double weight[SR1__ANSWERS_MAX + 2] = {1.0}; /* share^i / i! */
    int32_t width = draws + 1;

    for (int32_t i = 1; i <= most && i <= draws; i++)
        weight[i] = weight[i - 1] * share / i;
    for (int32_t t = ties; t >= 0; t--)
        for (int32_t j = draws; j >= 0; j--) {
            double sum = 0.0;

            for (int32_t i = 0; i < most && i <= j; i++)
                sum += weight[i] * sums[t * width + j - i];
            if (t > 0 && most <= j)
                sum += weight[most] * sums[(t - 1) * width + j - most];
            sums[t * width + j] = sum;
        }
}

/* The inner sum of the formula: `left` draws are of others, none of which is drawn more
 * than `most` times. */
static double weigh_others(const struct vote_groups *g, int32_t own, int32_t left,
                           int32_t most, double *sums)
{
    int32_t ties = left / most, width = left + 1;
    double total = 0.0;

    memset(sums, 0, (size_t)(ties + 1) * (size_t)width * sizeof(*sums));
    sums[0] = 1.0;
    for (int32_t h = 0; h < g->n_groups; h++)
        if (h != own)
            multiply_group(sums, left, ties, (double)g->size[h] / g->n, most);
    if (g->silent) /* as often as they like */
        multiply_group(sums, left, ties, (double)g->silent / g->n, left + 1);
    for (int32_t t = 0; t <= ties; t++)
        total += sums[t * width + left] / (1 + t);
    return total;
}

static double win_probability(const struct vote_groups *g, int32_t own, int32_t draws,
                              double *sums)
{
    double share = (double)g->size[own] / g->n, weight = 1.0, total = 0.0;

    for (int32_t c = 1; c <= draws; c++) {
        weight *= share / c;
        total += weight * weigh_others(g, own, draws - c, c, sums);
    }
    return total * tgamma(draws + 1.0);
}

/* Groups of one size are equally likely. */
static void fill_win_probabilities(const struct vote_groups *g, int32_t draws,
                                   double *sums, double *win)
{
    for (int32_t own = 0; own < g->n_groups; own++) {
        int32_t same = 0;

        while (g->size[same] != g->size[own])
            same++;
        win[own] = same < own ? win[same] : win_probability(g, own, draws, sums);
    }
}

static void fill_chosen(const struct vote_groups *g, int32_t draws, double *sums,
                        double *chosen)
{
    double win[SR1__ANSWERS_MAX];
    double none = g->silent ? pow((double)g->silent / g->n, draws) / g->silent : 0.0;

    fill_win_probabilities(g, draws, sums, win);
    for (int32_t i = 0; i < g->n; i++)
        chosen[i] = g->of[i] < 0 ? none : win[g->of[i]] / g->size[g->of[i]];
}

sr1_status sr1__answer_votes_count(struct sr1__answer_votes *v, char *const *texts,
                                   int32_t n)
{
    struct vote_groups groups;
    double *sums;

    v->n = n;
    v->n_sizes = list_draw_sizes(n, v->sizes);
    v->majority = -1;
    if (v->n_sizes == 0) /* one answer: no vote is looked at */
        return SR1_OK;
    v->majority = sr1__find_majority(texts, n);
    SR1__CALLOC(sums, (size_t)n * (size_t)n, "votes of answers");
    group_votes(&groups, texts, n);
    for (int32_t k = 0; k < v->n_sizes; k++)
        fill_chosen(&groups, v->sizes[k], sums, v->chosen[k]);
    sr1__free(sums);
    return SR1_OK;
}

/* ---- figures ---- */

/* Mean and standard deviation of values that are as likely as weights say. */
static void put_spread(const double *weights, const double *values, int32_t n,
                       double *out)
{
    double mean = 0.0, square = 0.0;

    for (int32_t i = 0; i < n; i++)
        mean += weights[i] * values[i];
    for (int32_t i = 0; i < n; i++)
        square += weights[i] * (values[i] - mean) * (values[i] - mean);
    out[0] = mean;
    out[1] = sqrt(square);
}

static int compare_answer_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How likely each of n sorted values is the greatest of a draw. */
static void fill_greatest(double *weights, int32_t n, int32_t draws)
{
    for (int32_t i = 0; i < n; i++)
        weights[i] = pow((double)(i + 1) / n, draws) - pow((double)i / n, draws);
}

static void reverse_weights(double *weights, int32_t n)
{
    for (int32_t i = 0; i < n / 2; i++) {
        double w = weights[i];

        weights[i] = weights[n - 1 - i];
        weights[n - 1 - i] = w;
    }
}

static void put_whole_figures(const struct sr1__answer_votes *v, const double *values,
                              const double *sorted, double out[N_WHOLE])
{
    double alike[SR1__ANSWERS_MAX];

    for (int32_t i = 0; i < v->n; i++)
        alike[i] = 1.0 / v->n;
    put_spread(alike, values, v->n, out);
    out[2] = sorted[v->n - 1];
    out[3] = v->majority < 0 ? out[0] : values[v->majority];
}

void sr1__answer_figures(const struct sr1__answer_votes *v, const double *values,
                         double out[SR1__ANSWER_FIGURES_MAX])
{
    double sorted[SR1__ANSWERS_MAX], weights[SR1__ANSWERS_MAX];

    out[0] = values[0];
    if (v->n_sizes == 0)
        return;
    memcpy(sorted, values, (size_t)v->n * sizeof(*sorted));
    qsort(sorted, (size_t)v->n, sizeof(*sorted), compare_answer_values);
    put_whole_figures(v, values, sorted, out);
    for (int32_t k = 0; k < v->n_sizes; k++) {
        double *of_draw = out + N_WHOLE + (size_t)k * N_DRAWN;

        fill_greatest(weights, v->n, v->sizes[k]);
        put_spread(weights, sorted, v->n, of_draw);
        reverse_weights(weights, v->n);
        put_spread(weights, sorted, v->n, of_draw + 2);
        put_spread(v->chosen[k], values, v->n, of_draw + 4);
    }
}
