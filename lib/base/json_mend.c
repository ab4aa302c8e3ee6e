/* base/json_mend.c - rewrite JSON that Python reads and jansson refuses into JSON that
 * both read. */
#include "base/json.h"
#include "base/num.h"
#include "base/pull.h"

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

/* A whole number beyond 64 bits becomes a real one; one beyond those, the largest. */
static void mend_number(struct mending *m)
{
    size_t left = (size_t)(m->end - m->p);
    size_t n = 0;
    int whole = 1;
    char text[NUMBER_MAX];

    for (; n < left && m->p[n] != '\0' && strchr("+-.0123456789eE", m->p[n]); n++)
        whole &= strchr(".eE", m->p[n]) == NULL;
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
