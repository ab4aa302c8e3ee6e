/* policy/level_branches.c - the steps of trajectories at the levels that they did not
 * choose, as a client of the engine loop.
 *
 * One slot, the prefix, reads each trajectory once, and keeps what the trajectory shares
 * with the one before (a group's prompt). A step has four slots, which copy the prefix up
 * to where they part: one behind the sampled thoughts, three behind the history, where
 * thoughts are sampled until an action begins. Then the step's action is scored behind
 * all four in one pass, which reads nothing but the action anew. */
#include "policy/level_branch.h"

#include "base/mem.h"

#include <searchr1/advantage.h>

#include <math.h>
#include <string.h>

#define LEVELS SR1_THINKING_LEVELS
#define PREFIX_SLOT 0 /* then those of the steps, four each */

/* One call of sr1__rollout_level_branches. */
struct level_work {
    struct sr1__level_branch_call call;
    struct sr1__level_branch_task *tasks; /* [n_tasks] trajectory by trajectory */
    size_t n_tasks;
    struct sr1__engine_set set;
    struct sr1__level_branch_stats stats;
    struct sr1__level_branch_stats stats_before; /* anything was compared */
    pthread_mutex_t lock;                        /* over stats */
};

/* A step being compared. */
struct branch_step {
    struct sr1__level_branch_task *task; /* NULL: free */
    struct sr1__level_branch branches[LEVELS];
    int32_t ready; /* all four messages are complete */
};

/* Those of one engine. */
struct level_client {
    struct level_work *w;
    struct sr1__engine *engine;
    size_t next, end; /* tasks that are left */
    struct {
        const int32_t *ids; /* of the trajectory whose steps were begun last */
        size_t n, n_held;   /* of ids: wanted, read */
    } prefix;
    int32_t copies;            /* branches that have yet to copy the prefix */
    struct branch_step *steps; /* [n_steps] */
    size_t n_steps;
    int32_t n_begun, n_ready; /* of them */
    struct sr1__level_branch_stats stats;
};

/* ---- beginning steps ---- */

static int32_t first_slot(const struct level_client *l, const struct branch_step *s)
{
    return PREFIX_SLOT + 1 + (int32_t)(s - l->steps) * LEVELS;
}

/* Of the first branch that failed; the step is given up then. */
static int32_t step_outcome(const struct branch_step *s)
{
    int32_t k = 0;

    while (k < LEVELS - 1 && s->branches[k].outcome == SR1__BRANCH_COMPARED)
        k++;
    return s->branches[k].outcome;
}

/* A step is compared, or given up: its slots are free. */
static void end_branch_step(struct level_client *l, struct branch_step *s)
{
    int32_t outcome = step_outcome(s);

    for (int32_t k = 0; k < LEVELS; k++) {
        l->engine->ops->close(l->engine->self, first_slot(l, s) + k);
        sr1__level_branch_free(&s->branches[k]);
    }
    s->task->out->outcome = outcome;
    l->stats.outcomes[outcome]++;
    l->n_begun--;
    l->n_ready -= s->ready;
    *s = (struct branch_step){0};
}

/* Tokens that the prefix, as far as it was read, and ids[0..n) begin with alike. */
static size_t common_prefix_length(const struct level_client *l, const int32_t *ids,
                                   size_t n)
{
    size_t k = 0;

    while (k < n && k < l->prefix.n_held && l->prefix.ids[k] == ids[k])
        k++;
    return k;
}

/* Tokens of the trajectory that its remaining steps, from task i on, need as prefix. */
static size_t prefix_length_needed(const struct level_client *l, size_t i)
{
    const struct sr1__level_branch_task *tasks = l->w->tasks;
    size_t at = 0;

    for (size_t k = i; k < l->end && tasks[k].t == tasks[i].t; k++)
        at = tasks[k].turn.behind - 1;
    return at;
}

/* The next step's trajectory becomes the prefix; 0: branches have yet to copy another. */
static int change_prefix(struct level_client *l)
{
    const int32_t *ids = sr1_trajectory_ids(l->w->tasks[l->next].t);

    if (l->prefix.ids == ids)
        return 1;
    if (l->copies > 0)
        return 0;
    l->prefix.n = prefix_length_needed(l, l->next);
    l->prefix.n_held = common_prefix_length(l, ids, l->prefix.n);
    l->prefix.ids = ids;
    return 1;
}

/* The next step takes this place, unless it has no room. */
static sr1_status admit_branch_step(struct level_client *l, struct branch_step *s)
{
    s->task = &l->w->tasks[l->next++];
    l->n_begun++;
    for (int32_t k = 0; k < LEVELS; k++) {
        SR1__TRY(sr1__level_branch_begin(&s->branches[k], &l->w->call, s->task, k));
        s->branches[k].held_by = PREFIX_SLOT;
    }
    if (step_outcome(s) == SR1__BRANCH_COMPARED)
        l->copies += LEVELS;
    else
        end_branch_step(l, s);
    return SR1_OK;
}

static sr1_status admit_branch_steps(struct level_client *l)
{
    for (size_t i = 0; i < l->n_steps; i++)
        while (!l->steps[i].task && l->next < l->end && change_prefix(l))
            SR1__TRY(admit_branch_step(l, &l->steps[i]));
    return SR1_OK;
}

/* Steps that are ready are scored before others take their slots. */
static sr1_status begin_level_round(void *self, int *over)
{
    struct level_client *l = self;

    l->copies = 0;
    if (l->n_ready == 0)
        SR1__TRY(admit_branch_steps(l));
    *over = l->n_begun == 0;
    return SR1_OK;
}

/* ---- inputs ---- */

static int next_prefix_input(struct level_client *l, struct sr1__engine_input *in)
{
    if (l->copies == 0 || l->prefix.n_held == l->prefix.n)
        return 0;
    in->ids = l->prefix.ids;
    in->n_ids = l->prefix.n;
    in->n_held = l->prefix.n_held;
    l->prefix.n_held = l->prefix.n;
    l->stats.tokens_fed += (int64_t)(in->n_ids - in->n_held);
    return 1;
}

/* A branch begins with a copy of the prefix, then samples thoughts, then has its action
 * scored. All sample in one pass: those that could wait while others copy or are scored.
 */
static int fill_branch_input(struct level_client *l, const struct branch_step *s,
                             const struct sr1__level_branch *b,
                             struct sr1__engine_input *in)
{
    if (b->held_by == PREFIX_SLOT) {
        in->n_ids = b->n_held;
    } else if (s->ready) {
        in->n_scored = s->task->turn.action.end - s->task->turn.action.begin;
        l->stats.tokens_alone += (int64_t)(in->n_ids - 1);
    } else if (b->sampling && l->copies == 0 && l->n_ready == 0) {
        in->max_tokens = 1;
    } else {
        return 0;
    }
    return 1;
}

static int next_level_input(void *self, struct sr1__engine_input *in)
{
    struct level_client *l = self;
    int32_t i = in->slot - PREFIX_SLOT - 1;
    struct branch_step *s;
    struct sr1__level_branch *b;

    if (in->slot == PREFIX_SLOT)
        return next_prefix_input(l, in);
    s = &l->steps[i / LEVELS];
    b = &s->branches[i % LEVELS];
    in->held_by = b->held_by;
    in->ids = b->ids.v;
    in->n_ids = b->ids.n;
    in->n_held = b->n_held;
    in->rng = &b->rng;
    if (!s->task || !fill_branch_input(l, s, b, in))
        return 0;
    b->held_by = in->slot;
    b->n_held = in->n_ids;
    l->stats.tokens_fed += (int64_t)(in->n_ids - in->n_held) - (in->n_scored > 0);
    return 1;
}

/* ---- outputs ---- */

static sr1_status store_scores(const struct level_client *l, const struct branch_step *s,
                               int32_t level, const struct sr1__engine_output *o)
{
    const struct sr1__level_branch_task *task = s->task;
    const struct sr1__thinking_turn *turn = &task->turn;

    SR1__TRY(sr1_thinking_confidence(l->w->call.o->confidence, o->log_probs, o->entropies,
                                     NULL, o->n, &task->out->confidences[level]));
    task->out->costs[level] = (double)s->branches[level].cost;
    if (level == task->out->level)
        memcpy(task->entropies + (turn->action.begin - turn->message.begin), o->entropies,
               o->n * sizeof *o->entropies);
    return SR1_OK;
}

static sr1_status take_level_output(void *self, struct sr1__engine_output *o)
{
    struct level_client *l = self;
    int32_t i = o->slot - PREFIX_SLOT - 1;
    struct branch_step *s = &l->steps[i / LEVELS];

    if (!o->ids)
        return store_scores(l, s, i % LEVELS, o);
    l->stats.tokens_made++;
    return sr1__level_branch_append(&s->branches[i % LEVELS], o->ids[0]);
}

static int is_sampling(const struct branch_step *s)
{
    for (int k = 0; k < LEVELS; k++)
        if (s->branches[k].sampling)
            return 1;
    return 0;
}

/* All four messages begin an action: they are scored next. What was asked for in words
 * goes on behind the history itself, which the slot of the sampled level has. */
static sr1_status complete_step(struct level_client *l, struct branch_step *s)
{
    int32_t own = first_slot(l, s) + s->task->out->level;

    for (int32_t k = 0; k < LEVELS; k++) {
        SR1__TRY(sr1__level_branch_finish(&s->branches[k]));
        if (s->branches[k].asked_in_words)
            s->branches[k].held_by = own;
    }
    s->ready = step_outcome(s) == SR1__BRANCH_COMPARED;
    l->n_ready += s->ready;
    return SR1_OK;
}

static void show_branches(const struct level_client *l, const struct branch_step *s)
{
    const struct sr1__level_branch_options *o = l->w->call.o;
    const struct sr1__thinking_turn *turn = &s->task->turn;

    pthread_mutex_lock(&l->w->lock);
    for (int32_t k = 0; k < LEVELS; k++)
        o->look(o->user, s->task->t, turn->turn, k,
                s->branches[k].ids.v + turn->message.begin,
                s->branches[k].ids.n - turn->message.begin,
                turn->action.end - turn->action.begin);
    pthread_mutex_unlock(&l->w->lock);
}

static sr1_status end_level_round(void *self)
{
    struct level_client *l = self;

    for (size_t i = 0; i < l->n_steps; i++) {
        struct branch_step *s = &l->steps[i];
        int scored = s->ready;

        if (!s->task)
            continue;
        if (!scored && !is_sampling(s))
            SR1__TRY(complete_step(l, s));
        if (scored && l->w->call.o->look)
            show_branches(l, s);
        if (scored || step_outcome(s) != SR1__BRANCH_COMPARED)
            end_branch_step(l, s);
    }
    return SR1_OK;
}

static const struct sr1__engine_client level_client = {
    .begin_round = begin_level_round,
    .next_input = next_level_input,
    .take_output = take_level_output,
    .end_round = end_level_round,
};

/* ---- engines ---- */

static void add_branch_stats(struct level_work *w,
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

/* Share `worker` of the tasks, by the engine of that index: a slot for the prefix, four
 * for each step. */
static sr1_status compare_share(void *arg, size_t worker)
{
    struct level_work *w = arg;
    const sr1_rollout *r = w->call.rollout;
    size_t workers = (size_t)r->n_engines;
    struct sr1__rollout_stats ignored = {0};
    struct level_client l = {.w = w,
                             .engine = &r->engines[worker],
                             .next = w->n_tasks * worker / workers,
                             .end = w->n_tasks * (worker + 1) / workers,
                             .n_steps = (size_t)(w->set.n_slots - 1) / LEVELS};
    const struct sr1__engine_task task = {.sampling = &w->call.o->sampling,
                                          .score_temperature = w->call.o->temperature,
                                          .env = r->env,
                                          .n_slots = 1 + (int32_t)l.n_steps * LEVELS,
                                          .stats = &ignored,
                                          .lock = &w->lock};
    sr1_status st;

    SR1__CALLOC(l.steps, l.n_steps, "thinking levels");
    st = sr1__engine_loop_run(&w->set, worker, &task, &level_client, &l);
    add_branch_stats(w, &l.stats);
    for (size_t i = 0; i < l.n_steps * LEVELS; i++)
        sr1__level_branch_free(&l.steps[i / LEVELS].branches[i % LEVELS]);
    sr1__free(l.steps);
    return st;
}

static void forget_comparisons(void *arg)
{
    struct level_work *w = arg;

    w->stats = w->stats_before;
}

/* ---- trajectories ---- */

static int is_readable(const struct sr1__thinking_turn *turn)
{
    return turn->step.level > 0 && turn->action.begin < turn->action.end;
}

/* What is known before anything is compared. */
static void init_branch_step(struct sr1__level_branch_step *s,
                             const struct sr1__thinking_turn *turn, int wanted)
{
    s->level = turn->step.level - 1;
    s->outcome = !wanted             ? SR1__BRANCH_EXCLUDED
                 : is_readable(turn) ? SR1__BRANCH_COMPARED
                                     : SR1__BRANCH_UNPARSED;
    for (int k = 0; k < LEVELS; k++)
        s->confidences[k] = s->costs[k] = NAN;
}

struct branch_columns {
    float *entropies, *costs; /* [m] of all trajectories */
};

/* The turns of one trajectory: their steps, tasks, and the column of costs. */
static void read_turns(struct level_work *w, sr1_trajectory *t, int wanted,
                       struct sr1__level_branch_step *out, float *entropies, float *costs)
{
    struct sr1__thinking_turn turn = {0};
    size_t policy = 0;

    for (int32_t u = 0; u < sr1_trajectory_turn_count(t); u++)
        init_branch_step(&out[u], &turn, 0);
    while (sr1__thinking_turn_next(t, &turn)) {
        struct sr1__level_branch_step *s = &out[turn.turn];

        init_branch_step(s, &turn, wanted);
        for (size_t i = turn.thoughts.begin; i < turn.thoughts.end; i++)
            costs[policy + i - turn.message.begin] = 1.0F;
        if (s->outcome == SR1__BRANCH_COMPARED)
            w->tasks[w->n_tasks++] = (struct sr1__level_branch_task){
                .t = t, .turn = turn, .entropies = entropies + policy, .out = s};
        else
            w->stats.outcomes[s->outcome]++;
        policy += turn.message.end - turn.message.begin;
    }
}

static sr1_status set_branch_columns(sr1_trajectory *const *t, size_t n,
                                     const uint8_t *wanted,
                                     const struct branch_columns *c)
{
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t m = sr1_trajectory_policy_count(t[i]);

        if (m > 0 && (!wanted || wanted[i])) {
            SR1__TRY(sr1_trajectory_set_column(t[i], SR1_COLUMN_LEVEL_ENTROPY,
                                               c->entropies + at, m));
            SR1__TRY(sr1_trajectory_set_column(t[i], SR1_COLUMN_THINKING_COST,
                                               c->costs + at, m));
        }
        at += m;
    }
    return SR1_OK;
}

static sr1_status compare_levels(struct level_work *w, sr1_trajectory *const *t, size_t n,
                                 const uint8_t *wanted,
                                 struct sr1__level_branch_step *out,
                                 const struct branch_columns *c)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        read_turns(w, t[i], !wanted || wanted[i], out, c->entropies + at, c->costs + at);
        out += sr1_trajectory_turn_count(t[i]);
        at += sr1_trajectory_policy_count(t[i]);
    }
    w->stats_before = w->stats;
    SR1__TRY(sr1__rollout_make_decoders(w->call.rollout));
    SR1__TRY(sr1__engine_set_run(&w->set));
    return set_branch_columns(t, n, wanted, c);
}

static sr1_status check_level_options(const sr1_rollout *r,
                                      const struct sr1__level_branch_options *o)
{
    const struct sr1__protocol *p = sr1__env_protocol(r->env);
    double c;

    if (!p->levels)
        return sr1__fail(SR1_E_CONFIG,
                         "thinking levels need the protocol rlvcr; this one is %s",
                         p->name);
    SR1__TRY(sr1__sampling_check(&o->sampling));
    return sr1_thinking_confidence(o->confidence, &(float){0}, &(float){0}, NULL, 1, &c);
}

sr1_status sr1__rollout_level_branches(sr1_rollout *r, sr1_trajectory *const *t, size_t n,
                                       const uint8_t *wanted,
                                       const struct sr1__level_branch_options *o,
                                       struct sr1__level_branch_step *out,
                                       struct sr1__level_branch_stats *stats)
{
    struct level_work w = {.call = {.rollout = r, .o = o}};
    struct branch_columns c = {0};
    size_t tokens = 0, turns = 0;
    int32_t threads;
    sr1_status st;

    SR1__TRY(check_level_options(r, o));
    w.call.action_tag = sr1__env_protocol(r->env)->tags[SR1__TAG_OPEN(SR1__ROLE_ACTION)];
    for (size_t i = 0; i < n; i++) {
        tokens += sr1_trajectory_policy_count(t[i]);
        turns += (size_t)sr1_trajectory_turn_count(t[i]);
    }
    w.tasks = sr1__calloc(turns + 1, sizeof *w.tasks);
    c.entropies = sr1__calloc(tokens + 1, sizeof *c.entropies);
    c.costs = sr1__calloc(tokens + 1, sizeof *c.costs);
    w.set = (struct sr1__engine_set){.engines = r->engines,
                                     .n_engines = r->n_engines,
                                     .pool = r->pool,
                                     .n_slots = sr1__rollout_decoder_rows(r) - 1,
                                     .least_slots = SR1__LEVEL_BRANCH_ROWS - 1,
                                     .name = "thinking levels",
                                     .run = compare_share,
                                     .forget = forget_comparisons,
                                     .arg = &w};
    pthread_mutex_init(&w.lock, NULL);
    threads = sr1__torch_threads_swap(r->threads);
    st = w.tasks && c.entropies && c.costs ? compare_levels(&w, t, n, wanted, out, &c)
                                           : sr1__fail_nomem("thinking levels");
    (void)sr1__torch_threads_swap(threads);
    pthread_mutex_destroy(&w.lock);
    if (st == SR1_OK && stats)
        *stats = w.stats;
    sr1__free(w.tasks);
    sr1__free(c.entropies);
    sr1__free(c.costs);
    return sr1__context(st, "thinking levels");
}
