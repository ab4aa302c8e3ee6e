/* train/trainer_free.c - calls that use a trainer, and its end, once none does. */
#include "train/ranks.h"
#include "train/rollout_queue.h"
#include "train/sampler.h"

#include "base/mem.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"

static void release_trainer(sr1_trainer *tr)
{
    if (!sr1__life_drop(&tr->life))
        return;
    sr1__rollout_queue_clear(tr);
    sr1__weight_sync_close(tr);
    sr1__folder_unlock(tr);
    sr1__jsonl_close(tr->metrics);
    for (size_t i = 0; i < SR1__TRAJECTORY_LOGS; i++)
        sr1__zlines_close(tr->logs[i]);
    sr1__events_close(tr->events);
    sr1__mlflow_close(tr->mlflow, SR1_E_CANCELLED);
    sr1__learner_close(&tr->policy);
    sr1__critic_close(tr);
    sr1__reference_close(tr);
    sr1_reward_set_free(tr->rewards);
    sr1__cursor_free(tr->cursor);
    sr1__sampler_close(tr);
    sr1__demos_free(tr->demos);
    sr1_dataset_free(tr->train);
    sr1_dataset_free(tr->validation);
    sr1_rollout_free(tr->rollout);
    sr1__metrics_close(&tr->step_metrics);
    json_decref(tr->record);
    json_decref(tr->changes);
    json_decref(tr->starts);
    json_decref(tr->rule_files);
    json_decref(tr->restored);
    json_decref(tr->pending_row);
    sr1__ranks_close(tr);
    sr1_config_free(tr->config);
    sr1__free(tr->server_loaded);
    sr1__free(tr->adapter_name);
    sr1__free(tr->run_folder);
    sr1__free(tr);
}

int32_t sr1__trainer_enter(sr1_trainer *tr)
{
    sr1__life_hold(&tr->life);
    return sr1__torch_threads_swap(sr1__rollout_threads(tr->rollout));
}

void sr1__trainer_leave(sr1_trainer *tr, int32_t threads)
{
    (void)sr1__torch_threads_swap(threads);
    release_trainer(tr);
}

void sr1_trainer_free(sr1_trainer *tr)
{
    if (!tr)
        return;
    sr1_trainer_stop(tr); /* where one of its callbacks frees it */
    release_trainer(tr);
}

void sr1_trainer_stop(sr1_trainer *tr)
{
    if (tr)
        atomic_store(&tr->stop, 1);
}
