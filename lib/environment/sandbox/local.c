/* environment/sandbox/local.c - one thread that starts, watches and ends the programs of
 * a sandbox.
 *
 *     wait for events -> read what was written -> see who has ended -> start the next
 *
 * The thread never waits for one program, so a hanging program delays no other: it runs
 * until its limit, but one second after its start it no longer counts towards
 * `concurrency`, as long as no more than `concurrency` programs are that old. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "environment/sandbox/sandbox_engine.h"
#include "environment/sandbox/process.h"
#include "environment/sandbox/spawn.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 64
#define OLD_S 1.0
#define IDLE_S 60.0
#define PROBE_S 60.0
#define WHY_MAX 160

struct local_engine {
    sr1_sandbox *box;
    struct sr1__launch_plan place;
    int32_t concurrency;
    int epoll;
    int wake;
    atomic_int quit;
    pthread_t thread;
    struct sr1__process *live; /* the thread's alone, as what follows */
    int32_t n_live;
};

/* ---- events ---- */

static int listen_to(struct local_engine *e, struct sr1__event_source *s)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};

    return epoll_ctl(e->epoll, EPOLL_CTL_ADD, *s->fd, &event) == 0;
}

/* Before it is closed: a child that was just forked may hold the same pipe a moment
 * longer, and its events would go on pointing here. */
static void stop_listening_to(struct local_engine *e, struct sr1__event_source *s)
{
    if (*s->fd >= 0)
        (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, *s->fd, NULL);
}

static void drain_wake(struct local_engine *e)
{
    uint64_t n;

    (void)!read(e->wake, &n, sizeof n);
}

/* Seconds until something is to be done without an event. */
static double next_time(struct local_engine *e, double now)
{
    double at = fmin(now + IDLE_S, sr1__sandbox_due(e->box));

    for (struct sr1__process *l = e->live; l != NULL; l = l->next) {
        at = fmin(at, l->look_at);
        if (l->stop == SR1__STOP_NONE)
            at = fmin(at, l->begun + l->run->job->limits.time_s);
    }
    return fmax(0, at - now);
}

static void wait_for_events(struct local_engine *e)
{
    struct epoll_event events[EVENTS];
    double wait = next_time(e, sr1__now());
    int n = epoll_wait(e->epoll, events, EVENTS, (int)ceil(1000 * wait));

    for (int i = 0; i < n; i++) {
        struct sr1__event_source *s = events[i].data.ptr;

        if (s == NULL)
            drain_wake(e);
        else if (s != &s->live->end && !sr1__process_read(s->live, s)) {
            stop_listening_to(e, s);
            sr1__fd_close(s->fd);
        }
    }
}

/* ---- programs ---- */

static void settle_local_run(struct local_engine *e, struct sr1_execution *run,
                             int is_known)
{
    if (!is_known && sr1__sandbox_retry(e->box, run, 0))
        return;
    if (!is_known && atomic_load(&run->cancelled))
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled");
    sr1__sandbox_end(e->box, run);
}

static void check_all(struct local_engine *e)
{
    double now = sr1__now();
    int closing = sr1__sandbox_closing(e->box);

    for (struct sr1__process **at = &e->live; *at != NULL;) {
        struct sr1__process *l = *at;
        struct sr1_execution *run = l->run;

        if (closing)
            atomic_store(&run->cancelled, 1);
        if (!sr1__process_check(l, &e->place, now)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        e->n_live--;
        stop_listening_to(e, &l->out);
        stop_listening_to(e, &l->err);
        stop_listening_to(e, &l->end);
        settle_local_run(e, run, sr1__process_finish(l, &e->place));
    }
}

static int has_place(const struct local_engine *e, double now)
{
    int32_t old = 0;

    for (const struct sr1__process *l = e->live; l != NULL; l = l->next)
        old += now >= l->begun + OLD_S;
    return e->n_live - (old < e->concurrency ? old : e->concurrency) < e->concurrency;
}

static void start_one(struct local_engine *e, struct sr1_execution *run)
{
    struct sr1__process *l = NULL;

    sr1__sandbox_clear(run);
    if (sr1__process_start(&l, &e->place, run) != SR1_OK) {
        settle_local_run(e, run, 0);
        return;
    }
    l->next = e->live;
    e->live = l;
    e->n_live++;
    /* Without an event it is still seen at the next look. */
    (void)listen_to(e, &l->out);
    (void)listen_to(e, &l->err);
    (void)listen_to(e, &l->end);
}

static void start_more(struct local_engine *e)
{
    while (has_place(e, sr1__now())) {
        struct sr1_execution *run = sr1__sandbox_take(e->box);

        if (run == NULL)
            return;
        start_one(e, run);
    }
}

static void *run_local_engine(void *arg)
{
    struct local_engine *e = arg;

    while (!atomic_load(&e->quit)) {
        wait_for_events(e);
        check_all(e);
        sr1__sandbox_sweep(e->box);
        start_more(e);
    }
    return NULL;
}

/* ---- the engine ---- */

static void wake_local(void *engine)
{
    struct local_engine *e = engine;
    uint64_t one = 1;

    (void)!write(e->wake, &one, sizeof one);
}

static void free_local(struct local_engine *e)
{
    sr1__fd_close(&e->epoll);
    sr1__fd_close(&e->wake);
    sr1__launch_plan_free(&e->place);
    sr1__free(e);
}

static void close_local(void *engine)
{
    struct local_engine *e = engine;

    atomic_store(&e->quit, 1);
    wake_local(e);
    (void)pthread_join(e->thread, NULL);
    free_local(e);
}

static sr1_status set_up_local_engine(struct local_engine *e)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->epoll < 0 || e->wake < 0 ||
        epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake, &event) != 0)
        return sr1__fail_errno("wait for events", "of a sandbox");
    errno = sr1__thread_start(&e->thread, run_local_engine, e);
    return errno == 0 ? SR1_OK : sr1__fail_errno("start a thread", "of a sandbox");
}

static sr1_status open_local(void **engine, sr1_sandbox *box, sr1_sandbox_options *o,
                             char about[256])
{
    struct local_engine *e = sr1__calloc(1, sizeof(*e));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    sr1_status st;

    (void)about; /* probe_local's */
    SR1__CHECK_ALLOC(e, "sandbox");
    e->box = box;
    e->epoll = e->wake = -1;
    e->concurrency = o->concurrency > 0 ? o->concurrency
                     : processors > 0   ? (int32_t)processors
                                        : 1;
    atomic_init(&e->quit, 0);
    st = sr1__launch_plan_init(&e->place, o);
    if (st == SR1_OK)
        st = set_up_local_engine(e);
    SR1__RETURN_NEW(engine, e, st, free_local);
}

static sr1_status check_local(const struct sr1__sandbox_job *job)
{
    if (job->dataset != NULL)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "sandbox: a local one takes programs, not submissions; open one "
                         "of kind fusion");
    if (strcmp(job->language, "python") != 0)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "sandbox: a local one runs python, not %.40s; open one of kind "
                         "fusion",
                         job->language);
    return SR1_OK;
}

/* ---- trying it ---- */

static sr1_status run_probe(sr1_sandbox *box, sr1_execution **out,
                            sr1_execution_result *result)
{
    sr1_program p;

    sr1_program_init(&p);
    p.code = "import sys\nprint('%d.%d.%d' % sys.version_info[:3], end='')\n";
    p.time_s = PROBE_S;
    SR1__TRY(sr1_sandbox_run(box, &p, out));
    return sr1_execution_result_get(*out, result);
}

/* How many bytes of the interpreter's path are its installation: DIR of DIR/bin/python3.
 */
static int installation_bytes(const char *python)
{
    const char *end = strrchr(python, '/');

    if (end - python > 4 && memcmp(end - 4, "/bin", 4) == 0)
        end -= 4;
    return (int)(end - python);
}

static sr1_status fail_probe(const struct local_engine *e, const sr1_execution_result *r)
{
    const char *python = e->place.python;

    if (!e->place.isolated)
        return sr1__fail(SR1_E_UNSUPPORTED, "sandbox: %s does not run a program: %s",
                         python, r->message);
    if (strstr(r->message, "the interpreter for it: No such file") != NULL)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "sandbox: programs see no interpreter %s: %s. They see /usr and "
                         "the folders of sandbox_read_only (--read-only): name its "
                         "folder there, %.*s, and where its links lead",
                         python, r->message, installation_bytes(python), python);
    return sr1__fail(
        SR1_E_UNSUPPORTED,
        "sandbox: programs cannot be isolated here: %s (%s). bubblewrap 0.6 or later "
        "needs "
        "user namespaces (sysctl user.max_user_namespaces above 0, "
        "kernel.unprivileged_userns_clone=1 where it exists; in a container: an outer "
        "seccomp profile that allows unshare and mount), and %s has to be readable by "
        "all; "
        "or set isolation to none for programs that you trust",
        r->message, sr1_execution_verdict_name(r->verdict), python);
}

/* Run the probe; in many containers a fresh /proc cannot be mounted: then programs do
 * without. */
static sr1_status try_it(struct local_engine *e, sr1_execution **run,
                         sr1_execution_result *r)
{
    e->place.with_proc = 1;
    SR1__TRY(run_probe(e->box, run, r));
    if (r->verdict == SR1_RUN_PASSED || !e->place.isolated ||
        strstr(r->message, "proc") == NULL)
        return SR1_OK;
    sr1_execution_free(*run);
    *run = NULL;
    e->place.with_proc = 0;
    return run_probe(e->box, run, r);
}

/* Open with a jail; if that fails, without one, and `why` has the reason. */
static sr1_status try_isolated(struct local_engine *e, sr1_execution **run,
                               sr1_execution_result *r, char why[WHY_MAX])
{
    sr1_status st = sr1__launch_plan_enclose(&e->place, e->concurrency);

    if (st == SR1_E_NOMEM)
        return st;
    if (st != SR1_OK) {
        (void)snprintf(why, WHY_MAX, " (no jail: %s)", sr1_last_error());
        return try_it(e, run, r);
    }
    SR1__TRY(try_it(e, run, r));
    if (r->verdict == SR1_RUN_PASSED || strstr(r->message, "out of memory") != NULL)
        return SR1_OK; /* no other way would help */
    (void)snprintf(why, WHY_MAX, " (no jail: %s)", r->message);
    sr1_execution_free(*run);
    *run = NULL;
    sr1__jail_close(&e->place.jail);
    return try_it(e, run, r);
}

static sr1_status probe_local(void *engine, sr1_sandbox *box, char about[256])
{
    struct local_engine *e = engine;
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *run = NULL;
    char why[WHY_MAX] = "";
    sr1_status st;

    (void)box;
    st = e->place.isolated ? try_isolated(e, &run, &r, why) : try_it(e, &run, &r);
    if (st == SR1_OK && r.verdict != SR1_RUN_PASSED)
        st = fail_probe(e, &r);
    if (st == SR1_OK)
        (void)snprintf(about, 256, "%s%s%s, Python %s (%s)",
                       e->place.isolated ? "bubblewrap" : "no isolation", why,
                       e->place.isolated && !e->place.with_proc ? " without /proc" : "",
                       r.out, e->place.python);
    sr1_execution_free(run);
    return st;
}

static const char *local_interpreter(const void *engine)
{
    const struct local_engine *e = engine;

    return e->place.python;
}

const struct sr1__engine_ops sr1__local_engine = {
    .kind = "local",
    .open = open_local,
    .check = check_local,
    .probe = probe_local,
    .interpreter = local_interpreter,
    .wake = wake_local,
    .close = close_local,
};
