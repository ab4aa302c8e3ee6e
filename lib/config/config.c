/* config/config.c - the configuration: values by key, files, saved form. */
#include "config/keys.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/struct.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 20)

struct sr1_config {
    struct config_value values[CONFIG_N_KEYS];
};

static struct config_value *value_of(sr1_config *c, const struct config_key *key)
{
    return &c->values[key - sr1__config_keys];
}

static void put(sr1_config *c, const struct config_key *key, const struct config_value *v)
{
    struct config_value *old = value_of(c, key);

    sr1__free(old->s);
    *old = *v;
}

sr1_status sr1_config_new(sr1_config **out)
{
    sr1_config *c = sr1__calloc(1, sizeof *c);

    if (!c)
        return sr1__fail_nomem("configuration");
    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const struct config_key *key = &sr1__config_keys[i];
        sr1_status status = SR1_OK;

        if (key->type != SR1_CONFIG_SECRET)
            status = sr1__config_value_text(key, key->default_text, &c->values[i]);
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
    sr1__free(config);
}

sr1_status sr1_config_copy(sr1_config **out, const sr1_config *config)
{
    sr1_config *c = sr1__calloc(1, sizeof *c);

    if (!c)
        return sr1__fail_nomem("configuration");
    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const char *s = config->values[i].s;

        c->values[i] = config->values[i];
        c->values[i].s = s ? sr1__strdup(s) : NULL;
        if (s && !c->values[i].s) {
            sr1_config_free(c);
            return sr1__fail_nomem("configuration");
        }
    }
    *out = c;
    return SR1_OK;
}

/* ---- presets ---- */

/* What a value of `compat` makes of the defaults of other keys. */
static const struct preset {
    const char *compat, *key, *value;
} presets[] = {
#define PRESET(compat, key, value) {compat, key, value},
#include "config/compat.def"
#undef PRESET
};

#define N_PRESETS (sizeof presets / sizeof presets[0])

/* The default of a key that some preset names, under this value of compat. */
static const char *default_under(const char *compat, const struct config_key *key)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].compat, compat) == 0 &&
            strcmp(presets[i].key, key->name) == 0)
            return presets[i].value;
    return key->default_text;
}

/* New defaults for what the user has not set. */
static sr1_status apply_presets(sr1_config *c)
{
    const char *compat = c->values[CONFIG_KEY_compat].s;

    for (size_t i = 0; i < N_PRESETS; i++) {
        const struct config_key *key = sr1__config_key_find(presets[i].key);
        struct config_value v;

        if (!key)
            return SR1_E_CONFIG;
        if (value_of(c, key)->is_set)
            continue;
        SR1__TRY(sr1__config_value_text(key, default_under(compat, key), &v));
        v.is_set = 0;
        put(c, key, &v);
    }
    return SR1_OK;
}

/* Let *c, a changed copy of config, take its place, presets applied; frees the other. */
static sr1_status adopt(sr1_config *config, sr1_config *c, sr1_status status)
{
    if (status == SR1_OK)
        status = apply_presets(c);
    if (status == SR1_OK) {
        sr1_config t = *config;

        *config = *c;
        *c = t;
    }
    sr1_config_free(c);
    return status;
}

/* ---- setting ---- */

static sr1_status set_compat(sr1_config *config, const struct config_value *v)
{
    sr1_config *c = NULL;
    sr1_status status = sr1_config_copy(&c, config);

    if (status != SR1_OK) {
        sr1__free(v->s);
        return status;
    }
    put(c, &sr1__config_keys[CONFIG_KEY_compat], v);
    return adopt(config, c, SR1_OK);
}

sr1_status sr1_config_set(sr1_config *config, const char *key, const char *text)
{
    const struct config_key *k = sr1__config_key_find(key);
    struct config_value v;

    if (!k)
        return SR1_E_CONFIG;
    SR1__TRY(sr1__config_value_text(k, text, &v));
    if (k == &sr1__config_keys[CONFIG_KEY_compat])
        return set_compat(config, &v);
    put(config, k, &v);
    return SR1_OK;
}

sr1_status sr1_config_set_pair(sr1_config *config, const char *pair)
{
    const char *equals = strchr(pair, '=');
    char *key;
    sr1_status status;

    if (!equals)
        return sr1__fail(SR1_E_CONFIG, "'%.80s' is not of the form key=value", pair);
    key = sr1__strndup(pair, (size_t)(equals - pair));
    if (!key)
        return sr1__fail_nomem("configuration key");
    status = sr1_config_set(config, key, equals + 1);
    sr1__free(key);
    return status;
}

static sr1_status set_members(sr1_config *c, json_t *object, const json_t *lines,
                              const char *path)
{
    const char *name;
    json_t *j;

    json_object_foreach(object, name, j)
    {
        const struct config_key *key = sr1__config_key_find(name);
        json_int_t line = json_integer_value(json_object_get(lines, name));
        struct config_value v;
        sr1_status status = key ? sr1__config_value_json(key, j, &v) : SR1_E_CONFIG;

        if (status != SR1_OK && line > 0)
            return sr1__context(status, "%s:%lld", path, (long long)line);
        if (status != SR1_OK)
            return sr1__context(status, "%s", path);
        put(c, key, &v);
    }
    return SR1_OK;
}

/* Parse the text, and note on which line each key stands. JSON is strict here, but its
 * lines are found by reading it as YAML, of which a flat object is a part. */
static sr1_status parse_text(const char *text, size_t n, const char *name,
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
static sr1_status load_object(sr1_config *config, json_t *object, const json_t *lines,
                              const char *path)
{
    sr1_config *c = NULL;

    if (!json_is_object(object) && !json_is_null(object))
        return sr1__fail(SR1_E_CONFIG,
                         "%s: a configuration is a mapping from keys to values", path);
    SR1__TRY(sr1_config_copy(&c, config));
    return adopt(config, c, set_members(c, object, lines, path));
}

sr1_status sr1__config_load_text(sr1_config *c, const char *text, size_t n,
                                 const char *name)
{
    json_t *lines = json_object();
    json_t *object = NULL;
    sr1_status status;

    if (!lines)
        return sr1__fail_nomem(name);
    status = parse_text(text, n, name, &object, lines);
    if (status == SR1_OK)
        status = load_object(c, object, lines, name);
    json_decref(object);
    json_decref(lines);
    return status;
}

sr1_status sr1_config_load(sr1_config *config, const char *path)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, MAX_FILE, &b));
    status = sr1__config_load_text(config, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    return status;
}

/* The value of key if its type is in the set `types` (bit t for type t). */
static sr1_status look_up(const sr1_config *c, const char *key, unsigned types,
                          const char *wanted, const struct config_value **out)
{
    const struct config_key *k = sr1__config_key_find(key);

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

    SR1__TRY(look_up(config, key, TYPE(INT), "a whole number", &v));
    *out = v->i;
    return SR1_OK;
}

sr1_status sr1_config_get_real(const sr1_config *config, const char *key, double *out)
{
    const struct config_value *v = NULL;

    SR1__TRY(look_up(config, key, TYPE(INT) | TYPE(REAL), "a number", &v));
    *out = v->r;
    return SR1_OK;
}

sr1_status sr1_config_get_bool(const sr1_config *config, const char *key, int32_t *out)
{
    const struct config_value *v = NULL;

    SR1__TRY(look_up(config, key, TYPE(BOOL), "true or false", &v));
    *out = (int32_t)v->i;
    return SR1_OK;
}

sr1_status sr1_config_get_str(const sr1_config *config, const char *key, const char **out)
{
    const struct config_value *v = NULL;

    SR1__TRY(look_up(config, key, TEXT_TYPES, "text that can be read", &v));
    *out = v->s;
    return SR1_OK;
}

sr1_status sr1_config_is_set(const sr1_config *config, const char *key, int32_t *out)
{
    const struct config_value *v = NULL;

    SR1__TRY(look_up(config, key, ~0u, "a key", &v));
    *out = v->is_set;
    return SR1_OK;
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

/* Cut text at its commas, in place. Returns how many items there are. */
static size_t cut(char *text, char **items)
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

    if (block == NULL)
        return sr1__fail_nomem("list");
    memcpy(block + most, text, len + 1);
    *n = cut((char *)(block + most), block);
    *items = block;
    return SR1_OK;
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
static sr1_status add_text(const struct config_key *key, const char *s,
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

static sr1_status add_value(const struct config_key *key, const struct config_value *v,
                            struct sr1__buf *b)
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
        return add_text(key, v->s, b);
    }
}

static sr1_status add_values(const sr1_config *c, struct sr1__buf *b)
{
    const char *before = "{\n";

    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        const struct config_key *key = &sr1__config_keys[i];

        if (key->type == SR1_CONFIG_SECRET)
            continue;
        sr1__buf_fmt(b, "%s  \"%s\": ", before, key->name);
        SR1__TRY(add_value(key, &c->values[i], b));
        before = ",\n";
    }
    sr1__buf_str(b, "\n}\n");
    return sr1__buf_status(b, "configuration");
}

sr1_status sr1_config_to_json(const sr1_config *config, char **out)
{
    struct sr1__buf b;
    sr1_status status;

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
