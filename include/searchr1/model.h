/* searchr1/model.h - language models: Qwen3 and Qwen2.5 decoders from Hugging Face
 * folders.
 *
 * Ownership: free a model with sr1_model_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   one thread at a time per model. */
#ifndef SEARCHR1_MODEL_H
#define SEARCHR1_MODEL_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_model sr1_model;

typedef struct sr1_model_options {
    size_t struct_size;  /* set by the caller; later versions append fields */
    const char *device;  /* "auto", "cpu", "cuda", "cuda:1"; NULL: "auto" */
    const char *dtype;   /* "fp32", "bf16", "fp16"; NULL: fp32 on the CPU, bf16 on CUDA */
    int32_t threads;     /* of one tensor operation, for the process; 0: leave as it is */
    const char
        *init; /* sr1_model_new_random: "normal" (sd 0.02) or "fan_in"; NULL: "normal" */
} sr1_model_options;

/* Load a folder with config.json and *.safetensors (model.safetensors, or shards with
 * model.safetensors.index.json). options may be NULL and is copied. A folder that does
 * not exist is SR1_E_NOT_FOUND with the command that would download the model; nothing is
 * fetched. Weights that are not finite are refused by name (SR1_E_NUMERIC). Caller frees
 * with sr1_model_free. Since 0.1. */
SR1_API sr1_status sr1_model_open(sr1_model **out, const char *folder,
                                  const sr1_model_options *options);

/* A model with random weights: config_json is the text of a Hugging Face config.json.
 * The same seed gives the same weights. Caller frees with sr1_model_free. Since 0.1. */
SR1_API sr1_status sr1_model_new_random(sr1_model **out, const char *config_json,
                                        uint64_t seed, const sr1_model_options *options);

/* Write config.json and model.safetensors into folder (made if missing; files replaced
 * atomically), so that sr1_model_open and transformers load it. Since 0.1. */
SR1_API sr1_status sr1_model_save(const sr1_model *model, const char *folder);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_model_free(sr1_model *model);

/* Figures of a model by name. Since 0.1. */
enum {
    SR1_MODEL_VOCAB = 0,      /* rows of the embedding */
    SR1_MODEL_LAYERS = 1,
    SR1_MODEL_HIDDEN = 2,
    SR1_MODEL_HEADS = 3,
    SR1_MODEL_KV_HEADS = 4,
    SR1_MODEL_HEAD_DIM = 5,
    SR1_MODEL_MAX_POSITION = 6,
    SR1_MODEL_PARAMETERS = 7, /* trainable numbers; a tied head counts once */
    SR1_MODEL_TIED = 8        /* 1 when the head shares the embedding */
};

/* One of the figures above; -1 for an unknown one or a NULL model. Since 0.1. */
SR1_API int64_t sr1_model_info(const sr1_model *model, int32_t what);

/* "fp32", "bf16" or "fp16". Static. Since 0.1. */
SR1_API const char *sr1_model_dtype(const sr1_model *model);

/* "cpu", "cuda:0", ... Borrowed until the model is freed. Since 0.1. */
SR1_API const char *sr1_model_device(const sr1_model *model);

/* Logits of the next token after each of n ids: out is row-major [n, vocab], fp32.
 * Since 0.1. */
SR1_API sr1_status sr1_model_logits(sr1_model *model, const int32_t *ids, size_t n,
                                    float *out);

#ifdef __cplusplus
}
#endif
#endif
