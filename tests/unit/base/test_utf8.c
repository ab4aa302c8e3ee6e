/* UTF-8: every class of bytes that is not valid, and what is. */
#include "../../support/torture.h"

#include "base/utf8.h"

#include <string.h>

/* result: what sr1__utf8_next gives for the bytes. */
static const struct {
    const char *bytes;
    size_t n;
    int result;
    uint32_t cp;
} cases[] = {
    {"a", 1, 1, 'a'},
    {"\0", 1, 1, 0},
    {"\xc2\x80", 2, 2, 0x80},
    {"\xdf\xbf", 2, 2, 0x7ff},
    {"\xe0\xa0\x80", 3, 3, 0x800},
    {"\xed\x9f\xbf", 3, 3, 0xd7ff},
    {"\xee\x80\x80", 3, 3, 0xe000},
    {"\xef\xbf\xbf", 3, 3, 0xffff},
    {"\xf0\x90\x80\x80", 4, 4, 0x10000},
    {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
    {"", 0, -1, 0},
    {"\xc2", 1, -1, 0},
    {"\xe2\x82", 2, -1, 0},
    {"\xf0\x9f\x98", 3, -1, 0},
    {"\xf0", 1, -1, 0},
    {"\x80", 1, 0, 0}, /* a lone continuation */
    {"\xbf", 1, 0, 0},
    {"\xc0\x80", 2, 0, 0}, /* overlong, two bytes */
    {"\xc1\xbf", 2, 0, 0},
    {"\xe0\x9f\xbf", 3, 0, 0},     /* overlong, three */
    {"\xe0\x80", 2, 0, 0},         /* cannot become valid any more */
    {"\xf0\x8f\xbf\xbf", 4, 0, 0}, /* overlong, four */
    {"\xed\xa0\x80", 3, 0, 0},     /* surrogates */
    {"\xed\xbf\xbf", 3, 0, 0},
    {"\xed\xa0", 2, 0, 0},
    {"\xf4\x90\x80\x80", 4, 0, 0}, /* past U+10FFFF */
    {"\xf5\x80\x80\x80", 4, 0, 0},
    {"\xfe", 1, 0, 0},
    {"\xff", 1, 0, 0},
    {"\xc2"
     "a",
     2, 0, 0}, /* a continuation is missing */
    {"\xe2\x82"
     "a",
     3, 0, 0},
    {"\xf0\x9f\x98"
     "a",
     4, 0, 0},
    {"\xe2"
     "a\x82",
     3, 0, 0},
};

static void next_on_every_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t cp = 12345;
        int got = sr1__utf8_next(cases[i].bytes, cases[i].n, &cp);

        if (got != cases[i].result)
            fail_msg("case %zu: %d instead of %d", i, got, cases[i].result);
        assert_int_equal(cp, got > 0 ? cases[i].cp : 12345);
        assert_int_equal(sr1__utf8_valid(cases[i].bytes, cases[i].n),
                         cases[i].n == 0 || got > 0);
        assert_int_equal(sr1__utf8_complete(cases[i].bytes, cases[i].n),
                         got == -1 ? 0 : cases[i].n);
    }
}

static void every_character_goes_round(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x110000; cp++) {
        char out[4];
        uint32_t back = 0;
        int surrogate = cp >= 0xd800 && cp <= 0xdfff;
        int n = sr1__utf8_put(cp, out);

        assert_int_equal(sr1__utf8_next(out, (size_t)n, &back), n);
        assert_int_equal(back, surrogate || cp > 0x10ffff ? 0xfffd : cp);
        for (size_t cut = 1; cut < (size_t)n; cut++)
            assert_int_equal(sr1__utf8_next(out, cut, &back), -1);
    }
}

static void complete_keeps_whole_characters(void **state)
{
    static const char text[] = "a\xc3\xa9\xe6\x9c\xaa\xf0\x9f\x98\x80";
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

    (void)state;
    for (size_t n = 0; n <= 10; n++)
        assert_int_equal(sr1__utf8_complete(text, n), expected[n]);
    assert_int_equal(sr1__utf8_complete("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(sr1__utf8_count(text, 10), 4);
    assert_int_equal(sr1__utf8_count("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_on_every_class),
        cmocka_unit_test(every_character_goes_round),
        cmocka_unit_test(complete_keeps_whole_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
