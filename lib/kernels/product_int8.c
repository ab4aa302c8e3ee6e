/* kernels/product_int8.c - packing and products of int8 panels; see product_int8.h. */
#include "kernels/product_int8.h"

#include "kernels/bf16.h"
#include "kernels/exp.h"
#include "kernels/product_x86.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define GROUP SR1__PANEL_GROUP
#define DEPTH ((size_t)SR1__PRODUCT_DEPTH)
#define PIECE 256 /* numbers of a row that are widened at a time */

static size_t count_depth_blocks(size_t k)
{
    return (sr1__panels_depth(k) + DEPTH - 1) / DEPTH;
}

/* ---- panels ---- */

static size_t scales_at(size_t n_out, size_t k)
{
    return sr1__panels_groups(n_out) * SR1__GROUP_OUT * sr1__panels_depth(k);
}

size_t sr1__int8_bytes(size_t n_out, size_t k)
{
    return scales_at(n_out, k) +
           sr1__panels_groups(n_out) * SR1__GROUP_OUT * sizeof(float);
}

/* Numbers [at, at + n) of a row. */
static const float *widen_piece(const void *row, int bf16, size_t at, size_t n, float *to)
{
    if (!bf16)
        return (const float *)row + at;
    sr1__bf16_to_f32((const uint16_t *)row + at, to, n);
    return to;
}

#define EXPONENT 23            /* where it begins in a float */
#define NOT_FINITE 0x7f800000u /* from here on */

/* The bits of the largest of n numbers without their signs, which order them: infinity
 * and NaN above all. */
static uint32_t find_largest_bits(const float *v, size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &v[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

/* NaN where a number is not finite, so that the product shows it. */
static float find_scale(const void *row, int bf16, size_t k)
{
    uint32_t bits = 0;
    float most;

    for (size_t at = 0; at < k; at += PIECE) {
        float room[PIECE];
        size_t n = k - at < PIECE ? k - at : PIECE;
        uint32_t here = find_largest_bits(widen_piece(row, bf16, at, n, room), n);

        bits = here > bits ? here : bits;
    }
    if (bits >= NOT_FINITE)
        return NAN;
    memcpy(&most, &bits, sizeof most);
    return most / 127 > FLT_MIN ? most / 127 : FLT_MIN;
}

static void pack_row(const void *row, int bf16, size_t k, float scale, int8_t *to)
{
    for (size_t at = 0; at < k; at += PIECE) {
        float room[PIECE];
        size_t n = k - at < PIECE ? k - at : PIECE;
        const float *v = widen_piece(row, bf16, at, n, room);

        for (size_t i = 0; i < n; i++)
            room[i] = rintf(v[i] / scale);
        for (size_t i = 0; i < n; i++)
            to[(at + i) / 2 * (2 * SR1__PANEL) + (at + i) % 2] = (int8_t)room[i];
    }
}

void sr1__int8_pack(const struct sr1__panels *p, size_t i, const void *w, int bf16,
                    size_t n)
{
    size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    size_t depth = sr1__panels_depth(p->k);
    int8_t *to = (int8_t *)p->data + i * SR1__PANEL * depth;
    float *scales =
        (float *)(void *)((char *)p->data + scales_at(p->n_out, p->k)) + i * SR1__PANEL;

    memset(to, 0, SR1__PANEL * depth);
    memset(scales, 0, SR1__PANEL * sizeof *scales);
    for (size_t o = 0; o < n; o++) {
        const void *row = (const char *)w + o * p->k * size;

        scales[o] = find_scale(row, bf16, p->k);
        if (isfinite(scales[o])) /* else zeros, times NaN */
            pack_row(row, bf16, p->k, scales[o], to + 2 * o);
    }
}

/* ---- rows ---- */

size_t sr1__int8_row(size_t k)
{
    return sr1__panels_depth(k) +
           count_depth_blocks(k) * (sizeof(float) / sizeof(int16_t));
}

/* The steps of a row behind its numbers. */
static const float *get_steps(const int16_t *row, size_t k)
{
    return (const float *)(const void *)(row + sr1__panels_depth(k));
}

/* The power of two that makes the largest of n numbers one of 15 bits, and its inverse;
 * both NaN where one is not finite. */
static float choose_step(const float *x, size_t n, float *inverse)
{
    uint32_t most = find_largest_bits(x, n), exponent;
    float step;

    if (most >= NOT_FINITE) {
        *inverse = NAN;
        return NAN;
    }
    exponent = most >> EXPONENT > 15 ? most >> EXPONENT : 15;
    most = (exponent - 14) << EXPONENT;
    memcpy(&step, &most, sizeof step);
    most = (268 - exponent) << EXPONENT;
    memcpy(inverse, &most, sizeof *inverse);
    return step;
}

void sr1__int8_row_fill(const float *x, size_t k, int16_t *out)
{
    float *steps = (float *)(void *)(out + sr1__panels_depth(k));

    memset(out + k, 0, (sr1__panels_depth(k) - k) * sizeof *out);
    for (size_t at = 0; at < k; at += DEPTH) {
        size_t n = k - at < DEPTH ? k - at : DEPTH;
        float inverse;

        steps[at / DEPTH] = choose_step(x + at, n, &inverse);
        for (size_t i = 0; i < n; i++) {
            float v = inverse == inverse ? x[at + i] * inverse : 0;
            float whole = rintf(v);

            out[at + i] = (int16_t)(whole < 32767 ? whole : 32767);
        }
    }
}

/* ---- a block of k ---- */

/* Some rows with all panels of a group. */
struct int8_block {
    const int8_t *w;    /* the first panel's; */
    size_t panel;       /* bytes from a panel to the next */
    const int16_t *x;   /* the first row's */
    size_t row;         /* int16 from a row to the next */
    const float *step;  /* the first row's, `row` int16 apart too */
    size_t pairs;       /* of k */
    float *y;           /* the first row's outputs */
    int first;          /* set y, else add to it */
    const int8_t *next; /* weights to ask for meanwhile */
};

typedef void (*int8_block_fn)(const struct int8_block *b, size_t rows);

static float get_row_step(const struct int8_block *b, size_t r)
{
    float step;

    memcpy(&step, (const int16_t *)(const void *)b->step + r * b->row, sizeof step);
    return step;
}

/* All blocks of k, each with all rows: at most `most` of them at a time, evenly cut. */
static void run_int8_blocks(const struct sr1__int8_work *w, int8_block_fn fn, size_t most)
{
    size_t cuts = (w->n + most - 1) / most, depth = sr1__panels_depth(w->k);
    size_t row = sr1__int8_row(w->k);

    for (size_t k = 0; k < depth; k += DEPTH) {
        for (size_t i = 0; i < cuts; i++) {
            size_t first = w->n * i / cuts;
            struct int8_block b = {.w = w->panels + k * SR1__PANEL,
                                   .panel = depth * SR1__PANEL,
                                   .x = w->rows + first * row + k,
                                   .row = row,
                                   .step =
                                       get_steps(w->rows + first * row, w->k) + k / DEPTH,
                                   .pairs = (depth - k < DEPTH ? depth - k : DEPTH) / 2,
                                   .y = w->tile + first * SR1__GROUP_OUT,
                                   .first = k == 0};

            b.next = i > 0               ? b.w
                     : k + DEPTH < depth ? b.w + DEPTH * SR1__PANEL
                                         : w->panels + GROUP * b.panel;
            fn(&b, w->n * (i + 1) / cuts - first);
        }
    }
}

/* ---- portable ---- */

static void add_portable_int8(const struct int8_block *b, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const int16_t *x = b->x + r * b->row;
        float *y = b->y + r * SR1__GROUP_OUT;
        float step = get_row_step(b, r);

        for (size_t p = 0; p < GROUP; p++, y += SR1__PANEL) {
            const int8_t *w = b->w + p * b->panel;
            int32_t sum[SR1__PANEL] = {0};

            for (size_t i = 0; i < b->pairs; i++, w += 2 * SR1__PANEL)
                for (size_t o = 0; o < SR1__PANEL; o++)
                    sum[o] += w[2 * o] * x[2 * i] + w[2 * o + 1] * x[2 * i + 1];
            for (size_t o = 0; o < SR1__PANEL; o++) {
                float v = step * (float)sum[o];

                y[o] = b->first ? v : y[o] + v;
            }
        }
    }
}

static void int8_portable(const struct sr1__int8_work *w)
{
    run_int8_blocks(w, add_portable_int8, 1);
}

static int is_always_usable_int8(void)
{
    return 1;
}

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma"), always_inline)) static inline
#define TARGET_2 __attribute__((target("avx2,fma")))
#define FLAGS_512 "avx512f,avx512bw,avx512vl,avx2,fma"
#define AVX512 __attribute__((target(FLAGS_512), always_inline)) static inline
#define TARGET_512 __attribute__((target(FLAGS_512)))
#define VNNI __attribute__((target(FLAGS_512 ",avx512vnni"), always_inline)) static inline
#define TARGET_VNNI __attribute__((target(FLAGS_512 ",avx512vnni")))

static int has_vnni(void)
{
    return sr1__has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static int read_pair(const struct int8_block *b, size_t r, size_t i)
{
    int pair;

    memcpy(&pair, b->x + r * b->row + 2 * i, sizeof pair);
    return pair;
}

#define CASE(fn, n)                                                                      \
    case n:                                                                              \
        fn(b, n);                                                                        \
        break;

/* ---- AVX-512: four panels, four rows, as compilers run out of registers with more ----
 */

#define ROWS_512 4

AVX512 void store_int8_512(const struct int8_block *b, __m512i sum[][GROUP], size_t rows)
{
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
        __m512 step = _mm512_set1_ps(get_row_step(b, r));

#pragma GCC unroll 4
        for (size_t p = 0; p < GROUP; p++) {
            float *y = b->y + r * SR1__GROUP_OUT + p * SR1__PANEL;
            __m512 v = _mm512_mul_ps(step, _mm512_cvtepi32_ps(sum[r][p]));

            _mm512_storeu_ps(y, b->first ? v : _mm512_add_ps(_mm512_loadu_ps(y), v));
        }
    }
}

/* How a pair of products is added differs. */
#define BLOCK_512(name, attribute, add)                                                  \
    attribute void name(const struct int8_block *b, size_t rows)                         \
    {                                                                                    \
        __m512i sum[ROWS_512][GROUP];                                                    \
                                                                                         \
        _Pragma("GCC unroll 4") for (size_t r = 0; r < rows; r++)                        \
            _Pragma("GCC unroll 4") for (size_t p = 0; p < GROUP; p++) sum[r][p] =       \
                _mm512_setzero_si512();                                                  \
        for (size_t i = 0; i < b->pairs; i++) {                                          \
            const int8_t *w = b->w + i * 2 * SR1__PANEL;                                 \
            __m512i v[GROUP];                                                            \
                                                                                         \
            _Pragma("GCC unroll 4") for (size_t p = 0; p < GROUP; p++)                   \
            {                                                                            \
                v[p] = _mm512_cvtepi8_epi16(_mm256_load_si256(                           \
                    (const __m256i *)(const void *)(w + p * b->panel)));                 \
                _mm_prefetch((const char *)b->next + p * b->panel + i * 2 * SR1__PANEL,  \
                             _MM_HINT_T1);                                               \
            }                                                                            \
            _Pragma("GCC unroll 4") for (size_t r = 0; r < rows; r++)                    \
            {                                                                            \
                __m512i x = _mm512_set1_epi32(read_pair(b, r, i));                       \
                                                                                         \
                _Pragma("GCC unroll 4") for (size_t p = 0; p < GROUP; p++) sum[r][p] =   \
                    add(sum[r][p], v[p], x);                                             \
            }                                                                            \
        }                                                                                \
        store_int8_512(b, sum, rows);                                                    \
    }

AVX512 __m512i add_pairs_512(__m512i sum, __m512i v, __m512i x)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(v, x));
}

VNNI __m512i add_pairs_vnni(__m512i sum, __m512i v, __m512i x)
{
    return _mm512_dpwssd_epi32(sum, v, x);
}

BLOCK_512(block_int8_512, AVX512, add_pairs_512)
BLOCK_512(block_int8_vnni, VNNI, add_pairs_vnni)

#define ROWS_OF_512(name, attribute, block)                                              \
    attribute static void name(const struct int8_block *b, size_t rows)                  \
    {                                                                                    \
        switch (rows) {                                                                  \
            CASE(block, 1)                                                               \
            CASE(block, 2)                                                               \
            CASE(block, 3)                                                               \
        default:                                                                         \
            block(b, ROWS_512);                                                          \
        }                                                                                \
    }

ROWS_OF_512(rows_int8_512, TARGET_512, block_int8_512)
ROWS_OF_512(rows_int8_vnni, TARGET_VNNI, block_int8_vnni)

static void int8_avx512(const struct sr1__int8_work *w)
{
    run_int8_blocks(w, rows_int8_512, ROWS_512);
}

static void int8_vnni(const struct sr1__int8_work *w)
{
    run_int8_blocks(w, rows_int8_vnni, ROWS_512);
}

/* ---- AVX2: a panel at a time ---- */

#define ROWS_2 4
#define HALVES 2 /* vectors of a panel */

AVX2 void panel_int8_2(const struct int8_block *b, size_t panel, size_t rows)
{
    __m256i sum[ROWS_2][HALVES];

#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    for (size_t i = 0; i < b->pairs; i++) {
        const int8_t *w = b->w + panel * b->panel + i * 2 * SR1__PANEL;
        const __m128i *at = (const __m128i *)(const void *)w;
        __m256i low = _mm256_cvtepi8_epi16(_mm_load_si128(at));
        __m256i high = _mm256_cvtepi8_epi16(_mm_load_si128(at + 1));

        _mm_prefetch((const char *)b->next + panel * b->panel + i * 2 * SR1__PANEL,
                     _MM_HINT_T1);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            __m256i x = _mm256_set1_epi32(read_pair(b, r, i));

            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(low, x));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(high, x));
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            float *y = b->y + r * SR1__GROUP_OUT + panel * SR1__PANEL + h * 8;
            __m256 v = _mm256_mul_ps(_mm256_set1_ps(get_row_step(b, r)),
                                     _mm256_cvtepi32_ps(sum[r][h]));

            _mm256_storeu_ps(y, b->first ? v : _mm256_add_ps(_mm256_loadu_ps(y), v));
        }
}

AVX2 void panels_int8_2(const struct int8_block *b, size_t rows)
{
    for (size_t p = 0; p < GROUP; p++)
        panel_int8_2(b, p, rows);
}

TARGET_2 static void rows_int8_2(const struct int8_block *b, size_t rows)
{
    switch (rows) {
        CASE(panels_int8_2, 1)
        CASE(panels_int8_2, 2)
        CASE(panels_int8_2, 3)
    default:
        panels_int8_2(b, ROWS_2);
    }
}

static void int8_avx2(const struct sr1__int8_work *w)
{
    run_int8_blocks(w, rows_int8_2, ROWS_2);
}

#define INT8_X86                                                                         \
    {"avx512vnni", has_vnni, int8_vnni}, {"avx512", sr1__has_avx512, int8_avx512},       \
        {"avx2", sr1__has_avx2, int8_avx2},
#else
#define INT8_X86
#endif

/* ---- the choice ---- */

static const struct sr1__int8_variant int8_variants[] = {
    INT8_X86{"portable", is_always_usable_int8, int8_portable},
};

const struct sr1__int8_variant *sr1__int8_variants(size_t *n)
{
    *n = sizeof int8_variants / sizeof *int8_variants;
    return int8_variants;
}

static sr1__int8_fn choose_int8_fn(void)
{
    size_t i = 0;

    while (!int8_variants[i].usable())
        i++;
    return int8_variants[i].fn;
}

void sr1__int8_product(const struct sr1__panels *p, size_t group, const int16_t *rows,
                       size_t n, float *tile)
{
    const float *scales =
        (const float *)(const void *)((const char *)p->data + scales_at(p->n_out, p->k)) +
        group * SR1__GROUP_OUT;
    struct sr1__int8_work w = {.panels = (const int8_t *)p->data +
                                         group * SR1__GROUP_OUT * sr1__panels_depth(p->k),
                               .rows = rows,
                               .n = n,
                               .k = p->k,
                               .tile = tile};

    choose_int8_fn()(&w);
    for (size_t r = 0; r < n; r++)
        for (size_t o = 0; o < SR1__GROUP_OUT; o++)
            tile[r * SR1__GROUP_OUT + o] *= scales[o];
}
