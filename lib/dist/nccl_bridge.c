/* dist/nccl_bridge.c - looks for the table once. */
#include "dist/nccl_bridge.h"

#include "base/plugin.h"
#include "tensor/torch/nccl_table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sr1__nccl_table *found_table;

static sr1_status load_table(void)
{
    const void *found = dlsym(RTLD_DEFAULT, SR1__NCCL_TABLE);
    const struct sr1__nccl_table *table;

    if (!found)
        SR1__TRY(sr1__context(
            sr1__plugin_table(&found, SR1__NCCL_LIBRARY, "tensor/cuda", SR1__NCCL_TABLE),
            "distributed_backend nccl needs %s, which is built where "
            "the headers of CUDA and NCCL are; gloo is there, also "
            "between GPUs",
            SR1__NCCL_LIBRARY));
    table = found;
    if (table->size != sizeof *table || table->version != SR1__NCCL_VERSION)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s is of another version of this library; build it again",
                         SR1__NCCL_LIBRARY);
    found_table = table;
    return SR1_OK;
}

sr1_status sr1__nccl_check(void)
{
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&lock);
    if (!found_table)
        st = load_table();
    pthread_mutex_unlock(&lock);
    return st;
}

sr1_status sr1__nccl_group(struct sr1__process_group **out, struct sr1__store *store,
                           int32_t rank, int32_t size, sr1__device device,
                           int64_t limit_ms)
{
    struct sr1__nccl_error error = {""};
    sr1_status st;

    SR1__TRY(sr1__nccl_check());
    st = found_table->open(out, store, rank, size, device, limit_ms, &error);
    return st == SR1_OK
               ? SR1_OK
               : sr1__fail(st, "NCCL: %.*s", (int)strcspn(error.text, "\n"), error.text);
}
