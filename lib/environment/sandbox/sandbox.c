/* environment/sandbox/sandbox.c - the handle: options, the queue of runs, counts.
 *
 *     start --> waiting --take--> an engine's --end--> done
 *                  ^                  |
 *                  +------retry-------+
 *
 * Lock order: a run's lock may be held when the sandbox's is taken, never the reverse. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/struct.h"
#include "environment/sandbox/sandbox_engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TEXTS 6 /* options that are texts */
#define READ_ONLY_MAX 64
#define VERDICTS 8
#define RETRY_AFTER_MAX_S 60.0
/* Of a program that stays, whose children have limits of their own. */
#define STAY_S 1e6
#define STAY_MIB (1 << 20)
#define STAY_PROCESSES 2048

struct sr1_sandbox {
    atomic_int refs;
    sr1_sandbox_options o; /* its texts are ours */
    char *texts[TEXTS];
    char **read_only;
    const struct sr1__engine_ops *ops;
    void *engine;
    char about[256];
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t idle;  /* unfinished fell to 0 */
    struct sr1__executions waiting;
    struct sr1__executions later; /* to be tried again, each at its time */
    int64_t unfinished;           /* runs that were started and have not ended */
    int closing;
    struct sr1__rng rng;
    sr1_sandbox_counters counts;
    atomic_int cancels; /* there may be cancelled runs that wait */
};

static const sr1_sandbox_options defaults = {
    .struct_size = sizeof(sr1_sandbox_options),
    .kind = "local",
    .isolation = "bubblewrap",
    .retries = 3,
    .time_s = 10,
    .memory_mib = 1024,
    .processes = 32,
    .tmp_mib = 64,
    .file_mib = 64,
    .output_bytes = 1 << 20,
    .error_bytes = 8192,
    .connect_timeout_s = 5,
    .queue_s = 300,
    .retry_first_s = 0.5,
    .retry_max_s = 20,
    .breaker_failures = 20,
    .breaker_rest_s = 10,
    .queue_max = 1000000,
};

static const struct sr1__engine_ops *const engines[] = {&sr1__local_engine,
                                                        &sr1__fusion_engine};

void sr1_sandbox_options_init(sr1_sandbox_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

/* ---- opening ---- */

static int in_range(double v, double least, double most)
{
    return v >= least && v <= most;
}

/* One row an option that is a number. */
static sr1_status check_option_ranges(const sr1_sandbox_options *o)
{
    const struct {
        const char *name;
        double value, least, most;
    } rows[] = {
        {"concurrency", o->concurrency, 0, 1024},
        {"retries", o->retries, 0, 100},
        {"time_s", o->time_s, 0.01, 1e6},
        {"cpu_s", o->cpu_s, 0, 1e6},
        {"memory_mib", o->memory_mib, 16, 1 << 20},
        {"processes", o->processes, 1, 100000},
        {"tmp_mib", o->tmp_mib, 1, 1 << 20},
        {"file_mib", o->file_mib, 1, 1 << 20},
        {"output_bytes", (double)o->output_bytes, 1, 1 << 29},
        {"error_bytes", (double)o->error_bytes, 256, 1 << 29},
        {"connect_timeout_s", o->connect_timeout_s, 0.001, 1e6},
        {"queue_s", o->queue_s, 0, 1e6},
        {"retry_first_s", o->retry_first_s, 0, 1e6},
        {"retry_max_s", o->retry_max_s, 0, 1e6},
        {"rate_limit", o->rate_limit, 0, 1e9},
        {"breaker_failures", o->breaker_failures, 0, 1e9},
        {"breaker_rest_s", o->breaker_rest_s, 0, 1e6},
        {"queue_max", (double)o->queue_max, 1, 1e12},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!in_range(rows[i].value, rows[i].least, rows[i].most))
            return sr1__fail(SR1_E_INVALID, "sandbox: %s is %g; it must be from %g to %g",
                             rows[i].name, rows[i].value, rows[i].least, rows[i].most);
    return SR1_OK;
}

static sr1_status own_text(sr1_sandbox *box, int i, const char **text)
{
    if (*text == NULL)
        return SR1_OK;
    if ((box->texts[i] = sr1__strdup(*text)) == NULL)
        return sr1__fail_nomem("sandbox");
    *text = box->texts[i];
    return SR1_OK;
}

static sr1_status own_folders(sr1_sandbox *box)
{
    sr1_sandbox_options *o = &box->o;
    const char *const *given = o->read_only;

    if (o->n_read_only > READ_ONLY_MAX || (o->n_read_only > 0 && given == NULL))
        return sr1__fail(SR1_E_INVALID, "sandbox: read_only: at most %d folders",
                         READ_ONLY_MAX);
    if ((box->read_only = sr1__calloc(READ_ONLY_MAX, sizeof(char *))) == NULL)
        return sr1__fail_nomem("sandbox");
    for (size_t i = 0; i < o->n_read_only; i++) {
        if (given[i] == NULL || given[i][0] != '/')
            return sr1__fail(SR1_E_INVALID,
                             "sandbox: read_only: folder %zu is not an absolute path", i);
        if ((box->read_only[i] = sr1__strdup(given[i])) == NULL)
            return sr1__fail_nomem("sandbox");
    }
    o->read_only = (const char *const *)box->read_only;
    return SR1_OK;
}

static sr1_status own_texts(sr1_sandbox *box)
{
    const char **texts[TEXTS] = {&box->o.kind, &box->o.isolation, &box->o.interpreter,
                                 &box->o.url,  &box->o.token_env, &box->o.ca_file};

    for (int i = 0; i < TEXTS; i++)
        SR1__TRY(own_text(box, i, texts[i]));
    return own_folders(box);
}

static sr1_status choose_engine(sr1_sandbox *box)
{
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (box->o.kind != NULL && strcmp(box->o.kind, engines[i]->kind) == 0) {
            box->ops = engines[i];
            return SR1_OK;
        }
    return sr1__fail(SR1_E_INVALID,
                     "sandbox: kind is '%.40s'; it must be local or fusion",
                     box->o.kind != NULL ? box->o.kind : "");
}

static void free_box(sr1_sandbox *box)
{
    for (int i = 0; i < TEXTS; i++)
        sr1__free(box->texts[i]);
    for (size_t i = 0; box->read_only != NULL && i < READ_ONLY_MAX; i++)
        sr1__free(box->read_only[i]);
    sr1__free(box->read_only);
    (void)pthread_cond_destroy(&box->idle);
    (void)pthread_mutex_destroy(&box->lock);
    sr1__free(box);
}

static sr1_sandbox *new_box(void)
{
    sr1_sandbox *box = sr1__calloc(1, sizeof(*box));

    if (box == NULL)
        return NULL;
    atomic_init(&box->refs, 1);
    atomic_init(&box->cancels, 0);
    (void)pthread_mutex_init(&box->lock, NULL);
    (void)pthread_cond_init(&box->idle, NULL);
    sr1__executions_init(&box->waiting);
    sr1__executions_init(&box->later);
    box->o = defaults;
    return box;
}

/* The trial runs of an engine are tried once, and not counted. */
static sr1_status probe_engine(sr1_sandbox *box)
{
    int32_t retries = box->o.retries;
    sr1_status st = SR1_OK;

    box->o.retries = 0;
    if (box->ops->probe != NULL)
        st = box->ops->probe(box->engine, box, box->about);
    pthread_mutex_lock(&box->lock);
    box->o.retries = retries;
    memset(&box->counts, 0, sizeof box->counts);
    pthread_mutex_unlock(&box->lock);
    return st;
}

sr1_status sr1_sandbox_open(sr1_sandbox **out, const sr1_sandbox_options *options)
{
    sr1_sandbox *box;
    sr1_status st;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "sandbox: out is NULL");
    if ((box = new_box()) == NULL)
        return sr1__fail_nomem("sandbox");
    st = sr1__struct_take(&box->o, sizeof box->o, options,
                          SR1__STRUCT_END(sr1_sandbox_options, kind), "sandbox options");
    if (st == SR1_OK)
        st = check_option_ranges(&box->o);
    if (st == SR1_OK)
        st = own_texts(box);
    if (st == SR1_OK)
        st = choose_engine(box);
    sr1__rng_seed(&box->rng, box->o.seed, 0);
    if (st == SR1_OK)
        st = box->ops->open(&box->engine, box, &box->o, box->about);
    if (st != SR1_OK) {
        free_box(box);
        return st;
    }
    st = probe_engine(box);
    SR1__RETURN_NEW(out, box, st, sr1_sandbox_free);
}

sr1_sandbox *sr1_sandbox_retain(sr1_sandbox *box)
{
    if (box != NULL)
        atomic_fetch_add(&box->refs, 1);
    return box;
}

void sr1_sandbox_free(sr1_sandbox *box)
{
    if (box == NULL || atomic_fetch_sub(&box->refs, 1) != 1)
        return;
    pthread_mutex_lock(&box->lock);
    box->closing = 1;
    pthread_mutex_unlock(&box->lock);
    box->ops->wake(box->engine);
    pthread_mutex_lock(&box->lock);
    while (box->unfinished > 0)
        pthread_cond_wait(&box->idle, &box->lock);
    pthread_mutex_unlock(&box->lock);
    box->ops->close(box->engine);
    free_box(box);
}

const char *sr1_sandbox_describe(const sr1_sandbox *box)
{
    return box != NULL ? box->about : "";
}

const char *sr1__sandbox_interpreter(const sr1_sandbox *box)
{
    return box->ops->interpreter != NULL ? box->ops->interpreter(box->engine) : NULL;
}

int64_t sr1__sandbox_memory(const sr1_sandbox *box)
{
    return (int64_t)box->o.memory_mib << 20;
}

void sr1__sandbox_limits(const sr1_sandbox *box, struct sr1__buf *out)
{
    const sr1_sandbox_options *o = &box->o;
    char time[32], cpu[32];

    sr1__format_real(o->time_s, time);
    sr1__format_real(o->cpu_s, cpu);
    sr1__buf_fmt(out, "%s %s %d %d %d %d %lld %lld", time, cpu, (int)o->memory_mib,
                 (int)o->processes, (int)o->tmp_mib, (int)o->file_mib,
                 (long long)o->output_bytes, (long long)o->error_bytes);
    if (o->url != NULL) /* several services may stand behind one host */
        sr1__buf_fmt(out, " %016" PRIx64, sr1__hash64(o->url, strlen(o->url), 0));
    for (size_t i = 0; i < o->n_read_only; i++)
        sr1__buf_fmt(out, " %s", o->read_only[i]);
    sr1__buf_char(out, '\n');
}

sr1_status sr1_sandbox_counters_get(const sr1_sandbox *box, sr1_sandbox_counters *out)
{
    sr1_sandbox *b = (sr1_sandbox *)box;
    sr1_sandbox_counters c;

    if (box == NULL)
        return sr1__fail(SR1_E_INVALID, "sandbox: none is given");
    pthread_mutex_lock(&b->lock);
    c = b->counts;
    pthread_mutex_unlock(&b->lock);
    return sr1__struct_give(out, &c, sizeof c, "sandbox counters");
}

/* ---- starting ---- */

/* job is ours or freed. */
static sr1_status enqueue_run(sr1_sandbox *box, struct sr1__sandbox_job *job,
                              sr1_execution **out)
{
    struct sr1_execution *run = NULL;
    sr1_status st = box->ops->check(job);
    int full, closing;

    if (st == SR1_OK)
        st = sr1__execution_new(&run, box, job);
    if (st != SR1_OK) {
        sr1__sandbox_job_free(job);
        return st;
    }
    pthread_mutex_lock(&box->lock);
    closing = box->closing;
    full = closing || box->counts.waiting >= box->o.queue_max;
    if (!full) {
        sr1__executions_add(&box->waiting, run);
        box->unfinished++;
        box->counts.started++;
        box->counts.waiting++;
    }
    pthread_mutex_unlock(&box->lock);
    if (full) {
        sr1__execution_drop(run);
        sr1__execution_drop(run);
        if (closing)
            return sr1__fail(SR1_E_STATE, "sandbox: it is being freed; keep a reference "
                                          "to it while programs are started");
        return sr1__fail(SR1_E_LIMIT,
                         "sandbox: %lld runs wait already; raise queue_max, or wait",
                         (long long)box->o.queue_max);
    }
    *out = run;
    box->ops->wake(box->engine);
    return SR1_OK;
}

sr1_status sr1_sandbox_start(sr1_sandbox *box, const sr1_program *program,
                             sr1_execution **out)
{
    struct sr1__sandbox_job *job = NULL;

    if (box == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "sandbox: box or out is NULL");
    SR1__TRY(sr1__job_of_program(&job, program, &box->o));
    return enqueue_run(box, job, out);
}

int sr1__sandbox_takes_sockets(const sr1_sandbox *box)
{
    return box->ops == &sr1__local_engine;
}

sr1_status sr1__sandbox_start_linked(sr1_sandbox *box, const sr1_program *program,
                                     int socket, sr1_execution **out)
{
    struct sr1__sandbox_job *job = NULL;

    SR1__TRY(sr1__job_of_program(&job, program, &box->o));
    job->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (job->socket < 0) {
        sr1__sandbox_job_free(job);
        return sr1__fail_errno("copy", "a socket for a program");
    }
    return enqueue_run(box, job, out);
}

sr1_status sr1__sandbox_open_beside(sr1_sandbox **out, const sr1_sandbox *box)
{
    sr1_sandbox_options o = box->o;

    o.concurrency = 1;
    o.time_s = o.cpu_s = STAY_S;
    o.memory_mib = STAY_MIB;
    o.processes = STAY_PROCESSES;
    return sr1_sandbox_open(out, &o);
}

sr1_status sr1_sandbox_submit(sr1_sandbox *box, const sr1_submission *submission,
                              sr1_execution **out)
{
    struct sr1__sandbox_job *job = NULL;

    if (box == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "sandbox: box or out is NULL");
    SR1__TRY(sr1__job_of_submission(&job, submission, &box->o));
    return enqueue_run(box, job, out);
}

sr1_status sr1_sandbox_run(sr1_sandbox *box, const sr1_program *program,
                           sr1_execution **out)
{
    sr1_execution *run = NULL;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "sandbox: out is NULL");
    SR1__TRY(sr1_sandbox_start(box, program, &run));
    (void)sr1_execution_wait(run, -1);
    *out = run;
    return SR1_OK;
}

/* ---- for engines ---- */

struct sr1_execution *sr1__sandbox_take(sr1_sandbox *box)
{
    double now = sr1__now();
    struct sr1_execution **at;
    struct sr1_execution *run = NULL;

    pthread_mutex_lock(&box->lock);
    if (box->closing) {
        pthread_mutex_unlock(&box->lock);
        return NULL;
    }
    for (at = &box->later.first; *at != NULL && (*at)->due > now; at = &(*at)->next)
        ;
    if (*at != NULL)
        run = sr1__executions_take(&box->later, at);
    else if (box->waiting.first != NULL)
        run = sr1__executions_take(&box->waiting, &box->waiting.first);
    if (run != NULL) {
        box->counts.waiting--;
        box->counts.running++;
        run->attempts++;
        run->begun_at = now;
    }
    pthread_mutex_unlock(&box->lock);
    return run;
}

double sr1__sandbox_due(sr1_sandbox *box)
{
    double due = INFINITY;

    pthread_mutex_lock(&box->lock);
    for (struct sr1_execution *r = box->later.first; r != NULL; r = r->next)
        due = fmin(due, r->due);
    pthread_mutex_unlock(&box->lock);
    return due;
}

/* Seconds before another attempt: doubled each time, with up to half as much again. */
static double back_off(sr1_sandbox *box, int32_t attempts)
{
    double wait = fmin(box->o.retry_max_s, ldexp(box->o.retry_first_s, attempts - 1));

    return wait * (1 + 0.5 * sr1__rng_uniform(&box->rng));
}

int sr1__sandbox_retry(sr1_sandbox *box, struct sr1_execution *run, double wait)
{
    int again;

    pthread_mutex_lock(&box->lock);
    again = run->job->socket < 0 && !box->closing && run->attempts <= box->o.retries &&
            !atomic_load(&run->cancelled);
    if (again) {
        run->due = sr1__now() +
                   fmax(back_off(box, run->attempts), fmin(wait, RETRY_AFTER_MAX_S));
        sr1__executions_add(&box->later, run);
        box->counts.retries++;
        box->counts.waiting++;
        box->counts.running--;
    }
    pthread_mutex_unlock(&box->lock);
    return again;
}

static void count_end(sr1_sandbox *box, const struct sr1_execution *run)
{
    sr1_sandbox_counters *c = &box->counts;

    c->ended++;
    if (run->outcome.verdict >= 0 && run->outcome.verdict < VERDICTS)
        c->verdicts[run->outcome.verdict]++;
    c->wall_s += run->outcome.wall_s;
    c->cpu_s += run->outcome.cpu_s > 0 ? run->outcome.cpu_s : 0;
}

/* Count before telling: who sees the run ended sees the counts. */
static void end_sandbox_run(sr1_sandbox *box, struct sr1_execution *run, int64_t *out_of)
{
    pthread_mutex_lock(&box->lock);
    count_end(box, run);
    (*out_of)--;
    pthread_mutex_unlock(&box->lock);
    sr1__execution_end(run);
    pthread_mutex_lock(&box->lock);
    if (--box->unfinished == 0)
        pthread_cond_broadcast(&box->idle);
    pthread_mutex_unlock(&box->lock);
}

void sr1__sandbox_end(sr1_sandbox *box, struct sr1_execution *run)
{
    end_sandbox_run(box, run, &box->counts.running);
}

/* Move what is cancelled, or all while closing, to another list. */
static void pick_cancelled(struct sr1__executions *from, int all,
                           struct sr1__executions *to)
{
    for (struct sr1_execution **at = &from->first; *at != NULL;) {
        if (all || atomic_load(&(*at)->cancelled))
            sr1__executions_add(to, sr1__executions_take(from, at));
        else
            at = &(*at)->next;
    }
}

void sr1__sandbox_clear(struct sr1_execution *run)
{
    sr1__outcome_free(&run->outcome);
    sr1__outcome_init(&run->outcome);
}

void sr1__sandbox_sweep(sr1_sandbox *box)
{
    struct sr1__executions gone;

    sr1__executions_init(&gone);
    pthread_mutex_lock(&box->lock);
    if (atomic_exchange(&box->cancels, 0) || box->closing) {
        pick_cancelled(&box->waiting, box->closing, &gone);
        pick_cancelled(&box->later, box->closing, &gone);
    }
    pthread_mutex_unlock(&box->lock);
    while (gone.first != NULL) {
        struct sr1_execution *run = sr1__executions_take(&gone, &gone.first);

        sr1__sandbox_clear(run); /* of an attempt that failed */
        sr1__outcome_set(&run->outcome, SR1_RUN_CANCELLED, "cancelled before it began");
        end_sandbox_run(box, run, &box->counts.waiting);
    }
}

int sr1__sandbox_closing(sr1_sandbox *box)
{
    int closing;

    pthread_mutex_lock(&box->lock);
    closing = box->closing;
    pthread_mutex_unlock(&box->lock);
    return closing;
}

void sr1__sandbox_wake(sr1_sandbox *box)
{
    atomic_store(&box->cancels, 1);
    box->ops->wake(box->engine);
}
