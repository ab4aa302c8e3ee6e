/* searchr1/ext/model_details.h - models beyond loading and saving: random weights,
 * figures, logits.
 *
 * Ownership, errors and threads as in searchr1/model.h.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_MODEL_DETAILS_H
#define SEARCHR1_EXT_MODEL_DETAILS_H

#include <searchr1/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Make a model with random weights. config_json is the text of a Hugging Face
 * config.json. The same seed gives the same weights. options may be NULL. Caller frees
 * with sr1_model_free. */
SR1_API sr1_status sr1_model_new_random(sr1_model **out, const char *config_json,
                                        uint64_t seed, const sr1_model_options *options);

/* Figures of a model by name. */
enum {
    SR1_MODEL_VOCAB = 0, /* rows of the embedding */
    SR1_MODEL_LAYERS = 1,
    SR1_MODEL_HIDDEN = 2,
    SR1_MODEL_HEADS = 3,
    SR1_MODEL_KV_HEADS = 4,
    SR1_MODEL_HEAD_DIM = 5,
    SR1_MODEL_MAX_POSITION = 6,
    SR1_MODEL_PARAMETERS = 7, /* numbers of the weights; a tied head counts once, an
                                 adapter not */
    SR1_MODEL_TIED = 8,       /* 1 when the head shares the embedding */
    SR1_MODEL_TRAINED = 9,    /* numbers that training changes: the adapter's, else all */
    SR1_MODEL_LORA_RANK = 10  /* of the adapter; 0: there is none */
};

/* Return one figure of the model, SR1_MODEL_*; -1 for an unknown figure or a NULL
 * model. */
SR1_API int64_t sr1_model_info(const sr1_model *model, int32_t what);

/* Compute the logits of the next token after each of the ids [n] into out [n, vocab],
 * row-major fp32; vocab is SR1_MODEL_VOCAB. SR1_E_INVALID: an id is not in the
 * vocabulary. */
SR1_API sr1_status sr1_model_logits(sr1_model *model, const int32_t *ids, size_t n,
                                    float *out);

#ifdef __cplusplus
}
#endif
#endif
