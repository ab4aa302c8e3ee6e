/* train/weight_proof.h - proof that a generation server has the policy's weights. */
#ifndef SR1__TRAIN_WEIGHT_PROOF_H
#define SR1__TRAIN_WEIGHT_PROOF_H

#include "train/internal.h"

/* Compare each server with taken[i] set with the policy (metric
 * weight_sync/log_prob_diff). SR1_E_STATE names a server whose log-probs differ by more
 * than weight_sync_max_log_prob_diff. */
sr1_status sr1__weight_proof(sr1_trainer *tr, const uint8_t *taken);

#endif
