/* The kernels between a layer's matrices against the same by operations, values and
 * gradients, for widths that do and do not fill a vector. */
#include "check.h"
#include "tensor/ops/fused.h"

#include <pthread.h>

#define TOLERANCE 2e-5

static void norm_equals_operations(void **state)
{
    static const int64_t widths[] = {1, 7, 16, 40, 256};

    (void)state;
    for (size_t c = 0; c < 5; c++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "norm");
        sr1_tensor *x[2];
        sr1_tensor *w[2];
        sr1_tensor *y[2];

        for (int i = 0; i < 2; i++) {
            x[i] = normal_tensor(s, 1, T_SHAPE(37, widths[c]));
            w[i] = normal_tensor(s, 2, T_SHAPE(widths[c]));
            t_require_grad(s, x[i], 1);
            t_require_grad(s, w[i], 1);
            sr1__fused_enable(i);
            y[i] = sr1__fused_rms_norm(s, x[i], w[i], 1e-6);
            t_backward_with(s, y[i], normal_tensor(s, 3, T_SHAPE(37, widths[c])));
        }
        near(gap(s, y[0], y[1]), 0.0, TOLERANCE);
        near(gap(s, t_grad(s, x[0]), t_grad(s, x[1])), 0.0, 1e-4);
        near(gap(s, t_grad(s, w[0]), t_grad(s, w[1])), 0.0, 1e-4);
        OK(sr1__scope_close(s));
    }
}

static void swiglu_equals_operations(void **state)
{
    static const int64_t widths[] = {1, 5, 16, 100};

    (void)state;
    for (size_t c = 0; c < 4; c++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "swiglu");
        sr1_tensor *x[2];
        sr1_tensor *y[2];

        for (int i = 0; i < 2; i++) {
            x[i] = t_mul_scalar(s, normal_tensor(s, 1, T_SHAPE(23, 2 * widths[c])), 10.0);
            t_require_grad(s, x[i], 1);
            sr1__fused_enable(i);
            y[i] = sr1__fused_swiglu(s, x[i]);
            t_backward_with(s, y[i], normal_tensor(s, 3, T_SHAPE(23, widths[c])));
        }
        near(gap(s, y[0], y[1]), 0.0, 2e-4); /* values reach several hundred */
        near(gap(s, t_grad(s, x[0]), t_grad(s, x[1])), 0.0, 1e-4);
        OK(sr1__scope_close(s));
    }
}

static void gate_keeps_what_is_not_a_number(void **state)
{
    const float v[6] = {NAN, 1.0f, 1000.0f, 1.0f, -1000.0f, 1.0f};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "swiglu");
    float y[3];

    (void)state;
    t_to_host_f32(s, sr1__fused_swiglu(s, t_from_f32(s, v, T_SHAPE(3, 2))), y, 3);
    OK(sr1__scope_close(s));
    assert_true(isnan(y[0]));
    near((double)y[1], 1000.0, 0.0);
    near((double)y[2], 0.0, 0.0);
}

enum { N = 21, H = 6, HKV = 2 };

/* q, k and v with gradients arriving at all of them; d: head size. */
static void run_heads(sr1_scope *s, int64_t d, int norms, sr1_tensor *x, sr1_tensor *w[2],
                      sr1_tensor *out[3])
{
    struct sr1__heads_op op = {H, HKV, d, NULL, NULL, 1e-6, NULL, NULL};
    sr1_tensor *angle = normal_tensor(s, 9, T_SHAPE(N, d / 2));
    sr1_tensor *twice[2] = {angle, angle};
    sr1_tensor *loss;

    angle = t_cat(s, twice, 2, 1);
    op.cos = t_cos(s, angle);
    op.sin = t_sin(s, angle);
    if (norms) {
        op.q_norm = w[0];
        op.k_norm = w[1];
    }
    sr1__fused_heads(s, &op, x, out);
    loss = t_sum(s, t_mul(s, out[0], normal_tensor(s, 5, T_SHAPE(N, H, d))));
    for (int i = 1; i < 3; i++)
        loss = t_add(s, loss,
                     t_sum(s, t_mul(s, out[i], normal_tensor(s, 5, T_SHAPE(N, HKV, d)))));
    t_backward(s, loss);
}

static void heads_equal_operations(void **state)
{
    static const int64_t dims[] = {2, 6, 16, 64};

    (void)state;
    for (size_t c = 0; c < 8; c++) {
        int64_t d = dims[c / 2];
        sr1_scope *s = sr1__scope_open(SR1__CPU, "heads");
        sr1_tensor *x[2];
        sr1_tensor *w[2][2];
        sr1_tensor *out[2][3];

        for (int i = 0; i < 2; i++) {
            x[i] = normal_tensor(s, 1, T_SHAPE(N, (H + 2 * HKV) * d));
            t_require_grad(s, x[i], 1);
            for (int k = 0; k < 2; k++) {
                w[i][k] = normal_tensor(s, (uint64_t)(2 + k), T_SHAPE(d));
                t_require_grad(s, w[i][k], 1);
            }
            sr1__fused_enable(i);
            run_heads(s, d, c % 2, x[i], w[i], out[i]);
        }
        for (int k = 0; k < 3; k++)
            near(gap(s, out[0][k], out[1][k]), 0.0, TOLERANCE);
        near(gap(s, t_grad(s, x[0]), t_grad(s, x[1])), 0.0, 2e-4);
        for (int k = 0; k < 2 && c % 2; k++)
            near(gap(s, t_grad(s, w[0][k]), t_grad(s, w[1][k])), 0.0, 2e-4);
        OK(sr1__scope_close(s));
    }
}

/* Norms learn above projections that do not. */
static void frozen_heads_leave_norms_their_gradient(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "heads");
    sr1_tensor *w[2][2], *out[3];

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            w[i][k] = normal_tensor(s, (uint64_t)(2 + k), T_SHAPE(16));
            t_require_grad(s, w[i][k], 1);
        }
        sr1__fused_enable(i);
        run_heads(s, 16, 1, normal_tensor(s, 1, T_SHAPE(N, (H + 2 * HKV) * 16)), w[i],
                  out);
    }
    for (int k = 0; k < 2; k++)
        near(gap(s, t_grad(s, w[0][k]), t_grad(s, w[1][k])), 0.0, 2e-4);
    OK(sr1__scope_close(s));
}

struct seen_threads {
    pthread_mutex_t lock;
    pthread_t first;
    int calls, others;
};

static void note_thread(void *arg, int64_t begin, int64_t end)
{
    struct seen_threads *t = arg;

    (void)begin, (void)end;
    pthread_mutex_lock(&t->lock);
    if (t->calls++ == 0)
        t->first = pthread_self();
    else
        t->others += !pthread_equal(t->first, pthread_self());
    pthread_mutex_unlock(&t->lock);
}

/* Loops of headers of ATen's are divided where they are compiled with OpenMP only. */
static void loops_are_divided_over_threads(void **state)
{
    struct seen_threads t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int32_t threads = sr1__torch_threads_get();

    (void)state;
    OK(sr1__torch_threads(2));
    OK(sr1__shim_parallel(2, 1, note_thread, &t));
    OK(sr1__torch_threads(threads));
    assert_int_equal(t.calls, 2);
    assert_int_equal(t.others, 1);
}

/* The gradient of a norm's weight sums over rows; its bits may not hang on the threads.
 */
static void bits_do_not_depend_on_threads(void **state)
{
    int32_t threads = sr1__torch_threads_get();
    float out[2][64];

    (void)state;
    sr1__fused_enable(1);
    for (int i = 0; i < 2; i++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "threads");
        sr1_tensor *x = normal_tensor(s, 1, T_SHAPE(3001, 64));
        sr1_tensor *w = normal_tensor(s, 2, T_SHAPE(64));

        OK(sr1__torch_threads(i + 1));
        t_require_grad(s, x, 1);
        t_require_grad(s, w, 1);
        t_backward_with(s, sr1__fused_rms_norm(s, x, w, 1e-6),
                        normal_tensor(s, 3, T_SHAPE(3001, 64)));
        t_to_host_f32(s, t_grad(s, w), out[i], 64);
        OK(sr1__scope_close(s));
    }
    OK(sr1__torch_threads(threads));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

static void other_types_take_the_operations(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "bf16");
    sr1_tensor *x = normal_tensor(s, 1, T_SHAPE(4, 8));
    sr1_tensor *w = normal_tensor(s, 2, T_SHAPE(8));
    sr1_tensor *y = sr1__fused_rms_norm(s, x, w, 1e-6);
    sr1_tensor *z =
        sr1__fused_rms_norm(s, t_to(s, x, SR1__BF16), t_to(s, w, SR1__BF16), 1e-6);
    sr1_tensor *turned = sr1__fused_rms_norm(
        s, t_transpose(s, t_contiguous(s, t_transpose(s, x, 0, 1)), 0, 1), w, 1e-6);

    (void)state;
    assert_int_equal(t_dtype(z), SR1__BF16);
    near(gap(s, y, t_to(s, z, SR1__F32)), 0.0, 0.05);
    near(gap(s, y, turned), 0.0, TOLERANCE);
    OK(sr1__scope_close(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_equals_operations),
        cmocka_unit_test(swiglu_equals_operations),
        cmocka_unit_test(gate_keeps_what_is_not_a_number),
        cmocka_unit_test(heads_equal_operations),
        cmocka_unit_test(frozen_heads_leave_norms_their_gradient),
        cmocka_unit_test(loops_are_divided_over_threads),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(other_types_take_the_operations),
    };

    return cmocka_run_group_tests_name("fused", tests, NULL, NULL);
}
