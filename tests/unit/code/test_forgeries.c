/* Wrong answers that try to pass (forgeries.py makes them, and says what a plain run of
 * python3 says of each): none does, in any style of tests, all or nothing or each; and a
 * right answer passes them all. Isolated only: without it a process can do what this one
 * can. */
#include "support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "environment/code/problems.h"

#include <stdio.h>
#include <string.h>

#define PYTHON "/usr/bin/python3"
#define LIMIT_S 5
#define LEAST 60
#define MOST 1024

/* The same task, its tests in each of the styles that forgeries.py names. */
static const struct {
    const char *style;
    const char *row;
} problems[] = {
    {"assert", "{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert f(3) == 16\", "
               "\"assert f(10) == 107\", \"assert f(-4) == 23\"]}"},
    {"check",
     "{\"task_id\": \"1\", \"prompt\": \"def f(n):\\n\", \"entry_point\": \"f\", "
     "\"canonical_solution\": \"    return n * n + 7\\n\", \"test\": \"def "
     "check(candidate):\\n    expected = {3: 16, 10: 107, -4: 23}\\n    for n, "
     "result in expected.items():\\n        assert candidate(n) == result\\n\"}"},
    {"shaped", "{\"id\": 1, \"problem\": \"p\", \"setup\": \"import math\", \"tests\": "
               "[\"assert math.isclose(f(3), 16)\", \"assert abs(f(10) - 107) < 1e-6\", "
               "\"assert set([f(-4)]) == {23} and 23 == f(-4) and not f(3) != 16\"]}"},
    {"call", "{\"id\": 1, \"problem\": \"p\", \"entry_point\": \"f\", \"tests\": "
             "[{\"args\": [3], \"expected\": 16}, {\"args\": [10], \"expected\": 107}, "
             "{\"args\": [-4], \"expected\": 23}]}"},
    {"stdio", "{\"id\": 1, \"problem\": \"p\", \"tests\": [{\"stdin\": \"3\\n\", "
              "\"stdout\": \"16\\n\"}, {\"stdin\": \"10\\n\", \"stdout\": \"107\\n\"}, "
              "{\"stdin\": \"-4\\n\", \"stdout\": \"23\\n\"}]}"},
};

#define STYLES (sizeof(problems) / sizeof(problems[0]))

struct
try {
    json_t *forgery; /* name, style, answer, does it hold in a plain run */
    sr1_check *check[2];
};

static sr1_problems *sets[STYLES];
static sr1_checker *checkers[2]; /* all or nothing, each */
static struct try tries[MOST];
static size_t n_tries;

static int open_all(void **state)
{
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = LIMIT_S};
    sr1_sandbox *box = NULL;

    (void)state;
    if (!sr1__path_exists(PYTHON) || sr1_sandbox_open(&box, NULL) != SR1_OK)
        return 0;
    for (size_t i = 0; i < STYLES; i++)
        if (sr1_problems_parse(&sets[i], problems[i].row, strlen(problems[i].row), "row",
                               NULL) != SR1_OK)
            return -1;
    for (int k = 0; k < 2; k++) {
        o.all_or_nothing = k == 0;
        if (sr1_checker_new(&checkers[k], box, &o) != SR1_OK)
            return -1;
    }
    sr1_sandbox_free(box);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        sr1_checker_free(checkers[k]);
    for (size_t i = 0; i < STYLES; i++)
        sr1_problems_free(sets[i]);
    return 0;
}

static const char *text(const struct try *t, size_t i)
{
    return json_string_value(json_array_get(t->forgery, i));
}

static int is_right(const struct try *t)
{
    return strcmp(text(t, 0), "right") == 0;
}

static const sr1_problem *problem_of(const struct try *t)
{
    size_t i = 0;

    while (strcmp(problems[i].style, text(t, 1)) != 0)
        i++;
    return sr1_problems_at(sets[i], 0);
}

/* What differs between modes does not between styles. */
static int modes(const struct try *t)
{
    return strcmp(text(t, 1), "assert") == 0 ? 2 : 1;
}

static void submit(struct try *t)
{
    for (int k = 0; k < modes(t); k++)
        if (sr1_checker_submit(checkers[k], problem_of(t), SR1_CHECK_PROGRAM, text(t, 2),
                               strlen(text(t, 2)), &t->check[k]) != SR1_OK)
            fail_msg("%s", sr1_last_error());
}

static void read_all(void)
{
    char command[512];
    static char line[65536];
    FILE *f;

    snprintf(command, sizeof(command), PYTHON " %s/tests/unit/code/forgeries.py",
             getenv("SR1_SRC"));
    f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL && n_tries < MOST) {
        struct try *t = &tries[n_tries++];

        assert_int_equal(sr1__json_parse(&t->forgery, line, strlen(line), "forgery"),
                         SR1_OK);
        submit(t);
    }
    assert_int_equal(pclose(f), 0);
}

/* 1 when one was judged as it must be. What is known for want of memory or time is no
 * pass; that nothing is known would be a way out. */
static int is_judged(const struct try *t, int k)
{
    sr1_check_report r = {.struct_size = sizeof(r)};
    int expected = is_right(t);
    int passed;

    assert_int_equal(sr1_check_wait(t->check[k], -1), SR1_OK);
    assert_int_equal(sr1_check_report_get(t->check[k], &r), SR1_OK);
    passed = r.verdict == SR1_RUN_PASSED;
    if (passed == expected && !r.judged_inside && r.verdict < SR1_RUN_INFRASTRUCTURE)
        return 1;
    print_error("%s, %s, %s: %s, %s\n", text(t, 0), text(t, 1), k == 0 ? "all" : "each",
                sr1_execution_verdict_name(r.verdict), r.error);
    return 0;
}

static void no_forgery_passes(void **state)
{
    size_t wrong = 0;

    (void)state;
    if (checkers[0] == NULL)
        skip();
    read_all();
    assert_true(n_tries / STYLES > LEAST);
    for (size_t i = 0; i < n_tries; i++) {
        struct try *t = &tries[i];
        int holds = json_is_true(json_array_get(t->forgery, 3));

        wrong += holds != (is_right(t) && strcmp(text(t, 1), "assert") == 0);
        for (int k = 0; k < modes(t); k++) {
            wrong += !is_judged(t, k);
            sr1_check_free(t->check[k]);
        }
        json_decref(t->forgery);
    }
    print_message("%zu forgeries in %zu styles\n", n_tries / STYLES, STYLES);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_forgery_passes),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
