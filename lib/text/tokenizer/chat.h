/* text/tokenizer/chat.h - conversations to text by the rules of a chat template. */
#ifndef SR1__TOKENIZER_CHAT_H
#define SR1__TOKENIZER_CHAT_H

#include "text/tokenizer/tokenizer_internal.h"
#include "text/tokenizer/scan.h"

#include "base/json.h"
#include "base/messages.h"

/* Messages with the roles of base/messages.h, and what they are shown with. One of a
 * developer is shown as the system's by a template that would leave it out. */
struct sr1__conversation {
    const struct sr1__messages *messages;
    const json_t *list;  /* the messages as JSON, where they were given so; or NULL */
    const json_t *tools; /* NULL or a non-empty array */
    int add_generation_prompt;
    int no_thinking;
    int developer; /* the template writes messages of a developer */
};

/* The rules of a template. */
struct sr1__chat_family {
    const char *name;
    const char *default_system; /* when the family is chosen by name; NULL: none */
    int thinks;        /* 1: reasoning is kept after the last question only; 2: always */
    int opens_thought; /* 1: a generation prompt ends with <think> */
    int empty_think;   /* 1: no_thinking gives an empty think block */
    int tools;         /* 0: tools cannot be shown */
    int qwen2_calls;   /* 1: each call on a new line, arguments given as text quoted again
                        */
    int developer;     /* 1: writes messages of a developer */
};

/* Append the normal form of a template; system: the text of its default system message as
 * it stands in the source, n 0: none. 0 if a tag of the template does not end or it holds
 * bytes of the form, else 1. */
int sr1__chat_form(const char *text, struct sr1__str system, struct sr1__buf *out);

/* Rendered text, and which stretches of it are the template's own words: only in those
 * can an added token be meant. */
struct sr1__rendered {
    struct sr1__buf text;
    struct sr1__spans own;
    sr1_status status; /* sticky */
};
void sr1__rendered_init(struct sr1__rendered *r);
void sr1__rendered_free(struct sr1__rendered *r);

sr1_status sr1__chat_render(const sr1_tokenizer *t, const struct sr1__conversation *c,
                            struct sr1__rendered *out);

/* The role that message i is written with, enum sr1__role. */
int sr1__chat_role(const struct sr1__conversation *c, size_t i);

/* Does the template write messages of a developer, or would it leave them out? */
int sr1__chat_writes_developer(const sr1_tokenizer *t);

/* A template that is none of the families' (chat_program.c): run for each conversation.
 */
sr1_status sr1__chat_program_load(sr1_tokenizer *t, const char *chat_template);
/* The template of conversations with tools, where a program is loaded. */
sr1_status sr1__chat_program_add_tools(sr1_tokenizer *t, const char *chat_template);
struct sr1__chat_program *sr1__chat_program_retain(struct sr1__chat_program *p);
void sr1__chat_program_release(struct sr1__chat_program *p); /* both: NULL is fine */
/* Why it cannot be run; NULL: it can. */
const char *sr1__chat_program_fault(const struct sr1__chat_program *p);
int sr1__chat_program_writes_developer(const struct sr1__chat_program *p);
int sr1__chat_program_opens_thought(const struct sr1__chat_program *p, int no_thinking);
int32_t sr1__chat_program_end_id(const struct sr1__chat_program *p);
sr1_status sr1__chat_program_render(const sr1_tokenizer *t,
                                    const struct sr1__conversation *c,
                                    struct sr1__rendered *out);

/* Text as Python's json.dumps(x, ensure_ascii=False) prints it. */
void sr1__json_python_text(const char *s, size_t n, struct sr1__buf *out); /* quoted */

/* JSON of a chat: integers of any size. Use the result with the two functions below only:
 * a string in it may stand for a large integer. */
sr1_status sr1__chat_json_parse(json_t **out, const char *text, size_t n,
                                const char *name);
/* The text of a string of such JSON; 0 if it is a large integer, else 1. */
int sr1__chat_json_text(const char *s, size_t n, struct sr1__str *out);
/* Such JSON as Python prints it: how templates show tools. */
sr1_status sr1__chat_json_python(const json_t *j, struct sr1__buf *out);

#endif
