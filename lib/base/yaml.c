/* base/yaml.c - libyaml's events to json_t.
 *
 * One document of mappings, lists and scalars. Constructs that change the meaning of
 * other lines (anchors, aliases, tags, merge keys, further documents) are refused by
 * name. Plain scalars follow the core schema of YAML 1.2, section 10.3.2. */
#include "base/json.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <string.h>
#include <yaml.h>

#define MAX_DEPTH 64

/* An open mapping or list; a mapping's key waits here for its value. */
struct level {
    json_t *container; /* borrowed: its parent, or reader.root, owns it */
    char key[256];
    int has_key;
};

struct reader {
    yaml_parser_t parser;
    const char *name;
    const char *text;
    size_t size;
    json_t *root;
    json_t *lines; /* key of the outermost mapping -> line; or NULL */
    struct level levels[MAX_DEPTH];
    size_t depth;
    int documents;
    int ended;
};

static sr1_status fail_at(const struct reader *r, const yaml_mark_t *mark,
                          const char *what)
{
    return sr1__fail(SR1_E_PARSE, "%s: line %zu: %s", r->name, mark->line + 1, what);
}

/* Does a tab stand before the first other character of the line? */
static int is_tab_indented(const struct reader *r, size_t line)
{
    const char *at = r->text, *end = r->text + r->size;

    for (; line > 0 && at < end; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : end;
    }
    while (at < end && *at == ' ')
        at++;
    return at < end && *at == '\t';
}

/* What libyaml finds at the mark, in words of the file. */
static const char *name_problem(const struct reader *r, const yaml_mark_t *mark)
{
    const char *problem = r->parser.problem;

    if (is_tab_indented(r, mark->line))
        return "the line begins with a tab; YAML wants spaces";
    if (problem && strcmp(problem, "did not find expected <document start>") == 0)
        return "something follows the end of the document; a file has one mapping of "
               "keys "
               "to values";
    return problem ? problem : "not well formed";
}

static sr1_status parser_error(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const yaml_mark_t *mark = &p->problem_mark;

    switch (p->error) {
    case YAML_MEMORY_ERROR:
        return sr1__fail_nomem(r->name);
    case YAML_READER_ERROR:
        return sr1__fail(SR1_E_PARSE, "%s: byte %zu: %s", r->name, p->problem_offset,
                         p->problem ? p->problem : "not readable");
    default:
        return fail_at(r, mark, name_problem(r, mark));
    }
}

static int is_listed_scalar(const char *s, size_t n, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == n && memcmp(*words, s, n) == 0)
            return 1;
    }
    return 0;
}

/* 0x or 0o digits; *fits: 64 bits hold the value. */
static int parse_based(const char *s, size_t n, json_int_t *out, int *fits)
{
    int base = n > 2 && s[0] == '0' ? (s[1] == 'x' ? 16 : s[1] == 'o' ? 8 : 0) : 0;

    *out = 0;
    *fits = 1;
    for (size_t i = 2; base && i < n; i++) {
        int c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;

        if (digit >= base)
            return 0;
        *fits = *fits && !__builtin_mul_overflow(*out, base, out) &&
                !__builtin_add_overflow(*out, digit, out);
    }
    return base != 0;
}

static int all_digits(const char *s, size_t n)
{
    size_t i = n > 0 && (s[0] == '-' || s[0] == '+');

    if (i == n)
        return 0;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i == n;
}

/* The value of a plain scalar; NULL with *problem set when it cannot be held. */
static json_t *plain_value(const char *s, size_t n, const char **problem)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const infinite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                           "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                           ".NaN",  ".NAN",  NULL};
    json_int_t i;
    int64_t v;
    double d;
    int is_based, fits;

    if (is_listed_scalar(s, n, nulls))
        return json_null();
    if (is_listed_scalar(s, n, trues))
        return json_true();
    if (is_listed_scalar(s, n, falses))
        return json_false();
    if (sr1__parse_int(s, n, &v))
        return json_integer((json_int_t)v);
    is_based = parse_based(s, n, &i, &fits);
    if (is_based && fits)
        return json_integer(i);
    if (is_based || all_digits(s, n)) {
        *problem = "an integer beyond 64 bits; quote it if it is text";
        return NULL;
    }
    if (sr1__parse_real(s, n, &d))
        return json_real(d);
    if (is_listed_scalar(s, n, infinite)) {
        *problem = "infinite and not-a-number values are not allowed";
        return NULL;
    }
    return json_stringn(s, n); /* libyaml has checked that it is UTF-8 */
}

/* Add v (stolen) at the reader's position. */
static sr1_status attach_value(struct reader *r, json_t *v)
{
    struct level *top;

    if (r->depth == 0) {
        r->root = v;
        return SR1_OK;
    }
    top = &r->levels[r->depth - 1];
    if (json_is_array(top->container))
        return json_array_append_new(top->container, v) == 0 ? SR1_OK
                                                             : sr1__fail_nomem(r->name);
    top->has_key = 0;
    return json_object_set_new(top->container, top->key, v) == 0
               ? SR1_OK
               : sr1__fail_nomem(r->name);
}

static int wants_key(const struct reader *r)
{
    const struct level *top = r->depth ? &r->levels[r->depth - 1] : NULL;

    return top && json_is_object(top->container) && !top->has_key;
}

static sr1_status take_key(struct reader *r, const yaml_event_t *e)
{
    struct level *top = &r->levels[r->depth - 1];
    const char *s = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;

    if (n == 2 && memcmp(s, "<<", 2) == 0 &&
        e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return fail_at(r, &e->start_mark,
                       "merge keys (<<) are not supported; write the keys out");
    if (n >= sizeof top->key || memchr(s, '\0', n))
        return fail_at(r, &e->start_mark,
                       "a key longer than 255 bytes, or with a NUL in it");
    memcpy(top->key, s, n);
    top->key[n] = '\0';
    if (json_object_get(top->container, top->key))
        return sr1__fail(SR1_E_PARSE, "%s: line %zu: key '%s' is given twice", r->name,
                         e->start_mark.line + 1, top->key);
    top->has_key = 1;
    if (r->lines && r->depth == 1 &&
        json_object_set_new(r->lines, top->key,
                            json_integer((json_int_t)e->start_mark.line + 1)) != 0)
        return sr1__fail_nomem(r->name);
    return SR1_OK;
}

static sr1_status read_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *s = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    const char *problem = NULL;
    json_t *v;

    if (wants_key(r))
        return take_key(r, e);
    if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        v = plain_value(s, n, &problem);
    else
        v = json_stringn(s, n);
    if (!v && problem)
        return fail_at(r, &e->start_mark, problem);
    SR1__CHECK_ALLOC(v, r->name);
    return attach_value(r, v);
}

static sr1_status open_container(struct reader *r, const yaml_event_t *e,
                                 json_t *container)
{
    SR1__CHECK_ALLOC(container, r->name);
    if (wants_key(r)) {
        json_decref(container);
        return fail_at(r, &e->start_mark,
                       "a key must be a plain name, not a list or mapping");
    }
    if (r->depth == MAX_DEPTH) {
        json_decref(container);
        return fail_at(r, &e->start_mark, "nested deeper than 64 levels");
    }
    SR1__TRY(attach_value(r, container));
    r->levels[r->depth].container = container;
    r->levels[r->depth].has_key = 0;
    r->depth++;
    return SR1_OK;
}

/* Anchors and tags hang on the start of any node. */
static sr1_status refuse_extras(const struct reader *r, const yaml_event_t *e,
                                const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return fail_at(r, &e->start_mark, "anchors (&name) are not supported");
    if (tag)
        return fail_at(r, &e->start_mark,
                       "tags (!type) are not supported; quote the text instead");
    return SR1_OK;
}

static sr1_status handle_yaml_event(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0)
            return fail_at(r, &e->start_mark, "a second document (---); one is allowed");
        return SR1_OK;
    case YAML_ALIAS_EVENT:
        return fail_at(r, &e->start_mark, "aliases (*name) are not supported");
    case YAML_SCALAR_EVENT:
        SR1__TRY(refuse_extras(r, e, e->data.scalar.anchor, e->data.scalar.tag));
        return read_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        SR1__TRY(refuse_extras(r, e, e->data.sequence_start.anchor,
                               e->data.sequence_start.tag));
        return open_container(r, e, json_array());
    case YAML_MAPPING_START_EVENT:
        SR1__TRY(
            refuse_extras(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag));
        return open_container(r, e, json_object());
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return SR1_OK;
    case YAML_STREAM_END_EVENT:
        r->ended = 1;
        return SR1_OK;
    default:
        return SR1_OK;
    }
}

static sr1_status read_events(struct reader *r)
{
    yaml_event_t e;
    sr1_status status = SR1_OK;

    while (status == SR1_OK && !r->ended) {
        if (!yaml_parser_parse(&r->parser, &e))
            return parser_error(r);
        status = handle_yaml_event(r, &e);
        yaml_event_delete(&e);
    }
    return status;
}

sr1_status sr1__yaml_parse_lines(json_t **out, json_t *lines, const char *text, size_t n,
                                 const char *name)
{
    struct reader r;
    sr1_status status;

    sr1__utf8_skip_mark(&text, &n);
    memset(&r, 0, sizeof r);
    r.name = name;
    r.text = text;
    r.size = n;
    r.lines = lines;
    if (!yaml_parser_initialize(&r.parser))
        return sr1__fail_nomem(name);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text, r.size);
    status = read_events(&r);
    yaml_parser_delete(&r.parser);
    if (status != SR1_OK) {
        json_decref(r.root);
        return status;
    }
    *out = r.root ? r.root : json_null();
    return SR1_OK;
}

sr1_status sr1__yaml_parse(json_t **out, const char *text, size_t n, const char *name)
{
    return sr1__yaml_parse_lines(out, NULL, text, n, name);
}
