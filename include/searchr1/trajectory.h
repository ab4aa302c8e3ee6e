/* searchr1/trajectory.h - one rolled-out attempt at one question.
 *
 * A trajectory is a sequence of token ids: prompt, then what the policy sampled and what
 * the environment inserted, in order. Text is a view of it. A trajectory cannot be
 * changed once made, except for its reward and advantage, which are computed after
 * generation.
 *
 * History, sampling parameters, segments and columns are in
 * searchr1/ext/trajectory_details.h.
 *
 * Ownership: handles are reference counted; free each with sr1_trajectory_free. Pointers
 *            returned by getters are borrowed until the trajectory is freed; those to
 *            reward components until the reward is next set. Strings end with a NUL byte;
 *            query, text and answers may hold NUL bytes before it.
 * Errors:    a status other than SR1_OK leaves outputs and the trajectory as they were.
 *            Getters cannot fail; NULL is to them a trajectory without tokens.
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
    X(SR1_STOP_ERROR, 6, "error")                 /* dropped: its generation failed */   \
    X(SR1_STOP_CANCELLED, 7, "cancelled")         /* stopped on request */               \
    X(SR1_STOP_SEARCH_FAILED, 8, "search_failed") /* dropped: no answer to a search */   \
    X(SR1_STOP_UNSCORED, 9, "unscored") /* dropped: its reward could not be had */

#define SR1_STOP_ENUM(name, code, word) name = code,
enum { SR1_STOP_TABLE(SR1_STOP_ENUM) };
#undef SR1_STOP_ENUM

/* Return the word of a stop reason: "answer" for SR1_STOP_ANSWER; "?" for an unknown
 * code. Static. */
SR1_API const char *sr1_stop_reason_name(int32_t stop_reason);

/* Hit ids of one search that are recorded; the hit count is always whole. */
#define SR1_TRAJECTORY_MAX_HIT_IDS 16

/* Bounds of one trajectory; beyond them it cannot be made (SR1_E_LIMIT). */
#define SR1_TRAJECTORY_MAX_TOKENS (1 << 24)
#define SR1_TRAJECTORY_MAX_TEXT (1 << 28)
#define SR1_TRAJECTORY_MAX_HISTORY (1 << 16)
#define SR1_TRAJECTORY_MAX_ROW (1 << 20)

/* ---- references ---- */

/* Take one more reference. Returns t; NULL for NULL. */
SR1_API sr1_trajectory *sr1_trajectory_retain(sr1_trajectory *t);

/* Drop one reference; the last one frees the trajectory. NULL is fine. */
SR1_API void sr1_trajectory_free(sr1_trajectory *t);

/* ---- identity: which question, which attempt ---- */

/* Return the question; *len (may be NULL) receives its length in bytes. */
SR1_API const char *sr1_trajectory_query(const sr1_trajectory *t, size_t *len);

/* Return the identity of the prompt, which all samples of a group share; "" if none was
 * given. */
SR1_API const char *sr1_trajectory_query_id(const sr1_trajectory *t);

/* Return the number of this sample in its group, from 0. */
SR1_API int32_t sr1_trajectory_sample(const sr1_trajectory *t);

/* Return the name of the data set that the question came from; "" if none was given. */
SR1_API const char *sr1_trajectory_data_source(const sr1_trajectory *t);

/* Return the number of ground truths; 0 if none is known. */
SR1_API size_t sr1_trajectory_ground_truth_count(const sr1_trajectory *t);

/* Return ground truth i; NULL past the last. *len (may be NULL) receives its length in
 * bytes. */
SR1_API const char *sr1_trajectory_ground_truth(const sr1_trajectory *t, size_t i,
                                                size_t *len);

/* Return the row of the data set that the question came from, with all its columns, as a
 * JSON object; "" if none was given or the row is longer than SR1_TRAJECTORY_MAX_ROW
 * bytes. *len (may be NULL) receives its length in bytes. */
SR1_API const char *sr1_trajectory_row_json(const sr1_trajectory *t, size_t *len);

/* Return why generation ended, SR1_STOP_*. */
SR1_API int32_t sr1_trajectory_stop_reason(const sr1_trajectory *t);

/* ---- tokens: n = sr1_trajectory_token_count, m = sr1_trajectory_policy_count ---- */

/* Return the number of all tokens, n: prompt, policy and environment. */
SR1_API size_t sr1_trajectory_token_count(const sr1_trajectory *t);

/* Return the number of prompt tokens, which come first. */
SR1_API size_t sr1_trajectory_prompt_count(const sr1_trajectory *t);

/* Return the number of tokens that the policy sampled, m. */
SR1_API size_t sr1_trajectory_policy_count(const sr1_trajectory *t);

/* Return the number of turns: 1 + the highest turn index; 0 without generated tokens. */
SR1_API int32_t sr1_trajectory_turn_count(const sr1_trajectory *t);

/* Return the token ids of the whole sequence, int32 [n] (the seed's full_input_ids). NULL
 * if n is 0. */
SR1_API const int32_t *sr1_trajectory_ids(const sr1_trajectory *t);

/* Return the turn of each token, int32 [n]: from 0, never falling, 0 in the prompt. NULL
 * if n is 0. */
SR1_API const int32_t *sr1_trajectory_turns(const sr1_trajectory *t);

/* Return the log-prob (natural logarithm) of each token under the distribution that it
 * was sampled from, float [n], n = sr1_trajectory_token_count; 0 for tokens that the
 * policy did not sample. NULL if n is 0. */
SR1_API const float *sr1_trajectory_log_probs(const sr1_trajectory *t);

/* Return the loss mask, uint8 [n]: 1 for tokens that the policy sampled, else 0. NULL if
 * n is 0. The ablations mask_environment and no_think_rl train on other tokens; they do
 * not change what is returned here. */
SR1_API const uint8_t *sr1_trajectory_policy_mask(const sr1_trajectory *t);

/* ---- text ---- */

/* Return all text after the prompt: the policy's text with its tags, and the observation
 * blocks. *len (may be NULL) receives its length in bytes. */
SR1_API const char *sr1_trajectory_generated_text(const sr1_trajectory *t, size_t *len);

/* Return the answer that the protocol extracted; "" if there is none. *len (may be NULL)
 * receives its length in bytes. */
SR1_API const char *sr1_trajectory_final_answer(const sr1_trajectory *t, size_t *len);

/* ---- searches ---- */

typedef struct sr1_action_event {
    size_t struct_size; /* set by the caller */
    int32_t turn;
    int32_t status;    /* how it ended: SR1_ACTION_OK, ... (searchr1/search.h) */
    int32_t n_hits;    /* passages found */
    int32_t n_hit_ids; /* at most SR1_TRAJECTORY_MAX_HIT_IDS */
    const char *query; /* borrowed until the trajectory is freed */
    size_t query_len;
    const char *const *hit_ids; /* the first n_hit_ids hits, best first */
    double reward;              /* earned by the action, where its environment says so */
    int32_t success;            /* 1: the action reached the trajectory's goal */
} sr1_action_event;

/* Return the number of actions that the policy wrote and the environment answered,
 * searches or others, refused ones among them (their status says so). */
SR1_API size_t sr1_trajectory_search_count(const sr1_trajectory *t);

/* Fill *out (struct_size set) with action i, in order. SR1_E_INVALID: i is out of
 * range. */
SR1_API sr1_status sr1_trajectory_search(const sr1_trajectory *t, size_t i,
                                         sr1_action_event *out);

/* ---- reward and advantage: computed after generation ---- */

/* Return 1 once a reward was set, else 0. */
SR1_API int32_t sr1_trajectory_has_reward(const sr1_trajectory *t);

/* Return the total reward; 0 before it is set. */
SR1_API double sr1_trajectory_reward(const sr1_trajectory *t);

/* Return the number of named components that the total reward was made from; it may be
 * 0. */
SR1_API size_t sr1_trajectory_reward_component_count(const sr1_trajectory *t);

/* Get reward component i: its name (borrowed until the reward is next set), its value
 * before weighting, and its weight. The value is NaN and the weight 0 where the reward
 * was to be measured only and could not be had, or does not apply to this trajectory
 * (SR1_REWARD_NOT_APPLICABLE). Each pointer may be NULL. SR1_E_INVALID: i is out of
 * range. */
SR1_API sr1_status sr1_trajectory_reward_component(const sr1_trajectory *t, size_t i,
                                                   const char **name, double *value,
                                                   double *weight);

/* Set the total reward and drop the components. SR1_E_NUMERIC: the reward is not
 * finite. */
SR1_API sr1_status sr1_trajectory_set_reward(sr1_trajectory *t, double total);

/* Return 1 once an advantage of the whole trajectory was set, else 0. */
SR1_API int32_t sr1_trajectory_has_advantage(const sr1_trajectory *t);

/* Return the advantage of the whole trajectory; 0 before it is set. */
SR1_API double sr1_trajectory_advantage(const sr1_trajectory *t);

/* Set the advantage of the whole trajectory. SR1_E_NUMERIC: it is not finite. */
SR1_API sr1_status sr1_trajectory_set_advantage(sr1_trajectory *t, double advantage);

/* ---- storage and exchange ---- */

/* Write every field as one line of JSON (no line end), without loss: numbers read back
 * exactly. A string is a JSON string, or {"hex": "c0af"} where its bytes are not UTF-8.
 * The seed's names come first: query, token_steps (token_id, token_text, log_prob,
 * position), generated_text, reward, final_answer, full_input_ids, generated_positions,
 * advantage. Caller frees *text with sr1_free. */
SR1_API sr1_status sr1_trajectory_to_json(const sr1_trajectory *t, char **text,
                                          size_t *n);

/* Read what sr1_trajectory_to_json wrote. SR1_E_PARSE: the text is not JSON, or a member
 * is missing or has a wrong type. SR1_E_CORRUPT: members contradict each other. Caller
 * frees with sr1_trajectory_free. */
SR1_API sr1_status sr1_trajectory_from_json(sr1_trajectory **out, const char *text,
                                            size_t n);

#ifdef __cplusplus
}
#endif
#endif
