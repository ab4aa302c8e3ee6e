/* test_rank_tool.c - sr1-train started several times with a launcher's variables: who
 * writes what, signals and kills that reach one rank, and settings that differ. */
#include "support/tiny.h"

#include "base/clock.h"
#include "dist/ranks.h"

#include <fcntl.h>

static char tool[512], recipe[512];

static int make_recipe(void **state)
{
    char text[4096];

    if (scratch_make(state) != 0)
        return -1;
    snprintf(tool, sizeof tool, "%s/tools/sr1-train", getenv("SR1_BUILD"));
    tiny_model("model", TINY_SEARCHER, 9);
    snprintf(text, sizeof text,
             "model_name_or_path: %s\ntrain_file: %s\nmock_knowledge: %s\n"
             "device: cpu\nworkers: 1\nthreads: 1\nprompt_template: none\n"
             "document_format: plain\nmax_tokens: 24\nmax_turns: 2\ngroup_size: 4\n"
             "batch_size: 2\nupdate_times: 2\nkl_reference: frozen\nmax_steps: 20\n"
             "learning_rate: 1e-3\nsave_interval: 3\nvalidation_split: 0.2\n"
             "validate_interval: 5\ndistributed_timeout: 30\n",
             scratch_path("model"), tiny_questions("train.jsonl", 9),
             tiny_knowledge("facts.json"));
    snprintf(recipe, sizeof recipe, "%s", scratch_file("recipe.yaml", text, 0));
    return 0;
}

/* ---- a job of two ranks ---- */

struct job {
    uint16_t port;
    pid_t pids[2];
};

/* Variables of torchrun, or of Open MPI. */
static void set_variables(int rank, uint16_t port, int mpi)
{
    char text[16];

    snprintf(text, sizeof text, "%d", rank);
    setenv(mpi ? "OMPI_COMM_WORLD_RANK" : "RANK", text, 1);
    setenv(mpi ? "OMPI_COMM_WORLD_LOCAL_RANK" : "LOCAL_RANK", text, 1);
    setenv(mpi ? "OMPI_COMM_WORLD_SIZE" : "WORLD_SIZE", "2", 1);
    setenv(mpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "LOCAL_WORLD_SIZE", "2", 1);
    snprintf(text, sizeof text, "%d", port);
    setenv("MASTER_PORT", text, 1);
}

static const char *stream_of(int rank, const char *which)
{
    char name[32];

    snprintf(name, sizeof name, "rank-%d.%s", rank, which);
    return scratch_path(name);
}

static const char *places[2]; /* of the ranks; NULL: the test's own */

static pid_t start_rank(int rank, uint16_t port, int mpi, const char *const *args)
{
    const char *argv[16] = {tool};
    pid_t pid;

    for (size_t i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int out = open(stream_of(rank, "out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int err = open(stream_of(rank, "err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

        signal(SIGINT, SIG_DFL);
        dup2(out, 1);
        dup2(err, 2);
        set_variables(rank, port, mpi);
        if (places[rank] && chdir(places[rank]) != 0)
            _exit(98);
        execv(tool, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    assert_true(pid > 0);
    return pid;
}

static void start_job(struct job *j, int mpi, const char *const *args)
{
    j->port = ranks_free_port();
    for (int rank = 0; rank < 2; rank++)
        j->pids[rank] = start_rank(rank, j->port, mpi, args);
}
#define START_JOB(j, ...) start_job(j, 0, (const char *const[]){__VA_ARGS__, NULL})

/* Exit code, or 1000 + signal; 9999 for one that had to be killed. */
static int end_of_rank(pid_t pid, double seconds)
{
    double began = sr1__now();
    int status;

    while (sr1__now() - began < seconds) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
        usleep(2000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 9999;
}

static void show_errors(void)
{
    for (int rank = 0; rank < 2; rank++) {
        struct sr1__buf b;

        OK(sr1__file_read(stream_of(rank, "err"), 0, &b));
        fprintf(stderr, "---- rank %d\n%s", rank, sr1__buf_cstr(&b));
        sr1__buf_free(&b);
    }
}

static void end_job_with(struct job *j, int code)
{
    int first = end_of_rank(j->pids[0], 60), second = end_of_rank(j->pids[1], 60);

    if (first == code && second == code)
        return;
    show_errors();
    fail_msg("the ranks ended with %d and %d", first, second);
}

static int file_says(const char *path, const char *text)
{
    struct sr1__buf b;
    int yes;

    OK(sr1__file_read(path, 0, &b));
    yes = strstr(sr1__buf_cstr(&b), text) != NULL;
    sr1__buf_free(&b);
    return yes;
}

static int count_file_lines(const char *path)
{
    struct sr1__buf b;
    int n = 0;

    if (access(path, F_OK) != 0)
        return 0;
    OK(sr1__file_read(path, 0, &b));
    for (size_t i = 0; i < b.len; i++)
        n += b.data[i] == '\n';
    sr1__buf_free(&b);
    return n;
}

static const char *out_of(const char *run)
{
    static char pairs[4][600];
    static unsigned next;
    char *p = pairs[next++ % 4];

    snprintf(p, sizeof pairs[0], "out=%s", scratch_path(run));
    return p;
}

static const char *in_run(const char *run, const char *file)
{
    char name[200];

    snprintf(name, sizeof name, "%s/%s", run, file);
    return scratch_path(name);
}

static void same_model(const char *a, const char *b)
{
    struct sr1__buf x, y;

    OK(sr1__file_read(in_run(a, "model/model.safetensors"), 0, &x));
    OK(sr1__file_read(in_run(b, "model/model.safetensors"), 0, &y));
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    sr1__buf_free(&x);
    sr1__buf_free(&y);
}

static void wait_for_steps(const char *run, int n)
{
    const char *path = in_run(run, "metrics.jsonl");

    for (int i = 0; i < 15000 && count_file_lines(path) < n; i++)
        usleep(2000);
    assert_true(count_file_lines(path) >= n);
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

static void kill_rank(const char *run, int victim)
{
    struct job j;
    int code;

    START_JOB(&j, recipe, out_of(run));
    wait_for_steps(run, 4);
    kill(j.pids[victim], SIGKILL);
    code = end_of_rank(j.pids[!victim], 10); /* far below distributed_timeout */
    assert_int_equal(end_of_rank(j.pids[victim], 5), 1000 + SIGKILL);
    assert_int_equal(code, 1);
    if (!file_says(stream_of(!victim, "err"), "a rank is gone")) {
        show_errors();
        fail();
    }
    resume_to_the_same(run);
}

static void a_killed_rank_ends_the_others(void **state)
{
    (void)state;
    kill_rank("killed-1", 1);
    kill_rank("killed-0", 0);
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

/* Rank 1 alone lacks the critic's model. */
static void one_rank_fails_to_open(void **state)
{
    static char place[512];
    struct job j;

    (void)state;
    snprintf(place, sizeof place, "%s", scratch_path("."));
    places[0] = place;
    places[1] = "/";
    START_JOB(&j, recipe, out_of("unopened"), "advantage=gae",
              "critic_model=/proc/self/cwd/model");
    places[0] = places[1] = NULL;
    end_job_with(&j, 2);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(file_says(stream_of(rank, "err"), "rank 1: "));
        assert_true(file_says(stream_of(rank, "err"), "/proc/self/cwd/model"));
    }
    assert_int_not_equal(access(scratch_path("unopened"), F_OK), 0);
}

static void missing_ranks_are_named(void **state)
{
    pid_t pid;

    (void)state;
    pid = start_rank(
        0, ranks_free_port(), 0,
        (const char *const[]){recipe, out_of("alone"), "distributed_timeout=1", NULL});
    assert_int_equal(end_of_rank(pid, 20), 1);
    assert_true(file_says(stream_of(0, "err"), "rank 1 of a world of 2 is missing"));
}

static void what_is_not_there_is_refused(void **state)
{
    struct job j;

    (void)state;
    START_JOB(&j, recipe, out_of("nccl"), "distributed_backend=nccl");
    end_job_with(&j, 2);
    assert_true(file_says(stream_of(1, "err"), "distributed_backend nccl is not there"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_rank_alone_writes),
        cmocka_unit_test(open_mpi_is_a_launcher),
        cmocka_unit_test(a_signal_to_one_stops_all),
        cmocka_unit_test(a_killed_rank_ends_the_others),
        cmocka_unit_test(other_settings_are_named),
        cmocka_unit_test(one_rank_fails_to_open),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(none_is_one_process),
    };

    return cmocka_run_group_tests(tests, make_recipe, scratch_remove);
}
