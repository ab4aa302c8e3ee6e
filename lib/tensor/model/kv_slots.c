/* tensor/model/kv_slots.c - keys and values as tensors [slots, cap, Hkv, D] a layer: any
 * device, any type.
 *
 * A live row has a slot; slots and cap double on demand. Attention of rows with one new
 * token is computed together: query heads that share a key-value head are put along the
 * query axis, so keys are never repeated, and a mask hides positions beyond a row's
 * length. */
#include "tensor/model/kv.h"

#include "base/mem.h"

#include <string.h>

#define FIRST_CAP 256

/* Index tensors of one pass, the same in all layers. */
struct plan {
    int ready;
    size_t n_single;
    int64_t longest;    /* of the rows with one new token */
    sr1_tensor *write;  /* [N] place of each token in [slots * cap] */
    sr1_tensor *tokens; /* [n_single] their places in the pass; NULL: all, in order */
    sr1_tensor *slots;  /* [n_single] their slots */
    sr1_tensor *mask;   /* bool [n_single,1,1,longest] */
};

struct slots {
    struct sr1__kv base;
    const sr1_model *model;
    sr1_tensor **k; /* [layers] of [n_slots, cap, Hkv, D] */
    sr1_tensor **v;
    int64_t n_slots;
    int64_t cap;
    int64_t max_cap;
    int32_t *slot_of; /* [max_rows], -1: none */
    int32_t max_rows;
    unsigned char *used; /* [max_rows] by slot */
    struct plan plan;
};

static struct slots *get_slots(struct sr1__kv *kv)
{
    return (struct slots *)(void *)kv;
}

static void drop_plan(struct slots *c)
{
    sr1__tensor_free(c->plan.write);
    sr1__tensor_free(c->plan.tokens);
    sr1__tensor_free(c->plan.slots);
    sr1__tensor_free(c->plan.mask);
    memset(&c->plan, 0, sizeof c->plan);
}

/* ---- room ---- */

static int64_t grow_slot_count(int64_t now, int64_t want, int64_t first, int64_t max)
{
    int64_t n = now ? now : first;

    while (n < want)
        n *= 2;
    return n < max ? n : max;
}

/* A cache tensor of the new size that holds the old contents. The rest is zero: masked
 * positions enter the weighted sum with weight 0, so they must be finite. */
static sr1_tensor *copy_enlarged(sr1_scope *s, const struct slots *c, sr1_tensor *old,
                                 int64_t n_slots, int64_t cap)
{
    const struct sr1__hf_config *config = &c->model->config;
    sr1_tensor *t = t_full(s, 0.0, c->model->dtype,
                           T_SHAPE(n_slots, cap, config->n_kv_heads, config->head_dim));

    if (old)
        t_copy_(s, t_narrow(s, t_narrow(s, t, 0, 0, c->n_slots), 1, 0, c->cap), old);
    return t_hold(s, t);
}

static sr1_status grow_slot_cache(struct slots *c, int64_t n_slots, int64_t cap)
{
    size_t n = (size_t)c->model->config.n_layers;
    sr1_tensor **fresh = sr1__calloc(2 * n, sizeof *fresh);
    sr1_scope *s;
    sr1_status status;

    SR1__CHECK_ALLOC(fresh, "key-value cache");
    s = sr1__scope_open(c->model->device, "key-value cache");
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < 2 * n; i++)
        fresh[i] = copy_enlarged(s, c, i < n ? c->k[i] : c->v[i - n], n_slots, cap);
    status = sr1__scope_close(s);
    for (size_t i = 0; i < 2 * n; i++) {
        sr1_tensor **place = i < n ? &c->k[i] : &c->v[i - n];

        sr1__tensor_free(status == SR1_OK ? *place : fresh[i]);
        if (status == SR1_OK)
            *place = fresh[i];
    }
    sr1__free(fresh);
    SR1__TRY(status);
    c->n_slots = n_slots;
    c->cap = cap;
    return SR1_OK;
}

/* The lowest slot that is free. */
static int32_t free_slot(const struct slots *c)
{
    int32_t i = 0;

    while (c->used[i])
        i++;
    return i;
}

/* Values that an earlier sequence left there may not be finite. */
static sr1_status zero_slot(const struct slots *c, int32_t slot)
{
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");

    sr1__scope_inference(s);
    for (int64_t i = 0; i < 2 * c->model->config.n_layers; i++)
        t_fill_(s, t_narrow(s, i % 2 ? c->v[i / 2] : c->k[i / 2], 0, slot, 1), 0.0);
    return sr1__scope_close(s);
}

static sr1_status take_slot(struct slots *c, int32_t row)
{
    int32_t slot;

    if (c->slot_of[row] >= 0)
        return SR1_OK;
    slot = free_slot(c);
    if (slot < c->n_slots)
        SR1__TRY(zero_slot(c, slot));
    c->slot_of[row] = slot;
    c->used[slot] = 1;
    return SR1_OK;
}

static sr1_status slots_reserve(struct sr1__kv *kv, const struct sr1__kv_span *spans,
                                size_t n)
{
    struct slots *c = get_slots(kv);
    int64_t n_slots = 0;
    int64_t cap = 0;

    drop_plan(c);
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(take_slot(c, spans[i].row));
        if (c->slot_of[spans[i].row] >= n_slots)
            n_slots = c->slot_of[spans[i].row] + 1;
        if (spans[i].past + spans[i].n > cap)
            cap = spans[i].past + spans[i].n;
    }
    if (n_slots <= c->n_slots && cap <= c->cap)
        return SR1_OK;
    return grow_slot_cache(c, grow_slot_count(c->n_slots, n_slots, 1, c->max_rows),
                           grow_slot_count(c->cap, cap, FIRST_CAP, c->max_cap));
}

static void slots_clear(struct sr1__kv *kv, int32_t row)
{
    struct slots *c = get_slots(kv);

    if (c->slot_of[row] >= 0)
        c->used[c->slot_of[row]] = 0;
    c->slot_of[row] = -1;
}

static sr1_status slots_fork(struct sr1__kv *kv, int32_t from, int32_t to,
                             int64_t n_tokens)
{
    struct slots *c = get_slots(kv);
    const struct sr1__kv_span sp = {.row = to, .n = n_tokens};
    sr1_scope *s;

    SR1__TRY(slots_reserve(kv, &sp, 1));
    s = sr1__scope_open(c->model->device, "fork");
    sr1__scope_inference(s);
    for (int64_t i = 0; i < 2 * c->model->config.n_layers; i++) {
        sr1_tensor *t = i % 2 ? c->v[i / 2] : c->k[i / 2];

        t_copy_(s, t_narrow(s, t_narrow(s, t, 0, c->slot_of[to], 1), 1, 0, n_tokens),
                t_narrow(s, t_narrow(s, t, 0, c->slot_of[from], 1), 1, 0, n_tokens));
    }
    return sr1__scope_close(s);
}

/* ---- attention ---- */

/* Host arrays of a plan; NULL when there is no memory. */
struct plan_data {
    int64_t *write;
    int64_t *tokens;
    int64_t *slots;
    unsigned char *mask;
};

static void fill_plan(const struct slots *c, const struct sr1__kv_span *spans, size_t n,
                      const struct plan *p, struct plan_data *x)
{
    size_t j = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t slot = c->slot_of[spans[i].row];

        for (int64_t t = 0; t < spans[i].n; t++)
            x->write[spans[i].first + t] = slot * c->cap + spans[i].past + t;
        if (spans[i].n > 1)
            continue;
        x->tokens[j] = spans[i].first;
        x->slots[j] = slot;
        memset(x->mask + (int64_t)j * p->longest, 1, (size_t)spans[i].past + 1);
        j++;
    }
}

static void upload_plan(sr1_scope *s, struct plan *p, const struct plan_data *x, size_t n,
                        int64_t n_tokens)
{
    int64_t m = (int64_t)p->n_single;
    sr1_tensor *mask;

    p->write = t_hold(s, t_from_i64(s, x->write, T_SHAPE(n_tokens)));
    if (p->n_single == 0)
        return;
    if (p->n_single < n)
        p->tokens = t_hold(s, t_from_i64(s, x->tokens, T_SHAPE(m)));
    p->slots = t_hold(s, t_from_i64(s, x->slots, T_SHAPE(m)));
    mask = t_from_u8(s, x->mask, (size_t)(m * p->longest));
    p->mask = t_hold(s, t_reshape(s, mask, T_SHAPE(m, 1, 1, p->longest)));
}

static void make_slot_plan(sr1_scope *s, struct slots *c,
                           const struct sr1__kv_span *spans, size_t n, int64_t n_tokens)
{
    struct plan *p = &c->plan;
    struct plan_data x;

    for (size_t i = 0; i < n; i++) {
        if (spans[i].n > 1)
            continue;
        p->n_single++;
        if (spans[i].past + 1 > p->longest)
            p->longest = spans[i].past + 1;
    }
    x.write = sr1__calloc((size_t)n_tokens, sizeof *x.write);
    x.tokens = sr1__calloc(n, sizeof *x.tokens);
    x.slots = sr1__calloc(n, sizeof *x.slots);
    x.mask = sr1__calloc(p->n_single + 1, (size_t)p->longest + 1);
    if (x.write && x.tokens && x.slots && x.mask) {
        fill_plan(c, spans, n, p, &x);
        upload_plan(s, p, &x, n, n_tokens);
        p->ready = 1;
    } else {
        sr1__scope_check(s, sr1__fail_nomem("key-value cache"));
    }
    sr1__free(x.write);
    sr1__free(x.tokens);
    sr1__free(x.slots);
    sr1__free(x.mask);
}

static void store_slot_tokens(sr1_scope *s, const struct slots *c, sr1_tensor *cache,
                              sr1_tensor *rows)
{
    const struct sr1__hf_config *config = &c->model->config;
    sr1_tensor *flat = t_reshape(
        s, cache, T_SHAPE(c->n_slots * c->cap, config->n_kv_heads, config->head_dim));

    t_index_copy_(s, flat, c->plan.write, rows);
}

/* [n,Hkv,T,D] of the rows with one new token. */
static sr1_tensor *select_slots(sr1_scope *s, const struct slots *c, sr1_tensor *cache)
{
    sr1_tensor *t = t_narrow(s, cache, 1, 0, c->plan.longest);

    return t_transpose(s, t_index_select(s, t, 0, c->plan.slots), 1, 2);
}

static void attend_single(sr1_scope *s, const struct slots *c, int32_t layer,
                          sr1_tensor *q, sr1_tensor *out)
{
    const struct sr1__hf_config *config = &c->model->config;
    const struct plan *p = &c->plan;
    int64_t n = (int64_t)p->n_single;
    sr1_tensor *y;

    if (p->tokens)
        q = t_index_select(s, q, 0, p->tokens);
    q = t_reshape(s, q,
                  T_SHAPE(n, config->n_kv_heads, config->n_heads / config->n_kv_heads,
                          config->head_dim));
    y = t_sdpa(s, q, select_slots(s, c, c->k[layer]), select_slots(s, c, c->v[layer]),
               p->mask, 0);
    y = t_reshape(s, y, T_SHAPE(n, config->n_heads * config->head_dim));
    if (p->tokens)
        t_index_copy_(s, out, p->tokens, y);
    else
        t_copy_(s, out, y);
}

/* [1,Hkv,T,D] of one row. */
static sr1_tensor *narrow_slot(sr1_scope *s, sr1_tensor *cache, int64_t slot, int64_t n)
{
    return t_transpose(s, t_narrow(s, t_narrow(s, cache, 0, slot, 1), 1, 0, n), 1, 2);
}

static sr1_tensor *slots_attend(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                                const struct sr1__kv_span *spans, size_t n, sr1_tensor *q,
                                sr1_tensor *k, sr1_tensor *v)
{
    struct slots *c = get_slots(kv);
    sr1_tensor *out;

    if (sr1__scope_status(s) != SR1_OK) /* q has no size then to make a plan by */
        return NULL;
    out = t_empty(s, c->model->dtype, T_SHAPE(t_size(q, 0), t_size(q, 1) * t_size(q, 2)));
    if (!c->plan.ready)
        make_slot_plan(s, c, spans, n, t_size(q, 0));
    store_slot_tokens(s, c, c->k[layer], k);
    store_slot_tokens(s, c, c->v[layer], v);
    if (c->plan.n_single > 0)
        attend_single(s, c, layer, q, out);
    for (size_t i = 0; i < n; i++) {
        const struct sr1__kv_span *sp = &spans[i];
        int64_t slot = c->slot_of[sp->row];

        if (sp->n == 1)
            continue;
        t_copy_(s, t_narrow(s, out, 0, sp->first, sp->n),
                sr1__kv_attend_span(s, t_narrow(s, q, 0, sp->first, sp->n),
                                    narrow_slot(s, c->k[layer], slot, sp->past + sp->n),
                                    narrow_slot(s, c->v[layer], slot, sp->past + sp->n),
                                    sp->past));
    }
    return out;
}

/* Token i of the span sees tokens 0..past+i. */
sr1_tensor *sr1__kv_attend_span(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                int64_t past)
{
    int64_t n = t_size(q, 0);
    int64_t width = t_size(q, 1) * t_size(q, 2);
    sr1_tensor *mask = NULL;
    sr1_tensor *y;

    if (past > 0)
        mask = t_le(
            s, t_reshape(s, t_arange(s, past + n), T_SHAPE(1, past + n)),
            t_reshape(s, t_add_scalar(s, t_arange(s, n), (double)past), T_SHAPE(n, 1)));
    q = t_unsqueeze(s, t_transpose(s, q, 0, 1), 0);
    y = t_sdpa(s, q, k, v, mask, past == 0);
    return t_reshape(s, t_transpose(s, t_squeeze(s, y, 0), 0, 1), T_SHAPE(n, width));
}

/* ---- the whole ---- */

/* Slots cannot be given back one by one; all go once no row has one. */
static void slots_trim(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    for (int32_t i = 0; i < c->max_rows; i++)
        if (c->used[i])
            return;
    drop_plan(c);
    for (int64_t i = 0; i < c->model->config.n_layers; i++) {
        sr1__tensor_free(c->k[i]);
        sr1__tensor_free(c->v[i]);
        c->k[i] = NULL;
        c->v[i] = NULL;
    }
    c->n_slots = 0;
    c->cap = 0;
}

static int64_t slots_bytes(const struct sr1__kv *kv)
{
    const struct slots *c = (const struct slots *)(const void *)kv;
    const struct sr1__hf_config *config = &c->model->config;

    return 2 * config->n_layers * c->n_slots * c->cap * config->n_kv_heads *
           config->head_dim * (int64_t)sr1__weight_dtype_size(c->model->dtype);
}

static void slots_free(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    if (c->k && c->v && c->used)
        slots_trim(kv);
    sr1__free(c->k);
    sr1__free(c->v);
    sr1__free(c->slot_of);
    sr1__free(c->used);
    sr1__free(c);
}

static const struct sr1__kv_ops slots_ops = {slots_reserve, slots_attend, slots_fork,
                                             slots_clear,   slots_trim,   slots_bytes,
                                             slots_free};

sr1_status sr1__kv_slots_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             int64_t max_tokens)
{
    struct slots *c = sr1__calloc(1, sizeof *c);

    SR1__CHECK_ALLOC(c, "key-value cache");
    c->base.ops = &slots_ops;
    c->model = m;
    c->max_rows = max_rows;
    c->max_cap = max_tokens;
    c->k = sr1__calloc((size_t)m->config.n_layers, sizeof(sr1_tensor *));
    c->v = sr1__calloc((size_t)m->config.n_layers, sizeof(sr1_tensor *));
    c->slot_of = sr1__malloc((size_t)max_rows * sizeof *c->slot_of);
    c->used = sr1__calloc((size_t)max_rows, 1);
    if (!c->k || !c->v || !c->slot_of || !c->used) {
        slots_free(&c->base);
        return sr1__fail_nomem("key-value cache");
    }
    for (int32_t i = 0; i < max_rows; i++)
        c->slot_of[i] = -1;
    *out = &c->base;
    return SR1_OK;
}
