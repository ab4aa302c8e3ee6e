/* text/tokenizer/scan.h - reads a big JSON text in place: the members of an object and
 * the items of an array as slices of the text, strings decoded one at a time. A
 * vocabulary of 150,000 entries is read this way in a fraction of the time and memory of
 * a tree. */
#ifndef SR1__TOKENIZER_SCAN_H
#define SR1__TOKENIZER_SCAN_H

#include "base/buf.h"
#include "base/str.h"

/* Steps through one object or array. */
struct sr1__scan {
    const char *start;
    const char *p;
    const char *end;
    const char *name; /* of the file, for errors */
    char close;       /* '}' or ']' */
    int begun;
};

/* value must be an object ('{') or array ('['), else SR1_E_PARSE naming `what`. */
sr1_status sr1__scan_open(struct sr1__scan *s, struct sr1__str value, char kind,
                          const char *name, const char *what);

/* The next member (key with its quotes) or item (key NULL); *more 0 after the last. */
sr1_status sr1__scan_next(struct sr1__scan *s, struct sr1__str *key,
                          struct sr1__str *value, int *more);

/* The characters of a JSON string with its quotes: *out points into value, or into tmp
 * when there are escapes (valid until tmp changes). Always valid UTF-8. */
sr1_status sr1__scan_string(struct sr1__str value, struct sr1__buf *tmp, const char *name,
                            struct sr1__str *out);

/* A JSON integer between 0 and max. */
sr1_status sr1__scan_uint(struct sr1__str value, uint32_t max, const char *name,
                          uint32_t *out);

#endif
