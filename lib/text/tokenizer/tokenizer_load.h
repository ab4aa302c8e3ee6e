/* text/tokenizer/tokenizer_load.h - declarations shared by the readers of tokenizer.json.
 */
#ifndef SR1__TOKENIZER_TOKENIZER_LOAD_H
#define SR1__TOKENIZER_TOKENIZER_LOAD_H

#include "text/tokenizer/tokenizer_internal.h"
#include "text/tokenizer/scan.h"

#include "base/json.h"

/* The state of loading: the text and its readers. */
struct sr1__load {
    sr1_tokenizer *t;
    const char *name;
    struct sr1__buf escape; /* of the string being read */
    struct sr1__buf left;   /* bytes of a token */
    int byte_level;         /* a part of the file is ByteLevel */
};

/* A member to read; its value stays unchanged if the member is missing. */
struct sr1__wanted {
    const char *key;
    struct sr1__str *value;
};

sr1_status sr1__load_members(struct sr1__load *l, struct sr1__str object,
                             const char *what, const struct sr1__wanted *w, size_t n);
/* The characters of a string; valid until the next one is read. */
sr1_status sr1__load_string(struct sr1__load *l, struct sr1__str value,
                            struct sr1__str *text);
/* "NAME: what 'kind' is not supported". */
sr1_status sr1__load_unsupported(const struct sr1__load *l, const char *what,
                                 const char *kind);

/* The string member `key` of o; "" when there is none. */
const char *sr1__load_text(const json_t *o, const char *key);
int sr1__load_flag(const json_t *o, const char *key);

/* "pre_tokenizer" and "model" by kind of model (load_bpe.c, load_pieces.c). */
sr1_status sr1__load_bpe_pre(struct sr1__load *l, const json_t *o);
sr1_status sr1__load_bpe(struct sr1__load *l, const struct sr1__str *model);
sr1_status sr1__load_pre_tokenizers(struct sr1__load *l, const json_t *o);
sr1_status sr1__load_wordpiece(struct sr1__load *l, const struct sr1__str *model);
sr1_status sr1__load_unigram(struct sr1__load *l, const struct sr1__str *model);

#endif
