/* tensor/cuda/kernels.cpp - kernels.cuh on CUDA, compiled once for each device. */
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/kernel_args.h"
#include "tensor/cuda/nvrtc.h"

#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <mutex>
#include <string>

namespace
{

#define THREADS 128 /* of a block */
#define WARP 32

const char text[] =
#include "kernels_text.h"
    ;

const sr1::kernels &get_kernels(c10::DeviceIndex device)
{
    static std::mutex lock;
    static std::map<c10::DeviceIndex, sr1::kernels> all;
    std::lock_guard<std::mutex> hold(lock);

    return all.try_emplace(device, text, "kernels.cuh").first->second;
}

void *reach(const at::Tensor &t)
{
    return t.data_ptr();
}

unsigned count_blocks(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

std::string name_of(const char *kernel, const at::Tensor &t)
{
    return std::string(kernel) + (t.scalar_type() == at::kFloat ? "_fp32" : "_bf16");
}

} // namespace

at::Tensor sr1::swiglu(const at::Tensor &gate_up)
{
    c10::cuda::CUDAGuard device(gate_up.device());
    const kernels &of_device = get_kernels(gate_up.device().index());
    at::Tensor out = make_swiglu_out(gate_up);
    swiglu_args a = args_of_swiglu(gate_up, out, reach);
    void *args[] = {&a};

    of_device.launch(name_of("swiglu", out), dim3(count_blocks(out.numel(), THREADS)),
                     dim3(THREADS), args);
    return out;
}

at::Tensor sr1::split_heads(const struct sr1__split_heads *h)
{
    at::Tensor qkv = *borrow(h->qkv);
    c10::cuda::CUDAGuard device(qkv.device());
    const kernels &of_device = get_kernels(qkv.device().index());
    split_heads_tensors t(h);
    split_heads_args a = t.args(reach);
    int64_t heads = (int64_t)a.n * a.kv_heads * (a.group + 2);
    void *args[] = {&a};

    of_device.launch(name_of("split_heads", qkv),
                     dim3(count_blocks(heads, THREADS / WARP)),
                     dim3(WARP, THREADS / WARP), args);
    return t.queries;
}
