/* signal/advantage/zero_variance.c - zero-variance groups (all rewards equal, so no
 * gradient), and DAPO's dynamic sampling. */
#include "signal/advantage/group.h"

#include "base/mem.h"

#include <searchr1/advantage.h>
#include <searchr1/ext/batching.h>
#include <searchr1/ext/estimators.h>

#include <math.h>

/* Does the group m[at..end) teach? */
typedef int (*teaches_fn)(const double *scores, const struct sr1__member *m, size_t at,
                          size_t end, const double *bounds);

static int any_difference(const double *rewards, const struct sr1__member *m, size_t at,
                          size_t end, const double *bounds)
{
    size_t i;

    (void)bounds;
    for (i = at + 1; i < end; i++)
        if (rewards[m[i].index] != rewards[m[at].index])
            return 1;
    return 0;
}

static int mean_between(const double *scores, const struct sr1__member *m, size_t at,
                        size_t end, const double *bounds)
{
    double sum = 0, n = (double)(end - at); /* a sum of ones is exact */
    size_t i;

    for (i = at; i < end; i++)
        sum += scores[m[i].index];
    return sum / n > bounds[0] && sum / n < bounds[1];
}

/* Mark the trajectories of groups that teach, or of those that do not. */
static sr1_status mark_groups(const double *scores, const uint64_t *groups, size_t n,
                              teaches_fn teaches, const double *bounds,
                              int marks_teaching, uint8_t *mark, size_t *n_groups,
                              size_t *n_marked)
{
    struct sr1__member *m = NULL;
    size_t at, end, i, all = 0, marked = 0;

    SR1__TRY(sr1__sort_groups(groups, n, &m));
    for (at = 0; at < n; at = end) {
        int is;

        end = sr1__group_end(m, n, at);
        is = teaches(scores, m, at, end, bounds) == marks_teaching;
        all++;
        marked += (size_t)is;
        for (i = at; mark != NULL && i < end; i++)
            mark[m[i].index] = (uint8_t)is;
    }
    sr1__free(m);
    if (n_groups != NULL)
        *n_groups = all;
    if (n_marked != NULL)
        *n_marked = marked;
    return SR1_OK;
}

sr1_status sr1_advantage_zero_variance_groups(const double *rewards,
                                              const uint64_t *groups, size_t n,
                                              uint8_t *marks, size_t *n_groups,
                                              size_t *n_marked)
{
    if (n > 0 && (rewards == NULL || groups == NULL))
        return sr1__fail(SR1_E_INVALID,
                         "zero-variance groups: rewards or groups is NULL");
    SR1__TRY(sr1__check_finite(rewards, n, "reward of trajectory"));
    return mark_groups(rewards, groups, n, any_difference, NULL, 0, marks, n_groups,
                       n_marked);
}

sr1_status sr1_dynamic_sampling(const double *scores, const uint64_t *groups, size_t n,
                                double low, double high, uint8_t *keep, size_t *n_groups,
                                size_t *n_kept)
{
    const double bounds[2] = {low, high};

    if (n > 0 && (scores == NULL || groups == NULL))
        return sr1__fail(SR1_E_INVALID, "dynamic sampling: scores or groups is NULL");
    if (!isfinite(low) || !isfinite(high) || low >= high)
        return sr1__fail(SR1_E_INVALID,
                         "dynamic sampling: low must be below high, got %g and %g", low,
                         high);
    SR1__TRY(sr1__check_finite(scores, n, "score of trajectory"));
    return mark_groups(scores, groups, n, mean_between, bounds, 1, keep, n_groups,
                       n_kept);
}
