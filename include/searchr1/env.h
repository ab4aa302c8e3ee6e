/* searchr1/env.h - what answers a policy's actions.
 *
 * A policy acts by closing the action tag of its protocol (<search>...</search>). The
 * environment answers all actions of one turn at once; each answer is inserted into the
 * text between the result tags (<information>...</information>).
 *
 * Protocols: search-r1  <think>, <search>, <information>, <answer>; observations are part
 *                       of the text that the policy continues
 *            mt-grpo    <reasoning>, <tool>, <result>, <answer>; an observation is a
 *                       message of the user, after which the policy begins a new message
 *            hermes     <think>, <tool_call>, <tool_response>, <answer>, with messages
 *                       as in mt-grpo; calls and signatures of tools as Hermes and Qwen
 *                       models know them: {"name": ..., "arguments": {...}}
 *            qwen3-coder  as hermes, with calls as Qwen3's coder models write them:
 *                       <function=NAME> <parameter=KEY> VALUE </parameter> </function>
 *            llama3     as hermes, with calls as Llama 3's write them: a message that
 *                       begins with a JSON object, {"name": ..., "parameters": {...}}, is
 *                       a call as a whole (several: one after the other)
 *            rlvcr      <think>, <action>, <observation>, <answer>, with messages as in
 *                       mt-grpo; a message begins with its thinking level,
 *                       <level>1</level> to <level>4</level> (searchr1/ext/thinking.h)
 *            ctrl       no tags: a whole message of the policy is its action, and the
 *                       observation is a message of the user (searchr1/ext/critique.h)
 *            chat       no tags, no system message of its own: a message of the policy is
 *                       its answer, without the thoughts before it; environment "none"
 *
 * Where a protocol is named, the path of a file that describes one (with a '/', or ending
 * in .yaml or .json) stands for a protocol of your own (docs/formats.md).
 *
 * Ownership: free an environment with sr1_env_free.
 * Errors:    outputs are untouched on failure; a failing callback becomes an error that
 *            names the environment or tool.
 * Threads:   one thread at a time per environment. */
#ifndef SEARCHR1_ENV_H
#define SEARCHR1_ENV_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_env sr1_env;
typedef struct sr1_search sr1_search;         /* searchr1/search.h */
typedef struct sr1_trajectory sr1_trajectory; /* searchr1/trajectory.h */

/* Collects what an environment answers; only valid inside the call it was given to. */
typedef struct sr1_env_sink sr1_env_sink;

/* A closed action tag. text is stripped of white space at both ends, is not
 * NUL-terminated, and is borrowed for the call. */
typedef struct sr1_env_action {
    size_t struct_size; /* set by the library; later versions append fields */
    int64_t row;        /* which trajectory of the batch */
    int32_t turn;       /* its turn, from 0 */
    const char *text;
    size_t len;
    int64_t episode; /* of its trajectory, see below; 0: none was begun */
} sr1_env_action;

/* A trajectory that begins, for environments that keep a state for each. Borrowed for the
 * call. */
typedef struct sr1_env_episode {
    size_t struct_size;   /* set by the library; later versions append fields */
    int64_t episode;      /* its number, from 1; never given twice by one environment */
    const char *query_id; /* of the question, such as its row's id; not NULL */
    const char *query;    /* the question, not NUL-terminated */
    size_t query_len;
    int32_t sample;  /* which sample of the question's group */
    uint64_t seed;   /* for what is random in it, of its own for each trajectory */
    const char *row; /* of the data set, as sr1_trajectory_row_json; "": none */
    size_t row_len;
} sr1_env_episode;

/* Flags of sr1_env_ops. */
enum {
    /* an answer takes long but little work here (a network, a sandbox): rollouts go on
     * with the rows that need no answer meanwhile, and a call that passes the
     * configuration's search_deadline is given up, its actions recorded as
     * SR1_ACTION_TIMEOUT */
    SR1_ENV_WAITS = 1,
    /* act may run in several threads at a time */
    SR1_ENV_CONCURRENT = 2,
    /* with both: actions do not depend on each other, so a call may carry some of those
     * of a turn, and a slow one delays fewer rows; else all that wait go into one call */
    SR1_ENV_SEPARATE = 4,
    /* with SEPARATE: a call carries one action, so that a slow one delays its own row */
    SR1_ENV_SINGLE = 8,
    /* with WAITS: one call at a time, and what comes meanwhile is the next call's, all of
     * it; of CONCURRENT only remains that begin and finish may run beside it */
    SR1_ENV_BATCHES = 16,
    /* an answer is of no use in part (a program): it goes in whole, whatever
     * max_observation_tokens says; where the context has no room for it, it does not go
     * in, and the trajectory ends with SR1_STOP_CONTEXT_LIMIT */
    SR1_ENV_WHOLE = 32
};

/* An environment of the caller's. Functions may be called from any thread, one call at a
 * time unless flags say otherwise. When act fails, the rows of its actions are treated as
 * the key search_failure says (as after sr1_env_sink_status); only SR1_E_NOMEM,
 * SR1_E_CANCELLED and SR1_E_CONFIG, and a begin that fails, end the rollout. Explain with
 * sr1_set_error: the log says it once. */
typedef struct sr1_env_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* copied */
    /* Answer actions[n], all of one turn, through the sink. An action that gets no text
     * has an empty block inserted. */
    sr1_status (*act)(void *self, const sr1_env_action *const *actions, size_t n,
                      sr1_env_sink *sink);
    void (*destroy)(void *self); /* called once with self, may be NULL; after a call that
                                    was given up, when that call has returned */
    int32_t flags;               /* SR1_ENV_* together, or 0 */
    /* Both or neither, for a state that belongs to one trajectory: begin is called before
     * its first action, finish once after its last, also when it is given up half way.
     * One that WAITS must be CONCURRENT too, and may see finish while an act of the
     * episode that was given up still runs. */
    sr1_status (*begin)(void *self, const sr1_env_episode *episode);
    void (*finish)(void *self, int64_t episode);
} sr1_env_ops;

/* Append to the observation of action i (copied). Bytes that are not UTF-8 become U+FFFD.
 * Text beyond 1 MiB is dropped. SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_env_sink_text(sr1_env_sink *sink, size_t i, const char *text,
                                     size_t len);

/* Record that the observation of action i contains the hit with this id (copied; NULL:
 * the hit has none). SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_env_sink_hit(sr1_env_sink *sink, size_t i, const char *id);

/* Record how action i ended, SR1_ACTION_*. After SR1_ACTION_TIMEOUT and SR1_ACTION_ERROR
 * the trajectory ends with SR1_STOP_SEARCH_FAILED and is not trained on, unless the key
 * search_failure is "continue": then its observation is inserted as usual. SR1_E_INVALID:
 * i is out of range, or the status is unknown. */
SR1_API sr1_status sr1_env_sink_status(sr1_env_sink *sink, size_t i, int32_t status);

/* End the trajectory with action i, after its observation: with SR1_STOP_EOS. A failed
 * status (sr1_env_sink_status) that ends it wins; rewards and success count in both
 * cases. Like all functions of a sink, only for the thread that runs act, within the
 * call. SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_env_sink_done(sr1_env_sink *sink, size_t i);

/* Add a reward for action i to the rewards it has. The reward "environment" is the sum
 * over the actions of a trajectory. SR1_E_NUMERIC: the reward is not finite.
 * SR1_E_INVALID: i is out of range. */
SR1_API sr1_status sr1_env_sink_reward(sr1_env_sink *sink, size_t i, double reward);

/* Record that action i reached the goal of its trajectory: it counts in the success rate
 * of metrics and evaluation, and in the rules of the key query_selection, not in the
 * reward. The trajectory goes on, unless sr1_env_sink_done ends it. SR1_E_INVALID: i is
 * out of range. */
SR1_API sr1_status sr1_env_sink_success(sr1_env_sink *sink, size_t i);

/* What kind of answer it is. */
enum {
    SR1_ANSWER_PLAIN = 1,     /* it stands without result tags */
    SR1_ANSWER_UNEXECUTED = 2 /* nothing was carried out: the action itself was wrong. It
                                 does not count against max_env_steps, unless the key
                                 count_unexecuted says so */
};

/* Set the flags of the observation of action i, SR1_ANSWER_* combined. */
SR1_API sr1_status sr1_env_sink_flags(sr1_env_sink *sink, size_t i, int32_t flags);

typedef struct sr1_env_options {
    size_t struct_size;          /* set by sr1_env_options_init */
    const char *protocol;        /* tags; NULL: "search-r1" */
    const char *document_format; /* how hits are written (below); NULL: "titled" */
    int32_t top_k;               /* hits a search; 0: 3 */
    int32_t max_parallel_calls;  /* calls a message may hold, in a protocol of several
                                    (hermes); at the last of them it ends; at most 32;
                                    0: 8 */
} sr1_env_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_env_options_init(sr1_env_options *options);

/* Document formats, for hits i = 1, 2, ... (one without id is its contents alone):
 *   titled    <information>Doc i(Title: first line) other lines
 *             ...</information>, an empty line before and after (Search-R1)
 *   numbered  the same with "Doc i: contents"
 *   plain     <information> contents contents ... </information>, nothing around it
 * The body of a query that found nothing is the engine's message ("No information found
 * ..."), that of one that failed (key search_failure: continue) is empty. */

/* Open a built-in environment: "search" (each action is a query; the actions of a turn
 * are one batch of the engine), "tools" (each action calls a tool, see below; with an
 * engine there is the tool wiki_search) or "none" (no action is carried out). search is
 * retained; it may be NULL except for "search". options may be NULL. SR1_E_NOT_FOUND
 * lists the known names. Caller frees with sr1_env_free. */
SR1_API sr1_status sr1_env_open(sr1_env **out, const char *name, sr1_search *search,
                                const sr1_env_options *options);

/* Make an environment of the caller's functions. ops is copied. On success the
 * environment owns self and calls ops->destroy with it at the end; on failure the caller
 * still owns self. options may be NULL. Caller frees with sr1_env_free. */
SR1_API sr1_status sr1_env_new(sr1_env **out, const sr1_env_ops *ops, void *self,
                               const sr1_env_options *options);

/* Free an environment. NULL is fine. */
SR1_API void sr1_env_free(sr1_env *env);

/* ---- tools ----
 *
 * In the environment "tools" an action is a JSON object {"name": "...", "args": {...}}.
 * The arguments are checked against the tool's schema before it is called. What goes
 * wrong is told to the policy by a text that begins with "Error: ":
 *
 *     not JSON, no object, no name, an unknown tool, wrong arguments   (not executed)
 *     the tool said SR1_TOOL_FAILED: its text                          (executed)
 *     the tool gave no text                                 (executed, no result tags)
 *
 * A tool that is late or broken is nothing the policy did: its row is treated as the key
 * search_failure says (sr1_env_sink_status). */

/* Takes what a tool gives; only valid inside the call it was given to. */
typedef struct sr1_tool_sink sr1_tool_sink;

/* How a call of a tool went. */
enum {
    SR1_TOOL_OK = 0,      /* its text is the result */
    SR1_TOOL_FAILED = 1,  /* it cannot do this; its text says why, for the policy */
    SR1_TOOL_TIMEOUT = 2, /* no result in time */
    SR1_TOOL_BROKEN = 3   /* the tool or the way to it failed; nothing is known */
};

/* Flags of sr1_tool_ops. */
enum {
    SR1_TOOL_WAITS = 1, /* as SR1_ENV_WAITS; a tool with a deadline waits in any case */
    SR1_TOOL_CONCURRENT = 2 /* call may run in several threads at a time */
};

/* A tool of the caller's. Functions may be called from any thread. */
typedef struct sr1_tool_ops {
    size_t struct_size;      /* set by the caller; later versions append fields */
    const char *name;        /* of letters, digits, '_', '-', '.', at most 64; copied */
    const char *description; /* shown to the policy; NULL: none; copied */
    /* JSON schema of the arguments, an object; NULL: there are none; copied. Known are
     * the keywords that MCP servers and pydantic write
     * (docs/formats.md#schemas-of-tools). Any other keyword is refused by name. An
     * integer is written without a point; an argument that is not in properties is
     * refused unless additionalProperties allows it, or the schema is put together of
     * others. */
    const char *schema;
    /* Do it and put the result into the sink. args: the arguments as JSON, they fit the
     * schema; NUL-terminated, borrowed for the call. A status other than SR1_OK is
     * SR1_TOOL_BROKEN; explain it with sr1_set_error. Only SR1_E_NOMEM,
     * SR1_E_CANCELLED and SR1_E_CONFIG end the rollout. */
    sr1_status (*call)(void *self, const char *args, size_t len, sr1_tool_sink *sink);
    void (*destroy)(void *self); /* called once with self, may be NULL; after a call that
                                    was given up, when that call has returned */
    int32_t flags;               /* SR1_TOOL_* flags together, or 0 */
    double deadline_s; /* seconds from when it is wanted, other calls before it included,
                          after which a call is given up (SR1_TOOL_TIMEOUT); 0: only the
                          key search_deadline */
} sr1_tool_ops;

/* Append to the text of the tool's result (copied), with the bounds of
 * sr1_env_sink_text. */
SR1_API sr1_status sr1_tool_sink_text(sr1_tool_sink *sink, const char *text, size_t len);

/* Record that the result contains the hit with this id (copied; NULL: the hit has
 * none). */
SR1_API sr1_status sr1_tool_sink_hit(sr1_tool_sink *sink, const char *id);

/* Set how the call ended, SR1_TOOL_*; the default is SR1_TOOL_OK. After SR1_TOOL_FAILED
 * the text is inserted as an error that the policy can react to. SR1_TOOL_TIMEOUT and
 * SR1_TOOL_BROKEN are SR1_ACTION_TIMEOUT and SR1_ACTION_ERROR of the action
 * (sr1_env_sink_status says what follows). SR1_E_INVALID: the status is unknown. */
SR1_API sr1_status sr1_tool_sink_status(sr1_tool_sink *sink, int32_t status);

/* Add a tool to an environment "tools" before a rollout holds the environment. ops is
 * copied. On success the environment owns self; on failure the caller still does.
 * SR1_E_INVALID: the name is taken or not allowed. SR1_E_UNSUPPORTED names a keyword of
 * the schema. SR1_E_STATE: the environment is not "tools", or is in use. */
SR1_API sr1_status sr1_env_add_tool(sr1_env *env, const sr1_tool_ops *ops, void *self);

/* Return the description of the tools that the prompt shows: name, description and
 * arguments of each; "" without tools. Borrowed until a tool is added or the environment
 * is freed. */
SR1_API const char *sr1_env_tools(const sr1_env *env);

#ifdef __cplusplus
}
#endif
#endif
