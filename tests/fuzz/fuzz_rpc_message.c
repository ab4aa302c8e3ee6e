/* fuzz_rpc_message.c - what programs and servers send: messages of JSON-RPC, responses of
 * MCP's HTTP transport, results of calls, and the file that names servers.
 *
 * The first byte chooses the reader, the rest is what it reads. */
#include "environment/mcp/mcp.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
    if (!ok)
        abort();
}

static void read_message(const char *text, size_t n)
{
    struct sr1__rpc_reply reply = {0};
    enum sr1__rpc_kind kind;
    struct sr1__buf answer;
    int64_t id = 0;

    sr1__buf_init(&answer, 0);
    if (sr1__rpc_read(text, n, &kind, &id, &reply, &answer) == SR1_OK) {
        check(kind != SR1__RPC_REQUEST || answer.len > 0);
        check(kind == SR1__RPC_ANSWER || reply.result == NULL);
    } else {
        check(reply.result == NULL);
    }
    sr1__rpc_reply_free(&reply);
    sr1__buf_free(&answer);
}

static void read_response(const char *text, size_t n)
{
    struct sr1__rpc_reply reply = {0};

    if (sr1__mcp_http_read(text, n, 1, &reply) != SR1_OK)
        check(reply.result == NULL);
    sr1__rpc_reply_free(&reply);
}

static void read_result(const char *text, size_t n)
{
    struct sr1__buf b;
    json_t *result = NULL;
    int failed;

    sr1__buf_init(&b, 0);
    if (sr1__json_parse_loose(&result, text, n, "a result") == SR1_OK)
        (void)sr1__mcp_result_text(result, &b, &failed);
    json_decref(result);
    sr1__buf_free(&b);
}

static void read_servers(const char *text, size_t n)
{
    struct sr1__mcp_servers servers;

    if (sr1__mcp_servers_parse(&servers, text, n, "mcp.json") == SR1_OK)
        for (size_t i = 0; i < servers.n; i++)
            check(!servers.v[i].url != !servers.v[i].argv);
    sr1__mcp_servers_free(&servers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t n) = {
        read_message, read_response, read_result, read_servers};

    if (size > 0)
        readers[data[0] % 4]((const char *)data + 1, size - 1);
    return 0;
}
