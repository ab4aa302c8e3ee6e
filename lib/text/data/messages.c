/* text/data/messages.c - see messages.h. */
#include "text/data/messages.h"

#include "base/mem.h"

#include <searchr1/trajectory.h>

#include <string.h>

const char *sr1__message_role(const char *role, size_t index)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    size_t n = index == 0 ? 3 : 2;

    for (size_t k = 0; role && k < n; k++)
        if (strcmp(role, roles[k]) == 0)
            return roles[k];
    return NULL;
}

sr1_status sr1__messages_new(struct sr1__messages *out, size_t n)
{
    *out = (struct sr1__messages){.roles = sr1__calloc(n + 1, sizeof *out->roles),
                                  .texts = sr1__calloc(n + 1, sizeof *out->texts),
                                  .sizes = sr1__calloc(n + 1, sizeof *out->sizes),
                                  .n = n};
    if (out->roles && out->texts && out->sizes)
        return SR1_OK;
    sr1__messages_free(out);
    return sr1__fail_nomem("messages");
}

void sr1__messages_free(struct sr1__messages *m)
{
    sr1__free(m->roles);
    sr1__free(m->texts);
    sr1__free(m->sizes);
    *m = (struct sr1__messages){0};
}

/* Message i of a list. */
static sr1_status read_history_message(const json_t *message, struct sr1__messages *m,
                                       size_t i)
{
    const json_t *said = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");

    m->roles[i] = sr1__message_role(json_string_value(said), i);
    m->texts[i] = json_string_value(content);
    m->sizes[i] = json_string_length(content);
    if (!m->roles[i])
        return sr1__fail(SR1_E_PARSE,
                         "its role '%.64s' is neither user nor assistant, nor the "
                         "system's in the first place",
                         json_is_string(said) ? json_string_value(said) : "");
    if (json_array_size(json_object_get(message, "tool_calls")))
        return sr1__fail(SR1_E_PARSE, "tool calls in a history are not read");
    if (!m->texts[i] || strlen(m->texts[i]) != m->sizes[i])
        return sr1__fail(SR1_E_PARSE, "its content is not text, or holds a NUL");
    return SR1_OK;
}

sr1_status sr1__messages_read(struct sr1__messages *out, const json_t *list, size_t n,
                              const char *field)
{
    struct sr1__messages m;
    sr1_status status = SR1_OK;

    if (n > SR1_TRAJECTORY_MAX_HISTORY)
        return sr1__fail(SR1_E_LIMIT, "field '%s' has more than %d messages", field,
                         SR1_TRAJECTORY_MAX_HISTORY);
    SR1__TRY(sr1__messages_new(&m, n));
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1__context(read_history_message(json_array_get(list, i), &m, i),
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

        if (json_is_string(role) && strcmp(json_string_value(role), "user") == 0) {
            *index = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_PARSE, "field '%s' has no message of the user", field);
}
