/* searchr1/loss.h - a loss of the policy of your own, for the key `loss`.
 *
 * A loss sees the log-probs of n policy tokens and returns the value and the slope
 * (d value / d new log-prob) of each: the derivative is written by hand, because nothing
 * here knows a tensor or autograd. searchr1/ext/loss.h calls every loss, the built-in
 * ones too, as a pure function, with KL terms, weights and the critic's loss.
 *
 * Ownership: arrays are borrowed for the call.
 * Errors:    a status other than SR1_OK changes nothing.
 * Threads:   sr1_loss_register from any thread. */
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
    const float *old_log_probs; /* under the policy before the update: those recorded at
                                   sampling, or computed anew (with a correction) */
    const float *ref_log_probs; /* KL anchor; may be NULL when beta is 0 */
    const float *advantages;
    const float *weights;           /* of each token in the mean; NULL: 1/n each */
    const float *rollout_log_probs; /* under the rollout policy, recorded at sampling,
                                       where old_log_probs were computed anew; NULL:
                                       old_log_probs */
    const float *entropies;         /* of the distribution at each token; may be NULL when
                                       entropy_coef and entropy_threshold are 0 */
    size_t n_seqs;
    const int64_t *seq_begin;  /* [n_seqs + 1] rising from 0 to n: sequence i has tokens
                                  [seq_begin[i], seq_begin[i + 1]); NULL: not known */
    const int64_t *seq_tokens; /* [n_seqs] tokens each sequence has in the whole batch;
                                  one that was cut is then refused; NULL: none is */
    const uint8_t *chosen;     /* 1: sr1_loss_choose chose the token in the whole batch
                                  (clip_cov, kl_cov); NULL: none. Since 0.1 */
} sr1_loss_batch;

/* What is 0 or NULL is off; begin with sr1_loss_options_init for published values.
 * Each loss reads the fields that sr1_loss_describe lists, and those of all: beta,
 * kl_kind, kl_weighted, entropy_coef, correction, correction_low, correction_high,
 * off_policy_delta, entropy_threshold. */
typedef struct sr1_loss_options {
    size_t struct_size;
    double clip_low;     /* ratio kept above 1 - clip_low; dppo_*: largest divergence
                            of a token with A <= 0 */
    double clip_high;    /* and below 1 + clip_high; of one with A > 0 */
    double beta;         /* weight of the KL term */
    double dual_clip;    /* c > 1: the loss of a token with A < 0 is at most c |A| */
    double ratio_cap;    /* delta >= 1 + clip_high: the ratio is at most delta; of dppo_*
                            delta > 1 */
    double tau_positive; /* sapo: temperature for A > 0 */
    double tau_negative; /* and for others */
    double k_positive;   /* vespo: exponent for A >= 0 */
    double lambda_positive;
    double k_negative; /* and for others */
    double lambda_negative;
    const char *kl_kind;      /* NULL: "k3"; sr1_loss_kl_name lists them */
    int32_t kl_weighted;      /* 1: KL times the token's ratio, unbiased off policy */
    double entropy_coef;      /* weight of the entropy bonus */
    const char *correction;   /* of tokens another policy sampled; NULL: "none";
                                 sr1_loss_correction_name lists them */
    double correction_low;    /* importance weights below are raised to it or dropped */
    double correction_high;   /* and those above cut to it or dropped; > 0 */
    double off_policy_delta;  /* tokens with A < 0 count nothing in a sequence whose mean
                                 of rollout minus new log-probs is above (TRL:
                                 off_policy_mask_threshold) */
    double entropy_threshold; /* tokens of a lower entropy have no policy loss and no
                                 entropy bonus, their KL stays (TRL:
                                 top_entropy_quantile); 0: all have. Since 0.1 */
    double clip_cov_ratio;    /* clip_cov: share of tokens that are drawn, > 0 */
    double clip_cov_lb;       /* of those whose covariance is above, */
    double clip_cov_ub;       /* and below */
    double kl_cov_ratio; /* kl_cov: share of tokens, of the largest covariance, > 0 */
    double ppo_kl_coef;  /* weight of their |new - old| */
    double dro_beta;     /* dro: weight of (new - old)^2 / 2 */
} sr1_loss_options;

/* What a loss needs of the batch beside new_log_probs. */
#define SR1_LOSS_NEEDS_OLD 1        /* old_log_probs */
#define SR1_LOSS_NEEDS_ADVANTAGES 2 /* advantages */
#define SR1_LOSS_NEEDS_SEQUENCES 4  /* seq_begin */

/* What held a token, for the shares of clipped tokens in the report. */
#define SR1_LOSS_BOUND_NONE 0
#define SR1_LOSS_BOUND_LOW 1  /* the lower bound of the ratio */
#define SR1_LOSS_BOUND_HIGH 2 /* the upper one */
#define SR1_LOSS_BOUND_DUAL 3 /* another: dual_clip, ratio_cap, clip_cov's choice */

/* Of each token, zeros before. Its share in the mean, the KL term, the entropy bonus and
 * importance weights are not in it: the library adds them. */
typedef struct sr1_loss_terms {
    size_t struct_size; /* set by the library; later versions append fields */
    double *values;     /* [n] loss of the token (elsewhere: per_token_loss) */
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

/* Make a loss known by its name: to every function of searchr1/ext/loss.h that takes one,
 * and to the key `loss`, in the order of registering behind the built-in ones. For the
 * life of the process, in which self (may be NULL) stays valid. A run that was begun with
 * it resumes in a process that has registered it before; another is refused by name. From
 * any thread; ops and its texts are copied. SR1_E_INVALID: the name is taken or no name,
 * compute is missing, or `needs` has an unknown flag. SR1_E_NOT_FOUND: the aggregation is
 * unknown; the text lists the known ones. SR1_E_NOMEM. */
SR1_API sr1_status sr1_loss_register(const sr1_loss_ops *ops, void *self);

#ifdef __cplusplus
}
#endif
#endif
