/* tensor/ops/optimizer.c - AdamW through libtorch's fused update over all leaves at
 * once.
 */
#include "tensor/ops/optimizer.h"

#include "base/buf.h"
#include "base/mem.h"

#include <math.h>

#define CHUNKS_AT_ONCE 512 /* whose squares one call computes */

enum { SLOT_AVG, SLOT_AVG_SQ, SLOT_MASTER, SLOTS };

static const char *const slot_suffix[SLOTS] = {"exp_avg", "exp_avg_sq", "master"};

/* Lists handed to the fused update, and the gradients they are picked from. */
enum { LIST_PARAM, LIST_GRAD, LIST_AVG, LIST_AVG_SQ, LIST_STEP, LIST_ALL_GRADS, LISTS };

struct leaf {
    char *name[SLOTS];       /* "model.norm.weight.exp_avg" */
    sr1_tensor *slot[SLOTS]; /* fp32; master NULL for fp32 weights. All are NULL where the
                                part has nothing of the leaf */
    sr1_tensor *param;
    sr1_tensor *weights; /* of the part, flat, where they lie apart; else NULL */
    int64_t from, n;     /* of its numbers the part has n, from here on */
    int decays;
};

/* A tensor of the state. */
struct optimizer_state {
    struct sr1__named named;
    const sr1_tensor *leaf;
    int64_t from; /* -1: whole */
};

struct sr1__optimizer {
    struct leaf *leaf;
    size_t n;
    struct optimizer_state *state;
    size_t n_state;
    sr1_tensor **work; /* LISTS lists of n for one call */
    sr1_tensor *step;  /* fp32 scalar, shared by all leaves */
    struct sr1__adamw cfg;
    sr1__device device;
    int64_t steps;
    int in_part; /* others have the rest */
};

static void leaf_free(struct leaf *l)
{
    for (int i = 0; i < SLOTS; i++) {
        sr1__free(l->name[i]);
        sr1__tensor_free(l->slot[i]);
    }
    sr1__tensor_free(l->param);
    sr1__tensor_free(l->weights);
}

void sr1__optimizer_free(struct sr1__optimizer *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->leaf && i < o->n; i++)
        leaf_free(&o->leaf[i]);
    sr1__free(o->leaf);
    sr1__free(o->state);
    sr1__free(o->work);
    sr1__tensor_free(o->step);
    sr1__free(o);
}

static int is_whole(const struct leaf *l)
{
    return l->n == t_numel(l->param);
}

/* Numbers from..from+n of a leaf's tensor, flat; a view. */
static sr1_tensor *view_piece(sr1_scope *s, sr1_tensor *t, int64_t from, int64_t n)
{
    return t ? t_narrow(s, t_reshape(s, t, T_SHAPE(t_numel(t))), 0, from, n) : NULL;
}

/* The part that is here of a tensor like the leaf: itself, or a flat view. */
static sr1_tensor *view_part(sr1_scope *s, const struct leaf *l, sr1_tensor *t)
{
    return !t || is_whole(l) ? t : view_piece(s, t, l->from, l->n);
}

/* The weights of the part. */
static sr1_tensor *view_weights(sr1_scope *s, const struct leaf *l)
{
    return l->weights ? l->weights : view_part(s, l, l->param);
}

/* In the scope's memory, which the tensor need not be in. */
static sr1_tensor *fp32_copy(sr1_scope *s, sr1_tensor *t)
{
    t = t_to_device(s, t, sr1__scope_device(s));
    return t_dtype(t) == SR1__F32 ? NULL : t_hold(s, t_detach(s, t_to(s, t, SR1__F32)));
}

static sr1_tensor *fp32_zeros(sr1_scope *s, sr1_tensor *t)
{
    return t_hold(s, t_full(s, 0.0, SR1__F32, t_ndim(t), sr1__shim_sizes(t)));
}

/* l->from and l->n are set. */
static sr1_status leaf_init(sr1_scope *s, struct leaf *l, const struct sr1__named *p)
{
    struct sr1__buf name;
    sr1_tensor *part;

    l->param = t_hold(s, p->tensor);
    l->decays = t_ndim(p->tensor) > 1;
    if (l->n == 0)
        return SR1_OK;
    part = view_part(s, l, p->tensor);
    l->slot[SLOT_AVG] = fp32_zeros(s, part);
    l->slot[SLOT_AVG_SQ] = fp32_zeros(s, part);
    l->slot[SLOT_MASTER] = fp32_copy(s, part);
    for (int i = 0; i < SLOTS; i++) {
        if (!l->slot[i])
            continue;
        sr1__buf_init(&name, 0);
        sr1__buf_fmt(&name, "%s.%s", p->name, slot_suffix[i]);
        SR1__TRY(sr1__buf_finish(&name, "optimizer state name", &l->name[i]));
    }
    return SR1_OK;
}

static void list_state(struct sr1__optimizer *o)
{
    for (size_t i = 0; i < o->n; i++) {
        const struct leaf *l = &o->leaf[i];

        for (int k = 0; k < SLOTS; k++)
            if (l->slot[k])
                o->state[o->n_state++] = (struct optimizer_state){
                    {l->name[k], l->slot[k]}, l->param, is_whole(l) ? -1 : l->from};
    }
}

/* One leaf at a time: what is copied on the way is gone before the next. */
static sr1_status init_leaves(struct sr1__optimizer *o, const struct sr1__named *params,
                              const struct sr1__leaf_part *parts)
{
    for (size_t i = 0; i < o->n; i++) {
        sr1_scope *s =
            sr1__scope_open(o->cfg.offload ? SR1__CPU : o->device, "optimizer");
        sr1_status st;

        sr1__scope_no_grad(s);
        o->leaf[i].from = parts ? parts[i].from : 0;
        o->leaf[i].n = parts ? parts[i].n : t_numel(params[i].tensor);
        o->in_part |= o->leaf[i].n < t_numel(params[i].tensor);
        st = leaf_init(s, &o->leaf[i], &params[i]);
        sr1__scope_check(s, st);
        SR1__TRY(sr1__scope_close(s));
    }
    return SR1_OK;
}

static sr1_status init_step(struct sr1__optimizer *o)
{
    sr1_scope *s = sr1__scope_open(o->device, "optimizer");

    sr1__scope_no_grad(s);
    o->step = t_hold(s, t_full(s, 0.0, SR1__F32, 0, NULL));
    return sr1__scope_close(s);
}

sr1_status sr1__optimizer_new(struct sr1__optimizer **out,
                              const struct sr1__named *params, size_t n,
                              const struct sr1__adamw *cfg, sr1__device device)
{
    return sr1__optimizer_new_part(out, params, n, cfg, device, NULL);
}

sr1_status sr1__optimizer_new_part(struct sr1__optimizer **out,
                                   const struct sr1__named *params, size_t n,
                                   const struct sr1__adamw *cfg, sr1__device device,
                                   const struct sr1__leaf_part *parts)
{
    struct sr1__optimizer *o = sr1__calloc(1, sizeof *o);
    sr1_status status;

    SR1__CHECK_ALLOC(o, "optimizer");
    o->cfg = *cfg;
    o->device = device;
    o->n = n;
    o->leaf = sr1__calloc(n, sizeof *o->leaf);
    o->state = sr1__calloc(n * SLOTS, sizeof *o->state);
    o->work = sr1__calloc(n * LISTS, sizeof(sr1_tensor *));
    if (!o->leaf || !o->state || !o->work) {
        sr1__optimizer_free(o);
        return sr1__fail_nomem("optimizer");
    }
    o->cfg.offload = cfg->offload && device != SR1__CPU;
    status = init_leaves(o, params, parts);
    if (status == SR1_OK)
        status = init_step(o);
    if (status != SR1_OK) {
        sr1__optimizer_free(o);
        return status;
    }
    list_state(o);
    *out = o;
    return SR1_OK;
}

void sr1__optimizer_move_weights(struct sr1__optimizer *o, sr1_tensor *const *weights)
{
    for (size_t i = 0; i < o->n; i++) {
        sr1__tensor_free(o->leaf[i].weights);
        o->leaf[i].weights = weights ? sr1__shim_retain(weights[i]) : NULL;
    }
}

void sr1__optimizer_clear_grad(struct sr1__optimizer *o)
{
    for (size_t i = 0; i < o->n; i++)
        (void)sr1__shim_clear_grad(o->leaf[i].param);
}

static sr1_tensor **get_optimizer_list(const struct sr1__optimizer *o, int which)
{
    return o->work + (size_t)which * o->n;
}

/* Gradients by leaf, of the part that is here; NULL where there is none. Returns how many
 * there are, moved together at the start of LIST_GRAD. */
static size_t collect_leaf_grads(sr1_scope *s, const struct sr1__optimizer *o,
                                 sr1_tensor *const *sums)
{
    sr1_tensor **all = get_optimizer_list(o, LIST_ALL_GRADS);
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++) {
        const struct leaf *l = &o->leaf[i];

        all[i] = NULL;
        if (l->n > 0)
            all[i] = sums ? sums[i] : view_part(s, l, t_grad(s, l->param));
        if (all[i])
            get_optimizer_list(o, LIST_GRAD)[n++] = all[i];
    }
    return n;
}

/* One fused call for the leaves that decay, or for those that do not. */
static void apply_group(sr1_scope *s, struct sr1__optimizer *o, int decays, double lr)
{
    size_t m = 0;

    for (size_t i = 0; i < o->n; i++) {
        const struct leaf *l = &o->leaf[i];

        if (l->decays != decays || !get_optimizer_list(o, LIST_ALL_GRADS)[i])
            continue;
        get_optimizer_list(o, LIST_PARAM)[m] =
            l->slot[SLOT_MASTER] ? l->slot[SLOT_MASTER] : view_weights(s, l);
        get_optimizer_list(o, LIST_GRAD)[m] = get_optimizer_list(o, LIST_ALL_GRADS)[i];
        get_optimizer_list(o, LIST_AVG)[m] = l->slot[SLOT_AVG];
        get_optimizer_list(o, LIST_AVG_SQ)[m] = l->slot[SLOT_AVG_SQ];
        get_optimizer_list(o, LIST_STEP)[m++] = o->step;
    }
    if (m && sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(
            s, sr1__shim_adamw_(
                   get_optimizer_list(o, LIST_PARAM), get_optimizer_list(o, LIST_GRAD),
                   get_optimizer_list(o, LIST_AVG), get_optimizer_list(o, LIST_AVG_SQ),
                   get_optimizer_list(o, LIST_STEP), m, lr, o->cfg.beta1, o->cfg.beta2,
                   decays ? o->cfg.weight_decay : 0.0, o->cfg.eps));
}

/* How an update changes gradients and weights. */
struct change {
    double lr, scale;  /* of gradients */
    sr1_tensor *piece; /* fp32, for a piece of a narrow gradient; NULL: there is none */
};

/* A piece of a gradient in fp32. */
static sr1_tensor *widen_piece(sr1_scope *s, sr1_tensor *grad, sr1_tensor *piece,
                               int64_t from, int64_t n)
{
    sr1_tensor *g = view_piece(s, grad, from, n), *wide;

    if (t_dtype(grad) == SR1__F32)
        return g;
    wide = t_narrow(s, piece, 0, 0, n);
    t_copy_(s, wide, g);
    return wide;
}

/* Update a piece of a leaf whose state is on the host, or whose gradient is narrow. */
static void apply_piece(sr1_scope *outer, struct sr1__optimizer *o, const struct leaf *l,
                        sr1_tensor *grad, struct change c, int64_t from, int64_t n)
{
    sr1_scope *s = sr1__scope_nest(outer, "numbers %lld", (long long)from);
    sr1_tensor *param = l->weights ? view_piece(s, l->weights, from, n)
                                   : view_piece(s, l->param, l->from + from, n);
    sr1_tensor *here[SLOTS] = {NULL}, *there[SLOTS] = {NULL};
    sr1_tensor *updated, *g = widen_piece(s, grad, c.piece, from, n);

    for (int i = 0; i < SLOTS; i++) {
        here[i] = view_piece(s, l->slot[i], from, n);
        there[i] = here[i] ? t_to_device(s, here[i], o->device) : NULL;
    }
    updated = there[SLOT_MASTER] ? there[SLOT_MASTER] : param;
    if (c.scale != 1.0 && sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_scale_all_(&g, 1, c.scale));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(
            s, sr1__shim_adamw_(&updated, &g, &there[SLOT_AVG], &there[SLOT_AVG_SQ],
                                &o->step, 1, c.lr, o->cfg.beta1, o->cfg.beta2,
                                l->decays ? o->cfg.weight_decay : 0.0, o->cfg.eps));
    for (int i = 0; i < SLOTS; i++)
        if (here[i] && o->cfg.offload)
            t_copy_(s, here[i], there[i]);
    if (there[SLOT_MASTER])
        t_copy_(s, param, there[SLOT_MASTER]);
    (void)sr1__scope_close(s);
}

/* Room for a piece, so that memory does not end between two of them. */
static sr1_tensor *reserve_piece(sr1_scope *s, const struct sr1__optimizer *o)
{
    int64_t most = 0;

    for (size_t i = 0; i < o->n; i++) {
        const sr1_tensor *g = get_optimizer_list(o, LIST_ALL_GRADS)[i];

        if (g && t_dtype(g) != SR1__F32 && t_numel(g) > most)
            most = t_numel(g);
    }
    most = most < SR1__OFFLOAD_PIECE ? most : SR1__OFFLOAD_PIECE;
    return most ? t_empty(s, SR1__F32, T_SHAPE(most)) : NULL;
}

static void apply_in_pieces(sr1_scope *s, struct sr1__optimizer *o, struct change c)
{
    c.piece = reserve_piece(s, o);
    for (size_t i = 0; i < o->n; i++) {
        sr1_tensor *grad = get_optimizer_list(o, LIST_ALL_GRADS)[i];
        const struct leaf *l = &o->leaf[i];
        int64_t n;

        for (int64_t at = 0; grad && at < l->n; at += n) {
            n = l->n - at < SR1__OFFLOAD_PIECE ? l->n - at : SR1__OFFLOAD_PIECE;
            apply_piece(s, o, l, grad, c, at, n);
        }
    }
}

/* Low-precision weights follow their masters. */
static void copy_masters_to_params(sr1_scope *s, struct sr1__optimizer *o)
{
    for (size_t i = 0; i < o->n; i++) {
        const struct leaf *l = &o->leaf[i];

        if (l->slot[SLOT_MASTER] && get_optimizer_list(o, LIST_ALL_GRADS)[i])
            t_copy_(s, view_piece(s, view_weights(s, l), 0, l->n),
                    view_piece(s, l->slot[SLOT_MASTER], 0, l->n));
    }
}

/* All leaves in two calls, their gradients being fp32. */
static void apply_fused(sr1_scope *s, struct sr1__optimizer *o, size_t n_grads,
                        struct change c)
{
    if (c.scale != 1.0)
        sr1__scope_check(
            s, sr1__shim_scale_all_(get_optimizer_list(o, LIST_GRAD), n_grads, c.scale));
    apply_group(s, o, 1, c.lr);
    apply_group(s, o, 0, c.lr);
    copy_masters_to_params(s, o);
}

static int are_f32(sr1_tensor *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t_dtype(list[i]) != SR1__F32)
            return 0;
    return 1;
}

/* In pieces no gradient is there in fp32 as a whole. */
static void apply_adamw(sr1_scope *s, struct sr1__optimizer *o, size_t n_grads,
                        struct change c)
{
    t_fill_(s, o->step, (double)(o->steps + 1));
    if (o->cfg.offload || !are_f32(get_optimizer_list(o, LIST_GRAD), n_grads))
        apply_in_pieces(s, o, c);
    else
        apply_fused(s, o, n_grads, c);
    if (sr1__scope_status(s) == SR1_OK)
        o->steps++;
}

/* ---- the norm ---- */

static size_t count_chunks(const struct leaf *l)
{
    return (size_t)((l->n + SR1__NORM_CHUNK - 1) / SR1__NORM_CHUNK);
}

size_t sr1__optimizer_chunks(const struct sr1__optimizer *o)
{
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++)
        n += count_chunks(&o->leaf[i]);
    return n;
}

/* Chunks whose squares are computed together. */
struct chunks {
    sr1_scope *s;
    sr1_tensor *view[CHUNKS_AT_ONCE];
    double norm[CHUNKS_AT_ONCE];
    size_t n;
    double *squares; /* where theirs go */
};

static sr1_status square_chunks(struct chunks *c)
{
    if (c->n > 0)
        SR1__TRY(sr1__shim_norms(c->view, c->n, c->norm));
    for (size_t i = 0; i < c->n; i++)
        *c->squares++ = c->norm[i] * c->norm[i];
    while (c->n > 0)
        t_drop(c->s, c->view[--c->n]);
    return SR1_OK;
}

static sr1_status square_leaf(const struct leaf *l, sr1_tensor *grad, struct chunks *c)
{
    sr1_tensor *flat = t_reshape(c->s, grad, T_SHAPE(l->n));

    for (int64_t at = 0; at < l->n; at += SR1__NORM_CHUNK) {
        int64_t n = l->n - at < SR1__NORM_CHUNK ? l->n - at : SR1__NORM_CHUNK;

        if (c->n == CHUNKS_AT_ONCE)
            SR1__TRY(square_chunks(c));
        c->view[c->n++] = t_narrow(c->s, flat, 0, at, n);
        SR1__TRY(sr1__scope_status(c->s));
    }
    return SR1_OK;
}

sr1_status sr1__optimizer_squares(const struct sr1__optimizer *o, sr1_tensor *const *sums,
                                  double *squares)
{
    sr1_scope *s = sr1__scope_open(o->device, "norm of gradients");
    struct chunks c = {.s = s, .squares = squares};
    sr1_status st = sr1__scope_status(s);

    sr1__scope_no_grad(s);
    if (s)
        (void)collect_leaf_grads(s, o, sums);
    for (size_t i = 0; i < o->n && st == SR1_OK; i++) {
        const struct leaf *l = &o->leaf[i];
        sr1_tensor *grad = get_optimizer_list(o, LIST_ALL_GRADS)[i];

        st = grad ? square_leaf(l, grad, &c) : square_chunks(&c);
        for (size_t k = 0; !grad && st == SR1_OK && k < count_chunks(l); k++)
            *c.squares++ = 0.0;
    }
    if (st == SR1_OK)
        st = square_chunks(&c);
    sr1__scope_check(s, st);
    return sr1__scope_close(s);
}

/* Added up in order; fp32, as the norm of torch's clip_grad_norm_. */
static double add_squares(const struct sr1__optim_step *how)
{
    double sum = 0.0;

    for (size_t i = 0; i < how->n_squares; i++)
        sum += how->squares[i];
    return (double)(float)sqrt(sum);
}

/* ---- a step ---- */

sr1_status sr1__optimizer_update(struct sr1__optimizer *o, sr1_tensor *const *sums,
                                 const struct sr1__optim_step *how,
                                 struct sr1__optim_report *report)
{
    sr1_scope *s = sr1__scope_open(o->device, "optimizer step");
    struct sr1__optim_report r = {.grad_norm = add_squares(how) / how->loss_scale};
    double clip = how->max_norm > 0.0 && r.grad_norm > how->max_norm
                      ? how->max_norm / r.grad_norm
                      : 1.0;
    sr1_status status;
    size_t n;

    sr1__scope_no_grad(s);
    n = s ? collect_leaf_grads(s, o, sums) : 0;
    r.skipped = !isfinite(r.grad_norm);
    if ((n > 0 || o->in_part) && !r.skipped && sr1__scope_status(s) == SR1_OK)
        apply_adamw(s, o, n,
                    (struct change){.lr = how->lr, .scale = clip / how->loss_scale});
    status = sr1__scope_close(s);
    sr1__optimizer_clear_grad(o);
    if (status == SR1_OK && report)
        *report = r;
    return status;
}

sr1_status sr1__optimizer_step(struct sr1__optimizer *o, sr1_tensor *const *sums,
                               double lr, double max_norm, double loss_scale,
                               struct sr1__optim_report *report)
{
    struct sr1__optim_step how = {.lr = lr,
                                  .max_norm = max_norm,
                                  .loss_scale = loss_scale,
                                  .n_squares = sr1__optimizer_chunks(o)};
    double *squares = sr1__calloc(how.n_squares + 1, sizeof(*squares));
    sr1_status st = squares ? sr1__optimizer_squares(o, sums, squares)
                            : sr1__fail_nomem("norm of gradients");

    how.squares = squares;
    if (st == SR1_OK)
        st = sr1__optimizer_update(o, sums, &how, report);
    else
        sr1__optimizer_clear_grad(o);
    sr1__free(squares);
    return st;
}

/* ---- state ---- */

size_t sr1__optimizer_state_count(const struct sr1__optimizer *o)
{
    return o->n_state;
}

struct sr1__named sr1__optimizer_state(const struct sr1__optimizer *o, size_t i)
{
    return o->state[i].named;
}

int64_t sr1__optimizer_state_from(const struct sr1__optimizer *o, size_t i)
{
    return o->state[i].from;
}

const sr1_tensor *sr1__optimizer_state_leaf(const struct sr1__optimizer *o, size_t i)
{
    return o->state[i].leaf;
}

int64_t sr1__optimizer_bytes(const struct sr1__optimizer *o)
{
    int64_t numbers = 0;

    for (size_t i = 0; i < o->n_state; i++)
        numbers += t_numel(o->state[i].named.tensor);
    return numbers * (int64_t)sizeof(float);
}

int64_t sr1__optimizer_whole_bytes(const struct sr1__optimizer *o)
{
    int64_t numbers = 0;

    for (size_t i = 0; i < o->n; i++) {
        const sr1_tensor *w = o->leaf[i].param;

        numbers += t_numel(w) * (t_dtype(w) == SR1__F32 ? SLOTS - 1 : SLOTS);
    }
    return numbers * (int64_t)sizeof(float);
}

int64_t sr1__optimizer_steps(const struct sr1__optimizer *o)
{
    return o->steps;
}

void sr1__optimizer_set_steps(struct sr1__optimizer *o, int64_t steps)
{
    o->steps = steps;
}
