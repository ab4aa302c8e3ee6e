/* text/tokenizer/bert_normalizer.h - the normalizer of BERT. */
#ifndef SR1__TOKENIZER_BERT_NORMALIZER_H
#define SR1__TOKENIZER_BERT_NORMALIZER_H

#include "base/buf.h"

/* Parts of it that a file turns on. */
enum {
    SR1__BERT_CLEAN = 1,
    SR1__BERT_HAN = 2,
    SR1__BERT_STRIP_MARKS = 4,
    SR1__BERT_LOWER = 8
};

/* Text (valid UTF-8) in normal form, appended to out. */
sr1_status sr1__bert_normalize(uint32_t parts, const char *text, size_t n,
                               struct sr1__buf *out);

#endif
