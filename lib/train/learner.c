/* train/learner.c - one optimizer over the gradients of several workers. */
#include "train/learner_shards.h"
#include "train/rank_gradients.h"
#include "train/unit_pass.h"

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

/* The optimizer of the parts that are here. */
static sr1_status open_optimizer(struct sr1__learner *l, const struct sr1__adamw *how)
{
    sr1_model *m = l->replicas[0];
    struct sr1__leaf_part *parts = NULL;
    sr1_status st;

    if (l->shards)
        SR1__CALLOC(parts, m->n_params + 1, "parts of an optimizer");
    for (size_t i = 0; parts && i < m->n_params; i++)
        parts[i].n = sr1__shards_own(l->shards, i, &parts[i].from);
    st = sr1__optimizer_new_part(&l->optimizer, m->params, m->n_params, how, m->device,
                                 parts);
    sr1__free(parts);
    return st;
}

/* Workers of one process cannot stop for each other in the middle of a pass. */
static sr1_status open_shards(struct sr1__learner *l)
{
    if (!l->mesh.world || !l->sharded)
        return SR1_OK;
    if (l->reshards && l->n > 1)
        return sr1__fail(SR1_E_CONFIG,
                         "reshard_after_forward goes with one worker a process, not %d; "
                         "set workers: 1 and start more processes",
                         (int)l->n);
    SR1__TRY(sr1__param_shards(l, &l->shards));
    SR1__TRY(sr1__part_sums_new(&l->sums, l));
    return l->n == 1 && !l->sums_by_rank ? sr1__unit_pass_new(&l->pass, l) : SR1_OK;
}

sr1_status sr1__learner_open(struct sr1__learner *l, const struct sr1__adamw *how,
                             double loss_scale)
{
    for (int32_t i = 0; i < l->n; i++)
        SR1__TRY(sr1__model_train(l->replicas[i], 1));
    l->scale.active = l->replicas[0]->dtype == SR1__F16;
    l->scale.value = l->scale.active ? loss_scale : 1.0;
    SR1__TRY(open_shards(l));
    return sr1__context(open_optimizer(l, how), "%s", l->name);
}

void sr1__learner_close(struct sr1__learner *l)
{
    sr1__unit_pass_free(l->pass);
    sr1__part_sums_free(l->sums);
    sr1__optimizer_free(l->optimizer);
    sr1__shards_free(l->shards);
    l->pass = NULL;
    l->sums = NULL;
    l->optimizer = NULL;
    l->shards = NULL;
}

void sr1__learner_clear_grad(struct sr1__learner *l)
{
    for (int32_t i = 0; i < l->n; i++)
        sr1__model_clear_grad(l->replicas[i]);
    if (l->sums)
        sr1__part_sums_clear(l->sums);
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

/* All gradients of this process into the first replica's. */
static sr1_status add_replicas(struct sr1__learner *l)
{
    for (int32_t i = 1; i < l->n; i++)
        SR1__TRY(sr1__model_add_grad(l->replicas[0], l->replicas[i]));
    return SR1_OK;
}

static sr1_status update_whole(struct sr1__learner *l, const struct sr1__optim_step *how,
                               struct sr1__optim_report *done)
{
    SR1__TRY(sr1__sum_gradients(l));
    return sr1__optimizer_step(l->optimizer, l->replicas[0]->sums, how->lr, how->max_norm,
                               how->loss_scale, done);
}

sr1_status sr1__learner_step(struct sr1__learner *l, int64_t step, double *rate,
                             struct sr1__optim_report *done)
{
    struct sr1__optim_step how = {.lr = sr1__schedule_rate(&l->schedule, step),
                                  .max_norm = l->max_grad_norm,
                                  .loss_scale = l->scale.value};
    sr1_status st = add_replicas(l);

    *rate = how.lr;
    if (st == SR1_OK)
        st = l->shards ? sr1__sharded_step(l, &how, done) : update_whole(l, &how, done);
    sr1__learner_clear_grad(l);
    SR1__TRY(st);
    adapt_scale(&l->scale, done->skipped);
    for (int32_t i = 0; i < l->n && !done->skipped; i++)
        sr1__model_touch(l->replicas[i]);
    return SR1_OK;
}
