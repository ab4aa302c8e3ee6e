/* signal/advantage/advantage_batch.c - read and check the caller's arrays: the maps token
 * -> turn -> trajectory must fit together, and numbers must be finite. */
#include "signal/advantage/advantage_internal.h"

#include "base/struct.h"

#include <math.h>

/* ---- maps ---- */

static sr1_status check_rising(const int64_t *v, size_t n, const char *what)
{
    size_t i;

    if (v[0] != 0)
        return sr1__fail(SR1_E_INVALID, "%s must start at 0", what);
    for (i = 0; i < n; i++)
        if (v[i + 1] < v[i])
            return sr1__fail(SR1_E_INVALID, "%s falls after trajectory %zu", what, i);
    return SR1_OK;
}

/* Tokens without a turn are of the first, so there can be no other. */
static sr1_status check_one_turn(const sr1_advantage_batch *b, size_t i)
{
    int64_t turns = b->turn_begin[i + 1] - b->turn_begin[i];

    if (turns != 1 && b->token_begin[i] < b->token_begin[i + 1])
        return sr1__fail(SR1_E_INVALID,
                         "token_turns is NULL, but trajectory %zu has %lld turns", i,
                         (long long)turns);
    return SR1_OK;
}

static sr1_status check_turn_of(const sr1_advantage_batch *b, size_t i, int64_t t,
                                int32_t before)
{
    int32_t turn = b->token_turns[t];

    if (turn < before)
        return sr1__fail(SR1_E_INVALID, "token_turns falls to %d at token %lld",
                         (int)turn, (long long)t);
    if (b->turn_begin != NULL && turn >= b->turn_begin[i + 1] - b->turn_begin[i])
        return sr1__fail(SR1_E_INVALID,
                         "token %lld is of turn %d, but trajectory %zu has %lld",
                         (long long)t, (int)turn, i,
                         (long long)(b->turn_begin[i + 1] - b->turn_begin[i]));
    return SR1_OK;
}

static sr1_status check_token_turns(const sr1_advantage_batch *b)
{
    size_t i;

    if (b->token_begin == NULL || (b->token_turns == NULL && b->turn_begin == NULL))
        return SR1_OK;
    for (i = 0; i < b->n; i++) {
        int32_t before = 0;
        int64_t t;

        if (b->token_turns == NULL) {
            SR1__TRY(check_one_turn(b, i));
            continue;
        }
        for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
            SR1__TRY(check_turn_of(b, i, t, before));
            before = b->token_turns[t];
        }
    }
    return SR1_OK;
}

static sr1_status check_result_turns(const sr1_advantage_batch *b)
{
    size_t i;

    for (i = 0; b->result_turn != NULL && i < b->n; i++)
        if (b->result_turn[i] < -1 ||
            b->result_turn[i] >= b->turn_begin[i + 1] - b->turn_begin[i])
            return sr1__fail(SR1_E_INVALID,
                             "result_turn of trajectory %zu is %d, but it has %lld turns",
                             i, (int)b->result_turn[i],
                             (long long)(b->turn_begin[i + 1] - b->turn_begin[i]));
    return SR1_OK;
}

/* Arrays by token or turn need their map. */
static sr1_status check_maps_given(const sr1_advantage_batch *b)
{
    int by_token = b->token_rewards != NULL || b->values != NULL ||
                   b->step_tokens != NULL || b->score_norms != NULL ||
                   b->token_places != NULL;
    int by_turn = b->turn_rewards != NULL || b->turn_states != NULL ||
                  b->turn_tags != NULL || b->confidences != NULL ||
                  b->thinking_costs != NULL || b->result_turn != NULL;

    if ((by_token || b->token_turns != NULL) && b->token_begin == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "advantage batch: arrays by token need token_begin");
    if (by_turn && b->turn_begin == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "advantage batch: arrays by turn need turn_begin");
    return SR1_OK;
}

static sr1_status check_token_places(const sr1_advantage_batch *b)
{
    size_t i;

    for (i = 0; b->token_places != NULL && i < b->n; i++) {
        int32_t before = -1;
        int64_t t;

        for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
            if (b->token_places[t] <= before)
                return sr1__fail(SR1_E_INVALID,
                                 "token_places do not rise from 0: %d at token %lld",
                                 (int)b->token_places[t], (long long)t);
            before = b->token_places[t];
        }
    }
    return SR1_OK;
}

static sr1_status check_advantage_maps(const sr1_advantage_batch *b)
{
    SR1__TRY(check_maps_given(b));
    if (b->token_begin != NULL)
        SR1__TRY(check_rising(b->token_begin, b->n, "token_begin"));
    if (b->turn_begin != NULL)
        SR1__TRY(check_rising(b->turn_begin, b->n, "turn_begin"));
    SR1__TRY(check_token_turns(b));
    SR1__TRY(check_token_places(b));
    return check_result_turns(b);
}

/* ---- numbers ---- */

static sr1_status check_some(const double *v, size_t n, const char *what)
{
    return v != NULL ? sr1__check_finite(v, n, what) : SR1_OK;
}

static sr1_status check_values(const float *v, size_t n)
{
    size_t i;

    for (i = 0; v != NULL && i < n; i++)
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "value of token %zu is not finite (%g)", i,
                             (double)v[i]);
    return SR1_OK;
}

/* Squares. */
static sr1_status check_score_norms(const float *v, size_t n)
{
    size_t i;

    for (i = 0; v != NULL && i < n; i++)
        if (!isfinite(v[i]) || v[i] < 0)
            return sr1__fail(SR1_E_NUMERIC,
                             "score norm of token %zu is no number from 0 on (%g)", i,
                             (double)v[i]);
    return SR1_OK;
}

static sr1_status check_reward_components(const sr1_advantage_batch *b)
{
    size_t i, c;

    if (b->components == NULL)
        return SR1_OK;
    if (b->n > SIZE_MAX / (b->n_components > 0 ? b->n_components : 1))
        return sr1__fail(SR1_E_INVALID, "advantage batch: n_components is too large");
    for (i = 0; i < b->n; i++)
        for (c = 0; c < b->n_components; c++)
            if (!isfinite(b->components[i * b->n_components + c]) &&
                !sr1__component_absent(b, i, c))
                return sr1__fail(
                    SR1_E_NUMERIC,
                    "component %zu (%.64s) of trajectory %zu is not finite", c,
                    b->component_names != NULL && b->component_names[c] != NULL
                        ? b->component_names[c]
                        : "no name",
                    i);
    return check_some(b->component_weights, b->n_components, "weight of component");
}

/* NaN marks levels that could not be generated. */
static sr1_status check_levels(const double *v, size_t turns, const char *what)
{
    size_t k;

    for (k = 0; v != NULL && k < 4 * turns; k++)
        if (isinf(v[k]))
            return sr1__fail(SR1_E_NUMERIC, "%s of turn %zu, level %zu is infinite", what,
                             k / 4, k % 4);
    return SR1_OK;
}

static sr1_status check_advantage_numbers(const sr1_advantage_batch *b)
{
    size_t n_tokens = b->token_begin != NULL ? (size_t)b->token_begin[b->n] : 0;
    size_t n_turns = b->turn_begin != NULL ? (size_t)b->turn_begin[b->n] : 0;

    SR1__TRY(sr1__check_finite(b->rewards, b->n, "reward of trajectory"));
    SR1__TRY(check_some(b->token_rewards, n_tokens, "reward of token"));
    SR1__TRY(check_some(b->turn_rewards, n_turns, "reward of turn"));
    SR1__TRY(check_some(b->bootstrap, b->n, "bootstrap value of trajectory"));
    SR1__TRY(check_some(b->baselines, b->n, "baseline of trajectory"));
    SR1__TRY(check_values(b->values, n_tokens));
    SR1__TRY(check_score_norms(b->score_norms, n_tokens));
    SR1__TRY(check_reward_components(b));
    SR1__TRY(check_levels(b->confidences, n_turns, "confidence"));
    return check_levels(b->thinking_costs, n_turns, "thinking cost");
}

sr1_status sr1__advantage_read(const sr1_advantage_batch *given, sr1_advantage_batch *b)
{
    if (given == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage batch: NULL");
    *b = (sr1_advantage_batch){0};
    SR1__TRY(sr1__struct_take(b, sizeof *b, given,
                              SR1__STRUCT_END(sr1_advantage_batch, groups),
                              "advantage batch"));
    if (b->n == 0)
        return SR1_OK;
    if (b->rewards == NULL || b->groups == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage batch: rewards or groups is NULL");
    SR1__TRY(check_advantage_maps(b));
    return check_advantage_numbers(b);
}

/* ---- what is there ---- */

/* In the order of the bits SR1_ADVANTAGE_NEEDS_*. */
static const char *const fields[] = {"token_begin", "turn_begin",  "turn_rewards",
                                     "values",      "components",  "turn_states",
                                     "turn_tags",   "confidences", "result_turn",
                                     "baselines",   "score_norms"};

#define N_FIELDS (sizeof fields / sizeof fields[0])

const char *sr1_advantage_need(size_t i)
{
    return i < N_FIELDS ? fields[i] : NULL;
}

const char *sr1__advantage_missing(const sr1_advantage_batch *b, int32_t needs)
{
    const double *components = b->n_components > 0 ? b->components : NULL;
    const void *given[N_FIELDS] = {b->token_begin, b->turn_begin,  b->turn_rewards,
                                   b->values,      components,     b->turn_states,
                                   b->turn_tags,   b->confidences, b->result_turn,
                                   b->baselines,   b->score_norms};
    size_t i;

    for (i = 0; i < N_FIELDS; i++)
        if ((needs >> i & 1) && given[i] == NULL)
            return fields[i];
    return NULL;
}
