/* tensor/ops/nn.h - the layers of a decoder over packed tokens: sequences of different
 * lengths lie end to end in [N,...] with no padding; cu_seqlens[i]..cu_seqlens[i+1] is
 * sequence i. */
#ifndef SR1__OPS_NN_H
#define SR1__OPS_NN_H

#include "tensor/ops/ops.h"

/* Rotate x [N,H,D] by its tokens' rows cos, sin [N,D] (picked from sr1__rope's tables).
 */
sr1_tensor *sr1__nn_rope(sr1_scope *s, sr1_tensor *x, sr1_tensor *cos, sr1_tensor *sin);

/* silu(gate) * up for gate_up [N,2F] = [gate | up] -> [N,F] */
sr1_tensor *sr1__nn_swiglu(sr1_scope *s, sr1_tensor *gate_up);

/* The same with gelu, approximated by tanh, in place of silu. */
sr1_tensor *sr1__nn_geglu(sr1_scope *s, sr1_tensor *gate_up);

/* Causal attention of each sequence with itself: q [N,H,D], k and v [N,Hkv,D] -> [N,H*D].
 * Sequences of equal length that lie next to each other share one call. */
sr1_tensor *sr1__nn_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                              const int64_t *cu_seqlens, size_t n_seqs);

/* Sequences end to end; one with continues[i] >= 0 goes on where that earlier one ends,
 * which goes on from none. */
struct sr1__sequence_spans {
    const int64_t *cu_seqlens; /* [n + 1] */
    const int32_t *continues;  /* [n] */
    size_t n;
};

/* The same where sequences may continue others: their tokens attend to those of the other
 * one too. On the CPU only. */
sr1_tensor *sr1__nn_shared_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k,
                                     sr1_tensor *v, const struct sr1__sequence_spans *in);

/* The same where a token attends to the last `window` tokens only, itself among them;
 * continues may be NULL. On any device. */
sr1_tensor *sr1__nn_window_attention(sr1_scope *s, sr1_tensor *q, sr1_tensor *k,
                                     sr1_tensor *v, const struct sr1__sequence_spans *in,
                                     int64_t window);
/* The same of one sequence's tokens that follow `past` others: qkv are q [1,H,T,D], k and
 * v [1,Hkv,past+T,D] -> [1,H,T,D]. */
sr1_tensor *sr1__nn_attend_window(sr1_scope *s, sr1_tensor *const qkv[3], int64_t past,
                                  int64_t window);

/* table[ids], ids i64 [N], for a table by which hidden states are multiplied as well: by
 * *head, so that one gradient goes back for both. Where no kernel adds rows up, *head is
 * the table. */
sr1_tensor *sr1__nn_tied_embedding(sr1_scope *s, sr1_tensor *table, sr1_tensor *ids,
                                   sr1_tensor **head);

/* log softmax(hidden weight^T / temperature)[target], fp32 [N], for hidden [N,E], weight
 * [V,E], targets i64 [N]. Rows go in chunks of chunk_rows (0: a size that bounds the
 * logits to about 32 MiB); by kernels at most 2048 of them, the vocabulary in blocks, and
 * the logits of a block are as bounded. They are computed again in backward, so no [N,V]
 * tensor ever exists. entropy_or_null receives the entropy of each row's distribution,
 * fp32 [N], whose gradient goes back too. Select the rows wanted (policy positions)
 * before: t_index_select(s, hidden, 0, rows). */
sr1_tensor *sr1__nn_token_log_probs(sr1_scope *s, sr1_tensor *hidden, sr1_tensor *weight,
                                    sr1_tensor *targets, double temperature,
                                    int64_t chunk_rows, sr1_tensor **entropy_or_null);

#endif
