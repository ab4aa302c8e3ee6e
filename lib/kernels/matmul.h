/* kernels/matmul.h - products of matrices as a training pass takes them, over the kernels
 * of product.h:
 *
 *     c[i][j] = sum_k a[i][k] b[k][j] + bias[j]
 *
 * A sum goes through k in the order that product.h states: it depends neither on the
 * number of rows and columns, nor on what else is computed, nor on threads. Of bf16
 * matrices it is fp32 all along, and rounded once if c is bf16. */
#ifndef SR1__KERNELS_MATMUL_H
#define SR1__KERNELS_MATMUL_H

#include <stddef.h>

/* A matrix in memory: its element (row, column) is at row * row_step + column *
 * column_step; one of the two is 1. */
struct sr1__strided {
    const void *data;
    size_t row_step;
    size_t column_step;
};

struct sr1__matmul {
    struct sr1__strided a; /* [m, k] */
    struct sr1__strided b; /* [k, n] */
    const void *bias;      /* [n]; NULL: none */
    void *c;               /* [m, n] */
    size_t m, n, k;
    int bf16;       /* a, b and bias are; else fp32 */
    int narrow;     /* c is bf16; else fp32 */
    size_t threads; /* that share the tasks; 0: one. No bit depends on it */
    int add;        /* the sum to c, which is fp32; else set c. Without a bias */
};

/* Is it worth while? Not where only the portable product may run. */
int sr1__matmul_is_fast(int bf16);
/* It is a loop of tasks, in any order, each with scratch at a cache line. */
size_t sr1__matmul_tasks(const struct sr1__matmul *w);
size_t sr1__matmul_scratch(const struct sr1__matmul *w); /* bytes */
void sr1__matmul_run(const struct sr1__matmul *w, size_t task, void *scratch);

#endif
