/* environment/env/schema.c - schemas are checked once, when a tool is registered; values
 * against them with every call.
 *
 * Supported keywords: type, properties, required, enum, minimum, maximum, items and
 * additionalProperties (JSON Schema, validation vocabulary), and for the reader
 * description, title and default. Two things differ from the standard, both so that a
 * misspelt argument is noticed: members that are not in properties are wrong unless
 * additionalProperties is true, and an integer is one by its form (3, not 3.0). */
#include "environment/env/schema.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

/* ---- types ---- */

static const struct schema_type {
    const char *name;
    const char *noun; /* "must be ..." */
    unsigned kinds;   /* bit k: a value of jansson's kind k is one */
} types[] = {
    {"string", "a string", 1u << JSON_STRING},
    {"integer", "an integer", 1u << JSON_INTEGER},
    {"number", "a number", 1u << JSON_INTEGER | 1u << JSON_REAL},
    {"boolean", "true or false", 1u << JSON_TRUE | 1u << JSON_FALSE},
    {"array", "a list", 1u << JSON_ARRAY},
    {"object", "an object", 1u << JSON_OBJECT},
    {"null", "null", 1u << JSON_NULL},
};

#define N_TYPES (sizeof types / sizeof types[0])

static const struct schema_type *find_type(const char *name)
{
    size_t i;

    for (i = 0; name != NULL && i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static const struct schema_type *type_of(const json_t *schema)
{
    return find_type(json_string_value(json_object_get(schema, "type")));
}

/* ---- checking a schema ---- */

static sr1_status check_schema(const json_t *schema, const char *where, int depth);

static sr1_status check_type(const json_t *v, const char *where, int depth)
{
    (void)depth;
    if (find_type(json_string_value(v)) == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "%s: type must be one of string, integer, number, boolean, "
                         "array, object, null",
                         where);
    return SR1_OK;
}

static sr1_status check_properties(const json_t *v, const char *where, int depth)
{
    const char *name;
    json_t *member;

    if (!json_is_object(v))
        return sr1__fail(SR1_E_INVALID, "%s: properties must be an object", where);
    json_object_foreach((json_t *)(uintptr_t)v, name, member) SR1__TRY(sr1__context(
        check_schema(member, "schema", depth + 1), "property '%.64s'", name));
    return SR1_OK;
}

static sr1_status check_required(const json_t *v, const char *where, int depth)
{
    size_t i;

    (void)depth;
    for (i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            break;
    if (!json_is_array(v) || i < json_array_size(v))
        return sr1__fail(SR1_E_INVALID, "%s: required must be a list of names", where);
    return SR1_OK;
}

static sr1_status check_enum(const json_t *v, const char *where, int depth)
{
    (void)depth;
    if (json_array_size(v) == 0)
        return sr1__fail(SR1_E_INVALID, "%s: enum must be a list that is not empty",
                         where);
    return SR1_OK;
}

static sr1_status check_number(const json_t *v, const char *where, int depth)
{
    (void)depth;
    if (!json_is_number(v))
        return sr1__fail(SR1_E_INVALID, "%s: minimum and maximum must be numbers", where);
    return SR1_OK;
}

static sr1_status check_items(const json_t *v, const char *where, int depth)
{
    (void)where;
    return sr1__context(check_schema(v, "schema", depth + 1), "items");
}

static sr1_status check_boolean(const json_t *v, const char *where, int depth)
{
    (void)depth;
    if (!json_is_boolean(v))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: additionalProperties must be true or false", where);
    return SR1_OK;
}

static sr1_status check_text_keyword(const json_t *v, const char *where, int depth)
{
    (void)depth;
    if (!json_is_string(v))
        return sr1__fail(SR1_E_INVALID, "%s: description and title must be text", where);
    return SR1_OK;
}

static sr1_status check_any(const json_t *v, const char *where, int depth)
{
    (void)v;
    (void)where;
    (void)depth;
    return SR1_OK;
}

static const struct keyword {
    const char *name;
    sr1_status (*check)(const json_t *v, const char *where, int depth);
} keywords[] = {
    {"type", check_type},
    {"properties", check_properties},
    {"required", check_required},
    {"enum", check_enum},
    {"minimum", check_number},
    {"maximum", check_number},
    {"items", check_items},
    {"additionalProperties", check_boolean},
    {"description", check_text_keyword},
    {"title", check_text_keyword},
    {"default", check_any},
};

#define N_KEYWORDS (sizeof keywords / sizeof keywords[0])

static sr1_status check_keyword(const char *name, const json_t *v, const char *where,
                                int depth)
{
    size_t i;

    for (i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].check(v, where, depth);
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: the keyword '%.64s' is not known here; known are type, "
                     "properties, required, enum, minimum, maximum, items, "
                     "additionalProperties, description, title, default",
                     where, name);
}

/* Each required name has a property, and the bounds leave something. */
static sr1_status check_together(const json_t *schema, const char *where)
{
    const json_t *required = json_object_get(schema, "required");
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *high = json_object_get(schema, "maximum");
    size_t i;

    for (i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));

        if (json_object_get(properties, name) == NULL)
            return sr1__fail(SR1_E_INVALID,
                             "%s: '%.64s' is required but not in properties", where,
                             name);
    }
    if (low != NULL && high != NULL && json_number_value(low) > json_number_value(high))
        return sr1__fail(SR1_E_INVALID, "%s: minimum is above maximum", where);
    return SR1_OK;
}

static sr1_status check_schema(const json_t *schema, const char *where, int depth)
{
    const char *name;
    json_t *v;

    if (!json_is_object(schema))
        return sr1__fail(SR1_E_INVALID, "%s: it must be a JSON object", where);
    if (depth > SR1__SCHEMA_DEPTH)
        return sr1__fail(SR1_E_LIMIT, "%s: deeper than %d", where, SR1__SCHEMA_DEPTH);
    json_object_foreach((json_t *)(uintptr_t)schema, name, v)
        SR1__TRY(check_keyword(name, v, where, depth));
    return check_together(schema, where);
}

sr1_status sr1__schema_parse(json_t **out, const char *text)
{
    const char *given = text != NULL ? text : "{\"type\": \"object\"}";
    json_t *schema = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_parse(&schema, given, strlen(given), "schema"));
    status = check_schema(schema, "schema", 0);
    if (status == SR1_OK &&
        (type_of(schema) == NULL || strcmp(type_of(schema)->name, "object") != 0))
        status = sr1__fail(SR1_E_INVALID, "schema: its type must be object, the "
                                          "arguments by name");
    SR1__RETURN_NEW(out, schema, status, json_decref);
}

/* ---- checking a value ---- */

/* The path of a value: filters.years[2]. */
struct path {
    const struct path *up; /* NULL: the arguments themselves */
    const char *name;      /* NULL: an element of a list */
    size_t index;
};

static void append_path(const struct path *at, struct sr1__buf *b)
{
    if (at->up == NULL)
        return;
    append_path(at->up, b);
    if (at->name == NULL)
        sr1__buf_fmt(b, "[%zu]", at->index);
    else
        sr1__buf_fmt(b, "%s%.64s", at->up->up != NULL ? "." : "", at->name);
}

/* "argument 'k' " */
static int append_argument_name(const struct path *at, struct sr1__buf *why)
{
    if (at->up == NULL) {
        sr1__buf_str(why, "the arguments ");
        return 0;
    }
    sr1__buf_str(why, "argument '");
    append_path(at, why);
    sr1__buf_str(why, "' ");
    return 0;
}

#define VALUE_MAX 64 /* bytes shown of a value */

static void append_json_value(const json_t *v, struct sr1__buf *b)
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

static void append_json_values(const json_t *list, struct sr1__buf *b)
{
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        sr1__buf_str(b, i > 0 ? ", " : "");
        append_json_value(json_array_get(list, i), b);
    }
}

static int json_values_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static int fits_type(const json_t *schema, const json_t *v, const struct path *at,
                     struct sr1__buf *why)
{
    const struct schema_type *want = type_of(schema);
    size_t i;

    if (want == NULL || (want->kinds >> json_typeof(v) & 1u))
        return 1;
    append_argument_name(at, why);
    for (i = 0; i < N_TYPES && !(types[i].kinds >> json_typeof(v) & 1u);)
        i++;
    sr1__buf_fmt(why, "must be %s, not %s", want->noun, types[i].noun);
    return 0;
}

static int fits_enum(const json_t *schema, const json_t *v, const struct path *at,
                     struct sr1__buf *why)
{
    const json_t *list = json_object_get(schema, "enum");
    size_t i;

    for (i = 0; i < json_array_size(list); i++)
        if (json_values_equal(json_array_get(list, i), v))
            return 1;
    if (list == NULL)
        return 1;
    append_argument_name(at, why);
    sr1__buf_str(why, "must be one of ");
    append_json_values(list, why);
    return 0;
}

static int fits_bounds(const json_t *schema, const json_t *v, const struct path *at,
                       struct sr1__buf *why)
{
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *high = json_object_get(schema, "maximum");
    int below = low != NULL && json_number_value(v) < json_number_value(low);
    int above = high != NULL && json_number_value(v) > json_number_value(high);

    if (!json_is_number(v) || (!below && !above))
        return 1;
    append_argument_name(at, why);
    sr1__buf_str(why, below ? "must be at least " : "must be at most ");
    append_json_value(below ? low : high, why);
    return 0;
}

static int value_fits_schema(const json_t *schema, const json_t *v, const struct path *at,
                             struct sr1__buf *why);

static int fits_required(const json_t *schema, const json_t *v, const struct path *at,
                         struct sr1__buf *why)
{
    const json_t *required = json_object_get(schema, "required");
    size_t i;

    for (i = 0; i < json_array_size(required); i++) {
        struct path member = {at, json_string_value(json_array_get(required, i)), 0};

        if (json_object_get(v, member.name) != NULL)
            continue;
        append_argument_name(&member, why);
        sr1__buf_str(why, "is missing");
        return 0;
    }
    return 1;
}

static int unknown_member(const json_t *properties, const struct path *member,
                          struct sr1__buf *why)
{
    const char *name;
    json_t *v;
    int first = 1;

    append_argument_name(member, why);
    sr1__buf_str(why, "is not known; known: ");
    json_object_foreach((json_t *)(uintptr_t)properties, name, v)
    {
        sr1__buf_fmt(why, "%s%.64s", first ? "" : ", ", name);
        first = 0;
    }
    if (first)
        sr1__buf_str(why, "none");
    return 0;
}

static int fits_members(const json_t *schema, const json_t *v, const struct path *at,
                        struct sr1__buf *why)
{
    const json_t *properties = json_object_get(schema, "properties");
    int more = json_is_true(json_object_get(schema, "additionalProperties"));
    const char *name;
    json_t *value;

    if (!json_is_object(v))
        return 1;
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        const json_t *inner = json_object_get(properties, name);
        struct path member = {at, name, 0};

        if (inner == NULL && !more)
            return unknown_member(properties, &member, why);
        if (inner != NULL && !value_fits_schema(inner, value, &member, why))
            return 0;
    }
    return fits_required(schema, v, at, why);
}

static int fits_items(const json_t *schema, const json_t *v, const struct path *at,
                      struct sr1__buf *why)
{
    const json_t *items = json_object_get(schema, "items");
    size_t i;

    for (i = 0; items != NULL && i < json_array_size(v); i++) {
        struct path element = {at, NULL, i};

        if (!value_fits_schema(items, json_array_get(v, i), &element, why))
            return 0;
    }
    return 1;
}

static int value_fits_schema(const json_t *schema, const json_t *v, const struct path *at,
                             struct sr1__buf *why)
{
    return fits_type(schema, v, at, why) && fits_enum(schema, v, at, why) &&
           fits_bounds(schema, v, at, why) && fits_members(schema, v, at, why) &&
           fits_items(schema, v, at, why);
}

int sr1__schema_fits(const json_t *schema, const json_t *value, struct sr1__buf *why)
{
    struct path root = {NULL, NULL, 0};

    return value_fits_schema(schema, value, &root, why);
}

/* ---- for the reader ---- */

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
        append_json_values(v, out);
    else
        append_json_value(v, out);
}

void sr1__schema_describe(const json_t *schema, struct sr1__buf *out)
{
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(schema, "properties"), name, v)
    {
        const struct schema_type *type = type_of(v);
        const char *description = json_string_value(json_object_get(v, "description"));

        sr1__buf_fmt(out, "- %s (%s%s", name, type != NULL ? type->name : "any",
                     is_required(schema, name) ? ", required" : "");
        append_keyword(v, "enum", "one of", out);
        append_keyword(v, "minimum", "at least", out);
        append_keyword(v, "maximum", "at most", out);
        append_keyword(v, "default", "default", out);
        sr1__buf_fmt(out, ")%s%s\n", description != NULL ? ": " : "",
                     description != NULL ? description : "");
    }
}
