/* train/compare.c - what each trajectory, or each of its policy tokens, did better than
 * expected: the maps that estimators ask for are laid out from trajectories, and what
 * they find goes back into them. */
#include "train/step.h"

#include "base/mem.h"
#include "base/rng.h"
#include "env/thinking_turn.h"

#include <string.h>

/* The arrays of a sr1_advantage_batch, as one block of memory each. */
struct layout {
    sr1_trajectory *const *t; /* [n] */
    size_t n, n_tokens, n_turns, n_channels;
    double *rewards;       /* [n] */
    uint64_t *groups;      /* [n] */
    int64_t *token_begin;  /* [n + 1] */
    int64_t *turn_begin;   /* [n + 1] */
    uint8_t *completed;    /* [n] */
    int32_t *result_turn;  /* [n] */
    int32_t *token_turns;  /* [n_tokens] */
    double *token_rewards; /* [n_tokens] */
    float *values;         /* [n_tokens] */
    uint8_t *step_tokens;  /* [n_tokens] of levels' tags */
    uint64_t *turn_states; /* [n_turns] */
    double *turn_rewards;  /* [n_turns] */
    int32_t *turn_tags;    /* [n_turns] thinking levels */
    double *confidences;   /* [n_turns * SR1_THINKING_LEVELS] */
    double *costs;         /* likewise */
    double *channels;      /* [n * n_channels] */
    double *channel_weights;
    const char **channel_names; /* [n_channels]; borrowed from the trajectories */
    double *advantages;         /* [n] results */
    float *token_advantages;    /* [n_tokens] */
    float *returns;             /* [n_tokens] */
};

static void layout_free(struct layout *l)
{
    sr1__free(l->rewards);
    sr1__free(l->groups);
    sr1__free(l->token_begin);
    sr1__free(l->turn_begin);
    sr1__free(l->completed);
    sr1__free(l->result_turn);
    sr1__free(l->token_turns);
    sr1__free(l->token_rewards);
    sr1__free(l->values);
    sr1__free(l->step_tokens);
    sr1__free(l->turn_states);
    sr1__free(l->turn_rewards);
    sr1__free(l->turn_tags);
    sr1__free(l->confidences);
    sr1__free(l->costs);
    sr1__free(l->channels);
    sr1__free(l->channel_weights);
    sr1__free((void *)l->channel_names);
    sr1__free(l->advantages);
    sr1__free(l->token_advantages);
    sr1__free(l->returns);
}

/* Zeros for count elements, in *out; 0 without memory. */
static int take(void *out, size_t count, size_t size)
{
    void *p = sr1__calloc(count + 1, size);

    memcpy(out, &p, sizeof(p));
    return p != NULL;
}
#define TAKE(p, count) take(&(p), (count), sizeof(*(p)))

static sr1_status layout_alloc(struct layout *l)
{
    if (TAKE(l->rewards, l->n) && TAKE(l->groups, l->n) && TAKE(l->token_begin, l->n) &&
        TAKE(l->turn_begin, l->n) && TAKE(l->completed, l->n) &&
        TAKE(l->result_turn, l->n) && TAKE(l->token_turns, l->n_tokens) &&
        TAKE(l->token_rewards, l->n_tokens) && TAKE(l->values, l->n_tokens) &&
        TAKE(l->step_tokens, l->n_tokens) &&
        TAKE(l->turn_states, l->n_turns) && TAKE(l->turn_rewards, l->n_turns) &&
        TAKE(l->turn_tags, l->n_turns) &&
        TAKE(l->confidences, l->n_turns * SR1_THINKING_LEVELS) &&
        TAKE(l->costs, l->n_turns * SR1_THINKING_LEVELS) &&
        TAKE(l->channels, l->n * l->n_channels) &&
        TAKE(l->channel_weights, l->n_channels) &&
        TAKE(l->channel_names, l->n_channels) && TAKE(l->advantages, l->n) &&
        TAKE(l->token_advantages, l->n_tokens) && TAKE(l->returns, l->n_tokens))
        return SR1_OK;
    return sr1__fail_nomem("advantages");
}

/* ---- from trajectories ---- */

static void measure(struct layout *l)
{
    for (size_t i = 0; i < l->n; i++) {
        l->n_tokens += sr1_trajectory_policy_count(l->t[i]);
        l->n_turns += (size_t)sr1_trajectory_turn_count(l->t[i]);
    }
    if (l->n > 0)
        l->n_channels = sr1_trajectory_reward_part_count(l->t[0]);
}

static void copy_column(const sr1_trajectory *t, int32_t column, size_t n, float *out)
{
    const float *from = sr1_trajectory_column(t, column);

    if (from)
        memcpy(out, from, n * sizeof(*out));
}

static void fill_tokens(struct layout *l, size_t i)
{
    const sr1_trajectory *t = l->t[i];
    size_t n = sr1_trajectory_policy_count(t);
    size_t begin = (size_t)l->token_begin[i];
    const int32_t *turns = sr1_trajectory_turns(t);
    const int32_t *at = sr1_trajectory_policy_positions(t);
    const float *rewards = sr1_trajectory_column(t, SR1_COLUMN_REWARD);

    for (size_t k = 0; k < n; k++) {
        l->token_turns[begin + k] = turns[at[k]];
        l->token_rewards[begin + k] = rewards ? (double)rewards[k] : 0.0;
    }
    copy_column(t, SR1_COLUMN_VALUE, n, l->values + begin);
}

/* The state a turn begins in is what the environment said last: turns of a group with the
 * same text before them are in one state (GiGPO's anchor), all first turns too. */
static void fill_turns(struct layout *l, size_t i)
{
    const sr1_trajectory *t = l->t[i];
    size_t n = sr1_trajectory_segment_count(t);
    const char *text = sr1_trajectory_generated_text(t, NULL);
    uint64_t *states = l->turn_states + l->turn_begin[i];
    int32_t turns = sr1_trajectory_turn_count(t);

    for (size_t k = 0; k < n; k++) {
        sr1_text_segment s = {.struct_size = sizeof(s)};

        if (sr1_trajectory_segment(t, k, &s) != SR1_OK ||
            s.source != SR1_SOURCE_ENVIRONMENT)
            continue;
        if (s.turn + 1 < turns)
            states[s.turn + 1] =
                sr1__hash64(text + s.text_begin, s.text_len, l->groups[i]);
    }
    if (turns > 0)
        states[0] = l->groups[i];
}

/* Weight of the reward "environment"; 0 without it. */
static double environment_weight(const sr1_trajectory *t)
{
    for (size_t i = 0; i < sr1_trajectory_reward_part_count(t); i++) {
        const char *name;
        double weight;

        if (sr1_trajectory_reward_part(t, i, &name, NULL, &weight) == SR1_OK &&
            strcmp(name, "environment") == 0)
            return weight;
    }
    return 0.0;
}

/* Dense rewards: what the environment gave for an action moves from the end to the last
 * token of the action's turn. */
static sr1_status place_rewards(struct layout *l, size_t i)
{
    const sr1_trajectory *t = l->t[i];
    double weight = environment_weight(t);
    size_t begin = (size_t)l->token_begin[i], end = (size_t)l->token_begin[i + 1];

    for (size_t k = 0; weight != 0.0 && k < sr1_trajectory_search_count(t); k++) {
        sr1_search_event e = {.struct_size = sizeof(e)};
        size_t at = begin;

        SR1__TRY(sr1_trajectory_search(t, k, &e));
        while (at + 1 < end && l->token_turns[at + 1] <= e.turn)
            at++;
        if (at == end)
            continue;
        l->token_rewards[at] += weight * e.reward;
        l->rewards[i] -= weight * e.reward;
    }
    return SR1_OK;
}

static sr1_status fill_channels(struct layout *l, size_t i)
{
    size_t n = sr1_trajectory_reward_part_count(l->t[i]);

    if (n != l->n_channels)
        return sr1__fail(SR1_E_INTERNAL, "trajectory %zu has %zu reward parts, not %zu",
                         i, n, l->n_channels);
    for (size_t c = 0; c < n; c++)
        SR1__TRY(sr1_trajectory_reward_part(l->t[i], c, &l->channel_names[c],
                                            &l->channels[i * n + c],
                                            &l->channel_weights[c]));
    return SR1_OK;
}

static sr1_status fill(struct layout *l, const char *protocol, int dense)
{
    for (size_t i = 0; i < l->n; i++) {
        const sr1_trajectory *t = l->t[i];
        int32_t stop = sr1_trajectory_stop_reason(t);

        l->rewards[i] = sr1_trajectory_reward(t);
        l->groups[i] = sr1_trajectory_group_key(t);
        l->completed[i] = stop == SR1_STOP_ANSWER || stop == SR1_STOP_EOS;
        l->token_begin[i + 1] =
            l->token_begin[i] + (int64_t)sr1_trajectory_policy_count(t);
        l->turn_begin[i + 1] = l->turn_begin[i] + sr1_trajectory_turn_count(t);
        fill_tokens(l, i);
        fill_turns(l, i);
        if (dense)
            SR1__TRY(place_rewards(l, i));
        SR1__TRY(sr1_protocol_result_turn(protocol, t, &l->result_turn[i]));
        SR1__TRY(fill_channels(l, i));
    }
    return SR1_OK;
}

static void fill_levels(struct layout *l, const struct sr1__level_step *steps)
{
    for (size_t u = 0; steps && u < l->n_turns; u++) {
        size_t at = u * SR1_THINKING_LEVELS;

        l->turn_tags[u] = steps[u].level;
        memcpy(l->confidences + at, steps[u].confidences, sizeof steps[u].confidences);
        memcpy(l->costs + at, steps[u].costs, sizeof steps[u].costs);
    }
}

/* Tokens by which a policy chose how much to think. */
static void mark_levels(struct layout *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct sr1__thinking_turn turn = {0};
        uint8_t *mark = l->step_tokens + l->token_begin[i];

        while (sr1__thinking_turn_next(l->t[i], &turn)) {
            memset(mark + (turn.level.begin - turn.message.begin), 1,
                   turn.level.end - turn.level.begin);
            mark += turn.message.end - turn.message.begin;
        }
    }
}

/* ---- the estimator ---- */

static sr1_status estimate(const struct sr1__step *s, struct layout *l)
{
    const struct sr1__settings *set = &s->tr->set;
    sr1_advantage_batch b = {.struct_size = sizeof(b),
                             .n = l->n,
                             .rewards = l->rewards,
                             .groups = l->groups,
                             .token_begin = l->token_begin,
                             .token_turns = l->token_turns,
                             .turn_begin = l->turn_begin,
                             .token_rewards = l->token_rewards,
                             .values = s->tr->critics ? l->values : NULL,
                             .completed = l->completed,
                             .n_channels = l->n_channels,
                             .channel_names = l->channel_names,
                             .channels = l->channels,
                             .channel_weights = l->channel_weights,
                             .turn_rewards = l->turn_rewards,
                             .turn_states = l->turn_states,
                             .turn_tags = s->levels ? l->turn_tags : NULL,
                             .confidences = s->levels ? l->confidences : NULL,
                             .thinking_costs = s->levels ? l->costs : NULL,
                             .result_turn = l->result_turn,
                             .baselines = s->baselines,
                             .step_tokens = set->step_on_level ? l->step_tokens : NULL};
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

static sr1_status give_column(const struct layout *l, size_t i, int32_t column,
                              const float *from)
{
    return sr1_trajectory_set_column(l->t[i], column, from + l->token_begin[i],
                                     (size_t)(l->token_begin[i + 1] - l->token_begin[i]));
}

static sr1_status hand_out(const struct layout *l, int32_t gives)
{
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(sr1_trajectory_set_advantage(l->t[i], l->advantages[i]));
        if (gives & SR1_ADVANTAGE_GIVES_TOKENS)
            SR1__TRY(give_column(l, i, SR1_COLUMN_ADVANTAGE, l->token_advantages));
        if (gives & SR1_ADVANTAGE_GIVES_RETURNS)
            SR1__TRY(give_column(l, i, SR1_COLUMN_RETURN, l->returns));
    }
    return SR1_OK;
}

static sr1_status compare(struct sr1__step *s, struct layout *l)
{
    size_t dead = 0;

    SR1__TRY(layout_alloc(l));
    SR1__TRY(fill(l, sr1__config_str(s->tr->config, "protocol"),
                  s->tr->set.dense_rewards));
    fill_levels(l, s->levels);
    if (s->tr->set.step_on_level)
        mark_levels(l);
    SR1__TRY(sr1_reward_set_score_turns(s->tr->rewards,
                                        (const sr1_trajectory *const *)l->t, l->n,
                                        l->turn_begin, NULL, l->turn_rewards));
    SR1__TRY(estimate(s, l));
    for (size_t i = 0; i < l->n; i++) /* whole again */
        l->rewards[i] = sr1_trajectory_reward(l->t[i]);
    SR1__TRY(
        sr1_advantage_dead_groups(l->rewards, l->groups, l->n, s->dead, NULL, &dead));
    s->report->dead_groups = (int64_t)dead;
    return hand_out(l, s->tr->set.estimator.gives);
}

/* ---- KL in the reward ---- */

/* token_rewards -= coef * KL of each token between the policy that sampled and the
 * reference (Ouyang et al. 2022, eq. 2, by token). *sum adds up the KL. */
static sr1_status penalise_one(const sr1_trainer *tr, sr1_trajectory *t, double *rewards,
                               float *column, double *sum)
{
    size_t n = sr1_trajectory_policy_count(t);
    const float *reference = sr1_trajectory_column(t, SR1_COLUMN_REFERENCE);
    double mean = 0.0;

    memset(rewards, 0, n * sizeof(*rewards));
    SR1__TRY(sr1_kl_penalty(tr->set.kl_kind, tr->kl.coef,
                            sr1_trajectory_policy_log_probs(t), reference, n, rewards,
                            &mean));
    for (size_t k = 0; k < n; k++)
        column[k] = (float)rewards[k];
    *sum += mean * (double)n;
    return sr1_trajectory_set_column(t, SR1_COLUMN_REWARD, column, n);
}

static sr1_status penalise_all(struct sr1__step *s, double *rewards, float *column)
{
    double sum = 0.0;
    int64_t tokens = 0;

    for (size_t i = 0; i < s->n_kept; i++) {
        tokens += (int64_t)sr1_trajectory_policy_count(s->kept[i]);
        if (sr1_trajectory_policy_count(s->kept[i]) > 0)
            SR1__TRY(penalise_one(s->tr, s->kept[i], rewards, column, &sum));
    }
    s->report->reward_kl = tokens ? sum / (double)tokens : 0.0;
    return SR1_OK;
}

static sr1_status penalise(struct sr1__step *s)
{
    size_t most = 1;
    double *rewards;
    float *column;
    sr1_status st;

    for (size_t i = 0; i < s->n_kept; i++)
        if (sr1_trajectory_policy_count(s->kept[i]) > most)
            most = sr1_trajectory_policy_count(s->kept[i]);
    rewards = sr1__calloc(most, sizeof(*rewards));
    column = sr1__calloc(most, sizeof(*column));
    st = rewards && column ? penalise_all(s, rewards, column)
                           : sr1__fail_nomem("KL in the reward");
    sr1__free(rewards);
    sr1__free(column);
    return st;
}

sr1_status sr1__step_compare(struct sr1__step *s)
{
    struct layout l = {.t = s->kept,
                       .n = s->n_kept};
    sr1_status st;

    if (s->tr->set.kl_in_reward)
        SR1__TRY(penalise(s));
    measure(&l);
    st = compare(s, &l);
    layout_free(&l);
    return st;
}
