/* tensor/torch/device.cpp - choose the device, and load the CUDA half of libtorch.
 *
 * A device of another make is one whose library is loaded before this one asks: libtorch
 * then knows its backend by the name that the library registered, as does this file.
 *
 * The library links libtorch_cpu only. CUDA is a second shared object beside it that
 * registers itself when it is loaded; ATen looks those hooks up once and keeps the
 * answer, so it must be loaded before anything asks about CUDA. Until then only the
 * registry itself may be looked at. */
#include "base/log.h"
#include "tensor/torch/torch_guard.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceType.h>
#include <torch/version.h>

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

using namespace sr1;

namespace
{

const char cuda_library[] = "libtorch_cuda.so";
std::mutex lock;
std::string library_dir; /* set by tests */
std::mutex determinism_lock;
int n_deterministic; /* holds */

/* The folder libtorch_cpu was loaded from. */
std::string torch_folder()
{
    Dl_info info;
    std::string path;

    if (!library_dir.empty())
        return library_dir;
    if (!dladdr(reinterpret_cast<void *>(&at::CUDAHooksRegistry), &info) ||
        !info.dli_fname)
        return ".";
    path = info.dli_fname;
    return path.substr(0, path.rfind('/'));
}

sr1_status choose_kernels(bool deterministic)
{
    return guard([&] {
        at::globalContext().setDeterministicAlgorithms(deterministic, false);
        at::globalContext().setDeterministicFillUninitializedMemory(false);
        at::globalContext().setDeterministicCuDNN(deterministic);
    });
}

bool registered()
{
    return at::CUDAHooksRegistry()->Has("CUDAHooks");
}

sr1_status load_cuda()
{
    std::string path = torch_folder() + "/" + cuda_library;
    const char *why;

    if (registered())
        return SR1_OK;
    if (sr1__shim_ran_backward())
        return sr1__fail(SR1_E_STATE,
                         "device cuda: this process has trained on the CPU already, "
                         "which fixed the devices of its gradients; open the model on "
                         "CUDA before, or in a process of its own");
    if (access(path.c_str(), R_OK) != 0)
        return sr1__fail(
            SR1_E_DEVICE,
            "device cuda: '%s' is not there; install the CUDA build of torch %s "
            "and name its folder with -Dtorch_dir, or use device: cpu",
            path.c_str(), TORCH_VERSION);
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
        why = dlerror();
        return sr1__fail(
            SR1_E_DEVICE,
            "device cuda: '%s' does not load: %s; it must be torch %s with the "
            "NVIDIA packages that torch requires (tools/setup --cuda fetches them)",
            path.c_str(), why ? why : "no reason given", TORCH_VERSION);
    }
    if (!registered())
        return sr1__fail(
            SR1_E_DEVICE,
            "device cuda: '%s' is not the CUDA half of torch %s (it registered "
            "nothing)",
            path.c_str(), TORCH_VERSION);
    sr1::watch_exit();
    return SR1_OK;
}

/* The CUDA runtime that libtorch_cpu has brought along, of whatever version. */
void *runtime()
{
    const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.14"};
    void *lib = nullptr;

    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    return lib;
}

/* Why the CUDA runtime sees no device, in its own words. */
const char *runtime_says()
{
    typedef int (*count_fn)(int *);
    typedef const char *(*text_fn)(int);
    void *lib = runtime();
    count_fn count = lib ? (count_fn)dlsym(lib, "cudaGetDeviceCount") : nullptr;
    text_fn text = lib ? (text_fn)dlsym(lib, "cudaGetErrorString") : nullptr;
    int n = 0;
    int code = count ? count(&n) : 0;

    if (!count || !text)
        return "the CUDA runtime is not loaded";
    return code ? text(code) : n ? nullptr : "no CUDA device";
}

sr1_status use_cuda(int index, sr1__device *out)
{
    int n = 0;
    const char *why;

    SR1__TRY(load_cuda());
    SR1__TRY(guard([&] { n = at::detail::getCUDAHooks().deviceCount(); }));
    if (n == 0) {
        why = runtime_says();
        return sr1__fail(SR1_E_DEVICE,
                         "device cuda: no usable device (%s); check the driver with "
                         "nvidia-smi, or use device: cpu",
                         why ? why
                             : "the CPU was used before CUDA was asked for; open "
                               "the model on CUDA first");
    }
    if (index >= n)
        return sr1__fail(SR1_E_DEVICE,
                         "device cuda:%d: this machine has %d CUDA device%s", index, n,
                         n == 1 ? "" : "s");
    SR1__TRY(guard([&] { at::globalContext().lazyInitDevice(c10::DeviceType::CUDA); }));
    *out = SR1__CUDA + index;
    return SR1_OK;
}

/* Is it a build of libtorch for CUDA? */
bool is_cuda_build()
{
    return registered() ||
           access((torch_folder() + "/" + cuda_library).c_str(), R_OK) == 0;
}

/* Does the machine have a device of NVIDIA's: by its driver (also that of WSL), or
 * without one by its vendor's number on the bus? */
bool has_nvidia_device()
{
    const char *const signs[] = {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"};
    const std::string bus = "/sys/bus/pci/devices";
    bool found =
        !library_dir.empty() && access((library_dir + "/nvidia").c_str(), F_OK) == 0;
    DIR *devices = opendir(bus.c_str());

    for (const char *sign : signs)
        found = found || access(sign, F_OK) == 0;
    while (const struct dirent *e = devices ? readdir(devices) : nullptr) {
        std::ifstream file(bus + "/" + e->d_name + "/vendor");
        std::string vendor;

        found = found || (file >> vendor && vendor == "0x10de");
    }
    if (devices)
        closedir(devices);
    return found;
}

/* CUDA where it can be used; else the CPU. Returns why the CPU was taken although
 * libtorch is a build for CUDA and the machine has a device; empty otherwise. */
std::string choose_device(sr1__device *out)
{
    const char *says = runtime_says(); /* first: loading takes seconds */
    std::string why;

    if (!says && use_cuda(0, out) == SR1_OK)
        return "";
    *out = SR1__CPU;
    why = says ? says : sr1_last_error();
    return is_cuda_build() && has_nvidia_device() ? why : "";
}

/* Once for each reason. */
void warn_of_cpu(const std::string &why)
{
    static std::mutex guard_last;
    static std::string last;
    {
        std::lock_guard<std::mutex> hold(guard_last);

        if (why == last)
            return;
        last = why;
    }
    sr1__log(
        SR1_LOG_WARN,
        "device auto: the CPU is used, because CUDA cannot be (%s); check the driver "
        "with nvidia-smi, or set device: cpu if the CPU is wanted",
        why.c_str());
}

constexpr int DEVICES_MAX = SR1__NAMED - SR1__CUDA; /* of one kind, that have a name */

/* "KIND" or "KIND:N"; -1 for anything else. */
int device_index(const char *name, const std::string &kind)
{
    const char *rest = name + kind.size();
    char *end;
    long v;

    if (strncmp(name, kind.c_str(), kind.size()) != 0)
        return -1;
    if (*rest == '\0')
        return 0;
    if (rest[0] != ':' || rest[1] < '0' || rest[1] > '9')
        return -1;
    v = strtol(rest + 1, &end, 10);
    return *end == '\0' && v < DEVICES_MAX ? (int)v : -1;
}

sr1_status use_named(int index, const char *name, sr1__device *out)
{
    int n = 0;

    SR1__TRY(guard([&] {
        n = c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->deviceCount();
    }));
    if (index >= n)
        return sr1__fail(SR1_E_DEVICE, "device %s: its backend has %d device%s", name, n,
                         n == 1 ? "" : "s");
    sr1::watch_exit();
    *out = SR1__NAMED + index;
    return SR1_OK;
}

/* Index on the backend that libtorch knows by a name of its own; -1: not its name. */
int named_index(const char *name)
{
    if (!c10::is_privateuse1_backend_registered())
        return -1;
    return device_index(name, c10::get_privateuse1_backend());
}

/* "KIND:0", "KIND:1", ... */
struct device_names {
    char of[DEVICES_MAX][24];

    explicit device_names(const std::string &kind)
    {
        for (int i = 0; i < DEVICES_MAX; i++)
            snprintf(of[i], sizeof of[i], "%.20s:%d", kind.c_str(), i);
    }
};

} // namespace

extern "C" {

void sr1__device_library_dir(const char *dir)
{
    std::lock_guard<std::mutex> hold(lock);

    library_dir = dir ? dir : "";
}

sr1_status sr1__device_resolve(const char *name, sr1__device *out)
{
    std::unique_lock<std::mutex> hold(lock);
    std::string why;
    int index = device_index(name, "cuda");

    if (strcmp(name, "cpu") == 0) {
        *out = SR1__CPU;
        return SR1_OK;
    }
    if (strcmp(name, "auto") == 0) {
        why = choose_device(out);
        hold.unlock();
        if (!why.empty())
            warn_of_cpu(why);
        return SR1_OK;
    }
    if (index >= 0)
        return use_cuda(index, out);
    index = named_index(name);
    if (index >= 0)
        return use_named(index, name, out);
    return sr1__fail(SR1_E_INVALID, "device '%s' is not one of auto, cpu, cuda, cuda:N",
                     name);
}

const char *sr1__device_name(sr1__device device)
{
    static const device_names cuda("cuda");

    if (device == SR1__CPU)
        return "cpu";
    if (device >= SR1__CUDA && device < SR1__CUDA + DEVICES_MAX)
        return cuda.of[device - SR1__CUDA];
    if (device >= SR1__NAMED && device < SR1__NAMED + DEVICES_MAX) {
        static const device_names named(c10::get_privateuse1_backend());

        return named.of[device - SR1__NAMED];
    }
    return "?";
}

sr1_status sr1__device_release(sr1__device device)
{
    if (device == SR1__CPU)
        return SR1_OK;
    return guard([&] { at::getDeviceAllocator(device_of(device).type())->emptyCache(); });
}

sr1_status sr1__device_memory(sr1__device device, int64_t *now, int64_t *peak)
{
    *now = 0;
    *peak = 0;
    if (device == SR1__CPU)
        return SR1_OK;
    return guard([&] {
        c10::Device d = device_of(device);
        auto stats = at::getDeviceAllocator(d.type())->getDeviceStats(d.index());

        *now = stats.allocated_bytes[0].current;
        *peak = stats.allocated_bytes[0].peak;
    });
}

sr1_status sr1__device_room(sr1__device device, uint64_t *out)
{
    if (device == SR1__CPU) {
        *out = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        return SR1_OK;
    }
    return guard([&] {
        c10::Device d = device_of(device);

        *out = at::getDeviceAllocator(d.type())->getMemoryInfo(d.index()).first;
    });
}

sr1_status sr1__torch_threads(int32_t n)
{
    if (n < 0 || n > 1024)
        return sr1__fail(SR1_E_INVALID, "threads must be 0 to 1024, not %d", (int)n);
    return n ? guard([&] { at::set_num_threads(n); }) : SR1_OK;
}

int32_t sr1__torch_threads_get(void)
{
    return at::get_num_threads();
}

int32_t sr1__torch_threads_swap(int32_t n)
{
    int32_t before = sr1__torch_threads_get();

    if (n != before)
        (void)sr1__torch_threads(n);
    return before;
}

sr1_status sr1__torch_determinism_hold(void)
{
    std::lock_guard<std::mutex> hold(determinism_lock);

    if (n_deterministic == 0) {
        setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
        SR1__TRY(choose_kernels(true));
    }
    n_deterministic++;
    return SR1_OK;
}

void sr1__torch_determinism_release(void)
{
    std::lock_guard<std::mutex> hold(determinism_lock);

    if (--n_deterministic == 0)
        (void)choose_kernels(false);
}

int32_t sr1__torch_determinism_get(void)
{
    return at::globalContext().deterministicAlgorithms();
}

const char *sr1__torch_version(void)
{
    return TORCH_VERSION;
}

sr1_status sr1__torch_full_products(int *out)
{
    const at::Float32Backend backends[] = {at::Float32Backend::CUDA,
                                           at::Float32Backend::MKLDNN};

    return guard([&] {
        int full = 1;

        for (at::Float32Backend b : backends) {
            at::Float32Precision p =
                at::globalContext().float32Precision(b, at::Float32Op::MATMUL);

            full = full && p != at::Float32Precision::TF32 &&
                   p != at::Float32Precision::BF16;
        }
        *out = full;
    });
}

} /* extern "C" */
