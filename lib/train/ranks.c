/* train/ranks.c - see ranks.h. */
#include "train/ranks.h"

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

/* The key fsdp_size, as verl understands it but for groups of ranks. */
static sr1_status choose_sharding(sr1_trainer *tr)
{
    int64_t size = sr1__config_int(tr->config, "fsdp_size");

    if (size > 1 && size < tr->launch.world_size)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "fsdp_size %" PRId64 " of a world of %" PRId32
                         ": groups of processes with states of their own are not there "
                         "yet; -1 shards over all, 1 over none",
                         size, tr->launch.world_size);
    tr->sharded = size != 1;
    return SR1_OK;
}

sr1_status sr1__ranks_open(sr1_trainer *tr)
{
    SR1__TRY(sr1__job_read(&tr->launch, tr->config));
    if (tr->launch.world_size == 1)
        return SR1_OK;
    SR1__TRY(refuse_unshared(tr->config));
    SR1__TRY(choose_sharding(tr));
    return sr1__job_meet(&tr->dist, &tr->launch, tr->config);
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
             tr->sharded ? ", optimizer states sharded" : "");
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
