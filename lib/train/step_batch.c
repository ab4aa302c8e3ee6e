/* train/step_batch.c - room for the trajectories of a step, and views of some of them. */
#include "train/step_batch.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

uint64_t sr1__step_seed(const sr1_trainer *tr, uint64_t round)
{
    return sr1__round_seed(tr, tr->step, round);
}

uint64_t sr1__round_seed(const sr1_trainer *tr, int64_t step, uint64_t round)
{
    uint64_t at[2] = {(uint64_t)step, round};

    return sr1__hash64(at, round ? sizeof(at) : sizeof(at[0]), tr->set.seed);
}

/* One column for `room` trajectories; what is new of it is 0. */
static sr1_status grow_column(void *column, size_t size, size_t used, size_t room)
{
    void *old, *grown;

    memcpy(&old, column, sizeof(old));
    grown = sr1__realloc(old, room + 1, size);
    SR1__CHECK_ALLOC(grown, "trajectories of a step");
    memset((char *)grown + used * size, 0, (room + 1 - used) * size);
    memcpy(column, &grown, sizeof(grown));
    return SR1_OK;
}
#define GROW(b, column, used, room)                                                      \
    grow_column(&(b)->column, sizeof(*(b)->column), used, room)

sr1_status sr1__step_batch_extend(struct sr1__step_batch *b, size_t more)
{
    size_t n = b->n + more;

    SR1__TRY(GROW(b, t, b->n, n));
    SR1__TRY(GROW(b, drop, b->n, n));
    SR1__TRY(GROW(b, filled, b->n, n));
    SR1__TRY(GROW(b, baselines, b->n, n));
    SR1__TRY(GROW(b, turn_begin, b->turn_begin ? b->n + 1 : 0, n));
    b->n = n;
    return SR1_OK;
}

sr1_status sr1__step_batch_append(struct sr1__step_batch *b, sr1_trajectory *const *t,
                                  size_t n)
{
    size_t begin = b->n;

    SR1__TRY(sr1__step_batch_extend(b, n));
    for (size_t i = 0; i < n; i++)
        b->t[begin + i] = sr1_trajectory_retain(t[i]);
    return SR1_OK;
}

static void free_trajectories(sr1_trajectory **t, size_t n)
{
    for (size_t i = 0; t && i < n; i++)
        sr1_trajectory_free(t[i]);
    sr1__free(t);
}

void sr1__step_batch_free(struct sr1__step_batch *b)
{
    free_trajectories(b->t, b->n);
    free_trajectories(b->round.greedy, b->round.n_queries);
    sr1__free(b->round.numbered);
    sr1__query_copies_free(&b->copies);
    sr1__free(b->drop);
    sr1__free(b->filled);
    sr1__free(b->baselines);
    sr1__free(b->turn_begin);
    sr1__free(b->turn_rewards);
    sr1__trajectory_store_free(b->selected);
    if (b->masked)
        sr1__step_batch_free(b->masked);
    sr1__free(b->masked);
    *b = (struct sr1__step_batch){0};
}

/* ---- views ---- */

sr1_status sr1__batch_view_of(const struct sr1__step_batch *b, size_t begin,
                              int (*takes)(const struct sr1__step_batch *b, size_t i,
                                           int32_t arg),
                              int32_t arg, struct sr1__batch_view *out)
{
    *out = (struct sr1__batch_view){.t = sr1__calloc(b->n + 1, sizeof(*out->t)),
                                    .index = sr1__calloc(b->n + 1, sizeof(*out->index))};
    if (!out->t || !out->index) {
        sr1__batch_view_free(out);
        return sr1__fail_nomem("trajectories of a step");
    }
    for (size_t i = begin; i < b->n; i++) {
        if (!takes(b, i, arg))
            continue;
        out->t[out->n] = b->t[i];
        out->index[out->n++] = i;
    }
    return SR1_OK;
}

void sr1__batch_view_free(struct sr1__batch_view *v)
{
    sr1__free(v->t);
    sr1__free(v->index);
    *v = (struct sr1__batch_view){0};
}

static int takes_compared(const struct sr1__step_batch *b, size_t i, int32_t arg)
{
    (void)arg;
    return sr1__counts_in_group(b, i);
}

sr1_status sr1__step_batch_in_groups(const struct sr1__step_batch *b, size_t begin,
                                     struct sr1__batch_view *out)
{
    return sr1__batch_view_of(b, begin, takes_compared, 0, out);
}
