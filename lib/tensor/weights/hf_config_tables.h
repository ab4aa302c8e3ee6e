/* tensor/weights/hf_config_tables.h - the accepted keys of config.json, for the files
 * that read and write it. */
#ifndef SR1__WEIGHTS_HF_CONFIG_TABLES_H
#define SR1__WEIGHTS_HF_CONFIG_TABLES_H

#include "tensor/weights/hf_config.h"
#include "tensor/weights/hf_keys.h"

/* Rows in the order of enum sr1__arch. */
#define SR1__N_ARCHS 2
struct sr1__arch_row {
    const char *architectures[2]; /* a language model, a critic */
    const char *model_type;
    int qk_norm;
    int qkv_bias;     /* always; else attention_bias decides for q, k, v and o */
    int64_t head_dim; /* where config.json does not say; 0: hidden_size / heads */
};
extern const struct sr1__arch_row sr1__archs[SR1__N_ARCHS];

#define SR1__N_SIZES 8
extern const struct sr1__hf_size sr1__sizes[SR1__N_SIZES];

#endif
