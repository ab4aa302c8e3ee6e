/* retrieval/net/serving_vllm.c - the engine vllm (VLLM_SERVER_DEV_MODE=1). */
#include "base/error.h"
#include "retrieval/net/serving.h"

#include <inttypes.h>
#include <stdio.h>

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
              "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True), must be able to read the folder, "
              "and must answer within weight_sync_timeout",
    .probe = probe_vllm,
    .pause = pause_vllm,
    .update = update_vllm,
    .flush = flush_vllm,
    .version = check_vllm_version,
    .resume = resume_vllm,
    .adapt = adapt_vllm,
    .name_adapter = name_vllm_adapter,
};
