/* tensor/weights/decoder_archs.h - the architectures of decoders, a row each: what
 * config.json means for it, and what its layers do otherwise than Llama's. */
#ifndef SR1__WEIGHTS_DECODER_ARCHS_H
#define SR1__WEIGHTS_DECODER_ARCHS_H

#include "tensor/weights/hf_config.h"
#include "tensor/weights/hf_keys.h"

/* Rows in the order of enum sr1__arch. */
struct sr1__arch_row {
    const char *architectures[2]; /* a language model, a critic */
    const char *model_type;
    /* What its layers do otherwise. */
    int qk_norm;
    int qkv_bias;              /* always; else attention_bias decides for q, k, v and o */
    int experts;               /* some layers have routed experts */
    int gelu;                  /* gelu approximated by tanh, in place of silu */
    int norm_plus_one;         /* norms multiply by 1 + w, in fp32 */
    int post_norms;            /* what attention and MLP give is normalised too */
    int embedding_scale;       /* embeddings are multiplied by the root of hidden_size */
    const char *act_key, *act; /* as config.json names the activation */
    /* Where config.json does not say: */
    int tied;           /* the head is the embedding */
    int64_t head_dim;   /* 0: hidden_size / heads */
    int64_t n_kv_heads; /* 0: as many as heads */
    int64_t max_positions;
    int64_t sliding_window; /* 0: this architecture has none */
    double rope_theta;
    double local_rope_theta; /* of layers with a window; 0: that of all */
    /* What is peculiar to each layer: fill c->layers, and sliding_window if a layer has
     * one, from config.json, and add the same to one that is written; 0: done. */
    sr1_status (*read_layers)(const json_t *root, const char *name,
                              struct sr1__hf_config *c);
    int (*write_layers)(json_t *root, const struct sr1__hf_config *c);
};
extern const struct sr1__arch_row sr1__archs[SR1__ARCHS];

/* The accepted sizes. */
#define SR1__N_SIZES 8
extern const struct sr1__hf_size sr1__sizes[SR1__N_SIZES];

/* And those of architectures with experts. */
#define SR1__N_EXPERT_SIZES 3
extern const struct sr1__hf_size sr1__expert_sizes[SR1__N_EXPERT_SIZES];

#endif
