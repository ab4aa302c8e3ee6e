/* sr1-train as others see it: exit codes, signals, and kills at random moments, each
 * resumed to the same bits. SR1_KILLS: how many (3 here, 20 in tests/kill/run). */
#include "support/openai_server.h"

#include "base/json.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char tool[512], recipe[512];

static void write_recipe(void)
{
    char text[4096];

    snprintf(text, sizeof text,
             "model_name_or_path: %s\ntrain_file: %s\nmock_knowledge: %s\n"
             "device: cpu\nworkers: 1\nthreads: 1\nprompt_template: none\n"
             "document_format: plain\nmax_tokens: 24\nmax_turns: 2\ngroup_size: 4\n"
             "batch_size: 2\nupdate_times: 2\nkl_reference: frozen\nmax_steps: 40\n"
             "learning_rate: 1e-3\nsave_interval: 3\nlr_schedule: linear\n"
             "validation_split: 0.2\nvalidate_interval: 5\n",
             scratch_path("model"), tiny_questions("train.jsonl", 9),
             tiny_knowledge("facts.json"));
    snprintf(recipe, sizeof recipe, "%s", scratch_file("recipe.yaml", text, 0));
}

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    snprintf(tool, sizeof tool, "%s/tools/sr1-train", getenv("SR1_BUILD"));
    tiny_model("model", TINY_SEARCHER, 9);
    write_recipe();
    return 0;
}

/* ---- processes ---- */

static pid_t start(const char *const *args)
{
    const char *argv[16] = {tool};
    pid_t pid;

    for (size_t i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int log = open(scratch_path("log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

        signal(SIGINT, SIG_DFL); /* a shell's background job has it ignored */
        dup2(log, 1);
        dup2(log, 2);
        execv(tool, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    assert_true(pid > 0);
    return pid;
}

/* Exit code, or 1000 + signal. */
static int end_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define START(...) start((const char *const[]){__VA_ARGS__, NULL})
#define CALL(...) end_of(START(__VA_ARGS__))

static int log_says(const char *text)
{
    static char all[65536];
    FILE *f = fopen(scratch_path("log"), "r");
    size_t n = fread(all, 1, sizeof all - 1, f);

    fclose(f);
    all[n] = '\0';
    return strstr(all, text) != NULL;
}

static void show_log(void)
{
    char line[1024];
    FILE *f = fopen(scratch_path("log"), "r");

    while (f && fgets(line, sizeof line, f))
        fputs(line, stderr);
    if (f)
        fclose(f);
}

static void wait_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* Until the file has n lines, or the process is gone. */
static void wait_for_lines(const char *path, int n, pid_t pid)
{
    for (int i = 0; i < 6000; i++) {
        FILE *f = fopen(path, "r");
        int lines = 0, c;

        while (f && (c = fgetc(f)) != EOF)
            lines += c == '\n';
        if (f)
            fclose(f);
        if (lines >= n || kill(pid, 0) != 0)
            return;
        wait_ms(10);
    }
    fail_msg("%s: never %d lines", path, n);
}

/* ---- files ---- */

static char *slurp(const char *path, size_t *n)
{
    struct sr1__buf b;

    OK(sr1__file_read(path, 0, &b));
    *n = b.len;
    return sr1__buf_take(&b);
}

static void same_file(const char *run_a, const char *run_b, const char *file)
{
    char a[600], b[600];
    size_t n, m;
    char *x, *y;

    snprintf(a, sizeof a, "%s/%s", scratch_path(run_a), file);
    snprintf(b, sizeof b, "%s/%s", scratch_path(run_b), file);
    x = slurp(a, &n);
    y = slurp(b, &m);
    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("%s differs from %s", b, a);
    sr1_free(x);
    sr1_free(y);
}

static void same_metrics(const char *run_a, const char *run_b)
{
    char path[2][600], line[2][16384];
    FILE *f[2];

    for (int k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "%s/metrics.jsonl",
                 scratch_path(k ? run_b : run_a));
        f[k] = fopen(path[k], "r");
        assert_non_null(f[k]);
    }
    while (fgets(line[0], sizeof line[0], f[0])) {
        json_t *row[2] = {NULL, NULL};
        const char *key;
        json_t *v;
        void *tmp;

        assert_non_null(fgets(line[1], sizeof line[1], f[1]));
        for (int k = 0; k < 2; k++) {
            OK(sr1__json_parse(&row[k], line[k], strlen(line[k]), path[k]));
            json_object_foreach_safe(row[k], tmp, key,
                                     v) if (!strncmp(key, "timing_s/", 9) ||
                                            !strncmp(key, "perf/", 5))
                json_object_del(row[k], key);
        }
        assert_true(json_equal(row[0], row[1]));
        json_decref(row[0]);
        json_decref(row[1]);
    }
    assert_null(fgets(line[1], sizeof line[1], f[1]));
    fclose(f[0]);
    fclose(f[1]);
}

static void same_run(const char *a, const char *b)
{
    same_metrics(a, b);
    same_file(a, b, "trajectories.jsonl.zst");
    same_file(a, b, "model/model.safetensors");
    same_file(a, b, "checkpoints/step-40/optimizer/model.safetensors");
}

static const char *out_pair(const char *run)
{
    static char pairs[4][600];
    static unsigned next;
    char *p = pairs[next++ % 4];

    snprintf(p, sizeof pairs[0], "out=%s", scratch_path(run));
    return p;
}

static double seconds_of_whole;

static void a_whole_run_exits_0(void **state)
{
    struct timespec a, b;
    int code;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &a);
    code = CALL(recipe, out_pair("whole"));
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (code != 0)
        show_log();
    assert_int_equal(code, 0);
    seconds_of_whole =
        (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    assert_true(log_says("40 steps done"));
}

static void killed_at_random_moments_it_resumes_to_the_same_bits(void **state)
{
    const char *wanted = getenv("SR1_KILLS");
    int kills = wanted ? atoi(wanted) : 3, landed = 0;
    double window = seconds_of_whole;
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, (uint64_t)time(NULL), 0);
    for (int i = 0; landed < kills; i++) {
        long ms = (long)(sr1__rng_uniform(&rng) * window * 1000);
        char run[32];
        pid_t pid;
        int code;

        assert_true(i < 10 * kills);
        snprintf(run, sizeof run, "killed-%d", i);
        pid = START(recipe, out_pair(run));
        wait_ms(ms);
        kill(pid, SIGKILL);
        code = end_of(pid);
        if (code != 0 && code != 1000 + SIGKILL)
            show_log();
        assert_true(code == 0 || code == 1000 + SIGKILL);
        if (code == 0) /* it was done: does not count, and the next comes sooner */
            window *= 0.7;
        else
            printf("kill %d after %ld ms\n", ++landed, ms);
        code = CALL("--resume", scratch_path(run));
        if (code == 2 && (log_says("holds no run") || log_says("there is no folder")))
            /* before it had begun */
            code = CALL(recipe, out_pair(run));
        if (code != 0)
            show_log();
        assert_int_equal(code, 0);
        same_run("whole", run);
        OK(sr1__dir_remove(scratch_path(run)));
    }
}

static struct openai_server server;

/* A run whose server generates the next step's rollouts during the update. */
static pid_t start_ahead(const char *run)
{
    char url[128];

    snprintf(url, sizeof url, "openai_base_url=%s/v1", server.http.url);
    return START(recipe, out_pair(run), url, "use_openai=true", "openai_concurrency=1",
                 "openai_engine=vllm", "weight_sync_backend=disk",
                 "weight_sync_max_log_prob_diff=0", "async_level=1",
                 "importance_correction=token_truncate", "max_steps=6", "save_interval=1",
                 "validate_interval=0");
}

static void so_it_does_with_rollouts_ahead(void **state)
{
    const char *wanted = getenv("SR1_KILLS");
    int kills = wanted ? atoi(wanted) : 1;
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, (uint64_t)time(NULL), 1);
    openai_start(&server, scratch_path("model"));
    server.engine = VLLM;
    assert_int_equal(end_of(start_ahead("ahead")), 0);
    for (int i = 0; i < kills; i++) {
        char run[32], lines[600];
        pid_t pid;
        int code;

        snprintf(run, sizeof run, "ahead-%d", i);
        snprintf(lines, sizeof lines, "%s/metrics.jsonl", scratch_path(run));
        pid = start_ahead(run);
        wait_for_lines(lines, 1 + (int)(sr1__rng_uniform(&rng) * 4), pid);
        wait_ms((long)(sr1__rng_uniform(&rng) * 200));
        kill(pid, SIGKILL);
        code = end_of(pid);
        assert_true(code == 0 || code == 1000 + SIGKILL);
        server.paused = 0; /* where the kill came in the midst of a push */
        code = CALL("--resume", scratch_path(run));
        if (code != 0)
            show_log();
        assert_int_equal(code, 0);
        same_metrics("ahead", run);
        same_file("ahead", run, "trajectories.jsonl.zst");
        same_file("ahead", run, "model/model.safetensors");
    }
    openai_stop(&server);
}

static void an_interrupt_ends_with_a_checkpoint(void **state)
{
    pid_t pid = START(recipe, out_pair("stopped"));
    int code;

    (void)state;
    wait_for_lines(scratch_path("stopped/metrics.jsonl"), 2, pid);
    kill(pid, SIGINT);
    code = end_of(pid);
    assert_int_equal(code, 130);
    assert_true(log_says("continue with sr1-train --resume"));
    assert_true(sr1__path_is_dir(scratch_path("stopped/checkpoints")));
    assert_int_equal(CALL("--resume", scratch_path("stopped")), 0);
    same_run("whole", "stopped");
}

/* A terminal that is gone tells so more than once, and reads no more. */
static void a_hangup_ends_with_a_checkpoint(void **state)
{
    pid_t pid = START(recipe, out_pair("hung-up"));

    (void)state;
    wait_for_lines(scratch_path("hung-up/metrics.jsonl"), 2, pid);
    kill(pid, SIGHUP);
    kill(pid, SIGTERM);
    kill(pid, SIGUSR1); /* Slurm's, before a job's time is over */
    wait_ms(2);
    kill(pid, SIGHUP);
    assert_int_equal(end_of(pid), 130);
    assert_true(sr1__path_is_dir(scratch_path("hung-up/checkpoints")));
    assert_int_equal(CALL("--resume", scratch_path("hung-up")), 0);
    same_run("whole", "hung-up");
}

/* As nohup and a shell's "&" start it, and into a pipe that nobody reads. */
static void what_is_ignored_stays_so(void **state)
{
    int ends[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        signal(SIGHUP, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl(tool, tool, recipe, out_pair("nohup"), (char *)NULL);
        _exit(99);
    }
    close(ends[0]);
    close(ends[1]);
    wait_for_lines(scratch_path("nohup/metrics.jsonl"), 2, pid);
    kill(pid, SIGHUP);
    kill(pid, SIGINT);
    assert_int_equal(end_of(pid), 0);
    same_run("whole", "nohup");
}

static void a_second_interrupt_ends_at_once(void **state)
{
    /* one step that takes long: many questions, many tokens */
    pid_t pid = START(recipe, out_pair("twice"), "batch_size=9", "group_size=2000",
                      "max_tokens=400", "max_rows=8");

    (void)state;
    for (int i = 0;
         i < 6000 && !sr1__path_exists(scratch_path("twice/trajectories.jsonl.zst")); i++)
        wait_ms(10);
    wait_ms(100);
    kill(pid, SIGINT);
    wait_ms(150);
    kill(pid, SIGINT);
    assert_int_equal(end_of(pid), 130);
    assert_false(sr1__path_exists(scratch_path("twice/checkpoints"))); /* none was made */
}

static void unfinished_work_never_exits_0(void **state)
{
    (void)state;
    /* wrong usage or configuration: 2, and nothing is written */
    assert_int_equal(CALL("--no-such-option"), 2);
    assert_int_equal(CALL(recipe, "--resume", "x"), 2);
    assert_int_equal(CALL(scratch_path("missing.yaml")), 2);
    assert_int_equal(CALL(recipe, out_pair("wrong"), "group_sise=3"), 2);
    assert_true(log_says("group_size"));
    assert_int_equal(CALL(recipe, out_pair("wrong"), "train_file=/nowhere/x.jsonl"), 2);
    assert_int_equal(CALL(recipe, out_pair("wrong"), "top_p=0.5"), 2);
    assert_int_equal(CALL(recipe, out_pair("wrong"), "model_name_or_path=/nowhere"), 2);
    assert_true(log_says("/nowhere"));
    assert_int_equal(CALL(recipe, out_pair("wrong"), "max_prompt_tokens=5"), 2);
    assert_true(log_says("max_prompt_tokens") && log_says("around the question"));
    assert_int_equal(CALL("--resume", scratch_path("wrong")), 2);
    assert_false(sr1__path_exists(scratch_path("wrong")));
    assert_int_equal(CALL(recipe, out_pair("whole")), 2); /* already holds a run */
    assert_true(log_says("--resume"));
    /* what goes on with a run that was good enough is said, and does */
    assert_int_equal(CALL(recipe, out_pair("enough"), "stop_at_exact_match=0.01"), 0);
    assert_int_equal(CALL("--resume", scratch_path("enough")), 0);
    assert_true(log_says("5 steps were done before; exact match"));
    assert_true(log_says("stop_at_exact_match=0 max_steps=N"));
    assert_int_equal(
        CALL("--resume", scratch_path("enough"), "stop_at_exact_match=0", "max_steps=6"),
        0);
    assert_true(log_says("6 steps done"));
    /* likewise what else ends a run, and where its best one is */
    assert_int_equal(CALL(recipe, out_pair("settled"), "metric_for_best_model=val/format",
                          "early_stopping_patience=1", "early_stopping_threshold=2"),
                     0);
    assert_true(log_says("validations without a better figure: 1 reached "
                         "early_stopping_patience; to go on: sr1-train --resume "));
    assert_true(log_says("early_stopping_patience=0 max_steps=N"));
    assert_true(log_says("; best val/format "));
    assert_int_equal(CALL("--resume", scratch_path("settled")), 0);
    assert_true(log_says("steps were done before; validations without a better"));
    /* failed: 1 */
    assert_int_equal(CALL(recipe, "out=/proc/nothing"), 1);
}

/* ---- memory ---- */

static void write_long_demos(const char *path)
{
    FILE *f = fopen(path, "w");

    for (int i = 0; f && i < 32; i++) {
        fprintf(f,
                "{\"question\": \"%d?\", \"segments\": [{\"source\": \"policy\", "
                "\"text\": \"",
                i);
        for (int k = 0; k < 450; k++)
            fputc('0' + (i * 7 + k * k) % 10, f);
        fputs("\"}]}\n", f);
    }
    assert_true(f && fclose(f) == 0);
}

/* Largest resident memory, in KiB, of one step over all demonstrations. */
static long peak(const char *run, const char *checkpointing, const char *sft)
{
    struct rusage use;
    pid_t pid = START(recipe, out_pair(run), "stage=sft", sft, "batch_size=32",
                      "max_steps=1", checkpointing, out_pair(run), "validation_split=0",
                      "validate_interval=0", "model_name_or_path=deep");
    int status;

    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    if (status != 0)
        show_log();
    assert_int_equal(status, 0);
    return use.ru_maxrss;
}

static void checkpointing_lowers_the_peak(void **state)
{
    char pair[600];
    long without, with;
    size_t n, m;
    char *a, *b;

    (void)state;
    tiny_deep_model("deep", 16, NULL, 0, 0);
    write_long_demos(scratch_path("long.jsonl"));
    snprintf(pair, sizeof pair, "sft_file=%s", scratch_path("long.jsonl"));
    assert_int_equal(chdir(scratch_dir), 0);
    without = peak("peak-without", "gradient_checkpointing=false", pair);
    with = peak("peak-with", "gradient_checkpointing=true", pair);
    printf("peak %ld MiB, with checkpointing %ld MiB\n", without / 1024, with / 1024);
    assert_true((double)with <= 0.7 * (double)without);
    a = slurp(scratch_path("peak-without/model/model.safetensors"), &n);
    b = slurp(scratch_path("peak-with/model/model.safetensors"), &m);
    assert_true(n == m && memcmp(a, b, n) == 0); /* the very same gradients */
    sr1_free(a);
    sr1_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_run_exits_0),
        cmocka_unit_test(killed_at_random_moments_it_resumes_to_the_same_bits),
        cmocka_unit_test(so_it_does_with_rollouts_ahead),
        cmocka_unit_test(an_interrupt_ends_with_a_checkpoint),
        cmocka_unit_test(a_hangup_ends_with_a_checkpoint),
        cmocka_unit_test(what_is_ignored_stays_so),
        cmocka_unit_test(a_second_interrupt_ends_at_once),
        cmocka_unit_test(unfinished_work_never_exits_0),
        cmocka_unit_test(checkpointing_lowers_the_peak),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
