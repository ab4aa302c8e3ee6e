/* Bodies of /retrieve and /rerank: every dialect, every refusal, and the writer. */
#include "../../support/torture.h"

#include "base/json.h"
#include "base/num.h"
#include "retrieval/server/rerank_request.h"
#include "retrieval/server/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sr1__wire_limits limits = {3, 100, 4};

/* A body on the heap with its NUL, so that a step past it is seen. */
static char *body_of(const char *text, size_t n)
{
    char *body = sr1__malloc(n + 1);

    assert_non_null(body);
    memcpy(body, text, n);
    body[n] = '\0';
    return body;
}

static void expect_json(const struct sr1__buf *b, const char *want)
{
    json_t *got = NULL;
    json_t *wanted = NULL;

    if (sr1__json_parse(&got, sr1__buf_cstr(b), b->len, "answer") != SR1_OK)
        fail_msg("%s: %s", sr1_last_error(), sr1__buf_cstr(b));
    assert_int_equal(sr1__json_parse(&wanted, want, strlen(want), "test"), SR1_OK);
    if (!json_equal(got, wanted))
        fail_msg("got  %s\n    want %s", sr1__buf_cstr(b), want);
    json_decref(got);
    json_decref(wanted);
}

/* ---- requests ---- */

static const struct {
    const char *body;
    const char *queries; /* joined by | */
    size_t n;
    int32_t top_k;
    int32_t scores;
} accepted[] = {
    {"{\"queries\":[\"a\",\"b c\"],\"topk\":5,\"return_scores\":true}", "a|b c", 2, 5, 1},
    {"{\"queries\":[\"a\"]}", "a", 1, 3, 0},
    {"{\"queries\":[\"a\"],\"topk\":null,\"return_scores\":false}", "a", 1, 3, 0},
    {"{\"queries\":[\"a\"],\"topk\":0}", "a", 1, 3, 0},
    {"{\"queries\":[\"a\"],\"topk\":\"7\",\"return_scores\":\"yes\"}", "a", 1, 7, 1},
    {"{\"queries\":[\"a\"],\"topk\":2.0,\"return_scores\":1}", "a", 1, 2, 1},
    {"{\"queries\":[]}", "", 0, 3, 0},
    {"{\"query\":\"one\",\"topk\":4,\"return_scores\":true}", "one", 1, 4, 1},
    {"{\"query\":\"one\",\"queries\":null}", "one", 1, 3, 0},
    {"{\"query\":\"one\",\"queries\":[\"two\"]}", "two", 1, 3, 0},
    {"\xef\xbb\xbf{\"queries\":[\"a\"]}", "a", 1, 3, 0},
    {" {\"x\":{\"queries\":[1]},\"queries\" : [ \"a\" ] ,\"y\":[[],{},\"]\",-1.5e+3]} ",
     "a", 1, 3, 0},
    {"{\"queries\":[\"a\"],\"queries\":[\"b\"]}", "b", 1, 3, 0},
    {"{\"\\u0071ueries\":[\"a\"]}", "a", 1, 3, 0},
    {"{\"queries\":[\"a\"],\"return_scores\":\"TRUE\"}", "a", 1, 3, 1},
    {"{\"queries\":[\"a\"],\"return_scores\":\"Yes\"}", "a", 1, 3, 1},
    {"{\"queries\":[\"a\"],\"return_scores\":\"On\"}", "a", 1, 3, 1},
    {"{\"queries\":[\"a\"],\"return_scores\":\"FALSE\"}", "a", 1, 3, 0},
    {"{\"queries\":[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u706f\"]}",
     "\"\\/\b\f\n\r\t\xc3\xa9\xe7\x81\xaf", 1, 3, 0},
    {"{\"queries\":[\"\\ud83d\\uddfc \\ud83d \\uddfc\\ud83dx\\u0000\"]}",
     "\xf0\x9f\x97\xbc \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbdx\xef\xbf\xbd", 1, 3, 0},
};

static void every_dialect_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        size_t n = strlen(accepted[i].body);
        char *body = body_of(accepted[i].body, n);
        char joined[256] = "";
        struct sr1__retrieve_request r;
        struct sr1__buf error;

        sr1__buf_init(&error, 0);
        if (sr1__wire_retrieve(&r, "/retrieve", body, n, &limits, &error) != 200)
            fail_msg("%s: %s", accepted[i].body, sr1__buf_cstr(&error));
        for (size_t k = 0; k < r.n; k++) {
            strcat(joined, k > 0 ? "|" : "");
            strcat(joined, r.queries[k]);
        }
        assert_int_equal(r.n, accepted[i].n);
        assert_string_equal(joined, accepted[i].queries);
        assert_int_equal(r.top_k, accepted[i].top_k);
        assert_int_equal(r.scores, accepted[i].scores);
        sr1__retrieve_request_free(&r);
        sr1__buf_free(&error);
        sr1__free(body);
    }
}

#define DETAIL(type, loc, msg, input)                                                    \
    "{\"detail\":[{\"type\":\"" type "\",\"loc\":[\"body\"" loc "],\"msg\":\"" msg       \
    "\",\"input\":" input "}]}"
#define DETAIL_CTX(type, loc, msg, input, ctx)                                           \
    "{\"detail\":[{\"type\":\"" type "\",\"loc\":[\"body\"" loc "],\"msg\":\"" msg       \
    "\",\"input\":" input ",\"ctx\":" ctx "}]}"
#define NOT_JSON(at, error)                                                              \
    DETAIL_CTX("json_invalid", "," #at, "JSON decode error", "{}",                       \
               "{\"error\":\"" error "\"}")

static const struct {
    const char *body;
    int status;
    const char *answer; /* NULL: any */
} refused[] = {
    {"", 422, DETAIL("missing", "", "Field required", "null")},
    {"[1]", 422,
     DETAIL("model_attributes_type", "",
            "Input should be a valid dictionary or object to extract fields from",
            "[1]")},
    {"{}", 422, DETAIL("missing", ",\"queries\"", "Field required", "{}")},
    {"{\"queries\":\"a\"}", 422,
     DETAIL("list_type", ",\"queries\"", "Input should be a valid list", "\"a\"")},
    {"{\"queries\":[\"a\",[2]]}", 422,
     DETAIL("string_type", ",\"queries\",1", "Input should be a valid string", "[2]")},
    {"{\"query\":7}", 422,
     DETAIL("string_type", ",\"query\"", "Input should be a valid string", "7")},
    {"{\"queries\":[],\"topk\":[]}", 422,
     DETAIL("int_type", ",\"topk\"", "Input should be a valid integer", "[]")},
    {"{\"queries\":[],\"topk\":\"x\"}", 422,
     DETAIL("int_parsing", ",\"topk\"",
            "Input should be a valid integer, unable to parse string as an integer",
            "\"x\"")},
    {"{\"queries\":[],\"topk\":1.5}", 422,
     DETAIL("int_from_float", ",\"topk\"",
            "Input should be a valid integer, got a number with a fractional part",
            "1.5")},
    {"{\"queries\":[],\"topk\":-1}", 422,
     DETAIL_CTX("out_of_range", ",\"topk\"", "Input should be between 0 and 100", "-1",
                "{\"ge\":0,\"le\":100}")},
    {"{\"queries\":[],\"topk\":101}", 422, NULL},
    {"{\"queries\":[],\"topk\":1e99}", 422, NULL},
    {"{\"queries\":[],\"return_scores\":2}", 422,
     DETAIL("bool_type", ",\"return_scores\"", "Input should be a valid boolean", "2")},
    {"{\"queries\":[\"1\",\"2\",\"3\",\"4\",\"5\"]}", 413, NULL},
    {"x", 422, NOT_JSON(0, "Expecting value")},
    {"{\"a\":1", 422, NOT_JSON(6, "Expecting ',' delimiter")},
    {"{\"a\" 1}", 422, NOT_JSON(5, "Expecting ':' delimiter")},
    {"{a:1}", 422, NOT_JSON(1, "Expecting property name enclosed in double quotes")},
    {"{\"a\":1,}", 422, NOT_JSON(7, "Expecting property name enclosed in double quotes")},
    {"{\"a\":[1,]}", 422, NOT_JSON(8, "Expecting value")},
    {"{\"a\":\"b", 422, NOT_JSON(7, "Unterminated string")},
    {"{\"a\":\"\n\"}", 422, NOT_JSON(6, "Invalid control character")},
    {"{\"a\":\"\\x\"}", 422, NULL},
    {"{\"a\":\"\\u12", 422, NULL},
    {"{\"a\":tru}", 422, NOT_JSON(5, "Expecting value")},
    {"{\"a\":01}", 422, NOT_JSON(6, "Expecting ',' delimiter")},
    {"{\"a\":-}", 422, NOT_JSON(5, "Expecting value")},
    {"{\"a\":NaN}", 422, NOT_JSON(5, "Expecting value")},
    {"{} x", 422, NOT_JSON(3, "Extra data")},
    {"{\"queries\":[\"\xff\"]}", 400, NULL},
};

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t n = strlen(refused[i].body);
        char *body = body_of(refused[i].body, n);
        struct sr1__retrieve_request r;
        struct sr1__buf error;
        int status;

        sr1__buf_init(&error, 0);
        status = sr1__wire_retrieve(&r, "/retrieve", body, n, &limits, &error);
        if (status != refused[i].status)
            fail_msg("%s: %d", refused[i].body, status);
        expect_json(&error, refused[i].answer != NULL ? refused[i].answer : error.data);
        sr1__retrieve_request_free(&r);
        sr1__buf_free(&error);
        sr1__free(body);
    }
}

static int read_bytes(const char *text, size_t n)
{
    char *body = body_of(text, n);
    struct sr1__retrieve_request r;
    struct sr1__buf error;
    int status;

    sr1__buf_init(&error, 0);
    status = sr1__wire_retrieve(&r, "/retrieve", body, n, &limits, &error);
    sr1__retrieve_request_free(&r);
    sr1__buf_free(&error);
    sr1__free(body);
    return status;
}

static void nul_bytes_and_depth_are_refused(void **state)
{
    static char deep[20000];

    (void)state;
    assert_int_equal(read_bytes("{\"queries\":[\"a\0b\"]}", 19), 422);
    assert_int_equal(read_bytes("{}\0", 3), 422);
    assert_int_equal(read_bytes("\0", 1), 422);
    memset(deep, '[', sizeof deep);
    assert_int_equal(read_bytes(deep, sizeof deep), 422);
    memcpy(deep, "{\"queries\":[],\"x\":", 18);
    memset(deep + 18 + 2047, ']', 2047);
    deep[18 + 4094] = '}';
    assert_int_equal(read_bytes(deep, 18 + 4095), 200);
}

/* Search-R1's own error, word for word. */
static void the_validation_error_is_theirs(void **state)
{
    char path[512];
    json_t *want = NULL;
    struct sr1__buf error;
    struct sr1__rerank_request r;
    char body[] = "{\"query\": \"x\"}";
    char *text;

    (void)state;
    snprintf(path, sizeof path,
             "%s/tests/fixtures/web_answers/searchr1_validation_error_422.json",
             getenv("SR1_SRC"));
    assert_int_equal(sr1__json_load(&want, path, 1 << 20), SR1_OK);
    sr1__buf_init(&error, 0);
    assert_int_equal(sr1__wire_rerank(&r, body, strlen(body), &limits, &error), 422);
    text = json_dumps(want, 0);
    expect_json(&error, text);
    sr1__free(text);
    json_decref(want);
    sr1__rerank_request_free(&r);
    sr1__buf_free(&error);
}

static sr1_status read_any(void *arg)
{
    static const char text[] = "{\"queries\":[\"a\",\"b\"],\"documents\":[[{\"contents\":"
                               "\"x\"},{\"document\":{\"contents\":\"y\"}}],[]]}";
    char body[sizeof text];
    struct sr1__rerank_request r;
    struct sr1__retrieve_request t;
    struct sr1__buf error;
    int status;
    int other;

    (void)arg;
    memcpy(body, text, sizeof text);
    sr1__buf_init(&error, 0);
    status = sr1__wire_rerank(&r, body, sizeof text - 1, &limits, &error);
    sr1__rerank_request_free(&r);
    memcpy(body, text, sizeof text);
    other = sr1__wire_retrieve(&t, "/retrieve", body, sizeof text - 1, &limits, &error);
    sr1__retrieve_request_free(&t);
    sr1__buf_free(&error);
    return status == 200 && other == 200 ? SR1_OK : SR1_E_NOMEM;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(read_any, NULL) > 3);
}

/* ---- /rerank ---- */

static int rerank(const char *text, struct sr1__buf *out)
{
    size_t n = strlen(text);
    char *body = body_of(text, n);
    struct sr1__rerank_request r;
    int status;

    sr1__buf_init(out, 0);
    status = sr1__wire_rerank(&r, body, n, &limits, out);
    if (status == 200)
        assert_int_equal(sr1__rerank_write_answer(&r, &sr1__pair_scorer_bm25, out),
                         SR1_OK);
    sr1__rerank_request_free(&r);
    sr1__free(body);
    return status;
}

static void each_query_gets_its_own_documents(void **state)
{
    struct sr1__buf b;

    (void)state;
    assert_int_equal(
        rerank(
            "{\"queries\":[\"tower\",\"river\",\"none\"],\"documents\":[[{\"contents\":"
            "\"Bridge\\nIt is long.\"},{\"document\":{\"contents\":\"\\\"Tower\\\"\\nThe "
            "tower.\"}}],[{\"contents\":\"A river\"}],[]]}",
            &b),
        200);
    expect_json(&b,
                "{\"result\":[[\"(Title: \\\"Tower\\\") The tower.\",\"(Title: Bridge) "
                "It is long.\"],[\"(Title: A river) \"],[]]}");
    sr1__buf_free(&b);
}

/* By hand: N 2, df 1 (idf ln 2), tf 2, len 3, avglen 2.5. */
static void scores_are_bm25_of_the_given_documents(void **state)
{
    struct sr1__buf b;
    json_t *j = NULL;
    double want = log(2.0) * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2.5));
    double got;

    (void)state;
    assert_int_equal(
        rerank(
            "{\"queries\":[\"towers\"],\"documents\":[[{\"contents\":\"green bridge\"},"
            "{\"contents\":\"tower red tower\"}]],\"rerank_topk\":1,\"return_scores\":"
            "true}",
            &b),
        200);
    assert_int_equal(sr1__json_parse(&j, b.data, b.len, "answer"), SR1_OK);
    assert_int_equal(json_unpack(j, "{s[[{sF}!]!]}", "result", "score", &got), 0);
    assert_true(fabs(got - want) < 1e-9);
    json_decref(j);
    sr1__buf_free(&b);
}

static void rerank_names_what_is_wrong(void **state)
{
    static const struct {
        const char *body;
        const char *answer;
    } cases[] = {
        {"{\"queries\":[\"a\"]}",
         DETAIL("missing", ",\"documents\"", "Field required", "{\"queries\":[\"a\"]}")},
        {"{\"queries\":[\"a\"],\"documents\":[]}", NULL},
        {"{\"queries\":[],\"documents\":[[]]}", NULL},
        {"{\"queries\":[\"a\"],\"documents\":[{}]}",
         DETAIL("list_type", ",\"documents\",0", "Input should be a valid list", "{}")},
        {"{\"queries\":[\"a\"],\"documents\":[[1]]}",
         DETAIL("dict_type", ",\"documents\",0,0", "Input should be a valid dictionary",
                "1")},
        {"{\"queries\":[\"a\"],\"documents\":[[{\"contents\":1}]]}",
         DETAIL("missing", ",\"documents\",0,0,\"contents\"", "Field required",
                "{\"contents\":1}")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sr1__buf b;

        assert_int_equal(rerank(cases[i].body, &b), 422);
        expect_json(&b, cases[i].answer != NULL ? cases[i].answer : b.data);
        sr1__buf_free(&b);
    }
}

static sr1_status rerank_any(void *arg)
{
    char body[] = "{\"queries\":[\"a tower\"],\"documents\":[[{\"contents\":\"Tower\\nA "
                  "tower.\"},{\"contents\":\"b\"}]],\"return_scores\":true}";
    struct sr1__buf b;
    struct sr1__rerank_request r;
    sr1_status status = SR1_E_NOMEM;

    (void)arg;
    sr1__buf_init(&b, 0);
    if (sr1__wire_rerank(&r, body, strlen(body), &limits, &b) == 200)
        status = sr1__rerank_write_answer(&r, &sr1__pair_scorer_bm25, &b);
    sr1__rerank_request_free(&r);
    sr1__buf_free(&b);
    return status;
}

static void reranking_may_run_out_of_memory(void **state)
{
    (void)state;
    assert_true(torture(rerank_any, NULL) > 6);
}

/* ---- answers ---- */

static void numbers_are_written_shortly(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{9.1, "9.1"},
                 {0, "0.0"},
                 {-7.8, "-7.8"},
                 {3, "3.0"},
                 {4.25, "4.25"},
                 {0.99999999999, "0.99999999999"},
                 {12.0000000001, "12.0000000001"},
                 {99999.5, "99999.5"},
                 {1e-7, "0.0000001"},
                 {123456789.5, "123456789.5"},
                 {1e-12, "1e-12"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {-1e300, "-1e+300"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sr1__buf b;

        sr1__buf_init(&b, 0);
        sr1__wire_number(&b, cases[i].v);
        assert_string_equal(b.data, cases[i].text);
        sr1__buf_free(&b);
    }
}

/* BM25's scores are whole numbers of 2^-32. */
static void scores_read_back_to_the_bit(void **state)
{
    (void)state;
    for (int64_t k = -100000; k < 100000; k += 37) {
        struct sr1__buf b;
        double v = 17.0 + (double)k * 0x1p-32;
        double again = 0;

        sr1__buf_init(&b, 0);
        sr1__wire_number(&b, v);
        assert_int_equal(sr1__parse_real(b.data, b.len, &again), 1);
        assert_true(again == v);
        sr1__buf_clear(&b);
        sr1__wire_number(&b, (double)k / 1e6);
        assert_true(b.len <= 9 && sr1__parse_real(b.data, b.len, &again) == 1);
        assert_true(again == (double)k / 1e6);
        sr1__buf_free(&b);
    }
}

static void any_text_reads_back(void **state)
{
    char text[300];
    struct sr1__buf b;
    json_t *j = NULL;
    size_t n = 0;

    (void)state;
    for (int c = 1; c < 128; c++)
        text[n++] = (char)c;
    memcpy(text + n, "\xc3\xa9\xf0\x9f\x97\xbc", 6);
    n += 6;
    sr1__buf_init(&b, 0);
    sr1__wire_text(&b, text, n);
    assert_int_equal(sr1__json_parse(&j, b.data, b.len, "text"), SR1_OK);
    assert_int_equal(json_string_length(j), n);
    assert_memory_equal(json_string_value(j), text, n);
    json_decref(j);
    sr1__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dialect_is_read),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(nul_bytes_and_depth_are_refused),
        cmocka_unit_test(the_validation_error_is_theirs),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(each_query_gets_its_own_documents),
        cmocka_unit_test(scores_are_bm25_of_the_given_documents),
        cmocka_unit_test(rerank_names_what_is_wrong),
        cmocka_unit_test(reranking_may_run_out_of_memory),
        cmocka_unit_test(numbers_are_written_shortly),
        cmocka_unit_test(scores_read_back_to_the_bit),
        cmocka_unit_test(any_text_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
