/* Calls of tools in the forms that models write, and protocols described in files. */
#include "base/json.h"
#include "environment/env/call_form.h"
#include "environment/env/env.h"
#include "environment/env/protocol_file.h"

#include "../../support/files.h"
#include "../../support/torture.h"

#include <searchr1/env.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/protocol.h>

#include <stdio.h>
#include <string.h>

/* ---- forms ---- */

static const char schema[] =
    "{\"type\": \"object\", \"required\": [\"city\"], \"properties\": {"
    "\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}, "
    "\"units\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}}";

static sr1_status echo(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    return sr1_tool_sink_text(sink, args, len);
}

static sr1_env *open_tools(const char *protocol)
{
    sr1_env_options o = {.struct_size = sizeof o, .protocol = protocol};
    sr1_tool_ops ops = {
        .struct_size = sizeof ops, .name = "weather", .schema = schema, .call = echo};
    sr1_env *env = NULL;

    assert_int_equal(sr1_env_open(&env, "tools", NULL, &o), SR1_OK);
    assert_int_equal(sr1_env_add_tool(env, &ops, NULL), SR1_OK);
    return env;
}

#define BLOCK(text) "<tool_response>\n" text "\n</tool_response>"

static const struct {
    const char *protocol, *call, *block;
} form_cases[] = {
    {"qwen3-coder",
     "<function=weather>\n<parameter=city>\nNew\nYork\n</"
     "parameter>\n<parameter=days>\n3\n"
     "</parameter>\n<parameter=units>\n[\"C\"]\n</parameter>\n</function>",
     BLOCK("{\"city\":\"New\\nYork\",\"days\":3,\"units\":[\"C\"]}")},
    {"qwen3-coder", "<function=weather> <parameter=city>12</parameter></function>",
     BLOCK("{\"city\":\"12\"}")},
    {"qwen3-coder", "<function=weather>\n</function>",
     BLOCK("Error: weather: argument 'city' is missing")},
    {"qwen3-coder",
     "<function=weather><parameter=city>a</parameter><parameter=days>three</parameter>"
     "</function>",
     BLOCK("Error: weather: argument 'days' must be an integer, not a string")},
    {"qwen3-coder", "<function=storm></function>",
     BLOCK("Error: unknown tool 'storm'; known: weather")},
    {"qwen3-coder", "{\"name\": \"weather\"}",
     BLOCK("Error: the tool call cannot be read; write <function=NAME>, for each of its "
           "args <parameter=KEY> VALUE </parameter>, and </function>")},
    {"qwen3-coder", "<function=weather><parameter=city>a</parameter>",
     BLOCK("Error: the tool call cannot be read; write <function=NAME>, for each of its "
           "args <parameter=KEY> VALUE </parameter>, and </function>")},
    {"llama3", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}",
     BLOCK("{\"city\":\"Rome\"}")},
    {"llama3", "{\"name\": \"weather\", \"parameters\": {\"days\": 1}}",
     BLOCK("Error: weather: argument 'city' is missing")},
    {"llama3", "{oops",
     BLOCK("Error: the tool call is not valid JSON; write {\"name\": ..., "
           "\"parameters\": {...}}")},
};

static void calls_are_read_in_each_form(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof form_cases / sizeof form_cases[0]; i++) {
        sr1_env *env = open_tools(form_cases[i].protocol);
        const char *call = form_cases[i].call;
        char *text = NULL;
        size_t len;

        assert_int_equal(sr1_env_answer(env, call, strlen(call), &text, &len), SR1_OK);
        assert_string_equal(text, form_cases[i].block);
        sr1_free(text);
        sr1_env_free(env);
    }
}

static const struct {
    const char *text, *call; /* NULL: it is none */
} any_cases[] = {
    {"{\"name\": \"f\", \"arguments\": {\"n\": 1.5}}",
     "{\"name\":\"f\",\"arguments\":{\"n\":1.5}}"},
    {" {\"args\": {\"q\": \"x\"}, \"name\": \"f\"}\n",
     "{\"name\":\"f\",\"arguments\":{\"q\":\"x\"}}"},
    {"{\"name\": \"f\", \"parameters\": {}}", "{\"name\":\"f\",\"arguments\":{}}"},
    {"{\"name\": \"f\"}", "{\"name\":\"f\",\"arguments\":{}}"},
    /* Without a schema a value is read as JSON where it is some, as TRL reads it. */
    {"<function=f>\n<parameter=n>\n3\n</parameter>\n</function>",
     "{\"name\":\"f\",\"arguments\":{\"n\":3}}"},
    {"<function=f>\n<parameter=n>\ntwo words\n</parameter>\n</function>",
     "{\"name\":\"f\",\"arguments\":{\"n\":\"two words\"}}"},
    {"{\"name\": \"f\", \"id\": 7, \"given\": {\"n\": 1}}",
     "{\"name\":\"f\",\"arguments\":{\"n\":1}}"},
    {"{\"name\": \"f\", \"meta\": {\"x\": 1}, \"arguments\": {\"n\": 1}}",
     "{\"name\":\"f\",\"arguments\":{\"n\":1}}"},
    {"{\"name\": \"f\", \"id\": 7}", "{\"name\":\"f\",\"arguments\":{}}"},
    {"<function=f><parameter=n>", NULL},
    {"{\"name\": \"f\", \"arguments\": \"x\"}", NULL},
    {"{\"name\": 3}", NULL},
    {"[]", NULL},
    {"where is it?", NULL},
    {"", NULL},
};

static void calls_are_read_in_any_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof any_cases / sizeof any_cases[0]; i++) {
        const char *text = any_cases[i].text;
        char *json = NULL;
        sr1_status status = sr1_tool_call_parse(text, strlen(text), &json);

        assert_int_equal(status, any_cases[i].call ? SR1_OK : SR1_E_PARSE);
        if (any_cases[i].call)
            assert_string_equal(json, any_cases[i].call);
        else
            assert_null(json);
        sr1_free(json);
    }
}

static const struct {
    const char *text;
    const char *values[4];
} split_cases[] = {
    {"{\"a\": 1}", {"{\"a\": 1}"}},
    {"{\"a\": \"}\\\"{\"} ; {\"b\": [{}]}\n{}",
     {"{\"a\": \"}\\\"{\"}", "{\"b\": [{}]}", "{}"}},
    {"[{\"a\": 1}, {\"b\": 2}]", {"{\"a\": 1}", "{\"b\": 2}"}},
    {"{\"a\": 1} and so on", {"{\"a\": 1}"}},
    {"{oops", {"{oops"}},
    {"[1, 2]", {"[1, 2]"}},
    {"[]", {"[]"}},
    {"", {""}},
};

static void json_values_are_split(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof split_cases / sizeof split_cases[0]; i++) {
        const char *text = split_cases[i].text;

        for (k = 0; k < 4; k++) {
            const char *want = split_cases[i].values[k] ? split_cases[i].values[k] : "";
            size_t n = 0, at = sr1__json_values_split(text, strlen(text), k, &n);

            assert_int_equal(n, strlen(want));
            assert_memory_equal(text + at, want, n);
        }
    }
}

/* ---- messages that are calls ---- */

static const struct {
    const char *message;
    int32_t event;
    const char *calls[3]; /* or the answer */
} llama_cases[] = {
    {" {\"name\": \"f\"} ", SR1__EVENT_ACTION, {"{\"name\": \"f\"}"}},
    {"<think>hm {</think>\n{\"name\": \"f\"}; {\"name\": \"g\"}",
     SR1__EVENT_ACTION,
     {"{\"name\": \"f\"}", "{\"name\": \"g\"}"}},
    {"<|python_tag|>{\"name\": \"f\"}", SR1__EVENT_ACTION, {"{\"name\": \"f\"}"}},
    {"[{\"name\": \"f\"}, {\"name\": \"g\"}]",
     SR1__EVENT_ACTION,
     {"{\"name\": \"f\"}", "{\"name\": \"g\"}"}},
    {"{\"name\": \"<answer>x</answer>\"}",
     SR1__EVENT_ACTION,
     {"{\"name\": \"<answer>x</answer>\"}"}},
    {"{not json", SR1__EVENT_ACTION, {"{not json"}},
    {"It is {\"name\": \"f\"}", SR1__EVENT_NONE, {NULL}},
    {"so <answer> 4 </answer>", SR1__EVENT_ANSWER, {"4"}},
    {"", SR1__EVENT_NONE, {NULL}},
};

static void a_message_of_json_is_a_call(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof llama_cases / sizeof llama_cases[0]; i++) {
        const struct sr1__protocol *p = sr1__protocol_find("llama3");
        const char *text = llama_cases[i].message;
        struct sr1__text_range whole = {0, 0};
        struct sr1__scanner s;
        int32_t event = SR1__EVENT_NONE, k;
        size_t used, n;

        sr1__scanner_init(&s, p, 0);
        s.max_calls = 3;
        for (size_t at = 0; at < strlen(text) && event == SR1__EVENT_NONE; at++)
            assert_int_equal(sr1__scanner_feed(&s, text + at, 1, &used, &event), SR1_OK);
        if (event == SR1__EVENT_NONE)
            event = sr1__scanner_end(&s);
        assert_int_equal(event, llama_cases[i].event);
        assert_int_equal(
            sr1__protocol_first_event(p, text, strlen(text), 0, &whole, NULL), event);
        for (k = 0; k < 3 && llama_cases[i].calls[k]; k++) {
            const char *found = sr1__scanner_call(&s, k, &n);

            assert_int_equal(n, strlen(llama_cases[i].calls[k]));
            assert_memory_equal(found, llama_cases[i].calls[k], n);
        }
        if (event == SR1__EVENT_ACTION)
            assert_int_equal(s.n_calls, k);
        if (event != SR1__EVENT_NONE)
            assert_memory_equal(text + whole.begin, llama_cases[i].calls[0], whole.len);
        sr1__scanner_free(&s);
    }
}

/* ---- files ---- */

static const char mistral[] = "action: ['[TOOL_CALLS]']\n"
                              "result: ['[TOOL_RESULTS]', '[/TOOL_RESULTS]']\n"
                              "inside: ''\n"
                              "system: 'Tools: {{tools}}'\n"
                              "notice: 'Error: no call.'\n";

static void a_file_describes_a_protocol(void **state)
{
    const char *path = scratch_file("mistral.yaml", mistral, 0);
    const struct sr1__protocol *p = sr1__protocol_find(path);
    const char *text = "Well. [TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": "
                       "{\"city\": \"Rome\"}}]";
    int32_t event;
    size_t begin, n;
    sr1_env *env;
    char *block = NULL;

    (void)state;
    assert_non_null(p);
    assert_ptr_equal(sr1__protocol_find(path), p); /* read once */
    assert_string_equal(p->system, "Tools: {{tools}}");
    assert_int_equal(sr1_protocol_parse(path, text, strlen(text), &event, &begin, &n),
                     SR1_OK);
    assert_int_equal(event, SR1_EVENT_ACTION);
    env = open_tools(path);
    assert_int_equal(sr1_env_answer(env, text + begin, n, &block, &n), SR1_OK);
    assert_string_equal(block, "[TOOL_RESULTS]{\"city\":\"Rome\"}[/TOOL_RESULTS]");
    sr1_free(block);
    sr1_env_free(env);
    scratch_file("mistral.yaml", "action: [<a>, </a>]\n", 0);
    assert_ptr_not_equal(sr1__protocol_find(path), p); /* it is another now */
    assert_string_equal(p->name, path);                /* and the old one still there */
}

static const struct {
    const char *text;
    const char *said;
} refused_files[] = {
    {"[]", "it must be a mapping of keys"},
    {"think: [<a>, </a>]", "the key action is missing"},
    {"action: [<a>, </a>]\nacton: 1", "key 'acton' is not known; known: think"},
    {"action: <a>", "action must be a list of two tags"},
    {"action: [<a>, </a>]\nanswer: [<b>]",
     "answer must be a list of two tags, [open, close]"},
    {"action: [1, 2]", "action: a tag has 1 to 64 bytes"},
    {"action: ['', </a>]", "action: a tag has 1 to 64 bytes"},
    {"action: ['<a b>', </a>]", "printable ASCII"},
    {"action: [<a>, <a>]", "the tag <a> begins with <a>"},
    {"action: [<a, <ab]", "the tag <ab begins with <a"},
    {"action: [a<, </a>]", "has a '<' in it, with which a tag begins"},
    {"action: [<a>, </a>]\nmessages: 1", "messages must be true or false"},
    {"action: [<a>]\nmessages: false", "need messages: true"},
    {"action: [<a>, </a>]\ncalls: yaml", "form of calls 'yaml'"},
    {"action: [<a>, </a>]\ntools: all", "tools must be json or list"},
    {"action: [<a>, </a>]\nnotice: 1", "notice must be text"},
    {"action: [<a>, </a>]\nsystem: 'Tools: {{tool}}'",
     "system:1: {{tool}} is not known here; known: {{tools}}"},
    {"action: [<a>, </a>", "line"},
};

static void mistakes_in_files_are_named(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof refused_files / sizeof refused_files[0]; i++) {
        const char *text = refused_files[i].text;
        struct sr1__protocol_file *f = NULL;

        assert_int_not_equal(sr1__protocol_file_parse(&f, text, strlen(text), "my.yaml"),
                             SR1_OK);
        assert_null(f);
        if (!strstr(sr1_last_error(), refused_files[i].said))
            fail_msg("'%s' is not in: %s", refused_files[i].said, sr1_last_error());
    }
    assert_null(sr1__protocol_find("there/is/none.yaml"));
    assert_non_null(strstr(sr1_last_error(), "there/is/none.yaml"));
}

static sr1_status parse_mistral(void *arg)
{
    struct sr1__protocol_file *f = NULL;
    sr1_status st = sr1__protocol_file_parse(&f, mistral, strlen(mistral), "my.yaml");

    (void)arg;
    sr1__protocol_file_free(f);
    return st;
}

/* What the policy wrote is right: the failure must not be told to it as its own. */
static sr1_status parse_tags(void *arg)
{
    static const char text[] =
        "<function=weather><parameter=city>Rome</parameter></function>";
    const struct sr1__call_form *form = arg;
    json_t *call = NULL;
    sr1_status st = form->parse(text, strlen(text), "args", &call);

    if (st != SR1_OK)
        assert_int_equal(st, SR1_E_NOMEM);
    json_decref(call);
    return st;
}

static sr1_status parse_any_form(void *arg)
{
    const char *text = arg;
    char *json = NULL;
    sr1_status st = sr1_tool_call_parse(text, strlen(text), &json);

    if (st != SR1_OK)
        assert_int_equal(st, SR1_E_NOMEM);
    sr1_free(json);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    torture(parse_any_form, (void *)(uintptr_t)any_cases[1].text);
    torture(parse_any_form, (void *)(uintptr_t)any_cases[4].text);
    torture(parse_mistral, NULL);
    torture(parse_tags, (void *)(uintptr_t)sr1__call_form_find("xml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_read_in_each_form),
        cmocka_unit_test(calls_are_read_in_any_form),
        cmocka_unit_test(json_values_are_split),
        cmocka_unit_test(a_message_of_json_is_a_call),
        cmocka_unit_test(a_file_describes_a_protocol),
        cmocka_unit_test(mistakes_in_files_are_named),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
