/* Scopes: ownership, the first error and its labels, nesting, grad mode, memory failures.
 */
#include "base/clock.h"
#include "check.h"

static void first_error_is_kept_with_labels(void **state)
{
    sr1_scope *step = sr1__scope_open(SR1__CPU, "step %d", 41);
    sr1_scope *layer = sr1__scope_nest(step, "layer %d", 7);
    sr1_tensor *a = t_full(layer, 1.0, SR1__F32, T_SHAPE(4, 128, 64));
    sr1_tensor *b = t_full(layer, 1.0, SR1__F32, T_SHAPE(4, 32, 64));
    sr1_tensor *y = t_matmul(layer, a, b);

    (void)state;
    assert_null(y);
    assert_null(t_add(layer, y, a)); /* nothing more happens */
    assert_true(t_item(layer, y) == 0.0);
    sr1__scope_fail(layer, SR1_E_INTERNAL, "a later error");
    assert_int_equal(sr1__scope_close(layer), SR1_E_INVALID);
    assert_int_equal(sr1__scope_status(step), SR1_E_INVALID);
    assert_null(t_full(step, 1.0, SR1__F32, T_SHAPE(1)));
    assert_int_equal(sr1__scope_close(step), SR1_E_INVALID);
    assert_non_null(
        strstr(sr1_last_error(), "step 41/layer 7: matmul [4,128,64]x[4,32,64]: "));
}

static void child_of_failed_parent_tells_parents_error(void **state)
{
    sr1_scope *step = sr1__scope_open(SR1__CPU, "step");
    sr1_scope *child;

    (void)state;
    sr1__scope_fail(step, SR1_E_LIMIT, "too much");
    child = sr1__scope_nest(step, "child");
    assert_null(t_full(child, 1.0, SR1__F32, T_SHAPE(1)));
    assert_int_equal(sr1__scope_close(child), SR1_E_LIMIT);
    assert_string_equal(sr1_last_error(), "step: too much");
    assert_int_equal(sr1__scope_close(step), SR1_E_LIMIT);
}

static void missing_operand_is_an_error(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "s");

    (void)state;
    assert_null(t_exp(s, NULL));
    assert_int_equal(sr1__scope_close(s), SR1_E_INTERNAL);
    assert_string_equal(sr1_last_error(), "s: exp: operand 1 is missing");
}

static void no_gradient(sr1_scope *g, void *self, sr1_tensor *const *grads_y,
                        sr1_tensor **grads)
{
    (void)g;
    (void)self;
    (void)grads_y;
    (void)grads;
}

static void missing_output_is_an_error(void **state)
{
    sr1_tensor *y[SR1__MAX_OUTPUTS + 1] = {NULL};
    sr1_tensor *x;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "s");

    (void)state;
    x = t_full(s, 1.0, SR1__F32, T_SHAPE(1));
    y[0] = x;
    t_with_backward(s, y, 2, &x, 1, no_gradient, NULL, NULL);
    assert_null(y[0]);
    assert_int_equal(sr1__scope_close(s), SR1_E_INTERNAL);
    assert_string_equal(sr1_last_error(), "s: backward function: output 2 is missing");
    s = sr1__scope_open(SR1__CPU, "s");
    x = t_full(s, 1.0, SR1__F32, T_SHAPE(1));
    for (size_t i = 0; i <= SR1__MAX_OUTPUTS; i++)
        y[i] = x;
    t_with_backward(s, y, SR1__MAX_OUTPUTS + 1, &x, 1, no_gradient, NULL, NULL);
    assert_null(y[SR1__MAX_OUTPUTS]);
    assert_int_equal(sr1__scope_close(s), SR1_E_INTERNAL);
    assert_string_equal(sr1_last_error(), "s: backward function: 5 outputs, at most 4");
}

static void null_scope_fails_for_memory(void **state)
{
    (void)state;
    assert_null(t_full(NULL, 1.0, SR1__F32, T_SHAPE(1)));
    assert_null(sr1__scope_nest(NULL, "x"));
    assert_int_equal(sr1__scope_status(NULL), SR1_E_NOMEM);
    assert_int_equal(sr1__scope_close(NULL), SR1_E_NOMEM);
}

static void kept_and_held_results_outlive_their_scope(void **state)
{
    sr1_scope *outer = sr1__scope_open(SR1__CPU, "outer");
    sr1_scope *inner = sr1__scope_nest(outer, "inner");
    sr1_tensor *two = t_keep(inner, t_full(inner, 2.0, SR1__F32, T_SHAPE(1)));
    sr1_tensor *three = t_hold(inner, t_full(inner, 3.0, SR1__F32, T_SHAPE(1)));

    (void)state;
    OK(sr1__scope_close(inner));
    near(t_item(outer, t_mul(outer, two, three)), 6.0, 0.0);
    OK(sr1__scope_close(outer));
    outer = sr1__scope_open(SR1__CPU, "again");
    near(t_item(outer, three), 3.0, 0.0);
    OK(sr1__scope_close(outer));
    sr1__tensor_free(three);
}

static void a_root_has_no_parent_to_keep_in(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "root");

    (void)state;
    assert_null(t_keep(s, t_full(s, 2.0, SR1__F32, T_SHAPE(1))));
    assert_int_equal(sr1__scope_close(s), SR1_E_INTERNAL);
}

/* 16 tensors of 64 MiB, one at a time. */
static void dropped_tensors_free_their_memory(void **state)
{
    sr1_scope *s;
    int64_t before;

    (void)state;
    needs_true_memory();
    s = sr1__scope_open(SR1__CPU, "drop");
    t_drop(s, t_full(s, 1.0, SR1__F32, T_SHAPE(1 << 24)));
    before = sr1__rss_bytes();
    for (int i = 0; i < 16; i++)
        t_drop(s, t_full(s, 1.0, SR1__F32, T_SHAPE(1 << 24)));
    assert_true(sr1__rss_bytes() - before < (int64_t)128 << 20);
    OK(sr1__scope_close(s));
}

static void grad_mode_ends_with_its_scope(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "grad");
    sr1_scope *quiet;
    sr1_tensor *x = t_full(s, 2.0, SR1__F32, T_SHAPE(1));

    (void)state;
    t_require_grad(s, x, 1);
    quiet = sr1__scope_nest(s, "quiet");
    sr1__scope_no_grad(quiet);
    assert_false(t_needs_grad(t_exp(quiet, x)));
    OK(sr1__scope_close(quiet));
    assert_true(t_needs_grad(t_exp(s, x)));
    quiet = sr1__scope_nest(s, "inference");
    sr1__scope_inference(quiet);
    assert_false(t_needs_grad(t_exp(quiet, x)));
    OK(sr1__scope_close(quiet));
    t_backward(s, t_square(s, x));
    near(t_item(s, t_grad(s, x)), 4.0, 1e-6);
    t_clear_grad(s, x);
    assert_null(t_grad(s, x));
    OK(sr1__scope_close(s));
}

/* More handles than fit the scope's own block. */
static sr1_status many(void)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "many");
    sr1_scope *inner;
    sr1_tensor *x = t_full(s, 0.0, SR1__F32, T_SHAPE(1));

    inner = sr1__scope_nest(s, "inner");
    for (int i = 0; i < 300; i++)
        x = t_add_scalar(inner, x, 1.0);
    x = t_keep(inner, x);
    (void)sr1__scope_close(inner);
    if (sr1__scope_status(s) == SR1_OK)
        near(t_item(s, x), 300.0, 0.0);
    return sr1__scope_close(s);
}

static void any_allocation_may_fail(void **state)
{
    int64_t n;

    (void)state;
    sr1__mem_fail_at(0);
    OK(many());
    n = sr1__mem_count();
    assert_true(n >= 3);
    for (int64_t i = 1; i <= n; i++) {
        sr1__mem_fail_at(i);
        assert_int_equal(many(), SR1_E_NOMEM);
        sr1__mem_fail_at(0);
    }
}

static void an_impossible_tensor_is_out_of_memory(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "s");

    (void)state;
    assert_null(t_full(s, 1.0, SR1__F32, T_SHAPE((int64_t)1 << 45)));
    if (sr1__scope_close(s) != SR1_E_NOMEM) {
        fprintf(stderr, "%s\n", sr1_last_error());
        fail();
    }
}

static void host_arrays_go_there_and_back(void **state)
{
    const int32_t ids[3] = {5, -1, 7};
    const uint8_t mask[3] = {1, 0, 9};
    const float v[6] = {1, 2, 3, 4, 5, 6};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "host");
    int64_t back[3];
    float out[6];

    (void)state;
    t_to_host_i64(s, t_from_i32(s, ids, 3), back, 3);
    assert_true(back[0] == 5 && back[1] == -1 && back[2] == 7);
    t_to_host_f32(s, t_transpose(s, t_from_f32(s, v, T_SHAPE(2, 3)), 0, 1), out, 6);
    assert_true(out[0] == 1 && out[1] == 4 && out[2] == 2 && out[5] == 6);
    near(t_item(s, t_sum(s, t_to(s, t_from_u8(s, mask, 3), SR1__F32))), 2.0, 0.0);
    OK(sr1__scope_close(s));
    s = sr1__scope_open(SR1__CPU, "host");
    t_to_host_f32(s, t_full(s, 1.0, SR1__F32, T_SHAPE(4)), out, 6);
    assert_int_equal(sr1__scope_close(s), SR1_E_INTERNAL);
}

static void the_greatest_come_first(void **state)
{
    const float v[8] = {3, -1, 7, 5, -2, -8, -2.5F, -9};
    const int8_t bytes[3] = {-128, 0, 127};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "topk");
    sr1_tensor *values;
    sr1_tensor *places;
    float best[4];
    int64_t at[4];
    float out[3];

    (void)state;
    t_topk(s, t_from_f32(s, v, T_SHAPE(2, 4)), 2, &values, &places);
    t_to_host_f32(s, values, best, 4);
    t_to_host_i64(s, places, at, 4);
    assert_true(best[0] == 7 && best[1] == 5 && best[2] == -2 && best[3] == -2.5F);
    assert_true(at[0] == 2 && at[1] == 3 && at[2] == 0 && at[3] == 2);
    t_to_host_f32(s, t_from_host(s, bytes, SR1__I8, T_SHAPE(3)), out, 3);
    assert_true(out[0] == -128 && out[1] == 0 && out[2] == 127);
    OK(sr1__scope_close(s));
    s = sr1__scope_open(SR1__CPU, "topk");
    t_topk(s, t_from_f32(s, v, T_SHAPE(2, 4)), 5, &values, &places);
    assert_true(!values && !places);
    assert_int_equal(sr1__scope_close(s), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "topk [2,4]"));
}

/* A scope of 100 views of one tensor, which cost ATen itself next to nothing: what we add
 * must stay small. The bound is far above what was seen, for slow and busy machines. */
static void an_operation_costs_little(void **state)
{
    double best = 1.0;

    (void)state;
    for (int round = 0; round < 50; round++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "cost");
        sr1_tensor *x = t_full(s, 1.0, SR1__F32, T_SHAPE(4, 4));
        double t0 = sr1__now();
        double t;

        sr1__scope_inference(s);
        for (int i = 0; i < 100; i++)
            (void)t_transpose(s, x, 0, 1);
        t = (sr1__now() - t0) / 100.0;
        best = t < best ? t : best;
        OK(sr1__scope_close(s));
    }
    print_message("transpose through scope and shim: %.0f ns\n", best * 1e9);
    assert_true(best < 5e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_is_kept_with_labels),
        cmocka_unit_test(child_of_failed_parent_tells_parents_error),
        cmocka_unit_test(missing_operand_is_an_error),
        cmocka_unit_test(missing_output_is_an_error),
        cmocka_unit_test(null_scope_fails_for_memory),
        cmocka_unit_test(kept_and_held_results_outlive_their_scope),
        cmocka_unit_test(a_root_has_no_parent_to_keep_in),
        cmocka_unit_test(dropped_tensors_free_their_memory),
        cmocka_unit_test(grad_mode_ends_with_its_scope),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(an_impossible_tensor_is_out_of_memory),
        cmocka_unit_test(host_arrays_go_there_and_back),
        cmocka_unit_test(the_greatest_come_first),
        cmocka_unit_test(an_operation_costs_little),
    };

    return cmocka_run_group_tests_name("scope", tests, NULL, NULL);
}
