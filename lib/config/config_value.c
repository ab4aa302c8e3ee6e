/* config/config_value.c - one value: from text or JSON, checked against its key's row. */
#include "config/keys.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "config/added_choices.h"
#include "config/paths.h"

#include <searchr1/ext/config_names.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_TEXT 4096
#define MAX_LIST 65536
#define MAX_DEVICE 63 /* as sr1__device_resolve */

static sr1_status not_allowed(const struct config_key *key, const char *given,
                              const char *allowed)
{
    return sr1__fail(SR1_E_CONFIG, "key '%s': '%.80s' is not allowed; it takes %s",
                     key->name, given, allowed);
}

static sr1_status refuse_secret(const struct config_key *key)
{
    return sr1__fail(
        SR1_E_CONFIG,
        "key '%s' is a secret and is not taken from files or arguments; set the "
        "environment variable %s instead",
        key->name, key->choices);
}

static sr1_status check_key_bounds(const struct config_key *key, double v,
                                   const char *given)
{
    char low[32], high[32], allowed[128];

    if (v >= key->min && v <= key->max)
        return SR1_OK;
    sr1__format_real(key->min, low);
    sr1__format_real(key->max, high);
    snprintf(allowed, sizeof allowed, "%s from %s to %s",
             key->type == SR1_CONFIG_INT ? "a whole number" : "a number", low, high);
    return not_allowed(key, given, allowed);
}

/* "True" is Python's, and what its command lines pass on. */
static sr1_status parse_bool(const struct config_key *key, const char *text,
                             struct config_value *v)
{
    int yes = strcasecmp(text, "true") == 0;

    if (!yes && strcasecmp(text, "false") != 0)
        return not_allowed(key, text, "true or false");
    v->i = yes;
    return SR1_OK;
}

/* The word of some numbers for 0. */
static int is_zero_word(const struct config_key *key, const char *text)
{
    return key->type == SR1_CONFIG_INT && key->choices && strcmp(text, key->choices) == 0;
}

/* 1e6 is as good as 1000000. */
static sr1_status parse_int(const struct config_key *key, const char *text,
                            struct config_value *v)
{
    double r;

    if (is_zero_word(key, text))
        text = "0";
    if (!sr1__parse_int(text, strlen(text), &v->i)) {
        if (!sr1__parse_real(text, strlen(text), &r) || r != floor(r))
            return not_allowed(
                key, text, key->choices ? "a whole number or auto" : "a whole number");
        SR1__TRY(check_key_bounds(key, r, text));
        v->i = (int64_t)r;
    }
    v->r = (double)v->i;
    return check_key_bounds(key, v->r, text);
}

static sr1_status parse_real(const struct config_key *key, const char *text,
                             struct config_value *v)
{
    if (!sr1__parse_real(text, strlen(text), &v->r))
        return not_allowed(key, text, "a number");
    return check_key_bounds(key, v->r, text);
}

/* A choice by its name in torch and transformers, where the key lists it. */
static const char *resolve_choice(const struct config_key *key, const char *text)
{
    static const struct {
        const char *name, *choice;
    } rows[] = {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(text, rows[i].name) == 0 && sr1__config_lists(key, rows[i].choice))
            return rows[i].choice;
    return text;
}

/* Is text the choice of n characters at c? One that ends with ":N" is any number from 0
 * to 63 there, as written in full. */
static int matches_choice(const char *c, size_t n, const char *text)
{
    int64_t number;

    if (n < 2 || strncmp(c + n - 2, ":N", 2) != 0)
        return strlen(text) == n && strncmp(c, text, n) == 0;
    if (strncmp(c, text, n - 1) != 0 || text[n - 1] < '0' || text[n - 1] > '9')
        return 0;
    text += n - 1;
    return (text[0] != '0' || text[1] == '\0') &&
           sr1__parse_int(text, strlen(text), &number) && number <= MAX_DEVICE;
}

int sr1__config_lists(const struct config_key *key, const char *text)
{
    for (const char *c = key->choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (matches_choice(c, strcspn(c, "|"), text))
            return 1;
    return 0;
}

sr1_status sr1__config_check_choice(const struct config_key *key, const char *text)
{
    const char *how = sr1__added_choice_how(key->name);
    char allowed[512];

    if (sr1__config_lists(key, text) || sr1__added_choice_find(key->name, text))
        return SR1_OK;
    snprintf(allowed, sizeof allowed, "one of %s%s%s%s", key->choices,
             how ? ", or one that the program registered before (" : "", how ? how : "",
             how ? ")" : "");
    return not_allowed(key, text, allowed);
}

static sr1_status parse_text_value(const struct config_key *key, const char *text,
                                   int of_record, struct config_value *v)
{
    size_t n = strlen(text);
    size_t most = key->type == SR1_CONFIG_LIST ? MAX_LIST : MAX_TEXT;
    int is_bytes = key->type == SR1_CONFIG_PATH || sr1__config_is_path_list(key);

    if (n > most)
        return sr1__fail(SR1_E_CONFIG,
                         "key '%s': text of %zu bytes; at most %zu are allowed",
                         key->name, n, most);
    if (is_bytes && !of_record && text[0] == '~' && (!text[1] || strchr(text, '/')))
        return sr1__fail(SR1_E_CONFIG,
                         "key '%s': only a shell expands ~, at the beginning of a word; "
                         "write the path out (./%s for a file of this name)",
                         key->name, text);
    /* A path is bytes to the system; every other text must be readable. */
    if (!is_bytes && !sr1__utf8_valid(text, n))
        return sr1__fail(SR1_E_CONFIG, "key '%s': the text is not UTF-8", key->name);
    if (key->type == SR1_CONFIG_CHOICE)
        text = resolve_choice(key, text);
    if (key->type == SR1_CONFIG_CHOICE &&
        !(of_record && sr1__added_choice_may_be(key->name, text)))
        SR1__TRY(sr1__config_check_choice(key, text));
    v->s = sr1__strdup(text);
    return v->s ? SR1_OK : sr1__fail_nomem("configuration value");
}

/* Keys to come are accepted at their default, so that a saved configuration loads. */
static sr1_status check_later(const struct config_key *key, const char *text)
{
    if (key->status == SR1_CONFIG_LIVE || strcmp(text, key->default_text) == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "key '%s' belongs to a feature this version does not have yet (%s); "
                     "leave it at '%s'",
                     key->name, key->help, key->default_text);
}

sr1_status sr1__config_value_text(const struct config_key *key, const char *text,
                                  int of_record, struct config_value *out)
{
    struct config_value v = {0};

    v.is_set = 1;
    switch (key->type) {
    case SR1_CONFIG_SECRET:
        return refuse_secret(key);
    case SR1_CONFIG_BOOL:
        SR1__TRY(parse_bool(key, text, &v));
        break;
    case SR1_CONFIG_INT:
        SR1__TRY(parse_int(key, text, &v));
        break;
    case SR1_CONFIG_REAL:
        SR1__TRY(parse_real(key, text, &v));
        break;
    default:
        break;
    }
    SR1__TRY(check_later(key, text));
    if (key->type >= SR1_CONFIG_STRING)
        SR1__TRY(parse_text_value(key, text, of_record, &v));
    *out = v;
    return SR1_OK;
}

static sr1_status wrong_shape(const struct config_key *key, const json_t *given)
{
    static const char *const wanted[] = {"true or false",
                                         "a whole number",
                                         "a number",
                                         "text (put it in quotes)",
                                         "a list or text with commas",
                                         "text",
                                         "text (put it in quotes)",
                                         "nothing"};

    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    status = sr1__json_dump(given, 0, &b);
    if (status == SR1_OK)
        status = sr1__fail(SR1_E_CONFIG, "key '%s' takes %s, and the file gives %.60s%s",
                           key->name, wanted[key->type], sr1__buf_cstr(&b),
                           b.len > 60 ? " ..." : "");
    sr1__buf_free(&b);
    return status;
}

/* An item of a list that its comma would cut in two. */
static sr1_status refuse_comma(const struct config_key *key, const char *item)
{
    return sr1__fail(
        SR1_E_CONFIG,
        "key '%s': '%.200s' has a comma, and commas are between the items of "
        "a list; give each as an item of its own, and a file with a comma in "
        "its name another name, or a link to it",
        key->name, item);
}

/* Append a string or number of a list. */
static sr1_status add_item(const struct config_key *key, const json_t *item,
                           struct sr1__buf *b)
{
    char number[32];

    if (b->len > 0)
        sr1__buf_char(b, ',');
    if (json_is_integer(item)) {
        sr1__buf_fmt(b, "%lld", (long long)json_integer_value(item));
    } else if (json_is_real(item)) {
        sr1__format_real(json_real_value(item), number);
        sr1__buf_str(b, number);
    } else if (json_is_string(item) &&
               strlen(json_string_value(item)) == json_string_length(item)) {
        if (strchr(json_string_value(item), ','))
            return refuse_comma(key, json_string_value(item));
        sr1__buf_str(b, json_string_value(item));
    } else {
        return wrong_shape(key, item);
    }
    return SR1_OK;
}

/* The text by which sr1__config_value_text would be given the same value. */
static sr1_status json_text(const struct config_key *key, const json_t *j,
                            struct sr1__buf *b)
{
    int is_text = key->type >= SR1_CONFIG_STRING;

    if (json_is_null(j)) {
        sr1__buf_str(b, key->default_text);
    } else if (json_is_array(j) && key->type == SR1_CONFIG_LIST) {
        for (size_t i = 0; i < json_array_size(j); i++)
            SR1__TRY(add_item(key, json_array_get(j, i), b));
    } else if (json_is_boolean(j) && key->type == SR1_CONFIG_BOOL) {
        sr1__buf_str(b, json_is_true(j) ? "true" : "false");
    } else if (json_is_string(j) &&
               (is_text || is_zero_word(key, json_string_value(j)))) {
        if (strlen(json_string_value(j)) != json_string_length(j))
            return wrong_shape(key, j);
        sr1__buf_str(b, json_string_value(j));
    } else if (json_is_number(j) &&
               (key->type == SR1_CONFIG_INT || key->type == SR1_CONFIG_REAL ||
                key->type == SR1_CONFIG_LIST)) {
        SR1__TRY(add_item(key, j, b));
    } else {
        return wrong_shape(key, j);
    }
    return sr1__buf_status(b, "configuration value");
}

sr1_status sr1__config_value_json(const struct config_key *key, const json_t *j,
                                  int of_record, struct config_value *out)
{
    struct sr1__buf b;
    sr1_status status;

    if (key->type == SR1_CONFIG_SECRET)
        return refuse_secret(key);
    sr1__buf_init(&b, 1 << 20);
    status = json_text(key, j, &b);
    if (status == SR1_OK)
        status = sr1__config_value_text(key, sr1__buf_cstr(&b), of_record, out);
    if (status == SR1_OK)
        out->is_set = !json_is_null(j);
    sr1__buf_free(&b);
    return status;
}
