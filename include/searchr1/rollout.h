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
#include <searchr1/env.h>
#include <searchr1/model.h>
#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_embedder sr1_embedder;   /* searchr1/ext/embed.h */
typedef struct sr1_ranks sr1_ranks;         /* searchr1/ext/ranks.h */
typedef struct sr1_tokenizer sr1_tokenizer; /* searchr1/ext/tokenizer.h */

typedef struct sr1_rollout sr1_rollout;

/* Make a rollout by a configuration (keys model_name_or_path, tokenizer, search_engine,
 * protocol, max_turns, ...). model, tokenizer and search are retained; where one is
 * NULL, the rollout opens what the configuration names. With the key use_openai a
 * server generates (docs/remote.md) and no model is opened. SR1_E_CONFIG names the key
 * that does not fit. Errors of what is opened as sr1_model_open, sr1_tokenizer_open and
 * sr1_search_open. Caller frees with sr1_rollout_free. */
SR1_API sr1_status sr1_rollout_new(sr1_rollout **out, const sr1_config *config,
                                   sr1_model *model, sr1_tokenizer *tokenizer,
                                   sr1_search *search);

/* Free a rollout. NULL is fine. When one of the rollout's own callbacks calls this, the
 * rollout is freed as soon as the call that runs the callback returns. */
SR1_API void sr1_rollout_free(sr1_rollout *rollout);

/* Return the model that generates, or that a trainer trains; NULL in a rollout of its own
 * whose model is behind a server. Borrowed until the rollout is freed. */
SR1_API sr1_model *sr1_rollout_model(sr1_rollout *rollout);

/* Use another environment (retained) instead of the configured one: one with tools, or
 * one of the caller's. It must speak the configured protocol. The description of its
 * tools goes into the system message. SR1_E_STATE: the rollout is generating. */
SR1_API sr1_status sr1_rollout_set_env(sr1_rollout *rollout, sr1_env *env);

/* One question for a rollout. In an array all have the same struct_size, and it is the
 * distance between them: that of the caller's version. */
typedef struct sr1_query {
    size_t struct_size;
    const char *text;
    size_t text_len;            /* bytes; text may hold NUL */
    const char *id;             /* identity of the prompt; NULL: derived from the text */
    const char *const *answers; /* gold answers, may be NULL */
    size_t n_answers;
    const char *data_source; /* may be NULL */
    /* The conversation before the question, oldest message first: n_history roles
     * ("system" first or not at all, "user", "assistant") and texts. They go into the
     * prompt through the chat template, a system message behind the configured one, and
     * are recorded in the trajectory. NULL and 0: none. */
    const char *const *history_roles;
    const char *const *history_texts; /* UTF-8 */
    const size_t *history_sizes;      /* bytes of each text; NULL: each ends at its NUL */
    size_t n_history;                 /* at most SR1_TRAJECTORY_MAX_HISTORY */
    /* The row of the data set, all its columns, as a JSON object (copied): rewards read
     * it by sr1_trajectory_row_json, environments in sr1_env_episode. At most
     * SR1_TRAJECTORY_MAX_ROW bytes; 0: none. */
    const char *row;
    size_t row_len;
    /* How many questions of this identity the batch has before it: a copy has random
     * streams and a group of its own. 0: none. A trainer counts its own batches. */
    int64_t copy;
} sr1_query;

typedef struct sr1_rollout_options {
    size_t struct_size; /* set by sr1_rollout_options_init */
    int32_t group_size; /* trajectories per query, >= 1 */
    int32_t greedy;     /* 1: the most probable token; 0: sample as configured */
    /* Trajectory k of query q draws from (seed, q's id and copy, k) alone. */
    uint64_t seed;
    int64_t max_tokens; /* sampled tokens a trajectory; 0: the configured max_tokens */
    int32_t no_search;  /* 1: searches find nothing (ablation) */
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
    /* Called when memory ran out and the rollout begins anew with fewer rows at once: all
     * trajectories so far are dropped, and `finished` will be called for their indices
     * again. What `finished` began for them is to be given up here
     * (sr1_reward_set_forget). May be NULL. On the thread that generates. */
    void (*dropped)(void *user);
    /* Of sampling, in place of the configured ones. temperature 0: as configured, and the
     * other two are checked but not used; top_p 0: 1; top_k 0: all. */
    double temperature;
    double top_p;
    int32_t top_k;
} sr1_rollout_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_rollout_options_init(sr1_rollout_options *options);

/* Generate n * group_size trajectories into out, query by query (specification:
 * generate_trajectory). A query without text gives an empty trajectory. options as in
 * sr1_rollout_options; it is required. Caller frees each with sr1_trajectory_free.
 * SR1_E_STATE: a callback of a running call of this rollout made the call. */
SR1_API sr1_status sr1_rollout_generate(sr1_rollout *rollout, const sr1_query *queries,
                                        size_t n, const sr1_rollout_options *options,
                                        sr1_trajectory **out);

/* Compute the log-probs of the policy tokens of n trajectories under the present weights
 * and the distribution that each was sampled from (temperature, top-p, top-k), without
 * gradient (specification: recompute_log_probs). out [out_len] receives them trajectory
 * by trajectory; out_len is the sum of the policy counts. SR1_E_STATE: the rollout has no
 * model. */
SR1_API sr1_status sr1_rollout_log_probs(sr1_rollout *rollout,
                                         const sr1_trajectory *const *trajectories,
                                         size_t n, float *out, size_t out_len);

/* Scores of one data source, or of all rows (data_source NULL in the report). Means over
 * rows, each of which is the mean of its answers; NaN where no row was scored; ratios in
 * [0, 1]. What the answers to a row are worth together: searchr1/ext/eval_figures.h. */
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
    int64_t excluded; /* further rows with an answer that could not be scored: a search
                         of it failed (key search_failure), the server, or what gives the
                         reward */
    double embedding; /* as the reward "embedding"; 0 without an embedder */
    double reward;    /* total of the rewards given; 0 without */
    double success;   /* share with an action that reached its goal */
    double thinking;  /* tokens of thought per row */
    /* Of rows, those that have gold answers: exact_match to rougeL and embedding are
     * means over these; NaN where there are none */
    int64_t with_answers;
    /* What searches found, whatever was answered; NaN where no row counts. hit_rate is
     * the share of answers for which a result held a gold answer, both normalised
     * (sr1_reward_normalize), over rows with gold answers, of a rollout that has a search
     * engine. recall is the share of the documents of the column gold_ids_field that were
     * hits, over rows with such ids. */
    double hit_rate;
    double recall;
    int64_t with_search;   /* rows that hit_rate is over */
    int64_t with_gold_ids; /* rows that recall is over */
} sr1_eval_scores;

typedef struct sr1_evaluation sr1_evaluation;

typedef struct sr1_eval_options {
    size_t struct_size; /* set by sr1_eval_options_init */
    int64_t max_rows;   /* 0: all */
    int32_t greedy; /* 1 by default: one answer is the likeliest; several are sampled */
    uint64_t seed;
    int32_t no_search;
    sr1_status (*progress)(void *user, int64_t finished, int64_t total,
                           int64_t tokens); /* in answers */
    void *user;
    /* Every finished trajectory in row order (borrowed for the call), all answers to a
     * row behind one another; may be NULL. */
    sr1_status (*trajectory)(void *user, const sr1_trajectory *trajectory);
    sr1_embedder *embedder;  /* for the score "embedding"; borrowed for the call; NULL:
                                that is 0 */
    sr1_reward_set *rewards; /* for the score "reward"; borrowed for the call; NULL: that
                                is 0. Rows whose reward could not be had are excluded */
    int32_t partial;         /* 1: an evaluation that progress or trajectory ends by
                                SR1_E_CANCELLED gives the scores of the rows before, with
                                SR1_OK, if there are any. Since 0.1 */
    sr1_ranks *ranks;        /* processes that share the rows (searchr1/ext/ranks.h);
                                NULL: this one alone. Each makes the same call, calls
                                trajectory with all rows and gets the scores of all; of
                                several an evaluation that ends early has no scores */
    int32_t samples;         /* answers to each row, at most 128; 0, or the
                                default 1: one */
    /* Of sampling, as in sr1_rollout_options. */
    double temperature;
    double top_p;
    int32_t top_k;
} sr1_eval_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_eval_options_init(sr1_eval_options *options);

/* Answer every row of a dataset and score the answers. Rows whose search failed are
 * counted in `excluded`; no row is dropped silently. A question longer than the key
 * max_prompt_tokens is SR1_E_LIMIT before any row is answered, or is left out and logged
 * (key filter_overlong_prompts). options may be NULL. Caller frees *out with
 * sr1_evaluation_free. */
SR1_API sr1_status sr1_evaluate(sr1_evaluation **out, sr1_rollout *rollout,
                                const sr1_dataset *dataset,
                                const sr1_eval_options *options);

/* Free an evaluation. NULL is fine. */
SR1_API void sr1_evaluation_free(sr1_evaluation *evaluation);

/* Return the number of entries: entry 0 is over all rows, then follows one entry per data
 * source, sorted by name. */
SR1_API size_t sr1_evaluation_count(const sr1_evaluation *evaluation);

/* Fill *out (struct_size set) with entry index. SR1_E_INVALID: index is out of range. */
SR1_API sr1_status sr1_evaluation_scores(const sr1_evaluation *evaluation, size_t index,
                                         sr1_eval_scores *out);

#ifdef __cplusplus
}
#endif
#endif
