/* searchr1/advantage.h - how much better than its group each trajectory did (GRPO), as
 * pure functions over plain arrays. The other estimators, KL terms and the rules for
 * batches are in searchr1/ext/estimators.h, kl.h and batching.h.
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

/* Compute GRPO's advantages of one group (Shao et al. 2024):
 *
 *     out[i] = (rewards[i] - mean) / (std + eps)
 *
 * std is the population's (divided by n). A group of one, and a group whose rewards are
 * all equal, has zero advantages. rewards [n] and out [n] may be the same array; eps >=
 * 0. */
SR1_API sr1_status sr1_advantage_group(const double *rewards, size_t n, double eps,
                                       double *out);

/* Find the groups that give no gradient: those whose rewards are all equal, and those of
 * one member. rewards [n]; groups [n] are keys. dead [n] (may be NULL) receives 1 for
 * each trajectory of such a group, else 0; n_groups and n_dead (each may be NULL) receive
 * the number of groups, and of groups without gradient. */
SR1_API sr1_status sr1_advantage_zero_variance_groups(const double *rewards,
                                                      const uint64_t *groups, size_t n,
                                                      uint8_t *dead, size_t *n_groups,
                                                      size_t *n_dead);

/* Compute the k3 estimate of KL(old || new), mean over n tokens (seed document:
 * compute_kl_divergence; Schulman 2020):
 *
 *     r = exp(old - new),  k3 = r - log r - 1 >= 0
 *
 * n 0 gives 0. Where old - new is above 20, k3 continues as a straight line
 * (sr1_kl_tokens). SR1_E_NUMERIC: a log-prob is not finite. */
SR1_API sr1_status sr1_kl_k3(const double *old_log_probs, const double *new_log_probs,
                             size_t n, double *mean);

#ifdef __cplusplus
}
#endif
#endif
