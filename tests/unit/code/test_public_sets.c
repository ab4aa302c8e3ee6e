/* Reference solutions, and copies of them with one thing changed: what the checker says
 * of each is what a plain run of python3 says of it, the tests below it in one file.
 *
 * A few problems of ours, and every 48th of MBPP and HumanEval where the shared data is;
 * all of the files that SR1_CODE_WHOLE names (tests/code/run). */
#include "support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "environment/code/problems.h"

#include <string.h>
#include <sys/wait.h>

#define PYTHON "/usr/bin/python3"
#define LIMIT_S "20" /* one mutant that does not end; the machine may be loaded */
#define MUTANTS 2

/* ---- mutants ---- */

static const char *const changes[][2] = {
    {" + ", " - "},
    {"==", "!="},
    {" < ", " <= "},
    {"range(", "range(1, "},
    {"return ", "return not "},
    {" > ", " < "},
    {"+= 1", "+= 2"},
    {"[0]", "[1]"},
    {" and ", " or "},
    {"-1", "0"},
    {"return", "pass; return"},
    {"%", "//"},
    {"max(", "min("},
    {"len(", "1 + len("},
};

/* The nth change that can be made, to the last place of its words; NULL: there is none.
 */
static char *mutate(const char *code, size_t nth)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const char *at = NULL;
        struct sr1__buf b;

        for (const char *p = code; (p = strstr(p, changes[i][0])) != NULL; p++)
            at = p;
        if (at == NULL || nth-- > 0)
            continue;
        sr1__buf_init(&b, 0);
        sr1__buf_add(&b, code, (size_t)(at - code));
        sr1__buf_str(&b, changes[i][1]);
        sr1__buf_str(&b, at + strlen(changes[i][0]));
        return sr1__buf_take(&b);
    }
    return NULL;
}

/* ---- plain Python ---- */

static int run_file(const char *path, const char *input)
{
    char command[1400];
    int status;

    snprintf(command, sizeof(command),
             "cd %s && timeout -s KILL " LIMIT_S " " PYTHON
             " %s < %s > %s/out 2> /dev/null",
             scratch_dir, path, input, scratch_dir);
    status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int plain_statements(const sr1_problem *p, const char *code)
{
    struct sr1__buf b;
    const char *path;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s\n%s\n%s\n", p->prelude != NULL ? p->prelude : "", code,
                 p->setup != NULL ? p->setup : "");
    for (size_t i = 0; i < p->n_tests; i++)
        sr1__buf_fmt(&b, "%s\n", p->tests[i].input);
    path = scratch_file("plain.py", b.data, b.len);
    sr1__buf_free(&b);
    return run_file(path, "/dev/null");
}

static int plain_calls(const sr1_problem *p, const char *code)
{
    struct sr1__buf b;
    const char *path;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s\nimport json\n", code);
    for (size_t i = 0; i < p->n_tests; i++)
        sr1__buf_fmt(&b, "assert %s(*json.loads('''%s''')) == json.loads('''%s''')\n",
                     p->entry, p->tests[i].input, p->tests[i].expected);
    path = scratch_file("plain.py", b.data, b.len);
    sr1__buf_free(&b);
    return run_file(path, "/dev/null");
}

static int plain_stdio(const sr1_problem *p, const char *code)
{
    const char *path = scratch_file("plain.py", code, strlen(code));

    for (size_t i = 0; i < p->n_tests; i++) {
        struct sr1__buf out;
        int right;

        if (!run_file(path, scratch_file("in", p->tests[i].input, p->tests[i].input_len)))
            return 0;
        if (sr1__file_read(scratch_path("out"), 0, &out) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        right = sr1_judge_output(p->tests[i].expected, sr1__buf_cstr(&out));
        sr1__buf_free(&out);
        if (!right)
            return 0;
    }
    return 1;
}

static int plain(const sr1_problem *p, const char *code)
{
    if (p->style == SR1_CODE_STDIO)
        return plain_stdio(p, code);
    return p->style == SR1_CODE_CALL ? plain_calls(p, code) : plain_statements(p, code);
}

/* ---- both ---- */

struct one {
    const sr1_problem *problem;
    char *code;
    int reference;
    sr1_check *check[2]; /* all or nothing, each */
};

struct count {
    int64_t programs, passed;
};

static void submit(struct one *o, sr1_checker *const *checkers)
{
    for (int k = 0; k < 2; k++)
        if (sr1_checker_submit(checkers[k], o->problem, SR1_CHECK_PROGRAM, o->code,
                               strlen(o->code), &o->check[k]) != SR1_OK)
            fail_msg("%s", sr1_last_error());
}

static void compare(struct one *o, struct count *count)
{
    const char *id = sr1_problem_id(o->problem);
    int is = plain(o->problem, o->code);

    for (int k = 0; k < 2; k++) {
        sr1_check_report r = {.struct_size = sizeof(r)};

        assert_int_equal(sr1_check_wait(o->check[k], -1), SR1_OK);
        assert_int_equal(sr1_check_report_get(o->check[k], &r), SR1_OK);
        if ((r.verdict == SR1_RUN_PASSED) != is)
            fail_msg("%s: python3 says %d, verdict %s, %s\n%s", id, is,
                     sr1_execution_verdict_name(r.verdict), r.error, o->code);
        sr1_check_free(o->check[k]);
    }
    if (o->reference && !is)
        fail_msg("%s: its reference fails", id);
    count->programs++;
    count->passed += is;
    sr1__free(o->code);
}

#define BATCH 64

static void compare_all(const sr1_problems *set, size_t step, struct count *count)
{
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 20};
    sr1_checker *checkers[2] = {NULL, NULL};
    struct one batch[BATCH * (MUTANTS + 1)];
    sr1_sandbox_options so;
    sr1_sandbox *box = NULL;
    size_t n = 0;

    sr1_sandbox_options_init(&so);
    if (sr1_sandbox_open(&box, &so) != SR1_OK) {
        so.isolation = "none";
        assert_int_equal(sr1_sandbox_open(&box, &so), SR1_OK);
    }
    for (int k = 0; k < 2; k++, o.all_or_nothing = 0) {
        o.all_or_nothing = k == 0;
        assert_int_equal(sr1_checker_new(&checkers[k], box, &o), SR1_OK);
    }
    sr1_sandbox_free(box);
    for (size_t i = 0; i < sr1_problems_count(set); i += step) {
        const sr1_problem *p = sr1_problems_at(set, i);

        for (size_t m = 0; m <= MUTANTS; m++) {
            struct one one = {.problem = p, .reference = m == 0};

            one.code = m == 0 ? sr1__strdup(p->reference) : mutate(p->reference, m - 1);
            if (one.code == NULL)
                break;
            batch[n] = one;
            submit(&batch[n++], checkers);
        }
        if (n > BATCH * MUTANTS || i + step >= sr1_problems_count(set)) {
            for (size_t k = 0; k < n; k++)
                compare(&batch[k], count);
            n = 0;
        }
    }
    sr1_checker_free(checkers[0]);
    sr1_checker_free(checkers[1]);
}

static void compare_file(const char *path, size_t step)
{
    struct count c = {0, 0};
    sr1_problems *set = NULL;
    const char *paths[] = {path};
    double began = sr1__now();

    if (!sr1__path_exists(path) || !sr1__path_exists(PYTHON))
        skip();
    if (sr1_problems_load(&set, paths, 1, NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    compare_all(set, step, &c);
    sr1_problems_free(set);
    print_message("%s: %lld programs, %lld pass; %.0f s\n", strrchr(path, '/') + 1,
                  (long long)c.programs, (long long)c.passed, sr1__now() - began);
    assert_true(c.passed > 0 && c.passed < c.programs);
}

static void compare_shared(const char *name)
{
    const char *whole = getenv("SR1_CODE_WHOLE");
    char path[512];

    snprintf(path, sizeof(path), "%s/../shared/data/code/%s", getenv("SR1_SRC"), name);
    compare_file(path, whole != NULL && strstr(whole, name) != NULL ? 1 : 48);
}

static void ours_are_judged_as_python_does(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/fixtures/code/problems.jsonl",
             getenv("SR1_SRC"));
    compare_file(path, 1);
}

static void mbpp_is_judged_as_python_does(void **state)
{
    (void)state;
    compare_shared("mbpp.jsonl");
}

static void mbpp_sanitized_is_judged_as_python_does(void **state)
{
    (void)state;
    compare_shared("mbpp_sanitized.jsonl");
}

static void humaneval_is_judged_as_python_does(void **state)
{
    (void)state;
    compare_shared("humaneval.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_are_judged_as_python_does),
        cmocka_unit_test(mbpp_is_judged_as_python_does),
        cmocka_unit_test(mbpp_sanitized_is_judged_as_python_does),
        cmocka_unit_test(humaneval_is_judged_as_python_does),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
