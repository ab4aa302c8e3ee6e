/* kernels/product.h - a weight matrix times the rows of a decode step or of a prompt.
 *
 *     tile[i][o] = sum_k x[i][k] w[o][k]
 *
 * The weights are repacked once into panels of SR1__PANEL outputs side by side, fp32 as
 * [k][16], bf16 as [k / 2][16][2], with zeros behind the last output and the last k. An
 * output is a lane of a vector, so it is summed over k in one order that depends neither
 * on the number of rows, nor on what else is computed, nor on the width of the vectors:
 *
 *     sum_k = (s_0 + s_1) + s_2 ...,  s_b: SR1__PRODUCT_DEPTH products one after another
 *
 * fp32: each product is added with one rounding where the processor has a fused
 * multiply-add (avx2 and avx512 agree to the bit), else with two. bf16: x is bf16, the
 * products are exact; avx512bf16 and amx add a pair of them by the rules of their
 * instruction, which takes numbers below 2^-126 as zero. */
#ifndef SR1__KERNELS_PRODUCT_H
#define SR1__KERNELS_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

#define SR1__PANEL 16
#define SR1__PANEL_GROUP 4 /* panels that are multiplied together */
#define SR1__GROUP_OUT (SR1__PANEL * SR1__PANEL_GROUP)
#define SR1__PRODUCT_DEPTH 256
#define SR1__PRODUCT_STEP 32 /* k is rounded up to a multiple */

enum sr1__panel_type {
    SR1__PANELS_F32,
    SR1__PANELS_BF16,
    SR1__PANELS_INT8 /* see product_int8.h */
};

/* A packed matrix: groups of panels, a panel after the other. */
struct sr1__panels {
    void *data; /* at a cache line */
    size_t n_out;
    size_t k;
    int type; /* enum sr1__panel_type */
};

size_t sr1__panels_depth(size_t k);      /* k rounded up: the length of rows of x */
size_t sr1__panels_groups(size_t n_out); /* of SR1__GROUP_OUT outputs */
size_t sr1__panels_bytes(size_t n_out, size_t k, int type);
/* Those of fp32 and bf16: fill panel i with rows [0, n) of w [n, k], n <= SR1__PANEL, and
 * zeros. */
void sr1__panels_pack(const struct sr1__panels *p, size_t i, const void *w, size_t n);

/* Outputs of a group for n rows of x, each of `stride` elements of the panels' type, at
 * least sr1__panels_depth(k), with zeros behind k. tile is [n, SR1__GROUP_OUT]. */
void sr1__product(const struct sr1__panels *p, size_t group, const void *x, size_t stride,
                  size_t n, float *tile);
/* The same, added to what the tile has. */
void sr1__product_add(const struct sr1__panels *p, size_t group, const void *x,
                      size_t stride, size_t n, float *tile);

/* One call's numbers, for a kernel. */
struct sr1__product_work {
    const void *panels; /* of the group */
    const void *x;
    size_t stride; /* from a row of x to the next */
    size_t step;   /* from a k to the next; in bf16 from a pair to the next, in pairs */
    size_t n;
    size_t depth; /* of the panels; a multiple of SR1__PRODUCT_STEP in bf16 */
    float *tile;
    size_t tile_stride; /* from a row of it to the next */
    int add;            /* to what the tile has; else set it */
};
typedef void (*sr1__product_fn)(const struct sr1__product_work *w);
struct sr1__product_variant {
    const char *name;
    int (*usable)(void); /* may this processor run it? */
    sr1__product_fn fp32;
    sr1__product_fn bf16;
};
/* All that this build has, the best first, "portable" last: for tests. sr1__product takes
 * of each type the first usable one that has it (fp32 or bf16 may be NULL). */
const struct sr1__product_variant *sr1__product_variants(size_t *n);
/* As sr1__product: any row and step of x, any place of the outputs. */
void sr1__product_run(const struct sr1__product_work *w, int bf16);
/* The name of the one that sr1__product takes. */
const char *sr1__product_variant_name(int bf16);

#endif
