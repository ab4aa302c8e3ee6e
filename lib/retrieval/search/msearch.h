/* retrieval/search/msearch.h - _msearch of OpenSearch and Elasticsearch: a request of
 * many searches, in lines of JSON, and its answer, which has a status for each of them.
 */
#ifndef SR1__SEARCH_MSEARCH_H
#define SR1__SEARCH_MSEARCH_H

#include "retrieval/search/text_fields.h"

#include <searchr1/search.h>

/* How one search ended. */
struct sr1__msearch_item {
    int32_t code; /* of HTTP, as the server says it: 200, its hits are in the sink. 503
                     and 504: a part of the index failed, or was too late. 0: it cannot be
                     read */
    char message[256];
};

/* Append a search of the fields for a query's words. */
sr1_status sr1__msearch_write(struct sr1__buf *b, const struct sr1__text_fields *f,
                              const char *query, int32_t top_k);
/* Append a search for any document that has this field. */
sr1_status sr1__msearch_write_exists(struct sr1__buf *b, const char *field);

/* Read an answer to n searches into the sink's first n queries and items[n]. SR1_E_PARSE:
 * it is none, or has not n parts; then nothing was given. fields NULL: ids alone. */
sr1_status sr1__msearch_read(const char *text, size_t len,
                             const struct sr1__text_fields *f, size_t n,
                             struct sr1__msearch_item *items, sr1_search_sink *sink);

#endif
