/* tensor/model/kv_layout.c - families packed into blocks of any number of rows. */
#include "tensor/model/kv_layout.h"

#define MOST_QUERIES 64 /* of a block's rows: a tile of CUDA's kernels */

int64_t sr1__kv_layout_block(const struct sr1__kv_layout *l)
{
    return l->prefix + l->rows * l->tail;
}

int64_t sr1__kv_layout_places(const struct sr1__kv_layout *l)
{
    return l->n_blocks * sr1__kv_layout_block(l);
}

int64_t sr1__kv_double(int64_t n, int64_t most)
{
    int64_t size = 1;

    while (size < n)
        size *= 2;
    return size < most ? size : most;
}

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static int64_t round_length(int64_t n)
{
    int64_t step = SR1__KV_STEP;

    while (n > 8 * step)
        step *= 2;
    return round_up(n, step);
}

/* A family that does not fit into what is left of a block goes on in the next one, with
 * another copy of its prefix. */
static struct sr1__kv_layout pack_families(const struct sr1__kv_need *need, int64_t rows)
{
    int64_t used = 0, sum = 0, most = 0;

    for (int64_t i = 0; i < need->n_families * need->times; i++) {
        const struct sr1__kv_family *f = &need->families[i % need->n_families];

        for (int64_t left = f->rows; left > 0;) {
            int64_t room = rows - used % rows;

            sum = (room == rows ? 0 : sum) + f->prefix;
            most = sum > most ? sum : most;
            used += left < room ? left : room;
            left -= room;
        }
    }
    return (struct sr1__kv_layout){.n_blocks = (used + rows - 1) / rows,
                                   .rows = rows,
                                   .prefix = most,
                                   .tail = need->tail > 0 ? need->tail : 1};
}

/* With room for tokens and rows to come. */
static struct sr1__kv_layout add_room(const struct sr1__kv_need *need,
                                      struct sr1__kv_layout l)
{
    int64_t most = round_up(need->max_tokens, SR1__KV_STEP);

    l.prefix = round_length(l.prefix);
    l.tail = round_length(l.tail) < most ? round_length(l.tail) : most;
    l.n_blocks = sr1__kv_double(l.n_blocks, (need->max_rows + l.rows - 1) / l.rows);
    return l;
}

struct sr1__kv_layout sr1__kv_layout_choose(const struct sr1__kv_need *need)
{
    struct sr1__kv_layout alone = pack_families(need, 1), best = add_room(need, alone);
    int64_t most = MOST_QUERIES / need->queries;

    for (int64_t rows = 2; rows <= SR1__KV_MOST_ROWS && rows <= most; rows++) {
        struct sr1__kv_layout l = pack_families(need, rows), whole = add_room(need, l);

        if (8 * sr1__kv_layout_places(&l) <= 7 * sr1__kv_layout_places(&alone) &&
            sr1__kv_layout_places(&whole) < sr1__kv_layout_places(&best))
            best = whole;
    }
    return best;
}
