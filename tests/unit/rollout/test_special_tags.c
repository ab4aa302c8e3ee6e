/* Tags that are special tokens of the model, as Llama 3's and Mistral's are: they are
 * text of the policy, and what follows them is a call. */
#define LLAMA_CALL "{\"name\": \"wiki_search\", \"parameters\": {\"query\": \"tower\"}}"
#define MISTRAL_CALL                                                                     \
    " [{\"name\": \"wiki_search\", \"arguments\": {\"query\": \"tower\"}}]"
#define TINY_MORE_WORDS                                                                  \
    "<|python_tag|>", "<|eom_id|>", "[TOOL_CALLS]", LLAMA_CALL, MISTRAL_CALL

#include "support/openai_server.h"

#include "base/file.h"
#include "base/json.h"
#include "environment/env/protocol.h"
#include "policy/rollout_internal.h"

#define SPECIALS 3

/* The tokens as the published files have them: added_tokens that are special
 * (<|python_tag|> and <|eom_id|> in Llama 3.1's tokenizer.json, [TOOL_CALLS] in
 * Mistral-7B-Instruct-v0.3's). */
static void make_special(const char *model)
{
    static const char *const contents[SPECIALS] = {"<|python_tag|>", "<|eom_id|>",
                                                   "[TOOL_CALLS]"};
    json_t *file = NULL, *token;
    char path[200];
    size_t i, found = 0;

    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    OK(sr1__json_load(&file, scratch_path(path), 0));
    json_array_foreach(json_object_get(file, "added_tokens"), i, token)
    {
        const char *content = json_string_value(json_object_get(token, "content"));

        for (size_t k = 0; k < SPECIALS; k++)
            if (strcmp(content, contents[k]) == 0) {
                json_object_set_new(token, "special", json_true());
                found++;
            }
    }
    assert_int_equal(found, SPECIALS);
    OK(sr1__json_save(file, 0, scratch_path(path)));
    json_decref(file);
}

/* Llama 3.1's generation_config.json lists <|eom_id|> among those that end a message. */
static void make_ending(const char *model, const char *token)
{
    sr1_tokenizer *t = NULL;
    char path[200], text[200];

    OK(sr1_tokenizer_open(&t, scratch_path(model)));
    snprintf(path, sizeof path, "%s/generation_config.json", model);
    snprintf(text, sizeof text, "{\"eos_token_id\": [%d, %d]}",
             (int)tiny_id(t, "<|im_end|>"), (int)tiny_id(t, token));
    scratch_file(path, text, 0);
    sr1_tokenizer_free(t);
}

static int make(void **state)
{
    static const struct tiny_rule llama[] = {{"", " well"},
                                             {" well", "<|python_tag|>"},
                                             {"<|python_tag|>", LLAMA_CALL},
                                             {LLAMA_CALL, "<|eom_id|>"}};
    static const struct tiny_rule mistral[] = {{"", "[TOOL_CALLS]"},
                                               {"[TOOL_CALLS]", MISTRAL_CALL},
                                               {MISTRAL_CALL, "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("llama", llama, 4, 30);
    tiny_model("mistral", mistral, 3, 30);
    make_special("llama");
    make_special("mistral");
    make_ending("llama", "<|eom_id|>");
    return 0;
}

static sr1_config *configure(const char *model, const char *protocol)
{
    return tiny_config(model, protocol, "environment=tools", "max_tokens=40",
                       "max_env_steps=1", "max_turns=2", NULL);
}

static sr1_search *engine(void)
{
    static const char *const keys[] = {"tower"};
    static const char *const facts[] = {"It is in the old town."};
    sr1_search *e = NULL;

    OK(sr1_search_open_mock(&e, keys, facts, 1));
    return e;
}

static sr1_trajectory *say(sr1_config *c)
{
    sr1_rollout *r = tiny_rollout(c, engine());
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;

    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    sr1_rollout_free(r);
    return t;
}

#define RESULT "<tool_response>\nIt is in the old town.\n</tool_response>"
#define NEXT "<|im_end|>\n<|im_start|>assistant\n"

static void check_call(const sr1_trajectory *t, const char *said, const char *call)
{
    sr1_action_event e = {sizeof e};
    char text[800];

    /* The policy's end is its message's: no other is put behind it. */
    snprintf(text, sizeof text, "%s\n<|im_start|>user\n" RESULT NEXT "%s", said, said);
    assert_string_equal(sr1_trajectory_generated_text(t, NULL), text);
    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_SEARCH_LIMIT);
    assert_int_equal(sr1_trajectory_search_count(t), 1);
    OK(sr1_trajectory_search(t, 0, &e));
    assert_string_equal(e.query, call);
    assert_int_equal(e.n_hits, 1);
}

static void llamas_tag_begins_a_call(void **state)
{
    sr1_trajectory *t = say(configure("llama", "protocol=llama3"));
    const int32_t *ids = sr1_trajectory_ids(t);
    size_t call = sr1_trajectory_prompt_count(t);
    sr1_tokenizer *tokenizer = NULL;

    (void)state;
    check_call(t, " well<|python_tag|>" LLAMA_CALL, LLAMA_CALL);
    OK(sr1_tokenizer_open(&tokenizer, scratch_path("llama")));
    assert_int_equal(ids[call + 1], tiny_id(tokenizer, "<|python_tag|>"));
    assert_int_equal(ids[call + 3], tiny_id(tokenizer, "<|eom_id|>"));
    assert_int_not_equal(ids[call + 4], tiny_id(tokenizer, "<|im_end|>"));
    sr1_tokenizer_free(tokenizer);
    sr1_trajectory_free(t);
}

static sr1_config *configure_mistral(void)
{
    static const char rules[] = "action: ['[TOOL_CALLS]']\nseveral: true\n";
    char pair[600];
    int64_t before;

    snprintf(pair, sizeof pair, "protocol_file=%s",
             scratch_file("mistral.yaml", rules, 0));
    before = sr1__mem_live();
    assert_non_null(sr1__protocol_find(strchr(pair, '=') + 1));
    tiny_lasting += (int)(sr1__mem_live() - before); /* the file is the process's */
    return configure("mistral", pair);
}

static void mistrals_tag_begins_a_call(void **state)
{
    sr1_trajectory *t = say(configure_mistral());

    (void)state;
    check_call(t, "[TOOL_CALLS]" MISTRAL_CALL,
               "{\"name\": \"wiki_search\", \"arguments\": {\"query\": \"tower\"}}");
    sr1_trajectory_free(t);
}

/* A server's answer, whose text is without special tokens, is read the same. */
static void a_server_gives_the_same_calls(void **state)
{
    struct openai_server server;
    sr1_config *c = configure("llama", "protocol=llama3");
    sr1_trajectory *local = say(configure("llama", "protocol=llama3")), *remote;
    size_t n = sr1_trajectory_token_count(local);
    char url[160];

    (void)state;
    openai_start(&server, scratch_path("llama"));
    snprintf(url, sizeof url, "%s/v1", server.http.url);
    OK(sr1_config_set(c, "use_openai", "true"));
    OK(sr1_config_set(c, "openai_base_url", url));
    remote = say(c);
    openai_stop(&server);
    assert_string_equal(sr1_trajectory_generated_text(remote, NULL),
                        sr1_trajectory_generated_text(local, NULL));
    assert_int_equal(sr1_trajectory_token_count(remote), n);
    assert_memory_equal(sr1_trajectory_ids(remote), sr1_trajectory_ids(local),
                        n * sizeof(int32_t));
    sr1_trajectory_free(local);
    sr1_trajectory_free(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llamas_tag_begins_a_call),
        cmocka_unit_test(mistrals_tag_begins_a_call),
        cmocka_unit_test(a_server_gives_the_same_calls),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
