/* train/stages.c - what a step of a run does, one row of a table for each stage:
 * questions to explore, or demonstrations to imitate. */
#include "train/internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

static sr1_status open_questions(sr1_trainer *tr, int64_t *rows)
{
    sr1_status st = sr1__dataset_configured(&tr->train, tr->config, SR1_PART_TRAIN);

    if (st == SR1_E_NOT_FOUND) /* steps with the caller's own queries only */
        return SR1_OK;
    SR1__TRY(st);
    SR1__TRY(sr1__questions_fit(tr, tr->train, "questions to train on"));
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
    *rows = sr1__demos_count(tr->demos);
    return SR1_OK;
}

static sr1_status step_sft(sr1_trainer *tr, const int64_t *rows, size_t n,
                           sr1_step_report *report, struct sr1__trajectory_store *log)
{
    sr1_trajectory **made = sr1__calloc(n + 1, sizeof(sr1_trajectory *));
    struct sr1__source from = {.array = (const sr1_trajectory *const *)made, .n = n};
    double began = sr1__now();
    sr1_status st = made ? SR1_OK : sr1__fail_nomem("demonstrations");

    (void)log;
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1__sft_example(tr, rows[i], &made[i]);
    if (st == SR1_OK)
        st = sr1__trainer_learn(tr, &from, 1, report);
    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        report->policy_tokens += (int64_t)sr1_trajectory_policy_count(made[i]);
        report->tokens += (int64_t)sr1_trajectory_token_count(made[i]);
    }
    for (size_t i = 0; made && i < n; i++)
        sr1_trajectory_free(made[i]);
    sr1__free(made);
    report->rollout_diff_max = report->rollout_diff_mean = 0.0; /* nothing was sampled */
    report->probs_diff_max = report->probs_diff_mean = 0.0;
    report->trajectories = (int64_t)n;
    report->avg_tokens = n ? (double)report->policy_tokens / (double)n : 0.0;
    report->seconds = sr1__now() - began;
    if (st == SR1_OK)
        report->step = ++tr->step;
    return st;
}

static const struct sr1__stage stages[] = {
    {"rl", NULL, open_questions, sr1__train_rows},
    {"sft", "nll", open_demos, step_sft},
};

const struct sr1__stage *sr1__stage_find(const char *name)
{
    for (size_t i = 1; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(stages[i].name, name) == 0)
            return &stages[i];
    return &stages[0];
}
