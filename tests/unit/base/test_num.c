/* Numbers and text, in a locale with a decimal comma too. */
#include "../../support/torture.h"

#include "base/json.h"
#include "base/num.h"

#include <locale.h>
#include <string.h>

static void integers(void **state)
{
    static const struct {
        const char *text;
        int ok;
        int64_t v;
    } rows[] = {{"0", 1, 0},
                {"-7", 1, -7},
                {"+7", 1, 7},
                {"9223372036854775807", 1, INT64_MAX},
                {"-9223372036854775808", 1, INT64_MIN},
                {"9223372036854775808", 0, 0},
                {"-9223372036854775809", 0, 0},
                {"", 0, 0},
                {"-", 0, 0},
                {" 1", 0, 0},
                {"1 ", 0, 0},
                {"1.0", 0, 0},
                {"0x1", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t v = 0;

        assert_int_equal(sr1__parse_int(rows[i].text, strlen(rows[i].text), &v),
                         rows[i].ok);
        assert_true(v == rows[i].v);
    }
}

static void reals(void **state)
{
    static const struct {
        const char *text;
        int ok;
        double v;
    } rows[] = {
        {"1", 1, 1.0},     {"-0.5", 1, -0.5},  {".5", 1, 0.5},     {"5.", 1, 5.0},
        {"1e-5", 1, 1e-5}, {"1E+2", 1, 100.0}, {"1e-999", 1, 0.0}, {"1e999", 0, 0},
        {"", 0, 0},        {".", 0, 0},        {"e5", 0, 0},       {"1e", 0, 0},
        {"1e+", 0, 0},     {"inf", 0, 0},      {"nan", 0, 0},      {"0x10", 0, 0},
        {"1,5", 0, 0},     {" 1", 0, 0},       {"1 ", 0, 0},       {"--1", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double v = 0.0;

        assert_int_equal(sr1__parse_real(rows[i].text, strlen(rows[i].text), &v),
                         rows[i].ok);
        assert_true(v == rows[i].v);
    }
}

static void shortest_text_reads_back(void **state)
{
    static const double values[] = {
        0.1, 1e-5, 1.0, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -2.5, 1e22};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double back;

        sr1__format_real(values[i], text);
        assert_int_equal(sr1__parse_real(text, strlen(text), &back), 1);
        assert_true(back == values[i]);
    }
    sr1__format_real(0.1, text);
    assert_string_equal(text, "0.1");
    sr1__format_real(1e-5, text);
    assert_string_equal(text, "1e-05");
}

static void too_large_a_number_is_mended(void **state)
{
    static const char text[] = "[1.5e999, -2.5e999, 1.5]";
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__json_mend(text, strlen(text), &b);
    assert_string_equal(sr1__buf_cstr(&b),
                        "[1.7976931348623157e308, -1.7976931348623157e308, 1.5]");
    sr1__buf_free(&b);
}

static void any_locale(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};

    for (size_t i = 0; i < 4 && !setlocale(LC_ALL, names[i]); i++)
        continue;
    reals(state);
    shortest_text_reads_back(state);
    too_large_a_number_is_mended(state);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(shortest_text_reads_back),
        cmocka_unit_test(any_locale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
