/* signal/loss/entropy_threshold.c - the entropy from which on the tokens of a batch have
 * a policy loss, so that a share of them has one (Wang et al. 2025, "Beyond the 80/20
 * Rule", arXiv 2506.01939): a quantile by linear interpolation, in single precision as
 * torch.quantile has it, so that the tokens are those that TRL keeps. */
#include "signal/loss/loss.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_entropies(const void *a, const void *b)
{
    float x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Of n > 0 numbers that rise. */
static float interpolate_quantile(const float *v, size_t n, double q)
{
    float rank = (float)q * (float)(n - 1), share;
    size_t below = (size_t)rank, above;

    if (below >= n - 1) /* beyond 2^24 numbers a rank is rounded */
        return v[n - 1];
    share = rank - (float)below;
    above = share > 0.0f ? below + 1 : below;
    if (share < 0.5f)
        return v[below] + share * (v[above] - v[below]);
    return v[above] - (v[above] - v[below]) * (1.0f - share);
}

sr1_status sr1_loss_entropy_threshold(const float *entropies, size_t n, double quantile,
                                      double *threshold)
{
    float *sorted;

    SR1__REQUIRE(threshold && (!n || entropies), "entropy threshold: entropies and out");
    if (!(quantile >= 0.0 && quantile <= 1.0))
        return sr1__fail(SR1_E_INVALID,
                         "entropy threshold: a quantile is in 0..1, got %g", quantile);
    SR1__TRY(sr1__loss_check_finite("entropies", entropies, n));
    SR1__CALLOC(sorted, n + 1, "entropies");
    if (n > 0) {
        memcpy(sorted, entropies, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), compare_entropies);
    }
    *threshold = n > 0 ? (double)interpolate_quantile(sorted, n, 1.0 - quantile) : 0.0;
    sr1__free(sorted);
    return SR1_OK;
}
