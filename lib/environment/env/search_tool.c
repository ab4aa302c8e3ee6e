/* environment/env/search_tool.c - the tool wiki_search: a query, and the number of
 * passages.
 *
 * A failure of the engine is a broken tool, never an error text for the policy. */
#include "base/mem.h"
#include "environment/env/search_env.h"
#include "environment/env/tool.h"
#include "environment/env/tool_env.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"query\": {\"type\": \"string\", \"description\": \"what to look for\"}, "
    "\"k\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 100, "
    "\"description\": \"how many passages\"}}, "
    "\"required\": [\"query\"], \"additionalProperties\": false}";

struct search_tool {
    sr1_search *engine;
    const struct sr1__document_format *format;
    int32_t top_k;
};

/* One call: what is looked for, and how many passages are wanted. */
struct search_request {
    json_t *args;
    const char *query;
    int32_t k;
    int answered;
};

static sr1_status write_tool_answer(const struct search_tool *s,
                                    const sr1_search_results *found, size_t i,
                                    sr1_tool_sink *sink)
{
    int32_t how = sr1_search_results_status(found, i);
    const char *message = sr1_search_results_message(found, i);

    if (how == SR1_ACTION_OK)
        return sr1__search_put_hits(s->format, found, i, &sink->as, 0);
    if (how == SR1_ACTION_TIMEOUT)
        return sr1_tool_sink_status(sink, SR1_TOOL_TIMEOUT);
    if (how == SR1_ACTION_ERROR) {
        sr1__error_save(&sink->error, sr1__fail(SR1_E_NETWORK, "%.300s", message));
        return sr1_tool_sink_status(sink, SR1_TOOL_BROKEN);
    }
    SR1__TRY(sr1_env_sink_status(&sink->as, 0, how));
    return sr1_tool_sink_text(sink, message, strlen(message));
}

/* Engines take texts that end at a NUL: one within a query counts as a space. */
static sr1_status replace_nuls(json_t *args)
{
    const json_t *query = json_object_get(args, "query");
    size_t n = json_string_length(query);
    char *text;
    int failed;

    if (query == NULL || strlen(json_string_value(query)) == n)
        return SR1_OK;
    text = sr1__malloc(n);
    SR1__CHECK_ALLOC(text, "query");
    for (size_t i = 0; i < n; i++)
        text[i] = json_string_value(query)[i] != '\0' ? json_string_value(query)[i] : ' ';
    failed = json_object_set_new(args, "query", json_stringn(text, n));
    sr1__free(text);
    return failed ? sr1__fail_nomem("query") : SR1_OK;
}

static sr1_status read_search_request(const struct search_tool *s, const char *args,
                                      struct search_request *w)
{
    const json_t *k;

    SR1__TRY(sr1__json_parse(&w->args, args, strlen(args), "arguments"));
    SR1__TRY(replace_nuls(w->args));
    k = json_object_get(w->args, "k");
    w->k = k != NULL ? (int32_t)json_integer_value(k) : s->top_k;
    return sr1__json_get_str(w->args, "query", &w->query);
}

/* All wishes for k passages, in one call of the engine. queries, at: room for n. */
static sr1_status run_searches_of_k(const struct search_tool *s, struct search_request *w,
                                    size_t n, int32_t k, const char **queries, size_t *at,
                                    sr1_tool_sink *sinks)
{
    sr1_search_results *found = NULL;
    size_t m = 0;
    sr1_status status;

    for (size_t i = 0; i < n; i++) {
        if (w[i].k != k)
            continue;
        queries[m] = w[i].query;
        at[m++] = i;
        w[i].answered = 1;
    }
    status = sr1__search_run_rows(s->engine, queries, m, k, &found);
    for (size_t i = 0; status == SR1_OK && i < m; i++)
        status = write_tool_answer(s, found, i, &sinks[at[i]]);
    sr1_search_results_free(found);
    return status;
}

static sr1_status run_search_calls(void *self, const char *const *args, size_t n,
                                   sr1_tool_sink *sinks)
{
    const struct search_tool *s = self;
    struct search_request *w = sr1__calloc(n, sizeof *w);
    const char **queries = sr1__calloc(n, sizeof *queries);
    size_t *at = sr1__calloc(n, sizeof *at);
    sr1_status status =
        w != NULL && queries != NULL && at != NULL ? SR1_OK : sr1__fail_nomem("searches");

    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = read_search_request(s, args[i], &w[i]);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        if (!w[i].answered)
            status = run_searches_of_k(s, w, n, w[i].k, queries, at, sinks);
    for (size_t i = 0; w != NULL && i < n; i++)
        json_decref(w[i].args);
    sr1__free(w);
    sr1__free((void *)queries);
    sr1__free(at);
    return status;
}

static sr1_status run_search_call(void *self, const char *args, size_t len,
                                  sr1_tool_sink *sink)
{
    (void)len;
    return run_search_calls(self, &args, 1, sink);
}

static void destroy_search_tool(void *self)
{
    struct search_tool *s = self;

    sr1_search_free(s->engine);
    sr1__free(s);
}

/* The tool has no state of its own, so the engine's word holds for it. */
static int32_t search_tool_flags(const sr1_search *engine)
{
    int32_t flags = sr1__search_flags(engine);

    return (flags & SR1_SEARCH_WAITS ? SR1_TOOL_WAITS : 0) |
           (flags & SR1_SEARCH_CONCURRENT ? SR1_TOOL_CONCURRENT : 0);
}

sr1_status sr1__tool_env_add_search(struct sr1__tool_env *e, sr1_search *search,
                                    const struct sr1__document_format *format,
                                    int32_t top_k)
{
    sr1_tool_ops ops = {.struct_size = sizeof ops,
                        .name = "wiki_search",
                        .description = "Search for passages about something.",
                        .schema = schema,
                        .call = run_search_call,
                        .destroy = destroy_search_tool,
                        .flags = search_tool_flags(search)};
    struct search_tool *s = sr1__calloc(1, sizeof *s);
    sr1_status status;

    SR1__CHECK_ALLOC(s, "tool");
    s->engine = sr1_search_retain(search);
    s->format = format;
    s->top_k = top_k;
    status = sr1__tool_env_add(e, &ops, NULL, s);
    if (status != SR1_OK)
        destroy_search_tool(s);
    else /* an engine that takes queries apart is better asked so */
        sr1__tool_set_batched(sr1__tool_env_last(e), run_search_calls,
                              !(sr1__search_flags(search) & SR1_SEARCH_THREADS));
    return status;
}
