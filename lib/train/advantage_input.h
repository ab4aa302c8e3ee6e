/* train/advantage_input.h - trajectories as the arrays of a sr1_advantage_batch, and the
 * results of an estimator. */
#ifndef SR1__TRAIN_ADVANTAGE_INPUT_H
#define SR1__TRAIN_ADVANTAGE_INPUT_H

#include "train/step_batch.h"

/* One block of memory each. */
struct sr1__advantage_input {
    sr1_trajectory *const *t; /* [n] */
    size_t n, n_tokens, n_turns, n_components;
    struct sr1__level_branch_step
        *levels;           /* [n_turns] of estimators that compare them; NULL */
    double *rewards;       /* [n] */
    uint64_t *groups;      /* [n] */
    int64_t *token_begin;  /* [n + 1] */
    int64_t *turn_begin;   /* [n + 1] */
    uint8_t *completed;    /* [n] */
    int32_t *result_turn;  /* [n] */
    int32_t *token_turns;  /* [n_tokens] */
    double *token_rewards; /* [n_tokens] */
    float *values;         /* [n_tokens] */
    uint8_t *step_tokens;  /* [n_tokens] of levels' tags */
    float *score_norms;    /* [n_tokens] */
    int32_t *token_places; /* [n_tokens] in the response */
    uint64_t *turn_states; /* [n_turns] */
    double *turn_rewards;  /* [n_turns] */
    double *baselines;     /* [n] */
    int32_t *turn_tags;    /* [n_turns] thinking levels */
    double *confidences;   /* [n_turns * SR1_THINKING_LEVELS] */
    double *costs;         /* likewise */
    double *components;    /* [n * n_components] */
    double *component_weights;
    uint8_t *component_absent;    /* [n * n_components] */
    const char **component_names; /* [n_components]; borrowed from the trajectories */
    double *advantages;           /* [n] results */
    float *token_advantages;      /* [n_tokens] */
    float *returns;               /* [n_tokens] */
};

/* Lay out the trajectories of v; l->levels, which may be NULL, is given and taken over.
 */
sr1_status sr1__advantage_input_fill(struct sr1__advantage_input *l,
                                     const struct sr1__step_batch *b,
                                     const struct sr1__batch_view *v);
void sr1__advantage_input_free(struct sr1__advantage_input *l); /* a zeroed one is fine */

#endif
