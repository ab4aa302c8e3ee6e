/* test_mock.c - the mock engine: keywords, files, lack of memory. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"

#include "search_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static sr1_search_results *run(sr1_search *e, const char *const *queries, size_t n,
                               int32_t k)
{
    sr1_search_results *r = NULL;

    assert_int_equal(sr1_search_run(e, queries, n, k, &r), SR1_OK);
    assert_int_equal(sr1_search_results_count(r), n);
    return r;
}

static const char *const keywords[] = {"Paris",
                                       ("Stra\xC3\x9F"
                                        "e"),
                                       "par"};
static const char *const information[] = {"Paris is the capital.", "A road.", "Golf."};

static void mock_finds_keywords_without_case(void **state)
{
    const char *queries[] = {"where is PARIS?", "STRASSE", "Parliament", "London", "  "};
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    sr1_search_results *r;

    (void)state;
    assert_int_equal(sr1_search_open_mock(&e, keywords, information, 3), SR1_OK);
    r = run(e, queries, 5, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sr1_search_results_hit_count(r, i), 1);
        assert_int_equal(sr1_search_results_hit(r, i, 0, &hit), SR1_OK);
        assert_string_equal(hit.contents, information[i]);
    }
    assert_string_equal(sr1_search_results_message(r, 3),
                        "No information found for: London");
    assert_string_equal(sr1_search_results_message(r, 4), "No information found");
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void mock_reads_a_file(void **state)
{
    const char *queries[] = {"the EIFFEL tower"};
    char *path = test_fixture("search/mock.json");
    char *wrong = test_fixture("search/scores.json");
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    sr1_search_results *r;

    (void)state;
    assert_int_equal(sr1_search_open_mock_file(&e, "/nonexistent.json"), SR1_E_IO);
    assert_int_equal(sr1_search_open_mock_file(&e, wrong), SR1_E_PARSE);
    assert_null(e);
    assert_int_equal(sr1_search_open_mock_file(&e, path), SR1_OK);
    r = run(e, queries, 1, 1);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.contents, "The Eiffel Tower is in Paris.");
    sr1_search_results_free(r);
    sr1_search_free(e);
    free(path);
    free(wrong);
}

static void mock_refuses_empty_keywords(void **state)
{
    const char *empty[] = {""};
    sr1_search *e = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_mock(&e, empty, information, 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_mock(&e, NULL, information, 1), SR1_E_INVALID);
    assert_null(e);
}

static void lack_of_memory_is_an_error(void **state)
{
    const char *queries[] = {"in paris", "nowhere", "in paris", " "};
    sr1_status status = SR1_E_NOMEM;
    int64_t n;

    (void)state;
    for (n = 1; status != SR1_OK; n++) {
        sr1_search *e = NULL;
        sr1_search_results *r = NULL;

        sr1__mem_fail_at(n);
        status = sr1_search_open_mock(&e, keywords, information, 3);
        if (status == SR1_OK)
            status = sr1_search_set_cache(e, 10000);
        if (status == SR1_OK)
            status = sr1_search_run(e, queries, 4, 2, &r);
        if (status == SR1_OK && sr1__mem_count() >= n)
            status = SR1_E_NOMEM; /* only the cache went without */
        sr1__mem_fail_at(0);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
        sr1_search_results_free(r);
        sr1_search_free(e);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mock_finds_keywords_without_case),
        cmocka_unit_test(mock_reads_a_file),
        cmocka_unit_test(mock_refuses_empty_keywords),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
