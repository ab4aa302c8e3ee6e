/* rollout/lane.c - one decoder that advances many trajectories together.
 *
 * A round: admit new groups, feed the decoder, draw a token for every row, carry out the
 * actions that were closed. The feed is one forward for everything that is new: prompts,
 * inserted blocks and single sampled tokens side by side. A group's prompt is fed once
 * and its cache copied. A row that ends gives its place to the next group at once, and
 * all actions of a round go to the environment as one batch. Where the environment lets
 * one wait (asker.h), only the rows that acted wait for it. */
#include "rollout/asker.h"
#include "rollout/row.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* Rows that copy the cache of the row that was fed their prompt. */
struct fork {
    int32_t from;
    int32_t begin; /* in lane->fork_rows */
    int32_t n;
};

struct lane {
    struct sr1__generation *g;
    struct sr1__decoder *decoder;
    struct sr1__row *rows; /* [cap]; the index is the decoder's row */
    int32_t cap;
    /* The group being admitted: its query, samples begun, and prompt (NULL: not yet
     * made). */
    size_t query;
    size_t query_step;
    double *entropy; /* of this lane */
    int32_t begun;
    int32_t *prompt;
    size_t n_prompt;
    /* Scratch of one round, [cap] each. */
    struct fork *forks;
    int32_t n_forks;
    int32_t *fork_rows;
    int32_t n_fork_rows;
    struct sr1__feed *feeds;
    int32_t *drawn; /* rows that draw, then those that act */
    struct sr1__rng **rngs;
    int32_t *ids;
    float *log_probs;
    float *entropies;
    struct sr1__action *actions;
    struct sr1__observation *answers;
    struct sr1__reply *replies;
    struct sr1__box *box; /* NULL: actions are carried out between two rounds */
};

static void lane_free(struct lane *l)
{
    sr1__box_free(l->box);
    for (int32_t i = 0; l->rows && i < l->cap; i++) {
        sr1__decoder_clear(l->decoder, i);
        sr1__row_free(&l->rows[i]);
    }
    sr1__free(l->rows);
    sr1__free(l->forks);
    sr1__free(l->fork_rows);
    sr1__free(l->feeds);
    sr1__free(l->drawn);
    sr1__free(l->rngs);
    sr1__free(l->ids);
    sr1__free(l->log_probs);
    sr1__free(l->entropies);
    sr1__free(l->actions);
    sr1__free(l->answers);
    sr1__free(l->replies);
    sr1_free(l->prompt);
}

static sr1_status lane_init(struct lane *l, struct sr1__generation *g, int32_t lane)
{
    size_t cap = (size_t)g->rows;

    memset(l, 0, sizeof(*l));
    l->g = g;
    l->decoder = g->rollout->decoders[lane];
    l->cap = (int32_t)cap;
    l->query = (size_t)lane;
    l->query_step = (size_t)g->rollout->n_lanes;
    l->entropy = &g->entropy[lane];
    l->rows = sr1__calloc(cap, sizeof(*l->rows));
    l->forks = sr1__calloc(cap, sizeof(*l->forks));
    l->fork_rows = sr1__calloc(cap, sizeof(*l->fork_rows));
    l->feeds = sr1__calloc(cap, sizeof(*l->feeds));
    l->drawn = sr1__calloc(cap, sizeof(*l->drawn));
    l->rngs = sr1__calloc(cap, sizeof(struct sr1__rng *));
    l->ids = sr1__calloc(cap, sizeof(*l->ids));
    l->log_probs = sr1__calloc(cap, sizeof(*l->log_probs));
    l->entropies = sr1__calloc(cap, sizeof(*l->entropies));
    l->actions = sr1__calloc(cap, sizeof(*l->actions));
    l->answers = sr1__calloc(cap, sizeof(*l->answers));
    l->replies = sr1__calloc(cap, sizeof(*l->replies));
    if (!l->rows || !l->forks || !l->fork_rows || !l->feeds || !l->drawn || !l->rngs ||
        !l->ids || !l->log_probs || !l->entropies || !l->actions || !l->answers ||
        !l->replies)
        return sr1__fail_nomem("rollout rows");
    if (g->env == g->rollout->env && g->rollout->asker)
        return sr1__box_new(&l->box, g->rollout->asker, l->cap);
    return SR1_OK;
}

static int32_t next_free(const struct lane *l)
{
    int32_t i = 0;

    while (i < l->cap && l->rows[i].active)
        i++;
    return i;
}

static int32_t count_active(const struct lane *l)
{
    int32_t n = 0;

    for (int32_t i = 0; i < l->cap; i++)
        n += l->rows[i].active;
    return n;
}

static sr1_status finish(struct lane *l, int32_t i)
{
    struct sr1__row *row = &l->rows[i];
    const sr1_rollout_options *o = l->g->options;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__row_finish(row, &l->g->out[row->index]));
    sr1__decoder_clear(l->decoder, i);
    pthread_mutex_lock(&l->g->lock);
    l->g->finished++;
    l->g->stats.policy_tokens += row->tokens;
    if (o->finished)
        st = o->finished(o->user, row->index, l->g->out[row->index]);
    pthread_mutex_unlock(&l->g->lock);
    return st;
}

/* ---- admission ---- */

static void next_query(struct lane *l)
{
    sr1_free(l->prompt);
    l->prompt = NULL;
    l->begun = 0;
    l->query += l->query_step;
}

/* A query that asks nothing gives empty trajectories. */
static sr1_status admit_empty(struct lane *l)
{
    for (int32_t k = 0; k < l->g->group_size; k++) {
        int32_t i = next_free(l);

        SR1__TRY(sr1__row_begin(&l->rows[i], l->g, l->query, k, NULL, 0));
        l->rows[i].stop = SR1_STOP_EMPTY_QUERY;
        SR1__TRY(finish(l, i));
    }
    next_query(l);
    return SR1_OK;
}

/* Begin n samples: the first is fed the prompt, the others copy its cache. */
static sr1_status admit_samples(struct lane *l, int32_t n)
{
    struct fork *f = &l->forks[l->n_forks++];

    *f = (struct fork){.from = -1, .begin = l->n_fork_rows};
    for (int32_t k = 0; k < n; k++) {
        int32_t i = next_free(l);

        SR1__TRY(sr1__row_begin(&l->rows[i], l->g, l->query, l->begun++, l->prompt,
                                l->n_prompt));
        if (f->from < 0) {
            f->from = i;
            SR1__TRY(sr1__row_queue(&l->rows[i], l->prompt, l->n_prompt));
        } else {
            l->fork_rows[f->begin + f->n++] = i;
        }
    }
    l->n_fork_rows += f->n;
    if (l->begun == l->g->group_size)
        next_query(l);
    return SR1_OK;
}

/* Groups begin whole while there is room for them (in parts only if larger than the
 * lane). */
static sr1_status admit(struct lane *l)
{
    l->n_forks = l->n_fork_rows = 0;
    while (l->query < l->g->n_queries) {
        sr1_query query = sr1__query_at(l->g->queries, l->query);
        int32_t room = l->cap - count_active(l);
        int32_t wanted = l->g->group_size - l->begun;

        if (wanted > l->cap)
            wanted = l->cap;
        if (room < wanted || room == 0)
            return SR1_OK;
        if (sr1__query_is_empty(&query)) {
            SR1__TRY(admit_empty(l));
            continue;
        }
        if (!l->prompt)
            SR1__TRY(sr1__context(
                sr1__rollout_prompt(l->g->rollout, &query, &l->prompt, &l->n_prompt),
                "query %zu", l->query));
        SR1__TRY(admit_samples(l, wanted));
    }
    return SR1_OK;
}

/* ---- one forward ---- */

static sr1_status feed(struct lane *l)
{
    size_t n = 0;

    for (int32_t i = 0; i < l->cap; i++) {
        struct sr1__row *row = &l->rows[i];

        if (!row->active || row->waiting || row->n_pending == 0)
            continue;
        l->feeds[n++] = (struct sr1__feed){i, row->pending, row->n_pending};
        row->n_pending = 0; /* the ids stay where they are until the next queue call */
    }
    if (n == 0)
        return SR1_OK;
    SR1__TRY(sr1__decoder_feed(l->decoder, l->feeds, n));
    for (int32_t k = 0; k < l->n_forks; k++)
        if (l->forks[k].n)
            SR1__TRY(sr1__decoder_fork(l->decoder, l->forks[k].from,
                                       l->fork_rows + l->forks[k].begin,
                                       (size_t)l->forks[k].n));
    pthread_mutex_lock(&l->g->lock);
    l->g->stats.decode_steps++;
    pthread_mutex_unlock(&l->g->lock);
    return SR1_OK;
}

/* ---- drawing ---- */

static sr1_status report(struct lane *l)
{
    struct sr1__generation *g = l->g;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&g->lock);
    if (g->options->progress)
        st = g->options->progress(g->options->user, (int64_t)g->finished,
                                  (int64_t)(g->n_queries * (size_t)g->group_size),
                                  g->stats.policy_tokens);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* Draw a token for every row; rows that want an action are left in drawn[*n_acting]. */
static sr1_status draw(struct lane *l, size_t *n_acting)
{
    size_t n = 0;

    *n_acting = 0;
    for (int32_t i = 0; i < l->cap; i++) {
        if (!l->rows[i].active || l->rows[i].waiting)
            continue;
        l->drawn[n] = i;
        l->rngs[n++] = &l->rows[i].rng;
    }
    SR1__TRY(sr1__decoder_sample(l->decoder, l->drawn, n, &l->g->sampling, l->rngs,
                                 l->ids, l->log_probs, l->entropies));
    for (size_t k = 0; k < n; k++) {
        int32_t i = l->drawn[k];
        enum sr1__row_want want;

        *l->entropy += l->entropies[k];
        SR1__TRY(sr1__row_take(&l->rows[i], l->ids[k], l->log_probs[k], &want));
        if (want == SR1__ROW_ACTION)
            l->drawn[(*n_acting)++] = i;
        if (want == SR1__ROW_DONE)
            SR1__TRY(finish(l, i));
    }
    return report(l);
}

/* ---- actions ---- */

static sr1_status ask(struct lane *l, size_t n)
{
    struct sr1__generation *g = l->g;
    double began = sr1__now();
    sr1_status st;

    pthread_mutex_lock(&g->rollout->env_lock);
    st = sr1__env_act(g->env, l->actions, n, l->answers);
    pthread_mutex_unlock(&g->rollout->env_lock);
    pthread_mutex_lock(&g->lock);
    g->stats.search_seconds += sr1__now() - began;
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* Row i gets its answer; the observation is freed. */
static sr1_status observe(struct lane *l, int32_t i, struct sr1__observation *o)
{
    enum sr1__row_want want = SR1__ROW_TOKEN;
    sr1_status st = sr1__row_observe(&l->rows[i], o, &want);

    sr1__observation_free(o);
    return st == SR1_OK && want == SR1__ROW_DONE ? finish(l, i) : st;
}

/* The rows in drawn[n] act. */
static sr1_status act(struct lane *l, size_t n)
{
    sr1_status st = SR1_OK;

    if (n == 0)
        return SR1_OK;
    for (size_t k = 0; k < n; k++)
        l->actions[k] = sr1__row_action(&l->rows[l->drawn[k]]);
    if (l->box) {
        for (size_t k = 0; k < n; k++)
            l->rows[l->drawn[k]].waiting = 1;
        return sr1__box_ask(l->box, l->drawn, l->actions, n);
    }
    SR1__TRY(ask(l, n));
    for (size_t k = 0; k < n; k++) {
        if (st == SR1_OK)
            st = observe(l, l->drawn[k], &l->answers[k]);
        else
            sr1__observation_free(&l->answers[k]);
    }
    return st;
}

static int all_wait(const struct lane *l)
{
    for (int32_t i = 0; i < l->cap; i++)
        if (l->rows[i].active && !l->rows[i].waiting)
            return 0;
    return 1;
}

/* How long to wait before the caller's progress function is asked again. */
#define PATIENCE 0.2

/* What has been answered meanwhile; when no row can go on, wait. */
static sr1_status collect(struct lane *l)
{
    size_t n = 0;
    sr1_status st = SR1_OK;

    while (st == SR1_OK && n == 0 && sr1__box_waiting(l->box) > 0) {
        int idle = all_wait(l);
        double began = sr1__now();

        st = sr1__box_collect(l->box, idle ? PATIENCE : 0.0, l->replies, &n);
        if (!idle)
            break;
        pthread_mutex_lock(&l->g->lock);
        l->g->stats.search_seconds += sr1__now() - began;
        pthread_mutex_unlock(&l->g->lock);
        if (st == SR1_OK && n == 0)
            st = report(l);
    }
    for (size_t k = 0; k < n; k++) {
        if (st == SR1_OK)
            st = observe(l, l->replies[k].row, &l->replies[k].observation);
        else
            sr1__observation_free(&l->replies[k].observation);
    }
    return st;
}

sr1_status sr1__lane_run(struct sr1__generation *g, int32_t lane)
{
    struct lane l;
    sr1_status st = lane_init(&l, g, lane);

    while (st == SR1_OK) {
        size_t acting = 0;

        st = admit(&l);
        if (st != SR1_OK || count_active(&l) == 0)
            break;
        if (l.box)
            st = collect(&l);
        if (st == SR1_OK)
            st = feed(&l);
        if (st == SR1_OK)
            st = draw(&l, &acting);
        if (st == SR1_OK)
            st = act(&l, acting);
    }
    lane_free(&l);
    return st;
}
