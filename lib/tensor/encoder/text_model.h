/* tensor/encoder/text_model.h - a text model: encoder, tokenizer, and the settings of
 * their use. */
#ifndef SR1__ENCODER_TEXT_MODEL_H
#define SR1__ENCODER_TEXT_MODEL_H

#include "tensor/encoder/encoder.h"
#include "tensor/model/model_load.h"

#include <searchr1/ext/embed.h>
#include <searchr1/ext/tokenizer.h>

struct sr1__text_model {
    struct sr1__encoder *encoder;
    sr1_tokenizer *tokenizer;
    struct sr1__encoder_use use; /* empty for a cross-encoder */
    uint64_t hash;               /* of config, tokenizer and weights; 0 for one */
};

/* The caller's options over the defaults, checked; and the device they select. */
sr1_status sr1__encoder_options_take(sr1_encoder_options *out,
                                     const sr1_encoder_options *given,
                                     struct sr1__model_place *place);

/* kind, "encoder" or "reranker", is for messages; score: a cross-encoder; else
 * options->pooling or the folder selects the pooling. */
sr1_status sr1__text_model_open(struct sr1__text_model *out, const char *kind,
                                const char *folder, const sr1_encoder_options *options,
                                const struct sr1__model_place *place, int score);
void sr1__text_model_close(struct sr1__text_model *m); /* leaves it empty */

/* *out: the option, checked, or when that is -1 `otherwise`, at most `most`. */
sr1_status sr1__text_max_tokens(int32_t option, const char *name, int64_t otherwise,
                                int64_t most, size_t *out);

/* Texts as they go into an encoder: prefix + text, or before and text as a pair. */
struct sr1__text_input {
    const char *prefix; /* NULL: none */
    const char *before; /* NULL: no pair */
    size_t max_tokens;  /* special ones counted; more are cut off */
};
/* Outputs of n texts, fp32 [n, dim]. */
sr1_status sr1__text_model_run(const struct sr1__text_model *m,
                               const struct sr1__text_input *in, const char *const *texts,
                               size_t n, int64_t batch_tokens, float *out);

#endif
