/* bench_sandbox [key=value...] - short programs a second in a local sandbox, beside bare
 * starts of python3, and beside the sandbox without isolation.
 *
 *   bench.programs=200  of each a round
 *   bench.rounds=3      the three take turns
 *   bench.at_once=0     at a time; 0: one a processor */
#include "bench.h"

#include <searchr1/ext/sandbox.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE "print(sum(i * i for i in range(1000)))"
#define FILE_NAME "/tmp/sr1-bench-sandbox.py"
#define ROUNDS_MAX 64

extern char **environ;

/* Seconds for n runs of python3, so many at a time. */
static double bare(int n, int at_once)
{
    char python[] = "/usr/bin/python3";
    char file[] = FILE_NAME;
    char *argv[] = {python, file, NULL};
    posix_spawn_file_actions_t quiet;
    double begun = bench_now();
    int running = 0;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    for (int i = 0; i < n || running > 0;) {
        pid_t pid;

        if (i < n && running < at_once) {
            if (posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ) != 0)
                return -1;
            i++;
            running++;
        } else if (wait(NULL) > 0) {
            running--;
        }
    }
    posix_spawn_file_actions_destroy(&quiet);
    return bench_now() - begun;
}

static double boxed(sr1_sandbox *box, int n)
{
    sr1_execution **runs = calloc((size_t)n, sizeof *runs);
    sr1_execution_result r = {.struct_size = sizeof r};
    double begun = bench_now();
    sr1_program p;
    int bad = runs == NULL;

    sr1_program_init(&p);
    p.code = CODE;
    for (int i = 0; i < n && !bad; i++)
        bad = sr1_sandbox_start(box, &p, &runs[i]) != SR1_OK;
    for (int i = 0; i < n && !bad; i++) {
        (void)sr1_execution_wait(runs[i], -1);
        bad = sr1_execution_result_get(runs[i], &r) != SR1_OK ||
              r.verdict != SR1_RUN_PASSED;
        sr1_execution_free(runs[i]);
    }
    free(runs);
    return bad ? -1 : bench_now() - begun;
}

static sr1_sandbox *open_box(const char *isolation, int at_once)
{
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;

    sr1_sandbox_options_init(&o);
    o.isolation = isolation;
    o.concurrency = at_once;
    o.time_s = 60;
    if (sr1_sandbox_open(&box, &o) != SR1_OK)
        fprintf(stderr, "bench_sandbox: %s\n", sr1_last_error());
    return box;
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, smaller);
    return v[n / 2];
}

int main(int argc, char **argv)
{
    const char *const *words = (const char *const *)argv + 1;
    int n = bench_number(words, "programs", 200);
    int rounds = bench_number(words, "rounds", 3);
    int at_once = bench_number(words, "at_once", 0);
    double python[ROUNDS_MAX], none[ROUNDS_MAX], isolated[ROUNDS_MAX];
    sr1_sandbox *open, *closed;
    FILE *f = fopen(FILE_NAME, "w");

    (void)argc;
    if (at_once <= 0)
        at_once = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (f == NULL || fputs(CODE, f) < 0 || fclose(f) != 0 || rounds > ROUNDS_MAX)
        return 1;
    open = open_box("none", at_once);
    closed = open_box("bubblewrap", at_once);
    if (open == NULL || closed == NULL)
        return 1;
    for (int i = 0; i < rounds; i++) {
        python[i] = bare(n, at_once);
        isolated[i] = boxed(closed, n);
        none[i] = boxed(open, n);
        if (python[i] < 0 || isolated[i] < 0 || none[i] < 0)
            return 1;
    }
    printf("{\"bench\": \"sandbox\", \"at_once\": %d, \"python3_per_s\": %.1f, "
           "\"bubblewrap_per_s\": %.1f, \"none_per_s\": %.1f, \"ratio\": %.3f}\n",
           at_once, n / median(python, rounds), n / median(isolated, rounds),
           n / median(none, rounds), median(python, rounds) / median(isolated, rounds));
    sr1_sandbox_free(open);
    sr1_sandbox_free(closed);
    return remove(FILE_NAME);
}
