/* env/tool.h - one tool: how it is described, and one call of it under its deadline. */
#ifndef SR1__ENV_TOOL_H
#define SR1__ENV_TOOL_H

#include "base/json.h"
#include "env/sink.h"

struct sr1__tool;

struct sr1_tool_sink {
    struct sr1_env_sink as; /* of one answer: o */
    struct sr1__observation o;
    int32_t status; /* SR1_TOOL_* */
};

/* What came of a call; body and hits are the receiver's, freed with
 * sr1__observation_free. message tells the log about SR1_TOOL_BROKEN. */
struct sr1__tool_result {
    int32_t status; /* SR1_TOOL_* */
    struct sr1__observation o;
    struct sr1__error
        error; /* of SR1_TOOL_BROKEN; code SR1_OK: the tool said so itself */
};

/* Checks and copies ops. On failure self is still the caller's. */
sr1_status sr1__tool_new(struct sr1__tool **out, const sr1_tool_ops *ops, void *self);
/* Drops one reference; calls that were given up hold one each. NULL is fine. */
void sr1__tool_free(struct sr1__tool *t);

/* Free a tool that nobody has called, without destroying self. */
void sr1__tool_disown(struct sr1__tool *t);

const char *sr1__tool_name(const struct sr1__tool *t);
const json_t *sr1__tool_schema(const struct sr1__tool *t);
/* SR1_TOOL_WAITS: by its flag, or because it has a deadline. */
int sr1__tool_waits(const struct sr1__tool *t);
/* "name: description" and a line for each argument. */
void sr1__tool_describe(const struct sr1__tool *t, struct sr1__buf *out);

/* Call the tool with arguments that fit its schema, from any thread. Fails only as
 * nothing of the tool's does: without memory, or stopped on request. */
sr1_status sr1__tool_call(struct sr1__tool *t, const char *args, size_t len,
                          struct sr1__tool_result *out);

#endif
