/* tensor/ops/ops.h - tensor operations on a scope (tensor/ops/scope.h): scope first,
 * result owned by the scope, nothing done once the scope has failed. Shapes broadcast as
 * in PyTorch.
 *
 * Negative dimensions count from the end. Lists of sizes are passed as T_SHAPE(a, b, c).
 */
#ifndef SR1__OPS_OPS_H
#define SR1__OPS_OPS_H

#include "tensor/ops/scope.h"

#define T_SHAPE(...)                                                                     \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])           \
    {                                                                                    \
        __VA_ARGS__                                                                      \
    }

/* ---- looking at a tensor (no scope; 0 for NULL) ---- */
int32_t t_ndim(const sr1_tensor *t);
int64_t t_size(const sr1_tensor *t, int32_t dim); /* 0 when there is no such dimension */
int64_t t_numel(const sr1_tensor *t);
int32_t t_dtype(const sr1_tensor *t); /* SR1__F32, ... */
int t_needs_grad(const sr1_tensor *t);

/* ---- making ---- host arrays are copied to the scope's device */
sr1_tensor *t_from_f32(sr1_scope *s, const float *v, int32_t ndim, const int64_t *shape);
sr1_tensor *t_from_i64(sr1_scope *s, const int64_t *v, int32_t ndim,
                       const int64_t *shape);
sr1_tensor *t_from_i32(sr1_scope *s, const int32_t *v, size_t n); /* -> i64 [n] */
sr1_tensor *t_from_u8(sr1_scope *s, const uint8_t *v, size_t n); /* nonzero -> bool [n] */
/* Elements of dtype as they are. */
sr1_tensor *t_from_host(sr1_scope *s, const void *v, int32_t dtype, int32_t ndim,
                        const int64_t *shape);
sr1_tensor *t_full(sr1_scope *s, double value, int32_t dtype, int32_t ndim,
                   const int64_t *shape);
sr1_tensor *t_empty(sr1_scope *s, int32_t dtype, int32_t ndim, const int64_t *shape);
sr1_tensor *t_arange(sr1_scope *s, int64_t n); /* i64 0..n-1 */

/* ---- reading to the host: the points of synchronisation ---- */
double t_item(sr1_scope *s, sr1_tensor *a); /* one element; 0 on a failed scope */
/* Exactly n elements, row-major, converted; nothing is written on failure. */
void t_to_host_f32(sr1_scope *s, sr1_tensor *a, float *out, size_t n);
void t_to_host_f64(sr1_scope *s, sr1_tensor *a, double *out, size_t n);
void t_to_host_i64(sr1_scope *s, sr1_tensor *a, int64_t *out, size_t n);
int t_isfinite_all(sr1_scope *s, sr1_tensor *a); /* 0 on a failed scope */

/* ---- one operand ---- */
sr1_tensor *t_exp(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_log(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_neg(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_abs(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_round(sr1_scope *s, sr1_tensor *a); /* halves to even */
sr1_tensor *t_square(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_cos(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_sin(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_tanh(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_silu(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_gelu(sr1_scope *s, sr1_tensor *a);      /* the erf form */
sr1_tensor *t_gelu_tanh(sr1_scope *s, sr1_tensor *a); /* approximated by tanh */
sr1_tensor *t_relu(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_contiguous(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_clone(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_detach(sr1_scope *s, sr1_tensor *a);
sr1_tensor *t_sum(sr1_scope *s, sr1_tensor *a);  /* of everything, a scalar */
sr1_tensor *t_mean(sr1_scope *s, sr1_tensor *a); /* of everything, a scalar */
sr1_tensor *t_max_all(sr1_scope *s, sr1_tensor *a);

/* ---- two operands ---- */
sr1_tensor *t_add(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_sub(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_mul(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_div(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_ge(sr1_scope *s, sr1_tensor *a, sr1_tensor *b); /* -> bool */
sr1_tensor *t_le(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_gt(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_lt(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_eq(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_logical_and(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_logical_or(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_minimum(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_logaddexp(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_matmul(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
sr1_tensor *t_bmm(sr1_scope *s, sr1_tensor *a, sr1_tensor *b); /* 3-D */

/* ---- with a number ---- */
sr1_tensor *t_add_scalar(sr1_scope *s, sr1_tensor *a, double v);
sr1_tensor *t_mul_scalar(sr1_scope *s, sr1_tensor *a, double v);
sr1_tensor *t_gt_scalar(sr1_scope *s, sr1_tensor *a, double v);
sr1_tensor *t_clamp_min(sr1_scope *s, sr1_tensor *a, double v);

/* ---- along a dimension ---- */
sr1_tensor *t_sum_dim(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim);
/* The same, added up and returned as dtype. */
sr1_tensor *t_sum_dim_as(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim,
                         int32_t dtype);
sr1_tensor *t_max_dim(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim);
/* i64; of equal elements the first. */
sr1_tensor *t_argmax(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim);
sr1_tensor *t_cumsum(sr1_scope *s, sr1_tensor *a, int32_t dim, int32_t dtype);
/* Least and greatest along dim, which stays with size 1; NaN where there is one. */
void t_aminmax(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor **least,
               sr1_tensor **greatest);
/* Sorted along the last dimension, greatest first, equal ones in their order, and the i64
 * places where they were; both NULL on a failed scope. */
void t_sort_down(sr1_scope *s, sr1_tensor *a, sr1_tensor **values, sr1_tensor **places);
sr1_tensor *t_mean_dim(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim);
sr1_tensor *t_logsumexp(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim);
sr1_tensor *t_softmax(sr1_scope *s, sr1_tensor *a, int32_t dim);
sr1_tensor *t_log_softmax(sr1_scope *s, sr1_tensor *a, int32_t dim);
/* The k greatest along the last dimension, greatest first, and their i64 places; both
 * NULL on a failed scope. */
void t_topk(sr1_scope *s, sr1_tensor *a, int64_t k, sr1_tensor **values,
            sr1_tensor **places);

/* ---- shape ---- views where PyTorch makes views */
/* The same bytes as elements of dtype. */
sr1_tensor *t_view_as(sr1_scope *s, sr1_tensor *a, int32_t dtype);
sr1_tensor *t_reshape(sr1_scope *s, sr1_tensor *a, int32_t ndim, const int64_t *shape);
sr1_tensor *t_expand(sr1_scope *s, sr1_tensor *a, int32_t ndim, const int64_t *shape);
sr1_tensor *t_transpose(sr1_scope *s, sr1_tensor *a, int32_t d0, int32_t d1);
sr1_tensor *t_unsqueeze(sr1_scope *s, sr1_tensor *a, int32_t dim);
sr1_tensor *t_squeeze(sr1_scope *s, sr1_tensor *a, int32_t dim);
sr1_tensor *t_narrow(sr1_scope *s, sr1_tensor *a, int32_t dim, int64_t start, int64_t n);
/* Views of n parts along dim; sizes add up to that of a. The gradient of all parts is put
 * together at once, where that of n t_narrow would fill n whole tensors. out[i] are NULL
 * on a failed scope. */
void t_split(sr1_scope *s, sr1_tensor *a, const int64_t *sizes, size_t n, int32_t dim,
             sr1_tensor **out);
sr1_tensor *t_cat(sr1_scope *s, sr1_tensor *const *parts, size_t n, int32_t dim);
sr1_tensor *t_to(sr1_scope *s, sr1_tensor *a, int32_t dtype); /* itself when it fits */
sr1_tensor *t_to_device(sr1_scope *s, sr1_tensor *a, sr1__device device);

/* ---- choosing ---- index is i64 */
sr1_tensor *t_index_select(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor *index);
sr1_tensor *t_gather(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor *index);
sr1_tensor *t_embedding(sr1_scope *s, sr1_tensor *table, sr1_tensor *ids);
sr1_tensor *t_where(sr1_scope *s, sr1_tensor *cond, sr1_tensor *a, sr1_tensor *b);

/* ---- layers ---- */
sr1_tensor *t_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                     sr1_tensor *bias_or_null);
sr1_tensor *t_rms_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                       double eps);                                   /* last dim */
sr1_tensor *t_rms_normalise(sr1_scope *s, sr1_tensor *x, double eps); /* no weight */
sr1_tensor *t_layer_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, sr1_tensor *b,
                         double eps);
/* Scaled dot product attention: q [B,H,T,D], k and v [B,Hkv,S,D] with H a multiple of
 * Hkv. mask_or_null: bool (true: may look) or added floats, broadcast to [B,H,T,S]. */
sr1_tensor *t_sdpa(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                   sr1_tensor *mask_or_null, int is_causal);
/* The same on the CPU, without a backward of its own: y [B,H,T,D] and, fp32 [B,H,T], the
 * log of the sum of exponentials; NULL on a failed scope. */
void t_flash(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v, int is_causal,
             sr1_tensor **y, sr1_tensor **lse);
/* Its gradients of q, k and v from that of y; y and lse may be those of a sum over more
 * keys. */
void t_flash_backward(sr1_scope *s, sr1_tensor *grad_y, sr1_tensor *q, sr1_tensor *k,
                      sr1_tensor *v, sr1_tensor *y, sr1_tensor *lse, int is_causal,
                      sr1_tensor *grads[3]);

/* ---- in place ---- a is changed and returned to no one */
void t_copy_(sr1_scope *s, sr1_tensor *a, sr1_tensor *from); /* broadcasts, converts */
/* The same without waiting for the device (sr1__shim_copy_later_). */
void t_copy_later_(sr1_scope *s, sr1_tensor *a, sr1_tensor *from);
/* v, as many as a [n] has elements, into a; they have been read on return. */
void t_upload_i64(sr1_scope *s, sr1_tensor *a, const int64_t *v);
void t_add_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, double scale_of_b);
void t_mul_scalar_(sr1_scope *s, sr1_tensor *a, double v);
void t_fill_(sr1_scope *s, sr1_tensor *a, double v);
void t_sub_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
void t_mul_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b);
void t_exp_(sr1_scope *s, sr1_tensor *a);
void t_addmm_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, sr1_tensor *c); /* a += b c */
void t_addcmul_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b,
                sr1_tensor *c); /* a += b * c */
/* a = b c, 3-D; a may be a view with rows apart, but not of b or c. */
void t_bmm_to(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, sr1_tensor *c);
/* a[i, index[i,j]] += v[i,j] */
void t_scatter_add_(sr1_scope *s, sr1_tensor *a, sr1_tensor *index, sr1_tensor *v);
/* a[index[i], ...] = rows[i, ...] along dim 0. */
void t_index_copy_(sr1_scope *s, sr1_tensor *a, sr1_tensor *index, sr1_tensor *rows);

/* ---- autograd ---- */
void t_require_grad(sr1_scope *s, sr1_tensor *leaf, int on);
/* Accumulate the gradients of a scalar into the .grad of its leaves. */
void t_backward(sr1_scope *s, sr1_tensor *loss);
/* The same for any shape with a given incoming gradient. */
void t_backward_with(sr1_scope *s, sr1_tensor *y, sr1_tensor *grad);
sr1_tensor *t_grad(sr1_scope *s, sr1_tensor *leaf); /* NULL: none (not an error) */
void t_clear_grad(sr1_scope *s, sr1_tensor *leaf);  /* to none */

/* Give y[0..n_y), computed without gradients, a backward of their own, in place of the
 * handles. fn receives the gradients of the outputs (NULL where none arrived) and sets
 * grads[i] (owned by g, or NULL for none) for each of the n inputs; it runs during
 * t_backward, maybe on another thread. self is freed with free_self(self) once no longer
 * needed, also on failure. */
typedef void (*sr1__grad_fn)(sr1_scope *g, void *self, sr1_tensor *const *grads_y,
                             sr1_tensor **grads);
#define SR1__MAX_OUTPUTS 4
void t_with_backward(sr1_scope *s, sr1_tensor **y, size_t n_y, sr1_tensor *const *inputs,
                     size_t n, sr1__grad_fn fn, void *self, void (*free_self)(void *));

/* y = fn(x) without keeping fn's intermediates: backward computes them again. fn must be
 * pure; its parameters get their gradients as usual. */
typedef sr1_tensor *(*sr1__segment_fn)(sr1_scope *s, void *self, sr1_tensor *x);
sr1_tensor *t_checkpoint(sr1_scope *s, sr1__segment_fn fn, void *self,
                         void (*free_self)(void *), sr1_tensor *x);

#endif
