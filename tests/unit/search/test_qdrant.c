/* The engine over Qdrant: points/query/batch as the server answers it and as it fails.
 * Bodies have the form of its OpenAPI description and of answers that users report; no
 * real server was asked (tests/interop/check_search_servers.py asks the models and the
 * local mode of qdrant-client). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/point_query.h"
#include "retrieval/search/query_result.h"
#include "support/files.h"
#include "support/search_server.h"
#include "support/torture.h"

#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>
#include <searchr1/search.h>

static const char *const queries[] = {"one", "three"};

#define COLLECTION(vectors)                                                              \
    "{\"result\":{\"status\":\"green\",\"optimizer_status\":\"ok\",\"points_count\":3,"  \
    "\"segments_count\":2,\"config\":{\"params\":{\"vectors\":" vectors                  \
    ",\"shard_number\":1,\"replication_factor\":1}}},\"status\":\"ok\",\"time\":0.0001}"
#define DOT COLLECTION("{\"size\":2,\"distance\":\"Dot\"}")
#define NAMED                                                                            \
    COLLECTION("{\"dense\":{\"size\":2,\"distance\":\"Cosine\"},\"image\":{\"size\":3,"  \
               "\"distance\":\"Dot\"}}")

static const char two[] =
    "{\"result\":[{\"points\":["
    "{\"id\":7,\"version\":0,\"score\":2.5,\"payload\":{\"contents\":\"A\\nOne.\"}},"
    "{\"id\":\"5c56c793-69f3-4fbf-87e6-c4bf54c28c26\",\"version\":3,\"score\":-1,"
    "\"payload\":{\"contents\":\"B\"}}]},{\"points\":[]}],\"status\":\"ok\",\"time\":0."
    "0002}";

/* Length and first letter of a text. */
static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)self;
    if (kind != SR1_EMBED_QUERY)
        return sr1_set_error(SR1_E_INVALID, "no query");
    for (size_t i = 0; i < n; i++) {
        if (strcmp(texts[i], "fails") == 0)
            return sr1_set_error(SR1_E_IO, "the model is gone");
        out[2 * i] = (float)strlen(texts[i]);
        out[2 * i + 1] = -0.1f;
    }
    return SR1_OK;
}

static sr1_embedder *open_embedder(void)
{
    const sr1_embedder_ops ops = {
        .struct_size = sizeof(ops), .name = "small", .embed = embed, .dim = 2};
    sr1_embedder *e = NULL;

    assert_int_equal(sr1_embedder_new(&e, &ops, NULL), SR1_OK);
    return e;
}

/* What is answered to GET and to POST. */
struct script {
    struct reply collection, points;
};

static void play(void *user, int nth, const char *request, struct reply *r)
{
    const struct script *script = user;

    (void)nth;
    *r = strncmp(request, "GET ", 4) == 0 ? script->collection : script->points;
}

static struct script script_of(const char *collection, const char *points)
{
    return (struct script){{.code = 200, .headers = "", .body = collection},
                           {.code = 200, .headers = "", .body = points}};
}

static sr1_search_http_options quick(void)
{
    sr1_search_http_options o;

    sr1_search_http_options_init(&o);
    o.retries = 2;
    o.retry_first_s = o.retry_max_s = 0.01;
    return o;
}

static sr1_status open_at(const struct server *s, const sr1_search_http_options *o,
                          sr1_search **out)
{
    sr1_embedder *embedder = open_embedder();
    char url[128];
    sr1_status st;

    snprintf(url, sizeof url, "%s/collections/wiki", s->url);
    st = sr1_search_open_qdrant(out, url, embedder, o);
    sr1_embedder_free(embedder);
    return st;
}

static sr1_search_results *ask(struct script *script, const sr1_search_http_options *o,
                               sr1_search **engine, struct server *s)
{
    sr1_search_results *found = NULL;

    server_start(s, play, script);
    if (open_at(s, o, engine) != SR1_OK ||
        sr1_search_run(*engine, queries, 2, 3, &found) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return found;
}

static void a_batch_is_one_request(void **state)
{
    struct script script = script_of(DOT, two);
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found;

    (void)state;
    setenv("SR1_TEST_KEY", "q-key", 1);
    o.key_env = "SR1_TEST_KEY";
    found = ask(&script, &o, &e, &s);
    assert_int_equal(atomic_load(&s.requests), 2); /* opening, and the batch */
    assert_non_null(
        strstr(s.last, "POST /collections/wiki/points/query/batch HTTP/1.1\r\n"));
    assert_non_null(strstr(s.last, "\r\napi-key: q-key\r\n"));
    assert_string_equal(request_body(s.last),
                        "{\"searches\":[{\"query\":[3.0,-0.1],\"limit\":3,"
                        "\"with_payload\":[\"contents\"]},{\"query\":[5.0,-0.1],"
                        "\"limit\":3,\"with_payload\":[\"contents\"]}]}");
    assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
    expect_hit(found, 0, 0, "7", "A\nOne.", 2.5);
    expect_hit(found, 0, 1, "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "B", -1);
    assert_int_equal(sr1_search_results_status(found, 1), SR1_ACTION_EMPTY);
    end(found, e, &s);
    unsetenv("SR1_TEST_KEY");
}

static void names_choose_vector_text_and_id(void **state)
{
    struct script script = script_of(
        NAMED, "{\"result\":[{\"points\":[{\"id\":1,\"score\":1,\"payload\":{\"title\":"
               "\"T\",\"meta\":{\"doc\":\"d-9\"},\"page\":\"text\"}}]},{\"points\":[]}],"
               "\"status\":\"ok\"}");
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found;

    (void)state;
    o.vector = "dense";
    o.fields = "title,page";
    o.id_field = "meta.doc";
    found = ask(&script, &o, &e, &s);
    assert_non_null(strstr(request_body(s.last),
                           "\"with_payload\":[\"title\",\"page\",\"meta.doc\"],"
                           "\"using\":\"dense\"}"));
    expect_hit(found, 0, 0, "d-9", "T\ntext", 1);
    end(found, e, &s);
}

static void of_distances_the_least_scores_most(void **state)
{
    static const char *const distances[] = {
        COLLECTION("{\"size\":2,\"distance\":\"Euclid\"}"),
        COLLECTION("{\"size\":2,\"distance\":\"Manhattan\"}")};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct script script = script_of(distances[i], two);
        sr1_search_http_options o = quick();
        sr1_search *e = NULL;
        struct server s;
        sr1_search_results *found = ask(&script, &o, &e, &s);

        expect_hit(found, 0, 0, "7", "A\nOne.", -2.5);
        end(found, e, &s);
    }
}

static void failures_are_no_empty_answers(void **state)
{
    static const struct {
        int code;
        const char *body, *says;
        int requests; /* besides that of opening */
    } cases[] = {
        {400,
         "{\"status\":{\"error\":\"Wrong input: Vector dimension error: expected dim: 4, "
         "got 2\"},\"time\":0.0015}",
         "HTTP 400: Wrong input: Vector dimension error", 1},
        {404,
         "{\"status\":{\"error\":\"Not found: Collection `wiki` doesn't exist!\"},"
         "\"time\":0.0001}",
         "HTTP 404: Not found: Collection `wiki` doesn't exist!", 1},
        {503, "{\"status\":{\"error\":\"Service internal error: timeout\"}}", "HTTP 503",
         3},
        {200, "{\"result\":[],\"status\":\"ok\"}", "0 results for 2 vectors", 1},
        {200, "{\"status\":\"ok\"}", "no list 'result'", 1},
        {200, "{\"result\":[[],[]]}", "its points are no list", 1},
        {200,
         "{\"result\":[{\"points\":[{\"id\":1,\"score\":1}]},{\"points\":[{\"id\":1}]}]}",
         "hit 1 has none of the fields", 1},
        {200, "<html>", "line 1", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct script script = script_of(DOT, cases[i].body);
        sr1_search_http_options o = quick();
        sr1_search *e = NULL;
        struct server s;
        sr1_search_results *found;

        script.points.code = cases[i].code;
        found = ask(&script, &o, &e, &s);
        for (size_t q = 0; q < 2; q++) {
            assert_int_equal(sr1_search_results_status(found, q), SR1_ACTION_ERROR);
            if (!strstr(sr1_search_results_message(found, q), cases[i].says))
                fail_msg("%zu: %s", i, sr1_search_results_message(found, q));
        }
        assert_int_equal(atomic_load(&s.requests), 1 + cases[i].requests);
        end(found, e, &s);
    }
}

static void an_embedder_that_fails_is_named(void **state)
{
    struct script script = script_of(DOT, two);
    sr1_search_http_options o = quick();
    const char *query = "fails";
    sr1_search_results *found = NULL;
    sr1_search *e = NULL;
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    assert_int_equal(open_at(&s, &o, &e), SR1_OK);
    assert_true(sr1_search_run(e, &query, 1, 3, &found) != SR1_OK);
    assert_non_null(strstr(sr1_last_error(), "embedder 'small'"));
    assert_non_null(strstr(sr1_last_error(), "the model is gone"));
    assert_int_equal(atomic_load(&s.requests), 1);
    end(NULL, e, &s);
}

static void opening_compares_the_collection(void **state)
{
    static const struct {
        int code;
        const char *collection, *vector;
        sr1_status status;
        const char *says;
    } cases[] = {
        {200, DOT, NULL, SR1_OK, ""},
        {200, NAMED, "dense", SR1_OK, ""},
        {200, NAMED, NULL, SR1_E_CONFIG, "(qdrant_vector): dense, image"},
        {200, NAMED, "text", SR1_E_CONFIG, "has no vector 'text'"},
        {200, DOT, "text", SR1_E_CONFIG, "it has one without a name"},
        {200, NAMED, "image", SR1_E_CONFIG,
         "vectors of 3 numbers, embedder 'small' makes 2"},
        {200,
         "{\"result\":{\"points_count\":0,\"config\":{\"params\":{\"vectors\":{\"size\":"
         "2,"
         "\"distance\":\"Dot\"}}}}}",
         NULL, SR1_E_CONFIG, "the collection is empty"},
        {200, "{\"result\":{}}", NULL, SR1_E_PARSE, "describes no collection"},
        {200, "[]", NULL, SR1_E_PARSE, "describes no collection"},
        {404, "{\"status\":{\"error\":\"Not found: Collection `wiki` doesn't exist!\"}}",
         NULL, SR1_E_NETWORK, "Collection `wiki` doesn't exist!"},
        {401, "Must provide an API key or an Authorization bearer token", NULL,
         SR1_E_CONFIG, "qdrant_api_key_env"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct script script = script_of(cases[i].collection, two);
        sr1_search_http_options o = quick();
        sr1_search *e = NULL;
        struct server s;

        script.collection.code = cases[i].code;
        o.vector = cases[i].vector;
        server_start(&s, play, &script);
        if (open_at(&s, &o, &e) != cases[i].status)
            fail_msg("%zu: %s", i, sr1_last_error());
        if (e == NULL && !strstr(sr1_last_error(), cases[i].says))
            fail_msg("%zu: %s", i, sr1_last_error());
        assert_non_null(strstr(s.last, "GET /collections/wiki HTTP/1.1\r\n"));
        end(NULL, e, &s);
    }
}

static void addresses_are_checked(void **state)
{
    static const char *const urls[] = {
        "localhost:6333/collections/wiki", "http://localhost:6333",
        "http://localhost:6333/wiki", "http://localhost:6333/collections/",
        "http://localhost:6333/collections/wiki?a"};
    sr1_embedder *embedder = open_embedder();
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;

    (void)state;
    o.probe = 0;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        assert_int_equal(sr1_search_open_qdrant(&e, urls[i], embedder, &o),
                         SR1_E_INVALID);
    assert_int_equal(sr1_search_open_qdrant(&e, "http://h/collections/w", NULL, &o),
                     SR1_E_INVALID);
    o.vector = "\xff";
    assert_int_equal(sr1_search_open_qdrant(&e, "http://h/collections/w", embedder, &o),
                     SR1_E_INVALID);
    assert_null(e);
    sr1_embedder_free(embedder);
}

static sr1_status read_it(void *arg)
{
    static const float vectors[] = {1, 2, 3, 4};
    struct sr1__query_result *answers[2] = {NULL};
    struct sr1_search_sink sink = {answers, 2, 3};
    struct sr1__point_query q = {.vector = (char[]){"v"}, .id_field = (char[]){""}};
    struct sr1__buf b;
    sr1_status status = SR1_OK;

    sr1__buf_init(&b, 0);
    for (int i = 0; i < 2 && status == SR1_OK; i++)
        status = sr1__query_result_new(&answers[i]);
    if (status == SR1_OK)
        status = sr1__text_fields_read(&q.fields, "contents");
    if (status == SR1_OK)
        status = sr1__points_write(&b, &q, vectors, 2, 2, 3);
    if (status == SR1_OK)
        status = sr1__points_read(arg, strlen(arg), &q, 2, &sink);
    sr1__text_fields_free(&q.fields);
    for (int i = 0; i < 2; i++)
        sr1__query_result_free(answers[i]);
    sr1__buf_free(&b);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(read_it, (void *)(uintptr_t)two) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_one_request),
        cmocka_unit_test(names_choose_vector_text_and_id),
        cmocka_unit_test(of_distances_the_least_scores_most),
        cmocka_unit_test(failures_are_no_empty_answers),
        cmocka_unit_test(an_embedder_that_fails_is_named),
        cmocka_unit_test(opening_compares_the_collection),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
