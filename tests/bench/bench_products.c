/* products [fp32|bf16] [ROWS]: the three products of training with the matrices of the
 * 0.6B shape, for ROWS tokens, one thread, by its processor time: the kernels' and
 * libtorch's by turns, the best of REPEATS; one JSON object a matrix, GFLOP a second. */
#include "processor_time.h"

#include "tensor/ops/fused.h"
#include "tensor/ops/linear.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 5

static const struct {
    const char *name;
    int64_t out, in;
} matrices[] = {{"qkv", 4096, 1024},
                {"o", 1024, 2048},
                {"gate_up", 6144, 1024},
                {"down", 1024, 3072},
                {"head block", 4096, 1024}};

static const char *const products[3] = {"forward", "grad_x", "grad_w"};

/* Seconds of the forward product, and of both gradients. */
static void run_once(int32_t dtype, int64_t rows, int64_t out, int64_t in,
                     double seconds[3])
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "products");
    sr1_tensor *x = t_full(s, 0.5, dtype, T_SHAPE(rows, in));
    sr1_tensor *w = t_full(s, 0.25, dtype, T_SHAPE(out, in));
    sr1_tensor *g = t_full(s, 0.125, dtype, T_SHAPE(rows, out)), *y[2];

    for (int i = 0; i < 2; i++) {
        sr1_tensor *in_x = t_detach(s, x), *in_w = t_detach(s, w);
        double start = processor_seconds();

        t_require_grad(s, i == 0 ? in_x : in_w, 1);
        y[i] = sr1__linear(s, in_x, in_w, NULL);
        seconds[0] = processor_seconds() - start;
        start = processor_seconds();
        t_backward_with(s, y[i], g);
        seconds[1 + i] = processor_seconds() - start;
    }
    if (sr1__scope_close(s) != SR1_OK)
        fprintf(stderr, "products: %s\n", sr1_last_error());
}

static void measure_matrix(int32_t dtype, int64_t rows, size_t i)
{
    double best[2][3], work = 2.0 * (double)(rows * matrices[i].out * matrices[i].in);

    for (int r = 0; r < REPEATS * 2; r++) {
        double seconds[3];

        sr1__fused_enable(r % 2);
        run_once(dtype, rows, matrices[i].out, matrices[i].in, seconds);
        for (int k = 0; k < 3; k++)
            if (r < 2 || seconds[k] < best[r % 2][k])
                best[r % 2][k] = seconds[k];
    }
    printf("{\"what\": \"products\", \"dtype\": \"%s\", \"rows\": %lld, \"matrix\": "
           "\"%s\", \"out\": %lld, \"in\": %lld",
           dtype == SR1__BF16 ? "bf16" : "fp32", (long long)rows, matrices[i].name,
           (long long)matrices[i].out, (long long)matrices[i].in);
    for (int k = 0; k < 3; k++)
        printf(", \"%s\": %.0f, \"torch_%s\": %.0f", products[k], work / best[1][k] / 1e9,
               products[k], work / best[0][k] / 1e9);
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int32_t dtype = argc > 1 && strcmp(argv[1], "fp32") == 0 ? SR1__F32 : SR1__BF16;
    int64_t rows = argc > 2 ? atoll(argv[2]) : 2048;

    if (sr1__torch_threads(1) != SR1_OK)
        return 1;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        measure_matrix(dtype, rows, i);
    return 0;
}
