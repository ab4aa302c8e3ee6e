/* train/roll_out_ahead.c - with async_level, rollouts that begin before their step: the
 * servers generate the next step's trajectories while this one scores its own and updates
 * the policy (one-step-off, as verl calls it).
 *
 *     step k    takes its rollout, which began in step k - 1
 *               sends the weights of step k - 1 to the servers, which are idle now
 *               begins the rollout of step k + 1
 *               scores, updates: the weights of step k
 *
 * So a step learns from trajectories of weights one step older than those it updates,
 * but for a run's first step. */
#include "train/rollout_queue.h"
#include "train/sampler.h"
#include "train/step_batch.h"

/* Has a step of the run anything to follow it? */
static int has_next_step(const struct sr1__step_batch *b)
{
    return b->in_run && b->tr->set.async_level > 0 && b->tr->step + 1 < b->tr->planned &&
           !sr1__sampler_is_over(b->tr);
}

sr1_status sr1__roll_out_ahead(struct sr1__step_batch *b)
{
    if (!has_next_step(b))
        return SR1_OK;
    SR1__TRY(sr1__push_due_weights(b->tr));
    return sr1__rollout_queue_fill(b->tr);
}
