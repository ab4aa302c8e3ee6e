/* Statuses, error text, version, logging. */
#include "../../support/torture.h"

#include "base/log.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void text_is_set_and_kept(void **state)
{
    (void)state;
    assert_int_equal(sr1__fail(SR1_E_IO, "row %d", 7), SR1_E_IO);
    assert_string_equal(sr1_last_error(), "row 7");
    assert_int_equal(sr1__context(SR1_OK, "unused"), SR1_OK);
    assert_string_equal(sr1_last_error(), "row 7");
    assert_int_equal(sr1__context(SR1_E_IO, "file %s", "a"), SR1_E_IO);
    assert_string_equal(sr1_last_error(), "file a: row 7");
    sr1__fail(SR1_E_IO, "again: %s", sr1_last_error());
    assert_string_equal(sr1_last_error(), "again: file a: row 7");
}

static void long_text_is_cut_between_characters(void **state)
{
    char text[4000];

    (void)state;
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe6\x9c\xaa", 4);
    for (size_t shift = 0; shift < 3; shift++) {
        sr1_set_error(SR1_E_CALLBACK, text + 3 * shift);
        sr1__context(SR1_E_CALLBACK, "%.*s", (int)shift, "abc");
        assert_true(strlen(sr1_last_error()) >= SR1__ERROR_MAX - 4);
        assert_true(strlen(sr1_last_error()) < SR1__ERROR_MAX);
        assert_true(sr1__utf8_valid(sr1_last_error(), strlen(sr1_last_error())));
    }
    sr1_set_error(SR1_E_CALLBACK, NULL);
    assert_string_equal(sr1_last_error(), "");
}

static void *other_thread(void *arg)
{
    struct sr1__error *e = arg;

    assert_string_equal(sr1_last_error(), "");
    sr1__error_save(e, sr1__fail(SR1_E_LIMIT, "from the worker"));
    return NULL;
}

static void errors_cross_threads_as_values(void **state)
{
    struct sr1__error e;
    struct sr1__error none = {.code = SR1_OK};
    pthread_t thread;

    (void)state;
    sr1__fail(SR1_E_IO, "mine");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &e), 0);
    pthread_join(thread, NULL);
    assert_string_equal(sr1_last_error(), "mine");
    assert_int_equal(sr1__error_raise(&none), SR1_OK);
    assert_string_equal(sr1_last_error(), "mine");
    assert_int_equal(sr1__error_raise(&e), SR1_E_LIMIT);
    assert_string_equal(sr1_last_error(), "from the worker");
}

/* The same text again is a new one. */
static void what_was_set_since_is_known(void **state)
{
    struct sr1__error before;

    (void)state;
    sr1__fail(SR1_E_IO, "old");
    sr1__error_save(&before, SR1_OK);
    assert_string_equal(sr1__error_since(&before), "");
    sr1__fail(SR1_E_IO, "old");
    assert_string_equal(sr1__error_since(&before), "old");
}

static void every_status_has_name_and_text(void **state)
{
    (void)state;
#define CHECK(name, code, meaning)                                                       \
    assert_int_equal(name, code);                                                        \
    assert_string_equal(sr1_status_name(code), #name);                                   \
    assert_string_equal(sr1_status_text(code), meaning);
    SR1_STATUS_TABLE(CHECK)
    assert_string_equal(sr1_status_name(1), "SR1_E_?");
    assert_string_equal(sr1_status_name(-999), "SR1_E_?");
    assert_non_null(sr1_status_text(-999));
    assert_string_equal(sr1_version(), "0.1.0");
}

static void keep(void *user, int32_t level, const char *text)
{
    snprintf(user, 64, "%d %s", (int)level, text);
}

static void log_goes_to_the_sink_only(void **state)
{
    char seen[64] = "nothing";

    (void)state;
    sr1__log(SR1_LOG_INFO, "to nobody");
    sr1_log_set(keep, seen);
    sr1__log(SR1_LOG_WARN, "step %d", 3);
    assert_string_equal(seen, "2 step 3");
    sr1_log_set(NULL, NULL);
    sr1__log(SR1_LOG_WARN, "step %d", 4);
    assert_string_equal(seen, "2 step 3");
}

static void log_again(void *user, int32_t level, const char *text)
{
    keep(user, level, text);
    sr1__log(SR1_LOG_WARN, "from the sink");
    sr1_log_set(NULL, NULL);
}

/* A sink may call the library, and be replaced by itself. */
static void what_a_sink_logs_is_dropped(void **state)
{
    char seen[64] = "nothing";

    (void)state;
    sr1_log_set(log_again, seen);
    sr1__log(SR1_LOG_WARN, "step %d", 3);
    assert_string_equal(seen, "2 step 3");
    sr1__log(SR1_LOG_WARN, "step %d", 4);
    assert_string_equal(seen, "2 step 3");
}

static sr1_status two_blocks(void *leak)
{
    char *a = sr1__strdup("a");
    char *b = a ? sr1__calloc(2, 3) : NULL;

    if (!b) {
        if (!*(int *)leak)
            sr1__free(a);
        return sr1__fail_nomem("blocks");
    }
    sr1__free(a);
    sr1_free(b);
    return SR1_OK;
}

static void torture_counts_allocations(void **state)
{
    int leak = 0;
    char *p;

    (void)state;
    assert_int_equal(torture(two_blocks, &leak), 2);
    assert_null(sr1__calloc(SIZE_MAX, 2));
    p = sr1__strndup("abc", 2);
    assert_string_equal(p, "ab");
    assert_null(sr1__realloc(p, SIZE_MAX, 2));
    assert_string_equal(p, "ab");
    p = sr1__realloc(p, 100, 1);
    assert_string_equal(p, "ab");
    sr1__free(p);
    sr1_free(NULL);
}

static const char *metal_name(size_t i)
{
    static const char *const metals[] = {"tin", "lead", "iron"};

    return i < 3 ? metals[i] : NULL;
}

static const char *long_name(size_t i)
{
    return i < SR1__ERROR_MAX ? "a name among many" : NULL;
}

static void unknown_names_are_refused_with_those_known(void **state)
{
    char list[12];

    (void)state;
    assert_int_equal(sr1__fail_unknown("metal", "wood", metal_name), SR1_E_NOT_FOUND);
    assert_string_equal(sr1_last_error(),
                        "metal 'wood' is not known; known: tin, lead, iron");
    assert_int_equal(sr1__fail_unknown("name", "b", long_name), SR1_E_NOT_FOUND);
    assert_int_equal(strlen(sr1_last_error()), SR1__ERROR_MAX - 1);
    sr1__list_names(list, sizeof list, metal_name);
    assert_string_equal(list, "tin, lead, ");
    sr1__list_names(list, sizeof list, long_name);
    assert_string_equal(list, "a name amon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_set_and_kept),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(errors_cross_threads_as_values),
        cmocka_unit_test(what_was_set_since_is_known),
        cmocka_unit_test(every_status_has_name_and_text),
        cmocka_unit_test(log_goes_to_the_sink_only),
        cmocka_unit_test(what_a_sink_logs_is_dropped),
        cmocka_unit_test(torture_counts_allocations),
        cmocka_unit_test(unknown_names_are_refused_with_those_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
