/* retrieval/search/doc_cache.c - unpacking a block and reading a row's JSON takes longer
 * than the ranking that found it, so documents that are found again and again stay taken
 * apart.
 *
 * Shards by number, each a hash table with chains and a ring by age, in which a document
 * that was used since has a second chance. A document
 * carries its own links, so that keeping it takes no memory and cannot fail. */
#include "retrieval/search/doc_cache.h"

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/row_scan.h"
#include "retrieval/search/use_ring.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SHARDS 16
#define SLOTS 1024 /* of a shard */

struct sr1__doc {
    struct sr1__use use; /* this and chain: under the lock of its shard */
    struct sr1__doc *chain;
    atomic_int references;
    int used; /* since it was passed over */
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

/* Bytes of a text, which need not end in NUL. */
struct doc_text {
    const char *s;
    size_t n;
};

/* Bytes of the text and a NUL once each NUL within is U+FFFD. */
static size_t compute_text_room(struct doc_text t)
{
    const char *end = t.s + t.n;
    size_t room = t.n + 1;

    for (const char *p = t.s; (p = memchr(p, '\0', (size_t)(end - p))) != NULL; p++)
        room += 2;
    return room;
}

static void copy_doc_text(char *to, struct doc_text t)
{
    const char *p = t.s;
    const char *end = t.s + t.n;

    while (p < end) {
        const char *nul = memchr(p, '\0', (size_t)(end - p));
        size_t run = (size_t)((nul != NULL ? nul : end) - p);

        memcpy(to, p, run);
        to += run;
        p += run;
        if (nul != NULL) {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
            p++;
        }
    }
    *to = '\0';
}

static sr1_status make_doc(struct sr1__doc **out, uint32_t number, struct doc_text id,
                           struct doc_text contents, struct doc_text row)
{
    size_t contents_at = compute_text_room(id);
    size_t row_at = contents_at + compute_text_room(contents);
    size_t bytes = sizeof(struct sr1__doc) + row_at + compute_text_room(row);
    struct sr1__doc *d = sr1__malloc(bytes);

    if (d == NULL)
        return sr1__fail_nomem("document");
    *d = (struct sr1__doc){
        .number = number, .bytes = bytes, .contents = contents_at, .row = row_at};
    atomic_init(&d->references, 1);
    copy_doc_text(d->text, id);
    copy_doc_text(d->text + contents_at, contents);
    copy_doc_text(d->text + row_at, row);
    *out = d;
    return SR1_OK;
}

sr1_status sr1__doc_new(struct sr1__doc **out, uint32_t number, const char *id,
                        const char *contents, size_t contents_size, const char *row,
                        size_t row_size)
{
    return make_doc(out, number, (struct doc_text){id, strlen(id)},
                    (struct doc_text){contents, contents_size},
                    (struct doc_text){row, row_size});
}

static sr1_status make_doc_of_members(struct sr1__doc **out, uint32_t number,
                                      const json_t *o, struct doc_text row)
{
    const json_t *id = json_object_get(o, "id");
    const json_t *contents = json_object_get(o, "contents");
    char digits[32];
    struct doc_text name = {json_string_value(id), json_string_length(id)};

    if (!json_is_string(contents) || (!json_is_string(id) && !json_is_integer(id)))
        return sr1__fail(SR1_E_PARSE, "row %" PRIu32 " has no id or no contents", number);
    if (json_is_integer(id)) {
        int n =
            snprintf(digits, sizeof(digits), "%" PRId64, (int64_t)json_integer_value(id));

        name = (struct doc_text){digits, (size_t)n};
    }
    return make_doc(
        out, number, name,
        (struct doc_text){json_string_value(contents), json_string_length(contents)},
        row);
}

static sr1_status parse_doc_json(struct sr1__doc **out, uint32_t number,
                                 struct doc_text row)
{
    json_t *o = NULL;
    sr1_status status = sr1__json_parse(&o, row.s, row.n, "stored row");

    if (status == SR1_E_NOMEM)
        return status;
    if (status != SR1_OK)
        return sr1__fail(SR1_E_PARSE, "row %" PRIu32 " is not JSON", number);
    status = make_doc_of_members(out, number, o, row);
    json_decref(o);
    return status;
}

sr1_status sr1__doc_parse(struct sr1__doc **out, uint32_t number, const char *row,
                          size_t n)
{
    struct doc_text text = {row, n};
    struct sr1__scanned_row scanned;
    struct sr1__buf scratch;
    sr1_status status;
    int known = 0;

    sr1__buf_init(&scratch, SIZE_MAX / 2);
    status = sr1__row_scan(row, n, &scratch, &known, &scanned);
    if (status == SR1_OK && known)
        status = make_doc(out, number, (struct doc_text){scanned.id, scanned.id_size},
                          (struct doc_text){scanned.contents, scanned.size}, text);
    else if (status == SR1_OK)
        status = parse_doc_json(out, number, text);
    sr1__buf_free(&scratch);
    return status;
}

void sr1__doc_retain(struct sr1__doc *d)
{
    atomic_fetch_add(&d->references, 1);
}

size_t sr1__doc_bytes(const struct sr1__doc *d)
{
    return d->bytes;
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

static struct sr1__doc **find_doc_slot(struct shard *s, uint32_t number)
{
    return &s->slots[number / SHARDS % SLOTS];
}

/* The oldest that was not used since it was put in, or since it was last passed over:
 * moving a document at every use would touch its neighbours' memory too. */
static struct sr1__doc *choose_oldest(struct shard *s)
{
    struct sr1__doc *d = (struct sr1__doc *)s->ring.oldest;

    while (d->used) {
        d->used = 0;
        sr1__use_unlink(&s->ring, &d->use);
        sr1__use_link(&s->ring, &d->use);
        d = (struct sr1__doc *)s->ring.oldest;
    }
    return d;
}

static void drop_oldest(struct shard *s)
{
    struct sr1__doc *d = choose_oldest(s);
    struct sr1__doc **p = find_doc_slot(s, d->number);

    while (*p != d)
        p = &(*p)->chain;
    *p = d->chain;
    sr1__use_unlink(&s->ring, &d->use);
    s->bytes -= d->bytes;
    sr1__doc_release(d);
}

static struct sr1__doc *find_cached_doc(struct shard *s, uint32_t number)
{
    struct sr1__doc *d = *find_doc_slot(s, number);

    while (d != NULL && d->number != number)
        d = d->chain;
    return d;
}

struct sr1__doc *sr1__doc_cache_get(struct sr1__doc_cache *c, uint32_t number)
{
    struct shard *s = shard_of(c, number);
    struct sr1__doc *d;

    pthread_mutex_lock(&s->lock);
    d = find_cached_doc(s, number);
    if (d != NULL) {
        d->used = 1;
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
    if (find_cached_doc(s, d->number) == NULL) {
        struct sr1__doc **slot = find_doc_slot(s, d->number);

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
