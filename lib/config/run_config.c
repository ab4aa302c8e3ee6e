/* config/run_config.c - load the configuration that a run folder records. */
#include "config/run_config.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "config/keys.h"
#include "config/model_folder.h"
#include "config/paths.h"
#include "config/run_steps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX ((size_t)16 << 20)

sr1_status sr1__config_to_object(const sr1_config *c, json_t **out)
{
    char *text = NULL;
    sr1_status st;

    SR1__TRY(sr1_config_to_json(c, &text));
    st = sr1__json_parse(out, text, strlen(text), "configuration");
    sr1_free(text);
    return st;
}

/* ---- changes ---- */

static sr1_status parse_changes(json_t *rows, const struct sr1__buf *b, const char *path)
{
    const char *at = sr1__buf_cstr(b), *end = at + b->len;

    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        json_t *row = NULL;

        if (!stop) /* torn: it never held */
            return SR1_OK;
        SR1__TRY(sr1__context(sr1__json_parse(&row, at, (size_t)(stop - at), NULL),
                              "%s:%zu", path, line));
        if (json_array_append_new(rows, row) != 0)
            return sr1__fail_nomem("changes of the configuration");
        at = stop + 1;
    }
    return SR1_OK;
}

sr1_status sr1__config_changes(json_t **out, const char *run)
{
    char *path = sr1__path_join(run, SR1__CHANGES_FILE);
    json_t *rows = json_array();
    struct sr1__buf b = {0};
    sr1_status st =
        path && rows ? SR1_OK : sr1__fail_nomem("changes of the configuration");

    if (st == SR1_OK && sr1__path_exists(path)) {
        st = sr1__file_read(path, CHANGES_MAX, &b);
        if (st == SR1_OK)
            st = parse_changes(rows, &b, path);
        sr1__buf_free(&b);
    }
    sr1__free(path);
    SR1__RETURN_NEW(out, rows, st, json_decref);
}

/* Those that config.json does not hold itself. */
static sr1_status apply_changes(sr1_config *c, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *key, *to, *by;

        SR1__TRY(sr1__json_get_str(row, "by", &by));
        SR1__TRY(sr1__json_get_str(row, "key", &key));
        SR1__TRY(sr1__json_get_str(row, "to", &to));
        if (strcmp(by, SR1__CHANGED_BY_RESUME) == 0)
            SR1__TRY(sr1_config_set(c, key, to));
    }
    return SR1_OK;
}

/* ---- the configuration ---- */

/* Why `run`, which is there, is none: it may be a checkpoint of one. */
static sr1_status fail_no_run(const char *run)
{
    char *above = NULL;
    sr1_status st;

    SR1__TRY(sr1__config_run_above(run, &above));
    st = above ? sr1__fail(SR1_E_NOT_FOUND,
                           "%s is a checkpoint and no run; name the run, %s, which goes "
                           "on from the newest one",
                           run, above)
               : sr1__fail(SR1_E_NOT_FOUND, "%s holds no run (no config.json)", run);
    sr1__free(above);
    return st;
}

static sr1_status load_original(sr1_config *c, const char *run)
{
    char *path = sr1__path_join(run, "config.json");
    struct sr1__buf b = {0};
    sr1_status st = SR1_OK;

    SR1__CHECK_ALLOC(path, "path");
    if (!sr1__path_exists(path) && sr1__path_exists(run) && !sr1__path_is_dir(run))
        st = sr1__fail(SR1_E_CONFIG,
                       "%s is a file, and a run is a folder: the one that sr1-train made "
                       "(key out)",
                       run);
    else if (!sr1__path_exists(path))
        st = sr1__path_exists(run)
                 ? fail_no_run(run)
                 : sr1__fail(SR1_E_NOT_FOUND, "there is no folder %s", run);
    if (st == SR1_OK)
        st = sr1__file_read(path, 1 << 20, &b);
    if (st == SR1_OK)
        st = sr1__config_load_text(c, sr1__buf_cstr(&b), b.len, path);
    if (st == SR1_E_PARSE)
        st = sr1__fail(st,
                       "%s; put the file back from a copy; without one, a model of the "
                       "run is %s/checkpoints/step-N/model",
                       sr1_last_error(), run);
    sr1__buf_free(&b);
    sr1__free(path);
    return st;
}

static sr1_status load_record(sr1_config *c, const char *run)
{
    json_t *rows = NULL;
    sr1_status st;

    SR1__TRY(load_original(c, run));
    SR1__TRY(sr1__config_changes(&rows, run));
    st = sr1__context(apply_changes(c, rows), "%s/" SR1__CHANGES_FILE, run);
    json_decref(rows);
    return st;
}

sr1_status sr1__config_load_recorded(sr1_config *c, const char *run)
{
    sr1_status st;

    sr1__config_read_record(c, 1);
    st = load_record(c, run);
    sr1__config_read_record(c, 0);
    return st;
}

/* ---- its policy ---- */

/* The step of the newest checkpoint whose model is there, -1: there is none. */
static sr1_status find_newest_model(const char *run, int64_t *step)
{
    int64_t *steps = NULL;
    size_t n = 0;
    int whole = 0;
    sr1_status st = sr1__run_steps(run, "", &steps, &n);

    *step = -1;
    for (; n > 0 && st == SR1_OK && !whole; n--) {
        char *folder = sr1__run_step_folder(run, steps[n - 1], "");

        st = folder ? sr1__run_step_has_model(folder, &whole) : sr1__fail_nomem("path");
        if (st == SR1_OK && whole)
            *step = steps[n - 1];
        else if (st == SR1_OK)
            sr1__log(SR1_LOG_WARN, "%s is torn and passed over", folder);
        sr1__free(folder);
    }
    sr1__free(steps);
    return st;
}

json_t *sr1__config_run_record(const char *run)
{
    char *path = sr1__path_join(run, SR1__RECORD_FILE);
    json_t *record = NULL;

    if (path && sr1__path_exists(path))
        (void)sr1__json_load(&record, path, SR1__RECORD_MAX);
    sr1__free(path);
    return record;
}

/* The step at which RUN/model was written, of whichever step its weights are; where
 * nothing was recorded, a step after all others. */
static int64_t read_model_step(const char *run)
{
    json_t *record = sr1__config_run_record(run), *start;
    int64_t last = INT64_MAX;
    size_t i;

    json_array_foreach(json_object_get(record, "starts"), i, start)
    {
        if (json_is_integer(json_object_get(start, SR1__MODEL_STEP)))
            last = json_integer_value(json_object_get(start, "to_step"));
    }
    json_decref(record);
    return last;
}

json_t *sr1__config_given(const char *run)
{
    json_t *record = sr1__config_run_record(run);
    const json_t *starts = json_object_get(record, "starts");
    json_t *last = json_array_get(starts, json_array_size(starts) - 1);
    json_t *given = json_incref(json_object_get(last, SR1__GIVEN));

    json_decref(record);
    return given;
}

static sr1_status keep_given(sr1_config *c, const char *run)
{
    json_t *given = sr1__config_given(run);
    sr1_status st =
        sr1__config_set_given(c, json_string_value(json_object_get(given, "engine")),
                              json_string_value(json_object_get(given, "environment")));

    json_decref(given);
    return st;
}

/* Is a process training in the run's folder? */
static int is_under_way(const char *run)
{
    char holder[SR1__LOCK_HOLDER];
    char *path = sr1__path_join(run, ".lock");
    int yes = path && sr1__lock_look(path, holder) == SR1_E_STATE;

    sr1__free(path);
    return yes;
}

static sr1_status fail_no_model(const char *run)
{
    char quoted[SR1__QUOTED_SIZE];

    if (is_under_way(run))
        return sr1__fail(SR1_E_NOT_FOUND,
                         "the run %s is under way and has no checkpoint yet; wait for "
                         "its first (keys save_interval, save_interval_minutes)",
                         run);
    sr1__quote_word(run, quoted, sizeof(quoted));
    return sr1__fail(SR1_E_NOT_FOUND,
                     "the run %s has neither model/ nor a whole checkpoint yet; go on "
                     "with it by sr1-train --resume %s",
                     run, quoted);
}

/* The model that training ended with; that of a checkpoint where there is none, or where
 * the run went on past it. */
static sr1_status find_run_model(const char *run, struct sr1__buf *out)
{
    int ended = sr1__dir_has(run, "model/config.json");
    int64_t newest;

    SR1__TRY(find_newest_model(run, &newest));
    if (ended && newest <= read_model_step(run))
        sr1__buf_fmt(out, "%s/model", run);
    else if (newest >= 0)
        sr1__buf_fmt(out, "%s/checkpoints/step-%lld/model", run, (long long)newest);
    else
        return fail_no_model(run);
    return SR1_OK;
}

/* The revising model of critiques is the policy as training began, not as it is now. */
static sr1_status keep_proxy(sr1_config *c)
{
    if (*sr1__config_str(c, "proxy_model"))
        return SR1_OK;
    return sr1_config_set(c, "proxy_model", sr1__config_str(c, "model_name_or_path"));
}

/* Keys of generation by servers, where this process generates. */
static const struct {
    const char *key, *value;
} own_generation[] = {
    {"use_openai", "false"}, {"async_level", "0"}, {"partial_rollout", "false"}};

sr1_status sr1__config_generate_here(sr1_config *c)
{
    for (size_t i = 0; i < sizeof(own_generation) / sizeof(own_generation[0]); i++)
        SR1__TRY(sr1_config_set(c, own_generation[i].key, own_generation[i].value));
    return SR1_OK;
}

/* A run that began with an adapter and trained all weights has a whole model. */
static sr1_status drop_base(sr1_config *c, const char *model)
{
    int is_adapter;

    SR1__TRY(sr1__adapter_is_folder(model, &is_adapter));
    return is_adapter ? SR1_OK : sr1_config_set(c, "base_model_name_or_path", "");
}

static sr1_status use_run(sr1_config *c, const char *run, struct sr1__buf *model)
{
    SR1__TRY(sr1__config_load_recorded(c, run));
    SR1__TRY(sr1__config_paths_moved(c, run));
    SR1__TRY(sr1_config_set(c, "out", run));
    if (model->len == 0)
        SR1__TRY(find_run_model(run, model));
    SR1__TRY(sr1__buf_status(model, "path of a model"));
    SR1__TRY(keep_proxy(c));
    SR1__TRY(keep_given(c, run));
    SR1__TRY(sr1__config_generate_here(c)); /* a server has older weights, or others */
    SR1__TRY(sr1_config_set(c, "model_name_or_path", sr1__buf_cstr(model)));
    return drop_base(c, sr1__buf_cstr(model));
}

/* A folder below a run in place of the run. */
struct below {
    char run[PATH_MAX]; /* real */
    int checkpoint;     /* RUN/checkpoints/step-N, not the model in it */
};

/* RUN/checkpoints/step-N, and with RUN above them RUN/checkpoints/step-N/model and
 * RUN/model; 0 for others. */
static int find_run_above(const char *folder, struct below *b)
{
    int climb = 0;

    b->checkpoint = sr1__dir_has(folder, "state.json");
    if (b->checkpoint && sr1__dir_has(folder, "model/config.json"))
        climb = 2;
    else if (!sr1__dir_has(folder, "config.json") ||
             sr1__dir_has(folder, "metrics.jsonl"))
        return 0; /* no model, or a run of its own, wherever it lies */
    else if (sr1__dir_has(folder, "../state.json") &&
             sr1__dir_has(folder, "../../../config.json"))
        climb = 3;
    else if (sr1__dir_has(folder, "../metrics.jsonl") &&
             sr1__dir_has(folder, "../config.json"))
        climb = 1;
    if (climb == 0 || !realpath(folder, b->run))
        return 0;
    while (climb-- > 0) {
        char *slash = strrchr(b->run, '/');

        if (slash)
            *slash = '\0';
    }
    return 1;
}

sr1_status sr1__config_run_above(const char *folder, char **run)
{
    struct below b;

    *run = NULL;
    if (!find_run_above(folder, &b) || !sr1__dir_has(b.run, "config.json"))
        return SR1_OK;
    *run = sr1__strdup(b.run);
    return *run ? SR1_OK : sr1__fail_nomem("path");
}

sr1_status sr1_config_load_run(sr1_config *config, const char *folder)
{
    struct below b;
    int below = folder && find_run_above(folder, &b);
    struct sr1__buf model;
    sr1_config *c = NULL;
    sr1_status st;

    if (!config || !folder)
        return sr1__fail(SR1_E_INVALID, "load a run: config and folder are required");
    if (below && !sr1__dir_has(b.run, "config.json"))
        return sr1__fail(
            SR1_E_NOT_FOUND,
            "%s is a checkpoint, but its run is not above it; name its model "
            "alone: %s/model",
            folder, folder);
    sr1__buf_init(&model, 1 << 16);
    if (below)
        sr1__buf_fmt(&model, "%s%s", folder, b.checkpoint ? "/model" : "");
    st = sr1_config_copy(&c, config);
    if (st == SR1_OK)
        st = use_run(c, below ? b.run : folder, &model);
    if (st == SR1_OK)
        sr1__config_swap(config, c);
    sr1__buf_free(&model);
    sr1_config_free(c);
    return st;
}
