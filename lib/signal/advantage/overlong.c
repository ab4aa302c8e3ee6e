/* signal/advantage/overlong.c - soft penalty for long answers (DAPO, Yu et al. 2025, eq.
 * 13). */
#include "base/error.h"

#include <searchr1/ext/batching.h>

#include <math.h>

sr1_status sr1_overlong_penalty(const int64_t *lengths, size_t n, int64_t max_length,
                                int64_t cache, double factor, double *penalties)
{
    size_t i;

    if (n > 0 && (lengths == NULL || penalties == NULL))
        return sr1__fail(SR1_E_INVALID, "overlong penalty: an array is NULL");
    if (cache <= 0 || max_length < cache || !isfinite(factor) || factor < 0)
        return sr1__fail(SR1_E_INVALID,
                         "overlong penalty: 0 < cache <= max_length and factor >= 0 are "
                         "needed, got %lld, %lld and %g",
                         (long long)cache, (long long)max_length, factor);
    for (i = 0; i < n; i++)
        if (lengths[i] < 0)
            return sr1__fail(SR1_E_INVALID, "overlong penalty: length %zu is negative",
                             i);
    for (i = 0; i < n; i++) {
        int64_t over = lengths[i] - (max_length - cache);

        if (over <= 0)
            penalties[i] = 0;
        else
            penalties[i] = -factor * (over > cache ? 1 : (double)over / (double)cache);
    }
    return SR1_OK;
}
