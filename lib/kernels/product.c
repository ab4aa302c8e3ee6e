/* kernels/product.c - packing, the portable product, and the choice at run time; see
 * product.h. The others are in product_x86.c. */
#include "kernels/product.h"

#include "kernels/exp.h"
#include "kernels/product_int8.h"
#include "kernels/product_x86.h"

#include <stdatomic.h>
#include <string.h>

size_t sr1__panels_depth(size_t k)
{
    return (k + SR1__PRODUCT_STEP - 1) / SR1__PRODUCT_STEP * SR1__PRODUCT_STEP;
}

size_t sr1__panels_groups(size_t n_out)
{
    return (n_out + SR1__GROUP_OUT - 1) / SR1__GROUP_OUT;
}

static size_t panel_bytes(size_t k, int type)
{
    return sr1__panels_depth(k) * SR1__PANEL *
           (type == SR1__PANELS_BF16 ? sizeof(uint16_t) : sizeof(float));
}

size_t sr1__panels_bytes(size_t n_out, size_t k, int type)
{
    if (type == SR1__PANELS_INT8)
        return sr1__int8_bytes(n_out, k);
    return sr1__panels_groups(n_out) * SR1__PANEL_GROUP * panel_bytes(k, type);
}

/* ---- packing ---- */

/* Blocks of 16 x 16 words are turned, so that both sides are read and written by lines.
 */
static void turn_words(uint32_t *to, const unsigned char *w, size_t n, size_t words,
                       size_t row_bytes)
{
    for (size_t j = 0; j < words; j += SR1__PANEL) {
        size_t end = words - j < SR1__PANEL ? words : j + SR1__PANEL;

        for (size_t o = 0; o < n; o++)
            for (size_t i = j; i < end; i++)
                memcpy(&to[i * SR1__PANEL + o], w + o * row_bytes + i * sizeof *to,
                       sizeof *to);
    }
}

/* The last of an odd number of bf16, which has no pair. */
static void pack_odd_column(uint16_t *to, const uint16_t *w, size_t n, size_t k)
{
    for (size_t o = 0; o < n; o++)
        to[(k / 2 * SR1__PANEL + o) * 2] = w[o * k + k - 1];
}

void sr1__panels_pack(const struct sr1__panels *p, size_t i, const void *w, size_t n)
{
    unsigned char *to = (unsigned char *)p->data + i * panel_bytes(p->k, p->type);
    int bf16 = p->type == SR1__PANELS_BF16;

    if (n < SR1__PANEL || sr1__panels_depth(p->k) != p->k)
        memset(to, 0, panel_bytes(p->k, p->type));
    turn_words((uint32_t *)(void *)to, w, n, bf16 ? p->k / 2 : p->k,
               p->k * (bf16 ? sizeof(uint16_t) : sizeof(float)));
    if (bf16 && p->k % 2)
        pack_odd_column((uint16_t *)(void *)to, w, n, p->k);
}

/* ---- portable ---- */

#define ROWS 2

SR1__INLINE void sum_f32(const float *w, const float *x, size_t stride, size_t step,
                         size_t rows, size_t depth, float sum[ROWS][SR1__PANEL])
{
    for (size_t k = 0; k < depth; k++)
        for (size_t r = 0; r < rows; r++)
            for (size_t o = 0; o < SR1__PANEL; o++)
                sum[r][o] += w[k * SR1__PANEL + o] * x[r * stride + k * step];
}

SR1__INLINE float widen_bf16(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

SR1__INLINE void sum_bf16(const uint16_t *w, const uint16_t *x, size_t stride,
                          size_t step, size_t rows, size_t depth,
                          float sum[ROWS][SR1__PANEL])
{
    for (size_t k = 0; k < depth; k += 2, w += 2 * SR1__PANEL) {
        for (size_t r = 0; r < rows; r++) {
            float even = widen_bf16(x[r * stride + k * step]);
            float odd = widen_bf16(x[r * stride + k * step + 1]);

            for (size_t o = 0; o < SR1__PANEL; o++)
                sum[r][o] += widen_bf16(w[2 * o]) * even;
            for (size_t o = 0; o < SR1__PANEL; o++)
                sum[r][o] += widen_bf16(w[2 * o + 1]) * odd;
        }
    }
}

/* Up to ROWS rows with one panel and one block of k. */
SR1__INLINE void add_portable_block(const struct sr1__product_work *w, size_t row,
                                    size_t rows, size_t panel, size_t k, int bf16)
{
    float sum[ROWS][SR1__PANEL] = {{0}};
    size_t depth = w->depth - k < SR1__PRODUCT_DEPTH ? w->depth - k : SR1__PRODUCT_DEPTH;
    size_t at = (panel * w->depth + k) * SR1__PANEL;

    if (bf16)
        sum_bf16((const uint16_t *)w->panels + at,
                 (const uint16_t *)w->x + row * w->stride + k * w->step, w->stride,
                 w->step, rows, depth, sum);
    else
        sum_f32((const float *)w->panels + at,
                (const float *)w->x + row * w->stride + k * w->step, w->stride, w->step,
                rows, depth, sum);
    for (size_t r = 0; r < rows; r++) {
        float *y = w->tile + (row + r) * w->tile_stride + panel * SR1__PANEL;

        for (size_t o = 0; o < SR1__PANEL; o++)
            y[o] = k == 0 && !w->add ? sum[r][o] : y[o] + sum[r][o];
    }
}

SR1__INLINE void run_portable(const struct sr1__product_work *w, int bf16)
{
    for (size_t k = 0; k < w->depth; k += SR1__PRODUCT_DEPTH) {
        for (size_t row = 0; row < w->n; row += ROWS) {
            size_t rows = w->n - row < ROWS ? w->n - row : ROWS;

            for (size_t panel = 0; panel < SR1__PANEL_GROUP; panel++)
                add_portable_block(w, row, rows, panel, k, bf16);
        }
    }
}

static void product_f32_portable(const struct sr1__product_work *w)
{
    run_portable(w, 0);
}

static void product_bf16_portable(const struct sr1__product_work *w)
{
    run_portable(w, 1);
}

static int is_always_usable(void)
{
    return 1;
}

/* ---- the choice ---- */

static const struct sr1__product_variant variants[] = {
    SR1__PRODUCT_X86{"portable", is_always_usable, product_f32_portable,
                     product_bf16_portable},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

const struct sr1__product_variant *sr1__product_variants(size_t *n)
{
    *n = N_VARIANTS;
    return variants;
}

static sr1__product_fn get_product_fn(size_t i, int bf16)
{
    return bf16 ? variants[i].bf16 : variants[i].fp32;
}

/* Asked once: asking takes longer than a small product. */
static size_t choose_product_variant(int bf16)
{
    static atomic_size_t known[2]; /* 0: not yet; else the index + 1 */
    size_t i = atomic_load_explicit(&known[bf16], memory_order_relaxed);

    if (i > 0)
        return i - 1;
    while (!get_product_fn(i, bf16) || !variants[i].usable())
        i++;
    atomic_store_explicit(&known[bf16], i + 1, memory_order_relaxed);
    return i;
}

const char *sr1__product_variant_name(int bf16)
{
    return variants[choose_product_variant(bf16)].name;
}

void sr1__product_run(const struct sr1__product_work *w, int bf16)
{
    get_product_fn(choose_product_variant(bf16), bf16)(w);
}

static void multiply_group(const struct sr1__panels *p, size_t group, const void *x,
                           size_t stride, size_t n, float *tile, int add)
{
    struct sr1__product_work w = {.x = x,
                                  .stride = stride,
                                  .step = 1,
                                  .n = n,
                                  .depth = sr1__panels_depth(p->k),
                                  .tile = tile,
                                  .tile_stride = SR1__GROUP_OUT,
                                  .add = add};

    w.panels = (const unsigned char *)p->data +
               group * SR1__PANEL_GROUP * panel_bytes(p->k, p->type);
    sr1__product_run(&w, p->type == SR1__PANELS_BF16);
}

void sr1__product(const struct sr1__panels *p, size_t group, const void *x, size_t stride,
                  size_t n, float *tile)
{
    multiply_group(p, group, x, stride, n, tile, 0);
}

void sr1__product_add(const struct sr1__panels *p, size_t group, const void *x,
                      size_t stride, size_t n, float *tile)
{
    multiply_group(p, group, x, stride, n, tile, 1);
}
