/* Web engines: each provider's requests, answers and errors, against a server of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/web_providers.h"
#include "search_files.h"
#include "support/files.h"
#include "support/http_server.h"
#include "support/torture.h"

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#define KEY "k3y/with+signs"

/* The least each provider answers: two hits, and none. */
static const struct {
    const char *name;
    const char *line;   /* how the request begins, for "a b&c" and three hits */
    const char *header; /* that it has, or NULL */
    const char *body;   /* JSON, or NULL */
    const char *found;
    const char *nothing;
} providers[] = {
    {"serper", "POST /x HTTP/1.1\r\n", "X-API-KEY: " KEY, "{\"q\":\"a b&c\",\"num\":3}",
     "{\"searchParameters\": {}, \"organic\": [{\"title\": \"T1\", \"link\": \"u1\", "
     "\"snippet\": \"s1\"}, {\"title\": \"T2\", \"link\": \"u2\", \"snippet\": \"s2\"}]}",
     "{\"searchParameters\": {}, \"organic\": []}"},
    {"serpapi",
     "GET /x?q=a%20b%26c&num=3&engine=google&api_key=k3y%2Fwith%2Bsigns HTTP/1.1\r\n",
     NULL, NULL,
     "{\"search_metadata\": {\"status\": \"Success\"}, \"organic_results\": [{\"title\": "
     "\"T1\", \"link\": \"u1\", \"snippet\": \"s1\"}, {\"title\": \"T2\", \"link\": "
     "\"u2\", \"snippet\": \"s2\"}]}",
     "{\"search_metadata\": {\"status\": \"Success\"}, \"error\": \"Google hasn't "
     "returned any results for this query.\"}"},
    {"brave", "GET /x?q=a%20b%26c&count=3 HTTP/1.1\r\n", "X-Subscription-Token: " KEY,
     NULL,
     "{\"type\": \"search\", \"web\": {\"results\": [{\"title\": \"T1\", \"url\": "
     "\"u1\", \"description\": \"<strong>s</strong>1\"}, {\"title\": \"T2\", \"url\": "
     "\"u2\", \"description\": \"s2\"}]}}",
     "{\"type\": \"search\", \"query\": {}}"},
    {"google", "GET /x?q=a%20b%26c&num=3&cx=cx%200&key=k3y%2Fwith%2Bsigns HTTP/1.1\r\n",
     NULL, NULL,
     "{\"kind\": \"customsearch#search\", \"items\": [{\"title\": \"T1\", \"link\": "
     "\"u1\", \"snippet\": \"s1\"}, {\"title\": \"T2\", \"link\": \"u2\", \"snippet\": "
     "\"s2\"}]}",
     "{\"kind\": \"customsearch#search\"}"},
    {"searxng", "GET /x?q=a%20b%26c&format=json HTTP/1.1\r\n", NULL, NULL,
     "{\"results\": [{\"title\": \"T1\", \"url\": \"u1\", \"content\": \"s1\", "
     "\"score\": 1.0}, {\"title\": \"T2\", \"url\": \"u2\", \"content\": \"s2\", "
     "\"score\": 0.5}], \"unresponsive_engines\": [[\"three\", \"timeout\"]]}",
     "{\"results\": [], \"unresponsive_engines\": []}"},
    {"tavily", "POST /x HTTP/1.1\r\n", "Authorization: Bearer " KEY,
     "{\"query\":\"a b&c\",\"max_results\":3}",
     "{\"results\": [{\"title\": \"T1\", \"url\": \"u1\", \"content\": \"s1\", "
     "\"score\": 1.0}, {\"title\": \"T2\", \"url\": \"u2\", \"content\": \"s2\", "
     "\"score\": 0.5}]}",
     "{\"results\": []}"},
};

#define N_PROVIDERS (sizeof providers / sizeof providers[0])

static sr1_search_http_options quick(void)
{
    sr1_search_http_options o;

    setenv("SR1_TEST_KEY", KEY, 1);
    sr1_search_http_options_init(&o);
    o.retries = 2;
    o.retry_first_s = o.retry_max_s = 0.01;
    o.key_env = "SR1_TEST_KEY";
    o.engine_id = "cx 0";
    return o;
}

static sr1_search *open_at(const struct server *s, const char *provider,
                           sr1_search_http_options o)
{
    sr1_search *e = NULL;
    char url[128];

    snprintf(url, sizeof url, "%s/x", s->url);
    o.url = url;
    if (sr1_search_open_web(&e, provider, &o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return e;
}

static void say(void *user, int nth, const char *request, struct reply *r)
{
    (void)nth;
    (void)request;
    *r = *(const struct reply *)user;
}

static sr1_search_results *ask(sr1_search *e, const char *query)
{
    sr1_search_results *found = NULL;

    assert_int_equal(sr1_search_run(e, &query, 1, 3, &found), SR1_OK);
    return found;
}

static void expect_hit(const sr1_search_results *found, int32_t k, const char *id,
                       const char *contents, double score)
{
    sr1_search_hit hit = {sizeof(hit)};

    assert_int_equal(sr1_search_results_hit(found, 0, k, &hit), SR1_OK);
    assert_string_equal(hit.id, id);
    assert_string_equal(hit.contents, contents);
    assert_true(hit.score == score);
}

/* ---- what each provider is sent, and answers ---- */

static void requests_are_as_the_provider_wants_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PROVIDERS; i++) {
        struct reply reply = {.code = 200, .headers = "", .body = providers[i].found};
        sr1_search_results *found;
        struct server s;
        sr1_search *e;

        server_start(&s, say, &reply);
        e = open_at(&s, providers[i].name, quick());
        assert_string_equal(sr1_search_name(e), providers[i].name);
        found = ask(e, "a b&c");
        if (strncmp(s.last, providers[i].line, strlen(providers[i].line)) != 0)
            fail_msg("%s: the request is %s", providers[i].name, s.last);
        if (providers[i].header)
            assert_non_null(strstr(s.last, providers[i].header));
        if (!strstr(providers[i].line, "key") && !providers[i].header)
            assert_null(strstr(s.last, "k3y"));
        if (providers[i].body)
            assert_string_equal(request_body(s.last), providers[i].body);
        sr1_search_results_free(found);
        sr1_search_free(e);
        server_stop(&s);
    }
}

static void hits_are_titles_and_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PROVIDERS; i++) {
        struct reply reply = {.code = 200, .headers = "", .body = providers[i].found};
        sr1_search_results *found;
        struct server s;
        sr1_search *e;

        server_start(&s, say, &reply);
        e = open_at(&s, providers[i].name, quick());
        found = ask(e, "q");
        assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
        expect_hit(found, 0, "u1", "\"T1\"\ns1", 1.0);
        expect_hit(found, 1, "u2", "\"T2\"\ns2", 0.5);
        sr1_search_results_free(found);
        reply.body = providers[i].nothing;
        found = ask(e, "z");
        assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_EMPTY);
        assert_string_equal(sr1_search_results_message(found, 0),
                            "No information found for: z");
        sr1_search_results_free(found);
        sr1_search_free(e);
        server_stop(&s);
    }
}

static void an_answer_box_comes_first(void **state)
{
    struct reply reply = {
        .code = 200,
        .headers = "",
        .body = "{\"searchParameters\": {}, \"answerBox\": {\"title\": \"A\\nB\", "
                "\"answer\": \"42\", \"snippet\": \"It is 42.\"}, \"organic\": ["
                "{\"title\": \"T &amp; U <Old>\", \"link\": \"u\", \"snippet\": "
                "\"1 &lt; 2\\nnext\"}, {\"link\": \"says nothing\"}, "
                "{\"title\": \"only\", \"link\": \"v\"}]}"};
    sr1_search_results *found;
    struct server s;
    sr1_search *e;

    (void)state;
    server_start(&s, say, &reply);
    e = open_at(&s, "serper", quick());
    found = ask(e, "q");
    assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
    expect_hit(found, 0, "1", "\"A B\"\n42 It is 42.", 1.0);
    expect_hit(found, 1, "u", "\"T & U <Old>\"\n1 < 2\nnext", 0.5);
    expect_hit(found, 2, "v", "\"only\"\n", 1.0 / 3);
    sr1_search_results_free(found);
    sr1_search_free(e);
    server_stop(&s);
}

/* ---- stored answers and errors of the providers ---- */

/* What the first hit of an answer is. */
enum first { NO_HIT, THE_BOX, THE_FIRST_RESULT, FIRSTS };

static const struct stored_answer {
    const char *provider, *file;
    int32_t hits; /* of at most 10; -1: this is no answer */
    enum first first;
} stored[] = {
    {"serper", "serper", 4, THE_BOX},
    {"serper", "serper_empty", 0, NO_HIT},
    {"serper", "serper_error_403", -1, NO_HIT},
    {"serpapi", "serpapi", 5, THE_BOX},
    {"serpapi", "serpapi_empty", 0, NO_HIT},
    {"serpapi", "serpapi_error", -1, NO_HIT},
    {"serpapi", "serpapi_error_503", -1, NO_HIT},
    {"brave", "brave", 3, THE_FIRST_RESULT},
    {"brave", "brave_empty", 0, NO_HIT},
    {"brave", "brave_error_429", -1, NO_HIT},
    {"google", "google_cse", 4, THE_FIRST_RESULT},
    {"google", "google_cse_empty", 0, NO_HIT},
    {"google", "google_cse_error_429", -1, NO_HIT},
    {"searxng", "searxng", 3, THE_FIRST_RESULT},
    {"tavily", "tavily", 3, THE_FIRST_RESULT},
};

#define STORED (sizeof stored / sizeof stored[0])

static void answer_is_read(const struct stored_answer *a, const char *path,
                           const char *first)
{
    struct sr1__query_result *answer = NULL;
    struct sr1_search_sink sink = {&answer, 1, 10};
    sr1_search_hit hit = {sizeof(hit)};
    struct sr1__buf b;
    sr1_status status;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_int_equal(sr1__query_result_new(&answer), SR1_OK);
    status = sr1__web_read(sr1__web_provider_find(a->provider), b.data, b.len, 0, &sink);
    assert_int_equal(status, a->hits < 0 ? SR1_E_PARSE : SR1_OK);
    assert_int_equal(sr1__query_result_hit_count(answer), a->hits < 0 ? 0 : a->hits);
    if (first) {
        sr1__query_result_hit(answer, 0, &hit);
        assert_memory_equal(hit.contents, first, strlen(first));
    }
    sr1__query_result_free(answer);
    sr1__buf_free(&b);
}

static void answers_are_read(char *(*find)(const char *name), const char *folder,
                             const char *const first[FIRSTS])
{
    char name[64], *path;

    for (size_t i = 0; i < STORED; i++) {
        snprintf(name, sizeof name, "%s/%s.json", folder, stored[i].file);
        path = find(name);
        answer_is_read(&stored[i], path, first[stored[i].first]);
        free(path);
    }
}

static int is_stored(const char *provider)
{
    for (size_t i = 0; i < STORED; i++)
        if (strcmp(stored[i].provider, provider) == 0)
            return 1;
    return 0;
}

static void answers_of_every_provider_are_read(void **state)
{
    static const char *const first[FIRSTS] = {
        NULL, "\"Mill Bridge\"\nOpened in 1911.",
        "\"The Mill Bridge - Saltmere Town\"\nThe Mill Bridge opened on 4 June 1911."};
    const struct sr1__web_provider *p;

    (void)state;
    answers_are_read(test_fixture, "web_answers", first);
    for (size_t i = 0; (p = sr1__web_provider_at(i)) != NULL; i++)
        assert_true(is_stored(p->name));
}

static void shared_answers_are_read(void **state)
{
    static const char *const first[FIRSTS] = {
        NULL, "\"Port Alder Lighthouse\"\nBuilt in 1874",
        "\"Port Alder Lighthouse - History\"\nThe lighthouse at Port Alder was built"};
    char *folder = test_shared("");

    (void)state;
    if (!folder)
        skip();
    free(folder);
    answers_are_read(test_shared, "web_search_shapes", first);
}

/* ---- failures ---- */

static void what_is_no_answer_is_an_error(void **state)
{
    static const struct {
        const char *provider;
        int code;
        const char *body, *says;
        int requests;
    } cases[] = {
        {"serper", 200, "{}", "no answer of serper", 1},
        {"serper", 200, "{\"searchParameters\": {}, \"organic\": 3}", "no answer", 1},
        {"serper", 200, "<html>", "line 1", 1},
        {"serpapi", 200, "{\"error\": \"Invalid API key " KEY ".\"}",
         "Invalid API key ***.", 1},
        {"serpapi", 503,
         "{\"search_metadata\": {\"status\": \"Error\"}, \"error\": "
         "\"try again later\"}",
         "HTTP 503: try again later", 3},
        {"brave", 429, "{\"error\": {\"detail\": \"Request rate limit exceeded\"}}",
         "HTTP 429: Request rate limit exceeded", 3},
        {"google", 429, "{\"error\": {\"code\": 429, \"message\": \"Quota exceeded\"}}",
         "HTTP 429: Quota exceeded", 3},
        {"searxng", 200,
         "{\"results\": [], \"unresponsive_engines\": [[\"x\", \"timeout\"]]}",
         "did not answer", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply reply = {
            .code = cases[i].code, .headers = "", .body = cases[i].body};
        sr1_search_results *found;
        const char *message;
        struct server s;
        sr1_search *e;

        server_start(&s, say, &reply);
        e = open_at(&s, cases[i].provider, quick());
        found = ask(e, "q");
        message = sr1_search_results_message(found, 0);
        assert_int_equal(sr1_search_results_status(found, 0), SR1_ACTION_ERROR);
        if (!strstr(message, cases[i].says))
            fail_msg("'%s' is not in '%s'", cases[i].says, message);
        assert_null(strstr(message, "k3y"));
        assert_null(strstr(message, "No information"));
        assert_int_equal(atomic_load(&s.requests), cases[i].requests);
        sr1_search_results_free(found);
        sr1_search_free(e);
        server_stop(&s);
    }
}

/* The query "slow" never gets an answer, "bad" an error. */
static void say_by_query(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    r->body = providers[0].found;
    if (strstr(request, "slow"))
        r->delay_s = 30;
    if (strstr(request, "bad"))
        r->code = 400;
}

static void a_query_fails_alone(void **state)
{
    const char *queries[] = {"one", "slow", "bad", "two"};
    static const int32_t expected[] = {SR1_ACTION_OK, SR1_ACTION_TIMEOUT,
                                       SR1_ACTION_EMPTY, SR1_ACTION_OK};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    struct server s;
    sr1_search *e;

    (void)state;
    o.timeout_s = 1;
    o.retries = 0;
    server_start(&s, say_by_query, NULL);
    e = open_at(&s, "serper", o);
    assert_int_equal(sr1_search_run(e, queries, 4, 3, &found), SR1_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sr1_search_results_status(found, i), expected[i]);
    assert_int_equal(atomic_load(&s.requests), 4);
    sr1_search_results_free(found);
    sr1_search_free(e);
    server_stop(&s);
}

static void a_wrong_key_is_a_wrong_setting(void **state)
{
    static const struct {
        const char *provider;
        int code;
        const char *body, *says;
    } cases[] = {
        {"serper", 403, "{\"message\": \"Unauthorized.\", \"statusCode\": 403}",
         "HTTP 403: Unauthorized."},
        {"tavily", 401, "{\"detail\": {\"error\": \"Unauthorized: missing key\"}}",
         "HTTP 401: Unauthorized: missing key"},
        {"google", 400,
         "{\"error\": {\"code\": 400, \"message\": \"API key not valid. Please pass a "
         "valid API key.\"}}",
         "API key not valid"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply reply = {
            .code = cases[i].code, .headers = "", .body = cases[i].body};
        sr1_search_results *found = NULL;
        const char *query = "q";
        struct server s;
        sr1_search *e;

        server_start(&s, say, &reply);
        e = open_at(&s, cases[i].provider, quick());
        assert_int_equal(sr1_search_run(e, &query, 1, 3, &found), SR1_E_CONFIG);
        assert_null(found);
        if (!strstr(sr1_last_error(), cases[i].says))
            fail_msg("'%s' is not in '%s'", cases[i].says, sr1_last_error());
        assert_non_null(strstr(sr1_last_error(), "environment variable SR1_TEST_KEY"));
        assert_null(strstr(sr1_last_error(), "k3y"));
        assert_int_equal(atomic_load(&s.requests), 1);
        sr1_search_free(e);
        server_stop(&s);
    }
}

/* 403 for "bad", as a firewall that dislikes a query. */
static void say_forbidden(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    r->body = providers[0].found;
    if (strstr(request, "bad"))
        r->code = 403;
}

static void one_query_forbidden_is_no_wrong_key_but_many_are(void **state)
{
    const char *bad = "bad";
    sr1_search_results *found = NULL;
    struct server s;
    sr1_search *e;

    (void)state;
    server_start(&s, say_forbidden, NULL);
    e = open_at(&s, "serper", quick());
    for (int i = 0; i < 20; i++) {
        found = ask(e, i % 2 ? "bad" : "good");
        assert_int_equal(sr1_search_results_status(found, 0),
                         i % 2 ? SR1_ACTION_ERROR : SR1_ACTION_OK);
        sr1_search_results_free(found);
    }
    for (int i = 1; i < 7; i++) /* the last one was bad */
        sr1_search_results_free(ask(e, "bad"));
    found = NULL;
    assert_int_equal(sr1_search_run(e, &bad, 1, 3, &found), SR1_E_CONFIG);
    sr1_search_free(e);
    server_stop(&s);
}

/* Nothing was ever answered: it may be asked wrongly. */
static void a_service_that_turns_all_down_is_believed_for_a_while(void **state)
{
    struct reply reply = {.code = 400, .headers = "", .body = "{\"error\": \"no cx\"}"};
    struct server s;
    sr1_search *e;

    (void)state;
    server_start(&s, say, &reply);
    e = open_at(&s, "google", quick());
    for (int i = 0; i < 20; i++) {
        sr1_search_results *found = ask(e, "q");

        assert_int_equal(sr1_search_results_status(found, 0),
                         i < 16 ? SR1_ACTION_EMPTY : SR1_ACTION_ERROR);
        assert_non_null(strstr(sr1_search_results_message(found, 0),
                               i < 16 ? "No information found for: q" : "no cx"));
        sr1_search_results_free(found);
    }
    sr1_search_free(e);
    server_stop(&s);
}

static void a_query_is_cut_to_what_the_service_takes(void **state)
{
    static const struct {
        const char *provider;
        const char *word; /* 100 times, with spaces between */
        size_t words;     /* that are left */
    } cases[] = {
        {"tavily", "tower", 66},
        {"tavily", "\xC3\xA9t\xC3\xA9", 100}, /* characters count, not bytes */
        {"brave", "a", 50},
        {"serper", "tower", 100},
    };
    char whole[1001] = "";

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sr1__web_provider *p = sr1__web_provider_find(cases[i].provider);
        size_t word = strlen(cases[i].word), n;
        char query[1024] = "";

        for (int k = 0; k < 100; k++)
            snprintf(query + strlen(query), 16, "%s%s", k ? " " : "", cases[i].word);
        n = sr1__web_query_length(p, query);
        assert_int_equal(n, cases[i].words * (word + 1) - 1);
    }
    memset(whole, 'x', 1000); /* no space to cut at */
    assert_int_equal(sr1__web_query_length(sr1__web_provider_find("tavily"), whole), 400);
}

static void limits_queue_a_batch(void **state)
{
    struct reply reply = {
        .code = 200, .headers = "", .body = providers[0].found, .delay_s = 0.02};
    sr1_search_http_options o = quick();
    sr1_search_results *found = NULL;
    sr1_search_counters c = {sizeof(c)};
    char text[12][8];
    const char *queries[12];
    struct server s;
    sr1_search *e;

    (void)state;
    for (int i = 0; i < 12; i++) {
        snprintf(text[i], sizeof text[i], "q%d", i);
        queries[i] = text[i];
    }
    o.concurrency = 3;
    o.rate_limit = 100;
    server_start(&s, say, &reply);
    e = open_at(&s, "serper", o);
    assert_int_equal(sr1_search_run(e, queries, 12, 3, &found), SR1_OK);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(sr1_search_results_status(found, i), SR1_ACTION_OK);
    assert_true(atomic_load(&s.peak) <= 3);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.requests, 12);
    assert_true(c.rate_waits > 0);
    sr1_search_results_free(found);
    sr1_search_free(e);
    server_stop(&s);
}

/* A pool of threads would let fewer queries wait side by side. */
static void all_of_a_batch_is_under_way(void **state)
{
    struct reply reply = {
        .code = 200, .headers = "", .body = providers[0].found, .delay_s = 0.2};
    const char *queries[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    sr1_search_results *found = NULL;
    struct server s;
    sr1_search *e;

    (void)state;
    server_start(&s, say, &reply);
    e = open_at(&s, "serper", quick());
    assert_int_equal(sr1_search_set_threads(e, 2), SR1_OK);
    assert_int_equal(sr1_search_run(e, queries, 9, 3, &found), SR1_OK);
    assert_int_equal(atomic_load(&s.peak), 9);
    sr1_search_results_free(found);
    sr1_search_free(e);
    server_stop(&s);
}

/* ---- opening ---- */

static void what_is_missing_is_named(void **state)
{
    sr1_search_http_options o;
    sr1_search *e = NULL;

    (void)state;
    sr1_search_http_options_init(&o);
    unsetenv("SERPER_API_KEY");
    assert_int_equal(sr1_search_open_web(&e, "serper", NULL), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "SERPER_API_KEY"));
    assert_int_equal(sr1_search_open_web(&e, "searxng", &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "URL"));
    o = quick();
    o.engine_id = NULL;
    assert_int_equal(sr1_search_open_web(&e, "google", &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "cx"));
    assert_int_equal(sr1_search_open_web(&e, "altavista", &o), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "serper, serpapi, brave"));
    assert_int_equal(sr1_search_open_web(&e, NULL, &o), SR1_E_NOT_FOUND);
    o.url = "ftp://somewhere/";
    assert_int_equal(sr1_search_open_web(&e, "serper", &o), SR1_E_INVALID);
    setenv("SR1_TEST_KEY", "two\nlines", 1);
    o.url = NULL;
    assert_int_equal(sr1_search_open_web(&e, "serper", &o), SR1_E_CONFIG);
    assert_null(strstr(sr1_last_error(), "lines"));
    assert_null(e);
}

static void providers_are_listed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PROVIDERS; i++)
        assert_string_equal(sr1_search_web_provider(i), providers[i].name);
    assert_null(sr1_search_web_provider(N_PROVIDERS));
}

static sr1_status read_it(void *arg)
{
    const struct sr1__web_provider *p = arg;
    struct sr1__query_result *answer = NULL;
    struct sr1_search_sink sink = {&answer, 1, 3};
    struct sr1__buf b;
    sr1_status status = sr1__query_result_new(&answer);

    sr1__buf_init(&b, 0);
    if (status == SR1_OK)
        status = sr1__web_write_url(&b, p, "http://x", "q", 3, KEY, "");
    if (status == SR1_OK && p->post)
        status = sr1__web_write_body(&b, p, "q", 3);
    if (status == SR1_OK)
        status =
            sr1__web_read(p, providers[0].found, strlen(providers[0].found), 0, &sink);
    sr1__query_result_free(answer);
    sr1__buf_free(&b);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(read_it, (void *)(uintptr_t)sr1__web_provider_find("serper")) >
                10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_as_the_provider_wants_them),
        cmocka_unit_test(hits_are_titles_and_texts),
        cmocka_unit_test(an_answer_box_comes_first),
        cmocka_unit_test(answers_of_every_provider_are_read),
        cmocka_unit_test(shared_answers_are_read),
        cmocka_unit_test(what_is_no_answer_is_an_error),
        cmocka_unit_test(a_query_fails_alone),
        cmocka_unit_test(a_wrong_key_is_a_wrong_setting),
        cmocka_unit_test(one_query_forbidden_is_no_wrong_key_but_many_are),
        cmocka_unit_test(a_service_that_turns_all_down_is_believed_for_a_while),
        cmocka_unit_test(a_query_is_cut_to_what_the_service_takes),
        cmocka_unit_test(limits_queue_a_batch),
        cmocka_unit_test(all_of_a_batch_is_under_way),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(providers_are_listed),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
