/* signal/reward/reward_set_score.c - trajectories scored by a set of weighted rewards,
 * whole and turn by turn:
 *
 *     total = sum over rewards of weight * score */
#include "signal/reward/reward_set.h"

#include <searchr1/ext/reward_set.h>

#include "signal/reward/turn_rewards.h"

#include "base/log.h"
#include "base/mem.h"
#include "environment/env/callback.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>
#include <string.h>

static sr1_status call_reward(const struct sr1__reward_entry *e,
                              const sr1_trajectory *const *t, size_t n, double *scores,
                              int32_t *states)
{
    struct sr1__error before;
    sr1_status status;

    sr1__callback_begin(&before);
    status = e->ops.score_states != NULL
                 ? e->ops.score_states(e->self, t, n, scores, states)
                 : e->ops.score(e->self, t, n, scores);
    return sr1__callback_end(&before, status, "reward", e->name);
}

/* The state of a score, which is NaN from here on where it is none. */
static sr1_status check_score(const struct sr1__reward_entry *e, size_t i, double *score,
                              int32_t *state)
{
    if (e->ops.score_states == NULL && isnan(*score) && e->ops.may_be_unknown)
        *state = SR1_REWARD_UNKNOWN;
    if (*state < SR1_REWARD_SCORED || *state > SR1_REWARD_NOT_APPLICABLE)
        return sr1__fail(SR1_E_CALLBACK,
                         "reward '%s' of trajectory %zu: state %d is no SR1_REWARD_*",
                         e->name, i, (int)*state);
    if (*state == SR1_REWARD_SCORED && !isfinite(*score))
        return sr1__fail(
            SR1_E_NUMERIC,
            "reward '%s' of trajectory %zu is not finite (%g); where it does "
            "not apply, or could not be had, its state says so (in Python: "
            "None, an exception object)",
            e->name, i, *score);
    if (*state != SR1_REWARD_SCORED)
        *score = NAN;
    return SR1_OK;
}

/* Trajectories of the data sources that one reward scores. */
struct scored_sources {
    const sr1_trajectory **t; /* [n] */
    size_t *index;            /* [n] their places among all */
    double *scores;           /* [n] */
    int32_t *states;          /* [n] */
    size_t n;
};

static void free_scored_sources(struct scored_sources *p)
{
    sr1__free(p->t);
    sr1__free(p->index);
    sr1__free(p->scores);
    sr1__free(p->states);
}

static sr1_status pick_by_source(const sr1_reward_set *set, const char *reward,
                                 const sr1_trajectory *const *t, size_t n,
                                 struct scored_sources *p)
{
    p->t = sr1__calloc(n, sizeof(*p->t));
    p->index = sr1__calloc(n, sizeof(*p->index));
    p->scores = sr1__calloc(n, sizeof(*p->scores));
    p->states = sr1__calloc(n, sizeof(*p->states));
    SR1__CHECK_ALLOC(p->t && p->index && p->scores && p->states,
                     "trajectories of a data source");
    for (size_t i = 0; i < n; i++) {
        int applies;

        SR1__TRY(sr1__source_rewards_apply(
            &set->sources, sr1_trajectory_data_source(t[i]), reward, &applies));
        if (!applies)
            continue;
        p->t[p->n] = t[i];
        p->index[p->n++] = i;
    }
    return SR1_OK;
}

/* To the trajectories of other sources the reward does not apply. */
static sr1_status call_reward_by_source(const sr1_reward_set *set,
                                        const struct sr1__reward_entry *e,
                                        const sr1_trajectory *const *t, size_t n,
                                        double *scores, int32_t *states)
{
    struct scored_sources p = {0};
    sr1_status status = pick_by_source(set, e->name, t, n, &p);

    if (status == SR1_OK && p.n > 0)
        status = call_reward(e, p.t, p.n, p.scores, p.states);
    for (size_t i = 0; i < n; i++)
        states[i] = SR1_REWARD_NOT_APPLICABLE;
    for (size_t k = 0; status == SR1_OK && k < p.n; k++) {
        scores[p.index[k]] = p.scores[k];
        states[p.index[k]] = p.states[k];
    }
    free_scored_sources(&p);
    return status;
}

/* One reward over all trajectories; scores[n], states[n]. */
static sr1_status score_by_reward(const sr1_reward_set *set,
                                  const struct sr1__reward_entry *e,
                                  const sr1_trajectory *const *t, size_t n,
                                  double *scores, int32_t *states)
{
    memset(scores, 0, n * sizeof *scores);
    memset(states, 0, n * sizeof *states);
    SR1__TRY(set->sources.n > 0 ? call_reward_by_source(set, e, t, n, scores, states)
                                : call_reward(e, t, n, scores, states));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_score(e, i, &scores[i], &states[i]));
    return SR1_OK;
}

/* Every reward and the total of every trajectory, in memory of its own. */
struct scores {
    double *parts;   /* [n * count], row by row; NaN where there is no score */
    int32_t *states; /* [n * count], SR1_REWARD_SCORED, ... */
    double *totals;  /* [n]; NaN where it is not known */
    double *column;  /* [n], room for one reward */
    int32_t *marks;  /* [n], likewise */
};

static void scores_free(struct scores *s)
{
    sr1__free(s->parts);
    sr1__free(s->states);
    sr1__free(s->totals);
    sr1__free(s->column);
    sr1__free(s->marks);
}

/* The weighted sum over the rewards that apply; NaN where one of them is not known, or
 * none applies. A reward of weight 0 is measured only: that it could not be had costs
 * nothing. */
static double weigh_scores(const sr1_reward_set *set, const double *parts,
                           const int32_t *states)
{
    double total = 0.0;
    size_t counted = 0, absent = 0;

    for (size_t k = 0; k < set->n; k++) {
        if (set->entries[k].weight == 0.0)
            continue;
        if (states[k] == SR1_REWARD_NOT_APPLICABLE) {
            absent++;
            continue;
        }
        total += set->entries[k].weight * parts[k]; /* NaN, unknown, stays NaN */
        counted++;
    }
    return counted == 0 && absent > 0 ? NAN : total;
}

static int has_unknown_total(const sr1_reward_set *set, const int32_t *states)
{
    for (size_t k = 0; k < set->n; k++)
        if (set->entries[k].weight != 0.0 && states[k] != SR1_REWARD_SCORED)
            return 1;
    return 0;
}

static sr1_status weigh_all_scores(const sr1_reward_set *set, size_t n, struct scores *s)
{
    for (size_t i = 0; i < n; i++) {
        const double *parts = s->parts + i * set->n;
        const int32_t *states = s->states + i * set->n;

        s->totals[i] = weigh_scores(set, parts, states);
        if (isinf(s->totals[i]) ||
            (isnan(s->totals[i]) && !has_unknown_total(set, states)))
            return sr1__fail(SR1_E_NUMERIC,
                             "total reward of trajectory %zu is not finite", i);
    }
    return SR1_OK;
}

static sr1_status score_by_all_rewards(const sr1_reward_set *set,
                                       const sr1_trajectory *const *t, size_t n,
                                       struct scores *s)
{
    s->parts = sr1__calloc(n, (set->n + 1) * sizeof *s->parts);
    s->states = sr1__calloc(n, (set->n + 1) * sizeof *s->states);
    s->totals = sr1__calloc(n, sizeof *s->totals);
    s->column = sr1__calloc(n, sizeof *s->column);
    s->marks = sr1__calloc(n, sizeof *s->marks);
    SR1__CHECK_ALLOC(s->parts && s->states && s->totals && s->column && s->marks,
                     "scores of trajectories");
    for (size_t k = 0; k < set->n; k++) {
        SR1__TRY(score_by_reward(set, &set->entries[k], t, n, s->column, s->marks));
        for (size_t i = 0; i < n; i++) {
            s->parts[i * set->n + k] = s->column[i];
            s->states[i * set->n + k] = s->marks[i];
        }
    }
    return weigh_all_scores(set, n, s);
}

static sr1_status check_trajectories(const sr1_reward_set *set,
                                     const sr1_trajectory *const *t, size_t n)
{
    size_t i;

    if (set == NULL || (t == NULL && n > 0))
        return sr1__fail(SR1_E_INVALID, "rewards: set or trajectories is NULL");
    for (i = 0; i < n; i++)
        if (t[i] == NULL)
            return sr1__fail(SR1_E_INVALID, "rewards: trajectory %zu is NULL", i);
    return sr1__reward_set_check_sources(set);
}

sr1_status sr1_reward_set_score(sr1_reward_set *set,
                                const sr1_trajectory *const *trajectories, size_t n,
                                double *parts, double *totals)
{
    struct scores s = {0};
    sr1_status status;

    SR1__TRY(check_trajectories(set, trajectories, n));
    if (n == 0)
        return SR1_OK;
    sr1__life_hold(&set->life);
    status = score_by_all_rewards(set, trajectories, n, &s);
    if (status == SR1_OK && parts != NULL)
        memcpy(parts, s.parts, n * set->n * sizeof *parts);
    if (status == SR1_OK && totals != NULL)
        memcpy(totals, s.totals, n * sizeof *totals);
    scores_free(&s);
    sr1_reward_set_free(set);
    return status;
}

/* Does none of those that count apply? */
static int has_no_reward(const sr1_reward_set *set, const int32_t *states)
{
    for (size_t k = 0; k < set->n; k++)
        if (set->entries[k].weight != 0.0 && states[k] != SR1_REWARD_NOT_APPLICABLE)
            return 0;
    return 1;
}

static sr1_status set_rewards(const sr1_reward_set *set, sr1_trajectory *const *t,
                              size_t n, const struct scores *s)
{
    struct sr1__reward_value *values = sr1__calloc(set->n + 1, sizeof *values);
    sr1_status status = SR1_OK;
    size_t i, k, unscored = 0;

    SR1__CHECK_ALLOC(values, "rewards of a trajectory");
    for (i = 0; status == SR1_OK && i < n; i++) {
        if (isnan(s->totals[i])) {
            unscored += has_no_reward(set, s->states + i * set->n);
            sr1__trajectory_mark_unscored(t[i]);
            continue;
        }
        for (k = 0; k < set->n; k++) {
            values[k].name = set->entries[k].name;
            values[k].value = s->parts[i * set->n + k];
            /* what does not apply is no part of this total */
            values[k].weight = s->states[i * set->n + k] == SR1_REWARD_NOT_APPLICABLE
                                   ? 0.0
                                   : set->entries[k].weight;
        }
        status = sr1__trajectory_set_reward(t[i], values, set->n, s->totals[i]);
    }
    sr1__free(values);
    if (unscored > 0)
        sr1__log(SR1_LOG_WARN,
                 "no reward applies to %zu of %zu trajectories, which are left out of "
                 "training; let at least one reward score every row",
                 unscored, n);
    return status;
}

sr1_status sr1_reward_set_apply(sr1_reward_set *set, sr1_trajectory *const *trajectories,
                                size_t n)
{
    const sr1_trajectory *const *t = (const sr1_trajectory *const *)trajectories;
    struct scores s = {0};
    sr1_status status;

    SR1__TRY(check_trajectories(set, t, n));
    if (n == 0)
        return SR1_OK;
    sr1__life_hold(&set->life);
    status = score_by_all_rewards(set, t, n, &s);
    if (status == SR1_OK)
        status = set_rewards(set, trajectories, n, &s);
    scores_free(&s);
    sr1_reward_set_forget(set);
    sr1_reward_set_free(set);
    return status;
}

/* ---- ahead of scoring ---- */

int32_t sr1_reward_set_begins(const sr1_reward_set *set)
{
    for (size_t k = 0; set != NULL && k < set->n; k++)
        if (set->entries[k].ops.begin != NULL)
            return 1;
    return 0;
}

static sr1_status begin_all(const sr1_reward_set *set, sr1_trajectory *trajectory)
{
    struct sr1__error before;

    for (size_t k = 0; k < set->n; k++) {
        const struct sr1__reward_entry *e = &set->entries[k];
        int applies;

        if (e->ops.begin == NULL || sr1__trajectory_excluded(trajectory))
            continue;
        SR1__TRY(sr1__source_rewards_apply(
            &set->sources, sr1_trajectory_data_source(trajectory), e->name, &applies));
        if (!applies)
            continue;
        sr1__callback_begin(&before);
        SR1__TRY(sr1__callback_end(&before, e->ops.begin(e->self, trajectory), "reward",
                                   e->name));
    }
    return SR1_OK;
}

sr1_status sr1_reward_set_begin(sr1_reward_set *set, sr1_trajectory *trajectory)
{
    sr1_status status;

    SR1__REQUIRE(set != NULL && trajectory != NULL, "rewards: set and trajectory");
    sr1__life_hold(&set->life);
    status = begin_all(set, trajectory);
    sr1_reward_set_free(set);
    return status;
}

void sr1_reward_set_forget(sr1_reward_set *set)
{
    if (set == NULL)
        return;
    sr1__life_hold(&set->life);
    for (size_t k = 0; k < set->n; k++)
        if (set->entries[k].ops.forget != NULL)
            set->entries[k].ops.forget(set->entries[k].self);
    sr1_reward_set_free(set);
}

/* ---- turn by turn ---- */

/* One reward over the turns of one trajectory; values[turns]. */
static sr1_status score_turns_by_reward(const struct sr1__reward_entry *e,
                                        const sr1_trajectory *t, size_t i, size_t turns,
                                        double *values)
{
    struct sr1__error before;
    size_t k;

    memset(values, 0, turns * sizeof *values);
    if (e->ops.score_turns == NULL)
        return SR1_OK;
    sr1__callback_begin(&before);
    SR1__TRY(sr1__callback_end(&before, e->ops.score_turns(e->self, t, values), "reward",
                               e->name));
    for (k = 0; k < turns; k++)
        if (!(isfinite(values[k]) && values[k] >= 0))
            return sr1__fail(SR1_E_NUMERIC,
                             "reward '%s' of turn %zu of trajectory %zu is %g; it must "
                             "be 0 or more",
                             e->name, k, i, values[k]);
    return SR1_OK;
}

/* Add to totals[turns] the parts of `whole` in proportion to values, evenly where all are
 * 0. */
static void split_by_turns(double whole, const double *values, size_t turns,
                           double *totals)
{
    double sum = 0;
    size_t k;

    for (k = 0; k < turns; k++)
        sum += values[k];
    for (k = 0; k < turns; k++)
        totals[k] += sum > 0 ? whole * (values[k] / sum) : whole * (1.0 / (double)turns);
}

/* What is scored turn by turn. */
struct turn_scores {
    double *parts;  /* [turns * count] */
    double *totals; /* [turns] */
    double *column; /* [turns], room for one trajectory's */
    double *wholes; /* [n] one reward of each trajectory */
    int32_t *marks; /* [n] and its states */
};

static void turn_scores_free(struct turn_scores *s)
{
    sr1__free(s->parts);
    sr1__free(s->totals);
    sr1__free(s->column);
    sr1__free(s->wholes);
    sr1__free(s->marks);
}

static sr1_status score_entry_turns(const sr1_reward_set *set, size_t k,
                                    const sr1_trajectory *const *t, size_t n,
                                    const int64_t *begin, struct turn_scores *s)
{
    const struct sr1__reward_entry *e = &set->entries[k];
    size_t i, j;

    SR1__TRY(score_by_reward(set, e, t, n, s->wholes, s->marks));
    for (i = 0; i < n; i++) {
        size_t turns = (size_t)(begin[i + 1] - begin[i]), at = (size_t)begin[i];

        if (s->marks[i] == SR1_REWARD_NOT_APPLICABLE)
            continue;
        SR1__TRY(score_turns_by_reward(e, t[i], i, turns, s->column));
        if (e->weight != 0.0) /* measured only: what is unknown is not 0 times NaN */
            split_by_turns(e->weight * s->wholes[i], s->column, turns, s->totals + at);
        for (j = 0; j < turns; j++)
            s->parts[(at + j) * set->n + k] = s->column[j];
    }
    return SR1_OK;
}

static sr1_status score_all_turns(const sr1_reward_set *set,
                                  const sr1_trajectory *const *t, size_t n,
                                  const int64_t *begin, struct turn_scores *s)
{
    size_t turns = (size_t)begin[n], k;

    s->parts = sr1__calloc(turns + 1, (set->n + 1) * sizeof *s->parts);
    s->totals = sr1__calloc(turns + 1, sizeof *s->totals);
    s->column = sr1__calloc(turns + 1, sizeof *s->column);
    s->wholes = sr1__calloc(n + 1, sizeof *s->wholes);
    s->marks = sr1__calloc(n + 1, sizeof *s->marks);
    SR1__CHECK_ALLOC(s->parts && s->totals && s->column && s->wholes && s->marks,
                     "scores of turns");
    for (k = 0; k < set->n; k++)
        if (set->entries[k].ops.level == SR1_REWARD_TURN)
            SR1__TRY(score_entry_turns(set, k, t, n, begin, s));
    return SR1_OK;
}

static sr1_status check_turns(const sr1_trajectory *const *t, size_t n,
                              const int64_t *begin)
{
    size_t i;

    if (begin == NULL || begin[0] != 0)
        return sr1__fail(SR1_E_INVALID, "rewards: turn_begin is NULL or not from 0");
    for (i = 0; i < n; i++)
        if (begin[i + 1] - begin[i] != sr1_trajectory_turn_count(t[i]))
            return sr1__fail(SR1_E_INVALID,
                             "rewards: trajectory %zu has %d turns, turn_begin says %lld",
                             i, (int)sr1_trajectory_turn_count(t[i]),
                             (long long)(begin[i + 1] - begin[i]));
    return SR1_OK;
}

sr1_status sr1_reward_set_score_turns(sr1_reward_set *set,
                                      const sr1_trajectory *const *trajectories, size_t n,
                                      const int64_t *turn_begin, double *parts,
                                      double *totals)
{
    struct turn_scores s = {0};
    sr1_status status;
    size_t turns;

    SR1__TRY(check_trajectories(set, trajectories, n));
    SR1__TRY(check_turns(trajectories, n, turn_begin));
    turns = (size_t)turn_begin[n];
    sr1__life_hold(&set->life);
    status = score_all_turns(set, trajectories, n, turn_begin, &s);
    if (status == SR1_OK && parts != NULL)
        memcpy(parts, s.parts, turns * set->n * sizeof *parts);
    if (status == SR1_OK && totals != NULL)
        memcpy(totals, s.totals, turns * sizeof *totals);
    turn_scores_free(&s);
    sr1_reward_set_free(set);
    return status;
}

/* ---- turns of a trajectory that is scored already ---- */

static sr1_status split_scored(const sr1_reward_set *set, const sr1_trajectory *t,
                               size_t i, double *values, double *totals)
{
    size_t turns = (size_t)sr1_trajectory_turn_count(t);

    for (size_t k = 0; k < set->n; k++) {
        const struct sr1__reward_entry *e = &set->entries[k];
        double whole;

        if (e->ops.level != SR1_REWARD_TURN || e->weight == 0.0)
            continue;
        SR1__TRY(sr1_trajectory_reward_component(t, k, NULL, &whole, NULL));
        if (isnan(whole)) /* it does not apply */
            continue;
        SR1__TRY(score_turns_by_reward(e, t, i, turns, values));
        split_by_turns(e->weight * whole, values, turns, totals);
    }
    return SR1_OK;
}

sr1_status sr1__reward_split_turns(sr1_reward_set *set, const sr1_trajectory *t, size_t i,
                                   double *totals)
{
    size_t turns = (size_t)sr1_trajectory_turn_count(t);
    double *values = sr1__calloc(turns + 1, sizeof *values);
    sr1_status status;

    SR1__CHECK_ALLOC(values, "scores of turns");
    sr1__life_hold(&set->life);
    status = split_scored(set, t, i, values, totals);
    sr1_reward_set_free(set);
    sr1__free(values);
    return status;
}
