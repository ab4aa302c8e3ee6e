/* environment/external/external_env.c - a program as environment: it is told of
 * trajectories that begin and finish, and answers the actions between. A program that was
 * started anew knows of none that began before: their actions are outages. */
#include "environment/external/external.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "environment/env/sink.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

/* An episode, and the start of the program that was told of it; 0: none was. */
struct begun_episode {
    int64_t episode, incarnation;
};

struct env_program {
    struct sr1__external *program;
    atomic_ullong last_wrong; /* sr1__log_is_news */
    pthread_mutex_t lock;     /* over all below */
    struct begun_episode *episodes;
    size_t n, cap;
};

/* ---- episodes ---- */

/* p->n: it was not begun. With the lock held. */
static size_t find_episode(const struct env_program *p, int64_t episode)
{
    size_t i = 0;

    while (i < p->n && p->episodes[i].episode != episode)
        i++;
    return i;
}

/* With the lock held. */
static sr1_status keep_episode(struct env_program *p, int64_t episode,
                               int64_t incarnation)
{
    SR1__RESERVE(p->episodes, p->cap, p->n + 1, "episodes of a program");
    p->episodes[p->n++] = (struct begun_episode){episode, incarnation};
    return SR1_OK;
}

/* Returns which start of the program was told of it; 0: none was. */
static int64_t forget_episode(struct env_program *p, int64_t episode)
{
    int64_t told = 0;
    size_t i;

    pthread_mutex_lock(&p->lock);
    i = find_episode(p, episode);
    if (i < p->n) {
        told = p->episodes[i].incarnation;
        p->episodes[i] = p->episodes[--p->n];
    }
    pthread_mutex_unlock(&p->lock);
    return told;
}

/* Does this start of the program know what it needs to? */
static int knows_episode(struct env_program *p, int64_t episode, int64_t incarnation)
{
    size_t i;
    int known;

    pthread_mutex_lock(&p->lock);
    i = find_episode(p, episode);
    known = i == p->n || p->episodes[i].incarnation == incarnation;
    pthread_mutex_unlock(&p->lock);
    return known;
}

/* ---- actions ---- */

static int append_action(json_t *list, const sr1_env_action *a)
{
    json_t *o = json_pack("{s:I, s:i, s:o}", "episode", (json_int_t)a->episode, "turn",
                          (int)a->turn, "text", sr1__json_text(a->text, a->len));

    return json_array_append_new(list, o);
}

/* The actions known[i] of actions[n]. */
static json_t *pack_actions(const sr1_env_action *const *actions, const char *known,
                            size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < n; i++)
        if (known[i] && append_action(list, actions[i]) != 0) {
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

/* What an answer says; nothing is given on before all of it is known to be right. */
struct program_answer {
    const json_t *text; /* NULL: none */
    double reward;
    int32_t status;
    int done, success, unexecuted;
};

static sr1_status read_status(struct program_answer *a, const json_t *v)
{
    const char *name = json_string_value(v);

    for (size_t k = 0; name && k < sizeof statuses / sizeof statuses[0]; k++)
        if (strcmp(statuses[k].name, name) == 0) {
            a->status = statuses[k].status;
            return SR1_OK;
        }
    return sr1__fail(SR1_E_PARSE, "status must be ok, empty, timeout or error");
}

static sr1_status read_text(struct program_answer *a, const json_t *v)
{
    if (!json_is_string(v))
        return sr1__fail(SR1_E_PARSE, "the text of an answer must be a string");
    a->text = v;
    return SR1_OK;
}

static sr1_status read_reward(struct program_answer *a, const json_t *v)
{
    if (!json_is_number(v))
        return sr1__fail(SR1_E_PARSE, "the reward of an answer must be a number");
    a->reward = json_number_value(v);
    return SR1_OK;
}

static sr1_status read_truth(const char *name, const json_t *v, int *out)
{
    if (!json_is_boolean(v))
        return sr1__fail(SR1_E_PARSE, "%s of an answer must be true or false", name);
    *out = json_is_true(v);
    return SR1_OK;
}

static sr1_status read_done(struct program_answer *a, const json_t *v)
{
    return read_truth("done", v, &a->done);
}

static sr1_status read_success(struct program_answer *a, const json_t *v)
{
    return read_truth("success", v, &a->success);
}

static sr1_status read_executed(struct program_answer *a, const json_t *v)
{
    int executed = 1;

    SR1__TRY(read_truth("executed", v, &executed));
    a->unexecuted = !executed;
    return SR1_OK;
}

static const struct {
    const char *name;
    sr1_status (*read)(struct program_answer *a, const json_t *v);
} members[] = {
    {"text", read_text},     {"reward", read_reward},   {"done", read_done},
    {"status", read_status}, {"success", read_success}, {"executed", read_executed},
};

/* null is as no such member. */
static sr1_status read_member(struct program_answer *a, const char *name, const json_t *v)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strcmp(members[i].name, name) == 0)
            return json_is_null(v) ? SR1_OK : members[i].read(a, v);
    return sr1__fail(SR1_E_PARSE,
                     "an answer has no member '%.64s': it has text, reward, done, "
                     "success, executed and status",
                     name);
}

static sr1_status read_answer(struct program_answer *a, json_t *answer)
{
    const char *name;
    json_t *v;

    if (json_is_null(answer))
        a->status = SR1_ACTION_ERROR;
    else if (!json_is_object(answer))
        return read_text(a, answer);
    json_object_foreach(answer, name, v) SR1__TRY(read_member(a, name, v));
    return SR1_OK;
}

static sr1_status put_answer(sr1_env_sink *sink, size_t i, const struct program_answer *a)
{
    if (a->text)
        SR1__TRY(sr1_env_sink_text(sink, i, json_string_value(a->text),
                                   json_string_length(a->text)));
    SR1__TRY(sr1_env_sink_reward(sink, i, a->reward));
    SR1__TRY(sr1_env_sink_status(sink, i, a->status));
    if (a->done)
        SR1__TRY(sr1_env_sink_done(sink, i));
    if (a->success)
        SR1__TRY(sr1_env_sink_success(sink, i));
    return sr1_env_sink_flags(sink, i, a->unexecuted ? SR1_ANSWER_UNEXECUTED : 0);
}

static sr1_status take_answer(sr1_env_sink *sink, size_t i, json_t *answer)
{
    struct program_answer a = {.status = SR1_ACTION_OK};

    SR1__TRY(read_answer(&a, answer));
    return put_answer(sink, i, &a);
}

/* The answer to action i, of this episode, which is the k-th of `asked`. One that is
 * wrong is the failure of its own trajectory; alone, it is that of the call. */
static sr1_status take_one_of(struct env_program *p, sr1_env_sink *sink, size_t i,
                              int64_t episode, json_t *answer, size_t k, size_t asked)
{
    sr1_status st = take_answer(sink, i, answer);

    if (st == SR1_OK || asked == 1 || sr1__is_fatal(st))
        return st;
    if (sr1__log_is_news(&p->last_wrong, sr1_last_error()))
        sr1__log(SR1_LOG_WARN,
                 "environment program: answer %zu of %zu (episode %" PRId64 "): %.400s",
                 k, asked, episode, sr1_last_error());
    return sr1__env_sink_failure(sink, i, SR1_ACTION_ERROR, sr1_last_error());
}

/* Answers to those that were asked, in their order; the others are outages. */
static sr1_status take_known_answers(struct env_program *p,
                                     const sr1_env_action *const *actions,
                                     const char *known, size_t n, const json_t *answers,
                                     sr1_env_sink *sink)
{
    size_t asked = json_array_size(answers), k = 0;

    for (size_t i = 0; i < n; i++) {
        if (!known[i]) {
            SR1__TRY(sr1_env_sink_status(sink, i, SR1_ACTION_ERROR));
            continue;
        }
        k++;
        SR1__TRY(take_one_of(p, sink, i, actions[i]->episode,
                             json_array_get(answers, k - 1), k, asked));
    }
    return SR1_OK;
}

static sr1_status ask_known(struct env_program *p, const sr1_env_action *const *actions,
                            const char *known, size_t n, size_t n_known,
                            int64_t incarnation, sr1_env_sink *sink)
{
    json_t *answers = NULL;
    int64_t answered = incarnation;
    sr1_status st = SR1_OK;

    if (n_known > 0)
        st = sr1__external_ask(p->program, "act", pack_actions(actions, known, n),
                               n_known, &answers, &answered);
    if (st == SR1_OK && answered != incarnation)
        st = sr1__fail(SR1_E_NETWORK, "the program was started anew meanwhile");
    if (st == SR1_OK)
        st = take_known_answers(p, actions, known, n, answers, sink);
    json_decref(answers);
    return st;
}

static sr1_status act_by_program(void *self, const sr1_env_action *const *actions,
                                 size_t n, sr1_env_sink *sink)
{
    struct env_program *p = self;
    int64_t incarnation = 0;
    size_t n_known = 0;
    char *known;
    sr1_status st;

    SR1__TRY(sr1__external_start(p->program, &incarnation));
    SR1__CALLOC(known, n + 1, "actions for a program");
    for (size_t i = 0; i < n; i++) {
        known[i] = (char)knows_episode(p, actions[i]->episode, incarnation);
        n_known += (size_t)known[i];
    }
    st = ask_known(p, actions, known, n, n_known, incarnation, sink);
    sr1__free(known);
    return st;
}

static json_t *pack_episode(const sr1_env_episode *e)
{
    json_t *row = NULL;

    if (e->row_len > 0)
        (void)sr1__json_parse_loose(&row, e->row, e->row_len, "row");
    return json_pack("{s:I, s:o, s:o, s:i, s:I, s:o?}", "episode", (json_int_t)e->episode,
                     "query_id", sr1__json_text(e->query_id, strlen(e->query_id)),
                     "query", sr1__json_text(e->query, e->query_len), "sample",
                     (int)e->sample, "seed", (json_int_t)(e->seed >> 1), "row", row);
}

/* An outage does not end the rollout: the episode's first action is one, too. */
static sr1_status begin_program_episode(void *self, const sr1_env_episode *e)
{
    struct env_program *p = self;
    int64_t incarnation = 0;
    sr1_status st =
        sr1__external_tell(p->program, "begin", pack_episode(e), &incarnation);

    if (sr1__is_fatal(st))
        return st;
    pthread_mutex_lock(&p->lock);
    st = keep_episode(p, e->episode, incarnation);
    pthread_mutex_unlock(&p->lock);
    return st;
}

static void finish_episode(void *self, int64_t episode)
{
    struct env_program *p = self;
    int64_t incarnation = forget_episode(p, episode);

    if (incarnation != 0)
        (void)sr1__external_tell(p->program, "finish",
                                 json_pack("{s:I}", "episode", (json_int_t)episode),
                                 &incarnation);
}

static void destroy_env_program(void *self)
{
    struct env_program *p = self;

    sr1__external_free(p->program);
    pthread_mutex_destroy(&p->lock);
    sr1__free(p->episodes);
    sr1__free(p);
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
                                    .begin = begin_program_episode,
                                    .finish = finish_episode};
    struct env_program *p;
    const void *table;
    sr1_status st;

    SR1__REQUIRE(out && path, "environment program: out and path");
    if (sr1__is_shared_object(path)) {
        SR1__TRY(sr1__shared_table(&table, "environment program", "sr1_env_ops", path,
                                   "environment"));
        return sr1_env_new(out, table, NULL, env_options);
    }
    SR1__CALLOC(p, 1, "environment program");
    pthread_mutex_init(&p->lock, NULL);
    st = sr1__external_open(&p->program, "environment program", path, options);
    if (st == SR1_OK)
        st = sr1_env_new(out, &ops, p, env_options);
    if (st != SR1_OK)
        destroy_env_program(p);
    return st;
}
