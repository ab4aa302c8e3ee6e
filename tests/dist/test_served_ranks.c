/* test_served_ranks.c - training by several processes whose rollouts servers generate:
 * the same bits as by as many workers of one process, at once and with rollouts ahead. */
#include "support/openai_server.h"

#include "dist/ranks.h"
#include "unit/train/runs.h"

/* In a process of its own: this one forks, and must not have run a model. */
static struct openai_server *server;
static pid_t server_pid;

static void start_server(void)
{
    server = mmap(NULL, sizeof *server, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(server != MAP_FAILED);
    fflush(NULL);
    server_pid = fork();
    if (server_pid == 0) {
        openai_start(server, scratch_path("model"));
        server->engine = VLLM;
        for (;;)
            pause();
    }
    for (int i = 0; i < 6000 && server->engine != VLLM; i++)
        usleep(10000);
    assert_int_equal(server->engine, VLLM);
}

static void stop_server(void)
{
    kill(server_pid, SIGKILL);
    waitpid(server_pid, NULL, 0);
    munmap(server, sizeof *server);
}

static const char *run_name, *run_pair;
static int32_t run_workers;

static sr1_config *config_of(const char *name)
{
    char pair[32];
    sr1_config *c;

    snprintf(pair, sizeof pair, "workers=%d", run_workers);
    c = RUN(name, "threads=1", "batch_size=3", "micro_batch_tokens=64",
            "openai_concurrency=1", "weight_sync_backend=disk", "openai_engine=vllm",
            "importance_correction=token_truncate", pair, run_pair);
    openai_use(server, c);
    return c;
}

static void train_whole(const struct ranks *r)
{
    sr1_trainer *tr;

    if (r->size > 1)
        ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_OK);
    sr1_trainer_free(tr);
}

static void train_and_stop(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    run_until(tr, 3);
    sr1_trainer_free(tr);
}

static void go_on(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    ranks_set_variables(r);
    sr1_config_free(config_of(run_name)); /* which knows the tests' device */
    RANK_CHECK(sr1_trainer_resume(&tr, scratch_path(run_name), NULL) == SR1_OK);
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_OK);
    sr1_trainer_free(tr);
}

static void run_by(int32_t size, const char *name, void (*body)(const struct ranks *r))
{
    struct ranks r = {.size = size};

    run_name = name;
    run_workers = size == 1 ? 2 : 1;
    ranks_run(&r, body, 0);
}

/* Two workers of one process, two ranks, and two ranks that stopped. pushes: of weights
 * in a whole run, by one rank alone. */
static void compare(const char *pair, int pushes)
{
    static const char *const names[2][3] = {{"one", "two", "resumed"},
                                            {"ahead", "ahead-two", "ahead-resumed"}};
    const char *const *name = names[strcmp(pair, "async_level=1") == 0];

    run_pair = pair;
    start_server();
    run_by(1, name[0], train_whole);
    assert_int_equal(server->loads, pushes);
    run_by(2, name[1], train_whole);
    assert_int_equal(server->loads, 2 * pushes);
    same_run(name[0], name[1]);
    run_by(2, name[2], train_and_stop);
    run_by(2, name[2], go_on);
    same_run(name[0], name[2]);
    stop_server();
}

static void ranks_share_the_servers(void **state)
{
    (void)state;
    compare("async_level=0", 6);
}

static void so_they_do_with_rollouts_ahead(void **state)
{
    (void)state;
    compare("async_level=1", 5);
}

/* vLLM calls a model by its path. */
static void a_long_name_of_a_model_is_that_of_all_ranks(void **state)
{
    static char name[400];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    run_pair = "max_steps=2";
    start_server();
    server->model_name = name;
    run_by(2, "named", train_whole);
    assert_int_equal(server->loads, 2);
    stop_server();
}

/* ---- a push that fails ---- */

static void fail_alike(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_E_NETWORK);
    RANK_CHECK(strstr(sr1_last_error(), "/reset_prefix_cache"));
    sr1_trainer_free(tr);
}

static void a_push_that_fails_fails_for_all(void **state)
{
    (void)state;
    run_pair = "async_level=0";
    start_server();
    server->refuse_flush = 1;
    run_by(2, "refused", fail_alike);
    stop_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_the_servers),
        cmocka_unit_test(so_they_do_with_rollouts_ahead),
        cmocka_unit_test(a_long_name_of_a_model_is_that_of_all_ranks),
        cmocka_unit_test(a_push_that_fails_fails_for_all),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
