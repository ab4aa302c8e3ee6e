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
#include "base/utf8.h"
#include "config/model_folder.h"
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

static int is_pattern_of(const struct sr1__lora_pattern *p, int32_t layer, int32_t module)
{
    return p->module == module && (p->layer < 0 || p->layer == layer);
}

int64_t sr1__lora_rank(const struct sr1__lora_config *c, int32_t layer, int32_t module)
{
    for (size_t i = 0; i < c->n_patterns; i++)
        if (c->patterns[i].rank > 0 && is_pattern_of(&c->patterns[i], layer, module))
            return c->patterns[i].rank;
    return c->rank;
}

static double get_alpha(const struct sr1__lora_config *c, int32_t layer, int32_t module)
{
    for (size_t i = 0; i < c->n_patterns; i++)
        if (c->patterns[i].alpha > 0 && is_pattern_of(&c->patterns[i], layer, module))
            return c->patterns[i].alpha;
    return c->alpha;
}

double sr1__lora_scale(const struct sr1__lora_config *c, int32_t layer, int32_t module)
{
    double rank = (double)sr1__lora_rank(c, layer, module);

    return get_alpha(c, layer, module) / (c->rslora ? sqrt(rank) : rank);
}

sr1_status sr1__lora_config_copy(struct sr1__lora_config *out,
                                 const struct sr1__lora_config *c)
{
    struct sr1__lora_config copy = *c;

    if (c->n_patterns > 0) {
        copy.patterns = sr1__memdup(c->patterns, c->n_patterns * sizeof *c->patterns);
        SR1__CHECK_ALLOC(copy.patterns, "ranks of an adapter");
    }
    *out = copy;
    return SR1_OK;
}

void sr1__lora_config_free(struct sr1__lora_config *c)
{
    sr1__free(c->patterns);
    c->patterns = NULL;
    c->n_patterns = 0;
}

static int are_patterns_same(const struct sr1__lora_config *a,
                             const struct sr1__lora_config *b)
{
    if (a->n_patterns != b->n_patterns)
        return 0;
    for (size_t i = 0; i < a->n_patterns; i++) {
        const struct sr1__lora_pattern *p = &a->patterns[i], *q = &b->patterns[i];

        if (p->layer != q->layer || p->module != q->module || p->rank != q->rank ||
            p->alpha != q->alpha)
            return 0;
    }
    return 1;
}

int sr1__lora_config_same(const struct sr1__lora_config *a,
                          const struct sr1__lora_config *b)
{
    return a->rank == b->rank && a->alpha == b->alpha && a->rslora == b->rslora &&
           a->targets == b->targets && a->value_head == b->value_head &&
           are_patterns_same(a, b);
}

/* ---- targets ---- */

/* The number of "model.layers.3", or of an end of it: peft may name each layer by itself.
 * A file that has them for some layers only is met where its tensors are read. */
static int read_layer_path(struct sr1__str s, int32_t *layer)
{
    static const char *const parts[] = {"model.", "layers."};
    int32_t n = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (sr1__str_starts_with(s, parts[i])) {
            s.s += strlen(parts[i]);
            s.n -= strlen(parts[i]);
        }
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] < '0' || s.s[i] > '9' || n > 99999)
            return 0;
        n = 10 * n + (s.s[i] - '0');
    }
    *layer = n;
    return s.n > 0;
}

/* Is it a name of this linear layer: "q_proj", "self_attn.q_proj" (*layer is -1), or with
 * a layer before? */
static int is_module_name(struct sr1__str name, int32_t module, int32_t *layer)
{
    size_t n = strlen(modules[module]);

    *layer = -1;
    if (sr1__str_is(name, short_name(module)) || sr1__str_is(name, modules[module]))
        return 1;
    return name.n > n + 1 && name.s[name.n - n - 1] == '.' &&
           sr1__str_ends_with(name, modules[module]) &&
           read_layer_path((struct sr1__str){name.s, name.n - n - 1}, layer);
}

static int add_target(const char *name, size_t n, uint32_t *targets)
{
    int32_t layer;

    for (int32_t i = 0; i < SR1__LORA_MODULES; i++) {
        if (!is_module_name((struct sr1__str){name, n}, i, &layer))
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
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "eva_config",
    "ensure_weight_tying",
    "inference_mode",
    "lora_alpha",
    "init_lora_weights",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

static const struct sr1__hf_refused kinds[] = {
    {"use_dora", "DoRA"},
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

/* Ways to begin that leave the base as it is; others (pissa, olora, corda, loftq, ...)
 * change it. */
static sr1_status check_init(const json_t *root, const char *name)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
    const json_t *v = sr1__json_given(root, "init_lora_weights");
    const char *text = json_string_value(v);

    if (!v || json_is_boolean(v))
        return SR1_OK;
    for (size_t i = 0; text && i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(text, harmless[i]) == 0)
            return SR1_OK;
    return sr1__hf_refuse(name, "init_lora_weights",
                          "an adapter that began by changing its base", REMEDY);
}

/* A text with a NUL would be read as the part before it. */
static sr1_status check_texts(const json_t *v, const char *key, const char *name)
{
    const char *k;
    json_t *item;
    size_t i;

    if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' has a NUL in a text", name, key);
    json_array_foreach(v, i, item) SR1__TRY(check_texts(item, key, name));
    json_object_foreach((json_t *)(uintptr_t)v, k, item)
        SR1__TRY(check_texts(item, *key ? key : k, name));
    return SR1_OK;
}

/* The task: a language model, or a critic, whose value head peft saves beside it. */
static sr1_status read_task(const json_t *root, const char *name,
                            struct sr1__lora_config *c)
{
    const json_t *saved = sr1__json_given(root, "modules_to_save"), *v;
    const char *task = "CAUSAL_LM";
    size_t i;

    SR1__TRY(sr1__hf_text(root, "task_type", name, &task));
    c->value_head = strcmp(task, "TOKEN_CLS") == 0;
    if (!c->value_head && strcmp(task, "CAUSAL_LM") != 0)
        return sr1__hf_refuse(name, "task_type",
                              "an adapter of something other than a language model",
                              REMEDY);
    json_array_foreach(saved, i, v)
    {
        const char *text = json_string_value(v);

        if (!c->value_head || !text ||
            (strcmp(text, "score") != 0 && strcmp(text, "classifier") != 0))
            return sr1__hf_refuse(name, "modules_to_save",
                                  "whole layers saved beside the adapter", REMEDY);
    }
    return saved && !json_is_array(saved)
               ? sr1__hf_refuse(name, "modules_to_save", "anything but a list of layers",
                                REMEDY)
               : SR1_OK;
}

static sr1_status check_rank(int64_t rank, const char *key, const char *name)
{
    if (rank >= 1 && rank <= SR1__LORA_RANK_MAX)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "%s: '%s', the rank, must be from 1 to %d, not %" PRId64, name, key,
                     SR1__LORA_RANK_MAX, rank);
}

/* A number of rank_pattern or alpha_pattern, into the row. */
static sr1_status read_pattern_value(const json_t *v, const char *key, const char *name,
                                     struct sr1__lora_pattern *p)
{
    if (strcmp(key, "alpha_pattern") == 0) {
        if (!json_is_number(v))
            return sr1__fail(SR1_E_PARSE, "%s: '%s' has a value that is no number", name,
                             key);
        p->alpha = json_number_value(v);
        return sr1__hf_real_check(p->alpha, 1e6, key, name);
    }
    if (!json_is_integer(v))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' has a rank that is no whole number", name,
                         key);
    p->rank = json_integer_value(v);
    return check_rank(p->rank, key, name);
}

/* Names are ends of a layer's path; what else a regular expression may say is refused. A
 * name of no layer that has an adapter says nothing. */
static sr1_status add_pattern(struct sr1__lora_config *c, const char *path,
                              const json_t *v, const char *key, const char *name)
{
    struct sr1__str s = {path, strlen(path)};

    if (strpbrk(path, "*+?[](){}|^$\\"))
        return sr1__hf_refuse(name, key, "a pattern of layers, in place of their names,",
                              REMEDY);
    for (int32_t i = 0; i < SR1__LORA_MODULES; i++) {
        struct sr1__lora_pattern *p = &c->patterns[c->n_patterns];

        *p = (struct sr1__lora_pattern){.module = i};
        if (!is_module_name(s, i, &p->layer))
            continue;
        SR1__TRY(read_pattern_value(v, key, name, p));
        c->n_patterns++;
        return SR1_OK;
    }
    return SR1_OK;
}

static sr1_status read_patterns(const json_t *root, const char *name,
                                struct sr1__lora_config *c)
{
    static const char *const keys[] = {"rank_pattern", "alpha_pattern"};
    const json_t *rows[2];
    const char *path;
    json_t *v;
    size_t n = 0;

    for (size_t k = 0; k < 2; k++) {
        rows[k] = sr1__json_given(root, keys[k]);
        if (rows[k] && !json_is_object(rows[k]))
            return sr1__fail(SR1_E_PARSE, "%s: '%s' is no object of layers", name,
                             keys[k]);
        n += json_object_size(rows[k]);
    }
    if (n == 0)
        return SR1_OK;
    SR1__CALLOC(c->patterns, n, "ranks of an adapter");
    for (size_t k = 0; k < 2; k++)
        json_object_foreach((json_t *)(uintptr_t)rows[k], path, v)
            SR1__TRY(add_pattern(c, path, v, keys[k], name));
    return SR1_OK;
}

static sr1_status read_rank(const json_t *root, const char *name,
                            struct sr1__lora_config *c)
{
    const json_t *r = json_object_get(root, "r");

    if (!json_is_integer(r))
        return sr1__fail(SR1_E_PARSE, "%s: 'r', the rank, is not a whole number", name);
    c->rank = json_integer_value(r);
    SR1__TRY(check_rank(c->rank, "r", name));
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

static sr1_status read_dropout(const json_t *root, const char *name,
                               struct sr1__lora_config *c)
{
    SR1__TRY(sr1__hf_real(root, "lora_dropout", name, &c->dropout));
    if (!(c->dropout >= 0 && c->dropout <= 1))
        return sr1__fail(SR1_E_INVALID, "%s: 'lora_dropout' must be from 0 to 1, not %g",
                         name, c->dropout);
    return SR1_OK;
}

static sr1_status read_config(const json_t *root, const char *name,
                              struct sr1__lora_config *c)
{
    const char *base;

    if (!json_is_object(root))
        return sr1__fail(SR1_E_PARSE, "%s: not an object", name);
    if (!sr1__json_given(root, "peft_type"))
        return sr1__fail(SR1_E_PARSE, "%s: 'peft_type' is missing", name);
    SR1__TRY(sr1__adapter_base_named(root, name, &base));
    SR1__TRY(check_texts(root, "", name));
    SR1__TRY(check_text(root, "peft_type", "LORA", "an adapter other than LORA", name));
    SR1__TRY(check_text(root, "bias", "none", "training of biases", name));
    SR1__TRY(read_task(root, name, c));
    SR1__TRY(check_init(root, name));
    SR1__TRY(check_kinds(root, name));
    SR1__TRY(sr1__hf_flag(root, "use_rslora", name, &c->rslora));
    SR1__TRY(read_dropout(root, name, c));
    SR1__TRY(read_rank(root, name, c));
    SR1__TRY(read_targets(root, name, c));
    return read_patterns(root, name, c);
}

sr1_status sr1__lora_config_parse(struct sr1__lora_config *out, const char *text,
                                  size_t n, const char *name)
{
    struct sr1__lora_config c = {0};
    json_t *root = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse(&root, text, n, name));
    st = read_config(root, name, &c);
    json_decref(root);
    if (st != SR1_OK) {
        sr1__lora_config_free(&c);
        return st;
    }
    *out = c;
    return SR1_OK;
}

sr1_status sr1__lora_config_load(struct sr1__lora_config *out, const char *folder)
{
    char *path = sr1__path_join(folder, SR1__ADAPTER_CONFIG_FILE);
    struct sr1__buf b = {0};
    sr1_status st;

    SR1__CHECK_ALLOC(path, "file name");
    st = sr1__file_read(path, SR1__HF_FILE_MAX, &b);
    if (st == SR1_OK)
        st = sr1__lora_config_parse(out, sr1__buf_cstr(&b), b.len, path);
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

/* Rows as peft writes them, by whole paths or names; those that say a rank, or an alpha.
 */
static json_t *patterns_json(const struct sr1__lora_config *c, int ranks)
{
    json_t *rows = json_object();

    for (size_t i = 0; i < c->n_patterns && rows; i++) {
        const struct sr1__lora_pattern *p = &c->patterns[i];
        char path[64];

        if (ranks ? p->rank == 0 : p->alpha == 0)
            continue;
        if (p->layer < 0)
            snprintf(path, sizeof path, "%s", modules[p->module]);
        else
            snprintf(path, sizeof path, "model.layers.%d.%s", (int)p->layer,
                     modules[p->module]);
        if (!json_object_get(rows, path) && /* the first row counts */
            json_object_set_new(rows, path,
                                ranks ? json_integer((json_int_t)p->rank)
                                      : alpha_json(p->alpha)) != 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return rows;
}

sr1_status sr1__lora_base_check(const char *base)
{
    if (!base || sr1__utf8_valid(base, strlen(base)))
        return SR1_OK;
    return sr1__fail(
        SR1_E_INVALID,
        "an adapter names the folder of its base in " SR1__ADAPTER_CONFIG_FILE
        ", which is UTF-8, and '%s' is not; rename that folder",
        base);
}

static json_t *config_json(const struct sr1__lora_config *c, const char *base)
{
    const char *task = c->value_head ? "TOKEN_CLS" : "CAUSAL_LM";
    json_t *head = c->value_head ? json_pack("[s]", "score") : json_null();

    return json_pack(
        "{s:s, s:s, s:s, s:s?, s:b, s:I, s:o, s:f, s:b, s:o, s:b, s:o, s:o, s:o}",
        "peft_type", "LORA", "task_type", task, "bias", "none", "base_model_name_or_path",
        base, "inference_mode", 1, "r", (json_int_t)c->rank, "lora_alpha",
        alpha_json(c->alpha), "lora_dropout", c->dropout, "use_rslora", (int)c->rslora,
        "target_modules", targets_json(c->targets), "init_lora_weights", 1,
        "modules_to_save", head, "rank_pattern", patterns_json(c, 1), "alpha_pattern",
        patterns_json(c, 0));
}

sr1_status sr1__lora_config_save(const struct sr1__lora_config *c, const char *base,
                                 const char *folder)
{
    char *path;
    json_t *root;
    sr1_status st;

    SR1__TRY(sr1__lora_base_check(base));
    path = sr1__path_join(folder, SR1__ADAPTER_CONFIG_FILE);
    root = config_json(c, base);
    st = path && root ? sr1__json_save(root, 2, path)
                      : sr1__fail_nomem(SR1__ADAPTER_CONFIG_FILE);
    json_decref(root);
    sr1__free(path);
    return st;
}
