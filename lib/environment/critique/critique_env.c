/* environment/critique/critique_env.c - the environment "critique": the observation of a
 * critique is a revision of the problem's solution, which a generator writes, and then
 * the episode ends.
 *
 * The only state of an episode is its problem. */
#include "environment/critique/critique_conversations.h"

#include "base/mem.h"
#include "environment/code/problems.h"
#include "environment/critique/generator.h"
#include "environment/env/sink.h"

#include <searchr1/search.h>
#include <searchr1/ext/episodes.h>

#include <pthread.h>

struct critique_episode {
    int64_t number;
    const sr1_problem *problem;
};

struct critique_env {
    sr1_problems *problems;
    sr1_generator *reviser;
    sr1_critique_style *style;
    pthread_mutex_t lock; /* over the list */
    struct critique_episode *list;
    size_t n, cap;
};

/* ---- episodes ---- */

static struct critique_episode *find_critique_episode(struct critique_env *c,
                                                      int64_t number)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].number == number)
            return &c->list[i];
    return NULL;
}

static sr1_status add_critique_episode(struct critique_env *c, int64_t number,
                                       const sr1_problem *problem)
{
    SR1__RESERVE(c->list, c->cap, c->n + 1, "episodes");
    c->list[c->n++] = (struct critique_episode){number, problem};
    return SR1_OK;
}

static sr1_status begin_critique_episode(void *self, const sr1_env_episode *e)
{
    struct critique_env *c = self;
    const sr1_problem *problem;
    sr1_status st;

    SR1__TRY(sr1__problem_of_question(&problem, c->problems, e->query_id));
    if (!sr1_problem_solution(problem))
        return sr1__fail(SR1_E_INVALID,
                         "problem '%.64s' has no \"solution\" to criticise; give one in "
                         "its row",
                         e->query_id);
    pthread_mutex_lock(&c->lock);
    st = add_critique_episode(c, e->episode, problem);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static void finish_critique_episode(void *self, int64_t number)
{
    struct critique_env *c = self;
    struct critique_episode *e;

    pthread_mutex_lock(&c->lock);
    e = find_critique_episode(c, number);
    if (e)
        *e = c->list[--c->n];
    pthread_mutex_unlock(&c->lock);
}

static sr1_status find_episode_problem(struct critique_env *c, int64_t number,
                                       const sr1_problem **out)
{
    struct critique_episode *e;

    pthread_mutex_lock(&c->lock);
    e = find_critique_episode(c, number);
    *out = e ? e->problem : NULL;
    pthread_mutex_unlock(&c->lock);
    if (*out)
        return SR1_OK;
    return sr1__fail(SR1_E_STATE, "critique: no episode was begun; see sr1_env_begin");
}

/* ---- acting ---- */

/* Write revision i as the observation of action i; a NULL text (the generator failed)
 * is SR1_ACTION_ERROR. Abandoned episodes are generated with the rest of the batch. */
static sr1_status write_revision(sr1_env_sink *sink, size_t i, const char *text,
                                 size_t len)
{
    if (!text)
        return sr1__env_sink_failure(sink, i, SR1_ACTION_ERROR,
                                     "the reviser failed, or the conversation is longer "
                                     "than it reads; the warnings say which");
    SR1__TRY(sr1_env_sink_text(sink, i, text, len));
    return sr1_env_sink_done(sink, i);
}

static sr1_status generate_revisions(struct critique_env *c,
                                     const struct sr1__conversations *a,
                                     sr1_env_sink *sink)
{
    char **texts = sr1__calloc(a->n, sizeof(*texts));
    size_t *lens = sr1__calloc(a->n, sizeof(*lens));
    sr1_status st = texts && lens ? SR1_OK : sr1__fail_nomem("revisions");

    if (st == SR1_OK)
        st = sr1_generator_generate(c->reviser, a->c, a->n, texts, lens);
    for (size_t i = 0; texts && i < a->n; i++) {
        if (st == SR1_OK)
            st = write_revision(sink, i, texts[i], lens[i]);
        sr1_free(texts[i]);
    }
    sr1__free(texts);
    sr1__free(lens);
    return st;
}

static sr1_status answer_critiques(void *self, const sr1_env_action *const *actions,
                                   size_t n, sr1_env_sink *sink)
{
    struct critique_env *c = self;
    struct sr1__conversations a;
    sr1_status st = sr1__conversations_init(&a, n);

    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        const sr1_problem *problem;

        st = find_episode_problem(c, actions[i]->episode, &problem);
        if (st == SR1_OK)
            st = sr1__conversations_set_revision(&a, i, c->style, problem, NULL, 0,
                                                 actions[i]->text, actions[i]->len, 0);
    }
    if (st == SR1_OK)
        st = generate_revisions(c, &a, sink);
    sr1__conversations_free(&a);
    return st;
}

/* ---- the environment ---- */

static void destroy_critique_env(void *self)
{
    struct critique_env *c = self;

    sr1_problems_free(c->problems);
    sr1_generator_free(c->reviser);
    sr1_critique_style_free(c->style);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c->list);
    sr1__free(c);
}

static sr1_status check_critic_protocol(const sr1_env_options *o)
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

/* A generator that takes calls side by side need not gather them. */
static int32_t critique_env_flags(const sr1_generator *reviser)
{
    int32_t gather = sr1__generator_flags(reviser) & SR1_GENERATOR_CONCURRENT
                         ? SR1_ENV_SEPARATE
                         : SR1_ENV_BATCHES;

    return SR1_ENV_WAITS | SR1_ENV_CONCURRENT | SR1_ENV_WHOLE | gather;
}

sr1_status sr1_critique_env_open(sr1_env **out, sr1_problems *problems,
                                 sr1_generator *reviser, sr1_critique_style *style,
                                 const sr1_env_options *options)
{
    sr1_env_ops ops = {.struct_size = sizeof(ops),
                       .name = "critique",
                       .act = answer_critiques,
                       .destroy = destroy_critique_env,
                       .begin = begin_critique_episode,
                       .finish = finish_critique_episode};
    sr1_env_options o = {.struct_size = sizeof(o), .protocol = "ctrl"};
    struct critique_env *c;
    sr1_status st;

    if (!out || !problems || !reviser)
        return sr1__fail(SR1_E_INVALID,
                         "environment critique: out, problems and reviser are needed");
    SR1__TRY(check_critic_protocol(options ? options : &o));
    SR1__CALLOC(c, 1, "environment");
    pthread_mutex_init(&c->lock, NULL);
    c->problems = sr1_problems_retain(problems);
    c->reviser = sr1_generator_retain(reviser);
    c->style = sr1_critique_style_retain(style);
    ops.flags = critique_env_flags(reviser);
    st = sr1__env_new_builtin(out, &ops, c, options ? options : &o);
    if (st != SR1_OK)
        destroy_critique_env(c);
    return st;
}
