/* The engine over OpenSearch and Elasticsearch: _msearch as servers answer it and as they
 * fail. Bodies have the form of the servers' references and of answers that users report;
 * no real server was asked (tests/interop/check_search_servers.py asks one that others
 * wrote to be compatible). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/msearch.h"
#include "retrieval/search/query_result.h"
#include "support/files.h"
#include "support/search_server.h"
#include "support/torture.h"

#include <searchr1/ext/engines.h>
#include <searchr1/search.h>

static const char *const queries[] = {"who \"built\" it", "height", "colour"};

#define SHARDS(failed)                                                                   \
    "\"took\":1,\"timed_out\":false,\"_shards\":{\"total\":5,\"successful\":5,"          \
    "\"skipped\":0,\"failed\":" failed "}"
#define HITS(list)                                                                       \
    "\"hits\":{\"total\":{\"value\":2,\"relation\":\"eq\"},\"max_score\":2.5,\"hits\":"  \
    "[" list "]}"
#define HIT(id, score, source)                                                           \
    "{\"_index\":\"wiki\",\"_id\":\"" id "\",\"_score\":" score ",\"_source\":" source "}"
#define FOUND(list) "{" SHARDS("0") "," HITS(list) ",\"status\":200}"
#define ERROR(type, reason, status)                                                      \
    "{\"error\":{\"root_cause\":[{\"type\":\"" type "\",\"reason\":\"" reason            \
    "\"}],\"type\":\"search_phase_execution_exception\",\"reason\":\"all shards "        \
    "failed\"},"                                                                         \
    "\"status\":" status "}"
#define RESPONSES(list) "{\"took\":3,\"responses\":[" list "]}"

#define ONE FOUND(HIT("7", "2.5", "{\"contents\":\"A\\nOne.\"}"))
#define NOTHING FOUND("")

/* Replies in order, the last one again and again. */
struct script {
    const struct reply *replies;
    int n;
};

static void play(void *user, int nth, const char *request, struct reply *r)
{
    const struct script *script = user;

    (void)request;
    *r = script->replies[nth < script->n ? nth : script->n - 1];
}

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

    snprintf(url, sizeof url, "%s/wiki/", s->url);
    if (sr1_search_open_opensearch(&e, url, o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return e;
}

/* Ask n queries of a server with this script. */
static sr1_search_results *ask_with(int32_t retries, struct script *script, size_t n,
                                    sr1_search **engine, struct server *s)
{
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;

    o.retries = retries;
    server_start(s, play, script);
    *engine = open_at(s, &o);
    if (sr1_search_run(*engine, queries, n, 3, &found) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return found;
}

static sr1_search_results *ask(struct script *script, size_t n, sr1_search **engine,
                               struct server *s)
{
    return ask_with(2, script, n, engine, s);
}

/* ---- requests ---- */

static void a_batch_is_one_request(void **state)
{
    static const struct reply replies[] = {
        {.code = 200,
         .headers = "",
         .body = RESPONSES(FOUND(HIT("7", "2.5", "{\"contents\":\"A\\nOne.\"}") "," HIT(
             "x-8", "1", "{\"contents\":\"B\\nTwo.\"}")) "," NOTHING)}};
    struct script script = {replies, 1};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&script, 2, &e, &s);
    sr1_search_hit hit = {sizeof(hit)};

    (void)state;
    assert_int_equal(atomic_load(&s.requests), 1);
    assert_non_null(strstr(s.last, "POST /wiki/_msearch HTTP/1.1\r\n"));
    assert_non_null(strstr(s.last, "Content-Type: application/x-ndjson\r\n"));
    assert_null(strcasestr(s.last, "authorization"));
    assert_string_equal(
        request_body(s.last),
        "{}\n"
        "{\"size\":3,\"query\":{\"match\":{\"contents\":\"who \\\"built\\\" it\"}},"
        "\"_source\":[\"contents\"]}\n"
        "{}\n"
        "{\"size\":3,\"query\":{\"match\":{\"contents\":\"height\"}},"
        "\"_source\":[\"contents\"]}\n");
    assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
    expect_hit(found, 0, 0, "7", "A\nOne.", 2.5);
    expect_hit(found, 0, 1, "x-8", "B\nTwo.", 1);
    assert_int_equal(sr1_search_results_hit(found, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.row, "{\"contents\":\"A\\nOne.\"}");
    assert_int_equal(sr1_search_results_status(found, 1), SR1_ACTION_EMPTY);
    end(found, e, &s);
}

static void several_fields_are_searched_together(void **state)
{
    static const struct reply replies[] = {
        {.code = 200,
         .headers = "",
         .body = RESPONSES(FOUND(
             HIT("1", "2", "{\"title\":\"T\",\"body\":{\"text\":[\"a\",\"b\"]}}") "," HIT(
                 "2", "1",
                 "{\"body.text\":\"flat\"}") "," HIT("3", "null",
                                                     "{\"title\":\"no score\"}")))}};
    struct script script = {replies, 1};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search *e;
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    o.fields = "title^2, body.text";
    e = open_at(&s, &o);
    assert_int_equal(sr1_search_run(e, queries + 1, 1, 3, &found), SR1_OK);
    assert_string_equal(
        request_body(s.last),
        "{}\n{\"size\":3,\"query\":{\"multi_match\":{\"query\":\"height\","
        "\"fields\":[\"title^2\",\"body.text\"]}},"
        "\"_source\":[\"title\",\"body.text\"]}\n");
    expect_hit(found, 0, 0, "1", "T\na\nb", 2);
    expect_hit(found, 0, 1, "2", "flat", 1);
    expect_hit(found, 0, 2, "3", "no score", 1.0 / 3);
    end(found, e, &s);
}

static void keys_travel_in_their_header_only(void **state)
{
    static const struct {
        const char *key, *header;
    } keys[] = {
        {"VnVhQ2ZHY0JDZGJrUW0=", "\r\nAuthorization: ApiKey VnVhQ2ZHY0JDZGJrUW0=\r\n"},
        {"aladdin:opensesame", "\r\nAuthorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l\r\n"},
    };
    static const struct reply replies[] = {
        {.code = 401,
         .headers = "",
         .body =
             "{\"error\":{\"root_cause\":[{\"type\":\"security_exception\"}],\"type\":"
             "\"security_exception\",\"reason\":\"unable to authenticate "
             "aladdin:opensesame\"},\"status\":401}"}};
    struct script script = {replies, 1};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_search_http_options o = quick();
        sr1_search_results *found = NULL;
        sr1_search *e;
        struct server s;

        setenv("SR1_TEST_KEY", keys[i].key, 1);
        o.key_env = "SR1_TEST_KEY";
        server_start(&s, play, &script);
        e = open_at(&s, &o);
        assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_E_CONFIG);
        assert_non_null(strstr(s.last, keys[i].header));
        assert_non_null(strstr(sr1_last_error(), "HTTP 401"));
        assert_non_null(strstr(sr1_last_error(), "environment variable SR1_TEST_KEY"));
        assert_non_null(strstr(sr1_last_error(), "unable to authenticate"));
        if (i == 1)
            assert_null(strstr(sr1_last_error(), "opensesame"));
        end(NULL, e, &s);
        unsetenv("SR1_TEST_KEY");
    }
}

/* ---- answers ---- */

static void each_search_ends_by_itself(void **state)
{
    static const struct {
        const char *item;
        int32_t status;
        const char *message;
    } items[] = {
        {ERROR("too_many_nested_clauses", "Query contains too many nested clauses",
               "400"),
         SR1_ACTION_EMPTY, "No information found"},
        {ERROR("index_not_found_exception", "no such index [wiki]", "404"),
         SR1_ACTION_ERROR, "status 404: index_not_found_exception: no such index [wiki]"},
        {"{\"took\":9,\"timed_out\":true,\"_shards\":{\"total\":5,\"failed\":0}," HITS(
             HIT("7", "1", "{\"contents\":\"part\"}")) ",\"status\":200}",
         SR1_ACTION_TIMEOUT, "time limit of the server"},
        {"{" SHARDS("2") "," HITS(
             HIT("7", "1", "{\"contents\":\"part\"}")) ",\"status\":200}",
         SR1_ACTION_ERROR, "2 of the index's shards failed"},
        {FOUND(HIT("7", "1", "{\"other\":\"x\"}")), SR1_ACTION_ERROR,
         "hit 1 has none of the fields"},
        {FOUND(HIT("7", "1", "{\"contents\":\"x\"}") ",3"), SR1_ACTION_ERROR,
         "hit 2 has"},
        {"{" SHARDS("0") ",\"status\":200}", SR1_ACTION_ERROR, "its hits are no list"},
        {"{\"error\":\"IndexMissingException[[wiki] missing]\"}", SR1_ACTION_ERROR,
         "status 500: IndexMissingException"},
        {"null", SR1_ACTION_ERROR, "its hits are no list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        char body[4096];
        struct reply reply = {.code = 200, .headers = "", .body = body};
        struct script script = {&reply, 1};
        sr1_search *e = NULL;
        struct server s;
        sr1_search_results *found;

        snprintf(body, sizeof body, "{\"responses\":[%s,%s,%s]}", ONE, items[i].item,
                 ONE);
        found = ask_with(0, &script, 3, &e, &s);
        expect_hit(found, 0, 0, "7", "A\nOne.", 2.5);
        expect_hit(found, 2, 0, "7", "A\nOne.", 2.5);
        if (sr1_search_results_status(found, 1) != items[i].status ||
            !strstr(sr1_search_results_message(found, 1), items[i].message))
            fail_msg("%s: %d %s", items[i].item, sr1_search_results_status(found, 1),
                     sr1_search_results_message(found, 1));
        assert_int_equal(sr1_search_results_hit_count(found, 1), 0);
        end(found, e, &s);
    }
}

/* What a server that has answered nothing yet turns down may be asked wrongly. */
static void a_rejection_of_all_is_a_failure(void **state)
{
    static const struct reply replies[] = {
        {.code = 200,
         .headers = "",
         .body =
             RESPONSES(ERROR("query_shard_exception", "failed to create query", "400"))}};
    struct script script = {replies, 1};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&script, 1, &e, &s);

    (void)state;
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 0), "failed to create"));
    end(found, e, &s);
}

#define BUSY ERROR("es_rejected_execution_exception", "rejected execution", "429")

static void searches_put_off_are_asked_again(void **state)
{
    static const struct reply passes[] = {
        {.code = 200, .headers = "", .body = RESPONSES(BUSY "," ONE "," BUSY)},
        {.code = 200, .headers = "", .body = RESPONSES(NOTHING "," BUSY)},
        {.code = 200, .headers = "", .body = RESPONSES(ONE)}};
    static const struct reply stays[] = {
        {.code = 200, .headers = "", .body = RESPONSES(ONE "," BUSY)},
        {.code = 200, .headers = "", .body = RESPONSES(BUSY)}};
    struct script script = {passes, 3};
    sr1_search *e = NULL;
    struct server s;
    sr1_search_results *found = ask(&script, 3, &e, &s);

    (void)state;
    assert_int_equal(atomic_load(&s.requests), 3);
    assert_non_null(strstr(s.last, "colour")); /* what is left, alone */
    assert_null(strstr(s.last, "height"));
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_EMPTY);
    expect_hit(found, 1, 0, "7", "A\nOne.", 2.5);
    expect_hit(found, 2, 0, "7", "A\nOne.", 2.5);
    end(found, e, &s);
    script = (struct script){stays, 2};
    found = ask(&script, 2, &e, &s);
    assert_int_equal(atomic_load(&s.requests), 3);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_OK);
    assert_int_equal(sr1_search_results_status(found, 1), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 1), "rejected execution"));
    end(found, e, &s);
}

static void what_is_no_answer_is_an_error(void **state)
{
    static const struct {
        int code;
        const char *body, *says;
        int requests;
    } cases[] = {
        {200, "{}", "no list 'responses'", 1},
        {200, RESPONSES(ONE), "1 responses to 2 searches", 1},
        {200, "<html>", "line 1", 1},
        {200, "[]", "no list", 1},
        {404, "{\"error\":{\"type\":\"x\",\"reason\":\"no such index\"},\"status\":404}",
         "HTTP 404: no such index", 1},
        {503, "{\"error\":{\"reason\":\"blocked by: [SERVICE_UNAVAILABLE/1]\"}}",
         "HTTP 503: blocked by", 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply reply = {
            .code = cases[i].code, .headers = "", .body = cases[i].body};
        struct script script = {&reply, 1};
        sr1_search *e = NULL;
        struct server s;
        sr1_search_results *found = ask(&script, 2, &e, &s);

        for (size_t q = 0; q < 2; q++) {
            assert_int_equal(sr1_search_results_status(found, q), SR1_ACTION_ERROR);
            if (!strstr(sr1_search_results_message(found, q), cases[i].says))
                fail_msg("%s", sr1_search_results_message(found, q));
        }
        assert_int_equal(atomic_load(&s.requests), cases[i].requests);
        end(found, e, &s);
    }
}

static void a_huge_answer_is_refused(void **state)
{
    static const struct reply reply = {
        .code = 200, .headers = "", .body = "", .huge = 1 << 22};
    struct script script = {&reply, 1};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search *e;
    struct server s;

    (void)state;
    o.max_body_bytes = 1 << 20;
    server_start(&s, play, &script);
    e = open_at(&s, &o);
    assert_int_equal(sr1_search_run(e, queries, 2, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
    assert_non_null(strstr(sr1_search_results_message(found, 0), "longer than 1048576"));
    end(found, e, &s);
}

/* ---- opening ---- */

static void addresses_are_checked(void **state)
{
    static const char *const urls[] = {
        "localhost:9200/wiki", "http://localhost:9200", "http://localhost:9200/",
        "http://localhost:9200/wiki?pretty", "http://u:secret@localhost/wiki"};
    sr1_search_http_options o = quick();
    sr1_search *e = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        assert_int_equal(sr1_search_open_opensearch(&e, urls[i], &o), SR1_E_INVALID);
        assert_null(strstr(sr1_last_error(), "secret"));
    }
    assert_int_equal(sr1_search_open_opensearch(&e, NULL, &o), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_opensearch(NULL, "http://h/wiki", &o),
                     SR1_E_INVALID);
    for (size_t i = 0; i < 4; i++) {
        o.fields =
            (const char *[]){"", "a,,b", "^2", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}[i];
        assert_int_equal(sr1_search_open_opensearch(&e, "http://h/wiki", &o),
                         SR1_E_INVALID);
    }
    o = quick();
    o.key_env = "SR1_TEST_NOT_SET";
    assert_int_equal(sr1_search_open_opensearch(&e, "http://h/wiki", &o), SR1_E_CONFIG);
    assert_null(e);
}

static void opening_finds_what_is_missing(void **state)
{
    static const struct {
        struct reply reply;
        sr1_status status;
        const char *says;
    } cases[] = {
        {{.code = 200, .headers = "", .body = RESPONSES(NOTHING "," ONE)}, SR1_OK, ""},
        {{.code = 200, .headers = "", .body = RESPONSES(NOTHING "," NOTHING)},
         SR1_E_CONFIG,
         "no document of the index has a field 'contents'"},
        {{.code = 200,
          .headers = "",
          .body = RESPONSES(ERROR("index_not_found_exception", "no such index [wiki]",
                                  "404") "," NOTHING)},
         SR1_E_CONFIG,
         "no such index [wiki]"},
        {{.code = 200, .headers = "", .body = RESPONSES(BUSY "," NOTHING)},
         SR1_E_NETWORK,
         "rejected execution"},
        {{.code = 200, .headers = "", .body = "{}"}, SR1_E_PARSE, "no list 'responses'"},
        {{.code = 403, .headers = "", .body = "{}"},
         SR1_E_CONFIG,
         "opensearch_api_key_env"},
        {{.headers = "", .body = "", .drop = 1},
         SR1_E_NETWORK,
         "is OpenSearch or Elasticsearch running at http"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct script script = {&cases[i].reply, 1};
        sr1_search_http_options o = quick();
        sr1_search *e = NULL;
        struct server s;
        char url[128];

        server_start(&s, play, &script);
        snprintf(url, sizeof url, "%s/wiki", s.url);
        o.probe = 1;
        if (sr1_search_open_opensearch(&e, url, &o) != cases[i].status ||
            (e == NULL) != (cases[i].status != SR1_OK))
            fail_msg("%zu: %s", i, sr1_last_error());
        if (e == NULL && !strstr(sr1_last_error(), cases[i].says))
            fail_msg("%zu: %s", i, sr1_last_error());
        if (i == 0)
            assert_string_equal(
                request_body(s.last),
                "{}\n{\"size\":1,\"query\":{\"match\":{\"contents\":\"start-up probe\"}},"
                "\"_source\":[\"contents\"]}\n{}\n{\"size\":1,\"query\":{\"exists\":"
                "{\"field\":\"contents\"}},\"_source\":false}\n");
        sr1_search_free(e);
        server_stop(&s);
    }
}

static sr1_status read_it(void *arg)
{
    struct sr1__query_result *answers[2] = {NULL};
    struct sr1_search_sink sink = {answers, 2, 3};
    struct sr1__msearch_item items[2];
    struct sr1__text_fields fields = {0};
    struct sr1__buf b;
    sr1_status status = SR1_OK;

    sr1__buf_init(&b, 0);
    for (int i = 0; i < 2 && status == SR1_OK; i++)
        status = sr1__query_result_new(&answers[i]);
    if (status == SR1_OK)
        status = sr1__text_fields_read(&fields, "title^2,contents");
    if (status == SR1_OK)
        status = sr1__msearch_write(&b, &fields, queries[0], 3);
    if (status == SR1_OK)
        status = sr1__msearch_read(arg, strlen(arg), &fields, 2, items, &sink);
    sr1__text_fields_free(&fields);
    for (int i = 0; i < 2; i++)
        sr1__query_result_free(answers[i]);
    sr1__buf_free(&b);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    static char body[] = RESPONSES(ONE "," BUSY);

    (void)state;
    assert_true(torture(read_it, body) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_one_request),
        cmocka_unit_test(several_fields_are_searched_together),
        cmocka_unit_test(keys_travel_in_their_header_only),
        cmocka_unit_test(each_search_ends_by_itself),
        cmocka_unit_test(a_rejection_of_all_is_a_failure),
        cmocka_unit_test(searches_put_off_are_asked_again),
        cmocka_unit_test(what_is_no_answer_is_an_error),
        cmocka_unit_test(a_huge_answer_is_refused),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(opening_finds_what_is_missing),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
