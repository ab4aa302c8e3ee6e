/* retrieval/search/scored_lists.c - see scored_lists.h. A table with one place for a
 * term; a list that comes to a taken place drives the other one out. */
#include "retrieval/search/scored_lists.h"

#include "base/mem.h"
#include "base/rng.h"

#define PLACES 16384
#define BYTES_MAX ((size_t)8 << 20) /* then all lists are dropped */
#define POSTING_BYTES (sizeof(uint32_t) + sizeof(float))

struct kept_list {
    const unsigned char *term; /* its postings in the index; NULL: none */
    struct sr1__scored_list list;
};

struct sr1__scored_lists {
    const struct sr1__index *ix;
    const struct sr1__bm25_norm *norm;
    const uint8_t *codes;
    struct sr1__postings postings;
    size_t bytes;
    struct kept_list places[PLACES];
};

static void drop_list(struct sr1__scored_lists *s, struct kept_list *k)
{
    s->bytes -= k->list.n * POSTING_BYTES;
    sr1__free(k->list.docs);
    *k = (struct kept_list){NULL, {NULL, NULL, 0}};
}

static void drop_all_lists(struct sr1__scored_lists *s)
{
    for (size_t i = 0; i < PLACES; i++)
        drop_list(s, &s->places[i]);
}

static sr1_status decode_list(struct sr1__scored_lists *s,
                              const struct sr1__index_term *term,
                              struct sr1__scored_list *list)
{
    struct sr1__postings *p = &s->postings;
    uint32_t n = 0;

    SR1__TRY(sr1__postings_open(p, s->ix, term));
    for (; p->block < p->n_blocks; p->block++) {
        if (p->dir != NULL)
            SR1__TRY(sr1__postings_decode(p));
        SR1__TRY(sr1__postings_decode_tfs(p));
        for (uint32_t i = 0; i < p->count; i++, n++) {
            list->docs[n] = p->docs[i];
            list->saturation[n] =
                sr1__bm25_saturation(s->norm, p->tfs[i], s->codes[p->docs[i]]);
        }
    }
    return SR1_OK;
}

static sr1_status fill_place(struct sr1__scored_lists *s,
                             const struct sr1__index_term *term, struct kept_list *k)
{
    struct sr1__scored_list list = {sr1__calloc(term->df, POSTING_BYTES), NULL, term->df};
    sr1_status status;

    if (list.docs == NULL)
        return sr1__fail_nomem("postings");
    list.saturation = (float *)(list.docs + term->df);
    status = decode_list(s, term, &list);
    if (status != SR1_OK) {
        sr1__free(list.docs);
        return status;
    }
    *k = (struct kept_list){term->bytes, list};
    s->bytes += list.n * POSTING_BYTES;
    return SR1_OK;
}

sr1_status sr1__scored_lists_get(struct sr1__scored_lists *s,
                                 const struct sr1__index_term *term,
                                 const struct sr1__scored_list **out)
{
    uint64_t at = sr1__hash64(&term->bytes, sizeof(term->bytes), 0);
    struct kept_list *k = &s->places[at % PLACES];

    if (k->term != term->bytes) {
        if (s->bytes > BYTES_MAX)
            drop_all_lists(s);
        drop_list(s, k);
        SR1__TRY(fill_place(s, term, k));
    }
    *out = &k->list;
    return SR1_OK;
}

sr1_status sr1__scored_lists_new(struct sr1__scored_lists **out,
                                 const struct sr1__index *ix,
                                 const struct sr1__bm25_norm *norm)
{
    struct sr1__scored_lists *s = sr1__calloc(1, sizeof(*s));

    if (s == NULL)
        return sr1__fail_nomem("postings");
    s->ix = ix;
    s->norm = norm;
    s->codes = sr1__index_length_codes(ix);
    *out = s;
    return SR1_OK;
}

void sr1__scored_lists_free(struct sr1__scored_lists *s)
{
    if (s == NULL)
        return;
    drop_all_lists(s);
    sr1__free(s);
}
