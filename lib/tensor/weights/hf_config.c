/* tensor/weights/hf_config.c - reading and checking config.json of decoders. Defaults of
 * absent keys, but of token ids, are those of the architecture's configuration in
 * transformers (decoder_archs.c). */
#include "tensor/weights/decoder_archs.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/weights/other_forms.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BY_ARCH (INT64_MIN + 1) /* a column of sr1__archs */

const struct sr1__hf_size sr1__sizes[SR1__N_SIZES] = {
#define SIZE(key, member, def, max)                                                      \
    {                                                                                    \
        key, offsetof(struct sr1__hf_config, member), def, 1, max                        \
    }
    SIZE("vocab_size", vocab_size, SR1__HF_NEEDED, 1 << 22),
    SIZE("hidden_size", hidden_size, SR1__HF_NEEDED, 1 << 16),
    SIZE("num_hidden_layers", n_layers, SR1__HF_NEEDED, SR1__MAX_LAYERS),
    SIZE("num_attention_heads", n_heads, SR1__HF_NEEDED, 1024),
    SIZE("num_key_value_heads", n_kv_heads, BY_ARCH, 1024), /* null: as many as heads */
    SIZE("head_dim", head_dim, BY_ARCH, 1024),
    SIZE("intermediate_size", intermediate_size, SR1__HF_NEEDED, 1 << 20),
    SIZE("max_position_embeddings", max_positions, BY_ARCH, 1 << 30),
#undef SIZE
};

const struct sr1__hf_size sr1__expert_sizes[SR1__N_EXPERT_SIZES] = {
#define SIZE(key, member, def, max)                                                      \
    {                                                                                    \
        key, offsetof(struct sr1__hf_config, member), def, 1, max                        \
    }
    SIZE("num_experts", n_experts, 128, 1024),
    SIZE("num_experts_per_tok", experts_per_token, 8, 1024),
    SIZE("moe_intermediate_size", expert_size, 768, 1 << 20),
#undef SIZE
};

/* Keys of dense architectures and of all others; refused unless the value means off
 * (null, false, 0, empty). */
static const struct sr1__hf_refused refused_experts[] = {
    {"num_experts", "mixture of experts"},
    {"num_local_experts", "mixture of experts"},
    {"moe_intermediate_size", "mixture of experts"},
};
static const struct sr1__hf_refused refused[] = {
    {"n_routed_experts", "DeepSeek's form of experts"},
    {"shared_expert_intermediate_size", "an expert for all tokens"},
    {"attention_dropout", "dropout"},
    {"mlp_bias", "biases in the MLP"},
    {"is_encoder_decoder", "an encoder-decoder"},
    {"attn_logit_softcapping", "a soft cap of scores"},
    {"final_logit_softcapping", "a soft cap of logits"},
    {"use_bidirectional_attention", "attention to tokens that follow"},
};

#define REMEDY "use a model of an architecture that docs/formats.md lists"

static const struct sr1__hf_refused quantised = {"quantization_config",
                                                 "quantised weights"};
#define QUANTISED_REMEDY                                                                 \
    "use the model's float32, bfloat16 or float16 weights, which it was quantised from"

/* ---- refusals ---- */

static sr1_status check_features(const json_t *root, int32_t arch, const char *name)
{
    const char *key = sr1__archs[arch].act_key, *name_of_act = sr1__archs[arch].act;
    const json_t *act = sr1__json_given(root, key);

    SR1__TRY(sr1__hf_refuse_all(root, refused, sizeof refused / sizeof *refused, REMEDY,
                                name));
    if (!sr1__archs[arch].experts)
        SR1__TRY(sr1__hf_refuse_all(root, refused_experts,
                                    sizeof refused_experts / sizeof *refused_experts,
                                    REMEDY, name));
    SR1__TRY(sr1__hf_refuse_all(root, &quantised, 1, QUANTISED_REMEDY, name));
    if (!act || (json_is_string(act) && strcmp(json_string_value(act), name_of_act) == 0))
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: '%s': an activation other than %s is not supported; " REMEDY,
                     name, key, name_of_act);
}

static sr1_status refuse_arch(const char *text, const char *name)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    for (int32_t i = 0; i < SR1__ARCHS; i++)
        sr1__buf_fmt(&b, "%s%s",
                     i == 0               ? ""
                     : i + 1 < SR1__ARCHS ? ", "
                                          : " and ",
                     sr1__archs[i].architectures[0]);
    status =
        sr1__fail(SR1_E_UNSUPPORTED, "%s: architecture %.100s is not supported; %s are",
                  name, text, sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return status;
}

static sr1_status read_arch(const json_t *root, const char *name,
                            struct sr1__hf_config *c)
{
    const json_t *list = json_object_get(root, "architectures");
    const char *text = json_string_value(json_array_get(list, 0));

    if (!text || json_array_size(list) != 1)
        return sr1__fail(SR1_E_PARSE,
                         "%s: 'architectures' does not name one architecture; it must be "
                         "a list of one, such as [\"Qwen3ForCausalLM\"]",
                         name);
    for (int32_t i = 0; i < 2 * SR1__ARCHS; i++) {
        if (strcmp(text, sr1__archs[i / 2].architectures[i % 2]) == 0) {
            c->arch = i / 2;
            c->value_head = i % 2;
            return SR1_OK;
        }
    }
    return refuse_arch(text, name);
}

/* ---- numbers ---- */

static int64_t by_arch(int64_t value, int64_t otherwise)
{
    return value == BY_ARCH ? otherwise : value;
}

static sr1_status read_sizes(const json_t *root, const char *name,
                             struct sr1__hf_config *c)
{
    const struct sr1__arch_row *arch = &sr1__archs[c->arch];
    int64_t heads;

    SR1__TRY(sr1__hf_sizes_read(root, sr1__sizes, SR1__N_SIZES, name, c));
    heads = c->n_heads > 0 ? c->n_heads : 1;
    if (json_is_null(json_object_get(root, "num_key_value_heads")))
        c->n_kv_heads = c->n_heads;
    c->n_kv_heads =
        by_arch(c->n_kv_heads, arch->n_kv_heads ? arch->n_kv_heads : c->n_heads);
    c->head_dim =
        by_arch(c->head_dim, arch->head_dim ? arch->head_dim : c->hidden_size / heads);
    c->max_positions = by_arch(c->max_positions, arch->max_positions);
    return SR1_OK;
}

/* transformers 5 writes num_local_experts. */
static sr1_status read_expert_sizes(const json_t *root, const char *name,
                                    struct sr1__hf_config *c)
{
    const json_t *n = sr1__json_given(root, "num_local_experts");

    if (!sr1__archs[c->arch].experts)
        return SR1_OK;
    SR1__TRY(sr1__hf_sizes_read(root, sr1__expert_sizes, SR1__N_EXPERT_SIZES, name, c));
    if (n && !json_is_integer(n))
        return sr1__fail(SR1_E_PARSE, "%s: 'num_local_experts' is not an integer", name);
    if (n)
        c->n_experts = json_integer_value(n);
    return sr1__hf_flag(root, "norm_topk_prob", name, &c->norm_expert_probs);
}

static sr1_status check_expert_sizes(const struct sr1__hf_config *c, const char *name)
{
    if (!sr1__archs[c->arch].experts)
        return SR1_OK;
    SR1__TRY(sr1__hf_sizes_check(c, sr1__expert_sizes, SR1__N_EXPERT_SIZES, name));
    if (c->experts_per_token > c->n_experts)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'num_experts_per_tok' %" PRId64
                         " is above 'num_experts' %" PRId64,
                         name, c->experts_per_token, c->n_experts);
    return SR1_OK;
}

/* Not beyond the layers that there can be; sr1__hf_config_check says so. */
static sr1_status read_layers(const json_t *root, const char *name,
                              struct sr1__hf_config *c)
{
    if (c->n_layers < 1 || c->n_layers > SR1__MAX_LAYERS)
        return SR1_OK;
    return sr1__archs[c->arch].read_layers(root, name, c);
}

/* One rope, or one by the kind of layer: transformers 5 has those in rope_parameters, 4
 * that of layers with a window in rope_local_base_freq. */
static sr1_status read_ropes(const json_t *root, const char *name,
                             struct sr1__hf_config *c)
{
    const struct sr1__arch_row *arch = &sr1__archs[c->arch];
    const json_t *by_layer = sr1__json_given(root, "rope_parameters");
    double most = (double)c->max_positions;

    c->rope.theta = arch->rope_theta;
    c->local_rope.theta = arch->local_rope_theta;
    if (arch->local_rope_theta > 0 && sr1__json_given(by_layer, "full_attention")) {
        SR1__TRY(sr1__rope_config_read_object(&c->rope, by_layer, most, "full_attention",
                                              REMEDY, name));
        return sr1__rope_config_read_object(&c->local_rope, by_layer, most,
                                            "sliding_attention", REMEDY, name);
    }
    SR1__TRY(sr1__rope_config_read(&c->rope, root, most, REMEDY, name));
    return arch->local_rope_theta > 0
               ? sr1__hf_real(root, "rope_local_base_freq", name, &c->local_rope.theta)
               : SR1_OK;
}

static sr1_status read_config_dtype(const json_t *root, const char *name,
                                    struct sr1__hf_config *c)
{
    const char *key = sr1__json_given(root, "dtype") ? "dtype" : "torch_dtype";
    const json_t *v = sr1__json_given(root, key);

    c->dtype = SR1__WEIGHT_F32;
    if (!v)
        return SR1_OK;
    for (int32_t i = 0; json_is_string(v) && i < SR1__WEIGHT_DTYPES; i++) {
        if (strcmp(json_string_value(v), sr1__weight_dtype_name(i)) == 0) {
            c->dtype = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: '%s' is not float32, bfloat16 or float16",
                     name, key);
}

/* ---- token ids ---- */

static sr1_status read_token_id(const json_t *v, const char *key, const char *name,
                                int32_t *out)
{
    json_int_t id = json_integer_value(v);

    if (!json_is_integer(v) || id < 0 || id > INT32_MAX)
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not a token id", name, key);
    *out = (int32_t)id;
    return SR1_OK;
}

static sr1_status read_optional_id(const json_t *root, const char *key, const char *name,
                                   int32_t *out)
{
    const json_t *v = sr1__json_given(root, key);

    *out = -1;
    return v ? read_token_id(v, key, name, out) : SR1_OK;
}

static sr1_status add_eos(struct sr1__hf_config *c, const json_t *v, const char *name)
{
    int32_t id = 0;

    SR1__TRY(read_token_id(v, "eos_token_id", name, &id));
    for (int32_t i = 0; i < c->n_eos; i++)
        if (c->eos_ids[i] == id)
            return SR1_OK;
    if (c->n_eos == SR1__MAX_EOS)
        return sr1__fail(SR1_E_LIMIT, "%s: 'eos_token_id' has more than %d ids", name,
                         SR1__MAX_EOS);
    c->eos_ids[c->n_eos++] = id;
    return SR1_OK;
}

/* One id or a list of them. */
static sr1_status read_eos(const json_t *root, const char *name, struct sr1__hf_config *c)
{
    const json_t *v = sr1__json_given(root, "eos_token_id");

    if (v && !json_is_array(v))
        return add_eos(c, v, name);
    for (size_t i = 0; i < json_array_size(v); i++)
        SR1__TRY(add_eos(c, json_array_get(v, i), name));
    return SR1_OK;
}

/* ---- the whole ---- */

static sr1_status read_hf_config(const json_t *root, const char *name,
                                 struct sr1__hf_config *c)
{
    int32_t attention_bias = 0;

    if (!json_is_object(root))
        return sr1__fail(SR1_E_PARSE, "%s: not a JSON object", name);
    SR1__TRY(read_arch(root, name, c));
    SR1__TRY(check_features(root, c->arch, name));
    SR1__TRY(read_sizes(root, name, c));
    SR1__TRY(read_expert_sizes(root, name, c));
    SR1__TRY(read_layers(root, name, c));
    SR1__TRY(read_ropes(root, name, c));
    SR1__TRY(read_config_dtype(root, name, c));
    c->tie_word_embeddings = sr1__archs[c->arch].tied;
    SR1__TRY(sr1__hf_flag(root, "tie_word_embeddings", name, &c->tie_word_embeddings));
    SR1__TRY(sr1__hf_flag(root, "attention_bias", name, &attention_bias));
    c->qk_norm = sr1__archs[c->arch].qk_norm;
    c->qkv_bias = sr1__archs[c->arch].qkv_bias || attention_bias;
    c->o_bias = !sr1__archs[c->arch].qkv_bias && attention_bias;
    c->rms_norm_eps = 1e-6;
    c->initializer_range = 0.02;
    SR1__TRY(sr1__hf_real(root, "rms_norm_eps", name, &c->rms_norm_eps));
    SR1__TRY(sr1__hf_real(root, "initializer_range", name, &c->initializer_range));
    SR1__TRY(read_optional_id(root, "bos_token_id", name, &c->bos_id));
    SR1__TRY(read_optional_id(root, "pad_token_id", name, &c->pad_id));
    return read_eos(root, name, c);
}

static sr1_status check_id(const struct sr1__hf_config *c, int32_t id, const char *key,
                           const char *name)
{
    if (id >= c->vocab_size)
        return sr1__fail(SR1_E_INVALID,
                         "%s: '%s' %" PRId32 " is not below vocab_size %" PRId64, name,
                         key, id, c->vocab_size);
    return SR1_OK;
}

sr1_status sr1__hf_config_check(const struct sr1__hf_config *c, const char *name)
{
    SR1__TRY(sr1__hf_sizes_check(c, sr1__sizes, SR1__N_SIZES, name));
    if (c->arch < 0 || c->arch >= SR1__ARCHS || c->dtype < 0 ||
        c->dtype >= SR1__WEIGHT_DTYPES || c->n_eos < 0 || c->n_eos > SR1__MAX_EOS)
        return sr1__fail(SR1_E_INVALID, "%s: not a model configuration", name);
    SR1__TRY(check_expert_sizes(c, name));
    if (c->sliding_window < 0 || c->sliding_window > 1 << 30)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'sliding_window' must be from 0 to %d, not %" PRId64, name,
                         1 << 30, c->sliding_window);
    if (c->n_heads % c->n_kv_heads != 0)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'num_key_value_heads' %" PRId64 " does not divide "
                         "'num_attention_heads' %" PRId64,
                         name, c->n_kv_heads, c->n_heads);
    if (c->head_dim % 2 != 0)
        return sr1__fail(SR1_E_INVALID, "%s: 'head_dim' %" PRId64 " is odd", name,
                         c->head_dim);
    SR1__TRY(sr1__hf_real_check(c->rms_norm_eps, 0.1, "rms_norm_eps", name));
    SR1__TRY(sr1__rope_config_check(&c->rope, name));
    if (sr1__archs[c->arch].local_rope_theta > 0)
        SR1__TRY(sr1__rope_config_check(&c->local_rope, name));
    if (c->query_scalar < 0 || c->query_scalar > 1 << 20)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'query_pre_attn_scalar' must be from 1 to %d, not %" PRId64,
                         name, 1 << 20, c->query_scalar);
    SR1__TRY(sr1__hf_real_check(c->initializer_range, 10.0, "initializer_range", name));
    SR1__TRY(check_id(c, c->bos_id, "bos_token_id", name));
    SR1__TRY(check_id(c, c->pad_id, "pad_token_id", name));
    for (int32_t i = 0; i < c->n_eos; i++)
        SR1__TRY(check_id(c, c->eos_ids[i], "eos_token_id", name));
    return SR1_OK;
}

sr1_status sr1__hf_config_parse(struct sr1__hf_config *out, const char *text, size_t n,
                                const char *name)
{
    struct sr1__hf_config c;
    json_t *root = NULL;
    sr1_status status;

    memset(&c, 0, sizeof c);
    SR1__TRY(sr1__json_parse(&root, text, n, name));
    status = read_hf_config(root, name, &c);
    json_decref(root);
    SR1__TRY(status);
    SR1__TRY(sr1__hf_config_check(&c, name));
    *out = c;
    return SR1_OK;
}

int64_t sr1__hf_config_count(const struct sr1__hf_config *c, uint8_t what)
{
    int64_t n = 0;

    for (int64_t i = 0; i < c->n_layers; i++)
        n += (c->layers[i] & what) != 0;
    return n;
}

int sr1__hf_config_has(const struct sr1__hf_config *c, uint8_t what)
{
    return sr1__hf_config_count(c, what) > 0;
}

int32_t sr1__hf_config_turn(const struct sr1__hf_config *c, int64_t layer)
{
    if (c->layers[layer] & SR1__LAYER_NO_ROPE)
        return SR1__TURN_NONE;
    return c->layers[layer] & SR1__LAYER_LOCAL ? SR1__TURN_LOCAL : SR1__TURN_ROPE;
}

double sr1__hf_config_query_scale(const struct sr1__hf_config *c)
{
    return c->query_scalar ? sqrt((double)c->head_dim / (double)c->query_scalar) : 1.0;
}

int64_t sr1__hf_config_window(const struct sr1__hf_config *c, int64_t layer)
{
    return c->layers[layer] & SR1__LAYER_WINDOW ? c->sliding_window : 0;
}

static sr1_status parse_file(struct sr1__hf_config *out, const char *path)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, SR1__HF_FILE_MAX, &b));
    status = sr1__hf_config_parse(out, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    return status;
}

/* generation_config.json of chat models names more end tokens. */
static sr1_status add_generation_eos(struct sr1__hf_config *c, const char *path)
{
    json_t *root = NULL;
    sr1_status status;

    if (!sr1__path_exists(path))
        return SR1_OK;
    SR1__TRY(sr1__json_load(&root, path, SR1__HF_FILE_MAX));
    status = read_eos(root, path, c);
    json_decref(root);
    SR1__TRY(status);
    return sr1__hf_config_check(c, path);
}

sr1_status sr1__hf_config_load(struct sr1__hf_config *out, const char *folder)
{
    char *config = sr1__path_join(folder, "config.json");
    char *generation = sr1__path_join(folder, "generation_config.json");
    struct sr1__hf_config c;
    sr1_status status;

    if (!config || !generation)
        status = sr1__fail_nomem("file name");
    else
        status = sr1__path_exists(config) ? SR1_OK : sr1__model_form_check(folder);
    if (status == SR1_OK)
        status = parse_file(&c, config);
    if (status == SR1_OK)
        status = add_generation_eos(&c, generation);
    if (status == SR1_OK)
        *out = c;
    sr1__free(config);
    sr1__free(generation);
    return status;
}
