/* search/retrieve.h - the protocol of Search-R1's retrieval server, from the client's
 * side: POST /retrieve {"queries", "topk", "return_scores"} -> {"result": [[...]]}. */
#ifndef SR1__SEARCH_RETRIEVE_H
#define SR1__SEARCH_RETRIEVE_H

#include <searchr1/search.h>

#include "base/buf.h"

/* The body of a request. */
sr1_status sr1__retrieve_write(struct sr1__buf *b, const char *const *queries, size_t n,
                               int32_t top_k);

/* Read an answer to n queries into the sink. SR1_E_PARSE when it cannot be read or has
 * not n lists: then nothing was given. A list that cannot be read fails its own query. */
sr1_status sr1__retrieve_read(const char *text, size_t len, size_t n,
                              sr1_search_sink *sink);

#endif
