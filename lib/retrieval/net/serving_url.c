/* retrieval/net/serving_url.c - the engine url: one POST of a folder to an address
 * (openai_sync_url), which SGLang's /update_weights_from_disk or a script answers. */
#include "retrieval/net/serving.h"

static sr1_status update_by_url(struct sr1__serving_call *c)
{
    return sr1__serving_post(c, c->sync_url,
                             json_pack("{s:s}", "model_path", c->weights->folder));
}

const struct sr1__serving_ops sr1__serving_url = {
    .name = "openai_sync_url",
    .remedy = "the address must answer POST {\"model_path\": FOLDER} once the weights "
              "are loaded, and the server must be able to read the folder",
    .update = update_by_url,
};
