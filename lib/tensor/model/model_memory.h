/* tensor/model/model_memory.h - the bytes that a model, its passes and its training take,
 * computed from shapes alone: nothing is loaded.
 *
 * The tables follow what causal_lm.c, token_log_probs.c, optimizer.c and kv_slots.c
 * allocate and what libtorch keeps for backward; tests/accelerator/test_memory.c holds
 * them to what a device counts. All results are bytes. */
#ifndef SR1__MODEL_MODEL_MEMORY_H
#define SR1__MODEL_MODEL_MEMORY_H

#include "tensor/ops/scope.h"
#include "tensor/weights/hf_config.h"
#include "tensor/weights/lora_config.h"

struct sr1__memory_model {
    struct sr1__hf_config config;
    int32_t dtype; /* SR1__F32, ... */
    sr1__device device;
    struct sr1__lora_config lora; /* rank 0: all weights are trained */
    int quantized;                /* the layers' matrices are int8 */
    int decodes_int8;             /* as sr1__decoder_quantize */
    int narrow_cache;             /* as sr1__decoder_narrow_cache */
    double threads;               /* of a pass on the CPU */
};

int sr1__memory_is_cuda(const struct sr1__memory_model *m);

/* One micro-batch. */
struct sr1__memory_pass {
    double tokens;
    double targets; /* tokens whose log-probs are asked for; of a critic: values */
    double longest; /* tokens of the longest sequence */
    double chunk;   /* rows of logits at a time; 0: as sr1__nn_token_log_probs chooses */
    int mixed;      /* its sequences differ in length */
    int entropy;    /* entropies are asked for too */
    int checkpoint; /* only layers' inputs are kept for backward */
    int by_unit;    /* a unit's gradients go once they are there (model.h) */
};

/* Numbers, not bytes. */
double sr1__memory_parameters(const struct sr1__hf_config *c);
double sr1__memory_adapter(const struct sr1__memory_model *m);
double sr1__memory_trained(const struct sr1__memory_model *m);

/* Of the weights, with an adapter. */
double sr1__memory_weights(const struct sr1__memory_model *m);
/* Rotary tables for so many positions. */
double sr1__memory_rope(const struct sr1__memory_model *m, double positions);
/* Adam's two moments, and fp32 masters where weights are narrower. */
double sr1__memory_moments(const struct sr1__memory_model *m);
double sr1__memory_masters(const struct sr1__memory_model *m);
/* What of them is on the device at a time where they lie on the host. */
double sr1__memory_offload_piece(const struct sr1__memory_model *m);
/* Gradients as backward leaves them, and fp32 sums over micro-batches beside them (0:
 * they are added up in place). */
double sr1__memory_gradients(const struct sr1__memory_model *m);
double sr1__memory_sums(const struct sr1__memory_model *m);
/* Numbers of the largest layer, of the largest unit, and of the most units whose weights
 * are read at once: the head's with a layer's. */
double sr1__memory_layer(const struct sr1__memory_model *m);
double sr1__memory_unit(const struct sr1__memory_model *m);
double sr1__memory_units_at_once(const struct sr1__memory_model *m);

/* What an update takes where one backward pass is all of it: fp32 for a part of the
 * gradients at a time. */
double sr1__memory_grad_piece(const struct sr1__memory_model *m);

/* Peak of a pass without gradients, beyond the weights. */
double sr1__memory_forward(const struct sr1__memory_model *m,
                           const struct sr1__memory_pass *p);
/* Peak of such passes by so many workers at once that are asked for log-probs. */
double sr1__memory_score(const struct sr1__memory_model *m,
                         const struct sr1__memory_pass *p, double workers);
/* Peak of a forward and a backward pass with the gradients that it leaves, beyond the
 * weights. */
double sr1__memory_backward(const struct sr1__memory_model *m,
                            const struct sr1__memory_pass *p);

/* Sequences that are decoded at once. */
struct sr1__memory_rows {
    double n;
    double most;   /* that the decoder takes */
    double group;  /* that share a prompt; 1: each has its own */
    double prompt; /* tokens of a prompt */
    double tokens; /* of a sequence in the end, with its prompt */
};

/* Their key-value cache: when it is full, and at most while it grows. */
double sr1__memory_cache(const struct sr1__memory_model *m,
                         const struct sr1__memory_rows *r);
double sr1__memory_cache_peak(const struct sr1__memory_model *m,
                              const struct sr1__memory_rows *r);
/* Peak of passes of so many decoders at once that append tokens in all to so many rows of
 * `longest` tokens, beyond weights and cache. */
double sr1__memory_decode(const struct sr1__memory_model *m, double rows, double tokens,
                          double longest, double workers);

#endif
