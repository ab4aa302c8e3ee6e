/* backend.cpp - the simulated accelerator as a backend of libtorch.
 *
 * Only making, copying and viewing tensors is written here. Every other operation is a
 * kernel that ATen's fallback computes: its arguments are copied to the host, computed
 * there by the CPU's operation, and the results copied back. Where CUDA has one kernel
 * for what the CPU makes of several (attention), there is one here. */
#include "simulation.h"

#include "tensor/cuda/kernel_args.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/SDPBackend.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <cstring>

namespace
{

using optional_type = std::optional<at::ScalarType>;
using optional_layout = std::optional<at::Layout>;
using optional_device = std::optional<at::Device>;

/* ---- one device, one stream ---- */

struct guard_of_sim final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return sim::device_type;
    }
    c10::Device getDevice() const override
    {
        return {sim::device_type, 0};
    }
    c10::Device exchangeDevice(c10::Device) const override
    {
        return getDevice();
    }
    void setDevice(c10::Device) const override
    {
    }
    void uncheckedSetDevice(c10::Device) const noexcept override
    {
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        return 1;
    }
    c10::Stream getStream(c10::Device device) const override
    {
        return c10::Stream(c10::Stream::DEFAULT, device);
    }
    c10::Stream getNewStream(c10::Device device, int) const override
    {
        return getStream(device);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        return stream;
    }
    bool queryStream(const c10::Stream &) const override
    {
        return true;
    }
    void synchronizeStream(const c10::Stream &) const override
    {
    }
    void record(void **event, const c10::Stream &, c10::DeviceIndex,
                c10::EventFlag) const override
    {
        *event = sim::record_event(*event);
    }
    void block(void *, const c10::Stream &) const override
    {
    }
    bool queryEvent(void *) const override
    {
        return true;
    }
    void synchronizeEvent(void *event) const override
    {
        sim::wait_for_event(event);
    }
    void destroyEvent(void *event, c10::DeviceIndex) const noexcept override
    {
        sim::free_event(event);
    }
};

struct hooks_of_sim final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return true;
    }
    bool hasPrimaryContext(c10::DeviceIndex) const override
    {
        return true;
    }
    c10::DeviceIndex deviceCount() const override
    {
        return 1;
    }
    c10::DeviceIndex getCurrentDevice() const override
    {
        return 0;
    }
    at::Allocator *getPinnedMemoryAllocator() const override
    {
        return at::getCPUAllocator();
    }
};

/* ---- making and viewing ---- */

at::Tensor make_empty(at::IntArrayRef size, optional_type type, optional_layout,
                      optional_device, std::optional<bool>,
                      std::optional<at::MemoryFormat> format)
{
    return at::detail::empty_generic(size, sim::memory(),
                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(type), format);
}

at::Tensor make_empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                              optional_type type, optional_layout, optional_device,
                              std::optional<bool>)
{
    return at::detail::empty_strided_generic(
        size, stride, sim::memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
        c10::dtype_or_default(type));
}

at::Tensor view_strided(const at::Tensor &t, at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<int64_t> offset)
{
    return at::cpu::as_strided(t, size, stride, offset);
}

at::Tensor view_sized(const at::Tensor &t, at::IntArrayRef size)
{
    return at::native::view(t, size);
}

at::Tensor view_reshaped(const at::Tensor &t, at::IntArrayRef size,
                         at::IntArrayRef stride)
{
    return at::native::_reshape_alias(t, size, stride);
}

const at::Tensor &resize(const at::Tensor &t, at::IntArrayRef size,
                         std::optional<at::MemoryFormat>)
{
    c10::StorageImpl *storage = t.storage().unsafeGetStorageImpl();
    size_t need = at::detail::computeStorageNbytesContiguous(size, t.element_size(),
                                                             t.storage_offset());

    if (storage->nbytes() < need) {
        c10::DataPtr more = sim::memory()->allocate(need);

        memcpy(sim::reach(more.get()), sim::reach(storage->data()), storage->nbytes());
        storage->set_data_ptr_noswap(std::move(more));
        storage->set_nbytes(need);
    }
    t.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    return t;
}

/* ---- copying ---- */

/* The elements of a tensor where the host reaches them; t must outlive it. */
at::Tensor on_host(const at::Tensor &t)
{
    return t.is_cpu() ? t
                      : at::from_blob(sim::reach(t.data_ptr()), t.sizes(), t.strides(),
                                      t.options().device(at::kCPU));
}

void copy_within(const at::Tensor &from, const at::Tensor &to)
{
    sim::kernel k("aten::copy_");

    sim::trace("aten::copy_", {from, to});
    sim::before_write(to);
    on_host(to).copy_(on_host(from));
    if (sim::captures_kernel())
        sim::capture([f = sim::alias_of(from), t = sim::alias_of(to)] {
            on_host(t).copy_(on_host(f));
        });
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool non_blocking)
{
    if (to.numel() == 0)
        return to;
    sim::require_device();
    if (from.is_cpu()) {
        sim::refuse_in_capture("a copy from the host");
        sim::count_to_device(to.nbytes(), !non_blocking);
        on_host(to).copy_(from);
    } else if (to.is_cpu()) {
        sim::refuse_in_capture("a copy to the host");
        sim::count_to_host(from.nbytes(), !non_blocking);
        if (non_blocking)
            sim::copy_down_later(on_host(from).clone(), to);
        else
            to.copy_(on_host(from));
    } else {
        copy_within(from, to);
    }
    return to;
}

at::Tensor copy_and_resize(const at::Tensor &from, const at::Tensor &to)
{
    if (to.sizes() != from.sizes())
        to.resize_(from.sizes());
    return copy_from(from, to, false);
}

at::Scalar read_scalar(const at::Tensor &t)
{
    sim::refuse_in_capture("a value read by the host");
    sim::count_to_host(t.element_size(), true);
    return on_host(t).item();
}

/* ---- kernels ---- */

void add_tensors(const c10::IValue &v, std::vector<at::Tensor> *out)
{
    if (v.isTensor())
        out->push_back(v.toTensor());
    else if (v.isTensorList())
        for (const at::Tensor &t : v.toTensorVector())
            out->push_back(t);
}

c10::IValue alias_value(const c10::IValue &v)
{
    c10::List<at::Tensor> list;

    if (v.isTensor())
        return sim::alias_of(v.toTensor());
    if (!v.isTensorList())
        return v;
    for (const at::Tensor &t : v.toTensorVector())
        list.push_back(sim::alias_of(t));
    return list;
}

/* Aliases of the last n values. */
torch::jit::Stack alias_last(const torch::jit::Stack &stack, size_t n)
{
    torch::jit::Stack out;

    for (size_t i = stack.size() - n; i < stack.size(); i++)
        out.push_back(alias_value(stack[i]));
    return out;
}

std::vector<at::Tensor> tensors_of(const torch::jit::Stack &stack)
{
    std::vector<at::Tensor> out;

    for (const c10::IValue &v : stack)
        add_tensors(v, &out);
    return out;
}

/* Again, with the results where they were. */
void run_again(const c10::OperatorHandle &op, torch::jit::Stack stack,
               const torch::jit::Stack &results)
{
    std::vector<at::Tensor> then = tensors_of(results), now;

    at::native::cpu_fallback(op, &stack);
    now = tensors_of(stack);
    for (size_t i = 0; i < then.size(); i++)
        if (then[i].defined() && now[i].data_ptr() != then[i].data_ptr())
            on_host(then[i]).copy_(on_host(now[i]));
}

/* What the operation changes in place. */
void note_writes(const c10::OperatorHandle &op, const torch::jit::Stack &in)
{
    for (size_t i = 0; i < in.size(); i++) {
        const c10::AliasInfo *alias = op.schema().arguments()[i].alias_info();

        if (alias && alias->isWrite() && in[i].isTensor())
            sim::before_write(in[i].toTensor());
    }
}

void run_on_host(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    sim::kernel k(op.schema().name());
    torch::jit::Stack in = alias_last(*stack, op.schema().arguments().size()), out;

    note_writes(op, in);
    at::native::cpu_fallback(op, stack);
    out = alias_last(*stack, op.schema().returns().size());
    sim::trace(op.schema().name(), tensors_of(in));
    sim::trace("  gives", tensors_of(out));
    if (sim::captures_kernel())
        sim::capture([op, in, out] { run_again(op, in, out); });
}

struct attention_in {
    at::Tensor q, k, v;
    std::optional<at::Tensor> mask;

    attention_in(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                 const std::optional<at::Tensor> &bias)
        : q(query.cpu()), k(key.cpu()), v(value.cpu())
    {
        if (bias && bias->defined())
            mask = bias->cpu();
    }
    at::Tensor compute(double dropout, bool causal, std::optional<double> scale) const
    {
        return at::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale,
                                                q.size(-3) != k.size(-3));
    }
};

using attention_out =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt,
               at::Tensor, at::Tensor, at::Tensor>;

attention_out attend(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                     const std::optional<at::Tensor> &bias, double dropout, bool causal,
                     bool, std::optional<double> scale)
{
    sim::kernel one("attention");
    at::Tensor y =
        attention_in(q, k, v, bias).compute(dropout, causal, scale).to(q.device());
    at::Tensor m = bias.value_or(at::Tensor());

    sim::trace("attention", {q, k, v, m, y});
    if (sim::captures_kernel())
        sim::capture([=, a = sim::alias_of(q), b = sim::alias_of(k), c = sim::alias_of(v),
                      d = sim::alias_of(m), out = sim::alias_of(y)] {
            on_host(out).copy_(attention_in(a, b, c, d).compute(dropout, causal, scale));
        });
    return {y, at::Tensor(), at::Tensor(), at::Tensor(), 0,
            0, at::Tensor(), at::Tensor(), at::Tensor()};
}

using attention_grads = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/* Computes forward again on the host and takes it back there. */
attention_grads
attend_backward(const at::Tensor &grad, const at::Tensor &q, const at::Tensor &k,
                const at::Tensor &v, const at::Tensor &bias, std::array<bool, 4>,
                const at::Tensor &, const at::Tensor &, const at::Tensor &,
                const at::Tensor &, c10::SymInt, c10::SymInt, double dropout, bool causal,
                const at::Tensor &, const at::Tensor &, std::optional<double> scale)
{
    sim::kernel one("attention backward");
    attention_in in(q, k, v, bias);
    at::Tensor gy = grad.cpu();
    c10::impl::ForceDispatchKeyGuard plain(c10::default_included_set,
                                           c10::default_excluded_set);
    at::AutoGradMode recorded(true);
    std::vector<at::Tensor> leaves = {in.q.detach(), in.k.detach(), in.v.detach()};

    for (at::Tensor &t : leaves)
        t.requires_grad_();
    std::vector<at::Tensor> g =
        torch::autograd::grad({attention_in(leaves[0], leaves[1], leaves[2], in.mask)
                                   .compute(dropout, causal, scale)},
                              leaves, {gy});

    at::AutoGradMode unrecorded(false);
    return {g[0].to(q.device()), g[1].to(q.device()), g[2].to(q.device()), at::Tensor()};
}

/* ---- root mean square norms: one kernel, as CUDA's ---- */

using normalised = std::tuple<at::Tensor, at::Tensor>;

std::optional<at::Tensor> here(const std::optional<at::Tensor> &t)
{
    return t && t->defined() ? std::optional<at::Tensor>(t->cpu()) : std::nullopt;
}

normalised normalise_here(const at::Tensor &x, at::IntArrayRef shape,
                          const std::optional<at::Tensor> &w, std::optional<double> eps)
{
    at::Tensor in = x.cpu();
    at::Tensor square = at::square(in.to(at::kFloat)).mean({-1}, true);

    return {at::rms_norm(in, shape, here(w), eps),
            at::rsqrt(square.add_(eps.value_or(1e-6)))};
}

normalised normalise(const at::Tensor &x, at::IntArrayRef shape,
                     const std::optional<at::Tensor> &w, std::optional<double> eps)
{
    sim::kernel one("rms norm");
    auto [y, r] = normalise_here(x, shape, w, eps);
    at::Tensor weight = w.value_or(at::Tensor());

    y = y.to(x.device());
    r = r.to(x.device());
    sim::trace("rms norm", {x, weight, y, r});
    if (sim::captures_kernel())
        sim::capture([sizes = shape.vec(), eps, a = sim::alias_of(x),
                      b = sim::alias_of(weight), to_y = sim::alias_of(y),
                      to_r = sim::alias_of(r)] {
            auto [again, scale] = normalise_here(a, sizes, b, eps);

            on_host(to_y).copy_(again);
            on_host(to_r).copy_(scale);
        });
    return {y, r};
}

/* For y = x r w with r = 1 / sqrt(mean(x^2) + eps) and g the gradient of x r:
 * gx = r (g - x r^2 mean(g x)), gw = sum over rows of gy x r. */
normalised normalise_backward(const at::Tensor &grad, const at::Tensor &input,
                              at::IntArrayRef, const at::Tensor &scale,
                              const std::optional<at::Tensor> &weight,
                              std::array<bool, 2>)
{
    sim::kernel one("rms norm backward");
    at::Tensor gy = grad.cpu().to(at::kFloat), x = input.cpu().to(at::kFloat);
    at::Tensor r = scale.cpu(), g = gy, gx, gw;
    std::optional<at::Tensor> w = here(weight);

    if (w) {
        g = gy.mul(w->to(at::kFloat));
        gw = gy.mul(x).mul(r).reshape({-1, x.size(-1)}).sum({0}).to(w->scalar_type());
        gw = gw.to(input.device());
    }
    gx = g.sub(x.mul(at::square(r)).mul(g.mul(x).mean({-1}, true))).mul(r);
    return {gx.to(input.scalar_type()).to(input.device()), gw};
}

int64_t choose_attention(const at::Tensor &, const at::Tensor &, const at::Tensor &,
                         const std::optional<at::Tensor> &, double, bool,
                         std::optional<double>, bool)
{
    return (int64_t)at::SDPBackend::overrideable;
}

/* ---- registering ---- */

C10_REGISTER_GUARD_IMPL(PrivateUse1, guard_of_sim);

const bool registered = [] {
    c10::register_privateuse1_backend("sim");
    c10::SetAllocator(sim::device_type, sim::memory());
    at::RegisterPrivateUse1HooksInterface(new hooks_of_sim);
    return true;
}();

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", make_empty);
    m.impl("empty_strided", make_empty_strided);
    m.impl("as_strided", view_strided);
    m.impl("view", view_sized);
    m.impl("_reshape_alias", view_reshaped);
    m.impl("resize_", resize);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_and_resize);
    m.impl("_local_scalar_dense", read_scalar);
    m.impl("_fused_rms_norm", normalise);
    m.impl("_fused_rms_norm_backward", normalise_backward);
    m.impl("_scaled_dot_product_fused_attention_overrideable", attend);
    m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attend_backward);
}

} // namespace

/* ---- kernels of a table, by the text of CUDA's ---- */

namespace
{

void *reach(const at::Tensor &t)
{
    return sim::reach(t.data_ptr());
}

template <typename T> void run_swiglu(const sr1::swiglu_args &a)
{
    for (int64_t i = 0; i < a.n * a.width; i++)
        sr1::compute_swiglu<T>(a, i);
}

void swiglu_here(const at::Tensor &gate_up, const at::Tensor &out)
{
    sr1::swiglu_args a = sr1::args_of_swiglu(gate_up, out, reach);

    if (out.scalar_type() == at::kFloat)
        run_swiglu<float>(a);
    else
        run_swiglu<sr1::bfloat16>(a);
}

template <typename T> void run_split_heads(const sr1::split_heads_args &a)
{
    int heads = a.kv_heads * (a.group + 2);

    for (int i = 0; i < a.n * heads; i++)
        sr1::split_head<T>(a, i / heads, i % heads, 0);
}

void split_heads_here(const sr1::split_heads_tensors &t)
{
    if (t.qkv.scalar_type() == at::kFloat)
        run_split_heads<float>(t.args(reach));
    else
        run_split_heads<sr1::bfloat16>(t.args(reach));
}

} // namespace

at::Tensor sim::swiglu(const at::Tensor &gate_up)
{
    sim::kernel one("swiglu");
    at::Tensor y = sr1::make_swiglu_out(gate_up);

    sim::trace("swiglu", {gate_up, y});
    swiglu_here(gate_up, y);
    if (sim::captures_kernel())
        sim::capture([x = sim::alias_of(gate_up), out = sim::alias_of(y)] {
            swiglu_here(x, out);
        });
    return y;
}

at::Tensor sim::split_heads(const struct sr1__split_heads *h)
{
    sim::kernel one("split heads");
    sr1::split_heads_tensors t(h);

    sim::trace("split heads",
               {t.qkv, t.q_norm, t.k_norm, t.cos, t.sin, t.places, t.cache, t.queries});
    sim::before_write(t.cache);
    split_heads_here(t);
    if (sim::captures_kernel()) {
        sr1::split_heads_tensors again = t;

        for (at::Tensor *x : {&again.qkv, &again.q_norm, &again.k_norm, &again.cos,
                              &again.sin, &again.places, &again.cache, &again.queries})
            *x = sim::alias_of(*x);
        sim::capture([again] { split_heads_here(again); });
    }
    return t.queries;
}

namespace at::native
{
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)
} // namespace at::native
