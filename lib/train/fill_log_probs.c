/* train/fill_log_probs.c - forward passes without gradient: log-probs of the policy's
 * tokens under the reference (verl: compute_ref_log_prob) or under the policy before the
 * update (verl: compute_log_prob), that policy's entropies, and the critic's values. They
 * become columns of the trajectories, so that estimators, the update and reports read one
 * and the same number. */
#include "train/ranks.h"
#include "train/step_batch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

#define REFERENCE (1u << SR1_COLUMN_REFERENCE)
#define OLD (1u << SR1_COLUMN_OLD)
#define ENTROPY (1u << SR1_COLUMN_ENTROPY)

/* ---- one column by one model ---- */

/* A column and how it comes about: [M] of a micro-batch. */
struct column_forward {
    int32_t column;
    const char *name;
    sr1_status (*forward)(const sr1_trainer *tr, int32_t worker,
                          const struct sr1__microbatch *mb, float *numbers);
};

static sr1_status forward_model(const sr1_trainer *tr, sr1_model *m,
                                const struct sr1__microbatch *mb, float *numbers)
{
    const struct sr1__sampling how = {tr->set.temperature, 0, 1.0};

    return sr1__score_log_probs(m, mb, &how, tr->set.logit_chunk, numbers);
}

static sr1_status forward_reference(const sr1_trainer *tr, int32_t worker,
                                    const struct sr1__microbatch *mb, float *numbers)
{
    return forward_model(tr, tr->references[worker], mb, numbers);
}

static sr1_status forward_policy(const sr1_trainer *tr, int32_t worker,
                                 const struct sr1__microbatch *mb, float *numbers)
{
    return forward_model(tr, tr->policy.replicas[worker], mb, numbers);
}

static sr1_status forward_entropies(const sr1_trainer *tr, int32_t worker,
                                    const struct sr1__microbatch *mb, float *numbers)
{
    return sr1__score_entropies(tr->policy.replicas[worker], mb, tr->set.temperature,
                                tr->set.logit_chunk, numbers);
}

static sr1_status forward_score_norms(const sr1_trainer *tr, int32_t worker,
                                      const struct sr1__microbatch *mb, float *numbers)
{
    return sr1__score_norms(tr->policy.replicas[worker], mb, tr->set.temperature,
                            tr->set.logit_chunk, numbers);
}

static sr1_status forward_critic(const sr1_trainer *tr, int32_t worker,
                                 const struct sr1__microbatch *mb, float *numbers)
{
    sr1_scope *s = sr1__scope_open(tr->model->device, "values");

    sr1__scope_no_grad(s);
    t_to_host_f32(s, sr1__forward_values(s, tr->critics[worker], mb, 0, NULL), numbers,
                  mb->n_targets);
    return sr1__scope_close(s);
}

static const struct column_forward forwards[] = {
    {SR1_COLUMN_REFERENCE, "reference", forward_reference},
    {SR1_COLUMN_VALUE, "critic", forward_critic},
    {SR1_COLUMN_OLD, "policy before the update", forward_policy},
    {SR1_COLUMN_ENTROPY, "entropies before the update", forward_entropies},
    {SR1_COLUMN_SCORE_NORM, "score norms before the update", forward_score_norms},
};
#define FORWARDS (sizeof(forwards) / sizeof(forwards[0]))

struct column_job {
    const sr1_trainer *tr;
    const struct column_forward *f;
    sr1_trajectory *const *t; /* [n] */
    size_t n;
    struct sr1__batch_plan plan;
    struct sr1__buf done; /* for other ranks: what this one computed */
    pthread_mutex_t lock; /* around setting columns: a trajectory may be given twice */
};

/* The column of trajectory i, for the other ranks. */
static void add_done(struct column_job *j, size_t i, const float *numbers, size_t n)
{
    sr1__buf_u64(&j->done, i);
    sr1__buf_u64(&j->done, n);
    sr1__buf_add(&j->done, numbers, n * sizeof(*numbers));
}

/* Cut the numbers of a micro-batch up into its trajectories' columns. */
static sr1_status set_columns(struct column_job *j, const struct sr1__microbatch *mb,
                              const float *numbers)
{
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < mb->n_seqs && st == SR1_OK; i++) {
        sr1_trajectory *t = j->t[mb->sequence[i]];
        size_t n = sr1_trajectory_policy_count(t);

        st = sr1_trajectory_set_column(t, j->f->column, numbers, n);
        if (j->tr->dist)
            add_done(j, mb->sequence[i], numbers, n);
        numbers += n;
    }
    pthread_mutex_unlock(&j->lock);
    return st;
}

static sr1_status forward_microbatch(struct column_job *j, size_t k, int32_t worker)
{
    struct sr1__microbatch mb;
    float *numbers;
    sr1_status st;

    SR1__TRY(
        sr1__microbatch_array(&mb, &j->plan, k, (const sr1_trajectory *const *)j->t, 0));
    numbers = sr1__calloc(mb.n_targets + 1, sizeof(*numbers));
    st = numbers ? sr1__context(j->f->forward(j->tr, worker, &mb, numbers),
                                "%s, micro-batch %zu", j->f->name, k)
                 : sr1__fail_nomem(j->f->name);
    if (st == SR1_OK)
        st = set_columns(j, &mb, numbers);
    sr1__free(numbers);
    sr1__microbatch_free(&mb);
    return st;
}

static sr1_status forward_share(void *arg, size_t worker)
{
    struct column_job *j = arg;

    for (size_t k = sr1__first_worker(j->tr) + worker; k < j->plan.n_batches;
         k += sr1__all_workers(j->tr))
        SR1__TRY(forward_microbatch(j, k, (int32_t)worker));
    return SR1_OK;
}

/* ---- by all ranks ---- */

/* One column that another rank computed. */
static sr1_status take_column(const struct column_job *j, struct sr1__reader *r)
{
    uint64_t i = sr1__read_u64(r), n = sr1__read_u64(r);

    if (r->failed || i >= j->n)
        return sr1__fail(SR1_E_CORRUPT, "%s: another rank's numbers are torn",
                         j->f->name);
    return sr1__context(sr1__trajectory_read_column(r, j->t[i], j->f->column, (size_t)n),
                        "%s", j->f->name);
}

static sr1_status take_columns(const struct column_job *j, const struct sr1__gathered *g)
{
    for (int32_t rank = 0; rank < sr1__dist_size(j->tr->dist); rank++) {
        struct sr1__reader r;
        size_t n;
        const void *bytes = sr1__gathered_of(g, rank, &n);

        sr1__reader_init(&r, bytes, n);
        while (rank != sr1__dist_rank(j->tr->dist) && r.left > 0)
            SR1__TRY(take_column(j, &r));
    }
    return SR1_OK;
}

/* Every rank's columns to every rank, where all had memory for theirs. */
static sr1_status exchange_columns(struct column_job *j, sr1_status st)
{
    struct sr1__dist *d = j->tr->dist;
    struct sr1__gathered g;

    if (!d)
        return st;
    if (st == SR1_OK)
        st = sr1__buf_status(&j->done, j->f->name);
    SR1__TRY(sr1__dist_await(d, j->f->name, st)); /* passes may differ in length */
    SR1__TRY(sr1__dist_gather(d, j->f->name, SR1_OK, j->done.data, j->done.len, &g));
    st = take_columns(j, &g);
    sr1__gathered_free(&g);
    return sr1__dist_agree(d, "columns", st);
}

static sr1_status forward_plan(struct column_job *j)
{
    sr1_status st;

    sr1__buf_init(&j->done, SIZE_MAX / 2);
    st = sr1__pool_run(j->tr->pool, (size_t)j->tr->n_workers, forward_share, j);
    st = exchange_columns(j, st);
    sr1__buf_free(&j->done);
    return st;
}

static sr1_status plan_forward(struct column_job *j, int64_t budget)
{
    const sr1_trajectory *const *t = (const sr1_trajectory *const *)j->t;
    struct sr1__batch_part part = sr1__part_of(j->tr, 0, j->n);

    SR1__TRY(sr1__batch_plan_array(&j->plan, t, part, budget));
    return sr1__batch_plan_even_array(&j->plan, t, part, sr1__all_workers(j->tr), budget);
}

/* Micro-batches of half the size, while memory does not suffice and that cuts anything.
 */
static sr1_status forward_all(struct column_job *j)
{
    int64_t budget = j->tr->set.micro_batch_tokens;
    sr1_status st;

    for (;; budget = budget > 1 ? budget / 2 : 1) {
        size_t batches;

        SR1__TRY(plan_forward(j, budget));
        batches = j->plan.n_batches;
        st = forward_plan(j);
        if (!sr1__is_memory(st) || batches >= j->plan.n_sequences) {
            sr1__batch_plan_free(&j->plan);
            return st;
        }
        sr1__log(SR1_LOG_WARN, "%s: out of memory with %zu micro-batches; trying more",
                 j->f->name, batches);
        sr1__batch_plan_free(&j->plan);
    }
}

static const struct column_forward *find_forward(int32_t column)
{
    size_t i = 0;

    while (i + 1 < FORWARDS && forwards[i].column != column)
        i++;
    return &forwards[i];
}

sr1_status sr1__forward_column(const sr1_trainer *tr, int32_t column,
                               sr1_trajectory *const *t, size_t n)
{
    struct column_job j = {.tr = tr, .f = find_forward(column), .t = t, .n = n};
    sr1_status st;

    pthread_mutex_init(&j.lock, NULL);
    st = forward_all(&j);
    pthread_mutex_destroy(&j.lock);
    return st;
}

/* ---- which columns ---- */

/* The one place that decides what forward passes fill of trajectory i, as bits
 * 1 << SR1_COLUMN_*: what its advantages are made from, and unless it is dropped what the
 * update reads. Where loss masks are changed the update reads copies: those of inserted
 * tokens have nothing yet. */
static uint32_t find_needed(const struct sr1__step_batch *b, size_t i)
{
    const struct sr1__settings *set = &b->tr->set;
    int scored = i < b->n_scored;

    if (!sr1__counts_in_group(b, i))
        return 0;
    if (b->is_masked)
        return set->policy_columns & (REFERENCE | OLD | ENTROPY);
    if (!scored) /* it may be dropped yet, and the update is far */
        return set->advantage_columns | (set->update_columns & REFERENCE);
    if (b->drop[i] != SR1__DROP_NONE || sr1__masks_loss(set))
        return set->advantage_columns;
    return set->advantage_columns | set->update_columns;
}

static int is_missing(const struct sr1__step_batch *b, size_t i, int32_t column)
{
    return find_needed(b, i) & ~b->filled[i] & 1u << column ? 1 : 0;
}

/* The reference is on the device while it computes. */
static sr1_status run_column(sr1_trainer *tr, int32_t column, sr1_trajectory *const *t,
                             size_t n)
{
    sr1_status st;

    if (column != SR1_COLUMN_REFERENCE)
        return sr1__forward_column(tr, column, t, n);
    SR1__TRY(sr1__reference_raise(tr));
    st = sr1__forward_column(tr, column, t, n);
    sr1__reference_lower(tr);
    return st;
}

static sr1_status fill_column(struct sr1__step_batch *b, size_t begin, int32_t column)
{
    struct sr1__batch_view v;
    sr1_status st;

    SR1__TRY(sr1__batch_view_of(b, begin, is_missing, column, &v));
    st = v.n > 0 ? run_column(b->tr, column, v.t, v.n) : SR1_OK;
    for (size_t k = 0; st == SR1_OK && k < v.n; k++)
        b->filled[v.index[k]] |= 1u << column;
    sr1__batch_view_free(&v);
    return st;
}

static sr1_status fill_from(struct sr1__step_batch *b, size_t begin)
{
    double began = sr1__now();

    for (size_t i = 0; i < FORWARDS; i++)
        SR1__TRY(fill_column(b, begin, forwards[i].column));
    sr1__metrics_add(b->metrics, "seconds_reference", sr1__now() - began, SR1__SUM);
    return SR1_OK;
}

sr1_status sr1__fill_log_probs(struct sr1__step_batch *b)
{
    return fill_from(b, 0);
}

sr1_status sr1__fill_log_probs_early(struct sr1__step_batch *b)
{
    return fill_from(b, b->n_scored);
}
