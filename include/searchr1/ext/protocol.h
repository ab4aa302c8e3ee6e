/* searchr1/ext/protocol.h - what a policy's text does by the tags of a protocol.
 *
 * Ownership: arguments are borrowed for the call.
 * Errors:    outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_PROTOCOL_H
#define SEARCHR1_EXT_PROTOCOL_H

#include <searchr1/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What can happen in the text of a policy. */
enum {
    SR1_EVENT_NONE = 0,   /* nothing yet */
    SR1_EVENT_ACTION = 1, /* an action tag was closed: the environment's turn */
    SR1_EVENT_ANSWER = 2  /* an answer tag was closed: the end */
};

/* Find the first event in text [len], SR1_EVENT_*, by the tags of a protocol (NULL:
 * "search-r1"). *begin and *n receive the place of the tag's content in text, stripped;
 * without an event they are untouched. SR1_E_NOT_FOUND lists the protocols. */
SR1_API sr1_status sr1_protocol_parse(const char *protocol, const char *text, size_t len,
                                      int32_t *event, size_t *begin, size_t *n);

/* Read the call of a tool, text [len], in whichever form it is written: as a JSON object,
 * or in the tags of Qwen's coder models. *json receives {"name": ..., "arguments":
 * {...}}, NUL-terminated. The arguments are the member of that name, or parameters, args,
 * or else the first object beside the name, and {} where there is none; a value between
 * tags is the JSON that it is, else a text. Caller frees *json with sr1_free.
 * SR1_E_PARSE: the text is no call. */
SR1_API sr1_status sr1_tool_call_parse(const char *text, size_t len, char **json);

/* Find the first turn that is followed by a result: an inserted block between the result
 * tags of a protocol (NULL: "search-r1"), whatever it contains. *turn is -1 if there is
 * none. Multi-turn GRPO adds its turn advantage to the policy tokens up to the end of
 * this turn. */
SR1_API sr1_status sr1_protocol_result_turn(const char *protocol,
                                            const sr1_trajectory *trajectory,
                                            int32_t *turn);

#ifdef __cplusplus
}
#endif
#endif
