/* searchr1/ext/seed_rewards.h - the seed's rewards (format and answer) as functions over
 * plain text; the rewards "format" and "answer" of searchr1/reward.h are these.
 *
 * Text, ownership and errors as in searchr1/reward.h. Threads: no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SEED_REWARDS_H
#define SEARCHR1_EXT_SEED_REWARDS_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What each outcome is worth. Where a function takes a pointer to it, NULL means the
 * defaults given here. */
typedef struct sr1_reward_scales {
    size_t struct_size;          /* set by sr1_reward_scales_init */
    double format_reward;        /* well-formed: 0.5 */
    double format_penalty;       /* not well-formed: -1.0 */
    double answer_reward;        /* similar to a gold answer: 1.0 */
    double exact_match_bonus;    /* equal to a gold answer, the whole reward of it: 2.0 */
    double no_content_reward;    /* the answer is no_content_text: 0.5 */
    double similarity_threshold; /* smallest ratio that is similar: 0.5 */
    const char *no_content_text; /* borrowed; NULL: U+672A U+627E U+5230 U+76F8 U+5173
                                    U+5185 U+5BB9 ("no content found") */
    double structure_format_score; /* of the reward search_r1_format: 0.2 */
    double final_format_score;     /* 0.1 */
    double retrieval_score;        /* 0 */
    int32_t closed_thoughts;       /* 1: a <think> that is left open, or a </think> too
                                      many, is not well-formed: 0 */
    int32_t reserved;              /* not read */
    /* Of the reward repetition_penalty: tokens of an n-gram, 3 (0: 3); and what a
     * response of nothing but repetition comes near to, not above 0: -1.0. */
    int64_t repetition_n_grams;
    double repetition_max_penalty;
    double search_price; /* of the reward search_cost, not below 0: 0.1 */
} sr1_reward_scales;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_reward_scales_init(sr1_reward_scales *scales);

/* Score the format of a response (without its prompt): format_reward if all of these
 * hold, else format_penalty.
 *     1. There is exactly one <answer> and one </answer>.
 *     2. Nothing but white space follows </answer>.
 *     3. Every <search> is closed and followed by a closed <information>.
 *     4. There is no <information> without a search.
 * <think> blocks are optional and are removed first; a think tag without its other half
 * counts as text, or with closed_thoughts makes the format wrong. Tags inside
 * <information> count as text. scales NULL: the defaults. */
SR1_API sr1_status sr1_reward_check_format(const char *text, size_t len,
                                           const sr1_reward_scales *scales, double *out);

/* Score an answer against n_truths >= 1 ground truths; the best one counts:
 *     0                  the answer is empty, or none of the following holds
 *     exact_match_bonus  the answer and the ground truth have the same bytes
 *     no_content_reward  the answer is no_content_text
 *     answer_reward      in lower case and without white space, their similarity
 *                        (sr1_similarity_ratio) is at least similarity_threshold
 * <think> blocks in the answer are removed first. Texts of more than SR1_SIMILARITY_MAX
 * characters are similar only when they are equal. scales NULL: the defaults. */
SR1_API sr1_status sr1_reward_check_answer(const char *answer, size_t len,
                                           const char *const *truths, size_t n_truths,
                                           const sr1_reward_scales *scales, double *out);

/* Compute the seed's whole reward: sr1_reward_check_format of the text plus
 * sr1_reward_check_answer of the answer in it; in [-1.0, 2.5] with the default scales.
 * scales NULL: the defaults. */
SR1_API sr1_status sr1_reward_total(const char *text, size_t len,
                                    const char *const *truths, size_t n_truths,
                                    const sr1_reward_scales *scales, double *out);

#ifdef __cplusplus
}
#endif
#endif
