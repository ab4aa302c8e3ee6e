/* text/data/question.c - see question.h. */
#include "text/data/question.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>

static const char *const places[] = {"question", "marked_question"};

static sr1_status load_question_template(struct sr1__prompt_template **out,
                                         const char *path)
{
    struct sr1__prompt_template *t = NULL;
    sr1_status st = sr1__prompt_template_load(&t, path, places, 2);

    if (st == SR1_OK)
        st = sr1__prompt_template_needs_place(t, path, places[0]);
    SR1__RETURN_NEW(out, t, st, sr1__prompt_template_free);
}

sr1_status sr1__question_template(struct sr1__prompt_template **out, const char *name)
{
    const char *text;
    size_t n;

    if (strcmp(name, SR1__QUESTION_SEARCH_R1) != 0)
        return sr1__context(load_question_template(out, name), "question_template");
    SR1__TRY(sr1__prompt_template_builtin("search-r1-question", &text, &n));
    return sr1__prompt_template_parse(out, text, n, name, places, 2);
}

static sr1_status append_marked_question(const char *question, size_t n,
                                         struct sr1__buf *out)
{
    size_t begin = 0;

    sr1__strip(question, &begin, &n);
    sr1__buf_add(out, question + begin, n);
    if (n == 0 || question[begin + n - 1] != '?')
        sr1__buf_char(out, '?');
    return sr1__buf_status(out, "question");
}

sr1_status sr1__question_render(const struct sr1__prompt_template *t,
                                const char *question, size_t n, struct sr1__buf *out,
                                struct sr1__spans *own)
{
    struct sr1__buf plain, marked;
    const char *values[2];
    sr1_status status;

    if (n > 0 && memchr(question, '\0', n))
        return sr1__fail(SR1_E_INVALID, "question: a NUL byte in it");
    sr1__buf_init(&plain, 0);
    sr1__buf_init(&marked, 0);
    sr1__buf_add(&plain, question, n);
    status = sr1__buf_status(&plain, "question");
    if (status == SR1_OK)
        status = append_marked_question(question, n, &marked);
    values[0] = sr1__buf_cstr(&plain);
    values[1] = sr1__buf_cstr(&marked);
    if (status == SR1_OK)
        status = sr1__prompt_template_render(t, values, out, own);
    sr1__buf_free(&plain);
    sr1__buf_free(&marked);
    return status;
}

char *sr1__question_within(const char *text)
{
    static const char opening[] = "Answer the given question. ", label[] = "Question: ";
    const char *from = text + strspn(text, " \t\r\n");
    size_t begin = 0, len;

    from = strncmp(from, opening, strlen(opening)) == 0 ? strstr(from, label) : NULL;
    if (!from)
        return sr1__strdup(text);
    from += strlen(label);
    len = strlen(from);
    sr1__strip(from, &begin, &len);
    return sr1__strndup(from + begin, len);
}
