/* tensor/cuda/kernels.h - the kernels of libsearchr1_cuda.so that its table offers. C++
 * only. */
#ifndef SR1__CUDA_KERNELS_H
#define SR1__CUDA_KERNELS_H

#include "tensor/torch/graph_capture.h"

#include <ATen/core/Tensor.h>

namespace sr1
{

/* As the table's entries; they throw not_compiled. */
at::Tensor swiglu(const at::Tensor &gate_up);
at::Tensor split_heads(const struct sr1__split_heads *h);

} // namespace sr1

#endif
