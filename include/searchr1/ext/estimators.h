/* searchr1/ext/estimators.h - every advantage estimator by its name, as a pure function
 * over plain arrays.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for what is missing or contradicts itself, SR1_E_NUMERIC names
 *            the first entry that is not finite; outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_ESTIMATORS_H
#define SEARCHR1_EXT_ESTIMATORS_H

#include <searchr1/advantage.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set struct_size, and every other field to the published value of the named estimator.
 * SR1_E_NOT_FOUND lists the known names. */
SR1_API sr1_status sr1_advantage_options_init(sr1_advantage_options *options,
                                              const char *estimator);

/* What was counted. */
typedef struct sr1_advantage_report {
    size_t struct_size;
    int64_t trajectories;
    int64_t tokens;               /* T */
    int64_t turns;                /* U */
    int64_t groups;               /* of trajectories */
    int64_t zero_variance_groups; /* all rewards equal, or one member */
    int64_t turns_compared;       /* had others of their kind (RLVCR: all four levels) */
    int64_t turns_alone;          /* the only one of their state or kind: the part is 0;
                                     in rlvmr with single_raw, the turn's reward */
    int64_t turns_unscored;       /* no kind, or a level that could not be made: 0 */
    int64_t no_result;            /* trajectories without a result (mt_grpo) */
} sr1_advantage_report;

/* Compute advantages by the named estimator. options NULL: the published values. report
 * (struct_size set) may be NULL. SR1_E_NOT_FOUND lists the known names. SR1_E_INVALID
 * names the estimator and the field that it lacks. */
SR1_API sr1_status sr1_advantage_estimate(const char *estimator,
                                          const sr1_advantage_batch *batch,
                                          const sr1_advantage_options *options,
                                          const sr1_advantage_outputs *outputs,
                                          sr1_advantage_report *report);

/* Return the name of estimator i, NULL past the last. Static. */
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

/* Fill *out (struct_size set) with row i of the table of estimators. SR1_E_INVALID: i is
 * out of range. Its texts live as long as the process. */
SR1_API sr1_status sr1_advantage_describe(size_t i, sr1_advantage_info *out);

/* Return the field of sr1_advantage_batch that bit i of `needs` stands for
 * ("token_begin"), NULL past the last. Static. */
SR1_API const char *sr1_advantage_need(size_t i);

/* ---- groups ---- */

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
 * one member. rewards [n]; groups [n] are keys. marks [n] (may be NULL) receives 1 for
 * each trajectory of such a group, else 0; n_groups and n_marked (each may be NULL)
 * receive the number of groups, and of groups without gradient. */
SR1_API sr1_status sr1_advantage_zero_variance_groups(const double *rewards,
                                                      const uint64_t *groups, size_t n,
                                                      uint8_t *marks, size_t *n_groups,
                                                      size_t *n_marked);

#ifdef __cplusplus
}
#endif
#endif
