/* Several tool calls in one message: where it ends, which calls are carried out, the
 * order and the tokens of their results, and calls that run side by side. */
#define HERMES_CALL "{\"name\": \"wiki_search\", \"arguments\": {\"query\": \"tower\"}}"
#define MEET_CALL "{\"name\": \"meet\"}"
#define TEN(x) x x x x x x x x x x
/* 4,500 bytes in five tokens */
#define LONG_A TEN(TEN("a23456789"))
#define LONG_B TEN(TEN("b23456789"))
#define LONG_C TEN(TEN("c23456789"))
#define LONG_D TEN(TEN("d23456789"))
#define LONG_E TEN(TEN("e23456789"))
#define TINY_MORE_WORDS                                                                  \
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", HERMES_CALL,   \
        MEET_CALL, LONG_A, LONG_B, LONG_C, LONG_D, LONG_E

#include "support/count_text.h"
#include "support/openai_server.h"

#include "base/clock.h"
#include "policy/rollout_internal.h"

#include <searchr1/ext/openai.h>

#define CLOSE "<|im_end|>\n<|im_start|>user\n"
#define ENDED "\n<|im_start|>user\n" /* the policy has ended its message */
#define OPEN "<|im_end|>\n<|im_start|>assistant\n"
#define CALL "<tool_call>" HERMES_CALL "</tool_call>"
#define RESULT "<tool_response>\nIt is in the old town.\n</tool_response>"
#define REFUSED_CALL                                                                     \
    "<tool_response>\nError: this call was not made: no more are "                       \
    "allowed\n</tool_response>"
#define TOO_LONG                                                                         \
    "<tool_response>\nError: this call was not made: it is too long; write a shorter "   \
    "one\n</tool_response>"

static int make(void **state)
{
    static const struct tiny_rule caller[] = {{"", "<tool_call>"},
                                              {"<tool_call>", HERMES_CALL},
                                              {HERMES_CALL, "</tool_call>"},
                                              {"</tool_call>", "<tool_call>"}};
    static const struct tiny_rule either[] = {{"", "<tool_call>"},
                                              {"<tool_call>", HERMES_CALL},
                                              {HERMES_CALL, "</tool_call>"},
                                              {"</tool_call>", "<tool_call>"},
                                              {"</tool_call>", "<|im_end|>"}};
    static const struct tiny_rule meeter[] = {{"", "<tool_call>"},
                                              {"<tool_call>", MEET_CALL},
                                              {MEET_CALL, "</tool_call>"},
                                              {"</tool_call>", "<tool_call>"}};
    static const struct tiny_rule talker[] = {
        {"", "<tool_call>"},      {"<tool_call>", LONG_A},
        {LONG_A, LONG_B},         {LONG_B, LONG_C},
        {LONG_C, LONG_D},         {LONG_D, LONG_E},
        {LONG_E, "</tool_call>"}, {"</tool_call>", "<tool_call>"}};
    static const struct tiny_rule writer[] = {
        {"", "<answer>"}, {"<answer>", LONG_A}, {LONG_A, LONG_B},     {LONG_B, LONG_C},
        {LONG_C, LONG_D}, {LONG_D, LONG_E},     {LONG_E, "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("talker", talker, 8, 30);
    tiny_model("writer", writer, 7, 30);
    tiny_model("caller", caller, 4, 30);
    tiny_model("either", either, 5, 16);
    tiny_model("meeter", meeter, 4, 30);
    return 0;
}

static sr1_config *calls_config(const char *model, const char *a, const char *b)
{
    return tiny_config(model, "protocol=hermes", "environment=tools", "max_tokens=60",
                       "max_turns=8", a ? a : "seed=11", b ? b : "seed=11", NULL);
}

static sr1_search *engine(void)
{
    static const char *const keys[] = {"tower"};
    static const char *const facts[] = {"It is in the old town."};
    sr1_search *e = NULL;

    OK(sr1_search_open_mock(&e, keys, facts, 1));
    return e;
}

static sr1_trajectory *say_with(sr1_rollout *r)
{
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;

    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    sr1_rollout_free(r);
    return t;
}

static sr1_trajectory *say(const char *model, const char *a, const char *b)
{
    return say_with(tiny_rollout(calls_config(model, a, b), engine()));
}

static void said(const sr1_trajectory *t, const char *text, int32_t stop)
{
    assert_string_equal(sr1_trajectory_generated_text(t, NULL), text);
    assert_int_equal(sr1_trajectory_stop_reason(t), stop);
}

/* The message ends with the last call allowed; its results are one message, and all ids
 * are those of the chat template's rendering. */
static void calls_of_one_message_are_answered_in_one(void **state)
{
    static const char *const roles[] = {"user", "assistant", "user"};
    static const char *const contents[] = {"Where?", CALL CALL, RESULT "\n" RESULT};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .recognise_added = 1};
    sr1_trajectory *t = say("caller", "max_parallel_calls=2", "max_env_steps=2");
    sr1_rollout *r = tiny_rollout(calls_config("caller", NULL, NULL), tiny_engine());
    const int32_t *ids = sr1_trajectory_ids(t);
    const uint8_t *mask = sr1_trajectory_policy_mask(t);
    int32_t *want = NULL;
    size_t n = 0, policy = 0;

    (void)state;
    said(t, CALL CALL CLOSE RESULT "\n" RESULT OPEN CALL CALL, SR1_STOP_SEARCH_LIMIT);
    OK(sr1_tokenizer_chat(sr1_rollout_tokenizer(r), roles, contents, NULL, 3, &o, NULL,
                          NULL, &want, &n));
    assert_int_equal(sr1_trajectory_token_count(t), n + 6);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], want[i]);
    for (size_t i = 0; i < n + 6; i++)
        policy += mask[i];
    assert_int_equal(policy, 12);
    assert_int_equal(sr1_trajectory_turn_count(t), 2);
    assert_int_equal(sr1_trajectory_search_count(t), 2);
    for (size_t i = 0; i < 2; i++) {
        sr1_action_event e = {sizeof e};

        OK(sr1_trajectory_search(t, i, &e));
        assert_int_equal(e.turn, 0);
        assert_string_equal(e.query, HERMES_CALL);
        assert_int_equal(e.n_hits, 1);
    }
    sr1_free(want);
    sr1_rollout_free(r);
    sr1_trajectory_free(t);
}

/* A protocol with these rules and a template of Llama's kind. Texts of tools are quoted
 * or not. */
static sr1_config *configure_ipython(const char *more, const char *content)
{
    sr1_config *c;
    char text[600], pair[600], rules[300];
    int64_t before;

    snprintf(rules, sizeof rules, "action: [<tool_call>, </tool_call>]\n%s", more);

    snprintf(text, sizeof text,
             "{%% for m in messages %%}<|im_start|>{{ 'ipython' if m.role == 'tool' else "
             "m.role }}\n{%% if m.role == 'tool' %%}{{ %s }}{%% else %%}{{ m.content }}"
             "{%% endif %%}<|im_end|>\n{%% endfor %%}{%% if add_generation_prompt %%}"
             "<|im_start|>assistant\n{%% endif %%}",
             content);
    scratch_file("caller/chat_template.jinja", text, 0);
    snprintf(
        pair, sizeof pair, "protocol_file=%s",
        scratch_file(strstr(more, "ipython") ? "llama.yaml" : "user.yaml", rules, 0));
    before = sr1__mem_live();
    assert_non_null(sr1__protocol_find(strchr(pair, '=') + 1));
    tiny_lasting += (int)(sr1__mem_live() - before); /* the file is the process's */
    c = calls_config("caller", "max_parallel_calls=2", "max_env_steps=2");
    OK(sr1_config_set_pair(c, pair));
    return c;
}

static sr1_rollout *open_ipython(const char *content)
{
    return tiny_rollout(
        configure_ipython("several: true\nipython: true\nnotice: No call!\n", content),
        engine());
}

static void results_are_the_role_ipythons(void **state)
{
    static const char *const roles[] = {"user", "assistant", "tool"};
    static const char *const contents[] = {"Where?", CALL CALL, RESULT "\n" RESULT};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .recognise_added = 1};
    sr1_rollout *r = open_ipython("m.content");
    sr1_trajectory *quoted = say_with(open_ipython("m.content | tojson")), *t;
    int32_t *want = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_tokenizer_chat(sr1_rollout_tokenizer(r), roles, contents, NULL, 3, &o, NULL,
                          NULL, &want, &n));
    t = say_with(r);
    said(t,
         CALL CALL "<|im_end|>\n<|im_start|>ipython\n" RESULT "\n" RESULT OPEN CALL CALL,
         SR1_STOP_SEARCH_LIMIT);
    assert_int_equal(sr1_trajectory_token_count(t), n + 6);
    assert_memory_equal(sr1_trajectory_ids(t), want, n * sizeof *want);
    said(quoted, sr1_trajectory_generated_text(t, NULL), SR1_STOP_SEARCH_LIMIT);
    remove(scratch_path("caller/chat_template.jinja"));
    sr1_free(want);
    sr1_trajectory_free(quoted);
    sr1_trajectory_free(t);
}

static void one_call_a_message_ends_at_its_tag(void **state)
{
    sr1_trajectory *t = say("caller", "max_parallel_calls=1", "max_env_steps=1");

    (void)state;
    said(t, CALL CLOSE RESULT OPEN CALL, SR1_STOP_SEARCH_LIMIT);
    sr1_trajectory_free(t);
}

/* Each call counts; those that are too many are told so. */
static void calls_beyond_the_limit_are_refused(void **state)
{
    sr1_trajectory *t = say("caller", "max_parallel_calls=3", "max_env_steps=2");

    (void)state;
    said(t, CALL CALL CALL CLOSE RESULT "\n" RESULT "\n" REFUSED_CALL OPEN CALL CALL CALL,
         SR1_STOP_SEARCH_LIMIT);
    assert_int_equal(sr1_trajectory_search_count(t), 3);
    sr1_trajectory_free(t);
}

/* The trajectory goes on, and is not told that it made no call. */
static void a_call_that_is_too_long_is_told_so(void **state)
{
    static const char call[] = "<tool_call>" LONG_A,
                      rest[] = LONG_D LONG_E "</tool_call>";
    sr1_trajectory *t = say("talker", "max_parallel_calls=2", "max_turns=1");
    const char *text = sr1_trajectory_generated_text(t, NULL);
    sr1_action_event e = {sizeof e};

    (void)state;
    assert_int_equal(count_text(text, call), 4);
    assert_int_equal(count_text(text, rest), 4);
    assert_int_equal(
        count_text(text, CLOSE TOO_LONG "\n" REFUSED_CALL OPEN "<tool_call>"), 1);
    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_SEARCH_LIMIT);
    assert_int_equal(sr1_trajectory_search_count(t), 2);
    OK(sr1_trajectory_search(t, 1, &e));
    assert_int_equal(strlen(e.query), 4096);
    assert_int_equal(e.status, SR1_ACTION_OK);
    sr1_trajectory_free(t);
}

static void a_long_answer_is_one(void **state)
{
    sr1_trajectory *t = say("writer", NULL, NULL);
    size_t n;
    const char *answer = sr1_trajectory_final_answer(t, &n);

    (void)state;
    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_ANSWER);
    assert_int_equal(n, 4500);
    assert_memory_equal(answer + 3600, LONG_E, 900);
    sr1_trajectory_free(t);
}

/* A message that the policy ends itself: the end is its token, and is not inserted. */
static void a_message_of_calls_ends_where_the_policy_ends_it(void **state)
{
    sr1_rollout *r = tiny_rollout(
        calls_config("either", "max_parallel_calls=8", "max_env_steps=3"), engine());
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 16, .seed = 3};
    sr1_trajectory *t[16] = {NULL};
    int32_t end = tiny_id(sr1_rollout_tokenizer(r), "<|im_end|>");
    int single = 0, several = 0;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    for (size_t i = 0; i < 16; i++) {
        const char *text = sr1_trajectory_generated_text(t[i], NULL);
        const int32_t *ids = sr1_trajectory_ids(t[i]);
        const uint8_t *mask = sr1_trajectory_policy_mask(t[i]);
        sr1_text_segment s = {sizeof s};
        size_t calls, k = 0;

        if (sr1_trajectory_segment_count(t[i]) < 2)
            continue; /* a message without an end */
        OK(sr1_trajectory_segment(t[i], 1, &s));
        if (memcmp(text + s.text_begin, ENDED, strlen(ENDED)) != 0)
            continue; /* one that the limit has ended */
        assert_memory_equal(text + s.body_begin, "\nIt is", 6);
        calls = count_text(text, CALL) - count_text(text + s.text_begin, CALL);
        while (!mask[k])
            k++;
        assert_int_equal(ids[k + 3 * calls], end); /* the policy's, with a log-prob */
        assert_true(mask[k + 3 * calls] && !mask[k + 3 * calls + 1]);
        single += calls == 1;
        several += calls > 1;
    }
    assert_true(single > 0 && several > 0);
    tiny_free_all(t, 16);
    sr1_rollout_free(r);
}

/* Room is taken from the longest result, and every block keeps its tags. */
static void long_results_are_cut_within_their_blocks(void **state)
{
    sr1_trajectory *whole = say("caller", "max_parallel_calls=2", "max_env_steps=2"), *t;
    size_t n = sr1_trajectory_environment_count(whole), cut = 0;

    (void)state;
    for (size_t room = 1; room <= n; room++) {
        char key[64];

        snprintf(key, sizeof key, "max_observation_tokens=%zu", room);
        t = say_with(tiny_rollout(
            tiny_config("caller", "protocol=hermes", "environment=tools", "max_tokens=60",
                        "max_parallel_calls=2", "max_env_steps=2", key, NULL),
            engine()));
        if (sr1_trajectory_stop_reason(t) != SR1_STOP_CONTEXT_LIMIT) {
            const char *text = sr1_trajectory_generated_text(t, NULL);

            assert_true(sr1_trajectory_environment_count(t) <= room);
            assert_int_equal(count_text(text, "<tool_response>\n"), 2);
            assert_int_equal(count_text(text, "\n</tool_response>"), 2);
            assert_non_null(strstr(text, "\n</tool_response>\n<tool_response>\n"));
            cut += count_text(text, "It is in the old town.") < 2;
        }
        sr1_trajectory_free(t);
    }
    assert_true(cut > 5);
    sr1_trajectory_free(whole);
}

/* ---- side by side ---- */

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t come;
    int n, most;
};

/* Returns only when two calls are here at once. */
static sr1_status meet(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    struct meeting *m = self;
    struct timespec until = sr1__clock_time(sr1__now() + PATIENCE);
    int met;

    (void)args;
    (void)len;
    pthread_mutex_lock(&m->lock);
    m->n++;
    m->most = m->n > m->most ? m->n : m->most;
    pthread_cond_broadcast(&m->come);
    while (m->most < 2 && pthread_cond_timedwait(&m->come, &m->lock, &until) == 0)
        ;
    met = m->most >= 2;
    m->n--;
    pthread_mutex_unlock(&m->lock);
    return sr1_tool_sink_text(sink, met ? "met" : "alone", met ? 3 : 5);
}

static void calls_of_a_message_run_side_by_side(void **state)
{
    struct meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER};
    sr1_env_options eo = {
        .struct_size = sizeof eo, .protocol = "hermes", .max_parallel_calls = 2};
    sr1_tool_ops ops = {.struct_size = sizeof ops,
                        .name = "meet",
                        .call = meet,
                        .flags = SR1_TOOL_WAITS | SR1_TOOL_CONCURRENT};
    sr1_rollout *r =
        tiny_rollout(calls_config("meeter", "max_env_steps=2", NULL), tiny_engine());
    sr1_env *env = NULL;
    sr1_trajectory *t;

    (void)state;
    sr1__cond_init(&m.come);
    OK(sr1_env_open(&env, "tools", NULL, &eo));
    OK(sr1_env_add_tool(env, &ops, &m));
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
    t = say_with(r);
    assert_non_null(strstr(sr1_trajectory_generated_text(t, NULL),
                           "<tool_response>\nmet\n</tool_response>\n<tool_response>\nmet"
                           "\n</tool_response>"));
    assert_int_equal(m.most, 2);
    sr1_trajectory_free(t);
}

/* ---- a server ---- */

static void a_server_gives_the_same_ids(void **state)
{
    struct openai_server server;
    sr1_trajectory *local, *remote;
    size_t n;

    (void)state;
    for (int k = 0; k < 3; k++) {
        static const char *const models[] = {"caller", "either", "talker"};
        const char *model = models[k];
        sr1_config *c = calls_config(model, "max_env_steps=2", "max_parallel_calls=2");
        char url[160];

        openai_start(&server, scratch_path(model));
        snprintf(url, sizeof url, "%s/v1", server.http.url);
        OK(sr1_config_set(c, "use_openai", "true"));
        OK(sr1_config_set(c, "openai_base_url", url));
        remote = say_with(tiny_rollout(c, engine()));
        local = say(model, "max_env_steps=2", "max_parallel_calls=2");
        openai_stop(&server);
        n = sr1_trajectory_token_count(local);
        assert_string_equal(sr1_trajectory_generated_text(remote, NULL),
                            sr1_trajectory_generated_text(local, NULL));
        assert_int_equal(sr1_trajectory_token_count(remote), n);
        assert_memory_equal(sr1_trajectory_ids(remote), sr1_trajectory_ids(local),
                            n * sizeof(int32_t));
        assert_memory_equal(sr1_trajectory_policy_mask(remote),
                            sr1_trajectory_policy_mask(local), n);
        sr1_trajectory_free(local);
        sr1_trajectory_free(remote);
    }
}

/* A server that renders messages is given results as the template has them here. */
static void a_server_is_told_who_answers(void **state)
{
    static const struct {
        const char *rules, *said;
    } cases[] = {{"several: true\nipython: true\n", "\"role\":\"tool\""},
                 {"several: true\n", "\"role\":\"user\",\"content\":\"<tool_response>"}};
    struct openai_server server;
    char url[160];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_config *c = configure_ipython(cases[i].rules, "m.content");

        openai_start(&server, scratch_path("caller"));
        snprintf(url, sizeof url, "%s/v1", server.http.url);
        OK(sr1_config_set(c, "use_openai", "true"));
        OK(sr1_config_set(c, "openai_base_url", url));
        OK(sr1_config_set(c, "openai_endpoint", "chat"));
        sr1_trajectory_free(say_with(tiny_rollout(c, engine())));
        openai_stop(&server);
        if (!strstr(server.http.last, cases[i].said))
            fail_msg("%s: %s", cases[i].said, server.http.last);
    }
    remove(scratch_path("caller/chat_template.jinja"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_one_message_are_answered_in_one),
        cmocka_unit_test(results_are_the_role_ipythons),
        cmocka_unit_test(one_call_a_message_ends_at_its_tag),
        cmocka_unit_test(calls_beyond_the_limit_are_refused),
        cmocka_unit_test(a_call_that_is_too_long_is_told_so),
        cmocka_unit_test(a_long_answer_is_one),
        cmocka_unit_test(a_message_of_calls_ends_where_the_policy_ends_it),
        cmocka_unit_test(long_results_are_cut_within_their_blocks),
        cmocka_unit_test(calls_of_a_message_run_side_by_side),
        cmocka_unit_test(a_server_gives_the_same_ids),
        cmocka_unit_test(a_server_is_told_who_answers),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
