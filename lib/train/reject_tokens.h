/* train/reject_tokens.h - the tokens of a step that are left out of its update because
 * the policy before it is too far from what sampled them (rollout_rs). */
#ifndef SR1__TRAIN_REJECT_TOKENS_H
#define SR1__TRAIN_REJECT_TOKENS_H

#include "train/step_batch.h"

struct sr1__kept_tokens {
    int64_t *begin; /* [n + 1] places of each trajectory's policy tokens in keep */
    uint8_t *keep;  /* NULL: all are kept */
    size_t n;       /* trajectories of the update */
};

/* Judge the trajectories of a batch that are not dropped, by their columns of log-probs;
 * the figures go to the step's metrics. Free with sr1__kept_tokens_free. */
sr1_status sr1__reject_tokens(const struct sr1__step_batch *b,
                              struct sr1__kept_tokens *out);
void sr1__kept_tokens_free(struct sr1__kept_tokens *k); /* a zeroed one is fine */
/* A copy of t, the k-th of them, without its rejected tokens; NULL: it has none. */
sr1_status sr1__without_rejected(const struct sr1__kept_tokens *kept, size_t k,
                                 const sr1_trajectory *t, sr1_trajectory **out);

#endif
