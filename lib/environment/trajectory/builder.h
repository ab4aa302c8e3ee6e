/* environment/trajectory/builder.h - build a trajectory token by token, in generation
 * order.
 *
 * Each call validates and copies. A failed call leaves the builder unchanged: the caller
 * can continue, finish or free it. */
#ifndef SR1__TRAJECTORY_BUILDER_H
#define SR1__TRAJECTORY_BUILDER_H

#include "base/error.h"

#include <searchr1/trajectory.h>

struct sr1__row_text;

struct sr1__trajectory_builder;

/* query_id NULL: "". sample: index in the group, from 0. */
sr1_status sr1__trajectory_builder_new(struct sr1__trajectory_builder **out,
                                       const char *query, size_t query_len,
                                       const char *query_id, int32_t sample);
void sr1__trajectory_builder_free(struct sr1__trajectory_builder *b); /* NULL is fine */

/* The prompt, before any other token, once. Only an empty trajectory can do without. */
sr1_status sr1__trajectory_builder_prompt(struct sr1__trajectory_builder *b,
                                          const int32_t *ids, size_t n);

/* One sampled token. log_prob must be finite. turn never falls. text: the characters this
 * token completed, may be empty. */
sr1_status sr1__trajectory_builder_policy(struct sr1__trajectory_builder *b, int32_t id,
                                          float log_prob, int32_t turn, const char *text,
                                          size_t len);

/* One inserted block, ids and text whole; n 0 only with len 0 (nothing is added then).
 * [body_begin, body_begin + body_len) within text leaves out the block's own tags. */
sr1_status sr1__trajectory_builder_environment(struct sr1__trajectory_builder *b,
                                               const int32_t *ids, size_t n, int32_t turn,
                                               const char *text, size_t len,
                                               size_t body_begin, size_t body_len);

/* The streaming decoder's rest (U+FFFD for a character that was never completed) goes to
 * the last token, which must be the policy's: call it before a block is inserted and
 * before finish. len 0 does nothing. */
sr1_status sr1__trajectory_flush_text(struct sr1__trajectory_builder *b, const char *text,
                                      size_t len);

/* hit_ids[n_hits], best first (the first SR1_TRAJECTORY_MAX_HIT_IDS are kept), or NULL; a
 * missing id is NULL or "". */
sr1_status sr1__trajectory_builder_action(struct sr1__trajectory_builder *b, int32_t turn,
                                          const char *query, size_t len, int32_t status,
                                          int32_t n_hits, const char *const *hit_ids);

/* Set the reward and the success of the last recorded action; without this call both are
 * 0. SR1_E_NUMERIC: the reward is not finite. success: 0 or 1. */
sr1_status sr1__trajectory_builder_action_reward(struct sr1__trajectory_builder *b,
                                                 double reward, int32_t success);

struct sr1__trajectory_context {
    double temperature;      /* finite, >= 0 */
    double top_p;            /* (0, 1] */
    int32_t top_k;           /* >= 0 */
    int64_t weights_version; /* >= -1 */
    const char *data_source; /* NULL: "" */
    const char *const *ground_truths;
    const size_t *ground_truth_lens; /* NULL: each ends at its NUL */
    size_t n_ground_truths;
    int32_t begins_in_thought; /* 1: the prompt opened a thought */
};
/* Copied. Without this call: temperature 1, top_p 1, top_k 0, weights_version -1,
 * begins_in_thought 0. */
sr1_status sr1__trajectory_builder_context(struct sr1__trajectory_builder *b,
                                           const struct sr1__trajectory_context *c);

/* The conversation before the question, oldest message first; copied. sizes NULL: each
 * text ends at its NUL. Without this call: none. */
sr1_status sr1__trajectory_builder_history(struct sr1__trajectory_builder *b,
                                           const char *const *roles,
                                           const char *const *texts, const size_t *sizes,
                                           size_t n);

/* The row of the data set, which the trajectory shares (one more reference). Without this
 * call, and for NULL: none. */
void sr1__trajectory_builder_row(struct sr1__trajectory_builder *b,
                                 struct sr1__row_text *row);

/* The trajectory built so far; borrowed until the next call on b. */
const int32_t *sr1__trajectory_builder_ids(const struct sr1__trajectory_builder *b,
                                           size_t *n);

/* Frees b in any case. answer NULL: "". */
sr1_status sr1__trajectory_builder_finish(struct sr1__trajectory_builder *b,
                                          int32_t stop_reason, const char *answer,
                                          size_t answer_len, sr1_trajectory **out);

#endif
