/* Going on with a run by other keys, in another place, or after its files were edited. */
#include "runs.h"
#include "support/count_text.h"

#include "config/run_config.h"

#include <unistd.h>

/* A run that ends at its third step; its last checkpoint is that of the second. */
static void run_cut(sr1_config *c)
{
    int64_t at = 3;
    sr1_trainer *tr = open_trainer(c);

    run_until(tr, at);
    sr1_trainer_free(tr);
}

static sr1_status resume(sr1_trainer **out, const char *run, const char *pair)
{
    const char *const pairs[] = {pair};
    sr1_resume_options o = {
        .struct_size = sizeof o, .pairs = pairs, .n_pairs = pair ? 1 : 0};

    return sr1_trainer_resume(out, scratch_path(run), &o);
}

static void go_on(const char *run, const char *pair)
{
    sr1_trainer *tr = NULL;

    OK(resume(&tr, run, pair));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static const char *member(const json_t *rows, size_t i, const char *key)
{
    const json_t *v = json_object_get(json_array_get(rows, i), key);

    return json_is_string(v) ? json_string_value(v) : "";
}

/* Row i of the record is this change. */
static void changed(const char *run, size_t i, int64_t step, const char *key,
                    const char *from, const char *to, const char *by)
{
    json_t *rows = NULL;

    OK(sr1__config_changes(&rows, scratch_path(run)));
    assert_int_equal(json_array_size(rows), i + 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, i), "step")),
                     step);
    assert_string_equal(member(rows, i, "key"), key);
    assert_string_equal(member(rows, i, "from"), from);
    assert_string_equal(member(rows, i, "to"), to);
    assert_string_equal(member(rows, i, "by"), by);
    assert_int_equal(strlen(member(rows, i, "time")), 20);
    json_decref(rows);
}

/* ---- other keys ---- */

static void more_steps_are_those_of_a_longer_run(void **state)
{
    size_t n, m;
    char *before, *after;

    (void)state;
    run_whole(RUN("long", "update_times=1"));
    run_whole(RUN("short", "update_times=1", "max_steps=4"));
    before = slurp("short", "config.json", &n);
    go_on("short", "max_steps=6");
    same_run("long", "short");
    changed("short", 0, 4, "max_steps", "4", "6", "resume");
    after = slurp("short", "config.json", &m);
    assert_true(n == m && memcmp(before, after, n) == 0);
    sr1_free(before);
    sr1_free(after);
    go_on("short", NULL); /* by what is recorded: it is over at 6, and adds nothing */
    same_run("long", "short");
    changed("short", 0, 4, "max_steps", "4", "6", "resume");
    go_on("short", "max_steps=6"); /* what is so already is no change */
    changed("short", 0, 4, "max_steps", "4", "6", "resume");
    {
        sr1_trainer *tr = NULL;

        REFUSED(resume(&tr, "short", "max_steps=5"), SR1_E_CONFIG,
                "is at step 6 and would end at step 5");
        assert_null(tr);
    }
    changed("short", 0, 4, "max_steps", "4", "6", "resume");
}

static void a_rate_holds_from_its_step_on(void **state)
{
    json_t *rows;

    (void)state;
    run_cut(RUN("slower", "learning_rate=1e-3"));
    go_on("slower", "learning_rate=1e-4");
    rows = metrics("slower");
    for (size_t i = 0; i < 6; i++)
        tiny_near(metric(rows, i, "learning_rate"), i < 2 ? 1e-3 : 1e-4, 1e-9);
    json_decref(rows);
    changed("slower", 0, 2, "learning_rate", "0.001", "0.0001", "resume");
}

/* Whatever the trainer is told, another seed or another model never begins. */
static void bound_keys_are_refused_by_name_and_reason(void **state)
{
    static const struct {
        const char *pair, *says;
    } cases[] = {
        {"seed=7", "key 'seed' cannot change when a run goes on: the order of"},
        {"model_name_or_path=/x", "a link at its old place"},
        {"batch_size=3", "place in the data"},
        {"out=elsewhere", "its own folder"},
        {"group_size=8", "key 'group_size' cannot change when a run goes on: the rest"},
        {"max_stepz=3", "max_steps"},
        {"max_steps", "key=value"},
        {"train.yaml", "the run has its own"},
        {"max_steps=many", "whole number"},
    };
    sr1_trainer *tr = NULL;

    (void)state;
    run_cut(RUN("bound", "update_times=1"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        REFUSED(resume(&tr, "bound", cases[i].pair), SR1_E_CONFIG, cases[i].says);
    assert_null(tr);
    assert_false(sr1__path_exists(scratch_path("bound/" SR1__CHANGES_FILE)));
    go_on("bound", NULL);
    same_run("long", "bound");
}

static void addresses_and_patience_are_free(void **state)
{
    static const char *const pairs[] = {
        "judge_base_url=http://127.0.0.1:9",
        "judge_timeout=5",
        "opensearch_url=http://127.0.0.1:9/x",
        "qdrant_url=http://127.0.0.1:9/x",
        "program_timeout=5",
        "tools_timeout=5",
        "search_timeout_s=5",
    };

    (void)state;
    run_cut(RUN("moved", "update_times=1"));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sr1_trainer *tr = NULL;

        OK(resume(&tr, "moved", pairs[i]));
        sr1_trainer_free(tr);
    }
}

/* An attempt that did not come to a checkpoint is told once. */
static void a_change_is_written_down_once(void **state)
{
    int64_t at = 3;
    sr1_trainer *tr = NULL;

    (void)state;
    run_cut(RUN("tries", "update_times=1"));
    OK(resume(&tr, "tries", "max_steps=5"));
    assert_false(sr1__path_exists(scratch_path("tries/" SR1__CHANGES_FILE)));
    run_until(tr, at);
    sr1_trainer_free(tr);
    tr = NULL;
    OK(resume(&tr, "tries", NULL)); /* it holds although no checkpoint has seen it */
    assert_int_equal(sr1_trainer_steps_planned(tr), 5);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    changed("tries", 0, 2, "max_steps", "6", "5", "resume");
}

/* ---- config.json edited by hand ---- */

static char warned[4096];

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level >= SR1_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

static void edit(const char *run, const char *key, const char *value)
{
    char path[64];
    sr1_config *c = NULL;
    char *text = NULL;

    snprintf(path, sizeof path, "%s/config.json", run);
    OK(sr1_config_new(&c));
    OK(sr1_config_load(c, scratch_path(path)));
    OK(sr1_config_set(c, key, value));
    OK(sr1_config_to_json(c, &text));
    (void)scratch_file(path, text, 0);
    sr1_free(text);
    sr1_config_free(c);
}

static void an_edited_configuration_is_noticed(void **state)
{
    (void)state;
    run_cut(RUN("edited", "update_times=1"));
    edit("edited", "beta", "0.25");
    sr1_log_set(on_log, NULL);
    go_on("edited", NULL);
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warned, "beta was 0.1 and is 0.25 from here on"));
    changed("edited", 0, 2, "beta", "0.1", "0.25", "config.json");
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    go_on("edited", NULL);
    sr1_log_set(NULL, NULL);
    assert_string_equal(warned, ""); /* its checkpoints know now */
    changed("edited", 0, 2, "beta", "0.1", "0.25", "config.json");
}

static void append_space(const char *path)
{
    FILE *f = fopen(path, "a");

    assert_non_null(f);
    assert_int_equal(fputc(' ', f), ' ');
    assert_int_equal(fclose(f), 0);
}

/* A run goes on by a file as it was, and by the file with another end. */
static void change_of_file_is_told(const char *run, const char *key, const char *path,
                                   const char *pair)
{
    char file[600], model[700], wanted[64];

    snprintf(file, sizeof file, "%s", path);
    snprintf(model, sizeof model, "model_name_or_path=%s", scratch_path("ruled"));
    run_cut(RUN(run, "update_times=1", "kl_reference=old", "chat_template=qwen3", model,
                pair));
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    go_on(run, "max_steps=3");
    assert_null(strstr(warned, "is not what it was"));
    append_space(file);
    go_on(run, "max_steps=4");
    sr1_log_set(NULL, NULL);
    snprintf(wanted, sizeof wanted, "the file of the key %s is not what it was", key);
    assert_non_null(strstr(warned, wanted));
}

/* Files beside the configuration that decide what a run does: those that a key names, and
 * those in the folder of the model. */
static void changed_files_of_rules_are_told(void **state)
{
    static const struct {
        const char *key, *file, *text;
        int names; /* the key names the file */
    } rows[] = {
        {"question_template", "q.txt", "Q: {{question}}", 1},
        {"search_index", "some.index", "bytes of an index", 1},
        {"tokenizer", "ruled/tokenizer_config.json", NULL, 0},
        {"tokenizer", "ruled/generation_config.json", "{}", 0},
        {"tokenizer", "ruled/additional_chat_templates/mine.jinja", "{{ messages }}", 0},
    };

    (void)state;
    tiny_model("ruled", TINY_SEARCHER, 9);
    OK(sr1__dir_make(scratch_path("ruled/additional_chat_templates")));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = scratch_path(rows[i].file);
        char run[32], pair[700];

        if (rows[i].text)
            (void)scratch_file(rows[i].file, rows[i].text, 0);
        snprintf(run, sizeof run, "ruled-%zu", i);
        snprintf(pair, sizeof pair, "%s=%s", rows[i].key, path);
        change_of_file_is_told(run, rows[i].key, path, rows[i].names ? pair : "seed=1");
    }
}

/* It could not be gone on with from any checkpoint. */
static void a_run_by_a_tokenizer_file_alone_is_refused(void **state)
{
    char pair[700];
    sr1_trainer *tr;

    (void)state;
    snprintf(pair, sizeof pair, "tokenizer=%s", scratch_path("model/tokenizer.json"));
    tr = open_trainer(RUN("file-alone", "chat_template=qwen3", pair));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_STATE,
            "checkpoints have a tokenizer: the tokenizer was opened from its file alone");
    assert_false(sr1__path_exists(scratch_path("file-alone")));
    sr1_trainer_free(tr);
}

/* A folder that became a link has another true name; its recorded paths are no edits. */
static void recorded_paths_are_no_edits(void **state)
{
    char here[600], train[700];

    (void)state;
    OK(sr1__dir_make(scratch_path("data-here")));
    snprintf(here, sizeof here, "%s", scratch_path("data-here"));
    snprintf(train, sizeof train, "train_file=%s",
             tiny_questions("data-here/train.jsonl", 7));
    run_cut(RUN("paths", "update_times=1", train));
    OK(sr1__rename_dir(here, scratch_path("data-there")));
    assert_int_equal(symlink(scratch_path("data-there"), here), 0);
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    go_on("paths", "log_interval=2");
    sr1_log_set(NULL, NULL);
    assert_string_equal(warned, "");
    changed("paths", 0, 2, "log_interval", "1", "2", "resume");
}

/* A run whose server's own model was asked for goes on with one that is named. */
static void the_model_of_a_server_may_be_named_later(void **state)
{
    (void)state;
    run_cut(RUN("unnamed", "update_times=1"));
    go_on("unnamed", "openai_model=small");
    changed("unnamed", 0, 2, "openai_model", "null", "small", "resume");
}

static void a_broken_record_is_an_error(void **state)
{
    sr1_trainer *tr = NULL;

    (void)state;
    run_cut(RUN("broken", "update_times=1"));
    (void)scratch_file("broken/" SR1__CHANGES_FILE, "{\"step\": 1}\n", 0);
    REFUSED(sr1_trainer_resume(&tr, scratch_path("broken"), NULL), SR1_E_PARSE,
            SR1__CHANGES_FILE);
    (void)scratch_file("broken/" SR1__CHANGES_FILE, "no\n", 0);
    REFUSED(sr1_trainer_resume(&tr, scratch_path("broken"), NULL), SR1_E_PARSE,
            SR1__CHANGES_FILE ":1: column 2: ");
    assert_null(strstr(sr1_last_error(), "line"));
    (void)scratch_file("broken/" SR1__CHANGES_FILE, "{\"step\": 1, \"ke", 0);
    go_on("broken", NULL); /* a torn line never held */
    same_run("long", "broken");
}

/* ---- in another place ---- */

static void a_run_may_move_with_its_files(void **state)
{
    char train[600], facts[600];
    sr1_config *c = NULL;
    const char *path = NULL;

    (void)state;
    OK(sr1__dir_make(scratch_path("here/data")));
    snprintf(train, sizeof train, "train_file=%s",
             tiny_questions("here/data/train.jsonl", 7));
    snprintf(facts, sizeof facts, "mock_knowledge=%s", tiny_knowledge("here/facts.json"));
    run_cut(tiny_config("model", train, facts, out_pair("here/runs/one"), "max_steps=6",
                        "save_interval=2", "kl_reference=frozen", "update_times=1",
                        NULL));
    OK(sr1__dir_make(scratch_path("there")));
    OK(sr1__rename_dir(scratch_path("here"), scratch_path("there/moved")));
    go_on("there/moved/runs/one", NULL);
    same_run("long", "there/moved/runs/one");
    OK(sr1_config_new(&c)); /* its policy is found, and its files */
    OK(sr1_config_load_run(c, scratch_path("there/moved/runs/one")));
    OK(sr1_config_get_str(c, "mock_knowledge", &path));
    assert_true(sr1__path_exists(path));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path("there/moved/runs/one/model"));
    sr1_config_free(c);
    /* moved away from them: named by their old place */
    OK(sr1__rename_dir(scratch_path("there/moved/runs/one"), scratch_path("lonely")));
    {
        sr1_trainer *tr = NULL;

        REFUSED(resume(&tr, "lonely", NULL), SR1_E_IO, "/here/facts.json");
        snprintf(facts, sizeof facts, "mock_knowledge=%s",
                 scratch_path("there/moved/facts.json"));
        REFUSED(resume(&tr, "lonely", facts), SR1_E_IO, "/here/data/train.jsonl");
    }
}

/* Started from within a folder by relative paths, used from another one. */
static void a_run_does_not_depend_on_the_working_folder(void **state)
{
    char old[4096];
    sr1_config *c = NULL;

    (void)state;
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(scratch_dir), 0);
    c = tiny_config("model", "train_file=./train.jsonl", "mock_knowledge=facts.json",
                    "out=relative", "max_steps=6", "save_interval=2",
                    "kl_reference=frozen", "update_times=1", NULL);
    run_cut(c);
    assert_int_equal(chdir("/"), 0);
    go_on("relative", NULL);
    same_run("long", "relative");
    assert_int_equal(chdir(old), 0);
}

/* Weights by chance of the shape of "model", in its place. */
static void write_another_model(void)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_model *m = NULL;
    char shape[1024];

    snprintf(shape, sizeof shape, tiny_shape, 2);
    OK(sr1_model_new_random(&m, shape, 8, &o));
    OK(sr1_model_save(m, scratch_path("model")));
    sr1_model_free(m);
}

/* Its folder is read again, and may hold another model by then. */
static void the_frozen_reference_stays_what_it_was(void **state)
{
    sr1_trainer *tr = NULL;

    (void)state;
    run_cut(RUN("referred", "update_times=1"));
    run_cut(RUN("unreferred", "update_times=1", "kl_reference=old"));
    write_another_model();
    REFUSED(
        resume(&tr, "referred", NULL), SR1_E_CONFIG,
        "/model is not the model that training began with, which the frozen reference "
        "is: its weights differ");
    assert_null(tr);
    go_on("unreferred", NULL);
    tiny_model("model", TINY_SEARCHER, 9);
    go_on("referred", NULL);
    same_run("long", "referred");
}

/* All weights are in the checkpoint: the folder that they began from may be gone. */
static void a_lost_first_model_is_replaced_by_the_checkpoints(void **state)
{
    char link[600], model[700];
    sr1_trainer *tr = NULL;

    (void)state;
    snprintf(link, sizeof link, "%s", scratch_path("link"));
    snprintf(model, sizeof model, "model_name_or_path=%s", link);
    assert_int_equal(symlink(scratch_path("model"), link), 0);
    run_whole(RUN("kept", "update_times=1", "kl_reference=old"));
    run_cut(RUN("lost", "update_times=1", "kl_reference=old", model));
    run_cut(RUN("needed", "update_times=1", model));
    assert_int_equal(unlink(link), 0);
    REFUSED(resume(&tr, "needed", NULL), SR1_E_NOT_FOUND, "/link' is not a folder");
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    go_on("lost", NULL);
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warned, "/link is gone; configuration and tokenizer are"));
    assert_non_null(strstr(warned, "lost/checkpoints/step-2/model"));
    assert_null(strstr(warned, "is not what it was"));
    same_run("kept", "lost");
    assert_false(sr1__path_exists(scratch_path("lost/" SR1__CHANGES_FILE)));
}

/* Several files are one data set, whose order a checkpoint's place is in. */
static void lists_of_files_are_resumed(void **state)
{
    char a[600], pair[1300];

    (void)state;
    snprintf(a, sizeof a, "%s", tiny_questions("part-a.jsonl", 3));
    snprintf(pair, sizeof pair, "train_file=%s,%s", a, tiny_questions("part-b.jsonl", 4));
    run_whole(RUN("list", "update_times=1", pair));
    run_cut(RUN("list-cut", "update_times=1", pair));
    go_on("list-cut", NULL);
    same_run("list", "list-cut");
}

/* ---- checkpoints as policies ---- */

/* The model below a run brings the run's keys. */
static void check_model_of_run(const char *folder)
{
    sr1_config *c = NULL;
    const char *path = NULL;
    int64_t v = 0;

    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path(folder)));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path(folder));
    OK(sr1_config_get_int(c, "update_times", &v));
    assert_int_equal(v, 1);
    sr1_config_free(c);
}

static void a_checkpoint_is_a_policy_with_the_keys_of_its_run(void **state)
{
    sr1_config *c = NULL;
    const char *path = NULL;
    int64_t v = 0;

    (void)state;
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("long/checkpoints/step-4")));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path("long/checkpoints/step-4/model"));
    OK(sr1_config_get_int(c, "update_times", &v));
    assert_int_equal(v, 1);
    check_model_of_run("long/checkpoints/step-4/model");
    check_model_of_run("long/model");
    {
        sr1_trainer *tr = NULL;

        REFUSED(resume(&tr, "long/checkpoints/step-4", NULL), SR1_E_NOT_FOUND,
                "step-4 is a checkpoint and no run; name the run, ");
    }
    OK(sr1__dir_remove(scratch_path("long/model")));
    OK(sr1_config_load_run(c, scratch_path("long")));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path("long/checkpoints/step-6/model"));
    OK(sr1__rename_dir(scratch_path("long/checkpoints/step-4"), scratch_path("alone")));
    REFUSED(sr1_config_load_run(c, scratch_path("alone")), SR1_E_NOT_FOUND,
            "alone/model");
    REFUSED(sr1_config_load_run(c, scratch_path("alone/model")), SR1_E_CONFIG,
            "describes a model");
    REFUSED(sr1_config_load_run(c, scratch_path("nowhere")), SR1_E_NOT_FOUND,
            "there is no folder");
    REFUSED(sr1_config_load_run(NULL, "x"), SR1_E_INVALID, "required");
    REFUSED(sr1_config_load_run(c, NULL), SR1_E_INVALID, "required");
    sr1_config_free(c);
}

/* One that was moved there, for a new one is refused. It is no model of the run around
 * it, whose keys and weights are others. */
static void a_run_within_a_run_is_a_run(void **state)
{
    sr1_config *c = NULL;
    const char *path = NULL;
    int64_t v = 0;

    (void)state;
    run_whole(RUN("inner", "update_times=2"));
    OK(sr1__rename_dir(scratch_path("inner"), scratch_path("long/inner")));
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("long/inner")));
    OK(sr1_config_get_int(c, "update_times", &v));
    assert_int_equal(v, 2);
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path("long/inner/model"));
    sr1_config_free(c);
}

/* ---- the date in prompts ---- */

/* The first start was on another day, as its record has it. */
static void begin_on(const char *run, const char *time)
{
    char *path = sr1__path_join(scratch_path(run), "run.json");
    json_t *record = NULL, *first;

    OK(sr1__json_load(&record, path, 0));
    first = json_array_get(json_object_get(record, "starts"), 0);
    json_object_set_new(first, "begun", json_string(time));
    OK(sr1__json_save(record, 2, path));
    json_decref(record);
    sr1__free(path);
}

static void prompts_keep_the_date_of_the_first_start(void **state)
{
    const char *role = "user", *content = "Where?";
    sr1_trainer *tr = NULL;
    char *text = NULL;
    size_t n;

    (void)state;
    tiny_model("dated", TINY_SEARCHER, 9);
    tiny_dated_template("dated");
    run_cut(tiny_config("dated", train_path, knowledge_path, out_pair("dated-run"),
                        "max_steps=4", "save_interval=2", "update_times=1", NULL));
    begin_on("dated-run", "2001-02-03T04:05:06Z");
    OK(resume(&tr, "dated-run", NULL));
    OK(sr1_trainer_run(tr, NULL));
    OK(sr1_tokenizer_chat(sr1_rollout_tokenizer(sr1_trainer_rollout(tr)), &role, &content,
                          NULL, 1, NULL, &text, &n, NULL, NULL));
    assert_non_null(strstr(text, "system\n03 February 2001<|im_end|>"));
    sr1_free(text);
    sr1_trainer_free(tr);
}

/* ---- alarms ---- */

/* All alike in step 1, unknown in steps 2 to 5. */
static sr1_status score_by_step(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    sr1_trainer *const *tr = self;
    int64_t step = sr1_trainer_steps_done(*tr) + 1;

    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = step == 1 ? 1.0 : step <= 5 ? NAN : (double)(i % 2);
    return SR1_OK;
}

static void add_score_by_step(sr1_trainer **tr)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "by_step",
                          .score = score_by_step,
                          .may_be_unknown = 1};

    OK(sr1_trainer_add_reward(*tr, &ops, tr, 1.0));
}

static void keep_note(void *user, const char *text)
{
    size_t n = strlen(user);

    snprintf((char *)user + n, 4000 - n, "%s\n", text);
}

/* A rate that fell to the end of the run stands half-way through a longer one. */
static void rates_of_more_steps_are_told_of(void **state)
{
    static const char about[] =
        "learning rates go by the 6 steps that there are now, not "
        "by 3: that of step 4 is 0.0005 in place of 0";
    char notes[4000] = "";
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = keep_note, .user = notes};
    sr1_trainer *tr = NULL;

    (void)state;
    for (int falls = 0; falls < 2; falls++) {
        const char *run = falls ? "falls" : "stays";

        run_whole(RUN(run, "max_steps=3", "update_times=1",
                      falls ? "lr_schedule=linear" : "lr_schedule=constant"));
        notes[0] = '\0';
        OK(resume(&tr, run, "max_steps=6"));
        OK(sr1_trainer_run(tr, &cb));
        sr1_trainer_free(tr);
        assert_int_equal(strstr(notes, about) != NULL, falls);
        assert_int_equal(strstr(notes, "learning rates") != NULL, falls);
    }
}

/* Up to step `last`, or to its end where it is 0. */
static void run_heard(sr1_trainer *tr, int64_t last, char notes[4000])
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = keep_note, .user = notes};

    add_score_by_step(&tr);
    if (last > 0)
        run_until(tr, last);
    else
        OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
}

#define HEARD(run)                                                                       \
    open_trainer(                                                                        \
        RUN(run, "rewards=none", "max_tokens=3", "update_times=1", "log_interval=6"))

/* The row of step 6 has the alarms of all steps, the third step without a reward is known
 * as such, and what goes on ringing is not told again. */
static void alarms_go_on_with_their_run(void **state)
{
    static const int64_t cuts[] = {3, 5}; /* an odd step goes on from the one before */
    char notes[4000] = "";
    json_t *rows;

    (void)state;
    run_heard(HEARD("heard"), 0, notes);
    rows = metrics("heard");
    assert_int_equal(json_array_size(rows), 1);
    assert_true(metric(rows, 0, "health/alarm_zero_advantage") == 1);
    assert_true(metric(rows, 0, "health/alarm_rewards") == 1);
    json_decref(rows);
    for (size_t i = 0; i < 2; i++) {
        const char *run = join_run_name("heard", i ? "late" : "early");
        sr1_trainer *tr;

        run_heard(HEARD(run), cuts[i], notes);
        OK(resume(&tr, run, NULL));
        notes[0] = '\0';
        run_heard(tr, 0, notes);
        same_records("heard", run);
        assert_int_equal(count_text(notes, "the last three steps has a reward"), i == 0);
    }
}

/* All alike in step 4. */
static sr1_status score_one_step_alike(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out)
{
    sr1_trainer *const *tr = self;
    int64_t step = sr1_trainer_steps_done(*tr) + 1;

    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = step == 4 ? 1.0 : (double)(i % 2);
    return SR1_OK;
}

static sr1_status fail_validation(void *user, int64_t step, const sr1_evaluation *e)
{
    (void)user, (void)step, (void)e;
    return sr1_set_error(SR1_E_IO, "the figures have nowhere to go");
}

/* Step 4 is done, and its record fails by its validation, which is wanted no more where
 * the run goes on: the alarm of the step is told there, and is in the row of step 6. */
static void an_owed_row_has_its_alarms(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "alike", .score = score_one_step_alike};
    char notes[4000] = "";
    sr1_run_callbacks cb = {.struct_size = sizeof cb,
                            .validation = fail_validation,
                            .note = keep_note,
                            .user = notes};
    sr1_trainer *tr = open_trainer(RUN("owed", "rewards=none", "max_tokens=3",
                                       "update_times=1", "log_interval=6",
                                       "validation_split=0.3", "validate_interval=4"));
    json_t *rows;

    (void)state;
    OK(sr1_trainer_add_reward(tr, &ops, &tr, 1.0));
    REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "nowhere to go");
    sr1_trainer_free(tr);
    assert_null(strstr(notes, "step 4: "));
    OK(resume(&tr, "owed", "validate_interval=0"));
    assert_int_equal(sr1_trainer_steps_done(tr), 4);
    OK(sr1_trainer_add_reward(tr, &ops, &tr, 1.0));
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    assert_non_null(strstr(notes, "step 4: "));
    rows = metrics("owed");
    assert_int_equal(json_array_size(rows), 1);
    assert_true(metric(rows, 0, "step") == 6);
    assert_true(metric(rows, 0, "health/alarm_zero_advantage") == 1);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_steps_are_those_of_a_longer_run),
        cmocka_unit_test(rates_of_more_steps_are_told_of),
        cmocka_unit_test(alarms_go_on_with_their_run),
        cmocka_unit_test(an_owed_row_has_its_alarms),
        cmocka_unit_test(a_rate_holds_from_its_step_on),
        cmocka_unit_test(bound_keys_are_refused_by_name_and_reason),
        cmocka_unit_test(addresses_and_patience_are_free),
        cmocka_unit_test(a_change_is_written_down_once),
        cmocka_unit_test(an_edited_configuration_is_noticed),
        cmocka_unit_test(changed_files_of_rules_are_told),
        cmocka_unit_test(a_run_by_a_tokenizer_file_alone_is_refused),
        cmocka_unit_test(recorded_paths_are_no_edits),
        cmocka_unit_test(the_frozen_reference_stays_what_it_was),
        cmocka_unit_test(a_lost_first_model_is_replaced_by_the_checkpoints),
        cmocka_unit_test(lists_of_files_are_resumed),
        cmocka_unit_test(the_model_of_a_server_may_be_named_later),
        cmocka_unit_test(a_broken_record_is_an_error),
        cmocka_unit_test(a_run_may_move_with_its_files),
        cmocka_unit_test(a_run_does_not_depend_on_the_working_folder),
        cmocka_unit_test(a_checkpoint_is_a_policy_with_the_keys_of_its_run),
        cmocka_unit_test(a_run_within_a_run_is_a_run),
        cmocka_unit_test(prompts_keep_the_date_of_the_first_start),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
