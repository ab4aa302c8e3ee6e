/* tensor/ops/ops.c - the operations of tensor/ops/ops.h: each does nothing on a
 * failed scope, else calls one entry of the shim and lets the scope own the result or the
 * error. */
#include "tensor/ops/ops.h"

#include <stdio.h>

#define MAX_OPERANDS 5

static int is_scope_live(const sr1_scope *s)
{
    return sr1__scope_status(s) == SR1_OK;
}

int32_t t_ndim(const sr1_tensor *t)
{
    return sr1__shim_ndim(t);
}

int64_t t_size(const sr1_tensor *t, int32_t dim)
{
    int32_t n = sr1__shim_ndim(t);

    dim = dim < 0 ? dim + n : dim;
    return dim >= 0 && dim < n ? sr1__shim_sizes(t)[dim] : 0;
}

int64_t t_numel(const sr1_tensor *t)
{
    return sr1__shim_numel(t);
}

int32_t t_dtype(const sr1_tensor *t)
{
    return t ? sr1__shim_dtype(t) : SR1__F32;
}

int t_needs_grad(const sr1_tensor *t)
{
    return sr1__shim_requires_grad(t);
}

/* Append "[4,8]" to text[at..cap). */
static size_t put_shape(char *text, size_t cap, size_t at, const sr1_tensor *t)
{
    const int64_t *sizes = sr1__shim_sizes(t);

    for (int32_t i = 0; i < t_ndim(t) && at < cap; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%lld", i ? "," : "[",
                               (long long)sizes[i]);
    if (at < cap)
        at += (size_t)snprintf(text + at, cap - at, t_ndim(t) ? "]" : t ? "[]" : "none");
    return at;
}

/* Own *r, or fail the scope with "name [4,8]x[2,3]: why". */
static sr1_tensor *own_op_result(sr1_scope *s, const char *name, sr1_status status,
                                 sr1_tensor *const *r, sr1_tensor *const *in, size_t n)
{
    char shapes[160];
    size_t at = 0;

    if (status == SR1_OK)
        return sr1__scope_own(s, *r);
    shapes[0] = '\0';
    for (size_t i = 0; i < n && at < sizeof shapes; i++) {
        if (i)
            at += (size_t)snprintf(shapes + at, sizeof shapes - at, "x");
        if (at < sizeof shapes)
            at = put_shape(shapes, sizeof shapes, at, in[i]);
    }
    sr1__scope_check(s, sr1__context(status, "%s %s", name, shapes));
    return NULL;
}

/* Check that all operands exist: a NULL operand on a scope that has not failed is an
 * error of the caller. */
static int check_operands(sr1_scope *s, const char *name, sr1_tensor *const *in, size_t n)
{
    if (!is_scope_live(s))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (in[i])
            continue;
        sr1__scope_fail(s, SR1_E_INTERNAL, "%s: operand %zu is missing", name, i + 1);
        return 0;
    }
    return 1;
}

/* The body of an operation: operands in parentheses, then the shim's name and the rest of
 * its arguments. */
#define OPERANDS(...)                                                                    \
    sr1_tensor *in[] = {__VA_ARGS__};                                                    \
    size_t n_in = sizeof in / sizeof in[0];                                              \
    sr1_tensor *r = NULL
#define RUN(name, ...)                                                                   \
    return check_operands(s, #name, in, n_in)                                            \
               ? own_op_result(s, #name, sr1__shim_##name(&r, __VA_ARGS__), &r, in,      \
                               n_in)                                                     \
               : NULL
#define RUN_IN_PLACE(name, ...)                                                          \
    if (check_operands(s, #name, in, n_in))                                              \
    (void)own_op_result(s, #name, sr1__shim_##name(__VA_ARGS__), &r, in, n_in)

/* Two results. */
#define RUN_PAIR(name, first, second, ...)                                               \
    *(first) = NULL;                                                                     \
    *(second) = NULL;                                                                    \
    if (check_operands(s, #name, in, n_in))                                              \
        (void)own_op_result(s, #name, sr1__shim_##name(first, second, __VA_ARGS__), &r,  \
                            in, n_in);                                                   \
    *(first) = sr1__scope_own(s, *(first));                                              \
    *(second) = sr1__scope_own(s, *(second))

#define UNARY(name, at_name)                                                             \
    sr1_tensor *t_##name(sr1_scope *s, sr1_tensor *a)                                    \
    {                                                                                    \
        OPERANDS(a);                                                                     \
        RUN(name, a);                                                                    \
    }
SR1__SHIM_UNARY(UNARY)
UNARY(contiguous, contiguous)
UNARY(gelu_tanh, gelu_tanh)

#define BINARY(name, at_name)                                                            \
    sr1_tensor *t_##name(sr1_scope *s, sr1_tensor *a, sr1_tensor *b)                     \
    {                                                                                    \
        OPERANDS(a, b);                                                                  \
        RUN(name, a, b);                                                                 \
    }
SR1__SHIM_BINARY(BINARY)

#define SCALAR(name, at_name)                                                            \
    sr1_tensor *t_##name(sr1_scope *s, sr1_tensor *a, double v)                          \
    {                                                                                    \
        OPERANDS(a);                                                                     \
        RUN(name, a, v);                                                                 \
    }
SR1__SHIM_SCALAR(SCALAR)

#define ALONG_DIM(name)                                                                  \
    sr1_tensor *t_##name(sr1_scope *s, sr1_tensor *a, int32_t dim)                       \
    {                                                                                    \
        OPERANDS(a);                                                                     \
        RUN(name, a, dim);                                                               \
    }
ALONG_DIM(softmax)
ALONG_DIM(log_softmax)
ALONG_DIM(unsqueeze)
ALONG_DIM(squeeze)

#define REDUCE_DIM(name)                                                                 \
    sr1_tensor *t_##name(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim)          \
    {                                                                                    \
        OPERANDS(a);                                                                     \
        RUN(name, a, dim, keepdim);                                                      \
    }
REDUCE_DIM(sum_dim)
REDUCE_DIM(mean_dim)
REDUCE_DIM(logsumexp)
REDUCE_DIM(max_dim)
REDUCE_DIM(argmax)

sr1_tensor *t_sum_dim_as(sr1_scope *s, sr1_tensor *a, int32_t dim, int keepdim,
                         int32_t dtype)
{
    OPERANDS(a);
    RUN(sum_dim_as, a, dim, keepdim, dtype);
}

sr1_tensor *t_cumsum(sr1_scope *s, sr1_tensor *a, int32_t dim, int32_t dtype)
{
    OPERANDS(a);
    RUN(cumsum, a, dim, dtype);
}

/* Copy a host array of n elements to the scope's device in another dtype or the same. */
static sr1_tensor *from_host(sr1_scope *s, const void *v, int32_t from, int32_t to,
                             int32_t ndim, const int64_t *shape)
{
    sr1_tensor *host = NULL;
    sr1_tensor *r = NULL;
    sr1_status status;

    if (!is_scope_live(s))
        return NULL;
    status = sr1__shim_wrap(&host, (void *)(uintptr_t)v, from, ndim, shape);
    if (status == SR1_OK)
        status = sr1__shim_to(&r, host, to, sr1__scope_device(s), 1);
    sr1__shim_release(host);
    return own_op_result(s, "from host", status, &r, NULL, 0);
}

sr1_tensor *t_from_f32(sr1_scope *s, const float *v, int32_t ndim, const int64_t *shape)
{
    return from_host(s, v, SR1__F32, SR1__F32, ndim, shape);
}

sr1_tensor *t_from_i64(sr1_scope *s, const int64_t *v, int32_t ndim, const int64_t *shape)
{
    return from_host(s, v, SR1__I64, SR1__I64, ndim, shape);
}

sr1_tensor *t_from_i32(sr1_scope *s, const int32_t *v, size_t n)
{
    return from_host(s, v, SR1__I32, SR1__I64, T_SHAPE((int64_t)n));
}

sr1_tensor *t_from_u8(sr1_scope *s, const uint8_t *v, size_t n)
{
    return from_host(s, v, SR1__U8, SR1__BOOL, T_SHAPE((int64_t)n));
}

sr1_tensor *t_from_host(sr1_scope *s, const void *v, int32_t dtype, int32_t ndim,
                        const int64_t *shape)
{
    return from_host(s, v, dtype, dtype, ndim, shape);
}

sr1_tensor *t_full(sr1_scope *s, double value, int32_t dtype, int32_t ndim,
                   const int64_t *shape)
{
    sr1_tensor *r = NULL;

    if (!is_scope_live(s))
        return NULL;
    return own_op_result(
        s, "full", sr1__shim_full(&r, value, dtype, ndim, shape, sr1__scope_device(s)),
        &r, NULL, 0);
}

sr1_tensor *t_empty(sr1_scope *s, int32_t dtype, int32_t ndim, const int64_t *shape)
{
    sr1_tensor *r = NULL;

    if (!is_scope_live(s))
        return NULL;
    return own_op_result(s, "empty",
                         sr1__shim_empty(&r, dtype, ndim, shape, sr1__scope_device(s)),
                         &r, NULL, 0);
}

sr1_tensor *t_arange(sr1_scope *s, int64_t n)
{
    sr1_tensor *r = NULL;

    if (!is_scope_live(s))
        return NULL;
    return own_op_result(s, "arange", sr1__shim_arange(&r, n, sr1__scope_device(s)), &r,
                         NULL, 0);
}

double t_item(sr1_scope *s, sr1_tensor *a)
{
    double v = 0.0;
    OPERANDS(a);

    RUN_IN_PLACE(item, a, &v);
    return is_scope_live(s) ? v : 0.0;
}

void t_to_host_f32(sr1_scope *s, sr1_tensor *a, float *out, size_t n)
{
    OPERANDS(a);

    RUN_IN_PLACE(to_host, a, SR1__F32, out, n);
}

void t_to_host_f64(sr1_scope *s, sr1_tensor *a, double *out, size_t n)
{
    OPERANDS(a);

    RUN_IN_PLACE(to_host, a, SR1__F64, out, n);
}

void t_to_host_i64(sr1_scope *s, sr1_tensor *a, int64_t *out, size_t n)
{
    OPERANDS(a);

    RUN_IN_PLACE(to_host, a, SR1__I64, out, n);
}

int t_isfinite_all(sr1_scope *s, sr1_tensor *a)
{
    int yes = 0;
    OPERANDS(a);

    RUN_IN_PLACE(isfinite_all, a, &yes);
    return is_scope_live(s) && yes;
}

sr1_tensor *t_view_as(sr1_scope *s, sr1_tensor *a, int32_t dtype)
{
    OPERANDS(a);
    RUN(view_as, a, dtype);
}

sr1_tensor *t_reshape(sr1_scope *s, sr1_tensor *a, int32_t ndim, const int64_t *shape)
{
    OPERANDS(a);
    RUN(reshape, a, ndim, shape);
}

sr1_tensor *t_expand(sr1_scope *s, sr1_tensor *a, int32_t ndim, const int64_t *shape)
{
    OPERANDS(a);
    RUN(expand, a, ndim, shape);
}

sr1_tensor *t_transpose(sr1_scope *s, sr1_tensor *a, int32_t d0, int32_t d1)
{
    OPERANDS(a);
    RUN(transpose, a, d0, d1);
}

sr1_tensor *t_narrow(sr1_scope *s, sr1_tensor *a, int32_t dim, int64_t start, int64_t n)
{
    OPERANDS(a);
    RUN(narrow, a, dim, start, n);
}

void t_split(sr1_scope *s, sr1_tensor *a, const int64_t *sizes, size_t n, int32_t dim,
             sr1_tensor **out)
{
    OPERANDS(a);

    for (size_t i = 0; i < n; i++)
        out[i] = NULL;
    if (check_operands(s, "split", in, n_in))
        (void)own_op_result(s, "split", sr1__shim_split(out, a, sizes, n, dim), &r, in,
                            n_in);
    for (size_t i = 0; i < n; i++)
        out[i] = sr1__scope_own(s, out[i]);
}

void t_topk(sr1_scope *s, sr1_tensor *a, int64_t k, sr1_tensor **values,
            sr1_tensor **places)
{
    OPERANDS(a);

    RUN_PAIR(topk, values, places, a, k);
}

void t_sort_down(sr1_scope *s, sr1_tensor *a, sr1_tensor **values, sr1_tensor **places)
{
    OPERANDS(a);

    RUN_PAIR(sort_down, values, places, a);
}

void t_aminmax(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor **least,
               sr1_tensor **greatest)
{
    OPERANDS(a);

    RUN_PAIR(aminmax, least, greatest, a, dim);
}

sr1_tensor *t_cat(sr1_scope *s, sr1_tensor *const *parts, size_t n, int32_t dim)
{
    sr1_tensor *r = NULL;

    if (!check_operands(s, "cat", parts, n))
        return NULL;
    return own_op_result(s, "cat", sr1__shim_cat(&r, parts, n, dim), &r, parts,
                         n < MAX_OPERANDS ? n : MAX_OPERANDS);
}

sr1_tensor *t_to(sr1_scope *s, sr1_tensor *a, int32_t dtype)
{
    OPERANDS(a);
    RUN(to, a, dtype, sr1__shim_device(a), 0);
}

sr1_tensor *t_to_device(sr1_scope *s, sr1_tensor *a, sr1__device device)
{
    OPERANDS(a);
    RUN(to, a, sr1__shim_dtype(a), device, 0);
}

sr1_tensor *t_index_select(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor *index)
{
    OPERANDS(a, index);
    RUN(index_select, a, dim, index);
}

sr1_tensor *t_gather(sr1_scope *s, sr1_tensor *a, int32_t dim, sr1_tensor *index)
{
    OPERANDS(a, index);
    RUN(gather, a, dim, index);
}

sr1_tensor *t_where(sr1_scope *s, sr1_tensor *cond, sr1_tensor *a, sr1_tensor *b)
{
    OPERANDS(cond, a, b);
    RUN(where, cond, a, b);
}

sr1_tensor *t_embedding(sr1_scope *s, sr1_tensor *table, sr1_tensor *ids)
{
    OPERANDS(table, ids);
    RUN(embedding, table, ids);
}

sr1_tensor *t_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, sr1_tensor *bias_or_null)
{
    OPERANDS(x, w);
    RUN(linear, x, w, bias_or_null);
}

sr1_tensor *t_rms_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, double eps)
{
    OPERANDS(x, w);
    RUN(rms_norm, x, w, eps);
}

sr1_tensor *t_rms_normalise(sr1_scope *s, sr1_tensor *x, double eps)
{
    OPERANDS(x);
    RUN(rms_norm, x, NULL, eps);
}

sr1_tensor *t_layer_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, sr1_tensor *b,
                         double eps)
{
    OPERANDS(x, w, b);
    RUN(layer_norm, x, w, b, eps);
}

sr1_tensor *t_sdpa(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                   sr1_tensor *mask_or_null, int is_causal)
{
    OPERANDS(q, k, v);
    RUN(sdpa, q, k, v, mask_or_null, is_causal, t_size(q, 1) != t_size(k, 1));
}

void t_flash(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v, int is_causal,
             sr1_tensor **y, sr1_tensor **lse)
{
    OPERANDS(q, k, v);

    RUN_PAIR(flash, y, lse, q, k, v, is_causal);
}

void t_flash_backward(sr1_scope *s, sr1_tensor *grad_y, sr1_tensor *q, sr1_tensor *k,
                      sr1_tensor *v, sr1_tensor *y, sr1_tensor *lse, int is_causal,
                      sr1_tensor *grads[3])
{
    OPERANDS(grad_y, q, k, v, y, lse);

    for (int i = 0; i < 3; i++)
        grads[i] = NULL;
    if (check_operands(s, "flash_backward", in, n_in))
        (void)own_op_result(
            s, "flash_backward",
            sr1__shim_flash_backward(grads, grad_y, q, k, v, y, lse, is_causal), &r, in,
            n_in);
    for (int i = 0; i < 3; i++)
        grads[i] = sr1__scope_own(s, grads[i]);
}

void t_copy_(sr1_scope *s, sr1_tensor *a, sr1_tensor *from)
{
    OPERANDS(a, from);

    RUN_IN_PLACE(copy_, a, from);
}

void t_copy_later_(sr1_scope *s, sr1_tensor *a, sr1_tensor *from)
{
    OPERANDS(a, from);

    RUN_IN_PLACE(copy_later_, a, from);
}

void t_upload_i64(sr1_scope *s, sr1_tensor *a, const int64_t *v)
{
    sr1_tensor *host = NULL;

    if (!is_scope_live(s))
        return;
    sr1__scope_check(
        s, sr1__shim_wrap(&host, (void *)(uintptr_t)v, SR1__I64, T_SHAPE(t_numel(a))));
    t_copy_later_(s, a, host);
    sr1__shim_release(host);
}

void t_add_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, double scale_of_b)
{
    OPERANDS(a, b);

    RUN_IN_PLACE(add_, a, b, scale_of_b);
}

void t_mul_scalar_(sr1_scope *s, sr1_tensor *a, double v)
{
    OPERANDS(a);

    RUN_IN_PLACE(mul_scalar_, a, v);
}

void t_fill_(sr1_scope *s, sr1_tensor *a, double v)
{
    OPERANDS(a);

    RUN_IN_PLACE(fill_, a, v);
}

#define IN_PLACE_BINARY(name)                                                            \
    void t_##name(sr1_scope *s, sr1_tensor *a, sr1_tensor *b)                            \
    {                                                                                    \
        OPERANDS(a, b);                                                                  \
        RUN_IN_PLACE(name, a, b);                                                        \
    }
IN_PLACE_BINARY(sub_)
IN_PLACE_BINARY(mul_)

void t_exp_(sr1_scope *s, sr1_tensor *a)
{
    OPERANDS(a);

    RUN_IN_PLACE(exp_, a);
}

void t_addmm_(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, sr1_tensor *c)
{
    OPERANDS(a, b, c);

    RUN_IN_PLACE(addmm_, a, b, c, 1.0, 1.0);
}

/* a changes by two others. */
#define IN_PLACE_OF_TWO(name)                                                            \
    void t_##name(sr1_scope *s, sr1_tensor *a, sr1_tensor *b, sr1_tensor *c)             \
    {                                                                                    \
        OPERANDS(a, b, c);                                                               \
                                                                                         \
        RUN_IN_PLACE(name, a, b, c);                                                     \
    }

IN_PLACE_OF_TWO(addcmul_)
IN_PLACE_OF_TWO(bmm_to)
IN_PLACE_OF_TWO(scatter_add_)
IN_PLACE_OF_TWO(index_copy_)

void t_require_grad(sr1_scope *s, sr1_tensor *leaf, int on)
{
    OPERANDS(leaf);

    RUN_IN_PLACE(require_grad, leaf, on);
}

void t_backward(sr1_scope *s, sr1_tensor *loss)
{
    OPERANDS(loss);

    RUN_IN_PLACE(backward, loss, NULL);
}

void t_backward_with(sr1_scope *s, sr1_tensor *y, sr1_tensor *grad)
{
    OPERANDS(y, grad);

    RUN_IN_PLACE(backward, y, grad);
}

sr1_tensor *t_grad(sr1_scope *s, sr1_tensor *leaf)
{
    OPERANDS(leaf);
    RUN(grad, leaf);
}

void t_clear_grad(sr1_scope *s, sr1_tensor *leaf)
{
    OPERANDS(leaf);

    RUN_IN_PLACE(clear_grad, leaf);
}
