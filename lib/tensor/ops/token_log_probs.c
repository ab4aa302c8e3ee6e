/* tensor/ops/token_log_probs.c - log-probs of chosen tokens through the vocabulary in
 * chunks.
 *
 *     z = h W^T / T      log p = z[target] - lse(z)      H = lse(z) - sum softmax(z) z
 *     dz = (g (onehot(target) - p) - gH p (log p + H)) / T    dh = dz W    dW = dz^T h
 *
 * Logits exist for one chunk of rows at a time and are computed again in backward, where
 * log p = z - lse needs only the row's lse from forward. */
#include "tensor/ops/nn.h"

#include "base/mem.h"
#include "tensor/ops/linear.h"

#define CHUNK_BYTES ((int64_t)32 << 20)

struct head {
    sr1_tensor *hidden;  /* [N,E] */
    sr1_tensor *weight;  /* [V,E] */
    sr1_tensor *targets; /* [N,1] */
    sr1_tensor *lse;     /* [N,1], of forward */
    sr1_tensor *entropy; /* [N,1], of forward; NULL: not asked for */
    double inv_temp;
    int64_t chunk;
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
    sr1_tensor *z = t_to(
        s,
        sr1__linear_forward(s, narrow_chunk_rows(s, c->hidden, from, n), c->weight, NULL),
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

        t_copy_(s, narrow_chunk_rows(s, c->entropy, from, n),
                t_sub(s, lse, t_sum_dim(s, t_mul(s, p, z), -1, 1)));
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

/* dw is fp32 whatever the weights are, so that chunks add up without rounding to their
 * type */
static void backward_chunk(sr1_scope *outer, const struct head *c,
                           const struct incoming *in, int64_t from, int64_t n,
                           sr1_tensor *dh, sr1_tensor *dw)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *dz = chunk_grad_logits(s, c, in, from, n);
    sr1_tensor *h = narrow_chunk_rows(s, c->hidden, from, n);

    t_copy_(s, narrow_chunk_rows(s, dh, from, n), sr1__linear_grad_x(s, dz, c->weight));
    if (dw && t_dtype(h) == SR1__F32)
        sr1__linear_add_grad_w(s, dw, dz, h);
    else if (dw)
        t_add_(s, dw, t_matmul(s, t_transpose(s, dz, 0, 1), h), 1.0);
    (void)sr1__scope_close(s);
}

static void head_backward(sr1_scope *s, void *p, sr1_tensor *const *grads_y,
                          sr1_tensor **grads)
{
    const struct head *c = p;
    int64_t n = t_size(c->hidden, 0);
    int64_t v = t_size(c->weight, 0);
    int64_t e = t_size(c->weight, 1);
    int32_t dtype = t_dtype(c->weight);
    sr1_tensor *g_entropy = c->entropy ? grads_y[1] : NULL;
    struct incoming in = {
        grads_y[0] ? t_reshape(s, grads_y[0], T_SHAPE(n, 1)) : NULL,
        g_entropy ? t_reshape(s, g_entropy, T_SHAPE(n, 1)) : NULL,
    };
    sr1_tensor *dh = t_empty(s, dtype, T_SHAPE(n, e));
    sr1_tensor *dw =
        t_needs_grad(c->weight) ? t_full(s, 0.0, SR1__F32, T_SHAPE(v, e)) : NULL;

    for (int64_t at = 0; at < n; at += c->chunk)
        backward_chunk(s, c, &in, at, n - at < c->chunk ? n - at : c->chunk, dh, dw);
    grads[0] = dh;
    grads[1] = dw ? t_to(s, dw, dtype) : NULL;
}

/* Rows a chunk: as asked, else as many as keep fp32 logits within CHUNK_BYTES. */
static int64_t choose_chunk_rows(int64_t asked, int64_t vocab)
{
    int64_t fit = CHUNK_BYTES / 4 / (vocab > 0 ? vocab : 1);

    return asked > 0 ? asked : fit > 0 ? fit : 1;
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
    c->chunk = choose_chunk_rows(chunk_rows, t_size(weight, 0));

    quiet = sr1__scope_nest(s, "vocabulary head");
    sr1__scope_no_grad(quiet);
    for (int64_t at = 0; at < n; at += c->chunk)
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
