/* retrieval/search/row_parse.h - a line of a corpus to the row that is stored and the
 * text that is indexed. */
#ifndef SR1__SEARCH_ROW_PARSE_H
#define SR1__SEARCH_ROW_PARSE_H

#include "base/json.h"
#include "retrieval/search/strip_markup.h"

/* Memory of one thread. */
struct sr1__row_parser {
    const struct sr1__text_format *format; /* of the contents */
    struct sr1__buf cut;                   /* contents without markup, or escapes */
    struct sr1__buf row;                   /* the row with those, or of another form */
    struct sr1__buf mended;                /* the line as strict JSON */
    json_t *json;                          /* of the line parsed last; may be NULL */
};
void sr1__row_parser_init(struct sr1__row_parser *p,
                          const struct sr1__text_format *format);
void sr1__row_parser_free(struct sr1__row_parser *p);

struct sr1__parsed_row {
    const char *row;
    size_t row_size;
    const char *contents; /* may hold U+0000 */
    size_t size;
    uint64_t id_hash; /* equal for equal ids; 1 and "1" are equal */
};
/* text[0..n) is a JSON object with id and contents, or with BEIR's _id, or with text and
 * maybe title; the row then has id and contents too. Else SR1_E_PARSE. *out is borrowed
 * from text and the parser, until its next call. */
sr1_status sr1__row_parse(struct sr1__row_parser *p, const char *text, size_t n,
                          struct sr1__parsed_row *out);

#endif
