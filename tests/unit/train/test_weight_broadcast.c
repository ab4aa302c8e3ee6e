/* weight_sync_backend: nccl. The weights go to vLLM's workers by broadcasts in the order
 * announced; NCCL is support/nccl_stub.h, the server support/nccl_server.h. Neither NCCL
 * nor vLLM runs. */
#include "support/nccl_server.h"

#include "runs.h"
#include "step_metric.h"

#include "base/clock.h"

#include "train/plan.h"

#include <searchr1/ext/run_info.h>

#define SERVERS 2
#define QUESTIONS 8
#define GROUP 2

static const struct tiny_rule quiet[] = {{"", " so"}, {" so", "<|im_end|>"}};
static struct openai_server servers[SERVERS];
static struct nccl_server behind[SERVERS];
static char told[8192]; /* what was logged */

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    tiny_model("quiet", quiet, 2, 16);
    runs_files();
    sr1_log_set(on_log, NULL);
    return 0;
}

/* The second server has two GPUs. They begin with other weights than the policy. */
static void start_all(void)
{
    told[0] = '\0';
    if (sr1__path_exists(scratch_path("run")))
        OK(sr1__dir_remove(scratch_path("run")));
    for (int i = 0; i < SERVERS; i++)
        nccl_start(&servers[i], &behind[i], 1 + i, scratch_path("quiet"));
}

static void stop_all(void)
{
    for (int i = 0; i < SERVERS; i++)
        nccl_stop(&servers[i]);
}

static sr1_config *config_of(size_t n, const char *const *pairs)
{
    sr1_config *c = tiny_config("searcher", "beta=0", "weight_sync_backend=nccl", NULL);
    char out[600];

    openai_use_all(servers, n, c);
    snprintf(out, sizeof out, "out=%s", scratch_path("run"));
    OK(sr1_config_set_pair(c, out));
    OK(sr1_config_set(c, "openai_retries", "0"));
    for (; pairs && *pairs; pairs++)
        OK(sr1_config_set_pair(c, *pairs));
    return c;
}

#define PAIRS(...)                                                                       \
    (const char *const[])                                                                \
    {                                                                                    \
        __VA_ARGS__, NULL                                                                \
    }

static sr1_status run_step(sr1_trainer *tr, sr1_step_report *r)
{
    char text[QUESTIONS][64];
    sr1_query q[QUESTIONS];

    for (int k = 0; k < QUESTIONS; k++) {
        snprintf(text[k], sizeof text[k], "Where is the tower number %d?", k);
        q[k] = tiny_query(text[k]);
    }
    *r = (sr1_step_report){.struct_size = sizeof *r};
    return sr1_trainer_train_step(tr, q, QUESTIONS, GROUP, r, NULL);
}

/* The bytes that server i got are those of the policy's model, once saved. */
static void expect_the_policys_bytes(const char *saved, int i)
{
    struct sr1__buf own, theirs;
    char path[2][700];

    snprintf(path[0], sizeof path[0], "%s/model.safetensors", scratch_path(saved));
    snprintf(path[1], sizeof path[1], "%s/model.safetensors", behind[i].received);
    OK(sr1__file_read(path[0], 0, &own));
    OK(sr1__file_read(path[1], 0, &theirs));
    assert_int_equal(own.len, theirs.len);
    assert_memory_equal(own.data, theirs.data, own.len);
    sr1__buf_free(&own);
    sr1__buf_free(&theirs);
}

/* Once a group, then the steps of each push in their order, and every worker has every
 * byte. */
static void weights_are_broadcast_to_every_worker(void **state)
{
    int joined = stub_joined, aborts = stub_aborts;
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all();
    tr = tiny_trainer(config_of(SERVERS, PAIRS("learning_rate=0.02")));
    OK(run_step(tr, &r)); /* what training begins with, which they did not serve */
    assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
    assert_true(step_metric(&r, "weight_sync/log_prob_diff") < 2e-5);
    for (int i = 0; i < SERVERS; i++) {
        assert_string_equal(servers[i].steps,
                            "join;pause wait;start;update;finish;flush;version;resume;");
        assert_int_equal(behind[i].n_tensors, servers[i].model->n_views);
        servers[i].steps[0] = '\0';
    }
    assert_int_equal(stub_joined, joined + SERVERS);
    OK(sr1_trainer_save_model(tr, scratch_path("saved")));
    OK(run_step(tr, &r));
    assert_int_equal(step_metric(&r, "rollout/staleness"), 0);
    assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
    for (int i = 0; i < SERVERS; i++) {
        assert_string_equal(
            servers[i].steps,
            "version;pause wait;start;update;finish;flush;version;resume;");
        assert_string_equal(servers[i].version, "1");
        expect_the_policys_bytes("saved", i);
    }
    assert_int_equal(stub_joined, joined + SERVERS);
    assert_false(sr1__path_exists(scratch_path("run/served")));
    assert_string_equal(told, "");
    sr1_trainer_free(tr);
    assert_int_equal(stub_aborts, aborts + SERVERS);
    stop_all();
}

static void an_adapter_is_merged_into_what_is_sent(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all();
    tr = tiny_trainer(config_of(SERVERS, PAIRS("lora_rank=2", "learning_rate=0.02")));
    OK(run_step(tr, &r));
    OK(sr1_model_save_merged(tr->model, scratch_path("merged")));
    OK(run_step(tr, &r));
    assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
    for (int i = 0; i < SERVERS; i++)
        expect_the_policys_bytes("merged", i);
    sr1_trainer_free(tr);
    stop_all();
}

/* The servers here compute in fp32 by what they were sent. */
static void numbers_of_16_bits_are_sent_as_they_are(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all();
    tr = tiny_trainer(config_of(SERVERS, PAIRS("dtype=bf16", "learning_rate=0.02")));
    OK(run_step(tr, &r));
    OK(run_step(tr, &r));
    assert_true(step_metric(&r, "weight_sync/log_prob_diff") < 0.05);
    for (int i = 0; i < SERVERS; i++)
        assert_int_equal(behind[i].n_tensors, 2 * servers[i].model->n_views);
    sr1_trainer_free(tr);
    stop_all();
}

/* It generates nothing until it has the weights, by a group that is new. */
static void a_server_that_fails_is_left_out(void **state)
{
    static const struct {
        int no_route, refuse_join, other_world; /* where it has no group */
        int refuse_update, die_at, breaks;
        const char *why;
    } rows[] = {
        {.no_route = 1, .why = "joining (vLLM 0.30 or newer"},
        {.refuse_join = 400, .why = "HTTP 400"},
        {.other_world = 7, .why = "NCCL: invalid usage"},
        {.refuse_update = 409, .why = "/update_weights: "},
        {.die_at = 3, .why = "NCCL: remote process exited"},
        {.breaks = 1, .why = "NCCL: invalid usage: stub"},
    };
    sr1_step_report r;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct openai_server *bad = &servers[1];
        struct nccl_server *w = &behind[1];
        int joins = rows[k].no_route || rows[k].refuse_join || rows[k].other_world;
        sr1_trainer *tr;
        int before;

        start_all();
        tr = tiny_trainer(config_of(SERVERS, NULL));
        OK(run_step(tr, &r));
        before = bad->completions;
        assert_true(before > 0);
        if (joins)
            nccl_restart(bad);
        w->no_route = rows[k].no_route;
        w->refuse_join = rows[k].refuse_join;
        w->other_world = rows[k].other_world;
        w->refuse_update = rows[k].refuse_update;
        w->die_at = rows[k].die_at;
        if (rows[k].breaks) { /* the other is down, so the first broadcast is its own */
            servers[0].down = 1;
            stub_fails = 1;
            REFUSED(run_step(tr, &r), SR1_E_NETWORK, rows[k].why);
        } else {
            OK(run_step(tr, &r));
            assert_int_equal(bad->completions, before);
            assert_int_equal(step_metric(&r, "rollout/servers/live"), SERVERS - 1);
            assert_non_null(strstr(told, bad->http.url));
            if (!strstr(told, rows[k].why))
                fail_msg("row %zu: %s", k, told);
        }
        bad->down = servers[0].down = 0;
        w->no_route = w->refuse_join = w->other_world = 0;
        w->refuse_update = w->die_at = 0;
        OK(run_step(tr, &r));
        assert_true(bad->completions > before);
        assert_int_equal(step_metric(&r, "rollout/servers/live"), SERVERS);
        assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
        assert_non_null(strstr(told, "is back, with the present weights"));
        sr1_trainer_free(tr);
        stop_all();
    }
}

/* Its workers do not join, or join and take no weights; it says nothing for a minute. */
static void nothing_waits_longer_than_the_limit(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        double began = sr1__now();
        sr1_step_report r;
        sr1_trainer *tr;

        start_all();
        behind[0].stall_join = k == 0;
        behind[0].stall_update = k == 1;
        tr = tiny_trainer(config_of(1, PAIRS("weight_sync_timeout=8")));
        assert_int_equal(run_step(tr, &r), SR1_E_TIMEOUT);
        /* the limit is the request's, too */
        if (!strstr(sr1_last_error(), "NCCL: the server's workers did not take part") &&
            !strstr(sr1_last_error(), "no answer in time"))
            fail_msg("%s", sr1_last_error());
        assert_true(sr1__now() - began < 55);
        sr1_trainer_free(tr);
        stop_all();
    }
}

/* It is the only one, so a push that fails would end the run. */
static void a_server_that_was_restarted_is_joined_anew(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all();
    tr = tiny_trainer(config_of(1, NULL));
    OK(run_step(tr, &r));
    nccl_restart(&servers[0]);
    servers[0].steps[0] = '\0';
    OK(run_step(tr, &r));
    assert_string_equal(
        servers[0].steps,
        "version;join;pause wait;start;update;finish;flush;version;resume;");
    assert_string_equal(told, "");
    sr1_trainer_free(tr);
    stop_all();
}

/* One that took every byte and serves others is found out. */
static void each_broadcast_is_proved_by_log_probs(void **state)
{
    static char other[600];
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    snprintf(other, sizeof other, "%s", scratch_path("quiet"));
    start_all();
    tr = tiny_trainer(config_of(SERVERS, NULL));
    OK(run_step(tr, &r));
    servers[1].other_weights = other;
    REFUSED(run_step(tr, &r), SR1_E_STATE, "nats a token from the policy's");
    assert_non_null(strstr(sr1_last_error(), servers[1].http.url));
    sr1_trainer_free(tr);
    stop_all();
}

/* What the servers had at a checkpoint, or rollouts that were under way by it, is kept
 * nowhere: the present weights go out before anything is generated. */
static void a_resumed_run_sends_its_present_weights(void **state)
{
    static const char *const rows[][3] = {
        {"openai_sync_interval=3", "max_staleness=2", "async_level=0"},
        {"openai_sync_interval=1", "importance_correction=token_truncate",
         "async_level=1"},
    };
    static const char push[] =
        "join;pause wait;start;update;finish;flush;version;resume;";

    (void)state;
    start_all();
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char name[32];
        sr1_config *c;
        sr1_trainer *tr;
        json_t *rows_of;

        snprintf(name, sizeof name, "cut-%zu", k);
        c = config_of(1, PAIRS(rows[k][0], rows[k][1], rows[k][2], train_path,
                               knowledge_path, out_pair(name), "max_steps=6",
                               "save_interval=2", "openai_concurrency=1"));
        tr = open_trainer(c);
        run_until(tr, 5);
        sr1_trainer_free(tr);
        assert_true(sr1__dir_has(scratch_path(name), "checkpoints/step-4/state.json"));
        assert_false(sr1__dir_has(scratch_path(name), "checkpoints/step-4/served"));
        servers[0].steps[0] = servers[0].version[0] = '\0';
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(name), NULL));
        assert_string_equal(servers[0].steps, "");
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        assert_int_equal(strncmp(servers[0].steps, push, strlen(push)), 0);
        rows_of = metrics(name);
        assert_int_equal(json_array_size(rows_of), 6);
        if (k == 0) /* of step 4, not of 3 */
            assert_true(metric(rows_of, 4, "rollout/staleness") == 0);
        json_decref(rows_of);
    }
    stop_all();
}

/* No folder, and nothing in checkpoints; merged matrices take memory beside. */
static void a_plan_counts_no_files(void **state)
{
    static const char *const backends[] = {"weight_sync_backend=none",
                                           "weight_sync_backend=nccl"};
    sr1_run_plan run[2];
    double sent[2] = {0, 0};

    (void)state;
    start_all();
    for (size_t k = 0; k < 2; k++) {
        sr1_config *c = config_of(SERVERS, PAIRS("max_staleness=2", "lora_rank=2",
                                                 "critic_model=", backends[k],
                                                 "openai_sync_interval=3"));
        sr1_plan *p = NULL;
        sr1_trainer *tr;

        run[k] = (sr1_run_plan){.struct_size = sizeof run[k]};
        OK(sr1_plan_new(&p, c, 0));
        for (size_t i = 0; i < p->figures.n_items; i++)
            if (strcmp(p->figures.items[i].name, "tensors being sent") == 0)
                sent[k] += p->figures.items[i].bytes;
        tr = tiny_trainer(c);
        OK(sr1_trainer_plan(tr, &run[k]));
        sr1_plan_free(p);
        sr1_trainer_free(tr);
    }
    assert_int_equal(run[0].checkpoint_bytes, run[1].checkpoint_bytes);
    assert_int_equal(run[0].disk_bytes, run[1].disk_bytes);
    assert_true(sent[0] == 0);
    /* its widest matrix in fp32 five times, at each server */
    assert_true(sent[1] == SERVERS * 5.0 * 4 * TINY_HIDDEN * TINY_HIDDEN);
    stop_all();
}

static void keys_that_contradict_are_refused(void **state)
{
    static const char *const rows[] = {"openai_engine=sglang",
                                       "openai_sync_url=http://127.0.0.1:9/x"};
    sr1_search *e = tiny_engine();

    (void)state;
    start_all();
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        sr1_config *c = config_of(1, PAIRS(rows[k]));
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_new(&tr, c, e), SR1_E_CONFIG, "needs openai_engine vllm");
        sr1_config_free(c);
    }
    servers[0].engine = SGLANG; /* which auto finds */
    {
        sr1_trainer *tr = tiny_trainer(config_of(1, NULL));
        sr1_step_report r;

        REFUSED(run_step(tr, &r), SR1_E_UNSUPPORTED, "takes no weights by NCCL");
        sr1_trainer_free(tr);
    }
    sr1_search_free(e);
    stop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_broadcast_to_every_worker),
        cmocka_unit_test(an_adapter_is_merged_into_what_is_sent),
        cmocka_unit_test(numbers_of_16_bits_are_sent_as_they_are),
        cmocka_unit_test(a_server_that_fails_is_left_out),
        cmocka_unit_test(nothing_waits_longer_than_the_limit),
        cmocka_unit_test(a_server_that_was_restarted_is_joined_anew),
        cmocka_unit_test(each_broadcast_is_proved_by_log_probs),
        cmocka_unit_test(a_resumed_run_sends_its_present_weights),
        cmocka_unit_test(a_plan_counts_no_files),
        cmocka_unit_test(keys_that_contradict_are_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("weight broadcast", tests, make, scratch_remove);
}
