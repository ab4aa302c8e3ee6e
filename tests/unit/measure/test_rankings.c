/* Measures of one ranking: trec_eval's numbers, and documents that come twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "signal/measure/ranking.h"
#include "support/files.h"

#define MOST 512

/* The judgements of a row, which qsort puts in the order that the measures need. */
static int by_document(const void *a, const void *b)
{
    const struct sr1__judgement *x = a, *y = b;

    return strcmp(x->document, y->document);
}

static size_t read_judged(const json_t *row, struct sr1__judgement *judged)
{
    const char *name;
    json_t *grade;
    size_t n = 0;

    json_object_foreach(json_object_get(row, "judged"), name, grade) judged[n++] =
        (struct sr1__judgement){.document = name,
                                .grade = (int32_t)json_integer_value(grade)};
    qsort(judged, n, sizeof(*judged), by_document);
    return n;
}

static void check_value(const json_t *row, const char *name, double got)
{
    double want = json_number_value(json_object_get(row, name));

    if (!(fabs(got - want) <= 1e-12))
        fail_msg("%s is %.17g, not %.17g", name, got, want);
}

static void check_ranking(const json_t *row)
{
    const json_t *list = json_object_get(row, "ids");
    struct sr1__judgement judged[MOST];
    const char *ids[MOST];
    struct sr1__ranking r;
    size_t n = json_array_size(list), n_judged = read_judged(row, judged);
    int32_t k = (int32_t)json_integer_value(json_object_get(row, "k"));

    for (size_t i = 0; i < n; i++)
        ids[i] = json_string_value(json_array_get(list, i));
    assert_int_equal(sr1__ranking_measure(&r, judged, n_judged, ids, n, k), SR1_OK);
    check_value(row, "recall", r.recall);
    check_value(row, "success", r.success);
    check_value(row, "reciprocal_rank", r.reciprocal_rank);
    check_value(row, "ndcg", r.ndcg);
}

static void measures_are_trec_evals(void **state)
{
    char path[4096];
    struct sr1__buf text;
    int rows = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/golden/rankings.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, (size_t)1 << 24, &text), SR1_OK);
    for (const char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, at, (size_t)(end - at), "vector"), SR1_OK);
        check_ranking(row);
        json_decref(row);
        rows++;
    }
    sr1__buf_free(&text);
    assert_int_equal(rows, 300);
}

/* The second "a" takes a rank and gives nothing. */
static void a_document_counts_once(void **state)
{
    static const struct sr1__judgement judged[] = {{.document = "a", .grade = 1},
                                                   {.document = "b", .grade = 1}};
    static const char *const ids[] = {"a", "a", "b"};
    struct sr1__ranking r;

    (void)state;
    assert_int_equal(sr1__ranking_measure(&r, judged, 2, ids, 3, 3), SR1_OK);
    assert_true(r.recall == 1 && r.success == 1 && r.reciprocal_rank == 1);
    assert_true(fabs(r.ndcg - (1 + 1 / log2(4)) / (1 + 1 / log2(3))) < 1e-12);
    assert_int_equal(sr1__ranking_measure(&r, judged, 2, ids, 3, 2), SR1_OK);
    assert_true(r.recall == 0.5);
}

static void a_query_of_a_file(void **state)
{
    static const char *const ids[] = {"x", "d"};
    sr1_search_measures m = {.struct_size = sizeof(m)};
    sr1_qrels *q = NULL;

    (void)state;
    assert_int_equal(sr1_qrels_open(&q, scratch_file("qrels", "q 0 d 1\nq 0 e 1\n", 0)),
                     SR1_OK);
    assert_int_equal(sr1_qrels_measure(q, "q", ids, 2, 5, &m), SR1_OK);
    assert_int_equal(m.judged, 1);
    assert_true(m.recall == 0.5 && m.reciprocal_rank == 0.5 && isnan(m.hit_rate));
    assert_int_equal(sr1_qrels_measure(q, "another", ids, 2, 5, &m), SR1_OK);
    assert_int_equal(m.judged, 0);
    assert_true(isnan(m.recall) && isnan(m.ndcg));
    assert_int_equal(sr1_qrels_measure(q, "q", ids, 2, 0, &m), SR1_E_INVALID);
    assert_int_equal(sr1_qrels_measure(q, "q", NULL, 2, 5, &m), SR1_E_INVALID);
    assert_int_equal(sr1_qrels_measure(q, "q", NULL, 0, 5, &m), SR1_OK);
    assert_true(m.recall == 0);
    sr1_qrels_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_are_trec_evals),
        cmocka_unit_test(a_document_counts_once),
        cmocka_unit_test(a_query_of_a_file),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
