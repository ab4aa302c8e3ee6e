/* searchr1/model.h - language models: decoders (Qwen3, Llama, Gemma 3, ...) from
 * Hugging Face folders; docs/formats.md says which.
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
    size_t struct_size; /* set by sr1_model_options_init */
    const char *device; /* "auto", "cpu", "cuda", "cuda:1"; NULL: "auto" */
    const char *dtype;  /* "fp32", "bf16", "fp16"; "stored": that of the files; NULL: fp32
                           on the CPU, bf16 on CUDA */
    int32_t threads;    /* of one tensor operation of the caller's; 0: leave as it is */
    const char
        *init; /* sr1_model_new_random: "normal" (sd 0.02) or "fan_in"; NULL: "normal" */
    const char
        *base_model; /* sr1_model_open of an adapter: the folder of its base; NULL or
                        "": the one that adapter_config.json names */
} sr1_model_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_model_options_init(sr1_model_options *options);

/* Load the model in a Hugging Face folder: config.json and model.safetensors, or its
 * shards with model.safetensors.index.json; or a LoRA adapter of peft's
 * (adapter_config.json, adapter_model.safetensors) on the base that options or else the
 * adapter name; where that is gone and the adapter is a run's, on what the run was
 * trained from. options may be NULL and is copied. Nothing is downloaded.
 * SR1_E_NOT_FOUND: the folder does not exist; the text has the command that downloads the
 * model. SR1_E_UNSUPPORTED: another architecture or kind of adapter. SR1_E_CORRUPT: a
 * file of weights is damaged. SR1_E_NUMERIC names a tensor that is not finite.
 * SR1_E_DEVICE, SR1_E_DEVICE_NOMEM: the device cannot be used or is full. Caller frees
 * with sr1_model_free. */
SR1_API sr1_status sr1_model_open(sr1_model **out, const char *folder,
                                  const sr1_model_options *options);

/* Write config.json and model.safetensors into a folder, which is made if it is missing;
 * sr1_model_open and transformers can load it. Of a model with an adapter the adapter
 * alone is written, as peft does, with the folder of its base in adapter_config.json;
 * SR1_E_INVALID: `folder` is that base. SR1_E_IO: a file cannot be written.
 * Each file is replaced whole. */
SR1_API sr1_status sr1_model_save(const sr1_model *model, const char *folder);

/* Write the whole model, an adapter merged into its weights: W + s B A, computed in fp32
 * and rounded to the model's type. Without an adapter this is sr1_model_save.
 * SR1_E_INVALID: `folder` is the base's own, or holds an adapter. */
SR1_API sr1_status sr1_model_save_merged(const sr1_model *model, const char *folder);

/* Free a model. NULL is fine. */
SR1_API void sr1_model_free(sr1_model *model);

/* Return the type of the weights: "fp32", "bf16" or "fp16". Static. */
SR1_API const char *sr1_model_dtype(const sr1_model *model);

/* Return the device that holds the weights: "cpu", "cuda:0", ... Borrowed until the model
 * is freed. */
SR1_API const char *sr1_model_device(const sr1_model *model);

#ifdef __cplusplus
}
#endif
#endif
