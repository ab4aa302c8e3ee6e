/* tensor/weights/hf_config.h - config.json of a Hugging Face model folder: decoders of
 * one form (norm before attention and MLP, rotary positions, SwiGLU) and what the
 * architectures of decoder_archs.h do otherwise. Unsupported settings (other activations,
 * other kinds of layers, other architectures, quantised weights) are refused by the name
 * of their key. */
#ifndef SR1__WEIGHTS_HF_CONFIG_H
#define SR1__WEIGHTS_HF_CONFIG_H

#include "tensor/weights/rope_config.h"
#include "tensor/weights/safetensors.h"

enum sr1__arch {
    SR1__ARCH_QWEN3,
    SR1__ARCH_QWEN2,
    SR1__ARCH_LLAMA,
    SR1__ARCH_MISTRAL,
    SR1__ARCH_SMOLLM3,
    SR1__ARCH_QWEN3_MOE,
    SR1__ARCH_GEMMA3,
    SR1__ARCHS
};

/* What one layer does otherwise than the others. */
enum {
    SR1__LAYER_NO_ROPE = 1 << 0, /* its heads are not turned to their positions */
    SR1__LAYER_WINDOW = 1 << 1,  /* a token attends to the last sliding_window ones */
    SR1__LAYER_EXPERTS = 1 << 2, /* its MLP consists of routed experts */
    SR1__LAYER_LOCAL = 1 << 3    /* its heads are turned as local_rope says */
};
#define SR1__MAX_LAYERS 1024

#define SR1__MAX_EOS 8

struct sr1__hf_config {
    int32_t arch;
    int32_t qk_norm;    /* rms norm of each query and key head: Qwen3, Gemma 3 */
    int32_t qkv_bias;   /* q_proj, k_proj, v_proj have biases: Qwen2, or attention_bias */
    int32_t o_bias;     /* o_proj has one: with attention_bias, not Qwen2 */
    int32_t value_head; /* a critic: score.weight, score.bias give a number for each token
                           (...ForTokenClassification with one label), no lm_head */
    int32_t tie_word_embeddings; /* the head is the embedding; no lm_head.weight in the
                                    file */
    int32_t dtype; /* SR1__WEIGHT_F32, ... of the stored weights; float32 when not said */
    int64_t vocab_size;
    int64_t hidden_size;
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads; /* divides n_heads */
    int64_t head_dim;   /* even; not always hidden_size / n_heads */
    int64_t intermediate_size;
    int64_t max_positions;
    int64_t sliding_window;    /* tokens that a token attends to in layers with a window,
                                  itself among them; 0: no layer has one */
    int64_t n_experts;         /* of a layer that has any; 0: none has, and */
    int64_t experts_per_token; /* 0, as */
    int64_t expert_size;       /* the intermediate size of one */
    int32_t norm_expert_probs; /* those of a token's experts are made to add up to 1 */
    double rms_norm_eps;
    struct sr1__rope_config rope;
    struct sr1__rope_config local_rope; /* of SR1__LAYER_LOCAL; all 0: no layer is */
    int64_t query_scalar;          /* scores are divided by its root; 0: by head_dim's */
    double initializer_range;      /* standard deviation of fresh weights, default 0.02 */
    int32_t n_eos;                 /* 0 when the folder names none */
    int32_t eos_ids[SR1__MAX_EOS]; /* of config.json, then new ones of
                                      generation_config.json */
    int32_t bos_id;                /* -1: none */
    int32_t pad_id;                /* -1: none */
    uint8_t layers[SR1__MAX_LAYERS]; /* [n_layers] SR1__LAYER_... */
};

/* Read folder/config.json and, where it exists, the eos ids of generation_config.json. */
sr1_status sr1__hf_config_load(struct sr1__hf_config *out, const char *folder);
/* The text of a config.json; name is what errors call it. */
sr1_status sr1__hf_config_parse(struct sr1__hf_config *out, const char *text, size_t n,
                                const char *name);
/* The checks of load on a struct filled by hand (name as above). */
sr1_status sr1__hf_config_check(const struct sr1__hf_config *c, const char *name);
/* How many layers have this SR1__LAYER_..., and does any? */
int64_t sr1__hf_config_count(const struct sr1__hf_config *c, uint8_t what);
int sr1__hf_config_has(const struct sr1__hf_config *c, uint8_t what);
/* How a layer turns its heads to their positions. */
enum { SR1__TURN_ROPE, SR1__TURN_LOCAL, SR1__TURN_NONE, SR1__TURNS };
int32_t sr1__hf_config_turn(const struct sr1__hf_config *c, int64_t layer);
/* What queries are multiplied with before they are divided by the root of head_dim. */
double sr1__hf_config_query_scale(const struct sr1__hf_config *c);
/* Tokens that a layer attends to; 0: all before a token. */
int64_t sr1__hf_config_window(const struct sr1__hf_config *c, int64_t layer);
/* Write folder/config.json as transformers reads it; the folder exists. */
sr1_status sr1__hf_config_save(const struct sr1__hf_config *c, const char *folder);

#endif
