/* environment/sandbox/fusion.c - execute programs on a SandboxFusion service.
 *
 * One thread takes runs from the sandbox's queue when they are due and a place is free,
 * and ends those that are cancelled; an executor's threads send the requests, through
 * retrieval/net/http_client.h, which obeys the rate limit and pauses requests to a
 * failing service. Temporary failures (no connection, HTTP 500, a garbled answer, and
 * SandboxError, which comes with HTTP 200) are retried by the sandbox's queue.
 *
 * A cancelled execution ends at once: its request notices the cancellation when the
 * answer comes. */
#include "base/clock.h"
#include "base/executor.h"
#include "base/mem.h"
#include "base/thread.h"
#include "retrieval/net/service.h"
#include "environment/sandbox/sandbox_engine.h"
#include "environment/sandbox/fusion_json.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CONCURRENCY 64
#define BODY_MAX ((size_t)256 << 20)
#define IDLE_S 60.0
#define STOPPING_S 0.05

struct fusion;

/* A place for a request. */
struct fusion_request {
    struct sr1__task task;
    struct fusion *f;
    struct sr1__sandbox_job *job;
    struct sr1_execution *run; /* under f->lock, as busy; NULL: it was cancelled */
    int busy;
};

struct fusion {
    sr1_sandbox *box;
    const sr1_sandbox_options *o;
    struct sr1__http *http;
    char *run_url;
    char *submit_url;
    char *key;           /* NULL: none */
    char *authorization; /* the header with it */
    int32_t concurrency;
    struct fusion_request *requests; /* [concurrency] */
    struct sr1__executor *executor;
    pthread_t dispatcher;
    int dispatches;       /* it was started */
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t news;
    uint64_t wakes;
    int quit;
};

/* ---- one request ---- */

static double request_timeout_s(const struct fusion *f,
                                const struct sr1__sandbox_job *job)
{
    double asked =
        job->dataset != NULL ? job->all_tests_s : 2 * fmax(10, job->limits.time_s);

    return asked + f->o->queue_s;
}

/* How a request went. */
struct fusion_attempt {
    sr1_status status;  /* SR1_OK: there is an answer; else the error text says why not */
    int again;          /* another attempt may do better */
    double retry_after; /* seconds the service asked to wait for */
};

static sr1_status fail_refused_request(const struct fusion *f,
                                       const struct sr1__http_response *r)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__service_explain(f->key, r, &text);
    st = sr1__fail(r->status, "%.500s", sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    return st;
}

static struct fusion_attempt read_fusion_response(const struct fusion *f,
                                                  const struct sr1__sandbox_job *job,
                                                  const struct sr1__http_response *r,
                                                  struct sr1__fusion_answer *answer)
{
    struct fusion_attempt a = {SR1_OK, 1, r->retry_after};

    if (r->status != SR1_OK) {
        a.again = r->again || (r->code == 0 && r->status != SR1_E_CANCELLED);
        a.status = fail_refused_request(f, r);
        return a;
    }
    a.status = sr1__fusion_read(job, (size_t)f->o->error_bytes, sr1__buf_cstr(&r->body),
                                r->body.len, answer);
    a.status = sr1__context(a.status, "the service's answer is none of SandboxFusion's");
    a.again = a.status != SR1_OK || answer->outcome.verdict == SR1_RUN_INFRASTRUCTURE;
    return a;
}

static struct fusion_attempt send_fusion_request(const struct fusion *f,
                                                 const struct sr1__sandbox_job *job,
                                                 struct sr1__fusion_answer *answer)
{
    const char *headers[] = {"Content-Type: application/json", f->authorization};
    struct sr1__http_request request = {
        .url = job->dataset != NULL ? f->submit_url : f->run_url,
        .headers = headers,
        .n_headers = f->authorization != NULL ? 2 : 1,
        .timeout_s = request_timeout_s(f, job),
    };
    struct fusion_attempt asked = {SR1_OK, 1, 0};
    struct sr1__http_response response;
    struct sr1__buf body;

    memset(&response, 0, sizeof response);
    sr1__buf_init(&body, 0);
    asked.status = sr1__fusion_request(job, &body);
    request.body = sr1__buf_cstr(&body);
    request.body_len = body.len;
    if (asked.status == SR1_OK)
        asked.status = sr1__http_run(f->http, &request, 1, &response);
    if (asked.status == SR1_OK)
        asked = read_fusion_response(f, job, &response, answer);
    sr1__http_response_free(&response);
    sr1__buf_free(&body);
    return asked;
}

static void wake_fusion(void *engine)
{
    struct fusion *f = engine;

    pthread_mutex_lock(&f->lock);
    f->wakes++;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
}

/* The run, unless it was cancelled meanwhile. */
static struct sr1_execution *take_back_run(struct fusion_request *q)
{
    struct sr1_execution *run;

    pthread_mutex_lock(&q->f->lock);
    run = q->run;
    q->run = NULL;
    pthread_mutex_unlock(&q->f->lock);
    return run;
}

static void store_fusion_answer(struct sr1_execution *run, struct sr1__fusion_answer *a)
{
    sr1__outcome_free(&run->outcome);
    run->outcome = a->outcome;
    run->tests = a->tests;
    run->n_tests = a->n_tests;
    memset(a, 0, sizeof *a);
}

static void settle_fusion_run(struct fusion *f, struct sr1_execution *run,
                              const struct fusion_attempt *asked,
                              struct sr1__fusion_answer *answer)
{
    if (asked->again && sr1__sandbox_retry(f->box, run, asked->retry_after)) {
        if (asked->status == SR1_OK)
            sr1__fusion_answer_free(answer);
        return;
    }
    if (asked->status == SR1_OK)
        store_fusion_answer(run, answer);
    else
        sr1__outcome_set(&run->outcome, SR1_RUN_INFRASTRUCTURE, "%s", sr1_last_error());
    sr1__sandbox_end(f->box, run);
}

/* A task of the executor; the job is the request's while the run may be cancelled. */
static void run_fusion_request(void *arg)
{
    struct fusion_request *q = arg;
    struct fusion *f = q->f;
    struct sr1__fusion_answer answer;
    struct fusion_attempt asked = send_fusion_request(f, q->job, &answer);
    struct sr1_execution *run = take_back_run(q);

    if (run != NULL) {
        run->job = q->job;
        settle_fusion_run(f, run, &asked, &answer);
    } else {
        sr1__sandbox_job_free(q->job);
        if (asked.status == SR1_OK)
            sr1__fusion_answer_free(&answer);
    }
    pthread_mutex_lock(&f->lock);
    q->busy = 0;
    pthread_mutex_unlock(&f->lock);
    wake_fusion(f);
}

/* ---- the dispatcher ---- */

/* A place without a request; NULL: none. */
static struct fusion_request *find_free_place(struct fusion *f)
{
    struct fusion_request *free_place = NULL;

    pthread_mutex_lock(&f->lock);
    for (int32_t i = 0; i < f->concurrency && free_place == NULL; i++)
        if (!f->requests[i].busy)
            free_place = &f->requests[i];
    pthread_mutex_unlock(&f->lock);
    return free_place;
}

/* Put a run in a place and post its request. */
static void start_fusion_request(struct fusion *f, struct fusion_request *q,
                                 struct sr1_execution *run)
{
    struct fusion_attempt refused = {SR1_OK, 1, 0};

    sr1__sandbox_clear(run);
    if (atomic_load(&run->cancelled) || sr1__sandbox_closing(f->box)) {
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled before it began");
        sr1__sandbox_end(f->box, run);
        return;
    }
    *q = (struct fusion_request){{.run = run_fusion_request, .arg = q}, f, run->job};
    run->job = NULL;
    pthread_mutex_lock(&f->lock);
    q->run = run;
    q->busy = 1;
    refused.status = sr1__executor_post(f->executor, &q->task);
    if (refused.status != SR1_OK)
        q->busy = 0;
    pthread_mutex_unlock(&f->lock);
    if (refused.status == SR1_OK)
        return;
    run->job = q->job;
    q->run = NULL;
    settle_fusion_run(f, run, &refused, NULL);
}

/* Start what is due while there are places. Returns when to look again: at the next
 * retry, or, if all places are taken, when a request has ended. */
static double start_due_requests(struct fusion *f)
{
    struct fusion_request *place;

    while ((place = find_free_place(f)) != NULL) {
        struct sr1_execution *run = sr1__sandbox_take(f->box);

        if (run == NULL)
            return sr1__sandbox_due(f->box);
        start_fusion_request(f, place, run);
    }
    return INFINITY;
}

/* Sleep until something happens, or a retry is due. Locked. */
static void sleep_until(struct fusion *f, double due)
{
    struct timespec t = sr1__clock_time(fmin(due, sr1__now() + IDLE_S));

    (void)pthread_cond_timedwait(&f->news, &f->lock, &t);
}

/* End what was cancelled, under way or before. */
static void end_cancelled(struct fusion *f)
{
    int all = sr1__sandbox_closing(f->box);

    for (int32_t i = 0; i < f->concurrency; i++) {
        struct fusion_request *q = &f->requests[i];
        struct sr1_execution *run = NULL;

        pthread_mutex_lock(&f->lock);
        if (q->run != NULL && (all || atomic_load(&q->run->cancelled))) {
            run = q->run;
            q->run = NULL;
        }
        pthread_mutex_unlock(&f->lock);
        if (run == NULL)
            continue;
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled while it ran");
        sr1__sandbox_end(f->box, run);
    }
    sr1__sandbox_sweep(f->box);
}

static void *run_fusion_dispatcher(void *arg)
{
    struct fusion *f = arg;
    uint64_t seen = 0;
    int quit = 0;

    while (!quit) {
        double due;

        end_cancelled(f);
        due = start_due_requests(f);
        pthread_mutex_lock(&f->lock);
        if (!f->quit && seen == f->wakes)
            sleep_until(f, due);
        seen = f->wakes;
        quit = f->quit;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* ---- the engine ---- */

static void free_fusion(struct fusion *f)
{
    sr1__http_free(f->http);
    sr1__free(f->run_url);
    sr1__free(f->submit_url);
    sr1__service_wipe(f->authorization);
    sr1__service_wipe(f->key);
    sr1__free(f->requests);
    (void)pthread_cond_destroy(&f->news);
    (void)pthread_mutex_destroy(&f->lock);
    sr1__free(f);
}

/* Requests that were about to leave when the others were cancelled are cancelled with
 * the next round. */
static void cancel_requests(struct fusion *f)
{
    double until = 0;

    while (!sr1__executor_drain(f->executor, until)) {
        sr1__http_cancel(f->http);
        until = sr1__now() + STOPPING_S;
    }
}

static void close_fusion(void *engine)
{
    struct fusion *f = engine;

    pthread_mutex_lock(&f->lock);
    f->quit = 1;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
    if (f->dispatches) {
        (void)pthread_join(f->dispatcher, NULL);
        cancel_requests(f);
    }
    sr1__executor_free(f->executor);
    free_fusion(f);
}

static char *join_fusion_url(const char *a, const char *b)
{
    struct sr1__buf text;
    char *joined;

    sr1__buf_init(&text, 0);
    sr1__buf_str(&text, a);
    sr1__buf_str(&text, b);
    joined = sr1__buf_take(&text);
    sr1__buf_free(&text);
    return joined;
}

static sr1_status read_fusion_token(struct fusion *f)
{
    SR1__TRY(sr1__context(sr1__service_key(&f->key, f->o->token_env), "sandbox"));
    return f->key != NULL ? sr1__service_bearer(&f->authorization, f->key) : SR1_OK;
}

static sr1_status make_urls(struct fusion *f, char about[256])
{
    char origin[SR1__ORIGIN_MAX];
    size_t n = f->o->url != NULL ? strlen(f->o->url) : 0;
    char *base;

    SR1__TRY(sr1__url_origin(f->o->url, "sandbox: url", origin));
    (void)snprintf(about, 256, "SandboxFusion at %.200s", origin);
    while (n > 0 && f->o->url[n - 1] == '/')
        n--;
    if ((base = sr1__strndup(f->o->url, n)) == NULL)
        return sr1__fail_nomem("sandbox");
    f->run_url = join_fusion_url(base, "/run_code");
    f->submit_url = join_fusion_url(base, "/submit");
    sr1__free(base);
    return f->run_url != NULL && f->submit_url != NULL ? SR1_OK
                                                       : sr1__fail_nomem("sandbox");
}

static sr1_status open_fusion_http(struct fusion *f)
{
    const sr1_sandbox_options *o = f->o;
    struct sr1__http_options h = {
        .connect_timeout_s = o->connect_timeout_s,
        .timeout_s = o->queue_s + o->time_s,
        .max_body = BODY_MAX,
        .concurrency = f->concurrency,
        .rate = o->rate_limit,
        .retry = {0, 1, 1, 0}, /* the sandbox's queue tries again */
        .breaker_failures = o->breaker_failures,
        .breaker_rest_s = o->breaker_rest_s,
        .ca_file = o->ca_file,
        .seed = o->seed,
    };

    return sr1__http_new(&f->http, &h);
}

static sr1_status start_dispatcher(struct fusion *f)
{
    SR1__CALLOC(f->requests, (size_t)f->concurrency, "sandbox");
    SR1__TRY(sr1__executor_new(&f->executor, "sandbox", (size_t)f->concurrency, 0));
    errno = sr1__thread_start(&f->dispatcher, run_fusion_dispatcher, f);
    f->dispatches = errno == 0;
    return errno == 0 ? SR1_OK : sr1__fail_errno("start a thread", "of a sandbox");
}

static sr1_status open_fusion(void **engine, sr1_sandbox *box, sr1_sandbox_options *o,
                              char about[256])
{
    struct fusion *f = sr1__calloc(1, sizeof(*f));
    sr1_status st;

    SR1__CHECK_ALLOC(f, "sandbox");
    f->box = box;
    f->o = o;
    f->concurrency = o->concurrency > 0 ? o->concurrency : CONCURRENCY;
    (void)pthread_mutex_init(&f->lock, NULL);
    sr1__cond_init(&f->news);
    st = make_urls(f, about);
    if (st == SR1_OK)
        st = read_fusion_token(f);
    if (st == SR1_OK)
        st = open_fusion_http(f);
    if (st == SR1_OK)
        st = start_dispatcher(f);
    SR1__RETURN_NEW(engine, f, st, close_fusion);
}

const struct sr1__engine_ops sr1__fusion_engine = {
    .kind = "fusion",
    .open = open_fusion,
    .check = sr1__fusion_check,
    .wake = wake_fusion,
    .close = close_fusion,
};
