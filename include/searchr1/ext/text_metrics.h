/* searchr1/ext/text_metrics.h - texts compared: the parts of rewards, and metrics of
 * translation and summaries.
 *
 * Text:      UTF-8; bytes that are not UTF-8 count as U+FFFD.
 * Ownership: arguments are borrowed for the call.
 * Errors:    outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_TEXT_METRICS_H
#define SEARCHR1_EXT_TEXT_METRICS_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Find the final answer in a response: the content of the last closed <answer>, else the
 * text behind the last open one (a truncated response); stripped. Tags inside
 * <information> and <think> blocks do not count. *begin and *n receive its place in text;
 * *n is 0 if there is none. *closed (may be NULL) becomes 1 if the tag was closed, else
 * 0. */
SR1_API sr1_status sr1_reward_find_answer(const char *text, size_t len, size_t *begin,
                                          size_t *n, int32_t *closed);

/* Longest text, in characters, that sr1_similarity_ratio takes. */
#define SR1_SIMILARITY_MAX 2048

/* Compute 2 M / T of Python's difflib.SequenceMatcher(None, a, b).ratio() over
 * characters, with its heuristic for popular characters; ratio(a, b) need not equal
 * ratio(b, a). SR1_E_LIMIT: a text is longer than SR1_SIMILARITY_MAX characters. */
SR1_API sr1_status sr1_similarity_ratio(const char *a, size_t a_len, const char *b,
                                        size_t b_len, double *out);

/* Normalise an answer as SQuAD and Search-R1 do: lower case; ASCII punctuation deleted;
 * the words a, an and the replaced by spaces; words joined by single spaces. *out is
 * NUL-terminated and *out_len bytes long; caller frees it with sr1_free. */
SR1_API sr1_status sr1_reward_normalize(const char *text, size_t len, char **out,
                                        size_t *out_len);

/* Compute Search-R1's substring match: 1 if the normalised answer contains a normalised
 * ground truth (sr1_reward_normalize), else 0. n_truths >= 1. */
SR1_API sr1_status sr1_reward_sub_match(const char *answer, size_t len,
                                        const char *const *truths, size_t n_truths,
                                        double *out);

/* Scores of a worked solution to a mathematical problem, as verl's scorers give them
 * (verl 0.9, verl/utils/reward_score; there compute_score(solution_str, ground_truth)).
 * They compare texts and know no algebra. Of n_truths >= 1 ground truths the best
 * counts. */

/* Score as gsm8k.py does (method "strict"): 1 if the last "#### NUMBER" within the last
 * 300 characters is a ground truth, else 0. Commas of both do not count. */
SR1_API sr1_status sr1_reward_gsm8k(const char *solution, size_t len,
                                    const char *const *truths, size_t n_truths,
                                    double *out);

/* Score as math_reward.py does: 1 if the content of the last \boxed{...}, or what follows
 * the last "\boxed ", equals a ground truth, else 0. Both are rewritten as for MATH
 * (Hendrycks et al. 2021): fractions and roots get braces, 3/4 and 0.5 become fractions,
 * units, \left, \right, degrees, dollars, percents and spaces go, "x=" too. Where a
 * side cannot be rewritten they are compared as they are. */
SR1_API sr1_status sr1_reward_math_reward(const char *solution, size_t len,
                                          const char *const *truths, size_t n_truths,
                                          double *out);

/* Score as math_dapo.py does: 1 if what follows the last "Answer:" (in any case) in its
 * line, within the last 300 characters, equals a ground truth, else -1. Both are
 * rewritten as for Minerva (Lewkowycz et al. 2022): what stands before the last =, words
 * of units, spaces, \text and dollars go, fractions and roots get braces, commas between
 * digits go. Where there is no such line, the last \boxed{...} within the last 100
 * characters is compared as it is. */
SR1_API sr1_status sr1_reward_math_dapo(const char *solution, size_t len,
                                        const char *const *truths, size_t n_truths,
                                        double *out);

/* Metrics in [0, 1]. Tokens are runs of letters, marks and digits in lower case, each CJK
 * character on its own. */

/* Compute sentence BLEU-4 (Papineni et al. 2002) against all n_truths >= 1 references at
 * once: counts are clipped by the largest count in any reference, and the brevity penalty
 * uses the closest length. Orders without an n-gram in the answer are left out (effective
 * order); a zero match count is smoothed by halving (sacrebleu's "exp"). */
SR1_API sr1_status sr1_metric_bleu(const char *answer, size_t len,
                                   const char *const *truths, size_t n_truths,
                                   double *out);

/* Compute the F measure of ROUGE-n (Lin 2004), n from 1 to 4, the best of n_truths >= 1
 * references. */
SR1_API sr1_status sr1_metric_rouge_n(const char *answer, size_t len,
                                      const char *const *truths, size_t n_truths,
                                      int32_t n, double *out);

/* Compute the F measure of ROUGE-L (Lin 2004) by the longest common subsequence, the best
 * of n_truths >= 1 references. In [0, 1]. SR1_E_INVALID: there is no reference.
 * SR1_E_LIMIT: a text has more than 4096 tokens. */
SR1_API sr1_status sr1_metric_rouge_l(const char *answer, size_t len,
                                      const char *const *truths, size_t n_truths,
                                      double *out);

#ifdef __cplusplus
}
#endif
#endif
