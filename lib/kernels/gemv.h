/* kernels/gemv.h - a matrix times a few vectors, for decoding: limited by reading the
 * matrix once from memory. */
#ifndef SR1__KERNELS_GEMV_H
#define SR1__KERNELS_GEMV_H

#include <stddef.h>

#define SR1__GEMV_ROWS 4 /* most vectors at once */

/* y[i][o] = sum_k x[i][k] w[o][k], summed in fp32. */
struct sr1__gemv {
    const void *w; /* [n_out, k], fp32 or bf16 */
    int bf16;
    const float *x; /* [n, k] */
    float *y;       /* [n, n_out] */
    size_t n;       /* 1..SR1__GEMV_ROWS */
    size_t n_out;
    size_t k;
};

/* Outputs [from, to). */
void sr1__gemv(const struct sr1__gemv *g, size_t from, size_t to);

#endif
