/* A conversation as columns: what it borrows, what it copies, and want of memory. */
#include "../../support/torture.h"

#include "base/messages.h"

#include <string.h>

static void columns_are_what_was_added(void **state)
{
    char text[] = "think: <think> or not";
    struct sr1__messages m = {0};
    struct sr1__spans own = {0};

    (void)state;
    assert_int_equal(sr1__spans_add(&own, 7, 14), SR1_OK);
    assert_int_equal(sr1__messages_add(&m, "system", text, strlen(text)), SR1_OK);
    assert_int_equal(sr1__messages_add_copy(&m, "user", text, 14, &own), SR1_OK);
    sr1__spans_free(&own);
    for (int i = 0; i < 40; i++)
        assert_int_equal(sr1__messages_add(&m, "tool", "", 0), SR1_OK);
    text[0] = 'T';
    assert_int_equal(m.n, 42);
    assert_ptr_equal(m.texts[0], text);
    assert_int_equal(m.own[0].n, 0);
    assert_string_equal(m.roles[1], "user");
    assert_string_equal(m.texts[1], "think: <think>");
    assert_int_equal(m.sizes[1], 14);
    assert_int_equal(m.own[1].n, 1);
    assert_memory_equal(m.texts[1] + m.own[1].v[0], "<think>", 7);
    assert_string_equal(m.roles[41], "tool");
    sr1__messages_free(&m);
    assert_int_equal(m.n, 0);
}

static void roles_have_names(void **state)
{
    (void)state;
    for (int k = 0; k < SR1__ROLES; k++)
        assert_int_equal(sr1__role_find(sr1__role_names[k]), k);
    assert_int_equal(sr1__role_find("User"), -1);
    assert_int_equal(sr1__role_find(NULL), -1);
}

static sr1_status fill_messages(void *text)
{
    struct sr1__messages m = {0};
    size_t word[2] = {0, 1};
    const struct sr1__spans own = {word, 1, 1};
    sr1_status st = SR1_OK;

    for (int i = 0; i < 10 && st == SR1_OK; i++)
        st = sr1__messages_add_copy(&m, "user", text, 1, &own);
    sr1__messages_free(&m);
    return st;
}

static void memory_may_fail(void **state)
{
    char text[] = "x";

    (void)state;
    assert_true(torture(fill_messages, text) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_what_was_added),
        cmocka_unit_test(roles_have_names),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
