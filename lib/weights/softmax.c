/* weights/softmax.c - maximum and exponentials of a row of logits.
 *
 *     exp(z) = 2^k exp(r),  k = round(z / ln 2),  r = z - k ln 2 in [-0.35, 0.35]
 *
 * with a polynomial of degree 6 for exp(r): within 2 units in the last place. The loops are plain
 * C over LANES independent sums, which compilers turn into vectors of any width; on x86 each
 * is compiled three times. A block's sum is taken in float, of a thousand terms over 16 lanes; blocks
 * are added in double. */
#include "weights/softmax.h"

#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

/* z <= 0 */
INLINE float exp_negative(float z)
{
    const float ln2_high = 0.693359375F; /* few bits: k * ln2_high is exact */
    const float ln2_low = -2.12194440e-4F;
    float clamped = z > -87.0F ? z : -87.0F;
    int32_t k = (int32_t)(clamped * 1.44269504F - 0.5F);
    float r = clamped - (float)k * ln2_high - (float)k * ln2_low;
    float p = 1.3888889e-3F; /* 1/6! */
    int32_t bits = (k + 127) << 23;
    float scale;

    p = p * r + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r * r + r + 1.0F;
    memcpy(&scale, &bits, sizeof scale);
    return z > -87.0F ? p * scale : 0.0F;
}

INLINE int max_body(const float *x, size_t n, float *max)
{
    float top[LANES];
    uint32_t bad[LANES] = {0};
    float best = x[0];
    uint32_t any = 0;
    size_t i = 0;

    for (int l = 0; l < LANES; l++)
        top[l] = x[0];
    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            uint32_t bits;

            memcpy(&bits, &x[i + (size_t)l], sizeof bits);
            bad[l] |= (bits & 0x7f800000U) == 0x7f800000U; /* infinities and NaN */
            top[l] = x[i + (size_t)l] > top[l] ? x[i + (size_t)l] : top[l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        any |= bad[l];
        best = top[l] > best ? top[l] : best;
    }
    for (; i < n; i++) {
        any |= !(x[i] - x[i] == 0.0F);
        best = x[i] > best ? x[i] : best;
    }
    *max = best;
    return !any;
}

INLINE double block_body(const float *x, size_t n, float max, float inv_t, float *e, double *sum)
{
    float total[LANES] = {0};
    float moment[LANES] = {0};
    double s = 0;
    double m = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            float z = (x[i + (size_t)l] - max) * inv_t;
            float w = exp_negative(z);

            e[i + (size_t)l] = w;
            total[l] += w;
            moment[l] += w * (z > -87.0F ? z : 0.0F);
        }
    }
    for (; i < n; i++) {
        float z = (x[i] - max) * inv_t;

        e[i] = exp_negative(z);
        s += (double)e[i];
        m += e[i] > 0 ? (double)e[i] * (double)z : 0.0;
    }
    for (int l = 0; l < LANES; l++) {
        s += (double)total[l];
        m += (double)moment[l];
    }
    *sum = s;
    return m;
}

INLINE double weights_body(const float *x, size_t n, float max, double t, float *e, double *sums)
{
    float inv_t = (float)(1.0 / t);
    double moment = 0;

    for (size_t begin = 0; begin < n; begin += SR1__SOFTMAX_BLOCK) {
        size_t left = n - begin;
        size_t len = left < SR1__SOFTMAX_BLOCK ? left : SR1__SOFTMAX_BLOCK;

        moment += block_body(x + begin, len, max, inv_t, e + begin, sums++);
    }
    return moment;
}

struct kernels {
    int (*max)(const float *x, size_t n, float *max);
    double (*weights)(const float *x, size_t n, float max, double t, float *e, double *sums);
};

#define VARIANT(name, attribute)                                                         \
    attribute static int max_##name(const float *x, size_t n, float *max)                \
    {                                                                                    \
        return max_body(x, n, max);                                                      \
    }                                                                                    \
    attribute static double weights_##name(const float *x, size_t n, float max, double t, \
                                           float *e, double *sums)                       \
    {                                                                                    \
        return weights_body(x, n, max, t, e, sums);                                      \
    }                                                                                    \
    static const struct kernels kernels_##name = {max_##name, weights_##name};

VARIANT(portable, )
#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2,fma"))))
VARIANT(avx512, __attribute__((target("avx512f,avx512dq,avx2,fma,prefer-vector-width=512"))))
#endif

static const struct kernels *pick(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kernels_avx2;
#endif
    return &kernels_portable;
}

size_t sr1__softmax_blocks(size_t n)
{
    return (n + SR1__SOFTMAX_BLOCK - 1) / SR1__SOFTMAX_BLOCK;
}

int sr1__softmax_max(const float *x, size_t n, float *max)
{
    return pick()->max(x, n, max);
}

double sr1__softmax_weights(const float *x, size_t n, float max, double t, float *e, double *sums)
{
    return pick()->weights(x, n, max, t, e, sums);
}
