/* tensor/torch/graph_capture.h - the table by which a device captures kernels as a graph
 * and replays them with one launch, and of kernels that libtorch has not.
 *
 * CUDA's is in libsearchr1_cuda.so, a library of its own that is built where CUDA's
 * headers are and loaded on demand (tensor/model/capture_bridge.c). A backend that
 * another library gave torch brings its own by exporting a table under the same name.
 *
 * While a capture is open, kernels of the calling thread on that device are recorded and
 * do not run. Memory that they take stays the graph's until it is freed. Addresses and
 * shapes are recorded with them; what changes from one replay to the next is in memory
 * that they read. Every entry returns a status of searchr1/base.h and, on failure, a text
 * in error; no exception leaves. */
#ifndef SR1__TORCH_GRAPH_CAPTURE_H
#define SR1__TORCH_GRAPH_CAPTURE_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__CUDA_LIBRARY "libsearchr1_cuda.so"
#define SR1__CAPTURE_TABLE "sr1__capture_table"
#define SR1__CAPTURE_VERSION 3 /* of the table */

typedef struct sr1__graph sr1__graph;
typedef struct sr1_tensor sr1_tensor; /* of tensor/torch/shim.h */

struct sr1__capture_error {
    char text[512];
};

/* The heads of a pass of n single tokens, in fp32 or bf16 throughout; rows of all tensors
 * are dense. */
struct sr1__split_heads {
    sr1_tensor *qkv;    /* [n,(H+2Hkv)*D] */
    sr1_tensor *q_norm; /* [D], or both NULL */
    sr1_tensor *k_norm;
    sr1_tensor *cos; /* [n,D] */
    sr1_tensor *sin;
    sr1_tensor *places; /* i64 [n] in the cache */
    sr1_tensor *cache;  /* [places,2Hkv,D]: receives keys and values */
    int64_t rows;       /* of a block: attention reads the queries of so many as one */
    double eps;
};

struct sr1__capture_table {
    size_t size;     /* sizeof(struct sr1__capture_table): a stale library is noticed */
    int32_t version; /* SR1__CAPTURE_VERSION */

    /* Open a capture on a device of this index. It may use memory that `beside` (NULL:
     * none) has between its replays. Nothing is open after a failure. */
    sr1_status (*begin)(sr1__graph **out, int32_t index, sr1__graph *beside,
                        struct sr1__capture_error *error);
    /* Close it, also after a kernel that failed. A graph that does not close well can
     * only be freed. */
    sr1_status (*end)(sr1__graph *graph, struct sr1__capture_error *error);
    /* Launch it behind the kernels launched so far; does not wait. */
    sr1_status (*replay)(sr1__graph *graph, struct sr1__capture_error *error);
    void (*free)(sr1__graph *graph); /* waits for its last replay */

    /* silu(gate) * up of [N,2F] = [gate | up] in fp32 or bf16, a new tensor without
     * gradients. SR1_E_UNSUPPORTED where it cannot be compiled. */
    sr1_status (*swiglu)(sr1_tensor **out, sr1_tensor *gate_up,
                         struct sr1__capture_error *error);
    /* Queries [n/rows,Hkv,rows*H/Hkv,D] normalised and turned to their positions, a new
     * tensor without gradients; keys, likewise, and values written to their places.
     * SR1_E_UNSUPPORTED where it cannot be compiled. */
    sr1_status (*split_heads)(sr1_tensor **queries, const struct sr1__split_heads *h,
                              struct sr1__capture_error *error);
};

#ifdef __cplusplus
}
#endif
#endif
