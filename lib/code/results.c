/* code/results.c - results by key. On disk they are the records of search/disk_store.h;
 * in memory a table that is emptied when it is full. */
#include "code/results.h"

#include "base/mem.h"
#include "base/rng.h"
#include "search/disk_store.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define DISK_BYTES ((uint64_t)1 << 32)

struct entry {
    char *bytes; /* key, then value; NULL: free */
    size_t key_len;
    size_t value_len;
    uint64_t hash;
};

struct sr1__results {
    pthread_mutex_t lock;
    struct sr1__disk_store *disk; /* NULL: in memory */
    struct entry *slots;          /* open addressing; NULL: nothing is kept */
    size_t n_slots;               /* a power of two, at least twice max */
    size_t n;
    size_t max;
};

static struct entry *find(struct sr1__results *r, const struct sr1__buf *key,
                          uint64_t hash)
{
    size_t at = (size_t)hash & (r->n_slots - 1);

    while (r->slots[at].bytes != NULL &&
           (r->slots[at].hash != hash || r->slots[at].key_len != key->len ||
            memcmp(r->slots[at].bytes, key->data, key->len) != 0))
        at = (at + 1) & (r->n_slots - 1);
    return &r->slots[at];
}

static void empty(struct sr1__results *r)
{
    for (size_t i = 0; i < r->n_slots; i++)
        sr1__free(r->slots[i].bytes);
    memset(r->slots, 0, r->n_slots * sizeof(*r->slots));
    r->n = 0;
}

static void keep(struct sr1__results *r, const struct sr1__buf *key,
                 const struct sr1__buf *value, uint64_t hash)
{
    struct entry *e;
    char *bytes;

    if (find(r, key, hash)->bytes != NULL)
        return; /* the same, by what a key is */
    bytes = sr1__malloc(key->len + value->len);
    if (bytes == NULL)
        return;
    memcpy(bytes, key->data, key->len);
    memcpy(bytes + key->len, value->data, value->len);
    if (r->n == r->max)
        empty(r);
    e = find(r, key, hash);
    *e = (struct entry){bytes, key->len, value->len, hash};
    r->n++;
}

int sr1__results_get(struct sr1__results *r, const struct sr1__buf *key,
                     struct sr1__buf *value)
{
    const struct entry *e;
    int64_t time;
    int found;

    if (r->disk != NULL)
        return sr1__disk_store_get(r->disk, key->data, key->len, value, &time) != 0;
    if (r->slots == NULL)
        return 0;
    pthread_mutex_lock(&r->lock);
    e = find(r, key, sr1__hash64(key->data, key->len, 0));
    found = e->bytes != NULL;
    if (found)
        sr1__buf_add(value, e->bytes + e->key_len, e->value_len);
    pthread_mutex_unlock(&r->lock);
    return found;
}

void sr1__results_put(struct sr1__results *r, const struct sr1__buf *key,
                      const struct sr1__buf *value)
{
    if (r->disk != NULL) {
        sr1__disk_store_put(r->disk, key->data, key->len, value->data, value->len,
                            (int64_t)time(NULL) * 1000);
    } else if (r->slots != NULL) {
        pthread_mutex_lock(&r->lock);
        keep(r, key, value, sr1__hash64(key->data, key->len, 0));
        pthread_mutex_unlock(&r->lock);
    }
}

static sr1_status make_table(struct sr1__results *r, int64_t entries)
{
    if (entries == 0)
        return SR1_OK;
    r->max = (size_t)entries;
    for (r->n_slots = 64; r->n_slots < 2 * r->max; r->n_slots *= 2)
        continue;
    r->slots = sr1__calloc(r->n_slots, sizeof(*r->slots));
    return r->slots != NULL ? SR1_OK : sr1__fail_nomem("results of programs");
}

sr1_status sr1__results_new(struct sr1__results **out, const char *folder,
                            int64_t entries)
{
    struct sr1__results *r = sr1__calloc(1, sizeof(*r));
    sr1_status status;

    if (r == NULL)
        return sr1__fail_nomem("results of programs");
    pthread_mutex_init(&r->lock, NULL);
    status = folder != NULL ? sr1__disk_store_open(&r->disk, folder, DISK_BYTES)
                            : make_table(r, entries);
    if (status != SR1_OK) {
        sr1__results_free(r);
        return status;
    }
    *out = r;
    return SR1_OK;
}

void sr1__results_free(struct sr1__results *r)
{
    if (r == NULL)
        return;
    if (r->slots != NULL)
        empty(r);
    sr1__disk_store_close(r->disk);
    sr1__free(r->slots);
    pthread_mutex_destroy(&r->lock);
    sr1__free(r);
}
