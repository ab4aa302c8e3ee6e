/* retrieval/search/search_results.h - the results of a batch: an answer for each query,
 * shared by queries of the same text. */
#ifndef SR1__SEARCH_SEARCH_RESULTS_H
#define SR1__SEARCH_SEARCH_RESULTS_H

#include "retrieval/search/query_result.h"

#include <stdatomic.h>

struct sr1__hit_table;

struct sr1_search_results {
    size_t n;
    _Atomic(struct sr1__hit_table *) table; /* NULL until it is asked for */
    struct sr1__query_result *answers[];
};

void sr1__hit_table_free(struct sr1__hit_table *t); /* NULL is fine */

/* Is it a query that is not sent: NULL, nothing but blanks, or no UTF-8? */
int sr1__search_is_blank(const char *query);

#endif
