/* tensor/ops/embedding.c - rows of a table by which hidden states are multiplied, too.
 *
 * Backward gets the table's gradient from that product first, and adds those of the rows
 * to it where it is: a gradient of the rows alone would be as large as the table, and
 * another one their sum. */
#include "tensor/ops/nn.h"

#include "base/mem.h"
#include "kernels/bf16.h"
#include "tensor/ops/fused.h"

#include <stdlib.h>

struct embedding {
    sr1_tensor *table;
    sr1_tensor *ids; /* [N] */
};

static void embedding_free(void *p)
{
    struct embedding *e = p;

    sr1__tensor_free(e->table);
    sr1__tensor_free(e->ids);
    sr1__free(e);
}

/* A row of the table, and the token that has it. */
struct placed {
    int64_t row, token;
};

static int compare_places(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Gradients that are added to rows of the table's, both of one type. */
struct row_sum {
    void *to;         /* [V,E] */
    const void *from; /* [N,E] */
    int64_t width;
    int bf16;
    float *sum, *one; /* [E], for bf16 */
};

static void add_f32_row(const struct row_sum *r, const struct placed *p, size_t n)
{
    float *to = (float *)r->to + p->row * r->width;

    for (size_t i = 0; i < n; i++) {
        const float *g = (const float *)r->from + p[i].token * r->width;

        for (int64_t k = 0; k < r->width; k++)
            to[k] += g[k];
    }
}

/* Rounded once, however many tokens have the row. */
static void add_bf16_row(const struct row_sum *r, const struct placed *p, size_t n)
{
    uint16_t *to = (uint16_t *)r->to + p->row * r->width;

    sr1__bf16_to_f32(to, r->sum, (size_t)r->width);
    for (size_t i = 0; i < n; i++) {
        sr1__bf16_to_f32((const uint16_t *)r->from + p[i].token * r->width, r->one,
                         (size_t)r->width);
        for (int64_t k = 0; k < r->width; k++)
            r->sum[k] += r->one[k];
    }
    sr1__f32_to_bf16(r->sum, to, (size_t)r->width);
}

/* The tokens of a row in their order. */
static void add_rows(const struct row_sum *r, struct placed *p, size_t n)
{
    qsort(p, n, sizeof *p, compare_places);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && p[end].row == p[i].row;)
            end++;
        (r->bf16 ? add_bf16_row : add_f32_row)(r, p + i, end - i);
    }
}

static void add_embedding_rows(sr1_scope *s, const struct embedding *e, sr1_tensor *to,
                               sr1_tensor *g)
{
    size_t n = (size_t)t_numel(e->ids), width = (size_t)t_size(e->table, 1);
    const int64_t *ids = sr1__shim_data(e->ids);
    struct placed *places = sr1__calloc(n + 1, sizeof *places);
    float *wide = sr1__calloc(2 * width + 1, sizeof *wide);
    struct row_sum r = {.width = (int64_t)width,
                        .bf16 = t_dtype(e->table) == SR1__BF16,
                        .sum = wide,
                        .one = wide ? wide + width : NULL};

    if (!places || !wide)
        sr1__scope_check(s, sr1__fail_nomem("gradient of an embedding"));
    for (size_t i = 0; places && i < n; i++)
        places[i] = (struct placed){ids[i], (int64_t)i};
    if (sr1__scope_status(s) == SR1_OK) {
        r.to = sr1__shim_data(to);
        r.from = sr1__shim_data(g);
        add_rows(&r, places, n);
    }
    sr1__free(places);
    sr1__free(wide);
}

/* grads_y: of the rows, and of the table from what was multiplied by it. */
static void embedding_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                               sr1_tensor **grads)
{
    const struct embedding *e = p;
    sr1_tensor *to = grads_y[1];

    to = to ? t_contiguous(s, to)
            : t_full(s, 0.0, t_dtype(e->table), t_ndim(e->table),
                     sr1__shim_sizes(e->table));
    if (grads_y[0])
        add_embedding_rows(s, e, to, t_contiguous(s, grads_y[0]));
    grads[0] = to;
}

static int has_row_kernel(const sr1_tensor *table, const sr1_tensor *ids)
{
    return t_needs_grad(table) && t_ndim(table) == 2 &&
           (sr1__fused_takes(table, SR1__F32) || sr1__fused_takes(table, SR1__BF16)) &&
           sr1__shim_data(ids);
}

sr1_tensor *sr1__nn_tied_embedding(sr1_scope *s, sr1_tensor *table, sr1_tensor *ids,
                                   sr1_tensor **head)
{
    sr1_tensor *y[2];
    struct embedding *e;

    *head = table;
    if (sr1__scope_status(s) != SR1_OK || !has_row_kernel(table, ids))
        return t_embedding(s, table, ids);
    e = sr1__calloc(1, sizeof *e);
    if (!e) {
        sr1__scope_check(s, sr1__fail_nomem("saved tensors"));
        return NULL;
    }
    y[1] = t_detach(s, table);
    y[0] = t_embedding(s, y[1], ids);
    e->table = t_hold(s, y[1]);
    e->ids = t_hold(s, ids);
    t_with_backward(s, y, 2, &table, 1, embedding_backward, e, embedding_free);
    *head = y[1];
    return y[0];
}
