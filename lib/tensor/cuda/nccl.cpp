/* tensor/cuda/nccl.cpp - the process group of NCCL by tensor/torch/nccl_table.h.
 * Collectives run on a stream of NCCL's own, behind the kernels launched before them; a
 * work is done when the device has done it (tensor/torch/comm.h). */
#define USE_C10D_NCCL 1
#include "tensor/torch/comm_guard.h"
#include "tensor/torch/nccl_calls.h"
#include "tensor/torch/nccl_table.h"

#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <cstdio>
#include <new>

/* tensor/torch/nccl_calls.h stands for this header where there is none. */
static_assert(
    sizeof(ncclUniqueId) == sizeof(struct sr1__nccl_id) &&
        offsetof(ncclConfig_t, magic) == offsetof(struct sr1__nccl_config, magic) &&
        offsetof(ncclConfig_t, version) == offsetof(struct sr1__nccl_config, version) &&
        offsetof(ncclConfig_t, blocking) == offsetof(struct sr1__nccl_config, blocking) &&
        sizeof(ncclResult_t) == sizeof(int),
    "the structs of NCCL");
static_assert((int)ncclSuccess == SR1__NCCL_SUCCESS &&
                  (int)ncclSystemError == SR1__NCCL_SYSTEM_ERROR &&
                  (int)ncclRemoteError == SR1__NCCL_REMOTE_ERROR &&
                  (int)ncclInProgress == SR1__NCCL_IN_PROGRESS &&
                  (int)ncclFloat16 == SR1__NCCL_FLOAT16 &&
                  (int)ncclFloat32 == SR1__NCCL_FLOAT32 &&
                  (int)ncclBfloat16 == SR1__NCCL_BFLOAT16 &&
                  (int)ncclSum == SR1__NCCL_SUM,
              "the numbers of NCCL");

namespace
{

sr1_status say(struct sr1__nccl_error *error, sr1_status code, const char *text)
{
    snprintf(error->text, sizeof error->text, "%s", text);
    return code;
}

struct sr1__process_group *make_group(struct sr1__store *store, int32_t rank,
                                      int32_t size, c10::DeviceIndex index,
                                      int64_t limit_ms)
{
    auto o = c10d::ProcessGroupNCCL::Options::create();
    c10::cuda::CUDAGuard on(index);

    o->timeout = std::chrono::milliseconds(limit_ms);
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store->of, rank, size, o);
    group->setBoundDeviceId(c10::Device(c10::kCUDA, index));
    return new sr1__process_group{std::move(group)};
}

sr1_status open_group(struct sr1__process_group **out, struct sr1__store *store,
                      int32_t rank, int32_t size, sr1__device device, int64_t limit_ms,
                      struct sr1__nccl_error *error)
{
    if (device < SR1__CUDA || device >= SR1__NAMED)
        return say(error, SR1_E_CONFIG,
                   "NCCL exchanges tensors of GPUs; set device: cuda");
    try {
        *out = make_group(store, rank, size, (c10::DeviceIndex)(device - SR1__CUDA),
                          limit_ms);
        return SR1_OK;
    } catch (const c10::DistError &e) {
        return say(error, SR1_E_NETWORK, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        return say(error, SR1_E_DEVICE, e.what_without_backtrace());
    } catch (const std::bad_alloc &) {
        return say(error, SR1_E_NOMEM, "out of memory for a process group");
    } catch (const std::exception &e) {
        return say(error, SR1_E_INTERNAL, e.what());
    } catch (...) {
        return say(error, SR1_E_INTERNAL, "unknown exception");
    }
}

} // namespace

extern "C" __attribute__((visibility("default")))
const struct sr1__nccl_table sr1__nccl_table = {sizeof(struct sr1__nccl_table),
                                                SR1__NCCL_VERSION, open_group};
