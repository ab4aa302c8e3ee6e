/* train/weight_link.c - see weight_link.h.
 *
 * Each server's workers and this process are a group of their own (dist/server_group.h):
 * a server that is lost, or late, ends its own group only. The tensors are those of a
 * saved model, by their Hugging Face names; they are sent from where they lie, and only
 * what an adapter changes is a copy. */
#include "train/weight_link.h"

#include "base/mem.h"
#include "dist/nccl_library.h"
#include "dist/server_group.h"
#include "tensor/model/adapter.h"
#include "tensor/ops/ops.h"
#include "tensor/weights/safetensors.h"

#include <string.h>

_Static_assert((int)SR1__SERVING_ID_BYTES == (int)SR1__NCCL_ID_BYTES,
               "servers are told NCCL's unique id");

struct sr1__weight_link {
    struct sr1__serving_link calls;
    const sr1_model *m;
    int64_t version;                     /* of what is sent */
    struct sr1__serving_tensor *tensors; /* [m->n_views] */
    struct linked_server {
        struct sr1__server_group *group; /* NULL: none */
        int64_t version;                 /* that it has; -1: none yet */
    } * servers;                         /* [n_servers] */
    size_t n_servers;
};

static int64_t version_of_server(const void *self, size_t server)
{
    const struct sr1__weight_link *l = self;

    return l->servers[server].group ? l->servers[server].version : -1;
}

static sr1_status make_group_id(void *self, uint8_t id[SR1__SERVING_ID_BYTES])
{
    struct sr1__nccl_id made;

    (void)self;
    SR1__TRY(sr1__server_group_id(&made));
    memcpy(id, made.bytes, sizeof(made.bytes));
    return SR1_OK;
}

static struct sr1__group_wait wait_of(const struct sr1__serving_wait *w)
{
    return (struct sr1__group_wait){w->deadline, w->given_up};
}

static sr1_status open_server_group(void *self, size_t server, const uint8_t *id,
                                    int32_t workers, const struct sr1__serving_wait *w)
{
    struct sr1__weight_link *l = self;
    struct sr1__group_wait wait = wait_of(w);
    struct sr1__nccl_id named;

    memcpy(named.bytes, id, sizeof(named.bytes));
    l->servers[server].version = -1;
    return sr1__server_group_open(&l->servers[server].group, l->m->device, &named,
                                  1 + workers, &wait);
}

/* An adapter's tensor is merged for each server anew, and gone once it has it. */
static sr1_status send_tensor(const struct sr1__weight_link *l, size_t server, size_t i,
                              const struct sr1__group_wait *wait)
{
    sr1_scope *s = sr1__scope_open(l->m->device, "%s", l->tensors[i].name);
    sr1_tensor *t;

    sr1__scope_no_grad(s);
    t = t_contiguous(s, sr1__adapter_merged(s, l->m, i));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__server_group_send(l->servers[server].group, t, wait));
    return sr1__scope_close(s);
}

static sr1_status send_all_tensors(void *self, size_t server,
                                   const struct sr1__serving_wait *w)
{
    struct sr1__weight_link *l = self;
    struct sr1__group_wait wait = wait_of(w);

    for (size_t i = 0; i < l->calls.n; i++)
        SR1__TRY(send_tensor(l, server, i, &wait));
    l->servers[server].version = l->version;
    return SR1_OK;
}

static void close_server_group(void *self, size_t server)
{
    struct sr1__weight_link *l = self;

    sr1__server_group_close(l->servers[server].group);
    l->servers[server].group = NULL;
}

static sr1_status fill_link(struct sr1__weight_link *l, size_t n_servers)
{
    const sr1_model *m = l->m;

    SR1__TRY(sr1__nccl_library_check(m->device));
    SR1__CALLOC(l->servers, n_servers, "groups with servers");
    l->n_servers = n_servers;
    SR1__CALLOC(l->tensors, m->n_views, "list of tensors");
    for (size_t i = 0; i < m->n_views; i++)
        l->tensors[i] =
            (struct sr1__serving_tensor){.name = m->views[i].name,
                                         .dtype = sr1__weight_dtype_name(m->dtype),
                                         .n_dims = t_ndim(m->views[i].tensor),
                                         .shape = sr1__shim_sizes(m->views[i].tensor)};
    l->calls = (struct sr1__serving_link){
        .self = l,
        .tensors = l->tensors,
        .n = m->n_views,
        .version = version_of_server,
        .make_id = make_group_id,
        .open = open_server_group,
        .send = send_all_tensors,
        .close = close_server_group,
    };
    return SR1_OK;
}

sr1_status sr1__weight_link_open(struct sr1__weight_link **out, const sr1_model *m,
                                 size_t n_servers)
{
    struct sr1__weight_link *l;

    SR1__CALLOC(l, 1, "link to servers");
    l->m = m;
    SR1__RETURN_NEW(out, l,
                    sr1__context(fill_link(l, n_servers), "weight_sync_backend nccl"),
                    sr1__weight_link_free);
}

void sr1__weight_link_free(struct sr1__weight_link *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n_servers; i++)
        sr1__server_group_close(l->servers[i].group);
    sr1__free(l->servers);
    sr1__free(l->tensors);
    sr1__free(l);
}

const struct sr1__serving_link *sr1__weight_link_of(struct sr1__weight_link *l,
                                                    int64_t version)
{
    l->version = version;
    return &l->calls;
}
