/* train/advantage_input.c - build the maps that advantage estimators need from the
 * trajectories that are compared. */
#include "train/advantage_input.h"

#include <searchr1/ext/protocol.h>

#include "base/mem.h"
#include "base/rng.h"
#include "environment/env/thinking_turn.h"

#include <math.h>
#include <string.h>

void sr1__advantage_input_free(struct sr1__advantage_input *l)
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
    sr1__free(l->score_norms);
    sr1__free(l->token_places);
    sr1__free(l->turn_states);
    sr1__free(l->turn_rewards);
    sr1__free(l->baselines);
    sr1__free(l->levels);
    sr1__free(l->turn_tags);
    sr1__free(l->confidences);
    sr1__free(l->costs);
    sr1__free(l->components);
    sr1__free(l->component_weights);
    sr1__free(l->component_absent);
    sr1__free((void *)l->component_names);
    sr1__free(l->advantages);
    sr1__free(l->token_advantages);
    sr1__free(l->returns);
    *l = (struct sr1__advantage_input){0};
}

/* Zeros for count elements, in *out; 0 without memory. */
static int reserve_array(void *out, size_t count, size_t size)
{
    void *p = sr1__calloc(count + 1, size);

    memcpy(out, &p, sizeof(p));
    return p != NULL;
}
#define RESERVE(p, count) reserve_array(&(p), (count), sizeof(*(p)))

static sr1_status reserve_all(struct sr1__advantage_input *l)
{
    if (RESERVE(l->rewards, l->n) && RESERVE(l->groups, l->n) &&
        RESERVE(l->token_begin, l->n) && RESERVE(l->turn_begin, l->n) &&
        RESERVE(l->completed, l->n) && RESERVE(l->result_turn, l->n) &&
        RESERVE(l->token_turns, l->n_tokens) && RESERVE(l->token_rewards, l->n_tokens) &&
        RESERVE(l->values, l->n_tokens) && RESERVE(l->step_tokens, l->n_tokens) &&
        RESERVE(l->score_norms, l->n_tokens) && RESERVE(l->token_places, l->n_tokens) &&
        RESERVE(l->baselines, l->n) && RESERVE(l->turn_states, l->n_turns) &&
        RESERVE(l->turn_rewards, l->n_turns) && RESERVE(l->turn_tags, l->n_turns) &&
        RESERVE(l->confidences, l->n_turns * SR1_THINKING_LEVELS) &&
        RESERVE(l->costs, l->n_turns * SR1_THINKING_LEVELS) &&
        RESERVE(l->components, l->n * l->n_components) &&
        RESERVE(l->component_weights, l->n_components) &&
        RESERVE(l->component_absent, l->n * l->n_components) &&
        RESERVE(l->component_names, l->n_components) && RESERVE(l->advantages, l->n) &&
        RESERVE(l->token_advantages, l->n_tokens) && RESERVE(l->returns, l->n_tokens))
        return SR1_OK;
    return sr1__fail_nomem("advantages");
}

/* ---- from trajectories ---- */

static void measure_sizes(struct sr1__advantage_input *l)
{
    for (size_t i = 0; i < l->n; i++) {
        l->n_tokens += sr1_trajectory_policy_count(l->t[i]);
        l->n_turns += (size_t)sr1_trajectory_turn_count(l->t[i]);
    }
    if (l->n > 0)
        l->n_components = sr1_trajectory_reward_component_count(l->t[0]);
}

static void copy_column(const sr1_trajectory *t, int32_t column, size_t n, float *out)
{
    const float *from = sr1_trajectory_column(t, column);

    if (from)
        memcpy(out, from, n * sizeof(*out));
}

static void fill_tokens(struct sr1__advantage_input *l, size_t i)
{
    const sr1_trajectory *t = l->t[i];
    size_t n = sr1_trajectory_policy_count(t);
    size_t begin = (size_t)l->token_begin[i];
    const int32_t *turns = sr1_trajectory_turns(t);
    const int32_t *at = sr1_trajectory_policy_positions(t);
    const float *rewards = sr1_trajectory_column(t, SR1_COLUMN_REWARD);

    for (size_t k = 0; k < n; k++) {
        l->token_turns[begin + k] = turns[at[k]];
        l->token_places[begin + k] = at[k] - (int32_t)sr1_trajectory_prompt_count(t);
        l->token_rewards[begin + k] = rewards ? (double)rewards[k] : 0.0;
    }
    copy_column(t, SR1_COLUMN_VALUE, n, l->values + begin);
    copy_column(t, SR1_COLUMN_SCORE_NORM, n, l->score_norms + begin);
}

/* Score norms count by the squares of the importance weights that the loss will have. */
static sr1_status weigh_norms(struct sr1__advantage_input *l, size_t i,
                              const struct sr1__settings *set)
{
    const sr1_trajectory *t = l->t[i];
    const int64_t begin[2] = {0, (int64_t)sr1_trajectory_policy_count(t)};
    const sr1_loss_batch b = {.n = (size_t)begin[1],
                              .old_log_probs = sr1_trajectory_column(t, SR1_COLUMN_OLD),
                              .rollout_log_probs = sr1_trajectory_policy_log_probs(t),
                              .n_seqs = 1,
                              .seq_begin = begin};
    float *norms = l->score_norms + l->token_begin[i];
    double *weights;

    if (!(set->estimator.needs & SR1_ADVANTAGE_NEEDS_SCORE_NORMS) ||
        !set->loss_options.correction || b.n == 0)
        return SR1_OK;
    SR1__CALLOC(weights, b.n, "importance weights");
    sr1__importance_weights(&set->loss_options, &b, weights);
    for (size_t k = 0; k < b.n; k++)
        norms[k] = (float)(norms[k] * weights[k] * weights[k]);
    sr1__free(weights);
    return SR1_OK;
}

/* The state a turn begins in is what the environment said last: turns of a group with the
 * same text before them are in one state (GiGPO's anchor), all first turns too. */
static void fill_turns(struct sr1__advantage_input *l, size_t i)
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
    for (size_t i = 0; i < sr1_trajectory_reward_component_count(t); i++) {
        const char *name;
        double weight;

        if (sr1_trajectory_reward_component(t, i, &name, NULL, &weight) == SR1_OK &&
            strcmp(name, "environment") == 0)
            return weight;
    }
    return 0.0;
}

/* What the environment gave for an action of this turn moves from the end to the turn's
 * last token. */
static void move_to_token(struct sr1__advantage_input *l, size_t i, int32_t turn,
                          double reward)
{
    size_t at = (size_t)l->token_begin[i], end = (size_t)l->token_begin[i + 1];

    while (at + 1 < end && l->token_turns[at + 1] <= turn)
        at++;
    if (at == end)
        return;
    l->token_rewards[at] += reward;
    l->rewards[i] -= reward;
}

/* Or it is the turn's own, a part of the trajectory's. */
static void give_to_turn(struct sr1__advantage_input *l, size_t i, int32_t turn,
                         double reward)
{
    if (l->turn_begin[i] + turn < l->turn_begin[i + 1])
        l->turn_rewards[l->turn_begin[i] + turn] += reward;
}

/* Dense rewards, as the estimator reads them. */
static sr1_status place_rewards(struct sr1__advantage_input *l, size_t i, int by_turn)
{
    const sr1_trajectory *t = l->t[i];
    double weight = environment_weight(t);

    for (size_t k = 0; weight != 0.0 && k < sr1_trajectory_search_count(t); k++) {
        sr1_action_event e = {.struct_size = sizeof(e)};

        SR1__TRY(sr1_trajectory_search(t, k, &e));
        (by_turn ? give_to_turn : move_to_token)(l, i, e.turn, weight * e.reward);
    }
    return SR1_OK;
}

static sr1_status fill_components(struct sr1__advantage_input *l, size_t i)
{
    size_t n = sr1_trajectory_reward_component_count(l->t[i]);

    if (n != l->n_components)
        return sr1__fail(SR1_E_INTERNAL, "trajectory %zu has %zu reward parts, not %zu",
                         i, n, l->n_components);
    for (size_t c = 0; c < n; c++) {
        double weight; /* 0 where the reward does not apply to this trajectory */

        SR1__TRY(sr1_trajectory_reward_component(l->t[i], c, &l->component_names[c],
                                                 &l->components[i * n + c], &weight));
        l->component_absent[i * n + c] = isnan(l->components[i * n + c]);
        if (weight != 0.0)
            l->component_weights[c] = weight;
    }
    return SR1_OK;
}

static void fill_trajectory(struct sr1__advantage_input *l, size_t i)
{
    const sr1_trajectory *t = l->t[i];
    int32_t stop = sr1_trajectory_stop_reason(t);

    l->rewards[i] = sr1_trajectory_reward(t);
    l->groups[i] = sr1_trajectory_group_key(t);
    l->completed[i] = stop == SR1_STOP_ANSWER || stop == SR1_STOP_EOS;
    l->token_begin[i + 1] = l->token_begin[i] + (int64_t)sr1_trajectory_policy_count(t);
    l->turn_begin[i + 1] = l->turn_begin[i] + sr1_trajectory_turn_count(t);
    fill_tokens(l, i);
    fill_turns(l, i);
}

/* The batch's columns of trajectory i, which is `at` there. */
static void fill_columns(struct sr1__advantage_input *l, size_t i,
                         const struct sr1__step_batch *b, size_t at)
{
    size_t turns = (size_t)(l->turn_begin[i + 1] - l->turn_begin[i]);

    l->baselines[i] = b->baselines[at];
    if (turns > 0)
        memcpy(l->turn_rewards + l->turn_begin[i], b->turn_rewards + b->turn_begin[at],
               turns * sizeof(double));
}

static void fill_levels(struct sr1__advantage_input *l)
{
    for (size_t u = 0; l->levels && u < l->n_turns; u++) {
        const struct sr1__level_branch_step *step = &l->levels[u];
        size_t at = u * SR1_THINKING_LEVELS;

        l->turn_tags[u] = step->level;
        memcpy(l->confidences + at, step->confidences, sizeof step->confidences);
        memcpy(l->costs + at, step->costs, sizeof step->costs);
    }
}

/* Tokens by which a policy chose how much to think. */
static void mark_levels(struct sr1__advantage_input *l)
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

sr1_status sr1__advantage_input_fill(struct sr1__advantage_input *l,
                                     const struct sr1__step_batch *b,
                                     const struct sr1__batch_view *v)
{
    const struct sr1__settings *set = &b->tr->set;
    const char *protocol = sr1__config_protocol(b->tr->config);

    l->t = v->t;
    l->n = v->n;
    measure_sizes(l);
    SR1__TRY(reserve_all(l));
    for (size_t i = 0; i < l->n; i++) {
        fill_trajectory(l, i);
        SR1__TRY(weigh_norms(l, i, set));
        fill_columns(l, i, b, v->index[i]);
        if (set->dense_rewards)
            SR1__TRY(place_rewards(
                l, i, set->estimator.needs & SR1_ADVANTAGE_NEEDS_TURN_REWARDS));
        SR1__TRY(sr1_protocol_result_turn(protocol, l->t[i], &l->result_turn[i]));
        SR1__TRY(fill_components(l, i));
    }
    fill_levels(l);
    if (set->step_on_level)
        mark_levels(l);
    return SR1_OK;
}
