/* environment/external/external_search.c - a program as search engine: queries -> hits.
 */
#include "environment/external/external.h"

#include "base/error.h"
#include "base/json.h"

#include <stdio.h>

static json_t *pack_queries(const char *const *queries, size_t n, int32_t top_k)
{
    return json_pack("{s:o, s:i}", "queries", sr1__json_texts(queries, n), "top_k",
                     (int)top_k);
}

/* Members that are there are of their types; an id may be a whole number. */
static sr1_status check_hit(const json_t *id, const json_t *title, const json_t *score)
{
    if (id && !json_is_string(id) && !json_is_integer(id))
        return sr1__fail(SR1_E_PARSE, "the id of a hit must be a text or a whole number");
    if (title && !json_is_string(title))
        return sr1__fail(SR1_E_PARSE, "the title of a hit must be a text");
    if (score && !json_is_number(score))
        return sr1__fail(SR1_E_PARSE, "the score of a hit must be a number");
    return SR1_OK;
}

/* A hit: a text, or {"id", "title", "contents" or "text", "score"}. k: its place. */
static sr1_status take_hit(sr1_search_sink *sink, size_t query, size_t k,
                           const json_t *hit)
{
    const char *contents = json_string_value(json_object_get(hit, "contents"));
    const json_t *id = sr1__json_given(hit, "id");
    const json_t *title = sr1__json_given(hit, "title");
    const json_t *score = sr1__json_given(hit, "score");
    const char *name = json_string_value(id);
    struct sr1__buf text;
    char number[24];
    sr1_status st;

    if (!contents)
        contents = json_is_string(hit) ? json_string_value(hit)
                                       : json_string_value(json_object_get(hit, "text"));
    if (!contents)
        return sr1__fail(SR1_E_PARSE, "a hit must be a text, or an object with contents");
    SR1__TRY(check_hit(id, title, score));
    if (json_is_integer(id)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(id));
        name = number;
    }
    sr1__buf_init(&text, 0);
    if (title)
        sr1__buf_fmt(&text, "%s\n", json_string_value(title));
    sr1__buf_str(&text, contents);
    st = sr1__buf_status(&text, "a hit");
    if (st == SR1_OK)
        st = sr1_search_sink_hit(sink, query, name ? name : "", sr1__buf_cstr(&text),
                                 score ? json_number_value(score) : -(double)k);
    sr1__buf_free(&text);
    return st;
}

static sr1_status take_hits(sr1_search_sink *sink, size_t query, const json_t *hits)
{
    if (json_is_null(hits))
        return sr1_search_sink_status(sink, query, SR1_ACTION_ERROR,
                                      "the program could not answer");
    if (!json_is_array(hits))
        return sr1__fail(SR1_E_PARSE, "the answer to a query must be a list of hits, or "
                                      "null where it failed");
    for (size_t k = 0; k < json_array_size(hits); k++)
        SR1__TRY(take_hit(sink, query, k, json_array_get(hits, k)));
    return SR1_OK;
}

static sr1_status search_by_program(void *self, const char *const *queries, size_t n,
                                    int32_t top_k, sr1_search_sink *sink)
{
    json_t *answers = NULL;
    sr1_status st = sr1__external_ask(self, "search", pack_queries(queries, n, top_k), n,
                                      &answers, NULL);

    for (size_t i = 0; st == SR1_OK && i < n; i++)
        st = take_hits(sink, i, json_array_get(answers, i));
    json_decref(answers);
    return st;
}

static void destroy_search_program(void *self)
{
    sr1__external_free(self);
}

sr1_status sr1_search_open_external(sr1_search **out, const char *path,
                                    const sr1_external_options *options)
{
    static const sr1_search_ops ops = {.struct_size = sizeof ops,
                                       .name = "program",
                                       .search = search_by_program,
                                       .destroy = destroy_search_program,
                                       .flags = SR1_SEARCH_WAITS | SR1_SEARCH_CONCURRENT};
    struct sr1__external *x = NULL;
    const void *table;
    sr1_status st;

    SR1__REQUIRE(out && path, "search program: out and path");
    if (sr1__is_shared_object(path)) {
        SR1__TRY(sr1__shared_table(&table, "search program", "sr1_search_ops", path,
                                   "search_engine"));
        return sr1_search_new(out, table, NULL);
    }
    SR1__TRY(sr1__external_open(&x, "search program", path, options));
    st = sr1_search_new(out, &ops, x);
    if (st != SR1_OK)
        sr1__external_free(x);
    return st;
}
