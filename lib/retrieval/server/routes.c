/* retrieval/server/routes.c - the handler of each path. */
#include "retrieval/server/server_internal.h"

#include <string.h>

/* ---- jobs ---- */

/* From a worker: the answer is there. The connection's thread goes on with it. */
static void job_done(struct sr1__server_job *job)
{
    struct sr1__exchange *x = job->owner;

    x->status = job->status;
    x->answer = job->answer;
    sr1__buf_init(&job->answer, 0);
    MHD_resume_connection(x->connection);
}

/* The connection sleeps until job_done. */
static int submit_job(struct sr1__exchange *x)
{
    x->job.done = job_done;
    x->job.owner = x;
    sr1__buf_init(&x->job.answer, 0);
    MHD_suspend_connection(x->connection);
    if (sr1__batcher_submit(x->server->batcher, &x->job) == SR1_OK)
        return 0;
    sr1__exchange_refuse(x, SR1__HTTP_UNAVAILABLE, sr1_last_error());
    MHD_resume_connection(x->connection);
    return 0;
}

/* ---- /retrieve ---- */

static int answer_retrieve(struct sr1__exchange *x)
{
    struct sr1__retrieve_request *r = &x->retrieve;

    x->status = sr1__wire_retrieve(r, x->route->url, x->body.data, x->body.len,
                                   &x->server->limits, &x->answer);
    if (x->status != SR1__HTTP_OK)
        return 1;
    if (r->n == 0) {
        sr1__wire_nothing(r, &x->answer);
        return 1;
    }
    x->status = 0;
    x->job.queries = r->queries;
    x->job.n = r->n;
    x->job.top_k = r->top_k;
    x->job.scores = r->scores;
    x->job.dialect = r->dialect;
    return submit_job(x);
}

/* ---- /rerank ---- */

static int run_rerank(struct sr1__server_job *job)
{
    const struct sr1__exchange *x = job->owner;

    if (sr1__rerank_write_answer(&x->rerank, &x->server->scorer, &job->answer) == SR1_OK)
        return SR1__HTTP_OK;
    sr1__buf_clear(&job->answer);
    sr1__wire_detail(&job->answer, sr1_last_error());
    return SR1__HTTP_UNAVAILABLE;
}

static int answer_rerank(struct sr1__exchange *x)
{
    x->status = sr1__wire_rerank(&x->rerank, x->body.data, x->body.len,
                                 &x->server->limits, &x->answer);
    if (x->status != SR1__HTTP_OK)
        return 1;
    x->status = 0;
    x->job.run = run_rerank;
    return submit_job(x);
}

/* ---- /health and /metrics ---- */

static int answer_health(struct sr1__exchange *x)
{
    const char *name = sr1_search_name(x->server->engine);
    int stopping = atomic_load(&x->server->stopping);

    sr1__buf_fmt(&x->answer, "{\"status\":\"%s\",\"version\":\"%s\",\"engine\":",
                 stopping ? "stopping" : "ok", sr1_version());
    sr1__wire_text(&x->answer, name, strlen(name));
    sr1__buf_char(&x->answer, '}');
    x->status = stopping ? SR1__HTTP_UNAVAILABLE : SR1__HTTP_OK;
    return 1;
}

static int answer_metrics(struct sr1__exchange *x)
{
    sr1__server_metrics_text(&x->server->metrics, x->server->engine, &x->answer);
    x->type = "text/plain; version=0.0.4; charset=utf-8";
    x->status = SR1__HTTP_OK;
    return 1;
}

static const struct sr1__route routes[] = {
    {"/retrieve", "POST", SR1__PATH_RETRIEVE, 0, answer_retrieve},
    {"/search", "POST", SR1__PATH_SEARCH, 0, answer_retrieve},
    {"/batch_search", "POST", SR1__PATH_BATCH_SEARCH, 0, answer_retrieve},
    {"/rerank", "POST", SR1__PATH_RERANK, 0, answer_rerank},
    {"/health", "GET", SR1__PATH_HEALTH, 1, answer_health},
    {"/metrics", "GET", SR1__PATH_METRICS, 0, answer_metrics},
};

const struct sr1__route *sr1__route_find(const char *url)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strcmp(url, routes[i].url) == 0)
            return &routes[i];
    }
    return NULL;
}
