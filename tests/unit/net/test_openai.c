/* The client of OpenAI's API: what it sends, the answers of several servers, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "retrieval/net/openai_wire.h"
#include "support/files.h"
#include "support/http_server.h"
#include "support/torture.h"

#include <math.h>
#include <searchr1/ext/openai.h>

static const int32_t prompt_ids[] = {1, 22, 333};
static const char *const roles[] = {"system", "user"};
static const char *const contents[] = {"Be brief.", "Where is \"it\"?"};
static const char *const stops[] = {"</search>", "</answer>"};

static const sr1_openai_request by_ids = {.struct_size = sizeof by_ids,
                                          .prompt_ids = prompt_ids,
                                          .n_prompt_ids = 3,
                                          .max_tokens = 7,
                                          .temperature = 0.5,
                                          .top_p = 0.9,
                                          .log_probs = 1,
                                          .stop = stops,
                                          .n_stop = 2,
                                          .seed = 12};
static const sr1_openai_request by_messages = {.struct_size = sizeof by_messages,
                                               .roles = roles,
                                               .contents = contents,
                                               .n_messages = 2,
                                               .max_tokens = 5};

/* As vLLM answers with return_token_ids. */
static const char vllm_completion[] =
    "{\"id\": \"cmpl-1\", \"object\": \"text_completion\", \"model\": \"m\", "
    "\"choices\": [{\"index\": 0, \"text\": \" x</search>\", \"logprobs\": "
    "{\"text_offset\": [0, 2], \"token_logprobs\": [-0.5, -9999.0], \"tokens\": "
    "[\"token_id:17\", \"token_id:4\"], \"top_logprobs\": [null, null]}, "
    "\"finish_reason\": \"stop\", \"stop_reason\": \"</search>\", "
    "\"prompt_token_ids\": [1, 22, 333], \"token_ids\": [17, 4]}], "
    "\"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 2, \"total_tokens\": 5}}";

static sr1_openai_options quick(const struct server *s)
{
    static char url[96];
    sr1_openai_options o;

    sr1_openai_options_init(&o);
    snprintf(url, sizeof url, "%s/v1", s->url);
    o.base_url = url;
    o.model = "m";
    o.retries = 2;
    o.retry_first_s = o.retry_max_s = 0.01;
    o.timeout_s = 5;
    o.key_env = "";
    return o;
}

/* ---- servers ---- */

struct told {
    const char *models; /* body of /models; NULL: 404 */
    struct reply reply; /* of everything else */
    int good_after;     /* from so many completions on it answers with vllm_completion */
    int completions;
};

static void serve(void *user, int nth, const char *request, struct reply *r)
{
    struct told *t = user;

    (void)nth;
    if (strncmp(request, "GET /v1/models ", 15) == 0) {
        r->code = t->models ? 200 : 404;
        r->body = t->models ? t->models : "{\"detail\": \"Not Found\"}";
        return;
    }
    if (t->good_after > 0 && t->completions++ >= t->good_after)
        r->body = vllm_completion;
    else
        *r = t->reply;
}

static const char vllm_models[] =
    "{\"object\": \"list\", \"data\": [{\"id\": \"Qwen/Qwen3-0.6B\", \"object\": "
    "\"model\", \"owned_by\": \"vllm\", \"max_model_len\": 4096}]}";
static const char other_models[] =
    "{\"object\": \"list\", \"data\": [{\"id\": \"a\"}, {\"id\": \"b\"}]}";

static sr1_openai *open_at(struct server *s, struct told *t)
{
    sr1_openai_options o;
    sr1_openai *c = NULL;

    server_start(s, serve, t);
    o = quick(s);
    if (sr1_openai_new(&c, &o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return c;
}

static sr1_openai_result first(const sr1_openai_results *said)
{
    sr1_openai_result r = {.struct_size = sizeof r};

    assert_int_equal(sr1_openai_results_get(said, 0, &r), SR1_OK);
    return r;
}

static sr1_openai_results *run_one(sr1_openai *c, const sr1_openai_request *q)
{
    sr1_openai_results *said = NULL;

    if (sr1_openai_run(c, q, 1, &said) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return said;
}

/* ---- what is sent ---- */

/* The body of a request, written as the dialect says, equals this JSON. */
static void sends(const sr1_openai_request *q, int32_t dialect, int32_t completion,
                  const char *expected)
{
    struct sr1__openai_style style = {"m", dialect, completion};
    struct sr1__buf b;
    json_t *is = NULL, *should = NULL;

    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__openai_request_write(&b, q, &style), SR1_OK);
    assert_int_equal(sr1__json_parse(&is, sr1__buf_cstr(&b), b.len, "is"), SR1_OK);
    assert_int_equal(sr1__json_parse(&should, expected, strlen(expected), "should"),
                     SR1_OK);
    if (!json_equal(is, should))
        fail_msg("sent %s\nnot  %s", sr1__buf_cstr(&b), expected);
    json_decref(is);
    json_decref(should);
    sr1__buf_free(&b);
}

static void requests_have_the_fields_of_their_dialect(void **state)
{
    sr1_openai_request q = by_ids;

    (void)state;
    sends(&q, SR1_OPENAI_DIALECT_PLAIN, 0,
          "{\"prompt\": [1, 22, 333], \"model\": \"m\", \"max_tokens\": 7, "
          "\"temperature\": 0.5, \"top_p\": 0.9, \"seed\": 12, \"stop\": "
          "[\"</search>\", \"</answer>\"], \"logprobs\": 1}");
    q.top_k = 20;
    sends(&q, SR1_OPENAI_DIALECT_VLLM, 0,
          "{\"prompt\": [1, 22, 333], \"model\": \"m\", \"max_tokens\": 7, "
          "\"temperature\": 0.5, \"top_p\": 0.9, \"top_k\": 20, \"min_p\": 0.0, "
          "\"repetition_penalty\": 1.0, \"seed\": 12, \"stop\": "
          "[\"</search>\", \"</answer>\"], \"logprobs\": 1, \"return_token_ids\": true, "
          "\"return_tokens_as_token_ids\": true, \"include_stop_str_in_output\": true}");
    q = by_messages;
    q.log_probs = 1;
    q.no_thinking = 1;
    sends(
        &q, SR1_OPENAI_DIALECT_PLAIN, 1,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
        "\"user\", \"content\": \"Where is \\\"it\\\"?\"}], \"model\": \"m\", "
        "\"max_completion_tokens\": 5, \"temperature\": 0, \"logprobs\": true}");
    sends(
        &q, SR1_OPENAI_DIALECT_VLLM, 0,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
        "\"user\", \"content\": \"Where is \\\"it\\\"?\"}], \"model\": \"m\", "
        "\"max_tokens\": 5, \"temperature\": 0, \"top_p\": 1.0, \"top_k\": -1, "
        "\"min_p\": 0.0, \"repetition_penalty\": 1.0, \"logprobs\": true, "
        "\"return_token_ids\": true, \"return_tokens_as_token_ids\": true, "
        "\"chat_template_kwargs\": {\"enable_thinking\": false}}");
    q = (sr1_openai_request){
        .struct_size = sizeof q, .prompt = "a\xFF", .prompt_len = 2, .max_tokens = 1};
    sends(&q, SR1_OPENAI_DIALECT_VLLM, 0,
          "{\"prompt\": \"a\xEF\xBF\xBD\", \"model\": \"m\", \"max_tokens\": 1, "
          "\"temperature\": 0, \"top_p\": 1.0, \"top_k\": -1, \"min_p\": 0.0, "
          "\"repetition_penalty\": 1.0, \"return_token_ids\": true, "
          "\"add_special_tokens\": "
          "false}");
}

static void requests_that_make_no_sense_are_refused(void **state)
{
    struct told t = {.reply = {.code = 200, .headers = "", .body = vllm_completion}};
    static const char *const holes[] = {"</search>", NULL};
    sr1_openai_request bad[] = {by_ids, by_ids, by_ids,      by_messages, by_ids,
                                by_ids, by_ids, by_messages, by_messages, by_ids};
    sr1_openai_results *said = NULL;
    struct server s;
    sr1_openai *c = open_at(&s, &t);
    int before = atomic_load(&s.requests);

    (void)state;
    bad[0].max_tokens = 0;
    bad[1].prompt = "too";
    bad[2].n_prompt_ids = 0;
    bad[3].contents = NULL;
    bad[4].temperature = NAN;
    bad[5].struct_size = 0;
    bad[6].stop = holes;
    bad[7].roles = holes;
    bad[8].contents = holes;
    bad[9].struct_size -= 1; /* where the next one would begin there is none */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sr1_openai_run(c, &bad[i], 1, &said), SR1_E_INVALID);
    bad[0] = by_ids;
    bad[0].top_k = 4; /* the plain dialect has none */
    assert_int_equal(sr1_openai_run(c, &bad[0], 1, &said), SR1_E_UNSUPPORTED);
    assert_null(said);
    assert_int_equal(atomic_load(&s.requests), before);
    assert_int_equal(sr1_openai_run(c, NULL, 0, &said), SR1_OK);
    assert_int_equal(sr1_openai_results_count(said), 0);
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

/* ---- what is read ---- */

static void vllm_gives_ids_and_log_probs(void **state)
{
    struct told t = {.models = vllm_models,
                     .reply = {.code = 200, .headers = "", .body = vllm_completion}};
    sr1_openai_counters k = {.struct_size = sizeof k};
    struct server s;
    sr1_openai *c = open_at(&s, &t);
    sr1_openai_results *said = run_one(c, &by_ids);
    sr1_openai_result r = first(said);

    (void)state;
    assert_int_equal(sr1_openai_dialect(c), SR1_OPENAI_DIALECT_VLLM);
    assert_int_equal(sr1_openai_context(c), 4096);
    assert_string_equal(sr1_openai_model(c), "m");
    assert_non_null(strstr(s.last, "POST /v1/completions HTTP/1.1\r\n"));
    assert_int_equal(r.status, SR1_OK);
    assert_int_equal(r.finish, SR1_OPENAI_FINISH_STOP);
    assert_string_equal(r.text, " x</search>");
    assert_string_equal(r.stop_text, "</search>");
    assert_int_equal(r.stop_text_kept, 1);
    assert_int_equal(r.n_tokens, 2);
    assert_int_equal(r.ids[0], 17);
    assert_int_equal(r.ids[1], 4);
    assert_true(r.log_probs[0] == -0.5f && r.log_probs[1] == -9999.0f);
    assert_null(r.tokens);
    assert_int_equal(r.n_prompt_ids, 3);
    assert_int_equal(r.prompt_ids[2], 333);
    assert_int_equal(r.prompt_tokens, 3);
    assert_int_equal(r.completion_tokens, 2);
    assert_int_equal(sr1_openai_counters_get(c, &k), SR1_OK);
    assert_int_equal(k.failures, 0);
    assert_int_equal(k.completion_tokens, 2);
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

static struct sr1__openai_completion read_ok(const char *body,
                                             const sr1_openai_request *q)
{
    struct sr1__openai_completion a;

    if (sr1__openai_completion_read(&a, body, strlen(body), q) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return a;
}

/* OpenAI's own: tokens as texts with their bytes, the stop text taken off. */
static void chats_give_tokens_as_texts(void **state)
{
    struct sr1__openai_completion a = read_ok(
        "{\"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", "
        "\"content\": \"\xC3\xA9 b\", \"refusal\": null}, \"logprobs\": {\"content\": "
        "[{\"token\": \"\\\\xc3\", \"bytes\": [195], \"logprob\": -1, \"top_logprobs\": "
        "[]}, {\"token\": \"\\\\xa9\", \"bytes\": [169], \"logprob\": 0.0}, {\"token\": "
        "\" "
        "b\", \"bytes\": null, \"logprob\": -2}], \"refusal\": null}, \"finish_reason\": "
        "\"length\"}], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 3}}",
        &by_messages);

    (void)state;
    assert_string_equal(a.text, "\xC3\xA9 b");
    assert_int_equal(a.finish, SR1_OPENAI_FINISH_LENGTH);
    assert_int_equal(a.n_tokens, 3);
    assert_null(a.ids);
    assert_int_equal(a.token_sizes[0], 1);
    assert_memory_equal(a.tokens[0], "\xC3\xA9 b", 4);
    assert_true(a.tokens[2] == a.tokens[0] + 2 && a.token_sizes[2] == 2);
    assert_true(a.log_probs[2] == -2.0f);
    sr1__openai_completion_clear(&a);
}

static void thoughts_taken_out_are_put_back(void **state)
{
    struct sr1__openai_completion a = read_ok(
        "{\"choices\": [{\"message\": {\"content\": \"Rome\", \"reasoning_content\": "
        "\"hm\"}, \"finish_reason\": \"stop\"}]}",
        &by_messages);

    (void)state;
    assert_string_equal(a.text, "<think>hm</think>Rome");
    assert_int_equal(a.completion_tokens, -1);
    assert_int_equal(a.n_tokens, 0);
    sr1__openai_completion_clear(&a);
    a = read_ok("{\"choices\": [{\"message\": {\"content\": null, \"tool_calls\": []}, "
                "\"finish_reason\": \"tool_calls\"}]}",
                &by_messages);
    assert_string_equal(a.text, "");
    assert_int_equal(a.finish, SR1_OPENAI_FINISH_OTHER);
    sr1__openai_completion_clear(&a);
}

static void the_stop_text_is_known_kept_or_not(void **state)
{
    static const struct {
        const char *end;
        const char *stop; /* NULL: not known */
        int kept;
    } rows[] = {
        {"\"text\": \"a</answer>\", \"finish_reason\": \"stop\"", "</answer>", 1},
        {"\"text\": \"a\", \"finish_reason\": \"stop\"", NULL, 0},
        {"\"text\": \"a\", \"finish_reason\": \"stop\", \"stop_reason\": 151645", NULL,
         0},
        {"\"text\": \"a\", \"finish_reason\": \"stop\", \"stop_reason\": \"</answer>\"",
         "</answer>", 0},
        {"\"text\": \"a\", \"finish_reason\": \"stop\", \"matched_stop\": \"</search>\"",
         "</search>", 0},
        {"\"text\": \"a\", \"finish_reason\": \"stop\", \"stop_reason\": \"zzz\"", NULL,
         0},
        {"\"text\": \"a</answer>\", \"finish_reason\": \"length\"", NULL, 0},
        {"\"text\": \"a</answer>\"", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sr1__openai_completion a;
        char body[256];

        snprintf(body, sizeof body, "{\"choices\": [{%s}]}", rows[i].end);
        a = read_ok(body, &by_ids);
        if (rows[i].stop ? !a.stop_text || strcmp(a.stop_text, rows[i].stop) != 0
                         : a.stop_text != NULL)
            fail_msg("row %zu: %s", i, a.stop_text ? a.stop_text : "none");
        assert_int_equal(a.stop_kept, rows[i].kept);
        sr1__openai_completion_clear(&a);
    }
}

static void what_is_no_answer_says_why(void **state)
{
    static const char *const rows[][2] = {
        {"", "answer"},
        {"[1, 2", "answer: line 1"},
        {"{\"error\": \"busy\"}", "no 'choices'"},
        {"{\"choices\": []}", "no 'choices'"},
        {"{\"choices\": [{\"text\": 5}]}", "no text 'text'"},
        {"{\"choices\": [{\"text\": \"a\", \"token_ids\": [1, -2]}]}", "token_ids[1]"},
        {"{\"choices\": [{\"text\": \"a\", \"token_ids\": 4}]}", "no list"},
        {"{\"choices\": [{\"text\": \"a\", \"token_ids\": [1, 2], \"logprobs\": "
         "{\"tokens\": [\"a\"], \"token_logprobs\": [-1]}}]}",
         "2 token_ids for 1 log-probs"},
        {"{\"choices\": [{\"text\": \"a\", \"logprobs\": {\"tokens\": [\"a\"], "
         "\"token_logprobs\": [0.5]}}]}",
         "token 0"},
        {"{\"choices\": [{\"text\": \"a\", \"logprobs\": {\"tokens\": [\"a\"], "
         "\"token_logprobs\": [null]}}]}",
         "token 0"},
        {"{\"choices\": [{\"text\": \"a\", \"logprobs\": {\"content\": [{\"token\": "
         "\"a\", \"bytes\": [256], \"logprob\": -1}]}}]}",
         "token 0"},
    };
    struct sr1__openai_completion a;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            sr1__openai_completion_read(&a, rows[i][0], strlen(rows[i][0]), &by_ids),
            SR1_E_PARSE);
        if (!strstr(sr1_last_error(), rows[i][1]))
            fail_msg("row %zu: %s", i, sr1_last_error());
    }
}

/* ---- opening ---- */

static void the_model_is_named_or_the_only_one(void **state)
{
    struct told t = {.models = vllm_models};
    sr1_openai *c = NULL;
    sr1_openai_options o;
    struct server s;

    (void)state;
    server_start(&s, serve, &t);
    o = quick(&s);
    o.model = NULL;
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    assert_string_equal(sr1_openai_model(c), "Qwen/Qwen3-0.6B");
    sr1_openai_free(c);
    c = NULL;
    t.models = other_models;
    assert_int_equal(sr1_openai_new(&c, &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "has 2 models"));
    o.model = "b";
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    assert_int_equal(sr1_openai_dialect(c), SR1_OPENAI_DIALECT_PLAIN);
    assert_int_equal(sr1_openai_context(c), 0);
    sr1_openai_free(c);
    c = NULL;
    t.models = "{\"data\": 3}";
    assert_int_equal(sr1_openai_new(&c, &o), SR1_E_PARSE);
    t.models = NULL; /* there is no such list */
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    sr1_openai_free(c);
    server_stop(&s);
    c = NULL;
    o.retries = 0;
    assert_int_equal(sr1_openai_new(&c, &o), SR1_E_NETWORK);
    assert_non_null(strstr(sr1_last_error(), "is a model served there?"));
    o.base_url = "file:///etc/passwd";
    assert_int_equal(sr1_openai_new(&c, &o), SR1_E_INVALID);
    assert_null(c);
}

static void keys_of_a_configuration_open_it(void **state)
{
    struct told t = {.models = vllm_models};
    sr1_openai *c = NULL;
    sr1_config *config = NULL;
    struct server s;
    char port[16];

    (void)state;
    server_start(&s, serve, &t);
    snprintf(port, sizeof port, "%d", s.port);
    assert_int_equal(sr1_config_new(&config), SR1_OK);
    assert_int_equal(sr1_config_set(config, "vllm_server_host", "127.0.0.1"), SR1_OK);
    assert_int_equal(sr1_config_set(config, "vllm_server_port", port), SR1_OK);
    assert_int_equal(sr1_openai_open(&c, config), SR1_OK);
    assert_string_equal(sr1_openai_model(c), "Qwen/Qwen3-0.6B");
    sr1_openai_free(c);
    assert_int_equal(sr1_config_set(config, "openai_model", "mine"), SR1_OK);
    assert_int_equal(sr1_config_set(config, "openai_dialect", "openai"), SR1_OK);
    assert_int_equal(sr1_openai_open(&c, config), SR1_OK);
    assert_string_equal(sr1_openai_model(c), "mine");
    assert_int_equal(sr1_openai_dialect(c), SR1_OPENAI_DIALECT_PLAIN);
    sr1_openai_free(c);
    sr1_config_free(config);
    server_stop(&s);
}

static void the_key_is_sent_and_never_shown(void **state)
{
    struct told t = {.models = other_models,
                     .reply = {.code = 401,
                               .headers = "",
                               .body = "{\"error\": {\"message\": \"Incorrect API key: "
                                       "sk-secret-1.\"}}"}};
    sr1_openai_results *said;
    sr1_openai_options o;
    sr1_openai *c = NULL;
    struct server s;

    (void)state;
    server_start(&s, serve, &t);
    o = quick(&s);
    o.key_env = "SR1_TEST_OPENAI_KEY";
    setenv("SR1_TEST_OPENAI_KEY", "sk-secret-1", 1);
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    said = run_one(c, &by_ids);
    assert_non_null(strstr(s.last, "\r\nAuthorization: Bearer sk-secret-1\r\n"));
    assert_int_equal(first(said).status, SR1_E_NETWORK);
    assert_non_null(strstr(first(said).message, "HTTP 401: Incorrect API key: ***."));
    unsetenv("SR1_TEST_OPENAI_KEY");
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

/* ---- failures ---- */

/* Ask a server that answers like this, three requests, with two retries. */
static void fails_with(struct reply reply, sr1_status status, const char *text,
                       int attempts)
{
    struct told t = {.reply = reply};
    const sr1_openai_request q[3] = {by_ids, by_messages, by_ids};
    sr1_openai_results *said = NULL;
    sr1_openai_options o;
    sr1_openai *c = NULL;
    struct server s;
    int before;

    server_start(&s, serve, &t);
    o = quick(&s);
    o.timeout_s = reply.delay_s > 0 ? 0.3 : 30;
    o.max_body_bytes = 10000;
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    before = atomic_load(&s.requests);
    assert_int_equal(sr1_openai_run(c, q, 3, &said), SR1_OK);
    for (size_t i = 0; i < 3; i++) {
        sr1_openai_result r = {.struct_size = sizeof r};

        assert_int_equal(sr1_openai_results_get(said, i, &r), SR1_OK);
        if (r.status != status || !strstr(r.message, text))
            fail_msg("%d: %s", (int)r.status, r.message);
        assert_string_equal(r.text, "");
    }
    /* curl itself asks once more where a connection that was kept turns out closed */
    assert_in_range(atomic_load(&s.requests) - before, 3 * attempts,
                    3 * attempts + reply.drop * 3);
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

static void failures_are_retried_then_told(void **state)
{
    struct reply r = {.code = 200, .headers = "", .body = vllm_completion};
    struct reply bad = r;

    (void)state;
    bad.code = 503;
    fails_with(bad, SR1_E_NETWORK, "HTTP 503", 3);
    bad = r;
    bad.delay_s = 2;
    fails_with(bad, SR1_E_TIMEOUT, "no answer in time", 3);
    bad = r;
    bad.drop = 1;
    fails_with(bad, SR1_E_NETWORK, "127.0.0.1", 3);
    bad = r;
    bad.declared = strlen(vllm_completion) + 10; /* cut off */
    fails_with(bad, SR1_E_NETWORK, "127.0.0.1", 3);
    bad = r;
    bad.body = "{\"choices\": [{\"text\": \"a"; /* cut off, and no more was promised */
    fails_with(bad, SR1_E_PARSE, "answer", 3);
    bad = r;
    bad.huge = 20000;
    fails_with(bad, SR1_E_LIMIT, "longer than", 1);
    bad = r;
    bad.code = 400;
    bad.body = "{\"object\": \"error\", \"message\": \"max_tokens is too large\"}";
    fails_with(bad, SR1_E_NETWORK, "HTTP 400: max_tokens is too large", 1);
}

/* What a server gave up on its way is no answer, and no end of a text. */
static void what_a_server_gave_up_is_asked_for_again(void **state)
{
    static const char *const words[] = {"abort", "error"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct told t = {.reply = {.code = 200, .headers = ""}, .good_after = 1};
        struct server s;
        sr1_openai *c;
        sr1_openai_results *said;
        char body[128];

        snprintf(body, sizeof body,
                 "{\"choices\": [{\"text\": \"half\", \"finish_reason\": \"%s\"}]}",
                 words[i]);
        t.reply.body = body;
        c = open_at(&s, &t);
        said = run_one(c, &by_ids);
        assert_int_equal(first(said).status, SR1_OK);
        assert_int_equal(first(said).n_tokens, 2);
        assert_int_equal(t.completions, 2);
        sr1_openai_results_free(said);
        sr1_openai_free(c);
        server_stop(&s);
        fails_with(t.reply, SR1_E_NETWORK, "the server gave up", 3);
    }
}

static void an_unreadable_answer_is_asked_for_again(void **state)
{
    struct told t = {.reply = {.code = 200, .headers = "", .body = "<html>"},
                     .good_after = 1};
    struct server s;
    sr1_openai *c = open_at(&s, &t);
    sr1_openai_results *said = run_one(c, &by_ids);

    (void)state;
    assert_int_equal(first(said).status, SR1_OK);
    assert_int_equal(first(said).n_tokens, 2);
    assert_int_equal(t.completions, 2);
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

/* Three attempts with two waits of at least 0.1 s each between them. */
static void it_is_asked_for_again_after_a_wait(void **state)
{
    struct told t = {.reply = {.code = 200, .headers = "", .body = "<html>"},
                     .good_after = 2};
    struct server s;
    sr1_openai_options o;
    sr1_openai_results *said = NULL;
    sr1_openai *c = NULL;
    double begun;

    (void)state;
    server_start(&s, serve, &t);
    o = quick(&s);
    o.retry_first_s = o.retry_max_s = 0.2;
    assert_int_equal(sr1_openai_new(&c, &o), SR1_OK);
    begun = sr1__now();
    said = run_one(c, &by_ids);
    assert_true(sr1__now() - begun >= 0.2);
    assert_int_equal(first(said).status, SR1_OK);
    assert_int_equal(t.completions, 3);
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    server_stop(&s);
}

/* ---- memory ---- */

static sr1_status read_both(void *arg)
{
    struct sr1__openai_completion a = {0};
    sr1_status st = sr1__openai_completion_read(&a, vllm_completion,
                                                sizeof vllm_completion - 1, &by_ids);

    (void)arg;
    sr1__openai_completion_clear(&a);
    return st;
}

static sr1_status write_both(void *arg)
{
    struct sr1__openai_style style = {"m", SR1_OPENAI_DIALECT_VLLM, 0};
    struct sr1__buf b;
    sr1_status st;

    (void)arg;
    sr1__buf_init(&b, 0);
    st = sr1__openai_request_write(&b, &by_ids, &style);
    if (st == SR1_OK)
        st = sr1__openai_request_write(&b, &by_messages, &style);
    sr1__buf_free(&b);
    return st;
}

static sr1_status open_and_ask(void *arg)
{
    sr1_openai_options o = quick(arg);
    sr1_openai_results *said = NULL;
    sr1_openai *c = NULL;
    sr1_status st = sr1_openai_new(&c, &o);

    if (st == SR1_OK)
        st = sr1_openai_run(c, &by_ids, 1, &said);
    if (st == SR1_OK)
        st = first(said).status;
    sr1_openai_results_free(said);
    sr1_openai_free(c);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    struct told t = {.models = vllm_models,
                     .reply = {.code = 200, .headers = "", .body = vllm_completion}};
    struct server s;

    (void)state;
    assert_true(torture(read_both, NULL) > 10);
    assert_true(torture(write_both, NULL) > 10);
    server_start(&s, serve, &t);
    assert_true(torture(open_and_ask, &s) > 30);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_the_fields_of_their_dialect),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(vllm_gives_ids_and_log_probs),
        cmocka_unit_test(chats_give_tokens_as_texts),
        cmocka_unit_test(thoughts_taken_out_are_put_back),
        cmocka_unit_test(the_stop_text_is_known_kept_or_not),
        cmocka_unit_test(what_is_no_answer_says_why),
        cmocka_unit_test(the_model_is_named_or_the_only_one),
        cmocka_unit_test(keys_of_a_configuration_open_it),
        cmocka_unit_test(the_key_is_sent_and_never_shown),
        cmocka_unit_test(failures_are_retried_then_told),
        cmocka_unit_test(what_a_server_gave_up_is_asked_for_again),
        cmocka_unit_test(an_unreadable_answer_is_asked_for_again),
        cmocka_unit_test(it_is_asked_for_again_after_a_wait),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("openai", tests, NULL, NULL);
}
