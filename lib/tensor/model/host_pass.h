/* tensor/model/host_pass.h - the forward pass of a decoder on the CPU, in C over the
 * kernels, without libtorch.
 *
 * A token's numbers are computed from its own row alone, in one order: they have the same
 * bits whatever other tokens the pass has, however a row is cut into passes, and with any
 * number of threads. */
#ifndef SR1__MODEL_HOST_PASS_H
#define SR1__MODEL_HOST_PASS_H

#include "base/team.h"
#include "tensor/model/host_weights.h"
#include "tensor/model/kv.h"

struct sr1__host_pass;

/* kv is a paged one, borrowed; m too. int8: the weights of its products are. */
sr1_status sr1__host_pass_new(struct sr1__host_pass **out, sr1_model *m,
                              struct sr1__kv *kv, struct sr1__team *team, int int8);
void sr1__host_pass_free(struct sr1__host_pass *p); /* NULL is fine */
/* Give the weights and the memory of a pass back. */
void sr1__host_pass_reset(struct sr1__host_pass *p);

/* Tokens of spans that lie end to end, in memory that the cache has reserved. */
struct sr1__host_input {
    const struct sr1__kv_span *spans;
    size_t n_spans;
    const int32_t *ids;    /* of all tokens, each in [0, V) */
    const int64_t *wanted; /* [n_wanted] tokens whose hidden states are, rising */
    size_t n_wanted;
};

/* Take the weights of now and all memory that a pass with such an input needs. */
sr1_status sr1__host_pass_reserve(struct sr1__host_pass *p,
                                  const struct sr1__host_input *in);
/* Append the tokens to their rows' cache and keep the wanted hidden states. */
sr1_status sr1__host_pass_run(struct sr1__host_pass *p, const struct sr1__host_input *in);
/* The logits [V] of n of the hidden states kept last, from `first` on. */
void sr1__host_pass_logits(struct sr1__host_pass *p, size_t first, size_t n,
                           float *const *logits);

/* The most bytes of passes of one team over so many tokens, so many of them wanted. */
struct sr1__host_need {
    double tokens, wanted, threads;
    size_t ranks; /* sr1__host_adapter_ranks */
    int bf16, int8;
};
double sr1__host_pass_bytes(const struct sr1__hf_config *c,
                            const struct sr1__host_need *need);

#endif
