/* searchr1/ext/kl.h - divergence of two policies, the KL penalty in the reward, and the
 * controller of its weight.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for what is missing or contradicts itself, SR1_E_NUMERIC names
 *            the first entry that is not finite; outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_KL_H
#define SEARCHR1_EXT_KL_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute the k3 estimate of KL(new || old), which is one where the new policy sampled
 * the tokens, mean over n (specification: compute_kl_divergence; Schulman 2020):
 *
 *     r = exp(old - new),  k3 = r - log r - 1 >= 0
 *
 * n 0 gives 0. Where old - new is above 20, k3 continues as a straight line
 * (sr1_kl_tokens). SR1_E_NUMERIC: a log-prob is not finite. */
SR1_API sr1_status sr1_kl_k3(const double *old_log_probs, const double *new_log_probs,
                             size_t n, double *mean);

/* Compute sr1_kl_k3 over float arrays, as trajectories hold them. */
SR1_API sr1_status sr1_kl_k3_f32(const float *old_log_probs, const float *new_log_probs,
                                 size_t n, double *mean);

/* Estimate KL(new || ref) token by token, with its derivative by the new log-prob
 * (Schulman 2020; names of verl); d = new - ref:
 *
 *     k1, kl       d
 *     abs          |d|
 *     k2, mse      d^2 / 2
 *     k3           exp(-d) + d - 1; below d = -20 the tangent at -20
 *     low_var_kl   k3, at most 10, with derivative 0 where it is cut
 *
 * A '+' behind the name (k1+, k3+, ...) keeps the value and takes the derivative of k2,
 * which is unbiased for the gradient of the KL. kl [n] and derivative [n] may each be
 * NULL. SR1_E_NOT_FOUND lists the names. SR1_E_NUMERIC names the first
 * token whose log-probs are not finite. */
SR1_API sr1_status sr1_kl_tokens(const char *kind, const double *new_log_probs,
                                 const double *ref_log_probs, size_t n, double *kl,
                                 double *derivative);

/* Compute the KL divergence over a whole vocabulary at each of n positions, sum_v p_v
 * (log p_v - log q_v), into kl [n]. log_probs and ref_log_probs are [n, vocab]; -infinity
 * stands for probability 0. logit_gradient [n, vocab] (may be NULL) receives the
 * derivative by the logits of p, p_v (log p_v - log q_v - kl). SR1_E_NUMERIC: q is 0
 * where p is not. */
SR1_API sr1_status sr1_kl_full(const double *log_probs, const double *ref_log_probs,
                               size_t n, size_t vocab, double *kl,
                               double *logit_gradient);

/* Take the KL off the reward: token_rewards[t] -= beta * kl_t, with the log-probs of
 * the policy that sampled. token_rewards [n] begins as zeros or as dense rewards. mean
 * (may be NULL) receives the mean KL over the n tokens of this sequence, 0 of none. The
 * mean of these over the sequences of a batch is what sr1_kl_controller_update takes. */
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

/* Adapt beta after n sequences with a mean KL of current (Ziegler et al. 2019; verl's
 * AdaptiveKLController):
 *
 *     coef <- coef (1 + clip(current / target - 1, -0.2, 0.2) n / horizon)
 *
 * SR1_E_INVALID: coef could fall below 0; n must be below 5 horizons. */
SR1_API sr1_status sr1_kl_controller_update(sr1_kl_controller *c, double current,
                                            int64_t n);

#ifdef __cplusplus
}
#endif
#endif
