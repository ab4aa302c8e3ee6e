/* tensor/encoder/packing.c - groups of packed sequences, and attention and means over
 * them.
 */
#include "tensor/encoder/packing.h"

#include "base/mem.h"

#include <math.h>

/* ---- groups ---- */

/* The places of a padded group, on the host. */
struct places {
    int64_t *rows;  /* [n_seqs * longest] */
    int64_t *back;  /* [n_tokens] */
    uint8_t *looks; /* [n_seqs * longest] */
};

static void fill_places(const struct places *to, const struct sr1__packing_group *g,
                        const int64_t *cu_seqlens)
{
    for (int64_t i = 0; i < g->n_seqs; i++) {
        int64_t at = cu_seqlens[g->first + i];
        int64_t n = cu_seqlens[g->first + i + 1] - at;

        for (int64_t t = 0; t < g->longest; t++) {
            int64_t place = i * g->longest + t;

            to->rows[place] = t < n ? at + t : at;
            to->looks[place] = t < n;
            if (t < n)
                to->back[at - g->begin + t] = place;
        }
    }
}

static void pad_group(sr1_scope *s, struct sr1__packing_group *g,
                      const int64_t *cu_seqlens)
{
    size_t n = (size_t)(g->n_seqs * g->longest);
    struct places to = {sr1__calloc(n, sizeof *to.rows),
                        sr1__calloc((size_t)g->n_tokens, sizeof *to.back),
                        sr1__calloc(n, sizeof *to.looks)};

    if (to.rows && to.back && to.looks) {
        fill_places(&to, g, cu_seqlens);
        g->rows = t_from_i64(s, to.rows, T_SHAPE((int64_t)n));
        g->back = t_from_i64(s, to.back, T_SHAPE(g->n_tokens));
        g->looks =
            t_reshape(s, t_from_u8(s, to.looks, n), T_SHAPE(g->n_seqs, 1, 1, g->longest));
    } else {
        sr1__scope_check(s, sr1__fail_nomem("places of a batch"));
    }
    sr1__free(to.rows);
    sr1__free(to.back);
    sr1__free(to.looks);
}

/* Append sequence i to the last group, or to a new one. */
static void append_packed_sequence(struct sr1__packing *p, const int64_t *cu_seqlens,
                                   int64_t i, int pad)
{
    int64_t n = cu_seqlens[i + 1] - cu_seqlens[i];
    struct sr1__packing_group *g = p->n_groups ? &p->groups[p->n_groups - 1] : NULL;

    if (!g || (!pad && g->longest != n)) {
        g = &p->groups[p->n_groups++];
        *g = (struct sr1__packing_group){.first = i, .begin = cu_seqlens[i]};
    }
    g->n_seqs++;
    g->n_tokens += n;
    g->longest = n > g->longest ? n : g->longest;
    p->longest = n > p->longest ? n : p->longest;
}

void sr1__packing_make(sr1_scope *s, struct sr1__packing *p, const int64_t *cu_seqlens,
                       size_t n_seqs, int pad)
{
    *p = (struct sr1__packing){
        .groups = sr1__calloc(n_seqs, sizeof *p->groups),
        .parts = sr1__calloc(n_seqs, sizeof(sr1_tensor *)),
        .n_seqs = (int64_t)n_seqs,
    };
    if (!p->groups || !p->parts) {
        sr1__scope_check(s, sr1__fail_nomem("groups of a batch"));
        return;
    }
    for (size_t i = 0; i < n_seqs; i++)
        append_packed_sequence(p, cu_seqlens, (int64_t)i, pad);
    for (size_t i = 0; i < p->n_groups; i++) {
        struct sr1__packing_group *g = &p->groups[i];

        if (g->n_tokens != g->n_seqs * g->longest)
            pad_group(s, g, cu_seqlens);
    }
    p->starts = t_from_i64(s, cu_seqlens, T_SHAPE((int64_t)n_seqs));
}

void sr1__packing_free(struct sr1__packing *p)
{
    sr1__free(p->groups);
    sr1__free(p->parts);
    *p = (struct sr1__packing){0};
}

/* ---- tokens to places and back ---- */

/* Tokens x [N, ...] of a group, padded: [n_seqs * longest, ...] */
static sr1_tensor *pad_tokens(sr1_scope *s, const struct sr1__packing_group *g,
                              sr1_tensor *x)
{
    return g->rows ? t_index_select(s, x, 0, g->rows)
                   : t_narrow(s, x, 0, g->begin, g->n_tokens);
}

/* x [b*t, H, D] as [b, H, t, D], a view. */
static sr1_tensor *transpose_heads(sr1_scope *s, sr1_tensor *x, int64_t b, int64_t t)
{
    return t_transpose(s, t_reshape(s, x, T_SHAPE(b, t, t_size(x, 1), t_size(x, 2))), 1,
                       2);
}

/* The attention mask of a group: additive bias, or bool (true: attend); NULL: none. */
static sr1_tensor *make_group_mask(sr1_scope *s, const struct sr1__packing_group *g,
                                   sr1_tensor *bias)
{
    sr1_tensor *own;

    if (!bias)
        return g->looks;
    own = t_narrow(s, t_narrow(s, bias, 2, 0, g->longest), 3, 0, g->longest);
    if (!g->looks)
        return own;
    return t_where(s, g->looks, own, t_full(s, -INFINITY, t_dtype(bias), T_SHAPE(1)));
}

static sr1_tensor *attend_group(sr1_scope *s, const struct sr1__packing_group *g,
                                sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                sr1_tensor *bias, int one)
{
    int64_t t = one ? 1 : g->longest;
    sr1_tensor *own = one ? t_narrow(s, q, 0, g->first, g->n_seqs) : pad_tokens(s, g, q);
    sr1_tensor *y = t_sdpa(s, transpose_heads(s, own, g->n_seqs, t),
                           transpose_heads(s, pad_tokens(s, g, k), g->n_seqs, g->longest),
                           transpose_heads(s, pad_tokens(s, g, v), g->n_seqs, g->longest),
                           make_group_mask(s, g, bias), 0);

    y = t_reshape(s, t_transpose(s, y, 1, 2),
                  T_SHAPE(g->n_seqs * t, t_size(q, 1) * t_size(q, 2)));
    return g->back && !one ? t_index_select(s, y, 0, g->back) : y;
}

sr1_tensor *sr1__packing_attend(sr1_scope *s, const struct sr1__packing *p, sr1_tensor *q,
                                sr1_tensor *k, sr1_tensor *v, sr1_tensor *bias, int one)
{
    for (size_t i = 0; i < p->n_groups; i++)
        p->parts[i] = attend_group(s, &p->groups[i], q, k, v, bias, one);
    return p->n_groups == 1 ? p->parts[0] : t_cat(s, p->parts, p->n_groups, 0);
}

static sr1_tensor *mean_group(sr1_scope *s, const struct sr1__packing_group *g,
                              sr1_tensor *x)
{
    int64_t b = g->n_seqs;
    sr1_tensor *y = t_to(s, pad_tokens(s, g, x), SR1__F32);
    sr1_tensor *counts;

    y = t_reshape(s, y, T_SHAPE(b, g->longest, t_size(x, 1)));
    if (!g->rows)
        return t_mean_dim(s, y, 1, 0);
    counts = t_reshape(s, t_to(s, g->looks, SR1__F32), T_SHAPE(b, g->longest, 1));
    y = t_sum_dim(s, t_mul(s, y, counts), 1, 0);
    return t_div(s, y, t_sum_dim(s, counts, 1, 0));
}

sr1_tensor *sr1__packing_mean(sr1_scope *s, const struct sr1__packing *p, sr1_tensor *x)
{
    for (size_t i = 0; i < p->n_groups; i++)
        p->parts[i] = mean_group(s, &p->groups[i], x);
    return p->n_groups == 1 ? p->parts[0] : t_cat(s, p->parts, p->n_groups, 0);
}
