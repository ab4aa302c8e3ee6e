/* retrieval/search/msearch.c - write and read _msearch of OpenSearch and Elasticsearch.
 *
 *     POST /INDEX/_msearch
 *     {}
 *     {"size":3,"query":{"match":{"contents":"..."}},"_source":["contents"]}
 *     ...
 * is answered by
 *     {"took":2, "responses":[
 *       {"took":1, "timed_out":false, "_shards":{"total":1,"failed":0, ...},
 *        "hits":{"total":{"value":7,"relation":"eq"}, "max_score":2.5, "hits":[
 *          {"_index":"wiki","_id":"7","_score":2.5,"_source":{"contents":"..."}}, ...]},
 *        "status":200},
 *       {"error":{"root_cause":[...],"type":"...","reason":"..."},"status":400}, ...]} */
#include "retrieval/search/msearch.h"

#include "base/mem.h"
#include "retrieval/search/json_hit.h"

#include <stdio.h>

/* ---- the request ---- */

/* Takes the body of a search over; NULL: there was no memory for it. */
static sr1_status append_search(struct sr1__buf *b, json_t *body)
{
    sr1_status st;

    SR1__CHECK_ALLOC(body, "search request");
    sr1__buf_str(b, "{}\n");
    st = sr1__json_dump(body, 0, b);
    sr1__buf_char(b, '\n');
    json_decref(body);
    return st == SR1_OK ? sr1__buf_status(b, "search request") : st;
}

static json_t *match_fields(const struct sr1__text_fields *f, const char *query)
{
    if (f->n == 1)
        return json_pack("{s:{s:s}}", "match", f->named[0], query);
    return json_pack("{s:{s:s, s:o}}", "multi_match", "query", query, "fields",
                     sr1__text_fields_list_searched(f));
}

sr1_status sr1__msearch_write(struct sr1__buf *b, const struct sr1__text_fields *f,
                              const char *query, int32_t top_k)
{
    return append_search(b, json_pack("{s:i, s:o, s:o}", "size", (int)top_k, "query",
                                      match_fields(f, query), "_source",
                                      sr1__text_fields_list(f)));
}

sr1_status sr1__msearch_write_exists(struct sr1__buf *b, const char *field)
{
    return append_search(b, json_pack("{s:i, s:{s:{s:s}}, s:b}", "size", 1, "query",
                                      "exists", "field", field, "_source", 0));
}

/* ---- the answer ---- */

static sr1_status read_msearch_hit(const json_t *hit, const struct sr1__text_fields *f,
                                   size_t query, size_t rank, sr1_search_sink *sink)
{
    struct sr1__json_hit h = {json_object_get(hit, "_id"), json_object_get(hit, "_score"),
                              json_object_get(hit, "_source"), rank};
    struct sr1__buf contents;
    sr1_status st;

    sr1__buf_init(&contents, 0);
    if (f != NULL && !sr1__text_fields_append(f, h.document, &contents))
        st = sr1__fail(SR1_E_PARSE, "hit %zu has none of the fields asked for", rank);
    else
        st = sr1__json_hit_give(&h, &contents, query, sink);
    sr1__buf_free(&contents);
    return st;
}

static sr1_status read_msearch_hits(const json_t *hits, const struct sr1__text_fields *f,
                                    size_t query, sr1_search_sink *sink)
{
    const json_t *hit;
    size_t k;

    if (!json_is_array(hits))
        return sr1__fail(SR1_E_PARSE, "its hits are no list");
    json_array_foreach((json_t *)hits, k, hit)
        SR1__TRY(read_msearch_hit(hit, f, query, k + 1, sink));
    return SR1_OK;
}

/* "TYPE: REASON" of the first cause. */
static void explain_error(const json_t *error, char message[256])
{
    const json_t *cause = json_array_get(json_object_get(error, "root_cause"), 0);
    const char *type, *reason;

    cause = cause != NULL ? cause : error;
    type = json_string_value(json_object_get(cause, "type"));
    reason = json_string_value(json_object_get(cause, "reason"));
    if (json_is_string(error)) /* versions before 2 */
        reason = json_string_value(error);
    snprintf(message, 256, "%.60s%s%.180s", type != NULL ? type : "",
             type != NULL && reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

/* A part of the index that did not answer is no "nothing found". */
static int32_t read_item_code(const json_t *item, char message[256])
{
    const json_t *error = json_object_get(item, "error");
    const json_t *status = json_object_get(item, "status");
    const json_t *shards = json_object_get(item, "_shards");
    json_int_t failed = json_integer_value(json_object_get(shards, "failed"));
    json_int_t code = json_is_integer(status) ? json_integer_value(status) : 0;

    if (error != NULL && !json_is_null(error)) {
        explain_error(error, message);
        return code >= 400 && code < 600 ? (int32_t)code : 500;
    }
    if (json_is_true(json_object_get(item, "timed_out"))) {
        snprintf(message, 256, "the search was cut off by a time limit of the server");
        return 504;
    }
    if (failed > 0) {
        snprintf(message, 256, "%lld of the index's shards failed", (long long)failed);
        return 503;
    }
    return 200;
}

static sr1_status read_msearch_item(const json_t *item, const struct sr1__text_fields *f,
                                    size_t query, struct sr1__msearch_item *out,
                                    sr1_search_sink *sink)
{
    sr1_status st;

    out->message[0] = '\0';
    out->code = read_item_code(item, out->message);
    if (out->code != 200)
        return SR1_OK;
    st = read_msearch_hits(sr1__json_at(item, "hits.hits"), f, query, sink);
    if (st == SR1_OK || st == SR1_E_NOMEM)
        return st;
    out->code = 0;
    snprintf(out->message, sizeof(out->message), "the answer cannot be read: %.220s",
             sr1_last_error());
    return sr1_search_sink_status(sink, query, SR1_ACTION_ERROR, out->message);
}

static sr1_status read_responses(const json_t *responses,
                                 const struct sr1__text_fields *f, size_t n,
                                 struct sr1__msearch_item *items, sr1_search_sink *sink)
{
    if (!json_is_array(responses))
        return sr1__fail(SR1_E_PARSE, "the answer has no list 'responses'");
    if (json_array_size(responses) != n)
        return sr1__fail(SR1_E_PARSE, "the answer has %zu responses to %zu searches",
                         json_array_size(responses), n);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(read_msearch_item(json_array_get(responses, i), f, i, &items[i], sink));
    return SR1_OK;
}

sr1_status sr1__msearch_read(const char *text, size_t len,
                             const struct sr1__text_fields *f, size_t n,
                             struct sr1__msearch_item *items, sr1_search_sink *sink)
{
    json_t *answer = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse_loose(&answer, text, len, "the answer"));
    st = read_responses(json_object_get(answer, "responses"), f, n, items, sink);
    json_decref(answer);
    return st;
}
