/* tensor/ops/shared_attention.c - causal attention of packed sequences, some of which
 * continue another one and attend to its keys and values too (samples and their prompt).
 *
 * Such a token's softmax has two parts, over the keys of the prompt and over those of its
 * own sequence. With y1, L1 and y2, L2 the parts' results and log-sums (Dao et al. 2022,
 * FlashAttention, section 3.1):
 *
 *     L = log(exp L1 + exp L2)    y = y2 + exp(L1 - L) (y1 - y2)
 *
 * In backward a part with y and L in place of its own gives its part of the gradient: a
 * key's probability is exp(qk - L), wherever the other keys lie. Parts are added up in
 * fp32. */
#include "tensor/ops/nn.h"

#include "base/mem.h"

/* Queries against keys, as batch times q_len and k_len rows from q_row and k_row. A
 * causal one is sequences with themselves; another one is all that continue a prompt with
 * it. */
struct part {
    int64_t batch;
    int64_t q_row, q_len;
    int64_t k_row, k_len;
    int causal;
};

/* What backward needs. */
struct shared {
    size_t n;           /* parts: */
    struct part *parts; /* first the causal ones, which have every row once */
    sr1_tensor *q;      /* [N,H,D] */
    sr1_tensor *k, *v;  /* [N,Hkv,D] */
    sr1_tensor *y;      /* [N,H,D] */
    sr1_tensor *lse;    /* [N,H,1], fp32 */
};

static void shared_free(void *p)
{
    struct shared *h = p;

    sr1__free(h->parts);
    sr1__tensor_free(h->q);
    sr1__tensor_free(h->k);
    sr1__tensor_free(h->v);
    sr1__tensor_free(h->y);
    sr1__tensor_free(h->lse);
    sr1__free(h);
}

/* ---- parts ---- */

/* Sequence i with itself; a neighbour of the same length joins the part before. */
static void add_causal_part(struct shared *h, const struct sr1__sequence_spans *in,
                            size_t i)
{
    int64_t len = in->cu_seqlens[i + 1] - in->cu_seqlens[i];
    struct part *last = h->n > 0 ? &h->parts[h->n - 1] : NULL;

    if (last && last->q_len == len)
        last->batch++;
    else
        h->parts[h->n++] =
            (struct part){1, in->cu_seqlens[i], len, in->cu_seqlens[i], len, 1};
}

/* Sequence i with its prompt; one behind it that continues the same joins the part. */
static void add_prompt_part(struct shared *h, const struct sr1__sequence_spans *in,
                            size_t i)
{
    const int64_t *cu = in->cu_seqlens;
    int32_t prompt = in->continues[i];
    struct part *last = &h->parts[h->n - 1];

    if (i > 0 && in->continues[i - 1] == prompt && !last->causal)
        last->q_len += cu[i + 1] - cu[i];
    else
        h->parts[h->n++] = (struct part){
            1, cu[i], cu[i + 1] - cu[i], cu[prompt], cu[prompt + 1] - cu[prompt], 0};
}

static void list_parts(struct shared *h, const struct sr1__sequence_spans *in)
{
    for (size_t i = 0; i < in->n; i++)
        add_causal_part(h, in, i);
    for (size_t i = 0; i < in->n; i++)
        if (in->continues[i] >= 0)
            add_prompt_part(h, in, i);
}

/* ---- views ---- */

/* Rows of x [N,H,D] as [b,H,t,D]. */
static sr1_tensor *view_rows_as_batch(sr1_scope *s, sr1_tensor *x, int64_t row, int64_t b,
                                      int64_t t)
{
    sr1_tensor *rows = t_narrow(s, x, 0, row, b * t);

    return t_transpose(s, t_reshape(s, rows, T_SHAPE(b, t, t_size(x, 1), t_size(x, 2))),
                       1, 2);
}

static sr1_tensor *view_queries(sr1_scope *s, sr1_tensor *x, const struct part *p)
{
    return view_rows_as_batch(s, x, p->q_row, p->batch, p->q_len);
}

static sr1_tensor *view_keys(sr1_scope *s, sr1_tensor *x, const struct part *p)
{
    return view_rows_as_batch(s, x, p->k_row, p->batch, p->k_len);
}

/* [b,H,t,D] back to rows [b*t,H,D]. */
static sr1_tensor *view_batch_as_rows(sr1_scope *s, sr1_tensor *x)
{
    return t_reshape(s, t_transpose(s, x, 1, 2),
                     T_SHAPE(t_size(x, 0) * t_size(x, 2), t_size(x, 1), t_size(x, 3)));
}

/* ---- forward ---- */

/* The result and log-sums of a part, into the rows of its queries of sum [N,H,D] or
 * merged with what they have. */
static void attend_part(sr1_scope *outer, const struct shared *h, const struct part *p,
                        sr1_tensor *sum)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)p->q_row);
    int64_t rows = p->batch * p->q_len;
    sr1_tensor *y = t_narrow(s, sum, 0, p->q_row, rows);
    sr1_tensor *lse = t_narrow(s, h->lse, 0, p->q_row, rows);
    sr1_tensor *part_y, *part_lse, *whole;

    t_flash(s, view_queries(s, h->q, p), view_keys(s, h->k, p), view_keys(s, h->v, p),
            p->causal, &part_y, &part_lse);
    part_y = view_batch_as_rows(s, part_y);
    part_lse = view_batch_as_rows(s, t_unsqueeze(s, part_lse, -1));
    if (p->causal) {
        t_copy_(s, y, part_y);
        t_copy_(s, lse, part_lse);
    } else {
        whole = t_logaddexp(s, lse, part_lse);
        part_y = t_sub(s, part_y, y);
        t_mul_(s, part_y, t_exp(s, t_sub(s, part_lse, whole)));
        t_add_(s, y, part_y, 1.0);
        t_copy_(s, lse, whole);
    }
    (void)sr1__scope_close(s);
}

/* ---- backward ---- */

/* Gradients of a part into the rows of its queries and keys, or added to them. */
static void push_part_back(sr1_scope *outer, const struct shared *h, const struct part *p,
                           sr1_tensor *grad_y, sr1_tensor *const grads[3])
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)p->q_row);
    sr1_tensor *lse = t_squeeze(s, view_queries(s, h->lse, p), -1);
    sr1_tensor *part[3];

    t_flash_backward(s, view_queries(s, grad_y, p), view_queries(s, h->q, p),
                     view_keys(s, h->k, p), view_keys(s, h->v, p),
                     view_queries(s, h->y, p), lse, p->causal, part);
    for (int i = 0; i < 3; i++) {
        sr1_tensor *rows = view_batch_as_rows(s, part[i]);
        sr1_tensor *to = t_narrow(s, grads[i], 0, i == 0 ? p->q_row : p->k_row,
                                  p->batch * (i == 0 ? p->q_len : p->k_len));

        if (p->causal)
            t_copy_(s, to, rows);
        else
            t_add_(s, to, rows, 1.0);
    }
    (void)sr1__scope_close(s);
}

static sr1_tensor *make_sum_of(sr1_scope *s, const sr1_tensor *t)
{
    return t_empty(s, SR1__F32, t_ndim(t), sr1__shim_sizes(t));
}

static void shared_backward(sr1_scope *s, void *self, sr1_tensor *const *grads_y,
                            sr1_tensor **grads)
{
    const struct shared *h = self;
    sr1_tensor *grad_y = t_reshape(
        s, grads_y[0], T_SHAPE(t_size(h->q, 0), t_size(h->q, 1), t_size(h->q, 2)));

    grads[0] = make_sum_of(s, h->q);
    grads[1] = make_sum_of(s, h->k);
    grads[2] = make_sum_of(s, h->v);
    for (size_t i = 0; i < h->n; i++)
        push_part_back(s, h, &h->parts[i], grad_y, grads);
    for (int i = 0; i < 3; i++)
        grads[i] = t_to(s, grads[i], t_dtype(h->q));
}

/* ---- the operation ---- */

static struct shared *shared_new(sr1_scope *s, const struct sr1__sequence_spans *in)
{
    struct shared *h = sr1__calloc(1, sizeof *h);

    if (h)
        h->parts = sr1__calloc(2 * in->n, sizeof *h->parts);
    if (h && h->parts) {
        list_parts(h, in);
        return h;
    }
    sr1__free(h);
    sr1__scope_check(s, sr1__fail_nomem("attention over shared prompts"));
    return NULL;
}

sr1_tensor *sr1__nn_shared_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k,
                                     sr1_tensor *v, const struct sr1__sequence_spans *in)
{
    sr1_tensor *inputs[3] = {q, k, v}, *sum, *y;
    int64_t n = t_size(q, 0), heads = t_size(q, 1), dim = t_size(q, 2);
    int wanted = t_needs_grad(q) || t_needs_grad(k) || t_needs_grad(v);
    struct shared *h = sr1__scope_status(s) == SR1_OK ? shared_new(s, in) : NULL;
    sr1_scope *quiet;

    if (!h)
        return NULL;
    quiet = sr1__scope_nest(s, "attention over shared prompts");
    sr1__scope_no_grad(quiet);
    h->q = t_hold(quiet, q);
    h->k = t_hold(quiet, k);
    h->v = t_hold(quiet, v);
    sum = t_empty(quiet, SR1__F32, T_SHAPE(n, heads, dim));
    h->lse = t_hold(quiet, t_empty(quiet, SR1__F32, T_SHAPE(n, heads, 1)));
    for (size_t i = 0; i < h->n; i++)
        attend_part(quiet, h, &h->parts[i], sum);
    h->y = t_hold(quiet, t_to(quiet, sum, t_dtype(q)));
    y = t_keep(quiet, t_reshape(quiet, h->y, T_SHAPE(n, heads * dim)));
    (void)sr1__scope_close(quiet);
    if (wanted)
        t_with_backward(s, &y, 1, inputs, 3, shared_backward, h, shared_free);
    else
        shared_free(h);
    return y;
}
