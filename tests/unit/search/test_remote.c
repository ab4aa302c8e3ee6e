/* The remote engine: Search-R1's /retrieve, as servers answer it and as they fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/retrieve.h"
#include "search_files.h"
#include "support/files.h"
#include "support/search_server.h"
#include "support/torture.h"
#include "support/wait.h"

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

static const char *const queries[] = {"who built the lighthouse at port alder",
                                      "lighthouse height"};

static const char with_scores[] =
    "{\"result\": [[{\"document\": {\"id\": \"0\", \"contents\": \"\\\"A\\\"\\nOne.\"}, "
    "\"score\": 9.5}, {\"document\": {\"id\": 7, \"contents\": \"\\\"B\\\"\\nTwo.\"}, "
    "\"score\": 7}], [{\"document\": {\"id\": \"0\", \"contents\": \"Three.\"}, "
    "\"score\": 4.25}]]}";

static sr1_search_http_options quick(void)
{
    sr1_search_http_options o;

    sr1_search_http_options_init(&o);
    o.retries = 2;
    o.retry_first_s = o.retry_max_s = 0.01;
    o.probe = 0;
    return o;
}

static sr1_search *open_at(const struct server *s, const sr1_search_http_options *o)
{
    sr1_search *e = NULL;
    char url[128];

    snprintf(url, sizeof url, "%s/retrieve", s->url);
    if (sr1_search_open_remote(&e, url, o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return e;
}

static void say(void *user, int nth, const char *request, struct reply *r)
{
    (void)nth;
    (void)request;
    *r = *(const struct reply *)user;
}

/* Ask both queries of a server that answers like this. */
static sr1_search_results *ask(const struct reply *reply, sr1_search **engine,
                               struct server *s)
{
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;

    server_start(s, say, (void *)reply);
    *engine = open_at(s, &o);
    assert_int_equal(sr1_search_run(*engine, queries, 2, 3, &found), SR1_OK);
    return found;
}

/* ---- requests ---- */

static void a_batch_is_one_request(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = with_scores};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);
    sr1_search_counters c = {sizeof(c)};
    const char *list[4] = {queries[1], queries[1], "  ", NULL};
    json_t *sent = NULL;

    (void)state;
    assert_int_equal(atomic_load(&s.requests), 1);
    assert_non_null(strstr(s.last, "POST /retrieve HTTP/1.1\r\n"));
    assert_non_null(strstr(s.last, "Content-Type: application/json\r\n"));
    assert_null(strcasestr(s.last, "authorization"));
    assert_int_equal(sr1__json_parse(&sent, request_body(s.last),
                                     strlen(request_body(s.last)), "sent"),
                     SR1_OK);
    assert_int_equal(json_array_size(json_object_get(sent, "queries")), 2);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(sent, "queries"), 0)),
        queries[0]);
    assert_int_equal(json_integer_value(json_object_get(sent, "topk")), 3);
    assert_true(json_is_true(json_object_get(sent, "return_scores")));
    json_decref(sent);
    sr1_search_results_free(found);
    found = NULL;
    /* a repeated query and blank ones make a batch of one, whose answer is for two */
    assert_int_equal(sr1_search_run(e, list, 4, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
    assert_int_equal(sr1_search_results_status(found, 2), SR1_ACTION_EMPTY);
    assert_int_equal(atomic_load(&s.requests), 2);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.requests, 2);
    assert_int_equal(c.sent, 3);
    end(found, e, &s);
}

static void a_key_travels_in_its_header_only(void **state)
{
    struct reply reply = {.code = 401,
                          .headers = "",
                          .body = "{\"detail\": \"bad key k-123-secret, sorry\"}"};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search *e;
    struct server s;

    (void)state;
    setenv("SR1_TEST_KEY", "k-123-secret", 1);
    o.key_env = "SR1_TEST_KEY";
    server_start(&s, say, &reply);
    e = open_at(&s, &o);
    assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_E_CONFIG);
    assert_non_null(strstr(s.last, "\r\nAuthorization: Bearer k-123-secret\r\n"));
    assert_null(strstr(request_body(s.last), "secret"));
    assert_non_null(strstr(sr1_last_error(), "HTTP 401"));
    assert_non_null(strstr(sr1_last_error(), "bad key ***, sorry"));
    assert_non_null(strstr(sr1_last_error(), "environment variable SR1_TEST_KEY"));
    end(NULL, e, &s);
    unsetenv("SR1_TEST_KEY");
}

static void options_are_checked(void **state)
{
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_remote(&e, NULL, &o), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_remote(&e, "localhost/retrieve", &o), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_remote(NULL, "http://localhost/", &o),
                     SR1_E_INVALID);
    o.key_env = "SR1_TEST_NOT_SET";
    assert_int_equal(sr1_search_open_remote(&e, "http://localhost/", &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "SR1_TEST_NOT_SET"));
    o = quick();
    o.timeout_s = -1;
    assert_int_equal(sr1_search_open_remote(&e, "http://localhost/", &o), SR1_E_INVALID);
    o = quick();
    o.struct_size = 1;
    assert_int_equal(sr1_search_open_remote(&e, "http://localhost/", &o), SR1_E_INVALID);
    assert_null(e);
}

static void the_probe_finds_a_missing_server(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = "{\"result\": [[]]}"};
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;
    struct server s;
    char url[128];

    (void)state;
    o.probe = 1;
    server_start(&s, say, &reply);
    e = open_at(&s, &o);
    assert_int_equal(atomic_load(&s.requests), 1);
    sr1_search_free(e);
    e = NULL;
    reply.body = "<html>";
    snprintf(url, sizeof url, "%s/retrieve", s.url);
    assert_int_equal(sr1_search_open_remote(&e, url, &o), SR1_E_NETWORK);
    assert_non_null(strstr(sr1_last_error(), s.url));
    server_stop(&s);
    assert_int_equal(sr1_search_open_remote(&e, url, &o), SR1_E_NETWORK);
    assert_null(e);
}

/* ---- dialects ---- */

#define MISSING(field)                                                                   \
    "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"" field "\"],"               \
    "\"msg\":\"Field required\"}]}"
#define NO_LIST                                                                          \
    "{\"detail\":[{\"type\":\"list_type\",\"loc\":[\"body\",\"query\"],"                 \
    "\"msg\":\"Input should be a valid list\"}]}"

/* Append the document that servers below have for the query. */
static void add_document(struct reply *r, const char *before, const json_t *query,
                         const char *after)
{
    size_t n = strlen(r->made);

    snprintf(r->made + n, sizeof r->made - n, "%s{\"id\":\"d\",\"contents\":\"of %s\"}%s",
             before, json_string_value(query), after);
    r->body = r->made;
}

/* FastAPI with `query: str`, as SkyRL's server has it. */
static void answer_skyrl(const json_t *request, struct reply *r)
{
    const json_t *query = json_object_get(request, "query");

    if (json_is_string(query) &&
        json_integer_value(json_object_get(request, "topk")) == 3)
        add_document(r, "{\"result\":[[{\"document\":", query, ",\"score\":2.5}]]}");
    else
        r->code = 422, r->body = MISSING("query");
}

/* FlashRAG's, with `query: str` and `top_n`. */
static void answer_flashrag(const json_t *request, struct reply *r)
{
    const json_t *query = json_object_get(request, "query");

    if (json_is_string(query) &&
        json_integer_value(json_object_get(request, "top_n")) == 3)
        add_document(r, "[[", query, "],[2.5]]");
    else
        r->code = 422, r->body = MISSING("query");
}

/* Its /batch_search, with `query: list[str]`. */
static void answer_flashrag_batch(const json_t *request, struct reply *r)
{
    const json_t *list = json_object_get(request, "query");
    size_t n = json_array_size(list);

    if (!json_is_array(list)) {
        r->code = 422;
        r->body = list == NULL ? MISSING("query") : NO_LIST;
        return;
    }
    add_document(r, "[[[", json_array_get(list, 0), "]");
    for (size_t i = 1; i < n; i++)
        add_document(r, ",[", json_array_get(list, i), "]");
    strcat(r->made, n == 2 ? "],[[2.5],[2.5]]]" : "],[[2.5]]]");
}

static void answer_json(void *user, int nth, const char *request, struct reply *r)
{
    void (*answer)(const json_t *, struct reply *) =
        *(void (**)(const json_t *, struct reply *))user;
    const char *body = request_body(request);
    json_t *o = NULL;

    (void)nth;
    if (sr1__json_parse(&o, body, strlen(body), "request") == SR1_OK)
        answer(o, r);
    json_decref(o);
}

static void the_servers_dialect_is_found(void **state)
{
    static const struct {
        void (*answer)(const json_t *, struct reply *);
        int requests[2]; /* of the first batch of two, and after the second */
    } servers[] = {{answer_skyrl, {3, 5}},
                   {answer_flashrag, {3, 5}},
                   {answer_flashrag_batch, {4, 5}}};

    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        sr1_search_http_options o = quick();
        void (*answer)(const json_t *, struct reply *) = servers[i].answer;
        sr1_search *e;
        struct server s;

        server_start(&s, answer_json, &answer);
        e = open_at(&s, &o);
        for (int batch = 0; batch < 2; batch++) {
            sr1_search_results *found = NULL;

            assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_OK);
            for (size_t q = 0; q < 2; q++) {
                char contents[128];

                snprintf(contents, sizeof contents, "of %s", queries[q]);
                assert_string_equal(sr1_search_results_message(found, q), "");
                expect_hit(found, q, 0, "d", contents, 2.5);
            }
            assert_int_equal(atomic_load(&s.requests), servers[i].requests[batch]);
            sr1_search_results_free(found);
        }
        sr1_search_free(e);
        server_stop(&s);
    }
}

static void a_refusal_names_the_field(void **state)
{
    struct reply reply = {.code = 422, .headers = "", .body = MISSING("api_version")};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    assert_int_equal(atomic_load(&s.requests), 1); /* no other dialect would help */
    assert_non_null(strstr(sr1_search_results_message(found, 0),
                           "HTTP 422: Field required (body.api_version)"));
    end(found, e, &s);
    reply.body = MISSING("query"); /* whatever is sent */
    found = ask(&reply, &e, &s);
    assert_non_null(strstr(sr1_search_results_message(found, 1),
                           "HTTP 422: Field required (body.query)"));
    end(found, e, &s);
}

/* ---- answers ---- */

static void documents_with_scores(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = with_scores};
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
    expect_hit(found, 0, 0, "0", "\"A\"\nOne.", 9.5);
    expect_hit(found, 0, 1, "7", "\"B\"\nTwo.", 7.0);
    expect_hit(found, 1, 0, "0", "Three.", 4.25);
    assert_int_equal(sr1_search_results_hit(found, 0, 1, &hit), SR1_OK);
    assert_string_equal(hit.row, "{\"id\":7,\"contents\":\"\\\"B\\\"\\nTwo.\"}");
    end(found, e, &s);
}

static void documents_in_every_shape(void **state)
{
    struct reply reply = {
        .code = 200,
        .headers = "",
        .body = "{\"result\": [["
                "{\"id\": \"a\", \"contents\": \"bare\"},"
                "{\"document\": {\"contents\": \"no id\"}},"
                "{\"document\": \"\\\"T\\\"\\ntext\", \"score\": 0.5}], ["
                "\"only text\","
                "{\"document\": {\"id\": 3, \"title\": \"T\", \"text\": \"x\"}, "
                "\"score\": null},"
                "{\"id\": \"n\", \"contents\": \"a\\u0000b\", \"extra\": [1]}]]}"};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    expect_hit(found, 0, 0, "a", "bare", 1.0);
    expect_hit(found, 0, 1, "2", "no id", 0.5);
    expect_hit(found, 0, 2, "3", "\"T\"\ntext", 0.5);
    expect_hit(found, 1, 0, "1", "only text", 1.0);
    expect_hit(found, 1, 1, "3", "T\nx", 0.5);
    expect_hit(found, 1, 2, "n",
               "a\xEF\xBF\xBD"
               "b",
               1.0 / 3);
    end(found, e, &s);
}

/* A server may give more than it was asked for. */
static void documents_too_many_leave_the_others_alone(void **state)
{
    struct reply reply = {.code = 200,
                          .headers = "",
                          .body = "{\"result\": [[{\"id\": 1, \"contents\": \"a\"}, "
                                  "{\"id\": 2, \"contents\": \"b\"}, "
                                  "{\"id\": 3, \"contents\": \"c\"}, "
                                  "{\"id\": 4, \"contents\": \"d\"}, "
                                  "{\"id\": 5, \"contents\": \"e\"}], []]}"};
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
    expect_hit(found, 0, 2, "3", "c", 1.0 / 3);
    assert_int_equal(sr1_search_results_hit(found, 0, 2, &hit), SR1_OK);
    assert_string_equal(hit.row, "{\"id\":3,\"contents\":\"c\"}");
    end(found, e, &s);
}

static void nothing_found_is_empty(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = "{\"result\": [[], []]}"};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_EMPTY);
    assert_string_equal(sr1_search_results_message(found, 1),
                        "No information found for: lighthouse height");
    end(found, e, &s);
}

/* The answers that servers give: three hits to one query, and one to another. */
static void answer_is_read(char *path, size_t n_queries, const char *contents,
                           double first, double last)
{
    struct sr1__query_result *answers[2];
    struct sr1_search_sink sink = {answers, n_queries, 3};
    sr1_search_hit hit = {sizeof(hit)};
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    free(path);
    assert_int_equal(sr1__query_result_new(&answers[0]), SR1_OK);
    assert_int_equal(sr1__query_result_new(&answers[1]), SR1_OK);
    assert_int_equal(sr1__retrieve_read(b.data, b.len, 0, n_queries, &sink), SR1_OK);
    assert_int_equal(sr1__query_result_hit_count(answers[0]), 3);
    sr1__query_result_hit(answers[0], 0, &hit);
    assert_true(hit.score == first);
    assert_memory_equal(hit.contents, contents, strlen(contents));
    sr1__query_result_hit(answers[n_queries - 1],
                          sr1__query_result_hit_count(answers[n_queries - 1]) - 1, &hit);
    assert_true(hit.score == last);
    sr1__query_result_free(answers[0]);
    sr1__query_result_free(answers[1]);
    sr1__buf_free(&b);
}

static void answers_are_read(char *(*find)(const char *name), const char *folder,
                             const char *contents, double first, double last)
{
    const struct {
        const char *name;
        size_t n_queries;
        double first, last;
    } files[] = {{"retrieve_response_scores", 2, first, last},
                 {"retrieve_response_noscores", 2, 1.0, 1.0},
                 {"serp_proxy_response", 1, 1.0, 1.0 / 3}};
    char name[96];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, "%s/searchr1_%s.json", folder, files[i].name);
        answer_is_read(find(name), files[i].n_queries, contents, files[i].first,
                       files[i].last);
    }
}

static void answers_of_servers_are_read(void **state)
{
    (void)state;
    answers_are_read(test_fixture, "web_answers", "\"The Mill Bridge - Saltmere Town\"\n",
                     8.25, 3.5);
}

static void shared_answers_are_read(void **state)
{
    char *folder = test_shared("");

    (void)state;
    if (!folder)
        skip();
    free(folder);
    answers_are_read(test_shared, "web_search_shapes",
                     "\"Port Alder Lighthouse - History\"\n", 9.1, 4.25);
}

/* As Python's json writes and reads them. */
static void what_only_python_reads_is_an_answer(void **state)
{
    struct reply reply = {
        .code = 200,
        .headers = "",
        .body =
            "{\"result\": [[{\"document\": {\"id\": \"1\", \"contents\": \"cut "
            "\\ud83d\", "
            "\"n\": 123456789012345678901234567890}, \"score\": NaN}], [{\"id\": \"2\", "
            "\"id\": \"3\", \"contents\": \"low \\uddfc.\"}]]}"};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    expect_hit(found, 0, 0, "1", "cut \xEF\xBF\xBD", 1);
    expect_hit(found, 1, 0, "3", "low \xEF\xBF\xBD.", 1);
    end(found, e, &s);
}

/* ---- failures ---- */

static void expect_failed(const struct reply *reply, int32_t status, const char *says,
                          int requests)
{
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(reply, &e, &s);
    sr1_search_counters c = {sizeof(c)};

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sr1_search_results_status(found, i), status);
        assert_int_equal(sr1_search_results_hit_count(found, i), 0);
        if (!strstr(sr1_search_results_message(found, i), says))
            fail_msg("'%s' is not in '%s'", says, sr1_search_results_message(found, i));
        assert_null(strstr(sr1_search_results_message(found, i), "No information"));
    }
    assert_int_equal(atomic_load(&s.requests), requests);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.failed, 2);
    assert_int_equal(c.retries, requests - 1);
    end(found, e, &s);
}

static void what_is_no_answer_is_an_error(void **state)
{
    static const struct {
        struct reply reply;
        const char *says;
        int requests;
    } cases[] = {
        {{.code = 200, .body = "<html>busy</html>"}, "line 1", 1},
        {{.code = 200, .body = ""}, "the answer is empty", 1},
        {{.code = 200, .body = "{\"result\": [[]"}, "line 1", 1},
        {{.code = 200, .body = "[]"}, "no list 'result'", 1},
        {{.code = 200, .body = "{\"result\": {}}"}, "no list 'result'", 1},
        {{.code = 200, .body = "{\"result\": [[]]}"}, "1 lists of hits for 2", 1},
        {{.code = 200, .body = "{\"result\": [[], [], []]}"}, "3 lists of hits for 2", 1},
        {{.code = 200, .body = "{\"result\": [7, null]}"}, "no list", 1},
        {{.code = 200, .body = "{\"result\": [[{\"id\": 1}], [[]]]}"}, "no contents", 1},
        {{.code = 200, .body = "{\"result", .declared = 500}, "", 3},
        {{.code = 200, .body = "", .drop = 1}, "", 3},
        {{.code = 500, .body = "Internal Server Error"}, "HTTP 500", 3},
        {{.code = 429, .body = "{\"error\": {\"detail\": \"slow down\"}}"},
         "HTTP 429: slow down",
         3},
        {{.code = 422,
          .body = "{\"detail\": [{\"loc\": [\"body\"], \"msg\": \"Field required\"}]}"},
         "HTTP 422: Field required",
         1},
        {{.code = 404, .body = "{\"detail\": \"Not Found\"}"},
         "HTTP 404: Not Found; it has no /retrieve, and retrieval servers answer at "
         "/retrieve",
         1},
        {{.code = 307, .body = ""}, "redirects are not followed", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply reply = cases[i].reply;

        reply.headers = "";
        expect_failed(&reply, SR1_ACTION_ERROR, cases[i].says, cases[i].requests);
    }
}

/* A short text of many values: refused before they fill memory, and the queries fail as
 * those of any unreadable answer. */
static void an_answer_of_too_many_values_is_an_error(void **state)
{
    struct reply reply = {.code = 200, .headers = ""};
    struct sr1__buf body;

    (void)state;
    sr1__buf_init(&body, 0);
    sr1__buf_str(&body, "{\"result\": [[], [");
    for (size_t i = 0; i < (size_t)3 << 19; i++)
        sr1__buf_str(&body, "{},");
    sr1__buf_str(&body, "{}]]}");
    assert_int_equal(body.status, SR1_OK);
    reply.body = body.data;
    expect_failed(&reply, SR1_ACTION_ERROR, "the answer: its values would fill", 1);
    sr1__buf_free(&body);
}

/* Turns down a batch that holds a query of more than 20 characters. */
static void turn_down(void *user, int nth, const char *request, struct reply *r)
{
    json_t *sent = NULL, *query, *result = json_array();
    static char body[512];
    size_t i;

    (void)nth;
    r->code = 200;
    assert_int_equal(sr1__json_parse(&sent, request_body(request),
                                     strlen(request_body(request)), "request"),
                     SR1_OK);
    json_array_foreach(json_object_get(sent, "queries"), i, query)
    {
        if (strlen(json_string_value(query)) > 20)
            r->code = *(const int *)user;
        json_array_append_new(result, json_pack("[{s:s}]", "contents", "A\nText."));
    }
    sent = (json_decref(sent), json_pack("{s:o}", "result", result));
    (void)json_dumpb(sent, memset(body, 0, sizeof body), sizeof body - 1, 0);
    json_decref(sent);
    r->body = r->code == 200 ? body : "{\"detail\": \"query too long\"}";
}

static void a_query_that_is_turned_down_finds_nothing(void **state)
{
    static const char *const batch[] = {"one", "two", "a query that is much too long",
                                        "four", "five"};
    static int codes[] = {400, 414, 422};

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        sr1_search_http_options o = quick();
        sr1_search_results *found = NULL;
        struct server s;
        sr1_search *e;

        o.probe = 1; /* it answers others */
        server_start(&s, turn_down, &codes[i]);
        e = open_at(&s, &o);
        assert_int_equal(sr1_search_run(e, batch, 5, 3, &found), SR1_OK);
        for (size_t k = 0; k < 5; k++)
            assert_int_equal(sr1_search_results_status(found, k),
                             k == 2 ? SR1_ACTION_EMPTY : SR1_ACTION_OK);
        assert_string_equal(sr1_search_results_message(found, 2),
                            "No information found for: a query that is much too long");
        end(found, e, &s);
    }
}

static void one_bad_list_fails_its_query_only(void **state)
{
    struct reply reply = {.code = 200,
                          .headers = "",
                          .body = "{\"result\": [[\"fine\"], [\"fine\", {\"id\": 1}]]}"};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&reply, &e, &s);

    (void)state;
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_OK);
    assert_int_equal(sr1_search_results_status(found, 1), SR1_ACTION_ERROR);
    assert_int_equal(sr1_search_results_hit_count(found, 1), 0);
    assert_non_null(strstr(sr1_search_results_message(found, 1), "hit 2"));
    end(found, e, &s);
}

/* Its document counts twice, as contents and as row: 80 MiB of the 64 that one query may
 * hold. */
static void a_list_too_long_fails_its_query_only(void **state)
{
    static const char head[] = "{\"result\": [[{\"contents\": \"";
    static const char tail[] = "\"}], [\"fine\"]]}";
    const size_t n = (size_t)40 << 20;
    struct sr1__query_result *answers[2] = {NULL};
    struct sr1_search_sink sink = {answers, 2, 3};
    char *body = malloc(n + sizeof head + sizeof tail);

    (void)state;
    assert_non_null(body);
    memcpy(body, head, sizeof head - 1);
    memset(body + sizeof head - 1, 'x', n);
    memcpy(body + sizeof head - 1 + n, tail, sizeof tail);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sr1__query_result_new(&answers[i]), SR1_OK);
    if (sr1__retrieve_read(body, strlen(body), 0, 2, &sink) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    for (int i = 0; i < 2; i++)
        assert_int_equal(sr1__query_result_close(answers[i], queries[i]), SR1_OK);
    assert_int_equal(sr1__query_result_status(answers[0]), SR1_ACTION_ERROR);
    assert_non_null(
        strstr(sr1__query_result_message(answers[0]), "longer than 67108864"));
    assert_int_equal(sr1__query_result_status(answers[1]), SR1_ACTION_OK);
    assert_int_equal(sr1__query_result_hit_count(answers[1]), 1);
    for (int i = 0; i < 2; i++)
        sr1__query_result_free(answers[i]);
    free(body);
}

static void a_late_answer_is_a_timeout(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = with_scores, .delay_s = 30};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search *e;
    struct server s;

    (void)state;
    o.timeout_s = 0.5;
    server_start(&s, say, &reply);
    e = open_at(&s, &o);
    assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_TIMEOUT);
    wait_for(&s.requests, 3);
    assert_int_equal(atomic_load(&s.requests), 3);
    end(found, e, &s);
}

static void a_huge_answer_is_refused(void **state)
{
    struct reply reply = {.code = 200, .headers = "", .body = "", .huge = 1 << 22};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search *e;
    struct server s;

    (void)state;
    o.max_body_bytes = 1 << 20;
    server_start(&s, say, &reply);
    e = open_at(&s, &o);
    assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 0), "longer than 1048576"));
    assert_int_equal(atomic_load(&s.requests), 1);
    end(found, e, &s);
}

static sr1_status read_it(void *arg)
{
    struct sr1__query_result *answers[2] = {NULL};
    struct sr1_search_sink sink = {answers, 2, 3};
    struct sr1__buf b;
    sr1_status status = SR1_OK;

    sr1__buf_init(&b, 0);
    for (int i = 0; i < 2 && status == SR1_OK; i++)
        status = sr1__query_result_new(&answers[i]);
    if (status == SR1_OK)
        status = sr1__retrieve_write(&b, SR1__DIALECT_QUERIES, queries, 2, 3);
    if (status == SR1_OK)
        status = sr1__retrieve_read(arg, strlen(arg), 0, 2, &sink);
    for (int i = 0; i < 2; i++)
        sr1__query_result_free(answers[i]);
    sr1__buf_free(&b);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(read_it, (void *)(uintptr_t)with_scores) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_one_request),
        cmocka_unit_test(a_key_travels_in_its_header_only),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(the_probe_finds_a_missing_server),
        cmocka_unit_test(the_servers_dialect_is_found),
        cmocka_unit_test(a_refusal_names_the_field),
        cmocka_unit_test(documents_with_scores),
        cmocka_unit_test(documents_in_every_shape),
        cmocka_unit_test(documents_too_many_leave_the_others_alone),
        cmocka_unit_test(nothing_found_is_empty),
        cmocka_unit_test(answers_of_servers_are_read),
        cmocka_unit_test(shared_answers_are_read),
        cmocka_unit_test(what_only_python_reads_is_an_answer),
        cmocka_unit_test(what_is_no_answer_is_an_error),
        cmocka_unit_test(an_answer_of_too_many_values_is_an_error),
        cmocka_unit_test(a_query_that_is_turned_down_finds_nothing),
        cmocka_unit_test(one_bad_list_fails_its_query_only),
        cmocka_unit_test(a_list_too_long_fails_its_query_only),
        cmocka_unit_test(a_late_answer_is_a_timeout),
        cmocka_unit_test(a_huge_answer_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
