/* The server over real sockets: dialects on the wire, clients that are slow, rude or
 * gone, limits, tokens, batches, stopping. */
#include "../../support/torture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "retrieval/server/server_internal.h"
#include "echo.h"
#include "../../support/http.h"

#include <searchr1/ext/server.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct echo echo;

/* ---- what the server calls ---- */

static sr1_server *stopped; /* its stop is looked at */
static int flag_at_wake = -1;
static atomic_int more_ms; /* that a nap takes */

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (stopped != NULL && fd == stopped->wake)
        flag_at_wake = atomic_load(&stopped->stopping);
    return syscall(SYS_write, fd, bytes, n);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    struct timespec t = *time;

    t.tv_nsec += (long)atomic_load(&more_ms) * 1000000;
    return (int)syscall(SYS_nanosleep, &t, left);
}

/* ---- servers ---- */

static sr1_server *serve_with(sr1_server_options *o)
{
    sr1_search *engine = NULL;
    sr1_server *server = NULL;

    assert_int_equal(echo_open(&engine, &echo), SR1_OK);
    if (sr1_server_open(&server, engine, o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    sr1_search_free(engine); /* the server has its own reference */
    return server;
}

static sr1_server *serve(void)
{
    sr1_server_options o;

    sr1_server_options_init(&o);
    return serve_with(&o);
}

static void expect(struct http_answer a, int status, const char *body)
{
    if (a.status != status || (body != NULL && strcmp(a.body, body) != 0))
        fail_msg("got %d %s\n    want %d %s", a.status, a.body ? a.body : "(none)",
                 status, body ? body : "");
    free(a.body);
}

static sr1_server_stats stats_of(sr1_server *server)
{
    sr1_server_stats s = {.struct_size = sizeof s};

    assert_int_equal(sr1_server_stats_get(server, &s), SR1_OK);
    return s;
}

static void nap(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* A request's end is counted after its answer is out. */
static void settled(sr1_server *server, int64_t accepted)
{
    sr1_server_stats s = stats_of(server);

    for (int i = 0; i < 5000 && (s.in_flight > 0 || s.accepted < accepted); i++) {
        nap(1);
        s = stats_of(server);
    }
    assert_int_equal(s.accepted, accepted);
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.accepted, s.answered + s.dropped);
}

/* ---- the wire ---- */

#define PLAIN(q) "{\"id\":\"" q "\",\"contents\":\"plain\"}"
#define ROW(q)                                                                           \
    "{\"id\": \"row " q "\", \"contents\": \"T\\nrow " q "\", \"more\": [1.50, {}]}"

static void both_answers_are_search_r1s(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[\"row a\",\"b\",\"nothing\"]}"),
           200, "{\"result\":[[" ROW("a") "],[" PLAIN("b") "],[]]}");
    expect(http_ask(port, "/retrieve", "",
                    "{\"queries\":[\"row a\",\"\"],\"topk\":2,\"return_scores\":true}"),
           200, "{\"result\":[[{\"document\":" ROW("a") ",\"score\":1.5}],[]]}");
    expect(http_ask(port, "/retrieve", "", "{\"query\":\"one\",\"return_scores\":true}"),
           200, "{\"result\":[[{\"document\":" PLAIN("one") ",\"score\":1.5}]]}");
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[]}"), 200, "{\"result\":[]}");
    settled(server, 4);
    sr1_server_free(server);
}

/* What the clients of other trainers send, and the shape that they read. */
static void other_clients_are_answered_in_their_dialect(void **state)
{
    static const struct {
        const char *path;
        const char *body;
        const char *answer;
    } cases[] = {
        /* rLLM: one query, results flat, always with scores */
        {"/retrieve", "{\"query\":\"row a\",\"top_k\":10}",
         "{\"results\":[{\"document\":" ROW("a") ",\"score\":1.5}]}"},
        {"/retrieve", "{\"query\":\"nothing\",\"top_k\":10}", "{\"results\":[]}"},
        {"/retrieve", "{\"queries\":[\"b\",\"nothing\"],\"top_k\":2}",
         "{\"result\":[[{\"document\":" PLAIN("b") ",\"score\":1.5}],[]]}"},
        /* SkyRL */
        {"/retrieve", "{\"query\":\"b\",\"topk\":3,\"return_scores\":true}",
         "{\"result\":[[{\"document\":" PLAIN("b") ",\"score\":1.5}]]}"},
        {"/retrieve", "{\"query_list\":[\"b\"],\"topk\":3}",
         "{\"result\":[[" PLAIN("b") "]]}"},
        /* FlashRAG */
        {"/search", "{\"query\":\"row a\",\"top_n\":5,\"return_score\":false}",
         "[" ROW("a") "]"},
        {"/search", "{\"query\":\"row a\",\"top_n\":5,\"return_score\":true}",
         "[[" ROW("a") "],[1.5]]"},
        {"/batch_search", "{\"query\":[\"row a\",\"nothing\",\"b\"],\"top_n\":5}",
         "[[" ROW("a") "],[],[" PLAIN("b") "]]"},
        {"/batch_search",
         "{\"query\":[\"row a\",\"nothing\"],\"top_n\":5,\"return_score\":true}",
         "[[[" ROW("a") "],[]],[[1.5],[]]]"},
        {"/batch_search", "{\"query\":[],\"return_score\":true}", "[[],[]]"},
    };
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(http_ask(port, cases[i].path, "", cases[i].body), 200, cases[i].answer);
    expect(http_ask(port, "/search", "", "{\"queries\":[\"a\"]}"), 422, NULL);
    expect(http_ask(port, "/batch_search", "", "{\"query\":\"a\"}"), 422, NULL);
    /* the number of hits by each of its names, whose bounds are the same */
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"topk", "top_k", "top_n"};
        char body[64];

        snprintf(body, sizeof body, "{\"query\":\"b\",\"%s\":0}", names[i]);
        expect(http_ask(port, "/search", "", body), 200, "[" PLAIN("b") "]");
        snprintf(body, sizeof body, "{\"query\":\"b\",\"%s\":100000}", names[i]);
        expect(http_ask(port, "/search", "", body), 422, NULL);
        snprintf(body, sizeof body, "{\"query\":[\"b\"],\"%s\":100000}", names[i]);
        expect(http_ask(port, "/batch_search", "", body), 422, NULL);
    }
    sr1_server_free(server);
}

/* An engine that answers with the rows of an answer on file. */
struct recorded {
    json_t *result;
};

static sr1_status play(void *self, const char *const *queries, size_t n, int32_t top_k,
                       sr1_search_sink *sink)
{
    const struct recorded *r = self;

    (void)top_k;
    for (size_t i = 0; i < n; i++) {
        json_t *list = json_array_get(r->result, queries[i][0] == 'w' ? 0 : 1);

        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *hit = json_array_get(list, k);
            const json_t *document = json_object_get(hit, "document");
            char *row = json_dumps(document, JSON_COMPACT);
            sr1_status status = sr1_search_sink_hit(
                sink, i, json_string_value(json_object_get(document, "id")),
                json_string_value(json_object_get(document, "contents")),
                json_number_value(json_object_get(hit, "score")));

            if (status == SR1_OK)
                status = sr1_search_sink_row(sink, i, row);
            sr1__free(row);
            if (status != SR1_OK)
                return status;
        }
    }
    return SR1_OK;
}

static json_t *load_shape(const char *folder, const char *name)
{
    char path[512];
    json_t *shape = NULL;

    snprintf(path, sizeof path, "%s/%s/searchr1_%s.json", getenv("SR1_SRC"), folder,
             name);
    assert_int_equal(sr1__json_load(&shape, path, 1 << 20), SR1_OK);
    return shape;
}

static void expect_shape(int port, json_t *request, json_t *want)
{
    char *body = json_dumps(request, 0);
    struct http_answer a = http_ask(port, "/retrieve", "", body);
    json_t *got = NULL;

    assert_int_equal(a.status, 200);
    assert_int_equal(sr1__json_parse(&got, a.body, a.n, "answer"), SR1_OK);
    if (!json_equal(got, want))
        fail_msg("%s", a.body);
    json_decref(got);
    free(a.body);
    sr1__free(body);
}

static void answers_come_out_as_they_were(const char *folder)
{
    json_t *request = load_shape(folder, "retrieve_request");
    json_t *with = load_shape(folder, "retrieve_response_scores");
    json_t *without = load_shape(folder, "retrieve_response_noscores");
    struct recorded self;
    sr1_search_ops ops = {sizeof ops, "recorded", play, NULL, 0};
    sr1_search *engine = NULL;
    sr1_server *server = NULL;

    self.result = json_object_get(with, "result");
    assert_int_equal(sr1_search_new(&engine, &ops, &self), SR1_OK);
    assert_int_equal(sr1_server_open(&server, engine, NULL), SR1_OK);
    expect_shape(sr1_server_port(server), request, with);
    json_object_set_new(request, "return_scores", json_false());
    expect_shape(sr1_server_port(server), request, without);
    sr1_server_free(server);
    sr1_search_free(engine);
    json_decref(request);
    json_decref(with);
    json_decref(without);
}

static void recorded_answers_come_out_as_they_were(void **state)
{
    (void)state;
    answers_come_out_as_they_were("tests/fixtures/web_answers");
}

static void shared_answers_come_out_as_they_were(void **state)
{
    static const char folder[] = "../shared/data/web_search_shapes";
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s/%s", getenv("SR1_SRC"), folder);
    if (!sr1__path_is_dir(path))
        skip();
    answers_come_out_as_they_were(folder);
}

static void a_request_with_many_queries_is_answered_in_order(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    struct sr1__buf body, want;

    (void)state;
    sr1_server_options_init(&o);
    o.batch_queries = 7;
    o.threads = 3;
    server = serve_with(&o);
    sr1__buf_init(&body, 0);
    sr1__buf_init(&want, 0);
    for (int i = 0; i < 1000; i++) {
        sr1__buf_fmt(&body, "%s\"q%d\"", i > 0 ? "," : "{\"queries\":[", i);
        sr1__buf_fmt(&want, "%s[{\"id\":\"q%d\",\"contents\":\"plain\"}]",
                     i > 0 ? "," : "{\"result\":[", i);
    }
    sr1__buf_str(&body, "]}");
    sr1__buf_str(&want, "]}");
    expect(http_ask(sr1_server_port(server), "/retrieve", "", body.data), 200, want.data);
    assert_int_equal(stats_of(server).queries, 1000);
    assert_true(stats_of(server).batches >= 143);
    sr1__buf_free(&body);
    sr1__buf_free(&want);
    sr1_server_free(server);
}

static void a_large_request_lets_small_ones_through(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    struct sr1__buf body;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.batch_queries = 1;
    o.threads = 1;
    server = serve_with(&o);
    sr1__buf_init(&body, 0);
    for (int i = 0; i < 8000; i++)
        sr1__buf_fmt(&body, "%s\"q%d\"", i > 0 ? "," : "{\"queries\":[", i);
    sr1__buf_str(&body, "]}");
    atomic_store(&echo.delay_ms, 2);
    fd = http_connect(sr1_server_port(server));
    http_post(fd, "/retrieve", "", body.data);
    for (int i = 0; i < 20000 && stats_of(server).in_flight == 0; i++)
        nap(1);
    for (int i = 0; i < 3; i++)
        expect(http_ask(sr1_server_port(server), "/retrieve", "", "{\"query\":\"a\"}"),
               200, NULL);
    for (int i = 0; i < 10000 && stats_of(server).answered < 3; i++)
        nap(1);
    assert_int_equal(stats_of(server).answered, 3);
    assert_int_equal(stats_of(server).in_flight, 1); /* the large one */
    atomic_store(&echo.delay_ms, 0);
    expect(http_read(fd), 200, NULL);
    close(fd);
    sr1__buf_free(&body);
    sr1_server_free(server);
}

/* A text scores by its length. */
static sr1_status score_length(void *self, const char *query, const char *const *texts,
                               size_t n, double *scores)
{
    (void)self;
    if (strcmp(query, "fail") == 0)
        return sr1_set_error(SR1_E_IO, "no model");
    for (size_t i = 0; i < n; i++)
        scores[i] = strncmp(texts[i], "(Title: ", 8) == 0 ? (double)strlen(texts[i]) : -1;
    return SR1_OK;
}

static void a_reranker_of_the_options_scores(void **state)
{
    const sr1_reranker_ops ops = {
        .struct_size = sizeof(ops), .name = "length", .score = score_length};
    sr1_reranker *reranker = NULL;
    sr1_server_options o;
    sr1_server *server = NULL;
    sr1_search *engine = NULL;
    int port;

    (void)state;
    assert_int_equal(sr1_reranker_new(&reranker, &ops, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_mock(&engine, NULL, NULL, 0), SR1_OK);
    sr1_server_options_init(&o);
    o.reranker = reranker;
    assert_int_equal(sr1_server_open(&server, engine, &o), SR1_OK);
    sr1_reranker_free(reranker); /* retained */
    sr1_search_free(engine);
    port = sr1_server_port(server);
    expect(
        http_ask(port, "/rerank", "",
                 "{\"queries\":[\"tower\"],\"documents\":[[{\"contents\":\"A\\ntower\"},"
                 "{\"contents\":\"B\\nlonger one\"}]],\"return_scores\":true}"),
        200,
        "{\"result\":[[{\"document\":\"(Title: B) longer one\",\"score\":21.0},"
        "{\"document\":\"(Title: A) tower\",\"score\":16.0}]]}");
    expect(http_ask(port, "/rerank", "",
                    "{\"queries\":[\"fail\"],\"documents\":[[{\"contents\":\"A\"}]]}"),
           503, NULL);
    sr1_server_free(server);
}

static void rerank_and_health_answer(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    expect(http_ask(port, "/rerank", "",
                    "{\"queries\":[\"tower\"],\"documents\":[[{\"contents\":\"A\\nb\"},"
                    "{\"contents\":\"B\\ntower\"}]],\"rerank_topk\":1}"),
           200, "{\"result\":[[\"(Title: B) tower\"]]}");
    expect(http_ask(port, "/rerank", "", "{\"queries\":[],\"documents\":[]}"), 200,
           "{\"result\":[]}");
    expect(http_get(port, "/health", ""), 200,
           "{\"status\":\"ok\",\"version\":\"0.1.0\",\"engine\":\"echo\"}");
    sr1_server_free(server);
}

static void a_failing_engine_is_no_empty_result(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[\"a\",\"gone\"]}"), 503,
           "{\"detail\":\"it is away\"}");
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[\"late\"]}"), 504,
           "{\"detail\":\"the search took too long\"}");
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[\"boom\"]}"), 503,
           "{\"detail\":\"search engine 'echo' failed with SR1_E_IO (-3): the disk is on "
           "fire\"}");
    expect(
        http_ask(port, "/retrieve", "", "{\"queries\":[\"bytes\"]}"), 503,
        "{\"detail\":\"search engine 'echo' failed with SR1_E_IO (-3): odd \xef\xbf\xbd "
        "\\\"bytes\\\"\"}");
    settled(server, 4);
    assert_int_equal(stats_of(server).failed, 4);
    sr1_server_free(server);
}

static void rows_that_are_no_objects_are_not_sent(void **state)
{
    static const char *const rows[] = {"{", "[1]", "{}}", "", "{\\\"a\\\": nul}"};
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    expect(http_ask(port, "/retrieve", "", "{\"query\":\"raw  {\\\"a\\\": [1] } \"}"),
           200, "{\"result\":[[ {\"a\": [1] } ]]}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[128];
        struct http_answer a;

        snprintf(body, sizeof body, "{\"query\":\"raw %s\"}", rows[i]);
        a = http_ask(port, "/retrieve", "", body);
        assert_non_null(strstr(a.body, "is no JSON object"));
        expect(a, 503, NULL);
    }
    sr1_server_free(server);
}

static void a_request_fails_alone(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd[8];

    (void)state;
    sr1_server_options_init(&o);
    o.threads = 1;
    server = serve_with(&o);
    atomic_store(&echo.delay_ms, 100); /* the first call; the rest gather behind it */
    for (int i = 0; i < 8; i++) {
        fd[i] = http_connect(sr1_server_port(server));
        http_post(fd[i], "/retrieve", "",
                  i == 5 ? "{\"queries\":[\"boom\"]}" : "{\"queries\":[\"a\"]}");
        if (i == 0)
            nap(30);
    }
    for (int i = 0; i < 8; i++) {
        expect(http_read(fd[i]), i == 5 ? 503 : 200, NULL);
        close(fd[i]);
    }
    atomic_store(&echo.delay_ms, 0);
    assert_true(stats_of(server).batches < 1 + 1 + 7 + 1);
    sr1_server_free(server);
}

/* ---- HTTP ---- */

#define ASK_A "{\"queries\":[\"a\"]}"
#define ANSWER_A "{\"result\":[[" PLAIN("a") "]]}"

static void connections_are_kept_and_pipelines_drained(void **state)
{
    static const char three[] =
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n" ASK_A
        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n" ASK_A;
    sr1_server *server = serve();
    int fd = http_connect(sr1_server_port(server));

    (void)state;
    for (int i = 0; i < 3; i++) {
        http_post(fd, "/retrieve", "", ASK_A);
        expect(http_read(fd), 200, ANSWER_A);
    }
    http_say(fd, three);
    expect(http_read(fd), 200, ANSWER_A);
    expect(http_read(fd), 200, NULL);
    expect(http_read(fd), 200, ANSWER_A);
    settled(server, 6);
    assert_int_equal(stats_of(server).connections, 1);
    close(fd);
    sr1_server_free(server);
}

static void http_1_0_and_close_end_the_connection(void **state)
{
    sr1_server *server = serve();
    int fd = http_connect(sr1_server_port(server));

    (void)state;
    http_say(fd, "POST /retrieve HTTP/1.0\r\nContent-Length: 17\r\n\r\n" ASK_A);
    expect(http_read(fd), 200, ANSWER_A);
    assert_true(http_closed(fd, 2000));
    close(fd);
    fd = http_connect(sr1_server_port(server));
    http_post(fd, "/retrieve", "Connection: close\r\n", ASK_A);
    expect(http_read(fd), 200, ANSWER_A);
    assert_true(http_closed(fd, 2000));
    close(fd);
    sr1_server_free(server);
}

static void slow_and_chunked_bodies_are_read(void **state)
{
    static const char slow[] =
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n" ASK_A;
    sr1_server *server = serve();
    int fd = http_connect(sr1_server_port(server));

    (void)state;
    for (size_t i = 0; i < sizeof slow - 1; i++) {
        http_send(fd, slow + i, 1);
        nap(1);
    }
    expect(http_read(fd), 200, ANSWER_A);
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n5\r\n{\"que\r\n");
    nap(20);
    http_say(fd, "c\r\nries\":[\"a\"]}\r\n0\r\n\r\n");
    expect(http_read(fd), 200, ANSWER_A);
    close(fd);
    sr1_server_free(server);
}

static void content_types_do_not_matter(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);

    (void)state;
    expect(http_ask(port, "/retrieve", "Content-Type: text/plain\r\n", ASK_A), 200,
           ANSWER_A);
    expect(http_ask(port, "/retrieve",
                    "Content-Type: application/x-www-form-urlencoded\r\n", ASK_A),
           200, ANSWER_A);
    sr1_server_free(server);
}

static void wrong_paths_and_methods_are_named(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);
    struct http_answer a;

    (void)state;
    expect(http_ask(port, "/nowhere", "", ASK_A), 404, "{\"detail\":\"Not Found\"}");
    expect(http_ask(port, "/retrieve/x", "", ASK_A), 404, NULL);
    a = http_get(port, "/retrieve", "");
    assert_non_null(http_header(&a, "Allow"));
    assert_memory_equal(http_header(&a, "Allow"), "POST\r\n", 6);
    assert_memory_equal(http_header(&a, "Content-Type"), "application/json\r\n", 18);
    expect(a, 405, "{\"detail\":\"Method Not Allowed\"}");
    a = http_ask(port, "/health", "", ASK_A);
    assert_memory_equal(http_header(&a, "Allow"), "GET\r\n", 5);
    expect(a, 405, NULL);
    expect(http_ask(port, "/retrieve", "", "{"), 422, NULL);
    expect(http_ask(port, "/retrieve", "", ""), 422, NULL);
    settled(server, 6);
    assert_int_equal(stats_of(server).refused, 6);
    sr1_server_free(server);
}

static void large_bodies_are_refused(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    char body[3000];
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.max_body = 1000;
    server = serve_with(&o);
    memset(body, ' ', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    fd = http_connect(sr1_server_port(server));
    http_post(fd, "/retrieve", "", body);
    expect(http_read(fd), 413, "{\"detail\":\"the request is too large\"}");
    http_post(fd, "/retrieve", "", ASK_A); /* the connection is still good */
    expect(http_read(fd), 200, ANSWER_A);
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                 "chunked\r\n\r\nbb7\r\n");
    http_send(fd, body, 0xbb7);
    http_say(fd, "\r\n0\r\n\r\n");
    expect(http_read(fd), 413, NULL);
    close(fd);
    fd = http_connect(sr1_server_port(server)); /* asks before it sends */
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
                 "Expect: 100-continue\r\n\r\n");
    expect(http_read(fd), 413, NULL);
    close(fd);
    fd = http_connect(sr1_server_port(server)); /* without end: cut off */
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n");
    for (int i = 0; i < 1000 && http_say(fd, "bb7\r\n") == 0; i++) {
        http_send(fd, body, 0xbb7);
        http_say(fd, "\r\n");
    }
    assert_int_equal(http_read(fd).status, 0);
    close(fd);
    sr1_server_free(server);
}

/* Until so much of bodies is read. */
static void await_body_bytes(sr1_server *server, long long n)
{
    for (int i = 0; i < 60000 && atomic_load(&server->body_bytes) < n; i++)
        nap(1);
    assert_true(atomic_load(&server->body_bytes) == n);
}

static void bodies_under_way_have_a_bound_together(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    char body[1000];
    int fd[20];

    (void)state;
    sr1_server_options_init(&o);
    o.max_body = 1000;
    server = serve_with(&o);
    memset(body, ' ', sizeof body);
    memcpy(body, ASK_A, 17);
    for (int i = 0; i < 20; i++) {
        fd[i] = http_connect(sr1_server_port(server));
        http_say(fd[i],
                 "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
        http_send(fd[i], body, i < 16 ? 999 : 1000);
        if (i < 16)
            await_body_bytes(server, 999 * (i + 1));
    }
    for (int i = 19; i >= 0; i--) { /* those that do not fit are answered first */
        if (i < 16)
            http_send(fd[i], body + 999, 1);
        expect(http_read(fd[i]), i < 16 ? 200 : 503, NULL);
        close(fd[i]);
    }
    expect(http_ask(sr1_server_port(server), "/retrieve", "", ASK_A), 200, ANSWER_A);
    sr1_server_free(server);
}

static void a_body_has_to_arrive_in_time(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.body_seconds = 1;
    server = serve_with(&o);
    fd = http_connect(sr1_server_port(server));
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    for (int i = 0; i < 40 && http_say(fd, " ") == 0; i++)
        nap(50);
    assert_true(http_closed(fd, 2000));
    close(fd);
    settled(server, 1);
    assert_int_equal(stats_of(server).dropped, 1);
    sr1_server_free(server);
}

/* Nor do bytes that are no body, of a chunk's extension or of a trailer, win time. */
static void what_goes_round_a_body_has_to_arrive_in_time(void **state)
{
    static const char *const begun[] = {"11;x=", "11\r\n" ASK_A "\r\n0\r\nX: "};
    sr1_server_options o;
    sr1_server *server;

    (void)state;
    sr1_server_options_init(&o);
    o.body_seconds = 1;
    server = serve_with(&o);
    for (size_t i = 0; i < 2; i++) {
        int fd = http_connect(sr1_server_port(server));
        int closed = 0;

        http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                     "chunked\r\n\r\n");
        http_say(fd, begun[i]);
        for (int k = 0; k < 200 && !closed; k++)
            closed = http_say(fd, "x") != 0 || http_closed(fd, 100);
        assert_true(closed);
        close(fd);
    }
    settled(server, 2);
    assert_int_equal(stats_of(server).dropped, 2);
    sr1_server_free(server);
}

/* A search may take longer than a body. */
static void a_search_may_outlast_the_body(void **state)
{
    sr1_server_options o;
    sr1_server *server;

    (void)state;
    sr1_server_options_init(&o);
    o.body_seconds = 1;
    server = serve_with(&o);
    atomic_store(&echo.delay_ms, 2500);
    expect(http_ask(sr1_server_port(server), "/retrieve", "", ASK_A), 200, ANSWER_A);
    atomic_store(&echo.delay_ms, 0);
    sr1_server_free(server);
}

static sr1_status find_blocked_signals(void *self, const char *const *queries, size_t n,
                                       int32_t top_k, sr1_search_sink *sink)
{
    sigset_t blocked;

    (void)self;
    (void)queries;
    (void)n;
    (void)top_k;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return sr1_search_sink_hit(
        sink, 0, sigismember(&blocked, SIGTERM) ? "blocked" : "open", "", 1);
}

/* Signals are the program's: its own threads take them. */
static void workers_take_no_signals(void **state)
{
    const sr1_search_ops ops = {.struct_size = sizeof ops,
                                .name = "signals",
                                .search = find_blocked_signals,
                                .flags = SR1_SEARCH_CONCURRENT};
    sr1_search *engine = NULL;
    sr1_server *server = NULL;
    struct http_answer a;

    (void)state;
    assert_int_equal(sr1_search_new(&engine, &ops, NULL), SR1_OK);
    assert_int_equal(sr1_server_open(&server, engine, NULL), SR1_OK);
    sr1_search_free(engine);
    a = http_ask(sr1_server_port(server), "/retrieve", "", ASK_A);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"blocked\""));
    free(a.body);
    sr1_server_free(server);
}

static void long_answers_are_refused(void **state)
{
    sr1_server_options o;
    sr1_server *server;

    (void)state;
    sr1_server_options_init(&o);
    o.max_answer = 70; /* two hits, not three */
    o.batch_queries = 1;
    server = serve_with(&o);
    expect(
        http_ask(sr1_server_port(server), "/retrieve", "", "{\"queries\":[\"a\",\"b\"]}"),
        200, NULL);
    expect(http_ask(sr1_server_port(server), "/retrieve", "",
                    "{\"queries\":[\"a\",\"b\",\"c\"]}"),
           422,
           "{\"detail\":\"the answer is longer than 70 bytes: ask for less at a time\"}");
    sr1_server_free(server);
}

static void junk_is_answered_or_closed(void **state)
{
    static const char *const junk[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02",
        "POST /retrieve HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /retrieve HTTP/9.9\r\n\r\n",
        "\xff\xff\xff"};
    sr1_server *server = serve();

    (void)state;
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        int fd = http_connect(sr1_server_port(server));

        http_say(fd, junk[i]);
        nap(5);
        close(fd);
    }
    expect(http_ask(sr1_server_port(server), "/retrieve", "", ASK_A), 200, ANSWER_A);
    sr1_server_free(server);
}

static void clients_that_go_are_counted(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);
    int fd;

    (void)state;
    atomic_store(&echo.delay_ms, 50);
    fd = http_connect(port); /* while its search runs */
    http_post(fd, "/retrieve", "", ASK_A);
    nap(20);
    close(fd);
    fd = http_connect(port); /* in the middle of its body */
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{\"qu");
    nap(20);
    close(fd);
    fd = http_connect(port); /* within its headers: never a request */
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHo");
    nap(20);
    close(fd);
    fd = http_connect(port); /* the end comes together with the headers */
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n");
    close(fd);
    settled(server, 3);
    assert_true(stats_of(server).dropped >= 2);
    for (int i = 0; i < 5000 && stats_of(server).connections > 0; i++)
        nap(1);
    assert_int_equal(stats_of(server).connections, 0);
    atomic_store(&echo.delay_ms, 0);
    expect(http_ask(port, "/retrieve", "", ASK_A), 200, ANSWER_A);
    sr1_server_free(server);
}

static void silent_connections_are_closed(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.idle_seconds = 1;
    server = serve_with(&o);
    fd = http_connect(sr1_server_port(server));
    http_say(fd, "POST /retrieve HTTP/1.1\r\n");
    assert_false(http_closed(fd, 300));
    assert_true(http_closed(fd, 5000));
    close(fd);
    sr1_server_free(server);
}

/* A byte now and then keeps no connection: its header has to come to an end. */
static void a_trickled_header_ends_the_connection(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd, closed = 0;

    (void)state;
    sr1_server_options_init(&o);
    o.idle_seconds = 1;
    server = serve_with(&o);
    fd = http_connect(sr1_server_port(server));
    http_post(fd, "/retrieve", "", ASK_A); /* one that is kept open, too */
    expect(http_read(fd), 200, ANSWER_A);
    http_say(fd, "POST /retrieve HTTP/1.1\r\nX: ");
    for (int i = 0; i < 200 && !closed; i++)
        closed = http_say(fd, "x") != 0 || http_closed(fd, 100);
    assert_true(closed);
    close(fd);
    expect(http_ask(sr1_server_port(server), "/retrieve", "", ASK_A), 200, ANSWER_A);
    sr1_server_free(server);
}

/* Nor does an answer that is not taken. */
static void an_answer_left_lying_ends_the_connection(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    struct sr1__buf body;
    int64_t dropped = 0;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.idle_seconds = 60;
    o.body_seconds = 1; /* and 16 s a MiB */
    o.max_body = 64 << 10;
    server = serve_with(&o);
    sr1__buf_init(&body, 0);
    sr1__buf_str(&body, "{\"queries\":[\"");
    for (int i = 0; i < 60 << 10; i++)
        sr1__buf_char(&body, 'x');
    sr1__buf_str(&body, "\"]}");
    fd = http_connect(sr1_server_port(server));
    for (int i = 0; i < 400; i++) /* until neither side has room; then nothing is read */
        if (http_post(fd, "/retrieve", "", body.data) != 0)
            break;
    for (int i = 0; i < 2000 && dropped == 0; i++) {
        nap(10);
        dropped = stats_of(server).dropped;
    }
    assert_true(dropped > 0);
    close(fd);
    sr1__buf_free(&body);
    sr1_server_free(server);
}

static void a_body_with_two_ends_is_refused(void **state)
{
    static const char *const requests[] = {
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\nContent-Length: "
        "4\r\n\r\n" ASK_A,
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\ncontent-length: "
        "17\r\n\r\n" ASK_A,
        "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: "
        "chunked\r\n\r\n11\r\n" ASK_A "\r\n0\r\n\r\n"};
    sr1_server *server = serve();

    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = http_connect(sr1_server_port(server));
        struct http_answer a;

        http_say(fd, requests[i]);
        http_say(fd, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        a = http_read(fd);
        assert_int_equal(a.status, 400);
        assert_non_null(http_header(&a, "Connection"));
        assert_non_null(strstr(a.body, "two lengths"));
        free(a.body);
        a = http_read(fd); /* what followed was no request */
        assert_int_equal(a.status, 0);
        free(a.body);
        close(fd);
    }
    sr1_server_free(server);
}

#define LARGE ((size_t)8 << 20)

static int connect_narrow(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int room = 4096;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Clients that do not read hold answers in memory: five of 8 MiB are more than four of
 * the largest one. */
static void answers_are_bounded_together(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    struct sr1__buf body;
    int fd[5];
    int64_t failed = 0;

    (void)state;
    sr1_server_options_init(&o);
    o.max_answer = LARGE + LARGE / 8;
    server = serve_with(&o);
    sr1__buf_init(&body, 0);
    sr1__buf_str(&body, "{\"query\":\"");
    for (size_t i = 0; i < LARGE; i++)
        sr1__buf_char(&body, 'x');
    sr1__buf_str(&body, "\"}");
    for (int i = 0; i < 5; i++) {
        fd[i] = connect_narrow(sr1_server_port(server));
        assert_int_equal(http_post(fd[i], "/retrieve", "", body.data), 0);
    }
    for (int i = 0; i < 20000 && failed == 0; i++) {
        nap(1);
        failed = stats_of(server).failed;
    }
    assert_int_equal(failed, 1);
    for (int i = 0; i < 5; i++)
        close(fd[i]);
    for (int i = 0; i < 20000 && stats_of(server).in_flight > 0; i++)
        nap(1);
    expect(http_ask(sr1_server_port(server), "/retrieve", "", body.data), 200, NULL);
    sr1__buf_free(&body);
    sr1_server_free(server);
}

static void more_connections_than_allowed_wait(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd[3];

    (void)state;
    sr1_server_options_init(&o);
    o.max_connections = 2;
    o.threads = 2;
    server = serve_with(&o);
    for (int i = 0; i < 2; i++) {
        fd[i] = http_connect(sr1_server_port(server));
        http_post(fd[i], "/retrieve", "", ASK_A);
        expect(http_read(fd[i]), 200, ANSWER_A);
    }
    fd[2] = http_connect(sr1_server_port(server));
    http_post(fd[2], "/retrieve", "", ASK_A);
    assert_false(http_closed(fd[2], 200));
    assert_int_equal(stats_of(server).accepted, 2);
    close(fd[0]);
    close(fd[1]);
    expect(http_read(fd[2]), 200, ANSWER_A);
    close(fd[2]);
    sr1_server_free(server);
}

/* ---- tokens ---- */

static void a_token_is_asked_for(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int port;
    struct http_answer a;

    (void)state;
    setenv("SR1_TEST_TOKEN", "sesame", 1);
    sr1_server_options_init(&o);
    o.token_env = "SR1_TEST_TOKEN";
    o.address = "0.0.0.0";
    server = serve_with(&o);
    port = sr1_server_port(server);
    a = http_ask(port, "/retrieve", "", ASK_A);
    assert_memory_equal(http_header(&a, "WWW-Authenticate"), "Bearer\r\n", 8);
    expect(a, 401, NULL);
    expect(http_ask(port, "/retrieve", "Authorization: Bearer sesam\r\n", ASK_A), 401,
           NULL);
    expect(http_ask(port, "/retrieve", "Authorization: Bearer sesame!\r\n", ASK_A), 401,
           NULL);
    expect(http_ask(port, "/retrieve", "Authorization: Basic sesame\r\n", ASK_A), 401,
           NULL);
    expect(http_ask(port, "/retrieve", "Authorization: bearer sesame\r\n", ASK_A), 200,
           ANSWER_A);
    expect(http_get(port, "/metrics", ""), 401, NULL);
    expect(http_get(port, "/health", ""), 200, NULL);
    sr1_server_free(server);
}

static void refused(const sr1_server_options *o, sr1_status want, const char *text)
{
    sr1_search *engine = NULL;
    sr1_server *server = NULL;

    assert_int_equal(echo_open(&engine, &echo), SR1_OK);
    assert_int_equal(sr1_server_open(&server, engine, o), want);
    assert_null(server);
    if (strstr(sr1_last_error(), text) == NULL)
        fail_msg("'%s' is not in: %s", text, sr1_last_error());
    sr1_search_free(engine);
}

static void an_open_door_needs_a_token(void **state)
{
    static const char *const open[] = {"0.0.0.0", "::", "::ffff:0.0.0.0"};
    sr1_server_options o;

    (void)state;
    unsetenv("SR1_TEST_NONE");
    setenv("SR1_TEST_ODD", "a b", 1);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        sr1_server_options_init(&o);
        o.address = open[i];
        refused(&o, SR1_E_INVALID, "token");
    }
    sr1_server_options_init(&o);
    o.token_env = "SR1_TEST_NONE";
    refused(&o, SR1_E_INVALID, "'SR1_TEST_NONE' is not set");
    o.token_env = "SR1_TEST_ODD";
    refused(&o, SR1_E_INVALID, "visible ASCII");
    sr1_server_options_init(&o);
    o.address = "no such host.invalid";
    refused(&o, SR1_E_INVALID, "no such host");
}

static void options_are_checked(void **state)
{
    sr1_server_options o;
    sr1_server *server = serve();

    (void)state;
    sr1_server_options_init(&o);
    o.port = sr1_server_port(server);
    refused(&o, SR1_E_IO, "in use");
    sr1_server_free(server);
#define CASE(field, value)                                                               \
    sr1_server_options_init(&o);                                                         \
    o.field = value;                                                                     \
    refused(&o, SR1_E_INVALID, #field)
    CASE(port, -1);
    CASE(port, 65536);
    CASE(top_k, 0);
    CASE(top_k, 101);
    CASE(max_top_k, 10001);
    CASE(max_queries, 0);
    CASE(threads, -1);
    CASE(max_connections, 0);
    CASE(idle_seconds, 0);
    CASE(body_seconds, 0);
    CASE(stop_seconds, -1);
    CASE(batch_queries, 0);
    CASE(batch_wait_us, -1);
    CASE(max_body, 1);
    CASE(max_answer, 0);
    o.struct_size = 0;
    refused(&o, SR1_E_INVALID, "struct_size");
    assert_int_equal(sr1_server_open(&server, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_server_run(NULL), SR1_E_INVALID);
    sr1_server_stop(NULL);
    sr1_server_free(NULL);
}

/* ---- many at a time ---- */

struct client {
    pthread_t thread;
    int port;
    int number;
    int requests;
    int good;
};

static void *ask_often(void *arg)
{
    struct client *c = arg;
    int fd = http_connect(c->port);

    for (int i = 0; i < c->requests; i++) {
        char body[64], want[128];
        struct http_answer a;

        snprintf(body, sizeof body, "{\"queries\":[\"c%d-%d\"],\"topk\":%d}", c->number,
                 i, 1 + i % 3);
        snprintf(want, sizeof want,
                 "{\"result\":[[{\"id\":\"c%d-%d\",\"contents\":\"plain\"}]]}", c->number,
                 i);
        http_post(fd, "/retrieve", "", body);
        a = http_read(fd);
        c->good += a.status == 200 && strcmp(a.body, want) == 0;
        free(a.body);
    }
    close(fd);
    return NULL;
}

#define CLIENTS 16

static void everybody_gets_his_own_answer(void **state)
{
    static const int32_t waits[] = {0, 500};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct client c[CLIENTS];
        sr1_server_options o;
        sr1_server *server;

        sr1_server_options_init(&o);
        o.batch_wait_us = waits[k];
        server = serve_with(&o);
        atomic_store(&echo.delay_ms, 1);
        for (int i = 0; i < CLIENTS; i++) {
            c[i] = (struct client){
                .port = sr1_server_port(server), .number = i, .requests = 40};
            assert_int_equal(pthread_create(&c[i].thread, NULL, ask_often, &c[i]), 0);
        }
        for (int i = 0; i < CLIENTS; i++) {
            pthread_join(c[i].thread, NULL);
            assert_int_equal(c[i].good, 40);
        }
        settled(server, CLIENTS * 40);
        assert_int_equal(stats_of(server).queries, CLIENTS * 40);
        assert_true(stats_of(server).batches < CLIENTS * 40);
        atomic_store(&echo.delay_ms, 0);
        sr1_server_free(server);
    }
}

static void metrics_add_up(void **state)
{
    static const char *const lines[] = {
        "sr1_server_requests_total{path=\"/retrieve\",status=\"200\"} 2\n",
        "sr1_server_requests_total{path=\"/retrieve\",status=\"422\"} 1\n",
        "sr1_server_requests_total{path=\"other\",status=\"404\"} 1\n",
        "sr1_server_request_seconds_bucket{path=\"/retrieve\",le=\"+Inf\"} 3\n",
        "sr1_server_request_seconds_count{path=\"/retrieve\"} 3\n",
        "sr1_server_in_flight 1\n", /* this one */
        "sr1_server_batch_queries_bucket{le=\"2\"} 2\n",
        "sr1_server_batch_queries_sum{} 3\n",
        "sr1_server_batch_queries_count{} 2\n",
        "sr1_server_request_seconds_bucket{path=\"/retrieve\",le=\"0.00025\"} ",
        "sr1_search_queries_total 3\n",
        "# TYPE sr1_server_request_seconds histogram\n"};
    sr1_server *server = serve();
    int port = sr1_server_port(server);
    struct http_answer a;

    (void)state;
    expect(http_ask(port, "/retrieve", "", ASK_A), 200, NULL);
    expect(http_ask(port, "/retrieve", "", "{\"queries\":[\"a\",\"b\"]}"), 200, NULL);
    expect(http_ask(port, "/retrieve", "", "{}"), 422, NULL);
    expect(http_ask(port, "/x", "", ""), 404, NULL);
    settled(server, 4);
    a = http_get(port, "/metrics", "");
    assert_int_equal(a.status, 200);
    assert_memory_equal(http_header(&a, "Content-Type"), "text/plain; version=0.0.4", 25);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strstr(a.body, lines[i]) == NULL)
            fail_msg("no line %s in\n%s", lines[i], a.body);
    }
    free(a.body);
    sr1_server_free(server);
}

/* A status that the table does not have is no time-out. */
static void any_other_status_is_counted_as_such(void **state)
{
    struct sr1__server_metrics *m = sr1__calloc(1, sizeof(*m));
    struct sr1__buf text;

    (void)state;
    sr1__buf_init(&text, 0);
    sr1__server_metrics_request(m, SR1__PATH_SEARCH, 418, 0.1, 1);
    sr1__server_metrics_request(m, SR1__PATH_SEARCH, 504, 0.1, 1);
    sr1__server_metrics_text(m, NULL, &text);
    assert_non_null(strstr(text.data, "{path=\"/search\",status=\"other\"} 1\n"));
    assert_non_null(strstr(text.data, "{path=\"/search\",status=\"504\"} 1\n"));
    sr1__buf_free(&text);
    sr1__free(m);
}

/* ---- stopping ---- */

static sr1_server *signalled;

static void on_signal(int number)
{
    (void)number;
    sr1_server_stop(signalled);
}

static void *run_server(void *arg)
{
    return (void *)(intptr_t)sr1_server_run(arg);
}

static void what_was_accepted_is_finished(void **state)
{
    sr1_server_options o;
    pthread_t runner;
    void *result;
    int fd[20];
    int port;

    (void)state;
    sr1_server_options_init(&o);
    o.batch_queries = 2;
    signalled = serve_with(&o);
    port = sr1_server_port(signalled);
    assert_int_equal(pthread_create(&runner, NULL, run_server, signalled), 0);
    atomic_store(&echo.delay_ms, 20);
    for (int i = 0; i < 20; i++) {
        fd[i] = http_connect(port);
        http_post(fd[i], "/retrieve", "", ASK_A);
    }
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    for (int i = 0; i < 20; i++) {
        expect(http_read(fd[i]), 200, ANSWER_A);
        assert_true(http_closed(fd[i], 5000));
        close(fd[i]);
    }
    pthread_join(runner, &result);
    assert_int_equal((intptr_t)result, SR1_OK);
    atomic_store(&echo.delay_ms, 0);
    assert_int_equal(http_connect(port), -1);
    assert_int_equal(stats_of(signalled).answered, 20);
    assert_int_equal(sr1_server_run(signalled), SR1_OK);
    sr1_server_free(signalled);
}

/* Once the flag is there, another thread may free the server. */
static void a_stop_ends_with_its_flag(void **state)
{
    sr1_server *server = serve();

    (void)state;
    stopped = server;
    sr1_server_stop(server);
    stopped = NULL;
    assert_int_equal(flag_at_wake, 0);
    assert_int_equal(atomic_load(&server->stopping), 1);
    assert_int_equal(sr1_server_run(server), SR1_OK);
    sr1_server_free(server);
}

/* By the clock, however long naps of a millisecond take. */
static void stop_seconds_are_seconds(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    double began;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.stop_seconds = 1;
    server = serve_with(&o);
    fd = http_connect(sr1_server_port(server));
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{");
    for (int i = 0; i < 20000 && stats_of(server).in_flight == 0; i++)
        nap(1);
    sr1_server_stop(server);
    began = sr1__now();
    more_ms = 30;
    assert_int_equal(sr1_server_run(server), SR1_E_TIMEOUT);
    more_ms = 0;
    assert_in_range((int)(sr1__now() - began), 1, 15);
    close(fd);
    sr1_server_free(server);
}

static void a_client_that_never_ends_is_cut_off(void **state)
{
    sr1_server_options o;
    sr1_server *server;
    int fd;

    (void)state;
    sr1_server_options_init(&o);
    o.stop_seconds = 0;
    server = serve_with(&o);
    fd = http_connect(sr1_server_port(server));
    http_say(fd, "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{");
    for (int i = 0; i < 2000 && stats_of(server).in_flight == 0; i++)
        nap(1);
    sr1_server_stop(server);
    assert_int_equal(sr1_server_run(server), SR1_E_TIMEOUT);
    assert_true(http_closed(fd, 2000));
    close(fd);
    sr1_server_free(server);
}

static int open_files(void)
{
    char **names = NULL;
    size_t n = 0;

    assert_int_equal(sr1__dir_list("/proc/self/fd", &names, &n), SR1_OK);
    sr1__dir_list_free(names, n);
    return (int)n;
}

/* With k more files allowed, for each k until it works: no file stays open. */
static void files_may_run_out(void **state)
{
    struct rlimit before, few;
    sr1_search *engine = NULL;
    sr1_status status = SR1_E_IO;
    int files = open_files() - 1; /* one of them was the folder's */

    (void)state;
    assert_int_equal(echo_open(&engine, &echo), SR1_OK);
    getrlimit(RLIMIT_NOFILE, &before);
    for (int k = 0; k < 40 && status != SR1_OK; k++) {
        sr1_server *server = NULL;

        few = before;
        few.rlim_cur = (rlim_t)(files + k);
        setrlimit(RLIMIT_NOFILE, &few);
        status = sr1_server_open(&server, engine, NULL);
        setrlimit(RLIMIT_NOFILE, &before);
        sr1_server_free(server);
        assert_int_equal(open_files() - 1, files);
    }
    assert_int_equal(status, SR1_OK);
    sr1_search_free(engine);
}

static void version_6_addresses_are_served(void **state)
{
    sr1_server_options o;
    sr1_search *engine = NULL;
    sr1_server *server = NULL;
    sr1_status status;

    (void)state;
    sr1_server_options_init(&o);
    o.address = "::1";
    assert_int_equal(echo_open(&engine, &echo), SR1_OK);
    status = sr1_server_open(&server, engine, &o);
    sr1_search_free(engine);
    if (status == SR1_E_IO || status == SR1_E_INVALID)
        skip();
    assert_memory_equal(sr1_server_url(server), "http://[::1]:", 13);
    sr1_server_free(server);
}

static sr1_status open_and_free(void *arg)
{
    sr1_server_options o;
    sr1_server *server = NULL;
    sr1_status status;

    sr1_server_options_init(&o);
    o.token_env = "SR1_TEST_TOKEN";
    o.threads = 2;
    o.stop_seconds = 0;
    status = sr1_server_open(&server, arg, &o);
    sr1_server_free(server);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    sr1_search *engine = NULL;

    (void)state;
    setenv("SR1_TEST_TOKEN", "sesame", 1);
    assert_int_equal(echo_open(&engine, &echo), SR1_OK);
    assert_true(torture(open_and_free, engine) >= 5);
    sr1_search_free(engine);
}

/* With every allocation of a request failing in turn there is an answer or a closed
 * connection, and then the server goes on. */
static void requests_may_run_out_of_memory(void **state)
{
    sr1_server *server = serve();
    int port = sr1_server_port(server);
    int answered = 0;
    int64_t n = 0;

    (void)state;
    do {
        struct http_answer a;

        sr1__mem_fail_at(++n);
        a = http_ask(port, "/retrieve", "", "{\"queries\":[\"a\",\"row b\"]}");
        assert_true(a.status == 0 || a.status == 503 || a.status == 200);
        answered = a.status == 200;
        free(a.body);
        nap(2);
    } while (sr1__mem_count() >= n && n < 1000);
    sr1__mem_fail_at(0);
    assert_true(answered && n > 10);
    expect(http_ask(port, "/retrieve", "", ASK_A), 200, ANSWER_A);
    sr1_server_free(server);
}

static void nothing_leaks(void **state)
{
    (void)state;
    assert_int_equal(sr1__mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_answers_are_search_r1s),
        cmocka_unit_test(other_clients_are_answered_in_their_dialect),
        cmocka_unit_test(recorded_answers_come_out_as_they_were),
        cmocka_unit_test(shared_answers_come_out_as_they_were),
        cmocka_unit_test(a_request_with_many_queries_is_answered_in_order),
        cmocka_unit_test(a_large_request_lets_small_ones_through),
        cmocka_unit_test(a_reranker_of_the_options_scores),
        cmocka_unit_test(rerank_and_health_answer),
        cmocka_unit_test(a_failing_engine_is_no_empty_result),
        cmocka_unit_test(rows_that_are_no_objects_are_not_sent),
        cmocka_unit_test(a_request_fails_alone),
        cmocka_unit_test(connections_are_kept_and_pipelines_drained),
        cmocka_unit_test(http_1_0_and_close_end_the_connection),
        cmocka_unit_test(slow_and_chunked_bodies_are_read),
        cmocka_unit_test(content_types_do_not_matter),
        cmocka_unit_test(wrong_paths_and_methods_are_named),
        cmocka_unit_test(large_bodies_are_refused),
        cmocka_unit_test(bodies_under_way_have_a_bound_together),
        cmocka_unit_test(a_body_has_to_arrive_in_time),
        cmocka_unit_test(what_goes_round_a_body_has_to_arrive_in_time),
        cmocka_unit_test(a_search_may_outlast_the_body),
        cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(long_answers_are_refused),
        cmocka_unit_test(junk_is_answered_or_closed),
        cmocka_unit_test(clients_that_go_are_counted),
        cmocka_unit_test(silent_connections_are_closed),
        cmocka_unit_test(a_trickled_header_ends_the_connection),
        cmocka_unit_test(an_answer_left_lying_ends_the_connection),
        cmocka_unit_test(a_body_with_two_ends_is_refused),
        cmocka_unit_test(answers_are_bounded_together),
        cmocka_unit_test(more_connections_than_allowed_wait),
        cmocka_unit_test(a_token_is_asked_for),
        cmocka_unit_test(an_open_door_needs_a_token),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(everybody_gets_his_own_answer),
        cmocka_unit_test(metrics_add_up),
        cmocka_unit_test(any_other_status_is_counted_as_such),
        cmocka_unit_test(what_was_accepted_is_finished),
        cmocka_unit_test(a_stop_ends_with_its_flag),
        cmocka_unit_test(stop_seconds_are_seconds),
        cmocka_unit_test(a_client_that_never_ends_is_cut_off),
        cmocka_unit_test(files_may_run_out),
        cmocka_unit_test(version_6_addresses_are_served),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(requests_may_run_out_of_memory),
        cmocka_unit_test(nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
