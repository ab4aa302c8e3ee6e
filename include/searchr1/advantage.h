/* searchr1/advantage.h - how much better than its group each trajectory did, and how far
 * two policies are apart, as pure functions over plain arrays.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_NUMERIC names the first entry that is not finite; outputs are
 * untouched on failure. Threads:   no shared state. */
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

/* What estimators compute from. Trajectories of one group share a key; a group need not
 * be contiguous. Token arrays are laid out trajectory by trajectory. */
typedef struct sr1_advantage_batch {
    size_t struct_size;         /* set by the caller; later versions append fields */
    size_t n;                   /* trajectories */
    const double *rewards;      /* [n] total rewards */
    const uint64_t *groups;     /* [n] sr1_trajectory_group_key, or any key */
    const int64_t *token_begin; /* [n + 1] rising, from 0: trajectory i has the policy
                                   tokens [token_begin[i], token_begin[i + 1]); NULL
                                   without a token_advantages array */
} sr1_advantage_batch;

typedef struct sr1_advantage_options {
    size_t struct_size;
    double eps;            /* added to the standard deviation, >= 0 */
    int32_t divide_by_std; /* 0: only the mean is taken off (Dr. GRPO) */
} sr1_advantage_options;

/* Advantages by the named estimator ("grpo"). options NULL: eps 1e-8, divided by std.
 * advantages[n] receives one number a trajectory; token_advantages[token_begin[n]], if
 * not NULL, one a policy token. SR1_E_NOT_FOUND lists the names known. Since 0.1. */
SR1_API sr1_status sr1_advantage_compute(const char *estimator,
                                         const sr1_advantage_batch *batch,
                                         const sr1_advantage_options *options,
                                         double *advantages, float *token_advantages);

/* Name of estimator i of the table, NULL past its end. Static. Since 0.1. */
SR1_API const char *sr1_advantage_name(size_t i);

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

#ifdef __cplusplus
}
#endif
#endif
