/* signal/advantage/pass_at_k.c - the contribution of a trajectory to the best of k of its
 * group:
 *
 *     A_i = mean over the sets S of k with i in S of (max_S - max_{S - i}) / (std + eps)
 *
 * Walder and Karkhanis 2025 (PKPO), the leave-one-out form, as a mean. With k
 * the whole group only the best has one, best minus second best (Tang et al. 2025; verl
 * grpo_passk). With the group sorted, r_0 <= r_1 <= ..., i at rank j gains r_j - r_m
 * where r_m is the best of the k - 1 others, which has the chance
 *
 *     p_m = C(m, k - 2) / C(n - 1, k - 1)
 *
 *     so  A_j = A_{j-1} + (r_j - r_{j-1}) sum_{m < j} p_m
 */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

struct ranked_score {
    double score;
    size_t index;
};

static int lower_first(const void *a, const void *b)
{
    const struct ranked_score *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* p[m], m < n - 1, from the largest down; 2 <= k <= n. */
static void fill_best_chances(size_t n, size_t k, double *p)
{
    size_t m;

    p[n - 2] = (double)(k - 1) / (double)(n - 1);
    for (m = n - 2; m > 0; m--)
        p[m - 1] = m + 2 > k ? p[m] * (double)(m + 2 - k) / (double)m : 0;
}

/* What divides: standard deviation + eps, or 1. */
static double scale_of(const struct sr1__advantage_call *a, const struct ranked_score *r,
                       size_t n)
{
    double mean = 0, squares = 0, scale;
    size_t i;
    int unbiased = a->o->std_kind == SR1_ADVANTAGE_STD_UNBIASED;

    if (!a->o->divide_by_std)
        return 1;
    for (i = 0; i < n; i++)
        mean += r[i].score / (double)n;
    for (i = 0; i < n; i++)
        squares += (r[i].score - mean) * (r[i].score - mean);
    scale = sqrt(squares / (double)(unbiased ? n - 1 : n)) + a->o->eps;
    if (isinf(scale))
        return NAN; /* to be refused, not taken for no gain */
    return scale == 0 ? 1 : scale;
}

/* One group of n > 1, sorted; p has room for n. */
static void add_best(struct sr1__advantage_call *a, const struct ranked_score *r,
                     size_t n, double *p)
{
    size_t k = a->o->pass_k == 0 || (size_t)a->o->pass_k > n ? n : (size_t)a->o->pass_k;
    double scale = scale_of(a, r, n), chance = 0, gain = 0;
    size_t j;

    fill_best_chances(n, k, p);
    for (j = 1; j < n; j++) {
        chance += p[j - 1];
        gain += (r[j].score - r[j - 1].score) * chance;
        a->each[r[j].index] = gain / scale;
    }
}

sr1_status sr1__advantage_pass_at_k(struct sr1__advantage_call *a)
{
    struct ranked_score *r = sr1__calloc(a->n + 1, sizeof *r);
    double *p = sr1__calloc(a->n + 1, sizeof *p);
    sr1_status status = r != NULL && p != NULL ? SR1_OK : sr1__fail_nomem("ranks");
    size_t at, end, i;

    for (at = 0; status == SR1_OK && at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        for (i = at; i < end; i++) {
            r[i - at].index = a->members[i].index;
            r[i - at].score = a->scores[a->members[i].index];
        }
        qsort(r, end - at, sizeof *r, lower_first);
        if (end - at > 1)
            add_best(a, r, end - at, p);
    }
    sr1__free(r);
    sr1__free(p);
    return status;
}
