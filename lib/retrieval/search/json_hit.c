/* retrieval/search/json_hit.c - see json_hit.h. */
#include "retrieval/search/json_hit.h"

#include "retrieval/search/query_result.h"
#include <searchr1/ext/engines.h>

#include <math.h>

/* 0: it has none, and its rank stands there. */
static int write_hit_id(struct sr1__buf *b, const struct sr1__json_hit *hit)
{
    if (json_is_string(hit->id) && json_string_length(hit->id) > 0)
        sr1__json_add_text(b, hit->id);
    else if (json_is_integer(hit->id))
        sr1__buf_fmt(b, "%lld", (long long)json_integer_value(hit->id));
    else
        sr1__buf_fmt(b, "%zu", hit->rank);
    return json_is_integer(hit->id) ||
           (json_is_string(hit->id) && json_string_length(hit->id) > 0);
}

static double read_hit_score(const struct sr1__json_hit *hit)
{
    double v = json_is_number(hit->score) ? json_number_value(hit->score)
                                          : 1.0 / (double)hit->rank;

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

sr1_status sr1__json_hit_give(const struct sr1__json_hit *hit,
                              const struct sr1__buf *contents, size_t query,
                              sr1_search_sink *sink)
{
    struct sr1__buf id;
    sr1_status status;
    int named;

    sr1__buf_init(&id, 0);
    named = write_hit_id(&id, hit);
    status = sr1__buf_status(&id, "id of a hit");
    if (status == SR1_OK)
        status = sr1__buf_status(contents, "contents of a hit");
    if (status == SR1_OK)
        status = sr1_search_sink_hit(sink, query, sr1__buf_cstr(&id),
                                     sr1__buf_cstr(contents), read_hit_score(hit));
    if (status == SR1_OK && !named)
        sr1__search_sink_unnamed(sink, query);
    if (status == SR1_OK)
        status = give_row(sink, query, hit->document);
    sr1__buf_free(&id);
    return status;
}
