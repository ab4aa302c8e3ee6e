/* The HTTP client against a server that delays, drops, truncates, floods and refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "retrieval/net/http_client.h"
#include "support/files.h"
#include "support/http_server.h"
#include "support/wait.h"

#define N_MANY 24

/* Waits are short: what is tested is their order and number. */
static const struct sr1__http_options quick = {
    .connect_timeout_s = 2,
    .timeout_s = 5,
    .max_body = 1 << 20,
    .concurrency = 4,
    .retry = {3, 0.01, 0.02, 5},
};

static struct sr1__http *client(const struct sr1__http_options *o)
{
    struct sr1__http *h = NULL;

    assert_int_equal(sr1__http_new(&h, o), SR1_OK);
    return h;
}

/* GET path of the server, n times at once; free each response. */
static void get(struct sr1__http *h, const struct server *s, const char *path, size_t n,
                struct sr1__http_response *responses)
{
    struct sr1__http_request requests[N_MANY] = {{0}};
    char url[256];

    snprintf(url, sizeof url, "%s%s", s->url, path);
    for (size_t i = 0; i < n; i++)
        requests[i].url = url;
    assert_int_equal(sr1__http_run(h, requests, n, responses), SR1_OK);
}

static struct sr1__http_counts counts(const struct sr1__http *h)
{
    struct sr1__http_counts c;

    sr1__http_counts_get(h, &c);
    return c;
}

static void say_hello(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    (void)request;
    r->body = "hello";
}

static void an_answer_comes_whole(void **state)
{
    const char *headers[] = {"X-Key: k1", "Content-Type: text/plain"};
    struct sr1__http_request q = {NULL, headers, 2, "body \xC3\xA9", 7};
    struct sr1__http *h = client(&quick);
    struct sr1__http_response r;
    struct server s;
    char url[128];

    (void)state;
    server_start(&s, say_hello, NULL);
    snprintf(url, sizeof url, "%s/path?a=b", s.url);
    q.url = url;
    assert_int_equal(sr1__http_run(h, &q, 1, &r), SR1_OK);
    assert_int_equal(r.status, SR1_OK);
    assert_int_equal(r.code, 200);
    assert_string_equal(sr1__buf_cstr(&r.body), "hello");
    assert_non_null(strstr(s.last, "POST /path?a=b HTTP/1.1\r\n"));
    assert_non_null(strstr(s.last, "\r\nX-Key: k1\r\n"));
    assert_null(strstr(s.last, "Expect:"));
    assert_string_equal(request_body(s.last), "body \xC3\xA9");
    sr1__http_response_free(&r);
    sr1__http_free(h);
    server_stop(&s);
}

static void say_slowly(void *user, int nth, const char *request, struct reply *r)
{
    (void)nth;
    (void)request;
    r->body = "slow";
    r->delay_s = *(double *)user;
}

static void many_at_once_but_never_more_than_allowed(void **state)
{
    struct sr1__http_response r[N_MANY];
    struct sr1__http *h = client(&quick);
    double delay = 0.03;
    struct server s;

    (void)state;
    server_start(&s, say_slowly, &delay);
    get(h, &s, "/", N_MANY, r);
    for (size_t i = 0; i < N_MANY; i++) {
        assert_int_equal(r[i].status, SR1_OK);
        sr1__http_response_free(&r[i]);
    }
    assert_int_equal(atomic_load(&s.requests), N_MANY);
    assert_int_equal(atomic_load(&s.peak), 4);
    sr1__http_free(h);
    server_stop(&s);
}

static void connections_are_used_again(void **state)
{
    struct sr1__http *h = client(&quick);
    struct sr1__http_response r;
    struct server s;

    (void)state;
    server_start(&s, say_hello, NULL);
    for (int i = 0; i < 10; i++) {
        get(h, &s, "/", 1, &r);
        assert_int_equal(r.status, SR1_OK);
        sr1__http_response_free(&r);
    }
    assert_int_equal(atomic_load(&s.requests), 10);
    assert_int_equal(atomic_load(&s.connections), 1);
    assert_int_equal(counts(h).connections, 1);
    assert_int_equal(counts(h).attempts, 10);
    sr1__http_free(h);
    server_stop(&s);
}

/* The first *user requests meet with this, the others with a hello. */
struct trouble {
    int times;
    struct reply reply;
};

static void make_trouble(void *user, int nth, const char *request, struct reply *r)
{
    const struct trouble *t = user;

    (void)request;
    if (nth >= t->times)
        say_hello(NULL, nth, request, r);
    else
        *r = t->reply;
}

static const struct reply troubles[] = {
    {.code = 500, .headers = "", .body = "sorry"},
    {.code = 503, .headers = "", .body = ""},
    {.code = 429, .headers = "Retry-After: 0\r\n", .body = "slow down"},
    {.code = 200, .headers = "", .body = "", .drop = 1},
    {.code = 200, .headers = "", .body = "cut", .declared = 1000},
};

static void trouble_that_passes_is_sat_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++) {
        struct trouble t = {2, troubles[i]};
        struct sr1__http *h = client(&quick);
        struct sr1__http_response r;
        struct server s;

        server_start(&s, make_trouble, &t);
        get(h, &s, "/", 1, &r);
        assert_int_equal(r.status, SR1_OK);
        assert_string_equal(sr1__buf_cstr(&r.body), "hello");
        assert_int_equal(atomic_load(&s.requests), 3);
        assert_int_equal(counts(h).retries, 2);
        sr1__http_response_free(&r);
        sr1__http_free(h);
        server_stop(&s);
    }
}

static void trouble_that_stays_is_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++) {
        struct trouble t = {1000, troubles[i]};
        struct sr1__http *h = client(&quick);
        struct sr1__http_response r;
        struct server s;

        server_start(&s, make_trouble, &t);
        get(h, &s, "/?key=secret", 1, &r);
        assert_int_equal(r.status, SR1_E_NETWORK);
        assert_non_null(strstr(r.message, s.url));
        assert_null(strstr(r.message, "secret"));
        assert_int_equal(atomic_load(&s.requests), 4);
        sr1__http_response_free(&r);
        sr1__http_free(h);
        server_stop(&s);
    }
}

static void what_will_not_pass_is_not_tried_again(void **state)
{
    static const struct reply lasting[] = {
        {.code = 400, .headers = "", .body = "{}"},
        {.code = 401, .headers = "", .body = ""},
        {.code = 404, .headers = "", .body = ""},
        {.code = 422, .headers = "", .body = ""},
        {.code = 302, .headers = "Location: /elsewhere\r\n", .body = ""},
        {.code = 429, .headers = "Retry-After: 3600\r\n", .body = ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof lasting / sizeof lasting[0]; i++) {
        struct trouble t = {1000, lasting[i]};
        struct sr1__http *h = client(&quick);
        struct sr1__http_response r;
        struct server s;

        server_start(&s, make_trouble, &t);
        get(h, &s, "/", 1, &r);
        assert_int_equal(r.status, SR1_E_NETWORK);
        assert_int_equal(r.code, lasting[i].code);
        assert_int_equal(atomic_load(&s.requests), 1);
        sr1__http_response_free(&r);
        sr1__http_free(h);
        server_stop(&s);
    }
}

static void retry_after_is_waited_for_by_all(void **state)
{
    struct trouble t = {1, {.code = 429, .headers = "Retry-After: 1\r\n", .body = ""}};
    struct sr1__http_options o = quick;
    struct sr1__http_response r[3];
    struct sr1__http *h;
    struct server s;
    double began;

    (void)state;
    o.concurrency = 1;
    h = client(&o);
    server_start(&s, make_trouble, &t);
    began = sr1__now();
    get(h, &s, "/", 3, r);
    assert_true(sr1__now() - began >= 0.99);
    assert_int_equal(atomic_load(&s.requests), 4); /* nobody else was sent in vain */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].status, SR1_OK);
        sr1__http_response_free(&r[i]);
    }
    sr1__http_free(h);
    server_stop(&s);
}

static void no_answer_in_time(void **state)
{
    struct sr1__http_options o = quick;
    struct sr1__http_response r;
    double delay = 30;
    struct sr1__http *h;
    struct server s;
    double began;

    (void)state;
    o.timeout_s = 0.5;
    o.retry.retries = 1;
    h = client(&o);
    server_start(&s, say_slowly, &delay);
    began = sr1__now();
    get(h, &s, "/", 1, &r);
    assert_int_equal(r.status, SR1_E_TIMEOUT);
    assert_true(sr1__now() - began < 2 * quick.timeout_s); /* its own limit counts */
    wait_for(&s.requests, 2);
    assert_int_equal(atomic_load(&s.requests), 2);
    sr1__http_response_free(&r);
    sr1__http_free(h);
    server_stop(&s);
}

static void drip(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    (void)request;
    r->body = "0123456789012345678901234567890123456789";
    r->drip_s = 0.05;
}

static void a_drip_does_not_outlast_the_deadline(void **state)
{
    struct sr1__http_options o = quick;
    struct sr1__http_response r;
    struct sr1__http *h;
    struct server s;

    (void)state;
    o.timeout_s = 0.3;
    o.retry.retries = 0;
    h = client(&o);
    server_start(&s, drip, NULL);
    get(h, &s, "/", 1, &r);
    assert_int_equal(r.status, SR1_E_TIMEOUT);
    sr1__http_response_free(&r);
    sr1__http_free(h);
    server_stop(&s);
}

static void flood(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    (void)request;
    r->huge = (size_t)64 << 20;
}

static void a_flood_is_cut_off(void **state)
{
    struct sr1__http *h = client(&quick);
    struct sr1__http_response r;
    struct server s;

    (void)state;
    server_start(&s, flood, NULL);
    get(h, &s, "/", 1, &r);
    assert_int_equal(r.status, SR1_E_LIMIT);
    assert_true(r.body.cap <= 2 * quick.max_body);
    assert_int_equal(atomic_load(&s.requests), 1);
    sr1__http_response_free(&r);
    sr1__http_free(h);
    server_stop(&s);
}

static void a_rate_limit_queues(void **state)
{
    struct sr1__http_options o = quick;
    struct sr1__http_response r[5];
    struct sr1__http *h;
    struct server s;
    double began;

    (void)state;
    o.rate = 20;
    h = client(&o);
    server_start(&s, say_hello, NULL);
    began = sr1__now();
    get(h, &s, "/", 5, r);
    assert_true(sr1__now() - began >= 4 / 20.0 - 0.01);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(r[i].status, SR1_OK);
        sr1__http_response_free(&r[i]);
    }
    assert_int_equal(counts(h).rate_waits, 4);
    sr1__http_free(h);
    server_stop(&s);
}

static void a_service_that_fails_is_left_alone(void **state)
{
    struct trouble t = {5, {.code = 500, .headers = "", .body = ""}};
    struct sr1__http_options o = quick;
    struct sr1__http_response r[N_MANY];
    struct sr1__http *h;
    struct server s;

    (void)state;
    o.concurrency = 1;
    o.retry.retries = 0;
    o.breaker_failures = 5;
    o.breaker_rest_s = 3;
    h = client(&o);
    server_start(&s, make_trouble, &t);
    get(h, &s, "/", 10, r);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(r[i].status, SR1_E_NETWORK);
        assert_non_null(strstr(r[i].message, i < 5 ? "HTTP 500" : "5 times in a row"));
        sr1__http_response_free(&r[i]);
    }
    assert_int_equal(atomic_load(&s.requests), 5);
    assert_int_equal(counts(h).refused, 5);
    usleep(3050000);
    get(h, &s, "/", 3, r); /* the first is the probe, the others wait for it */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].status, SR1_OK);
        sr1__http_response_free(&r[i]);
    }
    sr1__http_free(h);
    server_stop(&s);
}

static void nobody_there(void **state)
{
    struct sr1__http *h = client(&quick);
    struct sr1__http_request q = {0};
    struct sr1__http_response r;
    struct server s;
    char url[128];

    (void)state;
    server_start(&s, say_hello, NULL);
    server_stop(&s); /* a port that was free a moment ago */
    snprintf(url, sizeof url, "%s/", s.url);
    q.url = url;
    assert_int_equal(sr1__http_run(h, &q, 1, &r), SR1_OK);
    assert_int_equal(r.status, SR1_E_NETWORK);
    assert_int_equal(counts(h).attempts, 4);
    sr1__http_response_free(&r);
    sr1__http_free(h);
}

static void *run_slow(void *arg)
{
    void **a = arg;
    struct sr1__http_response *r = a[2];

    get(a[0], a[1], "/", 3, r);
    return NULL;
}

static void what_is_under_way_can_be_stopped(void **state)
{
    struct sr1__http_options o = quick;
    struct sr1__http_response r[3];
    double delay = 30;
    struct sr1__http *h;
    struct server s;
    pthread_t thread;
    void *args[3];

    (void)state;
    o.concurrency = 2; /* so that one is still queued */
    o.timeout_s = 60;
    h = client(&o);
    server_start(&s, say_slowly, &delay);
    args[0] = h;
    args[1] = &s;
    args[2] = r;
    pthread_create(&thread, NULL, run_slow, args);
    while (atomic_load(&s.requests) < 2)
        usleep(1000);
    sr1__http_cancel(h);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].status, SR1_E_CANCELLED);
        sr1__http_response_free(&r[i]);
    }
    sr1__http_free(h);
    server_stop(&s);
}

static void *run_some(void *arg)
{
    void **a = arg;

    for (int i = 0; i < 20; i++) {
        struct sr1__http_response r[3];

        get(a[0], a[1], "/", 3, r);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(r[k].status, SR1_OK);
            sr1__http_response_free(&r[k]);
        }
    }
    return NULL;
}

static void threads_share_a_client(void **state)
{
    struct sr1__http *h = client(&quick);
    struct server s;
    pthread_t threads[4];
    void *args[2] = {h, &s};

    (void)state;
    server_start(&s, say_hello, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_some, args);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.requests), 240);
    assert_true(atomic_load(&s.peak) <= 4);
    sr1__http_free(h);
    server_stop(&s);
}

static void proxies_of_the_environment_are_not_used(void **state)
{
    struct sr1__http *h;
    struct sr1__http_response r;
    struct server s;

    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    h = client(&quick);
    server_start(&s, say_hello, NULL);
    get(h, &s, "/", 1, &r);
    assert_int_equal(r.status, SR1_OK);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    sr1__http_response_free(&r);
    sr1__http_free(h);
    server_stop(&s);
}

static void urls_are_checked(void **state)
{
    static const char *const bad[] = {
        "",        "nonsense at all",  "ftp://a/b",         "file:///etc/passwd",
        "http://", "http://u:p@host/", "https://user@host/"};
    char origin[SR1__ORIGIN_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sr1__url_origin(bad[i], "test", origin), SR1_E_INVALID);
    assert_int_equal(sr1__url_origin("https://a.test:8000/x?key=1", "test", origin),
                     SR1_OK);
    assert_string_equal(origin, "https://a.test:8000");
    assert_int_equal(sr1__url_origin("http://[::1]/x", "test", origin), SR1_OK);
    assert_string_equal(origin, "http://[::1]");
}

static void text_is_escaped_for_urls(void **state)
{
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__url_escape(&b, "a b&c=d/\xC3\xA9~%");
    assert_string_equal(sr1__buf_cstr(&b), "a%20b%26c%3Dd%2F%C3%A9~%25");
    sr1__buf_free(&b);
}

static void options_out_of_range_are_refused(void **state)
{
    struct sr1__http *h = NULL;
    struct sr1__http_options o = quick;

    (void)state;
    o.concurrency = 0;
    assert_int_equal(sr1__http_new(&h, &o), SR1_E_INVALID);
    o = quick;
    o.timeout_s = 0;
    assert_int_equal(sr1__http_new(&h, &o), SR1_E_INVALID);
    o = quick;
    o.rate = -1;
    assert_int_equal(sr1__http_new(&h, &o), SR1_E_INVALID);
    assert_null(h);
}

/* A server with a certificate nobody has signed: refused, until its file is trusted. */
static void certificates_are_verified(void **state)
{
    struct sr1__http_options o = quick;
    struct sr1__http_request q = {0};
    struct sr1__http_response r;
    struct sr1__http *h;
    struct server port;
    char command[2048], url[64];
    FILE *p;
    int pid = 0;

    (void)state;
    if (system("openssl version >/dev/null 2>&1") != 0)
        skip();
    server_start(&port, say_hello, NULL);
    server_stop(&port);
    snprintf(command, sizeof command,
             "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem "
             "-out cert.pem -days 2 -subj /CN=localhost -addext "
             "subjectAltName=DNS:localhost >/dev/null 2>&1 && "
             "{ openssl s_server -accept %d -key key.pem -cert cert.pem -www "
             ">/dev/null 2>&1 </dev/null & echo $!; }",
             scratch_dir, port.port);
    p = popen(command, "r");
    assert_int_equal(fscanf(p, "%d", &pid), 1);
    pclose(p);
    snprintf(url, sizeof url, "https://localhost:%d/", port.port);
    q.url = url;
    o.retry.retries = 8; /* while it starts */
    o.retry.first_s = o.retry.max_s = 0.2;
    o.ca_file = scratch_path("cert.pem");
    h = client(&o);
    assert_int_equal(sr1__http_run(h, &q, 1, &r), SR1_OK);
    sr1__http_response_free(&r);
    sr1__http_free(h);
    if (r.status == SR1_OK) {
        o.ca_file = NULL;
        h = client(&o);
        assert_int_equal(sr1__http_run(h, &q, 1, &r), SR1_OK);
        sr1__http_response_free(&r);
        sr1__http_free(h);
        snprintf(command, sizeof command, "kill %d", pid);
        assert_int_equal(system(command), 0);
        assert_int_equal(r.status, SR1_E_NETWORK);
        assert_int_equal(r.again, 0);
        return;
    }
    snprintf(command, sizeof command, "kill %d", pid);
    (void)!system(command);
    fail_msg("with the certificate trusted: %s", r.message);
}

static void stopping_ends_nothing_that_comes_later(void **state)
{
    struct sr1__http *h = client(&quick);
    struct server s;

    (void)state;
    server_start(&s, say_hello, NULL);
    for (int i = 0; i < 50; i++) {
        struct sr1__http_response r;

        sr1__http_cancel(h);
        get(h, &s, "/", 1, &r);
        assert_int_equal(r.status, SR1_OK);
        sr1__http_response_free(&r);
    }
    sr1__http_free(h);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_whole),
        cmocka_unit_test(many_at_once_but_never_more_than_allowed),
        cmocka_unit_test(connections_are_used_again),
        cmocka_unit_test(trouble_that_passes_is_sat_out),
        cmocka_unit_test(trouble_that_stays_is_an_error),
        cmocka_unit_test(what_will_not_pass_is_not_tried_again),
        cmocka_unit_test(retry_after_is_waited_for_by_all),
        cmocka_unit_test(no_answer_in_time),
        cmocka_unit_test(a_drip_does_not_outlast_the_deadline),
        cmocka_unit_test(a_flood_is_cut_off),
        cmocka_unit_test(a_rate_limit_queues),
        cmocka_unit_test(a_service_that_fails_is_left_alone),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(what_is_under_way_can_be_stopped),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(proxies_of_the_environment_are_not_used),
        cmocka_unit_test(urls_are_checked),
        cmocka_unit_test(text_is_escaped_for_urls),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(stopping_ends_nothing_that_comes_later),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
