/* kernels/product_int8.h - panels of int8 with a scale for each output, times rows of
 * int16 with a step for each SR1__PRODUCT_DEPTH numbers, a block:
 *
 *     q[o][k] = round(w[o][k] / scale[o]),  scale[o] = max_k |w[o][k]| / 127
 *     tile[i][o] = scale[o] sum_b step[i][b] sum_{k in b} x[i][k] q[o][k]
 *
 * as in tensor/ops/int8_linear.h. A panel has [k / 2][16][2]. Sums over a block are of
 * integers, and steps are powers of two, so every variant has the same bits, whatever the
 * number of rows. */
#ifndef SR1__KERNELS_PRODUCT_INT8_H
#define SR1__KERNELS_PRODUCT_INT8_H

#include "kernels/product.h"

/* As sr1__panels_bytes and sr1__panels_pack, of such panels; w is fp32 or bf16. */
size_t sr1__int8_bytes(size_t n_out, size_t k);
void sr1__int8_pack(const struct sr1__panels *p, size_t i, const void *w, int bf16,
                    size_t n);

/* A row of x[k] for the product: int16 [depth(k)], then its steps; so many int16. What is
 * not finite makes the outputs NaN. */
size_t sr1__int8_row(size_t k);
void sr1__int8_row_fill(const float *x, size_t k, int16_t *out);

/* As sr1__product, of rows that were filled so, one behind the other. */
void sr1__int8_product(const struct sr1__panels *p, size_t group, const int16_t *rows,
                       size_t n, float *tile);

/* One call's numbers, for a kernel, which leaves the scales out. */
struct sr1__int8_work {
    const int8_t *panels; /* of the group */
    const int16_t *rows;
    size_t n;
    size_t k;
    float *tile; /* [n, SR1__GROUP_OUT] */
};
typedef void (*sr1__int8_fn)(const struct sr1__int8_work *w);
struct sr1__int8_variant {
    const char *name;
    int (*usable)(void);
    sr1__int8_fn fn;
};
/* All that this build has, the best first, "portable" last: for tests. */
const struct sr1__int8_variant *sr1__int8_variants(size_t *n);

#endif
