/* messages.h - a conversation in a file: what stands before a question. */
#ifndef SR1_TOOLS_MESSAGES_H
#define SR1_TOOLS_MESSAGES_H

#include <searchr1/rollout.h>

/* As sr1_query takes them. Zeroed: none. */
struct messages {
    const char **roles;
    const char **texts;
    size_t n;
    void *json; /* owns the texts */
};

/* Read a JSON file: a list of {"role", "content"}, or an object with such a list as
 * "history" (a row of sr1-eval) or "messages". *out is touched on success only. */
sr1_status messages_read(struct messages *out, const char *path);
void messages_free(struct messages *m);

/* The messages before the question of q, which borrows them. */
void messages_before(sr1_query *q, const struct messages *m);

#endif
