/* retrieval/search/web_providers.c - one row a web search service, from the services'
 * public references, and the one writer and reader that work from these rows.
 *
 * An answer counts as one only when it bears the mark of its service: a body without it
 * (an error with code 200, another service's page) must not pass for "nothing found". */
#include "retrieval/search/web_providers.h"

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/query_result.h"
#include "retrieval/net/http_client.h"
#include "retrieval/search/json_hit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sr1__web_provider providers[] = {
    {
        .name = "serper",
        .url = "https://google.serper.dev/search",
        .key_env = "SERPER_API_KEY",
        .post = 1,
        .query_field = "q",
        .count_field = "num",
        .count_max = 100,
        .key_header = "X-API-KEY: ",
        .mark = "searchParameters",
        .list = "organic",
        .box = "answerBox",
        .link = "link",
        .text = "snippet",
        .box_text = "answer",
    },
    {
        .name = "serpapi",
        .url = "https://serpapi.com/search.json",
        .key_env = "SERPAPI_API_KEY",
        .query_field = "q",
        .count_field = "num",
        .count_max = 100,
        .fixed = "engine=google",
        .key_field = "api_key",
        .mark = "search_metadata.status",
        .mark_value = "Success",
        .list = "organic_results",
        .box = "answer_box",
        .link = "link",
        .text = "snippet",
        .box_text = "answer",
    },
    {
        .name = "brave",
        .url = "https://api.search.brave.com/res/v1/web/search",
        .key_env = "BRAVE_API_KEY",
        .query_field = "q",
        .query_max = 400,
        .words_max = 50,
        .count_field = "count",
        .count_max = 20,
        .key_header = "X-Subscription-Token: ",
        .mark = "type",
        .mark_value = "search",
        .list = "web.results",
        .link = "url",
        .text = "description",
    },
    {
        .name = "google",
        .url = "https://www.googleapis.com/customsearch/v1",
        .key_env = "GOOGLE_API_KEY",
        .needs_engine_id = 1,
        .query_field = "q",
        .count_field = "num",
        .count_max = 10,
        .key_field = "key",
        .mark = "kind",
        .mark_value = "customsearch#search",
        .list = "items",
        .link = "link",
        .text = "snippet",
    },
    {
        .name = "searxng",
        .query_field = "q",
        .fixed = "format=json",
        .mark = "results",
        .list = "results",
        .link = "url",
        .text = "content",
        .troubles = "unresponsive_engines",
    },
    {
        .name = "tavily",
        .url = "https://api.tavily.com/search",
        .key_env = "TAVILY_API_KEY",
        .post = 1,
        .query_field = "query",
        .query_max = 400,
        .count_field = "max_results",
        .count_max = 20,
        .key_header = "Authorization: Bearer ",
        .mark = "results",
        .list = "results",
        .link = "url",
        .text = "content",
    },
};

const struct sr1__web_provider *sr1__web_provider_at(size_t i)
{
    return i < sizeof(providers) / sizeof(providers[0]) ? &providers[i] : NULL;
}

const struct sr1__web_provider *sr1__web_provider_find(const char *name)
{
    const struct sr1__web_provider *p;

    for (size_t i = 0; (p = sr1__web_provider_at(i)) != NULL; i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

/* ---- the request ---- */

static int is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t sr1__web_query_length(const struct sr1__web_provider *p, const char *query)
{
    size_t chars = 0, words = 0, space = 0, i;

    for (i = 0; query[i] != '\0'; i++) {
        int is_space = strchr(" \t\r\n", query[i]) != NULL;

        chars += !is_continuation(query[i]);
        words += is_space && i > 0 && strchr(" \t\r\n", query[i - 1]) == NULL;
        if (is_space)
            space = i;
        if ((p->words_max > 0 && words == p->words_max) ||
            (p->query_max > 0 && chars > p->query_max))
            return space > 0 ? space : i;
    }
    return i;
}

static void add_field(struct sr1__buf *b, char before, const char *name,
                      const char *value)
{
    sr1__buf_char(b, before);
    sr1__buf_str(b, name);
    sr1__buf_char(b, '=');
    sr1__url_escape(b, value);
}

static int32_t bound_hit_count(const struct sr1__web_provider *p, int32_t top_k)
{
    return top_k < p->count_max ? top_k : p->count_max;
}

sr1_status sr1__web_write_url(struct sr1__buf *b, const struct sr1__web_provider *p,
                              const char *url, const char *query, int32_t top_k,
                              const char *key, const char *engine_id)
{
    sr1__buf_str(b, url);
    if (!p->post) {
        add_field(b, strchr(url, '?') != NULL ? '&' : '?', p->query_field, query);
        if (p->count_field != NULL)
            sr1__buf_fmt(b, "&%s=%d", p->count_field, (int)bound_hit_count(p, top_k));
        if (p->fixed != NULL)
            sr1__buf_fmt(b, "&%s", p->fixed);
        if (p->needs_engine_id)
            add_field(b, '&', "cx", engine_id);
        if (p->key_field != NULL)
            add_field(b, '&', p->key_field, key);
    }
    return sr1__buf_status(b, "search request");
}

sr1_status sr1__web_write_body(struct sr1__buf *b, const struct sr1__web_provider *p,
                               const char *query, int32_t top_k)
{
    json_t *o = json_pack("{s:s, s:i}", p->query_field, query, p->count_field,
                          (int)bound_hit_count(p, top_k));
    sr1_status status;

    SR1__CHECK_ALLOC(o, "search request");
    status = sr1__json_dump(o, 0, b);
    json_decref(o);
    return status;
}

/* ---- the answer ---- */

static int has_mark(const struct sr1__web_provider *p, const json_t *answer)
{
    const json_t *mark = sr1__json_at(answer, p->mark);

    if (p->mark_value == NULL)
        return mark != NULL && !json_is_null(mark);
    return json_is_string(mark) && strcmp(json_string_value(mark), p->mark_value) == 0;
}

/* Length of a mark-up tag or entity at s, and what it stands for; 0: there is none. Only
 * those that services put into their texts: other angle brackets are the page's own. */
static size_t mark_up(const char *s, const char **as)
{
    static const struct {
        const char *from;
        const char *to;
    } table[] = {
        {"<strong>", ""}, {"</strong>", ""}, {"<b>", ""},     {"</b>", ""},
        {"<em>", ""},     {"</em>", ""},     {"<br>", " "},   {"<br/>", " "},
        {"&amp;", "&"},   {"&lt;", "<"},     {"&gt;", ">"},   {"&quot;", "\""},
        {"&#x27;", "'"},  {"&#39;", "'"},    {"&nbsp;", " "},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t n = strlen(table[i].from);

        if (strncmp(s, table[i].from, n) == 0) {
            *as = table[i].to;
            return n;
        }
    }
    return 0;
}

/* Append a text without mark-up; line breaks of a title become spaces. */
static sr1_status add_plain(struct sr1__buf *b, const json_t *string, int is_title)
{
    struct sr1__buf raw;
    sr1_status status;
    size_t n;

    sr1__buf_init(&raw, 0);
    sr1__json_add_text(&raw, string);
    for (const char *s = sr1__buf_cstr(&raw); *s != '\0'; s += n) {
        const char *as = NULL;

        n = mark_up(s, &as);
        if (n > 0) {
            sr1__buf_str(b, as);
        } else {
            sr1__buf_char(b, is_title && (*s == '\n' || *s == '\r') ? ' ' : *s);
            n = 1;
        }
    }
    status = sr1__buf_status(&raw, "text of a hit");
    sr1__buf_free(&raw);
    return status;
}

static int is_filled_text(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) > 0;
}

/* The contents of a hit, empty for one that says nothing. */
static sr1_status write_hit_contents(struct sr1__buf *b, const json_t *title,
                                     const json_t *first, const json_t *text)
{
    if (!is_filled_text(title) && !is_filled_text(first) && !is_filled_text(text))
        return SR1_OK;
    sr1__buf_char(b, '"');
    if (is_filled_text(title))
        SR1__TRY(add_plain(b, title, 1));
    sr1__buf_str(b, "\"\n");
    if (is_filled_text(first))
        SR1__TRY(add_plain(b, first, 0));
    if (is_filled_text(first) && is_filled_text(text))
        sr1__buf_char(b, ' ');
    if (is_filled_text(text))
        SR1__TRY(add_plain(b, text, 0));
    return sr1__buf_status(b, "text of a hit");
}

static double read_web_score(const json_t *hit, int32_t rank)
{
    const json_t *score = json_object_get(hit, "score");
    double v = json_is_number(score) ? json_number_value(score) : 1.0 / rank;

    return isfinite(v) ? v : 0.0;
}

/* *rank counts what was given. */
static sr1_status emit_web_hit(const struct sr1__web_provider *p, const json_t *hit,
                               const char *box_text, size_t i, int32_t *rank,
                               sr1_search_sink *sink)
{
    const json_t *link = json_object_get(hit, p->link);
    const json_t *first = box_text != NULL ? json_object_get(hit, box_text) : NULL;
    struct sr1__buf id, contents;
    sr1_status status;

    sr1__buf_init(&id, 0);
    sr1__buf_init(&contents, 0);
    status = write_hit_contents(&contents, json_object_get(hit, "title"), first,
                                json_object_get(hit, p->text));
    if (is_filled_text(link))
        sr1__json_add_text(&id, link);
    else
        sr1__buf_fmt(&id, "%d", (int)*rank + 1);
    if (status == SR1_OK)
        status = sr1__buf_status(&id, "address of a hit");
    if (status == SR1_OK && contents.len > 0) {
        ++*rank;
        status =
            sr1_search_sink_hit(sink, i, sr1__buf_cstr(&id), sr1__buf_cstr(&contents),
                                read_web_score(hit, *rank));
        if (status == SR1_OK && !is_filled_text(link))
            sr1__search_sink_unnamed(sink, i);
    }
    sr1__buf_free(&id);
    sr1__buf_free(&contents);
    return status;
}

static sr1_status read_web_answer(const struct sr1__web_provider *p, const json_t *answer,
                                  size_t i, sr1_search_sink *sink)
{
    const json_t *list = sr1__json_at(answer, p->list);
    int32_t rank = 0;
    const json_t *hit;
    size_t k;

    if (!has_mark(p, answer) || (list != NULL && !json_is_array(list)))
        return sr1__fail(SR1_E_PARSE, "this is no answer of %s to a search", p->name);
    if (json_array_size(list) == 0 && p->troubles != NULL &&
        json_array_size(sr1__json_at(answer, p->troubles)) > 0)
        return sr1__fail(SR1_E_PARSE, "the engines that %s asks did not answer", p->name);
    if (p->box != NULL && sr1__json_at(answer, p->box) != NULL)
        SR1__TRY(
            emit_web_hit(p, sr1__json_at(answer, p->box), p->box_text, i, &rank, sink));
    json_array_foreach((json_t *)list, k, hit)
        SR1__TRY(emit_web_hit(p, hit, NULL, i, &rank, sink));
    return SR1_OK;
}

sr1_status sr1__web_read(const struct sr1__web_provider *p, const char *text, size_t len,
                         size_t i, sr1_search_sink *sink)
{
    json_t *answer = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_parse_loose(&answer, text, len, "the answer"));
    status = read_web_answer(p, answer, i, sink);
    json_decref(answer);
    return status;
}
