/* Engines over engines: fused ranks worked out by hand, and reranked hits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "retrieval/search/search_engine.h"
#include "support/torture.h"

#include <searchr1/search.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>

/* An engine that finds its documents, a letter each, for every query: but nothing for
 * queries with an x, and it fails those with the letter `fails`. */
struct stub {
    const char *docs;
    char fails;
    sr1_status whole;
    int32_t flags;
    int32_t asked_k;
    int bare;           /* its documents have no rows */
    atomic_int *inside; /* where it waits, a while, for another to come in too */
    int signals;        /* does SIGTERM interrupt its thread? */
};

static sr1_status give(struct stub *s, sr1_search_sink *sink, size_t i)
{
    for (size_t k = 0; s->docs[k]; k++) {
        char id[2] = {s->docs[k], '\0'};
        char text[32], row[32];
        sr1_status st;

        snprintf(text, sizeof text, "%s of %s", id, s->docs);
        snprintf(row, sizeof row, "{\"from\": \"%s\"}", s->docs);
        st = sr1_search_sink_hit(sink, i, id, text, 100.0 - (double)k);
        if (st == SR1_OK && !s->bare)
            st = sr1_search_sink_row(sink, i, row);
        if (st != SR1_OK)
            return st;
    }
    return SR1_OK;
}

static sr1_status stub_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    struct stub *s = self;

    sigset_t blocked;

    s->asked_k = top_k;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    s->signals = !sigismember(&blocked, SIGTERM);
    if (s->inside != NULL && atomic_fetch_add(s->inside, 1) == 0)
        for (int i = 0; i < 5000 && atomic_load(s->inside) < 2; i++)
            usleep(1000);
    if (s->whole != SR1_OK)
        return sr1_set_error(s->whole, "the stub broke");
    for (size_t i = 0; i < n; i++) {
        sr1_status st = SR1_OK;

        if (s->fails && strchr(queries[i], s->fails))
            st = sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, "the stub is down");
        else if (!strchr(queries[i], 'x'))
            st = give(s, sink, i);
        if (st != SR1_OK)
            return st;
    }
    return SR1_OK;
}

static sr1_status stub_open(sr1_search **out, struct stub *s)
{
    const sr1_search_ops ops = {sizeof(ops), "stub", stub_search, NULL, s->flags};

    return sr1_search_new(out, &ops, s);
}

static sr1_status hybrid_open(sr1_search **out, struct stub *stubs, size_t n,
                              const double *weights, const sr1_hybrid_options *o)
{
    sr1_search *engines[4] = {NULL};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = stub_open(&engines[i], &stubs[i]);
    if (st == SR1_OK)
        st = sr1_search_open_hybrid(out, engines, weights, n, o);
    for (size_t i = 0; i < n; i++)
        sr1_search_free(engines[i]);
    return st;
}

static sr1_search *hybrid(struct stub *stubs, size_t n, const double *weights,
                          const sr1_hybrid_options *o)
{
    sr1_search *e = NULL;

    assert_int_equal(hybrid_open(&e, stubs, n, weights, o), SR1_OK);
    return e;
}

static sr1_search_results *run(sr1_search *e, const char *query, int32_t top_k)
{
    sr1_search_results *found = NULL;

    assert_int_equal(sr1_search_run(e, &query, 1, top_k, &found), SR1_OK);
    return found;
}

/* The ids in order, as one text. */
static const char *ids(const sr1_search_results *found)
{
    static char text[32];
    int32_t n = sr1_search_results_hit_count(found, 0);

    for (int32_t k = 0; k < n; k++) {
        sr1_search_hit hit = {sizeof(hit)};

        assert_int_equal(sr1_search_results_hit(found, 0, k, &hit), SR1_OK);
        text[k] = hit.id[0];
    }
    text[n] = '\0';
    return text;
}

static double score(const sr1_search_results *found, int32_t k)
{
    sr1_search_hit hit = {sizeof(hit)};

    assert_int_equal(sr1_search_results_hit(found, 0, k, &hit), SR1_OK);
    return hit.score;
}

static void check(sr1_search *e, int32_t top_k, const char *order)
{
    sr1_search_results *found = run(e, "q", top_k);

    assert_string_equal(ids(found), order);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

/* ---- fusion ---- */

static void ranks_are_fused(void **state)
{
    struct stub stubs[] = {{.docs = "abcd"}, {.docs = "cae"}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    sr1_search_results *found = run(e, "q", 10);
    sr1_search_hit hit = {sizeof(hit)};

    (void)state;
    /* a 1/61 + 1/62, c 1/63 + 1/61, b 1/62, e 1/63, d 1/64 */
    assert_string_equal(ids(found), "acbed");
    assert_float_equal(score(found, 0), 0.032522474881015335, 1e-15);
    assert_float_equal(score(found, 1), 0.03226645849596669, 1e-15);
    assert_float_equal(score(found, 2), 0.016129032258064516, 1e-15);
    assert_float_equal(score(found, 3), 0.015873015873015872, 1e-15);
    assert_float_equal(score(found, 4), 0.015625, 1e-15);
    (void)sr1_search_results_hit(found, 0, 1, &hit);
    assert_string_equal(hit.contents, "c of abcd"); /* the first engine's */
    assert_string_equal(hit.row, "{\"from\": \"abcd\"}");
    assert_int_equal(stubs[0].asked_k, 100);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void weights_and_k_count(void **state)
{
    struct stub stubs[] = {{.docs = "ab"}, {.docs = "ca"}};
    const double weights[] = {1.0, 5.0};
    sr1_hybrid_options o = {sizeof(o), 0.0, 2, 0};
    sr1_search *e = hybrid(stubs, 2, weights, &o);
    sr1_search_results *found = run(e, "q", 1);

    (void)state;
    /* k 0: a 1/1 + 5/2, b 1/2, c 5/1 */
    assert_string_equal(ids(found), "c");
    assert_float_equal(score(found, 0), 5.0, 1e-15);
    assert_int_equal(stubs[0].asked_k, 2);
    sr1_search_results_free(found);
    found = run(e, "q", 3);
    assert_string_equal(ids(found), "cab");
    assert_float_equal(score(found, 1), 3.5, 1e-15);
    assert_int_equal(stubs[0].asked_k, 3); /* top_k above depth */
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void equal_scores_stay_as_met(void **state)
{
    /* each letter has the ranks 1, 2 and 3 */
    struct stub round[] = {{.docs = "abc"}, {.docs = "bca"}, {.docs = "cab"}};
    struct stub apart[] = {{.docs = "ab"}, {.docs = "cd"}};
    sr1_search *e = hybrid(round, 3, NULL, NULL);
    sr1_search_results *found = run(e, "q", 3);

    (void)state;
    assert_string_equal(ids(found), "abc");
    assert_true(score(found, 0) == score(found, 1) && score(found, 1) == score(found, 2));
    sr1_search_results_free(found);
    sr1_search_free(e);
    check(hybrid(apart, 2, NULL, NULL), 10, "acbd");
}

static void a_document_listed_twice_counts_once(void **state)
{
    struct stub stubs[] = {{.docs = "aab"}, {.docs = "b"}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    sr1_search_results *found = run(e, "q", 10);

    (void)state;
    assert_string_equal(ids(found), "ba"); /* b 1/63 + 1/61, a 1/61 */
    assert_float_equal(score(found, 1), 1.0 / 61, 1e-15);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void documents_may_have_no_rows(void **state)
{
    struct stub stubs[] = {{.docs = "ab", .bare = 1}, {.docs = "bc"}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    sr1_search_results *found = run(e, "q", 5);
    sr1_search_hit hit = {sizeof(hit)};

    (void)state;
    (void)sr1_search_results_hit(found, 0, 0, &hit);
    assert_string_equal(hit.contents, "b of ab");
    assert_null(hit.row);
    (void)sr1_search_results_hit(found, 0, 2, &hit);
    assert_string_equal(hit.row, "{\"from\": \"bc\"}");
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void fewer_hits_than_asked(void **state)
{
    struct stub stubs[] = {{.docs = ""}, {.docs = "ab"}};
    struct stub nothing[] = {{.docs = ""}, {.docs = ""}};
    sr1_search *e = hybrid(nothing, 2, NULL, NULL);
    sr1_search_results *found = run(e, "q", 5);

    (void)state;
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_EMPTY);
    sr1_search_results_free(found);
    sr1_search_free(e);
    check(hybrid(stubs, 2, NULL, NULL), 5, "ab");
    check(hybrid(stubs + 1, 1, NULL, NULL), 5, "ab");
}

/* ---- failing ---- */

static void what_fails_in_one_is_answered_by_others(void **state)
{
    struct stub stubs[] = {{.docs = "ab", .fails = 'f'}, {.docs = "bc", .fails = 'g'}};
    const char *queries[] = {"q", "f", "g", "fg", "fx", "x"};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    sr1_search_results *found = NULL;
    sr1_search_counters c = {sizeof(c)};

    (void)state;
    assert_int_equal(sr1_search_run(e, queries, 6, 5, &found), SR1_OK);
    assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
    assert_int_equal(sr1_search_results_hit_count(found, 1), 2);
    assert_int_equal(sr1_search_results_hit_count(found, 2), 2);
    assert_int_equal(sr1_search_results_status(found, 3), SR1_ACTION_TIMEOUT);
    assert_string_equal(sr1_search_results_message(found, 3), "the stub is down");
    /* one found nothing, the other failed: nothing is known */
    assert_int_equal(sr1_search_results_status(found, 4), SR1_ACTION_TIMEOUT);
    assert_int_equal(sr1_search_results_status(found, 5), SR1_ACTION_EMPTY);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.fallbacks, 2);
    assert_int_equal(c.failed, 2);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

/* sr1_log_fn: counts warnings, and lines of other levels */
static void count_lines(void *user, int32_t level, const char *text)
{
    int *lines = user;

    (void)text;
    lines[level != SR1_LOG_WARN]++;
}

static void an_outage_is_told_when_it_begins_and_ends(void **state)
{
    struct stub stubs[] = {{.docs = "ab", .fails = 'f'}, {.docs = "bc"}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    int lines[2] = {0, 0};

    (void)state;
    sr1_log_set(count_lines, lines);
    for (int i = 0; i < 6; i++)
        sr1_search_results_free(run(e, i % 3 < 2 ? "f" : "q", 5));
    sr1_log_set(NULL, NULL);
    assert_int_equal(lines[0], 2); /* of 4 failures in 2 outages */
    assert_int_equal(lines[1], 2);
    sr1_search_free(e);
}

static void an_engine_that_breaks_is_left_out(void **state)
{
    struct stub stubs[] = {{.docs = "ab", .whole = SR1_E_IO}, {.docs = "bc"}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);
    sr1_search_results *found = run(e, "q", 5);

    (void)state;
    assert_string_equal(ids(found), "bc");
    sr1_search_results_free(found);
    stubs[1].whole = SR1_E_IO;
    found = run(e, "q", 5);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 0), "the stub broke"));
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void engines_that_wait_are_asked_side_by_side(void **state)
{
    const int32_t waits = SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS | SR1_SEARCH_WAITS;
    const int32_t works = SR1_SEARCH_CONCURRENT;
    atomic_int first = 0, second = 0;
    struct stub stubs[] = {{.docs = "ab", .flags = waits, .inside = &first},
                           {.docs = "cd", .flags = waits, .whole = SR1_E_IO},
                           {.docs = "b", .flags = works}};
    sr1_search *e = hybrid(stubs, 2, NULL, NULL);

    (void)state;
    assert_int_equal(sr1__search_flags(e), waits);
    stubs[1].inside = &first;
    check(e, 5, "ab");
    assert_int_equal(first, 2);
    assert_int_equal(stubs[0].signals, 0); /* threads of the library take none */
    stubs[1].inside = NULL;
    stubs[0].inside = stubs[2].inside = &second; /* one waits while the other works */
    e = hybrid(stubs, 3, NULL, NULL);
    assert_int_equal(sr1__search_flags(e), SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS);
    check(e, 5, "ba");
    assert_int_equal(second, 2);
}

/* ---- reranking ---- */

/* A text is worth its first letter, where b counts as a. */
static sr1_status worth(void *self, const char *query, const char *const *texts, size_t n,
                        double *scores)
{
    sr1_status *fails = self;

    if (strchr(query, 'f'))
        return sr1_set_error(*fails, "nothing to be read");
    for (size_t i = 0; i < n; i++)
        scores[i] = texts[i][0] == 'b' ? 'a' : texts[i][0];
    return SR1_OK;
}

static sr1_status reranked_open(sr1_search **out, struct stub *s, int32_t depth,
                                sr1_status *fails)
{
    const sr1_reranker_ops ops = {sizeof(ops), "worth", worth, NULL, 0};
    sr1_rerank_options o = {sizeof(o), depth, 0};
    sr1_search *engine = NULL;
    sr1_reranker *r = NULL;
    sr1_status st = stub_open(&engine, s);

    if (st == SR1_OK)
        st = sr1_reranker_new(&r, &ops, fails);
    if (st == SR1_OK)
        st = sr1_search_open_rerank(out, engine, r, depth ? &o : NULL);
    sr1_search_free(engine);
    sr1_reranker_free(r);
    return st;
}

static void hits_take_the_rerankers_order(void **state)
{
    struct stub s = {.docs = "bacd", .fails = 't'};
    sr1_status fails = SR1_E_IO;
    const char *queries[] = {"q", "t", "x", "f"};
    sr1_search *e = NULL;
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {sizeof(hit)};

    (void)state;
    assert_int_equal(reranked_open(&e, &s, 0, &fails), SR1_OK);
    assert_int_equal(sr1_search_run(e, queries, 4, 3, &found), SR1_OK);
    assert_string_equal(ids(found), "dcb"); /* b before a, as the engine has it */
    assert_true(score(found, 0) == 'd' && score(found, 2) == 'a');
    (void)sr1_search_results_hit(found, 0, 0, &hit);
    assert_string_equal(hit.row, "{\"from\": \"bacd\"}");
    assert_int_equal(s.asked_k, 50);
    assert_int_equal(sr1_search_results_status(found, 1), SR1_ACTION_TIMEOUT);
    assert_int_equal(sr1_search_results_status(found, 2), SR1_ACTION_EMPTY);
    assert_int_equal(sr1_search_results_status(found, 3), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 3), "nothing to be read"));
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void only_depth_hits_are_read(void **state)
{
    struct stub s = {.docs = "abcd"};
    sr1_status fails = SR1_E_IO;
    sr1_search *e = NULL;
    sr1_search_results *found;

    (void)state;
    assert_int_equal(reranked_open(&e, &s, 2, &fails), SR1_OK);
    found = run(e, "q", 1);
    assert_string_equal(ids(found), "a");
    assert_int_equal(s.asked_k, 2);
    sr1_search_results_free(found);
    check(e, 3, "cab");
    assert_int_equal(s.asked_k, 3);
}

/* ---- arguments, memory ---- */

static void wrong_arguments(void **state)
{
    struct stub stubs[] = {{.docs = "a"}, {.docs = "b"}};
    const double weights[][2] = {{1.0, 0.0}, {-1.0, 1.0}, {1.0, INFINITY}};
    const sr1_hybrid_options bad[] = {{sizeof(bad[0]), -1.0, 10, 0},
                                      {sizeof(bad[0]), 60.0, 0, 0},
                                      {sizeof(bad[0]), 60.0, SR1_SEARCH_TOP_K_MAX + 1, 0},
                                      {0, 60.0, 10, 0}};
    sr1_search *none[1] = {NULL};
    sr1_search *e = NULL;
    sr1_status fails = SR1_E_IO;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(hybrid_open(&e, stubs, 2, weights[i], NULL), SR1_E_INVALID);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(hybrid_open(&e, stubs, 2, NULL, &bad[i]), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_hybrid(&e, none, NULL, 1, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_hybrid(&e, none, NULL, 0, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_hybrid(&e, none, NULL, 17, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_rerank(&e, NULL, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(reranked_open(&e, stubs, -1, &fails), SR1_E_INVALID);
    assert_null(e);
}

static sr1_status run_both(void *arg)
{
    struct stub *stubs = arg;
    const char *queries[] = {"q", "x"};
    sr1_search *inner[2] = {NULL}, *e = NULL;
    sr1_search_results *found = NULL;
    sr1_status fails = SR1_E_IO;
    sr1_status st = hybrid_open(&inner[0], stubs, 2, NULL, NULL);

    if (st == SR1_OK)
        st = reranked_open(&inner[1], &stubs[0], 0, &fails);
    if (st == SR1_OK)
        st = sr1_search_open_hybrid(&e, inner, NULL, 2, NULL);
    if (st == SR1_OK)
        st = sr1_search_run(e, queries, 2, 3, &found);
    /* an engine of the caller, or a reranker, that ran out of memory was left out */
    if (st == SR1_OK && (strcmp(ids(found), "bac") != 0 ||
                         fabs(score(found, 1) - (1.0 / 61 + 1.0 / 62)) > 1e-12))
        st = SR1_E_NOMEM;
    sr1_search_results_free(found);
    sr1_search_free(e);
    sr1_search_free(inner[0]);
    sr1_search_free(inner[1]);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    struct stub stubs[] = {{.docs = "ab"}, {.docs = "bc"}};

    (void)state;
    assert_true(torture(run_both, stubs) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_fused),
        cmocka_unit_test(weights_and_k_count),
        cmocka_unit_test(equal_scores_stay_as_met),
        cmocka_unit_test(a_document_listed_twice_counts_once),
        cmocka_unit_test(documents_may_have_no_rows),
        cmocka_unit_test(fewer_hits_than_asked),
        cmocka_unit_test(what_fails_in_one_is_answered_by_others),
        cmocka_unit_test(an_outage_is_told_when_it_begins_and_ends),
        cmocka_unit_test(an_engine_that_breaks_is_left_out),
        cmocka_unit_test(engines_that_wait_are_asked_side_by_side),
        cmocka_unit_test(hits_take_the_rerankers_order),
        cmocka_unit_test(only_depth_hits_are_read),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
