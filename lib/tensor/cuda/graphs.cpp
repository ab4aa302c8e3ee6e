/* tensor/cuda/graphs.cpp - CUDA graphs by the table of tensor/torch/graph_capture.h.
 *
 * Captures of a device take place on one stream of their own, so that libraries keep one
 * workspace for all of them; a replay goes to the current stream. */
#include "tensor/torch/graph_capture.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

struct sr1__graph {
    at::cuda::CUDAGraph graph;
    c10::DeviceIndex device;
    std::optional<c10::cuda::CUDAStreamGuard> stream; /* of a capture that is open */
};

namespace
{

sr1_status say(struct sr1__capture_error *error, sr1_status code, const char *text)
{
    snprintf(error->text, sizeof error->text, "%s", text);
    return code;
}

template <class F> sr1_status guard(struct sr1__capture_error *error, F &&f) noexcept
{
    try {
        f();
        return SR1_OK;
    } catch (const c10::OutOfMemoryError &e) {
        return say(error, SR1_E_DEVICE_NOMEM, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        return say(error, SR1_E_DEVICE, e.what_without_backtrace());
    } catch (const std::bad_alloc &) {
        return say(error, SR1_E_NOMEM, "out of memory for a graph");
    } catch (const std::exception &e) {
        return say(error, SR1_E_INTERNAL, e.what());
    } catch (...) {
        return say(error, SR1_E_INTERNAL, "unknown exception");
    }
}

c10::cuda::CUDAStream stream_of(c10::DeviceIndex device)
{
    static std::mutex lock;
    static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
    std::lock_guard<std::mutex> hold(lock);
    auto it = streams.find(device);

    if (it == streams.end())
        it = streams.emplace(device, c10::cuda::getStreamFromPool(false, device)).first;
    return it->second;
}

sr1_status begin_capture(sr1__graph **out, int32_t index, sr1__graph *beside,
                         struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] {
        c10::DeviceIndex device = (c10::DeviceIndex)index;
        auto g = std::make_unique<sr1__graph>();

        g->device = device;
        c10::cuda::getCurrentCUDAStream(device).synchronize();
        g->stream.emplace(stream_of(device));
        g->graph.capture_begin(beside ? beside->graph.pool()
                                      : at::cuda::MempoolId_t{0, 0},
                               cudaStreamCaptureModeThreadLocal);
        *out = g.release();
    });
}

sr1_status end_capture(sr1__graph *g, struct sr1__capture_error *error) noexcept
{
    sr1_status status = guard(error, [&] { g->graph.capture_end(); });

    g->stream.reset();
    return status;
}

sr1_status replay_graph(sr1__graph *g, struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] {
        c10::cuda::CUDAGuard device(g->device);

        g->graph.replay();
    });
}

/* A failure to wait is that of a device which is lost. */
void free_graph(sr1__graph *g) noexcept
{
    struct sr1__capture_error ignored;

    (void)guard(&ignored,
                [&] { c10::cuda::getCurrentCUDAStream(g->device).synchronize(); });
    delete g;
}

} // namespace

extern "C" __attribute__((visibility("default")))
const struct sr1__capture_table sr1__capture_table = {sizeof(struct sr1__capture_table),
                                                      SR1__CAPTURE_VERSION,
                                                      begin_capture,
                                                      end_capture,
                                                      replay_graph,
                                                      free_graph};
