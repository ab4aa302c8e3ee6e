/* tensor/torch/later.cpp - copies that the host does not wait for, events to wait for
 * once it must, and streams beside the current one. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

using namespace sr1;

namespace
{

c10::Event *of(sr1__event *e)
{
    return reinterpret_cast<c10::Event *>(e);
}

c10::Stream *of(sr1__stream *s)
{
    return reinterpret_cast<c10::Stream *>(s);
}

bool is_host(const c10::Stream *s)
{
    return s->device_type() == c10::kCPU;
}

/* Behind the work that was launched on the device's current stream. */
void follow_current(c10::Stream *s)
{
    c10::impl::VirtualGuardImpl device(s->device_type());
    c10::Event launched(s->device_type());

    device.setDevice(s->device());
    if (is_host(s))
        return;
    launched.record(device.getStream(s->device()));
    s->wait(launched);
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

sr1_status sr1__shim_stream_new(sr1__stream **out, sr1__device device)
{
    return guard([&] {
        c10::Device d = device_of(device);
        c10::impl::VirtualGuardImpl of_type(d.type());

        *out = reinterpret_cast<sr1__stream *>(new c10::Stream(
            d.is_cpu() ? of_type.getStream(d) : of_type.getStreamFromGlobalPool(d)));
    });
}

sr1_status sr1__shim_stream_enter(sr1__stream *s, void **native)
{
    return guard([&] {
        follow_current(of(s));
        *native = is_host(of(s)) ? nullptr : of(s)->native_handle();
    });
}

sr1_status sr1__shim_stream_is_done(sr1__stream *s, int *done)
{
    return guard([&] { *done = of(s)->query(); });
}

void sr1__shim_stream_free(sr1__stream *s)
{
    sr1::entry in;

    delete of(s);
}

} /* extern "C" */
