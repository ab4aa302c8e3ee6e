/* AdamW against torch's, clipping, skipping, low-precision masters, state. */
#include "check.h"

#include "base/file.h"
#include "base/json.h"
#include "tensor/ops/optimizer.h"

enum { N = 12 };

static const struct sr1__adamw cfg = {0.9, 0.98, 1e-8, 0.1};

/* A leaf of N elements [3,4] or [N] with value from a seed. */
static sr1_tensor *leaf(uint64_t seed, int matrix, int32_t dtype)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "leaf");
    sr1_tensor *t = matrix ? normal_tensor(s, seed, T_SHAPE(3, 4))
                           : normal_tensor(s, seed, T_SHAPE(N));

    t = t_hold(s, t_to(s, t, dtype));
    t_require_grad(s, t, 1);
    OK(sr1__scope_close(s));
    return t;
}

/* grad of sum(w * g) is g */
static void give_grad(sr1_tensor *w, const float *g)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "grad");
    sr1_tensor *c = t_to(s, t_from_f32(s, g, t_ndim(w), sr1__shim_sizes(w)), t_dtype(w));

    t_backward(s, t_sum(s, t_mul(s, w, c)));
    OK(sr1__scope_close(s));
}

static void read(sr1_tensor *t, float *out)
{
    OK(sr1__shim_to_host(t, SR1__F32, out, N));
}

static const char *const leaves[2] = {"matrix", "vector"};

static void read_numbers(const json_t *o, const char *key, float *out)
{
    const json_t *list = json_object_get(o, key);

    assert_int_equal(json_array_size(list), N);
    for (size_t i = 0; i < N; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

static double read_number(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

/* The leaves as the first line has them. */
static void begin_as_torch(const json_t *row, sr1_tensor *w[2],
                           struct sr1__adamw *settings)
{
    const json_t *betas = json_object_get(row, "betas");
    float start[N];

    for (int k = 0; k < 2; k++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "leaf");

        read_numbers(row, leaves[k], start);
        w[k] = t_hold(s, k == 0 ? t_from_f32(s, start, T_SHAPE(3, 4))
                                : t_from_f32(s, start, T_SHAPE(N)));
        t_require_grad(s, w[k], 1);
        OK(sr1__scope_close(s));
    }
    *settings =
        (struct sr1__adamw){json_number_value(json_array_get(betas, 0)),
                            json_number_value(json_array_get(betas, 1)),
                            read_number(row, "eps"), read_number(row, "weight_decay")};
}

static void step_as_torch(struct sr1__optimizer *o, sr1_tensor *w[2], const json_t *row,
                          double batches)
{
    struct sr1__optim_report report;
    float numbers[N], now[N];

    for (int k = 0; k < 2; k++) {
        read_numbers(json_object_get(row, "grads"), leaves[k], numbers);
        give_grad(w[k], numbers);
    }
    OK(sr1__optimizer_step(o, NULL, read_number(row, "lr"), read_number(row, "max_norm"),
                           batches, &report));
    near(report.grad_norm, read_number(row, "norm"), 1e-5 * read_number(row, "norm"));
    assert_false(report.skipped);
    for (int k = 0; k < 2; k++) {
        read_numbers(json_object_get(row, "want"), leaves[k], numbers);
        read(w[k], now);
        for (int i = 0; i < N; i++)
            near((double)now[i], (double)numbers[i], 2e-5);
    }
}

/* torch.optim.AdamW behind clip_grad_norm_, as tests/golden/make_optimizer_vectors.py ran
 * them in float64. */
static void adamw_equals_torch(void **state)
{
    char path[512], *line, *rest = NULL;
    struct sr1__buf text;
    struct sr1__adamw settings;
    struct sr1__named params[2];
    struct sr1__optimizer *o = NULL;
    sr1_tensor *w[2];
    double batches = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/adamw.jsonl", getenv("SR1_SRC"));
    OK(sr1__file_read(path, 0, &text));
    for (line = strtok_r(text.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, strlen(line), "vectors"));
        if (o) {
            step_as_torch(o, w, row, batches);
        } else {
            begin_as_torch(row, w, &settings);
            batches = read_number(row, "batches");
            for (int k = 0; k < 2; k++)
                params[k] = (struct sr1__named){leaves[k], w[k]};
            OK(sr1__optimizer_new(&o, params, 2, &settings, SR1__CPU));
        }
        json_decref(row);
    }
    assert_int_equal(sr1__optimizer_steps(o), 20);
    sr1__optimizer_free(o);
    sr1__tensor_free(w[0]);
    sr1__tensor_free(w[1]);
    sr1__buf_free(&text);
}

static void a_gradient_that_is_not_finite_changes_nothing(void **state)
{
    float bad[N] = {1, 2, NAN};
    float before[N];
    float after[N];
    sr1_tensor *w = leaf(1, 1, SR1__F32);
    struct sr1__named param = {"w", w};
    struct sr1__optim_report report;
    struct sr1__optimizer *o;
    sr1_scope *s;

    (void)state;
    OK(sr1__optimizer_new(&o, &param, 1, &cfg, SR1__CPU));
    read(w, before);
    for (int i = 0; i < 2; i++) {
        give_grad(w, bad);
        OK(sr1__optimizer_step(o, NULL, 0.1, 1.0, 1.0, &report));
        assert_true(report.skipped);
        bad[2] = INFINITY;
    }
    read(w, after);
    assert_memory_equal(before, after, sizeof before);
    read(sr1__optimizer_state(o, 0).tensor, after);
    assert_true(after[0] == 0.0f);
    assert_int_equal(sr1__optimizer_steps(o), 0);
    s = sr1__scope_open(SR1__CPU, "grad");
    assert_null(t_grad(s, w));
    OK(sr1__scope_close(s));
    sr1__optimizer_free(o);
    sr1__tensor_free(w);
}

/* Steps far below bf16's resolution add up in the master. */
static void bf16_weights_have_fp32_masters(void **state)
{
    float ones[N];
    float before[N];
    float after[N];
    sr1_tensor *w = leaf(1, 0, SR1__BF16);
    struct sr1__named param = {"w", w};
    struct sr1__optimizer *o;

    (void)state;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    OK(sr1__optimizer_new(&o, &param, 1, &cfg, SR1__CPU));
    assert_int_equal(sr1__optimizer_state_count(o), 3);
    assert_string_equal(sr1__optimizer_state(o, 2).name, "w.master");
    read(w, before);
    for (int t = 0; t < 200; t++) {
        give_grad(w, ones);
        OK(sr1__optimizer_step(o, NULL, 1e-4, 0.0, 1.0, NULL));
    }
    read(w, after);
    for (int i = 0; i < N; i++)
        near((double)(before[i] - after[i]), 0.02, 0.01);
    sr1__optimizer_free(o);
    sr1__tensor_free(w);
}

/* Narrow gradients of two leaves as they are, and their copies in fp32. */
static void narrow_gradients_need_no_copy(void **state)
{
    float out[2][2][N], norm[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        sr1_tensor *w[2] = {leaf(1, 0, SR1__BF16), leaf(2, 1, SR1__BF16)}, *sums[2];
        struct sr1__named params[2] = {{"a", w[0]}, {"b", w[1]}};
        struct sr1__optimizer *o;
        struct sr1__optim_report r;

        OK(sr1__optimizer_new(&o, params, 2, &cfg, SR1__CPU));
        for (uint64_t t = 0; t < 4; t++) {
            sr1_scope *s = sr1__scope_open(SR1__CPU, "copies");

            for (uint64_t i = 0; i < 2; i++) {
                float *g = normals(N, 2 * t + i);

                give_grad(w[i], g);
                free(g);
                sums[i] = t_to(s, t_grad(s, w[i]), SR1__F32);
            }
            OK(sr1__optimizer_step(o, k ? sums : NULL, 0.01, 1.5, 2.0, &r));
            OK(sr1__scope_close(s));
        }
        norm[k] = (float)r.grad_norm;
        assert_true(r.grad_norm > 1.5); /* it was clipped */
        for (size_t i = 0; i < 2; i++) {
            read(sr1__optimizer_state(o, 3 * i + 2).tensor, out[k][i]); /* masters */
            sr1__tensor_free(w[i]);
        }
        sr1__optimizer_free(o);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_true(norm[0] == norm[1]);
}

static void restored_state_continues_to_the_same_bits(void **state)
{
    sr1_tensor *w[2] = {leaf(1, 1, SR1__F32), leaf(1, 1, SR1__F32)};
    struct sr1__optimizer *o[2];
    float out[2][N];

    (void)state;
    for (int k = 0; k < 2; k++)
        OK(sr1__optimizer_new(&o[k], &(struct sr1__named){"w", w[k]}, 1, &cfg, SR1__CPU));
    for (int t = 0; t < 6; t++) {
        for (int k = 0; k < 2; k++) {
            float *g = normals(N, (uint64_t)t);

            give_grad(w[k], g);
            free(g);
            if (k == 0 || t >= 3)
                OK(sr1__optimizer_step(o[k], NULL, 0.01, 1.0, 1.0, NULL));
            else
                sr1__optimizer_clear_grad(o[k]);
        }
        if (t == 2) {
            sr1_scope *s = sr1__scope_open(SR1__CPU, "restore");

            sr1__scope_no_grad(s);
            t_copy_(s, w[1], w[0]);
            for (size_t i = 0; i < sr1__optimizer_state_count(o[0]); i++)
                t_copy_(s, sr1__optimizer_state(o[1], i).tensor,
                        sr1__optimizer_state(o[0], i).tensor);
            sr1__optimizer_set_steps(o[1], sr1__optimizer_steps(o[0]));
            OK(sr1__scope_close(s));
        }
    }
    read(w[0], out[0]);
    read(w[1], out[1]);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    for (int k = 0; k < 2; k++) {
        sr1__optimizer_free(o[k]);
        sr1__tensor_free(w[k]);
    }
}

static void any_allocation_of_new_may_fail(void **state)
{
    sr1_tensor *w = leaf(1, 1, SR1__BF16);
    struct sr1__named param = {"w", w};
    struct sr1__optimizer *o = NULL;
    int64_t n;

    (void)state;
    sr1__mem_fail_at(0);
    OK(sr1__optimizer_new(&o, &param, 1, &cfg, SR1__CPU));
    n = sr1__mem_count();
    sr1__optimizer_free(o);
    assert_true(n > 4);
    for (int64_t i = 1; i <= n; i++) {
        o = NULL;
        sr1__mem_fail_at(i);
        assert_int_equal(sr1__optimizer_new(&o, &param, 1, &cfg, SR1__CPU), SR1_E_NOMEM);
        sr1__mem_fail_at(0);
        assert_null(o);
    }
    sr1__tensor_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_equals_torch),
        cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing),
        cmocka_unit_test(bf16_weights_have_fp32_masters),
        cmocka_unit_test(narrow_gradients_need_no_copy),
        cmocka_unit_test(restored_state_continues_to_the_same_bits),
        cmocka_unit_test(any_allocation_of_new_may_fail),
    };

    return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
