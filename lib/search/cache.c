/* search/cache.c - a hash table with chains for finding, a ring in order of use for
 * leaving. */
#include "search/cache.h"

#include "base/mem.h"
#include "base/rng.h"
#include "search/use_ring.h"

#include <pthread.h>
#include <string.h>

#define SLOTS 4096 /* chains stay short up to some ten thousand answers */

struct entry {
    struct sr1__use use;
    struct entry *chain;
    struct sr1__answer *answer;
    size_t bytes;
    size_t slot;
    int32_t top_k;
    char query[];
};

struct sr1__search_cache {
    pthread_mutex_t lock;
    struct entry *slots[SLOTS];
    struct sr1__use_ring ring;
    uint64_t bytes;
    uint64_t max_bytes;
};

sr1_status sr1__search_cache_new(struct sr1__search_cache **out, uint64_t max_bytes)
{
    struct sr1__search_cache *c = sr1__calloc(1, sizeof(*c));

    if (c == NULL)
        return sr1__fail_nomem("search cache");
    pthread_mutex_init(&c->lock, NULL);
    c->max_bytes = max_bytes;
    *out = c;
    return SR1_OK;
}

static void drop(struct sr1__search_cache *c, struct entry *e)
{
    struct entry **p = &c->slots[e->slot];

    while (*p != e)
        p = &(*p)->chain;
    *p = e->chain;
    sr1__use_unlink(&c->ring, &e->use);
    c->bytes -= e->bytes;
    sr1__answer_free(e->answer);
    sr1__free(e);
}

void sr1__search_cache_free(struct sr1__search_cache *c)
{
    if (c == NULL)
        return;
    while (c->ring.oldest != NULL)
        drop(c, (struct entry *)c->ring.oldest);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c);
}

static size_t slot_of(const char *query, int32_t top_k)
{
    return sr1__hash64(query, strlen(query), (uint64_t)top_k) % SLOTS;
}

static struct entry *find(struct sr1__search_cache *c, const char *query, int32_t top_k)
{
    struct entry *e = c->slots[slot_of(query, top_k)];

    while (e != NULL && (e->top_k != top_k || strcmp(e->query, query) != 0))
        e = e->chain;
    return e;
}

struct sr1__answer *sr1__search_cache_get(struct sr1__search_cache *c, const char *query,
                                          int32_t top_k)
{
    struct sr1__answer *a = NULL;
    struct entry *e;

    if (c == NULL)
        return NULL;
    pthread_mutex_lock(&c->lock);
    e = find(c, query, top_k);
    if (e != NULL) {
        sr1__use_unlink(&c->ring, &e->use);
        sr1__use_link(&c->ring, &e->use);
        a = sr1__answer_retain(e->answer);
    }
    pthread_mutex_unlock(&c->lock);
    return a;
}

static struct entry *entry_new(const char *query, int32_t top_k, struct sr1__answer *a)
{
    size_t n = strlen(query) + 1;
    struct entry *e = sr1__calloc(1, sizeof(*e) + n);

    if (e == NULL)
        return NULL;
    memcpy(e->query, query, n);
    e->top_k = top_k;
    e->slot = slot_of(query, top_k);
    e->answer = sr1__answer_retain(a);
    e->bytes = sizeof(*e) + n + sr1__answer_bytes(a);
    return e;
}

void sr1__search_cache_put(struct sr1__search_cache *c, const char *query, int32_t top_k,
                           struct sr1__answer *a)
{
    struct entry *e;

    if (c == NULL || sr1__answer_bytes(a) > c->max_bytes)
        return;
    e = entry_new(query, top_k, a);
    if (e == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    if (find(c, query, top_k) != NULL || e->bytes > c->max_bytes) {
        sr1__answer_free(e->answer);
        sr1__free(e);
    } else {
        e->chain = c->slots[e->slot];
        c->slots[e->slot] = e;
        sr1__use_link(&c->ring, &e->use);
        c->bytes += e->bytes;
        while (c->bytes > c->max_bytes)
            drop(c, (struct entry *)c->ring.oldest);
    }
    pthread_mutex_unlock(&c->lock);
}
