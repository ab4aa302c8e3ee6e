/* base/json_mend.c - rewrite JSON that Python reads and jansson refuses into JSON that
 * both read; find what must not be rewritten. */
#include "base/json.h"
#include "base/num.h"
#include "base/pull.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\\ufffd"
#define LARGEST "1.7976931348623157e308"
#define NUMBER_MAX 4096 /* bytes; a longer number is left alone */

/* Where a text is read, and what came of it. */
struct mending {
    const char *p;
    const char *end;
    struct sr1__buf *out;
};

/* The four digits of the escape at p; -1 when there is none. */
static int32_t read_hex_escape(const struct mending *m, const char *p)
{
    return m->end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? sr1__pull_hex4(p + 2) : -1;
}

/* The escape at m->p, as it is or, where it is half a surrogate pair, as U+FFFD. */
static void mend_escape(struct mending *m)
{
    int32_t unit = read_hex_escape(m, m->p);
    int32_t low = unit >= 0xD800 && unit < 0xDC00 ? read_hex_escape(m, m->p + 6) : -1;
    size_t n = unit < 0 ? 2 : 6;

    if (low >= 0xDC00 && low < 0xE000)
        n = 12;
    if (n > (size_t)(m->end - m->p))
        n = (size_t)(m->end - m->p);
    if (n == 6 && unit >= 0xD800 && unit < 0xE000)
        sr1__buf_str(m->out, REPLACEMENT);
    else
        sr1__buf_add(m->out, m->p, n);
    m->p += n;
}

/* m->p is at the opening quote. */
static void mend_string(struct mending *m)
{
    sr1__buf_char(m->out, *m->p++);
    while (m->p < m->end) {
        const char *from = m->p;

        while (m->p < m->end && *m->p != '"' && *m->p != '\\')
            m->p++;
        sr1__buf_add(m->out, from, (size_t)(m->p - from));
        if (m->p < m->end && *m->p == '\\') {
            mend_escape(m);
            continue;
        }
        if (m->p < m->end)
            sr1__buf_char(m->out, *m->p++);
        return;
    }
}

/* Bytes of the number at s; *whole: it has no point and no exponent. */
static size_t measure_json_number(const char *s, size_t n, int *whole)
{
    size_t i = 0;

    for (*whole = 1; i < n && s[i] != '\0' && strchr("+-.0123456789eE", s[i]); i++)
        *whole &= strchr(".eE", s[i]) == NULL;
    return i;
}

/* A whole number beyond 64 bits becomes a real one; one beyond those, the largest. */
static void mend_number(struct mending *m)
{
    int whole;
    size_t n = measure_json_number(m->p, (size_t)(m->end - m->p), &whole);
    char text[NUMBER_MAX];

    if (n < sizeof(text)) {
        memcpy(text, m->p, n);
        text[n] = '\0';
        errno = 0;
        if (isinf(sr1__to_double(text))) {
            sr1__buf_str(m->out, text[0] == '-' ? "-" LARGEST : LARGEST);
            m->p += n;
            return;
        }
        errno = 0;
        if (whole && (strtoll(text, NULL, 10), errno == ERANGE)) {
            sr1__buf_add(m->out, m->p, n);
            sr1__buf_str(m->out, "e0");
            m->p += n;
            return;
        }
    }
    sr1__buf_add(m->out, m->p, n);
    m->p += n;
}

/* Python writes these three; they are no numbers of JSON. */
static int mend_word(struct mending *m)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(m->end - m->p) >= n && memcmp(m->p, words[i], n) == 0) {
            sr1__buf_str(m->out, "null");
            m->p += n;
            return 1;
        }
    }
    return 0;
}

void sr1__json_mend(const char *text, size_t n, struct sr1__buf *out)
{
    struct mending m = {text, n > 0 ? text + n : text, out}; /* text may be NULL */

    while (m.p < m.end) {
        if (*m.p == '"')
            mend_string(&m);
        else if ((*m.p >= '0' && *m.p <= '9') ||
                 (*m.p == '-' && m.p + 1 < m.end && m.p[1] != 'I'))
            mend_number(&m);
        else if (!mend_word(&m))
            sr1__buf_char(out, *m.p++);
    }
}

/* ---- rows whose numbers must not be rounded ---- */

/* Bytes of the string at s, with its quotes. */
static size_t measure_json_string(const char *s, size_t n)
{
    size_t i = 1;

    while (i < n && s[i] != '"')
        i += s[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

static int is_before_colon(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && sr1__is_json_space(s[i]))
        i++;
    return i < n && s[i] == ':';
}

static sr1_status refuse_number(struct sr1__str field, const char *s, size_t n)
{
    const size_t most = 40;

    return sr1__fail(SR1_E_PARSE,
                     "field '%.*s' has %.*s%s, a whole number of more than 64 bits; "
                     "write it as a text, in quotes",
                     (int)sr1__utf8_complete(field.s, field.n < 64 ? field.n : 64),
                     field.s, (int)(n < most ? n : most), s, n > most ? "..." : "");
}

sr1_status sr1__json_refuse_big(const char *row, size_t n)
{
    struct sr1__str field = {"", 0};
    size_t depth = 0, used;
    int64_t value;
    int whole;

    for (size_t i = 0; i < n; i += used) {
        used = 1;
        if (row[i] == '"') {
            used = measure_json_string(row + i, n - i);
            if (depth == 1 && used > 1 && is_before_colon(row + i + used, n - i - used))
                field = (struct sr1__str){row + i + 1, used - 2};
        } else if (row[i] == '-' || (row[i] >= '0' && row[i] <= '9')) {
            used = measure_json_number(row + i, n - i, &whole);
            if (whole && used > 1 && !sr1__parse_int(row + i, used, &value))
                return refuse_number(field, row + i, used);
        } else {
            depth += row[i] == '{' || row[i] == '[';
            depth -= depth > 0 && (row[i] == '}' || row[i] == ']');
        }
    }
    return SR1_OK;
}
