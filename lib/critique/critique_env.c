/* critique/critique_env.c - the environment "critique": a critique is answered by the
 * revision that a writer makes of the problem's solution by it, and that is the end.
 *
 * Which problem an episode is about is all that is kept of it. */
#include "critique/conversation.h"

#include "base/mem.h"
#include "critique/writer.h"
#include "env/protocol.h"

#include <searchr1/search.h>

#include <pthread.h>
#include <string.h>

struct episode {
    int64_t number;
    const sr1_problem *problem;
};

struct critique_env {
    sr1_problems *problems;
    sr1_writer *reviser;
    sr1_critique_style *style;
    pthread_mutex_t lock; /* over the list */
    struct episode *list;
    size_t n, cap;
};

/* ---- episodes ---- */

static struct episode *find(struct critique_env *c, int64_t number)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].number == number)
            return &c->list[i];
    return NULL;
}

static sr1_status add(struct critique_env *c, int64_t number, const sr1_problem *problem)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        struct episode *list = sr1__realloc(c->list, cap, sizeof(*list));

        if (!list)
            return sr1__fail_nomem("episodes");
        c->list = list;
        c->cap = cap;
    }
    c->list[c->n++] = (struct episode){number, problem};
    return SR1_OK;
}

static sr1_status begin(void *self, const sr1_env_episode *e)
{
    struct critique_env *c = self;
    const sr1_problem *problem = sr1_problems_find(c->problems, e->query_id);
    sr1_status st;

    if (!problem)
        return sr1__fail(
            SR1_E_NOT_FOUND,
            "question '%.64s' is none of the problems; its id must be one of "
            "code_problems",
            e->query_id);
    if (!sr1_problem_solution(problem))
        return sr1__fail(SR1_E_INVALID,
                         "problem '%.64s' has no \"solution\" to criticise; give one in "
                         "its row",
                         e->query_id);
    pthread_mutex_lock(&c->lock);
    st = add(c, e->episode, problem);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static void finish(void *self, int64_t number)
{
    struct critique_env *c = self;
    struct episode *e;

    pthread_mutex_lock(&c->lock);
    e = find(c, number);
    if (e)
        *e = c->list[--c->n];
    pthread_mutex_unlock(&c->lock);
}

static sr1_status problem_of(struct critique_env *c, int64_t number,
                             const sr1_problem **out)
{
    struct episode *e;

    pthread_mutex_lock(&c->lock);
    e = find(c, number);
    *out = e ? e->problem : NULL;
    pthread_mutex_unlock(&c->lock);
    if (*out)
        return SR1_OK;
    return sr1__fail(SR1_E_STATE, "critique: no episode was begun; see sr1_env_begin");
}

/* ---- acting ---- */

/* Text i becomes the answer to the action it stands for; a given-up episode asks nothing
 * of anybody any more, but its conversation was written with the others. */
static sr1_status reply(sr1_env_sink *sink, size_t i, const char *text, size_t len)
{
    if (!text)
        return sr1_env_sink_status(sink, i, SR1_SEARCH_ERROR);
    SR1__TRY(sr1_env_sink_text(sink, i, text, len));
    return sr1_env_sink_done(sink, i);
}

static sr1_status write_all(struct critique_env *c, const struct sr1__asking *a,
                            sr1_env_sink *sink)
{
    char **texts = sr1__calloc(a->n, sizeof(*texts));
    size_t *lens = sr1__calloc(a->n, sizeof(*lens));
    sr1_status st = texts && lens ? SR1_OK : sr1__fail_nomem("revisions");

    if (st == SR1_OK)
        st = sr1_writer_write(c->reviser, a->c, a->n, texts, lens);
    for (size_t i = 0; texts && i < a->n; i++) {
        if (st == SR1_OK)
            st = reply(sink, i, texts[i], lens[i]);
        sr1_free(texts[i]);
    }
    sr1__free(texts);
    sr1__free(lens);
    return st;
}

static sr1_status act(void *self, const sr1_env_action *const *actions, size_t n,
                      sr1_env_sink *sink)
{
    struct critique_env *c = self;
    struct sr1__asking a;
    sr1_status st = sr1__asking_init(&a, n);

    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        const sr1_problem *problem;

        st = problem_of(c, actions[i]->episode, &problem);
        if (st == SR1_OK)
            st = sr1__asking_revision(&a, i, c->style, problem, NULL, 0, actions[i]->text,
                                      actions[i]->len, 0);
    }
    if (st == SR1_OK)
        st = write_all(c, &a, sink);
    sr1__asking_free(&a);
    return st;
}

/* ---- the environment ---- */

static void destroy(void *self)
{
    struct critique_env *c = self;

    sr1_problems_free(c->problems);
    sr1_writer_free(c->reviser);
    sr1_critique_style_free(c->style);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c->list);
    sr1__free(c);
}

static sr1_status check_protocol(const sr1_env_options *o)
{
    const struct sr1__protocol *p = sr1__protocol_find(o->protocol);

    if (!p)
        return SR1_E_NOT_FOUND;
    if (!p->message)
        return sr1__fail(
            SR1_E_INVALID,
            "environment critique: in the protocol %s a message is no action; "
            "use ctrl",
            p->name);
    return SR1_OK;
}

/* A writer that takes calls side by side need not gather them. */
static int32_t flags_of(const sr1_writer *reviser)
{
    int32_t gather = sr1__writer_flags(reviser) & SR1_WRITER_CONCURRENT ? SR1_ENV_SEPARATE
                                                                        : SR1_ENV_BATCHES;

    return SR1_ENV_WAITS | SR1_ENV_CONCURRENT | SR1_ENV_WHOLE | gather;
}

sr1_status sr1_critique_env_open(sr1_env **out, sr1_problems *problems,
                                 sr1_writer *reviser, sr1_critique_style *style,
                                 const sr1_env_options *options)
{
    sr1_env_ops ops = {.struct_size = sizeof(ops),
                       .name = "critique",
                       .act = act,
                       .destroy = destroy,
                       .begin = begin,
                       .finish = finish};
    sr1_env_options o = {.struct_size = sizeof(o), .protocol = "ctrl"};
    struct critique_env *c;
    sr1_status st;

    if (!out || !problems || !reviser)
        return sr1__fail(SR1_E_INVALID,
                         "environment critique: out, problems and reviser are needed");
    SR1__TRY(check_protocol(options ? options : &o));
    c = sr1__calloc(1, sizeof(*c));
    if (!c)
        return sr1__fail_nomem("environment");
    pthread_mutex_init(&c->lock, NULL);
    c->problems = sr1_problems_retain(problems);
    c->reviser = sr1_writer_retain(reviser);
    c->style = sr1_critique_style_retain(style);
    ops.flags = flags_of(reviser);
    st = sr1_env_new(out, &ops, c, options ? options : &o);
    if (st != SR1_OK)
        destroy(c);
    return st;
}
