/* environment/trajectory/trajectory.h - functions on trajectories for other modules,
 * beyond the public header. */
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

/* Policy tokens from `begin` on, up to the next run, were sampled by weights of this
 * version. */
struct sr1__version_run {
    size_t begin;
    int64_t version; /* >= 0 */
};
/* The runs of its policy tokens, the first at 0, each of another version than the one
 * before it; weights_version becomes the oldest. SR1_E_INVALID; n 0 changes nothing. */
sr1_status sr1__trajectory_set_versions(sr1_trajectory *t,
                                        const struct sr1__version_run *runs, size_t n);

/* As sr1_trajectory_copy, by which its group is another's; 0 without this call.
 * SR1_E_INVALID: below 0. */
sr1_status sr1__trajectory_set_copy(sr1_trajectory *t, int64_t copy);

/* As sr1_trajectory_episode; 0 without this call. */
void sr1__trajectory_set_episode(sr1_trajectory *t, int64_t episode);

/* Tokens that a forward pass over this trajectory has to read: those before the last
 * policy token, which is only predicted. 0 without policy tokens. */
size_t sr1__trajectory_packed_length(const sr1_trajectory *t);

/* Bytes this trajectory holds in memory, with the row that it shares. */
size_t sr1__trajectory_memory(const sr1_trajectory *t);
/* Of these, the bytes it shares with another trajectory (NULL: none): the row of their
 * group. */
size_t sr1__trajectory_shared_memory(const sr1_trajectory *t,
                                     const sr1_trajectory *other);

/* 1 if the trajectory is neither scored nor trained on, because its search failed, its
 * generation server failed, or its reward could not be computed: such a failure says
 * nothing about the policy. */
int32_t sr1__trajectory_excluded(const sr1_trajectory *t);
/* Policy tokens that can be trained on: none of one that is dropped. */
size_t sr1__trajectory_trainable(const sr1_trajectory *t);
/* Are all its advantages 0? Then the policy's loss alone has no gradient on it. */
int32_t sr1__trajectory_has_zero_advantage(const sr1_trajectory *t);
/* Its reward could not be had. */
void sr1__trajectory_mark_unscored(sr1_trajectory *t);

/* Has one of its actions reached the goal? 1 or 0. */
int32_t sr1__trajectory_succeeded(const sr1_trajectory *t);

/* One line of a run's record, without its end: the same trajectory as
 * sr1_trajectory_to_json writes, with its step, and lists in place of an object a token.
 * sr1_trajectory_from_json reads it. */
struct sr1__buf;
sr1_status sr1__trajectory_to_line(const sr1_trajectory *t, int64_t step,
                                   struct sr1__buf *b);

#endif
