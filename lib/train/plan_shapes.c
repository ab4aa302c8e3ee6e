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

/* A model's folder, or an adapter's, whose base has the shape. */
static sr1_status read_policy(struct sr1__plan_shapes *s, const sr1_config *c,
                              const char *path)
{
    struct sr1__model_base base;
    int adapted = 0;
    sr1_status st;

    if (sr1__path_is_dir(path))
        SR1__TRY(sr1__adapter_is_folder(path, &adapted));
    if (!adapted)
        return read_shape(&s->policy, path, &s->has_weights);
    SR1__TRY(read_adapter(&s->stored, path));
    SR1__TRY(
        sr1__model_base_find(&base, path, sr1__config_str(c, "base_model_name_or_path")));
    st = read_shape(&s->policy, base.folder, &s->has_weights);
    sr1__model_base_free(&base);
    return st;
}

sr1_status sr1__plan_shapes_read(struct sr1__plan_shapes *out, const sr1_config *c)
{
    const char *policy = sr1__config_str(c, "model_name_or_path");
    const char *critic = sr1__config_str(c, "critic_model");
    const char *reviser = sr1__config_str(c, "proxy_model");
    const struct sr1__environment_choice *e = sr1__environment_choice(c);
    int there;

    memset(out, 0, sizeof *out);
    out->world = 1;
    if (!sr1__config_is(c, "distributed_backend", "none"))
        SR1__TRY(sr1__launch_world_size(&out->world));
    if (!*policy)
        return sr1__fail(SR1_E_CONFIG,
                         "model_name_or_path is not set; name a model's folder, or a "
                         "config.json");
    SR1__TRY(read_policy(out, c, policy));
    out->critic = out->policy;
    out->reviser = out->policy;
    out->has_critic = *critic != '\0';
    out->has_reviser = e && e->revises && !*sr1__config_str(c, "proxy_url");
    if (*critic)
        SR1__TRY(sr1__context(read_shape(&out->critic, critic, &there), "critic_model"));
    if (out->has_reviser && *reviser)
        SR1__TRY(sr1__context(read_shape(&out->reviser, reviser, &there), "proxy_model"));
    out->critic.value_head = 1;
    return SR1_OK;
}
