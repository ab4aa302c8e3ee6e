/* environment/critique/execution_feedback.c - execution feedback: the hint that a critic
 * gets from running an answer (Xie et al. 2025); the first rule that fits:
 *
 *     passes              it is correct: be brief
 *     an exception        the line at fault, the last line of the traceback
 *     too slow, too big   it needs another way
 *     every test fails    begin anew
 *     a wrong result      input, expected and actual output of the first such test */
#include "environment/critique/execution_feedback.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1000 /* bytes of a case, as published */

/* ---- a traceback ---- */

/* Place of the last line of text that holds more than white space; 0: there is none. */
static int find_last_line(const char *text, size_t *begin, size_t *len)
{
    size_t end = strlen(text);

    while (end > 0) {
        size_t from = end;

        while (from > 0 && text[from - 1] != '\n')
            from--;
        *begin = from;
        *len = end - from;
        sr1__strip(text, begin, len);
        if (*len > 0)
            return 1;
        end = from > 0 ? from - 1 : 0;
    }
    return 0;
}

/* Is the answer in a file of this name? Not what tests it (names of
 * environment/code/driver.py), nor Python's own code, nor what is in no file. */
static int is_answer_file(const char *name, size_t n)
{
    static const char *const others[] = {"test", "prelude", "setup"};
    static const char python[] = "/lib/python";

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strlen(others[i]) == n && memcmp(name, others[i], n) == 0)
            return 0;
    return n > 0 && *name != '<' && !memmem(name, n, python, sizeof(python) - 1);
}

/* The number in the last `File "...", line N` of a traceback that is about the answer; 0:
 * there is none. */
static long find_line_number(const char *error)
{
    static const char mark[] = "\", line ";
    const char *from = error, *at;
    long found = 0;

    for (; (at = strstr(from, mark)) != NULL; from = at + 1) {
        const char *name = at;

        while (name > from && name[-1] != '"')
            name--;
        if (is_answer_file(name, (size_t)(at - name)))
            found = strtol(at + sizeof(mark) - 1, NULL, 10);
    }
    return found;
}

/* Line number n of a program, from 1, stripped; 0: it has none, or an empty one. */
static int find_program_line(const char *code, long n, size_t *begin, size_t *len)
{
    const char *at = code;

    for (long i = 1; i < n && at; i++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (n < 1 || !at)
        return 0;
    *begin = (size_t)(at - code);
    *len = strcspn(at, "\n");
    sr1__strip(code, begin, len);
    return *len > 0;
}

/* ---- the rules ---- */

static int matches_passed(const struct sr1__execution_facts *f)
{
    return f->verdict == SR1_RUN_PASSED;
}

static void append_correct(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    (void)f;
    sr1__buf_str(b,
                 "The answer passes all tests: it is correct. Be brief and positive, and "
                 "suggest nothing that would change what it does.");
}

static int matches_exception(const struct sr1__execution_facts *f)
{
    return f->verdict == SR1_RUN_RUNTIME_ERROR;
}

static void append_error(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    size_t begin, len;

    sr1__buf_str(b, "The answer fails with an error.");
    if (find_program_line(f->code, find_line_number(f->error), &begin, &len)) {
        sr1__buf_str(b, " The line at fault:\n");
        sr1__buf_utf8(b, f->code + begin, len);
        sr1__buf_char(b, '\n');
    }
    if (find_last_line(f->error, &begin, &len)) {
        sr1__buf_str(b, " The error:\n");
        sr1__buf_utf8(b, f->error + begin, len < MOST ? len : MOST);
    }
}

static int matches_timeout(const struct sr1__execution_facts *f)
{
    return f->verdict == SR1_RUN_TIMEOUT;
}

static void append_timeout(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    (void)f;
    sr1__buf_str(
        b, "The answer takes too long: it exceeds the limit of time. It needs a more "
           "efficient way, or does not end.");
}

static int matches_limit(const struct sr1__execution_facts *f)
{
    return f->verdict == SR1_RUN_MEMORY || f->verdict == SR1_RUN_OUTPUT;
}

static void append_limit(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    sr1__buf_fmt(b,
                 "The answer takes too much: it exceeds the limit of %s. It needs a more "
                 "economical way.",
                 f->verdict == SR1_RUN_MEMORY ? "memory" : "output");
}

static int matches_all_failed(const struct sr1__execution_facts *f)
{
    return f->passed == 0 && f->tests > 1;
}

static void append_start_over(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    (void)f;
    sr1__buf_str(b, "The answer fails every test: its approach is wrong. Advise to begin "
                    "anew, and say how.");
}

static int matches_always(const struct sr1__execution_facts *f)
{
    (void)f;
    return 1;
}

static void append_fact(struct sr1__buf *b, const char *name, struct sr1__str t)
{
    size_t begin = 0;

    if (t.n > 0)
        sr1__strip(t.s, &begin, &t.n);
    if (t.n == 0)
        return;
    sr1__buf_fmt(b, "\n%s:\n", name);
    sr1__buf_utf8(b, t.s + begin, t.n);
}

static void append_failing_case(struct sr1__buf *b, const struct sr1__execution_facts *f)
{
    size_t n = f->input.n + f->expected.n + f->got.n;

    sr1__buf_str(b, "The answer gives a wrong result.");
    if (n >= MOST)
        return;
    sr1__buf_str(b, " A test that fails:");
    append_fact(b, f->is_assert ? "Test" : "Input", f->input);
    append_fact(b, "Expected", f->expected);
    append_fact(b, "Actual", f->got);
}

static const struct {
    int (*fits)(const struct sr1__execution_facts *f);
    void (*say)(struct sr1__buf *b, const struct sr1__execution_facts *f);
} rules[] = {
    {matches_passed, append_correct},        {matches_exception, append_error},
    {matches_timeout, append_timeout},       {matches_limit, append_limit},
    {matches_all_failed, append_start_over}, {matches_always, append_failing_case},
};

void sr1__execution_feedback_append(struct sr1__buf *b,
                                    const struct sr1__execution_facts *f)
{
    size_t i = 0;

    while (!rules[i].fits(f))
        i++;
    rules[i].say(b, f);
}

/* ---- from a check ---- */

/* Tests that were run: those behind a failure may have been skipped. */
static int64_t tests_run(const sr1_check *check, int64_t tests)
{
    int64_t n = 0;

    for (int64_t i = 0; i < tests; i++)
        n += sr1_check_verdict(check, (size_t)i) != SR1_CHECK_SKIPPED;
    return n;
}

static sr1_status read_check(const sr1_problem *problem, const sr1_check *check,
                             struct sr1__execution_facts *f)
{
    sr1_check_report r = {.struct_size = sizeof(r)};
    sr1_problem_case c = {.struct_size = sizeof(c)};

    SR1__TRY(sr1_check_report_get(check, &r));
    if (r.verdict == SR1_RUN_INFRASTRUCTURE || r.verdict == SR1_RUN_CANCELLED)
        return sr1__fail(SR1_E_STATE,
                         "hint: the answer could not be run; nothing is known");
    if (r.first_failed >= 0)
        SR1__TRY(sr1_problem_test(problem, (size_t)r.first_failed, &c));
    *f = (struct sr1__execution_facts){
        .verdict = r.verdict,
        .tests = tests_run(check, r.tests),
        .passed = r.passed,
        .is_assert = sr1_problem_style(problem) == SR1_CODE_ASSERT,
        .input = {c.input ? c.input : "", c.input_len},
        .expected = {c.expected ? c.expected : "", c.expected_len},
        .got = sr1__str_of(r.got),
        .error = r.error ? r.error : "",
        .code = ""};
    return SR1_OK;
}

sr1_status sr1_critique_execution_feedback(const sr1_problem *problem, const char *answer,
                                           size_t len, const sr1_check *check, char **out)
{
    struct sr1__execution_facts f;
    struct sr1__buf b;
    char *code = NULL;
    size_t n;
    sr1_status st;

    if (!problem || (!answer && len) || !check || !out)
        return sr1__fail(SR1_E_INVALID,
                         "hint: problem, answer, check and out are needed");
    SR1__TRY(read_check(problem, check, &f));
    SR1__TRY(sr1_code_extract(answer ? answer : "", len, &code, &n, NULL));
    f.code = code;
    sr1__buf_init(&b, 0);
    sr1__execution_feedback_append(&b, &f);
    sr1_free(code);
    st = sr1__buf_status(&b, "hint");
    if (st == SR1_OK && !(*out = sr1__buf_take(&b)))
        st = sr1__fail_nomem("hint");
    sr1__buf_free(&b);
    return st;
}
