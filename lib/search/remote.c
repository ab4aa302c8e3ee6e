/* search/remote.c - the engine over a /retrieve server: a batch is one request. */
#include <searchr1/search.h>

#include "base/mem.h"
#include "net/service.h"
#include "search/answer.h"
#include "search/client.h"
#include "search/engine.h"
#include "search/retrieve.h"

#include <stdio.h>

struct remote {
    struct sr1__client client;
    char *url;
    char origin[SR1__ORIGIN_MAX];
    char *authorization; /* header with the key; NULL: none */
};

static void remote_destroy(void *self)
{
    struct remote *m = self;

    sr1__client_close(&m->client);
    sr1__service_wipe(m->authorization);
    sr1__free(m->url);
    sr1__free(m);
}

static sr1_status post(struct remote *m, const struct sr1__buf *body,
                       struct sr1__http_response *response)
{
    const char *headers[] = {"Content-Type: application/json", "Accept: application/json",
                             m->authorization};
    struct sr1__http_request request = {m->url, headers, m->authorization != NULL ? 3 : 2,
                                        sr1__buf_cstr(body), body->len};

    return sr1__http_run(m->client.http, &request, 1, response);
}

/* An answer that cannot be read is the server's failure, not the caller's. */
static sr1_status unreadable(const struct remote *m, sr1_status status, size_t n,
                             sr1_search_sink *sink)
{
    char text[SR1__ERROR_MAX];

    if (status != SR1_E_PARSE)
        return status;
    snprintf(text, sizeof text, "%.150s: %.800s", m->origin, sr1_last_error());
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_status(sink, i, SR1_SEARCH_ERROR, text));
    return SR1_OK;
}

static sr1_status remote_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct remote *m = self;
    struct sr1__http_response response;
    struct sr1__buf body;
    sr1_status status;

    sr1__buf_init(&body, 0);
    status = sr1__retrieve_write(&body, queries, n, top_k);
    if (status == SR1_OK)
        status = post(m, &body, &response);
    sr1__buf_free(&body);
    SR1__TRY(status);
    if (response.status != SR1_OK) {
        status = sr1__client_fail(&m->client, &response, sink, 0, n);
    } else {
        status = sr1__retrieve_read(response.body.data, response.body.len, n, sink);
        status = unreadable(m, status, n, sink);
    }
    sr1__http_response_free(&response);
    return status;
}

static void remote_count(const void *self, sr1_search_counters *counters)
{
    const struct remote *m = self;

    sr1__client_count(&m->client, counters);
}

static const sr1_search_ops remote_ops = {sizeof(sr1_search_ops), "remote", remote_search,
                                          remote_destroy,
                                          SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS};

/* ---- opening ---- */

/* One search, so that a server that is not there is known before the work begins. */
static sr1_status probe(sr1_search *engine, const struct remote *m)
{
    const char *query = "start-up probe";
    sr1_search_results *found = NULL;
    sr1_status status;
    int32_t how;

    SR1__TRY(sr1_search_run(engine, &query, 1, 1, &found));
    how = sr1_search_results_status(found, 0);
    if (sr1__search_is_failure(how))
        status = sr1__fail(how == SR1_SEARCH_TIMEOUT ? SR1_E_TIMEOUT : SR1_E_NETWORK,
                           "%.600s; is a retrieval server running at %.200s?",
                           sr1_search_results_message(found, 0), m->origin);
    else
        status = SR1_OK;
    sr1_search_results_free(found);
    return status;
}

static sr1_status set_up(struct remote *m, const char *url,
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
    struct remote *m;
    sr1_status status;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "remote engine: out is NULL");
    SR1__TRY(sr1__client_options(&o, options));
    m = sr1__calloc(1, sizeof(*m));
    if (m == NULL)
        return sr1__fail_nomem("remote engine");
    status = set_up(m, url, &o);
    if (status == SR1_OK)
        status = sr1__search_new_builtin(&engine, &remote_ops, m);
    if (status != SR1_OK) {
        remote_destroy(m);
        return status;
    }
    sr1__search_set_count(engine, remote_count);
    status = o.probe ? probe(engine, m) : SR1_OK;
    if (status != SR1_OK)
        sr1_search_free(engine);
    else
        *out = engine;
    return status;
}
