/* A policy over a folder of question sets: order and figures, intervals worked out by
 * hand or as published, results that are gone on with. */
#define JOERG " J\xc3\xb6rg"
#define TINY_MORE_WORDS JOERG

#include "support/tiny.h"

#include "base/file.h"
#include "policy/suite_scores.h"

#include <searchr1/ext/suite.h>

#include <math.h>

static int make(void **state)
{
    static const struct tiny_rule sure[] = {
        {"", "<search>"},        {"<search>", " tower"},
        {" tower", "</search>"}, {"</information>", "<answer>"},
        {"<answer>", " Paris"},  {" Paris", "</answer>"}};
    static const struct tiny_rule torn[] = {{"", "<answer>"},
                                            {"<answer>", " Paris"},
                                            {"<answer>", " Rome"},
                                            {" Paris", "</answer>"},
                                            {" Rome", "</answer>"}};

    static const struct tiny_rule letters[] = {
        {"", "<answer>"}, {"<answer>", JOERG}, {JOERG, "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("letters", letters, 3, 30);
    tiny_model("sure", sure, 6, 30);
    tiny_model("torn", torn, 5, 30);
    return 0;
}

/* n questions in sets/NAME: of every `every` the last is about Rome. */
static void write_set(const char *name, int n, int every)
{
    char path[64];
    FILE *f;

    OK(sr1__dir_make(scratch_path("sets")));
    snprintf(path, sizeof(path), "sets/%s", name);
    f = fopen(scratch_path(path), "w");
    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fprintf(f,
                "{\"question\": \"Where is %d of %s?\", \"golden_answers\": [\"%s\"]}\n",
                i, name, (i + 1) % every ? "Paris" : "Rome");
    assert_int_equal(fclose(f), 0);
}

static void remove_sets(void)
{
    OK(sr1__dir_remove(scratch_path("sets")));
}

static sr1_rollout *open_rollout(const char *model)
{
    sr1_config *c = tiny_config(model, "max_rows=4", NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return r;
}

static double figure(const sr1_suite *s, size_t set, const char *name, int32_t k,
                     double *low, double *high)
{
    double value = -1;

    OK(sr1_suite_figure(s, set, name, k, &value, low, high));
    return value;
}

static void sets_are_in_the_order_of_the_table(void **state)
{
    static const char *const files[] = {
        "bamboogle.jsonl", "zebra.jsonl",           "nq_test.jsonl",  "MuSiQue.jsonl",
        "a-set.jsonl",     "2WikiMultihopQA.jsonl", "trivia_qa.jsonl"};
    static const char *const order[] = {"nq_test", "trivia_qa", "2WikiMultihopQA",
                                        "MuSiQue", "bamboogle", "a-set",
                                        "zebra",   "average",   NULL};
    sr1_rollout *r = open_rollout("sure");
    sr1_suite *s = NULL;
    double low, high;

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        write_set(files[i], i ? 4 : 10, i ? 4 : 5);
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), NULL));
    assert_int_equal(sr1_suite_count(s), 7);
    for (size_t i = 0; i < 9; i++)
        assert_true(order[i] ? strcmp(order[i], sr1_suite_name(s, i)) == 0
                             : sr1_suite_name(s, i) == NULL);
    assert_int_equal(sr1_suite_rows(s, 4), 10);
    assert_int_equal(sr1_suite_rows(s, 7), 34);
    assert_int_equal(sr1_suite_excluded(s, 7), 0);
    /* 8 of 10: Wilson's interval as in Brown, Cai, DasGupta 2001's form */
    assert_true(figure(s, 4, "exact_match", 0, &low, &high) == 0.8);
    assert_float_equal(low, 0.490162, 1e-6);
    assert_float_equal(high, 0.943318, 1e-6);
    /* each set counts once: (6 * 3/4 + 8/10) / 7 */
    assert_float_equal(figure(s, 7, "exact_match", 0, &low, &high), 5.3 / 7, 1e-12);
    assert_true(low > 0.5 && low < 5.3 / 7 && high > 5.3 / 7 && high < 0.95);
    assert_true(figure(s, 0, "searches", 0, NULL, NULL) == 1);
    /* what it found says Paris; no row has gold ids */
    assert_true(figure(s, 4, "retrieval/hit_rate", 0, &low, NULL) == 0.8);
    assert_float_equal(low, 0.490162, 1e-6);
    assert_true(isnan(figure(s, 4, "retrieval/recall", 0, NULL, NULL)));
    REFUSED(sr1_suite_figure(s, 0, "pass", 2, &low, NULL, NULL), SR1_E_INVALID,
            "pass@2 of 1");
    REFUSED(sr1_suite_figure(s, 8, "f1", 0, &low, NULL, NULL), SR1_E_INVALID, "no set 8");
    REFUSED(sr1_suite_figure(s, 0, "bleu", 0, &low, NULL, NULL), SR1_E_NOT_FOUND, "bleu");
    sr1_suite_free(s);
    sr1_rollout_free(r);
    remove_sets();
}

/* A file of a Mac has "o" and a mark; the policy writes one letter. */
static void answers_are_compared_as_rewards_compare(void **state)
{
    sr1_rollout *r = open_rollout("letters");
    sr1_suite *s = NULL;

    (void)state;
    OK(sr1__dir_make(scratch_path("sets")));
    (void)scratch_file("sets/mac.jsonl",
                       "{\"question\": \"Who?\", \"golden_answers\": [\"x\", "
                       "\" Jo\xcc\x88rg\"]}\n",
                       0);
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), NULL));
    assert_true(figure(s, 0, "exact_match", 0, NULL, NULL) == 1);
    assert_true(figure(s, 0, "f1", 0, NULL, NULL) == 1);
    sr1_suite_free(s);
    sr1_rollout_free(r);
    remove_sets();
}

/* By hand, of 4 answers to each of 2 questions: 4 right and 1 right. */
static void figures_of_several_answers(void **state)
{
    char name[] = "a";
    struct sr1__suite_row rows[3] = {
        {.right = 4, .majority = 1, .f1 = 1, .done = 1, .known = 1},
        {.right = 1, .majority = 0, .f1 = 0.5, .done = 1, .known = 1},
        {.right = 2, .done = 1}}; /* one of its answers could not be had */
    struct sr1__suite_set sets[2] = {{name, rows, 3}, {name, rows, 1}};
    struct sr1__suite_value v;

    (void)state;
    OK(sr1__suite_figure(sets, 1, 4, "exact_match", 0, &v));
    assert_true(v.value == 0.625);
    assert_true(v.low == 0.25 && v.high == 1); /* resamples: .25, .625, .625, 1 */
    OK(sr1__suite_figure(sets, 1, 4, "pass", 2, &v));
    assert_true(v.value == 0.75); /* (1 + (1 - C(3,2)/C(4,2))) / 2 */
    OK(sr1__suite_figure(sets, 1, 4, "pass", 4, &v));
    assert_true(v.value == 1 && v.high == 1);
    assert_float_equal(v.low, 0.342380, 1e-6); /* no resample differs: Wilson, 2 of 2 */
    OK(sr1__suite_figure(sets, 1, 4, "tokens", 0, &v));
    assert_true(v.value == 0 && v.low == 0 && v.high == 0); /* no share of anything */
    OK(sr1__suite_figure(sets, 2, 4, "pass", 4, &v));
    assert_true(v.value == 1 && v.high == 1); /* Wilson's of both sets: 2 of 2, 1 of 1 */
    assert_float_equal(v.low, (0.342380 + 0.206549) / 2, 1e-6);
    rows[0].recall = 0.25;
    rows[1].recall = NAN; /* it has no gold ids */
    OK(sr1__suite_figure(sets, 1, 4, "retrieval/recall", 0, &v));
    assert_true(v.value == 0.25);
    OK(sr1__suite_figure(sets, 1, 4, "majority", 0, &v));
    assert_true(v.value == 0.5);
    assert_float_equal(v.low, 0.094531, 1e-6); /* Wilson, 1 of 2 */
    assert_float_equal(v.high, 0.905469, 1e-6);
    OK(sr1__suite_figure(sets, 2, 4, "f1", 0, &v));
    assert_true(v.value == 0.875 && v.low == 0.75 && v.high == 1);
    rows[0].known = rows[1].known = 0;
    OK(sr1__suite_figure(sets, 1, 4, "f1", 0, &v));
    assert_true(isnan(v.value) && isnan(v.low) && isnan(v.high));
}

struct stops {
    int64_t after, last;
};

static sr1_status stop_after(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    struct stops *s = user;

    (void)total, (void)tokens;
    s->last = finished;
    return finished > s->after ? SR1_E_CANCELLED : SR1_OK;
}

static void answers_are_counted_and_gone_on_with(void **state)
{
    struct stops stops = {.after = 100};
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 8, .seed = 3};
    double whole[2], part[2];
    sr1_rollout *r = open_rollout("torn");
    sr1_suite *s = NULL;

    (void)state;
    write_set("x.jsonl", 24, 2);
    write_set("y.jsonl", 6, 2);
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    whole[0] = figure(s, 0, "exact_match", 0, NULL, NULL);
    whole[1] = figure(s, 1, "majority", 0, NULL, NULL);
    assert_true(whole[0] > 0.3 && whole[0] < 0.7); /* a coin */
    assert_true(figure(s, 0, "pass", 8, NULL, NULL) > 0.9);
    assert_float_equal(figure(s, 0, "pass", 1, NULL, NULL), whole[0], 1e-12);
    sr1_suite_free(s);
    s = NULL;
    o.results = scratch_path("results");
    o.progress = stop_after;
    o.user = &stops;
    assert_int_equal(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o),
                     SR1_E_CANCELLED);
    stops.after = 1 << 20;
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    assert_int_equal(stops.last, 240);
    part[0] = figure(s, 0, "exact_match", 0, NULL, NULL);
    part[1] = figure(s, 1, "majority", 0, NULL, NULL);
    assert_true(part[0] == whole[0] && part[1] == whole[1]);
    sr1_suite_free(s);
    s = NULL;
    stops.after = -1; /* all is there: nothing is asked */
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    assert_true(figure(s, 0, "exact_match", 0, NULL, NULL) == whole[0]);
    sr1_suite_free(s);
    s = NULL;
    o.seed = 4;
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o), SR1_E_STATE,
            "another policy, or of other questions or options");
    sr1_rollout_free(r);
    remove_sets();
}

/* Results are of the numbers that a policy computed with, and of what it might do. */
static void results_of_another_precision_are_refused(void **state)
{
    static const char *const others[] = {"quantization=int8", "kv_cache_dtype=bfloat16",
                                         "dtype=bf16", "max_parallel_calls=2"};
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 1};
    sr1_rollout *r = open_rollout("torn");
    sr1_suite *s = NULL;

    (void)state;
    write_set("x.jsonl", 2, 2);
    o.results = scratch_path("precise");
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    sr1_suite_free(s);
    sr1_rollout_free(r);
    s = NULL;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        r = tiny_rollout(tiny_config("torn", "max_rows=4", others[i], NULL),
                         tiny_engine());
        o.results = scratch_path("precise");
        REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o), SR1_E_STATE,
                "another policy, or of other questions or options");
        sr1_rollout_free(r);
    }
    /* A default that is named is the same. */
    r = tiny_rollout(tiny_config("torn", "max_rows=4", "quantization=none", NULL),
                     tiny_engine());
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    sr1_suite_free(s);
    sr1_rollout_free(r);
    remove_sets();
}

/* Somebody's file in the folder of results stays; one whose first line a kill cut short
 * is begun again. */
static void other_files_are_no_results(void **state)
{
    static const struct {
        const char *text;
        sr1_status status;
    } files[] = {{"my notes", SR1_E_CORRUPT},
                 {"{\"mine\": 1}", SR1_E_CORRUPT},
                 {"{\"settings\":{\"que", SR1_OK}};
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 1};
    sr1_rollout *r = open_rollout("torn");
    struct sr1__buf now;

    (void)state;
    write_set("x.jsonl", 2, 2);
    o.results = scratch_path("others");
    OK(sr1__dir_make(o.results));
    for (size_t i = 0; i < 3; i++) {
        const char *path =
            scratch_file("others/x.jsonl", files[i].text, strlen(files[i].text));
        sr1_suite *s = NULL;

        assert_int_equal(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o),
                         files[i].status);
        sr1_suite_free(s);
        if (files[i].status == SR1_OK)
            continue;
        sr1__buf_init(&now, 0);
        OK(sr1__file_read(path, 1000, &now));
        assert_int_equal(now.len, strlen(files[i].text));
        assert_memory_equal(now.data, files[i].text, now.len);
        sr1__buf_free(&now);
    }
    sr1_rollout_free(r);
    remove_sets();
}

static sr1_status run_short(sr1_rollout *r, int64_t max_rows, int64_t *rows)
{
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 1};
    sr1_suite *s = NULL;
    sr1_status st;

    o.max_rows = max_rows;
    o.results = scratch_path("short");
    st = sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o);
    *rows = sr1_suite_rows(s, 0);
    sr1_suite_free(s);
    return st;
}

static void results_of_more_questions_are_kept(void **state)
{
    sr1_rollout *r = open_rollout("sure");
    int64_t rows;

    (void)state;
    write_set("x.jsonl", 9, 2);
    OK(run_short(r, 6, &rows));
    assert_int_equal(rows, 6);
    OK(run_short(r, 3, &rows));
    assert_int_equal(rows, 3);
    OK(run_short(r, 0, &rows));
    assert_int_equal(rows, 9);
    sr1_rollout_free(r);
    remove_sets();
}

/* The first one, too. */
static void long_questions_are_left_out(void **state)
{
    sr1_config *c = tiny_config("sure", "max_prompt_tokens=100",
                                "filter_overlong_prompts=true", NULL);
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 1};
    sr1_rollout *r = tiny_rollout(c, tiny_engine());
    sr1_suite *s = NULL;
    char text[2048];

    (void)state;
    snprintf(text, sizeof(text),
             "{\"question\": \"Where%*s?\", \"answer\": \"Paris\"}\n"
             "{\"question\": \"Where?\", \"answer\": \"Paris\"}\n",
             900, "it");
    OK(sr1__dir_make(scratch_path("sets")));
    OK(sr1__file_replace(scratch_path("sets/x.jsonl"), text, strlen(text)));
    o.results = scratch_path("long");
    OK(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o));
    assert_int_equal(sr1_suite_rows(s, 0), 1);
    sr1_suite_free(s);
    sr1_rollout_free(r);
    remove_sets();
}

static void what_is_wrong_is_named(void **state)
{
    sr1_suite_options o = {.struct_size = sizeof(o), .samples = 1};
    sr1_rollout *r = open_rollout("sure");
    sr1_suite *s = NULL;

    (void)state;
    OK(sr1__dir_make(scratch_path("empty")));
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("empty"), NULL), SR1_E_NOT_FOUND,
            "no set of questions");
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("nowhere"), NULL), SR1_E_IO,
            "nowhere");
    write_set("x.jsonl", 2, 2);
    o.samples = 0;
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o), SR1_E_INVALID,
            "samples");
    o.samples = 1;
    o.results = scratch_path("sets/.");
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o), SR1_E_INVALID,
            "another folder of results");
    o.results = scratch_path("bad");
    OK(sr1__dir_make(scratch_path("bad")));
    OK(sr1__file_replace(scratch_path("bad/x.jsonl"), "[]\n", 3));
    REFUSED(sr1_suite_run(&s, r, NULL, scratch_path("sets"), &o), SR1_E_STATE, "x.jsonl");
    assert_null(s);
    sr1_rollout_free(r);
    remove_sets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_in_the_order_of_the_table),
        cmocka_unit_test(answers_are_compared_as_rewards_compare),
        cmocka_unit_test(figures_of_several_answers),
        cmocka_unit_test(answers_are_counted_and_gone_on_with),
        cmocka_unit_test(results_of_another_precision_are_refused),
        cmocka_unit_test(other_files_are_no_results),
        cmocka_unit_test(results_of_more_questions_are_kept),
        cmocka_unit_test(long_questions_are_left_out),
        cmocka_unit_test(what_is_wrong_is_named),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
