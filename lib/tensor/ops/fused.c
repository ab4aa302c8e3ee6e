/* tensor/ops/fused.c - kernels of a decoder layer as operations with gradients.
 *
 * Rows are divided among libtorch's threads. The gradients of norm weights are sums over
 * all rows: they are computed in PARTS partial sums whose bounds do not depend on the
 * number of threads and which are added in order, so the result does not depend on it
 * either. */
#include "tensor/ops/fused.h"

#include "base/mem.h"
#include "kernels/layer.h"
#include "tensor/ops/nn.h"

#define PARTS 16
#define GRAIN_FLOATS 16384

static int enabled = 1;

void sr1__fused_enable(int on)
{
    enabled = on;
}

int sr1__fused_takes(const sr1_tensor *t)
{
    return enabled && t && t_dtype(t) == SR1__F32 && sr1__shim_data(t);
}

static float *get_float_data(const sr1_tensor *t)
{
    return t ? sr1__shim_data(t) : NULL;
}

static sr1_tensor *make_empty_like(sr1_scope *s, const sr1_tensor *t)
{
    return t_empty(s, SR1__F32, t_ndim(t), sr1__shim_sizes(t));
}

/* Arguments of every kernel in this file; a kernel reads only the members it needs. */
struct fused_job {
    struct sr1__heads heads;
    const float *x;
    const float *w;
    const float *g[3];
    const float *cos;
    const float *sin;
    float *y[2];
    float *gx;
    float *gw[2]; /* PARTS times d, NULL without norms */
    int64_t n;
    int64_t d;
    double eps;
};

static void run_kernel_rows(sr1_scope *s, struct fused_job *job, int64_t width,
                            void (*fn)(void *, int64_t, int64_t))
{
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s,
                         sr1__shim_parallel(job->n, 1 + GRAIN_FLOATS / width, fn, job));
}

/* Like run, but fn gets a range of the PARTS partial sums instead of a range of
 * rows. */
static void run_parts(sr1_scope *s, struct fused_job *job,
                      void (*fn)(void *, int64_t, int64_t))
{
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_parallel(PARTS, 1, fn, job));
}

static sr1_tensor *parts_new(sr1_scope *s, int64_t d)
{
    return t_full(s, 0.0, SR1__F32, T_SHAPE(PARTS, d));
}

/* The tensors that the operations keep for backward. */
struct kept {
    sr1_tensor *x;
    sr1_tensor *w; /* or NULL */
    struct sr1__heads_op heads;
    double eps;
};

static void kept_free(void *p)
{
    struct kept *k = p;

    sr1__tensor_free(k->x);
    sr1__tensor_free(k->w);
    sr1__tensor_free(k->heads.q_norm);
    sr1__tensor_free(k->heads.k_norm);
    sr1__tensor_free(k->heads.cos);
    sr1__tensor_free(k->heads.sin);
    sr1__free(k);
}

static struct kept *keep_for_backward(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                                      double eps)
{
    struct kept *k = sr1__calloc(1, sizeof *k);

    if (!k) {
        sr1__scope_check(s, sr1__fail_nomem("saved tensors"));
        return NULL;
    }
    k->x = t_hold(s, x);
    k->w = t_hold(s, w);
    k->eps = eps;
    return k;
}

/* ---- rms norm ---- */

static void norm_rows(void *arg, int64_t a, int64_t b)
{
    const struct fused_job *j = arg;

    sr1__rms_norm(j->x + a * j->d, j->w, j->y[0] + a * j->d, b - a, j->d, j->eps);
}

static void norm_back_parts(void *arg, int64_t a, int64_t b)
{
    const struct fused_job *j = arg;

    for (int64_t p = a; p < b; p++) {
        int64_t from = j->n * p / PARTS;
        int64_t at = from * j->d;

        sr1__rms_norm_backward(j->x + at, j->w, j->g[0] + at, j->gx + at,
                               j->gw[0] + p * j->d, j->n * (p + 1) / PARTS - from, j->d,
                               j->eps);
    }
}

static void norm_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                          sr1_tensor **grads)
{
    const struct kept *k = p;
    sr1_tensor *gy = t_contiguous(s, grads_y[0]);
    sr1_tensor *gx = make_empty_like(s, k->x);
    int64_t d = t_size(k->x, -1);
    sr1_tensor *gw = parts_new(s, d);
    struct fused_job job = {.x = get_float_data(k->x),
                            .w = get_float_data(k->w),
                            .g = {get_float_data(gy)},
                            .gx = get_float_data(gx),
                            .gw = {get_float_data(gw)},
                            .n = t_numel(k->x) / d,
                            .d = d,
                            .eps = k->eps};

    run_parts(s, &job, norm_back_parts);
    grads[0] = gx;
    grads[1] = t_sum_dim(s, gw, 0, 0);
}

static sr1_tensor *normalise_by_ops(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                                    double eps)
{
    if (t_dtype(w) == t_dtype(x))
        return t_rms_norm(s, x, w, eps);
    return t_to(s, t_rms_norm(s, t_to(s, x, SR1__F32), w, eps), t_dtype(x));
}

sr1_tensor *sr1__fused_rms_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, double eps)
{
    sr1_tensor *inputs[2] = {x, w};
    int64_t d = t_size(w, 0);
    struct kept *k;
    struct fused_job job;
    sr1_tensor *y;

    if (!sr1__fused_takes(x) || !sr1__fused_takes(w) || t_size(x, -1) != d ||
        t_numel(x) == 0)
        return normalise_by_ops(s, x, w, eps);
    y = make_empty_like(s, x);
    job = (struct fused_job){.x = get_float_data(x),
                             .w = get_float_data(w),
                             .y = {get_float_data(y)},
                             .n = t_numel(x) / d,
                             .d = d,
                             .eps = eps};
    run_kernel_rows(s, &job, d, norm_rows);
    k = t_needs_grad(x) || t_needs_grad(w) ? keep_for_backward(s, x, w, eps) : NULL;
    if (k)
        t_with_backward(s, &y, 1, inputs, 2, norm_backward, k, kept_free);
    return y;
}

/* ---- swiglu ---- */

static void swiglu_rows(void *arg, int64_t a, int64_t b)
{
    const struct fused_job *j = arg;

    sr1__swiglu(j->x + a * 2 * j->d, j->y[0] + a * j->d, b - a, j->d);
}

static void swiglu_back_rows(void *arg, int64_t a, int64_t b)
{
    const struct fused_job *j = arg;

    sr1__swiglu_backward(j->x + a * 2 * j->d, j->g[0] + a * j->d, j->gx + a * 2 * j->d,
                         b - a, j->d);
}

static void swiglu_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                            sr1_tensor **grads)
{
    const struct kept *k = p;
    sr1_tensor *gy = t_contiguous(s, grads_y[0]);
    sr1_tensor *gx = make_empty_like(s, k->x);
    struct fused_job job = {.x = get_float_data(k->x),
                            .g = {get_float_data(gy)},
                            .gx = get_float_data(gx),
                            .n = t_size(k->x, 0),
                            .d = t_size(k->x, 1) / 2};

    run_kernel_rows(s, &job, job.d, swiglu_back_rows);
    grads[0] = gx;
}

sr1_tensor *sr1__fused_swiglu(sr1_scope *s, sr1_tensor *gate_up)
{
    int64_t n = t_size(gate_up, 0);
    int64_t f = t_size(gate_up, 1) / 2;
    struct kept *k;
    struct fused_job job;
    sr1_tensor *y;

    if (!sr1__fused_takes(gate_up) || t_ndim(gate_up) != 2 || n * f == 0)
        return sr1__nn_swiglu(s, gate_up);
    y = t_empty(s, SR1__F32, T_SHAPE(n, f));
    job = (struct fused_job){
        .x = get_float_data(gate_up), .y = {get_float_data(y)}, .n = n, .d = f};
    run_kernel_rows(s, &job, f, swiglu_rows);
    k = t_needs_grad(gate_up) ? keep_for_backward(s, gate_up, NULL, 0.0) : NULL;
    if (k)
        t_with_backward(s, &y, 1, &gate_up, 1, swiglu_backward, k, kept_free);
    return y;
}

/* ---- heads ---- */

static struct sr1__heads make_kernel_heads(const struct sr1__heads_op *op)
{
    return (struct sr1__heads){op->n_q,
                               op->n_kv,
                               op->dim,
                               get_float_data(op->q_norm),
                               get_float_data(op->k_norm),
                               op->eps};
}

static void heads_rows(void *arg, int64_t a, int64_t b)
{
    const struct fused_job *j = arg;
    const struct sr1__heads *h = &j->heads;
    int64_t d = h->dim;

    sr1__heads_rope(h, j->x + a * j->d, j->cos + a * d, j->sin + a * d,
                    j->y[0] + a * h->n_q * d, j->y[1] + a * h->n_kv * d, b - a);
}

static void heads_back_parts(void *arg, int64_t first, int64_t last)
{
    const struct fused_job *j = arg;
    const struct sr1__heads *h = &j->heads;
    int64_t d = h->dim;

    for (int64_t p = first; p < last; p++) {
        int64_t a = j->n * p / PARTS;
        int64_t kv = a * h->n_kv * d;

        sr1__heads_rope_backward(h, j->x + a * j->d, j->cos + a * d, j->sin + a * d,
                                 j->g[0] + a * h->n_q * d, j->g[1] + kv, j->g[2] + kv,
                                 j->gx + a * j->d, j->gw[0] ? j->gw[0] + p * d : NULL,
                                 j->gw[1] ? j->gw[1] + p * d : NULL,
                                 j->n * (p + 1) / PARTS - a);
    }
}

/* The incoming gradient as a contiguous tensor; zeros when autograd passed none. */
static sr1_tensor *make_dense_grad(sr1_scope *s, sr1_tensor *g, int64_t n, int64_t heads,
                                   int64_t d)
{
    return g ? t_contiguous(s, g) : t_full(s, 0.0, SR1__F32, T_SHAPE(n, heads, d));
}

static void heads_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                           sr1_tensor **grads)
{
    const struct kept *k = p;
    const struct sr1__heads_op *op = &k->heads;
    int64_t n = t_size(k->x, 0);
    sr1_tensor *gq = make_dense_grad(s, grads_y[0], n, op->n_q, op->dim);
    sr1_tensor *gk = make_dense_grad(s, grads_y[1], n, op->n_kv, op->dim);
    sr1_tensor *gv = make_dense_grad(s, grads_y[2], n, op->n_kv, op->dim);
    sr1_tensor *gx = make_empty_like(s, k->x);
    sr1_tensor *gw[2] = {NULL, NULL};
    struct fused_job job;

    for (int i = 0; i < 2 && op->q_norm; i++)
        gw[i] = parts_new(s, op->dim);
    job = (struct fused_job){
        .heads = make_kernel_heads(op),
        .x = get_float_data(k->x),
        .cos = get_float_data(op->cos),
        .sin = get_float_data(op->sin),
        .g = {get_float_data(gq), get_float_data(gk), get_float_data(gv)},
        .gx = get_float_data(gx),
        .gw = {get_float_data(gw[0]), get_float_data(gw[1])},
        .n = n,
        .d = t_size(k->x, 1)};
    run_parts(s, &job, heads_back_parts);
    grads[0] = gx;
    for (int i = 0; i < 2 && op->q_norm; i++)
        grads[1 + i] = t_sum_dim(s, gw[i], 0, 0);
}

static void attach_heads_backward(sr1_scope *s, const struct sr1__heads_op *op,
                                  sr1_tensor *qkv, sr1_tensor *out[3])
{
    sr1_tensor *inputs[3] = {qkv, op->q_norm, op->k_norm};
    struct kept *k = keep_for_backward(s, qkv, NULL, op->eps);

    if (!k)
        return;
    k->heads = *op;
    k->heads.q_norm = t_hold(s, op->q_norm);
    k->heads.k_norm = t_hold(s, op->k_norm);
    k->heads.cos = t_hold(s, op->cos);
    k->heads.sin = t_hold(s, op->sin);
    t_with_backward(s, out, 3, inputs, op->q_norm ? 3 : 1, heads_backward, k, kept_free);
}

/* n heads in x [N,n*D] */
static sr1_tensor *reshape_heads(sr1_scope *s, const struct sr1__heads_op *op,
                                 sr1_tensor *x, int64_t n)
{
    return t_reshape(s, x, T_SHAPE(t_size(x, 0), n, op->dim));
}

/* Heads normalised, where there is a norm, and turned. */
static sr1_tensor *turn_heads(sr1_scope *s, const struct sr1__heads_op *op, sr1_tensor *x,
                              sr1_tensor *norm)
{
    sr1_tensor *y = norm ? normalise_by_ops(s, x, norm, op->eps) : x;
    sr1_tensor *turned = sr1__nn_rope(s, y, op->cos, op->sin);

    if (norm)
        t_drop(s, y);
    return turned;
}

static void compute_heads_by_ops(sr1_scope *s, const struct sr1__heads_op *op,
                                 sr1_tensor *qkv, sr1_tensor *out[3])
{
    int64_t width[3] = {op->n_q * op->dim, op->n_kv * op->dim, op->n_kv * op->dim};

    t_split(s, qkv, width, 3, -1, out);
    out[0] = turn_heads(s, op, reshape_heads(s, op, out[0], op->n_q), op->q_norm);
    out[1] = turn_heads(s, op, reshape_heads(s, op, out[1], op->n_kv), op->k_norm);
    out[2] = reshape_heads(s, op, out[2], op->n_kv);
}

/* The heads of v are normalised for nothing, so that all lie as they do in qkv. */
static void compute_heads_by_products(sr1_scope *s, const struct sr1__heads_op *op,
                                      sr1_tensor *qkv, sr1_tensor *out[3])
{
    int64_t n_qk = op->n_q + op->n_kv;
    sr1_tensor *all = reshape_heads(s, op, qkv, n_qk + op->n_kv);
    sr1_tensor *qk = t_narrow(s, all, 1, 0, n_qk), *y;

    if (!op->qk_norm) {
        qk = t_bmm(s, qk, op->turn);
        out[0] = t_narrow(s, qk, 1, 0, op->n_q);
        out[1] = t_narrow(s, qk, 1, op->n_q, op->n_kv);
        out[2] = t_narrow(s, all, 1, n_qk, op->n_kv);
        return;
    }
    y = t_narrow(s, t_rms_normalise(s, all, op->eps), 1, 0, n_qk);
    t_bmm_to(s, qk, t_mul(s, y, op->qk_norm), op->turn);
    out[0] = t_narrow(s, all, 1, 0, op->n_q);
    out[1] = t_narrow(s, all, 1, op->n_q, 2 * op->n_kv);
    out[2] = NULL;
}

static int can_fuse_heads(const struct sr1__heads_op *op, const sr1_tensor *qkv)
{
    return sr1__fused_takes(qkv) && sr1__fused_takes(op->cos) &&
           sr1__fused_takes(op->sin) &&
           (!op->q_norm ||
            (sr1__fused_takes(op->q_norm) && sr1__fused_takes(op->k_norm))) &&
           t_ndim(qkv) == 2 && t_size(qkv, 1) == (op->n_q + 2 * op->n_kv) * op->dim &&
           t_numel(op->cos) == t_size(qkv, 0) * op->dim && op->dim <= SR1__LAYER_DIM_MAX;
}

void sr1__fused_heads(sr1_scope *s, const struct sr1__heads_op *op, sr1_tensor *qkv,
                      sr1_tensor *out[3])
{
    int64_t n = t_size(qkv, 0);
    struct fused_job job;

    if (op->turn) {
        compute_heads_by_products(s, op, qkv, out);
        return;
    }
    if (!can_fuse_heads(op, qkv)) {
        compute_heads_by_ops(s, op, qkv, out);
        return;
    }
    out[0] = t_empty(s, SR1__F32, T_SHAPE(n, op->n_q, op->dim));
    out[1] = t_empty(s, SR1__F32, T_SHAPE(n, op->n_kv, op->dim));
    out[2] = reshape_heads(s, op,
                           t_narrow(s, t_detach(s, qkv), -1,
                                    (op->n_q + op->n_kv) * op->dim, op->n_kv * op->dim),
                           op->n_kv);
    job = (struct fused_job){.heads = make_kernel_heads(op),
                             .x = get_float_data(qkv),
                             .cos = get_float_data(op->cos),
                             .sin = get_float_data(op->sin),
                             .y = {get_float_data(out[0]), get_float_data(out[1])},
                             .n = n,
                             .d = t_size(qkv, 1)};
    run_kernel_rows(s, &job, job.d, heads_rows);
    if (t_needs_grad(qkv) ||
        (op->q_norm && (t_needs_grad(op->q_norm) || t_needs_grad(op->k_norm))))
        attach_heads_backward(s, op, qkv, out);
}
