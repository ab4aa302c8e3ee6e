/* kernels/attention.c - attention over a paged cache, page by page.
 *
 * The softmax is computed online: with m the largest score so far, l and o the sums of
 * exp(s - m) and exp(s - m) v, a page with a larger score first scales l and o by
 * exp(m_old - m_new). The result is o / l. Vectors are written with the compilers' vector
 * extension, which every compiler target lowers to its own instructions
 * (attention_tile.inc). */
#include "kernels/attention.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <math.h>
#include <string.h>

#define VALUE_STEP 16 /* elements that a stored value is rounded up to */

static int32_t round_up_dim(int32_t dim)
{
    return (dim + VALUE_STEP - 1) / VALUE_STEP * VALUE_STEP;
}

static size_t cache_element_size(int bf16)
{
    return bf16 ? sizeof(uint16_t) : sizeof(float);
}

size_t sr1__page_keys_bytes(int32_t dim, int bf16)
{
    return (size_t)dim * SR1__PAGE * cache_element_size(bf16);
}

size_t sr1__page_values_bytes(int32_t dim, int bf16)
{
    return (size_t)round_up_dim(dim) * SR1__PAGE * cache_element_size(bf16);
}

/* ---- storing ---- */

void sr1__page_put(const struct sr1__page_head *h, int64_t t, const void *key,
                   const void *value)
{
    unsigned char *page = h->pages[t / SR1__PAGE];
    size_t at = (size_t)(t % SR1__PAGE);
    size_t d = (size_t)h->dim;

    if (h->bf16) {
        uint16_t *k = (uint16_t *)(void *)(page + h->keys) + at;

        for (size_t i = 0; i < d; i++)
            k[i * SR1__PAGE] = ((const uint16_t *)key)[i];
    } else {
        float *k = (float *)(void *)(page + h->keys) + at;

        for (size_t i = 0; i < d; i++)
            k[i * SR1__PAGE] = ((const float *)key)[i];
    }
    memcpy(page + h->values +
               at * (size_t)round_up_dim(h->dim) * cache_element_size(h->bf16),
           value, d * cache_element_size(h->bf16));
}

void sr1__page_get(const struct sr1__page_head *h, void *keys, void *values)
{
    size_t d = (size_t)h->dim;
    size_t size = cache_element_size(h->bf16);

    for (int64_t t = 0; t < h->n; t++) {
        const unsigned char *page = h->pages[t / SR1__PAGE];
        size_t at = (size_t)(t % SR1__PAGE);
        unsigned char *k = (unsigned char *)keys + (size_t)t * d * size;

        for (size_t i = 0; i < d; i++)
            memcpy(k + i * size, page + h->keys + (i * SR1__PAGE + at) * size, size);
        memcpy((unsigned char *)values + (size_t)t * d * size,
               page + h->values + at * (size_t)round_up_dim(h->dim) * size, d * size);
    }
}

/* ---- attention ---- */

#define TILE_MOST 4
#define LANES_MOST 16

/* Of the queries of a tile. */
struct attend_state {
    float s[TILE_MOST][SR1__PAGE]; /* scores, then weights, of the tokens of a page */
    float top[TILE_MOST];          /* the largest score so far */
    float total[TILE_MOST][LANES_MOST]; /* of the weights, by lane */
    float scale[TILE_MOST];   /* of the sums so far, as the page moved the top */
    int64_t first[TILE_MOST]; /* the query sees [first, end) of the page's tokens */
    int64_t end[TILE_MOST];
};

/* Of a page: [first, end) are seen by all queries of a tile, [0, most) by some. */
struct shared_tokens {
    int64_t first, end, most;
};

/* What is read after the page of token t: the next one's keys, or what the caller
 * says. */
static const unsigned char *locate_next_keys(const struct sr1__page_head *h, int64_t t,
                                             int64_t most)
{
    if (t + SR1__PAGE < most)
        return h->pages[t / SR1__PAGE + 1] + h->keys;
    return h->next ? h->next : h->pages[t / SR1__PAGE] + h->keys;
}

/* As much as a vector of PAGE elements, into the second cache: the first waits for too
 * few lines at a time to keep a memory at work. */
SR1__INLINE const unsigned char *prefetch_cache(const unsigned char *ahead, int bf16)
{
    __builtin_prefetch(ahead, 0, 2);
    if (!bf16)
        __builtin_prefetch(ahead + 64, 0, 2);
    return ahead + SR1__PAGE * (bf16 ? sizeof(uint16_t) : sizeof(float));
}

#define NAME(x) x##_8
#define LANES 8
#define TILE 2
#include "kernels/attention_tile.inc"

#define NAME(x) x##_16
#define LANES 16
#define TILE 4
#include "kernels/attention_tile.inc"

#define VARIANT(name, body, attribute)                                                   \
    attribute static void attend_##name(const struct sr1__page_head *h,                  \
                                        const struct sr1__page_query *q, size_t n)       \
    {                                                                                    \
        body(h, q, n);                                                                   \
    }

VARIANT(portable, attend_body_8, )
#if defined(__x86_64__)
VARIANT(avx2, attend_body_8, __attribute__((target("avx2,fma"))))
VARIANT(avx512, attend_body_16,
        __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"))))
#endif

void sr1__page_attend(const struct sr1__page_head *h, const struct sr1__page_query *q,
                      size_t n)
{
    SR1__PICK(attend)(h, q, n);
}
