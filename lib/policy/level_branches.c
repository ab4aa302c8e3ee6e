/* policy/level_branches.c - the steps of trajectories at the levels that they did not
 * choose: which steps there are, engines that compare them, and what is kept of it for
 * each token.
 */
#include "policy/level_branch_engine.h"

#include "base/log.h"
#include "base/mem.h"

#include <searchr1/advantage.h>

#include <math.h>

#define LEVELS SR1_THINKING_LEVELS

/* When memory runs out, again with half the rows. */
static sr1_status run_branch_engines(struct sr1__level_branch_work *w)
{
    sr1_rollout *r = w->call.rollout;
    struct sr1__level_branch_stats before = w->stats;
    sr1_status st;

    for (w->rows = sr1__rollout_decoder_rows(r);; w->rows /= 2) {
        st =
            sr1__pool_run(r->pool, (size_t)r->n_engines, sr1__level_branch_engine_run, w);
        if ((st != SR1_E_NOMEM && st != SR1_E_DEVICE_NOMEM) ||
            w->rows / 2 < SR1__LEVEL_BRANCH_ROWS)
            return st;
        sr1__log(SR1_LOG_WARN, "out of memory at thinking levels; trying %d rows at once",
                 (int)(w->rows / 2));
        w->stats = before;
    }
}

static int is_readable(const struct sr1__thinking_turn *turn)
{
    return turn->step.level > 0 && turn->action.begin < turn->action.end;
}

/* What is known before anything is compared. */
static void init_step(struct sr1__level_branch_step *s,
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
static void read_turns(struct sr1__level_branch_work *w, sr1_trajectory *t, int wanted,
                       struct sr1__level_branch_step *out, float *entropies, float *costs)
{
    struct sr1__thinking_turn turn = {0};
    size_t policy = 0;

    for (int32_t u = 0; u < sr1_trajectory_turn_count(t); u++)
        init_step(&out[u], &turn, 0);
    while (sr1__thinking_turn_next(t, &turn)) {
        struct sr1__level_branch_step *s = &out[turn.turn];

        init_step(s, &turn, wanted);
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

static sr1_status compare_levels(struct sr1__level_branch_work *w,
                                 sr1_trajectory *const *t, size_t n,
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
    SR1__TRY(sr1__rollout_make_decoders(w->call.rollout));
    SR1__TRY(run_branch_engines(w));
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
    struct sr1__level_branch_work w = {.call = {.rollout = r, .o = o}};
    struct branch_columns c = {0};
    size_t tokens = 0, turns = 0;
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
    pthread_mutex_init(&w.lock, NULL);
    st = w.tasks && c.entropies && c.costs ? compare_levels(&w, t, n, wanted, out, &c)
                                           : sr1__fail_nomem("thinking levels");
    pthread_mutex_destroy(&w.lock);
    if (st == SR1_OK && stats)
        *stats = w.stats;
    sr1__free(w.tasks);
    sr1__free(c.entropies);
    sr1__free(c.costs);
    return sr1__context(st, "thinking levels");
}
