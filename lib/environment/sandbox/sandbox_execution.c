/* environment/sandbox/sandbox_execution.c - waiting for a run, cancelling it, reading its
 * result. */
#include "environment/sandbox/sandbox_execution.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "environment/sandbox/sandbox_engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const verdict_names[] = {
    [SR1_RUN_PASSED] = "passed",
    [SR1_RUN_WRONG] = "wrong",
    [SR1_RUN_RUNTIME_ERROR] = "runtime error",
    [SR1_RUN_TIMEOUT] = "timeout",
    [SR1_RUN_MEMORY] = "memory",
    [SR1_RUN_OUTPUT] = "output",
    [SR1_RUN_INFRASTRUCTURE] = "infrastructure error",
    [SR1_RUN_CANCELLED] = "cancelled",
};

const char *sr1_execution_verdict_name(int32_t verdict)
{
    size_t n = sizeof verdict_names / sizeof *verdict_names;

    return verdict >= 0 && (size_t)verdict < n ? verdict_names[verdict] : "?";
}

/* ---- outcomes ---- */

void sr1__outcome_init(struct sr1__outcome *o)
{
    memset(o, 0, sizeof *o);
    sr1__buf_init(&o->out, 0);
    sr1__buf_init(&o->err, 0);
    o->exit_code = -1;
    o->cpu_s = -1;
    o->peak_bytes = -1;
}

void sr1__outcome_free(struct sr1__outcome *o)
{
    sr1__buf_free(&o->out);
    sr1__buf_free(&o->err);
}

/* The replacement of an invalid character, or of one that moves the cursor; 0: keep the
 * character. */
static char in_place_of(int width, uint32_t cp)
{
    if (width > 0 && (cp == '\n' || cp == '\t' || cp == '\r'))
        return ' ';
    return width <= 0 || cp < ' ' || (cp >= 127 && cp < 160) ? '?' : '\0';
}

/* One line of UTF-8: a message may quote what a program wrote. A character that the
 * room cut off goes. */
static void sanitise_message(char *text)
{
    size_t n = strlen(text), to = 0, width;

    for (size_t i = 0; i < n; i += width) {
        uint32_t cp = 0;
        int got = sr1__utf8_next(text + i, n - i, &cp);
        char other = in_place_of(got, cp);

        if (got < 0)
            break;
        width = got > 0 ? (size_t)got : 1;
        if (other != '\0')
            text[to++] = other;
        for (size_t k = 0; other == '\0' && k < width; k++)
            text[to++] = text[i + k];
    }
    text[to] = '\0';
}

void sr1__outcome_set(struct sr1__outcome *o, int32_t verdict, const char *fmt, ...)
{
    va_list args;

    o->verdict = verdict;
    o->accepted = verdict == SR1_RUN_PASSED;
    va_start(args, fmt);
    (void)vsnprintf(o->message, sizeof o->message, fmt, args);
    va_end(args);
    sanitise_message(o->message);
}

/* ---- life ---- */

sr1_status sr1__execution_new(struct sr1_execution **out, sr1_sandbox *box,
                              struct sr1__sandbox_job *job)
{
    struct sr1_execution *run = sr1__calloc(1, sizeof(*run));

    SR1__CHECK_ALLOC(run, "run");
    atomic_init(&run->refs, 2);
    atomic_init(&run->cancelled, 0);
    (void)pthread_mutex_init(&run->lock, NULL);
    sr1__cond_init(&run->ended);
    run->box = box;
    run->job = job;
    sr1__outcome_init(&run->outcome);
    run->asked_at = sr1__now();
    *out = run;
    return SR1_OK;
}

void sr1__execution_drop(struct sr1_execution *run)
{
    if (atomic_fetch_sub(&run->refs, 1) != 1)
        return;
    sr1__sandbox_job_free(run->job);
    sr1__outcome_free(&run->outcome);
    for (size_t i = 0; i < run->n_tests; i++)
        sr1__outcome_free(&run->tests[i]);
    sr1__free(run->tests);
    (void)pthread_cond_destroy(&run->ended);
    (void)pthread_mutex_destroy(&run->lock);
    sr1__free(run);
}

void sr1__execution_end(struct sr1_execution *run)
{
    sr1__sandbox_job_free(run->job);
    run->job = NULL;
    pthread_mutex_lock(&run->lock);
    run->done = 1;
    run->box = NULL;
    pthread_cond_broadcast(&run->ended);
    pthread_mutex_unlock(&run->lock);
    sr1__execution_drop(run);
}

sr1_status sr1_execution_wait(sr1_execution *run, double seconds)
{
    struct timespec t;
    int rc = 0;
    int done;

    if (run == NULL || isnan(seconds))
        return sr1__fail(SR1_E_INVALID, "run: no run, or no number of seconds");
    t = sr1__clock_time(sr1__now() + fmax(0, fmin(seconds, 1e8)));
    pthread_mutex_lock(&run->lock);
    while (!run->done && rc != ETIMEDOUT && seconds != 0)
        rc = seconds < 0 ? pthread_cond_wait(&run->ended, &run->lock)
                         : pthread_cond_timedwait(&run->ended, &run->lock, &t);
    done = run->done;
    pthread_mutex_unlock(&run->lock);
    return done ? SR1_OK : sr1__fail(SR1_E_TIMEOUT, "run: it has not ended yet");
}

void sr1_execution_cancel(sr1_execution *run)
{
    if (run == NULL || atomic_exchange(&run->cancelled, 1))
        return;
    pthread_mutex_lock(&run->lock);
    if (!run->done)
        sr1__sandbox_wake(run->box);
    pthread_mutex_unlock(&run->lock);
}

void sr1_execution_free(sr1_execution *run)
{
    if (run == NULL)
        return;
    sr1_execution_cancel(run);
    sr1__execution_drop(run);
}

/* ---- reading ---- */

static sr1_status fill_run_result(const struct sr1_execution *run,
                                  const struct sr1__outcome *o, sr1_execution_result *out)
{
    sr1_execution_result r = {
        .struct_size = sizeof r,
        .verdict = o->verdict,
        .exit_code = o->exit_code,
        .signal = o->signal,
        .attempts = run->attempts,
        .out = sr1__buf_cstr(&o->out),
        .out_bytes = o->out.len,
        .err = sr1__buf_cstr(&o->err),
        .err_bytes = o->err.len,
        .err_total = o->err_total,
        .message = o->message,
        .waited_s = run->begun_at > 0 ? run->begun_at - run->asked_at : 0,
        .wall_s = o->wall_s,
        .cpu_s = o->cpu_s,
        .peak_bytes = o->peak_bytes,
        .accepted = o->accepted,
    };

    return sr1__struct_give(out, &r, sizeof r, "run result");
}

static int is_done(const sr1_execution *run)
{
    struct sr1_execution *r = (struct sr1_execution *)run;
    int done;

    pthread_mutex_lock(&r->lock);
    done = r->done;
    pthread_mutex_unlock(&r->lock);
    return done;
}

sr1_status sr1_execution_result_get(const sr1_execution *run, sr1_execution_result *out)
{
    SR1__TRY(sr1__struct_check(out, "run result"));
    if (run == NULL)
        return sr1__fail(SR1_E_INVALID, "run: none is given");
    if (!is_done(run))
        return sr1__fail(SR1_E_STATE, "run: it has not ended; wait for it first");
    return fill_run_result(run, &run->outcome, out);
}

size_t sr1_execution_test_count(const sr1_execution *run)
{
    return run != NULL && is_done(run) ? run->n_tests : 0;
}

sr1_status sr1_execution_test_get(const sr1_execution *run, size_t i,
                                  sr1_execution_result *out)
{
    SR1__TRY(sr1__struct_check(out, "run result"));
    if (i >= sr1_execution_test_count(run))
        return sr1__fail(SR1_E_NOT_FOUND, "run: there is no test %zu", i);
    return fill_run_result(run, &run->tests[i], out);
}

/* ---- lists ---- */

void sr1__executions_init(struct sr1__executions *q)
{
    q->first = NULL;
    q->end = &q->first;
}

void sr1__executions_add(struct sr1__executions *q, struct sr1_execution *run)
{
    run->next = NULL;
    *q->end = run;
    q->end = &run->next;
}

struct sr1_execution *sr1__executions_take(struct sr1__executions *q,
                                           struct sr1_execution **at)
{
    struct sr1_execution *run = *at;

    *at = run->next;
    if (q->end == &run->next)
        q->end = at;
    run->next = NULL;
    return run;
}
