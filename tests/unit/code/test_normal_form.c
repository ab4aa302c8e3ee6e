/* Normal forms of programs: equal ones do the same. What programs do is found by running
 * them in plain Python (programs.py, which makes pairs of them at random). */
#include "support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "environment/code/program_normalizer.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"
#define PAIRS "400"

static int open_reader(void **state)
{
    sr1_status status;
    struct sr1__code_normaliser *n = NULL;

    if (!sr1__path_exists(PYTHON))
        return 0;
    status = sr1__code_normaliser_new(&n, PYTHON);
    *state = n;
    return status == SR1_OK ? scratch_make(NULL) : -1;
}

static int close_reader(void **state)
{
    sr1__code_normaliser_free(*state);
    return scratch_remove(NULL);
}

static void form_of(void *n, const char *text, struct sr1__buf *out)
{
    sr1__buf_init(out, 0);
    sr1__code_normalise(n, text, strlen(text), out);
    assert_int_equal(out->status, SR1_OK);
}

/* 1 when both have one form. */
static int same(void *n, const char *a, const char *b)
{
    struct sr1__buf x, y;
    int equal;

    form_of(n, a, &x);
    form_of(n, b, &y);
    equal = strcmp(x.data, y.data) == 0;
    sr1__buf_free(&x);
    sr1__buf_free(&y);
    return equal;
}

static int is_exact(void *n, const char *text)
{
    struct sr1__buf x;
    int exact;

    form_of(n, text, &x);
    exact = x.data[0] == 'x' && strcmp(x.data + 1, text) == 0;
    sr1__buf_free(&x);
    return exact;
}

static void names_and_layout_do_not_matter(void **state)
{
    static const char base[] =
        "def f(a):\n    x = a + 1\n    return [x * i for i in a]\n";

    if (*state == NULL)
        skip();
    assert_true(
        same(*state, base, "def f(a): # q\n  y=(a+1)\n  return [y*k for k in a]"));
    assert_true(same(*state, base,
                     "def f(a):\n\n\n    i = a + 1;\n    return [i * x for x in a]"));
    assert_true(same(*state,
                     "def f(a):\n    def g():\n        return x\n    x = a\n"
                     "    return g()",
                     "def f(a):\n    def g():\n        return y\n    y = a\n"
                     "    return g()"));
    assert_false(is_exact(*state, base));
}

/* What the reference's renaming takes for the same, and more of its kind. */
static void what_differs_has_other_forms(void **state)
{
    static const char *const pairs[][2] = {
        {"def f(): return n\nn = 3", "def f(): return n\nm = 3"},
        {"class A:\n    a = 1\n    b = 2", "class A:\n    b = 1\n    a = 2"},
        {"def f(a): return a", "def f(b): return b"}, /* f(a=1) */
        {"def f():\n    a = 1\n    return a", "def f():\n    a = 1\n    return b"},
        {"def f():\n    a = 1\n    def g():\n        a = 2\n    g()\n    return a",
         "def f():\n    a = 1\n    def g():\n        b = 2\n    g()\n    return b"},
        {"def f():\n    x = 1\n    y = 2\n    return x",
         "def f():\n    x = 1\n    y = 2\n"
         "    return y"},
        {"def f():\n    x = 1\n    return f'{x=}'", "def f():\n    y = 1\n    return "
                                                    "f'{y=}'"},
        {"x = 1", "x = True"},
        {"x = 1", "x = 1.0"},
        {"x = 0.0", "x = -0.0"},
        {"x = 'a'", "x = b'a'"},
        {"def f(a):\n    n = a\n    return n", "def f(a):\n    n = a\n    return a"},
        {"import math\ndef f(): return math", "import cmath\ndef f(): return cmath"},
    };

    if (*state == NULL)
        skip();
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (same(*state, pairs[i][0], pairs[i][1]))
            fail_msg("one form:\n%s\n--\n%s", pairs[i][0], pairs[i][1]);
}

static void programs_that_see_themselves_are_taken_as_they_are(void **state)
{
    static const char *const exact[] = {
        "def f():\n    x = 1\n    return locals()",
        "def f():\n    x = 1\n    return eval('x')",
        "exec('x = 1')",
        "def f():\n    x = 1\nf.__code__.co_varnames",
        "'{0.__code__}'.format(f)",
        "import inspect",
        "import os",
        "from math import *",
        "from sys import argv",
        "import sys\nsys._getframe()",
        "import sys as s",
        "import random\nrandom._os",
        "class A: pass",
        "def f():\n    global x\n    x = 1",
        "def f():\n    if (y := 1): return y",
        "try:\n    f()\nexcept Exception as e:\n    print(e)",
        "try:\n    f()\nexcept NameError as e:\n    print(e)",
        "open('answer.py')",
        "getattr(f, 'x')",
        "import operator\noperator.attrgetter(chr(95) * 2 + 'code')(f)",
        "from operator import methodcaller",
        "v0_ = 1",
        "# coding: latin-1\nx = 1",
        "def f(:",
    };

    if (*state == NULL)
        skip();
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++)
        if (!is_exact(*state, exact[i]))
            fail_msg("not taken as it is: %s", exact[i]);
}

static void no_text_stops_the_reader(void **state)
{
    size_t n = 200000;
    char *deep = sr1__malloc(n + 1);

    if (*state == NULL)
        skip();
    memset(deep, '(', n);
    deep[n] = '\0';
    assert_true(is_exact(*state, deep));
    memset(deep, '-', n);
    deep[n - 1] = '1';
    assert_true(is_exact(*state, deep));
    sr1__free(deep);
    assert_false(is_exact(*state, "x = 1"));
}

static void without_an_interpreter_the_text_is_taken(void **state)
{
    static const char *const none[] = {"", "/nowhere/python3", "/bin/true", "/bin/cat"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct sr1__code_normaliser *n = NULL;

        assert_int_equal(sr1__code_normaliser_new(&n, none[i]), SR1_OK);
        for (int k = 0; k < 5; k++)
            assert_true(is_exact(n, "x = 1"));
        sr1__code_normaliser_free(n);
    }
}

/* ---- programs at random ---- */

static json_t *pairs_of(const char *line)
{
    json_t *j = NULL;

    if (sr1__json_parse(&j, line, strlen(line), "pair") != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return j;
}

/* Of this process it has its socket alone: what others wait for the end of ends. */
static void the_reader_keeps_nothing_open(void **state)
{
    struct sr1__code_normaliser *n = NULL;
    struct pollfd end = {.events = POLLIN};
    struct sr1__buf form;
    int ends[2];

    if (*state == NULL)
        skip();
    assert_int_equal(pipe(ends), 0); /* not closed by exec */
    assert_int_equal(sr1__code_normaliser_new(&n, PYTHON), SR1_OK);
    form_of(n, "x = 1", &form);
    assert_int_equal(form.data[0], '=');
    sr1__buf_free(&form);
    close(ends[1]);
    end.fd = ends[0];
    assert_int_equal(poll(&end, 1, 0), 1);
    assert_true(end.revents & POLLHUP);
    close(ends[0]);
    sr1__code_normaliser_free(n);
}

static int told;

static void normalise_again(void *n, int32_t level, const char *text)
{
    struct sr1__buf form;

    (void)level;
    (void)text;
    told++;
    form_of(n, "x = 1", &form);
    sr1__buf_free(&form);
}

static void a_sink_may_ask_the_reader(void **state)
{
    struct sr1__code_normaliser *n = NULL;

    (void)state;
    assert_int_equal(sr1__code_normaliser_new(&n, "/nonexistent"), SR1_OK);
    sr1_log_set(normalise_again, n);
    for (int i = 0; i < 10; i++)
        assert_true(is_exact(n, "x = 1"));
    sr1_log_set(NULL, NULL);
    assert_int_equal(told, 1);
    sr1__code_normaliser_free(n);
}

static void equal_forms_do_the_same(void **state)
{
    char command[1024], line[65536];
    const char *pairs = getenv("SR1_PAIRS"); /* more of them, by hand */
    int total = 0, equal = 0, taken = 0;
    FILE *f;

    if (*state == NULL)
        skip();
    snprintf(command, sizeof(command),
             PYTHON " -W ignore %s/tests/unit/code/programs.py 7 %s", getenv("SR1_SRC"),
             pairs != NULL ? pairs : PAIRS);
    f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        json_t *j = pairs_of(line);
        const char *a = json_string_value(json_array_get(j, 0));
        const char *b = json_string_value(json_array_get(j, 1));

        total++;
        taken += is_exact(*state, a);
        if (strcmp(a, b) != 0 && same(*state, a, b)) {
            equal++;
            if (strcmp(json_string_value(json_array_get(j, 2)),
                       json_string_value(json_array_get(j, 3))) != 0)
                fail_msg("one form, but:\n%s--\n%s", a, b);
        }
        json_decref(j);
    }
    assert_int_equal(pclose(f), 0);
    print_message("%d pairs: %d of one form, %d taken as they are\n", total, equal,
                  taken);
    assert_true(total > 0 && equal > total / 20 && taken < total / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_layout_do_not_matter),
        cmocka_unit_test(what_differs_has_other_forms),
        cmocka_unit_test(programs_that_see_themselves_are_taken_as_they_are),
        cmocka_unit_test(no_text_stops_the_reader),
        cmocka_unit_test(without_an_interpreter_the_text_is_taken),
        cmocka_unit_test(the_reader_keeps_nothing_open),
        cmocka_unit_test(a_sink_may_ask_the_reader),
        cmocka_unit_test(equal_forms_do_the_same),
    };

    return cmocka_run_group_tests(tests, open_reader, close_reader);
}
