/* A handle that is freed by one of its own callbacks lives until the call returns. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/critique.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/sandbox.h>
#include <searchr1/ext/server.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cmocka.h>

/* A handle, and what became of it. */
struct victim {
    void *handle;
    int calls;     /* of its callback */
    int destroyed; /* calls of destroy */
    int alive;     /* the callback returned before destroy was called */
};

static struct victim victim;

static void begin(void)
{
    memset(&victim, 0, sizeof victim);
}

static void on_destroy(void *self)
{
    (void)self;
    victim.destroyed++;
}

/* The handle was freed inside and went when the call returned. */
static void check_gone(void)
{
    assert_true(victim.calls >= 1);
    assert_int_equal(victim.alive, 1);
    assert_int_equal(victim.destroyed, 1);
}

#define FREE_INSIDE(free_it)                                                             \
    do {                                                                                 \
        if (victim.calls++ == 0) {                                                       \
            free_it(victim.handle);                                                      \
            victim.alive = !victim.destroyed;                                            \
        }                                                                                \
    } while (0)

static void ok(sr1_status st)
{
    if (st != SR1_OK)
        fail_msg("%s: %s", sr1_status_name(st), sr1_last_error());
}

static sr1_status on_search(void *self, const char *const *queries, size_t n,
                            int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)n;
    (void)top_k;
    FREE_INSIDE(sr1_search_free);
    return sr1_search_sink_hit(sink, 0, "1", "found", 1);
}

static void a_search_engine(void **state)
{
    sr1_search_ops ops = {sizeof ops, "s", on_search, on_destroy, 0};
    const char *query = "q";
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;

    (void)state;
    begin();
    ok(sr1_search_new(&engine, &ops, NULL));
    victim.handle = engine;
    ok(sr1_search_set_cache(engine, 65536));
    ok(sr1_search_run(engine, &query, 1, 3, &found));
    check_gone();
    assert_int_equal(sr1_search_results_hit_count(found, 0), 1);
    sr1_search_results_free(found);
}

static sr1_status on_embed(void *self, const char *const *texts, size_t n, int32_t kind,
                           float *out)
{
    (void)self;
    (void)texts;
    (void)kind;
    FREE_INSIDE(sr1_embedder_free);
    memset(out, 0, 2 * n * sizeof *out);
    return SR1_OK;
}

static void an_embedder(void **state)
{
    sr1_embedder_ops ops = {sizeof ops, "e", on_embed, on_destroy, 2, 0};
    const char *text = "t";
    sr1_embedder *e = NULL;
    float v[2];

    (void)state;
    begin();
    ok(sr1_embedder_new(&e, &ops, NULL));
    victim.handle = e;
    ok(sr1_embedder_embed(e, &text, 1, SR1_EMBED_QUERY, v));
    check_gone();
}

static sr1_status on_score(void *self, const char *query, const char *const *texts,
                           size_t n, double *scores)
{
    (void)self;
    (void)query;
    (void)texts;
    FREE_INSIDE(sr1_reranker_free);
    memset(scores, 0, n * sizeof *scores);
    return SR1_OK;
}

static void a_reranker(void **state)
{
    sr1_reranker_ops ops = {sizeof ops, "r", on_score, on_destroy, 0};
    const char *text = "t";
    sr1_reranker *r = NULL;
    double score;

    (void)state;
    begin();
    ok(sr1_reranker_new(&r, &ops, NULL));
    victim.handle = r;
    ok(sr1_reranker_score(r, "q", &text, 1, &score));
    check_gone();
}

static sr1_status on_act(void *self, const sr1_env_action *const *actions, size_t n,
                         sr1_env_sink *sink)
{
    (void)self;
    (void)actions;
    (void)n;
    FREE_INSIDE(sr1_env_free);
    return sr1_env_sink_text(sink, 0, "so", 2);
}

static void an_environment(void **state)
{
    sr1_env_ops ops = {
        .struct_size = sizeof ops, .name = "e", .act = on_act, .destroy = on_destroy};
    sr1_env *env = NULL;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    begin();
    ok(sr1_env_new(&env, &ops, NULL, NULL));
    victim.handle = env;
    ok(sr1_env_answer(env, "a", 1, &text, &len));
    check_gone();
    assert_non_null(strstr(text, "so"));
    sr1_free(text);
}

static sr1_status on_call(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    (void)args;
    (void)len;
    FREE_INSIDE(sr1_env_free);
    return sr1_tool_sink_text(sink, "so", 2);
}

static void an_environment_within_its_tool(void **state)
{
    static const char action[] = "{\"name\": \"t\", \"args\": {}}";
    sr1_tool_ops ops = {
        .struct_size = sizeof ops, .name = "t", .call = on_call, .destroy = on_destroy};
    sr1_env *env = NULL;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    begin();
    ok(sr1_env_open(&env, "tools", NULL, NULL));
    ok(sr1_env_add_tool(env, &ops, NULL));
    victim.handle = env;
    ok(sr1_env_answer(env, action, sizeof action - 1, &text, &len));
    check_gone();
    sr1_free(text);
}

static sr1_status on_write(void *self, const sr1_conversation *const *conversations,
                           size_t n, sr1_generator_sink *sink)
{
    (void)self;
    (void)conversations;
    (void)n;
    FREE_INSIDE(sr1_generator_free);
    return sr1_generator_sink_text(sink, 0, "so", 2);
}

static void a_writer(void **state)
{
    static const char *const role = "user", *const text = "q";
    static const size_t size = 1;
    sr1_generator_ops ops = {sizeof ops, "w", on_write, on_destroy, 0};
    sr1_conversation c = {sizeof c, &role, &text, &size, 1, NULL, 0};
    sr1_generator *w = NULL;
    char *out = NULL;

    (void)state;
    begin();
    ok(sr1_generator_new(&w, &ops, NULL));
    victim.handle = w;
    ok(sr1_generator_generate(w, &c, 1, &out, NULL));
    check_gone();
    assert_string_equal(out, "so");
    sr1_free(out);
}

static sr1_status on_run(void *user, const sr1_problem *problem, const char *answer,
                         size_t len, int32_t *verdict, double *pass_rate)
{
    (void)user;
    (void)problem;
    (void)answer;
    (void)len;
    FREE_INSIDE(sr1_revision_trees_free);
    *verdict = SR1_RUN_PASSED;
    *pass_rate = 1;
    return SR1_OK;
}

static void a_forest(void **state)
{
    static const char problems[] = "{\"id\": \"p\", \"problem\": \"Do it.\", "
                                   "\"solution\": \"x = 1\", \"tests\": [\"x\"]}\n";
    static const int32_t widths[] = {1, 1};
    sr1_revision_tree_options o = {.struct_size = sizeof o, .run = on_run};
    sr1_generator_ops ops = {sizeof ops, "w", on_write, on_destroy, 0};
    sr1_generator *writer = NULL; /* owned by the trees, destroyed with them */
    sr1_revision_trees *trees = NULL;
    int64_t missing = -1;

    (void)state;
    begin();
    ok(sr1_problems_parse(&o.problems, problems, sizeof problems - 1, NULL, NULL));
    ok(sr1_generator_new(&writer, &ops, NULL));
    o.critic = o.reviser = writer;
    ok(sr1_revision_trees_open(&trees, &o));
    sr1_generator_free(writer);
    victim.handle = trees;
    ok(sr1_revision_trees_expand(trees, widths, 2, &missing));
    check_gone();
    assert_int_equal(missing, 0);
    sr1_problems_free(o.problems);
}

static sr1_status on_reward(void *self, const sr1_trajectory *const *trajectories,
                            size_t n, double *out)
{
    (void)self;
    (void)trajectories;
    FREE_INSIDE(sr1_reward_set_free);
    memset(out, 0, n * sizeof *out);
    return SR1_OK;
}

static void a_reward_set(void **state)
{
    static const char json[] =
        "{\"query\":\"q\",\"query_id\":\"a\",\"sample\":0,\"group_key\":\"1\","
        "\"data_source\":\"t\",\"ground_truths\":[\"so\"],\"generated_text\":\"so\","
        "\"final_answer\":\"so\",\"stop_reason\":\"answer\",\"searches\":[],"
        "\"reward\":0.5,\"reward_parts\":[],\"advantage\":0,"
        "\"temperature\":1.0,\"top_p\":1.0,\"top_k\":0,\"weights_version\":0,"
        "\"prompt_tokens\":1,\"policy_tokens\":1,\"segments\":[{\"source\":\"policy\","
        "\"turn\":0,\"token_begin\":1,\"token_count\":1,\"text_begin\":0,\"text_len\":2,"
        "\"body_begin\":0,\"body_len\":2}],\"full_input_ids\":[65,66],\"token_steps\":["
        "{\"token_id\":66,\"token_text\":\"so\",\"log_prob\":-1.0,\"position\":1}],"
        "\"generated_positions\":[1]}";
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "mine",
                          .score = on_reward,
                          .destroy = on_destroy};
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = "format"};
    sr1_trajectory *t = NULL;
    sr1_reward_set *set = NULL;

    (void)state;
    begin();
    ok(sr1_trajectory_from_json(&t, json, sizeof json - 1));
    ok(sr1_reward_set_new(&set, &o));
    ok(sr1_reward_set_add(set, &ops, NULL, 1));
    victim.handle = set;
    ok(sr1_reward_set_apply(set, &t, 1));
    check_gone();
    assert_int_equal(sr1_trajectory_reward_component_count(t), 2);
    sr1_trajectory_free(t);
}

/* ---- a server that its own engine frees: it stops, and is freed elsewhere ---- */

static sr1_server *server;
static atomic_int freed_inside;

static sr1_status free_server(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)n;
    (void)top_k;
    sr1_server_free(server);
    atomic_store(&freed_inside, sr1_server_run(server) == SR1_E_STATE ? 1 : -1);
    return sr1_search_sink_hit(sink, 0, "1", "found", 1);
}

static void *ask_server(void *unused)
{
    static const char request[] =
        "POST /retrieve HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        "Content-Length: 17\r\n\r\n{\"queries\":[\"q\"]}";
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)sr1_server_port(server)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char answer[4096];

    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        send(fd, request, strlen(request), 0) < 0)
        abort();
    while (recv(fd, answer, sizeof answer, 0) > 0)
        ;
    close(fd);
    return unused;
}

static void a_server_stops(void **state)
{
    sr1_search_ops ops = {sizeof ops, "s", free_server, NULL, 0};
    sr1_search *engine = NULL;
    pthread_t client;

    (void)state;
    ok(sr1_search_new(&engine, &ops, NULL));
    ok(sr1_server_open(&server, engine, NULL));
    sr1_search_free(engine);
    assert_int_equal(pthread_create(&client, NULL, ask_server, NULL), 0);
    ok(sr1_server_run(server));
    pthread_join(client, NULL);
    assert_int_equal(atomic_load(&freed_inside), 1);
    sr1_server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_engine),
        cmocka_unit_test(an_embedder),
        cmocka_unit_test(a_reranker),
        cmocka_unit_test(an_environment),
        cmocka_unit_test(an_environment_within_its_tool),
        cmocka_unit_test(a_writer),
        cmocka_unit_test(a_forest),
        cmocka_unit_test(a_reward_set),
        cmocka_unit_test(a_server_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
