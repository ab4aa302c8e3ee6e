/* policy/fingerprint.h - a policy, and questions, as JSON that is equal where they are.
 */
#ifndef SR1__POLICY_FINGERPRINT_H
#define SR1__POLICY_FINGERPRINT_H

#include "base/json.h"

#include <searchr1/rollout.h>

/* The questions by their number and what is in them. */
sr1_status sr1__questions_fingerprint(json_t **out, const sr1_dataset *data);

/* Who answers the questions, and how: weights, the prompt of the first question, search,
 * environment, sampling and limits. */
sr1_status sr1__policy_fingerprint(json_t **out, sr1_rollout *rollout,
                                   const sr1_dataset *data);

#endif
