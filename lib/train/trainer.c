/* train/trainer.c - build a trainer. One step of it is in step.c, a run in run.c. */
#include "train/ranks.h"
#include "train/sampler.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"

/* ---- building ---- */

static sr1_status open_policy(sr1_trainer *tr)
{
    struct sr1__adamw how = sr1__adamw_configured(tr->config);

    tr->policy.name = "policy";
    tr->policy.mesh = tr->mesh;
    tr->policy.sharded = tr->sharded;
    tr->policy.sums_by_rank = tr->sums_by_rank;
    tr->policy.reshards = tr->reshards;
    tr->policy.prefetches = tr->prefetches;
    tr->policy.n = tr->n_workers;
    tr->policy.schedule = tr->set.schedule;
    tr->policy.max_grad_norm = tr->set.max_grad_norm;
    return sr1__learner_open(&tr->policy, &how,
                             sr1__config_real(tr->config, "initial_loss_scale"));
}

static sr1_status check_routers(const sr1_trainer *tr)
{
    const char *key = tr->set.router_aux_loss_coef != 0.0 ? "router_aux_loss_coef"
                      : tr->set.router_replay             ? "router_replay"
                                                          : NULL;

    if (!key || sr1__hf_config_has(&tr->model->config, SR1__LAYER_EXPERTS))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "%s is set, and the model has no routed experts; leave it out", key);
}

/* Rates fall over the steps of the run, or over as many of the caller's as max_steps. */
static sr1_status plan_rates(sr1_trainer *tr)
{
    int64_t steps = tr->planned ? tr->planned : tr->set.max_steps;

    if (steps == 0 && sr1__schedule_needs_total(&tr->set.schedule))
        return sr1__fail(SR1_E_CONFIG,
                         "lr_schedule %s and warmup_ratio go by the number of steps, "
                         "which the caller's own questions do not tell; set max_steps, "
                         "or lr_schedule: constant and warmup_steps",
                         tr->set.schedule.shape);
    tr->policy.schedule.first = tr->critics ? tr->set.critic_warmup : 0;
    sr1__schedule_plan(&tr->policy.schedule, steps);
    sr1__schedule_plan(&tr->critic.schedule, steps);
    return SR1_OK;
}

static sr1_status open_data(sr1_trainer *tr)
{
    sr1_status st;
    int64_t rows = 0;

    SR1__TRY(tr->stage->open(tr, &rows));
    tr->mark.rows = rows;
    if (rows > 0)
        SR1__TRY(sr1__cursor_new(&tr->cursor, rows, tr->set.seed, tr->set.shuffle));
    if (rows > 0 && tr->train)
        SR1__TRY(sr1__sampler_open(tr, rows));
    st = sr1__dataset_configured(&tr->validation, tr->config, SR1_PART_VALIDATION);
    if (st != SR1_OK && st != SR1_E_NOT_FOUND)
        return st;
    if (tr->validation)
        SR1__TRY(sr1__filter_prompts(tr, tr->validation, "questions for validation"));
    if (rows > 0 && rows < tr->set.batch_size)
        sr1__log(SR1_LOG_WARN,
                 "batch_size is %lld, and there %s %lld row%s: a step takes all of them",
                 (long long)tr->set.batch_size, rows == 1 ? "is" : "are", (long long)rows,
                 rows == 1 ? "" : "s");
    if (rows > 0) {
        int64_t per_epoch = (rows + tr->set.batch_size - 1) / tr->set.batch_size;

        tr->planned =
            tr->set.max_steps ? tr->set.max_steps : per_epoch * tr->set.num_epochs;
    }
    return plan_rates(tr);
}

static sr1_status open_trained_rollout(sr1_trainer *tr, sr1_search *search)
{
    sr1_config *c = NULL;
    sr1_status st = sr1__ranks_config(tr, &c);

    if (st == SR1_OK)
        st = sr1__rollout_new_trained(&tr->rollout, c, search);
    sr1_config_free(c);
    return st;
}

static sr1_status build_parts(sr1_trainer *tr, sr1_search *search)
{
    SR1__TRY(sr1__settings_choose(tr->config, &tr->chosen));
    SR1__TRY(sr1__settings_read(&tr->set, tr->config));
    tr->kl = tr->set.kl;
    sr1__entropy_read(&tr->entropy, tr->config);
    tr->stage = sr1__stage_find(sr1__config_str(tr->config, "stage"));
    if (tr->stage->loss)
        tr->set.loss = sr1__loss_find(tr->stage->loss);
    tr->run_folder = sr1__folder_name(tr->config);
    SR1__CHECK_ALLOC(tr->run_folder, "run folder");
    SR1__TRY(open_trained_rollout(tr, search));
    tr->engine_given = search != NULL;
    tr->configured_env = tr->rollout->env;
    tr->model = sr1_rollout_model(tr->rollout);
    sr1__settings_isolate(&tr->set, tr->config, tr->model->device);
    SR1__TRY(check_routers(tr));
    tr->n_workers = sr1__rollout_replicas(tr->rollout, &tr->policy.replicas, &tr->pool);
    SR1__TRY(sr1_reward_set_open(&tr->rewards, tr->config));
    tr->n_configured = sr1_reward_set_count(tr->rewards);
    SR1__TRY(sr1__rule_files_hash(tr, &tr->rule_files));
    SR1__TRY(sr1__reference_open(tr));
    SR1__TRY(open_policy(tr));
    SR1__TRY(sr1__critic_open(tr));
    SR1__TRY(open_data(tr));
    return sr1__weight_sync_open(tr);
}

static sr1_status build_trainer(sr1_trainer *tr, sr1_search *search)
{
    SR1__TRY(sr1__settings_resolve(tr->config));
    SR1__TRY(sr1_config_validate(tr->config));
    SR1__TRY(sr1__ranks_open(tr));
    return sr1__ranks_opened(tr, build_parts(tr, search));
}

sr1_status sr1_trainer_new(sr1_trainer **out, const sr1_config *config,
                           sr1_search *search)
{
    sr1_trainer *tr;
    sr1_status st;

    SR1__REQUIRE(out && config, "trainer: out and config");
    SR1__CALLOC(tr, 1, "trainer");
    tr->saved = -1;
    st = sr1_config_copy(&tr->config, config);
    if (st == SR1_OK)
        st = build_trainer(tr, search);
    SR1__RETURN_NEW(out, tr, st, sr1_trainer_free);
}

sr1_status sr1_trainer_add_reward(sr1_trainer *tr, const sr1_reward_ops *ops, void *self,
                                  double weight)
{
    SR1__REQUIRE(tr, "trainer");
    if (tr->begun)
        return sr1__fail(SR1_E_STATE, "the run has begun; add rewards before it");
    return sr1_reward_set_add(tr->rewards, ops, self, weight);
}

sr1_rollout *sr1_trainer_rollout(sr1_trainer *tr)
{
    return tr ? tr->rollout : NULL;
}

const sr1_config *sr1_trainer_config(const sr1_trainer *tr)
{
    return tr ? tr->config : NULL;
}

int64_t sr1_trainer_steps_done(const sr1_trainer *tr)
{
    return tr ? tr->step : 0;
}

int64_t sr1_trainer_steps_planned(const sr1_trainer *tr)
{
    return tr ? tr->planned : 0;
}

int64_t sr1_trainer_steps_saved(const sr1_trainer *tr)
{
    return tr ? tr->saved : -1;
}

const char *sr1_trainer_run_folder(const sr1_trainer *tr)
{
    return tr ? tr->run_folder : "";
}
