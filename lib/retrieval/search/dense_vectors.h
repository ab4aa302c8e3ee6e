/* retrieval/search/dense_vectors.h - how vectors are kept: one row of a table for each
 * type. */
#ifndef SR1__SEARCH_DENSE_VECTORS_H
#define SR1__SEARCH_DENSE_VECTORS_H

#include "base/error.h"
#include "kernels/dot.h"

struct sr1__dense_type {
    const char *name;
    enum sr1__dot_type dot; /* also its number in index files */
    size_t size;            /* bytes of an element */
    int scaled;             /* each row has a scale */
};

/* NULL: there is none; *names lists them, where asked for. */
const struct sr1__dense_type *sr1__dense_type_find(const char *name, const char **names);
const struct sr1__dense_type *sr1__dense_type_at(uint32_t number);

/* Elements of a row as it is kept: dim and zeros behind. */
static inline size_t sr1__dense_stride(size_t dim)
{
    return (dim + SR1__DOT_STEP - 1) / SR1__DOT_STEP * SR1__DOT_STEP;
}

/* v[dim] as it is kept: row[stride], *scale (1 for types without). SR1_E_NUMERIC for a
 * number that is not finite or does not fit. */
sr1_status sr1__dense_encode(const struct sr1__dense_type *type, const float *v,
                             size_t dim, void *row, float *scale);
/* And back: row[dim] to out[dim]. */
void sr1__dense_decode(const struct sr1__dense_type *type, const void *row, float scale,
                       size_t dim, float *out);

#endif
