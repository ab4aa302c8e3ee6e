/* environment/mcp/mcp_client.c - one server: greeting, list of tools, calls. */
#include "environment/mcp/mcp.h"

#include "base/error.h"
#include "base/mem.h"

#include <searchr1/base.h>

#include <string.h>

#define VERSION "2025-06-18" /* of the protocol; servers may answer with another */
#define MAX_PAGES 64

struct sr1__mcp_client {
    char *name;
    struct sr1__rpc_process *program; /* or */
    struct sr1__mcp_http *http;
};

json_t *sr1__mcp_greeting(void)
{
    return json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", VERSION,
                     "capabilities", "clientInfo", "name", "libsearchr1", "version",
                     sr1_version());
}

sr1_status sr1__mcp_check_greeting(const char *name, const struct sr1__rpc_reply *reply)
{
    if (!reply->result)
        return sr1__fail(SR1_E_NETWORK, "%s refuses to be greeted: %.300s", name,
                         reply->message);
    if (!json_is_string(json_object_get(reply->result, "protocolVersion")))
        return sr1__fail(SR1_E_PARSE,
                         "%s: its answer to initialize has no protocolVersion", name);
    return SR1_OK;
}

/* Greet a program that has just been started. */
static sr1_status greet_program(void *self, struct sr1__rpc_process *r, double until)
{
    const struct sr1__mcp_client *c = self;
    struct sr1__rpc_reply reply = {0};
    json_t *params = sr1__mcp_greeting();
    sr1_status st;

    SR1__CHECK_ALLOC(params, "a greeting");
    st = sr1__rpc_exchange(r, "initialize", params, until, &reply);
    json_decref(params);
    if (st == SR1_OK)
        st = sr1__mcp_check_greeting(c->name, &reply);
    sr1__rpc_reply_free(&reply);
    return st == SR1_OK
               ? sr1__rpc_exchange(r, "notifications/initialized", NULL, until, NULL)
               : st;
}

static sr1_status open_transport(struct sr1__mcp_client *c,
                                 const struct sr1__mcp_server *s, double start_s)
{
    struct sr1__rpc_options o = {.start_s = start_s, .begin = greet_program, .self = c};

    if (s->url)
        return sr1__mcp_http_new(&c->http, s, start_s);
    o.program = (struct sr1__line_process_options){.name = c->name,
                                                   .argv = (const char *const *)s->argv,
                                                   .extra = (const char *const *)s->extra,
                                                   .folder = s->folder,
                                                   .max_line = SR1__MCP_MAX_MESSAGE};
    return sr1__rpc_new(&c->program, &o);
}

sr1_status sr1__mcp_client_new(struct sr1__mcp_client **out,
                               const struct sr1__mcp_server *server, double start_s)
{
    struct sr1__mcp_client *c;
    struct sr1__buf name;
    sr1_status st;

    SR1__CALLOC(c, 1, "MCP server");
    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "MCP server '%.64s'", server->name);
    st = sr1__buf_status(&name, "MCP server");
    c->name = st == SR1_OK ? sr1__buf_take(&name) : NULL;
    sr1__buf_free(&name);
    if (st == SR1_OK && !c->name)
        st = sr1__fail_nomem("MCP server");
    if (st == SR1_OK)
        st = open_transport(c, server, start_s);
    SR1__RETURN_NEW(out, c, st, sr1__mcp_client_free);
}

void sr1__mcp_client_free(struct sr1__mcp_client *c)
{
    if (!c)
        return;
    sr1__rpc_free(c->program);
    sr1__mcp_http_free(c->http);
    sr1__free(c->name);
    sr1__free(c);
}

static sr1_status ask_server(struct sr1__mcp_client *c, const char *method,
                             json_t *params, double until, struct sr1__rpc_reply *reply)
{
    return c->http ? sr1__mcp_http_call(c->http, method, params, until, reply)
                   : sr1__rpc_call(c->program, method, params, until, reply);
}

/* One page of the list; *cursor is the next one's, or NULL. */
static sr1_status list_page(struct sr1__mcp_client *c, double until, json_t **cursor,
                            json_t *all)
{
    json_t *params = *cursor ? json_pack("{s:O}", "cursor", *cursor) : json_object();
    struct sr1__rpc_reply reply = {0};
    json_t *tools;
    sr1_status st;

    SR1__CHECK_ALLOC(params, "a list of tools");
    st = ask_server(c, "tools/list", params, until, &reply);
    json_decref(params);
    json_decref(*cursor);
    *cursor = NULL;
    tools = json_object_get(reply.result, "tools");
    if (st == SR1_OK && !reply.result)
        st = sr1__fail(SR1_E_NETWORK, "%s does not list its tools: %.300s", c->name,
                       reply.message);
    else if (st == SR1_OK && !json_is_array(tools))
        st = sr1__fail(SR1_E_PARSE, "%s: its list has no tools", c->name);
    if (st == SR1_OK && json_array_extend(all, tools) != 0)
        st = sr1__fail_nomem("a list of tools");
    if (st == SR1_OK && json_is_string(json_object_get(reply.result, "nextCursor")))
        *cursor = json_incref(json_object_get(reply.result, "nextCursor"));
    sr1__rpc_reply_free(&reply);
    return st;
}

sr1_status sr1__mcp_client_list(struct sr1__mcp_client *c, double until, json_t **out)
{
    json_t *all = json_array(), *cursor = NULL;
    size_t pages = 0;
    sr1_status st;

    SR1__CHECK_ALLOC(all, "a list of tools");
    do {
        st = list_page(c, until, &cursor, all);
        if (st == SR1_OK &&
            (++pages > MAX_PAGES || json_array_size(all) > SR1__MCP_MAX_TOOLS))
            st = sr1__fail(SR1_E_LIMIT, "%s lists more than %d tools", c->name,
                           SR1__MCP_MAX_TOOLS);
    } while (st == SR1_OK && cursor);
    json_decref(cursor);
    SR1__RETURN_NEW(out, all, st, json_decref);
}

sr1_status sr1__mcp_client_call(struct sr1__mcp_client *c, const char *tool,
                                const char *args, size_t len, double until,
                                struct sr1__rpc_reply *reply)
{
    json_t *given = NULL, *params;
    sr1_status st;

    SR1__TRY(sr1__json_parse(&given, args, len, "arguments"));
    params = json_pack("{s:s, s:o}", "name", tool, "arguments", given);
    SR1__CHECK_ALLOC(params, "a call");
    st = ask_server(c, "tools/call", params, until, reply);
    json_decref(params);
    return st;
}
