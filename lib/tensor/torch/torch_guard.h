/* tensor/torch/torch_guard.h - wrappers used by every entry of the shim: handles are
 * borrowed as ATen tensors without touching their reference counts, and exceptions become
 * statuses. C++ only. */
#ifndef SR1__TORCH_TORCH_GUARD_H
#define SR1__TORCH_TORCH_GUARD_H

#include "tensor/torch/shim.h"

#include <ATen/core/Tensor.h>

#include <stdexcept>

namespace sr1
{

/* A handle is the TensorImpl itself with one reference owned by its holder. */
class borrow
{
  public:
    explicit borrow(const sr1_tensor *h)
        : t_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
              h ? reinterpret_cast<c10::TensorImpl *>(const_cast<sr1_tensor *>(h))
                : c10::UndefinedTensorImpl::singleton()))
    {
    }
    ~borrow()
    {
        t_.unsafeReleaseTensorImpl();
    }
    borrow(const borrow &) = delete;
    borrow &operator=(const borrow &) = delete;
    at::Tensor &operator*()
    {
        return t_;
    }
    at::Tensor *operator->()
    {
        return &t_;
    }

  private:
    at::Tensor t_;
};

inline sr1_tensor *give(at::Tensor t)
{
    return t.defined() ? reinterpret_cast<sr1_tensor *>(t.unsafeReleaseTensorImpl())
                       : nullptr;
}

/* A failed status on its way through libtorch. */
struct failure : std::runtime_error {
    sr1_status code;

    failure(sr1_status c, const char *text) : std::runtime_error(text), code(c)
    {
    }
};

/* A call into libtorch, as long as it lives. None begins once the process exits. */
class entry
{
  public:
    entry() noexcept;
    ~entry();
    entry(const entry &) = delete;
    entry &operator=(const entry &) = delete;
};

/* Let exit wait for the entries under way before libraries that are loaded by now take
 * themselves apart. */
void watch_exit() noexcept;

/* Status and text for the exception being handled. */
sr1_status caught() noexcept;

template <class F> inline sr1_status guard(F &&f) noexcept
{
    entry e;

    try {
        f();
        return SR1_OK;
    } catch (...) {
        return caught();
    }
}

/* One ATen expression whose value becomes *out. */
template <class F> inline sr1_status make(sr1_tensor **out, F &&f) noexcept
{
    return guard([&] { *out = give(f()); });
}

at::ScalarType scalar_type(int32_t dtype); /* throws on an unknown one */
c10::Device device_of(sr1__device device);
sr1__device number_of(c10::Device device); /* the inverse */
std::vector<at::Tensor> list_of(sr1_tensor *const *list, size_t n);

} // namespace sr1

#endif
