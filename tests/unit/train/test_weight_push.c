/* New weights for generation servers by the routes of vLLM and SGLang: the steps of a
 * push, and servers that fail one of them. */
#include "support/openai_server.h"

#include "step_metric.h"

#include "train/plan.h"

#include <searchr1/ext/run_info.h>

#define SERVERS 3
#define QUESTIONS 8
#define GROUP 2

static const struct tiny_rule quiet[] = {{"", " so"}, {" so", "<|im_end|>"}};
static struct openai_server servers[SERVERS];
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
    sr1_log_set(on_log, NULL);
    return 0;
}

static void start_all(int engine)
{
    told[0] = '\0';
    if (sr1__path_exists(scratch_path("run")))
        OK(sr1__dir_remove(scratch_path("run")));
    for (int i = 0; i < SERVERS; i++) {
        openai_start(&servers[i], scratch_path("searcher"));
        servers[i].engine = engine;
    }
}

static void stop_all(void)
{
    for (int i = 0; i < SERVERS; i++)
        openai_stop(&servers[i]);
}

static sr1_config *config_of(size_t n, const char *const *pairs)
{
    sr1_config *c = tiny_config("searcher", "beta=0", "weight_sync_backend=disk", NULL);
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

/* Every step of a push, in its order, at every server, and the weights are the policy's.
 */
static void a_push_takes_every_step_at_every_server(void **state)
{
    static const struct {
        int engine;
        const char *key, *steps;
    } rows[] = {
        {VLLM, "openai_engine=vllm", "pause wait;update;flush;version;resume;"},
        {SGLANG, "openai_engine=sglang", "pause retract;update;flush;resume;"},
        {VLLM, "pause_mode=keep", "pause keep;update;flush;version;resume;"},
        {SGLANG, "pause_mode=abort", "pause abort;update;flush;resume;"},
    };
    sr1_step_report r;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        sr1_trainer *tr;

        start_all(rows[k].engine);
        tr = tiny_trainer(config_of(SERVERS, PAIRS(rows[k].key, "learning_rate=0.02")));
        OK(run_step(tr, &r));
        for (int i = 0; i < SERVERS; i++) {
            assert_non_null(strstr(servers[i].loaded, "/searcher"));
            servers[i].steps[0] = '\0';
        }
        OK(run_step(tr, &r));
        assert_int_equal(step_metric(&r, "rollout/staleness"), 0);
        /* of other weights it is above 1e-3 (test_serving.c) */
        assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
        for (int i = 0; i < SERVERS; i++) {
            assert_string_equal(servers[i].steps, rows[k].steps);
            assert_non_null(strstr(servers[i].loaded, "/run/served"));
            assert_string_equal(servers[i].version, "1");
        }
        assert_string_equal(told, "");
        sr1_trainer_free(tr);
        stop_all();
    }
}

static void each_servers_engine_is_known_by_its_routes(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all(VLLM);
    servers[1].engine = SGLANG;
    tr = tiny_trainer(config_of(SERVERS, NULL));
    OK(run_step(tr, &r));
    assert_string_equal(servers[0].steps, "pause wait;update;flush;version;resume;");
    assert_string_equal(servers[1].steps, "pause retract;update;flush;resume;");
    sr1_trainer_free(tr);
    servers[0].engine = NO_ENGINE;
    servers[0].fail_code = 404;
    servers[0].fail_every = 1;
    tr = tiny_trainer(config_of(1, NULL));
    REFUSED(run_step(tr, &r), SR1_E_UNSUPPORTED, "neither vLLM's routes");
    sr1_trainer_free(tr);
    stop_all();
}

/* A server that fails a step of the push generates nothing until it has the weights. */
static void a_server_that_fails_a_push_is_left_out(void **state)
{
    static const struct {
        int engine;
        int die, refuse, code;
        const char *old;
        double delay;
        const char *why;
    } rows[] = {
        {VLLM, 1, 0, 0, NULL, 0, "/collective_rpc: "},
        {VLLM, 0, 1, 0, NULL, 0, "/reset_prefix_cache?reset_running_requests=true: "},
        {VLLM, 0, 0, 409, NULL, 0, "/collective_rpc: "},
        {VLLM, 0, 0, 0, "7", 0, "took the weights of version 1 and reports version 7"},
        {VLLM, 0, 0, 0, NULL, 30, "/collective_rpc: "},
        {SGLANG, 1, 0, 0, NULL, 0, "/update_weights_from_disk: "},
        {SGLANG, 0, 1, 0, NULL, 0, "/flush_cache: "},
        {SGLANG, 0, 0, 409, NULL, 0, "/update_weights_from_disk: "},
        {SGLANG, 0, 0, 0, "7", 0, "took the weights of version 1 and reports version 7"},
    };
    sr1_step_report r;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct openai_server *bad = &servers[1];
        const char *limit =
            rows[k].delay > 0 ? "weight_sync_timeout=8" : "weight_sync_timeout=60";
        sr1_trainer *tr;
        int before;

        start_all(rows[k].engine);
        tr = tiny_trainer(config_of(SERVERS, PAIRS(limit)));
        OK(run_step(tr, &r));
        before = bad->completions;
        assert_true(before > 0);
        bad->die_after_pause = rows[k].die;
        bad->refuse_flush = rows[k].refuse;
        bad->update_code = rows[k].code;
        bad->update_delay_s = rows[k].delay;
        bad->old_version = rows[k].old;
        OK(run_step(tr, &r));
        assert_int_equal(bad->completions, before);
        assert_int_equal(step_metric(&r, "rollout/servers/live"), SERVERS - 1);
        assert_int_equal(step_metric(&r, "rollout/servers/1/requests"), 0);
        assert_non_null(strstr(told, bad->http.url));
        assert_non_null(
            strstr(told, "is left out until it has taken the present weights: "));
        if (!strstr(told, rows[k].why))
            fail_msg("row %zu: %s", k, told);
        bad->down = bad->die_after_pause = bad->refuse_flush = bad->update_code = 0;
        bad->update_delay_s = 0;
        bad->old_version = NULL;
        OK(run_step(tr, &r));
        assert_true(bad->completions > before);
        assert_int_equal(step_metric(&r, "rollout/servers/live"), SERVERS);
        assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
        assert_non_null(strstr(told, "is back, with the present weights"));
        sr1_trainer_free(tr);
        stop_all();
    }
}

/* One that says it took the weights and has others is found out, and not asked. */
static void each_push_is_proved_by_log_probs(void **state)
{
    sr1_step_report r;
    char other[600];
    sr1_trainer *tr;

    (void)state;
    snprintf(other, sizeof other, "%s", scratch_path("quiet"));
    start_all(VLLM);
    tr = tiny_trainer(config_of(SERVERS, NULL));
    OK(run_step(tr, &r));
    OK(run_step(tr, &r));
    assert_true(step_metric(&r, "weight_sync/log_prob_diff") < 2e-5);
    servers[2].other_weights = other;
    REFUSED(run_step(tr, &r), SR1_E_STATE, "nats a token from the policy's");
    assert_non_null(strstr(sr1_last_error(), servers[2].http.url));
    servers[2].other_weights = NULL;
    OK(run_step(tr, &r));
    sr1_trainer_free(tr);
    stop_all();
}

static void no_server_left_names_each(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    start_all(VLLM);
    tr = tiny_trainer(config_of(SERVERS, PAIRS("openai_engine=vllm")));
    OK(run_step(tr, &r));
    for (int i = 0; i < SERVERS; i++)
        servers[i].refuse_flush = 1;
    REFUSED(run_step(tr, &r), SR1_E_NETWORK, "no server took the weights of step 1");
    for (int i = 0; i < SERVERS; i++)
        assert_non_null(strstr(sr1_last_error(), servers[i].http.url));
    assert_non_null(strstr(sr1_last_error(), "VLLM_SERVER_DEV_MODE=1"));
    assert_int_equal(sr1_trainer_steps_done(tr), 1);
    for (int i = 0; i < SERVERS; i++)
        servers[i].refuse_flush = 0;
    OK(run_step(tr, &r)); /* the step is done again */
    sr1_trainer_free(tr);
    stop_all();
}

/* One that died between two pushes may have been restarted with other weights. */
static void a_server_that_answers_again_waits_for_weights(void **state)
{
    sr1_step_report r;
    sr1_trainer *tr;
    int before;

    (void)state;
    start_all(SGLANG);
    tr =
        tiny_trainer(config_of(SERVERS, PAIRS("openai_sync_interval=3", "max_staleness=2",
                                              "openai_probe_interval=0.001")));
    OK(run_step(tr, &r)); /* version 0 */
    servers[1].down = 1;
    OK(run_step(tr, &r));
    servers[1].down = 0;
    before = servers[1].completions;
    OK(run_step(tr, &r));
    assert_int_equal(servers[1].completions, before);
    assert_int_equal(step_metric(&r, "rollout/staleness"), 2);
    OK(run_step(tr, &r)); /* version 3 */
    assert_true(servers[1].completions > before);
    assert_int_equal(step_metric(&r, "rollout/staleness"), 0);
    sr1_trainer_free(tr);
    stop_all();
}

static void an_adapter_is_served_by_a_name_of_its_own(void **state)
{
    static const int engines[] = {VLLM, SGLANG};
    sr1_step_report r;

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        char first[64];
        sr1_trainer *tr;

        start_all(engines[k]);
        tr = tiny_trainer(config_of(SERVERS, PAIRS("weight_sync_backend=lora",
                                                   "lora_rank=2", "learning_rate=0.02")));
        OK(run_step(tr, &r));
        assert_string_equal(servers[0].steps, "load;");
        snprintf(first, sizeof first, "%s", servers[0].adapter);
        OK(run_step(tr, &r));
        assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
        for (int i = 0; i < SERVERS; i++) {
            assert_string_equal(servers[i].steps, "load;load;unload;");
            assert_non_null(strstr(servers[i].loaded, "/run/served"));
        }
        assert_string_not_equal(servers[0].adapter, first);
        assert_true(sr1__path_exists(scratch_path("run/served/adapter_config.json")));
        assert_false(sr1__path_exists(scratch_path("run/served/model.safetensors")));
        sr1_trainer_free(tr);
        stop_all();
    }
}

/* What a run by these keys plans, as both plans have it. */
static sr1_run_plan plan_of(const char *backend, const char *interval)
{
    sr1_config *c = config_of(
        1, PAIRS("max_staleness=2", "lora_rank=2", "critic_model=", backend, interval));
    sr1_run_plan out = {.struct_size = sizeof out};
    sr1_plan *p = NULL;
    sr1_trainer *tr;

    OK(sr1_plan_new(&p, c, 0));
    tr = tiny_trainer(c);
    OK(sr1_trainer_plan(tr, &out));
    assert_true(p->figures.checkpoint == (double)out.checkpoint_bytes);
    sr1_plan_free(p);
    sr1_trainer_free(tr);
    return out;
}

/* Tensors of what was sent: without the header of the file. */
static int64_t served_bytes(const char *file, const char *backend)
{
    sr1_trainer *tr = tiny_trainer(config_of(1, PAIRS("lora_rank=2", backend)));
    sr1_step_report r;
    struct sr1__buf b;
    int64_t bytes;

    OK(run_step(tr, &r));
    OK(run_step(tr, &r));
    sr1_trainer_free(tr);
    OK(sr1__file_read(scratch_path(file), 0, &b));
    bytes = (int64_t)b.len - 8 - (int64_t) * (const uint64_t *)(const void *)b.data;
    sr1__buf_free(&b);
    return bytes;
}

/* RUN/served, and in each checkpoint what the servers still have. */
static void a_plan_counts_what_servers_are_given(void **state)
{
    static const struct {
        const char *backend, *file;
    } rows[] = {
        {"weight_sync_backend=disk", "run/served/model.safetensors"},
        {"weight_sync_backend=lora", "run/served/adapter_model.safetensors"},
    };

    (void)state;
    start_all(VLLM);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_run_plan none = plan_of("weight_sync_backend=none", "openai_sync_interval=1");
        sr1_run_plan each = plan_of(rows[i].backend, "openai_sync_interval=1");
        sr1_run_plan some = plan_of(rows[i].backend, "openai_sync_interval=3");
        int64_t served = served_bytes(rows[i].file, rows[i].backend);

        assert_int_equal(each.checkpoint_bytes, none.checkpoint_bytes);
        assert_int_equal(each.disk_bytes, none.disk_bytes + served);
        assert_int_equal(some.checkpoint_bytes, none.checkpoint_bytes + served);
        assert_int_equal(some.disk_bytes, none.disk_bytes + 2 * served);
    }
    stop_all();
}

static void keys_that_contradict_are_refused(void **state)
{
    static const struct {
        const char *pair, *other, *text;
    } rows[] = {
        {"openai_engine=url", "max_staleness=0", "needs openai_sync_url"},
        {"openai_engine=vllm", "openai_sync_url=http://127.0.0.1:9/x", "leave one"},
        {"weight_sync_backend=lora", "max_staleness=0", "none is trained"},
        {"weight_sync_backend=lora", "openai_sync_url=http://127.0.0.1:9/x",
         "takes whole models"},
    };
    sr1_search *e = tiny_engine();

    (void)state;
    start_all(VLLM);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        sr1_config *c = config_of(SERVERS, PAIRS(rows[k].pair, rows[k].other));
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_new(&tr, c, e), SR1_E_CONFIG, rows[k].text);
        sr1_config_free(c);
    }
    {
        sr1_trainer *tr = tiny_trainer(
            config_of(SERVERS, PAIRS("openai_sync_url=http://127.0.0.1:9/x")));
        sr1_step_report r;

        REFUSED(run_step(tr, &r), SR1_E_CONFIG,
                "openai_sync_url names 1 addresses, openai_base_url 3 servers");
        sr1_trainer_free(tr);
    }
    sr1_search_free(e);
    stop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_takes_every_step_at_every_server),
        cmocka_unit_test(each_servers_engine_is_known_by_its_routes),
        cmocka_unit_test(a_server_that_fails_a_push_is_left_out),
        cmocka_unit_test(each_push_is_proved_by_log_probs),
        cmocka_unit_test(no_server_left_names_each),
        cmocka_unit_test(a_server_that_answers_again_waits_for_weights),
        cmocka_unit_test(an_adapter_is_served_by_a_name_of_its_own),
        cmocka_unit_test(a_plan_counts_what_servers_are_given),
        cmocka_unit_test(keys_that_contradict_are_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("weight push", tests, make, scratch_remove);
}
