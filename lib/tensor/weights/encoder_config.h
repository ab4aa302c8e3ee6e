/* tensor/weights/encoder_config.h - config.json of a text encoder: BERT, DPR, T5.
 * Unsupported settings are refused by the name of their key. */
#ifndef SR1__WEIGHTS_ENCODER_CONFIG_H
#define SR1__WEIGHTS_ENCODER_CONFIG_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum sr1__encoder_arch {
    SR1__ENCODER_BERT = 0,
    SR1__ENCODER_DPR = 1,
    SR1__ENCODER_T5 = 2,
    SR1__ENCODER_ARCHS = 3
};

/* The activation between the two matrices of a feed-forward block. */
enum sr1__encoder_act {
    SR1__ACT_GELU = 0,      /* the erf form */
    SR1__ACT_GELU_TANH = 1, /* its approximation by tanh */
    SR1__ACT_RELU = 2,
    SR1__ACT_SILU = 3,
    SR1__ACTS = 4
};

struct sr1__encoder_config {
    int32_t arch;       /* enum sr1__encoder_arch */
    int32_t act;        /* enum sr1__encoder_act */
    int32_t gated;      /* T5 v1.1: act(wi_0 x) * (wi_1 x) */
    int32_t classifies; /* architectures names BertForSequenceClassification */
    int64_t n_labels;   /* of its head */
    int64_t vocab_size;
    int64_t hidden_size;
    int64_t n_layers;
    int64_t n_decoder_layers; /* T5; 0 elsewhere */
    int64_t n_heads;
    int64_t head_dim;
    int64_t intermediate_size;
    int64_t max_positions;  /* most tokens of a text */
    int64_t n_types;        /* token types; 0: T5 */
    int64_t projection_dim; /* DPR: of the vectors; 0: hidden_size */
    int64_t n_buckets;      /* T5: of relative positions, both directions together */
    int64_t max_distance;   /* T5: from here on all share the last bucket */
    int64_t decoder_start;  /* T5: the id its decoder begins with */
    double eps;             /* of the norms */
};

/* Read folder/config.json. */
sr1_status sr1__encoder_config_load(struct sr1__encoder_config *out, const char *folder);
/* The text of a config.json; name is what errors call it. */
sr1_status sr1__encoder_config_parse(struct sr1__encoder_config *out, const char *text,
                                     size_t n, const char *name);
/* "bert", "dpr", "t5". */
const char *sr1__encoder_arch_name(int32_t arch);

#endif
