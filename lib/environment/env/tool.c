/* environment/env/tool.c - one tool, and one call of it under its deadline.
 *
 * A call with a deadline runs in a thread of its own; the caller waits until the deadline
 * at most. An abandoned call goes on by itself: it holds a reference to the tool, and its
 * result is discarded. A tool without SR1_TOOL_CONCURRENT stays busy until such a call
 * has returned. */
#include "environment/env/tool.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/struct.h"
#include "base/thread.h"
#include "environment/env/callback.h"
#include "environment/env/schema.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define MAX_LOST 64 /* calls given up that still run; then calls time out at once */
#define MAX_NAME 64
#define MAX_DEADLINE 86400.0

struct sr1__tool {
    pthread_mutex_t lock;   /* over all that follows */
    pthread_cond_t changed; /* a call has ended */
    int references;
    int busy; /* a call is under way and another must wait for it */
    int lost; /* calls given up */
    char *name;
    char *description; /* NULL: none */
    json_t *schema;
    sr1_tool_ops ops;
    void *self;
    sr1__tool_batch_fn *many; /* NULL: one call at a time */
    int joins;
};

/* ---- making one ---- */

static int is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    size_t n = strspn(name, letters);

    return n > 0 && n <= MAX_NAME && name[n] == '\0';
}

static sr1_status check_tool_ops(const sr1_tool_ops *ops)
{
    if (ops->name == NULL || ops->call == NULL)
        return sr1__fail(SR1_E_INVALID, "tool: ops with name and call are needed");
    if (!is_name(ops->name))
        return sr1__fail(SR1_E_INVALID,
                         "tool '%.64s': a name has letters, digits, '_', '-', '.', at "
                         "most %d",
                         ops->name, MAX_NAME);
    if (!(ops->deadline_s >= 0 && ops->deadline_s <= MAX_DEADLINE))
        return sr1__fail(SR1_E_INVALID, "tool '%s': deadline_s is %g; 0 to %g", ops->name,
                         ops->deadline_s, MAX_DEADLINE);
    return SR1_OK;
}

static void destroy_parts(struct sr1__tool *t)
{
    json_decref(t->schema);
    sr1__free(t->name);
    sr1__free(t->description);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    sr1__free(t);
}

static sr1_status copy_tool_ops(struct sr1__tool *t, const sr1_tool_ops *ops)
{
    SR1__TRY(
        sr1__context(sr1__schema_parse(&t->schema, ops->schema), "tool '%s'", ops->name));
    t->name = sr1__strdup(ops->name);
    t->description = ops->description != NULL ? sr1__strdup(ops->description) : NULL;
    if (t->name == NULL || (ops->description != NULL && t->description == NULL))
        return sr1__fail_nomem("tool");
    t->ops = *ops;
    t->ops.name = t->name;
    return SR1_OK;
}

sr1_status sr1__tool_new(struct sr1__tool **out, const sr1_tool_ops *given, void *self)
{
    sr1_tool_ops ops = {0};
    struct sr1__tool *t;
    pthread_condattr_t monotonic;
    sr1_status status;

    SR1__TRY(sr1__struct_take(&ops, sizeof ops, given,
                              SR1__STRUCT_END(sr1_tool_ops, call), "tool: ops"));
    SR1__TRY(check_tool_ops(&ops));
    SR1__CALLOC(t, 1, "tool");
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->references = 1;
    status = copy_tool_ops(t, &ops);
    if (status != SR1_OK) {
        destroy_parts(t);
        return status;
    }
    t->self = self;
    *out = t;
    return SR1_OK;
}

void sr1__tool_free(struct sr1__tool *t)
{
    int left;

    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    left = --t->references;
    pthread_mutex_unlock(&t->lock);
    if (left > 0)
        return;
    if (t->ops.destroy != NULL)
        t->ops.destroy(t->self);
    destroy_parts(t);
}

void sr1__tool_disown(struct sr1__tool *t)
{
    t->ops.destroy = NULL;
    sr1__tool_free(t);
}

const char *sr1__tool_name(const struct sr1__tool *t)
{
    return t->name;
}

const json_t *sr1__tool_schema(const struct sr1__tool *t)
{
    return t->schema;
}

int sr1__tool_waits(const struct sr1__tool *t)
{
    return t->ops.deadline_s > 0 || (t->ops.flags & SR1_TOOL_WAITS) != 0;
}

void sr1__tool_describe(const struct sr1__tool *t, struct sr1__buf *out)
{
    sr1__buf_fmt(out, "%s%s%s\n", t->name, t->description != NULL ? ": " : "",
                 t->description != NULL ? t->description : "");
    sr1__schema_describe(t->schema, out);
}

/* ---- the sink ---- */

sr1_status sr1_tool_sink_text(sr1_tool_sink *sink, const char *text, size_t len)
{
    return sr1_env_sink_text(sink != NULL ? &sink->as : NULL, 0, text, len);
}

sr1_status sr1_tool_sink_hit(sr1_tool_sink *sink, const char *id)
{
    return sr1_env_sink_hit(sink != NULL ? &sink->as : NULL, 0, id);
}

sr1_status sr1_tool_sink_status(sr1_tool_sink *sink, int32_t status)
{
    if (sink == NULL || status < SR1_TOOL_OK || status > SR1_TOOL_BROKEN)
        return sr1__fail(SR1_E_INVALID, "tool sink: sink is NULL, or %d is no SR1_TOOL_*",
                         (int)status);
    sink->status = status;
    return SR1_OK;
}

/* ---- taking turns ---- */

static struct timespec to_timespec(double seconds)
{
    struct timespec t = {(time_t)seconds, 0};

    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return t;
}

/* Wait for a call to end, at most until then (0: for ever); 0 when it is too late. With
 * the lock held. */
static int wait_tool_change(struct sr1__tool *t, double until)
{
    struct timespec at = to_timespec(until);

    if (until > 0 && sr1__now() >= until)
        return 0;
    if (until > 0)
        pthread_cond_timedwait(&t->changed, &t->lock, &at);
    else
        pthread_cond_wait(&t->changed, &t->lock);
    return 1;
}

/* Wait until the tool takes a call; 0 when it is too late. With the lock held. */
static int acquire_tool(struct sr1__tool *t, double until)
{
    int alone = (t->ops.flags & SR1_TOOL_CONCURRENT) == 0;

    if (t->lost >= MAX_LOST)
        return 0;
    while (alone && t->busy)
        if (!wait_tool_change(t, until))
            return 0;
    t->busy = alone;
    return 1;
}

static void release_tool(struct sr1__tool *t)
{
    t->busy = 0;
    pthread_cond_broadcast(&t->changed);
}

/* ---- one call ---- */

/* Of who asked and of the thread that runs it; freed by the last of the two. */
struct tool_call {
    struct sr1__tool *tool;
    char *args;
    size_t len;
    struct sr1_tool_sink sink;
    sr1_status status;
    struct sr1__error error;
    int ended;
    int lost;
};

static void tool_call_free(struct tool_call *c)
{
    sr1__observation_free(&c->sink.o);
    sr1__free(c->args);
    sr1__free(c);
}

static struct tool_call *tool_call_new(struct sr1__tool *t, const char *args, size_t len)
{
    struct tool_call *c = sr1__calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    sr1__observation_init(&c->sink.o);
    c->sink.as.out = &c->sink.o;
    c->sink.as.n = 1;
    c->tool = t;
    c->len = len;
    c->args = sr1__strndup(args, len);
    if (c->args != NULL)
        return c;
    tool_call_free(c);
    return NULL;
}

static void run_tool_call(struct tool_call *c)
{
    const struct sr1__tool *t = c->tool;
    struct sr1__error before;

    sr1__callback_begin(&before);
    c->status = t->ops.call(t->self, c->args, c->len, &c->sink);
    c->status = sr1__callback_end(&before, c->status, "tool", t->name);
    if (c->status != SR1_OK)
        sr1__error_save(&c->error, c->status);
}

static void *run_tool_thread(void *arg)
{
    struct tool_call *c = arg;
    struct sr1__tool *t = c->tool;
    int lost;

    run_tool_call(c);
    pthread_mutex_lock(&t->lock);
    c->ended = 1;
    lost = c->lost;
    t->lost -= lost;
    release_tool(t);
    pthread_mutex_unlock(&t->lock);
    if (lost) {
        tool_call_free(c);
        sr1__tool_free(t);
    }
    return NULL;
}

static sr1_status start_tool_thread(struct tool_call *c)
{
    pthread_t thread;

    if (sr1__thread_start(&thread, run_tool_thread, c) != 0)
        return sr1__fail(SR1_E_LIMIT, "the system refused a thread for a tool");
    pthread_detach(thread);
    return SR1_OK;
}

/* Wait for a started call; 0 when it was given up: then it is no longer ours. */
static int wait_tool_call(struct sr1__tool *t, struct tool_call *c, double until)
{
    int in_time = 1;

    pthread_mutex_lock(&t->lock);
    while (in_time && !c->ended)
        in_time = wait_tool_change(t, until);
    if (!c->ended) {
        c->lost = 1;
        t->lost++;
        t->references++; /* given back when the call returns */
    }
    in_time = c->ended;
    pthread_mutex_unlock(&t->lock);
    return in_time;
}

/* ---- what came of it ---- */

/* Failures that are not caused by the call. */
static int is_fatal_tool_status(sr1_status status)
{
    return status == SR1_E_NOMEM || status == SR1_E_CANCELLED || status == SR1_E_CONFIG;
}

/* Moves what the call gave. */
static sr1_status move_tool_result(struct tool_call *c, struct sr1__tool_result *out)
{
    if (is_fatal_tool_status(c->status))
        return sr1__error_raise(&c->error);
    out->status = c->status == SR1_OK ? c->sink.status : SR1_TOOL_BROKEN;
    out->error = c->error;
    out->o = c->sink.o;
    sr1__observation_init(&c->sink.o);
    return SR1_OK;
}

static sr1_status call_tool_in_thread(struct sr1__tool *t, struct tool_call *c,
                                      double until, struct sr1__tool_result *out)
{
    sr1_status status = start_tool_thread(c);

    if (status != SR1_OK) {
        pthread_mutex_lock(&t->lock);
        release_tool(t);
        pthread_mutex_unlock(&t->lock);
        out->status = SR1_TOOL_BROKEN;
        sr1__error_save(&out->error, status);
    } else if (!wait_tool_call(t, c, until)) {
        out->status = SR1_TOOL_TIMEOUT;
        return SR1_OK;
    } else {
        status = move_tool_result(c, out);
        tool_call_free(c);
        return status;
    }
    tool_call_free(c);
    return SR1_OK;
}

static sr1_status call_tool_inline(struct sr1__tool *t, struct tool_call *c,
                                   struct sr1__tool_result *out)
{
    sr1_status status;

    run_tool_call(c);
    pthread_mutex_lock(&t->lock);
    release_tool(t);
    pthread_mutex_unlock(&t->lock);
    status = move_tool_result(c, out);
    tool_call_free(c);
    return status;
}

sr1_status sr1__tool_call(struct sr1__tool *t, const char *args, size_t len,
                          struct sr1__tool_result *out)
{
    double until = t->ops.deadline_s > 0 ? sr1__now() + t->ops.deadline_s : 0;
    struct tool_call *c = tool_call_new(t, args, len);
    int ours;

    SR1__CHECK_ALLOC(c, "call of a tool");
    memset(out, 0, sizeof *out);
    sr1__observation_init(&out->o);
    pthread_mutex_lock(&t->lock);
    ours = acquire_tool(t, until);
    pthread_mutex_unlock(&t->lock);
    if (!ours) {
        tool_call_free(c);
        out->status = SR1_TOOL_TIMEOUT;
        return SR1_OK;
    }
    return until > 0 ? call_tool_in_thread(t, c, until, out)
                     : call_tool_inline(t, c, out);
}

/* ---- calls together ---- */

void sr1__tool_set_batched(struct sr1__tool *t, sr1__tool_batch_fn *many, int joins)
{
    t->many = many;
    t->joins = joins;
}

int sr1__tool_is_batched(const struct sr1__tool *t)
{
    return t->many != NULL;
}

int sr1__tool_can_batch(const struct sr1__tool *t)
{
    return t->many != NULL && t->joins;
}

static void open_sink(struct sr1_tool_sink *sink)
{
    sr1__observation_init(&sink->o);
    sink->as.out = &sink->o;
    sink->as.n = 1;
}

/* Moves what a sink was given. */
static void close_sink(struct sr1_tool_sink *sink, const struct sr1__error *error,
                       struct sr1__tool_result *out)
{
    out->status = error->code == SR1_OK ? sink->status : SR1_TOOL_BROKEN;
    out->error = error->code == SR1_OK ? sink->error : *error;
    out->o = sink->o;
}

sr1_status sr1__tool_call_batch(struct sr1__tool *t, const char *const *args, size_t n,
                                struct sr1__tool_result *out)
{
    struct sr1_tool_sink *sinks = sr1__calloc(n, sizeof *sinks);
    struct sr1__error before, error = {0};
    sr1_status status;

    SR1__CHECK_ALLOC(sinks, "calls of a tool");
    for (size_t i = 0; i < n; i++)
        open_sink(&sinks[i]);
    sr1__callback_begin(&before);
    status = t->many(t->self, args, n, sinks);
    status = sr1__callback_end(&before, status, "tool", t->name);
    if (status != SR1_OK)
        sr1__error_save(&error, status);
    for (size_t i = 0; i < n; i++) {
        if (is_fatal_tool_status(status))
            sr1__observation_free(&sinks[i].o);
        else
            close_sink(&sinks[i], &error, &out[i]);
    }
    sr1__free(sinks);
    return is_fatal_tool_status(status) ? status : SR1_OK;
}
