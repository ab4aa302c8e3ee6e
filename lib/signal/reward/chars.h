/* signal/reward/chars.h - text as code points, with the few string operations of Python
 * that the rewards are defined by. */
#ifndef SR1__REWARD_CHARS_H
#define SR1__REWARD_CHARS_H

#include "base/buf.h"

struct sr1__chars {
    uint32_t *cp; /* never NULL after decode */
    size_t n;
};

/* Bytes that are not UTF-8 give U+FFFD, one each. Free with sr1__chars_free. */
sr1_status sr1__chars_decode(struct sr1__chars *out, const char *s, size_t n);
void sr1__chars_free(struct sr1__chars *c); /* leaves it empty; an empty one is fine */

/* str.lower: full mappings (U+0130) and the final form of sigma. */
sr1_status sr1__chars_lower(struct sr1__chars *c);

/* "".join(s.split()) */
void sr1__chars_drop_space(struct sr1__chars *c);

/* Is it a letter or digit (str.isalnum)? */
int sr1__is_alnum(uint32_t cp);

/* Is it a digit (str.isdigit)? */
int sr1__is_digit(uint32_t cp);

/* Is it a mark (category M)? */
int sr1__is_mark(uint32_t cp);

/* Append in UTF-8. */
void sr1__chars_encode(const uint32_t *cp, size_t n, struct sr1__buf *out);

int sr1__chars_equal(const struct sr1__chars *a, const struct sr1__chars *b);

#endif
