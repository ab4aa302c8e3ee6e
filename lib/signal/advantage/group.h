/* signal/advantage/group.h - sort items into groups, and normalise the values of a group.
 */
#ifndef SR1__ADVANTAGE_GROUP_H
#define SR1__ADVANTAGE_GROUP_H

#include "base/error.h"

/* One trajectory or turn in the order of groups. */
struct sr1__member {
    uint64_t key;
    uint64_t sub; /* a group within the group; 0 for trajectories */
    size_t index; /* in the batch */
};

/* Sort by key, sub, then index: the order of the batch within each group. */
void sr1__sort_members(struct sr1__member *m, size_t n);

/* The n trajectories, groups one after the other, each in the order of the batch. Caller
 * frees with sr1__free. */
sr1_status sr1__sort_groups(const uint64_t *keys, size_t n, struct sr1__member **out);

/* Where the group that begins at m[at] ends. */
size_t sr1__group_end(const struct sr1__member *m, size_t n, size_t at);

/* SR1_E_NUMERIC naming the first that is not finite. */
sr1_status sr1__check_finite(const double *v, size_t n, const char *what);

/* How a group is normalised. */
struct sr1__norm {
    double eps;         /* added to the standard deviation */
    double flat;        /* a spread up to this is none: rounding */
    int32_t divide;     /* by the standard deviation */
    int32_t unbiased;   /* of it: divided by n - 1 */
    int32_t single_raw; /* a group of one keeps its value, as if mean 0 and std 1 */
};

/* One group of n > 0 finite values: (v - mean) / (std + eps), or v - mean. Zeros if no
 * two values differ. out may be v; it is untouched on failure. */
sr1_status sr1__normalise(const double *v, size_t n, const struct sr1__norm *how,
                          double *out);

#endif
