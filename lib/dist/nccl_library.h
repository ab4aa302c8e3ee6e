/* dist/nccl_library.h - NCCL's own functions, without torch's process group. */
#ifndef SR1__DIST_NCCL_LIBRARY_H
#define SR1__DIST_NCCL_LIBRARY_H

#include "tensor/torch/nccl_calls.h"
#include "tensor/torch/shim.h"

/* Of libnccl.so.2, which is loaded on demand and is there already where libtorch_cuda is,
 * or of a program that exports them itself. *out stays. SR1_E_UNSUPPORTED says why there
 * are none. */
sr1_status sr1__nccl_library(const struct sr1__nccl_calls **out);
/* Can they send tensors of this device? SR1_E_CONFIG: it is no GPU. A program whose own
 * functions take memory of the host says so by exporting the symbol sr1__nccl_on_host. */
sr1_status sr1__nccl_library_check(sr1__device device);

#endif
