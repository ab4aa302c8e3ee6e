/* signal/advantage/grpo.c - the reward minus the mean of its group, with and without
 * division by the standard deviation. */
#include "signal/advantage/advantage_internal.h"

/* A_i = (s_i - mean) / (std + eps)   Shao et al. 2024, section 4.1 */
sr1_status sr1__advantage_grpo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, a->o->divide_by_std);

    return sr1__normalise_groups(a, a->scores, &how, a->each);
}

/* A_i = s_i - mean   Liu et al. 2025 (Dr. GRPO) */
sr1_status sr1__advantage_dr_grpo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);

    return sr1__normalise_groups(a, a->scores, &how, a->each);
}
