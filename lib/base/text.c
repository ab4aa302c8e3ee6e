/* base/text.c - white space as Python's str.isspace sees it: bidirectional type WS, B or
 * S, or category Zs. */
#include "base/text.h"

#include "base/utf8.h"

int sr1__is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

size_t sr1__char_next(const char *s, size_t n, uint32_t *cp)
{
    int len = sr1__utf8_next(s, n, cp);

    if (len > 0)
        return (size_t)len;
    *cp = 0xfffd;
    return 1;
}

/* Bytes of the white space character that ends s[0..n), 0 when there is none. */
static size_t space_at_end(const char *s, size_t n)
{
    size_t k;

    for (k = 1; k <= 3 && k <= n; k++) {
        uint32_t cp;

        if (sr1__utf8_next(s + n - k, k, &cp) == (int)k)
            return sr1__is_space(cp) ? k : 0;
    }
    return 0;
}

void sr1__strip(const char *s, size_t *begin, size_t *len)
{
    size_t cut;

    while (*len > 0) {
        uint32_t cp;
        size_t taken = sr1__char_next(s + *begin, *len, &cp);

        if (!sr1__is_space(cp))
            break;
        *begin += taken;
        *len -= taken;
    }
    while ((cut = space_at_end(s + *begin, *len)) > 0)
        *len -= cut;
}
