/* tensor/torch/nccl_table.h - the table by which c10d's process group of NCCL is made.
 *
 * It is in libsearchr1_nccl.so, a library of its own that is built where the headers of
 * CUDA and NCCL are and loaded on demand (lib/dist/nccl_bridge.c). A program that links
 * another transport of torch's exports a table of that name, which is taken instead. */
#ifndef SR1__TORCH_NCCL_TABLE_H
#define SR1__TORCH_NCCL_TABLE_H

#include "tensor/torch/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__NCCL_LIBRARY "libsearchr1_nccl.so"
#define SR1__NCCL_TABLE "sr1__nccl_table"
#define SR1__NCCL_VERSION 1 /* of the table */

struct sr1__nccl_error {
    char text[512];
};

struct sr1__nccl_table {
    size_t size;     /* sizeof(struct sr1__nccl_table): a stale library is noticed */
    int32_t version; /* SR1__NCCL_VERSION */

    /* A group of this rank for tensors on `device`, by the keys of `store`; collectives
     * of comm.h take it. NCCL connects with the first of them. On failure a status of
     * searchr1/base.h and a text; no exception leaves. */
    sr1_status (*open)(struct sr1__process_group **out, struct sr1__store *store,
                       int32_t rank, int32_t size, sr1__device device, int64_t limit_ms,
                       struct sr1__nccl_error *error);
};

#ifdef __cplusplus
}
#endif
#endif
