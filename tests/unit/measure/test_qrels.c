/* Files of judgements: TREC's and BEIR's forms, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/search_measures.h>

static sr1_qrels *open_text(const char *text)
{
    sr1_qrels *q = NULL;

    assert_int_equal(sr1_qrels_open(&q, scratch_file("qrels", text, 0)), SR1_OK);
    return q;
}

static void check_two_queries(const sr1_qrels *q)
{
    assert_int_equal(sr1_qrels_count(q), 4);
    assert_int_equal(sr1_qrels_query_count(q), 2);
    assert_int_equal(sr1_qrels_grade(q, "q1", "d1"), 0);
    assert_int_equal(sr1_qrels_grade(q, "q1", "d2"), 2);
    assert_int_equal(sr1_qrels_grade(q, "q2", "d2"), 1);
    assert_int_equal(sr1_qrels_grade(q, "q2", "d3"), 0);
    assert_int_equal(sr1_qrels_grade(q, "q3", "d1"), 0);
}

static void trec_and_beir_say_the_same(void **state)
{
    static const char *const texts[] = {
        "q1 0 d1 0\nq1 0 d2 2\nq2 0 d1 1\nq2 0 d2 1\n",
        "q2\t0\td2\t1\r\n\r\nq1  Q0  d2  2\nq2 0 d1 1\n q1 0 d1 0", /* no end of line */
        "\xEF\xBB\xBFquery-id\tcorpus-"
        "id\tscore\nq1\td2\t2\nq1\td1\t0\nq2\td1\t1\nq2\td2\t1"
        "\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        sr1_qrels *q = open_text(texts[i]);

        check_two_queries(q);
        sr1_qrels_free(q);
    }
}

static void an_id_of_beir_may_have_spaces(void **state)
{
    sr1_qrels *q = open_text("query-id\tcorpus-id\tscore\nthe first\ta b c\t3\n");

    (void)state;
    assert_int_equal(sr1_qrels_grade(q, "the first", "a b c"), 3);
    sr1_qrels_free(q);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "it has no judgement"},
        {"\n\n", "it has no judgement"},
        {"query-id\tcorpus-id\tscore\n", "it has no judgement"},
        {"q 0 d 0\n", "no grade is above 0"},
        {"q 0 d 1\nq 0 e -1\n", "qrels:2: grade -1: grades are from 0 to 1000000"},
        {"q 0 d 1000001\n", "qrels:1: grade 1000001"},
        {"q 0 d 1.0\n", "grade '1.0' is no whole number"},
        {"q 0 d 99999999999999999999\n", "is no whole number"},
        {"q d 1\n", "qrels:1: 3 words; a judgement is QUERY 0 DOCUMENT GRADE (TREC)"},
        {"q 0 d 1 x y z\n", "5 words"},
        {"query-id\tcorpus-id\tscore\nq d 1\n",
         "qrels:2: 1 words; a judgement is QUERY, "},
        {"q 0 d 1\np 0 d 1\nq 1 d 2\n",
         "qrels:3: document 'd' of query 'q' was judged on line 1 already"},
        {"q 0 \xff 1\n", "is no text in UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        sr1_qrels *q = NULL;
        const char *path = scratch_path("qrels");

        assert_int_equal(sr1__file_replace(path, wrong[i].text, strlen(wrong[i].text)),
                         SR1_OK);
        assert_int_equal(sr1_qrels_open(&q, path), SR1_E_PARSE);
        assert_null(q);
        if (!strstr(sr1_last_error(), wrong[i].says))
            fail_msg("%s: not '%s'", sr1_last_error(), wrong[i].says);
    }
}

static void a_nul_and_a_missing_file_are_refused(void **state)
{
    sr1_qrels *q = NULL;

    (void)state;
    assert_int_equal(sr1_qrels_open(&q, scratch_file("nul", "q 0 d\0 1\n", 9)),
                     SR1_E_PARSE);
    assert_int_equal(sr1_qrels_open(&q, scratch_path("none")), SR1_E_IO);
    assert_int_equal(sr1_qrels_open(NULL, "x"), SR1_E_INVALID);
    assert_int_equal(sr1_qrels_open(&q, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_qrels_count(NULL), 0);
    assert_int_equal(sr1_qrels_query_count(NULL), 0);
    assert_int_equal(sr1_qrels_grade(NULL, "q", "d"), 0);
    sr1_qrels_free(NULL);
}

static sr1_status open_and_free(void *path)
{
    sr1_qrels *q = NULL;
    sr1_status status = sr1_qrels_open(&q, path);

    sr1_qrels_free(q);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_file("qrels", "q 0 d 1\nq 0 e 0\n", 0));
    torture(open_and_free, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trec_and_beir_say_the_same),
        cmocka_unit_test(an_id_of_beir_may_have_spaces),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(a_nul_and_a_missing_file_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
