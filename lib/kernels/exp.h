/* kernels/exp.h - the exponential of a number that is not positive, for loops that become
 * vectors.
 *
 *     exp(z) = 2^k exp(r),  k = round(z / ln 2),  r = z - k ln 2 in [-0.35, 0.35]
 *
 * with a polynomial of degree 6 for exp(r): within 2 units in the last place. */
#ifndef SR1__KERNELS_EXP_H
#define SR1__KERNELS_EXP_H

#include <stdint.h>
#include <string.h>

#define SR1__INLINE static inline __attribute__((always_inline))

/* Below exp(SR1__EXP_LOWEST) = 2^-125.5 the result is 0. */
#define SR1__EXP_LOWEST -87.0F

/* SR1__EXP_LOWEST <= z <= 0 */
SR1__INLINE float sr1__exp_negative(float z)
{
    const float ln2_high = 0.693359375F; /* few bits: k * ln2_high is exact */
    const float ln2_low = -2.12194440e-4F;
    int32_t k = (int32_t)(z * 1.44269504F - 0.5F);
    float r = z - (float)k * ln2_high - (float)k * ln2_low;
    float p = 1.3888889e-3F; /* 1/6! */
    int32_t bits = z > SR1__EXP_LOWEST ? (k + 127) << 23 : 0;
    float scale;

    p = p * r + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r * r + r + 1.0F;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

#endif
