/* environment/code/outside.c - run tests that are statements or calls in another process
 * than the answer: one program in the sandbox runs the answer and returns the results of
 * its functions (answer.py), another one runs the tests (judge.py). */
#include "environment/code/report.h"
#include "environment/code/tester.h"
#include "environment/sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES 3 /* of tests whose process dies */

/* The descriptors of a check; -1: closed. */
struct ends {
    int answer; /* of the socket: the answer's end, and that of the tests */
    int tests;
    int file;   /* the tests themselves */
    int report; /* of a pipe: read, and written */
    int write;
};

static void close_given(struct ends *e)
{
    sr1__fd_close(&e->answer);
    sr1__fd_close(&e->tests);
    sr1__fd_close(&e->file);
    sr1__fd_close(&e->write);
}

static sr1_status open_ends(struct ends *e, const struct sr1__buf *tests)
{
    int pair[2], pipe_ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return sr1__fail_errno("make a socket", "for an answer");
    e->answer = pair[0];
    e->tests = pair[1];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return sr1__fail_errno("make a pipe", "for a report");
    e->report = pipe_ends[0];
    e->write = pipe_ends[1];
    e->file = sr1__fd_of_bytes(tests->data, tests->len);
    return e->file >= 0 ? SR1_OK : sr1__fail_errno("keep in memory", "tests");
}

/* It reads what answer.py compiles to, and becomes that. */
static const char boot[] = "import os, marshal\n"
                           "def more(n):\n"
                           "    data = b''\n"
                           "    while len(data) < n:\n"
                           "        piece = os.read(0, n - len(data))\n"
                           "        if not piece:\n"
                           "            os._exit(1)\n"
                           "        data += piece\n"
                           "    return data\n"
                           "exec(marshal.loads(more(int.from_bytes(more(4), 'big'))))\n";

static sr1_status start_answer(struct sr1_check *c, sr1_sandbox *box,
                               const struct sr1__check_limits *l, int socket)
{
    sr1_program program;

    sr1_program_init(&program);
    program.code = boot;
    program.time_s = sr1__check_whole_time(l, c->problem);
    program.memory_mib = l->memory_mib;
    return sr1__check_start_linked(c, box, &program, socket);
}

static sr1_status start_outside_tests(struct sr1_check *c, sr1_sandbox *box,
                                      const struct sr1__check_limits *l, struct ends *e,
                                      const char *nonce)
{
    struct sr1__buf tests;
    sr1_status status;

    sr1__buf_init(&tests, 0);
    status = sr1__write_tests(&tests, c, l, nonce);
    if (status == SR1_OK)
        status = open_ends(e, &tests);
    sr1__buf_free(&tests);
    if (status == SR1_OK)
        status = sr1__tester_give(l->tester, e->tests, e->file, e->write);
    if (status == SR1_OK)
        status = start_answer(c, box, l, e->answer);
    close_given(e);
    return status;
}

/* All of it: the tests end when the answer's process does. */
static sr1_status read_report(int fd, struct sr1__buf *out)
{
    char bytes[4096];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) != 0) {
        if (n < 0 && errno != EINTR)
            return sr1__fail_errno("read", "the report of tests");
        sr1__buf_add(out, bytes, n > 0 ? (size_t)n : 0);
    }
    return sr1__buf_status(out, "report of tests");
}

static int is_unknown_result(const sr1_execution_result *r)
{
    return r->verdict == SR1_RUN_INFRASTRUCTURE || r->verdict == SR1_RUN_CANCELLED;
}

static int asks_inside(const struct sr1__report *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->letters[i * (SR1__NONCE + 1) + SR1__NONCE] == SR1__REPORT_INSIDE)
            return 1;
    return r->last == SR1__REPORT_INSIDE;
}

/* Fill the outcome from the report once both processes have ended. */
static sr1_status take_outside_report(struct sr1_check *c,
                                      const struct sr1__check_limits *l,
                                      const struct sr1__report *report, int *inside)
{
    sr1_execution_result result = {.struct_size = sizeof(result)};

    SR1__TRY(sr1__check_result(c, 0, &result));
    *inside = !is_unknown_result(&result) && asks_inside(report);
    if (is_unknown_result(&result)) {
        sr1__check_outcome_rest(&c->outcome, 0, result.verdict);
        sr1__buf_str(&c->outcome.error, result.message);
        return SR1_OK;
    }
    if (!*inside)
        sr1__take_report(&c->outcome, report, l->all_or_nothing, &result);
    return SR1_OK;
}

/* ---- when the process of the tests dies ---- */

/* How a try went: whether the tests ended with a report, and if not, what is known. */
struct attempt {
    int lost;
    char letter; /* of sr1__read_loss */
    int cause;
};

/* Too much work is not repeated: the limit of processor time is wide. */
static int is_overworked(const struct attempt *t)
{
    return t->letter == SR1__REPORT_DIED && t->cause == SIGXCPU;
}

/* The process of the tests died in each try, with this answer's results and nobody
 * else's. The verdict is the answer's, because an answer that can kill that process could
 * choose to be unknown else, and a wrong one would. It is not kept. */
static void blame_answer(struct sr1_check *c, const struct sr1__check_limits *l,
                         const struct sr1__report *report, const struct attempt *t)
{
    sr1_execution_result result = {.struct_size = sizeof(result)};
    char text[200];

    if (is_overworked(t))
        (void)snprintf(text, sizeof(text),
                       "its results take too much processor time to compare");
    else if (t->cause != 0)
        (void)snprintf(
            text, sizeof(text),
            "signal %d ended the process that compares its results, in each of "
            "%d tries",
            t->cause, TRIES);
    else
        (void)snprintf(
            text, sizeof(text),
            "the process that compares its results failed, in each of %d tries", TRIES);
    result.verdict = is_overworked(t) ? SR1_RUN_TIMEOUT : SR1_RUN_RUNTIME_ERROR;
    result.message = text;
    c->outcome.unsure = 1;
    sr1__take_report(&c->outcome, report, l->all_or_nothing, &result);
}

static sr1_status fail_lost(const struct sr1__check_limits *l, const struct attempt *t)
{
    if (t->letter == SR1__REPORT_NO_FORK) {
        errno = t->cause;
        return sr1__fail_errno("fork", "the process that runs tests");
    }
    SR1__TRY(sr1__tester_lives(l->tester));
    return sr1__fail(SR1_E_IO,
                     "the process that runs tests ended without a report, in "
                     "each of %d tries",
                     TRIES);
}

/* ---- a check ---- */

static sr1_status settle_try(struct sr1_check *c, const struct sr1__check_limits *l,
                             const struct sr1__buf *text, const char *nonce, int is_last,
                             struct attempt *t, int *inside)
{
    struct sr1__report report =
        sr1__read_report(sr1__buf_cstr(text), text->len, nonce, c->outcome.n);

    t->lost = report.last == 0;
    if (!t->lost)
        return take_outside_report(c, l, &report, inside);
    t->letter = sr1__read_loss(report.letters, text->len, nonce, &t->cause);
    if (!is_last && !is_overworked(t))
        return SR1_OK;
    t->lost = 0;
    if (t->letter != SR1__REPORT_DIED)
        return fail_lost(l, t);
    blame_answer(c, l, &report, t);
    return SR1_OK;
}

static sr1_status try_outside(struct sr1_check *c, sr1_sandbox *box,
                              const struct sr1__check_limits *l, int is_last,
                              int64_t *programs, struct attempt *t, int *inside)
{
    struct ends e = {-1, -1, -1, -1, -1};
    struct sr1__buf text;
    char nonce[SR1__NONCE + 1];
    sr1_status status;

    sr1__buf_init(&text, SR1__REPORT_TEXTS + (SR1__NONCE + 1) * c->problem->n_tests);
    status = sr1__make_nonce(nonce);
    if (status == SR1_OK)
        status = start_outside_tests(c, box, l, &e, nonce);
    if (status == SR1_OK) {
        ++*programs;
        status = read_report(e.report, &text);
    }
    if (status == SR1_OK)
        status = settle_try(c, l, &text, nonce, is_last, t, inside);
    sr1__fd_close(&e.report);
    sr1__check_drop(c, 0);
    sr1__buf_free(&text);
    return status;
}

sr1_status sr1__check_outside(struct sr1_check *c, sr1_sandbox *box,
                              const struct sr1__check_limits *l, int64_t *programs,
                              int *inside)
{
    struct attempt t = {.lost = 1};

    *inside = 0;
    for (int i = 1; i <= TRIES && t.lost; i++) {
        t = (struct attempt){0};
        SR1__TRY(try_outside(c, box, l, i == TRIES, programs, &t, inside));
    }
    return SR1_OK;
}
