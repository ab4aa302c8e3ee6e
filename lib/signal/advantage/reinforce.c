/* signal/advantage/reinforce.c - REINFORCE++ (Hu 2025): whitened over the tokens of the
 * batch, with the discounted return of each token or with the group's mean taken off.
 *
 * A return skips inserted tokens: the next policy token follows directly. (verl's code
 * starts anew behind every observation, so that turns before the last get no reward.) */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

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

/* A_i = whiten(s_i - mean); mean and variance of the whitening count each trajectory as
 * often as it has policy tokens */
sr1_status sr1__advantage_reinforce_plus_plus_baseline(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);
    double *lengths;
    size_t i;

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    if (!a->o->whiten)
        return SR1_OK;
    SR1__CALLOC(lengths, a->n + 1, "lengths of trajectories");
    for (i = 0; i < a->n; i++)
        lengths[i] = (double)(a->b->token_begin[i + 1] - a->b->token_begin[i]);
    sr1__whiten(a->each, lengths, a->n, a->o->eps);
    sr1__free(lengths);
    return SR1_OK;
}
