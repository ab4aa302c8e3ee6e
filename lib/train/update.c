/* train/update.c - from trajectories with advantages to new weights.
 *
 * A pass computes the log-prob of every policy token under the present weights, asks the
 * loss for its gradient with respect to them, sends that back through the model, and
 * takes one optimizer step. Micro-batches bound memory; weights of tokens come from
 * counts over all of them, so the cut does not change the gradient. Workers take
 * micro-batches side by side, each into gradients of its own, which are added up in a
 * fixed order. */
#include "train/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a worker found in its micro-batches. */
struct tally {
    sr1_loss_report loss;
    double diff_sum; /* |old - new| over tokens, before any update */
    double diff_max;
    int32_t not_finite; /* a token's loss was not finite: the pass is skipped */
    struct sr1__error why;
};

struct update {
    sr1_trainer *tr;
    const struct sr1__source *from;
    struct sr1__batch_plan plan;
    int64_t budget;      /* tokens of a micro-batch; halved when memory runs out */
    float **references;  /* [n_batches] log-probs of the frozen reference, or NULL */
    struct sr1__olds *olds; /* log-probs before the update, or NULL */
    struct tally *tally; /* [n_workers] */
};

/* ---- the plan ---- */

static void plan_free(struct update *u)
{
    for (size_t k = 0; u->references && k < u->plan.n_batches; k++)
        sr1__free(u->references[k]);
    sr1__free(u->references);
    u->references = NULL;
    sr1__batch_plan_free(&u->plan);
}

static sr1_status plan_with(struct update *u, int64_t budget)
{
    return u->from->store
               ? sr1__batch_plan_store(&u->plan, u->from->store, budget)
               : sr1__batch_plan_array(&u->plan, u->from->array, u->from->n, budget);
}

/* Micro-batches of about equal size, the same number for every worker: the smallest
 * budget (in sixteenths above an equal share) that gets by with that number. */
static sr1_status plan_for_workers(struct update *u)
{
    size_t workers = (size_t)u->tr->n_workers;
    size_t wanted = (u->plan.n_batches + workers - 1) / workers * workers;
    int64_t share = (u->plan.n_packed_tokens + (int64_t)wanted - 1) / (int64_t)wanted;

    if (u->plan.n_sequences < wanted)
        return SR1_OK;
    for (int64_t k = 0; k <= 16; k++) {
        int64_t budget = share + share * k / 16;

        sr1__batch_plan_free(&u->plan);
        SR1__TRY(plan_with(u, budget < u->budget ? budget : u->budget));
        if (u->plan.n_batches <= wanted || budget >= u->budget)
            break;
    }
    return SR1_OK;
}

static sr1_status make_plan(struct update *u)
{
    SR1__TRY(plan_with(u, u->budget));
    if (u->tr->n_workers > 1 && u->plan.n_batches > 0)
        SR1__TRY(plan_for_workers(u));
    u->references = sr1__calloc(u->plan.n_batches + 1, sizeof(float *));
    return u->references ? SR1_OK : sr1__fail_nomem("micro-batches");
}

static sr1_status get_microbatch(const struct update *u, size_t k,
                                 struct sr1__microbatch *mb)
{
    return u->from->store ? sr1__microbatch_store(mb, &u->plan, k, u->from->store, 1)
                          : sr1__microbatch_array(mb, &u->plan, k, u->from->array, 1);
}

static struct sr1__score_options score_options(const sr1_trainer *tr, int checkpoint)
{
    return (struct sr1__score_options){.temperature = tr->set.temperature,
                                       .logit_chunk = tr->set.logit_chunk,
                                       .checkpoint = checkpoint};
}

/* ---- the frozen reference ---- */

static sr1_status score_reference(struct update *u, size_t k, int32_t worker)
{
    struct sr1__score_options o = score_options(u->tr, 0);
    struct sr1__microbatch mb;
    sr1_scope *s;
    sr1_status st;

    SR1__TRY(get_microbatch(u, k, &mb));
    u->references[k] = sr1__calloc(mb.n_targets + 1, sizeof(float));
    s = sr1__scope_open(u->tr->model->device, "reference, micro-batch %zu", k);
    sr1__scope_no_grad(s);
    if (u->references[k])
        t_to_host_f32(s, sr1__score(s, u->tr->references[worker], &mb, &o),
                      u->references[k], mb.n_targets);
    else
        sr1__scope_check(s, sr1__fail_nomem("reference log-probs"));
    st = sr1__scope_close(s);
    sr1__microbatch_free(&mb);
    return st;
}

static sr1_status score_share(void *arg, size_t worker)
{
    struct update *u = arg;
    size_t n = (size_t)u->tr->n_workers;

    for (size_t k = worker; k < u->plan.n_batches; k += n)
        SR1__TRY(score_reference(u, k, (int32_t)worker));
    return SR1_OK;
}

static sr1_status score_references(struct update *u)
{
    return u->tr->references
               ? sr1__pool_run(u->tr->pool, (size_t)u->tr->n_workers, score_share, u)
               : SR1_OK;
}

/* ---- one micro-batch ---- */

static void measure_diff(struct tally *t, const struct sr1__microbatch *mb,
                         const float *now)
{
    for (size_t i = 0; i < mb->n_targets; i++) {
        double d = fabs((double)now[i] - mb->old_log_probs[i]);

        t->diff_sum += d;
        t->diff_max = fmax(t->diff_max, d);
    }
}

/* Put the name of trajectory i of the source before the error in *why. */
static void name_sample(const struct update *u, size_t i, struct sr1__error *why)
{
    sr1_trajectory *read = NULL;
    const sr1_trajectory *t = u->from->store ? NULL : u->from->array[i];

    if (!t && sr1__trajectory_store_get(u->from->store, i, &read) == SR1_OK)
        t = read;
    (void)sr1__error_raise(why);
    (void)sr1__context(why->code, "trajectory %zu (query '%s', sample %d)", i,
                       t ? sr1_trajectory_query_id(t) : "?",
                       t ? (int)sr1_trajectory_sample(t) : 0);
    sr1__error_save(why, why->code);
    sr1_trajectory_free(read);
}

/* Which trajectory has the first value that is not finite. */
static void blame_loss(const struct update *u, const struct sr1__microbatch *mb,
                       const float *now, struct tally *t)
{
    size_t i = 0;

    sr1__error_save(&t->why, SR1_E_NUMERIC);
    while (i < mb->n_targets && isfinite(now[i]) && isfinite(mb->old_log_probs[i]) &&
           isfinite(mb->advantages[i]))
        i++;
    if (i < mb->n_targets)
        name_sample(u, mb->sequence[mb->target_seqs[i]], &t->why);
    t->not_finite = 1;
}

/* The loss and its gradient; a value that is not finite ends the pass, not the run. */
static sr1_status take_loss(struct update *u, size_t k, const struct sr1__microbatch *mb,
                            struct sr1__host *h, struct tally *t)
{
    sr1_loss_report part = {.struct_size = sizeof(part)};
    sr1_status st = sr1__host_loss(
        h, &u->tr->set, mb, u->tr->references ? u->references[k] : NULL, &part);

    if (st == SR1_E_NUMERIC) {
        blame_loss(u, mb, h->now, t);
        return SR1_OK;
    }
    if (st == SR1_OK)
        sr1__loss_report_add(&t->loss, &part);
    for (size_t i = 0; i < mb->n_targets; i++)
        h->gradient[i] *= (float)u->tr->scale.value;
    return st;
}

static sr1_status backward(struct update *u, size_t k, const struct sr1__microbatch *mb,
                           int32_t worker, int first, struct sr1__host *h)
{
    sr1_trainer *tr = u->tr;
    struct tally *t = &u->tally[worker];
    struct sr1__score_options o = score_options(tr, tr->set.checkpointing);
    sr1_scope *s = sr1__scope_open(tr->model->device, "micro-batch %zu", k);
    sr1_tensor *lp = sr1__score(s, tr->replicas[worker], mb, &o);
    int64_t m = (int64_t)mb->n_targets;

    t_to_host_f32(s, lp, h->now, mb->n_targets);
    if (sr1__scope_status(s) == SR1_OK) {
        if (first)
            measure_diff(t, mb, h->now);
        sr1__scope_check(s, sr1__host_old(h, u->olds, mb, first));
    }
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, take_loss(u, k, mb, h, t));
    if (sr1__scope_status(s) == SR1_OK && !t->not_finite)
        t_backward_with(s, lp, t_from_f32(s, h->gradient, T_SHAPE(m)));
    return sr1__scope_close(s);
}

static sr1_status run_microbatch(struct update *u, size_t k, int32_t worker, int first)
{
    struct sr1__microbatch mb;
    struct sr1__host h = {0};
    sr1_status st;

    SR1__TRY(get_microbatch(u, k, &mb));
    st = sr1__host_make(&h, &u->tr->set, &u->plan, &mb);
    if (st == SR1_OK)
        st = backward(u, k, &mb, worker, first, &h);
    sr1__host_free(&h);
    sr1__microbatch_free(&mb);
    return st;
}

/* ---- one pass ---- */

struct pass {
    struct update *u;
    int first;
};

static sr1_status run_worker(void *arg, size_t worker)
{
    struct pass *p = arg;
    size_t n = (size_t)p->u->tr->n_workers;

    for (size_t k = worker; k < p->u->plan.n_batches; k += n)
        SR1__TRY(run_microbatch(p->u, k, (int32_t)worker, p->first));
    return SR1_OK;
}

static void clear_gradients(sr1_trainer *tr)
{
    for (int32_t w = 0; w < tr->n_workers; w++)
        sr1__model_clear_grad(tr->replicas[w]);
}

static sr1_status add_up_gradients(sr1_trainer *tr)
{
    for (int32_t w = 1; w < tr->n_workers; w++)
        SR1__TRY(sr1__model_add_grad(tr->model, tr->replicas[w]));
    return SR1_OK;
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

static void merge(const struct update *u, struct tally *all)
{
    memset(all, 0, sizeof(*all));
    for (int32_t w = 0; w < u->tr->n_workers; w++) {
        const struct tally *t = &u->tally[w];

        sr1__loss_report_add(&all->loss, &t->loss);
        all->diff_sum += t->diff_sum;
        all->diff_max = fmax(all->diff_max, t->diff_max);
        if (t->not_finite && !all->not_finite) {
            all->not_finite = 1;
            all->why = t->why;
        }
    }
}

/* As the optimizer sees it: their norm. */
static int gradients_finite(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(m->device, "gradients");
    int finite = 1;

    for (size_t i = 0; i < m->n_params && finite; i++) {
        sr1_tensor *g = t_grad(s, m->params[i].tensor);

        finite = !g || isfinite(t_item(s, t_sum(s, t_square(s, g))));
    }
    return sr1__scope_close(s) == SR1_OK && finite;
}

/* After a gradient that is not finite: each trajectory by itself, until one has such a
 * gradient alone. *why names it. A second pass at most, and rarely. */
static void blame_gradient(struct update *u, struct sr1__error *why)
{
    struct tally scratch = {0};
    struct update alone = {.tr = u->tr, .from = u->from, .budget = 1, .tally = &scratch};
    sr1_status st = plan_with(&alone, 1);

    alone.references = sr1__calloc(alone.plan.n_batches + 1, sizeof(float *));
    if (!alone.references)
        st = SR1_E_NOMEM;
    for (size_t k = 0; k < alone.plan.n_batches && st == SR1_OK; k++) {
        clear_gradients(u->tr);
        if (u->tr->references)
            st = score_reference(&alone, k, 0);
        if (st == SR1_OK)
            st = run_microbatch(&alone, k, 0, 0);
        if (st == SR1_OK && !gradients_finite(u->tr->model)) {
            name_sample(u, alone.plan.sequences[k], why);
            break;
        }
    }
    clear_gradients(u->tr);
    plan_free(&alone);
}

static void skip_update(sr1_trainer *tr, sr1_step_report *report, const char *why)
{
    report->skipped_updates++;
    tr->skipped++;
    sr1__log(SR1_LOG_WARN, "step %" PRId64 ": update skipped: %s", tr->step + 1, why);
}

static sr1_status apply(struct update *u, const struct tally *t, sr1_step_report *report)
{
    sr1_trainer *tr = u->tr;
    struct sr1__optim_report done = {0};
    double rate = sr1__schedule_rate(&tr->set.schedule, tr->step);
    double whole = sr1__aggregation_is_mean(tr->set.aggregation) ? 1.0 : t->loss.weight;

    if (t->not_finite) {
        clear_gradients(tr);
        skip_update(tr, report, t->why.text);
        return SR1_OK;
    }
    SR1__TRY(add_up_gradients(tr));
    SR1__TRY(sr1__optimizer_step(tr->optimizer, rate, tr->set.max_grad_norm,
                                 tr->scale.value, &done));
    adapt_scale(&tr->scale, done.skipped);
    if (done.skipped) {
        struct sr1__error why;

        sr1__error_save(&why, sr1__fail(SR1_E_NUMERIC, "a gradient is not finite"));
        if (!tr->scale.active) /* an overflow of fp16 is nobody's fault */
            blame_gradient(u, &why);
        skip_update(tr, report, why.text);
        return SR1_OK;
    }
    for (int32_t w = 0; w < tr->n_workers; w++)
        sr1__model_touch(tr->replicas[w]);
    report->grad_norm = done.grad_norm;
    report->learning_rate = rate;
    report->loss = t->loss.loss;
    report->policy_loss = t->loss.policy_loss;
    report->kl_div = t->loss.kl / whole;
    report->clip_fraction = t->loss.clip_fraction / whole;
    report->approx_kl = t->loss.approx_kl / whole;
    return SR1_OK;
}

static int is_memory(sr1_status st)
{
    return st == SR1_E_NOMEM || st == SR1_E_DEVICE_NOMEM;
}

/* Out of memory: half the budget, as long as that cuts anything. */
static sr1_status cut_finer(struct update *u, sr1_status st)
{
    size_t batches = u->plan.n_batches;

    if (!is_memory(st) || batches >= u->plan.n_sequences)
        return st;
    sr1__log(SR1_LOG_WARN, "out of memory with %zu micro-batches; trying more", batches);
    clear_gradients(u->tr);
    for (st = SR1_OK; st == SR1_OK && u->plan.n_batches <= batches;) {
        plan_free(u);
        u->budget = u->budget > 1 ? u->budget / 2 : 1;
        st = make_plan(u);
    }
    return st;
}

/* Finer micro-batches with their reference, finer still while memory does not suffice. */
static sr1_status replan(struct update *u, sr1_status st)
{
    while (is_memory(st) && (st = cut_finer(u, st)) == SR1_OK)
        st = score_references(u);
    return st;
}

static sr1_status run_pass(struct update *u, int first, sr1_step_report *report)
{
    struct pass p = {u, first};
    struct tally all;
    sr1_status st;

    do {
        memset(u->tally, 0, (size_t)u->tr->n_workers * sizeof(*u->tally));
        st = sr1__pool_run(u->tr->pool, (size_t)u->tr->n_workers, run_worker, &p);
    } while (is_memory(st) && (st = replan(u, st)) == SR1_OK);
    if (st != SR1_OK) {
        clear_gradients(u->tr);
        return st;
    }
    merge(u, &all);
    if (first && u->plan.n_policy_tokens) {
        report->rollout_diff_max = all.diff_max;
        report->rollout_diff_mean = all.diff_sum / (double)u->plan.n_policy_tokens;
    }
    return apply(u, &all, report);
}

sr1_status sr1__update(sr1_trainer *tr, const struct sr1__source *from, int64_t passes,
                       sr1_step_report *report)
{
    struct update u = {.tr = tr, .from = from, .budget = tr->set.micro_batch_tokens};
    sr1_status st;

    u.tally = sr1__calloc((size_t)tr->n_workers, sizeof(*u.tally));
    st = u.tally ? make_plan(&u) : sr1__fail_nomem("update");
    if (st == SR1_OK && tr->set.loss_options.correction)
        st = sr1__olds_new(&u.olds, u.plan.n_sequences + u.plan.n_skipped);
    report->trained = (int64_t)u.plan.n_sequences;
    if (st == SR1_OK && u.plan.n_policy_tokens > 0) {
        double began = sr1__now();

        st = replan(&u, score_references(&u));
        report->seconds_reference = sr1__now() - began;
        for (int64_t i = 0; i < passes && st == SR1_OK; i++)
            st = run_pass(&u, i == 0, report);
        if (st == SR1_OK) /* room for the next rollout */
            st = sr1__device_release(tr->model->device);
        report->seconds_update = sr1__now() - began - report->seconds_reference;
    }
    plan_free(&u);
    sr1__olds_free(u.olds);
    sr1__free(u.tally);
    return st;
}
