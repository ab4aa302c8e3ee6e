/* train/rank_gradients.c - see rank_gradients.h. Sums are added in the order of ranks,
 * and the norm by chunks in the order of parameters, so that the bits depend neither on
 * the network nor on who owns what. */
#include "train/rank_gradients.h"

#include "base/mem.h"

#include <string.h>

#define BUCKET ((int64_t)1 << 22) /* numbers summed at once, or one tensor */

/* ---- which ---- */

/* Which parameters have a gradient on any rank: a rank without a micro-batch has none. */
static sr1_status find_trained(struct sr1__learner *l, uint8_t *trained)
{
    const sr1_model *m = l->replicas[0];
    sr1_scope *s = sr1__scope_open(m->device, "gradients");
    struct sr1__gathered g;

    for (size_t i = 0; i < m->n_params; i++)
        trained[i] = sr1__model_grad(s, m, i) != NULL;
    SR1__TRY(sr1__dist_gather(l->dist, "gradients", sr1__scope_close(s), trained,
                              m->n_params, &g));
    for (int32_t r = 0; r < sr1__dist_size(l->dist); r++) {
        size_t n;
        const uint8_t *of = sr1__gathered_of(&g, r, &n);

        for (size_t i = 0; i < n && i < m->n_params; i++)
            trained[i] |= of[i];
    }
    sr1__gathered_free(&g);
    return SR1_OK;
}

/* ---- whole sums on every rank ---- */

/* Parameters [begin, end) of those that are trained, which have n numbers. */
struct gradient_bucket {
    const sr1_model *model;
    const uint8_t *trained;
    size_t begin, end;
    int64_t n;
};

/* Their gradients into flat [n] on the CPU, or back. */
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

static sr1_status sum_bucket(struct sr1__dist *d, const struct gradient_bucket *b)
{
    sr1_tensor *flat = NULL;
    sr1_status st = sr1__shim_empty(&flat, SR1__F32, 1, &b->n, SR1__CPU);

    if (st == SR1_OK)
        st = copy_bucket(b, flat, 0);
    st = sr1__dist_agree(d, "gradients", st);
    if (st == SR1_OK)
        st = sr1__dist_sum(d, "sum of gradients", flat);
    if (st == SR1_OK)
        st = copy_bucket(b, flat, 1);
    sr1__tensor_free(flat);
    return st;
}

static sr1_status sum_trained(struct sr1__learner *l, const uint8_t *trained)
{
    struct gradient_bucket b = {.model = l->replicas[0], .trained = trained};

    for (size_t i = 0; i < b.model->n_params; i++) {
        b.n += trained[i] ? t_numel(b.model->params[i].tensor) : 0;
        if (b.n < BUCKET && i + 1 < b.model->n_params)
            continue;
        b.end = i + 1;
        if (b.n > 0)
            SR1__TRY(sum_bucket(l->dist, &b));
        b.begin = b.end;
        b.n = 0;
    }
    return SR1_OK;
}

sr1_status sr1__sum_gradients(struct sr1__learner *l)
{
    sr1_model *m = l->replicas[0];
    uint8_t *trained;
    sr1_status st;

    if (!l->dist)
        return SR1_OK;
    trained = sr1__calloc(m->n_params + 1, 1);
    st = sr1__dist_agree(l->dist, "gradients",
                         trained ? SR1_OK : sr1__fail_nomem("names of gradients"));
    if (st == SR1_OK)
        st = find_trained(l, trained);
    if (st == SR1_OK)
        st = sr1__dist_agree(l->dist, "gradients", sr1__model_sum_grad(m, trained));
    if (st == SR1_OK)
        st = sum_trained(l, trained);
    sr1__free(trained);
    return st;
}

/* ---- a part on each rank ---- */

sr1_status sr1__learner_shards(const struct sr1__learner *l, struct sr1__shards **out)
{
    const sr1_model *m = l->replicas[0];
    int64_t *sizes;
    sr1_status st;

    if (!l->dist || !l->sharded)
        return SR1_OK;
    SR1__CALLOC(sizes, m->n_params + 1, "shards");
    for (size_t i = 0; i < m->n_params; i++)
        sizes[i] = t_numel(m->params[i].tensor);
    st = sr1__shards_new(out, l->dist, sizes, m->n_params, SR1__NORM_CHUNK);
    sr1__free(sizes);
    return st;
}

/* A step of a learner with shards, on its way. */
struct sharded_step {
    struct sr1__learner *l;
    sr1_model *m;
    uint8_t *trained;
    sr1_tensor **whole; /* [n_params] gradients of this rank, or weights; borrowed */
    sr1_tensor **parts; /* [n_params] sums of all ranks that this rank owns, flat */
    double *squares;    /* of this rank's chunks, then */
    double *all;        /* of all ranks' */
    size_t n_all;
};

static sr1_status begin_step(struct sharded_step *p)
{
    size_t n = p->m->n_params + 1;

    for (size_t i = 0; i < p->m->n_params; i++)
        p->n_all += (size_t)((t_numel(p->m->params[i].tensor) + SR1__NORM_CHUNK - 1) /
                             SR1__NORM_CHUNK);
    p->trained = sr1__calloc(n, 1);
    p->whole = sr1__calloc(n, sizeof(sr1_tensor *));
    p->parts = sr1__calloc(n, sizeof(sr1_tensor *));
    p->squares = sr1__calloc(p->n_all + 1, sizeof(double));
    p->all = sr1__calloc(p->n_all + 1, sizeof(double));
    return p->trained && p->whole && p->parts && p->squares && p->all
               ? SR1_OK
               : sr1__fail_nomem("optimizer step of a part");
}

static void end_step(struct sharded_step *p)
{
    for (size_t i = 0; p->parts && i < p->m->n_params; i++)
        sr1__tensor_free(p->parts[i]);
    sr1__free(p->trained);
    sr1__free(p->whole);
    sr1__free(p->parts);
    sr1__free(p->squares);
    sr1__free(p->all);
}

/* Room for the sums that this rank owns. */
static void make_parts(sr1_scope *s, struct sharded_step *p)
{
    for (size_t i = 0; i < p->m->n_params; i++) {
        int64_t from, n = sr1__shards_own(p->l->shards, i, &from);

        if (p->trained[i] && n > 0)
            p->parts[i] = t_hold(s, t_empty(s, SR1__F32, T_SHAPE(n)));
        if (p->trained[i])
            p->whole[i] = sr1__model_grad(s, p->m, i);
    }
}

/* The whole gradients are gone afterwards. */
static sr1_status sum_parts(struct sharded_step *p)
{
    struct sr1__dist *d = p->l->dist;
    sr1_scope *s = sr1__scope_open(p->m->device, "sum of gradients");
    struct sr1__error e;
    sr1_status st;

    sr1__scope_no_grad(s);
    make_parts(s, p);
    st = sr1__dist_agree(d, "gradients", sr1__scope_status(s));
    if (st == SR1_OK)
        st = sr1__shards_sum(d, p->l->shards, p->whole, p->parts);
    sr1__error_save(&e, st);
    (void)sr1__scope_close(s);
    sr1__model_clear_grad(p->m);
    return sr1__error_raise(&e);
}

/* Ranks own neighbouring ranges in their order, and so do their chunks follow. */
static sr1_status gather_squares(struct sharded_step *p)
{
    struct sr1__dist *d = p->l->dist;
    size_t own = sr1__optimizer_chunks(p->l->optimizer), at = 0;
    struct sr1__gathered g;
    sr1_status st = sr1__optimizer_squares(p->l->optimizer, p->parts, p->squares);

    SR1__TRY(sr1__dist_gather(d, "norm of gradients", st, p->squares,
                              own * sizeof(double), &g));
    for (int32_t r = 0; r < sr1__dist_size(d); r++) {
        size_t n;
        const void *of = sr1__gathered_of(&g, r, &n);

        if (n <= (p->n_all - at) * sizeof(double))
            memcpy(p->all + at, of, n);
        at += n / sizeof(double);
    }
    sr1__gathered_free(&g);
    return at == p->n_all ? SR1_OK
                          : sr1__fail(SR1_E_INTERNAL,
                                      "norm of gradients: %zu chunks of "
                                      "%zu",
                                      at, p->n_all);
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

static sr1_status gather_weights(struct sharded_step *p)
{
    for (size_t i = 0; i < p->m->n_params; i++)
        p->whole[i] = p->m->params[i].tensor;
    return sr1__shards_gather(p->l->dist, p->l->shards, p->whole, choose_exchange(p->m));
}

static sr1_status update_parts(struct sharded_step *p, struct sr1__optim_step *how,
                               struct sr1__optim_report *done)
{
    SR1__TRY(find_trained(p->l, p->trained));
    if (!memchr(p->trained, 1, p->m->n_params))
        return SR1_OK;
    SR1__TRY(sum_parts(p));
    SR1__TRY(gather_squares(p));
    how->squares = p->all;
    how->n_squares = p->n_all;
    SR1__TRY(
        sr1__dist_agree(p->l->dist, "optimizer step",
                        sr1__optimizer_update(p->l->optimizer, p->parts, how, done)));
    return done->skipped ? SR1_OK : gather_weights(p);
}

sr1_status sr1__sharded_step(struct sr1__learner *l, struct sr1__optim_step *how,
                             struct sr1__optim_report *done)
{
    struct sharded_step p = {.l = l, .m = l->replicas[0]};
    sr1_status st = sr1__dist_agree(l->dist, "gradients", begin_step(&p));

    *done = (struct sr1__optim_report){0};
    if (st == SR1_OK)
        st = update_parts(&p, how, done);
    end_step(&p);
    return st;
}
