/* kernels/layer.c - norms, rotation and gate of a decoder layer.
 *
 *     rms norm:  y = w x r,  r = 1 / sqrt(mean(x^2) + eps)
 *                gx = r (w gy - x r^2 mean(w gy x)),   gw += gy x r
 *     gate:      s = sigmoid(g):  y = g s u,  gg = gy u s (1 + g (1 - s)),  gu = gy g s
 *     gelu:      y = g (1 + tanh(t)) u / 2 = g sigmoid(2 t) u,
 *                t = sqrt(2 / pi) (g + 0.044715 g^3)
 *
 * Plain loops over LANES independent sums, which compilers turn into vectors of any
 * width; on x86 each is compiled three times and chosen at run time. */
#include "kernels/layer.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <math.h>
#include <stddef.h>

#define LANES 16
#define BLOCK 64 /* gates at a time */
#define INLINE SR1__INLINE

INLINE float compute_row_dot(const float *a, const float *b, int64_t n)
{
    float lane[LANES] = {0};
    float sum = 0;
    int64_t i;

    for (i = 0; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

INLINE float compute_row_dot3(const float *a, const float *b, const float *c, int64_t n)
{
    float lane[LANES] = {0};
    float sum = 0;
    int64_t i;

    for (i = 0; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l] * c[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i] * c[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

INLINE float inverse_rms(const float *x, int64_t d, double eps)
{
    return 1.0F / sqrtf(compute_row_dot(x, x, d) / (float)d + (float)eps);
}

INLINE void norm_row(const float *restrict x, const float *restrict w, float *restrict y,
                     int64_t d, double eps)
{
    float r = inverse_rms(x, d, eps);

    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] * r * w[i];
}

INLINE void norm_row_back(const float *restrict x, const float *restrict w,
                          const float *restrict gy, float *restrict gx,
                          float *restrict gw, int64_t d, double eps)
{
    float r = inverse_rms(x, d, eps);
    float c = compute_row_dot3(w, gy, x, d) * r * r / (float)d;

    for (int64_t i = 0; i < d; i++) {
        gw[i] += gy[i] * x[i] * r;
        gx[i] = r * (w[i] * gy[i] - x[i] * c);
    }
}

INLINE void norm_body(const float *x, const float *w, float *y, int64_t n, int64_t d,
                      double eps)
{
    for (int64_t t = 0; t < n; t++)
        norm_row(x + t * d, w, y + t * d, d, eps);
}

INLINE void norm_back_body(const float *x, const float *w, const float *gy, float *gx,
                           float *gw, int64_t n, int64_t d, double eps)
{
    for (int64_t t = 0; t < n; t++)
        norm_row_back(x + t * d, w, gy + t * d, gx + t * d, gw, d, eps);
}

/* s[i] = sigmoid(x[i]) for n <= BLOCK; 0 for NaN, which every use multiplies by x. The
 * steps are loops of their own, as compilers find branches in their sum. */
INLINE void compute_sigmoids(const float *restrict x, int64_t n, float *restrict s)
{
    for (int64_t i = 0; i < n; i++) {
        float depth = -fabsf(x[i]);

        s[i] = depth > SR1__EXP_LOWEST ? depth : SR1__EXP_LOWEST;
    }
    for (int64_t i = 0; i < n; i++)
        s[i] = sr1__exp_negative(s[i]);
    for (int64_t i = 0; i < n; i++)
        s[i] = (x[i] > 0 ? 1.0F : s[i]) / (1.0F + s[i]);
}

typedef void (*gate_fn)(const float *restrict gate, const float *restrict up,
                        float *restrict out, int64_t n);

INLINE void gate_block(const float *restrict gate, const float *restrict up,
                       float *restrict out, int64_t n)
{
    float s[BLOCK];

    compute_sigmoids(gate, n, s);
    for (int64_t i = 0; i < n; i++)
        out[i] = gate[i] * s[i] * up[i];
}

INLINE void gelu_block(const float *restrict gate, const float *restrict up,
                       float *restrict out, int64_t n)
{
    const float root = 1.5957691216F; /* 2 sqrt(2 / pi) */
    float x[BLOCK];
    float s[BLOCK];

    for (int64_t i = 0; i < n; i++)
        x[i] = gate[i] * (root + root * 0.044715F * gate[i] * gate[i]);
    compute_sigmoids(x, n, s);
    for (int64_t i = 0; i < n; i++)
        out[i] = gate[i] * s[i] * up[i];
}

INLINE void gate_rows(const float *gate_up, float *y, int64_t n, int64_t f, gate_fn block)
{
    for (int64_t t = 0; t < n; t++) {
        const float *gate = gate_up + t * 2 * f;

        for (int64_t i = 0; i < f; i += BLOCK)
            block(gate + i, gate + f + i, y + t * f + i, f - i < BLOCK ? f - i : BLOCK);
    }
}

INLINE void swiglu_body(const float *gate_up, float *y, int64_t n, int64_t f)
{
    gate_rows(gate_up, y, n, f, gate_block);
}

INLINE void geglu_body(const float *gate_up, float *y, int64_t n, int64_t f)
{
    gate_rows(gate_up, y, n, f, gelu_block);
}

INLINE void gate_block_back(const float *restrict gate, const float *restrict up,
                            const float *restrict g, float *restrict g_gate,
                            float *restrict g_up, int64_t n)
{
    float s[BLOCK];

    compute_sigmoids(gate, n, s);
    for (int64_t i = 0; i < n; i++) {
        g_up[i] = g[i] * gate[i] * s[i];
        g_gate[i] = g[i] * up[i] * s[i] * (1.0F + gate[i] * (1.0F - s[i]));
    }
}

INLINE void swiglu_back_body(const float *gate_up, const float *gy, float *g_gate_up,
                             int64_t n, int64_t f)
{
    for (int64_t t = 0; t < n; t++) {
        const float *gate = gate_up + t * 2 * f;
        float *g_gate = g_gate_up + t * 2 * f;

        for (int64_t i = 0; i < f; i += BLOCK)
            gate_block_back(gate + i, gate + f + i, gy + t * f + i, g_gate + i,
                            g_gate + f + i, f - i < BLOCK ? f - i : BLOCK);
    }
}

/* out = x turned by +angle; out may not be x. */
INLINE void rotate_head(const float *restrict x, const float *restrict cos,
                        const float *restrict sin, float *restrict out, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        out[i] = x[i] * cos[i] - x[half + i] * sin[i];
        out[half + i] = x[half + i] * cos[half + i] + x[i] * sin[half + i];
    }
}

/* The transpose of rotate_head. */
INLINE void rotate_head_backward(const float *restrict g, const float *restrict cos,
                                 const float *restrict sin, float *restrict out,
                                 int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        out[i] = g[i] * cos[i] + g[half + i] * sin[half + i];
        out[half + i] = g[half + i] * cos[half + i] - g[i] * sin[i];
    }
}

/* m heads of one token */
INLINE void heads_row(const float *x, int64_t m, int64_t d, const float *w, double eps,
                      const float *cos, const float *sin, float *out)
{
    float y[SR1__LAYER_DIM_MAX];

    for (int64_t i = 0; i < m; i++) {
        if (w)
            norm_row(x + i * d, w, y, d, eps);
        rotate_head(w ? y : x + i * d, cos, sin, out + i * d, d / 2);
    }
}

INLINE void heads_row_back(const float *x, int64_t m, int64_t d, const float *w,
                           double eps, const float *cos, const float *sin, const float *g,
                           float *gx, float *gw)
{
    float gy[SR1__LAYER_DIM_MAX];

    for (int64_t i = 0; i < m; i++) {
        rotate_head_backward(g + i * d, cos, sin, w ? gy : gx + i * d, d / 2);
        if (w)
            norm_row_back(x + i * d, w, gy, gx + i * d, gw, d, eps);
    }
}

INLINE void rotate_head_body(const struct sr1__heads *h, const float *qkv,
                             const float *cos, const float *sin, float *q, float *k,
                             int64_t n)
{
    int64_t d = h->dim;

    for (int64_t t = 0; t < n; t++) {
        const float *row = qkv + t * (h->n_q + 2 * h->n_kv) * d;

        heads_row(row, h->n_q, d, h->q_norm, h->eps, cos + t * d, sin + t * d,
                  q + t * h->n_q * d);
        heads_row(row + h->n_q * d, h->n_kv, d, h->k_norm, h->eps, cos + t * d,
                  sin + t * d, k + t * h->n_kv * d);
    }
}

INLINE void rotate_head_backward_body(const struct sr1__heads *h, const float *qkv,
                                      const float *cos, const float *sin, const float *gq,
                                      const float *gk, const float *gv, float *g_qkv,
                                      float *g_q_norm, float *g_k_norm, int64_t n)
{
    int64_t d = h->dim;
    int64_t width = (h->n_q + 2 * h->n_kv) * d;
    size_t values = (size_t)(h->n_kv * d);

    for (int64_t t = 0; t < n; t++) {
        const float *row = qkv + t * width;
        float *g = g_qkv + t * width;

        heads_row_back(row, h->n_q, d, h->q_norm, h->eps, cos + t * d, sin + t * d,
                       gq + t * h->n_q * d, g, g_q_norm);
        heads_row_back(row + h->n_q * d, h->n_kv, d, h->k_norm, h->eps, cos + t * d,
                       sin + t * d, gk + t * h->n_kv * d, g + h->n_q * d, g_k_norm);
        memcpy(g + (h->n_q + h->n_kv) * d, gv + t * h->n_kv * d, values * sizeof *g);
    }
}

/* X(name, parameters, arguments): every kernel, to be compiled once a variant. */
#define KERNELS(X)                                                                       \
    X(norm,                                                                              \
      (const float *x, const float *w, float *y, int64_t n, int64_t d, double eps),      \
      (x, w, y, n, d, eps))                                                              \
    X(norm_back,                                                                         \
      (const float *x, const float *w, const float *gy, float *gx, float *gw, int64_t n, \
       int64_t d, double eps),                                                           \
      (x, w, gy, gx, gw, n, d, eps))                                                     \
    X(swiglu, (const float *gate_up, float *y, int64_t n, int64_t f),                    \
      (gate_up, y, n, f))                                                                \
    X(geglu, (const float *gate_up, float *y, int64_t n, int64_t f), (gate_up, y, n, f)) \
    X(swiglu_back,                                                                       \
      (const float *gate_up, const float *gy, float *g_gate_up, int64_t n, int64_t f),   \
      (gate_up, gy, g_gate_up, n, f))                                                    \
    X(rotate_head,                                                                       \
      (const struct sr1__heads *h, const float *qkv, const float *cos, const float *sin, \
       float *q, float *k, int64_t n),                                                   \
      (h, qkv, cos, sin, q, k, n))                                                       \
    X(rotate_head_backward,                                                              \
      (const struct sr1__heads *h, const float *qkv, const float *cos, const float *sin, \
       const float *gq, const float *gk, const float *gv, float *g_qkv, float *g_q_norm, \
       float *g_k_norm, int64_t n),                                                      \
      (h, qkv, cos, sin, gq, gk, gv, g_qkv, g_q_norm, g_k_norm, n))

#define SLOT(name, params, args) void(*name) params;
struct layer_kernels {
    KERNELS(SLOT)
};

#define PORTABLE(name, params, args)                                                     \
    static void name##_portable params                                                   \
    {                                                                                    \
        name##_body args;                                                                \
    }
#define AVX2(name, params, args)                                                         \
    __attribute__((target("avx2,fma"))) static void name##_avx2 params                   \
    {                                                                                    \
        name##_body args;                                                                \
    }
#define AVX512(name, params, args)                                                       \
    __attribute__((                                                                      \
        target("avx512f,avx512dq,avx2,fma"))) static void name##_avx512 params           \
    {                                                                                    \
        name##_body args;                                                                \
    }
#define PORTABLE_ROW(name, params, args) name##_portable,
#define AVX2_ROW(name, params, args) name##_avx2,
#define AVX512_ROW(name, params, args) name##_avx512,

KERNELS(PORTABLE)
static const struct layer_kernels kernels_portable = {KERNELS(PORTABLE_ROW)};
#if defined(__x86_64__)
KERNELS(AVX2)
static const struct layer_kernels kernels_avx2 = {KERNELS(AVX2_ROW)};
KERNELS(AVX512)
static const struct layer_kernels kernels_avx512 = {KERNELS(AVX512_ROW)};
#endif

void sr1__rms_norm(const float *x, const float *w, float *y, int64_t n, int64_t d,
                   double eps)
{
    SR1__PICK(kernels)->norm(x, w, y, n, d, eps);
}

void sr1__rms_norm_backward(const float *x, const float *w, const float *gy, float *gx,
                            float *gw, int64_t n, int64_t d, double eps)
{
    SR1__PICK(kernels)->norm_back(x, w, gy, gx, gw, n, d, eps);
}

void sr1__swiglu(const float *gate_up, float *y, int64_t n, int64_t f)
{
    SR1__PICK(kernels)->swiglu(gate_up, y, n, f);
}

void sr1__geglu(const float *gate_up, float *y, int64_t n, int64_t f)
{
    SR1__PICK(kernels)->geglu(gate_up, y, n, f);
}

void sr1__swiglu_backward(const float *gate_up, const float *gy, float *g_gate_up,
                          int64_t n, int64_t f)
{
    SR1__PICK(kernels)->swiglu_back(gate_up, gy, g_gate_up, n, f);
}

void sr1__heads_rope(const struct sr1__heads *h, const float *qkv, const float *cos,
                     const float *sin, float *q, float *k, int64_t n)
{
    SR1__PICK(kernels)->rotate_head(h, qkv, cos, sin, q, k, n);
}

void sr1__heads_rope_backward(const struct sr1__heads *h, const float *qkv,
                              const float *cos, const float *sin, const float *gq,
                              const float *gk, const float *gv, float *g_qkv,
                              float *g_q_norm, float *g_k_norm, int64_t n)
{
    SR1__PICK(kernels)->rotate_head_backward(h, qkv, cos, sin, gq, gk, gv, g_qkv,
                                             g_q_norm, g_k_norm, n);
}
