/* train/score_rewards.c - compute the rewards of a step's new trajectories: the
 * configured rewards, those of level turn also turn by turn, and the penalty for length.
 * Every reward is computed once.
 *
 *     overlong_buffer   off the reward, as a part of this name: nothing up to
 *                       max - buffer sampled tokens, then in a line, at most
 *                       overlong_penalty (DAPO, Yu et al. 2025, eq. 13) */
#include "train/ranks.h"
#include "train/step_batch.h"

#include <searchr1/ext/reward_set.h>

#include "base/clock.h"
#include "base/mem.h"
#include "signal/reward/turn_rewards.h"
#include "train/sampler.h"
#include "environment/trajectory/trajectory.h"

/* ---- length ---- */

/* What a response loses for its length: 0 or less. */
static sr1_status compute_overlong(const struct sr1__settings *set,
                                   const sr1_trajectory *t, double *penalty)
{
    int64_t length = (int64_t)sr1_trajectory_policy_count(t);

    *penalty = 0.0;
    if (set->overlong_buffer == 0)
        return SR1_OK;
    return sr1_overlong_penalty(&length, 1, set->max_tokens, set->overlong_buffer,
                                set->overlong_penalty, penalty);
}

/* One more part of the reward. */
static sr1_status add_overlong(const struct sr1__settings *set, sr1_trajectory *t)
{
    size_t n = sr1_trajectory_reward_component_count(t);
    struct sr1__reward_value *parts = sr1__calloc(n + 1, sizeof(*parts));
    double penalty;
    sr1_status st =
        parts ? compute_overlong(set, t, &penalty) : sr1__fail_nomem("overlong penalty");

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_trajectory_reward_component(t, i, &parts[i].name, &parts[i].value,
                                             &parts[i].weight);
    if (st == SR1_OK) {
        parts[n] = (struct sr1__reward_value){"overlong", penalty, 1.0};
        st = sr1__trajectory_set_reward(t, parts, n + 1,
                                        sr1_trajectory_reward(t) + penalty);
    }
    sr1__free(parts);
    return st;
}

/* ---- greedy rollouts ---- */

/* Reward of each question's greedy rollout; NaN where its search failed: there is nothing
 * to compare with. */
static sr1_status score_greedy(const sr1_trainer *tr, const struct sr1__round *round,
                               double *rewards)
{
    SR1__TRY(sr1__score_shared(tr->dist, tr->rewards, round->greedy, round->n_queries, 1,
                               rewards));
    for (size_t q = 0; q < round->n_queries; q++) {
        double penalty = 0.0;

        SR1__TRY(compute_overlong(&tr->set, round->greedy[q], &penalty));
        rewards[q] += penalty;
    }
    return SR1_OK;
}

static void free_greedy(struct sr1__round *round)
{
    for (size_t q = 0; q < round->n_queries; q++)
        sr1_trajectory_free(round->greedy[q]);
    sr1__free(round->greedy);
    round->greedy = NULL;
}

/* The reward of each question's greedy rollout, for each of its group. */
static sr1_status score_baselines(struct sr1__step_batch *b)
{
    struct sr1__round *round = &b->round;
    size_t n = round->n_queries, group = (size_t)b->group_size;
    double *rewards;
    sr1_status st;

    if (!round->greedy)
        return SR1_OK;
    rewards = sr1__calloc(n + 1, sizeof(*rewards));
    SR1__CHECK_ALLOC(rewards, "rewards of greedy rollouts");
    st = sr1__context(score_greedy(b->tr, round, rewards), "greedy rollouts");
    for (size_t i = 0; st == SR1_OK && i < n * group; i++)
        b->baselines[round->begin + i] = rewards[i / group];
    sr1__free(rewards);
    if (st == SR1_OK)
        free_greedy(round);
    return st;
}

/* ---- rewards ---- */

static sr1_status score_outcomes(struct sr1__step_batch *b)
{
    double began = sr1__now();
    sr1_status st = sr1__apply_shared(b);

    sr1__metrics_add(b->metrics, "seconds_reward", sr1__now() - began, SR1__SUM);
    return st;
}

/* The parts of rewards of level turn, turn by turn; 0 in trajectories that are dropped.
 */
static sr1_status score_turns(struct sr1__step_batch *b)
{
    double *grown;

    for (size_t i = b->n_scored; i < b->n; i++)
        b->turn_begin[i + 1] = b->turn_begin[i] + sr1_trajectory_turn_count(b->t[i]);
    grown =
        sr1__realloc(b->turn_rewards, (size_t)b->turn_begin[b->n] + 1, sizeof(*grown));
    if (!grown)
        return sr1__fail_nomem("rewards of turns");
    b->turn_rewards = grown;
    for (size_t i = b->n_scored; i < b->n; i++) {
        double *turns = grown + b->turn_begin[i];

        for (int64_t k = 0; k < b->turn_begin[i + 1] - b->turn_begin[i]; k++)
            turns[k] = 0.0;
        if (sr1__counts_in_group(b, i))
            SR1__TRY(sr1__reward_split_turns(b->tr->rewards, b->t[i], i, turns));
    }
    return SR1_OK;
}

static sr1_status shape_lengths(struct sr1__step_batch *b)
{
    for (size_t i = b->n_scored; b->tr->set.overlong_buffer && i < b->n; i++)
        if (sr1__counts_in_group(b, i))
            SR1__TRY(add_overlong(&b->tr->set, b->t[i]));
    return SR1_OK;
}

/* While rewards that were begun are still at work, forward passes fill what does
 * not depend on them. */
static sr1_status score_new(struct sr1__step_batch *b)
{
    SR1__TRY(score_baselines(b));
    sr1__drop_failed(b);
    if (sr1_reward_set_begins(b->tr->rewards))
        SR1__TRY(sr1__fill_log_probs_early(b));
    SR1__TRY(score_outcomes(b));
    sr1__drop_unscored(b);
    SR1__TRY(score_turns(b));
    SR1__TRY(shape_lengths(b));
    SR1__TRY(sr1__sampler_learn(b->tr, b->round.rows, b->round.n_queries,
                                b->t + b->round.begin, b->group_size));
    b->n_scored = b->n;
    return SR1_OK;
}

sr1_status sr1__score_rewards(struct sr1__step_batch *b)
{
    if (b->n_scored < b->n)
        SR1__TRY(score_new(b));
    return sr1__drop_untrained(b);
}
