/* critique/hint.c - what running an answer tells a critic (execution feedback of Xie et
 * al. 2025), first rule that fits:
 *
 *     passes              it is correct: be brief
 *     an exception        the line at fault, the last line of the traceback
 *     too slow, too big   it needs another way
 *     every test fails    begin anew
 *     a wrong result      input, expected and actual output of the first such test */
#include "critique/hint.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1000 /* bytes of a case, as published */

/* ---- a traceback ---- */

/* Place of the last line of text that holds more than white space; 0: there is none. */
static int last_line(const char *text, size_t *begin, size_t *len)
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

/* Is the answer in a file of this name? Not what tests it (names of code/driver.py), nor
 * Python's own code, nor what is in no file. */
static int is_answers(const char *name, size_t n)
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
static long last_number(const char *error)
{
    static const char mark[] = "\", line ";
    const char *from = error, *at;
    long found = 0;

    for (; (at = strstr(from, mark)) != NULL; from = at + 1) {
        const char *name = at;

        while (name > from && name[-1] != '"')
            name--;
        if (is_answers(name, (size_t)(at - name)))
            found = strtol(at + sizeof(mark) - 1, NULL, 10);
    }
    return found;
}

/* Line number n of a program, from 1, stripped; 0: it has none, or an empty one. */
static int line_of(const char *code, long n, size_t *begin, size_t *len)
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

static int passes(const struct sr1__run_facts *f)
{
    return f->verdict == SR1_RUN_PASSED;
}

static void say_correct(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    (void)f;
    sr1__buf_str(b,
                 "The answer passes all tests: it is correct. Be brief and positive, and "
                 "suggest nothing that would change what it does.");
}

static int raises(const struct sr1__run_facts *f)
{
    return f->verdict == SR1_RUN_RUNTIME_ERROR;
}

static void say_error(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    size_t begin, len;

    sr1__buf_str(b, "The answer fails with an error.");
    if (line_of(f->code, last_number(f->error), &begin, &len)) {
        sr1__buf_str(b, " The line at fault:\n");
        sr1__buf_utf8(b, f->code + begin, len);
        sr1__buf_char(b, '\n');
    }
    if (last_line(f->error, &begin, &len)) {
        sr1__buf_str(b, " The error:\n");
        sr1__buf_utf8(b, f->error + begin, len < MOST ? len : MOST);
    }
}

static int too_slow(const struct sr1__run_facts *f)
{
    return f->verdict == SR1_RUN_TIMEOUT;
}

static void say_slow(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    (void)f;
    sr1__buf_str(
        b, "The answer takes too long: it exceeds the limit of time. It needs a more "
           "efficient way, or does not end.");
}

static int too_big(const struct sr1__run_facts *f)
{
    return f->verdict == SR1_RUN_MEMORY || f->verdict == SR1_RUN_OUTPUT;
}

static void say_big(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    sr1__buf_fmt(b,
                 "The answer takes too much: it exceeds the limit of %s. It needs a more "
                 "economical way.",
                 f->verdict == SR1_RUN_MEMORY ? "memory" : "output");
}

static int all_fail(const struct sr1__run_facts *f)
{
    return f->passed == 0 && f->tests > 1;
}

static void say_anew(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    (void)f;
    sr1__buf_str(b, "The answer fails every test: its approach is wrong. Advise to begin "
                    "anew, and say how.");
}

static int always(const struct sr1__run_facts *f)
{
    (void)f;
    return 1;
}

static void add_part(struct sr1__buf *b, const char *name, struct sr1__fact_text t)
{
    size_t begin = 0;

    if (t.n > 0)
        sr1__strip(t.s, &begin, &t.n);
    if (t.n == 0)
        return;
    sr1__buf_fmt(b, "\n%s:\n", name);
    sr1__buf_utf8(b, t.s + begin, t.n);
}

static void say_case(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    size_t n = f->input.n + f->expected.n + f->got.n;

    sr1__buf_str(b, "The answer gives a wrong result.");
    if (n >= MOST)
        return;
    sr1__buf_str(b, " A test that fails:");
    add_part(b, f->is_assert ? "Test" : "Input", f->input);
    add_part(b, "Expected", f->expected);
    add_part(b, "Actual", f->got);
}

static const struct {
    int (*fits)(const struct sr1__run_facts *f);
    void (*say)(struct sr1__buf *b, const struct sr1__run_facts *f);
} rules[] = {
    {passes, say_correct}, {raises, say_error},  {too_slow, say_slow},
    {too_big, say_big},    {all_fail, say_anew}, {always, say_case},
};

void sr1__hint_say(struct sr1__buf *b, const struct sr1__run_facts *f)
{
    size_t i = 0;

    while (!rules[i].fits(f))
        i++;
    rules[i].say(b, f);
}

/* ---- from a check ---- */

static struct sr1__fact_text text_of(const char *s)
{
    return (struct sr1__fact_text){s ? s : "", s ? strlen(s) : 0};
}

/* Tests that were run: those behind a failure may have been skipped. */
static int64_t tests_run(const sr1_check *check, int64_t tests)
{
    int64_t n = 0;

    for (int64_t i = 0; i < tests; i++)
        n += sr1_check_verdict(check, (size_t)i) != SR1_CHECK_SKIPPED;
    return n;
}

static sr1_status read_check(const sr1_problem *problem, const sr1_check *check,
                             struct sr1__run_facts *f)
{
    sr1_check_report r = {.struct_size = sizeof(r)};
    sr1_problem_case c = {.struct_size = sizeof(c)};

    SR1__TRY(sr1_check_report_get(check, &r));
    if (r.verdict == SR1_RUN_INFRASTRUCTURE || r.verdict == SR1_RUN_CANCELLED)
        return sr1__fail(SR1_E_STATE,
                         "hint: the answer could not be run; nothing is known");
    if (r.first_failed >= 0)
        SR1__TRY(sr1_problem_test(problem, (size_t)r.first_failed, &c));
    *f = (struct sr1__run_facts){
        .verdict = r.verdict,
        .tests = tests_run(check, r.tests),
        .passed = r.passed,
        .is_assert = sr1_problem_style(problem) == SR1_CODE_ASSERT,
        .input = {c.input ? c.input : "", c.input_len},
        .expected = {c.expected ? c.expected : "", c.expected_len},
        .got = text_of(r.got),
        .error = r.error ? r.error : "",
        .code = ""};
    return SR1_OK;
}

sr1_status sr1_critique_hint(const sr1_problem *problem, const char *answer, size_t len,
                             const sr1_check *check, char **out)
{
    struct sr1__run_facts f;
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
    sr1__hint_say(&b, &f);
    sr1_free(code);
    st = sr1__buf_status(&b, "hint");
    if (st == SR1_OK && !(*out = sr1__buf_take(&b)))
        st = sr1__fail_nomem("hint");
    sr1__buf_free(&b);
    return st;
}
