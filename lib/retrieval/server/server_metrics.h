/* retrieval/server/server_metrics.h - the server's counters, and their text for
 * Prometheus. Any thread may change a counter. */
#ifndef SR1__SERVER_SERVER_METRICS_H
#define SR1__SERVER_SERVER_METRICS_H

#include <searchr1/search.h>

#include "base/buf.h"

#include <stdatomic.h>

#define SR1__METRICS_STATUSES 11
#define SR1__METRICS_BOUNDS 14

enum sr1__path {
    SR1__PATH_RETRIEVE,
    SR1__PATH_SEARCH,
    SR1__PATH_BATCH_SEARCH,
    SR1__PATH_RERANK,
    SR1__PATH_HEALTH,
    SR1__PATH_METRICS,
    SR1__PATH_OTHER,
    SR1__PATHS
};

/* counts[i]: values up to bound i that are above the bound before it; the last: above
 * all bounds. */
struct sr1__histogram {
    atomic_llong counts[SR1__METRICS_BOUNDS + 1];
    atomic_llong sum;
};

struct sr1__server_metrics {
    atomic_llong requests[SR1__PATHS][SR1__METRICS_STATUSES];
    struct sr1__histogram seconds[SR1__PATHS]; /* in microseconds */
    struct sr1__histogram batches;             /* queries of one call of the engine */
    atomic_llong accepted;                     /* requests whose headers were read */
    atomic_llong answered;                     /* of them: the answer was sent whole */
    atomic_llong dropped; /* of them: the client went, or was too slow */
    atomic_llong refused; /* answered with 4xx */
    atomic_llong failed;  /* answered with 5xx */
    atomic_llong in_flight;
    atomic_llong waiting; /* queries, and rerank requests, not yet taken by a worker */
    atomic_llong connections;
};

/* A request has ended with this HTTP status; its answer was sent whole, or not. */
void sr1__server_metrics_request(struct sr1__server_metrics *m, enum sr1__path path,
                                 int status, double seconds, int whole);
void sr1__server_metrics_batch(struct sr1__server_metrics *m, size_t queries);
/* The text of GET /metrics. */
void sr1__server_metrics_text(const struct sr1__server_metrics *m,
                              const sr1_search *engine, struct sr1__buf *b);

#endif
