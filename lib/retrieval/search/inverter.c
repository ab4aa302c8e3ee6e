/* retrieval/search/inverter.c - a batch of texts to postings by term.
 *
 * Words repeat, so each thread keeps a dictionary of the terms it has met and a table of
 * short words with the term each became. Within a batch a term is a small number; records
 * (term, document, tf) are gathered in document order and sorted by counting. */
#include "retrieval/search/inverter.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

#define MEMO_SLOTS ((size_t)1 << 16)
#define MEMO_WORD 23                /* longest word in the table */
#define TERMS_MAX ((size_t)1 << 17) /* then the dictionary begins anew */
#define TEXT_MAX ((size_t)4 << 20)
#define AHEAD ((size_t)16)
#define NO_TERM UINT32_MAX /* a word that is dropped */

/* A short word and what became of it. The last byte of key is the word's length; 0: free.
 */
struct memo {
    uint64_t key[3];
    uint32_t term;
};

struct known_term {
    size_t text;
    uint32_t n;
    uint32_t hash;
};

/* A short word that waits while memory brings its slot. */
struct ahead {
    uint64_t key[3];
    size_t slot;
};

/* Apart from the rest, as every word of every text asks for it. */
struct batch_place {
    uint32_t batch; /* in which `local` is valid */
    uint32_t local;
};

struct posting_record {
    uint32_t local;
    uint32_t doc;
    uint32_t tf;
};

struct local_term {
    uint32_t term;
    uint32_t doc;    /* the last one; UINT32_MAX: none */
    uint32_t record; /* of that document */
    uint32_t df;
};

struct sr1__inverter {
    const struct sr1__analyzer *analyzer;
    struct sr1__buf scratch;
    struct sr1__buf token;
    struct memo *memo;         /* [MEMO_SLOTS] */
    struct ahead ahead[AHEAD]; /* a ring */
    size_t n_ahead;            /* words that ever went in */
    size_t n_taken;            /* and out */

    struct known_term *terms;
    struct batch_place *places; /* of each term */
    size_t n_terms;
    size_t capacity;
    size_t places_capacity;
    struct sr1__buf text;
    uint32_t *table; /* 1 + term, 0: free */
    size_t slots;    /* a power of two */

    uint32_t batch;
    uint32_t doc; /* under way, counted in the batch */
    uint32_t length;
    struct local_term *locals;
    size_t n_locals;
    size_t locals_capacity;
    struct posting_record *records;
    struct posting_record *sorted;
    size_t n_records;
    size_t records_capacity;
    size_t sorted_capacity;
};

/* ---- bytes ---- */

static unsigned char *put_posting_varint(unsigned char *p, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (unsigned char)(v | 0x80);
    *p++ = (unsigned char)v;
    return p;
}

static const unsigned char *get_varint(const unsigned char *p, uint32_t *v)
{
    *v = 0;
    for (int shift = 0;; shift += 7) {
        *v |= (uint32_t)(*p & 0x7F) << shift;
        if (*p++ < 0x80)
            return p;
    }
}

unsigned char *sr1__posting_put(unsigned char *p, uint32_t gap, uint32_t tf)
{
    p = put_posting_varint(p, gap * 2 + (tf == 1)); /* gap < 2^31 */
    return tf == 1 ? p : put_posting_varint(p, tf - 2);
}

const unsigned char *sr1__posting_get(const unsigned char *p, uint32_t *gap, uint32_t *tf)
{
    uint32_t v;

    p = get_varint(p, &v);
    *gap = v >> 1;
    *tf = 1;
    if (v & 1)
        return p;
    p = get_varint(p, &v);
    *tf = v + 2;
    return p;
}

/* Room for one more element of *v. */
static sr1_status grow_postings_array(void **v, size_t *capacity, size_t n, size_t size)
{
    size_t more = *capacity == 0 ? 1024 : *capacity * 2;
    void *grown;

    if (n < *capacity)
        return SR1_OK;
    grown = sr1__realloc(*v, more, size);
    if (grown == NULL)
        return sr1__fail_nomem("postings");
    *v = grown;
    *capacity = more;
    return SR1_OK;
}

/* ---- terms of this thread ---- */

static sr1_status grow_known_table(struct sr1__inverter *v)
{
    size_t slots = v->slots == 0 ? 4096 : v->slots * 2;
    uint32_t *table = sr1__calloc(slots, sizeof(*table));

    if (table == NULL)
        return sr1__fail_nomem("terms");
    for (size_t i = 0; i < v->n_terms; i++) {
        size_t at = v->terms[i].hash & (slots - 1);

        while (table[at] != 0)
            at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    sr1__free(v->table);
    v->table = table;
    v->slots = slots;
    return SR1_OK;
}

static sr1_status find_known_term(struct sr1__inverter *v, const char *text, size_t n,
                                  uint32_t *out)
{
    uint32_t hash = (uint32_t)sr1__hash64(text, n, 0);
    struct known_term t = {v->text.len, (uint32_t)n, hash};
    size_t at;

    if (2 * (v->n_terms + 1) > v->slots)
        SR1__TRY(grow_known_table(v));
    for (at = hash & (v->slots - 1); v->table[at] != 0; at = (at + 1) & (v->slots - 1)) {
        const struct known_term *k = &v->terms[v->table[at] - 1];

        if (k->hash == hash && k->n == n &&
            memcmp(v->text.data + k->text, text, n) == 0) {
            *out = v->table[at] - 1;
            return SR1_OK;
        }
    }
    sr1__buf_add(&v->text, text, n);
    SR1__TRY(sr1__buf_status(&v->text, "terms"));
    SR1__TRY(grow_postings_array((void **)&v->terms, &v->capacity, v->n_terms,
                                 sizeof(*v->terms)));
    SR1__TRY(grow_postings_array((void **)&v->places, &v->places_capacity, v->n_terms,
                                 sizeof(*v->places)));
    v->places[v->n_terms] = (struct batch_place){0, 0};
    v->terms[v->n_terms++] = t;
    v->table[at] = (uint32_t)v->n_terms;
    *out = (uint32_t)v->n_terms - 1;
    return SR1_OK;
}

static void forget_terms(struct sr1__inverter *v)
{
    memset(v->memo, 0, MEMO_SLOTS * sizeof(*v->memo));
    if (v->slots > 0)
        memset(v->table, 0, v->slots * sizeof(*v->table));
    v->n_terms = 0;
    sr1__buf_clear(&v->text);
}

static sr1_status analyse_word(struct sr1__inverter *v, const char *word, size_t n,
                               uint32_t *term)
{
    sr1__buf_clear(&v->token);
    SR1__TRY(v->analyzer->normalise(word, n, &v->token));
    *term = NO_TERM;
    if (v->token.len == 0 || v->token.len > SR1__TOKEN_MAX_BYTES)
        return SR1_OK;
    return find_known_term(v, v->token.data, v->token.len, term);
}

static int is_memo_word(const struct memo *m, const struct ahead *w)
{
    return m->key[0] == w->key[0] && m->key[1] == w->key[1] && m->key[2] == w->key[2];
}

/* Each word has a pair of slots: a new word goes to the first and moves the previous
 * one to the second. */
static sr1_status recall_term(struct sr1__inverter *v, const struct ahead *w,
                              uint32_t *term)
{
    struct memo *pair = &v->memo[w->slot];
    const char *word = (const char *)w->key;

    if (is_memo_word(&pair[0], w)) {
        *term = pair[0].term;
        return SR1_OK;
    }
    if (is_memo_word(&pair[1], w)) {
        *term = pair[1].term;
        return SR1_OK;
    }
    SR1__TRY(analyse_word(v, word, (size_t)(unsigned char)word[MEMO_WORD], term));
    pair[1] = pair[0];
    memcpy(pair[0].key, w->key, sizeof(pair[0].key));
    pair[0].term = *term;
    return SR1_OK;
}

/* ---- documents ---- */

static sr1_status new_local(struct sr1__inverter *v, uint32_t term)
{
    struct local_term l = {term, UINT32_MAX, 0, 0};

    SR1__TRY(grow_postings_array((void **)&v->locals, &v->locals_capacity, v->n_locals,
                                 sizeof(*v->locals)));
    v->places[term] = (struct batch_place){v->batch, (uint32_t)v->n_locals};
    v->locals[v->n_locals++] = l;
    return SR1_OK;
}

static sr1_status count_term(struct sr1__inverter *v, uint32_t term)
{
    struct local_term *l;

    if (term == NO_TERM)
        return SR1_OK;
    v->length++;
    if (v->places[term].batch != v->batch)
        SR1__TRY(new_local(v, term));
    l = &v->locals[v->places[term].local];
    if (l->doc == v->doc) {
        v->records[l->record].tf++;
        return SR1_OK;
    }
    SR1__TRY(grow_postings_array((void **)&v->records, &v->records_capacity, v->n_records,
                                 sizeof(*v->records)));
    l->doc = v->doc;
    l->record = (uint32_t)v->n_records;
    l->df++;
    v->records[v->n_records++] =
        (struct posting_record){v->places[term].local, v->doc, 1};
    return SR1_OK;
}

/* The word that has waited longest. */
static sr1_status take_ahead(struct sr1__inverter *v)
{
    uint32_t term;

    SR1__TRY(recall_term(v, &v->ahead[v->n_taken++ % AHEAD], &term));
    return count_term(v, term);
}

/* sr1__token_fn: a word before normalising. The order within a document does not matter.
 */
static sr1_status queue_word(void *arg, const char *word, size_t n)
{
    struct sr1__inverter *v = arg;
    struct ahead *w;
    uint32_t term;
    uint64_t h;

    if (n > MEMO_WORD) {
        SR1__TRY(analyse_word(v, word, n, &term));
        return count_term(v, term);
    }
    if (v->n_ahead - v->n_taken == AHEAD)
        SR1__TRY(take_ahead(v));
    w = &v->ahead[v->n_ahead++ % AHEAD];
    memset(w->key, 0, sizeof(w->key));
    memcpy(w->key, word, n);
    ((unsigned char *)w->key)[MEMO_WORD] = (unsigned char)n;
    h = (w->key[0] ^ w->key[1] * 0x9E3779B97F4A7C15u ^ w->key[2]) * 0xFF51AFD7ED558CCDu;
    w->slot = (size_t)(h >> 40) & (MEMO_SLOTS - 2);
    __builtin_prefetch(&v->memo[w->slot]);
    return SR1_OK;
}

sr1_status sr1__inverter_add(struct sr1__inverter *v, const char *text, size_t n,
                             uint32_t *length)
{
    v->length = 0;
    SR1__TRY(v->analyzer->split(text, n, &v->scratch, queue_word, v));
    while (v->n_taken < v->n_ahead)
        SR1__TRY(take_ahead(v));
    v->doc++;
    *length = v->length;
    return SR1_OK;
}

/* ---- the batch ---- */

/* Sort the records by term; within a term they stay in document order. Afterwards
 * locals[i].record is the end of term i. */
static sr1_status sort_records(struct sr1__inverter *v)
{
    uint32_t at = 0;

    while (v->sorted_capacity < v->n_records)
        SR1__TRY(grow_postings_array((void **)&v->sorted, &v->sorted_capacity,
                                     v->sorted_capacity, sizeof(*v->sorted)));
    for (size_t i = 0; i < v->n_locals; i++) {
        v->locals[i].record = at;
        at += v->locals[i].df;
    }
    for (size_t i = 0; i < v->n_records; i++)
        v->sorted[v->locals[v->records[i].local].record++] = v->records[i];
    return SR1_OK;
}

static void add_batch_postings(const struct posting_record *r, size_t n,
                               struct sr1__inverted_batch *out)
{
    for (size_t i = 1; i < n; i++) {
        unsigned char bytes[SR1__POSTING_BYTES];
        unsigned char *end =
            sr1__posting_put(bytes, r[i].doc - r[i - 1].doc - 1, r[i].tf);

        sr1__buf_add(&out->postings, bytes, (size_t)(end - bytes));
    }
}

static sr1_status add_batch_term(struct sr1__inverter *v, const struct local_term *l,
                                 struct sr1__inverted_batch *out)
{
    const struct known_term *k = &v->terms[l->term];
    const struct posting_record *r = &v->sorted[l->record - l->df];
    struct sr1__inverted_term t = {
        .text = out->text.len,
        .n = k->n,
        .hash = k->hash,
        .first = r[0].doc,
        .last = r[l->df - 1].doc,
        .tf = r[0].tf,
        .bytes = out->postings.len,
    };

    SR1__TRY(grow_postings_array((void **)&out->terms, &out->capacity, out->n_terms,
                                 sizeof(*out->terms)));
    sr1__buf_add(&out->text, v->text.data + k->text, k->n);
    add_batch_postings(r, l->df, out);
    t.size = out->postings.len - t.bytes;
    out->terms[out->n_terms++] = t;
    return SR1_OK;
}

sr1_status sr1__inverter_finish(struct sr1__inverter *v, struct sr1__inverted_batch *out)
{
    out->n_terms = 0;
    sr1__buf_clear(&out->text);
    sr1__buf_clear(&out->postings);
    SR1__TRY(sort_records(v));
    for (size_t i = 0; i < v->n_locals; i++)
        SR1__TRY(add_batch_term(v, &v->locals[i], out));
    SR1__TRY(sr1__buf_status(&out->text, "terms"));
    SR1__TRY(sr1__buf_status(&out->postings, "postings"));
    v->n_locals = 0;
    v->n_records = 0;
    v->doc = 0;
    v->batch++;
    if (v->n_terms > TERMS_MAX || v->text.len > TEXT_MAX)
        forget_terms(v);
    return SR1_OK;
}

void sr1__inverted_batch_init(struct sr1__inverted_batch *b)
{
    memset(b, 0, sizeof(*b));
    sr1__buf_init(&b->text, 0);
    sr1__buf_init(&b->postings, 0);
}

void sr1__inverted_batch_free(struct sr1__inverted_batch *b)
{
    sr1__free(b->terms);
    sr1__buf_free(&b->text);
    sr1__buf_free(&b->postings);
}

sr1_status sr1__inverter_new(struct sr1__inverter **out,
                             const struct sr1__analyzer *analyzer)
{
    struct sr1__inverter *v = sr1__calloc(1, sizeof(*v));

    if (v == NULL)
        return sr1__fail_nomem("postings");
    v->analyzer = analyzer;
    v->batch = 1;
    sr1__buf_init(&v->scratch, 0);
    sr1__buf_init(&v->token, 0);
    sr1__buf_init(&v->text, 0);
    v->memo = sr1__calloc(MEMO_SLOTS, sizeof(*v->memo));
    if (v->memo == NULL) {
        sr1__inverter_free(v);
        return sr1__fail_nomem("postings");
    }
    *out = v;
    return SR1_OK;
}

void sr1__inverter_free(struct sr1__inverter *v)
{
    if (v == NULL)
        return;
    sr1__free(v->memo);
    sr1__free(v->terms);
    sr1__free(v->places);
    sr1__free(v->table);
    sr1__free(v->locals);
    sr1__free(v->records);
    sr1__free(v->sorted);
    sr1__buf_free(&v->scratch);
    sr1__buf_free(&v->token);
    sr1__buf_free(&v->text);
    sr1__free(v);
}
