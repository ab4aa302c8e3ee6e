/* config/config.c - the configuration: values by key, files, saved form. */
#include "config/keys.h"

#include <searchr1/ext/config_names.h>

#include "config/paths.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/struct.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 20)

struct sr1_config {
    struct config_value values[CONFIG_N_KEYS];
    int of_record;           /* it is being read from a run folder */
    char *given_engine;      /* see sr1__config_given_engine; NULL: none */
    char *given_environment; /* likewise */
};

static struct config_value *value_of(sr1_config *c, const struct config_key *key)
{
    return &c->values[key - sr1__config_keys];
}

static void store_key_value(sr1_config *c, const struct config_key *key,
                            const struct config_value *v)
{
    struct config_value *old = value_of(c, key);

    sr1__free(old->s);
    *old = *v;
}

sr1_status sr1_config_new(sr1_config **out)
{
    sr1_config *c;

    SR1__REQUIRE(out, "configuration: out");
    SR1__CALLOC(c, 1, "configuration");
    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const struct config_key *key = &sr1__config_keys[i];
        sr1_status status = SR1_OK;

        if (key->type != SR1_CONFIG_SECRET)
            status = sr1__config_value_text(key, key->default_text, 0, &c->values[i]);
        if (status != SR1_OK) {
            sr1_config_free(c);
            return status;
        }
        c->values[i].is_set = 0;
    }
    *out = c;
    return SR1_OK;
}

void sr1_config_free(sr1_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < CONFIG_N_KEYS; i++)
        sr1__free(config->values[i].s);
    sr1__free(config->given_engine);
    sr1__free(config->given_environment);
    sr1__free(config);
}

/* A copy of the name, NULL for NULL, takes the place of *kept. */
static sr1_status keep_name(char **kept, const char *name)
{
    char *copy = name ? sr1__strdup(name) : NULL;

    if (name && !copy)
        return sr1__fail_nomem("configuration");
    sr1__free(*kept);
    *kept = copy;
    return SR1_OK;
}

sr1_status sr1_config_copy(sr1_config **out, const sr1_config *config)
{
    sr1_config *c;

    SR1__REQUIRE(out && config, "configuration: out and config");
    SR1__CALLOC(c, 1, "configuration");
    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const char *s = config->values[i].s;

        c->values[i] = config->values[i];
        c->values[i].s = s ? sr1__strdup(s) : NULL;
        if (s && !c->values[i].s) {
            sr1_config_free(c);
            return sr1__fail_nomem("configuration");
        }
    }
    c->of_record = config->of_record;
    if (keep_name(&c->given_engine, config->given_engine) != SR1_OK ||
        keep_name(&c->given_environment, config->given_environment) != SR1_OK) {
        sr1_config_free(c);
        return SR1_E_NOMEM;
    }
    *out = c;
    return SR1_OK;
}

/* The record has a value for every key; that of the environment is no choice any more,
 * and one that is set later is. */
sr1_status sr1__config_set_given(sr1_config *c, const char *engine,
                                 const char *environment)
{
    SR1__TRY(keep_name(&c->given_engine, engine));
    SR1__TRY(keep_name(&c->given_environment, environment));
    if (environment)
        c->values[CONFIG_KEY_environment].is_set = 0;
    return SR1_OK;
}

const char *sr1__config_given_engine(const sr1_config *c)
{
    return c->given_engine ? c->given_engine : "";
}

const char *sr1__config_given_environment(const sr1_config *c)
{
    return c->given_environment && !c->values[CONFIG_KEY_environment].is_set
               ? c->given_environment
               : "";
}

void sr1__config_read_record(sr1_config *c, int of_record)
{
    c->of_record = of_record;
}

sr1_status sr1__config_check_names(const sr1_config *c)
{
    for (size_t i = 0; i < CONFIG_N_KEYS; i++)
        if (sr1__config_keys[i].type == SR1_CONFIG_CHOICE)
            SR1__TRY(sr1__config_check_choice(&sr1__config_keys[i], c->values[i].s));
    return SR1_OK;
}

/* ---- presets ---- */

/* The defaults of other keys under a value of `compat`. */
static const struct preset {
    const char *compat, *key, *value;
} presets[] = {
#define PRESET(compat, key, value) {compat, key, value},
#include "config/compat.def"
#undef PRESET
};

#define N_PRESETS (sizeof presets / sizeof presets[0])

/* The default that this value of compat gives to a key; NULL: none. */
static const char *find_preset_value(const char *compat, const char *key)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].compat, compat) == 0 && strcmp(presets[i].key, key) == 0)
            return presets[i].value;
    return NULL;
}

const char *sr1__config_preset(const sr1_config *c, const char *key)
{
    return find_preset_value(sr1__config_str(c, "compat"), key);
}

int sr1__config_by_compat(const sr1_config *c, const char *key)
{
    return sr1__config_preset(c, key) != NULL;
}

/* New defaults for what the user has not set. */
static sr1_status apply_presets(sr1_config *c)
{
    const char *compat = c->values[CONFIG_KEY_compat].s;

    for (size_t i = 0; i < N_PRESETS; i++) {
        const struct config_key *key = sr1__config_key_find(presets[i].key);
        const char *value = find_preset_value(compat, presets[i].key);
        struct config_value v;

        if (!key)
            return SR1_E_CONFIG;
        if (value_of(c, key)->is_set)
            continue;
        SR1__TRY(sr1__config_value_text(key, value ? value : key->default_text, 0, &v));
        v.is_set = 0;
        store_key_value(c, key, &v);
    }
    return SR1_OK;
}

void sr1__config_swap(sr1_config *a, sr1_config *b)
{
    sr1_config t = *a;

    *a = *b;
    *b = t;
}

/* Let *c, a changed copy of config, take its place, presets applied; frees the other. */
static sr1_status adopt_config_copy(sr1_config *config, sr1_config *c, sr1_status status)
{
    if (status == SR1_OK)
        status = apply_presets(c);
    if (status == SR1_OK)
        sr1__config_swap(config, c);
    sr1_config_free(c);
    return status;
}

/* ---- setting ---- */

/* Store a value on which presets depend, or that depends on them; takes v over. */
static sr1_status store_and_apply_presets(sr1_config *config, const struct config_key *k,
                                          const struct config_value *v)
{
    sr1_config *c = NULL;
    sr1_status status = sr1_config_copy(&c, config);

    if (status != SR1_OK) {
        sr1__free(v->s);
        return status;
    }
    store_key_value(c, k, v);
    return adopt_config_copy(config, c, SR1_OK);
}

sr1_status sr1_config_set(sr1_config *config, const char *key, const char *text)
{
    const struct config_key *k;
    struct config_value v;

    SR1__REQUIRE(config && key && text, "configuration: config, key and text");
    k = sr1__config_key_find(key);
    if (!k)
        return SR1_E_CONFIG;
    SR1__TRY(sr1__config_value_text(k, text, config->of_record, &v));
    if (k == &sr1__config_keys[CONFIG_KEY_compat])
        return store_and_apply_presets(config, k, &v);
    store_key_value(config, k, &v);
    return SR1_OK;
}

sr1_status sr1_config_unset(sr1_config *config, const char *key)
{
    const struct config_key *k;
    struct config_value v;

    SR1__REQUIRE(config && key, "configuration: config and key");
    k = sr1__config_key_find(key);
    if (!k)
        return SR1_E_CONFIG;
    SR1__TRY(sr1__config_value_text(k, k->default_text, 0, &v));
    v.is_set = 0;
    return store_and_apply_presets(config, k, &v);
}

sr1_status sr1_config_set_pair(sr1_config *config, const char *pair)
{
    const char *equals;
    char *key;
    sr1_status status;

    SR1__REQUIRE(config && pair, "configuration: config and pair");
    equals = strchr(pair, '=');
    if (!equals)
        return sr1__fail(SR1_E_CONFIG, "'%.80s' is not of the form key=value", pair);
    key = sr1__strndup(pair, (size_t)(equals - pair));
    SR1__CHECK_ALLOC(key, "configuration key");
    status = sr1_config_set(config, key, equals + 1);
    sr1__free(key);
    return status;
}

/* One member of a file that lies in this folder, "" for a text that is in none. */
static sr1_status set_member(sr1_config *c, json_t *file, const char *name,
                             const json_t *j, const char *folder)
{
    const struct config_key *key = sr1__config_key_find(name);
    struct config_value v;
    sr1_status status;

    if (!key)
        return sr1__config_refuse_names(file, name);
    SR1__TRY(sr1__config_value_json(key, j, c->of_record, &v));
    status = sr1__config_path_beside(key, folder, &v);
    if (status == SR1_OK)
        store_key_value(c, key, &v);
    else
        sr1__free(v.s);
    return status;
}

static sr1_status set_members(sr1_config *c, json_t *object, const json_t *lines,
                              const char *path, const char *folder)
{
    const char *name;
    json_t *j;

    json_object_foreach(object, name, j)
    {
        json_int_t line = json_integer_value(json_object_get(lines, name));
        sr1_status status = set_member(c, object, name, j, folder);

        if (status != SR1_OK && line > 0)
            return sr1__context(status, "%s:%lld", path, (long long)line);
        if (status != SR1_OK)
            return sr1__context(status, "%s", path);
    }
    return SR1_OK;
}

/* Refuse a file of rows or a folder given as a configuration. */
static sr1_status check_config_name(const char *path)
{
    static const char *const rows[] = {".jsonl", ".csv", ".tsv", ".parquet"};
    const char *dot = strrchr(path, '.');

    if (sr1__path_is_dir(path))
        return sr1__fail(SR1_E_IO,
                         "%s is a folder, and a configuration is a file; a run goes on "
                         "with --resume %s, and a model's folder is the value of "
                         "model_name_or_path",
                         path, path);
    for (size_t i = 0; dot && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(dot, rows[i]) == 0)
            return sr1__fail(SR1_E_CONFIG,
                             "%s is a file of rows, not a configuration; a configuration "
                             "names it, as in train_file: %s",
                             path, path);
    return SR1_OK;
}

/* Parse the text, and record the line of each key. JSON is parsed strictly, but its lines
 * are found by reading it as YAML, which includes flat objects. */
static sr1_status parse_config_text(const char *text, size_t n, const char *name,
                                    json_t **object, json_t *lines)
{
    const char *dot = strrchr(name, '.');
    json_t *again = NULL;
    sr1_status status;

    if (!dot || strcmp(dot, ".json") != 0)
        return sr1__yaml_parse_lines(object, lines, text, n, name);
    SR1__TRY(sr1__json_parse(object, text, n, name));
    status = sr1__yaml_parse_lines(&again, lines, text, n, name);
    json_decref(again);
    return status == SR1_E_NOMEM ? status : SR1_OK;
}

/* All keys go into a copy first, so that a bad one changes nothing. */
static sr1_status load_config_object(sr1_config *config, json_t *object,
                                     const json_t *lines, const char *path,
                                     const char *folder)
{
    sr1_config *c = NULL;

    if (!json_is_object(object) && !json_is_null(object))
        return sr1__fail(SR1_E_CONFIG,
                         "%s: a configuration is a mapping from keys to values", path);
    if (json_object_get(object, "architectures") || json_object_get(object, "model_type"))
        return sr1__fail(
            SR1_E_CONFIG,
            "%s describes a model, not a run or a training; name a folder that "
            "sr1-train wrote, or give the model's as model_name_or_path",
            path);
    SR1__TRY(sr1_config_copy(&c, config));
    return adopt_config_copy(config, c, set_members(c, object, lines, path, folder));
}

static sr1_status load_text(sr1_config *c, const char *text, size_t n, const char *name,
                            const char *folder)
{
    json_t *lines = json_object();
    json_t *object = NULL;
    sr1_status status;

    SR1__CHECK_ALLOC(lines, name);
    status = parse_config_text(text, n, name, &object, lines);
    if (status == SR1_OK)
        status = load_config_object(c, object, lines, name, folder);
    json_decref(object);
    json_decref(lines);
    return status;
}

sr1_status sr1__config_load_text(sr1_config *c, const char *text, size_t n,
                                 const char *name)
{
    return load_text(c, text, n, name, "");
}

/* "" for a file in the working folder, whose paths stay as short as they were given. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return sr1__strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
}

sr1_status sr1_config_load(sr1_config *config, const char *path)
{
    char *folder;
    struct sr1__buf b;
    sr1_status status;

    SR1__REQUIRE(config && path, "configuration: config and path");
    SR1__TRY(check_config_name(path));
    SR1__TRY(sr1__file_read(path, MAX_FILE, &b));
    folder = folder_of(path);
    status = folder ? load_text(config, sr1__buf_cstr(&b), b.len, path, folder)
                    : sr1__fail_nomem("path");
    sr1__free(folder);
    sr1__buf_free(&b);
    return status;
}

/* The value of key if its type is in the set `types` (bit t for type t). */
static sr1_status find_typed_value(const sr1_config *c, const char *key, unsigned types,
                                   const char *wanted, const struct config_value **out)
{
    const struct config_key *k;

    SR1__REQUIRE(c && key, "configuration: config and key");
    k = sr1__config_key_find(key);
    if (!k)
        return SR1_E_CONFIG;
    if (!(types >> k->type & 1))
        return sr1__fail(SR1_E_INVALID, "key '%s' is not %s", key, wanted);
    *out = &c->values[k - sr1__config_keys];
    return SR1_OK;
}

#define TYPE(t) (1u << SR1_CONFIG_##t)
#define TEXT_TYPES (TYPE(STRING) | TYPE(LIST) | TYPE(CHOICE) | TYPE(PATH))

sr1_status sr1_config_get_int(const sr1_config *config, const char *key, int64_t *out)
{
    const struct config_value *v = NULL;

    SR1__REQUIRE(out, "configuration: out");
    SR1__TRY(find_typed_value(config, key, TYPE(INT), "a whole number", &v));
    *out = v->i;
    return SR1_OK;
}

sr1_status sr1_config_get_real(const sr1_config *config, const char *key, double *out)
{
    const struct config_value *v = NULL;

    SR1__REQUIRE(out, "configuration: out");
    SR1__TRY(find_typed_value(config, key, TYPE(INT) | TYPE(REAL), "a number", &v));
    *out = v->r;
    return SR1_OK;
}

sr1_status sr1_config_get_bool(const sr1_config *config, const char *key, int32_t *out)
{
    const struct config_value *v = NULL;

    SR1__REQUIRE(out, "configuration: out");
    SR1__TRY(find_typed_value(config, key, TYPE(BOOL), "true or false", &v));
    *out = (int32_t)v->i;
    return SR1_OK;
}

sr1_status sr1_config_get_str(const sr1_config *config, const char *key, const char **out)
{
    const struct config_value *v = NULL;

    SR1__REQUIRE(out, "configuration: out");
    SR1__TRY(find_typed_value(config, key, TEXT_TYPES, "text that can be read", &v));
    *out = v->s;
    return SR1_OK;
}

sr1_status sr1_config_is_set(const sr1_config *config, const char *key, int32_t *out)
{
    const struct config_value *v = NULL;

    SR1__REQUIRE(out, "configuration: out");
    SR1__TRY(find_typed_value(config, key, ~0u, "a key", &v));
    *out = v->is_set;
    return SR1_OK;
}

int sr1__config_is_set(const sr1_config *c, const char *key)
{
    int32_t set = 0;

    (void)sr1_config_is_set(c, key, &set);
    return set;
}

int64_t sr1__config_int(const sr1_config *c, const char *key)
{
    int64_t v = 0;

    (void)sr1_config_get_int(c, key, &v);
    return v;
}

double sr1__config_real(const sr1_config *c, const char *key)
{
    double v = 0.0;

    (void)sr1_config_get_real(c, key, &v);
    return v;
}

int32_t sr1__config_bool(const sr1_config *c, const char *key)
{
    int32_t v = 0;

    (void)sr1_config_get_bool(c, key, &v);
    return v;
}

const char *sr1__config_str(const sr1_config *c, const char *key)
{
    const char *v = "";

    (void)sr1_config_get_str(c, key, &v);
    return v;
}

const char *sr1__config_protocol(const sr1_config *c)
{
    const char *file = sr1__config_str(c, "protocol_file");

    return *file ? file : sr1__config_str(c, "protocol");
}

/* Cut text at its commas, in place. Returns how many items there are. */
static size_t split_list_items(char *text, char **items)
{
    size_t n = 0;

    for (char *at = text; at != NULL && *at != '\0';) {
        char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);

        while (len > 0 && *at == ' ')
            at++, len--;
        while (len > 0 && at[len - 1] == ' ')
            len--;
        items[n++] = at;
        at[len] = '\0';
        at = comma != NULL ? comma + 1 : NULL;
    }
    return n;
}

sr1_status sr1__config_list(const sr1_config *c, const char *key, char ***items,
                            size_t *n)
{
    const char *text = sr1__config_str(c, key);
    size_t len = strlen(text), most = len + 1; /* commas alone have empty items */
    char **block = sr1__calloc(1, most * sizeof(*block) + len + 1);

    SR1__CHECK_ALLOC(block, "list");
    memcpy(block + most, text, len + 1);
    *n = split_list_items((char *)(block + most), block);
    *items = block;
    return SR1_OK;
}

int sr1__config_has_item(const sr1_config *c, const char *key, const char *item)
{
    const char *list = sr1__config_str(c, key);
    size_t n = strlen(item);

    for (const char *at = list; (at = strstr(at, item)) != NULL; at += n)
        if ((at == list || strchr(", ", at[-1])) && strchr(", ", at[n]))
            return 1;
    return 0;
}

int sr1__config_is(const sr1_config *c, const char *key, const char *choice)
{
    return strcmp(sr1__config_str(c, key), choice) == 0;
}

const char *sr1__config_secret(const sr1_config *c, const char *key)
{
    const struct config_key *k = sr1__config_key_find(key);
    const char *v = k && k->type == SR1_CONFIG_SECRET ? getenv(k->choices) : NULL;

    (void)c;
    return v ? v : "";
}

/* A path may hold bytes that JSON cannot; then the run could not be described. */
static sr1_status write_text_value(const struct config_key *key, const char *s,
                                   struct sr1__buf *b)
{
    json_t *j = json_string(s);
    sr1_status status;

    if (!j)
        return sr1__fail(SR1_E_CONFIG,
                         "key '%s': the text is not UTF-8, or out of memory", key->name);
    status = sr1__json_dump(j, 0, b);
    json_decref(j);
    return status;
}

static sr1_status write_key_value(const struct config_key *key,
                                  const struct config_value *v, struct sr1__buf *b)
{
    char number[32];

    switch (key->type) {
    case SR1_CONFIG_BOOL:
        sr1__buf_str(b, v->i ? "true" : "false");
        return SR1_OK;
    case SR1_CONFIG_INT:
        sr1__buf_fmt(b, "%lld", (long long)v->i);
        return SR1_OK;
    case SR1_CONFIG_REAL:
        sr1__format_real(v->r, number);
        sr1__buf_str(b, number);
        return SR1_OK;
    default:
        return write_text_value(key, v->s, b);
    }
}

/* Keys whose default is not all that follows when nobody sets them: the server's own
 * model is asked for, no engine is taken for granted, a tool may choose the score, an
 * adapter that is trained further keeps its own. */
static int default_depends(const struct config_key *key)
{
    static const int keys[] = {CONFIG_KEY_openai_model,    CONFIG_KEY_search_engine,
                               CONFIG_KEY_execution_score, CONFIG_KEY_lora_alpha,
                               CONFIG_KEY_lora_targets,    CONFIG_KEY_greater_is_better};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (key == &sr1__config_keys[keys[i]])
            return 1;
    return 0;
}

/* null stands for a value that was not set and must not come back as one that was. */
static sr1_status write_member_value(const struct config_key *key,
                                     const struct config_value *v, struct sr1__buf *b)
{
    if (v->is_set || !default_depends(key))
        return write_key_value(key, v, b);
    sr1__buf_str(b, "null");
    return SR1_OK;
}

static sr1_status add_values(const sr1_config *c, struct sr1__buf *b)
{
    const char *before = "{\n";

    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const struct config_key *key = &sr1__config_keys[i];

        if (key->type == SR1_CONFIG_SECRET)
            continue;
        sr1__buf_fmt(b, "%s  \"%s\": ", before, key->name);
        SR1__TRY(write_member_value(key, &c->values[i], b));
        before = ",\n";
    }
    sr1__buf_str(b, "\n}\n");
    return sr1__buf_status(b, "configuration");
}

sr1_status sr1_config_to_json(const sr1_config *config, char **out)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__REQUIRE(config && out, "configuration: config and out");
    sr1__buf_init(&b, 0);
    status = add_values(config, &b);
    if (status == SR1_OK)
        *out = sr1__buf_take(&b);
    sr1__buf_free(&b);
    return status;
}

size_t sr1_config_key_count(void)
{
    return CONFIG_N_KEYS;
}

sr1_status sr1_config_key_describe(size_t index, sr1_config_key_info *out)
{
    sr1_config_key_info info = {0};
    const struct config_key *key;

    if (index >= CONFIG_N_KEYS)
        return sr1__fail(SR1_E_INVALID, "key %zu: there are %d", index,
                         (int)CONFIG_N_KEYS);
    key = &sr1__config_keys[index];
    info.name = key->name;
    info.default_text = key->default_text;
    info.choices = key->choices;
    info.help = key->help;
    info.min = key->min;
    info.max = key->max;
    info.type = key->type;
    info.status = key->status;
    return sr1__struct_give(out, &info, sizeof info, "sr1_config_key_info");
}

size_t sr1_config_preset_count(void)
{
    return N_PRESETS;
}

sr1_status sr1_config_preset_describe(size_t index, sr1_config_preset *out)
{
    sr1_config_preset info = {0};

    if (index >= N_PRESETS)
        return sr1__fail(SR1_E_INVALID, "preset %zu: there are %zu", index, N_PRESETS);
    info.compat = presets[index].compat;
    info.key = presets[index].key;
    info.value = presets[index].value;
    return sr1__struct_give(out, &info, sizeof info, "sr1_config_preset");
}
