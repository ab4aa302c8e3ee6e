/* text/jinja/jinja_print.c - values as text: str and repr of Python, and json.dumps. */
#include "text/jinja/jinja_value.h"

#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

/* Plain digits from 1e-4 to below 1e16, always with a point or an exponent. */
void sr1__jinja_real_text(double v, char out[40])
{
    char text[32];
    size_t first;

    if (isnan(v) || isinf(v)) {
        snprintf(out, 40, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    sr1__format_real(v, text);
    first = 1 + (text[0] == '-');
    if (strpbrk(text, ".e") == NULL && fabs(v) >= 1e16)
        snprintf(out, 40, "%.*s.%se+16", (int)first, text, text + first);
    else if (strchr(text, 'e') && fabs(v) >= 1e15 && fabs(v) < 1e16)
        snprintf(out, 40, "%.0f.0", v);
    else
        snprintf(out, 40, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Numbers, True, None: own words, for no text from outside can be written so. */
static int print_scalar(struct sr1__jout *o, const struct sr1__jvalue *v)
{
    char text[40];

    switch (v->kind) {
    case SR1__J_NONE:
        sr1__jout_own(o, "None");
        return 1;
    case SR1__J_BOOL:
        sr1__jout_own(o, v->i ? "True" : "False");
        return 1;
    case SR1__J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->i);
        sr1__jout_own(o, text);
        return 1;
    case SR1__J_BIG:
        sr1__jout_text(o, v->text);
        return 1;
    case SR1__J_REAL:
        sr1__jinja_real_text(v->real, text);
        sr1__jout_own(o, text);
        return 1;
    default:
        return 0;
    }
}

static int is_printable(uint32_t cp)
{
    utf8proc_category_t c;

    if (cp < 0x7f)
        return cp >= 0x20;
    c = utf8proc_category((utf8proc_int32_t)cp);
    return !(c == UTF8PROC_CATEGORY_CN || c >= UTF8PROC_CATEGORY_ZS);
}

static void print_escaped(struct sr1__jout *o, uint32_t cp)
{
    static const char from[] = "\t\n\r\\", to[] = "tnr\\";
    const char *at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    char text[16];

    if (at)
        snprintf(text, sizeof text, "\\%c", to[at - from]);
    else
        snprintf(text, sizeof text,
                 cp < 0x100     ? "\\x%02x"
                 : cp < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                 (unsigned)cp);
    sr1__jout_bytes(o, text, strlen(text), 0);
}

static void repr_text(struct sr1__jout *o, struct sr1__jtext t)
{
    int quotes = t.n && memchr(t.s, '\'', t.n) && !memchr(t.s, '"', t.n);
    char quote = quotes ? '"' : '\'';
    uint32_t cp;
    size_t n;

    sr1__jout_bytes(o, &quote, 1, 0);
    for (size_t i = 0; i < t.n; i += n) {
        n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        if (cp == (unsigned char)quote)
            sr1__jout_bytes(o, "\\", 1, 0);
        if (cp != '\\' && is_printable(cp))
            sr1__jout_bytes(o, t.s + i, n, 0);
        else
            print_escaped(o, cp);
    }
    sr1__jout_bytes(o, &quote, 1, 0);
}

static sr1_status repr_list(struct sr1__jout *o, const struct sr1__jvalue *v)
{
    static const char *const open[] = {
        "[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const close[] = {"]", ")", "", "])", "])", "])"};
    const struct sr1__jlist *l = v->list;
    char text[100];

    if (v->form == SR1__J_IS_RANGE) {
        snprintf(text, sizeof text,
                 l->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                 (long long)l->start, (long long)l->stop, (long long)l->step);
        sr1__jout_own(o, text);
        return SR1_OK;
    }
    if (v->form == SR1__J_IS_GENERATOR)
        return sr1__jrun_fail(o->r, "a generator is printed; put |list behind it");
    sr1__jout_own(o, open[v->form]);
    for (size_t i = 0; i < l->n; i++) {
        sr1__jout_own(o, i ? ", " : "");
        SR1__TRY(sr1__jvalue_repr(o, &l->v[i]));
    }
    if (v->form == SR1__J_IS_TUPLE && l->n == 1)
        sr1__jout_own(o, ",");
    sr1__jout_own(o, close[v->form]);
    return o->status;
}

static sr1_status repr_dict(struct sr1__jout *o, const struct sr1__jdict *d)
{
    sr1__jout_own(o, "{");
    for (size_t i = 0; i < d->n; i++) {
        sr1__jout_own(o, i ? ", " : "");
        SR1__TRY(sr1__jvalue_repr(o, &d->v[i].key));
        sr1__jout_own(o, ": ");
        SR1__TRY(sr1__jvalue_repr(o, &d->v[i].value));
    }
    sr1__jout_own(o, "}");
    return o->status;
}

sr1_status sr1__jvalue_repr(struct sr1__jout *o, const struct sr1__jvalue *v)
{
    sr1_status status = SR1_OK;

    if (print_scalar(o, v))
        return o->status;
    SR1__TRY(sr1__jrun_enter(o->r));
    switch (v->kind) {
    case SR1__J_TEXT:
        sr1__jout_own(o, v->form ? "Markup(" : "");
        repr_text(o, v->text);
        sr1__jout_own(o, v->form ? ")" : "");
        break;
    case SR1__J_LIST:
        status = repr_list(o, v);
        break;
    case SR1__J_DICT:
        status = repr_dict(o, v->dict);
        break;
    case SR1__J_NAMESPACE:
        sr1__jout_own(o, "<Namespace ");
        status = repr_dict(o, v->dict);
        sr1__jout_own(o, ">");
        break;
    case SR1__J_UNDEFINED:
        sr1__jout_own(o, "Undefined");
        break;
    default:
        status = sr1__jrun_fail(o->r, "a %s cannot be printed", sr1__jvalue_type(v));
        break;
    }
    sr1__jrun_leave(o->r);
    return status == SR1_OK ? o->status : status;
}

sr1_status sr1__jvalue_print(struct sr1__jout *o, const struct sr1__jvalue *v)
{
    if (v->kind == SR1__J_TEXT)
        sr1__jout_text(o, v->text);
    else if (v->kind != SR1__J_UNDEFINED)
        return sr1__jvalue_repr(o, v);
    return o->status;
}

sr1_status sr1__jvalue_str(struct sr1__jrun *r, const struct sr1__jvalue *v,
                           struct sr1__jtext *out)
{
    struct sr1__jout o;
    struct sr1__jvalue text;

    if (v->kind == SR1__J_TEXT) {
        *out = v->text;
        return SR1_OK;
    }
    sr1__jout_init(&o, r);
    SR1__TRY(sr1__jvalue_print(&o, v));
    SR1__TRY(sr1__jout_value(&o, &text));
    *out = text.text;
    return SR1_OK;
}

/* ---- json.dumps ---- */

struct json_dump {
    struct sr1__jout o;
    int ascii, sort;
    int pretty;               /* an indent is given, which may be "" */
    struct sr1__jtext indent; /* of one level */
    struct sr1__jtext comma, colon;
    size_t level;
};

static void dump_ascii(struct sr1__jout *o, uint32_t cp)
{
    char text[16];

    if (cp >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x",
                 (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)cp);
    sr1__jout_bytes(o, text, strlen(text), 0);
}

static void dump_text(struct json_dump *d, struct sr1__jtext t)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    uint32_t cp;
    size_t n;

    sr1__jout_bytes(&d->o, "\"", 1, 0);
    for (size_t i = 0; i < t.n; i += n) {
        const char *at;

        n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
        if (at) {
            sr1__jout_bytes(&d->o, "\\", 1, 0);
            sr1__jout_bytes(&d->o, &to[at - from], 1, 0);
        } else if (cp < 0x20 || (d->ascii && cp > 0x7e)) {
            dump_ascii(&d->o, cp);
        } else {
            sr1__jout_bytes(&d->o, t.s + i, n, 0);
        }
    }
    sr1__jout_bytes(&d->o, "\"", 1, 0);
}

static sr1_status dump_value(struct json_dump *d, const struct sr1__jvalue *v);

static void dump_line(struct json_dump *d)
{
    if (!d->pretty)
        return;
    sr1__jout_bytes(&d->o, "\n", 1, 0);
    for (size_t i = 0; i < d->level; i++)
        sr1__jout_text(&d->o, d->indent);
}

static sr1_status dump_list(struct json_dump *d, const struct sr1__jlist *l)
{
    sr1__jout_bytes(&d->o, "[", 1, 0);
    d->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            sr1__jout_text(&d->o, d->comma);
        dump_line(d);
        SR1__TRY(dump_value(d, &l->v[i]));
    }
    d->level--;
    if (l->n)
        dump_line(d);
    sr1__jout_bytes(&d->o, "]", 1, 0);
    return d->o.status;
}

static int dump_scalar(struct json_dump *d, const struct sr1__jvalue *v)
{
    char text[40];

    if (v->kind == SR1__J_REAL && !isfinite(v->real)) {
        sr1__jout_own(&d->o, isnan(v->real) ? "NaN"
                             : v->real > 0  ? "Infinity"
                                            : "-Infinity");
    } else if (v->kind == SR1__J_NONE) {
        sr1__jout_own(&d->o, "null");
    } else if (v->kind == SR1__J_BOOL) {
        sr1__jout_own(&d->o, v->i ? "true" : "false");
    } else if (v->kind == SR1__J_REAL) {
        sr1__jinja_real_text(v->real, text);
        sr1__jout_own(&d->o, text);
    } else {
        return print_scalar(&d->o, v);
    }
    return 1;
}

static sr1_status dump_key(struct json_dump *d, const struct sr1__jvalue *key)
{
    if (key->kind == SR1__J_TEXT) {
        dump_text(d, key->text);
        return SR1_OK;
    }
    sr1__jout_bytes(&d->o, "\"", 1, 0);
    if (!dump_scalar(d, key))
        return sr1__jrun_fail(d->o.r, "tojson: a key is a %s", sr1__jvalue_type(key));
    sr1__jout_bytes(&d->o, "\"", 1, 0);
    return SR1_OK;
}

/* Insertion keeps the order of equal keys; there are none in a dict. */
static sr1_status sort_pairs(struct sr1__jrun *r, struct sr1__jpair *v, size_t n)
{
    int order;

    for (size_t i = 1; i < n; i++) {
        struct sr1__jpair p = v[i];
        size_t at = i;

        while (at) {
            SR1__TRY(sr1__jrun_spend(r, 1));
            SR1__TRY(sr1__jvalue_compare(r, &p.key, &v[at - 1].key, &order));
            if (order >= 0)
                break;
            v[at] = v[at - 1];
            at--;
        }
        v[at] = p;
    }
    return SR1_OK;
}

static sr1_status dump_dict(struct json_dump *d, const struct sr1__jdict *dict)
{
    struct sr1__jpair *v = dict->v;

    if (d->sort && dict->n) {
        SR1__J_TAKE(d->o.r, v, dict->n);
        memcpy(v, dict->v, dict->n * sizeof *v);
        SR1__TRY(sort_pairs(d->o.r, v, dict->n));
    }
    sr1__jout_bytes(&d->o, "{", 1, 0);
    d->level++;
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            sr1__jout_text(&d->o, d->comma);
        dump_line(d);
        SR1__TRY(dump_key(d, &v[i].key));
        sr1__jout_text(&d->o, d->colon);
        SR1__TRY(dump_value(d, &v[i].value));
    }
    d->level--;
    if (dict->n)
        dump_line(d);
    sr1__jout_bytes(&d->o, "}", 1, 0);
    return d->o.status;
}

static sr1_status dump_value(struct json_dump *d, const struct sr1__jvalue *v)
{
    sr1_status status;

    if (dump_scalar(d, v))
        return d->o.status;
    SR1__TRY(sr1__jrun_enter(d->o.r));
    if (v->kind == SR1__J_TEXT) {
        dump_text(d, v->text);
        status = d->o.status;
    } else if (v->kind == SR1__J_LIST && v->form <= SR1__J_IS_TUPLE) {
        status = dump_list(d, v->list);
    } else if (v->kind == SR1__J_DICT) {
        status = dump_dict(d, v->dict);
    } else {
        status =
            sr1__jrun_fail(d->o.r, "tojson: a %s is not JSON%s%s", sr1__jvalue_type(v),
                           v->kind == SR1__J_UNDEFINED && v->hint ? ": " : "",
                           v->kind == SR1__J_UNDEFINED && v->hint ? v->hint : "");
    }
    sr1__jrun_leave(d->o.r);
    return status;
}

static sr1_status read_dump_indent(struct json_dump *d, const struct sr1__jvalue *v)
{
    struct sr1__jvalue spaces;
    struct sr1__jout o;
    int64_t n = 0;

    if (v->kind == SR1__J_ABSENT || v->kind == SR1__J_NONE)
        return SR1_OK;
    d->pretty = 1;
    d->comma.n = 1;
    if (v->kind == SR1__J_TEXT) {
        d->indent = v->text;
        return SR1_OK;
    }
    SR1__TRY(sr1__jarg_int(d->o.r, v, 0, &n));
    sr1__jout_init(&o, d->o.r);
    for (int64_t i = 0; i < n && i < 1000; i++)
        sr1__jout_own(&o, " ");
    SR1__TRY(sr1__jout_value(&o, &spaces));
    d->indent = spaces.text;
    return SR1_OK;
}

static sr1_status read_separators(struct json_dump *d, const struct sr1__jvalue *v)
{
    if (v->kind == SR1__J_ABSENT || v->kind == SR1__J_NONE)
        return SR1_OK;
    if (v->kind != SR1__J_LIST || v->list->n != 2 || v->list->v[0].kind != SR1__J_TEXT ||
        v->list->v[1].kind != SR1__J_TEXT)
        return sr1__jrun_fail(d->o.r, "tojson: separators must be two texts");
    d->comma = v->list->v[0].text;
    d->colon = v->list->v[1].text;
    return SR1_OK;
}

sr1_status sr1__jinja_tojson(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    struct json_dump d = {.comma = {", ", 2, NULL}, .colon = {": ", 2, NULL}};

    sr1__jout_init(&d.o, r);
    d.ascii = sr1__jarg_true(&c->arg[0], 0);
    SR1__TRY(read_dump_indent(&d, &c->arg[1]));
    SR1__TRY(read_separators(&d, &c->arg[2]));
    d.sort = sr1__jarg_true(&c->arg[3], 0);
    SR1__TRY(dump_value(&d, &c->self));
    return sr1__jout_value(&d.o, out);
}
