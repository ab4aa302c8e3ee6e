/* text/tokenizer/pre_tokenizer.h - a file's pre-tokenizer as a list of splits, each
 * within the pieces of the one before; the model encodes the resulting pieces.
 * (Byte-level BPE has a split of its own: pattern.h.) */
#ifndef SR1__TOKENIZER_PRE_TOKENIZER_H
#define SR1__TOKENIZER_PRE_TOKENIZER_H

#include "base/buf.h"
#include "base/json.h"

#define SR1__PRE_TOKENIZERS_MAX 8

struct sr1__pre_tokenizer_kind;
struct sr1__text_encoder;

/* Where Metaspace puts its mark in front. */
enum { SR1__PREPEND_ALWAYS, SR1__PREPEND_FIRST, SR1__PREPEND_NEVER };

struct sr1__metaspace {
    char mark[5]; /* one character, ending at NUL */
    int prepend;
    int split;
};

/* What becomes of the text that Split finds. */
enum {
    SR1__SPLIT_REMOVED,
    SR1__SPLIT_ISOLATED,
    SR1__SPLIT_WITH_PREVIOUS,
    SR1__SPLIT_WITH_NEXT,
    SR1__SPLIT_CONTIGUOUS
};
#define SR1__SPLIT_MAX 32 /* bytes of that text */

struct sr1__pre_tokenizer {
    const struct sr1__pre_tokenizer_kind *kind;
    struct sr1__metaspace metaspace;
    char find[SR1__SPLIT_MAX + 1]; /* Split */
    int behavior;
};

struct sr1__pre_tokenizers {
    struct sr1__pre_tokenizer list[SR1__PRE_TOKENIZERS_MAX];
    size_t n;
    int needs_first; /* a cut asks whether a piece begins the text */
};

/* A file's "pre_tokenizer" (null: no cut). */
sr1_status sr1__pre_tokenizers_load(struct sr1__pre_tokenizers *to, const json_t *o,
                                    const char *name);
/* The members that the pre-tokenizer and the decoder Metaspace share. */
sr1_status sr1__metaspace_load(struct sr1__metaspace *to, const json_t *o,
                               const char *name);

/* Split text by the splits from `level` on and pass the pieces to the tokenizer's model.
 * first: bytes of text that the first character of all became; 0: it is not in text. */
sr1_status sr1__pre_tokenize(struct sr1__text_encoder *e, size_t level, const char *text,
                             size_t n, size_t first);

#endif
