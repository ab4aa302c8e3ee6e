/* base/hash_index.c - open addressing over 32 bits of the hashes, at most half full. */
#include "base/hash_index.h"

#include "base/mem.h"

#define LEAST_SLOTS 64
#define ITEMS_MAX ((size_t)UINT32_MAX - 1)

struct sr1__hash_slot {
    uint32_t hash;
    uint32_t place; /* item + 1; 0: free */
};

int sr1__hash_index_next(const struct sr1__hash_index *x, struct sr1__hash_probe *p)
{
    while (p->tried < x->n_slots) {
        size_t at = ((size_t)(uint32_t)p->hash + p->tried) & (x->n_slots - 1);
        const struct sr1__hash_slot *s = &x->slots[at];

        if (s->place == 0)
            return 0;
        p->tried++;
        if (s->hash == (uint32_t)p->hash) {
            p->item = s->place - 1;
            return 1;
        }
    }
    return 0;
}

static void place_item(struct sr1__hash_index *x, struct sr1__hash_slot s)
{
    size_t at = s.hash & (x->n_slots - 1);

    while (x->slots[at].place != 0)
        at = (at + 1) & (x->n_slots - 1);
    x->slots[at] = s;
}

sr1_status sr1__hash_index_reserve(struct sr1__hash_index *x)
{
    struct sr1__hash_index more = {.n_slots = x->n_slots ? 2 * x->n_slots : LEAST_SLOTS,
                                   .n = x->n};

    if (2 * (x->n + 1) <= x->n_slots)
        return SR1_OK;
    SR1__CALLOC(more.slots, more.n_slots, "hash table");
    for (size_t i = 0; i < x->n_slots; i++)
        if (x->slots[i].place != 0)
            place_item(&more, x->slots[i]);
    sr1__free(x->slots);
    *x = more;
    return SR1_OK;
}

sr1_status sr1__hash_index_add(struct sr1__hash_index *x, uint64_t hash, size_t item)
{
    if (item >= ITEMS_MAX)
        return sr1__fail(SR1_E_LIMIT, "more than %zu elements in a hash table",
                         ITEMS_MAX);
    SR1__TRY(sr1__hash_index_reserve(x));
    place_item(x, (struct sr1__hash_slot){(uint32_t)hash, (uint32_t)item + 1});
    x->n++;
    return SR1_OK;
}

void sr1__hash_index_free(struct sr1__hash_index *x)
{
    sr1__free(x->slots);
    *x = (struct sr1__hash_index){0};
}
