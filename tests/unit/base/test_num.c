/* Numbers and text, also in locales with another decimal sign than a point. */
#include "../../support/torture.h"
#include "../../support/language.h"

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

static void json_keeps_its_point(void **state)
{
    static const char text[] = "[1.5,-2.5e-7]";
    struct sr1__buf b;
    json_t *list = NULL;

    (void)state;
    assert_int_equal(sr1__json_parse(&list, text, strlen(text), "list"), SR1_OK);
    assert_true(json_real_value(json_array_get(list, 0)) == 1.5);
    assert_true(json_real_value(json_array_get(list, 1)) == -2.5e-7);
    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__json_dump(list, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "[1.5,-2.4999999999999999e-7]");
    sr1__buf_free(&b);
    json_decref(list);
}

static void floats_keep_their_point(void **state)
{
    char text[32];

    (void)state;
    sr1__format_float(0.1f, text);
    assert_string_equal(text, "0.1");
    sr1__format_float(2.0f, text);
    assert_string_equal(text, "2.0");
}

/* All of it in a language whose decimal sign is this. */
static void speak_and_count(void **state, const char *language, const char *sign)
{
    if (!speak(language)) {
        print_message("no language %s here: localedef or its sources are missing\n",
                      language);
        skip();
    }
    assert_string_equal(localeconv()->decimal_point, sign);
    reals(state);
    shortest_text_reads_back(state);
    too_large_a_number_is_mended(state);
    json_keeps_its_point(state);
    floats_keep_their_point(state);
    assert_string_equal(localeconv()->decimal_point, sign); /* it is left as it was */
    speak_plainly();
}

static void in_a_language_with_a_comma(void **state)
{
    speak_and_count(state, "de_DE", ",");
}

/* Its decimal sign is more than one byte long. */
static void in_a_language_with_a_sign_of_two_bytes(void **state)
{
    speak_and_count(state, "ps_AF", "\xd9\xab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(shortest_text_reads_back),
        cmocka_unit_test(too_large_a_number_is_mended),
        cmocka_unit_test(json_keeps_its_point),
        cmocka_unit_test(floats_keep_their_point),
        cmocka_unit_test(in_a_language_with_a_comma),
        cmocka_unit_test(in_a_language_with_a_sign_of_two_bytes),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
