/* retrieval/search/opensearch_engine.c - the engine over an index of OpenSearch or
 * Elasticsearch: a batch is one _msearch. Searches of it that the server puts off are
 * asked again, in one request too. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"
#include "retrieval/net/service.h"
#include "retrieval/search/http_engine.h"
#include "retrieval/search/msearch.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/search_engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define WHAT "opensearch engine"

struct opensearch {
    struct sr1__client client;
    struct sr1__text_fields fields;
    struct sr1__retry retry; /* of searches; the HTTP client has it too */
    uint64_t seed;
    atomic_llong calls; /* begun; each draws its waits from a stream of its own */
    char *url;
    char *authorization; /* header with the key; NULL: none */
    char origin[SR1__ORIGIN_MAX];
};

static void opensearch_destroy(void *self)
{
    struct opensearch *m = self;

    sr1__client_close(&m->client);
    sr1__service_wipe(m->authorization);
    sr1__text_fields_free(&m->fields);
    sr1__free(m->url);
    sr1__free(m);
}

/* ---- one batch ---- */

/* The searches of a call that are not settled yet: a sink of their own. */
struct msearch_call {
    struct opensearch *engine;
    const char **queries;
    struct sr1__query_result **answers;
    struct sr1__msearch_item *items;
    size_t n;
    int32_t top_k;
};

static struct sr1__http_request make_msearch_request(const struct opensearch *m,
                                                     const struct sr1__buf *body,
                                                     const char *headers[3])
{
    headers[0] = "Content-Type: application/x-ndjson";
    headers[1] = "Accept: application/json";
    headers[2] = m->authorization;
    return (struct sr1__http_request){.url = m->url,
                                      .headers = headers,
                                      .n_headers = m->authorization != NULL ? 3 : 2,
                                      .body = sr1__buf_cstr(body),
                                      .body_len = body->len};
}

/* End search i as the server says of it alone. */
static sr1_status fail_search(struct msearch_call *c, size_t i, sr1_search_sink *sink)
{
    const struct sr1__msearch_item *item = &c->items[i];
    struct sr1__http_response r = {
        .status = item->code == 504 ? SR1_E_TIMEOUT : SR1_E_NETWORK, .code = item->code};

    snprintf(r.message, sizeof(r.message), "%.80s: status %d: %.150s", c->engine->origin,
             (int)item->code, item->message);
    return sr1__client_fail(&c->engine->client, &r, sink, i, 1);
}

/* Settle the searches that were read, but for those that may be asked again. */
static sr1_status settle_searches(struct msearch_call *c, int again,
                                  sr1_search_sink *sink)
{
    size_t left = 0;

    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].code == 200)
            sr1__client_note_answer(&c->engine->client);
    for (size_t i = 0; i < c->n; i++) {
        if (again && sr1__retry_code(c->items[i].code)) {
            c->queries[left] = c->queries[i];
            c->answers[left++] = c->answers[i];
        } else if (c->items[i].code != 200 && c->items[i].code != 0) {
            SR1__TRY(fail_search(c, i, sink));
        }
    }
    c->n = left;
    return SR1_OK;
}

static sr1_status take_msearch_response(struct msearch_call *c,
                                        const struct sr1__http_response *r, int again)
{
    sr1_search_sink sink = {c->answers, c->n, c->top_k};
    size_t n = c->n;
    sr1_status st;

    if (r->status == SR1_OK) {
        st = sr1__msearch_read(r->body.data, r->body.len, &c->engine->fields, n, c->items,
                               &sink);
        if (st == SR1_OK)
            return settle_searches(c, again, &sink);
        c->n = 0;
        return sr1__client_fail_unreadable(c->engine->origin, st, &sink, 0, n);
    }
    c->n = 0;
    return sr1__client_fail(&c->engine->client, r, &sink, 0, n);
}

/* Ask for all that is not settled, after a wait. again: what the server puts off may be
 * asked once more. */
static sr1_status send_searches(struct msearch_call *c, double wait_s, int again)
{
    struct opensearch *m = c->engine;
    struct sr1__http_request request;
    struct sr1__http_response response;
    const char *headers[3];
    struct sr1__buf body;
    sr1_status st = SR1_OK;

    sr1__buf_init(&body, 0);
    for (size_t i = 0; i < c->n && st == SR1_OK; i++)
        st = sr1__msearch_write(&body, &m->fields, c->queries[i], c->top_k);
    if (st == SR1_OK) {
        request = make_msearch_request(m, &body, headers);
        request.wait_s = wait_s;
        st = sr1__http_run(m->client.http, &request, 1, &response);
        if (st == SR1_OK) {
            st = take_msearch_response(c, &response, again);
            sr1__http_response_free(&response);
        }
    }
    sr1__buf_free(&body);
    return st;
}

static sr1_status send_until_settled(struct msearch_call *c)
{
    const struct sr1__retry *retry = &c->engine->retry;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, c->engine->seed,
                  (uint64_t)atomic_fetch_add(&c->engine->calls, 1));
    SR1__TRY(send_searches(c, 0, retry->retries > 0));
    for (int32_t k = 0; k < retry->retries && c->n > 0; k++)
        SR1__TRY(
            send_searches(c, sr1__retry_wait(retry, k, 0, &rng), k + 1 < retry->retries));
    return SR1_OK;
}

static sr1_status opensearch_search(void *self, const char *const *queries, size_t n,
                                    int32_t top_k, sr1_search_sink *sink)
{
    struct msearch_call c = {.engine = self, .n = n, .top_k = top_k};
    sr1_status st;

    if (n == 0)
        return SR1_OK;
    c.queries = sr1__calloc(n, sizeof(*c.queries));
    c.answers = sr1__calloc(n, sizeof(*c.answers));
    c.items = sr1__calloc(n, sizeof(*c.items));
    st = c.queries && c.answers && c.items ? SR1_OK : sr1__fail_nomem("search request");
    if (st == SR1_OK) {
        memcpy((void *)c.queries, (const void *)queries, n * sizeof(*c.queries));
        memcpy((void *)c.answers, (const void *)sink->answers, n * sizeof(*c.answers));
        st = send_until_settled(&c);
    }
    sr1__free((void *)c.queries);
    sr1__free((void *)c.answers);
    sr1__free(c.items);
    return st;
}

static void opensearch_count(const void *self, sr1_search_counters *counters)
{
    const struct opensearch *m = self;

    sr1__client_count(&m->client, counters);
}

static const sr1_search_ops opensearch_ops = {sizeof(sr1_search_ops), "opensearch",
                                              opensearch_search, opensearch_destroy,
                                              SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS};

/* ---- opening ---- */

/* One search, as those to come, and for each field one for a document that has it. */
static sr1_status write_index_probe(const struct opensearch *m, struct sr1__buf *b)
{
    SR1__TRY(sr1__msearch_write(b, &m->fields, "start-up probe", 1));
    for (size_t i = 0; i < m->fields.n; i++)
        SR1__TRY(sr1__msearch_write_exists(b, m->fields.named[i]));
    return SR1_OK;
}

static sr1_status check_probed_item(const struct opensearch *m,
                                    const struct sr1__msearch_item *item,
                                    const struct sr1__query_result *found, size_t i)
{
    if (item->code == 401 || item->code == 403 || item->code == 404 || item->code == 400)
        return sr1__fail(SR1_E_CONFIG, "%.150s: status %d: %.256s", m->origin,
                         (int)item->code, item->message);
    if (item->code != 200)
        return sr1__fail(SR1_E_NETWORK, "%.150s: status %d: %.256s", m->origin,
                         (int)item->code, item->message);
    if (i > 0 && sr1__query_result_hit_count(found) == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "%.150s: no document of the index has a field '%.100s'; name "
                         "the fields with its texts (opensearch_fields)",
                         m->origin, m->fields.named[i - 1]);
    return SR1_OK;
}

static sr1_status read_index_probe(struct opensearch *m,
                                   const struct sr1__http_response *r)
{
    struct sr1__msearch_item items[SR1__TEXT_FIELDS_MAX + 1];
    struct sr1__query_result *answers[SR1__TEXT_FIELDS_MAX + 1] = {NULL};
    size_t n = m->fields.n + 1;
    sr1_search_sink sink = {answers, n, 1};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1__query_result_new(&answers[i]);
    if (st == SR1_OK)
        st = sr1__context(
            sr1__msearch_read(r->body.data, r->body.len, NULL, n, items, &sink), "%.150s",
            m->origin);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = check_probed_item(m, &items[i], answers[i], i);
    for (size_t i = 0; i < n; i++)
        sr1__query_result_free(answers[i]);
    return st;
}

static sr1_status probe_index(struct opensearch *m)
{
    struct sr1__http_response response = {0};
    struct sr1__http_request request;
    const char *headers[3];
    struct sr1__buf body;
    sr1_status st;

    sr1__buf_init(&body, 0);
    st = write_index_probe(m, &body);
    if (st == SR1_OK) {
        request = make_msearch_request(m, &body, headers);
        st = sr1__client_probe(&m->client, &request, m->origin,
                               "OpenSearch or Elasticsearch", &response);
    }
    if (st == SR1_OK)
        st = read_index_probe(m, &response);
    if (st == SR1_OK)
        sr1__client_note_answer(&m->client);
    sr1__http_response_free(&response);
    sr1__buf_free(&body);
    return st;
}

/* An API key as Elasticsearch encodes it has no colon. */
static sr1_status make_authorization(struct opensearch *m)
{
    const char *key = m->client.key;

    if (key == NULL)
        return SR1_OK;
    return strchr(key, ':') != NULL
               ? sr1__service_basic(&m->authorization, key)
               : sr1__service_header(&m->authorization, "Authorization: ApiKey ", key);
}

static sr1_status set_up_opensearch(struct opensearch *m, const char *url,
                                    const sr1_search_http_options *o)
{
    SR1__TRY(sr1__client_address(&m->url, m->origin, url, WHAT, "/_msearch"));
    SR1__TRY(
        sr1__text_fields_read(&m->fields, o->fields != NULL ? o->fields : "contents"));
    SR1__TRY(sr1__client_open(&m->client, o, o->key_env));
    m->client.key_name = "opensearch_api_key_env";
    m->retry = (struct sr1__retry){o->retries, o->retry_first_s, o->retry_max_s,
                                   o->retry_after_max_s};
    m->seed = o->seed;
    SR1__TRY(make_authorization(m));
    return o->probe ? probe_index(m) : SR1_OK;
}

sr1_status sr1_search_open_opensearch(sr1_search **out, const char *url,
                                      const sr1_search_http_options *options)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;
    struct opensearch *m;
    sr1_status st;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, WHAT ": out is NULL");
    SR1__TRY(sr1__client_options(&o, options));
    SR1__CALLOC(m, 1, WHAT);
    st = set_up_opensearch(m, url, &o);
    if (st == SR1_OK)
        st = sr1__search_new_builtin(&engine, &opensearch_ops, m);
    if (st != SR1_OK) {
        opensearch_destroy(m);
        return st;
    }
    sr1__search_set_count(engine, opensearch_count);
    sr1__search_set_origin(engine, sr1__client_origin(url, &o));
    *out = engine;
    return SR1_OK;
}
