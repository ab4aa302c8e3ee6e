/* policy/demonstration.h - a trajectory as a row that stage sft learns from. */
#ifndef SR1__POLICY_DEMONSTRATION_H
#define SR1__POLICY_DEMONSTRATION_H

#include "base/json.h"

#include <searchr1/rollout.h>

/* Is it fit to be imitated? It answered, and the protocol never had to correct it. */
int sr1__demonstration_fits(const sr1_rollout *r, const sr1_trajectory *t);
/* The row of one that is fit: a new reference, NULL without memory. */
json_t *sr1__demonstration_json(const sr1_rollout *r, const sr1_trajectory *t);

#endif
