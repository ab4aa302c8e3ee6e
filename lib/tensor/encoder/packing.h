/* tensor/encoder/packing.h - sequences of different lengths end to end in [N, ...], and
 * attention of each with itself in both directions.
 *
 * The matrices of a layer process tokens without padding. Attention processes
 * neighbouring sequences together: those of one length as they are, or, if launching a
 * kernel costs more than computing padding (CUDA), all of them padded to the longest,
 * with a mask. */
#ifndef SR1__ENCODER_PACKING_H
#define SR1__ENCODER_PACKING_H

#include "tensor/ops/ops.h"

/* Neighbours that go through attention together; tensors belong to the scope. */
struct sr1__packing_group {
    int64_t first; /* sequence */
    int64_t n_seqs;
    int64_t begin; /* token */
    int64_t n_tokens;
    int64_t longest;
    sr1_tensor *rows;  /* i64 [n_seqs * longest]: the token of each place, the first
                          one where there is none; NULL: all are of one length */
    sr1_tensor *back;  /* i64 [n_tokens]: the place of each token */
    sr1_tensor *looks; /* bool [n_seqs, 1, 1, longest]: a token, not padding */
};

struct sr1__packing {
    struct sr1__packing_group *groups;
    size_t n_groups;
    int64_t n_seqs;
    int64_t longest;
    sr1_tensor *starts; /* i64 [n_seqs]: first tokens */
    sr1_tensor **parts; /* [n_groups], scratch */
};

/* cu_seqlens[i]..cu_seqlens[i+1] is sequence i, none empty; pad: all as one group.
 * Failures go to the scope. Always followed by sr1__packing_free. */
void sr1__packing_make(sr1_scope *s, struct sr1__packing *p, const int64_t *cu_seqlens,
                       size_t n_seqs, int pad);
void sr1__packing_free(struct sr1__packing *p);

/* softmax(q k^T / sqrt(D) + bias) v of each sequence: q, k, v [N,H,D] -> [N, H*D]. With
 * `one`, q is [n_seqs,H,D], one query a sequence -> [n_seqs, H*D]. bias NULL or
 * [1,H,T,T], T the longest. */
sr1_tensor *sr1__packing_attend(sr1_scope *s, const struct sr1__packing *p, sr1_tensor *q,
                                sr1_tensor *k, sr1_tensor *v, sr1_tensor *bias, int one);

/* Mean over each sequence's tokens: x [N,E] -> fp32 [n_seqs, E]. */
sr1_tensor *sr1__packing_mean(sr1_scope *s, const struct sr1__packing *p, sr1_tensor *x);

#endif
