/* tensor/ops/linear.c - matrices of tensors for the kernels, and a node for autograd. */
#include "tensor/ops/linear.h"

#include "base/mem.h"
#include "kernels/matmul.h"
#include "tensor/ops/fused.h"

#include <stdatomic.h>

/* ---- products ---- */

/* A product whose tasks are divided among libtorch's threads. */
struct product_job {
    struct sr1__matmul work;
    atomic_int failed; /* a thread got no scratch */
};

static void run_tasks(void *arg, int64_t begin, int64_t end)
{
    struct product_job *j = arg;
    void *scratch = sr1__malloc_aligned(sr1__matmul_scratch(&j->work));

    if (!scratch)
        atomic_store(&j->failed, 1);
    for (int64_t i = begin; scratch && i < end; i++)
        sr1__matmul_run(&j->work, (size_t)i, scratch);
    sr1__free(scratch);
}

/* c [m,n], dense, of the matrices' type or fp32, receives the product, whose sizes but k
 * are c's. */
static void multiply_into(sr1_scope *s, sr1_tensor *c, struct sr1__matmul work)
{
    struct product_job j = {.work = work};

    if (sr1__scope_status(s) != SR1_OK)
        return;
    j.work.threads = (size_t)sr1__torch_threads_get();
    j.work.c = sr1__shim_data(c);
    j.work.m = (size_t)t_size(c, 0);
    j.work.n = (size_t)t_size(c, 1);
    j.work.narrow = t_dtype(c) == SR1__BF16;
    atomic_init(&j.failed, 0);
    sr1__scope_check(
        s, sr1__shim_parallel((int64_t)sr1__matmul_tasks(&j.work), 1, run_tasks, &j));
    if (atomic_load(&j.failed))
        sr1__scope_check(s, sr1__fail_nomem("product"));
}

static int has_kernel(const sr1_tensor *t, int32_t dtype)
{
    return sr1__fused_takes(t, dtype) && t_ndim(t) == 2 && t_numel(t) > 0;
}

static int can_multiply(const sr1_tensor *a, const sr1_tensor *b)
{
    int32_t dtype = t_dtype(a);

    return (dtype == SR1__F32 || dtype == SR1__BF16) && has_kernel(a, dtype) &&
           has_kernel(b, dtype) && sr1__matmul_is_fast(dtype == SR1__BF16);
}

static struct sr1__strided as_rows(const sr1_tensor *t)
{
    return (struct sr1__strided){sr1__shim_data(t), (size_t)t_size(t, 1), 1};
}

static struct sr1__strided as_columns(const sr1_tensor *t)
{
    return (struct sr1__strided){sr1__shim_data(t), 1, (size_t)t_size(t, 1)};
}

int sr1__linear_has_kernel(const sr1_tensor *x, const sr1_tensor *w)
{
    return can_multiply(x, w) && t_size(x, 1) == t_size(w, 1);
}

void sr1__linear_into(sr1_scope *s, sr1_tensor *y, sr1_tensor *x, sr1_tensor *w,
                      sr1_tensor *bias)
{
    multiply_into(s, y,
                  (struct sr1__matmul){.a = as_rows(x),
                                       .b = as_columns(w),
                                       .bias = bias ? sr1__shim_data(bias) : NULL,
                                       .k = (size_t)t_size(x, 1),
                                       .bf16 = t_dtype(x) == SR1__BF16});
}

static sr1_tensor *forward_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                                  sr1_tensor *bias)
{
    sr1_tensor *y;

    if (!sr1__linear_has_kernel(x, w) ||
        (bias && (!sr1__fused_takes(bias, t_dtype(x)) || t_numel(bias) != t_size(w, 0))))
        return t_linear(s, x, w, bias);
    y = t_empty(s, t_dtype(x), T_SHAPE(t_size(x, 0), t_size(w, 0)));
    sr1__linear_into(s, y, x, w, bias);
    return y;
}

void sr1__linear_grad_x(sr1_scope *s, sr1_tensor *gx, sr1_tensor *g, sr1_tensor *w,
                        int add)
{
    multiply_into(s, gx,
                  (struct sr1__matmul){.a = as_rows(g),
                                       .b = as_rows(w),
                                       .k = (size_t)t_size(w, 0),
                                       .bf16 = t_dtype(g) == SR1__BF16,
                                       .add = add});
}

static sr1_tensor *compute_grad_x(sr1_scope *s, sr1_tensor *g, sr1_tensor *w)
{
    sr1_tensor *gx;

    if (!can_multiply(g, w) || t_size(g, 1) != t_size(w, 0))
        return t_matmul(s, g, w);
    gx = t_empty(s, t_dtype(g), T_SHAPE(t_size(g, 0), t_size(w, 1)));
    sr1__linear_grad_x(s, gx, g, w, 0);
    return gx;
}

void sr1__linear_grad_w(sr1_scope *s, sr1_tensor *gw, sr1_tensor *g, sr1_tensor *x,
                        int add)
{
    multiply_into(s, gw,
                  (struct sr1__matmul){.a = as_columns(g),
                                       .b = as_rows(x),
                                       .k = (size_t)t_size(x, 0),
                                       .bf16 = t_dtype(g) == SR1__BF16,
                                       .add = add});
}

static sr1_tensor *compute_grad_w(sr1_scope *s, sr1_tensor *g, sr1_tensor *x)
{
    sr1_tensor *gw;

    if (!can_multiply(g, x) || t_size(g, 0) != t_size(x, 0))
        return t_matmul(s, t_transpose(s, g, 0, 1), x);
    gw = t_empty(s, t_dtype(g), T_SHAPE(t_size(g, 1), t_size(x, 1)));
    sr1__linear_grad_w(s, gw, g, x, 0);
    return gw;
}

/* ---- with gradients ---- */

struct kept_linear {
    sr1_tensor *x;
    sr1_tensor *w;
    int x_wanted, w_wanted, bias_wanted;
};

static void kept_linear_free(void *p)
{
    struct kept_linear *k = p;

    sr1__tensor_free(k->x);
    sr1__tensor_free(k->w);
    sr1__free(k);
}

static void linear_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                            sr1_tensor **grads)
{
    const struct kept_linear *k = p;
    sr1_tensor *g = t_contiguous(s, grads_y[0]);

    if (k->x_wanted)
        grads[0] = compute_grad_x(s, g, k->w);
    if (k->w_wanted)
        grads[1] = compute_grad_w(s, g, k->x);
    if (k->bias_wanted)
        grads[2] = t_sum_dim(s, g, 0, 0);
}

static struct kept_linear *keep_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                                       sr1_tensor *bias)
{
    struct kept_linear *k = sr1__calloc(1, sizeof *k);

    if (!k) {
        sr1__scope_check(s, sr1__fail_nomem("saved tensors"));
        return NULL;
    }
    k->x = t_hold(s, x);
    k->w = t_hold(s, w);
    k->x_wanted = t_needs_grad(x);
    k->w_wanted = t_needs_grad(w);
    k->bias_wanted = bias && t_needs_grad(bias);
    return k;
}

static int has_gradient(const sr1_tensor *x, const sr1_tensor *w, const sr1_tensor *bias)
{
    return t_needs_grad(x) || t_needs_grad(w) || (bias && t_needs_grad(bias));
}

static sr1_tensor *attach_linear_backward(sr1_scope *s, sr1_tensor *y, sr1_tensor *x,
                                          sr1_tensor *w, sr1_tensor *bias,
                                          sr1__grad_fn backward)
{
    sr1_tensor *inputs[3] = {x, w, bias};
    struct kept_linear *k = keep_linear(s, x, w, bias);

    if (k)
        t_with_backward(s, &y, 1, inputs, bias ? 3 : 2, backward, k, kept_linear_free);
    return y;
}

sr1_tensor *sr1__linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, sr1_tensor *bias)
{
    sr1_tensor *y;

    if (!sr1__linear_has_kernel(x, w))
        return t_linear(s, x, w, bias);
    if (!has_gradient(x, w, bias))
        return forward_linear(s, x, w, bias);
    y = forward_linear(s, t_detach(s, x), t_detach(s, w),
                       bias ? t_detach(s, bias) : NULL);
    return attach_linear_backward(s, y, x, w, bias, linear_backward);
}

sr1_tensor *sr1__linear_unread(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                               sr1_tensor *bias)
{
    sr1_tensor *y;

    if (!sr1__linear_has_kernel(x, w) || !has_gradient(x, w, bias))
        return sr1__linear(s, x, w, bias);
    y = t_expand(s, t_full(s, 0.0, t_dtype(x), T_SHAPE(1, 1)),
                 T_SHAPE(t_size(x, 0), t_size(w, 0)));
    return attach_linear_backward(s, y, x, w, bias, linear_backward);
}

/* ---- sums in fp32 ---- */

static sr1_tensor *sum_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w)
{
    sr1_tensor *y;

    if (!sr1__linear_has_kernel(x, w))
        return t_linear(s, t_to(s, x, SR1__F32), t_to(s, w, SR1__F32), NULL);
    y = t_empty(s, SR1__F32, T_SHAPE(t_size(x, 0), t_size(w, 0)));
    sr1__linear_into(s, y, x, w, NULL);
    return y;
}

/* Copies in fp32 last as long as a product: kept are x and w as they are. */
static void sum_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                         sr1_tensor **grads)
{
    const struct kept_linear *k = p;
    sr1_tensor *g = t_contiguous(s, grads_y[0]);

    if (k->x_wanted)
        grads[0] = t_to(s, compute_grad_x(s, g, t_to(s, k->w, SR1__F32)), t_dtype(k->x));
    if (k->w_wanted)
        grads[1] = t_to(s, compute_grad_w(s, g, t_to(s, k->x, SR1__F32)), t_dtype(k->w));
}

sr1_tensor *sr1__linear_f32(sr1_scope *s, sr1_tensor *x, sr1_tensor *w)
{
    sr1_tensor *y;

    if (t_dtype(x) == SR1__F32)
        return sr1__linear(s, x, w, NULL);
    if (!has_gradient(x, w, NULL))
        return sum_linear(s, x, w);
    y = sum_linear(s, t_detach(s, x), t_detach(s, w));
    return attach_linear_backward(s, y, x, w, NULL, sum_backward);
}
