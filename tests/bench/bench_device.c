/* device DEVICE [MIB SIDE]: what a device can do at most, for the shares that
 * tests/gpu/run prints: bytes a second of a copy within it (read and written), and bf16
 * products of numbers by chance; one JSON object, each the best of REPEATS. */
#include "base/clock.h"
#include "base/rng.h"
#include "tensor/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REPEATS 10
#define IN_A_ROW 8 /* launched before the host waits */

/* The host waits until the device is done. */
static void wait_for(sr1_scope *s, sr1_tensor *t)
{
    (void)t_item(s, t_sum(s, t_narrow(s, t_reshape(s, t, T_SHAPE(-1)), 0, 0, 1)));
}

/* Seconds of one; negative after a failure. */
static double measure_copy(sr1__device device, int64_t bytes)
{
    sr1_scope *s = sr1__scope_open(device, "copy");
    sr1_tensor *from, *to;
    double best = HUGE_VAL;

    sr1__scope_inference(s);
    from = t_full(s, 1.0, SR1__F32, T_SHAPE(bytes / 4));
    to = t_full(s, 0.0, SR1__F32, T_SHAPE(bytes / 4));
    wait_for(s, to);
    for (int i = 0; i < REPEATS; i++) {
        double start = sr1__now();

        for (int k = 0; k < IN_A_ROW; k++)
            t_copy_(s, to, from);
        wait_for(s, to);
        best = fmin(best, sr1__now() - start);
    }
    return sr1__scope_close(s) == SR1_OK ? best / IN_A_ROW : -1;
}

/* bf16 [side,side] of numbers from -1 to 1. */
static sr1_tensor *fill_square(sr1_scope *s, int64_t side)
{
    size_t n = (size_t)(side * side);
    float *v = malloc(n * sizeof *v);
    struct sr1__rng rng;
    sr1_tensor *x;

    if (!v) {
        sr1__scope_fail(s, SR1_E_NOMEM, "numbers");
        return NULL;
    }
    sr1__rng_seed(&rng, 3, 0);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(2 * sr1__rng_uniform(&rng) - 1);
    x = t_to(s, t_from_f32(s, v, 2, (const int64_t[]){side, side}), SR1__BF16);
    free(v);
    return x;
}

static double measure_product(sr1__device device, int64_t side)
{
    sr1_scope *s = sr1__scope_open(device, "product");
    sr1_tensor *x;
    double best = HUGE_VAL;

    sr1__scope_inference(s);
    x = fill_square(s, side);
    wait_for(s, t_linear(s, x, x, NULL));
    for (int i = 0; i < REPEATS; i++) {
        double start = sr1__now();
        sr1_tensor *y = NULL;

        for (int k = 0; k < IN_A_ROW; k++) {
            t_drop(s, y);
            y = t_linear(s, x, x, NULL);
        }
        wait_for(s, y);
        best = fmin(best, sr1__now() - start);
        t_drop(s, y);
    }
    return sr1__scope_close(s) == SR1_OK ? best / IN_A_ROW : -1;
}

int main(int argc, char **argv)
{
    int64_t mib = argc > 2 ? atoi(argv[2]) : 1024;
    int64_t side = argc > 3 ? atoi(argv[3]) : 8192;
    double copy = -1, product = -1;
    sr1__device device;

    if (argc < 2 || mib < 1 || mib > 65536 || side < 8 || side > 65536) {
        fprintf(stderr, "usage: device DEVICE [MIB SIDE]\n");
        return 2;
    }
    if (sr1__device_resolve(argv[1], &device) == SR1_OK)
        copy = measure_copy(device, mib << 20);
    if (copy > 0)
        product = measure_product(device, side);
    if (!(product > 0)) {
        fprintf(stderr, "device: %s\n", sr1_last_error());
        return 1;
    }
    printf(
        "{\"what\": \"limits\", \"copy_mib\": %lld, \"side\": %lld, \"copy_gb_s\": %.2f, "
        "\"bf16_tflop_s\": %.4f}\n",
        (long long)mib, (long long)side, 2.0 * (double)(mib << 20) / copy / 1e9,
        2.0 * (double)side * (double)side * (double)side / product / 1e12);
    return 0;
}
