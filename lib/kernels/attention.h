/* kernels/attention.h - attention of new tokens over a paged cache of keys and values.
 *
 * A page holds SR1__PAGE tokens of a row. For one key-value head it has keys turned, [D,
 * PAGE], so that the scores of neighbouring tokens are made side by side, and values
 * [PAGE, Dp], Dp being D rounded up to a multiple of 16. Elements are fp32 or bf16. */
#ifndef SR1__KERNELS_ATTENTION_H
#define SR1__KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#define SR1__PAGE 32
#define SR1__HEAD_DIM_MAX 1024

/* The cache of one row and one key-value head. */
struct sr1__page_head {
    unsigned char *const *pages;
    size_t keys;               /* bytes from a page's start to this head's keys */
    size_t values;             /* and to its values */
    int64_t n;                 /* tokens */
    int32_t dim;               /* D <= SR1__HEAD_DIM_MAX */
    int32_t bf16;              /* else fp32 */
    const unsigned char *next; /* keys of a page that are read after this head, to be
                                  asked for meanwhile; NULL: none */
};

/* Bytes of the keys, or of the values, of one head in a page. */
size_t sr1__page_keys_bytes(int32_t dim, int bf16);
size_t sr1__page_values_bytes(int32_t dim, int bf16);

/* Store key[D] and value[D], of the cache's type, as token t. */
void sr1__page_put(const struct sr1__page_head *h, int64_t t, const void *key,
                   const void *value);
/* Copy all keys and values out, each as [n, D] of the cache's type. */
void sr1__page_get(const struct sr1__page_head *h, void *keys, void *values);

/* A head of a token that attends to the tokens [from, n) of a row. */
struct sr1__page_query {
    const float *q; /* [D], already scaled */
    float *out;     /* [D] */
    int64_t n;      /* > from; at most the page head's */
    int64_t from;
};

/* Where a token, the last of n, begins to attend: to the last `window` tokens; 0: to all.
 */
static inline int64_t sr1__window_start(int64_t n, int64_t window)
{
    return window > 0 && n > window ? n - window : 0;
}

/* out = sum_t softmax_t(q . key_t) value_t over from <= t < n, for each query: the same
 * bits whichever others there are. Queries of neighbouring n share the reads. */
void sr1__page_attend(const struct sr1__page_head *h, const struct sr1__page_query *q,
                      size_t n);

#endif
