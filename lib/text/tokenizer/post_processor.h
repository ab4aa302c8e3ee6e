/* text/tokenizer/post_processor.h - the special tokens that a file's post-processor adds
 * to one text or two. */
#ifndef SR1__TOKENIZER_POST_PROCESSOR_H
#define SR1__TOKENIZER_POST_PROCESSOR_H

#include "base/error.h"
#include "base/json.h"

#define SR1__POST_PROCESSOR_MAX 32

/* Places of a template that are a text, not a token. */
enum { SR1__POST_PROCESSOR_TEXT = -1, SR1__POST_PROCESSOR_PAIR = -2 };

struct sr1__post_processor_template {
    struct {
        int32_t id; /* of a token, or SR1__TEMPLATE_... */
        int32_t type;
    } items[SR1__POST_PROCESSOR_MAX];
    size_t n;
};

struct sr1__post_processor {
    struct sr1__post_processor_template single;
    struct sr1__post_processor_template pair;
};

/* A file's "post_processor" (null: the texts alone, types 0 and 1). */
sr1_status sr1__post_processor_load(struct sr1__post_processor *to, const json_t *o,
                                    const char *name);

#endif
