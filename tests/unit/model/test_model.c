/* Making, refusing, copying and saving models; allocations that fail on the way. */
#include "golden.h"

#include "kernels/matmul.h"
#include "tensor/model/model.h"

#include <searchr1/ext/model_details.h>

static const char config[] =
    "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":"
    "16,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"head_dim\":12,\"intermediate_size\":24,\"vocab_size\":50,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
    "\"tie_word_embeddings\":false,\"hidden_act\":\"silu\"}";

static const char dir[] = "test-model-folder";

static sr1_model *random_model(uint64_t seed, const char *dtype)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = dtype};
    sr1_model *m = NULL;

    OK(sr1_model_new_random(&m, config, seed, &o));
    return m;
}

static void logits_of(sr1_model *m, float out[3 * 50])
{
    const int32_t ids[3] = {1, 7, 49};

    OK(sr1_model_logits(m, ids, 3, out));
}

static void figures_are_right(void **state)
{
    sr1_model *m = random_model(1, NULL);
    int64_t layer =
        16 + 16 + 2 * 12 + (2 + 2) * 12 * 16 + 16 * 24 + 2 * 24 * 16 + 16 * 24;

    (void)state;
    assert_int_equal(sr1_model_info(m, SR1_MODEL_VOCAB), 50);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_LAYERS), 2);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_HEAD_DIM), 12);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_TIED), 0);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_PARAMETERS),
                     2 * 50 * 16 + 16 + 2 * layer);
    assert_int_equal(sr1_model_info(m, 99), -1);
    assert_int_equal(sr1_model_info(NULL, SR1_MODEL_VOCAB), -1);
    assert_string_equal(sr1_model_dtype(m), "fp32");
    assert_string_equal(sr1_model_device(m), "cpu");
    sr1_model_free(m);
    sr1_model_free(NULL);
}

static void seeds_decide_weights(void **state)
{
    float a[150];
    float b[150];
    float c[150];
    sr1_model *m[3] = {random_model(1, NULL), random_model(1, NULL),
                       random_model(2, NULL)};

    (void)state;
    logits_of(m[0], a);
    logits_of(m[1], b);
    logits_of(m[2], c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    for (int i = 0; i < 3; i++)
        sr1_model_free(m[i]);
}

/* This seed draws a uniform number that rounds to 1 in single precision. */
static void every_random_weight_is_finite(void **state)
{
    static const char shape[] =
        "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],"
        "\"hidden_size\":128,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":32,\"intermediate_size\":256,"
        "\"vocab_size\":900,\"max_position_embeddings\":1024,\"rms_norm_eps\":1e-6,"
        "\"rope_theta\":10000.0,\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}";
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .init = "fan_in"};
    sr1_model *m = NULL;
    sr1_scope *s;

    (void)state;
    OK(sr1_model_new_random(&m, shape, 2, &o));
    s = sr1__scope_open(SR1__CPU, "weights");
    for (size_t i = 0; i < m->n_params; i++)
        if (!t_isfinite_all(s, m->params[i].tensor))
            fail_msg("%s is not finite", m->params[i].name);
    OK(sr1__scope_close(s));
    sr1_model_free(m);
}

static void a_clone_stands_on_its_own(void **state)
{
    sr1_model *m = random_model(1, NULL);
    sr1_model *frozen = NULL;
    sr1_model *small = NULL;
    sr1_scope *s;
    float before[150];
    float after[150];

    (void)state;
    logits_of(m, before);
    OK(sr1__model_clone(&frozen, m, -1));
    OK(sr1__model_clone(&small, m, SR1__BF16));
    s = sr1__scope_open(SR1__CPU, "change");
    for (size_t i = 0; i < m->n_params; i++)
        t_fill_(s, m->params[i].tensor, 0.5);
    OK(sr1__scope_close(s));
    logits_of(frozen, after);
    assert_memory_equal(before, after, sizeof before);
    logits_of(small, after);
    assert_true(largest_gap(before, after, 150) <= 0.02);
    assert_string_equal(sr1_model_dtype(small), "bf16");
    sr1_model_free(m);
    sr1_model_free(frozen);
    sr1_model_free(small);
}

/* The same weights but for int8: near, the same again, and as a replica or a clone. */
static void int8_layers_are_near_and_shared(void **state)
{
    sr1_model *m = random_model(1, NULL), *made[4] = {NULL}, *out = NULL;
    float exact[150], got[4][150];
    double gap;

    (void)state;
    logits_of(m, exact);
    OK(sr1__model_quantize(&made[0], m, -1, SR1__CPU));
    OK(sr1__model_quantize(&made[1], m, -1, SR1__CPU));
    OK(sr1__model_replica(&made[2], made[0]));
    OK(sr1__model_clone(&made[3], made[0], -1));
    assert_int_equal(t_dtype(made[3]->layers[0].gate_up), SR1__I8);
    assert_ptr_equal(sr1__shim_data(made[0]->layers[1].down),
                     sr1__shim_data(made[2]->layers[1].down));
    for (int i = 0; i < 4; i++)
        logits_of(made[i], got[i]);
    gap = largest_gap(exact, got[0], 150);
    assert_true(gap > 0 && gap < 0.02);
    for (int i = 1; i < 4; i++)
        assert_memory_equal(got[0], got[i], sizeof got[0]);
    assert_int_equal(sr1__model_quantize(&out, made[0], -1, SR1__CPU), SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "quantised already"));
    assert_null(out);
    sr1_model_free(m);
    sr1_model_free(made[2]);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            sr1_model_free(made[i]);
}

static void a_missing_folder_names_the_download(void **state)
{
    sr1_model *m = NULL;

    (void)state;
    assert_int_equal(sr1_model_open(&m, "Qwen/Qwen3-0.6B", NULL), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "hf download Qwen/Qwen3-0.6B"));
    assert_null(m);
}

static void weights_that_are_not_finite_are_named(void **state)
{
    sr1_model *m = random_model(1, NULL);
    sr1_model *again = NULL;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "spoil");

    (void)state;
    t_fill_(s, t_narrow(s, m->layers[1].down, 0, 3, 1), NAN);
    OK(sr1__scope_close(s));
    OK(sr1_model_save(m, dir));
    sr1_model_free(m);
    assert_int_equal(sr1_model_open(&again, dir, NULL), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "model.layers.1.mlp.down_proj.weight"));
    assert_null(again);
    OK(sr1__dir_remove(dir));
}

static char warning[600];

static void keep_warning(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level == SR1_LOG_WARN)
        snprintf(warning, sizeof warning, "%s", text);
}

static void replace_in_config(const char *from, const char *to)
{
    char path[80];
    struct sr1__buf b, changed;
    const char *at;

    snprintf(path, sizeof path, "%s/config.json", dir);
    OK(sr1__file_read(path, 0, &b));
    at = strstr(sr1__buf_cstr(&b), from);
    assert_non_null(at);
    sr1__buf_init(&changed, 0);
    sr1__buf_add(&changed, b.data, (size_t)(at - b.data));
    sr1__buf_str(&changed, to);
    sr1__buf_str(&changed, at + strlen(from));
    OK(sr1__file_replace(path, changed.data, changed.len));
    sr1__buf_free(&b);
    sr1__buf_free(&changed);
}

/* Two layers in the file, one in config.json; then a head beside a tied embedding, which
 * means nothing. */
static void tensors_beyond_the_configuration_are_said(void **state)
{
    sr1_model *m = random_model(1, NULL);

    (void)state;
    OK(sr1_model_save(m, dir));
    sr1_model_free(m);
    sr1_log_set(keep_warning, NULL);
    OK(sr1_model_open(&m, dir, NULL));
    sr1_model_free(m);
    assert_string_equal(warning, "");
    replace_in_config("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    OK(sr1_model_open(&m, dir, NULL));
    sr1_model_free(m);
    assert_string_equal(warning, "");
    replace_in_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    OK(sr1_model_open(&m, dir, NULL));
    sr1_model_free(m);
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warning, "11 tensors are not used"));
    assert_non_null(strstr(warning, "'model.layers.1."));
    OK(sr1__dir_remove(dir));
}

static void options_are_checked(void **state)
{
    const sr1_model_options bad[] = {
        {.struct_size = sizeof bad[0], .device = "tpu"},
        {.struct_size = sizeof bad[0], .device = "cpu", .dtype = "int4"},
        {.struct_size = sizeof bad[0], .device = "cpu", .init = "zeros"},
        {.struct_size = sizeof bad[0], .device = "cpu", .threads = -1},
    };
    sr1_model *m = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sr1_model_new_random(&m, config, 1, &bad[i]), SR1_E_INVALID);
        assert_null(m);
    }
    assert_int_not_equal(sr1_model_new_random(&m, "{}", 1, NULL), SR1_OK);
    assert_int_equal(sr1_model_new_random(NULL, config, 1, NULL), SR1_E_INVALID);
}

static void ids_are_checked(void **state)
{
    const int32_t bad[2][3] = {{1, 50, 2}, {1, -1, 2}};
    sr1_model *m = random_model(1, NULL);
    float out[150];

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sr1_model_logits(m, bad[i], 3, out), SR1_E_INVALID);
        assert_non_null(strstr(sr1_last_error(), "token 1"));
    }
    assert_int_equal(sr1_model_logits(m, bad[0], 0, out), SR1_E_INVALID);
    sr1_model_free(m);
}

/* The n-th allocation fails, for every n: an error, nothing made, nothing leaked. */
static void any_allocation_may_fail(void **state)
{
    sr1_model *m = random_model(1, NULL);
    int64_t n;

    (void)state;
    OK(sr1_model_save(m, dir));
    sr1_model_free(m);
    m = NULL;
    sr1__mem_fail_at(0);
    OK(sr1_model_open(&m, dir, NULL));
    n = sr1__mem_count();
    sr1_model_free(m);
    assert_true(n > 50);
    for (int64_t i = 1; i <= n; i++) {
        sr1_status status;

        m = NULL;
        sr1__mem_fail_at(i);
        status = sr1_model_open(&m, dir, NULL);
        sr1__mem_fail_at(0);
        assert_int_not_equal(status, SR1_OK);
        assert_null(m);
    }
    OK(sr1__dir_remove(dir));
}

/* Products have kernels with AVX2 and more. */
static void slow_products_are_told_of(void **state)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "bf16"};
    sr1_model *m = random_model(1, NULL);

    (void)state;
    OK(sr1_model_save(m, dir));
    sr1_model_free(m);
    warning[0] = '\0';
    sr1_log_set(keep_warning, NULL);
    OK(sr1_model_open(&m, dir, &o));
    sr1_log_set(NULL, NULL);
    sr1_model_free(m);
    assert_int_equal(strstr(warning, "set dtype: fp32") == NULL, sr1__matmul_is_fast(1));
    OK(sr1__dir_remove(dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_right),
        cmocka_unit_test(seeds_decide_weights),
        cmocka_unit_test(every_random_weight_is_finite),
        cmocka_unit_test(a_clone_stands_on_its_own),
        cmocka_unit_test(int8_layers_are_near_and_shared),
        cmocka_unit_test(a_missing_folder_names_the_download),
        cmocka_unit_test(weights_that_are_not_finite_are_named),
        cmocka_unit_test(tensors_beyond_the_configuration_are_said),
        cmocka_unit_test(slow_products_are_told_of),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
