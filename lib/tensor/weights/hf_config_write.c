/* tensor/weights/hf_config_write.c - writing config.json of decoders, and of critics made
 * from them. */
#include "tensor/weights/decoder_archs.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static json_t *id_json(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

/* null, one id or a list, as transformers does. NULL: no memory. */
static json_t *eos_json(const struct sr1__hf_config *c)
{
    json_t *list;

    if (c->n_eos <= 1)
        return id_json(c->n_eos ? c->eos_ids[0] : -1);
    list = json_array();
    for (int32_t i = 0; i < c->n_eos; i++) {
        if (json_array_append_new(list, json_integer(c->eos_ids[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Rope stands in both forms: transformers 5 reads rope_parameters, 4 rope_theta and,
 * where positions are scaled, rope_scaling. */
static int set_one_rope(json_t *root, const struct sr1__rope_config *c)
{
    return json_object_set_new(root, "rope_theta", json_real(c->theta)) ||
           json_object_set_new(root, "rope_parameters", sr1__rope_config_json(c)) ||
           (c->type != SR1__ROPE_DEFAULT &&
            json_object_set_new(root, "rope_scaling", sr1__rope_config_json(c)));
}

/* A rope of each kind of layer. */
static int set_ropes(json_t *root, const struct sr1__hf_config *c)
{
    json_t *both;

    if (set_one_rope(root, &c->rope))
        return 1;
    if (sr1__archs[c->arch].local_rope_theta == 0)
        return 0;
    both = json_pack("{s:o, s:o}", "full_attention", sr1__rope_config_json(&c->rope),
                     "sliding_attention", sr1__rope_config_json(&c->local_rope));
    return json_object_set_new(root, "rope_parameters", both) ||
           json_object_set_new(root, "rope_local_base_freq",
                               json_real(c->local_rope.theta));
}

/* What only some models have. */
static int set_others(json_t *root, const struct sr1__hf_config *c)
{
    if (sr1__archs[c->arch].write_layers(root, c))
        return 1;
    if (!c->value_head)
        return 0;
    return json_object_set_new(root, "id2label", json_pack("{s:s}", "0", "value")) ||
           json_object_set_new(root, "label2id", json_pack("{s:i}", "value", 0));
}

static int set_sizes(json_t *root, const struct sr1__hf_config *c)
{
    int bad = 0;

    for (size_t i = 0; i < SR1__N_SIZES && !bad; i++)
        bad = json_object_set_new(
            root, sr1__sizes[i].key,
            json_integer(*sr1__hf_size_at((void *)(uintptr_t)c, &sr1__sizes[i])));
    return bad;
}

static json_t *make_config_json(const struct sr1__hf_config *c)
{
    const struct sr1__arch_row *arch = &sr1__archs[c->arch];
    json_t *root =
        json_pack("{s:[s], s:s, s:s, s:f, s:b, s:f, s:f, s:b, s:o, s:o, s:o, s:s, s:s}",
                  "architectures", arch->architectures[c->value_head != 0], "model_type",
                  arch->model_type, arch->act_key, arch->act, "attention_dropout", 0.0,
                  "attention_bias", c->qkv_bias && !arch->qkv_bias, "initializer_range",
                  c->initializer_range, "rms_norm_eps", c->rms_norm_eps,
                  "tie_word_embeddings", (int)c->tie_word_embeddings, "eos_token_id",
                  eos_json(c), "bos_token_id", id_json(c->bos_id), "pad_token_id",
                  id_json(c->pad_id), "dtype", sr1__weight_dtype_name(c->dtype),
                  "torch_dtype", sr1__weight_dtype_name(c->dtype));

    if (root && !set_ropes(root, c) && !set_sizes(root, c) && !set_others(root, c))
        return root;
    json_decref(root);
    return NULL;
}

sr1_status sr1__hf_config_save(const struct sr1__hf_config *c, const char *folder)
{
    char *path = sr1__path_join(folder, "config.json");
    json_t *root;
    sr1_status status;

    SR1__CHECK_ALLOC(path, "file name");
    status = sr1__hf_config_check(c, path);
    if (status == SR1_OK) {
        root = make_config_json(c);
        status = root ? sr1__json_save(root, 2, path) : sr1__fail_nomem("config.json");
        json_decref(root);
    }
    sr1__free(path);
    return status;
}
