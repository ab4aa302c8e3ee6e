/* retrieval/net/serving_vllm.c - the engine vllm (VLLM_SERVER_DEV_MODE=1). */
#include "base/error.h"
#include "retrieval/net/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Routes that older servers lack. */
static int is_missing(const struct sr1__serving_call *c)
{
    return c->code == 404 || c->code == 405;
}

static sr1_status probe_vllm(struct sr1__serving_call *c)
{
    json_t *answer = NULL;
    sr1_status st = sr1__serving_get(c, "/health", &answer);

    json_decref(answer);
    SR1__TRY(st);
    answer = NULL;
    st = sr1__serving_get(c, "/is_paused", &answer);
    json_decref(answer);
    if (st != SR1_OK && is_missing(c))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%.200s has no route /is_paused; start vLLM with "
                         "VLLM_SERVER_DEV_MODE=1",
                         c->origin);
    return st;
}

static sr1_status pause_vllm(struct sr1__serving_call *c)
{
    char path[64];

    snprintf(path, sizeof(path), "/pause?mode=%s", c->pause_mode);
    return sr1__serving_post(c, path, NULL);
}

static sr1_status update_vllm(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, "/collective_rpc",
                             json_pack("{s:s, s:{s:s, s:b}}", "method", "reload_weights",
                                       "kwargs", "weights_path", c->weights->folder,
                                       "is_checkpoint_format", 1));
}

/* ---- by NCCL ---- */

#define WORKERS_MAX 4096 /* GPUs of one server; more is taken for an error */

/* vLLM tells nobody what it waits for: a server that was restarted since, or that others
 * have given weights, has no group with this process, and is known by its version. */
static int has_kept_group(struct sr1__serving_call *c)
{
    const struct sr1__serving_link *link = c->weights->link;
    int64_t version = link->version(link->self, c->server);
    json_t *answer = NULL;
    const char *said;
    char text[32];
    int kept;

    if (version < 0)
        return 0;
    snprintf(text, sizeof(text), "%" PRId64, version);
    (void)sr1__serving_get(c, "/weight_info", &answer);
    said = json_string_value(json_object_get(answer, "weight_version"));
    kept = said && strcmp(said, text) == 0;
    json_decref(answer);
    return kept;
}

/* As many processes as the server generates with. */
static sr1_status count_workers(struct sr1__serving_call *c, int32_t *out)
{
    json_t *answer = NULL;
    json_int_t n;

    SR1__TRY(sr1__serving_get(c, "/get_world_size?include_dp=true", &answer));
    n = json_integer_value(json_object_get(answer, "world_size"));
    json_decref(answer);
    if (n < 1 || n > WORKERS_MAX)
        return sr1__fail(SR1_E_PARSE,
                         "%.200s: /get_world_size names no number of workers from 1 to "
                         "%d",
                         c->origin, WORKERS_MAX);
    *out = (int32_t)n;
    return SR1_OK;
}

/* Standard base64 (RFC 4648). */
static void add_base64(struct sr1__buf *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        uint32_t left = n - i < 3 ? (uint32_t)(n - i) : 3, three = 0;

        for (uint32_t k = 0; k < 3; k++)
            three = three << 8 | (k < left ? bytes[i + k] : 0U);
        for (uint32_t k = 0; k < 4; k++)
            sr1__buf_char(out, k > left ? '=' : digits[three >> (18 - 6 * k) & 63]);
    }
}

/* The group that a server is asked to join. */
struct vllm_group {
    uint8_t id[SR1__SERVING_ID_BYTES];
    int32_t workers;
};

static json_t *describe_group(const struct vllm_group *g)
{
    struct sr1__buf id;
    json_t *body;

    sr1__buf_init(&id, 0);
    add_base64(&id, g->id, sizeof(g->id));
    body = json_pack("{s:{s:s, s:i, s:i, s:b}}", "init_info", "nccl_unique_id_b64",
                     sr1__buf_cstr(&id), "rank_offset", 1, "world_size", 1 + g->workers,
                     "packed", 0);
    sr1__buf_free(&id);
    return body;
}

static sr1_status enter_group(struct sr1__serving_call *c,
                              const struct sr1__serving_wait *wait, void *arg)
{
    const struct sr1__serving_link *link = c->weights->link;
    const struct vllm_group *g = arg;

    return link->open(link->self, c->server, g->id, g->workers, wait);
}

/* The server's workers and this process enter at once, neither waits for the other's
 * word. */
static sr1_status join_vllm(struct sr1__serving_call *c)
{
    const struct sr1__serving_link *link = c->weights->link;
    struct vllm_group g;

    if (has_kept_group(c))
        return SR1_OK;
    link->close(link->self, c->server);
    SR1__TRY(count_workers(c, &g.workers));
    SR1__TRY(link->make_id(link->self, g.id));
    return sr1__context(
        sr1__serving_post_beside(c, "/init_weight_transfer_engine", describe_group(&g),
                                 enter_group, &g),
        "joining (vLLM 0.30 or newer, started with --weight-transfer-config "
        "'{\"backend\": \"nccl\"}')");
}

static json_t *list_shape(const struct sr1__serving_tensor *t)
{
    json_t *shape = json_array();

    for (int32_t d = 0; d < t->n_dims; d++)
        if (json_array_append_new(shape, json_integer(t->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

/* NULL without memory: a list that is too short would be another model's. */
static json_t *describe_update(const struct sr1__serving_link *link)
{
    json_t *names = json_array(), *dtypes = json_array(), *shapes = json_array();
    json_t *body = json_pack("{s:{s:o, s:o, s:o}}", "update_info", "names", names,
                             "dtype_names", dtypes, "shapes", shapes);
    int failed = !body;

    for (size_t i = 0; !failed && i < link->n; i++) {
        const struct sr1__serving_tensor *t = &link->tensors[i];

        failed = json_array_append_new(names, json_string(t->name)) != 0 ||
                 json_array_append_new(dtypes, json_string(t->dtype)) != 0 ||
                 json_array_append_new(shapes, list_shape(t)) != 0;
    }
    if (!failed)
        return body;
    json_decref(body);
    return NULL;
}

static sr1_status send_by_link(struct sr1__serving_call *c,
                               const struct sr1__serving_wait *wait, void *arg)
{
    const struct sr1__serving_link *link = c->weights->link;

    (void)arg;
    return link->send(link->self, c->server, wait);
}

static sr1_status receive_vllm(struct sr1__serving_call *c)
{
    char version[32];

    snprintf(version, sizeof(version), "%" PRId64, c->weights->version);
    SR1__TRY(sr1__serving_post(c, "/start_weight_update", NULL));
    SR1__TRY(sr1__serving_post_beside(
        c, "/update_weights", describe_update(c->weights->link), send_by_link, NULL));
    return sr1__serving_post(c, "/finish_weight_update",
                             json_pack("{s:s}", "weight_version", version));
}

static sr1_status flush_vllm(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, "/reset_prefix_cache?reset_running_requests=true", NULL);
}

/* Set, and read back. */
static sr1_status check_vllm_version(struct sr1__serving_call *c)
{
    char text[32];
    json_t *answer = NULL;
    sr1_status st;

    snprintf(text, sizeof(text), "%" PRId64, c->weights->version);
    st = sr1__serving_post(c, "/update_weight_version",
                           json_pack("{s:s}", "new_version", text));
    if (st != SR1_OK)
        return is_missing(c) ? SR1_OK : st;
    st = sr1__serving_get(c, "/weight_info", &answer);
    if (st == SR1_OK)
        st = sr1__serving_check_version(c, answer);
    json_decref(answer);
    return st;
}

static sr1_status resume_vllm(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, "/resume", NULL);
}

/* Caches are kept by adapter, so a new name needs no flush. */
static sr1_status adapt_vllm(struct sr1__serving_call *c)
{
    const struct sr1__serving_weights *w = c->weights;
    sr1_status st = sr1__serving_post(
        c, "/v1/load_lora_adapter",
        json_pack("{s:s, s:s}", "lora_name", w->adapter, "lora_path", w->folder));

    if (st != SR1_OK && is_missing(c))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%.200s has no route /v1/load_lora_adapter; start vLLM with "
                         "--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
                         c->origin);
    if (st == SR1_OK && w->old_adapter) /* one that is gone already is fine */
        (void)sr1__serving_post(c, "/v1/unload_lora_adapter",
                                json_pack("{s:s}", "lora_name", w->old_adapter));
    return st;
}

static sr1_status name_vllm_adapter(struct sr1__buf *name, const char *base,
                                    const char *adapter)
{
    (void)base;
    sr1__buf_str(name, adapter);
    return sr1__buf_status(name, "adapter");
}

const struct sr1__serving_ops sr1__serving_vllm = {
    .name = "vllm",
    .remedy = "each server needs VLLM_SERVER_DEV_MODE=1 (for adapters --enable-lora and "
              "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True), must be able to read the folder "
              "(but for weight_sync_backend nccl), and must answer within "
              "weight_sync_timeout",
    .probe = probe_vllm,
    .pause = pause_vllm,
    .update = update_vllm,
    .join = join_vllm,
    .receive = receive_vllm,
    .flush = flush_vllm,
    .version = check_vllm_version,
    .resume = resume_vllm,
    .adapt = adapt_vllm,
    .name_adapter = name_vllm_adapter,
};
