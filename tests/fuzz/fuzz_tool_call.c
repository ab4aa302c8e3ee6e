/* fuzz_tool_call.c - schemas and calls of tools: a schema is taken or refused, and every
 * call gets an answer; arguments that reach a tool fit its schema.
 *
 * The text up to the first NUL byte is a schema, the rest an action. */
#include "base/json.h"
#include "environment/env/schema.h"

#include <searchr1/env.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/protocol.h>

#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
    if (!ok)
        abort();
}

/* self: the schema as JSON. */
static sr1_status call(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    struct sr1__buf why;
    json_t *value = NULL;

    sr1__buf_init(&why, 0);
    check(sr1__json_parse(&value, args, len, "args") == SR1_OK);
    check(sr1__schema_fits(self, value, &why));
    sr1__buf_free(&why);
    json_decref(value);
    return sr1_tool_sink_text(sink, args, len);
}

static void act(sr1_env *env, const char *text, size_t len)
{
    char *answer = NULL;
    size_t n = 0;

    check(sr1_env_answer(env, text, len, &answer, &n) == SR1_OK);
    check(n > 0 && answer[n] == '\0');
    sr1_free(answer);
}

/* A call that is read is an object with a name and arguments, in JSON of the library's.
 */
static void read_call(const char *text, size_t len)
{
    char *json = NULL;
    json_t *call = NULL;

    if (sr1_tool_call_parse(text, len, &json) != SR1_OK)
        return;
    check(sr1__json_parse(&call, json, strlen(json), "call") == SR1_OK);
    check(json_is_string(json_object_get(call, "name")));
    check(json_is_object(json_object_get(call, "arguments")));
    json_decref(call);
    sr1_free(json);
}

/* The action as it is, and with everything in it as the arguments of the tool. */
static void act_both(sr1_env *env, const char *text, size_t len)
{
    struct sr1__buf b;

    act(env, text, len);
    read_call(text, len);
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "{\"name\":\"t\",\"args\":");
    sr1__buf_add(&b, text, len);
    sr1__buf_str(&b, "}");
    act(env, b.data, b.len);
    sr1__buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "mt-grpo"};
    sr1_tool_ops ops = {.struct_size = sizeof ops, .name = "t", .call = call};
    const uint8_t *nul = memchr(data, 0, size);
    size_t n = nul ? (size_t)(nul - data) : size;
    char *schema = calloc(1, n + 1);
    sr1_env *env = NULL;
    json_t *parsed = NULL;

    check(schema != NULL);
    memcpy(schema, data, n);
    ops.schema = schema;
    check(sr1_env_open(&env, "tools", NULL, &o) == SR1_OK);
    if (sr1__schema_parse(&parsed, schema) == SR1_OK) {
        check(sr1_env_add_tool(env, &ops, parsed) == SR1_OK);
        check(strncmp(sr1_env_tools(env), "t\n", 2) == 0);
    } else {
        check(sr1_env_add_tool(env, &ops, NULL) != SR1_OK);
    }
    if (nul)
        act_both(env, (const char *)nul + 1, size - n - 1);
    sr1_env_free(env);
    json_decref(parsed);
    free(schema);
    return 0;
}
