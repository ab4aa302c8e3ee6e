/* tensor/weights/lora_config.c - reading, checking and writing adapter_config.json.
 *
 * Whatever key is not known to leave y = x W^T + s (x A^T) B^T as it is must be off, so
 * that kinds of adapters that are yet to be invented are refused too. */
#include "tensor/weights/lora_config.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "tensor/weights/hf_keys.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ALL_LINEAR "all-linear"
#define NAMES "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"
#define REMEDY                                                                           \
    "merge the adapter into its base model with peft (merge_and_unload, then "           \
    "save_pretrained), and name that"

static const char *const modules[SR1__LORA_MODULES] = {
    [SR1__LORA_Q] = "self_attn.q_proj", [SR1__LORA_K] = "self_attn.k_proj",
    [SR1__LORA_V] = "self_attn.v_proj", [SR1__LORA_O] = "self_attn.o_proj",
    [SR1__LORA_GATE] = "mlp.gate_proj", [SR1__LORA_UP] = "mlp.up_proj",
    [SR1__LORA_DOWN] = "mlp.down_proj",
};

const char *sr1__lora_module(int32_t module)
{
    return modules[module];
}

/* "q_proj" */
static const char *short_name(int32_t module)
{
    return strchr(modules[module], '.') + 1;
}

double sr1__lora_scale(const struct sr1__lora_config *c)
{
    double rank = (double)c->rank;

    return c->alpha / (c->rslora ? sqrt(rank) : rank);
}

/* ---- targets ---- */

/* "model.layers.3", or an end of it: peft may name each layer by itself. A file that has
 * them for some layers only is met where its tensors are read. */
static int is_layer_path(struct sr1__str s)
{
    static const char *const parts[] = {"model.", "layers."};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (sr1__str_starts_with(s, parts[i])) {
            s.s += strlen(parts[i]);
            s.n -= strlen(parts[i]);
        }
    return s.n > 0 && strspn(s.s, "0123456789") >= s.n;
}

/* Is it a name of this linear layer: "q_proj", "self_attn.q_proj", with a layer before?
 */
static int is_module_name(struct sr1__str name, int32_t module)
{
    size_t n = strlen(modules[module]);

    if (sr1__str_is(name, short_name(module)) || sr1__str_is(name, modules[module]))
        return 1;
    return name.n > n + 1 && name.s[name.n - n - 1] == '.' &&
           sr1__str_ends_with(name, modules[module]) &&
           is_layer_path((struct sr1__str){name.s, name.n - n - 1});
}

static int add_target(const char *name, size_t n, uint32_t *targets)
{
    for (int32_t i = 0; i < SR1__LORA_MODULES; i++) {
        if (!is_module_name((struct sr1__str){name, n}, i))
            continue;
        *targets |= 1u << i;
        return 1;
    }
    return 0;
}

static sr1_status refuse_target(const char *key, const char *name, size_t n)
{
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: '%.*s' is no layer that can have an adapter; %s can, or "
                     "\"" ALL_LINEAR "\" for all of them",
                     key, (int)(n < 80 ? n : 80), name, NAMES);
}

sr1_status sr1__lora_targets_parse(const char *list, const char *key, uint32_t *out)
{
    uint32_t targets = 0;

    if (strcmp(list, ALL_LINEAR) == 0) {
        *out = (1u << SR1__LORA_MODULES) - 1;
        return SR1_OK;
    }
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ","), begin = 0, n = length;

        sr1__strip(at, &begin, &n);
        if (!add_target(at + begin, n, &targets))
            return refuse_target(key, at + begin, n);
        at += length;
        if (*at == '\0')
            break;
    }
    *out = targets;
    return SR1_OK;
}

/* ---- reading ---- */

/* Keys that change nothing of what an adapter computes once it is trained, and those that
 * are read below. */
static const char *const known[] = {
    "auto_mapping",   "base_model_name_or_path", "bias",
    "inference_mode", "init_lora_weights",       "lora_alpha",
    "lora_dropout",   "megatron_core",           "peft_type",
    "peft_version",   "qalora_group_size",       "r",
    "revision",       "target_modules",          "task_type",
    "use_rslora",     "runtime_config",          "ensure_weight_tying",
};

static const struct sr1__hf_refused kinds[] = {
    {"use_dora", "DoRA"},
    {"modules_to_save", "whole layers saved beside the adapter"},
    {"rank_pattern", "ranks that differ by layer"},
    {"alpha_pattern", "scales that differ by layer"},
    {"fan_in_fan_out", "transposed weights"},
    {"lora_bias", "biases of adapters"},
    {"layers_to_transform", "adapters on a part of the layers"},
    {"layer_replication", "repeated layers"},
    {"exclude_modules", "layers left out by name"},
    {"trainable_token_indices", "trained embeddings"},
};

static int is_known(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], key) == 0)
            return 1;
    return 0;
}

static sr1_status check_kinds(const json_t *root, const char *name)
{
    const char *key;
    json_t *v;

    SR1__TRY(sr1__hf_refuse_all(root, kinds, sizeof kinds / sizeof *kinds, REMEDY, name));
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        const struct sr1__hf_refused row = {key, "an adapter with this key"};

        if (!is_known(key))
            SR1__TRY(sr1__hf_refuse_all(root, &row, 1, REMEDY, name));
    }
    return SR1_OK;
}

/* Absent is as good as one of the two values. */
static sr1_status check_text(const json_t *root, const char *key, const char *want,
                             const char *what, const char *name)
{
    const char *text = want;

    SR1__TRY(sr1__hf_text(root, key, name, &text));
    return strcmp(text, want) == 0 ? SR1_OK : sr1__hf_refuse(name, key, what, REMEDY);
}

/* Ways to begin that leave the base as it is; others (pissa, olora, ...) change it. */
static sr1_status check_init(const json_t *root, const char *name)
{
    const json_t *v = sr1__hf_given(root, "init_lora_weights");
    const char *text = json_string_value(v);

    if (!v || json_is_boolean(v) ||
        (text && (strcmp(text, "gaussian") == 0 || strcmp(text, "orthogonal") == 0)))
        return SR1_OK;
    return sr1__hf_refuse(name, "init_lora_weights",
                          "an adapter that began by changing its base", REMEDY);
}

static sr1_status read_rank(const json_t *root, const char *name,
                            struct sr1__lora_config *c)
{
    const json_t *r = json_object_get(root, "r");

    if (!json_is_integer(r))
        return sr1__fail(SR1_E_PARSE, "%s: 'r', the rank, is not a whole number", name);
    c->rank = json_integer_value(r);
    if (c->rank < 1 || c->rank > SR1__LORA_RANK_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'r', the rank, must be from 1 to %d, not %" PRId64, name,
                         SR1__LORA_RANK_MAX, c->rank);
    c->alpha = 8; /* peft's default */
    SR1__TRY(sr1__hf_real(root, "lora_alpha", name, &c->alpha));
    return sr1__hf_real_check(c->alpha, 1e6, "lora_alpha", name);
}

static sr1_status read_targets(const json_t *root, const char *name,
                               struct sr1__lora_config *c)
{
    const json_t *list = json_object_get(root, "target_modules"), *v;
    const char *text = json_string_value(list);
    size_t i;

    if (text)
        return strcmp(text, ALL_LINEAR) == 0
                   ? sr1__lora_targets_parse(text, name, &c->targets)
                   : sr1__hf_refuse(name, "target_modules", "a pattern of layers",
                                    REMEDY);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return sr1__fail(SR1_E_PARSE, "%s: 'target_modules' is no list of layers", name);
    json_array_foreach(list, i, v)
    {
        const char *t = json_string_value(v);

        if (!t || !add_target(t, strlen(t), &c->targets))
            return sr1__context(
                refuse_target("target_modules", t ? t : "?", t ? strlen(t) : 1), "%s",
                name);
    }
    return SR1_OK;
}

static sr1_status read_config(const json_t *root, const char *name,
                              struct sr1__lora_config *c, const char **base)
{
    if (!json_is_object(root))
        return sr1__fail(SR1_E_PARSE, "%s: not an object", name);
    if (!sr1__hf_given(root, "peft_type"))
        return sr1__fail(SR1_E_PARSE, "%s: 'peft_type' is missing", name);
    SR1__TRY(check_text(root, "peft_type", "LORA", "an adapter other than LORA", name));
    SR1__TRY(check_text(root, "bias", "none", "training of biases", name));
    SR1__TRY(check_text(root, "task_type", "CAUSAL_LM",
                        "an adapter of something other than a language model", name));
    SR1__TRY(check_init(root, name));
    SR1__TRY(check_kinds(root, name));
    SR1__TRY(sr1__hf_flag(root, "use_rslora", name, &c->rslora));
    SR1__TRY(read_rank(root, name, c));
    SR1__TRY(read_targets(root, name, c));
    SR1__TRY(sr1__hf_text(root, "base_model_name_or_path", name, base));
    return **base ? SR1_OK
                  : sr1__fail(SR1_E_CONFIG,
                              "%s names no base model; write its folder there as "
                              "\"base_model_name_or_path\"",
                              name);
}

sr1_status sr1__lora_config_parse(struct sr1__lora_config *out, char **base,
                                  const char *text, size_t n, const char *name)
{
    struct sr1__lora_config c = {0};
    const char *named = "";
    json_t *root = NULL;
    char *copy = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse(&root, text, n, name));
    st = read_config(root, name, &c, &named);
    if (st == SR1_OK && !(copy = sr1__strdup(named)))
        st = sr1__fail_nomem("base of an adapter");
    json_decref(root);
    SR1__TRY(st);
    *out = c;
    *base = copy;
    return SR1_OK;
}

sr1_status sr1__lora_is_folder(const char *folder, int *yes)
{
    char *path = sr1__path_join(folder, SR1__LORA_CONFIG_FILE);

    SR1__CHECK_ALLOC(path, "file name");
    *yes = sr1__path_exists(path);
    sr1__free(path);
    return SR1_OK;
}

sr1_status sr1__lora_config_load(struct sr1__lora_config *out, char **base,
                                 const char *folder)
{
    char *path = sr1__path_join(folder, SR1__LORA_CONFIG_FILE);
    struct sr1__buf b = {0};
    sr1_status st;

    SR1__CHECK_ALLOC(path, "file name");
    st = sr1__file_read(path, SR1__HF_FILE_MAX, &b);
    if (st == SR1_OK)
        st = sr1__lora_config_parse(out, base, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    sr1__free(path);
    return st;
}

/* ---- writing ---- */

static json_t *targets_json(uint32_t targets)
{
    json_t *list = json_array();

    for (int32_t i = 0; i < SR1__LORA_MODULES && list; i++) {
        if (targets & 1u << i &&
            json_array_append_new(list, json_string(short_name(i))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* 16 rather than 16.0, as some readers want. */
static json_t *alpha_json(double alpha)
{
    return alpha == floor(alpha) ? json_integer((json_int_t)alpha) : json_real(alpha);
}

sr1_status sr1__lora_config_save(const struct sr1__lora_config *c, const char *base,
                                 const char *folder)
{
    char *path = sr1__path_join(folder, SR1__LORA_CONFIG_FILE);
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s?, s:b, s:I, s:o, s:f, s:b, s:o, s:b}", "peft_type", "LORA",
        "task_type", "CAUSAL_LM", "bias", "none", "base_model_name_or_path", base,
        "inference_mode", 1, "r", (json_int_t)c->rank, "lora_alpha", alpha_json(c->alpha),
        "lora_dropout", 0.0, "use_rslora", (int)c->rslora, "target_modules",
        targets_json(c->targets), "init_lora_weights", 1);
    sr1_status st = path && root ? sr1__json_save(root, 2, path)
                                 : sr1__fail_nomem(SR1__LORA_CONFIG_FILE);

    json_decref(root);
    sr1__free(path);
    return st;
}
