/* Structs of older and newer callers, read and filled. */
#include "base/struct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct options {
    size_t struct_size;
    int32_t needed;
    int32_t second;
    double third;
};

#define LEAST SR1__STRUCT_END(struct options, needed)
#define GUARD 0x5a

static const struct options defaults = {0, 1, 2, 3.0};

/* The library's copy after reading n bytes of {., 11, 12, 13}. */
static struct options taken(size_t n)
{
    struct options given = {n, 11, 12, 13.0};
    struct options o = defaults;

    assert_int_equal(sr1__struct_take(&o, sizeof o, &given, LEAST, "options"), SR1_OK);
    assert_int_equal(o.struct_size, sizeof o);
    return o;
}

static void an_older_caller_gets_defaults_for_the_rest(void **state)
{
    struct options o = taken(LEAST);

    (void)state;
    assert_true(o.needed == 11 && o.second == 2 && o.third == 3.0);
    o = taken(SR1__STRUCT_END(struct options, second));
    assert_true(o.needed == 11 && o.second == 12 && o.third == 3.0);
    o = taken(sizeof o);
    assert_true(o.needed == 11 && o.second == 12 && o.third == 13.0);
}

static void a_newer_caller_is_read_as_far_as_we_know(void **state)
{
    struct {
        struct options known;
        double later;
    } given = {{sizeof given, 11, 12, 13.0}, 14.0};
    struct {
        struct options o;
        unsigned char guard[8];
    } ours = {defaults, {0}};
    unsigned char guard[8];

    (void)state;
    memset(ours.guard, GUARD, sizeof ours.guard);
    memset(guard, GUARD, sizeof guard);
    assert_int_equal(sr1__struct_take(&ours.o, sizeof ours.o, &given, LEAST, "options"),
                     SR1_OK);
    assert_true(ours.o.needed == 11 && ours.o.second == 12 && ours.o.third == 13.0);
    assert_int_equal(ours.o.struct_size, sizeof ours.o);
    assert_memory_equal(ours.guard, guard, sizeof guard);
}

static void without_a_struct_the_defaults_stay(void **state)
{
    struct options o = defaults;

    (void)state;
    assert_int_equal(sr1__struct_take(&o, sizeof o, NULL, LEAST, "options"), SR1_OK);
    assert_true(o.needed == 1 && o.second == 2 && o.third == 3.0);
    assert_int_equal(o.struct_size, sizeof o);
}

static void a_size_that_was_not_set_is_refused(void **state)
{
    static const size_t bad[] = {0, 1, sizeof(size_t), LEAST - 1};
    struct options o = defaults;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct options given = {bad[i], 11, 12, 13.0};

        assert_int_equal(sr1__struct_take(&o, sizeof o, &given, LEAST, "options"),
                         SR1_E_INVALID);
        assert_string_equal(sr1_last_error(), "options: struct_size is not set");
        assert_memory_equal(&o, &defaults, sizeof o);
    }
}

/* The bytes of a caller's struct of n bytes, once filled, in a field of guards. */
static void filled(unsigned char bytes[64], size_t n)
{
    const struct options from = {77, 11, 12, 13.0};

    memset(bytes, GUARD, 64);
    memcpy(bytes, &n, sizeof n);
    assert_int_equal(sr1__struct_give(bytes, &from, sizeof from, "result"), SR1_OK);
}

static void a_result_fills_the_callers_part_only(void **state)
{
    static const size_t sizes[] = {LEAST, SR1__STRUCT_END(struct options, second),
                                   sizeof(struct options), sizeof(struct options) + 16};
    struct options want = {0, 11, 12, 13.0};
    unsigned char got[64], guard[64];

    (void)state;
    memset(guard, GUARD, sizeof guard);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i] < sizeof want ? sizes[i] : sizeof want;

        want.struct_size = sizes[i];
        filled(got, sizes[i]);
        assert_memory_equal(got, &want, n);
        assert_memory_equal(got + n, guard, sizeof got - n);
    }
}

static void a_result_that_cannot_be_filled_is_refused(void **state)
{
    static const size_t bad[] = {0, 1, sizeof(size_t)};
    const struct options from = {77, 11, 12, 13.0};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct options out = {bad[i], 1, 2, 3.0}, before = out;

        assert_int_equal(sr1__struct_check(&out, "result"), SR1_E_INVALID);
        assert_int_equal(sr1__struct_give(&out, &from, sizeof from, "result"),
                         SR1_E_INVALID);
        assert_string_equal(sr1_last_error(), "result: struct_size is not set");
        assert_memory_equal(&out, &before, sizeof out);
    }
    assert_int_equal(sr1__struct_give(NULL, &from, sizeof from, "result"), SR1_E_INVALID);
}

static void an_init_function_fills_the_first_version(void **state)
{
    struct options o = {0, 5, 6, 7.0};

    (void)state;
    sr1__struct_init(&o, &defaults, SR1__STRUCT_END(struct options, second));
    assert_int_equal(o.struct_size, SR1__STRUCT_END(struct options, second));
    assert_true(o.needed == 1 && o.second == 2 && o.third == 7.0);
    sr1__struct_init(NULL, &defaults, sizeof o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_caller_gets_defaults_for_the_rest),
        cmocka_unit_test(a_newer_caller_is_read_as_far_as_we_know),
        cmocka_unit_test(without_a_struct_the_defaults_stay),
        cmocka_unit_test(a_size_that_was_not_set_is_refused),
        cmocka_unit_test(a_result_fills_the_callers_part_only),
        cmocka_unit_test(a_result_that_cannot_be_filled_is_refused),
        cmocka_unit_test(an_init_function_fills_the_first_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
