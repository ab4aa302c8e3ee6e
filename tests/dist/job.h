/* dist/job.h - a tool started as the ranks of a job, with a launcher's variables. */
#ifndef SR1_TESTS_DIST_JOB_H
#define SR1_TESTS_DIST_JOB_H

#include "support/tiny.h"

#include "base/clock.h"
#include "dist/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

static char tool[512], recipe[512];

/* A model that searches, questions, and a recipe of 20 steps with them. */
static inline void make_recipe_file(void)
{
    char text[4096];

    snprintf(tool, sizeof tool, "%s/tools/sr1-train", getenv("SR1_BUILD"));
    tiny_model("model", TINY_SEARCHER, 9);
    snprintf(text, sizeof text,
             "model_name_or_path: %s\ntrain_file: %s\nmock_knowledge: %s\n"
             "device: cpu\nworkers: 1\nthreads: 1\nprompt_template: none\n"
             "document_format: plain\nmax_tokens: 24\nmax_turns: 2\ngroup_size: 4\n"
             "batch_size: 2\nupdate_times: 2\nkl_reference: frozen\nmax_steps: 20\n"
             "learning_rate: 1e-3\nsave_interval: 3\nvalidation_split: 0.2\n"
             "validate_interval: 5\ndistributed_timeout: 30\ndistributed_debug: %s\n",
             scratch_path("model"), tiny_questions("train.jsonl", 9),
             tiny_knowledge("facts.json"), getenv("SR1_DIST_DEBUG") ? "true" : "false");
    snprintf(recipe, sizeof recipe, "%s", scratch_file("recipe.yaml", text, 0));
}

/* ---- a job ---- */

static int world = 2; /* its ranks */

struct job {
    uint16_t port;
    pid_t pids[RANKS_MAX];
};

/* Variables of torchrun, or of Open MPI. */
static inline void set_variables(int rank, uint16_t port, int mpi)
{
    char text[16];

    snprintf(text, sizeof text, "%d", rank);
    setenv(mpi ? "OMPI_COMM_WORLD_RANK" : "RANK", text, 1);
    setenv(mpi ? "OMPI_COMM_WORLD_LOCAL_RANK" : "LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", world);
    setenv(mpi ? "OMPI_COMM_WORLD_SIZE" : "WORLD_SIZE", text, 1);
    setenv(mpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "LOCAL_WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", port);
    setenv("MASTER_PORT", text, 1);
}

static inline const char *stream_of(int rank, const char *which)
{
    char name[32];

    snprintf(name, sizeof name, "rank-%d.%s", rank, which);
    return scratch_path(name);
}

static const char *places[RANKS_MAX]; /* of the ranks; NULL: the test's own */
static int reads_only[RANKS_MAX];     /* of the ranks: the tests' folder */
static pid_t started[RANKS_MAX];      /* last */

/* For this process alone, which has to be root's. */
static inline int mount_read_only(const char *folder)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(folder, folder, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, folder, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

static inline pid_t start_rank(int rank, uint16_t port, int mpi, const char *const *args)
{
    const char *argv[41] = {tool};
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
        if (reads_only[rank] && !mount_read_only(scratch_path(".")))
            _exit(97);
        if (places[rank] && chdir(places[rank]) != 0)
            _exit(98);
        execv(tool, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    assert_true(pid > 0);
    started[rank] = pid;
    return pid;
}

static inline void start_job(struct job *j, int mpi, const char *const *args)
{
    j->port = ranks_free_port();
    for (int rank = 0; rank < world; rank++)
        j->pids[rank] = start_rank(rank, j->port, mpi, args);
}
#define START_JOB(j, ...) start_job(j, 0, (const char *const[]){__VA_ARGS__, NULL})

/* ---- how ranks end ---- */

/* Threads, as their lines in /proc/PID/task/TID/stat tell. */
struct threads_seen {
    int at_work;    /* of them, whether or not a processor is free for them */
    double seconds; /* of processor time, so far */
};

static inline void look_at_threads(pid_t pid, struct threads_seen *all, FILE *show)
{
    char path[64], line[512];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        unsigned long user = 0, system = 0;
        const char *at = NULL;
        char state = '?';
        FILE *f;

        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, e->d_name);
        f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (f && fgets(line, sizeof line, f))
            at = strrchr(line, ')');
        if (f)
            fclose(f);
        if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                          &state, &user, &system) != 3)
            continue;
        all->at_work += state == 'R' || state == 'D';
        all->seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
        if (show)
            fprintf(show, "%.*s: %c, %lu ticks\n", (int)(at + 1 - line), line, state,
                    user + system);
    }
    if (d)
        closedir(d);
}

/* Of all ranks of the last job. */
static inline struct threads_seen look_at_ranks(FILE *show)
{
    struct threads_seen all = {0};

    for (int rank = 0; rank < world; rank++)
        if (started[rank] > 0)
            look_at_threads(started[rank], &all, show);
    return all;
}

/* Exit code, or 1000 + signal; 9999 for one that had to be killed: no rank had anything
 * to do for so many seconds, or they worked so long. That others have the machine is no
 * reason. */
static inline int end_of_rank(pid_t pid, double seconds)
{
    double last = sr1__now(), idle = 0.0, worked = look_at_ranks(NULL).seconds;
    int status;

    for (int i = 1; waitpid(pid, &status, WNOHANG) != pid; i++) {
        struct threads_seen now;

        usleep(2000);
        if (i % 32 != 0)
            continue;
        now = look_at_ranks(NULL);
        idle += now.at_work ? 0.0 : sr1__now() - last;
        last = sr1__now();
        if (idle > seconds || now.seconds - worked > seconds) {
            (void)look_at_ranks(stderr);
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return 9999;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline void show_errors(void)
{
    for (int rank = 0; rank < world; rank++) {
        struct sr1__buf b;

        OK(sr1__file_read(stream_of(rank, "err"), 0, &b));
        fprintf(stderr, "---- rank %d\n%s", rank, sr1__buf_cstr(&b));
        sr1__buf_free(&b);
    }
}

static inline void end_job_with(struct job *j, int code)
{
    int ended[RANKS_MAX], others = 0;

    for (int rank = 0; rank < world; rank++) {
        ended[rank] = end_of_rank(j->pids[rank], 120);
        others += ended[rank] != code;
    }
    if (others == 0)
        return;
    show_errors();
    for (int rank = 0; rank < world; rank++)
        fprintf(stderr, "rank %d ended with %d\n", rank, ended[rank]);
    fail_msg("%d ranks did not end with %d", others, code);
}

static inline int file_says(const char *path, const char *text)
{
    struct sr1__buf b;
    int yes;

    OK(sr1__file_read(path, 0, &b));
    yes = strstr(sr1__buf_cstr(&b), text) != NULL;
    sr1__buf_free(&b);
    return yes;
}

/* Rank's errors have this text. */
static inline void expect_error(int rank, const char *text)
{
    if (file_says(stream_of(rank, "err"), text))
        return;
    show_errors();
    fail_msg("rank %d does not say: %s", rank, text);
}

static inline int count_file_lines(const char *path)
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

static inline const char *out_of(const char *run)
{
    static char pairs[4][600];
    static unsigned next;
    char *p = pairs[next++ % 4];

    snprintf(p, sizeof pairs[0], "out=%s", scratch_path(run));
    return p;
}

static inline const char *in_run(const char *run, const char *file)
{
    char name[200];

    snprintf(name, sizeof name, "%s/%s", run, file);
    return scratch_path(name);
}

static inline void same_file(const char *a, const char *b)
{
    struct sr1__buf x, y;

    OK(sr1__file_read(a, 0, &x));
    OK(sr1__file_read(b, 0, &y));
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
        fail_msg("%s and %s differ:\n%s\n%s", a, b, sr1__buf_cstr(&x), sr1__buf_cstr(&y));
    assert_true(x.len > 0);
    sr1__buf_free(&x);
    sr1__buf_free(&y);
}

static inline void same_model(const char *a, const char *b)
{
    char whole[700];

    snprintf(whole, sizeof whole, "%s", in_run(a, "model/model.safetensors"));
    same_file(whole, in_run(b, "model/model.safetensors"));
}

static inline void wait_for_steps(const char *run, int n)
{
    const char *path = in_run(run, "metrics.jsonl");

    for (int i = 0; i < 15000 && count_file_lines(path) < n; i++)
        usleep(2000);
    assert_true(count_file_lines(path) >= n);
}

#endif
