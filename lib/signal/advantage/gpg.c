/* signal/advantage/gpg.c - the reward minus its group's mean, scaled up if few groups
 * have differing rewards. */
#include "signal/advantage/advantage_internal.h"

/* Trajectories of groups whose rewards differ, or those whose reward is not 0. */
static size_t count_nonzero_variance(const struct sr1__advantage_call *a)
{
    size_t at, end, i, found = 0;

    for (at = 0; at < a->n; at = end) {
        int differ = 0;

        end = sr1__group_end(a->members, a->n, at);
        for (i = at; i < end; i++) {
            double s = a->scores[a->members[i].index];

            differ |= s != a->scores[a->members[at].index];
            found += a->o->gpg_nonzero && s != 0;
        }
        found += a->o->gpg_nonzero || !differ ? 0 : end - at;
    }
    return found;
}

/* A_i = B / (B - M) (s_i - mean), M of the batch's B trajectories in groups of equal
 * rewards   Chu et al. 2025 (GPG). verl: B / number of rewards that are not 0. */
sr1_status sr1__advantage_gpg(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 0);
    size_t i, found = count_nonzero_variance(a);

    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    for (i = 0; found > 0 && i < a->n; i++)
        a->each[i] *= (double)a->n / (double)found;
    return SR1_OK;
}
