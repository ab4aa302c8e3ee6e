/* signal/advantage/reward_maps.c - spread rewards from trajectories to turns to tokens
 * without changing their sum:
 *
 *     sum over tokens = rewards_i + sum of token_rewards
 *     rewards_i = sum of turn_rewards + the outcome's */
#include "signal/advantage/advantage_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

int sr1__has_turn_advantage(const sr1_advantage_batch *b, size_t t)
{
    return b->step_tokens == NULL || b->step_tokens[t] != 0;
}

size_t sr1__turn_of(const sr1_advantage_batch *b, size_t t)
{
    return b->token_turns != NULL ? (size_t)b->token_turns[t] : 0;
}

static double sum_range(const double *v, int64_t from, int64_t to)
{
    double s = 0;
    int64_t k;

    for (k = from; v != NULL && k < to; k++)
        s += v[k];
    return s;
}

static double sum_token_rewards(const sr1_advantage_batch *b, size_t i)
{
    return b->token_rewards != NULL
               ? sum_range(b->token_rewards, b->token_begin[i], b->token_begin[i + 1])
               : 0;
}

static double sum_turn_rewards(const sr1_advantage_batch *b, size_t i)
{
    return b->turn_rewards != NULL
               ? sum_range(b->turn_rewards, b->turn_begin[i], b->turn_begin[i + 1])
               : 0;
}

void sr1__advantage_scores(const sr1_advantage_batch *b, double *scores)
{
    size_t i;

    for (i = 0; i < b->n; i++)
        scores[i] = b->rewards[i] + sum_token_rewards(b, i);
}

void sr1__advantage_outcomes(const struct sr1__advantage_call *a, double *out,
                             double *flat)
{
    size_t i;

    *flat = 0;
    for (i = 0; i < a->n; i++) {
        double turns = sum_turn_rewards(a->b, i);
        double rounding = 64 * DBL_EPSILON * (fabs(a->scores[i]) + fabs(turns));

        out[i] = a->scores[i] - turns;
        *flat = rounding > *flat ? rounding : *flat;
    }
}

/* The rewards of trajectory i's turns at their last policy tokens. */
static void place_turn_rewards(const sr1_advantage_batch *b, size_t i, double *out)
{
    size_t at = (size_t)b->token_begin[i], end = (size_t)b->token_begin[i + 1];
    int64_t first = b->turn_begin[i], u;

    for (u = first; u < b->turn_begin[i + 1]; u++) {
        while (at + 1 < end && sr1__turn_of(b, at + 1) <= (size_t)(u - first))
            at++;
        out[at] += b->turn_rewards[u];
    }
}

void sr1__token_rewards(const struct sr1__advantage_call *a, double *out)
{
    const sr1_advantage_batch *b = a->b;
    size_t i;

    memset(out, 0, a->n_tokens * sizeof *out);
    if (b->token_rewards != NULL && a->n_tokens > 0)
        memcpy(out, b->token_rewards, a->n_tokens * sizeof *out);
    for (i = 0; i < a->n; i++) {
        if (b->token_begin[i] == b->token_begin[i + 1])
            continue;
        if (b->turn_rewards != NULL)
            place_turn_rewards(b, i, out);
        out[b->token_begin[i + 1] - 1] += b->rewards[i] - sum_turn_rewards(b, i);
    }
}

/* The rewards of trajectory i's tokens to their turns. */
static void tokens_to_turns(const sr1_advantage_batch *b, size_t i, double *out)
{
    int64_t t;

    for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++)
        out[(size_t)b->turn_begin[i] + sr1__turn_of(b, (size_t)t)] += b->token_rewards[t];
}

void sr1__turn_returns(const struct sr1__advantage_call *a, int outcome, double *out)
{
    const sr1_advantage_batch *b = a->b;
    size_t i;

    memset(out, 0, a->n_turns * sizeof *out);
    if (b->turn_rewards != NULL && a->n_turns > 0)
        memcpy(out, b->turn_rewards, a->n_turns * sizeof *out);
    for (i = 0; i < a->n; i++) {
        int64_t first = b->turn_begin[i], u = b->turn_begin[i + 1] - 1;

        if (u < first)
            continue;
        if (outcome)
            out[u] += b->rewards[i] - sum_turn_rewards(b, i);
        if (outcome && b->token_rewards != NULL)
            tokens_to_turns(b, i, out);
        while (--u >= first)
            out[u] += a->o->gamma * out[u + 1];
    }
}

void sr1__discount_tokens(const struct sr1__advantage_call *a, double gamma, double *v)
{
    size_t i;

    for (i = 0; i < a->n; i++) {
        int64_t t = a->b->token_begin[i + 1] - 1;

        while (--t >= a->b->token_begin[i])
            v[t] += gamma * v[t + 1];
    }
}

void sr1__turns_to_tokens(struct sr1__advantage_call *a, double w)
{
    const sr1_advantage_batch *b = a->b;
    size_t i;

    for (i = 0; i < a->n; i++) {
        int64_t t;

        for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
            size_t u = (size_t)b->turn_begin[i] + sr1__turn_of(b, (size_t)t);

            a->tokens[t] = a->each[i];
            if (sr1__has_turn_advantage(b, (size_t)t))
                a->tokens[t] += w * a->turns[u];
        }
    }
}
