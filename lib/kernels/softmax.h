/* kernels/softmax.h - passes over a row of logits: the two that sampling a token needs,
 * and those of training, which sees a row in parts. Compiled for several vector units and
 * chosen at run time. */
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

/* Over the parts of a row so far, z = x / t. */
struct sr1__log_sum {
    float max;     /* of x */
    double sum;    /* of e = exp(z - max / t) */
    double moment; /* of e (z - max / t) */
};
void sr1__log_sum_begin(struct sr1__log_sum *s);
/* A part after the other. Parts of a multiple of SR1__SOFTMAX_BLOCK give the bits of the
 * whole row at once. */
void sr1__log_sum_add(struct sr1__log_sum *s, const float *x, size_t n, double t);
/* log sum exp(z), and the entropy of softmax(z): NaN if any x is not finite. */
double sr1__log_sum_value(const struct sr1__log_sum *s, double t);
double sr1__log_sum_entropy(const struct sr1__log_sum *s);

/* A row's value and entropy, and the gradients by the log-prob of a token and by it. */
struct sr1__softmax_grads {
    double t, log_sum, entropy;
    double g, g_entropy;
};
/* In place of a part of a row x[n] the gradient by each but for the token's own g / t:
 *     -p (g + g_entropy (log p + entropy)) / t,   log p = x / t - log_sum */
void sr1__softmax_backward(float *x, size_t n, const struct sr1__softmax_grads *g);

#endif
