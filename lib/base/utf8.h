/* base/utf8.h - UTF-8 by the Unicode standard: no overlong forms, no surrogates. */
#ifndef SR1__BASE_UTF8_H
#define SR1__BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decode the character at s[0..n). Returns its length 1..4 and sets *cp; 0 when the bytes
 * are not valid; -1 when they are a proper prefix of a valid character (more bytes
 * needed). */
int sr1__utf8_next(const char *s, size_t n, uint32_t *cp);
/* Encode cp into out[4]; returns 1..4. Surrogates and values past U+10FFFF give U+FFFD.
 */
int sr1__utf8_put(uint32_t cp, char out[4]);
int sr1__utf8_valid(const char *s, size_t n);
/* Length of the longest prefix that does not end inside a character that may yet
 * complete. */
size_t sr1__utf8_complete(const char *s, size_t n);
/* s[0..n) into out as valid UTF-8 with a NUL, cut at a character where size bytes are too
 * few. What is no character, such as a piece of one, is U+FFFD. Returns the length. */
size_t sr1__utf8_clean(const char *s, size_t n, char *out, size_t size);
/* Bytes of the byte order mark that some editors write before a text: 3, or 0. */
size_t sr1__utf8_mark(const char *s, size_t n);
/* Step over it. *s may be NULL where *n is 0. */
void sr1__utf8_skip_mark(const char **s, size_t *n);
/* Characters in valid UTF-8. */
size_t sr1__utf8_count(const char *s, size_t n);

#endif
