/* environment/sandbox/fusion.c - execute programs on a SandboxFusion service.
 *
 * Each request in progress has a thread, started if none is idle; requests go through
 * retrieval/net/http_client.h, which obeys the rate limit and pauses requests to a
 * failing service. Temporary failures (no connection, HTTP 500, a garbled answer, and
 * SandboxError, which comes with HTTP 200) are retried by the sandbox's queue.
 *
 * A cancelled execution ends at once: its thread notices the cancellation when the answer
 * comes. */
#include "base/clock.h"
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

struct fusion_worker {
    struct fusion *f;
    pthread_t thread;
    struct sr1_execution *run; /* under f->lock; NULL: idle, or it was cancelled */
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
    pthread_t sweeper;
    int sweeps;                    /* it was started */
    struct fusion_worker *workers; /* [concurrency] */
    int32_t concurrency;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t news;
    int32_t n_workers;
    int32_t n_idle;
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

/* The run, unless it was cancelled meanwhile. */
static struct sr1_execution *give_back(struct fusion *f, struct fusion_worker *w)
{
    struct sr1_execution *run;

    pthread_mutex_lock(&f->lock);
    run = w->run;
    w->run = NULL;
    w->busy = 0;
    pthread_mutex_unlock(&f->lock);
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

/* Make it known as under way, unless it was cancelled before that. */
static int mark_run_busy(struct fusion *f, struct fusion_worker *w,
                         struct sr1_execution *run)
{
    int gone;

    pthread_mutex_lock(&f->lock);
    gone = atomic_load(&run->cancelled) || sr1__sandbox_closing(f->box);
    w->run = gone ? NULL : run;
    w->busy = !gone;
    pthread_mutex_unlock(&f->lock);
    return !gone;
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

/* Ask for a run; the job is this thread's while the run may be cancelled. */
static void work_off(struct fusion *f, struct fusion_worker *w, struct sr1_execution *run)
{
    struct sr1__sandbox_job *job = run->job;
    struct sr1__fusion_answer answer;
    struct fusion_attempt asked;

    sr1__sandbox_clear(run);
    run->job = NULL;
    if (!mark_run_busy(f, w, run)) {
        run->job = job;
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled before it began");
        sr1__sandbox_end(f->box, run);
        return;
    }
    asked = send_fusion_request(f, job, &answer);
    run = give_back(f, w);
    if (run != NULL) {
        run->job = job;
        settle_fusion_run(f, run, &asked, &answer);
        return;
    }
    sr1__sandbox_job_free(job);
    if (asked.status == SR1_OK)
        sr1__fusion_answer_free(&answer);
}

/* ---- threads ---- */

/* Sleep until something happens, or a retry is due. Locked. */
static void sleep_until(struct fusion *f, double due)
{
    struct timespec t = sr1__clock_time(fmin(due, sr1__now() + IDLE_S));

    (void)pthread_cond_timedwait(&f->news, &f->lock, &t);
}

/* One worker more, if none is idle. Locked. 0: could not. */
static int add_worker(struct fusion *f);

/* Several runs may have come before one idle thread woke up: who takes one sees to it
 * that the next one has a thread too. */
static void wake_next_worker(struct fusion *f)
{
    if (!sr1__sandbox_waits(f->box))
        return;
    pthread_mutex_lock(&f->lock);
    (void)add_worker(f);
    pthread_mutex_unlock(&f->lock);
}

static void *run_fusion_worker(void *arg)
{
    struct fusion_worker *w = arg;
    struct fusion *f = w->f;
    uint64_t seen = 0;
    int quit = 0;

    while (!quit) {
        struct sr1_execution *run = sr1__sandbox_take(f->box);
        double due;

        if (run != NULL) {
            wake_next_worker(f);
            work_off(f, w, run);
            continue;
        }
        due = sr1__sandbox_due(f->box);
        pthread_mutex_lock(&f->lock);
        f->n_idle++;
        if (!f->quit && seen == f->wakes)
            sleep_until(f, due);
        seen = f->wakes;
        f->n_idle--;
        quit = f->quit;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* End what was cancelled under way. */
static void end_cancelled(struct fusion *f, int all)
{
    for (;;) {
        struct sr1_execution *run = NULL;

        pthread_mutex_lock(&f->lock);
        for (int32_t i = 0; i < f->n_workers && run == NULL; i++)
            if (f->workers[i].run != NULL &&
                (all || atomic_load(&f->workers[i].run->cancelled))) {
                run = f->workers[i].run;
                f->workers[i].run = NULL;
            }
        pthread_mutex_unlock(&f->lock);
        if (run == NULL)
            return;
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled while it ran");
        sr1__sandbox_end(f->box, run);
    }
}

static void *run_fusion_sweeper(void *arg)
{
    struct fusion *f = arg;
    uint64_t seen = 0;
    int quit = 0;

    while (!quit) {
        end_cancelled(f, sr1__sandbox_closing(f->box));
        sr1__sandbox_sweep(f->box);
        pthread_mutex_lock(&f->lock);
        if (!f->quit && seen == f->wakes)
            sleep_until(f, INFINITY);
        seen = f->wakes;
        quit = f->quit;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

static int add_worker(struct fusion *f)
{
    struct fusion_worker *w = &f->workers[f->n_workers];

    if (f->n_idle > 0 || f->n_workers == f->concurrency)
        return 1;
    w->f = f;
    if (sr1__thread_start(&w->thread, run_fusion_worker, w) != 0)
        return 0;
    f->n_workers++;
    return 1;
}

static void wake_fusion(void *engine)
{
    struct fusion *f = engine;

    pthread_mutex_lock(&f->lock);
    f->wakes++;
    (void)add_worker(f); /* without, the ones that are there do it later */
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
}

/* ---- the engine ---- */

static void free_fusion(struct fusion *f)
{
    sr1__http_free(f->http);
    sr1__free(f->run_url);
    sr1__free(f->submit_url);
    sr1__service_wipe(f->authorization);
    sr1__service_wipe(f->key);
    sr1__free(f->workers);
    (void)pthread_cond_destroy(&f->news);
    (void)pthread_mutex_destroy(&f->lock);
    sr1__free(f);
}

/* Requests that were about to leave when the others were cancelled are cancelled with
 * the next round. */
static void cancel_requests(struct fusion *f)
{
    int busy = f->http != NULL;

    while (busy) {
        struct timespec t = {0, (long)(STOPPING_S * 1e9)};

        sr1__http_cancel(f->http);
        busy = 0;
        pthread_mutex_lock(&f->lock);
        for (int32_t i = 0; i < f->n_workers; i++)
            busy |= f->workers[i].busy;
        pthread_mutex_unlock(&f->lock);
        if (busy)
            (void)nanosleep(&t, NULL);
    }
}

static void close_fusion(void *engine)
{
    struct fusion *f = engine;

    cancel_requests(f);
    pthread_mutex_lock(&f->lock);
    f->quit = 1;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
    if (f->sweeps)
        (void)pthread_join(f->sweeper, NULL);
    for (int32_t i = 0; i < f->n_workers; i++)
        (void)pthread_join(f->workers[i].thread, NULL);
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

static sr1_status start_threads(struct fusion *f)
{
    SR1__CALLOC(f->workers, (size_t)f->concurrency, "sandbox");
    errno = sr1__thread_start(&f->sweeper, run_fusion_sweeper, f);
    if (errno != 0)
        return sr1__fail_errno("start a thread", "of a sandbox");
    f->sweeps = 1;
    pthread_mutex_lock(&f->lock);
    errno = add_worker(f) ? 0 : EAGAIN;
    pthread_mutex_unlock(&f->lock);
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
        st = start_threads(f);
    SR1__RETURN_NEW(engine, f, st, close_fusion);
}

const struct sr1__engine_ops sr1__fusion_engine = {
    .kind = "fusion",
    .open = open_fusion,
    .check = sr1__fusion_check,
    .wake = wake_fusion,
    .close = close_fusion,
};
