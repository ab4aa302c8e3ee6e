/* tensor/weights/encoder_use.h - how an encoder's hidden states become vectors: pooling,
 * prefixes, length of texts. Read from the files that sentence-transformers writes beside
 * a model, else by its architecture and the name of its folder. */
#ifndef SR1__WEIGHTS_ENCODER_USE_H
#define SR1__WEIGHTS_ENCODER_USE_H

#include "tensor/weights/encoder_config.h"

enum sr1__pooling {
    SR1__POOL_MEAN = 0,    /* over the text's tokens, special ones included */
    SR1__POOL_CLS = 1,     /* the first token */
    SR1__POOL_DECODER = 2, /* T5: the decoder's first state */
    SR1__POOLINGS = 3
};

struct sr1__encoder_use {
    int32_t pooling;    /* enum sr1__pooling */
    int32_t normalize;  /* vectors of length 1 */
    int64_t max_tokens; /* longer texts are cut; at most config.max_positions */
    char *query_prefix; /* never NULL; freed by sr1__encoder_use_free */
    char *document_prefix;
};

/* has_decoder: the weights of a T5 include those of its decoder. *out is filled on
 * success only. */
sr1_status sr1__encoder_use_load(struct sr1__encoder_use *out, const char *folder,
                                 const struct sr1__encoder_config *config,
                                 int has_decoder);
void sr1__encoder_use_free(struct sr1__encoder_use *u); /* leaves it empty */

/* "mean", "cls", "decoder". */
sr1_status sr1__pooling_parse(const char *name, int32_t *out);
const char *sr1__pooling_name(int32_t pooling); /* static */

#endif
