/* tensor/ops/sample_logits.c - tokens drawn by inverting the cumulative distribution.
 *
 *     e = exp((x - max) / T);  keep by top_k, then by top_p;  the first token at which
 *     the running sum of kept e, in the order of ids, passes u times their sum
 *
 * The running sum is taken over blocks of the vocabulary first and then within the block
 * of the token, so that only [n,V/block] and [n,block] sums exist in fp64. */
#include "tensor/ops/sample_logits.h"

#include <math.h>

#define BLOCK_LEAST 32
#define BLOCK_MOST 1024
#define DEPTH_MOST 1e4 /* (x - max) / T below which exp is 0 in any case */

enum { ID, LOG_PROB, ENTROPY, LOG_KEPT, FINITE }; /* columns */

/* Logits at work; all [n,1] but x and e. */
struct logits_block {
    sr1_tensor *x; /* [n,V] fp32 */
    sr1_tensor *e; /* [n,V] fp32, 0 where cut */
    sr1_tensor *least;
    sr1_tensor *greatest;
    sr1_tensor *all;    /* fp64: sum of e before a cut */
    sr1_tensor *moment; /* fp64: sum of e (x - max) / T before a cut */
    sr1_tensor *kept;   /* fp64: sum of e after it */
    double temperature;
};

static sr1_tensor *sum_weights(sr1_scope *s, sr1_tensor *e)
{
    return t_sum_dim_as(s, e, -1, 1, SR1__F64);
}

static void weigh_block(sr1_scope *s, struct logits_block *b, sr1_tensor *logits,
                        const struct sr1__sampling *how)
{
    sr1_tensor *z;

    b->temperature = how->temperature > 0 ? how->temperature : 1.0;
    b->x = t_to(s, logits, SR1__F32);
    t_aminmax(s, b->x, -1, &b->least, &b->greatest);
    z = t_sub(s, b->x, b->greatest);
    t_mul_scalar_(s, z, 1.0 / b->temperature);
    z = t_clamp_min(s, z, -DEPTH_MOST);
    b->e = t_exp(s, z);
    t_mul_(s, z, b->e);
    b->all = sum_weights(s, b->e);
    b->moment = sum_weights(s, z);
    b->kept = b->all;
}

/* ---- cuts ---- */

/* Logits not below the k-th largest. */
static void keep_top_k(sr1_scope *s, struct logits_block *b, int64_t k)
{
    sr1_tensor *values, *places;

    t_topk(s, b->x, k, &values, &places);
    t_mul_(s, b->e, t_ge(s, b->x, t_narrow(s, values, 1, k - 1, 1)));
}

/* Tokens are ordered by logit, falling, and id, rising. The border is the first at which
 * the mass reaches p of all; it and all before it are kept. */
static void keep_top_p(sr1_scope *s, struct logits_block *b, double p)
{
    int64_t vocab = t_size(b->x, 1);
    sr1_tensor *values, *places, *sum, *target, *border, *logit, *id;

    t_sort_down(s, b->x, &values, &places);
    sum = t_cumsum(s, t_gather(s, b->e, -1, places), -1, SR1__F64);
    target = t_mul_scalar(s, t_narrow(s, sum, 1, vocab - 1, 1), p);
    border = t_sum_dim_as(s, t_lt(s, sum, target), -1, 1, SR1__I64);
    logit = t_gather(s, values, -1, border);
    id = t_gather(s, places, -1, border);
    t_mul_(s, b->e,
           t_logical_or(
               s, t_gt(s, b->x, logit),
               t_logical_and(s, t_eq(s, b->x, logit), t_le(s, t_arange(s, vocab), id))));
}

static void cut_block(sr1_scope *s, struct logits_block *b,
                      const struct sr1__sampling *how)
{
    int by_k = how->top_k > 0 && how->top_k < t_size(b->x, 1);

    if (by_k)
        keep_top_k(s, b, how->top_k);
    if (how->top_p < 1)
        keep_top_p(s, b, how->top_p);
    if (by_k || how->top_p < 1)
        b->kept = sum_weights(s, b->e);
}

/* ---- the draw ---- */

/* A block size that divides the vocabulary; all of it when none does. */
static int64_t choose_vocab_block(int64_t vocab)
{
    for (int64_t n = BLOCK_MOST; n >= BLOCK_LEAST; n--)
        if (vocab % n == 0)
            return n;
    return vocab;
}

/* The first place of each row at which the running sum passes target [n,1] and the weight
 * is not 0; the last with a weight when rounding carried the target beyond. */
static sr1_tensor *pick_weighted(sr1_scope *s, sr1_tensor *w, sr1_tensor *sum,
                                 sr1_tensor *target)
{
    sr1_tensor *reached = t_mul(s, sum, t_gt_scalar(s, w, 0.0));
    sr1_tensor *most = t_mul_scalar(s, t_max_dim(s, reached, -1, 1), 1.0 - 0x1p-52);
    sr1_tensor *passed = t_gt(s, reached, t_minimum(s, target, most));

    return t_argmax(s, t_to(s, passed, SR1__U8), -1, 1);
}

/* ids [n,1] */
static sr1_tensor *draw_ids(sr1_scope *s, const struct logits_block *b,
                            sr1_tensor *uniforms)
{
    int64_t n = t_size(b->e, 0), vocab = t_size(b->e, 1);
    int64_t block = choose_vocab_block(vocab);
    sr1_tensor *blocks = t_reshape(s, b->e, T_SHAPE(n, vocab / block, block));
    sr1_tensor *w = t_sum_dim_as(s, blocks, -1, 0, SR1__F64);
    sr1_tensor *sum = t_cumsum(s, w, -1, SR1__F64);
    sr1_tensor *target = t_mul(s, b->kept, uniforms);
    sr1_tensor *at = pick_weighted(s, w, sum, target);

    target = t_sub(s, target, t_sub(s, t_gather(s, sum, -1, at), t_gather(s, w, -1, at)));
    w = t_expand(s, t_unsqueeze(s, at, -1), T_SHAPE(n, 1, block));
    w = t_squeeze(s, t_gather(s, blocks, 1, w), 1);
    sum = t_cumsum(s, w, -1, SR1__F64);
    at = t_mul_scalar(s, t_to(s, at, SR1__F64), (double)block);
    return t_to(s, t_add(s, at, pick_weighted(s, w, sum, target)), SR1__I64);
}

/* ---- the whole ---- */

static sr1_tensor *compute_log_probs(sr1_scope *s, const struct logits_block *b,
                                     sr1_tensor *id)
{
    sr1_tensor *z = t_sub(s, t_to(s, t_gather(s, b->x, -1, id), SR1__F64), b->greatest);

    return t_sub(s, t_mul_scalar(s, z, 1.0 / b->temperature), t_log(s, b->kept));
}

/* 0 where all logits are finite, else NaN. */
static sr1_tensor *check_finite(sr1_scope *s, const struct logits_block *b)
{
    return t_add(s, t_sub(s, b->least, b->least), t_sub(s, b->greatest, b->greatest));
}

sr1_tensor *sr1__nn_sample(sr1_scope *s, sr1_tensor *logits, sr1_tensor *uniforms,
                           const struct sr1__sampling *how, sr1_tensor **ids)
{
    struct logits_block b = {.x = NULL};
    sr1_tensor *out[SR1__SAMPLE_COLUMNS];

    weigh_block(s, &b, logits, how);
    if (uniforms)
        cut_block(s, &b, how);
    out[ID] = uniforms ? draw_ids(s, &b, uniforms) : t_argmax(s, b.x, -1, 1);
    out[LOG_PROB] = compute_log_probs(s, &b, out[ID]);
    out[ENTROPY] = t_sub(s, t_log(s, b.all), t_div(s, b.moment, b.all));
    out[LOG_KEPT] = t_log(s, t_div(s, b.kept, b.all));
    out[FINITE] = check_finite(s, &b);
    *ids = out[ID];
    return t_cat(s, out, SR1__SAMPLE_COLUMNS, -1);
}

sr1_status sr1__samples_unpack(const double *columns, size_t n, struct sr1__sample *out)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(columns[i * SR1__SAMPLE_COLUMNS + FINITE]))
            return sr1__fail(SR1_E_NUMERIC,
                             "row %zu: a logit is not finite; are the weights?", i);
    for (size_t i = 0; i < n; i++) {
        const double *v = columns + i * SR1__SAMPLE_COLUMNS;

        out[i] = (struct sr1__sample){(int32_t)v[ID], (float)v[LOG_PROB],
                                      (float)v[ENTROPY], (float)v[LOG_KEPT]};
    }
    return SR1_OK;
}
