/* tokenizer/load.h - reading tokenizer.json: what its parts share. */
#ifndef SR1__TOKENIZER_LOAD_H
#define SR1__TOKENIZER_LOAD_H

#include "tokenizer/internal.h"
#include "tokenizer/scan.h"

#include "base/json.h"

/* The text and what is at work on it. */
struct sr1__load {
    sr1_tokenizer *t;
    const char *name;
    struct sr1__buf escape; /* of the string being read */
    struct sr1__buf left;   /* bytes of a token */
};

/* A member that is looked for; its value stays as it is where there is none. */
struct sr1__wanted {
    const char *key;
    struct sr1__slice *value;
};

sr1_status sr1__load_members(struct sr1__load *l, struct sr1__slice object,
                             const char *what, const struct sr1__wanted *w, size_t n);
/* The characters of a string; valid until the next one is read. */
sr1_status sr1__load_string(struct sr1__load *l, struct sr1__slice value,
                            struct sr1__slice *text);
/* "NAME: what 'kind' is not supported". */
sr1_status sr1__load_unsupported(const struct sr1__load *l, const char *what,
                                 const char *kind);

/* The string member `key` of o; "" when there is none. */
const char *sr1__load_text(const json_t *o, const char *key);
int sr1__load_flag(const json_t *o, const char *key);

/* "pre_tokenizer" and "model" by kind of model (load_bpe.c, load_pieces.c). */
sr1_status sr1__load_bpe_pre(struct sr1__load *l, const json_t *o);
sr1_status sr1__load_bpe(struct sr1__load *l, const struct sr1__slice *model);
sr1_status sr1__load_cuts(struct sr1__load *l, const json_t *o);
sr1_status sr1__load_wordpiece(struct sr1__load *l, const struct sr1__slice *model);
sr1_status sr1__load_unigram(struct sr1__load *l, const struct sr1__slice *model);

#endif
