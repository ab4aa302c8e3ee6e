/* searchr1/trajectory.h - one rolled-out attempt at one question.
 *
 * A trajectory is a sequence of token ids: prompt, then what the policy sampled and what
 * the environment inserted, in order. Text is a view of it. A trajectory cannot be
 * changed once made, except for its reward and advantage, which are computed after
 * generation.
 *
 * Ownership: handles are reference counted; free each with sr1_trajectory_free. Pointers
 *            returned by getters are borrowed until the trajectory is freed; those to
 *            reward parts and token advantages until these are next set. Strings end with
 *            a NUL byte; query, text and answers may hold NUL bytes before it.
 * Errors:    a status other than SR1_OK leaves outputs and the trajectory as they were.
 *            Getters cannot fail; the trajectory given to them must not be NULL.
 * Threads:   any number of threads may read one trajectory; retain and free are atomic;
 *            a set_* call must not run beside any other call on the same trajectory. */
#ifndef SEARCHR1_TRAJECTORY_H
#define SEARCHR1_TRAJECTORY_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_trajectory sr1_trajectory;

/* Where a token comes from. */
enum { SR1_SOURCE_PROMPT = 0, SR1_SOURCE_POLICY = 1, SR1_SOURCE_ENVIRONMENT = 2 };

/* X(name, code, word): why generation ended. Codes are never reused. */
#define SR1_STOP_TABLE(X)                                                                \
    X(SR1_STOP_ANSWER, 0, "answer")               /* the answer was closed */            \
    X(SR1_STOP_EOS, 1, "eos")                     /* an end-of-text token */             \
    X(SR1_STOP_TOKEN_LIMIT, 2, "token_limit")     /* max_tokens sampled */               \
    X(SR1_STOP_SEARCH_LIMIT, 3, "search_limit")   /* one search too many */              \
    X(SR1_STOP_EMPTY_QUERY, 4, "empty_query")     /* nothing was asked */                \
    X(SR1_STOP_CONTEXT_LIMIT, 5, "context_limit") /* the model's context is full */      \
    X(SR1_STOP_ERROR, 6, "error")                 /* left out: its generation failed */  \
    X(SR1_STOP_CANCELLED, 7, "cancelled")         /* stopped on request */               \
    X(SR1_STOP_SEARCH_FAILED, 8, "search_failed") /* left out: no answer to a search */  \
    X(SR1_STOP_UNSCORED, 9, "unscored") /* left out: its reward could not be had */

#define SR1_STOP_ENUM(name, code, word) name = code,
enum { SR1_STOP_TABLE(SR1_STOP_ENUM) };
#undef SR1_STOP_ENUM

/* "answer" for SR1_STOP_ANSWER; "?" for an unknown code. Static. Since 0.1. */
SR1_API const char *sr1_stop_reason_name(int32_t stop_reason);

/* Hit ids of one search that are recorded; the hit count is always whole. */
#define SR1_TRAJECTORY_MAX_HIT_IDS 16

/* Bounds of one trajectory; beyond them it cannot be made (SR1_E_LIMIT). */
#define SR1_TRAJECTORY_MAX_TOKENS (1 << 24)
#define SR1_TRAJECTORY_MAX_TEXT (1 << 28)
#define SR1_TRAJECTORY_MAX_HISTORY (1 << 16)

/* ---- references ---- */

/* Take one more reference; returns t. NULL gives NULL. Since 0.1. */
SR1_API sr1_trajectory *sr1_trajectory_retain(sr1_trajectory *t);

/* Drop one reference; the last one frees. NULL is fine. Since 0.1. */
SR1_API void sr1_trajectory_free(sr1_trajectory *t);

/* ---- identity: which question, which attempt ---- */

/* The question; *len (may be NULL) is its length in bytes. Since 0.1. */
SR1_API const char *sr1_trajectory_query(const sr1_trajectory *t, size_t *len);

/* Identity of the prompt, the same for all samples of a group; "" if none was given.
 * Since 0.1. */
SR1_API const char *sr1_trajectory_query_id(const sr1_trajectory *t);

/* Which sample of its group this is, from 0. Since 0.1. */
SR1_API int32_t sr1_trajectory_sample(const sr1_trajectory *t);

/* Hash of the prompt's token ids: equal for equal prompts. Since 0.1. */
SR1_API uint64_t sr1_trajectory_group_key(const sr1_trajectory *t);

/* Messages of the conversation before the question, which the prompt holds too.
 * Since 0.1. */
SR1_API size_t sr1_trajectory_history_count(const sr1_trajectory *t);

/* Text of message i, oldest first; NULL if i is out of range. *role ("system", "user",
 * "assistant") and *len may be NULL. Since 0.1. */
SR1_API const char *sr1_trajectory_history(const sr1_trajectory *t, size_t i,
                                           const char **role, size_t *len);

/* Name of the data set the question came from; "" if none was given. Since 0.1. */
SR1_API const char *sr1_trajectory_data_source(const sr1_trajectory *t);

/* Number of gold answers, 0 if none is known. Since 0.1. */
SR1_API size_t sr1_trajectory_ground_truth_count(const sr1_trajectory *t);

/* Gold answer i; NULL if i is out of range. *len may be NULL. Since 0.1. */
SR1_API const char *sr1_trajectory_ground_truth(const sr1_trajectory *t, size_t i,
                                                size_t *len);

/* ---- how it was sampled ---- */

/* Sampling parameters: temperature (0: greedy), top_p (1: off), top_k (0: off).
 * Since 0.1. */
SR1_API double sr1_trajectory_temperature(const sr1_trajectory *t);
SR1_API double sr1_trajectory_top_p(const sr1_trajectory *t);
SR1_API int32_t sr1_trajectory_top_k(const sr1_trajectory *t);

/* Optimizer steps the sampling weights had seen; -1 if not recorded. Since 0.1. */
SR1_API int64_t sr1_trajectory_weights_version(const sr1_trajectory *t);

/* One of SR1_STOP_*. Since 0.1. */
SR1_API int32_t sr1_trajectory_stop_reason(const sr1_trajectory *t);

/* ---- tokens: n = sr1_trajectory_token_count, m = sr1_trajectory_policy_count ---- */

/* All tokens: prompt, policy, environment. Since 0.1. */
SR1_API size_t sr1_trajectory_token_count(const sr1_trajectory *t);

/* Tokens of the prompt; they come first. Since 0.1. */
SR1_API size_t sr1_trajectory_prompt_count(const sr1_trajectory *t);

/* Tokens sampled by the policy. Since 0.1. */
SR1_API size_t sr1_trajectory_policy_count(const sr1_trajectory *t);

/* Tokens inserted by the environment. Since 0.1. */
SR1_API size_t sr1_trajectory_environment_count(const sr1_trajectory *t);

/* Turns: 1 + the highest turn index; 0 without generated tokens. Since 0.1. */
SR1_API int32_t sr1_trajectory_turn_count(const sr1_trajectory *t);

/* int32[n]: the whole sequence (the seed's full_input_ids). NULL if n is 0. Since 0.1. */
SR1_API const int32_t *sr1_trajectory_ids(const sr1_trajectory *t);

/* uint8[n]: SR1_SOURCE_* of each token. NULL if n is 0. Since 0.1. */
SR1_API const uint8_t *sr1_trajectory_sources(const sr1_trajectory *t);

/* int32[n]: turn of each token, from 0, never falling; 0 in the prompt. NULL if n is 0.
 * Since 0.1. */
SR1_API const int32_t *sr1_trajectory_turns(const sr1_trajectory *t);

/* float[n]: log-probability under the distribution it was sampled from; 0 for tokens that
 * are not the policy's. NULL if n is 0. Since 0.1. */
SR1_API const float *sr1_trajectory_log_probs(const sr1_trajectory *t);

/* uint8[n]: 1 for the policy's tokens, else 0. NULL if n is 0. Since 0.1. */
SR1_API const uint8_t *sr1_trajectory_policy_mask(const sr1_trajectory *t);

/* int32[m]: positions of the policy's tokens in the whole sequence, rising (the seed's
 * generated_positions). NULL if m is 0. Since 0.1. */
SR1_API const int32_t *sr1_trajectory_policy_positions(const sr1_trajectory *t);

/* float[m]: log-probabilities of the policy's tokens. NULL if m is 0. Since 0.1. */
SR1_API const float *sr1_trajectory_policy_log_probs(const sr1_trajectory *t);

/* One token, as in the seed's TokenStep. */
typedef struct sr1_token_step {
    size_t struct_size; /* set by the caller */
    int32_t token_id;
    int32_t position; /* index in the whole sequence, inserted tokens counted */
    int32_t turn;
    int32_t source;  /* SR1_SOURCE_* */
    double log_prob; /* 0 unless the policy's */
    /* The token's piece of the generated text, not NUL-terminated; borrowed until the
     * trajectory is freed. Pieces hold whole characters: a token that ends inside one has
     * an empty piece and the token that completes it carries the character. A block that
     * was inserted is the piece of its last token. Empty in the prompt. */
    const char *text;
    size_t text_len;
} sr1_token_step;

/* The i-th token of the policy, 0 <= i < m. SR1_E_INVALID: out of range, or struct_size
 * not set. Since 0.1. */
SR1_API sr1_status sr1_trajectory_step(const sr1_trajectory *t, size_t i,
                                       sr1_token_step *out);

/* The token at position i, 0 <= i < n, of any source. Errors as above. Since 0.1. */
SR1_API sr1_status sr1_trajectory_token(const sr1_trajectory *t, size_t i,
                                        sr1_token_step *out);

/* ---- text ---- */

/* All text after the prompt: the policy's with its tags, and inserted blocks. Since 0.1.
 */
SR1_API const char *sr1_trajectory_generated_text(const sr1_trajectory *t, size_t *len);

/* uint32[n - prompt]: where in the generated text the piece of each token after the
 * prompt ends. NULL if there is none. Since 0.1. */
SR1_API const uint32_t *sr1_trajectory_text_ends(const sr1_trajectory *t);

/* The answer the protocol extracted, "" if there is none. Since 0.1. */
SR1_API const char *sr1_trajectory_final_answer(const sr1_trajectory *t, size_t *len);

/* A run of tokens of one source in one turn. Rewards and parsers take tags as tags only
 * in segments of the policy; what was inserted is inert. */
typedef struct sr1_text_segment {
    size_t struct_size; /* set by the caller */
    int32_t source;     /* SR1_SOURCE_POLICY or SR1_SOURCE_ENVIRONMENT */
    int32_t turn;
    size_t token_begin; /* position in the whole sequence */
    size_t token_count;
    size_t text_begin; /* bytes in the generated text */
    size_t text_len;
    size_t body_begin; /* the same without the inserted block's own tags; */
    size_t body_len;   /* equal to text_begin, text_len for the policy */
} sr1_text_segment;

/* Segments, in order; they cover the generated text and the tokens after the prompt.
 * Since 0.1. */
SR1_API size_t sr1_trajectory_segment_count(const sr1_trajectory *t);

/* Segment i. SR1_E_INVALID: out of range, or struct_size not set. Since 0.1. */
SR1_API sr1_status sr1_trajectory_segment(const sr1_trajectory *t, size_t i,
                                          sr1_text_segment *out);

/* ---- searches ---- */

typedef struct sr1_search_event {
    size_t struct_size; /* set by the caller */
    int32_t turn;
    int32_t status;    /* how it ended: SR1_SEARCH_OK, ... (searchr1/search.h) */
    int32_t n_hits;    /* passages found */
    int32_t n_hit_ids; /* at most SR1_TRAJECTORY_MAX_HIT_IDS */
    const char *query; /* borrowed until the trajectory is freed */
    size_t query_len;
    const char *const *hit_ids; /* the first n_hit_ids hits, best first */
    double reward;              /* earned by the action, where its environment says so */
    int32_t success;            /* 1: the action reached the trajectory's goal */
} sr1_search_event;

/* Searches, or other actions that were answered. Since 0.1. */
SR1_API size_t sr1_trajectory_search_count(const sr1_trajectory *t);

/* Search i, in order. SR1_E_INVALID: out of range, or struct_size not set. Since 0.1. */
SR1_API sr1_status sr1_trajectory_search(const sr1_trajectory *t, size_t i,
                                         sr1_search_event *out);

/* ---- reward and advantage: computed after generation ---- */

/* 1 once a reward was set. Since 0.1. */
SR1_API int32_t sr1_trajectory_has_reward(const sr1_trajectory *t);

/* Total reward; 0 before it is set. Since 0.1. */
SR1_API double sr1_trajectory_reward(const sr1_trajectory *t);

/* Named parts the total was made from; may be 0. Since 0.1. */
SR1_API size_t sr1_trajectory_reward_part_count(const sr1_trajectory *t);

/* Part i: name (borrowed until the reward is next set), value and weight; each pointer
 * may be NULL. SR1_E_INVALID: out of range. Since 0.1. */
SR1_API sr1_status sr1_trajectory_reward_part(const sr1_trajectory *t, size_t i,
                                              const char **name, double *value,
                                              double *weight);

/* Set the total and drop the parts. SR1_E_NUMERIC: not finite. Since 0.1. */
SR1_API sr1_status sr1_trajectory_set_reward(sr1_trajectory *t, double total);

/* 1 once an advantage of the whole trajectory was set. Since 0.1. */
SR1_API int32_t sr1_trajectory_has_advantage(const sr1_trajectory *t);

/* Advantage of the whole trajectory; 0 before it is set. Since 0.1. */
SR1_API double sr1_trajectory_advantage(const sr1_trajectory *t);

/* SR1_E_NUMERIC: not finite. Since 0.1. */
SR1_API sr1_status sr1_trajectory_set_advantage(sr1_trajectory *t, double advantage);

/* X(name, code, word): what a trajectory can hold for each of its policy tokens once it
 * was generated. Codes are never reused. */
#define SR1_COLUMN_TABLE(X)                                                              \
    X(SR1_COLUMN_ADVANTAGE, 0, "token_advantages") /* used in place of the one above */  \
    X(SR1_COLUMN_REFERENCE, 1, "reference_log_probs")   /* under the frozen reference */ \
    X(SR1_COLUMN_REWARD, 2, "token_rewards") /* earned at the token, KL taken off */     \
    X(SR1_COLUMN_VALUE, 3, "values")               /* the critic's, before the token */  \
    X(SR1_COLUMN_RETURN, 4, "returns")             /* what the critic is to predict */   \
    X(SR1_COLUMN_LEVEL_ENTROPY, 5, "thinking_level_entropies")                           \
    X(SR1_COLUMN_THINKING_COST, 6, "thinking_token_costs")                               \
    X(SR1_COLUMN_OLD, 7, "old_log_probs")          /* before the update, computed anew */

#define SR1_COLUMN_ENUM(name, code, word) name = code,
enum { SR1_COLUMN_TABLE(SR1_COLUMN_ENUM) };
#undef SR1_COLUMN_ENUM
#define SR1_COLUMN_COUNT 8

/* "values" for SR1_COLUMN_VALUE; NULL for an unknown code. Static. Since 0.1. */
SR1_API const char *sr1_column_name(int32_t column);

/* float[m]: the column, one number for each policy token; NULL if it was not set, or for
 * an unknown code. Since 0.1. */
SR1_API const float *sr1_trajectory_column(const sr1_trajectory *t, int32_t column);

/* Copy n numbers into a column, one for each policy token; n 0 removes it. SR1_E_INVALID:
 * an unknown code, or n is neither 0 nor m. SR1_E_NUMERIC: one is not finite. Since 0.1.
 */
SR1_API sr1_status sr1_trajectory_set_column(sr1_trajectory *t, int32_t column,
                                             const float *values, size_t n);

/* The column SR1_COLUMN_ADVANTAGE. Since 0.1. */
SR1_API const float *sr1_trajectory_token_advantages(const sr1_trajectory *t);

/* sr1_trajectory_set_column of the same. Since 0.1. */
SR1_API sr1_status sr1_trajectory_set_token_advantages(sr1_trajectory *t,
                                                       const float *advantages, size_t n);

/* ---- storage and exchange ---- */

/* Every field in a versioned, checksummed binary form, without loss. Caller frees with
 * sr1_free(*bytes). Since 0.1. */
SR1_API sr1_status sr1_trajectory_encode(const sr1_trajectory *t, void **bytes,
                                         size_t *n);

/* Read what encode wrote; caller frees with sr1_trajectory_free. SR1_E_CORRUPT: not a
 * whole and unchanged record. SR1_E_UNSUPPORTED: written by a later version. Since 0.1.
 */
SR1_API sr1_status sr1_trajectory_decode(sr1_trajectory **out, const void *bytes,
                                         size_t n);

/* Every field as one line of JSON (no line end), without loss: numbers read back exactly.
 * A string is a JSON string, or {"hex": "c0af"} where its bytes are not UTF-8. Names are
 * the seed's: query, token_steps (token_id, token_text, log_prob, position),
 * generated_text, reward, final_answer, full_input_ids, generated_positions, advantage;
 * then ours. Caller frees with sr1_free(*text). Since 0.1. */
SR1_API sr1_status sr1_trajectory_to_json(const sr1_trajectory *t, char **text,
                                          size_t *n);

/* Read what to_json wrote; caller frees with sr1_trajectory_free. SR1_E_PARSE: not JSON,
 * or a member is missing or of a wrong type. SR1_E_CORRUPT: members contradict each
 * other. Since 0.1. */
SR1_API sr1_status sr1_trajectory_from_json(sr1_trajectory **out, const char *text,
                                            size_t n);

/* 1 if every field of both is equal, bit for bit. Since 0.1. */
SR1_API int32_t sr1_trajectory_equal(const sr1_trajectory *a, const sr1_trajectory *b);

/* ---- balance ---- */

/* What balancing brought, in the unit of the lengths, over the sums of the parts. */
typedef struct sr1_balance_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t min;        /* cut in the order given, n / parts items each */
    int64_t max;
    int64_t balanced_min; /* as balanced */
    int64_t balanced_max;
    double mean;
} sr1_balance_report;

/* n lengths (>= 0) over parts of nearly equal sums, by the largest differencing method of
 * Karmarkar and Karp (1982): part[n] receives 0 .. parts - 1, numbered in the order in
 * which they first occur. equal_sizes 1: sizes differ by one at most, whatever n is;
 * nothing is dropped or doubled. report may be NULL. SR1_E_INVALID for a negative length,
 * no parts, or a sum beyond int64, SR1_E_LIMIT for too many of both. Since 0.1. */
SR1_API sr1_status sr1_balance(const int64_t *lengths, size_t n, size_t parts,
                               int32_t equal_sizes, int32_t *part,
                               sr1_balance_report *report);

#ifdef __cplusplus
}
#endif
#endif
