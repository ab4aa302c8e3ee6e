/* Problems: a reader for each shape, on rows of the public sets (MBPP, HumanEval: real
 * ones, from the shared data where it is) and made rows of the other shapes, whose
 * members are those of the published sets. */
#include "base/buf.h"
#include "base/clock.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/code.h>

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static sr1_problems *parse_with(const char *text, const sr1_problems_options *o)
{
    sr1_problems *set = NULL;

    if (sr1_problems_parse(&set, text, strlen(text), "rows", o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return set;
}

static sr1_problems *parse(const char *text)
{
    return parse_with(text, NULL);
}

static void refused(const char *text, sr1_status status, const char *says)
{
    sr1_problems *set = NULL;

    assert_int_equal(sr1_problems_parse(&set, text, strlen(text), "rows", NULL), status);
    assert_null(set);
    if (strstr(sr1_last_error(), says) == NULL)
        fail_msg("'%s' is not in: %s", says, sr1_last_error());
}

static void test_is(const sr1_problem *p, size_t i, const char *input,
                    const char *expected)
{
    sr1_problem_case c = {sizeof(c)};

    assert_int_equal(sr1_problem_test(p, i, &c), SR1_OK);
    assert_string_equal(c.input, input);
    assert_string_equal(c.expected, expected);
    assert_int_equal(c.input_len, strlen(input));
    assert_int_equal(c.expected_len, strlen(expected));
}

static void prompt_has(const sr1_problem *p, const char *words, int yes)
{
    char *prompt = NULL;

    assert_int_equal(sr1_problem_prompt(p, &prompt), SR1_OK);
    if ((strstr(prompt, words) != NULL) != yes)
        fail_msg("'%s' is%s in: %s", words, yes ? " not" : "", prompt);
    sr1_free(prompt);
}

/* ---- plain ---- */

static void plain_rows_are_read(void **state)
{
    sr1_problems *set = parse(
        "{\"id\": \"a\", \"question\": \"Criticise!\", \"problem\": \"Add.\", "
        "\"solution\": "
        "\"def f(): 0\", \"tests\": [\"assert add(1, 2) == 3\", \"assert add(0, 0) == "
        "0\"], "
        "\"reference\": \"def add(a, b):\\n    return a + b\", \"time_limit\": 2.5}\n\n"
        "{\"id\": 7, \"question\": \"Double.\", \"data_source\": \"made\", \"tests\": "
        "[{\"stdin\": \"2\\n\", \"stdout\": \"4\\n\"}, {\"input\": {\"stdin\": \"3\"}, "
        "\"output\": {\"stdout\": \"6\"}}]}\n"
        "{\"id\": \"c\", \"question\": \"Sum.\", \"entry_point\": \"total\", \"tests\": "
        "[{\"args\": [[1, 2.5]], \"expected\": 3.5}]}");
    const sr1_problem *a = sr1_problems_find(set, "a");
    const sr1_problem *b = sr1_problems_find(set, "7");
    const sr1_problem *c = sr1_problems_at(set, 2);

    (void)state;
    assert_int_equal(sr1_problems_count(set), 3);
    assert_ptr_equal(a, sr1_problems_at(set, 0));
    assert_null(sr1_problems_at(set, 3));
    assert_null(sr1_problems_find(set, "b"));
    assert_null(sr1_problems_find(set, NULL));
    assert_string_equal(sr1_problem_text(a), "Add.");
    assert_string_equal(sr1_problem_solution(a), "def f(): 0");
    assert_string_equal(sr1_problem_entry_point(a), "add");
    assert_string_equal(sr1_problem_data_source(a), "plain");
    assert_int_equal(sr1_problem_style(a), SR1_CODE_ASSERT);
    assert_int_equal(sr1_problem_test_count(a), 2);
    assert_true(fabs(sr1_problem_time_limit(a) - (2.5)) <= 0);
    test_is(a, 1, "assert add(0, 0) == 0", "");
    assert_string_equal(sr1_problem_id(b), "7");
    assert_int_equal(sr1_problem_style(b), SR1_CODE_STDIO);
    assert_true(fabs(sr1_problem_time_limit(b) - (10)) <= 0);
    assert_string_equal(sr1_problem_data_source(b), "made");
    assert_null(sr1_problem_solution(b));
    assert_null(sr1_problem_reference(b));
    test_is(b, 0, "2\n", "4\n");
    test_is(b, 1, "3", "6");
    assert_int_equal(sr1_problem_style(c), SR1_CODE_CALL);
    test_is(c, 0, "[[1,2.5]]", "3.5");
    sr1_problems_free(set);
}

static void prompts_ask_for_what_is_tested(void **state)
{
    sr1_problems *set = parse(
        "{\"id\": 1, \"problem\": \"Add.\", \"tests\": [\"assert add(1, 2) == 3\"]}\n"
        "{\"id\": 2, \"problem\": \"Write add.\", \"entry_point\": \"add\", \"tests\": "
        "[\"assert add(1, 2) == 3\"]}\n"
        "{\"id\": 3, \"problem\": \"Double.\", \"tests\": [{\"stdin\": \"2\", "
        "\"stdout\": "
        "\"4\"}]}\n"
        "{\"id\": 4, \"problem\": \"Sum.\", \"entry_point\": \"total\", \"tests\": "
        "[{\"args\": [1], \"expected\": 1}]}");

    (void)state;
    prompt_has(sr1_problems_at(set, 0), "assert add(1, 2) == 3", 1);
    prompt_has(sr1_problems_at(set, 1), "assert", 0);
    prompt_has(sr1_problems_at(set, 2), "standard input", 1);
    prompt_has(sr1_problems_at(set, 3), "total", 1);
    sr1_problems_free(set);
}

/* ---- other shapes ---- */

static void apps_rows_are_read(void **state)
{
    sr1_problems *set = parse(
        /* TACO: stdin, a limit in words; inputs also as lists of lines */
        "{\"problem_id\": 5, \"question\": \"Echo\", \"solutions\": \"[\\\"print(input())"
        "\\\"]\", \"input_output\": \"{\\\"inputs\\\": [\\\"a\\\\n\\\", [\\\"b\\\", "
        "\\\"c\\\"]], \\\"outputs\\\": [\\\"a\\\\n\\\", [\\\"b\\\"]]}\", "
        "\"starter_code\": "
        "\"\", \"time_limit\": \"2.5 seconds\"}\n"
        /* APPS: a function, numbers beyond any integer of C, results in a list */
        "{\"problem_id\": 6, \"question\": \"Big\", \"input_output\": "
        "\"{\\\"fn_name\\\": "
        "\\\"big\\\", \\\"inputs\\\": [[10, \\\"x\\\"]], \\\"outputs\\\": "
        "[[100000000000000000000000000]]}\", \"starter_code\": \"def big(n, "
        "s):\\n\\t\"}\n"
        "{\"id\": \"o\", \"question\": \"Q\", \"input_output\": {\"inputs\": [\"1\"], "
        "\"outputs\": [\"1\"]}, \"time_limit\": null}\n"
        /* APPS: no solution was published */
        "{\"id\": \"none\", \"question\": \"Q\", \"solutions\": \"\", "
        "\"input_output\": {\"inputs\": [\"1\"], \"outputs\": [\"1\"]}}");
    const sr1_problem *p = sr1_problems_find(set, "5");

    (void)state;
    assert_int_equal(sr1_problem_style(p), SR1_CODE_STDIO);
    assert_string_equal(sr1_problem_reference(p), "print(input())");
    assert_true(fabs(sr1_problem_time_limit(p) - (2.5)) <= 0);
    test_is(p, 0, "a\n", "a\n");
    test_is(p, 1, "b\nc\n", "b\n");
    p = sr1_problems_find(set, "6");
    assert_int_equal(sr1_problem_style(p), SR1_CODE_CALL);
    assert_string_equal(sr1_problem_entry_point(p), "big");
    test_is(p, 0, "[10, \"x\"]", "[100000000000000000000000000]");
    prompt_has(p, "def big(n, s):", 1);
    test_is(sr1_problems_find(set, "o"), 0, "1", "1");
    assert_null(sr1_problem_reference(sr1_problems_find(set, "none")));
    sr1_problems_free(set);
}

static void codecontests_rows_are_read(void **state)
{
    static const char rows[] =
        "{\"name\": \"1_A. X\", \"description\": \"Do.\", \"public_tests\": {\"input\": "
        "[\"1\\n\"], \"output\": [\"2\\n\"]}, \"private_tests\": {\"input\": [\"3\"], "
        "\"output\": [\"4\"]}, \"generated_tests\": {\"input\": [\"5\"], \"output\": "
        "[\"6\"]}, \"time_limit\": {\"seconds\": 1, \"nanos\": 500000000}, "
        "\"solutions\": "
        "{\"language\": [2, 3], \"solution\": [\"cpp\", \"py\"]}}\n"
        "{\"id\": 9, \"content\": \"As it is.\", \"test\": \"[{\\\"input\\\": "
        "{\\\"stdin\\\": \\\"1\\\"}, \\\"output\\\": {\\\"stdout\\\": \\\"2\\\"}}]\"}";
    const sr1_problems_options two = {sizeof(two), "codecontests", 2, 0};
    sr1_problems *set = parse(rows);
    const sr1_problem *p = sr1_problems_find(set, "1_A. X");
    char *prompt = NULL;

    (void)state;
    assert_int_equal(sr1_problem_test_count(p), 3);
    test_is(p, 0, "1\n", "2\n");
    test_is(p, 2, "5", "6");
    assert_true(fabs(sr1_problem_time_limit(p) - (1.5)) <= 1e-12);
    assert_string_equal(sr1_problem_reference(p), "py");
    p = sr1_problems_find(set, "9");
    test_is(p, 0, "1", "2");
    assert_int_equal(sr1_problem_prompt(p, &prompt), SR1_OK);
    assert_string_equal(prompt, "As it is.");
    sr1_free(prompt);
    sr1_problems_free(set);
    set = parse_with(rows, &two);
    assert_int_equal(sr1_problem_test_count(sr1_problems_at(set, 0)), 2);
    sr1_problems_free(set);
}

static void livecodebench_rows_are_read(void **state)
{
    sr1_problems *set = parse(
        "{\"question_id\": \"3233\", \"question_content\": \"Count.\", \"starter_code\": "
        "\"class Solution:\\n    def f(self, a: List[int], k: int) -> int:\\n        \", "
        "\"metadata\": \"{\\\"func_name\\\": \\\"f\\\"}\", \"public_test_cases\": "
        "\"[{\\\"input\\\": \\\"[1, 2]\\\\n3\\\", \\\"output\\\": \\\"7\\\", "
        "\\\"testtype\\\": \\\"functional\\\"}]\", \"private_test_cases\": [{\"input\": "
        "\"[]\\n1\", \"output\": \"\\\"s\\\"\", \"testtype\": \"functional\"}]}\n"
        "{\"question_id\": \"abc301_a\", \"question_content\": \"Play.\", "
        "\"public_test_cases\": \"[{\\\"input\\\": \\\"5\\\\n\\\", \\\"output\\\": "
        "\\\"T\\\\n\\\", \\\"testtype\\\": \\\"stdin\\\"}]\"}\n"
        "{\"id\": 4, \"content\": \"As is.\", \"labels\": {}, \"test\": "
        "{\"input_output\": "
        "\"{\\\"inputs\\\": [\\\"1\\\\n2\\\"], \\\"outputs\\\": [\\\"3\\\"], "
        "\\\"fn_name\\\": \\\"g\\\"}\"}}\n"
        "{\"id\": 5, \"content\": \"As is.\", \"test\": {\"input_output\": "
        "{\"inputs\": [\"1\"], \"outputs\": [\"3\"], \"fn_name\": null}}}");
    const sr1_problem *p = sr1_problems_find(set, "3233");

    (void)state;
    assert_string_equal(sr1_problem_entry_point(p), "f");
    test_is(p, 0, "[[1, 2],3]", "7");
    test_is(p, 1, "[[],1]", "\"s\"");
    prompt_has(p, "class Solution", 1);
    p = sr1_problems_find(set, "abc301_a");
    assert_int_equal(sr1_problem_style(p), SR1_CODE_STDIO);
    test_is(p, 0, "5\n", "T\n");
    p = sr1_problems_find(set, "4");
    assert_int_equal(sr1_problem_style(p), SR1_CODE_CALL);
    test_is(p, 0, "[1,2]", "3");
    assert_int_equal(sr1_problem_style(sr1_problems_find(set, "5")), SR1_CODE_STDIO);
    sr1_problems_free(set);
}

static void mbpp_and_humaneval_rows_are_read(void **state)
{
    /* the second row of mbpp.jsonl, a made one of MBPP+, HumanEval/23 */
    sr1_problems *set = parse(
        "{\"text\": \"Write a function to find the similar elements from the given two "
        "tuple lists.\", \"code\": \"def similar_elements(test_tup1, test_tup2):\\r\\n  "
        "res "
        "= tuple(set(test_tup1) & set(test_tup2))\\r\\n  return (res) \", \"task_id\": "
        "2, "
        "\"test_setup_code\": \"\", \"test_list\": [\"assert similar_elements((3, 4, 5, "
        "6),(5, 7, 4, 10)) == (4, 5)\"], \"challenge_test_list\": []}\n"
        "{\"task_id\": 3, \"prompt\": \"P\", \"code\": \"def h(): pass\\ndef f(x): "
        "return "
        "x\", \"test_imports\": [\"import math\"], \"test_list\": [\"assert f(1)\"], "
        "\"test\": \"for i in range(3):\\n    assert f(i) == i\"}\n"
        "{\"task_id\": \"HumanEval/23\", \"prompt\": \"from typing import "
        "List\\n\\n\\ndef "
        "strlen(string: str) -> int:\\n    \\\"\\\"\\\" Length. \\\"\\\"\\\"\\n\", "
        "\"entry_point\": \"strlen\", \"canonical_solution\": \"    return "
        "len(string)\\n\", \"test\": \"def check(candidate):\\n    assert candidate('') "
        "== "
        "0\\n\"}");
    const sr1_problem *p = sr1_problems_find(set, "2");

    (void)state;
    assert_string_equal(sr1_problem_entry_point(p), "similar_elements");
    assert_string_equal(sr1_problem_data_source(p), "mbpp");
    prompt_has(p, "similar_elements((3, 4", 1);
    p = sr1_problems_find(set, "3");
    assert_int_equal(sr1_problem_test_count(p), 1);
    assert_string_equal(sr1_problem_entry_point(p), "f");
    p = sr1_problems_find(set, "HumanEval/23");
    test_is(p, 0,
            "def check(candidate):\n    assert candidate('') == 0\n\n\ncheck(strlen)\n",
            "");
    assert_string_equal(
        sr1_problem_reference(p),
        "from typing import List\n\n\ndef strlen(string: str) -> int:\n    "
        "\"\"\" Length. \"\"\"\n    return len(string)\n");
    prompt_has(p, "It is called", 0);
    sr1_problems_free(set);
}

/* Rows of the published sets, as many as its README says. */
static void the_public_sets_are_read(void **state)
{
    static const struct {
        const char *name;
        size_t rows;
    } files[] = {
        {"mbpp.jsonl", 650}, {"mbpp_sanitized.jsonl", 291}, {"humaneval.jsonl", 109}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sr1_problems *set = NULL;
        char path[512];
        const char *paths[] = {path};

        snprintf(path, sizeof(path), "%s/../shared/data/code/%s", getenv("SR1_SRC"),
                 files[i].name);
        if (!sr1__path_exists(path))
            skip();
        if (sr1_problems_load(&set, paths, 1, NULL) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        assert_int_equal(sr1_problems_count(set), files[i].rows);
        for (size_t k = 0; k < files[i].rows; k++) {
            assert_non_null(sr1_problem_reference(sr1_problems_at(set, k)));
            if (sr1_problem_entry_point(sr1_problems_at(set, k)) == NULL)
                fail_msg("%s: no function", sr1_problem_id(sr1_problems_at(set, k)));
        }
        sr1_problems_free(set);
    }
}

/* ---- what is refused ---- */

/* 200,000 definitions and a test of 4 MB: looked for one by one it took minutes. */
static void many_names_are_looked_up_in_time(void **state)
{
    double begin = sr1__now();
    struct sr1__buf b;
    sr1_problems *set;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "{\"id\": \"m\", \"problem\": \"P\", \"reference\": \"");
    for (int i = 0; i < 200000; i++)
        sr1__buf_fmt(&b, "def f%d(): pass\\n", i);
    sr1__buf_str(&b, "\", \"tests\": [\"");
    for (int i = 0; i < 2000000; i++)
        sr1__buf_str(&b, "x ");
    sr1__buf_str(&b, "f7() xf9() f3() f199999_()\"]}");
    assert_int_equal(b.status, SR1_OK);
    set = parse(b.data);
    assert_string_equal(sr1_problem_entry_point(sr1_problems_at(set, 0)), "f7");
    sr1_problems_free(set);
    sr1__buf_free(&b);
    assert_true(sr1__now() - begin < 30);
}

/* TACO's rows as they are published: nothing in them is an id. */
#define TACO(question)                                                                   \
    "{\"question\": \"" question "\", \"solutions\": \"[\\\"print(input())\\\"]\", "     \
    "\"starter_code\": \"\", \"input_output\": \"{\\\"inputs\\\": [\\\"a\\\\n\\\"], "    \
    "\\\"outputs\\\": [\\\"a\\\\n\\\"]}\", \"difficulty\": \"EASY\", \"raw_tags\": "     \
    "\"[]\", "                                                                           \
    "\"name\": null, \"source\": \"codeforces\", \"tags\": \"[]\", \"skill_types\": "    \
    "\"[]\", "                                                                           \
    "\"url\": null, \"Expected Auxiliary Space\": null, \"time_limit\": \"2.0 "          \
    "seconds\", "                                                                        \
    "\"date\": null, \"picture_num\": null, \"memory_limit\": null, "                    \
    "\"Expected Time Complexity\": null}\n"

static void rows_without_an_id_get_one(void **state)
{
    static const char rows[] = TACO("Echo") TACO("Echo") TACO("Say it again");
    sr1_problems_options apps = {.struct_size = sizeof apps, .shape = "apps"};
    sr1_problems *set = parse(rows), *again = parse(TACO("Say it again")), *named;
    const char *third;

    (void)state;
    assert_int_equal(sr1_problems_count(set), 3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(sr1_problems_find(set, sr1_problem_id(sr1_problems_at(set, i))),
                         sr1_problems_at(set, i));
    third = sr1_problem_id(sr1_problems_at(set, 2));
    assert_string_equal(sr1_problem_id(sr1_problems_at(again, 0)), third);
    named = parse_with(rows, &apps);
    assert_non_null(sr1_problems_find(named, third));
    assert_string_equal(sr1_problem_reference(sr1_problems_at(set, 0)), "print(input())");
    sr1_problems_free(set);
    sr1_problems_free(again);
    sr1_problems_free(named);
}

/* As APPS and TACO have them. */
static void rows_without_tests_are_left_out(void **state)
{
    static const char text[] =
        "{\"id\": 1, \"question\": \"a\", \"input_output\": \"\"}\n\n"
        "{\"id\": 2, \"question\": \"b\", \"input_output\": {\"inputs\": [\"1\"], "
        "\"outputs\": [\"1\"]}}\n"
        "{\"id\": 3, \"question\": \"c\", \"input_output\": null}\n"
        "{\"id\": 4, \"question\": \"d\", \"input_output\": \"{\\\"inputs\\\": [], "
        "\\\"outputs\\\": []}\"}\n"
        "{\"id\": 5, \"question\": \"e\", \"input_output\": {\"inputs\": [\"1\"], "
        "\"outputs\": [\"1\"]}}";
    sr1_problems *set = parse(text);

    (void)state;
    assert_int_equal(sr1_problems_count(set), 2);
    assert_int_equal(sr1_problems_left_out(set), 3);
    assert_int_equal(sr1_problems_left_out(NULL), 0);
    assert_string_equal(sr1_problem_id(sr1_problems_at(set, 0)), "2");
    assert_string_equal(sr1_problem_id(sr1_problems_at(set, 1)), "5");
    assert_null(sr1_problems_find(set, "1"));
    sr1_problems_free(set);
    refused("{\"id\": 1, \"question\": \"a\", \"input_output\": \"\"}", SR1_E_INVALID,
            "that has tests (rows: 1)");
}

static void time_limits_have_units(void **state)
{
    static const struct {
        const char *text;
        double seconds; /* 0: refused */
    } rows[] = {{"2", 2},
                {"2.5 seconds", 2.5},
                {"1 second", 1},
                {"3s", 3},
                {"500 ms", 0.5},
                {"1500ms", 1.5},
                {"1 minute", 60},
                {"2 Minutes", 120},
                {" 4 sec. ", 4},
                {"", 10},
                {"  ", 10},
                {"2.", 2},
                {"0", 10},
                {"1 hour", 0},
                {"fast", 0},
                {"1-2 seconds", 0},
                {"2 seconds or so", 0},
                {"-1", 0},
                {"100 minutes", 0},
                {"s", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char row[256];
        sr1_problems *set;

        snprintf(row, sizeof row,
                 "{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\"], "
                 "\"time_limit\": \"%s\"}",
                 rows[i].text);
        if (!(rows[i].seconds > 0)) {
            refused(row, SR1_E_PARSE, "'time_limit' is");
            continue;
        }
        set = parse(row);
        if (fabs(sr1_problem_time_limit(sr1_problems_at(set, 0)) - rows[i].seconds) >
            1e-12)
            fail_msg("'%s' is %g seconds", rows[i].text,
                     sr1_problem_time_limit(sr1_problems_at(set, 0)));
        sr1_problems_free(set);
    }
}

/* ---- files that change ---- */

struct cutter {
    char path[512];
    int64_t after_us;
};

static void *cut_file(void *arg)
{
    const struct cutter *c = arg;

    usleep((unsigned)c->after_us);
    (void)!truncate(c->path, 100);
    return NULL;
}

/* Cut at some moment of its reading: it is an error, never a signal. */
static void a_file_that_is_cut_is_refused(void **state)
{
    struct cutter c;
    int met = 0;

    (void)state;
    snprintf(c.path, sizeof c.path, "%s", scratch_path("cut.jsonl"));
    for (int i = 0; i < 400 && !met; i++) {
        FILE *f = fopen(c.path, "w");
        sr1_problems *set = NULL;
        const char *path = c.path;
        pthread_t thread;

        c.after_us = 500 << i % 8;
        for (int k = 0; k < 60000; k++)
            fprintf(f, "{\"id\": %d, \"problem\": \"Add up.\", \"tests\": [\"x\"]}\n", k);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(pthread_create(&thread, NULL, cut_file, &c), 0);
        met = sr1_problems_load(&set, &path, 1, NULL) == SR1_E_CORRUPT;
        assert_int_equal(pthread_join(thread, NULL), 0);
        sr1_problems_free(set);
    }
    assert_true(met);
    assert_non_null(strstr(sr1_last_error(), "was changed in place"));
}

static void bad_rows_are_refused_by_name(void **state)
{
    (void)state;
    refused("", SR1_E_INVALID, "no problem");
    refused("[]", SR1_E_PARSE, "rows:1");
    refused("\n{\"id\": 1}", SR1_E_PARSE, "rows:2");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": []}", SR1_E_PARSE, "no tests");
    refused("{\"id\": 1, \"tests\": [\"x\"]}", SR1_E_PARSE, "'question' is missing");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\"]}\n"
            "{\"id\": \"1\", \"problem\": \"a\", \"tests\": [\"x\"]}",
            SR1_E_INVALID, "problem '1' comes twice");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\", {\"stdin\": \"\", "
            "\"stdout\": \"\"}]}",
            SR1_E_PARSE, "different styles");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": [{\"args\": [], \"expected\": "
            "1}]}",
            SR1_E_PARSE, "entry_point");
    refused("{\"id\": 1, \"problem\": \"a\", \"entry_point\": \"\", \"tests\": "
            "[{\"args\": [], \"expected\": "
            "1}]}",
            SR1_E_PARSE, "entry_point");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\\u0000\"]}", SR1_E_PARSE,
            "NUL");
    refused("{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\"], \"time_limit\": -1}",
            SR1_E_PARSE, "time_limit");
    refused("{\"id\": 1, \"question\": \"a\", \"input_output\": \"{\\\"inputs\\\": [1], "
            "\\\"outputs\\\": []}\"}",
            SR1_E_PARSE, "one length");
    refused("{\"id\": 1, \"question\": \"a\", \"input_output\": \"{\\\"inputs\\\": [1], "
            "\\\"outputs\\\": 1}\"}",
            SR1_E_PARSE, "'outputs' is no list");
    refused("{\"id\": 1, \"question\": \"a\", \"input_output\": \"{\\\"inputs\\\": "
            "{\\\"a\\\": 1}, \\\"outputs\\\": [1]}\"}",
            SR1_E_PARSE, "'inputs' is no list");
    refused("{\"id\": 1, \"question\": \"a\", \"input_output\": \"{\\\"fn_name\\\": \\\"f"
            "\\\", \\\"inputs\\\": [[1}], \\\"outputs\\\": [1]}\"}",
            SR1_E_PARSE, "input_output");
    refused("{\"question_id\": 1, \"question_content\": \"a\", \"public_test_cases\": "
            "\"[]\", \"private_test_cases\": \"eJxr\"}",
            SR1_E_UNSUPPORTED, "unpack_livecodebench");
}

static void more_tests_than_the_bound_are_refused(void **state)
{
    const sr1_problems_options few = {sizeof(few), NULL, 5, 0};
    struct sr1__buf b;
    sr1_problems *set;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "{\"id\": 1, \"problem\": \"a\", \"tests\": [\"x\"");
    for (int i = 0; i < SR1_PROBLEM_TESTS_MAX; i++)
        sr1__buf_str(&b, ",\"x\"");
    sr1__buf_str(&b, "]}");
    refused(b.data, SR1_E_LIMIT, "max_tests");
    set = parse_with(b.data, &few);
    assert_int_equal(sr1_problem_test_count(sr1_problems_at(set, 0)), 5);
    sr1_problems_free(set);
    sr1__buf_free(&b);
}

static void options_are_checked(void **state)
{
    const sr1_problems_options bad[] = {{sizeof(*bad), "csv", 0, 0},
                                        {sizeof(*bad), NULL, -1, 0},
                                        {sizeof(*bad), NULL, 0, 1e9},
                                        {0, NULL, 0, 0}};
    sr1_problems *set = NULL;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sr1_problems_parse(&set, "{}", 2, "x", &bad[i]), SR1_E_INVALID);
    assert_int_equal(sr1_problems_load(&set, NULL, 0, NULL), SR1_E_INVALID);
}

static void a_named_shape_is_not_guessed(void **state)
{
    const sr1_problems_options o = {sizeof(o), "humaneval", 0, 0};
    const char *row = "{\"task_id\": 2, \"prompt\": \"p\", \"tests\": [\"x\"]}";
    sr1_problems *set = NULL;

    (void)state;
    assert_int_equal(sr1_problems_parse(&set, row, strlen(row), "rows", &o), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "entry_point"));
}

static void many_are_found_by_id(void **state)
{
    struct sr1__buf b;
    sr1_problems *set, *other;
    char id[16];

    (void)state;
    sr1__buf_init(&b, 0);
    for (int i = 0; i < 5000; i++)
        sr1__buf_fmt(&b, "{\"id\": \"p%d\", \"problem\": \"a\", \"tests\": [\"x\"]}\n",
                     i);
    set = parse(b.data);
    other = sr1_problems_retain(set);
    sr1_problems_free(set);
    for (size_t i = 0; i < 5000; i++) {
        snprintf(id, sizeof(id), "p%zu", i);
        assert_ptr_equal(sr1_problems_find(other, id), sr1_problems_at(other, i));
    }
    sr1_problems_free(other);
    sr1__buf_free(&b);
}

static sr1_status load_all(void *text)
{
    sr1_problems *set = NULL;
    char *prompt = NULL;
    sr1_status status = sr1_problems_parse(&set, text, strlen(text), "rows", NULL);

    if (status == SR1_OK)
        status = sr1_problem_prompt(sr1_problems_at(set, 0), &prompt);
    sr1_free(prompt);
    sr1_problems_free(set);
    return status;
}

static void memory_may_run_out(void **state)
{
    char rows[] =
        "{\"id\": \"a\", \"problem\": \"Add.\", \"tests\": [\"assert f(1)\"], \"setup\": "
        "\"x\", \"reference\": \"def f(): 0\"}\n"
        "{\"task_id\": 3, \"prompt\": \"P\", \"code\": \"def f(x): return x\", "
        "\"test_imports\": [\"import math\"], \"test_list\": [\"assert f(1)\"]}\n"
        "{\"task_id\": \"h\", \"prompt\": \"import re\\ndef f(s):\\n\", \"entry_point\": "
        "\"f\", \"canonical_solution\": \"  0\", \"test\": \"def check(c): 0\"}\n"
        "{\"id\": 6, \"question\": \"Big\", \"input_output\": \"{\\\"fn_name\\\": "
        "\\\"big\\\", \\\"inputs\\\": [[10]], \\\"outputs\\\": [[1]]}\", \"solutions\": "
        "\"[\\\"x\\\"]\"}\n"
        "{\"question_id\": \"l\", \"question_content\": \"C\", \"public_test_cases\": "
        "\"[{\\\"input\\\": \\\"5\\\", \\\"output\\\": \\\"T\\\"}]\"}\n";

    (void)state;
    torture(load_all, rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: the framework takes the library's handler of SIGBUS away after it */
        cmocka_unit_test(a_file_that_is_cut_is_refused),
        cmocka_unit_test(plain_rows_are_read),
        cmocka_unit_test(prompts_ask_for_what_is_tested),
        cmocka_unit_test(apps_rows_are_read),
        cmocka_unit_test(codecontests_rows_are_read),
        cmocka_unit_test(livecodebench_rows_are_read),
        cmocka_unit_test(mbpp_and_humaneval_rows_are_read),
        cmocka_unit_test(the_public_sets_are_read),
        cmocka_unit_test(many_names_are_looked_up_in_time),
        cmocka_unit_test(rows_without_an_id_get_one),
        cmocka_unit_test(rows_without_tests_are_left_out),
        cmocka_unit_test(time_limits_have_units),
        cmocka_unit_test(bad_rows_are_refused_by_name),
        cmocka_unit_test(more_tests_than_the_bound_are_refused),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_named_shape_is_not_guessed),
        cmocka_unit_test(many_are_found_by_id),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
