/* Documents kept taken apart: found again, bounded, shared by threads. */
#include "../../support/torture.h"

#include "retrieval/search/doc_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct sr1__doc *make(uint32_t number, const char *contents)
{
    struct sr1__doc *d = NULL;
    char row[64];
    char id[16];

    snprintf(id, sizeof id, "d%u", (unsigned)number);
    snprintf(row, sizeof row, "{\"id\": \"%s\"}", id);
    assert_int_equal(
        sr1__doc_new(&d, number, id, contents, strlen(contents), row, strlen(row)),
        SR1_OK);
    return d;
}

static void documents_are_found_again(void **state)
{
    struct sr1__doc_cache *c = NULL;
    struct sr1__doc *d = make(7, "text");

    (void)state;
    assert_int_equal(sr1__doc_cache_new(&c, 1 << 20), SR1_OK);
    assert_null(sr1__doc_cache_get(c, 7));
    sr1__doc_cache_put(c, d);
    sr1__doc_cache_put(c, d); /* once is enough */
    sr1__doc_release(d);
    d = sr1__doc_cache_get(c, 7);
    assert_null(sr1__doc_cache_get(c, 7 + 16));
    sr1__doc_cache_free(c); /* a reference outlives the cache */
    assert_string_equal(sr1__doc_id(d), "d7");
    assert_string_equal(sr1__doc_contents(d), "text");
    assert_string_equal(sr1__doc_row(d), "{\"id\": \"d7\"}");
    sr1__doc_release(d);
    sr1__doc_release(NULL);
    sr1__doc_cache_free(NULL);
}

static void nul_becomes_a_character(void **state)
{
    struct sr1__doc *d = NULL;

    (void)state;
    assert_int_equal(sr1__doc_new(&d, 0, "i", "\0a\0\0b\0", 6, "{\0}", 3), SR1_OK);
    assert_string_equal(sr1__doc_contents(d), "\xEF\xBF\xBD"
                                              "a\xEF\xBF\xBD\xEF\xBF\xBD"
                                              "b\xEF\xBF\xBD");
    assert_string_equal(sr1__doc_row(d), "{\xEF\xBF\xBD}");
    sr1__doc_release(d);
    assert_int_equal(sr1__doc_new(&d, 0, "", "", 0, "", 0), SR1_OK);
    assert_string_equal(sr1__doc_contents(d), "");
    sr1__doc_release(d);
}

/* Read at once or by the parser, a row gives the same document. */
static void rows_are_taken_apart(void **state)
{
    static const struct {
        const char *row;
        const char *id;
        const char *contents;
    } cases[] = {
        {"{\"id\": \"1\", \"contents\": \"a \\\"b\\\"\\n\"}", "1", "a \"b\"\n"},
        {"{\"id\": 12, \"contents\": \"na\xC3\xAFve\"}", "12", "na\xC3\xAFve"},
        {"{\"id\": -0, \"contents\": \"x\"}", "0", "x"},
        {"{\"id\": \"a\\/b\", \"contents\": \"x\"}", "a/b", "x"},
        {"{\"id\": \"\\u0041\", \"contents\": \"\\u00e9\\u0000\"}", "A",
         "\xC3\xA9\xEF\xBF\xBD"},
        {"{\"id\": \"\", \"contents\": \"\", \"more\": [1, {}]}", "", ""},
    };
    static const char *const bad[] = {"",
                                      "{}",
                                      "{\"id\": 1}",
                                      "{\"id\": 1.5, \"contents\": \"x\"}",
                                      "{\"id\": 1, \"contents\": 2}",
                                      "{\"id\": 1, \"contents\": \"\xC3\"}"};
    struct sr1__doc *d = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sr1__doc_parse(&d, 3, cases[i].row, strlen(cases[i].row)),
                         SR1_OK);
        assert_string_equal(sr1__doc_id(d), cases[i].id);
        assert_string_equal(sr1__doc_contents(d), cases[i].contents);
        assert_string_equal(sr1__doc_row(d), cases[i].row);
        sr1__doc_release(d);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(sr1__doc_parse(&d, 3, bad[i], strlen(bad[i])), SR1_E_PARSE);
}

/* All in one shard (numbers a multiple of 16 apart). */
static void the_least_recently_used_leaves(void **state)
{
    struct sr1__doc_cache *c = NULL;
    struct sr1__doc *d;
    char text[1001];
    int kept = 0;

    (void)state;
    memset(text, 'x', 1000);
    text[1000] = '\0';
    assert_int_equal(sr1__doc_cache_new(&c, 16 * 10 * 1100), SR1_OK);
    for (uint32_t i = 0; i < 50; i++) {
        d = make(16 * i, text);
        sr1__doc_cache_put(c, d);
        sr1__doc_release(d);
        d = sr1__doc_cache_get(c, 0); /* the first stays: it is used */
        assert_non_null(d);
        sr1__doc_release(d);
    }
    for (uint32_t i = 0; i < 50; i++) {
        d = sr1__doc_cache_get(c, 16 * i);
        kept += d != NULL;
        assert_true(d != NULL || i < 42);
        sr1__doc_release(d);
    }
    assert_in_range(kept, 8, 10);
    sr1__doc_cache_free(c);
}

static void too_large_ones_are_not_kept(void **state)
{
    struct sr1__doc_cache *c = NULL;
    struct sr1__doc *d = make(1, "more than that");

    (void)state;
    assert_int_equal(sr1__doc_cache_new(&c, 16 * 50), SR1_OK);
    sr1__doc_cache_put(c, d);
    assert_null(sr1__doc_cache_get(c, 1));
    sr1__doc_release(d);
    sr1__doc_cache_free(c);
}

static void *use(void *arg)
{
    struct sr1__doc_cache *c = arg;
    intptr_t wrong = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t number = i * 7919 % 64;
        struct sr1__doc *d = sr1__doc_cache_get(c, number);
        char id[16];

        if (d == NULL) {
            d = make(number, "some text");
            sr1__doc_cache_put(c, d);
        }
        snprintf(id, sizeof id, "d%u", (unsigned)number);
        wrong += strcmp(sr1__doc_id(d), id) != 0;
        sr1__doc_release(d);
    }
    return (void *)wrong;
}

static void threads_share_it(void **state)
{
    struct sr1__doc_cache *c = NULL;
    pthread_t threads[4];

    (void)state;
    assert_int_equal(sr1__doc_cache_new(&c, 16 * 300), SR1_OK); /* two or so a shard */
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, c), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    sr1__doc_cache_free(c);
}

static void nothing_leaks(void **state)
{
    (void)state;
    assert_int_equal(sr1__mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_found_again),
        cmocka_unit_test(nul_becomes_a_character),
        cmocka_unit_test(rows_are_taken_apart),
        cmocka_unit_test(the_least_recently_used_leaves),
        cmocka_unit_test(too_large_ones_are_not_kept),
        cmocka_unit_test(threads_share_it),
        cmocka_unit_test(nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
