/* text/jinja/jinja_text.c - what is done to texts: parts, white space, case, lines,
 * replacing, joining, the % operator. Each result keeps which bytes are own words. */
#include "text/jinja/jinja_value.h"

#include "base/text.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

size_t sr1__jinja_char(const char *s, size_t n, uint32_t *cp)
{
    int length;

    if (n && (unsigned char)*s < 0x80) {
        *cp = (unsigned char)*s;
        return 1;
    }
    length = sr1__utf8_next(s, n, cp);
    if (length > 0)
        return (size_t)length;
    *cp = (unsigned char)*s;
    return 1;
}

struct sr1__jtext sr1__jtext_slice(struct sr1__jtext t, size_t begin, size_t end)
{
    int mixed = t.own && t.own != SR1__J_ALL_OWN;

    return (struct sr1__jtext){t.s + begin, end - begin, mixed ? t.own + begin : t.own};
}

size_t sr1__jtext_find(struct sr1__jtext t, struct sr1__jtext what, size_t from)
{
    const char *at;

    if (from > t.n || what.n > t.n - from)
        return SR1__J_NOWHERE;
    if (what.n == 0)
        return from;
    at = memmem(t.s + from, t.n - from, what.s, what.n);
    return at ? (size_t)(at - t.s) : SR1__J_NOWHERE;
}

/* Bytes of the last character of s[0..n). */
static size_t last_char(const char *s, size_t n, uint32_t *cp)
{
    size_t back = 1;

    while (back < n && back < 4 && ((unsigned char)s[n - back] & 0xc0) == 0x80)
        back++;
    if (sr1__jinja_char(s + n - back, back, cp) == back)
        return back;
    return sr1__jinja_char(s + n - 1, 1, cp);
}

struct sr1__jtext sr1__jtext_strip(struct sr1__jtext t, int sides)
{
    size_t begin = 0, end = t.n, n;
    uint32_t cp;

    while ((sides & 1) && begin < end) {
        n = sr1__jinja_char(t.s + begin, end - begin, &cp);
        if (!sr1__is_space(cp))
            break;
        begin += n;
    }
    while ((sides & 2) && begin < end) {
        n = last_char(t.s + begin, end - begin, &cp);
        if (!sr1__is_space(cp))
            break;
        end -= n;
    }
    return sr1__jtext_slice(t, begin, end);
}

/* Is t[at, at + n) among the characters? */
static sr1_status is_stripped(struct sr1__jrun *r, struct sr1__jtext chars,
                              struct sr1__jtext t, size_t at, size_t n, int *is)
{
    SR1__TRY(sr1__jrun_spend(r, 1 + chars.n / 64));
    *is = sr1__jtext_find(chars, sr1__jtext_slice(t, at, at + n), 0) != SR1__J_NOWHERE;
    return SR1_OK;
}

static sr1_status strip_chars(struct sr1__jrun *r, struct sr1__jtext t,
                              struct sr1__jtext chars, int sides, struct sr1__jtext *out)
{
    size_t begin = 0, end = t.n, n;
    uint32_t cp;
    int is = 1;

    while ((sides & 1) && begin < end) {
        n = sr1__jinja_char(t.s + begin, end - begin, &cp);
        SR1__TRY(is_stripped(r, chars, t, begin, n, &is));
        if (!is)
            break;
        begin += n;
    }
    while ((sides & 2) && begin < end) {
        n = last_char(t.s + begin, end - begin, &cp);
        SR1__TRY(is_stripped(r, chars, t, end - n, n, &is));
        if (!is)
            break;
        end -= n;
    }
    *out = sr1__jtext_slice(t, begin, end);
    return SR1_OK;
}

sr1_status sr1__jtext_strip_by(struct sr1__jrun *r, struct sr1__jtext t,
                               const struct sr1__jvalue *chars, int sides,
                               struct sr1__jtext *out)
{
    struct sr1__jtext these;

    if (sr1__jarg_given(chars)) {
        SR1__TRY(sr1__jarg_text(r, chars, "characters to strip", &these));
        return strip_chars(r, t, these, sides, out);
    }
    *out = sr1__jtext_strip(t, sides);
    return sr1__jrun_spend(r, (t.n - out->n) / 64);
}

/* ---- case ---- */

static int is_own_at(struct sr1__jtext t, size_t i)
{
    return t.own == SR1__J_ALL_OWN || (t.own && t.own[i]);
}

/* A character that has case, for str.title. */
static int is_cased(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL ||
           c == UTF8PROC_CATEGORY_LT;
}

static void put_upper(struct sr1__jout *o, uint32_t cp, int title, int own)
{
    utf8proc_int32_t c = (utf8proc_int32_t)cp;

    if (cp == 0xdf)
        sr1__jout_bytes(o, title ? "Ss" : "SS", 2, own);
    else
        sr1__jout_char(o, (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c)),
                       own);
}

sr1_status sr1__jtext_case(struct sr1__jrun *r, struct sr1__jtext t, int how,
                           struct sr1__jvalue *out)
{
    struct sr1__jout o;
    uint32_t cp;
    size_t n;
    int begins = 1;

    sr1__jout_init(&o, r);
    for (size_t i = 0; i < t.n; i += n) {
        int own = is_own_at(t, i);

        n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        if (how == SR1__J_UPPER)
            put_upper(&o, cp, 0, own);
        else if (how != SR1__J_LOWER && begins)
            put_upper(&o, cp, 1, own);
        else
            sr1__jout_char(&o, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), own);
        begins = how == SR1__J_TITLE && !is_cased(cp);
    }
    return sr1__jout_value(&o, out);
}

/* ---- replacing, lines, joining ---- */

/* An empty text stands before each character and at the end. */
static void insert_everywhere(struct sr1__jout *o, struct sr1__jtext t,
                              struct sr1__jtext by, int64_t count)
{
    size_t n;
    uint32_t cp;

    for (size_t i = 0;; i += n) {
        if (count-- > 0)
            sr1__jout_text(o, by);
        if (i >= t.n)
            return;
        n = sr1__jinja_char(t.s + i, t.n - i, &cp);
        sr1__jout_text(o, sr1__jtext_slice(t, i, i + n));
    }
}

sr1_status sr1__jtext_replace(struct sr1__jrun *r, struct sr1__jtext t,
                              struct sr1__jtext old, struct sr1__jtext by, int64_t count,
                              struct sr1__jvalue *out)
{
    struct sr1__jout o;
    size_t from = 0, at;

    count = count < 0 ? INT64_MAX : count;
    sr1__jout_init(&o, r);
    if (old.n == 0) {
        insert_everywhere(&o, t, by, count);
        return sr1__jout_value(&o, out);
    }
    SR1__TRY(sr1__jrun_spend(r, t.n / 64));
    while (o.status == SR1_OK && count-- > 0 &&
           (at = sr1__jtext_find(t, old, from)) != SR1__J_NOWHERE) {
        sr1__jout_text(&o, sr1__jtext_slice(t, from, at));
        sr1__jout_text(&o, by);
        from = at + old.n;
    }
    sr1__jout_text(&o, sr1__jtext_slice(t, from, t.n));
    return sr1__jout_value(&o, out);
}

static int ends_line(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 ||
           cp == 0x2028 || cp == 0x2029;
}

sr1_status sr1__jtext_lines(struct sr1__jrun *r, struct sr1__jtext t, int keep_ends,
                            struct sr1__jvalue *out)
{
    size_t from = 0, i = 0, end;
    uint32_t cp;

    SR1__TRY(sr1__jrun_spend(r, t.n / 64));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    while (i < t.n) {
        end = i;
        i += sr1__jinja_char(t.s + i, t.n - i, &cp);
        if (!ends_line(cp) && i < t.n)
            continue;
        if (!ends_line(cp))
            end = i;
        if (cp == '\r' && i < t.n && t.s[i] == '\n')
            i++;
        SR1__TRY(sr1__jlist_add(
            r, out->list,
            sr1__jvalue_text(sr1__jtext_slice(t, from, keep_ends ? i : end))));
        from = i;
    }
    return SR1_OK;
}

sr1_status sr1__jtext_join(struct sr1__jrun *r, struct sr1__jtext by,
                           const struct sr1__jlist *list, int strict,
                           struct sr1__jvalue *out)
{
    struct sr1__jout o;

    sr1__jout_init(&o, r);
    for (size_t i = 0; i < list->n; i++) {
        if (strict && list->v[i].kind != SR1__J_TEXT)
            return sr1__jrun_fail(r, "join: item %zu is a %s, not a str", i,
                                  sr1__jvalue_type(&list->v[i]));
        if (i)
            sr1__jout_text(&o, by);
        SR1__TRY(sr1__jvalue_print(&o, &list->v[i]));
    }
    return sr1__jout_value(&o, out);
}

sr1_status sr1__jtext_escape(struct sr1__jrun *r, struct sr1__jtext t,
                             struct sr1__jtext *out)
{
    static const char from[] = "&<>\"'";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    struct sr1__jvalue v;
    struct sr1__jout o;

    sr1__jout_init(&o, r);
    for (size_t i = 0; i < t.n; i++) {
        const char *at = t.s[i] ? strchr(from, t.s[i]) : NULL;

        if (at)
            sr1__jout_bytes(&o, to[at - from], strlen(to[at - from]), is_own_at(t, i));
        else
            sr1__jout_text(&o, sr1__jtext_slice(t, i, i + 1));
    }
    SR1__TRY(sr1__jout_value(&o, &v));
    *out = v.text;
    return SR1_OK;
}

/* ---- format % values ---- */

static sr1_status format_real(struct sr1__jout *o, const struct sr1__jvalue *v,
                              const char *spec)
{
    char text[400];

    if (!sr1__jvalue_is_number(v))
        return sr1__jrun_fail(o->r, "%%f needs a number, not a %s", sr1__jvalue_type(v));
    (void)snprintf(text, sizeof text, "%.*f", spec[0] == '.' ? (int)(spec[1] - '0') : 6,
                   sr1__jvalue_as_real(v));
    sr1__jout_own(o, text);
    return SR1_OK;
}

static sr1_status format_one(struct sr1__jout *o, char kind, const char *spec,
                             const struct sr1__jvalue *v)
{
    char text[32];
    double real;

    if (kind == 's')
        return sr1__jvalue_print(o, v);
    if (kind == 'r')
        return sr1__jvalue_repr(o, v);
    if (kind == 'f')
        return format_real(o, v, spec);
    if (!sr1__jvalue_is_number(v))
        return sr1__jrun_fail(o->r, "%%%c needs a number, not a %s", kind,
                              sr1__jvalue_type(v));
    real = sr1__jvalue_as_real(v);
    if (v->kind == SR1__J_REAL && !(real > -9e18 && real < 9e18))
        return sr1__jrun_fail(o->r, "%%%c: the number is too large", kind);
    snprintf(text, sizeof text, "%lld",
             (long long)(v->kind == SR1__J_REAL ? (int64_t)real : v->i));
    sr1__jout_own(o, text);
    return SR1_OK;
}

/* The one conversion at p: %s %r %d %i %f or %.Nf. Returns its end, NULL: another. */
static const char *read_conversion(const char *p, const char *end, char *kind,
                                   const char **spec)
{
    *spec = p;
    if (end - p >= 3 && p[0] == '.' && p[1] >= '0' && p[1] <= '9' && p[2] == 'f')
        p += 2;
    *kind = p < end ? *p : '\0';
    return *kind && strchr("srdif%", *kind) ? p + 1 : NULL;
}

sr1_status sr1__jtext_format(struct sr1__jrun *r, struct sr1__jtext format,
                             const struct sr1__jvalue *values, size_t n, int all,
                             struct sr1__jvalue *out)
{
    const char *p = format.s, *end = format.s + format.n, *spec;
    size_t used = 0;
    struct sr1__jout o;
    char kind;

    sr1__jout_init(&o, r);
    while (p < end) {
        const char *at = memchr(p, '%', (size_t)(end - p));

        at = at ? at : end;
        sr1__jout_text(&o, sr1__jtext_slice(format, (size_t)(p - format.s),
                                            (size_t)(at - format.s)));
        if (at == end)
            break;
        p = read_conversion(at + 1, end, &kind, &spec);
        if (!p)
            return sr1__jrun_fail(r, "of formats only %%s, %%r, %%d, %%i, %%f and %%.Nf "
                                     "are supported");
        if (kind == '%')
            sr1__jout_own(&o, "%");
        else if (used == n)
            return sr1__jrun_fail(r, "a format has too few values");
        else
            SR1__TRY(format_one(&o, kind, spec, &values[used++]));
    }
    if (used < n && all)
        return sr1__jrun_fail(r, "a format has too many values");
    return sr1__jout_value(&o, out);
}
