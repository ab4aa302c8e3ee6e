/* tensor/weights/hf_config_tables.h - the accepted keys of config.json, for the files
 * that read and write it. */
#ifndef SR1__WEIGHTS_HF_CONFIG_TABLES_H
#define SR1__WEIGHTS_HF_CONFIG_TABLES_H

#include "tensor/weights/hf_config.h"
#include "tensor/weights/hf_keys.h"

/* Rows in the order of enum sr1__arch. */
struct sr1__arch_row {
    const char *architectures[2]; /* a language model, a critic */
    const char *model_type;
    int qk_norm;
    int qkv_bias; /* always; else attention_bias decides for q, k, v and o */
    /* Where config.json does not say: */
    int64_t head_dim;   /* 0: hidden_size / heads */
    int64_t n_kv_heads; /* 0: as many as heads */
    int64_t max_positions;
    int64_t sliding_window; /* 0: this architecture has none */
};
extern const struct sr1__arch_row sr1__archs[SR1__ARCHS];

#define SR1__N_SIZES 8
extern const struct sr1__hf_size sr1__sizes[SR1__N_SIZES];

#endif
