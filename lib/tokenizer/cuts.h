/* tokenizer/cuts.h - how a file's pre-tokenizer cuts text into the pieces that a model
 * sees, as a list of cuts, each within the pieces of the one before. (Byte-level BPE has
 * a cut of its own: pattern.h.) */
#ifndef SR1__TOKENIZER_CUTS_H
#define SR1__TOKENIZER_CUTS_H

#include "base/buf.h"
#include "base/json.h"

#define SR1__CUTS_MAX 8

struct sr1__cut_kind;
struct sr1__encoder;

/* Where Metaspace puts its mark in front. */
enum { SR1__PREPEND_ALWAYS, SR1__PREPEND_FIRST, SR1__PREPEND_NEVER };

struct sr1__metaspace {
    char mark[5]; /* one character, ending at NUL */
    int prepend;
    int split;
};

struct sr1__cut {
    const struct sr1__cut_kind *kind;
    struct sr1__metaspace metaspace;
};

struct sr1__cuts {
    struct sr1__cut list[SR1__CUTS_MAX];
    size_t n;
    int needs_first; /* a cut asks whether a piece begins the text */
};

/* A file's "pre_tokenizer" (null: no cut). */
sr1_status sr1__cuts_load(struct sr1__cuts *to, const json_t *o, const char *name);
/* The members that the pre-tokenizer and the decoder Metaspace share. */
sr1_status sr1__metaspace_load(struct sr1__metaspace *to, const json_t *o,
                               const char *name);

/* Cut text by the cuts from `level` on and give the pieces to the tokenizer's model.
 * first: bytes of text that the first character of all became; 0: it is not in text. */
sr1_status sr1__cut_text(struct sr1__encoder *e, size_t level, const char *text, size_t n,
                         size_t first);

#endif
