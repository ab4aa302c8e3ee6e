/* text/data/python_list.c - see python_list.h. Elements are strings in single or double
 * quotes, with the escapes that repr() writes, and decimal numbers; commas separate them,
 * or, as numpy prints them, spaces. */
#include "text/data/python_list.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <string.h>

struct list_reader {
    const char *at, *end;
    json_t *list;
    int is_bad; /* it is no such list */
    sr1_status status;
};

static int next_is(const struct list_reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

static size_t skip_spaces(struct list_reader *r)
{
    const char *from = r->at;

    while (next_is(r, ' ') || next_is(r, '\t') || next_is(r, '\n') || next_is(r, '\r'))
        r->at++;
    return (size_t)(r->at - from);
}

static void append_element(struct list_reader *r, json_t *v)
{
    if (json_array_append_new(r->list, v) != 0)
        r->status = sr1__fail_nomem("list");
}

/* ---- strings ---- */

static uint32_t read_hex(struct list_reader *r, int digits)
{
    uint32_t v = 0;

    for (int i = 0; i < digits; i++, r->at++) {
        char c = r->at < r->end ? *r->at : 0;

        if (c >= '0' && c <= '9')
            v = 16 * v + (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = 16 * v + (uint32_t)((c | 32) - 'a') + 10;
        else
            r->is_bad = 1;
        if (r->is_bad)
            return 0;
    }
    return v;
}

static void read_escape(struct list_reader *r, struct sr1__buf *text)
{
    static const char plain[] = "\\'\"ntr", stands_for[] = "\\'\"\n\t\r";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *known = c ? strchr(plain, c) : NULL;
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t cp;
    char bytes[4];

    if (known) {
        sr1__buf_char(text, stands_for[known - plain]);
        return;
    }
    cp = read_hex(r, digits);
    if (digits == 0 || cp == 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        r->is_bad = 1;
    if (!r->is_bad)
        sr1__buf_add(text, bytes, (size_t)sr1__utf8_put(cp, bytes));
}

static void read_string(struct list_reader *r)
{
    char quote = *r->at++;
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    while (!r->is_bad && r->at < r->end && *r->at != quote) {
        char c = *r->at++;

        if (c == '\\')
            read_escape(r, &text);
        else
            sr1__buf_char(&text, c);
    }
    r->is_bad |= !next_is(r, quote);
    r->at++;
    if (!r->is_bad) {
        r->status = sr1__buf_status(&text, "list");
        if (r->status == SR1_OK)
            append_element(r, json_stringn(sr1__buf_cstr(&text), text.len));
    }
    sr1__buf_free(&text);
}

/* ---- the list ---- */

/* Digits of more than 64 bits stay the text that they are in the cell. */
static int is_whole_number(const char *s, size_t n)
{
    size_t sign = n > 0 && strchr("+-", s[0]) != NULL;

    return n > sign && strspn(s + sign, "0123456789") >= n - sign;
}

static void read_number(struct list_reader *r)
{
    const char *from = r->at;
    int64_t whole;
    double real;
    size_t n;

    while (r->at < r->end && strchr("+-.0123456789eE", *r->at) && *r->at)
        r->at++;
    n = (size_t)(r->at - from);
    if (sr1__parse_int(from, n, &whole))
        append_element(r, json_integer(whole));
    else if (is_whole_number(from, n))
        append_element(r, json_stringn(from, n));
    else if (sr1__parse_real(from, n, &real))
        append_element(r, json_real(real));
    else
        r->is_bad = 1;
}

static void read_element(struct list_reader *r)
{
    if (next_is(r, '\'') || next_is(r, '"'))
        read_string(r);
    else
        read_number(r);
}

/* What follows an element: 1, another one; 0, the end. */
static int read_separator(struct list_reader *r)
{
    size_t spaces = skip_spaces(r);

    if (next_is(r, ',')) {
        r->at++;
        skip_spaces(r);
        return !next_is(r, ']');
    }
    if (next_is(r, ']'))
        return 0;
    r->is_bad |= spaces == 0;
    return !r->is_bad;
}

static void read_list(struct list_reader *r)
{
    r->is_bad = !next_is(r, '[');
    r->at++;
    skip_spaces(r);
    if (!r->is_bad && next_is(r, ']'))
        r->at++;
    else if (!r->is_bad) {
        do
            read_element(r);
        while (!r->is_bad && r->status == SR1_OK && read_separator(r));
        r->is_bad |= !next_is(r, ']');
        r->at++;
    }
    if (!r->is_bad)
        skip_spaces(r);
    r->is_bad |= r->at != r->end;
}

sr1_status sr1__python_list_read(const char *s, size_t n, json_t **out)
{
    struct list_reader r = {.at = s, .end = s + n, .list = json_array()};

    SR1__CHECK_ALLOC(r.list, "list");
    read_list(&r);
    if (r.status == SR1_OK && !r.is_bad) {
        *out = r.list;
        return SR1_OK;
    }
    json_decref(r.list);
    *out = NULL;
    return r.status;
}
