/* tensor/torch/nccl_calls.h - the functions of NCCL's C interface that a group with a
 * generation server takes (dist/server_group.h), as pointers: libnccl.so.2 is loaded on
 * demand, and its header need not be there. Where it is, tensor/cuda/nccl.cpp compares
 * these declarations with it. */
#ifndef SR1__TORCH_NCCL_CALLS_H
#define SR1__TORCH_NCCL_CALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__NCCL_ID_BYTES 128

/* ncclUniqueId: by it the ranks of a communicator find one another. */
struct sr1__nccl_id {
    char bytes[SR1__NCCL_ID_BYTES];
};

/* The beginning of ncclConfig_t. NCCL reads `size` bytes and takes its defaults for the
 * rest. */
struct sr1__nccl_config {
    size_t size;
    unsigned int magic;
    unsigned int version; /* of the header that these declarations were made from */
    int blocking; /* 0: calls return at once, and get_async_error tells the rest */
};
#define SR1__NCCL_CONFIG_MAGIC 0xcafebeefU
#define SR1__NCCL_HEADER_VERSION 22809U

enum { /* ncclResult_t */
       SR1__NCCL_SUCCESS = 0,
       SR1__NCCL_SYSTEM_ERROR = 2,
       SR1__NCCL_REMOTE_ERROR = 6,
       SR1__NCCL_IN_PROGRESS = 7
};

enum { /* ncclDataType_t */
       SR1__NCCL_FLOAT16 = 6,
       SR1__NCCL_FLOAT32 = 7,
       SR1__NCCL_BFLOAT16 = 9
};

enum { SR1__NCCL_SUM = 0 }; /* ncclRedOp_t */

struct sr1__nccl_calls {
    int (*get_version)(int *version);
    int (*get_unique_id)(struct sr1__nccl_id *id);
    int (*comm_init_rank_config)(void **comm, int n_ranks, struct sr1__nccl_id id,
                                 int rank, struct sr1__nccl_config *config);
    int (*comm_get_async_error)(void *comm, int *result);
    int (*comm_abort)(void *comm);
    int (*all_reduce)(const void *send, void *receive, size_t n, int data_type,
                      int operation, void *comm, void *stream);
    int (*broadcast)(const void *send, void *receive, size_t n, int data_type, int root,
                     void *comm, void *stream);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(void *comm);
};

#ifdef __cplusplus
}
#endif
#endif
