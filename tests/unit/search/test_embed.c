/* Embedders and rerankers of the caller's: what goes in is mended, what comes out is
 * checked, calls are made one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/torture.h"

#include <searchr1/ext/embed.h>

/* Counts 'a's and 'b's. */
struct letters {
    int destroyed;
    int inside; /* calls under way */
    int crowded;
    sr1_status fails;
    int broken; /* gives what is not finite */
    char seen[64];
};

static double count(const char *text, char c)
{
    double n = 0.0;

    for (; *text; text++)
        n += *text == c;
    return n;
}

static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    struct letters *l = self;

    l->crowded |= l->inside++ > 0;
    strncpy(l->seen, texts[n - 1], sizeof(l->seen) - 1);
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (float)count(texts[i], 'a') + (kind == SR1_EMBED_DOCUMENT ? 100 : 0);
        out[2 * i + 1] = l->broken ? NAN : (float)count(texts[i], 'b');
    }
    l->inside--;
    return l->fails ? sr1_set_error(l->fails, "no letters today") : SR1_OK;
}

static sr1_status score(void *self, const char *query, const char *const *texts, size_t n,
                        double *scores)
{
    struct letters *l = self;

    for (size_t i = 0; i < n; i++)
        scores[i] = l->broken ? INFINITY : count(texts[i], query[0]);
    return l->fails ? sr1_set_error(l->fails, "no letters today") : SR1_OK;
}

static void destroy(void *self)
{
    ((struct letters *)self)->destroyed++;
}

static sr1_embedder *open_embedder(struct letters *l)
{
    const sr1_embedder_ops ops = {sizeof(ops), "letters", embed, destroy, 2, 0};
    sr1_embedder *e = NULL;

    assert_int_equal(sr1_embedder_new(&e, &ops, l), SR1_OK);
    return e;
}

static sr1_reranker *open_reranker(struct letters *l)
{
    const sr1_reranker_ops ops = {sizeof(ops), "letters", score, destroy, 0};
    sr1_reranker *r = NULL;

    assert_int_equal(sr1_reranker_new(&r, &ops, l), SR1_OK);
    return r;
}

static void texts_become_vectors(void **state)
{
    struct letters l = {0};
    sr1_embedder *e = open_embedder(&l);
    const char *texts[] = {"aab", "b",
                           ("x\xff"
                            "a")};
    float v[6] = {0};

    (void)state;
    assert_string_equal(sr1_embedder_name(e), "letters");
    assert_int_equal(sr1_embedder_dim(e), 2);
    assert_int_equal(sr1_embedder_embed(e, texts, 3, SR1_EMBED_QUERY, v), SR1_OK);
    assert_true(v[0] == 2 && v[1] == 1 && v[2] == 0 && v[3] == 1 && v[4] == 1);
    assert_string_equal(l.seen, "x\xEF\xBF\xBD"
                                "a");
    assert_int_equal(sr1_embedder_embed(e, texts, 1, SR1_EMBED_DOCUMENT, v), SR1_OK);
    assert_true(v[0] == 102 && v[2] == 0);
    assert_int_equal(sr1_embedder_embed(e, NULL, 0, SR1_EMBED_QUERY, NULL), SR1_OK);
    sr1_embedder_free(sr1_embedder_retain(e));
    assert_int_equal(l.destroyed, 0);
    sr1_embedder_free(e);
    assert_int_equal(l.destroyed, 1);
    sr1_embedder_free(NULL);
}

static void likeness_is_a_cosine(void **state)
{
    struct letters l = {0};
    sr1_embedder *e = open_embedder(&l);
    double s = -2.0;

    (void)state;
    assert_int_equal(sr1_embedder_similarity(e, "aaa", "ab", &s), SR1_OK);
    assert_float_equal(s, sqrt(0.5), 1e-12);
    assert_int_equal(sr1_embedder_similarity(e, "aaa", "xyz", &s), SR1_OK);
    assert_true(s == 0.0);
    sr1_embedder_free(e);
}

static void pairs_get_scores(void **state)
{
    struct letters l = {0};
    sr1_reranker *r = open_reranker(&l);
    const char *texts[] = {"b", "bab", ""};
    double s[3];

    (void)state;
    assert_string_equal(sr1_reranker_name(r), "letters");
    assert_int_equal(sr1_reranker_score(r, "b?", texts, 3, s), SR1_OK);
    assert_true(s[0] == 1 && s[1] == 2 && s[2] == 0);
    sr1_reranker_free(sr1_reranker_retain(r));
    sr1_reranker_free(r);
    assert_int_equal(l.destroyed, 1);
}

static void failures_name_the_plugin(void **state)
{
    struct letters l = {.fails = SR1_E_IO};
    sr1_embedder *e = open_embedder(&l);
    sr1_reranker *r = open_reranker(&l);
    const char *texts[] = {"a", NULL};
    float v[4] = {7, 7, 7, 7};
    double s[2] = {7, 7};

    (void)state;
    assert_int_equal(sr1_embedder_embed(e, texts, 1, 0, v), SR1_E_CALLBACK);
    assert_non_null(strstr(sr1_last_error(), "'letters' failed with SR1_E_IO"));
    assert_non_null(strstr(sr1_last_error(), "no letters today"));
    assert_int_equal(sr1_reranker_score(r, "q", texts, 1, s), SR1_E_CALLBACK);
    l.fails = SR1_OK;
    l.broken = 1;
    assert_int_equal(sr1_embedder_embed(e, texts, 1, 0, v), SR1_E_NUMERIC);
    assert_int_equal(sr1_reranker_score(r, "q", texts, 1, s), SR1_E_NUMERIC);
    assert_int_equal(sr1_embedder_embed(e, texts, 2, 0, v), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "text 1 of 2"));
    assert_int_equal(sr1_embedder_embed(e, texts, 1, 2, v), SR1_E_INVALID);
    assert_int_equal(sr1_reranker_score(r, NULL, texts, 1, s), SR1_E_INVALID);
    assert_true(v[0] == 7 && s[0] == 7);
    sr1_embedder_free(e);
    sr1_reranker_free(r);
}

/* What says more than that a function failed is passed on; the rest is an outage. */
static void statuses_that_say_more_are_kept(void **state)
{
    static const sr1_status kept[] = {SR1_E_TIMEOUT, SR1_E_CANCELLED, SR1_E_NOMEM,
                                      SR1_E_CONFIG};
    struct letters l = {0};
    sr1_embedder *e = open_embedder(&l);
    sr1_reranker *r = open_reranker(&l);
    const char *texts[] = {"a"};
    float v[2];
    double s[1];

    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        l.fails = kept[i];
        assert_int_equal(sr1_embedder_embed(e, texts, 1, 0, v), kept[i]);
        assert_non_null(strstr(sr1_last_error(), "embedder 'letters' failed with"));
        assert_int_equal(sr1_reranker_score(r, "q", texts, 1, s), kept[i]);
        assert_non_null(strstr(sr1_last_error(), "no letters today"));
    }
    sr1_embedder_free(e);
    sr1_reranker_free(r);
}

/* "The text of the last failure": a call that succeeds leaves it. */
static void success_keeps_the_last_error(void **state)
{
    struct letters l = {0};
    sr1_embedder *e = open_embedder(&l);
    sr1_reranker *r = open_reranker(&l);
    const char *texts[] = {"a"};
    float v[2];
    double s[1];

    (void)state;
    sr1_set_error(SR1_E_IO, "it was the disk");
    assert_int_equal(sr1_embedder_embed(e, texts, 1, 0, v), SR1_OK);
    assert_int_equal(sr1_reranker_score(r, "q", texts, 1, s), SR1_OK);
    assert_string_equal(sr1_last_error(), "it was the disk");
    l.fails = SR1_E_IO;
    sr1_set_error(SR1_E_IO, "no letters today"); /* the same again is a reason too */
    assert_int_equal(sr1_embedder_embed(e, texts, 1, 0, v), SR1_E_CALLBACK);
    assert_non_null(strstr(sr1_last_error(), "no letters today"));
    sr1_embedder_free(e);
    sr1_reranker_free(r);
}

static void incomplete_tables_are_refused(void **state)
{
    sr1_embedder_ops ops = {sizeof(ops), "x", embed, NULL, 0, 0};
    sr1_reranker_ops pair = {sizeof(pair), "x", NULL, NULL, 0};
    sr1_embedder *e = NULL;
    sr1_reranker *r = NULL;

    (void)state;
    assert_int_equal(sr1_embedder_new(&e, &ops, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "dim is 0"));
    ops.dim = 3;
    ops.name = "";
    assert_int_equal(sr1_embedder_new(&e, &ops, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_reranker_new(&r, &pair, NULL), SR1_E_INVALID);
    assert_true(!e && !r);
}

static void *many_calls(void *arg)
{
    const char *texts[] = {"ab"};
    float v[2];

    for (int i = 0; i < 2000; i++)
        if (sr1_embedder_embed(arg, texts, 1, 0, v) != SR1_OK || v[0] != 1)
            return arg;
    return NULL;
}

static void calls_come_one_after_another(void **state)
{
    struct letters l = {0};
    sr1_embedder *e = open_embedder(&l);
    pthread_t threads[3];
    void *failed;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_calls, e), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(l.crowded, 0);
    sr1_embedder_free(e);
}

static sr1_status whole_life(void *arg)
{
    const sr1_embedder_ops ops = {sizeof(ops), "letters", embed, NULL, 2, 0};
    const sr1_reranker_ops pair = {sizeof(pair), "letters", score, NULL, 0};
    struct letters l = {0};
    char odd[500];
    const char *texts[] = {odd, "b"};
    sr1_embedder *e = NULL;
    sr1_reranker *r = NULL;
    double s[2];
    sr1_status st;

    (void)arg;
    memset(odd, 0xff, sizeof(odd) - 1); /* a buffer that grows as it is mended */
    odd[sizeof(odd) - 1] = '\0';
    st = sr1_embedder_new(&e, &ops, &l);
    if (st == SR1_OK)
        st = sr1_reranker_new(&r, &pair, &l);
    if (st == SR1_OK)
        st = sr1_embedder_similarity(e, texts[0], texts[1], s);
    if (st == SR1_OK)
        st = sr1_reranker_score(r, "q", texts, 2, s);
    sr1_embedder_free(e);
    sr1_reranker_free(r);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    (void)state;
    torture(whole_life, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_vectors),
        cmocka_unit_test(likeness_is_a_cosine),
        cmocka_unit_test(pairs_get_scores),
        cmocka_unit_test(failures_name_the_plugin),
        cmocka_unit_test(statuses_that_say_more_are_kept),
        cmocka_unit_test(success_keeps_the_last_error),
        cmocka_unit_test(incomplete_tables_are_refused),
        cmocka_unit_test(calls_come_one_after_another),
        cmocka_unit_test(survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
