/* text/data/row_messages.c - see row_messages.h. */
#include "text/data/row_messages.h"

#include <searchr1/trajectory.h>

#include <string.h>

const char *sr1__message_role(const char *role, size_t index)
{
    int k = sr1__role_find(role);

    if (k == SR1__ROLE_USER || k == SR1__ROLE_ASSISTANT)
        return sr1__role_names[k];
    if ((k == SR1__ROLE_SYSTEM || k == SR1__ROLE_DEVELOPER) && index == 0)
        return sr1__role_names[SR1__ROLE_SYSTEM];
    return NULL;
}

/* The next message of a list. */
static sr1_status read_history_message(const json_t *message, struct sr1__messages *m)
{
    const json_t *said = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");
    const char *role = sr1__message_role(json_string_value(said), m->n);
    const char *text = json_string_value(content);
    size_t size = json_string_length(content);

    if (!role)
        return sr1__fail(SR1_E_PARSE,
                         "its role '%.64s' is neither user nor assistant, nor in the "
                         "first place system or developer",
                         json_is_string(said) ? json_string_value(said) : "");
    if (json_array_size(json_object_get(message, "tool_calls")))
        return sr1__fail(SR1_E_PARSE, "tool calls in a history are not read");
    if (!text || strlen(text) != size)
        return sr1__fail(SR1_E_PARSE, "its content is not text, or holds a NUL");
    return sr1__messages_add(m, role, text, size);
}

sr1_status sr1__messages_read(struct sr1__messages *out, const json_t *list, size_t n,
                              const char *field)
{
    struct sr1__messages m = {0};
    sr1_status status = SR1_OK;

    if (n > SR1_TRAJECTORY_MAX_HISTORY)
        return sr1__fail(SR1_E_LIMIT, "field '%s' has more than %d messages", field,
                         SR1_TRAJECTORY_MAX_HISTORY);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1__context(read_history_message(json_array_get(list, i), &m),
                              "field '%s', message %zu", field, i);
    if (status != SR1_OK) {
        sr1__messages_free(&m);
        return status;
    }
    *out = m;
    return SR1_OK;
}

sr1_status sr1__messages_question(const json_t *list, const char *field, size_t *index)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *role = json_object_get(json_array_get(list, i), "role");

        if (sr1__role_find(json_string_value(role)) == SR1__ROLE_USER) {
            *index = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_PARSE, "field '%s' has no message of the user", field);
}
