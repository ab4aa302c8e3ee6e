/* advantage/group.c - the advantage of a trajectory over its group (Shao et al. 2024):
 *
 *     A_i = (r_i - mean) / (std + eps),  std = sqrt(mean((r - mean)^2))
 *
 * and which groups have none to give. */
#include "advantage/group.h"

#include "base/mem.h"

#include <searchr1/advantage.h>

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

static int all_equal(const double *v, size_t n)
{
    size_t i;

    for (i = 1; i < n; i++)
        if (v[i] != v[0])
            return 0;
    return 1;
}

/* Population mean and standard deviation, in two passes. */
static void mean_std(const double *v, size_t n, double *mean, double *std)
{
    double sum = 0, squares = 0;
    size_t i;

    for (i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / (double)n;
    for (i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *std = sqrt(squares / (double)n);
}

sr1_status sr1__group_advantages(const double *rewards, size_t n, double eps,
                                 int32_t divide_by_std, double *out)
{
    double mean, std;
    size_t i;

    if (all_equal(rewards, n)) {
        memset(out, 0, n * sizeof *out);
        return SR1_OK;
    }
    mean_std(rewards, n, &mean, &std);
    if (!isfinite(mean) || !isfinite(std))
        return sr1__fail(SR1_E_NUMERIC, "rewards of a group are too large to average");
    if (divide_by_std && std + eps == 0) { /* all differences below the smallest square */
        memset(out, 0, n * sizeof *out);
        return SR1_OK;
    }
    for (i = 0; i < n; i++)
        out[i] = (rewards[i] - mean) / (divide_by_std ? std + eps : 1.0);
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
    if (n == 0)
        return SR1_OK;
    if (rewards == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "group advantages: rewards or out is NULL");
    SR1__TRY(check_eps(eps));
    SR1__TRY(sr1__check_finite(rewards, n, "reward"));
    return sr1__group_advantages(rewards, n, eps, 1, out);
}

static int by_key_then_index(const void *a, const void *b)
{
    const struct sr1__member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

sr1_status sr1__group_sort(const uint64_t *keys, size_t n, struct sr1__member **out)
{
    struct sr1__member *m = sr1__calloc(n > 0 ? n : 1, sizeof *m);
    size_t i;

    if (m == NULL)
        return sr1__fail_nomem("groups of a batch");
    for (i = 0; i < n; i++) {
        m[i].key = keys[i];
        m[i].index = i;
    }
    qsort(m, n, sizeof *m, by_key_then_index);
    *out = m;
    return SR1_OK;
}

size_t sr1__group_end(const struct sr1__member *m, size_t n, size_t at)
{
    size_t end = at + 1;

    while (end < n && m[end].key == m[at].key)
        end++;
    return end;
}
