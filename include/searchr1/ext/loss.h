/* searchr1/ext/loss.h - losses of the policy and of its critic, as pure functions over
 * plain buffers.
 *
 * A loss sees the log-probs of n policy tokens and gives back its value and its gradient
 * with respect to the new log-probs; the trainer feeds that gradient to the model's
 * backward pass. Nothing here knows a tensor, so every loss can be called, and checked,
 * from C or numpy.
 *
 * A batch may be cut into parts (micro-batches, shards) at will, as long as `weights` are
 * those of the whole batch (sr1_loss_weights) and, for losses by sequence, no sequence is
 * cut: then losses and reports of the parts add up and the gradient is the same.
 *
 * Exponents are clamped to +-20; beyond that a ratio is constant, so its gradient is 0.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for what is missing or contradicts itself, SR1_E_NUMERIC
 *            naming the first token whose input is not finite, or whose gradient does not
 *            fit a float; SR1_E_NOMEM; outputs are then untouched.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_LOSS_H
#define SEARCHR1_EXT_LOSS_H

#include <searchr1/loss.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sums of weight times value over the tokens, which are means where the weights sum to 1:
 * reports of the parts of a split batch add up to the report of the whole, but for the
 * maxima. Divided by `weight` they are means for any weights. */
typedef struct sr1_loss_report {
    size_t struct_size;
    double loss; /* policy_loss + beta * kl - entropy_coef * entropy */
    double policy_loss;
    double kl;                 /* of kl_kind between new and ref log-probs */
    double clip_fraction;      /* tokens whose clipped branch is the smaller */
    double approx_kl;          /* old - new log-probs (verl: ppo_kl) */
    double ratio_max;          /* largest r of the batch (a maximum, not a mean) */
    double log_ratio_max;      /* largest |new - old| (a maximum) */
    double clip_low_fraction;  /* of clip_fraction: r below its bound */
    double clip_high_fraction; /* and above */
    double dual_clip_fraction; /* tokens that dual_clip or ratio_cap bounds, or that
                                  clip_cov leaves out */
    double ratio_mean;         /* r, as the loss takes it: of token or sequence */
    double entropy;            /* of the tokens that entropy_threshold leaves */
    double importance_mean;    /* importance weights before they are cut; 1 without */
    double importance_square;  /* their squares: the effective share of the sample is
                                  importance_mean^2 / (importance_square * weight) */
    double importance_max;     /* a maximum */
    double importance_cut;     /* tokens whose importance weight was bounded or dropped */
    double off_policy_cut;     /* tokens dropped by off_policy_delta */
    double weight;             /* sum of the weights */
    int64_t tokens;            /* n */
} sr1_loss_report;

/* A row of the table. Texts are static. */
typedef struct sr1_loss_info {
    size_t struct_size;
    const char *name;
    const char *formula; /* one line, of one token; docs/algorithms.md explains it */
    const char *source;
    const char *options;     /* fields of sr1_loss_options of its own, with commas */
    const char *aggregation; /* the weights it was published with */
    int64_t needs;           /* SR1_LOSS_NEEDS_* */
} sr1_loss_info;

/* Return the name of loss i, NULL past the last. Static. */
SR1_API const char *sr1_loss_name(size_t i);

/* Fill *out (struct_size set) with row i of the table of losses. SR1_E_INVALID: i is out
 * of range. */
SR1_API sr1_status sr1_loss_describe(size_t i, sr1_loss_info *out);

/* Set struct_size, and every other field to the published value of the named loss.
 * SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_loss_options_init(sr1_loss_options *options, const char *loss);

/* Compute the named loss. options NULL: its published values. gradient [n] receives d
 * loss / d new_log_probs; entropy_gradient [n] receives d loss / d entropies, for a
 * caller that can propagate it through the model. Both gradients, and report (struct_size
 * set), may be NULL. SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_loss_compute(const char *name, const sr1_loss_batch *batch,
                                    const sr1_loss_options *options, float *gradient,
                                    float *entropy_gradient, sr1_loss_report *report);

/* Mark in chosen [n], 1 or 0, the tokens that clip_cov and kl_cov treat apart, which are
 * given to sr1_loss_compute as batch->chosen, by
 *
 *     cov = (A - mean of A) (new - mean of new)
 *
 * over all n tokens: batch has to be whole. kl_cov takes those of the largest cov,
 * kl_cov_ratio of all; clip_cov draws with seed, at most clip_cov_ratio of all, among
 * those with clip_cov_lb < cov < clip_cov_ub that its clip does not hold. At least one
 * where there is any. Of other losses none is marked. options NULL: published values.
 * SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_loss_choose(const char *name, const sr1_loss_batch *batch,
                                   const sr1_loss_options *options, uint64_t seed,
                                   uint8_t *chosen);

/* ---- two losses by name ---- */

/* Compute the GRPO objective (Shao et al. 2024, eq. 3, with the k3 KL of Schulman 2020):
 *
 *     sum_i w_i * [ -min(r_i A_i, clip(r_i, 1 - low, 1 + high) A_i) + beta * k3_i ]
 *     r = exp(new - old),  k3 = exp(ref - new) - (ref - new) - 1
 *
 * This is sr1_loss_compute of "grpo" without a gradient of entropies; options are
 * required. */
SR1_API sr1_status sr1_loss_grpo(const sr1_loss_batch *batch,
                                 const sr1_loss_options *options, float *gradient,
                                 sr1_loss_report *report);

/* Compute the loss of imitation, sum_i w_i * -new_i. Only new_log_probs and weights are
 * read. options, gradient [n] and report may be NULL. */
SR1_API sr1_status sr1_loss_nll(const sr1_loss_batch *batch,
                                const sr1_loss_options *options, float *gradient,
                                sr1_loss_report *report);

/* Return the name of KL kind i, NULL past the last; with x = new - ref:
 *
 *     k1, kl       x                    abs   |x|
 *     k2, mse      x^2 / 2              k3    exp(-x) + x - 1
 *     low_var_kl   k3, at most 10
 *
 * Below x = -20 k3 continues as a straight line. verl's k3 and low_var_kl are low_var_kl
 * here; TRL's is k3. A '+' behind a name (k3+) keeps the value and takes the gradient of
 * k2, which on average is the gradient of the KL itself (Schulman 2020; names of verl).
 * Static. */
SR1_API const char *sr1_loss_kl_name(size_t i);

/* Return the name of correction i, NULL past the last: none, token_truncate, token_mask,
 * sequence_truncate, sequence_mask. The policy's loss is multiplied by importance
 * weights: exp(old - rollout) of a token, or the product over the tokens of a sequence.
 * truncate keeps the weights within [correction_low, correction_high]; mask drops those
 * outside. The weights have no gradient. Static. */
SR1_API const char *sr1_loss_correction_name(size_t i);

/* ---- rejection ---- */

/* Figures of a rejection, of x: the criterion's measure of a token, or of a sequence,
 * which all its tokens have then. Means over tokens, or where there are any over
 * sequences; 0 without tokens. */
typedef struct sr1_rejection_report {
    size_t struct_size;
    double masked_fraction;     /* tokens that are dropped, of all criteria */
    double seq_masked_fraction; /* sequences that lose any */
    double mean;                /* of the first criterion: of tokens */
    double std;                 /* of x within the bounds */
    double max;                 /* of sequences where the criterion is by sequence */
    double min;
    double fraction_high; /* above the upper bound, likewise */
    double fraction_low;  /* below the lower one, which k1 alone has */
    double seq_mean;      /* of sequences: x, or the mean of their tokens' */
    double seq_std;       /* divided by n - 1 */
    double seq_max;
    double seq_min;
    double seq_max_deviation; /* largest |x| */
    double seq_fraction_high;
    double seq_fraction_low;
} sr1_rejection_report;

/* Return the name of criterion i of a rejection, NULL past the last: token_k1, token_k2,
 * token_k3, seq_sum_k1, seq_sum_k2, seq_sum_k3, seq_mean_k1, seq_mean_k2, seq_mean_k3,
 * seq_max_k2, seq_max_k3. Static. Since 0.1 */
SR1_API const char *sr1_loss_rejection_name(size_t i);

/* Mark in keep [n], 1 or 0, the tokens that stay in the batch where all that are too far
 * from what sampled them are left out (verl: rollout_rs). With d = old - rollout
 * log-probs, within +-20, the measures are
 *
 *     k1 = -d      k2 = d^2 / 2      k3 = exp(d) - d - 1
 *
 * of a token, or over a sequence their sum, mean or maximum. criteria: names with commas,
 * all of which a token has to pass. thresholds: one for each with commas, or one for all:
 * "lower_upper" for k1, which stays between their logs ("2": "0.5_2"), and an upper bound
 * for the others. Of batch old_log_probs, rollout_log_probs and seq_begin are read, in
 * which no sequence may be cut. The loss is then computed of a batch without the others,
 * with weights of its own (sr1_loss_weights). report (struct_size set) may be NULL; but
 * for its first two fields it is of the first criterion, whatever the others drop.
 * SR1_E_NOT_FOUND lists the criteria. SR1_E_INVALID: there is none, one is there twice,
 * or a threshold does not fit. Since 0.1 */
SR1_API sr1_status sr1_loss_reject(const sr1_loss_batch *batch, const char *criteria,
                                   const char *thresholds, uint8_t *keep,
                                   sr1_rejection_report *report);

/* ---- weights ---- */

/* Sequences of a batch or of a part of it. */
typedef struct sr1_loss_maps {
    size_t struct_size;
    size_t n_seqs;
    const int64_t *seq_begin; /* [n_seqs + 1] rising from 0, as in sr1_loss_batch */
    int64_t total_tokens;     /* of the whole batch; 0: these maps are the whole batch */
    int64_t total_seqs;       /* sequences with tokens, of the whole batch; 0: as above */
    double length;            /* seq-mean-token-sum-norm: the constant length, > 0 */
    const uint64_t *groups;   /* [n_seqs] key each; group-mean-token-mean only */
    const int64_t *group_tokens; /* [n_seqs] tokens of the sequence's group in the whole
                                    batch; NULL: counted from groups */
    int64_t total_groups;        /* with tokens, of the whole batch; 0: counted */
} sr1_loss_maps;

/* Compute the share of each token in the mean, weights [seq_begin[n_seqs]]. N tokens, S
 * sequences with tokens and G groups with tokens are those of the whole batch, |o| the
 * tokens of the sequence:
 *
 *     token-mean               1 / N           bnpo, dapo of TRL, over the whole batch
 *     token-sum                1
 *     seq-mean-token-mean      1 / (S |o|)     grpo of TRL
 *     seq-mean-token-sum       1 / S
 *     seq-mean-token-sum-norm  1 / (S length)  dr_grpo of TRL
 *     group-mean-token-mean    1 / (G tokens of the group)
 *
 * (TRL's S counts truncated sequences whose tokens it masks, too.)
 *
 * With the totals of the whole batch, the weights of a part are those in the whole.
 * SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_loss_weights(const char *aggregation, const sr1_loss_maps *maps,
                                    float *weights);

/* Return the name of aggregation i, NULL past the last. Static. */
SR1_API const char *sr1_loss_aggregation_name(size_t i);

/* Fill *threshold with the entropy_threshold by which a share `quantile` of n tokens has
 * a policy loss, those of the highest entropy: the quantile 1 - quantile of entropies
 * [n], with torch.quantile's interpolation. 0: those of the largest entropy alone. Of no
 * tokens it is 0. SR1_E_INVALID: quantile is not in 0..1. SR1_E_NUMERIC names an entropy
 * that is not finite. */
SR1_API sr1_status sr1_loss_entropy_threshold(const float *entropies, size_t n,
                                              double quantile, double *threshold);

/* ---- the critic ---- */

/* n tokens; every array holds n floats. */
typedef struct sr1_value_batch {
    size_t struct_size;
    size_t n;
    const float *values;     /* of the critic being trained */
    const float *returns;    /* what it should have said */
    const float *old_values; /* what it said before the update; may be NULL when
                                clip_range is 0 */
    const float *weights;    /* as sr1_loss_batch's */
} sr1_value_batch;

typedef struct sr1_value_options {
    size_t struct_size; /* set by sr1_value_options_init */
    double clip_range;  /* values count as at most this far from old ones; 0: anywhere */
} sr1_value_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_value_options_init(sr1_value_options *options);

/* Sums of weight times value, as in sr1_loss_report. */
typedef struct sr1_value_report {
    size_t struct_size;
    double loss;
    double clip_fraction; /* tokens whose clipped branch is the larger */
    double value;
    double returns;
    double returns_square;
    double error; /* returns - value */
    double error_square;
    double weight;  /* sum of the weights */
    int64_t tokens; /* n */
} sr1_value_report;

/* Compute the critic's loss (Schulman et al. 2017 in the form of OpenAI's ppo2 and of
 * verl):
 *
 *     sum_i w_i * max((v_i - R_i)^2, (clip(v_i, v_old_i - c, v_old_i + c) - R_i)^2) / 2
 *
 * gradient [n] receives d loss / d values; gradient and report (struct_size set) may be
 * NULL. options NULL: c is 0.5 (verl's cliprange_value). */
SR1_API sr1_status sr1_value_loss(const sr1_value_batch *batch,
                                  const sr1_value_options *options, float *gradient,
                                  sr1_value_report *report);

/* Compute 1 - var(returns - values) / var(returns) from a report, or from the sum of the
 * reports of the parts of a batch; 0 where the returns do not vary. */
SR1_API sr1_status sr1_value_explained_variance(const sr1_value_report *report,
                                                double *out);

#ifdef __cplusplus
}
#endif
#endif
