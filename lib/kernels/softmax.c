/* kernels/softmax.c - maximum and exponentials of a row of logits.
 *
 * The loops are plain C over LANES independent sums, which compilers turn into vectors of
 * any width; on x86 each is compiled three times. A block's sum is taken in float, of a
 * thousand terms over 16 lanes; blocks are added in double. */
#include "kernels/softmax.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <float.h>
#include <math.h>

#define LANES 16
#define INLINE SR1__INLINE

INLINE int max_body(const float *x, size_t n, float *max)
{
    float top[LANES];
    float odd[LANES] = {0};
    float best = x[0];
    float any = 0;
    size_t i = 0;

    for (size_t l = 0; l < LANES; l++)
        top[l] = x[0];
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
        for (size_t l = 0; l < LANES; l++)
            odd[l] += x[i + l] - x[i + l]; /* NaN from infinities and NaN */
    }
    for (size_t l = 0; l < LANES; l++) {
        any += odd[l];
        best = top[l] > best ? top[l] : best;
    }
    for (; i < n; i++) {
        any += x[i] - x[i];
        best = x[i] > best ? x[i] : best;
    }
    *max = best;
    return any == 0.0F;
}

/* e = exp(z) and the sums of e and e z over at most one block. */
INLINE double block_body(const float *restrict x, size_t n, float max, float inv_t,
                         float *restrict e, double *sum)
{
    float total[LANES] = {0};
    float moment[LANES] = {0};
    float z[SR1__SOFTMAX_BLOCK];
    double s = 0;
    double m = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        float depth = (x[i] - max) * inv_t;

        z[i] = depth > SR1__EXP_LOWEST ? depth : SR1__EXP_LOWEST;
    }
    for (i = 0; i < n; i++) /* by itself: compilers find a branch in the sum of both */
        e[i] = sr1__exp_negative(z[i]);
    for (i = 0; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            total[l] += e[i + l];
        for (size_t l = 0; l < LANES; l++)
            moment[l] += e[i + l] * z[i + l];
    }
    for (; i < n; i++) {
        s += (double)e[i];
        m += (double)e[i] * (double)z[i];
    }
    for (size_t l = 0; l < LANES; l++) {
        s += (double)total[l];
        m += (double)moment[l];
    }
    *sum = s;
    return m;
}

INLINE double weights_body(const float *x, size_t n, float max, double t, float *e,
                           double *sums)
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

/* x = exp(z) (a + b z) over at most one block, z = x inv_t - log_sum. */
INLINE void slope_body(float *restrict x, size_t n, float inv_t, float log_sum, float a,
                       float b)
{
    float z[SR1__SOFTMAX_BLOCK];

    for (size_t i = 0; i < n; i++) {
        float depth = x[i] * inv_t - log_sum;

        depth = depth < 0.0F ? depth : 0.0F;
        z[i] = depth > SR1__EXP_LOWEST ? depth : SR1__EXP_LOWEST;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = sr1__exp_negative(z[i]);
    for (size_t i = 0; i < n; i++)
        x[i] *= a + b * z[i];
}

struct softmax_kernels {
    int (*max)(const float *x, size_t n, float *max);
    double (*weights)(const float *x, size_t n, float max, double t, float *e,
                      double *sums);
    void (*slope)(float *x, size_t n, float inv_t, float log_sum, float a, float b);
};

#define VARIANT(name, attribute)                                                         \
    attribute static int max_##name(const float *x, size_t n, float *max)                \
    {                                                                                    \
        return max_body(x, n, max);                                                      \
    }                                                                                    \
    attribute static double weights_##name(const float *x, size_t n, float max,          \
                                           double t, float *e, double *sums)             \
    {                                                                                    \
        return weights_body(x, n, max, t, e, sums);                                      \
    }                                                                                    \
    attribute static void slope_##name(float *x, size_t n, float inv_t, float log_sum,   \
                                       float a, float b)                                 \
    {                                                                                    \
        slope_body(x, n, inv_t, log_sum, a, b);                                          \
    }                                                                                    \
    static const struct softmax_kernels kernels_##name = {max_##name, weights_##name,    \
                                                          slope_##name};

VARIANT(portable, )
#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2,fma"))))
VARIANT(avx512, __attribute__((target("avx512f,avx512dq,avx2,fma"))))
#endif

size_t sr1__softmax_blocks(size_t n)
{
    return (n + SR1__SOFTMAX_BLOCK - 1) / SR1__SOFTMAX_BLOCK;
}

int sr1__softmax_max(const float *x, size_t n, float *max)
{
    return SR1__PICK(kernels)->max(x, n, max);
}

double sr1__softmax_weights(const float *x, size_t n, float max, double t, float *e,
                            double *sums)
{
    return SR1__PICK(kernels)->weights(x, n, max, t, e, sums);
}

/* ---- a row in parts ---- */

void sr1__log_sum_begin(struct sr1__log_sum *s)
{
    *s = (struct sr1__log_sum){.max = -FLT_MAX};
}

static void raise_max(struct sr1__log_sum *s, float max, double t)
{
    double down = ((double)s->max - (double)max) / t, scale = exp(down);

    s->moment = (s->moment + down * s->sum) * scale;
    s->sum *= scale;
    s->max = max;
}

void sr1__log_sum_add(struct sr1__log_sum *s, const float *x, size_t n, double t)
{
    float e[SR1__SOFTMAX_BLOCK], max;
    double sum;

    for (size_t at = 0; at < n; at += SR1__SOFTMAX_BLOCK) {
        size_t len = n - at < SR1__SOFTMAX_BLOCK ? n - at : SR1__SOFTMAX_BLOCK;

        if (!sr1__softmax_max(x + at, len, &max)) {
            s->sum = NAN;
            return;
        }
        if (max > s->max)
            raise_max(s, max, t);
        s->moment += sr1__softmax_weights(x + at, len, s->max, t, e, &sum);
        s->sum += sum;
    }
}

double sr1__log_sum_value(const struct sr1__log_sum *s, double t)
{
    return (double)s->max / t + log(s->sum);
}

double sr1__log_sum_entropy(const struct sr1__log_sum *s)
{
    return log(s->sum) - s->moment / s->sum;
}

void sr1__softmax_backward(float *x, size_t n, const struct sr1__softmax_grads *g)
{
    double inv_t = 1.0 / g->t;
    float a = (float)(-inv_t * (g->g + g->g_entropy * g->entropy));
    float b = (float)(-inv_t * g->g_entropy);

    for (size_t at = 0; at < n; at += SR1__SOFTMAX_BLOCK)
        SR1__PICK(kernels)->slope(
            x + at, n - at < SR1__SOFTMAX_BLOCK ? n - at : SR1__SOFTMAX_BLOCK,
            (float)inv_t, (float)g->log_sum, a, b);
}
