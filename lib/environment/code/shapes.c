/* environment/code/shapes.c - rows of problems by the shapes that searchr1/ext/code.h
 * lists: the members that identify each shape, and the readers of plain rows, MBPP,
 * HumanEval and CodeContests. */
#include "environment/code/problems.h"

#include "base/mem.h"

#include <string.h>

static int has_member(const json_t *row, const char *key)
{
    return json_object_get(row, key) != NULL;
}

/* ---- plain ---- */

static int fits_plain(const json_t *row)
{
    return has_member(row, "tests");
}

static sr1_status read_plain_row(struct sr1_problem *p, const json_t *row)
{
    SR1__TRY(sr1__row_text(row, "problem", &p->text));
    if (p->text == NULL)
        SR1__TRY(sr1__row_need(row, "question", &p->text));
    SR1__TRY(sr1__row_text(row, "reference", &p->reference));
    SR1__TRY(sr1__row_text(row, "setup", &p->setup));
    SR1__TRY(sr1__row_text(row, "starter_code", &p->starter));
    SR1__TRY(sr1__row_text(row, "entry_point", &p->entry));
    SR1__TRY(sr1__add_tests(p, json_object_get(row, "tests")));
    if (p->entry == NULL && p->reference != NULL && p->style == SR1_CODE_ASSERT)
        SR1__TRY(sr1__find_entry(p, p->reference));
    return SR1_OK;
}

/* ---- MBPP, MBPP+ ---- */

static int fits_mbpp(const json_t *row)
{
    return has_member(row, "test_list") ||
           (has_member(row, "task_id") && has_member(row, "code") &&
            has_member(row, "test"));
}

/* test_setup_code, and the lines of test_imports. */
static sr1_status read_setup(struct sr1_problem *p, const json_t *row)
{
    const json_t *imports = json_object_get(row, "test_imports");
    struct sr1__buf b;
    const json_t *line;
    char *code = NULL;
    sr1_status status;
    size_t i;

    SR1__TRY(sr1__row_text(row, "test_setup_code", &code));
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, code != NULL ? code : "");
    json_array_foreach(imports, i, line) if (json_is_string(line))
        sr1__buf_fmt(&b, "%s%s", b.len > 0 ? "\n" : "", json_string_value(line));
    sr1__free(code);
    status = sr1__buf_status(&b, "test_imports");
    if (status == SR1_OK && b.len > 0)
        status = sr1__copy_text(&p->setup, b.data, b.len);
    sr1__buf_free(&b);
    return status;
}

static sr1_status read_mbpp_row(struct sr1_problem *p, const json_t *row)
{
    char *program = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_text(row, "text", &p->text));
    if (p->text == NULL)
        SR1__TRY(sr1__row_need(row, "prompt", &p->text));
    SR1__TRY(sr1__row_text(row, "code", &p->reference));
    SR1__TRY(read_setup(p, row));
    SR1__TRY(sr1__row_text(row, "test", &program));
    if (program != NULL)
        status = sr1__add_test(p, SR1_CODE_ASSERT, program, strlen(program), "", 0);
    else
        status = sr1__context(sr1__add_tests(p, json_object_get(row, "test_list")),
                              "test_list");
    sr1__free(program);
    if (status != SR1_OK || p->reference == NULL)
        return status;
    return sr1__find_entry(p, p->reference);
}

/* ---- HumanEval ---- */

static int fits_humaneval(const json_t *row)
{
    return has_member(row, "canonical_solution");
}

/* The text of a prompt before the function that is to be completed. */
static sr1_status read_prelude(struct sr1_problem *p)
{
    struct sr1__buf line;
    const char *at;
    sr1_status status;

    sr1__buf_init(&line, 0);
    sr1__buf_fmt(&line, "\ndef %s(", p->entry);
    status = sr1__buf_status(&line, "entry_point");
    at = status == SR1_OK ? strstr(p->text, line.data) : NULL;
    sr1__buf_free(&line);
    SR1__TRY(status);
    return at != NULL ? sr1__copy_text(&p->prelude, p->text, (size_t)(at + 1 - p->text))
                      : SR1_OK;
}

/* a and b, one after the other. */
static sr1_status join_code(char **out, const char *a, const char *b)
{
    struct sr1__buf both;
    sr1_status status;

    sr1__buf_init(&both, 0);
    sr1__buf_str(&both, a);
    sr1__buf_str(&both, b);
    status = sr1__buf_status(&both, "code");
    if (status == SR1_OK)
        status = sr1__copy_text(out, sr1__buf_cstr(&both), both.len);
    sr1__buf_free(&both);
    return status;
}

/* test defines check(candidate). */
static sr1_status add_check(struct sr1_problem *p, const char *test)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s\n\ncheck(%s)\n", test, p->entry);
    status = sr1__buf_status(&b, "test");
    if (status == SR1_OK)
        status = sr1__add_test(p, SR1_CODE_ASSERT, b.data, b.len, "", 0);
    sr1__buf_free(&b);
    return status;
}

static sr1_status read_humaneval_row(struct sr1_problem *p, const json_t *row)
{
    char *solution = NULL, *test = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_need(row, "prompt", &p->text));
    SR1__TRY(sr1__row_need(row, "entry_point", &p->entry));
    SR1__TRY(read_prelude(p));
    status = sr1__row_need(row, "canonical_solution", &solution);
    if (status == SR1_OK)
        status = sr1__row_need(row, "test", &test);
    if (status == SR1_OK)
        status = join_code(&p->reference, p->text, solution);
    if (status == SR1_OK)
        status = add_check(p, test);
    sr1__free(solution);
    sr1__free(test);
    return status;
}

/* ---- CodeContests ---- */

static int fits_codecontests(const json_t *row)
{
    return has_member(row, "public_tests") || has_member(row, "private_tests") ||
           has_member(row, "generated_tests") ||
           (has_member(row, "content") && !json_is_object(json_object_get(row, "test")));
}

static sr1_status add_test_columns(struct sr1_problem *p, const json_t *tests)
{
    const json_t *in = json_object_get(tests, "input");
    const json_t *out = json_object_get(tests, "output");

    if (tests == NULL || json_is_null(tests))
        return SR1_OK;
    if (!json_is_array(in) || !json_is_array(out) ||
        json_array_size(in) != json_array_size(out))
        return sr1__fail(SR1_E_PARSE, "'input' and 'output' are no lists of one length");
    for (size_t i = 0; i < json_array_size(in) && sr1__wants_tests(p); i++)
        SR1__TRY(
            sr1__context(sr1__add_stdio(p, json_array_get(in, i), json_array_get(out, i)),
                         "test %zu", i));
    return SR1_OK;
}

static int is_python3(const json_t *language)
{
    if (json_is_string(language))
        return strcmp(json_string_value(language), "PYTHON3") == 0;
    return json_integer_value(language) == 3;
}

/* The first solution in Python 3, where there is one. */
static sr1_status find_python(struct sr1_problem *p, const json_t *solutions)
{
    const json_t *languages = json_object_get(solutions, "language");
    const json_t *texts = json_object_get(solutions, "solution");
    const json_t *language, *text;
    size_t i;

    json_array_foreach(languages, i, language)
    {
        text = json_array_get(texts, i);
        if (is_python3(language) && json_is_string(text) &&
            strlen(json_string_value(text)) == json_string_length(text))
            return sr1__copy_text(&p->reference, json_string_value(text),
                                  json_string_length(text));
    }
    return SR1_OK;
}

static sr1_status read_prepared(struct sr1_problem *p, const json_t *row)
{
    json_t *tests = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_need(row, "content", &p->text));
    p->as_is = 1;
    SR1__TRY(sr1__row_json(row, "test", &tests));
    status = sr1__context(sr1__add_tests(p, tests), "test");
    json_decref(tests);
    return status;
}

static sr1_status read_codecontests_row(struct sr1_problem *p, const json_t *row)
{
    static const char *const parts[] = {"public_tests", "private_tests",
                                        "generated_tests"};

    if (has_member(row, "content"))
        return read_prepared(p, row);
    SR1__TRY(sr1__row_need(row, "description", &p->text));
    for (size_t i = 0; i < 3; i++)
        SR1__TRY(sr1__context(add_test_columns(p, json_object_get(row, parts[i])), "%s",
                              parts[i]));
    return find_python(p, json_object_get(row, "solutions"));
}

/* ---- the table ---- */

static int fits_apps(const json_t *row)
{
    return has_member(row, "input_output");
}

static int fits_livecodebench(const json_t *row)
{
    return has_member(row, "public_test_cases") || has_member(row, "question_content") ||
           (has_member(row, "content") && json_is_object(json_object_get(row, "test")));
}

const struct sr1__shape sr1__shapes[] = {
    {"plain", fits_plain, read_plain_row, {"id"}},
    {"mbpp", fits_mbpp, read_mbpp_row, {"task_id", "id"}},
    {"humaneval", fits_humaneval, read_humaneval_row, {"task_id", "id"}},
    {"apps", fits_apps, sr1__read_apps, {"id", "problem_id", "task_id"}, 1},
    {"codecontests", fits_codecontests, read_codecontests_row, {"id", "name"}},
    {"livecodebench", fits_livecodebench, sr1__read_livecodebench, {"id", "question_id"}},
};
const size_t sr1__n_shapes = sizeof(sr1__shapes) / sizeof(sr1__shapes[0]);
