/* train/ranks.c - see ranks.h. */
#include "train/ranks.h"

#include "policy/fingerprint.h"
#include "policy/launched_job.h"

#include <searchr1/ext/run_info.h>

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

sr1_status sr1__ranks_config(const sr1_trainer *tr, sr1_config **out)
{
    return sr1__job_config(&tr->launch, tr->config, out);
}

/* What is not there for several processes yet. */
static sr1_status refuse_unshared(const sr1_config *c)
{
    if (sr1__config_int(c, "micro_batch_tokens") == 0 ||
        sr1__config_int(c, "max_rows") == 0)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "micro_batch_tokens 0 and max_rows 0 are chosen by one process; "
                         "give several the numbers that sr1-train --plan shows");
    return SR1_OK;
}

/* Ranks of a group that has all states and weights among them; 1: every rank has. */
static int32_t count_group(const sr1_trainer *tr)
{
    int64_t size = sr1__config_int(tr->config, "fsdp_size");

    return size < 0 || size > tr->launch.world_size ? tr->launch.world_size
                                                    : (int32_t)size;
}

/* The key fsdp_size, as verl understands it. */
static sr1_status choose_sharding(sr1_trainer *tr)
{
    int32_t size = count_group(tr);

    if (tr->launch.world_size % size != 0)
        return sr1__fail(SR1_E_CONFIG,
                         "fsdp_size %" PRId32 " does not divide a world of %" PRId32
                         " processes into equal groups; -1 is one group of all, 1 shards "
                         "nothing",
                         size, tr->launch.world_size);
    tr->sharded = size != 1;
    tr->sums_by_rank =
        sr1__config_bool(tr->config, "use_no_sync_for_gradient_accumulation");
    tr->reshards = tr->sharded && sr1__config_bool(tr->config, "reshard_after_forward");
    tr->prefetches = sr1__config_bool(tr->config, "forward_prefetch");
    return SR1_OK;
}

/* Groups are of neighbours, which mostly share a machine. */
static sr1_status open_mesh(sr1_trainer *tr)
{
    int32_t size = count_group(tr), rank = sr1__dist_rank(tr->dist);
    struct sr1__dist_group group = {.name = "shard",
                                    .group = rank / size,
                                    .rank = rank % size,
                                    .size = size,
                                    .first = rank - rank % size,
                                    .stride = 1};
    struct sr1__dist_group owners = {.name = "owners",
                                     .group = rank % size,
                                     .rank = rank / size,
                                     .size = sr1__dist_size(tr->dist) / size,
                                     .first = rank % size,
                                     .stride = size};

    tr->mesh = (struct sr1__mesh){.world = tr->dist, .group = tr->dist};
    if (!tr->sharded || owners.size == 1)
        return SR1_OK;
    tr->mesh.group = NULL;
    SR1__TRY(sr1__dist_split(&tr->mesh.group, tr->dist, &group));
    return sr1__dist_split(&tr->mesh.owners, tr->dist, &owners);
}

void sr1__ranks_close(sr1_trainer *tr)
{
    if (tr->mesh.group != tr->dist)
        sr1__dist_free(tr->mesh.group);
    sr1__dist_free(tr->mesh.owners);
    sr1__dist_free(tr->dist);
    tr->mesh = (struct sr1__mesh){NULL, NULL, NULL};
    tr->dist = NULL;
}

sr1_status sr1__ranks_open(sr1_trainer *tr)
{
    SR1__TRY(sr1__job_read(&tr->launch, tr->config));
    if (tr->launch.world_size == 1)
        return SR1_OK;
    SR1__TRY(refuse_unshared(tr->config));
    SR1__TRY(choose_sharding(tr));
    SR1__TRY(sr1__job_meet(&tr->dist, &tr->launch, tr->config, 1));
    return open_mesh(tr);
}

/* ---- the same on all ranks ---- */

static sr1_status add_hash(json_t *all, const char *name, uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return json_object_set_new(all, name, json_string(text)) == 0
               ? SR1_OK
               : sr1__fail_nomem("what ranks have in common");
}

/* NULL: there are none. */
static sr1_status add_weights(json_t *all, const char *name, const sr1_model *m)
{
    uint64_t hash;

    if (!m)
        return SR1_OK;
    SR1__TRY(sr1__weights_fingerprint(m, &hash));
    return add_hash(all, name, hash);
}

static sr1_status add_validation(json_t *all, const sr1_dataset *d)
{
    uint64_t hash;

    if (!d)
        return SR1_OK;
    SR1__TRY(sr1__dataset_hash(d, &hash));
    return add_hash(all, "validation", hash);
}

static sr1_status add_critic(json_t *all, const sr1_trainer *tr)
{
    return add_weights(all, "critic", tr->critics ? tr->critics[0] : NULL);
}

static sr1_status add_trained(json_t *all, const sr1_trainer *tr)
{
    SR1__TRY(add_weights(all, "weights", tr->model));
    return add_critic(all, tr);
}

/* all: the policy's fingerprint, in which weights are "" where a server has them. */
static sr1_status add_parts(json_t *all, const sr1_trainer *tr)
{
    if (!*json_string_value(json_object_get(all, "weights")))
        SR1__TRY(add_weights(all, "weights", tr->model));
    SR1__TRY(add_critic(all, tr));
    SR1__TRY(add_weights(all, "proxy", sr1__rollout_reviser(tr->rollout)));
    SR1__TRY(add_validation(all, tr->validation));
    return json_object_set(all, "files", tr->rule_files) == 0
               ? SR1_OK
               : sr1__fail_nomem("what ranks have in common");
}

/* Machines may have other files under the same names. */
static sr1_status compare_parts(const sr1_trainer *tr)
{
    json_t *all = NULL;
    sr1_status st;

    if (!tr->dist)
        return SR1_OK;
    SR1__TRY(sr1__share_date(tr->dist, tr->rollout));
    st = sr1__policy_fingerprint(&all, tr->rollout, tr->train);
    if (st == SR1_OK)
        st = add_parts(all, tr);
    st = sr1__fingerprint_same(tr->dist, "what the processes read", st, all);
    json_decref(all);
    return st;
}

sr1_status sr1__ranks_opened(sr1_trainer *tr, sr1_status st)
{
    SR1__TRY(sr1__dist_agree(tr->dist, "opening", st));
    SR1__TRY(sr1__dist_same(tr->dist, "the number of workers (key workers)",
                            (uint64_t)tr->n_workers << 1));
    return compare_parts(tr);
}

sr1_status sr1__ranks_compare_weights(const sr1_trainer *tr)
{
    struct sr1__error e;
    json_t *all;
    sr1_status st;

    if (!tr->dist)
        return SR1_OK;
    all = json_object();
    st = all ? add_trained(all, tr) : sr1__fail_nomem("what ranks have in common");
    st = sr1__fingerprint_same(tr->dist, "what has been trained", st, all);
    json_decref(all);
    if (st != SR1_E_STATE)
        return st;
    sr1__error_save(&e, st);
    return sr1__fail(st,
                     "%.700s; processors that differ round otherwise: with fsdp_size -1 "
                     "all ranks get each number from the one that computed it",
                     e.text);
}

int sr1__ranks_text(const sr1_trainer *tr, char *text, size_t size)
{
    char host[SR1__HOST_MAX] = "?";

    if (!tr->dist)
        return 0;
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(text, size, "rank %" PRId32 " of %" PRId32 " by %s on %s, %s, %s%s",
             tr->launch.rank, tr->launch.world_size, tr->launch.launcher, host,
             sr1_model_device(tr->model),
             sr1__config_is(tr->config, "distributed_backend", "nccl") ? "nccl" : "gloo",
             !tr->sharded       ? ""
             : tr->reshards     ? ", optimizer states, gradients and weights sharded"
             : tr->sums_by_rank ? ", optimizer states sharded"
                                : ", optimizer states and gradients sharded");
    return 1;
}

int32_t sr1_trainer_rank(const sr1_trainer *tr)
{
    return tr ? sr1__dist_rank(tr->dist) : 0;
}

int32_t sr1_trainer_world_size(const sr1_trainer *tr)
{
    return tr ? sr1__dist_size(tr->dist) : 1;
}
