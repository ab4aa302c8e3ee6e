/* environment/critique/critique_prompts.c - the prompt of a critic, and the conversation
 * that asks for a revision (after Xie et al. 2025; the words of the request for a
 * revision and of the judgement line are the published ones, since trained models know
 * them). */
#include "environment/critique/critique_style.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define FINALIZE "Please finalize your answer accordingly using the same format."

/* The memory of a whole text; *out is set on success only. */
static sr1_status take_buffer_text(struct sr1__buf *b, const char *what, char **out)
{
    sr1_status st = sr1__buf_status(b, what);
    char *text = st == SR1_OK ? sr1__buf_take(b) : NULL;

    sr1__buf_free(b);
    SR1__TRY(st);
    SR1__CHECK_ALLOC(text, what);
    *out = text;
    return SR1_OK;
}

static void add_stripped(struct sr1__buf *b, const char *text, size_t len)
{
    size_t begin = 0;

    sr1__strip(text, &begin, &len);
    sr1__buf_utf8(b, text + begin, len);
}

/* A fence that the code does not close: one more backtick than its longest run. */
static void add_fence(struct sr1__buf *b, const char *code, size_t len, const char *tag)
{
    size_t longest = 2, run = 0;

    for (size_t i = 0; i < len; i++) {
        run = code[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        sr1__buf_char(b, '`');
    sr1__buf_str(b, tag);
}

static sr1_status append_sanitized_answer(struct sr1__buf *b, const char *answer,
                                          size_t len)
{
    char *code = NULL;
    size_t n = 0;
    int32_t found = SR1_CODE_WHOLE;

    SR1__TRY(sr1_code_extract(answer, len, &code, &n, &found));
    if (found == SR1_CODE_WHOLE) {
        add_stripped(b, answer, len);
    } else {
        add_fence(b, code, n, "python\n");
        sr1__buf_utf8(b, code, n);
        sr1__buf_str(b, n && code[n - 1] != '\n' ? "\n" : "");
        add_fence(b, code, n, "");
    }
    sr1_free(code);
    return SR1_OK;
}

sr1_status sr1_critique_sanitize(const char *answer, size_t len, char **out)
{
    struct sr1__buf b;
    sr1_status st;

    if ((!answer && len) || !out)
        return sr1__fail(SR1_E_INVALID, "sanitize: answer and out are needed");
    sr1__buf_init(&b, 0);
    st = append_sanitized_answer(&b, answer, len);
    if (st != SR1_OK) {
        sr1__buf_free(&b);
        return st;
    }
    return take_buffer_text(&b, "answer", out);
}

/* The answer given, or the problem's own. */
static sr1_status resolve_answer(const sr1_problem *problem, const char **answer,
                                 size_t *len)
{
    if (!problem)
        return sr1__fail(SR1_E_INVALID, "critique: problem is NULL");
    if (*answer)
        return SR1_OK;
    *answer = sr1_problem_solution(problem);
    if (!*answer)
        return sr1__fail(SR1_E_INVALID,
                         "problem '%.64s' has no \"solution\" to criticise; give one in "
                         "its row",
                         sr1_problem_id(problem));
    *len = strlen(*answer);
    return SR1_OK;
}

static void append_feedback_note(struct sr1__buf *b, const char *hint)
{
    if (!hint)
        return;
    sr1__buf_str(b,
                 "What is known of the answer from running it (use it, but write as if "
                 "you had found it by reading; never mention this note):\n<hint>\n");
    add_stripped(b, hint, strlen(hint));
    sr1__buf_str(b, "\n</hint>");
}

static void add_built_in(struct sr1__buf *b, const char *problem, const char *answer,
                         const char *hint)
{
    sr1__buf_str(b, "Analyse an answer to a problem and give feedback that helps to "
                    "improve it. Do not write a solution yourself.\n\n<problem>\n");
    add_stripped(b, problem, strlen(problem));
    sr1__buf_str(b, "\n</problem>\n\n<answer>\n");
    sr1__buf_str(b, answer);
    sr1__buf_str(b, "\n</answer>\n\n");
    sr1__buf_str(b, hint);
    sr1__buf_str(b, *hint ? "\n\n" : "");
    sr1__buf_str(b,
                 "Reply in this shape, without the tags around it:\n<format>\n"
                 "Analysis:\n{what the answer does, and where it is right or wrong}\n\n"
                 "Improvement suggestions:\n{what to change, and why}\n\n"
                 "Overall judgment: {Correct/Incorrect}\n</format>");
}

/* answer is sanitized, hint a paragraph or "". */
static sr1_status render_critique_prompt(const sr1_critique_style *style,
                                         const sr1_problem *problem, const char *answer,
                                         const char *hint, char **out)
{
    const char *values[SR1__CRITIQUE_PLACES] = {sr1_problem_text(problem), answer, hint};
    struct sr1__buf b;
    sr1_status st = SR1_OK;

    sr1__buf_init(&b, 0);
    if (!style || !style->critique) {
        add_built_in(&b, values[0], answer, hint);
    } else {
        st = sr1__prompt_template_render(style->critique, values, &b, NULL);
        if (*hint && !sr1__prompt_template_has(style->critique, SR1__PLACE_HINT))
            sr1__buf_fmt(&b, "\n\n%s", hint);
    }
    if (st == SR1_OK)
        return take_buffer_text(&b, "critique prompt", out);
    sr1__buf_free(&b);
    return st;
}

sr1_status sr1_critique_prompt(const sr1_critique_style *style,
                               const sr1_problem *problem, const char *answer, size_t len,
                               const char *hint, char **out)
{
    char *shown = NULL, *told = NULL;
    struct sr1__buf b;
    sr1_status st;

    if (!out)
        return sr1__fail(SR1_E_INVALID, "critique prompt: out is NULL");
    SR1__TRY(resolve_answer(problem, &answer, &len));
    SR1__TRY(sr1_critique_sanitize(answer, len, &shown));
    sr1__buf_init(&b, 0);
    append_feedback_note(&b, hint);
    st = take_buffer_text(&b, "hint", &told);
    if (st == SR1_OK)
        st = render_critique_prompt(style, problem, shown, told, out);
    sr1_free(shown);
    sr1_free(told);
    return st;
}

sr1_status sr1_critique_solve_prompt(const sr1_critique_style *style,
                                     const sr1_problem *problem, char **out)
{
    const char *values[1];
    struct sr1__buf b;
    sr1_status st;

    if (!problem || !out)
        return sr1__fail(SR1_E_INVALID, "solve prompt: problem and out are needed");
    if (!style || !style->solve)
        return sr1_problem_prompt(problem, out);
    values[0] = sr1_problem_text(problem);
    sr1__buf_init(&b, 0);
    st = sr1__prompt_template_render(style->solve, values, &b, NULL);
    if (st == SR1_OK)
        return take_buffer_text(&b, "solve prompt", out);
    sr1__buf_free(&b);
    return st;
}

static sr1_status build_revision_request(const char *critique, size_t len, char **out)
{
    struct sr1__buf b;
    size_t begin = 0, n = 0;

    sr1_critique_text(critique, len, &begin, &n);
    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&b, critique + begin, n);
    sr1__buf_str(&b, "\n\n" FINALIZE);
    return take_buffer_text(&b, "request for a revision", out);
}

sr1_status sr1_critique_revision(const sr1_critique_style *style,
                                 const sr1_problem *problem, const char *answer,
                                 size_t len, const char *critique, size_t critique_len,
                                 char **contents)
{
    char *made[SR1_REVISION_MESSAGES] = {NULL};
    sr1_status st;

    if ((!critique && critique_len) || !contents)
        return sr1__fail(SR1_E_INVALID, "revision: critique and contents are needed");
    SR1__TRY(resolve_answer(problem, &answer, &len));
    st = sr1_critique_solve_prompt(style, problem, &made[0]);
    if (st == SR1_OK)
        st = sr1_critique_sanitize(answer, len, &made[1]);
    if (st == SR1_OK)
        st = build_revision_request(critique ? critique : "", critique_len, &made[2]);
    for (size_t i = 0; i < SR1_REVISION_MESSAGES; i++) {
        if (st == SR1_OK)
            contents[i] = made[i];
        else
            sr1_free(made[i]);
    }
    return st;
}
