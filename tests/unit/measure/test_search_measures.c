/* An engine asked the questions of a dataset: means worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
#include "support/files.h"
#include "support/torture.h"
#include "unit/search/search_files.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/search_measures.h>

/* Each word of a query is the id of a hit, its text "The WORD, once."; "fail" fails it,
 * and "bare" has no id. */
static sr1_status search_words(void *self, const char *const *queries, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    int64_t *asked = self;

    (void)top_k;
    *asked += (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        char words[256], text[300], *rest = NULL;
        sr1_status st = SR1_OK;

        if (strstr(queries[i], "fail"))
            return sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, "it is down");
        snprintf(words, sizeof(words), "%s", queries[i]);
        for (char *w = strtok_r(words, " ", &rest); w && st == SR1_OK;
             w = strtok_r(NULL, " ", &rest)) {
            snprintf(text, sizeof(text), "The %s, once.", w);
            st = sr1_search_sink_hit(sink, i, strcmp(w, "bare") == 0 ? "" : w, text, 1);
        }
        if (st != SR1_OK)
            return st;
    }
    return SR1_OK;
}

static sr1_search *open_words(int64_t *asked)
{
    const sr1_search_ops ops = {
        .struct_size = sizeof(ops), .name = "words", .search = search_words};
    sr1_search *engine = NULL;

    assert_int_equal(sr1_search_new(&engine, &ops, asked), SR1_OK);
    return engine;
}

static sr1_dataset *open_questions(const char *rows)
{
    sr1_dataset_options o;
    sr1_dataset *d = NULL;
    const char *path = scratch_file("questions.jsonl", rows, 0);

    sr1_dataset_options_init(&o);
    o.answers_optional = 1;
    assert_int_equal(sr1_dataset_open(&d, &path, 1, &o), SR1_OK);
    return d;
}

/* The measures of rows by judgements (NULL: none but those of the rows). */
static sr1_status measure_rows(const char *rows, const char *judgements, int32_t top_k,
                               sr1_search_measures *out, int64_t *asked)
{
    sr1_search *engine = open_words(asked);
    sr1_dataset *d = open_questions(rows);
    sr1_search_measure_options o;
    sr1_qrels *q = NULL;
    sr1_status status;

    if (judgements)
        assert_int_equal(sr1_qrels_open(&q, scratch_file("qrels", judgements, 0)),
                         SR1_OK);
    sr1_search_measure_options_init(&o);
    o.top_k = top_k;
    o.qrels = q;
    status = sr1_search_measure(engine, d, &o, out);
    sr1_qrels_free(q);
    sr1_dataset_free(d);
    sr1_search_free(engine);
    return status;
}

/* Of q1 both documents come, at 1 and 3; of q2 none; q3 is neither judged nor answered
 * and is not asked. */
static void means_are_over_judged_questions(void **state)
{
    sr1_search_measures m = {.struct_size = sizeof(m)};
    int64_t asked = 0;

    (void)state;
    assert_int_equal(measure_rows("{\"_id\": \"q1\", \"text\": \"a b c\"}\n"
                                  "{\"_id\": \"q2\", \"text\": \"a b\"}\n"
                                  "{\"_id\": \"q3\", \"text\": \"c\"}\n",
                                  "q1 0 a 1\nq1 0 c 2\nq2 0 z 1\n", 3, &m, &asked),
                     SR1_OK);
    assert_int_equal(asked, 2);
    assert_true(m.questions == 2 && m.judged == 2 && m.failed == 0);
    assert_true(m.recall == 0.5 && m.success == 0.5 && m.reciprocal_rank == 0.5);
    assert_true(fabs(m.ndcg - (1 + 2 / 2.0) / (2 + 1 / log2(3)) / 2) < 1e-12);
    assert_true(m.with_answers == 0 && isnan(m.hit_rate) && m.hits == 2.5);
}

/* Case, punctuation and articles do not count; an answer that is an article alone stands
 * nowhere. */
static void answers_are_looked_for_as_rewards_compare(void **state)
{
    sr1_search_measures m = {.struct_size = sizeof(m)};
    int64_t asked = 0;

    (void)state;
    assert_int_equal(
        measure_rows(
            "{\"question\": \"x rome\", \"golden_answers\": [\"The ROME!\"]}\n"
            "{\"question\": \"x y\", \"golden_answers\": [\"The\"]}\n"
            "{\"question\": \"x y z\", \"golden_answers\": [\"q\", \"z once\"]}\n"
            "{\"question\": \"x\"}\n",
            NULL, 2, &m, &asked),
        SR1_OK);
    assert_true(m.questions == 3 && m.with_answers == 3 && m.judged == 0);
    assert_true(fabs(m.hit_rate - 1 / 3.0) < 1e-12 && isnan(m.recall));
    assert_int_equal(
        measure_rows("{\"question\": \"x y z\", \"golden_answers\": [\"z once\"]}\n",
                     NULL, 3, &m, &asked),
        SR1_OK);
    assert_true(m.hit_rate == 1);
}

static void gold_ids_of_rows_are_judgements(void **state)
{
    static const char *const forms[] = {
        "[\"a\", \"d\", \"a\"]",
        "\"a\"",
        "[[\"a\", 0], [\"a\", 3], [\"d\", 1]]",
        "[{\"id\": \"d\"}, {\"title\": \"a\"}]",
        "{\"title\": [\"a\", \"d\"], \"sent_id\": [0, 1]}",
        "\"['a', 'd']\""};
    int64_t asked = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        sr1_search_measures m = {.struct_size = sizeof(m)};
        char row[256];

        snprintf(row, sizeof(row), "{\"question\": \"a b\", \"gold_ids\": %s}\n",
                 forms[i]);
        assert_int_equal(measure_rows(row, NULL, 2, &m, &asked), SR1_OK);
        assert_true(m.judged == 1 && m.recall == (i == 1 ? 1 : 0.5));
    }
    {
        sr1_search_measures m = {.struct_size = sizeof(m), .recall = 7};

        assert_int_equal(measure_rows("{\"question\": \"a\", \"gold_ids\": [[]]}\n", NULL,
                                      2, &m, &asked),
                         SR1_E_PARSE);
        assert_non_null(strstr(sr1_last_error(), "field 'gold_ids' has no ids"));
        assert_true(m.recall == 7);
    }
}

static void a_failed_search_is_in_no_mean(void **state)
{
    sr1_search_measures m = {.struct_size = sizeof(m)};
    int64_t asked = 0;

    (void)state;
    assert_int_equal(measure_rows("{\"question\": \"b\", \"golden_answers\": \"b\"}\n"
                                  "{\"question\": \"fail\", \"golden_answers\": \"b\"}\n",
                                  NULL, 2, &m, &asked),
                     SR1_OK);
    assert_true(m.questions == 1 && m.failed == 1 && m.hit_rate == 1);
}

static void unknown_ids_are_refused(void **state)
{
    static const struct {
        const char *rows, *judgements, *says;
    } wrong[] = {
        {"{\"id\": \"1\", \"question\": \"a\"}\n", "1 0 a 1\n2 0 a 1\n",
         "qrels:2: query '2' is none of the questions"},
        {"{\"id\": \"1\", \"question\": \"a\"}\n{\"id\": 1, \"question\": \"b\"}\n",
         "1 0 a 1\n", "two questions have the id '1'"},
        {"{\"id\": \"1\", \"question\": \"a\"}\n", NULL,
         "no question has an answer or a judged document"},
        {"{\"id\": \"1\", \"question\": \"a bare\"}\n", "1 0 a 1\n",
         "words gives no ids of documents"},
    };
    int64_t asked = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        sr1_search_measures m = {.struct_size = sizeof(m), .recall = 7};

        assert_int_equal(measure_rows(wrong[i].rows, wrong[i].judgements, 5, &m, &asked),
                         SR1_E_INVALID);
        if (!strstr(sr1_last_error(), wrong[i].says))
            fail_msg("%s: not '%s'", sr1_last_error(), wrong[i].says);
        assert_true(m.recall == 7);
    }
}

static sr1_status end_it(void *user, int64_t done, int64_t total)
{
    int64_t *calls = user;

    assert_true(done <= total);
    ++*calls;
    return sr1_set_error(SR1_E_CANCELLED, "enough");
}

static void batches_report_and_end(void **state)
{
    sr1_search_measures m = {.struct_size = sizeof(m)};
    sr1_search_measure_options o;
    int64_t asked = 0, calls = 0;
    sr1_search *engine = open_words(&asked);
    static char rows[600 * 64];
    sr1_dataset *d;

    (void)state;
    for (int i = 0; i < 600; i++)
        snprintf(rows + strlen(rows), 64,
                 "{\"question\": \"q%d\", \"golden_answers\": \"q%d\"}\n", i, i / 2 * 2);
    d = open_questions(rows);
    sr1_search_measure_options_init(&o);
    assert_int_equal(o.top_k, 10);
    assert_int_equal(sr1_search_measure(engine, d, NULL, &m), SR1_OK);
    assert_true(asked == 600 && m.questions == 600 && m.hit_rate == 0.5);
    o.progress = end_it;
    o.user = &calls;
    assert_int_equal(sr1_search_measure(engine, d, &o, &m), SR1_E_CANCELLED);
    assert_int_equal(calls, 1);
    o.top_k = SR1_SEARCH_TOP_K_MAX + 1;
    assert_int_equal(sr1_search_measure(engine, d, &o, &m), SR1_E_INVALID);
    assert_int_equal(sr1_search_measure(NULL, d, NULL, &m), SR1_E_INVALID);
    assert_int_equal(sr1_search_measure(engine, d, NULL, NULL), SR1_E_INVALID);
    sr1_dataset_free(d);
    sr1_search_free(engine);
}

/* "ID<tab>TEXT" a line as questions of BEIR's form. */
static sr1_dataset *open_topics(const char *topics)
{
    FILE *in = fopen(topics, "r"), *out = fopen(scratch_path("topics.jsonl"), "w");
    const char *path = scratch_path("topics.jsonl");
    char line[4096], *text;
    sr1_dataset_options o;
    sr1_dataset *d = NULL;

    assert_true(in && out);
    while (fgets(line, sizeof(line), in) && (text = strchr(line, '\t'))) {
        json_t *row;

        *text++ = '\0';
        text[strcspn(text, "\n")] = '\0';
        row = json_pack("{s:s, s:s}", "_id", line, "text", text);
        assert_int_equal(json_dumpf(row, out, 0), 0);
        fputc('\n', out);
        json_decref(row);
    }
    assert_true(fclose(in) == 0 && fclose(out) == 0);
    sr1_dataset_options_init(&o);
    o.answers_optional = 1;
    assert_int_equal(sr1_dataset_open(&d, &path, 1, &o), SR1_OK);
    return d;
}

/* BEIR's SciFact by BM25: the figures of pytrec_eval on the same run. */
static void scifact_is_measured_as_by_trec_eval(void **state)
{
    char *corpus = test_shared("scifact/corpus.jsonl");
    char *topics = test_shared("scifact/topics.test.tsv");
    char *judged = test_shared("scifact/qrels.test.txt");
    sr1_search_measures m = {.struct_size = sizeof(m)};
    sr1_search_measure_options o;
    sr1_search *engine = NULL;
    sr1_dataset *d;
    sr1_qrels *q = NULL;

    (void)state;
    if (!corpus)
        skip();
    assert_int_equal(
        sr1_bm25_build(corpus, scratch_path("scifact.bm25"), NULL, NULL, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_bm25(&engine, scratch_path("scifact.bm25"), NULL),
                     SR1_OK);
    assert_int_equal(sr1_qrels_open(&q, judged), SR1_OK);
    d = open_topics(topics);
    sr1_search_measure_options_init(&o);
    o.qrels = q;
    assert_int_equal(sr1_search_measure(engine, d, &o, &m), SR1_OK);
    assert_true(m.judged == 300 && m.failed == 0);
    assert_float_equal(m.recall, 0.803833, 1e-6);
    assert_float_equal(m.success, 0.823333, 1e-6);
    assert_float_equal(m.reciprocal_rank, 0.645659, 1e-6);
    assert_float_equal(m.ndcg, 0.678909, 1e-6);
    sr1_dataset_free(d);
    sr1_qrels_free(q);
    sr1_search_free(engine);
    free(corpus);
    free(topics);
    free(judged);
}

struct torn {
    sr1_search *engine;
    sr1_dataset *d;
    sr1_qrels *q;
};

static sr1_status measure_once(void *arg)
{
    const struct torn *t = arg;
    sr1_search_measures m = {.struct_size = sizeof(m)};
    sr1_search_measure_options o;

    sr1_search_measure_options_init(&o);
    o.qrels = t->q;
    SR1__TRY(sr1_search_measure(t->engine, t->d, &o, &m));
    o.qrels = NULL;
    return sr1_search_measure(t->engine, t->d, &o, &m);
}

static void any_allocation_may_fail(void **state)
{
    int64_t asked = 0;
    struct torn t = {.engine = open_words(&asked),
                     .d = open_questions("{\"id\": \"1\", \"question\": \"a b\", "
                                         "\"gold_ids\": [\"b\", \"c\"], "
                                         "\"golden_answers\": [\"c\", \"b\"]}\n")};

    (void)state;
    assert_int_equal(sr1_qrels_open(&t.q, scratch_file("qrels", "1 0 a 1\n", 0)), SR1_OK);
    torture(measure_once, &t);
    sr1_qrels_free(t.q);
    sr1_dataset_free(t.d);
    sr1_search_free(t.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_over_judged_questions),
        cmocka_unit_test(answers_are_looked_for_as_rewards_compare),
        cmocka_unit_test(gold_ids_of_rows_are_judgements),
        cmocka_unit_test(a_failed_search_is_in_no_mean),
        cmocka_unit_test(unknown_ids_are_refused),
        cmocka_unit_test(batches_report_and_end),
        cmocka_unit_test(scifact_is_measured_as_by_trec_eval),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
