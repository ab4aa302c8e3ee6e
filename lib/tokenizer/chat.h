/* tokenizer/chat.h - conversations to text by the rules of a chat template. */
#ifndef SR1__TOKENIZER_CHAT_H
#define SR1__TOKENIZER_CHAT_H

#include "tokenizer/internal.h"
#include "tokenizer/scan.h"

#include "base/json.h"

enum {
    SR1__ROLE_SYSTEM,
    SR1__ROLE_USER,
    SR1__ROLE_ASSISTANT,
    SR1__ROLE_TOOL,
    SR1__ROLES
};
extern const char *const sr1__role_names[SR1__ROLES];

struct sr1__message {
    int role;
    struct sr1__slice content;   /* p "" when there is none */
    struct sr1__slice reasoning; /* p NULL: none */
    const json_t *tool_calls;    /* NULL or an array */
    int says_nothing;            /* its content is null or absent, not "" */
};

struct sr1__conversation {
    const struct sr1__message *messages;
    size_t n;
    const json_t *tools; /* NULL or a non-empty array */
    int add_generation_prompt;
    int no_thinking;
};

/* A template's rules: one row a family. */
struct sr1__chat_family {
    const char *name;
    const char *has[3]; /* texts in the template that tell it; NULL: no more */
    const char *lacks;  /* a text that rules it out, or NULL */
    int wants_default;  /* 1: only with a default system message */
    int thinks;         /* 1: reasoning is kept after the last question only */
    int empty_think;    /* 1: no_thinking gives an empty think block */
    int tools;          /* 0: tools cannot be shown */
    int qwen2_calls; /* 1: each call on a new line, arguments given as text quoted again
                      */
};

/* Rendered text, and which stretches of it are the template's own words: only in those
 * can an added token be meant. */
struct sr1__rendered {
    struct sr1__buf text;
    size_t *own; /* [2 n]: begin, end; ascending */
    size_t n_own;
    size_t cap;
    sr1_status status; /* sticky */
};
void sr1__rendered_init(struct sr1__rendered *r);
void sr1__rendered_free(struct sr1__rendered *r);
void sr1__put_own(struct sr1__rendered *r, const char *text);
void sr1__put_content(struct sr1__rendered *r, struct sr1__slice text);

sr1_status sr1__chat_render(const sr1_tokenizer *t, const struct sr1__conversation *c,
                            struct sr1__rendered *out);

/* JSON as Python's json.dumps(x, ensure_ascii=False) prints it: how templates show tools.
 */
void sr1__json_python_text(const char *s, size_t n, struct sr1__buf *out); /* quoted */
sr1_status sr1__json_python(const json_t *j, struct sr1__buf *out);

#endif
