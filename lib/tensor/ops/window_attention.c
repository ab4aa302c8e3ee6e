/* tensor/ops/window_attention.c - causal attention of packed sequences in which a token
 * attends to the last `window` tokens, itself among them.
 *
 * Queries go in blocks of as many tokens as the window has. A block's keys lie within two
 * windows, so the work grows with the length times the window. */
#include "tensor/ops/nn.h"

#include "base/mem.h"

/* Queries at positions [at, at + n) see keys [from, at + n), of these the last window.
 * NULL: all that are not behind them. */
static sr1_tensor *make_window_mask(sr1_scope *s, int64_t from, int64_t at, int64_t n,
                                    int64_t window)
{
    int64_t keys = at + n - from;
    sr1_tensor *key = t_reshape(s, t_arange(s, keys), T_SHAPE(1, keys));
    sr1_tensor *query = t_reshape(s, t_arange(s, n), T_SHAPE(n, 1));

    query = t_add_scalar(s, query, (double)(at - from));
    return t_logical_and(s, t_le(s, key, query),
                         t_gt(s, key, t_add_scalar(s, query, (double)-window)));
}

/* Queries [at, at + n) of q [1,H,T,D], which begins at position past. */
static sr1_tensor *attend_window_block(sr1_scope *s, sr1_tensor *const qkv[3],
                                       int64_t past, int64_t at, int64_t n,
                                       int64_t window)
{
    int64_t end = past + at + n;
    int64_t from = past + at + 1 > window ? past + at + 1 - window : 0;
    sr1_tensor *q = t_narrow(s, qkv[0], 2, at, n);
    sr1_tensor *k = t_narrow(s, qkv[1], 2, from, end - from);
    sr1_tensor *v = t_narrow(s, qkv[2], 2, from, end - from);
    int causal = past + at == 0;

    return t_sdpa(s, q, k, v,
                  causal ? NULL : make_window_mask(s, from, past + at, n, window),
                  causal);
}

sr1_tensor *sr1__nn_attend_window(sr1_scope *s, sr1_tensor *const qkv[3], int64_t past,
                                  int64_t window)
{
    int64_t n = t_size(qkv[0], 2);
    size_t blocks = (size_t)((n + window - 1) / window);
    sr1_tensor **parts, *y;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    parts = sr1__calloc(blocks, sizeof(sr1_tensor *));
    if (!parts) {
        sr1__scope_check(s, sr1__fail_nomem("attention to a window"));
        return NULL;
    }
    for (size_t i = 0; i < blocks; i++) {
        int64_t at = (int64_t)i * window;

        parts[i] = attend_window_block(s, qkv, past, at,
                                       n - at < window ? n - at : window, window);
    }
    y = blocks == 1 ? parts[0] : t_cat(s, parts, blocks, 2);
    sr1__free(parts);
    return y;
}

/* ---- packed sequences ---- */

/* By sequence: q, k and v, and the results. */
struct window_parts {
    int64_t *tokens;      /* [n] */
    sr1_tensor **part[3]; /* [n] each */
    sr1_tensor **y;       /* [n] */
};

static sr1_status make_window_parts(struct window_parts *p,
                                    const struct sr1__sequence_spans *in)
{
    sr1_tensor **handles = sr1__calloc(4 * in->n, sizeof(sr1_tensor *));

    p->tokens = sr1__calloc(in->n, sizeof *p->tokens);
    for (size_t i = 0; i < 3; i++)
        p->part[i] = handles ? handles + i * in->n : NULL;
    p->y = handles ? handles + 3 * in->n : NULL;
    if (!p->tokens || !handles) {
        sr1__free(p->tokens);
        sr1__free(handles);
        return sr1__fail_nomem("attention to a window");
    }
    for (size_t i = 0; i < in->n; i++)
        p->tokens[i] = in->cu_seqlens[i + 1] - in->cu_seqlens[i];
    return SR1_OK;
}

/* Rows [T,H,D] as [1,H,T,D]. */
static sr1_tensor *view_rows_as_one(sr1_scope *s, sr1_tensor *x)
{
    return t_unsqueeze(s, t_transpose(s, x, 0, 1), 0);
}

/* Sequence i, behind the one that it continues. */
static sr1_tensor *attend_sequence(sr1_scope *s, const struct window_parts *p,
                                   const struct sr1__sequence_spans *in, size_t i,
                                   int64_t window)
{
    int32_t before = in->continues ? in->continues[i] : -1;
    int64_t past = before < 0 ? 0 : p->tokens[before];
    sr1_tensor *q = p->part[0][i], *qkv[3], *y;

    qkv[0] = view_rows_as_one(s, q);
    for (int k = 1; k < 3; k++) {
        sr1_tensor *rows = p->part[k][i];

        if (before >= 0)
            rows = t_cat(s, (sr1_tensor *[]){p->part[k][before], rows}, 2, 0);
        qkv[k] = view_rows_as_one(s, rows);
    }
    y = sr1__nn_attend_window(s, qkv, past, window);
    return t_reshape(s, t_transpose(s, t_squeeze(s, y, 0), 0, 1),
                     T_SHAPE(p->tokens[i], t_size(q, 1) * t_size(q, 2)));
}

sr1_tensor *sr1__nn_window_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k,
                                     sr1_tensor *v, const struct sr1__sequence_spans *in,
                                     int64_t window)
{
    sr1_tensor *all[3] = {q, k, v}, *y;
    struct window_parts p;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    sr1__scope_check(s, make_window_parts(&p, in));
    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    for (int i = 0; i < 3; i++)
        t_split(s, all[i], p.tokens, in->n, 0, p.part[i]);
    for (size_t i = 0; i < in->n; i++)
        p.y[i] = attend_sequence(s, &p, in, i, window);
    y = t_cat(s, p.y, in->n, 0);
    sr1__free(p.tokens);
    sr1__free(p.part[0]);
    return y;
}
