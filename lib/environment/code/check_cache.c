/* environment/code/check_cache.c - a cache of results by key: on disk the records of
 * retrieval/search/disk_store.h, in memory a table that is emptied when it is full, of
 * entries or of bytes (a key holds a program). */
#include "environment/code/check_cache.h"

#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/disk_store.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define DISK_BYTES ((uint64_t)1 << 32)
#define MEMORY_BYTES ((size_t)256 << 20)

struct result_entry {
    char *bytes; /* key, then value; NULL: free */
    size_t key_len;
    size_t value_len;
    uint64_t hash;
};

struct sr1__check_cache {
    pthread_mutex_t lock;
    struct sr1__disk_store *disk; /* NULL: in memory */
    struct result_entry *slots;   /* open addressing; NULL: nothing is kept */
    size_t n_slots;               /* a power of two, at least twice max */
    size_t n;
    size_t max;
    size_t bytes; /* of keys and values */
};

static struct result_entry *find_result_entry(struct sr1__check_cache *r,
                                              const struct sr1__buf *key, uint64_t hash)
{
    size_t at = (size_t)hash & (r->n_slots - 1);

    while (r->slots[at].bytes != NULL &&
           (r->slots[at].hash != hash || r->slots[at].key_len != key->len ||
            memcmp(r->slots[at].bytes, key->data, key->len) != 0))
        at = (at + 1) & (r->n_slots - 1);
    return &r->slots[at];
}

static void clear_result_entries(struct sr1__check_cache *r)
{
    for (size_t i = 0; i < r->n_slots; i++)
        sr1__free(r->slots[i].bytes);
    memset(r->slots, 0, r->n_slots * sizeof(*r->slots));
    r->n = 0;
    r->bytes = 0;
}

static void insert_result_entry(struct sr1__check_cache *r, const struct sr1__buf *key,
                                const struct sr1__buf *value, uint64_t hash)
{
    size_t size = key->len + value->len;
    struct result_entry *e;
    char *bytes;

    if (size > MEMORY_BYTES || find_result_entry(r, key, hash)->bytes != NULL)
        return; /* the same, by what a key is */
    bytes = sr1__malloc(size);
    if (bytes == NULL)
        return;
    memcpy(bytes, key->data, key->len);
    memcpy(bytes + key->len, value->data, value->len);
    if (r->n == r->max || r->bytes + size > MEMORY_BYTES)
        clear_result_entries(r);
    e = find_result_entry(r, key, hash);
    *e = (struct result_entry){bytes, key->len, value->len, hash};
    r->n++;
    r->bytes += size;
}

int sr1__check_cache_get(struct sr1__check_cache *r, const struct sr1__buf *key,
                         struct sr1__buf *value)
{
    const struct result_entry *e;
    int64_t time;
    int found;

    if (r->disk != NULL)
        return sr1__disk_store_get(r->disk, key->data, key->len, value, &time) != 0;
    if (r->slots == NULL)
        return 0;
    pthread_mutex_lock(&r->lock);
    e = find_result_entry(r, key, sr1__hash64(key->data, key->len, 0));
    found = e->bytes != NULL;
    if (found)
        sr1__buf_add(value, e->bytes + e->key_len, e->value_len);
    pthread_mutex_unlock(&r->lock);
    return found;
}

void sr1__check_cache_put(struct sr1__check_cache *r, const struct sr1__buf *key,
                          const struct sr1__buf *value)
{
    if (r->disk != NULL) {
        sr1__disk_store_put(r->disk, key->data, key->len, value->data, value->len,
                            (int64_t)time(NULL) * 1000);
    } else if (r->slots != NULL) {
        pthread_mutex_lock(&r->lock);
        insert_result_entry(r, key, value, sr1__hash64(key->data, key->len, 0));
        pthread_mutex_unlock(&r->lock);
    }
}

static sr1_status make_table(struct sr1__check_cache *r, int64_t entries)
{
    if (entries == 0)
        return SR1_OK;
    r->max = (size_t)entries;
    for (r->n_slots = 64; r->n_slots < 2 * r->max; r->n_slots *= 2)
        continue;
    r->slots = sr1__calloc(r->n_slots, sizeof(*r->slots));
    return r->slots != NULL ? SR1_OK : sr1__fail_nomem("results of programs");
}

sr1_status sr1__check_cache_new(struct sr1__check_cache **out, const char *folder,
                                int64_t entries)
{
    struct sr1__check_cache *r = sr1__calloc(1, sizeof(*r));

    SR1__CHECK_ALLOC(r, "results of programs");
    pthread_mutex_init(&r->lock, NULL);
    SR1__RETURN_NEW(out, r,
                    folder != NULL ? sr1__disk_store_open(&r->disk, folder, DISK_BYTES)
                                   : make_table(r, entries),
                    sr1__check_cache_free);
}

void sr1__check_cache_free(struct sr1__check_cache *r)
{
    if (r == NULL)
        return;
    if (r->slots != NULL)
        clear_result_entries(r);
    sr1__disk_store_close(r->disk);
    sr1__free(r->slots);
    pthread_mutex_destroy(&r->lock);
    sr1__free(r);
}
