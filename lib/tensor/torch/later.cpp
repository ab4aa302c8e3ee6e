/* tensor/torch/later.cpp - copies that the host does not wait for, and events to wait for
 * once it must. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

using namespace sr1;

namespace
{

c10::Event *of(sr1__event *e)
{
    return reinterpret_cast<c10::Event *>(e);
}

} // namespace

extern "C" {

sr1_status sr1__shim_pinned(sr1_tensor **out, int32_t dtype, int32_t ndim,
                            const int64_t *shape)
{
    return make(out, [&] {
        return at::empty(
            at::IntArrayRef(shape, (size_t)ndim),
            at::TensorOptions().dtype(scalar_type(dtype)).pinned_memory(true));
    });
}

sr1_status sr1__shim_copy_later_(sr1_tensor *a, sr1_tensor *from)
{
    borrow x(a), y(from);

    return guard([&] { x->copy_(*y, true); });
}

sr1_status sr1__shim_event_new(sr1__event **out, sr1__device device)
{
    return guard([&] {
        *out = reinterpret_cast<sr1__event *>(new c10::Event(device_of(device).type()));
    });
}

sr1_status sr1__shim_event_record(sr1__event *e, sr1__device device)
{
    return guard([&] {
        c10::Device d = device_of(device);

        of(e)->record(c10::impl::VirtualGuardImpl(d.type()).getStream(d));
    });
}

sr1_status sr1__shim_event_wait(sr1__event *e)
{
    return guard([&] { of(e)->synchronize(); });
}

void sr1__shim_event_free(sr1__event *e)
{
    sr1::entry in;

    delete of(e);
}

} /* extern "C" */
