/* signal/advantage/rloo.c - the reward minus the mean of the others in its group. */
#include "signal/advantage/advantage_internal.h"

/* A_i = s_i - sum_{j != i} s_j / (n - 1) = n / (n - 1) (s_i - mean)
 * Kool et al. 2019; Ahmadian et al. 2024. */
sr1_status sr1__advantage_rloo(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);
    size_t at, end, i;

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    for (at = 0; at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        for (i = at; end - at > 1 && i < end; i++)
            a->each[a->members[i].index] *= (double)(end - at) / (double)(end - at - 1);
    }
    return SR1_OK;
}
