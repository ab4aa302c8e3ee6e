/* retrieval/search/web.c - the engine over a web search service: a query is one request,
 * all of a batch under way together as far as the limits allow. */
#include <searchr1/search.h>

#include "base/mem.h"
#include "retrieval/net/service.h"
#include "retrieval/search/http_engine.h"
#include "retrieval/search/search_engine.h"
#include "retrieval/search/web_providers.h"

#include <stdio.h>
#include <string.h>

/* Queries that the service may turn down before it has answered one: nothing is asked at
 * opening, so it may be asked wrongly. */
#define GRACE 16

struct web {
    const struct sr1__web_provider *provider;
    struct sr1__client client;
    char *url;
    char *engine_id;  /* "" when there is none */
    char *key_header; /* NULL: the key does not travel in one */
    char origin[SR1__ORIGIN_MAX];
};

/* The request of one query. */
struct web_query {
    struct sr1__buf url;
    struct sr1__buf body;
    const char *headers[3];
};

static void web_destroy(void *self)
{
    struct web *w = self;

    sr1__client_close(&w->client);
    sr1__service_wipe(w->key_header);
    sr1__free(w->engine_id);
    sr1__free(w->url);
    sr1__free(w);
}

/* ---- one batch ---- */

static sr1_status write_question(const struct web *w, const char *query, int32_t top_k,
                                 struct web_query *q)
{
    SR1__TRY(sr1__web_write_url(&q->url, w->provider, w->url, query, top_k, w->client.key,
                                w->engine_id));
    if (!w->provider->post)
        return SR1_OK;
    return sr1__web_write_body(&q->body, w->provider, query, top_k);
}

static sr1_status put_question(const struct web *w, const char *query, int32_t top_k,
                               struct web_query *q, struct sr1__http_request *request)
{
    char *cut = sr1__strndup(query, sr1__web_query_length(w->provider, query));
    sr1_status status;
    size_t n = 0;

    sr1__buf_init(&q->url, 0);
    sr1__buf_init(&q->body, 0);
    q->headers[n++] = "Accept: application/json";
    if (w->provider->post)
        q->headers[n++] = "Content-Type: application/json";
    if (w->key_header != NULL)
        q->headers[n++] = w->key_header;
    status = cut != NULL ? write_question(w, cut, top_k, q) : sr1__fail_nomem("query");
    sr1__free(cut);
    *request = (struct sr1__http_request){
        .url = sr1__buf_cstr(&q->url),
        .headers = q->headers,
        .n_headers = n,
        .body = w->provider->post ? sr1__buf_cstr(&q->body) : NULL,
        .body_len = q->body.len,
    };
    return status;
}

static void free_questions(struct web_query *q, size_t n)
{
    for (size_t i = 0; q != NULL && i < n; i++) {
        if (q[i].url.len > 0) /* it may hold the key */
            explicit_bzero(q[i].url.data, q[i].url.len);
        sr1__buf_free(&q[i].url);
        sr1__buf_free(&q[i].body);
    }
    sr1__free(q);
}

/* One query's response. An answer that cannot be read becomes a failure of the service,
 * told together with what it said. */
static sr1_status take_web_response(struct web *w, struct sr1__http_response *r, size_t i,
                                    sr1_search_sink *sink)
{
    sr1_status status;

    if (r->status != SR1_OK)
        return sr1__client_fail(&w->client, r, sink, i, 1);
    status = sr1__web_read(w->provider, r->body.data, r->body.len, i, sink);
    if (status == SR1_OK)
        sr1__client_note_answer(&w->client);
    if (status == SR1_OK || status == SR1_E_NOMEM)
        return status;
    r->status = SR1_E_NETWORK;
    snprintf(r->message, sizeof(r->message), "%.100s: %.140s", w->origin,
             sr1_last_error());
    return sr1__client_fail(&w->client, r, sink, i, 1);
}

static sr1_status send_web_requests(struct web *w,
                                    const struct sr1__http_request *requests,
                                    struct sr1__http_response *responses, size_t n,
                                    sr1_search_sink *sink)
{
    sr1_status status = sr1__http_run(w->client.http, requests, n, responses);

    for (size_t i = 0; i < n; i++) {
        if (status == SR1_OK)
            status = take_web_response(w, &responses[i], i, sink);
        sr1__http_response_free(&responses[i]);
    }
    return status;
}

static sr1_status web_search(void *self, const char *const *queries, size_t n,
                             int32_t top_k, sr1_search_sink *sink)
{
    struct web *w = self;
    struct web_query *q = sr1__calloc(n + 1, sizeof(*q));
    struct sr1__http_request *requests = sr1__calloc(n + 1, sizeof(*requests));
    struct sr1__http_response *responses = sr1__calloc(n + 1, sizeof(*responses));
    sr1_status status = q != NULL && requests != NULL && responses != NULL
                            ? SR1_OK
                            : sr1__fail_nomem("search requests");

    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = put_question(w, queries[i], top_k, &q[i], &requests[i]);
    if (status == SR1_OK)
        status = send_web_requests(w, requests, responses, n, sink);
    free_questions(q, n);
    sr1__free(requests);
    sr1__free(responses);
    return status;
}

static void web_count(const void *self, sr1_search_counters *counters)
{
    const struct web *w = self;

    sr1__client_count(&w->client, counters);
}

/* ---- opening ---- */

const char *sr1_search_web_provider(size_t i)
{
    const struct sr1__web_provider *p = sr1__web_provider_at(i);

    return p != NULL ? p->name : NULL;
}

static sr1_status find_provider(const char *name, const struct sr1__web_provider **out)
{
    *out = name != NULL ? sr1__web_provider_find(name) : NULL;
    if (*out != NULL)
        return SR1_OK;
    return sr1__fail_unknown("web search", name != NULL ? name : "(null)",
                             sr1_search_web_provider);
}

static const char *or_else(const char *given, const char *otherwise)
{
    return given != NULL && *given != '\0' ? given : otherwise;
}

static sr1_status make_key_header(struct web *w)
{
    if (w->provider->key_header == NULL || w->client.key == NULL)
        return SR1_OK;
    return sr1__service_header(&w->key_header, w->provider->key_header, w->client.key);
}

static sr1_status set_up_web(struct web *w, const sr1_search_http_options *o)
{
    const char *url = or_else(o->url, w->provider->url);
    const char *id = or_else(o->engine_id, "");

    if (url == NULL)
        return sr1__fail(SR1_E_CONFIG, "it needs a URL of your own instance");
    if (w->provider->needs_engine_id && *id == '\0')
        return sr1__fail(SR1_E_CONFIG, "it needs an engine id (Google's cx)");
    SR1__TRY(sr1__url_origin(url, "web search", w->origin));
    SR1__TRY(sr1__client_open(&w->client, o, or_else(o->key_env, w->provider->key_env)));
    w->client.grace = GRACE;
    w->url = sr1__strdup(url);
    w->engine_id = sr1__strdup(id);
    SR1__CHECK_ALLOC(w->url && w->engine_id, "web search");
    return make_key_header(w);
}

static sr1_status new_web_engine(sr1_search **out, struct web *w)
{
    const sr1_search_ops ops = {sizeof(ops), w->provider->name, web_search, web_destroy,
                                SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS |
                                    SR1_SEARCH_WAITS};

    SR1__TRY(sr1__search_new_builtin(out, &ops, w));
    sr1__search_set_count(*out, web_count);
    return SR1_OK;
}

sr1_status sr1_search_open_web(sr1_search **out, const char *provider,
                               const sr1_search_http_options *options)
{
    const struct sr1__web_provider *p = NULL;
    sr1_search_http_options o;
    struct web *w;
    sr1_status status;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "web search: out is NULL");
    SR1__TRY(find_provider(provider, &p));
    SR1__TRY(sr1__client_options(&o, options));
    SR1__CALLOC(w, 1, "web search");
    w->provider = p;
    status = sr1__context(set_up_web(w, &o), "web search '%s'", p->name);
    if (status == SR1_OK)
        status = new_web_engine(out, w);
    if (status != SR1_OK) {
        web_destroy(w);
        return status;
    }
    sr1__search_set_origin(*out, sr1__client_origin(w->url, &o));
    return SR1_OK;
}
