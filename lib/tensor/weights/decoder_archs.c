/* tensor/weights/decoder_archs.c - the table of architectures, and what their layers do
 * that config.json lists by layer. Defaults are those of transformers' configurations. */
#include "tensor/weights/decoder_archs.h"

#include <string.h>

#define REMEDY "use a model whose layers attend to all tokens or to a sliding window"

/* ---- reading ---- */

static sr1_status read_positive(const json_t *root, const char *key, const char *name,
                                int64_t *out)
{
    const json_t *v = sr1__json_given(root, key);

    if (v && (!json_is_integer(v) || json_integer_value(v) < 1))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not a whole number of at least 1",
                         name, key);
    *out = v ? json_integer_value(v) : *out;
    return SR1_OK;
}

static sr1_status read_window_size(const json_t *root, const char *name,
                                   struct sr1__hf_config *c)
{
    const json_t *v = json_object_get(root, "sliding_window");

    if (v && !json_is_null(v) && !json_is_integer(v))
        return sr1__fail(SR1_E_PARSE, "%s: 'sliding_window' is not an integer", name);
    c->sliding_window = v ? json_integer_value(v) : sr1__archs[c->arch].sliding_window;
    return SR1_OK;
}

/* An architecture without a window leaves the key alone; in others it counts only with
 * use_sliding_window. */
static sr1_status read_window_in_use(const json_t *root, const char *name,
                                     struct sr1__hf_config *c)
{
    int32_t in_use = 0;

    c->sliding_window = 0;
    SR1__TRY(sr1__hf_flag(root, "use_sliding_window", name, &in_use));
    return in_use ? read_window_size(root, name, c) : SR1_OK;
}

/* layer_types, where it is there, says which layers have the window; *given receives
 * whether it is. */
static sr1_status read_layer_types(const json_t *root, const char *name,
                                   struct sr1__hf_config *c, int *given)
{
    const json_t *types = sr1__json_given(root, "layer_types");

    *given = types != NULL;
    if (types && !json_is_array(types))
        return sr1__fail(SR1_E_PARSE, "%s: 'layer_types' is not a list", name);
    if (types && json_array_size(types) < (size_t)c->n_layers)
        return sr1__fail(SR1_E_PARSE,
                         "%s: 'layer_types' has %zu entries, and there are %lld layers",
                         name, json_array_size(types), (long long)c->n_layers);
    for (int64_t i = 0; types && i < c->n_layers; i++) {
        const char *text = json_string_value(json_array_get(types, (size_t)i));
        int windowed = text && strcmp(text, "sliding_attention") == 0;

        if (!windowed && (!text || strcmp(text, "full_attention") != 0))
            return sr1__hf_refuse(
                name, "layer_types",
                "attention other than full_attention and sliding_attention", REMEDY);
        if (windowed && c->sliding_window == 0)
            return sr1__fail(SR1_E_PARSE,
                             "%s: 'layer_types' has sliding_attention without a "
                             "'sliding_window' in use",
                             name);
        c->layers[i] |= windowed ? SR1__LAYER_WINDOW : 0;
    }
    return SR1_OK;
}

static void window_layers_from(struct sr1__hf_config *c, int64_t first)
{
    for (int64_t i = first; i < c->n_layers && c->sliding_window; i++)
        c->layers[i] |= SR1__LAYER_WINDOW;
}

/* Llama: all layers are alike. */
static sr1_status read_plain_layers(const json_t *root, const char *name,
                                    struct sr1__hf_config *c)
{
    int given;

    c->sliding_window = 0;
    return read_layer_types(root, name, c, &given);
}

/* Mistral: where there is a window, all layers have it. */
static sr1_status read_mistral_layers(const json_t *root, const char *name,
                                      struct sr1__hf_config *c)
{
    SR1__TRY(read_window_size(root, name, c));
    window_layers_from(c, 0);
    return SR1_OK;
}

#define MAX_WINDOW_LAYERS 28 /* of Qwen's, where config.json does not say */

/* Qwen: layers from max_window_layers on have the window. */
static sr1_status read_qwen_layers(const json_t *root, const char *name,
                                   struct sr1__hf_config *c)
{
    const json_t *first = sr1__json_given(root, "max_window_layers");
    int given;

    SR1__TRY(read_window_in_use(root, name, c));
    SR1__TRY(read_layer_types(root, name, c, &given));
    if (first && (!json_is_integer(first) || json_integer_value(first) < 0))
        return sr1__fail(SR1_E_PARSE, "%s: 'max_window_layers' is not a number of layers",
                         name);
    if (!given)
        window_layers_from(c, first ? json_integer_value(first) : MAX_WINDOW_LAYERS);
    return SR1_OK;
}

#define NO_ROPE_INTERVAL 4 /* of SmolLM3, where config.json does not say */

/* A 0 of no_rope_layers is a layer without positions. */
static sr1_status read_no_rope_list(const json_t *list, const char *name,
                                    struct sr1__hf_config *c)
{
    if (!json_is_array(list) || json_array_size(list) < (size_t)c->n_layers)
        return sr1__fail(SR1_E_PARSE,
                         "%s: 'no_rope_layers' is not a list with a number for each of "
                         "the %lld layers",
                         name, (long long)c->n_layers);
    for (int64_t i = 0; i < c->n_layers; i++) {
        const json_t *v = json_array_get(list, (size_t)i);

        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1)
            return sr1__fail(SR1_E_PARSE,
                             "%s: 'no_rope_layers' has an entry that is neither 1 (rope) "
                             "nor 0 (none)",
                             name);
        c->layers[i] |= json_integer_value(v) == 0 ? SR1__LAYER_NO_ROPE : 0;
    }
    return SR1_OK;
}

static sr1_status read_no_rope_interval(const json_t *root, const char *name,
                                        struct sr1__hf_config *c)
{
    int64_t step = NO_ROPE_INTERVAL;

    SR1__TRY(read_positive(root, "no_rope_layer_interval", name, &step));
    for (int64_t i = 0; i < c->n_layers; i++)
        c->layers[i] |= (i + 1) % step == 0 ? SR1__LAYER_NO_ROPE : 0;
    return SR1_OK;
}

/* SmolLM3: some layers have no positions; they have the window where one is in use. */
static sr1_status read_smollm3_layers(const json_t *root, const char *name,
                                      struct sr1__hf_config *c)
{
    const json_t *list = sr1__json_given(root, "no_rope_layers");
    int given;

    SR1__TRY(list ? read_no_rope_list(list, name, c)
                  : read_no_rope_interval(root, name, c));
    SR1__TRY(read_window_in_use(root, name, c));
    SR1__TRY(read_layer_types(root, name, c, &given));
    for (int64_t i = 0; i < c->n_layers && !given && c->sliding_window; i++)
        c->layers[i] |= c->layers[i] & SR1__LAYER_NO_ROPE ? SR1__LAYER_WINDOW : 0;
    return SR1_OK;
}

/* Qwen3-MoE: every decoder_sparse_step-th layer has experts, but for mlp_only_layers; a
 * window is all layers'. */
static sr1_status read_dense_layers(const json_t *root, const char *name,
                                    struct sr1__hf_config *c)
{
    const json_t *list = sr1__json_given(root, "mlp_only_layers");

    if (list && !json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "%s: 'mlp_only_layers' is not a list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t layer = json_integer_value(v);

        if (!json_is_integer(v) || layer < 0 || layer >= c->n_layers)
            return sr1__fail(SR1_E_PARSE,
                             "%s: 'mlp_only_layers' has an entry that is not a layer, "
                             "from 0 to %lld",
                             name, (long long)c->n_layers - 1);
        c->layers[layer] &= (uint8_t)~SR1__LAYER_EXPERTS;
    }
    return SR1_OK;
}

static sr1_status read_expert_layers(const json_t *root, const char *name,
                                     struct sr1__hf_config *c)
{
    int64_t step = 1;

    SR1__TRY(read_positive(root, "decoder_sparse_step", name, &step));
    for (int64_t i = 0; i < c->n_layers; i++)
        c->layers[i] |= (i + 1) % step == 0 ? SR1__LAYER_EXPERTS : 0;
    SR1__TRY(read_dense_layers(root, name, c));
    SR1__TRY(read_window_in_use(root, name, c));
    window_layers_from(c, 0);
    return SR1_OK;
}

#define WINDOW_PATTERN 6 /* of Gemma 3, where config.json does not say, */
#define QUERY_SCALAR 256 /* likewise */

/* Gemma 3: all layers but every sixth have the window and a rope of their own. */
static sr1_status read_gemma_layers(const json_t *root, const char *name,
                                    struct sr1__hf_config *c)
{
    int64_t pattern = WINDOW_PATTERN;
    int given;

    c->query_scalar = QUERY_SCALAR;
    SR1__TRY(read_positive(root, "query_pre_attn_scalar", name, &c->query_scalar));
    SR1__TRY(read_positive(root, "sliding_window_pattern", name, &pattern));
    SR1__TRY(read_window_size(root, name, c));
    SR1__TRY(read_layer_types(root, name, c, &given));
    if (!given && c->sliding_window == 0)
        return sr1__fail(SR1_E_PARSE, "%s: 'sliding_window' is missing", name);
    for (int64_t i = 0; i < c->n_layers; i++) {
        c->layers[i] |= !given && (i + 1) % pattern != 0 ? SR1__LAYER_WINDOW : 0;
        c->layers[i] |= c->layers[i] & SR1__LAYER_WINDOW ? SR1__LAYER_LOCAL : 0;
    }
    return SR1_OK;
}

/* ---- writing ---- */

static int has_windows(const struct sr1__hf_config *c)
{
    return sr1__hf_config_has(c, SR1__LAYER_WINDOW);
}

static int write_window(json_t *root, const struct sr1__hf_config *c)
{
    json_t *window = c->sliding_window ? json_integer(c->sliding_window) : json_null();

    return json_object_set_new(root, "sliding_window", window) ||
           json_object_set_new(root, "use_sliding_window", json_boolean(has_windows(c)));
}

/* Takes the list. bad: not all could be appended to it. */
static int set_list(json_t *root, const char *key, json_t *list, int bad)
{
    if (!bad)
        return json_object_set_new(root, key, list);
    json_decref(list);
    return 1;
}

static int write_layer_types(json_t *root, const struct sr1__hf_config *c)
{
    json_t *list = json_array();
    int bad = 0;

    for (int64_t i = 0; i < c->n_layers && !bad; i++)
        bad = json_array_append_new(list, json_string(c->layers[i] & SR1__LAYER_WINDOW
                                                          ? "sliding_attention"
                                                          : "full_attention"));
    return set_list(root, "layer_types", list, bad);
}

/* transformers before 4.53 reads max_window_layers in place of layer_types. */
static int write_qwen_layers(json_t *root, const struct sr1__hf_config *c)
{
    int64_t first = 0;

    while (first < c->n_layers && !(c->layers[first] & SR1__LAYER_WINDOW))
        first++;
    return write_window(root, c) || write_layer_types(root, c) ||
           json_object_set_new(root, "max_window_layers", json_integer(first));
}

static int write_smollm3_layers(json_t *root, const struct sr1__hf_config *c)
{
    json_t *list = json_array();
    int bad = 0;

    for (int64_t i = 0; i < c->n_layers && !bad; i++)
        bad = json_array_append_new(
            list, json_integer((c->layers[i] & SR1__LAYER_NO_ROPE) == 0));
    return set_list(root, "no_rope_layers", list, bad) || write_window(root, c) ||
           write_layer_types(root, c);
}

/* Layers without experts, one by one. */
static int write_expert_layers(json_t *root, const struct sr1__hf_config *c)
{
    json_t *list = json_array();
    int bad = 0;

    for (int64_t i = 0; i < c->n_layers && !bad; i++)
        if (!(c->layers[i] & SR1__LAYER_EXPERTS))
            bad = json_array_append_new(list, json_integer(i));
    for (size_t i = 0; i < SR1__N_EXPERT_SIZES && !bad; i++)
        bad = json_object_set_new(
            root, sr1__expert_sizes[i].key,
            json_integer(*sr1__hf_size_at((void *)(uintptr_t)c, &sr1__expert_sizes[i])));
    return set_list(root, "mlp_only_layers", list, bad) ||
           json_object_set_new(root, "decoder_sparse_step", json_integer(1)) ||
           json_object_set_new(root, "norm_topk_prob",
                               json_boolean(c->norm_expert_probs)) ||
           write_window(root, c);
}

static int write_gemma_layers(json_t *root, const struct sr1__hf_config *c)
{
    return json_object_set_new(root, "query_pre_attn_scalar",
                               json_integer(c->query_scalar)) ||
           json_object_set_new(root, "sliding_window", json_integer(c->sliding_window)) ||
           write_layer_types(root, c);
}

/* ---- the table ---- */

#define NAMED(name) .architectures = {name "ForCausalLM", name "ForTokenClassification"}

#define SILU .act_key = "hidden_act", .act = "silu"

const struct sr1__arch_row sr1__archs[SR1__ARCHS] = {
    [SR1__ARCH_QWEN3] = {NAMED("Qwen3"), .model_type = "qwen3", SILU, .qk_norm = 1,
                         .head_dim = 128, .n_kv_heads = 32, .max_positions = 32768,
                         .sliding_window = 4096, .rope_theta = 10000,
                         .read_layers = read_qwen_layers,
                         .write_layers = write_qwen_layers},
    [SR1__ARCH_QWEN2] = {NAMED("Qwen2"), .model_type = "qwen2", SILU, .qkv_bias = 1,
                         .n_kv_heads = 32, .max_positions = 32768, .sliding_window = 4096,
                         .rope_theta = 10000, .read_layers = read_qwen_layers,
                         .write_layers = write_qwen_layers},
    [SR1__ARCH_LLAMA] = {NAMED("Llama"), .model_type = "llama", SILU,
                         .max_positions = 2048, .rope_theta = 10000,
                         .read_layers = read_plain_layers, .write_layers = write_window},
    [SR1__ARCH_MISTRAL] = {NAMED("Mistral"), .model_type = "mistral", SILU,
                           .n_kv_heads = 8, .max_positions = 131072,
                           .sliding_window = 4096, .rope_theta = 10000,
                           .read_layers = read_mistral_layers,
                           .write_layers = write_window},
    [SR1__ARCH_SMOLLM3] = {NAMED("SmolLM3"), .model_type = "smollm3", SILU, .tied = 1,
                           .n_kv_heads = 4, .max_positions = 32768, .rope_theta = 2e6,
                           .read_layers = read_smollm3_layers,
                           .write_layers = write_smollm3_layers},
    [SR1__ARCH_QWEN3_MOE] = {NAMED("Qwen3Moe"), .model_type = "qwen3_moe", SILU,
                             .qk_norm = 1, .experts = 1, .n_kv_heads = 4,
                             .max_positions = 32768, .sliding_window = 4096,
                             .rope_theta = 10000, .read_layers = read_expert_layers,
                             .write_layers = write_expert_layers},
    [SR1__ARCH_GEMMA3] = {NAMED("Gemma3"), .model_type = "gemma3_text",
                          .act_key = "hidden_activation", .act = "gelu_pytorch_tanh",
                          .qk_norm = 1, .gelu = 1, .norm_plus_one = 1, .post_norms = 1,
                          .embedding_scale = 1, .tied = 1, .head_dim = 256,
                          .n_kv_heads = 4, .max_positions = 131072,
                          .sliding_window = 4096, .rope_theta = 1e6,
                          .local_rope_theta = 10000, .read_layers = read_gemma_layers,
                          .write_layers = write_gemma_layers},
};
