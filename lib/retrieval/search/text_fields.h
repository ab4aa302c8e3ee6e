/* retrieval/search/text_fields.h - the fields of a database's documents that make a
 * passage. */
#ifndef SR1__SEARCH_TEXT_FIELDS_H
#define SR1__SEARCH_TEXT_FIELDS_H

#include "base/buf.h"
#include "base/json.h"

#define SR1__TEXT_FIELDS_MAX 16

/* Names as they are searched ("title^2": with twice the weight) and as documents have
 * them ("title"). */
struct sr1__text_fields {
    size_t n;
    char *searched[SR1__TEXT_FIELDS_MAX];
    char *named[SR1__TEXT_FIELDS_MAX];
};

/* Read names with commas between. Free with sr1__text_fields_free, also after a failure.
 * SR1_E_INVALID: there is none, or more than SR1__TEXT_FIELDS_MAX. */
sr1_status sr1__text_fields_read(struct sr1__text_fields *f, const char *names);
void sr1__text_fields_free(struct sr1__text_fields *f);

/* The names that documents have, and those that are searched, as a list. NULL: no memory.
 */
json_t *sr1__text_fields_list(const struct sr1__text_fields *f);
json_t *sr1__text_fields_list_searched(const struct sr1__text_fields *f);

/* Append the texts of a document, a line between two: 1, or 0 where it has none. A member
 * named "a.b", or b of a; of a list its texts. */
int sr1__text_fields_append(const struct sr1__text_fields *f, const json_t *document,
                            struct sr1__buf *b);

#endif
