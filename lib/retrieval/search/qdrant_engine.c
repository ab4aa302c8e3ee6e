/* retrieval/search/qdrant_engine.c - the engine over a collection of Qdrant: an embedder
 * here makes the vectors of a batch, one request asks for the points nearest to them. */
#include <searchr1/search.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "retrieval/net/service.h"
#include "retrieval/search/embed.h"
#include "retrieval/search/http_engine.h"
#include "retrieval/search/point_query.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

#define WHAT "qdrant engine"

struct qdrant {
    struct sr1__client client;
    struct sr1__point_query query;
    sr1_embedder *embedder;
    char *collection; /* URLs */
    char *url;
    char *api_key; /* header with the key; NULL: none */
    char origin[SR1__ORIGIN_MAX];
};

static void qdrant_destroy(void *self)
{
    struct qdrant *m = self;

    sr1__client_close(&m->client);
    sr1__service_wipe(m->api_key);
    sr1__text_fields_free(&m->query.fields);
    sr1__free(m->query.vector);
    sr1__free(m->query.id_field);
    sr1_embedder_free(m->embedder);
    sr1__free(m->collection);
    sr1__free(m->url);
    sr1__free(m);
}

/* ---- one batch ---- */

/* body NULL: GET. */
static struct sr1__http_request make_qdrant_request(const struct qdrant *m,
                                                    const char *url,
                                                    const struct sr1__buf *body,
                                                    const char *headers[3])
{
    headers[0] = "Accept: application/json";
    headers[1] = "Content-Type: application/json";
    headers[2] = m->api_key;
    return (struct sr1__http_request){
        .url = url,
        .headers = headers,
        .n_headers = m->api_key != NULL ? 3 : 2,
        .body = body != NULL ? sr1__buf_cstr(body) : NULL,
        .body_len = body != NULL ? body->len : 0,
    };
}

static sr1_status take_qdrant_response(struct qdrant *m,
                                       const struct sr1__http_response *r, size_t n,
                                       sr1_search_sink *sink)
{
    sr1_status st;

    if (r->status != SR1_OK)
        return sr1__client_fail(&m->client, r, sink, 0, n);
    st = sr1__points_read(r->body.data, r->body.len, &m->query, n, sink);
    if (st == SR1_OK)
        sr1__client_note_answer(&m->client);
    return sr1__client_fail_unreadable(m->origin, st, sink, 0, n);
}

static sr1_status send_vectors(struct qdrant *m, const float *vectors, size_t n,
                               int32_t top_k, sr1_search_sink *sink)
{
    struct sr1__http_request request;
    struct sr1__http_response response;
    const char *headers[3];
    struct sr1__buf body;
    sr1_status st;

    sr1__buf_init(&body, 0);
    st = sr1__points_write(&body, &m->query, vectors, n,
                           (size_t)sr1_embedder_dim(m->embedder), top_k);
    if (st == SR1_OK) {
        request = make_qdrant_request(m, m->url, &body, headers);
        st = sr1__http_run(m->client.http, &request, 1, &response);
        if (st == SR1_OK) {
            st = take_qdrant_response(m, &response, n, sink);
            sr1__http_response_free(&response);
        }
    }
    sr1__buf_free(&body);
    return st;
}

static sr1_status qdrant_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct qdrant *m = self;
    float *vectors;
    sr1_status st;

    if (n == 0)
        return SR1_OK;
    vectors = sr1__calloc(n, (size_t)sr1_embedder_dim(m->embedder) * sizeof(*vectors));
    SR1__CHECK_ALLOC(vectors, "vectors");
    st = sr1_embedder_embed(m->embedder, queries, n, SR1_EMBED_QUERY, vectors);
    if (st == SR1_OK)
        st = send_vectors(m, vectors, n, top_k, sink);
    sr1__free(vectors);
    return st;
}

static void qdrant_count(const void *self, sr1_search_counters *counters)
{
    const struct qdrant *m = self;

    sr1__client_count(&m->client, counters);
}

static const sr1_search_ops qdrant_ops = {sizeof(sr1_search_ops), "qdrant", qdrant_search,
                                          qdrant_destroy,
                                          SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS};

/* ---- opening ---- */

static sr1_status check_collection(struct qdrant *m, const struct sr1__point_vectors *v)
{
    const char *name = m->query.vector;
    int32_t dim = sr1_embedder_dim(m->embedder);

    if (v->size == 0 && *name == '\0')
        return sr1__fail(SR1_E_CONFIG,
                         "the vectors of the collection have names; choose one of them "
                         "(qdrant_vector): %.256s",
                         v->names);
    if (v->size == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "the collection has no vector '%.100s' (qdrant_vector); it has "
                         "%.256s",
                         name, *v->names ? v->names : "one without a name");
    if (v->size != dim)
        return sr1__fail(SR1_E_CONFIG,
                         "the collection has vectors of %lld numbers, embedder '%.200s' "
                         "makes %d; use the encoder that made them",
                         (long long)v->size, sr1_embedder_name(m->embedder), (int)dim);
    if (v->points == 0)
        return sr1__fail(SR1_E_CONFIG, "the collection is empty");
    m->query.by_distance = v->by_distance;
    return SR1_OK;
}

static sr1_status probe_collection(struct qdrant *m)
{
    struct sr1__http_response response;
    struct sr1__point_vectors v = {0};
    const char *headers[3];
    struct sr1__http_request request =
        make_qdrant_request(m, m->collection, NULL, headers);
    sr1_status st =
        sr1__client_probe(&m->client, &request, m->origin, "a Qdrant server", &response);

    if (st == SR1_OK)
        st = sr1__points_read_collection(response.body.data, response.body.len,
                                         m->query.vector, &v);
    if (st == SR1_OK)
        st = sr1__context(check_collection(m, &v), "%.300s", m->collection);
    sr1__http_response_free(&response);
    return st;
}

static sr1_status read_qdrant_options(struct qdrant *m, const sr1_search_http_options *o)
{
    SR1__TRY(sr1__text_fields_read(&m->query.fields,
                                   o->fields != NULL ? o->fields : "contents"));
    m->query.vector = sr1__strdup(o->vector != NULL ? o->vector : "");
    m->query.id_field = sr1__strdup(o->id_field != NULL ? o->id_field : "");
    SR1__CHECK_ALLOC(m->query.vector && m->query.id_field, WHAT);
    if (sr1__utf8_valid(m->query.vector, strlen(m->query.vector)) &&
        sr1__utf8_valid(m->query.id_field, strlen(m->query.id_field)))
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID, WHAT ": vector and id_field must be UTF-8");
}

static sr1_status set_up_qdrant(struct qdrant *m, const char *url, sr1_embedder *embedder,
                                const sr1_search_http_options *o)
{
    SR1__TRY(sr1__client_address(&m->collection, m->origin, url, WHAT, ""));
    if (strstr(m->collection, "/collections/") == NULL)
        return sr1__fail(SR1_E_INVALID, WHAT ": the address is %.150s/collections/NAME",
                         m->origin);
    SR1__TRY(sr1__client_address(&m->url, m->origin, url, WHAT, "/points/query/batch"));
    SR1__TRY(read_qdrant_options(m, o));
    SR1__TRY(sr1__client_open(&m->client, o, o->key_env));
    m->client.key_name = "qdrant_api_key_env";
    if (m->client.key != NULL)
        SR1__TRY(sr1__service_header(&m->api_key, "api-key: ", m->client.key));
    m->embedder = sr1_embedder_retain(embedder);
    return o->probe ? probe_collection(m) : SR1_OK;
}

sr1_status sr1_search_open_qdrant(sr1_search **out, const char *url,
                                  sr1_embedder *embedder,
                                  const sr1_search_http_options *options)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;
    struct qdrant *m;
    sr1_status st;

    if (out == NULL || embedder == NULL)
        return sr1__fail(SR1_E_INVALID, WHAT ": out and embedder are required");
    SR1__TRY(sr1__client_options(&o, options));
    SR1__CALLOC(m, 1, WHAT);
    st = set_up_qdrant(m, url, embedder, &o);
    if (st == SR1_OK)
        st = sr1__search_new_builtin(&engine, &qdrant_ops, m);
    if (st != SR1_OK) {
        qdrant_destroy(m);
        return st;
    }
    sr1__search_set_count(engine, qdrant_count);
    sr1__search_set_origin(engine,
                           sr1__embedder_origin(embedder, sr1__client_origin(url, &o)));
    *out = engine;
    return SR1_OK;
}
