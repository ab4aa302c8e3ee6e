/* tensor/model/kv_slots.c - keys and values as tensors, a layer each, that stay where
 * they are: any device, any type.
 *
 * A live row has a slot: the tail of one of a block's rows (kv_layout.h). The tokens of
 * its first feed, where they are several, are its prefix, those behind them its tail; a
 * place holds keys and values of one token, [2Hkv,D]. A fork of the prefix has the same
 * one: it costs nothing, and rows that begin alike come to lie in one block.
 *
 * A row with one new token takes the place of its slot in the pass, so that keys and
 * values of all such rows are one view [blocks,Hkv,places,D] of the cache and their
 * attention is one call: the rows of a block, and the query heads of each that share a
 * key-value head, lie along the query axis. A table says which position a place has for
 * a row, and a mask made of it hides what is not the row's or not written yet. Slots
 * without a new token are computed too and write to a place that is nobody's.
 *
 * Where rows find no place, or fewer than half of the slots are in use, live rows are
 * laid out anew and each layer is gathered into a new tensor, between two passes. */
#include "tensor/model/kv.h"

#include "base/mem.h"
#include "tensor/model/capture_bridge.h"
#include "tensor/model/kv_layout.h"
#include "tensor/ops/fused.h"

#include <stdlib.h>
#include <string.h>

#define LOOSE 8           /* slots that need not be compact */
#define NOWHERE INT32_MAX /* the position of a place that is not the row's */

struct slot_row {
    int live;
    int32_t slot;   /* -1: none yet */
    int64_t family; /* rows of one number begin with the same tokens, of which */
    int64_t prefix; /* so many are this row's, */
    int64_t start;  /* from here on in its block */
    int64_t length; /* tokens that may have been written */
    int64_t want;   /* tokens that need room */
};

struct placed_row {
    int64_t family;
    int32_t row;
};

struct slots {
    struct sr1__kv base;
    const sr1_model *model;
    sr1_tensor **layers; /* [layers] of [places+2,2Hkv,D]: all blocks, a place that is
                          * nobody's, and one that stays zero */
    struct sr1__kv_layout layout;
    sr1_tensor *table;            /* i64 [slots*block]; NULL: to be made */
    int64_t changed, changed_end; /* slots whose part of it is to be filled again */
    int64_t max_tokens;
    int32_t max_rows;
    struct slot_row *rows; /* [max_rows] */
    int32_t n_unplaced;    /* live ones without a slot */
    int64_t n_families;    /* so far */
    int32_t *row_of;       /* by slot, -1: free */
    uint8_t *left;         /* by slot: a row has left something in its tail */
    uint8_t *blank;        /* by block: must be cleared as a whole */
    /* A move of all layers to another layout that has begun. */
    struct sr1__kv_layout next;
    int64_t *origin; /* where what comes to each place of it lies; NULL: none has begun */
    int32_t n_moved; /* layers */
    /* scratch, [max_rows] each */
    struct placed_row *order;
    struct sr1__kv_family *families;
    struct slot_row *was;
    /* of one pass, borrowed */
    sr1_tensor *places;      /* [N] */
    sr1_tensor *mask;        /* [blocks,1,queries,block], 0 or -inf; NULL: no lanes */
    sr1_tensor *window_mask; /* of layers with a window; NULL: as mask */
};

static struct slots *get_slots(struct sr1__kv *kv)
{
    return (struct slots *)(void *)kv;
}

static const struct slots *look_at_slots(const struct sr1__kv *kv)
{
    return (const struct slots *)(const void *)kv;
}

static int64_t count_slots(const struct slots *c)
{
    return c->layout.n_blocks * c->layout.rows;
}

/* Heads of queries that share a key-value head. */
static int64_t count_queries(const struct slots *c)
{
    return c->model->config.n_heads / c->model->config.n_kv_heads;
}

/* ---- places ---- */

static int64_t find_prefix_place(const struct sr1__kv_layout *l, const struct slot_row *r)
{
    return r->slot / l->rows * sr1__kv_layout_block(l) + r->start;
}

static int64_t find_tail_place(const struct sr1__kv_layout *l, int64_t slot)
{
    return slot / l->rows * sr1__kv_layout_block(l) + l->prefix +
           slot % l->rows * l->tail;
}

static int64_t find_token_place(const struct sr1__kv_layout *l, const struct slot_row *r,
                                int64_t position)
{
    return position < r->prefix ? find_prefix_place(l, r) + position
                                : find_tail_place(l, r->slot) + position - r->prefix;
}

/* ---- rows come and go ---- */

static void mark_slot(struct slots *c, int64_t slot)
{
    int none = c->changed == c->changed_end;

    c->changed = none || slot < c->changed ? slot : c->changed;
    c->changed_end = none || slot >= c->changed_end ? slot + 1 : c->changed_end;
}

static void put_row(struct slots *c, int32_t row, int32_t slot, int64_t start)
{
    c->rows[row].slot = slot;
    c->rows[row].start = start;
    c->row_of[slot] = row;
    c->n_unplaced--;
    mark_slot(c, slot);
}

static void add_row(struct slots *c, int32_t row, struct slot_row r)
{
    c->rows[row] = r;
    c->rows[row].live = 1;
    c->rows[row].slot = -1;
    c->n_unplaced++;
}

/* A live row of the family that has no slot yet, -1: none. */
static int32_t find_heir(const struct slots *c, int64_t family)
{
    for (int32_t i = 0; c->n_unplaced > 0 && i < c->max_rows; i++)
        if (c->rows[i].live && c->rows[i].slot < 0 && c->rows[i].family == family)
            return i;
    return -1;
}

/* A fork that waits for a slot takes over what it begins with. */
static void drop_row(struct slots *c, int32_t row)
{
    struct slot_row was = c->rows[row];
    int32_t heir;

    c->rows[row] = (struct slot_row){.slot = -1};
    c->n_unplaced -= was.live && was.slot < 0;
    if (was.slot < 0)
        return;
    c->row_of[was.slot] = -1;
    c->left[was.slot] = 1;
    mark_slot(c, was.slot);
    heir = find_heir(c, was.family);
    if (heir >= 0)
        put_row(c, heir, was.slot, was.start);
}

static void slots_clear(struct sr1__kv *kv, int32_t row)
{
    drop_row(get_slots(kv), row);
}

/* ---- moving ---- */

static int compare_placed_rows(const void *a, const void *b)
{
    const struct placed_row *x = a, *y = b;

    if (x->family != y->family)
        return x->family < y->family ? -1 : 1;
    return x->row - y->row;
}

/* Live rows family by family into order, and the families; *tail: the longest. */
static int32_t list_families(struct slots *c, int64_t *n_families, int64_t *tail)
{
    int32_t n = 0;

    *n_families = *tail = 0;
    for (int32_t i = 0; i < c->max_rows; i++)
        if (c->rows[i].live)
            c->order[n++] = (struct placed_row){c->rows[i].family, i};
    qsort(c->order, (size_t)n, sizeof *c->order, compare_placed_rows);
    for (int32_t i = 0; i < n; i++) {
        const struct slot_row *r = &c->rows[c->order[i].row];
        struct sr1__kv_family *f;

        if (i == 0 || c->order[i].family != c->order[i - 1].family)
            c->families[(*n_families)++] = (struct sr1__kv_family){0, 0};
        f = &c->families[*n_families - 1];
        f->rows++;
        f->prefix = r->prefix > f->prefix ? r->prefix : f->prefix;
        *tail = r->want - r->prefix > *tail ? r->want - r->prefix : *tail;
    }
    return n;
}

/* n contents from one place on come to another. */
static void note_origin(struct slots *c, int64_t to, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        c->origin[to + i] = from + i;
}

/* The old place of a family's prefix, known by any row that has a slot; -1: there is
 * nothing of it. */
static int64_t find_prefix_origin(const struct slots *c, int32_t first, int32_t n)
{
    for (int32_t i = first; i < n && c->order[i].family == c->order[first].family; i++) {
        const struct slot_row *was = &c->was[c->order[i].row];

        if (was->slot >= 0 && was->length > 0)
            return find_prefix_place(&c->layout, was);
    }
    return -1;
}

static void place_in_order(struct slots *c, int32_t n)
{
    const struct sr1__kv_family *family = c->families - 1;
    int64_t start = 0, end = 0, origin = -1;

    for (int32_t i = 0; i < n; i++) {
        const struct slot_row *was = &c->was[c->order[i].row];
        struct slot_row *r = &c->rows[c->order[i].row];
        int begins = i == 0 || c->order[i].family != c->order[i - 1].family;
        int64_t tail = was->length - was->prefix;

        if (begins) {
            family++;
            origin = find_prefix_origin(c, i, n);
        }
        if (i % c->next.rows == 0)
            end = 0;
        if (begins || i % c->next.rows == 0) {
            start = end;
            end += family->prefix;
        }
        r->slot = i;
        r->start = start;
        c->row_of[i] = c->order[i].row;
        if (origin >= 0 && (begins || i % c->next.rows == 0))
            note_origin(c, find_prefix_place(&c->next, r), origin, family->prefix);
        if (was->slot >= 0 && tail > 0)
            note_origin(c, find_tail_place(&c->next, i),
                        find_tail_place(&c->layout, was->slot),
                        tail < c->layout.tail ? tail : c->layout.tail);
    }
}

/* All live rows get slots in a layout of their own; no contents move yet. */
static sr1_status begin_move(struct slots *c)
{
    struct sr1__kv_need need = {.families = c->families,
                                .times = 1,
                                .max_rows = c->max_rows,
                                .max_tokens = c->max_tokens,
                                .queries = count_queries(c)};
    int32_t n = list_families(c, &need.n_families, &need.tail);
    int64_t n_slots, places;

    c->next = sr1__kv_layout_choose(&need);
    n_slots = c->next.n_blocks * c->next.rows;
    places = sr1__kv_layout_places(&c->next) + 2;
    c->origin = sr1__malloc((size_t)places * sizeof *c->origin);
    SR1__CHECK_ALLOC(c->origin, "key-value cache");
    for (int64_t i = 0; i < places; i++)
        c->origin[i] = sr1__kv_layout_places(&c->layout) + 1;
    memcpy(c->was, c->rows, (size_t)c->max_rows * sizeof *c->was);
    for (int64_t i = 0; i < n_slots; i++)
        c->row_of[i] = -1;
    memset(c->left, 0, (size_t)n_slots);
    memset(c->blank, 0, (size_t)n_slots);
    place_in_order(c, n);
    c->n_unplaced = 0;
    c->n_moved = 0;
    return SR1_OK;
}

static sr1_status move_layer(struct slots *c, int32_t i, sr1_tensor *origin)
{
    const struct sr1__hf_config *config = &c->model->config;
    int64_t places = sr1__kv_layout_places(&c->next) + 2;
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");
    sr1_tensor *fresh;
    sr1_status st;

    sr1__scope_no_grad(s);
    fresh = t_hold(s, c->layers[i] ? t_index_select(s, c->layers[i], 0, origin)
                                   : t_full(s, 0.0, c->model->dtype,
                                            T_SHAPE(places, 2 * config->n_kv_heads,
                                                    config->head_dim)));
    st = sr1__scope_close(s);
    sr1__tensor_free(st == SR1_OK ? c->layers[i] : fresh);
    if (st == SR1_OK)
        c->layers[i] = fresh;
    return st;
}

static sr1_status move_layers(struct slots *c)
{
    int64_t places = sr1__kv_layout_places(&c->next) + 2;
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");
    sr1_tensor *origin;
    sr1_status st;

    sr1__scope_no_grad(s);
    origin = c->layers[0] ? t_from_i64(s, c->origin, T_SHAPE(places)) : NULL;
    st = sr1__scope_status(s);
    while (st == SR1_OK && c->n_moved < c->model->config.n_layers) {
        st = move_layer(c, c->n_moved, origin);
        c->n_moved += st == SR1_OK;
    }
    sr1__scope_check(s, st);
    return sr1__scope_close(s);
}

static void drop_table(struct slots *c)
{
    sr1__tensor_free(c->table);
    c->table = NULL;
    c->base.moves++;
}

/* Layer by layer, so that only one is there twice. Where that fails, those that have
 * moved stay where they are; no pass begins before all have. */
static sr1_status end_move(struct slots *c)
{
    if (!c->origin)
        return SR1_OK;
    SR1__TRY(move_layers(c));
    c->layout = c->next;
    sr1__free(c->origin);
    c->origin = NULL;
    c->n_moved = 0;
    drop_table(c);
    return SR1_OK;
}

/* ---- room ---- */

/* May the row have this free slot? *start: of its prefix; *blank: others have left an
 * empty block behind. */
static int suits_row(const struct slots *c, const struct slot_row *r, int64_t slot,
                     int64_t *start, int *blank)
{
    int64_t first = slot - slot % c->layout.rows;
    int empty = 1;

    *blank = 0;
    for (int64_t i = first; i < first + c->layout.rows; i++) {
        const struct slot_row *other = c->row_of[i] < 0 ? NULL : &c->rows[c->row_of[i]];

        empty = empty && !other;
        *blank = empty && (*blank || c->left[i]);
        *start = other ? other->start : 0;
        if (other && other->family == r->family)
            return 1;
    }
    *start = 0;
    return r->prefix == 0 || (empty && r->length == 0 && r->prefix <= c->layout.prefix);
}

static int find_slot(struct slots *c, int32_t row)
{
    int64_t start;
    int blank;

    for (int64_t i = 0; i < count_slots(c); i++) {
        if (c->row_of[i] >= 0 || !suits_row(c, &c->rows[row], i, &start, &blank))
            continue;
        c->blank[i / c->layout.rows] |= (uint8_t)blank;
        put_row(c, row, (int32_t)i, start);
        return 1;
    }
    return 0;
}

/* Is there room for what all live rows want, in slots that they have now? */
static int find_slots(struct slots *c)
{
    int32_t used = 0, top = 0;

    for (int32_t i = 0; i < c->max_rows; i++) {
        const struct slot_row *r = &c->rows[i];

        if (!r->live)
            continue;
        if (r->want - r->prefix > c->layout.tail || (r->slot < 0 && !find_slot(c, i)))
            return 0;
        used++;
        top = r->slot >= top ? r->slot + 1 : top;
    }
    return top <= LOOSE || top <= 2 * used; /* rows that end pay for a move */
}

/* Values that an earlier sequence left there may not be finite. */
static sr1_status clear_slots(struct slots *c)
{
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");
    const struct sr1__kv_layout *l = &c->layout;

    sr1__scope_inference(s);
    for (int64_t i = 0; i < count_slots(c); i++) {
        int whole = i % l->rows == 0 && c->blank[i / l->rows];
        int tail = c->row_of[i] >= 0 && c->left[i] && !c->blank[i / l->rows];
        int64_t at =
            whole ? i / l->rows * sr1__kv_layout_block(l) : find_tail_place(l, i);

        for (int32_t k = 0; (whole || tail) && k < c->model->config.n_layers; k++)
            t_fill_(s,
                    t_narrow(s, c->layers[k], 0, at,
                             whole ? sr1__kv_layout_block(l) : l->tail),
                    0.0);
    }
    SR1__TRY(sr1__scope_close(s));
    for (int64_t i = 0; i < count_slots(c); i++)
        c->left[i] &= c->row_of[i] < 0 && !c->blank[i / l->rows];
    memset(c->blank, 0, (size_t)l->n_blocks);
    return SR1_OK;
}

/* The position that each place of its block has for the row of a slot, [block]. One that
 * has no row looks at its first place. */
static void list_positions(const struct slots *c, int64_t slot, int64_t *out)
{
    const struct sr1__kv_layout *l = &c->layout;
    const struct slot_row *r = c->row_of[slot] < 0 ? NULL : &c->rows[c->row_of[slot]];
    int64_t *tail = out + l->prefix + slot % l->rows * l->tail;

    for (int64_t i = 0; i < sr1__kv_layout_block(l); i++)
        out[i] = NOWHERE;
    for (int64_t i = 0; r && i < r->prefix; i++)
        out[r->start + i] = i;
    for (int64_t i = 0; i < (r ? l->tail : 1); i++)
        tail[i] = (r ? r->prefix : 0) + i;
}

/* The positions of slots [first, end). */
static sr1_status upload_positions(struct slots *c, int64_t first, int64_t end)
{
    int64_t block = sr1__kv_layout_block(&c->layout), n = (end - first) * block;
    int64_t *positions;
    sr1_scope *s;
    sr1_status st;

    SR1__CALLOC(positions, (size_t)n, "key-value cache");
    for (int64_t i = first; i < end; i++)
        list_positions(c, i, positions + (i - first) * block);
    s = sr1__scope_open(c->model->device, "key-value cache");
    sr1__scope_no_grad(s);
    if (!c->table)
        c->table = t_hold(s, t_empty(s, SR1__I64, T_SHAPE(count_slots(c) * block)));
    t_upload_i64(s, t_narrow(s, c->table, 0, first * block, n), positions);
    st = sr1__scope_close(s);
    sr1__free(positions);
    return st;
}

static sr1_status fill_table(struct slots *c)
{
    if (!c->table) {
        c->changed = 0;
        c->changed_end = count_slots(c);
    }
    if (c->changed == c->changed_end)
        return SR1_OK;
    SR1__TRY(upload_positions(c, c->changed, c->changed_end));
    c->changed = c->changed_end = 0;
    return SR1_OK;
}

/* Every live row gets a slot with room for what it wants. */
static sr1_status settle_rows(struct slots *c)
{
    SR1__TRY(end_move(c));
    if (!find_slots(c)) {
        SR1__TRY(begin_move(c));
        SR1__TRY(end_move(c));
    }
    SR1__TRY(clear_slots(c));
    return fill_table(c);
}

/* The first tokens of a row, where there are several, are its prefix. */
static sr1_status slots_reserve(struct sr1__kv *kv, const struct sr1__kv_span *spans,
                                size_t n)
{
    struct slots *c = get_slots(kv);

    for (size_t i = 0; i < n; i++) {
        const struct sr1__kv_span *sp = &spans[i];

        if (sp->past == 0) {
            drop_row(c, sp->row);
            add_row(c, sp->row,
                    (struct slot_row){.family = ++c->n_families,
                                      .prefix = sp->n > 1 ? sp->n : 0});
        }
        c->rows[sp->row].want = sp->past + sp->n;
    }
    return settle_rows(c);
}

/* The first n tokens of one tail into another. */
static sr1_status copy_tail(struct slots *c, int32_t from, int32_t to, int64_t n)
{
    sr1_scope *s = sr1__scope_open(c->model->device, "key-value cache");
    int64_t a = find_tail_place(&c->layout, c->rows[from].slot);
    int64_t b = find_tail_place(&c->layout, c->rows[to].slot);

    sr1__scope_inference(s);
    for (int32_t i = 0; i < c->model->config.n_layers; i++)
        t_copy_(s, t_narrow(s, c->layers[i], 0, b, n),
                t_narrow(s, c->layers[i], 0, a, n));
    return sr1__scope_close(s);
}

/* What is behind the prefix is copied; a slot is found for the row before its next pass.
 */
static sr1_status slots_fork(struct sr1__kv *kv, int32_t from, int32_t to,
                             int64_t n_tokens)
{
    struct slots *c = get_slots(kv);
    const struct slot_row *a = &c->rows[from];
    int64_t prefix = n_tokens < a->prefix ? n_tokens : a->prefix;
    sr1_status st;

    add_row(
        c, to,
        (struct slot_row){
            .family = a->family, .prefix = prefix, .length = n_tokens, .want = n_tokens});
    if (n_tokens == prefix)
        return SR1_OK;
    st = settle_rows(c);
    if (st == SR1_OK)
        st = copy_tail(c, from, to, n_tokens - prefix);
    if (st != SR1_OK)
        drop_row(c, to);
    return st;
}

/* ---- a pass ---- */

/* A pass of single tokens on a device has one of few sizes, so that a graph of its
 * kernels can be used again. */
static int64_t bucket_lanes(const struct slots *c, int64_t top, int only_lanes)
{
    int64_t blocks = (top + c->layout.rows - 1) / c->layout.rows;

    if (only_lanes && c->model->device != SR1__CPU)
        blocks = sr1__kv_double(blocks, c->layout.n_blocks);
    return blocks * c->layout.rows;
}

static int64_t slots_layout(struct sr1__kv *kv, struct sr1__kv_span *spans, size_t n)
{
    struct slots *c = get_slots(kv);
    int64_t lanes = 0, at;
    size_t singles = 0;

    for (size_t i = 0; i < n; i++) {
        struct slot_row *r = &c->rows[spans[i].row];
        int64_t now = spans[i].past + spans[i].n;

        r->length = now > r->length ? now : r->length;
        spans[i].first = r->slot;
        if (spans[i].n > 1)
            continue;
        singles++;
        lanes = r->slot >= lanes ? r->slot + 1 : lanes;
    }
    c->base.n_lanes = bucket_lanes(c, lanes, singles == n);
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
    const struct slots *c = look_at_slots(kv);

    for (int64_t i = 0; i < n_tokens; i++)
        places[i] = sr1__kv_layout_places(&c->layout);
    for (size_t i = 0; i < n; i++)
        for (int64_t t = 0; t < spans[i].n; t++)
            places[spans[i].first + t] =
                find_token_place(&c->layout, &c->rows[spans[i].row], spans[i].past + t);
}

/* The token of lane i, at position p, sees the places of its block with positions 0..p,
 * of these the last `window`; 0: all. */
static sr1_tensor *make_lane_mask(sr1_scope *s, const struct slots *c,
                                  sr1_tensor *positions, int64_t window)
{
    int64_t n = c->base.n_lanes, rows = c->layout.rows, queries = count_queries(c);
    int64_t block = sr1__kv_layout_block(&c->layout);
    sr1_tensor *p = t_reshape(s, t_narrow(s, positions, 0, 0, n), T_SHAPE(n, 1));
    sr1_tensor *at =
        t_reshape(s, t_narrow(s, c->table, 0, 0, n * block), T_SHAPE(n, block));
    sr1_tensor *seen = t_le(s, at, p), *mask;

    if (window)
        seen = t_logical_and(s, seen, t_gt(s, at, t_add_scalar(s, p, (double)-window)));
    mask = t_log(s, t_to(s, seen, c->model->dtype));
    if (rows == 1) /* the same for all queries */
        return t_reshape(s, mask, T_SHAPE(n, 1, 1, block));
    mask = t_expand(s, t_reshape(s, mask, T_SHAPE(n / rows, 1, rows, 1, block)),
                    T_SHAPE(n / rows, 1, rows, queries, block));
    return t_reshape(s, mask, T_SHAPE(n / rows, 1, rows * queries, block));
}

static void slots_begin(sr1_scope *s, struct sr1__kv *kv, sr1_tensor *places,
                        sr1_tensor *positions)
{
    struct slots *c = get_slots(kv);
    int64_t window = c->model->config.sliding_window;
    int windowed = window > 0 && c->layout.prefix + c->layout.tail > window;

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

/* Those of lanes [N,H,D] as attention reads them, [blocks,Hkv,queries,D]: copied where a
 * block has several rows, since heads lie row by row. */
static sr1_tensor *group_queries(sr1_scope *s, const struct slots *c, sr1_tensor *q)
{
    const struct sr1__hf_config *config = &c->model->config;
    int64_t n = c->base.n_lanes, rows = c->layout.rows, kv = config->n_kv_heads;

    q = t_reshape(s, t_narrow(s, q, 0, 0, n),
                  T_SHAPE(n / rows, rows, kv, count_queries(c) * config->head_dim));
    return t_reshape(s, t_transpose(s, q, 1, 2),
                     T_SHAPE(n / rows, kv, rows * count_queries(c), config->head_dim));
}

/* Of grouped queries; [n_lanes,H*D], copied likewise. */
static sr1_tensor *attend_lanes(sr1_scope *s, const struct slots *c, int32_t layer,
                                sr1_tensor *q)
{
    const struct sr1__hf_config *config = &c->model->config;
    int64_t n = c->base.n_lanes, rows = c->layout.rows, kv = config->n_kv_heads;
    int64_t width = count_queries(c) * config->head_dim;
    int64_t block = sr1__kv_layout_block(&c->layout);
    int windowed = c->window_mask && sr1__hf_config_window(config, layer);
    sr1_tensor *blocks, *y;

    blocks = t_reshape(s, t_narrow(s, c->layers[layer], 0, 0, n / rows * block),
                       T_SHAPE(n / rows, block, 2 * kv, config->head_dim));
    y = t_sdpa(s, q, view_heads(s, c, blocks, 0), view_heads(s, c, blocks, 1),
               windowed ? c->window_mask : c->mask, 0);
    y = t_transpose(s, t_reshape(s, y, T_SHAPE(n / rows, kv, rows, width)), 1, 2);
    return t_reshape(s, y, T_SHAPE(n, kv * width));
}

/* The first n tokens of a row, [n,2Hkv,D]. */
static sr1_tensor *gather_row(sr1_scope *s, const struct slots *c, int32_t layer,
                              const struct slot_row *r, int64_t n)
{
    int64_t prefix = n < r->prefix ? n : r->prefix;
    sr1_tensor *parts[2] = {
        t_narrow(s, c->layers[layer], 0, find_prefix_place(&c->layout, r), prefix),
        t_narrow(s, c->layers[layer], 0, find_tail_place(&c->layout, r->slot),
                 n - prefix)};

    if (prefix == 0 || prefix == n)
        return parts[prefix == 0];
    return t_cat(s, parts, 2, 0);
}

static sr1_tensor *attend_slot(sr1_scope *s, const struct slots *c, int32_t layer,
                               const struct sr1__kv_span *sp, sr1_tensor *q)
{
    sr1_tensor *row = gather_row(s, c, layer, &c->rows[sp->row], sp->past + sp->n);

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
        lanes = attend_lanes(s, c, layer, group_queries(s, c, q));
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

/* A pass of nothing but lanes. */
static sr1_tensor *slots_attend_qkv(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                                    const struct sr1__heads_op *heads, sr1_tensor *qkv)
{
    const struct slots *c = get_slots(kv);
    const struct sr1__split_heads split = {.qkv = qkv,
                                           .q_norm = heads->q_norm,
                                           .k_norm = heads->k_norm,
                                           .cos = heads->cos,
                                           .sin = heads->sin,
                                           .places = c->places,
                                           .cache = c->layers[layer],
                                           .rows = c->layout.rows,
                                           .eps = heads->eps};
    sr1_tensor *q = NULL;

    if (kv->n_lanes == t_size(qkv, 0))
        q = sr1__capture_split_heads(s, &split);
    return q ? attend_lanes(s, c, layer, q) : NULL;
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

/* Slots cannot be given back one by one; all go once no row is live. */
static void slots_trim(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    for (int32_t i = 0; i < c->max_rows; i++)
        if (c->rows[i].live)
            return;
    for (int64_t i = 0; i < c->model->config.n_layers; i++) {
        sr1__tensor_free(c->layers[i]);
        c->layers[i] = NULL;
    }
    sr1__free(c->origin);
    c->origin = NULL;
    c->n_moved = 0;
    c->layout = (struct sr1__kv_layout){.rows = 1};
    drop_table(c);
}

static int64_t slots_bytes(const struct sr1__kv *kv)
{
    const struct slots *c = look_at_slots(kv);
    const struct sr1__hf_config *config = &c->model->config;
    int64_t places = c->n_moved * sr1__kv_layout_places(&c->next) +
                     (config->n_layers - c->n_moved) * sr1__kv_layout_places(&c->layout);

    return 2 * places * config->n_kv_heads * config->head_dim *
           (int64_t)sr1__weight_dtype_size(c->model->dtype);
}

static void slots_free(struct sr1__kv *kv)
{
    struct slots *c = get_slots(kv);

    if (c->layers && c->rows)
        slots_trim(kv);
    sr1__free(c->layers);
    sr1__free(c->rows);
    sr1__free(c->row_of);
    sr1__free(c->left);
    sr1__free(c->blank);
    sr1__free(c->order);
    sr1__free(c->families);
    sr1__free(c->was);
    sr1__free(c);
}

static const struct sr1__kv_ops slots_ops = {
    .reserve = slots_reserve,
    .layout = slots_layout,
    .list_places = slots_list_places,
    .begin = slots_begin,
    .attend = slots_attend,
    .attend_qkv = slots_attend_qkv,
    .fork = slots_fork,
    .clear = slots_clear,
    .trim = slots_trim,
    .bytes = slots_bytes,
    .free = slots_free,
};

static sr1_status make_slot_arrays(struct slots *c)
{
    size_t n = (size_t)c->max_rows, n_slots = (size_t)c->base.most_lanes;

    SR1__CALLOC(c->layers, (size_t)c->model->config.n_layers, "key-value cache");
    SR1__CALLOC(c->rows, n, "key-value cache");
    SR1__CALLOC(c->row_of, n_slots, "key-value cache");
    SR1__CALLOC(c->left, n_slots, "key-value cache");
    SR1__CALLOC(c->blank, n_slots, "key-value cache");
    SR1__CALLOC(c->order, n, "key-value cache");
    SR1__CALLOC(c->families, n, "key-value cache");
    SR1__CALLOC(c->was, n, "key-value cache");
    for (size_t i = 0; i < n; i++)
        c->rows[i].slot = -1;
    return SR1_OK;
}

sr1_status sr1__kv_slots_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             int64_t max_tokens)
{
    struct slots *c;
    sr1_status st;

    SR1__CALLOC(c, 1, "key-value cache");
    c->base.ops = &slots_ops;
    c->model = m;
    c->max_rows = max_rows;
    c->max_tokens = max_tokens;
    c->layout.rows = 1;
    c->base.most_lanes = max_rows + SR1__KV_MOST_ROWS - 1; /* a block that is not full */
    st = make_slot_arrays(c);
    if (st != SR1_OK) {
        slots_free(&c->base);
        return st;
    }
    *out = &c->base;
    return SR1_OK;
}
