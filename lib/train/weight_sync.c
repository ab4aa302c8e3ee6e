/* train/weight_sync.c - training with a generation server: the staleness of its weights,
 * and their update.
 *
 * The server begins with the weights that training begins with; their version is 0.
 * OpenAI's API cannot send it others, so after k steps its trajectories are k steps old.
 * If a server can load a folder (retrieval/net/serving.h), weight_sync_backend or
 * openai_sync_url makes it do so, or the tensors are broadcast to it (weight_link.h).
 * Trajectories older than max_staleness are refused, unless importance_correction weights
 * them by their probability under the present policy.
 *
 * Which weights the server has is unknown when a run begins (it may still serve those of
 * an earlier run), so it loads what training begins with. On resuming it loads the
 * weights that it had at the checkpoint; the checkpoint keeps them unless newer ones are
 * due at once. Then RUN/served may hold weights of steps that are done again: the next
 * checkpoint takes the server's from the one that it loaded. Broadcast weights are kept
 * nowhere: it gets the present ones.
 *
 * Of several processes (ranks.h) all generate by the same servers, and the first one
 * writes the weights and pushes them. */
#include "train/ranks.h"
#include "train/rollout_queue.h"
#include "train/step_batch.h"
#include "train/weight_link.h"
#include "train/weight_proof.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/choices.h"
#include "config/model_folder.h"
#include "retrieval/net/serving.h"

#include <searchr1/ext/model_details.h>
#include <searchr1/ext/openai.h>
#include <searchr1/ext/tokenizer.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t get_staleness(const sr1_trainer *tr)
{
    return tr->step - sr1__rollout_server_version(tr->rollout);
}

static int is_synced(const sr1_trainer *tr)
{
    return sr1__config_sends_weights(tr->config);
}

/* Do the servers load adapters instead of whole models? */
static int sends_adapters(const sr1_trainer *tr)
{
    return sr1__config_sends_adapters(tr->config);
}

/* Are tensors broadcast to them, without a folder? */
static int sends_tensors(const sr1_trainer *tr)
{
    return sr1__config_sends_tensors(tr->config);
}

/* May trajectories this many steps old teach? */
static int may_train_on(const sr1_trainer *tr, int64_t steps)
{
    return tr->set.max_staleness < 0 || steps <= tr->set.max_staleness ||
           tr->set.loss_options.correction;
}

#define REMEDY                                                                           \
    "set weight_sync_backend so that the server loads the policy's weights, "            \
    "importance_correction so that the difference is weighed, or raise max_staleness"

static int64_t get_interval(const sr1_trainer *tr)
{
    return sr1__config_int(tr->config, "openai_sync_interval");
}

/* How old the trajectories of a plan get. */
static int64_t find_oldest(const sr1_trainer *tr)
{
    int64_t last = tr->planned - 1, synced = get_interval(tr) - 1 + tr->set.async_level;

    return is_synced(tr) && synced < last ? synced : last;
}

/* Keys that contradict one another. */
static sr1_status check_engine_keys(const sr1_trainer *tr)
{
    const sr1_config *c = tr->config;
    int by_url = sr1__config_str(c, "openai_sync_url")[0] != '\0';

    if (by_url && !sr1__config_is(c, "openai_engine", "auto") &&
        !sr1__config_is(c, "openai_engine", "url"))
        return sr1__fail(SR1_E_CONFIG,
                         "openai_sync_url is of openai_engine url, which is %s; leave "
                         "one of them out",
                         sr1__config_str(c, "openai_engine"));
    if (!by_url && sr1__config_is(c, "openai_engine", "url") && is_synced(tr))
        return sr1__fail(SR1_E_CONFIG, "openai_engine url needs openai_sync_url");
    if (sends_adapters(tr) && by_url)
        return sr1__fail(SR1_E_CONFIG,
                         "weight_sync_backend lora needs openai_engine vllm or sglang; "
                         "openai_sync_url takes whole models");
    if (sends_tensors(tr) && (by_url || sr1__config_is(c, "openai_engine", "sglang")))
        return sr1__fail(SR1_E_CONFIG,
                         "weight_sync_backend nccl needs openai_engine vllm; SGLang's "
                         "group is torch's own, and openai_sync_url takes a folder: set "
                         "weight_sync_backend to disk");
    if (sends_adapters(tr) && sr1_model_info(tr->model, SR1_MODEL_LORA_RANK) == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "weight_sync_backend lora sends adapters, and none is trained; "
                         "set lora_rank, or weight_sync_backend to disk");
    return SR1_OK;
}

/* Can rollouts go on beside an update? */
static sr1_status check_async_level(const sr1_trainer *tr)
{
    if (tr->set.async_level == 0)
        return SR1_OK;
    if (tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_BASELINES)
        return sr1__fail(SR1_E_CONFIG,
                         "async_level: advantage %s compares with greedy rollouts of the "
                         "step's own weights, which do not begin before it; choose "
                         "another advantage, or async_level 0",
                         sr1__config_str(tr->config, "advantage"));
    if (tr->set.partial_rollout && sends_adapters(tr))
        return sr1__fail(SR1_E_CONFIG,
                         "partial_rollout: an adapter has another name for each version, "
                         "and requests under way keep the old one, which is unloaded; "
                         "set weight_sync_backend to disk, or partial_rollout to false");
    if (sr1__rollout_reviser(tr->rollout))
        return sr1__fail(SR1_E_CONFIG,
                         "async_level: the reviser would compute here during the update; "
                         "have a server generate its revisions (proxy_url), or set "
                         "async_level to 0");
    return SR1_OK;
}

static sr1_status open_weight_link(sr1_trainer *tr)
{
    if (!sends_tensors(tr))
        return SR1_OK;
    return sr1__weight_link_open(
        &tr->link, tr->model, sr1__server_pool_size(sr1__rollout_servers(tr->rollout)));
}

void sr1__weight_sync_close(sr1_trainer *tr)
{
    sr1__weight_link_free(tr->link);
    tr->link = NULL;
}

sr1_status sr1__weight_sync_open(sr1_trainer *tr)
{
    if (!sr1__rollout_is_remote(tr->rollout))
        return SR1_OK;
    SR1__TRY(check_engine_keys(tr));
    SR1__TRY(check_async_level(tr));
    SR1__TRY(open_weight_link(tr));
    sr1__rollout_set_server_version(tr->rollout, 0);
    if (tr->planned == 0 || may_train_on(tr, find_oldest(tr)))
        return SR1_OK;
    if (is_synced(tr))
        return sr1__fail(SR1_E_CONFIG,
                         "openai_sync_interval is %" PRId64 " and async_level %" PRId64
                         ", so what the server generates gets %" PRId64 " steps old, and "
                         "max_staleness is %" PRId64 "; lower the former, raise the "
                         "latter, or set importance_correction",
                         get_interval(tr), tr->set.async_level, find_oldest(tr),
                         tr->set.max_staleness);
    return sr1__fail(SR1_E_CONFIG,
                     "the server keeps the weights it has, and %" PRId64
                     " steps are planned; " REMEDY,
                     tr->planned);
}

/* ---- new weights for the server ---- */

/* A name that the servers have never seen: adapters are cached by name. */
static char *make_adapter_name(const sr1_trainer *tr, int64_t version)
{
    uint64_t run = sr1__hash64(tr->run_folder, strlen(tr->run_folder),
                               (uint64_t)time(NULL) ^ ((uint64_t)getpid() << 32));
    char name[64];

    snprintf(name, sizeof(name), "sr1-%08" PRIx32 "-%" PRId64, (uint32_t)run, version);
    return sr1__strdup(name);
}

static void forget_adapter(sr1_trainer *tr, char *name)
{
    sr1__free(tr->adapter_name);
    tr->adapter_name = name;
}

static sr1_status push_tensors(sr1_trainer *tr, int64_t version, uint8_t *taken)
{
    struct sr1__serving_weights w = {.link = sr1__weight_link_of(tr->link, version),
                                     .version = version};

    return sr1__serving_push(sr1__rollout_servers(tr->rollout), tr->config, &w, taken);
}

/* Give them to the servers; *name: that of an adapter. taken[i]: server i has them. */
static sr1_status push_folder(sr1_trainer *tr, const char *folder, int64_t version,
                              const char *name, uint8_t *taken)
{
    char path[PATH_MAX];
    struct sr1__serving_weights w = {.folder = path,
                                     .version = version,
                                     .adapter = name,
                                     .old_adapter = tr->adapter_name};

    if (!realpath(folder, path))
        return sr1__fail_errno("find", folder);
    return sr1__serving_push(sr1__rollout_servers(tr->rollout), tr->config, &w, taken);
}

/* Have the servers load this folder, NULL: take the policy's tensors, and prove it. */
static sr1_status push_and_prove(sr1_trainer *tr, const char *folder, int64_t version,
                                 uint8_t *taken)
{
    char *name = NULL;
    sr1_status st;

    if (sends_adapters(tr) && !(name = make_adapter_name(tr, version)))
        return sr1__fail_nomem("adapter");
    st = folder ? push_folder(tr, folder, version, name, taken)
                : push_tensors(tr, version, taken);
    if (st != SR1_OK) {
        sr1__free(name);
        return st;
    }
    forget_adapter(tr, name);
    /* Of older weights the policy knows nothing any more. */
    return version == tr->step ? sr1__weight_proof(tr, taken) : SR1_OK;
}

/* ---- several processes ---- */

/* What the first process has made of the servers. */
struct pushed {
    uint8_t taken[SR1__SERVERS_MAX];
    char models[SR1__SERVERS_MAX][256]; /* of adapters, that requests ask for */
};

static void list_models(const sr1_trainer *tr, struct pushed *p)
{
    const struct sr1__server_pool *pool = sr1__rollout_servers(tr->rollout);

    for (size_t i = 0; sends_adapters(tr) && i < sr1__server_pool_size(pool); i++)
        if (p->taken[i])
            snprintf(p->models[i], sizeof(p->models[i]), "%s",
                     sr1_openai_model(sr1__server_pool_client(pool, i)));
}

/* The servers are this process's too, as the first one left them; one that this process
 * cannot ask is left out here. Whole weights have the name that they had: requests that
 * run may be reading it. */
static sr1_status follow_push(const sr1_trainer *tr, const struct pushed *p)
{
    struct sr1__server_pool *pool = sr1__rollout_servers(tr->rollout);
    const int renames = sends_adapters(tr);

    sr1__server_pool_hold(pool);
    for (size_t i = 0; i < sr1__server_pool_size(pool); i++)
        if (!p->taken[i])
            sr1__server_pool_exclude(pool, i, "rank 0 could not give it them");
        else if (sr1__server_pool_admit(pool, i, renames ? p->models[i] : NULL) != SR1_OK)
            sr1__server_pool_exclude(pool, i, sr1_last_error());
    return sr1__server_pool_live(pool) > 0
               ? SR1_OK
               : sr1__fail(SR1_E_NETWORK,
                           "no generation server that has the present weights can be "
                           "asked from here");
}

static sr1_status share_push(sr1_trainer *tr, struct pushed *p)
{
    if (!tr->dist)
        return SR1_OK;
    if (sr1__is_first_rank(tr))
        list_models(tr, p);
    SR1__TRY(sr1__dist_broadcast(tr->dist, "servers", 0, p, sizeof(*p)));
    return sr1__dist_agree(tr->dist, "servers",
                           sr1__is_first_rank(tr) ? SR1_OK : follow_push(tr, p));
}

/* Have the servers load this folder, which the first process has written with status st;
 * its weights have seen so many steps. NULL: the policy's tensors. */
static sr1_status load_on_server(sr1_trainer *tr, const char *folder, int64_t version,
                                 sr1_status st)
{
    struct pushed *p = sr1__calloc(1, sizeof(*p));

    if (st == SR1_OK && !p)
        st = sr1__fail_nomem("servers");
    if (st == SR1_OK && sr1__is_first_rank(tr))
        st = push_and_prove(tr, folder, version, p->taken);
    st = sr1__dist_await(tr->dist, "new weights of the servers", st);
    if (st == SR1_OK)
        st = share_push(tr, p);
    sr1__free(p);
    SR1__TRY(st);
    sr1__rollout_set_server_version(tr->rollout, version);
    tr->server_known = 1;
    return SR1_OK;
}

/* ---- folders ---- */

static char *join_served_folder(const sr1_trainer *tr)
{
    return sr1__path_join(tr->run_folder, "served");
}

/* Servers load whole models, an adapter merged into its base, or the adapter alone. */
static sr1_status save_served(sr1_trainer *tr, const sr1_model *m, const char *folder)
{
    SR1__TRY(sr1__dir_make(folder));
    if (sends_adapters(tr))
        return sr1_model_save(m, folder);
    SR1__TRY(sr1_model_save_merged(m, folder));
    return sr1_tokenizer_save(sr1_rollout_tokenizer(tr->rollout), folder);
}

static void forget_loaded(sr1_trainer *tr)
{
    sr1__free(tr->server_loaded);
    tr->server_loaded = NULL;
}

static sr1_status push_model(sr1_trainer *tr, const sr1_model *m, int64_t version)
{
    char *folder = join_served_folder(tr);
    sr1_status st = folder ? SR1_OK : sr1__fail_nomem("folder");

    if (st == SR1_OK && sr1__is_first_rank(tr))
        st = save_served(tr, m, folder);
    if (st == SR1_OK)
        forget_loaded(tr);
    st = load_on_server(tr, folder, version, st);
    sr1__free(folder);
    return st;
}

static sr1_status push_weights(sr1_trainer *tr)
{
    return sends_tensors(tr) ? load_on_server(tr, NULL, tr->step, SR1_OK)
                             : push_model(tr, tr->model, tr->step);
}

/* What training began with, which the policy may no longer be: the folder as it is, or an
 * adapter read again and merged. */
static sr1_status push_beginning(sr1_trainer *tr)
{
    const char *folder = sr1__config_str(tr->config, "model_name_or_path");
    sr1_model_options o = {.struct_size = sizeof(o),
                           .device = "cpu",
                           .dtype = sr1_model_dtype(tr->model),
                           .base_model =
                               sr1__config_str(tr->config, "base_model_name_or_path")};
    sr1_model *first = NULL;
    int adapter = 0;
    sr1_status st;

    SR1__TRY(sr1__adapter_is_folder(folder, &adapter));
    if ((sends_adapters(tr) && tr->step == 0) || sends_tensors(tr))
        return push_weights(tr);
    if (sends_adapters(tr) && !adapter) { /* a new adapter changes nothing: their base */
        tr->server_known = 1;
        return SR1_OK;
    }
    if (!adapter || sends_adapters(tr))
        return load_on_server(tr, folder, 0, SR1_OK);
    if (sr1__is_first_rank(tr)) /* which alone reads it */
        SR1__TRY(sr1_model_open(&first, folder, &o));
    st = push_model(tr, first, 0);
    sr1_model_free(first);
    return st;
}

/* ---- checkpoints ---- */

/* Does folder/served hold weights? */
static int has_served(const char *folder)
{
    return sr1__dir_has(folder, "served/config.json") ||
           sr1__dir_has(folder, "served/adapter_config.json");
}

enum sr1__sync_form sr1__weight_sync_form(const sr1_trainer *tr)
{
    if (!sr1__rollout_is_remote(tr->rollout) || !is_synced(tr) || sends_tensors(tr))
        return SR1__SYNC_NOTHING;
    return sends_adapters(tr) ? SR1__SYNC_ADAPTERS : SR1__SYNC_MODELS;
}

/* Without served weights newer ones are due where the run goes on from the checkpoint. */
int sr1__weight_sync_keeps(const sr1_trainer *tr)
{
    return sr1__weight_sync_form(tr) != SR1__SYNC_NOTHING &&
           sr1__rollout_server_version(tr->rollout) > 0 &&
           (get_staleness(tr) < get_interval(tr) || sr1__rollout_queue_head(tr)) &&
           (tr->server_loaded || has_served(tr->run_folder));
}

/* Files of served/ are replaced, never changed: another name is as good as a copy. */
static sr1_status keep_file(const char *from, const char *to)
{
    return link(from, to) == 0 ? SR1_OK : sr1__file_copy(from, to);
}

static sr1_status keep_served(const char *from, const char *to)
{
    SR1__TRY(sr1__dir_pair_files(from, to, keep_file));
    return sr1__dir_sync(to); /* links are names alone */
}

/* RUN/served becomes what the server loaded when the run went on; the checkpoint that it
 * loaded is removed after a newer one is written, not before. */
static sr1_status put_served_back(sr1_trainer *tr, const char *served)
{
    if (!tr->server_loaded)
        return SR1_OK;
    SR1__TRY(sr1__dir_remove(served));
    SR1__TRY(sr1__dir_make(served));
    SR1__TRY(keep_served(tr->server_loaded, served));
    forget_loaded(tr);
    return SR1_OK;
}

sr1_status sr1__weight_sync_save(sr1_trainer *tr, const char *folder)
{
    char *served = join_served_folder(tr);
    sr1_status st = served ? put_served_back(tr, served) : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = keep_served(served, folder);
    sr1__free(served);
    return st;
}

/* folder/served of a checkpoint. */
static sr1_status load_checkpoint(sr1_trainer *tr, const char *folder, int64_t version)
{
    char *path = sr1__path_join(folder, "served");
    sr1_status st =
        load_on_server(tr, path, version, path ? SR1_OK : sr1__fail_nomem("path"));

    if (st != SR1_OK)
        sr1__free(path);
    else
        tr->server_loaded = path;
    return st;
}

sr1_status sr1__weight_sync_restore(sr1_trainer *tr, const char *folder,
                                    const json_t *state)
{
    const json_t *said = json_object_get(state, "server_version");
    int64_t version = said ? json_integer_value(said) : 0;

    if (!sr1__rollout_is_remote(tr->rollout))
        return SR1_OK;
    if (state && !said) /* an older checkpoint: newer weights are due */
        version = is_synced(tr) ? tr->step - get_interval(tr) : 0;
    sr1__rollout_set_server_version(tr->rollout, version);
    if (sr1__weight_sync_form(tr) == SR1__SYNC_NOTHING ||
        (get_staleness(tr) >= get_interval(tr) && !sr1__rollout_queue_head(tr)))
        return SR1_OK;
    if (version == 0)
        return push_beginning(tr);
    /* one made without openai_sync_url has none: newer ones are due */
    return has_served(folder) ? load_checkpoint(tr, folder, version) : SR1_OK;
}

/* ---- staleness ---- */

int sr1__weights_are_due(const sr1_trainer *tr)
{
    return is_synced(tr) && (get_staleness(tr) >= get_interval(tr) || !tr->server_known);
}

static sr1_status push_if_due(sr1_trainer *tr)
{
    if (!sr1__weights_are_due(tr))
        return SR1_OK;
    return tr->step == 0 ? push_beginning(tr) : push_weights(tr);
}

sr1_status sr1__push_due_weights(sr1_trainer *tr)
{
    double began = sr1__now();
    sr1_status st = push_if_due(tr);

    sr1__metrics_add(&tr->step_metrics, "seconds_sync", sr1__now() - began, SR1__SUM);
    return st;
}

/* How old the trajectories of the step are, by the rollout that began for it, if any. */
static int64_t find_rollout_staleness(const struct sr1__step_batch *b)
{
    const struct sr1__queued_rollout *q = sr1__rollout_queue_head(b->tr);

    return b->in_run && q && q->version >= 0 ? b->tr->step - q->version
                                             : get_staleness(b->tr);
}

sr1_status sr1__sync_policy(struct sr1__step_batch *b)
{
    sr1_trainer *tr = b->tr;
    int64_t steps;

    if (!sr1__rollout_is_remote(tr->rollout))
        return SR1_OK;
    if (!b->in_run || !sr1__rollout_queue_head(tr) ||
        (is_synced(tr) && !tr->server_known))
        SR1__TRY(sr1__push_due_weights(tr));
    steps = find_rollout_staleness(b);
    sr1__metrics_add(b->metrics, "staleness", (double)steps, SR1__LAST);
    sr1__metrics_add(b->metrics, "staleness_max", (double)steps, SR1__LAST);
    if (may_train_on(tr, steps))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "the server's weights are %" PRId64
                     " steps behind, max_staleness is %" PRId64 "; " REMEDY,
                     steps, tr->set.max_staleness);
}

sr1_status sr1__check_staleness(const sr1_trainer *tr, const sr1_trajectory *t, size_t i)
{
    int64_t version = sr1_trajectory_weights_version(t);

    if (!sr1__rollout_is_remote(tr->rollout) || version < 0 ||
        may_train_on(tr, tr->step - version))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "trajectory %zu (query '%s', sample %d) is %" PRId64
                     " steps old, max_staleness is %" PRId64 "; " REMEDY,
                     i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t),
                     tr->step - version, tr->set.max_staleness);
}
