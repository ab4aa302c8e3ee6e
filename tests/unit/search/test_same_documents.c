/* Which hits of several engines are one document, when servers give no ids: the same
 * through every engine that stands before another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "retrieval/search/search_engine.h"
#include "support/files.h"
#include "support/http_server.h"

#include <searchr1/search.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>

/* Search-R1's servers without ids, of two corpora, and a local index with ids. */
static const char history[] =
    "{\"result\": [[{\"document\": {\"contents\": \"\\\"Oil embargo\\\"\\nIn 1973.\"}, "
    "\"score\": 9}, {\"document\": {\"contents\": \"\\\"Opec\\\"\\nA cartel.\"}, "
    "\"score\": 8}]]}";
static const char wars[] =
    "{\"result\": [[{\"document\": {\"contents\": \"\\\"Yom Kippur War\\\"\\nAlso "
    "1973.\"}}, {\"document\": {\"title\": \"Opec\", \"text\": \"A  cartel.\"}}]]}";
static const char *const local[][2] = {{"2", "\"French and Indian War\"\n1754."},
                                       {"2002", "\"Opec\"\nA cartel."}};

static void say(void *user, int nth, const char *request, struct reply *r)
{
    (void)nth;
    (void)request;
    r->body = user;
}

static sr1_status search_local(void *self, const char *const *queries, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)top_k;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2; k++)
            if (sr1_search_sink_hit(sink, i, local[k][0], local[k][1], 1) != SR1_OK)
                return SR1_E_NOMEM;
    return SR1_OK;
}

static sr1_search *open_local(void)
{
    const sr1_search_ops ops = {sizeof(ops), "local", search_local, NULL, 0, "local"};
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_new(&e, &ops, NULL), SR1_OK);
    return e;
}

static sr1_search *open_server(struct server *s, const char *body)
{
    sr1_search_http_options o;
    sr1_search *e = NULL;

    server_start(s, say, (void *)body);
    sr1_search_http_options_init(&o);
    o.probe = 0;
    o.retries = 0;
    assert_int_equal(sr1_search_open_remote(&e, s->url, &o), SR1_OK);
    return e;
}

/* ---- engines before another; each takes over its reference ---- */

static sr1_search *wrap_nothing(sr1_search *e)
{
    return e;
}

static sr1_search *wrap_memory_cache(sr1_search *e)
{
    assert_int_equal(sr1_search_set_cache(e, 1 << 20), SR1_OK);
    return e;
}

static sr1_search *wrap_disk_cache(sr1_search *e)
{
    static int n;
    sr1_search *out = NULL;
    char name[16];

    snprintf(name, sizeof name, "cache-%d", n++);
    assert_int_equal(sr1_search_open_disk_cache(&out, e, scratch_path(name), NULL),
                     SR1_OK);
    sr1_search_free(e);
    return out;
}

static sr1_search *wrap_chain(sr1_search *e)
{
    sr1_search *out = NULL;

    assert_int_equal(sr1_search_open_chain(&out, &e, 1), SR1_OK);
    sr1_search_free(e);
    return out;
}

static sr1_search *wrap_hybrid(sr1_search *e)
{
    sr1_search *out = NULL;

    assert_int_equal(sr1_search_open_hybrid(&out, &e, NULL, 1, NULL), SR1_OK);
    sr1_search_free(e);
    return out;
}

static sr1_status keep_order(void *self, const char *query, const char *const *texts,
                             size_t n, double *scores)
{
    (void)self;
    (void)query;
    (void)texts;
    for (size_t i = 0; i < n; i++)
        scores[i] = -(double)i;
    return SR1_OK;
}

static sr1_search *wrap_rerank(sr1_search *e)
{
    const sr1_reranker_ops ops = {sizeof(ops), "order", keep_order, NULL, 0};
    sr1_reranker *r = NULL;
    sr1_search *out = NULL;

    assert_int_equal(sr1_reranker_new(&r, &ops, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_rerank(&out, e, r, NULL), SR1_OK);
    sr1_reranker_free(r);
    sr1_search_free(e);
    return out;
}

static sr1_search *(*const wraps[])(sr1_search *e) = {wrap_nothing,    wrap_memory_cache,
                                                      wrap_disk_cache, wrap_chain,
                                                      wrap_hybrid,     wrap_rerank};
#define N_WRAPS (sizeof(wraps) / sizeof(wraps[0]))

/* ---- asking ---- */

static void expect_hit(const sr1_search_results *found, int32_t k, const char *id,
                       const char *contents, double score)
{
    sr1_search_hit hit = {sizeof(hit)};

    assert_int_equal(sr1_search_results_hit(found, 0, k, &hit), SR1_OK);
    assert_string_equal(hit.id, id);
    assert_string_equal(hit.contents, contents);
    assert_float_equal(hit.score, score, 1e-12);
}

static sr1_search_results *ask(sr1_search *e)
{
    const char *query = "oil";
    sr1_search_results *found = NULL;

    assert_int_equal(sr1_search_run(e, &query, 1, 5, &found), SR1_OK);
    return found;
}

static sr1_search *fuse(sr1_search *a, sr1_search *b)
{
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_open_hybrid(&e, (sr1_search *[]){a, b}, NULL, 2, NULL),
                     SR1_OK);
    sr1_search_free(a);
    sr1_search_free(b);
    return e;
}

/* Rank 2 of the server is not document 2 of the index, but its document 2002. */
static void a_rank_is_no_id(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WRAPS; w++) {
        struct server s;
        sr1_search *e = fuse(wraps[w](open_server(&s, history)), open_local());

        for (int again = 0; again < 2; again++) { /* caches answer the second time */
            sr1_search_results *found = ask(e);

            assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
            expect_hit(found, 0, "2002", local[1][1], 1.0 / 62 + 1.0 / 62);
            expect_hit(found, 1, "1", "\"Oil embargo\"\nIn 1973.", 1.0 / 61);
            expect_hit(found, 2, "2", local[0][1], 1.0 / 61);
            sr1_search_results_free(found);
        }
        sr1_search_free(e);
        server_stop(&s);
    }
}

static void documents_of_two_servers_all_appear(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WRAPS; w++) {
        struct server s[2];
        sr1_search *a = wraps[w](open_server(&s[0], history));
        sr1_search *e = fuse(a, wraps[w](open_server(&s[1], wars)));

        for (int again = 0; again < 2; again++) {
            sr1_search_results *found = ask(e);

            assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
            /* title and text, or contents with the title in quotes: one document */
            expect_hit(found, 0, "2", "\"Opec\"\nA cartel.", 1.0 / 62 + 1.0 / 62);
            expect_hit(found, 1, "1", "\"Oil embargo\"\nIn 1973.", 1.0 / 61);
            expect_hit(found, 2, "1", "\"Yom Kippur War\"\nAlso 1973.", 1.0 / 61);
            sr1_search_results_free(found);
        }
        sr1_search_free(e);
        server_stop(&s[0]);
        server_stop(&s[1]);
    }
}

/* Two documents with ids of their own stay two, whatever they say. */
static void ids_count_before_contents(void **state)
{
    static const char body[] =
        "{\"result\": [[{\"id\": 5, \"contents\": \"\\\"Opec\\\"\\nA cartel.\"}, "
        "{\"id\": 2, \"contents\": \"another edition\"}]]}";
    struct server s;
    sr1_search *e = fuse(open_server(&s, body), open_local());
    sr1_search_results *found = ask(e);

    (void)state;
    assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
    expect_hit(found, 0, "2", "another edition", 1.0 / 62 + 1.0 / 61);
    expect_hit(found, 1, "5", local[1][1], 1.0 / 61);
    expect_hit(found, 2, "2002", local[1][1], 1.0 / 62);
    sr1_search_results_free(found);
    sr1_search_free(e);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_no_id),
        cmocka_unit_test(documents_of_two_servers_all_appear),
        cmocka_unit_test(ids_count_before_contents),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
