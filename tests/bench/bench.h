/* bench.h - what the benchmark programs share: settings from words, medians, questions
 * of a given number of tokens.
 *
 * A word "bench.NAME=N" is the program's own number, any other "key=value" goes into the
 * configuration. Every program prints one JSON object a line. */
#ifndef SR1_TESTS_BENCH_H
#define SR1_TESTS_BENCH_H

#include <searchr1/searchr1.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/tokenizer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_TRY(expr)                                                                  \
    do {                                                                                 \
        sr1_status bench_st = (expr);                                                    \
        if (bench_st != SR1_OK)                                                          \
            return bench_st;                                                             \
    } while (0)

static inline double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The number of the last word "bench.NAME=...", else otherwise. */
static inline int bench_number(const char *const *words, const char *name, int otherwise)
{
    size_t n = strlen(name);

    for (; *words; words++)
        if (strncmp(*words, "bench.", 6) == 0 && strncmp(*words + 6, name, n) == 0 &&
            (*words)[6 + n] == '=')
            otherwise = atoi(*words + 6 + n + 1);
    return otherwise;
}

/* Fixed lengths and nothing to search, then the words. */
static inline sr1_status bench_config(sr1_config **out, const char *const *words)
{
    static const char *const base[] = {"device=cpu",           "environment=none",
                                       "search_engine=none",   "prompt_template=none",
                                       "chat_template=chatml", "rewards=format",
                                       "update_times=1",       "max_prompt_tokens=4096"};
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    for (size_t i = 0; i < sizeof base / sizeof *base && st == SR1_OK; i++)
        st = sr1_config_set_pair(c, base[i]);
    for (; *words && st == SR1_OK; words++)
        if (strncmp(*words, "bench.", 6) != 0)
            st = sr1_config_set_pair(c, *words);
    if (st == SR1_OK)
        *out = c;
    else
        sr1_config_free(c);
    return st;
}

static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of v[n], n at least 1; v is sorted. */
static inline double bench_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, bench_by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- a reward ---- */

/* Something that differs between the completions of a group. */
static inline sr1_status bench_score(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const int32_t *ids = sr1_trajectory_ids(t[i]);
        size_t from = sr1_trajectory_prompt_count(t[i]);

        out[i] = 0.0;
        for (size_t k = from; k < sr1_trajectory_token_count(t[i]); k++)
            out[i] += ids[k] % 97 < 10;
    }
    return SR1_OK;
}

static inline sr1_status bench_add_reward(sr1_trainer *tr)
{
    static const sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "bench", .score = bench_score};

    return sr1_trainer_add_reward(tr, &ops, NULL, 1.0);
}

/* ---- questions ---- */

#define BENCH_QUESTIONS 64
#define BENCH_TEXT 4096

struct bench_questions {
    char text[BENCH_QUESTIONS][BENCH_TEXT];
    sr1_query query[BENCH_QUESTIONS];
};

static inline sr1_status bench_prompt_tokens(const sr1_tokenizer *t, const char *text,
                                             size_t *n)
{
    const char *role = "user";
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    int32_t *ids = NULL;

    BENCH_TRY(sr1_tokenizer_chat(t, &role, &text, NULL, 1, &o, NULL, NULL, &ids, n));
    sr1_free(ids);
    return SR1_OK;
}

/* n different questions whose prompts have so many tokens under a tokenizer that gives
 * each byte one (bench_model writes such a one). */
static inline sr1_status bench_make_questions(struct bench_questions *q,
                                              const sr1_tokenizer *t, int n, int tokens)
{
    size_t least = 0;

    BENCH_TRY(bench_prompt_tokens(t, "x", &least));
    if (n < 1 || n > BENCH_QUESTIONS || tokens < (int)least ||
        tokens - (int)least + 2 > BENCH_TEXT)
        return sr1_set_error(SR1_E_INVALID, "questions: 1 to 64, prompts not so short");
    for (int i = 0; i < n; i++) {
        size_t len = (size_t)tokens - least + 1;

        for (size_t k = 0; k < len; k++)
            q->text[i][k] = (char)('a' + (k * 7 + (size_t)i * (k + 3)) % 26);
        q->text[i][len] = '\0';
        q->query[i] = (sr1_query){
            .struct_size = sizeof(sr1_query), .text = q->text[i], .text_len = len};
    }
    return SR1_OK;
}

#endif
