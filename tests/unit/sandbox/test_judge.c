/* Outputs compared as an online judge does. Expected answers by hand, from the rules;
 * tests/python/test_sandbox.py compares with the rules written in Python on random texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <searchr1/ext/sandbox.h>

#include <stdio.h>
#include <string.h>

static void outputs_are_compared_by_line(void **state)
{
    static const struct {
        const char *expected, *got;
        int same;
    } rows[] = {
        {"", "", 1},
        {NULL, "", 1},
        {NULL, " \n ", 1},
        {"a", NULL, 0},
        {"1 2\n3\n", "1 2\n3", 1},
        {"1 2\n3", "  \n1 2 \n 3\t\n\n\n", 1},
        {"1 2\n3", "1 2\n\n3", 0},
        {"1 2", "1  2", 0},
        {"Yes\nNO", "yes\nno", 1},
        {"\xC3\x84", "\xC3\xA4", 1}, /* A and a with two dots */
        {"a\xC2\xA0", "a", 1},       /* a no-break space is white space */
        {"1\n2", "1\n2\n3", 0},
        {"1\n2\n3", "1\n2", 0},
        {"a", "a\r\n", 1},
        {"1.0", "1", 1},
        {"1", "1.0000099", 1},
        {"1", "1.0000101", 0},
        {"100000", "100000.9", 1},
        {"100000", "100001.1", 0},
        {"0", "1e-16", 1}, /* 1e-16 / 1e-10 < 1e-5 */
        {"0", "1e-14", 0},
        {"-2", "2", 0},
        {"1e3", "1000", 1},
        {".5", "0.5", 1},
        {"5.", "5", 1},
        {"+5", "5", 1},
        {"1_000", "1000", 1},
        {"1__0", "10", 0},
        {"_10", "10", 0},
        {"10_", "10", 0},
        {"1_.5", "1.5", 0},
        {"0x10", "16", 0},
        {"1 2", "1.0 2.0", 0}, /* whole lines only */
        {"nan", "NaN", 1},     /* as texts */
        {"nan", "+nan", 0},
        {"inf", "infinity", 0},
        {"1e999", "2e999", 0},
        {"e5", "0", 0},
        {".", "0", 0},
        {"", "0", 0},
        {"a\x1c", "a", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sr1_judge_output(rows[i].expected, rows[i].got) != rows[i].same)
            fail_msg("row %zu: '%s' and '%s'", i, rows[i].expected, rows[i].got);
}

static void long_lines_are_no_trouble(void **state)
{
    static char a[200000], b[200000];

    (void)state;
    memset(a, '1', sizeof a - 1);
    memset(b, '1', sizeof b - 1);
    assert_int_equal(sr1_judge_output(a, b), 1);
    b[150000] = '2';
    assert_int_equal(sr1_judge_output(a, b), 0);
    memset(a, '\n', sizeof a - 1);
    assert_int_equal(sr1_judge_output(a, ""), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_compared_by_line),
        cmocka_unit_test(long_lines_are_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
