/* train/serving.c - training on what a server generates: how far its weights are behind
 * those that learn, and how it gets newer ones.
 *
 * The server begins with the weights that training begins with; its version is 0.
 * OpenAI's API has no way to give it others, so after k steps its trajectories are k
 * steps old. Where a server can load a folder (SGLang's /update_weights_from_disk),
 * openai_sync_url tells it to. What is older than max_staleness is refused, unless
 * importance_correction weighs it by what the present policy makes of it. */
#include "train/internal.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/service.h"

#include <searchr1/openai.h>

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int64_t age(const sr1_trainer *tr)
{
    return tr->step - sr1__rollout_server_version(tr->rollout);
}

static int is_synced(const sr1_trainer *tr)
{
    return sr1__config_str(tr->config, "openai_sync_url")[0] != '\0';
}

/* May trajectories this many steps old teach? */
static int may_teach(const sr1_trainer *tr, int64_t steps)
{
    return tr->set.max_staleness < 0 || steps <= tr->set.max_staleness ||
           tr->set.loss_options.correction;
}

#define REMEDY                                                                           \
    "set openai_sync_url so that the server loads the policy's weights, "                \
    "importance_correction so that the difference is weighed, or raise max_staleness"

sr1_status sr1__serving_open(sr1_trainer *tr)
{
    if (!sr1__rollout_is_remote(tr->rollout))
        return SR1_OK;
    sr1__rollout_set_server_version(tr->rollout, 0);
    if (is_synced(tr) || tr->planned == 0 || may_teach(tr, tr->planned - 1))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "the server keeps the weights it has, and %" PRId64
                     " steps are planned; " REMEDY,
                     tr->planned);
}

/* ---- new weights for the server ---- */

/* {"model_path": FOLDER}, the whole path of it. */
static sr1_status write_order(const char *folder, struct sr1__buf *body)
{
    char path[PATH_MAX];
    json_t *order;
    sr1_status st;

    if (!realpath(folder, path))
        return sr1__fail_errno("cannot find", folder);
    order = json_pack("{s:s}", "model_path", path);
    st = order ? sr1__json_dump(order, 0, body) : sr1__fail_nomem("request");
    json_decref(order);
    return st;
}

/* A server that answers may still have failed: {"success": false, "message": ...}. */
static sr1_status check_answer(const struct sr1__http_response *r)
{
    json_t *said = NULL;
    const char *why;
    sr1_status st = SR1_OK;

    if (sr1__json_parse(&said, sr1__buf_cstr(&r->body), r->body.len, "answer") != SR1_OK)
        return SR1_OK; /* it need not say anything */
    why = json_string_value(json_object_get(said, "message"));
    if (json_is_false(json_object_get(said, "success")))
        st = sr1__fail(SR1_E_NETWORK, "the server did not load the weights: %.300s",
                       why ? why : "it does not say why");
    json_decref(said);
    return st;
}

static sr1_status response_status(const struct sr1__http_response *r, const char *key)
{
    struct sr1__buf text;
    sr1_status st;

    if (r->status == SR1_OK)
        return check_answer(r);
    sr1__buf_init(&text, 0);
    sr1__service_explain(key, r, &text);
    st = sr1__buf_status(&text, "answer");
    if (st == SR1_OK)
        st = sr1__fail(r->status, "%s", sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    return st;
}

static sr1_status send(const sr1_config *c, struct sr1__http *http, const char *key,
                       const char *authorization, const struct sr1__buf *body)
{
    const char *headers[] = {"Content-Type: application/json", authorization};
    struct sr1__http_request q = {.url = sr1__config_str(c, "openai_sync_url"),
                                  .headers = headers,
                                  .n_headers = authorization ? 2 : 1,
                                  .body = sr1__buf_cstr(body),
                                  .body_len = body->len};
    struct sr1__http_response r;
    sr1_status st;

    SR1__TRY(sr1__http_run(http, &q, 1, &r));
    st = response_status(&r, key);
    sr1__http_response_free(&r);
    return st;
}

/* The key of the server goes with it. */
static sr1_status post(const sr1_config *c, const struct sr1__buf *body)
{
    struct sr1__http_options o = {
        .connect_timeout_s = 10,
        .timeout_s = sr1__config_real(c, "openai_timeout"),
        .max_body = (size_t)1 << 20,
        .concurrency = 1,
        .retry = {(int32_t)sr1__config_int(c, "openai_retries"), 0.5, 20, 60},
        .ca_file = sr1__config_str(c, "openai_ca_file"),
    };
    const char *set = sr1__config_secret(c, "openai_api_key");
    char *key = NULL, *authorization = NULL;
    struct sr1__http *http = NULL;
    sr1_status st = *set ? sr1__service_key(&key, "OPENAI_API_KEY") : SR1_OK;

    if (st == SR1_OK && key)
        st = sr1__service_bearer(&authorization, key);
    if (st == SR1_OK)
        st = sr1__http_new(&http, &o);
    if (st == SR1_OK)
        st = send(c, http, key, authorization, body);
    sr1__http_free(http);
    sr1__service_wipe(authorization);
    sr1__service_wipe(key);
    return st;
}

static sr1_status give_weights(sr1_trainer *tr)
{
    char *folder = sr1__path_join(tr->run_folder, "served");
    struct sr1__buf body;
    sr1_status st;

    if (!folder)
        return sr1__fail_nomem("folder");
    sr1__buf_init(&body, 0);
    st = sr1__dir_make(folder);
    if (st == SR1_OK)
        st = sr1_trainer_save_model(tr, folder);
    if (st == SR1_OK)
        st = write_order(folder, &body);
    if (st == SR1_OK)
        st = post(tr->config, &body);
    if (st == SR1_OK)
        sr1__rollout_set_server_version(tr->rollout, tr->step);
    sr1__buf_free(&body);
    sr1__free(folder);
    return sr1__context(st, "openai_sync_url");
}

/* ---- staleness ---- */

sr1_status sr1__serving_ready(sr1_trainer *tr, sr1_step_report *report)
{
    int64_t interval = sr1__config_int(tr->config, "openai_sync_interval");

    if (!sr1__rollout_is_remote(tr->rollout))
        return SR1_OK;
    if (is_synced(tr) && age(tr) >= interval)
        SR1__TRY(give_weights(tr));
    report->staleness = age(tr);
    if (may_teach(tr, age(tr)))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "the server's weights are %" PRId64
                     " steps behind, max_staleness is %" PRId64 "; " REMEDY,
                     age(tr), tr->set.max_staleness);
}

sr1_status sr1__serving_check(const sr1_trainer *tr, const sr1_trajectory *t, size_t i)
{
    int64_t version = sr1_trajectory_weights_version(t);

    if (!sr1__rollout_is_remote(tr->rollout) || version < 0 ||
        may_teach(tr, tr->step - version))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "trajectory %zu (query '%s', sample %d) is %" PRId64
                     " steps old, max_staleness is %" PRId64 "; " REMEDY,
                     i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t),
                     tr->step - version, tr->set.max_staleness);
}
