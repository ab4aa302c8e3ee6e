/* Hints: one rule for each way an answer can go. */
#include "critique_test.h"

#include "environment/critique/execution_feedback.h"

static const char code[] = "def add(a, b):\n    c = a / 0\n    return c\n";
static const char traceback[] = "Traceback (most recent call last):\n"
                                "  File \"/tmp/t.py\", line 9, in <module>\n"
                                "    add(1, 2)\n"
                                "  File \"/tmp/t.py\", line 2, in add\n"
                                "    c = a / 0\n"
                                "ZeroDivisionError: division by zero\n\n";

/* The answer called what Python brings, which failed in its own line 2. */
static const char elsewhere[] = "Traceback (most recent call last):\n"
                                "  File \"test\", line 1, in <module>\n"
                                "  File \"answer.py\", line 3, in add\n"
                                "  File \"/usr/lib/python3.11/heapq.py\", line 2, in f\n"
                                "  File \"<string>\", line 2, in <module>\n"
                                "TypeError: not that\n";
static const char in_the_test[] = "Traceback (most recent call last):\n"
                                  "  File \"test\", line 1, in <module>\n"
                                  "NameError: name 'sub' is not defined\n";

#define TEXT(s)                                                                          \
    {                                                                                    \
        s, sizeof(s) - 1                                                                 \
    }

static const struct {
    struct sr1__execution_facts f;
    const char *has, *lacks;
} cases[] = {
    {{.verdict = SR1_RUN_PASSED, .tests = 3, .passed = 3},
     "is correct. Be brief",
     "fails"},
    {{.verdict = SR1_RUN_RUNTIME_ERROR, .tests = 3, .passed = 0, .error = traceback},
     "The line at fault:\nc = a / 0\n The error:\nZeroDivisionError: division by zero",
     "begin anew"},
    {{.verdict = SR1_RUN_RUNTIME_ERROR, .tests = 1, .error = ""},
     "The answer fails with an error.",
     "line at fault"},
    {{.verdict = SR1_RUN_RUNTIME_ERROR,
      .tests = 1,
      .error = "File \"x\", line 99\nSyntaxError: invalid"},
     "The error:\nSyntaxError: invalid",
     "line at fault"},
    {{.verdict = SR1_RUN_RUNTIME_ERROR, .tests = 1, .error = elsewhere},
     "The line at fault:\nreturn c\n The error:\nTypeError: not that",
     "c = a / 0"},
    {{.verdict = SR1_RUN_RUNTIME_ERROR, .tests = 1, .error = in_the_test},
     "The error:\nNameError: name 'sub' is not defined",
     "line at fault"},
    {{.verdict = SR1_RUN_TIMEOUT, .tests = 2, .passed = 0},
     "more efficient",
     "begin anew"},
    {{.verdict = SR1_RUN_MEMORY, .tests = 2, .passed = 1}, "limit of memory", "output"},
    {{.verdict = SR1_RUN_OUTPUT, .tests = 2, .passed = 1}, "limit of output", "memory"},
    {{.verdict = SR1_RUN_WRONG, .tests = 4, .passed = 0, .input = TEXT("1 2\n")},
     "begin anew",
     "1 2"},
    {{.verdict = SR1_RUN_WRONG,
      .tests = 4,
      .passed = 3,
      .input = TEXT("1 2\n"),
      .expected = TEXT("3\n"),
      .got = TEXT("-1\n")},
     "Input:\n1 2\nExpected:\n3\nActual:\n-1",
     "begin anew"},
    {{.verdict = SR1_RUN_WRONG,
      .tests = 1,
      .passed = 0,
      .is_assert = 1,
      .input = TEXT("assert add(1, 2) == 3")},
     "Test:\nassert add(1, 2) == 3",
     "Expected"},
};

static void every_outcome_has_its_hint(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sr1__execution_facts f = cases[i].f;
        struct sr1__buf b;

        f.code = code;
        if (!f.error)
            f.error = "";
        sr1__buf_init(&b, 0);
        sr1__execution_feedback_append(&b, &f);
        OK(sr1__buf_status(&b, "hint"));
        if (!strstr(sr1__buf_cstr(&b), cases[i].has))
            fail_msg("case %zu: '%s' is not in: %s", i, cases[i].has, sr1__buf_cstr(&b));
        if (strstr(sr1__buf_cstr(&b), cases[i].lacks))
            fail_msg("case %zu: '%s' is in: %s", i, cases[i].lacks, sr1__buf_cstr(&b));
        sr1__buf_free(&b);
    }
}

/* A case of 1000 bytes or more is not shown. */
static void a_long_case_is_left_out(void **state)
{
    static char input[1000];
    struct sr1__execution_facts f = {.verdict = SR1_RUN_WRONG,
                                     .tests = 2,
                                     .passed = 1,
                                     .error = "",
                                     .code = "",
                                     .expected = {"", 0},
                                     .got = {"", 0}};
    struct sr1__buf b;

    (void)state;
    memset(input, 'x', sizeof input);
    for (size_t n = 999; n <= 1000; n++) {
        f.input.s = input;
        f.input.n = n;
        sr1__buf_init(&b, 0);
        sr1__execution_feedback_append(&b, &f);
        assert_int_equal(strstr(sr1__buf_cstr(&b), "xxx") != NULL, n < 1000);
        sr1__buf_free(&b);
    }
}

/* A check that stops at the first failure says nothing of the tests behind it. */
static void tests_that_were_not_run_did_not_fail(void **state)
{
    static const char row[] = "{\"id\": 1, \"problem\": \"Add.\", \"tests\": [\"assert "
                              "add(1, 2) == 3\", \"assert add(0, 0) == 0\"]}";
    static const char answer[] = "def add(a, b): return a * b";
    sr1_problems *p = NULL;
    sr1_sandbox_options so;
    sr1_sandbox *box = NULL;

    (void)state;
    OK(sr1_problems_parse(&p, row, strlen(row), "row", NULL));
    sr1_sandbox_options_init(&so);
    so.isolation = "none";
    OK(sr1_sandbox_open(&box, &so));
    for (int32_t all = 0; all < 2; all++) {
        sr1_checker_options o = {.struct_size = sizeof o, .all_or_nothing = all};
        sr1_checker *k = NULL;
        sr1_check *c = NULL;
        char *hint = NULL;

        OK(sr1_checker_new(&k, box, &o));
        OK(sr1_checker_run(k, sr1_problems_at(p, 0), SR1_CHECK_PROGRAM, answer,
                           strlen(answer), &c));
        OK(sr1_critique_execution_feedback(sr1_problems_at(p, 0), answer, strlen(answer),
                                           c, &hint));
        assert_non_null(strstr(hint, "Test:\nassert add(1, 2) == 3\nActual:\n2"));
        assert_null(strstr(hint, "begin anew"));
        sr1_free(hint);
        sr1_check_free(c);
        sr1_checker_free(k);
    }
    sr1_sandbox_free(box);
    sr1_problems_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_hint),
        cmocka_unit_test(a_long_case_is_left_out),
        cmocka_unit_test(tests_that_were_not_run_did_not_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
