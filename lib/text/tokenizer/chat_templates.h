/* text/tokenizer/chat_templates.h - the chat templates of a folder by their names, as
 * transformers reads them: chat_template.jinja is "default" and
 * additional_chat_templates/NAME.jinja is NAME; where the folder has no such file, those
 * that tokenizer_config.json holds, one or a list. */
#ifndef SR1__TOKENIZER_CHAT_TEMPLATES_H
#define SR1__TOKENIZER_CHAT_TEMPLATES_H

#include "text/tokenizer/tokenizer_files.h"

#include "base/json.h"

struct sr1__chat_templates {
    struct sr1__chat_template {
        const char *name, *text; /* borrowed from files, or from the configuration */
    } * v;
    size_t n;
    json_t *config; /* tokenizer_config.json, kept for them; NULL: files have them */
};

/* A zeroed list stays empty where the folder has none. */
sr1_status sr1__chat_templates_read(struct sr1__chat_templates *out,
                                    const struct sr1__tokenizer_files *files,
                                    const json_t *config);
void sr1__chat_templates_free(struct sr1__chat_templates *t); /* a zeroed one is fine */
/* The text of one; NULL: there is none of this name. */
const char *sr1__chat_templates_find(const struct sr1__chat_templates *t,
                                     const char *name);

#endif
