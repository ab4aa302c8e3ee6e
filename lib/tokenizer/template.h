/* tokenizer/template.h - what a file's post-processor puts around one text or two. */
#ifndef SR1__TOKENIZER_TEMPLATE_H
#define SR1__TOKENIZER_TEMPLATE_H

#include "base/error.h"
#include "base/json.h"

#define SR1__TEMPLATE_MAX 32

/* Places of a template that are a text, not a token. */
enum { SR1__TEMPLATE_TEXT = -1, SR1__TEMPLATE_PAIR = -2 };

struct sr1__template {
    struct {
        int32_t id; /* of a token, or SR1__TEMPLATE_... */
        int32_t type;
    } items[SR1__TEMPLATE_MAX];
    size_t n;
};

struct sr1__templates {
    struct sr1__template single;
    struct sr1__template pair;
};

/* A file's "post_processor" (null: the texts alone, types 0 and 1). */
sr1_status sr1__templates_load(struct sr1__templates *to, const json_t *o,
                               const char *name);

#endif
