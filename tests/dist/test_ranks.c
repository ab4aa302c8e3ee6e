/* test_ranks.c - training by several processes: the same bits as by as many workers of
 * one, as the same run again, and as a run that never stopped. */
#include "dist/ranks.h"
#include "unit/train/runs.h"

/* The launcher's variables for what this process opens next. */
static void set_variables(const struct ranks *r)
{
    char text[16];

    snprintf(text, sizeof text, "%d", ranks_self);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", r->size);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", r->port);
    setenv("MASTER_PORT", text, 1);
}

/* Steps with mini-batches, two epochs, a reference and a validation in the midst. */
#define CONFIG(name, ...)                                                                \
    RUN(name, "threads=1", "batch_size=3", "group_size=4", "beta=0.1",                   \
        "micro_batch_tokens=64", "update_times=2", "log_trajectories=-1", __VA_ARGS__)

static const char *run_name;
static int32_t run_workers;

static sr1_config *config_of(const char *name, int32_t workers)
{
    char pair[32];

    snprintf(pair, sizeof pair, "workers=%d", workers);
    return CONFIG(name, pair);
}

static void train_as_rank(const struct ranks *r)
{
    sr1_trainer *tr;

    set_variables(r);
    tr = open_trainer(config_of(run_name, run_workers));
    RANK_CHECK(sr1_trainer_rank(tr) == ranks_self);
    RANK_CHECK(sr1_trainer_world_size(tr) == r->size);
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_OK);
    sr1_trainer_free(tr);
}

static void run_ranks(const char *name, int32_t size)
{
    struct ranks r = {.size = size};

    run_name = name;
    run_workers = 1;
    ranks_run(&r, train_as_rank, 0);
}

static void train_in_one(const struct ranks *r)
{
    (void)r;
    run_whole(config_of(run_name, run_workers));
}

/* In a process of its own: this one forks, and must not have run a model. */
static void run_workers_of_one(const char *name, int32_t workers)
{
    struct ranks r = {.size = 1};

    run_name = name;
    run_workers = workers;
    ranks_run(&r, train_in_one, 0);
}

static void ranks_are_workers(void **state)
{
    (void)state;
    run_workers_of_one("workers-2", 2);
    run_ranks("ranks-2", 2);
    same_run("workers-2", "ranks-2");
}

static void three_ranks_are_three_workers(void **state)
{
    (void)state;
    run_workers_of_one("workers-3", 3);
    run_ranks("ranks-3", 3);
    same_run("workers-3", "ranks-3");
}

static void again_the_same(void **state)
{
    (void)state;
    run_ranks("again", 2);
    same_run("ranks-2", "again");
}

/* ---- resuming ---- */

static void cut_short(const struct ranks *r)
{
    sr1_trainer *tr;

    set_variables(r);
    tr = open_trainer(config_of("resumed", 1));
    run_until(tr, 3);
    sr1_trainer_free(tr);
}

static void go_on(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    set_variables(r);
    OK(sr1_trainer_resume(&tr, scratch_path("resumed"), NULL));
    RANK_CHECK(sr1_trainer_steps_done(tr) == 2);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static void resuming_is_never_having_stopped(void **state)
{
    struct ranks r = {.size = 2}, again = r;

    (void)state;
    ranks_run(&r, cut_short, 0);
    ranks_run(&again, go_on, 0);
    same_run("ranks-2", "resumed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_workers),
        cmocka_unit_test(three_ranks_are_three_workers),
        cmocka_unit_test(again_the_same),
        cmocka_unit_test(resuming_is_never_having_stopped),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
