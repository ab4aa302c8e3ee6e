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
 * but for a run's first step. With async_level L the rollouts of L steps are under way,
 * which are L steps old when they are learned from: batches begun <= weights' version +
 * L + 1 (AReaL's bound of staleness). Weights are sent when none of them is under way, or
 * with partial_rollout in their midst: then each token has the version of its own. */
#include "train/rollout_queue.h"
#include "train/sampler.h"
#include "train/step_batch.h"

/* Has a step of the run anything to follow it? */
static int has_next_step(const struct sr1__step_batch *b)
{
    return b->in_run && b->tr->set.async_level > 0 && b->tr->step + 1 < b->tr->planned &&
           !sr1__sampler_is_over(b->tr);
}

static sr1_status report_drain(void *user, int64_t done, int64_t total)
{
    const struct sr1__step_batch *b = user;

    return b->tr->phase ? b->tr->phase(b->tr->phase_user, "rollout", done, total)
                        : SR1_OK;
}

sr1_status sr1__roll_out_ahead(struct sr1__step_batch *b)
{
    sr1_trainer *tr = b->tr;

    if (!has_next_step(b))
        return SR1_OK;
    if (!tr->set.partial_rollout && sr1__weights_are_due(tr))
        SR1__TRY(sr1__rollout_queue_drain(tr, report_drain, b));
    SR1__TRY(sr1__push_due_weights(tr));
    return sr1__dist_agree(
        tr->dist, "rollouts ahead",
        sr1__rollout_queue_fill(tr, b->round.rows,
                                b->round.rows ? b->round.n_queries : 0));
}
