/* tensor/ops/int8_linear.c - quantise a matrix by rows, and multiply with it block by
 * block. */
#include "tensor/ops/int8_linear.h"

#include <float.h>

static int64_t block_rows(const sr1_tensor *q)
{
    int64_t n_in = t_size(q, 1), n = n_in > 0 ? SR1__INT8_BLOCK / n_in : 1;

    return n > 1 ? n : 1;
}

/* Rows [from, from + n); a row of zeros has the least scale. */
static void quantize_block(sr1_scope *outer, sr1_tensor *q, sr1_tensor *scale,
                           sr1_tensor *w, int64_t from, int64_t n)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *rows = t_to_device(s, t_narrow(s, w, 0, from, n), sr1__scope_device(s));
    sr1_tensor *by, *most = t_full(s, 127.0, SR1__F32, 0, NULL);

    rows = t_to(s, rows, SR1__F32);
    by = t_div(s, t_max_dim(s, t_abs(s, rows), -1, 1), most);
    by = t_clamp_min(s, by, FLT_MIN);
    t_copy_(s, t_narrow(s, scale, 0, from, n), by);
    t_copy_(s, t_narrow(s, q, 0, from, n), t_round(s, t_div(s, rows, by)));
    (void)sr1__scope_close(s);
}

void sr1__int8_quantize(sr1_scope *s, sr1_tensor *q, sr1_tensor *scale, sr1_tensor *w)
{
    int64_t step = block_rows(q), all = t_size(q, 0);

    for (int64_t i = 0; i < all && sr1__scope_status(s) == SR1_OK; i += step)
        quantize_block(s, q, scale, w, i, all - i < step ? all - i : step);
}

/* x times rows [from, from + n) -> [N,n] */
static sr1_tensor *multiply_block(sr1_scope *outer, sr1_tensor *x, sr1_tensor *q,
                                  sr1_tensor *scale, int64_t from, int64_t n)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *w = t_mul(s, t_narrow(s, q, 0, from, n), t_narrow(s, scale, 0, from, n));
    sr1_tensor *narrow = t_to(s, w, t_dtype(x)), *y;

    if (narrow != w)
        t_drop(s, w);
    y = t_keep(s, t_linear(s, x, narrow, NULL));
    (void)sr1__scope_close(s);
    return y;
}

sr1_tensor *sr1__int8_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *q,
                             sr1_tensor *scale, sr1_tensor *bias)
{
    int64_t step = block_rows(q), all = t_size(q, 0);
    sr1_tensor *y;

    if (all <= step) {
        y = multiply_block(s, x, q, scale, 0, all);
    } else {
        y = t_empty(s, t_dtype(x), T_SHAPE(t_size(x, 0), all));
        for (int64_t i = 0; i < all && sr1__scope_status(s) == SR1_OK; i += step) {
            int64_t n = all - i < step ? all - i : step;
            sr1_tensor *part = multiply_block(s, x, q, scale, i, n);

            t_copy_(s, t_narrow(s, y, 1, i, n), part);
            t_drop(s, part);
        }
    }
    return bias ? t_add(s, y, bias) : y;
}
