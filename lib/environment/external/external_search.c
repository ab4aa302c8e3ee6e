/* environment/external/external_search.c - a program as search engine: queries -> hits.
 */
#include "environment/external/external.h"

#include "base/error.h"
#include "base/json.h"

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

/* The text of a hit, NULL: it has none. */
static const json_t *find_contents(const json_t *hit)
{
    const json_t *contents = json_object_get(hit, "contents");

    if (!json_is_string(contents))
        contents = json_is_string(hit) ? hit : json_object_get(hit, "text");
    return json_is_string(contents) ? contents : NULL;
}

static void write_hit(const json_t *id, const json_t *title, const json_t *contents,
                      struct sr1__buf *name, struct sr1__buf *text)
{
    if (json_is_integer(id))
        sr1__buf_fmt(name, "%lld", (long long)json_integer_value(id));
    else
        sr1__json_add_text(name, id);
    if (title) {
        sr1__json_add_text(text, title);
        sr1__buf_char(text, '\n');
    }
    sr1__json_add_text(text, contents);
}

/* A hit: a text, or {"id", "title", "contents" or "text", "score"}. k: its place. */
static sr1_status take_hit(sr1_search_sink *sink, size_t query, size_t k,
                           const json_t *hit)
{
    const json_t *contents = find_contents(hit);
    const json_t *id = sr1__json_given(hit, "id");
    const json_t *title = sr1__json_given(hit, "title");
    const json_t *score = sr1__json_given(hit, "score");
    struct sr1__buf name, text;
    sr1_status st;

    if (!contents)
        return sr1__fail(SR1_E_PARSE, "a hit must be a text, or an object with contents");
    SR1__TRY(check_hit(id, title, score));
    sr1__buf_init(&name, 0);
    sr1__buf_init(&text, 0);
    write_hit(id, title, contents, &name, &text);
    st = sr1__buf_status(&name, "a hit");
    if (st == SR1_OK)
        st = sr1__buf_status(&text, "a hit");
    if (st == SR1_OK)
        st = sr1_search_sink_hit(sink, query, sr1__buf_cstr(&name), sr1__buf_cstr(&text),
                                 score ? json_number_value(score) : -(double)k);
    sr1__buf_free(&name);
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
