/* retrieval/search/retrieve.h - the protocol of retrieval servers, from the client's
 * side. */
#ifndef SR1__SEARCH_RETRIEVE_H
#define SR1__SEARCH_RETRIEVE_H

#include <searchr1/search.h>

#include "base/buf.h"

/* How servers want to be asked, in the order in which they are tried. */
enum sr1__dialect {
    SR1__DIALECT_QUERIES, /* Search-R1: {"queries": [...], "topk", "return_scores"} */
    SR1__DIALECT_QUERY,   /* SkyRL, FlashRAG's /search: {"query": text}, one at a time */
    SR1__DIALECT_QUERY_LIST, /* FlashRAG's /batch_search: {"query": [...], "top_n"} */
    SR1__DIALECTS
};

/* The body of a request; n is 1 for SR1__DIALECT_QUERY. */
sr1_status sr1__retrieve_write(struct sr1__buf *b, enum sr1__dialect dialect,
                               const char *const *queries, size_t n, int32_t top_k);

/* Does this body of an HTTP 422 say that 'query' is missing, or of another type: does the
 * server speak the next dialect? */
int sr1__retrieve_wants_next(const char *text, size_t len);

/* Read an answer to n queries into the sink, from query `first` on. SR1_E_PARSE when it
 * cannot be read or has not n lists: then nothing was given. A list that cannot be read
 * fails its own query. */
sr1_status sr1__retrieve_read(const char *text, size_t len, size_t first, size_t n,
                              sr1_search_sink *sink);

#endif
