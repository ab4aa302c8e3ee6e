/* signal/advantage/gae.c - generalised advantage estimation (Schulman et al. 2016, eq.
 * 16):
 *
 *     d_t = r_t + gamma V_{t+1} - V_t
 *     A_t = d_t + gamma lam A_{t+1},  return_t = A_t + V_t
 *
 * over policy tokens only: inserted tokens are no steps, and the value of the next policy
 * token follows directly. After the last token comes the bootstrap value of a truncated
 * trajectory, else 0. Whitening over the batch's policy tokens comes last (verl's
 * masked_whiten) and leaves returns alone. */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

/* Value of the state behind the last token of trajectory i. */
static double value_behind(const sr1_advantage_batch *b, size_t i)
{
    int completed = b->completed != NULL && b->completed[i];

    return b->bootstrap != NULL && !completed ? b->bootstrap[i] : 0;
}

static void estimate_trajectory_gae(struct sr1__advantage_call *a, size_t i,
                                    const double *rewards)
{
    const sr1_advantage_batch *b = a->b;
    double next = value_behind(b, i), advantage = 0;
    int64_t t;

    for (t = b->token_begin[i + 1] - 1; t >= b->token_begin[i]; t--) {
        double value = (double)b->values[t];
        double delta = rewards[t] + a->o->gamma * next - value;

        advantage = delta + a->o->gamma * a->o->lam * advantage;
        a->tokens[t] = advantage;
        a->returns[t] = advantage + value;
        next = value;
    }
}

sr1_status sr1__advantage_gae(struct sr1__advantage_call *a)
{
    double *rewards = sr1__calloc(a->n_tokens + 1, sizeof *rewards);
    size_t i;

    SR1__CHECK_ALLOC(rewards, "rewards of tokens");
    sr1__token_rewards(a, rewards);
    for (i = 0; i < a->n; i++)
        estimate_trajectory_gae(a, i, rewards);
    if (a->o->whiten)
        sr1__whiten(a->tokens, NULL, a->n_tokens, a->o->eps);
    sr1__free(rewards);
    return SR1_OK;
}
