/* kernels/gemv.c - a matrix times a few vectors.
 *
 * A few rows of the matrix are multiplied with all vectors at once, so each vector is
 * read from the first cache once for several rows and each row once for several vectors.
 */
#include "kernels/gemv.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <stdint.h>
#include <string.h>

#define LANES 8

typedef float v8f __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));

SR1__INLINE void load_weight_lanes(v8f *out, const void *base, size_t i, int bf16)
{
    if (bf16) {
        v8h half;
        v8u wide;

        memcpy(&half, (const uint16_t *)base + i, sizeof half);
        wide = __builtin_convertvector(half, v8u) << 16;
        memcpy(out, &wide, sizeof *out);
    } else {
        memcpy(out, (const float *)base + i, sizeof *out);
    }
}

SR1__INLINE float read_gemv_weight(const void *base, size_t i, int bf16)
{
    uint32_t bits;
    float v;

    if (!bf16)
        return ((const float *)base)[i];
    bits = (uint32_t)((const uint16_t *)base)[i] << 16;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* rows x n dot products, beginning at output o; rows and n are constants where it is
 * used. */
SR1__INLINE void compute_dots(const struct sr1__gemv *g, size_t o, size_t rows, size_t n,
                              int bf16)
{
    v8f sum[4][SR1__GEMV_ROWS] = {{{0}}};
    size_t k = 0;

    for (; k + LANES <= g->k; k += LANES) {
        v8f x[SR1__GEMV_ROWS];

#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            load_weight_lanes(&x[i], g->x, i * g->k + k, 0);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            v8f w;

            load_weight_lanes(&w, g->w, (o + r) * g->k + k, bf16);
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                sum[r][i] += w * x[i];
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < n; i++) {
            float total = 0;

            for (int l = 0; l < LANES; l++)
                total += sum[r][i][l];
            for (size_t j = k; j < g->k; j++)
                total +=
                    g->x[i * g->k + j] * read_gemv_weight(g->w, (o + r) * g->k + j, bf16);
            g->y[i * g->n_out + o + r] = total;
        }
    }
}

SR1__INLINE void run_n(const struct sr1__gemv *g, size_t from, size_t to, size_t rows,
                       size_t n, int bf16)
{
    for (; from + rows <= to; from += rows)
        compute_dots(g, from, rows, n, bf16);
    for (; from < to; from++)
        compute_dots(g, from, 1, n, bf16);
}

/* Rows at once are such that the sums stay in 16 registers. */
SR1__INLINE void run_type(const struct sr1__gemv *g, size_t from, size_t to, int bf16)
{
    switch (g->n) {
    case 1:
        run_n(g, from, to, 4, 1, bf16);
        break;
    case 2:
        run_n(g, from, to, 4, 2, bf16);
        break;
    case 3:
        run_n(g, from, to, 3, 3, bf16);
        break;
    default:
        run_n(g, from, to, 2, 4, bf16);
    }
}

SR1__INLINE void run_gemv(const struct sr1__gemv *g, size_t from, size_t to)
{
    if (g->bf16)
        run_type(g, from, to, 1);
    else
        run_type(g, from, to, 0);
}

#define VARIANT(name, attribute)                                                         \
    attribute static void gemv_##name(const struct sr1__gemv *g, size_t from, size_t to) \
    {                                                                                    \
        run_gemv(g, from, to);                                                           \
    }

VARIANT(portable, )
#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2,fma"))))
#endif

void sr1__gemv(const struct sr1__gemv *g, size_t from, size_t to)
{
#if defined(__x86_64__)
    if (sr1__has_avx2()) {
        gemv_avx2(g, from, to);
        return;
    }
#endif
    gemv_portable(g, from, to);
}
