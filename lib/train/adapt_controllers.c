/* train/adapt_controllers.c - move the coefficients that follow measurements of a step:
 * that of the KL in the reward (sr1_kl_controller), and the weight of the entropy bonus:
 *
 *     fixed      entropy_coef
 *     adaptive   c of this step, 0 while the entropy is above entropy_target; then
 *                c + delta where it was below, c - delta where it was above, within
 *                [entropy_coef_min, entropy_coef_max] (He et al. 2025, Skywork-OR1, 5.3;
 *                TRL's use_adaptive_entropy)
 *
 * The entropy is that of the step's rollout, per policy token. */
#include "train/step_batch.h"

#include <math.h>

void sr1__entropy_read(struct sr1__entropy *e, const sr1_config *c)
{
    *e = (struct sr1__entropy){
        .adaptive = sr1__config_is(c, "entropy_controller", "adaptive"),
        .by_token = sr1__config_is(c, "entropy_aggregation", "token-mean"),
        .target = sr1__config_real(c, "entropy_target"),
        .delta = sr1__config_real(c, "entropy_coef_delta"),
        .least = sr1__config_real(c, "entropy_coef_min"),
        .most = sr1__config_real(c, "entropy_coef_max"),
        .coef = sr1__config_real(c, "entropy_coef"),
    };
}

void sr1__entropy_begin(struct sr1__entropy *e, double entropy)
{
    e->now = e->adaptive && entropy > e->target ? 0.0 : e->coef;
}

void sr1__entropy_end(struct sr1__entropy *e, double entropy)
{
    double moved = e->coef + (entropy < e->target ? e->delta : -e->delta);

    if (e->adaptive)
        e->coef = fmin(fmax(moved, e->least), e->most);
}

/* Imitation has no bonus, and the caller's trajectories no entropy to go by. */
void sr1__entropy_choose(struct sr1__step_batch *b)
{
    struct sr1__entropy *e = &b->tr->entropy;

    if (b->on_policy)
        sr1__entropy_begin(e, b->entropy);
    else
        e->now = b->tr->stage->loss ? 0.0 : e->coef;
    sr1__metrics_add(b->metrics, "entropy_coef", e->now, SR1__LAST);
}

/* The adaptive controller learns how far the policy went. */
static sr1_status adapt_kl(struct sr1__step_batch *b)
{
    int64_t compared = 0;

    for (size_t i = 0; i < b->n; i++)
        compared += sr1__counts_in_group(b, i);
    if (!b->tr->set.kl_in_reward || compared == 0)
        return SR1_OK;
    return sr1_kl_controller_update(&b->tr->kl, b->reward_kl, compared);
}

sr1_status sr1__adapt_controllers(struct sr1__step_batch *b)
{
    /* It follows what it moves: a policy that was updated, by a rollout that was
     * measured. */
    if (sr1__metrics_get(b->metrics, "policy_tokens") > 0 &&
        !sr1__in_critic_warmup(b->tr))
        sr1__entropy_end(&b->tr->entropy, b->entropy);
    return adapt_kl(b);
}
