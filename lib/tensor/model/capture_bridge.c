/* tensor/model/capture_bridge.c - looks for a table once for each kind of device. */
#include "tensor/model/capture_bridge.h"

#include "base/log.h"
#include "base/plugin.h"
#include "tensor/ops/fused.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sr1__capture_table *of_cuda;
static int looked_for_cuda;
static atomic_int no_swiglu, no_split_heads; /* they could not be compiled */

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

/* For a kernel of x. Where a library is missing it is looked for once: a step asks in
 * each layer. `none`: the kernel could not be compiled. */
static const struct sr1__capture_table *find_table_once(sr1_scope *s, const sr1_tensor *x,
                                                        atomic_int *none)
{
    const struct sr1__capture_table *table = NULL;
    sr1__device device = sr1__scope_device(s);

    if (device == SR1__CPU || sr1__scope_status(s) != SR1_OK || atomic_load(none) ||
        (t_dtype(x) != SR1__F32 && t_dtype(x) != SR1__BF16))
        return NULL;
    if (device >= SR1__NAMED)
        return sr1__capture_find(device, &table) == SR1_OK ? table : NULL;
    pthread_mutex_lock(&lock); /* while it is loaded, too: all threads take its kernels */
    if (!of_cuda && !looked_for_cuda)
        (void)load_cuda_table();
    looked_for_cuda = 1;
    table = of_cuda;
    pthread_mutex_unlock(&lock);
    return table;
}

/* What a kernel of a table gave. NULL where there is none, which is noted in *none;
 * `more` are the kernels in its place. */
static sr1_tensor *own_result(sr1_scope *s, sr1_status st, sr1_tensor *y,
                              atomic_int *none, const char *more)
{
    if (st != SR1_E_UNSUPPORTED) {
        sr1__scope_check(s, st);
        return sr1__scope_own(s, y);
    }
    if (!atomic_exchange(none, 1))
        sr1__log(SR1_LOG_WARN, "decoding on %s: %s more in each layer (%s)",
                 sr1__device_name(sr1__scope_device(s)), more, sr1_last_error());
    return NULL;
}

sr1_tensor *sr1__capture_swiglu(sr1_scope *s, sr1_tensor *gate_up)
{
    const struct sr1__capture_table *table = find_table_once(s, gate_up, &no_swiglu);
    struct sr1__capture_error error = {""};
    sr1_tensor *y = NULL;
    sr1_status st;

    if (table) {
        st = table->swiglu(&y, gate_up, &error);
        y = own_result(s, sr1__capture_status(st, &error, "swiglu"), y, &no_swiglu,
                       "a kernel");
    }
    return y ? y : sr1__fused_swiglu(s, gate_up);
}

sr1_tensor *sr1__capture_split_heads(sr1_scope *s, const struct sr1__split_heads *h)
{
    const struct sr1__capture_table *table = find_table_once(s, h->qkv, &no_split_heads);
    struct sr1__capture_error error = {""};
    sr1_tensor *q = NULL;
    sr1_status st;

    if (!table)
        return NULL;
    st = table->split_heads(&q, h, &error);
    return own_result(s, sr1__capture_status(st, &error, "heads"), q, &no_split_heads,
                      "two to four kernels");
}
