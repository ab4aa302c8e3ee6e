/* text/tokenizer/precompiled_charsmap.h - SentencePiece's precompiled character map, the
 * content of the normalizer "Precompiled" of tokenizer.json. */
#ifndef SR1__TOKENIZER_PRECOMPILED_CHARSMAP_H
#define SR1__TOKENIZER_PRECOMPILED_CHARSMAP_H

#include "base/buf.h"

struct sr1__precompiled_charsmap;

/* From base64 text, as tokenizer.json writes it. */
sr1_status sr1__precompiled_charsmap_new(struct sr1__precompiled_charsmap **out,
                                         const char *base64, size_t n, const char *name);
void sr1__precompiled_charsmap_free(struct sr1__precompiled_charsmap *m);

/* Text (valid UTF-8) mapped, appended to out. */
void sr1__precompiled_charsmap_apply(const struct sr1__precompiled_charsmap *m,
                                     const char *text, size_t n, struct sr1__buf *out);

#endif
