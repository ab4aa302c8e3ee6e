/* train/rank_gradients.c - see rank_gradients.h. Sums are added in the order of ranks,
 * and the norm by chunks in the order of parameters, so that the bits depend neither on
 * the network nor on who owns what. */
#include "train/rank_gradients.h"
#include "train/unit_pass.h"

#include "base/mem.h"

#include <string.h>

#define BUCKET ((int64_t)1 << 20) /* numbers summed at once, or one tensor */

/* ---- which ---- */

/* Which parameters have a gradient on any rank, by what each has marked: a rank without a
 * micro-batch has none. */
static sr1_status share_trained(struct sr1__learner *l, sr1_status st, uint8_t *trained)
{
    size_t n_params = l->replicas[0]->n_params;
    struct sr1__gathered g;

    SR1__TRY(sr1__dist_gather(l->mesh.world, "gradients", st, trained, n_params, &g));
    for (int32_t r = 0; r < sr1__dist_size(l->mesh.world); r++) {
        size_t n;
        const uint8_t *of = sr1__gathered_of(&g, r, &n);

        for (size_t i = 0; i < n && i < n_params; i++)
            trained[i] |= of[i];
    }
    sr1__gathered_free(&g);
    return SR1_OK;
}

static sr1_status find_trained(struct sr1__learner *l, uint8_t *trained)
{
    const sr1_model *m = l->replicas[0];
    sr1_scope *s = sr1__scope_open(m->device, "gradients");

    for (size_t i = 0; i < m->n_params; i++)
        trained[i] = sr1__model_grad(s, m, i) != NULL;
    return share_trained(l, sr1__scope_close(s), trained);
}

/* ---- whole sums on every rank ---- */

/* Parameters [begin, end) of those that are trained, which have n numbers. */
struct gradient_bucket {
    const sr1_model *model;
    const uint8_t *trained;
    size_t begin, end;
    int64_t n;
};

/* Their gradients into flat [n], or back. */
static sr1_status copy_bucket(const struct gradient_bucket *b, sr1_tensor *flat, int back)
{
    sr1_scope *s = sr1__scope_open(b->model->device, "sum of gradients");
    int64_t at = 0;

    sr1__scope_no_grad(s);
    for (size_t i = b->begin; i < b->end; i++) {
        sr1_tensor *g = b->trained[i] ? sr1__model_grad(s, b->model, i) : NULL;
        sr1_tensor *part;

        if (!g)
            continue;
        part = t_reshape(s, t_narrow(s, flat, 0, at, t_numel(g)), t_ndim(g),
                         sr1__shim_sizes(g));
        at += t_numel(g);
        if (back)
            t_copy_(s, g, part);
        else
            t_copy_(s, part, g);
    }
    return sr1__scope_close(s);
}

/* The bucket's one tensor, flat, where it is alone, and lies dense in fp32 where ranks
 * exchange: it is summed where it is. NULL: it is not so. */
static sr1_tensor *view_alone(sr1_scope *s, const struct gradient_bucket *b,
                              sr1__device device)
{
    sr1_tensor *g = NULL, *flat;

    sr1__scope_no_grad(s);
    for (size_t i = b->begin; i < b->end; i++)
        if (b->trained[i] && t_numel(b->model->params[i].tensor) == b->n)
            g = sr1__model_grad(s, b->model, i);
    if (!g || b->model->device != device || t_dtype(g) != SR1__F32)
        return NULL;
    flat = t_reshape(s, g, T_SHAPE(b->n));
    return flat && sr1__shim_data(flat) == sr1__shim_data(g) ? flat : NULL;
}

static sr1_status sum_bucket(struct sr1__dist *d, const struct gradient_bucket *b)
{
    sr1_scope *s = sr1__scope_open(sr1__dist_device(d), "sum of gradients");
    sr1_tensor *alone = view_alone(s, b, sr1__dist_device(d)), *flat = alone;
    sr1_status st;

    if (!alone)
        flat = t_empty(s, SR1__F32, T_SHAPE(b->n));
    st = sr1__scope_status(s);
    if (st == SR1_OK && !alone)
        st = copy_bucket(b, flat, 0);
    st = sr1__dist_sum(d, "sum of gradients", st, flat);
    if (st == SR1_OK && !alone)
        st = copy_bucket(b, flat, 1);
    sr1__scope_check(s, st);
    return sr1__scope_close(s);
}

/* Small tensors together, and a large one alone. */
static sr1_status sum_trained(struct sr1__learner *l, const uint8_t *trained)
{
    struct gradient_bucket b = {.model = l->replicas[0], .trained = trained};
    size_t n_params = b.model->n_params;

    for (size_t i = 0; i <= n_params; i++) {
        int64_t n = i < n_params && trained[i] ? t_numel(b.model->params[i].tensor) : 0;

        if (b.n > 0 && (i == n_params || b.n + n > BUCKET)) {
            b.end = i;
            SR1__TRY(sum_bucket(l->mesh.world, &b));
            b.begin = i;
            b.n = 0;
        }
        b.n += n;
    }
    return SR1_OK;
}

sr1_status sr1__sum_gradients(struct sr1__learner *l)
{
    sr1_model *m = l->replicas[0];
    uint8_t *trained;
    sr1_status st;

    if (!l->mesh.world)
        return SR1_OK;
    trained = sr1__calloc(m->n_params + 1, 1);
    st = sr1__dist_agree(l->mesh.world, "gradients",
                         trained ? SR1_OK : sr1__fail_nomem("names of gradients"));
    if (st == SR1_OK)
        st = find_trained(l, trained);
    if (st == SR1_OK)
        st = sr1__dist_agree(l->mesh.world, "gradients", sr1__model_sum_grad(m, trained));
    if (st == SR1_OK)
        st = sum_trained(l, trained);
    sr1__free(trained);
    return st;
}

/* ---- a part on each rank ---- */

/* A step of a learner with shards, on its way. */
struct sharded_step {
    struct sr1__learner *l;
    sr1_model *m;
    uint8_t *trained;
    sr1_tensor **weights; /* [n_params], borrowed */
    sr1_tensor **parts;   /* [n_params] sums of all ranks that this rank owns, flat */
    double *squares;      /* of this rank's chunks, then */
    double *all;          /* of all ranks' */
    size_t n_all;
};

static size_t count_chunks(int64_t numbers)
{
    return (size_t)((numbers + SR1__NORM_CHUNK - 1) / SR1__NORM_CHUNK);
}

static sr1_status begin_step(struct sharded_step *p)
{
    size_t n = p->m->n_params + 1;

    for (size_t i = 0; i < p->m->n_params; i++)
        p->n_all += count_chunks(t_numel(p->m->params[i].tensor));
    p->trained = sr1__calloc(n, 1);
    p->weights = sr1__calloc(n, sizeof(sr1_tensor *));
    p->parts = sr1__calloc(n, sizeof(sr1_tensor *));
    p->squares = sr1__calloc(p->n_all + 1, sizeof(double));
    p->all = sr1__calloc(p->n_all + 1, sizeof(double));
    return p->trained && p->weights && p->parts && p->squares && p->all
               ? SR1_OK
               : sr1__fail_nomem("optimizer step of a part");
}

static void end_step(struct sharded_step *p)
{
    for (size_t i = 0; p->parts && i < p->m->n_params; i++)
        sr1__tensor_free(p->parts[i]);
    sr1__free(p->trained);
    sr1__free(p->weights);
    sr1__free(p->parts);
    sr1__free(p->squares);
    sr1__free(p->all);
}

/* Where no pass has done so, each rank gives the sum of its micro-batches now: those of
 * one worker. */
static sr1_status add_sums_of_ranks(struct sharded_step *p)
{
    struct sr1__sum_order order = {.n = sr1__dist_size(p->l->mesh.world), .summed = 1};
    struct sr1__error failed;
    uint8_t *fresh;
    sr1_status st;

    if (p->l->pass)
        return SR1_OK;
    fresh = sr1__calloc((size_t)order.n, 1);
    st = sr1__dist_agree(p->l->mesh.world, "gradients",
                         fresh ? SR1_OK : sr1__fail_nomem("sums of gradients"));
    if (st != SR1_OK) {
        sr1__free(fresh);
        return st;
    }
    order.fresh = fresh;
    sr1__error_save(&failed, SR1_OK);
    for (size_t u = 0; u < p->l->shards->n_units; u++) {
        st = sr1__part_sums_add(p->l->sums, u, sr1__error_raise(&failed), &order);
        sr1__error_keep_first(&failed, st);
    }
    sr1__free(fresh);
    return sr1__dist_agree(p->l->mesh.world, "sums of gradients",
                           sr1__error_raise(&failed));
}

/* A rank's chunks come leaf by leaf. */
static sr1_status place_squares(struct sharded_step *p, int32_t rank, const double *of,
                                size_t n)
{
    size_t before = 0, at = 0;

    for (size_t i = 0; i < p->m->n_params; i++) {
        int64_t from;
        size_t here = count_chunks(sr1__shards_of(p->l->shards, rank, i, &from));

        if (at + here > n)
            break;
        memcpy(p->all + before + from / SR1__NORM_CHUNK, of + at, here * sizeof(double));
        before += count_chunks(t_numel(p->m->params[i].tensor));
        at += here;
    }
    return at == n
               ? SR1_OK
               : sr1__fail(SR1_E_INTERNAL,
                           "norm of gradients: %zu chunks of rank %d where it has %zu", n,
                           (int)rank, at);
}

static sr1_status gather_squares(struct sharded_step *p)
{
    struct sr1__dist *d = p->l->mesh.group;
    size_t own = sr1__optimizer_chunks(p->l->optimizer);
    struct sr1__gathered g;
    sr1_status st = sr1__optimizer_squares(p->l->optimizer, p->parts, p->squares);

    SR1__TRY(sr1__dist_gather(d, "norm of gradients", st, p->squares,
                              own * sizeof(double), &g));
    for (int32_t r = 0; r < sr1__dist_size(d) && st == SR1_OK; r++) {
        size_t n;
        const double *of = sr1__gathered_of(&g, r, &n);

        st = place_squares(p, r, of, n / sizeof(double));
    }
    sr1__gathered_free(&g);
    return st;
}

/* As they are stored, where all have one type. */
static int32_t choose_exchange(const sr1_model *m)
{
    int32_t dtype = t_dtype(m->params[0].tensor);

    for (size_t i = 1; i < m->n_params; i++)
        if (t_dtype(m->params[i].tensor) != dtype)
            return SR1__F32;
    return dtype;
}

/* Weights in parts stay so: the next pass gets them. */
static sr1_status gather_weights(struct sharded_step *p)
{
    const struct sr1__shards *shards = p->l->shards;
    struct sr1__exchange_room room = {NULL, NULL};
    struct sr1__error failed;

    if (sr1__unit_pass_in_parts(p->l->pass) && p->m->params == p->m->leaves)
        return SR1_OK;
    for (size_t i = 0; i < p->m->n_params; i++)
        p->weights[i] = p->m->params[i].tensor;
    sr1__error_save(&failed, SR1_OK);
    for (size_t u = 0; u < shards->n_units; u++) {
        sr1_status st =
            sr1__shards_gather(&p->l->mesh, shards, u, sr1__error_raise(&failed),
                               p->weights, NULL, choose_exchange(p->m), &room);

        sr1__error_keep_first(&failed, st);
    }
    sr1__exchange_room_free(&room);
    return sr1__dist_agree(p->l->mesh.world, "updated weights",
                           sr1__error_raise(&failed));
}

static sr1_status update_parts(struct sharded_step *p, struct sr1__optim_step *how,
                               struct sr1__optim_report *done)
{
    struct sr1__dist *d = p->l->mesh.world;

    SR1__TRY(add_sums_of_ranks(p));
    memcpy(p->trained, sr1__part_sums_trained(p->l->sums), p->m->n_params);
    SR1__TRY(share_trained(p->l, SR1_OK, p->trained));
    if (!memchr(p->trained, 1, p->m->n_params))
        return SR1_OK;
    SR1__TRY(sr1__dist_agree(d, "sum of gradients",
                             sr1__part_sums_finish(p->l->sums, p->trained, p->parts)));
    SR1__TRY(gather_squares(p));
    how->squares = p->all;
    how->n_squares = p->n_all;
    SR1__TRY(
        sr1__dist_agree(d, "optimizer step",
                        sr1__optimizer_update(p->l->optimizer, p->parts, how, done)));
    return done->skipped ? SR1_OK : gather_weights(p);
}

sr1_status sr1__sharded_step(struct sr1__learner *l, struct sr1__optim_step *how,
                             struct sr1__optim_report *done)
{
    struct sharded_step p = {.l = l, .m = l->replicas[0]};
    sr1_status st = sr1__dist_agree(l->mesh.world, "gradients", begin_step(&p));

    *done = (struct sr1__optim_report){0};
    if (st == SR1_OK)
        st = update_parts(&p, how, done);
    end_step(&p);
    return st;
}
