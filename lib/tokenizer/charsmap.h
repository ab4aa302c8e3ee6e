/* tokenizer/charsmap.h - SentencePiece's precompiled character map: what the normalizer
 * "Precompiled" of tokenizer.json holds. */
#ifndef SR1__TOKENIZER_CHARSMAP_H
#define SR1__TOKENIZER_CHARSMAP_H

#include "base/buf.h"

struct sr1__charsmap;

/* From base64 text, as tokenizer.json writes it. */
sr1_status sr1__charsmap_new(struct sr1__charsmap **out, const char *base64, size_t n,
                             const char *name);
void sr1__charsmap_free(struct sr1__charsmap *m);

/* Text (valid UTF-8) mapped, appended to out. */
void sr1__charsmap_apply(const struct sr1__charsmap *m, const char *text, size_t n,
                         struct sr1__buf *out);

#endif
