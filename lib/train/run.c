/* train/run.c - a whole run and the folder it leaves:
 *
 *     config.json         every key as resolved
 *     metrics.jsonl       one object a step
 *     trajectories.jsonl  what was said
 *     tensorboard         the metrics once more, by the key of this name
 *     checkpoints/step-N  to resume from
 *     model               the policy at the end */
#include "train/internal.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct run {
    sr1_trainer *tr;
    sr1_run_callbacks cb;
    int64_t saved; /* step of the last checkpoint */
};

/* ---- the folder ---- */

static sr1_status open_journal(sr1_trainer *tr, const char *name, const json_t *state,
                               const char *size_key, struct sr1__jsonl **out)
{
    char *path = sr1__path_join(tr->run_folder, name);
    int64_t size = 0;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1__jsonl_open(out, path);
    if (st == SR1_OK && state)
        st = sr1__json_get_int(state, size_key, &size);
    if (st == SR1_OK)
        st = sr1__jsonl_truncate(*out, (uint64_t)size);
    sr1__free(path);
    return st;
}

static sr1_status open_events(sr1_trainer *tr)
{
    char *path = sr1__path_join(tr->run_folder, "tensorboard");
    sr1_status st =
        path ? sr1__events_open(&tr->events, path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

sr1_status sr1__run_open_journals(sr1_trainer *tr, const json_t *state)
{
    SR1__TRY(open_journal(tr, "metrics.jsonl", state, "metrics_size", &tr->metrics));
    SR1__TRY(open_journal(tr, "trajectories.jsonl", state, "trajectories_size",
                          &tr->trajectories));
    return sr1__config_bool(tr->config, "tensorboard") ? open_events(tr) : SR1_OK;
}

static sr1_status write_config(const sr1_trainer *tr, const char *path)
{
    char *text = NULL;
    sr1_status st;

    SR1__TRY(sr1_config_to_json(tr->config, &text));
    st = sr1__file_replace(path, text, strlen(text));
    sr1_free(text);
    return st;
}

static sr1_status make_folder(sr1_trainer *tr)
{
    char *path = sr1__path_join(tr->run_folder, "config.json");
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK && sr1__path_exists(path))
        st = sr1__fail(
            SR1_E_CONFIG,
            "%s already holds a run; continue it with sr1-train --resume %s, or "
            "choose another folder with out=FOLDER",
            tr->run_folder, tr->run_folder);
    if (st == SR1_OK)
        st = sr1__dir_make(tr->run_folder);
    if (st == SR1_OK)
        st = write_config(tr, path);
    if (st == SR1_OK)
        st = sr1__run_open_journals(tr, NULL);
    sr1__free(path);
    return st;
}

/* ---- records ---- */

/* What a validation adds to the metrics. */
static const struct {
    const char *name;
    size_t offset;
} scores[] = {{"exact_match", offsetof(sr1_eval_scores, exact_match)},
              {"f1", offsetof(sr1_eval_scores, f1)},
              {"format", offsetof(sr1_eval_scores, format)},
              {"searches", offsetof(sr1_eval_scores, searches)},
              {"reward", offsetof(sr1_eval_scores, reward)},
              {"tokens", offsetof(sr1_eval_scores, tokens)},
              {"success", offsetof(sr1_eval_scores, success)},
              {"thinking", offsetof(sr1_eval_scores, thinking)}};

/* A score of the questions of one source, NULL: of all. */
static sr1_status add_score(json_t *row, const char *score, const char *source, double v)
{
    struct sr1__buf name;
    sr1_status st;

    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "val/%s%s%s", score, source ? "/" : "", source ? source : "");
    st = sr1__buf_status(&name, "metrics");
    if (st == SR1_OK && json_object_set_new(row, name.data, sr1__json_number(v)) != 0)
        st = sr1__fail_nomem("metrics");
    sr1__buf_free(&name);
    return st;
}

static sr1_status add_scores(json_t *row, const sr1_evaluation *e)
{
    for (size_t i = 0; i < sr1_evaluation_count(e); i++) {
        sr1_eval_scores s = {.struct_size = sizeof(s)};

        SR1__TRY(sr1_evaluation_scores(e, i, &s));
        for (size_t k = 0; k < sizeof(scores) / sizeof(scores[0]); k++) {
            const char *at = (const char *)&s + scores[k].offset;

            SR1__TRY(add_score(row, scores[k].name, s.data_source,
                               *(const double *)(const void *)at));
        }
        if (s.data_source) /* under the name that Search-R1's published code gives it */
            SR1__TRY(add_score(row, "test_score", s.data_source, s.exact_match));
        else if (json_object_set_new(row, "val/excluded", json_integer(s.excluded)) != 0)
            return sr1__fail_nomem("metrics");
    }
    return SR1_OK;
}

static sr1_status log_trajectories(sr1_trainer *tr, struct sr1__trajectory_store *log)
{
    int64_t n = (int64_t)sr1__trajectory_store_count(log);

    if (tr->set.log_trajectories >= 0 && n > tr->set.log_trajectories)
        n = tr->set.log_trajectories;
    for (int64_t i = 0; i < n; i++) {
        sr1_trajectory *t = NULL;
        char *text = NULL;
        size_t len = 0;
        json_t *record = NULL;
        sr1_status st;

        SR1__TRY(sr1__trajectory_store_get(log, (size_t)i, &t));
        st = sr1_trajectory_to_json(t, &text, &len);
        if (st == SR1_OK)
            st = sr1__json_parse(&record, text, len, "trajectory");
        if (st == SR1_OK &&
            json_object_set_new(record, "step", json_integer(tr->step)) != 0)
            st = sr1__fail_nomem("trajectory record");
        if (st == SR1_OK)
            st = sr1__jsonl_add(tr->trajectories, record);
        json_decref(record);
        sr1_free(text);
        sr1_trajectory_free(t);
        SR1__TRY(st);
    }
    return SR1_OK;
}

static void note(const struct run *r, const char *text)
{
    if (r->cb.note)
        r->cb.note(r->cb.user, text);
}

/* ---- the parts of the loop ---- */

/* Say what has begun to ring; what goes on ringing was said. */
static void sound_alarms(struct run *r, const sr1_step_report *report)
{
    uint32_t now = sr1__health_alarms(report);
    const char *text;
    char line[256];

    for (size_t i = 0; (text = sr1__health_alarm_text(i)); i++) {
        if (!(now & ~r->tr->alarms & (1u << i)))
            continue;
        snprintf(line, sizeof(line), "step %" PRId64 ": %s", report->step, text);
        note(r, line);
    }
    r->tr->alarms = now;
}

static int due(int64_t step, int64_t interval)
{
    return interval > 0 && step % interval == 0;
}

static sr1_status eval_progress(void *user, int64_t done, int64_t total, int64_t tokens)
{
    const struct run *r = user;

    (void)tokens;
    return r->cb.phase ? r->cb.phase(r->cb.user, "validation", done, total) : SR1_OK;
}

/* Good enough (stop_at_exact_match), on all rows: the present step is the last one
 * planned. */
static sr1_status stop_when_good(struct run *r, const sr1_evaluation *e)
{
    sr1_trainer *tr = r->tr;
    sr1_eval_scores all = {.struct_size = sizeof(all)};
    double enough = tr->set.stop_at_exact_match;
    char text[128];

    SR1__TRY(sr1_evaluation_scores(e, 0, &all));
    if (enough <= 0 || all.exact_match < enough || all.excluded > 0 ||
        tr->step >= tr->planned)
        return SR1_OK;
    tr->planned = tr->step;
    snprintf(text, sizeof(text),
             "step %" PRId64 ": exact match %.3f reaches stop_at_exact_match", tr->step,
             all.exact_match);
    note(r, text);
    return SR1_OK;
}

static sr1_status validate(struct run *r, json_t *row)
{
    sr1_trainer *tr = r->tr;
    sr1_evaluation *e = NULL;
    sr1_eval_options o = {.struct_size = sizeof(o),
                          .greedy = 1,
                          .seed = tr->set.seed,
                          .max_rows = tr->set.validation_samples,
                          .progress = eval_progress,
                          .user = r,
                          .rewards = tr->rewards};
    sr1_status st;

    sr1__rollout_use_local(tr->rollout, 1); /* a server may have older weights */
    st = sr1_evaluate(&e, tr->rollout, tr->validation, &o);
    sr1__rollout_use_local(tr->rollout, 0);
    if (st == SR1_OK)
        st = add_scores(row, e);
    if (st == SR1_OK && r->cb.validation)
        st = r->cb.validation(r->cb.user, tr->step, e);
    if (st == SR1_OK)
        st = stop_when_good(r, e);
    sr1_evaluation_free(e);
    return sr1__context(st, "validation after step %" PRId64, tr->step);
}

static sr1_status save(struct run *r)
{
    char text[128];

    SR1__TRY(sr1__state_save(r->tr));
    r->saved = r->tr->step;
    snprintf(text, sizeof(text), "checkpoint of step %" PRId64 " written", r->tr->step);
    note(r, text);
    return SR1_OK;
}

static sr1_status log_row(sr1_trainer *tr, const json_t *row)
{
    SR1__TRY(sr1__jsonl_add(tr->metrics, row));
    return tr->events ? sr1__events_add(tr->events, row) : SR1_OK;
}

static sr1_status record_step(struct run *r, const sr1_step_report *report,
                              struct sr1__trajectory_store *log)
{
    sr1_trainer *tr = r->tr;
    json_t *row = sr1__metrics_row(tr, report);
    sr1_status st = row ? SR1_OK : sr1__fail_nomem("metrics");

    if (st == SR1_OK && tr->validation && due(tr->step, tr->set.validate_interval))
        st = validate(r, row);
    if (st == SR1_OK &&
        (due(tr->step, tr->set.log_interval) || tr->step == tr->planned))
        st = log_row(tr, row);
    if (st == SR1_OK)
        st = log_trajectories(tr, log);
    json_decref(row);
    return st;
}

static sr1_status take_step(struct run *r, int64_t *rows)
{
    sr1_trainer *tr = r->tr;
    sr1_step_report report = {.struct_size = sizeof(report)};
    struct sr1__trajectory_store *log = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__questions_next(tr, rows, &n));
    SR1__TRY(
        sr1__trajectory_store_new(&log, tr->set.trajectory_memory,
                                  tr->set.trajectory_memory ? tr->run_folder : NULL));
    st = tr->stage->step(tr, rows, n, &report, log);
    if (st == SR1_OK)
        st = record_step(r, &report, log);
    sr1__trajectory_store_free(log);
    if (st == SR1_OK)
        sound_alarms(r, &report);
    if (st == SR1_OK && r->cb.step)
        st = r->cb.step(r->cb.user, &report, tr->planned);
    if (st == SR1_OK && due(tr->step, tr->set.save_interval))
        st = save(r);
    return st;
}

static sr1_status first_validation(struct run *r)
{
    json_t *row;
    sr1_status st;

    if (!r->tr->set.validate_at_start || !r->tr->validation || r->tr->step > 0 ||
        sr1__jsonl_size(r->tr->metrics) > 0) /* done before the run was stopped */
        return SR1_OK;
    row = json_pack("{s:i}", "step", 0);
    st = row ? validate(r, row) : sr1__fail_nomem("metrics");
    if (st == SR1_OK)
        st = log_row(r->tr, row);
    json_decref(row);
    return st;
}

static sr1_status loop(struct run *r)
{
    sr1_trainer *tr = r->tr;
    int64_t *rows = sr1__calloc((size_t)tr->set.batch_size, sizeof(*rows));
    sr1_status st = rows ? first_validation(r) : sr1__fail_nomem("rows of a batch");

    while (st == SR1_OK && tr->step < tr->planned && !atomic_load(&tr->stop))
        st = take_step(r, rows);
    sr1__free(rows);
    return st;
}

/* Whatever ended the loop in good order is kept. */
static sr1_status finish(struct run *r)
{
    sr1_trainer *tr = r->tr;
    char *folder;
    sr1_status st = SR1_OK;

    if (r->saved != tr->step)
        SR1__TRY(save(r));
    if (tr->step < tr->planned)
        return sr1__fail(SR1_E_CANCELLED, "stopped after step %" PRId64 " of %" PRId64,
                         tr->step, tr->planned);
    if (!tr->set.save_final_model)
        return SR1_OK;
    folder = sr1__path_join(tr->run_folder, "model");
    if (!folder)
        return sr1__fail_nomem("path");
    st = sr1__dir_make(folder);
    if (st == SR1_OK)
        st = sr1_trainer_save_model(tr, folder);
    sr1__free(folder);
    return st;
}

sr1_status sr1_trainer_run(sr1_trainer *tr, const sr1_run_callbacks *callbacks)
{
    struct run r = {.tr = tr, .saved = -1};
    sr1_status st;

    if (!tr)
        return sr1__fail(SR1_E_INVALID, "run: trainer is required");
    SR1__TRY(sr1__struct_take(&r.cb, sizeof(r.cb), callbacks,
                              SR1__STRUCT_END(sr1_run_callbacks, user), "run callbacks"));
    r.saved = tr->resumed ? tr->step : -1;
    if (tr->begun)
        return sr1__fail(SR1_E_STATE, "this trainer has run; make another to run again");
    if (!tr->cursor)
        return sr1__fail(SR1_E_CONFIG,
                         "train_file is not set; name the file of questions to train on");
    tr->begun = 1;
    if (!tr->resumed)
        SR1__TRY(make_folder(tr));
    tr->phase = r.cb.phase;
    tr->phase_user = r.cb.user;
    st = loop(&r);
    tr->phase = NULL;
    return st == SR1_OK ? finish(&r) : st;
}

sr1_status sr1_trainer_resume(sr1_trainer **out, const char *run_folder,
                              sr1_search *search)
{
    char *path = run_folder ? sr1__path_join(run_folder, "config.json") : NULL;
    sr1_config *c = NULL;
    sr1_trainer *tr = NULL;
    sr1_status st;

    if (!out || !run_folder)
        return sr1__fail(SR1_E_INVALID, "resume: out and run_folder are required");
    st = path ? sr1_config_new(&c) : sr1__fail_nomem("path");

    if (st == SR1_OK && !sr1__path_exists(path))
        st = sr1__fail(SR1_E_NOT_FOUND, "%s holds no run (no config.json)", run_folder);
    if (st == SR1_OK)
        st = sr1_config_load(c, path);
    if (st == SR1_OK)
        st = sr1_config_set(c, "out", run_folder);
    if (st == SR1_OK)
        st = sr1_trainer_new(&tr, c, search);
    if (st == SR1_OK)
        st = sr1__context(sr1__state_restore(tr), "resume");
    sr1_config_free(c);
    sr1__free(path);
    if (st != SR1_OK) {
        sr1_trainer_free(tr);
        return st;
    }
    *out = tr;
    return SR1_OK;
}
