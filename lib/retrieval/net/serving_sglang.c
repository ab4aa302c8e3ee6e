/* retrieval/net/serving_sglang.c - the engine sglang. */
#include "base/error.h"
#include "retrieval/net/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int is_abort(const struct sr1__serving_call *c)
{
    return strcmp(c->pause_mode, "abort") == 0;
}

static sr1_status probe_sglang(struct sr1__serving_call *c)
{
    json_t *answer = NULL;
    sr1_status st = sr1__serving_get(c, "/health", &answer);

    json_decref(answer);
    return st;
}

/* There is no wait: requests that run are put back and go on with the new weights, so
 * that the cache can be flushed. */
static sr1_status pause_sglang(struct sr1__serving_call *c)
{
    return sr1__serving_post(
        c, "/pause_generation",
        json_pack("{s:s}", "mode", is_abort(c) ? "abort" : "retract"));
}

static sr1_status update_sglang(struct sr1__serving_call *c)
{
    char version[32];

    snprintf(version, sizeof(version), "%" PRId64, c->weights->version);
    return sr1__serving_post(c, "/update_weights_from_disk",
                             json_pack("{s:s, s:s, s:b, s:b}", "model_path",
                                       c->weights->folder, "weight_version", version,
                                       "flush_cache", 1, "abort_all_requests",
                                       is_abort(c)));
}

/* The update has flushed it; a server that refuses now holds requests of old weights. */
static sr1_status flush_sglang(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, "/flush_cache", json_object());
}

/* The routes that tell it, of newer servers first. */
static sr1_status check_sglang_version(struct sr1__serving_call *c)
{
    static const char *const routes[] = {"/model_info", "/get_weight_version"};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        json_t *answer = NULL;

        st = sr1__serving_get(c, routes[i], &answer);
        if (st == SR1_OK)
            st = sr1__serving_check_version(c, answer);
        json_decref(answer);
        if (st == SR1_OK || c->code != 404)
            return st;
    }
    return SR1_OK;
}

static sr1_status resume_sglang(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, "/continue_generation", json_object());
}

static sr1_status adapt_sglang(struct sr1__serving_call *c)
{
    const struct sr1__serving_weights *w = c->weights;

    SR1__TRY(sr1__serving_post(
        c, "/load_lora_adapter",
        json_pack("{s:s, s:s}", "lora_name", w->adapter, "lora_path", w->folder)));
    if (w->old_adapter) /* one that is gone already is fine */
        (void)sr1__serving_post(c, "/unload_lora_adapter",
                                json_pack("{s:s}", "lora_name", w->old_adapter));
    return SR1_OK;
}

static sr1_status name_sglang_adapter(struct sr1__buf *name, const char *base,
                                      const char *adapter)
{
    sr1__buf_fmt(name, "%s:%s", base, adapter);
    return sr1__buf_status(name, "adapter");
}

const struct sr1__serving_ops sr1__serving_sglang = {
    .name = "sglang",
    .remedy = "each server must be able to read the folder and answer within "
              "weight_sync_timeout (adapters: --enable-lora)",
    .probe = probe_sglang,
    .pause = pause_sglang,
    .update = update_sglang,
    .flush = flush_sglang,
    .version = check_sglang_version,
    .resume = resume_sglang,
    .adapt = adapt_sglang,
    .name_adapter = name_sglang_adapter,
};
