/* environment/world/rooms_env.c - the environment "rooms": a state for each trajectory
 * under way. */
#include "environment/world/rooms.h"

#include "base/mem.h"
#include "base/struct.h"
#include "environment/env/env.h"

#include <searchr1/ext/episodes.h>

#include <pthread.h>
#include <string.h>

struct rooms_episode {
    int64_t number;
    struct sr1__rooms world;
    struct sr1__rooms_state state;
};

struct rooms_env {
    pthread_mutex_t lock; /* over the list and all in it */
    struct rooms_episode *list;
    size_t n, cap;
};

/* ---- which world ---- */

static int32_t split_named(const char *name, size_t len)
{
    for (int32_t i = 0; i < 2 * SR1__ROOMS_SPLITS; i++)
        if (strlen(sr1__rooms_splits[i]) == len &&
            memcmp(sr1__rooms_splits[i], name, len) == 0)
            return i;
    return -1;
}

/* A decimal number of 64 bits; 0: it is none. */
static int read_seed(const char *s, uint64_t *out)
{
    uint64_t v = 0;

    if (*s == '\0')
        return 0;
    for (; *s != '\0'; s++) {
        uint64_t digit = (uint64_t)(*s - '0');

        if (*s < '0' || *s > '9' || v > (UINT64_MAX - digit) / 10)
            return 0;
        v = v * 10 + digit;
    }
    *out = v;
    return 1;
}

static sr1_status parse_world_id(const char *id, int32_t *split, uint64_t *seed)
{
    static const char head[] = "rooms-";
    const char *dash = strrchr(id, '-');

    if (strncmp(id, head, strlen(head)) == 0 && dash >= id + strlen(head)) {
        const char *name = id + strlen(head);

        *split = split_named(name, (size_t)(dash - name));
        if (*split >= 0 && read_seed(dash + 1, seed))
            return SR1_OK;
    }
    return sr1__fail(SR1_E_INVALID,
                     "question '%.64s' names no world of rooms; its id must be such as "
                     "rooms-train-7 (sr1-data rooms writes them)",
                     id);
}

sr1_status sr1__rooms_check_id(const char *id)
{
    int32_t split;
    uint64_t seed;

    return parse_world_id(id, &split, &seed);
}

/* ---- episodes ---- */

static struct rooms_episode *find_rooms_episode(struct rooms_env *r, int64_t number)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i].number == number)
            return &r->list[i];
    return NULL;
}

static sr1_status add_rooms_episode(struct rooms_env *r, const struct rooms_episode *e)
{
    SR1__RESERVE(r->list, r->cap, r->n + 1, "episodes");
    r->list[r->n++] = *e;
    return SR1_OK;
}

static sr1_status begin_rooms_episode(void *self, const sr1_env_episode *given)
{
    struct rooms_env *r = self;
    struct rooms_episode e = {.number = given->episode};
    int32_t split;
    uint64_t seed;
    sr1_status status;

    SR1__TRY(parse_world_id(given->query_id, &split, &seed));
    SR1__TRY(sr1__rooms_make(&e.world, split, seed));
    e.state = e.world.start;
    pthread_mutex_lock(&r->lock);
    status = add_rooms_episode(r, &e);
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void finish_rooms_episode(void *self, int64_t number)
{
    struct rooms_env *r = self;
    struct rooms_episode *e;

    pthread_mutex_lock(&r->lock);
    e = find_rooms_episode(r, number);
    if (e != NULL)
        *e = r->list[--r->n];
    pthread_mutex_unlock(&r->lock);
}

/* ---- acting ---- */

static sr1_status write_observation(sr1_env_sink *sink, size_t i, struct sr1__buf *text)
{
    sr1_status status = sr1__buf_status(text, "observation");

    if (status == SR1_OK)
        status = sr1_env_sink_text(sink, i, sr1__buf_cstr(text), text->len);
    sr1__buf_free(text);
    return status;
}

static sr1_status reach_goal(sr1_env_sink *sink, size_t i)
{
    SR1__TRY(sr1_env_sink_reward(sink, i, 1.0));
    SR1__TRY(sr1_env_sink_success(sink, i));
    return sr1_env_sink_done(sink, i);
}

static sr1_status step_episode(struct rooms_episode *e, const sr1_env_action *a, size_t i,
                               sr1_env_sink *sink)
{
    int over = sr1__rooms_solved(&e->world, &e->state);
    struct sr1__rooms_state next;
    struct sr1__rooms_action action;
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    if (!sr1__rooms_read_action(&e->world, &e->state, a->text, a->len, &action)) {
        sr1__buf_str(&text, SR1__ROOMS_NOTHING);
        SR1__TRY(write_observation(sink, i, &text));
        return sr1_env_sink_flags(sink, i, SR1_ANSWER_UNEXECUTED);
    }
    next = sr1__rooms_after(&e->state, action);
    sr1__rooms_append_result(&text, &e->world, &next, action);
    SR1__TRY(write_observation(sink, i, &text));
    e->state = next;
    return !over && sr1__rooms_solved(&e->world, &next) ? reach_goal(sink, i) : SR1_OK;
}

static sr1_status step_episodes(void *self, const sr1_env_action *const *actions,
                                size_t n, sr1_env_sink *sink)
{
    struct rooms_env *r = self;
    sr1_status status = SR1_OK;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        struct rooms_episode *e = find_rooms_episode(r, actions[i]->episode);

        status = e != NULL ? step_episode(e, actions[i], i, sink)
                           : sr1__fail(SR1_E_STATE, "rooms: no episode was begun; see "
                                                    "sr1_env_begin");
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* ---- the environment ---- */

static void destroy_rooms_env(void *self)
{
    struct rooms_env *r = self;

    pthread_mutex_destroy(&r->lock);
    sr1__free(r->list);
    sr1__free(r);
}

sr1_status sr1_rooms_env_open(sr1_env **out, const sr1_env_options *options)
{
    static const sr1_env_ops ops = {.struct_size = sizeof ops,
                                    .name = "rooms",
                                    .act = step_episodes,
                                    .destroy = destroy_rooms_env,
                                    .flags = SR1_ENV_CONCURRENT,
                                    .begin = begin_rooms_episode,
                                    .finish = finish_rooms_episode};
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "rlvcr"};
    struct rooms_env *r = sr1__calloc(1, sizeof *r);
    sr1_status status;

    SR1__CHECK_ALLOC(r, "environment");
    pthread_mutex_init(&r->lock, NULL);
    status = sr1__env_new_builtin(out, &ops, r, options != NULL ? options : &o);
    if (status != SR1_OK)
        destroy_rooms_env(r);
    return status;
}

/* ---- what a world is ---- */

static sr1_status append_shortest_plan(struct sr1__buf *b, const struct sr1__rooms *w)
{
    struct sr1__rooms_action plan[SR1__ROOMS_PLAN_MAX];
    int32_t n = sr1__rooms_plan(w, &w->start, plan);
    char text[SR1__ROOMS_TEXT];

    for (int32_t i = 0; i < n; i++) {
        sr1__rooms_action_text(text, w, plan[i]);
        sr1__buf_fmt(b, "%s%s", i > 0 ? "\n" : "", text);
    }
    return sr1__buf_status(b, "plan");
}

static sr1_status describe_rooms_task(const struct sr1__rooms *w, sr1_rooms_task *t)
{
    struct sr1__buf question, plan;
    sr1_status status;

    sr1__buf_init(&question, 0);
    sr1__buf_init(&plan, 0);
    sr1__rooms_append_task(&question, w);
    status = sr1__buf_status(&question, "question");
    if (status == SR1_OK)
        status = append_shortest_plan(&plan, w);
    t->shortest = w->shortest;
    if (status == SR1_OK) {
        t->question = sr1__buf_take(&question);
        t->plan = sr1__buf_take(&plan);
        if (t->question == NULL || t->plan == NULL)
            status = sr1__fail_nomem("rooms task");
    }
    if (status != SR1_OK) {
        sr1_free(t->question);
        sr1_free(t->plan);
    }
    sr1__buf_free(&question);
    sr1__buf_free(&plan);
    return status;
}

sr1_status sr1_rooms_make(const char *split, uint64_t seed, sr1_rooms_task *out)
{
    int32_t which = split != NULL ? split_named(split, strlen(split)) : -1;
    sr1_rooms_task t = {0};
    struct sr1__rooms w;

    if (which < 0)
        return sr1__fail(SR1_E_NOT_FOUND,
                         "rooms: split '%.64s' is not known; known: train, validation, "
                         "test, and each with small- before it",
                         split != NULL ? split : "(null)");
    SR1__TRY(sr1__struct_check(out, "rooms task"));
    if (out->struct_size < SR1__STRUCT_END(sr1_rooms_task, plan))
        return sr1__fail(SR1_E_INVALID, "rooms task: struct_size is too small");
    SR1__TRY(sr1__rooms_make(&w, which, seed));
    SR1__TRY(describe_rooms_task(&w, &t));
    return sr1__struct_give(out, &t, sizeof t, "rooms task");
}
