/* environment/env/schema.c - schemas are checked once, when a tool is registered; values
 * against them with every call (schema_fits.c).
 *
 * Supported are the keywords of JSON Schema (2020-12, validation and applicator
 * vocabularies) that MCP servers and pydantic write, and references within the schema.
 * Two things differ from the standard, both so that a misspelt argument is noticed:
 * members that are not in properties are wrong unless additionalProperties allows them or
 * the schema is put together (allOf, anyOf, oneOf, $ref), and an integer is one by its
 * form (3, not 3.0). */
#include "environment/env/schema_internal.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_NODES 4096 /* schemas within one */
#define MAX_PATTERN 1024

/* ---- types ---- */

static const struct sr1__schema_type types[] = {
    {"string", "a string", 1u << JSON_STRING},
    {"integer", "an integer", 1u << JSON_INTEGER},
    {"number", "a number", 1u << JSON_INTEGER | 1u << JSON_REAL},
    {"boolean", "true or false", 1u << JSON_TRUE | 1u << JSON_FALSE},
    {"array", "a list", 1u << JSON_ARRAY},
    {"object", "an object", 1u << JSON_OBJECT},
    {"null", "null", 1u << JSON_NULL},
};

#define N_TYPES (sizeof types / sizeof types[0])

const struct sr1__schema_type *sr1__schema_type_find(const char *name)
{
    size_t i;

    for (i = 0; name != NULL && i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const struct sr1__schema_type *sr1__schema_type_of_value(const json_t *v)
{
    size_t i;

    for (i = 0; !(types[i].kinds >> json_typeof(v) & 1u);)
        i++;
    return &types[i];
}

/* ---- references and patterns ---- */

/* The next part of a JSON pointer, "~1" and "~0" decoded; 0: it is too long. */
static int read_pointer_part(const char **at, char part[256])
{
    size_t n = 0;

    for (; **at && **at != '/'; ++*at) {
        char c = **at;

        if (n + 1 >= 256)
            return 0;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
            c = *++*at == '0' ? '~' : '/';
        part[n++] = c;
    }
    part[n] = '\0';
    return 1;
}

static const json_t *find_pointer_part(const json_t *in, const char *part)
{
    size_t i = 0, k;

    if (json_is_object(in))
        return json_object_get(in, part);
    for (k = 0; part[k] >= '0' && part[k] <= '9' && k < 6; k++)
        i = 10 * i + (size_t)(part[k] - '0');
    return k > 0 && !part[k] ? json_array_get(in, i) : NULL;
}

const json_t *sr1__schema_resolve(const json_t *root, const char *ref)
{
    const json_t *at = root;
    char part[256];

    if (!ref || ref[0] != '#' || (ref[1] && ref[1] != '/'))
        return NULL;
    for (ref++; at && *ref == '/';) {
        ref++;
        at = read_pointer_part(&ref, part) ? find_pointer_part(at, part) : NULL;
    }
    return at;
}

sr1_status sr1__schema_pattern(pcre2_code **out, const char *pattern, size_t n)
{
    PCRE2_UCHAR why[128];
    PCRE2_SIZE at;
    int error;

    if (n > MAX_PATTERN)
        return sr1__fail(SR1_E_LIMIT, "a pattern is longer than %d bytes", MAX_PATTERN);
    *out = pcre2_compile((PCRE2_SPTR)pattern, n,
                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                             PCRE2_MATCH_UNSET_BACKREF,
                         &error, &at, NULL);
    if (*out)
        return SR1_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED)
        return sr1__fail_nomem("pattern");
    pcre2_get_error_message(error, why, sizeof why);
    return sr1__fail(SR1_E_INVALID, "the pattern '%.64s' at %zu: %s", pattern, (size_t)at,
                     (const char *)why);
}

/* ---- checking a schema ---- */

/* The whole schema, and those within it that were checked. */
struct checked {
    const json_t *root;
    const json_t **nodes; /* [n] */
    size_t n, cap;
};

static sr1_status check_schema(struct checked *c, const json_t *schema, const char *where,
                               int depth);

typedef sr1_status check_fn(struct checked *c, const json_t *v, const char *name,
                            const char *where, int depth);

static sr1_status check_type(struct checked *c, const json_t *v, const char *name,
                             const char *where, int depth)
{
    size_t n = json_array_size(v), i;
    int known =
        json_is_array(v) ? n > 0 : sr1__schema_type_find(json_string_value(v)) != NULL;

    (void)c;
    (void)name;
    (void)depth;
    for (i = 0; i < n; i++)
        known &= sr1__schema_type_find(json_string_value(json_array_get(v, i))) != NULL;
    if (!known)
        return sr1__fail(SR1_E_INVALID,
                         "%s: type must be one of string, integer, number, boolean, "
                         "array, object, null, or a list of them",
                         where);
    return SR1_OK;
}

/* Schemas by name. */
static sr1_status check_schemas(struct checked *c, const json_t *v, const char *name,
                                const char *where, int depth)
{
    const char *what = strcmp(name, "properties") == 0 ? "property" : name;
    const char *key;
    json_t *member;

    if (!json_is_object(v))
        return sr1__fail(SR1_E_INVALID, "%s: %s must be an object", where, name);
    json_object_foreach((json_t *)(uintptr_t)v, key, member) SR1__TRY(sr1__context(
        check_schema(c, member, "schema", depth + 1), "%s '%.64s'", what, key));
    return SR1_OK;
}

static sr1_status check_pattern(struct checked *c, const json_t *v, const char *name,
                                const char *where, int depth)
{
    pcre2_code *code = NULL;

    (void)c;
    (void)depth;
    if (!json_is_string(v))
        return sr1__fail(SR1_E_INVALID, "%s: %s must be text", where, name);
    SR1__TRY(sr1__context(
        sr1__schema_pattern(&code, json_string_value(v), json_string_length(v)), "%s",
        where));
    pcre2_code_free(code);
    return SR1_OK;
}

static sr1_status check_pattern_schemas(struct checked *c, const json_t *v,
                                        const char *name, const char *where, int depth)
{
    const char *key;
    json_t *member;

    SR1__TRY(check_schemas(c, v, name, where, depth));
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        pcre2_code *code = NULL;

        SR1__TRY(sr1__context(sr1__schema_pattern(&code, key, strlen(key)), "%s", where));
        pcre2_code_free(code);
    }
    return SR1_OK;
}

/* A list of schemas that is not empty. */
static sr1_status check_alternatives(struct checked *c, const json_t *v, const char *name,
                                     const char *where, int depth)
{
    size_t i;

    if (json_array_size(v) == 0)
        return sr1__fail(SR1_E_INVALID, "%s: %s must be a list of schemas", where, name);
    for (i = 0; i < json_array_size(v); i++)
        SR1__TRY(sr1__context(check_schema(c, json_array_get(v, i), "schema", depth + 1),
                              "%s %zu", name, i + 1));
    return SR1_OK;
}

static sr1_status check_one_schema(struct checked *c, const json_t *v, const char *name,
                                   const char *where, int depth)
{
    (void)where;
    return sr1__context(check_schema(c, v, "schema", depth + 1), "%s", name);
}

static sr1_status check_required(struct checked *c, const json_t *v, const char *name,
                                 const char *where, int depth)
{
    size_t i;

    (void)c;
    (void)name;
    (void)depth;
    for (i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            break;
    if (!json_is_array(v) || i < json_array_size(v))
        return sr1__fail(SR1_E_INVALID, "%s: required must be a list of names", where);
    return SR1_OK;
}

static sr1_status check_enum(struct checked *c, const json_t *v, const char *name,
                             const char *where, int depth)
{
    (void)c;
    (void)name;
    (void)depth;
    if (json_array_size(v) == 0)
        return sr1__fail(SR1_E_INVALID, "%s: enum must be a list that is not empty",
                         where);
    return SR1_OK;
}

static sr1_status check_number(struct checked *c, const json_t *v, const char *name,
                               const char *where, int depth)
{
    (void)c;
    (void)depth;
    if (!json_is_number(v))
        return sr1__fail(SR1_E_INVALID, "%s: %s must be a number", where, name);
    if (strcmp(name, "multipleOf") == 0 && !(json_number_value(v) > 0))
        return sr1__fail(SR1_E_INVALID, "%s: multipleOf must be above 0", where);
    return SR1_OK;
}

static sr1_status check_count(struct checked *c, const json_t *v, const char *name,
                              const char *where, int depth)
{
    (void)c;
    (void)depth;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return sr1__fail(SR1_E_INVALID, "%s: %s must be a whole number, 0 or more", where,
                         name);
    return SR1_OK;
}

static sr1_status check_boolean(struct checked *c, const json_t *v, const char *name,
                                const char *where, int depth)
{
    (void)c;
    (void)depth;
    if (!json_is_boolean(v))
        return sr1__fail(SR1_E_INVALID, "%s: %s must be true or false", where, name);
    return SR1_OK;
}

static sr1_status check_text_keyword(struct checked *c, const json_t *v, const char *name,
                                     const char *where, int depth)
{
    (void)c;
    (void)depth;
    if (!json_is_string(v))
        return sr1__fail(SR1_E_INVALID, "%s: %s must be text", where, name);
    return SR1_OK;
}

static sr1_status check_any(struct checked *c, const json_t *v, const char *name,
                            const char *where, int depth)
{
    (void)c;
    (void)v;
    (void)name;
    (void)where;
    (void)depth;
    return SR1_OK;
}

static const struct keyword {
    const char *name;
    check_fn *check;
} keywords[] = {
    {"type", check_type},
    {"properties", check_schemas},
    {"required", check_required},
    {"enum", check_enum},
    {"const", check_any},
    {"minimum", check_number},
    {"maximum", check_number},
    {"exclusiveMinimum", check_number},
    {"exclusiveMaximum", check_number},
    {"multipleOf", check_number},
    {"minLength", check_count},
    {"maxLength", check_count},
    {"pattern", check_pattern},
    {"items", check_one_schema},
    {"prefixItems", check_alternatives},
    {"minItems", check_count},
    {"maxItems", check_count},
    {"uniqueItems", check_boolean},
    {"additionalProperties", check_one_schema},
    {"patternProperties", check_pattern_schemas},
    {"propertyNames", check_one_schema},
    {"minProperties", check_count},
    {"maxProperties", check_count},
    {"anyOf", check_alternatives},
    {"oneOf", check_alternatives},
    {"allOf", check_alternatives},
    {"not", check_one_schema},
    {"$ref", check_text_keyword},
    {"$defs", check_schemas},
    {"definitions", check_schemas},
    {"description", check_text_keyword},
    {"title", check_text_keyword},
    {"default", check_any},
    /* for readers only */
    {"$schema", check_text_keyword},
    {"$comment", check_text_keyword},
    {"format", check_text_keyword},
    {"examples", check_any},
    {"example", check_any},
    {"deprecated", check_any},
    {"readOnly", check_any},
    {"writeOnly", check_any},
    {"discriminator", check_any},
    {"contentEncoding", check_any},
    {"contentMediaType", check_any},
};

#define N_KEYWORDS (sizeof keywords / sizeof keywords[0])

static const char *keyword_name(size_t i)
{
    return i < N_KEYWORDS ? keywords[i].name : NULL;
}

/* Names that begin with x- are other programs' notes. */
static sr1_status check_keyword(struct checked *c, const char *name, const json_t *v,
                                const char *where, int depth)
{
    size_t i;

    for (i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].check(c, v, name, where, depth);
    if (strncmp(name, "x-", 2) == 0)
        return SR1_OK;
    sr1__fail_unknown("keyword", name, keyword_name);
    return sr1__context(SR1_E_UNSUPPORTED, "%s", where);
}

/* Each required name has a property, and the bounds leave something. */
static sr1_status check_together(const json_t *schema, const char *where, int depth)
{
    const json_t *required = json_object_get(schema, "required");
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *high = json_object_get(schema, "maximum");
    int closed = sr1__schema_is_closed(schema) ||
                 (depth == 0 && !properties && !sr1__schema_is_put_together(schema) &&
                  !json_object_get(schema, "additionalProperties"));
    size_t i;

    for (i = 0; closed && i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));

        if (json_object_get(properties, name) == NULL)
            return sr1__fail(SR1_E_INVALID,
                             "%s: '%.64s' is required but not in properties", where,
                             name);
    }
    if (low != NULL && high != NULL && sr1__schema_compare_numbers(low, high) > 0)
        return sr1__fail(SR1_E_INVALID, "%s: minimum is above maximum", where);
    return SR1_OK;
}

static sr1_status note_checked(struct checked *c, const json_t *schema)
{
    if (c->n >= MAX_NODES)
        return sr1__fail(SR1_E_LIMIT, "schema: more than %d schemas within it",
                         MAX_NODES);
    SR1__RESERVE(c->nodes, c->cap, c->n + 1, "schema");
    c->nodes[c->n++] = schema;
    return SR1_OK;
}

static sr1_status check_schema(struct checked *c, const json_t *schema, const char *where,
                               int depth)
{
    const char *name;
    json_t *v;

    if (!json_is_object(schema) && !(json_is_boolean(schema) && depth > 0))
        return sr1__fail(SR1_E_INVALID, "%s: it must be a JSON object", where);
    if (depth > SR1__SCHEMA_DEPTH)
        return sr1__fail(SR1_E_LIMIT, "%s: deeper than %d", where, SR1__SCHEMA_DEPTH);
    SR1__TRY(note_checked(c, schema));
    json_object_foreach((json_t *)(uintptr_t)schema, name, v)
        SR1__TRY(check_keyword(c, name, v, where, depth));
    return check_together(schema, where, depth);
}

/* Does every reference lead to a schema that was checked? */
static sr1_status check_references(const struct checked *c)
{
    size_t i, k;

    for (i = 0; i < c->n; i++) {
        const char *ref = json_string_value(json_object_get(c->nodes[i], "$ref"));
        const json_t *to = ref ? sr1__schema_resolve(c->root, ref) : NULL;

        for (k = 0; to && k < c->n && c->nodes[k] != to;)
            k++;
        if (ref && (!to || k == c->n))
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "schema: $ref '%.128s' leads to no schema within this one",
                             ref);
    }
    return SR1_OK;
}

static sr1_status check_root(const json_t *schema)
{
    struct checked c = {.root = schema};
    const char *type = json_string_value(json_object_get(schema, "type"));
    sr1_status status = check_schema(&c, schema, "schema", 0);

    if (status == SR1_OK)
        status = check_references(&c);
    sr1__free(c.nodes);
    SR1__TRY(status);
    if (type == NULL || strcmp(type, "object") != 0)
        return sr1__fail(SR1_E_INVALID, "schema: its type must be object, the "
                                        "arguments by name");
    return SR1_OK;
}

sr1_status sr1__schema_parse(json_t **out, const char *text)
{
    const char *given = text != NULL ? text : "{\"type\": \"object\"}";
    json_t *schema = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_parse_loose(&schema, given, strlen(given), "schema"));
    status = check_root(schema);
    SR1__RETURN_NEW(out, schema, status, json_decref);
}

/* ---- for the reader ---- */

#define VALUE_MAX 64 /* bytes shown of a value */

void sr1__schema_append_value(const json_t *v, struct sr1__buf *b)
{
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    if (sr1__json_dump(v, 0, &text) != SR1_OK)
        b->status = SR1_E_NOMEM; /* nothing else can go wrong with a value */
    else
        sr1__buf_add(b, text.data,
                     text.len > VALUE_MAX ? sr1__utf8_complete(text.data, VALUE_MAX)
                                          : text.len);
    if (text.len > VALUE_MAX)
        sr1__buf_str(b, "...");
    sr1__buf_free(&text);
}

void sr1__schema_append_values(const json_t *list, struct sr1__buf *b)
{
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        sr1__buf_str(b, i > 0 ? ", " : "");
        sr1__schema_append_value(json_array_get(list, i), b);
    }
}

static int is_required(const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required");
    size_t i;

    for (i = 0; i < json_array_size(required); i++)
        if (strcmp(json_string_value(json_array_get(required, i)), name) == 0)
            return 1;
    return 0;
}

/* ", at least 1" */
static void append_keyword(const json_t *schema, const char *key, const char *text,
                           struct sr1__buf *out)
{
    const json_t *v = json_object_get(schema, key);

    if (v == NULL)
        return;
    sr1__buf_fmt(out, ", %s ", text);
    if (json_is_array(v))
        sr1__schema_append_values(v, out);
    else
        sr1__schema_append_value(v, out);
}

/* Add a name to "string or null", unless it is there. */
static void append_type_name(const char *name, struct sr1__buf *types_text)
{
    if (name && !strstr(sr1__buf_cstr(types_text), name))
        sr1__buf_fmt(types_text, "%s%s", types_text->len > 0 ? " or " : "", name);
}

/* The types of a member: its own, or those of its alternatives and of what it refers to,
 * two levels down at most. */
static void append_types(const json_t *root, const json_t *schema, int depth,
                         struct sr1__buf *out)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type = json_object_get(schema, "type");
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    size_t i, k;

    append_type_name(json_string_value(type), out);
    for (i = 0; i < json_array_size(type); i++)
        append_type_name(json_string_value(json_array_get(type, i)), out);
    if (depth == 0)
        return;
    for (k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        const json_t *list = json_object_get(schema, lists[k]);

        for (i = 0; i < json_array_size(list); i++)
            append_types(root, json_array_get(list, i), depth - 1, out);
    }
    if (ref)
        append_types(root, sr1__schema_resolve(root, ref), depth - 1, out);
}

void sr1__schema_describe(const json_t *schema, struct sr1__buf *out)
{
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(schema, "properties"), name, v)
    {
        const char *description = json_string_value(json_object_get(v, "description"));
        struct sr1__buf type;

        sr1__buf_init(&type, 0);
        append_types(schema, v, 2, &type);
        sr1__buf_fmt(out, "- %s (%s%s", name, type.len > 0 ? sr1__buf_cstr(&type) : "any",
                     is_required(schema, name) ? ", required" : "");
        append_keyword(v, "const", "only", out);
        append_keyword(v, "enum", "one of", out);
        append_keyword(v, "minimum", "at least", out);
        append_keyword(v, "exclusiveMinimum", "above", out);
        append_keyword(v, "maximum", "at most", out);
        append_keyword(v, "exclusiveMaximum", "below", out);
        append_keyword(v, "default", "default", out);
        sr1__buf_fmt(out, ")%s%s\n", description != NULL ? ": " : "",
                     description != NULL ? description : "");
        out->status = out->status == SR1_OK ? type.status : out->status;
        sr1__buf_free(&type);
    }
}
