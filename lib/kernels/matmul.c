/* kernels/matmul.c - cutting a product into tasks, whose columns are packed once for all
 * of their rows.
 *
 * A task goes through k slab by slab, for a slab through its rows some at a time, for
 * these through the slab block by block, and for a block through its columns. Rows of a
 * that lie across memory are copied block by block: lines a power of two apart would
 * share a few places in a cache.
 *
 * What is packed are words: a number of fp32, or a pair of bf16 of neighbouring k. */
#include "kernels/matmul.h"

#include "kernels/bf16.h"
#include "kernels/exp.h"
#include "kernels/product.h"

#include <string.h>

#define TASK_COLUMNS ((size_t)512) /* at most, and rows: fewer are packed more often */
#define TASK_ROWS ((size_t)2048)
#define TURNED_ROWS ((size_t)1536) /* which are copied, and packed for, in a task */
#define TASKS_A_THREAD 2
#define AHEAD 8 /* lines that are asked for before they are read */
#define CACHE_LINE 64
#define ROWS 96 /* whose sums stay in a cache: six at a time, for the product */
#define DEPTH ((size_t)SR1__PRODUCT_DEPTH)
#define SLAB (16 * DEPTH) /* of k that is packed at once: 8 MiB, however long k is */

int sr1__matmul_is_fast(int bf16)
{
    return strcmp(sr1__product_variant_name(bf16), "portable") != 0;
}

static int is_turned(const struct sr1__matmul *w)
{
    return w->a.column_step != 1;
}

/* Of a task. */
struct task_shape {
    size_t rows, columns;
};

static size_t count_tasks(const struct sr1__matmul *w, struct task_shape t)
{
    return (w->n + t.columns - 1) / t.columns * ((w->m + t.rows - 1) / t.rows);
}

/* As large as leaves each thread some, where there are several. */
static struct task_shape choose_task(const struct sr1__matmul *w)
{
    struct task_shape t = {is_turned(w) ? TURNED_ROWS : TASK_ROWS, TASK_COLUMNS};
    size_t least = w->threads > 1 ? TASKS_A_THREAD * w->threads : 1;

    while (count_tasks(w, t) < least && (t.rows > ROWS || t.columns > SR1__GROUP_OUT)) {
        if (t.columns == SR1__GROUP_OUT || t.rows > t.columns)
            t.rows = (t.rows / ROWS + 1) / 2 * ROWS;
        else
            t.columns /= 2;
    }
    return t;
}

size_t sr1__matmul_tasks(const struct sr1__matmul *w)
{
    return count_tasks(w, choose_task(w));
}

/* k as it is packed, and its words. */
static size_t packed_depth(const struct sr1__matmul *w, size_t k)
{
    return w->bf16 ? sr1__panels_depth(k) : k;
}

static size_t count_words(const struct sr1__matmul *w, size_t k)
{
    return w->bf16 ? packed_depth(w, k) / 2 : k;
}

static size_t element_bytes(const struct sr1__matmul *w)
{
    return w->bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* ---- scratch: a slab of the columns of a task, some rows of a, a tile, sums ---- */

static size_t count_panel_words(const struct sr1__matmul *w, struct task_shape t)
{
    size_t columns = w->n < t.columns ? w->n : t.columns;
    size_t depth = w->k < SLAB ? w->k : SLAB;

    return count_words(w, depth) * sr1__panels_groups(columns) * SR1__GROUP_OUT;
}

/* Are sums taken beside c, to be rounded or added to it? */
static int sums_apart(const struct sr1__matmul *w)
{
    return w->narrow || w->add;
}

/* Rows of them: those of a task, if k has more than a slab. */
static size_t count_sum_rows(const struct sr1__matmul *w, struct task_shape t)
{
    size_t task = w->m < t.rows ? w->m : t.rows;

    return !sums_apart(w) ? 0 : w->k > SLAB ? task : ROWS;
}

size_t sr1__matmul_scratch(const struct sr1__matmul *w)
{
    struct task_shape t = choose_task(w);

    return (count_panel_words(w, t) + ROWS * (DEPTH + SR1__GROUP_OUT) +
            count_sum_rows(w, t) * TASK_COLUMNS) *
           sizeof(float);
}

/* ---- packing: [block of k][group][panel][word][SR1__PANEL] ---- */

/* n words, a panel of them at a time: of a length that they know compilers make a few
 * moves. */
static void copy_words(const char *from, size_t n, uint32_t *to)
{
    size_t i = 0;

    for (; i + SR1__PANEL <= n; i += SR1__PANEL)
        memcpy(to + i, from + i * sizeof *to, SR1__PANEL * sizeof *to);
    for (; i < n; i++)
        memcpy(to + i, from + i * sizeof *to, sizeof *to);
}

SR1__INLINE void pair_some(const uint16_t *restrict low, const uint16_t *restrict high,
                           size_t n, uint32_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = low[i] | (uint32_t)high[i] << 16;
}

/* n words [low, high] of bf16 from two lines. */
static void pair_lines(const uint16_t *low, const uint16_t *high, size_t n, uint32_t *to)
{
    size_t i = 0;

    for (; i + SR1__PANEL <= n; i += SR1__PANEL)
        pair_some(low + i, high + i, SR1__PANEL, to + i);
    pair_some(low + i, high + i, n - i, to + i);
}

/* Lines lie too far apart for the processor to see them coming. */
SR1__INLINE void ask_for_line(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(line + i);
}

/* n elements of k lines as words, a line of them `to_step` words from the next. */
static void pack_lines(const struct sr1__matmul *w, const char *from, size_t step,
                       size_t k, size_t n, uint32_t *to, size_t to_step)
{
    static const uint16_t zeros[ROWS];

    if (!w->bf16) {
        for (size_t i = 0; i < k; i++) {
            ask_for_line(from + (i + AHEAD) * step, n * sizeof *to);
            copy_words(from + i * step, n, to + i * to_step);
        }
        return;
    }
    for (size_t i = 0; i < k; i += 2) {
        const void *low = from + i * step, *high = from + (i + 1) * step;

        ask_for_line(from + (i + AHEAD) * step, n * sizeof(uint16_t));
        ask_for_line(from + (i + 1 + AHEAD) * step, n * sizeof(uint16_t));
        pair_lines(low, i + 1 < k ? high : zeros, n, to + i / 2 * to_step);
    }
}

/* A word as it lies in a matrix. */
typedef uint32_t __attribute__((may_alias, aligned(2))) placed_word;

/* SR1__PANEL columns of neighbouring words, each from a line of its own. */
SR1__INLINE void turn_square(const char *from, size_t step, uint32_t *to)
{
    for (size_t o = 0; o < SR1__PANEL; o++) {
        const placed_word *line = (const void *)(from + o * step);

        for (size_t i = 0; i < SR1__PANEL; i++)
            to[i * SR1__PANEL + o] = line[i];
    }
}

/* width columns of k elements, each a line. */
static void turn_columns(const struct sr1__matmul *w, const char *from, size_t step,
                         size_t k, size_t width, uint32_t *to)
{
    size_t size = element_bytes(w), words = k * size / sizeof *to;
    size_t whole = width == SR1__PANEL ? words / SR1__PANEL * SR1__PANEL : 0;

    for (size_t i = 0; i < whole; i += SR1__PANEL)
        turn_square(from + i * sizeof *to, step, to + i * SR1__PANEL);
    for (size_t o = 0; o < width; o++) {
        for (size_t i = whole; i < words; i++)
            memcpy(to + i * SR1__PANEL + o, from + o * step + i * sizeof *to, sizeof *to);
        if (words * sizeof *to < k * size)
            memcpy(to + words * SR1__PANEL + o, from + o * step + words * sizeof *to,
                   size);
    }
}

/* Columns [first, first + n) of rows [row, row + k) of b, in whole groups: behind columns
 * and k there are zeros. */
static void pack_block(const struct sr1__matmul *w, size_t row, size_t k, size_t first,
                       size_t n, uint32_t *to)
{
    size_t panels = sr1__panels_groups(n) * SR1__PANEL_GROUP, size = element_bytes(w);
    size_t words = count_words(w, k);

    for (size_t p = 0; p < panels; p++, to += words * SR1__PANEL) {
        size_t at = p * SR1__PANEL;
        size_t width = n <= at ? 0 : n - at < SR1__PANEL ? n - at : SR1__PANEL;
        const char *b = (const char *)w->b.data +
                        (row * w->b.row_step + (first + at) * w->b.column_step) * size;

        if (width < SR1__PANEL || packed_depth(w, k) != k)
            memset(to, 0, words * SR1__PANEL * sizeof *to);
        if (width > 0 && w->b.column_step == 1)
            pack_lines(w, b, w->b.row_step * size, k, width, to, SR1__PANEL);
        else if (width > 0)
            turn_columns(w, b, w->b.column_step * size, k, width, to);
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
    const uint32_t *panels;
    uint32_t *copied; /* [DEPTH, ROWS] words of a */
    float *tile;      /* [ROWS, SR1__GROUP_OUT] */
    float *sums;      /* of the first row and column: in c, or apart */
    size_t step;      /* from a row of them to the next */
};

/* Outputs of a group by a block of k. Where the group is not whole in c they go by a
 * tile. */
static void multiply_columns(const struct matmul_cut *c, struct sr1__product_work *work,
                             size_t group)
{
    size_t at = group * SR1__GROUP_OUT;
    size_t n = c->n - at < SR1__GROUP_OUT ? c->n - at : SR1__GROUP_OUT;
    float *out = c->sums + at;
    int whole = n == SR1__GROUP_OUT || sums_apart(c->w);

    work->tile = whole ? out : c->tile;
    work->tile_stride = whole ? c->step : SR1__GROUP_OUT;
    if (!whole && work->add)
        move_rows(c->tile, SR1__GROUP_OUT, out, c->step, c->rows, n);
    sr1__product_run(work, c->w->bf16);
    if (!whole)
        move_rows(out, c->step, c->tile, SR1__GROUP_OUT, c->rows, n);
}

/* Rows that end within a step of the product, with zeros behind. */
static void copy_rows(const struct matmul_cut *c, const char *x, size_t k)
{
    size_t bytes = k * sizeof(uint16_t);

    for (size_t r = 0; r < c->rows; r++) {
        char *to = (char *)c->copied + r * DEPTH * sizeof(uint16_t);

        memcpy(to, x + r * c->w->a.row_step * sizeof(uint16_t), bytes);
        memset(to + bytes, 0, packed_depth(c->w, k) * sizeof(uint16_t) - bytes);
    }
}

/* The rows of a block as a product takes them: where they are, or copied. */
static void place_rows(const struct matmul_cut *c, size_t from, size_t k,
                       struct sr1__product_work *work)
{
    const struct sr1__strided *a = &c->w->a;
    size_t size = element_bytes(c->w), words = count_words(c->w, k);
    const char *x =
        (const char *)a->data + (c->row * a->row_step + from * a->column_step) * size;

    work->x = c->copied;
    work->step = 1;
    if (is_turned(c->w)) {
        if (packed_depth(c->w, k) != k)
            memset(c->copied, 0, words * ROWS * sizeof *c->copied);
        pack_lines(c->w, x, a->column_step * size, k, c->rows, c->copied, ROWS);
        work->stride = sizeof *c->copied / size;
        work->step = ROWS;
    } else if (packed_depth(c->w, k) != k) {
        copy_rows(c, x, k);
        work->stride = DEPTH;
    } else {
        work->x = x;
        work->stride = a->row_step;
    }
}

static void multiply_block(const struct matmul_cut *c, size_t from, size_t k)
{
    size_t groups = sr1__panels_groups(c->n);
    struct sr1__product_work work = {
        .n = c->rows, .depth = packed_depth(c->w, k), .add = from > 0};

    place_rows(c, from, k, &work);
    for (size_t g = 0; g < groups; g++) {
        work.panels = c->panels + (count_words(c->w, from - c->slab) * groups +
                                   g * count_words(c->w, k)) *
                                      SR1__GROUP_OUT;
        multiply_columns(c, &work, g);
    }
}

/* ---- what is done to the sums once k is through ---- */

static void add_bias(const struct matmul_cut *c)
{
    const char *bias = c->w->bias;
    float wide[TASK_COLUMNS];

    if (!bias)
        return;
    if (c->w->bf16)
        sr1__bf16_to_f32((const uint16_t *)(const void *)bias + c->first, wide, c->n);
    else
        memcpy(wide, bias + c->first * sizeof *wide, c->n * sizeof *wide);
    for (size_t r = 0; r < c->rows; r++) {
        float *out = c->sums + r * c->step;

        for (size_t o = 0; o < c->n; o++)
            out[o] += wide[o];
    }
}

static void move_sums(const struct matmul_cut *c)
{
    for (size_t r = 0; r < c->rows && sums_apart(c->w); r++) {
        const float *sum = c->sums + r * c->step;
        size_t at = (c->row + r) * c->w->n + c->first;
        float *out = (float *)c->w->c + at;

        if (c->w->narrow)
            sr1__f32_to_bf16(sum, (uint16_t *)c->w->c + at, c->n);
        for (size_t o = 0; o < c->n && !c->w->narrow; o++)
            out[o] += sum[o];
    }
}

/* ---- a task ---- */

static size_t block_depth(const struct sr1__matmul *w, size_t from)
{
    return w->k - from < DEPTH ? w->k - from : DEPTH;
}

/* The rows of a task by the slab that begins at c->slab. */
static void multiply_slab(struct matmul_cut *c, size_t row, size_t end, uint32_t *to,
                          float *sums)
{
    const struct sr1__matmul *w = c->w;
    size_t stop = w->k - c->slab < SLAB ? w->k : c->slab + SLAB;
    size_t groups = sr1__panels_groups(c->n);

    for (size_t k = c->slab; k < stop; k += DEPTH)
        pack_block(w, k, block_depth(w, k), c->first, c->n,
                   to + count_words(w, k - c->slab) * groups * SR1__GROUP_OUT);
    for (c->row = row; c->row < end; c->row += ROWS) {
        c->rows = end - c->row < ROWS ? end - c->row : ROWS;
        c->step = sums_apart(w) ? TASK_COLUMNS : w->n;
        c->sums = !sums_apart(w) ? (float *)w->c + c->row * w->n + c->first
                  : w->k > SLAB  ? sums + (c->row - row) * TASK_COLUMNS
                                 : sums;
        for (size_t k = c->slab; k < stop; k += DEPTH)
            multiply_block(c, k, block_depth(w, k));
        if (stop == w->k) {
            add_bias(c);
            move_sums(c);
        }
    }
}

void sr1__matmul_run(const struct sr1__matmul *w, size_t task, void *scratch)
{
    struct task_shape t = choose_task(w);
    size_t cuts = (w->m + t.rows - 1) / t.rows;
    size_t first = task / cuts * t.columns, row = task % cuts * t.rows;
    size_t end = w->m - row < t.rows ? w->m : row + t.rows;
    struct matmul_cut c = {.w = w, .first = first, .panels = scratch};
    uint32_t *to = scratch;
    float *sums;

    c.n = w->n - first < t.columns ? w->n - first : t.columns;
    c.copied = to + count_panel_words(w, t);
    c.tile = (float *)(void *)(c.copied + ROWS * DEPTH);
    sums = c.tile + ROWS * SR1__GROUP_OUT;
    for (; c.slab < w->k; c.slab += SLAB)
        multiply_slab(&c, row, end, to, sums);
}
