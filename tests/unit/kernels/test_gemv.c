/* A matrix times a few vectors against sums in double. */
#include "base/rng.h"
#include "kernels/bf16.h"
#include "kernels/gemv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check(size_t n, size_t n_out, size_t k, int bf16)
{
    float *w = malloc(n_out * k * sizeof *w);
    uint16_t *half = malloc(n_out * k * sizeof *half);
    float *x = malloc(n * k * sizeof *x);
    float *y = malloc(n * n_out * sizeof *y);
    struct sr1__gemv g = {bf16 ? (void *)half : w, bf16, x, y, n, n_out, k};
    struct sr1__rng rng;
    size_t cut = n_out / 3;

    sr1__rng_seed(&rng, n * 100 + n_out, k);
    for (size_t i = 0; i < n_out * k; i++)
        w[i] = (float)sr1__rng_normal(&rng);
    sr1__f32_to_bf16(w, half, n_out * k);
    if (bf16)
        sr1__bf16_to_f32(half, w, n_out * k);
    for (size_t i = 0; i < n * k; i++)
        x[i] = (float)sr1__rng_normal(&rng);
    for (size_t i = 0; i < n * n_out; i++)
        y[i] = NAN;
    sr1__gemv(&g, cut, n_out);
    sr1__gemv(&g, 0, cut);
    for (size_t i = 0; i < n; i++) {
        for (size_t o = 0; o < n_out; o++) {
            double want = 0;

            for (size_t j = 0; j < k; j++)
                want += (double)x[i * k + j] * (double)w[o * k + j];
            assert_true(fabs((double)y[i * n_out + o] - want) <
                        2e-6 * sqrt((double)k) * 8);
        }
    }
    free(w);
    free(half);
    free(x);
    free(y);
}

static void test_shapes(void **state)
{
    static const size_t ks[] = {1, 7, 8, 9, 64, 100, 1024};
    static const size_t outs[] = {1, 2, 3, 5, 8, 33};

    (void)state;
    for (size_t n = 1; n <= SR1__GEMV_ROWS; n++)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
            for (size_t j = 0; j < sizeof outs / sizeof *outs; j++)
                for (int bf16 = 0; bf16 < 2; bf16++)
                    check(n, outs[j], ks[i], bf16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
