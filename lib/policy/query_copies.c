/* policy/query_copies.c - see query_copies.h. */
#include "policy/query_copies.h"

#include "base/mem.h"
#include "base/rng.h"
#include "policy/rollout_internal.h"

#include <string.h>

/* By a hash of its id: a collision would only give a question other streams. */
struct sr1__asked_query {
    uint64_t id;
    int64_t times;
};

static struct sr1__asked_query *find_asked(const struct sr1__query_copies *c, uint64_t id)
{
    struct sr1__hash_probe p = {id};

    while (sr1__hash_index_next(&c->index, &p))
        if (c->asked[p.item].id == id)
            return &c->asked[p.item];
    return NULL;
}

static sr1_status number_copy(struct sr1__query_copies *c, sr1_query *q)
{
    char buf[SR1__QUERY_ID_MAX];
    const char *id = sr1__query_id(q, buf);
    uint64_t hash = sr1__hash64(id, strlen(id), 0);
    struct sr1__asked_query *found = find_asked(c, hash);

    if (!found) {
        SR1__RESERVE(c->asked, c->cap, c->n + 1, "questions of a step");
        SR1__TRY(sr1__hash_index_add(&c->index, hash, c->n));
        found = &c->asked[c->n++];
        *found = (struct sr1__asked_query){.id = hash};
    }
    q->copy = found->times++;
    return SR1_OK;
}

sr1_status sr1__query_copies_number(struct sr1__query_copies *c, sr1_query *queries,
                                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(number_copy(c, &queries[i]));
    return SR1_OK;
}

void sr1__query_copies_free(struct sr1__query_copies *c)
{
    sr1__hash_index_free(&c->index);
    sr1__free(c->asked);
    *c = (struct sr1__query_copies){0};
}
