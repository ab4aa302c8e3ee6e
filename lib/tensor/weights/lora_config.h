/* tensor/weights/lora_config.h - adapter_config.json of a LoRA adapter as peft writes it:
 * which linear layers of a decoder have an adapter, of which rank and scale. Kinds of
 * adapters that compute something else are refused by the name of their key. */
#ifndef SR1__WEIGHTS_LORA_CONFIG_H
#define SR1__WEIGHTS_LORA_CONFIG_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SR1__LORA_WEIGHTS_FILE "adapter_model.safetensors"
#define SR1__LORA_RANK_MAX 4096

/* The linear layers of a decoder layer. Those of one fused matrix are neighbours. */
enum {
    SR1__LORA_Q,
    SR1__LORA_K,
    SR1__LORA_V,
    SR1__LORA_O,
    SR1__LORA_GATE,
    SR1__LORA_UP,
    SR1__LORA_DOWN,
    SR1__LORA_MODULES
};

/* A row of peft's rank_pattern or alpha_pattern. */
struct sr1__lora_pattern {
    int32_t layer;  /* -1: every one */
    int32_t module; /* SR1__LORA_* */
    int64_t rank;   /* 0: the row does not say */
    double alpha;   /* 0: the row does not say */
};

/* y = x W^T + s (x A^T) B^T  with A [rank, in], B [out, rank], s = alpha / rank. */
struct sr1__lora_config {
    int64_t rank;
    double alpha;
    int32_t rslora;   /* s = alpha / sqrt(rank) */
    uint32_t targets; /* bits 1 << SR1__LORA_* */
    double dropout;   /* of x, while the adapter is trained */
    int32_t
        value_head; /* a critic's: score.weight and score.bias are trained beside it */
    struct sr1__lora_pattern *patterns; /* other ranks and alphas; the first row that fits
                                           counts. Owned */
    size_t n_patterns;
};

/* "self_attn.q_proj": its place in a decoder layer. */
const char *sr1__lora_module(int32_t module);
/* Rank and s of one linear layer. */
int64_t sr1__lora_rank(const struct sr1__lora_config *c, int32_t layer, int32_t module);
double sr1__lora_scale(const struct sr1__lora_config *c, int32_t layer, int32_t module);

/* *out is freed with sr1__lora_config_free. */
sr1_status sr1__lora_config_copy(struct sr1__lora_config *out,
                                 const struct sr1__lora_config *c);
void sr1__lora_config_free(struct sr1__lora_config *c); /* a zeroed one is fine */
/* Do both compute the same? Dropout may differ. */
int sr1__lora_config_same(const struct sr1__lora_config *a,
                          const struct sr1__lora_config *b);

/* Names with commas between them ("q_proj, v_proj"), or "all-linear"; key is what errors
 * call the list. */
sr1_status sr1__lora_targets_parse(const char *list, const char *key, uint32_t *out);

/* Read folder/adapter_config.json; *out is freed with sr1__lora_config_free. Where the
 * base lies: config/model_folder.h. */
sr1_status sr1__lora_config_load(struct sr1__lora_config *out, const char *folder);
/* The text of the file; name is what errors call it. */
sr1_status sr1__lora_config_parse(struct sr1__lora_config *out, const char *text,
                                  size_t n, const char *name);
/* Can the file name this folder? SR1_E_INVALID: it is not UTF-8. NULL is fine. */
sr1_status sr1__lora_base_check(const char *base);
/* Write folder/adapter_config.json as peft reads it; the folder exists. base may be NULL.
 */
sr1_status sr1__lora_config_save(const struct sr1__lora_config *c, const char *base,
                                 const char *folder);

#endif
