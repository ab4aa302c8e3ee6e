/* scan.c - see scan.h. Each reader moves p past the value it read, or returns -1. */
#include "sr1_report/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

struct json_scan {
    const char *p, *end;
    struct scan_number *wanted;
    size_t n_wanted;
};

static void skip_json_space(struct json_scan *s)
{
    while (s->p < s->end &&
           (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n'))
        s->p++;
}

static int expect_json_char(struct json_scan *s, char c)
{
    skip_json_space(s);
    if (s->p == s->end || *s->p != c)
        return -1;
    s->p++;
    return 0;
}

static int scan_json_string(struct json_scan *s)
{
    if (expect_json_char(s, '"') != 0)
        return -1;
    for (; s->p < s->end; s->p++) {
        if ((unsigned char)*s->p < 0x20)
            return -1;
        if (*s->p == '"') {
            s->p++;
            return 0;
        }
        if (*s->p == '\\' && (++s->p == s->end || (unsigned char)*s->p < 0x20))
            return -1;
    }
    return -1;
}

static int read_word(struct json_scan *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return -1;
    s->p += n;
    return 0;
}

static int scan_json_digits(struct json_scan *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from ? 0 : -1;
}

static int read_number(struct json_scan *s)
{
    if (s->p < s->end && *s->p == '-')
        s->p++;
    if (scan_json_digits(s) != 0)
        return -1;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (scan_json_digits(s) != 0)
            return -1;
    }
    if (s->p == s->end || (*s->p != 'e' && *s->p != 'E'))
        return 0;
    s->p++;
    if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
        s->p++;
    return scan_json_digits(s);
}

static int read_value(struct json_scan *s, int depth);

/* The text between two brackets: items separated by commas. */
static int read_items(struct json_scan *s, char close, int depth,
                      int (*item)(struct json_scan *s, int depth))
{
    if (depth > MAX_DEPTH)
        return -1;
    s->p++;
    if (expect_json_char(s, close) == 0)
        return 0;
    do {
        if (item(s, depth) != 0)
            return -1;
    } while (expect_json_char(s, ',') == 0);
    return expect_json_char(s, close);
}

static double parse_json_number(const char *from, const char *to)
{
    char text[64];
    size_t n = (size_t)(to - from);

    if (n == 0 || n >= sizeof(text) || (*from != '-' && (*from < '0' || *from > '9')))
        return NAN;
    memcpy(text, from, n);
    text[n] = '\0';
    return strtod(text, NULL);
}

static int scan_json_member(struct json_scan *s, int depth)
{
    const char *name, *value;
    size_t n;

    skip_json_space(s);
    name = s->p;
    if (scan_json_string(s) != 0)
        return -1;
    n = (size_t)(s->p - name) - 2;
    if (expect_json_char(s, ':') != 0)
        return -1;
    skip_json_space(s);
    value = s->p;
    if (read_value(s, depth) != 0)
        return -1;
    for (size_t i = 0; depth == 1 && i < s->n_wanted; i++) {
        struct scan_number *w = &s->wanted[i];

        if (strlen(w->name) == n && memcmp(w->name, name + 1, n) == 0)
            w->value = parse_json_number(value, s->p);
    }
    return 0;
}

static int read_value(struct json_scan *s, int depth)
{
    skip_json_space(s);
    if (s->p == s->end)
        return -1;
    switch (*s->p) {
    case '{':
        return read_items(s, '}', depth + 1, scan_json_member);
    case '[':
        return read_items(s, ']', depth + 1, read_value);
    case '"':
        return scan_json_string(s);
    case 't':
        return read_word(s, "true");
    case 'f':
        return read_word(s, "false");
    case 'n':
        return read_word(s, "null");
    default:
        return read_number(s);
    }
}

int scan_object(const char *s, size_t n, struct scan_number *wanted, size_t n_wanted)
{
    struct json_scan sc = {s, s + n, wanted, n_wanted};

    for (size_t i = 0; i < n_wanted; i++)
        wanted[i].value = NAN;
    skip_json_space(&sc);
    if (sc.p == sc.end || *sc.p != '{' || read_value(&sc, 0) != 0)
        return -1;
    skip_json_space(&sc);
    return sc.p == sc.end ? 0 : -1;
}
