/* train/objective.h - what an update minimises: a forward pass of the weights, and the
 * loss of its outputs. The policy has one, and the critic. */
#ifndef SR1__TRAIN_OBJECTIVE_H
#define SR1__TRAIN_OBJECTIVE_H

#include "train/step_batch.h"

/* Sums over micro-batches; those of several workers add up. */
struct sr1__loss_sums {
    sr1_loss_report loss;
    sr1_value_report value;
    double diff_sum; /* |sampled - recomputed log-prob| over tokens */
    double diff_max;
    double probs_sum; /* and of the probabilities */
    double probs_max;
    double entropy_sum; /* over tokens, where the loss has a bonus for it */
    double aux_loss;    /* of routers, a mean over sequences; 0 where it has no weight */
};

/* Host arrays of one micro-batch, [M] each. */
struct sr1__loss_arrays {
    float *outputs;        /* [width * M] of the weights being trained */
    float *weights;        /* share of each token in the loss */
    double mean_weight;    /* that share in a mean over all tokens */
    float *gradient;       /* [width * M] d loss / d outputs, to be filled */
    int64_t *seq_begin;    /* [S + 1] of a sequence's targets, which stand together */
    int64_t *group_tokens; /* [S] of its group, where a mean is of groups */
    double share;          /* of the sequences in those of the mini-batch */
    struct sr1__router_loss router; /* its weight is set; forward may compute it */
};

/* The dropout of adapters in this epoch of an update; NULL: there is none. */
static inline const struct sr1__token_dropout *sr1__update_dropout(const sr1_trainer *tr)
{
    return tr->dropout.p > 0.0 ? &tr->dropout : NULL;
}

/* ---- groups.c ---- */

struct sr1__group_counts {
    size_t begin;    /* first trajectory of the mini-batch */
    int64_t *tokens; /* [trajectories] of each one's group; NULL: no mean asks for it */
    int64_t groups;  /* with tokens */
};
sr1_status sr1__group_counts_make(struct sr1__group_counts *g,
                                  const struct sr1__trajectory_store *from, size_t begin,
                                  size_t end);
void sr1__group_counts_free(struct sr1__group_counts *g); /* a zeroed one is fine */

struct sr1__objective {
    const char *name;
    /* Outputs of the model for each policy token; NULL: 1. */
    size_t (*width)(const sr1_trainer *tr);
    int32_t replays_routers; /* with router replay, its passes go by tr->routes */
    /* The outputs, kind by kind: [width * M], fp32. */
    sr1_tensor *(*forward)(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                           const struct sr1__microbatch *mb, struct sr1__loss_arrays *a);
    /* The loss's gradient; its figures are added to *sums. SR1_E_NUMERIC: not finite. */
    sr1_status (*loss)(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                       const struct sr1__loss_arrays *a, struct sr1__loss_sums *sums);
    /* What the loss has to know of all trajectories [begin, end) of a mini-batch of what
     * was selected, before the passes over it; NULL: nothing. is_first: the weights are
     * still those before the update. */
    sr1_status (*survey)(const struct sr1__step_batch *b, size_t begin, size_t end,
                         int32_t is_first);
    /* How tokens are weighed. */
    const struct sr1__aggregation *(*aggregation)(const sr1_trainer *tr);
    /* May trajectories whose advantages are all 0 be passed over: is their share of the
     * gradient exactly 0? NULL: never. */
    int32_t (*can_skip_without_advantage)(const struct sr1__step_batch *b);
    /* Trajectory columns it reads: 1 << SR1_COLUMN_*. */
    uint32_t (*columns)(const sr1_trainer *tr);
    /* Figures of the first mini-batch, of weights that are still those of the rollout;
     * may be NULL. */
    void (*report_rollout)(const sr1_trainer *tr, const struct sr1__loss_sums *sums,
                           int64_t policy_tokens, struct sr1_step_metrics *m);
    /* Figures of an epoch that was applied, its mini-batches' means. */
    void (*report_epoch)(const struct sr1__loss_sums *sums, double grad_norm, double rate,
                         struct sr1_step_metrics *m);
};

/* ---- choose_tokens.c ---- */

/* tr->choice of a mini-batch of the policy's. */
sr1_status sr1__choose_tokens(const struct sr1__step_batch *b, size_t begin, size_t end,
                              int32_t is_first);
void sr1__token_choice_free(struct sr1__token_choice *c); /* a zeroed one is fine */
/* Those of a micro-batch, [M], freed with sr1__free; NULL: none are chosen. */
sr1_status sr1__chosen_of(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                          const int64_t *seq_begin, uint8_t **out);

/* ---- optimise.c ---- */

/* All epochs of one learner over b->selected. Adds the update's metrics. */
sr1_status sr1__optimise(struct sr1__step_batch *b, struct sr1__learner *learner,
                         const struct sr1__objective *objective, int64_t epochs);

#endif
