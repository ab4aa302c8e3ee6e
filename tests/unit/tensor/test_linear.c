/* Products with a weight matrix and their gradients: the kernels' against sums in double,
 * beside which they are no worse than libtorch's. */
#include "check.h"
#include "tensor/ops/fused.h"
#include "tensor/ops/linear.h"

enum { ROWS = 75, IN = 72, OUT = 130 };

/* y, and the gradients of x, w and bias. */
enum { RESULTS = 4 };
struct linear_case {
    float *x, *w, *bias, *g; /* as the tensors have them */
    double *exact[RESULTS];
    size_t n[RESULTS];
};

static float *make_values(sr1_scope *s, uint64_t seed, int32_t dtype, int32_t ndim,
                          const int64_t *shape)
{
    sr1_tensor *t = t_to(s, normal_tensor(s, seed, ndim, shape), dtype);
    float *v = malloc((size_t)t_numel(t) * sizeof *v);

    t_to_host_f32(s, t, v, (size_t)t_numel(t));
    return v;
}

static void sum_exactly(struct linear_case *c)
{
    for (int i = 0; i < RESULTS; i++)
        c->exact[i] = calloc(c->n[i], sizeof(double));
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t o = 0; o < OUT; o++) {
            double g = (double)c->g[r * OUT + o];

            for (size_t i = 0; i < IN; i++) {
                double x = (double)c->x[r * IN + i], w = (double)c->w[o * IN + i];

                c->exact[0][r * OUT + o] += x * w;
                c->exact[1][r * IN + i] += g * w;
                c->exact[2][o * IN + i] += g * x;
            }
            c->exact[0][r * OUT + o] += (double)c->bias[o];
            c->exact[3][o] += g;
        }
    }
}

static struct linear_case make_case(sr1_scope *s, int32_t dtype)
{
    struct linear_case c = {.x = make_values(s, 1, dtype, T_SHAPE(ROWS, IN)),
                            .w = make_values(s, 2, dtype, T_SHAPE(OUT, IN)),
                            .bias = make_values(s, 3, dtype, T_SHAPE(OUT)),
                            .g = make_values(s, 4, dtype, T_SHAPE(ROWS, OUT)),
                            .n = {ROWS * OUT, ROWS * IN, OUT * IN, OUT}};

    sum_exactly(&c);
    return c;
}

static void free_case(struct linear_case *c)
{
    for (int i = 0; i < RESULTS; i++)
        free(c->exact[i]);
    free(c->x);
    free(c->w);
    free(c->bias);
    free(c->g);
}

/* The root of the mean square that a result is off by. */
static double measure_error(sr1_scope *s, sr1_tensor *t, const double *exact, size_t n)
{
    float *v = malloc(n * sizeof *v);
    double sum = 0.0;

    t_to_host_f32(s, t, v, n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)v[i] - exact[i]) * ((double)v[i] - exact[i]);
    free(v);
    return sqrt(sum / (double)n);
}

static void run_linear(sr1_scope *s, const struct linear_case *c, int32_t dtype,
                       double error[RESULTS])
{
    sr1_tensor *in[3] = {t_to(s, t_from_f32(s, c->x, T_SHAPE(ROWS, IN)), dtype),
                         t_to(s, t_from_f32(s, c->w, T_SHAPE(OUT, IN)), dtype),
                         t_to(s, t_from_f32(s, c->bias, T_SHAPE(OUT)), dtype)};
    sr1_tensor *y;

    for (int i = 0; i < 3; i++)
        t_require_grad(s, in[i], 1);
    y = sr1__linear(s, in[0], in[1], in[2]);
    assert_int_equal(t_dtype(y), dtype);
    t_backward_with(s, y, t_to(s, t_from_f32(s, c->g, T_SHAPE(ROWS, OUT)), dtype));
    error[0] = measure_error(s, y, c->exact[0], c->n[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t_dtype(t_grad(s, in[i])), dtype);
        error[1 + i] = measure_error(s, t_grad(s, in[i]), c->exact[1 + i], c->n[1 + i]);
    }
}

/* bf16 has 8 bits: of numbers near 10, what is rounded once is off by some 0.01. */
static void no_worse_than_libtorch(void **state)
{
    static const struct {
        int32_t dtype;
        double most, slack;
    } types[] = {{SR1__F32, 1e-5, 2.0}, {SR1__BF16, 0.03, 1.01}};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "linear");
        struct linear_case c = make_case(s, types[k].dtype);
        double error[2][RESULTS];

        for (int on = 0; on < 2; on++) {
            sr1__fused_enable(on);
            run_linear(s, &c, types[k].dtype, error[on]);
        }
        for (int i = 0; i < RESULTS; i++) {
            near(error[1][i], 0.0, types[k].most);
            near(error[1][i], 0.0, error[0][i] * types[k].slack);
        }
        free_case(&c);
        OK(sr1__scope_close(s));
    }
}

/* Of bf16 matrices, by the kernels and by libtorch; gradients have their types. */
static void sums_in_fp32_are_not_rounded(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "linear");
    struct linear_case c = make_case(s, SR1__BF16);

    (void)state;
    memset(c.bias, 0, OUT * sizeof *c.bias);
    for (int i = 0; i < RESULTS; i++)
        free(c.exact[i]);
    sum_exactly(&c);
    for (int on = 0; on < 2; on++) {
        sr1_tensor *in[2] = {t_to(s, t_from_f32(s, c.x, T_SHAPE(ROWS, IN)), SR1__BF16),
                             t_to(s, t_from_f32(s, c.w, T_SHAPE(OUT, IN)), SR1__BF16)};
        sr1_tensor *y;

        sr1__fused_enable(on);
        t_require_grad(s, in[0], 1);
        t_require_grad(s, in[1], 1);
        y = sr1__linear_f32(s, in[0], in[1]);
        assert_int_equal(t_dtype(y), SR1__F32);
        near(measure_error(s, y, c.exact[0], c.n[0]), 0.0, 1e-5);
        near(gap(s, y, sr1__linear_f32(s, t_detach(s, in[0]), t_detach(s, in[1]))), 0.0,
             0.0);
        t_backward_with(s, y, t_from_f32(s, c.g, T_SHAPE(ROWS, OUT)));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(t_dtype(t_grad(s, in[i])), SR1__BF16);
            near(measure_error(s, t_grad(s, in[i]), c.exact[1 + i], c.n[1 + i]), 0.0,
                 0.03);
        }
    }
    free_case(&c);
    OK(sr1__scope_close(s));
}

/* Rows of y and of the gradient of x, alone and among others. */
static void a_row_has_its_own_bits(void **state)
{
    static const int32_t types[] = {SR1__F32, SR1__BF16};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "linear");
        sr1_tensor *x = t_to(s, normal_tensor(s, 1, T_SHAPE(ROWS, IN)), types[k]);
        sr1_tensor *w = t_to(s, normal_tensor(s, 2, T_SHAPE(OUT, IN)), types[k]);
        sr1_tensor *g = t_to(s, normal_tensor(s, 4, T_SHAPE(ROWS, OUT)), types[k]);
        sr1_tensor *part = t_clone(s, t_narrow(s, x, 0, 60, 3));
        sr1_tensor *y, *few;

        if (!sr1__linear_has_kernel(x, w))
            skip();
        t_require_grad(s, x, 1);
        t_require_grad(s, part, 1);
        y = sr1__linear(s, x, w, NULL);
        few = sr1__linear(s, part, w, NULL);
        t_backward_with(s, y, g);
        t_backward_with(s, few, t_clone(s, t_narrow(s, g, 0, 60, 3)));
        near(gap(s, t_narrow(s, y, 0, 60, 3), few), 0.0, 0.0);
        near(gap(s, t_narrow(s, t_grad(s, x), 0, 60, 3), t_grad(s, part)), 0.0, 0.0);
        OK(sr1__scope_close(s));
    }
}

static void gradients_alone_are_those_of_the_product(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "linear");
    sr1_tensor *in[2][3], *y[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        in[k][0] = normal_tensor(s, 1, T_SHAPE(ROWS, IN));
        in[k][1] = normal_tensor(s, 2, T_SHAPE(OUT, IN));
        in[k][2] = normal_tensor(s, 3, T_SHAPE(OUT));
        for (int i = 0; i < 3; i++)
            t_require_grad(s, in[k][i], 1);
        y[k] =
            (k == 0 ? sr1__linear : sr1__linear_unread)(s, in[k][0], in[k][1], in[k][2]);
        t_backward_with(s, y[k], normal_tensor(s, 4, T_SHAPE(ROWS, OUT)));
    }
    for (int i = 0; i < 3; i++)
        near(gap(s, t_grad(s, in[0][i]), t_grad(s, in[1][i])), 0.0, 0.0);
    if (sr1__linear_has_kernel(in[1][0], in[1][1]))
        near(t_item(s, t_max_all(s, t_abs(s, y[1]))), 0.0, 0.0); /* not computed */
    OK(sr1__scope_close(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worse_than_libtorch),
        cmocka_unit_test(sums_in_fp32_are_not_rounded),
        cmocka_unit_test(a_row_has_its_own_bits),
        cmocka_unit_test(gradients_alone_are_those_of_the_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
