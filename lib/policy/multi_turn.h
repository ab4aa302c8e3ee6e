/* policy/multi_turn.h - trajectories of many turns from a generation engine. */
#ifndef SR1__POLICY_MULTI_TURN_H
#define SR1__POLICY_MULTI_TURN_H

#include "policy/rollout_internal.h"

/* Make the trajectories of every query q with q % n_engines == worker, by the engine of
 * that index; of a struct sr1__generation. */
sr1_status sr1__multi_turn_run(void *generation, size_t worker);

#endif
