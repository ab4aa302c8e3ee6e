/* search/row_parse.h - a line of a corpus to the row that is stored and the text that is
 * indexed. */
#ifndef SR1__SEARCH_ROW_PARSE_H
#define SR1__SEARCH_ROW_PARSE_H

#include "base/json.h"
#include "search/text_cut.h"

/* Memory of one thread. */
struct sr1__row_parser {
    const struct sr1__text_format *format; /* of the contents */
    struct sr1__buf cut;                   /* contents without markup, or escapes */
    struct sr1__buf row;                   /* the row with those */
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
};
/* text[0..n) is a JSON object with id and contents; else SR1_E_PARSE. *out is borrowed
 * from text and the parser, until its next call. */
sr1_status sr1__row_parse(struct sr1__row_parser *p, const char *text, size_t n,
                          struct sr1__parsed_row *out);

#endif
