/* A chain of engines: each query goes on until somebody answers it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/torture.h"

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

/* An engine that fails queries with its letter, answers the others, and may fail whole.
 */
struct stub {
    char fails; /* queries that contain it; '*' all */
    int32_t how;
    sr1_status whole;
    int asked;
};

static sr1_status stub_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    struct stub *s = self;

    (void)top_k;
    s->asked += (int)n;
    if (s->whole != SR1_OK)
        return sr1_set_error(s->whole, "the stub broke");
    for (size_t i = 0; i < n; i++) {
        char text[32];

        if (s->fails == '*' || strchr(queries[i], s->fails))
            (void)sr1_search_sink_status(sink, i, s->how, "the stub is down");
        else if (!strchr(queries[i], '0')) {
            snprintf(text, sizeof text, "from %c", s->fails);
            if (sr1_search_sink_hit(sink, i, "id", text, 2.5) != SR1_OK ||
                sr1_search_sink_row(sink, i, "{}") != SR1_OK)
                return SR1_E_NOMEM;
        }
    }
    return SR1_OK;
}

static sr1_search *wrap(struct stub *s)
{
    const sr1_search_ops ops = {sizeof(ops), "stub", stub_search, NULL, 0};
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_new(&e, &ops, s), SR1_OK);
    return e;
}

static sr1_search *chain(struct stub *stubs, size_t n)
{
    sr1_search *engines[4], *e = NULL;

    for (size_t i = 0; i < n; i++)
        engines[i] = wrap(&stubs[i]);
    assert_int_equal(sr1_search_open_chain(&e, engines, n), SR1_OK);
    for (size_t i = 0; i < n; i++)
        sr1_search_free(engines[i]);
    return e;
}

static const char *contents(const sr1_search_results *found, size_t i)
{
    sr1_search_hit hit = {sizeof(hit)};

    assert_int_equal(sr1_search_results_hit(found, i, 0, &hit), SR1_OK);
    assert_true(hit.score == 2.5);
    assert_string_equal(hit.row, "{}");
    return hit.contents;
}

static void a_query_goes_on_alone(void **state)
{
    struct stub stubs[] = {{'a', SR1_ACTION_TIMEOUT, SR1_OK, 0},
                           {'b', SR1_ACTION_ERROR, SR1_OK, 0},
                           {'c', SR1_ACTION_ERROR, SR1_OK, 0}};
    const char *queries[] = {"x", "a", "ab", "abc", "a0", "0"};
    sr1_search *e = chain(stubs, 3);
    sr1_search_results *found = NULL;
    sr1_search_counters c = {sizeof(c)};

    (void)state;
    assert_int_equal(sr1_search_run(e, queries, 6, 3, &found), SR1_OK);
    assert_string_equal(contents(found, 0), "from a");
    assert_string_equal(contents(found, 1), "from b");
    assert_string_equal(contents(found, 2), "from c");
    assert_int_equal(sr1_search_results_status(found, 3), SR1_ACTION_ERROR);
    assert_string_equal(sr1_search_results_message(found, 3), "the stub is down");
    assert_int_equal(sr1_search_results_status(found, 4), SR1_ACTION_EMPTY);
    assert_string_equal(sr1_search_results_message(found, 5),
                        "No information found for: 0"); /* an answer: nobody else asked */
    assert_int_equal(stubs[0].asked, 6);
    assert_int_equal(stubs[1].asked, 4);
    assert_int_equal(stubs[2].asked, 2);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.fallbacks, 6);
    assert_int_equal(c.failed, 1);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void an_engine_that_breaks_is_passed_over(void **state)
{
    struct stub stubs[] = {{'a', SR1_ACTION_ERROR, SR1_E_IO, 0},
                           {'b', SR1_ACTION_ERROR, SR1_OK, 0}};
    const char *query = "x";
    sr1_search *e = chain(stubs, 2);
    sr1_search_results *found = NULL;

    (void)state;
    assert_int_equal(sr1_search_run(e, &query, 1, 3, &found), SR1_OK);
    assert_string_equal(contents(found, 0), "from b");
    sr1_search_results_free(found);
    found = NULL;
    stubs[1].whole = SR1_E_TIMEOUT;
    assert_int_equal(sr1_search_run(e, &query, 1, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_TIMEOUT);
    assert_non_null(strstr(sr1_search_results_message(found, 0), "the stub broke"));
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static int warnings;

static void count_warnings(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level != SR1_LOG_WARN)
        return;
    assert_non_null(strstr(text, "'stub' is asked until it answers again"));
    warnings++;
}

/* A warning when an engine begins to fail, not one a batch. */
static void a_failing_engine_is_told_once(void **state)
{
    struct stub stubs[] = {{'a', SR1_ACTION_ERROR, SR1_OK, 0},
                           {'b', SR1_ACTION_ERROR, SR1_OK, 0}};
    const char *queries[] = {"a", "x"};
    static const int told[] = {1, 1, 1, 1, 2};
    sr1_search *e = chain(stubs, 2);

    (void)state;
    warnings = 0;
    sr1_log_set(count_warnings, NULL);
    for (int i = 0; i < 5; i++) {
        sr1_search_results *found = NULL;

        assert_int_equal(sr1_search_run(e, &queries[i == 3], 1, 3, &found), SR1_OK);
        sr1_search_results_free(found);
        assert_int_equal(warnings, told[i]);
    }
    sr1_log_set(NULL, NULL);
    sr1_search_free(e);
}

static void wrong_arguments(void **state)
{
    sr1_search *none[1] = {NULL};
    sr1_search *e = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_chain(&e, none, 0), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_chain(&e, none, 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_chain(&e, NULL, 1), SR1_E_INVALID);
    assert_null(e);
}

static sr1_status run_it(void *arg)
{
    sr1_search *engines[2] = {NULL}, *e = NULL;
    const char *queries[] = {"a", "x"};
    sr1_search_results *found = NULL;
    const sr1_search_ops ops = {sizeof(ops), "stub", stub_search, NULL, 0};
    struct stub *stubs = arg;
    sr1_status status = sr1_search_new(&engines[0], &ops, &stubs[0]);

    if (status == SR1_OK)
        status = sr1_search_new(&engines[1], &ops, &stubs[1]);
    if (status == SR1_OK)
        status = sr1_search_open_chain(&e, engines, 2);
    if (status == SR1_OK)
        status = sr1_search_run(e, queries, 2, 3, &found);
    for (size_t i = 0; status == SR1_OK && i < 2; i++) {
        sr1_search_hit hit = {sizeof(hit)};

        /* an engine of the caller that ran out of it was passed over */
        if (sr1_search_results_hit(found, i, 0, &hit) != SR1_OK ||
            strcmp(hit.contents, i == 0 ? "from b" : "from a") != 0)
            status = SR1_E_NOMEM;
    }
    sr1_search_results_free(found);
    sr1_search_free(e);
    sr1_search_free(engines[0]);
    sr1_search_free(engines[1]);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    struct stub stubs[] = {{'a', SR1_ACTION_ERROR, SR1_OK, 0},
                           {'b', SR1_ACTION_ERROR, SR1_OK, 0}};

    (void)state;
    assert_true(torture(run_it, stubs) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_goes_on_alone),
        cmocka_unit_test(an_engine_that_breaks_is_passed_over),
        cmocka_unit_test(a_failing_engine_is_told_once),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
