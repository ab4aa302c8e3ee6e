/* kernels/layer.h - the operations of a decoder layer between its matrices, with their
 * gradients, each in one pass over memory. fp32, contiguous rows. */
#ifndef SR1__KERNELS_LAYER_H
#define SR1__KERNELS_LAYER_H

#include <stdint.h>

#define SR1__LAYER_DIM_MAX 1024 /* of a head */

/* y = w x / sqrt(mean(x^2) + eps) for n rows of d. */
void sr1__rms_norm(const float *x, const float *w, float *y, int64_t n, int64_t d,
                   double eps);
/* From gy: gx is set, gw [d] added to. */
void sr1__rms_norm_backward(const float *x, const float *w, const float *gy, float *gx,
                            float *gw, int64_t n, int64_t d, double eps);

/* y = silu(gate) up for n rows gate_up = [gate | up] of 2f. */
void sr1__swiglu(const float *gate_up, float *y, int64_t n, int64_t f);
/* The same with gelu, approximated by tanh, in place of silu. */
void sr1__geglu(const float *gate_up, float *y, int64_t n, int64_t f);
void sr1__swiglu_backward(const float *gate_up, const float *gy, float *g_gate_up,
                          int64_t n, int64_t f);

/* A row of qkv is n_q heads, then n_kv heads of keys, then n_kv of values, each of dim.
 */
struct sr1__heads {
    int64_t n_q;
    int64_t n_kv;
    int64_t dim;         /* even */
    const float *q_norm; /* [dim], or both NULL: heads are not normalised */
    const float *k_norm;
    double eps;
};
/* q and k: each head normalised, then turned by its token's cos and sin [n,dim]
 * (half-split: out[i] = x[i] cos[i] - x[i+dim/2] sin[i]). Values are left where they are.
 */
void sr1__heads_rope(const struct sr1__heads *h, const float *qkv, const float *cos,
                     const float *sin, float *q, float *k, int64_t n);
/* g_qkv is set from gq, gk and gv, [n,heads,dim] each; the norms' gradients [dim] are
 * added to (ignored without norms). */
void sr1__heads_rope_backward(const struct sr1__heads *h, const float *qkv,
                              const float *cos, const float *sin, const float *gq,
                              const float *gk, const float *gv, float *g_qkv,
                              float *g_q_norm, float *g_k_norm, int64_t n);

#endif
