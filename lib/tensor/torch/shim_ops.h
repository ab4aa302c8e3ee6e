/* tensor/torch/shim_ops.h - the tensor entries of tensor/torch/shim.h, which includes
 * this. */
#ifndef SR1__TORCH_SHIM_OPS_H
#define SR1__TORCH_SHIM_OPS_H

/* X(name, function in namespace at): one tensor in, one out. */
#define SR1__SHIM_UNARY(X)                                                               \
    X(exp, exp)                                                                          \
    X(log, log)                                                                          \
    X(neg, neg)                                                                          \
    X(abs, abs)                                                                          \
    X(round, round)                                                                      \
    X(square, square)                                                                    \
    X(cos, cos)                                                                          \
    X(sin, sin)                                                                          \
    X(tanh, tanh)                                                                        \
    X(silu, silu)                                                                        \
    X(gelu, gelu)                                                                        \
    X(relu, relu)                                                                        \
    X(clone, clone)                                                                      \
    X(detach, detach)                                                                    \
    X(sum, sum)                                                                          \
    X(mean, mean)                                                                        \
    X(max_all, max)

/* Two tensors in, one out. */
#define SR1__SHIM_BINARY(X)                                                              \
    X(add, add)                                                                          \
    X(sub, sub)                                                                          \
    X(mul, mul)                                                                          \
    X(div, div)                                                                          \
    X(ge, ge)                                                                            \
    X(le, le)                                                                            \
    X(gt, gt)                                                                            \
    X(lt, lt)                                                                            \
    X(eq, eq)                                                                            \
    X(logaddexp, logaddexp)                                                              \
    X(minimum, minimum)                                                                  \
    X(logical_and, logical_and)                                                          \
    X(logical_or, logical_or)                                                            \
    X(matmul, matmul)                                                                    \
    X(bmm, bmm)

/* A tensor and a number in, one tensor out. */
#define SR1__SHIM_SCALAR(X)                                                              \
    X(add_scalar, add)                                                                   \
    X(mul_scalar, mul)                                                                   \
    X(gt_scalar, gt)                                                                     \
    X(clamp_min, clamp_min)

#define SR1__SHIM_DECLARE_UNARY(name, at_name)                                           \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a);
SR1__SHIM_UNARY(SR1__SHIM_DECLARE_UNARY)
#undef SR1__SHIM_DECLARE_UNARY

#define SR1__SHIM_DECLARE_BINARY(name, at_name)                                          \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a, sr1_tensor *b);
SR1__SHIM_BINARY(SR1__SHIM_DECLARE_BINARY)
#undef SR1__SHIM_DECLARE_BINARY

#define SR1__SHIM_DECLARE_SCALAR(name, at_name)                                          \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a, double v);
SR1__SHIM_SCALAR(SR1__SHIM_DECLARE_SCALAR)
#undef SR1__SHIM_DECLARE_SCALAR

/* ---- handles (handle.cpp) ---- */
void sr1__shim_release(sr1_tensor *t); /* NULL is fine */
sr1_tensor *sr1__shim_retain(sr1_tensor *t);
/* The same memory as a tensor that autograd knows nothing of: what is written through it
 * is not seen as a change. */
sr1_status sr1__shim_alias(sr1_tensor **out, sr1_tensor *a);
/* Give the memory of a whole tensor back while its handles, views and aliases stay; none
 * may be read until it has memory again, whose numbers are not set. */
sr1_status sr1__shim_drop_memory(sr1_tensor *a);
sr1_status sr1__shim_make_memory(sr1_tensor *a); /* nothing to do where it has some */
int32_t sr1__shim_ndim(const sr1_tensor *t);
const int64_t *sr1__shim_sizes(const sr1_tensor *t); /* borrowed until t changes shape */
int64_t sr1__shim_numel(const sr1_tensor *t);
int32_t sr1__shim_dtype(const sr1_tensor *t); /* -1 for a type that is not ours */
sr1__device sr1__shim_device(const sr1_tensor *t);
int sr1__shim_requires_grad(const sr1_tensor *t);
/* The elements of a dense tensor on the CPU, else NULL. */
void *sr1__shim_data(const sr1_tensor *t);

/* ---- making and reading (create.cpp) ---- */
/* A CPU tensor over the caller's memory, which must outlive it. */
sr1_status sr1__shim_wrap(sr1_tensor **out, void *data, int32_t dtype, int32_t ndim,
                          const int64_t *shape);
sr1_status sr1__shim_empty(sr1_tensor **out, int32_t dtype, int32_t ndim,
                           const int64_t *shape, sr1__device device);
sr1_status sr1__shim_full(sr1_tensor **out, double v, int32_t dtype, int32_t ndim,
                          const int64_t *shape, sr1__device device);
sr1_status sr1__shim_arange(sr1_tensor **out, int64_t n, sr1__device device);
/* On this device in this dtype; a new tensor if copy, else a itself where it fits. From
 * the CPU to a device nothing waits for the device: memory that is not pinned, as all
 * here, has been read when the call returns. */
sr1_status sr1__shim_to(sr1_tensor **out, sr1_tensor *a, int32_t dtype,
                        sr1__device device, int copy);
/* n elements, row-major, converted to dtype. */
sr1_status sr1__shim_to_host(sr1_tensor *a, int32_t dtype, void *out, size_t n);
sr1_status sr1__shim_item(sr1_tensor *a, double *out);
sr1_status sr1__shim_isfinite_all(sr1_tensor *a, int *out);

/* ---- along dimensions, shape, choosing (shape.cpp) ---- */
sr1_status sr1__shim_sum_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim);
sr1_status sr1__shim_mean_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim);
sr1_status sr1__shim_logsumexp(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim);
sr1_status sr1__shim_softmax(sr1_tensor **out, sr1_tensor *a, int32_t dim);
sr1_status sr1__shim_log_softmax(sr1_tensor **out, sr1_tensor *a, int32_t dim);
/* The same, added up and returned as dtype. */
sr1_status sr1__shim_sum_dim_as(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim,
                                int32_t dtype);
sr1_status sr1__shim_max_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim);
sr1_status sr1__shim_argmax(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim);
sr1_status sr1__shim_cumsum(sr1_tensor **out, sr1_tensor *a, int32_t dim, int32_t dtype);
/* Least and greatest along dim, which stays with size 1; NaN where there is one. */
sr1_status sr1__shim_aminmax(sr1_tensor **least, sr1_tensor **greatest, sr1_tensor *a,
                             int32_t dim);
/* Along the last dimension, greatest first, equal ones in their order. */
sr1_status sr1__shim_sort_down(sr1_tensor **values, sr1_tensor **places, sr1_tensor *a);
/* The k greatest along the last dimension, greatest first, and their i64 places. */
sr1_status sr1__shim_topk(sr1_tensor **values, sr1_tensor **places, sr1_tensor *a,
                          int64_t k);
/* The same bytes as elements of dtype. */
sr1_status sr1__shim_view_as(sr1_tensor **out, sr1_tensor *a, int32_t dtype);
sr1_status sr1__shim_reshape(sr1_tensor **out, sr1_tensor *a, int32_t ndim,
                             const int64_t *shape);
sr1_status sr1__shim_expand(sr1_tensor **out, sr1_tensor *a, int32_t ndim,
                            const int64_t *shape);
sr1_status sr1__shim_transpose(sr1_tensor **out, sr1_tensor *a, int32_t d0, int32_t d1);
sr1_status sr1__shim_unsqueeze(sr1_tensor **out, sr1_tensor *a, int32_t dim);
sr1_status sr1__shim_squeeze(sr1_tensor **out, sr1_tensor *a, int32_t dim);
sr1_status sr1__shim_narrow(sr1_tensor **out, sr1_tensor *a, int32_t dim, int64_t start,
                            int64_t n);
/* Views of n parts along dim; sizes add up to that of a. */
sr1_status sr1__shim_split(sr1_tensor **out, sr1_tensor *a, const int64_t *sizes,
                           size_t n, int32_t dim);
sr1_status sr1__shim_cat(sr1_tensor **out, sr1_tensor *const *parts, size_t n,
                         int32_t dim);
sr1_status sr1__shim_contiguous(sr1_tensor **out, sr1_tensor *a);
sr1_status sr1__shim_index_select(sr1_tensor **out, sr1_tensor *a, int32_t dim,
                                  sr1_tensor *index);
sr1_status sr1__shim_gather(sr1_tensor **out, sr1_tensor *a, int32_t dim,
                            sr1_tensor *index);
sr1_status sr1__shim_where(sr1_tensor **out, sr1_tensor *cond, sr1_tensor *a,
                           sr1_tensor *b);

/* ---- layers (layers.cpp) ---- */
sr1_status sr1__shim_embedding(sr1_tensor **out, sr1_tensor *table, sr1_tensor *ids);
sr1_status sr1__shim_linear(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w,
                            sr1_tensor *bias_or_null);
sr1_status sr1__shim_rms_norm(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w_or_null,
                              double eps);
sr1_status sr1__shim_layer_norm(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w,
                                sr1_tensor *b, double eps);
sr1_status sr1__shim_gelu_tanh(sr1_tensor **out, sr1_tensor *a);
sr1_status sr1__shim_sdpa(sr1_tensor **out, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                          sr1_tensor *mask_or_null, int is_causal, int enable_gqa);
/* Attention on the CPU without a backward of its own; lse fp32 [B,H,T]. */
sr1_status sr1__shim_flash(sr1_tensor **y, sr1_tensor **lse, sr1_tensor *q, sr1_tensor *k,
                           sr1_tensor *v, int is_causal);
sr1_status sr1__shim_flash_backward(sr1_tensor *grads[3], sr1_tensor *grad_y,
                                    sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                    sr1_tensor *y, sr1_tensor *lse, int is_causal);

/* ---- in place (inplace.cpp) ---- */
sr1_status sr1__shim_copy_(sr1_tensor *a, sr1_tensor *from);
sr1_status sr1__shim_add_(sr1_tensor *a, sr1_tensor *b, double scale_of_b);
sr1_status sr1__shim_mul_scalar_(sr1_tensor *a, double v);
sr1_status sr1__shim_fill_(sr1_tensor *a, double v);
sr1_status sr1__shim_index_copy_(sr1_tensor *a, sr1_tensor *index, sr1_tensor *rows);
/* a[i, index[i,j]] += v[i,j], along the last dimension */
sr1_status sr1__shim_scatter_add_(sr1_tensor *a, sr1_tensor *index, sr1_tensor *v);
/* out = beta out + alpha (a @ b), 2-D */
sr1_status sr1__shim_addmm_(sr1_tensor *out, sr1_tensor *a, sr1_tensor *b, double beta,
                            double alpha);
/* out = a @ b, 3-D; out may be a view with rows apart */
sr1_status sr1__shim_bmm_to(sr1_tensor *out, sr1_tensor *a, sr1_tensor *b);
sr1_status sr1__shim_addcmul_(sr1_tensor *a, sr1_tensor *b, sr1_tensor *c);
sr1_status sr1__shim_exp_(sr1_tensor *a);
sr1_status sr1__shim_sub_(sr1_tensor *a, sr1_tensor *b);
sr1_status sr1__shim_mul_(sr1_tensor *a, sr1_tensor *b);

/* ---- without waiting (later.cpp) ---- */
/* A CPU tensor of pinned memory: copies from a device into it need not wait. */
sr1_status sr1__shim_pinned(sr1_tensor **out, int32_t dtype, int32_t ndim,
                            const int64_t *shape);
/* copy_ that returns at once: down into pinned memory it has taken place once an event
 * recorded behind it has been waited for; up, memory that is not pinned has been read. */
sr1_status sr1__shim_copy_later_(sr1_tensor *a, sr1_tensor *from);
sr1_status sr1__shim_event_new(sr1__event **out, sr1__device device);
/* Behind all that was launched so far. */
sr1_status sr1__shim_event_record(sr1__event *e, sr1__device device);
sr1_status sr1__shim_event_wait(sr1__event *e);
void sr1__shim_event_free(sr1__event *e); /* NULL is fine */
/* A stream of the device beside the current one; on the CPU all is done at once. */
sr1_status sr1__shim_stream_new(sr1__stream **out, sr1__device device);
/* Before work is given to it: its device becomes this thread's, what was launched on the
 * device's current stream comes before, and *native is cudaStream_t; NULL on the CPU. */
sr1_status sr1__shim_stream_enter(sr1__stream *s, void **native);
sr1_status sr1__shim_stream_is_done(sr1__stream *s, int *done);
void sr1__shim_stream_free(sr1__stream *s); /* NULL is fine */

/* ---- autograd (autograd.cpp) ---- */
sr1_status sr1__shim_require_grad(sr1_tensor *leaf, int on);
sr1_status sr1__shim_backward(sr1_tensor *y, sr1_tensor *grad_or_null);
/* 1 once anything went backward in this process: CUDA can no longer be loaded. */
int sr1__shim_ran_backward(void);
/* A new reference, or NULL with SR1_OK when there is none. */
sr1_status sr1__shim_grad(sr1_tensor **out, sr1_tensor *leaf);
sr1_status sr1__shim_clear_grad(sr1_tensor *leaf);
/* Thread's grad mode; returns what it was. */
int sr1__shim_grad_mode(int on);
/* NULL when there is no memory; leave in reverse order of entering. */
void *sr1__shim_inference_enter(void);
void sr1__shim_inference_leave(void *guard);

/* Gradients of the inputs (new references or NULL) from those of the outputs (NULL:
 * none). */
typedef sr1_status (*sr1__shim_backward_fn)(void *self, sr1_tensor *const *grads_out,
                                            size_t n_out, sr1_tensor **grads_in,
                                            size_t n_in);
/* out[i]: the values of y[i] with this backward. self is freed with the graph, or at once
 * on failure or when no input needs a gradient. */
sr1_status sr1__shim_with_backward(sr1_tensor **out, sr1_tensor *const *y, size_t n_out,
                                   sr1_tensor *const *inputs, size_t n_in,
                                   sr1__shim_backward_fn fn, void *self,
                                   void (*free_self)(void *));

/* fn(arg, begin, end) over parts of [0, n) on libtorch's threads, at least grain each. */
sr1_status sr1__shim_parallel(int64_t n, int64_t grain,
                              void (*fn)(void *arg, int64_t begin, int64_t end),
                              void *arg);

/* ---- many tensors at once (foreach.cpp) ---- */
/* The L2 norm of each, added up in fp32: out[n]. */
sr1_status sr1__shim_norms(sr1_tensor *const *list, size_t n, double *out);
sr1_status sr1__shim_scale_all_(sr1_tensor *const *list, size_t n, double v);
/* One AdamW update; step is a list of fp32 scalars on the device */
sr1_status sr1__shim_adamw_(sr1_tensor *const *params, sr1_tensor *const *grads,
                            sr1_tensor *const *exp_avg, sr1_tensor *const *exp_avg_sq,
                            sr1_tensor *const *step, size_t n, double lr, double beta1,
                            double beta2, double weight_decay, double eps);

#endif
