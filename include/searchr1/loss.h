/* searchr1/loss.h - policy losses as pure functions over plain buffers.
 *
 * A loss sees the log-probs of n policy tokens and gives back its value and its gradient
 * with respect to the new log-probs; the trainer feeds that gradient to the model's
 * backward pass. Nothing here knows a tensor, so every loss can be called, and checked,
 * from C or numpy.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for missing arrays, SR1_E_NUMERIC naming the first token whose
 *            input is not finite; outputs are then untouched.
 * Threads:   no shared state. */
#ifndef SEARCHR1_LOSS_H
#define SEARCHR1_LOSS_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n policy tokens, in any order; every array holds n floats. */
typedef struct sr1_loss_batch {
    size_t struct_size;
    size_t n;
    const float *new_log_probs; /* under the weights being trained */
    const float *old_log_probs; /* under the weights that sampled */
    const float *ref_log_probs; /* KL anchor; may be NULL when beta is 0 */
    const float *advantages;
    const float *weights; /* share of each token in the mean; NULL: 1/n each */
} sr1_loss_batch;

typedef struct sr1_loss_options {
    size_t struct_size;
    double clip_low;  /* ratio kept above 1 - clip_low */
    double clip_high; /* and below 1 + clip_high */
    double beta;      /* weight of the KL term */
} sr1_loss_options;

/* Weighted means over the batch (sums of weight times value: reports of the parts of a
 * split batch add up to the report of the whole). */
typedef struct sr1_loss_report {
    size_t struct_size;
    double loss;           /* policy_loss + beta * kl */
    double policy_loss;    /* -min(r A, clip(r) A) */
    double kl;             /* k3 between new and ref log-probs */
    double clip_fraction;  /* tokens whose clipped branch is the smaller */
    double approx_kl;      /* old - new log-probs (verl: ppo_kl) */
    double ratio_max;      /* largest r of the batch (a maximum, not a mean) */
    double log_ratio_max;  /* largest |new - old| */
} sr1_loss_report;

/* The GRPO objective (Shao et al. 2024, eq. 3, with the k3 KL of Schulman 2020):
 *
 *     sum_i w_i * [ -min(r_i A_i, clip(r_i, 1 - low, 1 + high) A_i) + beta * k3_i ]
 *     r = exp(new - old),  k3 = exp(ref - new) - (ref - new) - 1
 *
 * gradient[n] receives d loss / d new_log_probs; it and report may be NULL. Exponents are
 * clamped to +-20, with zero gradient beyond. Since 0.1. */
SR1_API sr1_status sr1_loss_grpo(const sr1_loss_batch *batch,
                                 const sr1_loss_options *options, float *gradient,
                                 sr1_loss_report *report);

/* The loss of imitation: sum_i w_i * -new_i. Only new_log_probs and weights are read;
 * options may be NULL. gradient and report as above. Since 0.1. */
SR1_API sr1_status sr1_loss_nll(const sr1_loss_batch *batch,
                                const sr1_loss_options *options, float *gradient,
                                sr1_loss_report *report);

#ifdef __cplusplus
}
#endif
#endif
