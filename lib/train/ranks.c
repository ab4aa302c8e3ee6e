/* train/ranks.c - see ranks.h. */
#include "train/ranks.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <searchr1/ext/run_info.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what all ranks have to have in common ---- */

/* Append " learning_rate is 0.001 on rank 0 and 0.0001 on rank 1;" for each key that
 * differs. */
static void list_differences(json_t *first, json_t *other, int32_t rank,
                             struct sr1__buf *text)
{
    const char *key;
    json_t *value;

    json_object_foreach(first, key, value)
    {
        const json_t *theirs = json_object_get(other, key);
        struct sr1__buf a, b;

        if (json_equal(value, theirs) || text->len > 600)
            continue;
        sr1__buf_init(&a, 0);
        sr1__buf_init(&b, 0);
        (void)sr1__json_dump(value, 0, &a);
        (void)sr1__json_dump(theirs, 0, &b);
        sr1__buf_fmt(text, "%s %s is %.80s on rank 0 and %.80s on rank %" PRId32,
                     text->len ? ";" : "", key, sr1__buf_cstr(&a), sr1__buf_cstr(&b),
                     rank);
        sr1__buf_free(&a);
        sr1__buf_free(&b);
    }
}

static json_t *parse_gathered(const struct sr1__gathered *g, int32_t rank)
{
    size_t n;
    const char *bytes = sr1__gathered_of(g, rank, &n);
    json_t *object = NULL;

    (void)sr1__json_parse(&object, bytes, n, "configuration");
    return object;
}

/* Which keys differ, of the configurations of all ranks. */
static sr1_status compare_gathered(const struct sr1__gathered *g, int32_t size)
{
    json_t *first = parse_gathered(g, 0);
    struct sr1__buf text;
    sr1_status st = SR1_OK;

    sr1__buf_init(&text, 0);
    for (int32_t rank = 1; rank < size; rank++) {
        json_t *other = parse_gathered(g, rank);

        list_differences(first, other, rank, &text);
        json_decref(other);
    }
    if (text.len)
        st = sr1__fail(SR1_E_STATE, "the configuration differs:%.900s",
                       sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    json_decref(first);
    return st;
}

static sr1_status compare_config(const sr1_trainer *tr)
{
    const char *version = sr1_version();
    struct sr1__gathered g = {0};
    char *text = NULL;
    sr1_status st = sr1_config_to_json(tr->config, &text);

    st = sr1__dist_gather(tr->dist, "configuration", st, text, text ? strlen(text) : 0,
                          &g);
    if (st == SR1_OK)
        st = sr1__dist_same(tr->dist, "the library's version",
                            sr1__hash64(version, strlen(version), 0));
    if (st == SR1_OK)
        st = compare_gathered(&g, sr1__dist_size(tr->dist));
    sr1__gathered_free(&g);
    sr1_free(text);
    return st;
}

/* Processes of one machine divide its processors, unless the key says otherwise. */
static sr1_status divide_threads(const struct sr1__launch *l, sr1_config *c)
{
    long all = sysconf(_SC_NPROCESSORS_ONLN), each = all / l->local_world_size;
    char text[24];

    if (sr1__config_int(c, "threads") != 0)
        return SR1_OK;
    snprintf(text, sizeof(text), "%ld", each > 0 ? each : 1);
    return sr1_config_set(c, "threads", text);
}

/* GPUs that CUDA_VISIBLE_DEVICES names; 0: it is not set. A launcher that binds each
 * process to its own GPU names one. */
static int32_t count_visible_gpus(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int32_t n = 1;

    if (!list || !*list)
        return 0;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Each process of a machine has a GPU of its own, unless the key names one. */
static sr1_status choose_gpu(const struct sr1__launch *l, sr1_config *c)
{
    sr1__device device = SR1__CUDA;
    char text[24];

    if (sr1__config_is(c, "device", "auto"))
        SR1__TRY(sr1__device_resolve("auto", &device));
    else if (!sr1__config_is(c, "device", "cuda"))
        return SR1_OK;
    if (device < SR1__CUDA || device >= SR1__NAMED)
        return SR1_OK;
    snprintf(text, sizeof(text), "cuda:%" PRId32,
             count_visible_gpus() == 1 ? 0 : l->local_rank);
    return sr1_config_set(c, "device", text);
}

sr1_status sr1__ranks_config(const sr1_trainer *tr, sr1_config **out)
{
    sr1_config *c = NULL;
    sr1_status st = sr1_config_copy(&c, tr->config);

    if (st == SR1_OK && tr->launch.local_world_size > 1)
        st = divide_threads(&tr->launch, c);
    if (st == SR1_OK && tr->dist)
        st = choose_gpu(&tr->launch, c);
    if (st == SR1_OK)
        *out = c;
    else
        sr1_config_free(c);
    return st;
}

/* What is not there for several processes yet. */
static sr1_status refuse_unshared(const sr1_config *c)
{
    if (sr1__config_bool(c, "use_openai"))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "several processes and generation by a server (use_openai) do "
                         "not go together yet; start one process, or generate here");
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
    const sr1_config *c = tr->config;
    struct sr1__dist_options o = {
        .backend = "gloo",
        .limit = sr1__config_real(c, "distributed_timeout"),
        .debug = sr1__config_bool(c, "distributed_debug"),
    };

    tr->launch =
        (struct sr1__launch){.world_size = 1, .local_world_size = 1, .launcher = ""};
    if (sr1__config_is(c, "distributed_backend", "none"))
        return SR1_OK;
    SR1__TRY(sr1__launch_read(&tr->launch, NULL, NULL));
    if (tr->launch.world_size == 1)
        return SR1_OK;
    if (sr1__config_is(c, "distributed_backend", "nccl"))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "distributed_backend nccl is not there yet; gloo is, also "
                         "between GPUs");
    SR1__TRY(refuse_unshared(c));
    SR1__TRY(choose_sharding(tr));
    SR1__TRY(sr1__dist_open(&tr->dist, &tr->launch, &o));
    SR1__TRY(compare_config(tr));
    return open_mesh(tr);
}

sr1_status sr1__ranks_opened(sr1_trainer *tr, sr1_status st)
{
    SR1__TRY(sr1__dist_agree(tr->dist, "opening", st));
    return sr1__dist_same(tr->dist, "the number of workers (key workers)",
                          (uint64_t)tr->n_workers << 1);
}

int sr1__ranks_text(const sr1_trainer *tr, char *text, size_t size)
{
    char host[SR1__HOST_MAX] = "?";

    if (!tr->dist)
        return 0;
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(text, size, "rank %" PRId32 " of %" PRId32 " by %s on %s, %s, gloo%s",
             tr->launch.rank, tr->launch.world_size, tr->launch.launcher, host,
             sr1_model_device(tr->model),
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
