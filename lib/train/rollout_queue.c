/* train/rollout_queue.c - rollouts that begin before their step: their rows, their
 * generations in the background, and what a checkpoint keeps of them. */
#include "train/rollout_queue.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/ranks.h"
#include "train/sampler.h"
#include "train/step_batch.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE 0.2 /* seconds between two calls of a waiting caller */

static size_t count_trajectories(const sr1_trainer *tr,
                                 const struct sr1__queued_rollout *q)
{
    return q->n * (size_t)tr->set.group_size;
}

static void free_queued(const sr1_trainer *tr, struct sr1__queued_rollout *q)
{
    sr1__background_rollout_free(q->run);
    for (size_t i = 0; q->t && i < count_trajectories(tr, q); i++)
        sr1_trajectory_free(q->t[i]);
    sr1__free(q->t);
    sr1__rollout_share_free(&q->share);
    sr1__dataset_queries_free(&q->asked);
    sr1__buf_free(&q->bytes);
    sr1__free(q->rows);
    sr1__free(q);
}

void sr1__rollout_queue_pop(sr1_trainer *tr)
{
    struct sr1__queued_rollout *q = tr->queue;

    if (!q || q->step >= tr->step)
        return;
    tr->queue = q->next;
    free_queued(tr, q);
}

/* The one at *from, and all behind it. */
static void drop_from(const sr1_trainer *tr, struct sr1__queued_rollout **from)
{
    for (struct sr1__queued_rollout *q = *from; q; q = q->next)
        if (q->run)
            sr1__background_rollout_cancel(q->run);
    while (*from) {
        struct sr1__queued_rollout *q = *from;

        *from = q->next;
        free_queued(tr, q);
    }
}

void sr1__rollout_queue_clear(sr1_trainer *tr)
{
    drop_from(tr, &tr->queue);
}

/* ---- rows ---- */

static struct sr1__data_place find_place(const sr1_trainer *tr)
{
    return (struct sr1__data_place){sr1__cursor_epoch(tr->cursor),
                                    sr1__cursor_position(tr->cursor)};
}

void sr1__rollout_queue_mark(sr1_trainer *tr)
{
    const struct sr1__queued_rollout *q = sr1__rollout_queue_head(tr);

    tr->drawn = find_place(tr);
    tr->place = q ? q->place : tr->drawn;
}

static int compare_places(struct sr1__data_place a, struct sr1__data_place b)
{
    if (a.epoch != b.epoch)
        return a.epoch < b.epoch ? -1 : 1;
    return a.position < b.position ? -1 : a.position > b.position;
}

sr1_status sr1__rollout_queue_rewind(sr1_trainer *tr)
{
    struct sr1__queued_rollout **at = &tr->queue;

    while (*at && compare_places((*at)->place, tr->drawn) < 0)
        at = &(*at)->next;
    if (*at && compare_places((*at)->place, tr->drawn) == 0)
        return SR1_OK; /* nothing was drawn before it */
    drop_from(tr, at);
    return sr1__cursor_seek(tr->cursor, tr->drawn.epoch, tr->drawn.position);
}

sr1_status sr1__rollout_queue_rows(sr1_trainer *tr, int64_t *rows, size_t *n)
{
    const struct sr1__queued_rollout *q = sr1__rollout_queue_head(tr);

    if (!q)
        return sr1__sampler_next(tr, tr->step, NULL, 0, rows, n);
    tr->sampler.epoch = q->place.epoch;
    memcpy(rows, q->rows, q->n * sizeof(*rows));
    *n = q->n;
    return SR1_OK;
}

/* One more at the end of the queue, without rows. */
static sr1_status add_queued(sr1_trainer *tr, int64_t step, size_t room,
                             struct sr1__queued_rollout **out)
{
    struct sr1__queued_rollout **end = &tr->queue, *q;

    SR1__CALLOC(q, 1, "rollout");
    q->rows = sr1__calloc(room, sizeof(*q->rows));
    if (!q->rows) {
        sr1__free(q);
        return sr1__fail_nomem("rows of a step");
    }
    q->step = step;
    q->version = -1;
    sr1__buf_init(&q->bytes, SIZE_MAX / 2);
    while (*end)
        end = &(*end)->next;
    *end = *out = q;
    return SR1_OK;
}

/* The last one leaves again. */
static void drop_last(sr1_trainer *tr)
{
    struct sr1__queued_rollout **end = &tr->queue;

    while ((*end)->next)
        end = &(*end)->next;
    drop_from(tr, end);
}

size_t sr1__rollout_queue_list(const sr1_trainer *tr, int64_t *rows)
{
    size_t n = 0;

    for (const struct sr1__queued_rollout *q = tr->queue; q; q = q->next) {
        if (q->step == tr->step)
            continue;
        memcpy(rows + n, q->rows, q->n * sizeof(*rows));
        n += q->n;
    }
    return n;
}

/* asked[n_asked]: what the step under way asks, with room for the steps behind it. */
static sr1_status draw_rows(sr1_trainer *tr, int64_t step, int64_t *asked, size_t n_asked)
{
    struct sr1__queued_rollout *q;
    struct sr1__data_place place = find_place(tr);
    sr1_status st;

    n_asked += sr1__rollout_queue_list(tr, asked + n_asked);
    SR1__TRY(add_queued(tr, step, (size_t)tr->set.batch_size, &q));
    q->place = place;
    st = sr1__sampler_next(tr, step, asked, n_asked, q->rows, &q->n);
    if (st != SR1_OK)
        drop_last(tr);
    return st;
}

static sr1_status draw_ahead(sr1_trainer *tr, int64_t last, int64_t *asked,
                             size_t n_asked)
{
    int64_t drawn = tr->step;

    for (const struct sr1__queued_rollout *q = tr->queue; q; q = q->next)
        drawn = q->step;
    while (drawn < last && !sr1__sampler_is_over(tr))
        SR1__TRY(draw_rows(tr, ++drawn, asked, n_asked));
    return SR1_OK;
}

/* ---- generations ---- */

/* Those of its rows, which it asks as its step will. */
static sr1_status read_questions(const sr1_trainer *tr, struct sr1__queued_rollout *q)
{
    struct sr1__query_copies copies = {0};
    sr1_status st = sr1__dataset_queries_read(&q->asked, tr->train, q->rows, 0, q->n);

    if (st == SR1_OK)
        st = sr1__query_copies_number(&copies, q->asked.queries, q->n);
    sr1__query_copies_free(&copies);
    if (st != SR1_OK)
        sr1__dataset_queries_free(&q->asked);
    return st;
}

static sr1_status begin_run(sr1_trainer *tr, struct sr1__queued_rollout *q)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = (int32_t)tr->set.group_size,
                             .seed = sr1__round_seed(tr, q->step, 0)};

    if (!q->asked.queries)
        SR1__TRY(read_questions(tr, q));
    sr1__rollout_share_free(&q->share);
    SR1__TRY(sr1__rollout_share_begin(&q->share, tr->dist, q->asked.queries, q->n,
                                      (size_t)tr->set.group_size));
    q->version = sr1__rollout_server_version(tr->rollout);
    return sr1__background_rollout_begin(&q->run, tr->rollout, q->share.queries,
                                         q->share.n, &o);
}

static int has_begun(const struct sr1__queued_rollout *q)
{
    return q->run || q->t;
}

/* The servers have the weights for all that is in the queue. */
static sr1_status begin_all(sr1_trainer *tr)
{
    for (struct sr1__queued_rollout *q = tr->queue; q; q = q->next)
        if (!has_begun(q))
            SR1__TRY(begin_run(tr, q));
    return SR1_OK;
}

sr1_status sr1__rollout_queue_fill(sr1_trainer *tr, const int64_t *rows, size_t n)
{
    size_t ahead = (size_t)(tr->set.async_level * tr->set.batch_size);
    int64_t last = tr->step + tr->set.async_level;
    int64_t *asked = sr1__calloc(n + ahead, sizeof(*asked));
    sr1_status st;

    SR1__CHECK_ALLOC(asked, "rows of a step");
    if (n > 0)
        memcpy(asked, rows, n * sizeof(*asked));
    if (last > tr->planned - 1)
        last = tr->planned - 1;
    st = draw_ahead(tr, last, asked, n);
    sr1__free(asked);
    return st == SR1_OK ? begin_all(tr) : st;
}

/* Once its generation is over: the trajectories of all ranks. */
static sr1_status collect_trajectories(sr1_trainer *tr, struct sr1__queued_rollout *q)
{
    size_t n = count_trajectories(tr, q);
    sr1_status st;

    q->t = sr1__calloc(n + 1, sizeof(sr1_trajectory *));
    st = q->t ? sr1__background_rollout_take(q->run, q->share.own, &q->seconds)
              : sr1__fail_nomem("trajectories of a step");
    sr1__background_rollout_free(q->run);
    q->run = NULL;
    st = sr1__rollout_share_exchange(&q->share, tr->rollout, st, q->t);
    if (st == SR1_OK) {
        sr1__rollout_stats(tr->rollout, &q->stats);
        st = sr1__trajectories_encode(q->t, n, &q->bytes);
    }
    if (st == SR1_OK)
        return SR1_OK;
    for (size_t i = 0; q->t && i < n; i++)
        sr1_trajectory_free(q->t[i]);
    sr1__free(q->t);
    q->t = NULL; /* it begins again if its step is done again */
    return st;
}

sr1_status sr1__rollout_queue_wait(sr1_trainer *tr, struct sr1__queued_rollout *q,
                                   sr1_status (*waits)(void *user, int64_t done,
                                                       int64_t total),
                                   void *user)
{
    int64_t done = 0;
    sr1_status st = begin_all(tr); /* those of a resumed run, before newer weights come */

    if (q->t)
        return sr1__dist_agree(tr->dist, "rollout of a step", st);
    while (st == SR1_OK &&
           !sr1__background_rollout_wait(q->run, sr1__now() + PATIENCE, &done))
        st = waits(user, done, (int64_t)(q->share.n * q->share.group));
    st = sr1__dist_await(tr->dist, "rollout of a step", st);
    return st == SR1_OK ? collect_trajectories(tr, q) : st;
}

sr1_status sr1__rollout_queue_drain(sr1_trainer *tr,
                                    sr1_status (*waits)(void *user, int64_t done,
                                                        int64_t total),
                                    void *user)
{
    for (struct sr1__queued_rollout *q = tr->queue; q; q = q->next)
        if (q->run)
            SR1__TRY(sr1__rollout_queue_wait(tr, q, waits, user));
    return SR1_OK;
}

/* ---- checkpoints ---- */

/* Counts of a generation that metrics and controllers read again. */
#define COUNT(name)                                                                      \
    {                                                                                    \
#name, offsetof(struct sr1__rollout_stats, name)                                 \
    }
static const struct {
    const char *name;
    size_t offset;
} counts[] = {COUNT(policy_tokens),
              COUNT(decode_steps),
              COUNT(searches),
              COUNT(failed_searches),
              COUNT(refused_actions),
              COUNT(engine_queries),
              COUNT(engine_calls),
              COUNT(remote.answers),
              COUNT(remote.drifted),
              COUNT(remote.prompts_differ),
              COUNT(remote.dropped_tokens),
              COUNT(remote.server_tokens),
              COUNT(remote.failed),
              COUNT(remote.live)};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static int64_t *count_at(struct sr1__rollout_stats *s, size_t i)
{
    return (int64_t *)(void *)((char *)s + counts[i].offset);
}

static json_t *pack_servers(const struct sr1__remote_stats *r)
{
    json_t *list = json_array();

    for (int64_t i = 0; list && i < r->n_servers; i++)
        if (json_array_append_new(list,
                                  json_pack("[I, I]", (json_int_t)r->servers[i].requests,
                                            (json_int_t)r->servers[i].failures)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *pack_stats(struct sr1__rollout_stats *s)
{
    json_t *o = json_pack("{s:f, s:f, s:o}", "entropy", s->entropy, "search_seconds",
                          s->search_seconds, "servers", pack_servers(&s->remote));

    for (size_t i = 0; o && i < COUNTS; i++)
        if (json_object_set_new(o, counts[i].name, json_integer(*count_at(s, i))) != 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static sr1_status unpack_servers(struct sr1__remote_stats *r, const json_t *list)
{
    r->n_servers = (int64_t)json_array_size(list);
    if (r->n_servers > SR1__SERVERS_MAX)
        return sr1__fail(SR1_E_CORRUPT, "the rollout of a step has too many servers");
    for (int64_t i = 0; i < r->n_servers; i++) {
        const json_t *pair = json_array_get(list, (size_t)i);

        r->servers[i].requests = json_integer_value(json_array_get(pair, 0));
        r->servers[i].failures = json_integer_value(json_array_get(pair, 1));
    }
    return SR1_OK;
}

static sr1_status unpack_stats(struct sr1__rollout_stats *s, const json_t *o)
{
    SR1__TRY(sr1__json_get_num(o, "entropy", &s->entropy));
    SR1__TRY(sr1__json_get_num(o, "search_seconds", &s->search_seconds));
    for (size_t i = 0; i < COUNTS; i++)
        if (json_object_get(o, counts[i].name)) /* a checkpoint may be older than it */
            SR1__TRY(sr1__json_get_int(o, counts[i].name, count_at(s, i)));
    return unpack_servers(&s->remote, json_object_get(o, "servers"));
}

static json_t *pack_rows(const struct sr1__queued_rollout *q)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < q->n; i++)
        if (json_array_append_new(list, json_integer(q->rows[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *pack_place(const struct sr1__data_place *p)
{
    return json_pack("{s:I, s:I}", "epoch", (json_int_t)p->epoch, "position",
                     (json_int_t)p->position);
}

static json_t *pack_queued(struct sr1__queued_rollout *q)
{
    return json_pack("{s:I, s:o, s:o, s:I, s:f, s:o}", "step", (json_int_t)q->step,
                     "place", pack_place(&q->place), "rows", pack_rows(q), "version",
                     (json_int_t)q->version, "seconds", q->seconds, "stats",
                     q->t ? pack_stats(&q->stats) : json_null());
}

/* What is over by now is kept. Of several processes each has a part only. One that failed
 * stays as it is: its step tells, and a resumed run asks again. */
static void collect_finished(sr1_trainer *tr)
{
    struct sr1__error e;

    for (struct sr1__queued_rollout *q = tr->queue; q && !tr->dist; q = q->next) {
        struct sr1__rollout_stats last;

        if (!q->run || !sr1__background_rollout_wait(q->run, 0, NULL) ||
            sr1__background_rollout_has_failed(q->run))
            continue;
        sr1__rollout_stats(tr->rollout, &last);
        sr1__error_save(&e, SR1_OK);
        (void)collect_trajectories(tr, q); /* without memory it is generated again */
        (void)sr1__error_raise(&e);
        sr1__rollout_set_stats(tr->rollout, &last);
    }
}

json_t *sr1__rollout_queue_pack(sr1_trainer *tr)
{
    struct sr1__data_place drawn;
    json_t *list;

    if (!sr1__rollout_queue_head(tr))
        return json_null();
    collect_finished(tr);
    drawn = find_place(tr);
    list = json_array();
    for (struct sr1__queued_rollout *q = tr->queue; list && q; q = q->next)
        if (json_array_append_new(list, pack_queued(q)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return json_pack("{s:o, s:o}", "drawn", pack_place(&drawn), "steps", list);
}

static char *join_file(const char *folder, int64_t step)
{
    char name[64];

    snprintf(name, sizeof(name), "step-%" PRId64 ".trajectories", step + 1);
    return sr1__path_join(folder, name);
}

sr1_status sr1__rollout_queue_save(sr1_trainer *tr, const char *folder)
{
    for (const struct sr1__queued_rollout *q = tr->queue; q; q = q->next) {
        char *path;
        sr1_status st;

        if (!q->t)
            continue;
        path = join_file(folder, q->step);
        st = path ? sr1__file_replace(path, q->bytes.data, q->bytes.len)
                  : sr1__fail_nomem("path");
        sr1__free(path);
        SR1__TRY(st);
    }
    return SR1_OK;
}

static sr1_status unpack_place(struct sr1__data_place *p, const json_t *o)
{
    SR1__TRY(sr1__json_get_int(o, "epoch", &p->epoch));
    return sr1__json_get_int(o, "position", &p->position);
}

static sr1_status unpack_rows(const sr1_trainer *tr, struct sr1__queued_rollout *q,
                              const json_t *list)
{
    q->n = json_array_size(list);
    if (q->n == 0 || q->n > (size_t)tr->set.batch_size)
        return sr1__fail(SR1_E_CORRUPT, "the rollout of a step has %zu rows", q->n);
    for (size_t i = 0; i < q->n; i++) {
        q->rows[i] = json_integer_value(json_array_get(list, i));
        if (q->rows[i] < 0 || q->rows[i] >= tr->mark.rows)
            return sr1__fail(SR1_E_CORRUPT, "the rollout of a step has row %" PRId64,
                             q->rows[i]);
    }
    return SR1_OK;
}

static sr1_status read_trajectories(const sr1_trainer *tr, struct sr1__queued_rollout *q,
                                    const char *path)
{
    size_t n = count_trajectories(tr, q);
    struct sr1__reader r;

    SR1__TRY(sr1__file_read(path, SIZE_MAX / 2, &q->bytes));
    q->t = sr1__calloc(n + 1, sizeof(sr1_trajectory *));
    SR1__CHECK_ALLOC(q->t, "trajectories of a step");
    sr1__reader_init(&r, q->bytes.data, q->bytes.len);
    SR1__TRY(sr1__trajectories_decode(&r, q->t, n));
    return r.left == 0 ? SR1_OK
                       : sr1__fail(SR1_E_CORRUPT, "more trajectories than the step has");
}

static sr1_status unpack_finished(const sr1_trainer *tr, struct sr1__queued_rollout *q,
                                  const char *folder, const json_t *stats)
{
    char *path = join_file(folder, q->step);
    sr1_status st = path ? unpack_stats(&q->stats, stats) : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1__context(read_trajectories(tr, q, path), "%s", path);
    sr1__free(path);
    return st;
}

static sr1_status unpack_queued(sr1_trainer *tr, const char *folder, const json_t *o,
                                int64_t step)
{
    const json_t *stats = json_object_get(o, "stats");
    struct sr1__queued_rollout *q;
    int64_t said;

    SR1__TRY(sr1__json_get_int(o, "step", &said));
    if (said != step)
        return sr1__fail(SR1_E_CORRUPT, "the rollout of step %" PRId64 " is missing",
                         step + 1);
    SR1__TRY(add_queued(tr, step, (size_t)tr->set.batch_size, &q));
    SR1__TRY(unpack_place(&q->place, json_object_get(o, "place")));
    SR1__TRY(unpack_rows(tr, q, json_object_get(o, "rows")));
    if (!json_is_object(stats))
        return SR1_OK;
    SR1__TRY(sr1__json_get_int(o, "version", &q->version));
    SR1__TRY(sr1__json_get_num(o, "seconds", &q->seconds));
    return unpack_finished(tr, q, folder, stats);
}

static sr1_status unpack_queue(sr1_trainer *tr, const char *folder, const json_t *packed)
{
    const json_t *steps = json_object_get(packed, "steps");
    struct sr1__data_place drawn;

    SR1__TRY(unpack_place(&drawn, json_object_get(packed, "drawn")));
    for (size_t i = 0; i < json_array_size(steps); i++)
        SR1__TRY(
            unpack_queued(tr, folder, json_array_get(steps, i), tr->step + (int64_t)i));
    return sr1__cursor_seek(tr->cursor, drawn.epoch, drawn.position);
}

sr1_status sr1__rollout_queue_restore(sr1_trainer *tr, const char *folder,
                                      const json_t *packed)
{
    char *below;
    sr1_status st;

    if (!json_is_object(packed) || tr->mark.other || tr->set.async_level == 0)
        return SR1_OK;
    below = sr1__path_join(folder, "rollouts");
    st = below ? sr1__context(unpack_queue(tr, below, packed), "%s", below)
               : sr1__fail_nomem("path");
    sr1__free(below);
    return st;
}
