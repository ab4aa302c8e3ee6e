/* kernels/dot.h - inner products of many rows with a few queries, for exact search over
 * vectors: limited by reading the rows once from memory.
 *
 * Rows are fp32, fp16, or int8 with a scale each: v = q * scale, scale = max|v| / 127,
 * q = round(v / scale). Queries are fp32; for int8 rows int16 made the same way with
 * 32767, so that a product is a sum of whole numbers, exact whatever its order:
 *
 *     row . query = row_scale * query_scale * sum_k q8[k] * q16[k]
 *
 * Against the fp32 query it is off by at most query_scale / 2 * row_scale * sum_k
 * |q8[k]|.
 *
 * A score depends on its row and its query alone: not on the others of the call, not on
 * how rows are cut over threads. */
#ifndef SR1__KERNELS_DOT_H
#define SR1__KERNELS_DOT_H

#include <stddef.h>
#include <stdint.h>

/* Rows and queries are as long as a multiple of this, zeros behind. */
#define SR1__DOT_STEP 16

enum sr1__dot_type { SR1__DOT_FP32, SR1__DOT_FP16, SR1__DOT_INT8 };

struct sr1__dot {
    enum sr1__dot_type type;
    size_t dim;                /* a multiple of SR1__DOT_STEP */
    const void *rows;          /* [n_rows, dim] */
    const float *row_scales;   /* [n_rows], for int8 */
    const void *queries;       /* [n, dim] float; for int8 rows int16_t */
    const float *query_scales; /* [n], for int8 rows */
    size_t n;
};

/* Of rows [from, to): out[i * (to - from) + r - from] = rows[r] . queries[i]. */
void sr1__dot(const struct sr1__dot *d, size_t from, size_t to, float *out);

/* The same without instructions beyond the target's least: for tests. int8 has the same
 * bits, the others differ by rounding. */
void sr1__dot_portable(const struct sr1__dot *d, size_t from, size_t to, float *out);

/* in[0..n), finite, to int16 or int8; returns the scale (1 for zeros). */
float sr1__to_int16(const float *in, int16_t *out, size_t n);
float sr1__to_int8(const float *in, int8_t *out, size_t n);

/* IEEE half precision, rounded to nearest, ties to even; beyond 65504 infinite. */
void sr1__f32_to_f16(const float *in, uint16_t *out, size_t n);
void sr1__f16_to_f32(const uint16_t *in, float *out, size_t n);

#endif
