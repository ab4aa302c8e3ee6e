/* retrieval/search/vector_scorer.h - what scores vectors on a device: a table of
 * functions. lib/retrieval/search knows no tensors; the module that has them
 * (lib/tensor/encoder/device_scorer.c) hands its table in when the library is loaded. */
#ifndef SR1__SEARCH_VECTOR_SCORER_H
#define SR1__SEARCH_VECTOR_SCORER_H

#include "base/error.h"
#include "kernels/dot.h"

/* Queries of one call, at most. */
#define SR1__SCORER_QUERIES 64

/* The vectors of an index as it keeps them, n > 0; borrowed for the call. */
struct sr1__scorer_rows {
    enum sr1__dot_type type;
    size_t n;
    size_t dim;
    const void *rows;    /* [n, dim] */
    const float *scales; /* [n], for int8, else NULL */
    size_t block;        /* rows that are scored at once */
    uint64_t bytes;      /* memory of the device that all of it takes, scoring included */
};

struct sr1__scorer_ops {
    /* Take the rows over to a device: "cuda", "cuda:1", "auto" (SR1_E_DEVICE where there
     * is none but the CPU); tests: "cpu". SR1_E_DEVICE_NOMEM says so when they do not
     * fit. */
    sr1_status (*open)(void **out, const char *device,
                       const struct sr1__scorer_rows *rows);
    /* Its name, such as "cuda:0". Static. */
    const char *(*device)(const void *self);
    /* The `most` best rows (1 to n) of each of n_queries, fp32 [n_queries, dim], best
     * first: scores [n_queries, most] and their rows. A score is
     *
     *     scale[r] * sum_k row[r][k] query[k]
     *
     * of the elements as they are (int8 as whole numbers), each operation rounded to the
     * nearest fp32, the sum in any order; of rows of equal scores any may be left out.
     * One call at a time. */
    sr1_status (*best)(void *self, const float *queries, size_t n_queries, size_t most,
                       float *scores, int64_t *rows);
    void (*close)(void *self);
};

/* Before there are threads; ops is borrowed for good. */
void sr1__scorer_offer(const struct sr1__scorer_ops *ops);
/* NULL: nobody offered any. */
const struct sr1__scorer_ops *sr1__scorer_offered(void);

#endif
