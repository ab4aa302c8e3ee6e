/* messages.h - read the conversation before a question from a file. */
#ifndef SR1_TOOLS_MESSAGES_H
#define SR1_TOOLS_MESSAGES_H

#include <searchr1/rollout.h>

/* As sr1_query takes them. Zeroed: none. */
struct conversation_file {
    const char **roles;
    const char **texts;
    size_t n;
    void *json; /* owns the texts */
};

/* Read a JSON file: a list of {"role", "content"}, or an object with such a list as
 * "history" (a row of sr1-eval) or "messages". *out is touched on success only. */
sr1_status messages_read(struct conversation_file *out, const char *path);
void conversation_free(struct conversation_file *m);

/* The messages before the question of q, which borrows them. */
void messages_before(sr1_query *q, const struct conversation_file *m);

#endif
