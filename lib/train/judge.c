/* train/judge.c - what weights that stand still say of trajectories: the log-prob of each
 * policy token under the reference, or under the policy as an update begins; the critic's
 * value before it. Kept in the trajectories' columns, so that estimators, the update and
 * reports read one and the same number. */
#include "train/internal.h"

#include "base/log.h"
#include "base/mem.h"

#include <pthread.h>

/* One column and how it comes about: [M] of a micro-batch. */
struct question {
    int32_t column;
    const char *name;
    sr1_tensor *(*ask)(sr1_scope *s, const sr1_trainer *tr, int32_t worker,
                       const struct sr1__microbatch *mb);
};

static sr1_tensor *ask_model(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                             const struct sr1__microbatch *mb)
{
    struct sr1__score_options o = {.temperature = tr->set.temperature,
                                   .logit_chunk = tr->set.logit_chunk};

    return sr1__score(s, m, mb, &o);
}

static sr1_tensor *ask_reference(sr1_scope *s, const sr1_trainer *tr, int32_t worker,
                                 const struct sr1__microbatch *mb)
{
    return ask_model(s, tr, tr->references[worker], mb);
}

static sr1_tensor *ask_policy(sr1_scope *s, const sr1_trainer *tr, int32_t worker,
                              const struct sr1__microbatch *mb)
{
    return ask_model(s, tr, tr->policy.replicas[worker], mb);
}

static sr1_tensor *ask_critic(sr1_scope *s, const sr1_trainer *tr, int32_t worker,
                              const struct sr1__microbatch *mb)
{
    return sr1__score_values(s, tr->critics[worker], mb, 0);
}

static const struct question questions[] = {
    {SR1_COLUMN_REFERENCE, "reference", ask_reference},
    {SR1_COLUMN_VALUE, "critic", ask_critic},
    {SR1_COLUMN_OLD, "policy before the update", ask_policy},
};

struct judge {
    const sr1_trainer *tr;
    const struct question *q;
    sr1_trajectory *const *t;
    struct sr1__batch_plan plan;
    pthread_mutex_t lock; /* around setting columns: a trajectory may be given twice */
};

/* Cut the numbers of a micro-batch up into its trajectories' columns. */
static sr1_status hand_out(struct judge *j, const struct sr1__microbatch *mb,
                           const float *numbers)
{
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < mb->n_seqs && st == SR1_OK; i++) {
        sr1_trajectory *t = j->t[mb->sequence[i]];
        size_t n = sr1_trajectory_policy_count(t);

        st = sr1_trajectory_set_column(t, j->q->column, numbers, n);
        numbers += n;
    }
    pthread_mutex_unlock(&j->lock);
    return st;
}

static sr1_status ask(const struct judge *j, const struct sr1__microbatch *mb, size_t k,
                      int32_t worker, float *numbers)
{
    sr1_scope *s = sr1__scope_open(j->tr->model->device, "%s, micro-batch %zu",
                                   j->q->name, k);

    sr1__scope_no_grad(s);
    t_to_host_f32(s, j->q->ask(s, j->tr, worker, mb), numbers, mb->n_targets);
    return sr1__scope_close(s);
}

static sr1_status judge_microbatch(struct judge *j, size_t k, int32_t worker)
{
    struct sr1__microbatch mb;
    float *numbers;
    sr1_status st;

    SR1__TRY(sr1__microbatch_array(&mb, &j->plan, k, (const sr1_trajectory *const *)j->t,
                                   0));
    numbers = sr1__calloc(mb.n_targets + 1, sizeof(*numbers));
    st = numbers ? ask(j, &mb, k, worker, numbers) : sr1__fail_nomem(j->q->name);
    if (st == SR1_OK)
        st = hand_out(j, &mb, numbers);
    sr1__free(numbers);
    sr1__microbatch_free(&mb);
    return st;
}

static sr1_status judge_share(void *arg, size_t worker)
{
    struct judge *j = arg;

    for (size_t k = worker; k < j->plan.n_batches; k += (size_t)j->tr->n_workers)
        SR1__TRY(judge_microbatch(j, k, (int32_t)worker));
    return SR1_OK;
}

/* Micro-batches of half the size, while memory does not suffice and that cuts anything.
 */
static sr1_status judge_all(struct judge *j, size_t n)
{
    int64_t budget = j->tr->set.micro_batch_tokens;
    size_t workers = (size_t)j->tr->n_workers;
    sr1_status st;

    for (;; budget = budget > 1 ? budget / 2 : 1) {
        size_t batches;

        SR1__TRY(sr1__batch_plan_array(&j->plan, (const sr1_trajectory *const *)j->t, n,
                                       budget));
        batches = j->plan.n_batches;
        st = sr1__pool_run(j->tr->pool, workers, judge_share, j);
        if (!sr1__is_memory(st) || batches >= j->plan.n_sequences) {
            sr1__batch_plan_free(&j->plan);
            return st;
        }
        sr1__log(SR1_LOG_WARN, "%s: out of memory with %zu micro-batches; trying more",
                 j->q->name, batches);
        sr1__batch_plan_free(&j->plan);
    }
}

sr1_status sr1__judge(const sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                      uint32_t columns)
{
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        struct judge j = {.tr = tr, .q = &questions[i], .t = t};

        sr1_status st;

        if (!(columns >> j.q->column & 1))
            continue;
        pthread_mutex_init(&j.lock, NULL);
        st = judge_all(&j, n);
        pthread_mutex_destroy(&j.lock);
        SR1__TRY(st);
    }
    return SR1_OK;
}
