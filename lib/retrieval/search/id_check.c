/* retrieval/search/id_check.c - see id_check.h. Sampling by hash keeps all rows of a
 * sampled id, because equal ids have equal hashes. */
#include "retrieval/search/id_check.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>

#define MOST ((size_t)1 << 21)

static int is_watched(const struct sr1__id_check *c, uint64_t hash)
{
    return (hash & (((uint64_t)1 << c->thinned) - 1)) == 0;
}

static void thin_out(struct sr1__id_check *c)
{
    size_t kept = 0;

    c->thinned++;
    for (size_t i = 0; i < c->n; i++)
        if (is_watched(c, c->seen[i].hash))
            c->seen[kept++] = c->seen[i];
    c->n = kept;
}

sr1_status sr1__id_check_add(struct sr1__id_check *c, uint64_t hash)
{
    uint64_t row = c->rows++;

    while (c->n == MOST)
        thin_out(c);
    if (!is_watched(c, hash))
        return SR1_OK;
    SR1__RESERVE(c->seen, c->capacity, c->n + 1, "ids of a corpus");
    c->seen[c->n++] = (struct sr1__id_seen){hash, row};
    return SR1_OK;
}

static int compare_id_hashes(const void *a, const void *b)
{
    const struct sr1__id_seen *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

uint64_t sr1__id_check_end(struct sr1__id_check *c, const char *path)
{
    uint64_t repeated = 0;
    struct sr1__id_seen first = {0, UINT64_MAX};
    uint64_t earlier = 0;

    if (c->n > 0)
        qsort(c->seen, c->n, sizeof(*c->seen), compare_id_hashes);
    for (size_t i = 1; i < c->n; i++) {
        if (c->seen[i].hash != c->seen[i - 1].hash)
            continue;
        repeated++;
        if (c->seen[i].row < first.row) {
            first = c->seen[i];
            earlier = c->seen[i - 1].row;
        }
    }
    repeated <<= c->thinned;
    if (repeated > 0)
        sr1__log(
            SR1_LOG_WARN,
            "%s: %s%llu of %llu rows have the id of an earlier row (row %llu that of "
            "row %llu): a hit's id does not tell them apart",
            path, c->thinned > 0 ? "about " : "", (unsigned long long)repeated,
            (unsigned long long)c->rows, (unsigned long long)first.row + 1,
            (unsigned long long)earlier + 1);
    return repeated;
}

void sr1__id_check_free(struct sr1__id_check *c)
{
    sr1__free(c->seen);
    *c = (struct sr1__id_check){NULL};
}
