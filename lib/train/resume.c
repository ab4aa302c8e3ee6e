/* train/resume.c - resume a run: the keys that may change, and the record of those that
 * did. */
#include "train/ranks.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/struct.h"
#include "config/choices.h"
#include "config/paths.h"
#include "config/run_config.h"

#include <searchr1/ext/config_names.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- which keys may change ---- */

/* What no checkpoint depends on. */
static const char *const free_keys[] = {
#define GROUP(text)
#define FREE(key) #key,
#include "train/resume_keys.def"
#undef GROUP
#undef FREE
};

/* Why others may not, where there is more to say than that the rest of the run would be
 * another experiment. */
static const struct {
    const char *key, *why;
} bound_keys[] = {
    {"out", "a run goes on in its own folder"},
    {"name", "a run goes on in its own folder"},
    {"model_name_or_path",
     "the checkpoint holds the weights (if the model's folder was moved, a link at its "
     "old place is enough)"},
    {"critic_model", "the checkpoint holds the weights"},
    {"lora_rank", "the checkpoint holds the adapter"},
    {"lora_alpha", "the checkpoint holds the adapter"},
    {"lora_targets", "the checkpoint holds the adapter"},
    {"critic_lora_rank", "the checkpoint holds the adapter"},
    {"critic_lora_alpha", "the checkpoint holds the adapter"},
    {"critic_lora_targets", "the checkpoint holds the adapter"},
    {"tokenizer", "the checkpoint's weights were trained with this one"},
    {"dtype", "the checkpoint's weights and optimizer are of this type"},
    {"advantage", "the checkpoint has a critic by it, or none"},
    {"seed", "the order of the questions and all samples follow from it"},
    {"shuffle", "the checkpoint's place in the data follows from it"},
    {"train_weights", "the checkpoint's place in the data follows from it"},
    {"curriculum_field", "the checkpoint's place in the data follows from it"},
    {"batch_size", "the checkpoint's place in the data follows from it"},
    {"validation_split", "which questions are trained on follows from it"},
    {"test_split", "which questions are trained on follows from it"},
    {"query_selection", "the checkpoint holds what the rule knows of the questions"},
    {"kl_reference", "the reference is the policy that training began with"},
    {"reference_sync_steps", "the checkpoint holds where the reference has moved"},
};

/* Models of which the checkpoint holds an adapter alone may lie in another place: that
 * their weights are the same is checked (state.c). */
static const struct {
    const char *key, *rank;
} base_keys[] = {
    {"model_name_or_path", "lora_rank"},
    {"critic_model", "critic_lora_rank"},
};

static int is_free(const sr1_config *c, const char *key)
{
    for (size_t i = 0; i < sizeof(free_keys) / sizeof(free_keys[0]); i++)
        if (strcmp(free_keys[i], key) == 0)
            return 1;
    for (size_t i = 0; i < sizeof(base_keys) / sizeof(base_keys[0]); i++)
        if (strcmp(base_keys[i].key, key) == 0)
            return sr1__config_int(c, base_keys[i].rank) > 0;
    return 0;
}

static sr1_status refuse_change(const char *key)
{
    const char *why = "the rest of the run would be another experiment";

    for (size_t i = 0; i < sizeof(bound_keys) / sizeof(bound_keys[0]); i++)
        if (strcmp(bound_keys[i].key, key) == 0)
            why = bound_keys[i].why;
    return sr1__fail(SR1_E_CONFIG,
                     "key '%s' cannot change when a run goes on: %s; leave it out, or "
                     "begin a new run with it",
                     key, why);
}

/* The key of "key=value", checked; pairs of unknown keys are refused by the setting. */
static sr1_status set_pair(sr1_config *c, const char *pair)
{
    const char *equals = pair ? strchr(pair, '=') : NULL;
    char *key = equals ? sr1__strndup(pair, (size_t)(equals - pair)) : NULL;
    int32_t set;
    sr1_status st;

    if (!equals)
        return sr1__fail(SR1_E_CONFIG,
                         "resume: '%.80s' is not of the form key=value (a configuration "
                         "file is not given: the run has its own)",
                         pair ? pair : "");
    if (!key)
        return sr1__fail_nomem("configuration key");
    st = sr1_config_is_set(c, key, &set); /* is there such a key? */
    if (st == SR1_OK && !is_free(c, key))
        st = refuse_change(key);
    if (st == SR1_OK)
        st = sr1_config_set_pair(c, pair);
    if (st == SR1_OK)
        st = sr1__config_path_absolute(c, key); /* the recorded ones stay as they are */
    sr1__free(key);
    return st;
}

/* ---- the record ---- */

/* As sr1_config_set takes it; NULL without memory. */
static char *value_text(const json_t *v)
{
    struct sr1__buf b;
    char number[32];
    char *text;

    if (json_is_string(v))
        return sr1__strdup(json_string_value(v));
    if (json_is_real(v)) {
        sr1__format_real(json_real_value(v), number);
        return sr1__strdup(number);
    }
    sr1__buf_init(&b, 0);
    text = sr1__json_dump(v, 0, &b) == SR1_OK ? sr1__buf_take(&b) : NULL;
    sr1__buf_free(&b);
    return text;
}

static sr1_status add_change(json_t *rows, int64_t step, const char *key,
                             const json_t *from, const json_t *to, const char *by)
{
    char *old = value_text(from), *new = value_text(to), now[32];
    json_t *row;
    sr1_status st = SR1_OK;

    sr1__record_time(now);
    row = old && new
              ? json_pack("{s:I, s:s, s:s, s:s, s:s, s:s}", "step", (json_int_t)step,
                          "time", now, "key", key, "from", old, "to", new, "by", by)
              : NULL;
    if (!row || json_array_append_new(rows, row) != 0)
        st = sr1__fail_nomem("changes of the configuration");
    else if (strcmp(by, SR1__CHANGED_BY_FILE) == 0)
        sr1__log(SR1_LOG_WARN,
                 "config.json was edited since the checkpoint of step %" PRId64
                 ": %s was %s and is %s from here on",
                 step, key, old, new);
    sr1__free(old);
    sr1__free(new);
    return st;
}

/* Was this change written down by an earlier attempt to go on from here? */
static const json_t *last_change(const json_t *rows, const char *key)
{
    for (size_t i = json_array_size(rows); i-- > 0;) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "key"));

        if (name && strcmp(name, key) == 0)
            return row;
    }
    return NULL;
}

static int is_given(const char *const *pairs, size_t n, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < n; i++)
        if (strncmp(pairs[i], key, len) == 0 && pairs[i][len] == '=')
            return 1;
    return 0;
}

/* The file of another name, or the same with other rows in it. */
static int is_other_file(const sr1_trainer *tr, const char *key)
{
    return tr->mark.other && strcmp(key, tr->stage->data) == 0;
}

/* Note in tr->changes how the configuration differs from that of the checkpoint. */
static sr1_status note_changes(sr1_trainer *tr, const json_t *old, const json_t *recorded,
                               const sr1_resume_options *o)
{
    const char *key;
    json_t *to;

    json_object_foreach(tr->record, key, to)
    {
        const json_t *from = json_object_get(old, key);
        const json_t *known = last_change(recorded, key);
        const char *by = json_string_value(json_object_get(known, "by"));
        int given = is_given(o->pairs, o->n_pairs, key);

        if (!from || strcmp(key, "out") == 0 ||
            (json_equal(from, to) && !is_other_file(tr, key)))
            continue;
        if (known && json_integer_value(json_object_get(known, "step")) >= tr->step &&
            !given)
            continue;
        given |= by && strcmp(by, SR1__CHANGED_BY_RESUME) == 0;
        SR1__TRY(add_change(tr->changes, tr->step, key, from, to,
                            given ? SR1__CHANGED_BY_RESUME : SR1__CHANGED_BY_FILE));
    }
    return SR1_OK;
}

static const char *show_side(const json_t *change, const char *side)
{
    const char *s = json_string_value(json_object_get(change, side));

    return s && *s ? s : "not set";
}

int sr1__resume_change_text(const sr1_trainer *tr, size_t i, char *text, size_t size)
{
    const json_t *change = json_array_get(tr->changes, i);
    const char *by = json_string_value(json_object_get(change, "by"));

    if (!by || strcmp(by, SR1__CHANGED_BY_RESUME) != 0) /* that was told when read */
        return 0;
    snprintf(text, size, "%s was %s and is %s from step %" PRId64 " on",
             json_string_value(json_object_get(change, "key")), show_side(change, "from"),
             show_side(change, "to"), tr->step + 1);
    return 1;
}

int sr1__resume_rate_text(const sr1_trainer *tr, char *text, size_t size)
{
    struct sr1__schedule then = tr->set.schedule;
    double is = sr1__schedule_rate(&tr->policy.schedule, tr->step), was;

    if (tr->rate_steps_then == 0)
        return 0;
    then.first = tr->policy.schedule.first;
    sr1__schedule_plan(&then, tr->rate_steps_then);
    was = sr1__schedule_rate(&then, tr->step);
    if (is == was)
        return 0;
    snprintf(text, size,
             "learning rates go by the %" PRId64 " steps that there are now, not by "
             "%" PRId64 ": that of step %" PRId64 " is %.3g in place of %.3g",
             sr1__schedule_steps(&tr->policy.schedule), tr->rate_steps_then, tr->step + 1,
             is, was);
    return 1;
}

sr1_status sr1__resume_write_changes(sr1_trainer *tr)
{
    char *path;
    struct sr1__jsonl *file = NULL;
    sr1_status st;

    if (json_array_size(tr->changes) == 0)
        return SR1_OK;
    path = sr1__path_join(tr->run_folder, SR1__CHANGES_FILE);
    st = path ? sr1__jsonl_open(&file, path) : sr1__fail_nomem("path");
    for (size_t i = 0; i < json_array_size(tr->changes) && st == SR1_OK; i++)
        st = sr1__jsonl_add(file, json_array_get(tr->changes, i));
    sr1__jsonl_close(file);
    sr1__free(path);
    return st;
}

/* ---- resuming ---- */

struct resume {
    const char *folder;
    sr1_resume_options options;
    sr1_config *config;
    json_t *before, *recorded; /* the configuration, and its changes, up to now */
};

static sr1_status read_folder(struct resume *r)
{
    SR1__TRY(sr1_config_new(&r->config));
    SR1__TRY(sr1__config_load_recorded(r->config, r->folder));
    SR1__TRY(sr1__config_to_object(r->config, &r->before));
    SR1__TRY(sr1__config_changes(&r->recorded, r->folder));
    for (size_t i = 0; i < r->options.n_pairs; i++)
        SR1__TRY(set_pair(r->config, r->options.pairs[i]));
    return SR1_OK;
}

/* Does the run need weights of the model that it began from, beside the checkpoint's? An
 * adapter its base, a frozen reference, a critic with an adapter, the reviser. */
static int needs_first_model(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return sr1__config_int(c, "lora_rank") > 0 ||
           sr1__config_is(c, "kl_reference", "frozen") ||
           (sr1__config_int(c, "critic_lora_rank") > 0 &&
            !*sr1__config_str(c, "critic_model")) ||
           (e && e->revises && !*sr1__config_str(c, "proxy_model"));
}

static sr1_status take_model_of(sr1_config *c, const sr1_config *other)
{
    static const char *const keys[] = {"model_name_or_path", "base_model_name_or_path"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        SR1__TRY(sr1_config_set(c, keys[i], sr1__config_str(other, keys[i])));
    return SR1_OK;
}

/* Where the folder of that model is gone and no weights of it are needed, configuration
 * and tokenizer are a checkpoint's. */
static sr1_status replace_lost_model(const struct resume *r)
{
    const char *folder = sr1__config_str(r->config, "model_name_or_path");
    sr1_config *c = NULL;
    sr1_status st;

    if (!*folder || sr1__path_is_dir(folder) || needs_first_model(r->config))
        return SR1_OK;
    st = sr1_config_new(&c);
    if (st == SR1_OK)
        st = sr1_config_load_run(c, r->folder);
    if (st == SR1_OK) {
        sr1__log(SR1_LOG_WARN,
                 "model_name_or_path %s is gone; configuration and tokenizer are those "
                 "of %s",
                 folder, sr1__config_str(c, "model_name_or_path"));
        st = take_model_of(r->config, c);
    }
    sr1_config_free(c);
    return st == SR1_E_NOT_FOUND ? SR1_OK : st; /* no checkpoint: the opening names it */
}

static sr1_status open_trainer(struct resume *r, sr1_trainer **out)
{
    json_t *record = NULL;
    sr1_status st;

    SR1__TRY(sr1__config_to_object(r->config, &record));
    st = sr1__config_paths_moved(r->config, r->folder);
    if (st == SR1_OK)
        st = replace_lost_model(r);
    if (st == SR1_OK)
        st = sr1_config_set(r->config, "out", r->folder);
    if (st == SR1_OK)
        st = sr1_trainer_new(out, r->config, r->options.search);
    if (st != SR1_OK) {
        json_decref(record);
        return st;
    }
    (*out)->record = record;
    return sr1__record_chosen(*out);
}

/* Of an adapter's base that is no longer where it was: how to say where it is. */
static sr1_status remind_of_base(const struct resume *r, sr1_status st)
{
    for (size_t i = 0; i < sizeof(base_keys) / sizeof(base_keys[0]); i++) {
        const char *folder = sr1__config_str(r->config, base_keys[i].key);

        if (st == SR1_E_NOT_FOUND && *folder && !sr1__path_is_dir(folder) &&
            is_free(r->config, base_keys[i].key))
            return sr1__context(st,
                                "the base of the run's adapter is gone; where it lies "
                                "elsewhere, resume with %s=FOLDER",
                                base_keys[i].key);
    }
    return st;
}

static sr1_status check_steps(const sr1_trainer *tr)
{
    if (tr->planned == 0 || tr->planned >= tr->step)
        return SR1_OK;
    if (tr->mark.other)
        return sr1__fail(SR1_E_CONFIG,
                         "resume: the run is at step %" PRId64 ", and the %" PRId64
                         " rows of %s now make %" PRId64 " steps; give max_steps of more "
                         "than %" PRId64 " with --resume",
                         tr->step, tr->mark.rows, tr->stage->data, tr->planned, tr->step);
    return sr1__fail(SR1_E_CONFIG,
                     "resume: the run is at step %" PRId64 " and would end at step "
                     "%" PRId64 "; give max_steps of more than %" PRId64
                     ", or leave max_steps and the epochs as they were",
                     tr->step, tr->planned, tr->step);
}

/* The step from which on other rows are wanted: any, where they are given now; -1: none.
 */
static int64_t find_data_change(const struct resume *r, const char *key)
{
    const json_t *known = last_change(r->recorded, key);
    const char *by = json_string_value(json_object_get(known, "by"));

    if (is_given(r->options.pairs, r->options.n_pairs, key))
        return INT64_MAX;
    return by && strcmp(by, SR1__CHANGED_BY_RESUME) == 0
               ? json_integer_value(json_object_get(known, "step"))
               : -1;
}

static sr1_status restore_run(struct resume *r, sr1_trainer *tr)
{
    int64_t changed = find_data_change(r, tr->stage->data);
    json_t *old = NULL;
    sr1_status st;

    tr->changes = json_array();
    if (!tr->changes)
        return sr1__fail_nomem("changes of the configuration");
    st = sr1__is_first_rank(tr) ? sr1__folder_lock(tr) : SR1_OK;
    SR1__TRY(sr1__dist_agree(tr->dist, "run folder", st));
    st = sr1__context(sr1__state_restore(tr, changed, &old), "resume");
    if (st == SR1_OK)
        st = check_steps(tr);
    if (st == SR1_OK)
        st = note_changes(tr, old ? old : r->before, r->recorded, &r->options);
    json_decref(old);
    SR1__TRY(sr1__dist_agree(tr->dist, "resume", st));
    SR1__TRY(sr1__dist_same(tr->dist, "the step of the newest whole checkpoint",
                            (uint64_t)tr->step << 1));
    return sr1__ranks_compare_weights(tr);
}

void sr1_resume_options_init(sr1_resume_options *options)
{
    static const sr1_resume_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_trainer_resume(sr1_trainer **out, const char *run_folder,
                              const sr1_resume_options *options)
{
    struct resume r = {.folder = run_folder};
    sr1_trainer *tr = NULL;
    sr1_status st;

    if (!out || !run_folder)
        return sr1__fail(SR1_E_INVALID, "resume: out and run_folder are required");
    SR1__TRY(sr1__struct_take(&r.options, sizeof(r.options), options,
                              SR1__STRUCT_END(sr1_resume_options, search),
                              "resume options"));
    if (r.options.n_pairs > 0 && !r.options.pairs)
        return sr1__fail(SR1_E_INVALID, "resume: pairs are required");
    st = read_folder(&r);
    if (st == SR1_OK)
        st = sr1__folder_check_idle(run_folder);
    if (st == SR1_OK)
        st = remind_of_base(&r, open_trainer(&r, &tr));
    if (st == SR1_OK)
        st = restore_run(&r, tr);
    sr1_config_free(r.config);
    json_decref(r.before);
    json_decref(r.recorded);
    if (st != SR1_OK) {
        sr1_trainer_free(tr);
        return st;
    }
    *out = tr;
    return SR1_OK;
}
