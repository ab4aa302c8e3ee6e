/* kernels/dot.c - see dot.h.
 *
 * Four rows at a time are multiplied with all queries, two or three queries at a time (a
 * tile): the sums of a tile stay in registers, and each row is read from memory once. The
 * following rows are prefetched in address order, whatever order a tile reads its own
 * rows in: memory is fastest that way. */
#include "kernels/dot.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define ROWS 4
#define QUERIES 3 /* at most, in a tile */
/* Elements whose int8 x int16 products an int32 holds, 16 lanes in pairs:
 * 4096 / 16 * 2 * 128 * 32767 < 2^31. */
#define INT8_RUN ((size_t)4096)
#define LINE ((size_t)64) /* bytes that memory is read by */

static size_t element_size(enum sr1__dot_type type)
{
    return type == SR1__DOT_FP32 ? 4 : type == SR1__DOT_FP16 ? 2 : 1;
}

SR1__INLINE float scale_int_dot(const struct sr1__dot *d, int64_t sum, size_t row,
                                size_t query)
{
    return (float)((double)sum *
                   ((double)d->row_scales[row] * (double)d->query_scales[query]));
}

/* ---- conversions ---- */

static float find_largest_abs(const float *in, size_t n)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fabsf(in[i]) > most ? fabsf(in[i]) : most;
    return most;
}

/* A scale so small that 1 / scale is not finite would lose the row: it becomes zeros. */
static float scale_for(const float *in, size_t n, float steps)
{
    float scale = find_largest_abs(in, n) / steps;

    return scale > 1e-37F ? scale : 0.0F;
}

/* v / scale to the nearest whole number, at most steps away from 0 */
static float quantise_value(float v, float scale, float steps)
{
    float q = scale > 0 ? nearbyintf(v / scale) : 0.0F;

    return q > steps ? steps : q < -steps ? -steps : q;
}

float sr1__to_int16(const float *in, int16_t *out, size_t n)
{
    float scale = scale_for(in, n, 32767.0F);

    for (size_t i = 0; i < n; i++)
        out[i] = (int16_t)quantise_value(in[i], scale, 32767.0F);
    return scale > 0 ? scale : 1.0F;
}

float sr1__to_int8(const float *in, int8_t *out, size_t n)
{
    float scale = scale_for(in, n, 127.0F);

    for (size_t i = 0; i < n; i++)
        out[i] = (int8_t)quantise_value(in[i], scale, 127.0F);
    return scale > 0 ? scale : 1.0F;
}

/* bits / 2^shift to the nearest, ties to even */
static uint32_t rounded_shift(uint32_t bits, uint32_t shift)
{
    uint32_t half = (1u << (shift - 1)) - 1;

    return (bits + half + ((bits >> shift) & 1)) >> shift;
}

static uint16_t round_to_half(float v)
{
    uint32_t bits;
    uint32_t sign;
    uint32_t exponent;

    memcpy(&bits, &v, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    exponent = bits >> 23;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* not a number */
    if (exponent >= 143)
        return (uint16_t)(sign | 0x7c00); /* 2^16 and more */
    if (exponent >= 113)                  /* normal; rounding may carry to infinity */
        return (uint16_t)(sign | rounded_shift(bits - (112u << 23), 13));
    if (exponent < 102)
        return (uint16_t)sign; /* below half of the least */
    return (uint16_t)(sign | rounded_shift((bits & 0x7fffff) | 0x800000, 126 - exponent));
}

void sr1__f32_to_f16(const float *in, uint16_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = round_to_half(in[i]);
}

/* The exponent is set right by a multiplication, which is exact; that of infinities and
 * of what is no number is set by hand. */
SR1__INLINE float half_value(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    float v;

    memcpy(&v, &bits, sizeof v);
    v *= 0x1p112F;
    memcpy(&bits, &v, sizeof bits);
    bits |= sign | special;
    memcpy(&v, &bits, sizeof v);
    return v;
}

void sr1__f16_to_f32(const uint16_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half_value(in[i]);
}

/* ---- portable ---- */

static float dot_f32(const float *a, const float *b, size_t n)
{
    float sum[8] = {0};
    float total = 0;

    for (size_t k = 0; k < n; k += 8)
        for (size_t l = 0; l < 8; l++)
            sum[l] += a[k + l] * b[k + l];
    for (size_t l = 0; l < 8; l++)
        total += sum[l];
    return total;
}

static float dot_f16(const uint16_t *a, const float *b, size_t n)
{
    float sum[8] = {0};
    float total = 0;

    for (size_t k = 0; k < n; k += 8)
        for (size_t l = 0; l < 8; l++)
            sum[l] += half_value(a[k + l]) * b[k + l];
    for (size_t l = 0; l < 8; l++)
        total += sum[l];
    return total;
}

static int64_t dot_i8(const int8_t *a, const int16_t *b, size_t n)
{
    int64_t total = 0;

    for (size_t begin = 0; begin < n; begin += 256) {
        size_t end = n - begin < 256 ? n : begin + 256;
        int32_t sum = 0;

        for (size_t k = begin; k < end; k++)
            sum += a[k] * b[k];
        total += sum;
    }
    return total;
}

void sr1__dot_portable(const struct sr1__dot *d, size_t from, size_t to, float *out)
{
    size_t row_bytes = d->dim * element_size(d->type);

    for (size_t r = from; r < to; r++) {
        const void *row = (const char *)d->rows + r * row_bytes;

        for (size_t i = 0; i < d->n; i++) {
            const float *x = (const float *)d->queries + i * d->dim;
            float *y = &out[i * (to - from) + r - from];

            if (d->type == SR1__DOT_FP32)
                *y = dot_f32(row, x, d->dim);
            else if (d->type == SR1__DOT_FP16)
                *y = dot_f16(row, x, d->dim);
            else
                *y = scale_int_dot(
                    d, dot_i8(row, (const int16_t *)d->queries + i * d->dim, d->dim), r,
                    i);
        }
    }
}

/* ---- AVX2 ---- */

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2,fma,f16c"), always_inline)) static inline

/* A tile: rows [row, row + rows) x queries [query, query + n), at y[i * stride + r]. rows
 * and n are constants where it is used. */
struct tile {
    size_t row;
    size_t query;
    float *y;
    size_t stride;
    const char *ahead; /* what to ask for meanwhile: `lines` with each line of a row */
    size_t lines;
};

AVX2 const char *prefetch_avx2(const char *ahead, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        _mm_prefetch(ahead + i * LINE, _MM_HINT_T0);
    return ahead + lines * LINE;
}

AVX2 __m256 load_avx2(const void *p, size_t i, int half)
{
    if (half)
        return _mm256_cvtph_ps(
            _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)p + i)));
    return _mm256_loadu_ps((const float *)p + i);
}

AVX2 float total_avx2(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

AVX2 void floats_avx2(const struct sr1__dot *d, const struct tile *t, size_t rows,
                      size_t n, int half)
{
    const float *x = (const float *)d->queries + t->query * d->dim;
    const char *w = (const char *)d->rows + t->row * d->dim * (half ? 2 : 4);
    const char *ahead = t->ahead;
    __m256 sum[ROWS][QUERIES];

#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            sum[r][i] = _mm256_setzero_ps();
    for (size_t k = 0; k < d->dim; k += 8) {
        __m256 q[QUERIES];

        if (k % (half ? LINE / 2 : LINE / 4) == 0)
            ahead = prefetch_avx2(ahead, t->lines);
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            q[i] = _mm256_loadu_ps(x + i * d->dim + k);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            __m256 v = load_avx2(w, r * d->dim + k, half);

#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                sum[r][i] = _mm256_fmadd_ps(v, q[i], sum[r][i]);
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            t->y[i * t->stride + r] = total_avx2(sum[r][i]);
}

/* The lanes of v as one 64-bit sum. */
AVX2 int64_t total_i32_avx2(__m256i v)
{
    __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v));
    __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1));
    __m256i s = _mm256_add_epi64(low, high);
    __m128i t = _mm_add_epi64(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));

    return _mm_cvtsi128_si64(t) + _mm_extract_epi64(t, 1);
}

AVX2 void bytes_avx2(const struct sr1__dot *d, const struct tile *t, size_t rows,
                     size_t n)
{
    const int16_t *x = (const int16_t *)d->queries + t->query * d->dim;
    const int8_t *w = (const int8_t *)d->rows + t->row * d->dim;
    const char *ahead = t->ahead;
    int64_t total[ROWS][QUERIES] = {{0}};

    for (size_t begin = 0; begin < d->dim; begin += INT8_RUN) {
        size_t end = d->dim - begin < INT8_RUN ? d->dim : begin + INT8_RUN;
        __m256i sum[ROWS][QUERIES];

#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                sum[r][i] = _mm256_setzero_si256();
        for (size_t k = begin; k < end; k += 16) {
            __m256i q[QUERIES];

            if (k % LINE == 0)
                ahead = prefetch_avx2(ahead, t->lines);
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                q[i] = _mm256_loadu_si256(
                    (const __m256i *)(const void *)(x + i * d->dim + k));
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                __m256i v = _mm256_cvtepi8_epi16(
                    _mm_loadu_si128((const __m128i *)(const void *)(w + r * d->dim + k)));

#pragma GCC unroll 4
                for (size_t i = 0; i < n; i++)
                    sum[r][i] = _mm256_add_epi32(sum[r][i], _mm256_madd_epi16(v, q[i]));
            }
        }
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                total[r][i] += total_i32_avx2(sum[r][i]);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            t->y[i * t->stride + r] =
                scale_int_dot(d, total[r][i], t->row + r, t->query + i);
}

AVX2 void tile_avx2(const struct sr1__dot *d, const struct tile *t, size_t rows, size_t n,
                    enum sr1__dot_type type)
{
    if (type == SR1__DOT_INT8)
        bytes_avx2(d, t, rows, n);
    else
        floats_avx2(d, t, rows, n, type == SR1__DOT_FP16);
}

/* These rows with all queries. */
AVX2 void rows_avx2(const struct sr1__dot *d, size_t row, size_t rows, float *y,
                    size_t stride, enum sr1__dot_type type)
{
    size_t most = type == SR1__DOT_INT8 ? 2 : QUERIES;
    size_t tiles = (d->n + most - 1) / most;
    size_t bytes = rows * d->dim * element_size(type);
    struct tile t = {.row = row, .y = y, .stride = stride};

    t.ahead = (const char *)d->rows + row * (bytes / rows) + bytes;
    t.lines = (rows + tiles - 1) / tiles;
    for (size_t asked = 0; t.query < d->n; t.query += most, t.y += most * stride) {
        if (d->n - t.query >= most)
            tile_avx2(d, &t, rows, most, type);
        else if (most > 2 && d->n - t.query == 2)
            tile_avx2(d, &t, rows, 2, type);
        else
            tile_avx2(d, &t, rows, 1, type);
        t.ahead += t.lines * (bytes / rows);
        asked += t.lines;
        if (asked >= rows)
            t.lines = 0;
    }
}

AVX2 void run_avx2(const struct sr1__dot *d, size_t from, size_t to, float *out,
                   enum sr1__dot_type type)
{
    size_t r = from;

    for (; r + ROWS <= to; r += ROWS)
        rows_avx2(d, r, ROWS, out + (r - from), to - from, type);
    for (; r < to; r++)
        rows_avx2(d, r, 1, out + (r - from), to - from, type);
}

#define RUN(name, type)                                                                  \
    __attribute__((target("avx2,fma,f16c"))) static void name(                           \
        const struct sr1__dot *d, size_t from, size_t to, float *out)                    \
    {                                                                                    \
        run_avx2(d, from, to, out, type);                                                \
    }

RUN(run_f32_avx2, SR1__DOT_FP32)
RUN(run_f16_avx2, SR1__DOT_FP16)
RUN(run_i8_avx2, SR1__DOT_INT8)

/* Not every compiler knows "f16c" as a name. */
static int have_f16c(void)
{
    unsigned a;
    unsigned b;
    unsigned c = 0;
    unsigned d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Asked once: asking takes longer than a few rows. */
static int have_avx2(void)
{
    static atomic_int known; /* 0: not yet; 1: no; 2: yes */
    int have = atomic_load_explicit(&known, memory_order_relaxed);

    if (have == 0) {
        have = 1 + (sr1__has_avx2() && have_f16c());
        atomic_store_explicit(&known, have, memory_order_relaxed);
    }
    return have == 2;
}

#endif

void sr1__dot(const struct sr1__dot *d, size_t from, size_t to, float *out)
{
#if defined(__x86_64__)
    if (have_avx2()) {
        if (d->type == SR1__DOT_FP32)
            run_f32_avx2(d, from, to, out);
        else if (d->type == SR1__DOT_FP16)
            run_f16_avx2(d, from, to, out);
        else
            run_i8_avx2(d, from, to, out);
        return;
    }
#endif
    sr1__dot_portable(d, from, to, out);
}
