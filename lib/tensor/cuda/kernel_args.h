/* tensor/cuda/kernel_args.h - the arguments of the kernels of kernels.cuh, from tensors.
 * C++ only. */
#ifndef SR1__CUDA_KERNEL_ARGS_H
#define SR1__CUDA_KERNEL_ARGS_H

#include "tensor/torch/graph_capture.h"
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace sr1
{

#include "tensor/cuda/kernels.cuh"
#undef DEVICE
#undef LANES

/* reach gives the address at which a kernel finds a tensor. */
template <class F>
swiglu_args args_of_swiglu(const at::Tensor &gate_up, const at::Tensor &out, F &&reach)
{
    TORCH_CHECK(gate_up.is_contiguous(), "swiglu: rows lie apart");
    return {reach(gate_up), reach(out), out.size(0), out.size(1)};
}

inline at::Tensor make_swiglu_out(const at::Tensor &gate_up)
{
    return at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
}

struct split_heads_tensors {
    at::Tensor qkv, q_norm, k_norm, cos, sin, places, cache, queries;
    int64_t rows;
    double eps;

    explicit split_heads_tensors(const struct sr1__split_heads *h)
        : qkv(*borrow(h->qkv)), q_norm(*borrow(h->q_norm)), k_norm(*borrow(h->k_norm)),
          cos(*borrow(h->cos)), sin(*borrow(h->sin)), places(*borrow(h->places)),
          cache(*borrow(h->cache)), rows(h->rows), eps(h->eps)
    {
        int64_t kv = cache.size(1) / 2, dim = cache.size(2);
        int64_t group = qkv.size(1) / dim / kv - 2;

        for (const at::Tensor &t : {qkv, q_norm, k_norm, cos, sin, places, cache})
            TORCH_CHECK(!t.defined() || t.is_contiguous(), "split heads: rows lie apart");
        queries = at::empty({qkv.size(0) / rows, kv, rows * group, dim}, qkv.options());
    }

    template <class F> split_heads_args args(F &&reach) const
    {
        split_heads_args a = {};

        a.qkv = reach(qkv);
        a.norms[0] = q_norm.defined() ? reach(q_norm) : nullptr;
        a.norms[1] = k_norm.defined() ? reach(k_norm) : nullptr;
        a.cos = reach(cos);
        a.sin = reach(sin);
        a.places = static_cast<const long long *>(reach(places));
        a.cache = reach(cache);
        a.queries = reach(queries);
        a.n = (int)qkv.size(0);
        a.rows = (int)rows;
        a.kv_heads = (int)queries.size(1);
        a.dim = (int)queries.size(3);
        a.group = (int)(queries.size(2) / rows);
        a.eps = (float)eps;
        return a;
    }
};

} // namespace sr1

#endif
