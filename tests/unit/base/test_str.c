/* Pieces of text compared: all pairs of short texts, against what strcmp says. */
#include "../../support/torture.h"

#include "base/str.h"

static const char *const texts[] = {"", "a", "b", "ab", "ba", "aab", "abab", "ababa"};

#define N (sizeof texts / sizeof texts[0])

static void pieces_compare_as_texts_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < N; k++) {
            struct sr1__str a = sr1__str_of(texts[i]);
            size_t n = strlen(texts[k]);
            int same = strcmp(texts[i], texts[k]) == 0;

            assert_int_equal(sr1__str_is(a, texts[k]), same);
            assert_int_equal(sr1__str_equal(a, sr1__str_of(texts[k])), same);
            assert_int_equal(sr1__str_starts_with(a, texts[k]),
                             strncmp(texts[i], texts[k], n) == 0);
            assert_int_equal(sr1__str_ends_with(a, texts[k]),
                             a.n >= n && strcmp(texts[i] + a.n - n, texts[k]) == 0);
        }
    }
}

/* Neither what follows a piece nor a NUL inside it changes what it is. */
static void a_piece_ends_where_it_says(void **state)
{
    struct sr1__str a = {"abc", 2}, nul = {"a\0b", 3}, none = {NULL, 0};

    (void)state;
    assert_true(sr1__str_is(a, "ab") && !sr1__str_is(a, "abc"));
    assert_true(sr1__str_ends_with(a, "b") && !sr1__str_ends_with(a, "c"));
    assert_false(sr1__str_is(nul, "a"));
    assert_true(sr1__str_equal(nul, nul));
    assert_true(sr1__str_is(none, "") && sr1__str_equal(none, sr1__str_of(NULL)));
    assert_true(sr1__str_starts_with(none, "") && !sr1__str_ends_with(none, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_compare_as_texts_do),
        cmocka_unit_test(a_piece_ends_where_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
