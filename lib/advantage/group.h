/* advantage/group.h - trajectories sorted into their groups. */
#ifndef SR1__ADVANTAGE_GROUP_H
#define SR1__ADVANTAGE_GROUP_H

#include "base/error.h"

/* One trajectory in the order of groups. */
struct sr1__member {
    uint64_t key;
    size_t index; /* in the batch */
};

/* The n trajectories, groups one after the other, each in the order of the batch. Caller
 * frees with sr1__free. */
sr1_status sr1__group_sort(const uint64_t *keys, size_t n, struct sr1__member **out);

/* Where the group that begins at m[at] ends. */
size_t sr1__group_end(const struct sr1__member *m, size_t n, size_t at);

/* SR1_E_NUMERIC naming the first that is not finite. */
sr1_status sr1__check_finite(const double *v, size_t n, const char *what);

/* The advantages of one group of n > 0 finite rewards: (r - mean) / (std + eps), or
 * r - mean when divide_by_std is 0. All zeros if no two rewards differ. out may be
 * rewards; it is untouched on failure. */
sr1_status sr1__group_advantages(const double *rewards, size_t n, double eps,
                                 int32_t divide_by_std, double *out);

#endif
