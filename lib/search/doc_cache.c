/* search/doc_cache.c - unpacking a block and reading a row's JSON takes longer than the
 * ranking that found it, so documents that are found again and again stay taken apart.
 *
 * Shards by number, each a hash table with chains and a ring in order of use. A document
 * carries its own links, so that keeping it takes no memory and cannot fail. */
#include "search/doc_cache.h"

#include "base/json.h"
#include "base/mem.h"
#include "search/use_ring.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SHARDS 16
#define SLOTS 1024 /* of a shard */

struct sr1__doc {
    struct sr1__use use;    /* this and chain: under the lock of its shard */
    struct sr1__doc *chain;
    atomic_int references;
    uint32_t number;
    size_t bytes;
    size_t contents; /* where they begin in text; the id at 0 */
    size_t row;
    char text[];
};

struct shard {
    pthread_mutex_t lock;
    struct sr1__doc *slots[SLOTS];
    struct sr1__use_ring ring;
    uint64_t bytes;
};

struct sr1__doc_cache {
    uint64_t max_bytes; /* of a shard */
    struct shard shards[SHARDS];
};

/* ---- documents ---- */

/* Bytes of s[0..n) and a NUL once each NUL within is U+FFFD. */
static size_t room_for(const char *s, size_t n)
{
    size_t room = n + 1;

    for (const char *p = s; (p = memchr(p, '\0', n - (size_t)(p - s))) != NULL; p++)
        room += 2;
    return room;
}

static void put_text(char *to, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\0') {
            *to++ = s[i];
        } else {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
        }
    }
    *to = '\0';
}

sr1_status sr1__doc_new(struct sr1__doc **out, uint32_t number, const char *id,
                        const char *contents, size_t contents_size, const char *row,
                        size_t row_size)
{
    size_t id_size = strlen(id) + 1;
    size_t contents_room = room_for(contents, contents_size);
    size_t bytes =
        sizeof(struct sr1__doc) + id_size + contents_room + room_for(row, row_size);
    struct sr1__doc *d = sr1__calloc(1, bytes);

    if (d == NULL)
        return sr1__fail_nomem("document");
    atomic_init(&d->references, 1);
    d->number = number;
    d->bytes = bytes;
    d->contents = id_size;
    d->row = id_size + contents_room;
    memcpy(d->text, id, id_size);
    put_text(d->text + d->contents, contents, contents_size);
    put_text(d->text + d->row, row, row_size);
    *out = d;
    return SR1_OK;
}

static sr1_status take_apart(struct sr1__doc **out, uint32_t number, const json_t *o,
                             const char *row, size_t n)
{
    const json_t *id = json_object_get(o, "id");
    const json_t *contents = json_object_get(o, "contents");
    char name[32];

    if (!json_is_string(contents) || (!json_is_string(id) && !json_is_integer(id)))
        return sr1__fail(SR1_E_PARSE, "row %" PRIu32 " has no id or no contents", number);
    if (json_is_integer(id))
        snprintf(name, sizeof(name), "%" PRId64, (int64_t)json_integer_value(id));
    return sr1__doc_new(out, number, json_is_string(id) ? json_string_value(id) : name,
                        json_string_value(contents), json_string_length(contents), row,
                        n);
}

sr1_status sr1__doc_parse(struct sr1__doc **out, uint32_t number, const char *row,
                          size_t n)
{
    json_t *o = NULL;
    sr1_status status = sr1__json_parse(&o, row, n, "stored row");

    if (status == SR1_E_NOMEM)
        return status;
    if (status != SR1_OK)
        return sr1__fail(SR1_E_PARSE, "row %" PRIu32 " is not JSON", number);
    status = take_apart(out, number, o, row, n);
    json_decref(o);
    return status;
}

void sr1__doc_release(struct sr1__doc *d)
{
    if (d != NULL && atomic_fetch_sub(&d->references, 1) == 1)
        sr1__free(d);
}

const char *sr1__doc_id(const struct sr1__doc *d)
{
    return d->text;
}

const char *sr1__doc_contents(const struct sr1__doc *d)
{
    return d->text + d->contents;
}

const char *sr1__doc_row(const struct sr1__doc *d)
{
    return d->text + d->row;
}

/* ---- the cache ---- */

sr1_status sr1__doc_cache_new(struct sr1__doc_cache **out, uint64_t max_bytes)
{
    struct sr1__doc_cache *c = sr1__calloc(1, sizeof(*c));

    if (c == NULL)
        return sr1__fail_nomem("document cache");
    c->max_bytes = max_bytes / SHARDS;
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&c->shards[i].lock, NULL);
    *out = c;
    return SR1_OK;
}

/* Neighbours in the corpus are in different shards. */
static struct shard *shard_of(struct sr1__doc_cache *c, uint32_t number)
{
    return &c->shards[number % SHARDS];
}

static struct sr1__doc **slot_of(struct shard *s, uint32_t number)
{
    return &s->slots[number / SHARDS % SLOTS];
}

static void drop_oldest(struct shard *s)
{
    struct sr1__doc *d = (struct sr1__doc *)s->ring.oldest;
    struct sr1__doc **p = slot_of(s, d->number);

    while (*p != d)
        p = &(*p)->chain;
    *p = d->chain;
    sr1__use_unlink(&s->ring, &d->use);
    s->bytes -= d->bytes;
    sr1__doc_release(d);
}

static struct sr1__doc *find(struct shard *s, uint32_t number)
{
    struct sr1__doc *d = *slot_of(s, number);

    while (d != NULL && d->number != number)
        d = d->chain;
    return d;
}

struct sr1__doc *sr1__doc_cache_get(struct sr1__doc_cache *c, uint32_t number)
{
    struct shard *s = shard_of(c, number);
    struct sr1__doc *d;

    pthread_mutex_lock(&s->lock);
    d = find(s, number);
    if (d != NULL) {
        sr1__use_unlink(&s->ring, &d->use);
        sr1__use_link(&s->ring, &d->use);
        atomic_fetch_add(&d->references, 1);
    }
    pthread_mutex_unlock(&s->lock);
    return d;
}

void sr1__doc_cache_put(struct sr1__doc_cache *c, struct sr1__doc *d)
{
    struct shard *s = shard_of(c, d->number);

    if (d->bytes > c->max_bytes)
        return;
    pthread_mutex_lock(&s->lock);
    if (find(s, d->number) == NULL) {
        struct sr1__doc **slot = slot_of(s, d->number);

        atomic_fetch_add(&d->references, 1);
        d->chain = *slot;
        *slot = d;
        sr1__use_link(&s->ring, &d->use);
        s->bytes += d->bytes;
        while (s->bytes > c->max_bytes)
            drop_oldest(s);
    }
    pthread_mutex_unlock(&s->lock);
}

void sr1__doc_cache_free(struct sr1__doc_cache *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < SHARDS; i++) {
        while (c->shards[i].ring.oldest != NULL)
            drop_oldest(&c->shards[i]);
        pthread_mutex_destroy(&c->shards[i].lock);
    }
    sr1__free(c);
}
