/* support/nccl_server.h - what vLLM >= 0.30 does with weights that are broadcast to it
 * (vllm/entrypoints/serve/dev/rlhf/api_router.py, vllm/distributed/weight_transfer), for
 * the server of support/openai_server.h: its workers are ranks of support/nccl_stub.h. */
#ifndef SR1_TESTS_NCCL_SERVER_H
#define SR1_TESTS_NCCL_SERVER_H

#include "support/nccl_stub.h"
#include "support/openai_server.h"

/* What a test may set while the server answers is atomic. */
struct nccl_server {
    int32_t n_workers;
    int workers[STUB_RANKS]; /* 0: not joined */
    int updating;            /* between start and finish */
    atomic_int n_tensors;    /* received so far, in all */
    /* How it fails; 0: not. */
    atomic_int refuse_join, refuse_update; /* answers of this code */
    atomic_int no_route;                   /* an older vLLM */
    atomic_int other_world;                /* its workers count so many ranks */
    atomic_int stall_join, stall_update;   /* it answers nothing, and its workers wait */
    atomic_int die_at;  /* before it has so many tensors of an update */
    char received[600]; /* folder of the weights */
};

static inline void nccl_leave(struct nccl_server *w)
{
    for (int32_t k = 0; k < w->n_workers; k++)
        if (w->workers[k]) {
            close(w->workers[k]);
            w->workers[k] = 0;
        }
    w->updating = 0;
}

/* As one that was started anew: no group, and a version of its own. */
static inline void nccl_restart(struct openai_server *s)
{
    pthread_mutex_lock(&s->http.lock);
    nccl_leave(s->more);
    snprintf(s->version, sizeof s->version, "default");
    pthread_mutex_unlock(&s->http.lock);
}

static inline void nccl_refuse(struct reply *r, int code, const char *why)
{
    r->code = code;
    snprintf(r->made, sizeof r->made, "{\"detail\": \"%s\"}", why);
    r->body = r->made;
}

static inline void nccl_join(struct nccl_server *w, const json_t *info, struct reply *r)
{
    int64_t n_ranks = json_integer_value(json_object_get(info, "world_size"));
    struct sr1__nccl_id id;
    char one[4];

    if (!stub_decode_id(openai_member(info, "nccl_unique_id_b64"), &id) ||
        json_integer_value(json_object_get(info, "rank_offset")) != 1 ||
        !json_is_false(json_object_get(info, "packed")) || n_ranks != w->n_workers + 1) {
        nccl_refuse(r, 400, "no init_info");
        return;
    }
    nccl_leave(w);
    for (int32_t k = 0; k < w->n_workers; k++)
        w->workers[k] =
            stub_join(&id, w->other_world ? w->other_world : (int32_t)n_ranks);
    for (int32_t k = 0; k < w->n_workers && r->code == 200; k++)
        if (w->workers[k] < 0 ||
            !stub_receive(w->workers[k], STUB_ALL_REDUCE, SR1__NCCL_FLOAT32, 1, one))
            nccl_refuse(r, 500, "no group");
}

/* "bfloat16" -> NCCL's number. */
static inline uint32_t nccl_type_of(const char *dtype)
{
    return strcmp(dtype, "float32") == 0    ? SR1__NCCL_FLOAT32
           : strcmp(dtype, "bfloat16") == 0 ? SR1__NCCL_BFLOAT16
                                            : 0;
}

static inline sr1_tensor *nccl_find(const sr1_model *m, const char *name,
                                    const json_t *shape)
{
    for (size_t i = 0; i < m->n_views; i++) {
        sr1_tensor *t = m->views[i].tensor;

        if (strcmp(m->views[i].name, name) != 0)
            continue;
        for (int32_t d = 0; d < t_ndim(t); d++)
            if (json_integer_value(json_array_get(shape, (size_t)d)) != t_size(t, d))
                return NULL;
        return json_array_size(shape) == (size_t)t_ndim(t) ? t : NULL;
    }
    return NULL;
}

/* In each worker's memory; those of the first become the model's, which is fp32. */
static inline int nccl_take(struct nccl_server *w, sr1_tensor *t, uint32_t type)
{
    size_t n = (size_t)t_numel(t);
    char *bytes = malloc(n * stub_size_of(type));
    float *to = sr1__shim_data(t);
    int taken = bytes != NULL;

    for (int32_t k = w->n_workers - 1; k >= 0 && taken; k--)
        taken = stub_receive(w->workers[k], STUB_BROADCAST, type, n, bytes);
    for (size_t i = 0; i < n && taken; i++) {
        uint16_t half;
        uint32_t bits;

        memcpy(&half, bytes + (type == SR1__NCCL_BFLOAT16 ? 2 * i : 0), 2);
        bits = (uint32_t)half << 16;
        memcpy(&to[i],
               type == SR1__NCCL_BFLOAT16 ? (void *)&bits : (void *)(bytes + 4 * i), 4);
    }
    free(bytes);
    w->n_tensors += taken;
    return taken;
}

static inline void nccl_update(struct openai_server *s, const json_t *info,
                               struct reply *r)
{
    struct nccl_server *w = s->more;
    const json_t *names = json_object_get(info, "names");
    const json_t *dtypes = json_object_get(info, "dtype_names");
    const json_t *shapes = json_object_get(info, "shapes");
    size_t n = json_array_size(names);

    if (!w->updating || !w->workers[0] || n != s->model->n_views ||
        json_array_size(dtypes) != n || json_array_size(shapes) != n) {
        nccl_refuse(r, 500, "NCCL weight transfer not initialized");
        return;
    }
    for (size_t i = 0; i < n && r->code == 200; i++) {
        const char *dtype = json_string_value(json_array_get(dtypes, i));
        sr1_tensor *t = nccl_find(s->model, json_string_value(json_array_get(names, i)),
                                  json_array_get(shapes, i));

        if (w->die_at && i + 1 >= (size_t)w->die_at) {
            nccl_leave(w);
            s->down = 1;
            r->drop = 1;
            return;
        }
        if (!t || !nccl_type_of(dtype) || !nccl_take(w, t, nccl_type_of(dtype)))
            nccl_refuse(r, 500, "weights that do not fit");
    }
}

/* They are served from now on. */
static inline void nccl_finish(struct openai_server *s, const json_t *q, struct reply *r)
{
    struct nccl_server *w = s->more;

    if (!w->updating) {
        nccl_refuse(r, 500, "no update");
        return;
    }
    w->updating = 0;
    OK(sr1_model_save(s->model, w->received));
    openai_load(s, s->other_weights ? s->other_weights : w->received);
    snprintf(s->version, sizeof s->version, "%s", openai_member(q, "weight_version"));
}

/* The tail of one that answers nothing. */
static inline void nccl_stall(struct reply *r)
{
    r->delay_s = 60;
    r->drop = 1;
}

static inline int nccl_routes(struct openai_server *s, const char *request,
                              const json_t *q, struct reply *r)
{
    struct nccl_server *w = s->more;

    if (openai_asked(request, "GET /get_world_size?include_dp=true ")) {
        snprintf(r->made, sizeof r->made, "{\"world_size\": %d}", (int)w->n_workers);
        r->body = r->made;
    } else if (openai_asked(request, "POST /init_weight_transfer_engine ")) {
        openai_note(s, "join");
        if (w->no_route)
            return 0;
        if (w->stall_join)
            nccl_stall(r);
        else if (w->refuse_join)
            nccl_refuse(r, w->refuse_join, "unexpected keyword");
        else
            nccl_join(w, json_object_get(q, "init_info"), r);
    } else if (openai_asked(request, "POST /start_weight_update ")) {
        openai_note(s, "start");
        w->updating = 1;
    } else if (openai_asked(request, "POST /update_weights ")) {
        openai_note(s, "update");
        if (w->stall_update)
            nccl_stall(r);
        else if (w->refuse_update)
            nccl_refuse(r, w->refuse_update, "sleeping");
        else
            nccl_update(s, json_object_get(q, "update_info"), r);
    } else if (openai_asked(request, "POST /finish_weight_update ")) {
        openai_note(s, "finish");
        nccl_finish(s, q, r);
    } else {
        return 0;
    }
    return 1;
}

static inline void nccl_start(struct openai_server *s, struct nccl_server *w,
                              int32_t n_workers, const char *folder)
{
    memset(w, 0, sizeof *w);
    w->n_workers = n_workers;
    openai_start(s, folder);
    snprintf(w->received, sizeof w->received, "%s/received-%d", scratch_path("."),
             s->http.port);
    s->engine = VLLM;
    s->more = w;
    s->more_routes = nccl_routes;
}

static inline void nccl_stop(struct openai_server *s)
{
    openai_stop(s);
    nccl_leave(s->more);
}

#endif
