/* The environment of tools: what is told about wrong calls, what a tool gives, deadlines,
 * and what is in use. */
#include "environment/env/env.h"

#include "../../support/torture.h"
#include "../../support/wait.h"

#include <searchr1/env.h>
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/episodes.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char schema[] =
    "{\"type\": \"object\", \"required\": [\"do\"], \"properties\": {"
    "\"do\": {\"type\": \"string\", \"description\": \"what to do\"}, "
    "\"seconds\": {\"type\": \"number\"}}}";

struct tool {
    atomic_int calls, at_once, most_at_once, destroyed;
    atomic_int held; /* calls of "hold" return when it is 0 again */
};

static sr1_status obey(const char *args, size_t len, sr1_tool_sink *sink)
{
    static const char said[] = " it is so ";

    if (strstr(args, "\"give\"") != NULL)
        return sr1_tool_sink_text(sink, said, strlen(said));
    if (strstr(args, "\"echo\"") != NULL)
        return sr1_tool_sink_text(sink, args, len);
    if (strstr(args, "\"hit\"") != NULL) {
        assert_int_equal(sr1_tool_sink_hit(sink, "d1"), SR1_OK);
        return sr1_tool_sink_text(sink, "hit", 3);
    }
    if (strstr(args, "\"fail\"") != NULL) {
        assert_int_equal(sr1_tool_sink_text(sink, "no such town", 12), SR1_OK);
        return sr1_tool_sink_status(sink, SR1_TOOL_FAILED);
    }
    if (strstr(args, "\"fail silently\"") != NULL)
        return sr1_tool_sink_status(sink, SR1_TOOL_FAILED);
    if (strstr(args, "\"late\"") != NULL)
        return sr1_tool_sink_status(sink, SR1_TOOL_TIMEOUT);
    if (strstr(args, "\"broken\"") != NULL)
        return sr1_tool_sink_status(sink, SR1_TOOL_BROKEN);
    if (strstr(args, "\"crash\"") != NULL)
        return sr1_set_error(SR1_E_NETWORK, "the line is dead");
    if (strstr(args, "\"blank\"") != NULL)
        return sr1_tool_sink_text(sink, " \n ", 3);
    if (strstr(args, "\"odd\"") != NULL) {
        assert_int_equal(sr1_tool_sink_status(sink, 9), SR1_E_INVALID);
        assert_int_equal(sr1_tool_sink_text(sink, NULL, 1), SR1_E_INVALID);
        assert_int_equal(sr1_tool_sink_text(NULL, "", 0), SR1_E_INVALID);
        return sr1_tool_sink_text(sink, "fine", 4);
    }
    return SR1_OK;
}

static sr1_status call(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    struct tool *t = self;
    int now = atomic_fetch_add(&t->at_once, 1) + 1, most = atomic_load(&t->most_at_once);
    sr1_status status;

    assert_int_equal(strlen(args), len);
    atomic_fetch_add(&t->calls, 1);
    while (now > most && !atomic_compare_exchange_weak(&t->most_at_once, &most, now))
        ;
    if (strstr(args, "\"seconds\":") != NULL)
        nap(0.05);
    if (strstr(args, "\"hold\"") != NULL)
        wait_for(&t->held, 0);
    status = obey(args, len, sink);
    atomic_fetch_sub(&t->at_once, 1);
    return status;
}

static void destroy(void *self)
{
    atomic_fetch_add(&((struct tool *)self)->destroyed, 1);
}

static const sr1_tool_ops plain_ops = {.struct_size = sizeof plain_ops,
                                       .name = "town",
                                       .description = "Knows towns.",
                                       .schema = schema,
                                       .call = call,
                                       .destroy = destroy};

static sr1_env *open_env(struct tool *t, const sr1_tool_ops *ops)
{
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "mt-grpo"};
    sr1_env *env = NULL;

    memset(t, 0, sizeof *t);
    assert_int_equal(sr1_env_open(&env, "tools", NULL, &o), SR1_OK);
    assert_int_equal(sr1_env_add_tool(env, ops, t), SR1_OK);
    return env;
}

/* ---- texts ---- */

#define WRITE "; write {\"name\": ..., \"args\": {...}}"

static const struct {
    const char *action;
    const char *block; /* what is inserted */
    int32_t status;
    int calls; /* of the tool */
} cases[] = {
    {"{\"name\": \"town\", \"args\": {\"do\": \"give\"}}",
     "<result>\nit is so\n</result>", SR1_ACTION_OK, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"echo\"}, \"why\": 1}",
     "<result>\n{\"do\":\"echo\"}\n</result>", SR1_ACTION_OK, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"odd\"}}", "<result>\nfine\n</result>",
     SR1_ACTION_OK, 1},
    /* not executed */
    {"{\"name\": \"town\", \"args\": {\"do\"",
     "<result>\nError: the tool call is not "
     "valid JSON" WRITE "\n</result>",
     SR1_ACTION_OK, 0},
    {"", "<result>\nError: the tool call is not valid JSON" WRITE "\n</result>",
     SR1_ACTION_OK, 0},
    {"give me the town",
     "<result>\nError: the tool call is not valid JSON" WRITE "\n</result>",
     SR1_ACTION_OK, 0},
    {"[\"town\"]",
     "<result>\nError: the tool call is not a JSON object" WRITE "\n</result>",
     SR1_ACTION_OK, 0},
    {"\"town\"",
     "<result>\nError: the tool call is not a JSON object" WRITE "\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"args\": {}}",
     "<result>\nError: the tool call has no \"name\"" WRITE "\n</result>", SR1_ACTION_OK,
     0},
    {"{\"name\": 3, \"args\": {}}",
     "<result>\nError: the tool call has no \"name\"" WRITE "\n</result>", SR1_ACTION_OK,
     0},
    {"{\"name\": \"city\", \"args\": {}}",
     "<result>\nError: unknown tool 'city'; known: "
     "town, other\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"name\": \"town\", \"args\": {}}",
     "<result>\nError: town: argument 'do' is "
     "missing\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"name\": \"town\"}", "<result>\nError: town: argument 'do' is missing\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"name\": \"town\", \"args\": [\"give\"]}",
     "<result>\nError: town: the arguments "
     "must be an object, not a list\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"name\": \"town\", \"args\": {\"do\": 1}}",
     "<result>\nError: town: argument 'do' "
     "must be a string, not an integer\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"name\": \"other\", \"args\": {\"do\": 1}}",
     "<result>\nError: other: argument "
     "'do' is not known; known: none\n</result>",
     SR1_ACTION_OK, 0},
    /* executed, and the policy is told */
    {"{\"name\": \"town\", \"args\": {\"do\": \"fail\"}}",
     "<result>\nError: no such town\n</result>", SR1_ACTION_OK, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"fail silently\"}}",
     "<result>\nError: town failed\n</result>", SR1_ACTION_OK, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"nothing\"}}",
     "Error: town gave an empty result", SR1_ACTION_OK, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"blank\"}}",
     "Error: town gave an empty result", SR1_ACTION_OK, 1},
    /* nothing the policy did */
    {"{\"name\": \"town\", \"args\": {\"do\": \"late\"}}", "<result>\n\n</result>",
     SR1_ACTION_TIMEOUT, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"broken\"}}", "<result>\n\n</result>",
     SR1_ACTION_ERROR, 1},
    {"{\"name\": \"town\", \"args\": {\"do\": \"crash\"}}", "<result>\n\n</result>",
     SR1_ACTION_ERROR, 1},
};

#define N_CASES (sizeof cases / sizeof cases[0])

static void check_case(sr1_env *env, struct tool *t, size_t i)
{
    struct sr1__action a = {0, cases[i].action, strlen(cases[i].action), 0};
    struct sr1__observation o;
    int before = atomic_load(&t->calls);
    char *text = NULL;
    size_t len = 0;

    assert_int_equal(sr1_env_answer(env, a.text, a.len, &text, &len), SR1_OK);
    assert_string_equal(text, cases[i].block);
    assert_int_equal(atomic_load(&t->calls) - before, cases[i].calls);
    sr1_free(text);
    assert_int_equal(sr1__env_act(env, &a, 1, &o), SR1_OK);
    assert_int_equal(o.status, cases[i].status);
    assert_int_equal((o.flags & SR1_ANSWER_UNEXECUTED) != 0, cases[i].calls == 0);
    assert_int_equal((o.flags & SR1_ANSWER_PLAIN) != 0, cases[i].block[0] != '<');
    sr1__observation_free(&o);
}

static void every_wrong_call_has_its_text(void **state)
{
    sr1_tool_ops other = plain_ops;
    struct tool t, t2 = {0};
    sr1_env *env = open_env(&t, &plain_ops);
    size_t i;

    (void)state;
    other.name = "other";
    other.schema = NULL;
    assert_int_equal(sr1_env_add_tool(env, &other, &t2), SR1_OK);
    for (i = 0; i < N_CASES; i++)
        check_case(env, &t, i);
    assert_int_equal(atomic_load(&t.destroyed), 0);
    sr1_env_free(env);
    assert_int_equal(atomic_load(&t.destroyed), 1);
    assert_int_equal(atomic_load(&t2.destroyed), 1);
}

static void a_message_without_either_is_told_so(void **state)
{
    struct tool t;
    sr1_env *env = open_env(&t, &plain_ops);
    struct sr1__observation o;

    (void)state;
    assert_int_equal(sr1__env_notice(env, &o), SR1_OK);
    assert_int_equal(o.head.len + o.tail.len, 0);
    assert_int_equal(strncmp(sr1__buf_cstr(&o.body), "Error: ", 7), 0);
    assert_non_null(strstr(sr1__buf_cstr(&o.body), "<tool>"));
    assert_int_equal(o.flags & SR1_ANSWER_UNEXECUTED, SR1_ANSWER_UNEXECUTED);
    sr1__observation_free(&o);
    sr1_env_free(env);
}

static void any_protocol_will_do(void **state)
{
    struct tool t = {0};
    sr1_env *env = NULL;
    char *text = NULL;
    size_t len;

    (void)state;
    assert_int_equal(sr1_env_open(&env, "tools", NULL, NULL), SR1_OK);
    assert_int_equal(sr1_env_add_tool(env, &plain_ops, &t), SR1_OK);
    assert_int_equal(
        sr1_env_answer(env, cases[0].action, strlen(cases[0].action), &text, &len),
        SR1_OK);
    assert_string_equal(text, "\n\n<information>it is so</information>\n\n");
    sr1_free(text);
    sr1_env_free(env);
}

static void tools_are_described(void **state)
{
    sr1_tool_ops other = plain_ops;
    struct tool t, t2 = {0};
    sr1_env *env = open_env(&t, &plain_ops), *none = NULL;

    (void)state;
    other.name = "other";
    other.description = other.schema = NULL;
    assert_int_equal(sr1_env_add_tool(env, &other, &t2), SR1_OK);
    assert_string_equal(sr1_env_tools(env), "town: Knows towns.\n"
                                            "- do (string, required): what to do\n"
                                            "- seconds (number)\n"
                                            "other\n");
    sr1_env_free(env);
    assert_int_equal(sr1_env_open(&none, "none", NULL, NULL), SR1_OK);
    assert_string_equal(sr1_env_tools(none), "");
    assert_int_equal(sr1_env_add_tool(none, &plain_ops, &t), SR1_E_STATE);
    sr1_env_free(none);
}

static void wrong_tools_are_refused(void **state)
{
    sr1_tool_ops ops = plain_ops;
    struct tool t;
    sr1_env *env = open_env(&t, &plain_ops), *held;

    (void)state;
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "'town' is there already"));
    ops.name = "a town";
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.name = "";
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.name = NULL;
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.name = "b";
    ops.schema = "{\"type\": \"object\", \"unevaluatedItems\": {}}";
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_UNSUPPORTED);
    assert_non_null(
        strstr(sr1_last_error(), "tool 'b': schema: keyword 'unevaluatedItems'"));
    ops.schema = NULL;
    ops.deadline_s = -1;
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.deadline_s = 0;
    ops.call = NULL;
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.call = call;
    ops.struct_size = 8;
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_INVALID);
    ops.struct_size = sizeof ops;
    assert_int_equal(sr1_env_add_tool(NULL, &ops, &t), SR1_E_INVALID);
    assert_int_equal(sr1_env_add_tool(env, NULL, &t), SR1_E_INVALID);
    held = sr1__env_retain(env);
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_E_STATE);
    sr1_env_free(held);
    assert_int_equal(sr1_env_add_tool(env, &ops, &t), SR1_OK);
    assert_int_equal(atomic_load(&t.destroyed), 0); /* what failed destroyed nothing */
    sr1_env_free(env);
    assert_int_equal(atomic_load(&t.destroyed), 2);
}

/* ---- deadlines ---- */

static int32_t status_of(sr1_env *env, const char *action)
{
    struct sr1__action a = {0, action, strlen(action), 0};
    struct sr1__observation o;
    int32_t status;

    assert_int_equal(sr1__env_act(env, &a, 1, &o), SR1_OK);
    status = o.status;
    sr1__observation_free(&o);
    return status;
}

static const char held[] = "{\"name\": \"town\", \"args\": {\"do\": \"hold\"}}";
static const char quick[] =
    "{\"name\": \"town\", \"args\": {\"do\": \"give\", \"seconds\": 0}}";

/* The call lasts until the test lets it go, so whoever waits for its end fails. */
static void a_late_call_is_given_up(void **state)
{
    sr1_tool_ops ops = plain_ops;
    struct tool t;
    sr1_env *env;

    (void)state;
    ops.deadline_s = 1;
    ops.flags = SR1_TOOL_CONCURRENT;
    env = open_env(&t, &ops);
    assert_int_equal(sr1__env_flags(env), SR1_ENV_WAITS | SR1_ENV_CONCURRENT |
                                              SR1_ENV_SEPARATE | SR1_ENV_SINGLE);
    assert_int_equal(status_of(env, quick), SR1_ACTION_OK);
    atomic_store(&t.held, 1);
    assert_int_equal(status_of(env, held), SR1_ACTION_TIMEOUT);
    assert_int_equal(status_of(env, quick), SR1_ACTION_OK); /* beside the late one */
    assert_int_equal(atomic_load(&t.at_once), 1);
    sr1_env_free(env);
    assert_int_equal(atomic_load(&t.destroyed), 0); /* the late call still uses it */
    atomic_store(&t.held, 0);
    wait_for(&t.destroyed, 1);
    assert_int_equal(atomic_load(&t.most_at_once), 2);
}

/* A tool that takes one call at a time stays busy with the one that was given up. */
static void a_tool_that_is_busy_is_waited_for(void **state)
{
    sr1_tool_ops ops = plain_ops;
    struct tool t;
    sr1_env *env;

    (void)state;
    ops.deadline_s = 1;
    env = open_env(&t, &ops);
    atomic_store(&t.held, 1);
    assert_int_equal(status_of(env, held), SR1_ACTION_TIMEOUT);
    assert_int_equal(status_of(env, quick), SR1_ACTION_TIMEOUT);
    assert_int_equal(atomic_load(&t.at_once), 1); /* nobody waited for its end */
    atomic_store(&t.held, 0);
    assert_int_equal(status_of(env, quick), SR1_ACTION_OK);
    assert_int_equal(atomic_load(&t.most_at_once), 1);
    assert_int_equal(atomic_load(&t.calls), 2);
    sr1_env_free(env);
    wait_for(&t.destroyed, 1);
}

static void *ask_quick(void *arg)
{
    assert_int_equal(status_of(arg, quick), SR1_ACTION_OK);
    return NULL;
}

static void calls_take_turns_unless_concurrent(void **state)
{
    int concurrent;

    (void)state;
    for (concurrent = 0; concurrent < 2; concurrent++) {
        sr1_tool_ops ops = plain_ops;
        pthread_t threads[4];
        struct tool t;
        sr1_env *env;
        int i;

        ops.flags = concurrent ? SR1_TOOL_CONCURRENT : 0;
        ops.deadline_s = concurrent ? 10 : 0;
        env = open_env(&t, &ops);
        for (i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, ask_quick, env), 0);
        for (i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&t.calls), 4);
        if (concurrent)
            assert_true(atomic_load(&t.most_at_once) > 1);
        else
            assert_int_equal(atomic_load(&t.most_at_once), 1);
        sr1_env_free(env);
        wait_for(&t.destroyed, 1);
    }
}

/* ---- wiki_search ---- */

static sr1_status find(void *self, const char *const *queries, size_t n, int32_t top_k,
                       sr1_search_sink *sink)
{
    char id[16];
    int32_t k;

    (void)self;
    assert_int_equal(n, 1);
    if (strcmp(queries[0], "nothing") == 0 || strcmp(queries[0], "no thing") == 0)
        return SR1_OK;
    if (strcmp(queries[0], "gone") == 0)
        return sr1_set_error(SR1_E_NETWORK, "the engine is gone");
    if (strcmp(queries[0], "late") == 0)
        return sr1_search_sink_status(sink, 0, SR1_ACTION_TIMEOUT, "too late");
    for (k = 0; k < top_k; k++) {
        snprintf(id, sizeof id, "d%d", (int)k);
        SR1__TRY(sr1_search_sink_hit(sink, 0, id, "Paris\nCapital of France.", 2));
    }
    return SR1_OK;
}

static sr1_env *open_wiki(const char *protocol, int32_t flags)
{
    sr1_search_ops ops = {sizeof ops, "test", find, NULL, flags};
    sr1_env_options o = {sizeof o, protocol, "plain", 2};
    sr1_search *s = NULL;
    sr1_env *env = NULL;

    assert_int_equal(sr1_search_new(&s, &ops, NULL), SR1_OK);
    assert_int_equal(sr1_env_open(&env, "tools", s, &o), SR1_OK);
    sr1_search_free(s);
    return env;
}

static const struct {
    const char *args;
    const char *block;
    int32_t status, hits;
} wiki_cases[] = {
    {"{\"query\": \"x\"}",
     "<result>\nParis\nCapital of France. Paris\nCapital of France.\n</result>",
     SR1_ACTION_OK, 2},
    {"{\"query\": \"x\", \"k\": 1}", "<result>\nParis\nCapital of France.\n</result>",
     SR1_ACTION_OK, 1},
    {"{\"query\": \"nothing\"}", "<result>\nNo information found for: nothing\n</result>",
     SR1_ACTION_EMPTY, 0},
    {"{\"query\": \"no\\u0000thing\"}", /* all of it is looked for */
     "<result>\nNo information found for: no thing\n</result>", SR1_ACTION_EMPTY, 0},
    {"{\"query\": \"gone\"}", "<result>\n\n</result>", SR1_ACTION_ERROR, 0},
    {"{\"query\": \"late\"}", "<result>\n\n</result>", SR1_ACTION_TIMEOUT, 0},
    {"{\"query\": \"x\", \"k\": 0}",
     "<result>\nError: wiki_search: argument 'k' must be at least 1\n</result>",
     SR1_ACTION_OK, 0},
    {"{\"q\": \"x\"}",
     "<result>\nError: wiki_search: argument 'q' is not known; known: "
     "query, k\n</result>",
     SR1_ACTION_OK, 0},
};

static void wiki_search_searches(void **state)
{
    sr1_env *env = open_wiki("mt-grpo", 0);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof wiki_cases / sizeof wiki_cases[0]; i++) {
        char action[256], *text = NULL;
        struct sr1__action a = {0, action, 0, 0};
        struct sr1__observation o;
        size_t len;

        a.len = (size_t)snprintf(action, sizeof action,
                                 "{\"name\": \"wiki_search\", \"args\": %s}",
                                 wiki_cases[i].args);
        assert_int_equal(sr1_env_answer(env, action, a.len, &text, &len), SR1_OK);
        assert_string_equal(text, wiki_cases[i].block);
        sr1_free(text);
        assert_int_equal(sr1__env_act(env, &a, 1, &o), SR1_OK);
        assert_int_equal(o.status, wiki_cases[i].status);
        assert_int_equal(o.n_hits, wiki_cases[i].hits);
        assert_int_equal(o.n_hit_ids, wiki_cases[i].hits);
        sr1__observation_free(&o);
    }
    assert_int_equal(sr1__env_flags(env) & SR1_ENV_WAITS, 0);
    sr1_env_free(env);
    env = open_wiki("mt-grpo", SR1_SEARCH_WAITS);
    assert_int_equal(sr1__env_flags(env) & SR1_ENV_WAITS, SR1_ENV_WAITS);
    sr1_env_free(env);
}

/* ---- calls as Hermes and Qwen models write them ---- */

/* The beginning of what Python's json.dumps gives of a tool of transformers'
 * apply_chat_template. */
static const char hermes_tool[] =
    "{\"type\": \"function\", \"function\": {\"name\": \"wiki_search\", "
    "\"description\": \"";

static const struct {
    const char *call, *block;
} hermes_cases[] = {
    {"{\"name\": \"wiki_search\", \"arguments\": {\"query\": \"x\", \"k\": 1}}",
     "<tool_response>\nParis\nCapital of France.\n</tool_response>"},
    {"{\"name\": \"wiki_search\", \"args\": {\"query\": \"x\"}}",
     "<tool_response>\nError: wiki_search: argument 'query' is "
     "missing\n</tool_response>"},
    {"{\"arguments\": {}}",
     "<tool_response>\nError: the tool call has no \"name\"; write {\"name\": ..., "
     "\"arguments\": {...}}\n</tool_response>"},
};

static void hermes_calls_have_arguments(void **state)
{
    sr1_env *env = open_wiki("hermes", 0);
    const char *tools = sr1_env_tools(env);
    char *text = NULL;
    size_t len;

    (void)state;
    if (strncmp(tools, hermes_tool, sizeof hermes_tool - 1) != 0 ||
        !strstr(tools, "\"parameters\": {\"type\": \"object\", \"properties\": ") ||
        strcmp(tools + strlen(tools) - 4, "}}}\n") != 0)
        fail_msg("%s", tools);
    for (size_t i = 0; i < sizeof hermes_cases / sizeof hermes_cases[0]; i++) {
        assert_int_equal(sr1_env_answer(env, hermes_cases[i].call,
                                        strlen(hermes_cases[i].call), &text, &len),
                         SR1_OK);
        assert_string_equal(text, hermes_cases[i].block);
        sr1_free(text);
    }
    sr1_env_free(env);
}

/* ---- torture ---- */

static sr1_status live(void *arg)
{
    static const char bad[] = "{\"name\": \"town\", \"args\": {\"do\": 1}}";
    static const char wiki[] =
        "{\"name\": \"wiki_search\", \"args\": {\"query\": \"x\"}}";
    const char *actions[] = {cases[0].action, bad, wiki, "nonsense", "{\"name\": \"x\"}"};
    sr1_env_options o = {sizeof o, "mt-grpo", "plain", 1};
    static struct tool t;
    sr1_env *env = NULL;
    sr1_status status = sr1_env_open(&env, "tools", arg, &o);
    size_t i;

    if (status == SR1_OK)
        status = sr1_env_add_tool(env, &plain_ops, &t);
    for (i = 0; status == SR1_OK && i < sizeof actions / sizeof actions[0]; i++) {
        char *text = NULL;
        size_t len;

        status = sr1_env_answer(env, actions[i], strlen(actions[i]), &text, &len);
        sr1_free(text);
    }
    sr1_env_free(env);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    static const char *const keys[] = {"x"}, *const facts[] = {"X is a letter."};
    sr1_search *s = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_mock(&s, keys, facts, 1), SR1_OK);
    assert_true(torture(live, s) > 30);
    sr1_search_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_call_has_its_text),
        cmocka_unit_test(a_message_without_either_is_told_so),
        cmocka_unit_test(any_protocol_will_do),
        cmocka_unit_test(tools_are_described),
        cmocka_unit_test(wrong_tools_are_refused),
        cmocka_unit_test(a_late_call_is_given_up),
        cmocka_unit_test(a_tool_that_is_busy_is_waited_for),
        cmocka_unit_test(calls_take_turns_unless_concurrent),
        cmocka_unit_test(wiki_search_searches),
        cmocka_unit_test(hermes_calls_have_arguments),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
