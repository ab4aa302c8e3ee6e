/* searchr1/ext/trajectory_details.h - all that a trajectory holds beyond
 * searchr1/trajectory.h: history, sampling parameters, token steps, segments of its text,
 * columns of numbers by policy token, and its binary form.
 *
 * Ownership, errors and threads as in searchr1/trajectory.h; a column is borrowed until
 * it is next set.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_TRAJECTORY_DETAILS_H
#define SEARCHR1_EXT_TRAJECTORY_DETAILS_H

#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the conversation and how it was sampled ---- */

/* Return the number of messages in the conversation before the question; the prompt
 * contains them. */
SR1_API size_t sr1_trajectory_history_count(const sr1_trajectory *t);

/* Return the text of message i, oldest first; NULL past the last. *role ("system", "user"
 * or "assistant") and *len may be NULL. */
SR1_API const char *sr1_trajectory_history(const sr1_trajectory *t, size_t i,
                                           const char **role, size_t *len);

/* Return the sampling temperature; 0 means greedy. */
SR1_API double sr1_trajectory_temperature(const sr1_trajectory *t);

/* Return the top-p of sampling; 1 means off. */
SR1_API double sr1_trajectory_top_p(const sr1_trajectory *t);

/* Return the top-k of sampling; 0 means off. */
SR1_API int32_t sr1_trajectory_top_k(const sr1_trajectory *t);

/* Return the number of optimizer steps that the sampling weights had seen; -1 if it was
 * not recorded. Where a server took new weights meanwhile, that of the oldest. */
SR1_API int64_t sr1_trajectory_weights_version(const sr1_trajectory *t);

/* Return the same of policy token i alone; -1 past the last. */
SR1_API int64_t sr1_trajectory_token_weights_version(const sr1_trajectory *t, size_t i);

/* Return 1 if the prompt ended inside a thought, as with the chat template of
 * Qwen3-*-Thinking-2507: the generated text continues the thought, and its first </think>
 * has no opening tag. Else 0. */
SR1_API int32_t sr1_trajectory_begins_in_thought(const sr1_trajectory *t);

/* Return a hash of the query's id and the prompt's token ids: the samples of one query
 * have equal keys, and those of two queries with the same prompt have not. Without an id
 * (sr1_trajectory_query_id is "") the prompt alone decides. It is the key that the
 * advantage functions take. */
SR1_API uint64_t sr1_trajectory_group_key(const sr1_trajectory *t);

/* ---- tokens: n = sr1_trajectory_token_count, m = sr1_trajectory_policy_count ---- */

/* Return the number of tokens that the environment inserted. */
SR1_API size_t sr1_trajectory_environment_count(const sr1_trajectory *t);

/* Return the source of each token, SR1_SOURCE_*, uint8 [n]. NULL if n is 0. */
SR1_API const uint8_t *sr1_trajectory_sources(const sr1_trajectory *t);

/* Return the positions of the policy's tokens in the whole sequence, int32 [m], rising
 * (the seed's generated_positions). NULL if m is 0. */
SR1_API const int32_t *sr1_trajectory_policy_positions(const sr1_trajectory *t);

/* Return the log-probs of the policy's tokens, float [m]. NULL if m is 0. */
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

/* Fill *out (struct_size set) with the i-th token of the policy, 0 <= i < m.
 * SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_trajectory_step(const sr1_trajectory *t, size_t i,
                                       sr1_token_step *out);

/* Fill *out (struct_size set) with the token at position i, 0 <= i < n, of any source.
 * SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_trajectory_token(const sr1_trajectory *t, size_t i,
                                        sr1_token_step *out);

/* ---- places in the text ---- */

/* Return the end of each token's piece in the generated text, uint32 [n - prompt], for
 * the tokens after the prompt. NULL if there is none. */
SR1_API const uint32_t *sr1_trajectory_text_ends(const sr1_trajectory *t);

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

/* Return the number of segments. In order they cover the generated text and the tokens
 * after the prompt. */
SR1_API size_t sr1_trajectory_segment_count(const sr1_trajectory *t);

/* Fill *out (struct_size set) with segment i. SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_trajectory_segment(const sr1_trajectory *t, size_t i,
                                          sr1_text_segment *out);

/* ---- columns: numbers for each policy token ---- */

/* X(name, code, word): what a trajectory can hold for each of its policy tokens once it
 * was generated. Codes are never reused. */
#define SR1_COLUMN_TABLE(X)                                                              \
    X(SR1_COLUMN_ADVANTAGE, 0, "token_advantages")    /* in place of the trajectory's */ \
    X(SR1_COLUMN_REFERENCE, 1, "reference_log_probs") /* under the frozen reference */   \
    X(SR1_COLUMN_REWARD, 2, "token_rewards") /* earned at the token, KL taken off */     \
    X(SR1_COLUMN_VALUE, 3, "values")         /* the critic's, before the token */        \
    X(SR1_COLUMN_RETURN, 4, "returns")       /* what the critic is to predict */         \
    X(SR1_COLUMN_LEVEL_ENTROPY, 5, "thinking_level_entropies")                           \
    X(SR1_COLUMN_THINKING_COST, 6, "thinking_token_costs")                               \
    X(SR1_COLUMN_OLD, 7, "old_log_probs") /* before the update, computed anew */

#define SR1_COLUMN_ENUM(name, code, word) name = code,
enum { SR1_COLUMN_TABLE(SR1_COLUMN_ENUM) };
#undef SR1_COLUMN_ENUM
#define SR1_COLUMN_COUNT 8

/* Return the name of a column: "values" for SR1_COLUMN_VALUE; NULL for an unknown code.
 * Static. */
SR1_API const char *sr1_column_name(int32_t column);

/* Return a column (SR1_COLUMN_*), float [m], one number for each of the m policy tokens
 * in their order (sr1_trajectory_policy_count); NULL if it was not set or the code is
 * unknown. Borrowed until the column is next set or the trajectory is freed. */
SR1_API const float *sr1_trajectory_column(const sr1_trajectory *t, int32_t column);

/* Set a column to n numbers (copied), one for each policy token; n 0 removes it.
 * SR1_E_INVALID: the code is unknown, or n is neither 0 nor m. SR1_E_NUMERIC: a number is
 * not finite. */
SR1_API sr1_status sr1_trajectory_set_column(sr1_trajectory *t, int32_t column,
                                             const float *values, size_t n);

/* ---- binary form ---- */

/* Write every field in a versioned, checksummed binary form, without loss. Caller frees
 * *bytes with sr1_free. */
SR1_API sr1_status sr1_trajectory_encode(const sr1_trajectory *t, void **bytes,
                                         size_t *n);

/* Read what sr1_trajectory_encode wrote. SR1_E_CORRUPT: the bytes are no whole and
 * unchanged record. SR1_E_UNSUPPORTED: a later version wrote them. Caller frees with
 * sr1_trajectory_free. */
SR1_API sr1_status sr1_trajectory_decode(sr1_trajectory **out, const void *bytes,
                                         size_t n);

/* Return 1 if all fields of both trajectories are equal, bit for bit, else 0. */
SR1_API int32_t sr1_trajectory_equal(const sr1_trajectory *a, const sr1_trajectory *b);

#ifdef __cplusplus
}
#endif
#endif
