/* text/jinja/jinja_filters.c - filters of one value; jinja_list_filters.c has those of
 * lists. */
#include "text/jinja/jinja_list_filters.h"

#include "base/num.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static sr1_status filter_trim(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    SR1__TRY(sr1__jtext_strip_by(r, t, &c->arg[0], 3, &t));
    *out = sr1__jvalue_text(t);
    out->form = c->self.kind == SR1__J_TEXT ? c->self.form : 0;
    return SR1_OK;
}

static sr1_status filter_length(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    size_t n;

    SR1__TRY(sr1__jvalue_length(r, &c->self, &n));
    *out = sr1__jvalue_int((int64_t)n);
    return SR1_OK;
}

static sr1_status filter_case(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    return sr1__jtext_case(r, t, c->how, out);
}

/* Words begin behind white space, hyphens and opening brackets: unlike str.title. */
static sr1_status filter_title(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jvalue part;
    struct sr1__jtext t;
    struct sr1__jout o;
    size_t from = 0, i = 0;
    uint32_t cp;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    sr1__jout_init(&o, r);
    while (i < t.n) {
        size_t n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        int parts = sr1__is_space(cp) || (cp && cp < 128 && strchr("-({[<", (int)cp));

        if (parts || i + n == t.n) {
            size_t end = parts ? i : i + n;

            SR1__TRY(sr1__jtext_case(r, sr1__jtext_slice(t, from, end), SR1__J_CAPITALIZE,
                                     &part));
            sr1__jout_text(&o, part.text);
            sr1__jout_text(&o, sr1__jtext_slice(t, end, i + n));
            from = i + n;
        }
        i += n;
    }
    return sr1__jout_value(&o, out);
}

static sr1_status filter_default(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    int replaced = c->self.kind == SR1__J_UNDEFINED ||
                   (sr1__jarg_true(&c->arg[1], 0) && !sr1__jvalue_true(&c->self));

    (void)r;
    *out = !replaced                         ? c->self
           : c->arg[0].kind == SR1__J_ABSENT ? sr1__jvalue_own("")
                                             : c->arg[0];
    return SR1_OK;
}

static sr1_status filter_replace(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    struct sr1__jtext t, old, by;
    int64_t count;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    SR1__TRY(sr1__jvalue_str(r, &c->arg[0], &old));
    SR1__TRY(sr1__jvalue_str(r, &c->arg[1], &by));
    SR1__TRY(sr1__jarg_int(r, &c->arg[2], -1, &count));
    return sr1__jtext_replace(r, t, old, by, count, out);
}

static sr1_status filter_string(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    *out = sr1__jvalue_text(t);
    out->form = c->self.kind == SR1__J_TEXT ? c->self.form : 0;
    return SR1_OK;
}

static sr1_status filter_safe(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    SR1__TRY(filter_string(r, c, out));
    out->form = 1;
    return SR1_OK;
}

static sr1_status filter_escape(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    struct sr1__jtext t;

    SR1__TRY(filter_string(r, c, out));
    if (!out->form) {
        SR1__TRY(sr1__jtext_escape(r, out->text, &t));
        *out = sr1__jvalue_text(t);
        out->form = 1;
    }
    return SR1_OK;
}

/* ---- indent ---- */

static sr1_status read_width(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             struct sr1__jtext *out)
{
    struct sr1__jvalue spaces;
    struct sr1__jout o;
    int64_t n;

    if (v->kind == SR1__J_TEXT) {
        *out = v->text;
        return SR1_OK;
    }
    SR1__TRY(sr1__jarg_int(r, v, 4, &n));
    sr1__jout_init(&o, r);
    for (int64_t i = 0; i < n && o.status == SR1_OK; i++) {
        SR1__TRY(sr1__jrun_spend(r, 1));
        sr1__jout_own(&o, " ");
    }
    SR1__TRY(sr1__jout_value(&o, &spaces));
    *out = spaces.text;
    return SR1_OK;
}

static sr1_status filter_indent(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    int first = sr1__jarg_true(&c->arg[1], 0), blank = sr1__jarg_true(&c->arg[2], 0);
    struct sr1__jtext indent, t;
    struct sr1__jvalue lines;
    struct sr1__jout with_end, o;

    if (c->self.kind != SR1__J_TEXT)
        return sr1__jrun_fail(r, "indent: a str is due, not a %s",
                              sr1__jvalue_type(&c->self));
    SR1__TRY(read_width(r, &c->arg[0], &indent));
    sr1__jout_init(&with_end, r);
    sr1__jout_text(&with_end, c->self.text);
    sr1__jout_own(&with_end, "\n");
    SR1__TRY(sr1__jout_value(&with_end, &lines));
    SR1__TRY(sr1__jtext_lines(r, lines.text, 0, &lines));
    sr1__jout_init(&o, r);
    for (size_t i = 0; i < lines.list->n; i++) {
        t = lines.list->v[i].text;
        if (i)
            sr1__jout_own(&o, "\n");
        if (i ? blank || t.n : first)
            sr1__jout_text(&o, indent);
        sr1__jout_text(&o, t);
    }
    return sr1__jout_value(&o, out);
}

/* ---- numbers ---- */

/* Digits of a text, with white space around and single underscores between them. */
static int read_plain_number(struct sr1__jtext t, char *out, size_t size)
{
    size_t n = 0;

    t = sr1__jtext_strip(t, 3);
    for (size_t i = 0; i < t.n; i++) {
        int between = i && i + 1 < t.n && t.s[i - 1] >= '0' && t.s[i - 1] <= '9' &&
                      t.s[i + 1] >= '0' && t.s[i + 1] <= '9';

        if (t.s[i] == '_' && between)
            continue;
        if (n + 1 == size || t.s[i] == '\0')
            return 0;
        out[n++] = t.s[i];
    }
    out[n] = '\0';
    return n > 0;
}

/* float(text): also 1., .5, inf and nan. */
static int read_real(struct sr1__jtext t, double *out)
{
    char text[400], *p = text, whole[408];
    const char *dot, *exponent;
    int sign;

    if (!read_plain_number(t, text, sizeof text))
        return 0;
    sign = *p == '-' ? -1 : 1;
    p += *p == '-' || *p == '+';
    if (strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 ||
        strcasecmp(p, "nan") == 0) {
        *out = *p == 'n' || *p == 'N' ? (double)NAN : (double)sign * (double)INFINITY;
        return 1;
    }
    dot = strchr(p, '.');
    exponent = p + strcspn(p, "eE");
    if (dot && (dot == p && dot + 1 == exponent))
        return 0;
    if (dot)
        snprintf(whole, sizeof whole, "%s%.*s.%.*s%s%s", dot == p ? "0" : "",
                 (int)(dot - p), p, (int)(exponent - dot - 1), dot + 1,
                 dot + 1 == exponent ? "0" : "", exponent);
    else
        snprintf(whole, sizeof whole, "%s", p);
    if (!sr1__parse_real(whole, strlen(whole), out) || whole[0] == '-' || whole[0] == '+')
        return 0;
    *out *= sign;
    return 1;
}

static sr1_status int_of_real(struct sr1__jrun *r, double v, struct sr1__jvalue *out)
{
    if (!(v > -9.2e18 && v < 9.2e18))
        return sr1__jrun_fail(r, "int: the number does not fit in 64 bits");
    *out = sr1__jvalue_int((int64_t)v);
    return SR1_OK;
}

/* int(text, base): with the prefix of its base or without. */
static int read_based(struct sr1__jtext t, int64_t base, int64_t *out)
{
    char text[80], *p = text;
    int negative;
    uint64_t v = 0;

    if (!read_plain_number(t, text, sizeof text) || base < 2 || base > 36)
        return 0;
    negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (p[0] == '0' && p[1] && p[2] &&
        ((base == 16 && strchr("xX", p[1])) || (base == 8 && strchr("oO", p[1])) ||
         (base == 2 && strchr("bB", p[1]))))
        p += 2;
    if (!*p)
        return 0;
    for (; *p; p++) {
        int d = *p >= '0' && *p <= '9'   ? *p - '0'
                : *p >= 'a' && *p <= 'z' ? *p - 'a' + 10
                : *p >= 'A' && *p <= 'Z' ? *p - 'A' + 10
                                         : 99;

        if (d >= base || v > (uint64_t)INT64_MAX / 64)
            return 0;
        v = v * (uint64_t)base + (uint64_t)d;
    }
    *out = negative ? -(int64_t)v : (int64_t)v;
    return 1;
}

static sr1_status int_of_text(struct sr1__jrun *r, struct sr1__jcall *c, int64_t base,
                              struct sr1__jvalue *out)
{
    char text[80];
    double real;
    int64_t i;

    if (base == 10 ? read_plain_number(c->self.text, text, sizeof text) &&
                         sr1__parse_int(text, strlen(text), &i)
                   : read_based(c->self.text, base, &i)) {
        *out = sr1__jvalue_int(i);
        return SR1_OK;
    }
    if (read_real(c->self.text, &real) && isfinite(real))
        return int_of_real(r, real, out);
    *out = c->arg[0].kind == SR1__J_ABSENT ? sr1__jvalue_int(0) : c->arg[0];
    return SR1_OK;
}

static sr1_status filter_int(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    int64_t base;

    SR1__TRY(sr1__jarg_int(r, &c->arg[1], 10, &base));
    if (c->self.kind == SR1__J_UNDEFINED)
        return sr1__jrun_fail(r, "int of an undefined value");
    if (c->self.kind == SR1__J_TEXT)
        return int_of_text(r, c, base, out);
    if (c->self.kind == SR1__J_REAL && isinf(c->self.real))
        return sr1__jrun_fail(r, "int of an infinite number");
    if (c->self.kind == SR1__J_REAL && !isnan(c->self.real))
        return int_of_real(r, c->self.real, out);
    if (sr1__jvalue_is_integer(&c->self))
        *out = sr1__jvalue_int(c->self.i);
    else if (c->self.kind == SR1__J_BIG)
        *out = c->self;
    else
        *out = c->arg[0].kind == SR1__J_ABSENT ? sr1__jvalue_int(0) : c->arg[0];
    return SR1_OK;
}

static sr1_status filter_float(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    double v = 0;

    if (c->self.kind == SR1__J_UNDEFINED)
        return sr1__jrun_fail(r, "float of an undefined value");
    if (sr1__jvalue_is_number(&c->self))
        *out = sr1__jvalue_real(sr1__jvalue_as_real(&c->self));
    else if (c->self.kind == SR1__J_TEXT && read_real(c->self.text, &v))
        *out = sr1__jvalue_real(v);
    else
        *out = c->arg[0].kind == SR1__J_ABSENT ? sr1__jvalue_real(0) : c->arg[0];
    return SR1_OK;
}

static sr1_status filter_abs(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    if (!sr1__jvalue_is_number(&c->self) ||
        (c->self.kind != SR1__J_REAL && c->self.i == INT64_MIN))
        return sr1__jrun_fail(r, "abs of a %s", sr1__jvalue_type(&c->self));
    *out = c->self.kind == SR1__J_REAL
               ? sr1__jvalue_real(fabs(c->self.real))
               : sr1__jvalue_int(c->self.i < 0 ? -c->self.i : c->self.i);
    return SR1_OK;
}

/* Half goes to the even digit, by the number's exact value, as printf and Python do. */
static sr1_status round_half(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             int64_t digits, struct sr1__jvalue *out)
{
    char text[400];
    double scale;

    if (v->kind != SR1__J_REAL) {
        if (digits < 0)
            return sr1__jrun_fail(r, "round: a whole number with a negative precision");
        *out = sr1__jvalue_int(v->i);
        return SR1_OK;
    }
    if (!isfinite(v->real) || digits > 22) {
        *out = *v;
        return SR1_OK;
    }
    if (digits < 0) {
        scale = pow(10, -(double)digits);
        *out = sr1__jvalue_real(isinf(scale) ? 0 * v->real
                                             : nearbyint(v->real / scale) * scale);
        return SR1_OK;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, v->real);
    *out = sr1__jvalue_real(sr1__to_double(text));
    return SR1_OK;
}

static sr1_status filter_round(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jtext method = {"common", 6, NULL};
    int64_t digits;
    double scale, v;

    if (!sr1__jvalue_is_number(&c->self))
        return sr1__jrun_fail(r, "round of a %s", sr1__jvalue_type(&c->self));
    SR1__TRY(sr1__jarg_int(r, &c->arg[0], 0, &digits));
    if (c->arg[1].kind != SR1__J_ABSENT)
        SR1__TRY(sr1__jarg_text(r, &c->arg[1], "round", &method));
    if (sr1__jtext_is(method, "common"))
        return round_half(r, &c->self, digits, out);
    scale = pow(10, (double)digits);
    v = sr1__jvalue_as_real(&c->self) * scale;
    if (sr1__jtext_is(method, "ceil"))
        v = ceil(v);
    else if (sr1__jtext_is(method, "floor"))
        v = floor(v);
    else
        return sr1__jrun_fail(r, "round: the method must be common, ceil or floor");
    *out = sr1__jvalue_real((v == 0 ? 0.0 : v) / scale);
    return SR1_OK;
}

static sr1_status filter_format(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    if (c->n_named)
        return sr1__jrun_fail(r, "format: named arguments are not supported");
    return sr1__jtext_format(r, t, c->v, c->n, 1, out);
}

static sr1_status filter_attr(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jtext name;
    const struct sr1__jfunction *f;
    char text[80];

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "attr", &name));
    snprintf(text, sizeof text, "%.*s", (int)(name.n > 79 ? 79 : name.n), name.s);
    f = sr1__jinja_method(&c->self, text);
    if (f)
        return sr1__jvalue_function(r, f, c->self, out);
    if (c->self.kind == SR1__J_NAMESPACE || c->self.kind == SR1__J_LOOP)
        return sr1__jvalue_item(r, &c->self, &c->arg[0], out);
    *out = sr1__jvalue_undefined(NULL);
    return SR1_OK;
}

static const struct sr1__jfunction filters[] = {
    {"trim", filter_trim, "chars", 0},
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"upper", filter_case, "", 0, SR1__J_UPPER},
    {"lower", filter_case, "", 0, SR1__J_LOWER},
    {"capitalize", filter_case, "", 0, SR1__J_CAPITALIZE},
    {"title", filter_title, "", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"replace", filter_replace, "old new count", 2},
    {"string", filter_string, "", 0},
    {"safe", filter_safe, "", 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"int", filter_int, "default base", 0},
    {"float", filter_float, "default", 0},
    {"abs", filter_abs, "", 0},
    {"round", filter_round, "precision method", 0},
    {"format", filter_format, NULL, 0},
    {"attr", filter_attr, "name", 1},
    {"tojson", sr1__jinja_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"center", NULL, NULL, 0},
    {"filesizeformat", NULL, NULL, 0},
    {"forceescape", NULL, NULL, 0},
    {"pprint", NULL, NULL, 0},
    {"random", NULL, NULL, 0},
    {"striptags", NULL, NULL, 0},
    {"truncate", NULL, NULL, 0},
    {"urlencode", NULL, NULL, 0},
    {"urlize", NULL, NULL, 0},
    {"wordcount", NULL, NULL, 0},
    {"wordwrap", NULL, NULL, 0},
    {"xmlattr", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

const struct sr1__jfunction *sr1__jinja_filter(const char *name)
{
    const struct sr1__jfunction *f = sr1__jfunction_find(filters, name);

    return f ? f : sr1__jfunction_find(sr1__jinja_list_filters, name);
}
