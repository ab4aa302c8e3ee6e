/* tensor/model/host_weights.h - the weights of a model on the CPU as its decode path
 * reads them: matrices in panels (kernels/product.h) in huge pages, vectors in fp32.
 *
 * They are made from a model's leaves when a decoder first asks for them, again after the
 * leaves have changed, and are shared by all replicas of the model. */
#ifndef SR1__MODEL_HOST_WEIGHTS_H
#define SR1__MODEL_HOST_WEIGHTS_H

#include "base/team.h"
#include "kernels/product.h"
#include "tensor/weights/hf_config.h"

#include <searchr1/model.h>

/* What adapters add to the outputs of a matrix: u = x A^T, then u B^T. A has the rows of
 * all that it has below one another; B, with their scales in it, has a row for each
 * output of the matrix, zero where u is another's. Always fp32; without any, a has no
 * outputs. */
struct sr1__host_lora {
    struct sr1__panels a;
    struct sr1__panels b;
};

/* The MLP of a layer, or one expert of it. */
struct sr1__host_mlp {
    struct sr1__panels gate_up; /* groups of SR1__HOST_GATES rows of gate and of up */
    struct sr1__panels down;
};

struct sr1__host_layer {
    struct sr1__panels qkv;
    struct sr1__panels o;
    struct sr1__panels router;     /* fp32; without outputs: no experts */
    float *router_rows;            /* what it was packed from */
    struct sr1__host_mlp *experts; /* [n_experts]; NULL: none, but */
    struct sr1__host_mlp mlp;
    struct sr1__host_lora qkv_lora;
    struct sr1__host_lora o_lora;
    struct sr1__host_lora gate_up_lora;
    struct sr1__host_lora down_lora;
    /* Norms as multiplied by; NULL where the architecture has none, as all vectors. */
    float *input_norm;
    float *attention_norm;
    float *post_norm;
    float *mlp_norm;
    float *q_norm;
    float *k_norm;
    float *qkv_bias;
    float *o_bias;
};
#define SR1__HOST_GATES (SR1__GROUP_OUT / 2)

struct sr1__host_weights {
    struct sr1__host_layer *layers;
    struct sr1__host_mlp *experts; /* of all layers; NULL: there are none */
    float *final_norm;
    struct sr1__panels head;
    const void *embed; /* [V, E], the leaf itself */
    int bf16;          /* else fp32: rows, and matrices */
    int int8;          /* but those of layers and the head are int8 */
    uint64_t version;  /* of the leaves */
    int32_t refs;
    float *vectors; /* their memory */
    void *panels;   /* and that of the matrices, */
    void *adapter;  /* and of the adapter's; NULL: there is none */
};

/* What the replicas of a model share. */
struct sr1__host_share;
sr1_status sr1__host_share_new(struct sr1__host_share **out);
struct sr1__host_share *sr1__host_share_retain(struct sr1__host_share *s);
void sr1__host_share_free(struct sr1__host_share *s); /* NULL is fine */
/* The leaves have changed. */
void sr1__host_share_touch(struct sr1__host_share *s);

/* Does the pass of host_pass.h run this model? One on the CPU, in fp32 or bf16, that has
 * a head and no int8 matrices. */
int sr1__host_supports(const sr1_model *m);
/* Bytes of the panels of such a model; int8: the matrices of layers and the head are. */
double sr1__host_panels_bytes(const struct sr1__hf_config *c, int bf16, int int8);
/* n numbers as the type that the weights have. */
void sr1__host_store(const struct sr1__host_weights *w, const float *from, void *to,
                     size_t n);
/* And back: n numbers in fp32, where they are or in `room`. */
const float *sr1__host_load(const struct sr1__host_weights *w, const void *from,
                            float *room, size_t n);

/* Rows that a matrix multiplies, `width` elements of the weights' type apart. */
struct sr1__host_rows {
    const unsigned char *x;
    size_t width;
    int16_t *quantized; /* as one of int8 takes them, [rows, sr1__int8_row(k)] */
};
/* Rows [first, first + n) of k numbers as int16, through room[k]. */
void sr1__host_quantize(const struct sr1__host_weights *w,
                        const struct sr1__host_rows *rows, size_t k, size_t first,
                        size_t n, float *room);
/* As sr1__product for these rows, which have been quantized where m is int8. */
void sr1__host_multiply(const struct sr1__panels *m, size_t group,
                        const struct sr1__host_rows *rows, size_t first, size_t n,
                        float *tile);

/* The ranks of the adapters of a matrix, added up, where they are most; 0: none. */
size_t sr1__host_ranks(const sr1_model *m);
/* The same, and bytes of the panels, of an adapter of this rank on these modules (bits
 * 1 << SR1__LORA_*). */
size_t sr1__host_adapter_ranks(int64_t rank, uint32_t targets);
double sr1__host_adapter_bytes(const struct sr1__hf_config *c, int64_t rank,
                               uint32_t targets);

/* Replace *w, which may be NULL, by the weights of now; team makes them where they are
 * missing. The same int8 in all calls. On failure *w is NULL. */
sr1_status sr1__host_weights_renew(struct sr1__host_weights **w, const sr1_model *m,
                                   int int8, struct sr1__team *team);
/* Give *w back; the last one frees it. */
void sr1__host_weights_release(struct sr1__host_weights **w, const sr1_model *m);

#endif
