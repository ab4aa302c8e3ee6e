/* kernels/softmax.h - the two passes over a row of logits that sampling a token needs,
 * compiled for several vector units and chosen at run time. */
#ifndef SR1__KERNELS_SOFTMAX_H
#define SR1__KERNELS_SOFTMAX_H

#include <stddef.h>

#define SR1__SOFTMAX_BLOCK ((size_t)1024)

/* Blocks that cover n elements. */
size_t sr1__softmax_blocks(size_t n);

/* The largest of x[n], n > 0, in *max. Returns 0 when any of x is not finite, else 1. */
int sr1__softmax_max(const float *x, size_t n, float *max);

/* e[i] = exp(z_i), z_i = (x[i] - max) / t; sums[b] = sum of e over block b.
 * Returns the sum of e[i] * z_i. An exponential below 2^-125.5 counts as 0. */
double sr1__softmax_weights(const float *x, size_t n, float max, double t, float *e,
                            double *sums);

#endif
