/* retrieval/search/dense_scan.h - the top_k vectors of a dense index for a few queries:
 * all rows are scored, blocks of them on several threads. */
#ifndef SR1__SEARCH_DENSE_SCAN_H
#define SR1__SEARCH_DENSE_SCAN_H

#include "base/pool.h"
#include "retrieval/search/dense_index.h"

struct sr1__dense_hit {
    float score;
    uint32_t doc;
};

/* queries [n, dim], n > 0. out [n, top_k]: the best by score, then by number, *found of
 * each query (the same for all: top_k or the documents). Neither the number of threads
 * nor the other queries change a bit. pool NULL: the caller's thread alone. */
sr1_status sr1__dense_scan(const struct sr1__dense_index *ix, struct sr1__pool *pool,
                           const float *queries, size_t n, int32_t top_k,
                           struct sr1__dense_hit *out, int32_t *found);

/* Queries [n, dim] as the kernel takes them: out [n, stride], float or, for int8, int16,
 * which was zeros (what is behind dim stays), and scales[n] (1 for types without). */
void sr1__dense_queries(const struct sr1__dense_meta *m, const float *queries, size_t n,
                        void *out, float *scales);

#endif
