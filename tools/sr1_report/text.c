/* text.c - see text.h. */
#include "sr1_report/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

void text_free(struct text *t)
{
    free(t->data);
    memset(t, 0, sizeof(*t));
}

static int reserve_text_room(struct text *t, size_t n)
{
    size_t cap = t->cap ? t->cap : 256;
    char *data;

    if (t->failed)
        return -1;
    while (cap - t->len < n && cap <= SIZE_MAX / 2)
        cap *= 2;
    if (cap == t->cap)
        return 0;
    data = cap - t->len < n ? NULL : realloc(t->data, cap);
    if (data == NULL) {
        t->failed = 1;
        return -1;
    }
    t->data = data;
    t->cap = cap;
    return 0;
}

void text_add(struct text *t, const char *bytes, size_t n)
{
    if (n == 0 || reserve_text_room(t, n) != 0)
        return;
    memcpy(t->data + t->len, bytes, n);
    t->len += n;
}

void text_str(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_fmt(struct text *t, const char *format, ...)
{
    char piece[512];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(piece, sizeof(piece), format, ap);
    va_end(ap);
    if (n > 0)
        text_add(t, piece, (size_t)n < sizeof(piece) ? (size_t)n : sizeof(piece) - 1);
}

/* Bytes of the character at s[0..n), 0 when they are not UTF-8 (Unicode, table 3-7). */
static size_t get_utf8_length(const unsigned char *s, size_t n)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t len;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    len = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n < len)
        return 0;
    low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : low;
    high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : high;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

/* U+2028 and U+2029 end a line in older JavaScript. */
static int is_line_end(const unsigned char *s, size_t len)
{
    return len == 3 && s[0] == 0xE2 && s[1] == 0x80 && (s[2] & 0xFE) == 0xA8;
}

void text_json_bytes(struct text *t, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;

    text_add(t, "\"", 1);
    for (size_t i = 0, len; i < n; i += len) {
        len = get_utf8_length(p + i, n - i);
        if (len == 0) {
            text_str(t, "\\ufffd");
            len = 1;
        } else if (p[i] == '"' || p[i] == '\\') {
            text_add(t, "\\", 1);
            text_add(t, s + i, 1);
        } else if (p[i] < 0x20 || p[i] == 0x7F || strchr("<>&", p[i]) != NULL) {
            text_fmt(t, "\\u%04x", p[i]);
        } else if (is_line_end(p + i, len)) {
            text_fmt(t, "\\u20%02x", p[i + 2] - 0x80);
        } else {
            text_add(t, s + i, len);
        }
    }
    text_add(t, "\"", 1);
}

void text_json_str(struct text *t, const char *s)
{
    text_json_bytes(t, s, strlen(s));
}

void text_number(struct text *t, double v, int digits)
{
    if (isfinite(v))
        text_fmt(t, "%.*g", digits, v);
    else
        text_str(t, "null");
}

static void add_json_value(struct text *t, const json_t *v, int depth);

static void add_json_object(struct text *t, const json_t *v, int depth)
{
    const char *key, *comma = "";
    json_t *member;

    text_str(t, "{");
    json_object_foreach((json_t *)v, key, member)
    {
        text_str(t, comma);
        text_json_str(t, key);
        text_str(t, ":");
        add_json_value(t, member, depth + 1);
        comma = ",";
    }
    text_str(t, "}");
}

static void add_json_array(struct text *t, const json_t *v, int depth)
{
    text_str(t, "[");
    for (size_t i = 0; i < json_array_size(v); i++) {
        text_str(t, i ? "," : "");
        add_json_value(t, json_array_get(v, i), depth + 1);
    }
    text_str(t, "]");
}

static void add_json_value(struct text *t, const json_t *v, int depth)
{
    if (depth > MAX_DEPTH || v == NULL || json_is_null(v))
        text_str(t, "null");
    else if (json_is_object(v))
        add_json_object(t, v, depth);
    else if (json_is_array(v))
        add_json_array(t, v, depth);
    else if (json_is_string(v))
        text_json_bytes(t, json_string_value(v), json_string_length(v));
    else if (json_is_integer(v))
        text_fmt(t, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        text_number(t, json_real_value(v), 12);
    else
        text_str(t, json_is_true(v) ? "true" : "false");
}

void text_value(struct text *t, const json_t *v)
{
    add_json_value(t, v, 0);
}
