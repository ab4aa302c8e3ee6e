/* tensor/model/kv.h - the interface between the decoder and its key-value cache.
 *
 * Two kinds: pages in host memory, read by a kernel of our own (kv_paged.c: the CPU in
 * fp32 and bf16), and tensors with a slot for each row (kv_slots.c: any device and type).
 */
#ifndef SR1__MODEL_KV_H
#define SR1__MODEL_KV_H

#include "base/pool.h"
#include "kernels/attention.h"
#include "tensor/model/model.h"

/* Tokens [first, first + n) of a pass are tokens [past, past + n) of a row. The cache
 * sets first. */
struct sr1__kv_span {
    int32_t row;
    int64_t first;
    int64_t past;
    int64_t n;
};

struct sr1__kv;

struct sr1__kv_ops {
    /* Reserve memory for the spans' tokens; the contents of rows are unchanged, also on
     * failure. */
    sr1_status (*reserve)(struct sr1__kv *kv, const struct sr1__kv_span *spans, size_t n);
    /* Decide where in the pass the tokens of each span lie, and return its number of
     * tokens. Those that belong to no span are computed for nothing. */
    int64_t (*layout)(struct sr1__kv *kv, struct sr1__kv_span *spans, size_t n);
    /* A cache of tensors: the place in it of each token of the pass, [N], and these with
     * the positions, i64 [N] each, as tensors before the first layer. NULL: the cache is
     * on the host and knows them from the spans. */
    void (*list_places)(const struct sr1__kv *kv, const struct sr1__kv_span *spans,
                        size_t n, int64_t *places, int64_t n_tokens);
    void (*begin)(sr1_scope *s, struct sr1__kv *kv, sr1_tensor *places,
                  sr1_tensor *positions);
    /* Store k, v [N,Hkv,D] (tensors: v NULL, k both as [N,2Hkv,D]) and compute the
     * attention of q [N,H,D] over its row so far -> [N,H*D]. */
    sr1_tensor *(*attend)(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                          const struct sr1__kv_span *spans, size_t n, sr1_tensor *q,
                          sr1_tensor *k, sr1_tensor *v);
    /* Both, and what comes before, of the product qkv [N,(H+2Hkv)*D] itself, where one
     * kernel does all but the attention; NULL: where not. A cache of tensors. */
    sr1_tensor *(*attend_qkv)(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                              const struct sr1__heads_op *heads, sr1_tensor *qkv);
    /* Row `to`, empty, becomes the first n_tokens of row `from`. */
    sr1_status (*fork)(struct sr1__kv *kv, int32_t from, int32_t to, int64_t n_tokens);
    void (*clear)(struct sr1__kv *kv, int32_t row);
    void (*trim)(struct sr1__kv *kv); /* give back memory that no row uses */
    int64_t (*bytes)(const struct sr1__kv *kv);
    void (*free)(struct sr1__kv *kv); /* all rows are clear */
};

struct sr1__kv {
    const struct sr1__kv_ops *ops; /* first member of each kind */
    /* Of the pass that was laid out last, in a cache of tensors: its first n_lanes tokens
     * are each the next of the row whose slot it is. */
    int64_t n_lanes;
    int64_t most_lanes; /* that there can be */
    int64_t moves;      /* times that its tensors have changed their addresses */
};

/* Where one head of a layer of a row's first n tokens is, in a paged cache. */
struct sr1__page_head sr1__kv_paged_head(const struct sr1__kv *kv, int32_t layer,
                                         int32_t row, int64_t head, int64_t n);

/* Of the model's type. pool is borrowed. */
sr1_status sr1__kv_paged_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             struct sr1__pool *pool);
/* From now on in bf16, whatever the model's type: for the passes of host_pass.h alone. Of
 * a paged cache without pages. */
void sr1__kv_paged_narrow(struct sr1__kv *kv);
sr1_status sr1__kv_slots_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             int64_t max_tokens);

/* Causal attention of n new tokens q [n,H,D] over k, v [1,Hkv,past+n,D] -> [n,H*D], to
 * the last `window` tokens; 0: to all. */
sr1_tensor *sr1__kv_attend_span(sr1_scope *s, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                int64_t past, int64_t window);

#endif
