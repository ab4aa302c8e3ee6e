/* tokenizer/tokenizer.h - what other modules may use beyond searchr1/tokenizer.h. */
#ifndef SR1__TOKENIZER_TOKENIZER_H
#define SR1__TOKENIZER_TOKENIZER_H

#include "base/buf.h"

#include <searchr1/tokenizer.h>

/* A growable list of ids. */
struct sr1__ids {
    int32_t *v;
    size_t n;
    size_t cap;
};
void sr1__ids_free(struct sr1__ids *ids); /* leaves it empty, reusable */
sr1_status sr1__ids_add(struct sr1__ids *ids, int32_t id);

/* tokenizer.json from memory; name is what errors call it. */
sr1_status sr1__tokenizer_parse(sr1_tokenizer **out, const char *json, size_t n,
                                const char *name);

/* Another reference, given back with sr1_tokenizer_free. */
sr1_tokenizer *sr1__tokenizer_ref(sr1_tokenizer *t);

/* SR1_E_UNSUPPORTED unless the tokenizer is byte-level BPE; `what` cannot do without. */
sr1_status sr1__needs_byte_level(const sr1_tokenizer *t, const char *what);

/* Appends the ids of text; on failure ids holds what it held before. */
sr1_status sr1__tokenizer_encode(const sr1_tokenizer *t, const char *text, size_t n,
                                 int32_t mode, struct sr1__ids *ids);

/* Appends the text of ids to out. */
sr1_status sr1__tokenizer_decode(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                 int skip_special, struct sr1__buf *out);

/* The bytes of one token (not always whole characters); NULL for an id without a token.
 * Borrowed until the tokenizer is freed. */
const char *sr1__tokenizer_token_bytes(const sr1_tokenizer *t, int32_t id, size_t *n);

/* Does this id end what a model says (sr1_tokenizer_stop_ids)? */
int sr1__tokenizer_stops(const sr1_tokenizer *t, int32_t id);

int sr1__tokenizer_is_special(const sr1_tokenizer *t, int32_t id);

/* Valid UTF-8 from any bytes: each maximal subpart that is not UTF-8 becomes U+FFFD. With
 * `more` set an incomplete character at the end is left; *used tells how far it came. */
void sr1__utf8_repair(const char *bytes, size_t n, int more, struct sr1__buf *out,
                      size_t *used);

#endif
