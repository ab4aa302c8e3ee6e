/* train/masked_copy.h - a copy of a trajectory with a loss mask of its own: what is not
 * kept is context, as if the environment had inserted it. The order of tokens, their ids
 * and texts stay; columns are those of the tokens that are kept. */
#ifndef SR1__TRAIN_MASKED_COPY_H
#define SR1__TRAIN_MASKED_COPY_H

#include "base/error.h"

#include <searchr1/trajectory.h>

struct sr1__masking {
    const sr1_trajectory *t;
    const char *text;
    const uint32_t *ends; /* of each generated token's piece of the text */
    size_t n, n_prompt;   /* tokens, and those of the prompt among them */
    uint8_t *keep;        /* [n] trained on, to be set */
    float *log_probs;     /* [n] at sampling: the trajectory's own */
};

/* Nothing is kept yet. */
sr1_status sr1__masking_open(struct sr1__masking *m, const sr1_trajectory *t);
void sr1__masking_close(struct sr1__masking *m); /* a zeroed one is fine */
/* Bytes of the text that a generated token begins and ends at. */
size_t sr1__piece_begin(const struct sr1__masking *m, size_t token);
size_t sr1__piece_end(const struct sr1__masking *m, size_t token);
/* A token that was inserted, and is kept, has in each column the value of the policy's
 * token before it. */
sr1_status sr1__masked_copy(const struct sr1__masking *m, sr1_trajectory **out);

#endif
