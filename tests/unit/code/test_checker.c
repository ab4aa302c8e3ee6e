/* Answers run against their tests on a local sandbox: verdicts of each style and mode,
 * answers that try to pass without passing, the cache, cancelling. */
#include "support/files.h"
#include "support/http_server.h"
#include "support/language.h"
#include "support/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "environment/code/check_cache.h"
#include "environment/code/code_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sr1_sandbox *box;

/* Isolated where that can be had here. */
static int open_box(void **state)
{
    sr1_sandbox_options o;

    sr1_sandbox_options_init(&o);
    if (sr1_sandbox_open(&box, &o) != SR1_OK) {
        o.isolation = "none";
        if (sr1_sandbox_open(&box, &o) != SR1_OK)
            fail_msg("%s", sr1_last_error());
    }
    return scratch_make(state);
}

static int close_box(void **state)
{
    sr1_sandbox_free(box);
    return scratch_remove(state);
}

static sr1_problems *parse(const char *row)
{
    sr1_problems *set = NULL;

    if (sr1_problems_parse(&set, row, strlen(row), "row", NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return set;
}

static sr1_checker *checker_with(const sr1_checker_options *o)
{
    sr1_checker *k = NULL;

    if (sr1_checker_new(&k, box, o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return k;
}

static sr1_checker *make(int32_t all_or_nothing)
{
    sr1_checker_options o = {
        .struct_size = sizeof(o), .all_or_nothing = all_or_nothing, .time_limit = 5};

    return checker_with(&o);
}

static sr1_check *run(sr1_checker *k, const sr1_problems *set, const char *program)
{
    sr1_check *c = NULL;

    if (sr1_checker_run(k, sr1_problems_at(set, 0), SR1_CHECK_PROGRAM, program,
                        strlen(program), &c) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return c;
}

static sr1_check_report report_of(const sr1_check *c)
{
    sr1_check_report r = {.struct_size = sizeof(r)};

    assert_int_equal(sr1_check_report_get(c, &r), SR1_OK);
    return r;
}

static int64_t programs(const sr1_checker *k)
{
    sr1_checker_stats s = {.struct_size = sizeof(s)};

    assert_int_equal(sr1_checker_stats_get(k, &s), SR1_OK);
    return s.programs;
}

/* The verdicts of the tests as letters: PWRTMO, - skipped, ? anything else. */
static void verdicts_are(sr1_checker *k, const sr1_problems *set, const char *program,
                         const char *letters)
{
    sr1_check *c = run(k, set, program);
    sr1_check_report r = report_of(c);
    char got[64] = "";

    for (size_t i = 0; i < (size_t)r.tests && i < 63; i++) {
        int32_t v = sr1_check_verdict(c, i);

        got[i] = v == SR1_CHECK_SKIPPED ? '-' : v >= 0 && v < 6 ? "PWRTMO"[v] : '?';
    }
    if (strcmp(got, letters) != 0)
        fail_msg("'%s' not '%s': %s\n%s", got, letters, program, r.error);
    assert_int_equal(sr1_check_verdict(c, (size_t)r.tests), -1);
    assert_int_equal(r.verdict == SR1_RUN_PASSED,
                     strspn(letters, "P") == strlen(letters));
    sr1_check_free(c);
}

/* ---- statements ---- */

static const char add_row[] =
    "{\"id\": 1, \"problem\": \"Add.\", \"tests\": [\"assert add(1, 2) == 3\", \"assert "
    "add(-1, 1) == 0\", \"assert add('a', 'b') == 'ab'\"]}";

static void statements_are_run(void **state)
{
    sr1_problems *set = parse(add_row);
    sr1_checker *all = make(1), *each = make(0);

    (void)state;
    verdicts_are(all, set, "def add(a, b):\n    return a + b\n", "PPP");
    verdicts_are(each, set, "def add(a, b):\n    return a + b\n", "PPP");
    verdicts_are(all, set, "def add(a, b): return abs(a) + b", "PW-");
    verdicts_are(each, set, "def add(a, b): return a + b if b != 1 else 7", "PWP");
    verdicts_are(each, set, "def add(a, b): return abs(a) + b", "PWR");
    verdicts_are(all, set, "def sub(a, b): return a - b", "R--");
    verdicts_are(each, set, "def add(a, b) return", "RRR");
    verdicts_are(all, set, "def add(a, b): assert a > 0; return a + b", "PR-");
    verdicts_are(each, set, "def add(a, b): return bytearray(10**13)", "MMM");
    verdicts_are(all, set, "", "R--");
    sr1_checker_free(all);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

static void the_first_failure_is_told(void **state)
{
    sr1_problems *set = parse(add_row);
    sr1_checker *each = make(0);
    sr1_check *c = run(each, set,
                       "def add(a, b):\n    if a == -1:\n        return 'no'\n"
                       "    return a + b");
    sr1_check_report r = report_of(c);

    (void)state;
    assert_int_equal(r.verdict, SR1_RUN_WRONG);
    assert_int_equal(r.first_failed, 1);
    assert_int_equal(r.passed, 2);
    assert_true(fabs(r.pass_rate - 2.0 / 3) < 1e-15);
    assert_string_equal(r.got, "'no'");
    assert_non_null(strstr(r.error, "assert add(-1, 1) == 0"));
    sr1_check_free(c);
    c = run(each, set, "def add(a, b):\n    return [a][b]");
    r = report_of(c);
    assert_int_equal(r.verdict, SR1_RUN_RUNTIME_ERROR);
    assert_non_null(strstr(r.error, "return [a][b]"));
    assert_non_null(strstr(r.error, "IndexError"));
    assert_null(strstr(r.error, "driver"));
    sr1_check_free(c);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

static void leaving_early_passes_nothing(void **state)
{
    static const char *const tricks[] = {
        "import sys\nsys.exit(0)",
        "raise SystemExit",
        "exit()",
        "import os\nos._exit(0)",
        "import os\nprint('PPP\\nP 0 0')\nos._exit(0)",
        "import os\nfor i in range(20):\n    try: os.write(i, b'PPP')\n"
        "    except OSError: pass\nos._exit(0)",
        "def add(a, b):\n    import os\n    os._exit(0)",
        "def add(a, b):\n    raise SystemExit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import threading, os\nthreading.Timer(0, lambda: os._exit(0)).start()\n"
        "def add(a, b):\n    while True: pass",
        "import atexit\natexit.register(print, 'PPP')",
    };
    sr1_problems *set = parse(add_row);
    sr1_checker *k[2] = {make(1), make(0)};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(tricks) / sizeof(tricks[0]); i++) {
        sr1_check *c = run(k[i % 2], set, tricks[i / 2]);
        sr1_check_report r = report_of(c);

        if (r.passed != 0 || r.verdict == SR1_RUN_PASSED)
            fail_msg("passed: %s", tricks[i / 2]);
        sr1_check_free(c);
    }
    sr1_checker_free(k[0]);
    sr1_checker_free(k[1]);
    sr1_problems_free(set);
}

/* A right answer whose program ends badly behind its tests, as in one file. */
static void the_end_of_a_program_counts(void **state)
{
    static const struct {
        const char *code;
        int32_t verdict;
    } ends[] = {
        {"import atexit, os\natexit.register(os._exit, 3)\n", SR1_RUN_RUNTIME_ERROR},
        {"import threading, os\nthreading.Timer(0.1, os._exit, (3,)).start()\n",
         SR1_RUN_RUNTIME_ERROR},
        {"import atexit, threading\n", SR1_RUN_PASSED},
    };
    sr1_problems *set = parse(add_row);
    sr1_checker *k = make(1);

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char code[200];
        sr1_check *c;

        (void)snprintf(code, sizeof(code), "%sdef add(a, b):\n    return a + b",
                       ends[i].code);
        c = run(k, set, code);
        assert_int_equal(report_of(c).verdict, ends[i].verdict);
        sr1_check_free(c);
    }
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* As they would in one file below the answer. */
static void statements_share_what_a_file_would(void **state)
{
    sr1_problems *set =
        parse("{\"id\": 1, \"problem\": \"p\", \"setup\": \"import math\", "
              "\"tests\": [\"n = step()\", \"assert n == 1 and step() == "
              "2\", \"assert math.pi > 3 and __name__ == '__main__'\"]}");
    static const char counter[] = "n = 5\nk = 0\ndef step():\n    global k\n    k += 1\n"
                                  "    return k\n";
    sr1_checker *all = make(1), *each = make(0);

    (void)state;
    verdicts_are(all, set, counter, "PPP");
    verdicts_are(each, set, counter, "PWP");
    sr1_checker_free(all);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

static void the_hosts_language_changes_nothing(void **state)
{
    sr1_problems *set;
    sr1_checker *all, *each;

    (void)state;
    if (!speak_german())
        skip();
    set = parse(add_row);
    all = make(1);
    each = make(0);
    verdicts_are(all, set, "def add(a, b): return a + b", "PPP");
    verdicts_are(each, set, "def add(a, b): return a + b", "PPP");
    speak_plainly();
    sr1_checker_free(all);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

static void time_runs_out_test_by_test(void **state)
{
    sr1_problems *set = parse(add_row);
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 1};
    sr1_checker *each = checker_with(&o), *all;

    (void)state;
    verdicts_are(each, set, "def add(a, b):\n    while a == -1: pass\n    return a + b",
                 "PTP");
    verdicts_are(each, set, "while True: pass", "TTT");
    o.all_or_nothing = 1;
    all = checker_with(&o);
    verdicts_are(all, set, "def add(a, b):\n    while a == -1: pass\n    return a + b",
                 "PT-");
    sr1_checker_free(each);
    sr1_checker_free(all);
    sr1_problems_free(set);
}

/* ---- calls ---- */

static void functions_are_called(void **state)
{
    sr1_problems *set = parse(
        "{\"id\": 1, \"problem\": \"p\", \"entry_point\": \"f\", \"tests\": [{\"args\": "
        "[[1, 2], 3], \"expected\": [3, 6]}, {\"args\": [[], 0], \"expected\": []}]}");
    sr1_checker *all = make(1), *each = make(0);

    (void)state;
    verdicts_are(all, set, "def f(a, k): return [x * k for x in a]", "PP");
    verdicts_are(all, set,
                 "class Solution:\n    def f(self, a: List[int], k: int) -> List[int]:\n"
                 "        return tuple(x * k for x in a)",
                 "PP");
    verdicts_are(each, set, "def f(a, k): return [x + k for x in a]", "WP");
    verdicts_are(each, set, "def g(a, k): return [x + k for x in a]", "RR");
    verdicts_are(each, set, "import os\ndef f(a, k): os._exit(0)", "RR");
    sr1_checker_free(all);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

/* APPS: results in a list; numbers longer than any of C's. */
static void results_of_apps_may_stand_in_a_list(void **state)
{
    sr1_problems *set = parse(
        "{\"id\": 6, \"question\": \"Big\", \"input_output\": \"{\\\"fn_name\\\": \\\"big"
        "\\\", \\\"inputs\\\": [[30], [1]], \\\"outputs\\\": "
        "[[1000000000000000000000000000000], 10]}\"}");
    sr1_checker *each = make(0);

    (void)state;
    verdicts_are(each, set, "def big(n): return pow(10, n)", "PP");
    verdicts_are(each, set, "def big(n): return [pow(10, n)]", "PW");
    sr1_checker_free(each);
    sr1_problems_free(set);
}

/* ---- what is judged apart from the answer ---- */

/* One test and a right answer a row: what goes over and comes back is what it was. */
static void values_are_what_they_were(void **state)
{
    static const char *const rows[][2] = {
        {"assert f(2) is None and f(3) is True",
         "def f(n): return True if n == 3 else None"},
        {"assert f() == (1, '\\u00e9', b'x', 2.5, 1j, {1, 2}, {'a': [1]}) and "
         "f()[6]['a'] == [1]",
         "def f(): return (1, '\u00e9', b'x', 2.5, 1j, {1, 2}, {'a': [1]})"},
        {"assert type(f()) is tuple and type(f()[0]) is bool",
         "def f(): return (True, 1)"},
        {"assert f(-(2 ** 5000)) == 2 ** 5000", "def f(n): return -n"},
        {"assert f([1.5] * 20 + [2 ** 64]) == [1.5] * 20 + [2 ** 64]",
         "def f(a): return list(a)"},
        {"assert f(range(50)) == list(range(50))", "def f(a): return [n for n in a]"},
        {"import math\\nassert math.isnan(f()) and f() != f()",
         "def f(): return float('nan')"},
        {"assert f('aab') == {'a': 2, 'b': 1}",
         "from collections import Counter\ndef f(s): return Counter(s)"},
        {"from decimal import Decimal\\nassert f('0.1') == Decimal('0.1')",
         "from decimal import Decimal\ndef f(s): return Decimal(s)"},
        {"assert f(3) == (3, 4)", "from collections import namedtuple\n"
                                  "P = namedtuple('P', 'x y')\n"
                                  "def f(n): return P(n, n + 1)"},
        {"assert list(f(3)) == [0, 1, 2] and sorted(f(2)) == [0, 1]",
         "def f(n): yield from range(n)"},
        {"a = [3, [1], 2]\\nb = a[1]\\nf(a)\\nassert a == [3, [1, 9]] and b == [1, 9]",
         "def f(a):\n    a[1].append(9)\n    a.pop()"},
        {"assert f([1, 2], lambda x: x + 1) == [2, 3] and f([1], str) == ['1']",
         "def f(a, g): return [g(x) for x in a]"},
        {"root = Node(1)\\nroot.left = Node(2)\\nassert f(root) == 2 and root.left.v == "
         "2",
         "class Node:\n    def __init__(self, v): self.v, self.left = v, None\n"
         "def f(n): return 1 + f(n.left) if n else 0"},
        {"class Node:\\n    v = 5\\nassert f(Node()) == 5", "def f(n): return n.v"},
        {"try:\\n    f(-1)\\n    assert False\\nexcept ValueError as e:\\n    assert "
         "str(e) "
         "== 'below'",
         "def f(n):\n    if n < 0: raise ValueError('below')"},
        {"assert sum(10, 15) == 6", "def sum(a, b): return 6"},
        {"assert isclose(f(2), 1.41421356, rel_tol=1e-6) and math.isclose(f(4), 2)",
         "import math\nfrom math import isclose\ndef f(n): return n ** .5"},
    };
    sr1_checker *k[2] = {make(1), make(0)};
    char row[512];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sr1_problems *set;

        snprintf(row, sizeof(row), "{\"id\": 1, \"problem\": \"p\", \"tests\": [\"%s\"]}",
                 rows[i][0]);
        set = parse(row);
        verdicts_are(k[0], set, rows[i][1], "P");
        verdicts_are(k[1], set, rows[i][1], "P");
        sr1_problems_free(set);
    }
    sr1_checker_free(k[0]);
    sr1_checker_free(k[1]);
}

/* As deep as in one file with its tests. */
static void calls_go_as_deep_as_in_one_file(void **state)
{
    static const char deep[] = "d = 0\ndef g(n):\n    global d\n    d = n\n"
                               "    return g(n + 1)\n"
                               "def f():\n    try: g(1)\n"
                               "    except RecursionError: return d\n";
    sr1_problems *set =
        parse("{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert f() == 998\"]}");
    sr1_checker *all = make(1);

    (void)state;
    verdicts_are(all, set, deep, "P");
    sr1_checker_free(all);
    sr1_problems_free(set);
}

/* ---- when the process of the tests dies ---- */

/* A test that kills the process it runs in, the first so many times. */
static sr1_problems *killing(const char *mark, int times, const char *how)
{
    char row[1024];

    snprintf(row, sizeof(row),
             "{\"id\": 1, \"problem\": \"p\", \"setup\": \"import os, signal\\n"
             "with open('/tmp/sr1-%s-%d', 'a+') as file:\\n"
             "    file.write('x')\\n    file.flush()\\n"
             "    count = os.fstat(file.fileno()).st_size\\n"
             "    os.unlink(file.name) if count > %d else None\\n\", "
             "\"tests\": [\"assert f() == 1\", \"f()\\nif count <= %d: %s\"]}",
             mark, (int)getpid(), times, times, how);
    return parse(row);
}

static void a_killed_judge_says_nothing_of_the_answer(void **state)
{
    sr1_checker_options o = {.struct_size = sizeof(o), .all_or_nothing = 1};
    sr1_problems *set = killing("twice", 2, "os.kill(os.getpid(), 9)");
    sr1_checker *k = checker_with(&o);
    sr1_check *c;

    (void)state;
    verdicts_are(k, set, "def f(): return 1", "PP");
    assert_int_equal(programs(k), 3);
    c = run(k, set, "def f(): return 1"); /* the last try is known */
    assert_int_equal(report_of(c).cached, 1);
    sr1_check_free(c);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* Else a wrong answer that can kill it would choose to be unknown. */
static void an_answer_that_always_kills_its_judge_fails(void **state)
{
    static const struct {
        const char *how, *letters, *text;
        int tries;
    } rows[] = {{"os.kill(os.getpid(), 9)", "PR", "signal 9 ended", 3},
                {"os._exit(3)", "PR", "failed, in each of 3 tries", 3},
                {"os.kill(os.getpid(), signal.SIGXCPU)", "PT", "processor time", 1}};
    sr1_checker_options o = {.struct_size = sizeof(o), .all_or_nothing = 1};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sr1_problems *set = killing("always", 1000, rows[i].how);
        sr1_checker *k = checker_with(&o);

        for (int64_t n = 1; n <= 2; n++) { /* it is not kept */
            sr1_check *c = run(k, set, "def f(): return 1");

            assert_int_equal(report_of(c).cached, 0);
            assert_non_null(strstr(report_of(c).error, rows[i].text));
            assert_int_equal(programs(k), n * rows[i].tries);
            sr1_check_free(c);
        }
        verdicts_are(k, set, "def f(): return 1", rows[i].letters);
        sr1_checker_free(k);
        sr1_problems_free(set);
    }
}

/* A result may take as much memory outside the answer's process as inside. */
static void memory_of_results_follows_the_limit(void **state)
{
    static const int64_t mib[] = {256, 4096};
    static const char *const letters[] = {"M", "P"};
    sr1_problems *set = parse(
        "{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert len(f() * 1500) == 1500 "
        "<< 20\"]}");

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_checker_options o = {.struct_size = sizeof(o),
                                 .time_limit = 20,
                                 .all_or_nothing = 1,
                                 .memory_limit = mib[i] << 20};
        sr1_checker *k = checker_with(&o);

        verdicts_are(k, set, "def f(): return b'x' * (1 << 20)", letters[i]);
        sr1_checker_free(k);
    }
    sr1_problems_free(set);
}

/* Only the process of the answer can say what an object of its own is equal to: it is
 * asked where that is allowed, and then it is told. */
static void what_an_answer_says_of_itself_is_marked(void **state)
{
    sr1_problems *set = parse("{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert P(1) "
                              "== P(1)\", \"assert P(1) != P(2)\"]}");
    static const char equal[] = "class P:\n    def __init__(self, n): self.n = n\n"
                                "    def __eq__(self, other): return self.n == other.n\n";
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 5, .judge = "any"};
    sr1_checker *outside = make(0), *any = checker_with(&o);
    sr1_checker_stats s = {.struct_size = sizeof(s)};
    sr1_check *c;

    (void)state;
    verdicts_are(outside, set, equal, "WW");
    c = run(outside, set, equal);
    assert_false(report_of(c).judged_inside);
    assert_non_null(strstr(report_of(c).error, "objects of the answer"));
    sr1_check_free(c);
    for (int i = 0; i < 2; i++) { /* and when it is known from before */
        c = run(any, set, equal);
        assert_int_equal(report_of(c).verdict, SR1_RUN_PASSED);
        assert_true(report_of(c).judged_inside);
        assert_int_equal(report_of(c).cached, i);
        sr1_check_free(c);
    }
    c = run(any, set, "class P(int): pass");
    assert_int_equal(report_of(c).verdict, SR1_RUN_PASSED);
    assert_false(report_of(c).judged_inside);
    sr1_check_free(c);
    assert_int_equal(sr1_checker_stats_get(any, &s), SR1_OK);
    assert_int_equal(s.judged_inside, 2);
    sr1_checker_free(outside);
    sr1_checker_free(any);
    sr1_problems_free(set);
}

/* A service runs programs, and nothing that could ask one of them. */
static void a_service_judges_inside_or_not_at_all(void **state)
{
    sr1_sandbox_options so;
    sr1_checker_options o = {.struct_size = sizeof(o)};
    sr1_problems *set = parse(add_row);
    sr1_sandbox *service = NULL;
    sr1_checker *k = NULL;
    sr1_check *c = NULL;

    (void)state;
    sr1_sandbox_options_init(&so);
    so.kind = "fusion";
    so.url = "http://127.0.0.1:9";
    assert_int_equal(sr1_sandbox_open(&service, &so), SR1_OK);
    assert_int_equal(sr1_checker_new(&k, service, &o), SR1_OK);
    assert_int_equal(
        sr1_checker_submit(k, sr1_problems_at(set, 0), SR1_CHECK_PROGRAM, "x", 1, &c),
        SR1_E_UNSUPPORTED);
    assert_null(c);
    assert_non_null(strstr(sr1_last_error(), "code_judge: any"));
    sr1_checker_free(k);
    sr1_sandbox_free(service);
    sr1_problems_free(set);
}

/* ---- standard input and output ---- */

static const char double_row[] =
    "{\"id\": 1, \"problem\": \"Double.\", \"tests\": [{\"stdin\": \"1\\n\", \"stdout\": "
    "\"2\\n\"}, {\"stdin\": \"2\\n\", \"stdout\": \"4\\n\"}, {\"stdin\": \"3\\n\", "
    "\"stdout\": \"6\\n\"}, {\"stdin\": \"4\\n\", \"stdout\": \"8\\n\"}, {\"stdin\": "
    "\"5\\n\", \"stdout\": \"10\"}, {\"stdin\": \"6\\n\", \"stdout\": \"12\"}]}";

static void programs_are_given_input(void **state)
{
    sr1_problems *set = parse(double_row);
    sr1_checker *all = make(1), *each = make(0);
    sr1_check *c;
    sr1_check_report r;

    (void)state;
    verdicts_are(all, set, "print(int(input()) * 2)", "PPPPPP");
    verdicts_are(each, set, "n = int(input())\nprint(n * 2 if n != 3 else 'seven')",
                 "PPWPPP");
    verdicts_are(all, set, "n = int(input())\nprint(n * 2 if n != 3 else 'seven')",
                 "PPW---");
    verdicts_are(each, set, "n = int(input())\nprint(n * 2)\nif n == 2: exit(1)",
                 "PRPPPP");
    verdicts_are(all, set, "import sys\nsys.exit(0)", "W-----");
    c = run(each, set, "n = int(input())\nprint(n * 2 if n != 3 else 'seven')");
    r = report_of(c);
    assert_int_equal(r.first_failed, 2);
    assert_string_equal(r.got, "seven\n");
    assert_true(fabs(r.pass_rate - 5.0 / 6) < 1e-15);
    sr1_check_free(c);
    c = run(all, set, "print(int(input()) / 0)");
    assert_non_null(strstr(report_of(c).error, "ZeroDivisionError"));
    sr1_check_free(c);
    sr1_checker_free(all);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

static void outputs_may_hold_a_nul(void **state)
{
    sr1_problems *set = parse("{\"id\": 1, \"problem\": \"Write.\", \"tests\": "
                              "[{\"stdin\": \"\", \"stdout\": \"a\\u0000b\"}]}");
    sr1_checker *k = make(1);

    (void)state;
    verdicts_are(k, set, "print('a\\0b')", "P");
    verdicts_are(k, set, "print('a')", "W");
    verdicts_are(k, set, "print('a\\0c')", "W");
    sr1_checker_free(k);
    sr1_problems_free(set);
}

static void one_waits_for_a_number_of_seconds(void **state)
{
    sr1_problems *set = parse(double_row);
    sr1_checker *k = make(1);
    sr1_check *c = run(k, set, "print(1)");

    (void)state;
    assert_int_equal(sr1_check_wait(c, NAN), SR1_E_INVALID);
    assert_int_equal(sr1_check_wait(c, 1e300), SR1_OK);
    sr1_check_free(c);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

static void a_nul_is_no_program(void **state)
{
    sr1_problems *set = parse(double_row);
    sr1_checker *each = make(0);
    sr1_check *c = NULL;

    (void)state;
    assert_int_equal(sr1_checker_run(each, sr1_problems_at(set, 0), SR1_CHECK_TEXT,
                                     "print(1)\0", 9, &c),
                     SR1_OK);
    assert_int_equal(report_of(c).verdict, SR1_RUN_RUNTIME_ERROR);
    assert_int_equal(report_of(c).passed, 0);
    sr1_check_free(c);
    sr1_checker_free(each);
    sr1_problems_free(set);
}

/* ---- the cache ---- */

static void known_answers_are_not_run_again(void **state)
{
    sr1_checker_options o = {
        .struct_size = sizeof(o), .time_limit = 5, .cache_folder = scratch_path("cache")};
    sr1_problems *set = parse(add_row);
    sr1_checker *k = checker_with(&o);
    sr1_check *c;

    (void)state;
    verdicts_are(k, set, "def add(a, b):\n    c = a + b\n    return c", "PPP");
    verdicts_are(k, set, "def add(a, b): # sum\n  s = (a + b)\n  return s", "PPP");
    assert_int_equal(programs(k), 1);
    verdicts_are(k, set, "def add(x, y):\n    c = x + y\n    return c", "PPP");
    assert_int_equal(programs(k), 2);
    verdicts_are(k, set, "def add(a, b): return abs(a) + b", "PWR");
    sr1_checker_free(k);
    k = checker_with(&o);
    c = run(k, set, "def add(a, b): return abs(a) + b");
    assert_int_equal(programs(k), 0);
    assert_int_equal(report_of(c).cached, 1);
    assert_int_equal(report_of(c).first_failed, 1);
    assert_string_equal(report_of(c).got, "2");
    sr1_check_free(c);
    sr1_checker_free(k);
    o.all_or_nothing = 1; /* another mode, another result */
    k = checker_with(&o);
    verdicts_are(k, set, "def add(a, b): return abs(a) + b", "PW-");
    assert_int_equal(programs(k), 1);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* Programs that differ in layout and names of variables are one, but a traceback has
 * lines and names of one of them. */
static void a_traceback_is_of_ones_own_text(void **state)
{
    static const char one[] = "def add(a, b):\n    c = a\n    return c + one\n";
    static const char two[] =
        "# sums\n\n\ndef add(a, b):\n    d = a\n    return d + one\n";
    sr1_problems *set = parse(add_row);
    sr1_checker *k = make(0);
    sr1_check *c;

    (void)state;
    verdicts_are(k, set, one, "RRR");
    c = run(k, set, two);
    assert_non_null(strstr(report_of(c).error, "\"answer.py\", line 6"));
    assert_non_null(strstr(report_of(c).error, "return d + one"));
    assert_int_equal(report_of(c).cached, 0);
    sr1_check_free(c);
    c = run(k, set, one); /* its own is known */
    assert_non_null(strstr(report_of(c).error, "\"answer.py\", line 3"));
    assert_int_equal(report_of(c).cached, 1);
    sr1_check_free(c);
    assert_int_equal(programs(k), 2);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

static void other_tests_are_other_results(void **state)
{
    sr1_problems *one = parse("{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert f() "
                              "== 1\"]}");
    sr1_problems *two = parse("{\"id\": 1, \"problem\": \"p\", \"tests\": [\"assert f() "
                              "== 2\"]}");
    sr1_checker *k = make(1);

    (void)state;
    verdicts_are(k, one, "def f(): return 1", "P");
    verdicts_are(k, two, "def f(): return 1", "W");
    verdicts_are(k, one, "def f(): return 1", "P");
    assert_int_equal(programs(k), 2);
    sr1_checker_free(k);
    sr1_problems_free(one);
    sr1_problems_free(two);
}

/* What a sandbox allows is a part of what is known. */
static void other_limits_are_other_results(void **state)
{
    static const int32_t memory[] = {256, 2048};
    static const char *const letters[] = {"M--", "PPP"};
    sr1_problems *set = parse(add_row);

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_checker_options o = {.struct_size = sizeof(o),
                                 .all_or_nothing = 1,
                                 .cache_folder = scratch_path("limits")};
        sr1_sandbox *usual = box;
        sr1_sandbox_options b;
        sr1_checker *k;

        sr1_sandbox_options_init(&b);
        b.isolation =
            strncmp(sr1_sandbox_describe(box), "bubble", 6) == 0 ? "bubblewrap" : "none";
        b.memory_mib = memory[i];
        assert_int_equal(sr1_sandbox_open(&box, &b), SR1_OK);
        k = checker_with(&o);
        verdicts_are(k, set,
                     "def add(a, b):\n    x = bytearray(400 << 20)\n"
                     "    return a + b\n",
                     letters[i]);
        sr1_checker_free(k);
        sr1_sandbox_free(box);
        box = usual;
    }
    sr1_problems_free(set);
}

/* Two services behind one host: what a program prints is the last of its address. */
static void serve_path(void *user, int nth, const char *request, struct reply *r)
{
    (void)user, (void)nth;
    snprintf(r->made, sizeof r->made,
             "{\"status\": \"Success\", \"message\": \"\", \"compile_result\": null, "
             "\"run_result\": {\"status\": \"Finished\", \"execution_time\": 0.1, "
             "\"return_code\": 0, \"stdout\": \"%c\\n\", \"stderr\": \"\"}, "
             "\"executor_pod_name\": null, \"files\": {}}",
             request[strlen("POST /")]);
    r->body = r->made;
}

static void another_service_is_another_result(void **state)
{
    static const char *const paths[] = {"a", "b"}, *const letters[] = {"P", "W"};
    sr1_problems *set = parse("{\"id\": 1, \"problem\": \"p\", \"tests\": [{\"stdin\": "
                              "\"\", \"stdout\": \"a\\n\"}]}");
    sr1_checker_options o = {.struct_size = sizeof(o),
                             .cache_folder = scratch_path("services")};
    struct server s;

    (void)state;
    server_start(&s, serve_path, NULL);
    for (int i = 0; i < 4; i++) {
        sr1_sandbox_options so;
        sr1_sandbox *there = NULL;
        sr1_checker *k = NULL;
        char url[128];

        snprintf(url, sizeof url, "%s/%s", s.url, paths[i % 2]);
        sr1_sandbox_options_init(&so);
        so.kind = "fusion";
        so.url = url;
        assert_int_equal(sr1_sandbox_open(&there, &so), SR1_OK);
        assert_int_equal(sr1_checker_new(&k, there, &o), SR1_OK);
        sr1_sandbox_free(there);
        verdicts_are(k, set, "print('a')", letters[i % 2]);
        assert_int_equal(programs(k), i < 2);
        sr1_checker_free(k);
    }
    server_stop(&s);
    sr1_problems_free(set);
}

/* A record that says what is never kept is none. */
static void records_of_others_are_looked_at(void **state)
{
    static const struct {
        unsigned char verdict;
        uint32_t text;
        int more, good;
        uint32_t inside;
    } rows[] = {{SR1_RUN_PASSED, 0, 0, 1},
                {SR1_RUN_PASSED, 0, 0, 1, 1},
                {SR1_RUN_PASSED, 0, 0, 0, 2},
                {SR1_RUN_OUTPUT, 16384, 0, 1},
                {SR1_CHECK_SKIPPED, 3, 0, 1},
                {SR1_RUN_WRONG, 16385, 0, 0},
                {SR1_RUN_PASSED, 3, 1, 0},
                {SR1_RUN_TIMEOUT, 0, 0, 0},
                {SR1_RUN_INFRASTRUCTURE, 0, 0, 0},
                {SR1_RUN_CANCELLED, 0, 0, 0},
                {65, 0, 0, 0},
                {255, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sr1__check_outcome o;
        struct sr1__buf b;

        assert_int_equal(sr1__check_outcome_init(&o, 2), SR1_OK);
        sr1__buf_init(&b, 0);
        sr1__buf_u64(&b, 0);
        sr1__buf_u32(&b, rows[i].inside);
        sr1__buf_u32(&b, 2);
        sr1__buf_u8(&b, SR1_RUN_PASSED);
        sr1__buf_u8(&b, rows[i].verdict);
        sr1__buf_u32(&b, 0);
        sr1__buf_u32(&b, rows[i].text);
        for (uint32_t k = 0; k < rows[i].text; k++)
            sr1__buf_char(&b, 'x');
        for (int k = 0; k < rows[i].more; k++)
            sr1__buf_char(&b, 'x');
        assert_int_equal(sr1__check_outcome_read(&o, &b), rows[i].good);
        assert_int_equal(o.error.len, rows[i].good ? rows[i].text : 0);
        assert_int_equal(o.verdicts[0],
                         rows[i].good ? SR1_RUN_PASSED : SR1_CHECK_SKIPPED);
        sr1__buf_free(&b);
        sr1__check_outcome_free(&o);
    }
}

static void running_out_of_time_is_not_kept(void **state)
{
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 0.5};
    sr1_problems *set = parse(add_row);
    sr1_checker *k = checker_with(&o);

    (void)state;
    for (int64_t i = 1; i <= 2; i++) {
        verdicts_are(k, set, "import time\ntime.sleep(30)", "TTT");
        assert_int_equal(programs(k), i);
    }
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* Of many long programs those from before the last clearing are gone. */
static void a_cache_is_bounded_in_bytes(void **state)
{
    const size_t long_one = (size_t)1 << 20;
    struct sr1__check_cache *cache = NULL;
    struct sr1__buf key, value;
    int kept = 0;

    (void)state;
    assert_int_equal(sr1__check_cache_new(&cache, NULL, 65536), SR1_OK);
    sr1__buf_init(&key, 0);
    sr1__buf_init(&value, 0);
    sr1__buf_str(&value, "outcome");
    for (int i = 0; i < 300; i++) {
        sr1__buf_clear(&key);
        sr1__buf_room(&key, long_one);
        memset(key.data, i % 256, long_one);
        memcpy(key.data, &i, sizeof i);
        key.len = long_one;
        sr1__check_cache_put(cache, &key, &value);
    }
    for (int i = 0; i < 300; i++) {
        memset(key.data, i % 256, long_one);
        memcpy(key.data, &i, sizeof i);
        sr1__buf_clear(&value);
        kept += sr1__check_cache_get(cache, &key, &value);
    }
    assert_true(kept > 0 && kept < 256);
    sr1__buf_free(&key);
    sr1__buf_free(&value);
    sr1__check_cache_free(cache);
}

static void without_a_cache_all_are_run(void **state)
{
    sr1_checker_options o = {.struct_size = sizeof(o), .cache_entries = -1};
    sr1_problems *set = parse(add_row);
    sr1_checker *k = checker_with(&o);

    (void)state;
    for (int64_t i = 1; i <= 2; i++) {
        verdicts_are(k, set, "def add(a, b): return a + b", "PPP");
        assert_int_equal(programs(k), i);
    }
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* ---- many at once ---- */

#define MANY 40

static void equal_answers_at_once_are_run_once(void **state)
{
    sr1_problems *set = parse(add_row);
    sr1_checker *k = make(1);
    sr1_check *c[MANY];
    char program[128];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        int n =
            snprintf(program, sizeof(program),
                     "```python\ndef add(a, b): return 0 if %d else a + b\n```", i % 4);

        assert_int_equal(sr1_checker_submit(k, sr1_problems_at(set, 0), SR1_CHECK_TEXT,
                                            program, (size_t)n, &c[i]),
                         SR1_OK);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(sr1_check_wait(c[i], -1), SR1_OK);
        assert_int_equal(report_of(c[i]).verdict,
                         i % 4 == 0 ? SR1_RUN_PASSED : SR1_RUN_WRONG);
        sr1_check_free(c[i]);
    }
    assert_int_equal(programs(k), 4);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

/* One that waits for an equal one need not wait for its end. */
static void one_that_waits_can_be_cancelled(void **state)
{
    sr1_problems *set = parse(add_row);
    const char *slow = "import time\ntime.sleep(60)";
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 120};
    sr1_checker *k = checker_with(&o);
    sr1_check *c[2] = {NULL};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sr1_checker_submit(k, sr1_problems_at(set, 0), SR1_CHECK_PROGRAM,
                                            slow, strlen(slow), &c[i]),
                         SR1_OK);
        assert_int_equal(sr1_check_wait(c[i], 0.5), SR1_E_TIMEOUT);
    }
    sr1_check_cancel(c[1]);
    assert_int_equal(sr1_check_wait(c[1], 10), SR1_OK);
    assert_int_equal(report_of(c[1]).verdict, SR1_RUN_CANCELLED);
    assert_false(sr1_check_done(c[0]));
    sr1_check_free(c[0]);
    sr1_check_free(c[1]);
    sr1_checker_free(k);
    sr1_problems_free(set);
}

static void a_check_can_be_cancelled(void **state)
{
    sr1_problems *set = parse(add_row);
    const char *slow = "import time\ntime.sleep(60)";
    sr1_checker_options o = {.struct_size = sizeof(o), .time_limit = 120};
    sr1_checker *k = checker_with(&o);
    sr1_check *c = NULL, *d = NULL;
    sr1_check_report r = {.struct_size = sizeof(r)};
    double began = sr1__now();

    (void)state;
    assert_int_equal(sr1_checker_submit(k, sr1_problems_at(set, 0), SR1_CHECK_PROGRAM,
                                        slow, strlen(slow), &c),
                     SR1_OK);
    assert_int_equal(sr1_check_wait(c, 0.3), SR1_E_TIMEOUT);
    assert_int_equal(sr1_check_report_get(c, &r), SR1_E_STATE);
    assert_int_equal(sr1_check_verdict(c, 0), -1);
    sr1_check_cancel(c);
    assert_int_equal(sr1_check_wait(c, -1), SR1_OK);
    assert_int_equal(report_of(c).verdict, SR1_RUN_CANCELLED);
    sr1_check_free(c);
    /* and when its checker is freed */
    assert_int_equal(sr1_checker_submit(k, sr1_problems_at(set, 0), SR1_CHECK_PROGRAM,
                                        slow, strlen(slow), &d),
                     SR1_OK);
    sr1_checker_free(k);
    assert_int_equal(report_of(d).verdict, SR1_RUN_CANCELLED);
    sr1_check_free(d);
    assert_true(sr1__now() - began < 30);
    sr1_problems_free(set);
}

static void options_are_checked(void **state)
{
    const sr1_checker_options bad[] = {
        {.struct_size = 0},
        {.struct_size = sizeof(*bad), .time_limit = -1},
        {.struct_size = sizeof(*bad), .memory_limit = -1},
        {.struct_size = sizeof(*bad), .concurrency = 2000},
        {.struct_size = sizeof(*bad), .threads = -1},
        {.struct_size = sizeof(*bad), .cache_entries = -2},
        {.struct_size = sizeof(*bad), .judge = "inside"},
    };
    sr1_problems *set = parse(add_row);
    sr1_checker *k = NULL;
    sr1_check *c = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(sr1_checker_new(&k, box, &bad[i]), SR1_E_INVALID);
    assert_int_equal(sr1_checker_new(&k, NULL, NULL), SR1_E_INVALID);
    assert_null(k);
    k = checker_with(NULL);
    assert_int_equal(sr1_checker_submit(k, NULL, 0, "x", 1, &c), SR1_E_INVALID);
    assert_int_equal(sr1_checker_submit(k, sr1_problems_at(set, 0), 7, "x", 1, &c),
                     SR1_E_INVALID);
    assert_null(c);
    sr1_checker_free(sr1_checker_retain(k));
    sr1_checker_free(k);
    sr1_checker_free(NULL);
    sr1_check_free(NULL);
    sr1_problems_free(set);
}

static sr1_status make_and_free(void *folder)
{
    sr1_checker_options o = {
        .struct_size = sizeof(o), .cache_entries = 10, .cache_folder = folder};
    sr1_checker *k = NULL;
    sr1_status status = sr1_checker_new(&k, box, &o);

    sr1_checker_free(k);
    return status;
}

static void memory_may_run_out(void **state)
{
    char folder[512];

    (void)state;
    snprintf(folder, sizeof(folder), "%s", scratch_path("torture"));
    torture(make_and_free, NULL);
    torture(make_and_free, folder);
}

/* Whatever else is asked of a checker whose sandbox is gone, it says so of each answer.
 */
static void an_outage_is_a_verdict_and_is_not_kept(void **state)
{
    sr1_sandbox_options so;
    sr1_checker_options o = {
        .struct_size = sizeof(o), .cache_folder = scratch_path("outage"), .judge = "any"};
    sr1_problems *sets[2] = {parse(add_row), parse(double_row)};
    sr1_checker_stats s = {.struct_size = sizeof(s)};
    sr1_sandbox *none = NULL;
    sr1_checker *k = NULL;

    (void)state;
    sr1_sandbox_options_init(&so);
    so.kind = "fusion";
    so.url = "http://127.0.0.1:9";
    so.retries = 1;
    so.retry_first_s = 0.01;
    assert_int_equal(sr1_sandbox_open(&none, &so), SR1_OK);
    assert_int_equal(sr1_checker_new(&k, none, &o), SR1_OK);
    sr1_sandbox_free(none);
    for (int i = 0; i < 4; i++) {
        sr1_check *c = run(k, sets[i % 2], "print(1)");
        sr1_check_report r = report_of(c);

        assert_int_equal(r.verdict, SR1_RUN_INFRASTRUCTURE);
        assert_int_equal(r.passed, 0);
        assert_false(r.cached);
        assert_true(strlen(r.error) > 0);
        sr1_check_free(c);
    }
    assert_int_equal(sr1_checker_stats_get(k, &s), SR1_OK);
    assert_int_equal(s.infrastructure, 4);
    assert_int_equal(s.cached, 0);
    sr1_checker_free(k);
    sr1_problems_free(sets[0]);
    sr1_problems_free(sets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_are_run),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(leaving_early_passes_nothing),
        cmocka_unit_test(the_end_of_a_program_counts),
        cmocka_unit_test(statements_share_what_a_file_would),
        cmocka_unit_test(the_hosts_language_changes_nothing),
        cmocka_unit_test(time_runs_out_test_by_test),
        cmocka_unit_test(functions_are_called),
        cmocka_unit_test(results_of_apps_may_stand_in_a_list),
        cmocka_unit_test(values_are_what_they_were),
        cmocka_unit_test(calls_go_as_deep_as_in_one_file),
        cmocka_unit_test(a_killed_judge_says_nothing_of_the_answer),
        cmocka_unit_test(an_answer_that_always_kills_its_judge_fails),
        cmocka_unit_test(memory_of_results_follows_the_limit),
        cmocka_unit_test(what_an_answer_says_of_itself_is_marked),
        cmocka_unit_test(a_service_judges_inside_or_not_at_all),
        cmocka_unit_test(programs_are_given_input),
        cmocka_unit_test(outputs_may_hold_a_nul),
        cmocka_unit_test(one_waits_for_a_number_of_seconds),
        cmocka_unit_test(a_nul_is_no_program),
        cmocka_unit_test(known_answers_are_not_run_again),
        cmocka_unit_test(a_traceback_is_of_ones_own_text),
        cmocka_unit_test(other_tests_are_other_results),
        cmocka_unit_test(other_limits_are_other_results),
        cmocka_unit_test(another_service_is_another_result),
        cmocka_unit_test(records_of_others_are_looked_at),
        cmocka_unit_test(running_out_of_time_is_not_kept),
        cmocka_unit_test(a_cache_is_bounded_in_bytes),
        cmocka_unit_test(without_a_cache_all_are_run),
        cmocka_unit_test(equal_answers_at_once_are_run_once),
        cmocka_unit_test(a_check_can_be_cancelled),
        cmocka_unit_test(one_that_waits_can_be_cancelled),
        cmocka_unit_test(an_outage_is_a_verdict_and_is_not_kept),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, open_box, close_box);
}
