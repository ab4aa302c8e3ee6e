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
    const float *weights;           /* share of each token in the mean; NULL: 1/n each */
    const float *rollout_log_probs; /* as the sampler gave them, where old_log_probs were
                                       computed anew; NULL: old_log_probs */
    const float *entropies;         /* of the distribution at each token; may be NULL when
                                       entropy_coef is 0 */
    size_t n_seqs;
    const int64_t *seq_begin;  /* [n_seqs + 1] rising from 0 to n: sequence i has tokens
                                  [seq_begin[i], seq_begin[i + 1]); NULL: not known */
    const int64_t *seq_tokens; /* [n_seqs] tokens each sequence has in the whole batch;
                                  one that was cut is then refused; NULL: none is */
} sr1_loss_batch;

/* What is 0 or NULL is off; begin with sr1_loss_options_init for published values.
 * Each loss reads the fields that sr1_loss_describe lists, and those of all: beta,
 * kl_kind, kl_weighted, entropy_coef, correction, correction_low, correction_high,
 * off_policy_delta. */
typedef struct sr1_loss_options {
    size_t struct_size;
    double clip_low;     /* ratio kept above 1 - clip_low */
    double clip_high;    /* and below 1 + clip_high */
    double beta;         /* weight of the KL term */
    double dual_clip;    /* c > 1: the loss of a token with A < 0 is at most c |A| */
    double ratio_cap;    /* delta >= 1 + clip_high: the ratio is at most delta */
    double tau_positive; /* sapo: temperature for A > 0 */
    double tau_negative; /* and for others */
    double k_positive;   /* vespo: exponent for A >= 0 */
    double lambda_positive;
    double k_negative; /* and for others */
    double lambda_negative;
    const char *kl_kind;     /* NULL: "k3"; sr1_loss_kl_name lists them */
    int32_t kl_weighted;     /* 1: KL times the token's ratio, unbiased off policy */
    double entropy_coef;     /* weight of the entropy bonus */
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
    double loss; /* policy_loss + beta * kl - entropy_coef * entropy */
    double policy_loss;
    double kl;                 /* of kl_kind between new and ref log-probs */
    double clip_fraction;      /* tokens whose clipped branch is the smaller */
    double approx_kl;          /* old - new log-probs (verl: ppo_kl) */
    double ratio_max;          /* largest r of the batch (a maximum, not a mean) */
    double log_ratio_max;      /* largest |new - old| (a maximum) */
    double clip_low_fraction;  /* of clip_fraction: r below its bound */
    double clip_high_fraction; /* and above */
    double dual_clip_fraction; /* tokens that dual_clip or ratio_cap bounds */
    double ratio_mean;         /* r, as the loss takes it: of token or sequence */
    double entropy;
    double importance_mean;   /* importance weights before they are cut; 1 without */
    double importance_square; /* their squares: the effective share of the sample is
                                 importance_mean^2 / (importance_square * weight) */
    double importance_max;    /* a maximum */
    double importance_cut;    /* tokens whose importance weight was cut or dropped */
    double off_policy_cut;    /* tokens dropped by off_policy_delta */
    double weight;            /* sum of the weights */
    int64_t tokens;           /* n */
} sr1_loss_report;

/* What a loss needs of the batch beside new_log_probs. */
#define SR1_LOSS_NEEDS_OLD 1        /* old_log_probs */
#define SR1_LOSS_NEEDS_ADVANTAGES 2 /* advantages */
#define SR1_LOSS_NEEDS_SEQUENCES 4  /* seq_begin */

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

/* ---- a loss of your own ---- */

/* What held a token, for the shares of clipped tokens in the report. */
#define SR1_LOSS_BOUND_NONE 0
#define SR1_LOSS_BOUND_LOW 1  /* the lower bound of the ratio */
#define SR1_LOSS_BOUND_HIGH 2 /* the upper one */
#define SR1_LOSS_BOUND_DUAL 3 /* a bound beyond these: dual_clip, ratio_cap */

/* Of each token, zeros before. Its share in the mean, the KL term, the entropy bonus and
 * importance weights are not in it: the library adds them. */
typedef struct sr1_loss_terms {
    size_t struct_size; /* set by the library; later versions append fields */
    double *values;     /* [n] loss of the token */
    double *slopes;  /* [n] derivative by new_log_probs[i] of the sum of all values; with
                        those of a sequence that depend on each other, of the sum over
                        the sequence (its tokens have one weight) */
    uint8_t *bounds; /* [n] SR1_LOSS_BOUND_* */
} sr1_loss_terms;

typedef struct sr1_loss_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* 1 to 64 letters, digits, '_', '-', '.'; copied, as all texts */
    /* Fill *out for the n > 0 tokens of batch: a part of the step's (a micro-batch), in
     * which no sequence is cut where `needs` has NEEDS_SEQUENCES. new_log_probs,
     * old_log_probs and advantages are there, all finite; ref_log_probs may be NULL.
     * Every token counts: those that are masked are not in it. All are borrowed for the
     * call. Workers call it side by side, each with a part of its own. A status other
     * than SR1_OK fails the step, SR1_E_NUMERIC and terms that are not finite the update;
     * explain it with sr1_set_error. */
    sr1_status (*compute)(void *self, const sr1_loss_batch *batch,
                          const sr1_loss_options *options, const sr1_loss_terms *out);
    int64_t needs;       /* SR1_LOSS_NEEDS_SEQUENCES or 0; the others are always given */
    const char *options; /* fields of sr1_loss_options that it reads, joined by ", ";
                            NULL: none */
    const sr1_loss_options *defaults; /* their numbers, and beta, without a kl_kind or
                                         correction; NULL: those of grpo */
    const char *aggregation; /* default of the key loss_aggregation; NULL: "token-mean" */
    int32_t zero_without_advantage; /* 1: the slope of a token with advantage 0 is 0, so
                                       that trajectories without advantage need no forward
                                       pass; 0: they get one */
    const char *formula;            /* for sr1_loss_describe; NULL: "" */
    const char *source;
} sr1_loss_ops;

/* Make a loss known by its name: to every function of this header that takes one, and to
 * the key `loss`, in the order of registering behind the built-in ones. For the life of
 * the process, in which self (may be NULL) stays valid. A run that was begun with it
 * resumes in a process that has registered it before; another is refused by name. From
 * any thread. SR1_E_INVALID: the name is taken or no name, or a field contradicts
 * another. */
SR1_API sr1_status sr1_loss_register(const sr1_loss_ops *ops, void *self);

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
 * truncate bounds the weights by correction_high; mask drops those outside
 * [correction_low, correction_high]. The weights have no gradient. Static. */
SR1_API const char *sr1_loss_correction_name(size_t i);

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
 * With the totals of the whole batch, the weights of a part are those in the whole.
 * SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_loss_weights(const char *aggregation, const sr1_loss_maps *maps,
                                    float *weights);

/* Return the name of aggregation i, NULL past the last. Static. */
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
