/* retrieval/search/point_query.c - write and read Qdrant's points/query/batch.
 *
 *     POST /collections/NAME/points/query/batch
 *     {"searches":[{"query":[0.1,...],"limit":3,"with_payload":["contents"]}, ...]}
 * is answered by
 *     {"result":[{"points":[{"id":7,"version":0,"score":0.9,
 *                            "payload":{"contents":"..."}}, ...]}, ...],
 *      "status":"ok","time":0.0003} */
#include "retrieval/search/point_query.h"

#include "base/mem.h"
#include "base/num.h"
#include "retrieval/search/json_hit.h"

#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

/* Members of the payload that a hit is made of. */
static json_t *list_payload(const struct sr1__point_query *q)
{
    json_t *list = sr1__text_fields_list(&q->fields);

    if (*q->id_field && json_array_append_new(list, json_string(q->id_field)) != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* What all searches of a request have: ,"limit":3,...} */
static sr1_status write_shared_members(struct sr1__buf *b,
                                       const struct sr1__point_query *q, int32_t top_k)
{
    json_t *o =
        json_pack("{s:i, s:o}", "limit", (int)top_k, "with_payload", list_payload(q));
    struct sr1__buf text;
    sr1_status st;

    if (o && *q->vector && json_object_set_new(o, "using", json_string(q->vector)) != 0) {
        json_decref(o);
        o = NULL;
    }
    SR1__CHECK_ALLOC(o, "search request");
    sr1__buf_init(&text, 0);
    st = sr1__json_dump(o, 0, &text);
    json_decref(o);
    if (st == SR1_OK) {
        sr1__buf_char(b, ',');
        sr1__buf_add(b, text.data + 1, text.len - 1);
    }
    sr1__buf_free(&text);
    return st == SR1_OK ? sr1__buf_status(b, "search request") : st;
}

static void write_vector(struct sr1__buf *b, const float *v, size_t dim)
{
    char number[32];

    sr1__buf_str(b, "{\"query\":[");
    for (size_t i = 0; i < dim; i++) {
        sr1__format_float(v[i], number);
        if (i > 0)
            sr1__buf_char(b, ',');
        sr1__buf_str(b, number);
    }
    sr1__buf_char(b, ']');
}

sr1_status sr1__points_write(struct sr1__buf *b, const struct sr1__point_query *q,
                             const float *vectors, size_t n, size_t dim, int32_t top_k)
{
    struct sr1__buf shared;
    sr1_status st;

    sr1__buf_init(&shared, 0);
    st = write_shared_members(&shared, q, top_k);
    sr1__buf_str(b, "{\"searches\":[");
    for (size_t i = 0; st == SR1_OK && i < n; i++) {
        if (i > 0)
            sr1__buf_char(b, ',');
        write_vector(b, vectors + i * dim, dim);
        sr1__buf_add(b, shared.data, shared.len);
    }
    sr1__buf_str(b, "]}");
    sr1__buf_free(&shared);
    return st == SR1_OK ? sr1__buf_status(b, "search request") : st;
}

/* ---- the answer ---- */

static sr1_status read_point(const json_t *point, const struct sr1__point_query *q,
                             size_t query, size_t rank, sr1_search_sink *sink)
{
    const json_t *payload = json_object_get(point, "payload");
    const json_t *score = json_object_get(point, "score");
    json_t *near = q->by_distance && json_is_number(score)
                       ? json_real(-json_number_value(score))
                       : NULL;
    struct sr1__json_hit h = {json_object_get(point, "id"), near ? near : score, payload,
                              rank};
    struct sr1__buf contents;
    sr1_status st;

    if (*q->id_field)
        h.id = sr1__json_at(payload, q->id_field);
    sr1__buf_init(&contents, 0);
    if (*q->id_field && !json_is_string(h.id) && !json_is_integer(h.id))
        st = sr1__fail(SR1_E_PARSE, "hit %zu has no '%.64s' in its payload", rank,
                       q->id_field);
    else if (!sr1__text_fields_append(&q->fields, payload, &contents))
        st = sr1__fail(SR1_E_PARSE, "hit %zu has none of the fields asked for", rank);
    else
        st = sr1__json_hit_give(&h, &contents, query, sink);
    sr1__buf_free(&contents);
    json_decref(near);
    return st;
}

static sr1_status read_point_list(const json_t *points, const struct sr1__point_query *q,
                                  size_t query, sr1_search_sink *sink)
{
    const json_t *point;
    size_t k;

    if (!json_is_array(points))
        return sr1__fail(SR1_E_PARSE, "its points are no list");
    json_array_foreach((json_t *)points, k, point)
        SR1__TRY(read_point(point, q, query, k + 1, sink));
    return SR1_OK;
}

/* A list that cannot be read fails its own query only. */
static sr1_status read_nearest(const json_t *points, const struct sr1__point_query *q,
                               size_t query, sr1_search_sink *sink)
{
    sr1_status st = read_point_list(points, q, query, sink);
    char text[SR1__ERROR_MAX];

    if (st == SR1_OK || st == SR1_E_NOMEM)
        return st;
    snprintf(text, sizeof(text), "the answer cannot be read: %.900s", sr1_last_error());
    return sr1_search_sink_status(sink, query, SR1_ACTION_ERROR, text);
}

static sr1_status read_batch(const json_t *result, const struct sr1__point_query *q,
                             size_t n, sr1_search_sink *sink)
{
    if (!json_is_array(result))
        return sr1__fail(SR1_E_PARSE, "the answer has no list 'result'");
    if (json_array_size(result) != n)
        return sr1__fail(SR1_E_PARSE, "the answer has %zu results for %zu vectors",
                         json_array_size(result), n);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(read_nearest(json_object_get(json_array_get(result, i), "points"), q, i,
                              sink));
    return SR1_OK;
}

sr1_status sr1__points_read(const char *text, size_t len,
                            const struct sr1__point_query *q, size_t n,
                            sr1_search_sink *sink)
{
    json_t *answer = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse_loose(&answer, text, len, "the answer"));
    st = read_batch(json_object_get(answer, "result"), q, n, sink);
    json_decref(answer);
    return st;
}

/* ---- the collection ---- */

static void list_vector_names(const json_t *vectors, char names[256])
{
    size_t used = 0;
    const char *name;
    json_t *v;

    names[0] = '\0';
    json_object_foreach((json_t *)vectors, name, v)
    {
        int k = json_is_object(v) ? snprintf(names + used, 256 - used, "%s%.60s",
                                             used > 0 ? ", " : "", name)
                                  : 0;

        if (k < 0 || (size_t)k >= 256 - used) {
            names[used] = '\0';
            return;
        }
        used += (size_t)k;
    }
}

static int is_distance(const json_t *vectors)
{
    const char *name = json_string_value(json_object_get(vectors, "distance"));

    return name && (strcmp(name, "Euclid") == 0 || strcmp(name, "Manhattan") == 0);
}

static void describe_vectors(const json_t *result, const char *vector,
                             struct sr1__point_vectors *out)
{
    const json_t *vectors = sr1__json_at(result, "config.params.vectors");
    const json_t *points = json_object_get(result, "points_count");
    const json_t *one = *vector ? json_object_get(vectors, vector) : vectors;

    list_vector_names(vectors, out->names);
    out->size = json_integer_value(json_object_get(one, "size"));
    out->by_distance = is_distance(one);
    out->points = json_is_integer(points) ? json_integer_value(points) : -1;
}

sr1_status sr1__points_read_collection(const char *text, size_t len, const char *vector,
                                       struct sr1__point_vectors *out)
{
    json_t *answer = NULL;
    const json_t *result;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__json_parse_loose(&answer, text, len, "the answer"));
    result = json_object_get(answer, "result");
    if (json_is_object(sr1__json_at(result, "config.params")))
        describe_vectors(result, vector, out);
    else
        st = sr1__fail(SR1_E_PARSE, "this describes no collection");
    json_decref(answer);
    return st;
}
