/* base/pull.c - the JSON grammar of RFC 8259, read value by value. The NUL behind the
 * text is no character of that grammar, so it ends every loop. */
#include "base/pull.h"

#include "base/num.h"
#include "base/text.h"
#include "base/utf8.h"

#include <string.h>

#define NAME_MAX_BYTES 64 /* longer names with escapes are none that we know */

void sr1__pull_init(struct sr1__pull *s, char *text)
{
    s->begin = text;
    s->at = text;
    s->error = NULL;
    s->depth = 0;
    s->first = 0;
}

static void set_pull_error(struct sr1__pull *s, const char *error)
{
    if (s->error == NULL)
        s->error = error;
}

static void skip_json_space(struct sr1__pull *s)
{
    while (sr1__is_json_space(*s->at))
        s->at++;
}

static int in_object(const struct sr1__pull *s)
{
    int32_t level = s->depth - 1;

    return (int)(s->objects[level / 64] >> (level % 64) & 1);
}

enum sr1__pull_type sr1__pull_peek(struct sr1__pull *s)
{
    skip_json_space(s);
    switch (*s->at) {
    case '{':
        return SR1__PULL_OBJECT;
    case '[':
        return SR1__PULL_LIST;
    case '"':
        return SR1__PULL_STRING;
    case 't':
        return SR1__PULL_TRUE;
    case 'f':
        return SR1__PULL_FALSE;
    case 'n':
        return SR1__PULL_NULL;
    default:
        return *s->at == '-' || (*s->at >= '0' && *s->at <= '9') ? SR1__PULL_NUMBER
                                                                 : SR1__PULL_NONE;
    }
}

void sr1__pull_open(struct sr1__pull *s)
{
    enum sr1__pull_type type = sr1__pull_peek(s);
    uint64_t bit = (uint64_t)1 << (s->depth % 64);

    if (s->error != NULL)
        return;
    if (type != SR1__PULL_OBJECT && type != SR1__PULL_LIST) {
        set_pull_error(s, "Expecting value");
        return;
    }
    if (s->depth == SR1__PULL_DEPTH) {
        set_pull_error(s, "Nested too deeply");
        return;
    }
    s->objects[s->depth / 64] &= ~bit;
    s->objects[s->depth / 64] |= type == SR1__PULL_OBJECT ? bit : 0;
    s->depth++;
    s->at++;
    s->first = 1;
}

int sr1__pull_more(struct sr1__pull *s)
{
    if (s->error != NULL || s->depth == 0)
        return 0;
    skip_json_space(s);
    if (*s->at == (in_object(s) ? '}' : ']')) {
        s->at++;
        s->depth--;
        s->first = 0;
        return 0;
    }
    if (!s->first) {
        if (*s->at != ',') {
            set_pull_error(s, "Expecting ',' delimiter");
            return 0;
        }
        s->at++;
    }
    s->first = 0;
    return 1;
}

int32_t sr1__pull_hex4(const char *p)
{
    int32_t v = 0;

    for (int i = 0; i < 4; i++) {
        int digit = sr1__hex_digit(p[i]);

        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* Past an escape that is right; NULL. */
static char *pass_escape(char *p)
{
    if (p[1] == 'u')
        return sr1__pull_hex4(p + 2) >= 0 ? p + 6 : NULL;
    return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL ? p + 2 : NULL;
}

/* Between the quotes; moves behind the closing one. */
static void raw_string(struct sr1__pull *s, struct sr1__pull_span *raw)
{
    char *p = s->at + 1;

    raw->p = p;
    while (*p != '"') {
        if (*p == '\\') {
            char *next = pass_escape(p);

            if (next == NULL) {
                s->at = p;
                set_pull_error(s, "Invalid \\escape");
                return;
            }
            p = next;
        } else if ((unsigned char)*p < 0x20) {
            s->at = p;
            set_pull_error(s, *p == '\0' ? "Unterminated string"
                                         : "Invalid control character");
            return;
        } else {
            p++;
        }
    }
    raw->n = (size_t)(p - raw->p);
    s->at = p + 1;
}

/* The character of the escape at p, and past it. Half a surrogate pair, and U+0000, are
 * U+FFFD. */
static const char *decode_escape(const char *p, const char *end, uint32_t *cp)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    int32_t low;

    if (p[1] != 'u') {
        *cp = (unsigned char)values[strchr(names, p[1]) - names];
        return p + 2;
    }
    *cp = (uint32_t)sr1__pull_hex4(p + 2);
    p += 6;
    if (*cp >= 0xd800 && *cp < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        low = sr1__pull_hex4(p + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *cp = 0x10000 + ((*cp - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
            return p + 6;
        }
    }
    if (*cp == 0)
        *cp = 0xfffd;
    return p;
}

/* Decode raw text to `to`, which may be its own place: an escape is never shorter than
 * its character. Returns the length. */
static size_t decode_escapes(char *to, const char *from, size_t n)
{
    const char *end = from + n;
    char *begin = to;

    while (from < end) {
        const char *stop = memchr(from, '\\', (size_t)(end - from));
        size_t run = (size_t)((stop != NULL ? stop : end) - from);
        uint32_t cp;

        if (to != from)
            memmove(to, from, run);
        to += run;
        from += run;
        if (stop != NULL) {
            char utf8[4];
            int width;

            from = decode_escape(from, end, &cp);
            width = sr1__utf8_put(cp, utf8);
            memcpy(to, utf8, (size_t)width);
            to += width;
        }
    }
    return (size_t)(to - begin);
}

void sr1__pull_string(struct sr1__pull *s, struct sr1__pull_span *text)
{
    struct sr1__pull_span raw = {NULL, 0};

    if (sr1__pull_peek(s) != SR1__PULL_STRING)
        set_pull_error(s, "Expecting value");
    if (s->error == NULL)
        raw_string(s, &raw);
    if (s->error != NULL)
        return;
    text->p = raw.p;
    text->n = decode_escapes(raw.p, raw.p, raw.n);
    text->p[text->n] = '\0';
}

void sr1__pull_name(struct sr1__pull *s, struct sr1__pull_span *name)
{
    if (s->error != NULL)
        return;
    if (sr1__pull_peek(s) != SR1__PULL_STRING) {
        set_pull_error(s, "Expecting property name enclosed in double quotes");
        return;
    }
    raw_string(s, name);
    if (s->error != NULL)
        return;
    skip_json_space(s);
    if (*s->at != ':')
        set_pull_error(s, "Expecting ':' delimiter");
    else
        s->at++;
}

int sr1__pull_name_is(const struct sr1__pull_span *name, const char *text)
{
    char plain[NAME_MAX_BYTES];
    size_t n = strlen(text);

    if (memchr(name->p, '\\', name->n) == NULL)
        return name->n == n && memcmp(name->p, text, n) == 0;
    if (name->n > sizeof(plain))
        return 0;
    return decode_escapes(plain, name->p, name->n) == n && memcmp(plain, text, n) == 0;
}

static char *skip_json_digits(char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* -? (0 | 1-9 digits) (. digits)? (e sign? digits)? */
static void skip_number(struct sr1__pull *s)
{
    char *p = s->at + (*s->at == '-');
    char *from = p;

    p = *p == '0' ? p + 1 : skip_json_digits(p);
    if (p > from && *p == '.' && skip_json_digits(p + 1) > p + 1)
        p = skip_json_digits(p + 1);
    if (p > from && (*p == 'e' || *p == 'E')) {
        char *sign = p + 1 + (p[1] == '-' || p[1] == '+');

        p = skip_json_digits(sign) > sign ? skip_json_digits(sign) : p;
    }
    if (p == from)
        set_pull_error(s, "Expecting value");
    else
        s->at = p;
}

static void skip_word(struct sr1__pull *s, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(s->at, word, n) == 0)
        s->at += n;
    else
        set_pull_error(s, "Expecting value");
}

/* Pass over a value without parts, enter one with. */
static void begin_value(struct sr1__pull *s)
{
    struct sr1__pull_span raw;

    switch (sr1__pull_peek(s)) {
    case SR1__PULL_OBJECT:
    case SR1__PULL_LIST:
        sr1__pull_open(s);
        break;
    case SR1__PULL_STRING:
        raw_string(s, &raw);
        break;
    case SR1__PULL_NUMBER:
        skip_number(s);
        break;
    case SR1__PULL_TRUE:
        skip_word(s, "true");
        break;
    case SR1__PULL_FALSE:
        skip_word(s, "false");
        break;
    case SR1__PULL_NULL:
        skip_word(s, "null");
        break;
    case SR1__PULL_NONE:
        set_pull_error(s, "Expecting value");
        break;
    }
}

void sr1__pull_skip(struct sr1__pull *s, struct sr1__pull_span *raw)
{
    int32_t outside = s->depth;
    struct sr1__pull_span name;
    char *from;

    if (s->error != NULL)
        return;
    skip_json_space(s);
    from = s->at;
    begin_value(s);
    while (s->error == NULL && s->depth > outside) {
        if (!sr1__pull_more(s))
            continue;
        if (in_object(s))
            sr1__pull_name(s, &name);
        if (s->error == NULL)
            begin_value(s);
    }
    if (raw != NULL && s->error == NULL) {
        raw->p = from;
        raw->n = (size_t)(s->at - from);
    }
}

void sr1__pull_end(struct sr1__pull *s, const char *end)
{
    if (s->error != NULL)
        return;
    skip_json_space(s);
    if (s->at != end)
        set_pull_error(s, "Extra data");
}
