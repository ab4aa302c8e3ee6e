/* environment/code/code_check.c - one check: its runs, its end, and what it reports. */
#include "environment/code/code_check.h"

#include "base/clock.h"
#include "base/struct.h"
#include "environment/sandbox/sandbox_engine.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- its runs ---- */

double sr1__check_time(const struct sr1__check_limits *l, const sr1_problem *p)
{
    return l->time_limit > 0 ? l->time_limit : fmin(p->time_limit, l->max_time_limit);
}

sr1_status sr1__check_fail_cancelled(void)
{
    return sr1__fail(SR1_E_CANCELLED, "the check was cancelled");
}

sr1_status sr1__check_start(struct sr1_check *c, sr1_sandbox *box,
                            const sr1_program *program, size_t k)
{
    sr1_status status = SR1_E_CANCELLED;

    pthread_mutex_lock(&c->lock);
    if (!c->cancelled)
        status = sr1_sandbox_start(box, program, &c->runs[k]);
    pthread_mutex_unlock(&c->lock);
    return status == SR1_E_CANCELLED ? sr1__check_fail_cancelled() : status;
}

sr1_status sr1__check_start_linked(struct sr1_check *c, sr1_sandbox *box,
                                   const sr1_program *program, int socket)
{
    sr1_status status = SR1_E_CANCELLED;

    pthread_mutex_lock(&c->lock);
    if (!c->cancelled)
        status = sr1__sandbox_start_linked(box, program, socket, &c->runs[0]);
    pthread_mutex_unlock(&c->lock);
    return status == SR1_E_CANCELLED ? sr1__check_fail_cancelled() : status;
}

/* Only the check's own thread puts runs in their places and takes them out. */
sr1_status sr1__check_result(struct sr1_check *c, size_t k, sr1_execution_result *out)
{
    SR1__TRY(sr1_execution_wait(c->runs[k], -1));
    return sr1_execution_result_get(c->runs[k], out);
}

void sr1__check_drop(struct sr1_check *c, size_t k)
{
    sr1_execution *run;

    pthread_mutex_lock(&c->lock);
    run = c->runs[k];
    c->runs[k] = NULL;
    pthread_mutex_unlock(&c->lock);
    sr1_execution_free(run);
}

/* Python refuses such a program before it reads on. */
static void refuse_nul(struct sr1__check_outcome *o, const struct sr1__check_limits *l)
{
    o->verdicts[0] = SR1_RUN_RUNTIME_ERROR;
    if (!l->all_or_nothing)
        sr1__check_outcome_rest(o, 0, SR1_RUN_RUNTIME_ERROR);
    sr1__buf_str(&o->error, "SyntaxError: source code cannot contain null bytes");
}

/* Statements and calls. */
static sr1_status run_function_tests(struct sr1_check *c, sr1_sandbox *box,
                                     const struct sr1__check_limits *l, int64_t *programs)
{
    int inside = !sr1__sandbox_takes_sockets(box);

    if (!inside)
        SR1__TRY(sr1__check_outside(c, box, l, programs, &inside));
    if (!inside)
        return SR1_OK;
    c->outcome.inside = 1;
    return sr1__check_driven(c, box, l, programs);
}

sr1_status sr1__check_tests(struct sr1_check *c, sr1_sandbox *box,
                            const struct sr1__check_limits *l, int64_t *programs)
{
    sr1_status status = SR1_OK;

    if (memchr(c->code, '\0', c->code_len) != NULL)
        refuse_nul(&c->outcome, l);
    else if (c->problem->style == SR1_CODE_STDIO)
        status = sr1__check_stdio(c, box, l, programs);
    else
        status = run_function_tests(c, box, l, programs);
    for (size_t k = 0; k < c->n_runs; k++)
        sr1__check_drop(c, k);
    sr1__check_outcome_sum_up(&c->outcome);
    return status;
}

/* ---- from outside ---- */

sr1_status sr1_check_wait(sr1_check *check, double seconds)
{
    int bounded = seconds >= 0 && seconds < 1e9;
    struct timespec until = sr1__clock_time(sr1__now() + (bounded ? seconds : 0));
    int error = 0;
    int done;

    SR1__REQUIRE(check != NULL, "check");
    if (isnan(seconds))
        return sr1__fail(SR1_E_INVALID, "check: the seconds to wait are not a number");
    pthread_mutex_lock(&check->lock);
    while (!check->done && error != ETIMEDOUT)
        error = bounded ? pthread_cond_timedwait(&check->ended, &check->lock, &until)
                        : pthread_cond_wait(&check->ended, &check->lock);
    done = check->done;
    pthread_mutex_unlock(&check->lock);
    return done ? SR1_OK : sr1__fail(SR1_E_TIMEOUT, "the check has not ended yet");
}

int32_t sr1_check_done(const sr1_check *check)
{
    sr1_check *c = (sr1_check *)(uintptr_t)check; /* a lock is no part of what it says */
    int32_t done;

    if (check == NULL)
        return 0;
    pthread_mutex_lock(&c->lock);
    done = c->done;
    pthread_mutex_unlock(&c->lock);
    return done;
}

void sr1_check_cancel(sr1_check *check)
{
    if (check == NULL)
        return;
    pthread_mutex_lock(&check->lock);
    check->cancelled = 1;
    for (size_t k = 0; k < check->n_runs; k++)
        if (check->runs[k] != NULL)
            sr1_execution_cancel(check->runs[k]);
    pthread_mutex_unlock(&check->lock);
}

sr1_status sr1_check_report_get(const sr1_check *check, sr1_check_report *out)
{
    sr1_check_report r = {.struct_size = sizeof(r)};
    const struct sr1__check_outcome *o;

    SR1__REQUIRE(check != NULL, "check report: check");
    if (!sr1_check_done(check))
        return sr1__fail(SR1_E_STATE, "the check has not ended yet");
    o = &check->outcome;
    r.verdict = o->verdict;
    r.tests = (int64_t)o->n;
    r.first_failed = o->first_failed;
    for (size_t i = 0; i < o->n; i++)
        r.passed += o->verdicts[i] == SR1_RUN_PASSED;
    r.pass_rate =
        check->all_or_nothing ? r.passed == r.tests : (double)r.passed / (double)r.tests;
    r.cached = check->cached;
    r.seconds = check->seconds;
    r.got = sr1__buf_cstr(&o->got);
    r.error = sr1__buf_cstr(&o->error);
    r.judged_inside = o->inside;
    return sr1__struct_give(out, &r, sizeof(r), "check report");
}

int32_t sr1_check_verdict(const sr1_check *check, size_t index)
{
    if (check == NULL || index >= check->outcome.n || !sr1_check_done(check))
        return -1;
    return check->outcome.verdicts[index];
}
