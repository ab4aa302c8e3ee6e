/* server/http.c - requests as libmicrohttpd tells of them: headers, body in pieces, the
 * end; later, the answer is out or the client has gone.
 *
 * A request that is refused has its body read to the end and dropped before it is
 * answered, within bounds: a client that still writes would lose the answer when the
 * connection closes. */
#include "server/inside.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <string.h>
#include <strings.h>

#define JSON_TYPE "application/json"
/* Bodies of all requests under way, in units of the largest one. */
#define BODIES_MAX 16
/* A refused body may be so much longer than the largest one. */
#define PASS_MAX 4

void sr1__exchange_refuse(struct sr1__exchange *x, int status, const char *text)
{
    sr1__buf_clear(&x->answer);
    sr1__wire_detail(&x->answer, text);
    x->status = status;
}

/* ---- headers ---- */

static const char *header(const struct sr1__exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* In a time that does not tell how much of the token was right. */
static int same_text(const char *a, const char *b)
{
    size_t n = strlen(a);
    size_t m = strlen(b);
    unsigned char differ = n != m;

    for (size_t i = 0; i < m; i++)
        differ |= (unsigned char)(b[i] ^ a[i < n ? i : n]);
    return !differ;
}

static int has_token(const struct sr1__exchange *x)
{
    const char *given = header(x, MHD_HTTP_HEADER_AUTHORIZATION);

    if (x->server->token == NULL || x->route->open)
        return 1;
    if (given == NULL || strncasecmp(given, "Bearer ", 7) != 0)
        return 0;
    given += 7;
    given += strspn(given, " ");
    return same_text(given, x->server->token);
}

static int fits_method(const struct sr1__route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void check_headers(struct sr1__exchange *x, const char *method)
{
    const char *length = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t n = 0;

    if (x->route == NULL)
        sr1__exchange_refuse(x, SR1__HTTP_NOT_FOUND, "Not Found");
    else if (!fits_method(x->route, method))
        sr1__exchange_refuse(x, SR1__HTTP_METHOD, "Method Not Allowed");
    else if (!has_token(x))
        sr1__exchange_refuse(x, SR1__HTTP_UNAUTHORIZED,
                             "Not authenticated: send the header 'Authorization: Bearer "
                             "TOKEN'");
    else if (length != NULL && sr1__parse_int(length, strlen(length), &n) &&
             n > x->server->o.max_body)
        sr1__exchange_refuse(x, SR1__HTTP_TOO_LARGE, "the request is too large");
}

/* ---- the answer ---- */

static struct MHD_Response *make_response(struct sr1__exchange *x)
{
    static char no_memory[] = "{\"detail\":\"out of memory\"}";
    size_t n = x->answer.len;
    char *data = sr1__buf_take(&x->answer);
    struct MHD_Response *r;

    if (data == NULL) {
        x->status = SR1__HTTP_UNAVAILABLE;
        x->type = JSON_TYPE;
        return MHD_create_response_from_buffer(sizeof(no_memory) - 1, no_memory,
                                               MHD_RESPMEM_PERSISTENT);
    }
    r = MHD_create_response_from_buffer_with_free_callback(n, data, sr1__free);
    if (r == NULL)
        sr1__free(data);
    return r;
}

static void add_headers(const struct sr1__exchange *x, struct MHD_Response *r)
{
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, x->type);
    if (x->status == SR1__HTTP_METHOD)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, x->route->method);
    if (x->status == SR1__HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->status == SR1__HTTP_UNAVAILABLE)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (atomic_load(&x->server->stopping))
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
}

static enum MHD_Result send_answer(struct sr1__exchange *x)
{
    struct MHD_Response *r = make_response(x);
    enum MHD_Result result;

    if (r == NULL)
        return MHD_NO;
    add_headers(x, r);
    result = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return result;
}

/* ---- a request ---- */

static enum MHD_Result begin(struct sr1_server *sv, struct MHD_Connection *connection,
                             const char *url, const char *method, void **exchange)
{
    struct sr1__exchange *x = sr1__calloc(1, sizeof(*x));
    const char *expects;

    if (x == NULL)
        return MHD_NO;
    x->server = sv;
    x->connection = connection;
    x->route = sr1__route_find(url);
    x->began = sr1__now();
    x->type = JSON_TYPE;
    sr1__buf_init(&x->body, (size_t)sv->o.max_body);
    sr1__buf_init(&x->answer, 0);
    atomic_fetch_add(&sv->metrics.accepted, 1);
    atomic_fetch_add(&sv->metrics.in_flight, 1);
    *exchange = x;
    check_headers(x, method);
    expects = header(x, MHD_HTTP_HEADER_EXPECT);
    return x->status != 0 && expects != NULL ? send_answer(x) : MHD_YES;
}

static void keep_body(struct sr1__exchange *x, const char *data, size_t n)
{
    struct sr1_server *sv = x->server;
    long long all = atomic_fetch_add(&sv->body_bytes, (long long)n) + (long long)n;

    x->counted += n;
    sr1__buf_add(&x->body, data, n);
    if (x->body.status == SR1_E_LIMIT)
        sr1__exchange_refuse(x, SR1__HTTP_TOO_LARGE, "the request is too large");
    else if (x->body.status != SR1_OK)
        sr1__exchange_refuse(x, SR1__HTTP_UNAVAILABLE, "out of memory");
    else if (all / BODIES_MAX > sv->o.max_body)
        sr1__exchange_refuse(x, SR1__HTTP_UNAVAILABLE,
                             "too many large requests at a time");
    if (x->status != 0) {
        sr1__buf_free(&x->body);
        atomic_fetch_sub(&sv->body_bytes, (long long)x->counted);
        x->counted = 0;
    }
}

/* MHD_NO closes the connection: in the middle of a body nothing can be answered. */
static enum MHD_Result take_body(struct sr1__exchange *x, const char *data, size_t *size)
{
    if (x->status == 0)
        keep_body(x, data, *size);
    else
        x->passed += *size;
    *size = 0;
    if (x->passed / PASS_MAX > (size_t)x->server->o.max_body ||
        sr1__now() - x->began > x->server->o.body_seconds)
        return MHD_NO;
    return MHD_YES;
}

enum MHD_Result sr1__http_handle(void *cls, struct MHD_Connection *connection,
                                 const char *url, const char *method, const char *version,
                                 const char *data, size_t *size, void **exchange)
{
    struct sr1__exchange *x = *exchange;

    (void)version;
    if (x == NULL)
        return begin(cls, connection, url, method, exchange);
    if (*size > 0)
        return take_body(x, data, size);
    if (x->status == 0 && !x->route->run(x))
        return MHD_YES;
    return send_answer(x);
}

void sr1__http_completed(void *cls, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode how)
{
    struct sr1_server *sv = cls;
    struct sr1__exchange *x = *exchange;

    (void)connection;
    if (x == NULL)
        return;
    *exchange = NULL;
    sr1__metrics_ended(&sv->metrics, x->route != NULL ? x->route->path : SR1__PATH_OTHER,
                       x->status, sr1__now() - x->began,
                       how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    atomic_fetch_sub(&sv->body_bytes, (long long)x->counted);
    sr1__job_free(&x->job);
    sr1__retrieve_free(&x->retrieve);
    sr1__rerank_free(&x->rerank);
    sr1__buf_free(&x->body);
    sr1__buf_free(&x->answer);
    sr1__buf_free(&x->job.answer);
    sr1__free(x);
    atomic_fetch_sub(&sv->metrics.in_flight, 1);
}

void sr1__http_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct sr1_server *sv = cls;

    (void)connection;
    (void)context;
    atomic_fetch_add(&sv->metrics.connections,
                     what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}
