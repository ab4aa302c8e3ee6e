/* kernels/attention_tile.h - the body of attention.c, for vectors of LANES floats and up
 * to TILE queries at a time that share the reads of keys and values. Included once for
 * each width, with NAME(x) to tell them apart.
 *
 * What is computed of a query, and in which order, depends on LANES only, not on the
 * other queries of a tile. */

#define BYTES ((LANES)*4)
#define SCORES (SR1__PAGE / (LANES))
#define BLOCK 2 /* vectors of values that a tile sums at a time */

typedef float NAME(vf) __attribute__((vector_size(BYTES)));
typedef int32_t NAME(vi) __attribute__((vector_size(BYTES)));
typedef uint32_t NAME(vu) __attribute__((vector_size(BYTES)));
typedef uint16_t NAME(vh) __attribute__((vector_size(BYTES / 2)));

SR1__INLINE void NAME(load_cache)(NAME(vf) * out, const unsigned char *base, size_t i,
                                  int bf16)
{
    if (bf16) {
        NAME(vh) half;
        NAME(vu) wide;

        memcpy(&half, base + i * sizeof(uint16_t), sizeof half);
        wide = __builtin_convertvector(half, NAME(vu)) << 16;
        memcpy(out, &wide, sizeof *out);
    } else {
        memcpy(out, base + i * sizeof(float), sizeof *out);
    }
}

/* *z = exp(*z) for z <= 0; NaN stays NaN. See kernels/exp.h. */
SR1__INLINE void NAME(exp_negative)(NAME(vf) * z)
{
    NAME(vf) nan = (NAME(vf))((NAME(vi))(*z) & (*z != *z)); /* 0 where it is a number */
    NAME(vi) above = *z > SR1__EXP_LOWEST;
    NAME(vf) x = (NAME(vf))((NAME(vi))(*z) & above); /* 0 where the result will be 0 */
    NAME(vi) k = __builtin_convertvector(x * 1.44269504F - 0.5F, NAME(vi));
    NAME(vf) n = __builtin_convertvector(k, NAME(vf));
    NAME(vf) r = x - n * 0.693359375F - n * -2.12194440e-4F;
    NAME(vf) p = r * 1.3888889e-3F + 8.3333333e-3F;
    NAME(vi) scale = ((k + 127) << 23) & above;

    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r * r + r + 1.0F;
    *z = p * (NAME(vf))scale + nan;
}

/* s[i][t] = q_i . key_t of a page; what lies at `ahead`, as long as the keys, is asked
 * for meanwhile. */
SR1__INLINE void NAME(score_page)(const struct sr1__page_query *q, size_t nq,
                                  const unsigned char *keys, int32_t dim, int bf16,
                                  const unsigned char *ahead, float s[][SR1__PAGE])
{
    NAME(vf) sum[TILE][SCORES];

#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < SCORES; j++)
            sum[i][j] = (NAME(vf)){0};
    for (int32_t d = 0; d < dim; d++) {
        NAME(vf) k[SCORES];

        ahead = prefetch_cache(ahead, bf16);
#pragma GCC unroll 4
        for (size_t j = 0; j < SCORES; j++)
            NAME(load_cache)(&k[j], keys, (size_t)d * SR1__PAGE + j * (LANES), bf16);
#pragma GCC unroll 8
        for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 4
            for (size_t j = 0; j < SCORES; j++)
                sum[i][j] += k[j] * q[i].q[d];
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
        memcpy(s[i], sum[i], sizeof sum[i]);
}

/* s = exp(s - top); returns their sum. */
SR1__INLINE float NAME(weigh_page)(float *s, float top)
{
    NAME(vf) total = {0};
    float sum = 0;

    for (size_t j = 0; j < SCORES; j++) {
        NAME(vf) z;

        memcpy(&z, s + j * (LANES), sizeof z);
        z -= top;
        NAME(exp_negative)(&z);
        memcpy(s + j * (LANES), &z, sizeof z);
        total += z;
    }
    for (int l = 0; l < (LANES); l++)
        sum += total[l];
    return sum;
}

/* Vectors [d, d + n_vectors) of o = o scale + sum_t w[t] value_t, tokens [0, n). */
SR1__INLINE void NAME(add_values)(const struct attend_state *a, size_t nq,
                                  const unsigned char *values, int32_t width, int bf16,
                                  int64_t n, int32_t d, size_t n_vectors,
                                  const unsigned char *ahead, float *out)
{
    NAME(vf) sum[TILE][BLOCK];

#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++) {
        memcpy(sum[i], out + i * SR1__HEAD_DIM_MAX + d, n_vectors * BYTES);
#pragma GCC unroll 2
        for (size_t j = 0; j < n_vectors; j++)
            sum[i][j] *= a->scale[i];
    }
    for (int64_t t = 0; t < n; t++) {
        NAME(vf) v[BLOCK];

        ahead = prefetch_cache(ahead, bf16);
#pragma GCC unroll 2
        for (size_t j = 0; j < n_vectors; j++)
            NAME(load_cache)(&v[j], values, (size_t)(t * width + d) + j * (LANES), bf16);
#pragma GCC unroll 8
        for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 2
            for (size_t j = 0; j < n_vectors; j++)
                sum[i][j] += v[j] * a->s[i][t];
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
        memcpy(out + i * SR1__HEAD_DIM_MAX + d, sum[i], n_vectors * BYTES);
}

SR1__INLINE void NAME(sum_page_values)(const struct attend_state *a, size_t nq,
                                       const unsigned char *values, int32_t width,
                                       int bf16, int64_t n, const unsigned char *ahead,
                                       float *out)
{
    int32_t d = 0;

    for (; d + BLOCK * (LANES) <= width; d += BLOCK * (LANES))
        NAME(add_values)(a, nq, values, width, bf16, n, d, BLOCK,
                         ahead + d * SR1__PAGE * (bf16 ? 2 : 4), out);
    for (; d + (LANES) <= width; d += (LANES))
        NAME(add_values)(a, nq, values, width, bf16, n, d, 1,
                         ahead + d * SR1__PAGE * (bf16 ? 2 : 4), out);
}

/* Of a query that sees n > 0 tokens of the page. */
SR1__INLINE void NAME(move_top)(struct attend_state *a, size_t i, int64_t n)
{
    float top = a->top[i];

    for (int64_t t = n; t < SR1__PAGE; t++)
        a->s[i][t] = -INFINITY;
    for (int64_t t = 0; t < n; t++)
        top = a->s[i][t] > top ? a->s[i][t] : top;
    a->scale[i] = expf(a->top[i] - top); /* 0 at first */
    a->total[i] = a->total[i] * a->scale[i] + NAME(weigh_page)(a->s[i], top);
    a->top[i] = top;
}

SR1__INLINE void NAME(attend_page)(const struct sr1__page_head *h,
                                   const struct sr1__page_query *q, size_t nq, int bf16,
                                   int64_t from, int64_t next, struct attend_state *a,
                                   float *out)
{
    const unsigned char *page = h->pages[from / SR1__PAGE];
    int64_t most = 0;

    NAME(score_page)(q, nq, page + h->keys, h->dim, bf16, page + h->values, a->s);
    for (size_t i = 0; i < nq; i++) {
        int64_t n = q[i].n - from < SR1__PAGE ? q[i].n - from : SR1__PAGE;

        if (n > 0) {
            NAME(move_top)(a, i, n);
        } else { /* 0 is added to its sums */
            memset(a->s[i], 0, sizeof a->s[i]);
            a->scale[i] = 1;
        }
        most = n > most ? n : most;
    }
    NAME(sum_page_values)(a, nq, page + h->values, round_up_dim(h->dim), bf16, most,
                          h->pages[next / SR1__PAGE] + h->keys, out);
}

SR1__INLINE void NAME(attend_tile)(const struct sr1__page_head *h,
                                   const struct sr1__page_query *q, size_t nq, int bf16)
{
    float out[TILE * SR1__HEAD_DIM_MAX];
    struct attend_state a;
    int64_t most = 0;

    for (size_t i = 0; i < nq; i++) {
        a.top[i] = -INFINITY;
        a.total[i] = 0;
        most = q[i].n > most ? q[i].n : most;
        memset(out + i * SR1__HEAD_DIM_MAX, 0, (size_t)round_up_dim(h->dim) * sizeof *out);
    }
    for (int64_t t = 0; t < most; t += SR1__PAGE)
        NAME(attend_page)(h, q, nq, bf16, t, t + SR1__PAGE < most ? t + SR1__PAGE : t, &a,
                          out);
    for (size_t i = 0; i < nq; i++)
        for (int32_t d = 0; d < h->dim; d++)
            q[i].out[d] = out[i * SR1__HEAD_DIM_MAX + (size_t)d] / a.total[i];
}

/* The number of queries is a constant where sums are to stay in registers. */
SR1__INLINE void NAME(attend_few)(const struct sr1__page_head *h,
                                  const struct sr1__page_query *q, size_t nq, int bf16)
{
    switch (nq) {
    case 1:
        NAME(attend_tile)(h, q, 1, bf16);
        break;
    case 2:
        NAME(attend_tile)(h, q, 2, bf16);
        break;
#if TILE > 2
    case 3:
        NAME(attend_tile)(h, q, 3, bf16);
        break;
#endif
    default:
        NAME(attend_tile)(h, q, TILE, bf16);
    }
}

SR1__INLINE void NAME(attend_body)(const struct sr1__page_head *h,
                                   const struct sr1__page_query *q, size_t n)
{
    for (size_t i = 0; i < n; i += TILE) {
        size_t nq = n - i < TILE ? n - i : TILE;

        if (h->bf16)
            NAME(attend_few)(h, q + i, nq, 1);
        else
            NAME(attend_few)(h, q + i, nq, 0);
    }
}

#undef BYTES
#undef SCORES
#undef BLOCK
#undef NAME
#undef LANES
#undef TILE
