/* train/folder.c - the folder of a run: its lock, the files that a new run may replace,
 * the disk space it needs, and its journals. */
#include "train/internal.h"

#include "base/disk.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map_watch.h"
#include "base/mem.h"
#include "base/quote.h"
#include "config/paths.h"
#include "config/run_config.h"
#include "environment/trajectory/trajectory.h"
#include "train/checkpoint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The metrics of a run that has a row of training in them begin with this much. */
#define FIRST_ROWS ((size_t)4 << 20)

const struct sr1__trajectory_log_row sr1__trajectory_logs[SR1__TRAJECTORY_LOGS] = {
    {"trajectories.jsonl.zst", "trajectories_zst_size"},
    {"validation-trajectories.jsonl.zst", "validation_trajectories_zst_size"}};

/* ---- one holder ---- */

#define CHOOSE_ANOTHER ", or choose another folder with out=FOLDER"

/* remedy ends the error where another process holds the folder. out NULL: only look
 * whether one does. */
static sr1_status take_lock(const char *folder, const char *remedy,
                            struct sr1__lock **out)
{
    char holder[SR1__LOCK_HOLDER];
    char *path = sr1__path_join(folder, ".lock");
    sr1_status st;

    SR1__CHECK_ALLOC(path, "path");
    st = out ? sr1__lock_take(out, path, holder) : sr1__lock_look(path, holder);

    if (st == SR1_E_STATE)
        st = sr1__fail(SR1_E_CONFIG, "%s: %s is training in it; wait for its end%s",
                       folder, holder, remedy);
    sr1__free(path);
    return st;
}

sr1_status sr1__folder_lock(sr1_trainer *tr)
{
    return take_lock(tr->run_folder, "", &tr->lock);
}

void sr1__folder_unlock(sr1_trainer *tr)
{
    sr1__lock_release(tr->lock);
    tr->lock = NULL;
}

/* ---- what is in it already ---- */

/* Is there a row of a step after the validation at the start? */
static sr1_status has_rows(const char *folder, int *yes)
{
    char *path = sr1__path_join(folder, "metrics.jsonl");
    struct sr1__buf b = {0};
    const char *end;
    json_t *row = NULL;
    sr1_status st = SR1_OK;

    if (!path)
        return sr1__fail_nomem("path");
    *yes = 0;
    if (sr1__path_exists(path))
        st = sr1__file_read(path, FIRST_ROWS, &b);
    if (st == SR1_E_LIMIT) {
        *yes = 1;
        st = SR1_OK;
    } else if (st == SR1_OK && b.len > 0) {
        end = memchr(b.data, '\n', b.len);
        *yes = !end || end + 1 < b.data + b.len ||
               sr1__json_parse(&row, b.data, (size_t)(end - b.data), path) != SR1_OK ||
               json_integer_value(json_object_get(row, "step")) != 0;
        json_decref(row);
    }
    sr1__buf_free(&b);
    sr1__free(path);
    return st;
}

static int is_filled(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    struct sr1__map map = {0};
    int yes = path && sr1__map_open(&map, path) == SR1_OK && map.size > 0;

    sr1__map_close(&map);
    sr1__free(path);
    return yes;
}

/* Has a run left work in the folder: a step, a checkpoint, a model? */
static sr1_status has_work(const char *folder, int *yes)
{
    int64_t checkpoints = 0;

    SR1__TRY(sr1__checkpoint_count(folder, &checkpoints));
    SR1__TRY(has_rows(folder, yes));
    *yes |= checkpoints > 0 || sr1__dir_has(folder, "model") ||
            is_filled(folder, sr1__trajectory_logs[SR1__LOG_STEPS].file) ||
            is_filled(folder, "trajectories.jsonl"); /* of an older version */
    return SR1_OK;
}

static sr1_status remove_below(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    sr1_status st = path ? sr1__dir_remove(path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

/* What a run writes into its folders, by how their names begin. */
static const struct {
    const char *folder, *begin;
} written_below[] = {
    {"checkpoints", "step-"}, {"logs", "rank-"}, {"tensorboard", "events.out.tfevents."}};

static sr1_status refuse_others_in(const char *run, const char *folder, const char *begin)
{
    char *path = sr1__path_join(run, folder), **names = NULL;
    size_t n = 0;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK && sr1__path_is_dir(path))
        st = sr1__dir_list(path, &names, &n);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        if (strncmp(names[i], begin, strlen(begin)) != 0)
            st = sr1__fail(SR1_E_CONFIG,
                           "%s holds %s, which no run wrote, and a run would remove; "
                           "move it, or choose another folder with out=FOLDER",
                           path, names[i]);
    sr1__dir_list_free(names, n);
    sr1__free(path);
    return st;
}

/* The folders of a run that failed early go, if all that they hold is its own. */
static sr1_status refuse_others_below(const char *run)
{
    for (size_t i = 0; i < sizeof(written_below) / sizeof(written_below[0]); i++)
        SR1__TRY(refuse_others_in(run, written_below[i].folder, written_below[i].begin));
    return SR1_OK;
}

/* What a run that failed before its first step left, and nothing else. */
static sr1_status clear_failed(const char *folder)
{
    static const char *const names[] = {
        "metrics.jsonl",        "tensorboard", "checkpoints", "served",
        "config-changes.jsonl", "logs",        "mlflow.json"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        SR1__TRY(remove_below(folder, names[i]));
    for (size_t i = 0; i < SR1__TRAJECTORY_LOGS; i++)
        SR1__TRY(remove_below(folder, sr1__trajectory_logs[i].file));
    return SR1_OK;
}

/* What a run writes at the top of its folder. */
static const char *const written[] = {"config.json",
                                      "run.json",
                                      "metrics.jsonl",
                                      "trajectories.jsonl.zst",
                                      "validation-trajectories.jsonl.zst",
                                      "trajectories.jsonl",
                                      "tensorboard",
                                      "checkpoints",
                                      "served",
                                      "model",
                                      "best",
                                      "logs",
                                      "config-changes.jsonl",
                                      "mlflow.json"};

/* Is its run.json one that a run wrote? */
static int is_ours(const char *folder)
{
    json_t *record = sr1__config_run_record(folder);
    int yes = json_is_integer(json_object_get(record, "format")) &&
              json_is_array(json_object_get(record, "starts"));

    json_decref(record);
    return yes;
}

/* The caller's own sr1_trainer_train_step may have given the server weights before the
 * run. */
static int wrote_itself(const sr1_trainer *tr, const char *name)
{
    return !strcmp(name, "served") && sr1__rollout_is_remote(tr->rollout) &&
           sr1__rollout_server_version(tr->rollout) > 0;
}

/* Files of others under names of ours are never taken for a run; tr, where there is one,
 * may have written some itself. */
static sr1_status refuse_foreign(const char *folder, const sr1_trainer *tr)
{
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
        if (!(tr && wrote_itself(tr, written[i])) && sr1__dir_has(folder, written[i]))
            return sr1__fail(SR1_E_CONFIG,
                             "%s holds %s, which no run there wrote, and a run would "
                             "replace; choose another folder with out=FOLDER",
                             folder, written[i]);
    return SR1_OK;
}

static int is_data(const char *name)
{
    static const char *const endings[] = {".jsonl",   ".csv",  ".tsv",
                                          ".parquet", ".bm25", ".safetensors"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
        if (strcmp(dot, endings[i]) == 0)
            return 1;
    return 0;
}

static int is_run_below(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    int yes = path && is_ours(path);

    sr1__free(path);
    return yes;
}

static sr1_status refuse_place(const char *folder, const char *what)
{
    return sr1__fail(SR1_E_CONFIG,
                     "'%s' is %s, no place for a run; choose another folder with "
                     "out=FOLDER",
                     folder, what);
}

/* A run lies in no other run, nor does it hold one. */
static sr1_status refuse_run_above(const char *folder)
{
    char *path = sr1__strdup(folder), *slash;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    while (st == SR1_OK && (slash = strrchr(path, '/')) != NULL && slash > path) {
        *slash = '\0';
        if (is_ours(path))
            st = refuse_place(folder, "in the folder of another run");
    }
    sr1__free(path);
    return st;
}

/* The root, the user's own folder and a name that nobody sees are hardly meant. */
static sr1_status refuse_unfit(const char *folder)
{
    const char *home = getenv("HOME");

    if (folder[strspn(folder, " \t")] == '\0')
        return refuse_place(folder, "a blank name");
    if (sr1__path_same(folder, "/"))
        return refuse_place(folder, "the root of all folders");
    if (home && sr1__path_same(folder, home))
        return refuse_place(folder, "your home folder");
    return refuse_run_above(folder);
}

/* A folder of data, of a model or of runs is hardly meant: a run would lie among its
 * files. */
static sr1_status refuse_data(const char *folder)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status st = sr1__path_exists(folder) ? sr1__dir_list(folder, &names, &n) : SR1_OK;

    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        if (is_data(names[i]))
            st = sr1__fail(SR1_E_CONFIG,
                           "%s is a folder of data (%s), and a run would lie among its "
                           "files; choose another folder with out=FOLDER",
                           folder, names[i]);
        else if (is_run_below(folder, names[i]))
            st = sr1__fail(SR1_E_CONFIG,
                           "%s holds runs (%s), and another would lie among them; choose "
                           "a folder of its own with out=FOLDER",
                           folder, names[i]);
    }
    sr1__dir_list_free(names, n);
    return st;
}

/* Names of its rows (Trainer(train=...)) and hidden ones are not counted. */
static int is_of_others(const char *name)
{
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
        if (strcmp(name, written[i]) == 0)
            return 0;
    return name[0] != '.' && strcmp(name, "rows") != 0;
}

int sr1__folder_text_others(const sr1_trainer *tr, char *text, size_t size)
{
    char **names = NULL;
    const char *first = NULL;
    size_t n = 0, others = 0;

    if (sr1__dir_list(tr->run_folder, &names, &n) != SR1_OK)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (is_of_others(names[i]) && others++ == 0)
            first = names[i];
    if (first)
        snprintf(text, size,
                 "%.300s holds what no run wrote (%.100s; %zu in all), and the run's "
                 "files will lie among it; out=FOLDER names a folder of its own",
                 tr->run_folder, first, others);
    sr1__dir_list_free(names, n);
    return others > 0;
}

static int is_link(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* The folder, or the nearest above it that exists, has to be one. */
static sr1_status refuse_file(const char *folder)
{
    char *path = sr1__strdup(folder), *slash;
    const char *what = NULL;
    sr1_status st;

    SR1__CHECK_ALLOC(path, "path");
    while (!sr1__path_exists(path) && !is_link(path) &&
           (slash = strrchr(path, '/')) != NULL)
        *slash = '\0';
    if (!sr1__path_exists(path))
        what = is_link(path) ? "a link to nothing" : NULL;
    else if (!sr1__path_is_dir(path))
        what = "a file";
    st = what ? sr1__fail(SR1_E_CONFIG,
                          "%s is %s, and a run needs a folder; choose one with "
                          "out=FOLDER",
                          path, what)
              : SR1_OK;
    sr1__free(path);
    return st;
}

static sr1_status check_place(const char *folder, const sr1_trainer *tr)
{
    char quoted[SR1__QUOTED_SIZE];
    int taken = 0;

    if (!is_ours(folder)) {
        SR1__TRY(refuse_unfit(folder));
        SR1__TRY(refuse_foreign(folder, tr));
        return refuse_data(folder);
    }
    SR1__TRY(has_work(folder, &taken));
    if (!taken)
        return refuse_others_below(folder);
    sr1__quote_word(folder, quoted, sizeof(quoted));
    return sr1__fail(
        SR1_E_CONFIG,
        "%s already holds a run; continue it with sr1-train --resume %s (a "
        "program: Trainer.resume, sr1_trainer_resume), or choose another folder with "
        "out=FOLDER",
        folder, quoted);
}

static sr1_status make_place(const sr1_trainer *tr)
{
    SR1__TRY(check_place(tr->run_folder, tr));
    return is_ours(tr->run_folder) ? clear_failed(tr->run_folder) : SR1_OK;
}

char *sr1__folder_name(const sr1_config *c)
{
    const char *out = sr1__config_str(c, "out");

    return *out ? sr1__strdup(out) : sr1__path_join("runs", sr1__config_str(c, "name"));
}

static sr1_status check_idle(const char *folder, const char *remedy)
{
    sr1_status st = take_lock(folder, remedy, NULL);

    return st == SR1_E_CONFIG ? st : SR1_OK; /* others are met when it is taken */
}

sr1_status sr1__folder_check_idle(const char *folder)
{
    return check_idle(folder, "");
}

sr1_status sr1__folder_check_free(const char *folder)
{
    SR1__TRY(refuse_file(folder));
    SR1__TRY(check_idle(folder, CHOOSE_ANOTHER));
    return check_place(folder, NULL);
}

/* ---- room ---- */

/* Checkpoints that an earlier part of the run left. */
static int64_t checkpoints_there(const sr1_trainer *tr)
{
    int64_t n = 0;

    if (tr->resumed)
        (void)sr1__checkpoint_count(tr->run_folder, &n);
    return n;
}

/* Steps of those left that save_interval, or a better validation, writes one after. */
static int64_t count_written(const struct sr1__settings *set, int64_t left)
{
    int64_t by_step = set->save_interval > 0 ? left / set->save_interval : 0;
    int64_t by_best = *set->best_metric ? left / set->validate_interval : 0;

    return by_step < left - by_best ? by_step + by_best : left;
}

int64_t sr1__checkpoints_at_once(const struct sr1__settings *set, int64_t left,
                                 int64_t there)
{
    int64_t most =
        set->save_seconds > 0 || left == 0 ? left : count_written(set, left) + 1;
    int64_t all = there + most > 1 ? there + most : 1;
    int64_t wanted = set->keep_checkpoints + (*set->best_metric != '\0');
    int64_t kept = wanted > there ? wanted : there;

    return set->keep_checkpoints > 0 && kept + 1 < all ? kept + 1 : all;
}

void sr1__folder_room(const sr1_trainer *tr, sr1_run_plan *plan)
{
    int64_t left = tr->planned > tr->step ? tr->planned - tr->step : 0;
    double all;

    plan->checkpoint_bytes = sr1__state_bytes(tr);
    plan->model_bytes = tr->set.save_final_model ? sr1__state_model_bytes(tr->model) : 0;
    all = (double)plan->checkpoint_bytes *
              (double)sr1__checkpoints_at_once(&tr->set, left, checkpoints_there(tr)) +
          (double)plan->model_bytes + (double)sr1__served_bytes(tr);
    plan->disk_bytes = all < 9e18 ? (int64_t)all : INT64_MAX;
    plan->disk_free = sr1__disk_free(tr->run_folder);
}

/* What is written besides the first checkpoint, which shares its served weights with
 * RUN/served; those of an earlier part of the run are there. */
static int64_t bytes_beside(const sr1_trainer *tr, const sr1_run_plan *plan)
{
    int64_t served = sr1__dir_has(tr->run_folder, "served")
                         ? 0
                         : sr1__served_bytes(tr) - sr1__served_kept_bytes(tr);

    return plan->model_bytes + served;
}

/* A run that cannot keep its first checkpoint is refused before its first step; *warning
 * is what to say of one that may run out of room later, "" if there is nothing. */
sr1_status sr1__folder_check_room(const sr1_trainer *tr, char *warning, size_t size)
{
    sr1_run_plan plan = {0};
    char checkpoint[24], first[24], all[24], room[24];
    int64_t needed;
    double there;

    sr1__folder_room(tr, &plan);
    needed = plan.checkpoint_bytes + bytes_beside(tr, &plan);
    sr1__disk_text(plan.checkpoint_bytes, checkpoint);
    sr1__disk_text(needed, first);
    sr1__disk_text(plan.disk_bytes, all);
    sr1__disk_text(plan.disk_free, room);
    *warning = '\0';
    if (plan.disk_free < 0)
        return SR1_OK;
    if (plan.disk_free < needed)
        return sr1__fail(SR1_E_CONFIG,
                         "%s: a checkpoint takes %s, with the weights written beside it "
                         "%s, and %s are free on its disk; make room, or %s",
                         tr->run_folder, checkpoint, first, room,
                         tr->step > 0
                             ? "move the folder to another disk: it goes on there"
                             : "choose a folder elsewhere with out=FOLDER");
    there = (double)plan.checkpoint_bytes * (double)checkpoints_there(tr);
    if ((double)plan.disk_free + there < (double)plan.disk_bytes)
        snprintf(warning, size,
                 "the run may take %s of disk (a checkpoint: %s) and %s are free; make "
                 "room, or lower keep_checkpoints",
                 all, checkpoint, room);
    return SR1_OK;
}

/* ---- journals ---- */

int sr1__folder_text_older(const sr1_trainer *tr, char *text, size_t size)
{
    if (!tr->resumed || !sr1__dir_has(tr->run_folder, "trajectories.jsonl"))
        return 0;
    snprintf(text, size,
             "trajectories.jsonl is of an older version: it stays as it is, and "
             "trajectories from step %" PRId64 " on are in trajectories.jsonl.zst, which "
             "sr1-report reads alone",
             tr->step + 1);
    return 1;
}

/* The step of the last row of the metrics that a stopped run wrote; 0: it wrote none. */
static int64_t find_last_step(const char *path)
{
    struct sr1__map map = {0};
    json_t *row = NULL;
    const char *end, *begin;
    int64_t step = 0;

    if (!sr1__path_exists(path) || sr1__map_open_watched(&map, path, 0) != SR1_OK)
        return 0;
    end = memrchr(map.data, '\n', map.size); /* what follows it is torn */
    begin = end ? memrchr(map.data, '\n', (size_t)(end - (const char *)map.data)) : NULL;
    begin = begin ? begin + 1 : (const char *)map.data;
    if (end && sr1__json_parse(&row, begin, (size_t)(end - begin), path) == SR1_OK)
        step = json_integer_value(json_object_get(row, "step"));
    json_decref(row);
    step = sr1__map_check(&map) == SR1_OK ? step : 0;
    sr1__map_close(&map);
    return step;
}

int sr1__folder_text_lost(const sr1_trainer *tr, char *text, size_t size)
{
    char *path = sr1__path_join(tr->run_folder, "metrics.jsonl");
    int64_t last = path && tr->resumed ? find_last_step(path) : 0;
    int64_t lost = last - tr->step;
    const char *steps = lost == 1 ? "step of work is" : "steps of work are";

    sr1__free(path);
    if (lost <= 0)
        return 0;
    if (tr->saved < 0)
        snprintf(text, size,
                 "the run had come to step %" PRId64 " without a checkpoint: %" PRId64
                 " %s lost, and it begins again at step 1; save_interval "
                 "and save_interval_minutes set when checkpoints are written",
                 last, lost, steps);
    else
        snprintf(text, size,
                 "the run had come to step %" PRId64
                 " and its last checkpoint is of step %" PRId64 ": %" PRId64
                 " %s lost and done again",
                 last, tr->step, lost, steps);
    return 1;
}

/* The power may have failed, or somebody removed the file: what is lost is no reason to
 * refuse the run. */
static void warn_of_loss(const char *path, uint64_t size, int64_t recorded)
{
    sr1__log(SR1_LOG_WARN,
             "%s has %" PRIu64 " of the %" PRId64
             " bytes it had at the checkpoint; the rest is lost",
             path, size, recorded);
}

static sr1_status cut_metrics(struct sr1__jsonl *metrics, const char *path, int64_t size)
{
    if ((uint64_t)size <= sr1__jsonl_size(metrics))
        return sr1__jsonl_truncate(metrics, (uint64_t)size);
    warn_of_loss(path, sr1__jsonl_size(metrics), size);
    return SR1_OK;
}

static sr1_status open_metrics(sr1_trainer *tr, const json_t *state)
{
    char *path = sr1__path_join(tr->run_folder, "metrics.jsonl");
    int64_t size = 0;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1__jsonl_open(&tr->metrics, path);
    if (st == SR1_OK && state)
        st = sr1__json_get_int(state, "metrics_size", &size);
    if (st == SR1_OK)
        st = cut_metrics(tr->metrics, path, size);
    sr1__free(path);
    return st;
}

static sr1_status cut_log(struct sr1__zlines *lines, const char *path, int64_t size)
{
    if ((uint64_t)size <= sr1__zlines_size(lines))
        return sr1__zlines_truncate(lines, (uint64_t)size);
    warn_of_loss(path, sr1__zlines_size(lines), size);
    return sr1__zlines_mend(lines);
}

/* Checkpoints of older versions, and those of runs without it, know nothing of this file:
 * it begins with them. */
static sr1_status open_log(sr1_trainer *tr, const struct sr1__trajectory_log_row *row,
                           const json_t *state, struct sr1__zlines **out)
{
    char *path = sr1__path_join(tr->run_folder, row->file);
    int64_t size = 0;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1__zlines_open(out, path);
    if (st == SR1_OK && json_object_get(state, row->size_key))
        st = sr1__json_get_int(state, row->size_key, &size);
    if (st == SR1_OK)
        st = cut_log(*out, path, size);
    sr1__free(path);
    return st;
}

/* That of validations where one is wanted, or was. */
static sr1_status open_logs(sr1_trainer *tr, const json_t *state)
{
    for (size_t i = 0; i < SR1__TRAJECTORY_LOGS; i++)
        if (i == SR1__LOG_STEPS || tr->set.log_validation_trajectories != 0 ||
            sr1__dir_has(tr->run_folder, sr1__trajectory_logs[i].file))
            SR1__TRY(open_log(tr, &sr1__trajectory_logs[i], state, &tr->logs[i]));
    return SR1_OK;
}

sr1_status sr1__folder_log(const sr1_trainer *tr, int which, const sr1_trajectory *t)
{
    struct sr1__buf line;
    sr1_status st;

    sr1__buf_init(&line, 0);
    st = sr1__trajectory_to_line(t, tr->step, &line);
    if (st == SR1_OK)
        st = sr1__zlines_add(tr->logs[which], line.data, line.len);
    if (st == SR1_E_LIMIT) { /* a log ends no run */
        sr1__log(SR1_LOG_WARN, "a trajectory is not logged: %s", sr1_last_error());
        st = SR1_OK;
    }
    sr1__buf_free(&line);
    return st;
}

static sr1_status open_events(sr1_trainer *tr)
{
    char *path = sr1__path_join(tr->run_folder, "tensorboard");
    sr1_status st = path ? sr1__events_open(&tr->events, path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

sr1_status sr1__folder_open_journals(sr1_trainer *tr)
{
    SR1__TRY(open_metrics(tr, tr->restored));
    SR1__TRY(open_logs(tr, tr->restored));
    SR1__TRY(sr1__mlflow_open(&tr->mlflow, tr->config, tr->run_folder,
                              sr1__jsonl_size(tr->metrics)));
    return sr1__config_bool(tr->config, "tensorboard") ? open_events(tr) : SR1_OK;
}

/* ---- a new run ---- */

/* With paths that hold wherever the run is used from; `out` is where the folder is now,
 * by which it can be found out later that it was moved. */
static sr1_status absolute_config(const sr1_trainer *tr, sr1_config **out)
{
    char real[PATH_MAX];
    sr1_config *c = NULL;
    sr1_status st = sr1_config_copy(&c, tr->config);

    if (st == SR1_OK)
        st = sr1__config_paths_absolute(c);
    if (st == SR1_OK && realpath(tr->run_folder, real))
        st = sr1_config_set(c, "out", real);
    if (st == SR1_OK)
        *out = c;
    else
        sr1_config_free(c);
    return st;
}

sr1_status sr1__folder_begin(sr1_trainer *tr)
{
    SR1__TRY(refuse_file(tr->run_folder));
    SR1__TRY(sr1__dir_make(tr->run_folder));
    SR1__TRY(take_lock(tr->run_folder, CHOOSE_ANOTHER, &tr->lock));
    return make_place(tr);
}

sr1_status sr1__folder_write_config(sr1_trainer *tr)
{
    char *path = sr1__path_join(tr->run_folder, "config.json");
    char *text = NULL;
    sr1_config *c = NULL;
    sr1_status st = path ? absolute_config(tr, &c) : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1_config_to_json(c, &text);
    if (st == SR1_OK)
        st = sr1__file_replace(path, text, strlen(text));
    if (st == SR1_OK)
        st = sr1__record_config(tr, text);
    sr1_config_free(c);
    sr1_free(text);
    sr1__free(path);
    return st;
}
