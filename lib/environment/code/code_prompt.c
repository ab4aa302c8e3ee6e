/* environment/code/code_prompt.c - the prompt that asks a model to solve a problem. */
#include "environment/code/problems.h"

#include <string.h>

static const char function_request[] =
    "Write a Python function that solves the task below. Put the code, with the imports "
    "it needs, into one block that begins with ```python and ends with ```. Do not put "
    "tests or examples into it.\n\n";

static const char program_request[] =
    "Write a Python program that solves the task below. It reads from standard input and "
    "writes to standard output. Put the whole program into one block that begins with "
    "```python and ends with ```.\n\n";

static void ensure_line_end(struct sr1__buf *b)
{
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        sr1__buf_char(b, '\n');
}

/* The function's name and arguments, unless the task states them: from the code that a
 * solution begins with, from the first test's call, or the name alone. */
static void add_function_name(struct sr1__buf *b, const sr1_problem *p)
{
    if (p->starter != NULL && *p->starter != '\0') {
        sr1__buf_str(b, "\nBegin with this code:\n```python\n");
        sr1__buf_str(b, p->starter);
        ensure_line_end(b);
        sr1__buf_str(b, "```\n");
    } else if (p->entry != NULL && strstr(p->text, p->entry) != NULL) {
        return;
    } else if (p->style == SR1_CODE_ASSERT && strchr(p->tests[0].input, '\n') == NULL) {
        sr1__buf_fmt(b, "\nIt is called like this:\n%s\n", p->tests[0].input);
    } else if (p->entry != NULL) {
        sr1__buf_fmt(b, "\nThe function is named %s.\n", p->entry);
    }
}

sr1_status sr1_problem_prompt(const sr1_problem *problem, char **out)
{
    struct sr1__buf b;
    sr1_status status;
    char *text;

    if (problem == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "problem prompt: problem or out is NULL");
    sr1__buf_init(&b, 0);
    if (!problem->as_is)
        sr1__buf_str(&b, problem->style == SR1_CODE_STDIO ? program_request
                                                          : function_request);
    sr1__buf_str(&b, problem->text);
    if (!problem->as_is)
        ensure_line_end(&b);
    if (!problem->as_is && problem->style != SR1_CODE_STDIO)
        add_function_name(&b, problem);
    status = sr1__buf_status(&b, "problem prompt");
    text = status == SR1_OK ? sr1__buf_take(&b) : NULL;
    if (status == SR1_OK && text == NULL)
        status = sr1__fail_nomem("problem prompt");
    sr1__buf_free(&b);
    if (status == SR1_OK)
        *out = text;
    return status;
}
