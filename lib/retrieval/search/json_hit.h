/* retrieval/search/json_hit.h - a hit of a service's JSON answer on its way to the sink.
 */
#ifndef SR1__SEARCH_JSON_HIT_H
#define SR1__SEARCH_JSON_HIT_H

#include <searchr1/search.h>

#include "base/buf.h"
#include "base/json.h"

struct sr1__json_hit {
    const json_t *id;       /* a text or a whole number; anything else: its rank */
    const json_t *score;    /* a number; anything else: 1 / its rank */
    const json_t *document; /* an object is the row; NULL: there is none */
    size_t rank;            /* from 1 */
};

/* Give the sink's query the hit with these contents. */
sr1_status sr1__json_hit_give(const struct sr1__json_hit *hit,
                              const struct sr1__buf *contents, size_t query,
                              sr1_search_sink *sink);

#endif
