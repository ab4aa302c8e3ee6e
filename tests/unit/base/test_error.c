/* Statuses, error text, version, logging. */
#include "../../support/torture.h"

#include "base/log.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* A name within a text, cut as it stands there, or of bytes that are no text. */
static void names_in_a_text_are_whole(void **state)
{
    const char *name = "a\xc3\xa9\xe6\x9c\xaa\xf0\x9f\x98\x80";
    static const char *const shown[] = {
        "'a'",
        "'a\xef\xbf\xbd'",
        "'a\xc3\xa9'",
        "'a\xc3\xa9\xef\xbf\xbd'",
        "'a\xc3\xa9\xef\xbf\xbd'",
        "'a\xc3\xa9\xe6\x9c\xaa'",
        "'a\xc3\xa9\xe6\x9c\xaa\xef\xbf\xbd'",
        "'a\xc3\xa9\xe6\x9c\xaa\xef\xbf\xbd'",
        "'a\xc3\xa9\xe6\x9c\xaa\xef\xbf\xbd'",
        "'a\xc3\xa9\xe6\x9c\xaa\xf0\x9f\x98\x80'",
    };

    (void)state;
    for (int n = 1; n <= 10; n++) {
        sr1__fail(SR1_E_INVALID, "'%.*s'", n, name);
        assert_string_equal(sr1_last_error(), shown[n - 1]);
    }
    sr1__fail(SR1_E_IO, "K\xf6ln.txt \x80\xff");
    assert_string_equal(sr1_last_error(), "K\xef\xbf\xbdln.txt \xef\xbf\xbd\xef\xbf\xbd");
    sr1__context(SR1_E_IO, "%s", sr1_last_error());
    assert_true(sr1__utf8_valid(sr1_last_error(), strlen(sr1_last_error())));
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

struct waiting_log {
    char seen[256];
    int joined;
};

static void *log_two(void *arg)
{
    (void)arg;
    sr1__log(SR1_LOG_INFO, "second");
    sr1__log(SR1_LOG_WARN, "third");
    return NULL;
}

/* A sink may wait for a thread that logs, as one does that frees a server: the first time
 * that this one is called. */
static void join_in_sink(void *user, int32_t level, const char *text)
{
    struct waiting_log *w = user;
    pthread_t thread;

    snprintf(w->seen + strlen(w->seen), sizeof w->seen - strlen(w->seen), "%d %s;",
             (int)level, text);
    if (w->joined++)
        return;
    assert_int_equal(pthread_create(&thread, NULL, log_two, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(w->seen, "1 first;");
}

static void no_thread_waits_for_the_sink(void **state)
{
    struct waiting_log w = {.joined = 0};

    (void)state;
    sr1_log_set(join_in_sink, &w);
    sr1__log(SR1_LOG_INFO, "first");
    assert_string_equal(w.seen, "1 first;1 second;2 third;");
    sr1__log(SR1_LOG_INFO, "last");
    assert_string_equal(w.seen, "1 first;1 second;2 third;1 last;");
    sr1_log_set(NULL, NULL);
}

struct flood {
    unsigned long calls;
    char last[128];
    int began;
};

static void *log_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100000; i++)
        sr1__log(SR1_LOG_INFO, "message %d", i);
    return NULL;
}

static void count_calls(void *user, int32_t level, const char *text)
{
    struct flood *f = user;
    pthread_t thread;

    (void)level;
    f->calls++;
    snprintf(f->last, sizeof f->last, "%s", text);
    if (f->began++)
        return;
    assert_int_equal(pthread_create(&thread, NULL, log_much, NULL), 0);
    pthread_join(thread, NULL);
}

/* What waits for a slow sink is bounded, and what was lost is told. */
static void messages_that_wait_are_bounded(void **state)
{
    struct flood f = {.calls = 0};
    unsigned long lost = 0;

    (void)state;
    sr1_log_set(count_calls, &f);
    sr1__log(SR1_LOG_INFO, "first");
    sr1_log_set(NULL, NULL);
    assert_true(f.calls > 100 && f.calls < 100000);
    assert_int_equal(sscanf(f.last, "log: %lu messages were lost", &lost), 1);
    assert_int_equal(lost + f.calls - 2, 100000);
}

struct removal {
    pthread_t thread;
    atomic_int begun, removed, within;
};

static void *set_none(void *arg)
{
    struct removal *m = arg;

    atomic_store(&m->begun, 1);
    sr1_log_set(NULL, NULL);
    atomic_store(&m->removed, 1);
    return NULL;
}

static void remove_meanwhile(void *user, int32_t level, const char *text)
{
    struct removal *m = user;

    (void)level;
    (void)text;
    assert_int_equal(pthread_create(&m->thread, NULL, set_none, m), 0);
    while (!atomic_load(&m->begun))
        usleep(1000);
    usleep(100000);
    m->within = m->removed;
}

/* Once it is removed no thread is in it any more. */
static void removing_a_sink_waits_for_it(void **state)
{
    struct removal m = {.removed = 0};

    (void)state;
    sr1_log_set(remove_meanwhile, &m);
    sr1__log(SR1_LOG_INFO, "first");
    pthread_join(m.thread, NULL);
    assert_int_equal(m.within, 0);
    assert_int_equal(m.removed, 1);
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
        cmocka_unit_test(names_in_a_text_are_whole),
        cmocka_unit_test(errors_cross_threads_as_values),
        cmocka_unit_test(what_was_set_since_is_known),
        cmocka_unit_test(every_status_has_name_and_text),
        cmocka_unit_test(log_goes_to_the_sink_only),
        cmocka_unit_test(what_a_sink_logs_is_dropped),
        cmocka_unit_test(no_thread_waits_for_the_sink),
        cmocka_unit_test(messages_that_wait_are_bounded),
        cmocka_unit_test(removing_a_sink_waits_for_it),
        cmocka_unit_test(torture_counts_allocations),
        cmocka_unit_test(unknown_names_are_refused_with_those_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
