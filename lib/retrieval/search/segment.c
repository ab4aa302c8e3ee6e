/* retrieval/search/segment.c - postings in memory.
 *
 * Terms and posting bytes lie in an arena of pages, whose size is what the segment
 * takes. A term's bytes are a chain of pieces, each up to twice as large as the one
 * before, that ends in the place of the next. */
#include "retrieval/search/segment.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BITS 18
#define PAGE ((uint32_t)1 << PAGE_BITS)
#define PAGES_MAX ((size_t)1 << (32 - PAGE_BITS)) /* places are 32 bits */
#define PIECE_LEAST 16
#define PIECE_MOST 4096
#define LINK 4 /* bytes at a piece's end */
#define AHEAD ((size_t)8)

struct segment_term {
    uint32_t text; /* place, n bytes */
    uint32_t n;
    uint32_t hash;
    uint32_t next_doc; /* gaps count from here */
    uint32_t head;     /* first piece */
    uint32_t at;       /* where the next byte goes */
    uint32_t left;     /* bytes in the last piece */
    uint32_t piece;    /* size of the last piece */
    uint32_t bytes;
};

/* A term and its first 8 bytes, as a number that sorts alike. */
struct sort_key {
    uint64_t front;
    const unsigned char *text;
    uint32_t n;
    uint32_t term;
};

struct sr1__segment {
    unsigned char **pages;
    size_t n_pages;
    size_t pages_capacity;
    uint32_t used; /* of the last page */
    struct segment_term *terms;
    size_t n_terms;
    size_t capacity;
    uint32_t *table; /* 1 + term, 0: free */
    size_t slots;    /* a power of two */
};

/* ---- arena ---- */

static unsigned char *locate_bytes(const struct sr1__segment *s, uint32_t at)
{
    return s->pages[at >> PAGE_BITS] + (at & (PAGE - 1));
}

static sr1_status add_page(struct sr1__segment *s)
{
    if (s->n_pages == PAGES_MAX)
        return sr1__fail(SR1_E_LIMIT, "postings in memory: more than 4 GiB");
    if (s->n_pages == s->pages_capacity) {
        size_t capacity = s->pages_capacity == 0 ? 16 : s->pages_capacity * 2;
        unsigned char **pages = sr1__realloc(s->pages, capacity, sizeof(*pages));

        if (pages == NULL)
            return sr1__fail_nomem("postings");
        s->pages = pages;
        s->pages_capacity = capacity;
    }
    s->pages[s->n_pages] = sr1__malloc(PAGE);
    if (s->pages[s->n_pages] == NULL)
        return sr1__fail_nomem("postings");
    s->n_pages++;
    s->used = 0;
    return SR1_OK;
}

static sr1_status allocate_bytes(struct sr1__segment *s, uint32_t n, uint32_t *at)
{
    if (s->n_pages == 0 || PAGE - s->used < n)
        SR1__TRY(add_page(s));
    *at = (uint32_t)((s->n_pages - 1) << PAGE_BITS) + s->used;
    s->used += n;
    return SR1_OK;
}

static sr1_status next_piece(struct sr1__segment *s, struct segment_term *t)
{
    uint32_t size = t->piece == 0           ? PIECE_LEAST
                    : t->piece < PIECE_MOST ? t->piece * 2
                                            : PIECE_MOST;
    uint32_t at;

    SR1__TRY(allocate_bytes(s, size, &at));
    if (t->piece == 0)
        t->head = at;
    else
        memcpy(locate_bytes(s, t->at), &at, LINK);
    t->at = at;
    t->left = size - LINK;
    t->piece = size;
    return SR1_OK;
}

static sr1_status append_term_bytes(struct sr1__segment *s, struct segment_term *t,
                                    const void *bytes, size_t n)
{
    const unsigned char *from = bytes;

    if (n > UINT32_MAX - t->bytes)
        return sr1__fail(SR1_E_LIMIT, "postings of one term: more than 4 GiB");
    t->bytes += (uint32_t)n;
    while (n > 0) {
        uint32_t part;

        if (t->left == 0)
            SR1__TRY(next_piece(s, t));
        part = n < t->left ? (uint32_t)n : t->left;
        memcpy(locate_bytes(s, t->at), from, part);
        t->at += part;
        t->left -= part;
        from += part;
        n -= part;
    }
    return SR1_OK;
}

/* ---- terms ---- */

static sr1_status grow_segment_table(struct sr1__segment *s)
{
    size_t slots = s->slots == 0 ? 4096 : s->slots * 2;
    uint32_t *table = sr1__calloc(slots, sizeof(*table));

    if (table == NULL)
        return sr1__fail_nomem("terms");
    for (size_t i = 0; i < s->n_terms; i++) {
        size_t at = s->terms[i].hash & (slots - 1);

        while (table[at] != 0)
            at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    sr1__free(s->table);
    s->table = table;
    s->slots = slots;
    return SR1_OK;
}

static sr1_status new_term(struct sr1__segment *s, const char *text, uint32_t n,
                           uint32_t hash)
{
    struct segment_term t = {.n = n, .hash = hash};

    if (s->n_terms == s->capacity) {
        size_t capacity = s->capacity == 0 ? 1024 : s->capacity + s->capacity / 2;
        struct segment_term *terms = sr1__realloc(s->terms, capacity, sizeof(*terms));

        if (terms == NULL)
            return sr1__fail_nomem("terms");
        s->terms = terms;
        s->capacity = capacity;
    }
    SR1__TRY(allocate_bytes(s, n, &t.text));
    memcpy(locate_bytes(s, t.text), text, n);
    s->terms[s->n_terms++] = t;
    return SR1_OK;
}

static sr1_status find_segment_term(struct sr1__segment *s, const char *text, uint32_t n,
                                    uint32_t hash, struct segment_term **out)
{
    size_t at;

    if (4 * (s->n_terms + 1) > 3 * s->slots)
        SR1__TRY(grow_segment_table(s));
    for (at = hash & (s->slots - 1); s->table[at] != 0; at = (at + 1) & (s->slots - 1)) {
        struct segment_term *t = &s->terms[s->table[at] - 1];

        if (t->hash == hash && t->n == n &&
            memcmp(locate_bytes(s, t->text), text, n) == 0) {
            *out = t;
            return SR1_OK;
        }
    }
    SR1__TRY(new_term(s, text, n, hash));
    s->table[at] = (uint32_t)s->n_terms;
    *out = &s->terms[s->n_terms - 1];
    return SR1_OK;
}

/* Have memory bring what a later term will ask for: its slot, then its term. */
static void look_ahead(const struct sr1__segment *s, const struct sr1__inverted_batch *b,
                       size_t i)
{
    if (s->slots == 0 || i + 2 * AHEAD >= b->n_terms)
        return;
    __builtin_prefetch(&s->table[b->terms[i + 2 * AHEAD].hash & (s->slots - 1)]);
    i = s->table[b->terms[i + AHEAD].hash & (s->slots - 1)];
    if (i > 0)
        __builtin_prefetch(&s->terms[i - 1]);
}

sr1_status sr1__segment_add(struct sr1__segment *s, const struct sr1__inverted_batch *b,
                            uint32_t base)
{
    for (size_t i = 0; i < b->n_terms; i++) {
        const struct sr1__inverted_term *from = &b->terms[i];
        unsigned char first[SR1__POSTING_BYTES];
        unsigned char *end;
        struct segment_term *t = NULL;

        look_ahead(s, b, i);
        SR1__TRY(
            find_segment_term(s, b->text.data + from->text, from->n, from->hash, &t));
        end = sr1__posting_put(first, base + from->first - t->next_doc, from->tf);
        SR1__TRY(append_term_bytes(s, t, first, (size_t)(end - first)));
        if (from->size > 0)
            SR1__TRY(append_term_bytes(s, t, b->postings.data + from->bytes, from->size));
        t->next_doc = base + from->last + 1;
    }
    return SR1_OK;
}

uint64_t sr1__segment_bytes(const struct sr1__segment *s)
{
    return (uint64_t)s->n_pages * PAGE + s->pages_capacity * sizeof(*s->pages) +
           s->capacity * sizeof(*s->terms) + s->slots * sizeof(*s->table) +
           s->n_terms * sizeof(struct sort_key);
}

/* ---- a run ---- */

static int compare_keys(const void *pa, const void *pb)
{
    const struct sort_key *a = pa;
    const struct sort_key *b = pb;
    int c;

    if (a->front != b->front)
        return a->front < b->front ? -1 : 1;
    c = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
    return c != 0 ? c : a->n < b->n ? -1 : a->n > b->n;
}

static sr1_status sort_terms(const struct sr1__segment *s, struct sort_key **out)
{
    struct sort_key *keys = sr1__calloc(s->n_terms, sizeof(*keys));

    if (keys == NULL)
        return sr1__fail_nomem("terms");
    for (size_t i = 0; i < s->n_terms; i++) {
        struct sort_key k = {0, locate_bytes(s, s->terms[i].text), s->terms[i].n,
                             (uint32_t)i};

        for (uint32_t c = 0; c < 8; c++)
            k.front = k.front << 8 | (c < k.n ? k.text[c] : 0);
        keys[i] = k;
    }
    qsort(keys, s->n_terms, sizeof(*keys), compare_keys);
    *out = keys;
    return SR1_OK;
}

static sr1_status spill_varint(struct sr1__spool *out, uint32_t v)
{
    unsigned char bytes[5];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (unsigned char)(v | 0x80);
    bytes[n++] = (unsigned char)v;
    return sr1__spool_add(out, bytes, n);
}

static sr1_status spill_term(const struct sr1__segment *s, const struct segment_term *t,
                             struct sr1__spool *out)
{
    uint32_t at = t->head;
    uint32_t piece = PIECE_LEAST;
    uint32_t left = t->bytes;

    SR1__TRY(spill_varint(out, t->n));
    SR1__TRY(sr1__spool_add(out, locate_bytes(s, t->text), t->n));
    SR1__TRY(spill_varint(out, t->bytes));
    while (left > 0) {
        uint32_t n = left < piece - LINK ? left : piece - LINK;

        SR1__TRY(sr1__spool_add(out, locate_bytes(s, at), n));
        left -= n;
        if (left > 0)
            memcpy(&at, locate_bytes(s, at + n), LINK);
        piece = piece < PIECE_MOST ? piece * 2 : PIECE_MOST;
    }
    return SR1_OK;
}

/* Nothing stays: what was kept would leave the next run less of the memory allowed. */
static void clear_segment(struct sr1__segment *s)
{
    while (s->n_pages > 0)
        sr1__free(s->pages[--s->n_pages]);
    sr1__free(s->pages);
    sr1__free(s->terms);
    sr1__free(s->table);
    *s = (struct sr1__segment){0};
}

sr1_status sr1__segment_spill(struct sr1__segment *s, struct sr1__spool *out)
{
    struct sort_key *keys = NULL;
    sr1_status status = sort_terms(s, &keys);

    for (size_t i = 0; status == SR1_OK && i < s->n_terms; i++)
        status = spill_term(s, &s->terms[keys[i].term], out);
    sr1__free(keys);
    if (status == SR1_OK)
        status = sr1__spool_finish(out);
    clear_segment(s);
    return status;
}

sr1_status sr1__segment_new(struct sr1__segment **out)
{
    struct sr1__segment *s = sr1__calloc(1, sizeof(*s));

    if (s == NULL)
        return sr1__fail_nomem("postings");
    *out = s;
    return SR1_OK;
}

void sr1__segment_free(struct sr1__segment *s)
{
    if (s == NULL)
        return;
    clear_segment(s);
    sr1__free(s);
}
