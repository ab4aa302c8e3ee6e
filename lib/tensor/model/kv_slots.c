/* tensor/model/kv_slots.c - keys and values as tensors, a layer each, that stay where
 * they are: any device, any type.
 *
 * A live row has a slot of cap places; place slot * cap + position holds keys and values
 * of one token, [2Hkv,D]. Slots and cap double on demand, between passes.
 *
 * A row with one new token takes the place of its slot in the pass, so that keys and
 * values of all such rows are one view [S,Hkv,T,D] of the cache and their attention is
 * one call: query heads that share a key-value head lie along the query axis, and a mask
 * hides positions beyond a row's length. Slots without a new token are computed too and
 * write to a place that is nobody's. Where fewer than half of the slots are in use, rows
 * move down before the next pass. */
#include "tensor/model/kv.h"

#include "base/mem.h"

#include <string.h>

#define FIRST_CAP 256
#define CAP_STEP 64 /* cap and the length of masks are multiples of it */
#define LOOSE 8     /* slots that need not be compact */

struct slot_size {
    int64_t n_slots;
    int64_t cap;
};

struct slots {
    struct sr1__kv base;
    const sr1_model *model;
    sr1_tensor **layers; /* [layers] of [n_slots*cap+1,2Hkv,D]; the last place is nobody's
                          */
    struct slot_size *sizes; /* [layers] */
    struct slot_size size;   /* of all of them, in a pass */
    struct slot_size most;   /* of any: larger where not all could grow */
    sr1_tensor *steps;       /* i64 [cap] 0, 1, ...; NULL: no cache yet */
    int64_t max_cap;
    int32_t *slot_of; /* [max_rows], -1: none */
    int32_t *row_of;  /* [max_rows] by slot, -1: free */
    int64_t *length;  /* [max_rows] by slot: tokens that may have been written */
    int32_t max_rows;
    /* of one pass, borrowed */
    sr1_tensor *places;      /* [N] */
    sr1_tensor *mask;        /* [n_lanes,1,1,longest], 0 or -inf; NULL: no lanes */
    sr1_tensor *window_mask; /* of layers with a window; NULL: as mask */
};

static struct slots *get_slots(struct sr1__kv *kv)
{
    return (struct slots *)(void *)kv;
}

/* ---- room ---- */

static int64_t grow_slot_count(int64_t now, int64_t want, int64_t first, int64_t max)
{
    int64_t n = now ? now : first;

    while (n < want)
        n *= 2;
    return n < max ? n : max;
}

static int64_t round_to_step(int64_t n)
{
    return (n + CAP_STEP - 1) / CAP_STEP * CAP_STEP;
}

/* The slots of a layer, [n_slots,cap,2Hkv,D]. */
static sr1_tensor *view_slots(sr1_scope *s, sr1_tensor *layer, struct slot_size size)
{
    return t_reshape(s, t_narrow(s, layer, 0, 0, size.n_slots * size.cap),
                     T_SHAPE(size.n_slots, size.cap, t_size(layer, 1), t_size(layer, 2)));
}

/* n tokens of a slot, [n,2Hkv,D] */
static sr1_tensor *view_slot(sr1_scope *s, const struct slots *c, int32_t layer,
                             int64_t slot, int64_t n)
{
    return t_narrow(s, c->layers[layer], 0, slot * c->sizes[layer].cap, n);
}

/* A layer of the new size that holds the old contents. The rest is zero: masked positions
 * enter the weighted sum with weight 0, so they must be finite. */
static sr1_tensor *copy_enlarged(sr1_scope *s, const struct slots *c, sr1_tensor *old,
                                 struct slot_size was, struct slot_size now)
{
    const struct sr1__hf_config *config = &c->model->config;
    sr1_tensor *t = t_full(
        s, 0.0, c->model->dtype,
        T_SHAPE(now.n_slots * now.cap + 1, 2 * config->n_kv_heads, config->head_dim));

    if (old) {
        sr1_tensor *part = t_narrow(s, view_slots(s, t, now), 0, 0, was.n_slots);

        t_copy_(s, t_narrow(s, part, 1, 0, was.cap), view_slots(s, old, was));
    }
    return t_hold(s, t);
}

static int is_size(struct slot_size a, struct slot_size b)
{
    return a.n_slots == b.n_slots && a.cap == b.cap;
}

static sr1_status grow_layer(struct slots *c, int64_t i, struct slot_size size)
{
    sr1_tensor *fresh;
    sr1_scope *s;
    sr1_status st;

    if (is_size(c->sizes[i], size))
        return SR1_OK;
    s = sr1__scope_open(c->model->device, "key-value cache");
    sr1__scope_no_grad(s);
    fresh = copy_enlarged(s, c, c->layers[i], c->sizes[i], size);
    st = sr1__scope_close(s);
    sr1__tensor_free(st == SR1_OK ? c->layers[i] : fresh);
    SR1__TRY(st);
    c->layers[i] = fresh;
    c->sizes[i] = size;
    return SR1_OK;
}

static sr1_status count_steps(struct slots *c, int64_t cap)
{
    sr1_tensor *steps;
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");
    sr1_status st;

    sr1__scope_no_grad(s);
    steps = t_hold(s, t_arange(s, cap));
    st = sr1__scope_close(s);
    sr1__tensor_free(st == SR1_OK ? c->steps : steps);
    if (st == SR1_OK)
        c->steps = steps;
    return st;
}

/* Layer by layer, so that only one is there twice. Where that fails, those that have
 * grown stay as large, their contents as they were; no pass begins before all are. */
static sr1_status grow_slot_cache(struct slots *c, struct slot_size size)
{
    c->most = size;
    for (int64_t i = 0; i < c->model->config.n_layers; i++)
        SR1__TRY(grow_layer(c, i, size));
    SR1__TRY(count_steps(c, size.cap));
    c->size = size;
    return SR1_OK;
}

/* The lowest slot that is free. */
static int32_t find_free_slot(const struct slots *c)
{
    int32_t i = 0;

    while (c->row_of[i] >= 0)
        i++;
    return i;
}

/* Values that an earlier sequence left there may not be finite. */
static sr1_status zero_slot(struct slots *c, int32_t slot)
{
    sr1_scope *s;

    if (c->length[slot] == 0)
        return SR1_OK;
    s = sr1__scope_open(c->model->device, "key-value cache");
    sr1__scope_inference(s);
    for (int32_t i = 0; i < c->model->config.n_layers; i++)
        t_fill_(s, view_slot(s, c, i, slot, c->length[slot]), 0.0);
    SR1__TRY(sr1__scope_close(s));
    c->length[slot] = 0;
    return SR1_OK;
}

static sr1_status take_slot(struct slots *c, int32_t row)
{
    int32_t slot;

    if (c->slot_of[row] >= 0)
        return SR1_OK;
    slot = find_free_slot(c);
    SR1__TRY(zero_slot(c, slot));
    c->slot_of[row] = slot;
    c->row_of[slot] = row;
    return SR1_OK;
}

/* The first n tokens of a slot into another. */
static sr1_status copy_slot_tokens(struct slots *c, int32_t from, int32_t to, int64_t n)
{
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");

    sr1__scope_inference(s);
    for (int32_t i = 0; i < c->model->config.n_layers; i++)
        t_copy_(s, view_slot(s, c, i, to, n), view_slot(s, c, i, from, n));
    c->length[to] = n > c->length[to] ? n : c->length[to];
    return sr1__scope_close(s);
}

static sr1_status move_slot(struct slots *c, int32_t from, int32_t to)
{
    int32_t row = c->row_of[from];

    SR1__TRY(zero_slot(c, to));
    SR1__TRY(copy_slot_tokens(c, from, to, c->length[from]));
    c->row_of[to] = row;
    c->slot_of[row] = to;
    c->row_of[from] = -1;
    return SR1_OK;
}

/* Each copy is paid for by the rows that ended since the last ones. */
static sr1_status compact_slots(struct slots *c)
{
    int32_t used = 0, top = 0;

    for (int32_t i = 0; i < c->size.n_slots; i++) {
        used += c->row_of[i] >= 0;
        top = c->row_of[i] >= 0 ? i + 1 : top;
    }
    if (top <= LOOSE || top <= 2 * used)
        return SR1_OK;
    for (int32_t i = used; i < top; i++)
        if (c->row_of[i] >= 0)
            SR1__TRY(move_slot(c, i, find_free_slot(c)));
    return SR1_OK;
}

static sr1_status slots_reserve(struct sr1__kv *kv, const struct sr1__kv_span *spans,
                                size_t n)
{
    struct slots *c = get_slots(kv);
    struct slot_size want = {0, 0};

    SR1__TRY(compact_slots(c));
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(take_slot(c, spans[i].row));
        if (c->slot_of[spans[i].row] >= want.n_slots)
            want.n_slots = c->slot_of[spans[i].row] + 1;
        if (spans[i].past + spans[i].n > want.cap)
            want.cap = spans[i].past + spans[i].n;
    }
    want.n_slots = grow_slot_count(c->most.n_slots, want.n_slots, 1, c->max_rows);
    want.cap = grow_slot_count(c->most.cap, want.cap, FIRST_CAP, c->max_cap);
    return is_size(want, c->size) ? SR1_OK : grow_slot_cache(c, want);
}

static void slots_clear(struct sr1__kv *kv, int32_t row)
{
    struct slots *c = get_slots(kv);

    if (c->slot_of[row] >= 0)
        c->row_of[c->slot_of[row]] = -1;
    c->slot_of[row] = -1;
}

static sr1_status slots_fork(struct sr1__kv *kv, int32_t from, int32_t to,
                             int64_t n_tokens)
{
    struct slots *c = get_slots(kv);
    const struct sr1__kv_span sp = {.row = to, .n = n_tokens};

    SR1__TRY(slots_reserve(kv, &sp, 1));
    return copy_slot_tokens(c, c->slot_of[from], c->slot_of[to], n_tokens);
}

/* ---- a pass ---- */

/* A power of two, so that rows come and go within one size. */
static int64_t bucket_lanes(const struct slots *c, int64_t n)
{
    return grow_slot_count(0, n, 1, c->size.n_slots);
}

/* Quarters of a power of two, at least CAP_STEP, so that a row that grows stays in one
 * size for as long as pays: a quarter of what is seen is masked at most. */
static int64_t bucket_length(const struct slots *c, int64_t n)
{
    int64_t step = CAP_STEP;

    while (n > 8 * step)
        step *= 2;
    n = (n + step - 1) / step * step;
    return n < c->size.cap ? n : c->size.cap;
}

/* A pass of single tokens on a device has one of few sizes, so that a graph of its
 * kernels can be used again. */
static void size_lanes(struct slots *c, int64_t n_lanes, int64_t longest, int only_lanes)
{
    int bucket = only_lanes && c->model->device != SR1__CPU;

    c->base.n_lanes = bucket ? bucket_lanes(c, n_lanes) : n_lanes;
    c->base.longest = bucket ? bucket_length(c, longest) : round_to_step(longest);
}

static int64_t slots_layout(struct sr1__kv *kv, struct sr1__kv_span *spans, size_t n)
{
    struct slots *c = get_slots(kv);
    int64_t lanes = 0, longest = 0, at;
    size_t singles = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t slot = c->slot_of[spans[i].row];
        int64_t now = spans[i].past + spans[i].n;

        c->length[slot] = now > c->length[slot] ? now : c->length[slot];
        spans[i].first = slot;
        if (spans[i].n > 1)
            continue;
        singles++;
        lanes = slot >= lanes ? slot + 1 : lanes;
        longest = now > longest ? now : longest;
    }
    size_lanes(c, lanes, longest, singles == n);
    at = c->base.n_lanes;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].n == 1)
            continue;
        spans[i].first = at;
        at += spans[i].n;
    }
    return at;
}

static void slots_list_places(const struct sr1__kv *kv, const struct sr1__kv_span *spans,
                              size_t n, int64_t *places, int64_t n_tokens)
{
    const struct slots *c = (const struct slots *)(const void *)kv;

    for (int64_t i = 0; i < n_tokens; i++)
        places[i] = c->size.n_slots * c->size.cap;
    for (size_t i = 0; i < n; i++)
        for (int64_t t = 0; t < spans[i].n; t++)
            places[spans[i].first + t] =
                c->slot_of[spans[i].row] * c->size.cap + spans[i].past + t;
}

/* Token of lane i, at position p, sees positions 0..p of its slot, of these the last
 * `window`; 0: all. */
static sr1_tensor *make_lane_mask(sr1_scope *s, const struct slots *c,
                                  sr1_tensor *positions, int64_t window)
{
    int64_t n = c->base.n_lanes;
    sr1_tensor *p = t_reshape(s, t_narrow(s, positions, 0, 0, n), T_SHAPE(n, 1, 1, 1));
    sr1_tensor *steps = t_narrow(s, c->steps, 0, 0, c->base.longest);
    sr1_tensor *seen = t_le(s, steps, p);

    if (window)
        seen =
            t_logical_and(s, seen, t_gt(s, steps, t_add_scalar(s, p, (double)-window)));
    return t_log(s, t_to(s, seen, c->model->dtype));
}

static void slots_begin(sr1_scope *s, struct sr1__kv *kv, sr1_tensor *places,
                        sr1_tensor *positions)
{
    struct slots *c = get_slots(kv);
    int64_t window = c->model->config.sliding_window;
    int windowed = window > 0 && kv->longest > window;

    c->places = places;
    c->mask = kv->n_lanes ? make_lane_mask(s, c, positions, 0) : NULL;
    c->window_mask =
        kv->n_lanes && windowed ? make_lane_mask(s, c, positions, window) : NULL;
}

/* ---- attention ---- */

/* One half of [...,2Hkv,D] as [n,Hkv,T,D]. */
static sr1_tensor *view_heads(sr1_scope *s, const struct slots *c, sr1_tensor *slots,
                              int values)
{
    int64_t n = c->model->config.n_kv_heads;

    return t_transpose(s, t_narrow(s, slots, 2, values ? n : 0, n), 1, 2);
}

/* [n_lanes,H*D] */
static sr1_tensor *attend_lanes(sr1_scope *s, const struct slots *c, int32_t layer,
                                sr1_tensor *q)
{
    const struct sr1__hf_config *config = &c->model->config;
    int64_t n = c->base.n_lanes;
    sr1_tensor *slots = view_slots(s, c->layers[layer], c->size);
    int windowed = c->window_mask && sr1__hf_config_window(config, layer);
    sr1_tensor *y;

    slots = t_narrow(s, t_narrow(s, slots, 0, 0, n), 1, 0, c->base.longest);
    q = t_reshape(s, t_narrow(s, q, 0, 0, n),
                  T_SHAPE(n, config->n_kv_heads, config->n_heads / config->n_kv_heads,
                          config->head_dim));
    y = t_sdpa(s, q, view_heads(s, c, slots, 0), view_heads(s, c, slots, 1),
               windowed ? c->window_mask : c->mask, 0);
    return t_reshape(s, y, T_SHAPE(n, config->n_heads * config->head_dim));
}

static sr1_tensor *attend_slot(sr1_scope *s, const struct slots *c, int32_t layer,
                               const struct sr1__kv_span *sp, sr1_tensor *q)
{
    sr1_tensor *row = view_slot(s, c, layer, c->slot_of[sp->row], sp->past + sp->n);

    row = t_unsqueeze(s, row, 0);
    return sr1__kv_attend_span(s, t_narrow(s, q, 0, sp->first, sp->n),
                               view_heads(s, c, row, 0), view_heads(s, c, row, 1),
                               sp->past, sr1__hf_config_window(&c->model->config, layer));
}

static void store_slot_tokens(sr1_scope *s, const struct slots *c, int32_t layer,
                              sr1_tensor *k, sr1_tensor *v)
{
    int64_t n = c->model->config.n_kv_heads;

    if (!v) {
        t_index_copy_(s, c->layers[layer], c->places, k);
        return;
    }
    t_index_copy_(s, t_narrow(s, c->layers[layer], 1, 0, n), c->places, k);
    t_index_copy_(s, t_narrow(s, c->layers[layer], 1, n, n), c->places, v);
}

static sr1_tensor *slots_attend(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                                const struct sr1__kv_span *spans, size_t n, sr1_tensor *q,
                                sr1_tensor *k, sr1_tensor *v)
{
    struct slots *c = get_slots(kv);
    sr1_tensor *lanes = NULL, *out;

    store_slot_tokens(s, c, layer, k, v);
    if (c->base.n_lanes > 0)
        lanes = attend_lanes(s, c, layer, q);
    if (sr1__scope_status(s) != SR1_OK || c->base.n_lanes == t_size(q, 0))
        return lanes;
    out = t_empty(s, c->model->dtype, T_SHAPE(t_size(q, 0), t_size(q, 1) * t_size(q, 2)));
    if (lanes)
        t_copy_(s, t_narrow(s, out, 0, 0, c->base.n_lanes), lanes);
    for (size_t i = 0; i < n; i++)
        if (spans[i].n > 1)
            t_copy_(s, t_narrow(s, out, 0, spans[i].first, spans[i].n),
                    attend_slot(s, c, layer, &spans[i], q));
    return out;
}

/* Token i of the span sees tokens 0..past+i, or the last of them. */
sr1_tensor *sr1__kv_attend_span(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                int64_t past, int64_t window)
{
    int64_t n = t_size(q, 0);
    int64_t width = t_size(q, 1) * t_size(q, 2);
    int windowed = window > 0 && past + n > window;
    sr1_tensor *mask = NULL;
    sr1_tensor *y;

    if (past > 0 && !windowed)
        mask = t_le(
            s, t_reshape(s, t_arange(s, past + n), T_SHAPE(1, past + n)),
            t_reshape(s, t_add_scalar(s, t_arange(s, n), (double)past), T_SHAPE(n, 1)));
    q = t_unsqueeze(s, t_transpose(s, q, 0, 1), 0);
    y = windowed ? sr1__nn_attend_window(s, (sr1_tensor *[]){q, k, v}, past, window)
                 : t_sdpa(s, q, k, v, mask, past == 0);
    return t_reshape(s, t_transpose(s, t_squeeze(s, y, 0), 0, 1), T_SHAPE(n, width));
}

/* ---- the whole ---- */

/* Slots cannot be given back one by one; all go once no row has one. */
static void slots_trim(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    for (int32_t i = 0; i < c->max_rows; i++)
        if (c->row_of[i] >= 0)
            return;
    for (int64_t i = 0; i < c->model->config.n_layers; i++) {
        sr1__tensor_free(c->layers[i]);
        c->layers[i] = NULL;
        c->sizes[i] = (struct slot_size){0, 0};
    }
    sr1__tensor_free(c->steps);
    c->steps = NULL;
    memset(c->length, 0, (size_t)c->max_rows * sizeof *c->length);
    c->size = c->most = (struct slot_size){0, 0};
}

static int64_t slots_bytes(const struct sr1__kv *kv)
{
    const struct slots *c = (const struct slots *)(const void *)kv;
    const struct sr1__hf_config *config = &c->model->config;
    int64_t places = 0;

    for (int64_t i = 0; i < config->n_layers; i++)
        places += c->sizes[i].n_slots * c->sizes[i].cap;
    return 2 * places * config->n_kv_heads * config->head_dim *
           (int64_t)sr1__weight_dtype_size(c->model->dtype);
}

static void slots_free(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    if (c->layers && c->sizes && c->row_of && c->length)
        slots_trim(kv);
    sr1__free(c->layers);
    sr1__free(c->sizes);
    sr1__free(c->slot_of);
    sr1__free(c->row_of);
    sr1__free(c->length);
    sr1__free(c);
}

static const struct sr1__kv_ops slots_ops = {
    .reserve = slots_reserve,
    .layout = slots_layout,
    .list_places = slots_list_places,
    .begin = slots_begin,
    .attend = slots_attend,
    .fork = slots_fork,
    .clear = slots_clear,
    .trim = slots_trim,
    .bytes = slots_bytes,
    .free = slots_free,
};

sr1_status sr1__kv_slots_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             int64_t max_tokens)
{
    struct slots *c = sr1__calloc(1, sizeof *c);
    size_t n = (size_t)max_rows;

    SR1__CHECK_ALLOC(c, "key-value cache");
    c->base.ops = &slots_ops;
    c->model = m;
    c->max_rows = max_rows;
    c->max_cap = round_to_step(max_tokens);
    c->layers = sr1__calloc((size_t)m->config.n_layers, sizeof(sr1_tensor *));
    c->sizes = sr1__calloc((size_t)m->config.n_layers, sizeof *c->sizes);
    c->slot_of = sr1__malloc(n * sizeof *c->slot_of);
    c->row_of = sr1__malloc(n * sizeof *c->row_of);
    c->length = sr1__calloc(n, sizeof *c->length);
    if (!c->layers || !c->sizes || !c->slot_of || !c->row_of || !c->length) {
        sr1__free(c->row_of); /* not filled yet */
        c->row_of = NULL;
        slots_free(&c->base);
        return sr1__fail_nomem("key-value cache");
    }
    for (size_t i = 0; i < n; i++) {
        c->slot_of[i] = -1;
        c->row_of[i] = -1;
    }
    *out = &c->base;
    return SR1_OK;
}
