/* tensor/model/adapter.c - the tensors of a LoRA adapter: made, applied, read, written.
 */
#include "tensor/model/adapter.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/model_folder.h"
#include "tensor/model/model_load.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUSED_MAX 3 /* linear layers in one matrix */

/* In the metadata of an adapter's file: the hash of the base it was trained on. */
#define BASE_NOTE "base_model_hash"

/* ---- making ---- */

/* The view of a linear layer's weight; n_views where there is none. */
static size_t find_view(sr1_scope *s, const sr1_model *m, int32_t layer, int32_t module)
{
    char *name = sr1__tensor_name("", layer, sr1__lora_module(module), ".weight");
    size_t i = 0;

    if (!name)
        sr1__scope_check(s, sr1__fail_nomem("tensor name"));
    while (name && i < m->n_views && strcmp(m->views[i].name, name) != 0)
        i++;
    sr1__free(name);
    return name ? i : m->n_views;
}

#define PREFIX "base_model.model."

static void add_adapter_param(sr1_scope *s, struct sr1__adapter *a, int32_t layer,
                              const char *module, const char *behind, sr1_tensor *t)
{
    char *name = sr1__tensor_name(PREFIX, layer, module, behind);

    if (!name)
        sr1__scope_check(s, sr1__fail_nomem("tensor name"));
    a->params[a->n_params++] = (struct sr1__named){name, t_hold(s, t)};
}

static void build_lora(sr1_scope *s, struct sr1__adapter *a, sr1_model *m, int32_t layer,
                       int32_t module, const sr1_model *shares)
{
    struct sr1__lora *l = &m->layers[layer].lora[module];
    const struct sr1__lora *of = shares ? &shares->layers[layer].lora[module] : NULL;
    size_t view = find_view(s, m, layer, module);
    int64_t rank = sr1__lora_rank(&a->config, layer, module);

    *l = (struct sr1__lora){.scale = sr1__lora_scale(&a->config, layer, module)};
    if (view == m->n_views)
        return;
    l->n_out = t_size(m->views[view].tensor, 0);
    if (!(a->config.targets & 1u << module))
        return;
    l->a = of ? t_detach(s, of->a)
              : t_empty(s, SR1__F32, T_SHAPE(rank, t_size(m->views[view].tensor, 1)));
    l->b = of ? t_detach(s, of->b) : t_empty(s, SR1__F32, T_SHAPE(l->n_out, rank));
    add_adapter_param(s, a, layer, sr1__lora_module(module), ".lora_A.weight", l->a);
    add_adapter_param(s, a, layer, sr1__lora_module(module), ".lora_B.weight", l->b);
    a->by_view[view] = l;
}

static sr1_status build_adapter(struct sr1__adapter *a, sr1_model *m,
                                const sr1_model *shares)
{
    size_t n = (size_t)m->config.n_layers * SR1__LORA_MODULES;
    sr1_scope *s;

    a->params = sr1__calloc(2 * n + 2, sizeof *a->params);
    a->by_view = sr1__calloc(m->n_views, sizeof(struct sr1__lora *));
    SR1__CHECK_ALLOC(a->params && a->by_view, "adapter");
    s = sr1__scope_open(m->device, "adapter");
    sr1__scope_no_grad(s);
    for (int32_t i = 0; i < m->config.n_layers; i++)
        for (int32_t k = 0; k < SR1__LORA_MODULES; k++)
            build_lora(s, a, m, i, k, shares);
    a->n_lora = a->n_params;
    if (a->config.value_head) {
        add_adapter_param(s, a, -1, "score", ".weight", m->value_head);
        add_adapter_param(s, a, -1, "score", ".bias", m->value_bias);
    }
    return sr1__scope_close(s);
}

uint32_t sr1__lora_targets_there(const struct sr1__hf_config *c)
{
    uint32_t all = (1u << SR1__LORA_MODULES) - 1;
    uint32_t mlp = 1u << SR1__LORA_GATE | 1u << SR1__LORA_UP | 1u << SR1__LORA_DOWN;

    return sr1__hf_config_count(c, SR1__LAYER_EXPERTS) < c->n_layers ? all : all & ~mlp;
}

/* peft would take the names of what the model does have. */
static sr1_status keep_targets_there(struct sr1__adapter *a, const sr1_model *m)
{
    a->config.targets &= sr1__lora_targets_there(&m->config);
    if (a->config.targets == 0)
        return sr1__fail(SR1_E_CONFIG, "an adapter on no layer: the MLPs of this model "
                                       "are experts, which can have none; name "
                                       "projections of attention in lora_targets");
    return SR1_OK;
}

sr1_status sr1__adapter_attach(sr1_model *m, const struct sr1__lora_config *config,
                               const sr1_model *shares)
{
    struct sr1__adapter *a;
    sr1_status st;

    if (m->adapter)
        return sr1__fail(SR1_E_STATE, "the model has an adapter already");
    SR1__CALLOC(a, 1, "adapter");
    st = sr1__lora_config_copy(&a->config, config);
    a->config.value_head = m->value_head != NULL;
    if (st == SR1_OK)
        st = build_adapter(a, m, shares);
    if (st == SR1_OK)
        st = keep_targets_there(a, m);
    if (st != SR1_OK) {
        for (int64_t i = 0; i < m->config.n_layers; i++)
            memset(m->layers[i].lora, 0, sizeof m->layers[i].lora);
        sr1__adapter_free(a);
        return st;
    }
    m->adapter = a;
    m->params = a->params;
    m->n_params = a->n_params;
    return SR1_OK;
}

void sr1__adapter_free(struct sr1__adapter *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n_params; i++) {
        sr1__tensor_free(a->params[i].tensor);
        sr1__free((char *)(uintptr_t)a->params[i].name);
    }
    sr1__lora_config_free(&a->config);
    sr1__free(a->params);
    sr1__free(a->by_view);
    sr1__free(a);
}

/* ---- a fresh one ---- */

static int is_b(const struct sr1__named *p)
{
    return strstr(p->name, ".lora_B.") != NULL;
}

static void fill_uniform(sr1_scope *s, const struct sr1__named *p, uint64_t seed)
{
    size_t n = (size_t)t_numel(p->tensor);
    double bound = 1.0 / sqrt((double)t_size(p->tensor, 1));
    float *v = sr1__realloc(NULL, n, sizeof *v);
    struct sr1__rng rng;

    if (!v) {
        sr1__scope_check(s, sr1__fail_nomem("adapter"));
        return;
    }
    sr1__rng_seed(&rng, sr1__hash64(p->name, strlen(p->name), seed), 0);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((2.0 * sr1__rng_uniform(&rng) - 1.0) * bound);
    t_copy_(s, p->tensor,
            t_from_f32(s, v, t_ndim(p->tensor), sr1__shim_sizes(p->tensor)));
    sr1__free(v);
}

sr1_status sr1__model_adapt(sr1_model *m, const struct sr1__lora_config *config,
                            uint64_t seed)
{
    sr1_scope *s;

    SR1__TRY(sr1__adapter_attach(m, config, NULL));
    s = sr1__scope_open(m->device, "adapter");
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->adapter->n_lora; i++) {
        if (is_b(&m->params[i]))
            t_fill_(s, m->params[i].tensor, 0.0);
        else
            fill_uniform(s, &m->params[i], seed);
    }
    sr1__model_touch(m);
    return sr1__scope_close(s);
}

sr1_status sr1__adapter_is_zero(const sr1_model *m, int *yes)
{
    sr1_scope *s = sr1__scope_open(m->device, "adapter");
    int zero = 1;

    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->adapter->n_params && zero; i++) {
        const struct sr1__named *p = &m->adapter->params[i];

        zero = !is_b(p) || t_item(s, t_max_all(s, t_abs(s, p->tensor))) == 0.0;
    }
    *yes = zero;
    return sr1__scope_close(s);
}

/* ---- applying ---- */

static sr1_tensor *apply_linear(sr1_scope *s, const struct sr1__attention *by,
                                sr1_tensor *x, sr1_tensor *w)
{
    return by->linear ? by->linear(s, by->self, x, w, NULL) : t_linear(s, x, w, NULL);
}

/* What the elements of a row are multiplied with. */
static void fill_dropout_row(float *row, int64_t n, double p, uint64_t key,
                             uint64_t stream)
{
    float kept = (float)(1.0 / (1.0 - p));
    struct sr1__rng rng;

    sr1__rng_seed(&rng, key, stream);
    for (int64_t i = 0; i < n; i++)
        row[i] = sr1__rng_uniform(&rng) < p ? 0.0F : kept;
}

/* x [N,in] after the dropout of one linear layer; x itself without one. */
static sr1_tensor *drop_out(sr1_scope *s, const struct sr1__lora_dropout *dropout,
                            sr1_tensor *x, int32_t layer, int32_t module)
{
    int64_t rows = t_size(x, 0), n = t_size(x, 1);
    sr1_tensor *mask;
    float *v;

    if (!dropout || dropout->p == 0.0 || sr1__scope_status(s) != SR1_OK)
        return x;
    v = sr1__realloc(NULL, (size_t)(rows * n) + 1, sizeof *v);
    if (!v) {
        sr1__scope_check(s, sr1__fail_nomem("dropout"));
        return x;
    }
    for (int64_t i = 0; i < rows; i++)
        fill_dropout_row(v + i * n, n, dropout->p, dropout->keys[i],
                         (uint64_t)layer * SR1__LORA_MODULES + (uint64_t)module);
    mask = t_from_f32(s, v, T_SHAPE(rows, n));
    sr1__free(v);
    return t_mul(s, x, mask);
}

/* s (x A^T) B^T [N,out], zeros without an adapter */
static sr1_tensor *compute_delta(sr1_scope *s, const struct sr1__attention *by,
                                 sr1_tensor *x, const struct sr1__lora *l)
{
    if (!l->a)
        return t_full(s, 0.0, SR1__F32, T_SHAPE(t_size(x, 0), l->n_out));
    return apply_linear(s, by, t_mul_scalar(s, apply_linear(s, by, x, l->a), l->scale),
                        l->b);
}

/* The outputs of the span's adapters side by side. */
static sr1_tensor *join_deltas(sr1_scope *outer, const struct sr1__attention *by,
                               const struct sr1__lora_dropout *dropout, sr1_tensor *x,
                               const struct sr1__lora *lora, struct sr1__lora_span span)
{
    sr1_tensor *parts[FUSED_MAX] = {NULL};
    sr1_scope *s = sr1__scope_nest(outer, "adapter");
    sr1_tensor *all;

    for (int32_t i = 0; i < span.n; i++)
        parts[i] = compute_delta(
            s, by, lora[i].a ? drop_out(s, dropout, x, span.layer, span.module + i) : x,
            &lora[i]);
    all = t_keep(s, span.n == 1 ? parts[0] : t_cat(s, parts, (size_t)span.n, -1));
    (void)sr1__scope_close(s);
    return all;
}

/* What is larger than x and y, in fp32, is gone as soon as it was read. */
sr1_tensor *sr1__lora_add(sr1_scope *s, const sr1_model *m,
                          const struct sr1__attention *by,
                          const struct sr1__lora_dropout *dropout, sr1_tensor *x,
                          sr1_tensor *y, struct sr1__lora_span span)
{
    const struct sr1__lora *lora = &m->layers[span.layer].lora[span.module];
    sr1_tensor *delta, *sum, *out;
    int any = 0;

    for (int32_t i = 0; m->adapter && i < span.n; i++)
        any |= lora[i].a != NULL;
    if (!any)
        return y;
    delta = join_deltas(s, by, dropout, t_to(s, x, SR1__F32), lora, span);
    sum = t_add(s, y, delta);
    t_drop(s, delta);
    out = t_to(s, sum, t_dtype(y));
    t_drop(s, sum);
    return out;
}

sr1_tensor *sr1__adapter_merged(sr1_scope *s, const sr1_model *m, size_t i)
{
    sr1_tensor *w = m->views[i].tensor;
    const struct sr1__lora *l = m->adapter ? m->adapter->by_view[i] : NULL;
    sr1_tensor *delta;

    if (!l)
        return w;
    delta = t_mul_scalar(s, t_matmul(s, l->b, l->a), l->scale);
    w = t_to(s, t_add(s, t_to(s, w, SR1__F32), delta), m->dtype);
    if (sr1__scope_status(s) == SR1_OK && !t_isfinite_all(s, w))
        sr1__scope_fail(s, SR1_E_NUMERIC,
                        "%s is not finite in %s once the adapter is merged into it; take "
                        "a wider dtype",
                        m->views[i].name, sr1__torch_dtype_name(m->dtype));
    return w;
}

/* ---- reading ---- */

static int is_adapter_param(const struct sr1__adapter *a, const char *name)
{
    for (size_t i = 0; i < a->n_params; i++)
        if (strcmp(a->params[i].name, name) == 0)
            return 1;
    return 0;
}

/* What is not read would change the model. */
static sr1_status refuse_more(const struct sr1__adapter *a,
                              const struct sr1__weights *file)
{
    for (size_t i = 0; i < sr1__weights_count(file); i++) {
        const struct sr1__weight *w = sr1__weights_at(file, i);

        if (!is_adapter_param(a, w->name))
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: tensor '%.200s' belongs to no layer that "
                             "'target_modules' of " SR1__ADAPTER_CONFIG_FILE " names",
                             w->file, w->name);
    }
    return SR1_OK;
}

#define SAYS SR1__ADAPTER_CONFIG_FILE " and the base model say"

static sr1_status read_params(sr1_model *m, const struct sr1__weights *file)
{
    const struct sr1__adapter *a = m->adapter;
    const struct sr1__weight *w = NULL;

    for (size_t i = 0; i < a->n_params; i++) {
        sr1_tensor *t = a->params[i].tensor;

        SR1__TRY(sr1__weights_get_as(file, a->params[i].name, t_ndim(t),
                                     sr1__shim_sizes(t), SAYS, &w));
        SR1__TRY(sr1__weight_load(w, t, m->device));
    }
    return refuse_more(a, file);
}

/* A tensor of the file that is yet to be read. */
static sr1_status check_stored(const struct sr1__weights *file, int32_t layer,
                               const char *module, const char *behind, int32_t n_dims,
                               const int64_t *shape)
{
    char *name = sr1__tensor_name(PREFIX, layer, module, behind);
    const struct sr1__weight *w;
    sr1_status st;

    SR1__CHECK_ALLOC(name, "tensor name");
    st = sr1__weights_get_as(file, name, n_dims, shape, SAYS, &w);
    sr1__free(name);
    return st;
}

static sr1_status check_stored_lora(sr1_scope *s, const sr1_model *m,
                                    const struct sr1__lora_config *c, int32_t layer,
                                    int32_t module, const struct sr1__weights *file)
{
    size_t view = find_view(s, m, layer, module);
    int64_t rank = sr1__lora_rank(c, layer, module), n_out, n_in;
    const char *name = sr1__lora_module(module);

    if (view == m->n_views || !(c->targets & 1u << module))
        return SR1_OK;
    n_out = t_size(m->views[view].tensor, 0);
    n_in = t_size(m->views[view].tensor, 1);
    SR1__TRY(check_stored(file, layer, name, ".lora_A.weight", T_SHAPE(rank, n_in)));
    return check_stored(file, layer, name, ".lora_B.weight", T_SHAPE(n_out, rank));
}

/* Before there is room for an adapter: are the file's tensors those of the
 * configuration? */
static sr1_status check_shapes(const sr1_model *m, const struct sr1__lora_config *c,
                               const struct sr1__weights *file)
{
    sr1_scope *s = sr1__scope_open(m->device, "adapter");

    for (int32_t i = 0; i < m->config.n_layers; i++)
        for (int32_t k = 0; k < SR1__LORA_MODULES; k++)
            if (sr1__scope_status(s) == SR1_OK)
                sr1__scope_check(s, check_stored_lora(s, m, c, i, k, file));
    return sr1__scope_close(s);
}

/* torch's own form of the file, which runs code when it is read. */
static sr1_status check_is_safetensors(const char *folder, const char *path)
{
    char *bin = sr1__path_join(folder, "adapter_model.bin");
    int is_bin = bin && !sr1__path_exists(path) && sr1__path_exists(bin);

    SR1__CHECK_ALLOC(bin, "file name");
    sr1__free(bin);
    return is_bin ? sr1__fail(SR1_E_UNSUPPORTED,
                              "%s holds adapter_model.bin, which is not read; save it as "
                              "safetensors (peft: from_pretrained, then save_pretrained)",
                              folder)
                  : SR1_OK;
}

static sr1_status open_adapter_file(struct sr1__weights **file, const char *folder)
{
    char *path = sr1__path_join(folder, SR1__LORA_WEIGHTS_FILE);
    sr1_status st =
        path ? check_is_safetensors(folder, path) : sr1__fail_nomem("file name");

    if (st == SR1_OK)
        st = sr1__weights_open(file, path);
    sr1__free(path);
    return st;
}

sr1_status sr1__adapter_read(sr1_model *m, const char *folder)
{
    struct sr1__weights *file = NULL;
    sr1_status st;

    SR1__TRY(open_adapter_file(&file, folder));
    st = sr1__weights_blame(file, read_params(m, file));
    sr1__weights_close(file);
    sr1__model_touch(m);
    return st;
}

/* PEFT lets an adapter run on any base of its shapes; on another one than it was trained
 * on it answers nonsense. */
static void warn_other_base(const sr1_model *m, const struct sr1__weights *file,
                            const char *folder)
{
    const char *then = sr1__weights_note(file, BASE_NOTE);
    char now[17];

    snprintf(now, sizeof(now), "%016" PRIx64, m->base_hash);
    if (then && m->base_hash != 0 && strcmp(then, now) != 0)
        sr1__log(SR1_LOG_WARN,
                 "%s was trained on a base with other weights than %s; name its own with "
                 "base_model_name_or_path",
                 folder, m->folder ? m->folder : "this one");
}

sr1_status sr1__adapter_open(sr1_model *m, const struct sr1__lora_config *config,
                             const char *folder)
{
    struct sr1__weights *file = NULL;
    sr1_status st;

    SR1__TRY(open_adapter_file(&file, folder));
    st = check_shapes(m, config, file);
    if (st == SR1_OK)
        st = sr1__adapter_attach(m, config, NULL);
    if (st == SR1_OK)
        st = read_params(m, file);
    if (st == SR1_OK) {
        uint64_t h = sr1__weights_hash(file);

        warn_other_base(m, file, folder);

        m->hash = sr1__hash64(&h, sizeof h, m->hash);
    }
    st = sr1__weights_blame(file, st);
    sr1__weights_close(file);
    sr1__model_touch(m);
    return st;
}

/* ---- writing ---- */

struct adapter_save {
    const struct sr1__adapter *a;
    float *bytes; /* of the tensor asked for last */
};

static sr1_status read_param_bytes(void *arg, size_t i, const void **bytes)
{
    struct adapter_save *save = arg;
    sr1_tensor *t = save->a->params[i].tensor;
    size_t n = (size_t)t_numel(t);

    sr1__free(save->bytes);
    save->bytes = sr1__malloc(n * sizeof *save->bytes);
    SR1__CHECK_ALLOC(save->bytes, "tensor to save");
    SR1__TRY(sr1__shim_to_host(t, SR1__F32, save->bytes, n));
    *bytes = save->bytes;
    return SR1_OK;
}

static sr1_status save_params(const sr1_model *m, const char *folder)
{
    const struct sr1__adapter *a = m->adapter;
    char base[17];
    const struct sr1__weight_note note = {BASE_NOTE, base};
    struct sr1__weight_out *rows = sr1__calloc(a->n_params + 1, sizeof *rows);
    struct adapter_save save = {a, NULL};
    sr1_status st;

    SR1__CHECK_ALLOC(rows, "list of tensors");
    for (size_t i = 0; i < a->n_params; i++)
        rows[i] = (struct sr1__weight_out){
            .name = a->params[i].name,
            .dtype = SR1__WEIGHT_F32,
            .n_dims = t_ndim(a->params[i].tensor),
            .shape = {t_size(a->params[i].tensor, 0), t_size(a->params[i].tensor, 1)}};
    snprintf(base, sizeof(base), "%016" PRIx64, m->base_hash);
    st = sr1__weights_save_file(folder, SR1__LORA_WEIGHTS_FILE,
                                m->base_hash != 0 ? &note : NULL, rows, a->n_params,
                                read_param_bytes, &save);
    sr1__free(save.bytes);
    sr1__free(rows);
    return st;
}

/* There it would turn its base into an adapter of itself, or be merged twice. */
static sr1_status check_not_base(const sr1_model *m, const char *folder)
{
    char path[PATH_MAX];

    if (!m->folder || !realpath(folder, path) || strcmp(path, m->folder) != 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "%s holds the adapter's base, which the adapter needs; name another "
                     "folder",
                     folder);
}

sr1_status sr1__adapter_check_merged(const sr1_model *m, const char *folder)
{
    int is_adapter;

    SR1__TRY(check_not_base(m, folder));
    SR1__TRY(sr1__adapter_is_folder(folder, &is_adapter));
    return is_adapter ? sr1__fail(SR1_E_INVALID,
                                  "%s holds an adapter, which a whole model there would "
                                  "replace; name another folder",
                                  folder)
                      : SR1_OK;
}

sr1_status sr1__adapter_store(const sr1_model *m, const char *folder)
{
    struct sr1__hf_config config = m->config;

    config.dtype = m->dtype;
    SR1__TRY(check_not_base(m, folder));
    SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(save_params(m, folder));
    SR1__TRY(sr1__hf_config_save(&config, folder));
    return sr1__lora_config_save(&m->adapter->config, m->folder, folder);
}
