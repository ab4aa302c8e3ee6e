/* What a run that goes on must neither lose nor forget: its journals, its model, its rows
 * of data, what its program gave it, and whether it was good enough. */
#include "runs.h"

#include "config/run_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- journals ---- */

/* In place of libc's: how long the files of these names were when they were synced. */
static int64_t synced_metrics, synced_trajectories;

int fdatasync(int fd)
{
    char link[64], path[600] = "";
    struct stat st;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0 || fstat(fd, &st) != 0)
        return -1;
    if (strstr(path, "/metrics.jsonl"))
        synced_metrics = st.st_size;
    if (strstr(path, "/trajectories.jsonl.zst"))
        synced_trajectories = st.st_size;
    return 0;
}

static int64_t saved(const char *run, int step, const char *key)
{
    char name[128];
    json_t *file = NULL;
    int64_t v;

    snprintf(name, sizeof name, "%s/checkpoints/step-%d/state.json", run, step);
    OK(sr1__json_load(&file, scratch_path(name), 0));
    v = json_integer_value(json_object_get(json_object_get(file, "state"), key));
    json_decref(file);
    return v;
}

/* A run that ends at its third step; its last checkpoint is that of the second. */
static void run_cut(sr1_config *c)
{
    int64_t at = 3;
    sr1_trainer *tr = open_trainer(c);

    run_until(tr, at);
    sr1_trainer_free(tr);
}

static sr1_status resume(sr1_trainer **out, const char *run, const char *pair,
                         sr1_search *search)
{
    const char *const pairs[] = {pair};
    sr1_resume_options o = {.struct_size = sizeof o,
                            .pairs = pairs,
                            .n_pairs = pair ? 1 : 0,
                            .search = search};

    *out = NULL;
    return sr1_trainer_resume(out, scratch_path(run), &o);
}

static void go_on(const char *run, const char *pair)
{
    sr1_trainer *tr = NULL;

    OK(resume(&tr, run, pair, NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static int64_t size_of(const char *run, const char *file)
{
    char name[128];
    struct stat st;

    snprintf(name, sizeof name, "%s/%s", run, file);
    return stat(scratch_path(name), &st) == 0 ? st.st_size : -1;
}

static void journals_are_durable_before_a_checkpoint_counts_them(void **state)
{
    (void)state;
    run_cut(RUN("synced", "update_times=1"));
    assert_true(saved("synced", 2, "metrics_size") > 0);
    assert_int_equal(synced_metrics, saved("synced", 2, "metrics_size"));
    assert_int_equal(synced_trajectories, saved("synced", 2, "trajectories_zst_size"));
}

static char warned[4096];

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level >= SR1_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

static void go_on_warned(const char *run, const char *pair, const char *text)
{
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    go_on(run, pair);
    sr1_log_set(NULL, NULL);
    if (!strstr(warned, text))
        fail_msg("no warning of '%s' in: %s", text, warned);
}

/* As after a loss of power: the last row and a part of the last frame are not there. */
static void lost_rows_are_no_reason_to_refuse(void **state)
{
    json_t *rows;
    char *lines;

    (void)state;
    run_cut(RUN("shorter", "update_times=1"));
    assert_int_equal(truncate(scratch_path("shorter/metrics.jsonl"),
                              saved("shorter", 2, "metrics_size") - 20),
                     0);
    assert_int_equal(truncate(scratch_path("shorter/trajectories.jsonl.zst"),
                              saved("shorter", 2, "trajectories_zst_size") - 20),
                     0);
    go_on_warned("shorter", NULL, "metrics.jsonl has ");
    assert_non_null(strstr(warned, "trajectories.jsonl.zst has "));
    rows = metrics("shorter"); /* of steps 1 and 3 to 6 */
    assert_int_equal(json_array_size(rows), 5);
    assert_true(metric(rows, 0, "step") == 1 && metric(rows, 1, "step") == 3);
    json_decref(rows);
    lines = slurp_trajectories("shorter"); /* each frame can be read */
    assert_non_null(strstr(lines, "\"step\":1,"));
    assert_null(strstr(lines, "\"step\":2,"));
    assert_non_null(strstr(lines, "\"step\":6,"));
    sr1__free(lines);
}

static void a_removed_journal_is_begun_anew(void **state)
{
    (void)state;
    run_cut(RUN("removed", "update_times=1"));
    assert_int_equal(remove(scratch_path("removed/trajectories.jsonl.zst")), 0);
    go_on_warned("removed", NULL, "trajectories.jsonl.zst has 0 of the ");
    assert_true(size_of("removed", "trajectories.jsonl.zst") > 0);
}

/* To look at a run, or to be refused, changes nothing in its folder. */
static void journals_are_cut_when_the_run_goes_on(void **state)
{
    sr1_trainer *tr = NULL;
    int64_t m, t;

    (void)state;
    run_cut(RUN("looked-at", "update_times=1"));
    m = size_of("looked-at", "metrics.jsonl");
    t = size_of("looked-at", "trajectories.jsonl.zst");
    assert_true(m > saved("looked-at", 2, "metrics_size"));
    REFUSED(resume(&tr, "looked-at", "max_steps=1", NULL), SR1_E_CONFIG,
            "is at step 2 and would end at step 1");
    OK(resume(&tr, "looked-at", NULL, NULL));
    sr1_trainer_free(tr);
    assert_int_equal(size_of("looked-at", "metrics.jsonl"), m);
    assert_int_equal(size_of("looked-at", "trajectories.jsonl.zst"), t);
    go_on("looked-at", NULL);
    run_whole(RUN("straight", "update_times=1"));
    same_run("straight", "looked-at");
}

/* ---- checkpoints that are gone ---- */

static void without_its_checkpoints_a_run_does_not_begin_again(void **state)
{
    sr1_trainer *tr = NULL;
    int64_t m;

    (void)state;
    run_whole(RUN("bare", "update_times=1", "max_steps=2"));
    OK(sr1__dir_remove(scratch_path("bare/checkpoints")));
    m = size_of("bare", "metrics.jsonl");
    REFUSED(resume(&tr, "bare", "max_steps=4", NULL), SR1_E_NOT_FOUND,
            "no checkpoint to go on from any more");
    /* nor without the model: its record says that it was done */
    OK(sr1__dir_remove(scratch_path("bare/model")));
    REFUSED(resume(&tr, "bare", "max_steps=4", NULL), SR1_E_NOT_FOUND,
            "no checkpoint to go on from any more");
    assert_int_equal(size_of("bare", "metrics.jsonl"), m);
    /* stopped or killed, it had some too */
    run_cut(RUN("killed", "update_times=1"));
    OK(sr1__dir_remove(scratch_path("killed/checkpoints")));
    REFUSED(resume(&tr, "killed", NULL, NULL), SR1_E_NOT_FOUND,
            "no checkpoint to go on from any more");
    /* a run that came to none begins again */
    run_cut(RUN("none-yet", "update_times=1", "save_interval=0"));
    go_on("none-yet", NULL);
}

/* ---- a failure ---- */

/* A reward that fails when it is asked for the time that *self counts down to. */
static sr1_status score_until(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    int *left = self;

    if (--*left == 0)
        return sr1_set_error(SR1_E_CALLBACK, "the judge is away");
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0 / (double)(1 + sr1_trajectory_policy_count(t[i]));
    return SR1_OK;
}

static void run_judged(const char *run, int calls, sr1_status want)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "judge", .score = score_until};
    sr1_trainer *tr = NULL;

    if (sr1__path_is_dir(scratch_path(run)))
        OK(resume(&tr, run, NULL, NULL));
    else
        tr = open_trainer(RUN(run, "update_times=1", "save_interval=0"));
    OK(sr1_trainer_add_reward(tr, &ops, &calls, 1.0));
    assert_int_equal(sr1_trainer_run(tr, NULL), want);
    sr1_trainer_free(tr);
}

static void a_failure_costs_its_own_step_only(void **state)
{
    (void)state;
    run_judged("judged", -1, SR1_OK);
    run_judged("unjudged", 4, SR1_E_CALLBACK);
    assert_true(sr1__path_is_dir(scratch_path("unjudged/checkpoints/step-3")));
    run_judged("unjudged", 1, SR1_E_CALLBACK); /* at once: nothing is new */
    run_judged("unjudged", -1, SR1_OK);
    same_run("judged", "unjudged");
}

/* ---- what others put into a checkpoint ---- */

static void an_added_file_is_named_and_a_hidden_one_ignored(void **state)
{
    sr1_trainer *tr = NULL;

    (void)state;
    run_cut(RUN("added", "update_times=1"));
    (void)scratch_file("added/checkpoints/step-2/.DS_Store", "x", 1);
    OK(resume(&tr, "added", NULL, NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 2);
    sr1_trainer_free(tr);
    (void)scratch_file("added/checkpoints/step-2/model/note.txt", "x", 1);
    REFUSED(resume(&tr, "added", NULL, NULL), SR1_E_STATE,
            "model/note.txt was added to it; remove that file");
    assert_true(sr1__path_is_dir(scratch_path("added/checkpoints/step-2")));
}

/* ---- which model is the run's ---- */

static void policy_is(const char *run, const char *model)
{
    sr1_config *c = NULL;
    const char *path = NULL;
    char want[128];

    snprintf(want, sizeof want, "%s/%s", run, model);
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path(run)));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path(want));
    sr1_config_free(c);
}

static void a_run_that_went_on_is_the_policy_of_its_newest_step(void **state)
{
    int64_t at = 5;
    sr1_trainer *tr = NULL;

    (void)state;
    run_whole(RUN("longer", "update_times=1", "max_steps=2"));
    policy_is("longer", "model");
    OK(resume(&tr, "longer", "max_steps=6", NULL));
    policy_is("longer", "model");
    run_until(tr, at);
    sr1_trainer_free(tr);
    policy_is("longer", "checkpoints/step-4/model");
    /* not a torn one, where the end of its model is missing */
    assert_int_equal(
        truncate(scratch_path("longer/checkpoints/step-4/model/model.safetensors"), 99),
        0);
    policy_is("longer", "model");
    OK(sr1__dir_remove(scratch_path("longer/model")));
    policy_is("longer", "checkpoints/step-2/model");
    go_on("longer", NULL);
    policy_is("longer", "model");
}

/* ---- good enough ---- */

/* Questions that nothing here answers, or that everything here does. */
static const char *write_questions(const char *name, const char *gold)
{
    char text[2000] = "", pair[64];
    size_t n = 0;

    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"question\": \"Where is tower %d?\", "
                              "\"golden_answers\": %s}\n",
                              i, gold);
    snprintf(pair, sizeof pair, "%s", name);
    return scratch_file(pair, text, 0);
}

static void only_a_run_that_was_good_enough_is_over(void **state)
{
    char none[600], all[600];
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_trainer *tr = NULL;

    (void)state;
    snprintf(none, sizeof none, "validation_file=%s",
             write_questions("nowhere.jsonl", "[\"Nowhere\"]"));
    snprintf(all, sizeof all, "validation_file=%s",
             write_questions("anywhere.jsonl", "[\"Paris\", \"Rome\"]"));
    /* planned to 2 and not good enough: 4 are 4 */
    run_whole(RUN("poor", "update_times=1", "max_steps=2", "validate_interval=1",
                  "stop_at_exact_match=0.5", none));
    OK(resume(&tr, "poor", "max_steps=4", NULL));
    assert_int_equal(sr1_trainer_steps_planned(tr), 4);
    sr1_trainer_free(tr);
    /* good enough at 1: over, unless more is asked of it than it reached */
    run_whole(RUN("good", "update_times=1", "validate_interval=1",
                  "stop_at_exact_match=0.5", all));
    assert_true(sr1__path_is_dir(scratch_path("good/checkpoints/step-1")));
    OK(resume(&tr, "good", "max_steps=4", NULL));
    assert_int_equal(sr1_trainer_steps_planned(tr), 1);
    sr1_trainer_free(tr);
    OK(resume(&tr, "good", NULL, NULL));
    OK(sr1_trainer_plan(tr, &plan));
    assert_true(plan.reached_exact_match > 0.5);
    sr1_trainer_free(tr);
    OK(resume(&tr, "good", "stop_at_exact_match=0", NULL));
    OK(sr1_trainer_plan(tr, &plan));
    assert_true(plan.reached_exact_match == 0);
    assert_int_equal(sr1_trainer_steps_planned(tr), 6);
    sr1_trainer_free(tr);
}

static void each_validation_is_written_down(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(RUN("validated", "update_times=1", "validation_split=0.3",
                  "validate_interval=2", "log_interval=3", "max_steps=5"));
    rows = metrics("validated"); /* 2, 3, 4, and 5 is the last */
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(metric(rows, i, "step") == (double)i + 2);
    (void)metric(rows, 0, "val/exact_match");
    (void)metric(rows, 2, "val/exact_match");
    json_decref(rows);
}

/* ---- the rows of data ---- */

static void other_rows_are_refused_unless_given(void **state)
{
    char train[600], pair[600];
    sr1_trainer *tr = NULL;
    json_t *changes = NULL;

    (void)state;
    snprintf(train, sizeof train, "train_file=%s", tiny_questions("rows.jsonl", 7));
    run_cut(RUN("rows", "update_times=1", train));
    (void)tiny_questions("rows.jsonl", 3); /* fewer than the place in it */
    REFUSED(resume(&tr, "rows", NULL, NULL), SR1_E_CONFIG,
            "key 'train_file': its 3 rows are not the 7");
    /* as many, but others */
    (void)write_questions("rows.jsonl", "[\"Paris\"]");
    REFUSED(resume(&tr, "rows", NULL, NULL), SR1_E_CONFIG, "key 'train_file'");
    /* the same in another place are the same */
    snprintf(pair, sizeof pair, "train_file=%s", tiny_questions("copy.jsonl", 7));
    OK(resume(&tr, "rows", pair, NULL));
    assert_int_equal(sr1__cursor_position(tr->cursor), 4);
    sr1_trainer_free(tr);
    /* others that are meant: from their beginning, and it is written down */
    go_on_warned("rows", train, "train_file has other rows");
    OK(sr1__config_changes(&changes, scratch_path("rows")));
    assert_int_equal(json_array_size(changes), 1);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(changes, 0), "key")),
        "train_file");
    json_decref(changes);
    OK(resume(&tr, "rows", NULL, NULL)); /* its checkpoints know them now */
    sr1_trainer_free(tr);
}

/* They were given before, and the run came to no checkpoint with them. */
static void rows_given_once_need_not_be_given_again(void **state)
{
    char train[600], pair[600];
    int64_t at = 3;
    sr1_trainer *tr = NULL;

    (void)state;
    snprintf(train, sizeof train, "train_file=%s", tiny_questions("first.jsonl", 7));
    snprintf(pair, sizeof pair, "train_file=%s", tiny_questions("second.jsonl", 5));
    run_cut(RUN("second", "update_times=1", train));
    OK(resume(&tr, "second", pair, NULL));
    assert_int_equal(sr1__cursor_position(tr->cursor), 0);
    run_until(tr, at);
    sr1_trainer_free(tr);
    go_on("second", NULL);
}

/* ---- work that is lost ---- */

static void on_note(void *user, const char *text)
{
    strncat(user, text, 4000 - strlen(user));
    strncat(user, "\n", 4000 - strlen(user));
}

/* Everything said when the run goes on, by another value of a key. */
static const char *said_of(const char *run, const char *pair)
{
    static char text[4096];
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = text, .note = on_note};
    sr1_trainer *tr = NULL;

    text[0] = '\0';
    OK(resume(&tr, run, pair, NULL));
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    return text;
}

static void lost_steps_are_told_of(void **state)
{
    static const char about[] = "warning: the run had come to step";

    (void)state;
    run_cut(RUN("all-lost", "update_times=1", "save_interval=0"));
    assert_non_null(strstr(said_of("all-lost", NULL),
                           "warning: the run had come to step 3 without a checkpoint: 3 "
                           "steps of work are lost, and it begins again at step 1"));
    assert_null(strstr(said_of("all-lost", "max_steps=7"), about));
    run_cut(RUN("one-lost", "update_times=1"));
    assert_non_null(strstr(said_of("one-lost", NULL),
                           "warning: the run had come to step 3 and its last checkpoint "
                           "is of step 2: 1 step of work is lost and done again"));
}

static void trajectories_of_an_older_version_are_told_of(void **state)
{
    (void)state;
    run_cut(RUN("older", "update_times=1"));
    (void)scratch_file("older/trajectories.jsonl", "{}\n", 0);
    assert_non_null(
        strstr(said_of("older", NULL),
               "trajectories.jsonl is of an older version: it stays as it is, "
               "and trajectories from step 3 on are in"));
}

/* Another corpus under a key that may change: the run says so. */
static void changed_keys_are_told_of(void **state)
{
    char pair[600], text[1400];

    (void)state;
    run_cut(RUN("told", "update_times=1"));
    snprintf(pair, sizeof pair, "mock_knowledge=%s",
             scratch_file("other.json", "{\"tower\": \"It is gone.\"}", 0));
    snprintf(text, sizeof text, "%s was %s and is %s from step 3 on\n", "mock_knowledge",
             strchr(knowledge_path, '=') + 1, strchr(pair, '=') + 1);
    if (!strstr(said_of("told", pair), text))
        fail_msg("no '%s'", text);
}

/* ---- what its program gave it ---- */

static sr1_status score_brief(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0 / (double)(1 + sr1_trajectory_policy_count(t[i]));
    return SR1_OK;
}

static void add_brief(sr1_trainer *tr, double weight)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "brief", .score = score_brief};

    OK(sr1_trainer_add_reward(tr, &ops, NULL, weight));
}

/* Without a checkpoint the run's record tells. */
static void what_was_given_is_known_without_a_checkpoint(void **state)
{
    sr1_search *engine = tiny_engine();
    sr1_config *c = RUN("given-early", "update_times=1");
    sr1_trainer *tr = NULL;

    (void)state;
    OK(sr1_trainer_new(&tr, c, engine));
    sr1_config_free(c);
    add_brief(tr, 0.5);
    run_until(tr, 1);
    sr1_trainer_free(tr);
    OK(resume(&tr, "given-early", NULL, NULL));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "gave it the engine 'mock', and");
    sr1_trainer_free(tr);
    OK(resume(&tr, "given-early", NULL, engine));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "reward 'brief' of weight 0.5 was");
    sr1_trainer_free(tr);
    sr1_search_free(engine);
}

/* Resumed with this engine, and the reward of this weight (0: none). */
static void refused_with(const char *run, sr1_search *engine, double weight,
                         const char *text)
{
    sr1_trainer *tr = NULL;
    int64_t m = size_of(run, "metrics.jsonl");

    OK(resume(&tr, run, NULL, engine));
    if (weight != 0)
        add_brief(tr, weight);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, text);
    sr1_trainer_free(tr);
    assert_int_equal(size_of(run, "metrics.jsonl"), m);
}

static void what_a_program_gave_has_to_be_given_again(void **state)
{
    sr1_search *engine = tiny_engine();
    sr1_config *c = RUN("given", "update_times=1");
    int64_t at = 3;
    sr1_trainer *tr = NULL;

    (void)state;
    OK(sr1_trainer_new(&tr, c, engine));
    sr1_config_free(c);
    add_brief(tr, 0.5);
    run_until(tr, at);
    sr1_trainer_free(tr);
    refused_with("given", NULL, 0.5, "gave it the engine 'mock', and now");
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("given")));
    assert_string_equal(sr1__config_given_engine(c), "mock");
    sr1_config_free(c);
    refused_with("given", engine, 0, "reward 'brief' of weight 0.5 was given");
    refused_with("given", engine, 0.25, "reward 'brief' of weight 0.5 was given");
    OK(resume(&tr, "given", NULL, engine));
    add_brief(tr, 0.5);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    /* nor is a reward added; an engine that is given is meant */
    run_cut(RUN("not-given", "update_times=1"));
    refused_with("not-given", NULL, 0.5, "reward 'brief' of weight 0.5 was not given");
    warned[0] = '\0';
    sr1_log_set(on_log, NULL);
    OK(resume(&tr, "not-given", NULL, engine));
    OK(sr1_trainer_run(tr, NULL));
    sr1_log_set(NULL, NULL);
    sr1_trainer_free(tr);
    assert_non_null(strstr(warned, "the engine was the configured one and is mock"));
    sr1_search_free(engine);
}

/* One question to the policy of the run "env", with this key set and this environment. */
static sr1_status ask_run(const char *pair, sr1_env *env)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_query q = tiny_query("Where is the tower?");
    sr1_rollout *r = NULL;
    sr1_trajectory *t = NULL;
    sr1_config *c = NULL;
    sr1_status st;

    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("env")));
    if (pair)
        OK(sr1_config_set_pair(c, pair));
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    sr1_config_free(c);
    if (env)
        OK(sr1_rollout_set_env(r, env));
    st = sr1_rollout_generate(r, &q, 1, &o, &t);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
    return st;
}

static void so_does_its_environment(void **state)
{
    sr1_search *engine = tiny_engine();
    sr1_env_options o = {.struct_size = sizeof o};
    int64_t at = 3;
    sr1_trainer *tr = open_trainer(RUN("env", "update_times=1"));
    sr1_env *env = NULL;

    (void)state;
    OK(sr1_env_open(&env, "search", engine, &o));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    run_until(tr, at);
    sr1_trainer_free(tr);
    refused_with("env", NULL, 0, "gave it the environment 'search', and now");
    REFUSED(ask_run(NULL, NULL), SR1_E_CONFIG, "gave it the environment 'search' (in");
    OK(ask_run(NULL, env));
    OK(ask_run("environment=none", NULL));
    OK(resume(&tr, "env", NULL, NULL));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    sr1_env_free(env);
    sr1_search_free(engine);
}

static sr1_status say_hello(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    (void)args;
    (void)len;
    return sr1_tool_sink_text(sink, "hello", 5);
}

/* An environment with tools of these names, given to the rollout. */
static void give_tools(sr1_rollout *r, const char *const *names, size_t n)
{
    sr1_env_options o = {.struct_size = sizeof o};
    sr1_env *env = NULL;

    OK(sr1_env_open(&env, "tools", NULL, &o));
    for (size_t i = 0; i < n; i++) {
        sr1_tool_ops ops = {
            .struct_size = sizeof ops, .name = names[i], .call = say_hello};

        OK(sr1_env_add_tool(env, &ops, NULL));
    }
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
}

static void and_its_tools(void **state)
{
    static const char *const names[] = {"greet", "wave"};
    int64_t at = 3;
    sr1_trainer *tr = open_trainer(RUN("tools", "update_times=1"));

    (void)state;
    give_tools(sr1_trainer_rollout(tr), names, 2);
    run_until(tr, at);
    sr1_trainer_free(tr);
    OK(resume(&tr, "tools", NULL, NULL));
    give_tools(sr1_trainer_rollout(tr), names, 1);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "had the tool 'wave', and now");
    sr1_trainer_free(tr);
    OK(resume(&tr, "tools", NULL, NULL));
    give_tools(sr1_trainer_rollout(tr), names, 2);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

/* ---- the beginning ---- */

static void end_process(void *user, const char *text)
{
    (void)user;
    (void)text;
    _exit(7);
}

/* The first thing that is told of a run is a warning about its settings. */
static void a_run_killed_as_it_begins_may_begin_again(void **state)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = end_process};
    int status = 0;
    pid_t pid;

    (void)state;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        sr1_trainer *tr = open_trainer(RUN("nipped", "warmup_steps=9"));

        (void)sr1_trainer_run(tr, &cb);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_true(sr1__path_exists(scratch_path("nipped/config.json")));
    run_whole(RUN("nipped", "max_steps=1"));
}

/* ---- a record that fails ---- */

static sr1_status fail_validation(void *user, int64_t step, const sr1_evaluation *e)
{
    (void)e;
    return step == *(const int64_t *)user
               ? sr1_set_error(SR1_E_IO, "the figures have nowhere to go")
               : SR1_OK;
}

#define VALIDATED(name)                                                                  \
    RUN(name, "update_times=1", "validation_split=0.3", "validate_interval=2",           \
        "save_interval=3")

/* The step's metrics and trajectories are kept, and its validation is made first where
 * the run goes on; after the last step too. */
static void a_validation_that_failed_is_made_up_for(void **state)
{
    (void)state;
    run_whole(VALIDATED("unbroken"));
    for (int64_t at = 4; at <= 6; at += 2) {
        sr1_run_callbacks cb = {
            .struct_size = sizeof cb, .validation = fail_validation, .user = &at};
        const char *run = at == 4 ? "broken-4" : "broken-6";
        sr1_trainer *tr = open_trainer(VALIDATED(run));
        json_t *rows;

        REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "nowhere to go");
        sr1_trainer_free(tr);
        rows = metrics(run);
        assert_int_equal(json_array_size(rows), at);
        assert_true(metric(rows, (size_t)at - 1, "step") == (double)at);
        assert_null(
            json_object_get(json_array_get(rows, (size_t)at - 1), "val/exact_match"));
        json_decref(rows);
        for (int again = 0; again < 2; again++) { /* it fails once more */
            tr = NULL;
            OK(resume(&tr, run, NULL, NULL));
            assert_int_equal(sr1_trainer_steps_done(tr), at);
            if (again)
                OK(sr1_trainer_run(tr, NULL));
            else
                REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "nowhere to go");
            sr1_trainer_free(tr);
        }
        same_run("unbroken", run);
    }
}

/* The epochs of fewer rows are over: how long the run is to be has to be said. */
static void fewer_rows_are_named_as_the_cause(void **state)
{
    char fewer[600];
    const char *pairs[] = {fewer, "max_steps=9"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = pairs, .n_pairs = 1};
    sr1_trainer *tr = NULL;

    (void)state;
    run_whole(RUN("epochs", "update_times=1", "max_steps=0", "num_epochs=2"));
    snprintf(fewer, sizeof fewer, "train_file=%s", tiny_questions("fewer.jsonl", 3));
    REFUSED(sr1_trainer_resume(&tr, scratch_path("epochs"), &o), SR1_E_CONFIG,
            "the run is at step 8, and the 3 rows of train_file now make 4 steps; give "
            "max_steps of more than 8");
    o.n_pairs = 2;
    OK(sr1_trainer_resume(&tr, scratch_path("epochs"), &o));
    assert_int_equal(sr1_trainer_steps_planned(tr), 9);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journals_are_durable_before_a_checkpoint_counts_them),
        cmocka_unit_test(lost_rows_are_no_reason_to_refuse),
        cmocka_unit_test(a_removed_journal_is_begun_anew),
        cmocka_unit_test(journals_are_cut_when_the_run_goes_on),
        cmocka_unit_test(without_its_checkpoints_a_run_does_not_begin_again),
        cmocka_unit_test(a_failure_costs_its_own_step_only),
        cmocka_unit_test(an_added_file_is_named_and_a_hidden_one_ignored),
        cmocka_unit_test(a_run_that_went_on_is_the_policy_of_its_newest_step),
        cmocka_unit_test(only_a_run_that_was_good_enough_is_over),
        cmocka_unit_test(each_validation_is_written_down),
        cmocka_unit_test(a_validation_that_failed_is_made_up_for),
        cmocka_unit_test(fewer_rows_are_named_as_the_cause),
        cmocka_unit_test(other_rows_are_refused_unless_given),
        cmocka_unit_test(rows_given_once_need_not_be_given_again),
        cmocka_unit_test(lost_steps_are_told_of),
        cmocka_unit_test(changed_keys_are_told_of),
        cmocka_unit_test(trajectories_of_an_older_version_are_told_of),
        cmocka_unit_test(what_was_given_is_known_without_a_checkpoint),
        cmocka_unit_test(what_a_program_gave_has_to_be_given_again),
        cmocka_unit_test(so_does_its_environment),
        cmocka_unit_test(and_its_tools),
        cmocka_unit_test(a_run_killed_as_it_begins_may_begin_again),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
