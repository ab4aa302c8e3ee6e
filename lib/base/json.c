/* base/json.c - jansson with our errors, bounds and allocator. */
#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* jansson (2.14) lexes on when its text buffer cannot grow: a character is lost, and
 * where that is a closing quote it reads past the end. So while it parses a reserve is
 * held, large enough for one more growth; the first failure gives the reserve back, tries
 * again, and is reported once the parser has returned. */
static _Thread_local void *reserve;
static _Thread_local int out_of_memory;

static void *allocate_for_json(size_t n)
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
        json_set_alloc_funcs(allocate_for_json, sr1__free);
}

/* ---- what a text may become ---- */

/* A value costs jansson far more than the bytes that write it: "{}," becomes 240 bytes.
 * These are what glibc's allocator gives away for each: an object with its eight
 * buckets, a list with its eight places and first number, half of a string, a member with
 * its share of larger tables, a further number with its place. */
static size_t memory_of_mark(char c)
{
    switch (c) {
    case '{':
        return 224;
    case '[':
        return 160;
    case '"':
        return 40;
    case ':':
    case ',':
        return 56;
    default:
        return 0;
    }
}

size_t sr1__json_memory(const char *text, size_t n)
{
    size_t sum = n;

    for (size_t i = 0; i < n; i++) {
        sum += memory_of_mark(text[i]);
        if (text[i] != '"')
            continue;
        while (++i < n && text[i] != '"')
            i += text[i] == '\\';
        sum += memory_of_mark('"');
    }
    return sum;
}

/* Before anything is read. A short text cannot become much. */
static sr1_status check_memory(const char *text, size_t n, const char *name)
{
    size_t most = SR1__JSON_MEMORY_MAX(n);

    if (n <= SR1__JSON_UNCHECKED || sr1__json_memory(text, n) <= most)
        return SR1_OK;
    return sr1__fail(SR1_E_LIMIT,
                     "%s: its values would fill more than %zu MiB of memory, the most "
                     "for %zu bytes of JSON; ask for fewer values, or divide them",
                     name ? name : "the row", most >> 20, n);
}

/* jansson leaves the text empty when an allocation failed midway. */
static sr1_status parse_error(const json_error_t *e, const char *name)
{
    if (e->text[0] == '\0' || json_error_code(e) == json_error_out_of_memory)
        return sr1__fail_nomem(name ? name : "a row");
    if (!name && e->line == 1)
        return sr1__fail(SR1_E_PARSE, "column %d: %s", e->column, e->text);
    return sr1__fail(SR1_E_PARSE, "%s: line %d, column %d: %s", name ? name : "the row",
                     e->line, e->column, e->text);
}

static sr1_status parse_with(json_t **out, const char *text, size_t n, const char *name,
                             size_t flags)
{
    json_error_t e;
    locale_t before;
    json_t *j;

    sr1__utf8_skip_mark(&text, &n);
    memset(&e, 0, sizeof e);
    SR1__TRY(check_memory(text, n, name));
    if (!hold_reserve(n))
        return sr1__fail_nomem(name ? name : "a row");
    before = sr1__c_locale_begin();
    j = json_loadb(n ? text : "", n, JSON_ALLOW_NUL | JSON_DECODE_ANY | flags, &e);
    sr1__c_locale_end(before);
    drop_reserve();
    if (out_of_memory) {
        json_decref(j);
        return sr1__fail_nomem(name ? name : "a row");
    }
    if (!j)
        return parse_error(&e, name);
    *out = j;
    return SR1_OK;
}

sr1_status sr1__json_parse(json_t **out, const char *text, size_t n, const char *name)
{
    return parse_with(out, text, n, name, JSON_REJECT_DUPLICATES);
}

sr1_status sr1__json_parse_loose(json_t **out, const char *text, size_t n,
                                 const char *name)
{
    struct sr1__error first;
    struct sr1__buf mended;
    sr1_status status = parse_with(out, text, n, name, 0);

    if (status != SR1_E_PARSE)
        return status;
    sr1__error_save(&first, status);
    sr1__buf_init(&mended, 0);
    sr1__json_mend(text, n, &mended);
    status = sr1__buf_status(&mended, name ? name : "a row");
    if (status == SR1_OK)
        status = parse_with(out, mended.data, mended.len, name, 0);
    sr1__buf_free(&mended);
    return status == SR1_E_PARSE ? sr1__error_raise(&first) : status;
}

static sr1_status load_with(json_t **out, const char *path, size_t max_bytes,
                            sr1_status (*parse)(json_t **out, const char *text, size_t n,
                                                const char *name))
{
    struct sr1__buf b;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, max_bytes, &b));
    status = parse(out, sr1__buf_cstr(&b), b.len, path);
    sr1__buf_free(&b);
    return status;
}

sr1_status sr1__json_load(json_t **out, const char *path, size_t max_bytes)
{
    return load_with(out, path, max_bytes, sr1__json_parse);
}

sr1_status sr1__json_load_loose(json_t **out, const char *path, size_t max_bytes)
{
    return load_with(out, path, max_bytes, sr1__json_parse_loose);
}

static int append_json_text(const char *text, size_t n, void *buf)
{
    struct sr1__buf *b = buf;

    sr1__buf_add(b, text, n);
    return b->status == SR1_OK ? 0 : -1;
}

sr1_status sr1__json_dump(const json_t *j, int indent, struct sr1__buf *b)
{
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    size_t start = b->len;
    locale_t before;
    int failed;

    flags |= indent > 0 ? JSON_INDENT((size_t)indent) : JSON_COMPACT;
    before = sr1__c_locale_begin();
    failed = json_dump_callback(j, append_json_text, b, flags);
    sr1__c_locale_end(before);
    if (!failed)
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

sr1_status sr1__json_write_line(struct sr1__file_writer *w, json_t *line)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__CHECK_ALLOC(line, "a line");
    sr1__buf_init(&b, 0);
    status = sr1__json_dump(line, 0, &b);
    json_decref(line);
    sr1__buf_char(&b, '\n');
    if (status == SR1_OK)
        status = sr1__buf_status(&b, "a line");
    if (status == SR1_OK)
        status = sr1__file_writer_add(w, sr1__buf_cstr(&b), b.len);
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

/* The member, whose type is one of those whose bits are set. */
static sr1_status find_typed_member(const json_t *o, const char *key, unsigned types,
                                    const char *wanted, const json_t **out)
{
    const json_t *v = json_object_get(o, key);

    if (!json_is_object(o))
        return sr1__fail(SR1_E_PARSE, "'%s' is looked for in %s, not an object", key,
                         o ? type_name(o) : "nothing");
    if (!v)
        return sr1__fail(SR1_E_PARSE, "'%s' is missing", key);
    if (!(types >> json_typeof(v) & 1))
        return sr1__fail(SR1_E_PARSE, "'%s' is %s, not %s", key, type_name(v), wanted);
    *out = v;
    return SR1_OK;
}

sr1_status sr1__json_get_str(const json_t *o, const char *key, const char **out)
{
    const json_t *v;

    SR1__TRY(find_typed_member(o, key, 1U << JSON_STRING, "a string", &v));
    *out = json_string_value(v);
    return SR1_OK;
}

sr1_status sr1__json_get_int(const json_t *o, const char *key, int64_t *out)
{
    const json_t *v;

    SR1__TRY(find_typed_member(o, key, 1U << JSON_INTEGER, "an integer", &v));
    *out = json_integer_value(v);
    return SR1_OK;
}

sr1_status sr1__json_get_num(const json_t *o, const char *key, double *out)
{
    const json_t *v;

    SR1__TRY(
        find_typed_member(o, key, 1U << JSON_INTEGER | 1U << JSON_REAL, "a number", &v));
    *out = json_number_value(v);
    return SR1_OK;
}

const json_t *sr1__json_given(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_null(v) ? NULL : v;
}

const json_t *sr1__json_at(const json_t *o, const char *path)
{
    while (o && *path) {
        size_t n = strcspn(path, ".");

        o = json_object_getn(o, path, n);
        path += n + (path[n] == '.');
    }
    return o;
}

json_t *sr1__json_text(const char *text, size_t n)
{
    struct sr1__buf b;
    json_t *v;

    if (sr1__utf8_valid(text, n))
        return json_stringn_nocheck(text, n);
    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&b, text, n);
    v = b.status == SR1_OK ? json_stringn_nocheck(sr1__buf_cstr(&b), b.len) : NULL;
    sr1__buf_free(&b);
    return v;
}

json_t *sr1__json_texts(const char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < n; i++) {
        json_t *text = sr1__json_text(texts[i], strlen(texts[i]));

        if (json_array_append_new(list, text) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

void sr1__json_add_text(struct sr1__buf *b, const json_t *string)
{
    const char *s = json_string_value(string);
    size_t n = json_string_length(string);

    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\0')
            sr1__buf_char(b, s[i]);
        else
            sr1__buf_str(b, "\xEF\xBF\xBD");
    }
}

json_t *sr1__json_number(double v)
{
    if (!isfinite(v))
        return json_null();
    if (v == floor(v) && fabs(v) < 0x1p53)
        return json_integer((json_int_t)v);
    return json_real(v);
}
