/* retrieval/search/remote_engine.c - the engine over a /retrieve server. A batch is one
 * request, or one a query where the server wants it so; which it is, is found out by the
 * first answer. */
#include <searchr1/search.h>

#include "base/mem.h"
#include "retrieval/net/service.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/http_engine.h"
#include "retrieval/search/search_engine.h"
#include "retrieval/search/retrieve.h"

#include <stdatomic.h>
#include <string.h>

#define HTTP_NOT_FOUND 404
#define HTTP_UNPROCESSABLE 422

struct remote_engine {
    struct sr1__client client;
    char *url;
    char origin[SR1__ORIGIN_MAX];
    char *authorization; /* header with the key; NULL: none */
    atomic_int dialect;  /* enum sr1__dialect that the server is known to speak */
};

static void remote_engine_destroy(void *self)
{
    struct remote_engine *m = self;

    sr1__client_close(&m->client);
    sr1__service_wipe(m->authorization);
    sr1__free(m->url);
    sr1__free(m);
}

/* The requests for a batch: one request with all queries (each = n), or one request
 * for each query (each = 1). */
struct retrieve_requests {
    struct sr1__buf *bodies;              /* [n] */
    struct sr1__http_request *requests;   /* [n] */
    struct sr1__http_response *responses; /* [n] */
    size_t n;
    size_t each;
};

static void asking_free(struct retrieve_requests *a)
{
    for (size_t i = 0; a->bodies != NULL && i < a->n; i++)
        sr1__buf_free(&a->bodies[i]);
    for (size_t i = 0; a->responses != NULL && i < a->n; i++)
        sr1__http_response_free(&a->responses[i]);
    sr1__free(a->bodies);
    sr1__free(a->requests);
    sr1__free(a->responses);
}

static sr1_status make_requests(struct remote_engine *m, const char *const *headers,
                                enum sr1__dialect dialect, const char *const *queries,
                                size_t n, int32_t top_k, struct retrieve_requests *a)
{
    a->each = dialect == SR1__DIALECT_QUERY ? 1 : n;
    a->n = n / a->each;
    a->bodies = sr1__calloc(a->n, sizeof(*a->bodies));
    a->requests = sr1__calloc(a->n, sizeof(*a->requests));
    a->responses = sr1__calloc(a->n, sizeof(*a->responses));
    if (a->bodies == NULL || a->requests == NULL || a->responses == NULL)
        return sr1__fail_nomem("search request");
    for (size_t i = 0; i < a->n; i++) {
        struct sr1__buf *b = &a->bodies[i];

        sr1__buf_init(b, 0);
        SR1__TRY(sr1__retrieve_write(b, dialect, queries + i * a->each, a->each, top_k));
        a->requests[i] = (struct sr1__http_request){
            m->url, headers, m->authorization != NULL ? 3 : 2, sr1__buf_cstr(b), b->len};
    }
    return SR1_OK;
}

/* A server that is there, asked at a wrong address. The path is shown without what may
 * follow it: that can be secret. */
static sr1_status fail_wrong_path(const struct remote_engine *m,
                                  const struct sr1__http_response *r, size_t first,
                                  size_t n, sr1_search_sink *sink)
{
    const char *scheme = strstr(m->url, "://");
    const char *path = scheme ? scheme + 3 : m->url;
    struct sr1__buf b;
    sr1_status status;

    path += strcspn(path, "/?#");
    sr1__buf_init(&b, 0);
    sr1__service_explain(m->client.key, r, &b);
    sr1__buf_fmt(&b, "; it has no %.*s, and retrieval servers answer at /retrieve",
                 *path == '/' ? (int)strcspn(path, "?#") : 1, *path == '/' ? path : "/");
    status = sr1__buf_status(&b, "search message");
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status =
            sr1_search_sink_status(sink, first + i, SR1_ACTION_ERROR, sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return status;
}

static sr1_status take_response(struct remote_engine *m,
                                const struct sr1__http_response *r, size_t first,
                                size_t n, sr1_search_sink *sink)
{
    sr1_status status;

    if (r->code == HTTP_NOT_FOUND)
        return fail_wrong_path(m, r, first, n, sink);
    if (r->status != SR1_OK)
        return sr1__client_fail(&m->client, r, sink, first, n);
    status = sr1__retrieve_read(r->body.data, r->body.len, first, n, sink);
    if (status == SR1_OK)
        sr1__client_note_answer(&m->client);
    return sr1__client_fail_unreadable(m->origin, status, sink, first, n);
}

/* What became of asking in one dialect. */
enum batch_outcome { REQUEST_DONE, REQUEST_NEXT_DIALECT, REQUEST_HALVES };

/* Classify the first response: the server wants another dialect, or rejects the batch,
 * perhaps because of one query. */
static enum batch_outcome classify_response(struct remote_engine *m,
                                            enum sr1__dialect dialect,
                                            const struct retrieve_requests *a)
{
    const struct sr1__http_response *r = &a->responses[0];

    if (r->code == HTTP_UNPROCESSABLE && dialect + 1 < SR1__DIALECTS &&
        !atomic_load(&m->client.answered) &&
        sr1__retrieve_wants_next(r->body.data, r->body.len))
        return REQUEST_NEXT_DIALECT;
    if (a->each > 1 && r->status != SR1_OK && sr1__client_rejects(&m->client, r))
        return REQUEST_HALVES;
    return REQUEST_DONE;
}

static sr1_status send_batch_once(struct remote_engine *m, enum sr1__dialect dialect,
                                  const char *const *queries, size_t n,
                                  sr1_search_sink *sink, enum batch_outcome *asked)
{
    const char *headers[] = {"Content-Type: application/json", "Accept: application/json",
                             m->authorization};
    struct retrieve_requests a = {0};
    sr1_status status = make_requests(m, headers, dialect, queries, n, sink->top_k, &a);

    if (status == SR1_OK)
        status = sr1__http_run(m->client.http, a.requests, a.n, a.responses);
    if (status == SR1_OK)
        *asked = classify_response(m, dialect, &a);
    for (size_t i = 0; status == SR1_OK && *asked == REQUEST_DONE && i < a.n; i++)
        status = take_response(m, &a.responses[i], i * a.each, a.each, sink);
    if (status == SR1_OK && *asked == REQUEST_DONE && a.responses[0].status == SR1_OK)
        atomic_store(&m->dialect, (int)dialect);
    asking_free(&a);
    return status;
}

static sr1_status send_batch(struct remote_engine *m, enum sr1__dialect dialect,
                             const char *const *queries, size_t n, sr1_search_sink *sink);

/* Find which query it is. */
static sr1_status send_batch_halves(struct remote_engine *m, enum sr1__dialect dialect,
                                    const char *const *queries, size_t n,
                                    sr1_search_sink *sink)
{
    size_t half = n / 2;
    sr1_search_sink first = {sink->answers, half, sink->top_k};
    sr1_search_sink second = {sink->answers + half, n - half, sink->top_k};

    SR1__TRY(send_batch(m, dialect, queries, half, &first));
    return send_batch(m, dialect, queries + half, n - half, &second);
}

static sr1_status send_batch(struct remote_engine *m, enum sr1__dialect dialect,
                             const char *const *queries, size_t n, sr1_search_sink *sink)
{
    enum batch_outcome asked = REQUEST_DONE;

    SR1__TRY(send_batch_once(m, dialect, queries, n, sink, &asked));
    if (asked == REQUEST_NEXT_DIALECT)
        return send_batch(m, dialect + 1, queries, n, sink);
    return asked == REQUEST_HALVES ? send_batch_halves(m, dialect, queries, n, sink)
                                   : SR1_OK;
}

static sr1_status remote_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct remote_engine *m = self;

    (void)top_k; /* the sink's */
    if (n == 0)
        return SR1_OK;
    return send_batch(m, (enum sr1__dialect)atomic_load(&m->dialect), queries, n, sink);
}

static void remote_count(const void *self, sr1_search_counters *counters)
{
    const struct remote_engine *m = self;

    sr1__client_count(&m->client, counters);
}

static const sr1_search_ops remote_ops = {sizeof(sr1_search_ops), "remote", remote_search,
                                          remote_engine_destroy,
                                          SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS};

/* ---- opening ---- */

/* One search, so that a server that is not there is known before the work begins. */
static sr1_status probe_server(sr1_search *engine, const struct remote_engine *m)
{
    const char *query = "start-up probe";
    sr1_search_results *found = NULL;
    sr1_status status;
    int32_t how;

    SR1__TRY(sr1_search_run(engine, &query, 1, 1, &found));
    how = sr1_search_results_status(found, 0);
    if (sr1__search_is_failure(how))
        status = sr1__fail(how == SR1_ACTION_TIMEOUT ? SR1_E_TIMEOUT : SR1_E_NETWORK,
                           "%.600s; is a retrieval server running at %.200s?",
                           sr1_search_results_message(found, 0), m->origin);
    else
        status = SR1_OK;
    sr1_search_results_free(found);
    return status;
}

static sr1_status set_up_remote(struct remote_engine *m, const char *url,
                                const sr1_search_http_options *o)
{
    SR1__TRY(sr1__url_origin(url, "remote engine", m->origin));
    SR1__TRY(sr1__client_open(&m->client, o, o->key_env));
    m->url = sr1__strdup(url);
    if (m->url == NULL)
        return sr1__fail_nomem("remote engine");
    if (m->client.key != NULL)
        return sr1__service_bearer(&m->authorization, m->client.key);
    return SR1_OK;
}

sr1_status sr1_search_open_remote(sr1_search **out, const char *url,
                                  const sr1_search_http_options *options)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;
    struct remote_engine *m;
    sr1_status status;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "remote engine: out is NULL");
    SR1__TRY(sr1__client_options(&o, options));
    m = sr1__calloc(1, sizeof(*m));
    if (m == NULL)
        return sr1__fail_nomem("remote engine");
    status = set_up_remote(m, url, &o);
    if (status == SR1_OK)
        status = sr1__search_new_builtin(&engine, &remote_ops, m);
    if (status != SR1_OK) {
        remote_engine_destroy(m);
        return status;
    }
    sr1__search_set_count(engine, remote_count);
    sr1__search_set_origin(engine, sr1__client_origin(url, &o));
    status = o.probe ? probe_server(engine, m) : SR1_OK;
    if (status != SR1_OK)
        sr1_search_free(engine);
    else
        *out = engine;
    return status;
}
