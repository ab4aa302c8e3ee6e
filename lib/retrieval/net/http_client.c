/* retrieval/net/http_client.c - the thread that moves the bytes of all requests of a
 * client.
 *
 *     callers  --queue-->  waiting  --due, breaker, slot, token-->  under way
 *                             ^                                         |
 *                             +------------- to be retried -------------+--> done
 *
 * A caller queues a batch and sleeps until its last request is done. The states from
 * `waiting` on belong to the thread alone and need no lock. */
#include "retrieval/net/http_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "retrieval/net/breaker.h"
#include "retrieval/net/token_bucket.h"
#include "retrieval/net/transfer.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDLE_S 60.0 /* wake up this often for nothing; any number would do */

/* The requests of one call. */
struct request_batch {
    size_t left;
    pthread_cond_t done; /* left fell to 0 */
};

struct http_job {
    struct http_job *next;
    struct request_batch *batch;
    const struct sr1__http_request *request;
    struct sr1__http_response *response;
    struct sr1__transfer *transfer; /* NULL unless under way */
    double due;                     /* not before this time */
    int64_t epoch;                  /* stops so far, when it was queued */
    int32_t attempts;               /* made so far */
    int32_t rate_waited;
    int32_t is_probe; /* the breaker's, while under way */
};

/* First in, first out. */
struct job_queue {
    struct http_job *first;
    struct http_job **end;
};

struct sr1__http {
    struct sr1__http_options o;
    char *ca_file;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t lock; /* over the next three and every batch */
    struct job_queue queue;
    int64_t epoch; /* counts sr1__http_cancel */
    int quit;
    struct job_queue waiting;
    struct job_queue active;
    int32_t n_active;
    struct sr1__token_bucket bucket;
    struct sr1__breaker breaker;
    struct sr1__rng rng;
    atomic_llong attempts;
    atomic_llong retries;
    atomic_llong rate_waits;
    atomic_llong refused;
    atomic_llong connections;
};

/* ---- queues ---- */

static void queue_init(struct job_queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static void queue_add(struct job_queue *q, struct http_job *j)
{
    j->next = NULL;
    *q->end = j;
    q->end = &j->next;
}

/* Take out the job at *p. */
static struct http_job *queue_take(struct job_queue *q, struct http_job **p)
{
    struct http_job *j = *p;

    *p = j->next;
    if (q->end == &j->next)
        q->end = p;
    return j;
}

static void queue_move(struct job_queue *to, struct job_queue *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    queue_init(from);
}

/* ---- the end of a job ---- */

/* j and its response are the caller's again. */
static void finish_job(struct sr1__http *h, struct http_job *j)
{
    struct request_batch *b = j->batch;

    pthread_mutex_lock(&h->lock);
    if (--b->left == 0)
        pthread_cond_signal(&b->done);
    pthread_mutex_unlock(&h->lock);
}

static void finish_job_with(struct sr1__http *h, struct http_job *j, sr1_status status,
                            const char *message)
{
    j->response->status = status;
    snprintf(j->response->message, sizeof j->response->message, "%s", message);
    finish_job(h, j);
}

static void drop_transfer(struct sr1__http *h, struct http_job *j)
{
    (void)curl_multi_remove_handle(h->multi, sr1__transfer_handle(j->transfer));
    sr1__transfer_free(j->transfer);
    j->transfer = NULL;
    h->n_active--;
}

static void cancel_job(struct sr1__http *h, struct http_job *j)
{
    finish_job_with(h, j, SR1_E_CANCELLED, "the request was stopped");
}

/* Those queued before epoch `until`. */
static void cancel_until(struct sr1__http *h, int64_t until)
{
    for (struct http_job **p = &h->active.first; *p;) {
        if ((*p)->epoch >= until) {
            p = &(*p)->next;
            continue;
        }
        drop_transfer(h, *p);
        sr1__breaker_abandon(&h->breaker, (*p)->is_probe);
        cancel_job(h, queue_take(&h->active, p));
    }
    for (struct http_job **p = &h->waiting.first; *p;) {
        if ((*p)->epoch >= until)
            p = &(*p)->next;
        else
            cancel_job(h, queue_take(&h->waiting, p));
    }
}

/* ---- from waiting to under way ---- */

static void refuse_job(struct sr1__http *h, struct http_job *j, double now)
{
    char origin[SR1__ORIGIN_MAX] = "the service";

    atomic_fetch_add(&h->refused, 1);
    (void)sr1__url_origin(j->request->url, "request", origin);
    j->response->status = SR1_E_NETWORK;
    snprintf(j->response->message, sizeof j->response->message,
             "%.120s failed %d times in a row; it is asked again in %.1f s", origin,
             (int)h->breaker.failures, fmax(0, h->breaker.open_until - now));
    finish_job(h, j);
}

static void launch_job(struct sr1__http *h, struct http_job *j)
{
    sr1_status st = sr1__transfer_new(&j->transfer, &h->o, j->request, j->response, j);

    if (st == SR1_OK &&
        curl_multi_add_handle(h->multi, sr1__transfer_handle(j->transfer)) != CURLM_OK) {
        sr1__transfer_free(j->transfer);
        j->transfer = NULL;
        st = sr1__fail_nomem("request");
    }
    if (st != SR1_OK) {
        sr1__breaker_abandon(&h->breaker, j->is_probe);
        finish_job_with(h, j, st, sr1_last_error());
        return;
    }
    atomic_fetch_add(&h->attempts, 1);
    if (j->attempts++ > 0)
        atomic_fetch_add(&h->retries, 1);
    h->n_active++;
    queue_add(&h->active, j);
}

/* Seconds until the job at hand may start, 0 when it may now. */
static double rate_wait(struct sr1__http *h, struct http_job *j, double now)
{
    double wait = sr1__token_bucket_take(&h->bucket, now);

    if (wait > 0 && !j->rate_waited) {
        j->rate_waited = 1;
        atomic_fetch_add(&h->rate_waits, 1);
    }
    return wait;
}

/* Start what may start. Returns the seconds until more may. */
static double start_due(struct sr1__http *h, double now)
{
    double wake = IDLE_S;
    struct http_job **p = &h->waiting.first;

    while (*p && h->n_active < h->o.concurrency) {
        enum sr1__breaker_verdict answer;
        double wait = (*p)->due - now;

        if (wait > 0) {
            wake = fmin(wake, wait);
            p = &(*p)->next;
            continue;
        }
        answer = sr1__breaker_admit(&h->breaker, now);
        if (answer == SR1__BREAKER_REFUSE) {
            refuse_job(h, queue_take(&h->waiting, p), now);
            continue;
        }
        if (answer == SR1__BREAKER_WAIT)
            break;
        (*p)->is_probe = answer == SR1__BREAKER_PROBE;
        wait = rate_wait(h, *p, now);
        if (wait > 0) {
            sr1__breaker_abandon(&h->breaker, (*p)->is_probe);
            return fmin(wake, wait);
        }
        launch_job(h, queue_take(&h->waiting, p));
    }
    return wake;
}

/* ---- from under way to done ---- */

static void unlink_active(struct sr1__http *h, const struct http_job *j)
{
    struct http_job **p = &h->active.first;

    while (*p != j)
        p = &(*p)->next;
    (void)queue_take(&h->active, p);
}

static void settle_transfer(struct sr1__http *h, struct http_job *j, CURLcode code)
{
    const struct sr1__http_response *r = j->response;
    double now = sr1__now();
    double wait = -1;

    sr1__transfer_end(j->transfer, code);
    atomic_fetch_add(&h->connections, sr1__transfer_connections(j->transfer));
    drop_transfer(h, j);
    unlink_active(h, j);
    sr1__breaker_report(&h->breaker, j->is_probe, r->outage, now);
    if (r->again)
        wait = sr1__retry_wait(&h->o.retry, j->attempts - 1, r->retry_after, &h->rng);
    if (r->code == 429 && wait >= 0) /* the others would be refused as well */
        sr1__token_bucket_pause(&h->bucket, now + wait);
    if (wait < 0) {
        finish_job(h, j);
        return;
    }
    j->due = now + wait;
    j->rate_waited = 0;
    queue_add(&h->waiting, j);
}

static void settle_ended(struct sr1__http *h)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(h->multi, &left))) {
        CURLcode code = m->data.result;
        char *tag = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &tag);
        settle_transfer(h, (struct http_job *)(void *)tag, code);
    }
}

/* ---- the thread ---- */

/* 0 when the client is to end. */
static int move_submissions(struct sr1__http *h)
{
    int64_t until;
    int quit;

    pthread_mutex_lock(&h->lock);
    queue_move(&h->waiting, &h->queue);
    quit = h->quit;
    until = quit ? INT64_MAX : h->epoch;
    pthread_mutex_unlock(&h->lock);
    cancel_until(h, until);
    return !quit;
}

static void pause_polling(void)
{
    const struct timespec t = {0, 10000000};

    nanosleep(&t, NULL);
}

static void *run_client_thread(void *arg)
{
    struct sr1__http *h = arg;

    while (move_submissions(h)) {
        int running = 0;
        double wake;

        (void)curl_multi_perform(h->multi, &running);
        settle_ended(h);
        wake = start_due(h, sr1__now());
        /* What was just started needs a perform at once; curl's timers see to that. */
        if (curl_multi_poll(h->multi, NULL, 0, (int)ceil(1000 * wake), NULL) != CURLM_OK)
            pause_polling(); /* no memory for it: do not spin */
    }
    return NULL;
}

/* ---- the handle ---- */

static CURLcode curl_started = CURLE_FAILED_INIT;

static void start_curl(void)
{
    curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static sr1_status check_http_options(const struct sr1__http_options *o)
{
    int ok = o->timeout_s > 0 && o->connect_timeout_s > 0 && o->max_body > 0 &&
             o->concurrency > 0 && o->rate >= 0 && o->retry.retries >= 0 &&
             o->retry.first_s >= 0 && o->retry.max_s >= 0 &&
             o->retry.max_retry_after_s >= 0 && o->breaker_failures >= 0 &&
             o->breaker_rest_s >= 0;

    return ok ? SR1_OK
              : sr1__fail(SR1_E_INVALID,
                          "HTTP client: a time-out, limit or count is out of range");
}

static sr1_status start_http_client(struct sr1__http *h)
{
    h->multi = curl_multi_init();
    SR1__CHECK_ALLOC(h->multi, "HTTP client");
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)h->o.concurrency);
    /* It blocks SIGPIPE too, which TLS raises on a closed connection. */
    if (sr1__thread_start(&h->thread, run_client_thread, h) != 0)
        return sr1__fail(SR1_E_LIMIT, "HTTP client: the system refused a thread");
    return SR1_OK;
}

static void destroy_http_client(struct sr1__http *h)
{
    if (h->multi)
        (void)curl_multi_cleanup(h->multi);
    pthread_mutex_destroy(&h->lock);
    sr1__free(h->ca_file);
    sr1__free(h);
}

sr1_status sr1__http_new(struct sr1__http **out, const struct sr1__http_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sr1__http *h;
    sr1_status st = SR1_OK;

    SR1__TRY(check_http_options(options));
    pthread_once(&once, start_curl);
    if (curl_started != CURLE_OK)
        return sr1__fail(SR1_E_NETWORK, "libcurl cannot start: %s",
                         curl_easy_strerror(curl_started));
    SR1__CALLOC(h, 1, "HTTP client");
    h->o = *options;
    pthread_mutex_init(&h->lock, NULL);
    queue_init(&h->queue);
    queue_init(&h->waiting);
    queue_init(&h->active);
    sr1__token_bucket_init(&h->bucket, options->rate);
    sr1__breaker_init(&h->breaker, options->breaker_failures, options->breaker_rest_s);
    sr1__rng_seed(&h->rng, options->seed, 0);
    if (options->ca_file) {
        h->ca_file = sr1__strdup(options->ca_file);
        st = h->ca_file ? SR1_OK : sr1__fail_nomem("HTTP client");
        h->o.ca_file = h->ca_file;
    }
    if (st == SR1_OK)
        st = start_http_client(h);
    SR1__RETURN_NEW(out, h, st, destroy_http_client);
}

void sr1__http_free(struct sr1__http *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->quit = 1;
    pthread_mutex_unlock(&h->lock);
    (void)curl_multi_wakeup(h->multi);
    pthread_join(h->thread, NULL);
    destroy_http_client(h);
}

static void submit_jobs(struct sr1__http *h, struct http_job *jobs, size_t n,
                        struct request_batch *b)
{
    double now = sr1__now();

    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n; i++) {
        jobs[i].due = now + jobs[i].request->wait_s;
        jobs[i].epoch = h->epoch;
        queue_add(&h->queue, &jobs[i]);
    }
    pthread_mutex_unlock(&h->lock);
    (void)curl_multi_wakeup(h->multi);
    pthread_mutex_lock(&h->lock);
    while (b->left > 0)
        pthread_cond_wait(&b->done, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

sr1_status sr1__http_run(struct sr1__http *h, const struct sr1__http_request *requests,
                         size_t n, struct sr1__http_response *responses)
{
    struct request_batch b = {.left = n};
    struct http_job *jobs;

    memset(responses, 0, n * sizeof(*responses));
    SR1__CALLOC(jobs, n + 1, "requests");
    for (size_t i = 0; i < n; i++) {
        sr1__buf_init(&responses[i].body, h->o.max_body);
        jobs[i].batch = &b;
        jobs[i].request = &requests[i];
        jobs[i].response = &responses[i];
    }
    pthread_cond_init(&b.done, NULL);
    submit_jobs(h, jobs, n, &b);
    pthread_cond_destroy(&b.done);
    sr1__free(jobs);
    return SR1_OK;
}

void sr1__http_response_free(struct sr1__http_response *r)
{
    sr1__buf_free(&r->body);
    sr1__free(r->header);
    r->header = NULL;
}

void sr1__http_cancel(struct sr1__http *h)
{
    pthread_mutex_lock(&h->lock);
    h->epoch++;
    pthread_mutex_unlock(&h->lock);
    (void)curl_multi_wakeup(h->multi);
}

void sr1__http_counts_get(const struct sr1__http *h, struct sr1__http_counts *out)
{
    out->attempts = atomic_load(&h->attempts);
    out->retries = atomic_load(&h->retries);
    out->rate_waits = atomic_load(&h->rate_waits);
    out->refused = atomic_load(&h->refused);
    out->connections = atomic_load(&h->connections);
}
