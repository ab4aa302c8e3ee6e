/* policy/fingerprint.h - work that may be stopped and gone on with, as JSON that is equal
 * where the work is: a policy, questions, and what they are asked with. */
#ifndef SR1__POLICY_FINGERPRINT_H
#define SR1__POLICY_FINGERPRINT_H

#include "base/json.h"
#include "dist/dist.h"

#include <searchr1/rollout.h>

/* A hash of the weights, an adapter's among them, at places of each tensor. */
sr1_status sr1__weights_fingerprint(const sr1_model *m, uint64_t *h);
/* What answers, and how: weights (none where a server has them), the prompt of the first
 * question of data (NULL: there is none), search, environment, sampling and limits. */
sr1_status sr1__policy_fingerprint(json_t **out, sr1_rollout *rollout,
                                   const sr1_dataset *data);
/* With the status st of making this rank's: have all ranks the same? SR1_E_STATE names
 * the members that differ, behind what they are of ("the policy"). */
sr1_status sr1__fingerprint_same(struct sr1__dist *d, const char *what, sr1_status st,
                                 const json_t *own);

/* {"questions", "policy", and the members of `more`}: the questions by their number and
 * what is in them; and the policy as above. more is taken, also on failure; NULL: there
 * was no memory for it. */
sr1_status sr1__work_fingerprint(json_t **out, sr1_rollout *rollout,
                                 const sr1_dataset *data, json_t *more);

/* With the status st of making this rank's: have all ranks the same work, of which so
 * many rows go at once? SR1_E_STATE names those that have not. */
sr1_status sr1__work_same(struct sr1__dist *d, sr1_status st, const json_t *work,
                          size_t at_once);

#endif
