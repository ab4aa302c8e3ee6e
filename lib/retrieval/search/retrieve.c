/* retrieval/search/retrieve.c - write and read Search-R1's /retrieve and what is like it.
 *
 * Servers in use differ in where the hits of the queries are:
 *     {"result": [[hit, ...], ...]}     Search-R1, SkyRL
 *     {"results": [hit, ...]}           rLLM, to one query
 *     [[hit, ...], [score, ...]]        FlashRAG's /search
 *     [[[hit, ...], ...], [[score, ...], ...]]    its /batch_search
 * and in what a hit is; all of these are read:
 *     {"document": {"id", "contents", ...}, "score"}   retrieval_server.py, with scores
 *     {"id", "contents", ...}                          the same, without
 *     {"document": {"contents"}}                       its proxies to web search
 *     {"document": "\"title\"\ntext", "score"}         its reranking server
 *     "text"
 * A document without contents may have title and text. Where there is no id the rank
 * stands for it, where there is no score it is 1 / rank. */
#include "retrieval/search/retrieve.h"

#include "base/json.h"
#include "retrieval/search/json_hit.h"

#include <stdio.h>
#include <string.h>

static json_t *make_list(const char *const *queries, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_string(queries[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Of one query all names that servers have for the number of hits and for scores. */
sr1_status sr1__retrieve_write(struct sr1__buf *b, enum sr1__dialect dialect,
                               const char *const *queries, size_t n, int32_t top_k)
{
    int k = (int)top_k;
    json_t *o = NULL;
    sr1_status status;

    switch (dialect) {
    case SR1__DIALECT_QUERY:
        o = json_pack("{s:s, s:i, s:i, s:i, s:b, s:b}", "query", queries[0], "topk", k,
                      "top_k", k, "top_n", k, "return_scores", 1, "return_score", 1);
        break;
    case SR1__DIALECT_QUERY_LIST:
        o = json_pack("{s:o, s:i, s:b}", "query", make_list(queries, n), "top_n", k,
                      "return_score", 1);
        break;
    default:
        o = json_pack("{s:o, s:i, s:b}", "queries", make_list(queries, n), "topk", k,
                      "return_scores", 1);
        break;
    }
    status = o != NULL ? sr1__json_dump(o, 0, b) : sr1__fail_nomem("search request");
    json_decref(o);
    return status;
}

/* {"detail": [{"loc": ["body", "query"], ...}]} */
int sr1__retrieve_wants_next(const char *text, size_t len)
{
    json_t *o = NULL;
    const json_t *problem;
    const char *field;
    const char *type;
    int wants;

    if (sr1__json_parse_loose(&o, text, len, "the answer") != SR1_OK)
        return 0;
    problem = json_array_get(json_object_get(o, "detail"), 0);
    field = json_string_value(json_array_get(json_object_get(problem, "loc"), 1));
    type = json_string_value(json_object_get(problem, "type"));
    wants = field != NULL && strcmp(field, "query") == 0 && type != NULL &&
            (strcmp(type, "missing") == 0 || strstr(type, "_type") != NULL);
    json_decref(o);
    return wants;
}

/* ---- reading ---- */

/* The text of a document: 1, or 0 when it has none. */
static int write_document_contents(struct sr1__buf *b, const json_t *document)
{
    const json_t *contents = json_object_get(document, "contents");
    const json_t *title = json_object_get(document, "title");
    const json_t *text = json_object_get(document, "text");

    if (json_is_string(document))
        contents = document;
    if (json_is_string(contents)) {
        sr1__json_add_text(b, contents);
        return 1;
    }
    if (!json_is_string(text))
        return 0;
    if (json_is_string(title)) {
        sr1__json_add_text(b, title);
        sr1__buf_char(b, '\n');
    }
    sr1__json_add_text(b, text);
    return 1;
}

/* aside: where scores stand beside the hits, this hit's. */
static sr1_status read_hit(const json_t *hit, const json_t *aside, size_t query,
                           size_t rank, sr1_search_sink *sink)
{
    const json_t *document = json_object_get(hit, "document");
    struct sr1__json_hit h = {.rank = rank};
    struct sr1__buf contents;
    sr1_status status;

    h.document = document != NULL ? document : hit;
    h.id = json_object_get(h.document, "id");
    h.score = aside != NULL ? aside : json_object_get(hit, "score");
    sr1__buf_init(&contents, 0);
    if (write_document_contents(&contents, h.document))
        status = sr1__json_hit_give(&h, &contents, query, sink);
    else
        status = sr1__fail(SR1_E_PARSE, "hit %zu has no contents", rank);
    sr1__buf_free(&contents);
    return status;
}

/* Where an answer has the hits of its queries. */
struct hit_lists {
    const json_t *hits;   /* of query 0 where it is one list, else a list a query */
    const json_t *scores; /* beside them; NULL: none */
    int single;
};

static sr1_status read_hit_list(const json_t *list, const json_t *scores, size_t query,
                                sr1_search_sink *sink)
{
    size_t k;
    const json_t *hit;

    if (!json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "its hits are no list");
    json_array_foreach((json_t *)list, k, hit)
        SR1__TRY(read_hit(hit, json_array_get(scores, k), query, k + 1, sink));
    return SR1_OK;
}

/* A list that cannot be parsed fails its own query only; out of memory fails the call. */
static sr1_status read_query(const json_t *list, const json_t *scores, size_t query,
                             sr1_search_sink *sink)
{
    sr1_status status = read_hit_list(list, scores, query, sink);
    char text[SR1__ERROR_MAX];

    if (status == SR1_OK || status == SR1_E_NOMEM)
        return status;
    snprintf(text, sizeof text, "the answer cannot be read: %.900s", sr1_last_error());
    return sr1_search_sink_status(sink, query, SR1_ACTION_ERROR, text);
}

/* Numbers, or lists of numbers: scores, and no hits. */
static int are_scores(const json_t *o)
{
    const json_t *first = json_array_get(o, 0);

    if (json_array_size(first) > 0)
        first = json_array_get(first, 0);
    return json_is_array(o) && (first == NULL || json_is_number(first) ||
                                (json_is_array(first) && json_array_size(first) == 0));
}

static struct hit_lists find_lists(const json_t *answer, size_t n)
{
    struct hit_lists l = {json_object_get(answer, "result"), NULL, 0};

    if (l.hits == NULL && n == 1) {
        l.hits = json_object_get(answer, "results");
        l.single = l.hits != NULL;
    }
    if (json_array_size(answer) == 2 && are_scores(json_array_get(answer, 1))) {
        l.hits = json_array_get(answer, 0);
        l.scores = json_array_get(answer, 1);
        l.single = n == 1 && !json_is_array(json_array_get(l.hits, 0));
    }
    return l;
}

static sr1_status read_hit_lists(const struct hit_lists *l, size_t first, size_t n,
                                 sr1_search_sink *sink)
{
    if (!json_is_array(l->hits))
        return sr1__fail(SR1_E_PARSE, "the answer has no list 'result'");
    if (l->single)
        return read_query(l->hits, l->scores, first, sink);
    if (json_array_size(l->hits) != n)
        return sr1__fail(SR1_E_PARSE, "the answer has %zu lists of hits for %zu queries",
                         json_array_size(l->hits), n);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(read_query(json_array_get(l->hits, i), json_array_get(l->scores, i),
                            first + i, sink));
    return SR1_OK;
}

sr1_status sr1__retrieve_read(const char *text, size_t len, size_t first, size_t n,
                              sr1_search_sink *sink)
{
    json_t *o = NULL;
    struct hit_lists l;
    sr1_status status;

    if (len == 0)
        return sr1__fail(SR1_E_PARSE, "the answer is empty");
    SR1__TRY(sr1__json_parse_loose(&o, text, len, "the answer"));
    l = find_lists(o, n);
    status = read_hit_lists(&l, first, n, sink);
    json_decref(o);
    return status;
}
