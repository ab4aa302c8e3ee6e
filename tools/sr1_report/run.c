/* run.c - read a run folder that may be under way, cut short or damaged. */
#include "sr1_report/report.h"

#include "common/args.h"
#include "sr1_report/lines.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SMALL_FILE ((size_t)4 << 20)
#define ROW_MAX_BYTES ((size_t)4 << 20)

const char *run_path(const struct loaded_run *r, const char *name, char out[4096])
{
    snprintf(out, 4096, "%s/%s", r->folder, name);
    return out;
}

static time_t get_modified_time(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mtime : 0;
}

/* A small JSON object, NULL when it is not there or broken. */
static json_t *load_json_object(const char *path)
{
    struct stat st;
    json_t *v;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > SMALL_FILE)
        return NULL;
    v = json_load_file(path, JSON_ALLOW_NUL, NULL);
    if (json_is_object(v))
        return v;
    json_decref(v);
    return NULL;
}

const char *run_setting(const struct loaded_run *r, const char *key)
{
    const char *s = json_string_value(json_object_get(r->config, key));

    return s != NULL ? s : "";
}

int run_is_sft(const struct loaded_run *r)
{
    return strcmp(run_setting(r, "stage"), "sft") == 0;
}

double run_steps_done(const struct loaded_run *r)
{
    return r->saved > r->series.last_step ? (double)r->saved : r->series.last_step;
}

/* ---- metrics.jsonl ---- */

#define STEPS_MAX 0x1p53 /* from where on a double counts no longer */

/* A row as an object with a step above the last one's; else NULL, and counted. */
static json_t *read_metrics_row(struct loaded_run *r, const struct report_line *l,
                                double *step)
{
    json_t *row;

    if (l->len > ROW_MAX_BYTES || (!l->whole && l->len == 0)) {
        r->rows.too_long++;
        return NULL;
    }
    if (!l->whole) {
        r->rows.cut++;
        return NULL;
    }
    row = json_loadb(l->text, l->len, JSON_ALLOW_NUL, NULL);
    *step = json_number_value(json_object_get(row, "step"));
    if (!json_is_number(json_object_get(row, "step")) || !(*step < STEPS_MAX)) {
        r->rows.broken++;
        json_decref(row);
        return NULL;
    }
    if (*step >= 0 && (r->series.n_rows == 0 || *step > r->series.last_step))
        return row;
    r->rows.backward++;
    json_decref(row);
    return NULL;
}

static int read_metrics(struct loaded_run *r, const char *path)
{
    struct lines file;
    struct report_line l;
    int failed = text_lines_open(&file, path);

    if (failed == ENOENT)
        return 0;
    if (failed) {
        fprintf(stderr, "sr1-report: cannot read %s: %s\n", path, strerror(failed));
        return failed == ENOMEM ? TOOL_FAILED : TOOL_USAGE;
    }
    r->has_metrics = 1;
    r->last = get_modified_time(path);
    while (!failed && lines_next(&file, &l)) {
        double step;
        json_t *row = read_metrics_row(r, &l, &step);

        if (row != NULL && series_add(&r->series, step, row) != 0)
            failed = ENOMEM;
        json_decref(row);
    }
    failed = failed ? failed : file.error;
    lines_close(&file);
    if (!failed)
        return 0;
    fprintf(stderr, "sr1-report: cannot read %s: %s\n", path, strerror(failed));
    return TOOL_FAILED;
}

/* ---- checkpoints ---- */

/* The checkpoint of this step, unless the folder is a copy of another step's. */
static void take_checkpoint(struct loaded_run *r, const char *folder, int64_t step)
{
    char path[4200];
    json_t *all;
    const json_t *state, *own;

    snprintf(path, sizeof(path), "%s/step-%lld/state.json", folder, (long long)step);
    all = load_json_object(path);
    state = json_object_get(all, "state");
    own = json_object_get(all, "step");
    if (!own || json_integer_value(own) == step) {
        r->saved = step;
        r->planned = json_integer_value(json_object_get(state, "planned"));
    }
    json_decref(all);
}

static void read_checkpoint(struct loaded_run *r)
{
    char path[4096];
    DIR *d = opendir(run_path(r, "checkpoints", path));
    const struct dirent *e;

    r->saved = -1;
    while (d != NULL && (e = readdir(d)) != NULL) {
        long long step = -1;
        int used = 0;

        if (sscanf(e->d_name, "step-%lld%n", &step, &used) == 1 && !e->d_name[used] &&
            step > r->saved && (double)step < STEPS_MAX)
            take_checkpoint(r, path, step);
    }
    if (d != NULL)
        closedir(d);
}

/* ---- starts, and changes of the configuration ---- */

#define CHANGES_MAX 1000

static json_t *load_starts(const char *path)
{
    json_t *record = load_json_object(path);
    json_t *starts = json_incref(json_object_get(record, "starts"));

    json_decref(record);
    if (json_is_array(starts))
        return starts;
    json_decref(starts);
    return NULL;
}

static json_t *load_changes(const char *path)
{
    json_t *rows = json_array();
    struct lines file;
    struct report_line l;

    if (text_lines_open(&file, path) != 0)
        return rows;
    while (json_array_size(rows) < CHANGES_MAX && lines_next(&file, &l)) {
        json_t *row = l.whole && l.len <= ROW_MAX_BYTES
                          ? json_loadb(l.text, l.len, JSON_ALLOW_NUL, NULL)
                          : NULL;

        if (json_is_object(row))
            (void)json_array_append(rows, row);
        json_decref(row);
    }
    lines_close(&file);
    return rows;
}

/* A change is recorded as text; in place of a number it is one again. */
static json_t *read_changed_value(const json_t *before, json_t *to)
{
    json_t *value = json_is_string(before)
                        ? NULL
                        : json_loads(json_is_string(to) ? json_string_value(to) : "",
                                     JSON_DECODE_ANY, NULL);

    return value != NULL ? value : json_incref(to);
}

/* config.json stays as the run began, or as it was edited since; what holds is what the
 * run was last resumed with. */
static void apply_changes(struct loaded_run *r)
{
    size_t i;
    json_t *row;

    json_array_foreach(r->changes, i, row)
    {
        const char *key = json_string_value(json_object_get(row, "key"));
        const char *by = json_string_value(json_object_get(row, "by"));
        json_t *to = json_object_get(row, "to");

        if (key == NULL || to == NULL || by == NULL || strcmp(by, "resume") != 0)
            continue;
        (void)json_object_set_new(
            r->config, key, read_changed_value(json_object_get(r->config, key), to));
        if (strcmp(key, "max_steps") == 0)
            r->planned = 0; /* the checkpoint's steps are those of before */
    }
}

/* ---- the whole ---- */

static int report_no_run(const struct loaded_run *r)
{
    struct stat st;

    if (stat(r->folder, &st) != 0)
        fprintf(stderr, "sr1-report: cannot open %s: %s\n", r->folder, strerror(errno));
    else
        fprintf(stderr,
                "sr1-report: %s holds no run (no config.json, no metrics.jsonl); name "
                "the folder that sr1-train says it wrote\n",
                r->folder);
    return TOOL_USAGE;
}

/* A Hugging Face folder has a config.json too. */
static int is_model(const struct loaded_run *r)
{
    return !r->has_metrics && json_object_get(r->config, "architectures") != NULL;
}

static int report_model_folder(const struct loaded_run *r)
{
    fprintf(stderr,
            "sr1-report: %s holds a model, not a run; name the folder that sr1-train "
            "says it wrote\n",
            r->folder);
    return TOOL_USAGE;
}

int run_read(struct loaded_run *r, const char *folder)
{
    char path[4096];
    struct stat st;
    int code;

    memset(r, 0, sizeof(*r));
    r->folder = strdup(folder);
    if (r->folder == NULL) {
        fprintf(stderr, "sr1-report: out of memory\n");
        return TOOL_FAILED;
    }
    r->begun = get_modified_time(run_path(r, "config.json", path));
    r->config = load_json_object(path);
    r->starts = load_starts(run_path(r, "run.json", path));
    r->changes = load_changes(run_path(r, "config-changes.jsonl", path));
    read_checkpoint(r);
    apply_changes(r);
    if (r->planned <= 0)
        r->planned = json_integer_value(json_object_get(r->config, "max_steps"));
    run_path(r, "model", path);
    r->has_model = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    code = read_metrics(r, run_path(r, "metrics.jsonl", path));
    if (code == 0 && r->begun == 0 && !r->has_metrics)
        return report_no_run(r);
    return code == 0 && is_model(r) ? report_model_folder(r) : code;
}

void run_free(struct loaded_run *r)
{
    free(r->folder);
    free(r->label);
    json_decref(r->config);
    json_decref(r->starts);
    json_decref(r->changes);
    series_free(&r->series);
}
