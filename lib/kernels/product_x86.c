/* kernels/product_x86.c - packed products for x86 processors.
 *
 * A block is SR1__PRODUCT_DEPTH of k with all panels of a group: 32 or 64 KiB, which stay
 * in a cache for all rows. It is multiplied with a few rows at a time, whose sums stay in
 * registers. Every sum goes through k in rising order, whatever the number of rows. */
#include "kernels/product_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>

#define GROUP SR1__PANEL_GROUP
#define AHEAD 16 /* lines that a stream of weights is asked for before it is read */
#define WORD 4   /* bytes of a k in fp32, of two in bf16 */

#define AVX2 __attribute__((target("avx2,fma"), always_inline)) static inline
#define AVX512                                                                           \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma"),                         \
                   always_inline)) static inline
#define AVX512BF16                                                                       \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma"),              \
                   always_inline)) static inline

int sr1__has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

int sr1__has_avx512(void)
{
    return sr1__has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

int sr1__has_avx512bf16(void)
{
    return sr1__has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* A block of k and some rows of one call. */
struct block {
    const char *w;           /* the first panel's; */
    size_t panel;            /* bytes from a panel to the next */
    const char *x;           /* the first row's */
    size_t row;              /* bytes from a row to the next */
    size_t lines;            /* of each panel: k in fp32, k / 2 in bf16 */
    size_t step;             /* bytes from what a row has of a line to that of the next */
    float *y;                /* the first row's outputs; */
    size_t y_row;            /* floats from a row to the next */
    int first;               /* set y, else add to it */
    const char *next[GROUP]; /* weights to ask for meanwhile, as many lines of each */
};

static struct block locate_block(const struct sr1__product_work *w, size_t row, size_t k,
                                 int bf16)
{
    size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    size_t depth = w->depth - k < SR1__PRODUCT_DEPTH ? w->depth - k : SR1__PRODUCT_DEPTH;

    return (struct block){.w = (const char *)w->panels + k * SR1__PANEL * size,
                          .panel = w->depth * SR1__PANEL * size,
                          .x =
                              (const char *)w->x + (row * w->stride + k * w->step) * size,
                          .row = w->stride * size,
                          .lines = bf16 ? depth / 2 : depth,
                          .step = w->step * WORD,
                          .y = w->tile + row * w->tile_stride,
                          .y_row = w->tile_stride,
                          .first = k == 0 && !w->add};
}

/* What memory is asked for while a block is multiplied. Where all rows are multiplied at
 * once, each panel's stream a little ahead, of the four side by side, which keeps more
 * reads under way than the processor starts by itself. Else the first rows read weights
 * from memory and the others from a cache: the memory is kept at work by asking for the
 * block after this, two panels with the first rows, two with the second. */
static void choose_next(struct block *b, const struct sr1__product_work *w, size_t k,
                        size_t cut, size_t cuts)
{
    const char *next = k + SR1__PRODUCT_DEPTH < w->depth
                           ? b->w + b->lines * 64
                           : (const char *)w->panels + GROUP * b->panel;

    for (size_t p = 0; p < GROUP; p++) {
        if (cuts == 1)
            b->next[p] = b->w + p * b->panel + AHEAD * 64;
        else
            b->next[p] = p / 2 == cut ? next + p * b->panel : b->w;
    }
}

typedef void (*block_fn)(const struct block *b, size_t rows);

/* All blocks of k, each with all rows: at most `most` of them at a time, evenly cut. */
static void run_blocks(const struct sr1__product_work *w, block_fn fn, size_t most,
                       int bf16)
{
    size_t cuts = (w->n + most - 1) / most;

    for (size_t k = 0; k < w->depth; k += SR1__PRODUCT_DEPTH) {
        for (size_t i = 0; i < cuts; i++) {
            size_t row = w->n * i / cuts;
            struct block b = locate_block(w, row, k, bf16);

            choose_next(&b, w, k, i, cuts);
            fn(&b, w->n * (i + 1) / cuts - row);
        }
    }
}

/* ---- AVX-512: four panels, six rows ---- */

#define ROWS_512 6
#define ROWS_512_WIDENED 4 /* fewer: weights and x take registers to be widened */

AVX512 void store_block_512(const struct block *b, __m512 sum[][GROUP], size_t rows)
{
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++) {
            float *y = b->y + r * b->y_row + p * SR1__PANEL;

            _mm512_storeu_ps(y, b->first ? sum[r][p]
                                         : _mm512_add_ps(_mm512_loadu_ps(y), sum[r][p]));
        }
}

AVX512 void clear_block_512(__m512 sum[][GROUP], size_t rows)
{
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++)
            sum[r][p] = _mm512_setzero_ps();
}

AVX512 void prefetch_512(const struct block *b, size_t i)
{
#pragma GCC unroll 4
    for (size_t p = 0; p < GROUP; p++)
        _mm_prefetch(b->next[p] + i * 64, _MM_HINT_T1);
}

/* step: the block's, which compilers are to know. */
AVX512 void block_f32_512(const struct block *b, size_t rows, size_t step)
{
    __m512 sum[ROWS_512][GROUP];

    clear_block_512(sum, rows);
    for (size_t i = 0; i < b->lines; i++) {
        const char *w = b->w + i * 64;
        __m512 v[GROUP];

#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++) {
            v[p] = _mm512_load_ps(w + p * b->panel);
        }
        prefetch_512(b, i);
#pragma GCC unroll 6
        for (size_t r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(
                *(const float *)(const void *)(b->x + r * b->row + i * step));

#pragma GCC unroll 4
            for (size_t p = 0; p < GROUP; p++)
                sum[r][p] = _mm512_fmadd_ps(v[p], x, sum[r][p]);
        }
    }
    store_block_512(b, sum, rows);
}

/* A pair of bf16 in each lane: the one at the lower address, and the other. */
AVX512 __m512 widen_even_512(__m512i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

AVX512 __m512 widen_odd_512(__m512i v)
{
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000u)));
}

AVX512 __m512i read_pair_512(const struct block *b, size_t r, size_t at)
{
    int pair;

    memcpy(&pair, b->x + r * b->row + at, sizeof pair);
    return _mm512_set1_epi32(pair);
}

AVX512 void block_bf16_512(const struct block *b, size_t rows, size_t step)
{
    __m512 sum[ROWS_512_WIDENED][GROUP];

    clear_block_512(sum, rows);
    for (size_t i = 0; i < b->lines; i++) {
        const char *w = b->w + i * 64;
        __m512i x[ROWS_512_WIDENED];

#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            x[r] = read_pair_512(b, r, i * step);
#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++) {
            __m512i v = _mm512_load_si512(w + p * b->panel);

            _mm_prefetch(w + p * b->panel + AHEAD * 64, _MM_HINT_T0);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                sum[r][p] =
                    _mm512_fmadd_ps(widen_even_512(v), widen_even_512(x[r]), sum[r][p]);
                sum[r][p] =
                    _mm512_fmadd_ps(widen_odd_512(v), widen_odd_512(x[r]), sum[r][p]);
            }
        }
    }
    store_block_512(b, sum, rows);
}

AVX512BF16 void block_dpbf16(const struct block *b, size_t rows, size_t step)
{
    __m512 sum[ROWS_512][GROUP];

    clear_block_512(sum, rows);
    for (size_t i = 0; i < b->lines; i++) {
        const char *w = b->w + i * 64;
        __m512bh v[GROUP];

#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++) {
            v[p] = (__m512bh)_mm512_load_si512(w + p * b->panel);
        }
        prefetch_512(b, i);
#pragma GCC unroll 6
        for (size_t r = 0; r < rows; r++) {
            __m512bh x = (__m512bh)read_pair_512(b, r, i * step);

#pragma GCC unroll 4
            for (size_t p = 0; p < GROUP; p++)
                sum[r][p] = _mm512_dpbf16_ps(sum[r][p], v[p], x);
        }
    }
    store_block_512(b, sum, rows);
}

#define CASE(fn, n)                                                                      \
    case n:                                                                              \
        fn(b, n, step);                                                                  \
        break;

#define TARGET_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma")))
#define TARGET_512BF16                                                                   \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")))

AVX512 void choose_f32_512(const struct block *b, size_t rows, size_t step)
{
    switch (rows) {
        CASE(block_f32_512, 1)
        CASE(block_f32_512, 2)
        CASE(block_f32_512, 3)
        CASE(block_f32_512, 4)
        CASE(block_f32_512, 5)
    default:
        block_f32_512(b, ROWS_512, step);
    }
}

AVX512 void choose_bf16_512(const struct block *b, size_t rows, size_t step)
{
    switch (rows) {
        CASE(block_bf16_512, 1)
        CASE(block_bf16_512, 2)
        CASE(block_bf16_512, 3)
    default:
        block_bf16_512(b, ROWS_512_WIDENED, step);
    }
}

AVX512BF16 void choose_dpbf16(const struct block *b, size_t rows, size_t step)
{
    switch (rows) {
        CASE(block_dpbf16, 1)
        CASE(block_dpbf16, 2)
        CASE(block_dpbf16, 3)
        CASE(block_dpbf16, 4)
        CASE(block_dpbf16, 5)
    default:
        block_dpbf16(b, ROWS_512, step);
    }
}

/* Rows that lie along memory, and rows that lie across. */
#define ROWS_AND_COLUMNS(target, name)                                                   \
    target static void rows_##name(const struct block *b, size_t rows)                   \
    {                                                                                    \
        choose_##name(b, rows, WORD);                                                    \
    }                                                                                    \
    target static void columns_##name(const struct block *b, size_t rows)                \
    {                                                                                    \
        choose_##name(b, rows, b->step);                                                 \
    }

ROWS_AND_COLUMNS(TARGET_512, f32_512)
ROWS_AND_COLUMNS(TARGET_512, bf16_512)
ROWS_AND_COLUMNS(TARGET_512BF16, dpbf16)

void sr1__product_f32_avx512(const struct sr1__product_work *w)
{
    run_blocks(w, w->step == 1 ? rows_f32_512 : columns_f32_512, ROWS_512, 0);
}

void sr1__product_bf16_avx512(const struct sr1__product_work *w)
{
    run_blocks(w, w->step == 1 ? rows_bf16_512 : columns_bf16_512, ROWS_512_WIDENED, 1);
}

void sr1__product_bf16_avx512bf16(const struct sr1__product_work *w)
{
    run_blocks(w, w->step == 1 ? rows_dpbf16 : columns_dpbf16, ROWS_512, 1);
}

/* ---- AVX2: 16 registers, so a panel at a time for several rows ---- */

#define ROWS_2 6
#define ROWS_2_WIDENED 4
#define HALVES 2 /* vectors of a panel */

AVX2 void store_panel_2(const struct block *b, size_t panel, __m256 sum[][HALVES],
                        size_t rows)
{
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            float *y = b->y + r * b->y_row + panel * SR1__PANEL + h * 8;

            _mm256_storeu_ps(y, b->first ? sum[r][h]
                                         : _mm256_add_ps(_mm256_loadu_ps(y), sum[r][h]));
        }
}

AVX2 void clear_panel_2(__m256 sum[][HALVES], size_t rows)
{
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++)
            sum[r][h] = _mm256_setzero_ps();
}

/* Panels [panel, panel + panels): several for few rows, whose sums would wait for one
 * another. */
AVX2 void panels_f32_2(const struct block *b, size_t panel, size_t panels, size_t rows,
                       size_t step)
{
    __m256 sum[GROUP][ROWS_2][HALVES];

#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++)
        clear_panel_2(sum[p], rows);
    for (size_t i = 0; i < b->lines; i++) {
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++) {
            const char *w = b->w + (panel + p) * b->panel + i * 64;
            __m256 low = _mm256_load_ps((const float *)(const void *)w);
            __m256 high = _mm256_load_ps((const float *)(const void *)(w + 32));

            _mm_prefetch(w + AHEAD * 64, _MM_HINT_T0);
#pragma GCC unroll 6
            for (size_t r = 0; r < rows; r++) {
                __m256 x = _mm256_broadcast_ss(
                    (const float *)(const void *)(b->x + r * b->row + i * step));

                sum[p][r][0] = _mm256_fmadd_ps(low, x, sum[p][r][0]);
                sum[p][r][1] = _mm256_fmadd_ps(high, x, sum[p][r][1]);
            }
        }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++)
        store_panel_2(b, panel + p, sum[p], rows);
}

AVX2 __m256 widen_even_2(__m256i v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

AVX2 __m256 widen_odd_2(__m256i v)
{
    return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000u)));
}

AVX2 void panels_bf16_2(const struct block *b, size_t panel, size_t panels, size_t rows,
                        size_t step)
{
    __m256 sum[GROUP][ROWS_2_WIDENED][HALVES];

#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++)
        clear_panel_2(sum[p], rows);
    for (size_t i = 0; i < b->lines; i++) {
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++) {
            const char *w = b->w + (panel + p) * b->panel + i * 64;
            __m256i low = _mm256_load_si256((const __m256i *)(const void *)w);
            __m256i high = _mm256_load_si256((const __m256i *)(const void *)(w + 32));

            _mm_prefetch(w + AHEAD * 64, _MM_HINT_T0);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                int pair;
                __m256i x;

                memcpy(&pair, b->x + r * b->row + i * step, sizeof pair);
                x = _mm256_set1_epi32(pair);
                sum[p][r][0] =
                    _mm256_fmadd_ps(widen_even_2(low), widen_even_2(x), sum[p][r][0]);
                sum[p][r][1] =
                    _mm256_fmadd_ps(widen_even_2(high), widen_even_2(x), sum[p][r][1]);
                sum[p][r][0] =
                    _mm256_fmadd_ps(widen_odd_2(low), widen_odd_2(x), sum[p][r][0]);
                sum[p][r][1] =
                    _mm256_fmadd_ps(widen_odd_2(high), widen_odd_2(x), sum[p][r][1]);
            }
        }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++)
        store_panel_2(b, panel + p, sum[p], rows);
}

#define PANELS_CASE(fn, panels, n)                                                       \
    case n:                                                                              \
        for (size_t p = 0; p < GROUP; p += (panels))                                     \
            fn(b, p, panels, n, step);                                                   \
        break;

#define TARGET_2 __attribute__((target("avx2,fma")))

AVX2 void choose_f32_2(const struct block *b, size_t rows, size_t step)
{
    switch (rows) {
        PANELS_CASE(panels_f32_2, 4, 1)
        PANELS_CASE(panels_f32_2, 2, 2)
        PANELS_CASE(panels_f32_2, 2, 3)
        PANELS_CASE(panels_f32_2, 1, 4)
        PANELS_CASE(panels_f32_2, 1, 5)
    default:
        for (size_t p = 0; p < GROUP; p++)
            panels_f32_2(b, p, 1, ROWS_2, step);
    }
}

AVX2 void choose_bf16_2(const struct block *b, size_t rows, size_t step)
{
    switch (rows) {
        PANELS_CASE(panels_bf16_2, 4, 1)
        PANELS_CASE(panels_bf16_2, 2, 2)
        PANELS_CASE(panels_bf16_2, 1, 3)
    default:
        for (size_t p = 0; p < GROUP; p++)
            panels_bf16_2(b, p, 1, ROWS_2_WIDENED, step);
    }
}

ROWS_AND_COLUMNS(TARGET_2, f32_2)
ROWS_AND_COLUMNS(TARGET_2, bf16_2)

void sr1__product_f32_avx2(const struct sr1__product_work *w)
{
    run_blocks(w, w->step == 1 ? rows_f32_2 : columns_f32_2, ROWS_2, 0);
}

void sr1__product_bf16_avx2(const struct sr1__product_work *w)
{
    run_blocks(w, w->step == 1 ? rows_bf16_2 : columns_bf16_2, ROWS_2_WIDENED, 1);
}

#endif
