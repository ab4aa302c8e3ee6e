/* test_search.c - the dispatcher: plugins, repeated and blank queries, cache, threads. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A plugin that answers "echo of QUERY" and remembers how it was called. */
struct plugin {
    int calls;
    size_t queries;
    int destroyed;
    sr1_status fail_with;
    const char *fail_text;
    int inside;
    int overlapped;
    pthread_mutex_t lock;
};

static sr1_status answer_one(sr1_search_sink *sink, size_t i, const char *query)
{
    char text[256];

    if (strcmp(query, "nothing") == 0)
        return SR1_OK;
    if (strcmp(query, "slow") == 0) {
        sr1_search_sink_hit(sink, i, "x", "dropped", 1);
        return sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, "3 s passed");
    }
    if (strcmp(query, "broken") == 0)
        return sr1_search_sink_status(sink, i, SR1_ACTION_ERROR, NULL);
    if (strcmp(query, "custom empty") == 0)
        return sr1_search_sink_status(sink, i, SR1_ACTION_EMPTY, "try again tomorrow");
    snprintf(text, sizeof(text), "echo of %s", query);
    for (int k = 0; k < 5; k++) {
        sr1_status status = sr1_search_sink_hit(sink, i, "id", text, 5.0 - k);

        if (status != SR1_OK)
            return status;
    }
    return SR1_OK;
}

static sr1_status plugin_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct plugin *p = self;
    sr1_status status = p->fail_with;

    (void)top_k;
    pthread_mutex_lock(&p->lock);
    p->overlapped |= p->inside;
    p->inside = 1;
    p->calls++;
    p->queries += n;
    pthread_mutex_unlock(&p->lock);
    if (status != SR1_OK && p->fail_text != NULL)
        sr1_set_error(status, p->fail_text);
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = answer_one(sink, i, queries[i]);
    pthread_mutex_lock(&p->lock);
    p->inside = 0;
    pthread_mutex_unlock(&p->lock);
    return status;
}

static void plugin_destroy(void *self)
{
    ((struct plugin *)self)->destroyed++;
}

static sr1_search *plugin_open(struct plugin *p, int32_t flags)
{
    sr1_search_ops ops = {sizeof(ops), "echo", plugin_search, plugin_destroy, flags};
    sr1_search *e = NULL;

    memset(p, 0, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
    assert_int_equal(sr1_search_new(&e, &ops, p), SR1_OK);
    return e;
}

static sr1_search_results *run(sr1_search *e, const char *const *queries, size_t n,
                               int32_t k)
{
    sr1_search_results *r = NULL;

    assert_int_equal(sr1_search_run(e, queries, n, k, &r), SR1_OK);
    assert_int_equal(sr1_search_results_count(r), n);
    return r;
}

static void batch_keeps_order_and_statuses(void **state)
{
    const char *queries[] = {"a", "nothing", "slow", "broken", "custom empty", "b"};
    static const int32_t want[] = {SR1_ACTION_OK,    SR1_ACTION_EMPTY, SR1_ACTION_TIMEOUT,
                                   SR1_ACTION_ERROR, SR1_ACTION_EMPTY, SR1_ACTION_OK};
    static const char *const messages[] = {"",
                                           "No information found for: nothing",
                                           "3 s passed",
                                           "the search failed",
                                           "try again tomorrow",
                                           ""};
    sr1_search_hit hit = {sizeof(hit)};
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);
    sr1_search_results *r = run(e, queries, 6, 3);

    (void)state;
    assert_string_equal(sr1_search_name(e), "echo");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(sr1_search_results_status(r, i), want[i]);
        assert_string_equal(sr1_search_results_message(r, i), messages[i]);
        assert_int_equal(sr1_search_results_hit_count(r, i),
                         want[i] == SR1_ACTION_OK ? 3 : 0);
    }
    assert_int_equal(sr1_search_results_hit(r, 5, 2, &hit), SR1_OK);
    assert_string_equal(hit.contents, "echo of b");
    assert_string_equal(hit.id, "id");
    assert_true(hit.score == 3.0);
    assert_null(hit.row);
    assert_int_equal(sr1_search_results_hit(r, 5, 3, &hit), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_search_results_hit(r, 6, 0, &hit), SR1_E_NOT_FOUND);
    assert_int_equal(p.calls, 1);
    sr1_search_results_free(r);
    sr1_search_free(e);
    assert_int_equal(p.destroyed, 1);
}

static void repeats_are_asked_once_and_blanks_never(void **state)
{
    const char *queries[] = {"a", "a", "", " \t\n", NULL, "b", "a", "\xFF\xFE"};
    sr1_search_counters c = {sizeof(c)};
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);
    sr1_search_results *r = run(e, queries, 8, 1);

    (void)state;
    assert_int_equal(p.queries, 2);
    for (size_t i = 0; i < 8; i++) {
        int blank = i == 2 || i == 3 || i == 4 || i == 7;

        assert_int_equal(sr1_search_results_status(r, i),
                         blank ? SR1_ACTION_EMPTY : SR1_ACTION_OK);
        assert_string_equal(sr1_search_results_message(r, i),
                            blank ? "No information found" : "");
    }
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.queries, 8);
    assert_int_equal(c.blank, 4);
    assert_int_equal(c.duplicates, 2);
    assert_int_equal(c.sent, 2);
    sr1_search_results_free(r);
    r = run(e, NULL, 0, 1);
    assert_int_equal(p.calls, 1);
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void cache_answers_and_forgets(void **state)
{
    const char *first[] = {"a", "nothing", "broken"};
    sr1_search_counters c = {sizeof(c)};
    sr1_search_results *held;
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    assert_int_equal(sr1_search_set_cache(e, 100000), SR1_OK);
    held = run(e, first, 3, 3);
    sr1_search_results_free(run(e, first, 3, 3));
    assert_int_equal(p.queries, 4); /* only "broken" again */
    sr1_search_results_free(run(e, first, 1, 2));
    assert_int_equal(p.queries, 5); /* another top_k is another answer */
    for (int i = 0; i < 1000; i++) {
        char text[32];
        const char *query[] = {text};

        snprintf(text, sizeof(text), "filler %d", i);
        sr1_search_results_free(run(e, query, 1, 3));
    }
    p.queries = 0;
    sr1_search_results_free(run(e, first, 1, 3));
    assert_int_equal(p.queries, 1); /* it had to leave */
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.cache_hits, 2);
    assert_int_equal(c.failed, 2);
    assert_int_equal(sr1_search_set_cache(e, 0), SR1_OK);
    sr1_search_free(e);
    /* results outlive cache and engine */
    assert_string_equal(sr1_search_results_message(held, 1),
                        "No information found for: nothing");
    sr1_search_results_free(held);
}

static void cache_drops_the_least_recently_used(void **state)
{
    const char *a[] = {"a"};
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    assert_int_equal(sr1_search_set_cache(e, 20000), SR1_OK);
    for (int i = 0; i < 500; i++) {
        char text[32];
        const char *query[] = {text};

        sr1_search_results_free(run(e, a, 1, 3));
        snprintf(text, sizeof(text), "filler %d", i);
        sr1_search_results_free(run(e, query, 1, 3));
    }
    assert_int_equal(p.queries, 501); /* "a" was used all the time: sent once */
    sr1_search_free(e);
}

static void failing_plugin_is_named(void **state)
{
    const char *queries[] = {"a"};
    sr1_search_results *r = NULL;
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    p.fail_with = -4711;
    p.fail_text = "the index is on fire";
    assert_int_equal(sr1_search_run(e, queries, 1, 1, &r), SR1_E_CALLBACK);
    assert_null(r);
    assert_non_null(strstr(sr1_last_error(), "'echo'"));
    assert_non_null(strstr(sr1_last_error(), "the index is on fire"));
    p.fail_text = NULL;
    assert_int_equal(sr1_search_run(e, queries, 1, 1, &r), SR1_E_CALLBACK);
    assert_null(strstr(sr1_last_error(), "fire"));
    p.fail_with = SR1_OK;
    sr1_set_error(SR1_E_IO, "it was the disk");
    sr1_search_results_free(run(e, queries, 1, 1));
    assert_string_equal(sr1_last_error(), "it was the disk");
    sr1_search_free(e);
}

static sr1_status bad_search(void *self, const char *const *queries, size_t n,
                             int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)top_k;
    assert_int_equal(sr1_search_sink_hit(sink, n, "id", "text", 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_hit(sink, 0, NULL, "text", 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_hit(sink, 0, "id", NULL, 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_hit(sink, 0, "id", "text", NAN), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_hit(NULL, 0, "id", "text", 1), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_row(sink, 0, "{}"), SR1_E_STATE);
    assert_int_equal(sr1_search_sink_status(sink, 0, 4, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "SR1_ACTION_*"));
    assert_int_equal(sr1_search_sink_status(sink, n, 0, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_sink_hit(sink, 0, "a\xFF", "cut \xE2\x82", 1), SR1_OK);
    return sr1_search_sink_row(sink, 0, "{\"id\": 1}");
}

static void sink_refuses_what_is_wrong(void **state)
{
    sr1_search_ops ops = {sizeof(ops), "bad", bad_search, NULL, 0};
    const char *queries[] = {"a"};
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    sr1_search_results *r;

    (void)state;
    assert_int_equal(sr1_search_new(&e, &ops, NULL), SR1_OK);
    r = run(e, queries, 1, 5);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.id, "a\xEF\xBF\xBD");
    assert_string_equal(hit.contents, "cut \xEF\xBF\xBD\xEF\xBF\xBD");
    assert_string_equal(hit.row, "{\"id\": 1}");
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void arguments_are_checked(void **state)
{
    sr1_search_ops ops = {sizeof(ops), "echo", plugin_search, NULL, 0};
    sr1_search_ops bad = ops;
    const char *queries[] = {"a"};
    sr1_search_hit hit = {0};
    sr1_search_results *r = NULL;
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    assert_int_equal(sr1_search_new(NULL, &ops, NULL), SR1_E_INVALID);
    bad.struct_size = 8;
    assert_int_equal(sr1_search_new(&e, &bad, NULL), SR1_E_INVALID);
    bad = ops;
    bad.name = "";
    assert_int_equal(sr1_search_new(&e, &bad, NULL), SR1_E_INVALID);
    bad = ops;
    bad.search = NULL;
    assert_int_equal(sr1_search_new(&e, &bad, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_run(NULL, queries, 1, 1, &r), SR1_E_INVALID);
    assert_int_equal(sr1_search_run(e, NULL, 1, 1, &r), SR1_E_INVALID);
    assert_int_equal(sr1_search_run(e, queries, 1, 0, &r), SR1_E_INVALID);
    assert_int_equal(sr1_search_run(e, queries, 1, SR1_SEARCH_TOP_K_MAX + 1, &r),
                     SR1_E_INVALID);
    assert_null(r);
    r = run(e, queries, 1, 1);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_E_INVALID);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, NULL), SR1_E_INVALID);
    sr1_search_results_free(r);
    sr1_search_results_free(NULL);
    sr1_search_free(NULL);
    assert_null(sr1_search_retain(NULL));
    assert_int_equal(sr1_search_results_status(NULL, 0), SR1_ACTION_ERROR);
    sr1_search_free(e);
}

static void references_are_counted(void **state)
{
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    assert_ptr_equal(sr1_search_retain(e), e);
    sr1_search_free(e);
    assert_int_equal(p.destroyed, 0);
    sr1_search_free(e);
    assert_int_equal(p.destroyed, 1);
}

static void *many_runs(void *arg)
{
    for (int i = 0; i < 200; i++) {
        char a[32];
        const char *queries[] = {a, "same", a};
        sr1_search_results *r = NULL;

        snprintf(a, sizeof(a), "query %d", i % 20);
        if (sr1_search_run(arg, queries, 3, 2, &r) != SR1_OK ||
            sr1_search_results_hit_count(r, 2) != 2)
            return (void *)"failed";
        sr1_search_results_free(r);
    }
    return NULL;
}

static void run_in_threads(sr1_search *e)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_runs, e), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void threads_share_an_engine(void **state)
{
    struct plugin p;
    sr1_search *e = plugin_open(&p, 0);

    (void)state;
    assert_int_equal(sr1_search_set_cache(e, 4000), SR1_OK);
    run_in_threads(e);
    assert_int_equal(p.overlapped, 0); /* not marked concurrent: one call at a time */
    sr1_search_free(e);
}

static void batches_are_cut_over_threads(void **state)
{
    const char *queries[64];
    char texts[64][16];
    struct plugin p;
    sr1_search *e = plugin_open(&p, SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS);
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search_results *r;

    (void)state;
    for (int i = 0; i < 64; i++) {
        snprintf(texts[i], sizeof(texts[i]), "q%d", i);
        queries[i] = texts[i];
    }
    assert_int_equal(sr1_search_set_threads(e, 4), SR1_OK);
    r = run(e, queries, 64, 1);
    assert_true(p.calls > 4);
    assert_int_equal(p.queries, 64);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(sr1_search_results_hit(r, i, 0, &hit), SR1_OK);
        assert_string_equal(hit.contents + strlen("echo of "), texts[i]);
    }
    sr1_search_results_free(r);
    p.fail_with = SR1_E_IO;
    r = NULL;
    assert_int_equal(sr1_search_run(e, queries, 64, 1, &r), SR1_E_CALLBACK);
    assert_null(r);
    sr1_search_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_keeps_order_and_statuses),
        cmocka_unit_test(repeats_are_asked_once_and_blanks_never),
        cmocka_unit_test(cache_answers_and_forgets),
        cmocka_unit_test(cache_drops_the_least_recently_used),
        cmocka_unit_test(failing_plugin_is_named),
        cmocka_unit_test(sink_refuses_what_is_wrong),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(references_are_counted),
        cmocka_unit_test(threads_share_an_engine),
        cmocka_unit_test(batches_are_cut_over_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
