/* retrieval/search/query_result.h - the answer to one query: counted, and read-only once
 * it is closed, so that a cache, repeated queries and several results can share it. */
#ifndef SR1__SEARCH_QUERY_RESULT_H
#define SR1__SEARCH_QUERY_RESULT_H

#include <searchr1/search.h>

#include "base/buf.h"
#include "retrieval/search/doc_cache.h"

struct sr1__query_result;

sr1_status sr1__query_result_new(struct sr1__query_result **out);
struct sr1__query_result *sr1__query_result_retain(struct sr1__query_result *a);
void sr1__query_result_free(struct sr1__query_result *a);

/* Settle the status of an answer to `query` that an engine has left, with its message. */
sr1_status sr1__query_result_close(struct sr1__query_result *a, const char *query);
/* An answer to a query that is not sent. */
sr1_status sr1__query_result_close_blank(struct sr1__query_result *a);

int32_t sr1__query_result_status(const struct sr1__query_result *a);
const char *sr1__query_result_message(const struct sr1__query_result *a);
int32_t sr1__query_result_hit_count(const struct sr1__query_result *a);
void sr1__query_result_hit(const struct sr1__query_result *a, int32_t k,
                           sr1_search_hit *hit);
/* The document that hit k holds; NULL: its texts are the answer's own. */
const struct sr1__doc *sr1__answer_doc(const struct sr1__query_result *a, int32_t k);
/* Has hit k no id of its own: "", or its rank? */
int32_t sr1__query_result_hit_unnamed(const struct sr1__query_result *a, int32_t k);
size_t sr1__query_result_bytes(const struct sr1__query_result *a);

/* The writing end, for the queries of one call of an engine. */
struct sr1_search_sink {
    struct sr1__query_result **answers; /* [n] */
    size_t n;
    int32_t top_k;
};

/* sr1_search_sink_hit and _row in one, of a document that an engine keeps: the hit takes
 * a reference of its own and copies nothing. */
sr1_status sr1__sink_doc(sr1_search_sink *sink, size_t query, struct sr1__doc *doc,
                         double score);
/* The same of hit k of a closed answer, with this score. */
sr1_status sr1__sink_copy(sr1_search_sink *sink, size_t query,
                          const struct sr1__query_result *from, int32_t k, double score);
/* The query's latest hit has no id of its own: what was given as such is its rank. */
void sr1__search_sink_unnamed(sr1_search_sink *sink, size_t query);

#endif
