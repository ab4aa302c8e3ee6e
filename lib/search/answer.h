/* search/answer.h - the answer to one query: counted, and read-only once it is closed, so
 * that a cache, repeated queries and several results can share it. */
#ifndef SR1__SEARCH_ANSWER_H
#define SR1__SEARCH_ANSWER_H

#include <searchr1/search.h>

#include "base/buf.h"

struct sr1__answer;

sr1_status sr1__answer_new(struct sr1__answer **out);
struct sr1__answer *sr1__answer_retain(struct sr1__answer *a);
void sr1__answer_free(struct sr1__answer *a);

/* Settle the status of an answer to `query` that an engine has left, with its message. */
sr1_status sr1__answer_close(struct sr1__answer *a, const char *query);
/* An answer to a query that is not sent. */
sr1_status sr1__answer_close_blank(struct sr1__answer *a);

int32_t sr1__answer_status(const struct sr1__answer *a);
const char *sr1__answer_message(const struct sr1__answer *a);
int32_t sr1__answer_hit_count(const struct sr1__answer *a);
void sr1__answer_hit(const struct sr1__answer *a, int32_t k, sr1_search_hit *hit);
size_t sr1__answer_bytes(const struct sr1__answer *a);

/* The writing end, for the queries of one call of an engine. */
struct sr1_search_sink {
    struct sr1__answer **answers; /* [n] */
    size_t n;
    int32_t top_k;
};

/* sr1_search_sink_hit and _row in one, for texts that are valid UTF-8 already. row may be
 * NULL: none. */
sr1_status sr1__sink_valid_hit(sr1_search_sink *sink, size_t query, const char *id,
                               const char *contents, const char *row, double score);

#endif
