/* tensor/ops/token_log_probs.c - log-probs of chosen tokens through the vocabulary in
 * parts.
 *
 *     z = h W^T / T      log p = z[target] - lse(z)      H = lse(z) - sum softmax(z) z
 *     dz = (g (onehot(target) - p) - gH p (log p + H)) / T    dh = dz W    dW = dz^T h
 *
 * Logits exist for one part at a time and are computed again in backward, where log p =
 * z - lse needs only the row's lse from forward. A part is a chunk of rows with the whole
 * vocabulary or, where kernels compute it, a block of the vocabulary with many rows: then
 * the weights and their gradient go through memory once for all of those. */
#include "tensor/ops/nn.h"

#include "base/mem.h"
#include "kernels/bf16.h"
#include "kernels/softmax.h"
#include "tensor/ops/fused.h"
#include "tensor/ops/linear.h"

#define CHUNK_BYTES ((int64_t)32 << 20)
#define BLOCK_ROWS 2048 /* at most, of a block of the vocabulary */
#define ROW_GRAIN 8     /* rows of a block for a thread */

struct head {
    sr1_tensor *hidden;  /* [N,E] */
    sr1_tensor *weight;  /* [V,E] */
    sr1_tensor *targets; /* [N,1] */
    sr1_tensor *lse;     /* [N,1], of forward */
    sr1_tensor *entropy; /* [N,1], of forward; NULL: not asked for */
    double inv_temp;
    int64_t chunk; /* rows at a time */
    int64_t block; /* tokens of the vocabulary at a time; 0: all, by tensor operations */
};

static void head_free(void *p)
{
    struct head *c = p;

    sr1__tensor_free(c->hidden);
    sr1__tensor_free(c->weight);
    sr1__tensor_free(c->targets);
    sr1__tensor_free(c->lse);
    sr1__tensor_free(c->entropy);
    sr1__free(c);
}

static sr1_tensor *narrow_chunk_rows(sr1_scope *s, sr1_tensor *x, int64_t from, int64_t n)
{
    return n == t_size(x, 0) ? x : t_narrow(s, x, 0, from, n);
}

/* z of some rows, fp32 [n,V] */
static sr1_tensor *chunk_logits(sr1_scope *s, const struct head *c, int64_t from,
                                int64_t n)
{
    sr1_tensor *z =
        t_to(s, t_linear(s, narrow_chunk_rows(s, c->hidden, from, n), c->weight, NULL),
             SR1__F32);

    if (c->inv_temp != 1.0)
        t_mul_scalar_(s, z, c->inv_temp);
    return z;
}

/* log-prob, lse and, when asked for, entropy of rows from..from+n into their places */
static void forward_chunk(sr1_scope *outer, const struct head *c, int64_t from, int64_t n,
                          sr1_tensor *log_prob)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *z = chunk_logits(s, c, from, n);
    sr1_tensor *lse = t_logsumexp(s, z, -1, 1);

    t_copy_(s, narrow_chunk_rows(s, c->lse, from, n), lse);
    t_copy_(s, narrow_chunk_rows(s, log_prob, from, n),
            t_sub(s, t_gather(s, z, -1, narrow_chunk_rows(s, c->targets, from, n)), lse));
    if (c->entropy) {
        sr1_tensor *p = t_exp(s, t_sub(s, z, lse));

        sr1_tensor *entropy = t_sub(s, lse, t_sum_dim(s, t_mul(s, p, z), -1, 1));

        /* rounding of logits leaves that of a sure token below 0 */
        t_copy_(s, narrow_chunk_rows(s, c->entropy, from, n),
                t_clamp_min(s, entropy, 0.0));
    }
    (void)sr1__scope_close(s);
}

/* Gradients with respect to the outputs (log-probs, entropies), [N,1] each; NULL when
 * autograd passed none. */
struct incoming {
    sr1_tensor *g;
    sr1_tensor *g_entropy;
};

/* g + gH (log p + H) of rows from..from+n: [n,1], or [n,V] with gH */
static sr1_tensor *compute_grad_all_tokens(sr1_scope *s, const struct head *c,
                                           const struct incoming *in, sr1_tensor *log_p,
                                           int64_t from, int64_t n)
{
    sr1_tensor *w;

    if (!in->g_entropy)
        return narrow_chunk_rows(s, in->g, from, n);
    w = t_add(s, log_p, narrow_chunk_rows(s, c->entropy, from, n));
    t_mul_(s, w, narrow_chunk_rows(s, in->g_entropy, from, n));
    return in->g ? t_add(s, w, narrow_chunk_rows(s, in->g, from, n)) : w;
}

/* dz of rows from..from+n, in the weights' type */
static sr1_tensor *chunk_grad_logits(sr1_scope *s, const struct head *c,
                                     const struct incoming *in, int64_t from, int64_t n)
{
    sr1_tensor *z = chunk_logits(s, c, from, n);
    sr1_tensor *all;

    t_sub_(s, z, narrow_chunk_rows(s, c->lse, from, n));
    all = compute_grad_all_tokens(s, c, in, z, from, n);
    t_exp_(s, z);
    t_mul_(s, z, t_mul_scalar(s, all, -c->inv_temp));
    if (in->g)
        t_scatter_add_(
            s, z, narrow_chunk_rows(s, c->targets, from, n),
            t_mul_scalar(s, narrow_chunk_rows(s, in->g, from, n), c->inv_temp));
    return t_to(s, z, t_dtype(c->weight));
}

static void backward_chunk(sr1_scope *outer, const struct head *c,
                           const struct incoming *in, int64_t from, int64_t n,
                           sr1_tensor *dh, sr1_tensor *dw)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *dz = chunk_grad_logits(s, c, in, from, n);
    sr1_tensor *h = narrow_chunk_rows(s, c->hidden, from, n);

    t_copy_(s, narrow_chunk_rows(s, dh, from, n), t_matmul(s, dz, c->weight));
    if (dw && t_dtype(h) == SR1__F32)
        t_addmm_(s, dw, t_transpose(s, dz, 0, 1), h);
    else if (dw)
        t_add_(s, dw, t_matmul(s, t_transpose(s, dz, 0, 1), h), 1.0);
    (void)sr1__scope_close(s);
}

/* dw of all rows in chunks, fp32 whatever the weights are, so that chunks add up without
 * rounding to their type. */
static void backward_chunks(sr1_scope *s, const struct head *c, const struct incoming *in,
                            sr1_tensor *dh, sr1_tensor **dw)
{
    int64_t n = t_size(c->hidden, 0);

    if (t_needs_grad(c->weight))
        *dw = t_full(s, 0.0, SR1__F32, t_ndim(c->weight), sr1__shim_sizes(c->weight));
    for (int64_t at = 0; at < n; at += c->chunk)
        backward_chunk(s, c, in, at, n - at < c->chunk ? n - at : c->chunk, dh, *dw);
}

/* ---- blocks of the vocabulary, by kernels ---- */

/* Some rows with a block of the vocabulary. */
struct vocab_block {
    const struct head *c;
    int64_t row, rows;
    int64_t from, width;
    float *logits;              /* [rows, width], then their gradients, and */
    uint16_t *narrow;           /* those in bf16; NULL: weights are fp32 */
    struct sr1__log_sum *sums;  /* [rows] */
    float *log_prob;            /* [rows] */
    const float *g, *g_entropy; /* [rows]; NULL: none */
};

static float *read_rows(const sr1_tensor *t, int64_t row)
{
    return t ? (float *)sr1__shim_data(t) + row : NULL;
}

/* Where in a block's row the row's target is; -1: in another block. */
static int64_t find_target(const struct vocab_block *b, int64_t i)
{
    const int64_t *targets = sr1__shim_data(b->c->targets);
    int64_t at = targets[b->row + i] - b->from;

    return at >= 0 && at < b->width ? at : -1;
}

static void run_block_rows(sr1_scope *s, struct vocab_block *b,
                           void (*fn)(void *, int64_t, int64_t))
{
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_parallel(b->rows, ROW_GRAIN, fn, b));
}

/* log_prob has the target's logit until all blocks are through. */
static void add_block_rows(void *arg, int64_t begin, int64_t end)
{
    const struct vocab_block *b = arg;

    for (int64_t i = begin; i < end; i++) {
        const float *z = b->logits + i * b->width;
        int64_t target = find_target(b, i);

        sr1__log_sum_add(&b->sums[i], z, (size_t)b->width, 1.0 / b->c->inv_temp);
        if (target >= 0)
            b->log_prob[i] = (float)(z[target] * b->c->inv_temp);
    }
}

static void finish_rows(const struct vocab_block *b)
{
    float *lse = read_rows(b->c->lse, b->row);
    float *entropy = read_rows(b->c->entropy, b->row);

    for (int64_t i = 0; i < b->rows; i++) {
        double sum = sr1__log_sum_value(&b->sums[i], 1.0 / b->c->inv_temp);

        b->log_prob[i] = (float)(b->log_prob[i] - sum);
        lse[i] = (float)sum;
        if (entropy)
            entropy[i] = (float)sr1__log_sum_entropy(&b->sums[i]);
    }
}

static void turn_back_rows(void *arg, int64_t begin, int64_t end)
{
    const struct vocab_block *b = arg;
    const float *lse = read_rows(b->c->lse, b->row);
    const float *entropy = read_rows(b->c->entropy, b->row);

    for (int64_t i = begin; i < end; i++) {
        struct sr1__softmax_grads g = {.t = 1.0 / b->c->inv_temp,
                                       .log_sum = (double)lse[i],
                                       .entropy = entropy ? (double)entropy[i] : 0.0,
                                       .g = b->g ? (double)b->g[i] : 0.0,
                                       .g_entropy =
                                           b->g_entropy ? (double)b->g_entropy[i] : 0.0};
        float *z = b->logits + i * b->width;
        int64_t target = find_target(b, i);

        sr1__softmax_backward(z, (size_t)b->width, &g);
        if (target >= 0)
            z[target] += (float)(g.g * b->c->inv_temp);
        if (b->narrow)
            sr1__f32_to_bf16(z, b->narrow + i * b->width, (size_t)b->width);
    }
}

/* Memory of the largest block: fp32 logits, and where narrow is asked for, bf16. */
struct block_memory {
    sr1_tensor *logits, *narrow;
};

static struct block_memory reserve_block(sr1_scope *s, const struct head *c,
                                         int32_t dtype, int backward)
{
    int64_t n = t_size(c->hidden, 0), v = t_size(c->weight, 0);
    int64_t size = (n < c->chunk ? n : c->chunk) * (v < c->block ? v : c->block);
    struct block_memory m = {t_empty(s, SR1__F32, T_SHAPE(size)), NULL};

    if (backward && dtype != SR1__F32)
        m.narrow = t_empty(s, dtype, T_SHAPE(size));
    return m;
}

/* The logits of rows [row, row + rows) and tokens from `from` on. */
static struct vocab_block open_block(sr1_scope *s, const struct head *c,
                                     const struct block_memory *m, sr1_tensor **logits,
                                     int64_t row, int64_t from)
{
    int64_t n = t_size(c->hidden, 0) - row, v = t_size(c->weight, 0) - from;
    struct vocab_block b = {.c = c,
                            .row = row,
                            .rows = n < c->chunk ? n : c->chunk,
                            .from = from,
                            .width = v < c->block ? v : c->block};

    *logits = t_reshape(s, t_narrow(s, m->logits, 0, 0, b.rows * b.width),
                        T_SHAPE(b.rows, b.width));
    sr1__linear_into(s, *logits, narrow_chunk_rows(s, c->hidden, row, b.rows),
                     t_narrow(s, c->weight, 0, from, b.width), NULL);
    b.logits = *logits ? sr1__shim_data(*logits) : NULL;
    return b;
}

static void forward_blocks(sr1_scope *outer, const struct head *c, sr1_tensor *log_prob)
{
    int64_t n = t_size(c->hidden, 0), v = t_size(c->weight, 0);
    struct block_memory m = reserve_block(outer, c, SR1__F32, 0);
    struct sr1__log_sum *sums = sr1__calloc((size_t)c->chunk, sizeof *sums);

    if (!sums)
        sr1__scope_check(outer, sr1__fail_nomem("log-sums"));
    for (int64_t row = 0; row < n && sr1__scope_status(outer) == SR1_OK;
         row += c->chunk) {
        struct vocab_block b = {0};

        for (int64_t i = 0; i < c->chunk; i++)
            sr1__log_sum_begin(&sums[i]);
        for (int64_t from = 0; from < v; from += c->block) {
            sr1_scope *s = sr1__scope_nest(outer, "tokens %lld", (long long)from);
            sr1_tensor *logits;

            b = open_block(s, c, &m, &logits, row, from);
            b.sums = sums;
            b.log_prob = read_rows(log_prob, row);
            run_block_rows(s, &b, add_block_rows);
            (void)sr1__scope_close(s);
        }
        finish_rows(&b);
    }
    sr1__free(sums);
}

/* dh and dw of a block. */
static void push_block_back(sr1_scope *s, const struct vocab_block *b, sr1_tensor *dz,
                            sr1_tensor *dh, sr1_tensor *dw)
{
    const struct head *c = b->c;

    sr1__linear_grad_x(s, narrow_chunk_rows(s, dh, b->row, b->rows), dz,
                       t_narrow(s, c->weight, 0, b->from, b->width), 1);
    if (dw)
        sr1__linear_grad_w(s, t_narrow(s, dw, 0, b->from, b->width), dz,
                           narrow_chunk_rows(s, c->hidden, b->row, b->rows), b->row > 0);
}

static void backward_blocks(sr1_scope *outer, const struct head *c,
                            const struct incoming *in, sr1_tensor *dh, sr1_tensor **dw)
{
    int64_t n = t_size(c->hidden, 0), v = t_size(c->weight, 0);
    int32_t dtype = t_dtype(c->weight);
    struct block_memory m = reserve_block(outer, c, dtype, 1);
    sr1_tensor *g = in->g ? t_contiguous(outer, in->g) : NULL;
    sr1_tensor *g_entropy = in->g_entropy ? t_contiguous(outer, in->g_entropy) : NULL;

    if (t_needs_grad(c->weight)) /* set by the first rows, added to by the others */
        *dw = t_empty(outer, n > c->chunk ? SR1__F32 : dtype, T_SHAPE(v, t_size(dh, 1)));
    t_fill_(outer, dh, 0.0);
    for (int64_t row = 0; row < n; row += c->chunk) {
        for (int64_t from = 0; from < v; from += c->block) {
            sr1_scope *s = sr1__scope_nest(outer, "tokens %lld", (long long)from);
            sr1_tensor *dz;
            struct vocab_block b = open_block(s, c, &m, &dz, row, from);

            b.g = read_rows(g, row);
            b.g_entropy = read_rows(g_entropy, row);
            b.narrow = m.narrow ? sr1__shim_data(m.narrow) : NULL;
            run_block_rows(s, &b, turn_back_rows);
            if (m.narrow)
                dz = t_reshape(s, t_narrow(s, m.narrow, 0, 0, b.rows * b.width),
                               T_SHAPE(b.rows, b.width));
            push_block_back(s, &b, dz, dh, *dw);
            (void)sr1__scope_close(s);
        }
    }
}

/* ---- the operation ---- */

static void head_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                          sr1_tensor **grads)
{
    const struct head *c = p;
    int64_t n = t_size(c->hidden, 0);
    int64_t e = t_size(c->weight, 1);
    int32_t dtype = t_dtype(c->weight);
    sr1_tensor *g_entropy = c->entropy ? grads_y[1] : NULL;
    struct incoming in = {
        grads_y[0] ? t_reshape(s, grads_y[0], T_SHAPE(n, 1)) : NULL,
        g_entropy ? t_reshape(s, g_entropy, T_SHAPE(n, 1)) : NULL,
    };
    sr1_tensor *dh = t_empty(s, c->block ? SR1__F32 : dtype, T_SHAPE(n, e));
    sr1_tensor *dw = NULL;

    (c->block ? backward_blocks : backward_chunks)(s, c, &in, dh, &dw);
    grads[0] = t_to(s, dh, dtype);
    grads[1] = dw ? t_to(s, dw, dtype) : NULL;
}

/* Rows a chunk: as asked, else as many as keep fp32 logits within CHUNK_BYTES. */
static int64_t choose_chunk_rows(int64_t asked, int64_t vocab)
{
    int64_t fit = CHUNK_BYTES / 4 / (vocab > 0 ? vocab : 1);

    return asked > 0 ? asked : fit > 0 ? fit : 1;
}

/* Blocks are of whole steps of the softmax: a row's bits do not depend on them. */
static void choose_parts(struct head *c, int64_t asked)
{
    const int64_t step = SR1__SOFTMAX_BLOCK;

    if (sr1__linear_has_kernel(c->hidden, c->weight) && sr1__shim_data(c->targets)) {
        c->chunk = asked > 0 && asked < BLOCK_ROWS ? asked : BLOCK_ROWS;
        c->block = CHUNK_BYTES / 4 / c->chunk / step * step;
    } else {
        c->chunk = choose_chunk_rows(asked, t_size(c->weight, 0));
    }
}

/* By tensor operations an index is checked as it is used. */
static void check_targets(sr1_scope *s, const struct head *c)
{
    const int64_t *target = c->block ? sr1__shim_data(c->targets) : NULL;
    int64_t v = t_size(c->weight, 0);

    for (int64_t i = 0; target && i < t_numel(c->targets); i++)
        if (target[i] < 0 || target[i] >= v)
            sr1__scope_fail(s, SR1_E_INVALID,
                            "token log-probs: target %lld is not in [0, %lld)",
                            (long long)target[i], (long long)v);
}

static int shapes_fit(sr1_scope *s, sr1_tensor *hidden, sr1_tensor *weight,
                      sr1_tensor *targets, double temperature)
{
    if (sr1__scope_status(s) != SR1_OK)
        return 0;
    if (t_ndim(hidden) == 2 && t_ndim(weight) == 2 && t_ndim(targets) == 1 &&
        t_size(hidden, 1) == t_size(weight, 1) &&
        t_size(hidden, 0) == t_size(targets, 0) && temperature > 0.0)
        return 1;
    sr1__scope_fail(
        s, SR1_E_INVALID,
        "token log-probs: hidden [N,E], weight [V,E], targets [N] and a positive "
        "temperature are needed (N %lld, targets %lld, temperature %g)",
        (long long)t_size(hidden, 0), (long long)t_numel(targets), temperature);
    return 0;
}

sr1_tensor *sr1__nn_token_log_probs(sr1_scope *s, sr1_tensor *hidden, sr1_tensor *weight,
                                    sr1_tensor *targets, double temperature,
                                    int64_t chunk_rows, sr1_tensor **entropy_or_null)
{
    sr1_tensor *inputs[2] = {hidden, weight};
    int64_t n = t_size(hidden, 0);
    struct head *c;
    sr1_tensor *out[2];
    sr1_scope *quiet;

    if (entropy_or_null)
        *entropy_or_null = NULL;
    if (!shapes_fit(s, hidden, weight, targets, temperature))
        return NULL;
    c = sr1__calloc(1, sizeof *c);
    if (!c) {
        sr1__scope_check(s, sr1__fail_nomem("vocabulary head"));
        return NULL;
    }
    out[0] = t_empty(s, SR1__F32, T_SHAPE(n, 1));
    c->hidden = t_hold(s, t_detach(s, hidden));
    c->weight = t_hold(s, weight);
    c->targets = t_hold(s, t_reshape(s, targets, T_SHAPE(n, 1)));
    c->lse = t_hold(s, t_empty(s, SR1__F32, T_SHAPE(n, 1)));
    if (entropy_or_null)
        c->entropy = t_hold(s, t_empty(s, SR1__F32, T_SHAPE(n, 1)));
    c->inv_temp = 1.0 / temperature;
    choose_parts(c, chunk_rows);

    quiet = sr1__scope_nest(s, "vocabulary head");
    sr1__scope_no_grad(quiet);
    check_targets(quiet, c);
    if (c->block)
        forward_blocks(quiet, c, out[0]);
    for (int64_t at = 0; at < n && !c->block; at += c->chunk)
        forward_chunk(quiet, c, at, n - at < c->chunk ? n - at : c->chunk, out[0]);
    (void)sr1__scope_close(quiet);
    out[0] = t_reshape(s, out[0], T_SHAPE(n));
    /* A copy: what is kept must not change, and must not hold its own backward. */
    out[1] = c->entropy ? t_reshape(s, t_clone(s, c->entropy), T_SHAPE(n)) : NULL;
    t_with_backward(s, out, entropy_or_null ? 2 : 1, inputs, 2, head_backward, c,
                    head_free);
    if (entropy_or_null)
        *entropy_or_null = out[1];
    return out[0];
}
