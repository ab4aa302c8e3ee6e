/* base/text.h - white space as Python's str.isspace sees it, and as JSON does. */
#ifndef SR1__BASE_TEXT_H
#define SR1__BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

int sr1__is_space(uint32_t cp);
static inline int sr1__is_json_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
/* Character at s[0..n), n > 0; bytes that are not UTF-8 give U+FFFD, one each. Returns
 * the bytes taken, at least 1. */
size_t sr1__char_next(const char *s, size_t n, uint32_t *cp);
/* Narrow s[*begin .. *begin + *len) to leave out white space at both ends. */
void sr1__strip(const char *s, size_t *begin, size_t *len);

#endif
