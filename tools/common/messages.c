/* messages.c - see messages.h. The library checks the roles. */
#include "common/messages.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sr1_status refuse_message_file(const char *path, const char *what)
{
    char text[1024];

    snprintf(text, sizeof(text), "--history %.500s: %.400s", path, what);
    return sr1_set_error(SR1_E_PARSE, text);
}

static sr1_status load_messages_json(json_t **out, const char *path)
{
    json_error_t e;
    char text[1024];
    int number;

    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    number = errno;
    if (*out)
        return SR1_OK;
    if (e.line < 0 && json_error_code(&e) == json_error_cannot_open_file) {
        snprintf(text, sizeof(text), "--history: cannot open %.900s: %s", path,
                 strerror(number));
        return sr1_set_error(SR1_E_IO, text);
    }
    snprintf(text, sizeof(text), "line %d, column %d: %s%s", e.line, e.column, e.text,
             json_error_code(&e) == json_error_end_of_input_expected
                 ? "; one conversation is wanted, and a file of lines holds several"
                 : "");
    return refuse_message_file(path, text);
}

static const json_t *find_list(const json_t *file)
{
    const json_t *list = json_object_get(file, "history");

    if (json_is_array(file))
        return file;
    return list ? list : json_object_get(file, "messages");
}

static sr1_status read_message_list(struct conversation_file *m, const json_t *list,
                                    const char *path)
{
    char text[160];

    m->roles = calloc(json_array_size(list) + 1, sizeof(*m->roles));
    m->texts = calloc(json_array_size(list) + 1, sizeof(*m->texts));
    if (!m->roles || !m->texts)
        return sr1_set_error(SR1_E_NOMEM, "out of memory for a conversation");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);

        m->roles[i] = json_string_value(json_object_get(one, "role"));
        m->texts[i] = json_string_value(json_object_get(one, "content"));
        if (!m->roles[i] || !m->texts[i]) {
            snprintf(text, sizeof(text),
                     "message %zu is no {\"role\": text, \"content\": text}", i);
            return refuse_message_file(path, text);
        }
        m->n++;
    }
    return SR1_OK;
}

sr1_status messages_read(struct conversation_file *out, const char *path)
{
    struct conversation_file m = {NULL, NULL, 0, NULL};
    json_t *file = NULL;
    const json_t *list;
    sr1_status st = load_messages_json(&file, path);

    if (st != SR1_OK)
        return st;
    m.json = file;
    list = find_list(file);
    st = json_is_array(list)
             ? read_message_list(&m, list, path)
             : refuse_message_file(
                   path, "there is no list of messages; write [{\"role\": \"user\", "
                         "\"content\": \"...\"}, ...], or an object with such a list "
                         "as \"history\" or \"messages\"");
    if (st == SR1_OK)
        *out = m;
    else
        conversation_free(&m);
    return st;
}

void conversation_free(struct conversation_file *m)
{
    free((void *)m->roles);
    free((void *)m->texts);
    json_decref(m->json);
    memset(m, 0, sizeof(*m));
}

void messages_before(sr1_query *q, const struct conversation_file *m)
{
    q->history_roles = m->roles;
    q->history_texts = m->texts;
    q->n_history = m->n;
}
