/* signal/advantage/mt_grpo.c - multi-turn GRPO (Zeng et al. 2025, "Turn-level credit
 * assignment"): three numbers a trajectory, each normalised in its group with the
 * unbiased std + 1e-4,
 *
 *     T of the turns' rewards, O of the outcome's, C of both,
 *
 * and by position: A_t = O + coef T for tokens up to the turn before the first tool
 * result, O after it; C everywhere in a trajectory without a result. The baselines use O,
 * or C, everywhere. */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

#include <string.h>

/* O into each[]. */
static sr1_status normalise_outcomes(struct sr1__advantage_call *a, double *room)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);

    sr1__advantage_outcomes(a, room, &how.flat);
    return sr1__normalise_groups(a, room, &how, a->each);
}

/* T into out[n]. */
static sr1_status normalise_turn_sums(struct sr1__advantage_call *a, double *out)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);
    size_t i;

    for (i = 0; i < a->n; i++) {
        int64_t u;

        out[i] = 0;
        for (u = a->b->turn_begin[i]; u < a->b->turn_begin[i + 1]; u++)
            out[i] += a->b->turn_rewards[u];
    }
    return sr1__normalise_groups(a, out, &how, out);
}

/* The tokens of trajectory i, from T, C and O in each[]. */
static void place_token_advantages(struct sr1__advantage_call *a, size_t i, double turn,
                                   double combined)
{
    const sr1_advantage_batch *b = a->b;
    int32_t result = b->result_turn[i];
    int64_t t;

    a->report.no_result += result < 0;
    for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
        int before = result >= 0 && sr1__turn_of(b, (size_t)t) <= (size_t)result;

        a->tokens[t] = result < 0
                           ? combined
                           : a->each[i] + (before ? a->o->turn_advantage_coef * turn : 0);
    }
}

sr1_status sr1__advantage_mt_grpo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);
    double *turn = sr1__calloc(2 * a->n + 1, sizeof *turn);
    double *combined = turn != NULL ? turn + a->n : NULL;
    sr1_status status;
    size_t i;

    SR1__CHECK_ALLOC(turn, "turn advantages");
    status = normalise_outcomes(a, combined);
    if (status == SR1_OK)
        status = sr1__normalise_groups(a, a->scores, &how, combined);
    if (status == SR1_OK)
        status = normalise_turn_sums(a, turn);
    for (i = 0; status == SR1_OK && i < a->n; i++)
        place_token_advantages(a, i, turn[i], combined[i]);
    sr1__free(turn);
    return status;
}

/* GRPO-OR: A_i = O_i */
sr1_status sr1__advantage_mt_grpo_outcome(struct sr1__advantage_call *a)
{
    double *room = sr1__calloc(a->n + 1, sizeof *room);
    sr1_status status;

    SR1__CHECK_ALLOC(room, "outcome rewards");
    status = normalise_outcomes(a, room);
    sr1__free(room);
    return status;
}

/* GRPO-MR: A_i = C_i */
sr1_status sr1__advantage_mt_grpo_merged(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);

    return sr1__normalise_groups(a, a->scores, &how, a->each);
}

/* For each turn of each trajectory its number within it, as the key of its group. */
static uint64_t *turn_numbers(const struct sr1__advantage_call *a)
{
    uint64_t *key = sr1__calloc(a->n_turns + 1, sizeof *key);
    size_t i;

    for (i = 0; key != NULL && i < a->n; i++) {
        int64_t u;

        for (u = a->b->turn_begin[i]; u < a->b->turn_begin[i + 1]; u++)
            key[u] = (uint64_t)(u - a->b->turn_begin[i]);
    }
    return key;
}

static sr1_status normalise_by_number(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);
    uint64_t *number = turn_numbers(a);
    struct sr1__member *m = NULL;
    size_t count = 0;
    sr1_status status;

    SR1__CHECK_ALLOC(number, "numbers of turns");
    status = sr1__turn_groups(a, number, NULL, &m, &count);
    if (status == SR1_OK)
        status = sr1__normalise_turns(a, m, count, &how);
    sr1__free(m);
    sr1__free(number);
    return status;
}

/* Per turn, for any number of turns (ours):
 *
 *     A_iu = O_i + coef (R_iu - mean) / (std + 1e-4)
 *     R_iu = sum_{v >= u} gamma^(v - u) r_iv
 *
 * over the group's trajectories that have a turn u. A turn is credited with its own
 * reward and later turns', never with earlier ones'. */
sr1_status sr1__advantage_mt_grpo_turns(struct sr1__advantage_call *a)
{
    sr1_status status = sr1__advantage_mt_grpo_outcome(a);

    if (status != SR1_OK)
        return status;
    sr1__turn_returns(a, 0, a->turns);
    SR1__TRY(normalise_by_number(a));
    sr1__turns_to_tokens(a, a->o->turn_advantage_coef);
    return SR1_OK;
}
