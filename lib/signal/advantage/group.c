/* signal/advantage/group.c - the advantage of a trajectory over its group (Shao et al.
 * 2024):
 *
 *     A_i = (r_i - mean) / (std + eps),  std = sqrt(sum (r - mean)^2 / n, or / (n - 1))
 *
 * and the same over turns, over groups within groups, and over a whole batch. */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sr1_status sr1__check_finite(const double *v, size_t n, const char *what)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "%s %zu is not finite (%g)", what, i, v[i]);
    return SR1_OK;
}

/* ---- one group ---- */

static double value_range(const double *v, size_t n)
{
    double low = v[0], high = v[0];
    size_t i;

    for (i = 1; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    return high - low;
}

/* Mean and standard deviation, in two passes; n > 1 where unbiased. */
static void mean_std(const double *v, size_t n, int32_t unbiased, double *mean,
                     double *std)
{
    double sum = 0, squares = 0;
    size_t i;

    for (i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / (double)n;
    for (i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *std = sqrt(squares / (double)(unbiased ? n - 1 : n));
}

static void fill_zeros(double *out, size_t n)
{
    memset(out, 0, n * sizeof *out);
}

sr1_status sr1__normalise(const double *v, size_t n, const struct sr1__norm *how,
                          double *out)
{
    double mean, std, scale;
    size_t i;

    if (n == 1 && how->single_raw) {
        out[0] = v[0] / (how->divide ? 1 + how->eps : 1);
        return SR1_OK;
    }
    if (n == 1 || value_range(v, n) <= how->flat) {
        fill_zeros(out, n);
        return SR1_OK;
    }
    mean_std(v, n, how->unbiased, &mean, &std);
    if (!isfinite(mean) || (how->divide && !isfinite(std)))
        return sr1__fail(SR1_E_NUMERIC, "rewards of a group are too large to average");
    scale = how->divide ? std + how->eps : 1;
    if (scale == 0) { /* all differences below the smallest square */
        fill_zeros(out, n);
        return SR1_OK;
    }
    for (i = 0; i < n; i++)
        out[i] = (v[i] - mean) / scale;
    return SR1_OK;
}

static sr1_status check_eps(double eps)
{
    if (!isfinite(eps) || eps < 0)
        return sr1__fail(SR1_E_INVALID, "eps must be a number of at least 0, got %g",
                         eps);
    return SR1_OK;
}

sr1_status sr1_advantage_group(const double *rewards, size_t n, double eps, double *out)
{
    struct sr1__norm how = {.eps = eps, .divide = 1};

    if (n == 0)
        return SR1_OK;
    if (rewards == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "group advantages: rewards or out is NULL");
    SR1__TRY(check_eps(eps));
    SR1__TRY(sr1__check_finite(rewards, n, "reward"));
    return sr1__normalise(rewards, n, &how, out);
}

/* ---- sorting ---- */

static int compare_members(const void *a, const void *b)
{
    const struct sr1__member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->sub != y->sub)
        return x->sub < y->sub ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void sr1__sort_members(struct sr1__member *m, size_t n)
{
    if (n > 1)
        qsort(m, n, sizeof *m, compare_members);
}

sr1_status sr1__sort_groups(const uint64_t *keys, size_t n, struct sr1__member **out)
{
    struct sr1__member *m = sr1__calloc(n > 0 ? n : 1, sizeof *m);
    size_t i;

    SR1__CHECK_ALLOC(m, "groups of a batch");
    for (i = 0; i < n; i++) {
        m[i].key = keys[i];
        m[i].index = i;
    }
    sr1__sort_members(m, n);
    *out = m;
    return SR1_OK;
}

size_t sr1__group_end(const struct sr1__member *m, size_t n, size_t at)
{
    size_t end = at + 1;

    while (end < n && m[end].key == m[at].key && m[end].sub == m[at].sub)
        end++;
    return end;
}

sr1_status sr1__turn_groups(const struct sr1__advantage_call *a, const uint64_t *keys,
                            const uint8_t *use, struct sr1__member **out, size_t *count)
{
    struct sr1__member *m = sr1__calloc(a->n_turns > 0 ? a->n_turns : 1, sizeof *m);
    size_t i, made = 0;

    SR1__CHECK_ALLOC(m, "groups of turns");
    for (i = 0; i < a->n; i++) {
        size_t u;

        for (u = (size_t)a->b->turn_begin[i]; u < (size_t)a->b->turn_begin[i + 1]; u++)
            if (use == NULL || use[u])
                m[made++] = (struct sr1__member){a->b->groups[i], keys[u], u};
    }
    sr1__sort_members(m, made);
    *out = m;
    *count = made;
    return SR1_OK;
}

/* ---- many groups ---- */

struct sr1__norm sr1__norm_of(const sr1_advantage_options *o, int32_t divide)
{
    return (struct sr1__norm){.eps = o->eps,
                              .divide = divide,
                              .unbiased = o->std_kind == SR1_ADVANTAGE_STD_UNBIASED,
                              .single_raw = o->single_raw};
}

/* The values of m[at..end) normalised from v into out, which are indexed as m says. NaN
 * is no value, and gives 0. */
static sr1_status normalise_members(const struct sr1__member *m, size_t at, size_t end,
                                    const double *v, const struct sr1__norm *how,
                                    double *room, double *out)
{
    size_t i, n = 0;

    for (i = at; i < end; i++)
        if (!isnan(v[m[i].index]))
            room[at + n++] = v[m[i].index];
    if (n > 0)
        SR1__TRY(sr1__normalise(room + at, n, how, room + at));
    for (i = at, n = 0; i < end; i++)
        out[m[i].index] = isnan(v[m[i].index]) ? 0.0 : room[at + n++];
    return SR1_OK;
}

sr1_status sr1__normalise_groups(const struct sr1__advantage_call *a, const double *v,
                                 const struct sr1__norm *how, double *out)
{
    double *room = sr1__calloc(a->n > 0 ? a->n : 1, sizeof *room);
    sr1_status status = SR1_OK;
    size_t at, end;

    SR1__CHECK_ALLOC(room, "rewards of a group");
    for (at = 0; status == SR1_OK && at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        status = normalise_members(a->members, at, end, v, how, room, out);
        sr1__context(status, "group of trajectory %zu", a->members[at].index);
    }
    sr1__free(room);
    return status;
}

sr1_status sr1__normalise_turns(struct sr1__advantage_call *a,
                                const struct sr1__member *m, size_t count,
                                const struct sr1__norm *how)
{
    double *room = sr1__calloc(count > 0 ? count : 1, sizeof *room);
    sr1_status status = SR1_OK;
    size_t at, end;

    SR1__CHECK_ALLOC(room, "rewards of turns");
    for (at = 0; status == SR1_OK && at < count; at = end) {
        end = sr1__group_end(m, count, at);
        status = normalise_members(m, at, end, a->turns, how, room, a->turns);
        sr1__context(status, "group of turn %zu", m[at].index);
        if (end - at > 1)
            a->report.turns_compared += (int64_t)(end - at);
        else
            a->report.turns_alone++;
    }
    sr1__free(room);
    return status;
}

/* ---- the whole batch ---- */

static double weighted_mean(const double *v, const double *weights, size_t n,
                            double *total)
{
    double sum = 0;
    size_t i;

    *total = 0;
    for (i = 0; i < n; i++) {
        double w = weights != NULL ? weights[i] : 1;

        sum += w * v[i];
        *total += w;
    }
    return *total > 0 ? sum / *total : 0;
}

/* Equal where it counts? */
static int is_constant(const double *v, const double *weights, size_t n)
{
    size_t i, first = n;

    for (i = 0; i < n; i++) {
        if (weights != NULL && weights[i] == 0)
            continue;
        if (first < n && v[i] != v[first])
            return 0;
        first = first < n ? first : i;
    }
    return 1;
}

sr1_status sr1__divide_by_batch_std(struct sr1__advantage_call *a)
{
    int32_t unbiased = a->o->std_kind == SR1_ADVANTAGE_STD_UNBIASED;
    double mean, std;
    size_t i;

    if (a->n < 2 || is_constant(a->scores, NULL, a->n))
        return SR1_OK;
    mean_std(a->scores, a->n, unbiased, &mean, &std);
    if (!isfinite(std))
        return sr1__fail(SR1_E_NUMERIC, "rewards of the batch are too large to average");
    for (i = 0; i < a->n && std + a->o->eps > 0; i++)
        a->each[i] /= std + a->o->eps;
    return SR1_OK;
}

void sr1__whiten(double *v, const double *weights, size_t n, double eps)
{
    double total, mean = weighted_mean(v, weights, n, &total), squares = 0, scale;
    size_t i;

    if (is_constant(v, weights, n)) {
        fill_zeros(v, n);
        return;
    }
    for (i = 0; i < n; i++)
        squares += (weights != NULL ? weights[i] : 1) * (v[i] - mean) * (v[i] - mean);
    scale = sqrt(squares / (total - 1) + eps);
    if (isinf(scale))
        scale = NAN; /* to be refused, not taken for 0 */
    for (i = 0; i < n; i++)
        v[i] = scale == 0 ? 0 : (v[i] - mean) / scale;
}

sr1_status sr1__whiten_by_tokens(struct sr1__advantage_call *a)
{
    double *lengths;
    size_t i;

    if (a->n > 0 && a->b->token_begin == NULL)
        return sr1__fail(
            SR1_E_INVALID,
            "advantage %s: the batch lacks token_begin, which whitening over "
            "tokens needs",
            a->row->info.name);
    SR1__CALLOC(lengths, a->n + 1, "lengths of trajectories");
    for (i = 0; i < a->n; i++)
        lengths[i] = (double)(a->b->token_begin[i + 1] - a->b->token_begin[i]);
    sr1__whiten(a->each, lengths, a->n, a->o->eps);
    sr1__free(lengths);
    return SR1_OK;
}
