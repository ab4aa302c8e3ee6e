/* retrieval/search/row_scan.c - see row_scan.h. What is not understood at once is left to
 * the parser. */
#include "retrieval/search/row_scan.h"

#include "base/utf8.h"

#include <string.h>

#define KEYS_MAX 8    /* of one row */
#define DIGITS_MAX 18 /* surely within 64 bits */

struct row_scanner {
    const char *s;
    size_t n;
    size_t at;
};

/* Bytes of a string with what is between its quotes as it stands. */
struct raw_json_text {
    const char *s;
    size_t n;
    int escapes;
};

static void skip_blanks(struct row_scanner *c)
{
    while (c->at < c->n && (c->s[c->at] == ' ' || c->s[c->at] == '\t'))
        c->at++;
}

/* The next character that is not blank must be this one. */
static int expect_char(struct row_scanner *c, char ch)
{
    skip_blanks(c);
    if (c->at == c->n || c->s[c->at] != ch)
        return 0;
    c->at++;
    return 1;
}

static int plain_byte(unsigned char ch)
{
    return ch >= 0x20 && ch != '"' && ch != '\\';
}

#define EACH_BYTE(b) (0x0101010101010101u * (b))

/* Are 8 bytes all plain? x - n borrows into the top bit of a byte below n. */
static int plain_bytes(const char *s)
{
    uint64_t x;
    uint64_t quote;
    uint64_t slash;

    memcpy(&x, s, 8);
    quote = x ^ EACH_BYTE('"');
    slash = x ^ EACH_BYTE('\\');
    return (((x - EACH_BYTE(0x20)) & ~x) | ((quote - EACH_BYTE(1)) & ~quote) |
            ((slash - EACH_BYTE(1)) & ~slash)) &
                   EACH_BYTE(0x80)
               ? 0
               : 1;
}

/* A string; its escapes are simple ones. UTF-8 is not checked. */
static int read_raw_string(struct row_scanner *c, struct raw_json_text *out)
{
    size_t begin;

    if (!expect_char(c, '"'))
        return 0;
    begin = c->at;
    out->escapes = 0;
    for (;;) {
        while (c->at + 8 <= c->n && plain_bytes(c->s + c->at))
            c->at += 8;
        while (c->at < c->n && plain_byte((unsigned char)c->s[c->at]))
            c->at++;
        if (c->at == c->n || (unsigned char)c->s[c->at] < 0x20)
            return 0;
        if (c->s[c->at] == '"')
            break;
        if (c->at + 1 == c->n || strchr("\"\\/bfnrt", c->s[c->at + 1]) == NULL ||
            c->s[c->at + 1] == '\0')
            return 0;
        out->escapes = 1;
        c->at += 2;
    }
    out->s = c->s + begin;
    out->n = c->at++ - begin;
    return 1;
}

/* A whole number as JSON writes it, but not -0, which the parser reads as 0. */
static int read_integer(struct row_scanner *c)
{
    size_t begin;
    int negative;

    skip_blanks(c);
    negative = c->at < c->n && c->s[c->at] == '-';
    c->at += (size_t)negative;
    begin = c->at;
    while (c->at < c->n && c->s[c->at] >= '0' && c->s[c->at] <= '9')
        c->at++;
    if (c->at == begin || c->at - begin > DIGITS_MAX ||
        (c->s[begin] == '0' && (negative || c->at - begin > 1)))
        return 0;
    return c->at == c->n || strchr(".eE", c->s[c->at]) == NULL || c->s[c->at] == '\0';
}

static void unescape_string(const struct raw_json_text *r, struct sr1__buf *out)
{
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";

    for (size_t i = 0; i < r->n;) {
        const char *next = memchr(r->s + i, '\\', r->n - i);
        size_t run = next != NULL ? (size_t)(next - r->s) - i : r->n - i;
        const char *named;

        sr1__buf_add(out, r->s + i, run);
        i += run;
        if (next == NULL)
            return;
        named = strchr(from, r->s[i + 1]);
        sr1__buf_char(out, named != NULL ? to[named - from] : r->s[i + 1]);
        i += 2;
    }
}

static int is_key(const struct raw_json_text *key, const char *name)
{
    return key->n == strlen(name) && memcmp(key->s, name, key->n) == 0;
}

/* One member; what it was goes into the caller's flags. */
static int read_row_member(struct row_scanner *c, struct raw_json_text *key,
                           struct raw_json_text *contents, struct raw_json_text *id,
                           int *has_contents, int *has_id)
{
    struct raw_json_text value = {NULL, 0, 0};
    size_t begin;
    int is_string;

    if (!read_raw_string(c, key) || key->escapes || !expect_char(c, ':'))
        return 0;
    skip_blanks(c);
    is_string = c->at < c->n && c->s[c->at] == '"';
    begin = c->at;
    if (is_string ? !read_raw_string(c, &value) : !read_integer(c))
        return 0;
    if (is_key(key, "id")) {
        *has_id = 1;
        *id = is_string ? value : (struct raw_json_text){c->s + begin, c->at - begin, 0};
    }
    if (!is_key(key, "contents"))
        return 1;
    *has_contents = 1;
    *contents = value;
    return is_string;
}

static int read_object(struct row_scanner *c, struct raw_json_text *contents,
                       struct raw_json_text *id)
{
    struct raw_json_text keys[KEYS_MAX];
    size_t n = 0;
    int has_contents = 0;
    int has_id = 0;

    if (!expect_char(c, '{'))
        return 0;
    do {
        if (n == KEYS_MAX ||
            !read_row_member(c, &keys[n], contents, id, &has_contents, &has_id))
            return 0;
        for (size_t i = 0; i < n; i++) {
            if (keys[i].n == keys[n].n && memcmp(keys[i].s, keys[n].s, keys[n].n) == 0)
                return 0;
        }
        n++;
    } while (expect_char(c, ','));
    return expect_char(c, '}') && c->at == c->n && has_contents && has_id;
}

static int is_ascii_row(const char *s, size_t n)
{
    uint64_t any = 0;

    for (; n >= 8; s += 8, n -= 8) {
        uint64_t x;

        memcpy(&x, s, 8);
        any |= x;
    }
    for (; n > 0; s++, n--)
        any |= (unsigned char)*s;
    return (any & 0x8080808080808080u) == 0;
}

sr1_status sr1__row_scan(const char *text, size_t n, struct sr1__buf *scratch, int *known,
                         struct sr1__scanned_row *out)
{
    struct row_scanner c = {text, n, 0};
    struct raw_json_text found = {NULL, 0, 0};
    struct raw_json_text id = {NULL, 0, 0};

    *known = read_object(&c, &found, &id) && !id.escapes &&
             (is_ascii_row(text, n) || sr1__utf8_valid(text, n));
    *out = (struct sr1__scanned_row){id.s, id.n, found.s, found.n};
    if (!*known || !found.escapes)
        return SR1_OK;
    sr1__buf_clear(scratch);
    unescape_string(&found, scratch);
    out->contents = sr1__buf_cstr(scratch);
    out->size = scratch->len;
    return sr1__buf_status(scratch, "row");
}
