/* base/pull.h - a pull reader that parses JSON text in place: it allocates no memory, and
 * strings are decoded where they are.
 *
 * Requests are short and arrive at ten thousand a second, so no tree is built for them;
 * anybody can send them, so every byte is checked (the reader of vocabularies in
 * lib/text/tokenizer does not check). Deviations that clients' JSON writers produce are
 * read as Python's reader reads them: of a repeated member the last one counts, and half
 * a surrogate pair becomes U+FFFD. \u0000 becomes U+FFFD too, because texts end with a
 * NUL. */
#ifndef SR1__BASE_PULL_H
#define SR1__BASE_PULL_H

#include <stddef.h>
#include <stdint.h>

#define SR1__PULL_DEPTH 2048 /* objects and lists within each other, as in jansson */

enum sr1__pull_type {
    SR1__PULL_NONE, /* no value begins here */
    SR1__PULL_OBJECT,
    SR1__PULL_LIST,
    SR1__PULL_STRING,
    SR1__PULL_NUMBER,
    SR1__PULL_TRUE,
    SR1__PULL_FALSE,
    SR1__PULL_NULL
};

struct sr1__pull {
    char *begin;
    char *at;
    const char *error; /* first failure, as Python words it; later calls do nothing */
    int32_t depth;
    int32_t first; /* nothing was read yet from the innermost object or list */
    uint64_t objects[SR1__PULL_DEPTH / 64]; /* bit a depth: object, not list */
};

struct sr1__pull_span {
    char *p; /* NULL: none */
    size_t n;
};

/* text[n] must be '\0'. */
void sr1__pull_init(struct sr1__pull *s, char *text);
/* The value of four hexadecimal digits; -1 when they are not. */
int32_t sr1__pull_hex4(const char *p);
/* The type of the value that comes next. */
enum sr1__pull_type sr1__pull_peek(struct sr1__pull *s);
/* Enter the object or list that comes next. */
void sr1__pull_open(struct sr1__pull *s);
/* Is there one more member or element? 0 also leaves the object or list. */
int sr1__pull_more(struct sr1__pull *s);
/* The name of a member with its escapes, after sr1__pull_more. */
void sr1__pull_name(struct sr1__pull *s, struct sr1__pull_span *name);
int sr1__pull_name_is(const struct sr1__pull_span *name, const char *text);
/* Pass over any value; *raw (may be NULL) is its text. */
void sr1__pull_skip(struct sr1__pull *s, struct sr1__pull_span *raw);
/* A string: decoded in place and given a NUL, which destroys its JSON text. */
void sr1__pull_string(struct sr1__pull *s, struct sr1__pull_span *text);
/* Nothing may follow but space up to text + n. */
void sr1__pull_end(struct sr1__pull *s, const char *end);

#endif
