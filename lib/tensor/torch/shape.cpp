/* tensor/torch/shape.cpp - reductions along a dimension, views, and picking rows. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>

using namespace sr1;

extern "C" {

sr1_status sr1__shim_sum_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim)
{
    borrow x(a);

    return make(out, [&] { return at::sum(*x, {(int64_t)dim}, keepdim != 0); });
}

sr1_status sr1__shim_sum_dim_as(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim,
                                int32_t dtype)
{
    borrow x(a);

    return make(out, [&] {
        return at::sum(*x, {(int64_t)dim}, keepdim != 0, scalar_type(dtype));
    });
}

sr1_status sr1__shim_max_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim)
{
    borrow x(a);

    return make(out, [&] { return at::amax(*x, {(int64_t)dim}, keepdim != 0); });
}

sr1_status sr1__shim_argmax(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim)
{
    borrow x(a);

    return make(out, [&] { return at::argmax(*x, dim, keepdim != 0); });
}

sr1_status sr1__shim_cumsum(sr1_tensor **out, sr1_tensor *a, int32_t dim, int32_t dtype)
{
    borrow x(a);

    return make(out, [&] { return at::cumsum(*x, dim, scalar_type(dtype)); });
}

sr1_status sr1__shim_aminmax(sr1_tensor **least, sr1_tensor **greatest, sr1_tensor *a,
                             int32_t dim)
{
    borrow x(a);

    return guard([&] {
        std::tuple<at::Tensor, at::Tensor> both = at::aminmax(*x, dim, true);

        *least = give(std::move(std::get<0>(both)));
        *greatest = give(std::move(std::get<1>(both)));
    });
}

sr1_status sr1__shim_sort_down(sr1_tensor **values, sr1_tensor **places, sr1_tensor *a)
{
    borrow x(a);

    return guard([&] {
        std::tuple<at::Tensor, at::Tensor> both = at::sort(*x, true, -1, true);

        *values = give(std::move(std::get<0>(both)));
        *places = give(std::move(std::get<1>(both)));
    });
}

sr1_status sr1__shim_view_as(sr1_tensor **out, sr1_tensor *a, int32_t dtype)
{
    borrow x(a);

    return make(out, [&] { return x->view(scalar_type(dtype)); });
}

sr1_status sr1__shim_mean_dim(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim)
{
    borrow x(a);

    return make(out, [&] { return at::mean(*x, {(int64_t)dim}, keepdim != 0); });
}

sr1_status sr1__shim_logsumexp(sr1_tensor **out, sr1_tensor *a, int32_t dim, int keepdim)
{
    borrow x(a);

    return make(out, [&] { return at::logsumexp(*x, {(int64_t)dim}, keepdim != 0); });
}

sr1_status sr1__shim_softmax(sr1_tensor **out, sr1_tensor *a, int32_t dim)
{
    borrow x(a);

    return make(out, [&] { return at::softmax(*x, dim); });
}

sr1_status sr1__shim_log_softmax(sr1_tensor **out, sr1_tensor *a, int32_t dim)
{
    borrow x(a);

    return make(out, [&] { return at::log_softmax(*x, dim); });
}

sr1_status sr1__shim_topk(sr1_tensor **values, sr1_tensor **places, sr1_tensor *a,
                          int64_t k)
{
    borrow x(a);

    return guard([&] {
        std::tuple<at::Tensor, at::Tensor> both = at::topk(*x, k);

        *values = give(std::move(std::get<0>(both)));
        *places = give(std::move(std::get<1>(both)));
    });
}

sr1_status sr1__shim_reshape(sr1_tensor **out, sr1_tensor *a, int32_t ndim,
                             const int64_t *shape)
{
    borrow x(a);

    return make(out, [&] { return x->reshape(at::IntArrayRef(shape, (size_t)ndim)); });
}

sr1_status sr1__shim_expand(sr1_tensor **out, sr1_tensor *a, int32_t ndim,
                            const int64_t *shape)
{
    borrow x(a);

    return make(out, [&] { return x->expand(at::IntArrayRef(shape, (size_t)ndim)); });
}

sr1_status sr1__shim_transpose(sr1_tensor **out, sr1_tensor *a, int32_t d0, int32_t d1)
{
    borrow x(a);

    return make(out, [&] { return x->transpose(d0, d1); });
}

sr1_status sr1__shim_unsqueeze(sr1_tensor **out, sr1_tensor *a, int32_t dim)
{
    borrow x(a);

    return make(out, [&] { return x->unsqueeze(dim); });
}

sr1_status sr1__shim_squeeze(sr1_tensor **out, sr1_tensor *a, int32_t dim)
{
    borrow x(a);

    return make(out, [&] { return x->squeeze(dim); });
}

sr1_status sr1__shim_narrow(sr1_tensor **out, sr1_tensor *a, int32_t dim, int64_t start,
                            int64_t n)
{
    borrow x(a);

    return make(out, [&] { return x->narrow(dim, start, n); });
}

sr1_status sr1__shim_split(sr1_tensor **out, sr1_tensor *a, const int64_t *sizes,
                           size_t n, int32_t dim)
{
    borrow x(a);

    return guard([&] {
        std::vector<at::Tensor> parts =
            at::split_with_sizes(*x, at::IntArrayRef(sizes, n), dim);

        for (size_t i = 0; i < n; i++)
            out[i] = give(std::move(parts[i]));
    });
}

sr1_status sr1__shim_cat(sr1_tensor **out, sr1_tensor *const *parts, size_t n,
                         int32_t dim)
{
    return make(out, [&] { return at::cat(list_of(parts, n), dim); });
}

sr1_status sr1__shim_contiguous(sr1_tensor **out, sr1_tensor *a)
{
    borrow x(a);

    return make(out, [&] { return x->contiguous(); });
}

sr1_status sr1__shim_index_select(sr1_tensor **out, sr1_tensor *a, int32_t dim,
                                  sr1_tensor *index)
{
    borrow x(a), i(index);

    return make(out, [&] { return at::index_select(*x, dim, *i); });
}

sr1_status sr1__shim_gather(sr1_tensor **out, sr1_tensor *a, int32_t dim,
                            sr1_tensor *index)
{
    borrow x(a), i(index);

    return make(out, [&] { return at::gather(*x, dim, *i); });
}

} /* extern "C" */
