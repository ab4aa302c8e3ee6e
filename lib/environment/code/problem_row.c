/* environment/code/problem_row.c - helpers of the readers of problems: members of a row,
 * tests. */
#include "environment/code/problems.h"

#include "base/mem.h"

#include <string.h>

/* ---- members ---- */

sr1_status sr1__copy_text(char **out, const char *s, size_t n)
{
    *out = sr1__strndup(s, n);
    return *out != NULL ? SR1_OK : sr1__fail_nomem("code problem");
}

sr1_status sr1__row_text(const json_t *row, const char *key, char **out)
{
    const json_t *v = sr1__json_given(row, key);

    if (v == NULL)
        return SR1_OK;
    if (!json_is_string(v))
        return sr1__fail(SR1_E_PARSE, "'%s' is no text", key);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return sr1__fail(SR1_E_PARSE, "'%s' holds a NUL", key);
    return sr1__copy_text(out, json_string_value(v), json_string_length(v));
}

sr1_status sr1__row_need(const json_t *row, const char *key, char **out)
{
    SR1__TRY(sr1__row_text(row, key, out));
    if (*out == NULL || **out == '\0')
        return sr1__fail(SR1_E_PARSE, "'%s' is missing or empty", key);
    return SR1_OK;
}

sr1_status sr1__row_json(const json_t *row, const char *key, json_t **out)
{
    json_t *v = json_object_get(row, key);

    *out = NULL;
    if (v == NULL || json_is_null(v) || (json_is_string(v) && !*json_string_value(v)))
        return SR1_OK;
    if (json_is_string(v))
        return sr1__json_parse(out, json_string_value(v), json_string_length(v), key);
    *out = json_incref(v);
    return SR1_OK;
}

/* ---- tests ---- */

int sr1__wants_tests(const struct sr1_problem *p)
{
    return p->n_tests < p->max_tests;
}

sr1_status sr1__add_test(struct sr1_problem *p, int32_t style, const char *input,
                         size_t input_len, const char *expected, size_t expected_len)
{
    struct sr1__test *t;
    char *both;

    if (p->style >= 0 && p->style != style)
        return sr1__fail(SR1_E_PARSE, "tests of different styles in one problem");
    p->style = style;
    if (!sr1__wants_tests(p))
        return SR1_OK;
    if (p->n_tests >= SR1_PROBLEM_TESTS_MAX)
        return sr1__fail(SR1_E_LIMIT, "more than %d tests; max_tests keeps the first",
                         SR1_PROBLEM_TESTS_MAX);
    SR1__RESERVE(p->tests, p->tests_cap, p->n_tests + 1, "tests");
    both = sr1__malloc(input_len + expected_len + 2); /* rows are bounded */
    SR1__CHECK_ALLOC(both, "tests");
    memcpy(both, input, input_len);
    both[input_len] = '\0';
    memcpy(both + input_len + 1, expected, expected_len);
    both[input_len + 1 + expected_len] = '\0';
    t = &p->tests[p->n_tests++];
    t->input = both;
    t->input_len = input_len;
    t->expected = both + input_len + 1;
    t->expected_len = expected_len;
    return SR1_OK;
}

/* A text, or a list of texts that are lines, appended. */
static sr1_status append_text_lines(struct sr1__buf *b, const json_t *v)
{
    const json_t *line;
    size_t i;

    if (json_is_string(v)) {
        sr1__buf_add(b, json_string_value(v), json_string_length(v));
        return SR1_OK;
    }
    if (!json_is_array(v))
        return sr1__fail(SR1_E_PARSE, "a test's input or output is no text");
    json_array_foreach(v, i, line)
    {
        if (!json_is_string(line))
            return sr1__fail(SR1_E_PARSE,
                             "a line of a test's input or output is no text");
        sr1__buf_add(b, json_string_value(line), json_string_length(line));
        sr1__buf_char(b, '\n');
    }
    return SR1_OK;
}

sr1_status sr1__add_stdio(struct sr1_problem *p, const json_t *input,
                          const json_t *output)
{
    struct sr1__buf in, out;
    sr1_status status;

    sr1__buf_init(&in, 0);
    sr1__buf_init(&out, 0);
    status = append_text_lines(&in, input);
    if (status == SR1_OK)
        status = append_text_lines(&out, output);
    if (status == SR1_OK)
        status = sr1__buf_status(&in, "test");
    if (status == SR1_OK)
        status = sr1__buf_status(&out, "test");
    if (status == SR1_OK)
        status = sr1__add_test(p, SR1_CODE_STDIO, sr1__buf_cstr(&in), in.len,
                               sr1__buf_cstr(&out), out.len);
    sr1__buf_free(&in);
    sr1__buf_free(&out);
    return status;
}

static sr1_status add_json_call(struct sr1_problem *p, const json_t *args,
                                const json_t *expected)
{
    struct sr1__buf in, out;
    sr1_status status;

    if (!json_is_array(args) || expected == NULL)
        return sr1__fail(SR1_E_PARSE, "a test needs 'args', a list, and 'expected'");
    sr1__buf_init(&in, 0);
    sr1__buf_init(&out, 0);
    status = sr1__json_dump(args, 0, &in);
    if (status == SR1_OK)
        status = sr1__json_dump(expected, 0, &out);
    if (status == SR1_OK)
        status = sr1__add_test(p, SR1_CODE_CALL, in.data, in.len, out.data, out.len);
    sr1__buf_free(&in);
    sr1__buf_free(&out);
    return status;
}

static sr1_status add_one(struct sr1_problem *p, const json_t *t)
{
    const json_t *in = json_object_get(t, "input");
    const json_t *out = json_object_get(t, "output");

    if (json_is_string(t)) {
        if (strlen(json_string_value(t)) != json_string_length(t))
            return sr1__fail(SR1_E_PARSE, "a test holds a NUL");
        return sr1__add_test(p, SR1_CODE_ASSERT, json_string_value(t),
                             json_string_length(t), "", 0);
    }
    if (json_object_get(t, "args") != NULL)
        return add_json_call(p, json_object_get(t, "args"),
                             json_object_get(t, "expected"));
    if (json_object_get(t, "stdin") != NULL)
        return sr1__add_stdio(p, json_object_get(t, "stdin"),
                              json_object_get(t, "stdout"));
    if (json_is_object(in) && json_is_object(out))
        return sr1__add_stdio(p, json_object_get(in, "stdin"),
                              json_object_get(out, "stdout"));
    return sr1__add_stdio(p, in, out);
}

sr1_status sr1__add_tests(struct sr1_problem *p, const json_t *tests)
{
    const json_t *t;
    size_t i;

    if (!json_is_array(tests))
        return sr1__fail(SR1_E_PARSE, "the tests are no list");
    json_array_foreach(tests, i, t)
    {
        if (!sr1__wants_tests(p))
            break;
        SR1__TRY(sr1__context(add_one(p, t), "test %zu", i));
    }
    return SR1_OK;
}

/* ---- names ---- */

int sr1__is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

int sr1__has_word(const char *text, const char *name, size_t n)
{
    for (const char *at = text; (at = strchr(at, name[0])) != NULL; at++)
        if (strncmp(at, name, n) == 0 && !sr1__is_name(at[n]) &&
            (at == text || !sr1__is_name(at[-1])))
            return 1;
    return 0;
}
