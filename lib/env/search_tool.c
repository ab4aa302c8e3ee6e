/* env/search_tool.c - the tool wiki_search: a query, and how many passages are wanted.
 *
 * What an engine could not do is a broken tool, never an error told to the policy. */
#include "base/mem.h"
#include "env/search_env.h"
#include "env/tool.h"
#include "env/tool_env.h"
#include "search/engine.h"

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

static sr1_status put_answer(const struct search_tool *s, const sr1_search_results *found,
                             sr1_tool_sink *sink)
{
    int32_t how = sr1_search_results_status(found, 0);
    const char *message = sr1_search_results_message(found, 0);

    if (how == SR1_SEARCH_OK)
        return sr1__search_put_hits(s->format, found, 0, &sink->as, 0);
    if (how == SR1_SEARCH_TIMEOUT)
        return sr1_tool_sink_status(sink, SR1_TOOL_TIMEOUT);
    if (how == SR1_SEARCH_ERROR)
        return sr1__fail(SR1_E_NETWORK, "%.300s", message);
    SR1__TRY(sr1_env_sink_status(&sink->as, 0, how));
    return sr1_tool_sink_text(sink, message, strlen(message));
}

static sr1_status search_call(void *self, const char *args, size_t len,
                              sr1_tool_sink *sink)
{
    const struct search_tool *s = self;
    sr1_search_results *found = NULL;
    const char *query = NULL;
    json_t *call = NULL, *k;
    sr1_status status;

    SR1__TRY(sr1__json_parse(&call, args, len, "arguments"));
    k = json_object_get(call, "k");
    status = sr1__json_get_str(call, "query", &query);
    if (status == SR1_OK)
        status = sr1__search_run_each(
            s->engine, &query, 1, k != NULL ? (int32_t)json_integer_value(k) : s->top_k,
            &found);
    if (status == SR1_OK)
        status = put_answer(s, found, sink);
    sr1_search_results_free(found);
    json_decref(call);
    return status;
}

static void search_destroy(void *self)
{
    struct search_tool *s = self;

    sr1_search_free(s->engine);
    sr1__free(s);
}

/* The tool has no state of its own, so the engine's word holds for it. */
static int32_t flags_of(const sr1_search *engine)
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
                        .call = search_call,
                        .destroy = search_destroy,
                        .flags = flags_of(search)};
    struct search_tool *s = sr1__calloc(1, sizeof *s);
    sr1_status status;

    if (s == NULL)
        return sr1__fail_nomem("tool");
    s->engine = sr1_search_retain(search);
    s->format = format;
    s->top_k = top_k;
    status = sr1__tool_env_add(e, &ops, s);
    if (status != SR1_OK)
        search_destroy(s);
    return status;
}
