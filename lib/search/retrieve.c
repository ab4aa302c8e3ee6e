/* search/retrieve.c - write and read Search-R1's /retrieve.
 *
 * Servers in use differ in what a hit is; all of these are read:
 *     {"document": {"id", "contents", ...}, "score"}   retrieval_server.py, with scores
 *     {"id", "contents", ...}                          the same, without
 *     {"document": {"contents"}}                       its proxies to web search
 *     {"document": "\"title\"\ntext", "score"}         its reranking server
 *     "text"
 * A document without contents may have title and text. Where there is no id it is the
 * rank, where there is no score it is 1 / rank. */
#include "search/retrieve.h"

#include "base/json.h"
#include "search/client.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sr1_status sr1__retrieve_write(struct sr1__buf *b, const char *const *queries, size_t n,
                               int32_t top_k)
{
    json_t *list = json_array();
    json_t *o;
    int bad = list == NULL;
    sr1_status status;

    for (size_t i = 0; i < n && !bad; i++)
        bad = json_array_append_new(list, json_string(queries[i])) != 0;
    o = json_pack("{s:o, s:i, s:b}", "queries", list, "topk", (int)top_k, "return_scores",
                  1);
    if (bad || o == NULL)
        status = sr1__fail_nomem("search request");
    else
        status = sr1__json_dump(o, 0, b);
    json_decref(o);
    return status;
}

/* ---- reading ---- */

/* The text of a document: 1, or 0 when it has none. */
static int write_contents(struct sr1__buf *b, const json_t *document)
{
    const json_t *contents = json_object_get(document, "contents");
    const json_t *title = json_object_get(document, "title");
    const json_t *text = json_object_get(document, "text");

    if (json_is_string(document))
        contents = document;
    if (json_is_string(contents)) {
        sr1__add_json_text(b, contents);
        return 1;
    }
    if (!json_is_string(text))
        return 0;
    if (json_is_string(title)) {
        sr1__add_json_text(b, title);
        sr1__buf_char(b, '\n');
    }
    sr1__add_json_text(b, text);
    return 1;
}

static void write_id(struct sr1__buf *b, const json_t *document, size_t rank)
{
    const json_t *id = json_object_get(document, "id");

    if (json_is_string(id) && json_string_length(id) > 0)
        sr1__add_json_text(b, id);
    else if (json_is_integer(id))
        sr1__buf_fmt(b, "%lld", (long long)json_integer_value(id));
    else
        sr1__buf_fmt(b, "%zu", rank);
}

static double read_score(const json_t *hit, size_t rank)
{
    const json_t *score = json_object_get(hit, "score");
    double v = json_is_number(score) ? json_number_value(score) : 1.0 / (double)rank;

    return isfinite(v) ? v : 0.0;
}

static sr1_status give_row(sr1_search_sink *sink, size_t query, const json_t *document)
{
    struct sr1__buf row;
    sr1_status status;

    if (!json_is_object(document))
        return SR1_OK;
    sr1__buf_init(&row, 0);
    status = sr1__json_dump(document, 0, &row);
    if (status == SR1_OK)
        status = sr1_search_sink_row(sink, query, sr1__buf_cstr(&row));
    sr1__buf_free(&row);
    return status;
}

static sr1_status read_hit(const json_t *hit, size_t query, size_t rank,
                           sr1_search_sink *sink)
{
    const json_t *document = json_object_get(hit, "document");
    struct sr1__buf id, contents;
    sr1_status status;

    if (document == NULL)
        document = hit;
    sr1__buf_init(&id, 0);
    sr1__buf_init(&contents, 0);
    write_id(&id, document, rank);
    if (!write_contents(&contents, document)) {
        status = sr1__fail(SR1_E_PARSE, "hit %zu has no contents", rank);
    } else {
        status = sr1__buf_status(&id, "id of a hit");
        if (status == SR1_OK)
            status = sr1__buf_status(&contents, "contents of a hit");
        if (status == SR1_OK)
            status = sr1_search_sink_hit(sink, query, sr1__buf_cstr(&id),
                                         sr1__buf_cstr(&contents), read_score(hit, rank));
        if (status == SR1_OK)
            status = give_row(sink, query, document);
    }
    sr1__buf_free(&id);
    sr1__buf_free(&contents);
    return status;
}

static sr1_status read_list(const json_t *list, size_t query, sr1_search_sink *sink)
{
    size_t k;
    const json_t *hit;

    if (!json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "its hits are no list");
    json_array_foreach((json_t *)list, k, hit)
        SR1__TRY(read_hit(hit, query, k + 1, sink));
    return SR1_OK;
}

/* Whatever one list does wrong, short of memory, is its own query's affair. */
static sr1_status read_query(const json_t *list, size_t query, sr1_search_sink *sink)
{
    sr1_status status = read_list(list, query, sink);
    char text[SR1__ERROR_MAX];

    if (status == SR1_OK || status == SR1_E_NOMEM)
        return status;
    snprintf(text, sizeof text, "the answer cannot be read: %.900s", sr1_last_error());
    return sr1_search_sink_status(sink, query, SR1_SEARCH_ERROR, text);
}

static sr1_status read_result(const json_t *result, size_t n, sr1_search_sink *sink)
{
    if (!json_is_array(result))
        return sr1__fail(SR1_E_PARSE, "the answer has no list 'result'");
    if (json_array_size(result) != n)
        return sr1__fail(SR1_E_PARSE, "the answer has %zu lists of hits for %zu queries",
                         json_array_size(result), n);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(read_query(json_array_get(result, i), i, sink));
    return SR1_OK;
}

sr1_status sr1__retrieve_read(const char *text, size_t len, size_t n,
                              sr1_search_sink *sink)
{
    json_t *o = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_parse(&o, text, len, "the answer"));
    status = read_result(json_object_get(o, "result"), n, sink);
    json_decref(o);
    return status;
}
