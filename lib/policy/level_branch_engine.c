/* policy/level_branch_engine.c - steps at four levels, by one generation engine.
 *
 * The prefix slot is read a trajectory once; what it has in common with the one before (a
 * group's prompt) is kept. A step takes four slots that are copies of the prefix up to
 * where they part: one behind the thoughts that were thought, three behind the history,
 * for which thoughts are sampled until an action begins. Then the step's action is scored
 * behind all four in one pass, which reads nothing but the action anew. */
#include "policy/level_branch_engine.h"

#include "base/mem.h"

#include <searchr1/advantage.h>

#include <string.h>

#define LEVELS SR1_THINKING_LEVELS

struct branch_slot {
    struct sr1__level_branch_task *task; /* NULL: free */
    struct sr1__level_branch rows[LEVELS];
    int32_t outcome; /* other than COMPARED: given up */
};

struct branch_engine {
    struct sr1__level_branch_work *w;
    struct sr1__engine *engine;
    struct sr1__engine_task task;
    struct sr1__rollout_stats ignored; /* the engine's own counts */
    size_t next, end;                  /* tasks that are left */
    int32_t trunk, spare;              /* slots of the engine: the prefix, and none */
    const int32_t *trunk_ids;
    size_t trunk_len;
    struct branch_slot *slots; /* [n_slots] */
    size_t n_slots;
    /* scratch, [4 n_slots] each */
    struct sr1__engine_input *inputs;
    struct sr1__engine_output *outputs;
    size_t *asked;
    struct sr1__level_branch **drawing;
    struct branch_slot **of;
    float *log_probs, *entropies; /* of one pass */
    size_t cap_scores;
    struct sr1__level_branch_stats stats;
};

/* ---- memory ---- */

static void close_slot(struct branch_engine *l, struct branch_slot *s)
{
    for (int k = 0; k < LEVELS; k++) {
        l->engine->ops->close(l->engine->self, s->rows[k].at);
        sr1__level_branch_free(&s->rows[k]);
    }
    s->task = NULL;
}

static void branch_engine_free(struct branch_engine *l)
{
    for (size_t i = 0; l->slots && i < l->n_slots; i++)
        for (int k = 0; k < LEVELS; k++)
            sr1__level_branch_free(&l->slots[i].rows[k]);
    l->engine->ops->end(l->engine->self);
    sr1__free(l->slots);
    sr1__free(l->inputs);
    sr1__free(l->outputs);
    sr1__free(l->asked);
    sr1__free((void *)l->drawing);
    sr1__free((void *)l->of);
    sr1__free(l->log_probs);
    sr1__free(l->entropies);
}

static sr1_status allocate_slots(struct branch_engine *l)
{
    size_t n = l->n_slots * LEVELS;

    l->slots = sr1__calloc(l->n_slots, sizeof *l->slots);
    l->inputs = sr1__calloc(n, sizeof *l->inputs);
    l->outputs = sr1__calloc(n, sizeof *l->outputs);
    l->asked = sr1__calloc(n, sizeof *l->asked);
    l->drawing = sr1__calloc(n, sizeof(void *));
    l->of = sr1__calloc(n, sizeof(void *));
    if (!l->slots || !l->inputs || !l->outputs || !l->asked || !l->drawing || !l->of)
        return sr1__fail_nomem("thinking levels");
    for (size_t i = 0; i < n; i++)
        l->slots[i / LEVELS].rows[i % LEVELS].at = (int32_t)(2 + i);
    return SR1_OK;
}

/* The engine's slots: the prefix, one to spare, four for each step. */
static sr1_status branch_engine_init(struct branch_engine *l,
                                     struct sr1__level_branch_work *w, size_t worker)
{
    const sr1_rollout *r = w->call.rollout;
    size_t workers = (size_t)r->n_engines;

    *l = (struct branch_engine){.w = w, .engine = &r->engines[worker], .spare = 1};
    l->task = (struct sr1__engine_task){.sampling = &w->call.o->sampling,
                                        .env = r->env,
                                        .n_slots = w->rows,
                                        .stats = &l->ignored,
                                        .lock = &w->lock};
    l->next = w->n_tasks * worker / workers;
    l->end = w->n_tasks * (worker + 1) / workers;
    l->n_slots = (size_t)(w->rows - 2) / LEVELS;
    SR1__TRY(l->engine->ops->begin(l->engine->self, &l->task));
    return allocate_slots(l);
}

/* ---- the prefix ---- */

/* Slot *slot, with more tokens than n, keeps its first n. */
static sr1_status truncate_slot(struct branch_engine *l, int32_t *slot, size_t n)
{
    const struct sr1__generation_ops *ops = l->engine->ops;
    int32_t kept = l->spare;

    SR1__TRY(ops->copy(l->engine->self, *slot, kept, n));
    ops->close(l->engine->self, *slot);
    l->spare = *slot;
    *slot = kept;
    return SR1_OK;
}

/* Append ids to slots; tokens are sampled for those that take some. */
static sr1_status step_slots(struct branch_engine *l, const struct sr1__engine_input *in,
                             size_t n, size_t *n_out)
{
    for (size_t k = 0; k < n; k++)
        l->stats.tokens_fed += (int64_t)in[k].n_ids;
    return l->engine->ops->step(l->engine->self, in, n, l->outputs, n_out);
}

static sr1_status read_ids(struct branch_engine *l, int32_t slot, const int32_t *ids,
                           size_t n)
{
    struct sr1__engine_input in = {.slot = slot, .ids = ids, .n_ids = n, .copy_of = -1};
    size_t none;

    return step_slots(l, &in, 1, &none);
}

/* Tokens that the trunk and ids[0..n) begin with alike. */
static size_t common_prefix_length(const struct branch_engine *l, const int32_t *ids,
                                   size_t n)
{
    size_t k = 0;

    while (k < n && k < l->trunk_len && l->trunk_ids[k] == ids[k])
        k++;
    return k;
}

/* Tokens of the trajectory that its remaining steps, from task i on, need as prefix. */
static size_t prefix_length_needed(const struct branch_engine *l, size_t i)
{
    const struct sr1__level_branch_task *tasks = l->w->tasks;
    size_t at = 0;

    for (size_t k = i; k < l->end && tasks[k].t == tasks[i].t; k++)
        at = tasks[k].turn.behind - 1;
    return at;
}

/* Decode the prefix of the next step's trajectory, reusing the tokens it shares with
 * the current prefix. */
static sr1_status load_prefix(struct branch_engine *l)
{
    const sr1_trajectory *t = l->w->tasks[l->next].t;
    const int32_t *ids = sr1_trajectory_ids(t);
    size_t n, common;

    if (l->trunk_ids == ids)
        return SR1_OK;
    n = prefix_length_needed(l, l->next);
    common = common_prefix_length(l, ids, n);
    if (common < l->trunk_len)
        SR1__TRY(truncate_slot(l, &l->trunk, common));
    l->trunk_ids = ids;
    l->trunk_len = n;
    return common < n ? read_ids(l, l->trunk, ids + common, n - common) : SR1_OK;
}

/* ---- beginning a step ---- */

static int fits_context(const struct branch_engine *l, size_t tokens)
{
    return (int64_t)tokens <= l->w->call.rollout->limits.max_context;
}

static sr1_status fork_prefix(struct branch_engine *l, struct sr1__level_branch *row,
                              size_t n)
{
    row->base = n;
    return l->engine->ops->copy(l->engine->self, l->trunk, row->at, n);
}

/* Thoughts are asked for in words: the level's sentence goes to the end of what the
 * environment said last. *outcome: SR1__BRANCH_CONTEXT_FULL where the context ends before
 * it. */
static sr1_status append_level_prompt(struct branch_engine *l,
                                      struct sr1__level_branch *row, size_t history,
                                      int32_t *outcome)
{
    const sr1_rollout *r = l->w->call.rollout;
    const struct sr1__ids *open = &r->border.open_ids;
    struct sr1__ids words = {0};
    const char *text;
    sr1_status st;

    if (history < open->n ||
        memcmp(l->trunk_ids + history - open->n, open->v, open->n * sizeof *open->v) != 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "level_prompts: the prompt does not end with "
                                            "the opening of a message");
    SR1__TRY(sr1_thinking_level(row->level + 1, NULL, &text));
    st = sr1__tokenizer_encode(r->tokenizer, "\n", 1, SR1_ENCODE_ADDED_AS_TEXT, &words);
    if (st == SR1_OK)
        st = sr1__tokenizer_encode(r->tokenizer, text, strlen(text),
                                   SR1_ENCODE_ADDED_AS_TEXT, &words);
    for (size_t i = 0; i < open->n && st == SR1_OK; i++)
        st = sr1__ids_add(&words, open->v[i]);
    if (st == SR1_OK)
        st = fork_prefix(l, row, history - open->n);
    row->base += words.n;
    row->asked_in_words = 1;
    if (!fits_context(l, row->base))
        *outcome = SR1__BRANCH_CONTEXT_FULL;
    else if (st == SR1_OK)
        st = read_ids(l, row->at, words.v, words.n);
    sr1__ids_free(&words);
    return st;
}

/* Fork the prefix for one level. A level prompt can make its message longer than the
 * sampled one, so the context is checked again. */
static sr1_status begin_branch(struct branch_engine *l, struct sr1__level_branch *row,
                               const struct sr1__level_branch_task *task,
                               int32_t *outcome)
{
    size_t history = task->turn.message.begin;

    if (row->level == task->out->level) {
        SR1__TRY(fork_prefix(l, row, task->turn.behind - 1));
        return sr1__level_branch_begin_sampled(row, task);
    }
    if (row->level > 0 && l->w->call.o->prompts)
        SR1__TRY(append_level_prompt(l, row, history, outcome));
    else
        SR1__TRY(fork_prefix(l, row, history));
    SR1__TRY(sr1__level_branch_begin(row, &l->w->call, task));
    if (!fits_context(l, row->base + row->ids.n))
        *outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}

static void drop_slot(struct branch_engine *l, struct branch_slot *s)
{
    s->task->out->outcome = s->outcome;
    l->stats.outcomes[s->outcome]++;
    close_slot(l, s);
}

/* The next step takes this slot, unless it has no room. */
static sr1_status admit_branch_step(struct branch_engine *l, struct branch_slot *s)
{
    SR1__TRY(load_prefix(l));
    s->task = &l->w->tasks[l->next++];
    s->outcome = SR1__BRANCH_COMPARED;
    for (int32_t k = 0; k < LEVELS && s->outcome == SR1__BRANCH_COMPARED; k++) {
        s->rows[k].level = k;
        SR1__TRY(begin_branch(l, &s->rows[k], s->task, &s->outcome));
    }
    if (s->outcome != SR1__BRANCH_COMPARED)
        drop_slot(l, s);
    return SR1_OK;
}

static sr1_status admit_steps(struct branch_engine *l)
{
    for (size_t i = 0; i < l->n_slots; i++)
        while (!l->slots[i].task && l->next < l->end)
            SR1__TRY(admit_branch_step(l, &l->slots[i]));
    return SR1_OK;
}

/* ---- drawing thoughts ---- */

/* The branches that sample, with their slots; each is given what is new. */
static size_t collect_branches(struct branch_engine *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n_slots * LEVELS; i++) {
        struct branch_slot *s = &l->slots[i / LEVELS];
        struct sr1__level_branch *row = &s->rows[i % LEVELS];

        if (!s->task || !row->drawing)
            continue;
        l->inputs[n] = (struct sr1__engine_input){.slot = row->at,
                                                  .ids = row->ids.v + row->fed,
                                                  .n_ids = row->ids.n - row->fed,
                                                  .copy_of = -1,
                                                  .max_tokens = 1,
                                                  .rng = &row->rng};
        row->fed = row->ids.n;
        l->drawing[n] = row;
        l->of[n++] = s;
    }
    return n;
}

static sr1_status sample_thoughts(struct branch_engine *l)
{
    size_t n = collect_branches(l), n_out = 0;

    SR1__TRY(step_slots(l, l->inputs, n, &n_out));
    l->stats.tokens_made += (int64_t)n_out;
    for (size_t k = 0; k < n_out; k++)
        if (l->of[k]->outcome == SR1__BRANCH_COMPARED)
            SR1__TRY(sr1__level_branch_append(l->drawing[k], &l->w->call, l->of[k]->task,
                                              l->outputs[k].ids[0], &l->of[k]->outcome));
    for (size_t k = 0; k < n_out; k++)
        if (l->of[k]->task && l->of[k]->outcome != SR1__BRANCH_COMPARED)
            drop_slot(l, l->of[k]);
    return SR1_OK;
}

/* ---- scoring the action ---- */

static int is_slot_ready(const struct branch_slot *s)
{
    for (int k = 0; k < LEVELS; k++)
        if (s->rows[k].drawing)
            return 0;
    return s->task != NULL;
}

/* Cut the decoder's row back to the history and the thoughts that are kept, and append
 * the action. */
static sr1_status finish_branch(struct branch_engine *l, struct branch_slot *s,
                                struct sr1__level_branch *row)
{
    size_t history = s->task->turn.message.begin, keep;

    if (!row->stream)
        return SR1_OK;
    SR1__TRY(sr1__level_branch_finish(row, &l->w->call, s->task, &keep, &s->outcome));
    if (row->asked_in_words) {
        const struct sr1__level_branch *own = &s->rows[s->task->out->level];

        row->base = history;
        row->fed = 0;
        return l->engine->ops->copy(l->engine->self, own->at, row->at, history);
    }
    if (s->outcome != SR1__BRANCH_COMPARED || row->fed <= keep)
        return SR1_OK;
    row->fed = keep;
    return truncate_slot(l, &row->at, row->base + keep);
}

/* All rows of a slot as inputs; 0: it was given up. */
static sr1_status prepare_slot(struct branch_engine *l, struct branch_slot *s,
                               struct sr1__engine_input *inputs, size_t *asked,
                               int *ready)
{
    const struct sr1__span_of_tokens *action = &s->task->turn.action;

    for (int k = 0; k < LEVELS && s->outcome == SR1__BRANCH_COMPARED; k++) {
        struct sr1__level_branch *row = &s->rows[k];

        SR1__TRY(finish_branch(l, s, row));
        if (s->outcome == SR1__BRANCH_COMPARED &&
            !fits_context(l, row->base + row->ids.n))
            s->outcome = SR1__BRANCH_CONTEXT_FULL;
        inputs[k] = (struct sr1__engine_input){.slot = row->at,
                                               .ids = row->ids.v + row->fed,
                                               .n_ids = row->ids.n - row->fed};
        asked[k] = action->end - action->begin;
        l->stats.tokens_alone += (int64_t)(row->base + row->ids.n - 1);
    }
    *ready = s->outcome == SR1__BRANCH_COMPARED;
    if (!*ready)
        drop_slot(l, s);
    return SR1_OK;
}

static void show_branches(const struct branch_engine *l, const struct branch_slot *s)
{
    const struct sr1__level_branch_options *o = l->w->call.o;
    const struct sr1__level_branch_task *task = s->task;
    const struct sr1__thinking_turn *turn = &task->turn;
    const int32_t *sampled = sr1_trajectory_ids(task->t) + turn->message.begin;

    pthread_mutex_lock(&l->w->lock);
    for (int32_t k = 0; k < LEVELS; k++) {
        int own = k == task->out->level;

        o->look(o->user, task->t, turn->turn, k, own ? sampled : s->rows[k].ids.v,
                own ? turn->action.end - turn->message.begin : s->rows[k].ids.n,
                turn->action.end - turn->action.begin);
    }
    pthread_mutex_unlock(&l->w->lock);
}

static sr1_status store_branch_scores(const struct branch_engine *l,
                                      const struct branch_slot *s, size_t at)
{
    const struct sr1__level_branch_task *task = s->task;
    const struct sr1__thinking_turn *turn = &task->turn;
    size_t n = turn->action.end - turn->action.begin;

    for (int k = 0; k < LEVELS; k++) {
        const float *entropies = l->entropies + at + (size_t)k * n;

        SR1__TRY(sr1_thinking_confidence(l->w->call.o->confidence,
                                         l->log_probs + at + (size_t)k * n, entropies,
                                         NULL, n, &task->out->confidences[k]));
        task->out->costs[k] = (double)s->rows[k].cost;
        if (k == task->out->level)
            memcpy(task->entropies + (turn->action.begin - turn->message.begin),
                   entropies, n * sizeof *entropies);
    }
    task->out->outcome = SR1__BRANCH_COMPARED;
    return SR1_OK;
}

static sr1_status reserve_scores(struct branch_engine *l, size_t n)
{
    if (n <= l->cap_scores)
        return SR1_OK;
    sr1__free(l->log_probs);
    sr1__free(l->entropies);
    l->cap_scores = 0;
    l->log_probs = sr1__calloc(n, sizeof *l->log_probs);
    l->entropies = sr1__calloc(n, sizeof *l->entropies);
    if (!l->log_probs || !l->entropies)
        return sr1__fail_nomem("scores of actions");
    l->cap_scores = n;
    return SR1_OK;
}

/* The last id of an input is only predicted, not read. */
static sr1_status score_inputs(struct branch_engine *l, size_t n)
{
    for (size_t k = 0; k < n; k++)
        l->stats.tokens_fed += (int64_t)l->inputs[k].n_ids - 1;
    return l->engine->ops->score(l->engine->self, l->inputs, l->asked, n,
                                 l->w->call.o->temperature, l->log_probs, l->entropies);
}

/* Steps whose four messages are there are scored in one pass. */
static sr1_status score_ready_actions(struct branch_engine *l)
{
    size_t n = 0, m = 0, at = 0;

    for (size_t i = 0; i < l->n_slots; i++) {
        int ready;

        if (!is_slot_ready(&l->slots[i]))
            continue;
        SR1__TRY(prepare_slot(l, &l->slots[i], l->inputs + n * LEVELS,
                              l->asked + n * LEVELS, &ready));
        if (!ready)
            continue;
        m += LEVELS * l->asked[n * LEVELS];
        l->of[n++] = &l->slots[i];
    }
    SR1__TRY(reserve_scores(l, m));
    SR1__TRY(score_inputs(l, n * LEVELS));
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(store_branch_scores(l, l->of[i], at));
        if (l->w->call.o->look)
            show_branches(l, l->of[i]);
        at += LEVELS * l->asked[i * LEVELS];
        l->stats.outcomes[SR1__BRANCH_COMPARED]++;
        close_slot(l, l->of[i]);
    }
    return SR1_OK;
}

/* ---- one engine ---- */

static int is_engine_idle(const struct branch_engine *l)
{
    for (size_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].task)
            return 0;
    return 1;
}

static sr1_status compare_steps(struct branch_engine *l)
{
    for (;;) {
        SR1__TRY(admit_steps(l));
        if (is_engine_idle(l))
            return SR1_OK;
        SR1__TRY(sample_thoughts(l));
        SR1__TRY(score_ready_actions(l));
    }
}

static void add_branch_stats(struct sr1__level_branch_work *w,
                             const struct sr1__level_branch_stats *s)
{
    pthread_mutex_lock(&w->lock);
    for (int k = 0; k < SR1__BRANCH_OUTCOMES; k++)
        w->stats.outcomes[k] += s->outcomes[k];
    w->stats.tokens_made += s->tokens_made;
    w->stats.tokens_fed += s->tokens_fed;
    w->stats.tokens_alone += s->tokens_alone;
    pthread_mutex_unlock(&w->lock);
}

sr1_status sr1__level_branch_engine_run(void *arg, size_t worker)
{
    struct sr1__level_branch_work *w = arg;
    struct branch_engine l;
    sr1_status st = branch_engine_init(&l, w, worker);

    if (st == SR1_OK)
        st = compare_steps(&l);
    add_branch_stats(w, &l.stats);
    branch_engine_free(&l);
    return st;
}
