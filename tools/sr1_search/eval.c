/* sr1_search/eval.c - `sr1-search eval`: how good an index or a service is on questions.
 */
#include "sr1_search/commands.h"

#include "common/policy.h"
#include "common/progress.h"
#include "common/table.h"

#include <searchr1/ext/config_names.h>
#include <searchr1/ext/search_measures.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVAL_TOP_K 10

/* What is printed of the measures. */
struct measure_line {
    const char *name; /* in JSON */
    const char *title;
    double value;
    int64_t questions; /* it is the mean over */
};
#define MEASURES 5

static void list_measures(const sr1_search_measures *m,
                          struct measure_line lines[MEASURES])
{
    lines[0] = (struct measure_line){"recall", "recall", m->recall, m->judged};
    lines[1] = (struct measure_line){"success", "success", m->success, m->judged};
    lines[2] =
        (struct measure_line){"reciprocal_rank", "MRR", m->reciprocal_rank, m->judged};
    lines[3] = (struct measure_line){"ndcg", "nDCG", m->ndcg, m->judged};
    lines[4] =
        (struct measure_line){"hit_rate", "hit rate", m->hit_rate, m->with_answers};
}

/* ---- printing ---- */

static int print_measures_table(const struct measure_line lines[MEASURES], int64_t top_k)
{
    static const struct table_column columns[] = {{"measure", TABLE_LEFT, 0},
                                                  {"value", TABLE_RIGHT, 0},
                                                  {"questions", TABLE_RIGHT, 0}};
    struct table t;

    table_begin(&t, columns, 3);
    for (size_t i = 0; i < MEASURES; i++) {
        char title[40], value[32] = "-", questions[24];
        const char *cells[] = {title, value, questions};

        snprintf(title, sizeof(title), "%s@%lld", lines[i].title, (long long)top_k);
        if (isfinite(lines[i].value))
            snprintf(value, sizeof(value), "%.4f", lines[i].value);
        snprintf(questions, sizeof(questions), "%lld", (long long)lines[i].questions);
        table_row(&t, cells);
    }
    if (table_end(&t, stdout) == 0)
        return TOOL_OK;
    fprintf(stderr, "sr1-search: out of memory\n");
    return TOOL_FAILED;
}

static int print_measures_json(const sr1_search_measures *m,
                               const struct measure_line lines[MEASURES], int64_t top_k)
{
    printf("{\"top_k\": %lld, \"questions\": %lld, \"failed\": %lld, \"judged\": %lld, "
           "\"with_answers\": %lld",
           (long long)top_k, (long long)m->questions, (long long)m->failed,
           (long long)m->judged, (long long)m->with_answers);
    for (size_t i = 0; i < MEASURES; i++) {
        char value[32] = "null";

        if (isfinite(lines[i].value))
            snprintf(value, sizeof(value), "%.6f", lines[i].value);
        printf(", \"%s\": %s", lines[i].name, value);
    }
    if (isfinite(m->hits))
        printf(", \"hits\": %.6f}\n", m->hits);
    else
        printf(", \"hits\": null}\n");
    return TOOL_OK;
}

/* What a reader of the figures should know. */
static void print_eval_notes(const struct request *r, const sr1_search_measures *m)
{
    if (m->judged > 0 && m->success == 0)
        fprintf(stderr,
                "sr1-search: no relevant document was found for any question; are the "
                "ids of %s those of the index?\n",
                r->qrels != NULL ? r->qrels : "the rows");
    if (m->failed > 0)
        fprintf(stderr,
                "sr1-search: %lld question%s could not be searched for, and %s in no "
                "figure; see to it and run it again\n",
                (long long)m->failed, plural_ending(m->failed, "s"),
                m->failed == 1 ? "is" : "are");
}

static int print_measures(const struct request *r, const sr1_search_measures *m)
{
    struct measure_line lines[MEASURES];
    int code;

    list_measures(m, lines);
    code = r->json ? print_measures_json(m, lines, r->top_k)
                   : print_measures_table(lines, r->top_k);
    print_eval_notes(r, m);
    return code == TOOL_OK && m->failed > 0 ? TOOL_FAILED : code;
}

/* ---- measuring ---- */

static sr1_status show_measure_progress(void *user, int64_t done, int64_t total)
{
    progress_show(user, (double)done, (double)total, NULL);
    return SR1_OK;
}

static sr1_status measure_engine(const struct request *r, sr1_search *engine,
                                 const sr1_dataset *questions, const sr1_config *fields,
                                 sr1_search_measures *out)
{
    struct progress bar;
    sr1_search_measure_options o;
    sr1_qrels *qrels = NULL;
    sr1_status status = SR1_OK;

    sr1_search_measure_options_init(&o);
    progress_begin(&bar, "searching", "questions", 1);
    o.top_k = (int32_t)r->top_k;
    o.progress = show_measure_progress;
    o.user = &bar;
    if (r->qrels != NULL)
        status = sr1_qrels_open(&qrels, r->qrels);
    o.qrels = qrels;
    if (status == SR1_OK)
        status = sr1_config_get_str(fields, "gold_ids_field", &o.gold_ids_field);
    if (status == SR1_OK)
        status = sr1_search_measure(engine, questions, &o, out);
    progress_clear(&bar);
    sr1_qrels_free(qrels);
    return status;
}

/* fields: the configuration that names the questions' columns. */
static int eval_request(const struct request *r, const char *index, const char *path,
                        const sr1_config *fields)
{
    sr1_search_measures m = {.struct_size = sizeof(m)};
    sr1_search *engine = NULL;
    sr1_reranker *reranker = NULL;
    sr1_dataset *questions = NULL;
    sr1_status status = policy_questions(&questions, fields, path);

    if (status == SR1_OK)
        status = open_reranker(&reranker, r);
    if (status == SR1_OK)
        status = open_engine(&engine, r, reranker, index);
    if (status == SR1_OK && r->loaded == NULL)
        status = sr1_search_set_threads(engine, (int32_t)r->threads);
    if (status == SR1_OK)
        status = measure_engine(r, engine, questions, fields, &m);
    sr1_search_free(engine);
    sr1_reranker_free(reranker);
    sr1_dataset_free(questions);
    return status == SR1_OK ? print_measures(r, &m) : tool_refused("sr1-search", status);
}

/* ---- the command line ---- */

/* Words KEY=VALUE go to pairs, the others to words; both have room for n. */
static size_t split_words(const char *const *rest, size_t n, const char **words,
                          const char **pairs, size_t *n_pairs)
{
    size_t n_words = 0;

    *n_pairs = 0;
    for (size_t i = 0; i < n; i++)
        if (is_pair(rest[i]))
            pairs[(*n_pairs)++] = rest[i];
        else
            words[n_words++] = rest[i];
    return n_words;
}

/* Without --config keys name columns of the questions, and nothing else reads them. */
static int check_field_pairs(const struct args *a, const struct request *r,
                             const char *const *pairs, size_t n)
{
    for (size_t i = 0; r->config == NULL && i < n; i++) {
        size_t length = strcspn(pairs[i], "=");

        if (length < 6 || strncmp(pairs[i] + length - 6, "_field", 6) != 0)
            return args_wrong(a,
                              "%.*s does nothing without --config; the columns of the "
                              "questions are named by question_field=..., "
                              "answer_field=..., id_field=..., gold_ids_field=...",
                              (int)length, pairs[i]);
    }
    return -1;
}

/* The configuration that names the columns: --config's, or one of the pairs alone. Rows
 * without answers are fine. */
static sr1_status load_fields(sr1_config **out, struct request *r, const struct args *a,
                              const char *const *pairs, size_t n)
{
    sr1_status status = load_request_config(out, r, a, pairs, n);

    if (status == SR1_OK && *out == NULL) {
        status = sr1_config_new(out);
        for (size_t i = 0; status == SR1_OK && i < n; i++)
            status = sr1_config_set_pair(*out, pairs[i]);
    }
    return status == SR1_OK ? sr1_config_set(*out, "answers_optional", "true") : status;
}

static int eval_words(const struct args *a, const struct request *r,
                      const char *const *words, size_t n, const char *const *pairs,
                      size_t n_pairs)
{
    struct request asked = *r;
    sr1_config *fields = NULL;
    sr1_status status;
    int code = check_engine_options(a, r);

    if (code < 0)
        code = check_field_pairs(a, r, pairs, n_pairs);
    if (code >= 0)
        return code;
    if (n != 1 + (size_t)has_index(r))
        return args_wrong(a, "eval needs %s: sr1-search eval %s%s%s QUESTIONS",
                          has_index(r) ? "an index and a file of questions"
                                       : "a file of questions",
                          has_index(r) ? "INDEX" : service_option(r),
                          has_index(r) ? "" : " ", has_index(r) ? "" : service_value(r));
    asked.probe = 1;
    if (!args_is_given(a, "--top-k"))
        asked.top_k = EVAL_TOP_K;
    status = load_fields(&fields, &asked, a, pairs, n_pairs);
    code = status == SR1_OK ? eval_request(&asked, has_index(r) ? words[0] : NULL,
                                           words[n - 1], fields)
                            : tool_refused("sr1-search", status);
    sr1_config_free(fields);
    return code;
}

int run_eval(const struct args *a, const struct request *r, const char *const *rest,
             size_t n)
{
    const char **split = calloc(2 * n + 1, sizeof(*split));
    size_t n_words, n_pairs;
    int code;

    if (split == NULL) {
        fprintf(stderr, "sr1-search: out of memory\n");
        return TOOL_FAILED;
    }
    n_words = split_words(rest, n, split, split + n, &n_pairs);
    code = eval_words(a, r, split, n_words, split + n, n_pairs);
    free((void *)split);
    return code;
}
