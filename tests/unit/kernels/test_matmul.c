/* Products of matrices in every layout, against sums in double, and bit for bit whatever
 * else is computed beside them. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/matmul.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float *make_random(size_t n, uint64_t seed)
{
    float *v = malloc((n + 1) * sizeof *v);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)sr1__rng_normal(&rng);
    return v;
}

static void multiply(const struct sr1__matmul *w)
{
    void *scratch = sr1__malloc_aligned(sr1__matmul_scratch(w));

    for (size_t i = sr1__matmul_tasks(w); i > 0; i--)
        sr1__matmul_run(w, i - 1, scratch);
    sr1__free(scratch);
}

static float read_element(const struct sr1__strided *m, size_t row, size_t column)
{
    return m->data[row * m->row_step + column * m->column_step];
}

static struct sr1__strided stride(const float *data, size_t rows, size_t columns,
                                  int turned)
{
    return turned ? (struct sr1__strided){data, 1, rows}
                  : (struct sr1__strided){data, columns, 1};
}

/* c was filled with 0.5. */
static void check_product(const struct sr1__matmul *w)
{
    for (size_t i = 0; i < w->m; i++) {
        for (size_t j = 0; j < w->n; j++) {
            double want = w->add ? 0.5 : w->bias ? (double)w->bias[j] : 0.0;
            double size = fabs(want);

            for (size_t k = 0; k < w->k; k++) {
                double one =
                    (double)read_element(&w->a, i, k) * (double)read_element(&w->b, k, j);

                want += one;
                size += fabs(one);
            }
            if (!(fabs(w->c[i * w->n + j] - want) <= 3e-7 * sqrt((double)w->k) * size))
                fail_msg("%zu x %zu x %zu, element %zu %zu: %g is not %g", w->m, w->n,
                         w->k, i, j, (double)w->c[i * w->n + j], want);
        }
    }
}

/* The first rows and the last columns alone have the same bits. */
static void check_bits(const struct sr1__matmul *w)
{
    struct sr1__matmul part = *w;
    size_t skip = w->n / 2;

    part.m = (w->m + 1) / 2;
    part.n = w->n - skip;
    part.b.data += skip * w->b.column_step;
    part.bias = w->bias ? w->bias + skip : NULL;
    part.c = malloc(part.m * part.n * sizeof *part.c);
    for (size_t i = 0; i < part.m * part.n; i++)
        part.c[i] = 0.5F;
    multiply(&part);
    for (size_t i = 0; i < part.m; i++)
        assert_memory_equal(part.c + i * part.n, w->c + i * w->n + skip,
                            part.n * sizeof *part.c);
    free(part.c);
}

static void check_layout(size_t m, size_t n, size_t k, int layout)
{
    float *a = make_random(m * k, 1), *b = make_random(k * n, 2);
    float *bias = make_random(n, 3);
    struct sr1__matmul w = {.a = stride(a, m, k, layout & 1),
                            .b = stride(b, k, n, layout & 2),
                            .bias = layout < 4 ? bias : NULL,
                            .c = malloc(m * n * sizeof *w.c),
                            .m = m,
                            .n = n,
                            .k = k,
                            .add = layout >= 4};

    for (size_t i = 0; i < m * n; i++)
        w.c[i] = 0.5F;
    multiply(&w);
    check_product(&w);
    check_bits(&w);
    free(a);
    free(b);
    free(bias);
    free(w.c);
}

static void every_layout(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1},     {2, 64, 33},   {7, 65, 256},
                                      {97, 16, 257}, {6, 130, 31},  {200, 70, 600},
                                      {2100, 3, 5},  {13, 128, 16}, {7, 33, 9000}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = 0; layout < 8; layout++)
            check_layout(sizes[i][0], sizes[i][1], sizes[i][2], layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
