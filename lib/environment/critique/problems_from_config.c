/* environment/critique/problems_from_config.c - load the problems that a configuration
 * names, files separated by commas, and check whether a question shows a critic the
 * answer it is to criticise. */
#include "environment/critique/problems_from_config.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

#define MOST_FILES 64

sr1_status sr1__problems_from_config(sr1_problems **out, const sr1_config *c)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__config_list(c, "code_problems", &names, &n));
    if (n == 0)
        st = sr1__fail(SR1_E_CONFIG,
                       "code_problems is empty; name the file of problems with "
                       "their tests (JSON lines)");
    else if (n > MOST_FILES)
        st = sr1__fail(SR1_E_CONFIG, "code_problems: at most %d files", MOST_FILES);
    else
        st = sr1_problems_load(out, (const char *const *)names, n, NULL);
    sr1__free(names);
    return sr1__context(st, "code_problems");
}

/* The visible characters of a text. */
static void add_visible(struct sr1__buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i]) || s[i] == '\0')
            sr1__buf_char(b, s[i]);
}

/* Is the program of the solution in the question, white space aside? */
static sr1_status find_program(const char *question, const char *solution, int *out)
{
    struct sr1__buf text, program;
    char *code = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1_code_extract(solution, strlen(solution), &code, &n, NULL));
    sr1__buf_init(&text, 0);
    sr1__buf_init(&program, 0);
    add_visible(&text, question, strlen(question));
    add_visible(&program, code, n);
    st = sr1__buf_status(&text, "question");
    if (st == SR1_OK)
        st = sr1__buf_status(&program, "solution");
    if (st == SR1_OK)
        *out = program.len == 0 ||
               (text.len > 0 && memmem(text.data, text.len, program.data, program.len));
    sr1__buf_free(&text);
    sr1__buf_free(&program);
    sr1_free(code);
    return st;
}

sr1_status sr1__critique_check_question(const sr1_problems *problems, const char *id,
                                        const char *question)
{
    const sr1_problem *problem = sr1_problems_find(problems, id);
    const char *solution = problem ? sr1_problem_solution(problem) : NULL;
    int shown = 1;

    if (solution)
        SR1__TRY(find_program(question, solution, &shown));
    if (shown)
        return SR1_OK;
    return sr1__fail(
        SR1_E_CONFIG,
        "question '%.64s' does not show the answer to criticise, the "
        "\"solution\" of its problem; in rows that sr1-data critiques --rows "
        "wrote, what does is the field critique_prompt: set question_field "
        "to it",
        id);
}
