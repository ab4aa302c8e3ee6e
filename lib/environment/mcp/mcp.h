/* environment/mcp/mcp.h - a client of MCP servers (Model Context Protocol, 2025-06-18):
 * what a file names, one server over either transport, and what its answers say.
 *
 *     mcp_file.c    mcp.json -> struct sr1__mcp_server
 *     mcp_client.c  greeting, lists of tools, calls; a program's standard streams
 *     mcp_http.c    the transport "streamable HTTP"
 *     mcp_result.c  the result of a call as text
 *     mcp_tools.c   a server's tools as tools of an environment
 */
#ifndef SR1__MCP_MCP_H
#define SR1__MCP_MCP_H

#include "base/rpc_process.h"

#define SR1__MCP_MAX_MESSAGE ((size_t)8 << 20) /* bytes of one message of a server */
#define SR1__MCP_MAX_TOOLS 256

/* ---- what a file names ---- */

struct sr1__mcp_server {
    char *name;
    char **argv;    /* NULL-terminated; NULL: it has a url */
    char **extra;   /* environment, "NAME=value", NULL-terminated */
    char *folder;   /* NULL: ours */
    char *url;      /* NULL: it has a command */
    char **headers; /* "Name: value", NULL-terminated */
    char **include; /* names of the tools that are taken; NULL: all */
    char **exclude; /* names of tools that are not; NULL: none */
};

struct sr1__mcp_servers {
    struct sr1__mcp_server *v;
    size_t n;
};

/* name begins the texts of errors. */
sr1_status sr1__mcp_servers_parse(struct sr1__mcp_servers *out, const char *text,
                                  size_t n, const char *name);
void sr1__mcp_servers_free(struct sr1__mcp_servers *s);
/* Is the tool one of those that the file lets in? */
int sr1__mcp_server_takes(const struct sr1__mcp_server *s, const char *tool);

/* ---- a server ---- */

struct sr1__mcp_client;

/* Starts and greets nothing yet. server is borrowed for the call. */
sr1_status sr1__mcp_client_new(struct sr1__mcp_client **out,
                               const struct sr1__mcp_server *server, double start_s);
void sr1__mcp_client_free(struct sr1__mcp_client *c);
/* All its tools, an array of what tools/list gives; *out is a new reference. */
sr1_status sr1__mcp_client_list(struct sr1__mcp_client *c, double until, json_t **out);
/* Call a tool. As sr1__rpc_call. From any thread. */
sr1_status sr1__mcp_client_call(struct sr1__mcp_client *c, const char *tool,
                                const char *args, size_t len, double until,
                                struct sr1__rpc_reply *reply);

/* The parameters of the greeting. NULL without memory. */
json_t *sr1__mcp_greeting(void);
/* Is the answer to the greeting one of a server we can speak with? */
sr1_status sr1__mcp_check_greeting(const char *name, const struct sr1__rpc_reply *reply);

/* ---- streamable HTTP ---- */

struct sr1__mcp_http;

sr1_status sr1__mcp_http_new(struct sr1__mcp_http **out,
                             const struct sr1__mcp_server *server, double start_s);
void sr1__mcp_http_free(struct sr1__mcp_http *h);
/* As sr1__rpc_call; greets the server first, and again after it has forgotten us. */
sr1_status sr1__mcp_http_call(struct sr1__mcp_http *h, const char *method, json_t *params,
                              double until, struct sr1__rpc_reply *reply);
/* The answer to request `id` in the body of a response: one message, or a stream of
 * events that has it. */
sr1_status sr1__mcp_http_read(const char *body, size_t n, int64_t id,
                              struct sr1__rpc_reply *reply);

/* ---- results ---- */

/* The text of a call's result for the policy, and whether the tool says that it failed.
 * SR1_E_PARSE: it is no result of a call. */
sr1_status sr1__mcp_result_text(const json_t *result, struct sr1__buf *text, int *failed);

#endif
