/* searchr1/reward.h - what a trajectory is worth.
 *
 * The seed's rewards (format and answer), Search-R1's exact match and its relatives, text
 * metrics, and a weighted sum of any of them or of the caller's own.
 *
 * Text:      UTF-8; bytes that are not UTF-8 count as U+FFFD. Gold answers are
 *            NUL-terminated. White space, lower case, letters and digits are those of
 *            Python's str.
 * Ownership: all arguments are borrowed for the call unless said otherwise.
 * Errors:    outputs are untouched on failure.
 * Threads:   the functions over plain text have no shared state; one thread at a time per
 *            reward set. */
#ifndef SEARCHR1_REWARD_H
#define SEARCHR1_REWARD_H

#include <searchr1/base.h>
#include <searchr1/code.h>
#include <searchr1/embed.h>
#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the seed's rewards ---- */

/* What each outcome is worth. Where a function takes a pointer to it, NULL means the
 * defaults given here. */
typedef struct sr1_reward_scales {
    size_t struct_size;          /* set by the caller; later versions append fields */
    double format_reward;        /* well-formed: 0.5 */
    double format_penalty;       /* not well-formed: -1.0 */
    double answer_reward;        /* similar to a gold answer: 1.0 */
    double exact_match_bonus;    /* equal to a gold answer, the whole reward of it: 2.0 */
    double no_content_reward;    /* the answer is no_content_text: 0.5 */
    double similarity_threshold; /* smallest ratio that is similar: 0.5 */
    const char *no_content_text; /* borrowed; NULL: U+672A U+627E U+5230 U+76F8 U+5173
                                    U+5185 U+5BB9 ("no content found") */
    double structure_format_score; /* search_r1_format below: 0.2 */
    double final_format_score;     /* 0.1 */
    double retrieval_score;        /* 0 */
} sr1_reward_scales;

/* Fill in the defaults; scales->struct_size must be set. Since 0.1. */
SR1_API sr1_status sr1_reward_scales_default(sr1_reward_scales *scales);

/* Format of a response (not its prompt), tags included: format_reward if
 * 1. there is exactly one <answer> and one </answer>,
 * 2. nothing but white space follows </answer>,
 * 3. every <search> is closed and followed by a closed <information>,
 * 4. and there is no <information> without a search;
 * 5. <think> blocks are optional and removed with their content before the rest is
 * judged; no tag is left open or closed twice. Else format_penalty. Text inside
 * <information> is inert: tags there count as text. Since 0.1. */
SR1_API sr1_status sr1_reward_check_format(const char *text, size_t len,
                                           const sr1_reward_scales *scales, double *out);

/* Answer against gold answers, of which the best counts:
 *   0                  the answer is empty, or nothing below holds
 *   exact_match_bonus  the same bytes
 *   no_content_reward  the answer is no_content_text
 *   answer_reward      without white space and in lower case, the ratio of
 *                      sr1_similarity_ratio(answer, gold) reaches similarity_threshold
 * <think> blocks in the answer are removed with their content first. An answer or gold
 * answer longer than SR1_SIMILARITY_MAX characters is never similar unless both are equal
 * then. n_truths >= 1. Since 0.1. */
SR1_API sr1_status sr1_reward_check_answer(const char *answer, size_t len,
                                           const char *const *truths, size_t n_truths,
                                           const sr1_reward_scales *scales, double *out);

/* check_format(text) + check_answer(answer in text): in [-1.0, 2.5] with the default
 * scales. Since 0.1. */
SR1_API sr1_status sr1_reward_total(const char *text, size_t len,
                                    const char *const *truths, size_t n_truths,
                                    const sr1_reward_scales *scales, double *out);

/* The final answer in a response: the content of the last closed <answer>, else what
 * follows the last open one (a response cut short); stripped. *begin and *n receive its
 * place within text, *n 0 if there is none; *closed (may be NULL) whether it was closed.
 * Blocks of <information> are inert, and so are <think> blocks. Since 0.1. */
SR1_API sr1_status sr1_reward_find_answer(const char *text, size_t len, size_t *begin,
                                          size_t *n, int32_t *closed);

/* Longest text, in characters, that sr1_similarity_ratio takes. */
#define SR1_SIMILARITY_MAX 2048

/* 2 M / T of Python's difflib.SequenceMatcher(None, a, b).ratio(), over characters; its
 * heuristic for popular characters is included, and ratio(a, b) need not equal
 * ratio(b, a). SR1_E_LIMIT: a text is longer than SR1_SIMILARITY_MAX. Since 0.1. */
SR1_API sr1_status sr1_similarity_ratio(const char *a, size_t a_len, const char *b,
                                        size_t b_len, double *out);

/* ---- Search-R1's rewards; in [0, 1]; of several gold answers the best counts ---- */

/* Lower case, ASCII punctuation deleted, the words a, an, the replaced by a space, words
 * joined by single spaces. *out is NUL-terminated, *out_len bytes; caller frees with
 * sr1_free. Since 0.1. */
SR1_API sr1_status sr1_reward_normalize(const char *text, size_t len, char **out,
                                        size_t *out_len);

/* 1 if the normalised answer equals a normalised gold answer. Since 0.1. */
SR1_API sr1_status sr1_reward_exact_match(const char *answer, size_t len,
                                          const char *const *truths, size_t n_truths,
                                          double *out);

/* 1 if the normalised answer contains a normalised gold answer. Since 0.1. */
SR1_API sr1_status sr1_reward_sub_match(const char *answer, size_t len,
                                        const char *const *truths, size_t n_truths,
                                        double *out);

/* Harmonic mean of precision and recall over the normalised words (SQuAD); if either side
 * has none, 1 when both have none, else 0. Since 0.1. */
SR1_API sr1_status sr1_reward_f1(const char *answer, size_t len,
                                 const char *const *truths, size_t n_truths, double *out);

/* ---- text metrics; in [0, 1]; tokens: runs of letters, marks and digits in lower case,
 * each CJK character on its own ---- */

/* Sentence BLEU-4 (Papineni et al. 2002) over all gold answers at once: counts clipped by
 * the largest count in any of them, brevity by the closest length. Orders without an
 * n-gram in the answer are left out (effective order), a zero match count is smoothed by
 * halving (sacrebleu's "exp"). Since 0.1. */
SR1_API sr1_status sr1_metric_bleu(const char *answer, size_t len,
                                   const char *const *truths, size_t n_truths,
                                   double *out);

/* ROUGE-n F measure (Lin 2004), n 1 to 4; the best gold answer counts. Since 0.1. */
SR1_API sr1_status sr1_metric_rouge_n(const char *answer, size_t len,
                                      const char *const *truths, size_t n_truths,
                                      int32_t n, double *out);

/* ROUGE-L F measure: longest common subsequence; the best gold answer counts.
 * SR1_E_LIMIT: more than 4096 tokens in a text. Since 0.1. */
SR1_API sr1_status sr1_metric_rouge_l(const char *answer, size_t len,
                                      const char *const *truths, size_t n_truths,
                                      double *out);

/* ---- sets of weighted rewards over trajectories ---- */

/* What a reward is about: the whole answer, or what the turns before it did. */
enum { SR1_REWARD_OUTCOME = 0, SR1_REWARD_TURN = 1 };

/* A reward of the caller's. */
typedef struct sr1_reward_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* copied */
    /* Write the reward of trajectories[i] to out[i]; the gold answers are in the
     * trajectories. A status other than SR1_OK fails the computation; explain it with
     * sr1_set_error. */
    sr1_status (*score)(void *self, const sr1_trajectory *const *trajectories, size_t n,
                        double *out);
    void (*destroy)(void *self); /* called once with self, may be NULL */
    int32_t level;               /* SR1_REWARD_OUTCOME or _TURN */
    /* Of a reward of level turn: write how much each turn did for it to out[turn], 0 or
     * more, of sr1_trajectory_turn_count turns, 0 at first. NULL: all did the same. */
    sr1_status (*score_turns)(void *self, const sr1_trajectory *trajectory, double *out);
    /* Called once for a trajectory that is finished, before it is scored, while others
     * are still generated: begin what takes long, and return soon; score collects. One
     * call at a time, from any thread. It has a reference to keep of its own
     * (sr1_trajectory_retain). NULL: score does it all. */
    sr1_status (*begin)(void *self, sr1_trajectory *trajectory);
    /* What was begun and is not scored by now is no longer wanted. May be NULL. */
    void (*forget)(void *self);
    /* 1: score may write NaN, which says that this trajectory cannot be scored (a service
     * failed): it is left out, never worth 0. 0: NaN is an error. */
    int32_t may_be_unknown;
} sr1_reward_ops;

typedef struct sr1_reward_set sr1_reward_set;

/* Rewards by name. Those of the seed and of Search-R1:
 *
 *     format, answer, exact_match, sub_match, f1           as the functions above
 *
 *     environment       what the environment gave for the actions, together; 0 from one
 *                       that gives nothing (sr1_env_sink_reward)
 *
 * By meaning:
 *
 *     embedding    cosine of the embeddings of the closed answer and of the gold answer
 *                  nearest to it, not below 0; 0 without an answer. All texts of a call,
 *                  each distinct one once, are one call of the embedder.
 *
 * By running code (Xie et al. 2025, CTRL). The problem is the one whose id the question
 * has; its answer the last block that the environment inserted (a revision), else the
 * final answer, else what the policy said last; a critique is what the policy said last:
 *
 *     execution    share of the problem's tests that the answer passes, or 1 for all of
 *                  them, else 0, as the checker does it. With judgement_required 0, and
 *                  nothing is run, for a critique that does not judge or was not
 *                  answered. Unknown where the sandbox failed
 *     judgement    1 if the critique judges the problem's own solution as it is: correct
 *                  if it passes all tests; else 0. Unknown likewise
 *
 * Those of Search-R1's published code (Jin et al. 2025), over the whole sequence as that
 * has it: its prompt with the question, then everything generated and inserted. The
 * answer is the last pair <answer>...</answer> anywhere, stripped; where there is no pair
 * but those of the prompt it is the prompt's last one, "Beijing":
 *
 *     search_r1_em      1 if the answer is a gold answer, both normalised
 *     search_r1_sub_em  1 if it contains one
 *     search_r1_format  by what is generated and inserted: as many opening as closing
 *                       tags of each kind, and think (search information think)* answer,
 *                       only white space between the pairs, is a valid sequence.
 *                       valid: 1 for search_r1_em, else structure_format_score, and
 *                       retrieval_score if a block <information> holds a gold answer,
 *                       normalised. Not valid: 1 - structure_format_score, else
 *                       final_format_score
 *
 * Those of multi-turn GRPO (Zeng et al. 2025), over messages: a message is what the
 * policy said in one turn, and a tag pair in it reaches from the first opening tag to the
 * first closing tag behind it. Gold answers and texts are compared in lower case.
 *
 *     tool_execution    turn: 0.2 * successes / attempts. An attempt is a message with an
 *                       action that something came back to; a success, when that has
 *                       result tags and does not begin with "Error:". A call that timed
 *                       out or whose tool was broken is no attempt. Turn by turn: 1 for a
 *                       success.
 *     answer_in_results turn: 0.5 if the first result holds a gold answer. Turn by turn:
 *                       1 in the turn before that result.
 *     answer_present    0.5 if the answer holds a gold answer. The answer is that of the
 *                       last message that has one.
 *     mt_exact_match    1 if it is a gold answer, both stripped
 *     mt_format         0.2 * mean over messages of: 0.4 * (thinking, and an action or
 *                       answer: half each) if a pair is whole, + 0.2, + 0.2 if it begins
 *                       with thinking, + 0.2 if it ends with an action or answer
 *     xml               0.2 * mean over messages of the mean over the tags of those pairs
 *                       that occur at all of 1 - |occurrences - 1|; at least 0
 */

typedef struct sr1_reward_options {
    size_t struct_size;
    const char *rewards;  /* names joined by commas (above); NULL: "format,answer"; "" for
                             none */
    const char *weights;  /* as many numbers, joined by commas; NULL or "": all 1 */
    const char *protocol; /* tags; NULL: "search-r1" */
    const sr1_reward_scales *scales; /* NULL: defaults */
    sr1_embedder *embedder; /* retained; for the reward "embedding", else NULL */
    /* For "execution" and "judgement", else NULL; retained. */
    sr1_checker *checker;
    sr1_problems *problems;
    int32_t judgement_required; /* of "execution" */
} sr1_reward_options;

/* options NULL: defaults; all copied, the embedder retained. SR1_E_NOT_FOUND names a
 * reward that is not known; SR1_E_CONFIG: "embedding" without an embedder, "execution" or
 * "judgement" without checker and problems.
 * Free with sr1_reward_set_free. Since 0.1. */
SR1_API sr1_status sr1_reward_set_new(sr1_reward_set **out,
                                      const sr1_reward_options *options);

/* Calls destroy of the rewards added. NULL is fine. Since 0.1. */
SR1_API void sr1_reward_set_free(sr1_reward_set *set);

/* Add a reward of the caller's. On success the set owns self; on failure the caller still
 * does. SR1_E_INVALID: the name is taken, or the weight is not finite. Since 0.1. */
SR1_API sr1_status sr1_reward_set_add(sr1_reward_set *set, const sr1_reward_ops *ops,
                                      void *self, double weight);

/* Number of rewards in the set, and the name of each, in order (NULL past the end;
 * borrowed until the set is freed). Since 0.1. */
SR1_API size_t sr1_reward_set_count(const sr1_reward_set *set);
SR1_API const char *sr1_reward_set_name(const sr1_reward_set *set, size_t i);

/* SR1_REWARD_OUTCOME or _TURN of reward i; -1 past the end. Since 0.1. */
SR1_API int32_t sr1_reward_set_level(const sr1_reward_set *set, size_t i);

/* Score trajectories[n] without changing them: parts[n * count] (may be NULL) receives
 * each reward before weighting, row by row; totals[n] (may be NULL) the weighted sums.
 * A reward that could not be had, and the total then, is NaN (may_be_unknown).
 * SR1_E_NUMERIC names a reward that is not finite. SR1_E_INVALID: a reward needs gold
 * answers and a trajectory has none. Since 0.1. */
SR1_API sr1_status sr1_reward_set_score(sr1_reward_set *set,
                                        const sr1_trajectory *const *trajectories,
                                        size_t n, double *parts, double *totals);

/* Score trajectories[n] turn by turn. The turns of trajectory i are
 * [turn_begin[i], turn_begin[i + 1]), turn_begin[0] is 0; there are as many as
 * sr1_trajectory_turn_count says, else SR1_E_INVALID. parts[turn_begin[n] * count] (may
 * be NULL) receives what the score_turns of each reward of level turn said, row by row; 0
 * for the others. totals[turn_begin[n]] (may be NULL): weight * score of each reward of
 * level turn, split over the turns in proportion to its parts (evenly where all are 0),
 * summed. So the totals of a trajectory add up to its turn-level reward, and what is left
 * of its total reward is the outcome's (turn_rewards of sr1_advantage_batch). Since 0.1.
 */
SR1_API sr1_status sr1_reward_set_score_turns(sr1_reward_set *set,
                                              const sr1_trajectory *const *trajectories,
                                              size_t n, const int64_t *turn_begin,
                                              double *parts, double *totals);

/* Begin to score a finished trajectory, retained until it is scored or forgotten
 * (sr1_reward_ops). From any thread, one call at a time. Since 0.1. */
SR1_API sr1_status sr1_reward_set_begin(sr1_reward_set *set, sr1_trajectory *trajectory);

/* 1 when a reward of the set has work to begin early. Since 0.1. */
SR1_API int32_t sr1_reward_set_begins(const sr1_reward_set *set);

/* Forget what was begun and not scored. Since 0.1. */
SR1_API void sr1_reward_set_forget(sr1_reward_set *set);

/* Score trajectories[n] and set their rewards, part by part; none is set on failure of
 * scoring. One whose reward could not be had is set apart (SR1_STOP_UNSCORED) without a
 * reward. Then what was begun and not scored is forgotten. Since 0.1. */
SR1_API sr1_status sr1_reward_set_apply(sr1_reward_set *set,
                                        sr1_trajectory *const *trajectories, size_t n);

#ifdef __cplusplus
}
#endif
#endif
