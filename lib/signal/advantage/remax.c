/* signal/advantage/remax.c - the return minus the reward of the greedy rollout. */
#include "signal/advantage/advantage_internal.h"

#include <string.h>

/* A_t = G_t - b_i, G_t = r_t + gamma G_{t+1}   Li et al. 2023 (ReMax); by token as
 * in verl, for dense rewards and penalties */
sr1_status sr1__advantage_remax(struct sr1__advantage_call *a)
{
    const int64_t *begin = a->b->token_begin;
    size_t i;

    sr1__token_rewards(a, a->returns);
    sr1__discount_tokens(a, a->o->gamma, a->returns);
    for (i = 0; i < a->n; i++) {
        int64_t t;

        for (t = begin[i]; t < begin[i + 1]; t++)
            a->tokens[t] = a->returns[t] - a->b->baselines[i];
    }
    return SR1_OK;
}
