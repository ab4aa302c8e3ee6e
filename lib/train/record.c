/* train/record.c - write run.json: for each start of the run its command, machine,
 * versions, and how it ended. */
#include "train/internal.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/run_config.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/ext/model_details.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAVED_STEP "saved_step" /* of the newest checkpoint of a start */
#define RECORD_TIME "%Y-%m-%dT%H:%M:%SZ"
#define SYSTEM_FILE_MAX ((size_t)1 << 20)

void sr1__record_time(char out[32])
{
    time_t now = time(NULL);
    struct tm t;

    out[0] = '\0';
    if (gmtime_r(&now, &t))
        strftime(out, 32, RECORD_TIME, &t);
}

/* The same in seconds since 1970; -1: it is none. */
static int64_t parse_time(const char *text)
{
    struct tm t = {0};

    return text && strptime(text, RECORD_TIME, &t) ? (int64_t)timegm(&t) : -1;
}

/* ---- the machine ---- */

/* The rest of the first line that begins with name, without blanks and a colon; NULL
 * where there is none. */
static json_t *read_field(const char *path, const char *name)
{
    struct sr1__buf b;
    json_t *found = NULL;
    const char *at;

    if (sr1__file_read(path, SYSTEM_FILE_MAX, &b) != SR1_OK)
        return NULL;
    for (at = sr1__buf_cstr(&b); at && !found; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, strlen(name)) == 0) {
            at += strlen(name);
            at += strspn(at, " \t:");
            found = json_stringn(at, strcspn(at, "\n"));
        }
    }
    sr1__buf_free(&b);
    return found;
}

/* The models of the NVIDIA GPUs of the machine. */
static json_t *list_gpus(void)
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    json_t *list = json_array();
    char **names = NULL;
    size_t n = 0;

    if (sr1__path_is_dir(folder))
        (void)sr1__dir_list(folder, &names, &n);
    for (size_t i = 0; i < n; i++) {
        char path[512];
        json_t *model;

        snprintf(path, sizeof(path), "%s/%s/information", folder, names[i]);
        model = read_field(path, "Model");
        if (model)
            (void)json_array_append_new(list, model);
    }
    sr1__dir_list_free(names, n);
    return list;
}

static json_t *text_or_null(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;

    return j ? j : json_null();
}

static json_t *describe_machine(void)
{
    char host[256] = "";
    json_t *cpu = read_field("/proc/cpuinfo", "model name");

    (void)gethostname(host, sizeof(host) - 1);
    return json_pack("{s:o, s:I, s:o, s:I, s:o}", "host", text_or_null(host), "pid",
                     (json_int_t)getpid(), "cpu", cpu ? cpu : json_null(), "processors",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "gpus", list_gpus());
}

/* ---- what it was configured as ---- */

sr1_status sr1__record_config(sr1_trainer *tr, const char *config)
{
    json_decref(tr->record);
    tr->record = NULL;
    return sr1__json_parse(&tr->record, config, strlen(config), "config.json");
}

/* What the plan chose; {} where all was given. */
static json_t *describe_chosen(const struct sr1__chosen *c)
{
    json_t *object = json_object();

    if (c->micro_batch_tokens > 0)
        json_object_set_new(object, "micro_batch_tokens",
                            json_integer(c->micro_batch_tokens));
    if (c->max_rows > 0)
        json_object_set_new(object, "max_rows", json_integer(c->max_rows));
    return object;
}

sr1_status sr1__record_chosen(sr1_trainer *tr)
{
    json_t *chosen = describe_chosen(&tr->chosen);
    int bad = !chosen || json_object_update(tr->record, chosen) != 0;

    json_decref(chosen);
    return bad ? sr1__fail_nomem("record of the configuration") : SR1_OK;
}

/* ---- the file ---- */

/* The starts so far; none where nothing was recorded. */
static json_t *read_starts(const char *run)
{
    json_t *record = sr1__config_run_record(run);
    json_t *starts = json_incref(json_object_get(record, "starts"));

    json_decref(record);
    if (json_is_array(starts))
        return starts;
    json_decref(starts);
    return json_array();
}

static sr1_status write_starts(const sr1_trainer *tr, json_t *starts)
{
    char *path = sr1__path_join(tr->run_folder, SR1__RECORD_FILE);
    json_t *file = json_pack("{s:i, s:O}", "format", 1, "starts", starts);
    sr1_status st =
        path && file ? sr1__folder_check_there(tr) : sr1__fail_nomem("record of the run");

    if (st == SR1_OK)
        st = sr1__json_save(file, 2, path);
    json_decref(file);
    sr1__free(path);
    return st;
}

static json_t *describe_start(const sr1_trainer *tr, const sr1_run_callbacks *cb)
{
    char now[32];
    json_t *start;

    sr1__record_time(now);
    start = json_pack("{s:s, s:n, s:s, s:n, s:I, s:n, s:s, s:o, s:s, s:s, s:s, s:I, s:o}",
                      "begun", now, "ended", "outcome", "under way", "error", "from_step",
                      (json_int_t)tr->step, "to_step", "version", sr1_version(), "commit",
                      text_or_null(cb->commit), "torch", sr1__torch_version(), "device",
                      sr1_model_device(tr->model), "dtype", sr1_model_dtype(tr->model),
                      "parameters",
                      (json_int_t)sr1_model_info(tr->model, SR1_MODEL_PARAMETERS),
                      "command", text_or_null(cb->command));
    if (start && (json_object_set_new(start, "world_size",
                                      json_integer(sr1_trainer_world_size(tr))) ||
                  json_object_set_new(start, SR1__GIVEN, sr1__given_json(tr)) != 0 ||
                  json_object_set_new(start, "chosen", describe_chosen(&tr->chosen)) ||
                  json_object_update_new(start, describe_machine()) != 0)) {
        json_decref(start);
        start = NULL;
    }
    return start;
}

sr1_status sr1__record_begin(sr1_trainer *tr, const sr1_run_callbacks *cb)
{
    json_t *start = describe_start(tr, cb);

    tr->starts = tr->resumed ? read_starts(tr->run_folder) : json_array();
    if (json_array_append_new(tr->starts, start) != 0) /* which frees start */
        return sr1__fail_nomem("record of the run");
    return write_starts(tr, tr->starts);
}

void sr1__record_keep_date(const sr1_trainer *tr)
{
    json_t *starts = read_starts(tr->run_folder);
    const json_t *begun = json_object_get(json_array_get(starts, 0), "begun");
    int64_t time = parse_time(json_string_value(begun));

    if (time >= 0)
        sr1__chat_set_time(sr1_rollout_tokenizer(tr->rollout), time);
    json_decref(starts);
}

/* The best validation so far; null where there is none. */
static json_t *describe_best(const sr1_trainer *tr)
{
    return tr->best.step == 0
               ? json_null()
               : json_pack("{s:s, s:f, s:I}", "metric", tr->set.best_metric, "value",
                           tr->best.value, "step", (json_int_t)tr->best.step);
}

sr1_status sr1__record_saved(sr1_trainer *tr)
{
    json_t *start = json_array_get(tr->starts, json_array_size(tr->starts) - 1);

    if (json_object_set_new(start, SAVED_STEP, json_integer(tr->saved)) != 0 ||
        (*tr->set.best_metric &&
         json_object_set_new(start, "best", describe_best(tr)) != 0))
        return sr1__fail_nomem("record of the run");
    return write_starts(tr, tr->starts);
}

/* Did a start go on from a checkpoint, or write one? Older records do not have the step
 * of the newest; a run that was done or stopped wrote one at its end. */
static int had_checkpoint(const json_t *start)
{
    const char *outcome = json_string_value(json_object_get(start, "outcome"));

    if (json_integer_value(json_object_get(start, "from_step")) > 0 ||
        json_integer_value(json_object_get(start, SAVED_STEP)) > 0)
        return 1;
    return outcome && (strcmp(outcome, "done") == 0 ||
                       (strcmp(outcome, "stopped") == 0 &&
                        json_integer_value(json_object_get(start, "to_step")) > 0));
}

int sr1__record_has_checkpoint(const sr1_trainer *tr)
{
    json_t *starts = read_starts(tr->run_folder), *start;
    int had = 0;
    size_t i;

    json_array_foreach(starts, i, start)
    {
        had |= had_checkpoint(start);
    }
    json_decref(starts);
    return had;
}

/* How it ended is worth less than why: a failure here says nothing. */
void sr1__record_end(sr1_trainer *tr, sr1_status status)
{
    json_t *start = json_array_get(tr->starts, json_array_size(tr->starts) - 1);
    const char *outcome = status == SR1_OK            ? "done"
                          : status == SR1_E_CANCELLED ? "stopped"
                                                      : "failed";
    struct sr1__error e;
    char now[32];

    if (!start) /* it never began, or another process has the record */
        return;
    sr1__error_save(&e, status);
    sr1__record_time(now);
    (void)json_object_set_new(start, "ended", json_string(now));
    (void)json_object_set_new(start, "to_step", json_integer(tr->step));
    if (tr->model_step > 0)
        (void)json_object_set_new(start, SR1__MODEL_STEP, json_integer(tr->model_step));
    if (tr->stopped.by != SR1__STOP_NONE)
        (void)json_object_set_new(start, "stopped_by",
                                  json_pack("{s:s, s:s}", "key",
                                            sr1__stop_key((enum sr1__stop)tr->stopped.by),
                                            "why", tr->stopped_why));
    (void)json_object_set_new(start, "outcome", json_string(outcome));
    if (status != SR1_OK && status != SR1_E_CANCELLED)
        (void)json_object_set_new(start, "error", text_or_null(e.text));
    (void)write_starts(tr, tr->starts);
    if (status != SR1_OK)
        (void)sr1__error_raise(&e);
}
