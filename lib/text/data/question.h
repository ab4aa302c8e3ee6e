/* text/data/question.h - the user's message around a question. */
#ifndef SR1__DATA_QUESTION_H
#define SR1__DATA_QUESTION_H

#include "text/data/prompt_template.h"

/* The message of Search-R1's published code, by that name in question_template. */
#define SR1__QUESTION_SEARCH_R1 "search-r1"

/* A template with the places {{question}} and {{marked_question}}: a built-in one by
 * name, else a file. Free with sr1__prompt_template_free. */
sr1_status sr1__question_template(struct sr1__prompt_template **out, const char *name);

/* Append the message. marked: the question stripped, with '?' behind it unless it ends
 * with one. SR1_E_INVALID: the question holds a NUL byte. own: as
 * sr1__prompt_template_render.
 */
sr1_status sr1__question_render(const struct sr1__prompt_template *t,
                                const char *question, size_t n, struct sr1__buf *out,
                                struct sr1__spans *own);

/* The question within a message of Search-R1 or a relative, which begins with "Answer the
 * given question. ": the text after the first "Question: ", stripped. Of any other
 * message the whole text. Caller frees; NULL without memory. */
char *sr1__question_within(const char *text);

#endif
