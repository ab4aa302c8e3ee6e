/* searchr1/reward.h - what a trajectory is worth.
 *
 * Search-R1's exact match and F1, and weighted sums of any rewards, the caller's own
 * among them. The seed's rewards (format and answer), text metrics and turn-level scores
 * as functions are in searchr1/ext/seed_rewards.h, text_metrics.h and reward_set.h.
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
#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Search-R1's rewards; in [0, 1]; of several gold answers the best counts ---- */

/* Compute Search-R1's exact match: 1 if the normalised answer equals a normalised ground
 * truth (sr1_reward_normalize), else 0. n_truths >= 1. */
SR1_API sr1_status sr1_reward_exact_match(const char *answer, size_t len,
                                          const char *const *truths, size_t n_truths,
                                          double *out);

/* Compute the F1 score of SQuAD 2.0, in [0, 1]: the harmonic mean of precision and recall
 * over normalised words, the best of n_truths >= 1 ground truths. If one side has no
 * words, it is 1 when both have none, else 0. */
SR1_API sr1_status sr1_reward_f1(const char *answer, size_t len,
                                 const char *const *truths, size_t n_truths, double *out);

/* ---- sets of weighted rewards over trajectories ---- */

/* What a reward is about: the whole answer, or what the turns before it did. */
enum { SR1_REWARD_OUTCOME = 0, SR1_REWARD_TURN = 1 };

/* What a reward says of a trajectory beside its score (score_states). */
enum {
    SR1_REWARD_SCORED = 0,
    /* It could not be had: a service failed. The trajectory is left out of training and
     * of evaluations; it is never worth 0. */
    SR1_REWARD_UNKNOWN = 1,
    /* It is not about this trajectory, as where a function of TRL's gives None: it is no
     * part of the total, which the other rewards make, and of no mean of this reward.
     * Where none applies, the total is unknown. */
    SR1_REWARD_NOT_APPLICABLE = 2
};

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
    /* In place of score, which may then be NULL: also write SR1_REWARD_SCORED (0, as at
     * first), _UNKNOWN or _NOT_APPLICABLE to states[i]; out[i] is read where it is
     * SR1_REWARD_SCORED, and must be finite there. */
    sr1_status (*score_states)(void *self, const sr1_trajectory *const *trajectories,
                               size_t n, double *out, int32_t *states);
} sr1_reward_ops;

typedef struct sr1_reward_set sr1_reward_set;
typedef struct sr1_config sr1_config; /* searchr1/config.h */

/* Rewards by name. Those of the seed and of Search-R1:
 *
 *     exact_match, f1   as the functions above
 *     format, answer    as those of searchr1/ext/seed_rewards.h
 *     sub_match         as that of searchr1/ext/text_metrics.h
 *
 * Of a worked solution to a mathematical problem, as verl's scorers of these names do
 * (functions of searchr1/ext/text_metrics.h). It is the final answer, which protocol chat
 * takes from a whole message, or what the policy said last where there is none:
 *
 *     gsm8k             1 if the number behind the last "#### " is a gold answer, else 0
 *     math_reward       1 if the last \boxed{...} is one, rewritten as for MATH, else 0
 *     math_dapo         1 if what follows the last "Answer:" is one, rewritten as for
 *                       Minerva, or where there is none the last \boxed{...}; else -1
 *
 * Others:
 *
 *     repetition_penalty  (1 - distinct / all n-grams of sampled tokens) times
 *                       repetition_max_penalty, which is at most 0 (TRL's
 *                       get_repetition_penalty_reward); no n-gram reaches over inserted
 *                       tokens, and 0 without any
 *     environment       what the environment gave for the actions, together; 0 from one
 *                       that gives nothing (sr1_env_sink_reward)
 *
 * About searching itself, whatever was answered:
 *
 *     retrieval_recall  share of the gold ids of the question's row that were hits of the
 *                       actions (sr1_action_event.hit_ids). The ids stand in the row's
 *                       column gold_ids_field: an id, or a list of ids, of [id, ...]
 *                       (supporting_facts of HotpotQA) or of objects with id or title
 *                       (positive_ctxs of DPR). Does not apply to a row without gold ids
 *     answer_retrieved  1 if a result holds a gold answer, both normalised
 *                       (sr1_reward_normalize), else 0. A gold answer of which nothing is
 *                       left stands nowhere
 *     search_cost       -search_price for each action that the environment answered,
 *                       failed and refused ones among them
 *
 * By meaning:
 *
 *     embedding    cosine of the embeddings of the closed answer and of the gold answer
 *                  nearest to it, not below 0; 0 without an answer. All texts of a call,
 *                  each distinct one once, are one call of the embedder.
 *
 * By another model (searchr1/ext/judge.h):
 *
 *     judge        what it gives the closed answer, 0 to 1; 0 without an answer. Unknown
 *                  where the judge did not reply or gave no score
 *
 * By running code (Xie et al. 2025, CTRL). The problem is the one whose id the question
 * has; its answer is the final answer, else what the policy said last. In a protocol
 * whose messages are critiques (ctrl) it is before these the last block that the
 * environment inserted, a revision; a critique is what the policy said last:
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
 *     tool_execution    turn: 0.2 * successes / attempts. An attempt is an action of a
 *                       message that got a result (of several in a message each is one);
 *                       a success, when the result has result tags and does not begin
 *                       with "Error:". A call that timed out or whose tool was broken is
 *                       no attempt. Turn by turn: the number of its successes.
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

/* Make the rewards that a configuration names (keys rewards, reward_weights,
 * format_reward, ...). SR1_E_CONFIG names a key. Caller frees with
 * sr1_reward_set_free. */
SR1_API sr1_status sr1_reward_set_open(sr1_reward_set **out, const sr1_config *config);

/* Free a set and call destroy of the rewards that were added to it. NULL is fine. */
SR1_API void sr1_reward_set_free(sr1_reward_set *set);

/* Add a reward of the caller's, times weight. ops is copied. On success the set owns
 * self; on failure the caller still does. SR1_E_INVALID: the name is taken, is not UTF-8
 * of 1 to 200 bytes without a comma, or the weight is not finite. SR1_E_STATE: the set is
 * scoring. */
SR1_API sr1_status sr1_reward_set_add(sr1_reward_set *set, const sr1_reward_ops *ops,
                                      void *self, double weight);

/* Return the number of rewards in the set. */
SR1_API size_t sr1_reward_set_count(const sr1_reward_set *set);

/* Return the name of reward i, NULL past the last. Borrowed until the set is freed. */
SR1_API const char *sr1_reward_set_name(const sr1_reward_set *set, size_t i);

/* Score trajectories [n] without changing them. parts [n, count] (may be NULL) receives
 * each reward before weighting, trajectory by trajectory; totals [n] (may be NULL)
 * receives the weighted sums. Where a reward is unknown, it and the total are NaN; where
 * it does not apply it is NaN, and the total is the sum of the others, NaN if there are
 * none. SR1_E_NUMERIC names a reward that is not finite. SR1_E_INVALID: a reward
 * needs ground truths and a trajectory has none. A reward whose score fails ends the call
 * with its status (SR1_E_CALLBACK if that is no SR1_E_*), and the text names the reward.
 * parts and totals are untouched on failure. */
SR1_API sr1_status sr1_reward_set_score(sr1_reward_set *set,
                                        const sr1_trajectory *const *trajectories,
                                        size_t n, double *parts, double *totals);

/* Score trajectories [n] and set their rewards with all components; when scoring fails,
 * none is set. A trajectory whose reward is unknown gets no reward and the stop reason
 * SR1_STOP_UNSCORED. Scores that were begun early (ops->begin) and not collected are then
 * given up. */
SR1_API sr1_status sr1_reward_set_apply(sr1_reward_set *set,
                                        sr1_trajectory *const *trajectories, size_t n);

#ifdef __cplusplus
}
#endif
#endif
