/* config.json: the fields of real and golden files, refusals by key, and a file that
 * reads back. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensor/weights/hf_config.h"

#include "support/golden_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As published for Qwen3-0.6B and Qwen2.5-0.5B. */
static const char qwen3[] =
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"attention_"
    "dropout\":0.0,"
    "\"bos_token_id\":151643,\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":"
    "\"silu\","
    "\"hidden_size\":1024,\"initializer_range\":0.02,\"intermediate_size\":3072,"
    "\"max_position_embeddings\":40960,\"max_window_layers\":28,\"model_type\":\"qwen3\","
    "\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,"
    "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_"
    "window\":null,"
    "\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"use_cache\":true,"
    "\"use_sliding_window\":false,\"vocab_size\":151936}";
static const char qwen2[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_"
    "id\":151643,"
    "\"eos_token_id\":151645,\"hidden_act\":\"silu\",\"hidden_size\":896,"
    "\"initializer_range\":0.02,\"intermediate_size\":4864,\"max_position_embeddings\":"
    "32768,"
    "\"max_window_layers\":21,\"model_type\":\"qwen2\",\"num_attention_heads\":14,"
    "\"num_hidden_layers\":24,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,"
    "\"rope_theta\":1000000.0,\"sliding_window\":32768,\"tie_word_embeddings\":true,"
    "\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,\"vocab_size\":151936}";

static sr1_status parse(struct sr1__hf_config *c, const char *text)
{
    return sr1__hf_config_parse(c, text, strlen(text), "config.json");
}

static void test_published(void **state)
{
    struct sr1__hf_config c;

    (void)state;
    assert_int_equal(parse(&c, qwen3), SR1_OK);
    assert_int_equal(c.arch, SR1__ARCH_QWEN3);
    assert_true(c.qk_norm && !c.qkv_bias && !c.o_bias && c.tie_word_embeddings);
    assert_int_equal(c.dtype, SR1__WEIGHT_BF16);
    assert_int_equal(c.vocab_size, 151936);
    assert_int_equal(c.hidden_size, 1024);
    assert_int_equal(c.n_layers, 28);
    assert_int_equal(c.n_heads, 16);
    assert_int_equal(c.n_kv_heads, 8);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.intermediate_size, 3072);
    assert_int_equal(c.max_positions, 40960);
    assert_true(c.rms_norm_eps == 1e-6 && c.rope.theta == 1e6 &&
                c.initializer_range == 0.02);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos_ids[0], 151645);
    assert_int_equal(c.bos_id, 151643);
    assert_int_equal(c.pad_id, -1);
    assert_int_equal(parse(&c, qwen2), SR1_OK);
    assert_int_equal(c.arch, SR1__ARCH_QWEN2);
    assert_true(!c.qk_norm && c.qkv_bias && !c.o_bias);
    assert_int_equal(c.head_dim, 64);
}

/* qwen3 with one member replaced or added. */
static const struct bad_row {
    const char *key;
    const char *value; /* JSON; NULL removes the key */
    sr1_status status;
    const char *also; /* in the text beside the key */
} bad[] = {
    {"architectures", "[\"Qwen2MoeForCausalLM\"]", SR1_E_UNSUPPORTED,
     "Qwen2MoeForCausalLM"},
    {"architectures", "[\"GemmaForCausalLM\"]", SR1_E_UNSUPPORTED, "LlamaForCausalLM"},
    {"architectures", NULL, SR1_E_PARSE, "architectures"},
    {"architectures", "\"Qwen3ForCausalLM\"", SR1_E_PARSE, "architectures"},
    {"use_sliding_window", "3", SR1_E_PARSE, "true or false"},
    {"rope_scaling", "{\"rope_type\":\"dynamic\",\"factor\":4.0}", SR1_E_UNSUPPORTED,
     "'rope_scaling': rope of type 'dynamic'"},
    {"rope_scaling", "{\"rope_type\":7}", SR1_E_UNSUPPORTED, "no text"},
    {"rope_scaling", "{\"factor\":2.0}", SR1_E_PARSE, "no rope_type"},
    {"rope_scaling", "{\"type\":\"yarn\"}", SR1_E_PARSE, "needs 'factor'"},
    {"rope_scaling", "{\"type\":\"linear\",\"factor\":0.5}", SR1_E_INVALID, "'factor'"},
    {"rope_scaling", "{\"type\":\"linear\",\"factor\":\"2\"}", SR1_E_PARSE, "number"},
    {"rope_scaling", "{\"type\":\"yarn\",\"factor\":2.0,\"beta_fast\":1,\"beta_slow\":2}",
     SR1_E_INVALID, "beta_slow"},
    {"rope_scaling", "{\"type\":\"yarn\",\"factor\":2.0,\"truncate\":1}", SR1_E_PARSE,
     "true or false"},
    {"rope_parameters",
     "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":1}",
     SR1_E_INVALID, "high_freq_factor"},
    {"rope_parameters", "{\"rope_type\":\"llama3\",\"factor\":8}", SR1_E_PARSE,
     "needs 'low_freq_factor'"},
    {"rope_scaling", "3", SR1_E_PARSE, "object"},
    {"rope_parameters", "{\"partial_rotary_factor\":0.5}", SR1_E_UNSUPPORTED, "partial"},
    {"rope_parameters", "{\"rope_theta\":\"x\"}", SR1_E_PARSE, "rope_theta"},
    {"num_hidden_layers", "1025", SR1_E_INVALID, "1024"},
    {"layer_types", "7", SR1_E_PARSE, "layer_types"},
    {"num_experts", "128", SR1_E_UNSUPPORTED, "experts"},
    {"shared_expert_intermediate_size", "128", SR1_E_UNSUPPORTED, "all tokens"},
    {"num_local_experts", "8", SR1_E_UNSUPPORTED, "experts"},
    {"moe_intermediate_size", "768", SR1_E_UNSUPPORTED, "experts"},
    {"rope_parameters", "{\"full_attention\":{\"rope_theta\":1e6}}", SR1_E_UNSUPPORTED,
     "by layer type ('full_attention')"},
    {"quantization_config", "{\"quant_method\":\"fp8\"}", SR1_E_UNSUPPORTED,
     "it was quantised from"},
    {"mlp_bias", "true", SR1_E_UNSUPPORTED,
     "MLP is not supported; use a model of an architecture that docs/formats.md lists"},
    {"attention_dropout", "0.1", SR1_E_UNSUPPORTED, "dropout"},
    {"hidden_act", "\"gelu\"", SR1_E_UNSUPPORTED, "silu"},
    {"torch_dtype", "\"float8_e4m3fn\"", SR1_E_UNSUPPORTED, "float32"},
    {"vocab_size", NULL, SR1_E_PARSE, "missing"},
    {"vocab_size", "\"many\"", SR1_E_PARSE, "integer"},
    {"vocab_size", "1e5", SR1_E_PARSE, "integer"},
    {"vocab_size", "-1", SR1_E_INVALID, "-1"},
    {"vocab_size", "9223372036854775807", SR1_E_INVALID, "4194304"},
    {"vocab_size", "1000", SR1_E_INVALID, "token_id"},
    {"hidden_size", "0", SR1_E_INVALID, "from 1"},
    {"num_attention_heads", "0", SR1_E_INVALID, "from 1"},
    {"num_key_value_heads", "0", SR1_E_INVALID, "from 1"},
    {"num_key_value_heads", "3", SR1_E_INVALID, "divide"},
    {"head_dim", "127", SR1_E_INVALID, "odd"},
    {"rms_norm_eps", "0", SR1_E_INVALID, "above 0"},
    {"rope_theta", "-5.0", SR1_E_INVALID, "above 0"},
    {"tie_word_embeddings", "1", SR1_E_PARSE, "true or false"},
    {"eos_token_id", "\"</s>\"", SR1_E_PARSE, "token id"},
    {"eos_token_id", "[1, -2]", SR1_E_PARSE, "token id"},
    {"eos_token_id", "[1,2,3,4,5,6,7,8,9]", SR1_E_LIMIT, "8"},
    {"pad_token_id", "151936", SR1_E_INVALID, "vocab_size"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sr1__hf_config c = {.arch = 77};
        json_t *root = NULL;
        json_t *value = NULL;
        struct sr1__buf b;
        sr1_status got;

        assert_int_equal(sr1__json_parse(&root, qwen3, strlen(qwen3), "x"), SR1_OK);
        json_object_del(root, bad[i].key);
        if (bad[i].value) {
            assert_int_equal(
                sr1__json_parse(&value, bad[i].value, strlen(bad[i].value), bad[i].key),
                SR1_OK);
            json_object_set_new(root, bad[i].key, value);
        }
        sr1__buf_init(&b, 0);
        assert_int_equal(sr1__json_dump(root, 0, &b), SR1_OK);
        got = parse(&c, b.data);
        if (got != bad[i].status || !strstr(sr1_last_error(), bad[i].also) ||
            strncmp(sr1_last_error(), "config.json: ", 13) != 0)
            fail_msg("%s = %s: %d, '%s'", bad[i].key, bad[i].value, (int)got,
                     sr1_last_error());
        assert_int_equal(c.arch, 77);
        sr1__buf_free(&b);
        json_decref(root);
    }
}

static int warned;

static void note_warning(void *user, int32_t level, const char *text)
{
    warned += level == SR1_LOG_WARN && strstr(text, user) != NULL;
}

/* As transformers: unknown members of plain rope are left aside with a warning. */
static void test_unknown_rope_members(void **state)
{
    static const char *const lists[2] = {
        "{\"rope_type\":\"default\",\"rope_theta\":2e6,\"beta_fast\":32}",
        "{\"rope_type\":\"default\",\"rope_theta\":2e6,\"factor\":null}"};
    static char word[] = "'beta_fast'";

    (void)state;
    sr1_log_set(note_warning, word);
    for (int i = 0; i < 4; i++) {
        const char *key = i / 2 ? "rope_scaling" : "rope_parameters";
        struct sr1__hf_config c;
        json_t *root = NULL, *value = NULL;
        struct sr1__buf b;

        assert_int_equal(sr1__json_parse(&root, qwen3, strlen(qwen3), "x"), SR1_OK);
        assert_int_equal(sr1__json_parse(&value, lists[i % 2], strlen(lists[i % 2]), key),
                         SR1_OK);
        json_object_set_new(root, key, value);
        sr1__buf_init(&b, 0);
        assert_int_equal(sr1__json_dump(root, 0, &b), SR1_OK);
        warned = 0;
        assert_int_equal(parse(&c, b.data), SR1_OK);
        assert_true(c.rope.theta == 2e6);
        assert_int_equal(warned, i % 2 == 0);
        sr1__buf_free(&b);
        json_decref(root);
    }
    sr1_log_set(NULL, NULL);
}

#define BARE(arch, heads, more)                                                          \
    "{\"architectures\":[\"" arch "\"],\"vocab_size\":100,\"hidden_size\":2048,"         \
    "\"intermediate_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":" heads    \
        more "}"

/* As transformers' configurations have it: 32 key-value heads where the
 * key is absent, as many as heads where it is null; heads of 128 in Qwen3, of
 * hidden_size / heads in Qwen2. */
static void test_absent_heads(void **state)
{
    static const struct {
        const char *text;
        int64_t n_kv_heads, head_dim;
    } rows[] = {
        {BARE("Qwen3ForCausalLM", "64", ""), 32, 128},
        {BARE("Qwen2ForCausalLM", "64", ""), 32, 32},
        {BARE("Qwen3ForCausalLM", "16", ",\"num_key_value_heads\":null"), 16, 128},
        {BARE("Qwen2ForCausalLM", "16", ",\"num_key_value_heads\":null"), 16, 128},
        {BARE("Qwen2ForCausalLM", "64", ",\"head_dim\":8"), 32, 8},
        {BARE("LlamaForCausalLM", "64", ""), 64, 32},
        {BARE("MistralForCausalLM", "64", ""), 8, 32},
        {BARE("SmolLM3ForCausalLM", "64", ""), 4, 32},
    };
    struct sr1__hf_config c;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&c, rows[i].text), SR1_OK);
        assert_int_equal(c.n_kv_heads, rows[i].n_kv_heads);
        assert_int_equal(c.head_dim, rows[i].head_dim);
    }
    assert_int_equal(parse(&c, BARE("Qwen3ForCausalLM", "16", "")), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "num_key_value_heads"));
    assert_int_equal(parse(&c, BARE("Qwen2ForCausalLM", "64", ",\"head_dim\":0")),
                     SR1_E_INVALID);
}

#define THREE(arch, more)                                                                \
    "{\"architectures\":[\"" arch "\"],\"vocab_size\":100,\"hidden_size\":2048,"         \
    "\"intermediate_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":64" more   \
    "}"

/* What each architecture says of its layers: w has the window, n no rope, b both, -
 * neither . Qwen's window counts only with use_sliding_window, Mistral's is 4096 where
 * the key is absent, Llama has none. */
static void test_layers(void **state)
{
    static const struct {
        const char *text;
        int64_t window;
        const char *layers;
    } rows[] = {
        {THREE("MistralForCausalLM", ""), 4096, "www"},
        {THREE("MistralForCausalLM", ",\"sliding_window\":null"), 0, "---"},
        {THREE("MistralForCausalLM", ",\"sliding_window\":7"), 7, "www"},
        {THREE("Qwen2ForCausalLM", ",\"sliding_window\":7"), 0, "---"},
        {THREE("Qwen2ForCausalLM", ",\"use_sliding_window\":true,\"sliding_window\":7"),
         7, "---"},
        {THREE("Qwen3ForCausalLM",
               ",\"use_sliding_window\":true,\"max_window_layers\":1"),
         4096, "-ww"},
        {THREE("Qwen3ForCausalLM",
               ",\"use_sliding_window\":true,\"sliding_window\":9,"
               "\"layer_types\":[\"sliding_attention\",\"full_attention\","
               "\"sliding_attention\"]"),
         9, "w-w"},
        {THREE("LlamaForCausalLM", ",\"sliding_window\":7"), 0, "---"},
        {THREE("SmolLM3ForCausalLM", ""), 0, "---"},
        {THREE("SmolLM3ForCausalLM", ",\"no_rope_layer_interval\":2"), 0, "-n-"},
        {THREE("SmolLM3ForCausalLM", ",\"no_rope_layers\":[0,1,0,1]"), 0, "n-n"},
        {THREE("SmolLM3ForCausalLM",
               ",\"no_rope_layers\":[0,1,0],\"use_sliding_window\":true,"
               "\"sliding_window\":5"),
         5, "b-b"},
        {THREE("SmolLM3ForCausalLM",
               ",\"no_rope_layers\":[0,1,0],\"use_sliding_window\":true,"
               "\"sliding_window\":5,\"layer_types\":[\"full_attention\","
               "\"sliding_attention\",\"full_attention\"]"),
         5, "nwn"},
        {THREE("Qwen3MoeForCausalLM", ""), 0, "eee"},
        {THREE("Qwen3MoeForCausalLM", ",\"decoder_sparse_step\":2"), 0, "-e-"},
        {THREE("Qwen3MoeForCausalLM",
               ",\"mlp_only_layers\":[0],\"use_sliding_window\":true"),
         4096, "wxx"},
    };
    struct sr1__hf_config c;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (parse(&c, rows[i].text) != SR1_OK)
            fail_msg("row %zu: %s", i, sr1_last_error());
        assert_int_equal(c.sliding_window, rows[i].window);
        for (int l = 0; l < 3; l++)
            assert_int_equal("-nwbe?x"[c.layers[l]], rows[i].layers[l]);
    }
}

static void test_bad_layers(void **state)
{
    static const struct {
        const char *text;
        sr1_status status;
        const char *also;
    } rows[] = {
        {THREE("Qwen3MoeForCausalLM", ",\"mlp_only_layers\":[3]"), SR1_E_PARSE,
         "from 0 to 2"},
        {THREE("Qwen3MoeForCausalLM", ",\"decoder_sparse_step\":0"), SR1_E_PARSE,
         "'decoder_sparse_step'"},
        {THREE("Qwen3MoeForCausalLM", ",\"num_experts\":4"), SR1_E_INVALID,
         "'num_experts_per_tok' 8 is above 'num_experts' 4"},
        {THREE("Qwen3MoeForCausalLM", ",\"num_experts\":0"), SR1_E_INVALID,
         "'num_experts'"},
        {THREE("MistralForCausalLM", ",\"sliding_window\":-1"), SR1_E_INVALID,
         "'sliding_window'"},
        {THREE("MistralForCausalLM", ",\"sliding_window\":true"), SR1_E_PARSE,
         "'sliding_window'"},
        {THREE("LlamaForCausalLM",
               ",\"layer_types\":[\"full_attention\",\"full_attention\","
               "\"sliding_attention\"]"),
         SR1_E_PARSE, "'sliding_window'"},
        {THREE("Qwen3ForCausalLM", ",\"max_window_layers\":-1"), SR1_E_PARSE,
         "'max_window_layers'"},
        {THREE("Qwen3ForCausalLM", ",\"layer_types\":[\"full_attention\"]"), SR1_E_PARSE,
         "has 1 entries"},
        {THREE("SmolLM3ForCausalLM", ",\"no_rope_layers\":[1,0]"), SR1_E_PARSE,
         "each of the 3 layers"},
        {THREE("SmolLM3ForCausalLM", ",\"no_rope_layers\":[1,0,2]"), SR1_E_PARSE,
         "neither 1"},
        {THREE("SmolLM3ForCausalLM", ",\"no_rope_layer_interval\":0"), SR1_E_PARSE,
         "at least 1"},
    };
    struct sr1__hf_config c;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&c, rows[i].text), rows[i].status);
        assert_non_null(strstr(sr1_last_error(), rows[i].also));
    }
}

static void test_not_json(void **state)
{
    struct sr1__hf_config c;

    (void)state;
    assert_int_equal(parse(&c, ""), SR1_E_PARSE);
    assert_int_equal(parse(&c, "[1]"), SR1_E_PARSE);
    assert_int_equal(parse(&c, "{\"a\":1,\"a\":2}"), SR1_E_PARSE);
}

/* What transformers wrote is read, written by us, and read again the same. */
static void test_round_trip(void **state)
{
    char folder[] = "/tmp/sr1-config-XXXXXX";
    char path[600];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct sr1__hf_config first;
        struct sr1__hf_config second;

        memset(&first, 0, sizeof first);
        memset(&second, 0, sizeof second);
        snprintf(path, sizeof path, "%s/tests/golden/model/%s", getenv("SR1_SRC"),
                 golden_names[i]);
        assert_int_equal(sr1__hf_config_load(&first, path), SR1_OK);
        assert_int_equal(first.n_layers > 0, 1);
        assert_int_equal(first.qkv_bias, strstr(golden_names[i], "bias") ||
                                             strstr(golden_names[i], "qwen2"));
        assert_int_equal(first.eos_ids[0], 1);
        assert_int_equal(first.pad_id, 0);
        first.n_eos = i % 3 == 0 ? 2 : 1;
        first.eos_ids[1] = 9;
        assert_int_equal(sr1__hf_config_save(&first, folder), SR1_OK);
        assert_int_equal(sr1__hf_config_load(&second, folder), SR1_OK);
        first.eos_ids[1] = i % 3 == 0 ? 9 : 0;
        assert_memory_equal(&first, &second, sizeof first);
    }
    assert_int_equal(sr1__dir_remove(folder), SR1_OK);
}

/* Chat models end on either of two tokens. */
static void test_generation_config(void **state)
{
    static const char list[] = "{\"eos_token_id\":[151645,151643]}";
    char folder[] = "/tmp/sr1-config-XXXXXX";
    char path[100];
    struct sr1__hf_config c;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(sr1__hf_config_load(&c, folder), SR1_E_IO);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(sr1__file_replace(path, qwen3, strlen(qwen3)), SR1_OK);
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    assert_int_equal(sr1__file_replace(path, list, strlen(list)), SR1_OK);
    assert_int_equal(sr1__hf_config_load(&c, folder), SR1_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[1], 151643);
    assert_int_equal(sr1__file_replace(path, "{", 1), SR1_OK);
    assert_int_equal(sr1__hf_config_load(&c, folder), SR1_E_PARSE);
    assert_int_equal(sr1__dir_remove(folder), SR1_OK);
}

static void test_allocation_failures(void **state)
{
    char folder[] = "/tmp/sr1-config-XXXXXX";
    struct sr1__hf_config c;
    sr1_status status = SR1_E_NOMEM;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(parse(&c, qwen3), SR1_OK);
    for (int64_t n = 1; status != SR1_OK; n++) {
        sr1__mem_fail_at(n);
        status = sr1__hf_config_save(&c, folder);
    }
    status = SR1_E_NOMEM;
    for (int64_t n = 1; status != SR1_OK; n++) {
        sr1__mem_fail_at(n);
        status = sr1__hf_config_load(&c, folder);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
    }
    sr1__mem_fail_at(0);
    assert_int_equal(c.vocab_size, 151936);
    assert_int_equal(sr1__dir_remove(folder), SR1_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unknown_rope_members),
        cmocka_unit_test(test_absent_heads),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_bad_layers),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
