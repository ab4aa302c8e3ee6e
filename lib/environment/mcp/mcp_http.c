/* environment/mcp/mcp_http.c - MCP's transport "streamable HTTP": each request is a POST,
 * answered by one message, or by a stream of events that has it.
 *
 * The answer's stream is read to its end: servers end it behind the answer. */
#include "environment/mcp/mcp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "retrieval/net/http_client.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_HEADERS 64
#define CONCURRENCY 64
#define SESSION_MAX (SR1__HTTP_HEADER_MAX + 1) /* of its name, with a NUL */
#define FAREWELL_S 2.0

struct sr1__mcp_http {
    struct sr1__http *http;
    char *name, *url;
    char **headers; /* [n_headers] those of the file */
    size_t n_headers;
    double start_s;
    pthread_mutex_t lock;      /* over all below */
    pthread_cond_t greeting;   /* has ended */
    int greets;                /* a caller makes the session */
    int greeted;               /* the session is made, and the server was told so */
    char session[SESSION_MAX]; /* "": it has none */
    char version[32];
    int64_t next_id;
};

/* ---- answers ---- */

/* A message: 1 when it is the answer to request `id`. */
static sr1_status read_event(const char *text, size_t n, int64_t id,
                             struct sr1__rpc_reply *reply, int *found)
{
    struct sr1__rpc_reply other = {0};
    struct sr1__buf answer;
    enum sr1__rpc_kind kind;
    int64_t got = 0;
    sr1_status st;

    sr1__buf_init(&answer, 0);
    st = sr1__rpc_read(text, n, &kind, &got, &other, &answer);
    sr1__buf_free(&answer);
    SR1__TRY(st);
    if (kind == SR1__RPC_ANSWER && got == id && !*found) {
        *reply = other;
        *found = 1;
    } else {
        sr1__rpc_reply_free(&other);
    }
    return SR1_OK;
}

/* One line of a stream: data is gathered until an empty line ends the event. */
static sr1_status read_line(const char *line, size_t n, struct sr1__buf *data, int64_t id,
                            struct sr1__rpc_reply *reply, int *found)
{
    sr1_status st = SR1_OK;

    if (n >= 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;

        if (data->len > 0)
            sr1__buf_char(data, '\n');
        sr1__buf_add(data, line + skip, n - skip);
        return sr1__buf_status(data, "an event");
    }
    if (n == 0 && data->len > 0) {
        st = read_event(data->data, data->len, id, reply, found);
        sr1__buf_clear(data);
    }
    return st;
}

static sr1_status read_stream(const char *body, size_t n, int64_t id,
                              struct sr1__rpc_reply *reply, int *found)
{
    struct sr1__buf data;
    sr1_status st = SR1_OK;

    sr1__buf_init(&data, 0);
    for (size_t at = 0; st == SR1_OK && at <= n;) {
        const char *end = at < n ? memchr(body + at, '\n', n - at) : NULL;
        size_t len = end ? (size_t)(end - body) - at : n - at;

        st = read_line(body + at, len > 0 && body[at + len - 1] == '\r' ? len - 1 : len,
                       &data, id, reply, found);
        at += len + 1;
    }
    if (st == SR1_OK && data.len > 0) /* the last event without its empty line */
        st = read_event(data.data, data.len, id, reply, found);
    sr1__buf_free(&data);
    return st;
}

sr1_status sr1__mcp_http_read(const char *body, size_t n, int64_t id,
                              struct sr1__rpc_reply *reply)
{
    size_t at = 0;
    int found = 0;
    sr1_status st;

    while (at < n && sr1__is_json_space(body[at]))
        at++;
    st = at < n && body[at] == '{' ? read_event(body, n, id, reply, &found)
                                   : read_stream(body, n, id, reply, &found);
    if (st == SR1_OK && !found)
        st = sr1__fail(SR1_E_PARSE, "the response has no answer to the request");
    if (st != SR1_OK && found)
        sr1__rpc_reply_free(reply);
    return st;
}

/* ---- requests ---- */

/* Headers of a request: our own, then the file's. */
struct header_list {
    const char *v[MAX_HEADERS + 5];
    size_t n;
    char session[SESSION_MAX + 32], version[64];
};

/* sent: the session that is in them, "": none. */
static void list_headers(struct sr1__mcp_http *h, struct header_list *l,
                         char sent[SESSION_MAX])
{
    l->n = 0;
    l->v[l->n++] = "Content-Type: application/json";
    l->v[l->n++] = "Accept: application/json, text/event-stream";
    pthread_mutex_lock(&h->lock);
    snprintf(sent, SESSION_MAX, "%s", h->session);
    if (h->session[0]) {
        snprintf(l->session, sizeof l->session, "Mcp-Session-Id: %s", h->session);
        l->v[l->n++] = l->session;
    }
    if (h->version[0]) {
        snprintf(l->version, sizeof l->version, "MCP-Protocol-Version: %s", h->version);
        l->v[l->n++] = l->version;
    }
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < h->n_headers; i++)
        l->v[l->n++] = h->headers[i];
}

static sr1_status post_message(struct sr1__mcp_http *h, const struct sr1__buf *body,
                               double until, struct sr1__http_response *r,
                               char sent[SESSION_MAX])
{
    struct header_list l;
    double left = until - sr1__now();
    struct sr1__http_request q = {.url = h->url,
                                  .headers = l.v,
                                  .body = sr1__buf_cstr(body),
                                  .body_len = body->len,
                                  .timeout_s = left > 0.001 ? left : 0.001,
                                  .want_header = "mcp-session-id"};

    list_headers(h, &l, sent);
    q.n_headers = l.n;
    return sr1__http_run(h->http, &q, 1, r);
}

static int64_t take_request_id(struct sr1__mcp_http *h)
{
    int64_t id;

    pthread_mutex_lock(&h->lock);
    id = ++h->next_id;
    pthread_mutex_unlock(&h->lock);
    return id;
}

/* What came of one request. */
struct http_outcome {
    int32_t code;            /* HTTP's */
    int answered;            /* the response has the answer to it */
    char sent[SESSION_MAX];  /* the session that it was sent in; "": none */
    char given[SESSION_MAX]; /* what the server gave */
};

/* A server says in an answer of JSON-RPC what was wrong with a call, also where it has
 * the code 400. */
static sr1_status read_response(const struct sr1__mcp_http *h,
                                const struct sr1__http_response *r, int64_t id,
                                struct sr1__rpc_reply *reply, struct http_outcome *o)
{
    int answers = id != 0 && (r->status == SR1_OK || r->code == 400);
    sr1_status st = SR1_OK;

    o->code = r->code;
    snprintf(o->given, sizeof o->given, "%s", r->header ? r->header : "");
    if (answers)
        st = sr1__context(
            sr1__mcp_http_read(sr1__buf_cstr(&r->body), r->body.len, id, reply), "%s",
            h->name);
    o->answered = answers && st == SR1_OK;
    if (r->status == SR1_OK || o->answered || st == SR1_E_NOMEM)
        return st;
    return sr1__fail(r->status == SR1_E_TIMEOUT ? SR1_E_TIMEOUT : SR1_E_NETWORK, "%s: %s",
                     h->name, r->message);
}

/* Send one message. */
static sr1_status request_by_http(struct sr1__mcp_http *h, int64_t id, const char *method,
                                  json_t *params, double until,
                                  struct sr1__rpc_reply *reply, struct http_outcome *o)
{
    struct sr1__http_response r = {0};
    struct sr1__buf body;
    sr1_status st;

    *o = (struct http_outcome){0};
    sr1__buf_init(&body, 0);
    st = sr1__rpc_write_request(&body, id, method, params);
    if (st == SR1_OK)
        st = post_message(h, &body, until, &r, o->sent);
    sr1__buf_free(&body);
    SR1__TRY(st);
    st = read_response(h, &r, id, reply, o);
    sr1__http_response_free(&r);
    return st;
}

/* ---- the session ---- */

/* The version that the server chose goes into a header of ours, where a line end would
 * begin another one. */
static sr1_status check_version(const struct sr1__mcp_http *h, const json_t *result)
{
    const json_t *version = json_object_get(result, "protocolVersion");
    const char *s = json_string_value(version);
    size_t n = json_string_length(version);

    if (n >= sizeof h->version ||
        strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_") !=
            n)
        return sr1__fail(
            SR1_E_PARSE,
            "%s: its 'protocolVersion' is no version, such as \"2025-06-18\"", h->name);
    return SR1_OK;
}

/* Requests are sent in it from now on, of which the first says that it is made. */
static void keep_session(struct sr1__mcp_http *h, const char *session,
                         const json_t *result)
{
    const char *version = json_string_value(json_object_get(result, "protocolVersion"));

    pthread_mutex_lock(&h->lock);
    snprintf(h->session, sizeof h->session, "%s", session);
    snprintf(h->version, sizeof h->version, "%s", version);
    pthread_mutex_unlock(&h->lock);
}

/* It is made, or what there is of it is forgotten. */
static void end_greeting(struct sr1__mcp_http *h, int made)
{
    pthread_mutex_lock(&h->lock);
    h->greets = 0;
    h->greeted = made;
    if (!made)
        h->session[0] = h->version[0] = '\0';
    pthread_cond_broadcast(&h->greeting);
    pthread_mutex_unlock(&h->lock);
}

static sr1_status initialize_session(struct sr1__mcp_http *h, double until)
{
    json_t *params = sr1__mcp_greeting();
    struct sr1__rpc_reply reply = {0};
    struct http_outcome o;
    sr1_status st;

    SR1__CHECK_ALLOC(params, "a greeting");
    st = request_by_http(h, take_request_id(h), "initialize", params, until, &reply, &o);
    json_decref(params);
    if (st == SR1_OK)
        st = sr1__mcp_check_greeting(h->name, &reply);
    if (st == SR1_OK)
        st = check_version(h, reply.result);
    if (st == SR1_OK)
        keep_session(h, o.given, reply.result);
    sr1__rpc_reply_free(&reply);
    if (st == SR1_OK)
        st = request_by_http(h, 0, "notifications/initialized", NULL, until, NULL, &o);
    return st;
}

/* Unless another caller has made a new one since. */
static void forget_session(struct sr1__mcp_http *h, const char *session)
{
    pthread_mutex_lock(&h->lock);
    if (strcmp(h->session, session) == 0) {
        h->greeted = 0;
        h->session[0] = h->version[0] = '\0';
    }
    pthread_mutex_unlock(&h->lock);
}

/* Wait for another caller's greeting. *ours: there is no session, and this one makes it.
 */
static sr1_status await_greeting(struct sr1__mcp_http *h, double until, int *ours)
{
    struct timespec latest = sr1__clock_time(until);
    int late = 0;

    pthread_mutex_lock(&h->lock);
    while (h->greets && !late)
        late = pthread_cond_timedwait(&h->greeting, &h->lock, &latest) != 0;
    late = h->greets;
    *ours = !late && !h->greeted;
    if (*ours)
        h->greets = 1;
    pthread_mutex_unlock(&h->lock);
    if (late)
        return sr1__fail(SR1_E_TIMEOUT, "%s: another call waits for its greeting",
                         h->name);
    return SR1_OK;
}

/* One caller makes it; others wait, each as long as it may. */
static sr1_status need_session(struct sr1__mcp_http *h, double until)
{
    double start = sr1__now() + h->start_s;
    sr1_status st;
    int ours;

    SR1__TRY(await_greeting(h, until, &ours));
    if (!ours)
        return SR1_OK;
    st = initialize_session(h, until < start ? until : start);
    end_greeting(h, st == SR1_OK);
    return st;
}

/* The server may have forgotten the session that the request was sent in: 404, by some
 * 400. Without one there is nothing to make anew, and what was answered was done. */
static int has_lost_session(const struct http_outcome *o)
{
    return o->sent[0] && !o->answered && (o->code == 404 || o->code == 400);
}

sr1_status sr1__mcp_http_call(struct sr1__mcp_http *h, const char *method, json_t *params,
                              double until, struct sr1__rpc_reply *reply)
{
    struct http_outcome o;
    sr1_status st = SR1_OK;

    for (int attempt = 0; attempt < 2; attempt++) {
        SR1__TRY(need_session(h, until));
        st = request_by_http(h, take_request_id(h), method, params, until, reply, &o);
        if (!has_lost_session(&o))
            return st;
        forget_session(h, o.sent);
    }
    return st;
}

/* A server keeps what belongs to a session until it is told. */
static void end_session(struct sr1__mcp_http *h)
{
    struct sr1__http_response r = {0};
    char sent[SESSION_MAX];
    struct header_list l;
    struct sr1__http_request q = {
        .url = h->url, .headers = l.v, .method = "DELETE", .timeout_s = FAREWELL_S};

    list_headers(h, &l, sent);
    q.n_headers = l.n;
    if (sent[0] && sr1__http_run(h->http, &q, 1, &r) == SR1_OK)
        sr1__http_response_free(&r);
}

/* ---- making one ---- */

static sr1_status copy_server(struct sr1__mcp_http *h, const struct sr1__mcp_server *s)
{
    size_t n = strlen(s->name) + 32;

    h->name = sr1__calloc(n, 1);
    h->url = sr1__strdup(s->url);
    while (s->headers && s->headers[h->n_headers])
        h->n_headers++;
    if (h->n_headers > MAX_HEADERS)
        return sr1__fail(SR1_E_LIMIT, "MCP server '%.64s': more than %d headers", s->name,
                         MAX_HEADERS);
    h->headers = sr1__calloc(h->n_headers + 1, sizeof *h->headers);
    if (!h->name || !h->url || !h->headers)
        return sr1__fail_nomem("MCP server");
    snprintf(h->name, n, "MCP server '%s'", s->name);
    for (size_t i = 0; i < h->n_headers; i++)
        if (!(h->headers[i] = sr1__strdup(s->headers[i])))
            return sr1__fail_nomem("MCP server");
    return SR1_OK;
}

sr1_status sr1__mcp_http_new(struct sr1__mcp_http **out,
                             const struct sr1__mcp_server *server, double start_s)
{
    struct sr1__http_options o = {.connect_timeout_s = 10,
                                  .timeout_s = 3600,
                                  .max_body = SR1__MCP_MAX_MESSAGE,
                                  .concurrency = CONCURRENCY,
                                  .retry = {0, 0.1, 1, 10},
                                  .breaker_failures = 10,
                                  .breaker_rest_s = 10};
    char origin[SR1__ORIGIN_MAX];
    struct sr1__mcp_http *h;
    sr1_status st;

    SR1__TRY(sr1__context(sr1__url_origin(server->url, "url", origin),
                          "MCP server '%.64s'", server->name));
    SR1__CALLOC(h, 1, "MCP server");
    pthread_mutex_init(&h->lock, NULL);
    sr1__cond_init(&h->greeting);
    h->start_s = start_s;
    st = copy_server(h, server);
    if (st == SR1_OK)
        st = sr1__http_new(&h->http, &o);
    SR1__RETURN_NEW(out, h, st, sr1__mcp_http_free);
}

void sr1__mcp_http_free(struct sr1__mcp_http *h)
{
    if (!h)
        return;
    if (h->http)
        end_session(h);
    sr1__http_free(h->http);
    pthread_cond_destroy(&h->greeting);
    pthread_mutex_destroy(&h->lock);
    for (size_t i = 0; h->headers && i < h->n_headers; i++)
        sr1__free(h->headers[i]);
    sr1__free(h->headers);
    sr1__free(h->name);
    sr1__free(h->url);
    sr1__free(h);
}
