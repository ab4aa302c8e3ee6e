/* train/part_sums.c - see part_sums.h. */
#include "train/part_sums.h"

#include "base/mem.h"

#include <string.h>

/* Of a unit, flat, fp32: this rank's piece. */
struct unit_sum {
    sr1_tensor *worker; /* sum of the worker whose turn it is; NULL: none yet */
    sr1_tensor *done;   /* of those before; NULL: none */
};

/* Gradients of a unit on their way into its sum. */
struct addition {
    struct unit_sum *to;
    const struct sr1__sum_order *order;
    sr1__device device;
    int started, finished; /* there was a worker's sum before, and a sum of workers */
};

struct sr1__part_sums {
    const struct sr1__learner *l;
    struct unit_sum *units;
    struct sr1__exchange_room room;
    struct sr1__shard_transfer *under_way; /* for `next`; NULL: none */
    struct addition next;
    sr1_tensor **grads; /* [n_params] while a unit is added; borrowed */
    uint8_t *trained;   /* [n_params] */
};

sr1_status sr1__part_sums_new(struct sr1__part_sums **out, const struct sr1__learner *l)
{
    struct sr1__part_sums *p = sr1__calloc(1, sizeof(*p));
    size_t n = l->shards->n + 1;

    SR1__CHECK_ALLOC(p, "sums of gradients");
    p->l = l;
    p->units = sr1__calloc(l->shards->n_units, sizeof(*p->units));
    p->grads = sr1__calloc(n, sizeof(sr1_tensor *));
    p->trained = sr1__calloc(n, 1);
    if (!p->units || !p->grads || !p->trained) {
        sr1__part_sums_free(p);
        return sr1__fail_nomem("sums of gradients");
    }
    *out = p;
    return SR1_OK;
}

static void free_unit_sum(struct unit_sum *u)
{
    sr1__tensor_free(u->worker);
    sr1__tensor_free(u->done);
    *u = (struct unit_sum){NULL, NULL};
}

void sr1__part_sums_clear(struct sr1__part_sums *p)
{
    for (size_t u = 0; u < p->l->shards->n_units; u++)
        free_unit_sum(&p->units[u]);
    memset(p->trained, 0, p->l->shards->n);
    sr1__exchange_room_free(&p->room);
}

void sr1__part_sums_free(struct sr1__part_sums *p)
{
    if (!p)
        return;
    if (p->units && p->trained)
        sr1__part_sums_clear(p);
    sr1__free(p->units);
    sr1__free(p->grads);
    sr1__free(p->trained);
    sr1__free(p);
}

uint8_t *sr1__part_sums_trained(struct sr1__part_sums *p)
{
    return p->trained;
}

/* ---- adding ---- */

/* Numbers [at, at + n) of a sum. */
static sr1_tensor *view_sum(sr1_scope *s, sr1_tensor *sum, int64_t at, int64_t n)
{
    return t_narrow(s, sum, 0, at, n);
}

static void swap_tensors(sr1_tensor **a, sr1_tensor **b)
{
    sr1_tensor *t = *a;

    *a = *b;
    *b = t;
}

/* A worker that begins closes the one before: its sum is added to those before it, or is
 * the first of them, whose place the next takes. */
static void add_rows(sr1_scope *outer, void *user, int64_t at, sr1_tensor *got)
{
    const struct addition *a = user;
    sr1_tensor *worker = a->to->worker, *done = a->to->done;
    int64_t n = t_size(got, 1);
    int started = a->started, finished = a->finished;

    for (int32_t r = 0; r < a->order->n; r++) {
        sr1_scope *s = sr1__scope_nest(outer, "rank %d", (int)r);
        sr1_tensor *row = t_to_device(
            s, t_reshape(s, t_narrow(s, got, 0, r, 1), T_SHAPE(n)), a->device);

        sr1__scope_no_grad(s);
        if (a->order->fresh[r] && started) {
            if (finished)
                t_add_(s, view_sum(s, done, at, n), view_sum(s, worker, at, n), 1.0);
            else
                swap_tensors(&worker, &done);
            finished = 1;
        }
        if (a->order->fresh[r] || !started)
            t_copy_(s, view_sum(s, worker, at, n), row);
        else
            t_add_(s, view_sum(s, worker, at, n), row, 1.0);
        started = 1;
        (void)sr1__scope_close(s);
    }
}

static int begins_second_worker(const struct addition *a)
{
    for (int32_t r = a->started ? 0 : 1; r < a->order->n; r++)
        if (a->order->fresh[r])
            return 1;
    return 0;
}

/* Once all numbers of the unit are added. */
static void end_addition(const struct addition *a)
{
    if (!a->finished && begins_second_worker(a))
        swap_tensors(&a->to->worker, &a->to->done);
}

static void reserve_sums(sr1_scope *s, struct addition *a, int64_t n)
{
    if (!a->to->worker)
        a->to->worker = t_hold(s, t_empty(s, SR1__F32, T_SHAPE(n)));
    if (!a->to->done && begins_second_worker(a))
        a->to->done = t_hold(s, t_empty(s, SR1__F32, T_SHAPE(n)));
}

/* Gradients as they come from one backward pass have the type of their weights. */
static int32_t choose_exchange(const struct sr1__learner *l, size_t u, int32_t summed)
{
    const sr1_model *m = l->replicas[0];
    size_t begin = sr1__shards_first(l->shards, u);
    int32_t dtype = t_dtype(m->params[begin].tensor);

    summed |= sr1__dist_reduces(l->mesh.world);
    for (size_t i = begin; i < l->shards->ends[u]; i++)
        if (summed || t_dtype(m->params[i].tensor) != dtype)
            return SR1__F32;
    return dtype;
}

static void find_gradients(sr1_scope *s, struct sr1__part_sums *p, size_t u)
{
    for (size_t i = sr1__shards_first(p->l->shards, u); i < p->l->shards->ends[u]; i++) {
        p->grads[i] = sr1__model_grad(s, p->l->replicas[0], i);
        p->trained[i] |= p->grads[i] != NULL;
    }
}

/* Sums that are added here come as one. */
static struct addition plan_addition(const struct sr1__part_sums *p, size_t u,
                                     const struct sr1__sum_order *order)
{
    static const uint8_t none;
    static const struct sr1__sum_order once = {.n = 1, .fresh = &none};

    return (struct addition){.to = &p->units[u],
                             .order = sr1__dist_reduces(p->l->mesh.world) ? &once : order,
                             .device = p->l->replicas[0]->device,
                             .started = p->units[u].worker != NULL,
                             .finished = p->units[u].done != NULL};
}

static sr1_status reserve_addition(sr1_scope *s, struct sr1__part_sums *p, size_t u,
                                   struct addition *a, sr1_status st)
{
    sr1__scope_no_grad(s);
    if (st != SR1_OK)
        return st;
    reserve_sums(s, a, sr1__shards_piece(p->l->shards, u));
    find_gradients(s, p, u);
    return sr1__scope_status(s);
}

/* st is how they went. */
static sr1_status forget_gradients(sr1_scope *s, struct sr1__part_sums *p, size_t u,
                                   sr1_status st)
{
    const struct sr1__shards *shards = p->l->shards;
    struct sr1__error e;

    sr1__error_save(&e, st);
    (void)sr1__scope_close(s);
    sr1__model_clear_grads(p->l->replicas[0], sr1__shards_first(shards, u),
                           shards->ends[u]);
    return sr1__error_raise(&e);
}

sr1_status sr1__part_sums_add(struct sr1__part_sums *p, size_t u, sr1_status st,
                              const struct sr1__sum_order *order)
{
    const struct sr1__learner *l = p->l;
    sr1_scope *s = sr1__scope_open(l->replicas[0]->device, "sum of gradients");
    struct addition a = plan_addition(p, u, order);

    st = reserve_addition(s, p, u, &a, st);
    st =
        sr1__shards_scatter(&l->mesh, l->shards, u, st, p->grads,
                            choose_exchange(l, u, order->summed), &p->room, add_rows, &a);
    end_addition(&a);
    return forget_gradients(s, p, u, st);
}

sr1_status sr1__part_sums_begin(struct sr1__part_sums *p, size_t u, sr1_status st,
                                const struct sr1__sum_order *order)
{
    const struct sr1__learner *l = p->l;
    sr1_scope *s = sr1__scope_open(l->replicas[0]->device, "sum of gradients");

    p->next = plan_addition(p, u, order);
    st = reserve_addition(s, p, u, &p->next, st);
    st = sr1__shards_scatter_begin(&p->under_way, &l->mesh, l->shards, u, st, p->grads,
                                   choose_exchange(l, u, order->summed), &p->room);
    return forget_gradients(s, p, u, st);
}

sr1_status sr1__part_sums_end(struct sr1__part_sums *p, sr1_status st)
{
    struct sr1__shard_transfer *t = p->under_way;

    if (!t)
        return st;
    p->under_way = NULL;
    st = sr1__shards_scatter_end(t, st, add_rows, &p->next);
    end_addition(&p->next);
    return st;
}

/* ---- the sum of all ---- */

/* The whole of this rank's part of unit u; owned by s. */
static sr1_tensor *finish_unit(sr1_scope *s, struct sr1__part_sums *p, size_t u)
{
    struct unit_sum *sum = &p->units[u];
    sr1_tensor *piece = sum->done ? sum->done : sum->worker, *part;
    const struct sr1__shards *shards = p->l->shards;

    if (sum->done)
        t_add_(s, sum->done, sum->worker, 1.0);
    if (shards->groups == 1)
        return sr1__scope_own(s, t_hold(s, piece));
    part = t_empty(s, SR1__F32, T_SHAPE(sr1__shards_part(shards, u)));
    sr1__scope_check(
        s, sr1__shards_join(&p->l->mesh, shards, u, sr1__scope_status(s), part, piece));
    return part;
}

static void view_parts(sr1_scope *s, const struct sr1__shards *shards, size_t u,
                       const uint8_t *wanted, sr1_tensor *part, sr1_tensor **parts)
{
    int64_t at = 0, from;

    for (size_t i = sr1__shards_first(shards, u); i < shards->ends[u]; i++) {
        int64_t n = sr1__shards_own(shards, i, &from);

        if (wanted[i] && n > 0)
            parts[i] = t_hold(s, t_narrow(s, part, 0, at, n));
        at += n;
    }
}

static sr1_status finish_part(struct sr1__part_sums *p, size_t u, const uint8_t *wanted,
                              sr1_tensor **parts, sr1_status st)
{
    sr1_scope *s = sr1__scope_open(p->l->replicas[0]->device, "sums of a part");

    sr1__scope_no_grad(s);
    sr1__scope_check(s, st);
    view_parts(s, p->l->shards, u, wanted, finish_unit(s, p, u), parts);
    free_unit_sum(&p->units[u]);
    return sr1__scope_close(s);
}

/* A rank that fails goes through the other units' exchanges with that status. */
sr1_status sr1__part_sums_finish(struct sr1__part_sums *p, const uint8_t *wanted,
                                 sr1_tensor **parts)
{
    struct sr1__error failed;

    sr1__exchange_room_free(&p->room);
    sr1__error_save(&failed, SR1_OK);
    for (size_t u = 0; u < p->l->shards->n_units; u++) {
        sr1_status st = finish_part(p, u, wanted, parts, sr1__error_raise(&failed));

        sr1__error_keep_first(&failed, st);
    }
    return sr1__error_raise(&failed);
}
