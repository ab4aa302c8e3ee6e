/* train/optimise.c - train a learner's weights on trajectories.
 *
 * An epoch passes over all trajectories, with one optimizer step for each mini-batch: the
 * weights' outputs for every policy token (its log-prob, its value), the gradient of the
 * objective's loss with respect to them, and that sent back through the model.
 * Micro-batches bound memory; weights of tokens come from counts over the mini-batch, so
 * the cut does not change the gradient. Workers take micro-batches side by side, each
 * into gradients of its own, which are added up in a fixed order: those of a worker, then
 * of workers. With full_determinism on a CPU a trajectory is a micro-batch, and one sum
 * takes them in the plan's order, so that it depends on nothing but the trajectories. */
#include "train/objective.h"
#include "train/ranks.h"
#include "train/unit_pass.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/model/route_log.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a worker adds up over its micro-batches. */
struct worker {
    struct sr1__loss_sums sums;
    int32_t not_finite; /* a token's loss was not finite: the mini-batch is skipped */
    struct sr1__error why;
};

/* Mini-batches of an epoch so far, each as often as it has policy tokens. */
struct epoch {
    struct sr1__loss_sums sums;
    double grad_norm, rate;
    double tokens; /* of those that were applied */
};

struct update {
    const struct sr1__step_batch *b;
    sr1_trainer *tr;
    struct sr1__learner *learner;
    const struct sr1__objective *objective;
    struct sr1__trajectory_store *from;
    struct sr1_step_metrics *metrics;
    int32_t skip_zero_advantage; /* trajectories without a gradient are only counted */
    int32_t measured;            /* the weights of the rollout were compared with it */
    size_t begin, end;           /* trajectories of the mini-batch */
    struct sr1__batch_plan plan;
    struct sr1__group_counts groups;
    sr1_balance_report lengths; /* of micro-batches; zeros where they were not balanced */
    int64_t budget;             /* tokens of a micro-batch; halved when memory runs out */
    struct worker *workers;     /* [n_workers], or with passes by units [rounds] of what
                                   this rank computed in each */
    struct epoch epoch;
};

static void add_sums(struct sr1__loss_sums *total, const struct sr1__loss_sums *part)
{
    sr1__loss_report_add(&total->loss, &part->loss);
    sr1__value_report_add(&total->value, &part->value);
    total->diff_sum += part->diff_sum;
    total->entropy_sum += part->entropy_sum;
    total->aux_loss += part->aux_loss;
    total->diff_max = fmax(total->diff_max, part->diff_max);
    total->probs_sum += part->probs_sum;
    total->probs_max = fmax(total->probs_max, part->probs_max);
}

/* Its means count v times; sums over tokens stay. */
static void scale_sums(struct sr1__loss_sums *s, double v)
{
    sr1__loss_report_scale(&s->loss, v);
    sr1__value_report_scale(&s->value, v);
    s->aux_loss *= v;
}

/* ---- the plan ---- */

static struct sr1__batch_part choose_part(const struct update *u)
{
    struct sr1__batch_part part = sr1__part_of(u->tr, u->begin, u->end);

    part.skip_zero_advantage = u->skip_zero_advantage;
    return part;
}

static sr1_status make_plan(struct update *u)
{
    struct sr1__batch_part part = choose_part(u);
    size_t workers = sr1__all_workers(u->tr);

    SR1__TRY(sr1__batch_plan_store_part(&u->plan, u->from, part, u->budget));
    if (u->plan.n_batches == 0)
        return SR1_OK;
    if (u->tr->set.balance_batches)
        SR1__TRY(sr1__batch_plan_balance_store(&u->plan, u->from, workers, u->budget,
                                               &u->lengths));
    return u->lengths.balanced_max == 0
               ? sr1__batch_plan_even_store(&u->plan, u->from, part, workers, u->budget)
               : SR1_OK;
}

/* The spread of micro-batches. */
static void measure_plan(const struct update *u)
{
    const struct sr1__batch_plan *p = &u->plan;
    int balanced = u->lengths.balanced_max != 0;
    int64_t least = p->packed_tokens[0], most = least;

    for (size_t k = 1; k < p->n_batches; k++) {
        int64_t n = p->packed_tokens[k];

        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    sr1__metrics_add(u->metrics, "micro_batches", (double)p->n_batches, SR1__LAST);
    sr1__metrics_add(u->metrics, "batch_tokens_min", (double)least, SR1__LAST);
    sr1__metrics_add(u->metrics, "batch_tokens_max", (double)most, SR1__LAST);
    sr1__metrics_add(u->metrics, "unbalanced_min",
                     (double)(balanced ? u->lengths.min : least), SR1__LAST);
    sr1__metrics_add(u->metrics, "unbalanced_max",
                     (double)(balanced ? u->lengths.max : most), SR1__LAST);
}

/* Does one sum take the gradients in the order of the plan, whoever computes them? */
static int adds_in_order(const struct update *u)
{
    return u->tr->set.alone && !u->tr->dist;
}

/* ---- one micro-batch ---- */

/* Outputs of the model for a micro-batch. */
static size_t count_outputs(const struct update *u, const struct sr1__microbatch *mb)
{
    return mb->n_targets * (u->objective->width ? u->objective->width(u->tr) : 1);
}

/* Put the name of trajectory i before the error in *why. */
static void name_sample(const struct update *u, size_t i, struct sr1__error *why)
{
    sr1_trajectory *t = NULL;

    (void)sr1__trajectory_store_get(u->from, i, &t);
    (void)sr1__error_raise(why);
    (void)sr1__context(why->code, "trajectory %zu (query '%s', sample %d)", i,
                       t ? sr1_trajectory_query_id(t) : "?",
                       t ? (int)sr1_trajectory_sample(t) : 0);
    sr1__error_save(why, why->code);
    sr1_trajectory_free(t);
}

/* Name the trajectory with the first number that is not finite. */
static void blame_loss(const struct update *u, const struct sr1__microbatch *mb,
                       const float *outputs, struct worker *w)
{
    size_t i = 0;
    int finite = 1;

    sr1__error_save(&w->why, SR1_E_NUMERIC);
    w->not_finite = 1;
    for (; i < mb->n_targets && finite; i += finite) {
        finite = isfinite(outputs[i]) && isfinite(mb->rollout_log_probs[i]);
        for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
            finite = finite && (!mb->columns[c] || isfinite(mb->columns[c][i]));
    }
    if (i < mb->n_targets)
        name_sample(u, mb->sequence[mb->target_seqs[i]], &w->why);
}

/* Room for a micro-batch's numbers, with the share of each token in the loss by counts
 * over all micro-batches. */
static sr1_status make_arrays(struct sr1__loss_arrays *g, const struct update *u,
                              const struct sr1__microbatch *mb)
{
    size_t m = count_outputs(u, mb) + 1;
    sr1_loss_maps maps = {.struct_size = sizeof(maps),
                          .n_seqs = mb->n_seqs,
                          .total_tokens = u->plan.all_policy_tokens,
                          .total_seqs = (int64_t)u->plan.all_sequences,
                          .total_groups = u->groups.groups,
                          .length = u->tr->set.loss_length};

    memset(g, 0, sizeof(*g));
    g->outputs = sr1__calloc(3 * m, sizeof(float));
    g->seq_begin = sr1__calloc(2 * mb->n_seqs + 1, sizeof(int64_t));
    if (!g->outputs || !g->seq_begin)
        return sr1__fail_nomem("numbers of a micro-batch");
    g->group_tokens = g->seq_begin + mb->n_seqs + 1;
    g->weights = g->outputs + m;
    g->gradient = g->weights + m;
    g->mean_weight = 1.0 / (double)u->plan.all_policy_tokens;
    g->share = (double)mb->n_seqs / (double)u->plan.all_sequences;
    g->router.weight =
        u->tr->set.router_aux_loss_coef * g->share * u->learner->scale.value;
    for (size_t i = 0; i < mb->n_targets; i++)
        g->seq_begin[mb->target_seqs[i] + 1] = (int64_t)i + 1;
    maps.seq_begin = g->seq_begin;
    for (size_t s = 0; u->groups.tokens && s < mb->n_seqs; s++)
        g->group_tokens[s] = u->groups.tokens[mb->sequence[s] - u->groups.begin];
    maps.group_tokens = g->group_tokens;
    return sr1__aggregation_weights(u->objective->aggregation(u->tr), &maps, g->weights);
}

static void free_arrays(struct sr1__loss_arrays *g)
{
    sr1__free(g->outputs);
    sr1__free(g->seq_begin);
}

/* A loss that is not finite ends the pass, not the run. */
static sr1_status compute_loss(struct update *u, const struct sr1__microbatch *mb,
                               const struct sr1__loss_arrays *g, struct worker *w)
{
    sr1_status st = u->objective->loss(u->tr, mb, g, &w->sums);

    if (st == SR1_E_NUMERIC) {
        blame_loss(u, mb, g->outputs, w);
        return SR1_OK;
    }
    for (size_t i = 0; i < count_outputs(u, mb); i++)
        g->gradient[i] *= (float)u->learner->scale.value;
    return st;
}

static sr1_status run_backward(struct update *u, size_t k,
                               const struct sr1__microbatch *mb, sr1_model *m,
                               struct sr1__loss_arrays *g, struct worker *w)
{
    sr1_scope *s =
        sr1__scope_open(m->device, "%s, micro-batch %zu", u->objective->name, k);
    sr1_tensor *outputs = u->objective->forward(s, u->tr, m, mb, g);

    t_to_host_f32(s, outputs, g->outputs, count_outputs(u, mb));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, compute_loss(u, mb, g, w));
    if (sr1__scope_status(s) == SR1_OK && !w->not_finite)
        t_backward_with(
            s, outputs,
            t_from_f32(s, g->gradient, T_SHAPE((int64_t)count_outputs(u, mb))));
    SR1__TRY(sr1__scope_close(s));
    /* one gradient alone is its own sum; those of a pass by units are gone */
    return u->plan.n_batches > 1 && !u->learner->pass && !adds_in_order(u)
               ? sr1__model_gather_grad(m)
               : SR1_OK;
}

/* What it comes to is added to *w, by micro-batches, so that it does not depend on who
 * computed them. */
static void merge_worker(const struct worker *w, struct worker *all)
{
    add_sums(&all->sums, &w->sums);
    if (w->not_finite && !all->not_finite) {
        all->not_finite = 1;
        all->why = w->why;
        all->why.text[sizeof(all->why.text) - 1] = '\0';
    }
}

static sr1_status run_microbatch(struct update *u, size_t k, sr1_model *m,
                                 struct worker *w)
{
    struct worker alone = {0};
    struct sr1__microbatch mb;
    struct sr1__loss_arrays g;
    sr1_status st;

    SR1__TRY(
        sr1__microbatch_store(&mb, &u->plan, k, u->from, u->objective->columns(u->tr)));
    st = make_arrays(&g, u, &mb);
    if (st == SR1_OK)
        st = run_backward(u, k, &mb, m, &g, &alone);
    free_arrays(&g);
    sr1__microbatch_free(&mb);
    merge_worker(&alone, w);
    return st;
}

/* ---- one mini-batch ---- */

/* Micro-batch i of those of a worker of this rank; n_batches or more: it has no more. */
static size_t find_worker_batch(const struct update *u, size_t worker, size_t i)
{
    return sr1__first_worker(u->tr) + worker + i * sr1__all_workers(u->tr);
}

static sr1_status run_worker(void *arg, size_t worker)
{
    struct update *u = arg;
    size_t k;

    for (size_t i = 0; (k = find_worker_batch(u, worker, i)) < u->plan.n_batches; i++)
        SR1__TRY(run_microbatch(u, k, u->learner->replicas[worker], &u->workers[worker]));
    return SR1_OK;
}

/* Micro-batches in the order in which their gradients are added up: those of worker 0,
 * worker 1, ... Which is at a place, and of whom? */
struct sum_place {
    size_t batch, worker;
    int first; /* of that worker's */
};

static struct sum_place find_sum_place(const struct update *u, size_t at)
{
    size_t workers = sr1__all_workers(u->tr), n = u->plan.n_batches;

    for (size_t w = 0; w < workers; w++) {
        size_t own = w < n ? (n - w + workers - 1) / workers : 0;

        if (at < own)
            return (struct sum_place){w + at * workers, w, at == 0};
        at -= own;
    }
    return (struct sum_place){n, workers, 0};
}

static size_t count_rounds(const struct update *u)
{
    size_t ranks = (size_t)sr1__dist_size(u->tr->dist);

    return (u->plan.n_batches + ranks - 1) / ranks;
}

/* Each rank takes the micro-batch at one of the next places. */
static sr1_status run_round(struct update *u, size_t round, uint8_t *fresh)
{
    size_t ranks = (size_t)sr1__dist_size(u->tr->dist), first = round * ranks;
    size_t own = first + (size_t)sr1__dist_rank(u->tr->dist);
    struct sr1__sum_order order = {.fresh = fresh};
    sr1_status st = SR1_OK;

    for (size_t r = 0; r < ranks && first + r < u->plan.n_batches; r++, order.n++)
        fresh[r] = (uint8_t)find_sum_place(u, first + r).first;
    sr1__unit_pass_begin(u->learner->pass, &order);
    if (own < u->plan.n_batches)
        st = run_microbatch(u, find_sum_place(u, own).batch, u->learner->replicas[0],
                            &u->workers[round]);
    return sr1__unit_pass_end(u->learner->pass, st);
}

static sr1_status run_rounds(struct update *u)
{
    size_t n = count_rounds(u);
    struct worker *w = sr1__realloc(u->workers, n + 1, sizeof(*w));
    uint8_t *fresh = sr1__calloc((size_t)sr1__dist_size(u->tr->dist), 1);
    sr1_status st = w && fresh ? SR1_OK : sr1__fail_nomem("rounds of micro-batches");

    u->workers = w ? w : u->workers;
    st = sr1__dist_agree(u->tr->dist, u->objective->name, st);
    if (st == SR1_OK)
        memset(w, 0, n * sizeof(*w));
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = run_round(u, i, fresh);
    sr1__free(fresh);
    return st;
}

/* The micro-batches of all workers that follow each other. */
struct turn {
    struct update *u;
    size_t first;
};

static sr1_status run_in_turn(void *arg, size_t i)
{
    const struct turn *t = arg;

    return run_microbatch(t->u, t->first + i, t->u->learner->replicas[i],
                          &t->u->workers[i]);
}

/* All that is added up stands with the first worker. */
static sr1_status run_turns(struct update *u)
{
    size_t workers = (size_t)u->tr->n_workers, n;
    struct worker all = {0};

    for (struct turn t = {u, 0}; t.first < u->plan.n_batches; t.first += n) {
        n = u->plan.n_batches - t.first;
        n = n < workers ? n : workers;
        memset(u->workers, 0, workers * sizeof(*u->workers));
        SR1__TRY(sr1__pool_run(u->tr->pool, n, run_in_turn, &t));
        for (size_t i = 0; i < n; i++) {
            SR1__TRY(
                sr1__model_move_grad(u->learner->replicas[0], u->learner->replicas[i]));
            merge_worker(&u->workers[i], &all);
        }
    }
    memset(u->workers, 0, workers * sizeof(*u->workers));
    u->workers[0] = all;
    return SR1_OK;
}

static sr1_status run_workers(struct update *u)
{
    size_t n = (size_t)u->tr->n_workers;

    if (u->learner->pass)
        return run_rounds(u);
    if (adds_in_order(u))
        return run_turns(u);
    memset(u->workers, 0, n * sizeof(*u->workers));
    return sr1__pool_run(u->tr->pool, n, run_worker, u);
}

/* The workers of all ranks, in their order. */
static void merge_ranks(const struct update *u, const struct sr1__gathered *g,
                        struct worker *all)
{
    for (int32_t rank = 0; rank < sr1__dist_size(u->tr->dist); rank++) {
        size_t size;
        const char *bytes = sr1__gathered_of(g, rank, &size);
        struct worker w;

        for (size_t i = 0; i < size / sizeof(w); i++) {
            memcpy(&w, bytes + i * sizeof(w), sizeof(w));
            merge_worker(&w, all);
        }
    }
}

/* The same of micro-batches: first to their workers. */
static void merge_rounds(const struct update *u, const struct sr1__gathered *g,
                         struct worker *all)
{
    size_t ranks = (size_t)sr1__dist_size(u->tr->dist);
    struct worker of = {0}, w;

    for (size_t at = 0; at < u->plan.n_batches; at++) {
        size_t size, i = at / ranks * sizeof(w);
        const char *bytes = sr1__gathered_of(g, (int32_t)(at % ranks), &size);

        if (find_sum_place(u, at).first && at > 0) {
            merge_worker(&of, all);
            memset(&of, 0, sizeof(of));
        }
        if (i + sizeof(w) <= size) {
            memcpy(&w, bytes + i, sizeof(w));
            merge_worker(&w, &of);
        }
    }
    merge_worker(&of, all);
}

static sr1_status merge_workers(const struct update *u, struct worker *all)
{
    int rounds = u->learner->pass != NULL;
    size_t n = rounds ? count_rounds(u) : (size_t)u->tr->n_workers;
    struct sr1__gathered g;

    memset(all, 0, sizeof(*all));
    SR1__TRY(sr1__dist_gather(u->tr->dist, "loss", SR1_OK, u->workers,
                              n * sizeof(*u->workers), &g));
    if (rounds)
        merge_rounds(u, &g, all);
    else
        merge_ranks(u, &g, all);
    sr1__gathered_free(&g);
    return SR1_OK;
}

/* As the optimizer sees it: their norm. */
static int are_gradients_finite(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(m->device, "gradients");
    int finite = 1;

    for (size_t i = 0; i < m->n_params && finite; i++) {
        sr1_tensor *g = sr1__model_grad(s, m, i);

        finite = !g || isfinite(t_item(s, t_sum(s, t_square(s, t_to(s, g, SR1__F32)))));
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
    memset(&alone.plan, 0, sizeof(alone.plan));
    st = sr1__batch_plan_store_part(&alone.plan, u->from, choose_part(u), 1);
    for (size_t k = 0; k < alone.plan.n_batches && st == SR1_OK; k++) {
        sr1__learner_clear_grad(u->learner);
        st = run_microbatch(&alone, k, u->learner->replicas[0], &scratch);
        if (st == SR1_OK && !are_gradients_finite(u->learner->replicas[0])) {
            name_sample(u, alone.plan.sequences[k], why);
            break;
        }
    }
    sr1__learner_clear_grad(u->learner);
    sr1__batch_plan_free(&alone.plan);
}

static void skip_update(const struct update *u, const char *why)
{
    sr1_trainer *tr = u->tr;

    sr1__metrics_add(u->metrics, "skipped_updates", 1, SR1__SUM);
    tr->skipped++;
    sr1__log(SR1_LOG_WARN, "step %" PRId64 ": update of the %s skipped: %s", tr->step + 1,
             u->objective->name, why);
}

static void add_mini_batch(struct epoch *e, const struct sr1__loss_sums *sums,
                           double tokens, double grad_norm, double rate)
{
    struct sr1__loss_sums weighed = *sums;

    scale_sums(&weighed, tokens);
    add_sums(&e->sums, &weighed);
    e->grad_norm += tokens * grad_norm;
    e->tokens += tokens;
    e->rate = rate;
}

/* The means, once all mini-batches are through. */
static void report_means(struct update *u)
{
    struct epoch *e = &u->epoch;

    if (e->tokens > 0.0) {
        scale_sums(&e->sums, 1.0 / e->tokens);
        u->objective->report_epoch(&e->sums, e->grad_norm / e->tokens, e->rate,
                                   u->metrics);
    }
    memset(e, 0, sizeof(*e));
}

static sr1_status apply_gradient(struct update *u, const struct worker *all)
{
    struct sr1__optim_report done = {0};
    double rate;

    u->tr->in_update = 1; /* an update that is skipped counts, too */
    if (all->not_finite) {
        sr1__learner_clear_grad(u->learner);
        skip_update(u, all->why.text);
        return SR1_OK;
    }
    SR1__TRY(sr1__learner_step(u->learner, u->tr->step, &rate, &done));
    if (done.skipped) {
        struct sr1__error why;

        sr1__error_save(&why, sr1__fail(SR1_E_NUMERIC, "a gradient is not finite"));
        /* an overflow of fp16 is nobody's fault, and one rank alone has no weights */
        if (!u->learner->scale.active && !sr1__unit_pass_in_parts(u->learner->pass))
            blame_gradient(u, &why);
        skip_update(u, why.text);
        return SR1_OK;
    }
    add_mini_batch(&u->epoch, &all->sums, (double)u->plan.all_policy_tokens,
                   done.grad_norm, rate);
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

static sr1_status run_mini_batch(struct update *u)
{
    struct worker all;
    sr1_status st;

    do {
        st = run_workers(u);
        st = sr1__dist_agree(u->tr->dist, u->objective->name, st);
    } while (sr1__is_memory(st) && (st = cut_finer(u, st)) == SR1_OK);
    if (st == SR1_OK)
        st = merge_workers(u, &all);
    if (st != SR1_OK) {
        sr1__learner_clear_grad(u->learner);
        return st;
    }
    if (!u->measured && u->objective->report_rollout)
        u->objective->report_rollout(u->tr, &all.sums, u->plan.n_policy_tokens,
                                     u->metrics);
    u->measured = 1;
    return apply_gradient(u, &all);
}

/* Another dropout in each epoch of each learner and step. */
static void choose_dropout(const struct update *u, int64_t epoch)
{
    sr1_trainer *tr = u->tr;
    uint64_t key[3] = {tr->set.seed, (uint64_t)tr->step, (uint64_t)epoch};

    tr->dropout.p = tr->set.lora.dropout;
    tr->dropout.key = sr1__hash64(u->objective->name, strlen(u->objective->name),
                                  sr1__hash64(key, sizeof(key), 0));
}

/* Where the mini-batch ends that begins there, of n trajectories: equal parts, so that
 * none of the optimizer's steps goes by the few that others left. */
static size_t end_mini_batch(const struct update *u, size_t begin, size_t n)
{
    size_t size = (size_t)u->tr->set.mini_batch_size, left = n - begin, parts;

    if (size == 0 || left <= size)
        return n;
    parts = (left + size - 1) / size;
    return begin + (left + parts - 1) / parts;
}

static sr1_status run_epoch(struct update *u, size_t n)
{
    int64_t trained = 0, skipped;
    sr1_status st = SR1_OK;

    for (u->begin = 0; u->begin < n && st == SR1_OK; u->begin = u->end) {
        u->end = end_mini_batch(u, u->begin, n);
        st = make_plan(u);
        if (st == SR1_OK && sr1__aggregation_by_group(u->objective->aggregation(u->tr)))
            st = sr1__group_counts_make(&u->groups, u->from, u->begin, u->end);
        if (st == SR1_OK && u->objective->survey)
            st = u->objective->survey(u->b, u->begin, u->end, !u->measured);
        skipped = u->tr->skipped;
        if (st == SR1_OK && u->plan.n_policy_tokens > 0)
            st = run_mini_batch(u);
        if (st == SR1_OK && u->plan.n_batches > 0) /* as they were cut in the end */
            measure_plan(u);
        if (u->tr->skipped == skipped)
            trained += (int64_t)u->plan.n_sequences;
        sr1__batch_plan_free(&u->plan);
        sr1__group_counts_free(&u->groups);
    }
    report_means(u);
    sr1__metrics_add(u->metrics, "trained", (double)trained, SR1__LAST);
    return st;
}

/* ---- router replay ---- */

/* Micro-batch i of those that a worker of this rank computes in an update. */
static size_t find_own_batch(const struct update *u, size_t worker, size_t i)
{
    size_t place =
        i * (size_t)sr1__dist_size(u->tr->dist) + (size_t)sr1__dist_rank(u->tr->dist);

    return u->learner->pass ? find_sum_place(u, place).batch
                            : find_worker_batch(u, worker, i);
}

static sr1_status record_worker(void *arg, size_t worker)
{
    struct update *u = arg;
    size_t k;

    for (size_t i = 0; (k = find_own_batch(u, worker, i)) < u->plan.n_batches; i++) {
        struct sr1__microbatch mb;
        sr1_status st;

        SR1__TRY(sr1__microbatch_store(&mb, &u->plan, k, u->from, 0));
        st = sr1__record_routes(u->learner->replicas[worker], &mb, k, u->tr->routes);
        sr1__microbatch_free(&mb);
        SR1__TRY(st);
    }
    return SR1_OK;
}

static sr1_status record_mini_batch(struct update *u)
{
    sr1_status st;

    do {
        sr1__route_log_restart(u->tr->routes);
        st = sr1__pool_run(u->tr->pool, (size_t)u->tr->n_workers, record_worker, u);
        st = sr1__dist_agree(u->tr->dist, "router replay", st);
    } while (sr1__is_memory(st) && (st = cut_finer(u, st)) == SR1_OK);
    return st;
}

/* The experts that the weights choose before the update, by which its passes go. Of one
 * optimizer step all passes are of these weights. */
static sr1_status record_routers(struct update *u, size_t n, int64_t epochs)
{
    sr1_status st;
    int64_t budget;

    if (!u->objective->replays_routers || !u->tr->set.router_replay ||
        (epochs == 1 && end_mini_batch(u, 0, n) == n))
        return SR1_OK;
    st = sr1__route_log_new(&u->tr->routes, &u->tr->model->config);
    st = sr1__dist_agree(u->tr->dist, "router replay", st);
    for (u->begin = 0; u->begin < n && st == SR1_OK; u->begin = u->end) {
        budget = u->budget;
        u->end = end_mini_batch(u, u->begin, n);
        st = make_plan(u);
        if (st == SR1_OK && u->plan.n_policy_tokens > 0)
            st = record_mini_batch(u);
        sr1__batch_plan_free(&u->plan);
        if (u->budget != budget) /* of those before ranks have other tokens now */
            u->end = 0;
    }
    return st;
}

sr1_status sr1__optimise(struct sr1__step_batch *b, struct sr1__learner *learner,
                         const struct sr1__objective *objective, int64_t epochs)
{
    struct update u = {.b = b,
                       .tr = b->tr,
                       .learner = learner,
                       .objective = objective,
                       .from = b->selected,
                       .metrics = b->metrics,
                       .skip_zero_advantage = objective->can_skip_without_advantage &&
                                              objective->can_skip_without_advantage(b),
                       .budget = b->tr->set.micro_batch_tokens};
    size_t n = sr1__trajectory_store_count(u.from);
    sr1_status st;

    u.workers = sr1__calloc((size_t)b->tr->n_workers, sizeof(*u.workers));
    st = sr1__dist_agree(b->tr->dist, "update",
                         u.workers ? SR1_OK : sr1__fail_nomem("update"));
    if (st != SR1_OK) { /* before anything that all ranks do together */
        sr1__free(u.workers);
        return st;
    }
    if (sr1__dist_size(b->tr->dist) > 1) /* ranks that fail apart save nothing together */
        b->tr->in_update = 1;
    st = record_routers(&u, n, epochs);
    if (st == SR1_OK)
        st = sr1__unit_pass_reshard(learner->pass);
    for (int64_t i = 0; i < epochs && st == SR1_OK; i++) {
        choose_dropout(&u, i);
        st = run_epoch(&u, n);
    }
    sr1__free(u.workers);
    sr1__route_log_free(b->tr->routes);
    b->tr->routes = NULL;
    return sr1__unit_pass_restore(learner->pass, st);
}
