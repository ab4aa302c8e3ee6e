/* environment/env/call_form.c - calls of tools as models write them: as JSON, as Qwen3's
 * coder models do in tags,
 *
 *     <function=NAME>
 *     <parameter=KEY>
 *     VALUE
 *     </parameter>
 *     </function>
 */
#include "environment/env/call_form.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"

#include <searchr1/ext/protocol.h>

#include <string.h>

/* ---- JSON ---- */

static sr1_status parse_json_call(const char *text, size_t len, const char *arguments,
                                  json_t **out)
{
    (void)arguments;
    return sr1__json_parse(out, text, len, "tool call");
}

/* ---- tags ---- */

/* What is left of a call. */
struct tag_reader {
    const char *at, *end;
};

static void skip_blanks(struct tag_reader *r)
{
    while (r->at < r->end && sr1__is_json_space(*r->at))
        r->at++;
}

/* Take this text if it is next, after blanks. */
static int take_text(struct tag_reader *r, const char *text)
{
    size_t n = strlen(text);

    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return 0;
    r->at += n;
    return 1;
}

/* Take all up to this text, and the text. */
static int take_until(struct tag_reader *r, const char *text, const char **from,
                      size_t *len)
{
    const char *found = memmem(r->at, (size_t)(r->end - r->at), text, strlen(text));

    if (!found)
        return 0;
    *from = r->at;
    *len = (size_t)(found - r->at);
    r->at = found + strlen(text);
    return 1;
}

/* Without the line ends that the tags stand on. */
static void strip_line_ends(const char **text, size_t *len)
{
    if (*len > 0 && (*text)[0] == '\n') {
        ++*text;
        --*len;
    }
    if (*len > 0 && (*text)[*len - 1] == '\n')
        --*len;
}

static sr1_status set_parameter(json_t *args, const char *key, size_t key_len,
                                const char *value, size_t value_len)
{
    char *name;
    json_t *text;
    int failed;

    if (!sr1__utf8_valid(key, key_len) || !sr1__utf8_valid(value, value_len))
        return sr1__fail(SR1_E_PARSE, "tool call: a parameter is not UTF-8");
    name = sr1__strndup(key, key_len);
    text = json_stringn(value, value_len);
    failed = !name || !text || json_object_set(args, name, text) != 0;
    json_decref(text);
    sr1__free(name);
    return failed ? sr1__fail_nomem("tool call") : SR1_OK;
}

/* 0: no parameter stands there, or not a whole one. */
static int read_parameter(struct tag_reader *r, json_t *args, sr1_status *st)
{
    const char *key, *value;
    size_t key_len, value_len;

    if (!take_text(r, "<parameter=") || !take_until(r, ">", &key, &key_len) ||
        !take_until(r, "</parameter>", &value, &value_len))
        return 0;
    strip_line_ends(&value, &value_len);
    *st = set_parameter(args, key, key_len, value, value_len);
    return *st == SR1_OK;
}

static sr1_status parse_tag_call(const char *text, size_t len, const char *arguments,
                                 json_t **out)
{
    struct tag_reader r = {text, text + len};
    const char *name;
    size_t name_len;
    json_t *args;
    sr1_status st = SR1_OK;

    if (!take_text(&r, "<function=") || !take_until(&r, ">", &name, &name_len))
        return sr1__fail(SR1_E_PARSE, "tool call: no <function=");
    args = json_object();
    SR1__CHECK_ALLOC(args, "tool call");
    while (read_parameter(&r, args, &st))
        ;
    if (st == SR1_OK && !take_text(&r, "</function>"))
        st = sr1__fail(SR1_E_PARSE, "tool call: no </function>");
    if (st == SR1_OK && !sr1__utf8_valid(name, name_len))
        st = sr1__fail(SR1_E_PARSE, "tool call: its name is not UTF-8");
    if (st == SR1_OK)
        *out = json_pack("{s:s%, s:O}", "name", name, name_len, arguments, args);
    if (st == SR1_OK && !*out)
        st = sr1__fail_nomem("tool call");
    json_decref(args);
    return st;
}

/* ---- types ---- */

/* Does the schema of a member allow a string? */
static int may_be_string(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    size_t i;

    if (json_is_string(type))
        return strcmp(json_string_value(type), "string") == 0;
    for (i = 0; i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) &&
            strcmp(json_string_value(json_array_get(type, i)), "string") == 0)
            return 1;
    return type == NULL && !json_object_get(schema, "anyOf") &&
           !json_object_get(schema, "oneOf") && !json_object_get(schema, "$ref");
}

sr1_status sr1__call_form_type_arguments(json_t *args, const json_t *schema)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *name;
    json_t *text, *value;
    void *next;

    json_object_foreach_safe(args, next, name, text)
    {
        const json_t *member = json_object_get(properties, name);
        sr1_status st;

        if (!json_is_string(text) || (schema && (!member || may_be_string(member))))
            continue;
        st = sr1__json_parse(&value, json_string_value(text), json_string_length(text),
                             "a parameter");
        if (st == SR1_E_NOMEM)
            return st;
        if (st == SR1_OK && json_object_set_new(args, name, value) != 0)
            return sr1__fail_nomem("tool call");
    }
    return SR1_OK;
}

/* ---- the table ---- */

static const struct sr1__call_form forms[] = {
    {.name = "json",
     .wrong = "is not valid JSON",
     .example = "{\"name\": ..., \"%s\": {...}}",
     .parse = parse_json_call},
    {.name = "xml",
     .wrong = "cannot be read",
     .example = "<function=NAME>, for each of its %s <parameter=KEY> VALUE </parameter>, "
                "and </function>",
     .parse = parse_tag_call,
     .untyped = 1},
};

static const char *form_name(size_t i)
{
    return i < sizeof forms / sizeof forms[0] ? forms[i].name : NULL;
}

const struct sr1__call_form *sr1__call_form_find(const char *name)
{
    size_t i;

    if (name == NULL)
        return &forms[0];
    for (i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    sr1__fail_unknown("form of calls", name, form_name);
    return NULL;
}

/* ---- a call in whichever form ---- */

/* The member that published models call arguments, or else the first beside the name that
 * is an object; NULL: none is. */
static json_t *find_arguments(const json_t *call)
{
    static const char *const names[] = {"arguments", "parameters", "args"};
    const char *name;
    json_t *value;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((value = json_object_get(call, names[i])) != NULL)
            return value;
    json_object_foreach((json_t *)call, name, value)
    {
        if (json_is_object(value) && strcmp(name, "name") != 0)
            return value;
    }
    return NULL;
}

/* A call by one form as "name" and "arguments". SR1_E_PARSE: it is none of that form. */
static sr1_status read_call(const struct sr1__call_form *form, const char *text,
                            size_t len, json_t **out)
{
    json_t *call = NULL, *args;
    const json_t *name;
    sr1_status st;

    SR1__TRY(form->parse(text, len, "arguments", &call));
    name = json_object_get(call, "name");
    args = find_arguments(call);
    st = json_is_string(name) && (!args || json_is_object(args))
             ? SR1_OK
             : sr1__fail(SR1_E_PARSE, "tool call: no name, or arguments that are no "
                                      "object");
    if (st == SR1_OK && args && form->untyped)
        st = sr1__call_form_type_arguments(args, NULL);
    if (st == SR1_OK) {
        *out = json_pack("{s:O, s:o}", "name", name, "arguments",
                         args ? json_incref(args) : json_object());
        st = *out ? SR1_OK : sr1__fail_nomem("tool call");
    }
    json_decref(call);
    return st;
}

sr1_status sr1_tool_call_parse(const char *text, size_t len, char **json)
{
    sr1_status st = SR1_E_PARSE;
    json_t *call = NULL;
    struct sr1__buf made;

    SR1__REQUIRE((text || !len) && json, "tool call: text and json");
    for (size_t i = 0; st == SR1_E_PARSE && form_name(i); i++)
        st = read_call(&forms[i], text ? text : "", len, &call);
    SR1__TRY(st);
    sr1__buf_init(&made, 0);
    st = sr1__json_dump(call, 0, &made);
    json_decref(call);
    if (st == SR1_OK)
        return sr1__buf_finish(&made, "tool call", json);
    sr1__buf_free(&made);
    return st;
}

/* ---- several JSON values ---- */

/* Bytes of the object that s[0..n) begins with; 0: it is none, or not a whole one. */
static size_t measure_object(const char *s, size_t n)
{
    int depth = 0, in_text = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (in_text) {
            in_text = s[i] != '"';
            i += s[i] == '\\';
            continue;
        }
        in_text = s[i] == '"';
        depth += s[i] == '{' || s[i] == '[';
        depth -= s[i] == '}' || s[i] == ']';
        if (depth == 0)
            return s[0] == '{' ? i + 1 : 0;
    }
    return 0;
}

size_t sr1__json_values_split(const char *text, size_t len, size_t i, size_t *n)
{
    size_t at = len > 1 && text[0] == '[' && text[len - 1] == ']', found = 0;

    for (;; i--) {
        while (at < len && strchr(" \t\r\n,;", text[at]) && text[at])
            at++;
        found = measure_object(text + at, len - at);
        if (found == 0 || i == 0)
            break;
        at += found;
    }
    *n = i == 0 ? found : 0;
    if (i > 0 || found > 0)
        return at;
    *n = at == 0 || (at == 1 && text[0] == '[') ? len : 0;
    return 0;
}
