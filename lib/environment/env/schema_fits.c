/* environment/env/schema_fits.c - does a value fit a schema, and if not, why.
 *
 * The work on one value is bounded: a schema that refers to itself, alternatives within
 * alternatives and patterns end in a refusal, never in an endless check. */
#include "environment/env/schema_internal.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

#define MAX_STEPS 200000   /* schemas and items looked at for one value */
#define MAX_DEPTH 200      /* schemas within schemas, references included */
#define MATCH_LIMIT 100000 /* of a pattern */
#define HEAP_LIMIT_KIB 1024
#define MAX_REASONS 3 /* shown of alternatives */
#define MAX_WHY 1024  /* bytes after which no further reason is begun */

/* The path of a value: filters.years[2]. */
struct path {
    const struct path *up; /* NULL: the arguments themselves */
    const char *name;      /* NULL: an element of a list */
    size_t index;
};

/* One check of one value. */
struct fitting {
    const json_t *root;
    struct sr1__buf *why; /* NULL: nobody wants to know */
    size_t steps;
    int depth;
};

/* One schema within it, and the value that is to fit. */
struct schema_place {
    const json_t *schema;
    const json_t *value;
    const struct path *path;
    int joined; /* a member of allOf and the like: others know further members */
};

static int fits_schema(struct fitting *f, const struct schema_place *p);

/* ---- reasons ---- */

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

/* "argument 'k' "; the buffer for the rest, NULL: nobody wants to know. */
static struct sr1__buf *begin_reason(struct fitting *f, const struct path *at)
{
    if (f->why == NULL || f->why->len > MAX_WHY)
        return NULL;
    if (at->up == NULL) {
        sr1__buf_str(f->why, "the arguments ");
        return f->why;
    }
    sr1__buf_str(f->why, "argument '");
    append_path(at, f->why);
    sr1__buf_str(f->why, "' ");
    return f->why;
}

/* 0, with a reason. */
static int reject_value(struct fitting *f, const struct path *at, const char *reason)
{
    struct sr1__buf *why = begin_reason(f, at);

    if (why)
        sr1__buf_str(why, reason);
    return 0;
}

/* 0, with a reason that ends with a value, or with the values of a list. */
static int reject_for_value(struct fitting *f, const struct path *at, const char *reason,
                            const json_t *v, const char *unit)
{
    struct sr1__buf *why = begin_reason(f, at);

    if (!why)
        return 0;
    sr1__buf_fmt(why, "%s ", reason);
    if (json_is_array(v))
        sr1__schema_append_values(v, why);
    else
        sr1__schema_append_value(v, why);
    sr1__buf_str(why, unit);
    return 0;
}

/* Is there work left to spend? */
static int spend_step(struct fitting *f, const struct path *at)
{
    if (f->steps > 0) {
        f->steps--;
        return 1;
    }
    return reject_value(f, at, "cannot be checked: that takes too long");
}

/* ---- keywords ---- */

/* -1, 0 or 1: integers are exact, though a double has not all of 64 bits. */
static int compare_with_real(json_int_t i, double d)
{
    json_int_t whole;

    if (!(d < 9223372036854775808.0))
        return -1;
    if (d < -9223372036854775808.0)
        return 1;
    whole = (json_int_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    return (d < (double)whole) - (d > (double)whole);
}

int sr1__schema_compare_numbers(const json_t *a, const json_t *b)
{
    double x, y;

    if (json_is_integer(a) && json_is_integer(b))
        return (json_integer_value(a) > json_integer_value(b)) -
               (json_integer_value(a) < json_integer_value(b));
    if (json_is_integer(a))
        return compare_with_real(json_integer_value(a), json_real_value(b));
    if (json_is_integer(b))
        return -compare_with_real(json_integer_value(b), json_real_value(a));
    x = json_real_value(a);
    y = json_real_value(b);
    return (x > y) - (x < y);
}

static int json_values_equal(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *v;
    size_t i;

    if (json_is_number(a) && json_is_number(b))
        return sr1__schema_compare_numbers(a, b) == 0;
    if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b))
            return 0;
        for (i = 0; i < json_array_size(a); i++)
            if (!json_values_equal(json_array_get(a, i), json_array_get(b, i)))
                return 0;
        return 1;
    }
    if (!json_is_object(a) || !json_is_object(b))
        return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b))
        return 0;
    json_object_foreach((json_t *)(uintptr_t)a, name, v)
    {
        const json_t *other = json_object_get(b, name);

        if (other == NULL || !json_values_equal(v, other))
            return 0;
    }
    return 1;
}

static int is_of_type(const char *name, const json_t *v)
{
    return sr1__schema_type_find(name)->kinds >> json_typeof(v) & 1u;
}

static void append_nouns(const json_t *type, struct sr1__buf *why)
{
    size_t n = json_array_size(type), i;

    if (json_is_string(type))
        sr1__buf_str(why, sr1__schema_type_find(json_string_value(type))->noun);
    for (i = 0; i < n; i++)
        sr1__buf_fmt(
            why, "%s%s", i > 0 ? " or " : "",
            sr1__schema_type_find(json_string_value(json_array_get(type, i)))->noun);
}

static int fits_type(struct fitting *f, const struct schema_place *p)
{
    const json_t *type = json_object_get(p->schema, "type");
    struct sr1__buf *why;
    size_t i;

    if (type == NULL ||
        (json_is_string(type) && is_of_type(json_string_value(type), p->value)))
        return 1;
    for (i = 0; i < json_array_size(type); i++)
        if (is_of_type(json_string_value(json_array_get(type, i)), p->value))
            return 1;
    why = begin_reason(f, p->path);
    if (!why)
        return 0;
    sr1__buf_str(why, "must be ");
    append_nouns(type, why);
    sr1__buf_fmt(why, ", not %s", sr1__schema_type_of_value(p->value)->noun);
    return 0;
}

static int fits_enum(struct fitting *f, const struct schema_place *p)
{
    const json_t *list = json_object_get(p->schema, "enum");
    const json_t *only = json_object_get(p->schema, "const");
    size_t i;

    if (only != NULL && !json_values_equal(only, p->value))
        return reject_for_value(f, p->path, "must be", only, "");
    for (i = 0; i < json_array_size(list); i++)
        if (json_values_equal(json_array_get(list, i), p->value))
            return 1;
    return list == NULL || reject_for_value(f, p->path, "must be one of", list, "");
}

/* value is a multiple of m > 0 but for the rounding of reals: jsonschema's rule. */
static int is_multiple(const json_t *value, const json_t *m)
{
    double times = json_number_value(value) / json_number_value(m);

    if (json_is_integer(value) && json_is_integer(m))
        return json_integer_value(value) % json_integer_value(m) == 0;
    return isfinite(times) && times == floor(times);
}

static const struct bound {
    const char *keyword, *reason;
} bounds[] = {{"minimum", "must be at least"},
              {"maximum", "must be at most"},
              {"exclusiveMinimum", "must be above"},
              {"exclusiveMaximum", "must be below"},
              {"multipleOf", "must be a multiple of"}};

static int is_within_bound(size_t i, const json_t *v, const json_t *bound)
{
    switch (i) {
    case 0:
        return sr1__schema_compare_numbers(v, bound) >= 0;
    case 1:
        return sr1__schema_compare_numbers(v, bound) <= 0;
    case 2:
        return sr1__schema_compare_numbers(v, bound) > 0;
    case 3:
        return sr1__schema_compare_numbers(v, bound) < 0;
    default:
        return is_multiple(v, bound);
    }
}

static int fits_bounds(struct fitting *f, const struct schema_place *p)
{
    size_t i;

    for (i = 0; json_is_number(p->value) && i < sizeof bounds / sizeof bounds[0]; i++) {
        const json_t *bound = json_object_get(p->schema, bounds[i].keyword);

        if (bound != NULL && !is_within_bound(i, p->value, bound))
            return reject_for_value(f, p->path, bounds[i].reason, bound, "");
    }
    return 1;
}

/* A count between the two keywords; either may be missing. */
static int fits_count(struct fitting *f, const struct schema_place *p, size_t n,
                      const char *least, const char *most, const char *unit)
{
    const json_t *low = json_object_get(p->schema, least);
    const json_t *high = json_object_get(p->schema, most);

    if (low != NULL && (json_int_t)n < json_integer_value(low))
        return reject_for_value(f, p->path, "must have at least", low, unit);
    if (high != NULL && (json_int_t)n > json_integer_value(high))
        return reject_for_value(f, p->path, "must have at most", high, unit);
    return 1;
}

/* 1: it matches; 0: it does not; -1: that cannot be said within the limits. */
static int match_pattern(const char *pattern, size_t len, const char *text, size_t n)
{
    pcre2_code *code = NULL;
    pcre2_match_data *data = NULL;
    pcre2_match_context *limits = NULL;
    int found = PCRE2_ERROR_NOMEMORY;

    if (sr1__schema_pattern(&code, pattern, len) == SR1_OK) {
        data = pcre2_match_data_create(1, NULL);
        limits = pcre2_match_context_create(NULL);
    }
    if (data && limits) {
        pcre2_set_match_limit(limits, MATCH_LIMIT);
        pcre2_set_depth_limit(limits, MATCH_LIMIT);
        pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
        found = pcre2_match(code, (PCRE2_SPTR)text, n, 0, 0, data, limits);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return found >= 0 ? 1 : found == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

static int fits_text(struct fitting *f, const struct schema_place *p)
{
    const json_t *pattern = json_object_get(p->schema, "pattern");
    const char *text = json_string_value(p->value);
    size_t n = json_string_length(p->value);
    int found;

    if (!json_is_string(p->value))
        return 1;
    if (!fits_count(f, p, sr1__utf8_count(text, n), "minLength", "maxLength",
                    " characters"))
        return 0;
    if (pattern == NULL)
        return 1;
    found =
        match_pattern(json_string_value(pattern), json_string_length(pattern), text, n);
    if (found < 0)
        return reject_value(f, p->path,
                            "cannot be checked against its pattern: that takes "
                            "too long");
    return found || reject_for_value(f, p->path, "must match the pattern", pattern, "");
}

/* ---- objects ---- */

static int fits_required(struct fitting *f, const struct schema_place *p)
{
    const json_t *required = json_object_get(p->schema, "required");
    size_t i;

    for (i = 0; i < json_array_size(required); i++) {
        struct path member = {p->path, json_string_value(json_array_get(required, i)), 0};

        if (json_object_get(p->value, member.name) == NULL)
            return reject_value(f, &member, "is missing");
    }
    return 1;
}

static int reject_member(struct fitting *f, const json_t *properties,
                         const struct path *member)
{
    struct sr1__buf *why = begin_reason(f, member);
    const char *name;
    json_t *v;
    int first = 1;

    if (!why)
        return 0;
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

int sr1__schema_is_put_together(const json_t *schema)
{
    static const char *const keys[] = {"allOf", "anyOf", "oneOf",
                                       "$ref",  "not",   "patternProperties"};
    size_t i;

    for (i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(schema, keys[i]) != NULL)
            return 1;
    return 0;
}

int sr1__schema_is_closed(const json_t *schema)
{
    const json_t *more = json_object_get(schema, "additionalProperties");

    if (more != NULL)
        return json_is_false(more);
    return json_object_get(schema, "properties") != NULL &&
           !sr1__schema_is_put_together(schema);
}

/* The schemas of the patterns that the member's name matches; *known: there is one. */
static int fits_name_patterns(struct fitting *f, const struct schema_place *p,
                              const struct schema_place *member, int *known)
{
    const char *pattern;
    json_t *schema;

    json_object_foreach(json_object_get(p->schema, "patternProperties"), pattern, schema)
    {
        struct schema_place inner = *member;
        int found = match_pattern(pattern, strlen(pattern), member->path->name,
                                  strlen(member->path->name));

        inner.schema = schema;
        *known |= found != 0;
        if (found != 0 && !fits_schema(f, &inner))
            return 0;
    }
    return 1;
}

static int fits_name(struct fitting *f, const struct schema_place *p,
                     const struct path *member)
{
    const json_t *schema = json_object_get(p->schema, "propertyNames");
    json_t *name;
    struct schema_place inner = {.schema = schema, .path = member};
    int fits;

    if (schema == NULL)
        return 1;
    name = json_string(member->name);
    inner.value = name;
    fits = name != NULL && fits_schema(f, &inner);
    json_decref(name);
    return fits;
}

static int fits_member(struct fitting *f, const struct schema_place *p, const char *name,
                       const json_t *value)
{
    const json_t *properties = json_object_get(p->schema, "properties");
    const json_t *more = json_object_get(p->schema, "additionalProperties");
    struct path member = {p->path, name, 0};
    struct schema_place inner = {json_object_get(properties, name), value, &member, 0};
    int known = inner.schema != NULL;

    if (!fits_name(f, p, &member) || (known && !fits_schema(f, &inner)) ||
        !fits_name_patterns(f, p, &inner, &known))
        return 0;
    if (known)
        return 1;
    inner.schema = more;
    if (json_is_object(more))
        return fits_schema(f, &inner);
    if (more != NULL ? json_is_true(more)
                     : p->joined || !sr1__schema_is_closed(p->schema))
        return 1;
    return reject_member(f, properties, &member);
}

/* Has the tool no arguments at all? */
static int takes_nothing(const struct fitting *f, const struct schema_place *p)
{
    return p->schema == f->root && p->path->up == NULL &&
           !sr1__schema_is_put_together(f->root) &&
           json_object_get(f->root, "properties") == NULL &&
           json_object_get(f->root, "additionalProperties") == NULL;
}

static int fits_members(struct fitting *f, const struct schema_place *p)
{
    const char *name;
    json_t *value;

    if (!json_is_object(p->value))
        return 1;
    json_object_foreach((json_t *)(uintptr_t)p->value, name, value)
    {
        struct path member = {p->path, name, 0};

        if (takes_nothing(f, p))
            return reject_member(f, NULL, &member);
        if (!fits_member(f, p, name, value))
            return 0;
    }
    return fits_required(f, p) &&
           fits_count(f, p, json_object_size(p->value), "minProperties", "maxProperties",
                      " members");
}

/* ---- lists ---- */

static int fits_unique(struct fitting *f, const struct schema_place *p)
{
    size_t n = json_array_size(p->value), i, k;

    if (!json_is_true(json_object_get(p->schema, "uniqueItems")))
        return 1;
    for (i = 0; i < n; i++)
        for (k = 0; k < i; k++) {
            if (!spend_step(f, p->path))
                return 0;
            if (json_values_equal(json_array_get(p->value, i),
                                  json_array_get(p->value, k)))
                return reject_value(f, p->path, "must not hold a value twice");
        }
    return 1;
}

static int fits_items(struct fitting *f, const struct schema_place *p)
{
    const json_t *prefix = json_object_get(p->schema, "prefixItems");
    const json_t *items = json_object_get(p->schema, "items");
    size_t n = json_array_size(p->value), i;

    if (!json_is_array(p->value))
        return 1;
    for (i = 0; i < n; i++) {
        struct path element = {p->path, NULL, i};
        struct schema_place inner = {
            i < json_array_size(prefix) ? json_array_get(prefix, i) : items,
            json_array_get(p->value, i), &element, 0};

        if (inner.schema != NULL && !fits_schema(f, &inner))
            return 0;
    }
    return fits_count(f, p, n, "minItems", "maxItems", " items") && fits_unique(f, p);
}

/* ---- schemas put together ---- */

/* Does the value fit, whoever asks? */
static int fits_quietly(struct fitting *f, const struct schema_place *p,
                        struct sr1__buf *why)
{
    struct sr1__buf *before = f->why;
    int fits;

    f->why = why;
    fits = fits_schema(f, p);
    f->why = before;
    return fits;
}

/* How many alternatives the value fits, at most `most`; the reasons of those it does not.
 */
static size_t count_fitting(struct fitting *f, const struct schema_place *p,
                            const json_t *list, size_t most, struct sr1__buf *why)
{
    size_t n = 0, i, reasons = 0;

    for (i = 0; i < json_array_size(list) && n < most; i++) {
        struct schema_place inner = *p;
        size_t begin = why->len;

        inner.schema = json_array_get(list, i);
        inner.joined = p->joined || json_object_get(p->schema, "properties") != NULL;
        if (reasons > 0 && reasons < MAX_REASONS)
            sr1__buf_str(why, "; ");
        if (fits_quietly(f, &inner, reasons < MAX_REASONS && f->why ? why : NULL)) {
            n++;
            why->len = begin;
        } else {
            reasons++;
        }
    }
    return n;
}

/* anyOf, oneOf: `most` alternatives may fit. */
static int fits_alternatives(struct fitting *f, const struct schema_place *p,
                             const char *key, size_t most)
{
    const json_t *list = json_object_get(p->schema, key);
    struct sr1__buf why;
    size_t n;

    if (list == NULL)
        return 1;
    sr1__buf_init(&why, 0);
    n = count_fitting(f, p, list, most == SIZE_MAX ? 1 : most + 1, &why);
    if (n == 0 && begin_reason(f, p->path)) {
        sr1__buf_str(f->why, "fits no alternative: ");
        sr1__buf_add(f->why, sr1__buf_cstr(&why),
                     why.len > MAX_WHY ? sr1__utf8_complete(sr1__buf_cstr(&why), MAX_WHY)
                                       : why.len);
    }
    sr1__buf_free(&why);
    if (n > most) /* oneOf */
        return reject_value(f, p->path, "fits more than one alternative");
    return n > 0;
}

static int fits_all(struct fitting *f, const struct schema_place *p)
{
    const json_t *list = json_object_get(p->schema, "allOf");
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        struct schema_place inner = *p;

        inner.schema = json_array_get(list, i);
        inner.joined = 1;
        if (!fits_schema(f, &inner))
            return 0;
    }
    return 1;
}

static int fits_not(struct fitting *f, const struct schema_place *p)
{
    struct schema_place inner = *p;

    inner.schema = json_object_get(p->schema, "not");
    inner.joined = 1;
    if (inner.schema == NULL || !fits_quietly(f, &inner, NULL))
        return inner.schema == NULL || spend_step(f, p->path);
    return reject_for_value(f, p->path, "must not fit", inner.schema, "");
}

static int fits_reference(struct fitting *f, const struct schema_place *p)
{
    const char *ref = json_string_value(json_object_get(p->schema, "$ref"));
    struct schema_place inner = *p;

    if (ref == NULL)
        return 1;
    inner.schema = sr1__schema_resolve(f->root, ref);
    inner.joined = p->joined || json_object_get(p->schema, "properties") != NULL;
    return inner.schema == NULL || fits_schema(f, &inner);
}

static int fits_keywords(struct fitting *f, const struct schema_place *p)
{
    return fits_type(f, p) && fits_enum(f, p) && fits_bounds(f, p) && fits_text(f, p) &&
           fits_members(f, p) && fits_items(f, p) && fits_reference(f, p) &&
           fits_all(f, p) && fits_alternatives(f, p, "anyOf", SIZE_MAX) &&
           fits_alternatives(f, p, "oneOf", 1) && fits_not(f, p);
}

static int fits_schema(struct fitting *f, const struct schema_place *p)
{
    int fits;

    if (json_is_boolean(p->schema))
        return json_is_true(p->schema) || reject_value(f, p->path, "is not allowed");
    if (f->depth >= MAX_DEPTH)
        return reject_value(f, p->path, "cannot be checked: its schema refers to itself");
    if (!spend_step(f, p->path))
        return 0;
    f->depth++;
    fits = fits_keywords(f, p);
    f->depth--;
    return fits;
}

int sr1__schema_fits(const json_t *schema, const json_t *value, struct sr1__buf *why)
{
    struct path root = {NULL, NULL, 0};
    struct fitting f = {schema, why, MAX_STEPS, 0};
    struct schema_place p = {schema, value, &root, 0};

    return fits_schema(&f, &p);
}
