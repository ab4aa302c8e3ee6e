/* tensor/cuda/nvrtc.cpp - NVRTC and the driver by libcaffe2_nvrtc.so, which libtorch has
 * for both. NVRTC's functions are declared here: its header need not be where this is
 * built. */
#include "tensor/cuda/nvrtc.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>

namespace
{

using program = struct nvrtc_program *; /* nvrtcProgram */

struct functions {
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*get_log_size)(program, size_t *);
    int (*get_log)(program, char *);
    int (*get_cubin_size)(program, size_t *);
    int (*get_cubin)(program, char *);
    int (*destroy)(program *);
    decltype(&cuModuleLoadData) load;
    decltype(&cuModuleGetFunction) get_function;
    decltype(&cuLaunchKernel) launch;
};

void *open_library()
{
    Dl_info torch;
    std::string path;
    void *library;

    if (dladdr(reinterpret_cast<void *>(&c10::cuda::current_device), &torch) &&
        torch.dli_fname)
        path = torch.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so";
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        throw sr1::not_compiled(dlerror());
    return library;
}

template <class F> void find(void *library, const char *name, F *out)
{
    *out = reinterpret_cast<F>(dlsym(library, name));
    if (!*out)
        throw sr1::not_compiled(std::string("libcaffe2_nvrtc.so: no ") + name);
}

const functions &get_functions()
{
    static const functions all = [] {
        void *library = open_library();
        functions f;

        find(library, "nvrtcCreateProgram", &f.create);
        find(library, "nvrtcCompileProgram", &f.compile);
        find(library, "nvrtcGetProgramLogSize", &f.get_log_size);
        find(library, "nvrtcGetProgramLog", &f.get_log);
        find(library, "nvrtcGetCUBINSize", &f.get_cubin_size);
        find(library, "nvrtcGetCUBIN", &f.get_cubin);
        find(library, "nvrtcDestroyProgram", &f.destroy);
        find(library, "cuModuleLoadData", &f.load);
        find(library, "cuModuleGetFunction", &f.get_function);
        find(library, "cuLaunchKernel", &f.launch);
        return f;
    }();

    return all;
}

std::string read_output(program p, int (*get_size)(program, size_t *),
                        int (*get)(program, char *))
{
    size_t size = 0;
    std::string out;

    if (get_size(p, &size) == 0 && size > 0) {
        out.resize(size);
        if (get(p, &out[0]) != 0)
            out.clear();
    }
    return out;
}

/* "sm_90" of the current device. */
std::string name_architecture()
{
    int device = c10::cuda::current_device(), major = 0, minor = 0;

    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device))
        throw sr1::not_compiled("the device does not say what it computes");
    return "sm_" + std::to_string(10 * major + minor);
}

/* For the device itself: a driver may be older than the compiler's PTX. */
std::string compile_text(const functions &f, const char *text, const char *name)
{
    std::string architecture = "--gpu-architecture=" + name_architecture(), log, code;
    const char *const options[] = {architecture.c_str(), "--std=c++17"};
    program p = nullptr;
    int status = f.create(&p, text, name, 0, nullptr, nullptr);
    auto destroy = [&f](program q) { f.destroy(&q); };
    std::unique_ptr<struct nvrtc_program, decltype(destroy)> hold(p, destroy);

    if (status != 0)
        throw sr1::not_compiled("NVRTC: status " + std::to_string(status));
    status = f.compile(p, 2, options);
    log = read_output(p, f.get_log_size, f.get_log);
    if (status == 0)
        code = read_output(p, f.get_cubin_size, f.get_cubin);
    if (code.empty())
        throw sr1::not_compiled("NVRTC: status " + std::to_string(status) + ", " + log);
    return code;
}

} // namespace

namespace sr1
{

kernels::kernels(const char *text, const char *name)
{
    const functions &f = get_functions();
    std::string code = compile_text(f, text, name);
    CUresult status = f.load(&module_, code.data());

    if (status != CUDA_SUCCESS)
        throw not_compiled("the driver does not load what NVRTC gave: status " +
                           std::to_string(status));
}

void kernels::launch(const std::string &name, dim3 blocks, dim3 threads,
                     void **args) const
{
    const functions &f = get_functions();
    CUfunction kernel = nullptr;
    CUresult status = f.get_function(&kernel, module_, name.c_str());

    if (status == CUDA_SUCCESS)
        status = f.launch(kernel, blocks.x, blocks.y, blocks.z, threads.x, threads.y,
                          threads.z, 0, c10::cuda::getCurrentCUDAStream(), args, nullptr);
    TORCH_CHECK(status == CUDA_SUCCESS, "CUDA driver error: ", name, ": status ", status);
}

} // namespace sr1
