/* tensor/ops/fused.c - kernels of a decoder layer as operations with gradients.
 *
 * Rows are divided among libtorch's threads; of bf16 they are widened some at a time, so
 * that a result is rounded once. The gradients of norm weights are sums over all rows:
 * they are computed in PARTS partial sums whose bounds do not depend on the number of
 * threads and which are added in order, so the result does not depend on it either. */
#include "tensor/ops/fused.h"

#include "base/mem.h"
#include "kernels/bf16.h"
#include "kernels/layer.h"
#include "tensor/ops/nn.h"

#include <stdatomic.h>

#define PARTS 16
#define GRAIN_FLOATS 16384
#define ROOM_FLOATS 32768 /* of rows in bf16 that are widened at a time */
#define ROWS_MAX 8        /* tensors of rows */

static int enabled = 1;

void sr1__fused_enable(int on)
{
    enabled = on;
}

int sr1__fused_takes(const sr1_tensor *t, int32_t dtype)
{
    return enabled && t && t_dtype(t) == dtype && sr1__shim_data(t);
}

/* Those of kernels/layer.h. */
static int is_taken(const sr1_tensor *t)
{
    return sr1__fused_takes(t, SR1__F32) || sr1__fused_takes(t, SR1__BF16);
}

/* ---- rows ---- */

struct fused_job;
/* A kernel over n rows in fp32: those of the job's tensors, in its order. gw: where
 * gradients of norm weights are added, or NULL. */
typedef void (*fused_fn)(const struct fused_job *j, float *const *rows,
                         float *const gw[2], int64_t n);

struct fused_job {
    fused_fn fn;
    struct {
        void *data;
        int64_t width;
    } rows[ROWS_MAX]; /* first those that it reads, */
    int n_in, n_out;  /* then those that it writes */
    int bf16;
    int64_t n;
    float *gw[2]; /* PARTS times gw_width each, NULL without norms */
    int64_t gw_width;
    const float *w;
    struct sr1__heads heads;
    int64_t d;
    double eps;
    atomic_int failed; /* a thread got no memory */
};

static void add_job_rows(struct fused_job *j, const sr1_tensor *t, int64_t width,
                         int written)
{
    int i = j->n_in + j->n_out;

    j->rows[i].data = t ? sr1__shim_data(t) : NULL;
    j->rows[i].width = width;
    *(written ? &j->n_out : &j->n_in) += 1;
}

static int64_t sum_widths(const struct fused_job *j)
{
    int64_t sum = 0;

    for (int i = 0; i < j->n_in + j->n_out; i++)
        sum += j->rows[i].width;
    return sum;
}

/* n rows from `row` on of the tensors that are read into room, or of the others back. */
static void convert_rows(const struct fused_job *j, float *const *room, int64_t row,
                         int64_t n, int back)
{
    for (int i = back ? j->n_in : 0; i < j->n_in + (back ? j->n_out : 0); i++) {
        uint16_t *at = (uint16_t *)j->rows[i].data + row * j->rows[i].width;
        size_t count = (size_t)(n * j->rows[i].width);

        if (back)
            sr1__f32_to_bf16(room[i], at, count);
        else
            sr1__bf16_to_f32(at, room[i], count);
    }
}

/* As many rows at a time as fit a cache. */
static void run_widened(struct fused_job *j, int64_t from, int64_t end,
                        float *const gw[2])
{
    int64_t width = sum_widths(j), most = ROOM_FLOATS / width;
    float *memory, *room[ROWS_MAX];

    most = most < 1 ? 1 : most > end - from ? end - from : most;
    memory = sr1__calloc((size_t)(most * width + 1), sizeof *memory);
    if (!memory) {
        atomic_store(&j->failed, 1);
        return;
    }
    room[0] = memory;
    for (int i = 1; i < j->n_in + j->n_out; i++)
        room[i] = room[i - 1] + most * j->rows[i - 1].width;
    for (int64_t n; from < end; from += n) {
        n = end - from < most ? end - from : most;
        convert_rows(j, room, from, n, 0);
        j->fn(j, room, gw, n);
        convert_rows(j, room, from, n, 1);
    }
    sr1__free(memory);
}

static void run_row_range(struct fused_job *j, int64_t from, int64_t end,
                          float *const gw[2])
{
    float *rows[ROWS_MAX];

    if (from == end)
        return;
    if (j->bf16) {
        run_widened(j, from, end, gw);
        return;
    }
    for (int i = 0; i < j->n_in + j->n_out; i++)
        rows[i] = (float *)j->rows[i].data + from * j->rows[i].width;
    j->fn(j, rows, gw, end - from);
}

static void run_rows(void *arg, int64_t from, int64_t end)
{
    static float *const none[2];

    run_row_range(arg, from, end, none);
}

/* A range of the PARTS partial sums instead of a range of rows. */
static void run_parts(void *arg, int64_t first, int64_t last)
{
    struct fused_job *j = arg;

    for (int64_t p = first; p < last; p++) {
        float *const gw[2] = {j->gw[0] ? j->gw[0] + p * j->gw_width : NULL,
                              j->gw[1] ? j->gw[1] + p * j->gw_width : NULL};

        run_row_range(j, j->n * p / PARTS, j->n * (p + 1) / PARTS, gw);
    }
}

static void run_fused(sr1_scope *s, struct fused_job *j, int64_t tasks, int64_t grain,
                      void (*fn)(void *, int64_t, int64_t))
{
    if (sr1__scope_status(s) != SR1_OK)
        return;
    atomic_init(&j->failed, 0);
    sr1__scope_check(s, sr1__shim_parallel(tasks, grain, fn, j));
    if (atomic_load(&j->failed))
        sr1__scope_check(s, sr1__fail_nomem("rows of a layer"));
}

static void run_kernel_rows(sr1_scope *s, struct fused_job *j)
{
    run_fused(s, j, j->n, 1 + GRAIN_FLOATS / j->d, run_rows);
}

static void run_kernel_parts(sr1_scope *s, struct fused_job *j)
{
    run_fused(s, j, PARTS, 1, run_parts);
}

static sr1_tensor *make_empty_like(sr1_scope *s, const sr1_tensor *t)
{
    return t_empty(s, t_dtype(t), t_ndim(t), sr1__shim_sizes(t));
}

static sr1_tensor *parts_new(sr1_scope *s, int64_t d)
{
    return t_full(s, 0.0, SR1__F32, T_SHAPE(PARTS, d));
}

/* The sum of partial sums, in a weight's type. */
static sr1_tensor *sum_parts(sr1_scope *s, sr1_tensor *parts, const sr1_tensor *w)
{
    return t_to(s, t_sum_dim(s, parts, 0, 0), t_dtype(w));
}

/* A weight as kernels take it. */
static const float *widen_weight(sr1_scope *s, sr1_tensor *w)
{
    return w ? sr1__shim_data(t_to(s, w, SR1__F32)) : NULL;
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

static struct fused_job make_job(fused_fn fn, const sr1_tensor *like, int64_t n,
                                 int64_t d)
{
    return (struct fused_job){
        .fn = fn, .bf16 = t_dtype(like) == SR1__BF16, .n = n, .d = d};
}

static void norm_rows(const struct fused_job *j, float *const *rows, float *const gw[2],
                      int64_t n)
{
    (void)gw;
    sr1__rms_norm(rows[0], j->w, rows[1], n, j->d, j->eps);
}

static void norm_back_rows(const struct fused_job *j, float *const *rows,
                           float *const gw[2], int64_t n)
{
    sr1__rms_norm_backward(rows[0], j->w, rows[1], rows[2], gw[0], n, j->d, j->eps);
}

static void norm_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                          sr1_tensor **grads)
{
    const struct kept *k = p;
    sr1_tensor *gy = t_contiguous(s, grads_y[0]);
    sr1_tensor *gx = make_empty_like(s, k->x);
    int64_t d = t_size(k->x, -1);
    sr1_tensor *gw = parts_new(s, d);
    struct fused_job job = make_job(norm_back_rows, k->x, t_numel(k->x) / d, d);

    add_job_rows(&job, k->x, d, 0);
    add_job_rows(&job, gy, d, 0);
    add_job_rows(&job, gx, d, 1);
    job.w = widen_weight(s, k->w);
    job.eps = k->eps;
    job.gw[0] = gw ? sr1__shim_data(gw) : NULL;
    job.gw_width = d;
    run_kernel_parts(s, &job);
    grads[0] = gx;
    grads[1] = sum_parts(s, gw, k->w);
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

    if (!is_taken(x) || !is_taken(w) || t_size(x, -1) != d || t_numel(x) == 0)
        return normalise_by_ops(s, x, w, eps);
    y = make_empty_like(s, x);
    job = make_job(norm_rows, x, t_numel(x) / d, d);
    add_job_rows(&job, x, d, 0);
    add_job_rows(&job, y, d, 1);
    job.w = widen_weight(s, t_detach(s, w));
    job.eps = eps;
    run_kernel_rows(s, &job);
    k = t_needs_grad(x) || t_needs_grad(w) ? keep_for_backward(s, x, w, eps) : NULL;
    if (k)
        t_with_backward(s, &y, 1, inputs, 2, norm_backward, k, kept_free);
    return y;
}

/* ---- swiglu ---- */

static void swiglu_rows(const struct fused_job *j, float *const *rows, float *const gw[2],
                        int64_t n)
{
    (void)gw;
    sr1__swiglu(rows[0], rows[1], n, j->d);
}

static void swiglu_back_rows(const struct fused_job *j, float *const *rows,
                             float *const gw[2], int64_t n)
{
    (void)gw;
    sr1__swiglu_backward(rows[0], rows[1], rows[2], n, j->d);
}

static void swiglu_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                            sr1_tensor **grads)
{
    const struct kept *k = p;
    sr1_tensor *gy = t_contiguous(s, grads_y[0]);
    sr1_tensor *gx = make_empty_like(s, k->x);
    int64_t f = t_size(k->x, 1) / 2;
    struct fused_job job = make_job(swiglu_back_rows, k->x, t_size(k->x, 0), f);

    add_job_rows(&job, k->x, 2 * f, 0);
    add_job_rows(&job, gy, f, 0);
    add_job_rows(&job, gx, 2 * f, 1);
    run_kernel_rows(s, &job);
    grads[0] = gx;
}

sr1_tensor *sr1__fused_swiglu(sr1_scope *s, sr1_tensor *gate_up)
{
    int64_t n = t_size(gate_up, 0);
    int64_t f = t_size(gate_up, 1) / 2;
    struct kept *k;
    struct fused_job job;
    sr1_tensor *y;

    if (!is_taken(gate_up) || t_ndim(gate_up) != 2 || n * f == 0)
        return sr1__nn_swiglu(s, gate_up);
    y = t_empty(s, t_dtype(gate_up), T_SHAPE(n, f));
    job = make_job(swiglu_rows, gate_up, n, f);
    add_job_rows(&job, gate_up, 2 * f, 0);
    add_job_rows(&job, y, f, 1);
    run_kernel_rows(s, &job);
    k = t_needs_grad(gate_up) ? keep_for_backward(s, gate_up, NULL, 0.0) : NULL;
    if (k)
        t_with_backward(s, &y, 1, &gate_up, 1, swiglu_backward, k, kept_free);
    return y;
}

/* ---- heads ---- */

static struct fused_job make_heads_job(sr1_scope *s, fused_fn fn,
                                       const struct sr1__heads_op *op,
                                       const sr1_tensor *qkv)
{
    struct fused_job j = make_job(fn, qkv, t_size(qkv, 0), t_size(qkv, 1));

    j.heads = (struct sr1__heads){op->n_q,
                                  op->n_kv,
                                  op->dim,
                                  widen_weight(s, op->q_norm),
                                  widen_weight(s, op->k_norm),
                                  op->eps};
    add_job_rows(&j, qkv, t_size(qkv, 1), 0);
    add_job_rows(&j, op->cos, op->dim, 0);
    add_job_rows(&j, op->sin, op->dim, 0);
    return j;
}

static void heads_rows(const struct fused_job *j, float *const *rows, float *const gw[2],
                       int64_t n)
{
    (void)gw;
    sr1__heads_rope(&j->heads, rows[0], rows[1], rows[2], rows[3], rows[4], n);
}

static void heads_back_rows(const struct fused_job *j, float *const *rows,
                            float *const gw[2], int64_t n)
{
    sr1__heads_rope_backward(&j->heads, rows[0], rows[1], rows[2], rows[3], rows[4],
                             rows[5], rows[6], gw[0], gw[1], n);
}

/* The incoming gradient as a contiguous tensor; zeros when autograd passed none. */
static sr1_tensor *make_dense_grad(sr1_scope *s, sr1_tensor *g, int32_t dtype, int64_t n,
                                   int64_t heads, int64_t d)
{
    return g ? t_contiguous(s, g) : t_full(s, 0.0, dtype, T_SHAPE(n, heads, d));
}

static void heads_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                           sr1_tensor **grads)
{
    const struct kept *k = p;
    const struct sr1__heads_op *op = &k->heads;
    int64_t heads[3] = {op->n_q, op->n_kv, op->n_kv};
    sr1_tensor *gx = make_empty_like(s, k->x);
    sr1_tensor *gw[2] = {NULL, NULL};
    struct fused_job job = make_heads_job(s, heads_back_rows, op, k->x);

    for (int i = 0; i < 3; i++)
        add_job_rows(
            &job, make_dense_grad(s, grads_y[i], t_dtype(k->x), job.n, heads[i], op->dim),
            heads[i] * op->dim, 0);
    add_job_rows(&job, gx, job.d, 1);
    for (int i = 0; i < 2 && op->q_norm; i++) {
        gw[i] = parts_new(s, op->dim);
        job.gw[i] = gw[i] ? sr1__shim_data(gw[i]) : NULL;
    }
    job.gw_width = op->dim;
    run_kernel_parts(s, &job);
    grads[0] = gx;
    for (int i = 0; i < 2 && op->q_norm; i++)
        grads[1 + i] = sum_parts(s, gw[i], i == 0 ? op->q_norm : op->k_norm);
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
    int32_t dtype = t_dtype(qkv);

    return is_taken(qkv) && sr1__fused_takes(op->cos, dtype) &&
           sr1__fused_takes(op->sin, dtype) &&
           (!op->q_norm || (is_taken(op->q_norm) && is_taken(op->k_norm))) &&
           t_ndim(qkv) == 2 && t_size(qkv, 1) == (op->n_q + 2 * op->n_kv) * op->dim &&
           t_numel(op->cos) == t_size(qkv, 0) * op->dim && op->dim <= SR1__LAYER_DIM_MAX;
}

/* Without gradients of their own: they are those of the operation. */
static struct sr1__heads_op detach_norms(sr1_scope *s, const struct sr1__heads_op *op)
{
    struct sr1__heads_op plain = *op;

    plain.q_norm = op->q_norm ? t_detach(s, op->q_norm) : NULL;
    plain.k_norm = op->k_norm ? t_detach(s, op->k_norm) : NULL;
    return plain;
}

void sr1__fused_heads(sr1_scope *s, const struct sr1__heads_op *op, sr1_tensor *qkv,
                      sr1_tensor *out[3])
{
    int64_t n = t_size(qkv, 0);
    struct sr1__heads_op plain;
    struct fused_job job;

    if (op->turn) {
        compute_heads_by_products(s, op, qkv, out);
        return;
    }
    if (!can_fuse_heads(op, qkv)) {
        compute_heads_by_ops(s, op, qkv, out);
        return;
    }
    out[0] = t_empty(s, t_dtype(qkv), T_SHAPE(n, op->n_q, op->dim));
    out[1] = t_empty(s, t_dtype(qkv), T_SHAPE(n, op->n_kv, op->dim));
    out[2] = reshape_heads(s, op,
                           t_narrow(s, t_detach(s, qkv), -1,
                                    (op->n_q + op->n_kv) * op->dim, op->n_kv * op->dim),
                           op->n_kv);
    plain = detach_norms(s, op);
    job = make_heads_job(s, heads_rows, &plain, qkv);
    add_job_rows(&job, out[0], op->n_q * op->dim, 1);
    add_job_rows(&job, out[1], op->n_kv * op->dim, 1);
    run_kernel_rows(s, &job);
    if (t_needs_grad(qkv) ||
        (op->q_norm && (t_needs_grad(op->q_norm) || t_needs_grad(op->k_norm))))
        attach_heads_backward(s, op, qkv, out);
}
