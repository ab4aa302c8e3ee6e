/* text/tokenizer/chat_templates.c - see chat_templates.h. */
#include "text/tokenizer/chat_templates.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void sr1__chat_templates_free(struct sr1__chat_templates *t)
{
    sr1__free(t->v);
    json_decref(t->config);
    *t = (struct sr1__chat_templates){0};
}

const char *sr1__chat_templates_find(const struct sr1__chat_templates *t,
                                     const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0)
            return t->v[i].text;
    return NULL;
}

static void add_template(struct sr1__chat_templates *t, const char *name,
                         const char *text)
{
    if (name && text && !sr1__chat_templates_find(t, name))
        t->v[t->n++] = (struct sr1__chat_template){name, text};
}

static sr1_status read_from_files(struct sr1__chat_templates *out,
                                  const struct sr1__tokenizer_files *files)
{
    const struct sr1__buf *whole =
        sr1__tokenizer_files_find(files, SR1__CHAT_TEMPLATE_FILE);
    const struct sr1__buf *text;
    const char *name;

    SR1__CALLOC(out->v, sr1__tokenizer_files_templates(files) + 1, "chat templates");
    if (whole)
        add_template(out, "default", sr1__buf_cstr(whole));
    for (size_t i = 0; (name = sr1__tokenizer_files_template(files, i, &text)); i++)
        add_template(out, name, sr1__buf_cstr(text));
    return SR1_OK;
}

/* A text, or a list of {"name", "template"}. */
static sr1_status read_from_config(struct sr1__chat_templates *out, const json_t *config)
{
    const json_t *given = json_object_get(config, "chat_template"), *o;
    size_t i;

    SR1__CALLOC(out->v, json_array_size(given) + 1, "chat templates");
    out->config = json_incref((json_t *)(uintptr_t)config);
    add_template(out, "default", json_string_value(given));
    json_array_foreach((json_t *)(uintptr_t)given, i, o)
        add_template(out, json_string_value(json_object_get(o, "name")),
                     json_string_value(json_object_get(o, "template")));
    return SR1_OK;
}

sr1_status sr1__chat_templates_read(struct sr1__chat_templates *out,
                                    const struct sr1__tokenizer_files *files,
                                    const json_t *config)
{
    int in_files = sr1__tokenizer_files_templates(files) > 0 ||
                   sr1__tokenizer_files_find(files, SR1__CHAT_TEMPLATE_FILE);

    sr1__chat_templates_free(out);
    return in_files ? read_from_files(out, files) : read_from_config(out, config);
}
