/* searchr1/advantage.h - how much better than its group each trajectory, turn or token
 * did, as pure functions over plain arrays; and the small rules around it: divergence of
 * two policies and its controllers, overlong shaping, which groups and queries teach.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for what is missing or contradicts itself, SR1_E_NUMERIC names
 *            the first entry that is not finite; outputs are untouched on failure.
 * Threads:   no shared state. */
#ifndef SEARCHR1_ADVANTAGE_H
#define SEARCHR1_ADVANTAGE_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The seed's eps, added to the standard deviation. */
#define SR1_ADVANTAGE_EPS 1e-8

/* Advantages of one group: out[i] = (rewards[i] - mean) / (std + eps), std over the
 * population (divided by n). A group of one, and a group whose rewards are all equal,
 * gives zeros. rewards[n], out[n] (may be the same array); eps >= 0. Since 0.1. */
SR1_API sr1_status sr1_advantage_group(const double *rewards, size_t n, double eps,
                                       double *out);

/* What estimators compute from: n trajectories with T policy tokens and U turns in all,
 * ragged, laid out one trajectory after the other.
 *
 *     token t -> turn token_turns[t] -> trajectory (token_begin, turn_begin) -> group
 *
 * Trajectories of one group share a key; a group need not be contiguous. Only policy
 * tokens count: text of the environment between two of them is no entry. Everything after
 * token_begin may be NULL; an estimator that needs what is missing says so. */
typedef struct sr1_advantage_batch {
    size_t struct_size;         /* set by the caller; later versions append fields */
    size_t n;                   /* trajectories */
    const double *rewards;      /* [n] total rewards, those of the turns included */
    const uint64_t *groups;     /* [n] sr1_trajectory_group_key, or any key */
    const int64_t *token_begin; /* [n + 1] rising, from 0: trajectory i has the policy
                                   tokens [token_begin[i], token_begin[i + 1]); may be
                                   NULL where no array by token is given or asked for */
    const int32_t *token_turns; /* [T] turn of each policy token within its trajectory,
                                   from 0, never falling; NULL: all 0, where each
                                   trajectory has one turn */
    const int64_t *turn_begin;  /* [n + 1] rising, from 0: trajectory i has the turns
                                   [turn_begin[i], turn_begin[i + 1]) */
    const double *turn_rewards; /* [U] parts of rewards that belong to a turn; what is
                                   left of rewards is the outcome's */
    const double *token_rewards; /* [T] on top of rewards: dense rewards and penalties,
                                    with their sign */
    const float *values;         /* [T] the critic's before each token */
    const double *bootstrap;     /* [n] the critic's value of the state after the last
                                    token; NULL: 0. Not read where completed is 1 */
    const uint8_t *completed;    /* [n] 1: ended by itself, 0: cut short; NULL: all 0 */
    size_t n_channels;           /* parts of the reward with names */
    const char *const *channel_names; /* [n_channels] for error texts; may be NULL */
    const double *channels;           /* [n * n_channels] trajectory by trajectory, before
                                         their weights */
    const double *channel_weights;    /* [n_channels]; NULL: 1 each */
    const uint64_t *turn_states;      /* [U] key of the state a turn began in (GiGPO) */
    const int32_t *turn_tags;     /* [U] kind of step from 0 (RLVMR), level 0 to 3
                                     (RLVCR), -1: none */
    const double *confidences;    /* [U * 4] of the turn's action after thinking at each
                                     of the four levels (RLVCR); NaN: was not made */
    const double *thinking_costs; /* [U * 4] tokens of that thinking; NaN: not known */
    const int32_t *result_turn;   /* [n] first turn that a tool's result followed, -1: no
                                     result (MT-GRPO) */
    const double *baselines;      /* [n] reward of the greedy rollout (ReMax) */
    const uint8_t *step_tokens;   /* [T] 1: has its turn's part, 0: only its trajectory's
                                     (GiGPO, RLVMR, RLVCR); NULL: all have it */
} sr1_advantage_batch;

/* What of it an estimator needs. */
#define SR1_ADVANTAGE_NEEDS_TOKENS 1 /* token_begin */
#define SR1_ADVANTAGE_NEEDS_TURNS 2  /* turn_begin; token_turns where there are several */
#define SR1_ADVANTAGE_NEEDS_TURN_REWARDS 4
#define SR1_ADVANTAGE_NEEDS_VALUES 8
#define SR1_ADVANTAGE_NEEDS_CHANNELS 16
#define SR1_ADVANTAGE_NEEDS_TURN_STATES 32
#define SR1_ADVANTAGE_NEEDS_TURN_TAGS 64
#define SR1_ADVANTAGE_NEEDS_CONFIDENCES 128
#define SR1_ADVANTAGE_NEEDS_RESULT_TURN 256
#define SR1_ADVANTAGE_NEEDS_BASELINES 512

/* What it gives beyond one number a trajectory. */
#define SR1_ADVANTAGE_GIVES_TOKENS 1  /* tokens of a trajectory may differ */
#define SR1_ADVANTAGE_GIVES_RETURNS 2 /* what a critic should have said */
#define SR1_ADVANTAGE_GIVES_TURNS 4   /* the part of each turn */

#define SR1_ADVANTAGE_STD_DEFAULT 0    /* the estimator's own */
#define SR1_ADVANTAGE_STD_POPULATION 1 /* divided by n */
#define SR1_ADVANTAGE_STD_UNBIASED 2   /* divided by n - 1, as torch.std */

#define SR1_ADVANTAGE_MEAN_NORM 1     /* steps: the mean is taken off */
#define SR1_ADVANTAGE_MEAN_STD_NORM 2 /* steps: and divided by std + eps */

/* Begin with sr1_advantage_options_default: what is 0 here is 0. Each estimator reads the
 * fields that sr1_advantage_describe lists. */
typedef struct sr1_advantage_options {
    size_t struct_size;
    double eps;            /* added to the standard deviation (whitening: to the
                              variance), >= 0 */
    int32_t divide_by_std; /* 0: only the mean is taken off */
    int32_t std_kind;      /* SR1_ADVANTAGE_STD_*, of groups */
    int32_t single_raw;    /* a group of one: 0 gives 0; 1 lets its reward through, as if
                              mean 0 and std 1 (verl) */
    int32_t whiten;        /* 1: afterwards to mean 0, std 1 over the batch */
    double gamma;          /* discount, 0 to 1: by policy token; in mt_grpo_turns and
                              gigpo by turn */
    double lam;            /* of GAE, 0 to 1 */
    double turn_advantage_coef;  /* weight of the turn's part (MT-GRPO) */
    double step_advantage_w;     /* weight of the step's part (GiGPO, RLVMR, RLVCR) */
    int32_t step_mode;           /* SR1_ADVANTAGE_MEAN_NORM or MEAN_STD_NORM */
    int32_t multiplicative;      /* RLVCR: 1 takes the form of the published code */
    double thinking_diversity_w; /* RLVCR: more for a level the group seldom used */
    double thinking_cost_w;      /* RLVCR: alpha of alpha (0.5 - cost / cost_max) */
    double thinking_cost_max;    /* RLVCR: > 0, tokens */
    int32_t pass_k;              /* pass_at_k: at least 2; 0: the size of the group */
    int32_t gpg_nonzero;         /* gpg: 1 scales by the rewards that are not 0 (verl) */
} sr1_advantage_options;

/* The published numbers of the named estimator, as far as options->struct_size, set by
 * the caller, goes. SR1_E_NOT_FOUND lists the names known. Since 0.1. */
SR1_API sr1_status sr1_advantage_options_default(const char *estimator,
                                                 sr1_advantage_options *options);

/* Where results go; each may be NULL. The arrays are the caller's. */
typedef struct sr1_advantage_outputs {
    size_t struct_size;
    double *advantages;      /* [n] of a trajectory; where tokens differ, their mean (0
                                without tokens) */
    float *token_advantages; /* [T] */
    float *returns;          /* [T] for the critic's loss (GIVES_RETURNS) */
    double *turn_advantages; /* [U] the part of a turn, before its weight (GIVES_TURNS) */
} sr1_advantage_outputs;

/* What was counted. */
typedef struct sr1_advantage_report {
    size_t struct_size;
    int64_t trajectories;
    int64_t tokens;         /* T */
    int64_t turns;          /* U */
    int64_t groups;         /* of trajectories */
    int64_t dead_groups;    /* all rewards equal, or one member */
    int64_t turns_compared; /* had others of their kind (RLVCR: all four levels) */
    int64_t turns_alone;    /* the only one of their state or kind: the part is 0 */
    int64_t turns_unscored; /* no kind, or a level that could not be made: 0 */
    int64_t no_result;      /* trajectories without a result (mt_grpo) */
} sr1_advantage_report;

/* Advantages by the named estimator. options NULL: its published numbers. report may be
 * NULL. SR1_E_NOT_FOUND lists the names known; SR1_E_INVALID names the estimator and the
 * field it needs. Since 0.1. */
SR1_API sr1_status sr1_advantage_estimate(const char *estimator,
                                          const sr1_advantage_batch *batch,
                                          const sr1_advantage_options *options,
                                          const sr1_advantage_outputs *outputs,
                                          sr1_advantage_report *report);

/* The same with two outputs: advantages[n], and token_advantages[T], which may be NULL.
 * Since 0.1. */
SR1_API sr1_status sr1_advantage_compute(const char *estimator,
                                         const sr1_advantage_batch *batch,
                                         const sr1_advantage_options *options,
                                         double *advantages, float *token_advantages);

/* Name of estimator i of the table, NULL past its end. Static. Since 0.1. */
SR1_API const char *sr1_advantage_name(size_t i);

/* A row of the table. Texts are static. */
typedef struct sr1_advantage_info {
    size_t struct_size;
    const char *name;
    const char *formula; /* one line */
    const char *source;
    const char *options; /* the fields of sr1_advantage_options it reads, with commas */
    int32_t needs;       /* SR1_ADVANTAGE_NEEDS_* */
    int32_t gives;       /* SR1_ADVANTAGE_GIVES_* */
} sr1_advantage_info;

/* Row i of the table. SR1_E_INVALID past its end. Since 0.1. */
SR1_API sr1_status sr1_advantage_describe(size_t i, sr1_advantage_info *out);

/* The field that bit i of `needs` stands for ("token_begin"), NULL past the last. Static.
 * Since 0.1. */
SR1_API const char *sr1_advantage_need(size_t i);

/* How sure the policy was of an action of n tokens (RLVCR's c_l):
 *
 *     "entropy"  - mean of entropies[n]: -sum p log p of the distribution at each token
 *     "mean"     mean of log_probs[n]
 *     "min"      exp(least of log_probs)
 *
 * include[n]: 0 leaves a token out, such as those of a level's tag; NULL: all count. The
 * array that is not read may be NULL. No token left: *out is NaN, which stands for "was
 * not made". Since 0.1. */
SR1_API sr1_status sr1_thinking_confidence(const char *kind, const float *log_probs,
                                           const float *entropies, const uint8_t *include,
                                           size_t n, double *out);

/* Groups that cannot teach: all rewards equal, or one member. dead[n] (may be NULL)
 * receives 1 for each trajectory of such a group, else 0; n_groups and n_dead (each may
 * be NULL) the number of groups, and of dead ones. Since 0.1. */
SR1_API sr1_status sr1_advantage_dead_groups(const double *rewards,
                                             const uint64_t *groups, size_t n,
                                             uint8_t *dead, size_t *n_groups,
                                             size_t *n_dead);

/* k3 estimate of KL(old || new), mean over n tokens (seed document:
 * compute_kl_divergence; Schulman 2020):
 *
 *     r = exp(old - new),  k3 = r - log r - 1 >= 0
 *
 * n 0 gives 0. A difference above 700 counts as 700, so that the mean stays finite.
 * Since 0.1. */
SR1_API sr1_status sr1_kl_k3(const double *old_log_probs, const double *new_log_probs,
                             size_t n, double *mean);

/* The same over float arrays, as trajectories hold them. Since 0.1. */
SR1_API sr1_status sr1_kl_k3_f32(const float *old_log_probs, const float *new_log_probs,
                                 size_t n, double *mean);

/* ---- divergence from a reference ---- */

/* Estimates of KL(new || ref) by token, d = new - ref, and their derivative by the new
 * log-prob (Schulman 2020; names of verl):
 *
 *     k1, kl       d
 *     abs          |d|
 *     k2, mse      d^2 / 2
 *     k3           exp(-d) + d - 1, d above -700
 *     low_var_kl   k3 with d within +-20 and the result within +-10
 *
 * A '+' behind the name (k1+, k3+, ...) keeps the value and takes the derivative of k2,
 * which is unbiased for the KL's own gradient. kl[n] and derivative[n] may each be NULL.
 * SR1_E_NOT_FOUND lists the names. Since 0.1. */
SR1_API sr1_status sr1_kl_tokens(const char *kind, const double *new_log_probs,
                                 const double *ref_log_probs, size_t n, double *kl,
                                 double *derivative);

/* The divergence itself over a vocabulary, sum_v p_v (log p_v - log q_v), at each of n
 * places: log_probs, ref_log_probs [n * vocab], -infinity where a probability is 0.
 * logit_gradient[n * vocab] (may be NULL) receives its derivative by the logits of p,
 * p_v (log p_v - log q_v - kl). SR1_E_NUMERIC where q is 0 and p is not. Since 0.1. */
SR1_API sr1_status sr1_kl_full(const double *log_probs, const double *ref_log_probs,
                               size_t n, size_t vocab, double *kl,
                               double *logit_gradient);

/* KL in the reward: token_rewards[t] -= beta * kl_t, of the log-probs of the policy that
 * sampled; add to zeros, or to dense rewards. mean (may be NULL) receives the mean KL
 * over the n tokens, which the controller is told. Since 0.1. */
SR1_API sr1_status sr1_kl_penalty(const char *kind, double beta,
                                  const float *old_log_probs, const float *ref_log_probs,
                                  size_t n, double *token_rewards, double *mean);

/* A controller of beta. Copying the struct saves it. */
typedef struct sr1_kl_controller {
    size_t struct_size;
    double coef;     /* beta, now; >= 0 */
    double target;   /* KL to hold, > 0 */
    double horizon;  /* samples over which coef moves; 0: coef is fixed */
    int64_t updates; /* calls so far */
    double last_kl;  /* what the last call was told */
} sr1_kl_controller;

/* After n samples with a mean KL of current (Ziegler et al. 2019; verl's
 * AdaptiveKLController):
 *
 *     coef <- coef (1 + clip(current / target - 1, -0.2, 0.2) n / horizon)
 *
 * SR1_E_INVALID if coef could fall below 0: n must be below 5 horizons. Since 0.1. */
SR1_API sr1_status sr1_kl_controller_update(sr1_kl_controller *c, double current,
                                            int64_t n);

/* ---- lengths, groups, queries ---- */

/* Soft punishment of long answers (Yu et al. 2025, DAPO, eq. 13), times factor >= 0:
 *
 *     0 up to max - cache tokens, then (max - cache - length) / cache, -1 beyond max
 *
 * lengths, penalties [n]; 0 < cache <= max. Since 0.1. */
SR1_API sr1_status sr1_overlong_penalty(const int64_t *lengths, size_t n,
                                        int64_t max_length, int64_t cache, double factor,
                                        double *penalties);

/* Dynamic sampling (DAPO, eq. 11): groups whose mean score lies strictly between low and
 * high, for scores of 0 and 1: neither all wrong nor all right with low 0, high 1.
 * keep[n] (may be NULL) receives 1 for their trajectories, else 0; n_groups, n_kept (each
 * may be NULL) count groups. Since 0.1. */
SR1_API sr1_status sr1_dynamic_sampling(const double *scores, const uint64_t *groups,
                                        size_t n, double low, double high, uint8_t *keep,
                                        size_t *n_groups, size_t *n_kept);

/* What is known of n queries; arrays that a rule does not read may be NULL. */
typedef struct sr1_query_stats {
    size_t struct_size;
    size_t n;
    const int64_t *seen;           /* [n] times each was rolled out, >= 0 */
    const double *reward_variance; /* [n] of its rewards, >= 0 */
    const double *success;         /* [n] share of successes, 0 to 1 */
} sr1_query_stats;

/* The k <= n queries to roll out next, by index, most wanted first:
 *
 *     uniform          any, without repetition
 *     reward_variance  the largest variance
 *     success_half     the smallest |success - 1/2|
 *     least_seen       the fewest times seen
 *
 * The second and third want `seen` too, and take a query never seen first. Ties are
 * broken by a stream that is a function of (seed, stream). SR1_E_NOT_FOUND lists the
 * rules. Since 0.1. */
SR1_API sr1_status sr1_query_select(const char *rule, const sr1_query_stats *stats,
                                    size_t k, uint64_t seed, uint64_t stream,
                                    int64_t *chosen);

#ifdef __cplusplus
}
#endif
#endif
