/* Verdicts of a local sandbox, isolated or not: `test-verdicts bubblewrap`, `... none`.
 */
#include "box.h"

#include "base/utf8.h"
#include "support/torture.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_program_that_ends_well_passes(void **state)
{
    sr1_program p = program_of("import sys\nprint(sys.stdin.read() + 'b', end='')");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.input = "a\0c";
    p.input_bytes = 3;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    assert_int_equal(r.out_bytes, 4);
    assert_memory_equal(r.out, "a\0cb", 5);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.signal, 0);
    assert_int_equal(r.accepted, 1);
    assert_int_equal(r.attempts, 1);
    assert_string_equal(r.err, "");
    assert_string_equal(r.message, "");
    assert_true(r.wall_s > 0 && r.wall_s < 60);
    assert_true(r.cpu_s > 0 && r.cpu_s <= 2 * r.wall_s + 0.1);
    assert_true(r.waited_s >= 0);
    sr1_execution_free(run);
}

static void output_is_compared_where_it_is_expected(void **state)
{
    sr1_program p = program_of("print(1)\nprint(2.0)");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.expected = " 1 \n2\n";
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    sr1_execution_free(run);
    p.expected = "1\n3\n";
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_WRONG);
    assert_int_equal(r.accepted, 0);
    sr1_execution_free(run);
}

/* A NUL is a character like any other, in Python as in an online judge. */
static void what_stands_behind_a_nul_is_compared_too(void **state)
{
    sr1_program p = program_of("print('42\\0 and more')");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.expected = "42";
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_WRONG);
    sr1_execution_free(run);
    p.expected = "42\0 and more\n";
    p.expected_bytes = 13;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    sr1_execution_free(run);
    p.expected = "42\0 and less\n";
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_WRONG);
    sr1_execution_free(run);
}

static void messages_are_one_line_of_utf8(void **state)
{
    sr1_program p = program_of("raise ValueError('na\\u00efve \\u2603\\x1b[2Jx\\x9b')");
    sr1_execution_result r;
    sr1_execution *run;
    static char code[700] = "raise ValueError('";

    (void)state;
    need_box();
    run = run_of(box, &p, &r);
    assert_string_equal(r.message,
                        "exit code 1: ValueError: na\xc3\xafve \xe2\x98\x83?[2Jx?");
    sr1_execution_free(run);
    while (strlen(code) < 600)
        strcat(code, "\xe2\x98\x83");
    strcat(code, "')");
    p.code = code;
    run = run_of(box, &p, &r);
    assert_true(sr1__utf8_valid(r.message, strlen(r.message)));
    sr1_execution_free(run);
}

/* Its standard input lies in memory that no limit counts. */
static void what_a_program_is_given_cannot_be_changed(void **state)
{
    sr1_program p = program_of("import os\n"
                               "for change in (lambda: os.write(0, b'x'),\n"
                               "               lambda: os.ftruncate(0, 1 << 20)):\n"
                               "    try:\n"
                               "        change()\n"
                               "        print('changed')\n"
                               "    except PermissionError:\n"
                               "        pass\n"
                               "print(input())");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.input = "given";
    p.input_bytes = 5;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    assert_string_equal(r.out, "given\n");
    sr1_execution_free(run);
}

static void failures_are_told_apart(void **state)
{
    static const struct {
        const char *code;
        int32_t verdict;
        int32_t exit_code;
        int32_t signal;
        const char *message;
    } rows[] = {
        {"x = nowhere", SR1_RUN_RUNTIME_ERROR, 1, 0,
         "exit code 1: NameError: name 'nowhere' is not defined"},
        {"def f(:", SR1_RUN_RUNTIME_ERROR, 1, 0,
         "exit code 1: SyntaxError: invalid syntax"},
        {"import sys; sys.exit(3)", SR1_RUN_RUNTIME_ERROR, 3, 0, "exit code 3"},
        {"import sys; sys.exit(137)", SR1_RUN_RUNTIME_ERROR, 137, 0, "exit code 137"},
        {"import sys; sys.exit(127)", SR1_RUN_RUNTIME_ERROR, 127, 0, "exit code 127"},
        {"import os; os._exit(255)", SR1_RUN_RUNTIME_ERROR, 255, 0, "exit code 255"},
        {"import sys; sys.exit('no good')", SR1_RUN_RUNTIME_ERROR, 1, 0,
         "exit code 1: no good"},
        {"import os; os.kill(os.getpid(), 9)", SR1_RUN_RUNTIME_ERROR, -1, 9,
         "signal 9 (KILL)"},
        {"import os; os.kill(os.getpid(), 11)", SR1_RUN_RUNTIME_ERROR, -1, 11,
         "signal 11 (SEGV)"},
        {"import os; os.abort()", SR1_RUN_RUNTIME_ERROR, -1, 6, "signal 6 (ABRT)"},
        {"import os, signal; signal.signal(13, signal.SIG_DFL)\n"
         "os.kill(os.getpid(), 13)",
         SR1_RUN_RUNTIME_ERROR, -1, 13, "signal 13 (PIPE)"},
        {"import os; os.kill(os.getpid(), 15)", SR1_RUN_RUNTIME_ERROR, -1, 15,
         "signal 15 (TERM)"},
        {"assert 1 == 2, 'one is not two'", SR1_RUN_RUNTIME_ERROR, 1, 0,
         "exit code 1: AssertionError: one is not two"},
        {"def f(): return f()\nf()", SR1_RUN_RUNTIME_ERROR, 1, 0, NULL},
        {"x = [0] * 10**10", SR1_RUN_MEMORY, 1, 0, "exit code 1: MemoryError"},
        {"x = []\nwhile True: x.append(bytearray(1 << 20))", SR1_RUN_MEMORY, 1, 0, NULL},
        {"x = bytearray(50 << 20); print('fine')", SR1_RUN_PASSED, 0, 0, ""},
        {"print('ok')\nexit()", SR1_RUN_PASSED, 0, 0, ""},
        {"", SR1_RUN_PASSED, 0, 0, ""},
    };

    (void)state;
    need_box();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_program p = program_of(rows[i].code);
        sr1_execution_result r;
        sr1_execution *run;

        p.memory_mib = 256;
        run = run_of(box, &p, &r);
        if (r.verdict != rows[i].verdict || r.exit_code != rows[i].exit_code ||
            r.signal != rows[i].signal ||
            (rows[i].message != NULL && strcmp(r.message, rows[i].message) != 0))
            fail_msg("%s: %s, %d, %d, %s", rows[i].code,
                     sr1_execution_verdict_name(r.verdict), r.exit_code, r.signal,
                     r.message);
        sr1_execution_free(run);
    }
}

static void time_is_limited(void **state)
{
    static const char *const codes[] = {
        "while True: pass",
        "import time\ntime.sleep(1000)",
        ("import signal, time\nfor s in (1, 2, 15, 24): signal.signal(s, "
         "signal.SIG_IGN)\n"
         "time.sleep(1000)"),
        "input()\nwhile True: pass",
    };

    (void)state;
    need_box();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        sr1_program p = program_of(codes[i]);
        sr1_execution_result r;
        sr1_execution *run;

        p.input = "x\n";
        p.input_bytes = 2;
        p.time_s = 1.5;
        run = run_of(box, &p, &r);
        assert_verdict(&r, SR1_RUN_TIMEOUT);
        assert_string_equal(r.message, "stopped after 1.5 s");
        assert_true(r.wall_s >= 1.5 && r.wall_s < 30);
        sr1_execution_free(run);
    }
}

static void processor_time_is_limited(void **state)
{
    sr1_program p = program_of("while True: pass");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.cpu_s = 1;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_TIMEOUT);
    assert_string_equal(r.message, "stopped after 1 s of processor time");
    sr1_execution_free(run);
    p.code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
             "while True: pass";
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_TIMEOUT);
    assert_int_equal(r.signal, SIGKILL);
    assert_true(r.cpu_s > 0.9);
    sr1_execution_free(run);
}

static void the_sandboxs_processor_time_holds_for_all(void **state)
{
    sr1_sandbox_options o = box_options(1);
    sr1_program p = program_of("while True: pass");
    sr1_execution_result r;
    sr1_sandbox *small;
    sr1_execution *run;

    (void)state;
    o.cpu_s = 1;
    small = open_box(&o);
    p.time_s = 50;
    run = run_of(small, &p, &r);
    assert_verdict(&r, SR1_RUN_TIMEOUT);
    assert_string_equal(r.message, "stopped after 1 s of processor time");
    sr1_execution_free(run);
    sr1_sandbox_free(small);
}

/* The least that may be asked for is enough for there to be a verdict. */
static void little_memory_is_a_verdict_too(void **state)
{
    sr1_program p = program_of("print(1)");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.memory_mib = 16;
    run = run_of(box, &p, &r);
    if (r.verdict == SR1_RUN_INFRASTRUCTURE)
        fail_msg("%s", r.message);
    sr1_execution_free(run);
    p.memory_mib = 15;
    run = NULL;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    assert_null(run);
}

static void output_is_limited(void **state)
{
    static const char *const codes[] = {
        "while True: print('x' * 1000)",
        "import sys\nwhile True: sys.stderr.write('x' * 1000)",
        "print('x' * 100001, end='')", /* ends by itself */
    };
    sr1_program p = program_of("print('x' * 100000, end='')");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.output_bytes = 100000;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    assert_int_equal(r.out_bytes, 100000);
    sr1_execution_free(run);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        p.code = codes[i];
        run = run_of(box, &p, &r);
        assert_verdict(&r, SR1_RUN_OUTPUT);
        assert_true(r.out_bytes <= 100000);
        sr1_execution_free(run);
    }
}

static void standard_error_keeps_its_ends(void **state)
{
    sr1_program p = program_of("import sys\n"
                               "sys.stderr.write('first\\n' + 'x' * 50000 + '\\n')\n"
                               "1 / 0");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_RUNTIME_ERROR);
    assert_string_equal(r.message, "exit code 1: ZeroDivisionError: division by zero");
    assert_true(r.err_bytes <= 8192 && r.err_total > 50000);
    assert_memory_equal(r.err, "first\nxxx", 9);
    assert_non_null(strstr(r.err, " bytes left out]\n"));
    assert_non_null(strstr(r.err, "ZeroDivisionError: division by zero\n"));
    sr1_execution_free(run);
}

static void files_and_arguments_go_along(void **state)
{
    const char *args[] = {"one", "two words", ""};
    const char *paths[] = {"helper.py", "data/in/x.bin", "empty"};
    const char *bytes[] = {"VALUE = 7\n", "\0\1\2", NULL};
    const size_t sizes[] = {10, 3, 0};
    sr1_program p = program_of("import sys, helper, os\n"
                               "print(sys.argv[1:], helper.VALUE,"
                               " open('data/in/x.bin', 'rb').read(),"
                               " os.path.getsize('empty'), sys.argv[0], __name__)");
    sr1_execution_result r;
    sr1_execution *run;

    (void)state;
    need_box();
    p.args = args;
    p.n_args = 3;
    p.file_paths = paths;
    p.file_bytes = bytes;
    p.file_sizes = sizes;
    p.n_files = 3;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_PASSED);
    assert_string_equal(
        r.out, "['one', 'two words', ''] 7 b'\\x00\\x01\\x02' 0 main.py __main__\n");
    sr1_execution_free(run);
}

static void paths_of_files_stay_below(void **state)
{
    static const char *const bad[] = {"/etc/x", "../x",      "a/../b",  ".",
                                      "a/.",    "a//b",      "main.py", "",
                                      "a/",     "main.py/x", "./a",     ".."};
    const char *two[] = {"a", "a/b"};
    const char *bytes[] = {"", ""};
    const size_t sizes[] = {0, 0};
    sr1_program p = program_of("");
    sr1_execution *run = NULL;

    (void)state;
    need_box();
    p.file_bytes = bytes;
    p.file_sizes = sizes;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p.file_paths = &bad[i];
        p.n_files = 1;
        if (sr1_sandbox_start(box, &p, &run) != SR1_E_INVALID)
            fail_msg("'%s' was taken", bad[i]);
    }
    p.file_paths = two;
    p.n_files = 2;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    assert_null(run);
}

static void wrong_programs_are_refused(void **state)
{
    sr1_program p = program_of(NULL);
    sr1_submission s;
    sr1_execution *run = NULL;

    (void)state;
    need_box();
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    assert_int_equal(sr1_sandbox_start(box, NULL, &run), SR1_E_INVALID);
    assert_int_equal(sr1_sandbox_start(NULL, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.language = "cpp";
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_UNSUPPORTED);
    p = program_of("1");
    p.time_s = -1;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.input_bytes = 3;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    sr1_submission_init(&s);
    s.completion = "x";
    s.provided_data = "{}";
    assert_int_equal(sr1_sandbox_submit(box, &s, &run), SR1_E_UNSUPPORTED);
    assert_null(run);
}

static void options_out_of_range_are_refused(void **state)
{
    sr1_sandbox_options o = box_options(1);
    const char *relative[] = {"lib"};
    sr1_sandbox *none = NULL;

    (void)state;
    o.concurrency = -1;
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o = box_options(1);
    o.time_s = 0;
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o = box_options(1);
    o.isolation = "chroot";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o.isolation = NULL;
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o = box_options(1);
    o.kind = "docker";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o = box_options(1);
    o.read_only = relative;
    o.n_read_only = 1;
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o = box_options(1);
    o.interpreter = "/nowhere/python3";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_UNSUPPORTED);
    o = box_options(1);
    o.interpreter = "/usr/bin/false";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_UNSUPPORTED);
    assert_int_equal(sr1_sandbox_open(NULL, NULL), SR1_E_INVALID);
    assert_null(none);
}

static void the_environment_is_not_the_hosts(void **state)
{
    (void)state;
    need_box();
    setenv("SR1_TEST_SECRET", "hunter2", 1);
    expect(box, "import os\nprint('SR1_TEST_SECRET' in os.environ, len(os.environ) < 12)",
           SR1_RUN_PASSED, "False True\n");
    unsetenv("SR1_TEST_SECRET");
}

static void descriptors_of_the_host_stay_here(void **state)
{
    int pipe_fds[2];

    (void)state;
    need_box();
    assert_int_equal(pipe(pipe_fds), 0); /* not close-on-exec */
    expect(box,
           "import os\n"
           "def is_open(f):\n"
           "    try: os.fstat(f)\n"
           "    except OSError: return False\n"
           "    return True\n"
           "print([f for f in range(500) if is_open(f)])",
           SR1_RUN_PASSED, "[0, 1, 2]\n");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* Signal dispositions and masks of the host do not go over. */
static void signals_of_the_host_stay_here(void **state)
{
    struct sigaction old;
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)state;
    need_box();
    assert_int_equal(sigaction(SIGTERM, &ignore, &old), 0);
    expect(box,
           "import signal\n"
           "print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,"
           " signal.pthread_sigmask(signal.SIG_BLOCK, []))",
           SR1_RUN_PASSED, "True set()\n");
    assert_int_equal(sigaction(SIGTERM, &old, NULL), 0);
}

/* A child of the host's is not waited for, and a host that ignores SIGCHLD is served as
 * far as that goes. */
static void children_of_the_host_are_its_own(void **state)
{
    struct sigaction old;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int status = 0;
    pid_t pid;

    (void)state;
    need_box();
    pid = fork();
    if (pid == 0)
        _exit(42);
    expect(box, "print(1)", SR1_RUN_PASSED, "1\n");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_int_equal(sigaction(SIGCHLD, &ignore, &old), 0);
    expect(box, "print(1)", is_isolated() ? SR1_RUN_PASSED : SR1_RUN_INFRASTRUCTURE,
           NULL);
    if (is_isolated())
        expect(box, "import sys; sys.exit(4)", SR1_RUN_RUNTIME_ERROR, NULL);
    assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
}

static void runs_can_be_cancelled(void **state)
{
    sr1_sandbox_options o = box_options(1);
    sr1_program p = program_of("import time\nprint(1, flush=True)\ntime.sleep(1000)");
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *runs[20];
    sr1_sandbox *one;
    double begun;

    (void)state;
    need_box();
    p.time_s = 500;
    one = open_box(&o);
    for (int i = 0; i < 20; i++)
        assert_int_equal(sr1_sandbox_start(one, &p, &runs[i]), SR1_OK);
    assert_int_equal(sr1_execution_wait(runs[0], 0.3), SR1_E_TIMEOUT);
    assert_int_equal(sr1_execution_result_get(runs[0], &r), SR1_E_STATE);
    begun = sr1__now();
    for (int i = 19; i >= 0; i--)
        sr1_execution_cancel(runs[i]);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sr1_execution_wait(runs[i], 30), SR1_OK);
        assert_int_equal(sr1_execution_result_get(runs[i], &r), SR1_OK);
        assert_verdict(&r, SR1_RUN_CANCELLED);
        sr1_execution_cancel(runs[i]);
        sr1_execution_free(runs[i]);
    }
    assert_true(sr1__now() - begun < 30);
    sr1_execution_cancel(NULL);
    sr1_execution_free(NULL);
    sr1_sandbox_free(one);
}

static void runs_outlive_their_sandbox(void **state)
{
    sr1_sandbox_options o = box_options(2);
    sr1_program p = program_of("import time\ntime.sleep(1000)");
    sr1_execution *runs[8];
    sr1_sandbox *other;

    (void)state;
    need_box();
    other = open_box(&o);
    for (int i = 0; i < 8; i++)
        assert_int_equal(sr1_sandbox_start(other, &p, &runs[i]), SR1_OK);
    (void)sr1_execution_wait(runs[0], 0.2);
    sr1_execution_free(runs[7]);
    assert_ptr_equal(sr1_sandbox_retain(other), other);
    sr1_sandbox_free(other);
    assert_int_equal(sr1_execution_wait(runs[0], 0), SR1_E_TIMEOUT);
    sr1_sandbox_free(other);
    expect_all(runs, 7, 0, SR1_RUN_CANCELLED);
}

static void the_queue_is_bounded_and_counted(void **state)
{
    sr1_sandbox_options o = box_options(1);
    sr1_program p = program_of("import time\ntime.sleep(1000)");
    sr1_sandbox_counters c = {.struct_size = sizeof c};
    sr1_execution *runs[3] = {NULL}, *refused = NULL;
    sr1_sandbox *small;
    int n = 0;

    (void)state;
    need_box();
    o.queue_max = 1;
    small = open_box(&o);
    p.time_s = 500;
    /* Two may run: one of them is old after a second. */
    for (double until = sr1__now() + 60; n < 3 && sr1__now() < until;)
        if (sr1_sandbox_start(small, &p, &runs[n]) == SR1_OK)
            n++;
        else
            usleep(20000);
    assert_int_equal(n, 3);
    assert_int_equal(sr1_sandbox_start(small, &p, &refused), SR1_E_LIMIT);
    assert_null(refused);
    assert_int_equal(sr1_sandbox_counters_get(small, &c), SR1_OK);
    assert_int_equal(c.started, 3);
    assert_int_equal(c.ended, 0);
    assert_int_equal(c.waiting, 1);
    assert_int_equal(c.running, 2);
    for (int i = 0; i < 3; i++) {
        sr1_execution_cancel(runs[i]);
        assert_int_equal(sr1_execution_wait(runs[i], 30), SR1_OK);
        sr1_execution_free(runs[i]);
    }
    assert_int_equal(sr1_sandbox_counters_get(small, &c), SR1_OK);
    assert_int_equal(c.ended, 3);
    assert_int_equal(c.verdicts[SR1_RUN_CANCELLED], 3);
    assert_int_equal(c.waiting + c.running, 0);
    sr1_sandbox_free(small);
}

static sr1_status open_and_run(void *arg)
{
    sr1_sandbox_options o = box_options(1);
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_program p = program_of("print(input())");
    const char *args[] = {"x"};
    const char *paths[] = {"a/b"};
    const char *bytes[] = {"y"};
    const size_t sizes[] = {1};
    sr1_sandbox *made = NULL;
    sr1_execution *run = NULL;
    sr1_status status;

    (void)arg;
    o.retries = 0;
    p.input = "hello";
    p.input_bytes = 5;
    p.expected = "hello";
    p.args = args;
    p.n_args = 1;
    p.file_paths = paths;
    p.file_bytes = bytes;
    p.file_sizes = sizes;
    p.n_files = 1;
    status = sr1_sandbox_open(&made, &o);
    if (status == SR1_OK)
        status = sr1_sandbox_run(made, &p, &run);
    if (status == SR1_OK)
        status = sr1_execution_result_get(run, &r);
    if (status == SR1_OK && r.verdict != SR1_RUN_PASSED)
        status = r.verdict == SR1_RUN_INFRASTRUCTURE ? SR1_E_NOMEM : SR1_E_INTERNAL;
    assert_int_not_equal(status, SR1_E_INTERNAL);
    sr1_execution_free(run);
    sr1_sandbox_free(made);
    return status;
}

/* One that the box does not hold is found out at opening, with its reason. */
static void an_interpreter_outside_is_refused(void **state)
{
    char folder[] = "/tmp/sr1-test-interpreter-XXXXXX", bin[64], path[80], said[160];
    sr1_sandbox_options o = box_options(1);
    sr1_sandbox *other = NULL;
    FILE *f;

    (void)state;
    need_box();
    assert_non_null(mkdtemp(folder));
    snprintf(bin, sizeof bin, "%s/bin", folder);
    snprintf(path, sizeof path, "%s/python3", bin);
    snprintf(said, sizeof said,
             "sandbox_read_only (--read-only): name its folder there, %s,", folder);
    assert_int_equal(mkdir(bin, 0755), 0);
    assert_non_null(f = fopen(path, "w"));
    assert_int_equal(fchmod(fileno(f), 0755), 0);
    fclose(f);
    o.interpreter = path;
    if (is_isolated()) {
        assert_int_equal(sr1_sandbox_open(&other, &o), SR1_E_UNSUPPORTED);
        assert_non_null(strstr(sr1_last_error(),
                               "cannot start the interpreter for it: No such file"));
        assert_non_null(strstr(sr1_last_error(), said));
    }
    unlink(path);
    rmdir(bin);
    rmdir(folder);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    need_box();
    sr1_sandbox_free(box);
    box = NULL;
    assert_true(torture(open_and_run, NULL) > 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_that_ends_well_passes),
        cmocka_unit_test(output_is_compared_where_it_is_expected),
        cmocka_unit_test(what_stands_behind_a_nul_is_compared_too),
        cmocka_unit_test(messages_are_one_line_of_utf8),
        cmocka_unit_test(what_a_program_is_given_cannot_be_changed),
        cmocka_unit_test(failures_are_told_apart),
        cmocka_unit_test(time_is_limited),
        cmocka_unit_test(processor_time_is_limited),
        cmocka_unit_test(the_sandboxs_processor_time_holds_for_all),
        cmocka_unit_test(little_memory_is_a_verdict_too),
        cmocka_unit_test(output_is_limited),
        cmocka_unit_test(standard_error_keeps_its_ends),
        cmocka_unit_test(files_and_arguments_go_along),
        cmocka_unit_test(paths_of_files_stay_below),
        cmocka_unit_test(wrong_programs_are_refused),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(the_environment_is_not_the_hosts),
        cmocka_unit_test(descriptors_of_the_host_stay_here),
        cmocka_unit_test(signals_of_the_host_stay_here),
        cmocka_unit_test(children_of_the_host_are_its_own),
        cmocka_unit_test(runs_can_be_cancelled),
        cmocka_unit_test(runs_outlive_their_sandbox),
        cmocka_unit_test(the_queue_is_bounded_and_counted),
        cmocka_unit_test(an_interpreter_outside_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };

    take_isolation(argc, argv);
    return cmocka_run_group_tests(tests, NULL, close_box);
}
