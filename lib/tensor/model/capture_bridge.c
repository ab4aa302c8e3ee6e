/* tensor/model/capture_bridge.c - looks for a table once for each kind of device. */
#include "tensor/model/capture_bridge.h"

#include "base/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sr1__capture_table *of_cuda;

static sr1_status check_table(const void *found, const char *library)
{
    const struct sr1__capture_table *table = found;

    if (table->size == sizeof *table && table->version == SR1__CAPTURE_VERSION)
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s is of another version of this library; build it again", library);
}

static sr1_status load_cuda_table(void)
{
    const void *found;

    SR1__TRY(
        sr1__plugin_table(&found, SR1__CUDA_LIBRARY, "tensor/cuda", SR1__CAPTURE_TABLE));
    SR1__TRY(check_table(found, SR1__CUDA_LIBRARY));
    of_cuda = found;
    return SR1_OK;
}

static sr1_status find_cuda_table(const struct sr1__capture_table **out)
{
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&lock);
    if (!of_cuda)
        st = load_cuda_table();
    *out = of_cuda;
    pthread_mutex_unlock(&lock);
    return st;
}

sr1_status sr1__capture_find(sr1__device device, const struct sr1__capture_table **out)
{
    const void *found;

    if (device < SR1__NAMED)
        return find_cuda_table(out);
    found = dlsym(RTLD_DEFAULT, SR1__CAPTURE_TABLE);
    if (!found)
        return sr1__fail(SR1_E_UNSUPPORTED, "the backend of %s captures no graphs",
                         sr1__device_name(device));
    SR1__TRY(check_table(found, sr1__device_name(device)));
    *out = found;
    return SR1_OK;
}

int32_t sr1__capture_index(sr1__device device)
{
    return device - (device < SR1__NAMED ? SR1__CUDA : SR1__NAMED);
}

sr1_status sr1__capture_status(sr1_status status, const struct sr1__capture_error *error,
                               const char *doing)
{
    return status == SR1_OK ? SR1_OK
                            : sr1__fail(status, "%s: %.*s", doing,
                                        (int)strcspn(error->text, "\n"), error->text);
}
