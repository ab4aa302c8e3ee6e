/* bench_ranks.c - an update by several processes with Gloo on this machine, of one thread
 * each, and by one: the same trajectories, of PROMPT + NEW tokens each, in as many
 * micro-batches. sum: what adding up all gradients in the order of ranks takes of it.
 * usage: bench_ranks FOLDER RANKS SEQS PROMPT NEW REPS [key=value...]
 * Prints one JSON object: medians over updates, of the slowest rank. */
#include "bench.h"
#include "processor_time.h"

#include "base/error.h"
#include "environment/trajectory/builder.h"
#include "train/internal.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 8
#define REPS_MAX 64

static struct shared {
    double update[RANKS_MAX][REPS_MAX], sum[RANKS_MAX][REPS_MAX];
    double cpu[RANKS_MAX][REPS_MAX]; /* processor time of an update */
    int failed;
} * shared;

struct work {
    const char *folder;
    int ranks, seqs, prompt, fresh, reps;
    const char *const *words;
};

static sr1_status make_config(const struct work *w, sr1_config **out)
{
    char model[1024];
    sr1_config *c = NULL;

    SR1__TRY(bench_config(&c, w->words));
    snprintf(model, sizeof model, "%s", w->folder);
    SR1__TRY(sr1_config_set(c, "model_name_or_path", model));
    SR1__TRY(sr1_config_set(c, "threads", "1"));
    SR1__TRY(sr1_config_set(c, "workers", "1"));
    SR1__TRY(sr1_config_set(c, "beta", "0"));
    *out = c;
    return SR1_OK;
}

static sr1_status make_trajectory(const struct work *w, int i, sr1_trajectory **out)
{
    struct sr1__trajectory_builder *b = NULL;
    int32_t *prompt = calloc((size_t)w->prompt, sizeof *prompt);

    if (!prompt)
        return sr1__fail_nomem("prompt");
    for (int k = 0; k < w->prompt; k++)
        prompt[k] = (i * 31 + k * 7) % 251;
    SR1__TRY(sr1__trajectory_builder_new(&b, "q", 1, "q", i));
    SR1__TRY(sr1__trajectory_builder_prompt(b, prompt, (size_t)w->prompt));
    free(prompt);
    for (int k = 0; k < w->fresh; k++)
        SR1__TRY(
            sr1__trajectory_builder_policy(b, (i * 17 + k * 5) % 251, -5.0F, 0, "", 0));
    SR1__TRY(sr1__trajectory_builder_finish(b, SR1_STOP_TOKEN_LIMIT, NULL, 0, out));
    return sr1_trajectory_set_advantage(*out, i % 2 ? 1.0 : -1.0);
}

/* All trained numbers, as an update without shards adds them up. */
static sr1_status time_sum(sr1_trainer *tr, double *seconds)
{
    int64_t n = 0;
    sr1_tensor *t = NULL;
    double began;
    sr1_status st;

    for (size_t i = 0; i < tr->model->n_params; i++)
        n += t_numel(tr->model->params[i].tensor);
    SR1__TRY(sr1__shim_full(&t, 1.0, SR1__F32, 1, &n, SR1__CPU));
    began = bench_now();
    st = sr1__dist_sum(tr->dist, "sum of gradients", SR1_OK, t);
    *seconds = bench_now() - began;
    sr1__tensor_free(t);
    return st;
}

static sr1_status run_rank(const struct work *w, int rank)
{
    sr1_trajectory *t[1024];
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_config *c = NULL;
    sr1_trainer *tr = NULL;

    SR1__TRY(make_config(w, &c));
    SR1__TRY(sr1_trainer_new(&tr, c, NULL));
    for (int i = 0; i < w->seqs; i++)
        SR1__TRY(make_trajectory(w, i, &t[i]));
    for (int k = 0; k < w->reps; k++) {
        double began = bench_now(), used = processor_seconds();

        SR1__TRY(sr1_trainer_update(tr, t, (size_t)w->seqs, &r));
        shared->update[rank][k] = bench_now() - began;
        shared->cpu[rank][k] = processor_seconds() - used;
        SR1__TRY(time_sum(tr, &shared->sum[rank][k]));
    }
    sr1_trainer_free(tr);
    sr1_config_free(c);
    return SR1_OK;
}

static void set_variable(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void start_rank(const struct work *w, int rank)
{
    sr1_status st;

    if (fork() != 0)
        return;
    if (w->ranks > 1) {
        set_variable("RANK", rank);
        set_variable("LOCAL_RANK", rank);
        set_variable("WORLD_SIZE", w->ranks);
        set_variable("MASTER_PORT", 20000 + getppid() % 10000);
    }
    st = run_rank(w, rank);
    if (st != SR1_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, sr1_last_error());
        shared->failed = 1;
    }
    fflush(NULL);
    _exit(st != SR1_OK);
}

static int compare_seconds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the slowest rank in each repetition; the first warms up where there are others. */
static double find_median(double (*of)[REPS_MAX], const struct work *w)
{
    double most[REPS_MAX] = {0};
    int first = w->reps > 1;

    for (int k = 0; k < w->reps; k++)
        for (int r = 0; r < w->ranks; r++)
            most[k] = of[r][k] > most[k] ? of[r][k] : most[k];
    qsort(most + first, (size_t)(w->reps - first), sizeof *most, compare_seconds);
    return most[first + (w->reps - first) / 2];
}

int main(int argc, char **argv)
{
    struct work w = {.words = (const char *const *)argv + (argc < 7 ? argc : 7)};

    if (argc < 7) {
        fprintf(stderr, "usage: bench_ranks FOLDER RANKS SEQS PROMPT NEW REPS "
                        "[key=value...]\n");
        return 2;
    }
    w.folder = argv[1];
    w.ranks = atoi(argv[2]);
    w.seqs = atoi(argv[3]);
    w.prompt = atoi(argv[4]);
    w.fresh = atoi(argv[5]);
    w.reps = atoi(argv[6]);
    if (w.ranks < 1 || w.ranks > RANKS_MAX || w.seqs < 1 || w.seqs > 1024 ||
        w.prompt < 1 || w.fresh < 1 || w.reps < 1 || w.reps > REPS_MAX)
        return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int r = 0; r < w.ranks; r++)
        start_rank(&w, r);
    while (wait(NULL) > 0)
        ;
    if (shared->failed)
        return 1;
    printf("{\"what\": \"ranks\", \"ranks\": %d, \"update_s\": %.3f, \"cpu_s\": %.3f, "
           "\"sum_s\": %.4f}\n",
           w.ranks, find_median(shared->update, &w), find_median(shared->cpu, &w),
           find_median(shared->sum, &w));
    return 0;
}
