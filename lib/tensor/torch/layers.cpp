/* tensor/torch/layers.cpp - the fused operations of a decoder layer. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>

using namespace sr1;

extern "C" {

sr1_status sr1__shim_embedding(sr1_tensor **out, sr1_tensor *table, sr1_tensor *ids)
{
    borrow w(table), i(ids);

    return make(out, [&] { return at::embedding(*w, *i); });
}

sr1_status sr1__shim_linear(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w,
                            sr1_tensor *bias_or_null)
{
    borrow a(x), b(w), c(bias_or_null);

    return make(out, [&] { return at::linear(*a, *b, *c); });
}

sr1_status sr1__shim_rms_norm(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w_or_null,
                              double eps)
{
    borrow a(x), b(w_or_null);

    return make(out, [&] {
        return at::rms_norm(
            *a, {a->size(-1)},
            w_or_null ? std::optional<at::Tensor>(*b) : std::optional<at::Tensor>(), eps);
    });
}

sr1_status sr1__shim_layer_norm(sr1_tensor **out, sr1_tensor *x, sr1_tensor *w,
                                sr1_tensor *b, double eps)
{
    borrow a(x), c(w), d(b);

    return make(out, [&] { return at::layer_norm(*a, {a->size(-1)}, *c, *d, eps); });
}

sr1_status sr1__shim_gelu_tanh(sr1_tensor **out, sr1_tensor *a)
{
    borrow x(a);

    return make(out, [&] { return at::gelu(*x, "tanh"); });
}

sr1_status sr1__shim_sdpa(sr1_tensor **out, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                          sr1_tensor *mask_or_null, int is_causal, int enable_gqa)
{
    borrow a(q), b(k), c(v), m(mask_or_null);

    return make(out, [&] {
        return at::scaled_dot_product_attention(
            *a, *b, *c,
            mask_or_null ? std::optional<at::Tensor>(*m) : std::optional<at::Tensor>(),
            0.0, is_causal != 0, std::nullopt, enable_gqa != 0);
    });
}

sr1_status sr1__shim_flash(sr1_tensor **y, sr1_tensor **lse, sr1_tensor *q, sr1_tensor *k,
                           sr1_tensor *v, int is_causal)
{
    borrow a(q), b(k), c(v);

    return guard([&] {
        auto both = at::_scaled_dot_product_flash_attention_for_cpu(*a, *b, *c, 0.0,
                                                                    is_causal != 0);

        *y = give(std::move(std::get<0>(both)));
        *lse = give(std::move(std::get<1>(both)));
    });
}

sr1_status sr1__shim_flash_backward(sr1_tensor *grads[3], sr1_tensor *grad_y,
                                    sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                                    sr1_tensor *y, sr1_tensor *lse, int is_causal)
{
    borrow g(grad_y), a(q), b(k), c(v), o(y), l(lse);

    return guard([&] {
        auto all = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            *g, *a, *b, *c, *o, *l, 0.0, is_causal != 0);

        grads[0] = give(std::move(std::get<0>(all)));
        grads[1] = give(std::move(std::get<1>(all)));
        grads[2] = give(std::move(std::get<2>(all)));
    });
}

} /* extern "C" */
