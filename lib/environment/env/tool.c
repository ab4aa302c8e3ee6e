/* environment/env/tool.c - one tool, and one call of it under its deadline.
 *
 * Calls with a deadline run in threads of the tool's executor; the caller waits until the
 * deadline at most. An abandoned call goes on by itself: it holds a reference to the
 * tool, and its result is discarded. A tool without SR1_TOOL_CONCURRENT has one thread,
 * which stays busy until such a call has returned. */
#include "environment/env/tool.h"

#include "base/clock.h"
#include "base/executor.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/env/callback.h"
#include "environment/env/schema.h"
#include "text/tokenizer/chat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_LOST 64 /* abandoned calls that still run; then calls time out at once */
#define MAX_NAME 64
#define MAX_DEADLINE 86400.0

struct sr1__tool {
    atomic_int references;          /* the owner's, and one of each call */
    pthread_mutex_t turn;           /* held around a call without deadline, if not... */
    int concurrent;                 /* ...this */
    struct sr1__executor *executor; /* NULL: calls have no deadline */
    char *name;
    char *description; /* NULL: none */
    json_t *schema;
    json_t *shown; /* by descriptions */
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
    sr1__executor_free(t->executor);
    json_decref(t->schema);
    json_decref(t->shown);
    sr1__free(t->name);
    sr1__free(t->description);
    pthread_mutex_destroy(&t->turn);
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
    t->concurrent = (ops->flags & SR1_TOOL_CONCURRENT) != 0;
    if (!(ops->deadline_s > 0))
        return SR1_OK;
    return sr1__executor_new(&t->executor, "tool", t->concurrent ? SIZE_MAX : 1,
                             t->concurrent ? MAX_LOST : 0);
}

sr1_status sr1__tool_new(struct sr1__tool **out, const sr1_tool_ops *given,
                         const json_t *shown, void *self)
{
    sr1_tool_ops ops = {0};
    struct sr1__tool *t;
    sr1_status status;

    SR1__TRY(sr1__struct_take(&ops, sizeof ops, given,
                              SR1__STRUCT_END(sr1_tool_ops, call), "tool: ops"));
    SR1__TRY(check_tool_ops(&ops));
    SR1__CALLOC(t, 1, "tool");
    pthread_mutex_init(&t->turn, NULL);
    atomic_init(&t->references, 1);
    status = copy_tool_ops(t, &ops);
    if (status != SR1_OK) {
        destroy_parts(t);
        return status;
    }
    t->shown = json_incref(shown ? (json_t *)(uintptr_t)shown : t->schema);
    t->self = self;
    *out = t;
    return SR1_OK;
}

void sr1__tool_free(struct sr1__tool *t)
{
    if (t == NULL || atomic_fetch_sub(&t->references, 1) > 1)
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

const json_t *sr1__tool_shown_schema(const struct sr1__tool *t)
{
    return t->shown;
}

int sr1__tool_waits(const struct sr1__tool *t)
{
    return t->ops.deadline_s > 0 || (t->ops.flags & SR1_TOOL_WAITS) != 0;
}

sr1_status sr1__tool_describe_json(const struct sr1__tool *t, struct sr1__buf *out)
{
    json_t *o =
        json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "function", "function", "name",
                  t->name, "description", t->description != NULL ? t->description : "",
                  "parameters", t->shown);
    sr1_status status;

    SR1__CHECK_ALLOC(o, "description of a tool");
    status = sr1__chat_json_python(o, out);
    sr1__buf_str(out, "\n");
    json_decref(o);
    return status;
}

void sr1__tool_describe(const struct sr1__tool *t, struct sr1__buf *out)
{
    sr1__buf_fmt(out, "%s%s%s\n", t->name, t->description != NULL ? ": " : "",
                 t->description != NULL ? t->description : "");
    sr1__schema_describe(t->shown, out);
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

/* ---- one call ---- */

/* Of the caller, or of the thread that runs it once it is abandoned. */
struct tool_call {
    struct sr1__task task;
    struct sr1__tool *tool;
    char *args;
    size_t len;
    struct sr1_tool_sink sink;
    sr1_status status;
    struct sr1__error error;
};

static void tool_call_free(void *arg)
{
    struct tool_call *c = arg;

    sr1__observation_free(&c->sink.o);
    sr1__tool_free(c->tool);
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
    atomic_fetch_add(&t->references, 1);
    c->tool = t;
    c->len = len;
    c->args = sr1__strndup(args, len);
    if (c->args != NULL)
        return c;
    tool_call_free(c);
    return NULL;
}

static void run_tool_call(void *arg)
{
    struct tool_call *c = arg;
    const struct sr1__tool *t = c->tool;
    struct sr1__error before;

    sr1__callback_begin(&before);
    c->status = t->ops.call(t->self, c->args, c->len, &c->sink);
    c->status = sr1__callback_end(&before, c->status, "tool", t->name);
    if (c->status != SR1_OK)
        sr1__error_save(&c->error, c->status);
}

/* ---- what came of it ---- */

/* Moves what the call gave. */
static sr1_status move_tool_result(struct tool_call *c, struct sr1__tool_result *out)
{
    if (sr1__is_fatal(c->status))
        return sr1__error_raise(&c->error);
    out->status = c->status == SR1_OK ? c->sink.status : SR1_TOOL_BROKEN;
    out->error = c->error;
    out->o = c->sink.o;
    sr1__observation_init(&c->sink.o);
    return SR1_OK;
}

static sr1_status end_tool_call(struct tool_call *c, struct sr1__tool_result *out)
{
    sr1_status status = move_tool_result(c, out);

    tool_call_free(c);
    return status;
}

static sr1_status call_tool_in_thread(struct tool_call *c, struct sr1__tool_result *out)
{
    struct sr1__executor *x = c->tool->executor;
    double until = sr1__now() + c->tool->ops.deadline_s;
    sr1_status status;

    c->task = (struct sr1__task){.run = run_tool_call, .free = tool_call_free, .arg = c};
    status = sr1__executor_submit(x, &c->task);
    if (status != SR1_OK) {
        c->status = status;
        sr1__error_save(&c->error, status);
        return end_tool_call(c, out);
    }
    if (sr1__executor_wait(x, &c->task, until))
        return end_tool_call(c, out);
    out->status = SR1_TOOL_TIMEOUT;
    return SR1_OK;
}

static sr1_status call_tool_inline(struct tool_call *c, struct sr1__tool_result *out)
{
    struct sr1__tool *t = c->tool;

    if (!t->concurrent)
        pthread_mutex_lock(&t->turn);
    run_tool_call(c);
    if (!t->concurrent)
        pthread_mutex_unlock(&t->turn);
    return end_tool_call(c, out);
}

sr1_status sr1__tool_call(struct sr1__tool *t, const char *args, size_t len,
                          struct sr1__tool_result *out)
{
    struct tool_call *c;

    memset(out, 0, sizeof *out);
    sr1__observation_init(&out->o);
    if (t->executor != NULL && sr1__executor_lost(t->executor) >= MAX_LOST) {
        out->status = SR1_TOOL_TIMEOUT;
        return SR1_OK;
    }
    c = tool_call_new(t, args, len);
    SR1__CHECK_ALLOC(c, "call of a tool");
    return t->executor != NULL ? call_tool_in_thread(c, out) : call_tool_inline(c, out);
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
        if (sr1__is_fatal(status))
            sr1__observation_free(&sinks[i].o);
        else
            close_sink(&sinks[i], &error, &out[i]);
    }
    sr1__free(sinks);
    return sr1__is_fatal(status) ? status : SR1_OK;
}
