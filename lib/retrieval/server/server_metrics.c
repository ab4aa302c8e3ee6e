/* retrieval/server/server_metrics.c - counters and histograms in Prometheus's text format
 * 0.0.4. */
#include "retrieval/server/server_metrics.h"

#include "base/clock.h"
#include "base/num.h"
#include "retrieval/server/wire.h"

#include <searchr1/ext/engines.h>

#include <stdio.h>
#include <string.h>

static const int statuses[SR1__METRICS_STATUSES] = {SR1__HTTP_OK,
                                                    SR1__HTTP_BAD_REQUEST,
                                                    SR1__HTTP_UNAUTHORIZED,
                                                    SR1__HTTP_NOT_FOUND,
                                                    SR1__HTTP_METHOD,
                                                    SR1__HTTP_TOO_LARGE,
                                                    SR1__HTTP_INVALID,
                                                    SR1__HTTP_FAILED,
                                                    SR1__HTTP_UNAVAILABLE,
                                                    SR1__HTTP_TIMEOUT,
                                                    0 /* any other */};

static const char *const paths[SR1__PATHS] = {
    "/retrieve", "/search", "/batch_search", "/rerank", "/health", "/metrics", "other"};

static const int64_t micros[SR1__METRICS_BOUNDS] = {
    100,   250,    500,    1000,   2500,    5000,    10000,
    25000, 100000, 250000, 500000, 1000000, 5000000, 30000000};
static const int64_t queries[SR1__METRICS_BOUNDS] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

static void observe_value(struct sr1__histogram *h, const int64_t *bounds, int64_t value)
{
    size_t i = 0;

    while (i < SR1__METRICS_BOUNDS && value > bounds[i])
        i++;
    atomic_fetch_add(&h->counts[i], 1);
    atomic_fetch_add(&h->sum, value);
}

void sr1__server_metrics_request(struct sr1__server_metrics *m, enum sr1__path path,
                                 int status, double seconds, int whole)
{
    size_t i = 0;

    atomic_fetch_add(whole ? &m->answered : &m->dropped, 1);
    if (!whole)
        return;
    while (i + 1 < SR1__METRICS_STATUSES && statuses[i] != status)
        i++;
    atomic_fetch_add(&m->requests[path][i], 1);
    if (status >= 400)
        atomic_fetch_add(status >= 500 ? &m->failed : &m->refused, 1);
    observe_value(&m->seconds[path], micros, (int64_t)(1e6 * seconds));
}

void sr1__server_metrics_batch(struct sr1__server_metrics *m, size_t n)
{
    observe_value(&m->batches, queries, (int64_t)n);
}

/* ---- text ---- */

static void write_metric_head(struct sr1__buf *b, const char *name, const char *type,
                              const char *help)
{
    sr1__buf_fmt(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_single_metric(struct sr1__buf *b, const char *name, const char *type,
                                const char *help, int64_t value)
{
    write_metric_head(b, name, type, help);
    sr1__buf_fmt(b, "%s %lld\n", name, (long long)value);
}

/* One histogram of units that are 1/per of what is shown; label may be "". */
static void write_histogram(struct sr1__buf *b, const char *name, const char *label,
                            const struct sr1__histogram *h, const int64_t *bounds,
                            double per)
{
    const char *comma = label[0] != '\0' ? "," : "";
    long long total = 0;
    char number[32];

    for (size_t i = 0; i <= SR1__METRICS_BOUNDS; i++) {
        total += atomic_load(&h->counts[i]);
        if (i < SR1__METRICS_BOUNDS)
            sr1__format_real((double)bounds[i] / per, number);
        sr1__buf_fmt(b, "%s_bucket{%s%sle=\"%s\"} %lld\n", name, label, comma,
                     i < SR1__METRICS_BOUNDS ? number : "+Inf", total);
    }
    sr1__format_real((double)atomic_load(&h->sum) / per, number);
    sr1__buf_fmt(b, "%s_sum{%s} %s\n", name, label, number);
    sr1__buf_fmt(b, "%s_count{%s} %lld\n", name, label, total);
}

static void requests_text(const struct sr1__server_metrics *m, struct sr1__buf *b)
{
    write_metric_head(b, "sr1_server_requests_total", "counter",
                      "Requests that were answered.");
    for (size_t p = 0; p < SR1__PATHS; p++) {
        for (size_t i = 0; i < SR1__METRICS_STATUSES; i++) {
            long long n = atomic_load(&m->requests[p][i]);

            if (n == 0)
                continue;
            sr1__buf_fmt(b, "sr1_server_requests_total{path=\"%s\",status=\"", paths[p]);
            if (statuses[i] != 0)
                sr1__buf_fmt(b, "%d", statuses[i]);
            sr1__buf_fmt(b, "%s\"} %lld\n", statuses[i] != 0 ? "" : "other", n);
        }
    }
    write_metric_head(b, "sr1_server_request_seconds", "histogram",
                      "From the end of a request's headers to the end of its answer.");
    for (size_t p = 0; p < SR1__PATHS; p++) {
        char label[64];

        snprintf(label, sizeof(label), "path=\"%s\"", paths[p]);
        write_histogram(b, "sr1_server_request_seconds", label, &m->seconds[p], micros,
                        1e6);
    }
}

static void search_text(const sr1_search *engine, struct sr1__buf *b)
{
    sr1_search_counters c = {sizeof(c)};

    if (sr1_search_counters_get(engine, &c) != SR1_OK)
        return;
    write_single_metric(b, "sr1_search_queries_total", "counter", "Queries asked.",
                        c.queries);
    write_single_metric(b, "sr1_search_blank_total", "counter",
                        "Queries not sent: blank or not UTF-8.", c.blank);
    write_single_metric(b, "sr1_search_duplicates_total", "counter",
                        "Queries repeated within one batch.", c.duplicates);
    write_single_metric(b, "sr1_search_cache_hits_total", "counter",
                        "Queries answered from the cache.", c.cache_hits);
    write_single_metric(b, "sr1_search_sent_total", "counter",
                        "Queries sent to the engine.", c.sent);
    write_single_metric(b, "sr1_search_failed_total", "counter",
                        "Queries the engine failed on.", c.failed);
}

void sr1__server_metrics_text(const struct sr1__server_metrics *m,
                              const sr1_search *engine, struct sr1__buf *b)
{
    requests_text(m, b);
    write_single_metric(b, "sr1_server_dropped_total", "counter",
                        "Requests whose client went before the answer was sent.",
                        atomic_load(&m->dropped));
    write_single_metric(b, "sr1_server_in_flight", "gauge", "Requests under way.",
                        atomic_load(&m->in_flight));
    write_single_metric(b, "sr1_server_waiting", "gauge",
                        "Queries that wait for a worker.", atomic_load(&m->waiting));
    write_single_metric(b, "sr1_server_connections", "gauge", "Open connections.",
                        atomic_load(&m->connections));
    write_metric_head(b, "sr1_server_batch_queries", "histogram",
                      "Queries of one call of the engine.");
    write_histogram(b, "sr1_server_batch_queries", "", &m->batches, queries, 1);
    search_text(engine, b);
    write_single_metric(b, "process_resident_memory_bytes", "gauge", "Resident memory.",
                        sr1__rss_bytes());
}
