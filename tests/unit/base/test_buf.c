/* The growable buffer and the bounded reader. */
#include "../../support/torture.h"

#include "base/buf.h"

#include <math.h>
#include <string.h>

static void appends_and_terminates(void **state)
{
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 0);
    assert_string_equal(sr1__buf_cstr(&b), "");
    sr1__buf_str(&b, "one");
    sr1__buf_char(&b, ' ');
    sr1__buf_fmt(&b, "%d-%s", 2, "three");
    sr1__buf_add(&b, "\0x", 2);
    assert_int_equal(b.len, 13);
    assert_memory_equal(b.data, "one 2-three\0x", 14);
    assert_int_equal(sr1__buf_status(&b, "text"), SR1_OK);
    sr1__buf_clear(&b);
    assert_string_equal(sr1__buf_cstr(&b), "");
    sr1__buf_free(&b);
}

static void the_maximum_is_sticky(void **state)
{
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 4);
    sr1__buf_str(&b, "abcd");
    assert_int_equal(b.status, SR1_OK);
    sr1__buf_char(&b, 'e');
    sr1__buf_add(&b, "", 0);
    assert_string_equal(b.data, "abcd");
    assert_int_equal(sr1__buf_status(&b, "name"), SR1_E_LIMIT);
    assert_string_equal(sr1_last_error(), "name: longer than 4 bytes");
    assert_null(sr1__buf_take(&b));
    sr1__buf_free(&b);
    sr1__buf_fmt(&b, "%s", "abcde");
    assert_int_equal(b.status, SR1_E_LIMIT);
    sr1__buf_free(&b);
}

static void take_empties(void **state)
{
    struct sr1__buf b;
    char *p;

    (void)state;
    sr1__buf_init(&b, 10);
    p = sr1__buf_take(&b);
    assert_string_equal(p, "");
    sr1__free(p);
    sr1__buf_str(&b, "x");
    p = sr1__buf_take(&b);
    assert_string_equal(p, "x");
    assert_null(b.data);
    assert_int_equal(b.max, 10);
    sr1__free(p);
}

static void numbers_are_little_endian_and_read_back(void **state)
{
    struct sr1__buf b;
    struct sr1__reader r;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__buf_u8(&b, 0xfe);
    sr1__buf_u32(&b, 0x01020304);
    sr1__buf_u64(&b, 0x0102030405060708u);
    sr1__buf_f32(&b, -0.0f);
    sr1__buf_f64(&b, NAN);
    assert_int_equal(b.len, 25);
    assert_memory_equal(b.data, "\xfe\4\3\2\1\10\7\6\5\4\3\2\1\0\0\0\x80", 17);
    sr1__reader_init(&r, b.data, b.len);
    assert_int_equal(sr1__read_u8(&r), 0xfe);
    assert_int_equal(sr1__read_u32(&r), 0x01020304);
    assert_true(sr1__read_u64(&r) == 0x0102030405060708u);
    assert_true(signbit(sr1__read_f32(&r)));
    assert_true(isnan(sr1__read_f64(&r)));
    assert_int_equal(r.left, 0);
    assert_int_equal(r.failed, 0);
    sr1__buf_free(&b);
}

static void reading_past_the_end_is_sticky(void **state)
{
    struct sr1__reader r;

    (void)state;
    sr1__reader_init(&r, "abc", 3);
    assert_int_equal(sr1__read_u32(&r), 0);
    assert_int_equal(r.failed, 1);
    assert_int_equal(sr1__read_u8(&r), 0);
    assert_null(sr1__read_bytes(&r, 0));
    sr1__reader_init(&r, NULL, 0);
    assert_non_null(sr1__read_bytes(&r, 0));
    assert_null(sr1__read_bytes(&r, SIZE_MAX));
}

static sr1_status grow(void *arg)
{
    struct sr1__buf b;
    sr1_status status;

    (void)arg;
    sr1__buf_init(&b, 0);
    for (int i = 0; i < 1000; i++)
        sr1__buf_fmt(&b, "%d,", i);
    status = sr1__buf_status(&b, "list");
    sr1__buf_free(&b);
    return status;
}

static void growth_may_fail(void **state)
{
    (void)state;
    assert_true(torture(grow, NULL) > 3);
}

/* What it held goes with it, whether it failed or is handed over. */
static sr1_status finish(void *arg)
{
    struct sr1__buf b;
    char *text = NULL;
    sr1_status status;

    (void)arg;
    sr1__buf_init(&b, 0);
    for (int i = 0; i < 1000; i++)
        sr1__buf_fmt(&b, "%d,", i);
    status = sr1__buf_finish(&b, "list", &text);
    assert_int_equal(text != NULL, status == SR1_OK);
    sr1__free(text);
    return status;
}

static void a_failed_text_is_freed(void **state)
{
    struct sr1__buf b;
    char *text = NULL;

    (void)state;
    assert_true(torture(finish, NULL) > 3);
    sr1__buf_init(&b, 3);
    sr1__buf_str(&b, "abc");
    sr1__buf_str(&b, "d");
    assert_int_equal(sr1__buf_finish(&b, "word", &text), SR1_E_LIMIT);
    assert_string_equal(sr1_last_error(), "word: longer than 3 bytes");
    assert_null(text);
    sr1__buf_init(&b, 3);
    assert_int_equal(sr1__buf_finish(&b, "word", &text), SR1_OK);
    assert_string_equal(text, "");
    sr1__free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_and_terminates),
        cmocka_unit_test(the_maximum_is_sticky),
        cmocka_unit_test(take_empties),
        cmocka_unit_test(numbers_are_little_endian_and_read_back),
        cmocka_unit_test(reading_past_the_end_is_sticky),
        cmocka_unit_test(growth_may_fail),
        cmocka_unit_test(a_failed_text_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
