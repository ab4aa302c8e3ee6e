/* Rollouts whose first search takes a second and the others 20 ms: when all trajectories
 * but one are done, with the engine's word that it lets one wait and without it.
 * usage: bench_waiting [rows=64] */
#include "support/tiny.h"

#include <stdatomic.h>
#include <time.h>

#define SLOW_S 1.0
#define QUICK_S 0.02

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sr1_status search(void *self, const char *const *queries, size_t n, int32_t k,
                         sr1_search_sink *sink)
{
    double s = atomic_fetch_add((atomic_int *)self, 1) == 0 ? SLOW_S : QUICK_S;
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    (void)queries, (void)k;
    nanosleep(&t, NULL);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_hit(sink, i, "tower", "The tower stands in Paris.", 1));
    return SR1_OK;
}

static sr1_status on_progress(void *user, int64_t done, int64_t total, int64_t tokens)
{
    double *others_done = user;

    (void)tokens;
    if (done == total - 1 && *others_done == 0)
        *others_done = now();
    return SR1_OK;
}

static void measure(int32_t rows, int32_t flags)
{
    atomic_int calls = 0;
    char max_rows[32];
    sr1_search_ops ops = {.struct_size = sizeof ops,
                          .name = "slow",
                          .search = search,
                          .flags = flags | SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS};
    sr1_trajectory **t = calloc((size_t)rows, sizeof *t);
    sr1_query q = tiny_query("Where?");
    sr1_search *engine = NULL;
    sr1_rollout *r;
    double began, others = 0;
    sr1_rollout_options o = {.struct_size = sizeof o,
                             .group_size = rows,
                             .seed = 1,
                             .progress = on_progress,
                             .user = &others};

    snprintf(max_rows, sizeof max_rows, "max_rows=%d", (int)rows);
    OK(sr1_search_new(&engine, &ops, &calls));
    r = tiny_rollout(tiny_config("searcher", "search_concurrency=64", max_rows, NULL),
                     engine);
    began = now();
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    printf("{\"what\": \"waiting\", \"rows\": %d, \"waits\": %d, \"others_s\": %.4f, "
           "\"all_s\": %.4f}\n",
           (int)rows, flags != 0, (others > 0 ? others : now()) - began, now() - began);
    tiny_free_all(t, (size_t)rows);
    free(t);
    sr1_rollout_free(r);
}

int main(int argc, char **argv)
{
    int32_t rows = argc > 1 ? atoi(argv[1]) : 64;
    void *state = NULL;

    if (rows < 2 || scratch_make(&state) != 0)
        return 1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    measure(rows, 0);
    measure(rows, SR1_SEARCH_WAITS);
    return scratch_remove(&state);
}
