/* base/str.h - a piece of text that somebody else owns, not NUL-terminated. */
#ifndef SR1__BASE_STR_H
#define SR1__BASE_STR_H

#include <stddef.h>
#include <string.h>

struct sr1__str {
    const char *s;
    size_t n;
};

/* Of a whole NUL-terminated text; NULL is "". */
static inline struct sr1__str sr1__str_of(const char *text)
{
    return (struct sr1__str){text ? text : "", text ? strlen(text) : 0};
}

static inline int sr1__str_equal(struct sr1__str a, struct sr1__str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

static inline int sr1__str_is(struct sr1__str a, const char *text)
{
    return sr1__str_equal(a, sr1__str_of(text));
}

static inline int sr1__str_starts_with(struct sr1__str a, const char *text)
{
    struct sr1__str start = sr1__str_of(text);

    return a.n >= start.n && sr1__str_equal((struct sr1__str){a.s, start.n}, start);
}

static inline int sr1__str_ends_with(struct sr1__str a, const char *text)
{
    struct sr1__str end = sr1__str_of(text);

    return a.n >= end.n &&
           sr1__str_equal((struct sr1__str){a.s + (a.n - end.n), end.n}, end);
}

#endif
