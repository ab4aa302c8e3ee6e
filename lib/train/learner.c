/* train/learner.c - one optimizer over the gradients of several workers. */
#include "train/learner.h"

#include "base/mem.h"

/* ---- replicas ---- */

sr1_status sr1__replicas_new(sr1_model ***out, sr1_model *first, int32_t n)
{
    sr1_model **r = sr1__calloc((size_t)n, sizeof(*r));
    sr1_status st = SR1_OK;

    if (!r) {
        sr1_model_free(first);
        return sr1__fail_nomem("replicas of a model");
    }
    r[0] = first;
    for (int32_t i = 1; i < n && st == SR1_OK; i++)
        st = sr1__model_replica(&r[i], first);
    if (st != SR1_OK) {
        sr1__replicas_free(r, n);
        return st;
    }
    *out = r;
    return SR1_OK;
}

void sr1__replicas_free(sr1_model **replicas, int32_t n)
{
    for (int32_t i = replicas ? n : 0;
         i-- > 0;) /* the first, which the others share, last */
        sr1_model_free(replicas[i]);
    sr1__free(replicas);
}

/* ---- learning ---- */

sr1_status sr1__learner_open(struct sr1__learner *l, const struct sr1__adamw *how,
                             double loss_scale)
{
    sr1_model *m = l->replicas[0];

    for (int32_t i = 0; i < l->n; i++)
        SR1__TRY(sr1__model_train(l->replicas[i], 1));
    l->scale.active = m->dtype == SR1__F16;
    l->scale.value = l->scale.active ? loss_scale : 1.0;
    return sr1__context(
        sr1__optimizer_new(&l->optimizer, m->params, m->n_params, how, m->device), "%s",
        l->name);
}

void sr1__learner_close(struct sr1__learner *l)
{
    sr1__optimizer_free(l->optimizer);
    l->optimizer = NULL;
}

void sr1__learner_clear_grad(struct sr1__learner *l)
{
    for (int32_t i = 0; i < l->n; i++)
        sr1__model_clear_grad(l->replicas[i]);
}

/* fp16 only: halve after an overflow, double after a long time without one. */
static void adapt_scale(struct sr1__loss_scale *s, int overflow)
{
    if (!s->active)
        return;
    s->good_steps = overflow ? 0 : s->good_steps + 1;
    if (overflow && s->value > 1.0)
        s->value *= 0.5;
    if (s->good_steps == 2000) {
        s->value *= 2.0;
        s->good_steps = 0;
    }
}

/* ---- gradients of all ranks ---- */

#define BUCKET                                                                           \
    ((int64_t)1 << 22) /* numbers that are exchanged at once, or one tensor              \
                        */

/* Which parameters have a gradient on any rank: a rank without a micro-batch has none. */
static sr1_status find_trained(struct sr1__learner *l, uint8_t *trained)
{
    const sr1_model *m = l->replicas[0];
    sr1_scope *s = sr1__scope_open(m->device, "gradients");
    struct sr1__gathered g;
    sr1_status st;

    for (size_t i = 0; i < m->n_params; i++)
        trained[i] = sr1__model_grad(s, m, i) != NULL;
    st = sr1__dist_agree(l->dist, "gradients", sr1__scope_close(s));
    if (st == SR1_OK)
        st = sr1__dist_gather(l->dist, "trained parameters", trained, m->n_params, &g);
    SR1__TRY(st);
    for (int32_t r = 0; r < sr1__dist_size(l->dist); r++) {
        size_t n;
        const uint8_t *of = sr1__gathered_of(&g, r, &n);

        for (size_t i = 0; i < n && i < m->n_params; i++)
            trained[i] |= of[i];
    }
    sr1__gathered_free(&g);
    return SR1_OK;
}

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

/* The first replica's gradients of all ranks into that of each. */
static sr1_status sum_ranks(struct sr1__learner *l)
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

/* All gradients into the first replica's. */
static sr1_status add_up(struct sr1__learner *l)
{
    for (int32_t i = 1; i < l->n; i++)
        SR1__TRY(sr1__model_add_grad(l->replicas[0], l->replicas[i]));
    return sum_ranks(l);
}

sr1_status sr1__learner_step(struct sr1__learner *l, int64_t step, double *rate,
                             struct sr1__optim_report *done)
{
    sr1_status st = add_up(l);

    *rate = sr1__schedule_rate(&l->schedule, step);
    if (st == SR1_OK)
        st = sr1__optimizer_step(l->optimizer, l->replicas[0]->sums, *rate,
                                 l->max_grad_norm, l->scale.value, done);
    sr1__learner_clear_grad(l);
    SR1__TRY(st);
    adapt_scale(&l->scale, done->skipped);
    for (int32_t i = 0; i < l->n && !done->skipped; i++)
        sr1__model_touch(l->replicas[i]);
    return SR1_OK;
}
