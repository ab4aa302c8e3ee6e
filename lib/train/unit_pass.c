/* train/unit_pass.c - see unit_pass.h. */
#include "train/learner_shards.h"
#include "train/unit_pass.h"

#include "base/mem.h"

#include <math.h>

struct sr1__unit_pass {
    struct sr1__learner *l;
    sr1_model *m;
    struct sr1__unit_hooks hooks;
    int32_t units;
    struct sr1__sum_order order;
    int32_t at;               /* of the list, the next */
    struct sr1__error failed; /* of this pass, here or elsewhere; code SR1_OK: none */
    struct sr1__shards *held; /* of the leaves; NULL: weights are not resharded */
    sr1_tensor **parts;       /* [units] of this rank, flat; NULL: weights are whole */
    sr1_tensor **leaves;      /* [n_leaves] their memory outside of autograd; NULL: it
                                 stays, whole */
    struct sr1__shard_transfer *under_way; /* the next weights of the list; NULL: none */
    struct sr1__exchange_room room;        /* of weights */
};

/* ---- memory of weights ---- */

static void release_unit(struct sr1__unit_pass *p, int32_t u)
{
    if (!p->parts || !p->parts[u])
        return;
    for (size_t i = sr1__shards_first(p->held, (size_t)u); i < p->held->ends[u]; i++)
        if (p->leaves[i])
            (void)sr1__shim_drop_memory(p->leaves[i]);
}

static sr1_status reserve_unit(struct sr1__unit_pass *p, int32_t u)
{
    for (size_t i = sr1__shards_first(p->held, (size_t)u); i < p->held->ends[u]; i++)
        if (p->leaves[i])
            SR1__TRY(sr1__shim_make_memory(p->leaves[i]));
    return SR1_OK;
}

static sr1_status gather_unit(struct sr1__unit_pass *p, int32_t u, sr1_status st)
{
    if (st == SR1_OK)
        st = reserve_unit(p, u);
    return sr1__shards_gather(&p->l->mesh, p->held, (size_t)u, st, p->leaves, p->parts[u],
                              p->m->dtype, &p->room);
}

/* The head is the embedding too: what one needs, the other has. */
static int is_tied(const struct sr1__unit_pass *p)
{
    return p->m->head == p->m->embed;
}

/* ---- the list ---- */

/* Forward exchange u of units; then two for each unit backward. */
struct list_entry {
    int32_t unit;
    int adds; /* gradients; else it gets weights */
};

static int32_t count_entries(const struct sr1__unit_pass *p)
{
    return 3 * p->units;
}

static struct list_entry entry_at(const struct sr1__unit_pass *p, int32_t at)
{
    int32_t back = (at - p->units) / 2;

    if (at < p->units)
        return (struct list_entry){at, 0};
    return (struct list_entry){p->units - 1 - back, (at - p->units) % 2};
}

/* Where in the list a unit's gradients are added; one before it gets its weights. */
static int32_t adding_of(const struct sr1__unit_pass *p, int32_t u)
{
    return p->units + 2 * (p->units - 1 - u) + 1;
}

/* The head stays from forward to backward, and the embedding's backward needs none. */
static int gets_weights(const struct sr1__unit_pass *p, int32_t at, int32_t u)
{
    return p->parts && (at < p->units || (u > 0 && u < p->units - 1));
}

/* An adapter's are added all together, at the end. */
static int adds_gradients(const struct sr1__unit_pass *p, int32_t u)
{
    return p->l->shards->n_units > 1 || u == 0;
}

/* What is on its way. */
static void end_adding(struct sr1__unit_pass *p)
{
    sr1__error_keep_first(&p->failed,
                          sr1__part_sums_end(p->l->sums, sr1__error_raise(&p->failed)));
}

/* A layer's travel while backward goes on through the one below. The head's and the
 * embedding's, which may be many times as large, go piece by piece. */
static void add_gradients(struct sr1__unit_pass *p, int32_t u)
{
    int layer = u > 0 && u < p->units - 1;

    end_adding(p);
    if (adds_gradients(p, u))
        sr1__error_keep_first(
            &p->failed,
            (layer ? sr1__part_sums_begin : sr1__part_sums_add)(
                p->l->sums, (size_t)u, sr1__error_raise(&p->failed), &p->order));
    release_unit(p, u);
    if (u == p->units - 1 && is_tied(p))
        release_unit(p, 0);
}

/* ---- weights ahead ---- */

static void begin_weights(struct sr1__unit_pass *p, int32_t u)
{
    sr1__error_keep_first(
        &p->failed, sr1__shards_gather_begin(&p->under_way, &p->l->mesh, p->held,
                                             (size_t)u, sr1__error_raise(&p->failed),
                                             p->leaves, p->parts[u], p->m->dtype));
}

static void end_weights(struct sr1__unit_pass *p, int32_t u)
{
    struct sr1__shard_transfer *t = p->under_way;
    sr1_status st = sr1__error_raise(&p->failed);

    p->under_way = NULL;
    if (st == SR1_OK)
        st = reserve_unit(p, u);
    sr1__error_keep_first(&p->failed, sr1__shards_gather_end(t, st));
}

/* Those of the list after entry `at`. */
static void begin_next_weights(struct sr1__unit_pass *p, int32_t at)
{
    while (++at < count_entries(p)) {
        struct list_entry e = entry_at(p, at);

        if (e.adds || !gets_weights(p, at, e.unit))
            continue;
        begin_weights(p, e.unit);
        return;
    }
}

/* All ranks begin one unit's weights as soon as they have those of the one before, so
 * that they travel while that one computes (forward_prefetch). A failure of all at the
 * beginning leaves none under way. */
static void get_weights(struct sr1__unit_pass *p, int32_t at, int32_t u)
{
    if (!p->l->prefetches) {
        sr1__error_keep_first(&p->failed,
                              gather_unit(p, u, sr1__error_raise(&p->failed)));
        return;
    }
    if (!p->under_way)
        begin_weights(p, u);
    if (p->under_way)
        end_weights(p, u);
    begin_next_weights(p, at);
}

/* A rank whose pass has failed comes to all that is left with that status: its group
 * hears of it at the next weights, and the world at the next gradients. */
static void take_entry(struct sr1__unit_pass *p)
{
    int32_t at = p->at++;
    struct list_entry e = entry_at(p, at);

    if (e.adds)
        add_gradients(p, e.unit);
    else if (gets_weights(p, at, e.unit))
        get_weights(p, at, e.unit);
}

/* All before entry `until`, for a pass that is well. */
static sr1_status take_entries(struct sr1__unit_pass *p, int32_t until)
{
    while (p->at < until && p->failed.code == SR1_OK)
        take_entry(p);
    return sr1__error_raise(&p->failed);
}

/* ---- hooks ---- */

static sr1_status before_unit(void *self, int32_t u, int backward)
{
    struct sr1__unit_pass *p = self;

    return take_entries(p, backward ? adding_of(p, u) : u + 1);
}

static sr1_status after_unit(void *self, int32_t u, int backward)
{
    struct sr1__unit_pass *p = self;

    if (backward)
        return take_entries(p, adding_of(p, u) + 1);
    if (u < p->units - 1 && (u > 0 || !is_tied(p)))
        release_unit(p, u);
    return SR1_OK;
}

void sr1__unit_pass_begin(struct sr1__unit_pass *p, const struct sr1__sum_order *order)
{
    p->order = *order;
    p->at = 0;
    p->failed.code = SR1_OK;
    p->m->hooks = &p->hooks;
}

sr1_status sr1__unit_pass_end(struct sr1__unit_pass *p, sr1_status st)
{
    sr1__error_keep_first(&p->failed, st);
    while (p->at < count_entries(p))
        take_entry(p);
    p->m->hooks = NULL;
    for (int32_t u = 0; u < p->units; u++)
        release_unit(p, u);
    sr1__exchange_room_free(&p->room);
    return sr1__dist_agree(p->l->mesh.world, "micro-batch", sr1__error_raise(&p->failed));
}

/* ---- whole weights, and parts of them ---- */

int sr1__unit_pass_in_parts(const struct sr1__unit_pass *p)
{
    return p && p->parts;
}

/* The parts of trained leaves are what the optimizer updates. */
static void move_weights(struct sr1__unit_pass *p, sr1_scope *s)
{
    struct sr1__optimizer *o = p->l->optimizer;
    sr1_tensor **views;

    if (p->m->params != p->m->leaves)
        return;
    views = sr1__calloc(p->m->n_leaves + 1, sizeof(sr1_tensor *));
    if (!views) {
        sr1__scope_check(s, sr1__fail_nomem("parts of weights"));
        return;
    }
    for (int32_t u = 0; u < p->units; u++) {
        int64_t at = 0, from;

        for (size_t i = sr1__shards_first(p->held, (size_t)u); i < p->held->ends[u];
             i++) {
            int64_t n = sr1__shards_own(p->held, i, &from);

            views[i] = n > 0 ? t_narrow(s, p->parts[u], 0, at, n) : NULL;
            at += n;
        }
    }
    if (sr1__scope_status(s) == SR1_OK)
        sr1__optimizer_move_weights(o, views);
    sr1__free(views);
}

static sr1_status take_part(struct sr1__unit_pass *p, int32_t u)
{
    sr1_scope *s = sr1__scope_open(p->m->device, "parts of weights");
    sr1_tensor *part;

    sr1__scope_no_grad(s);
    part = t_empty(s, p->m->dtype, T_SHAPE(sr1__shards_part(p->held, (size_t)u)));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shards_take(p->held, (size_t)u, p->leaves, part));
    p->parts[u] = t_hold(s, part);
    return sr1__scope_close(s);
}

static void free_part(struct sr1__unit_pass *p, int32_t u)
{
    sr1__tensor_free(p->parts[u]);
    p->parts[u] = NULL;
}

/* A unit is released once every rank has its part, and before the next is taken: nothing
 * is there twice. */
static sr1_status reshard_unit(struct sr1__unit_pass *p, int32_t u)
{
    sr1_status st =
        sr1__dist_agree(p->l->mesh.world, "parts of weights", take_part(p, u));

    if (st == SR1_OK)
        release_unit(p, u);
    else
        free_part(p, u);
    return st;
}

/* The others' parts are lost: who reads these weights is to see that. */
static void spoil_unit(struct sr1__unit_pass *p, int32_t u)
{
    sr1_scope *s = sr1__scope_open(p->m->device, "lost weights");

    sr1__scope_check(s, reserve_unit(p, u));
    for (size_t i = sr1__shards_first(p->held, (size_t)u); i < p->held->ends[u]; i++)
        if (p->leaves[i] && sr1__scope_status(s) == SR1_OK)
            t_fill_(s, p->leaves[i], NAN);
    (void)sr1__scope_close(s);
}

static sr1_status restore_units(struct sr1__unit_pass *p)
{
    struct sr1__error failed;
    sr1_status st = SR1_OK;

    sr1__optimizer_move_weights(p->l->optimizer, NULL);
    sr1__error_save(&failed, SR1_OK);
    for (int32_t u = 0; u < p->units; u++) {
        if (p->parts[u])
            st = gather_unit(p, u, sr1__error_raise(&failed));
        sr1__error_keep_first(&failed, st);
        free_part(p, u);
    }
    sr1__free(p->parts);
    p->parts = NULL;
    sr1__exchange_room_free(&p->room);
    sr1__model_touch(p->m); /* they lie elsewhere: graphs of decoding are to see it */
    st = sr1__dist_agree(p->l->mesh.world, "whole weights", sr1__error_raise(&failed));
    sr1__error_save(&failed, st);
    for (int32_t u = 0; u < p->units && st != SR1_OK; u++)
        spoil_unit(p, u);
    return sr1__error_raise(&failed);
}

sr1_status sr1__unit_pass_restore(struct sr1__unit_pass *p, sr1_status st)
{
    struct sr1__error e;
    sr1_status got;

    if (!sr1__unit_pass_in_parts(p))
        return st;
    sr1__error_save(&e, st);
    got = restore_units(p);
    return e.code != SR1_OK ? sr1__error_raise(&e) : got;
}

sr1_status sr1__unit_pass_reshard(struct sr1__unit_pass *p)
{
    sr1_scope *s;
    sr1_status st;

    if (!p || !p->held || p->parts)
        return SR1_OK;
    p->parts = sr1__calloc((size_t)p->units, sizeof(sr1_tensor *));
    st = sr1__dist_agree(p->l->mesh.world, "parts of weights",
                         p->parts ? SR1_OK : sr1__fail_nomem("parts of weights"));
    if (st != SR1_OK) { /* on every rank: none has anything to restore */
        sr1__free(p->parts);
        p->parts = NULL;
        return st;
    }
    for (int32_t u = 0; u < p->units && st == SR1_OK; u++)
        st = reshard_unit(p, u);
    if (st == SR1_OK) {
        s = sr1__scope_open(p->m->device, "parts of weights");
        move_weights(p, s);
        st = sr1__dist_agree(p->l->mesh.world, "parts of weights", sr1__scope_close(s));
    }
    return st == SR1_OK ? SR1_OK : sr1__unit_pass_restore(p, st);
}

/* ---- opening ---- */

/* A critic's value head, which is trained beside an adapter. */
static int is_trained_apart(const sr1_model *m, size_t leaf)
{
    return m->params != m->leaves && t_needs_grad(m->leaves[leaf].tensor);
}

static sr1_status alias_leaves(struct sr1__unit_pass *p)
{
    p->leaves = sr1__calloc(p->m->n_leaves + 1, sizeof(sr1_tensor *));
    SR1__CHECK_ALLOC(p->leaves, "units of weights");
    for (size_t i = 0; i < p->m->n_leaves; i++)
        if (!is_trained_apart(p->m, i))
            SR1__TRY(sr1__shim_alias(&p->leaves[i], p->m->leaves[i].tensor));
    return SR1_OK;
}

static sr1_status open_pass(struct sr1__unit_pass *p)
{
    p->hooks = (struct sr1__unit_hooks){before_unit, after_unit, p};
    p->units = (int32_t)sr1__model_units(p->m, NULL);
    if (!p->l->reshards)
        return SR1_OK;
    SR1__TRY(sr1__leaf_shards(p->l, &p->held));
    return alias_leaves(p);
}

sr1_status sr1__unit_pass_new(struct sr1__unit_pass **out, struct sr1__learner *l)
{
    struct sr1__unit_pass *p = sr1__calloc(1, sizeof(*p));

    SR1__CHECK_ALLOC(p, "units of weights");
    p->l = l;
    p->m = l->replicas[0];
    SR1__RETURN_NEW(out, p, open_pass(p), sr1__unit_pass_free);
}

void sr1__unit_pass_free(struct sr1__unit_pass *p)
{
    if (!p)
        return;
    for (int32_t u = 0; p->parts && u < p->units; u++)
        free_part(p, u);
    sr1__free(p->parts);
    for (size_t i = 0; p->leaves && i < p->m->n_leaves; i++)
        sr1__tensor_free(p->leaves[i]);
    sr1__free(p->leaves);
    sr1__shards_free(p->held);
    sr1__free(p);
}
