/* train/run.c - a whole run and the folder it leaves:
 *
 *     run.json            when, where and by what it was started; written first, since it
 *                         marks the folder as a run's
 *     config.json         every key as resolved, when the run began
 *     metrics.jsonl       one object a step
 *     trajectories.jsonl.zst  what was said, in frames of zstd
 *     validation-trajectories.jsonl.zst  likewise in validations, if it is asked for
 *     mlflow.json         where MLflow has them, by the key mlflow_tracking_uri
 *     tensorboard         the metrics once more, by the key of this name
 *     checkpoints/step-N  to resume from
 *     best                leads to the best of them, by the key metric_for_best_model
 *     model               the policy at the end
 *     .lock               held while it runs
 *
 * Of several processes (ranks.h) the first writes all this; the others do the same steps,
 * and what depends on a clock or on a signal is decided by all. */
#include "train/save_model.h"
#include "train/ranks.h"
#include "train/rollout_queue.h"
#include "train/sampler.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/trajectory/trajectory.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct run {
    sr1_trainer *tr;
    sr1_run_callbacks cb;
    double saved_at; /* sr1__now() of the last checkpoint, or of the beginning */
    /* Since it was begun or resumed: all, and those that taught nothing. */
    int64_t steps, no_op_steps;
    int64_t skipped; /* updates before that */
    int32_t ends;    /* a rank was told to stop, or the searches fail for too long */
    struct sr1__outage outage;
};

/* ---- records ---- */

static sr1_status log_stored(const sr1_trainer *tr, struct sr1__trajectory_store *store,
                             size_t i)
{
    sr1_trajectory *t = NULL;
    sr1_status st;

    SR1__TRY(sr1__trajectory_store_get(store, i, &t));
    st = sr1__folder_log(tr, SR1__LOG_STEPS, t);
    sr1_trajectory_free(t);
    return st;
}

static sr1_status log_trajectories(sr1_trainer *tr, struct sr1__trajectory_store *log)
{
    size_t n = sr1__trajectory_store_count(log), kept = n;

    if (!sr1__is_first_rank(tr))
        return SR1_OK;
    if (tr->set.log_trajectories >= 0 && n > (size_t)tr->set.log_trajectories)
        kept = (size_t)tr->set.log_trajectories;
    for (size_t i = 0; i < kept; i++)
        SR1__TRY(log_stored(tr, log, i));
    return sr1__zlines_flush(tr->logs[SR1__LOG_STEPS]);
}

static void send_note(const struct run *r, const char *text)
{
    if (r->cb.note)
        r->cb.note(r->cb.user, text);
}

/* The same of what may have to be mended. */
static void send_warning(const struct run *r, const char *text)
{
    char line[600];

    snprintf(line, sizeof(line), "warning: %s", text);
    send_note(r, line);
}

static void send_startup_warnings(const struct run *r)
{
    char text[512];
    int made;

    for (size_t i = 0; (made = sr1__startup_warning(r->tr, i, text, sizeof(text))) >= 0;
         i++)
        if (made)
            send_warning(r, text);
}

static void tell_changes(const struct run *r)
{
    char text[1024];

    if (sr1__folder_text_older(r->tr, text, sizeof(text)))
        send_note(r, text);
    for (size_t i = 0; i < json_array_size(r->tr->changes); i++)
        if (sr1__resume_change_text(r->tr, i, text, sizeof(text)))
            send_note(r, text);
    if (sr1__resume_rate_text(r->tr, text, sizeof(text)))
        send_note(r, text);
}

/* ---- the parts of the loop ---- */

/* Report the alarms of the last step; those that rang before were reported earlier. */
static void sound_alarms(struct run *r, uint32_t now)
{
    const char *text;
    char line[512];

    for (size_t i = 0; (text = sr1_alarm_text(i)); i++) {
        if (!(now & ~r->tr->alarms & (1u << i)))
            continue;
        snprintf(line, sizeof(line), "step %" PRId64 ": %s", r->tr->step, text);
        send_warning(r, line);
    }
    r->tr->alarms = now;
}

static void count_step(struct run *r)
{
    r->steps++;
    r->no_op_steps += sr1__learned_nothing(&r->tr->step_metrics);
}

/* Could no trajectory of any step be rewarded? */
static int scored_no_step(const struct run *r)
{
    return r->steps > 0 && r->tr->unscored_steps >= r->steps;
}

static const char *explain_no_op(const struct run *r)
{
    if (scored_no_step(r))
        return "no trajectory had a reward";
    if (r->tr->skipped > r->skipped)
        return "updates were skipped because their numbers were not finite";
    return "all advantages were 0, or nothing was left to train on";
}

/* A run that could not learn says so at its end. */
static void report_verdict(const struct run *r)
{
    char line[160];

    if (r->steps == 0 || r->no_op_steps < r->steps)
        return;
    snprintf(line, sizeof(line), "nothing was learned in %" PRId64 " step%s: %s",
             r->steps, r->steps == 1 ? "" : "s", explain_no_op(r));
    send_warning(r, line);
}

static int is_due(int64_t step, int64_t interval)
{
    return interval > 0 && step % interval == 0;
}

static void end_after_this_step(struct run *r, const char *why)
{
    if (r->tr->step >= r->tr->planned)
        return;
    r->tr->planned = r->tr->step;
    send_note(r, why);
}

/* The present step is the last one by a key of stops.c. */
static void end_by_key(struct run *r)
{
    char text[192];

    snprintf(text, sizeof(text), "step %" PRId64 ": %s", r->tr->step, r->tr->stopped_why);
    end_after_this_step(r, text);
}

/* Good enough (stop_at_exact_match), whatever the rows that could not be scored would
 * say. */
static sr1_status stop_when_good(struct run *r, const sr1_evaluation *e)
{
    sr1_trainer *tr = r->tr;
    sr1_eval_scores all = {.struct_size = sizeof(all)};
    double least;
    char text[256];

    SR1__TRY(sr1_evaluation_scores(e, 0, &all));
    if (!sr1__stop_is_reached(&tr->set, SR1__STOP_EXACT_MATCH, all.exact_match))
        return SR1_OK;
    least = all.exact_match * (double)all.rows / (double)(all.rows + all.excluded);
    if (sr1__stop_is_reached(&tr->set, SR1__STOP_EXACT_MATCH, least)) {
        if (sr1__stop_by(tr, SR1__STOP_EXACT_MATCH, least))
            end_by_key(r);
        return SR1_OK;
    }
    snprintf(text, sizeof(text),
             "step %" PRId64
             ": exact match %.3f would end the run (stop_at_exact_match), "
             "but %" PRId64 " of %" PRId64 " rows could not be scored",
             tr->step, all.exact_match, all.excluded, all.rows + all.excluded);
    send_warning(r, text);
    return SR1_OK;
}

/* The best one, or so many that were none (early_stopping_patience). */
static sr1_status compare_validation(struct run *r, const json_t *row)
{
    sr1_trainer *tr = r->tr;

    SR1__TRY(sr1__best_take(tr, row));
    if (sr1__stop_by(tr, SR1__STOP_PATIENCE, (double)tr->best.worse))
        end_by_key(r);
    return SR1_OK;
}

static sr1_status run_validation(struct run *r, json_t *row)
{
    sr1_trainer *tr = r->tr;
    sr1_evaluation *e = NULL;
    sr1_status st = sr1__validate(tr, row, &e);

    if (st == SR1_OK && r->cb.validation)
        st = r->cb.validation(r->cb.user, tr->step, e);
    if (st == SR1_OK)
        st = stop_when_good(r, e);
    if (st == SR1_OK)
        st = compare_validation(r, row);
    sr1_evaluation_free(e);
    return sr1__context(st, "validation after step %" PRId64, tr->step);
}

/* After so many steps, so much time, or the best validation; the last step is followed by
 * one anyway. */
static int is_save_due(const struct run *r)
{
    const sr1_trainer *tr = r->tr;
    double wait = tr->set.save_seconds;

    return sr1__best_is_new(tr) || is_due(tr->step, tr->set.save_interval) ||
           (wait > 0 && tr->step < tr->planned && sr1__now() - r->saved_at >= wait);
}

static sr1_status save_checkpoint(struct run *r)
{
    char text[128];

    if (!r->tr->sharded && !sr1__is_first_rank(r->tr))
        return SR1_OK;
    SR1__TRY(sr1__state_save(r->tr));
    if (!sr1__is_first_rank(r->tr))
        return SR1_OK;
    if (sr1__best_is_new(r->tr))
        sr1__best_link(r->tr);
    SR1__TRY(sr1__record_saved(r->tr));
    r->saved_at = sr1__now();
    snprintf(text, sizeof(text), "checkpoint of step %" PRId64 " written", r->tr->step);
    send_note(r, text);
    return SR1_OK;
}

/* TensorBoard's events have a time of their own. */
static sr1_status log_row(sr1_trainer *tr, json_t *row)
{
    if (!sr1__is_first_rank(tr))
        return SR1_OK;
    if (json_object_set_new(row, "perf/timestamp", json_integer(time(NULL))) != 0)
        return sr1__fail_nomem("metrics");
    SR1__TRY(sr1__folder_check_there(tr));
    SR1__TRY(sr1__jsonl_add(tr->metrics, row));
    sr1__mlflow_tell(tr->mlflow, sr1__jsonl_size(tr->metrics));
    (void)json_object_del(row, "perf/timestamp");
    if (tr->events)
        SR1__TRY(sr1__events_add(tr->events, row));
    return sr1__metric_sink_give(tr, row);
}

#define ALARM_METRIC_MAX 64

static const char *alarm_metric(size_t i, char metric[ALARM_METRIC_MAX])
{
    snprintf(metric, ALARM_METRIC_MAX, "health/alarm_%s", sr1_alarm_name(i));
    return metric;
}

/* The alarms of a step, of whose metrics nothing but the row may be left. */
static uint32_t read_alarms(const json_t *row)
{
    char metric[ALARM_METRIC_MAX];
    uint32_t alarms = 0;

    for (size_t i = 0; sr1_alarm_name(i); i++)
        if (json_integer_value(json_object_get(row, alarm_metric(i, metric))) > 0)
            alarms |= 1u << i;
    return alarms;
}

/* Let the row have the alarms of the steps that have no row of their own, too. */
static sr1_status add_unlogged_alarms(const sr1_trainer *tr, json_t *row)
{
    json_int_t n = json_integer_value(json_object_get(row, "health/alarms"));
    uint32_t missing = tr->unlogged & ~read_alarms(row);
    char metric[ALARM_METRIC_MAX];

    for (size_t i = 0; sr1_alarm_name(i); i++)
        if ((missing >> i & 1) &&
            (json_object_set_new(row, alarm_metric(i, metric), json_integer(1)) != 0 ||
             json_object_set_new(row, "health/alarms", json_integer(++n)) != 0))
            return sr1__fail_nomem("metrics");
    return SR1_OK;
}

/* The step's metrics, with those of a validation where one is due. */
static sr1_status log_step(struct run *r, json_t *row)
{
    sr1_trainer *tr = r->tr;
    int validated = tr->validation && is_due(tr->step, tr->set.validate_interval);

    if (validated)
        SR1__TRY(run_validation(r, row));
    if (!validated && !is_due(tr->step, tr->set.log_interval) &&
        tr->step != tr->planned) {
        tr->unlogged |= read_alarms(row);
        return SR1_OK;
    }
    SR1__TRY(add_unlogged_alarms(tr, row));
    SR1__TRY(log_row(tr, row));
    tr->unlogged = 0;
    return SR1_OK;
}

/* Bytes of the journal; 0 where another process writes it. */
static int64_t metrics_size(const sr1_trainer *tr)
{
    return tr->metrics ? (int64_t)sr1__jsonl_size(tr->metrics) : 0;
}

/* The step is done and its record failed: write its metrics as far as they are known, and
 * keep them for the checkpoint. A run that goes on from there completes the record. */
static void owe_record(sr1_trainer *tr, json_t *row, sr1_status st)
{
    struct sr1__error e;

    sr1__error_save(&e, st);
    sr1__validation_take_back(tr);
    if (metrics_size(tr) == tr->pending_row_at && log_row(tr, row) != SR1_OK)
        sr1__log(SR1_LOG_WARN, "the metrics of step %" PRId64 " are not written: %s",
                 tr->step, sr1_last_error());
    tr->pending_row = json_incref(row);
    (void)sr1__error_raise(&e);
}

/* log NULL: its trajectories are recorded. */
static sr1_status record_row(struct run *r, json_t *row,
                             struct sr1__trajectory_store *log)
{
    sr1_trainer *tr = r->tr;
    json_t *whole = json_deep_copy(row);
    struct sr1__best best = tr->best;
    struct sr1__stopped stopped = tr->stopped;
    sr1_status st = whole ? SR1_OK : sr1__fail_nomem("metrics");

    tr->pending_row_at = metrics_size(tr);
    if (tr->logs[SR1__LOG_VALIDATIONS])
        tr->validation_at = sr1__zlines_size(tr->logs[SR1__LOG_VALIDATIONS]);
    if (st == SR1_OK && log)
        st = log_trajectories(tr, log);
    if (st == SR1_OK)
        st = log_step(r, whole);
    if (st != SR1_OK) { /* its validation will be made again */
        tr->best = best;
        sr1__stopped_set(tr, stopped);
    }
    if (st != SR1_OK && row)
        owe_record(tr, row, st);
    json_decref(whole);
    json_decref(row);
    return st;
}

static sr1_status record_step(struct run *r, struct sr1__trajectory_store *log)
{
    return record_row(r, sr1__metrics_row(&r->tr->step_metrics), log);
}

/* Complete the record of the checkpoint's step. */
static sr1_status record_pending_row(struct run *r)
{
    json_t *row = r->tr->pending_row;
    uint32_t alarms = read_alarms(row);

    r->tr->pending_row = NULL;
    if (!row)
        return SR1_OK;
    SR1__TRY(record_row(r, row, NULL));
    sound_alarms(r, alarms);
    return SR1_OK;
}

/* No question is left, and none is asked ahead. */
static void end_with_passes(struct run *r)
{
    const sr1_trainer *tr = r->tr;
    char text[128];

    if (!sr1__sampler_is_over(tr) || sr1__rollout_queue_head(tr))
        return;
    snprintf(text, sizeof(text),
             "step %" PRId64 ": dynamic sampling has asked every question %" PRId64
             " times (num_epochs)",
             tr->step, tr->set.num_epochs);
    end_after_this_step(r, text);
}

static sr1_status take_own_step(struct run *r, int64_t *rows)
{
    sr1_trainer *tr = r->tr;
    sr1_step_report report = {.struct_size = sizeof(report)};
    struct sr1__trajectory_store *log = NULL;
    int64_t done = tr->step;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__rollout_queue_rows(tr, rows, &n));
    SR1__TRY(
        sr1__trajectory_store_new(&log, tr->set.trajectory_memory,
                                  tr->set.trajectory_memory ? tr->run_folder : NULL));
    st = tr->stage->step(tr, rows, n, &report, log);
    if (tr->step > done) {
        sr1__rollout_queue_pop(tr);
        sr1__rollout_queue_mark(tr);
        end_with_passes(r);
    }
    if (st == SR1_OK)
        sr1__outage_watch(&r->outage, tr);
    if (st == SR1_OK && sr1__stop_when_diverged(tr))
        end_by_key(r);
    if (st == SR1_OK)
        st = record_step(r, log);
    sr1__trajectory_store_free(log);
    if (st == SR1_OK) {
        sound_alarms(r, sr1__find_alarms(&tr->step_metrics));
        count_step(r);
    }
    if (st == SR1_OK && r->cb.step)
        st = r->cb.step(r->cb.user, &report, tr->planned);
    return st;
}

/* Of weights that differ between the processes nobody knows which are right. */
static sr1_status save_together(struct run *r)
{
    sr1_trainer *tr = r->tr;
    sr1_status st = sr1__ranks_compare_weights(tr);

    if (st == SR1_E_STATE)
        tr->in_update = 1;
    if (st != SR1_OK)
        return st;
    return sr1__dist_await(tr->dist, "checkpoint", save_checkpoint(r));
}

/* Where the first rank's clock or count says so. */
static sr1_status save_when_due(struct run *r)
{
    int32_t due = is_save_due(r);

    SR1__TRY(sr1__dist_broadcast(r->tr->dist, "next checkpoint", 0, &due, sizeof(due)));
    return due ? save_together(r) : SR1_OK;
}

/* A failure of one process is that of all. */
static sr1_status take_step(struct run *r, int64_t *rows)
{
    SR1__TRY(sr1__dist_agree(r->tr->dist, "end of the step", take_own_step(r, rows)));
    return save_when_due(r);
}

/* What one process knows and all have to do alike before the next step. */
struct run_decision {
    int64_t planned, saved; /* the first rank's: its clock decides */
    int32_t ends;           /* any rank's: a signal reaches one of them */
    int32_t validated;      /* the first rank's: it has the journal */
    struct sr1__best best;  /* the first rank's, as planned is */
    struct sr1__stopped stopped;
};

static sr1_status share_decision(struct run *r, struct run_decision *all)
{
    sr1_trainer *tr = r->tr;
    struct run_decision own = {
        tr->planned,          tr->saved, atomic_load(&tr->stop) || sr1__outage_ends(tr),
        metrics_size(tr) > 0, tr->best,  tr->stopped};
    struct sr1__gathered g;

    SR1__TRY(sr1__dist_gather(tr->dist, "next step", SR1_OK, &own, sizeof(own), &g));
    for (int32_t rank = 0; rank < sr1__dist_size(tr->dist); rank++) {
        size_t n;

        memcpy(&own, sr1__gathered_of(&g, rank, &n), sizeof(own));
        if (rank == 0)
            *all = own;
        all->ends |= own.ends;
    }
    sr1__gathered_free(&g);
    tr->planned = all->planned;
    tr->saved = all->saved;
    tr->best = all->best;
    sr1__stopped_set(tr, all->stopped);
    r->ends = all->ends;
    return SR1_OK;
}

static sr1_status validate_start(struct run *r)
{
    struct run_decision all;
    json_t *row;
    sr1_status st;

    if (!r->tr->set.validate_at_start || !r->tr->validation || r->tr->step > 0)
        return SR1_OK;
    SR1__TRY(share_decision(r, &all));
    if (all.validated) /* before the run was stopped */
        return SR1_OK;
    row = json_pack("{s:i}", "step", 0);
    st = row ? run_validation(r, row) : sr1__fail_nomem("metrics");
    if (st == SR1_OK)
        st = log_row(r->tr, row);
    json_decref(row);
    return st;
}

/* Complete the record of the checkpoint's step, and give the checkpoint what its
 * validation came to. */
static sr1_status settle_pending_row(struct run *r)
{
    sr1_trainer *tr = r->tr;
    int owed = tr->pending_row != NULL;

    SR1__TRY(sr1__dist_agree(tr->dist, "record of the step", record_pending_row(r)));
    return owed && tr->validation && is_due(tr->step, tr->set.validate_interval)
               ? save_together(r)
               : SR1_OK;
}

static sr1_status run_steps(struct run *r)
{
    sr1_trainer *tr = r->tr;
    struct run_decision all;
    int64_t *rows = sr1__calloc((size_t)tr->set.batch_size, sizeof(*rows));
    sr1_status st = rows ? validate_start(r) : sr1__fail_nomem("rows of a batch");

    st = sr1__dist_agree(tr->dist, "before the first step", st);
    if (st == SR1_OK)
        st = settle_pending_row(r);
    end_with_passes(r);
    if (st == SR1_OK)
        st = share_decision(r, &all);
    while (st == SR1_OK && tr->step < tr->planned && !r->ends) {
        st = take_step(r, rows);
        if (st == SR1_OK)
            st = share_decision(r, &all);
    }
    sr1__free(rows);
    return st;
}

static sr1_status write_final_model(sr1_trainer *tr, const char *folder, int32_t of_best)
{
    if (of_best)
        return sr1__is_first_rank(tr) ? sr1__best_copy_model(tr, folder) : SR1_OK;
    SR1__TRY(sr1__dir_make(folder));
    return sr1__save_model_together(tr, tr->model, folder);
}

static sr1_status save_final_model(sr1_trainer *tr, int32_t of_best)
{
    char *folder;
    sr1_status st;

    if (!tr->sharded && !sr1__is_first_rank(tr))
        return SR1_OK;
    SR1__TRY(sr1__folder_check_there(tr));
    folder = sr1__path_join(tr->run_folder, "model");
    if (!folder)
        return sr1__fail_nomem("path");
    st = write_final_model(tr, folder, of_best);
    if (st == SR1_OK)
        tr->model_step = of_best ? tr->best.step : tr->step;
    sr1__free(folder);
    return st;
}

/* The best one's where the first rank, which has the folder, finds it whole. */
static sr1_status leave_model(sr1_trainer *tr)
{
    int32_t of_best = 0;
    sr1_status st;

    if (!tr->set.save_final_model)
        return SR1_OK;
    st = sr1__is_first_rank(tr) ? sr1__best_is_final(tr, &of_best) : SR1_OK;
    SR1__TRY(sr1__dist_agree(tr->dist, "best checkpoint", st));
    SR1__TRY(
        sr1__dist_broadcast(tr->dist, "model at the end", 0, &of_best, sizeof(of_best)));
    return sr1__dist_await(tr->dist, "trained model", save_final_model(tr, of_best));
}

/* Whatever ended the loop in good order is kept. */
static sr1_status finish_run(struct run *r)
{
    sr1_trainer *tr = r->tr;

    if (tr->saved != tr->step)
        SR1__TRY(save_together(r));
    tr->saved = tr->step;
    if (sr1__outage_ends(tr))
        return sr1__outage_fail(&r->outage, tr);
    if (tr->step < tr->planned)
        return sr1__fail(SR1_E_CANCELLED, "stopped after step %" PRId64 " of %" PRId64,
                         tr->step, tr->planned);
    SR1__TRY(leave_model(tr));
    if (!scored_no_step(r))
        return SR1_OK;
    return sr1__fail(
        SR1_E_NETWORK,
        "no trajectory of the %" PRId64
        " step%s had a reward: none could be computed, or none applies; mend "
        "what computes them: the warnings say how it failed",
        r->steps, r->steps == 1 ? "" : "s");
}

/* The folder of a run, as the process that writes it begins it. */
static sr1_status begin_folder(struct run *r)
{
    sr1_trainer *tr = r->tr;
    char warning[256], lost[256], others[512];

    SR1__TRY(sr1__folder_check_room(tr, warning, sizeof(warning)));
    SR1__TRY(tr->resumed ? sr1__given_check(tr) : sr1__folder_begin(tr));
    SR1__TRY(sr1__record_begin(tr, &r->cb));
    SR1__TRY(tr->resumed ? sr1__resume_write_changes(tr) : sr1__folder_write_config(tr));
    if (!sr1__folder_text_lost(tr, lost, sizeof(lost)))
        *lost = '\0';
    SR1__TRY(sr1__folder_open_journals(tr));
    if (*warning)
        send_warning(r, warning);
    if (*lost)
        send_warning(r, lost);
    if (tr->resumed) {
        sr1__best_link(tr);
        tell_changes(r);
        return SR1_OK;
    }
    if (sr1__folder_text_others(tr, others, sizeof(others)))
        send_warning(r, others);
    send_startup_warnings(r);
    return SR1_OK;
}

/* The other processes read it, and log beside it. A machine that has just seen that the
 * folder is not there may go on saying so for a minute (NFS). */
static sr1_status find_folder(const sr1_trainer *tr)
{
    double until = sr1__now() +
                   fmin(60.0, 0.5 * sr1__config_real(tr->config, "distributed_timeout"));
    struct timespec t = {0, 50 * 1000 * 1000};

    while (!sr1__dir_has(tr->run_folder, "run.json") && sr1__now() < until)
        nanosleep(&t, NULL);
    if (sr1__dir_has(tr->run_folder, "run.json"))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "%s, in which rank 0 has begun the run, is not there: all processes "
                     "need the same folder",
                     tr->run_folder);
}

static sr1_status begin_run(struct run *r)
{
    sr1_trainer *tr = r->tr;
    char text[512];

    tr->begun = 1;
    SR1__TRY(sr1__dist_agree(tr->dist, "run folder",
                             sr1__is_first_rank(tr) ? begin_folder(r) : SR1_OK));
    SR1__TRY(sr1__dist_agree(tr->dist, "shared run folder", find_folder(tr)));
    tr->folder_id = sr1__path_id(tr->run_folder);
    sr1__record_keep_date(tr);
    if (sr1__ranks_text(tr, text, sizeof(text)))
        send_note(r, text);
    tr->rollout->warned = 1; /* when the run began */
    r->saved_at = sr1__now();
    r->skipped = tr->skipped;
    sr1__rollout_queue_mark(tr);
    return SR1_OK;
}

/* The error of a run that ends, and the whole steps that no checkpoint has. */
static sr1_status fail_with_lost(const sr1_trainer *tr, const struct sr1__error *e)
{
    int64_t from = tr->saved > 0 ? tr->saved : 0;
    char steps[64], again[96];

    if (tr->step <= from)
        return sr1__error_raise(e);
    if (tr->step == from + 1)
        snprintf(steps, sizeof(steps), "step %" PRId64 " is", tr->step);
    else
        snprintf(steps, sizeof(steps), "steps %" PRId64 " to %" PRId64 " are", from + 1,
                 tr->step);
    if (from > 0)
        snprintf(again, sizeof(again), "goes on from the checkpoint of step %" PRId64,
                 from);
    else
        snprintf(again, sizeof(again), "begins again, since there is no checkpoint yet");
    return sr1__fail(e->code, "%.760s; %s lost: the run, resumed (--resume), %s", e->text,
                     steps, again);
}

/* As the last whole step left it. */
static sr1_status save_last_whole(struct run *r)
{
    SR1__TRY(sr1__rollout_queue_rewind(r->tr));
    return save_checkpoint(r);
}

/* A failure costs the step that it ends, not those before it, unless weights have been
 * changed since, or cannot be read any more. What a rule for choosing questions has
 * learned of the step cannot be taken back. */
static sr1_status keep_whole_steps(struct run *r, sr1_status st)
{
    const sr1_trainer *tr = r->tr;
    struct sr1__error e;

    if ((!tr->sharded && !sr1__is_first_rank(tr)) || tr->step == 0 ||
        tr->step <= tr->saved)
        return st;
    sr1__error_save(&e, st);
    if (!tr->in_update && !tr->sampler.rule && save_last_whole(r) != SR1_OK)
        sr1__log(SR1_LOG_WARN, "step %" PRId64 " cannot be saved: %s", tr->step,
                 sr1_last_error());
    return fail_with_lost(tr, &e);
}

static sr1_status run_all(struct run *r)
{
    sr1_trainer *tr = r->tr;
    sr1_status st;

    SR1__TRY(begin_run(r));
    tr->phase = r->cb.phase;
    tr->phase_user = r->cb.user;
    st = run_steps(r);
    tr->phase = NULL;
    if (st == SR1_OK)
        report_verdict(r);
    return st == SR1_OK ? finish_run(r) : keep_whole_steps(r, st);
}

/* While it runs, a stop ends what waits for programs; what the trainer is asked for
 * before and after waits. */
static void watch_stop(sr1_trainer *tr, const atomic_int *stop)
{
    tr->rollout->stop = tr->rewards->context.stop = stop;
}

static sr1_status run_whole(sr1_trainer *tr, const sr1_run_callbacks *callbacks)
{
    struct run r = {.tr = tr};
    sr1_status st;

    SR1__TRY(sr1__struct_take(&r.cb, sizeof(r.cb), callbacks,
                              SR1__STRUCT_END(sr1_run_callbacks, user), "run callbacks"));
    if (tr->begun)
        return sr1__fail(
            SR1_E_STATE,
            "this trainer has run; sr1_trainer_resume goes on with its run (Python: "
            "Trainer.resume(\"%s\")), and another trainer begins one in a folder of its "
            "own",
            tr->run_folder);
    if (!tr->cursor)
        return sr1__fail(SR1_E_CONFIG,
                         "train_file is not set; name the file of questions to train on");
    SR1__TRY(sr1__context(sr1__tokenizer_check_saved(tr->rollout->tokenizer),
                          "checkpoints have a tokenizer"));
    if (tr->train)
        SR1__TRY(sr1__check_rewards(tr));
    if (tr->train && !tr->resumed)
        SR1__TRY(sr1__rollout_check_engine(tr->rollout));
    st = sr1__is_first_rank(tr) ? sr1__mlflow_check(tr->config) : SR1_OK;
    if (st == SR1_OK && !tr->restored) /* else it was found then */
        st = tr->stage->hash(tr, &tr->mark.hash);
    SR1__TRY(sr1__dist_agree(tr->dist, "data", st));
    SR1__TRY(sr1__dist_same(tr->dist, "the rows of the data", tr->mark.hash));
    watch_stop(tr, &tr->stop);
    st = run_all(&r);
    sr1__rollout_queue_clear(tr);
    watch_stop(tr, NULL);
    sr1__record_end(tr, st);
    sr1__mlflow_close(tr->mlflow, st);
    tr->mlflow = NULL;
    sr1__folder_unlock(tr); /* it does not run again */
    return st;
}

sr1_status sr1_trainer_run(sr1_trainer *tr, const sr1_run_callbacks *callbacks)
{
    int32_t threads;
    sr1_status st;

    SR1__REQUIRE(tr, "run: trainer");
    threads = sr1__trainer_enter(tr);
    st = run_whole(tr, callbacks);
    sr1__trainer_leave(tr, threads);
    return st;
}
