/* Multi-turn conversations with tools: what is inserted and where the masks stand, how
 * calls are counted, notices, and a tool that is late. */
#include "support/tiny.h"
#include "support/wait.h"

#include "base/file.h"
#include "environment/env/protocol.h"
#include "policy/observation_tokens.h"
#include "policy/rollout_internal.h"

#include <searchr1/ext/reward_set.h>

static int make(void **state)
{
    static const struct tiny_rule caller[] = {
        {"", "<tool>"}, {"<tool>", TINY_CALL}, {TINY_CALL, "</tool>"}};
    static const struct tiny_rule stumbler[] = {
        {"", "<tool>"}, {"<tool>", "{oops"}, {"{oops", "</tool>"}};
    static const struct tiny_rule either[] = {
        {"", "<tool>"},   {"<tool>", TINY_CALL},  {TINY_CALL, "</tool>"},
        {"", "<answer>"}, {"<answer>", " Paris"}, {" Paris", "</answer>"}};
    static const struct tiny_rule quiet[] = {{"", " so"}, {" so", "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("caller", caller, 3, 30);
    tiny_model("stumbler", stumbler, 3, 30);
    tiny_model("either", either, 6, 16);
    tiny_model("quiet", quiet, 2, 30);
    return 0;
}

static sr1_config *tools_config(const char *model, const char *a, const char *b)
{
    return tiny_config(model, "protocol=mt-grpo", "environment=tools", "max_tokens=60",
                       a ? a : "seed=11", b ? b : "seed=11", NULL);
}

/* One greedy trajectory of a rollout, which is freed. */
static sr1_trajectory *say_with(sr1_rollout *r)
{
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;

    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    sr1_rollout_free(r);
    return t;
}

/* Knows something that has no added token in it, which would be text in a result. */
static sr1_search *engine(void)
{
    static const char *const keys[] = {"tower"};
    static const char *const facts[] = {"It is in the old town."};
    sr1_search *e = NULL;

    OK(sr1_search_open_mock(&e, keys, facts, 1));
    return e;
}

static sr1_trajectory *say(const char *model, const char *a, const char *b)
{
    return say_with(tiny_rollout(tools_config(model, a, b), engine()));
}

#define CLOSE "<|im_end|>\n<|im_start|>user\n"
#define OPEN "<|im_end|>\n<|im_start|>assistant\n"
#define CALL "<tool>" TINY_CALL "</tool>"
#define RESULT "<result>\nIt is in the old town.\n</result>"
#define OOPS "<tool>{oops</tool>"
#define NOT_JSON                                                                         \
    "<result>\nError: the tool call is not valid JSON; write {\"name\": ..., \"args\": " \
    "{...}}\n</result>"

static void said(const sr1_trajectory *t, const char *text, int32_t stop)
{
    assert_string_equal(sr1_trajectory_generated_text(t, NULL), text);
    assert_int_equal(sr1_trajectory_stop_reason(t), stop);
}

/* ---- tokens ---- */

/* The ids are those of the chat template's rendering of the whole conversation, and only
 * what was sampled is the policy's. */
static void an_answer_is_a_message(void **state)
{
    static const char *const roles[] = {"user", "assistant", "user", "assistant", "user"};
    static const char *const contents[] = {"Where?", CALL, RESULT, CALL, RESULT};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .recognise_added = 1};
    sr1_trajectory *t = say("caller", "max_env_steps=2", NULL);
    sr1_rollout *r = tiny_rollout(tools_config("caller", NULL, NULL), tiny_engine());
    const int32_t *ids = sr1_trajectory_ids(t);
    const uint8_t *mask = sr1_trajectory_policy_mask(t);
    int32_t *want = NULL;
    size_t n = 0, policy = 0, i;

    (void)state;
    said(t, CALL CLOSE RESULT OPEN CALL CLOSE RESULT OPEN CALL, SR1_STOP_SEARCH_LIMIT);
    OK(sr1_tokenizer_chat(sr1_rollout_tokenizer(r), roles, contents, NULL, 5, &o, NULL,
                          NULL, &want, &n));
    assert_int_equal(sr1_trajectory_token_count(t), n + 3);
    for (i = 0; i < n; i++)
        assert_int_equal(ids[i], want[i]);
    for (i = 0; i < n + 3; i++) {
        int call = ids[i] == tiny_id(sr1_rollout_tokenizer(r), "<tool>") ||
                   ids[i] == tiny_id(sr1_rollout_tokenizer(r), TINY_CALL) ||
                   ids[i] == tiny_id(sr1_rollout_tokenizer(r), "</tool>");

        assert_int_equal(mask[i], call);
        policy += mask[i];
    }
    assert_int_equal(policy, 9);
    assert_int_equal(sr1_trajectory_turn_count(t), 3);
    sr1_free(want);
    sr1_rollout_free(r);
    sr1_trajectory_free(t);
}

#define TOKENIZER "tests/golden/tokenizer/llama2/"
#define TEMPLATES "tests/golden/jinja/"

static void copy_file(const char *from, const char *to)
{
    char path[512];
    struct sr1__buf b;

    snprintf(path, sizeof path, "%s/%s", getenv("SR1_SRC"), from);
    OK(sr1__file_read(path, 0, &b));
    scratch_file(to, sr1__buf_cstr(&b), b.len);
    sr1__buf_free(&b);
}

/* The end of the whole conversation, ended: behind the token that ends a message. */
static void check_message_tokens(const sr1_tokenizer *t,
                                 const struct sr1__turn_delimiters *border, int ended)
{
    static const char *const roles[] = {"user", "assistant", "user"};
    static const char *const contents[] = {"Where?", "Look it up.",
                                           "<r>\nIn town.\n</r>"};
    sr1_chat_options c = {.struct_size = sizeof c, .add_generation_prompt = 1};
    struct sr1__observation_tokens b;
    struct sr1__observation o;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, len = 0;
    int fits = 0;

    OK(sr1_tokenizer_chat(t, roles, contents, NULL, 3, &c, &text, &len, &ids, &n));
    sr1__observation_init(&o);
    sr1__buf_str(&o.head, "<r>\n");
    sr1__buf_str(&o.body, "In town.");
    sr1__buf_str(&o.tail, "\n</r>");
    OK(sr1__observation_tokens_make(&b, t, border, sr1__protocol_find("hermes"), &o, 1,
                                    ended, 1000, &fits));
    assert_int_equal(fits, 1);
    assert_true(b.ids.n < n && b.text.len < len);
    assert_string_equal(sr1__buf_cstr(&b.text), text + len - b.text.len);
    assert_memory_equal(b.ids.v, ids + n - b.ids.n, b.ids.n * sizeof *ids);
    assert_memory_equal(b.text.data + b.body_begin, "In town.", b.body_len);
    if (ended)
        assert_int_equal(ids[n - b.ids.n - 1],
                         sr1_tokenizer_special_id(t, SR1_TOKEN_EOS));
    else
        assert_string_equal(text + len - b.text.len, strstr(text, "up.") + 3);
    sr1__observation_tokens_free(&b);
    sr1__observation_free(&o);
    sr1_free(ids);
    sr1_free(text);
}

/* Where tokenizers put a space in front of a text, none comes between its parts. */
static void a_message_has_the_ids_of_the_whole(void **state)
{
    static const char *const templates[] = {"llama2.jinja", "mistral_v1.jinja",
                                            "vicuna.jinja"};

    (void)state;
    OK(sr1__dir_make(scratch_path("llama")));
    copy_file(TOKENIZER "tokenizer.json", "llama/tokenizer.json");
    copy_file(TOKENIZER "tokenizer_config.json", "llama/tokenizer_config.json");
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct sr1__turn_delimiters border;
        sr1_tokenizer *t = NULL;
        char from[256];

        snprintf(from, sizeof from, TEMPLATES "%s", templates[i]);
        copy_file(from, "llama/chat_template.jinja");
        OK(sr1_tokenizer_open(&t, scratch_path("llama")));
        OK(sr1__turn_delimiters_make(&border, t, 0));
        check_message_tokens(t, &border, 0);
        if (border.end_len)
            check_message_tokens(t, &border, 1);
        sr1__turn_delimiters_free(&border);
        sr1_tokenizer_free(t);
    }
}

static void a_body_is_where_its_segment_says(void **state)
{
    sr1_trajectory *t = say("caller", "max_env_steps=1", NULL);
    sr1_text_segment s = {sizeof s};
    sr1_action_event e = {sizeof e};
    int32_t turn = 9;

    (void)state;
    assert_int_equal(sr1_trajectory_segment_count(t), 3);
    OK(sr1_trajectory_segment(t, 1, &s));
    assert_int_equal(s.source, SR1_SOURCE_ENVIRONMENT);
    assert_memory_equal(sr1_trajectory_generated_text(t, NULL) + s.body_begin,
                        "\nIt is in the old town.", s.body_len);
    OK(sr1_trajectory_search(t, 0, &e));
    assert_string_equal(e.query, TINY_CALL);
    assert_int_equal(e.n_hits, 1);
    OK(sr1_protocol_result_turn("mt-grpo", t, &turn));
    assert_int_equal(turn, 0);
    sr1_trajectory_free(t);
}

static void a_long_result_is_cut_within_its_message(void **state)
{
    sr1_trajectory *whole = say("caller", "max_env_steps=1", NULL), *t;
    size_t n = sr1_trajectory_environment_count(whole), least = 0;

    (void)state;
    for (size_t room = 1; room <= n; room++) {
        sr1_text_segment s = {sizeof s};
        char key[64];

        snprintf(key, sizeof key, "max_observation_tokens=%zu", room);
        t = say("caller", "max_env_steps=1", key);
        if (sr1_trajectory_stop_reason(t) == SR1_STOP_CONTEXT_LIMIT) {
            assert_string_equal(sr1_trajectory_generated_text(t, NULL), CALL);
            assert_int_equal(least, 0); /* too little room comes first */
        } else {
            const char *text = sr1_trajectory_generated_text(t, NULL);

            least = least ? least : room;
            assert_true(sr1_trajectory_environment_count(t) <= room);
            assert_true(sr1_trajectory_environment_count(t) + 2 >= room);
            OK(sr1_trajectory_segment(t, 1, &s));
            assert_memory_equal(text + s.body_begin, "\nIt is in the old town.",
                                s.body_len);
            assert_int_equal(strncmp(text, CALL CLOSE "<result>", strlen(CALL CLOSE) + 8),
                             0);
            assert_non_null(strstr(text, "</result>" OPEN CALL));
        }
        sr1_trajectory_free(t);
    }
    assert_true(least > 5 && least < n);
    sr1_trajectory_free(whole);
}

/* ---- counting ---- */

static void only_executed_calls_count(void **state)
{
    sr1_trajectory *t = say("stumbler", "max_env_steps=1", "max_turns=3");

    (void)state;
    said(t,
         OOPS CLOSE NOT_JSON OPEN OOPS CLOSE NOT_JSON OPEN OOPS CLOSE NOT_JSON OPEN OOPS,
         SR1_STOP_SEARCH_LIMIT);
    assert_int_equal(sr1_trajectory_search_count(t), 3);
    sr1_trajectory_free(t);
}

/* As the published code counts: the last call allowed is not carried out. */
static void every_call_counts_if_asked_for(void **state)
{
    sr1_trajectory *t = say("caller", "max_env_steps=2", "count_unexecuted=true");

    (void)state;
    said(t, CALL CLOSE RESULT OPEN CALL, SR1_STOP_SEARCH_LIMIT);
    sr1_trajectory_free(t);
    t = say("stumbler", "max_env_steps=2", "count_unexecuted=true");
    said(t, OOPS CLOSE NOT_JSON OPEN OOPS, SR1_STOP_SEARCH_LIMIT);
    sr1_trajectory_free(t);
}

static void without_max_env_steps_max_turns_counts(void **state)
{
    sr1_trajectory *t = say("caller", "max_turns=1", NULL);

    (void)state;
    said(t, CALL CLOSE RESULT OPEN CALL, SR1_STOP_SEARCH_LIMIT);
    sr1_trajectory_free(t);
}

/* A message that is neither is told so, and its own <|im_end|> is not said again. */
static void neither_a_call_nor_an_answer(void **state)
{
    sr1_trajectory *t = say("quiet", "max_env_steps=1", "max_turns=2");
    sr1_rollout *r = tiny_rollout(tools_config("quiet", NULL, NULL), tiny_engine());
    int32_t end = sr1_tokenizer_special_id(sr1_rollout_tokenizer(r), SR1_TOKEN_IM_END);
    const int32_t *ids = sr1_trajectory_ids(t);
    size_t n = sr1_trajectory_token_count(t), ends = 0, i;
    const char *text = sr1_trajectory_generated_text(t, NULL);

    (void)state;
    assert_int_equal(strncmp(text, " so\n<|im_start|>user\nError: there is neither", 43),
                     0);
    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_EOS);
    assert_int_equal(sr1_trajectory_turn_count(t), 3);
    assert_int_equal(sr1_trajectory_search_count(t), 0);
    for (i = sr1_trajectory_prompt_count(t); i < n; i++) {
        ends += ids[i] == end;
        assert_false(i + 1 < n && ids[i] == end && ids[i + 1] == end);
    }
    assert_int_equal(ends, 5); /* three of the policy, two of the notices */
    sr1_rollout_free(r);
    sr1_trajectory_free(t);
}

/* ---- the system message ---- */

static void tools_are_in_the_prompt(void **state)
{
    sr1_config *c = tiny_config("caller", "protocol=mt-grpo", "environment=tools",
                                "prompt_template=", "max_prompt_tokens=4096", NULL);
    sr1_rollout *r = NULL;

    (void)state;
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    assert_non_null(strstr(r->system, "wiki_search: Search for passages"));
    assert_non_null(strstr(r->system, "- query (string, required)"));
    assert_null(strstr(r->system, "{{"));
    sr1_config_free(c);
    sr1_rollout_free(r);
}

/* ---- a tool of the caller's ---- */

/* A tool whose second call lasts until it is let go. */
struct slow_tool {
    atomic_int calls, held, ended;
};

static sr1_status answer(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    struct slow_tool *s = self;
    int call = atomic_fetch_add(&s->calls, 1);
    sr1_status st;

    (void)args;
    (void)len;
    if (call == 1)
        wait_for(&s->held, 0);
    st = sr1_tool_sink_text(sink, "Paris", 5);
    atomic_fetch_add(&s->ended, 1);
    return st;
}

static sr1_env *tool_env(struct slow_tool *s, const char *protocol, double deadline)
{
    sr1_tool_ops ops = {.struct_size = sizeof ops,
                        .name = "wiki_search",
                        .schema =
                            "{\"type\": \"object\", \"additionalProperties\": true}",
                        .call = answer,
                        .flags = SR1_TOOL_CONCURRENT,
                        .deadline_s = deadline};
    sr1_env_options o = {.struct_size = sizeof o, .protocol = protocol};
    sr1_env *env = NULL;

    OK(sr1_env_open(&env, "tools", NULL, &o));
    OK(sr1_env_add_tool(env, &ops, s));
    return env;
}

static void a_late_tool_delays_its_own_row_only(void **state)
{
    struct slow_tool s = {.held = 1};
    sr1_config *c = tools_config("caller", "max_env_steps=1", "search_engine=none");
    sr1_env *env = tool_env(&s, "mt-grpo", 1), *other;
    sr1_rollout *r = tiny_rollout(c, NULL);
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 6, .greedy = 1};
    sr1_trajectory *t[6] = {NULL};
    size_t failed = 0;

    (void)state;
    other = tool_env(&s, NULL, 0);
    REFUSED(sr1_rollout_set_env(r, other), SR1_E_INVALID, "protocol search-r1");
    sr1_env_free(other);
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    assert_int_equal(atomic_load(&s.ended), 5); /* the second call goes on */
    for (size_t i = 0; i < 6; i++) {
        if (sr1_trajectory_stop_reason(t[i]) == SR1_STOP_SEARCH_FAILED) {
            failed++;
            assert_string_equal(sr1_trajectory_generated_text(t[i], NULL), CALL);
        } else {
            said(t[i], CALL CLOSE "<result>\nParis\n</result>" OPEN CALL,
                 SR1_STOP_SEARCH_LIMIT);
        }
    }
    assert_int_equal(failed, 1);
    tiny_free_all(t, 6);
    sr1_rollout_free(r);
    atomic_store(&s.held, 0);
    wait_for(&s.ended, 6); /* the late call uses s */
}

static void count_unasked(void *user, int32_t level, const char *text)
{
    *(int *)user += level == SR1_LOG_WARN &&
                    strstr(text, "protocol chat has no tags to act by") != NULL;
}

static void an_environment_that_is_never_asked_is_told_of(void **state)
{
    sr1_config *c = tiny_config("caller", "protocol=chat", "environment=none", NULL);
    sr1_env_options eo = {.struct_size = sizeof eo, .protocol = "chat"};
    sr1_rollout *r = tiny_rollout(c, NULL);
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;
    sr1_env *env = NULL;
    int told = 0;

    (void)state;
    OK(sr1_env_open(&env, "none", NULL, &eo));
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
    sr1_log_set(count_unasked, &told);
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    sr1_log_set(NULL, NULL);
    assert_int_equal(told, 1);
    tiny_free_all(&t, 1);
    sr1_rollout_free(r);
}

/* A group in which some call and some answer is fit for both levels of reward. */
static void conversations_are_rewarded(void **state)
{
    sr1_reward_options ro = {.struct_size = sizeof ro,
                             .protocol = "mt-grpo",
                             .rewards =
                                 "tool_execution,answer_in_results,mt_exact_match"};
    sr1_rollout *r =
        tiny_rollout(tools_config("either", "max_env_steps=2", NULL), tiny_engine());
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 16, .seed = 3};
    sr1_trajectory *t[16] = {NULL};
    double parts[16][3];
    sr1_reward_set *set = NULL;
    int used = 0, knew = 0;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    OK(sr1_reward_set_new(&set, &ro));
    OK(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 16, &parts[0][0],
                            NULL));
    for (size_t i = 0; i < 16; i++) {
        int calls = sr1_trajectory_search_count(t[i]) > 0;
        int answers = sr1_trajectory_stop_reason(t[i]) == SR1_STOP_ANSWER;

        assert_true(parts[i][0] == (calls ? 0.2 : 0));
        assert_true(parts[i][1] == (calls ? 0.5 : 0));
        assert_true(parts[i][2] == (answers ? 1 : 0));
        used += calls && answers;
        knew += !calls && answers;
    }
    assert_true(used > 0 && knew > 0);
    tiny_free_all(t, 16);
    sr1_reward_set_free(set);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_a_message),
        cmocka_unit_test(a_message_has_the_ids_of_the_whole),
        cmocka_unit_test(a_body_is_where_its_segment_says),
        cmocka_unit_test(a_long_result_is_cut_within_its_message),
        cmocka_unit_test(only_executed_calls_count),
        cmocka_unit_test(every_call_counts_if_asked_for),
        cmocka_unit_test(without_max_env_steps_max_turns_counts),
        cmocka_unit_test(neither_a_call_nor_an_answer),
        cmocka_unit_test(tools_are_in_the_prompt),
        cmocka_unit_test(a_late_tool_delays_its_own_row_only),
        cmocka_unit_test(an_environment_that_is_never_asked_is_told_of),
        cmocka_unit_test(conversations_are_rewarded),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
