/* environment/mcp/mcp_tools.c - the tools of MCP servers as tools of an environment. */
#include <searchr1/ext/mcp.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/env/env.h"
#include "environment/env/schema.h"
#include "environment/mcp/mcp.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 20)
#define MAX_SCHEMA (1 << 18) /* bytes; a prompt has less room */
#define DEFAULT_TIMEOUT_S 60.0
#define MARGIN_S 5.0 /* by which a call is given up after its own limit */
#define INVALID_PARAMS (-32602)

/* A server that its tools share. */
struct shared_server {
    atomic_int references;
    struct sr1__mcp_client *client;
};

struct mcp_tool {
    struct shared_server *server;
    char *name;
    double timeout_s;
};

static void release_server(struct shared_server *s)
{
    if (atomic_fetch_sub(&s->references, 1) > 1)
        return;
    sr1__mcp_client_free(s->client);
    sr1__free(s);
}

/* ---- calls ---- */

static sr1_status give_status(sr1_tool_sink *sink, const char *text, int32_t status)
{
    SR1__TRY(sr1_tool_sink_text(sink, text, strlen(text)));
    return sr1_tool_sink_status(sink, status);
}

/* The server says that the call was wrong, or it has broken down. */
static sr1_status give_error(sr1_tool_sink *sink, const struct mcp_tool *t,
                             const struct sr1__rpc_reply *reply)
{
    if (reply->code == INVALID_PARAMS)
        return give_status(sink, reply->message, SR1_TOOL_FAILED);
    return sr1__fail(SR1_E_NETWORK, "MCP tool '%.64s': error %d: %.300s", t->name,
                     (int)reply->code, reply->message);
}

static sr1_status give_result(sr1_tool_sink *sink, const struct sr1__rpc_reply *reply)
{
    struct sr1__buf text;
    int failed = 0;
    sr1_status st;

    sr1__buf_init(&text, 0);
    st = sr1__mcp_result_text(reply->result, &text, &failed);
    if (st == SR1_OK)
        st = sr1_tool_sink_text(sink, sr1__buf_cstr(&text), text.len);
    if (st == SR1_OK && failed)
        st = sr1_tool_sink_status(sink, SR1_TOOL_FAILED);
    sr1__buf_free(&text);
    return st;
}

static sr1_status call_mcp_tool(void *self, const char *args, size_t len,
                                sr1_tool_sink *sink)
{
    const struct mcp_tool *t = self;
    struct sr1__rpc_reply reply = {0};
    sr1_status st = sr1__mcp_client_call(t->server->client, t->name, args, len,
                                         sr1__now() + t->timeout_s, &reply);

    if (st == SR1_E_TIMEOUT)
        return sr1_tool_sink_status(sink, SR1_TOOL_TIMEOUT);
    if (st == SR1_OK)
        st = reply.result ? give_result(sink, &reply) : give_error(sink, t, &reply);
    sr1__rpc_reply_free(&reply);
    return st;
}

static void destroy_mcp_tool(void *self)
{
    struct mcp_tool *t = self;

    release_server(t->server);
    sr1__free(t->name);
    sr1__free(t);
}

/* ---- adding ---- */

/* What a tool without a schema has, added to the schema that it has. */
static json_t *complete_schema(const json_t *given)
{
    json_t *schema = json_is_object(given) ? json_deep_copy(given) : json_object();

    if (schema && !json_object_get(schema, "type"))
        (void)json_object_set_new(schema, "type", json_string("object"));
    if (schema && !json_object_get(schema, "properties") &&
        !json_object_get(schema, "additionalProperties"))
        (void)json_object_set_new(schema, "properties", json_object());
    return schema;
}

/* The text of the schema that arguments are checked by: one that is not known here is
 * shown to the policy as it is, and left to the server to check. */
static sr1_status write_schema(const char *name, const json_t *shown,
                               struct sr1__buf *out)
{
    json_t *parsed = NULL;

    SR1__TRY(sr1__json_dump(shown, 0, out));
    if (out->len > MAX_SCHEMA)
        return sr1__fail(SR1_E_LIMIT,
                         "tool '%.64s': its schema has more than %d bytes; leave it out "
                         "(excludeTools)",
                         name, MAX_SCHEMA);
    if (sr1__schema_parse(&parsed, sr1__buf_cstr(out)) != SR1_OK) {
        sr1__log(
            SR1_LOG_WARN,
            "MCP tool '%.64s': its arguments are left to the server to check: %.300s",
            name, sr1_last_error());
        sr1__buf_clear(out);
        sr1__buf_str(out, "{\"type\":\"object\",\"additionalProperties\":true}");
    }
    json_decref(parsed);
    return sr1__buf_status(out, "schema");
}

static sr1_status new_mcp_tool(struct mcp_tool **out, struct shared_server *server,
                               const char *name, double timeout_s)
{
    struct mcp_tool *t;

    SR1__CALLOC(t, 1, "MCP tool");
    t->name = sr1__strdup(name);
    if (!t->name) {
        sr1__free(t);
        return sr1__fail_nomem("MCP tool");
    }
    atomic_fetch_add(&server->references, 1);
    t->server = server;
    t->timeout_s = timeout_s;
    *out = t;
    return SR1_OK;
}

static sr1_status add_mcp_tool(sr1_env *env, struct shared_server *server,
                               const json_t *tool, double timeout_s)
{
    const char *name = json_string_value(json_object_get(tool, "name"));
    sr1_tool_ops ops = {.struct_size = sizeof ops,
                        .name = name,
                        .description =
                            json_string_value(json_object_get(tool, "description")),
                        .call = call_mcp_tool,
                        .destroy = destroy_mcp_tool,
                        .flags = SR1_TOOL_WAITS | SR1_TOOL_CONCURRENT,
                        .deadline_s = timeout_s + MARGIN_S};
    struct mcp_tool *t = NULL;
    struct sr1__buf schema;
    json_t *shown;
    sr1_status st;

    if (!name)
        return sr1__fail(SR1_E_PARSE, "a tool without a name");
    shown = complete_schema(json_object_get(tool, "inputSchema"));
    SR1__CHECK_ALLOC(shown, "schema");
    sr1__buf_init(&schema, 0);
    st = write_schema(name, shown, &schema);
    ops.schema = sr1__buf_cstr(&schema);
    if (st == SR1_OK)
        st = new_mcp_tool(&t, server, name, timeout_s);
    if (st == SR1_OK && (st = sr1__env_add_tool(env, &ops, shown, t)) != SR1_OK)
        destroy_mcp_tool(t);
    sr1__buf_free(&schema);
    json_decref(shown);
    return st;
}

/* The name of tool i, or NULL. */
static const char *name_listed_tool(const json_t *tools, size_t i)
{
    return json_string_value(json_object_get(json_array_get(tools, i), "name"));
}

static int is_tool_listed(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *listed = name_listed_tool(tools, i);

        if (listed && strcmp(listed, name) == 0)
            return 1;
    }
    return 0;
}

static sr1_status fail_unlisted_tool(const char *key, const char *name,
                                     const json_t *tools)
{
    char there[512] = "none";

    for (size_t at = 0, i = 0; i < json_array_size(tools) && at < sizeof there; i++) {
        const char *listed = name_listed_tool(tools, i);

        at += (size_t)snprintf(there + at, sizeof there - at, "%s%.64s",
                               i > 0 ? ", " : "", listed ? listed : "?");
    }
    return sr1__fail(SR1_E_INVALID, "%s: it has no tool '%.64s'; it has %s", key, name,
                     there);
}

/* A name that chooses nothing is a slip of the pen. */
static sr1_status check_filter(char *const *names, const char *key, const json_t *tools)
{
    for (size_t k = 0; names && names[k]; k++)
        if (!is_tool_listed(tools, names[k]))
            return fail_unlisted_tool(key, names[k], tools);
    return SR1_OK;
}

static sr1_status add_chosen_tools(sr1_env *env, struct shared_server *shared,
                                   const struct sr1__mcp_server *server,
                                   const json_t *tools, double timeout_s)
{
    SR1__TRY(check_filter(server->include, "includeTools", tools));
    SR1__TRY(check_filter(server->exclude, "excludeTools", tools));
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *name = name_listed_tool(tools, i);

        if (!name || sr1__mcp_server_takes(server, name))
            SR1__TRY(add_mcp_tool(env, shared, json_array_get(tools, i), timeout_s));
    }
    return SR1_OK;
}

static sr1_status add_listed_tools(sr1_env *env, struct shared_server *shared,
                                   const struct sr1__mcp_server *server,
                                   const sr1_mcp_options *o)
{
    json_t *tools = NULL;
    sr1_status st;

    SR1__TRY(
        sr1__mcp_client_list(shared->client, sr1__now() + o->start_timeout_s, &tools));
    st = sr1__context(add_chosen_tools(env, shared, server, tools, o->timeout_s),
                      "MCP server '%.64s'", server->name);
    json_decref(tools);
    return st;
}

static sr1_status add_server(sr1_env *env, const struct sr1__mcp_server *server,
                             const sr1_mcp_options *o)
{
    struct shared_server *shared;
    sr1_status st;

    SR1__CALLOC(shared, 1, "MCP server");
    atomic_init(&shared->references, 1);
    st = sr1__mcp_client_new(&shared->client, server, o->start_timeout_s);
    if (st == SR1_OK)
        st = add_listed_tools(env, shared, server, o);
    release_server(shared);
    return st;
}

void sr1_mcp_options_init(sr1_mcp_options *options)
{
    static const sr1_mcp_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_options(sr1_mcp_options *o, const sr1_mcp_options *given)
{
    SR1__TRY(sr1__struct_take(o, sizeof *o, given,
                              SR1__STRUCT_END(sr1_mcp_options, struct_size),
                              "MCP options"));
    if (!(o->timeout_s >= 0 && o->timeout_s <= 3600) ||
        !(o->start_timeout_s >= 0 && o->start_timeout_s <= 3600))
        return sr1__fail(SR1_E_INVALID, "MCP options: a time-out is not 0 to 3600");
    o->timeout_s = o->timeout_s > 0 ? o->timeout_s : DEFAULT_TIMEOUT_S;
    o->start_timeout_s = o->start_timeout_s > 0 ? o->start_timeout_s : DEFAULT_TIMEOUT_S;
    return SR1_OK;
}

sr1_status sr1_env_add_mcp(sr1_env *env, const char *path, const sr1_mcp_options *options)
{
    struct sr1__mcp_servers servers = {0};
    sr1_mcp_options o = {0};
    struct sr1__buf text;
    sr1_status st;

    SR1__REQUIRE(env && path, "MCP: environment and path");
    SR1__TRY(read_options(&o, options));
    SR1__TRY(sr1__file_read(path, MAX_FILE, &text));
    st = sr1__mcp_servers_parse(&servers, sr1__buf_cstr(&text), text.len, path);
    sr1__buf_free(&text);
    for (size_t i = 0; st == SR1_OK && i < servers.n; i++)
        st = add_server(env, &servers.v[i], &o);
    sr1__mcp_servers_free(&servers);
    return st;
}
