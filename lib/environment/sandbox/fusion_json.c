/* environment/sandbox/fusion_json.c - POST /run_code and POST /submit of SandboxFusion.
 *
 *     /run_code  <- {code, language, compile_timeout, run_timeout, memory_limit_MB?,
 *                    stdin?, files {path: base64}}
 *                -> {status Success|Failed|SandboxError, message, compile_result,
 *                    run_result null | {status Finished|Error|TimeLimitExceeded,
 *                    execution_time, return_code, stdout, stderr}}
 *     /submit    <- {dataset, id, completion, config {dataset_type, language,
 * run_timeout?, provided_data, extra}}
 *                -> {accepted, extracted_code, tests [{passed, exec_info (as above)}]} */
#include "environment/sandbox/fusion_json.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "environment/sandbox/capture.h"
#include "environment/sandbox/verdict.h"

#include <math.h>
#include <string.h>

#define COMPILE_S 10.0
#define TESTS_MAX 100000

/* ---- requests ---- */

static sr1_status check_object(const char *text, const char *what)
{
    json_t *j = NULL;
    sr1_status st = sr1__json_parse(&j, text, strlen(text), what);

    if (st == SR1_OK && !json_is_object(j))
        st = sr1__fail(SR1_E_INVALID, "%s: not a JSON object", what);
    json_decref(j);
    return st == SR1_E_PARSE ? SR1_E_INVALID : st;
}

static int is_utf8_or_null(const char *s)
{
    return s == NULL || sr1__utf8_valid(s, strlen(s));
}

/* All that goes into a request as text. */
static int can_be_sent(const struct sr1__sandbox_job *job)
{
    int fine = sr1__utf8_valid(job->code.data, job->code.n) &&
               is_utf8_or_null(job->language) && is_utf8_or_null(job->dataset) &&
               is_utf8_or_null(job->dataset_type) && is_utf8_or_null(job->id);

    if (job->input.n > 0)
        fine &= sr1__utf8_valid(job->input.data, job->input.n) &&
                memchr(job->input.data, '\0', job->input.n) == NULL;
    for (size_t i = 0; i < job->n_files; i++)
        fine &= is_utf8_or_null(job->files[i].path);
    return fine;
}

sr1_status sr1__fusion_check(const struct sr1__sandbox_job *job)
{
    if (job->n_args > 0)
        return sr1__fail(SR1_E_INVALID,
                         "program: a SandboxFusion service takes no arguments");
    if (!can_be_sent(job))
        return sr1__fail(SR1_E_INVALID,
                         "program: what goes to a service has to be UTF-8 without NUL");
    if (job->dataset == NULL)
        return SR1_OK;
    SR1__TRY(check_object(job->provided_data, "submission: provided_data"));
    return check_object(job->extra, "submission: extra");
}

static json_t *encode_base64(const struct sr1__job_bytes *b)
{
    struct sr1__buf text;
    json_t *j;

    sr1__buf_init(&text, 0);
    sr1__buf_room(&text, (b->n + 2) / 3 * 4);
    sr1__buf_base64(&text, b->data, b->n);
    j = text.status == SR1_OK ? json_stringn_nocheck(sr1__buf_cstr(&text), text.len)
                              : NULL;
    sr1__buf_free(&text);
    return j;
}

static json_t *json_of_bytes(const struct sr1__job_bytes *b)
{
    return json_stringn_nocheck(b->data, b->n);
}

static int add_program(json_t *o, const struct sr1__sandbox_job *job)
{
    json_t *files = json_object();
    int bad = json_object_set_new(o, "code", json_of_bytes(&job->code)) |
              json_object_set_new(o, "language", json_string(job->language)) |
              json_object_set_new(o, "compile_timeout",
                                  json_real(fmax(COMPILE_S, job->limits.time_s))) |
              json_object_set_new(o, "run_timeout", json_real(job->limits.time_s));

    if (job->limits.memory_asked)
        bad |= json_object_set_new(o, "memory_limit_MB",
                                   json_integer(job->limits.memory_mib));
    if (job->input.n > 0)
        bad |= json_object_set_new(o, "stdin", json_of_bytes(&job->input));
    for (size_t i = 0; i < job->n_files; i++)
        bad |= json_object_set_new(files, job->files[i].path,
                                   encode_base64(&job->files[i].bytes));
    return bad | json_object_set_new(o, "files", files);
}

/* Text that was checked before; NULL: no memory. */
static json_t *object_of(const char *text)
{
    json_t *j = NULL;

    return sr1__json_parse(&j, text, strlen(text), "submission") == SR1_OK ? j : NULL;
}

static int add_submission(json_t *o, const struct sr1__sandbox_job *job)
{
    json_t *config = json_object();
    int bad =
        json_object_set_new(o, "dataset", json_string(job->dataset)) |
        json_object_set_new(o, "id", json_string(job->id)) |
        json_object_set_new(o, "completion", json_of_bytes(&job->code)) |
        json_object_set_new(config, "dataset_type", json_string(job->dataset_type)) |
        json_object_set_new(config, "language", json_string(job->language)) |
        json_object_set_new(config, "provided_data", object_of(job->provided_data)) |
        json_object_set_new(config, "extra", object_of(job->extra));

    if (job->limits.time_s > 0)
        bad |= json_object_set_new(config, "run_timeout", json_real(job->limits.time_s));
    return bad | json_object_set_new(o, "config", config);
}

sr1_status sr1__fusion_request(const struct sr1__sandbox_job *job, struct sr1__buf *out)
{
    json_t *o = json_object();
    int bad = job->dataset != NULL ? add_submission(o, job) : add_program(o, job);
    sr1_status st = bad ? sr1__fail_nomem("request") : sr1__json_dump(o, 0, out);

    json_decref(o);
    return st;
}

/* ---- answers ---- */

static const char *read_string_member(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text != NULL ? text : "";
}

static int member_is(const json_t *o, const char *key, const char *value)
{
    return strcmp(read_string_member(o, key), value) == 0;
}

static sr1_status take_output(const json_t *result, const struct sr1__sandbox_job *job,
                              size_t error_bytes, struct sr1__outcome *o, int64_t *total)
{
    const json_t *out = json_object_get(result, "stdout");
    const json_t *err = json_object_get(result, "stderr");
    size_t n = json_string_length(out);
    struct sr1__capture c;
    sr1_status st;

    *total = (int64_t)n;
    if (n > (size_t)job->limits.output_bytes)
        n = (size_t)job->limits.output_bytes;
    sr1__buf_add(&o->out, n > 0 ? json_string_value(out) : "", n);
    SR1__TRY(sr1__buf_status(&o->out, "output of a program"));
    SR1__TRY(sr1__capture_init_ends(&c, error_bytes));
    sr1__capture_add(&c, json_string_length(err) > 0 ? json_string_value(err) : "",
                     json_string_length(err));
    o->err_total = c.total;
    st = sr1__capture_take(&c, &o->err);
    sr1__capture_free(&c);
    return st;
}

static const struct sr1__job_bytes any_output = {NULL, 0};

/* One command of two (compile, run) as the end of a program. */
static sr1_status read_command(const json_t *result, const struct sr1__sandbox_job *job,
                               size_t error_bytes, const struct sr1__job_bytes *expected,
                               struct sr1__outcome *o)
{
    struct sr1__end end = {.cpu_s = -1, .peak_bytes = -1};
    const json_t *code = json_object_get(result, "return_code");
    json_int_t value = json_integer_value(code);

    SR1__TRY(take_output(result, job, error_bytes, o, &end.out_total));
    o->wall_s = json_number_value(json_object_get(result, "execution_time"));
    if (!(o->wall_s >= 0 && o->wall_s < 1e9))
        o->wall_s = 0;
    if (member_is(result, "status", "Error")) {
        sr1__outcome_set(o, SR1_RUN_INFRASTRUCTURE,
                         "the service could not run it: %.300s", sr1__buf_cstr(&o->err));
        return SR1_OK;
    }
    if (member_is(result, "status", "TimeLimitExceeded"))
        end.stop = SR1__STOP_TIME;
    else if (!member_is(result, "status", "Finished") || !json_is_integer(code) ||
             value < -64 || value > 0xffff)
        return sr1__fail(SR1_E_PARSE, "no status and return_code of a command");
    end.signal = value < 0 ? (int)-value : 0;
    end.exit_code = value < 0 ? -1 : (int)value;
    if (end.stop == SR1__STOP_TIME)
        end.exit_code = -1;
    sr1__verdict(o, &end, &job->limits, expected);
    return SR1_OK;
}

/* An answer whose status contradicts its results is refused as unreadable. */
static sr1_status check_status_agrees(const json_t *j, const struct sr1__outcome *o)
{
    if (member_is(j, "status", "Failed") && o->exit_code == 0)
        return sr1__fail(SR1_E_PARSE, "it failed, but its exit code is 0");
    return SR1_OK;
}

/* An answer of /run_code. */
static sr1_status read_run_code_answer(const json_t *j,
                                       const struct sr1__sandbox_job *job,
                                       size_t error_bytes,
                                       const struct sr1__job_bytes *expected,
                                       struct sr1__outcome *o)
{
    const json_t *compiled = json_object_get(j, "compile_result");
    const json_t *run = json_object_get(j, "run_result");

    if (member_is(j, "status", "SandboxError")) {
        sr1__outcome_set(o, SR1_RUN_INFRASTRUCTURE, "SandboxError: %.300s",
                         read_string_member(j, "message"));
        return SR1_OK;
    }
    if (!member_is(j, "status", "Success") && !member_is(j, "status", "Failed"))
        return sr1__fail(SR1_E_PARSE, "no status");
    if (!json_is_object(compiled) && !json_is_object(run))
        return sr1__fail(SR1_E_PARSE, "no run_result");
    if (json_is_object(run))
        SR1__TRY(read_command(run, job, error_bytes, expected, o));
    else
        SR1__TRY(read_command(compiled, job, error_bytes, &any_output, o));
    if (!json_is_object(run) && o->exit_code == 0)
        return sr1__fail(SR1_E_PARSE, "it was compiled, and there is no run_result");
    return check_status_agrees(j, o);
}

static sr1_status read_test(const json_t *j, const struct sr1__sandbox_job *job,
                            size_t error_bytes, struct sr1__outcome *o)
{
    const json_t *passed = json_object_get(j, "passed");

    if (!json_is_boolean(passed))
        return sr1__fail(SR1_E_PARSE, "a test without 'passed'");
    SR1__TRY(read_run_code_answer(json_object_get(j, "exec_info"), job, error_bytes,
                                  &any_output, o));
    if (json_is_true(passed))
        sr1__outcome_set(o, SR1_RUN_PASSED, "%s", "");
    else if (o->verdict == SR1_RUN_PASSED)
        sr1__outcome_set(o, SR1_RUN_WRONG, "its output is not the expected one");
    return SR1_OK;
}

static sr1_status read_tests(const json_t *tests, const struct sr1__sandbox_job *job,
                             size_t error_bytes, struct sr1__fusion_answer *out)
{
    size_t n = json_array_size(tests);

    if (!json_is_array(tests) || n > TESTS_MAX)
        return sr1__fail(SR1_E_PARSE, "no list of tests");
    if (n > 0 && (out->tests = sr1__calloc(n, sizeof(*out->tests))) == NULL)
        return sr1__fail_nomem("tests of a submission");
    for (size_t i = 0; i < n; i++) {
        sr1__outcome_init(&out->tests[i]);
        out->n_tests++;
        SR1__TRY(read_test(json_array_get(tests, i), job, error_bytes, &out->tests[i]));
    }
    return SR1_OK;
}

/* Not accepted: as its first test that did not pass, one that could not be run first. */
static void sum_up_submission(struct sr1__fusion_answer *a, int has_code)
{
    struct sr1__outcome *first = NULL;

    for (size_t i = 0; i < a->n_tests; i++) {
        struct sr1__outcome *t = &a->tests[i];

        if (t->verdict == SR1_RUN_INFRASTRUCTURE) {
            first = t;
            break;
        }
        if (t->verdict != SR1_RUN_PASSED && first == NULL)
            first = t;
    }
    if (first != NULL) {
        sr1__outcome_set(&a->outcome, first->verdict, "test %d of %d: %.400s",
                         (int)(first - a->tests) + 1, (int)a->n_tests, first->message);
        a->outcome.exit_code = first->exit_code;
        a->outcome.signal = first->signal;
    } else {
        sr1__outcome_set(&a->outcome, SR1_RUN_WRONG, "%s",
                         has_code ? "not accepted" : "no code was found in it");
    }
}

static sr1_status read_submission(const json_t *j, const struct sr1__sandbox_job *job,
                                  size_t error_bytes, struct sr1__fusion_answer *out)
{
    const json_t *accepted = json_object_get(j, "accepted");

    if (!json_is_boolean(accepted))
        return sr1__fail(SR1_E_PARSE, "no 'accepted'");
    SR1__TRY(read_tests(json_object_get(j, "tests"), job, error_bytes, out));
    for (size_t i = 0; i < out->n_tests; i++)
        out->outcome.wall_s += out->tests[i].wall_s;
    if (json_is_true(accepted))
        sr1__outcome_set(&out->outcome, SR1_RUN_PASSED, "%s", "");
    else
        sum_up_submission(out, *read_string_member(j, "extracted_code") != '\0');
    return SR1_OK;
}

sr1_status sr1__fusion_read(const struct sr1__sandbox_job *job, size_t error_bytes,
                            const char *body, size_t n, struct sr1__fusion_answer *out)
{
    json_t *j = NULL;
    sr1_status st;

    memset(out, 0, sizeof *out);
    sr1__outcome_init(&out->outcome);
    st = sr1__json_parse(&j, body, n, "answer");
    if (st == SR1_OK)
        st = job->dataset != NULL ? read_submission(j, job, error_bytes, out)
                                  : read_run_code_answer(j, job, error_bytes,
                                                         &job->expected, &out->outcome);
    json_decref(j);
    if (st != SR1_OK)
        sr1__fusion_answer_free(out);
    return st;
}

void sr1__fusion_answer_free(struct sr1__fusion_answer *a)
{
    sr1__outcome_free(&a->outcome);
    for (size_t i = 0; i < a->n_tests; i++)
        sr1__outcome_free(&a->tests[i]);
    sr1__free(a->tests);
    memset(a, 0, sizeof *a);
}
