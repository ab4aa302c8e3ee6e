/* searchr1/ext/reward_set.h - sets of rewards with objects of the caller's, scored turn
 * by turn or begun early. sr1_reward_set_open makes one from a configuration.
 *
 * Ownership: free a set with sr1_reward_set_free.
 * Errors:    outputs are untouched on failure.
 * Threads:   one thread at a time per set.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_REWARD_SET_H
#define SEARCHR1_EXT_REWARD_SET_H

#include <searchr1/ext/code.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/reward.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_judge sr1_judge; /* searchr1/ext/judge.h */

typedef struct sr1_reward_options {
    size_t struct_size;   /* set by sr1_reward_options_init */
    const char *rewards;  /* names joined by commas (above); NULL: "format,answer"; "" for
                             none */
    const char *weights;  /* as many numbers, joined by commas; NULL or "": all 1 */
    const char *protocol; /* tags; NULL: "search-r1" */
    const sr1_reward_scales *scales; /* NULL: defaults */
    sr1_embedder *embedder;          /* retained; for the reward "embedding", else NULL */
    /* For "execution" and "judgement", else NULL; retained. */
    sr1_checker *checker;
    sr1_problems *problems;
    int32_t judgement_required; /* of "execution" */
    sr1_judge *judge;           /* retained; for the reward "judge", else NULL */
    /* Which rewards score the trajectories of which data source
     * (sr1_trajectory_data_source): "openai/gsm8k=gsm8k+format,aime*=math_dapo,*=f1",
     * rewards of the set by name. aime* is for the sources that begin so and have no
     * entry of their own; the longest such beginning counts. To others a reward does not
     * apply (SR1_REWARD_NOT_APPLICABLE); one that no entry names scores all. A source
     * without an entry is refused by SR1_E_CONFIG. NULL or "": every reward scores all.
     * Copied. */
    const char *data_source_rewards;
    /* Of "retrieval_recall": the field of a row with the ids of the documents that answer
     * its question; NULL or "": "gold_ids". Copied. */
    const char *gold_ids_field;
} sr1_reward_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_reward_options_init(sr1_reward_options *options);

/* Make a set of rewards. options may be NULL and is copied; embedder, checker and
 * problems are retained. SR1_E_NOT_FOUND names an unknown reward or protocol.
 * SR1_E_CONFIG: "embedding" has no embedder, "judge" no judge, "execution" or "judgement"
 * has no checker or no problems, there are not as many weights as rewards, or
 * data_source_rewards is not of that form.
 * SR1_E_INVALID: a reward is named twice. Caller frees with sr1_reward_set_free. */
SR1_API sr1_status sr1_reward_set_new(sr1_reward_set **out,
                                      const sr1_reward_options *options);

/* Return the level of reward i, SR1_REWARD_OUTCOME or SR1_REWARD_TURN; -1 past the
 * last. */
SR1_API int32_t sr1_reward_set_level(const sr1_reward_set *set, size_t i);

/* Score trajectories [n] turn by turn. The turns of trajectory i are [turn_begin[i],
 * turn_begin[i + 1]) with turn_begin[0] 0; their number must be
 * sr1_trajectory_turn_count, else SR1_E_INVALID. parts [turn_begin[n], count] (may be
 * NULL) receives the score_turns of each reward of level turn, turn by turn; 0 for
 * rewards of level outcome. totals [turn_begin[n]] (may be NULL) receives for each turn
 * the sum over rewards of level turn of weight * score, split over the turns in
 * proportion to the parts (evenly where all are 0). So the totals of a trajectory add up
 * to its turn-level reward; the rest of its total reward belongs to the outcome
 * (turn_rewards of sr1_advantage_batch). */
SR1_API sr1_status sr1_reward_set_score_turns(sr1_reward_set *set,
                                              const sr1_trajectory *const *trajectories,
                                              size_t n, const int64_t *turn_begin,
                                              double *parts, double *totals);

/* Begin to score a finished trajectory, which is retained until it is scored or given up.
 * Call from any thread, one call at a time. Nothing is begun for a trajectory that ended
 * by a failure, or by rewards without ops->begin. A begin that fails ends the call with
 * its status (SR1_E_CALLBACK if that is no SR1_E_*), and the text names the reward. */
SR1_API sr1_status sr1_reward_set_begin(sr1_reward_set *set, sr1_trajectory *trajectory);

/* Return 1 when a reward of the set can be begun early (ops->begin), else 0. */
SR1_API int32_t sr1_reward_set_begins(const sr1_reward_set *set);

/* Give up all scores that were begun and not collected. */
SR1_API void sr1_reward_set_forget(sr1_reward_set *set);

#ifdef __cplusplus
}
#endif
#endif
