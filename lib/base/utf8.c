/* base/utf8.c - UTF-8 by table 3-7 of the Unicode standard: the first byte limits the
 * second byte, which excludes overlong forms, surrogates and values past U+10FFFF. */
#include "base/utf8.h"

#include <string.h>

/* Length of the character a first byte opens and the bounds of its second byte; 0: none.
 */
static int decode_lead_byte(unsigned char c, unsigned char *low, unsigned char *high)
{
    *low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    *high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (c < 0x80)
        return 1;
    if (c < 0xc2)
        return 0;
    return c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
}

int sr1__utf8_next(const char *s, size_t n, uint32_t *cp)
{
    static const unsigned char first_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *p = (const unsigned char *)s;
    unsigned char low, high;
    uint32_t value;
    int len;

    if (n == 0)
        return -1;
    len = decode_lead_byte(p[0], &low, &high);
    value = p[0] & first_bits[len];
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n)
            return -1;
        if (p[i] < low || p[i] > high)
            return 0;
        value = value << 6 | (p[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    if (len)
        *cp = value;
    return len;
}

int sr1__utf8_put(uint32_t cp, char out[4])
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        cp = 0xfffd;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

int sr1__utf8_valid(const char *s, size_t n)
{
    uint32_t cp;

    for (size_t i = 0; i < n;) {
        int len = sr1__utf8_next(s + i, n - i, &cp);

        if (len <= 0)
            return 0;
        i += (size_t)len;
    }
    return 1;
}

size_t sr1__utf8_complete(const char *s, size_t n)
{
    uint32_t cp;

    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];

        if ((c & 0xc0) == 0x80)
            continue;
        return sr1__utf8_next(s + n - back, back, &cp) == -1 ? n - back : n;
    }
    return n;
}

/* Bytes of what stands in place of a character at s[0..n): one, or the piece of a
 * character that they begin. */
static size_t count_broken_bytes(const char *s, size_t n)
{
    uint32_t cp;
    size_t k = 1;

    while (k < n && k < 3 && sr1__utf8_next(s, k + 1, &cp) == -1)
        k++;
    return k;
}

size_t sr1__utf8_clean(const char *s, size_t n, char *out, size_t size)
{
    uint32_t cp;
    size_t at = 0, step;

    for (size_t i = 0; i < n; i += step) {
        int len = sr1__utf8_next(s + i, n - i, &cp);
        size_t more = len > 0 ? (size_t)len : 3;

        step = len > 0 ? more : count_broken_bytes(s + i, n - i);
        if (at + more >= size)
            break;
        memcpy(out + at, len > 0 ? s + i : "\xEF\xBF\xBD", more);
        at += more;
    }
    out[at] = '\0';
    return at;
}

size_t sr1__utf8_mark(const char *s, size_t n)
{
    return n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

void sr1__utf8_skip_mark(const char **s, size_t *n)
{
    size_t mark = sr1__utf8_mark(*s, *n);

    if (mark == 0)
        return;
    *s += mark;
    *n -= mark;
}

size_t sr1__utf8_count(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}
