/* rollout/level_lane.c - steps at four levels, in one decoder.
 *
 * The trunk reads a trajectory once; what it has in common with the one before (a group's
 * prompt) is kept. A step takes four rows that share the trunk's cache up to where they
 * part: one behind the thoughts that were thought, three behind the history, which draw
 * thoughts until an action begins. Then the step's action is scored behind all four in
 * one pass, which reads nothing but the action anew. */
#include "rollout/level_lane.h"

#include "base/mem.h"

#include <searchr1/advantage.h>

#include <string.h>

#define LEVELS SR1_THINKING_LEVELS

struct slot {
    struct sr1__level_task *task; /* NULL: free */
    struct sr1__level_row rows[LEVELS];
    int32_t fate; /* other than COMPARED: given up */
};

struct lane {
    struct sr1__level_work *w;
    struct sr1__decoder *decoder;
    size_t next, end; /* tasks that are left */
    int32_t trunk, spare; /* rows of the decoder, */
    const int32_t *trunk_ids;
    struct slot *slots; /* [n_slots] */
    size_t n_slots;
    /* scratch, [4 n_slots] each */
    struct sr1__feed *feeds;
    size_t *asked;
    int32_t *drawn;
    struct sr1__level_row **drawing;
    struct slot **of;
    struct sr1__rng **rngs;
    int32_t *ids;
    float *log_probs, *entropies; /* of one pass */
    size_t cap_scores;
    struct sr1__level_stats stats;
};

/* ---- a lane's memory ---- */

static void close_slot(struct lane *l, struct slot *s)
{
    for (int k = 0; k < LEVELS; k++) {
        sr1__decoder_clear(l->decoder, s->rows[k].at);
        sr1__level_row_free(&s->rows[k]);
    }
    s->task = NULL;
}

static void lane_free(struct lane *l)
{
    for (size_t i = 0; l->slots && i < l->n_slots; i++)
        close_slot(l, &l->slots[i]);
    sr1__free(l->slots);
    sr1__free(l->feeds);
    sr1__free(l->asked);
    sr1__free(l->drawn);
    sr1__free((void *)l->drawing);
    sr1__free((void *)l->of);
    sr1__free((void *)l->rngs);
    sr1__free(l->ids);
    sr1__free(l->log_probs);
    sr1__free(l->entropies);
}

/* The decoder's rows: the trunk, one to spare, four for each slot. */
static sr1_status lane_init(struct lane *l, struct sr1__level_work *w, size_t lane)
{
    const sr1_rollout *r = w->call.rollout;
    size_t lanes = (size_t)r->n_lanes, n;

    *l = (struct lane){.w = w, .decoder = r->decoders[lane], .spare = 1};
    l->next = w->n_tasks * lane / lanes;
    l->end = w->n_tasks * (lane + 1) / lanes;
    l->n_slots = (size_t)(w->rows - 2) / LEVELS;
    n = l->n_slots * LEVELS;
    l->slots = sr1__calloc(l->n_slots, sizeof *l->slots);
    l->feeds = sr1__calloc(n, sizeof *l->feeds);
    l->asked = sr1__calloc(n, sizeof *l->asked);
    l->drawn = sr1__calloc(n, sizeof *l->drawn);
    l->drawing = sr1__calloc(n, sizeof(void *));
    l->of = sr1__calloc(n, sizeof(void *));
    l->rngs = sr1__calloc(n, sizeof(void *));
    l->ids = sr1__calloc(n, sizeof *l->ids);
    if (!l->slots || !l->feeds || !l->asked || !l->drawn || !l->drawing || !l->of ||
        !l->rngs || !l->ids)
        return sr1__fail_nomem("thinking levels");
    for (size_t i = 0; i < n; i++)
        l->slots[i / LEVELS].rows[i % LEVELS].at = (int32_t)(2 + i);
    return SR1_OK;
}

/* ---- the trunk ---- */

/* Row *row keeps its first n tokens. */
static sr1_status cut_row(struct lane *l, int32_t *row, size_t n)
{
    int32_t kept = l->spare;

    if ((size_t)sr1__decoder_length(l->decoder, *row) == n)
        return SR1_OK;
    SR1__TRY(sr1__decoder_fork_part(l->decoder, *row, kept, (int64_t)n));
    sr1__decoder_clear(l->decoder, *row);
    l->spare = *row;
    *row = kept;
    return SR1_OK;
}

/* Tokens that the trunk and ids[0..n) begin with alike. */
static size_t in_common(const struct lane *l, const int32_t *ids, size_t n)
{
    size_t has = (size_t)sr1__decoder_length(l->decoder, l->trunk), k = 0;

    while (k < n && k < has && l->trunk_ids[k] == ids[k])
        k++;
    return k;
}

/* How far steps of this trajectory, from task i on, look into it. */
static size_t reach(const struct lane *l, size_t i)
{
    const struct sr1__level_task *tasks = l->w->tasks;
    size_t at = 0;

    for (size_t k = i; k < l->end && tasks[k].t == tasks[i].t; k++)
        at = tasks[k].turn.behind - 1;
    return at;
}

/* The trunk reads the trajectory of the next step. */
static sr1_status seat(struct lane *l)
{
    const sr1_trajectory *t = l->w->tasks[l->next].t;
    const int32_t *ids = sr1_trajectory_ids(t);
    size_t n, common;

    if (l->trunk_ids == ids)
        return SR1_OK;
    n = reach(l, l->next);
    common = in_common(l, ids, n);
    SR1__TRY(cut_row(l, &l->trunk, common));
    l->trunk_ids = ids;
    if (common == n)
        return SR1_OK;
    return sr1__decoder_feed(
        l->decoder,
        &(struct sr1__feed){.row = l->trunk, .ids = ids + common, .n_ids = n - common},
        1);
}

/* ---- beginning a step ---- */

static int has_room(const struct lane *l, size_t tokens)
{
    return (int64_t)tokens <= l->w->call.rollout->limits.max_context;
}

static sr1_status hold(struct lane *l, struct sr1__level_row *row, size_t n)
{
    row->base = n;
    return sr1__decoder_fork_part(l->decoder, l->trunk, row->at, (int64_t)n);
}

/* Thoughts are asked for in words: the level's sentence goes to the end of what the
 * environment said last. *fate: SR1__LEVELS_NO_ROOM where the context ends before it. */
static sr1_status ask_in_words(struct lane *l, struct sr1__level_row *row, size_t history,
                               int32_t *fate)
{
    const sr1_rollout *r = l->w->call.rollout;
    const struct sr1__ids *open = &r->border.open_ids;
    const int32_t *ids = l->trunk_ids + history - open->n;
    struct sr1__ids words = {0};
    const char *text;
    sr1_status st;

    if (history < open->n || memcmp(ids, open->v, open->n * sizeof *ids) != 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "level_prompts: the prompt does not end with "
                                            "the opening of a message");
    SR1__TRY(sr1_thinking_level(row->level + 1, NULL, &text));
    st = sr1__tokenizer_encode(r->tokenizer, "\n", 1, SR1_ENCODE_ADDED_AS_TEXT, &words);
    if (st == SR1_OK)
        st = sr1__tokenizer_encode(r->tokenizer, text, strlen(text),
                                   SR1_ENCODE_ADDED_AS_TEXT, &words);
    for (size_t i = 0; i < open->n && st == SR1_OK; i++)
        st = sr1__ids_add(&words, open->v[i]);
    if (st == SR1_OK)
        st = hold(l, row, history - open->n);
    row->base += words.n;
    row->asked_in_words = 1;
    if (!has_room(l, row->base))
        *fate = SR1__LEVELS_NO_ROOM;
    else if (st == SR1_OK)
        st = sr1__decoder_feed(
            l->decoder, &(struct sr1__feed){row->at, words.v, words.n}, 1);
    sr1__ids_free(&words);
    return st;
}

/* Of a message in words and level there may be more than of the one that was sampled. */
static sr1_status begin_row(struct lane *l, struct sr1__level_row *row,
                            const struct sr1__level_task *task, int32_t *fate)
{
    size_t history = task->turn.message.begin;

    if (row->level == task->out->level) {
        SR1__TRY(hold(l, row, task->turn.behind - 1));
        return sr1__level_row_own(row, task);
    }
    if (row->level > 0 && l->w->call.o->prompts)
        SR1__TRY(ask_in_words(l, row, history, fate));
    else
        SR1__TRY(hold(l, row, history));
    SR1__TRY(sr1__level_row_begin(row, &l->w->call, task));
    if (!has_room(l, row->base + row->ids.n))
        *fate = SR1__LEVELS_NO_ROOM;
    return SR1_OK;
}

static void give_up(struct lane *l, struct slot *s)
{
    s->task->out->fate = s->fate;
    l->stats.fates[s->fate]++;
    close_slot(l, s);
}

/* The next step takes this slot, unless it has no room. */
static sr1_status admit_step(struct lane *l, struct slot *s)
{
    SR1__TRY(seat(l));
    s->task = &l->w->tasks[l->next++];
    s->fate = SR1__LEVELS_COMPARED;
    for (int32_t k = 0; k < LEVELS && s->fate == SR1__LEVELS_COMPARED; k++) {
        s->rows[k].level = k;
        SR1__TRY(begin_row(l, &s->rows[k], s->task, &s->fate));
    }
    if (s->fate != SR1__LEVELS_COMPARED)
        give_up(l, s);
    return SR1_OK;
}

static sr1_status admit(struct lane *l)
{
    for (size_t i = 0; i < l->n_slots; i++)
        while (!l->slots[i].task && l->next < l->end)
            SR1__TRY(admit_step(l, &l->slots[i]));
    return SR1_OK;
}

/* ---- drawing thoughts ---- */

/* The rows that draw, with their slots; each is fed what is new. */
static sr1_status feed(struct lane *l, size_t *n_drawing)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n_slots * LEVELS; i++) {
        struct slot *s = &l->slots[i / LEVELS];
        struct sr1__level_row *row = &s->rows[i % LEVELS];

        if (!s->task || !row->drawing)
            continue;
        l->feeds[n] = (struct sr1__feed){row->at, row->ids.v + row->fed,
                                         row->ids.n - row->fed};
        row->fed = row->ids.n;
        l->drawn[n] = row->at;
        l->rngs[n] = &row->rng;
        l->drawing[n] = row;
        l->of[n++] = s;
    }
    *n_drawing = n;
    return sr1__decoder_feed(l->decoder, l->feeds, n);
}

static sr1_status draw(struct lane *l, size_t n)
{
    SR1__TRY(sr1__decoder_sample(l->decoder, l->drawn, n, &l->w->call.o->sampling,
                                 l->rngs, l->ids, NULL, NULL));
    l->stats.tokens_made += (int64_t)n;
    for (size_t k = 0; k < n; k++)
        if (l->of[k]->fate == SR1__LEVELS_COMPARED)
            SR1__TRY(sr1__level_row_take(l->drawing[k], &l->w->call, l->of[k]->task,
                                         l->ids[k], &l->of[k]->fate));
    for (size_t k = 0; k < n; k++)
        if (l->of[k]->task && l->of[k]->fate != SR1__LEVELS_COMPARED)
            give_up(l, l->of[k]);
    return SR1_OK;
}

/* ---- scoring the action ---- */

static int is_ready(const struct slot *s)
{
    for (int k = 0; k < LEVELS; k++)
        if (s->rows[k].drawing)
            return 0;
    return s->task != NULL;
}

/* The decoder's row has read the history and what of ids may be kept. */
static sr1_status settle(struct lane *l, struct slot *s, struct sr1__level_row *row)
{
    size_t history = s->task->turn.message.begin, keep;

    if (!row->stream)
        return SR1_OK;
    SR1__TRY(sr1__level_row_finish(row, &l->w->call, s->task, &keep, &s->fate));
    if (row->asked_in_words) {
        const struct sr1__level_row *own = &s->rows[s->task->out->level];

        row->base = history;
        row->fed = 0;
        return sr1__decoder_fork_part(l->decoder, own->at, row->at, (int64_t)history);
    }
    if (s->fate != SR1__LEVELS_COMPARED || row->fed <= keep)
        return SR1_OK;
    row->fed = keep;
    return cut_row(l, &row->at, row->base + keep);
}

/* All rows of a slot as feeds; 0: it was given up. */
static sr1_status ready_slot(struct lane *l, struct slot *s, struct sr1__feed *feeds,
                             size_t *asked, int *ready)
{
    const struct sr1__span_of_tokens *action = &s->task->turn.action;

    for (int k = 0; k < LEVELS && s->fate == SR1__LEVELS_COMPARED; k++) {
        struct sr1__level_row *row = &s->rows[k];

        SR1__TRY(settle(l, s, row));
        if (s->fate == SR1__LEVELS_COMPARED && !has_room(l, row->base + row->ids.n))
            s->fate = SR1__LEVELS_NO_ROOM;
        feeds[k] = (struct sr1__feed){row->at, row->ids.v + row->fed,
                                      row->ids.n - row->fed};
        asked[k] = action->end - action->begin;
        l->stats.tokens_alone += (int64_t)(row->base + row->ids.n - 1);
    }
    *ready = s->fate == SR1__LEVELS_COMPARED;
    if (!*ready)
        give_up(l, s);
    return SR1_OK;
}

static void show(const struct lane *l, const struct slot *s)
{
    const struct sr1__level_options *o = l->w->call.o;
    const struct sr1__level_task *task = s->task;
    const struct sr1__thinking_turn *turn = &task->turn;
    const int32_t *sampled = sr1_trajectory_ids(task->t) + turn->message.begin;

    pthread_mutex_lock(&l->w->lock);
    for (int32_t k = 0; k < LEVELS; k++) {
        int own = k == task->out->level;

        o->look(o->user, task->t, turn->turn, k, own ? sampled : s->rows[k].ids.v,
                own ? turn->action.end - turn->message.begin : s->rows[k].ids.n,
                turn->action.end - turn->action.begin);
    }
    pthread_mutex_unlock(&l->w->lock);
}

static sr1_status keep_numbers(const struct lane *l, const struct slot *s, size_t at)
{
    const struct sr1__level_task *task = s->task;
    const struct sr1__thinking_turn *turn = &task->turn;
    size_t n = turn->action.end - turn->action.begin;

    for (int k = 0; k < LEVELS; k++) {
        const float *entropies = l->entropies + at + (size_t)k * n;

        SR1__TRY(sr1_thinking_confidence(l->w->call.o->confidence,
                                         l->log_probs + at + (size_t)k * n, entropies,
                                         NULL, n, &task->out->confidences[k]));
        task->out->costs[k] = (double)s->rows[k].cost;
        if (k == task->out->level)
            memcpy(task->entropies + (turn->action.begin - turn->message.begin),
                   entropies, n * sizeof *entropies);
    }
    task->out->fate = SR1__LEVELS_COMPARED;
    return SR1_OK;
}

static sr1_status score_room(struct lane *l, size_t n)
{
    if (n <= l->cap_scores)
        return SR1_OK;
    sr1__free(l->log_probs);
    sr1__free(l->entropies);
    l->cap_scores = 0;
    l->log_probs = sr1__calloc(n, sizeof *l->log_probs);
    l->entropies = sr1__calloc(n, sizeof *l->entropies);
    if (!l->log_probs || !l->entropies)
        return sr1__fail_nomem("scores of actions");
    l->cap_scores = n;
    return SR1_OK;
}

/* Steps whose four messages are there are scored in one pass. */
static sr1_status score(struct lane *l)
{
    size_t n = 0, m = 0, at = 0;

    for (size_t i = 0; i < l->n_slots; i++) {
        int ready;

        if (!is_ready(&l->slots[i]))
            continue;
        SR1__TRY(ready_slot(l, &l->slots[i], l->feeds + n * LEVELS,
                            l->asked + n * LEVELS, &ready));
        if (!ready)
            continue;
        m += LEVELS * l->asked[n * LEVELS];
        l->of[n++] = &l->slots[i];
    }
    SR1__TRY(score_room(l, m));
    SR1__TRY(sr1__decoder_score(l->decoder, l->feeds, l->asked, n * LEVELS,
                                l->w->call.o->temperature, l->log_probs, l->entropies));
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(keep_numbers(l, l->of[i], at));
        if (l->w->call.o->look)
            show(l, l->of[i]);
        at += LEVELS * l->asked[i * LEVELS];
        l->stats.fates[SR1__LEVELS_COMPARED]++;
        close_slot(l, l->of[i]);
    }
    return SR1_OK;
}

/* ---- a lane ---- */

static int is_idle(const struct lane *l)
{
    for (size_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].task)
            return 0;
    return 1;
}

static sr1_status run_steps(struct lane *l)
{
    size_t n;

    for (;;) {
        SR1__TRY(admit(l));
        if (is_idle(l))
            return SR1_OK;
        SR1__TRY(feed(l, &n));
        SR1__TRY(draw(l, n));
        SR1__TRY(score(l));
    }
}

static void add_stats(struct sr1__level_work *w, const struct sr1__level_stats *s)
{
    pthread_mutex_lock(&w->lock);
    for (int k = 0; k < SR1__LEVELS_FATES; k++)
        w->stats.fates[k] += s->fates[k];
    w->stats.tokens_made += s->tokens_made;
    w->stats.tokens_fed += s->tokens_fed;
    w->stats.tokens_alone += s->tokens_alone;
    pthread_mutex_unlock(&w->lock);
}

sr1_status sr1__level_lane_run(void *arg, size_t lane)
{
    struct sr1__level_work *w = arg;
    struct sr1__decoder_stats before, after;
    struct lane l;
    sr1_status st = lane_init(&l, w, lane);

    sr1__decoder_stats(l.decoder, &before);
    if (st == SR1_OK)
        st = run_steps(&l);
    sr1__decoder_stats(l.decoder, &after);
    l.stats.tokens_fed = after.tokens_fed - before.tokens_fed;
    add_stats(w, &l.stats);
    lane_free(&l);
    return st;
}
