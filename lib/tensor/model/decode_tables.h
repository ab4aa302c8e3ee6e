/* tensor/model/decode_tables.h - what a model keeps on a device so that a decode step is
 * few operations. */
#ifndef SR1__MODEL_DECODE_TABLES_H
#define SR1__MODEL_DECODE_TABLES_H

#include "tensor/model/model.h"

/* Tokens up to which a pass turns heads by matrices, which are D times their size. */
#define SR1__TURN_TOKENS 512

struct sr1__decode_tables {
    int32_t n_layers;
    uint64_t version;      /* of the weights in qk_norms */
    sr1_tensor *same;      /* [D,D], 1 on the diagonal */
    sr1_tensor *swapped;   /* [D,D]: x swapped = [-x2, x1] for x = [x1, x2] */
    sr1_tensor **qk_norms; /* [layers] of [H+Hkv,D]; NULL where heads have no norm */
};

void sr1__decode_tables_free(struct sr1__decode_tables *t); /* NULL is fine */

/* The matrices [N,D,D] that turn heads of a token to its position, of cos and sin [N,D]:
 * x turn = x cos + [-x2, x1] sin. Makes the model's tables, or renews them after its
 * weights have changed. */
sr1_tensor *sr1__decode_turn(sr1_scope *s, sr1_model *m, sr1_tensor *cos,
                             sr1_tensor *sin);

#endif
