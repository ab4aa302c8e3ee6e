/* searchr1/rollout.h - let a policy think, search and answer, and measure how well.
 *
 * Ownership: a rollout keeps its own references to model, tokenizer and search engine;
 *            trajectories handed out are references of the caller (sr1_trajectory_free).
 * Errors:    outputs are untouched on failure.
 * Threads:   one thread at a time per rollout; a rollout and a trainer that share a model
 *            must not run at once. */
#ifndef SEARCHR1_ROLLOUT_H
#define SEARCHR1_ROLLOUT_H

#include <searchr1/base.h>
#include <searchr1/config.h>
#include <searchr1/data.h>
#include <searchr1/embed.h>
#include <searchr1/env.h>
#include <searchr1/model.h>
#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/tokenizer.h>
#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_rollout sr1_rollout;
typedef struct sr1_reward_set sr1_reward_set; /* searchr1/reward.h */

/* The search engine a configuration names (search_engine, search_index, mock_knowledge,
 * ...). Caller frees with sr1_search_free. SR1_E_CONFIG for the engine "none". Since 0.1.
 */
SR1_API sr1_status sr1_search_open(sr1_search **out, const sr1_config *config);

/* The rewards a configuration names (rewards, reward_weights, format_reward, ...). Caller
 * frees with sr1_reward_set_free. Since 0.1. */
SR1_API sr1_status sr1_reward_set_open(sr1_reward_set **out, const sr1_config *config);

/* Build a rollout by the configuration (model_name_or_path, tokenizer, search_engine,
 * protocol, max_turns, ...). model, tokenizer and search may be NULL: then they are
 * opened as the configuration says. With use_openai a server generates (docs/remote.md);
 * then no model is opened. Since 0.1. */
SR1_API sr1_status sr1_rollout_new(sr1_rollout **out, const sr1_config *config,
                                   sr1_model *model, sr1_tokenizer *tokenizer,
                                   sr1_search *search);
SR1_API void sr1_rollout_free(sr1_rollout *rollout);

/* Borrowed until the rollout is freed. The model is NULL where a server generates.
 * Since 0.1. */
SR1_API sr1_model *sr1_rollout_model(sr1_rollout *rollout);
SR1_API sr1_tokenizer *sr1_rollout_tokenizer(sr1_rollout *rollout);

/* Let another environment (retained) answer actions instead of the configured one: tools
 * or an environment of the caller's. It must speak the configured protocol. Its tools are
 * put into the system message. With no_search nothing answers. Not while the rollout
 * works. Since 0.1. */
SR1_API sr1_status sr1_rollout_set_env(sr1_rollout *rollout, sr1_env *env);

/* One question for a rollout. In an array all have the same struct_size, and it is the
 * distance between them: that of the caller's version. */
typedef struct sr1_query {
    size_t struct_size;
    const char *text;
    size_t text_len;             /* bytes; text may hold NUL */
    const char *id;              /* identity of the prompt; NULL: derived from the text */
    const char *const *answers;  /* gold answers, may be NULL */
    size_t n_answers;
    const char *data_source;     /* may be NULL */
    /* The conversation before the question, oldest message first: n_history roles
     * ("system" first or not at all, "user", "assistant") and texts. They go into the
     * prompt through the chat template, a system message behind the configured one, and
     * are recorded in the trajectory. NULL and 0: none. */
    const char *const *history_roles;
    const char *const *history_texts; /* UTF-8 */
    const size_t *history_sizes;      /* bytes of each text; NULL: each ends at its NUL */
    size_t n_history;                 /* at most SR1_TRAJECTORY_MAX_HISTORY */
} sr1_query;

typedef struct sr1_rollout_options {
    size_t struct_size;
    int32_t group_size;  /* trajectories per query, >= 1 */
    int32_t greedy;      /* 1: the most probable token; 0: sample as configured */
    uint64_t seed;       /* trajectory k of query q draws from (seed, q's id, k) alone */
    int64_t max_tokens;  /* sampled tokens a trajectory; 0: the configured max_tokens */
    int32_t no_search;   /* 1: searches find nothing (ablation) */
    /* Called after every decode step and, while all rows wait for a search or a server,
     * five times a second; may be NULL. A status other than SR1_OK ends the rollout with
     * it. Threads as for `finished`. */
    sr1_status (*progress)(void *user, int64_t finished, int64_t total, int64_t tokens);
    void *user;
    /* Text as it appears, for one query shown live; may be NULL. source: SR1_SOURCE_*. */
    sr1_status (*text)(void *user, size_t index, int32_t source, const char *text,
                       size_t len);
    /* Called with each trajectory when it is finished, while others are still made; may
     * be NULL. index: its place in out. It is the rollout's, for the call or for a
     * reference of one's own (sr1_trajectory_retain). On a thread of the library, one
     * call at a time, those of progress and text included. A status other than SR1_OK
     * ends the rollout with it. */
    sr1_status (*finished)(void *user, size_t index, sr1_trajectory *trajectory);
} sr1_rollout_options;

/* Generate n * group_size trajectories into out, ordered query by query (seed document:
 * generate_trajectory). An empty query gives an empty trajectory. Since 0.1. */
SR1_API sr1_status sr1_rollout_generate(sr1_rollout *rollout, const sr1_query *queries,
                                        size_t n, const sr1_rollout_options *options,
                                        sr1_trajectory **out);

/* What a server gave, where the configuration says use_openai, since the rollout was
 * made; all 0 without one. An answer is what it said in one turn, or in a part of it. */
typedef struct sr1_remote_report {
    size_t struct_size;
    int64_t answers;
    int64_t exact;   /* of them: it gave the token ids */
    int64_t spelled; /* it gave the texts of its tokens, which are tokens of ours */
    int64_t encoded; /* it gave text only, encoded anew: ids are likely, not certain,
                        and without log-probs */
    int64_t drifted; /* answers whose text, encoded anew, has other ids (exact,
                        spelled) or not as many as the server counted (encoded) */
    int64_t prompts_differ; /* answers to a prompt that the server read as other ids, or
                               another number of them, than the trajectory has */
    int64_t dropped_tokens; /* given beyond the end of a turn */
    int64_t server_tokens;  /* generated, as the server counted */
    int64_t failed;         /* trajectories left out (SR1_STOP_ERROR): no answer came */
} sr1_remote_report;

/* SR1_E_INVALID if struct_size is not set. Since 0.1. */
SR1_API sr1_status sr1_rollout_remote_get(const sr1_rollout *rollout,
                                          sr1_remote_report *out);

/* Log-probs of each trajectory's policy tokens under the present weights and the sampling
 * distribution it was made with (temperature, top-p, top-k), one after the other into
 * out[out_len]; out_len is the sum of the policy token counts. No gradient
 * (seed document: recompute_log_probs). SR1_E_STATE without a model. Since 0.1. */
SR1_API sr1_status sr1_rollout_log_probs(sr1_rollout *rollout,
                                         const sr1_trajectory *const *trajectories,
                                         size_t n, float *out, size_t out_len);

/* Scores of one data source, or of all rows (data_source NULL in the report). Means over
 * rows; ratios in [0, 1]. */
typedef struct sr1_eval_scores {
    size_t struct_size;
    const char *data_source; /* borrowed from the evaluation */
    int64_t rows;
    double exact_match;
    double f1;
    double sub_match;
    double bleu;
    double rouge1;
    double rouge2;
    double rougeL;
    double format;    /* share of well-formed trajectories */
    double answered;  /* share that closed an answer */
    double searches;  /* per row */
    double tokens;    /* sampled tokens per row */
    int64_t excluded; /* further rows that could not be scored: a search of theirs failed
                         (key search_failure) */
    double embedding; /* as the reward "embedding"; 0 without an embedder */
    double reward;    /* total of the rewards given; 0 without */
    double success;   /* share with an action that reached its goal */
    double thinking;  /* tokens of thought per row */
} sr1_eval_scores;

typedef struct sr1_evaluation sr1_evaluation;

typedef struct sr1_eval_options {
    size_t struct_size;
    int64_t max_rows;  /* 0: all */
    int32_t greedy;    /* 1 by default */
    uint64_t seed;
    int32_t no_search;
    sr1_status (*progress)(void *user, int64_t finished, int64_t total, int64_t tokens);
    void *user;
    /* Every finished trajectory in row order (borrowed for the call); may be NULL. */
    sr1_status (*trajectory)(void *user, const sr1_trajectory *trajectory);
    sr1_embedder *embedder; /* for the score "embedding"; borrowed for the call; NULL:
                               that is 0 */
    sr1_reward_set *rewards; /* for the score "reward"; borrowed for the call; NULL: that
                                is 0. Rows whose reward could not be had are excluded */
} sr1_eval_options;

/* Answer every row of a dataset and score the answers. Nothing is dropped, except that
 * rows whose search failed are counted in `excluded`. A question longer than
 * max_prompt_tokens is SR1_E_LIMIT before any is asked, or left out and logged (key
 * filter_overlong_prompts). Since 0.1. */
SR1_API sr1_status sr1_evaluate(sr1_evaluation **out, sr1_rollout *rollout,
                                const sr1_dataset *dataset,
                                const sr1_eval_options *options);
SR1_API void sr1_evaluation_free(sr1_evaluation *evaluation);
/* Entry 0 is over all rows, the others one per data source, by name. Since 0.1. */
SR1_API size_t sr1_evaluation_count(const sr1_evaluation *evaluation);
SR1_API sr1_status sr1_evaluation_scores(const sr1_evaluation *evaluation, size_t index,
                                         sr1_eval_scores *out);

/* ---- demonstrations ---- */

/* A trajectory as one line of JSON (no line end) that stage sft learns from: question,
 * history where there is one, and segments, then id, sample, reward, data_source, and
 * model where a server made it.
 * Caller frees with sr1_free(*text). SR1_E_UNSUPPORTED: it has no closed answer, the
 * protocol had to correct it, or a text of it is not UTF-8 without NUL. Since 0.1. */
SR1_API sr1_status sr1_rollout_demonstration(const sr1_rollout *rollout,
                                             const sr1_trajectory *trajectory,
                                             char **text, size_t *n);

typedef struct sr1_synth_options {
    size_t struct_size;   /* set by sr1_synth_options_init */
    int64_t max_rows;     /* 0, the default: all */
    int32_t samples;      /* trajectories made for each question; default 1 */
    int32_t per_question; /* written at most, the best reward first; default 1 */
    double min_reward;    /* of those; default 1 */
    int32_t greedy;       /* default 0 */
    uint64_t seed;
    /* As in sr1_rollout_options, over all trajectories. */
    sr1_status (*progress)(void *user, int64_t finished, int64_t total, int64_t tokens);
    void *user;
} sr1_synth_options;

typedef struct sr1_synth_report {
    size_t struct_size;
    int64_t rows;         /* questions done, those of an earlier call among them */
    int64_t resumed;      /* that were done before this call */
    int64_t trajectories; /* made */
    int64_t written;
    int64_t below;    /* not written: their reward is below min_reward */
    int64_t unfit;    /* ... they have no closed answer, or the protocol corrected them */
    int64_t excluded; /* ... a search of theirs, or the server, failed */
} sr1_synth_report;

/* As sr1_bm25_build_options_init. Since 0.1. */
SR1_API void sr1_synth_options_init(sr1_synth_options *options);

/* Answer every question of a dataset and append the good trajectories to path as
 * demonstrations. What was stopped goes on where it was: path.state remembers, and a
 * finished work does nothing. options and report may be NULL. SR1_E_STATE: path was made
 * with other settings, or by something else. Since 0.1. */
SR1_API sr1_status sr1_synthesise(const char *path, sr1_rollout *rollout,
                                  sr1_reward_set *rewards, const sr1_dataset *dataset,
                                  const sr1_synth_options *options,
                                  sr1_synth_report *report);

#ifdef __cplusplus
}
#endif
#endif
