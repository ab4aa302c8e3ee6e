/* retrieval/search/query_terms.h - the text of a query to the terms that an index has,
 * with their weights. */
#ifndef SR1__SEARCH_QUERY_TERMS_H
#define SR1__SEARCH_QUERY_TERMS_H

#include "retrieval/search/analyze.h"
#include "retrieval/search/bm25.h"

/* Memory of one query at a time. */
struct sr1__query_terms;
/* ix and analyzer are borrowed. */
sr1_status sr1__query_terms_new(struct sr1__query_terms **out,
                                const struct sr1__index *ix,
                                const struct sr1__analyzer *analyzer);
void sr1__query_terms_free(struct sr1__query_terms *q); /* NULL is fine */

/* The distinct terms of valid UTF-8 text that the index has, at most 1,024 of them, as a
 * bound on the work; *terms is borrowed until the next call. */
sr1_status sr1__query_terms_find(struct sr1__query_terms *q, const char *text,
                                 const struct sr1__bm25_query_term **terms, size_t *n);

#endif
