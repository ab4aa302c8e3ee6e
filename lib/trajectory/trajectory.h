/* trajectory/trajectory.h - what other modules may do to a trajectory beyond the public
 * header. */
#ifndef SR1__TRAJECTORY_TRAJECTORY_H
#define SR1__TRAJECTORY_TRAJECTORY_H

#include "base/error.h"

#include <searchr1/trajectory.h>

struct sr1__reward_value {
    const char *name; /* not NULL */
    double value;     /* before weighting */
    double weight;
};

/* Set the total with the n named parts it was made from (copied). The total is taken as
 * given, it need not be the weighted sum. SR1_E_NUMERIC: a number is not finite. */
sr1_status sr1__trajectory_set_reward(sr1_trajectory *t,
                                      const struct sr1__reward_value *parts, size_t n,
                                      double total);

/* Tokens that a forward pass over this trajectory has to read: those before the last
 * policy token, which is only predicted. 0 without policy tokens. */
size_t sr1__trajectory_packed_length(const sr1_trajectory *t);

/* Bytes this trajectory holds in memory. */
size_t sr1__trajectory_memory(const sr1_trajectory *t);

/* Is it neither scored nor trained on? Its search had no answer, the server that
 * generated it failed, or its reward could not be had: that says nothing about the
 * policy. */
int32_t sr1__trajectory_excluded(const sr1_trajectory *t);
/* Policy tokens that can be trained on: none of one that is left out. */
size_t sr1__trajectory_trainable(const sr1_trajectory *t);
/* Its reward could not be had. */
void sr1__trajectory_set_unscored(sr1_trajectory *t);

/* Has one of its actions reached the goal? 1 or 0. */
int32_t sr1__trajectory_succeeded(const sr1_trajectory *t);

#endif
