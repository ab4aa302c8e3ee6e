/* text/tokenizer/chat_numbers.c - JSON of tools and messages, whose integers may be of
 * any size, as Python's are. jansson's integers have 64 bits, so before it reads the text
 * a larger one is replaced by a string that begins with a mark, and a string that already
 * begins with the mark gets a second one. */
#include "text/tokenizer/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\\u0001" /* as JSON spells it; read, it is one byte */
#define MARK_BYTE '\x01'
#define INTEGER 'I'
#define DIGITS_MAX 4300 /* Python reads no more */

static size_t string_length(const char *p, size_t n)
{
    size_t i = 1;

    while (i < n && p[i] != '"')
        i += p[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

static void put_marked_string(const char *p, size_t n, struct sr1__buf *out)
{
    if (n > sizeof MARK && memcmp(p + 1, MARK, sizeof MARK - 1) == 0) {
        sr1__buf_str(out, "\"" MARK "S");
        p++;
        n--;
    }
    sr1__buf_add(out, p, n);
}

/* Is this number an integer that 64 bits do not hold? */
static int is_large(const char *p, size_t n)
{
    size_t sign = *p == '-', digits = 0;
    char text[32];

    while (sign + digits < n && p[sign + digits] >= '0' && p[sign + digits] <= '9')
        digits++;
    if (sign + digits != n || digits < 19 || digits > DIGITS_MAX || p[sign] == '0')
        return 0;
    if (n >= sizeof text)
        return 1;
    memcpy(text, p, n);
    text[n] = '\0';
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return errno == ERANGE;
}

static void put_marked_number(const char *p, size_t n, struct sr1__buf *out)
{
    int large = is_large(p, n);

    sr1__buf_str(out, large ? "\"" MARK "I" : "");
    sr1__buf_add(out, p, n);
    sr1__buf_str(out, large ? "\"" : "");
}

static void put_marked(const char *p, size_t n, struct sr1__buf *out)
{
    static const char number[] = "+-.0123456789eE";

    for (const char *end = p + n; p < end; p += n) {
        n = 1;
        if (*p == '"') {
            n = string_length(p, (size_t)(end - p));
            put_marked_string(p, n, out);
        } else if (*p == '-' || (*p >= '0' && *p <= '9')) {
            while (p + n < end && p[n] && strchr(number, p[n]))
                n++;
            put_marked_number(p, n, out);
        } else {
            sr1__buf_char(out, *p);
        }
    }
}

sr1_status sr1__chat_json_parse(json_t **out, const char *text, size_t n,
                                const char *name)
{
    struct sr1__buf marked;
    sr1_status status;

    sr1__buf_init(&marked, 0);
    put_marked(text, n, &marked);
    status = sr1__buf_status(&marked, name);
    if (status == SR1_OK)
        status = sr1__json_parse(out, sr1__buf_cstr(&marked), marked.len, name);
    sr1__buf_free(&marked);
    return status;
}

int sr1__chat_json_text(const char *s, size_t n, struct sr1__str *out)
{
    int marked = n > 1 && s[0] == MARK_BYTE;

    *out = (struct sr1__str){s + 2 * marked, n - 2 * (size_t)marked};
    return !(marked && s[1] == INTEGER);
}
