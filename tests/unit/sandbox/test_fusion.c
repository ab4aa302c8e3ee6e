/* The SandboxFusion client against a server that answers, fails, stalls and garbles.
 * Answers have the fields of SandboxFusion's own models (sandbox_api, online_judge_api).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <searchr1/ext/sandbox.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "support/http_server.h"
#include "support/torture.h"

#define SUCCESS                                                                          \
    "{\"status\": \"Success\", \"message\": \"\", \"compile_result\": null, "            \
    "\"run_result\": {\"status\": \"Finished\", \"execution_time\": 0.25, "              \
    "\"return_code\": 0, \"stdout\": \"42\\n\", \"stderr\": \"\"}, "                     \
    "\"executor_pod_name\": null, \"files\": {}}"
#define COMMAND(status, run_status, code, out, err)                                      \
    "{\"status\": \"" status "\", \"message\": \"\", \"compile_result\": null, "         \
    "\"run_result\": {\"status\": \"" run_status "\", \"execution_time\": 1.5, "         \
    "\"return_code\": " code ", \"stdout\": \"" out "\", \"stderr\": \"" err "\"}, "     \
    "\"executor_pod_name\": null, \"files\": {}}"
#define SANDBOX_ERROR                                                                    \
    "{\"status\": \"SandboxError\", \"message\": \"no pod\", \"compile_result\": null, " \
    "\"run_result\": null, \"executor_pod_name\": null, \"files\": {}}"

/* What the server does, request by request; the last row stays. */
struct script {
    const struct reply *replies;
    int n;
};

static void play(void *user, int nth, const char *request, struct reply *r)
{
    const struct script *s = user;

    (void)request;
    *r = s->replies[nth < s->n ? nth : s->n - 1];
    if (r->headers == NULL)
        r->headers = "";
    if (r->body == NULL)
        r->body = "";
    if (r->code == 0)
        r->code = 200;
}

static sr1_sandbox *connect_to(const struct server *s)
{
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;

    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    o.url = s->url;
    o.concurrency = 8;
    o.retries = 2;
    o.retry_first_s = 0.01;
    o.retry_max_s = 0.02;
    if (sr1_sandbox_open(&box, &o) != SR1_OK)
        fail_msg("cannot open: %s", sr1_last_error());
    return box;
}

static sr1_program program_of(const char *code)
{
    sr1_program p;

    sr1_program_init(&p);
    p.code = code;
    return p;
}

/* Run one program against one answer; the run is to be freed. */
static sr1_execution *run_against(const struct reply *replies, int n,
                                  const sr1_program *p, sr1_execution_result *r,
                                  struct server *s)
{
    struct script script = {replies, n};
    sr1_sandbox *box;
    sr1_execution *run = NULL;

    server_start(s, play, &script);
    box = connect_to(s);
    *r = (sr1_execution_result){.struct_size = sizeof *r};
    assert_int_equal(sr1_sandbox_run(box, p, &run), SR1_OK);
    assert_int_equal(sr1_execution_result_get(run, r), SR1_OK);
    sr1_sandbox_free(box);
    server_stop(s);
    return run;
}

static void answers_become_verdicts(void **state)
{
    static const struct {
        const char *body;
        const char *expected;
        int32_t verdict, exit_code, signal;
    } rows[] = {
        {SUCCESS, NULL, SR1_RUN_PASSED, 0, 0},
        {SUCCESS, "42", SR1_RUN_PASSED, 0, 0},
        {SUCCESS, "43", SR1_RUN_WRONG, 0, 0},
        {COMMAND("Failed", "Finished", "1", "", "Traceback\\nValueError: x\\n"), NULL,
         SR1_RUN_RUNTIME_ERROR, 1, 0},
        {COMMAND("Failed", "Finished", "1", "", "Traceback\\nMemoryError\\n"), NULL,
         SR1_RUN_MEMORY, 1, 0},
        {COMMAND("Failed", "Finished", "-11", "", ""), NULL, SR1_RUN_RUNTIME_ERROR, -1,
         11},
        {COMMAND("Failed", "TimeLimitExceeded", "null", "", ""), NULL, SR1_RUN_TIMEOUT,
         -1, 0},
        {COMMAND("Failed", "Error", "null", "", "spawn"), NULL, SR1_RUN_INFRASTRUCTURE,
         -1, 0},
        {SANDBOX_ERROR, NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"{\"status\": \"Failed\", \"message\": \"\", \"compile_result\": {\"status\": "
         "\"Finished\", \"execution_time\": 1, \"return_code\": 1, \"stdout\": \"\", "
         "\"stderr\": \"x.cpp:1: error\"}, \"run_result\": null, \"files\": {}}",
         NULL, SR1_RUN_RUNTIME_ERROR, 1, 0},
        {COMMAND("Success", "Finished", "0", "42\\u0000 more", ""), "42", SR1_RUN_WRONG,
         0, 0},
        /* not SandboxFusion's */
        {COMMAND("Failed", "Finished", "0", "", ""), NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"{\"status\": \"Success\", \"message\": \"\", \"compile_result\": {\"status\": "
         "\"Finished\", \"execution_time\": 1, \"return_code\": 0, \"stdout\": \"\", "
         "\"stderr\": \"\"}, \"run_result\": null, \"files\": {}}",
         NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"", NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"[]", NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"{\"status\": \"Success\"}", NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"{\"status\": \"Success\", \"run_result\": {\"status\": \"Finished\"}}", NULL,
         SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"{\"status\": \"Success\", \"run_result\": {\"status\": \"Finished\", "
         "\"return_code\": 1e9}}",
         NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
        {"<html>it works</html>", NULL, SR1_RUN_INFRASTRUCTURE, -1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reply reply = {.body = rows[i].body};
        sr1_program p = program_of("print(42)");
        sr1_execution_result r;
        struct server s;
        sr1_execution *run;

        p.expected = rows[i].expected;
        run = run_against(&reply, 1, &p, &r, &s);
        if (r.verdict != rows[i].verdict || r.exit_code != rows[i].exit_code ||
            r.signal != rows[i].signal)
            fail_msg("row %zu: %s, %d, %d: %s", i, sr1_execution_verdict_name(r.verdict),
                     r.exit_code, r.signal, r.message);
        assert_int_equal(r.attempts, r.verdict == SR1_RUN_INFRASTRUCTURE ? 3 : 1);
        sr1_execution_free(run);
    }
}

/* One refused for good (400), the others tried again until they are well. */
static void failures_are_tried_again(void **state)
{
    const struct reply rows[][2] = {
        {{.code = 500, .body = "{\"detail\": \"broken\"}"}, {.body = SUCCESS}},
        {{.code = 503}, {.body = SUCCESS}},
        {{.drop = 1}, {.body = SUCCESS}},
        {{.body = SANDBOX_ERROR}, {.body = SUCCESS}},
        {{.body = SUCCESS, .declared = 9999}, {.body = SUCCESS}},
        {{.body = "{\"status\": \"Succ"}, {.body = SUCCESS}},
    };
    const struct reply unknown = {.code = 400,
                                  .body = "{\"detail\": \"no such dataset\"}"};
    sr1_program p = program_of("print(42)");
    sr1_execution_result r;
    struct server s;
    sr1_execution *run;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run = run_against(rows[i], 2, &p, &r, &s);
        if (r.verdict != SR1_RUN_PASSED)
            fail_msg("row %zu: %s", i, r.message);
        assert_int_equal(r.attempts, 2);
        sr1_execution_free(run);
    }
    run = run_against(&unknown, 1, &p, &r, &s);
    assert_int_equal(r.verdict, SR1_RUN_INFRASTRUCTURE);
    assert_int_equal(r.attempts, 1);
    assert_non_null(strstr(r.message, "no such dataset"));
    sr1_execution_free(run);
}

static json_t *last_body(const struct server *s)
{
    json_t *j = NULL;
    const char *body = request_body(s->last);

    assert_int_equal(sr1__json_parse(&j, body, strlen(body), "request"), SR1_OK);
    return j;
}

static void assert_member(const json_t *o, const char *key, const char *value)
{
    assert_string_equal(json_string_value(json_object_get(o, key)), value);
}

static void requests_have_the_services_fields(void **state)
{
    const char *paths[] = {"a.txt", "b.bin"};
    const char *bytes[] = {"hello", "\0\xff"};
    const size_t sizes[] = {5, 2};
    struct reply reply = {.body = SUCCESS};
    sr1_program p = program_of("int main() {}");
    sr1_execution_result r;
    struct server s;
    json_t *j;

    (void)state;
    p.language = "cpp";
    p.input = "1 2\n";
    p.input_bytes = 4;
    p.time_s = 3;
    p.memory_mib = 256;
    p.file_paths = paths;
    p.file_bytes = bytes;
    p.file_sizes = sizes;
    p.n_files = 2;
    sr1_execution_free(run_against(&reply, 1, &p, &r, &s));
    assert_non_null(strstr(s.last, "POST /run_code HTTP/1.1\r\n"));
    j = last_body(&s);
    assert_member(j, "code", "int main() {}");
    assert_member(j, "language", "cpp");
    assert_member(j, "stdin", "1 2\n");
    assert_true(json_number_value(json_object_get(j, "run_timeout")) == 3);
    assert_int_equal(json_integer_value(json_object_get(j, "memory_limit_MB")), 256);
    assert_member(json_object_get(j, "files"), "a.txt", "aGVsbG8=");
    assert_member(json_object_get(j, "files"), "b.bin", "AP8=");
    json_decref(j);
}

#define TEST(passed, exec)                                                               \
    "{\"passed\": " passed ", \"exec_info\": " exec ", "                                 \
    "\"test_info\": null}"
#define JUDGED(accepted, code, tests)                                                    \
    "{\"id\": \"7\", \"accepted\": " accepted ", \"extracted_code\": \"" code            \
    "\", \"full_code\": null, \"test_code\": null, \"tests\": [" tests "], "             \
    "\"extracted_type\": \"fenced\", \"extra\": null}"

static sr1_submission submission_of(void)
{
    sr1_submission s;

    sr1_submission_init(&s);
    s.completion = "```python\nprint(42)\n```";
    s.id = "7";
    s.provided_data =
        "{\"test\": [{\"input\": {\"stdin\": \"\"}, \"output\": {\"stdout\": "
        "\"42\"}}]}";
    s.extra = "{\"run_all_cases\": true}";
    s.time_s = 4;
    return s;
}

static void submissions_are_judged(void **state)
{
    static const struct {
        const char *body;
        int32_t verdict;
        int n_tests;
        const char *message;
    } rows[] = {
        {JUDGED("true", "print(42)", TEST("true", SUCCESS)), SR1_RUN_PASSED, 1, ""},
        {JUDGED("false", "print(42)", TEST("true", SUCCESS) ", " TEST("false", SUCCESS)),
         SR1_RUN_WRONG, 2, "test 2 of 2: its output is not the expected one"},
        {JUDGED("false", "x",
                TEST("false", COMMAND("Failed", "TimeLimitExceeded", "null", "", ""))),
         SR1_RUN_TIMEOUT, 1, "test 1 of 1: stopped after 4 s"},
        {JUDGED("false", "x", TEST("false", SUCCESS) ", " TEST("false", SANDBOX_ERROR)),
         SR1_RUN_INFRASTRUCTURE, 2, "test 2 of 2: SandboxError: no pod"},
        {JUDGED("false", "", ""), SR1_RUN_WRONG, 0, "no code was found in it"},
        {"{\"accepted\": 1, \"tests\": []}", SR1_RUN_INFRASTRUCTURE, 0, NULL},
        {"{\"accepted\": true}", SR1_RUN_INFRASTRUCTURE, 0, NULL},
        {JUDGED("false", "x", "{\"passed\": false}"), SR1_RUN_INFRASTRUCTURE, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reply reply = {.body = rows[i].body};
        struct script script = {&reply, 1};
        sr1_execution_result r = {.struct_size = sizeof r};
        sr1_submission submission = submission_of();
        sr1_sandbox *box;
        sr1_execution *run = NULL;
        struct server s;

        server_start(&s, play, &script);
        box = connect_to(&s);
        assert_int_equal(sr1_sandbox_submit(box, &submission, &run), SR1_OK);
        assert_int_equal(sr1_execution_wait(run, 30), SR1_OK);
        assert_int_equal(sr1_execution_result_get(run, &r), SR1_OK);
        if (r.verdict != rows[i].verdict ||
            (rows[i].message != NULL && strcmp(r.message, rows[i].message) != 0))
            fail_msg("row %zu: %s: %s", i, sr1_execution_verdict_name(r.verdict),
                     r.message);
        assert_int_equal(r.accepted, r.verdict == SR1_RUN_PASSED);
        assert_int_equal(sr1_execution_test_count(run), rows[i].n_tests);
        for (size_t k = 0; k < sr1_execution_test_count(run); k++)
            assert_int_equal(sr1_execution_test_get(run, k, &r), SR1_OK);
        assert_int_equal(sr1_execution_test_get(run, 99, &r), SR1_E_NOT_FOUND);
        sr1_execution_free(run);
        sr1_sandbox_free(box);
        server_stop(&s);
    }
}

static void a_submission_has_the_services_fields(void **state)
{
    struct reply reply = {.body = JUDGED("true", "x", "")};
    struct script script = {&reply, 1};
    sr1_submission submission = submission_of();
    sr1_sandbox *box;
    sr1_execution *run = NULL;
    struct server s;
    json_t *j, *config, *test;

    (void)state;
    server_start(&s, play, &script);
    box = connect_to(&s);
    assert_int_equal(sr1_sandbox_submit(box, &submission, &run), SR1_OK);
    assert_int_equal(sr1_execution_wait(run, 30), SR1_OK);
    sr1_execution_free(run);
    submission.provided_data = "[1]";
    assert_int_equal(sr1_sandbox_submit(box, &submission, &run), SR1_E_INVALID);
    sr1_sandbox_free(box);
    server_stop(&s);
    assert_non_null(strstr(s.last, "POST /submit HTTP/1.1\r\n"));
    j = last_body(&s);
    config = json_object_get(j, "config");
    assert_member(j, "dataset", "code_contests");
    assert_member(j, "id", "7");
    assert_member(j, "completion", "```python\nprint(42)\n```");
    assert_member(config, "dataset_type", "CommonOJDataset");
    assert_member(config, "language", "python");
    assert_true(json_number_value(json_object_get(config, "run_timeout")) == 4);
    assert_true(
        json_is_true(json_object_get(json_object_get(config, "extra"), "run_all_cases")));
    test = json_array_get(
        json_object_get(json_object_get(config, "provided_data"), "test"), 0);
    assert_member(json_object_get(test, "output"), "stdout", "42");
    json_decref(j);
}

static void slow_answers_delay_no_other(void **state)
{
    const struct reply replies[] = {{.body = SUCCESS, .delay_s = 20}, {.body = SUCCESS}};
    struct script script = {replies, 2};
    sr1_program p = program_of("print(42)");
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *slow = NULL, *runs[30];
    sr1_sandbox *box;
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    box = connect_to(&s);
    assert_int_equal(sr1_sandbox_start(box, &p, &slow), SR1_OK);
    while (atomic_load(&s.requests) == 0)
        usleep(1000);
    for (int i = 0; i < 30; i++)
        assert_int_equal(sr1_sandbox_start(box, &p, &runs[i]), SR1_OK);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(sr1_execution_wait(runs[i], 15), SR1_OK);
        sr1_execution_free(runs[i]);
    }
    assert_int_equal(sr1_execution_wait(slow, 0), SR1_E_TIMEOUT);
    sr1_execution_cancel(slow);
    assert_int_equal(sr1_execution_wait(slow, 10), SR1_OK);
    assert_int_equal(sr1_execution_result_get(slow, &r), SR1_OK);
    assert_int_equal(r.verdict, SR1_RUN_CANCELLED);
    sr1_execution_free(slow);
    sr1_sandbox_free(box);
    server_stop(&s);
    assert_true(atomic_load(&s.peak) <= 8);
}

/* Does each other thread of this process wait for something? */
static int others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int awake = 0;

    for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
        char path[300], state = 'S';
        FILE *f;

        if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        f = fopen(path, "r");
        if (f == NULL)
            continue;
        awake += fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state != 'S';
        fclose(f);
    }
    closedir(tasks);
    return awake == 0;
}

/* Two at once for one idle thread: the other one must get a thread of its own. */
static void of_two_that_come_at_once_none_waits_for_the_other(void **state)
{
    const struct reply replies[] = {{.body = SUCCESS, .delay_s = 20}, {.body = SUCCESS}};
    sr1_program p = program_of("print(42)");

    (void)state;
    for (int round = 0; round < 5; round++) {
        struct script script = {replies, 2};
        sr1_execution *runs[2];
        sr1_sandbox *box;
        struct server s;
        double begun;
        int ended = 0;

        server_start(&s, play, &script);
        box = connect_to(&s);
        usleep(50000);
        while (!others_sleep()) /* its first thread is one of them */
            usleep(1000);
        for (int i = 0; i < 2; i++)
            assert_int_equal(sr1_sandbox_start(box, &p, &runs[i]), SR1_OK);
        begun = sr1__now();
        while (!ended && sr1__now() < begun + 10)
            for (int i = 0; i < 2; i++)
                ended |= sr1_execution_wait(runs[i], 0.01) == SR1_OK;
        assert_true(ended);
        for (int i = 0; i < 2; i++)
            sr1_execution_free(runs[i]);
        sr1_sandbox_free(box);
        server_stop(&s);
    }
}

static void freeing_cancels_what_is_under_way(void **state)
{
    const struct reply reply = {.body = SUCCESS, .delay_s = 30};
    struct script script = {&reply, 1};
    sr1_program p = program_of("print(42)");
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *runs[20];
    sr1_sandbox *box;
    struct server s;
    double begun = sr1__now();

    (void)state;
    server_start(&s, play, &script);
    box = connect_to(&s);
    for (int i = 0; i < 20; i++)
        assert_int_equal(sr1_sandbox_start(box, &p, &runs[i]), SR1_OK);
    while (atomic_load(&s.requests) < 1)
        usleep(1000);
    sr1_sandbox_free(box);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sr1_execution_result_get(runs[i], &r), SR1_OK);
        assert_int_equal(r.verdict, SR1_RUN_CANCELLED);
        sr1_execution_free(runs[i]);
    }
    assert_true(sr1__now() - begun < 20);
    server_stop(&s);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    const char *args[] = {"x"}, *odd[] = {"a\xff"};
    const size_t one = 1;
    struct reply reply = {.body = SUCCESS};
    struct script script = {&reply, 1};
    sr1_submission submission;
    sr1_sandbox_options o;
    sr1_program p;
    sr1_sandbox *box, *none = NULL;
    sr1_execution *run = NULL;
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    box = connect_to(&s);
    p = program_of("\xff");
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.input = "a\0b";
    p.input_bytes = 3;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.args = args;
    p.n_args = 1;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.language = "c\xff";
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    p = program_of("1");
    p.file_paths = odd;
    p.file_bytes = args;
    p.file_sizes = &one;
    p.n_files = 1;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_E_INVALID);
    submission = submission_of();
    submission.id = "\xff";
    assert_int_equal(sr1_sandbox_submit(box, &submission, &run), SR1_E_INVALID);
    sr1_sandbox_free(box);
    server_stop(&s);
    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o.url = "ftp://x";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_INVALID);
    o.url = "http://localhost:8080/";
    o.token_env = "SR1_TEST_NO_SUCH_VARIABLE";
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_E_CONFIG);
    o.token_env = NULL;
    assert_int_equal(sr1_sandbox_open(&none, &o), SR1_OK);
    assert_string_equal(sr1_sandbox_describe(none),
                        "SandboxFusion at http://localhost:8080");
    sr1_sandbox_free(none);
}

static void keys_are_sent_and_not_told(void **state)
{
    const struct reply reply = {.code = 403};
    struct script script = {&reply, 1};
    sr1_sandbox_options o;
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_program p = program_of("1");
    sr1_sandbox *box = NULL;
    sr1_execution *run = NULL;
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    setenv("SR1_TEST_TOKEN", "hunter2", 1);
    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    o.url = s.url;
    o.token_env = "SR1_TEST_TOKEN";
    assert_int_equal(sr1_sandbox_open(&box, &o), SR1_OK);
    assert_int_equal(sr1_sandbox_run(box, &p, &run), SR1_OK);
    assert_int_equal(sr1_execution_result_get(run, &r), SR1_OK);
    assert_non_null(strstr(s.last, "Authorization: Bearer hunter2\r\n"));
    assert_null(strstr(r.message, "hunter2"));
    sr1_execution_free(run);
    sr1_sandbox_free(box);
    server_stop(&s);
    unsetenv("SR1_TEST_TOKEN");
}

static sr1_status ask_once(void *arg)
{
    struct server *s = arg;
    sr1_submission submission = submission_of();
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;
    sr1_execution *run = NULL;
    sr1_status status;

    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    o.url = s->url;
    o.retries = 0;
    status = sr1_sandbox_open(&box, &o);
    if (status == SR1_OK)
        status = sr1_sandbox_submit(box, &submission, &run);
    if (status == SR1_OK)
        status = sr1_execution_wait(run, -1);
    if (status == SR1_OK)
        status = sr1_execution_result_get(run, &r);
    if (status == SR1_OK && r.verdict == SR1_RUN_INFRASTRUCTURE)
        status = SR1_E_NOMEM;
    sr1_execution_free(run);
    sr1_sandbox_free(box);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    struct reply reply = {
        .body = JUDGED("false", "x", TEST("true", SUCCESS) ", " TEST("false", SUCCESS))};
    struct script script = {&reply, 1};
    struct server s;

    (void)state;
    server_start(&s, play, &script);
    assert_true(torture(ask_once, &s) > 20);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_become_verdicts),
        cmocka_unit_test(failures_are_tried_again),
        cmocka_unit_test(requests_have_the_services_fields),
        cmocka_unit_test(submissions_are_judged),
        cmocka_unit_test(a_submission_has_the_services_fields),
        cmocka_unit_test(slow_answers_delay_no_other),
        cmocka_unit_test(of_two_that_come_at_once_none_waits_for_the_other),
        cmocka_unit_test(freeing_cancels_what_is_under_way),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(keys_are_sent_and_not_told),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
