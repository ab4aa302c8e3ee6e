/* tensor/model/host_pass_internal.h - a pass of host_pass.h from within: its memory is
 * taken by host_pass_memory.c, its layers run in host_pass.c. */
#ifndef SR1__MODEL_HOST_PASS_INTERNAL_H
#define SR1__MODEL_HOST_PASS_INTERNAL_H

#include "kernels/product_int8.h"
#include "tensor/model/host_experts.h"
#include "tensor/model/host_pass.h"
#include "tensor/model/model.h"

#define PIECE 512   /* tokens that go through the layers together */
#define ROWS 128    /* of a product's tile */
#define NORM_ROWS 8 /* of a task */
#define ROPE_ROWS 4
#define LORA_ROWS 16
#define ATTEND_TOKENS 16 /* of a span, of a task */
#define ATTEND_TASKS 8   /* of a thread, at most */
#define QUERIES 64       /* that a task hands to the kernel at once */
#define WIDTH_AT 32      /* elements that rows are rounded up to, as products want */

#define LOT_TOKENS 16      /* at least, where weights stay in a cache of the processor, */
#define LOT_TOKENS_READ 64 /* and where each lot reads them from memory */
#define CACHED_WEIGHTS (24.0 * 1048576)
#define LOTS 4      /* of a thread, at most */
#define LOT_WASTE 8 /* threads wait for at most 1 / LOT_WASTE of a pass */

/* A thread's own. */
struct host_scratch {
    float *tile;    /* [ROWS, SR1__GROUP_OUT] */
    float *gated;   /* [ROWS, SR1__HOST_GATES] */
    float *row;     /* [widest] */
    float *heads;   /* [QUERIES, D] */
    float *angles;  /* [2, D] */
    float *widened; /* [LORA_ROWS, widest] */
};

/* Tokens of one span in a piece, at most ATTEND_TOKENS. */
struct host_block {
    int32_t row;
    int64_t first; /* of the piece */
    int64_t past;
    int64_t n;
};

/* Tokens of whole spans. */
struct host_lot {
    int64_t from, end;
    size_t kept; /* wanted tokens before them */
};

struct sr1__host_pass {
    sr1_model *m;
    struct sr1__kv *kv;
    struct sr1__team *team;
    struct sr1__host_weights *weights;
    size_t size; /* of an element of the weights */
    size_t e, q, kv_width, f;
    int normed;        /* norms follow what attention and MLP give */
    float embed_scale; /* of the weights' type */
    float query_scale;
    struct sr1__host_experts *experts; /* NULL: there are none */
    float *memory;                     /* all below */
    size_t tokens;                     /* that it has room for */
    float *x;                          /* [tokens, e] */
    float *qkv;                        /* [tokens, q + 2 kv_width] */
    float *queries;                    /* [tokens, q], scaled */
    float *output;                     /* [tokens, e] of a matrix that a norm follows */
    unsigned char *h;                  /* [tokens, depth(e)] of the weights' type */
    unsigned char *attended;           /* [tokens, depth(q)] */
    unsigned char *gated;              /* [tokens, depth(f)] */
    size_t ranks;                      /* of the adapters of a matrix, at most */
    float *lora;                       /* [tokens, depth(ranks)]: x A^T */
    struct host_scratch *scratch;      /* [threads] */
    float *scratch_memory;
    unsigned char *hidden; /* [wanted, depth(e)] of the weights' type */
    size_t hidden_cap;
    int int8;           /* the weights are, and */
    int16_t *quantized; /* [quantized_cap, row of the widest] what is multiplied */
    size_t quantized_cap;
    struct host_block *blocks;
    size_t n_blocks, blocks_cap;
    size_t items; /* of blocks and heads, that a task of the attention takes */
    /* the piece under way */
    const struct sr1__host_layer *layer;
    int32_t layer_index;
    size_t n;
    int32_t *rows;      /* [PIECE] of its tokens */
    int64_t *positions; /* [PIECE] */
    /* threads that take lots, each by itself: made with the first of them */
    struct sr1__host_pass **lanes; /* [threads] */
    struct host_lot *lots;         /* [threads * LOTS]; NULL, as lanes: one thread */
    size_t n_lots;                 /* 0: all threads work on all tokens */
};

static inline size_t round_width(size_t n)
{
    return (n + WIDTH_AT - 1) / WIDTH_AT * WIDTH_AT;
}

static inline size_t count_input_tokens(const struct sr1__host_input *in)
{
    const struct sr1__kv_span *last = &in->spans[in->n_spans - 1];

    return (size_t)(last->first + last->n);
}

#endif
