/* signal/advantage/steps.c - groups of steps within the groups of trajectories:
 *
 *     A_iu = A_episode,i + w A_step,iu
 *
 * where a step is compared with the steps that began in the same state (GiGPO, Feng et
 * al. 2025) or that are of the same kind (RLVMR, Zhang et al. 2025). Each
 * trajectory counts once in its episode group, however many steps it has. A step alone
 * gets 0 (RLVMR with single_raw: its reward). */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

static struct sr1__norm norm_of_mode(const struct sr1__advantage_call *a)
{
    return sr1__norm_of(a->o, a->o->step_mode == SR1_ADVANTAGE_MEAN_STD_NORM);
}

/* turns[] normalised in the groups of keys, then to tokens with each[]. */
static sr1_status add_step_advantages(struct sr1__advantage_call *a, const uint64_t *keys,
                                      const uint8_t *use, int32_t single_raw)
{
    struct sr1__norm how = norm_of_mode(a);
    struct sr1__member *m = NULL;
    size_t count = 0;
    sr1_status status = sr1__turn_groups(a, keys, use, &m, &count);

    how.single_raw = single_raw;
    if (status == SR1_OK)
        status = sr1__normalise_turns(a, m, count, &how);
    sr1__free(m);
    if (status == SR1_OK)
        sr1__turns_to_tokens(a, a->o->step_advantage_w);
    return status;
}

/* Episode: the whole reward. Step: the discounted return from it, the outcome and dense
 * rewards included. */
sr1_status sr1__advantage_gigpo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = norm_of_mode(a);

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    sr1__turn_returns(a, 1, a->turns);
    return add_step_advantages(a, a->b->turn_states, NULL, 0);
}

/* The tags as keys, and which turns have one; what has none loses its turn's part. */
static sr1_status read_tags(struct sr1__advantage_call *a, uint64_t *keys, uint8_t *use)
{
    size_t u;

    for (u = 0; u < a->n_turns; u++) {
        int32_t tag = a->b->turn_tags[u];

        if (tag < -1)
            return sr1__fail(SR1_E_INVALID,
                             "advantage rlvmr: tag %d of turn %zu; -1 is "
                             "none, kinds are counted from 0",
                             (int)tag, u);
        use[u] = tag >= 0;
        keys[u] = (uint64_t)(uint32_t)tag;
        a->turns[u] = use[u] ? a->b->turn_rewards[u] : 0;
        a->report.turns_unscored += !use[u];
    }
    return SR1_OK;
}

/* Episode: the reward without the turns'. Step: the turn's reward. */
sr1_status sr1__advantage_rlvmr(struct sr1__advantage_call *a)
{
    struct sr1__norm how = norm_of_mode(a);
    uint64_t *keys = sr1__calloc(a->n_turns + 1, sizeof *keys);
    uint8_t *use = sr1__calloc(a->n_turns + 1, sizeof *use);
    double *outcome = sr1__calloc(a->n + 1, sizeof *outcome);
    sr1_status status = SR1_OK;

    if (keys == NULL || use == NULL || outcome == NULL)
        status = sr1__fail_nomem("tags of turns");
    if (status == SR1_OK)
        status = read_tags(a, keys, use);
    if (status == SR1_OK) {
        sr1__advantage_outcomes(a, outcome, &how.flat);
        status = sr1__normalise_groups(a, outcome, &how, a->each);
    }
    if (status == SR1_OK)
        status = add_step_advantages(a, keys, use, a->o->single_raw);
    sr1__free(keys);
    sr1__free(use);
    sr1__free(outcome);
    return status;
}
