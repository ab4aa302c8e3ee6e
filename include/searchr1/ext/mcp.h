/* searchr1/ext/mcp.h - tools of MCP servers (Model Context Protocol), and of other
 * programs that speak JSON-RPC.
 *
 * A server's tools are tools of an environment "tools" as sr1_env_add_tool adds them:
 * their arguments are checked against the server's schemas, and calls of one message run
 * side by side. What a server says of a call (isError, or that its arguments are wrong)
 * is told to the policy. A server that ends, is late or writes nonsense is nothing the
 * policy did: its call is SR1_TOOL_TIMEOUT or SR1_TOOL_BROKEN, and the server is started
 * anew by the next (one that is late but wrote something during the call is only busy,
 * and is kept).
 *
 * The programs run with the rights of this process (docs/security.md).
 *
 * Ownership, errors and threads as in searchr1/env.h.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_MCP_H
#define SEARCHR1_EXT_MCP_H

#include <searchr1/env.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_mcp_options {
    size_t struct_size;     /* set by sr1_mcp_options_init */
    double timeout_s;       /* of one call; 0: 60 */
    double start_timeout_s; /* for a server to start and to list its tools; 0: 60 */
} sr1_mcp_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_mcp_options_init(sr1_mcp_options *options);

/* Start the servers that a file names, as other MCP clients read it
 * (docs/formats.md#mcp-servers),
 *
 *     {"mcpServers": {"NAME": {"command": "...", "args": [...], "env": {...}},
 *                     "OTHER": {"url": "https://...", "headers": {...}}}}
 *
 * and add their tools to an environment "tools" before anything else uses it. The
 * environment ends the servers when it is freed. options may be NULL. On failure, which
 * names the server, tools of servers before it may have been added: free the environment.
 * SR1_E_PARSE, SR1_E_INVALID: the file; SR1_E_NETWORK, SR1_E_TIMEOUT, SR1_E_IO: a server.
 */
SR1_API sr1_status sr1_env_add_mcp(sr1_env *env, const char *path,
                                   const sr1_mcp_options *options);

#ifdef __cplusplus
}
#endif
#endif
