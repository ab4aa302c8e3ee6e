/* retrieval/search/faiss_vectors.h - vectors in a file, read as fp32: a dense index of
 * ours, or raw numbers. */
#ifndef SR1__SEARCH_FAISS_VECTORS_H
#define SR1__SEARCH_FAISS_VECTORS_H

#include "base/map_watch.h"

struct sr1__dense_index;

struct sr1__faiss_vectors {
    size_t n;
    int32_t dim;
    struct sr1__dense_index *index; /* one of these two */
    struct sr1__map raw;
};

/* dim: of raw vectors; of an index it may be 0, or must be its own. */
sr1_status sr1__faiss_vectors_open(struct sr1__faiss_vectors *v, const char *path,
                                   int32_t dim);
void sr1__faiss_vectors_close(struct sr1__faiss_vectors *v); /* a zeroed one is fine */
/* Vectors [first, first + n), all of which exist, to out [n, dim]. SR1_E_NUMERIC for a
 * number that is not finite. */
sr1_status sr1__faiss_vectors_read(const struct sr1__faiss_vectors *v, size_t first,
                                   size_t n, float *out);

#endif
