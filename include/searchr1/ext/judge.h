/* searchr1/ext/judge.h - a language model that scores answers: any server of OpenAI's
 * API reads question, answer and ground truths, and ends its reply with "Score: N".
 *
 * Ownership: a judge is counted: sr1_judge_retain takes a reference, sr1_judge_free gives
 *            one back. Arguments are borrowed for the call unless said otherwise.
 * Errors:    outputs are untouched on failure.
 * Threads:   any number of threads may use one judge at a time.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_JUDGE_H
#define SEARCHR1_EXT_JUDGE_H

#include <searchr1/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_judge sr1_judge;

/* What several replies to one answer make together. */
enum {
    SR1_JUDGE_MEAN = 0,
    SR1_JUDGE_MAJORITY = 1 /* the score given most often; of equally many the lowest */
};

typedef struct sr1_judge_options {
    size_t struct_size;   /* set by sr1_judge_options_init */
    const char *base_url; /* what stands before /chat/completions; needed */
    const char *model;   /* NULL or "", the default: the only one that the server lists */
    const char *key_env; /* environment variable of the key; NULL or "", the default:
                            none is sent */
    const char *ca_file; /* PEM file of certificates to trust; NULL: the system's */
    double timeout_s;    /* of one attempt; default 120 */
    int32_t retries;     /* default 3 */
    int32_t concurrency; /* requests under way at once; default 32 */
    const char *prompt;  /* the rubric: {{question}}, {{answer}} and {{ground_truths}}
                            stand for these; NULL, the default: 1 for an answer that means
                            what a ground truth does, else 0 */
    double max_score;    /* the rubric's best score, which becomes 1; default 1 */
    int32_t samples;     /* replies to each answer; default 1, at most 64 */
    int32_t vote;        /* SR1_JUDGE_*; default mean */
    double temperature;  /* default 0; above 0 for several samples */
    int64_t max_tokens;  /* of one reply; default 1024 */
    const char *cache_dir; /* folder that keeps scores; NULL or "": none */
    int64_t max_requests;  /* replies asked for since opening; 0, the default: no limit */
    int64_t max_total_tokens; /* prompts and replies as the server counts; 0: no limit */
    uint64_t seed;
} sr1_judge_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_judge_options_init(sr1_judge_options *options);

/* Open a judge; options is copied. The server is asked for its models. Errors as
 * sr1_openai_new (searchr1/ext/openai.h). SR1_E_CONFIG: the prompt lacks {{answer}} or
 * names something else, or several samples are asked for at temperature 0.
 * SR1_E_INVALID: an option is out of range. Caller frees with sr1_judge_free. */
SR1_API sr1_status sr1_judge_open(sr1_judge **out, const sr1_judge_options *options);

/* Open a judge by the keys judge_* of a configuration. Caller frees with
 * sr1_judge_free. */
SR1_API sr1_status sr1_judge_open_config(sr1_judge **out, const sr1_config *config);

/* Take one more reference. Returns judge; NULL for NULL. */
SR1_API sr1_judge *sr1_judge_retain(sr1_judge *judge);

/* Drop one reference; the last one frees the judge. NULL is fine. */
SR1_API void sr1_judge_free(sr1_judge *judge);

/* One answer to score. */
typedef struct sr1_judge_item {
    size_t struct_size; /* sizeof(sr1_judge_item), the same for all of an array */
    const char *question;
    const char *answer;
    const char *const *truths; /* [n_truths] */
    size_t n_truths;           /* may be 0 */
} sr1_judge_item;

/* Score items [n] into out [n]: 0 to 1, or NaN where no reply came that has a score.
 * Answers judged before, and equal ones of a call, are not asked again. SR1_E_LIMIT: the
 * budget is spent; nothing is sent beyond it. SR1_E_CONFIG: the server refuses the key.
 */
SR1_API sr1_status sr1_judge_score(sr1_judge *judge, const sr1_judge_item *items,
                                   size_t n, double *out);

/* Since opening. */
typedef struct sr1_judge_counters {
    size_t struct_size;
    int64_t items;      /* answers scored */
    int64_t requests;   /* replies asked for */
    int64_t cached;     /* replies that the cache had */
    int64_t unreadable; /* replies without a score, or cut off before it */
    int64_t failed;     /* requests without a reply */
    int64_t unknown;    /* answers without a score */
    int64_t tokens;     /* of prompts and replies, as the server counted */
} sr1_judge_counters;

/* Fill *out (struct_size set) with the counts of the judge. */
SR1_API sr1_status sr1_judge_counters_get(const sr1_judge *judge,
                                          sr1_judge_counters *out);

#ifdef __cplusplus
}
#endif
#endif
