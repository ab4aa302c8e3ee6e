/* tensor/model/model.c - the tensors of a model: leaves, their Hugging Face views,
 * random weights, copies. */
#include "tensor/model/adapter.h"
#include "tensor/model/decode_tables.h"
#include "tensor/model/host_weights.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/pool.h"
#include "base/rng.h"
#include "tensor/ops/int8_linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAVES_PER_LAYER 18
#define VIEWS_PER_LAYER 20
#define VIEWS_PER_EXPERT 3
#define BLOCK 65536 /* random numbers of one stream */

/* ---- building ---- */

char *sr1__tensor_name(const char *before, int64_t layer, const char *name,
                       const char *behind)
{
    struct sr1__buf b;
    char *made = NULL;

    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, before);
    if (layer >= 0)
        sr1__buf_fmt(&b, "model.layers.%lld.", (long long)layer);
    sr1__buf_str(&b, name);
    sr1__buf_str(&b, behind);
    (void)sr1__buf_finish(&b, "tensor name", &made);
    return made;
}

static void append_named_tensor(sr1_scope *s, struct sr1__named *list, size_t *n,
                                int64_t layer, const char *name, sr1_tensor *t)
{
    char *copy = sr1__tensor_name("", layer, name, "");

    if (!copy)
        sr1__scope_check(s, sr1__fail_nomem("tensor name"));
    list[(*n)++] = (struct sr1__named){copy, t_hold(s, t)};
}

/* A new leaf [rows, cols], or [rows] when cols is 0; owned by the model's list. */
static sr1_tensor *make_typed_leaf(sr1_scope *s, sr1_model *m, int64_t layer,
                                   const char *name, int32_t dtype, int64_t rows,
                                   int64_t cols)
{
    sr1_tensor *t;

    if (m->shares && m->n_leaves < m->n_shared)
        t = t_detach(s, m->shares->leaves[m->n_leaves].tensor);
    else
        t = cols ? t_empty(s, dtype, T_SHAPE(rows, cols))
                 : t_empty(s, dtype, T_SHAPE(rows));
    append_named_tensor(s, m->leaves, &m->n_leaves, layer, name, t);
    return t;
}

static sr1_tensor *make_param_leaf(sr1_scope *s, sr1_model *m, int64_t layer,
                                   const char *name, int64_t rows, int64_t cols)
{
    return make_typed_leaf(s, m, layer, name, m->dtype, rows, cols);
}

/* A matrix of a layer; *scale follows it in the list where it is int8, else NULL. */
static sr1_tensor *make_matrix_leaf(sr1_scope *s, sr1_model *m, int64_t layer,
                                    const char *name, int64_t rows, int64_t cols,
                                    sr1_tensor **scale)
{
    sr1_tensor *t;

    *scale = NULL;
    if (!m->quantized)
        return make_param_leaf(s, m, layer, name, rows, cols);
    t = make_typed_leaf(s, m, layer, name, SR1__I8, rows, cols);
    *scale = make_typed_leaf(s, m, layer, name, SR1__F32, rows, 1);
    return t;
}

/* Rows [from, from+n) of a leaf under the name they have in files. */
static void add_weight_view(sr1_scope *s, sr1_model *m, int64_t layer, const char *name,
                            sr1_tensor *t, int64_t from, int64_t n)
{
    append_named_tensor(s, m->views, &m->n_views, layer, name,
                        t_narrow(s, t, 0, from, n));
}

/* A leaf that has one name in files too. */
static sr1_tensor *make_plain_leaf(sr1_scope *s, sr1_model *m, int64_t layer,
                                   const char *name, int64_t rows, int64_t cols)
{
    sr1_tensor *t = make_param_leaf(s, m, layer, name, rows, cols);

    add_weight_view(s, m, layer, name, t, 0, rows);
    return t;
}

static void build_attention(sr1_scope *s, sr1_model *m, int64_t i, struct sr1__layer *w)
{
    const struct sr1__hf_config *c = &m->config;
    int64_t q = c->n_heads * c->head_dim;
    int64_t kv = c->n_kv_heads * c->head_dim;

    w->qkv = make_matrix_leaf(s, m, i, "self_attn.qkv_proj.weight", q + 2 * kv,
                              c->hidden_size, &w->qkv_scale);
    add_weight_view(s, m, i, "self_attn.q_proj.weight", w->qkv, 0, q);
    add_weight_view(s, m, i, "self_attn.k_proj.weight", w->qkv, q, kv);
    add_weight_view(s, m, i, "self_attn.v_proj.weight", w->qkv, q + kv, kv);
    if (c->qkv_bias) {
        w->qkv_bias = make_param_leaf(s, m, i, "self_attn.qkv_proj.bias", q + 2 * kv, 0);
        add_weight_view(s, m, i, "self_attn.q_proj.bias", w->qkv_bias, 0, q);
        add_weight_view(s, m, i, "self_attn.k_proj.bias", w->qkv_bias, q, kv);
        add_weight_view(s, m, i, "self_attn.v_proj.bias", w->qkv_bias, q + kv, kv);
    }
    if (c->qk_norm) {
        w->q_norm = make_plain_leaf(s, m, i, "self_attn.q_norm.weight", c->head_dim, 0);
        w->k_norm = make_plain_leaf(s, m, i, "self_attn.k_norm.weight", c->head_dim, 0);
    }
    w->o = make_matrix_leaf(s, m, i, "self_attn.o_proj.weight", c->hidden_size, q,
                            &w->o_scale);
    add_weight_view(s, m, i, "self_attn.o_proj.weight", w->o, 0, c->hidden_size);
    if (c->o_bias)
        w->o_bias = make_plain_leaf(s, m, i, "self_attn.o_proj.bias", c->hidden_size, 0);
}

/* "mlp.experts.EXPERT.NAME" */
static void add_expert_view(sr1_scope *s, sr1_model *m, int64_t layer, int64_t expert,
                            const char *name, sr1_tensor *t, int64_t from, int64_t n)
{
    char whole[64];

    snprintf(whole, sizeof whole, "mlp.experts.%lld.%s", (long long)expert, name);
    add_weight_view(s, m, layer, whole, t, from, n);
}

static void build_experts(sr1_scope *s, sr1_model *m, int64_t i, struct sr1__layer *w)
{
    const struct sr1__hf_config *c = &m->config;
    int64_t e = c->hidden_size, f = c->expert_size, n = c->n_experts;

    w->router = make_plain_leaf(s, m, i, "mlp.gate.weight", n, e);
    w->gate_up = make_matrix_leaf(s, m, i, "mlp.experts.gate_up_proj.weight", n * 2 * f,
                                  e, &w->gate_up_scale);
    w->down = make_matrix_leaf(s, m, i, "mlp.experts.down_proj.weight", n * e, f,
                               &w->down_scale);
    for (int64_t k = 0; k < n; k++) {
        add_expert_view(s, m, i, k, "gate_proj.weight", w->gate_up, 2 * k * f, f);
        add_expert_view(s, m, i, k, "up_proj.weight", w->gate_up, (2 * k + 1) * f, f);
        add_expert_view(s, m, i, k, "down_proj.weight", w->down, k * e, e);
    }
}

static void build_mlp(sr1_scope *s, sr1_model *m, int64_t i, struct sr1__layer *w)
{
    const struct sr1__hf_config *c = &m->config;
    int64_t f = c->intermediate_size;

    w->gate_up = make_matrix_leaf(s, m, i, "mlp.gate_up_proj.weight", 2 * f,
                                  c->hidden_size, &w->gate_up_scale);
    add_weight_view(s, m, i, "mlp.gate_proj.weight", w->gate_up, 0, f);
    add_weight_view(s, m, i, "mlp.up_proj.weight", w->gate_up, f, f);
    w->down = make_matrix_leaf(s, m, i, "mlp.down_proj.weight", c->hidden_size, f,
                               &w->down_scale);
    add_weight_view(s, m, i, "mlp.down_proj.weight", w->down, 0, c->hidden_size);
}

static void build_layer(sr1_scope *s, sr1_model *m, int64_t i)
{
    const struct sr1__hf_config *c = &m->config;
    struct sr1__layer *w = &m->layers[i];

    w->input_norm = make_plain_leaf(s, m, i, "input_layernorm.weight", c->hidden_size, 0);
    build_attention(s, m, i, w);
    if (m->arch->post_norms)
        w->attention_norm = make_plain_leaf(s, m, i, "post_attention_layernorm.weight",
                                            c->hidden_size, 0);
    w->post_norm =
        make_plain_leaf(s, m, i,
                        m->arch->post_norms ? "pre_feedforward_layernorm.weight"
                                            : "post_attention_layernorm.weight",
                        c->hidden_size, 0);
    if (c->layers[i] & SR1__LAYER_EXPERTS)
        build_experts(s, m, i, w);
    else
        build_mlp(s, m, i, w);
    if (m->arch->post_norms)
        w->mlp_norm = make_plain_leaf(s, m, i, "post_feedforward_layernorm.weight",
                                      c->hidden_size, 0);
}

size_t sr1__model_units(const sr1_model *m, size_t *ends)
{
    size_t units = (size_t)m->config.n_layers + 2;

    for (size_t i = 0, u = 0; ends && i < m->n_leaves; i++) {
        const sr1_tensor *t = m->leaves[i].tensor;

        if ((u + 2 < units && t == m->layers[u].input_norm) || t == m->final_norm)
            ends[u++] = i;
    }
    if (ends)
        ends[units - 1] = m->n_leaves;
    return units;
}

static sr1_status build_model_tensors(sr1_model *m)
{
    const struct sr1__hf_config *c = &m->config;
    sr1_scope *s = sr1__scope_open(m->device, "model");

    sr1__scope_no_grad(s);
    m->embed = make_plain_leaf(s, m, -1, "model.embed_tokens.weight", c->vocab_size,
                               c->hidden_size);
    for (int64_t i = 0; i < c->n_layers; i++)
        build_layer(s, m, i);
    m->final_norm = make_plain_leaf(s, m, -1, "model.norm.weight", c->hidden_size, 0);
    if (c->value_head) {
        m->value_head = make_plain_leaf(s, m, -1, "score.weight", 1, c->hidden_size);
        m->value_bias = make_plain_leaf(s, m, -1, "score.bias", 1, 0);
    } else {
        m->head = c->tie_word_embeddings ? m->embed
                                         : make_plain_leaf(s, m, -1, "lm_head.weight",
                                                           c->vocab_size, c->hidden_size);
    }
    return sr1__scope_close(s);
}

/* Leaves before the head have the same names, in the same order. */
static size_t body_leaves(const sr1_model *m)
{
    size_t head = m->value_head ? 2 : m->head != m->embed;

    return m->n_leaves - head;
}

/* All leaves, or those of the body where the heads differ in kind. */
static size_t count_shared(const sr1_model *shares, const struct sr1__hf_config *config)
{
    return shares->config.value_head == config->value_head ? shares->n_leaves
                                                           : body_leaves(shares);
}

/* shares: whose leaves the model takes; NULL: its own, their values not set. */
static sr1_status create_model(sr1_model **out, const struct sr1__hf_config *config,
                               int32_t dtype, int32_t quantized, sr1__device device,
                               const sr1_model *shares)
{
    size_t n = (size_t)config->n_layers;
    sr1_model *m = sr1__calloc(1, sizeof *m);
    sr1_status status = SR1_E_NOMEM;

    SR1__CHECK_ALLOC(m, "model");
    m->config = *config;
    m->arch = &sr1__archs[config->arch];
    m->dtype = dtype;
    m->quantized = quantized;
    m->device = device;
    m->refs = 1;
    m->shares = shares;
    m->n_shared = shares ? count_shared(shares, config) : 0;
    sr1__rope_init(&m->rope, &config->rope, (int32_t)config->head_dim, device);
    sr1__rope_init(&m->local_rope, &config->local_rope, (int32_t)config->head_dim,
                   device);
    m->layers = sr1__calloc(n, sizeof *m->layers);
    m->leaves = sr1__calloc(n * LEAVES_PER_LAYER + 4, sizeof *m->leaves);
    m->views = sr1__calloc(
        n * (VIEWS_PER_LAYER + VIEWS_PER_EXPERT * (size_t)config->n_experts) + 4,
        sizeof *m->views);
    if (m->layers && m->leaves && m->views)
        status = sr1__host_share_new(&m->host);
    else
        (void)sr1__fail_nomem("model");
    if (status == SR1_OK)
        status = build_model_tensors(m);
    if (status != SR1_OK) {
        sr1_model_free(m);
        return status;
    }
    m->shares = NULL;
    m->params = m->leaves;
    m->n_params = m->n_leaves;
    *out = m;
    return SR1_OK;
}

/* Where the weights came from, for adapters made on a copy. */
static sr1_status copy_folder(sr1_model *m, const sr1_model *of)
{
    m->hash = of->hash;
    m->base_hash = of->base_hash;
    m->folder = of->folder ? sr1__strdup(of->folder) : NULL;
    return of->folder && !m->folder ? sr1__fail_nomem("folder of a model") : SR1_OK;
}

sr1_status sr1__model_empty(sr1_model **out, const struct sr1__hf_config *config,
                            int32_t dtype, sr1__device device)
{
    return create_model(out, config, dtype, 0, device, NULL);
}

/* Its leaves are those of `of`. */
static sr1_status share_adapter(sr1_model *m, const sr1_model *of)
{
    sr1__host_share_free(m->host);
    m->host = sr1__host_share_retain(of->host);
    SR1__TRY(copy_folder(m, of));
    return of->adapter ? sr1__adapter_attach(m, &of->adapter->config, of) : SR1_OK;
}

sr1_status sr1__model_replica(sr1_model **out, const sr1_model *of)
{
    sr1_model *m = NULL;

    SR1__TRY(create_model(&m, &of->config, of->dtype, of->quantized, of->device, of));
    SR1__RETURN_NEW(out, m, share_adapter(m, of), sr1_model_free);
}

sr1_status sr1__model_reserve_positions(sr1_model *m, int64_t n)
{
    SR1__TRY(sr1__rope_reserve(&m->rope, n));
    return sr1__hf_config_has(&m->config, SR1__LAYER_LOCAL)
               ? sr1__rope_reserve(&m->local_rope, n)
               : SR1_OK;
}

sr1_model *sr1__model_retain(sr1_model *m)
{
    if (m)
        m->refs++;
    return m;
}

static void free_sums(sr1_model *m)
{
    for (size_t i = 0; m->sums && i < m->n_params; i++)
        sr1__tensor_free(m->sums[i]);
    sr1__free(m->sums);
    m->sums = NULL;
}

static void free_named(struct sr1__named *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++) {
        sr1__tensor_free(list[i].tensor);
        sr1__free((char *)(uintptr_t)list[i].name);
    }
    sr1__free(list);
}

void sr1_model_free(sr1_model *m)
{
    if (!m || --m->refs > 0)
        return;
    free_sums(m);
    sr1__adapter_free(m->adapter);
    free_named(m->views, m->n_views);
    free_named(m->leaves, m->n_leaves);
    sr1__rope_free(&m->rope);
    sr1__rope_free(&m->local_rope);
    sr1__decode_tables_free(m->tables);
    sr1__host_share_free(m->host);
    sr1__free(m->folder);
    sr1__free(m->layers);
    sr1__free(m);
}

sr1_status sr1__model_train(sr1_model *m, int on)
{
    sr1_scope *s = sr1__scope_open(m->device, "model");

    for (size_t i = 0; i < m->n_params; i++)
        t_require_grad(s, m->params[i].tensor, on);
    return sr1__scope_close(s);
}

void sr1__model_touch(sr1_model *m)
{
    m->version++;
    sr1__host_share_touch(m->host);
}

/* ---- gradients ---- */

void sr1__model_clear_grads(sr1_model *m, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        (void)sr1__shim_clear_grad(m->params[i].tensor);
        if (m->sums) {
            sr1__tensor_free(m->sums[i]);
            m->sums[i] = NULL;
        }
    }
}

void sr1__model_clear_grad(sr1_model *m)
{
    sr1__model_clear_grads(m, 0, m->n_params);
    free_sums(m);
}

static void move_param_grad(sr1_scope *outer, sr1_model *to, sr1_model *from, size_t i)
{
    sr1_scope *s = sr1__scope_nest(outer, "%s", from->params[i].name);
    sr1_tensor *g = t_grad(s, from->params[i].tensor);

    if (g && to->sums[i])
        t_add_(s, to->sums[i], g, 1.0);
    else if (g)
        to->sums[i] = t_hold(s, t_to(s, g, SR1__F32));
    t_clear_grad(s, from->params[i].tensor);
    (void)sr1__scope_close(s);
}

/* Not so in bf16, a critic's value head beside its adapter among them. */
static int has_only_f32_params(const sr1_model *m)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (t_dtype(m->params[i].tensor) != SR1__F32)
            return 0;
    return 1;
}

sr1_status sr1__model_move_grad(sr1_model *to, sr1_model *from)
{
    sr1_scope *s;

    if (!to->sums)
        to->sums = sr1__calloc(to->n_params, sizeof(sr1_tensor *));
    SR1__CHECK_ALLOC(to->sums, "sum of gradients");
    s = sr1__scope_open(to->device, "sum of gradients");
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < to->n_params; i++)
        move_param_grad(s, to, from, i);
    return sr1__scope_close(s);
}

sr1_status sr1__model_gather_grad(sr1_model *m)
{
    return has_only_f32_params(m) ? SR1_OK : sr1__model_move_grad(m, m);
}

sr1_status sr1__model_sum_grad(sr1_model *m, const uint8_t *wanted)
{
    sr1_scope *s;

    SR1__TRY(sr1__model_move_grad(m, m));
    s = sr1__scope_open(m->device, "sum of gradients");
    for (size_t i = 0; i < m->n_params; i++) {
        sr1_tensor *w = m->params[i].tensor;

        if (wanted[i] && !m->sums[i])
            m->sums[i] =
                t_hold(s, t_full(s, 0.0, SR1__F32, t_ndim(w), sr1__shim_sizes(w)));
    }
    return sr1__scope_close(s);
}

sr1_tensor *sr1__model_grad(sr1_scope *s, const sr1_model *m, size_t i)
{
    if (m->sums)
        return sr1__scope_own(s, t_hold(s, m->sums[i]));
    return t_grad(s, m->params[i].tensor);
}

sr1_status sr1__model_add_grad(sr1_model *to, sr1_model *from)
{
    sr1_scope *s = sr1__scope_open(to->device, "sum of gradients");

    sr1__scope_no_grad(s);
    for (size_t i = 0; i < to->n_params; i++) {
        sr1_tensor *sum = sr1__model_grad(s, to, i);
        sr1_tensor *g = sr1__model_grad(s, from, i);

        if (g && sum)
            t_add_(s, sum, g, 1.0);
        else if (g)
            sr1__scope_fail(s, SR1_E_INTERNAL, "%s has no gradient to add to",
                            to->params[i].name);
    }
    sr1__model_clear_grad(from);
    return sr1__scope_close(s);
}

/* ---- copies ---- */

static void copy_named(sr1_scope *s, const struct sr1__named *to, size_t n,
                       const struct sr1__named *from, size_t n_from)
{
    if (n != n_from)
        sr1__scope_fail(s, SR1_E_INVALID, "the models differ in shape");
    for (size_t i = 0; i < n && i < n_from; i++)
        t_copy_(s, to[i].tensor, from[i].tensor);
}

static void copy_adapter(sr1_scope *s, sr1_model *to, const sr1_model *from)
{
    if (!to->adapter != !from->adapter)
        sr1__scope_fail(s, SR1_E_INVALID, "only one of the models has an adapter");
    else if (to->adapter)
        copy_named(s, to->params, to->n_params, from->params, from->n_params);
}

sr1_status sr1__model_copy_weights(sr1_model *to, const sr1_model *from)
{
    sr1_scope *s = sr1__scope_open(to->device, "copy of weights");

    sr1__scope_no_grad(s);
    copy_named(s, to->leaves, to->n_leaves, from->leaves, from->n_leaves);
    copy_adapter(s, to, from);
    sr1__model_touch(to);
    return sr1__scope_close(s);
}

/* One leaf at a time, as those of another device are copied for it. */
static sr1_status mix_leaf(const sr1_model *to, size_t i, const sr1_model *from,
                           double alpha)
{
    sr1_scope *s = sr1__scope_open(to->device, "%s", to->leaves[i].name);
    sr1_tensor *own = to->leaves[i].tensor, *other = from->leaves[i].tensor;

    sr1__scope_no_grad(s);
    if (from->device != to->device)
        other = t_to_device(s, other, to->device);
    t_mul_scalar_(s, own, 1.0 - alpha);
    t_add_(s, own, other, alpha);
    return sr1__scope_close(s);
}

sr1_status sr1__model_mix_weights(sr1_model *to, const sr1_model *from, double alpha)
{
    sr1_status st = SR1_OK;

    if (to->n_leaves != from->n_leaves || to->adapter || from->adapter || to->quantized)
        return sr1__fail(
            SR1_E_INVALID,
            "the models differ in shape, or have an adapter or int8 weights");
    for (size_t i = 0; i < to->n_leaves && st == SR1_OK; i++)
        st = mix_leaf(to, i, from, alpha);
    sr1__model_touch(to);
    return st;
}

static sr1_status fill_clone(sr1_model *m, const sr1_model *from)
{
    SR1__TRY(copy_folder(m, from));
    if (from->adapter)
        SR1__TRY(sr1__adapter_attach(m, &from->adapter->config, NULL));
    return sr1__model_copy_weights(m, from);
}

sr1_status sr1__model_clone_to(sr1_model **out, const sr1_model *from, int32_t dtype,
                               sr1__device device)
{
    sr1_model *m = NULL;

    SR1__TRY(create_model(&m, &from->config, dtype < 0 ? from->dtype : dtype,
                          from->quantized, device, NULL));
    SR1__RETURN_NEW(out, m, fill_clone(m, from), sr1_model_free);
}

/* Scales follow their matrices. */
static sr1_status fill_quantized(sr1_model *m, const sr1_model *from)
{
    size_t k = 0;

    for (size_t i = 0; i < from->n_leaves; i++, k++) {
        sr1_tensor *t = from->leaves[i].tensor;
        sr1_scope *s = sr1__scope_open(m->device, "%s", from->leaves[i].name);

        sr1__scope_no_grad(s);
        if (t_dtype(m->leaves[k].tensor) == SR1__I8) {
            sr1__int8_quantize(s, m->leaves[k].tensor, m->leaves[k + 1].tensor, t);
            k++;
        } else {
            t_copy_(s, m->leaves[k].tensor, t);
        }
        SR1__TRY(sr1__scope_close(s));
    }
    return copy_folder(m, from);
}

sr1_status sr1__model_quantize(sr1_model **out, const sr1_model *from, int32_t dtype,
                               sr1__device device)
{
    sr1_model *m = NULL;

    if (from->adapter || from->quantized)
        return sr1__fail(SR1_E_STATE, "a model %s cannot be quantised",
                         from->adapter ? "with an adapter" : "that is quantised already");
    SR1__TRY(create_model(&m, &from->config, dtype < 0 ? from->dtype : dtype, 1, device,
                          NULL));
    SR1__RETURN_NEW(out, m, fill_quantized(m, from), sr1_model_free);
}

sr1_status sr1__model_clone(sr1_model **out, const sr1_model *from, int32_t dtype)
{
    return sr1__model_clone_to(out, from, dtype, from->device);
}

/* An adapter that changes nothing yet is left out. */
static sr1_status freeze_adapter(sr1_model *m, const sr1_model *of)
{
    sr1_scope *s;
    int zero = 0;

    SR1__TRY(sr1__adapter_is_zero(of, &zero));
    if (zero)
        return SR1_OK;
    SR1__TRY(sr1__adapter_attach(m, &of->adapter->config, NULL));
    s = sr1__scope_open(m->device, "copy of an adapter");
    sr1__scope_no_grad(s);
    copy_adapter(s, m, of);
    return sr1__scope_close(s);
}

sr1_status sr1__model_freeze(sr1_model **out, const sr1_model *of, int32_t dtype)
{
    sr1_model *m = NULL;

    if (!of->adapter || (dtype >= 0 && dtype != of->dtype))
        return sr1__model_clone(out, of, dtype);
    SR1__TRY(create_model(&m, &of->config, of->dtype, of->quantized, of->device, of));
    SR1__RETURN_NEW(out, m, freeze_adapter(m, of), sr1_model_free);
}

/* Views before the head likewise. */
static size_t body_views(const sr1_model *m)
{
    size_t head = m->value_head ? 2 : m->head != m->embed;

    return m->n_views - head;
}

static sr1_status fill_body(sr1_model *m, const sr1_model *from)
{
    for (size_t i = 0; i < body_views(from); i++) {
        sr1_scope *s = sr1__scope_open(m->device, "%s", from->views[i].name);

        sr1__scope_no_grad(s);
        t_copy_(s, m->views[i].tensor, sr1__adapter_merged(s, from, i));
        SR1__TRY(sr1__scope_close(s));
    }
    return SR1_OK;
}

static sr1_status fill_value_head(sr1_model *m, const sr1_model *from)
{
    sr1_scope *s = sr1__scope_open(m->device, "value head");

    sr1__scope_no_grad(s);
    if (from->value_head) {
        t_copy_(s, m->value_head, from->value_head);
        t_copy_(s, m->value_bias, from->value_bias);
    } else {
        t_fill_(s, m->value_head, 0.0);
        t_fill_(s, m->value_bias, 0.0);
    }
    return sr1__scope_close(s);
}

static sr1_status fill_critic(sr1_model *m, const sr1_model *from)
{
    SR1__TRY(fill_body(m, from));
    SR1__TRY(fill_value_head(m, from));
    /* Where an adapter was merged, no folder holds these weights. */
    return from->adapter ? SR1_OK : copy_folder(m, from);
}

sr1_status sr1__model_critic(sr1_model **out, const sr1_model *from, int32_t dtype)
{
    struct sr1__hf_config config = from->config;
    sr1_model *m = NULL;

    config.value_head = 1;
    SR1__TRY(
        sr1__model_empty(&m, &config, dtype < 0 ? from->dtype : dtype, from->device));
    SR1__RETURN_NEW(out, m, fill_critic(m, from), sr1_model_free);
}

sr1_status sr1__model_critic_sharing(sr1_model **out, const sr1_model *from)
{
    struct sr1__hf_config config = from->config;
    sr1_model *m = NULL;
    sr1_status st;

    config.value_head = 1;
    SR1__TRY(create_model(&m, &config, from->dtype, from->quantized, from->device, from));
    st = copy_folder(m, from);
    if (st == SR1_OK)
        st = fill_value_head(m, from);
    SR1__RETURN_NEW(out, m, st, sr1_model_free);
}

/* ---- random weights ---- */

struct fill {
    float *v;
    size_t n;
    double sd;
    uint64_t seed;
    uint64_t tensor;
};

/* Normal numbers of block i: two from each pair of uniform ones (Box-Muller). */
static sr1_status fill_block(void *arg, size_t i)
{
    const struct fill *f = arg;
    size_t at = i * BLOCK;
    size_t end = f->n - at < BLOCK ? f->n : at + BLOCK;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, f->seed, (f->tensor << 32) + i);
    for (; at < end; at += 2) {
        float r =
            (float)f->sd * sqrtf(-2.0f * logf((float)(1.0 - sr1__rng_uniform(&rng))));
        float a = 6.28318530718f * (float)sr1__rng_uniform(&rng);

        f->v[at] = r * cosf(a);
        if (at + 1 < end)
            f->v[at + 1] = r * sinf(a);
    }
    return SR1_OK;
}

/* Standard deviation of a matrix. The layers' outputs shrink with depth, so that the sum
 * over 2L of them keeps its size. */
static double matrix_sd(const sr1_model *m, const struct sr1__named *p, int32_t init)
{
    double sd = 1.0 / sqrt((double)t_size(p->tensor, 1));

    if (init == SR1__INIT_NORMAL)
        return m->config.initializer_range;
    if (p->tensor == m->embed)
        return 0.04;
    if (sr1__str_ends_with(sr1__str_of(p->name), "o_proj.weight") ||
        sr1__str_ends_with(sr1__str_of(p->name), "down_proj.weight"))
        sd /= sqrt(2.0 * (double)m->config.n_layers);
    return sd;
}

static void fill_matrix(sr1_scope *s, const sr1_model *m, size_t i, uint64_t seed,
                        int32_t init, struct sr1__pool *pool)
{
    sr1_tensor *t = m->leaves[i].tensor;
    size_t n = (size_t)t_numel(t);
    struct fill f = {NULL, n, matrix_sd(m, &m->leaves[i], init), seed, i};

    f.v = sr1__realloc(NULL, n, sizeof *f.v);
    if (!f.v) {
        sr1__scope_check(s, sr1__fail_nomem("random weights"));
        return;
    }
    sr1__scope_check(s, sr1__pool_run(pool, (n + BLOCK - 1) / BLOCK, fill_block, &f));
    t_copy_(s, t, t_from_f32(s, f.v, T_SHAPE(t_size(t, 0), t_size(t, 1))));
    sr1__free(f.v);
}

/* Of a leaf with one dimension: biases, and norms that change nothing. */
static double vector_start(const sr1_model *m, const char *name)
{
    return sr1__str_ends_with(sr1__str_of(name), "bias") || m->arch->norm_plus_one ? 0.0
                                                                                   : 1.0;
}

static sr1_status randomize_weights(sr1_model *m, uint64_t seed, int32_t init)
{
    struct sr1__pool *pool;
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__pool_new(&pool, 0));
    for (size_t i = 0; i < m->n_leaves && status == SR1_OK; i++) {
        sr1_scope *s = sr1__scope_open(m->device, "%s", m->leaves[i].name);

        sr1__scope_no_grad(s);
        if (t_ndim(m->leaves[i].tensor) > 1)
            fill_matrix(s, m, i, seed, init, pool);
        else
            t_fill_(s, m->leaves[i].tensor, vector_start(m, m->leaves[i].name));
        status = sr1__scope_close(s);
    }
    sr1__pool_free(pool);
    return status;
}

sr1_status sr1__model_random(sr1_model **out, const struct sr1__hf_config *config,
                             uint64_t seed, int32_t init, int32_t dtype,
                             sr1__device device)
{
    sr1_model *m = NULL;

    SR1__TRY(sr1__hf_config_check(config, "model"));
    SR1__TRY(sr1__model_empty(&m, config, dtype, device));
    SR1__RETURN_NEW(out, m, randomize_weights(m, seed, init), sr1_model_free);
}
