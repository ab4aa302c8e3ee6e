/* signal/advantage/grpo.c - the reward minus the mean of its group, with and without
 * division by the standard deviation, which is the group's or the batch's. */
#include "signal/advantage/advantage_internal.h"

/* A_i = (s_i - mean) / (std + eps)   Shao et al. 2024, section 4.1; with the deviation of
 * the batch: Liu et al. 2025, "Tricks or Traps?" (Lite PPO); TRL's scale_rewards: batch
 */
sr1_status sr1__advantage_grpo(struct sr1__advantage_call *a)
{
    int of_batch = a->o->divide_by_std && a->o->std_over == SR1_ADVANTAGE_STD_OVER_BATCH;
    struct sr1__norm how = sr1__norm_of(a->o, a->o->divide_by_std && !of_batch);

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    return of_batch ? sr1__divide_by_batch_std(a) : SR1_OK;
}

/* A_i = s_i - mean   Liu et al. 2025 (Dr. GRPO) */
sr1_status sr1__advantage_dr_grpo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);

    return sr1__normalise_groups(a, a->scores, &how, a->each);
}
