/* Several generation servers: where a question goes, and what a server that leaves or
 * returns changes. */
#include "support/openai_server.h"

#include "policy/rollout.h"
#include "retrieval/net/server_pool.h"

#include <searchr1/ext/remote.h>

#include <pthread.h>

#define SERVERS 3
#define QUESTIONS 12
#define GROUP 4

static struct openai_server servers[SERVERS];
static char told[4096]; /* what was logged */

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
    sr1_log_set(on_log, NULL);
    return 0;
}

static void start_all(void)
{
    told[0] = '\0';
    for (int i = 0; i < SERVERS; i++)
        openai_start(&servers[i], scratch_path("searcher"));
}

static void stop_all(void)
{
    for (int i = 0; i < SERVERS; i++)
        openai_stop(&servers[i]);
}

static sr1_config *config_of(size_t n)
{
    sr1_config *c = tiny_config("searcher", "openai_probe_interval=3600", NULL);

    openai_use_all(servers, n, c);
    OK(sr1_config_set(c, "openai_retries", "0"));
    return c;
}

static sr1_rollout *rollout_of(size_t n)
{
    return tiny_rollout(config_of(n), tiny_engine());
}

/* The server that all requests of a group went to; -1: several. */
static int ask_question(sr1_rollout *r, int k, char texts[GROUP][200])
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 7};
    int before[SERVERS], from = -1, several = 0;
    sr1_trajectory *t[GROUP] = {NULL};
    char text[64];
    sr1_query q;

    snprintf(text, sizeof text, "Where is the tower number %d?", k);
    q = tiny_query(text);
    for (int i = 0; i < SERVERS; i++)
        before[i] = servers[i].completions;
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i].completions == before[i])
            continue;
        several |= from >= 0;
        from = i;
    }
    for (int i = 0; i < GROUP; i++) {
        assert_int_not_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_ERROR);
        if (texts)
            snprintf(texts[i], 200, "%s", sr1_trajectory_generated_text(t[i], NULL));
    }
    tiny_free_all(t, GROUP);
    return several ? -1 : from;
}

/* Each group has one server, each server has questions, and the trajectories are those of
 * one server alone. */
static void a_group_stays_on_the_server_of_its_question(void **state)
{
    char together[GROUP][200], alone[GROUP][200];
    int questions[SERVERS] = {0};
    sr1_rollout *r, *one;

    (void)state;
    start_all();
    r = rollout_of(SERVERS);
    one = rollout_of(1);
    for (int k = 0; k < QUESTIONS; k++) {
        int at = ask_question(r, k, together);

        assert_true(at >= 0);
        assert_int_equal(ask_question(r, k, NULL), at);
        questions[at]++;
        assert_int_equal(ask_question(one, k, alone), 0);
        for (int i = 0; i < GROUP; i++)
            assert_string_equal(together[i], alone[i]);
    }
    for (int i = 0; i < SERVERS; i++)
        assert_true(questions[i] > 0);
    assert_string_equal(told, "");
    sr1_rollout_free(one);
    sr1_rollout_free(r);
    stop_all();
}

static void map_questions(sr1_rollout *r, int map[QUESTIONS])
{
    for (int k = 0; k < QUESTIONS; k++)
        map[k] = ask_question(r, k, NULL);
}

/* Only the questions of the server that left move, and come back with it. */
static void a_dead_server_is_left_out_and_returns(void **state)
{
    int first[QUESTIONS], without[QUESTIONS], again[QUESTIONS], moved = 0;
    struct sr1__rollout_stats stats;
    sr1_config *c;
    sr1_rollout *r;

    (void)state;
    start_all();
    c = config_of(SERVERS);
    OK(sr1_config_set(c, "openai_probe_interval", "0.001"));
    r = tiny_rollout(c, tiny_engine());
    map_questions(r, first);
    servers[1].down = 1;
    map_questions(r, without);
    for (int k = 0; k < QUESTIONS; k++) {
        moved += first[k] == 1;
        assert_true(without[k] != 1 && without[k] >= 0);
        if (first[k] != 1)
            assert_int_equal(without[k], first[k]);
    }
    assert_true(moved > 0);
    sr1__rollout_stats(r, &stats);
    assert_int_equal(stats.remote.n_servers, SERVERS);
    assert_int_equal(stats.remote.live, SERVERS - 1);
    assert_int_equal(stats.remote.failed, 0);
    assert_non_null(strstr(told, "generation server http://127.0.0.1:"));
    assert_non_null(strstr(told, "is left out, others take its questions: "));
    assert_null(strstr(told, "is back"));
    servers[1].down = 0;
    (void)ask_question(r, 0, NULL);
    map_questions(r, again);
    assert_memory_equal(again, first, sizeof first);
    assert_non_null(strstr(told, "is back"));
    sr1__rollout_stats(r, &stats);
    assert_int_equal(stats.remote.live, SERVERS);
    sr1_rollout_free(r);
    stop_all();
}

static void *ask_one(void *r)
{
    (void)ask_question(r, 0, NULL);
    return NULL;
}

/* Its answer to a probe comes when it has older weights than the others. */
static void a_probe_does_not_bring_old_weights_back(void **state)
{
    struct sr1__server_pool *pool;
    int map[QUESTIONS];
    pthread_t thread;
    sr1_config *c;
    sr1_rollout *r;

    (void)state;
    start_all();
    c = config_of(SERVERS);
    OK(sr1_config_set(c, "openai_probe_interval", "0.001"));
    r = tiny_rollout(c, tiny_engine());
    pool = sr1__rollout_servers(r);
    servers[1].down = 1;
    map_questions(r, map);
    servers[1].models_wait = 1;
    servers[1].down = 0;
    assert_int_equal(pthread_create(&thread, NULL, ask_one, r), 0);
    while (servers[1].models_waiting == 0)
        usleep(1000);
    sr1__server_pool_hold(pool);
    sr1__server_pool_exclude(pool, 1, "a test says so");
    servers[1].models_wait = 0;
    pthread_join(thread, NULL);
    assert_int_equal(sr1__server_pool_live(pool), SERVERS - 1);
    assert_null(strstr(told, "is back"));
    OK(sr1__server_pool_admit(pool, 1, NULL));
    assert_int_equal(sr1__server_pool_live(pool), SERVERS);
    sr1_rollout_free(r);
    stop_all();
}

/* Requests of a server that fails are asked of the next one; the counts tell. */
static void a_request_that_fails_goes_to_the_next_server(void **state)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .seed = 7};
    struct sr1__rollout_stats stats;
    sr1_trajectory *t[QUESTIONS];
    sr1_query q[QUESTIONS];
    char text[QUESTIONS][64];
    sr1_rollout *r;

    (void)state;
    start_all();
    r = rollout_of(SERVERS);
    for (int k = 0; k < QUESTIONS; k++) {
        snprintf(text[k], sizeof text[k], "Where is the tower number %d?", k);
        q[k] = tiny_query(text[k]);
    }
    servers[0].fail_code = servers[1].fail_code = 503;
    servers[0].fail_every = servers[1].fail_every = 1;
    OK(sr1_rollout_generate(r, q, QUESTIONS, &o, t));
    for (int k = 0; k < QUESTIONS; k++)
        assert_int_not_equal(sr1_trajectory_stop_reason(t[k]), SR1_STOP_ERROR);
    sr1__rollout_stats(r, &stats);
    assert_int_equal(stats.remote.live, 1);
    assert_int_equal(stats.remote.failed, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(stats.remote.servers[i].failures > 0);
        assert_int_equal(stats.remote.servers[i].requests,
                         stats.remote.servers[i].failures);
    }
    assert_int_equal(stats.remote.servers[2].failures, 0);
    assert_int_equal(stats.remote.servers[2].requests, servers[2].completions);
    tiny_free_all(t, QUESTIONS);
    sr1_rollout_free(r);
    stop_all();
}

static void all_dead_is_an_outage(void **state)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 7};
    sr1_query q = tiny_query("Where is the tower?");
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_rollout *r;

    (void)state;
    start_all();
    r = rollout_of(SERVERS);
    for (int i = 0; i < SERVERS; i++)
        servers[i].down = 1;
    for (int k = 0; k < 2; k++) /* as they leave, and when all have left */
        REFUSED(sr1_rollout_generate(r, &q, 1, &o, t), SR1_E_NETWORK,
                "http://127.0.0.1:");
    for (int i = 0; i < SERVERS; i++)
        servers[i].down = 0;
    OK(sr1_rollout_generate(r, &q, 1, &o, t)); /* the question's own one is asked */
    tiny_free_all(t, GROUP);
    sr1_rollout_free(r);
    stop_all();
}

static void what_the_servers_have_in_common_is_checked(void **state)
{
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;
    sr1_config *c;
    char twice[200];

    (void)state;
    start_all();
    servers[2].down = 1;
    r = rollout_of(SERVERS); /* two will do */
    assert_non_null(strstr(told, "is left out: "));
    assert_true(ask_question(r, 0, NULL) < 2);
    sr1_rollout_free(r);
    r = NULL;
    c = config_of(SERVERS);
    servers[1].model_name = "other";
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, e), SR1_E_CONFIG,
            "serves the model other");
    servers[1].model_name = NULL;
    servers[1].plain = 1;
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, e), SR1_E_CONFIG,
            "speaks another dialect");
    servers[0].down = servers[1].down = 1;
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, e), SR1_E_NETWORK, servers[0].http.url);
    snprintf(twice, sizeof twice, "%s/v1,%s/v1", servers[0].http.url,
             servers[0].http.url);
    OK(sr1_config_set(c, "openai_base_url", twice));
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, e), SR1_E_CONFIG, "twice");
    sr1_config_free(c);
    sr1_search_free(e);
    stop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_stays_on_the_server_of_its_question),
        cmocka_unit_test(a_dead_server_is_left_out_and_returns),
        cmocka_unit_test(a_probe_does_not_bring_old_weights_back),
        cmocka_unit_test(a_request_that_fails_goes_to_the_next_server),
        cmocka_unit_test(all_dead_is_an_outage),
        cmocka_unit_test(what_the_servers_have_in_common_is_checked),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("openai servers", tests, make, scratch_remove);
}
