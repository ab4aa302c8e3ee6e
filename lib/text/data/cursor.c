/* text/data/cursor.c - a Fisher-Yates shuffle seeded by (seed, epoch). */
#include "text/data/cursor.h"

#include "base/mem.h"
#include "base/rng.h"

struct sr1__cursor {
    int64_t n_rows;
    uint64_t seed;
    int shuffle;
    int64_t epoch;
    int64_t position;
    int64_t *order; /* of this epoch */
};

static void shuffle_epoch(struct sr1__cursor *c)
{
    struct sr1__rng rng;

    for (int64_t i = 0; i < c->n_rows; i++)
        c->order[i] = i;
    if (!c->shuffle)
        return;
    sr1__rng_seed(&rng, c->seed, (uint64_t)c->epoch);
    sr1__rng_shuffle(&rng, c->order, (size_t)c->n_rows);
}

sr1_status sr1__cursor_new(struct sr1__cursor **out, int64_t n_rows, uint64_t seed,
                           int shuffle)
{
    struct sr1__cursor *c;

    if (n_rows <= 0)
        return sr1__fail(SR1_E_INVALID, "no rows to go through");
    SR1__CALLOC(c, 1, "data cursor");
    c->n_rows = n_rows;
    c->seed = seed;
    c->shuffle = shuffle;
    c->order = sr1__calloc((size_t)n_rows, sizeof *c->order);
    if (!c->order) {
        sr1__free(c);
        return sr1__fail_nomem("data cursor");
    }
    shuffle_epoch(c);
    *out = c;
    return SR1_OK;
}

void sr1__cursor_free(struct sr1__cursor *c)
{
    if (!c)
        return;
    sr1__free(c->order);
    sr1__free(c);
}

sr1_status sr1__cursor_next(struct sr1__cursor *c, size_t max, int64_t *rows,
                            size_t *count)
{
    size_t n = 0;

    if (max == 0)
        return sr1__fail(SR1_E_INVALID, "a batch of no rows");
    while (n < max && c->position < c->n_rows)
        rows[n++] = c->order[c->position++];
    *count = n;
    if (c->position == c->n_rows) {
        c->epoch++;
        c->position = 0;
        shuffle_epoch(c);
    }
    return SR1_OK;
}

int64_t sr1__cursor_epoch(const struct sr1__cursor *c)
{
    return c->epoch;
}

int64_t sr1__cursor_position(const struct sr1__cursor *c)
{
    return c->position;
}

sr1_status sr1__cursor_seek(struct sr1__cursor *c, int64_t epoch, int64_t position)
{
    if (epoch < 0 || position < 0 || position >= c->n_rows)
        return sr1__fail(SR1_E_CORRUPT, "data position %lld of %lld rows in epoch %lld",
                         (long long)position, (long long)c->n_rows, (long long)epoch);
    c->epoch = epoch;
    c->position = position;
    shuffle_epoch(c);
    return SR1_OK;
}
