/* text/data/demo.h - demonstrations for supervised training, from JSON lines of one of
 * three forms:
 *
 *     {"question": "...", "segments": [{"source": "policy", "text": "..."},
 *                                      {"source": "environment", "text": "..."}]}
 *
 *         and, where messages stand before the question, "history": [{"role", "content"}]
 *
 *     {"messages": [{"role": "system", "content": "..."}, {"role": "user", ...},
 *                   {"role": "assistant", ...}, ...]}
 *
 *     {"prompt": "..." or messages, "completion": "..." or messages}
 *
 *         which is the conversation of both; a text is one message of the user, or of the
 *         assistant.
 *
 * A message of the assistant may have "tool_calls" and "reasoning_content", which the
 * chat template writes, and a row of messages "tools", descriptions for the template.
 *
 * The loss counts the policy's text, of the last form that in the completion. Text of the
 * environment, user or tool is context, and so is every message with "weight": 0. */
#ifndef SR1__DATA_DEMO_H
#define SR1__DATA_DEMO_H

#include "text/data/row_messages.h"

struct sr1__demo_segment {
    int is_policy;         /* policy or assistant: the loss counts it */
    const char *role;      /* messages: as given; segments: NULL */
    const char *text;      /* UTF-8 without NUL bytes */
    const json_t *message; /* messages: as given; NULL: role and text are all of it */
};

struct sr1__demo {
    int is_chat;          /* a conversation: render each message by the chat template */
    const char *question; /* segments: as given; chat: the first user message */
    struct sr1__messages history;       /* segments: before the question */
    struct sr1__demo_segment *segments; /* chat: every message, in order */
    size_t n_segments;
    char *tools; /* chat: a JSON array; NULL: none */
    void *json;  /* owns the texts */
};

struct sr1__demos;

/* Every row is checked. A file without rows is an error. */
sr1_status sr1__demos_open(struct sr1__demos **out, const char *path);
void sr1__demos_free(struct sr1__demos *d);
int64_t sr1__demos_count(const struct sr1__demos *d);
/* Only these rows from now on, in this order. */
sr1_status sr1__demos_keep(struct sr1__demos *d, const int64_t *rows, int64_t n);
/* Put "path:line: " of row i before the text of a failure; returns status. */
sr1_status sr1__demos_context(const struct sr1__demos *d, int64_t i, sr1_status status);
/* A hash of the bytes of all rows, in order. SR1_E_IO. */
sr1_status sr1__demos_hash(const struct sr1__demos *d, uint64_t *out);
/* Row i into *out; free it with sr1__demo_clear. */
sr1_status sr1__demos_read(const struct sr1__demos *d, int64_t i, struct sr1__demo *out);
void sr1__demo_clear(struct sr1__demo *demo);

#endif
