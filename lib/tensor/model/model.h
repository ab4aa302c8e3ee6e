/* tensor/model/model.h - the inside of sr1_model: a decoder and its forward
 * pass.
 *
 * Weights are trained in fused leaves (q, k, v rows in one matrix, gate and up in
 * another); the Hugging Face names are views of their rows, used to load and to save.
 * With an adapter its tensors are trained, and the leaves stay as they are. */
#ifndef SR1__MODEL_MODEL_H
#define SR1__MODEL_MODEL_H

#include "tensor/ops/nn.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/rope.h"
#include "tensor/weights/decoder_archs.h"
#include "tensor/weights/lora_config.h"

#include <searchr1/model.h>

#include <stdatomic.h>

/* The adapter of one linear layer, fp32; NULL: it has none. Borrowed. */
struct sr1__lora {
    sr1_tensor *a; /* [rank, in] */
    sr1_tensor *b; /* [out, rank] */
    int64_t n_out;
    double scale; /* of what it adds */
};

/* One decoder layer; NULL where the architecture has no such tensor, and the scales where
 * its matrices are not int8 (ops/int8_linear.h). Borrowed. */
struct sr1__layer {
    sr1_tensor *input_norm;     /* [E] */
    sr1_tensor *qkv;            /* [(H+2Hkv)*D, E], rows q | k | v */
    sr1_tensor *qkv_scale;      /* [(H+2Hkv)*D, 1] */
    sr1_tensor *qkv_bias;       /* [(H+2Hkv)*D], Qwen2.5, or as config.json says */
    sr1_tensor *q_norm;         /* [D], Qwen3 and Gemma 3 */
    sr1_tensor *k_norm;         /* [D], likewise */
    sr1_tensor *o;              /* [E, H*D] */
    sr1_tensor *o_scale;        /* [E, 1] */
    sr1_tensor *o_bias;         /* [E], with attention_bias, not Qwen2.5 */
    sr1_tensor *attention_norm; /* [E] of what attention gives: Gemma 3 */
    sr1_tensor *post_norm;      /* [E] of what the MLP reads */
    sr1_tensor *mlp_norm;       /* [E] of what it gives: Gemma 3 */
    sr1_tensor *router;         /* [experts, E], a layer with experts; what follows is */
                                /* that of all of them, one above the other */
    sr1_tensor *gate_up;        /* [2F, E], rows gate | up */
    sr1_tensor *gate_up_scale;  /* [2F, 1] */
    sr1_tensor *down;           /* [E, F] */
    sr1_tensor *down_scale;     /* [E, 1] */
    struct sr1__lora lora[SR1__LORA_MODULES];
};

/* Called on a decoder's way through its units: 0 is the embedding, then come the layers,
 * and last the head with the final norm. before: its weights are about to be read;
 * after: they have been, and in backward its gradients are there (not the embedding's,
 * which are once backward returns). The head has no `after`: its weights are read until
 * the backward of the last layer begins. */
struct sr1__unit_hooks {
    sr1_status (*before)(void *self, int32_t unit, int backward);
    sr1_status (*after)(void *self, int32_t unit, int backward);
    void *self;
};

struct sr1_model {
    struct sr1__hf_config config;
    const struct sr1__arch_row *arch; /* its row in weights/decoder_archs.h */
    int32_t dtype;
    int32_t quantized; /* the layers' matrices are int8; it cannot be trained or saved */
    sr1__device device;
    sr1_tensor *embed;      /* [V,E] */
    sr1_tensor *final_norm; /* [E] */
    sr1_tensor *head;       /* [V,E]; the same handle as embed when tied; NULL in a
                               critic */
    sr1_tensor *value_head; /* [1,E], and */
    sr1_tensor *value_bias; /* [1]: a critic's; NULL otherwise */
    struct sr1__layer *layers;
    struct sr1__named *leaves; /* the weights; owns names and tensors */
    size_t n_leaves;
    struct sr1__adapter *adapter; /* adapter.h; NULL: none */
    struct sr1__named *params;    /* what an optimizer trains: the adapter's tensors, else
                                     the leaves. Borrowed */
    size_t n_params;
    struct sr1__named *views; /* by Hugging Face name; owns names and tensors */
    size_t n_views;
    struct sr1__rope rope;
    struct sr1__rope local_rope;       /* of SR1__LAYER_LOCAL */
    struct sr1__decode_tables *tables; /* decode_tables.h; NULL: not made yet */
    struct sr1__host_share *host;      /* host_weights.h, with the replicas */
    char *folder;       /* that the weights were read from, absolute; NULL: none */
    uint64_t hash;      /* of the files read, an adapter's among them; 0: none */
    uint64_t base_hash; /* the same without an adapter's */
    uint64_t version;   /* grows when weights change; caches of them compare it */
    int32_t refs;
    atomic_int busy;                     /* a forward pass is under way */
    const struct sr1__unit_hooks *hooks; /* of training passes; NULL: none. Borrowed */
    sr1_tensor **sums;       /* [n_params] of gradients, fp32; NULL where fp32 is trained
                                and while nothing is gathered */
    const sr1_model *shares; /* while a replica is built: where its leaves lie, */
    size_t n_shared;         /* the first so many of them */
};

/* Tokens of several sequences end to end. All borrowed. */
struct sr1__packed {
    const int32_t *ids;        /* [cu_seqlens[n_seqs]] */
    const int64_t *cu_seqlens; /* [n_seqs + 1], from 0, growing */
    size_t n_seqs;
    /* [n_seqs] an earlier sequence that each goes on from, which goes on from none; -1:
     * it begins anew. NULL: all do. On the CPU only. */
    const int32_t *continues;
};
/* The position of a sequence's first token: 0, or behind the one that it continues. */
int64_t sr1__packed_start(const struct sr1__packed *in, size_t i);

struct sr1__heads_op;

/* The attention of a layer: q [N,H,D], k, v [N,Hkv,D], rotated -> [N,H*D], v NULL where k
 * is both as one [N,2Hkv,D]; and its product with a weight, NULL: that of ops/linear.h.
 * in_place: no gradients are wanted and the pass may use the fewest operations; v may be
 * NULL only then. qkv_fn (NULL: none) does it from the product qkv, with the heads of
 * ops/fused.h, or gives NULL. */
struct sr1__attention {
    sr1_tensor *(*fn)(sr1_scope *s, void *self, int32_t layer, sr1_tensor *q,
                      sr1_tensor *k, sr1_tensor *v);
    void *self;
    sr1_tensor *(*linear)(sr1_scope *s, void *self, sr1_tensor *x, sr1_tensor *w,
                          sr1_tensor *bias);
    sr1_tensor *(*qkv_fn)(sr1_scope *s, void *self, int32_t layer,
                          const struct sr1__heads_op *heads, sr1_tensor *qkv);
    int in_place;
};

/* Dropout on what adapters read while they are trained: an element of x is 0 with
 * probability p, else divided by 1 - p. Which ones is a function of the token's key, the
 * layer and the linear layer in it. */
struct sr1__lora_dropout {
    double p;
    const uint64_t *keys; /* [N], a token each */
};

/* The auxiliary loss of the routers of experts (expert_balance.h). */
struct sr1__router_loss {
    double weight; /* of it in the gradient, which backward adds to that of the outputs */
    double value;  /* receives it */
};

struct sr1__routes;

struct sr1__forward_options {
    int checkpoint; /* keep only each layer's input for backward */
    const struct sr1__lora_dropout *dropout; /* NULL: none */
    struct sr1__router_loss *router;         /* NULL: none */
    const struct sr1__routes *routes; /* of experts (route_log.h); NULL: chosen anew */
    sr1_tensor **head; /* set: what hidden states are to be multiplied by in place of the
                          model's head; NULL: not asked for */
    const int32_t *rows; /* [n_rows] tokens whose hidden states are wanted; NULL: all */
    size_t n_rows;
};

/* Hidden states after the final norm [N,E] of packed sequences, or of the tokens wanted
 * [n_rows,E]; opt may be NULL. */
sr1_tensor *sr1__causal_lm_forward(sr1_scope *s, sr1_model *m,
                                   const struct sr1__packed *in,
                                   const struct sr1__forward_options *opt);

/* Tokens at given positions. The tensors are i64 [n] with the same numbers, both NULL:
 * they are made from the arrays. All borrowed. */
struct sr1__placed_tokens {
    const int32_t *ids;
    const int64_t *positions;
    size_t n;
    sr1_tensor *ids_there;
    sr1_tensor *positions_there;
};

/* The same for tokens at given positions, with the caller's attention (the KV cache). */
sr1_tensor *sr1__causal_lm_body(sr1_scope *s, sr1_model *m,
                                const struct sr1__placed_tokens *in,
                                const struct sr1__attention *attention);

/* Around a pass: SR1_E_STATE when another thread is in one. */
sr1_status sr1__causal_lm_begin(sr1_model *m);
void sr1__causal_lm_end(sr1_model *m);

/* Can the model read them? *longest receives the tokens of the longest, with those of
 * what it continues. */
sr1_status sr1__causal_lm_check_packed(const sr1_model *m, const struct sr1__packed *in,
                                       int64_t *longest);

/* Logits [n,V] of hidden states [n,E], in the model's dtype. */
sr1_tensor *sr1__causal_lm_logits(sr1_scope *s, sr1_model *m, sr1_tensor *hidden);

/* A critic's values [n] of hidden states [n,E], in the model's dtype. */
sr1_tensor *sr1__causal_lm_values(sr1_scope *s, sr1_model *m, sr1_tensor *hidden);

/* A critic with the body of a language model or critic, an adapter merged into it. Its
 * value head is that of `from`, or zero: every state is worth 0 at first. dtype as
 * sr1__model_clone. */
sr1_status sr1__model_critic(sr1_model **out, const sr1_model *from, int32_t dtype);
/* The same, but it shares the body of `from`, without its adapter: nothing may change
 * those weights, and `from` must outlive it. */
sr1_status sr1__model_critic_sharing(sr1_model **out, const sr1_model *from);

/* What is trained records gradients (1) or not (0; a frozen reference). New models do
 * not. */
sr1_status sr1__model_train(sr1_model *m, int on);
/* A model that shares the weights of another but has gradients and caches of its own, so
 * that two threads can work with them. `of` must outlive it. */
sr1_status sr1__model_replica(sr1_model **out, const sr1_model *of);
/* The model as it is now, whatever is trained afterwards; dtype as sr1__model_clone. The
 * leaves under an adapter are shared, as nothing changes them. */
sr1_status sr1__model_freeze(sr1_model **out, const sr1_model *of, int32_t dtype);
/* One more reference, given back by sr1_model_free. */
sr1_model *sr1__model_retain(sr1_model *m);
/* Call after each of several backward passes: adds the gradients to fp32 sums, because a
 * bf16 sum stops changing once it is about 256 times larger than the addend. Nothing to
 * do in fp32. */
sr1_status sr1__model_gather_grad(sr1_model *m);
/* Add what a backward pass left in `from`, a replica or `to` itself, to the fp32 sums of
 * `to`. */
sr1_status sr1__model_move_grad(sr1_model *to, sr1_model *from);
/* All gradients as sums in fp32, with zeros for params[i] that have none where wanted[i]
 * is set: other models have one, to be added. */
sr1_status sr1__model_sum_grad(sr1_model *m, const uint8_t *wanted);
/* The gradient of params[i] so far, owned by s; NULL: none. */
sr1_tensor *sr1__model_grad(sr1_scope *s, const sr1_model *m, size_t i);
/* Forget accumulated gradients; and those of params [begin, end). */
void sr1__model_clear_grad(sr1_model *m);
void sr1__model_clear_grads(sr1_model *m, size_t begin, size_t end);
/* How many units the leaves stand in, in order; where ends is not NULL, unit u ends
 * before leaf ends[u]. */
size_t sr1__model_units(const sr1_model *m, size_t *ends);
/* Add the gradients of a replica to those of `to`, and forget them there. */
sr1_status sr1__model_add_grad(sr1_model *to, sr1_model *from);
/* Call this after changing weights. */
void sr1__model_touch(sr1_model *m);

/* "BEFOREmodel.layers.LAYER.NAMEBEHIND", without the layer where it is negative. NULL
 * without memory; caller frees with sr1__free. */
char *sr1__tensor_name(const char *before, int64_t layer, const char *name,
                       const char *behind);

/* to <- alpha * from + (1 - alpha) * to, of models of one shape without adapters, which
 * may differ in type and device. A failure leaves `to` in part as it was. */
sr1_status sr1__model_mix_weights(sr1_model *to, const sr1_model *from, double alpha);
/* A copy of the weights as they are now, in dtype (-1: the same), and of an adapter. */
sr1_status sr1__model_clone(sr1_model **out, const sr1_model *from, int32_t dtype);
/* The same on another device, or on the host (SR1__CPU). */
sr1_status sr1__model_clone_to(sr1_model **out, const sr1_model *from, int32_t dtype,
                               sr1__device device);
/* A copy whose layers' matrices are int8, the rest in dtype (-1: the same); embeddings
 * and the head are not quantised. Of a model without an adapter. */
sr1_status sr1__model_quantize(sr1_model **out, const sr1_model *from, int32_t dtype,
                               sr1__device device);
/* Overwrite the weights of `to` with those of `from` (same shapes, converts dtype), and
 * its adapter. */
sr1_status sr1__model_copy_weights(sr1_model *to, const sr1_model *from);

/* Make the rotary tables cover positions below n. */
sr1_status sr1__model_reserve_positions(sr1_model *m, int64_t n);

/* A model whose weights are not set yet. */
sr1_status sr1__model_empty(sr1_model **out, const struct sr1__hf_config *config,
                            int32_t dtype, sr1__device device);

/* How sr1__model_random fills matrices: all sd 0.02, or scaled by fan-in. */
enum { SR1__INIT_NORMAL = 0, SR1__INIT_FAN_IN = 1 };
sr1_status sr1__model_random(sr1_model **out, const struct sr1__hf_config *config,
                             uint64_t seed, int32_t init, int32_t dtype,
                             sr1__device device);

#endif
