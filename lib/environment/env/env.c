/* environment/env/env.c - environments by name or of the caller, and one turn of any of
 * them: actions -> act -> observations, each framed by the protocol's result tags. */
#include "environment/env/env.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/env/callback.h"
#include "environment/env/document_formats.h"
#include "environment/env/search_env.h"
#include "environment/env/sink.h"
#include "environment/env/tool_env.h"

#include <searchr1/ext/episodes.h>

#include <stdatomic.h>
#include <string.h>

#define DEFAULT_TOP_K 3
#define DEFAULT_MAX_CALLS 8

struct sr1_env {
    atomic_int references;
    atomic_llong episodes; /* numbers given so far */
    sr1_env_ops ops;       /* act NULL: nothing is ever carried out */
    void *self;
    char *name;
    const struct sr1__protocol *protocol;
    const struct sr1__document_format *format;
    int32_t top_k;
    int32_t max_calls;
    int32_t of_caller;          /* made by sr1_env_new */
    atomic_ullong last_failure; /* of act, that was logged */
};

/* ---- making one ---- */

void sr1_env_options_init(sr1_env_options *options)
{
    static const sr1_env_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_env_options(struct sr1_env *e, const sr1_env_options *given)
{
    sr1_env_options o = {0};

    SR1__TRY(sr1__struct_take(&o, sizeof o, given,
                              SR1__STRUCT_END(sr1_env_options, protocol),
                              "environment options"));
    if (o.top_k < 0)
        return sr1__fail(SR1_E_INVALID, "environment options: top_k is negative");
    if (o.max_parallel_calls < 0 || o.max_parallel_calls > SR1__MAX_CALLS)
        return sr1__fail(SR1_E_INVALID,
                         "environment options: max_parallel_calls is %d; 0 to %d",
                         (int)o.max_parallel_calls, SR1__MAX_CALLS);
    e->protocol = sr1__protocol_find(o.protocol);
    e->format = sr1__document_format_find(o.document_format);
    e->top_k = o.top_k > 0 ? o.top_k : DEFAULT_TOP_K;
    e->max_calls = o.max_parallel_calls > 0 ? o.max_parallel_calls : DEFAULT_MAX_CALLS;
    return e->protocol != NULL && e->format != NULL ? SR1_OK : SR1_E_NOT_FOUND;
}

/* An environment that cannot act yet. */
static sr1_status new_env(struct sr1_env **out, const char *name,
                          const sr1_env_options *options)
{
    struct sr1_env *e = sr1__calloc(1, sizeof *e);
    sr1_status status;

    SR1__CHECK_ALLOC(e, "environment");
    e->references = 1;
    status = read_env_options(e, options);
    if (status == SR1_OK) {
        e->name = sr1__strdup(name);
        status = e->name != NULL ? SR1_OK : sr1__fail_nomem("environment");
    }
    SR1__RETURN_NEW(out, e, status, sr1_env_free);
}

static sr1_status make_search(struct sr1_env *e, sr1_search *search)
{
    return sr1__search_env_new(&e->self, &e->ops, search, e->format, e->top_k);
}

static sr1_status make_tools(struct sr1_env *e, sr1_search *search)
{
    struct sr1__tool_env *tools = NULL;

    SR1__TRY(sr1__tool_env_new(&tools, e->protocol, &e->ops));
    e->self = tools;
    if (search != NULL)
        SR1__TRY(sr1__tool_env_add_search(tools, search, e->format, e->top_k));
    e->ops.flags = sr1__tool_env_flags(tools);
    return SR1_OK;
}

static sr1_status make_none(struct sr1_env *e, sr1_search *search)
{
    (void)e;
    (void)search;
    return SR1_OK;
}

static const struct builtin {
    const char *name;
    sr1_status (*make)(struct sr1_env *e, sr1_search *search);
} builtins[] = {
    {"search", make_search},
    {"tools", make_tools},
    {"none", make_none},
};

static const char *builtin_env_name(size_t i)
{
    return i < sizeof builtins / sizeof builtins[0] ? builtins[i].name : NULL;
}

static const struct builtin *find_builtin_env(const char *name)
{
    size_t i;

    for (i = 0; name != NULL && i < sizeof builtins / sizeof builtins[0]; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    sr1__fail_unknown("environment", name != NULL ? name : "(null)", builtin_env_name);
    return NULL;
}

sr1_status sr1_env_open(sr1_env **out, const char *name, sr1_search *search,
                        const sr1_env_options *options)
{
    const struct builtin *b = find_builtin_env(name);
    struct sr1_env *e = NULL;

    if (b == NULL)
        return SR1_E_NOT_FOUND;
    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "environment: out is NULL");
    SR1__TRY(new_env(&e, b->name, options));
    SR1__RETURN_NEW(out, e, b->make(e, search), sr1_env_free);
}

static sr1_status check_episodes(const sr1_env_ops *ops)
{
    if ((ops->begin == NULL) != (ops->finish == NULL))
        return sr1__fail(SR1_E_INVALID,
                         "environment '%.64s': begin and finish go together", ops->name);
    if (ops->begin != NULL && (ops->flags & SR1_ENV_WAITS) &&
        !(ops->flags & SR1_ENV_CONCURRENT))
        return sr1__fail(SR1_E_INVALID,
                         "environment '%.64s': one that waits and has begin must be "
                         "concurrent too",
                         ops->name);
    return SR1_OK;
}

sr1_status sr1__env_new_builtin(sr1_env **out, const sr1_env_ops *given, void *self,
                                const sr1_env_options *options)
{
    sr1_env_ops ops = {0};
    struct sr1_env *e = NULL;

    SR1__TRY(sr1__struct_take(&ops, sizeof ops, given, SR1__STRUCT_END(sr1_env_ops, act),
                              "environment: ops"));
    if (out == NULL || ops.name == NULL || ops.act == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "environment: out, ops with name and act are needed");
    SR1__TRY(check_episodes(&ops));
    SR1__TRY(new_env(&e, ops.name, options));
    e->ops = ops;
    e->ops.name = e->name;
    e->self = self;
    *out = e;
    return SR1_OK;
}

sr1_status sr1_env_new(sr1_env **out, const sr1_env_ops *ops, void *self,
                       const sr1_env_options *options)
{
    SR1__TRY(sr1__env_new_builtin(out, ops, self, options));
    (*out)->of_caller = 1;
    return SR1_OK;
}

sr1_env *sr1__env_retain(sr1_env *env)
{
    atomic_fetch_add(&env->references, 1);
    return env;
}

void sr1_env_free(sr1_env *env)
{
    if (env == NULL || atomic_fetch_sub(&env->references, 1) > 1)
        return;
    if (env->ops.destroy != NULL)
        env->ops.destroy(env->self);
    sr1__free(env->name);
    sr1__free(env);
}

const char *sr1_env_name(const sr1_env *env)
{
    return env != NULL ? env->name : "";
}

sr1_status sr1_env_add_tool(sr1_env *env, const sr1_tool_ops *ops, void *self)
{
    return sr1__env_add_tool(env, ops, NULL, self);
}

sr1_status sr1__env_add_tool(sr1_env *env, const sr1_tool_ops *ops, const json_t *shown,
                             void *self)
{
    struct sr1__tool_env *tools;

    if (env == NULL || ops == NULL)
        return sr1__fail(SR1_E_INVALID, "add tool: environment or ops is NULL");
    tools = sr1__tool_env_of(&env->ops, env->self);
    if (tools == NULL)
        return sr1__fail(SR1_E_STATE, "environment '%s' takes no tools; open 'tools'",
                         env->name);
    if (atomic_load(&env->references) > 1)
        return sr1__fail(SR1_E_STATE,
                         "environment '%s' is in use; add tools before it is given away",
                         env->name);
    SR1__TRY(sr1__tool_env_add(tools, ops, shown, self));
    env->ops.flags = sr1__tool_env_flags(tools);
    return SR1_OK;
}

const char *sr1_env_tools(const sr1_env *env)
{
    const struct sr1__tool_env *tools =
        env != NULL ? sr1__tool_env_of(&env->ops, env->self) : NULL;

    return tools != NULL ? sr1__tool_env_text(tools) : "";
}

json_t *sr1__env_tool_names(const sr1_env *env)
{
    const struct sr1__tool_env *tools = sr1__tool_env_of(&env->ops, env->self);

    return tools != NULL ? sr1__tool_env_names(tools) : json_array();
}

const struct sr1__protocol *sr1__env_protocol(const struct sr1_env *env)
{
    return env->protocol;
}

int32_t sr1__env_acts(const struct sr1_env *env)
{
    return env->ops.act != NULL;
}

int32_t sr1__env_calls_of_message(const sr1_env *env)
{
    return env->protocol->several ? env->max_calls : 1;
}

int32_t sr1__env_max_calls(const sr1_env *env)
{
    return sr1__env_acts(env) ? sr1__env_calls_of_message(env) : 1;
}

int32_t sr1__env_flags(const sr1_env *env)
{
    return env->ops.flags;
}

int32_t sr1__env_can_batch(const sr1_env *env, const char *text, size_t len)
{
    const struct sr1__tool_env *tools = sr1__tool_env_of(&env->ops, env->self);

    return tools != NULL && sr1__tool_env_can_batch(tools, text, len);
}

/* ---- one turn ---- */

/* The actions as callbacks see them: (*list)[n]. Caller frees the returned memory, NULL
 * without memory, with sr1__free. */
static void *make_public_actions(const struct sr1__action *a, size_t n,
                                 const sr1_env_action *const **list)
{
    sr1_env_action *actions = sr1__calloc(n, sizeof *actions + sizeof(sr1_env_action *));
    const sr1_env_action **pointers;
    size_t i;

    if (actions == NULL)
        return NULL;
    pointers = (const sr1_env_action **)(actions + n);
    for (i = 0; i < n; i++) {
        actions[i].struct_size = sizeof actions[i];
        actions[i].row = (int64_t)a[i].row;
        actions[i].turn = a[i].turn;
        actions[i].text = a[i].text;
        actions[i].len = a[i].len;
        actions[i].episode = a[i].episode;
        pointers[i] = &actions[i];
    }
    *list = pointers;
    return actions;
}

static sr1_status call_env_act(struct sr1_env *env, const struct sr1__action *a, size_t n,
                               struct sr1__observation *out)
{
    struct sr1_env_sink sink = {out, n};
    const sr1_env_action *const *actions = NULL;
    void *memory = make_public_actions(a, n, &actions);
    struct sr1__error before;
    sr1_status status;

    SR1__CHECK_ALLOC(memory, "actions");
    sr1__callback_begin(&before);
    status = env->ops.act(env->self, actions, n, &sink);
    status = sr1__callback_end(&before, status, "environment", env->name);
    sr1__free(memory);
    return status;
}

/* The text between the opening tag and the body belongs to the body, so the body's first
 * word is encoded as in running text. */
static sr1_status prepend_to_body(struct sr1__buf *body, const char *inside)
{
    struct sr1__buf led;

    if (inside[0] == '\0')
        return SR1_OK;
    sr1__buf_init(&led, body->max);
    sr1__buf_str(&led, inside);
    sr1__buf_add(&led, sr1__buf_cstr(body), body->len);
    sr1__buf_free(body);
    *body = led;
    return sr1__buf_status(body, "observation");
}

static void add_tag(struct sr1__buf *b, const struct sr1_env *env, int tag)
{
    sr1__buf_str(b, env->protocol->tags[tag]);
}

static const char *choose_block_padding(const struct sr1_env *env, int32_t flags)
{
    if (env->protocol->search_r1_compat && (flags & SR1__ANSWER_NOTICE))
        return "\n";
    return env->protocol->around != NULL ? env->protocol->around : env->format->around;
}

/* Finish the body and put the result tags around it, unless the protocol has none. */
static sr1_status wrap_observation(const struct sr1_env *env, struct sr1__observation *o)
{
    const struct sr1__protocol *p = env->protocol;
    const char *around = choose_block_padding(env, o->flags);
    const char *inside = p->inside != NULL ? p->inside : env->format->inside;
    int tagged = !p->message && (o->flags & SR1_ANSWER_PLAIN) == 0;

    SR1__TRY(sr1__observation_finish(o));
    if (p->search_r1_compat && o->status == SR1_ACTION_EMPTY)
        sr1__buf_clear(&o->body);
    sr1__buf_str(&o->head, around);
    if (tagged) {
        add_tag(&o->head, env, SR1__TAG_OPEN(SR1__ROLE_RESULT));
        SR1__TRY(prepend_to_body(&o->body, inside));
        sr1__buf_str(&o->tail, inside);
        add_tag(&o->tail, env, SR1__TAG_CLOSE(SR1__ROLE_RESULT));
    }
    sr1__buf_str(&o->tail, around);
    SR1__TRY(sr1__buf_status(&o->head, "observation"));
    return sr1__buf_status(&o->tail, "observation");
}

sr1_status sr1__env_act(struct sr1_env *env, const struct sr1__action *a, size_t n,
                        struct sr1__observation *out)
{
    sr1_status status;
    size_t i;

    for (i = 0; i < n; i++)
        sr1__observation_init(&out[i]);
    if (n == 0 || !sr1__env_acts(env))
        return SR1_OK;
    status = call_env_act(env, a, n, out);
    for (i = 0; status == SR1_OK && i < n; i++)
        status = wrap_observation(env, &out[i]);
    for (i = 0; status != SR1_OK && i < n; i++)
        sr1__observation_free(&out[i]);
    return status;
}

sr1_status sr1__env_failed_observation(const sr1_env *env, int32_t status,
                                       const char *why, struct sr1__observation *out)
{
    sr1_status st;

    sr1__observation_init(out);
    out->status = status;
    out->failure = sr1__strdup(why);
    st = out->failure ? wrap_observation(env, out)
                      : sr1__fail_nomem("why a search failed");
    if (st != SR1_OK) {
        sr1__observation_free(out);
        out->status = status;
    }
    return st;
}

sr1_status sr1__env_act_rows(struct sr1_env *env, const struct sr1__action *a, size_t n,
                             struct sr1__observation *out)
{
    sr1_status status = sr1__env_act(env, a, n, out);
    int late = status == SR1_E_TIMEOUT;

    if (status == SR1_OK || !env->of_caller || sr1__is_fatal(status))
        return status;
    if (sr1__log_is_news(&env->last_failure, sr1_last_error()))
        sr1__log(SR1_LOG_WARN, "%zu action%s failed: %.400s", n, n == 1 ? "" : "s",
                 sr1_last_error());
    status = SR1_OK;
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = sr1__env_failed_observation(
            env, late ? SR1_ACTION_TIMEOUT : SR1_ACTION_ERROR, sr1_last_error(), &out[i]);
    for (size_t i = 0; i < n && status != SR1_OK; i++)
        sr1__observation_free(&out[i]);
    return status;
}

sr1_status sr1__env_notice(const sr1_env *env, struct sr1__observation *out)
{
    sr1_status status;

    sr1__observation_init(out);
    out->flags = SR1_ANSWER_PLAIN | SR1_ANSWER_UNEXECUTED | SR1__ANSWER_NOTICE;
    sr1__buf_str(&out->body, env->protocol->notice);
    status = sr1__buf_status(&out->body, "notice");
    if (status == SR1_OK)
        status = wrap_observation(env, out);
    if (status != SR1_OK)
        sr1__observation_free(out);
    return status;
}

sr1_status sr1__env_refusal(const sr1_env *env, const char *text,
                            struct sr1__observation *out)
{
    sr1_status status;

    sr1__observation_init(out);
    out->flags = SR1_ANSWER_UNEXECUTED;
    sr1__buf_str(&out->body, text);
    status = sr1__buf_status(&out->body, "refusal");
    if (status == SR1_OK)
        status = wrap_observation(env, out);
    if (status != SR1_OK)
        sr1__observation_free(out);
    return status;
}

/* ---- one action by itself ---- */

/* The observation as it would be inserted. */
static sr1_status join_observation(const struct sr1__observation *o, char **text,
                                   size_t *len)
{
    struct sr1__buf all;
    sr1_status status;
    char *whole;
    size_t n;

    sr1__buf_init(&all, 0);
    sr1__buf_add(&all, sr1__buf_cstr(&o->head), o->head.len);
    sr1__buf_add(&all, sr1__buf_cstr(&o->body), o->body.len);
    sr1__buf_add(&all, sr1__buf_cstr(&o->tail), o->tail.len);
    status = sr1__buf_status(&all, "answer of an environment");
    n = all.len;
    whole = status == SR1_OK ? sr1__buf_take(&all) : NULL;
    sr1__buf_free(&all);
    if (whole == NULL)
        return status != SR1_OK ? status : sr1__fail_nomem("answer of an environment");
    *text = whole;
    *len = n;
    return SR1_OK;
}

sr1_status sr1_env_step(sr1_env *env, int64_t episode, const char *action,
                        size_t action_len, sr1_env_reply *reply, char **text, size_t *len)
{
    struct sr1__action a = {0, action, action_len, 0, episode};
    struct sr1__observation o;
    sr1_env_reply r = {0};
    sr1_status status;

    if (env == NULL || (action == NULL && action_len > 0) || text == NULL || len == NULL)
        return sr1__fail(SR1_E_INVALID, "environment answer: an argument is NULL");
    if (reply != NULL)
        SR1__TRY(sr1__struct_check(reply, "environment reply"));
    a.text = action != NULL ? action : "";
    atomic_fetch_add(&env->references, 1); /* its callback may free it */
    status = sr1__env_act(env, &a, 1, &o);
    sr1_env_free(env);
    SR1__TRY(status);
    r.status = o.status;
    r.flags = o.flags;
    r.done = o.done;
    r.success = o.success;
    r.reward = o.reward;
    status = join_observation(&o, text, len);
    sr1__observation_free(&o);
    if (status != SR1_OK || reply == NULL)
        return status;
    return sr1__struct_give(reply, &r, sizeof r, "environment reply");
}

sr1_status sr1_env_answer(sr1_env *env, const char *action, size_t action_len,
                          char **text, size_t *len)
{
    return sr1_env_step(env, 0, action, action_len, NULL, text, len);
}

/* ---- episodes ---- */

sr1_status sr1__env_begin(sr1_env *env, sr1_env_episode *e, int64_t *episode)
{
    struct sr1__error before;
    sr1_status status;

    if (env->ops.begin == NULL) {
        *episode = 0;
        return SR1_OK;
    }
    e->struct_size = sizeof *e;
    e->episode = (int64_t)atomic_fetch_add(&env->episodes, 1) + 1;
    sr1__callback_begin(&before);
    status = env->ops.begin(env->self, e);
    SR1__TRY(sr1__callback_end(&before, status, "environment", env->name));
    *episode = e->episode;
    return SR1_OK;
}

sr1_status sr1_env_begin(sr1_env *env, const char *query_id, const char *query,
                         size_t query_len, uint64_t seed, int64_t *episode)
{
    sr1_env_episode e = {.query_id = query_id != NULL ? query_id : "",
                         .row = "",
                         .query = query != NULL ? query : "",
                         .query_len = query_len,
                         .seed = seed};
    sr1_status status;

    if (env == NULL || (query == NULL && query_len > 0) || episode == NULL)
        return sr1__fail(SR1_E_INVALID, "environment: an argument of begin is NULL");
    atomic_fetch_add(&env->references, 1);
    status = sr1__env_begin(env, &e, episode);
    sr1_env_free(env);
    return status;
}

void sr1_env_finish(sr1_env *env, int64_t episode)
{
    if (env == NULL || env->ops.finish == NULL || episode <= 0)
        return;
    atomic_fetch_add(&env->references, 1);
    env->ops.finish(env->self, episode);
    sr1_env_free(env);
}

sr1_status sr1_protocol_parse(const char *protocol, const char *text, size_t len,
                              int32_t *event, size_t *begin, size_t *n)
{
    const struct sr1__protocol *p = sr1__protocol_find(protocol);
    struct sr1__text_range content;

    if (p == NULL)
        return SR1_E_NOT_FOUND;
    if ((text == NULL && len > 0) || event == NULL || begin == NULL || n == NULL)
        return sr1__fail(SR1_E_INVALID, "protocol parse: an argument is NULL");
    *event = sr1__protocol_first_event(p, text, len, 0, &content, NULL);
    if (*event != SR1__EVENT_NONE) {
        *begin = content.begin;
        *n = content.len;
    }
    return SR1_OK;
}
