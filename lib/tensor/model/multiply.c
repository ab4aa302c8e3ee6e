/* tensor/model/multiply.c - a weight matrix times a few rows, split into blocks of
 * outputs that are divided among threads and stay in a cache for all rows. */
#include "tensor/model/multiply.h"

#include "kernels/gemv.h"

#define ROWS_MAX 8
#define BLOCK 32 /* outputs */
#define PARALLEL_WORK                                                                    \
    2000000 /* multiplications below which waking threads does not pay */

/* One matrix, its rows in groups of at most SR1__GEMV_ROWS. */
struct gemv_work {
    struct sr1__gemv groups[ROWS_MAX / SR1__GEMV_ROWS];
    size_t n_groups;
};

static sr1_status run_block(void *arg, size_t i)
{
    const struct gemv_work *w = arg;
    size_t end = w->groups[0].n_out;
    size_t to = (i + 1) * BLOCK < end ? (i + 1) * BLOCK : end;

    for (size_t g = 0; g < w->n_groups; g++)
        sr1__gemv(&w->groups[g], i * BLOCK, to);
    return SR1_OK;
}

static int fits_gemv(sr1_tensor *x, sr1_tensor *w)
{
    int32_t dtype = t_dtype(w);

    return t_ndim(x) == 2 && t_size(x, 0) <= ROWS_MAX && t_size(x, 1) == t_size(w, 1) &&
           (dtype == SR1__F32 || dtype == SR1__BF16) && t_dtype(x) == dtype &&
           sr1__shim_data(w) != NULL;
}

static void split_gemv_rows(struct gemv_work *work, sr1_tensor *w, const float *x,
                            float *y, size_t n)
{
    size_t n_out = (size_t)t_size(w, 0);
    size_t k = (size_t)t_size(w, 1);

    for (size_t i = 0; i < n; i += SR1__GEMV_ROWS) {
        size_t rows = n - i < SR1__GEMV_ROWS ? n - i : SR1__GEMV_ROWS;

        work->groups[work->n_groups++] = (struct sr1__gemv){sr1__shim_data(w),
                                                            t_dtype(w) == SR1__BF16,
                                                            x + i * k,
                                                            y + i * n_out,
                                                            rows,
                                                            n_out,
                                                            k};
    }
}

sr1_tensor *sr1__multiply(sr1_scope *s, struct sr1__pool *pool, sr1_tensor *x,
                          sr1_tensor *w, sr1_tensor *bias)
{
    struct gemv_work work = {.n_groups = 0};
    int64_t cost = t_numel(w) * t_size(x, 0);
    sr1_tensor *in;
    sr1_tensor *out;
    const float *from;
    float *to;

    if (!x || !fits_gemv(x, w))
        return t_linear(s, x, w, bias);
    in = t_contiguous(s, t_to(s, x, SR1__F32));
    out = t_empty(s, SR1__F32, T_SHAPE(t_size(x, 0), t_size(w, 0)));
    from = sr1__shim_data(in);
    to = sr1__shim_data(out);
    if (from && to) {
        split_gemv_rows(&work, w, from, to, (size_t)t_size(x, 0));
        sr1__scope_check(s, sr1__pool_run(cost > PARALLEL_WORK ? pool : NULL,
                                          ((size_t)t_size(w, 0) + BLOCK - 1) / BLOCK,
                                          run_block, &work));
    }
    out = t_to(s, out, t_dtype(w));
    return bias ? t_add(s, out, bias) : out;
}
