/* Gates of a decoder layer against their definitions in double. */
#include "kernels/layer.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define ROWS 3
#define WIDTH 150

/* Hendrycks and Gimpel (2016), section 2: the approximation by tanh. */
static double gelu(double x)
{
    return 0.5 * x *
           (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void check_gate(void (*gate)(const float *, float *, int64_t, int64_t),
                       double (*act)(double), double sd)
{
    static float x[ROWS * 2 * WIDTH], y[ROWS * WIDTH];
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 4, 0);
    for (size_t i = 0; i < ROWS * 2 * WIDTH; i++)
        x[i] = (float)(sd * sr1__rng_normal(&rng));
    gate(x, y, ROWS, WIDTH);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < WIDTH; i++) {
            double g = (double)x[r * 2 * WIDTH + i];
            double up = (double)x[r * 2 * WIDTH + WIDTH + i];
            double got = (double)y[r * WIDTH + i];

            assert_true(fabs(got - act(g) * up) <= 2e-6 * fabs(g * up) + 1e-30);
        }
}

static void gates_are_their_definitions(void **state)
{
    (void)state;
    for (double sd = 0.01; sd < 1e4; sd *= 10) {
        check_gate(sr1__swiglu, silu, sd);
        check_gate(sr1__geglu, gelu, sd);
    }
}

static void what_is_not_finite_shows(void **state)
{
    const float x[] = {NAN, INFINITY, -INFINITY, 1e30F, 1, 1, 1, 1};
    float y[4];

    (void)state;
    sr1__geglu(x, y, 1, 4);
    assert_true(isnan(y[0]));
    assert_true(y[1] == INFINITY);
    assert_true(y[3] == 1e30F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_are_their_definitions),
        cmocka_unit_test(what_is_not_finite_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
