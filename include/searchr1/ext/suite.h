/* searchr1/ext/suite.h - a policy over a folder of question sets: the table of Search-R1
 * (NQ, TriviaQA, PopQA, HotpotQA, 2WikiMultihopQA, MuSiQue, Bamboogle), or any other.
 *
 * Each question has n answers. Over the questions of a set:
 *
 *     exact_match   mean@n: mean over questions of the share of right answers
 *     f1            mean@n of F1
 *     majority      maj@n: is the answer that most of the n gave (normalised; of several
 *                   the one that was given first) right?
 *     pass@k        is one of k answers right? 1 - C(n - c, k) / C(n, k) with c right
 * ones (Chen et al. 2021)
 *
 *     retrieval/hit_rate   mean@n: does a result of a search hold a gold answer, both
 *                   normalised?
 *     retrieval/recall     mean@n, over the questions with gold ids (key gold_ids_field):
 *                   share of these that were hits
 *
 * Intervals hold 95 %: Wilson's score interval for shares of questions (majority, and
 * with one answer exact_match, pass@1 and the hit rate), else the percentiles of 1,000
 * bootstrap resamples of the questions, with a seed of their own. The average over sets
 * counts each set once, and its interval resamples each set by itself. Where no two
 * resamples differ, the scores from 0 to 1 have Wilson's interval (the average the mean
 * of its ends). A question with an answer that could not be had (a search, or the server,
 * failed) is left out and counted.
 *
 * Ownership: free a suite with sr1_suite_free; arguments are borrowed for the call.
 * Errors:    outputs are untouched on failure.
 * Threads:   as the rollout.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SUITE_H
#define SEARCHR1_EXT_SUITE_H

#include <searchr1/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_suite sr1_suite;

typedef struct sr1_suite_options {
    size_t struct_size; /* set by sr1_suite_options_init */
    int32_t samples;    /* answers to each question; default 1, at most 1024 */
    int32_t greedy;     /* default 1: one answer is the likeliest; several are sampled */
    uint64_t seed;
    int64_t max_rows;  /* questions of each set; 0, the default: all */
    int32_t no_search; /* 1: searches find nothing */
    /* A folder of results, a file a set, written as questions are answered; a call that
     * was stopped is continued by the same call, and questions that could not be answered
     * are asked again. NULL: none. SR1_E_STATE: what is there is of another policy, of
     * other questions or options; SR1_E_INVALID: it is the folder of the sets. */
    const char *results;
    /* Over all sets, in answers. A status other than SR1_OK ends the call with it. */
    sr1_status (*progress)(void *user, int64_t finished, int64_t total, int64_t tokens);
    void *user;
    sr1_ranks *ranks; /* processes that share the questions (searchr1/ext/ranks.h); NULL,
                         the default: this one alone. Each makes the same call and gets
                         the scores; the first rank writes the results */
} sr1_suite_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_suite_options_init(sr1_suite_options *options);

/* Answer every set of a folder: its files of .jsonl, .json, .csv and .tsv, those of
 * Search-R1's table first, in its order, then by name. config has the names of the fields
 * of rows (question_field, answer_field, ...); NULL: the defaults. Every row needs
 * answers. options may be NULL. Caller frees with sr1_suite_free. SR1_E_NOT_FOUND: there
 * is no such file. Errors of files as sr1_dataset_open, of answering as sr1_evaluate. */
SR1_API sr1_status sr1_suite_run(sr1_suite **out, sr1_rollout *rollout,
                                 const sr1_config *config, const char *folder,
                                 const sr1_suite_options *options);

/* Free a suite. NULL is fine. */
SR1_API void sr1_suite_free(sr1_suite *suite);

/* Return the number of sets. Where an index is asked for below, this one is the average
 * over them. */
SR1_API size_t sr1_suite_count(const sr1_suite *suite);

/* Return the name of set index, its file's without the ending; "average" of the average,
 * NULL past it. Borrowed until the suite is freed. */
SR1_API const char *sr1_suite_name(const sr1_suite *suite, size_t index);

/* Return the questions that were scored, of all sets for the average; 0 past it. */
SR1_API int64_t sr1_suite_rows(const sr1_suite *suite, size_t index);

/* Return further questions, which could not be. */
SR1_API int64_t sr1_suite_excluded(const sr1_suite *suite, size_t index);

/* Return how many answers each question has. */
SR1_API int32_t sr1_suite_samples(const sr1_suite *suite);

/* A figure of set index: "exact_match", "f1", "majority", "pass" with k from 1 to
 * sr1_suite_samples, "searches" or "tokens" (both per answer), "retrieval/hit_rate" or
 * "retrieval/recall"; k is read of "pass" alone.
 * *value with the ends *low and *high of its interval, each of which may be NULL; NaN
 * where no question was scored, or none has the figure. SR1_E_INVALID: index or k is out
 * of range. SR1_E_NOT_FOUND: there is no such figure. */
SR1_API sr1_status sr1_suite_figure(const sr1_suite *suite, size_t index,
                                    const char *figure, int32_t k, double *value,
                                    double *low, double *high);

#ifdef __cplusplus
}
#endif
#endif
