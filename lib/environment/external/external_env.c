/* environment/external/external_env.c - a program as environment: it is told of
 * trajectories that begin and finish, and answers the actions between. */
#include "environment/external/external.h"

#include "base/error.h"

#include <string.h>

static int append_action(json_t *list, const sr1_env_action *a)
{
    json_t *o = json_pack("{s:I, s:i, s:s%}", "episode", (json_int_t)a->episode, "turn",
                          (int)a->turn, "text", a->text, a->len);

    return json_array_append_new(list, o);
}

static json_t *pack_actions(const sr1_env_action *const *actions, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < n; i++)
        if (append_action(list, actions[i]) != 0) {
            json_decref(list);
            return NULL;
        }
    return list ? json_pack("{s:o}", "actions", list) : NULL;
}

static const struct {
    const char *name;
    int32_t status;
} statuses[] = {
    {"ok", SR1_ACTION_OK},
    {"empty", SR1_ACTION_EMPTY},
    {"timeout", SR1_ACTION_TIMEOUT},
    {"error", SR1_ACTION_ERROR},
};

static sr1_status take_status(sr1_env_sink *sink, size_t i, const json_t *v)
{
    const char *name = json_string_value(v);

    for (size_t k = 0; name && k < sizeof statuses / sizeof statuses[0]; k++)
        if (strcmp(statuses[k].name, name) == 0)
            return sr1_env_sink_status(sink, i, statuses[k].status);
    return sr1__fail(SR1_E_PARSE, "status must be ok, empty, timeout or error");
}

static sr1_status take_text(sr1_env_sink *sink, size_t i, const json_t *v)
{
    if (!json_is_string(v))
        return sr1__fail(SR1_E_PARSE, "the text of an answer must be a string");
    return sr1_env_sink_text(sink, i, json_string_value(v), json_string_length(v));
}

/* {"text", "reward", "done", "success", "status", "executed"} */
static sr1_status take_observation(sr1_env_sink *sink, size_t i, const json_t *o)
{
    const json_t *reward = json_object_get(o, "reward");
    const json_t *status = json_object_get(o, "status");
    const json_t *text = json_object_get(o, "text");

    if (text)
        SR1__TRY(take_text(sink, i, text));
    if (json_is_number(reward))
        SR1__TRY(sr1_env_sink_reward(sink, i, json_number_value(reward)));
    if (status)
        SR1__TRY(take_status(sink, i, status));
    if (json_is_true(json_object_get(o, "done")))
        SR1__TRY(sr1_env_sink_done(sink, i));
    if (json_is_true(json_object_get(o, "success")))
        SR1__TRY(sr1_env_sink_success(sink, i));
    return json_is_false(json_object_get(o, "executed"))
               ? sr1_env_sink_flags(sink, i, SR1_ANSWER_UNEXECUTED)
               : SR1_OK;
}

static sr1_status take_answer(sr1_env_sink *sink, size_t i, const json_t *answer)
{
    if (json_is_null(answer))
        return sr1_env_sink_status(sink, i, SR1_ACTION_ERROR);
    if (json_is_object(answer))
        return take_observation(sink, i, answer);
    return take_text(sink, i, answer);
}

static sr1_status act_by_program(void *self, const sr1_env_action *const *actions,
                                 size_t n, sr1_env_sink *sink)
{
    json_t *answers = NULL;
    sr1_status st = sr1__external_ask(self, "act", pack_actions(actions, n), n, &answers);

    for (size_t i = 0; st == SR1_OK && i < n; i++)
        st = take_answer(sink, i, json_array_get(answers, i));
    json_decref(answers);
    return st;
}

static sr1_status begin_episode(void *self, const sr1_env_episode *e)
{
    json_t *row = NULL, *params;

    if (e->row_len > 0)
        (void)sr1__json_parse_loose(&row, e->row, e->row_len, "row");
    params =
        json_pack("{s:I, s:s, s:s%, s:i, s:I, s:o?}", "episode", (json_int_t)e->episode,
                  "query_id", e->query_id, "query", e->query, e->query_len, "sample",
                  (int)e->sample, "seed", (json_int_t)(e->seed >> 1), "row", row);
    return sr1__external_tell(self, "begin", params);
}

static void finish_episode(void *self, int64_t episode)
{
    (void)sr1__external_tell(self, "finish",
                             json_pack("{s:I}", "episode", (json_int_t)episode));
}

static void destroy_env_program(void *self)
{
    sr1__external_free(self);
}

sr1_status sr1_env_open_external(sr1_env **out, const char *path,
                                 const sr1_env_options *env_options,
                                 const sr1_external_options *options)
{
    static const sr1_env_ops ops = {.struct_size = sizeof ops,
                                    .name = "program",
                                    .act = act_by_program,
                                    .destroy = destroy_env_program,
                                    .flags = SR1_ENV_WAITS | SR1_ENV_CONCURRENT |
                                             SR1_ENV_BATCHES,
                                    .begin = begin_episode,
                                    .finish = finish_episode};
    struct sr1__external *x = NULL;
    sr1_status st;

    SR1__REQUIRE(out && path, "environment program: out and path");
    SR1__TRY(sr1__external_open(&x, "environment program", path, options));
    st = sr1_env_new(out, &ops, x, env_options);
    if (st != SR1_OK)
        sr1__external_free(x);
    return st;
}
