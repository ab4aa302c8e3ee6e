/* tensor/torch/create.cpp - tensors from numbers and host memory, and back. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>

#include <cstring>
#include <stdexcept>

using namespace sr1;

namespace
{

at::IntArrayRef dims(int32_t ndim, const int64_t *shape)
{
    return at::IntArrayRef(shape, (size_t)ndim);
}

at::TensorOptions options(int32_t dtype, sr1__device device)
{
    return at::TensorOptions().dtype(scalar_type(dtype)).device(device_of(device));
}

} // namespace

extern "C" {

sr1_status sr1__shim_wrap(sr1_tensor **out, void *data, int32_t dtype, int32_t ndim,
                          const int64_t *shape)
{
    return make(out, [&] {
        return at::from_blob(data, dims(ndim, shape), options(dtype, SR1__CPU));
    });
}

sr1_status sr1__shim_empty(sr1_tensor **out, int32_t dtype, int32_t ndim,
                           const int64_t *shape, sr1__device device)
{
    return make(out,
                [&] { return at::empty(dims(ndim, shape), options(dtype, device)); });
}

sr1_status sr1__shim_full(sr1_tensor **out, double v, int32_t dtype, int32_t ndim,
                          const int64_t *shape, sr1__device device)
{
    return make(out,
                [&] { return at::full(dims(ndim, shape), v, options(dtype, device)); });
}

sr1_status sr1__shim_arange(sr1_tensor **out, int64_t n, sr1__device device)
{
    return make(out, [&] { return at::arange(n, options(SR1__I64, device)); });
}

sr1_status sr1__shim_to(sr1_tensor **out, sr1_tensor *a, int32_t dtype,
                        sr1__device device, int copy)
{
    borrow x(a);

    return make(out, [&] {
        bool goes_up = x->is_cpu() && device != SR1__CPU;

        return x->to(device_of(device), scalar_type(dtype), goes_up, copy != 0);
    });
}

sr1_status sr1__shim_to_host(sr1_tensor *a, int32_t dtype, void *out, size_t n)
{
    borrow x(a);

    return guard([&] {
        at::Tensor h =
            x->detach().to(device_of(SR1__CPU), scalar_type(dtype)).contiguous();

        if ((size_t)h.numel() != n)
            throw std::length_error("tensor and array differ in size");
        memcpy(out, h.const_data_ptr(), n * sr1__torch_dtype_size(dtype));
    });
}

sr1_status sr1__shim_item(sr1_tensor *a, double *out)
{
    borrow x(a);

    return guard([&] { *out = x->item().toDouble(); });
}

sr1_status sr1__shim_isfinite_all(sr1_tensor *a, int *out)
{
    borrow x(a);

    return guard([&] { *out = at::isfinite(*x).all().item<bool>(); });
}

} /* extern "C" */
