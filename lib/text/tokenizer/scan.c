/* text/tokenizer/scan.c - see scan.h. Skipping a value only matches brackets and quotes;
 * the reader of the slice checks its content. */
#include "text/tokenizer/scan.h"

#include "base/pull.h"
#include "base/text.h"
#include "base/utf8.h"

#include <string.h>

#define DEPTH_MAX 64

static sr1_status fail_scan(const struct sr1__scan *s, const char *what)
{
    return sr1__fail(SR1_E_PARSE, "%s: %s at byte %zu of its value", s->name, what,
                     (size_t)(s->p - s->start));
}

static void skip_scan_space(struct sr1__scan *s)
{
    while (s->p < s->end && sr1__is_json_space(*s->p))
        s->p++;
}

/* Past a string whose opening quote is at s->p. */
static sr1_status skip_string(struct sr1__scan *s)
{
    for (s->p++; s->p < s->end; s->p++) {
        if (*s->p == '"') {
            s->p++;
            return SR1_OK;
        }
        if (*s->p == '\\' && s->end - s->p > 1)
            s->p++;
    }
    return fail_scan(s, "a string does not end");
}

/* Past an object or array, with a stack of the brackets still open. */
static sr1_status skip_nested(struct sr1__scan *s)
{
    char closes[DEPTH_MAX];
    int depth = 0;

    while (s->p < s->end) {
        char c = *s->p;

        if (c == '"') {
            SR1__TRY(skip_string(s));
            continue;
        }
        s->p++;
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX)
                return fail_scan(s, "nested too deep");
            closes[depth++] = c == '{' ? '}' : ']';
        } else if (c == '}' || c == ']') {
            if (closes[--depth] != c)
                return fail_scan(s, "brackets do not pair up");
            if (depth == 0)
                return SR1_OK;
        }
    }
    return fail_scan(s, "the text ends inside a value");
}

static sr1_status skip_value(struct sr1__scan *s, struct sr1__str *out)
{
    const char *from = s->p;

    if (s->p == s->end)
        return fail_scan(s, "the text ends where a value should be");
    if (*s->p == '"')
        SR1__TRY(skip_string(s));
    else if (*s->p == '{' || *s->p == '[')
        SR1__TRY(skip_nested(s));
    else
        while (s->p < s->end && !strchr(",]} \n\r\t", *s->p))
            s->p++;
    if (s->p == from)
        return fail_scan(s, "no value");
    *out = (struct sr1__str){from, (size_t)(s->p - from)};
    return SR1_OK;
}

sr1_status sr1__scan_open(struct sr1__scan *s, struct sr1__str value, char kind,
                          const char *name, const char *what)
{
    *s = (struct sr1__scan){.start = value.s,
                            .p = value.s,
                            .end = value.s + value.n,
                            .name = name,
                            .close = kind == '{' ? '}' : ']'};
    skip_scan_space(s);
    if (s->p == s->end || *s->p != kind)
        return sr1__fail(SR1_E_PARSE, "%s: %s must be %s", name, what,
                         kind == '{' ? "an object" : "an array");
    s->p++;
    return SR1_OK;
}

static sr1_status read_member_key(struct sr1__scan *s, struct sr1__str *key)
{
    const char *from = s->p;

    if (s->p == s->end || *s->p != '"')
        return fail_scan(s, "no key");
    SR1__TRY(skip_string(s));
    *key = (struct sr1__str){from, (size_t)(s->p - from)};
    skip_scan_space(s);
    if (s->p == s->end || *s->p != ':')
        return fail_scan(s, "no ':' after a key");
    s->p++;
    skip_scan_space(s);
    return SR1_OK;
}

sr1_status sr1__scan_next(struct sr1__scan *s, struct sr1__str *key,
                          struct sr1__str *value, int *more)
{
    skip_scan_space(s);
    if (s->p < s->end && *s->p == s->close) {
        s->p++;
        *more = 0;
        return SR1_OK;
    }
    if (s->begun) {
        if (s->p == s->end || *s->p != ',')
            return fail_scan(s, "no ',' between values");
        s->p++;
        skip_scan_space(s);
    }
    s->begun = 1;
    if (s->close == '}')
        SR1__TRY(read_member_key(s, key));
    *more = 1;
    return skip_value(s, value);
}

/* The value of the four hexadecimal digits at p; -1 when they are not there. */
static int32_t read_hex4(const char *p, const char *end)
{
    return end - p >= 4 ? sr1__pull_hex4(p) : -1;
}

/* Decode the \u escape whose four digits are at p into out; returns the digits' end, NULL
 * for a lone surrogate or other nonsense. */
static const char *unescape_u(const char *p, const char *end, struct sr1__buf *out)
{
    char utf8[4];
    int32_t cp = read_hex4(p, end);

    if (cp < 0)
        return NULL;
    p += 4;
    if (cp >= 0xd800 && cp < 0xe000) {
        int32_t low =
            end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? read_hex4(p + 2, end) : -1;

        if (cp >= 0xdc00 || low < 0xdc00 || low > 0xdfff)
            return NULL;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    sr1__buf_add(out, utf8, (size_t)sr1__utf8_put((uint32_t)cp, utf8));
    return p;
}

static int unescape_scanned(const char *p, const char *end, struct sr1__buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    while (p < end) {
        const char *known;

        if (*p != '\\') {
            sr1__buf_char(out, *p++);
            continue;
        }
        p++;
        known = p < end && *p ? strchr(from, *p) : NULL;
        if (known) {
            sr1__buf_char(out, to[known - from]);
            p++;
        } else if (p == end || *p != 'u' || !(p = unescape_u(p + 1, end, out))) {
            return 0;
        }
    }
    return 1;
}

sr1_status sr1__scan_string(struct sr1__str value, struct sr1__buf *tmp, const char *name,
                            struct sr1__str *out)
{
    struct sr1__str s = {value.s + 1, value.n - 2};

    if (value.n < 2 || value.s[0] != '"' || value.s[value.n - 1] != '"')
        return sr1__fail(SR1_E_PARSE, "%s: '%.*s' where a string should be", name,
                         (int)(value.n < 40 ? value.n : 40), value.s);
    if (memchr(s.s, '\\', s.n)) {
        sr1__buf_clear(tmp);
        if (!unescape_scanned(s.s, s.s + s.n, tmp))
            return sr1__fail(SR1_E_PARSE, "%s: bad escape in a string", name);
        SR1__TRY(sr1__buf_status(tmp, name));
        s = (struct sr1__str){sr1__buf_cstr(tmp), tmp->len};
    }
    if (!sr1__utf8_valid(s.s, s.n))
        return sr1__fail(SR1_E_PARSE, "%s: a string is not UTF-8", name);
    *out = s;
    return SR1_OK;
}

sr1_status sr1__scan_uint(struct sr1__str value, uint32_t max, const char *name,
                          uint32_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < value.n && v <= max; i++) {
        if (value.s[i] < '0' || value.s[i] > '9')
            return sr1__fail(SR1_E_PARSE, "%s: '%.*s' where a token id should be", name,
                             (int)(value.n < 40 ? value.n : 40), value.s);
        v = v * 10 + (uint64_t)(value.s[i] - '0');
    }
    if (v > max)
        return sr1__fail(SR1_E_LIMIT, "%s: token id %.*s is above %u", name,
                         (int)(value.n < 40 ? value.n : 40), value.s, max);
    *out = (uint32_t)v;
    return SR1_OK;
}
