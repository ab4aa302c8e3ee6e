/* environment/sandbox/verdict.c - the rules, the first that fits:
 *
 *     stopped by the engine           its reason
 *     more output than allowed        output
 *     SIGXCPU, or SIGKILL at the
 *     limit of processor time         timeout
 *     exit code 0                     passed, or wrong by sr1_judge_output
 *     it failed, and said it had
 *     no memory or had used it up     memory
 *     else                            runtime error */
#include "environment/sandbox/verdict.h"

#include "environment/sandbox/capture.h"

#include <signal.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

static int text_begins_with(const char *text, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Words with which Python and C++ run times end when an allocation failed. */
static int says_no_memory(const struct sr1__buf *err)
{
    static const char bad_alloc[] = "std::bad_alloc";
    const char *line;
    size_t n;

    sr1__last_line(sr1__buf_cstr(err), err->len, &line, &n);
    if (text_begins_with(line, n, "MemoryError"))
        return 1;
    return err->len > 0 && strstr(err->data, bad_alloc) != NULL;
}

static int used_up_memory(const struct sr1__end *e, const struct sr1__job_limits *l)
{
    return e->signal != 0 && e->peak_bytes > l->memory_mib * MIB / 10 * 9;
}

static int used_up_time(const struct sr1__end *e, const struct sr1__job_limits *l)
{
    return e->signal == SIGXCPU || (e->signal == SIGKILL && e->cpu_s >= l->cpu_s);
}

static const char *signal_name(int s)
{
    const char *name = sigabbrev_np(s);

    return name != NULL ? name : "?";
}

/* "signal 11 (SEGV)", or "exit code 1: NameError: name 'x' is not defined". */
static void set_exit_failure(struct sr1__outcome *o, int32_t verdict,
                             const struct sr1__end *e)
{
    const char *line;
    size_t n;

    if (e->signal != 0) {
        sr1__outcome_set(o, verdict, "signal %d (%s)", e->signal, signal_name(e->signal));
        return;
    }
    sr1__last_line(sr1__buf_cstr(&o->err), o->err.len, &line, &n);
    sr1__outcome_set(o, verdict, "exit code %d%s%.*s", e->exit_code, n > 0 ? ": " : "",
                     n < 400 ? (int)n : 400, line);
}

static int set_stopped(struct sr1__outcome *o, const struct sr1__end *e,
                       const struct sr1__job_limits *l)
{
    switch (e->stop) {
    case SR1__STOP_TIME:
        sr1__outcome_set(o, SR1_RUN_TIMEOUT, "stopped after %g s", l->time_s);
        return 1;
    case SR1__STOP_OUTPUT:
        break;
    case SR1__STOP_MEMORY:
        sr1__outcome_set(o, SR1_RUN_MEMORY, "stopped: more than %d MiB of memory",
                         l->memory_mib);
        return 1;
    case SR1__STOP_NAMES:
        sr1__outcome_set(o, SR1_RUN_MEMORY, "stopped: too many files");
        return 1;
    case SR1__STOP_PROCESSES:
        sr1__outcome_set(o, SR1_RUN_MEMORY, "stopped: too many processes");
        return 1;
    case SR1__STOP_CANCEL:
        sr1__outcome_set(o, SR1_RUN_CANCELLED, "cancelled while it ran");
        return 1;
    case SR1__STOP_NONE:
        break;
    }
    if (e->out_total <= l->output_bytes && o->err_total <= l->output_bytes)
        return 0;
    sr1__outcome_set(o, SR1_RUN_OUTPUT, "stopped: more than %lld bytes of output",
                     (long long)l->output_bytes);
    return 1;
}

static int is_expected(const struct sr1__buf *out, const struct sr1__job_bytes *expected)
{
    return expected->data == NULL || sr1__compare_outputs(expected->data, expected->n,
                                                          sr1__buf_cstr(out), out->len);
}

void sr1__verdict(struct sr1__outcome *o, const struct sr1__end *e,
                  const struct sr1__job_limits *l, const struct sr1__job_bytes *expected)
{
    o->exit_code = e->signal != 0 ? -1 : e->exit_code;
    o->signal = e->signal;
    if (set_stopped(o, e, l))
        return;
    if (used_up_time(e, l))
        sr1__outcome_set(o, SR1_RUN_TIMEOUT, "stopped after %g s of processor time",
                         l->cpu_s);
    else if (e->signal == 0 && e->exit_code == 0 && is_expected(&o->out, expected))
        sr1__outcome_set(o, SR1_RUN_PASSED, "%s", "");
    else if (e->signal == 0 && e->exit_code == 0)
        sr1__outcome_set(o, SR1_RUN_WRONG, "its output is not the expected one");
    else
        set_exit_failure(o,
                         says_no_memory(&o->err) || used_up_memory(e, l)
                             ? SR1_RUN_MEMORY
                             : SR1_RUN_RUNTIME_ERROR,
                         e);
}
