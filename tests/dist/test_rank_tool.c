/* test_rank_tool.c - sr1-train, sr1-eval and sr1-data started several times with a
 * launcher's variables: who writes what, signals and kills that reach one rank, and
 * settings that differ. */
#include "dist/job.h"

#include "base/json.h"

static int make_recipe(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    make_recipe_file();
    return 0;
}

/* ---- who writes what ---- */

static void first_rank_alone_writes(void **state)
{
    struct job j;

    (void)state;
    START_JOB(&j, recipe, out_of("whole"));
    end_job_with(&j, 0);
    assert_int_equal(count_file_lines(in_run("whole", "metrics.jsonl")), 20);
    assert_true(file_says(stream_of(0, "out"), "step 20/20"));
    assert_int_equal(count_file_lines(stream_of(1, "out")), 0);
    assert_true(file_says(in_run("whole", "logs/rank-1.log"),
                          "rank 1 of 2 by RANK and WORLD_SIZE on "));
    assert_true(file_says(in_run("whole", "logs/rank-1.log"), "step 20/20"));
    assert_true(file_says(in_run("whole", "run.json"), "\"world_size\": 2"));
    assert_true(file_says(stream_of(0, "err"), "rank 0 of 2 by RANK and WORLD_SIZE on "));
    assert_int_not_equal(access(in_run("whole", "logs/rank-0.log"), F_OK), 0);
}

static void open_mpi_is_a_launcher(void **state)
{
    struct job j;

    (void)state;
    start_job(&j, 1, (const char *const[]){recipe, out_of("mpi"), NULL});
    end_job_with(&j, 0);
    assert_true(file_says(stream_of(0, "err"), "rank 0 of 2 by Open MPI on "));
    same_model("whole", "mpi");
}

/* ---- signals and kills ---- */

static void resume_to_the_same(const char *run)
{
    struct job j;

    START_JOB(&j, "--resume", scratch_path(run));
    end_job_with(&j, 0);
    assert_int_equal(count_file_lines(in_run(run, "metrics.jsonl")), 20);
    same_model("whole", run);
}

static void a_signal_to_one_stops_all(void **state)
{
    struct job j;

    (void)state;
    START_JOB(&j, recipe, out_of("stopped"));
    wait_for_steps("stopped", 4);
    kill(j.pids[1], SIGTERM);
    end_job_with(&j, 130);
    assert_true(file_says(stream_of(0, "err"), "stopped after step"));
    resume_to_the_same("stopped");
}

/* with: one more setting; NULL: none. */
static void kill_rank(const char *run, int victim, const char *with)
{
    const char *named = victim ? "a rank is gone (rank 1)" : "a rank is gone (rank 0)";
    struct job j;
    int code;

    START_JOB(&j, recipe, out_of(run), with);
    wait_for_steps(run, 4);
    kill(j.pids[victim], SIGKILL);
    code = end_of_rank(j.pids[!victim], 10); /* far below distributed_timeout */
    assert_int_equal(end_of_rank(j.pids[victim], 5), 1000 + SIGKILL);
    assert_int_equal(code, 1);
    if (!file_says(stream_of(!victim, "err"), named)) {
        show_errors();
        fail();
    }
    resume_to_the_same(run);
}

static void a_killed_rank_ends_the_others(void **state)
{
    (void)state;
    kill_rank("killed-1", 1, NULL);
    kill_rank("killed-0", 0, NULL);
}

/* c10d's wrapper, which then notices it first, has other errors. */
static void a_killed_rank_is_named_in_debug_mode(void **state)
{
    (void)state;
    kill_rank("checked-1", 1, "distributed_debug=true");
    kill_rank("checked-0", 0, "distributed_debug=true");
}

/* ---- what ends a run early ---- */

/* The first validation is the best one: the rate falls. */
#define START_FALLING(j, run, size)                                                      \
    START_JOB(j, recipe, out_of(run), size, "lr_schedule=linear", "validate_interval=2", \
              "metric_for_best_model=learning_rate", "early_stopping_patience=2",        \
              "load_best_model_at_end=true")

static void ended_at_step_6(const char *run)
{
    char best[700];

    assert_int_equal(count_file_lines(in_run(run, "metrics.jsonl")), 6);
    assert_true(file_says(in_run(run, "logs/rank-1.log"), "step 6/6"));
    assert_false(file_says(in_run(run, "logs/rank-1.log"), "step 7/"));
    assert_true(file_says(stream_of(0, "out"),
                          "validations without a better figure: 2 reached "
                          "early_stopping_patience; to go on: sr1-train --resume"));
    assert_true(
        file_says(in_run(run, "run.json"), "\"key\": \"early_stopping_patience\""));
    snprintf(best, sizeof best, "%s",
             in_run(run, "checkpoints/step-2/model/model.safetensors"));
    if (access(best, F_OK) == 0) /* else it is in parts */
        same_file(best, in_run(run, "model/model.safetensors"));
    else
        same_file(
            in_run(run, "checkpoints/step-2/model/model-00002-of-00002.safetensors"),
            in_run(run, "model/model-00002-of-00002.safetensors"));
}

static void all_ranks_stop_at_one_step(void **state)
{
    static const char *const sizes[] = {"fsdp_size=1", "fsdp_size=-1"};
    struct job j;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *run = i ? "falls-in-parts" : "falls";

        START_FALLING(&j, run, sizes[i]);
        end_job_with(&j, 0);
        ended_at_step_6(run);
    }
    START_JOB(&j, recipe, out_of("far"), "stop_at_kl=1e-9");
    end_job_with(&j, 0);
    assert_int_equal(count_file_lines(in_run("far", "metrics.jsonl")), 1);
    assert_true(file_says(stream_of(0, "out"), " reached stop_at_kl; to go on: "));
}

/* Counters and the best one are the checkpoint's. */
static void a_killed_job_stops_at_the_same_step(void **state)
{
    struct job j;

    (void)state;
    START_FALLING(&j, "falls-killed", "fsdp_size=-1");
    wait_for_steps("falls-killed", 4);
    kill(j.pids[1], SIGKILL);
    assert_int_equal(end_of_rank(j.pids[0], 10), 1);
    assert_int_equal(end_of_rank(j.pids[1], 5), 1000 + SIGKILL);
    START_JOB(&j, "--resume", scratch_path("falls-killed"));
    end_job_with(&j, 0);
    ended_at_step_6("falls-killed");
}

/* ---- what is refused ---- */

static void start_different(struct job *j, const char *const *first,
                            const char *const *second)
{
    j->port = ranks_free_port();
    j->pids[0] = start_rank(0, j->port, 0, first);
    j->pids[1] = start_rank(1, j->port, 0, second);
}

static void other_settings_are_named(void **state)
{
    struct job j;
    const char *out = out_of("different");

    (void)state;
    start_different(&j, (const char *const[]){recipe, out, NULL},
                    (const char *const[]){recipe, out, "learning_rate=1e-4", NULL});
    end_job_with(&j, 1);
    for (int rank = 0; rank < 2; rank++)
        assert_true(file_says(stream_of(rank, "err"), "the configuration"));
    assert_true(file_says(stream_of(0, "err"),
                          "learning_rate is 0.001 on rank 0 and 0.0001 on rank 1"));
    assert_int_not_equal(access(scratch_path("different"), F_OK), 0);
}

/* Rank 1 is in a folder of its own, in which /proc/self/cwd is another place. */
static void put_ranks_apart(void)
{
    static char kept[2][512];

    OK(sr1__dir_make(scratch_path("theirs")));
    snprintf(kept[0], sizeof kept[0], "%s", scratch_path("."));
    snprintf(kept[1], sizeof kept[1], "%s", scratch_path("theirs"));
    places[0] = kept[0];
    places[1] = kept[1];
}

static void put_ranks_together(void)
{
    places[0] = places[1] = NULL;
}

/* Rank 1 alone lacks the critic's model. */
static void one_rank_fails_to_open(void **state)
{
    struct job j;

    (void)state;
    put_ranks_apart();
    START_JOB(&j, recipe, out_of("unopened"), "advantage=gae",
              "critic_model=/proc/self/cwd/model");
    put_ranks_together();
    end_job_with(&j, 2);
    for (int rank = 0; rank < 2; rank++) {
        expect_error(rank, "rank 1: ");
        expect_error(rank, "/proc/self/cwd/model");
    }
    assert_int_not_equal(access(scratch_path("unopened"), F_OK), 0);
}

static void a_folder_that_is_not_shared_is_named(void **state)
{
    struct job j;

    (void)state;
    put_ranks_apart();
    START_JOB(&j, recipe, "out=/proc/self/cwd/apart", "distributed_timeout=30");
    put_ranks_together();
    end_job_with(&j, 2);
    for (int rank = 0; rank < 2; rank++)
        expect_error(rank, "all processes need the same folder");
}

static int can_mount(void)
{
    int how = 1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(!mount_read_only(scratch_path(".")));
    return waitpid(pid, &how, 0) == pid && how == 0;
}

/* It need not write, unless it has a part of the checkpoints: then they are nobody's. */
static void a_rank_that_cannot_write_is_named(void **state)
{
    struct job j;

    (void)state;
    if (!can_mount())
        skip();
    reads_only[1] = 1;
    START_JOB(&j, recipe, out_of("read"));
    end_job_with(&j, 0);
    same_model("whole", "read");
    START_JOB(&j, recipe, out_of("unwritten"), "fsdp_size=-1");
    reads_only[1] = 0;
    end_job_with(&j, 1);
    for (int rank = 0; rank < 2; rank++) {
        expect_error(rank, "rank 1: ");
        expect_error(rank, "Read-only file system");
    }
    assert_int_not_equal(access(in_run("unwritten", "checkpoints/step-3"), F_OK), 0);
}

/* The error is also where torchrun reads what its workers say. */
static void missing_ranks_are_named(void **state)
{
    const char *left = scratch_path("error.json"), *message;
    json_t *error;
    pid_t pid;

    (void)state;
    setenv("TORCHELASTIC_ERROR_FILE", left, 1);
    pid = start_rank(
        0, ranks_free_port(), 0,
        (const char *const[]){recipe, out_of("alone"), "distributed_timeout=1", NULL});
    assert_int_equal(end_of_rank(pid, 20), 1);
    expect_error(0, "rank 1 of a world of 2 is missing");
    unsetenv("TORCHELASTIC_ERROR_FILE");
    error = json_load_file(left, 0, NULL);
    message = json_string_value(json_object_get(error, "message"));
    assert_non_null(message);
    assert_non_null(strstr(message, "rank 1 of a world of 2 is missing"));
    assert_true(json_is_integer(json_object_get(error, "timestamp")));
    json_decref(error);
}

static void what_is_not_there_is_refused(void **state)
{
    struct job j;

    (void)state;
    START_JOB(&j, recipe, out_of("nccl"), "distributed_backend=nccl");
    end_job_with(&j, 2);
    assert_true(file_says(stream_of(1, "err"),
                          "distributed_backend nccl needs libsearchr1_nccl.so") ||
                file_says(stream_of(1, "err"), "set device: cuda"));
    START_JOB(&j, recipe, out_of("chosen"), "micro_batch_tokens=0");
    end_job_with(&j, 2);
    assert_true(file_says(stream_of(1, "err"), "are chosen by one process"));
}

static void none_is_one_process(void **state)
{
    pid_t pid;

    (void)state;
    pid = start_rank(0, 1, 0,
                     (const char *const[]){recipe, out_of("none"),
                                           "distributed_backend=none", "max_steps=2",
                                           NULL});
    assert_int_equal(end_of_rank(pid, 60), 0);
    assert_false(file_says(stream_of(0, "err"), "rank 0 of"));
}

/* ---- sr1-eval and sr1-data synth ---- */

/* "workers=1" and the like, behind what both tools take. */
static const char *const policy_keys[] = {"device=cpu",
                                          "threads=1",
                                          "prompt_template=none",
                                          "document_format=plain",
                                          "max_tokens=24",
                                          "max_turns=2",
                                          "max_rows=4",
                                          "search_engine=mock",
                                          "temperature=1",
                                          "rewards=answer",
                                          "distributed_timeout=30"};
#define POLICY_KEYS (sizeof policy_keys / sizeof policy_keys[0])

static const char *model, *questions, *knowledge; /* set by choose_tool */

static void choose_tool(const char *name)
{
    static char kept[3][512];

    snprintf(tool, sizeof tool, "%s/tools/%s", getenv("SR1_BUILD"), name);
    snprintf(kept[0], sizeof kept[0], "%s", scratch_path("model"));
    snprintf(kept[1], sizeof kept[1], "%s", tiny_questions("asked.jsonl", 23));
    snprintf(kept[2], sizeof kept[2], "mock_knowledge=%s", scratch_path("facts.json"));
    model = kept[0];
    questions = kept[1];
    knowledge = kept[2];
}

/* The command's words, then the keys, then `more` up to NULL. */
static void fill_words(const char *words[40], const char *const *first,
                       const char *const *more)
{
    size_t n = 0;

    while (*first)
        words[n++] = *first++;
    for (size_t i = 0; i < POLICY_KEYS; i++)
        words[n++] = policy_keys[i];
    words[n++] = knowledge;
    while (*more)
        words[n++] = *more++;
    words[n] = NULL;
    assert_true(n < 40);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* One process, as the rank of none; returns how it ended. */
static int run_alone(const char *const *words)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        const char *argv[41] = {tool};
        int out = open(stream_of(9, "out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int err = open(stream_of(9, "err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

        for (size_t i = 0; words[i]; i++)
            argv[i + 1] = words[i];
        dup2(out, 1);
        dup2(err, 2);
        execv(tool, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    started[0] = pid;
    return end_of_rank(pid, 60);
}

/* Trajectories have log-probs, whose last digits depend on the rows beside one: as many
 * workers as ranks, each with as many rows, have the same. Scores and texts do not. */
static void an_evaluation_by_ranks_is_that_of_one(void **state)
{
    const char *words[40];
    char alone[512], shared[512];
    struct job j;

    (void)state;
    choose_tool("sr1-eval");
    snprintf(alone, sizeof alone, "%s", scratch_path("alone.jsonl"));
    snprintf(shared, sizeof shared, "%s", scratch_path("shared.jsonl"));
    fill_words(words, WORDS(model, questions), WORDS("workers=1", "--json", "--sample"));
    assert_int_equal(run_alone(words), 0);
    start_job(&j, 0, words);
    end_job_with(&j, 0);
    same_file(stream_of(0, "out"), stream_of(9, "out"));
    assert_int_equal(count_file_lines(stream_of(1, "out")), 0);
    fill_words(words, WORDS(model, questions),
               WORDS("workers=2", "--sample", "--trajectories", alone));
    assert_int_equal(run_alone(words), 0);
    fill_words(words, WORDS(model, questions),
               WORDS("workers=1", "max_rows=2", "--sample", "--trajectories", shared));
    start_job(&j, 1, words);
    end_job_with(&j, 0);
    same_file(stream_of(0, "out"), stream_of(9, "out"));
    same_file(shared, alone);
    assert_int_equal(count_file_lines(shared), 23);
    /* what is there is not replaced, and both end */
    start_job(&j, 0, words);
    end_job_with(&j, 2);
    expect_error(1, "rank 0: ");
}

/* The table and the files of results, of questions that fill no chunk evenly. */
static void a_suite_by_ranks_is_that_of_one(void **state)
{
    const char *words[40];
    char sets[512], alone[512], shared[512];
    struct job j;

    (void)state;
    choose_tool("sr1-eval");
    snprintf(sets, sizeof sets, "%s", scratch_path("suite"));
    OK(sr1__dir_make(sets));
    (void)tiny_questions("suite/x.jsonl", 11);
    (void)tiny_questions("suite/y.jsonl", 2);
    snprintf(alone, sizeof alone, "%s", scratch_path("alone"));
    snprintf(shared, sizeof shared, "%s", scratch_path("shared"));
    fill_words(words, WORDS("--suite", sets, model, "--samples", "2", "--results", alone),
               WORDS("workers=2"));
    assert_int_equal(run_alone(words), 0);
    fill_words(words,
               WORDS("--suite", sets, model, "--samples", "2", "--results", shared),
               WORDS("workers=1"));
    start_job(&j, 0, words);
    end_job_with(&j, 0);
    same_file(stream_of(0, "out"), stream_of(9, "out"));
    same_file(scratch_path("alone/x.jsonl"), scratch_path("shared/x.jsonl"));
}

static void a_rank_that_fails_ends_the_evaluation(void **state)
{
    const char *words[40], *other[40];
    struct job j;

    (void)state;
    choose_tool("sr1-eval");
    fill_words(words, WORDS(model, questions), WORDS("workers=1"));
    fill_words(other, WORDS(model, tiny_questions("others.jsonl", 22)),
               WORDS("workers=1"));
    start_different(&j, words, other);
    end_job_with(&j, 1);
    for (int rank = 0; rank < 2; rank++)
        expect_error(rank, "the file of questions on rank 1 differs");
    fill_words(other, WORDS(model, questions), WORDS("workers=1", "--seed", "3"));
    start_different(&j, words, other);
    end_job_with(&j, 1);
    expect_error(0, "an option of the evaluation on rank 1 differs");
    fill_words(other, WORDS(model, "/nowhere.jsonl"), WORDS("workers=1"));
    start_different(&j, words, other);
    end_job_with(&j, 2);
    for (int rank = 0; rank < 2; rank++)
        expect_error(rank, "rank 1: ");
    expect_error(0, "/nowhere.jsonl");
    put_ranks_apart();
    tiny_model("theirs/model", TINY_SEARCHER, 8);
    fill_words(words, WORDS("/proc/self/cwd/model", questions), WORDS("workers=1"));
    start_job(&j, 0, words);
    put_ranks_together();
    end_job_with(&j, 1);
    for (int rank = 0; rank < 2; rank++)
        expect_error(rank, "the policy differs: weights is");
    fill_words(words, WORDS("--task", "ctrl", model, questions), WORDS("workers=1"));
    start_job(&j, 0, words);
    end_job_with(&j, 2);
    expect_error(0, "start one");
}

/* Long enough to be met while it runs. */
static void fill_synthesis(const char *words[40], const char *out)
{
    fill_words(words, WORDS("synth", model, questions, out),
               WORDS("workers=1", "--samples", "30", "--keep", "2", "--min-reward", "0"));
}

/* Until the state file tells of the first questions. */
static void wait_for_demonstrations(const char *out)
{
    char state[520];

    snprintf(state, sizeof state, "%s.state", out);
    for (int i = 0; i < 15000; i++) {
        if (access(state, F_OK) == 0 && !file_says(state, "\"rows\": 0,"))
            return;
        usleep(2000);
    }
    fail();
}

static void demonstrations_by_ranks_are_those_of_one(void **state)
{
    const char *words[40];
    char out[512], name[64];
    struct job j;

    (void)state;
    choose_tool("sr1-data");
    snprintf(out, sizeof out, "%s", scratch_path("alone-demos.jsonl"));
    fill_synthesis(words, out);
    assert_int_equal(run_alone(words), 0);
    snprintf(out, sizeof out, "%s", scratch_path("demos.jsonl"));
    fill_synthesis(words, out);
    start_job(&j, 0, words);
    end_job_with(&j, 0);
    same_file(out, scratch_path("alone-demos.jsonl"));
    assert_int_equal(count_file_lines(stream_of(1, "out")), 0);
    for (int victim = 0; victim < 2; victim++) {
        snprintf(name, sizeof name, "demos-%d.jsonl", victim);
        snprintf(out, sizeof out, "%s", scratch_path(name));
        fill_synthesis(words, out);
        start_job(&j, 0, words);
        wait_for_demonstrations(out);
        kill(j.pids[victim], SIGKILL);
        assert_int_equal(end_of_rank(j.pids[!victim], 20), 1);
        assert_int_equal(end_of_rank(j.pids[victim], 5), 1000 + SIGKILL);
        snprintf(name, sizeof name, "a rank is gone (rank %d)", victim);
        expect_error(!victim, name);
        start_job(&j, 0, words);
        end_job_with(&j, 0);
        same_file(out, scratch_path("alone-demos.jsonl"));
        assert_true(file_says(stream_of(0, "out"), "were done before"));
    }
}

static void a_signal_to_one_stops_the_demonstrations(void **state)
{
    const char *words[40];
    char out[512];
    struct job j;

    (void)state;
    choose_tool("sr1-data");
    snprintf(out, sizeof out, "%s", scratch_path("stopped-demos.jsonl"));
    fill_synthesis(words, out);
    start_job(&j, 0, words);
    wait_for_demonstrations(out);
    kill(j.pids[1], SIGTERM);
    end_job_with(&j, 130);
    start_job(&j, 0, words);
    end_job_with(&j, 0);
    same_file(out, scratch_path("alone-demos.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_rank_alone_writes),
        cmocka_unit_test(open_mpi_is_a_launcher),
        cmocka_unit_test(a_signal_to_one_stops_all),
        cmocka_unit_test(a_killed_rank_ends_the_others),
        cmocka_unit_test(a_killed_rank_is_named_in_debug_mode),
        cmocka_unit_test(all_ranks_stop_at_one_step),
        cmocka_unit_test(a_killed_job_stops_at_the_same_step),
        cmocka_unit_test(other_settings_are_named),
        cmocka_unit_test(one_rank_fails_to_open),
        cmocka_unit_test(a_folder_that_is_not_shared_is_named),
        cmocka_unit_test(a_rank_that_cannot_write_is_named),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(none_is_one_process),
        cmocka_unit_test(an_evaluation_by_ranks_is_that_of_one),
        cmocka_unit_test(a_suite_by_ranks_is_that_of_one),
        cmocka_unit_test(a_rank_that_fails_ends_the_evaluation),
        cmocka_unit_test(demonstrations_by_ranks_are_those_of_one),
        cmocka_unit_test(a_signal_to_one_stops_the_demonstrations),
    };

    return cmocka_run_group_tests(tests, make_recipe, scratch_remove);
}
