/* signal/advantage/reinforce.c - REINFORCE++ (Hu 2025): whitened over the tokens of the
 * batch, with the discounted return of each token or with the group's mean taken off.
 *
 * A return skips inserted tokens: the next policy token follows directly. (verl's code
 * starts anew behind every observation, so that turns before the last get no reward.) */
#include "signal/advantage/advantage_internal.h"

#include <string.h>

/* A_t = whiten(G_t), G_t = r_t + gamma G_{t+1} */
sr1_status sr1__advantage_reinforce_plus_plus(struct sr1__advantage_call *a)
{
    sr1__token_rewards(a, a->returns);
    sr1__discount_tokens(a, a->o->gamma, a->returns);
    memcpy(a->tokens, a->returns, a->n_tokens * sizeof *a->tokens);
    if (a->o->whiten)
        sr1__whiten(a->tokens, NULL, a->n_tokens, a->o->eps);
    return SR1_OK;
}

/* A_i = whiten(s_i - mean), over tokens */
sr1_status sr1__advantage_reinforce_plus_plus_baseline(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    return a->o->whiten ? sr1__whiten_by_tokens(a) : SR1_OK;
}
