/* tensor/model/model_api.c - searchr1/model.h on top of the model's own functions. */
#include "tensor/model/adapter.h"
#include "tensor/model/model_load.h"

#include "base/log.h"
#include "base/struct.h"
#include "kernels/matmul.h"

#include <searchr1/ext/model_details.h>

#include <string.h>

struct choice {
    struct sr1__model_place place;
    int32_t init;
    const char *base;
};

sr1_status sr1__model_place(struct sr1__model_place *out, const char *device,
                            const char *dtype, int32_t threads)
{
    struct sr1__model_place p = {0};

    SR1__TRY(sr1__device_resolve(device ? device : "auto", &p.device));
    p.dtype = p.device == SR1__CPU ? SR1__F32 : SR1__BF16;
    if (dtype)
        SR1__TRY(sr1__torch_dtype_parse(dtype, &p.dtype));
    SR1__TRY(sr1__torch_threads(threads));
    *out = p;
    return SR1_OK;
}

static sr1_status choose_init(const char *name, int32_t *out)
{
    static const char *const names[] = {
        [SR1__INIT_NORMAL] = "normal", [SR1__INIT_FAN_IN] = "fan_in"};

    for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_INVALID, "init '%s' is not one of normal, fan_in", name);
}

void sr1_model_options_init(sr1_model_options *options)
{
    static const sr1_model_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status choose_model_options(const sr1_model_options *given, struct choice *c)
{
    sr1_model_options o = {0};
    int stored;

    SR1__TRY(sr1__struct_take(&o, sizeof o, given,
                              SR1__STRUCT_END(sr1_model_options, device),
                              "model options"));
    c->base = o.base_model;
    SR1__TRY(choose_init(o.init ? o.init : "normal", &c->init));
    stored = o.dtype && strcmp(o.dtype, "stored") == 0;
    SR1__TRY(sr1__model_place(&c->place, o.device, stored ? NULL : o.dtype, o.threads));
    if (stored)
        c->place.dtype = -1;
    return SR1_OK;
}

static void warn_of_slow_products(const sr1_model *m)
{
    if (m->device == SR1__CPU && m->dtype == SR1__BF16 && !sr1__matmul_is_fast(1))
        sr1__log(SR1_LOG_WARN,
                 "dtype is bf16 and this CPU has no vector instructions that products "
                 "are made for: it is several times slower than fp32; set dtype: fp32");
}

sr1_status sr1_model_open(sr1_model **out, const char *folder,
                          const sr1_model_options *options)
{
    struct choice c;

    if (!out || !folder)
        return sr1__fail(SR1_E_INVALID, "sr1_model_open: out and folder are needed");
    SR1__TRY(choose_model_options(options, &c));
    SR1__TRY(sr1__model_load(out, folder, c.base, c.place.dtype, c.place.device));
    warn_of_slow_products(*out);
    return SR1_OK;
}

sr1_status sr1_model_new_random(sr1_model **out, const char *config_json, uint64_t seed,
                                const sr1_model_options *options)
{
    struct sr1__hf_config config;
    struct choice c;

    if (!out || !config_json)
        return sr1__fail(SR1_E_INVALID,
                         "sr1_model_new_random: out and config are needed");
    SR1__TRY(sr1__hf_config_parse(&config, config_json, strlen(config_json), "config"));
    SR1__TRY(choose_model_options(options, &c));
    return sr1__model_random(out, &config, seed, c.init,
                             c.place.dtype < 0 ? config.dtype : c.place.dtype,
                             c.place.device);
}

sr1_status sr1_model_save(const sr1_model *model, const char *folder)
{
    if (!model || !folder)
        return sr1__fail(SR1_E_INVALID, "sr1_model_save: model and folder are needed");
    return model->adapter ? sr1__context(sr1__adapter_store(model, folder),
                                         "saving the adapter to '%s'", folder)
                          : sr1__model_store(model, folder);
}

sr1_status sr1_model_save_merged(const sr1_model *model, const char *folder)
{
    SR1__REQUIRE(model && folder, "sr1_model_save_merged: model and folder");
    if (model->adapter)
        SR1__TRY(sr1__adapter_check_merged(model, folder));
    return sr1__model_store(model, folder);
}

static int64_t count_numbers(const struct sr1__named *list, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += t_numel(list[i].tensor);
    return sum;
}

int64_t sr1_model_info(const sr1_model *m, int32_t what)
{
    if (!m)
        return -1;
    switch (what) {
    case SR1_MODEL_VOCAB:
        return m->config.vocab_size;
    case SR1_MODEL_LAYERS:
        return m->config.n_layers;
    case SR1_MODEL_HIDDEN:
        return m->config.hidden_size;
    case SR1_MODEL_HEADS:
        return m->config.n_heads;
    case SR1_MODEL_KV_HEADS:
        return m->config.n_kv_heads;
    case SR1_MODEL_HEAD_DIM:
        return m->config.head_dim;
    case SR1_MODEL_MAX_POSITION:
        return m->config.max_positions;
    case SR1_MODEL_PARAMETERS:
        return count_numbers(m->leaves, m->n_leaves);
    case SR1_MODEL_TIED:
        return m->config.tie_word_embeddings;
    case SR1_MODEL_TRAINED:
        return count_numbers(m->params, m->n_params);
    case SR1_MODEL_LORA_RANK:
        return m->adapter ? m->adapter->config.rank : 0;
    default:
        return -1;
    }
}

const char *sr1_model_dtype(const sr1_model *model)
{
    return model ? sr1__torch_dtype_name(model->dtype) : "";
}

const char *sr1_model_device(const sr1_model *model)
{
    return model ? sr1__device_name(model->device) : "";
}

sr1_status sr1_model_logits(sr1_model *model, const int32_t *ids, size_t n, float *out)
{
    int64_t cu_seqlens[2] = {0, (int64_t)n};
    struct sr1__packed in = {ids, cu_seqlens, 1};
    sr1_tensor *logits;
    sr1_scope *s;

    if (!model || !ids || !out || n == 0)
        return sr1__fail(SR1_E_INVALID,
                         "sr1_model_logits: model, ids and out are needed");
    s = sr1__scope_open(model->device, "logits");
    sr1__scope_no_grad(s);
    logits = sr1__causal_lm_logits(s, model, sr1__causal_lm_forward(s, model, &in, NULL));
    t_to_host_f32(s, logits, out, n * (size_t)model->config.vocab_size);
    return sr1__scope_close(s);
}
