/* train/state.c - the content of a checkpoint: the policy as a Hugging Face folder, the
 * optimizer's tensors, and the counters that determine the rest of the run. Random
 * numbers need no state: each stream is a function of seed, step, question and sample. */
#include "train/rollout_queue.h"
#include "train/save_model.h"
#include "train/sampler.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "config/run_config.h"
#include "tensor/model/adapter.h"
#include "train/checkpoint.h"
#include "train/learner_states.h"

#include <searchr1/ext/model_details.h>

#include <inttypes.h>
#include <string.h>

/* Members of the state. */
#define PENDING_ROW "owed_metrics"
#define REFERENCE "reference"
#define MOVED_REFERENCE "reference" /* the folder of its weights */
#define ROLLOUTS "rollouts"

/* folder/name, made; caller frees with sr1__free. */
static sr1_status make_below(const char *folder, const char *name, char **out)
{
    char *path = sr1__path_join(folder, name);
    sr1_status st = path ? sr1__dir_make(path) : sr1__fail_nomem("path");

    if (st != SR1_OK)
        sr1__free(path);
    else
        *out = path;
    return st;
}

/* folder/name, filled by write. */
static sr1_status write_below(const char *folder, const char *name,
                              sr1_status (*write)(sr1_trainer *tr, const char *path),
                              sr1_trainer *tr)
{
    char *path = NULL;
    sr1_status st = make_below(folder, name, &path);

    if (st == SR1_OK)
        st = write(tr, path);
    sr1__free(path);
    return st;
}

static sr1_status write_policy_optimizer(sr1_trainer *tr, const char *path)
{
    return sr1__learner_save_states(&tr->policy, path);
}

static sr1_status write_policy(sr1_trainer *tr, const char *path)
{
    return sr1__save_model_together(tr, tr->model, path);
}

static sr1_status write_critic(sr1_trainer *tr, const char *path)
{
    return sr1__save_model_together(tr, tr->critics[0], path);
}

static sr1_status write_reference(sr1_trainer *tr, const char *path)
{
    return sr1__save_model_together(tr, sr1__reference_weights(tr), path);
}

static sr1_status write_critic_optimizer(sr1_trainer *tr, const char *path)
{
    return sr1__learner_save_states(&tr->critic, path);
}

static sr1_status write_sampler(sr1_trainer *tr, const char *path)
{
    return sr1__sampler_save(tr, path);
}

/* What every rank has: one writes it. */
static sr1_status fill_common(sr1_trainer *tr, const char *folder)
{
    if (tr->sampler.rule)
        SR1__TRY(write_below(folder, "questions", write_sampler, tr));
    if (sr1__rollout_queue_head(tr))
        SR1__TRY(write_below(folder, "rollouts", sr1__rollout_queue_save, tr));
    if (sr1__weight_sync_keeps(tr))
        SR1__TRY(write_below(folder, "served", sr1__weight_sync_save, tr));
    return SR1_OK;
}

/* Each rank its own files. */
static sr1_status fill_checkpoint(void *self, const char *folder)
{
    sr1_trainer *tr = self;

    SR1__TRY(write_below(folder, "optimizer", write_policy_optimizer, tr));
    if (tr->critics)
        SR1__TRY(write_below(folder, "critic_optimizer", write_critic_optimizer, tr));
    SR1__TRY(write_below(folder, "model", write_policy, tr));
    if (tr->critics)
        SR1__TRY(write_below(folder, "critic", write_critic, tr));
    if (tr->reference_moved)
        SR1__TRY(write_below(folder, MOVED_REFERENCE, write_reference, tr));
    return sr1__dist_rank(tr->dist) == 0 ? fill_common(tr, folder) : SR1_OK;
}

/* By which weights that are read from a folder are known again; null for others. */
static json_t *pack_hash(const sr1_model *m)
{
    char hash[17];

    if (m->hash == 0)
        return json_null();
    snprintf(hash, sizeof(hash), "%016" PRIx64, m->hash);
    return json_string(hash);
}

/* Of the weights under an adapter; null where all are saved. */
static json_t *pack_base(const sr1_model *m)
{
    return m->adapter ? pack_hash(m) : json_null();
}

/* The weights that the frozen reference is read from. Of an adapter that is its base. */
static json_t *pack_reference(const sr1_trainer *tr)
{
    return tr->set.frozen_reference && !tr->model->adapter ? pack_hash(tr->model)
                                                           : json_null();
}

/* What a learner needs besides tensors. NULL without memory, or for no learner. */
static json_t *pack_learner(const struct sr1__learner *l)
{
    return l->optimizer
               ? json_pack("{s:I, s:o, s:I, s:o}", "optimizer_steps",
                           (json_int_t)sr1__optimizer_steps(l->optimizer), "loss_scale",
                           json_real(l->scale.value), "loss_scale_good_steps",
                           (json_int_t)l->scale.good_steps, "base",
                           pack_base(l->replicas[0]))
               : json_null();
}

/* The place in the data is a place among these rows. */
static json_t *mark_json(const struct sr1__row_mark *mark)
{
    char hash[17];

    snprintf(hash, sizeof(hash), "%016" PRIx64, mark->hash);
    return json_pack("{s:I, s:s}", "rows", (json_int_t)mark->rows, "hash", hash);
}

/* Without the row of a step whose record is to be completed. */
static int64_t metrics_size(const sr1_trainer *tr)
{
    if (tr->pending_row)
        return tr->pending_row_at;
    return tr->metrics ? (int64_t)sr1__jsonl_size(tr->metrics) : 0;
}

/* The names of a set of alarms. */
static json_t *pack_alarms(uint32_t alarms)
{
    json_t *list = json_array();
    const char *name;

    for (size_t i = 0; list && (name = sr1_alarm_name(i)); i++)
        if ((alarms >> i & 1) && json_array_append_new(list, json_string(name)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *pack_counters(const sr1_trainer *tr)
{
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:O, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:I, "
        "s:I, "
        "s:o, s:o, s:I, s:I, s:I}",
        "planned", (json_int_t)tr->planned, "stopped", sr1__stopped_pack(tr), "best",
        sr1__best_pack(tr), SR1__GIVEN, sr1__given_json(tr), SR1__RULE_FILES,
        tr->rule_files, "data", mark_json(&tr->mark), "epoch",
        (json_int_t)tr->place.epoch, "position", (json_int_t)tr->place.position,
        "skipped", (json_int_t)tr->skipped, "policy", pack_learner(&tr->policy), "critic",
        pack_learner(&tr->critic), "kl_coef", json_real(tr->kl.coef), "kl_updates",
        (json_int_t)tr->kl.updates, "entropy_coef", json_real(tr->entropy.coef),
        "server_version", (json_int_t)sr1__rollout_server_version(tr->rollout),
        "metrics_size", (json_int_t)metrics_size(tr), "alarms", pack_alarms(tr->alarms),
        "unlogged_alarms", pack_alarms(tr->unlogged), "unscored_steps",
        (json_int_t)tr->unscored_steps, "failed_steps", (json_int_t)tr->failed_steps,
        "rate_steps", (json_int_t)sr1__schedule_steps(&tr->policy.schedule));
}

/* 0, or -1 without memory. */
static int pack_log_sizes(const sr1_trainer *tr, json_t *state)
{
    int bad = 0;

    for (size_t i = 0; i < SR1__TRAJECTORY_LOGS; i++)
        if (tr->logs[i])
            bad |= json_object_set_new(
                state, sr1__trajectory_logs[i].size_key,
                json_integer((json_int_t)sr1__zlines_size(tr->logs[i])));
    return bad;
}

/* Before a checkpoint beside them records how long they are. */
static sr1_status sync_journals(sr1_trainer *tr)
{
    SR1__TRY(sr1__folder_check_there(tr));
    if (tr->metrics)
        SR1__TRY(sr1__jsonl_sync(tr->metrics));
    for (size_t i = 0; i < SR1__TRAJECTORY_LOGS; i++)
        if (tr->logs[i])
            SR1__TRY(sr1__zlines_sync(tr->logs[i]));
    return SR1_OK;
}

sr1_status sr1__state_save(sr1_trainer *tr)
{
    json_t *state = pack_counters(tr);
    int bad =
        !state || pack_log_sizes(tr, state) != 0 ||
        (tr->record && json_object_set(state, "config", tr->record) != 0) ||
        (tr->pending_row && json_object_set(state, PENDING_ROW, tr->pending_row) != 0) ||
        json_object_set_new(state, REFERENCE, pack_reference(tr)) != 0 ||
        (tr->queue &&
         json_object_set_new(state, ROLLOUTS, sr1__rollout_queue_pack(tr)) != 0);
    struct sr1__checkpoint c = {.dist = tr->sharded ? tr->dist : NULL,
                                .run = tr->run_folder,
                                .step = tr->step,
                                .state = state,
                                .keep = tr->set.keep_checkpoints,
                                .best = tr->best.step,
                                .fill = fill_checkpoint,
                                .self = tr};
    sr1_status st = bad ? sr1__fail_nomem("checkpoint state") : sync_journals(tr);

    st = sr1__dist_agree(c.dist, "checkpoint state", st);
    if (st == SR1_OK)
        st = sr1__checkpoint_write(&c);
    json_decref(state);
    if (st == SR1_OK)
        tr->saved = tr->step;
    return st;
}

static sr1_status restore_learner_counters(struct sr1__learner *l, const json_t *state,
                                           const char *name)
{
    const json_t *o = json_object_get(state, name);
    int64_t steps;

    SR1__TRY(sr1__json_get_int(o, "optimizer_steps", &steps));
    SR1__TRY(sr1__json_get_num(o, "loss_scale", &l->scale.value));
    SR1__TRY(sr1__json_get_int(o, "loss_scale_good_steps", &l->scale.good_steps));
    sr1__optimizer_set_steps(l->optimizer, steps);
    return SR1_OK;
}

/* A run that one of its keys ended, and would end by what is asked of it now, is over. */
static sr1_status restore_plan(sr1_trainer *tr, const json_t *state)
{
    int64_t planned;

    SR1__TRY(sr1__json_get_int(state, "planned", &planned));
    tr->rate_steps_then = /* 0 in older checkpoints */
        json_integer_value(json_object_get(state, "rate_steps"));
    sr1__best_restore(tr, state);
    sr1__stopped_restore(tr, state);
    if (tr->stopped.by != SR1__STOP_NONE && planned < tr->planned)
        tr->planned = planned;
    return SR1_OK;
}

/* Are the rows those of the checkpoint? Others are refused unless they are wanted: then
 * their order begins anew. */
static sr1_status check_rows(sr1_trainer *tr, const json_t *state, int wanted)
{
    const json_t *then = json_object_get(state, "data"); /* not in older checkpoints */
    json_t *now = NULL;
    sr1_status st = SR1_OK;

    if (!tr->cursor)
        return SR1_OK;
    SR1__TRY(tr->stage->hash(tr, &tr->mark.hash));
    now = mark_json(&tr->mark);
    if (!now)
        return sr1__fail_nomem("checkpoint state");
    tr->mark.other = then && !json_equal(then, now);
    json_decref(now);
    if (tr->mark.other && !wanted)
        st = sr1__fail(SR1_E_CONFIG,
                       "key '%s': its %" PRId64 " rows are not the %" PRId64
                       " that the run was trained on; put those back, or give %s=FILE "
                       "with --resume to begin the order of other rows",
                       tr->stage->data, tr->mark.rows,
                       (int64_t)json_integer_value(json_object_get(then, "rows")),
                       tr->stage->data);
    else if (tr->mark.other)
        sr1__log(
            SR1_LOG_WARN,
            "%s has other rows than the checkpoint was made with: their order begins "
            "anew",
            tr->stage->data);
    return st;
}

/* The metrics of a step whose validation, or whatever followed it, failed. */
static sr1_status restore_pending_row(sr1_trainer *tr, const json_t *state)
{
    const json_t *pending = json_object_get(state, PENDING_ROW);

    if (!json_is_object(pending))
        return SR1_OK;
    tr->pending_row = json_deep_copy(pending);
    return tr->pending_row ? SR1_OK : sr1__fail_nomem("metrics");
}

static int is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));

        if (one && strcmp(one, name) == 0)
            return 1;
    }
    return 0;
}

static uint32_t unpack_alarms(const json_t *list)
{
    uint32_t alarms = 0;
    const char *name;

    for (size_t i = 0; (name = sr1_alarm_name(i)); i++)
        alarms |= (uint32_t)is_listed(list, name) << i;
    return alarms;
}

/* What the warnings of later steps, and the end of a run, count of earlier ones; nothing
 * in older checkpoints. */
static void restore_alarms(sr1_trainer *tr, const json_t *state)
{
    tr->alarms = unpack_alarms(json_object_get(state, "alarms"));
    tr->unlogged = unpack_alarms(json_object_get(state, "unlogged_alarms"));
    tr->unscored_steps = json_integer_value(json_object_get(state, "unscored_steps"));
    tr->failed_steps = json_integer_value(json_object_get(state, "failed_steps"));
    if (sr1__outage_ends(tr)) /* whoever goes on has mended what ended it */
        tr->failed_steps = 0;
}

static sr1_status restore_counters(sr1_trainer *tr, const json_t *state)
{
    int64_t epoch, position;

    restore_alarms(tr, state);
    SR1__TRY(restore_pending_row(tr, state));
    SR1__TRY(restore_plan(tr, state));
    SR1__TRY(sr1__json_get_int(state, "epoch", &epoch));
    SR1__TRY(sr1__json_get_int(state, "position", &position));
    SR1__TRY(sr1__json_get_int(state, "skipped", &tr->skipped));
    SR1__TRY(sr1__json_get_num(state, "kl_coef", &tr->kl.coef));
    SR1__TRY(sr1__json_get_int(state, "kl_updates", &tr->kl.updates));
    if (json_object_get(state, "entropy_coef")) /* not in older checkpoints */
        SR1__TRY(sr1__json_get_num(state, "entropy_coef", &tr->entropy.coef));
    SR1__TRY(restore_learner_counters(&tr->policy, state, "policy"));
    if (tr->critics)
        SR1__TRY(restore_learner_counters(&tr->critic, state, "critic"));
    if (!tr->cursor)
        return SR1_OK;
    return sr1__cursor_seek(tr->cursor, epoch, tr->mark.other ? 0 : position);
}

/* The adapter alone: its base is loaded from model_name_or_path. */
static sr1_status restore_adapter(sr1_model *m, const char *folder)
{
    struct sr1__lora_config then;
    int same;

    SR1__TRY(sr1__lora_config_load(&then, folder));
    same = sr1__lora_config_same(&then, &m->adapter->config);
    sr1__lora_config_free(&then);
    if (!same)
        return sr1__fail(SR1_E_CONFIG,
                         "%s holds another adapter than lora_rank, lora_alpha and "
                         "lora_targets (critic_lora_rank, ...) describe",
                         folder);
    return sr1__adapter_read(m, folder);
}

static sr1_status restore_model(struct sr1__learner *l, const char *folder)
{
    sr1_model *m = l->replicas[0];
    sr1_status st =
        m->adapter ? restore_adapter(m, folder) : sr1__read_model_back(m, folder);

    for (int32_t i = 0; i < l->n; i++)
        sr1__model_touch(l->replicas[i]);
    return st;
}

static sr1_status restore_learner(struct sr1__learner *l, const char *folder,
                                  const char *model, const char *optimizer)
{
    char *weights = sr1__path_join(folder, model);
    char *state = sr1__path_join(folder, optimizer);
    sr1_status st = weights && state ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = restore_model(l, weights);
    if (st == SR1_OK)
        st = sr1__learner_load_states(l, state);
    sr1__free(weights);
    sr1__free(state);
    return st;
}

static sr1_status restore_sampler(sr1_trainer *tr, const char *folder)
{
    char *path = sr1__path_join(folder, "questions");
    sr1_status st = path ? sr1__sampler_restore(tr, path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

/* Is the base the one that the adapter was trained on? */
static sr1_status check_base(const sr1_model *m, const json_t *learner, const char *key)
{
    const json_t *then = json_object_get(learner, "base"); /* not in older checkpoints */
    json_t *now;
    int same;

    if (!m->adapter)
        return SR1_OK;
    if (!then)
        sr1__log(SR1_LOG_WARN,
                 "the checkpoint does not say which base its adapter was trained on; %s "
                 "is taken for it",
                 m->folder ? m->folder : key);
    now = pack_base(m);
    SR1__CHECK_ALLOC(now, "checkpoint state");
    same = !then || json_equal(then, now);
    json_decref(now);
    return same
               ? SR1_OK
               : sr1__fail(SR1_E_CONFIG,
                           "key '%s': %s is not the base that the adapter was trained "
                           "on: its weights differ; put those back, or name their folder "
                           "with --resume %s=FOLDER",
                           key, m->folder ? m->folder : "it", key);
}

static sr1_status check_bases(const sr1_trainer *tr, const json_t *state)
{
    const char *critic = *sr1__config_str(tr->config, "critic_model")
                             ? "critic_model"
                             : "model_name_or_path";

    SR1__TRY(
        check_base(tr->model, json_object_get(state, "policy"), "model_name_or_path"));
    return tr->critics
               ? check_base(tr->critics[0], json_object_get(state, "critic"), critic)
               : SR1_OK;
}

/* A frozen reference is read from the model's folder again: are its weights the same? */
static sr1_status check_reference(const sr1_trainer *tr, const json_t *state)
{
    const json_t *then = json_object_get(state, REFERENCE); /* not in older checkpoints */
    json_t *now = pack_reference(tr);
    int same;

    SR1__CHECK_ALLOC(now, "checkpoint state");
    same = !json_is_string(then) || !json_is_string(now) || json_equal(then, now);
    json_decref(now);
    return same ? SR1_OK
                : sr1__fail(SR1_E_CONFIG,
                            "key 'model_name_or_path': %s is not the model that training "
                            "began with, which the frozen reference is: its weights "
                            "differ; put those back",
                            tr->model->folder ? tr->model->folder : "it");
}

/* Where it has moved; else it is what the model's folder holds. */
static sr1_status restore_reference(sr1_trainer *tr, const char *folder)
{
    char *path;
    sr1_status st;

    if (tr->set.reference_sync_steps == 0 || !sr1__dir_has(folder, MOVED_REFERENCE))
        return SR1_OK;
    path = sr1__path_join(folder, MOVED_REFERENCE);
    st = path ? sr1__reference_restore(tr, path) : sr1__fail_nomem("path");
    sr1__free(path);
    return st;
}

static sr1_status restore_all(sr1_trainer *tr, const char *folder, const json_t *state)
{
    SR1__TRY(check_bases(tr, state));
    SR1__TRY(check_reference(tr, state));
    if (tr->sampler.rule && !tr->mark.other)
        SR1__TRY(restore_sampler(tr, folder));
    SR1__TRY(restore_learner(&tr->policy, folder, "model", "optimizer"));
    if (tr->critics)
        SR1__TRY(restore_learner(&tr->critic, folder, "critic", "critic_optimizer"));
    SR1__TRY(restore_reference(tr, folder));
    return restore_counters(tr, state);
}

/* A run that was stopped before its first checkpoint goes on from the beginning; one
 * whose checkpoints were removed does not: it would begin with the first model again. */
static sr1_status check_beginning(const sr1_trainer *tr)
{
    char *model = sr1__path_join(tr->run_folder, "model");
    int past = !model || sr1__path_exists(model) || sr1__record_has_checkpoint(tr);

    sr1__free(model);
    if (!past)
        return SR1_OK;
    return sr1__fail(SR1_E_NOT_FOUND,
                     "%s: the run has no checkpoint to go on from any more; put "
                     "%s/checkpoints back, or train into another folder",
                     tr->run_folder, tr->run_folder);
}

sr1_status sr1__state_restore(sr1_trainer *tr, int64_t changed, json_t **config)
{
    char *folder = NULL;
    json_t *state = NULL;
    int64_t step = 0, torn = 0;
    sr1_status st = sr1__checkpoint_newest(tr->run_folder, &folder, &step, &state, &torn);

    tr->resumed = 1;
    /* Damaged ones are no reason to throw away what the journals hold. */
    if (st == SR1_E_NOT_FOUND && torn == 0) {
        SR1__TRY(check_beginning(tr));
        return sr1__weight_sync_restore(tr, NULL, NULL);
    }
    SR1__TRY(st);
    tr->restored = state;
    st = check_rows(tr, state, changed >= step);
    if (st == SR1_OK)
        st = sr1__context(restore_all(tr, folder, state), "%s", folder);
    if (st == SR1_OK) {
        tr->step = tr->saved = step;
        st = sr1__rollout_queue_restore(tr, folder, json_object_get(state, ROLLOUTS));
    }
    if (st == SR1_OK)
        st = sr1__weight_sync_restore(tr, folder, state);
    if (st == SR1_OK) /* not in older checkpoints */
        *config = json_incref(json_object_get(state, "config"));
    sr1__free(folder);
    return st;
}

static void describe_stop(const sr1_trainer *tr, sr1_run_plan *plan)
{
    plan->stopped_by = sr1__stop_key((enum sr1__stop)tr->stopped.by);
    plan->stopped_why = tr->stopped_why;
    if (tr->stopped.by == SR1__STOP_EXACT_MATCH)
        plan->reached_exact_match = tr->stopped.value;
}

sr1_status sr1_trainer_plan(const sr1_trainer *tr, sr1_run_plan *out)
{
    sr1_run_plan plan = {0};
    int64_t peak;

    SR1__REQUIRE(tr, "plan: trainer");
    SR1__TRY(sr1__struct_check(out, "run plan"));
    plan.device = sr1_model_device(tr->model);
    plan.dtype = sr1_model_dtype(tr->model);
    plan.parameters = sr1_model_info(tr->model, SR1_MODEL_PARAMETERS);
    plan.trained = sr1_model_info(tr->model, SR1_MODEL_TRAINED);
    plan.rows = tr->demos   ? sr1__demos_count(tr->demos)
                : tr->train ? sr1_dataset_count(tr->train)
                            : 0;
    plan.validation_rows = tr->validation ? sr1_dataset_count(tr->validation) : 0;
    plan.steps_done = tr->step;
    plan.steps = tr->planned;
    plan.chosen_micro_batch_tokens = tr->chosen.micro_batch_tokens;
    plan.chosen_max_rows = tr->chosen.max_rows;
    plan.stopped_by = plan.stopped_why = "";
    if (tr->step >= tr->planned)
        describe_stop(tr, &plan);
    plan.best_step = tr->best.step;
    plan.best_value = tr->best.value;
    SR1__TRY(sr1__device_memory(tr->model->device, &plan.memory_bytes, &peak));
    if (plan.memory_bytes == 0) /* the CPU's is the process's */
        plan.memory_bytes = sr1__rss_bytes();
    sr1__folder_room(tr, &plan);
    return sr1__struct_give(out, &plan, sizeof(plan), "run plan");
}
