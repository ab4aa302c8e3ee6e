/* retrieval/search/result_cache.c - a hash table with chains for finding, a ring in order
 * of use for leaving. */
#include "retrieval/search/result_cache.h"

#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/use_ring.h"

#include <pthread.h>
#include <string.h>

#define SLOTS 4096 /* chains stay short up to some ten thousand answers */

struct cache_entry {
    struct sr1__use use;
    struct cache_entry *chain;
    struct sr1__query_result *answer;
    size_t bytes;
    size_t slot;
    int32_t top_k;
    char query[];
};

struct sr1__search_cache {
    pthread_mutex_t lock;
    struct cache_entry *slots[SLOTS];
    struct sr1__use_ring ring;
    uint64_t bytes;
    uint64_t max_bytes;
};

sr1_status sr1__search_cache_new(struct sr1__search_cache **out, uint64_t max_bytes)
{
    struct sr1__search_cache *c = sr1__calloc(1, sizeof(*c));

    SR1__CHECK_ALLOC(c, "search cache");
    pthread_mutex_init(&c->lock, NULL);
    c->max_bytes = max_bytes;
    *out = c;
    return SR1_OK;
}

static void drop_cache_entry(struct sr1__search_cache *c, struct cache_entry *e)
{
    struct cache_entry **p = &c->slots[e->slot];

    while (*p != e)
        p = &(*p)->chain;
    *p = e->chain;
    sr1__use_unlink(&c->ring, &e->use);
    c->bytes -= e->bytes;
    sr1__query_result_free(e->answer);
    sr1__free(e);
}

void sr1__search_cache_free(struct sr1__search_cache *c)
{
    if (c == NULL)
        return;
    while (c->ring.oldest != NULL)
        drop_cache_entry(c, (struct cache_entry *)c->ring.oldest);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c);
}

static size_t find_cache_slot(const char *query, int32_t top_k)
{
    return sr1__hash64(query, strlen(query), (uint64_t)top_k) % SLOTS;
}

static struct cache_entry *find_cache_entry(struct sr1__search_cache *c,
                                            const char *query, int32_t top_k)
{
    struct cache_entry *e = c->slots[find_cache_slot(query, top_k)];

    while (e != NULL && (e->top_k != top_k || strcmp(e->query, query) != 0))
        e = e->chain;
    return e;
}

struct sr1__query_result *sr1__search_cache_get(struct sr1__search_cache *c,
                                                const char *query, int32_t top_k)
{
    struct sr1__query_result *a = NULL;
    struct cache_entry *e;

    if (c == NULL)
        return NULL;
    pthread_mutex_lock(&c->lock);
    e = find_cache_entry(c, query, top_k);
    if (e != NULL) {
        sr1__use_unlink(&c->ring, &e->use);
        sr1__use_link(&c->ring, &e->use);
        a = sr1__query_result_retain(e->answer);
    }
    pthread_mutex_unlock(&c->lock);
    return a;
}

static struct cache_entry *entry_new(const char *query, int32_t top_k,
                                     struct sr1__query_result *a)
{
    size_t n = strlen(query) + 1;
    struct cache_entry *e = sr1__calloc(1, sizeof(*e) + n);

    if (e == NULL)
        return NULL;
    memcpy(e->query, query, n);
    e->top_k = top_k;
    e->slot = find_cache_slot(query, top_k);
    e->answer = sr1__query_result_retain(a);
    e->bytes = sizeof(*e) + n + sr1__query_result_bytes(a);
    return e;
}

void sr1__search_cache_put(struct sr1__search_cache *c, const char *query, int32_t top_k,
                           struct sr1__query_result *a)
{
    struct cache_entry *e;

    if (c == NULL || sr1__query_result_bytes(a) > c->max_bytes)
        return;
    e = entry_new(query, top_k, a);
    if (e == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    if (find_cache_entry(c, query, top_k) != NULL || e->bytes > c->max_bytes) {
        sr1__query_result_free(e->answer);
        sr1__free(e);
    } else {
        e->chain = c->slots[e->slot];
        c->slots[e->slot] = e;
        sr1__use_link(&c->ring, &e->use);
        c->bytes += e->bytes;
        while (c->bytes > c->max_bytes)
            drop_cache_entry(c, (struct cache_entry *)c->ring.oldest);
    }
    pthread_mutex_unlock(&c->lock);
}
