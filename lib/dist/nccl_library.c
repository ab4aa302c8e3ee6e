/* dist/nccl_library.c - looks for the functions once. */
#include "dist/nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr1__nccl_calls calls;
static int is_loaded;

/* In the order of struct sr1__nccl_calls. */
static const char *const names[] = {
    "ncclGetVersion",        "ncclGetUniqueId",    "ncclCommInitRankConfig",
    "ncclCommGetAsyncError", "ncclCommAbort",      "ncclAllReduce",
    "ncclBroadcast",         "ncclGetErrorString", "ncclGetLastError",
};
_Static_assert(sizeof(calls) == sizeof(names), "a name for each function");

static sr1_status open_nccl(void **out)
{
    const char *why;

    *out = RTLD_DEFAULT;
    if (dlsym(RTLD_DEFAULT, names[0]))
        return SR1_OK;
    *out = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (*out)
        return SR1_OK;
    why = dlerror();
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "NCCL is not there (%.300s); it comes with libtorch's CUDA half",
                     why ? why : LIBRARY);
}

static sr1_status load_calls(void)
{
    void *library = NULL;

    SR1__TRY(open_nccl(&library));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *found = dlsym(library, names[i]);

        if (!found)
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s has no %s; it needs NCCL 2.14 or newer", LIBRARY,
                             names[i]);
        memcpy((char *)&calls + i * sizeof(found), &found, sizeof(found));
    }
    is_loaded = 1;
    return SR1_OK;
}

sr1_status sr1__nccl_library(const struct sr1__nccl_calls **out)
{
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&lock);
    if (!is_loaded)
        st = load_calls();
    pthread_mutex_unlock(&lock);
    *out = &calls;
    return st;
}

sr1_status sr1__nccl_library_check(sr1__device device)
{
    const struct sr1__nccl_calls *nccl;

    if ((device < SR1__CUDA || device >= SR1__NAMED) &&
        !dlsym(RTLD_DEFAULT, "sr1__nccl_on_host"))
        return sr1__fail(SR1_E_CONFIG,
                         "NCCL sends tensors of GPUs, and the policy is on "
                         "%s; set device: cuda",
                         sr1__device_name(device));
    return sr1__nccl_library(&nccl);
}
