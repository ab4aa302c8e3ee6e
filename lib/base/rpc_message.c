/* base/rpc_message.c - messages of JSON-RPC 2.0: write requests, read what the other side
 * sends. */
#include "base/rpc_process.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define METHOD_NOT_FOUND (-32601)

void sr1__rpc_reply_free(struct sr1__rpc_reply *reply)
{
    json_decref(reply->result);
    *reply = (struct sr1__rpc_reply){0};
}

sr1_status sr1__rpc_write_request(struct sr1__buf *out, int64_t id, const char *method,
                                  json_t *params)
{
    json_t *o = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    sr1_status st = SR1_OK;

    if (!o || (id && json_object_set_new(o, "id", json_integer(id)) != 0) ||
        (params && json_object_set(o, "params", params) != 0))
        st = sr1__fail_nomem("a request");
    if (st == SR1_OK)
        st = sr1__json_dump(o, 0, out);
    json_decref(o);
    return st;
}

/* The answer to a request of the other side. */
static sr1_status write_answer(const json_t *id, const char *method, struct sr1__buf *out)
{
    int pinged = strcmp(method, "ping") == 0;
    json_t *said = pinged ? json_object()
                          : json_pack("{s:i, s:s}", "code", METHOD_NOT_FOUND, "message",
                                      "not supported");
    json_t *o = json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id,
                          pinged ? "result" : "error", said);
    sr1_status st = o ? sr1__json_dump(o, 0, out) : sr1__fail_nomem("an answer");

    json_decref(o);
    return st;
}

/* A code beyond 32 bits is the nearest of them. */
static sr1_status read_error(const json_t *error, struct sr1__rpc_reply *reply)
{
    const json_t *code = json_object_get(error, "code");
    const char *message = json_string_value(json_object_get(error, "message"));
    json_int_t value = json_integer_value(code);

    if (!json_is_integer(code))
        return sr1__fail(SR1_E_PARSE, "an error without a code");
    reply->code = value > INT32_MAX   ? INT32_MAX
                  : value < INT32_MIN ? INT32_MIN
                                      : (int32_t)value;
    snprintf(reply->message, sizeof reply->message, "%s",
             message ? message : "no reason");
    return SR1_OK;
}

/* One of ours was answered. An error wins over a result, which servers that write as
 * JSON-RPC 1.0 does put beside it as null. */
static sr1_status read_answer(json_t *o, int64_t *id, struct sr1__rpc_reply *reply)
{
    const json_t *number = json_object_get(o, "id");
    json_t *result = json_object_get(o, "result");
    json_t *error = json_object_get(o, "error");

    if (!json_is_integer(number) || (!result && !json_is_object(error)))
        return sr1__fail(SR1_E_PARSE,
                         "an answer needs the id of its request, and result or "
                         "error");
    *reply = (struct sr1__rpc_reply){0};
    if (json_is_object(error))
        SR1__TRY(read_error(error, reply));
    else
        reply->result = json_incref(result);
    *id = json_integer_value(number);
    return SR1_OK;
}

static sr1_status read_message(json_t *o, enum sr1__rpc_kind *kind, int64_t *id,
                               struct sr1__rpc_reply *reply, struct sr1__buf *answer)
{
    const char *method = json_string_value(json_object_get(o, "method"));
    const json_t *asked = json_object_get(o, "id");

    if (!json_is_object(o))
        return sr1__fail(SR1_E_PARSE, "it is no JSON object");
    *kind = !method ? SR1__RPC_ANSWER : asked ? SR1__RPC_REQUEST : SR1__RPC_NOTIFICATION;
    if (*kind == SR1__RPC_ANSWER)
        return read_answer(o, id, reply);
    return *kind == SR1__RPC_REQUEST ? write_answer(asked, method, answer) : SR1_OK;
}

sr1_status sr1__rpc_read(const char *text, size_t n, enum sr1__rpc_kind *kind,
                         int64_t *id, struct sr1__rpc_reply *reply,
                         struct sr1__buf *answer)
{
    json_t *o = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse_loose(&o, text, n, "a message"));
    st = read_message(o, kind, id, reply, answer);
    json_decref(o);
    return st;
}
