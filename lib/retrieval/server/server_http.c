/* retrieval/server/server_http.c - libmicrohttpd's callbacks for a request: headers, body
 * in pieces, end; later, answer sent or client gone.
 *
 * The body of a refused request is read to its end, within bounds, and dropped before the
 * answer: a client that is still writing would lose the answer when the connection
 * closes. */
#include "retrieval/server/server_internal.h"

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
/* A request's header must be complete within HEADER_IDLES * idle_seconds. */
#define HEADER_IDLES 2
/* An answer must be read within body_seconds plus its size at this rate. */
#define SLOWEST_BYTES_S (64 * 1024)

void sr1__exchange_refuse(struct sr1__exchange *x, int status, const char *text)
{
    sr1__buf_clear(&x->answer);
    sr1__wire_detail(&x->answer, text);
    x->status = status;
}

/* ---- headers ---- */

static const char *get_header(const struct sr1__exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* Compare in constant time, so the time does not reveal how much of the token was right.
 */
static int equals_token(const char *a, const char *b)
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
    const char *given = get_header(x, MHD_HTTP_HEADER_AUTHORIZATION);

    if (x->server->token == NULL || x->route->open)
        return 1;
    if (given == NULL || strncasecmp(given, "Bearer ", 7) != 0)
        return 0;
    given += 7;
    given += strspn(given, " ");
    return equals_token(given, x->server->token);
}

static int fits_method(const struct sr1__route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* MHD_KeyValueIterator */
static enum MHD_Result count_length(void *count, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    (void)kind;
    (void)value;
    *(int *)count += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    return MHD_YES;
}

/* The length of a body must be given once: a proxy in front may use the other value, and
 * take the rest for the next request. */
static int has_two_ends(const struct sr1__exchange *x)
{
    int lengths = 0;

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_length, &lengths);
    return lengths > 1 ||
           (lengths == 1 && get_header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL);
}

static void check_headers(struct sr1__exchange *x, const char *method)
{
    const char *length = get_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
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
    if (x->last || atomic_load(&x->server->stopping))
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
}

static struct sr1__deadline *deadline_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

static double header_seconds(const struct sr1_server *sv)
{
    return HEADER_IDLES * (double)sv->o.idle_seconds;
}

static enum MHD_Result send_answer(struct sr1__exchange *x)
{
    double seconds = (double)x->answer.len / SLOWEST_BYTES_S;
    struct MHD_Response *r = make_response(x);
    enum MHD_Result result;

    if (r == NULL)
        return MHD_NO;
    add_headers(x, r);
    sr1__deadline_set(deadline_of(x->connection), x->server->o.body_seconds + seconds);
    result = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return result;
}

/* ---- a request ---- */

static enum MHD_Result begin_exchange(struct sr1_server *sv,
                                      struct MHD_Connection *connection, const char *url,
                                      const char *method, void **exchange)
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
    sr1__deadline_set(deadline_of(connection), sv->o.body_seconds);
    if (has_two_ends(x)) {
        sr1__exchange_refuse(x, SR1__HTTP_BAD_REQUEST,
                             "two lengths of the body, or a length with chunks");
        x->last = 1;
        return send_answer(x);
    }
    check_headers(x, method);
    expects = get_header(x, MHD_HTTP_HEADER_EXPECT);
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
static enum MHD_Result receive_body_part(struct sr1__exchange *x, const char *data,
                                         size_t *size)
{
    if (x->status == 0)
        keep_body(x, data, *size);
    else
        x->passed += *size;
    *size = 0;
    return x->passed / PASS_MAX > (size_t)x->server->o.max_body ? MHD_NO : MHD_YES;
}

enum MHD_Result sr1__http_handle(void *cls, struct MHD_Connection *connection,
                                 const char *url, const char *method, const char *version,
                                 const char *data, size_t *size, void **exchange)
{
    struct sr1__exchange *x = *exchange;

    (void)version;
    if (x == NULL)
        return begin_exchange(cls, connection, url, method, exchange);
    if (*size > 0)
        return receive_body_part(x, data, size);
    sr1__deadline_set(deadline_of(connection), 0); /* the request is whole */
    if (x->status == 0 && !x->route->run(x))
        return MHD_YES;
    return send_answer(x);
}

void sr1__http_completed(void *cls, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode how)
{
    struct sr1_server *sv = cls;
    struct sr1__exchange *x = *exchange;

    if (x == NULL)
        return;
    *exchange = NULL;
    sr1__deadline_set(deadline_of(connection), header_seconds(sv));
    sr1__server_metrics_request(
        &sv->metrics, x->route != NULL ? x->route->path : SR1__PATH_OTHER, x->status,
        sr1__now() - x->began, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    atomic_fetch_sub(&sv->body_bytes, (long long)x->counted);
    sr1__server_job_free(&x->job);
    sr1__retrieve_request_free(&x->retrieve);
    sr1__rerank_request_free(&x->rerank);
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
    int started = what == MHD_CONNECTION_NOTIFY_STARTED;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    atomic_fetch_add(&sv->metrics.connections, started ? 1 : -1);
    if (!started) {
        sr1__deadline_remove(*context);
        *context = NULL;
    } else if (info != NULL) {
        *context = sr1__deadline_add(sv->deadlines, info->connect_fd);
        sr1__deadline_set(*context, header_seconds(sv));
    }
}
