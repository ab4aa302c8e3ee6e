/* train/lesson.h - what a pass over micro-batches teaches: the policy to make what did
 * well likelier, the critic to foresee returns. */
#ifndef SR1__TRAIN_LESSON_H
#define SR1__TRAIN_LESSON_H

#include "train/internal.h"

/* What was found in micro-batches; those of several workers add up. */
struct sr1__tally {
    sr1_loss_report loss;
    sr1_value_report value;
    double diff_sum; /* |sampled - recomputed log-prob| over tokens */
    double diff_max;
    double probs_sum; /* and of the probabilities */
    double probs_max;
    double entropy_sum; /* over tokens, where the loss has a bonus for it */
};

/* Host arrays of one micro-batch, [M] each. */
struct sr1__grading {
    float *said;        /* [width * M] by the weights being trained */
    float *weights;     /* share of each token in the loss */
    double mean_weight; /* that share in a mean over all tokens */
    float *gradient;    /* [width * M] d loss / d said, to be filled */
    int64_t *seq_begin; /* [S + 1] of a sequence's targets, which stand together */
    int64_t *group_tokens; /* [S] of its group, where a mean is of groups */
};

/* ---- groups.c ---- */

struct sr1__group_counts {
    size_t begin;    /* first trajectory of the mini-batch */
    int64_t *tokens; /* [trajectories] of each one's group; NULL: no mean asks for it */
    int64_t groups;  /* with tokens */
};
sr1_status sr1__group_counts_make(struct sr1__group_counts *g,
                                  const struct sr1__source *from, size_t begin,
                                  size_t end);
void sr1__group_counts_free(struct sr1__group_counts *g); /* a zeroed one is fine */

struct sr1__lesson {
    const char *name;
    /* Numbers that the model says of each policy token; NULL: 1. */
    size_t (*width)(const sr1_trainer *tr);
    /* What it says, kind by kind: [width * M], fp32. */
    sr1_tensor *(*ask)(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                       const struct sr1__microbatch *mb);
    /* The loss's gradient; its figures are added to *t. SR1_E_NUMERIC: not finite. */
    sr1_status (*grade)(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                        const struct sr1__grading *g, struct sr1__tally *t);
    /* How tokens are weighed. */
    const struct sr1__aggregation *(*aggregation)(const sr1_trainer *tr);
    /* Trajectory columns it reads: 1 << SR1_COLUMN_*. */
    uint32_t (*columns)(const sr1_trainer *tr);
    /* Figures of the first pass, of weights that are still those of the rollout; may be
     * NULL. */
    void (*first_pass)(const struct sr1__tally *t, int64_t policy_tokens,
                       sr1_step_report *report);
    /* Figures of a pass that was applied, its mini-batches' means. */
    void (*report)(const struct sr1__tally *t, double grad_norm, double rate,
                   sr1_step_report *report);
};

extern const struct sr1__lesson sr1__lesson_policy;
extern const struct sr1__lesson sr1__lesson_critic;

void sr1__tally_add(struct sr1__tally *total, const struct sr1__tally *part);
/* Its means count v times; sums over tokens stay. */
void sr1__tally_scale(struct sr1__tally *t, double v);

#endif
