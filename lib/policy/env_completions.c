/* policy/env_completions.c - the queue in which a loop receives the observations of its
 * actions from the environment executor. */
#include "policy/env_executor_internal.h"

#include "base/clock.h"
#include "base/mem.h"

sr1_status sr1__env_completions_new(struct sr1__env_completions **out,
                                    struct sr1__env_executor *a, int32_t rows)
{
    struct sr1__env_completions *b = sr1__calloc(1, sizeof(*b));

    if (b)
        b->requests = sr1__calloc((size_t)rows, sizeof(*b->requests));
    if (!b || !b->requests) {
        sr1__free(b);
        return sr1__fail_nomem("answers of searches");
    }
    sr1__cond_init(&b->answered);
    b->executor = a;
    b->n_rows = rows;
    b->mark = sr1_call_mark();
    pthread_mutex_lock(&a->lock);
    a->n_engines++;
    pthread_mutex_unlock(&a->lock);
    *out = b;
    return SR1_OK;
}

void sr1__env_completions_on_answer(struct sr1__env_completions *b, void (*fn)(void *arg),
                                    void *arg)
{
    pthread_mutex_lock(&b->executor->lock);
    b->on_answer = fn;
    b->on_answer_arg = arg;
    pthread_mutex_unlock(&b->executor->lock);
}

void sr1__env_completions_count(struct sr1__env_completions *b,
                                struct sr1__search_tally *tally)
{
    pthread_mutex_lock(&b->executor->lock);
    b->tally = tally;
    pthread_mutex_unlock(&b->executor->lock);
}

sr1_status sr1__env_completions_submit(struct sr1__env_completions *b,
                                       const int32_t *rows,
                                       const struct sr1__action *actions, size_t n)
{
    struct sr1__env_executor *a = b->executor;
    double now = sr1__now();
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        struct sr1__env_request *k = &b->requests[rows[i]];
        char *text = sr1__strndup(actions[i].text, actions[i].len);

        if (!text) {
            st = sr1__fail_nomem("action");
            break;
        }
        *k = (struct sr1__env_request){.completions = b,
                                       .state = SR1__REQUEST_QUEUED,
                                       .action = actions[i],
                                       .asked = now};
        k->action.text = text;
        sr1__env_executor_enqueue(a, k);
        b->waiting++;
    }
    sr1__env_executor_notify(a);
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* With replies NULL they are thrown away. */
static size_t collect_done_requests(struct sr1__env_completions *b,
                                    struct sr1__env_completion *replies)
{
    size_t n = 0;

    for (int32_t i = 0; i < b->n_rows; i++) {
        struct sr1__env_request *k = &b->requests[i];

        if (k->state != SR1__REQUEST_DONE)
            continue;
        k->state = SR1__REQUEST_NONE;
        if (replies)
            replies[n] = (struct sr1__env_completion){i, k->observation};
        else
            sr1__observation_free(&k->observation);
        n++;
    }
    b->waiting -= n;
    return n;
}

static sr1_status check_completions_error(const struct sr1__env_completions *b,
                                          struct sr1__env_completion *replies, size_t *n)
{
    if (b->error.code == SR1_OK)
        return SR1_OK;
    while (replies && *n > 0)
        sr1__observation_free(&replies[--*n].observation);
    return sr1__error_raise(&b->error);
}

/* When all are stuck, what is queued need not gather any longer. */
static void set_waiting_only(struct sr1__env_completions *b, int stuck)
{
    struct sr1__env_executor *a = b->executor;

    a->n_stuck += stuck - b->stuck;
    b->stuck = stuck;
    if (a->first && a->n_stuck >= a->n_engines)
        sr1__env_executor_notify(a);
}

/* Looks at the deadline this often while it waits. */
#define TICK 0.05

sr1_status sr1__env_completions_collect(struct sr1__env_completions *b, double seconds,
                                        struct sr1__env_completion *replies, size_t *n)
{
    struct sr1__env_executor *a = b->executor;
    double until = sr1__now() + seconds;
    sr1_status st;

    pthread_mutex_lock(&a->lock);
    set_waiting_only(b, seconds > 0);
    for (;;) {
        double left = until - sr1__now();
        struct timespec t = sr1__clock_time(sr1__now() + (left < TICK ? left : TICK));

        sr1__env_executor_abandon_late(a);
        *n = collect_done_requests(b, replies);
        if (*n > 0 || b->waiting == 0 || left <= 0)
            break;
        pthread_cond_timedwait(&b->answered, &a->lock, &t);
    }
    set_waiting_only(b, 0);
    st = check_completions_error(b, replies, n);
    pthread_mutex_unlock(&a->lock);
    return st;
}

size_t sr1__env_completions_pending(const struct sr1__env_completions *b)
{
    return b->waiting;
}

/* Take back what no thread has begun. */
static void cancel_queued(struct sr1__env_completions *b)
{
    struct sr1__env_executor *a = b->executor;
    struct sr1__env_request *k = a->first;

    a->first = NULL;
    a->n_queued = 0;
    while (k) {
        struct sr1__env_request *next = k->next;

        if (k->completions == b) {
            sr1__env_request_free_text(k);
            k->state = SR1__REQUEST_NONE;
            b->waiting--;
        } else {
            sr1__env_executor_enqueue(a, k);
        }
        k = next;
    }
}

/* Nobody will take the answers of what runs. */
static void detach_running(struct sr1__env_completions *b)
{
    for (struct sr1__env_call *c = b->executor->calls; c; c = c->next) {
        for (size_t i = 0; i < c->n; i++) {
            if (!c->requests[i] || c->requests[i]->completions != b)
                continue;
            c->requests[i] = NULL;
            b->waiting--;
        }
    }
}

void sr1__env_completions_free(struct sr1__env_completions *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->executor->lock);
    cancel_queued(b);
    detach_running(b);
    (void)collect_done_requests(b, NULL);
    b->executor->n_engines--;
    sr1__env_executor_notify(b->executor);
    pthread_mutex_unlock(&b->executor->lock);
    pthread_cond_destroy(&b->answered);
    sr1__free(b->requests);
    sr1__free(b);
}
