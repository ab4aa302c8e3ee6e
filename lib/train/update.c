/* train/update.c - from trajectories to new weights of a learner.
 *
 * A pass asks the weights what they say of every policy token (its log-prob, its value),
 * asks the lesson for the loss's gradient with respect to that, sends it back through the
 * model, and takes one optimizer step. Micro-batches bound memory; weights of tokens come
 * from counts over all of them, so the cut does not change the gradient. Workers take
 * micro-batches side by side, each into gradients of its own, which are added up in a
 * fixed order. */
#include "train/lesson.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a worker found in its micro-batches. */
struct worker {
    struct sr1__tally tally;
    int32_t not_finite; /* a token's loss was not finite: the pass is skipped */
    struct sr1__error why;
};

/* What the mini-batches of a pass did so far, each as often as it has policy tokens. */
struct passed {
    struct sr1__tally tally;
    double grad_norm, rate;
    double tokens; /* of those that were applied */
};

struct update {
    sr1_trainer *tr;
    struct sr1__learner *learner;
    const struct sr1__lesson *lesson;
    const struct sr1__source *from;
    size_t begin, end;      /* trajectories of the mini-batch */
    struct sr1__batch_plan plan;
    struct sr1__group_counts groups;
    sr1_balance_report lengths; /* of micro-batches; zeros where they were not balanced */
    int64_t budget;         /* tokens of a micro-batch; halved when memory runs out */
    struct worker *workers; /* [n_workers] */
    struct passed passed;
};

/* ---- the plan ---- */

static sr1_status plan_with(struct update *u, int64_t budget)
{
    return u->from->store
               ? sr1__batch_plan_store_part(&u->plan, u->from->store, u->begin, u->end,
                                            budget)
               : sr1__batch_plan_array_part(&u->plan, u->from->array, u->begin, u->end,
                                            budget);
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

static sr1_status balance(struct update *u)
{
    size_t workers = (size_t)u->tr->n_workers;

    return u->from->store
               ? sr1__batch_plan_balance_store(&u->plan, u->from->store, workers,
                                               u->budget, &u->lengths)
               : sr1__batch_plan_balance_array(&u->plan, u->from->array, workers,
                                               u->budget, &u->lengths);
}

static sr1_status make_plan(struct update *u)
{
    SR1__TRY(plan_with(u, u->budget));
    if (u->plan.n_batches == 0)
        return SR1_OK;
    if (u->tr->set.balance_batches)
        SR1__TRY(balance(u));
    return u->tr->n_workers > 1 && u->lengths.balanced_max == 0 ? plan_for_workers(u)
                                                                 : SR1_OK;
}

/* The spread of micro-batches, for the report. */
static void measure_plan(const struct update *u, sr1_step_report *r)
{
    const struct sr1__batch_plan *p = &u->plan;

    r->micro_batches = (int64_t)p->n_batches;
    r->batch_tokens_min = r->batch_tokens_max = p->packed_tokens[0];
    for (size_t k = 1; k < p->n_batches; k++) {
        int64_t n = p->packed_tokens[k];

        r->batch_tokens_min = n < r->batch_tokens_min ? n : r->batch_tokens_min;
        r->batch_tokens_max = n > r->batch_tokens_max ? n : r->batch_tokens_max;
    }
    r->unbalanced_min = u->lengths.balanced_max ? u->lengths.min : r->batch_tokens_min;
    r->unbalanced_max = u->lengths.balanced_max ? u->lengths.max : r->batch_tokens_max;
}

static sr1_status get_microbatch(const struct update *u, size_t k,
                                 struct sr1__microbatch *mb)
{
    uint32_t columns = u->lesson->columns(u->tr);

    return u->from->store
               ? sr1__microbatch_store(mb, &u->plan, k, u->from->store, columns)
               : sr1__microbatch_array(mb, &u->plan, k, u->from->array, columns);
}

/* ---- one micro-batch ---- */

/* Numbers the model says of a micro-batch. */
static size_t n_said(const struct update *u, const struct sr1__microbatch *mb)
{
    return mb->n_targets * (u->lesson->width ? u->lesson->width(u->tr) : 1);
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

/* Name the trajectory with the first number that is not finite. */
static void blame_loss(const struct update *u, const struct sr1__microbatch *mb,
                       const float *said, struct worker *w)
{
    size_t i = 0;
    int finite = 1;

    sr1__error_save(&w->why, SR1_E_NUMERIC);
    w->not_finite = 1;
    for (; i < mb->n_targets && finite; i += finite) {
        finite = isfinite(said[i]) && isfinite(mb->old_log_probs[i]);
        for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
            finite = finite && (!mb->columns[c] || isfinite(mb->columns[c][i]));
    }
    if (i < mb->n_targets)
        name_sample(u, mb->sequence[mb->target_seqs[i]], &w->why);
}

/* Room for a micro-batch's numbers, with the share of each token in the loss by counts
 * over all micro-batches. */
static sr1_status grading_make(struct sr1__grading *g, const struct update *u,
                               const struct sr1__microbatch *mb)
{
    size_t m = n_said(u, mb) + 1;
    sr1_loss_maps maps = {.struct_size = sizeof(maps),
                          .n_seqs = mb->n_seqs,
                          .total_tokens = u->plan.n_policy_tokens,
                          .total_seqs = (int64_t)u->plan.n_sequences,
                          .total_groups = u->groups.groups,
                          .length = u->tr->set.loss_length};

    memset(g, 0, sizeof(*g));
    g->said = sr1__calloc(3 * m, sizeof(float));
    g->seq_begin = sr1__calloc(2 * mb->n_seqs + 1, sizeof(int64_t));
    if (!g->said || !g->seq_begin)
        return sr1__fail_nomem("numbers of a micro-batch");
    g->group_tokens = g->seq_begin + mb->n_seqs + 1;
    g->weights = g->said + m;
    g->gradient = g->weights + m;
    g->mean_weight = 1.0 / (double)u->plan.n_policy_tokens;
    for (size_t i = 0; i < mb->n_targets; i++)
        g->seq_begin[mb->target_seqs[i] + 1] = (int64_t)i + 1;
    maps.seq_begin = g->seq_begin;
    for (size_t s = 0; u->groups.tokens && s < mb->n_seqs; s++)
        g->group_tokens[s] = u->groups.tokens[mb->sequence[s] - u->groups.begin];
    maps.group_tokens = g->group_tokens;
    return sr1__aggregation_weights(u->lesson->aggregation(u->tr), &maps, g->weights);
}

static void grading_free(struct sr1__grading *g)
{
    sr1__free(g->said);
    sr1__free(g->seq_begin);
}

/* A loss that is not finite ends the pass, not the run. */
static sr1_status grade(struct update *u, const struct sr1__microbatch *mb,
                        const struct sr1__grading *g, struct worker *w)
{
    sr1_status st = u->lesson->grade(u->tr, mb, g, &w->tally);

    if (st == SR1_E_NUMERIC) {
        blame_loss(u, mb, g->said, w);
        return SR1_OK;
    }
    for (size_t i = 0; i < n_said(u, mb); i++)
        g->gradient[i] *= (float)u->learner->scale.value;
    return st;
}

static sr1_status backward(struct update *u, size_t k, const struct sr1__microbatch *mb,
                           int32_t worker, const struct sr1__grading *g)
{
    struct worker *w = &u->workers[worker];
    sr1_model *m = u->learner->replicas[worker];
    sr1_scope *s =
        sr1__scope_open(m->device, "%s, micro-batch %zu", u->lesson->name, k);
    sr1_tensor *said = u->lesson->ask(s, u->tr, m, mb);

    t_to_host_f32(s, said, g->said, n_said(u, mb));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, grade(u, mb, g, w));
    if (sr1__scope_status(s) == SR1_OK && !w->not_finite)
        t_backward_with(s, said,
                        t_from_f32(s, g->gradient, T_SHAPE((int64_t)n_said(u, mb))));
    SR1__TRY(sr1__scope_close(s));
    return sr1__model_gather_grad(m);
}

static sr1_status run_microbatch(struct update *u, size_t k, int32_t worker)
{
    struct sr1__microbatch mb;
    struct sr1__grading g;
    sr1_status st;

    SR1__TRY(get_microbatch(u, k, &mb));
    st = grading_make(&g, u, &mb);
    if (st == SR1_OK)
        st = backward(u, k, &mb, worker, &g);
    grading_free(&g);
    sr1__microbatch_free(&mb);
    return st;
}

/* ---- one pass ---- */

static sr1_status run_worker(void *arg, size_t worker)
{
    struct update *u = arg;

    for (size_t k = worker; k < u->plan.n_batches; k += (size_t)u->tr->n_workers)
        SR1__TRY(run_microbatch(u, k, (int32_t)worker));
    return SR1_OK;
}

static void merge(const struct update *u, struct worker *all)
{
    memset(all, 0, sizeof(*all));
    for (int32_t i = 0; i < u->tr->n_workers; i++) {
        const struct worker *w = &u->workers[i];

        sr1__tally_add(&all->tally, &w->tally);
        if (w->not_finite && !all->not_finite) {
            all->not_finite = 1;
            all->why = w->why;
        }
    }
}

/* As the optimizer sees it: their norm. */
static int gradients_finite(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(m->device, "gradients");
    int finite = 1;

    for (size_t i = 0; i < m->n_params && finite; i++) {
        sr1_tensor *g = sr1__model_grad(s, m, i);

        finite = !g || isfinite(t_item(s, t_sum(s, t_square(s, g))));
    }
    return sr1__scope_close(s) == SR1_OK && finite;
}

/* After a gradient that is not finite: each trajectory by itself, until one has such a
 * gradient alone. *why names it. A second pass at most, and rarely. */
static void blame_gradient(struct update *u, struct sr1__error *why)
{
    struct worker scratch = {0};
    struct update alone = *u;
    sr1_status st;

    alone.budget = 1;
    alone.workers = &scratch;
    memset(&alone.plan, 0, sizeof(alone.plan));
    st = plan_with(&alone, 1);
    for (size_t k = 0; k < alone.plan.n_batches && st == SR1_OK; k++) {
        sr1__learner_clear_grad(u->learner);
        st = run_microbatch(&alone, k, 0);
        if (st == SR1_OK && !gradients_finite(u->learner->replicas[0])) {
            name_sample(u, alone.plan.sequences[k], why);
            break;
        }
    }
    sr1__learner_clear_grad(u->learner);
    sr1__batch_plan_free(&alone.plan);
}

static void skip_update(const struct update *u, sr1_step_report *report, const char *why)
{
    sr1_trainer *tr = u->tr;

    report->skipped_updates++;
    tr->skipped++;
    sr1__log(SR1_LOG_WARN, "step %" PRId64 ": update of the %s skipped: %s", tr->step + 1,
             u->lesson->name, why);
}

static void pass_on(struct passed *p, const struct sr1__tally *tally, double tokens,
                    double grad_norm, double rate)
{
    struct sr1__tally t = *tally;

    sr1__tally_scale(&t, tokens);
    sr1__tally_add(&p->tally, &t);
    p->grad_norm += tokens * grad_norm;
    p->tokens += tokens;
    p->rate = rate;
}

/* The means, once all mini-batches are through. */
static void give_pass(struct update *u, sr1_step_report *report)
{
    struct passed *p = &u->passed;

    if (p->tokens > 0.0) {
        sr1__tally_scale(&p->tally, 1.0 / p->tokens);
        u->lesson->report(&p->tally, p->grad_norm / p->tokens, p->rate, report);
    }
    memset(p, 0, sizeof(*p));
}

static sr1_status apply(struct update *u, const struct worker *all,
                        sr1_step_report *report)
{
    struct sr1__optim_report done = {0};
    double rate;

    if (all->not_finite) {
        sr1__learner_clear_grad(u->learner);
        skip_update(u, report, all->why.text);
        return SR1_OK;
    }
    SR1__TRY(sr1__learner_step(u->learner, u->tr->step, &rate, &done));
    if (done.skipped) {
        struct sr1__error why;

        sr1__error_save(&why, sr1__fail(SR1_E_NUMERIC, "a gradient is not finite"));
        if (!u->learner->scale.active) /* an overflow of fp16 is nobody's fault */
            blame_gradient(u, &why);
        skip_update(u, report, why.text);
        return SR1_OK;
    }
    pass_on(&u->passed, &all->tally, (double)u->plan.n_policy_tokens, done.grad_norm,
            rate);
    return SR1_OK;
}

/* Out of memory: half the budget, as long as that cuts anything. */
static sr1_status cut_finer(struct update *u, sr1_status st)
{
    size_t batches = u->plan.n_batches;

    if (!sr1__is_memory(st) || batches >= u->plan.n_sequences)
        return st;
    sr1__log(SR1_LOG_WARN, "out of memory with %zu micro-batches; trying more", batches);
    sr1__learner_clear_grad(u->learner);
    for (st = SR1_OK; st == SR1_OK && u->plan.n_batches <= batches;) {
        sr1__batch_plan_free(&u->plan);
        u->budget = u->budget > 1 ? u->budget / 2 : 1;
        st = make_plan(u);
    }
    return st;
}

static sr1_status run_pass(struct update *u, int first, sr1_step_report *report)
{
    size_t n = (size_t)u->tr->n_workers;
    struct worker all;
    sr1_status st;

    do {
        memset(u->workers, 0, n * sizeof(*u->workers));
        st = sr1__pool_run(u->tr->pool, n, run_worker, u);
    } while (sr1__is_memory(st) && (st = cut_finer(u, st)) == SR1_OK);
    if (st != SR1_OK) {
        sr1__learner_clear_grad(u->learner);
        return st;
    }
    merge(u, &all);
    if (first && u->lesson->first_pass)
        u->lesson->first_pass(&all.tally, u->plan.n_policy_tokens, report);
    return apply(u, &all, report);
}

/* One pass over the trajectories, a mini-batch of them for each optimizer step. */
static sr1_status run_mini_batches(struct update *u, size_t n, int first,
                                   sr1_step_report *report)
{
    size_t size = (size_t)u->tr->set.mini_batch_size;
    int64_t trained = 0;
    sr1_status st = SR1_OK;

    if (size == 0 || size > n)
        size = n;
    for (u->begin = 0; u->begin < n && st == SR1_OK; u->begin = u->end) {
        u->end = n - u->begin < size ? n : u->begin + size;
        st = make_plan(u);
        if (st == SR1_OK && sr1__aggregation_by_group(u->lesson->aggregation(u->tr)))
            st = sr1__group_counts_make(&u->groups, u->from, u->begin, u->end);
        trained += (int64_t)u->plan.n_sequences;
        if (st == SR1_OK && u->plan.n_batches > 0)
            measure_plan(u, report);
        if (st == SR1_OK && u->plan.n_policy_tokens > 0)
            st = run_pass(u, first && u->begin == 0, report);
        sr1__batch_plan_free(&u->plan);
        sr1__group_counts_free(&u->groups);
    }
    give_pass(u, report);
    report->trained = trained;
    return st;
}

sr1_status sr1__update(sr1_trainer *tr, struct sr1__learner *learner,
                       const struct sr1__lesson *lesson, const struct sr1__source *from,
                       int64_t passes, sr1_step_report *report)
{
    struct update u = {.tr = tr,
                       .learner = learner,
                       .lesson = lesson,
                       .from = from,
                       .budget = tr->set.micro_batch_tokens};
    size_t n = from->store ? sr1__trajectory_store_count(from->store) : from->n;
    sr1_status st = SR1_OK;

    u.workers = sr1__calloc((size_t)tr->n_workers, sizeof(*u.workers));
    if (!u.workers)
        return sr1__fail_nomem("update");
    for (int64_t i = 0; i < passes && st == SR1_OK; i++)
        st = run_mini_batches(&u, n, i == 0, report);
    sr1__free(u.workers);
    return st;
}
