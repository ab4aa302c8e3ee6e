/* tensor/model/capture_bridge.h - the capture table of a device. */
#ifndef SR1__MODEL_CAPTURE_BRIDGE_H
#define SR1__MODEL_CAPTURE_BRIDGE_H

#include "tensor/ops/scope.h"
#include "tensor/torch/graph_capture.h"

/* CUDA: of libsearchr1_cuda.so, loaded on demand; another backend: that its library
 * exports. SR1_E_UNSUPPORTED says why there is none. */
sr1_status sr1__capture_find(sr1__device device, const struct sr1__capture_table **out);
/* The table's index of a device. */
int32_t sr1__capture_index(sr1__device device);
/* The status of an entry of a table, with its text. */
sr1_status sr1__capture_status(sr1_status status, const struct sr1__capture_error *error,
                               const char *doing);

/* silu(gate) * up of [N,2F] = [gate | up] without gradients, in one kernel where the
 * device has a table, else in libtorch's two. One warning says why where it is not to be
 * had in spite of a table. */
sr1_tensor *sr1__capture_swiglu(sr1_scope *s, sr1_tensor *gate_up);

/* The table's kernel for heads, its queries; NULL where it is not to be had, of which one
 * warning says why if there is a table. */
sr1_tensor *sr1__capture_split_heads(sr1_scope *s, const struct sr1__split_heads *h);

#endif
