/* train/stages.c - the stages of a run, one table row each: reinforcement learning on
 * questions, or imitation of demonstrations. */
#include "train/internal.h"

#include <string.h>

static sr1_status open_questions(sr1_trainer *tr, int64_t *rows)
{
    sr1_status st = sr1__dataset_configured(&tr->train, tr->config, SR1_PART_TRAIN);

    if (st == SR1_E_NOT_FOUND) /* steps with the caller's own queries only */
        return SR1_OK;
    SR1__TRY(st);
    SR1__TRY(sr1__dataset_mix(tr->train, tr->config));
    SR1__TRY(sr1__filter_prompts(tr, tr->train, "questions to train on"));
    SR1__TRY(sr1__check_gold_ids(tr, tr->train));
    *rows = sr1_dataset_count(tr->train);
    return SR1_OK;
}

static sr1_status open_demos(sr1_trainer *tr, int64_t *rows)
{
    const char *path = sr1__config_str(tr->config, "sft_file");

    if (!*path)
        return sr1__fail(SR1_E_CONFIG,
                         "stage is sft but sft_file is not set; name a file of "
                         "demonstrations (JSON lines)");
    tr->set.num_epochs = sr1__config_int(tr->config, "sft_epochs");
    SR1__TRY(sr1__demos_open(&tr->demos, path));
    SR1__TRY(sr1__filter_demonstrations(tr));
    *rows = sr1__demos_count(tr->demos);
    return SR1_OK;
}

static sr1_status hash_questions(const sr1_trainer *tr, uint64_t *out)
{
    return sr1__dataset_hash(tr->train, out);
}

static sr1_status hash_demos(const sr1_trainer *tr, uint64_t *out)
{
    return sr1__demos_hash(tr->demos, out);
}

static const struct sr1__stage stages[] = {
    {"rl", NULL, "train_file", open_questions, hash_questions, sr1__train_rows},
    {"sft", "nll", "sft_file", open_demos, hash_demos, sr1__imitate_rows},
};

const struct sr1__stage *sr1__stage_find(const char *name)
{
    for (size_t i = 1; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(stages[i].name, name) == 0)
            return &stages[i];
    return &stages[0];
}
