/* policy/multi_turn.c - a client of the engine loop that makes trajectories.
 *
 * A round: begin sequences while there is room, insert what the environment has answered,
 * let the engine step, append its tokens to their sequences until a turn ends, and hand
 * the actions to the environment. A sequence that ends gives its place to the next at
 * once, and all actions of a round go to the environment as one batch. Where the
 * environment lets one wait, or the engine samples by itself meanwhile, actions go
 * through the executor (env_executor.h), and only the sequences that acted wait. */
#include "policy/multi_turn.h"
#include "policy/env_executor.h"
#include "policy/sequence.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

#define STOP_S 3.0 /* for answers to actions, once a stop was asked for */

struct turn_loop {
    struct sr1__generation *g;
    struct sr1__engine *engine;
    struct sr1__sequence *sequences; /* [cap]; the index is the engine's slot */
    int32_t cap;
    /* The group being begun: its query, samples begun, prompt (NULL: not yet made), and
     * the slot that is read the prompt in this round, for the others to copy (-1: none).
     */
    size_t query;
    size_t query_step;
    int32_t begun;
    int32_t *prompt;
    size_t n_prompt;
    int32_t prompt_slot;
    double *entropy; /* of all sequences; NULL: each has its own */
    int64_t tokens;  /* taken and not yet reported */
    /* Scratch of one round, [cap] each. */
    int32_t *acting; /* [n_acting] sequences whose turn ended in an action */
    size_t n_acting;
    int32_t *pending; /* [n_pending] sequences whose actions gather */
    size_t n_pending;
    int32_t pending_rounds; /* since the first of them */
    /* Action k of sequence i has the place i * max_calls + k. [cap * max_calls] each: the
     * answers of sequences that wait, and scratch. */
    int32_t max_calls;
    struct sr1__observation *observations;
    struct sr1__action *actions;
    int32_t *places;
    struct sr1__observation *answers;
    struct sr1__env_completion *received;
    struct sr1__env_completions
        *completions; /* NULL: actions are carried out between two rounds */
    double stopping;  /* since when all wait after a stop was asked for; 0: they do not */
};

/* ---- memory ---- */

static void free_observations(struct turn_loop *l)
{
    size_t n = (size_t)l->cap * (size_t)l->max_calls;

    for (size_t k = 0; l->observations && k < n; k++)
        sr1__observation_free(&l->observations[k]);
    sr1__free(l->observations);
}

static void free_turn_loop(struct turn_loop *l)
{
    sr1__env_completions_free(l->completions);
    for (int32_t i = 0; l->sequences && i < l->cap; i++)
        if (l->sequences[i].active)
            sr1__sequence_abandon(&l->sequences[i]);
    sr1__free(l->sequences);
    sr1__free(l->acting);
    sr1__free(l->pending);
    free_observations(l);
    sr1__free(l->actions);
    sr1__free(l->places);
    sr1__free(l->answers);
    sr1__free(l->received);
    sr1_free(l->prompt);
}

static sr1_status allocate_turn_loop(struct turn_loop *l)
{
    size_t cap = (size_t)l->cap, n = cap * (size_t)l->max_calls;

    SR1__CALLOC(l->sequences, cap, "rollout sequences");
    SR1__CALLOC(l->acting, cap, "rollout sequences");
    SR1__CALLOC(l->pending, cap, "rollout sequences");
    SR1__CALLOC(l->observations, n, "rollout sequences");
    SR1__CALLOC(l->actions, n, "rollout sequences");
    SR1__CALLOC(l->places, n, "rollout sequences");
    SR1__CALLOC(l->answers, n, "rollout sequences");
    SR1__CALLOC(l->received, n, "rollout sequences");
    return SR1_OK;
}

static void wake_engine(void *engine)
{
    const struct sr1__engine *e = engine;

    e->ops->wake(e->self);
}

/* The executor carries out the actions of an environment that lets one wait, and those of
 * an engine that goes on meanwhile. */
static sr1_status open_completions(struct turn_loop *l)
{
    const struct sr1__generation *g = l->g;
    int waits = (sr1__env_flags(g->env) & SR1_ENV_WAITS) != 0;

    if (g->env != g->rollout->env ||
        (sr1__engine_is(l->engine, SR1__ENGINE_SYNCHRONOUS) && !waits))
        return SR1_OK;
    SR1__TRY(sr1__env_completions_new(&l->completions, g->rollout->executor,
                                      l->cap * l->max_calls));
    sr1__env_completions_count(l->completions, &l->g->searches);
    if (l->engine->ops->wake)
        sr1__env_completions_on_answer(l->completions, wake_engine, l->engine);
    return SR1_OK;
}

static sr1_status init_turn_loop(struct turn_loop *l, struct sr1__generation *g,
                                 size_t worker)
{
    struct sr1__engine *e = &g->set.engines[worker];

    *l = (struct turn_loop){.g = g,
                            .engine = e,
                            .cap = g->set.n_slots,
                            .max_calls = sr1__env_max_calls(g->env),
                            .query = worker,
                            .query_step = (size_t)g->set.n_engines,
                            .prompt_slot = -1};
    if (sr1__engine_is(e, SR1__ENGINE_SYNCHRONOUS))
        l->entropy = &g->entropy[worker];
    SR1__TRY(allocate_turn_loop(l));
    return open_completions(l);
}

/* ---- the caller ---- */

/* Called with the generation's lock held: sequences and tokens are counted together. */
static void count_tokens(struct turn_loop *l)
{
    l->g->stats.policy_tokens += l->tokens;
    l->tokens = 0;
}

static sr1_status report_generation(struct turn_loop *l)
{
    struct sr1__generation *g = l->g;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&g->lock);
    count_tokens(l);
    if (g->options->progress)
        st = g->options->progress(g->options->user, (int64_t)g->finished,
                                  (int64_t)(g->n_queries * (size_t)g->group_size),
                                  g->stats.policy_tokens);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static sr1_status finish_sequence(struct turn_loop *l, int32_t i)
{
    struct sr1__sequence *s = &l->sequences[i];
    struct sr1__generation *g = l->g;
    const sr1_rollout_options *o = g->options;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__sequence_finish(s, &g->out[s->index]));
    l->engine->ops->close(l->engine->self, i);
    pthread_mutex_lock(&g->lock);
    g->finished++;
    count_tokens(l);
    if (o->finished)
        st = o->finished(o->user, s->index, g->out[s->index]);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- beginning sequences ---- */

static int32_t next_free_sequence(const struct turn_loop *l)
{
    int32_t i = 0;

    while (i < l->cap && l->sequences[i].active)
        i++;
    return i;
}

static int32_t count_active_sequences(const struct turn_loop *l)
{
    int32_t n = 0;

    for (int32_t i = 0; i < l->cap; i++)
        n += l->sequences[i].active;
    return n;
}

static void advance_query(struct turn_loop *l)
{
    sr1_free(l->prompt);
    l->prompt = NULL;
    l->prompt_slot = -1;
    l->begun = 0;
    l->query += l->query_step;
}

/* A query that asks nothing gives empty trajectories. */
static sr1_status admit_empty_query(struct turn_loop *l)
{
    for (int32_t k = 0; k < l->g->group_size; k++) {
        int32_t i = next_free_sequence(l);

        SR1__TRY(sr1__sequence_begin(&l->sequences[i], l->g, l->query, k, NULL, 0));
        l->sequences[i].stop = SR1_STOP_EMPTY_QUERY;
        SR1__TRY(finish_sequence(l, i));
    }
    advance_query(l);
    return SR1_OK;
}

static sr1_status admit_sequence(struct turn_loop *l, const sr1_query *query)
{
    int32_t i = next_free_sequence(l);
    struct sr1__sequence *s = &l->sequences[i];
    const struct sr1__generation_ops *ops = l->engine->ops;

    SR1__TRY(sr1__sequence_begin(s, l->g, l->query, l->begun++, l->prompt, l->n_prompt));
    s->entropy = l->entropy ? l->entropy : &l->g->entropy[s->index];
    s->held_by = i;
    if (l->prompt_slot >= 0) {
        s->held_by = l->prompt_slot;
        s->n_held = l->n_prompt;
    } else if (sr1__engine_is(l->engine, SR1__ENGINE_COPIES)) {
        l->prompt_slot = i;
    }
    pthread_mutex_lock(&l->g->lock);
    l->g->begun++;
    pthread_mutex_unlock(&l->g->lock);
    return ops->open ? ops->open(l->engine->self, i, query) : SR1_OK;
}

/* Begin n samples of the group: the prompt is fed to the first, the others copy it. */
static sr1_status admit_group(struct turn_loop *l, const sr1_query *query, int32_t n)
{
    if (!l->prompt)
        SR1__TRY(sr1__context(
            sr1__rollout_prompt(l->g->rollout, query, &l->prompt, &l->n_prompt),
            "query %zu", l->query));
    l->prompt_slot = -1;
    for (int32_t k = 0; k < n; k++)
        SR1__TRY(admit_sequence(l, query));
    if (l->begun == l->g->group_size)
        advance_query(l);
    return SR1_OK;
}

/* Sequences that must find room together: of a group all that are left, where the engine
 * copies its prompt. */
static int32_t room_needed(const struct turn_loop *l, int32_t left)
{
    if (!sr1__engine_is(l->engine, SR1__ENGINE_COPIES))
        return 1;
    return left < l->cap ? left : l->cap;
}

static sr1_status admit_sequences(struct turn_loop *l)
{
    while (l->query < l->g->n_queries) {
        sr1_query query = sr1__query_at(l->g->queries, l->query);
        int32_t room = l->cap - count_active_sequences(l);
        int32_t left = l->g->group_size - l->begun;

        if (room < room_needed(l, left))
            return SR1_OK;
        if (sr1__query_is_empty(&query))
            SR1__TRY(admit_empty_query(l));
        else
            SR1__TRY(admit_group(l, &query, left < room ? left : room));
    }
    return SR1_OK;
}

/* ---- the end of a turn ---- */

/* After an observation, or the protocol's notice (NULL), the next turn has begun. */
static sr1_status begin_next_turn(struct turn_loop *l, int32_t i,
                                  const struct sr1__observation *o)
{
    const struct sr1__generation_ops *ops = l->engine->ops;
    struct sr1__observation notice;
    sr1_status st;

    if (!ops->next_turn)
        return SR1_OK;
    if (o)
        return ops->next_turn(l->engine->self, i, o);
    SR1__TRY(sr1__env_notice(l->g->env, &notice));
    st = ops->next_turn(l->engine->self, i, &notice);
    sr1__observation_free(&notice);
    return st;
}

/* Sequence i has all its answers, which are freed. */
static sr1_status insert_observations(struct turn_loop *l, int32_t i)
{
    enum sr1__sequence_need need = SR1__SEQUENCE_NEEDS_TOKEN;
    struct sr1__observation *o = &l->observations[i * l->max_calls];
    int32_t n = sr1__sequence_actions(&l->sequences[i]);
    sr1_status st = sr1__sequence_observe(&l->sequences[i], o, &need);

    if (st == SR1_OK && need != SR1__SEQUENCE_DONE)
        st = begin_next_turn(l, i, o);
    for (int32_t k = 0; k < n; k++)
        sr1__observation_free(&o[k]);
    return st == SR1_OK && need == SR1__SEQUENCE_DONE ? finish_sequence(l, i) : st;
}

/* The answer to the action at this place has come; the last one of a message goes in with
 * the others. o is empty after it. */
static sr1_status receive_observation(struct turn_loop *l, int32_t place,
                                      struct sr1__observation *o)
{
    int32_t i = place / l->max_calls;

    l->observations[place] = *o;
    sr1__observation_init(o);
    return --l->sequences[i].owed == 0 ? insert_observations(l, i) : SR1_OK;
}

/* ---- tokens ---- */

/* The engine failed to continue this sequence: no failure of the policy. */
static sr1_status exclude_sequence(struct turn_loop *l, int32_t i,
                                   const struct sr1__error *why)
{
    struct sr1__generation *g = l->g;

    pthread_mutex_lock(&g->lock);
    if (g->stats.remote.failed++ == 0)
        g->outage = *why;
    pthread_mutex_unlock(&g->lock);
    l->sequences[i].stop = SR1_STOP_ERROR;
    return finish_sequence(l, i);
}

/* Token by token, until the sequence needs something else or a new turn has begun; *open:
 * it took all of them and wants more in this turn. -log p of what was sampled is an
 * unbiased guess at the entropy. */
static sr1_status append_tokens(struct sr1__sequence *s,
                                const struct sr1__engine_output *o, size_t *taken,
                                int *open, enum sr1__sequence_need *need)
{
    int32_t turn = s->turn;

    if (o->versioned)
        SR1__TRY(sr1__sequence_version(s, o->version));
    *open = 1;
    for (*taken = 0; *taken < o->n && *open; ++*taken) {
        float log_prob = o->log_probs ? o->log_probs[*taken] : 0.0F;

        SR1__TRY(sr1__sequence_append(s, o->ids[*taken], log_prob, need));
        *s->entropy += o->entropies ? (double)o->entropies[*taken] : -(double)log_prob;
        *open = *need == SR1__SEQUENCE_NEEDS_TOKEN && s->turn == turn;
    }
    *open &= *taken == o->n;
    return SR1_OK;
}

/* The output's tokens, and those that the engine had left out. */
static sr1_status take_tokens(struct turn_loop *l, struct sr1__engine_output *o,
                              int *open, enum sr1__sequence_need *need)
{
    struct sr1__sequence *s = &l->sequences[o->slot];
    const struct sr1__generation_ops *ops = l->engine->ops;
    size_t taken;

    SR1__TRY(append_tokens(s, o, &taken, open, need));
    l->tokens += (int64_t)taken;
    if (!ops->accept)
        return SR1_OK;
    SR1__TRY(ops->accept(l->engine->self, taken, *open, o));
    if (!*open)
        return SR1_OK;
    SR1__TRY(append_tokens(s, o, &taken, open, need));
    l->tokens += (int64_t)taken;
    return SR1_OK;
}

/* The engine's tokens are used up, and the turn is open. */
static void finish_output(struct sr1__sequence *s, enum sr1__engine_finish finish,
                          enum sr1__sequence_need *need)
{
    if (finish == SR1__ENGINE_TRUNCATED) {
        sr1__sequence_truncate(s, need);
    } else if (finish == SR1__ENGINE_ENDED) {
        s->stop = SR1_STOP_EOS;
        *need = SR1__SEQUENCE_DONE;
    }
}

/* Sequences that want an action afterwards are left in acting. */
static sr1_status take_sequence_output(void *self, struct sr1__engine_output *o)
{
    struct turn_loop *l = self;
    struct sr1__sequence *s = &l->sequences[o->slot];
    enum sr1__sequence_need need = SR1__SEQUENCE_NEEDS_TOKEN;
    int32_t turn = s->turn;
    int open = 1;

    if (o->finish == SR1__ENGINE_FAILED)
        return exclude_sequence(l, o->slot, o->error);
    SR1__TRY(take_tokens(l, o, &open, &need));
    if (open)
        finish_output(s, o->finish, &need);
    if (s->turn != turn && need != SR1__SEQUENCE_DONE)
        SR1__TRY(begin_next_turn(l, o->slot, NULL));
    if (need == SR1__SEQUENCE_NEEDS_ACTION)
        l->acting[l->n_acting++] = o->slot;
    return need == SR1__SEQUENCE_DONE ? finish_sequence(l, o->slot) : SR1_OK;
}

/* Every sequence that does not wait samples. */
static int next_sequence_input(void *self, struct sr1__engine_input *in)
{
    struct turn_loop *l = self;
    struct sr1__sequence *s = &l->sequences[in->slot];

    if (!s->active || s->waiting)
        return 0;
    in->ids = sr1__sequence_ids(s, &in->n_ids);
    in->n_held = s->n_held;
    in->held_by = s->held_by;
    in->max_tokens = sr1__sequence_tokens_left(s);
    in->rng = &s->rng;
    s->n_held = in->n_ids;
    s->held_by = in->slot;
    return 1;
}

/* ---- actions ---- */

static sr1_status call_environment(struct turn_loop *l, size_t n)
{
    struct sr1__generation *g = l->g;
    struct sr1__search_tally *before;
    double began = sr1__now();
    sr1_status st;

    pthread_mutex_lock(&g->rollout->env_lock);
    before = sr1__search_count_into(&g->searches);
    st = sr1__env_act_rows(g->env, l->actions, n, l->answers);
    (void)sr1__search_count_into(before);
    pthread_mutex_unlock(&g->rollout->env_lock);
    pthread_mutex_lock(&g->lock);
    g->stats.search_seconds += sr1__now() - began;
    pthread_mutex_unlock(&g->lock);
    return st;
}

static int all_sequences_wait(const struct turn_loop *l)
{
    for (int32_t i = 0; i < l->cap; i++)
        if (l->sequences[i].active && !l->sequences[i].waiting)
            return 0;
    return 1;
}

/* The actions of sequence i that may be carried out, appended to actions and places. The
 * others are answered here. */
static sr1_status list_actions_of(struct turn_loop *l, int32_t i, size_t *count)
{
    struct sr1__sequence *s = &l->sequences[i];
    int32_t n = sr1__sequence_actions(s), place = i * l->max_calls;

    s->owed = 0;
    for (int32_t k = 0; k < n; k++, place++) {
        const char *refusal = sr1__sequence_refusal(s, k);

        if (refusal) {
            SR1__TRY(sr1__env_refusal(l->g->env, refusal, &l->observations[place]));
            continue;
        }
        l->actions[*count] = sr1__sequence_action(s, k);
        l->places[(*count)++] = place;
        s->owed++;
    }
    return s->owed == 0 ? insert_observations(l, i) : SR1_OK;
}

/* Those of slots[n]: actions and places, *count of them. */
static sr1_status list_actions(struct turn_loop *l, const int32_t *slots, size_t n,
                               size_t *count)
{
    *count = 0;
    for (size_t j = 0; j < n; j++)
        SR1__TRY(list_actions_of(l, slots[j], count));
    return SR1_OK;
}

/* Carry out the actions that have gathered. */
static sr1_status execute_pending_actions(struct turn_loop *l)
{
    size_t n;
    sr1_status st;

    SR1__TRY(list_actions(l, l->pending, l->n_pending, &n));
    l->n_pending = 0;
    l->pending_rounds = 0;
    st = call_environment(l, n);
    if (st != SR1_OK)
        return st;
    for (size_t k = 0; k < n; k++) {
        if (st == SR1_OK)
            st = receive_observation(l, l->places[k], &l->answers[k]);
        else
            sr1__observation_free(&l->answers[k]);
    }
    return st;
}

/* Actions gather for search_batch_steps rounds, or until no sequence can go on. Rounds
 * are counted, not seconds, so that equal seeds give equal results; those of an engine
 * that samples by itself count nothing. */
static int may_gather(struct turn_loop *l)
{
    return sr1__engine_is(l->engine, SR1__ENGINE_SYNCHRONOUS) &&
           l->pending_rounds++ < l->g->rollout->limits.batch_steps &&
           !all_sequences_wait(l);
}

static sr1_status submit_actions(struct turn_loop *l)
{
    size_t n;

    SR1__TRY(list_actions(l, l->acting, l->n_acting, &n));
    return n ? sr1__env_completions_submit(l->completions, l->places, l->actions, n)
             : SR1_OK;
}

/* The actions of the sequences in acting go to the executor, or to the environment. */
static sr1_status execute_actions(struct turn_loop *l)
{
    size_t n = l->n_acting;

    for (size_t k = 0; k < n; k++)
        l->sequences[l->acting[k]].waiting = 1;
    if (l->completions)
        return submit_actions(l);
    memcpy(l->pending + l->n_pending, l->acting, n * sizeof(*l->pending));
    l->n_pending += n;
    if (l->n_pending == 0 || may_gather(l))
        return SR1_OK;
    return execute_pending_actions(l);
}

/* What answers actions may hang: a stop has some patience with it. */
static sr1_status check_stop(struct turn_loop *l)
{
    const atomic_int *stop = l->g->rollout->stop;

    if (!stop || !atomic_load(stop))
        return SR1_OK;
    if (l->stopping == 0)
        l->stopping = sr1__now();
    if (sr1__now() < l->stopping + STOP_S)
        return SR1_OK;
    return sr1__fail(SR1_E_CANCELLED, "actions that are not answered were given up: the "
                                      "rollout is to stop");
}

/* What has been answered meanwhile; when no sequence can go on, wait. */
static sr1_status collect_observations(struct turn_loop *l)
{
    size_t n = 0;
    sr1_status st = SR1_OK;

    while (st == SR1_OK && n == 0 && sr1__env_completions_pending(l->completions) > 0) {
        int idle = all_sequences_wait(l);
        double began = sr1__now();

        st = sr1__env_completions_collect(
            l->completions, idle ? SR1__ENGINE_PATIENCE : 0.0, l->received, &n);
        if (!idle)
            break;
        pthread_mutex_lock(&l->g->lock);
        l->g->stats.search_seconds += sr1__now() - began;
        pthread_mutex_unlock(&l->g->lock);
        if (st == SR1_OK && n == 0)
            st = report_generation(l);
        if (st == SR1_OK && n == 0)
            st = check_stop(l);
    }
    if (n > 0)
        l->stopping = 0;
    for (size_t k = 0; k < n; k++) {
        if (st == SR1_OK)
            st = receive_observation(l, l->received[k].row, &l->received[k].observation);
        else
            sr1__observation_free(&l->received[k].observation);
    }
    return st;
}

/* ---- a round ---- */

static sr1_status begin_turn_round(void *self, int *over)
{
    struct turn_loop *l = self;

    l->n_acting = 0;
    SR1__TRY(admit_sequences(l));
    *over = count_active_sequences(l) == 0;
    return l->completions && !*over ? collect_observations(l) : SR1_OK;
}

static sr1_status end_turn_round(void *self)
{
    SR1__TRY(report_generation(self));
    return execute_actions(self);
}

static const struct sr1__engine_client multi_turn_client = {
    .begin_round = begin_turn_round,
    .next_input = next_sequence_input,
    .take_output = take_sequence_output,
    .end_round = end_turn_round,
};

sr1_status sr1__multi_turn_run(void *generation, size_t worker)
{
    struct sr1__generation *g = generation;
    struct turn_loop l;
    sr1_status st = init_turn_loop(&l, g, worker);
    const struct sr1__engine_task task = {.sampling = &g->sampling,
                                          .env = g->env,
                                          .n_slots = l.cap,
                                          .stats = &g->stats,
                                          .lock = &g->lock};

    if (st == SR1_OK)
        st = sr1__engine_loop_run(&g->set, worker, &task, &multi_turn_client, &l);
    free_turn_loop(&l);
    return st;
}
