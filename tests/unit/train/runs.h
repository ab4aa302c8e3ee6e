/* train/runs.h - whole runs of a tiny policy, and comparing what they leave behind. */
#ifndef SR1_TESTS_TRAIN_RUNS_H
#define SR1_TESTS_TRAIN_RUNS_H

#include <searchr1/ext/data_files.h>

#include "support/tiny.h"

#include "base/json.h"
#include "train/internal.h"

static char train_path[512], knowledge_path[512];

/* The files of a run beside its model. */
static inline void runs_files(void)
{
    snprintf(train_path, sizeof train_path, "train_file=%s",
             tiny_questions("train.jsonl", 7));
    snprintf(knowledge_path, sizeof knowledge_path, "mock_knowledge=%s",
             tiny_knowledge("facts.json"));
}

static inline int runs_make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    runs_files();
    return 0;
}

static inline const char *out_pair(const char *run)
{
    static char pairs[4][600];
    static unsigned next;
    char *p = pairs[next++ % 4];

    snprintf(p, sizeof pairs[0], "out=%s", scratch_path(run));
    return p;
}

#define RUN(name, ...)                                                                   \
    tiny_config("model", train_path, knowledge_path, out_pair(name), "max_steps=6",      \
                "save_interval=2", "kl_reference=frozen", __VA_ARGS__, NULL)

static inline sr1_trainer *open_trainer(sr1_config *c)
{
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_new(&tr, c, NULL));
    sr1_config_free(c);
    return tr;
}

static inline void run_whole(sr1_config *c)
{
    sr1_trainer *tr = open_trainer(c);

    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

/* ---- cutting a run short ---- */

struct runs_cut {
    sr1_trainer *tr;
    int64_t at;
};

static inline sr1_status runs_pull_plug(void *user, const sr1_step_report *r,
                                        int64_t planned)
{
    const struct runs_cut *cut = user;

    (void)planned;
    if (r->step != cut->at)
        return SR1_OK;
    cut->tr->in_update = 1; /* as in the midst of a step: nothing more is saved */
    return sr1_set_error(SR1_E_IO, "pulled the plug");
}

/* Run up to step `at`, which leaves the folder as a kill does. */
static inline void run_until(sr1_trainer *tr, int64_t at)
{
    struct runs_cut cut = {tr, at};
    sr1_run_callbacks cb = {
        .struct_size = sizeof cb, .user = &cut, .step = runs_pull_plug};

    REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "pulled the plug");
}

/* ---- comparing runs ---- */

static inline char *slurp(const char *run, const char *file, size_t *n)
{
    char path[600];
    struct sr1__buf b;

    snprintf(path, sizeof path, "%s/%s", scratch_path(run), file);
    OK(sr1__file_read(path, 0, &b));
    *n = b.len;
    return sr1__buf_take(&b);
}

/* All lines of a log of a run's trajectories. */
static inline char *slurp_log(const char *run, const char *file)
{
    char path[600];
    struct sr1__buf all;
    sr1_lines *l = NULL;
    const char *text;
    size_t n;

    snprintf(path, sizeof path, "%s/%s", scratch_path(run), file);
    OK(sr1_lines_open(&l, path));
    sr1__buf_init(&all, 0);
    for (;;) {
        OK(sr1_lines_next(l, &text, &n));
        if (!text)
            break;
        sr1__buf_add(&all, text, n);
        sr1__buf_char(&all, '\n');
    }
    sr1_lines_free(l);
    sr1__buf_str(&all, "");
    return sr1__buf_take(&all);
}

static inline char *slurp_trajectories(const char *run)
{
    return slurp_log(run, "trajectories.jsonl.zst");
}

#define VALIDATION_LOG "validation-trajectories.jsonl.zst"

/* Numbers of the questions of a step, in order, each once: "0 1 2 3". */
static inline void list_asked(const char *run, int64_t step, char *out)
{
    char *text = slurp_trajectories(run), *at = text, *end;
    int last = -1;

    for (*out = '\0'; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *row = NULL;
        int k;

        OK(sr1__json_parse(&row, at, (size_t)(end - at), "trajectory"));
        k = atoi(json_string_value(json_object_get(row, "query_id")) + 1);
        if (json_integer_value(json_object_get(row, "step")) == step && k != last) {
            sprintf(out + strlen(out), "%s%d", *out ? " " : "", k);
            last = k;
        }
        json_decref(row);
    }
    sr1_free(text);
}

static inline void same_file(const char *a, const char *b, const char *file)
{
    size_t n, m;
    char *x = slurp(a, file, &n), *y = slurp(b, file, &m);

    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("%s of %s and %s differ", file, a, b);
    assert_true(n > 0);
    sr1_free(x);
    sr1_free(y);
}

/* "KIND-HOW"; four of them live at a time. */
static inline const char *join_run_name(const char *kind, const char *how)
{
    static char names[4][256];
    static unsigned next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], "%s-%s", kind, how);
    return name;
}

/* The line without what depends on the clock. */
static inline void drop_timing(json_t *row)
{
    const char *key;
    json_t *v;
    void *tmp;

    json_object_foreach_safe(row, tmp, key, v)
    {
        if (strncmp(key, "timing_s/", 9) == 0 || strncmp(key, "perf/", 5) == 0)
            json_object_del(row, key);
    }
}

static inline json_t *metrics(const char *run)
{
    size_t n;
    char *text = slurp(run, "metrics.jsonl", &n), *at = text;
    json_t *all = json_array();

    while (*at) {
        char *end = strchr(at, '\n');
        json_t *row = NULL;

        assert_non_null(end);
        OK(sr1__json_parse(&row, at, (size_t)(end - at), "metrics"));
        json_array_append_new(all, row);
        at = end + 1;
    }
    sr1_free(text);
    return all;
}

static inline double metric(const json_t *rows, size_t i, const char *key)
{
    const json_t *v = json_object_get(json_array_get(rows, i), key);

    if (!json_is_number(v))
        fail_msg("row %zu has no %s", i, key);
    return json_number_value(v);
}

/* What a run tells of its steps. */
static inline void same_records(const char *a, const char *b)
{
    json_t *x = metrics(a), *y = metrics(b);

    for (size_t i = 0; i < json_array_size(x); i++)
        drop_timing(json_array_get(x, i));
    for (size_t i = 0; i < json_array_size(y); i++)
        drop_timing(json_array_get(y, i));
    if (!json_equal(x, y))
        fail_msg("metrics of %s and %s differ", a, b);
    json_decref(x);
    json_decref(y);
    same_file(a, b, "trajectories.jsonl.zst");
    assert_int_equal(sr1__dir_has(scratch_path(a), VALIDATION_LOG),
                     sr1__dir_has(scratch_path(b), VALIDATION_LOG));
    if (sr1__dir_has(scratch_path(a), VALIDATION_LOG))
        same_file(a, b, VALIDATION_LOG);
}

/* All that does not depend on what is trained. */
static inline void same_journals(const char *a, const char *b)
{
    same_records(a, b);
    same_file(a, b, "checkpoints/step-6/optimizer/model.safetensors");
}

static inline void same_run(const char *a, const char *b)
{
    same_journals(a, b);
    same_file(a, b, "model/model.safetensors");
}

#endif
