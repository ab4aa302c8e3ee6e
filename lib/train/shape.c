/* train/shape.c - what the length of a response does to it beside its rewards.
 *
 *     overlong_buffer              off the reward, as a part of this name: nothing up to
 *                                  max - buffer sampled tokens, then in a line, at most
 *                                  overlong_penalty (DAPO, Yu et al. 2025, eq. 13)
 *     mask_truncated_completions   what a limit on tokens ended is compared, but not
 *                                  trained on (DAPO's overlong filtering; TRL) */
#include "train/step.h"

#include "base/mem.h"
#include "trajectory/trajectory.h"

int sr1__was_cut(const sr1_trajectory *t)
{
    int32_t why = sr1_trajectory_stop_reason(t);

    return why == SR1_STOP_TOKEN_LIMIT || why == SR1_STOP_CONTEXT_LIMIT;
}

sr1_status sr1__overlong(const struct sr1__settings *set, const sr1_trajectory *t,
                         double *penalty)
{
    int64_t length = (int64_t)sr1_trajectory_policy_count(t);

    *penalty = 0.0;
    if (set->overlong_buffer == 0)
        return SR1_OK;
    return sr1_overlong_penalty(&length, 1, set->max_tokens, set->overlong_buffer,
                                set->overlong_penalty, penalty);
}

/* One more part of the reward. */
static sr1_status punish(const struct sr1__settings *set, sr1_trajectory *t)
{
    size_t n = sr1_trajectory_reward_part_count(t);
    struct sr1__reward_value *parts = sr1__calloc(n + 1, sizeof(*parts));
    double penalty;
    sr1_status st = parts ? sr1__overlong(set, t, &penalty)
                          : sr1__fail_nomem("overlong penalty");

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_trajectory_reward_part(t, i, &parts[i].name, &parts[i].value,
                                        &parts[i].weight);
    if (st == SR1_OK) {
        parts[n] = (struct sr1__reward_value){"overlong", penalty, 1.0};
        st = sr1__trajectory_set_reward(t, parts, n + 1,
                                        sr1_trajectory_reward(t) + penalty);
    }
    sr1__free(parts);
    return st;
}

sr1_status sr1__step_shape(struct sr1__step *s)
{
    for (size_t i = 0; s->tr->set.overlong_buffer && i < s->n_kept; i++)
        SR1__TRY(punish(&s->tr->set, s->kept[i]));
    return SR1_OK;
}
