/* Products of matrices in every layout, against sums in double, and bit for bit whatever
 * else is computed beside them. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/bf16.h"
#include "kernels/matmul.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How a product's matrices lie in memory, and what they are of. */
struct layout {
    int a_turned, b_turned;
    int add; /* else a bias */
    int bf16, narrow;
};

/* n random numbers as a matrix of the layout has them; *exact: the same in fp32. */
static void *make_random(size_t n, uint64_t seed, int bf16, float **exact)
{
    float *v = malloc((n + 1) * sizeof *v);
    uint16_t *half = calloc(n + 1, sizeof *half);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)sr1__rng_normal(&rng);
    sr1__f32_to_bf16(v, half, n);
    if (bf16)
        sr1__bf16_to_f32(half, v, n);
    *exact = v;
    if (!bf16)
        memcpy(half = realloc(half, (n + 1) * sizeof *v), v, n * sizeof *v);
    return half;
}

static void multiply(const struct sr1__matmul *w)
{
    void *scratch = sr1__malloc_aligned(sr1__matmul_scratch(w));

    for (size_t i = sr1__matmul_tasks(w); i > 0; i--)
        sr1__matmul_run(w, i - 1, scratch);
    sr1__free(scratch);
}

static struct sr1__strided stride(const void *data, size_t rows, size_t columns,
                                  int turned)
{
    return turned ? (struct sr1__strided){data, 1, rows}
                  : (struct sr1__strided){data, columns, 1};
}

/* A result filled with 0.5. */
static void *make_result(const struct sr1__matmul *w)
{
    size_t n = w->m * w->n;
    float *wide = malloc(n * sizeof *wide);
    uint16_t *narrow = malloc(n * sizeof *narrow);

    for (size_t i = 0; i < n; i++)
        wide[i] = 0.5F;
    sr1__f32_to_bf16(wide, narrow, n);
    free(w->narrow ? (void *)wide : narrow);
    return w->narrow ? (void *)narrow : wide;
}

static double read_result(const struct sr1__matmul *w, size_t at)
{
    float wide;

    if (!w->narrow)
        return (double)((const float *)w->c)[at];
    sr1__bf16_to_f32((const uint16_t *)w->c + at, &wide, 1);
    return (double)wide;
}

/* a, b and bias in fp32, as their matrices have them. */
struct exact {
    float *a, *b, *bias;
};

static void check_product(const struct sr1__matmul *w, const struct exact *e)
{
    for (size_t i = 0; i < w->m; i++) {
        for (size_t j = 0; j < w->n; j++) {
            double want = w->add ? 0.5 : w->bias ? (double)e->bias[j] : 0.0;
            double size = fabs(want), got = read_result(w, i * w->n + j), slack;

            for (size_t k = 0; k < w->k; k++) {
                double one = (double)e->a[i * w->a.row_step + k * w->a.column_step] *
                             (double)e->b[k * w->b.row_step + j * w->b.column_step];

                want += one;
                size += fabs(one);
            }
            slack = 3e-7 * sqrt((double)w->k) * size +
                    (w->narrow ? fabs(want) / 256.0 : 0.0); /* half a place of 8 bits */
            if (!(fabs(got - want) <= slack))
                fail_msg("%zu x %zu x %zu, element %zu %zu: %g is not %g", w->m, w->n,
                         w->k, i, j, got, want);
        }
    }
}

/* The first rows and the last columns alone have the same bits. */
static void check_bits(const struct sr1__matmul *w)
{
    struct sr1__matmul part = *w;
    size_t skip = w->n / 2, in = w->bf16 ? 2 : 4, out = w->narrow ? 2 : 4;

    part.m = (w->m + 1) / 2;
    part.n = w->n - skip;
    part.b.data = (const char *)w->b.data + skip * w->b.column_step * in;
    part.bias = w->bias ? (const char *)w->bias + skip * in : NULL;
    part.threads = 3;
    part.c = make_result(&part);
    multiply(&part);
    for (size_t i = 0; i < part.m; i++)
        assert_memory_equal((char *)part.c + i * part.n * out,
                            (char *)w->c + (i * w->n + skip) * out, part.n * out);
    free(part.c);
}

static void check_layout(size_t m, size_t n, size_t k, struct layout l)
{
    struct exact e;
    void *a = make_random(m * k, 1, l.bf16, &e.a),
         *b = make_random(k * n, 2, l.bf16, &e.b);
    void *bias = make_random(n, 3, l.bf16, &e.bias);
    struct sr1__matmul w = {.a = stride(a, m, k, l.a_turned),
                            .b = stride(b, k, n, l.b_turned),
                            .bias = l.add ? NULL : bias,
                            .m = m,
                            .n = n,
                            .k = k,
                            .bf16 = l.bf16,
                            .narrow = l.narrow,
                            .add = l.add};

    w.c = make_result(&w);
    multiply(&w);
    check_product(&w, &e);
    check_bits(&w);
    free(a);
    free(b);
    free(bias);
    free(e.a);
    free(e.b);
    free(e.bias);
    free(w.c);
}

static void check_layouts(const size_t sizes[3], int bf16, int narrow)
{
    for (int i = 0; i < (narrow ? 4 : 8); i++)
        check_layout(sizes[0], sizes[1], sizes[2],
                     (struct layout){i & 1, i & 2, i & 4, bf16, narrow});
}

static void every_layout(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1},     {2, 64, 33},   {7, 65, 256},
                                      {97, 16, 257}, {6, 130, 31},  {200, 70, 600},
                                      {2100, 3, 5},  {13, 128, 16}, {7, 33, 9000}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_layouts(sizes[i], 0, 0);
        check_layouts(sizes[i], 1, 0);
        check_layouts(sizes[i], 1, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
