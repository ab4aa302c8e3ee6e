/* train/compute_advantages.c - compute the advantages of trajectories or of their policy
 * tokens: KL in the reward, then the configured estimator over all trajectories that are
 * compared. */
#include "train/advantage_input.h"

#include "base/mem.h"

#include <string.h>

/* ---- the estimator ---- */

static sr1_status run_estimator(const sr1_trainer *tr, struct sr1__advantage_input *l)
{
    const struct sr1__settings *set = &tr->set;
    int has_baselines = set->estimator.needs & SR1_ADVANTAGE_NEEDS_BASELINES;
    int has_norms = set->estimator.needs & SR1_ADVANTAGE_NEEDS_SCORE_NORMS;
    sr1_advantage_batch b = {.struct_size = sizeof(b),
                             .n = l->n,
                             .rewards = l->rewards,
                             .groups = l->groups,
                             .token_begin = l->token_begin,
                             .token_turns = l->token_turns,
                             .turn_begin = l->turn_begin,
                             .token_rewards = l->token_rewards,
                             .values = tr->critics ? l->values : NULL,
                             .completed = l->completed,
                             .n_components = l->n_components,
                             .component_names = l->component_names,
                             .components = l->components,
                             .component_weights = l->component_weights,
                             .component_absent = l->component_absent,
                             .turn_rewards = l->turn_rewards,
                             .turn_states = l->turn_states,
                             .turn_tags = l->levels ? l->turn_tags : NULL,
                             .confidences = l->levels ? l->confidences : NULL,
                             .thinking_costs = l->levels ? l->costs : NULL,
                             .result_turn = l->result_turn,
                             .baselines = has_baselines ? l->baselines : NULL,
                             .step_tokens = set->step_on_level ? l->step_tokens : NULL,
                             .score_norms = has_norms ? l->score_norms : NULL,
                             .token_places = l->token_places};
    sr1_advantage_outputs out = {.struct_size = sizeof(out),
                                 .advantages = l->advantages,
                                 .token_advantages = l->token_advantages,
                                 .returns = l->returns};

    if (!(set->estimator.gives & SR1_ADVANTAGE_GIVES_RETURNS))
        out.returns = NULL;
    return sr1_advantage_estimate(set->estimator.name, &b, &set->advantage_options, &out,
                                  NULL);
}

/* ---- back into trajectories ---- */

static sr1_status set_token_column(const struct sr1__advantage_input *l, size_t i,
                                   int32_t column, const float *from)
{
    return sr1_trajectory_set_column(l->t[i], column, from + l->token_begin[i],
                                     (size_t)(l->token_begin[i + 1] - l->token_begin[i]));
}

static sr1_status set_advantages(const struct sr1__advantage_input *l, int32_t gives)
{
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(sr1_trajectory_set_advantage(l->t[i], l->advantages[i]));
        if (gives & SR1_ADVANTAGE_GIVES_TOKENS)
            SR1__TRY(set_token_column(l, i, SR1_COLUMN_ADVANTAGE, l->token_advantages));
        if (gives & SR1_ADVANTAGE_GIVES_RETURNS)
            SR1__TRY(set_token_column(l, i, SR1_COLUMN_RETURN, l->returns));
    }
    return SR1_OK;
}

static sr1_status estimate_all(struct sr1__step_batch *b, const struct sr1__batch_view *v)
{
    struct sr1__advantage_input l = {0};
    sr1_status st = sr1__expand_levels(b, v, &l.levels);

    if (st == SR1_OK)
        st = sr1__advantage_input_fill(&l, b, v);
    if (st == SR1_OK)
        st = run_estimator(b->tr, &l);
    if (st == SR1_OK)
        st = set_advantages(&l, b->tr->set.estimator.gives);
    sr1__advantage_input_free(&l);
    return st;
}

/* ---- KL in the reward ---- */

/* token_rewards -= coef * KL of each token between the policy and the reference (Ouyang
 * et al. 2022, eq. 2, by token): the policy that sampled, or with a correction the
 * present one. *mean receives that of the tokens. */
static sr1_status penalise_one(const sr1_trainer *tr, sr1_trajectory *t, double *rewards,
                               float *column, double *mean)
{
    size_t n = sr1_trajectory_policy_count(t);
    const float *reference = sr1_trajectory_column(t, SR1_COLUMN_REFERENCE);
    const float *policy = tr->set.advantage_columns & 1u << SR1_COLUMN_OLD
                              ? sr1_trajectory_column(t, SR1_COLUMN_OLD)
                              : sr1_trajectory_policy_log_probs(t);

    memset(rewards, 0, n * sizeof(*rewards));
    SR1__TRY(sr1_kl_penalty(tr->set.kl_kind, tr->kl.coef, policy, reference, n, rewards,
                            mean));
    for (size_t k = 0; k < n; k++)
        column[k] = (float)rewards[k];
    return sr1_trajectory_set_column(t, SR1_COLUMN_REWARD, column, n);
}

/* The KL of the batch is the mean over trajectories of the means over their tokens, 0
 * without any (verl's apply_kl_penalty). */
static sr1_status penalise_all(struct sr1__step_batch *b, const struct sr1__batch_view *v,
                               double *rewards, float *column)
{
    double sum = 0.0;

    for (size_t i = 0; i < v->n; i++) {
        double mean = 0.0;

        if (sr1_trajectory_policy_count(v->t[i]) > 0)
            SR1__TRY(penalise_one(b->tr, v->t[i], rewards, column, &mean));
        sum += mean;
    }
    b->reward_kl = v->n ? sum / (double)v->n : 0.0;
    sr1__metrics_add(b->metrics, "reward_kl", b->reward_kl, SR1__LAST);
    return SR1_OK;
}

static sr1_status penalise_kl(struct sr1__step_batch *b, const struct sr1__batch_view *v)
{
    size_t most = 1;
    double *rewards;
    float *column;
    sr1_status st;

    if (!b->tr->set.kl_in_reward)
        return SR1_OK;
    for (size_t i = 0; i < v->n; i++)
        if (sr1_trajectory_policy_count(v->t[i]) > most)
            most = sr1_trajectory_policy_count(v->t[i]);
    rewards = sr1__calloc(most, sizeof(*rewards));
    column = sr1__calloc(most, sizeof(*column));
    st = rewards && column ? penalise_all(b, v, rewards, column)
                           : sr1__fail_nomem("KL in the reward");
    sr1__free(rewards);
    sr1__free(column);
    return st;
}

sr1_status sr1__compute_advantages(struct sr1__step_batch *b)
{
    struct sr1__batch_view v;
    sr1_status st;

    SR1__TRY(sr1__step_batch_in_groups(b, 0, &v));
    st = penalise_kl(b, &v);
    if (st == SR1_OK)
        st = estimate_all(b, &v);
    sr1__batch_view_free(&v);
    return st;
}
