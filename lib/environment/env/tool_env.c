/* environment/env/tool_env.c - an action is the call of a tool, {"name": "...", "args":
 * {...}}; the protocol may call its arguments otherwise.
 *
 * The error texts for the policy have the meaning of those of the multi-turn GRPO
 * environment; all begin with "Error: ". */
#include "environment/env/tool_env.h"

#include "base/log.h"
#include "base/mem.h"
#include "environment/env/call_form.h"
#include "environment/env/protocol.h"
#include "environment/env/schema.h"
#include "environment/env/sink.h"
#include "base/text.h"
#include "environment/env/tool.h"

#include <stdatomic.h>
#include <string.h>

#define MAX_TOOLS 256

struct sr1__tool_env {
    struct sr1__tool **tools; /* [n] */
    size_t n;
    const struct sr1__call_form *form; /* how a call is written */
    const char *arguments;             /* the member of a call that has them */
    int32_t as_json;                   /* descriptions */
    struct sr1__buf text;              /* as a prompt shows them */
    atomic_ullong last_failure;        /* that was logged */
};

/* ---- error texts for the policy ---- */

/* The calls of a turn that go to one tool in one call, if the tool supports that. */
struct tool_call_batch {
    struct sr1__tool *tool;
    char **args; /* [n] */
    size_t *at;  /* [n] their actions */
    size_t n;
};

/* Where the answer to one action goes. */
struct answer {
    struct sr1__tool_env *env;
    sr1_env_sink *sink;
    size_t i;
    struct tool_call_batch *together;
};

static sr1_status write_buffer_answer(const struct answer *a, int32_t flags,
                                      struct sr1__buf *text)
{
    sr1_status status = sr1__buf_status(text, "answer of a tool");

    if (status == SR1_OK)
        status = sr1_env_sink_text(a->sink, a->i, sr1__buf_cstr(text), text->len);
    if (status == SR1_OK)
        status = sr1_env_sink_flags(a->sink, a->i, flags);
    sr1__buf_free(text);
    return status;
}

/* The action was wrong; nothing is carried out. */
static sr1_status reject_tool_call(const struct answer *a, const char *why)
{
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    sr1__buf_fmt(&text, "Error: the tool call %s; write ", why);
    sr1__buf_fmt(&text, a->env->form->example, a->env->arguments);
    return write_buffer_answer(a, SR1_ANSWER_UNEXECUTED, &text);
}

static sr1_status reject_tool_name(const struct answer *a, const char *name)
{
    struct sr1__buf text;
    size_t i;

    sr1__buf_init(&text, 0);
    sr1__buf_fmt(&text, "Error: unknown tool '%.64s'; known: ", name);
    for (i = 0; i < a->env->n; i++)
        sr1__buf_fmt(&text, "%s%s", i > 0 ? ", " : "", sr1__tool_name(a->env->tools[i]));
    sr1__buf_str(&text, a->env->n == 0 ? "none" : "");
    return write_buffer_answer(a, SR1_ANSWER_UNEXECUTED, &text);
}

static sr1_status reject_tool_arguments(const struct answer *a, const struct sr1__tool *t,
                                        struct sr1__buf *why)
{
    struct sr1__buf text;

    SR1__TRY(sr1__buf_status(why, "answer of a tool"));
    sr1__buf_init(&text, 0);
    sr1__buf_fmt(&text, "Error: %s: %s", sr1__tool_name(t), sr1__buf_cstr(why));
    return write_buffer_answer(a, SR1_ANSWER_UNEXECUTED, &text);
}

/* ---- what a call gave ---- */

/* Hits travel with the text. */
static void move_hits(struct sr1__observation *to, struct sr1__observation *from)
{
    to->hit_ids = from->hit_ids;
    to->n_hit_ids = from->n_hit_ids;
    to->n_hits = from->n_hits;
    from->hit_ids = NULL;
    from->n_hit_ids = from->n_hits = 0;
}

static int is_buffer_blank(const struct sr1__buf *b)
{
    size_t begin = 0, n = b->len;

    sr1__strip(sr1__buf_cstr(b), &begin, &n);
    return n == 0;
}

static sr1_status move_tool_text(const struct answer *a, struct sr1__observation *o)
{
    struct sr1__observation *to = &a->sink->out[a->i];
    struct sr1__buf body = to->body;

    to->body = o->body;
    o->body = body;
    to->status = o->status;
    move_hits(to, o);
    return SR1_OK;
}

static sr1_status write_empty_result(const struct answer *a, const struct sr1__tool *t)
{
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    sr1__buf_fmt(&text, "Error: %s gave an empty result", sr1__tool_name(t));
    return write_buffer_answer(a, SR1_ANSWER_PLAIN, &text);
}

static sr1_status write_tool_failure(const struct answer *a, const struct sr1__tool *t,
                                     const struct sr1__buf *message)
{
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    sr1__buf_str(&text, "Error: ");
    if (is_buffer_blank(message))
        sr1__buf_fmt(&text, "%s failed", sr1__tool_name(t));
    else
        sr1__buf_add(&text, message->data, message->len);
    return write_buffer_answer(a, 0, &text);
}

/* Nothing the policy did. */
static sr1_status report_broken_tool(const struct answer *a, const struct sr1__tool *t,
                                     const struct sr1__tool_result *r)
{
    int late = r->status == SR1_TOOL_TIMEOUT;
    const char *how = late ? "gave no result in time" : "is broken";
    const char *why = r->error.code != SR1_OK ? r->error.text : how;

    if (sr1__log_is_news(&a->env->last_failure, why))
        sr1__log(SR1_LOG_WARN, "tool '%s' %s%s%.300s", sr1__tool_name(t), how,
                 why != how ? ": " : "", why != how ? why : "");
    return sr1__env_sink_failure(a->sink, a->i,
                                 late ? SR1_ACTION_TIMEOUT : SR1_ACTION_ERROR, why);
}

static sr1_status write_tool_result(const struct answer *a, const struct sr1__tool *t,
                                    struct sr1__tool_result *r)
{
    if (r->status == SR1_TOOL_TIMEOUT || r->status == SR1_TOOL_BROKEN)
        return report_broken_tool(a, t, r);
    if (r->status == SR1_TOOL_FAILED)
        return write_tool_failure(a, t, &r->o.body);
    if (is_buffer_blank(&r->o.body))
        return write_empty_result(a, t);
    return move_tool_text(a, &r->o);
}

/* ---- one action ---- */

static struct sr1__tool *find_tool(const struct sr1__tool_env *e, const char *name)
{
    size_t i;

    for (i = 0; i < e->n; i++)
        if (strcmp(sr1__tool_name(e->tools[i]), name) == 0)
            return e->tools[i];
    return NULL;
}

/* The call waits for the others of its turn. */
static sr1_status add_to_call_batch(const struct answer *a, struct sr1__tool *t,
                                    struct sr1__buf *args)
{
    struct tool_call_batch *m = a->together;
    char *text = sr1__buf_take(args);

    SR1__CHECK_ALLOC(text, "call of a tool");
    m->tool = t;
    m->args[m->n] = text;
    m->at[m->n++] = a->i;
    return SR1_OK;
}

static sr1_status call_tool(const struct answer *a, struct sr1__tool *t,
                            const json_t *args)
{
    struct sr1__tool_result r;
    struct sr1__buf text;
    sr1_status status;

    sr1__buf_init(&text, 0);
    status = sr1__json_dump(args, 0, &text);
    if (status == SR1_OK && sr1__tool_is_batched(t)) {
        status = add_to_call_batch(a, t, &text);
        sr1__buf_free(&text);
        return status;
    }
    if (status == SR1_OK)
        status = sr1__tool_call(t, sr1__buf_cstr(&text), text.len, &r);
    sr1__buf_free(&text);
    SR1__TRY(status);
    status = write_tool_result(a, t, &r);
    sr1__observation_free(&r.o);
    return status;
}

static sr1_status check_and_call(const struct answer *a, struct sr1__tool *t,
                                 const json_t *args)
{
    struct sr1__buf why;
    sr1_status status;

    sr1__buf_init(&why, 0);
    if (sr1__schema_fits(sr1__tool_schema(t), args, &why))
        status = call_tool(a, t, args);
    else
        status = reject_tool_arguments(a, t, &why);
    sr1__buf_free(&why);
    return status;
}

static sr1_status answer_call(const struct answer *a, const json_t *call)
{
    const json_t *name = json_object_get(call, "name");
    json_t *args = json_object_get(call, a->env->arguments);
    struct sr1__tool *t;
    json_t *none;
    sr1_status status;

    if (!json_is_object(call))
        return reject_tool_call(a, "is not a JSON object");
    if (!json_is_string(name))
        return reject_tool_call(a, "has no \"name\"");
    t = find_tool(a->env, json_string_value(name));
    if (t == NULL)
        return reject_tool_name(a, json_string_value(name));
    if (args != NULL && a->env->form->untyped)
        SR1__TRY(sr1__call_form_type_arguments(args, sr1__tool_shown_schema(t)));
    if (args != NULL)
        return check_and_call(a, t, args);
    none = json_object();
    SR1__CHECK_ALLOC(none, "call of a tool");
    status = check_and_call(a, t, none);
    json_decref(none);
    return status;
}

static sr1_status answer_action(const struct answer *a, const sr1_env_action *action)
{
    json_t *call = NULL;
    const struct sr1__call_form *form = a->env->form;
    sr1_status status = form->parse(action->text, action->len, a->env->arguments, &call);

    if (status == SR1_E_NOMEM)
        return status;
    if (status != SR1_OK)
        return reject_tool_call(a, form->wrong);
    status = answer_call(a, call);
    json_decref(call);
    return status;
}

static sr1_status run_call_batch(struct answer *a)
{
    struct tool_call_batch *m = a->together;
    struct sr1__tool_result *r = sr1__calloc(m->n + 1, sizeof *r);
    sr1_status status = r != NULL ? SR1_OK : sr1__fail_nomem("calls of a tool");
    sr1_status called = SR1_E_NOMEM;

    if (status == SR1_OK && m->n > 0)
        called = status =
            sr1__tool_call_batch(m->tool, (const char *const *)m->args, m->n, r);
    for (size_t k = 0; called == SR1_OK && k < m->n; k++) {
        a->i = m->at[k];
        if (status == SR1_OK)
            status = write_tool_result(a, m->tool, &r[k]);
        sr1__observation_free(&r[k].o);
    }
    sr1__free(r);
    return status;
}

static sr1_status open_call_batch(struct tool_call_batch *m, size_t n)
{
    m->args = sr1__calloc(n, sizeof *m->args);
    m->at = sr1__calloc(n, sizeof *m->at);
    return m->args != NULL && m->at != NULL ? SR1_OK : sr1__fail_nomem("calls of a tool");
}

static void close_call_batch(struct tool_call_batch *m)
{
    for (size_t k = 0; k < m->n; k++)
        sr1__free(m->args[k]);
    sr1__free(m->args);
    sr1__free(m->at);
}

static sr1_status tools_act(void *self, const sr1_env_action *const *actions, size_t n,
                            sr1_env_sink *sink)
{
    struct tool_call_batch together = {0};
    struct answer a = {self, sink, 0, &together};
    sr1_status status = open_call_batch(&together, n);

    for (a.i = 0; status == SR1_OK && a.i < n; a.i++)
        status = answer_action(&a, actions[a.i]);
    if (status == SR1_OK)
        status = run_call_batch(&a);
    close_call_batch(&together);
    return status;
}

/* ---- the environment ---- */

static void tools_destroy(void *self)
{
    struct sr1__tool_env *e = self;
    size_t i;

    for (i = 0; i < e->n; i++)
        sr1__tool_free(e->tools[i]);
    sr1__free(e->tools);
    sr1__buf_free(&e->text);
    sr1__free(e);
}

sr1_status sr1__tool_env_new(struct sr1__tool_env **out,
                             const struct sr1__protocol *protocol, sr1_env_ops *ops)
{
    struct sr1__tool_env *e = sr1__calloc(1, sizeof *e);

    SR1__CHECK_ALLOC(e, "environment");
    sr1__buf_init(&e->text, 0);
    e->form = sr1__call_form_find(protocol->form);
    e->arguments = protocol->arguments != NULL ? protocol->arguments : "args";
    e->as_json = protocol->tools_json;
    ops->struct_size = sizeof *ops;
    ops->name = "tools";
    ops->act = tools_act;
    ops->destroy = tools_destroy;
    ops->flags = sr1__tool_env_flags(e);
    *out = e;
    return SR1_OK;
}

struct sr1__tool_env *sr1__tool_env_of(const sr1_env_ops *ops, void *self)
{
    return ops->act == tools_act ? self : NULL;
}

/* The text with this tool, in place of the one without. */
static sr1_status add_tool_description(struct sr1__tool_env *e, const struct sr1__tool *t)
{
    struct sr1__buf text;
    sr1_status status = SR1_OK;

    sr1__buf_init(&text, 0);
    sr1__buf_add(&text, sr1__buf_cstr(&e->text), e->text.len);
    if (e->as_json)
        status = sr1__tool_describe_json(t, &text);
    else
        sr1__tool_describe(t, &text);
    if (status == SR1_OK)
        status = sr1__buf_status(&text, "description of tools");
    if (status != SR1_OK) {
        sr1__buf_free(&text);
        return status;
    }
    sr1__buf_free(&e->text);
    e->text = text;
    return SR1_OK;
}

sr1_status sr1__tool_env_add(struct sr1__tool_env *e, const sr1_tool_ops *ops,
                             const json_t *shown, void *self)
{
    struct sr1__tool *t = NULL, **tools;
    sr1_status status;

    if (e->n == MAX_TOOLS)
        return sr1__fail(SR1_E_LIMIT, "more than %d tools", MAX_TOOLS);
    tools = sr1__realloc(e->tools, e->n + 1, sizeof(struct sr1__tool *));
    SR1__CHECK_ALLOC(tools, "tools");
    e->tools = tools;
    if (ops != NULL && ops->name != NULL && find_tool(e, ops->name) != NULL)
        return sr1__fail(SR1_E_INVALID, "tool '%.64s' is there already", ops->name);
    SR1__TRY(sr1__tool_new(&t, ops, shown, self));
    status = add_tool_description(e, t);
    if (status == SR1_OK)
        e->tools[e->n++] = t;
    else
        sr1__tool_disown(t);
    return status;
}

struct sr1__tool *sr1__tool_env_last(struct sr1__tool_env *e)
{
    return e->tools[e->n - 1];
}

int32_t sr1__tool_env_can_batch(const struct sr1__tool_env *e, const char *text,
                                size_t len)
{
    const struct sr1__tool *t = NULL;
    json_t *call = NULL;

    if (e->form->parse(text, len, e->arguments, &call) == SR1_OK &&
        json_is_string(json_object_get(call, "name")))
        t = find_tool(e, json_string_value(json_object_get(call, "name")));
    json_decref(call);
    return t != NULL && sr1__tool_can_batch(t);
}

int32_t sr1__tool_env_flags(const struct sr1__tool_env *e)
{
    int32_t flags = SR1_ENV_CONCURRENT | SR1_ENV_SEPARATE | SR1_ENV_SINGLE;
    size_t i;

    for (i = 0; i < e->n; i++)
        if (sr1__tool_waits(e->tools[i]))
            flags |= SR1_ENV_WAITS;
    return flags;
}

json_t *sr1__tool_env_names(const struct sr1__tool_env *e)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < e->n; i++) {
        if (json_array_append_new(list, json_string(sr1__tool_name(e->tools[i]))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

const char *sr1__tool_env_text(const struct sr1__tool_env *e)
{
    return sr1__buf_cstr(&e->text);
}
