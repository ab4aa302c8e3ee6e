/* dist/nccl_bridge.h - process groups for tensors on GPUs. */
#ifndef SR1__DIST_NCCL_BRIDGE_H
#define SR1__DIST_NCCL_BRIDGE_H

#include "tensor/torch/comm.h"

/* A group of NCCL, by the table of libsearchr1_nccl.so, which is loaded on demand, or
 * that of a program which exports its own. SR1_E_UNSUPPORTED says why there is none. */
sr1_status sr1__nccl_group(struct sr1__process_group **out, struct sr1__store *store,
                           int32_t rank, int32_t size, sr1__device device,
                           int64_t limit_ms);
/* Whether there is a table. */
sr1_status sr1__nccl_check(void);

#endif
