/* tensor/encoder/encoder_load.c - the tensors of an encoder from a Hugging Face
 * folder: one table an architecture, of where a tensor goes, its shape, and its names in
 * the file. */
#include "tensor/encoder/encoder.h"

#include "base/mem.h"
#include "tensor/model/model_load.h"

#include <math.h>
#include <stdio.h>

#define NAME_MAX_BYTES 256

/* ---- tables ---- */

/* Sizes that shapes are made of. */
enum dim { NONE, E, A, F, V, P, T, R, B, H, ONE, DIMS };

/* Tensors of equal shape that lie in one, row after row; and what part of it is
 * multiplied by sqrt(head_dim). */
#define PARTS_MAX 3
struct tensor_part {
    size_t offset; /* in the struct that is filled */
    enum dim rows; /* of each */
    enum dim cols; /* NONE: a vector */
    int scaled;    /* the first of them, T5's queries */
    const char *names[PARTS_MAX];
};

#define OF_LAYER(member) offsetof(struct sr1__encoder_layer, member)
#define OF_MODEL(member) offsetof(struct sr1__encoder, member)
#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const struct tensor_part bert_model[] = {
    {OF_MODEL(words), V, E, 0, {"embeddings.word_embeddings.weight"}},
    {OF_MODEL(positions), P, E, 0, {"embeddings.position_embeddings.weight"}},
    {OF_MODEL(types), T, E, 0, {"embeddings.token_type_embeddings.weight"}},
    {OF_MODEL(norm), E, NONE, 0, {"embeddings.LayerNorm.weight"}},
    {OF_MODEL(norm_bias), E, NONE, 0, {"embeddings.LayerNorm.bias"}},
};

#define QKV(kind)                                                                        \
    {                                                                                    \
        "attention.self.query." kind, "attention.self.key." kind,                        \
            "attention.self.value." kind                                                 \
    }
static const struct tensor_part bert_layer[] = {
    {OF_LAYER(qkv), A, E, 0, QKV("weight")},
    {OF_LAYER(qkv_bias), A, NONE, 0, QKV("bias")},
    {OF_LAYER(o), E, A, 0, {"attention.output.dense.weight"}},
    {OF_LAYER(o_bias), E, NONE, 0, {"attention.output.dense.bias"}},
    {OF_LAYER(norm), E, NONE, 0, {"attention.output.LayerNorm.weight"}},
    {OF_LAYER(norm_bias), E, NONE, 0, {"attention.output.LayerNorm.bias"}},
    {OF_LAYER(up), F, E, 0, {"intermediate.dense.weight"}},
    {OF_LAYER(up_bias), F, NONE, 0, {"intermediate.dense.bias"}},
    {OF_LAYER(down), E, F, 0, {"output.dense.weight"}},
    {OF_LAYER(down_bias), E, NONE, 0, {"output.dense.bias"}},
    {OF_LAYER(ff_norm), E, NONE, 0, {"output.LayerNorm.weight"}},
    {OF_LAYER(ff_norm_bias), E, NONE, 0, {"output.LayerNorm.bias"}},
};
#undef QKV

static const struct tensor_part projection[] = {
    {OF_MODEL(project), R, E, 0, {"encode_proj.weight"}},
    {OF_MODEL(project_bias), R, NONE, 0, {"encode_proj.bias"}},
};

static const struct tensor_part pooler[] = {
    {OF_MODEL(pooler), E, E, 0, {"pooler.dense.weight"}},
    {OF_MODEL(pooler_bias), E, NONE, 0, {"pooler.dense.bias"}},
};
static const struct tensor_part classifier[] = {
    {OF_MODEL(classifier), ONE, E, 0, {"classifier.weight"}},
    {OF_MODEL(classifier_bias), ONE, NONE, 0, {"classifier.bias"}},
};

#define SELF "layer.0.SelfAttention."
#define CROSS "layer.1.EncDecAttention."
#define BIAS "encoder.block.0." SELF "relative_attention_bias.weight"
static const struct tensor_part t5_model[] = {
    {OF_MODEL(norm), E, NONE, 0, {"encoder.final_layer_norm.weight"}},
    {OF_MODEL(buckets), B, H, 0, {BIAS}},
};
static const struct tensor_part t5_decoder_model[] = {
    {OF_MODEL(decoder_norm), E, NONE, 0, {"decoder.final_layer_norm.weight"}},
};
static const struct tensor_part t5_attention[] = {
    {OF_LAYER(qkv), A, E, 1, {SELF "q.weight", SELF "k.weight", SELF "v.weight"}},
    {OF_LAYER(o), E, A, 0, {SELF "o.weight"}},
    {OF_LAYER(norm), E, NONE, 0, {"layer.0.layer_norm.weight"}},
};
static const struct tensor_part t5_cross[] = {
    {OF_LAYER(cross_q), A, E, 1, {CROSS "q.weight"}},
    {OF_LAYER(cross_kv), A, E, 0, {CROSS "k.weight", CROSS "v.weight"}},
    {OF_LAYER(cross_o), E, A, 0, {CROSS "o.weight"}},
    {OF_LAYER(cross_norm), E, NONE, 0, {"layer.1.layer_norm.weight"}},
};
#undef BIAS
#undef SELF
#undef CROSS

/* [in the decoder, after cross-attention][gated] */
#define FF(n, ...)                                                                       \
    {                                                                                    \
        {OF_LAYER(up), F, E, 0, {__VA_ARGS__}},                                          \
            {OF_LAYER(down), E, F, 0, {"layer." n ".DenseReluDense.wo.weight"}},         \
            {OF_LAYER(ff_norm), E, NONE, 0, {"layer." n ".layer_norm.weight"}},          \
    }
#define WI(n, w) "layer." n ".DenseReluDense." w ".weight"
static const struct tensor_part t5_ff[2][2][3] = {
    {FF("1", WI("1", "wi")), FF("1", WI("1", "wi_0"), WI("1", "wi_1"))},
    {FF("2", WI("2", "wi")), FF("2", WI("2", "wi_0"), WI("2", "wi_1"))},
};
#undef FF
#undef WI

/* ---- one tensor ---- */

struct loader {
    struct sr1__encoder *e;
    const struct sr1__weights *file;
    int64_t size[DIMS];
};

/* Copy w[0..n) under each other into a new tensor. */
static sr1_tensor *stack_weights(sr1_scope *s, const struct loader *l,
                                 const struct tensor_part *part,
                                 const struct sr1__weight *const *w, int64_t n)
{
    int64_t rows = l->size[part->rows];
    sr1_tensor *t = part->cols == NONE
                        ? t_empty(s, l->e->dtype, T_SHAPE(n * rows))
                        : t_empty(s, l->e->dtype, T_SHAPE(n * rows, l->size[part->cols]));

    for (int64_t i = 0; i < n && sr1__scope_status(s) == SR1_OK; i++)
        sr1__scope_check(
            s, sr1__weight_load(w[i], t_narrow(s, t, 0, i * rows, rows), l->e->device));
    if (part->scaled)
        t_mul_scalar_(s, t_narrow(s, t, 0, 0, rows), sqrt((double)l->e->config.head_dim));
    return t_hold(s, t);
}

/* Look the tensor up before allocating, so that a wrong shape in config.json cannot cause
 * an allocation. */
static sr1_status load_part(struct loader *l, void *to, const char *prefix,
                            const struct tensor_part *part)
{
    int64_t shape[2] = {l->size[part->rows], l->size[part->cols]};
    const struct sr1__weight *w[PARTS_MAX] = {NULL};
    char name[NAME_MAX_BYTES];
    sr1_tensor *t;
    sr1_status status;
    int64_t n = 0;
    sr1_scope *s;

    for (; n < PARTS_MAX && part->names[n]; n++) {
        snprintf(name, sizeof name, "%s%s", prefix, part->names[n]);
        SR1__TRY(
            sr1__weights_get(l->file, name, part->cols == NONE ? 1 : 2, shape, &w[n]));
    }
    s = sr1__scope_open(l->e->device, "weights");
    sr1__scope_no_grad(s);
    t = stack_weights(s, l, part, w, n);
    status = sr1__scope_close(s);
    if (status != SR1_OK) {
        sr1__tensor_free(t);
        return status;
    }
    l->e->owned[l->e->n_owned++] = t;
    *(sr1_tensor **)(void *)((char *)to + part->offset) = t;
    return SR1_OK;
}

static sr1_status load_parts(struct loader *l, void *to, const char *prefix,
                             const struct tensor_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(load_part(l, to, prefix, &parts[i]));
    return SR1_OK;
}

/* ---- BERT and DPR ---- */

/* The prefix under which the file has its words. */
static sr1_status find_prefix(const struct loader *l, const char *const *prefixes,
                              const char **out)
{
    char name[NAME_MAX_BYTES];

    for (size_t i = 0; prefixes[i]; i++) {
        snprintf(name, sizeof name, "%s%s", prefixes[i], bert_model[0].names[0]);
        if (sr1__weights_find(l->file, name)) {
            *out = prefixes[i];
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_NOT_FOUND, "no tensor '%s%s'; is this %s's folder?",
                     prefixes[0], bert_model[0].names[0],
                     sr1__encoder_arch_name(l->e->config.arch));
}

static sr1_status load_bert_body(struct loader *l, const char *prefix)
{
    char name[NAME_MAX_BYTES];

    SR1__TRY(load_parts(l, l->e, prefix, bert_model, COUNT(bert_model)));
    for (int64_t i = 0; i < l->e->config.n_layers; i++) {
        snprintf(name, sizeof name, "%sencoder.layer.%lld.", prefix, (long long)i);
        SR1__TRY(load_parts(l, &l->e->layers[i], name, bert_layer, COUNT(bert_layer)));
    }
    return SR1_OK;
}

static sr1_status load_bert_encoder(struct loader *l)
{
    static const char *const prefixes[] = {"", "bert.", NULL};
    const char *prefix = NULL;

    SR1__TRY(find_prefix(l, prefixes, &prefix));
    SR1__TRY(load_bert_body(l, prefix));
    if (l->e->output != SR1__OUTPUT_SCORE)
        return SR1_OK;
    SR1__TRY(load_parts(l, l->e, prefix, pooler, COUNT(pooler)));
    return load_parts(l, l->e, "", classifier, COUNT(classifier));
}

static sr1_status load_dpr(struct loader *l)
{
    static const char *const prefixes[] = {"question_encoder.bert_model.",
                                           "ctx_encoder.bert_model.", NULL};
    static const char *const heads[] = {"question_encoder.", "ctx_encoder."};
    const char *prefix = NULL;

    SR1__TRY(find_prefix(l, prefixes, &prefix));
    SR1__TRY(load_bert_body(l, prefix));
    if (l->e->config.projection_dim == 0)
        return SR1_OK;
    return load_parts(l, l->e, heads[prefix != prefixes[0]], projection,
                      COUNT(projection));
}

/* ---- T5 ---- */

static sr1_status load_t5_words(struct loader *l)
{
    static const char shared[] = "shared.weight";
    struct tensor_part words = {OF_MODEL(words), V, E, 0, {shared}};

    if (!sr1__weights_find(l->file, shared))
        words.names[0] = "encoder.embed_tokens.weight";
    return load_part(l, l->e, "", &words);
}

static sr1_status load_t5_decoder(struct loader *l)
{
    struct sr1__encoder *e = l->e;
    char name[NAME_MAX_BYTES];

    SR1__TRY(load_parts(l, e, "", t5_decoder_model, COUNT(t5_decoder_model)));
    for (int64_t i = 0; i < e->config.n_decoder_layers; i++) {
        snprintf(name, sizeof name, "decoder.block.%lld.", (long long)i);
        SR1__TRY(load_parts(l, &e->decoder[i], name, t5_attention, COUNT(t5_attention)));
        SR1__TRY(load_parts(l, &e->decoder[i], name, t5_cross, COUNT(t5_cross)));
        SR1__TRY(load_parts(l, &e->decoder[i], name, t5_ff[1][e->config.gated], 3));
    }
    return SR1_OK;
}

static sr1_status load_t5(struct loader *l)
{
    struct sr1__encoder *e = l->e;
    char name[NAME_MAX_BYTES];

    SR1__TRY(load_t5_words(l));
    SR1__TRY(load_parts(l, e, "", t5_model, COUNT(t5_model)));
    for (int64_t i = 0; i < e->config.n_layers; i++) {
        snprintf(name, sizeof name, "encoder.block.%lld.", (long long)i);
        SR1__TRY(load_parts(l, &e->layers[i], name, t5_attention, COUNT(t5_attention)));
        SR1__TRY(load_parts(l, &e->layers[i], name, t5_ff[0][e->config.gated], 3));
    }
    return e->decoder ? load_t5_decoder(l) : SR1_OK;
}

/* ---- the whole ---- */

static sr1_status (*const loaders[SR1__ENCODER_ARCHS])(struct loader *l) = {
    [SR1__ENCODER_BERT] = load_bert_encoder,
    [SR1__ENCODER_DPR] = load_dpr,
    [SR1__ENCODER_T5] = load_t5,
};

/* Does this architecture have what the output needs? */
static sr1_status check_output(const struct sr1__encoder_files *f, int32_t output)
{
    const struct sr1__encoder_config *c = &f->config;

    if (output == SR1__POOL_DECODER && !sr1__encoder_files_have_decoder(f))
        return sr1__fail(SR1_E_INVALID, "pooling 'decoder' needs a t5 with the weights "
                                        "of its decoder");
    if (output != SR1__OUTPUT_SCORE)
        return SR1_OK;
    if (!c->classifies)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "config.json: 'architectures': a reranker has to be a "
                         "BertForSequenceClassification");
    if (c->n_labels != 1)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "config.json: 'num_labels' is %lld; a reranker has one label",
                         (long long)c->n_labels);
    return SR1_OK;
}

static void set_sizes(struct loader *l)
{
    const struct sr1__encoder_config *c = &l->e->config;

    l->size[E] = c->hidden_size;
    l->size[A] = c->n_heads * c->head_dim;
    l->size[F] = c->intermediate_size;
    l->size[V] = c->vocab_size;
    l->size[P] = c->max_positions;
    l->size[T] = c->n_types;
    l->size[R] = c->projection_dim;
    l->size[B] = c->n_buckets;
    l->size[H] = c->n_heads;
    l->size[ONE] = 1;
}

static sr1_status load_encoder_tensors(struct sr1__encoder *e,
                                       const struct sr1__encoder_files *f)
{
    const struct sr1__encoder_config *c = &e->config;
    size_t per_layer = COUNT(bert_layer) > COUNT(t5_attention) + COUNT(t5_cross) + 3
                           ? COUNT(bert_layer)
                           : COUNT(t5_attention) + COUNT(t5_cross) + 3;
    size_t n = (size_t)(c->n_layers + c->n_decoder_layers) * per_layer;
    struct loader l = {.e = e, .file = f->weights};

    e->layers = sr1__calloc((size_t)c->n_layers, sizeof *e->layers);
    e->owned = sr1__calloc(n + 16, sizeof(sr1_tensor *));
    if (e->output == SR1__POOL_DECODER)
        e->decoder = sr1__calloc((size_t)c->n_decoder_layers, sizeof *e->decoder);
    if (!e->layers || !e->owned || (e->output == SR1__POOL_DECODER && !e->decoder))
        return sr1__fail_nomem("encoder");
    set_sizes(&l);
    return loaders[c->arch](&l);
}

sr1_status sr1__encoder_load(struct sr1__encoder **out,
                             const struct sr1__encoder_files *f, int32_t output,
                             int32_t dtype, sr1__device device)
{
    struct sr1__encoder *e;

    SR1__TRY(check_output(f, output));
    SR1__CALLOC(e, 1, "encoder");
    e->config = f->config;
    e->output = output;
    e->dtype = dtype;
    e->device = device;
    e->pad = device != SR1__CPU;
    SR1__RETURN_NEW(out, e, load_encoder_tensors(e, f), sr1__encoder_free);
}

void sr1__encoder_free(struct sr1__encoder *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_owned; i++)
        sr1__tensor_free(e->owned[i]);
    sr1__free(e->owned);
    sr1__free(e->layers);
    sr1__free(e->decoder);
    sr1__free(e);
}

sr1_status sr1__encoder_files_open(struct sr1__encoder_files *out, const char *folder)
{
    struct sr1__encoder_files f = {0};

    SR1__TRY(sr1__encoder_config_load(&f.config, folder));
    SR1__TRY(sr1__weights_open(&f.weights, folder));
    *out = f;
    return SR1_OK;
}

void sr1__encoder_files_close(struct sr1__encoder_files *f)
{
    sr1__weights_close(f->weights);
    f->weights = NULL;
}

int sr1__encoder_files_have_decoder(const struct sr1__encoder_files *f)
{
    return f->config.arch == SR1__ENCODER_T5 &&
           sr1__weights_find(f->weights, t5_decoder_model[0].names[0]) != NULL;
}
