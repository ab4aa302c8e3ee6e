/* environment/env/tool.h - one tool: its description, and one call of it under its
 * deadline. */
#ifndef SR1__ENV_TOOL_H
#define SR1__ENV_TOOL_H

#include "base/json.h"
#include "environment/env/sink.h"

struct sr1__tool;

struct sr1_tool_sink {
    struct sr1_env_sink as; /* of one answer: o */
    struct sr1__observation o;
    int32_t status;          /* SR1_TOOL_* */
    struct sr1__error error; /* why it is SR1_TOOL_BROKEN; code SR1_OK: not known */
};

/* The result of a call; the receiver owns body and hits and frees them with
 * sr1__observation_free. message is the log's text for SR1_TOOL_BROKEN. */
struct sr1__tool_result {
    int32_t status; /* SR1_TOOL_* */
    struct sr1__observation o;
    struct sr1__error
        error; /* of SR1_TOOL_BROKEN; code SR1_OK: the tool said so itself */
};

/* Checks and copies ops. shown: what descriptions have in place of the schema that
 * arguments are checked by, retained; NULL: that one. On failure self is still the
 * caller's. */
sr1_status sr1__tool_new(struct sr1__tool **out, const sr1_tool_ops *ops,
                         const json_t *shown, void *self);
/* Drops one reference; calls that were given up hold one each. NULL is fine. */
void sr1__tool_free(struct sr1__tool *t);

/* Free a tool that nobody has called, without destroying self. */
void sr1__tool_disown(struct sr1__tool *t);

const char *sr1__tool_name(const struct sr1__tool *t);
const json_t *sr1__tool_schema(const struct sr1__tool *t);
/* What descriptions have in its place. */
const json_t *sr1__tool_shown_schema(const struct sr1__tool *t);
/* SR1_TOOL_WAITS: by its flag, or because it has a deadline. */
int sr1__tool_waits(const struct sr1__tool *t);
/* "name: description" and a line for each argument. */
void sr1__tool_describe(const struct sr1__tool *t, struct sr1__buf *out);
/* {"type": "function", "function": {"name", "description", "parameters"}} and a line end,
 * as Python's json writes it. */
sr1_status sr1__tool_describe_json(const struct sr1__tool *t, struct sr1__buf *out);

/* Call the tool with arguments that fit its schema, from any thread. Fails only as
 * nothing of the tool's does: without memory, or stopped on request. */
sr1_status sr1__tool_call(struct sr1__tool *t, const char *args, size_t len,
                          struct sr1__tool_result *out);

/* n calls at once, each into its own sink: a tool of the library uses this to share one
 * call of its search engine. */
typedef sr1_status sr1__tool_batch_fn(void *self, const char *const *args, size_t n,
                                      sr1_tool_sink *sinks);
/* joins: calls are better made together than each in a thread of its own. */
void sr1__tool_set_batched(struct sr1__tool *t, sr1__tool_batch_fn *many, int joins);
int sr1__tool_is_batched(const struct sr1__tool *t);
int sr1__tool_can_batch(const struct sr1__tool *t);
/* As sr1__tool_call, of one that is_many; nothing is given on failure. */
sr1_status sr1__tool_call_batch(struct sr1__tool *t, const char *const *args, size_t n,
                                struct sr1__tool_result *out);

#endif
