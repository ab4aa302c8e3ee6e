/* BM25 on real questions, with documents: one batch of all questions, one thread, each
 * found document's text read; what peers/bm25s_questions.py measures, from C.
 * usage: bench_questions INDEX QUESTIONS [ROUNDS]   (JSON lines with "question")
 * By processor time: the first round of an engine just opened, whose documents are all
 * cold, the best and the median of the others, and the best of ranking alone. */
#include "processor_time.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/bm25.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_K_MAX 10
#define ROUNDS_MAX 1000

struct questions {
    const char **text;
    size_t n;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static sr1_status read_questions(const char *path, struct questions *out)
{
    struct sr1__buf b;
    char *rest;

    SR1__TRY(sr1__file_read(path, 0, &b));
    out->text = calloc(b.len + 1, sizeof(*out->text));
    for (char *line = strtok_r(b.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        SR1__TRY(sr1__json_parse(&row, line, strlen(line), path));
        out->text[out->n++] =
            sr1__strdup(json_string_value(json_object_get(row, "question")));
        json_decref(row);
    }
    sr1__buf_free(&b);
    return SR1_OK;
}

static size_t read_all_texts(const sr1_search_results *r)
{
    size_t bytes = 0;

    for (size_t i = 0; i < sr1_search_results_count(r); i++) {
        sr1_search_hit hit = {sizeof(hit)};

        for (int32_t k = 0; sr1_search_results_hit_count(r, i) > k; k++)
            if (sr1_search_results_hit(r, i, k, &hit) == SR1_OK)
                bytes += strlen(hit.contents);
    }
    return bytes;
}

static sr1_status ask(sr1_search *e, const struct questions *q, int32_t k,
                      double *seconds)
{
    sr1_search_results *r = NULL;
    double begun = processor_seconds();

    SR1__TRY(sr1_search_run(e, q->text, q->n, k, &r));
    if (read_all_texts(r) == 0)
        return sr1__fail(SR1_E_INVALID, "no question finds anything");
    sr1_search_results_free(r);
    *seconds = processor_seconds() - begun;
    return SR1_OK;
}

static sr1_status rank(sr1_search *e, const struct questions *q, int32_t k,
                       double *seconds)
{
    double scores[TOP_K_MAX];
    uint32_t docs[TOP_K_MAX];
    double begun = processor_seconds();

    for (size_t i = 0; i < q->n; i++) {
        int32_t found = 0;

        SR1__TRY(sr1__bm25_numbers(e, q->text[i], k, docs, scores, &found));
    }
    *seconds = processor_seconds() - begun;
    return SR1_OK;
}

static sr1_status measure(const char *index, const struct questions *q, int32_t k,
                          int rounds)
{
    static double asked[ROUNDS_MAX], ranked[ROUNDS_MAX];
    sr1_search *e = NULL;
    double n = (double)q->n;
    double first;

    SR1__TRY(sr1_search_open_bm25(&e, index, NULL));
    SR1__TRY(ask(e, q, k, &first));
    for (int i = 0; i < rounds; i++) {
        SR1__TRY(ask(e, q, k, &asked[i]));
        SR1__TRY(rank(e, q, k, &ranked[i]));
    }
    sr1_search_free(e);
    qsort(asked, (size_t)rounds, sizeof(*asked), by_size);
    qsort(ranked, (size_t)rounds, sizeof(*ranked), by_size);
    printf(
        "{\"what\": \"search\", \"event\": \"questions\", \"who\": \"here, C\", \"k\": "
        "%d, \"questions\": %zu, \"first_queries_s\": %.0f, \"best_queries_s\": %.0f, "
        "\"median_queries_s\": %.0f, \"ranking_queries_s\": %.0f}\n",
        (int)k, q->n, n / first, n / asked[0], n / asked[rounds / 2], n / ranked[0]);
    return SR1_OK;
}

int main(int argc, char **argv)
{
    struct questions q = {0};
    int rounds = argc > 3 ? atoi(argv[3]) : 6;
    sr1_status status = SR1_E_INVALID;

    if (argc < 3 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_questions INDEX QUESTIONS [ROUNDS]\n");
        return 2;
    }
    status = read_questions(argv[2], &q);
    for (int32_t k = TOP_K_MAX; k >= 3 && status == SR1_OK; k -= 7)
        status = measure(argv[1], &q, k, rounds);
    if (status != SR1_OK)
        fprintf(stderr, "bench_questions: %s\n", sr1_last_error());
    return status != SR1_OK;
}
