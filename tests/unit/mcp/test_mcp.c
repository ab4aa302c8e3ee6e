/* Tools of MCP servers: a program and an HTTP server of the tests, what they say, how
 * they fail, and that they are started anew. */
#include "support/torture.h"
#include "support/files.h"

#include "base/clock.h"
#include "environment/env/env.h"
#include "environment/mcp/mcp.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/mcp.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char server[512];

#define OK(call) assert_ok((call), #call)

static void assert_ok(sr1_status st, const char *what)
{
    if (st != SR1_OK)
        fail_msg("%s: %s", what, sr1_last_error());
}

static int make(void **state)
{
    snprintf(server, sizeof server, "%s/tests/support/mcp_server.py", getenv("SR1_SRC"));
    return scratch_make(state);
}

static sr1_env *open_tools(void)
{
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "hermes"};
    sr1_env *env = NULL;

    OK(sr1_env_open(&env, "tools", NULL, &o));
    return env;
}

static const char *stdio_file(const char *more)
{
    char text[2048];

    snprintf(
        text, sizeof text,
        "{\"mcpServers\": {\"town\": {\"command\": \"python3\", \"args\": [\"%s\"]%s}}}",
        server, more);
    return scratch_file("mcp.json", text, 0);
}

static sr1_env *open_stdio(double timeout_s)
{
    sr1_mcp_options o = {.struct_size = sizeof o, .timeout_s = timeout_s};
    sr1_env *env = open_tools();

    OK(sr1_env_add_mcp(env, stdio_file(""), &o));
    return env;
}

/* One call; its status. */
static int32_t call(sr1_env *env, const char *name, const char *args, char *block,
                    size_t size)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    char action[512], *text = NULL;
    size_t n;

    n = (size_t)snprintf(action, sizeof action, "{\"name\": \"%s\", \"arguments\": %s}",
                         name, args);
    OK(sr1_env_step(env, 0, action, n, &reply, &text, &n));
    snprintf(block, size, "%s", text);
    sr1_free(text);
    return reply.status;
}

#define BLOCK(text) "<tool_response>\n" text "\n</tool_response>"

static const struct {
    const char *name, *args, *block;
    int32_t status;
} cases[] = {
    {"echo", "{\"text\": \"\\u00c5s\"}", BLOCK("\u00c5s"), SR1_ACTION_OK},
    {"add", "{\"a\": 2, \"b\": 40}", BLOCK("42"), SR1_ACTION_OK},
    {"add", "{\"a\": 2, \"b\": null}", BLOCK("2"), SR1_ACTION_OK},
    {"add", "{}", BLOCK("Error: add: argument 'a' is missing"), SR1_ACTION_OK},
    {"echo", "{\"text\": \"\"}",
     BLOCK("Error: echo: argument 'text' must have at least 1 characters"),
     SR1_ACTION_OK},
    {"fail", "{}", BLOCK("Error: there is no such town"), SR1_ACTION_OK},
    {"reject", "{}", BLOCK("Error: there is no such argument"), SR1_ACTION_OK},
    {"break", "{}", BLOCK(""), SR1_ACTION_ERROR},
    {"picture", "{}", BLOCK("[image image/png]\ninside"), SR1_ACTION_OK},
    {"odd", "{\"anything\": 1}", BLOCK("{\"anything\": 1}"), SR1_ACTION_OK},
};

static void check_cases(sr1_env *env)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char block[512];
        int32_t status = call(env, cases[i].name, cases[i].args, block, sizeof block);

        assert_int_equal(status, cases[i].status);
        if (status == SR1_ACTION_OK)
            assert_string_equal(block, cases[i].block);
    }
}

static void a_programs_tools_are_called(void **state)
{
    sr1_env *env = open_stdio(30);
    const char *tools = sr1_env_tools(env);

    (void)state;
    assert_non_null(strstr(tools, "\"description\": \"Adds two numbers.\""));
    assert_non_null(strstr(tools, "\"name\": \"variable\"")); /* of the last page */
    assert_non_null(strstr(tools, "\"x\": {\"unevaluatedItems\": false}"));
    check_cases(env);
    sr1_env_free(env);
}

/* ---- failures ---- */

static void a_server_that_ends_is_started_anew(void **state)
{
    static const char *const ways[] = {"die", "garbage", "long"};
    sr1_env *env = open_stdio(30);
    char block[512];

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_int_equal(call(env, ways[i], "{}", block, sizeof block), SR1_ACTION_ERROR);
        assert_int_equal(call(env, "add", "{\"a\": 1}", block, sizeof block),
                         SR1_ACTION_OK);
        assert_string_equal(block, BLOCK("1"));
    }
    sr1_env_free(env);
}

static void a_late_answer_is_dropped(void **state)
{
    sr1_env *env = open_stdio(0.2);
    char block[512];

    (void)state;
    assert_int_equal(call(env, "sleep", "{\"s\": 0.6}", block, sizeof block),
                     SR1_ACTION_TIMEOUT);
    for (int tries = 0; tries < 100; tries++) /* the server is busy for a while */
        if (call(env, "add", "{\"a\": 1}", block, sizeof block) == SR1_ACTION_OK)
            break;
    assert_string_equal(block, BLOCK("1"));
    sr1_env_free(env);
}

static void a_server_that_cannot_start_is_named(void **state)
{
    static const struct {
        const char *text, *said;
        sr1_status status;
    } files[] = {
        {"{\"mcpServers\": {\"x\": {\"command\": \"/no/such/program\"}}}",
         "MCP server 'x': cannot start /no/such/program: No such file", SR1_E_IO},
        {"{\"mcpServers\": {\"x\": {\"command\": \"false\"}}}",
         "MCP server 'x': it has ended", SR1_E_NETWORK},
        {"{\"mcpServers\": {\"x\": {\"command\": \"sh\", \"args\": [\"-c\", \"echo so "
         ">&2; "
         "exit 1\"]}}}",
         "it said last: so", SR1_E_NETWORK},
        {"{\"mcpServers\": {\"x\": {\"command\": \"echo\", \"args\": [\"hello\"]}}}",
         "no message of JSON-RPC", SR1_E_PARSE},
        {"{\"mcpServers\": {}}", "it has no servers", SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {}}}", "server 'x': it must be an object with either",
         SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {\"command\": \"a\", \"url\": \"b\"}}}",
         "either command", SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {\"command\": \"a\", \"args\": \"b\"}}}",
         "args must be a list", SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {\"command\": \"a\", \"env\": {\"A\": "
         "\"${SR1_NO_SUCH_VARIABLE}\"}}}}",
         "the environment has no variable SR1_NO_SUCH_VARIABLE", SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {\"url\": \"ftp://a\"}}}", "MCP server 'x'",
         SR1_E_INVALID},
        {"{\"mcpServers\": {\"x\": {\"type\": \"sse\", \"url\": \"http://a\"}}}",
         "the transport sse", SR1_E_UNSUPPORTED},
        {"{\"mcpServers\": {\"x\": {\"url\": \"http://127.0.0.1:9/mcp\"}}}",
         "MCP server 'x'", SR1_E_NETWORK},
        {"[", "line", SR1_E_PARSE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        sr1_env *env = open_tools();
        sr1_status st =
            sr1_env_add_mcp(env, scratch_file("wrong.json", files[i].text, 0), NULL);

        if (st != files[i].status || !strstr(sr1_last_error(), files[i].said))
            fail_msg("%s: %d, %s", files[i].text, (int)st, sr1_last_error());
        sr1_env_free(env);
    }
}

/* ---- side by side ---- */

struct pair_call {
    sr1_env *env;
    const char *args;
    char block[256];
    int32_t status;
};

static void *make_pair_call(void *arg)
{
    struct pair_call *p = arg;

    p->status = call(p->env, "pair", p->args, p->block, sizeof p->block);
    return NULL;
}

/* Answers come in the other order, with a request of the server's between them. */
static void answers_find_their_calls(void **state)
{
    sr1_env *env = open_stdio(60);
    struct pair_call calls[2] = {{env, "{\"n\": 1}", "", 0}, {env, "{\"n\": 2}", "", 0}};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, make_pair_call, &calls[0]), 0);
    make_pair_call(&calls[1]);
    pthread_join(thread, NULL);
    assert_string_equal(calls[0].block, BLOCK("{\"n\": 1}"));
    assert_string_equal(calls[1].block, BLOCK("{\"n\": 2}"));
    sr1_env_free(env);
}

/* ---- the file ---- */

static void variables_and_filters_of_the_file(void **state)
{
    sr1_env *env = open_tools();
    char block[256];

    (void)state;
    setenv("SR1_TEST_TOKEN", "abc", 1);
    OK(sr1_env_add_mcp(
        env,
        stdio_file(
            ", \"env\": {\"TOKEN\": \"x-${SR1_TEST_TOKEN}-${env:"
            "SR1_TEST_TOKEN}-${SR1_NO_VARIABLE:-d}\"}, \"includeTools\": [\"variable\", "
            "\"add\"], \"excludeTools\": [\"add\"]"),
        NULL));
    assert_int_equal(call(env, "variable", "{\"name\": \"TOKEN\"}", block, sizeof block),
                     SR1_ACTION_OK);
    assert_string_equal(block, BLOCK("x-abc-abc-d"));
    assert_null(strstr(sr1_env_tools(env), "\"add\""));
    assert_null(strstr(sr1_env_tools(env), "\"echo\""));
    sr1_env_free(env);
}

static char warned[2048];

static void keep_warnings(void *user, int32_t level, const char *message)
{
    (void)user;
    if (level == SR1_LOG_WARN)
        strncat(warned, message, sizeof warned - strlen(warned) - 1);
}

static void what_a_file_says_in_vain_is_told(void **state)
{
    static const struct {
        const char *more, *said;
    } refused[] = {
        {", \"includeTools\": [\"add\", \"eccho\"]",
         "MCP server 'town': includeTools: it has no tool 'eccho'; it has echo, add, "
         "fail"},
        {", \"excludeTools\": [\"eccho\"]", "excludeTools: it has no tool 'eccho'"},
        {", \"disabled\": \"true\"", "server 'town': disabled must be true or false"},
        {", \"disabled\": true", "all its servers are disabled"},
    };
    sr1_env *env = open_tools();

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(sr1_env_add_mcp(env, stdio_file(refused[i].more), NULL),
                         SR1_E_INVALID);
        if (!strstr(sr1_last_error(), refused[i].said))
            fail_msg("'%s' is not in: %s", refused[i].said, sr1_last_error());
    }
    sr1_log_set(keep_warnings, NULL);
    OK(sr1_env_add_mcp(env, stdio_file(", \"timeout\": 5, \"trust\": true"), NULL));
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warned, "the key 'timeout' does nothing here: the key "
                                   "tools_timeout is the limit"));
    assert_non_null(strstr(warned, "the key 'trust' does nothing here: no call"));
    sr1_env_free(env);
}

static void two_servers_with_one_tool_are_refused(void **state)
{
    char text[2048];
    sr1_env *env = open_tools();

    (void)state;
    snprintf(
        text, sizeof text,
        "{\"mcpServers\": {\"a\": {\"command\": \"python3\", \"args\": [\"%s\"]}, \"b\": "
        "{\"command\": \"python3\", \"args\": [\"%s\"]}}}",
        server, server);
    assert_int_equal(sr1_env_add_mcp(env, scratch_file("two.json", text, 0), NULL),
                     SR1_E_INVALID);
    assert_non_null(
        strstr(sr1_last_error(), "MCP server 'b': tool 'echo' is there already"));
    sr1_env_free(env);
}

/* ---- no program is left ---- */

static void read_line(struct sr1__line_process *p, struct sr1__buf *line)
{
    struct sr1__line_exchange x = {.line = line};

    OK(sr1__line_process_exchange(p, &x, -1, sr1__now() + 100));
    assert_true(x.came);
}

static void a_server_that_lingers_is_ended(void **state)
{
    const char *const argv[] = {"sh", "-c", "trap '' TERM; cat; sleep 1000", NULL};
    struct sr1__line_process_options o = {.name = "sh", .argv = argv, .max_line = 100};
    struct sr1__line_exchange x = {.text = "so\n", .n = 3};
    struct sr1__line_process *p = NULL;
    struct sr1__buf line;
    long id;

    (void)state;
    OK(sr1__line_process_start(&p, &o));
    sr1__buf_init(&line, 0);
    x.line = &line;
    OK(sr1__line_process_exchange(p, &x, -1, sr1__now() + 100));
    read_line(p, &line);
    assert_string_equal(sr1__buf_cstr(&line), "so");
    id = sr1__line_process_id(p);
    sr1__line_process_free(p);
    assert_int_equal(kill((pid_t)id, 0), -1);
    sr1__buf_free(&line);
}

/* It says more than a pipe holds before it reads a request that no pipe holds either. */
static void a_program_that_says_much_first_is_heard(void **state)
{
    const char *const argv[] = {
        "sh", "-c", "yes warning | head -c 300000 >&2; yes line | head -n 20000; cat",
        NULL};
    struct sr1__line_process_options o = {
        .name = "sh", .argv = argv, .max_line = 1000000};
    struct sr1__line_process *p = NULL;
    size_t n = 500000, lines = 0;
    char *request = calloc(1, n + 2);
    struct sr1__line_exchange x = {.text = request, .n = n + 1};
    struct sr1__buf line;

    (void)state;
    memset(request, 'q', n);
    request[n] = '\n';
    OK(sr1__line_process_start(&p, &o));
    sr1__buf_init(&line, 0);
    x.line = &line;
    for (; x.n > 0; x.text += x.written, x.n -= x.written) {
        OK(sr1__line_process_exchange(p, &x, -1, sr1__now() + 100));
        lines += x.came && strcmp(sr1__buf_cstr(&line), "line") == 0;
    }
    do
        read_line(p, &line);
    while (strcmp(sr1__buf_cstr(&line), "line") == 0 && ++lines > 0);
    assert_int_equal(lines, 20000);
    request[n] = '\0';
    assert_string_equal(sr1__buf_cstr(&line), request);
    sr1__line_process_free(p);
    sr1__buf_free(&line);
    free(request);
}

#define EMPTY_LINES 200000

/* Many are read at once and taken where they stand, with the pieces of one between. */
static void empty_lines_are_lines(void **state)
{
    char command[200];
    const char *const argv[] = {"sh", "-c", command, NULL};
    struct sr1__line_process_options o = {.name = "sh", .argv = argv, .max_line = 100};
    struct sr1__line_process *p = NULL;
    struct sr1__buf line;
    size_t empty = 0;

    (void)state;
    snprintf(command, sizeof command,
             "printf 'a\\r\\n\\nb'; printf 'c\\n'; yes '' | head -n %d; echo done",
             EMPTY_LINES);
    OK(sr1__line_process_start(&p, &o));
    sr1__buf_init(&line, 0);
    read_line(p, &line);
    assert_string_equal(sr1__buf_cstr(&line), "a");
    read_line(p, &line);
    assert_string_equal(sr1__buf_cstr(&line), "");
    read_line(p, &line);
    assert_string_equal(sr1__buf_cstr(&line), "bc");
    for (read_line(p, &line); line.len == 0; read_line(p, &line))
        empty++;
    assert_string_equal(sr1__buf_cstr(&line), "done");
    assert_int_equal(empty, EMPTY_LINES);
    sr1__line_process_free(p);
    sr1__buf_free(&line);
}

static void answers_are_read(void **state)
{
    static const struct {
        const char *text, *message;
        int32_t code;
    } rows[] = {
        {"{\"id\":1,\"result\":null}", "", 0},
        {"{\"id\":1,\"result\":null,\"error\":null}", "", 0},
        {"{\"id\":1,\"error\":{\"code\":-5,\"message\":\"no\"}}", "no", -5},
        /* as JSON-RPC 1.0 has it */
        {"{\"id\":1,\"result\":null,\"error\":{\"code\":7,\"message\":\"no\"}}", "no", 7},
        {"{\"id\":1,\"error\":{\"code\":4294967297}}", "no reason", INT32_MAX},
        {"{\"id\":1,\"error\":{\"code\":-4294967297}}", "no reason", INT32_MIN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sr1__rpc_reply reply = {0};
        enum sr1__rpc_kind kind;
        struct sr1__buf answer;
        int64_t id = 0;

        sr1__buf_init(&answer, 0);
        OK(sr1__rpc_read(rows[i].text, strlen(rows[i].text), &kind, &id, &reply,
                         &answer));
        assert_int_equal(kind, SR1__RPC_ANSWER);
        assert_int_equal(id, 1);
        assert_int_equal(reply.result == NULL, rows[i].code != 0);
        assert_int_equal(reply.code, rows[i].code);
        assert_string_equal(reply.message, rows[i].message);
        sr1__rpc_reply_free(&reply);
        sr1__buf_free(&answer);
    }
}

/* ---- HTTP ---- */

/* The test's server, the line that it wrote last, and its tools. */
struct http_tools {
    struct sr1__line_process *program;
    struct sr1__buf line;
    sr1_env *env;
};

/* path: of the server's that the file of tools, http.json, names. */
static void start_http_server(struct http_tools *h, const char *path)
{
    const char *const argv[] = {"python3", server, "http", NULL};
    struct sr1__line_process_options o = {
        .name = "server", .argv = argv, .max_line = 100};
    char text[1024];

    sr1__buf_init(&h->line, 0);
    OK(sr1__line_process_start(&h->program, &o));
    read_line(h->program, &h->line);
    setenv("SR1_TEST_TOKEN", "secret", 1);
    snprintf(text, sizeof text,
             "{\"mcpServers\": {\"web\": {\"type\": \"http\", \"url\": "
             "\"http://127.0.0.1:%s/%s\", \"headers\": {\"Authorization\": \"Bearer "
             "${SR1_TEST_TOKEN}\"}}}}",
             sr1__buf_cstr(&h->line), path);
    scratch_file("http.json", text, 0);
}

static void open_http_tools(struct http_tools *h, const char *path)
{
    start_http_server(h, path);
    h->env = open_tools();
    OK(sr1_env_add_mcp(h->env, scratch_path("http.json"), NULL));
}

static void close_http_tools(struct http_tools *h)
{
    sr1_env_free(h->env);
    sr1__line_process_free(h->program);
    sr1__buf_free(&h->line);
}

static void *make_echo_call(void *env)
{
    char block[512];

    return (void *)(intptr_t)call(env, "echo", "{\"text\": \"x\"}", block, sizeof block);
}

static void check_call(sr1_env *env, const char *name, const char *want)
{
    char block[512];

    assert_int_equal(call(env, name, "{}", block, sizeof block), SR1_ACTION_OK);
    assert_string_equal(block, want);
}

static void an_http_servers_tools_are_called(void **state)
{
    struct http_tools h;
    char block[512];

    (void)state;
    open_http_tools(&h, "mcp");
    check_cases(h.env);
    assert_int_equal(call(h.env, "die", "{}", block, sizeof block), SR1_ACTION_OK);
    check_cases(h.env); /* in a new session */
    sr1_env_free(h.env);
    setenv("SR1_TEST_TOKEN", "wrong", 1);
    h.env = open_tools();
    assert_int_equal(sr1_env_add_mcp(h.env, scratch_path("http.json"), NULL),
                     SR1_E_NETWORK);
    assert_non_null(strstr(sr1_last_error(), "401"));
    assert_null(strstr(sr1_last_error(), "wrong"));
    close_http_tools(&h);
}

/* A call that was refused with a reason is neither sent again nor the session's end, and
 * the session ends with the environment. */
static void a_refused_call_keeps_its_session(void **state)
{
    struct http_tools h;

    (void)state;
    open_http_tools(&h, "mcp");
    check_call(h.env, "dear", BLOCK("Error: it is too dear, 1"));
    check_call(h.env, "dear", BLOCK("Error: it is too dear, 2"));
    sr1_env_free(h.env);
    h.env = NULL;
    read_line(h.program, &h.line);
    assert_string_equal(sr1__buf_cstr(&h.line), "deleted s1");
    close_http_tools(&h);
}

/* Where there is no session none can be lost. */
static void without_a_session_nothing_is_sent_twice(void **state)
{
    struct http_tools h;
    char block[512];

    (void)state;
    open_http_tools(&h, "plain");
    assert_int_equal(call(h.env, "gate", "{}", block, sizeof block), SR1_ACTION_ERROR);
    check_call(h.env, "dear", BLOCK("Error: it is too dear, 2"));
    close_http_tools(&h);
}

/* No call is sent in a session before the server knows that it is made. */
static void a_new_session_is_made_before_calls(void **state)
{
    struct http_tools h;
    char block[512];
    pthread_t other;
    void *status;

    (void)state;
    open_http_tools(&h, "strict");
    read_line(h.program, &h.line);
    assert_int_equal(call(h.env, "die", "{}", block, sizeof block), SR1_ACTION_OK);
    assert_int_equal(pthread_create(&other, NULL, make_echo_call, h.env), 0);
    read_line(h.program, &h.line); /* the other's greeting is under way */
    assert_string_equal(sr1__buf_cstr(&h.line), "greeting");
    check_call(h.env, "picture", BLOCK("[image image/png]\ninside"));
    assert_int_equal(pthread_join(other, &status), 0);
    assert_int_equal((intptr_t)status, SR1_ACTION_OK);
    assert_int_equal(call(h.env, "die", "{}", block, sizeof block), SR1_ACTION_OK);
    assert_int_equal((intptr_t)make_echo_call(h.env), SR1_ACTION_ERROR); /* not greeted */
    check_call(h.env, "fail", BLOCK("Error: there is no such town"));
    close_http_tools(&h);
}

static void names_of_sessions_may_be_long(void **state)
{
    struct http_tools h;

    (void)state;
    open_http_tools(&h, "token");
    check_cases(h.env);
    close_http_tools(&h);
    start_http_server(&h, "endless");
    h.env = open_tools();
    assert_int_equal(sr1_env_add_mcp(h.env, scratch_path("http.json"), NULL),
                     SR1_E_NETWORK);
    assert_non_null(strstr(sr1_last_error(), "mcp-session-id"));
    assert_non_null(strstr(sr1_last_error(), "longer than 4096 bytes"));
    close_http_tools(&h);
}

/* A version that would begin a header of its own. */
static void a_version_is_no_header(void **state)
{
    struct http_tools h;

    (void)state;
    start_http_server(&h, "forged");
    h.env = open_tools();
    assert_int_equal(sr1_env_add_mcp(h.env, scratch_path("http.json"), NULL),
                     SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "'protocolVersion' is no version"));
    close_http_tools(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_programs_tools_are_called),
        cmocka_unit_test(a_server_that_ends_is_started_anew),
        cmocka_unit_test(a_late_answer_is_dropped),
        cmocka_unit_test(a_server_that_cannot_start_is_named),
        cmocka_unit_test(answers_find_their_calls),
        cmocka_unit_test(variables_and_filters_of_the_file),
        cmocka_unit_test(what_a_file_says_in_vain_is_told),
        cmocka_unit_test(two_servers_with_one_tool_are_refused),
        cmocka_unit_test(a_server_that_lingers_is_ended),
        cmocka_unit_test(a_program_that_says_much_first_is_heard),
        cmocka_unit_test(empty_lines_are_lines),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(an_http_servers_tools_are_called),
        cmocka_unit_test(a_refused_call_keeps_its_session),
        cmocka_unit_test(without_a_session_nothing_is_sent_twice),
        cmocka_unit_test(a_new_session_is_made_before_calls),
        cmocka_unit_test(names_of_sessions_may_be_long),
        cmocka_unit_test(a_version_is_no_header),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
