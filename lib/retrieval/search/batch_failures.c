/* retrieval/search/batch_failures.c - what a batch returns when the engine fails: an
 * error for each query, or, asking again one by one, only for the queries that fail
 * alone. */
#include "base/log.h"
#include "base/mem.h"
#include "retrieval/search/search_engine.h"
#include "retrieval/search/search_results.h"

#include <stdio.h>

void sr1__search_tell_outage(atomic_int *out, const sr1_search *engine,
                             const sr1_search_results *found, const char *meanwhile)
{
    size_t n = sr1_search_results_count(found);
    size_t i = 0;

    while (i < n && !sr1__search_failed(found, i))
        i++;
    if (atomic_exchange(out, i < n) == (i < n))
        return;
    if (i < n)
        sr1__log(
            SR1_LOG_WARN, "search engine '%s' failed: %.200s; %s until it answers again",
            sr1_search_name(engine), sr1_search_results_message(found, i), meanwhile);
    else
        sr1__log(SR1_LOG_INFO, "search engine '%s' answers again",
                 sr1_search_name(engine));
}

struct failed_batch {
    sr1_search *engine;
    const char *const *queries;
    size_t n;
    int32_t top_k;
    sr1_search_results *results;
};

int sr1__search_is_fatal(sr1_status status)
{
    return status == SR1_E_NOMEM || status == SR1_E_INVALID || status == SR1_E_INTERNAL ||
           status == SR1_E_CANCELLED || status == SR1_E_CONFIG;
}

/* End query i as the failure that was met last says. */
static sr1_status fail_query(struct failed_batch *b, size_t i, sr1_status why)
{
    struct sr1_search_sink sink = {b->results->answers, b->n, b->top_k};
    char message[SR1__ERROR_MAX];

    snprintf(message, sizeof(message), "%s", sr1_last_error());
    SR1__TRY(sr1__query_result_new(&b->results->answers[i]));
    return sr1_search_sink_status(
        &sink, i, why == SR1_E_TIMEOUT ? SR1_ACTION_TIMEOUT : SR1_ACTION_ERROR, message);
}

static sr1_status fail_each(struct failed_batch *b, sr1_status why)
{
    for (size_t i = 0; i < b->n; i++)
        SR1__TRY(fail_query(b, i, why));
    return SR1_OK;
}

/* An engine that failed so many queries one after another is taken to be down. */
#define MAX_FAILURES 3

/* Once for an engine, which may split every batch of a run. */
static void tell_split(const struct failed_batch *b)
{
    if (sr1__search_note_split(b->engine))
        sr1__log(SR1_LOG_WARN,
                 "search engine '%s' failed for %zu queries at once (%.300s), so it is "
                 "asked for each alone; later batches that fail are not told",
                 sr1_search_name(b->engine), b->n, sr1_last_error());
}

/* Ask each query by itself, so that one the engine cannot bear fails alone. */
static sr1_status search_each_query(struct failed_batch *b, sr1_status why)
{
    size_t failures = 0;

    tell_split(b);
    for (size_t i = 0; i < b->n; i++) {
        int blank = sr1__search_is_blank(b->queries[i]); /* is not sent */
        sr1_search_results *one = NULL;
        sr1_status status = why;

        if (blank || failures < MAX_FAILURES)
            status = sr1_search_run(b->engine, b->queries + i, 1, b->top_k, &one);
        if (status != SR1_OK && sr1__search_is_fatal(status))
            return status;
        if (one != NULL) {
            b->results->answers[i] = sr1__query_result_retain(one->answers[0]);
            sr1_search_results_free(one);
            failures = blank ? failures : 0;
        } else {
            why = status;
            SR1__TRY(fail_query(b, i, why));
            failures++;
        }
    }
    return SR1_OK;
}

/* Answers for a batch that failed as a whole. */
static sr1_status answer_failed_batch(struct failed_batch *b, sr1_status why,
                                      sr1_status (*answer)(struct failed_batch *,
                                                           sr1_status),
                                      sr1_search_results **out)
{
    sr1_status status;

    b->results =
        sr1__calloc(1, sizeof(*b->results) + b->n * sizeof(b->results->answers[0]));
    if (b->results == NULL)
        return sr1__fail_nomem("search batch");
    b->results->n = b->n;
    status = answer(b, why);
    if (status == SR1_OK)
        *out = b->results;
    else
        sr1_search_results_free(b->results);
    return status;
}

sr1_status sr1__search_run_each(sr1_search *engine, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_results **out)
{
    struct failed_batch b = {engine, queries, n, top_k, NULL};
    sr1_status status = sr1_search_run(engine, queries, n, top_k, out);

    if (status == SR1_OK || sr1__search_is_fatal(status))
        return status;
    return answer_failed_batch(&b, status, fail_each, out);
}

sr1_status sr1__search_run_rows(sr1_search *engine, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_results **out)
{
    struct failed_batch b = {engine, queries, n, top_k, NULL};
    sr1_status status = sr1_search_run(engine, queries, n, top_k, out);
    int waits = status == SR1_E_TIMEOUT || status == SR1_E_NETWORK;

    if (status == SR1_OK || sr1__search_is_fatal(status))
        return status;
    return answer_failed_batch(&b, status,
                               n > 1 && !waits ? search_each_query : fail_each, out);
}
