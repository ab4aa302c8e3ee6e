/* kernels/matmul.c - cutting a product into tasks, whose columns are packed once for all
 * of their rows.
 *
 * A task goes through k slab by slab, for a slab through its rows some at a time, for
 * these through the slab block by block, and for a block through its columns. Rows of a
 * that lie across memory are copied block by block: lines a power of two apart would
 * share a few places in a cache. */
#include "kernels/matmul.h"

#include "kernels/exp.h"
#include "kernels/product.h"

#include <string.h>

#define TASK_GROUPS 4 /* of SR1__GROUP_OUT columns */
#define TASK_COLUMNS ((size_t)TASK_GROUPS * SR1__GROUP_OUT)
#define TASK_ROWS 1024 /* fewer would be packed for too often */
#define TURNED_ROWS 384
#define ROWS 96 /* whose sums stay in a cache: six at a time, for the product */
#define DEPTH ((size_t)SR1__PRODUCT_DEPTH)
#define SLAB (16 * DEPTH) /* of k that is packed at once: 4 MiB, however long k is */

int sr1__matmul_is_fast(void)
{
    return strcmp(sr1__product_variant_name(0), "portable") != 0;
}

static int is_turned(const struct sr1__matmul *w)
{
    return w->a.column_step != 1;
}

static size_t choose_task_rows(const struct sr1__matmul *w)
{
    return is_turned(w) ? TURNED_ROWS : TASK_ROWS;
}

static size_t count_cuts(const struct sr1__matmul *w)
{
    return (w->m + choose_task_rows(w) - 1) / choose_task_rows(w);
}

size_t sr1__matmul_tasks(const struct sr1__matmul *w)
{
    return (w->n + TASK_COLUMNS - 1) / TASK_COLUMNS * count_cuts(w);
}

/* Scratch: a slab of the columns of a task, rows of a across memory, and a tile. */
static size_t count_panel_floats(const struct sr1__matmul *w)
{
    size_t columns = w->n < TASK_COLUMNS ? w->n : TASK_COLUMNS;
    size_t depth = w->k < SLAB ? w->k : SLAB;

    return depth * sr1__panels_groups(columns) * SR1__GROUP_OUT;
}

size_t sr1__matmul_scratch(const struct sr1__matmul *w)
{
    return (count_panel_floats(w) + ROWS * (DEPTH + SR1__GROUP_OUT)) * sizeof(float);
}

/* ---- packing: [block of k][group][panel][k][SR1__PANEL], zeros behind columns ---- */

/* width columns of k rows that lie side by side. */
static void pack_rows(const struct sr1__strided *b, size_t k, size_t width, float *to)
{
    if (width == SR1__PANEL)
        for (size_t i = 0; i < k; i++)
            memcpy(to + i * SR1__PANEL, b->data + i * b->row_step,
                   SR1__PANEL * sizeof *to);
    else
        for (size_t i = 0; i < k; i++)
            memcpy(to + i * SR1__PANEL, b->data + i * b->row_step, width * sizeof *to);
}

/* SR1__PANEL columns of neighbouring k, each from a line of its own. */
SR1__INLINE void turn_square(const float *from, size_t step, float *to)
{
    for (size_t o = 0; o < SR1__PANEL; o++)
        for (size_t i = 0; i < SR1__PANEL; i++)
            to[i * SR1__PANEL + o] = from[o * step + i];
}

static void turn_columns(const struct sr1__strided *b, size_t k, size_t width, float *to)
{
    size_t whole = width == SR1__PANEL ? k / SR1__PANEL * SR1__PANEL : 0;

    for (size_t i = 0; i < whole; i += SR1__PANEL)
        turn_square(b->data + i, b->column_step, to + i * SR1__PANEL);
    for (size_t o = 0; o < width; o++)
        for (size_t i = whole; i < k; i++)
            to[i * SR1__PANEL + o] = b->data[o * b->column_step + i];
}

/* Columns [first, first + n) of rows [row, row + k) of b, in whole groups. */
static void pack_block(const struct sr1__matmul *w, size_t row, size_t k, size_t first,
                       size_t n, float *to)
{
    size_t panels = sr1__panels_groups(n) * SR1__PANEL_GROUP;

    for (size_t p = 0; p < panels; p++, to += k * SR1__PANEL) {
        size_t at = p * SR1__PANEL;
        size_t width = n <= at ? 0 : n - at < SR1__PANEL ? n - at : SR1__PANEL;
        struct sr1__strided b = w->b;

        b.data += row * b.row_step + (first + at) * b.column_step;
        if (width < SR1__PANEL)
            memset(to, 0, k * SR1__PANEL * sizeof *to);
        if (width > 0 && b.column_step == 1)
            pack_rows(&b, k, width, to);
        else if (width > 0)
            turn_columns(&b, k, width, to);
    }
}

/* ---- rows ---- */

static void move_rows(float *to, size_t to_step, const float *from, size_t from_step,
                      size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * to_step, from + r * from_step, n * sizeof *to);
}

/* Rows of a task, and what they are multiplied with. */
struct matmul_cut {
    const struct sr1__matmul *w;
    size_t row, rows;
    size_t first, n; /* columns */
    size_t slab;     /* the first k of what is packed: */
    const float *panels;
    float *across; /* [DEPTH, ROWS] */
    float *tile;   /* [ROWS, SR1__GROUP_OUT] */
};

/* Outputs of a group by a block of k. Where the group is not whole they go by a tile. */
static void multiply_columns(const struct matmul_cut *c, struct sr1__product_work *work,
                             size_t group)
{
    const struct sr1__matmul *w = c->w;
    size_t at = group * SR1__GROUP_OUT;
    size_t n = c->n - at < SR1__GROUP_OUT ? c->n - at : SR1__GROUP_OUT;
    float *out = w->c + c->row * w->n + c->first + at;
    int whole = n == SR1__GROUP_OUT;

    work->tile = whole ? out : c->tile;
    work->tile_stride = whole ? w->n : SR1__GROUP_OUT;
    if (!whole && work->add)
        move_rows(c->tile, SR1__GROUP_OUT, out, w->n, c->rows, n);
    sr1__product_run(work, 0);
    if (!whole)
        move_rows(out, w->n, c->tile, SR1__GROUP_OUT, c->rows, n);
}

static void multiply_block(const struct matmul_cut *c, size_t from, size_t k)
{
    const struct sr1__strided *a = &c->w->a;
    const float *x = a->data + c->row * a->row_step + from * a->column_step;
    size_t groups = sr1__panels_groups(c->n);
    struct sr1__product_work work = {.x = x,
                                     .stride = a->row_step,
                                     .step = 1,
                                     .n = c->rows,
                                     .depth = k,
                                     .add = from > 0 || c->w->add};

    if (is_turned(c->w)) {
        move_rows(c->across, ROWS, x, a->column_step, k, c->rows);
        work.x = c->across;
        work.stride = 1;
        work.step = ROWS;
    }
    for (size_t g = 0; g < groups; g++) {
        work.panels = c->panels + ((from - c->slab) * groups + g * k) * SR1__GROUP_OUT;
        multiply_columns(c, &work, g);
    }
}

static void add_bias(const struct matmul_cut *c)
{
    const float *bias = c->w->bias;

    for (size_t r = 0; bias && r < c->rows; r++) {
        float *out = c->w->c + (c->row + r) * c->w->n;

        for (size_t o = c->first; o < c->first + c->n; o++)
            out[o] += bias[o];
    }
}

static size_t block_depth(const struct sr1__matmul *w, size_t from)
{
    return w->k - from < DEPTH ? w->k - from : DEPTH;
}

/* The rows of a task by the slab that begins at c->slab. */
static void multiply_slab(struct matmul_cut *c, size_t row, size_t end, float *to)
{
    const struct sr1__matmul *w = c->w;
    size_t stop = w->k - c->slab < SLAB ? w->k : c->slab + SLAB;

    for (size_t k = c->slab; k < stop; k += DEPTH)
        pack_block(w, k, block_depth(w, k), c->first, c->n,
                   to + (k - c->slab) * sr1__panels_groups(c->n) * SR1__GROUP_OUT);
    for (c->row = row; c->row < end; c->row += ROWS) {
        c->rows = end - c->row < ROWS ? end - c->row : ROWS;
        for (size_t k = c->slab; k < stop; k += DEPTH)
            multiply_block(c, k, block_depth(w, k));
        if (stop == w->k)
            add_bias(c);
    }
}

void sr1__matmul_run(const struct sr1__matmul *w, size_t task, void *scratch)
{
    size_t first = task / count_cuts(w) * TASK_COLUMNS;
    size_t row = task % count_cuts(w) * choose_task_rows(w);
    size_t end = w->m - row < choose_task_rows(w) ? w->m : row + choose_task_rows(w);
    struct matmul_cut c = {.w = w, .first = first, .panels = scratch};
    float *to = scratch;

    c.n = w->n - first < TASK_COLUMNS ? w->n - first : TASK_COLUMNS;
    c.across = to + count_panel_floats(w);
    c.tile = c.across + ROWS * DEPTH;
    for (; c.slab < w->k; c.slab += SLAB)
        multiply_slab(&c, row, end, to);
}
