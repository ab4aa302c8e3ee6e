/* tensor/weights/encoder_config.c - reading and checking config.json of text encoders.
 * Defaults of absent keys are those of transformers' BertConfig, DPRConfig and T5Config.
 */
#include "tensor/weights/encoder_config.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensor/weights/hf_keys.h"

#include <inttypes.h>
#include <string.h>

#define REMEDY "use a plain BERT, DPR or T5 encoder"

#define SIZE(key, member, def, min, max)                                                 \
    {                                                                                    \
        key, offsetof(struct sr1__encoder_config, member), def, min, max                 \
    }
#define VOCAB_MAX (1 << 22)
#define HIDDEN_MAX 65536
#define LAYERS_MAX 1024
#define HEADS_MAX 1024
#define FF_MAX (1 << 20)
#define POSITIONS_MAX (1 << 20)
/* T5 knows no last position: its bias [H, T, T] bounds it. */
#define T5_POSITIONS 2048

static const struct sr1__hf_size bert_sizes[] = {
    SIZE("vocab_size", vocab_size, 30522, 1, VOCAB_MAX),
    SIZE("hidden_size", hidden_size, 768, 1, HIDDEN_MAX),
    SIZE("num_hidden_layers", n_layers, 12, 1, LAYERS_MAX),
    SIZE("num_attention_heads", n_heads, 12, 1, HEADS_MAX),
    SIZE("intermediate_size", intermediate_size, 3072, 1, FF_MAX),
    SIZE("max_position_embeddings", max_positions, 512, 1, POSITIONS_MAX),
    SIZE("type_vocab_size", n_types, 2, 1, 1024),
    SIZE("projection_dim", projection_dim, 0, 0, HIDDEN_MAX),
};

static const struct sr1__hf_size t5_sizes[] = {
    SIZE("vocab_size", vocab_size, 32128, 1, VOCAB_MAX),
    SIZE("d_model", hidden_size, 512, 1, HIDDEN_MAX),
    SIZE("num_layers", n_layers, 6, 1, LAYERS_MAX),
    SIZE("num_decoder_layers", n_decoder_layers, -1, 1, LAYERS_MAX), /* as many */
    SIZE("num_heads", n_heads, 8, 1, HEADS_MAX),
    SIZE("d_kv", head_dim, 64, 1, 1024),
    SIZE("d_ff", intermediate_size, 2048, 1, FF_MAX),
    SIZE("relative_attention_num_buckets", n_buckets, 32, 4, 4096),
    SIZE("relative_attention_max_distance", max_distance, 128, 2, POSITIONS_MAX),
    SIZE("decoder_start_token_id", decoder_start, 0, 0, VOCAB_MAX - 1),
};
#undef SIZE

static sr1_status read_bert(const json_t *root, const char *name,
                            struct sr1__encoder_config *c);
static sr1_status read_t5(const json_t *root, const char *name,
                          struct sr1__encoder_config *c);

/* Rows in the order of enum sr1__encoder_arch. */
static const struct arch_row {
    const char *model_type;
    const char *eps_key;
    double eps;
    const struct sr1__hf_size *sizes;
    size_t n_sizes;
    sr1_status (*read)(const json_t *root, const char *name,
                       struct sr1__encoder_config *c);
} archs[SR1__ENCODER_ARCHS] = {
    {"bert", "layer_norm_eps", 1e-12, bert_sizes, sizeof bert_sizes / sizeof *bert_sizes,
     read_bert},
    {"dpr", "layer_norm_eps", 1e-12, bert_sizes, sizeof bert_sizes / sizeof *bert_sizes,
     read_bert},
    {"t5", "layer_norm_epsilon", 1e-6, t5_sizes, sizeof t5_sizes / sizeof *t5_sizes,
     read_t5},
};

static const struct act_row {
    const char *name;
    int32_t act;
} acts[] = {
    {"gelu", SR1__ACT_GELU},          {"gelu_python", SR1__ACT_GELU},
    {"gelu_new", SR1__ACT_GELU_TANH}, {"gelu_pytorch_tanh", SR1__ACT_GELU_TANH},
    {"relu", SR1__ACT_RELU},          {"silu", SR1__ACT_SILU},
    {"swish", SR1__ACT_SILU},
};

static const struct sr1__hf_refused refused[] = {
    {"is_decoder", "a decoder"},
    {"add_cross_attention", "cross-attention"},
    {"pruned_heads", "leaving out heads"},
    {"embedding_size", "an embedding narrower than the layers"},
    {"quantization_config", "quantised weights"},
};

const char *sr1__encoder_arch_name(int32_t arch)
{
    return archs[arch].model_type;
}

static sr1_status read_act(const char *text, const char *key, const char *name,
                           int32_t *out)
{
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strcmp(text, acts[i].name) == 0) {
            *out = acts[i].act;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: '%s': activation %.60s is not supported; gelu, gelu_new, relu "
                     "and silu are",
                     name, key, text);
}

/* ---- BERT and DPR ---- */

/* num_labels, or what id2label counts, or 2. */
static sr1_status read_labels(const json_t *root, const char *name, int64_t *out)
{
    const json_t *number = sr1__json_given(root, "num_labels");
    const json_t *labels = sr1__json_given(root, "id2label");

    if (number && !json_is_integer(number))
        return sr1__fail(SR1_E_PARSE, "%s: 'num_labels' is not an integer", name);
    if (labels && !json_is_object(labels))
        return sr1__fail(SR1_E_PARSE, "%s: 'id2label' is not an object", name);
    *out = number   ? json_integer_value(number)
           : labels ? (int64_t)json_object_size(labels)
                    : 2;
    return SR1_OK;
}

static sr1_status read_bert(const json_t *root, const char *name,
                            struct sr1__encoder_config *c)
{
    const json_t *list = sr1__json_given(root, "architectures");
    const char *architecture = json_string_value(json_array_get(list, 0));
    const char *positions = "absolute";
    const char *act = "gelu";

    SR1__TRY(sr1__hf_text(root, "position_embedding_type", name, &positions));
    if (strcmp(positions, "absolute") != 0)
        return sr1__hf_refuse(name, "position_embedding_type",
                              "anything but absolute positions", REMEDY);
    SR1__TRY(sr1__hf_text(root, "hidden_act", name, &act));
    SR1__TRY(read_act(act, "hidden_act", name, &c->act));
    c->classifies =
        architecture && strcmp(architecture, "BertForSequenceClassification") == 0;
    if (c->arch != SR1__ENCODER_DPR)
        c->projection_dim = 0;
    c->head_dim = c->n_heads > 0 ? c->hidden_size / c->n_heads : 0;
    if (c->head_dim * c->n_heads != c->hidden_size)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'num_attention_heads' %" PRId64
                         " does not divide 'hidden_size' %" PRId64,
                         name, c->n_heads, c->hidden_size);
    return read_labels(root, name, &c->n_labels);
}

/* ---- T5 ---- */

static sr1_status read_t5(const json_t *root, const char *name,
                          struct sr1__encoder_config *c)
{
    static const char gated[] = "gated-";
    const char *act = "relu";

    SR1__TRY(sr1__hf_text(root, "feed_forward_proj", name, &act));
    c->gated = strncmp(act, gated, strlen(gated)) == 0;
    /* the one combination whose name does not say what it is */
    if (strcmp(act, "gated-gelu") == 0)
        act = "gelu_new";
    else if (c->gated)
        act += strlen(gated);
    if (c->n_decoder_layers == -1)
        c->n_decoder_layers = c->n_layers;
    c->max_positions = T5_POSITIONS;
    return read_act(act, "feed_forward_proj", name, &c->act);
}

/* Half the buckets are for one direction, half of those for exact distances. */
static sr1_status check_t5(const struct sr1__encoder_config *c, const char *name)
{
    if (c->max_distance <= c->n_buckets / 4)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'relative_attention_max_distance' %" PRId64
                         " is too small for %" PRId64 " buckets",
                         name, c->max_distance, c->n_buckets);
    if (c->decoder_start >= c->vocab_size)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'decoder_start_token_id' %" PRId64
                         " is not below vocab_size %" PRId64,
                         name, c->decoder_start, c->vocab_size);
    return SR1_OK;
}

/* ---- the whole ---- */

static sr1_status find_arch(const json_t *root, const char *name, int32_t *out)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));

    if (!type)
        return sr1__fail(SR1_E_PARSE, "%s: 'model_type' is missing or not a text", name);
    for (int32_t i = 0; i < SR1__ENCODER_ARCHS; i++) {
        if (strcmp(type, archs[i].model_type) == 0) {
            *out = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: model_type %.100s is not supported as an encoder; bert, dpr "
                     "and t5 are",
                     name, type);
}

static sr1_status read_encoder_config(const json_t *root, const char *name,
                                      struct sr1__encoder_config *c)
{
    const struct arch_row *arch;

    if (!json_is_object(root))
        return sr1__fail(SR1_E_PARSE, "%s: not a JSON object", name);
    SR1__TRY(find_arch(root, name, &c->arch));
    arch = &archs[c->arch];
    SR1__TRY(sr1__hf_refuse_all(root, refused, sizeof refused / sizeof *refused, REMEDY,
                                name));
    SR1__TRY(sr1__hf_sizes_read(root, arch->sizes, arch->n_sizes, name, c));
    c->eps = arch->eps;
    SR1__TRY(sr1__hf_real(root, arch->eps_key, name, &c->eps));
    SR1__TRY(arch->read(root, name, c));
    SR1__TRY(sr1__hf_real_check(c->eps, 0.1, arch->eps_key, name));
    SR1__TRY(sr1__hf_sizes_check(c, arch->sizes, arch->n_sizes, name));
    return c->arch == SR1__ENCODER_T5 ? check_t5(c, name) : SR1_OK;
}

sr1_status sr1__encoder_config_parse(struct sr1__encoder_config *out, const char *text,
                                     size_t n, const char *name)
{
    struct sr1__encoder_config c;
    json_t *root = NULL;
    sr1_status status;

    memset(&c, 0, sizeof c);
    SR1__TRY(sr1__json_parse(&root, text, n, name));
    status = read_encoder_config(root, name, &c);
    json_decref(root);
    SR1__TRY(status);
    *out = c;
    return SR1_OK;
}

sr1_status sr1__encoder_config_load(struct sr1__encoder_config *out, const char *folder)
{
    char *path = sr1__path_join(folder, "config.json");
    struct sr1__buf b;
    sr1_status status;

    SR1__CHECK_ALLOC(path, "file name");
    status = sr1__file_read(path, SR1__HF_FILE_MAX, &b);
    if (status == SR1_OK) {
        status = sr1__encoder_config_parse(out, sr1__buf_cstr(&b), b.len, path);
        sr1__buf_free(&b);
    }
    sr1__free(path);
    return status;
}
