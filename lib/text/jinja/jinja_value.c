/* text/jinja/jinja_value.c - the memory of a run, and values: made, asked and compared as
 * Python does. */
#include "text/jinja/jinja_tree.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const unsigned char sr1__jinja_all_own[1] = {1};

/* ---- memory ---- */

#define CHUNK ((size_t)64 << 10)

struct sr1__jchunk {
    struct sr1__jchunk *before;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *sr1__jarena_take(struct sr1__jarena *a, size_t n)
{
    struct sr1__jchunk *c = a->last;
    size_t size;

    n = n > a->max ? n : (n + 15) / 16 * 16;
    if (n > a->max || a->used > a->max - n)
        return NULL;
    if (!c || c->size - c->used < n) {
        size = n > CHUNK / 4 ? n : CHUNK;
        c = sr1__calloc(1, sizeof *c + size);
        if (!c)
            return NULL;
        c->size = size;
        c->before = a->last;
        a->last = c;
    }
    a->used += n;
    c->used += n;
    return c->bytes + c->used - n;
}

void sr1__jarena_free(struct sr1__jarena *a)
{
    while (a->last) {
        struct sr1__jchunk *c = a->last;

        a->last = c->before;
        sr1__free(c);
    }
}

/* ---- one run ---- */

sr1_status sr1__jrun_fail(const struct sr1__jrun *r, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text[sr1__utf8_complete(text, strlen(text))] = '\0';
    return sr1__fail(SR1_E_INVALID, "chat template, line %d: %s", r->line, text);
}

sr1_status sr1__jrun_nomem(const struct sr1__jrun *r)
{
    if (r->memory.used > r->memory.max / 2)
        return sr1__fail(SR1_E_LIMIT,
                         "chat template, line %d: needs more than %zu bytes; shorten the "
                         "conversation",
                         r->line, r->memory.max);
    return sr1__fail_nomem("chat template");
}

sr1_status sr1__jrun_spend(struct sr1__jrun *r, size_t steps)
{
    if (steps < (size_t)r->steps) {
        r->steps -= (int64_t)steps;
        return SR1_OK;
    }
    return sr1__fail(SR1_E_LIMIT,
                     "chat template, line %d: not done within %d steps; shorten the "
                     "conversation or mend the template",
                     r->line, SR1__JINJA_STEPS_MAX);
}

sr1_status sr1__jrun_enter(struct sr1__jrun *r)
{
    SR1__TRY(sr1__jrun_spend(r, 1));
    if (r->depth >= 4 * SR1__JINJA_DEPTH_MAX)
        return sr1__fail(SR1_E_LIMIT,
                         "chat template, line %d: calls or values nest too deep",
                         r->line);
    r->depth++;
    return SR1_OK;
}

void sr1__jrun_leave(struct sr1__jrun *r)
{
    r->depth--;
}

/* ---- text that grows ---- */

void sr1__jout_init(struct sr1__jout *o, struct sr1__jrun *r)
{
    memset(o, 0, sizeof *o);
    o->r = r;
}

static sr1_status grow_text(struct sr1__jout *o, size_t n)
{
    size_t cap = o->cap > n ? 2 * o->cap : o->cap + n + 64;
    unsigned char *own;
    char *s;

    SR1__J_TAKE(o->r, s, cap + 1);
    SR1__J_TAKE(o->r, own, cap + 1);
    if (o->n) {
        memcpy(s, o->s, o->n);
        memcpy(own, o->own, o->n);
    }
    o->s = s;
    o->own = own;
    o->cap = cap;
    return SR1_OK;
}

static int make_room(struct sr1__jout *o, size_t n)
{
    if (o->status == SR1_OK)
        o->status = sr1__jrun_spend(o->r, n / 16);
    if (o->status == SR1_OK && o->cap - o->n < n)
        o->status = grow_text(o, n);
    return o->status == SR1_OK && n;
}

void sr1__jout_bytes(struct sr1__jout *o, const char *s, size_t n, int own)
{
    if (!make_room(o, n))
        return;
    memcpy(o->s + o->n, s, n);
    memset(o->own + o->n, own, n);
    o->n += n;
}

void sr1__jout_text(struct sr1__jout *o, struct sr1__jtext t)
{
    int mixed = t.own && t.own != SR1__J_ALL_OWN;
    size_t at = o->n;

    sr1__jout_bytes(o, t.s, t.n, t.own != SR1__J_NOT_OWN);
    if (mixed && o->status == SR1_OK && t.n)
        memcpy(o->own + at, t.own, t.n);
}

void sr1__jout_own(struct sr1__jout *o, const char *s)
{
    sr1__jout_bytes(o, s, strlen(s), 1);
}

void sr1__jout_char(struct sr1__jout *o, uint32_t cp, int own)
{
    char bytes[4];

    sr1__jout_bytes(o, bytes, (size_t)sr1__utf8_put(cp, bytes), own);
}

sr1_status sr1__jout_value(struct sr1__jout *o, struct sr1__jvalue *out)
{
    if (o->status == SR1_OK)
        *out = sr1__jvalue_text((struct sr1__jtext){o->n ? o->s : "", o->n, o->own});
    return o->status;
}

/* ---- making ---- */

struct sr1__jvalue sr1__jvalue_none(void)
{
    return (struct sr1__jvalue){.kind = SR1__J_NONE};
}

struct sr1__jvalue sr1__jvalue_bool(int b)
{
    return (struct sr1__jvalue){.kind = SR1__J_BOOL, .i = b != 0};
}

struct sr1__jvalue sr1__jvalue_int(int64_t i)
{
    return (struct sr1__jvalue){.kind = SR1__J_INT, .i = i};
}

struct sr1__jvalue sr1__jvalue_real(double v)
{
    return (struct sr1__jvalue){.kind = SR1__J_REAL, .real = v};
}

struct sr1__jvalue sr1__jvalue_undefined(const char *hint)
{
    return (struct sr1__jvalue){.kind = SR1__J_UNDEFINED, .hint = hint};
}

struct sr1__jvalue sr1__jvalue_text(struct sr1__jtext text)
{
    return (struct sr1__jvalue){.kind = SR1__J_TEXT, .text = text};
}

struct sr1__jvalue sr1__jvalue_own(const char *s)
{
    return sr1__jvalue_text((struct sr1__jtext){s, strlen(s), SR1__J_ALL_OWN});
}

sr1_status sr1__jlist_new(struct sr1__jrun *r, int form, struct sr1__jvalue *out)
{
    struct sr1__jlist *l;

    SR1__J_TAKE(r, l, 1);
    *out =
        (struct sr1__jvalue){.kind = SR1__J_LIST, .form = (unsigned char)form, .list = l};
    return SR1_OK;
}

/* The n items of a size, with room for more; NULL: no memory. */
static void *grow_items(struct sr1__jrun *r, const void *items, size_t n, size_t size,
                        size_t *cap)
{
    size_t more = 2 * n + 4;
    void *grown = sr1__jarena_take(&r->memory, more * size);

    if (grown && n)
        memcpy(grown, items, n * size);
    *cap = grown ? more : *cap;
    return grown;
}

sr1_status sr1__jlist_add(struct sr1__jrun *r, struct sr1__jlist *l, struct sr1__jvalue v)
{
    SR1__TRY(sr1__jrun_spend(r, 1));
    if (l->n == l->cap) {
        struct sr1__jvalue *grown = grow_items(r, l->v, l->n, sizeof *l->v, &l->cap);

        if (!grown)
            return sr1__jrun_nomem(r);
        l->v = grown;
    }
    l->v[l->n++] = v;
    return SR1_OK;
}

sr1_status sr1__jlist_extend(struct sr1__jrun *r, struct sr1__jlist *l,
                             const struct sr1__jlist *by)
{
    for (size_t i = 0, n = by->n; i < n; i++)
        SR1__TRY(sr1__jlist_add(r, l, by->v[i]));
    return SR1_OK;
}

void sr1__jlist_reverse(struct sr1__jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct sr1__jvalue v = l->v[i];

        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

sr1_status sr1__jvalue_pair(struct sr1__jrun *r, struct sr1__jvalue a,
                            struct sr1__jvalue b, struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_TUPLE, out));
    SR1__TRY(sr1__jlist_add(r, out->list, a));
    return sr1__jlist_add(r, out->list, b);
}

sr1_status sr1__jdict_new(struct sr1__jrun *r, int kind, struct sr1__jvalue *out)
{
    struct sr1__jdict *d;

    SR1__J_TAKE(r, d, 1);
    *out = (struct sr1__jvalue){.kind = (unsigned char)kind, .dict = d};
    return SR1_OK;
}

/* Lists and dicts have no hash, a tuple has one if its items have. Like a comparison this
 * goes down level by level: a tuple may hold another twice, and that one again. */
static sr1_status is_hashable(struct sr1__jrun *r, const struct sr1__jvalue *v, int *is)
{
    sr1_status status = SR1_OK;

    *is = v->kind == SR1__J_LIST
              ? v->form == SR1__J_IS_RANGE || v->form == SR1__J_IS_GENERATOR
              : v->kind != SR1__J_DICT;
    if (v->kind != SR1__J_LIST || v->form != SR1__J_IS_TUPLE)
        return SR1_OK;
    SR1__TRY(sr1__jrun_enter(r));
    *is = 1;
    status = sr1__jrun_spend(r, v->list->n);
    for (size_t i = 0; status == SR1_OK && *is && i < v->list->n; i++)
        status = is_hashable(r, &v->list->v[i], is);
    sr1__jrun_leave(r);
    return status;
}

/* Most keys are short texts, of which dict_find counts eight as a step. */
static sr1_status equal_keys(struct sr1__jrun *r, const struct sr1__jvalue *a,
                             const struct sr1__jvalue *b, int *equal)
{
    if (a->kind != SR1__J_TEXT || b->kind != SR1__J_TEXT)
        return sr1__jvalue_equal(r, a, b, equal);
    *equal = a->text.n == b->text.n;
    if (*equal && a->text.n) {
        SR1__TRY(sr1__jrun_spend(r, a->text.n / 64));
        *equal = memcmp(a->text.s, b->text.s, a->text.n) == 0;
    }
    return SR1_OK;
}

sr1_status sr1__jdict_find(struct sr1__jrun *r, const struct sr1__jdict *d,
                           const struct sr1__jvalue *key, struct sr1__jvalue **out)
{
    int hashable, equal = 0;

    *out = NULL;
    SR1__TRY(is_hashable(r, key, &hashable));
    if (!hashable)
        return sr1__jrun_fail(r, "a %s cannot be a key", sr1__jvalue_type(key));
    SR1__TRY(sr1__jrun_spend(r, d->n / 8));
    for (size_t i = 0; i < d->n; i++) {
        SR1__TRY(equal_keys(r, &d->v[i].key, key, &equal));
        if (equal) {
            *out = &d->v[i].value;
            return SR1_OK;
        }
    }
    return SR1_OK;
}

struct sr1__jvalue *sr1__jdict_named(const struct sr1__jdict *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].key.kind == SR1__J_TEXT && sr1__jtext_is(d->v[i].key.text, name))
            return &d->v[i].value;
    return NULL;
}

/* Behind all others, without a look whether the key is there. */
static sr1_status append_pair(struct sr1__jrun *r, struct sr1__jdict *d,
                              struct sr1__jvalue key, struct sr1__jvalue value)
{
    if (d->n == d->cap) {
        struct sr1__jpair *grown = grow_items(r, d->v, d->n, sizeof *d->v, &d->cap);

        if (!grown)
            return sr1__jrun_nomem(r);
        d->v = grown;
    }
    d->v[d->n++] = (struct sr1__jpair){key, value};
    return SR1_OK;
}

sr1_status sr1__jdict_set(struct sr1__jrun *r, struct sr1__jdict *d,
                          struct sr1__jvalue key, struct sr1__jvalue value)
{
    struct sr1__jvalue *there;

    SR1__TRY(sr1__jdict_find(r, d, &key, &there));
    if (there) {
        *there = value;
        return SR1_OK;
    }
    return append_pair(r, d, key, value);
}

static struct sr1__jvalue value_of_json_text(const char *s, size_t n,
                                             sr1__jinja_text_of text_of)
{
    struct sr1__str t = {s, n};
    int is_text = !text_of || text_of(s, n, &t);
    struct sr1__jvalue v =
        sr1__jvalue_text((struct sr1__jtext){t.s, t.n, SR1__J_NOT_OWN});

    v.kind = is_text ? SR1__J_TEXT : SR1__J_BIG;
    return v;
}

static sr1_status read_array(struct sr1__jrun *r, const json_t *j,
                             sr1__jinja_text_of text_of, struct sr1__jvalue *out)
{
    const json_t *item;
    struct sr1__jvalue v;
    size_t i;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    json_array_foreach(j, i, item)
    {
        SR1__TRY(sr1__jvalue_from_json(r, item, text_of, &v));
        SR1__TRY(sr1__jlist_add(r, out->list, v));
    }
    return SR1_OK;
}

static sr1_status read_object(struct sr1__jrun *r, const json_t *j,
                              sr1__jinja_text_of text_of, struct sr1__jvalue *out)
{
    const char *key;
    json_t *item;
    struct sr1__jvalue v;
    size_t n;

    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, out));
    json_object_keylen_foreach((json_t *)j, key, n, item)
    {
        struct sr1__jvalue name = value_of_json_text(key, n, text_of);

        name.kind = SR1__J_TEXT;
        SR1__TRY(sr1__jvalue_from_json(r, item, text_of, &v));
        SR1__TRY(append_pair(r, out->dict, name, v));
    }
    return SR1_OK;
}

sr1_status sr1__jvalue_from_json(struct sr1__jrun *r, const json_t *j,
                                 sr1__jinja_text_of text_of, struct sr1__jvalue *out)
{
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__jrun_enter(r));
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        status = read_object(r, j, text_of, out);
        break;
    case JSON_ARRAY:
        status = read_array(r, j, text_of, out);
        break;
    case JSON_STRING:
        *out = value_of_json_text(json_string_value(j), json_string_length(j), text_of);
        break;
    case JSON_INTEGER:
        *out = sr1__jvalue_int(json_integer_value(j));
        break;
    case JSON_REAL:
        *out = sr1__jvalue_real(json_real_value(j));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = sr1__jvalue_bool(json_is_true(j));
        break;
    case JSON_NULL:
        *out = sr1__jvalue_none();
        break;
    }
    sr1__jrun_leave(r);
    return status;
}

/* ---- asking ---- */

const char *sr1__jvalue_type(const struct sr1__jvalue *v)
{
    static const char *const names[] = {"missing argument",
                                        "Undefined",
                                        "NoneType",
                                        "bool",
                                        "int",
                                        "int",
                                        "float",
                                        "str",
                                        "list",
                                        "dict",
                                        "Namespace",
                                        "LoopContext",
                                        "function"};
    static const char *const lists[] = {
        "list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"};

    return v->kind == SR1__J_LIST ? lists[v->form] : names[v->kind];
}

int sr1__jvalue_true(const struct sr1__jvalue *v)
{
    switch (v->kind) {
    case SR1__J_ABSENT:
    case SR1__J_UNDEFINED:
    case SR1__J_NONE:
        return 0;
    case SR1__J_BOOL:
    case SR1__J_INT:
        return v->i != 0;
    case SR1__J_REAL:
        return v->real != 0;
    case SR1__J_TEXT:
        return v->text.n != 0;
    case SR1__J_LIST:
        return v->form == SR1__J_IS_GENERATOR || v->list->n != 0;
    case SR1__J_DICT:
        return v->dict->n != 0;
    default:
        return 1;
    }
}

int sr1__jvalue_is_integer(const struct sr1__jvalue *v)
{
    return v->kind == SR1__J_BOOL || v->kind == SR1__J_INT;
}

int sr1__jvalue_is_number(const struct sr1__jvalue *v)
{
    return sr1__jvalue_is_integer(v) || v->kind == SR1__J_REAL;
}

double sr1__jvalue_as_real(const struct sr1__jvalue *v)
{
    return v->kind == SR1__J_REAL ? v->real : (double)v->i;
}

static int order_bytes(struct sr1__jtext a, struct sr1__jtext b)
{
    int order = memcmp(a.n ? a.s : "", b.n ? b.s : "", a.n < b.n ? a.n : b.n);

    if (order)
        return order < 0 ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}

/* Of an integer and a real: exact, as Python compares them. */
static int order_mixed(int64_t i, double v)
{
    if (v != v)
        return 2;
    if (v >= 9223372036854775808.0)
        return -1;
    if (v < -9223372036854775808.0)
        return 1;
    if (i != (int64_t)v)
        return i < (int64_t)v ? -1 : 1;
    return v > (double)(int64_t)v ? -1 : v < (double)(int64_t)v;
}

/* Below, at, above 0; 2 when one is not a number. */
static int order_numbers(const struct sr1__jvalue *a, const struct sr1__jvalue *b)
{
    int order;

    if (a->kind == SR1__J_REAL && b->kind == SR1__J_REAL)
        return a->real != a->real || b->real != b->real ? 2
               : a->real < b->real                      ? -1
                                                        : a->real > b->real;
    if (b->kind == SR1__J_REAL)
        return order_mixed(a->i, b->real);
    if (a->kind == SR1__J_REAL) {
        order = order_mixed(b->i, a->real);
        return order == 2 ? 2 : -order;
    }
    return a->i < b->i ? -1 : a->i > b->i;
}

static sr1_status equal_lists(struct sr1__jrun *r, const struct sr1__jvalue *a,
                              const struct sr1__jvalue *b, int *equal)
{
    *equal = a->list == b->list;
    if (*equal || a->form != b->form || a->list->n != b->list->n ||
        a->form == SR1__J_IS_GENERATOR || a->form == SR1__J_IS_VALUES)
        return SR1_OK;
    *equal = 1;
    SR1__TRY(sr1__jrun_spend(r, a->list->n));
    for (size_t i = 0; i < a->list->n && *equal; i++)
        SR1__TRY(sr1__jvalue_equal(r, &a->list->v[i], &b->list->v[i], equal));
    return SR1_OK;
}

static sr1_status equal_dicts(struct sr1__jrun *r, const struct sr1__jdict *a,
                              const struct sr1__jdict *b, int *equal)
{
    struct sr1__jvalue *there;

    *equal = a->n == b->n;
    for (size_t i = 0; i < a->n && *equal; i++) {
        SR1__TRY(sr1__jdict_find(r, b, &a->v[i].key, &there));
        *equal = there != NULL;
        if (there)
            SR1__TRY(sr1__jvalue_equal(r, &a->v[i].value, there, equal));
    }
    return SR1_OK;
}

static sr1_status equal_same_kind(struct sr1__jrun *r, const struct sr1__jvalue *a,
                                  const struct sr1__jvalue *b, int *equal)
{
    switch (a->kind) {
    case SR1__J_TEXT:
    case SR1__J_BIG:
        SR1__TRY(sr1__jrun_spend(r, a->text.n / 64));
        *equal = order_bytes(a->text, b->text) == 0;
        return SR1_OK;
    case SR1__J_LIST:
        return equal_lists(r, a, b, equal);
    case SR1__J_DICT:
        return equal_dicts(r, a->dict, b->dict, equal);
    case SR1__J_UNDEFINED:
    case SR1__J_NONE:
        *equal = 1;
        return SR1_OK;
    case SR1__J_CALLABLE:
        *equal =
            a->callable == b->callable ||
            (a->callable->function && a->callable->function == b->callable->function);
        return SR1_OK;
    default:
        *equal = a->dict == b->dict;
        return SR1_OK;
    }
}

sr1_status sr1__jvalue_equal(struct sr1__jrun *r, const struct sr1__jvalue *a,
                             const struct sr1__jvalue *b, int *equal)
{
    sr1_status status;

    *equal = 0;
    if (sr1__jvalue_is_number(a) && sr1__jvalue_is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return SR1_OK;
    }
    if (a->kind != b->kind)
        return SR1_OK;
    SR1__TRY(sr1__jrun_enter(r));
    status = equal_same_kind(r, a, b, equal);
    sr1__jrun_leave(r);
    return status;
}

static sr1_status compare_lists(struct sr1__jrun *r, const struct sr1__jlist *a,
                                const struct sr1__jlist *b, int *order)
{
    int equal;

    SR1__TRY(sr1__jrun_spend(r, a->n < b->n ? a->n : b->n));
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        SR1__TRY(sr1__jvalue_equal(r, &a->v[i], &b->v[i], &equal));
        if (!equal)
            return sr1__jvalue_compare(r, &a->v[i], &b->v[i], order);
    }
    *order = a->n < b->n ? -1 : a->n > b->n;
    return SR1_OK;
}

sr1_status sr1__jvalue_compare(struct sr1__jrun *r, const struct sr1__jvalue *a,
                               const struct sr1__jvalue *b, int *order)
{
    sr1_status status;

    if (sr1__jvalue_is_number(a) && sr1__jvalue_is_number(b)) {
        *order = order_numbers(a, b);
        return SR1_OK;
    }
    if (a->kind == SR1__J_TEXT && b->kind == SR1__J_TEXT) {
        SR1__TRY(
            sr1__jrun_spend(r, (a->text.n < b->text.n ? a->text.n : b->text.n) / 64));
        *order = order_bytes(a->text, b->text);
        return SR1_OK;
    }
    if (a->kind == SR1__J_LIST && b->kind == SR1__J_LIST && a->form == b->form &&
        a->form <= SR1__J_IS_TUPLE) {
        SR1__TRY(sr1__jrun_enter(r));
        status = compare_lists(r, a->list, b->list, order);
        sr1__jrun_leave(r);
        return status;
    }
    return sr1__jrun_fail(r, "%s and %s have no order", sr1__jvalue_type(a),
                          sr1__jvalue_type(b));
}

sr1_status sr1__jvalue_contains(struct sr1__jrun *r, const struct sr1__jvalue *in,
                                const struct sr1__jvalue *item, int *found)
{
    struct sr1__jvalue *there;
    struct sr1__jlist *list;

    *found = 0;
    if (in->kind == SR1__J_TEXT) {
        if (item->kind != SR1__J_TEXT)
            return sr1__jrun_fail(r, "only a str can be in a str, not a %s",
                                  sr1__jvalue_type(item));
        SR1__TRY(sr1__jrun_spend(r, in->text.n / 64));
        *found = sr1__jtext_find(in->text, item->text, 0) != SR1__J_NOWHERE;
        return SR1_OK;
    }
    if (in->kind == SR1__J_DICT) {
        SR1__TRY(sr1__jdict_find(r, in->dict, item, &there));
        *found = there != NULL;
        return SR1_OK;
    }
    SR1__TRY(sr1__jvalue_iterate(r, in, &list));
    SR1__TRY(sr1__jrun_spend(r, list->n));
    for (size_t i = 0; i < list->n && !*found; i++)
        SR1__TRY(sr1__jvalue_equal(r, &list->v[i], item, found));
    return SR1_OK;
}

sr1_status sr1__jvalue_relate(struct sr1__jrun *r, const char *op,
                              const struct sr1__jvalue *a, const struct sr1__jvalue *b,
                              int *is)
{
    int order = 0, negated = op[0] == '!';

    if (strcmp(op, "==") == 0 || strcmp(op, "!=") == 0) {
        SR1__TRY(sr1__jvalue_equal(r, a, b, is));
    } else if (strcmp(op, "in") == 0 || strcmp(op, "!in") == 0) {
        SR1__TRY(sr1__jvalue_contains(r, b, a, is));
    } else {
        SR1__TRY(sr1__jvalue_compare(r, a, b, &order));
        *is = order != 2 && ((op[0] == '<' && order < 0) || (op[0] == '>' && order > 0) ||
                             (op[1] == '=' && order == 0));
    }
    *is ^= negated;
    return SR1_OK;
}

sr1_status sr1__jvalue_length(struct sr1__jrun *r, const struct sr1__jvalue *v, size_t *n)
{
    uint32_t cp;

    *n = 0;
    switch (v->kind) {
    case SR1__J_UNDEFINED:
        return SR1_OK;
    case SR1__J_TEXT:
        SR1__TRY(sr1__jrun_spend(r, v->text.n / 64));
        for (size_t i = 0; i < v->text.n; ++*n)
            i += sr1__jinja_char(v->text.s + i, v->text.n - i, &cp);
        return SR1_OK;
    case SR1__J_LIST:
        if (v->form == SR1__J_IS_GENERATOR)
            break;
        *n = v->list->n;
        return SR1_OK;
    case SR1__J_DICT:
        *n = v->dict->n;
        return SR1_OK;
    default:
        break;
    }
    return sr1__jrun_fail(r, "a %s has no length", sr1__jvalue_type(v));
}

static sr1_status iterate_text(struct sr1__jrun *r, struct sr1__jtext t,
                               struct sr1__jlist *list)
{
    uint32_t cp;
    size_t n;

    for (size_t i = 0; i < t.n; i += n) {
        n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        SR1__TRY(
            sr1__jlist_add(r, list, sr1__jvalue_text(sr1__jtext_slice(t, i, i + n))));
    }
    return SR1_OK;
}

sr1_status sr1__jvalue_iterate(struct sr1__jrun *r, const struct sr1__jvalue *v,
                               struct sr1__jlist **out)
{
    struct sr1__jvalue made = sr1__jvalue_none();

    if (v->kind == SR1__J_LIST && v->form != SR1__J_IS_GENERATOR) {
        *out = v->list;
        return SR1_OK;
    }
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &made));
    *out = made.list;
    switch (v->kind) {
    case SR1__J_UNDEFINED:
        return SR1_OK;
    case SR1__J_LIST:
        if (!v->list->used_up)
            *made.list = *v->list;
        v->list->used_up = 1;
        return SR1_OK;
    case SR1__J_TEXT:
        return iterate_text(r, v->text, made.list);
    case SR1__J_DICT:
        for (size_t i = 0; i < v->dict->n; i++)
            SR1__TRY(sr1__jlist_add(r, made.list, v->dict->v[i].key));
        return SR1_OK;
    default:
        return sr1__jrun_fail(r, "a %s cannot be gone through", sr1__jvalue_type(v));
    }
}
