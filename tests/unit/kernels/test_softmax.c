/* A row of logits in parts: log-sum and entropy against sums in double, the gradient
 * against differences, bits against the whole row. */
#include "base/rng.h"
#include "kernels/softmax.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 5000

static void fill_row(float *x, uint64_t seed)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, 0);
    for (size_t i = 0; i < N; i++)
        x[i] = (float)(3.0 * sr1__rng_normal(&rng));
    x[N - 7] = 11.5F; /* the largest comes late */
}

/* log sum exp(x / t) and the entropy of the distribution. */
static void sum_row(const double *x, double t, double *log_sum, double *entropy)
{
    double sum = 0.0, moment = 0.0;

    for (size_t i = 0; i < N; i++)
        sum += exp(x[i] / t);
    *log_sum = log(sum);
    for (size_t i = 0; i < N; i++)
        moment += exp(x[i] / t) / sum * (x[i] / t);
    *entropy = *log_sum - moment;
}

static struct sr1__log_sum add_parts(const float *x, size_t part, double t)
{
    struct sr1__log_sum s;

    sr1__log_sum_begin(&s);
    for (size_t at = 0; at < N; at += part)
        sr1__log_sum_add(&s, x + at, N - at < part ? N - at : part, t);
    return s;
}

static void parts_are_the_row(void **state)
{
    static const double temperatures[] = {1.0, 0.3, 4.0};
    static const size_t parts[] = {N, 1, 1000, 4096, 1024};
    float x[N];
    double wide[N], log_sum, entropy;

    (void)state;
    fill_row(x, 1);
    for (size_t i = 0; i < N; i++)
        wide[i] = (double)x[i];
    for (size_t k = 0; k < 15; k++) {
        double t = temperatures[k / 5];
        struct sr1__log_sum s = add_parts(x, parts[k % 5], t), whole = add_parts(x, N, t);

        sum_row(wide, t, &log_sum, &entropy);
        assert_true(fabs(sr1__log_sum_value(&s, t) - log_sum) < 2e-6);
        assert_true(fabs(sr1__log_sum_entropy(&s) - entropy) < 2e-5);
        if (parts[k % 5] % SR1__SOFTMAX_BLOCK == 0)
            assert_memory_equal(&s, &whole, sizeof s);
    }
}

/* Of g log p[target] + g_entropy H. */
static double value_at(const double *x, double t, size_t target, double g,
                       double g_entropy)
{
    double log_sum, entropy;

    sum_row(x, t, &log_sum, &entropy);
    return g * (x[target] / t - log_sum) + g_entropy * entropy;
}

static void gradient_is_the_slope(void **state)
{
    static const size_t places[] = {0, 1, 17, 1023, 1024, 3000, N - 7, N - 1};
    const double t = 0.8, g = -1.7, step = 1e-4;
    const size_t target = 17;
    float x[N];
    double wide[N];

    (void)state;
    for (int with = 0; with < 2; with++) {
        double g_entropy = with ? 0.6 : 0.0;
        struct sr1__softmax_grads grads = {.t = t, .g = g, .g_entropy = g_entropy};

        fill_row(x, 2);
        for (size_t i = 0; i < N; i++)
            wide[i] = (double)x[i];
        sum_row(wide, t, &grads.log_sum, &grads.entropy);
        sr1__softmax_backward(x, N, &grads);
        x[target] += (float)(g / t);
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            double at = wide[places[k]], up, down;

            wide[places[k]] = at + step;
            up = value_at(wide, t, target, g, g_entropy);
            wide[places[k]] = at - step;
            down = value_at(wide, t, target, g, g_entropy);
            wide[places[k]] = at;
            assert_true(fabs((double)x[places[k]] - (up - down) / (2.0 * step)) < 2e-6);
        }
    }
}

static void what_is_not_finite_shows(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    float x[N];

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct sr1__log_sum s;

        fill_row(x, 3);
        x[2000] = odd[k];
        s = add_parts(x, 1024, 1.0);
        assert_true(isnan(sr1__log_sum_value(&s, 1.0)));
        assert_true(isnan(sr1__log_sum_entropy(&s)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_row),
        cmocka_unit_test(gradient_is_the_slope),
        cmocka_unit_test(what_is_not_finite_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
