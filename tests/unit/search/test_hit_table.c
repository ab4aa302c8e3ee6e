/* test_hit_table.c - results as arrays say what the calls for each hit say, and outlive
 * the engine. */
#include "base/error.h"
#include "base/file.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/search_arrays.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char rows[] =
    "{\"id\": \"a\", \"contents\": \"Paris\\nThe tower of Paris\", \"year\": 1889}\n"
    "{\"id\": 7, \"contents\": \"Pisa\\nThe tower of Pisa leans\"}\n"
    "{\"id\": \"c\", \"contents\": \"Rome\\nA city\"}\n";

static const char *const queries[] = {"tower", "nothing", "Pisa tower", " ", "tower"};
#define QUERIES (sizeof(queries) / sizeof(queries[0]))

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/sr1-table-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return sr1__dir_remove(folder) != SR1_OK;
}

static sr1_search *open_engine(void)
{
    char corpus[128], index[128];
    sr1_search *e = NULL;

    snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder);
    snprintf(index, sizeof(index), "%s/index", folder);
    assert_int_equal(sr1__file_replace(corpus, rows, strlen(rows)), SR1_OK);
    assert_int_equal(sr1_bm25_build(corpus, index, NULL, NULL, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_bm25(&e, index, NULL), SR1_OK);
    return e;
}

static void compare(sr1_search_results *r)
{
    sr1_search_table t = {sizeof(t)};
    size_t at = 0;

    assert_int_equal(sr1_search_results_table(r, &t), SR1_OK);
    assert_int_equal(t.queries, QUERIES);
    for (size_t i = 0; i < t.queries; i++) {
        sr1_search_hit hit = {sizeof(hit)};

        assert_int_equal(t.status[i], sr1_search_results_status(r, i));
        for (int32_t k = 0; sr1_search_results_hit(r, i, k, &hit) == SR1_OK; k++, at++) {
            size_t d = t.hit_documents[at];

            assert_true(at < t.hits && d < t.documents);
            assert_true(t.scores[at] == hit.score);
            assert_string_equal(t.ids[d], hit.id);
            assert_string_equal(t.contents[d], hit.contents);
            assert_true((t.rows[d] == NULL) == (hit.row == NULL));
            if (hit.row != NULL)
                assert_string_equal(t.rows[d], hit.row);
        }
        assert_int_equal(t.ends[i], at);
    }
    assert_int_equal(t.hits, at);
}

static void arrays_are_what_the_calls_say(void **state)
{
    sr1_search *e = open_engine();
    sr1_search_results *r = NULL;
    sr1_search_table t = {sizeof(t)};
    sr1_search_table again = {sizeof(again)};

    (void)state;
    assert_int_equal(sr1_search_run(e, queries, QUERIES, 3, &r), SR1_OK);
    sr1_search_free(e); /* the documents stay */
    compare(r);
    assert_int_equal(sr1_search_results_table(r, &t), SR1_OK);
    assert_int_equal(t.hits, 6);
    assert_int_equal(t.documents, 2); /* of six hits */
    assert_string_equal(t.ids[t.hit_documents[2]], "7");
    assert_int_equal(sr1_search_results_table(r, &again), SR1_OK);
    assert_ptr_equal(again.scores, t.scores); /* made once */
    sr1_search_results_free(r);
}

/* sr1_search_ops.search: hits whose texts are the answer's own */
static sr1_status give_two(void *self, const char *const *asked, size_t n, int32_t top_k,
                           sr1_search_sink *sink)
{
    (void)self;
    (void)top_k;
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(sr1_search_sink_hit(sink, i, "", asked[i], 2.5));
        SR1__TRY(sr1_search_sink_hit(sink, i, "b", "B", -1));
        SR1__TRY(sr1_search_sink_row(sink, i, "{\"x\": 1}"));
    }
    return SR1_OK;
}

static void of_engines_of_the_caller_too(void **state)
{
    sr1_search_ops ops = {sizeof(ops), "two", give_two, NULL, 0};
    sr1_search *e = NULL;
    sr1_search_results *r = NULL;
    sr1_search_table t = {sizeof(t)};

    (void)state;
    assert_int_equal(sr1_search_new(&e, &ops, NULL), SR1_OK);
    assert_int_equal(sr1_search_run(e, queries, QUERIES, 3, &r), SR1_OK);
    compare(r);
    assert_int_equal(sr1_search_results_table(r, &t), SR1_OK);
    assert_null(t.rows[t.hit_documents[0]]);
    assert_string_equal(t.rows[t.hit_documents[1]], "{\"x\": 1}");
    sr1_search_results_free(r);
    assert_int_equal(sr1_search_run(e, NULL, 0, 3, &r), SR1_OK);
    assert_int_equal(sr1_search_results_table(r, &t), SR1_OK);
    assert_int_equal(t.queries + t.hits + t.documents, 0);
    assert_int_equal(sr1_search_results_table(r, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_results_table(NULL, &t), SR1_E_INVALID);
    sr1_search_results_free(r);
    sr1_search_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_what_the_calls_say),
        cmocka_unit_test(of_engines_of_the_caller_too),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
