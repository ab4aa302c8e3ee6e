/* dist/server_group.c - see server_group.h.
 *
 * The communicator is non-blocking: a call of NCCL begins something, and this thread asks
 * for the result until its limit. Each group has a stream of its own, so that a server
 * that stands still holds up no other. */
#include "dist/server_group.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dist/nccl_library.h"
#include "tensor/ops/ops.h"

#include <stddef.h>
#include <time.h>

struct sr1__server_group {
    const struct sr1__nccl_calls *nccl;
    sr1__device device;
    sr1__stream *stream;
    void *comm; /* NULL: none, or it is ended */
};

/* Short at first: most tensors are small. */
static void rest_briefly(double began)
{
    double waited = sr1__now() - began;
    struct timespec t = {0, waited < 0.002 ? 20000 : waited < 0.1 ? 200000 : 5000000};

    nanosleep(&t, NULL);
}

static sr1_status fail_nccl(const struct sr1__server_group *g, int result)
{
    int lost = result == SR1__NCCL_REMOTE_ERROR || result == SR1__NCCL_SYSTEM_ERROR;
    const char *more = g->comm ? g->nccl->get_last_error(g->comm) : NULL;

    return sr1__fail(lost ? SR1_E_NETWORK : SR1_E_DEVICE, "NCCL: %.200s%s%.200s",
                     g->nccl->get_error_string(result), more && *more ? ": " : "",
                     more ? more : "");
}

static sr1_status check_wait(const struct sr1__server_group *g,
                             const struct sr1__group_wait *wait)
{
    int version = 0;

    if (sr1__now() < wait->deadline)
        return atomic_load(wait->given_up)
                   ? sr1__fail(SR1_E_CANCELLED, "NCCL: given up, as the request failed")
                   : SR1_OK;
    (void)g->nccl->get_version(&version);
    return sr1__fail(SR1_E_TIMEOUT,
                     "NCCL: the server's workers did not take part within "
                     "weight_sync_timeout; NCCL here has version %d.%d.%d, which has to "
                     "be theirs too",
                     version / 10000, version / 100 % 100, version % 100);
}

/* What a call of NCCL that gave `result` began is begun on the stream. */
static sr1_status wait_for_call(const struct sr1__server_group *g, int result,
                                const struct sr1__group_wait *wait)
{
    double began = sr1__now();

    if (result != SR1__NCCL_SUCCESS && result != SR1__NCCL_IN_PROGRESS)
        return fail_nccl(g, result);
    for (;;) {
        int asked = g->nccl->comm_get_async_error(g->comm, &result);

        if (asked != SR1__NCCL_SUCCESS)
            return fail_nccl(g, asked);
        if (result == SR1__NCCL_SUCCESS)
            return SR1_OK;
        if (result != SR1__NCCL_IN_PROGRESS)
            return fail_nccl(g, result);
        SR1__TRY(check_wait(g, wait));
        rest_briefly(began);
    }
}

/* The device has done what is on the stream. */
static sr1_status wait_for_stream(const struct sr1__server_group *g,
                                  const struct sr1__group_wait *wait)
{
    double began = sr1__now();

    for (;;) {
        int done = 0;

        SR1__TRY(sr1__shim_stream_is_done(g->stream, &done));
        SR1__TRY(wait_for_call(g, SR1__NCCL_SUCCESS, wait));
        if (done)
            return SR1_OK;
        SR1__TRY(check_wait(g, wait));
        rest_briefly(began);
    }
}

sr1_status sr1__server_group_id(struct sr1__nccl_id *out)
{
    const struct sr1__nccl_calls *nccl;
    int result;

    SR1__TRY(sr1__nccl_library(&nccl));
    result = nccl->get_unique_id(out);
    return result == SR1__NCCL_SUCCESS
               ? SR1_OK
               : sr1__fail(SR1_E_DEVICE, "NCCL: %.200s", nccl->get_error_string(result));
}

static sr1_status join_comm(struct sr1__server_group *g, const struct sr1__nccl_id *id,
                            int32_t size, const struct sr1__group_wait *wait)
{
    struct sr1__nccl_config config = {
        .size = offsetof(struct sr1__nccl_config, blocking) + sizeof(config.blocking),
        .magic = SR1__NCCL_CONFIG_MAGIC,
        .version = SR1__NCCL_HEADER_VERSION,
        .blocking = 0,
    };
    void *native;
    int result;

    SR1__TRY(sr1__shim_stream_enter(g->stream, &native));
    result = g->nccl->comm_init_rank_config(&g->comm, size, *id, 0, &config);
    return wait_for_call(g, result, wait);
}

/* Ends what is under way, too: NCCL lets go of the tensors. */
static void end_comm(struct sr1__server_group *g)
{
    if (g->comm)
        (void)g->nccl->comm_abort(g->comm);
    g->comm = NULL;
}

/* A collective that gave `result`: its tensor may be freed once this returns. */
static sr1_status finish_collective(struct sr1__server_group *g, int result,
                                    const struct sr1__group_wait *wait)
{
    sr1_status st = wait_for_call(g, result, wait);

    if (st == SR1_OK)
        st = wait_for_stream(g, wait);
    if (st != SR1_OK)
        end_comm(g);
    return st;
}

static sr1_status sum_tensor(struct sr1__server_group *g, sr1_tensor *t,
                             const struct sr1__group_wait *wait)
{
    void *data = sr1__shim_data(t), *native;

    SR1__TRY(sr1__shim_stream_enter(g->stream, &native));
    return finish_collective(g,
                             g->nccl->all_reduce(data, data, (size_t)t_numel(t),
                                                 SR1__NCCL_FLOAT32, SR1__NCCL_SUM,
                                                 g->comm, native),
                             wait);
}

static sr1_status sum_one(struct sr1__server_group *g, const struct sr1__group_wait *wait)
{
    sr1_scope *s = sr1__scope_open(g->device, "sum");
    sr1_tensor *one = t_full(s, 0.0, SR1__F32, T_SHAPE(1));

    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sum_tensor(g, one, wait));
    return sr1__scope_close(s);
}

static sr1_status fill_group(struct sr1__server_group *g, const struct sr1__nccl_id *id,
                             int32_t size, const struct sr1__group_wait *wait)
{
    SR1__TRY(sr1__nccl_library(&g->nccl));
    SR1__TRY(sr1__shim_stream_new(&g->stream, g->device));
    SR1__TRY(join_comm(g, id, size, wait));
    return sum_one(g, wait);
}

sr1_status sr1__server_group_open(struct sr1__server_group **out, sr1__device device,
                                  const struct sr1__nccl_id *id, int32_t size,
                                  const struct sr1__group_wait *wait)
{
    struct sr1__server_group *g;

    SR1__CALLOC(g, 1, "group with a server");
    g->device = device;
    SR1__RETURN_NEW(out, g, fill_group(g, id, size, wait), sr1__server_group_close);
}

static int find_nccl_type(int32_t dtype)
{
    static const int types[] = {[SR1__F32] = SR1__NCCL_FLOAT32,
                                [SR1__BF16] = SR1__NCCL_BFLOAT16,
                                [SR1__F16] = SR1__NCCL_FLOAT16};

    return types[dtype];
}

sr1_status sr1__server_group_send(struct sr1__server_group *g, sr1_tensor *t,
                                  const struct sr1__group_wait *wait)
{
    void *data = sr1__shim_data(t), *native;

    if (!g->comm)
        return sr1__fail(SR1_E_STATE, "NCCL: the group with the server has ended");
    SR1__TRY(sr1__shim_stream_enter(g->stream, &native));
    return finish_collective(g,
                             g->nccl->broadcast(data, data, (size_t)t_numel(t),
                                                find_nccl_type(t_dtype(t)), 0, g->comm,
                                                native),
                             wait);
}

void sr1__server_group_close(struct sr1__server_group *g)
{
    if (!g)
        return;
    end_comm(g);
    sr1__shim_stream_free(g->stream);
    sr1__free(g);
}
