/* environment/code/functional.c - rows whose tests may be calls of a function: APPS, TACO
 * and LiveCodeBench.
 *
 * Arguments and results are kept as their JSON text, never read here: a number in them
 * may be longer than any integer of C. */
#include "environment/code/problems.h"

#include "base/mem.h"
#include "base/pull.h"

#include <string.h>

/* ---- calls ---- */

/* s[0..n) is one JSON value? */
static sr1_status check_json_value(const char *s, size_t n, const char *what)
{
    char *copy = sr1__strndup(s, n);
    struct sr1__pull *pull = sr1__malloc(sizeof(*pull));
    sr1_status status = SR1_OK;

    if (copy == NULL || pull == NULL) {
        status = sr1__fail_nomem("test");
    } else {
        sr1__pull_init(pull, copy);
        sr1__pull_skip(pull, NULL);
        sr1__pull_end(pull, copy + n);
        if (pull->error != NULL)
            status = sr1__fail(SR1_E_PARSE, "%s: %s", what, pull->error);
    }
    sr1__free(copy);
    sr1__free(pull);
    return status;
}

/* A call: arguments as a JSON list or as lines of JSON; the result as JSON. */
static sr1_status add_call_lines(struct sr1_problem *p, const char *lines, size_t n,
                                 const char *expected, size_t expected_n)
{
    struct sr1__buf args;
    sr1_status status;
    size_t at = 0;

    sr1__buf_init(&args, 0);
    sr1__buf_char(&args, '[');
    while (at < n) {
        const char *end = memchr(lines + at, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - lines) - at : n - at;

        if (len > strspn(lines + at, " \t\r")) {
            sr1__buf_str(&args, args.len > 1 ? "," : "");
            sr1__buf_add(&args, lines + at, len);
        }
        at += len + 1;
    }
    sr1__buf_char(&args, ']');
    status = sr1__buf_status(&args, "arguments");
    if (status == SR1_OK)
        status = check_json_value(args.data, args.len, "arguments");
    if (status == SR1_OK)
        status = check_json_value(expected, expected_n, "result");
    if (status == SR1_OK)
        status =
            sr1__add_test(p, SR1_CODE_CALL, args.data, args.len, expected, expected_n);
    sr1__buf_free(&args);
    return status;
}

/* ---- input_output ---- */

/* Its members as text. */
struct io_columns {
    struct sr1__pull_span inputs;
    struct sr1__pull_span outputs;
    struct sr1__pull_span function; /* p NULL: none */
};

static void read_columns(struct sr1__pull *s, struct io_columns *c)
{
    struct sr1__pull_span name;

    sr1__pull_open(s);
    while (sr1__pull_more(s)) {
        sr1__pull_name(s, &name);
        if (s->error != NULL)
            return;
        if (sr1__pull_name_is(&name, "inputs"))
            sr1__pull_skip(s, &c->inputs);
        else if (sr1__pull_name_is(&name, "outputs"))
            sr1__pull_skip(s, &c->outputs);
        else if (sr1__pull_name_is(&name, "fn_name") &&
                 sr1__pull_peek(s) == SR1__PULL_STRING)
            sr1__pull_string(s, &c->function);
        else
            sr1__pull_skip(s, NULL);
    }
}

static sr1_status check_read(const struct sr1__pull *in, const struct sr1__pull *out)
{
    const char *error = in->error != NULL ? in->error : out->error;

    return error != NULL ? sr1__fail(SR1_E_PARSE, "%s", error) : SR1_OK;
}

static sr1_status add_text_call(struct sr1_problem *p, struct sr1__pull *in,
                                struct sr1__pull *out)
{
    struct sr1__pull_span args, expected;

    sr1__pull_string(in, &args);
    if (sr1__pull_peek(out) == SR1__PULL_STRING)
        sr1__pull_string(out, &expected);
    else
        sr1__pull_skip(out, &expected);
    SR1__TRY(check_read(in, out));
    return add_call_lines(p, args.p, args.n, expected.p, expected.n);
}

/* Arguments in a list; or in a text, a line each, as LiveCodeBench has them. */
static sr1_status add_pulled_call(struct sr1_problem *p, struct sr1__pull *in,
                                  struct sr1__pull *out)
{
    struct sr1__pull_span args, expected;

    if (sr1__pull_peek(in) == SR1__PULL_STRING)
        return add_text_call(p, in, out);
    if (sr1__pull_peek(in) != SR1__PULL_LIST)
        return sr1__fail(SR1_E_PARSE, "an element of 'inputs' is no list of arguments");
    sr1__pull_skip(in, &args);
    sr1__pull_skip(out, &expected);
    SR1__TRY(check_read(in, out));
    p->unwrap = 1;
    return sr1__add_test(p, SR1_CODE_CALL, args.p, args.n, expected.p, expected.n);
}

static sr1_status add_raw_stdio(struct sr1_problem *p, struct sr1__pull *in,
                                struct sr1__pull *out)
{
    struct sr1__pull_span a, b;
    json_t *input = NULL, *output = NULL;
    sr1_status status;

    sr1__pull_skip(in, &a);
    sr1__pull_skip(out, &b);
    SR1__TRY(check_read(in, out));
    status = sr1__json_parse(&input, a.p, a.n, "input");
    if (status == SR1_OK)
        status = sr1__json_parse(&output, b.p, b.n, "output");
    if (status == SR1_OK)
        status = sr1__add_stdio(p, input, output);
    json_decref(input);
    json_decref(output);
    return status;
}

static sr1_status add_pairs(struct sr1_problem *p, struct sr1__pull *in,
                            struct sr1__pull *out)
{
    int more_in, more_out;

    if (sr1__pull_peek(in) != SR1__PULL_LIST || sr1__pull_peek(out) != SR1__PULL_LIST)
        return sr1__fail(SR1_E_PARSE, "input_output: '%s' is no list",
                         sr1__pull_peek(in) != SR1__PULL_LIST ? "inputs" : "outputs");
    sr1__pull_open(in);
    sr1__pull_open(out);
    for (size_t i = 0;; i++) {
        more_in = sr1__pull_more(in);
        more_out = sr1__pull_more(out);
        SR1__TRY(sr1__context(check_read(in, out), "input_output, test %zu", i));
        if (!more_in && !more_out)
            return SR1_OK;
        if (more_in != more_out)
            return sr1__fail(SR1_E_PARSE, "'inputs' and 'outputs' are not of one length");
        if (!sr1__wants_tests(p))
            return SR1_OK;
        SR1__TRY(sr1__context(p->entry != NULL ? add_pulled_call(p, in, out)
                                               : add_raw_stdio(p, in, out),
                              "input_output, test %zu", i));
    }
}

static sr1_status add_io_columns(struct sr1_problem *p, struct io_columns *c)
{
    struct sr1__pull *pulls = sr1__malloc(2 * sizeof(*pulls));
    sr1_status status;

    SR1__CHECK_ALLOC(pulls, "input_output");
    sr1__pull_init(&pulls[0], c->inputs.p);
    sr1__pull_init(&pulls[1], c->outputs.p);
    status = add_pairs(p, &pulls[0], &pulls[1]);
    sr1__free(pulls);
    return status;
}

/* The text of a member, ended with a NUL so that it can be read alone. Strings have been
 * passed over, and what follows them has been read: the NUL falls on a comma, a bracket
 * or a space. */
static void end_here(struct sr1__pull_span *raw)
{
    raw->p[raw->n] = '\0';
}

/* input_output as APPS, TACO and LiveCodeBench have it, as text (not changed). */
static sr1_status add_input_output(struct sr1_problem *p, const char *text, size_t n)
{
    char *copy = sr1__strndup(text, n);
    struct sr1__pull *s = sr1__malloc(sizeof(*s));
    struct io_columns c = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    sr1_status status = SR1_OK;

    if (copy == NULL || s == NULL) {
        status = sr1__fail_nomem("input_output");
    } else {
        sr1__pull_init(s, copy);
        read_columns(s, &c);
        sr1__pull_end(s, copy + n);
        if (s->error != NULL)
            status = sr1__fail(SR1_E_PARSE, "input_output: %s", s->error);
        else if (c.inputs.p == NULL || c.outputs.p == NULL)
            status = sr1__fail(SR1_E_PARSE, "input_output has no 'inputs' and 'outputs'");
    }
    if (status == SR1_OK && p->entry == NULL && c.function.p != NULL)
        status = sr1__copy_text(&p->entry, c.function.p, c.function.n);
    if (status == SR1_OK) {
        end_here(&c.inputs);
        end_here(&c.outputs);
        status = add_io_columns(p, &c);
    }
    sr1__free(copy);
    sr1__free(s);
    return status;
}

/* A member that is such an object, or the text of one. */
static sr1_status read_input_output(struct sr1_problem *p, const json_t *v)
{
    struct sr1__buf text;
    sr1_status status;

    if (json_is_string(v))
        return add_input_output(p, json_string_value(v), json_string_length(v));
    if (!json_is_object(v))
        return sr1__fail(SR1_E_PARSE, "'input_output' is missing");
    sr1__buf_init(&text, 0);
    status = sr1__json_dump(v, 0, &text);
    if (status == SR1_OK)
        status = add_input_output(p, text.data, text.len);
    sr1__buf_free(&text);
    return status;
}

/* ---- APPS, TACO ---- */

/* As rows without tests have it there. */
static int is_empty_text(const json_t *v)
{
    return v == NULL || json_is_null(v) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

sr1_status sr1__read_apps(struct sr1_problem *p, const json_t *row)
{
    const json_t *first;
    json_t *solutions = NULL;
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__row_need(row, "question", &p->text));
    SR1__TRY(sr1__row_text(row, "starter_code", &p->starter));
    if (!is_empty_text(json_object_get(row, "input_output")))
        SR1__TRY(read_input_output(p, json_object_get(row, "input_output")));
    SR1__TRY(sr1__row_json(row, "solutions", &solutions));
    first = json_array_get(solutions, 0);
    if (json_is_string(first) &&
        strlen(json_string_value(first)) == json_string_length(first))
        status = sr1__copy_text(&p->reference, json_string_value(first),
                                json_string_length(first));
    json_decref(solutions);
    return status;
}

/* ---- LiveCodeBench ---- */

static sr1_status add_case(struct sr1_problem *p, const json_t *c)
{
    const json_t *in = json_object_get(c, "input");
    const json_t *out = json_object_get(c, "output");
    const char *type = json_string_value(json_object_get(c, "testtype"));

    if (!json_is_string(in) || !json_is_string(out))
        return sr1__fail(SR1_E_PARSE, "'input' and 'output' are no texts");
    if (type != NULL && strcmp(type, "functional") == 0)
        return add_call_lines(p, json_string_value(in), json_string_length(in),
                              json_string_value(out), json_string_length(out));
    return sr1__add_stdio(p, in, out);
}

static sr1_status add_cases(struct sr1_problem *p, const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    json_t *cases = NULL;
    const json_t *c;
    sr1_status status = SR1_OK;
    size_t i;

    if (json_is_string(v) && json_string_value(v)[0] != '[')
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "'%s' is compressed; unpack it with python3 -m "
                         "searchr1.livecodebench IN OUT "
                         "(searchr1.code.unpack_livecodebench)",
                         key);
    SR1__TRY(sr1__row_json(row, key, &cases));
    if (cases != NULL && !json_is_array(cases))
        status = sr1__fail(SR1_E_PARSE, "'%s' is no list", key);
    json_array_foreach(cases, i, c) if (status == SR1_OK && sr1__wants_tests(p)) status =
        sr1__context(add_case(p, c), "%s, test %zu", key, i);
    json_decref(cases);
    return status;
}

static sr1_status read_function(struct sr1_problem *p, const json_t *row)
{
    json_t *metadata = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_json(row, "metadata", &metadata));
    status = sr1__row_text(metadata, "func_name", &p->entry);
    json_decref(metadata);
    return status;
}

sr1_status sr1__read_livecodebench(struct sr1_problem *p, const json_t *row)
{
    const json_t *test = json_object_get(row, "test");

    if (json_is_object(test)) {
        SR1__TRY(sr1__row_need(row, "content", &p->text));
        p->as_is = 1;
        return read_input_output(p, json_object_get(test, "input_output"));
    }
    SR1__TRY(sr1__row_need(row, "question_content", &p->text));
    SR1__TRY(sr1__row_text(row, "starter_code", &p->starter));
    SR1__TRY(read_function(p, row));
    SR1__TRY(add_cases(p, row, "public_test_cases"));
    return add_cases(p, row, "private_test_cases");
}
