/* retrieval/search/point_query.h - Qdrant's points/query/batch: a request of many
 * vectors, the points nearest to each of them. */
#ifndef SR1__SEARCH_POINT_QUERY_H
#define SR1__SEARCH_POINT_QUERY_H

#include "retrieval/search/text_fields.h"

#include <searchr1/search.h>

struct sr1__point_query {
    struct sr1__text_fields fields; /* of a payload */
    char *vector;                   /* its name; "": the collection's only one */
    char *id_field;                 /* of a payload; "": the point's own id */
    int32_t by_distance;            /* the nearest has the least score */
};

/* The vectors of a collection, as the collection says. */
struct sr1__point_vectors {
    int64_t size;        /* 0: it has none of that name */
    int32_t by_distance; /* Euclid, Manhattan */
    int64_t points;      /* -1: not said */
    char names[256];     /* of named ones, with commas between */
};

/* Append the body of a request for vectors[n][dim]. */
sr1_status sr1__points_write(struct sr1__buf *b, const struct sr1__point_query *q,
                             const float *vectors, size_t n, size_t dim, int32_t top_k);

/* Read an answer to n vectors into the sink's first n queries. SR1_E_PARSE: it is none,
 * or has not n lists; then nothing was given. A list that cannot be read fails its own
 * query.
 */
sr1_status sr1__points_read(const char *text, size_t len,
                            const struct sr1__point_query *q, size_t n,
                            sr1_search_sink *sink);

/* Read what GET of a collection answers about the vectors of this name ("": the only
 * ones). SR1_E_PARSE: it is no collection. */
sr1_status sr1__points_read_collection(const char *text, size_t len, const char *vector,
                                       struct sr1__point_vectors *out);

#endif
