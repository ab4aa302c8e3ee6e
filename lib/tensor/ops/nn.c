/* tensor/ops/nn.c - rotation by positions, SwiGLU, and causal attention over packed
 * sequences. */
#include "tensor/ops/nn.h"

#include "base/mem.h"

#include <math.h>

sr1_tensor *sr1__nn_rope(sr1_scope *s, sr1_tensor *x, sr1_tensor *cos, sr1_tensor *sin)
{
    int64_t half = t_size(x, -1) / 2;
    sr1_tensor *part[2];
    sr1_tensor *swapped[2];
    sr1_tensor *turned, *rotated;
    sr1_scope *o = sr1__scope_nest(s, "rope"); /* its temporaries go at once */

    t_split(o, x, (int64_t[]){half, half}, 2, -1, part);
    swapped[0] = t_neg(o, part[1]);
    swapped[1] = part[0];
    turned = t_cat(o, swapped, 2, -1);
    rotated = t_keep(o, t_add(o, t_mul(o, x, t_unsqueeze(o, cos, 1)),
                              t_mul(o, turned, t_unsqueeze(o, sin, 1))));
    (void)sr1__scope_close(o);
    return rotated;
}

static sr1_tensor *multiply_gated(sr1_scope *s, sr1_tensor *gate_up,
                                  sr1_tensor *(*act)(sr1_scope *, sr1_tensor *))
{
    int64_t f = t_size(gate_up, -1) / 2;
    sr1_tensor *part[2];
    sr1_tensor *gate, *y;

    t_split(s, gate_up, (int64_t[]){f, f}, 2, -1, part);
    gate = act(s, part[0]);
    y = t_mul(s, gate, part[1]);
    t_drop(s, gate);
    return y;
}

sr1_tensor *sr1__nn_swiglu(sr1_scope *s, sr1_tensor *gate_up)
{
    return multiply_gated(s, gate_up, t_silu);
}

sr1_tensor *sr1__nn_geglu(sr1_scope *s, sr1_tensor *gate_up)
{
    return multiply_gated(s, gate_up, t_gelu_tanh);
}

/* x [b*t,H,D] as [b,H,t,D], a view. */
static sr1_tensor *view_as_batch(sr1_scope *s, sr1_tensor *x, int64_t b, int64_t t)
{
    return t_transpose(s, t_reshape(s, x, T_SHAPE(b, t, t_size(x, 1), t_size(x, 2))), 1,
                       2);
}

/* b sequences of t tokens -> [b*t, H*D] */
static sr1_tensor *attend_run(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                              int64_t b, int64_t t)
{
    sr1_tensor *y = t_sdpa(s, view_as_batch(s, q, b, t), view_as_batch(s, k, b, t),
                           view_as_batch(s, v, b, t), NULL, 1);

    return t_reshape(s, t_transpose(s, y, 1, 2),
                     T_SHAPE(b * t, t_size(q, 1) * t_size(q, 2)));
}

/* Neighbours of one length, as one batch. */
struct runs {
    size_t n;
    int64_t *tokens; /* [n] of all its sequences */
    int64_t *len;    /* [n] of each of them */
    sr1_tensor **q;  /* [n], likewise k, v and the results y */
    sr1_tensor **k;
    sr1_tensor **v;
    sr1_tensor **y;
};

static sr1_status find_length_runs(struct runs *r, const int64_t *cu_seqlens,
                                   size_t n_seqs)
{
    int64_t *numbers = sr1__calloc(2 * n_seqs, sizeof *numbers);
    sr1_tensor **handles = sr1__calloc(4 * n_seqs, sizeof(sr1_tensor *));

    *r = (struct runs){0,
                       numbers,
                       numbers + n_seqs,
                       handles,
                       handles + n_seqs,
                       handles + 2 * n_seqs,
                       handles + 3 * n_seqs};
    if (!numbers || !handles) {
        sr1__free(numbers);
        sr1__free(handles);
        return sr1__fail_nomem("attention runs");
    }
    for (size_t i = 0; i < n_seqs; i++) {
        int64_t len = cu_seqlens[i + 1] - cu_seqlens[i];

        if (r->n == 0 || r->len[r->n - 1] != len)
            r->len[r->n++] = len;
        r->tokens[r->n - 1] += len;
    }
    return SR1_OK;
}

static void runs_free(struct runs *r)
{
    sr1__free(r->tokens);
    sr1__free(r->q);
}

sr1_tensor *sr1__nn_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                              const int64_t *cu_seqlens, size_t n_seqs)
{
    int64_t t = n_seqs ? cu_seqlens[1] - cu_seqlens[0] : 0;
    sr1_tensor *y;
    struct runs r;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    if (n_seqs == 1)
        return attend_run(s, q, k, v, 1, t);
    sr1__scope_check(s, find_length_runs(&r, cu_seqlens, n_seqs));
    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    if (r.n == 1) {
        runs_free(&r);
        return attend_run(s, q, k, v, (int64_t)n_seqs, t);
    }
    t_split(s, q, r.tokens, r.n, 0, r.q);
    t_split(s, k, r.tokens, r.n, 0, r.k);
    t_split(s, v, r.tokens, r.n, 0, r.v);
    for (size_t i = 0; i < r.n; i++)
        r.y[i] = attend_run(s, r.q[i], r.k[i], r.v[i], r.tokens[i] / r.len[i], r.len[i]);
    y = t_cat(s, r.y, r.n, 0);
    runs_free(&r);
    return y;
}
