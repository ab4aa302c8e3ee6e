/* tensor/cuda/graphs.cpp - CUDA graphs by the table of tensor/torch/graph_capture.h, and
 * the kernels in it, which NVRTC compiles when one is first launched.
 *
 * Captures of a device take place on one stream of their own, so that libraries keep one
 * workspace for all of them, and therefore one after another; a replay goes to the
 * current stream. */
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/nvrtc.h"
#include "tensor/torch/torch_guard.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
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
    at::cuda::MempoolId_t pool;
    c10::DeviceIndex device;
    std::unique_lock<std::mutex> turn;                /* of a capture that is open */
    std::optional<c10::cuda::CUDAStreamGuard> stream; /* the same */
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
    } catch (const sr1::not_compiled &e) {
        return say(error, SR1_E_UNSUPPORTED, e.what());
    } catch (const std::exception &e) {
        return say(error, SR1_E_INTERNAL, e.what());
    } catch (...) {
        return say(error, SR1_E_INTERNAL, "unknown exception");
    }
}

/* Where the captures of a device take place, one at a time. */
struct place {
    std::mutex turn;
    c10::cuda::CUDAStream stream;

    explicit place(c10::DeviceIndex device)
        : stream(c10::cuda::getStreamFromPool(false, device))
    {
    }
};

place &place_of(c10::DeviceIndex device)
{
    static std::mutex lock;
    static std::map<c10::DeviceIndex, place> places;
    std::lock_guard<std::mutex> hold(lock);

    return places.try_emplace(device, device).first->second;
}

/* torch does not take its filter of allocations back where a capture fails: it would be
 * asked after the graph is gone. */
void close_pool(const sr1__graph &g) noexcept
{
    struct sr1__capture_error ignored;

    (void)guard(&ignored, [&] {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(g.device, g.pool);
    });
}

sr1_status begin_capture(sr1__graph **out, int32_t index, sr1__graph *beside,
                         struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] {
        c10::DeviceIndex device = (c10::DeviceIndex)index;
        place &at = place_of(device);
        auto g = std::make_unique<sr1__graph>();

        g->device = device;
        g->pool = beside ? beside->pool : at::cuda::graph_pool_handle();
        g->turn = std::unique_lock<std::mutex>(at.turn);
        c10::cuda::getCurrentCUDAStream(device).synchronize();
        g->stream.emplace(at.stream);
        try {
            g->graph.capture_begin(g->pool, cudaStreamCaptureModeThreadLocal);
        } catch (...) {
            close_pool(*g);
            throw;
        }
        *out = g.release();
    });
}

sr1_status end_capture(sr1__graph *g, struct sr1__capture_error *error) noexcept
{
    sr1_status status = guard(error, [&] { g->graph.capture_end(); });

    if (status != SR1_OK)
        close_pool(*g);
    g->stream.reset();
    g->turn.unlock();
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

sr1_status compute_swiglu(sr1_tensor **out, sr1_tensor *gate_up,
                          struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] { *out = sr1::give(sr1::swiglu(*sr1::borrow(gate_up))); });
}

sr1_status split_heads(sr1_tensor **queries, const struct sr1__split_heads *h,
                       struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] { *queries = sr1::give(sr1::split_heads(h)); });
}

} // namespace

extern "C" __attribute__((visibility("default")))
const struct sr1__capture_table sr1__capture_table = {sizeof(struct sr1__capture_table),
                                                      SR1__CAPTURE_VERSION,
                                                      begin_capture,
                                                      end_capture,
                                                      replay_graph,
                                                      free_graph,
                                                      compute_swiglu,
                                                      split_heads};
