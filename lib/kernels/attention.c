/* kernels/attention.c - attention of one token over a paged cache, page by page.
 *
 * The softmax is computed online: with m the largest score so far, l and o the sums of
 * exp(s - m) and exp(s - m) v, a page with a larger score first scales l and o by
 * exp(m_old - m_new). The result is o / l. Vectors of 8 are written with the compilers'
 * vector extension, which every compiler target lowers to its own instructions. */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 8
#define GROUPS (SR1__PAGE / LANES)
#define LOWEST -87.0F /* exp of less counts as 0 */

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));

static int32_t round_up_dim(int32_t dim)
{
    return (dim + LANES - 1) / LANES * LANES;
}

static size_t cache_element_size(int bf16)
{
    return bf16 ? sizeof(uint16_t) : sizeof(float);
}

size_t sr1__page_keys_bytes(int32_t dim, int bf16)
{
    return (size_t)dim * SR1__PAGE * cache_element_size(bf16);
}

size_t sr1__page_values_bytes(int32_t dim, int bf16)
{
    return (size_t)round_up_dim(dim) * SR1__PAGE * cache_element_size(bf16);
}

/* ---- storing ---- */

void sr1__page_put(const struct sr1__page_head *h, int64_t t, const void *key,
                   const void *value)
{
    unsigned char *page = h->pages[t / SR1__PAGE];
    size_t at = (size_t)(t % SR1__PAGE);
    size_t d = (size_t)h->dim;

    if (h->bf16) {
        uint16_t *k = (uint16_t *)(void *)(page + h->keys) + at;

        for (size_t i = 0; i < d; i++)
            k[i * SR1__PAGE] = ((const uint16_t *)key)[i];
    } else {
        float *k = (float *)(void *)(page + h->keys) + at;

        for (size_t i = 0; i < d; i++)
            k[i * SR1__PAGE] = ((const float *)key)[i];
    }
    memcpy(page + h->values +
               at * (size_t)round_up_dim(h->dim) * cache_element_size(h->bf16),
           value, d * cache_element_size(h->bf16));
}

void sr1__page_get(const struct sr1__page_head *h, void *keys, void *values)
{
    size_t d = (size_t)h->dim;
    size_t size = cache_element_size(h->bf16);

    for (int64_t t = 0; t < h->n; t++) {
        const unsigned char *page = h->pages[t / SR1__PAGE];
        size_t at = (size_t)(t % SR1__PAGE);
        unsigned char *k = (unsigned char *)keys + (size_t)t * d * size;

        for (size_t i = 0; i < d; i++)
            memcpy(k + i * size, page + h->keys + (i * SR1__PAGE + at) * size, size);
        memcpy((unsigned char *)values + (size_t)t * d * size,
               page + h->values + at * (size_t)round_up_dim(h->dim) * size, d * size);
    }
}

/* ---- vectors ---- */

INLINE void load_cache_lanes(v8f *out, const unsigned char *base, size_t i, int bf16)
{
    if (bf16) {
        v8h half;
        v8u wide;

        memcpy(&half, base + i * sizeof(uint16_t), sizeof half);
        wide = __builtin_convertvector(half, v8u) << 16;
        memcpy(out, &wide, sizeof *out);
    } else {
        memcpy(out, base + i * sizeof(float), sizeof *out);
    }
}

/* *z = exp(*z) for z <= 0; NaN stays NaN. See kernels/exp.h. */
INLINE void exp_negative(v8f *z)
{
    v8f nan = (v8f)((v8i)(*z) & (*z != *z)); /* 0 where it is a number */
    v8i above = *z > LOWEST;
    v8f x = (v8f)((v8i)(*z) & above); /* 0 where the result will be 0 */
    v8i k = __builtin_convertvector(x * 1.44269504F - 0.5F, v8i);
    v8f n = __builtin_convertvector(k, v8f);
    v8f r = x - n * 0.693359375F - n * -2.12194440e-4F;
    v8f p = r * 1.3888889e-3F + 8.3333333e-3F;
    v8i scale = ((k + 127) << 23) & above;

    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r * r + r + 1.0F;
    *z = p * (v8f)scale + nan;
}

/* ---- one page ---- */

/* s[t] = q . key_t; tokens from n on get -infinity. Returns the largest. */
INLINE float page_scores(const float *q, const unsigned char *keys, int32_t dim, int bf16,
                         int64_t n, float *s)
{
    v8f sum[GROUPS] = {{0}};
    float top = -INFINITY;

    for (int32_t d = 0; d < dim; d++) {
        for (int j = 0; j < GROUPS; j++) {
            v8f k;

            load_cache_lanes(&k, keys, (size_t)d * SR1__PAGE + (size_t)(j * LANES), bf16);
            sum[j] += k * q[d];
        }
    }
    memcpy(s, sum, sizeof sum);
    for (int64_t t = n; t < SR1__PAGE; t++)
        s[t] = -INFINITY;
    for (int64_t t = 0; t < n; t++)
        top = s[t] > top ? s[t] : top;
    return top;
}

/* s = exp(s - top); returns their sum. */
INLINE float page_weights(float *s, float top)
{
    v8f total = {0};
    float sum = 0;

    for (int j = 0; j < GROUPS; j++) {
        v8f z;

        memcpy(&z, s + j * LANES, sizeof z);
        z -= top;
        exp_negative(&z);
        memcpy(s + j * LANES, &z, sizeof z);
        total += z;
    }
    for (int l = 0; l < LANES; l++)
        sum += total[l];
    return sum;
}

/* o = o * scale + sum_t w[t] value_t over width lanes from d on. */
#define VALUES_BLOCK(groups)                                                             \
    do {                                                                                 \
        v8f a[groups];                                                                   \
                                                                                         \
        memcpy(a, o + d, sizeof a);                                                      \
        for (int j = 0; j < (groups); j++)                                               \
            a[j] *= scale;                                                               \
        for (int64_t t = 0; t < n; t++) {                                                \
            for (int j = 0; j < (groups); j++) {                                         \
                v8f v;                                                                   \
                                                                                         \
                load_cache_lanes(&v, values, (size_t)(t * width + d + j * LANES), bf16); \
                a[j] += v * w[t];                                                        \
            }                                                                            \
        }                                                                                \
        memcpy(o + d, a, sizeof a);                                                      \
        d += (groups)*LANES;                                                             \
    } while (0)

INLINE void page_values(const float *w, float scale, const unsigned char *values,
                        int32_t width, int bf16, int64_t n, float *o)
{
    int32_t d = 0;

    while (d + 4 * LANES <= width)
        VALUES_BLOCK(4);
    while (d < width)
        VALUES_BLOCK(1);
}

INLINE void attend_one(const struct sr1__page_head *h, int bf16, const float *q,
                       float *out)
{
    float o[SR1__HEAD_DIM_MAX];
    float s[SR1__PAGE];
    float top = -INFINITY;
    float total = 0;
    int32_t width = (h->dim + LANES - 1) / LANES * LANES;

    memset(o, 0, (size_t)width * sizeof *o);
    for (int64_t t = 0; t < h->n; t += SR1__PAGE) {
        const unsigned char *page = h->pages[t / SR1__PAGE];
        int64_t n = h->n - t < SR1__PAGE ? h->n - t : SR1__PAGE;
        float m = page_scores(q, page + h->keys, h->dim, bf16, n, s);
        float scale;

        m = m > top ? m : top;
        scale = expf(top - m); /* 0 at first */
        total = total * scale + page_weights(s, m);
        page_values(s, scale, page + h->values, width, bf16, n, o);
        top = m;
    }
    for (int32_t d = 0; d < h->dim; d++)
        out[d] = o[d] / total;
}

INLINE void attend_body(const struct sr1__page_head *h, const float *q, int32_t n_heads,
                        float *out)
{
    for (int32_t g = 0; g < n_heads; g++) {
        if (h->bf16)
            attend_one(h, 1, q + g * h->dim, out + g * h->dim);
        else
            attend_one(h, 0, q + g * h->dim, out + g * h->dim);
    }
}

#define VARIANT(name, attribute)                                                         \
    attribute static void attend_##name(const struct sr1__page_head *h, const float *q,  \
                                        int32_t n_heads, float *out)                     \
    {                                                                                    \
        attend_body(h, q, n_heads, out);                                                 \
    }

VARIANT(portable, )
#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2,fma"))))
#endif

void sr1__page_attend(const struct sr1__page_head *h, const float *q, int32_t n_heads,
                      float *out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        attend_avx2(h, q, n_heads, out);
        return;
    }
#endif
    attend_portable(h, q, n_heads, out);
}

void sr1__bf16_to_f32(const uint16_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;

        memcpy(&out[i], &bits, sizeof bits);
    }
}

void sr1__f32_to_bf16(const float *in, uint16_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        uint32_t rounded;

        memcpy(&bits, &in[i], sizeof bits);
        rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        out[i] = (uint16_t)(in[i] == in[i] ? rounded : (bits >> 16 | 0x40));
    }
}
