/* searchr1/loss.h - losses of the policy and of its critic, as pure functions over plain
 * buffers.
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
 * Threads:   no shared state. */
#ifndef SEARCHR1_LOSS_H
#define SEARCHR1_LOSS_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n policy tokens; every array of floats holds n. Their order is free, unless seq_begin
 * says which belong to one sequence. */
typedef struct sr1_loss_batch {
    size_t struct_size;
    size_t n;
    const float *new_log_probs; /* under the weights being trained */
    const float *old_log_probs; /* under the weights that sampled */
    const float *ref_log_probs; /* KL anchor; may be NULL when beta is 0 */
    const float *advantages;
    const float *weights; /* share of each token in the mean; NULL: 1/n each */
    const float *rollout_log_probs; /* as the sampler gave them, where old_log_probs were
                                       computed anew; NULL: old_log_probs */
    const float *entropies; /* of the distribution at each token; may be NULL when
                               entropy_coef is 0 */
    size_t n_seqs;
    const int64_t *seq_begin;  /* [n_seqs + 1] rising from 0 to n: sequence i has tokens
                                  [seq_begin[i], seq_begin[i + 1]); NULL: not known */
    const int64_t *seq_tokens; /* [n_seqs] tokens each sequence has in the whole batch;
                                  one that was cut is then refused; NULL: none is */
} sr1_loss_batch;

/* What is 0 or NULL is off; begin with sr1_loss_options_default for published numbers.
 * Each loss reads the fields that sr1_loss_describe lists, and those of all: beta,
 * kl_kind, kl_weighted, entropy_coef, correction, correction_low, correction_high,
 * off_policy_delta. */
typedef struct sr1_loss_options {
    size_t struct_size;
    double clip_low;  /* ratio kept above 1 - clip_low */
    double clip_high; /* and below 1 + clip_high */
    double beta;      /* weight of the KL term */
    double dual_clip; /* c > 1: the loss of a token with A < 0 is at most c |A| */
    double ratio_cap; /* delta > 1: the ratio outside the clip is at most delta */
    double tau_positive; /* sapo: temperature for A > 0 */
    double tau_negative; /* and for others */
    double k_positive;   /* vespo: exponent for A >= 0 */
    double lambda_positive;
    double k_negative; /* and for others */
    double lambda_negative;
    const char *kl_kind; /* NULL: "k3"; sr1_loss_kl_name lists them */
    int32_t kl_weighted; /* 1: KL times the token's ratio, unbiased off policy */
    double entropy_coef; /* weight of the entropy bonus */
    const char *correction;  /* of tokens another policy sampled; NULL: "none";
                                sr1_loss_correction_name lists them */
    double correction_low;   /* importance weights below are dropped (masks only) */
    double correction_high;  /* and those above cut or dropped; > 0 */
    double off_policy_delta; /* tokens with A < 0 count nothing in a sequence whose mean
                                of sampler's minus new log-probs is above */
} sr1_loss_options;

/* Sums of weight times value over the tokens, which are means where the weights sum to 1:
 * reports of the parts of a split batch add up to the report of the whole, but for the
 * maxima. Divided by `weight` they are means for any weights. */
typedef struct sr1_loss_report {
    size_t struct_size;
    double loss;           /* policy_loss + beta * kl - entropy_coef * entropy */
    double policy_loss;
    double kl;             /* of kl_kind between new and ref log-probs */
    double clip_fraction;  /* tokens whose clipped branch is the smaller */
    double approx_kl;      /* old - new log-probs (verl: ppo_kl) */
    double ratio_max;      /* largest r of the batch (a maximum, not a mean) */
    double log_ratio_max;  /* largest |new - old| (a maximum) */
    double clip_low_fraction;  /* of clip_fraction: r below its bound */
    double clip_high_fraction; /* and above */
    double dual_clip_fraction; /* tokens that dual_clip or ratio_cap bounds */
    double ratio_mean;         /* r, as the loss takes it: of token or sequence */
    double entropy;
    double importance_mean;    /* importance weights before they are cut; 1 without */
    double importance_square;  /* their squares: the effective share of the sample is
                                  importance_mean^2 / (importance_square * weight) */
    double importance_max;     /* a maximum */
    double importance_cut;     /* tokens whose importance weight was cut or dropped */
    double off_policy_cut;     /* tokens dropped by off_policy_delta */
    double weight;             /* sum of the weights */
    int64_t tokens;            /* n */
} sr1_loss_report;

/* What a loss needs of the batch beside new_log_probs. */
#define SR1_LOSS_NEEDS_OLD 1        /* old_log_probs */
#define SR1_LOSS_NEEDS_ADVANTAGES 2 /* advantages */
#define SR1_LOSS_NEEDS_SEQUENCES 4  /* seq_begin */

/* A row of the table. Texts are static. */
typedef struct sr1_loss_info {
    size_t struct_size;
    const char *name;
    const char *formula;     /* one line, of one token; docs/algorithms.md explains it */
    const char *source;
    const char *options;     /* fields of sr1_loss_options of its own, with commas */
    const char *aggregation; /* the weights it was published with */
    int64_t needs;           /* SR1_LOSS_NEEDS_* */
} sr1_loss_info;

/* Name of loss i of the table, NULL past its end. Static. Since 0.1. */
SR1_API const char *sr1_loss_name(size_t i);

/* Row i of the table. SR1_E_INVALID past its end. Since 0.1. */
SR1_API sr1_status sr1_loss_describe(size_t i, sr1_loss_info *out);

/* The published numbers of the named loss, as far as options->struct_size, set by the
 * caller, goes. SR1_E_NOT_FOUND lists the names known. Since 0.1. */
SR1_API sr1_status sr1_loss_options_default(const char *name, sr1_loss_options *options);

/* The named loss. options NULL: its published numbers. gradient[n] receives d loss / d
 * new_log_probs, entropy_gradient[n] d loss / d entropies, for a caller that can send it
 * back through the model; each of the two, and report, may be NULL. SR1_E_NOT_FOUND lists
 * the names known. Since 0.1. */
SR1_API sr1_status sr1_loss_compute(const char *name, const sr1_loss_batch *batch,
                                    const sr1_loss_options *options, float *gradient,
                                    float *entropy_gradient, sr1_loss_report *report);

/* The GRPO objective (Shao et al. 2024, eq. 3, with the k3 KL of Schulman 2020):
 *
 *     sum_i w_i * [ -min(r_i A_i, clip(r_i, 1 - low, 1 + high) A_i) + beta * k3_i ]
 *     r = exp(new - old),  k3 = exp(ref - new) - (ref - new) - 1
 *
 * sr1_loss_compute of "grpo"; options are required. Since 0.1. */
SR1_API sr1_status sr1_loss_grpo(const sr1_loss_batch *batch,
                                 const sr1_loss_options *options, float *gradient,
                                 sr1_loss_report *report);

/* The loss of imitation: sum_i w_i * -new_i. Only new_log_probs and weights are read;
 * options may be NULL. gradient and report as above. Since 0.1. */
SR1_API sr1_status sr1_loss_nll(const sr1_loss_batch *batch,
                                const sr1_loss_options *options, float *gradient,
                                sr1_loss_report *report);

/* Name i of the kinds of KL, NULL past the last: with x = new - ref,
 *
 *     k1, kl       x                    abs   |x|
 *     k2, mse      x^2 / 2              k3    exp(-x) + x - 1
 *     low_var_kl   k3 with x within +-20 and the result within +-10
 *
 * '+' behind one (k3+) keeps its value and takes the gradient of k2, which is that of the
 * KL itself on average (Schulman 2020; names of verl). Static. Since 0.1. */
SR1_API const char *sr1_loss_kl_name(size_t i);

/* Name i of the corrections, NULL past the last: none; token_truncate, token_mask,
 * sequence_truncate, sequence_mask. Importance weights exp(old - rollout) of a token, or
 * of a sequence the product of its tokens', multiply the policy's loss; truncate bounds
 * them by correction_high, mask drops those outside [correction_low, correction_high].
 * They have no gradient. Static. Since 0.1. */
SR1_API const char *sr1_loss_correction_name(size_t i);

/* ---- weights ---- */

/* Sequences of a batch or of a part of it. */
typedef struct sr1_loss_maps {
    size_t struct_size;
    size_t n_seqs;
    const int64_t *seq_begin; /* [n_seqs + 1] rising from 0, as in sr1_loss_batch */
    int64_t total_tokens; /* of the whole batch; 0: these maps are the whole batch */
    int64_t total_seqs;   /* sequences with tokens, of the whole batch; 0: as above */
    double length;        /* seq-mean-token-sum-norm: the constant length, > 0 */
    const uint64_t *groups;      /* [n_seqs] key each; group-mean-token-mean only */
    const int64_t *group_tokens; /* [n_seqs] tokens of the sequence's group in the whole
                                    batch; NULL: counted from groups */
    int64_t total_groups;        /* with tokens, of the whole batch; 0: counted */
} sr1_loss_maps;

/* The share of each token in the mean, weights[seq_begin[n_seqs]]: with N tokens, S
 * sequences with tokens and G groups with tokens in the whole batch, |o| tokens of this
 * sequence,
 *
 *     token-mean               1 / N           bnpo, dapo of TRL, over the whole batch
 *     token-sum                1
 *     seq-mean-token-mean      1 / (S |o|)     grpo of TRL
 *     seq-mean-token-sum       1 / S
 *     seq-mean-token-sum-norm  1 / (S length)  dr_grpo of TRL
 *     group-mean-token-mean    1 / (G tokens of the group)
 *
 * Weights of parts with the totals of the whole are those of the whole. SR1_E_NOT_FOUND
 * lists the names known. Since 0.1. */
SR1_API sr1_status sr1_loss_weights(const char *aggregation, const sr1_loss_maps *maps,
                                    float *weights);

/* Name of aggregation i, NULL past the last. Static. Since 0.1. */
SR1_API const char *sr1_loss_aggregation_name(size_t i);

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
    size_t struct_size;
    double clip_range; /* values count as at most this far from old ones; 0: anywhere */
} sr1_value_options;

/* Sums of weight times value, as in sr1_loss_report. */
typedef struct sr1_value_report {
    size_t struct_size;
    double loss;
    double clip_fraction; /* tokens whose clipped branch is the larger */
    double value;
    double returns;
    double returns_square;
    double error;        /* returns - value */
    double error_square;
    double weight;       /* sum of the weights */
    int64_t tokens;      /* n */
} sr1_value_report;

/* The critic's loss (Schulman et al. 2017 in the form of OpenAI's ppo2, and of verl):
 *
 *     sum_i w_i * max((v_i - R_i)^2, (clip(v_i, v_old_i - c, v_old_i + c) - R_i)^2) / 2
 *
 * gradient[n] receives d loss / d values; it and report may be NULL. options NULL: c 0.5
 * (verl's cliprange_value). Since 0.1. */
SR1_API sr1_status sr1_value_loss(const sr1_value_batch *batch,
                                  const sr1_value_options *options, float *gradient,
                                  sr1_value_report *report);

/* 1 - var(returns - values) / var(returns) from a report, or from the sum of its parts; 0
 * where the returns do not vary. Since 0.1. */
SR1_API sr1_status sr1_value_explained_variance(const sr1_value_report *report,
                                                double *out);

#ifdef __cplusplus
}
#endif
#endif
