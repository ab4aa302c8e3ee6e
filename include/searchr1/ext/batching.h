/* searchr1/ext/batching.h - which groups and questions a batch is made of, and how its
 * work is divided: overlong penalty, dynamic sampling, selection of questions, balanced
 * parts.
 *
 * Ownership: all arrays are the caller's, borrowed for the call.
 * Errors:    SR1_E_INVALID for what is missing or contradicts itself, SR1_E_NUMERIC names
 *            the first entry that is not finite; outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_BATCHING_H
#define SEARCHR1_EXT_BATCHING_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute the soft penalty of long responses (Yu et al. 2025, DAPO, eq. 13) for lengths
 * [n] into penalties [n], times factor >= 0:
 *
 *     0 up to max - cache tokens, then (max - cache - length) / cache, -1 beyond max
 *
 * 0 < cache <= max_length. */
SR1_API sr1_status sr1_overlong_penalty(const int64_t *lengths, size_t n,
                                        int64_t max_length, int64_t cache, double factor,
                                        double *penalties);

/* Select groups for training by DAPO's dynamic sampling (eq. 11): those whose mean score
 * lies strictly between low and high. With scores of 0 and 1, low 0 and high 1, these are
 * the groups that are neither all wrong nor all right. scores [n]; groups [n] are keys.
 * keep [n] (may be NULL) receives 1 for the trajectories of selected groups, else 0;
 * n_groups and n_kept (each may be NULL) receive the number of groups, and of selected
 * ones. */
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

/* Select the k <= n queries to roll out next into chosen [k], by index, in order of
 * preference:
 *
 *     uniform          any, without repetition
 *     reward_variance  the largest variance
 *     success_half     the smallest |success - 1/2|
 *     least_seen       the fewest times seen
 *
 * reward_variance and success_half also read `seen`, and take queries that were never
 * seen first. Ties are broken by a random stream that depends on (seed, stream) alone.
 * SR1_E_NOT_FOUND lists the rules. */
SR1_API sr1_status sr1_query_select(const char *rule, const sr1_query_stats *stats,
                                    size_t k, uint64_t seed, uint64_t stream,
                                    int64_t *chosen);

/* What balancing brought, in the unit of the lengths, over the sums of the parts. */
typedef struct sr1_balance_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t min;        /* cut in the order given, n / parts items each */
    int64_t max;
    int64_t balanced_min; /* as balanced */
    int64_t balanced_max;
    double mean;
} sr1_balance_report;

/* Divide n lengths (>= 0) into parts of nearly equal sums by the largest differencing
 * method (Karmarkar and Karp 1982). part [n] receives 0 to parts - 1, numbered in the
 * order in which they first occur. With equal_sizes 1 the parts differ by at most one
 * item; every item is in exactly one part. report (struct_size set) may be NULL.
 * SR1_E_INVALID: a length is negative, parts is 0, or the sum exceeds int64. SR1_E_LIMIT:
 * n times the smaller of n and parts is above 2^26 (with equal_sizes, n alone). */
SR1_API sr1_status sr1_balance(const int64_t *lengths, size_t n, size_t parts,
                               int32_t equal_sizes, int32_t *part,
                               sr1_balance_report *report);

#ifdef __cplusplus
}
#endif
#endif
