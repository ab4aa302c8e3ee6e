/* policy/fingerprint.h - work that may be stopped and gone on with, as JSON that is equal
 * where the work is: a policy, questions, and what they are asked with. */
#ifndef SR1__POLICY_FINGERPRINT_H
#define SR1__POLICY_FINGERPRINT_H

#include "base/json.h"
#include "dist/dist.h"

#include <searchr1/rollout.h>

/* {"questions", "policy", and the members of `more`}: the questions by their number and
 * what is in them; who answers them, and how: weights, the prompt of the first question,
 * search, environment, sampling and limits. more is taken, also on failure; NULL: there
 * was no memory for it. */
sr1_status sr1__work_fingerprint(json_t **out, sr1_rollout *rollout,
                                 const sr1_dataset *data, json_t *more);

/* With the status st of making this rank's: have all ranks the same work, of which so
 * many rows go at once? SR1_E_STATE names those that have not. */
sr1_status sr1__work_same(struct sr1__dist *d, sr1_status st, const json_t *work,
                          size_t at_once);

#endif
