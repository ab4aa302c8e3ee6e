/* train/plan_shapes.c - the shapes of a run's models, from config.json and the headers of
 * safetensors files. */
#include "train/plan.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "config/choices.h"
#include "config/model_folder.h"
#include "tensor/model/model_load.h"
#include "tensor/weights/other_forms.h"

#include <string.h>

/* The file of a config.json by itself. */
static sr1_status read_file(struct sr1__hf_config *out, const char *path)
{
    struct sr1__buf b;
    sr1_status st;

    SR1__TRY(sr1__file_read(path, (size_t)16 << 20, &b));
    st = sr1__hf_config_parse(out, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    return st;
}

/* Weights that are there must be those that config.json describes: the embedding is. */
static sr1_status check_weights(const struct sr1__hf_config *c, const char *folder,
                                int *there)
{
    const int64_t shape[] = {c->vocab_size, c->hidden_size};
    const struct sr1__weight *w;
    struct sr1__weights *file = NULL;
    sr1_status st;

    *there = sr1__dir_has(folder, "model.safetensors") ||
             sr1__dir_has(folder, "model.safetensors.index.json");
    if (!*there)
        return SR1_OK;
    SR1__TRY(sr1__weights_open(&file, folder));
    st = sr1__weights_get(file, "model.embed_tokens.weight", 2, shape, &w);
    sr1__weights_close(file);
    return st;
}

static sr1_status read_folder(struct sr1__hf_config *out, const char *folder, int *there)
{
    if (!sr1__dir_has(folder, "config.json")) {
        SR1__TRY(sr1__model_folder_check("model", folder));
        SR1__TRY(sr1__model_form_check(folder));
        return sr1__fail(SR1_E_NOT_FOUND,
                         "%s has no config.json, which tells a model's shape", folder);
    }
    SR1__TRY(sr1__hf_config_load(out, folder));
    return check_weights(out, folder, there);
}

static sr1_status read_shape(struct sr1__hf_config *out, const char *path, int *there)
{
    *there = 0;
    if (sr1__path_exists(path) && !sr1__path_is_dir(path) &&
        sr1__str_ends_with(sr1__str_of(path), ".json"))
        return read_file(out, path);
    return read_folder(out, path, there);
}

/* Rank, alpha and targets of an adapter; layers with a rank of their own count as the
 * others. */
static sr1_status read_adapter(struct sr1__lora_config *out, const char *path)
{
    struct sr1__lora_config read;

    SR1__TRY(sr1__context(sr1__lora_config_load(&read, path), "adapter"));
    *out = (struct sr1__lora_config){.rank = read.rank,
                                     .alpha = read.alpha,
                                     .rslora = read.rslora,
                                     .targets = read.targets};
    sr1__lora_config_free(&read);
    return SR1_OK;
}

/* What is read of a model's folder. */
struct model_shape {
    struct sr1__hf_config config;
    struct sr1__lora_config adapter; /* rank 0: none */
    int has_weights;
};

/* A model's folder, or an adapter's, whose base has the shape; base: that one's folder,
 * "" where the adapter names it. */
static sr1_status read_model(struct model_shape *out, const char *path, const char *base)
{
    struct sr1__model_base found;
    int adapted = 0;
    sr1_status st;

    *out = (struct model_shape){.has_weights = 0};
    if (sr1__path_is_dir(path))
        SR1__TRY(sr1__adapter_is_folder(path, &adapted));
    if (!adapted)
        return read_shape(&out->config, path, &out->has_weights);
    SR1__TRY(read_adapter(&out->adapter, path));
    SR1__TRY(sr1__model_base_find(&found, path, base));
    st = read_shape(&out->config, found.folder, &out->has_weights);
    sr1__model_base_free(&found);
    return st;
}

/* A model beside the policy, by the key that names it; *out stays where none does. */
static sr1_status read_other(struct sr1__hf_config *out, const sr1_config *c,
                             const char *key)
{
    const char *path = sr1__config_str(c, key);
    struct model_shape m;

    if (!*path)
        return SR1_OK;
    SR1__TRY(sr1__context(read_model(&m, path, ""), "%s", key));
    *out = m.config;
    return SR1_OK;
}

sr1_status sr1__plan_shapes_read(struct sr1__plan_shapes *out, const sr1_config *c)
{
    const char *policy = sr1__config_str(c, "model_name_or_path");
    const struct sr1__environment_choice *e = sr1__environment_choice(c);
    struct model_shape m;

    memset(out, 0, sizeof *out);
    out->world = 1;
    if (!sr1__config_is(c, "distributed_backend", "none"))
        SR1__TRY(sr1__launch_world_size(&out->world));
    if (!*policy)
        return sr1__fail(SR1_E_CONFIG,
                         "model_name_or_path is not set; name a model's folder, or a "
                         "config.json");
    SR1__TRY(read_model(&m, policy, sr1__config_str(c, "base_model_name_or_path")));
    out->policy = out->critic = out->reviser = m.config;
    out->stored = m.adapter;
    out->has_weights = m.has_weights;
    out->has_critic = *sr1__config_str(c, "critic_model") != '\0';
    out->has_reviser = e && e->revises && !*sr1__config_str(c, "proxy_url");
    SR1__TRY(read_other(&out->critic, c, "critic_model"));
    if (out->has_reviser)
        SR1__TRY(read_other(&out->reviser, c, "proxy_model"));
    out->critic.value_head = 1;
    return SR1_OK;
}
