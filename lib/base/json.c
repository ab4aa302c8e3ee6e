/* base/json.c - jansson with our errors, bounds and allocator. */
#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* jansson (2.14) lexes on when its text buffer cannot grow: a character is lost, and
 * where that is a closing quote it reads past the end. So while it parses a reserve is
 * held, large enough for one more growth; the first failure gives the reserve back, tries
 * again, and is reported once the parser has returned. */
static _Thread_local void *reserve;
static _Thread_local int out_of_memory;

static void *allocate(size_t n)
{
    void *p = sr1__malloc(n);

    if (p || !reserve)
        return p;
    out_of_memory = 1;
    sr1__free(reserve);
    reserve = NULL;
    return sr1__malloc(n);
}

static int hold_reserve(size_t text_length)
{
    out_of_memory = 0;
    reserve = text_length < SIZE_MAX / 4 ? sr1__malloc(2 * text_length + 4096) : NULL;
    return reserve != NULL;
}

static void drop_reserve(void)
{
    sr1__free(reserve);
    reserve = NULL;
}

/* Before main (or when the library is loaded) no other thread runs, so this needs no
 * lock. A program that has given jansson an allocator of its own keeps it. */
__attribute__((constructor)) static void set_allocator(void)
{
    json_malloc_t m;
    json_free_t f;

    json_get_alloc_funcs(&m, &f);
    if (m == malloc && f == free)
        json_set_alloc_funcs(allocate, sr1__free);
}

/* jansson leaves the text empty when an allocation failed midway. */
static sr1_status parse_error(const json_error_t *e, const char *name)
{
    if (e->text[0] == '\0' || json_error_code(e) == json_error_out_of_memory)
        return sr1__fail_nomem(name);
    return sr1__fail(SR1_E_PARSE, "%s: line %d, column %d: %s", name, e->line, e->column,
                     e->text);
}

sr1_status sr1__json_parse(json_t **out, const char *text, size_t n, const char *name)
{
    json_error_t e;
    json_t *j;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        n -= 3;
    }
    memset(&e, 0, sizeof e);
    if (!hold_reserve(n))
        return sr1__fail_nomem(name);
    j = json_loadb(n ? text : "", n,
                   JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    drop_reserve();
    if (out_of_memory) {
        json_decref(j);
        return sr1__fail_nomem(name);
    }
    if (!j)
        return parse_error(&e, name);
    *out = j;
    return SR1_OK;
}

typedef sr1_status parse_fn(json_t **out, const char *text, size_t n, const char *name);

static sr1_status load_with(parse_fn *parse, json_t **out, const char *path, size_t max)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, max, &b));
    status = parse(out, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    return status;
}

sr1_status sr1__json_load(json_t **out, const char *path, size_t max_bytes)
{
    return load_with(sr1__json_parse, out, path, max_bytes);
}

sr1_status sr1__json_or_yaml_load(json_t **out, const char *path, size_t max_bytes)
{
    const char *dot = strrchr(path, '.');
    int is_json = dot && strcmp(dot, ".json") == 0;

    return load_with(is_json ? sr1__json_parse : sr1__yaml_parse, out, path, max_bytes);
}

static int add_piece(const char *text, size_t n, void *buf)
{
    struct sr1__buf *b = buf;

    sr1__buf_add(b, text, n);
    return b->status == SR1_OK ? 0 : -1;
}

sr1_status sr1__json_dump(const json_t *j, int indent, struct sr1__buf *b)
{
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    size_t start = b->len;

    flags |= indent > 0 ? JSON_INDENT((size_t)indent) : JSON_COMPACT;
    if (json_dump_callback(j, add_piece, b, flags) == 0)
        return SR1_OK;
    if (b->status != SR1_OK)
        return sr1__buf_status(b, "json text");
    b->len = start;
    if (b->data)
        b->data[start] = '\0';
    return sr1__fail_nomem("json text");
}

sr1_status sr1__json_save(const json_t *j, int indent, const char *path)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    status = sr1__json_dump(j, indent, &b);
    if (status == SR1_OK) {
        sr1__buf_char(&b, '\n');
        status = sr1__buf_status(&b, path);
    }
    if (status == SR1_OK)
        status = sr1__file_replace(path, b.data, b.len);
    sr1__buf_free(&b);
    return status;
}

static const char *type_name(const json_t *j)
{
    static const char *const names[] = {"an object",  "a list",        "a string",
                                        "an integer", "a real number", "true",
                                        "false",      "null"};

    return names[json_typeof(j)];
}

/* The member, or NULL with the error set in *status. */
static const json_t *member(const json_t *o, const char *key, sr1_status *status)
{
    const json_t *v = json_object_get(o, key);

    if (!json_is_object(o))
        *status = sr1__fail(SR1_E_PARSE, "'%s' is looked for in %s, not an object", key,
                            o ? type_name(o) : "nothing");
    else if (!v)
        *status = sr1__fail(SR1_E_PARSE, "'%s' is missing", key);
    return v;
}

static sr1_status wrong_type(const json_t *v, const char *key, const char *wanted)
{
    return sr1__fail(SR1_E_PARSE, "'%s' is %s, not %s", key, type_name(v), wanted);
}

sr1_status sr1__json_get_str(const json_t *o, const char *key, const char **out)
{
    sr1_status status = SR1_OK;
    const json_t *v = member(o, key, &status);

    if (!v)
        return status;
    if (!json_is_string(v))
        return wrong_type(v, key, "a string");
    *out = json_string_value(v);
    return SR1_OK;
}

sr1_status sr1__json_get_int(const json_t *o, const char *key, int64_t *out)
{
    sr1_status status = SR1_OK;
    const json_t *v = member(o, key, &status);

    if (!v)
        return status;
    if (!json_is_integer(v))
        return wrong_type(v, key, "an integer");
    *out = json_integer_value(v);
    return SR1_OK;
}

sr1_status sr1__json_get_num(const json_t *o, const char *key, double *out)
{
    sr1_status status = SR1_OK;
    const json_t *v = member(o, key, &status);

    if (!v)
        return status;
    if (!json_is_number(v))
        return wrong_type(v, key, "a number");
    *out = json_number_value(v);
    return SR1_OK;
}

json_t *sr1__json_number(double v)
{
    if (!isfinite(v))
        return json_null();
    if (v == floor(v) && fabs(v) < 0x1p53)
        return json_integer((json_int_t)v);
    return json_real(v);
}
